"""One view twice in a notebook, in two tabs, and in Jupyter Notebook 7."""

import _lab
import pytest
from accessible import THEMES, violations
from random_predictions import annotated

import workbench as wb

pytestmark = pytest.mark.browser

READ = """
import ipywidgets, pandas as pd, workbench as wb
items = wb.load("sample", variant="capitalised")
table = pd.read_parquet("views.parquet")
"""
VIEWS = ".wb-browser:not(.we-explore *)"


@pytest.fixture
def total(lab):
    items = wb.load("sample", variant="capitalised")
    annotated(items).to_parquet(lab.folder / "views.parquet")
    return len(items)


def search(view, text):
    view.get_by_label("Search items").fill(text)


def listed(view):
    """Return a view's count of items once nothing is waited for."""
    view.and_(view.page.locator("[data-waits='']")).wait_for()
    return view.locator(".wb-count").inner_text()


def end_session(page, lab, path):
    """End the kernel of a notebook."""
    sessions = f"{lab.url}/api/sessions"
    allowed = {"Authorization": f"token {lab.token}"}
    for session in page.request.get(sessions, headers=allowed).json():
        if session["path"] == path:
            page.request.delete(f"{sessions}/{session['id']}", headers=allowed)


def test_two_views_of_one_widget_follow_each_other(lab, notebook, total):
    page = notebook.page
    notebook.open(lab.write("twice.ipynb", READ, "browser = wb.browse(items, table)\nbrowser", "browser"))
    notebook.run_all()
    page.wait_for_function(f"document.querySelectorAll('{VIEWS}[data-live=\"true\"]').length === 2")
    first, second = (page.locator(VIEWS).nth(place) for place in (0, 1))
    search(second, "she")
    first.locator(".wb-count:not(:text-is(''))").wait_for()
    page.wait_for_function(
        f"""(total) => {{
            const texts = [...document.querySelectorAll('{VIEWS} .wb-count')].map((node) => node.textContent);
            return new Set(texts).size === 1 && texts[0] !== `${{total}} of ${{total}}` && texts[0] !== "…";
        }}""",
        arg=total,
    )
    assert first.get_by_label("Search items").input_value() == "she"
    assert listed(first) == listed(second)
    ids = notebook.evaluate("print(len(browser.selection))")
    assert listed(first) == f"{ids} of {total}"
    first.get_by_role("button", name="Clear").click()
    second.locator(f".wb-count:text-is('{total} of {total}')").wait_for()
    assert second.get_by_label("Search items").input_value() == ""
    # a notebook in another tab has the same kernel
    page.evaluate("() => window.jupyterapp.shell.currentWidget.context.save()")
    with _lab.guarded(page.context.browser, lab) as other:
        other.goto(f"{lab.url}/lab/workspaces/other/tree/twice.ipynb?token={lab.token}&reset")
        third = other.locator(f"{VIEWS}[data-live='true']").first
        third.wait_for()
        search(third, "she")
        first.locator(f".wb-count:text-is('{ids} of {total}')").wait_for()
        search(first, "")
        third.locator(f".wb-count:text-is('{total} of {total}')").wait_for()


def test_notebook_7_shows_live_views_and_saved_pages(lab, chromium, total):
    cells = READ, "browser = wb.browse(items, table)\nbrowser", "wb.charts.in_context(table)"
    address = f"{lab.url}/notebooks/{lab.write('seven.ipynb', *cells)}?token={lab.token}"
    saved = ".wb-saved:has-text('passage contains “she”')"
    with _lab.guarded(chromium, lab) as page:
        page.goto(address)
        page.locator(".jp-Notebook .jp-CodeCell").first.wait_for()
        notebook = _lab.Notebook(page, lab)
        notebook.ready()
        notebook.run_all()
        view = page.locator(f"{VIEWS}[data-live='true']")
        search(view, "she")
        page.locator(saved).wait_for(state="attached")
        assert page.locator(".wb-saved").is_hidden()
        assert listed(view) == f"{notebook.evaluate('print(len(browser.selection))')} of {total}"
        view.locator(".wb-row").nth(1).click()
        view.locator(".wb-place:has-text('2 of')").wait_for()
        page.locator(".vega-embed svg.marks").wait_for()
        page.locator(".wb-chart-data summary").press("Enter")
        page.locator(".wb-chart-data table").wait_for()
        for theme in THEMES:
            assert violations(page, f"{VIEWS}, .wb-chart-data", theme) == []
        page.evaluate("() => window.jupyterapp.shell.currentWidget.context.save()")
        end_session(page, lab, "seven.ipynb")
    with _lab.guarded(chromium, lab) as page:  # a new kernel, which knows no widget
        page.goto(address)
        page.locator(saved).wait_for()
        page.locator(".vega-embed svg.marks").wait_for()
        assert violations(page, ".wb-saved") == []
        end_session(page, lab, "seven.ipynb")
    assert lab.foreign == []
