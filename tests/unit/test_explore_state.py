import json

import numpy as np
import pandas as pd
import pytest
from clozes import clozes
from html_page import Page
from hypothesis import given
from hypothesis import strategies as st
from side_by_side import annotated, listening
from side_by_side import ask as send

import workbench as wb
from workbench.analysis import annotations
from workbench.items.items import DataError
from workbench.widgets.explore import explore as panels
from workbench.widgets.explore.explore import explore
from workbench.widgets.shared.facets import Category, Number, facet

TEXTS = [
    "a dog . the {dog}",
    "a cat . the {dog}",
    "`` no cat ! '' she said . the {cow}",
    "the {}",
    "a fox . a {fox}",
]
IDS = [f"x/dev/{i}" for i in range(5)]
TABLE = pd.DataFrame(
    {
        "item_id": IDS,
        "target_class": pd.Series(["CN", "CN", "PN", None, "V"], dtype="str"),
        "in_context": pd.Series([True, False, False, None, True], dtype="boolean"),
        "direct_speech": pd.Series([False, False, True, False, False], dtype="boolean"),
        "mention_distance": pd.Series([3, None, None, None, 9], dtype="Int64"),
        "n_tokens": pd.Series([60, 61, 61, 70, 90], dtype="Int64"),
    }
)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def explorer():
    return explore(clozes(*TEXTS), TABLE)


def ask(explorer, **message):
    """Send what the page would send; return the answer."""
    [answer] = send(listening(explorer.children[0]), **message)
    return answer


def drawn(explorer, name):
    state = json.loads(json.dumps(explorer.children[0].state))
    return next(chart for chart in state["charts"] if chart["name"] == name)


def words(explorer):
    return [text for _, text in explorer.children[0].state["words"]]


def ids(explorer):
    return [item.item_id for item in explorer.selection]


# -- what is counted


def test_the_bars_counted_by_hand(explorer):
    assert drawn(explorer, "target_class")["rows"] == [
        ["PN", "proper noun", 1, 1], ["CN", "common noun", 2, 2], ["V", "verb", 1, 1],
        ["(none)", "not known", 1, 1],
    ]  # fmt: skip
    rows = [["yes", "yes", 2, 2], ["no", "no", 2, 2], ["unknown", "not known", 1, 1]]
    assert drawn(explorer, "in_context")["rows"] == rows
    distance = drawn(explorer, "mention_distance")
    assert (distance["starts"], distance["width"], distance["open"]) == (list(range(3, 10)), 1, False)
    assert distance["total"] == distance["left"] == [1, 0, 0, 0, 0, 0, 1]
    assert distance["missing"] == ["none earlier", 3, 3]
    tokens = drawn(explorer, "n_tokens")
    assert (tokens["starts"], tokens["total"]) == (list(range(60, 91)), [1, 2, *[0] * 8, 1, *[0] * 19, 1])
    assert (explorer.children[0].state["shown"], explorer.children[0].state["total"]) == (5, 5)


def test_choices_combine_and_go_one_by_one(explorer):
    ask(explorer, type="choose", chosen={"in_context": ["yes"], "n_tokens": [60, 61]})
    assert ids(explorer) == IDS[:1]
    assert words(explorer) == ["in context", "60 to 61 tokens"]
    assert [left for *_, left in drawn(explorer, "in_context")["rows"]] == [1, 2, 0]
    ask(explorer, type="choose", chosen={"n_tokens": None})
    assert ids(explorer) == [IDS[0], IDS[4]]
    ask(explorer, type="choose", chosen={"n_tokens": [61, None], "target_class": ["V", "PN"]})
    assert ids(explorer) == [IDS[4]]
    assert words(explorer) == ["in context", "61 or more tokens", "verb or proper noun"]
    explorer.filters = explorer.filters | {"query": "fox"}
    assert words(explorer)[0] == "passage holds “fox”"
    ask(explorer, type="query")
    assert explorer.filters["query"] == ""
    assert ids(explorer) == [IDS[4]]
    assert ask(explorer, type="clear")["type"] == "done"
    assert (len(explorer.selection), words(explorer)) == (5, [])


def test_there_is_one_state(explorer):
    browser = explorer.browser
    sent = listening(browser).sent
    ask(explorer, type="choose", chosen={"target_class": ["CN"]})
    assert [(m["type"], m["n"]) for m in sent] == [("view", 2)]
    assert browser.filters["facets"] == explorer.filters["facets"] == {"target_class": ["CN"]}
    browser._hear(browser, {"type": "filter", "filters": {"facets": {"in_context": ["no"]}}}, [])
    assert drawn(explorer, "in_context")["chosen"] == ["no"]
    assert drawn(explorer, "target_class")["chosen"] is None
    assert [left for *_, left in drawn(explorer, "target_class")["rows"]] == [1, 1, 0, 0]
    assert [left for *_, left in drawn(explorer, "in_context")["rows"]] == [2, 2, 1], "not its own choice"
    browser.filters = {"query": "cat"}
    assert drawn(explorer, "in_context")["chosen"] is None
    assert [left for *_, left in drawn(explorer, "in_context")["rows"]] == [0, 2, 0]
    explorer.filters = {"facets": {"in_context": [False, "no"]}}
    assert set(browser.filters["facets"]["in_context"]) == {"no"}
    assert json.loads(json.dumps(browser.filters)) == browser.filters
    explorer.filters["facets"].clear()
    assert browser is explorer.children[1]


@pytest.mark.parametrize(
    ("message", "part"),
    [
        ({"type": "choose", "chosen": {"colour": ["red"]}}, "colour"),
        ({"type": "choose"}, "chosen"),
        ({"type": "nonsense"}, "nonsense"),
    ],
)
def test_what_goes_wrong_is_shown_and_changes_nothing(explorer, message, part):
    ask(explorer, type="choose", chosen={"target_class": ["CN"]})
    before = (explorer.filters, explorer.children[0].state)
    answer = ask(explorer, **message)
    assert answer["type"] == "error"
    assert part in answer["message"]
    assert (explorer.filters, explorer.children[0].state) == before


# -- columns that are missing, or tell nothing


def test_charts_without_their_column_say_so():
    table = TABLE[["item_id", "n_tokens"]].assign(
        target_class=pd.Series([None] * 5, dtype="str"),
        direct_speech=True,
        mention_distance=[[i] for i in range(5)],
    )
    made = explore(clozes(*TEXTS), table)
    why = {chart["name"]: chart.get("why") for chart in made.children[0].state["charts"]}
    assert why == {
        "in_context": "The annotations have no column “in_context”.",
        "direct_speech": "The same wherever it is known: yes.",
        "target_class": "Not known for any passage.",
        "mention_distance": "The column holds no categories and no numbers.",
        "n_tokens": None,
    }
    assert "no column" in ask(made, type="choose", chosen={"direct_speech": ["yes"]})["message"]


def test_no_items_at_all():
    state = explore(clozes(), TABLE).children[0].state
    assert ({chart["kind"] for chart in state["charts"]}, state["total"]) == ({"nothing"}, 0)


# -- bins


NUMBERS = st.lists(st.one_of(st.none(), st.integers(-50, 3000)), min_size=2, max_size=60)


@pytest.mark.slow
@given(NUMBERS, st.data())
def test_a_click_on_a_bin_gives_what_the_bin_counts(values, data):
    column = pd.Series(values, dtype="Int64")
    number = facet(column)
    if number is None:
        assert column.nunique() < 2
        return
    assert isinstance(number, Number)
    chart = panels.chart(panels.PANELS[-1], number, column)
    everything = np.ones(len(values), dtype=bool)
    left = np.array(data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values))))
    counted = chart.counts(everything, left)
    starts, width = counted["starts"], counted["width"]
    assert len(starts) <= 40
    assert np.diff(starts).tolist() == [width] * (len(starts) - 1)
    for place, (start, total, part) in enumerate(zip(starts, counted["total"], counted["left"], strict=True)):
        last = place == len(starts) - 1
        chosen = [start, None if last and counted["open"] else start + width - 1]
        inside = number.mask(chosen)
        assert total == inside.sum()
        assert part == (inside & left).sum()
    assert sum(counted["total"]) == column.notna().sum()
    assert counted["missing"][1:] == [column.isna().sum(), (column.isna() & left).sum()]


# -- marks from the annotations


def test_the_spans_of_the_annotations_are_marked_and_nothing_else():
    spans = [[(2, 5)], [], None, None, [[0, 1], [2, 5]]]
    table = TABLE.assign(mentions=spans, speech=[np.array([[0, 1]]), None, None, [], None])
    browser = wb.browse(clozes(*TEXTS), table)
    first = browser._passage(0)
    assert [text for text, letters in first["context"] if "m" in letters] == ["dog"]
    assert [text for text, letters in first["context"] if "s" in letters] == ["a"]
    assert not [letters for _, letters in browser._passage(1)["context"] if letters]
    assert [text for text, letters in browser._passage(2)["context"] if "s" in letters] == ["“no cat!”"]
    assert [text for text, letters in browser._passage(4)["context"] if "m" in letters] == ["a", "fox"]
    assert {"mentions", "speech"}.isdisjoint(name for name, _ in first["columns"])
    assert {"mentions", "speech"}.isdisjoint(browser._described)
    assert browser.to_frame()["mentions"].iloc[0] == [(2, 5)]


@pytest.mark.parametrize("span", [(0, 99), (-1, 2), (3, 3)])
def test_spans_of_another_text_are_told(span):
    table = TABLE.assign(mentions=[[], [span], [], [], []])
    with pytest.raises(DataError, match="mentions do not fit the text of 'x/dev/1'"):
        wb.browse(clozes(*TEXTS), table)


# -- truth values as choices


@pytest.mark.parametrize("kind", ["boolean", "object", "bool[pyarrow]"])
def test_truth_values_are_yes_no_and_unknown(kind):
    made = facet(pd.Series([False, True, None, True], dtype=kind))
    assert isinstance(made, Category)
    assert made.mask(["yes"]).tolist() == [False, True, False, True]
    assert made.mask(["unknown", "no"]).tolist() == [True, False, True, False]
    columns = [[False, True, None], [True, False], [True, None], [True] * 2, [None] * 2]
    names = [getattr(facet(pd.Series(values, dtype=kind)), "names", None) for values in columns]
    assert names == [["yes", "no", "unknown"], ["yes", "no"], ["yes", "unknown"], None, None]


# -- without a kernel


def test_the_page_without_a_kernel(explorer):
    ask(explorer, type="choose", chosen={"target_class": None, "n_tokens": [None, 70]})
    assert explorer.to_html().count('class="off"') == 20
    ask(explorer, type="choose", chosen={"target_class": ["CN"], "n_tokens": None})
    html = explorer.to_html()
    page = Page(html)
    text = " ".join(page.parts)
    for part in ("2 of 5 passages: common noun", "1 of 2", "none earlier: 1 of 3"):
        assert part in text
    assert html.count('class="off"') == 3, "bars that are not chosen are pale"
    assert (page.tags.count("article"), page.tags.count("rect")) == (2, 2 * (7 + 31))
    assert not {"script", "img", "link"} & set(page.tags)
    assert explorer.saved.html().count("<article>") == 2


def test_names_from_data_are_text_in_the_page():
    attack = "<script>alert(1)</script>"
    made = explore(clozes(*TEXTS), TABLE.assign(target_class=[attack, attack, "PN", None, "V"]))
    page = Page(made.to_html())
    assert "script" not in page.tags
    assert attack in page.text
    state = made.children[0].state | {"words": [["mood", attack]]}
    assert "script" not in Page(panels._static_charts(state)).tags


def test_a_notebook_keeps_counts_and_no_items():
    items = clozes(*(f"number {i} . a {{dog}}" for i in range(2000)))
    charts = explore(items, annotated(items)).children[0]
    assert len(json.dumps(charts.get_state(["state"]))) < 5_000
    assert "number" not in json.dumps(charts.state)
    assert not [name for name in charts.keys if "item" in name or "frame" in name]


# -- what is asked for


@pytest.mark.slow
def test_annotations_are_made_where_there_are_none(monkeypatch):
    asked, items = [], clozes(*TEXTS)
    monkeypatch.setattr(annotations, "annotate", lambda items: asked.append(items) or TABLE)
    assert len(drawn(explore(items), "target_class")["rows"]) == 4
    assert asked == [items]
