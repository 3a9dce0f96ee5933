import pytest
from clozes import cloze, passages
from html_page import Page
from hypothesis import given

from workbench.widgets.browser.browser import static_page as page
from workbench.widgets.shared.facets import NO_FILTERS
from workbench.widgets.shared.passages import pieces

HOSTILE = "</style><script>alert(1)</script><img src=x onerror=alert(1)>\"'&amp;"


def passage(item, **values):
    context, query = pieces(item, {})
    made = {"id": item.item_id, "source": None, "kind": ["plain"], "context": context, "query": query}
    made |= {"answer": item.answer, "candidates": None, "tags": [], "note": ""}
    return made | values


def test_a_page_says_what_it_shows():
    item = cloze("It rained . The {dog} ran .")
    whole = page([passage(item)], 1, 3, NO_FILTERS)
    assert "1 of 3 items<" in whole
    assert "<details><summary><span>_____</span></summary><b>dog</b></details> ran.</div>" in whole
    assert Page(whole).text.startswith("1 of 3 itemsx/dev/0 · plainIt rained.The ")
    filters = NO_FILTERS | {"query": "ran", "facets": {"split": ["dev", "test"], "n": [None, 2]}}
    assert "1 of 2 of 1,000 items; passage matches “ran”; split: dev, test; n: None, 2<" in page(
        [passage(item)], 2, 1000, filters
    )


def test_a_page_with_all_there_is():
    item = cloze("The {dog} ran .")
    whole = Page(
        page(
            [passage(item, source="a book", candidates=("dog", "cat"), tags=["plot"], note="see;")], 1, 1, {}
        )
    )
    assert "x/dev/0 · a book · plain" in whole.text
    assert "Candidates: dog, cat" in whole.text
    assert "plot; see;" in whole.text
    assert whole.attributes.count(("class", "p q")) == 1
    assert "?" in Page(page([passage(cloze("The {} ran ."))], 1, 1, {})).text


def test_no_text_becomes_an_element():
    item = cloze(f"{HOSTILE} . The {{<b>dog</b>}} & {HOSTILE}")
    values = dict.fromkeys(("id", "source", "note"), HOSTILE)
    made = passage(item, **values, kind=[HOSTILE], candidates=(HOSTILE,), tags=[HOSTILE])
    made["query"] = [*made["query"], (HOSTILE, "h"), (HOSTILE, '"><script>')]
    filters = {"query": HOSTILE, "field": HOSTILE, "facets": {HOSTILE: [HOSTILE]}}
    whole = Page(page([made], 1, 1, filters))
    known = {"meta", "style", "div", "header", "footer", "article", "span", "details", "summary", "b"}
    assert set(whole.tags) <= known
    assert whole.tags.count("b") == 1
    assert not [name for name, _ in whole.attributes if name.startswith("on") or name == "src"]
    assert whole.text.count(HOSTILE) == 4 + 3 + 2 + 1 + 1 + 1  # quotes in the passage become typographic
    assert "<b>dog</b>" in whole.text


@given(passages(known=True))
def test_every_character_is_on_the_page(item):
    made = passage(item)
    whole = Page(page([made], 1, 1, NO_FILTERS))
    shown = "".join(f"_____{item.answer}" if "b" in kinds else text for text, kinds in made["query"])
    context = "".join(text for text, _ in made["context"])
    assert whole.text == f"1 of 1 items{item.item_id} · plain{context}{shown}"


@pytest.mark.parametrize("passages_shown", [0, 1])
def test_a_page_stands_by_itself(passages_shown):
    whole = page([passage(cloze("The {dog} ran ."))] * passages_shown, passages_shown, 1, NO_FILTERS)
    assert "http" not in whole
    assert "<script" not in whole
    assert not Page(whole).open
