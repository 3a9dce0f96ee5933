"""Charts as files: size on paper, fonts, and what a changed title or configuration leaves."""

import json
import re
import struct

import altair as alt
import pandas as pd
import pytest
from hand_annotated import ROWS, frame
from refused import refused

from workbench import charts
from workbench.charts import theme

FIGURE = charts.figure_2(lambada=frame(ids="lambada/dev"), input=frame(ROWS[2:], ids="lambada/control"))
TWO = {"LAMBADA": frame(ids="lambada/dev"), "control": frame(ROWS[2:], ids="lambada/control")}


def size_of(png):
    """Return width and height in pixels and pixels for each inch, as the file states them."""
    width, height = struct.unpack(">II", png[16:24])
    at = png.index(b"pHYs") + 4
    return width, height, round(struct.unpack(">I", png[at : at + 4])[0] * 0.0254)


def sizes(svg):
    return [float(size) for size in re.findall(r'font-size="([\d.]+)px"', svg)]


@pytest.mark.parametrize(("width", "dpi", "pixels"), [("8.5cm", 300, 1004), (96, 72, 72)])
def test_a_png_has_its_size_on_paper(width, dpi, pixels, tmp_path):
    png = charts.save(FIGURE, tmp_path / "a.png", width=width, dpi=dpi).read_bytes()
    assert size_of(png)[::2] == (pytest.approx(pixels, abs=2), dpi)


def test_svg_and_pdf_and_page_have_the_width(tmp_path):
    svg = charts.save(FIGURE, tmp_path / "a.svg", width="8.5cm").read_text(encoding="utf-8")
    wide, high = (float(side) for side in re.search(r'width="([\d.]+)mm" height="([\d.]+)mm"', svg).groups())
    box = [float(side) for side in re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg).groups()]
    assert wide == 85
    assert high / wide == pytest.approx(box[1] / box[0], rel=0.01)
    pdf = charts.save(FIGURE, tmp_path / "a.pdf", width="8.5cm").read_bytes()
    media = re.search(rb"/MediaBox\s*\[\s*0 0 ([\d.]+)", pdf)
    assert float(media[1]) == pytest.approx(85 / 25.4 * 72, abs=1)
    page = charts.save(FIGURE, tmp_path / "a.html", width="8.5cm").read_text(encoding="utf-8")
    assert "width: 3.346in" in page


def test_labels_have_their_size_in_points(tmp_path):
    svg = charts.save(FIGURE, tmp_path / "a.svg", width="17cm", font_size=8).read_text(encoding="utf-8")
    box = float(re.search(r'viewBox="0 0 ([\d.]+)', svg)[1])
    points = min(sizes(svg)) * (17 / 2.54 * 72) / box
    assert points == pytest.approx(8, rel=0.03)
    plain = alt.Chart(pd.DataFrame({"a": [1, 2]})).mark_point().encode(x="a")
    svg = charts.save(plain, tmp_path / "b.svg", font_size=12).read_text(encoding="utf-8")
    assert set(sizes(svg)) == {16}


def test_text_in_a_font_that_is_not_installed_is_drawn_in_a_general_one(tmp_path):
    bare = alt.Chart(pd.DataFrame({"a": [1, 2]})).mark_point().encode(x="a")
    files = [
        charts.save(bare.configure(font=font), tmp_path / "a.png").read_bytes()
        for font in ("No Such Font", "sans-serif")
    ]
    assert files[0] == files[1], "its text is there"


def test_a_specification_is_saved(tmp_path):
    spec = json.loads(charts.save(FIGURE, tmp_path / "a.json").read_text(encoding="utf-8"))
    assert alt.Chart.from_dict(spec)
    assert "currentColor" not in json.dumps(spec)


@pytest.mark.parametrize("width", ["8.5 parsecs", "wide", "0cm", "-3cm", ""])
def test_a_width_that_is_none_is_refused(width, tmp_path):
    refused(charts.save, FIGURE, tmp_path / "a.png", width=width)


def test_a_title_or_configuration_leaves_key_and_look(tmp_path):
    titled = charts.figure_2(lambada=TWO["LAMBADA"], input=TWO["control"], title="Our figure")
    for chart in (
        FIGURE.properties(title="Our figure").configure_axis(labelFontSize=17),
        titled.configure_axis(labelFontSize=17),
    ):
        svg = charts.save(chart, tmp_path / "a.svg").read_text(encoding="utf-8")
        shown = theme.complete(chart.to_dict())["config"]["axis"]
        assert (shown["labelFontSize"], shown["labelColor"]) == (17, theme.INK)
        for text in ("Our figure", "PN proper noun", "LAMBADA", "control"):
            assert text in svg
    data, _ = charts.in_context(TWO).configure_axis(labelFontSize=17)._repr_mimebundle_()
    assert data["application/vnd.vegalite.v5+json"]["config"]["axis"]["labelColor"] == theme.INK
    own = alt.Chart(pd.DataFrame({"a": [1]})).mark_point().encode(x="a").to_dict()
    assert theme.complete(own) == own
