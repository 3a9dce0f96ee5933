"""Text that tries to become something else stays text: in every chart, table, page and export."""

import ast
import re
from functools import cache
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from adversarial_text import CHARTS, PAGES, RUN, STRINGS
from html_page import Page
from refused import refused
from widget_cases import CASES

from workbench import charts
from workbench.charts import theme
from workbench.storage.errors import DataError

PACKAGE = Path(charts.__file__).parents[1]
FORBIDDEN = {"script", "img", "a", "iframe", "base", "form", "link", "object", "embed", "bdo"}
SORTS = f"<script>{(PACKAGE / 'render' / 'sort.js').read_text(encoding='utf-8').rstrip()}</script>"
"""The one script of a table, which sorts its rows and holds no data."""


ALL = " ".join(STRINGS.values())


def some_texts(place, step):
    """Return all texts in one, and every few of them, others at each place."""
    return [ALL, *list(STRINGS.values())[place % step :: step]]


@cache
def chart_of_all(name):
    return CHARTS[name](ALL)


def test_every_chart_and_page_is_tried():
    tried = {name.partition(" ")[0] for name in CHARTS}
    assert tried == set(charts.__all__) - {"offline", "save"}
    shown = {case.view for case in CASES.values()}  # widgets have the methods of their base
    for path in PACKAGE.rglob("*.py"):
        code = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(code)) if "_html" in code else ():
            if isinstance(node, ast.ClassDef):
                names = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
                shown |= {node.name} if names & {"to_html", "_repr_html_"} else set()
    assert set(PAGES) == shown - {"Widget"}


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_draws_any_text(name):
    for text in some_texts(list(CHARTS).index(name), len(CHARTS)):
        chart = chart_of_all(name) if text is ALL else CHARTS[name](text)
        svg = theme.picture(chart.to_dict())
        for element in ET.fromstring(svg).iter():  # noqa: S314 - it is well-formed, which is tested
            assert element.tag.rpartition("}")[2] not in FORBIDDEN | {"image", "foreignObject"}
            assert not [key for key in element.attrib if key.startswith("on") or key.endswith("href")]


@pytest.mark.parametrize("name", CHARTS)
def test_the_page_of_a_chart_holds_one_script(name, tmp_path):
    page = charts.save(chart_of_all(name), tmp_path / "a.html").read_text(encoding="utf-8")
    assert re.findall(r"<script[^>]*>", page) == [
        '<script type="application/json">', "<script>",
    ]  # fmt: skip
    spec = page.partition('application/json">')[2].partition("</script>")[0]
    assert not set("<>&\u2028\u2029") & set(spec)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy


def test_what_is_drawn_keeps_its_text():
    spec = {"title": "a\\b\nc", "data": {"values": [{"title": "a\\b", "if": "if", "n": 1.5}]}}
    drawn = {"title": "a\N{SET MINUS}b c", "data": {"values": [{"title": "a\\b", "if ": "if ", "n": 1.5}]}}
    assert theme.drawable(spec) == drawn
    plain = {
        "title": {"text": ["LAMBADA", 'a "quote"']},
        "width": 9,
        "encoding": {"x": {"field": "a", "title": None}},
    }
    assert theme.drawable(plain) == plain
    kept = {"config": {"title": {"color": theme.INK}}, "datasets": {"a": [{"color": theme.INK}]}}
    drawn = theme.coloured(kept, dark=False)
    assert drawn["config"]["title"]["color"] == "#222222"
    assert drawn["datasets"] == kept["datasets"]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_shows_any_text_as_text(name):
    for text in some_texts(list(PAGES).index(name), len(PAGES)):
        try:
            made = PAGES[name](text)
        except DataError:
            continue  # such a text is no item or name
        for method in ("to_html", "_repr_html_"):
            if not hasattr(made, method):
                continue
            page = Page(getattr(made, method)().replace(SORTS, ""))
            assert not FORBIDDEN & set(page.tags)
            assert not page.open
        for method in ("to_latex", "to_markdown"):
            if hasattr(made, method):
                written = getattr(made, method)()
                assert not re.search(r"(?<!\\)\\input|<(script|img|svg)", written)
                assert "\0" not in written
        if hasattr(made, "saved"):
            assert 'Content-Security-Policy" content="default-src' in made.to_html()
            made.close()


def test_text_is_not_lost_on_the_way():
    attacks = [text for text in STRINGS.values() if RUN in text]
    for name in ("Table", "Items", "Training", "Imported"):
        for text in attacks:
            made = PAGES[name](text)
            assert RUN in Page(made._repr_html_()).text


def test_a_place_that_cannot_be_written_is_one_error(tmp_path):
    made, chart = PAGES["Table"]("a"), CHARTS["lengths"]("a")
    long = tmp_path / ("n" * 300 + ".csv")
    blocked = tmp_path / "file"
    blocked.write_text("")
    for path in (long, blocked / "a.csv"):
        with pytest.raises(OSError, match=r"name too long|Not a directory|non-existent"):  # pandas' own words
            made.to_csv(path)
        refused(charts.save, chart, path.with_suffix(".json"))
