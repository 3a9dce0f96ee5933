"""Columns of one's own group results everywhere: passed in any form, or as the runs were stored with."""

import pandas as pd
import pytest
from refused import refused

import workbench as wb
from workbench.charts.predictions import accuracy_by_column
from workbench.evaluation.align import align
from workbench.models import RandomWord
from workbench.predictions.store import TABLE

WORDS = ["dog", "cat", "cow", "hen", "fox", "owl"]
GENRES = ["novel", "play", "novel", "play", "play", None]
GROUPS = {("novel", 2), ("play", 3)}


def table(**columns):
    texts = [f"It rained on the {word} . Nobody had fed the {word}" for word in WORDS]
    return pd.DataFrame({"text": texts, "answer": WORDS, **columns})


def own_items(**columns):
    return wb.items_from_frame(table(**columns))


@pytest.fixture
def items(no_data, monkeypatch):
    monkeypatch.setenv("WORKBENCH_HOME", str(no_data / "home"))
    return own_items(genre=GENRES, year=[1850, 1900, 1850, 1900, 1950, 1950], read=[True, None] * 3)


def predicted(items, seed=0):
    return wb.predict(items, RandomWord("passage"), seed=seed)


def groups(frame, column="genre", n="n"):
    return {(row[column], row[n]) for row in frame.to_dict("records") if not pd.isna(row[column])}


FORMS = {
    "not": lambda _items: {},
    "items": lambda items: {"items": items},
    "items as annotations": lambda items: {"annotations": items},
    "a frame with an index": lambda items: {"annotations": items.extra.set_axis(items.frame["item_id"])},
}


@pytest.mark.parametrize("form", FORMS)
def test_results_are_grouped_by_a_column_of_ones_own(items, form):
    runs, passed = [predicted(items), predicted(items, 1)], FORMS[form](items)
    assert groups(wb.evaluate(runs, by="genre", **passed)) == GROUPS
    years = {(1850, 2), (1900, 2), (1950, 1)}
    assert groups(wb.evaluate(runs, by=["year", "genre"], **passed), "year") == years
    assert groups(wb.evaluate(wb.replicates(runs), by="genre", **passed)) == GROUPS
    assert groups(accuracy_by_column(runs[0], by="genre", **passed), "group") == {*GROUPS, ("not known", 1)}
    assert wb.charts.accuracy(runs, by="year", bins=[1900], **passed).to_dict()
    if "items" not in passed:
        slices = align(items, runs, resamples=20, **passed).slices("genre")
        assert groups(slices, "bin") == {*GROUPS, ("not known", 1)}
        compared = wb.compare(
            items, runs, state={"column": "genre"}, resamples=20, **(passed or {"annotations": None})
        )
        assert compared.column == "genre"
        compared.close()
        shown = wb.browse(items, state={"where": "genre = 'play'"}, **passed)
        assert len(shown.selection) == len(items.query("genre = 'play'", **passed)) == 3
        shown.close()


@pytest.mark.parametrize("name", ["run", "frame", "name"])
def test_a_stored_run_knows_the_columns_of_its_items(items, name):
    run = predicted(items)
    passed = {"run": run, "frame": run.predictions, "name": run.run}[name]
    assert groups(wb.evaluate(passed, by="genre")) == GROUPS
    assert groups(wb.leaderboard(passed, by="genre")) == {*GROUPS, ("", 1)}
    plain = wb.items_from_frame(table())
    assert groups(align(plain, passed, resamples=20).slices("genre"), "bin") >= GROUPS
    expected = items.extra.set_axis(pd.Index(items.frame["item_id"], name="item_id"))
    pd.testing.assert_frame_equal(run.item_columns.fillna("-"), expected.fillna("-"), check_dtype=False)


def test_a_ranking_knows_the_columns_of_each_run(items):
    predicted(items, 0)
    predicted(own_items(genre=["poem"] * 6), 1)
    table = wb.leaderboard(by="genre", published=False)
    assert groups(table) == {*GROUPS, ("", 1), ("poem", 6)}
    pd.testing.assert_frame_equal(wb.leaderboard(by="genre", published=False), table)


def test_a_run_that_is_found_again_keeps_the_columns_that_it_was_stored_with(items):
    run = predicted(wb.items_from_frame(table()))
    refused(wb.evaluate, run, by="genre")
    refused(accuracy_by_column, run, by="genre")
    assert predicted(items) == run
    refused(wb.evaluate, run, by="genre")
    assert groups(wb.evaluate(run, by="genre", items=items)) == GROUPS
    assert run.item_columns.columns.empty


def test_columns_are_in_the_table_of_the_run_and_not_among_its_predictions(items):
    run = predicted(items)
    stored = pd.read_parquet(run.folder / TABLE)
    assert stored["item: genre"].fillna("-").tolist() == ["-" if name is None else name for name in GENRES]
    assert stored.columns.tolist() == [*run.predictions.columns, "item: genre", "item: year", "item: read"]
    assert [path.name for path in sorted(run.folder.iterdir())] == [TABLE, "run.json"]


def test_a_column_with_the_name_of_a_result_or_of_predictions_is_refused(monkeypatch, no_data):
    monkeypatch.setenv("WORKBENCH_HOME", str(no_data / "home"))
    names = ["n", "accuracy", "rank", "model"]
    items = own_items(**dict.fromkeys(names, GENRES), genre=GENRES)
    run = predicted(items)
    for name in names:
        for call in (
            lambda name=name: wb.evaluate(run, by=["genre", name]),
            lambda name=name: wb.evaluate(run.predictions, by=name, items=items),
            lambda name=name: wb.leaderboard(by=name),
        ):
            refused(call)
    refused(accuracy_by_column, run, by="rank")
    refused(wb.leaderboard, run, by="place")
    plain = predicted(wb.items_from_frame(table()[:4]))
    assert len(wb.evaluate(plain, by=["model", "rank"])) >= 1  # those of the predictions
    with pytest.raises(TypeError, match="unhashable"):
        wb.leaderboard(plain, by="top_words")


@pytest.mark.usefixtures("items")
def test_no_passages_and_no_lists_are_stored():
    passages = [text.partition(" . ")[0] * 10 for text in table()["text"]]
    texts = [f"It ran . The dog{number}" for number in range(201)]
    many = wb.items_from_frame(pd.DataFrame({"text": texts, "name": [text[9:] for text in texts], "n": 1}))
    run = predicted(own_items(before=passages, tags=[["a"]] * 6, genre=GENRES))
    assert run.item_columns.columns.tolist() == ["genre"]
    assert predicted(many).item_columns.columns.tolist() == ["n"]
    assert b"rained" not in (run.folder / TABLE).read_bytes()
    refused(wb.evaluate, run, by="before")
    assert len(wb.evaluate(run, by="before", items=own_items(before=passages))) == 6


def test_annotations_without_ids_say_what_to_pass(items):
    run = predicted(items)
    for call in (
        lambda: wb.evaluate(run, by="genre", annotations=items.extra),
        lambda: accuracy_by_column(run, items.extra, by="genre"),
        lambda: align(items, run, annotations=items.extra).slices("genre"),
        lambda: wb.browse(items, items.extra),
        lambda: items.query("genre = 'play'", items.extra),
    ):
        refused(call)
    refused(wb.evaluate, run, by="genre", annotations=[1])
