"""Notebooks that are opened again without their kernel."""

import json

import nbformat
import pandas as pd
import pyarrow.parquet as pq
import pytest
from accessible import THEMES, violations
from conftest import FORGET
from nbconvert import HTMLExporter
from nbformat.sign import NotebookNotary
from random_predictions import annotated, predicted
from test_ask import MODELS, TEXT
from widget_cases import CASES

import workbench as wb
from workbench.models import NGram
from workbench.predictions import schema

pytestmark = pytest.mark.browser

READ = f"""
import json
import altair as alt, ipywidgets, pandas as pd, pyarrow.parquet as pq, workbench as wb
from ask_models import Counting
from workbench.predictions import schema
TEXT = {TEXT!r}
items = wb.load("sample", variant="capitalised")
table, frame = pd.read_parquet("table.parquet"), schema.from_table(pq.read_table("frame.parquet"))
"""
BAR = """
import os
os.environ.pop("TQDM_DISABLE")
import workbench.storage.progress as p
with p.progress_bar(4, label="reading") as b:
    b.update(4)
"""
CELLS = (
    READ,
    *(f"{name} = {case.cell}\n{name}" for name, case in CASES.items()),
    "alt.Chart(pd.DataFrame({'mine': [1, 2]})).mark_point().encode(x='mine')",
    "wb.charts.target_classes(table)",
    BAR,
)
CHANGE = "\n".join(case.change for case in CASES.values())
"""What is chosen after the first display."""

PAGES = f"print(json.dumps([view.saved.html() for view in ({', '.join(CASES)},)]))"
HTML = """() => window.jupyterapp.shell.currentWidget.content.widgets
    .flatMap((cell) => cell.model.outputs?.toJSON() ?? [])
    .map((output) => output.data?.["text/html"]).filter(Boolean).map((html) => [].concat(html).join(""))"""
SAVED, LIVE = ".wb-saved", ", ".join(case.root for case in CASES.values())
ALL_SAVED = f"() => document.querySelectorAll('.wb-saved').length === {len(CASES)}"
ERROR = "text=/Error displaying widget|Loading widget/ >> visible=true"
GIVEN_WAY = """(roots) => {
    const live = [...document.querySelectorAll(roots)].map((root) => root.dataset.live);
    return live.length >= COUNT && live.every((one) => one === "false");
}""".replace("COUNT", str(len(CASES)))
FAILED = """() => [...document.querySelectorAll(".jp-OutputArea-output")]
    .every((node) => node.textContent !== "Loading widget...")"""
UNNAMED = """(roots) => [...document.querySelectorAll(roots)]
    .flatMap((root) => [...root.querySelectorAll("table:not([aria-label])")])
    .filter((table) => table.getClientRects().length && !table.caption).map((table) => table.className)"""
"""Tables without a name, of which axe-core has no rule."""
PLANT = """() => document.querySelector(".wb-browser").prepend(...[
    "<p style='color: #bbb; background: #fff'>pale</p>", "<input>",
    "<button style='all: unset; width: 9px'>a</button><button style='all: unset; width: 9px'>b</button>",
    "<table><tr><th></th><td>1</td></tr></table>",
].map((html) => Object.assign(document.createElement("div"), { className: "planted", innerHTML: html })))"""
MOVING = "document.querySelector('.wa-ask').getAnimations({ subtree: true }).length"
COUNT_SAVES = """() => {
    window.saves = 0;
    window.jupyterapp.commands.commandExecuted.connect((_, { id }) => {
        if (id === "docmanager:save") window.saves += 1;
    });
}"""
TOLD = tuple(case.saved for case in CASES.values())
"""What the page of each widget says of that state."""


@pytest.fixture(scope="module")
def once():
    """Keep the notebook for both tests: running and saving it takes most of their time."""
    return {}


@pytest.fixture
def kept(lab, notebook, once):
    """Run the notebook, choose something in each widget, save it; return the file and the models' state."""
    if not once:
        items = wb.load("sample", variant="capitalised")
        annotated(items).to_parquet(lab.folder / "table.parquet")
        made = pd.concat(predicted(items, 2), ignore_index=True)
        pq.write_table(schema.to_table(made), lab.folder / "frame.parquet")
        (lab.folder / "ask_models.py").write_text(MODELS)
        page = notebook.page
        notebook.open(lab.write("kept.ipynb", *CELLS))
        notebook.run_all()
        for root in LIVE.split(", "):
            page.locator(f"{root}[data-live='true']").first.wait_for(state="attached")
        page.wait_for_function(ALL_SAVED)
        assert page.locator(f"{SAVED}:visible").count() == 0
        assert notebook.evaluate(CHANGE) == ""
        pages = json.loads(notebook.evaluate(PAGES))
        assert all(len(html.encode()) <= 50_000 for html in pages)
        page.wait_for_function(f"(pages) => pages.every((one) => ({HTML})().includes(one))", arg=pages)
        assert page.locator(f"{SAVED}:visible").count() == 0
        state = notebook.evaluate("print(json.dumps(ipywidgets.Widget.get_manager_state()))")
        page.evaluate("() => window.jupyterapp.shell.currentWidget.context.save()")
        close(notebook)
        once["file"], once["state"] = lab.folder / "kept.ipynb", json.loads(state)
    return once["file"], once["state"]


def close(notebook):
    """Close the notebook; its kernel has no models any more, like a new one."""
    notebook.evaluate(FORGET)
    notebook.page.evaluate("() => window.jupyterapp.shell.currentWidget.dispose()")


def write(lab, file, name, *, trusted, state=None):
    """Write a copy that a notebook server has or has not signed, with the widgets' state or without."""
    copy = nbformat.read(file, as_version=4)
    copy.metadata["name"] = name
    if state is not None:
        kind = "application/vnd.jupyter.widget-state+json"
        copy.metadata["widgets"] = {kind: state}
    nbformat.write(copy, lab.folder / name)
    if trusted:
        NotebookNotary(data_dir=str(lab.home.parent / "data")).sign(copy)
    return name


def test_the_views_are_there_again(kept, lab, notebook):
    file, state = kept
    page = notebook.page
    cases = {
        "signed": (True, None), "unsigned": (False, None), "state": (True, state),
        "unsigned-state": (False, state),
    }  # fmt: skip
    for case, (trusted, widgets) in cases.items():
        name = write(lab, file, f"{case}.ipynb", trusted=trusted, state=widgets)
        notebook.open(name)
        if widgets and trusted:  # the views are made of their state, and hear nothing
            page.wait_for_function(GIVEN_WAY, arg=LIVE)
        for place, told in enumerate(TOLD):
            page.locator(SAVED).nth(place).filter(has_text=told, visible=True).wait_for()
        page.wait_for_function("() => document.querySelectorAll('.vega-embed svg.marks').length === 2")
        page.wait_for_function(FAILED)
        assert page.locator(ERROR).count() == 0
        page.locator("text=reading: 100 %").wait_for(state="attached")  # where the bar stood
        if trusted:  # else JupyterLab takes the names of tables and regions off
            assert page.evaluate(UNNAMED, SAVED) == []
        if case == "signed":
            assert [violations(page, f"{SAVED}, .wb-chart-data", theme) for theme in THEMES] == [[], []]
        assert page.locator(", ".join(f"{root}:visible" for root in LIVE.split(", "))).count() == 0
        notebook.screenshot(
            f"reopened-{case}", ".jp-NotebookPanel:not(.lm-mod-hidden) .jp-WindowedPanel-inner"
        )
        shown, _ = HTMLExporter().from_filename(str(lab.folder / name))
        assert [shown.count(told) > 0 for told in TOLD] == [True] * len(TOLD)
        assert "Error displaying" not in shown
        close(notebook)


def test_the_live_view_takes_over_when_the_cell_runs_and_ctrl_s_saves(kept, notebook):
    file, _ = kept
    page = notebook.page
    notebook.open(file.name)
    page.locator(SAVED).first.wait_for()
    notebook.run_all()
    for root in LIVE.split(", "):
        page.locator(f"{root}[data-live='true']").first.wait_for()
    page.wait_for_function(ALL_SAVED)
    assert page.locator(f"{SAVED}:visible").count() == 0
    assert page.locator(ERROR).count() == 0
    everybody_can_use_the_views(page)
    notebook.narrow(".wb-browser")
    assert page.evaluate(UNNAMED, LIVE) == []
    assert violations(page, LIVE) == []
    dirty = "window.jupyterapp.shell.currentWidget.context.model.dirty"
    cells = "window.jupyterapp.shell.currentWidget.content.widgets.length"
    page.evaluate(COUNT_SAVES)
    page.evaluate(f"() => {{ {dirty} = true; }}")
    for n, root in enumerate(LIVE.split(", ")):
        page.locator(root).first.locator("button:enabled, input, textarea, [tabindex='0']").first.focus()
        assert page.evaluate("(root) => Boolean(document.activeElement.closest(root))", root)
        page.keyboard.press("Escape")
        page.keyboard.press("Control+s")
        page.wait_for_function(f"() => window.saves === {n + 1}")
        page.wait_for_function(f"() => {n} > 0 || !{dirty}")  # one in progress is not begun again
        for _ in range(2):
            page.keyboard.press("d")  # outside, it deletes the cell
        assert page.evaluate(f"() => {cells}") == len(CELLS)


def everybody_can_use_the_views(page):
    assert page.evaluate(UNNAMED, LIVE) == []
    assert [violations(page, LIVE, theme) for theme in reversed(THEMES)] == [[], []]
    for case in CASES.values():
        for role, name in case.names:
            inside = page.locator(case.root).first.get_by_role(role, name=name)
            itself = page.get_by_role(role, name=name).and_(page.locator(case.root))
            assert inside.or_(itself).count() > 0, (case.root, role, name)
    cards, card = page.locator(".wa-cards"), page.locator(".wa-card").first
    cards.evaluate("(node) => { node.hidden = false; }")  # nothing is asked yet
    card.scroll_into_view_if_needed()  # elsewhere nothing moves
    card.evaluate("(card) => card.classList.add('wa-thinks')")
    page.wait_for_function(f"{MOVING} === 2")
    page.emulate_media(reduced_motion="reduce")
    assert page.evaluate(MOVING) == 0
    page.emulate_media(reduced_motion="no-preference")
    card.evaluate("(card) => card.classList.remove('wa-thinks')")
    cards.evaluate("(node) => { node.hidden = true; }")
    page.evaluate(PLANT)  # the rules do see what is in a view
    rules = {line.partition(":")[0] for line in violations(page, ".wb-browser:not(.we-explore *)")}
    assert rules == {"color-contrast", "label", "target-size", "empty-table-header"}
    page.evaluate("document.querySelectorAll('.planted').forEach((node) => node.remove())")


@pytest.mark.parametrize("width", [1200, 480])
def test_what_scrolls_in_an_exported_page_of_ask_has_focus(chromium, width):
    words = [word for count in range(1, 40) for word in [f"word{count}"] * count]
    model = NGram.fit([" ".join(words * 3)], order=2, tokenised=True)
    asked = wb.ask(model, TEXT, word="key", other=TEXT.replace("bag", "door")).wait(120)
    page = chromium.new_page(viewport={"width": width, "height": 500})
    page.set_content(asked.to_html())
    asked.close()
    assert page.locator("table").count()
    assert page.evaluate(UNNAMED, "body") == []
    assert violations(page) == []
    page.close()
