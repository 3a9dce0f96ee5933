"""What a screen reader meets in tables and static pages: headings, names, and focus where something scrolls.

The same rules are checked for live views in tests/browser/test_reopened.py, where layout is known.
"""

from html.parser import HTMLParser

import pytest
from braced_items import clozes
from random_predictions import annotated
from static_pages import ITEMS, PAGES, RUNS

import workbench as wb
from workbench.widgets.shared.widget import read_assets

pytestmark = pytest.mark.usefixtures("home")


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
    widget = wb.browse(ITEMS, table, RUNS, state={"table": columns})
    page = Tables(widget.to_html())
    assert page.headings == ["Items", "Item", "Passage", "genre", "Tags", *ITEMS.frame["item_id"]]
    assert page.named == [True, True]
    widget.close()


@pytest.mark.parametrize("name", ["evaluate", "items", "browse", "compare", "compare, saved"])
def test_what_scrolls_has_focus_and_a_name(name):
    scrolling = {"wb-results", "wb-items", "wide", "wb-saved"}
    regions = [e for e in Tables(PAGES[name]()).elements if scrolling & set((e.get("class") or "").split())]
    assert regions
    assert all((e.get("tabindex"), e.get("role")) == ("0", "region") and e.get("aria-label") for e in regions)


def test_an_error_that_is_long_can_be_scrolled_by_keyboard():
    assert 'role: "alert", tabindex: 0' in read_assets("shared/page.js")


def test_a_browser_of_no_items_has_no_table_of_them():
    widget = wb.browse(clozes(), state={"table": True})
    assert Tables(widget.to_html()).headings == ["Items"]
    widget.close()
