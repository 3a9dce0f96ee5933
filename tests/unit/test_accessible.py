"""What a screen reader meets in tables and static pages: headings, names, and focus where something scrolls.

The same rules are checked for live views in tests/browser/test_reopened.py, where layout is known.
"""

from html.parser import HTMLParser

import pytest
from clozes import clozes
from patience import PATIENCE
from side_by_side import annotated, predicted

import workbench as wb
from workbench.items import notes as remarks
from workbench.models import NGram
from workbench.widgets.shared.widget import read_assets

ITEMS = wb.load("sample", variant="capitalised")[:40]
RUNS = predicted(ITEMS, 3)
TEXT = "It rained all night. She opened the bag and looked for the ___ again."


class Tables(HTMLParser):
    """Headings and names of the tables of a page, and attributes of its elements."""

    def __init__(self, html):
        super().__init__()
        self.headings, self.named, self.elements, self._inside = [], [], [], None
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.elements.append(dict(attrs))
        if tag == "table":
            self.named.append("aria-label" in dict(attrs))
        elif tag == "caption":
            self.named[-1] = True
        elif tag == "th":
            self.headings.append("")
        self._inside = tag if tag in {"th", "td"} else self._inside

    def handle_endtag(self, tag):
        self._inside = None if tag == self._inside else self._inside

    def handle_data(self, data):
        if self._inside == "th":
            self.headings[-1] += data


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))


def asked():
    models = [NGram.fit(wb.books("sample"), order=2, progress=False)]
    widget = wb.ask(models, TEXT, word="key", other=TEXT.replace("bag", "door")).wait(PATIENCE)
    html = widget.to_html()
    widget.close()
    return html


def saved_comparison():
    return wb.compare(ITEMS, RUNS, None, resamples=20).saved.html()


def noted():
    item = ITEMS[0]
    remarks.write_notes(item.dataset, {item.item_id: {"tags": ["odd"], "text": item.text}})
    return wb.notes()._repr_html_()


PAGES = {
    "available": lambda: wb.available()._repr_html_(),
    "notes": noted,
    "models": lambda: wb.models()._repr_html_(),
    "runs": lambda: wb.runs()._repr_html_(),
    "evaluate": lambda: wb.evaluate(RUNS, resamples=20).to_html(),
    "leaderboard": lambda: wb.leaderboard(RUNS, resamples=20).to_html(),
    "significance": lambda: wb.significance(RUNS[0], RUNS[1], resamples=20).to_html(),
    "hardest": lambda: wb.hardest(RUNS)._repr_html_(),
    "contamination": lambda: wb.contamination(ITEMS, "sample", progress=False)._repr_html_(),
    "items": ITEMS._repr_html_,
    "statistics": lambda: wb.statistics(ITEMS, annotated(ITEMS))._repr_html_(),
    "browse": lambda: wb.browse(ITEMS, annotated(ITEMS), RUNS, table=True).to_html(),
    "explore": lambda: wb.explore(ITEMS, annotated(ITEMS)).to_html(),
    "compare": lambda: wb.compare(ITEMS, RUNS, annotated(ITEMS), resamples=20).to_html(),
    "compare, saved": saved_comparison,
    "table of the CBT": lambda: wb.table("cbt", RUNS, resamples=20).to_html(),
    "ask": asked,
}


@pytest.mark.parametrize("name", PAGES)
def test_tables_have_names_and_headings(name):
    page = Tables(PAGES[name]())
    assert page.headings
    assert [heading for heading in page.headings if not heading.strip()] == []
    assert page.named
    if name not in {"available", "notes"}:  # frames of pandas, which names no table
        assert all(page.named)


def test_the_table_of_a_browser_has_a_heading_for_each_column_and_row():
    table = annotated(ITEMS).assign(genre="crime")
    columns = ["passage", "genre", "tags"]
    widget = wb.browse(ITEMS, table, RUNS, table=columns)
    page = Tables(widget.to_html())
    assert page.headings == ["Item", "Passage", "genre", "Tags", *ITEMS.frame["item_id"]]
    assert page.named == [True]
    widget.close()


@pytest.mark.parametrize("name", ["evaluate", "items", "browse", "compare", "compare, saved"])
def test_what_scrolls_has_focus_and_a_name(name):
    scrolling = {"wb-results", "wb-items", "wide", "wb-saved"}
    regions = [e for e in Tables(PAGES[name]()).elements if scrolling & set((e.get("class") or "").split())]
    assert regions
    assert all((e.get("tabindex"), e.get("role")) == ("0", "region") and e.get("aria-label") for e in regions)


def test_an_error_that_is_long_can_be_scrolled_by_keyboard():
    assert 'role: "alert", tabindex: 0' in read_assets("shared/page.js")


def test_a_browser_of_no_items_has_a_table_with_headings():
    widget = wb.browse(clozes(), table=True)
    assert Tables(widget.to_html()).headings == ["Item", "Passage", "Answer", "Tags"]
    widget.close()
