"""Charts as files with a size on paper, and as self-contained pages."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from functools import cache, partial
from hashlib import sha256
from operator import mul
from pathlib import Path
from typing import Any

import altair as alt
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import escape

from workbench.charts import theme
from workbench.charts.chart_tables import chart_name, tables_html
from workbench.storage.errors import DataError, check_option
from workbench.storage.files import write_atomic

_ENDINGS = (".svg", ".png", ".pdf", ".html", ".json")
_INCHES = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / 72, "px": 1 / 96}
_LABELS = 11  # size of labels in a chart of this package, in px
_SIZED = {"axis": {"labelFontSize": _LABELS, "titleFontSize": _LABELS},
          "legend": {"labelFontSize": _LABELS, "titleFontSize": _LABELS},
          "header": {"labelFontSize": _LABELS, "titleFontSize": _LABELS},
          "title": {"fontSize": 14, "subtitleFontSize": _LABELS}, "text": {"fontSize": _LABELS}}  # fmt: skip
_PAGE = """\
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" \
content="default-src 'none'; script-src 'sha256-%(digest)s'; style-src 'unsafe-inline'; img-src data: blob:; \
base-uri 'none'; form-action 'none'"><title>%(title)s</title>
<style>.vega-embed .marks { %(width)s; height: auto !important }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%%); margin: 0 }
@media (prefers-reduced-motion: reduce) {
  .vega-embed * { animation: none !important; transition: none !important }
}
body { color: %(ink)s; background: %(paper)s; color-scheme: %(scheme)s; font: 13px/1.5 system-ui, sans-serif }
</style></head>
<body><main><h1 class="unseen">%(title)s</h1>%(chart)s</main>
<script>%(script)s</script></body></html>
"""
_CHART = """\
<div class="wb-chart"><script type="application/json">{spec}</script>{picture}</div>
{tables}
"""
_DRAW = f"""
for (const figure of document.querySelectorAll(".wb-chart")) {{
  const spec = JSON.parse(figure.querySelector("script").textContent);
  const target = figure.appendChild(document.createElement("div"));
  vegaEmbed(target, spec, {json.dumps(theme.EMBED | {"ast": True})}).then(() => {{
    target.querySelector("summary")?.setAttribute("aria-label", "Save the chart");
    figure.dataset.ready = "true";
  }}).catch(console.error);
}}
"""  # expressions are interpreted (ast), as the policy of pages lets no text become code
_ROUNDS = 4  # larger text makes a chart wider, which makes its text smaller


def save(
    chart: alt.TopLevelMixin,
    path: Path | str,
    *,
    width: str | float | None = None,
    dpi: float | None = None,
    font_size: float | None = None,
    dark: bool = False,
) -> Path:
    """Write a chart to a file, atomically.

    Parameters
    ----------
    chart : Altair chart
        One of this package's, or any other.
    path : path
        Path; the suffix selects the format: ``.svg``, ``.png``, ``.pdf``, ``.html`` (a page of its own,
        with tooltips, which loads nothing from elsewhere) or ``.json`` (the Vega-Lite specification).
    width : str or float, optional
        Width of the whole figure, with its legend: ``"8.5cm"``, or mm, in, pt, px; a number is in px (96 to
        the inch). The figure is scaled to it, text included.
    dpi : float, optional
        Pixels of a PNG for each inch, 192 by default, 300 where there is a `width`. The file states it, so
        that the picture has its size in a document.
    font_size : float, optional
        Size of the labels in the file, in pt; titles keep their proportion to it.
    dark : bool, default False
        Light text on a dark background instead of dark text on white.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    DataError
        If the suffix is unknown, or the width has no known unit.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> chart = wb.charts.in_context(annotations)
    >>> wb.save(chart, f"{mkdtemp()}/figure.png", width="8.5cm", dpi=300, font_size=8).suffix
    '.png'
    """
    import vl_convert  # noqa: PLC0415 - takes a while to import

    if not isinstance(chart, alt.TopLevelMixin):
        hint = "pass the chart first, then the path"
        raise DataError(f"expected a chart, got {type(chart).__name__}", hint=hint)
    target = Path(path)
    ending = target.suffix.lower()
    check_option("the ending of the path", ending, _ENDINGS)
    inches = None if width is None else _inches(width)
    themed = theme.complete(chart.to_dict())
    spec = theme.coloured(themed, dark=dark)
    if font_size is not None:
        spec = _with_labels_of(spec, font_size, inches)
    content: bytes | str
    if ending == ".json":
        content = json.dumps(spec, indent=1, ensure_ascii=False)
    elif ending == ".html":
        content = _page(spec, tables_html(themed), inches, dark=dark)
    elif ending == ".png":  # a unit of the chart is 1/96 in, and the library counts 1/72
        scale = 72 / 96 * (1.0 if inches is None else inches * 96 / _size(spec)[0])
        ppi = dpi or (192 if inches is None else 300)
        content = vl_convert.vegalite_to_png(spec, vl_version=theme.VEGA_LITE_VERSION, scale=scale, ppi=ppi)
    else:
        svg = str(vl_convert.vegalite_to_svg(spec, vl_version=theme.VEGA_LITE_VERSION))
        if inches is not None:
            wide, high = _size(spec)
            unit, many = ("", 72.0) if ending == ".pdf" else ("mm", 25.4)  # a PDF counts in points
            size = f'width="{inches * many:.6g}{unit}" height="{inches * many * high / wide:.6g}{unit}"'
            svg = re.sub(r'width="[\d.]+" height="[\d.]+"', size, svg, count=1)
        content = vl_convert.svg_to_pdf(svg) if ending == ".pdf" else svg
    write_atomic(target, content)
    return target


def _inches(width: str | float) -> float:
    matched = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*+([a-z]*)\s*", str(width))
    unit = (matched[2] or "px") if matched else ""
    if not matched or unit not in _INCHES or not float(matched[1]):
        raise DataError(f"the width is {width!r}", hint='write it as "8.5cm", or with mm, in, pt or px')
    return float(matched[1]) * _INCHES[unit]


def _size(spec: dict[str, Any]) -> tuple[float, float]:
    """Return width and height of the whole figure, in px."""
    import vl_convert  # noqa: PLC0415 - takes a while to import

    svg = str(vl_convert.vegalite_to_svg(spec, vl_version=theme.VEGA_LITE_VERSION))
    width, height = re.findall(r'width="([\d.]+)" height="([\d.]+)"', svg)[0]
    return float(width), float(height)


def _with_labels_of(spec: dict[str, Any], points: float, inches: float | None) -> dict[str, Any]:
    start = dict(alt.utils.update_nested({"config": _SIZED}, spec, copy=True))
    sized = start
    for _ in range(1 if inches is None else _ROUNDS):
        ratio = 1.0 if inches is None else inches * 96 / _size(sized)[0]
        factor = points * 96 / 72 / ratio / _LABELS
        sized = theme.changed(start, "fontsize", partial(mul, factor))
    return sized


def _page(spec: dict[str, Any], tables: str, inches: float | None, *, dark: bool) -> str:
    """Return a chart, with its tables below, as a page whose policy allows one script and no network."""
    script = chart_script()
    digest = b64encode(sha256(script.encode()).digest()).decode()
    width = "max-width: 100%" if inches is None else f"width: {inches:.4g}in !important"
    ink, paper = theme.page_colours(dark=dark)
    values = {
        "digest": digest, "width": width, "script": script, "ink": ink, "paper": paper,
        "scheme": "dark" if dark else "light", "title": escape(chart_name(spec) or "Chart"),
        "chart": chart_html(spec, tables=tables),
    }  # fmt: skip
    return _PAGE % values


def chart_html(spec: dict[str, Any], *, picture: str = "", tables: str | None = None) -> str:
    """Return a specification as HTML for `chart_script`, with its tables below.

    Where no script runs, a `picture` (SVG) takes its place.
    """
    picture = f"<noscript>{picture}</noscript>" if picture else ""
    tables = tables_html(spec) if tables is None else tables
    return _CHART.format(spec=htmlsafe_json_dumps(theme.wrapping(spec)), picture=picture, tables=tables)


@cache
def chart_script() -> str:
    """Return Vega and the code that draws the charts of a page as one self-contained script."""
    import vl_convert  # noqa: PLC0415 - takes a while to import

    return str(vl_convert.javascript_bundle(_DRAW, vl_version=theme.VEGA_LITE_VERSION))
