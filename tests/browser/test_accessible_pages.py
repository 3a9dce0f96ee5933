"""Everybody can use pages without a kernel: axe-core finds nothing, in light and dark, wide and narrow."""

import pytest
from accessible import THEMES, violations
from adversarial_text import CHARTS
from axe_playwright_python.base import AXE_SCRIPT
from static_pages import ITEMS, PAGES, RUNS, annotated

import workbench as wb
from workbench import charts
from workbench.widgets.shared.widget import whole_page

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("home")]


def comparison():
    return wb.compare(ITEMS, RUNS, annotated(ITEMS), resamples=20).to_html(limit=3)


def chart(folder, *, dark):
    made = CHARTS["figure_2"]("sample")
    return charts.save(made, folder / f"{dark}.html", dark=dark).read_text(encoding="utf-8")


ALL = PAGES | {
    "compare": comparison,
    "guess": lambda: wb.guess(ITEMS, folder="game", condition="passage").to_html(),
}


@pytest.fixture
def page(chromium):
    opened = chromium.new_page()
    yield opened
    opened.close()


def found(page, width):
    page.set_viewport_size({"width": width, "height": 800})
    return [line for theme in THEMES for line in violations(page, None, theme)]


def test_axe_core_made_quicker_finds_the_same(page):
    faults = "<p style='color: #bbb'>pale <a href='#'></a><button></button><table><th></th></table>"
    page.set_content(whole_page("Faults", f"<div style='background: rgb(255 255 255 / .9)'>{faults}</div>"))
    quick = violations(page)
    page.evaluate(AXE_SCRIPT)
    assert violations(page) == quick
    assert {"color-contrast", "link-name", "button-name"} <= {line.partition(":")[0] for line in quick}


@pytest.mark.parametrize("name", ALL)
def test_pages_of_views_and_tables(name, page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    html = ALL[name]()
    whole = html.lstrip().startswith("<!DOCTYPE")
    page.set_content(html if whole else whole_page(name, html))
    assert found(page, 1000) == []
    assert found(page, 420) == []


@pytest.mark.parametrize("dark", [False, True])
def test_pages_of_charts_have_their_table_behind_a_key(dark, page, tmp_path):
    page.set_content(chart(tmp_path, dark=dark))
    page.locator("svg.marks").wait_for()
    page.get_by_label("Save the chart").wait_for()
    assert page.title() == page.locator("h1").inner_text() == "sample"
    page.locator(".wb-chart-data summary").focus()
    page.keyboard.press("Enter")
    page.get_by_role("cell", name="proper noun").or_(page.get_by_role("cell", name="PN")).first.wait_for()
    assert page.get_by_role("table").count() == 1
    assert violations(page) == []
    page.emulate_media(reduced_motion="reduce")
    page.locator(".vega-embed summary").click()
    assert page.evaluate("document.getAnimations().length") == 0
