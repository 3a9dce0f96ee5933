import json
import threading

import numpy as np
import pandas as pd
import pytest
from clozes import clozes
from html_page import Page
from hypothesis import given
from hypothesis import strategies as st
from patience import PATIENCE
from side_by_side import annotated, listening
from side_by_side import ask as send

import workbench as wb
from workbench.analysis import annotations
from workbench.storage.errors import DataError
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
    assert distance["starts"] == distance["ends"] == list(range(3, 10))
    assert distance["total"] == distance["left"] == [1, 0, 0, 0, 0, 0, 1]
    assert distance["missing"] == ["no earlier mention", 3, 3]
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
    assert words(explorer)[0] == "passage contains “fox”"
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
        "target_class": "Not known for any item.",
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
    starts, ends = counted["starts"], counted["ends"]
    assert 1 <= len(starts) == len(counted["names"]) <= 40
    assert np.allclose(np.diff(starts), np.diff(starts)[:1])
    assert None not in ends[:-1]
    for start, end, total, part in zip(starts, ends, counted["total"], counted["left"], strict=True):
        inside = number.mask([start, end])
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
    for part in ("2 of 5 items: common noun", "1 of 2", "no earlier mention: 1 of 3"):
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


PANELS = ("direct_speech", "target_class", "mention_distance", "n_tokens")


def test_columns_of_ones_own_are_charted_and_linked():
    table = TABLE.assign(my_score=[0.1, 0.25, 0.3, 0.3, None], genre=["sea", "sea", "war", "sea", None])
    made = explore(clozes(*TEXTS), table, columns=["my_score", "genre", "n_tokens"])
    names = [each["name"] for each in made.children[0].state["charts"]]
    assert names == ["in_context", *PANELS, "my_score", "genre"]
    score = drawn(made, "my_score")
    assert (score["kind"], score["title"]) == ("bins", "my score")
    assert sum(score["total"]) == 4
    assert score["missing"] == ["missing", 1, 1]
    place = score["starts"].index(0.3)
    assert score["total"][place] == 2, "0.3 is not less than 3 * 0.1"
    assert [row[::2] for row in drawn(made, "genre")["rows"]] == [["sea", 3], ["war", 1], ["(none)", 1]]
    ask(made, type="choose", chosen={"my_score": [score["starts"][place], score["ends"][place]]})
    assert ids(made) == IDS[2:4]
    assert words(made) == ["my score: 0.3"]
    assert [row[3] for row in drawn(made, "genre")["rows"]] == [1, 1, 0]
    with pytest.raises(DataError, match=r"there is no column 'colour' to draw; known are .*genre"):
        explore(clozes(*TEXTS), table, columns=["colour"])
    frame = pd.DataFrame({"text": ["the dog ran", "a cat sat"], "mood": ["glad", "sad"]})
    items = wb.items_from_frame(frame)
    annotations = TABLE[:2].assign(item_id=items.frame["item_id"])
    mood = drawn(explore(items, annotations, columns=["mood"]), "mood")
    assert [row[::2] for row in mood["rows"]] == [["glad", 1], ["sad", 1]]


def test_items_without_a_value_can_be_chosen(explorer):
    ask(explorer, type="choose", chosen={"mention_distance": [None]})
    assert ids(explorer) == IDS[1:4]
    assert words(explorer) == ["no earlier mention"]
    assert drawn(explorer, "mention_distance")["missing"] == ["no earlier mention", 3, 3]
    assert [row[3] for row in drawn(explorer, "target_class")["rows"]] == [1, 1, 0, 1]
    assert explorer.to_html().count('<g class="off">') == 7
    ask(explorer, type="choose", chosen={"mention_distance": None})
    explorer.filters = {"facets": {"target_class": {"not": ["CN"]}}}
    assert words(explorer) == ["not (common noun)"]
    assert drawn(explorer, "target_class")["excluded"] == ["CN"]


def test_a_bin_for_all_that_is_longer_says_so():
    items = clozes(*(f"{text} . a {{dog}}" for text in map(str, range(200))))
    lengths = [50 + n % 40 for n in range(199)] + [900]
    table = pd.DataFrame({"item_id": items.frame["item_id"], "n_tokens": lengths})
    chart = drawn(explore(items, table), "n_tokens")
    assert chart["names"][-1] == f"{chart['starts'][-1]} or more"
    assert chart["ends"][-1] is None
    assert f"≥ {chart['starts'][-1]}" in Page(explore(items, table).to_html()).text


def test_a_typed_condition_is_part_of_the_one_state():
    made = explore(clozes(*TEXTS), TABLE, where="n_tokens > 60 and target_class != V", sort="-n_tokens")
    assert ids(made) == IDS[1:3]
    assert words(made) == ["n_tokens > 60 and target_class != V"]
    assert [row[3] for row in drawn(made, "target_class")["rows"]] == [1, 1, 0, 0]
    ask(made, type="choose", chosen={"target_class": ["PN"]})
    assert ids(made) == [IDS[2]]
    sent = listening(made.browser).sent
    made.browser._hear(made.browser, {"type": "open"}, [])
    [code] = [m["code"] for m in sent if "code" in m]
    assert code.startswith("wb.explore(items, annotations, where=")
    again = eval(code, {"wb": wb, "items": clozes(*TEXTS), "annotations": TABLE})  # noqa: S307
    assert ids(again) == ids(made)
    ask(made, type="where")
    assert words(made) == ["proper noun"]
    ask(made, type="clear")
    assert (words(made), made.filters["sort"]) == ([], "-n_tokens")


def test_the_view_is_there_before_the_annotations(monkeypatch):
    gate, items = threading.Event(), clozes(*TEXTS)

    def annotate(_items, *, progress):
        progress(3, 5)
        gate.wait(PATIENCE)
        return TABLE

    monkeypatch.setattr(annotations, "annotate", annotate)
    made = explore(items, columns=["target_class"])
    try:
        assert len(made.selection) == 5
        assert drawn(made, "target_class")["why"].startswith("Analysing targets: ")
    finally:
        gate.set()
    assert made.browser._annotating.wait(PATIENCE)
    assert len(drawn(made, "target_class")["rows"]) == 4
    ask(made, type="choose", chosen={"target_class": ["PN"]})
    assert ids(made) == [IDS[2]]
