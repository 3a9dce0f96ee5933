import json
import threading

import numpy as np
import pandas as pd
import pytest
from braced_items import clozes
from html_page import Page
from patience import PATIENCE
from random_predictions import listening
from refused import refused

import workbench as wb
from workbench.analysis import annotations
from workbench.storage.errors import DataError
from workbench.storage.progress import progress_bar
from workbench.widgets.explore.explore import explore

pytestmark = pytest.mark.usefixtures("home")

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


@pytest.fixture
def explorer():
    return explore(clozes(*TEXTS), TABLE)


def ask(explorer, **choices):
    """Choose facets, as the page would; return the answer."""
    facets = {name: values for name, values in (explorer.state["facets"] | choices).items() if values}
    listening(explorer)._handle_message(explorer, {"type": "query", "state": {"facets": facets}}, [])
    [answer] = explorer.sent
    return answer


def drawn(explorer, name):
    return json.loads(json.dumps(explorer._view()["facets"][name]))


def rows(explorer, name):
    """Return the bars of a choice: label, number of all items, number of those that the others leave."""
    chart = drawn(explorer, name)
    return [row[1:] for row in [*chart["bins"], *filter(None, [chart["null"]])]]


def charts(explorer):
    return {chart["name"]: chart["why"] for chart in explorer._view()["charts"]}


def words(explorer):
    return [text for text, _ in explorer._view()["words"]]


def ids(explorer):
    return [item.item_id for item in explorer.selection]


# -- what is counted


def test_the_bars_counted_by_hand(explorer):
    assert rows(explorer, "target_class") == [
        ["proper noun", 1, 1], ["common noun", 2, 2], ["verb", 1, 1], ["not known", 1, 1],
    ]  # fmt: skip
    assert rows(explorer, "in_context") == [["yes", 2, 2], ["no", 2, 2], ["not known", 1, 1]]
    distance = drawn(explorer, "mention_distance")
    assert [row[0] for row in distance["bins"]] == [[n, n] for n in range(3, 10)]
    assert [row[2:] for row in distance["bins"]] == [[1, 1], *[[0, 0]] * 5, [1, 1]]
    assert distance["null"] == [[None], "no earlier mention", 3, 3]
    tokens = drawn(explorer, "n_tokens")
    assert [row[0] for row in tokens["bins"]] == [[n, n] for n in range(60, 91)]
    assert [row[2] for row in tokens["bins"]] == [1, 2, *[0] * 8, 1, *[0] * 19, 1]


def test_choices_combine_and_go_one_by_one(explorer):
    ask(explorer, in_context=[True], n_tokens=[60, 61])
    assert ids(explorer) == IDS[:1]
    assert words(explorer) == ["Target in context: yes", "Passage length: 60 to 61 tokens"]
    assert [left for *_, left in rows(explorer, "in_context")] == [1, 2, 0], "not its own choice"
    ask(explorer, n_tokens=None)
    assert ids(explorer) == [IDS[0], IDS[4]]
    ask(explorer, n_tokens=[61, None], target_class=["V", "PN"])
    assert ids(explorer) == [IDS[4]]
    assert words(explorer)[1:] == ["Passage length: 61 or more tokens", "Target class: verb or proper noun"]
    explorer.state = explorer.state | {"search": "fox"}
    text, change = explorer._view()["words"][-1]
    assert (text, change) == ("passage contains “fox”", {"search": ""})
    explorer.state = explorer.state | change
    assert ids(explorer) == [IDS[4]]
    explorer.state = explorer.state | explorer._view()["words"][1][1]
    assert explorer.state["facets"] == {"in_context": [True], "target_class": ["V", "PN"]}


# -- columns that are missing, or tell nothing


def test_charts_without_their_column_say_so():
    table = TABLE[["item_id", "n_tokens"]].assign(
        target_class=pd.Series([None] * 5, dtype="str"),
        direct_speech=True,
        mention_distance=[[i] for i in range(5)],
    )
    made = explore(clozes(*TEXTS), table)
    assert charts(made) == {
        "in_context": "The annotations have no column “in_context”.",
        "direct_speech": "The same wherever it is known: yes.",
        "target_class": "Not known for any item.",
        "mention_distance": "The column holds no categories and no numbers.",
        "n_tokens": None,
    }
    assert "direct_speech" in ask(made, direct_speech=[True])["message"]


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
    assert {"mentions", "speech"}.isdisjoint(browser._listing.facets)
    assert browser.to_frame()["mentions"].iloc[0] == [(2, 5)]


@pytest.mark.parametrize("span", [(0, 99), (-1, 2), (3, 3)])
def test_spans_of_another_text_are_told(span):
    table = TABLE.assign(mentions=[[], [span], [], [], []])
    refused(wb.browse, clozes(*TEXTS), table)


# -- without a kernel


def test_the_page_without_a_kernel(explorer):
    ask(explorer, target_class=["CN"])
    html = explorer.to_html()
    page = Page(html)
    text = " ".join(page.parts)
    for part in ("2 of 5", "Target class: common noun", "common noun: 2 of 2", "no earlier mention: 1 of 3"):
        assert part in text
    assert page.tags.count("details") == 2, "the listed items"
    assert not {"script", "img", "link"} & set(page.tags)


# -- what is asked for


PANELS = ("direct_speech", "target_class", "mention_distance", "n_tokens")


def test_columns_of_ones_own_are_charted_and_linked():
    table = TABLE.assign(my_score=[0.1, 0.25, 0.3, 0.3, None], genre=["sea", "sea", "war", "sea", None])
    made = explore(clozes(*TEXTS), table, add_columns=["my_score", "genre", "n_tokens"])
    assert charts(made) == dict.fromkeys(["in_context", *PANELS, "my_score", "genre"])
    score = drawn(made, "my_score")
    assert (score["kind"], score["label"]) == ("numbers", "my score")
    assert sum(total for *_, total, _ in score["bins"]) == 4
    assert score["null"][1:] == ["not known", 1, 1]
    chosen = next(facet for facet, *_ in score["bins"] if facet[0] == 0.3)
    assert rows(made, "genre") == [["sea", 3, 3], ["war", 1, 1], ["not known", 1, 1]]
    ask(made, my_score=chosen)
    assert ids(made) == IDS[2:4]
    assert words(made) == ["my score: 0.3 to below 0.31"]
    assert made.state["facets"] == {"my_score": chosen}
    assert [left for *_, left in rows(made, "genre")] == [1, 1, 0]
    with pytest.raises(DataError):
        explore(clozes(*TEXTS), table, add_columns=["colour"])
    frame = pd.DataFrame({"text": ["the dog ran", "a cat sat"], "mood": ["glad", "sad"]})
    items = wb.items_from_frame(frame)
    annotations = TABLE[:2].assign(item_id=items.frame["item_id"])
    assert rows(explore(items, annotations, add_columns=["mood"]), "mood") == [["glad", 1, 1], ["sad", 1, 1]]


def test_items_without_a_value_can_be_chosen(explorer):
    ask(explorer, mention_distance=[None])
    assert ids(explorer) == IDS[1:4]
    assert words(explorer) == ["Mention distance: no earlier mention"]
    assert drawn(explorer, "mention_distance")["null"] == [[None], "no earlier mention", 3, 3]
    assert [left for *_, left in rows(explorer, "target_class")] == [1, 1, 0, 1]


def test_a_bin_for_all_that_is_longer_says_so():
    items = clozes(*(f"{text} . a {{dog}}" for text in map(str, range(200))))
    lengths = [50 + n % 40 for n in range(199)] + [900]
    table = pd.DataFrame({"item_id": items.frame["item_id"], "n_tokens": lengths})
    chart = drawn(explore(items, table), "n_tokens")
    (start, end), label, *_ = chart["bins"][-1]
    assert (label, end) == (f"{start} or more", None)
    assert f"{start} or more: " in Page(explore(items, table).to_html()).text


def test_the_view_is_there_before_the_annotations(monkeypatch):
    gate, items = threading.Event(), clozes(*TEXTS)

    def annotate(_items):
        progress_bar(5, label="annotate").update(3)
        gate.wait(PATIENCE)
        return TABLE

    monkeypatch.setattr(annotations, "annotate", annotate)
    made = explore(items, add_columns=["target_class"])
    try:
        assert len(made.selection) == 5
        assert charts(made)["target_class"].startswith("Analysing targets: ")
    finally:
        gate.set()
    assert made._annotating.wait(PATIENCE)
    assert len(rows(made, "target_class")) == 4
    ask(made, target_class=["PN"])
    assert ids(made) == [IDS[2]]
