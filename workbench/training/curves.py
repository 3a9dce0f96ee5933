"""The picture of a training: its curves as SVG within HTML, which needs no library and no network."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from workbench.training.axes import PARTS, Axis, Floats, drawable, linear, logarithmic, smoothed, thin
from workbench.training.history import Training
from workbench.training.telling import UNKNOWN, Score, facts, number, scores_of, short

WIDTH, HEIGHT = 262, 232
LEFT, RIGHT, BOTTOM = 44, 18, 36  # what is left free around a plot
_STRIPS, _SLOTS = 3, 3  # scores in a panel, and panels of scores, at most
_TOP = 24  # pixels above each strip, for its title
_NOTES, _LONG = 4, 240  # lines below the picture, and how long they are, at most
_FEW, _DOTS = 19, 25  # parts of a curve of scores, and how many scores are marked, at most
_TICK = 14  # pixels from one tick's label to the next
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # in XML

_NO_MATHS = "mathjax_ignore tex2jax_ignore"  # a name with dollars is a name
_SECOND = ("state", "best")  # the facts that stand in a line of their own

# The first of each pair is for light pages, the second for dark ones. JupyterLab's own colours come first.
COLOURS = {
    "ink": ("--jp-content-font-color0", "#111111", "#f2f2f2"),
    "quiet": ("--jp-content-font-color1", "#424242", "#cccccc"),
    "paper": ("--jp-layout-color0", "#ffffff", "#141414"),
    "rule": ("--jp-border-color2", "#dddddd", "#444444"),
    "curve": ("--jp-brand-color1", "#1668b8", "#5aa9f0"),
}
"""Names of colours, JupyterLab's variable, and what is used elsewhere."""


def _style() -> str:
    """Return the rules of style. Nothing in them needs escaping in XML."""
    light = "".join(f"--wt-{name}:var({known},{first});" for name, (known, first, _) in COLOURS.items())
    dark = "".join(f"--wt-{name}:var({known},{second});" for name, (known, _, second) in COLOURS.items())
    mine = ".wt-training"
    return (
        f"{mine}{{{light}box-sizing:border-box;padding:6px 8px;background:var(--wt-paper);"
        "color:var(--wt-ink);font:12px/1.5 var(--jp-ui-font-family,system-ui,sans-serif);"
        "font-variant-numeric:tabular-nums;text-align:left}"
        f"@media (prefers-color-scheme:dark){{{mine}{{{dark}}}}}"
        f"{mine} .wt-line{{display:flex;flex-wrap:wrap;gap:0 14px}}"
        f"{mine} .wt-line span{{white-space:nowrap;unicode-bidi:isolate}}"
        f"{mine} .wt-line .wt-name{{font-weight:600;white-space:normal;overflow-wrap:anywhere}}"
        f"{mine} .wt-words,{mine} .wt-loss{{min-width:10ch}}{mine} .wt-time{{min-width:19ch}}"
        f"{mine}.wt-over .wt-time{{min-width:0}}{mine} .wt-speed{{min-width:12ch}}"
        f"{mine} .wt-line .wt-best{{white-space:normal}}"
        f"{mine} .wt-line .wt-state{{font-weight:600}}"
        f"{mine} p{{margin:2px 0;color:var(--wt-quiet);overflow-wrap:anywhere;unicode-bidi:isolate}}"
        f"{mine} .wt-mark{{display:none}}{mine} .wt-mark~.wt-untrusted{{display:none}}"
        f"{mine} .wt-mark~.wt-panels{{display:flex;flex-wrap:wrap;gap:8px}}"
        f"{mine} .wt-panels svg{{width:{WIDTH}px;height:{HEIGHT}px;flex:none;overflow:visible}}"
        f"{mine} text{{fill:var(--wt-quiet);font-size:11px}}"
        f"{mine} .wt-title,{mine} .wt-now{{fill:var(--wt-ink);font-size:12px;font-weight:600}}"
        f"{mine} .wt-end,{mine} .wt-now,{mine} .wt-y{{text-anchor:end}}"
        f"{mine} .wt-middle{{text-anchor:middle}}"
        f"{mine} .wt-rule{{stroke:var(--wt-rule);stroke-width:1}}"
        f"{mine} .wt-curve{{fill:none;stroke:var(--wt-curve);stroke-width:1.8;stroke-linejoin:round;"
        f"stroke-linecap:round}}{mine} .wt-raw{{stroke-width:1;opacity:.45}}"
        f"{mine} .wt-dot{{fill:var(--wt-paper);stroke:var(--wt-curve);stroke-width:1.5}}"
        f"{mine} .wt-top{{fill:var(--wt-curve)}}"
    )


class _Plot(NamedTuple):
    """A curve to draw.

    Attributes
    ----------
    title : str
        With the unit.
    now : str
        The newest value in words.
    x, y : array (n,)
        NaN is a gap.
    log : bool
        Whether `y` has a logarithmic axis.
    zero : bool
        Whether the axis of `y` begins at 0.
    smooth : bool
        Whether there is a smoothed curve too.
    dots : bool
        Whether the points are marked.
    top : int, optional
        The point that is the best.
    """

    title: str
    now: str
    x: Floats
    y: Floats
    log: bool = False
    zero: bool = False
    smooth: bool = False
    dots: bool = False
    top: int | None = None


def picture(training: Training, said: Sequence[str] = ()) -> str:
    """Return a training as HTML: a line of facts above, curves over the words trained on below.

    Parameters
    ----------
    training : Training
    said : sequence of str
        More lines for below the picture.

    Returns
    -------
    str
        A ``div`` that is well-formed XML. A page that drops styles and SVG, as JupyterLab does in a notebook
        that is not trusted, shows the facts and the notes.
    """
    told = facts(training)
    cells = {part: f'<span class="wt-{part}">{_clean(text)}</span>' for part, text in told.items()}
    first = " ".join(cells[part] for part in cells if part not in _SECOND)
    second = " ".join(cells[part] for part in _SECOND)
    name, over = _clean(training.name or "model"), " wt-over" if training.stopped else ""
    notes = [text for text in dict.fromkeys([*training.notes, *said]) if text != training.fits]
    return (
        f'<div class="wt-training{over} {_NO_MATHS}" role="group" aria-label="Training of {name}">'
        f"<style>{_style()}</style>"
        f'<div class="wt-line"><span class="wt-name">{name}</span> {first}</div>'
        f'<div class="wt-line">{second}</div>'
        + "".join(_line(text) for text in [training.fits] if text)
        + '<svg class="wt-mark" aria-hidden="true"></svg>'  # where SVG is dropped, what needs it is hidden
        + f'<div class="wt-panels" hidden="hidden">{"".join(_panels(training))}</div>'
        '<p class="wt-untrusted">The curves are shown where the notebook is trusted.</p>'
        + "".join(_line(text) for text in notes[-_NOTES:])
        + "</div>"
    )


def _clean(text: str) -> str:
    """Return text for HTML and XML, attributes too."""
    return escape(_FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", str(text)))


def _line(text: str) -> str:
    return f"<p>{_clean(text if len(text) <= _LONG else text[: _LONG - 1] + '…')}</p>"


def _panels(training: Training) -> list[str]:
    """Return the panels: loss, speed, and scores three by three."""
    words = drawable([number(point.get("tokens")) for point in training.history])
    losses = drawable([number(point.get("loss")) for point in training.history])
    speeds = drawable([number(point.get("tokens_per_second")) for point in training.history])
    x = _over(training)
    loss = _Plot("training loss, nats per word", _newest(losses, ".3f"), words, losses, smooth=True)
    speed = _Plot("words per second", _newest(speeds), words, speeds, zero=True)
    plots = _scores(training)
    slots = [plots[k : k + _STRIPS] for k in range(0, min(len(plots), _STRIPS * _SLOTS), _STRIPS)]
    empty = "no score yet" if not training.stopped else "no scores"
    return [
        _svg([loss], x, "no point yet"),
        _svg([speed], x, "no point yet"),
        *(_svg(slot, x, empty) for slot in slots or [[_nothing("development scores")]]),
    ]


def _scores(training: Training) -> list[_Plot]:
    """Return a plot for each score; what it is told by decides the best of each."""
    words = drawable([number(row.get("tokens")) for row in training.scores])
    found = []
    for name in scores_of(training):
        score = Score.of(name)
        y = drawable([number(row.get(name)) for row in training.scores], log=score.log)
        top = None
        if score.higher is not None and np.isfinite(y).any():
            top = int(np.nanargmax(y) if score.higher else np.nanargmin(y))
        known = y[np.isfinite(y)]
        now = score.told(float(known[-1])) if len(known) else UNKNOWN
        title = score.name + (", %" if score.percent else "")
        found.append(
            _Plot(title, now, words, 100 * y if score.percent else y, log=score.log, dots=True, top=top)
        )
    return found


def _nothing(title: str) -> _Plot:
    return _Plot(title, "", np.zeros(0), np.zeros(0))


def _newest(values: Floats, form: str = "") -> str:
    known = values[np.isfinite(values)]
    if not len(known):
        return ""
    return format(float(known[-1]), form) if form else short(float(known[-1]))


def _over(training: Training) -> Axis:
    """Return the axis of words: up to all that are planned, or a half, a quarter ... if all points fit."""
    points = [*training.history, *training.scores]
    words = drawable([number(point.get("tokens")) for point in points])
    most = float(np.nanmax(words)) if np.isfinite(words).any() else 0.0
    last = training.last
    step, steps = number(last.get("step")), training.steps
    if not training.stopped and most > 0 and 0 < step < steps:
        planned = most * steps / step
        most = planned / 2 ** min(math.floor(math.log2(planned / most)), 6)
    return linear(np.array([0.0, max(most, 1.0)]), LEFT, WIDTH - RIGHT, zero=True, exact=True)


def _svg(plots: Sequence[_Plot], x: Axis, empty: str) -> str:
    """Return a panel: plots one below the other over one axis."""
    low = HEIGHT - BOTTOM
    strip, gap = low / len(plots), 0 if len(plots) == 1 else 4
    parts = [
        _strip(plot, x, (round(k * strip) + _TOP, round((k + 1) * strip) - gap), empty)
        for k, plot in enumerate(plots)
    ]
    told = escape("; ".join(_told(plot, empty) for plot in plots))
    drawn = any(len(plot.y) for plot in plots)
    ticks = "".join(
        f'<text class="wt-middle wt-x" x="{place:.1f}" y="{low + 14}">{label}</text>'
        for place, label in zip(x.at(np.array(x.ticks)), x.labels, strict=True)
        if drawn
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" role="img" aria-label="{told}"><title>{told}</title>{"".join(parts)}{ticks}'
        f'<text class="wt-end" x="{WIDTH - RIGHT}" y="{HEIGHT - 6}">words trained on</text></svg>'
    )


def _told(plot: _Plot, empty: str) -> str:
    known = plot.y[np.isfinite(plot.y)]
    if not len(known):
        return _FORBIDDEN.sub("", f"{plot.title}: {empty}")
    first, last = short(float(known[0])), short(float(known[-1]))
    return _FORBIDDEN.sub("", f"{plot.title}: from {first} to {last} in {len(known)} points")


def _strip(plot: _Plot, x: Axis, rows: tuple[float, float], empty: str) -> str:
    """Return one plot between two rows of pixels, its title above."""
    high, low = rows
    few = 3 if low - high > 5 * _TICK else 2
    y = logarithmic(plot.y, low, high) if plot.log else linear(plot.y, low, high, ticks=few, zero=plot.zero)
    y = y.spaced(_TICK)
    right = WIDTH - RIGHT
    parts = [
        f'<text class="wt-title" x="2" y="{high - 9:.1f}">{_clean(plot.title)}</text>',
        f'<text class="wt-now" x="{right}" y="{high - 9:.1f}">{_clean(plot.now)}</text>',
    ]
    known = np.isfinite(plot.x) & np.isfinite(plot.y)
    if not known.any():
        middle = (LEFT + right) / 2
        parts.append(
            f'<path class="wt-rule" d="M{LEFT},{low:.1f} {right},{low:.1f}"/><text class="wt-middle wt-none" '
            f'x="{middle}" y="{(low + high) / 2:.1f}">{_clean(empty)}</text>'
        )
        return "<g>" + "".join(parts) + "</g>"
    for place, label in zip(y.at(np.array(y.ticks)), y.labels, strict=True):
        parts.append(
            f'<path class="wt-rule" d="M{LEFT},{place:.1f} {right},{place:.1f}"/>'
            f'<text class="wt-y" x="{LEFT - 6}" y="{place + 4:.1f}">{label}</text>'
        )
    if plot.smooth:
        parts += [
            _curve(plot.x, plot.y, x, y, kind="wt-curve wt-raw"),
            _curve(plot.x, smoothed(plot.y), x, y),
        ]
    else:
        parts.append(_curve(plot.x, plot.y, x, y, parts=_FEW if plot.dots else PARTS))
    if plot.dots:
        parts.append(_dots(plot, x, y))
    return "<g>" + "".join(parts) + "</g>"


def _curve(xs: Floats, ys: Floats, x: Axis, y: Axis, *, kind: str = "wt-curve", parts: int = PARTS) -> str:
    """Return a curve, thinned, with gaps; a point without neighbours is a dot."""
    ys = np.where(np.isfinite(xs), ys, np.nan)
    kept = thin(ys, parts)
    across, down = x.at(xs[kept]), y.at(ys[kept])
    runs: list[list[str]] = [[]]
    for a, b in zip(across.tolist(), down.tolist(), strict=True):
        if math.isnan(b):
            runs.append([])
        else:
            runs[-1].append(f"{a:.1f},{b:.1f}")
    path = "".join("M" + (" ".join(run) if len(run) > 1 else f"{run[0]}h0") for run in runs if run)
    return f'<path class="{kind}" d="{path}"/>'


def _dots(plot: _Plot, x: Axis, y: Axis) -> str:
    """Return marks of the points, where there are not too many, and of the best one."""
    some = np.flatnonzero(np.isfinite(plot.x) & np.isfinite(plot.y)).tolist()
    if len(some) > _DOTS:
        some = [plot.top] if plot.top is not None else []
    across, down = x.at(plot.x), y.at(plot.y)
    return "".join(
        f'<circle class="wt-dot{" wt-top" if k == plot.top else ""}" cx="{across[k]:.1f}" '
        f'cy="{down[k]:.1f}" r="{3 if k == plot.top else 2}"/>'
        for k in some
    )
