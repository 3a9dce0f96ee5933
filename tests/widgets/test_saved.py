"""The static page that a notebook keeps of a widget."""

import queue

import nbformat
import pytest
from braced_items import clozes
from html_page import Page
from nbclient import NotebookClient
from patience import PATIENCE

import workbench as wb
from workbench.widgets.shared import widget as saved
from workbench.widgets.shared.widget import MAXIMUM, SavedPage


@pytest.fixture
def published(monkeypatch):
    """Get what is shown in a notebook: data, display id, and whether it replaces what was there."""
    shown = queue.Queue()

    def publish(data, *, transient=None, update=False):
        shown.put((data, (transient or {}).get("display_id"), update))

    monkeypatch.setattr("IPython.display.publish_display_data", publish)
    return shown


def test_a_widget_is_shown_as_live_view_and_page_which_follows_the_state(published, monkeypatch):
    monkeypatch.setattr(saved, "_INTERVAL", 0)
    browser = wb.browse(clozes(*(f"number {i} . a {{dog}}" for i in range(30))))
    browser.state = browser.state | {"search": "number 2"}
    assert published.empty(), "it is not shown yet"
    browser._ipython_display_()
    (live, no_id, _), (page, key, update) = published.get(), published.get()
    assert live["application/vnd.jupyter.widget-view+json"]["model_id"] == browser.model_id
    assert "text/html" not in live
    assert (no_id, update) == (None, False)
    assert "number 2" in Page(page["text/html"]).text
    for query in ("number 7", "number 8"):
        browser.state = browser.state | {"search": query}
        data, same, update = published.get(timeout=PATIENCE)
        assert (same, update) == (key, True)
        assert query in Page(data["text/html"]).text
    browser.close()


def test_a_page_that_has_not_changed_is_not_sent_again(published):
    page = SavedPage(lambda most: f"<p>{most}</p>")
    page.update()
    assert published.empty()
    page.show({})
    page.update()
    assert published.qsize() == 2


@pytest.mark.parametrize(("letters", "kept"), [(100, 10), (5_500, 3), (30_000, 1), (100_000, 0)])
def test_a_page_is_bounded(letters, kept):
    html = SavedPage(lambda most: f"<p>{most}</p>{'x' * letters * most}").html()
    assert len(html.encode()) <= MAXIMUM
    assert f"<p>{kept}</p>" in html


def test_a_page_that_cannot_be_bounded_says_so():
    html = SavedPage(lambda _: "é" * MAXIMUM).html()
    assert "This view takes more than 50 KB." in Page(html).text


VIEWS = """\
import workbench as wb
from IPython.display import display
from workbench.models import RandomWord
items = wb.load("sample", "test")
runs = [wb.predict(items, RandomWord("passage"), seed=seed) for seed in (0, 1)]
asked = wb.ask(RandomWord("passage"), "The old woman put the ___ on the table.")
browser = wb.browse(items, annotations="auto")
display(wb.explore(items), wb.compare(items, runs, annotations="auto"), asked, browser)
browser.state = browser.state | {"search": "church"}
"""


def test_views_of_the_last_cell_are_kept_finished_where_no_front_end_is_connected(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(VIEWS)])
    NotebookClient(notebook, timeout=PATIENCE, kernel_name="python3").execute()
    data = [output["data"] for output in notebook.cells[-1].outputs if "data" in output]
    explorer, comparison, asked, browser = (
        Page(each["text/html"]).text for each in data if "text/html" in each
    )
    assert "Analysing targets" not in explorer
    assert "proper noun" in explorer
    assert "…" not in comparison.partition("More than")[0]
    assert "has not answered" not in asked
    assert "ranked among 8 candidate words" in asked
    n = wb.load("sample", "test").frame["text"].str.contains("church", case=False).sum()
    assert f"Items{n} of 86" in browser
