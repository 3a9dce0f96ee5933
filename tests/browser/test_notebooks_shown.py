"""The notebooks, run as a newcomer runs them."""

import re
from pathlib import Path

import pytest
from _lab import POLL

pytestmark = pytest.mark.browser
FOLDER = Path(__file__).parents[2] / "notebooks"


@pytest.mark.parametrize(("name", "widgets"), [("00_tour", 6)])
def test_runs_and_shows_its_widgets(lab, notebook, name, widgets):
    text = (FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")
    on_sample = text.replace(r"DATA = \"auto\"", r"DATA = \"sample\"")
    (lab.folder / f"{name}.ipynb").write_text(on_sample, encoding="utf-8")
    page = notebook.page
    notebook.open(f"{name}.ipynb")
    notebook.run_all()
    waiting = """() => window.jupyterapp.shell.currentWidget.content.widgets
        .filter((c) => c.model.type === 'code' && c.model.executionCount === null).length"""
    page.wait_for_function(f"() => ({waiting})() === 0", polling=POLL)
    outputs = page.evaluate(
        """() => window.jupyterapp.shell.currentWidget.content.widgets
            .filter((c) => c.model.type === 'code').flatMap((c) => c.model.outputs.toJSON())"""
    )
    assert [output for output in outputs if output["output_type"] == "error"] == []
    shown = [o for o in outputs if "application/vnd.jupyter.widget-view+json" in o.get("data", {})]
    assert len(shown) == widgets
    first = page.locator(".wb-browser").first
    first.scroll_into_view_if_needed()
    first.locator(".wb-row").nth(3).click()
    first.locator(".wb-list").press(" ")
    first.locator(".wb-blank", has_text=re.compile(r"\w")).wait_for()
    notebook.screenshot(f"notebook-{name}")
