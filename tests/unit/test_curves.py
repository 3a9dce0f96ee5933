"""The picture of a training: numbers are read back out of the SVG."""

import math
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from workbench.training import axes, curves
from workbench.training.history import Training

SVG = "{http://www.w3.org/2000/svg}"
UNITS = {"k": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
EVIL = "</svg><script>alert(1)</script> & \"quoted\" 'x' \x00\ud800 \u202e $x^2$"


def parse(training, said=()):
    return ET.fromstring(curves.picture(training, said))  # noqa: S314 - ours


def number(label):
    return float(label[:-1]) * UNITS[label[-1]] if label[-1] in UNITS else float(label)


def drawn(svg, strip=0, curve=-1):
    """Return the points of a curve in numbers, told from the ticks and their labels alone; NaN is a gap."""
    group = svg.findall(f"{SVG}g")[strip]
    path = [p for p in group.iter(f"{SVG}path") if "wt-curve" in p.get("class")][curve].get("d")
    runs = [
        [tuple(map(float, pair.split(","))) for pair in run.replace("h0", "").split()]
        for run in path.split("M")[1:]
    ]
    across = [(float(t.get("x")), number(t.text)) for t in svg if "wt-x" in (t.get("class") or "")]
    down = [
        (float(t.get("y")) - 4, number(t.text)) for t in group.iter(f"{SVG}text") if t.get("class") == "wt-y"
    ]
    return runs, across, down


def reader(ticks, *, log=False):
    """Return the function from pixels to numbers that two ticks fix, and how much a pixel is."""
    (a, low), (b, high) = ticks[0], ticks[-1]
    if log:
        low, high = math.log(low), math.log(high)
    slope = (high - low) / (b - a)
    return (lambda p: low + (p - a) * slope), abs(slope)


def trained(losses, speeds=None, *, steps=None, **more):
    history = [
        {"step": k, "tokens": 1000 * k, "seconds": float(k), "loss": loss,
         "tokens_per_second": 5.0 if speeds is None else speeds[k - 1]}
        for k, loss in enumerate(losses, start=1)
    ]  # fmt: skip
    return Training("x", steps=steps or len(losses), history=history, **more)


@given(st.lists(st.floats(0.01, 1e4), min_size=3, max_size=60), st.integers(1, 9))
@example([5.0] * 4, 1)
@example([5.0, 5.0001, 5.0002], 1)
def test_the_curve_is_the_data(losses, ahead):
    panel = next(iter(parse(trained(losses, steps=ahead * len(losses))).iter(f"{SVG}svg")))
    (run,), across, down = drawn(panel, curve=0)
    to_x, x_pixel = reader(across)
    to_y, y_pixel = reader(down)
    assert len(run) == len(losses)
    rough = 0.06 + 0.2  # rounded to a tenth of a pixel, as the ticks are
    for k, ((x, y), loss) in enumerate(zip(run, losses, strict=True), start=1):
        assert to_x(x) == pytest.approx(1000 * k, abs=rough * x_pixel)
        assert to_y(y) == pytest.approx(loss, abs=rough * y_pixel)
        assert curves.LEFT <= x <= curves.WIDTH - curves.RIGHT + 0.1
        assert 0 <= y <= curves.HEIGHT


@given(st.lists(st.floats(1.5, 1e6), min_size=2, max_size=30))
def test_scores_are_the_data_on_axes_of_their_own(values):
    rows = [
        {"step": k, "tokens": 1e6 * k, "perplexity": value, "accuracy": 1 / value}
        for k, value in enumerate(values, start=1)
    ]
    panel = list(parse(Training(steps=99, scores=rows, stopped="early")).iter(f"{SVG}svg"))[2]
    for strip, (log, of) in enumerate([(True, float), (False, lambda v: 100 / v)]):
        (run,), _, down = drawn(panel, strip)
        if len(down) < 2:
            continue
        to_y, pixel = reader(down, log=log)
        for (_, y), value in zip(run, values, strict=True):
            expected = math.log(of(value)) if log else of(value)
            assert to_y(y) == pytest.approx(expected, abs=0.5 * pixel + 1e-9)
        dots = [c for c in panel.findall(f"{SVG}g")[strip].iter(f"{SVG}circle") if "wt-top" in c.get("class")]
        best = min(range(len(values)), key=values.__getitem__)
        assert [(float(c.get("cx")), float(c.get("cy"))) for c in dots] == [run[best]]


def test_what_is_no_number_is_a_gap():
    losses = [9.0, 8.0, math.nan, 7.0, math.inf, 6.0, 5.0, None, "?"]
    panels = list(parse(trained(losses, [math.nan] * 9)).iter(f"{SVG}svg"))
    runs, _, _ = drawn(panels[0], curve=0)
    assert [len(run) for run in runs] == [2, 1, 2]
    path = panels[0].find(f".//{SVG}path[@class='wt-curve wt-raw']").get("d")
    assert path.count("h0") == 1  # a lonely point is a dot
    assert "no point yet" in "".join(panels[1].itertext())
    zero = Training(scores=[{"step": 1, "tokens": 5, "perplexity": p} for p in (0.0, 3.0)])
    assert [len(run) for run in drawn(list(parse(zero).iter(f"{SVG}svg"))[2])[0]] == [1]


@given(st.lists(st.floats(-1e6, 1e6) | st.just(math.nan), min_size=1, max_size=3000))
@example([0.0] * 1500 + [9.0] + [0.0] * 1000 + [-9.0] + [math.nan] * 400)
def test_thinning_keeps_ends_extremes_and_gaps(values):
    values = np.array(values)
    kept = axes.thin(values)
    assert len(kept) <= 400
    assert (np.diff(kept) > 0).all()
    assert {0, len(values) - 1} <= set(kept.tolist())
    if np.isfinite(values).any():
        assert np.nanmin(values[kept]) == np.nanmin(values)
        assert np.nanmax(values[kept]) == np.nanmax(values)
    assert np.isnan(values[kept]).any() == np.isnan(values).any()
    if len(values) <= 397:
        assert len(kept) == len(values)


@given(st.lists(st.floats(0, 100) | st.just(math.nan), min_size=1, max_size=300))
def test_smoothing_is_the_mean_of_a_window(values):
    values, n = np.array(values), len(values)
    most = n // 50
    for k, found in enumerate(axes.smoothed(values)):
        window = values[max(0, k - most) : k + min(k, most) + 1]
        expected = np.nanmean(window) if np.isfinite(values[k]) else math.nan
        np.testing.assert_allclose(found, expected, atol=1e-9)


@given(st.floats(1e-3, 1e13), st.floats(1.0001, 1e5), st.booleans())
def test_ticks_are_round_lie_on_the_axis_and_say_where(low, ratio, log):
    make = axes.logarithmic if log else axes.linear
    axis = make(np.array([low, min(low * ratio, 9e14)]), 200.0, 20.0)
    assert axis.low <= low <= axis.high
    assert len(axis.ticks) >= 2 - (log and axis.high / axis.low > 10)
    places = axis.at(np.array(axis.ticks))
    assert ((places <= 200.01) & (places >= 19.99)).all()
    assert len(axis.ticks) < 16
    labels = axis.labels
    assert len(set(labels)) == len(labels)
    assert [number(label) for label in labels] == pytest.approx(list(axis.ticks), rel=1e-3)
    spaced = axis.spaced(30).at(np.array(axis.spaced(30).ticks))
    assert (np.abs(np.diff(spaced)) >= 30).all()


def test_the_axis_of_words_grows_by_doubling():
    ends = []
    for step in range(1, 65):
        training = Training(steps=64, history=[{"step": step, "tokens": 100 * step, "loss": 1.0}])
        ends.append(round(curves._over(training).high))
    assert ends == [100 * 2 ** math.ceil(math.log2(step)) for step in range(1, 65)]
    training = Training(steps=64, history=[{"step": 9, "tokens": 900}], stopped="early")
    assert curves._over(training).high == 900


def test_hostile_names_are_text():
    training = trained([3.0, 2.0])
    training.name = training.device = training.fits = EVIL
    training.notes, training.stopped = [EVIL + "!", "x" * 5000], EVIL
    training.scores = [{"step": 1, "tokens": 5, f"accuracy {EVIL}": 0.5, "text": "no number", "yes": True}]
    html = curves.picture(training, said=["said " + EVIL])
    html.encode()
    assert "<script" not in html
    tree = ET.fromstring(html)  # noqa: S314 - ours
    told = EVIL.replace("\x00", "\ufffd").replace("\ud800", "\ufffd")
    assert tree.find(".//span[@class='wt-name']").text == told
    assert [p.text for p in tree.findall("p")][2:] == [f"{told}!", "x" * 239 + "…", f"said {told}"]
    assert len(list(tree.iter(f"{SVG}svg"))) == 3


def test_size_titles_and_the_empty_state():
    long = trained([5 + math.sin(k) for k in range(20_000)], [1e5 + 7 * math.cos(k) for k in range(20_000)])
    long.scores = [
        {"step": k, "tokens": 1000 * k, **{f"accuracy_{n}": 0.1 + k / 1e5 for n in range(12)}}
        for k in range(1, 1000)
    ]
    assert len(curves.picture(long).encode()) < 40_000
    long.scores = [{"step": k, "tokens": k, "accuracy": 0.1, "perplexity": 9.0} for k in range(1, 50)]
    assert len(curves.picture(long).encode()) < 40_000
    empty = parse(Training("x", steps=5))
    panels = list(empty.iter(f"{SVG}svg"))
    assert ["".join(svg.itertext()).count("yet") for svg in panels] == [2, 2, 2]  # and in its title
    for svg in panels + list(parse(long).iter(f"{SVG}svg")):
        assert svg.get("role") == "img"
        assert svg.get("aria-label") == svg.find(f"{SVG}title").text != ""
        assert (svg.get("width"), svg.get("height")) == (str(curves.WIDTH), str(curves.HEIGHT))
    assert Training("x")._repr_html_() == curves.picture(Training("x"))


def luminance(colour):
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return sum(v * weight for v, weight in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))


@pytest.mark.parametrize("theme", [1, 2])
def test_contrast_of_the_colours_without_jupyter(theme):
    colours = {name: luminance(told[theme]) for name, told in curves.COLOURS.items()}
    paper = colours["paper"]
    for name, least in (("ink", 4.5), ("quiet", 4.5), ("curve", 3.0)):
        high, low = max(paper, colours[name]), min(paper, colours[name])
        assert (high + 0.05) / (low + 0.05) >= least, name
    html = curves.picture(Training())
    dark = re.search(r"prefers-color-scheme:dark\)\{(.*?)\}\}", html)[1]
    for known, first, second in curves.COLOURS.values():
        assert f"var({known},{second})" in dark
        assert f"var({known},{first})" in html.replace(dark, "")
