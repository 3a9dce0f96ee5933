import json
import re

import numpy as np
import pandas as pd
import pytest
from braced_items import clozes, passages
from html_page import Page
from hypothesis import given
from patience import PATIENCE
from random_predictions import listening
from refused import refused

import workbench as wb
from workbench.items import notes as remarks
from workbench.models import NGram
from workbench.render.numbers import MINUS
from workbench.storage.errors import DataError
from workbench.widgets.browser import browser as module
from workbench.widgets.browser.browser import STATE_OF_BROWSER

TEXTS = [
    "It rained . The dog said `` go now '' . I fed the {dog}",
    "It rained . The cat sat . He saw the {Cats} run",
    "No rain fell . She did n't {run}",
    "It was dry . The {} ran",
]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def browser():
    return listening(wb.browse(clozes(*TEXTS)))


ANSWERS = {"open": "view", "query": "view", "show": "passage", "tags": "marked", "note": "marked"}


def ask(browser, kind, answer=None, **message):
    """Send what the page would send; return the one answer."""
    browser.sent.clear()
    browser._handle_message(browser, {"type": kind, **message}, [])
    return one(browser.sent, answer or ANSWERS.get(kind, kind))


def one(answers, kind):
    assert [answer["type"] for answer in answers] == [kind]
    return answers[0]


def counts(view, name):
    facet = view["facets"][name]
    return {label: n for _, label, _, n in [*facet["bins"], *filter(None, [facet["null"]])]}


def joined(parts):
    return "".join(text for text, _ in parts)


def test_filters_begin_with_those_that_matter_and_leave_out_what_is_the_same_everywhere():
    table = pd.DataFrame(
        {
            "item_id": [f"x/dev/{i}" for i in range(4)], "target_lemma": ["dog", "cat", "cat", "dog"],
            "same": ["a"] * 4, "n_tokens": [1, 2, 3, 4], "direct_speech": [True, False, True, False],
            "target_class": ["CN", "CN", "V", "V"],
        }
    )  # fmt: skip
    browser = listening(wb.browse(clozes(*TEXTS), table))
    view = ask(browser, "open")
    assert list(view["facets"]) == ["target_class", "direct_speech", "target_lemma", "n_tokens"]
    assert [name for name, each in view["facets"].items() if each["telling"]] == ["target_lemma"]
    assert view["example"] == "target_class = 'CN'"
    assert "same" in view["names"]
    assert "same" not in view["sorts"]
    ask(browser, "tags", id="x/dev/1", tags=["odd"])
    view = ask(browser, "open")
    assert list(view["facets"])[:3] == ["target_class", "direct_speech", "tags"]


def test_opening_sends_the_view(browser):
    view = ask(browser, "open")
    assert (view["n"], view["total"], view["index"], view["start"]) == (4, 4, 0, 0)
    assert [row["id"] for row in view["rows"]] == [f"x/dev/{i}" for i in range(4)]
    assert view["state"] == browser.state == STATE_OF_BROWSER | {"current": "x/dev/0"}
    assert view["labels"] == []
    shown = view["passage"]
    assert [shown[key] for key in ("id", "answer", "kind", "source")] == ["x/dev/0", "dog", ["plain"], None]
    assert joined(shown["context"]) == "It rained. The dog said “go now”."
    assert ["dog", "m"] in shown["context"]
    assert ["dog", "b"] in shown["query"]
    assert "dog" not in "".join(view["rows"][0]["text"])


def test_filtering_answers_with_a_new_version(browser):
    first = ask(browser, "open")
    view = ask(browser, "query", state={"search": "rained"})
    assert view["version"] == first["version"] + 1
    assert (view["n"], view["index"]) == (2, 0)
    assert view["rows"][0]["text"][1] == "rained"
    assert ["rained", "h"] in view["passage"]["context"]
    assert browser.state == STATE_OF_BROWSER | {"search": "rained", "current": "x/dev/0"}
    assert [item.item_id for item in browser.selection] == ["x/dev/0", "x/dev/1"]
    none = ask(browser, "query", state={"search": "nowhere"})
    assert (none["n"], none["index"], none["rows"], none["passage"]) == (0, -1, [], None)
    assert (len(browser.to_frame()), browser.current, browser.current_id) == (0, None, "")
    back = ask(browser, "query", state={"search": ""})
    assert (back["n"], back["index"], browser.current_id) == (4, 0, "x/dev/0")


def test_the_current_item_stays_while_it_passes(browser):
    ask(browser, "show", index=1, version=browser._listing.version)
    view = ask(browser, "query", state={"search": "cat"})
    assert (view["index"], view["passage"]["id"]) == (0, "x/dev/1")
    view = ask(browser, "query", state={"search": "dry"})
    assert (view["index"], view["passage"]["id"], browser.current.item_id) == (0, "x/dev/3", "x/dev/3")


def test_rows_are_sent_for_the_present_version_only():
    browser = listening(wb.browse(clozes(*[f"number {i} {{dog}}" for i in range(100)])))
    view = ask(browser, "open")
    assert len(view["rows"]) == 28
    rows = ask(browser, "rows", start=90, end=200, version=view["version"])
    assert (rows["start"], rows["version"]) == (90, view["version"])
    assert [row["id"] for row in rows["rows"]] == [f"x/dev/{i}" for i in range(90, 100)]
    assert ask(browser, "rows", start=-5, end=2, version=view["version"])["start"] == 0
    assert ask(browser, "rows", start=5, end=2, version=view["version"])["rows"] == []
    browser.current = "x/dev/70"
    assert (browser.sent[-1]["type"], browser.sent[-1]["index"]) == ("passage", 70)
    around = ask(browser, "open")
    assert (around["index"], around["start"], len(around["rows"])) == (70, 56, 28)
    assert around["rows"][14]["id"] == "x/dev/70"
    later = ask(browser, "query", state={"search": "1"})["version"]
    stale = ask(browser, "rows", start=0, end=5, version=view["version"])
    assert (stale["rows"], stale["version"]) == ([], later)


def test_the_blank_stays_hidden_when_a_search_finds_a_part_of_the_target():
    browser = listening(wb.browse(clozes(*TEXTS), state={"search": "cat"}))
    view = ask(browser, "open")
    assert [text for text, letters in view["passage"]["query"] if letters == "b"] == ["Cats"]
    assert not any("Cats" in text for text, letters in view["passage"]["query"] if letters != "b")
    assert "<b>Cats</b>" in browser.to_html()


def test_tags_and_notes(home, browser):
    marked = ask(browser, "tags", id="x/dev/1", tags=["plot", " odd "])
    assert (marked["id"], marked["tags"], marked["note"]) == ("x/dev/1", ["plot", "odd"], "")
    assert marked["labels"] == ["odd", "plot"]
    assert counts(marked, "tags") == {"odd": 1, "plot": 1, "(none)": 3}
    marked = ask(browser, "note", id="x/dev/1", note="why?")
    assert (marked["tags"], marked["note"]) == (["plot", "odd"], "why?")
    assert remarks.read_notes(["x"], folder=home / "notes")["x/dev/1"].note == "why?"
    (row,) = ask(browser, "query", state={"facets": {"tags": ["plot"]}})["rows"]
    assert (row["id"], row["tags"], row["note"]) == ("x/dev/1", ["plot", "odd"], True)
    frame = browser.to_frame()
    assert (frame["tags"].tolist(), frame["note"].tolist()) == ([["plot", "odd"]], ["why?"])
    again = wb.browse(clozes(*TEXTS), state={"facets": {"tags": ["plot"]}})
    assert [item.item_id for item in again.selection] == ["x/dev/1"]
    assert again._passage(1)["note"] == "why?"


@pytest.mark.parametrize("options", [{}, {"item_id": "key"}])
def test_a_tag_on_one_set_of_ones_own_is_not_on_another(options):
    tables = [pd.DataFrame({"text": [text], "key": ["7"]}) for text in ("The ___ ran.", "The ___ sat.")]
    first, second = (listening(wb.browse(wb.items_from_frame(table, **options))) for table in tables)
    ask(first, "tags", id=first.current_id, tags=["odd"])
    assert wb.browse(wb.items_from_frame(tables[0], **options)).to_frame()["tags"].tolist() == [["odd"]]
    assert second.to_frame()["tags"].tolist() == [[]]
    ask(second, "tags", id=second.current_id, tags=["plain"])
    assert wb.notes("own")["tags"].tolist() == [["odd"], ["plain"]]


@pytest.mark.parametrize(
    ("message", "name", "part"),
    [
        ({"type": "nonsense"}, None, "nonsense"),
        ({"type": "query", "state": {"search": "(", "regex": True}}, "query", "Invalid regular"),
        ({"type": "query", "state": {"facets": {"colour": ["red"]}}}, "query", "colour"),
        ({"type": "query", "state": {"facets": {"tags": [5]}}}, "query", "expected values of the column"),
        ({"type": "query", "state": {"where": "colour = 'red'"}}, "query", "\n^^^^^^"),
        ({"type": "query", "state": {"search": "\ud800"}}, "query", "surrogate"),
        ({"type": "rows", "start": "x", "end": 3, "version": 1}, "rows", "invalid literal"),
        ({"type": "tags", "id": "x/dev/99", "tags": []}, None, "x/dev/99"),
        ({"type": "note", "id": "x/dev/0"}, None, "note"),
        ({"type": "note", "id": "x/dev/0", "note": "\ud800"}, None, "surrogate"),
    ],
)
def test_what_goes_wrong_is_answered_and_changes_nothing(message, name, part):
    browser = wb.browse(clozes(*TEXTS), state={"search": "rained"})
    sent = listening(browser).sent
    before = (browser.state, browser._listing.version, len(browser.selection))
    browser._handle_message(browser, message | {"request": name}, [])
    answer = one(sent, "error")
    assert answer["request"] == name  # as it was asked
    assert part in answer["message"]
    assert (browser.state, browser._listing.version, len(browser.selection)) == before


def test_notes_that_cannot_be_written_are_told(home, browser):
    (home / "notes").mkdir()
    (home / "notes" / "x.jsonl").write_text("broken\n")
    assert "x.jsonl, line 1" in ask(browser, "note", "error", id="x/dev/0", note="new")["message"]
    assert browser._passage(0)["note"] == ""
    refused(wb.browse, clozes(*TEXTS))


def test_a_state_is_the_view():
    notes = pd.DataFrame({"item_id": [f"x/dev/{i}" for i in range(4)], "n": [1.5, 2.0, np.nan, 9.0]})
    items = clozes(*TEXTS)
    state = {"search": "RAIN", "regex": True, "facets": {"n": [1, None]}, "sort": "-n", "table": ["n"]}
    first = wb.browse(items, notes, state=state)
    first.current, first.reveal = "x/dev/0", True
    assert [item.item_id for item in first.selection] == ["x/dev/1", "x/dev/0"]
    assert (first.state["facets"], first.state["where"]) == ({"n": [1, None]}, "")
    assert json.loads(json.dumps(first.state)) == first.state
    again = wb.browse(items, notes, state=first.state)
    assert again.selection.frame.equals(first.selection.frame)
    assert (again.state, again.current, again.state["table"]) == (first.state, items["x/dev/0"], ["n"])
    first.state = {}
    assert (len(first.selection), first.state["table"], first.reveal) == (4, False, False)
    with pytest.raises(DataError):
        first.state = {"colour": "red"}
    seen = []
    first.observe(lambda change: seen.append(change["new"]["where"]), "state")
    first.state = first.state | {"where": "n > 3"}
    assert seen == ["n > 3"]


def test_the_current_item_can_be_assigned():
    items = clozes(*TEXTS)
    browser = wb.browse(items, state={"search": "rain"})
    sent = listening(browser).sent
    browser.current = "x/dev/1"
    assert browser.current == items["x/dev/1"]
    assert one(sent, "passage")["index"] == 1
    browser.current = items[2]
    assert browser.current_id == "x/dev/2"
    for missing in ("x/dev/3", "nowhere", items[3]):
        with pytest.raises(DataError):
            browser.current = missing
    assert browser.current_id == "x/dev/2"


# -- tables beside the items

IDS = [f"x/dev/{i}" for i in range(4)]


@pytest.mark.parametrize("form", ["column", "index"])
def test_annotations_in_any_order(form):
    columns = {"item_id": [IDS[2], IDS[0], "other"], "mood": ["sad", "glad", "mad"], "n": [3, 1, 9]}
    table = pd.DataFrame(columns | {7: [True, None, None]})
    browser = wb.browse(clozes(*TEXTS), table if form == "column" else table.set_index("item_id"))
    assert browser._passage(0)["columns"] == [["mood", "glad"], ["n", "1"], ["7", ""]]
    assert browser._passage(1)["columns"] == [["mood", ""], ["n", ""], ["7", ""]]
    listening(browser)
    view = ask(browser, "query", state={"facets": {"mood": ["sad"]}})
    assert [row["id"] for row in view["rows"]] == [IDS[2]]
    assert counts(view, "mood") == {"not known": 2, "sad": 1, "glad": 1}
    assert [facet for facet, *_ in view["facets"]["n"]["bins"]] == [[1, 1], [2, 2], [3, 3]]
    assert browser.to_frame()["mood"].tolist() == ["sad"]


def test_annotations_do_not_replace_what_the_items_hold():
    table = pd.DataFrame({"item_id": IDS, "split": ["a", "b", "a", "b"]})
    browser = wb.browse(clozes(*TEXTS), table, state={"facets": {"split": ["a"]}})
    assert len(browser.selection) == 2
    assert browser.to_frame()["split"].tolist() == ["dev", "dev"]


@pytest.mark.parametrize(
    "options",
    [
        {"annotations": pd.DataFrame({"id": IDS})},
        {"annotations": pd.DataFrame({"item_id": [IDS[0], IDS[0]]})},
        {"annotations": pd.DataFrame({"n": [1, 2]}, index=pd.Index([IDS[0]] * 2, name="item_id"))},
        {"predictions": pd.DataFrame({"item_id": IDS})},
        {"predictions": pd.DataFrame({"model": ["a"]})},
        {"predictions": []},
        {"predictions": ["no such run"]},
        {"predictions": [3]},
        {"state": {"table": "tags"}},
        {"state": {"table": [3]}},
        {"state": {"table": ["colour"]}},
        {"state": {"colour": "red"}},
    ],
)
def test_what_does_not_fit_is_told(options):
    refused(wb.browse, clozes(*TEXTS), **options)


def test_predictions_are_shown_and_filtered_by():
    rows = [
        (IDS[0], "big", "dog", True, -0.5), (IDS[1], "big", "cow", False, -1.23456),
        (IDS[0], "small", "cat", False, None), (IDS[3], "small", "<b>", np.nan, -2),
    ]  # fmt: skip
    table = pd.DataFrame(rows, columns=["item_id", "model", "prediction", "correct", "log_prob"])
    browser = wb.browse(clozes(*TEXTS), predictions=table)
    assert [browser._passage(place)["predictions"] for place in range(4)] == [
        [["big", "dog", "right", "", f"{MINUS}0.5"], ["small", "cat", "wrong", "", ""]],
        [["big", "cow", "wrong", "", f"{MINUS}1.235"]],
        [],
        [["small", "<b>", "", "", f"{MINUS}2"]],
    ]
    browser.state = {"facets": {"big is": ["wrong"]}}
    assert [item.item_id for item in browser.selection] == [IDS[1]]
    listening(browser)
    view = ask(browser, "open")
    assert counts(view, "big is") == {"not known": 2, "right": 1, "wrong": 1}
    assert counts(view, "small is") == {"not known": 1, "wrong": 0}
    bare = wb.browse(clozes(*TEXTS), predictions=table[["item_id", "model"]])
    assert bare._passage(0)["predictions"] == [["big", "", "", "", ""], ["small", "", "", "", ""]]


FORMS = {
    "a run": lambda runs: runs[0],
    "a frame": lambda runs: runs[0].predictions,
    "a name": lambda runs: runs[0].run,
    "runs": list,
    "a tuple": tuple,
    "an iterator": iter,
    "names and frames": lambda runs: [runs[0].run, runs[1].predictions],
}
TAKERS = {
    "browse": lambda items, runs: wb.browse(items, None, runs).close(),
    "explore": lambda items, runs: wb.explore(items, wb.annotate(items), runs).close(),
    "compare": lambda items, runs: wb.compare(items, runs, None).close(),
    "guess": lambda items, runs: wb.guess(items, person="Ada", runs=runs).close(),
    "evaluate": lambda _, runs: wb.evaluate(runs, resamples=10),
    "leaderboard": lambda _, runs: wb.leaderboard(runs, resamples=10),
    "table": lambda _, runs: wb.table("lambada", runs, resamples=10),
    "charts.accuracy": lambda _, runs: wb.charts.accuracy(runs, by="split"),
    "charts.ranks": lambda _, runs: wb.charts.ranks(runs),
    "charts.expected": lambda items, runs: wb.charts.expected(runs, items=items),
}


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory):
    """Give items, and two runs of them that are stored."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_HOME", str(tmp_path_factory.mktemp("runs")))
        items = wb.load("sample", "dev").sample(5)
        models = [NGram.fit(wb.books("sample"), order=order) for order in (2, 3)]
        return items, [wb.predict(items, model) for model in models]


FORMS_TAKEN = [*(("browse", form) for form in FORMS), *((taker, "names and frames") for taker in TAKERS)]


@pytest.mark.parametrize(("taker", "form"), dict.fromkeys(FORMS_TAKEN))
def test_runs_are_taken_in_every_form(taker, form, two_runs, home, monkeypatch):
    items, runs = two_runs
    monkeypatch.setenv("WORKBENCH_HOME", str(runs[0].folder.parents[1]))
    monkeypatch.chdir(home)
    TAKERS[taker](items, FORMS[form](runs))


def test_models_of_one_name_have_those_of_a_comparison(two_runs):
    items, runs = two_runs
    twice = [runs[0].predictions.assign(run=run) for run in "ab"]
    browser = wb.browse(items, predictions=twice)
    labels = wb.compare(items, twice, None).comparison.labels
    assert [row[0] for row in browser._passage(0)["predictions"]] == labels
    assert list(browser._outcomes) == [f"{each} is" for each in labels]


@pytest.mark.parametrize("verb", [wb.browse, wb.explore, wb.compare])
@pytest.mark.parametrize("thing", [None, [], pd.DataFrame(), "lambada"])
def test_only_items_are_shown(verb, thing):
    refused(verb, thing, *[[]] * (verb is wb.compare))


def test_no_items_at_all():
    browser = listening(wb.browse(clozes()))
    view = ask(browser, "open")
    assert (view["n"], view["total"], view["passage"], browser.current) == (0, 0, None, None)
    assert "Items0 of 0" in Page(browser.to_html()).text


# -- order, facets and conditions, several items


def table_of(**columns):
    return pd.DataFrame({"item_id": IDS} | columns)


def listed(browser):
    return [item.item_id[-1] for item in browser.selection]


@pytest.mark.parametrize(
    ("sort", "order"), [("n", "2031"), ("-n", "3021"), ("word", "1203"), ("-answer", "2013"), ("", "0123")]
)
def test_items_are_sorted_with_missing_ones_last(sort, order):
    table = table_of(n=[2.0, np.nan, 1.0, 9.0], word=["b", "A", "a", None])
    browser = wb.browse(clozes(*TEXTS), table, state={"sort": sort})
    assert "".join(listed(browser)) == order
    assert [i[-1] for i in browser.to_frame()["item_id"]] == list(order)
    with pytest.raises(DataError):
        browser.state = {"sort": "length"}


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        ({"facets": {"n": [None]}}, "1"),
        ({"facets": {"n": [1, 2]}, "where": "word in ('a', 'b')"}, "02"),
        ({"facets": {"word": ["a", None]}}, "23"),
        ({"facets": {"long": [True]}, "where": "n > 2"}, "3"),
        ({"where": "n > 1 and not (word = 'b') or word is null -- \"'"}, "3"),
    ],
)
def test_facets_and_condition_both_have_to_hold(filters, left):
    table = table_of(n=[2, None, 1, 9], word=["b", "A", "a", None], long=[True, False, False, True])
    browser = listening(wb.browse(clozes(*TEXTS), table, state=filters))
    view = ask(browser, "open")
    assert "".join(listed(browser)) == left
    assert filters.items() <= view["state"].items()
    again = eval(view["code"], {"wb": wb, "items": clozes(*TEXTS), "annotations": table})  # noqa: S307 - ours
    assert (listed(again), again.state) == (listed(browser), browser.state)
    more = ask(browser, "query", state={"facets": view["state"]["facets"] | {"tags": [None]}})
    assert ("".join(listed(browser)), more["state"]["where"]) == (left, filters.get("where", ""))
    ask(browser, "query", state={"where": "n = 9", "facets": {}})
    assert listed(browser) == ["3"]


def test_the_facet_of_each_bin_lists_its_rows():
    weights = [0.5, np.nan, -np.inf, 1e-7]
    table = table_of(
        weight=weights, text=["a", None, "1", "true"], long=[True, False, None, True], n=[1, 2, 9, 9]
    )
    browser = wb.browse(clozes(*TEXTS), table)
    bins = [(name, each) for name, facet in browser._listing.facets.items() for each in facet.bins]
    assert len(bins) > 20
    for name, each in bins:
        browser.state = {"facets": {name: each.facet}}
        assert sorted(browser._listing.rows) == each.rows.tolist(), (name, each.key)


def test_own_columns_become_facets_and_columns():
    frame = pd.DataFrame({"text": ["one two three", "four five six"], "genre": ["crime", "poetry"]})
    browser = listening(wb.browse(wb.items_from_frame(frame), state={"facets": {"genre": ["crime"]}}))
    view = ask(browser, "open")
    assert (view["n"], counts(view, "genre")) == (1, {"crime": 1, "poetry": 1})
    assert browser._passage(0)["columns"] == [["genre", "crime"]]
    browser.state = browser.state | {"table": True}
    view = browser.sent[-1]
    assert view["columns"] == ["passage", "genre", "answer", "tags"]
    assert view["rows"][0]["cells"] == ["one two ▁▁▁", "crime", "▁▁▁", ""], "a hidden target stays hidden"
    browser.reveal = True
    assert browser.sent[-1]["rows"][0]["cells"] == ["one two ▁▁▁", "crime", "three", ""]


def test_the_table_has_the_columns_that_are_chosen(browser):
    browser.state = {"table": True}
    assert browser.sent[-1]["columns"] == ["passage", "answer", "tags"]
    assert list(browser.sent[-1]["titles"]) == [
        "passage", "answer", "dataset", "split", "variant", "word_class", "book_id", "tags",
    ]  # fmt: skip
    browser.state = {"table": ["tags", "dataset", "passage", "tags"]}
    ask(browser, "tags", id="x/dev/1", tags=["odd", "long"])
    view = ask(browser, "query", state={"search": "sat"})
    assert (view["columns"], view["rows"][0]["cells"]) == (
        ["tags", "dataset", "passage"], ["odd, long", "x", "It rained. The cat sat. He saw the ▁▁▁ run"],
    )  # fmt: skip
    view = ask(browser, "query", state={"sort": "split"})
    assert view["columns"] == ["tags", "dataset", "passage", "split"], "that it is sorted by is shown"
    with pytest.raises(DataError):
        browser.state = browser.state | {"table": ["colour"]}
    assert browser.state["table"] == ["tags", "dataset", "passage"]


def test_columns_of_annotations_that_are_still_to_come_are_shown_once_they_are_there(monkeypatch):
    monkeypatch.setattr(module, "annotations_at_hand", lambda _: None)
    late = wb.browse(clozes(*TEXTS), "auto", state={"table": ["n_mentions", "tags"]})
    assert late._annotating.wait(PATIENCE)
    assert late._columns_shown() == ["n_mentions", "tags"]
    late.close()


def test_a_page_without_kernel_has_the_table(browser):
    assert "Tags" not in browser.saved.html()
    browser.state = {"table": ["passage", "answer", "tags"]}
    ask(browser, "tags", id="x/dev/0", tags=["<odd>"])
    for html in (browser.saved.html(), browser.to_html()):
        page = Page(html)
        for text in ("Answer", "Tags", "x/dev/0", "I fed the ▁▁▁", "<odd>", "Items4 of 4"):
            assert text in page.text
        assert page.tags.count("details") == 3, "each answer that is known opens on a click"
        assert "'table': [" in page.text


def test_several_items_are_tagged_at_once(browser):
    version = browser._listing.version
    view = ask(browser, "tag", "view", version=version, ranges=[[0, 2], [3, 4]], tags=["odd", " "], on=True)
    assert [row["tags"] for row in view["rows"]] == [["odd"], ["odd"], [], ["odd"]]
    ask(browser, "tags", id="x/dev/2", tags=["plot"])
    view = ask(browser, "tag", "view", version=version, ranges=[[1, 3]], tags=["odd"])
    assert view["rows"][2]["tags"] == ["plot", "odd"], "not all had it"
    view = ask(browser, "tag", "view", version=version, ranges=[[0, 4]], tags=["odd"])
    assert [row["tags"] for row in view["rows"]] == [[], [], ["plot"], []]
    assert (
        "select them again" in ask(browser, "tag", "error", version=0, ranges=[[0, 1]], tags=["x"])["message"]
    )


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_what_is_listed_is_written_to_a_file(home, kind):
    browser = wb.browse(clozes(*TEXTS), table_of(n=[2, None, 1, 9]), state={"where": "n > 1", "sort": "-n"})
    path = browser.export(home / f"items.{kind}")
    read = {"csv": pd.read_csv, "jsonl": lambda p: pd.read_json(p, lines=True), "parquet": pd.read_parquet}
    frame = read[kind](path)
    assert frame["item_id"].tolist() == ["x/dev/3", "x/dev/0"]
    assert frame["n"].tolist() == [9, 2]
    buffers = []
    browser.send = lambda content, data=None: buffers.append((content, data))
    browser._handle_message(browser, {"type": "export", "kind": kind}, [])
    assert buffers == [({"type": "file", "name": f"items.{kind}"}, [path.read_bytes()])]
    refused(browser.export, home / "items.xls")


def test_the_view_does_not_wait_for_annotations():
    state = {"where": "in_context", "facets": {"in_context": [True]}}
    items = clozes("It rained . The dog ran . I fed the {dog}", "He saw the {cat}")
    browser = listening(wb.browse(items, annotations="auto", state=state))
    assert ask(browser, "open")["annotating"]["state"] in ("running", "done")
    assert browser._annotating.wait(PATIENCE)
    view = browser.sent[-2]
    assert (view["type"], view["n"], view["annotating"]) == ("view", 1, None)
    assert state.items() <= view["state"].items()
    assert eval(view["code"], {"wb": wb, "items": items}).state == browser.state  # noqa: S307 - our own line
    at_once = wb.browse(items, annotations="auto", state=state)
    assert (at_once._annotating.state, len(at_once.selection)) == ("idle", 1)
    refused(wb.browse, items, annotations="auto", state={"where": "nowhere"})


# -- without a kernel


def test_what_a_notebook_keeps_is_small():
    browser = wb.browse(clozes(*["It rained . The dog ran . " * 20 + "I fed the {dog}"] * 300))
    assert [browser.to_html(**limit).count("<details>") for limit in ({"limit": 2}, {})] == [2, 200]
    assert browser.saved.html().count("<details>") == 10
    state = json.dumps(browser.get_state(["saved_key", "height"]))
    parts = [str(module.Browser._esm), str(module.Browser._css), browser.saved.html(), state]
    assert all(parts)
    assert sum(len(part.encode()) for part in parts) < 80_000
    assert not [name for name in browser.keys if "item" in name or "frame" in name]


def test_a_page_says_what_it_shows():
    items = clozes("It rained . The {dog} ran .", "The {cat} ran .", "The {} sat .")
    page = Page(wb.browse(items, state={"search": "ran", "sort": "-answer"}).to_html())
    assert "Items2 of 3Selectionpassage contains “ran”OrderAnswer, descending" in page.text
    assert "It rained. The ▁▁▁ ran.show" in page.text
    assert not re.search("http:|https:|<script", wb.browse(items).to_html())
    assert "Show it again: wb.browse(items, state={'search': 'ran', 'sort': '-answer'})" in page.text
    assert page.text.index("cat") > page.text.index("dog")
    assert "The ▁▁▁ sat.show?" in Page(wb.browse(items).to_html()).text


@given(passages(known=True))
def test_every_character_is_on_the_page(item):
    browser = wb.browse(wb.Items.from_records([item]))
    page = Page(browser.to_html())
    parts = item.readable_parts()
    assert f"{item.item_id}{parts.context}{parts.left}▁▁▁{parts.right}" in page.text
    assert page.open == []
    browser.close()
