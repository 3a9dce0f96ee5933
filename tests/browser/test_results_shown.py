"""Tables and charts of results, as a notebook shows them."""

import pytest
from accessible import THEMES, violations

pytestmark = pytest.mark.browser

TABLE = """import pandas as pd, workbench as wb
from workbench.render.results import Table, TableColumn, TableLayout
frame = pd.DataFrame({"model": ["b", "a", "c", "d"], "accuracy": [0.3, 0.12, None, 0.2]})
Table(frame, TableLayout("Models", (TableColumn("model"), TableColumn("accuracy", "share"))))"""
CHARTS = """notes = wb.annotate(wb.load("sample", "test"))
wb.charts.side_by_side(wb.charts.lengths(notes), wb.charts.target_classes(notes))"""
INSIDE = """() => [...document.querySelectorAll('.vega-embed svg.marks')].every((svg) =>
    svg.getBoundingClientRect().right <= svg.closest('.jp-OutputArea').getBoundingClientRect().right)"""


def test_a_heading_sorts_a_table(notebook, lab):
    notebook.open(lab.write("table.ipynb", TABLE))
    notebook.run_all()
    table = notebook.page.locator(".wb-results")
    table.wait_for()
    accuracy, model = table.locator("thead button").nth(1), table.locator("thead button").first

    def state():
        order = table.locator("thead th").nth(1).get_attribute("aria-sort")
        return order, "".join(table.locator("tbody td:first-child").all_inner_texts())

    assert state() == ("none", "bacd")
    accuracy.focus()
    for key, expected in (("Enter", "ascending adbc"), ("Space", "descending bdac"), ("Enter", "none bacd")):
        notebook.page.keyboard.press(key)
        assert " ".join(state()) == expected
    model.click()
    assert state() == ("none", "abcd")
    assert table.locator("thead th").first.get_attribute("aria-sort") == "ascending"
    assert [violations(notebook.page, ".wb-results", theme) for theme in THEMES] == [[], []]


def test_charts_fit_the_window(notebook, lab):
    page = notebook.page
    size = page.viewport_size
    notebook.open(lab.write("charts.ipynb", "import workbench as wb", CHARTS))
    notebook.run_all()
    page.locator(".wb-chart-data").wait_for()
    heights = []
    for width in (1600, 1000, 500):
        page.set_viewport_size({"width": width, "height": 1000})
        page.wait_for_function(INSIDE)
        heights.append(page.locator(".vega-embed svg.marks").bounding_box()["height"])
    page.set_viewport_size(size)
    assert heights[1] > 1.5 * heights[0], "one below the other"
