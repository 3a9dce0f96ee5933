import math

import pandas as pd
import pytest
from braced_items import cloze, clozes
from hand_annotated import ROWS, frame, frames
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

import workbench as wb
from workbench.analysis import statistics as summary
from workbench.analysis.statistics import statistics
from workbench.items.items import Items

HAND = frame()


def rows(table, *columns):
    return list(table[list(columns)].itertuples(index=False, name=None))


WAYS = [
    ({}, "lemma_in_context", 5), ({"by": "form"}, "in_context", 3),
    ({"within": "context"}, "n_context_mentions", 4),
]  # fmt: skip


@pytest.mark.parametrize(("options", "column", "inside"), WAYS)
def test_targets_in_context_are_counted(options, column, inside):
    table = summary.count_in_context(HAND, **options)
    assert rows(table, "set", "column", "value", "label", "count", "n", "missing") == [
        ("x/dev", column, True, "in context", inside, 9, 1),
        ("x/dev", column, False, "not in context", 9 - inside, 9, 1),
    ]
    assert table["share"].tolist() == pytest.approx([inside / 9, 1 - inside / 9])


def test_classes_are_counted():
    table = summary.count_classes({"one": HAND, "two": HAND.iloc[:4]})
    assert rows(table[table["set"] == "one"], "value", "count") == [
        ("PN", 4), ("CN", 3), ("V", 1), ("J", 0), ("R", 1), ("O", 0),
    ]  # fmt: skip
    assert table["n"].tolist() == [9] * 6 + [4] * 6
    assert table["missing"].tolist() == [1] * 6 + [0] * 6


def test_classes_out_of_context_are_counted():
    by_lemma = summary.count_classes_out_of_context(HAND)
    assert rows(by_lemma, "value", "count", "n", "missing")[:3] == [
        ("PN", 1, 4, 1), ("CN", 2, 4, 1), ("V", 1, 4, 1),
    ]  # fmt: skip
    by_form = summary.count_classes_out_of_context(HAND, by="form")
    assert by_form["count"].tolist() == [2, 2, 1, 0, 1, 0]
    assert by_form["n"].tolist() == [6] * 6


def test_speech_is_counted():
    assert rows(summary.count_direct_speech(HAND), "column", "value", "count", "n", "missing") == [
        ("direct_speech", True, 6, 10, 0),
        ("target_in_speech", True, 3, 10, 0),
    ]


def test_numbers_are_counted():
    table = summary.histogram(HAND, "mention_distance", first=1, width=10)
    assert rows(table, "first", "last", "x", "x2", "count", "n", "missing") == [
        (1, 10, 0.5, 10.5, 3, 5, 5), (11, 20, 10.5, 20.5, 1, 5, 5), (21, 30, 20.5, 30.5, 1, 5, 5),
    ]  # fmt: skip
    assert table["mean"].tolist() == pytest.approx([56 / 5] * 3)
    table = summary.histogram({"a": HAND, "b": HAND.iloc[:1]}, "n_tokens", width=10)
    assert rows(table, "set", "first", "last", "count") == [
        ("a", 61, 70, 3), ("a", 71, 80, 6), ("a", 81, 90, 1),
        ("b", 61, 70, 0), ("b", 71, 80, 1), ("b", 81, 90, 0),
    ]  # fmt: skip


@given(frames(), st.one_of(st.none(), st.integers(1, 20)))
def test_histograms_are_those_of_a_slow_loop(drawn, width):
    table = summary.histogram({"a": drawn}, "mention_distance", first=1, width=width)
    values = [int(value) for value in drawn["mention_distance"] if value is not pd.NA]
    for row in table.itertuples():
        assert row.count == sum(row.first <= value <= row.last for value in values)
        assert row.count == sum(row.x < value < row.x2 for value in values)
    assert table["count"].sum() == len(values) == table["n"].iloc[0]
    assert table["n"].iloc[0] + table["missing"].iloc[0] == len(drawn)


@given(frames())
def test_shares_add_up(drawn):
    for table in (summary.count_in_context(drawn), summary.count_classes(drawn)):
        n = table["n"].iloc[0]
        assert table["count"].sum() == n
        assert (table["n"] + table["missing"]).eq(len(drawn)).all()
        assert n == 0 or table["share"].sum() == pytest.approx(1)
        assert table["share"].isna().all() == (n == 0)


def test_a_missing_column_is_named():
    poor = {"poor": HAND[["item_id", "n_tokens"]]}
    refused(summary.count_classes_out_of_context, poor)
    refused(summary.histogram, poor, "mention_distance")


def test_what_is_no_set_is_refused():
    for wrong in ({}, [HAND], {"a": []}):
        refused(summary.named_sets, wrong)
    refused(summary.count_classes, HAND.assign(target_class="X"))
    refused(summary.histogram, HAND.assign(mention_distance=0), "mention_distance", first=1)
    refused(summary.histogram, HAND, "n_tokens", width=0)
    refused(summary.count_in_context, HAND, by="form", within="context")
    refused(summary.count_classes_out_of_context, HAND, by="sound")


def cell(table, quantity, column="value", **where):
    for name, wanted in where.items():
        table = table[table[name] == wanted]
    (value,) = table.loc[table["quantity"] == quantity, column]
    return value


ITEMS = clozes(
    "it rained . the dog ran . the {dog} barked .",  # 11 tokens, 2 context sentences
    "she left . he {stayed} .",  # 6 and 1
    "who came ? {}",  # 3 and 0, no answer
    book_id="novel",
)


def test_statistics_are_those_counted_by_hand():
    table = statistics(ITEMS)
    wanted = {
        "passages": 3, "novels": 1, "context sentences per passage": 1, "tokens per passage": 20 / 3,
        "tokens": 20, "answers": 2, "different answers": 2,
    }  # fmt: skip
    assert dict(zip(table["quantity"], table["value"], strict=True)) == pytest.approx(wanted)
    assert cell(table, "context sentences per passage", "sd") == pytest.approx(1)
    assert cell(table, "tokens per passage", "sd") == pytest.approx(math.sqrt(49 / 3))
    assert table["paper"].isna().all()


def test_several_sets_stand_side_by_side():
    text = "it rained . the {dog} barked ."
    made = [cloze(text, item_id=f"lambada/dev/{i}") for i in range(len(ROWS))]
    dev, notes = Items.from_records(made), frame(ids="lambada/dev")
    table = statistics({"dev": dev, "mine": ITEMS}, {"dev": notes})
    assert cell(table, "passages", "dev") == len(ROWS)
    assert cell(table, "passages", "mine") == 3
    assert cell(table, "tokens per passage", "sd_mine") == pytest.approx(math.sqrt(49 / 3))
    alone = statistics(dev, notes)
    for column in ("low", "high", "n", "paper"):
        assert cell(table, "proper nouns", f"{column}_dev") == cell(alone, "proper nouns", column)
    assert cell(table, "proper nouns", "n_mine") is pd.NA or math.isnan(cell(table, "proper nouns", "n_mine"))
    head = str(table).split("\n")[0].split("  ")
    assert [text.strip() for text in head if text] == ["Quantity", "dev", "Paper (dev)", "mine"]
    assert list(statistics([dev, ITEMS])[["lambada/dev", "x/dev"]].iloc[0]) == [len(ROWS), 3]
    refused(statistics, [dev, dev])
    refused(statistics, {})
    refused(statistics, [notes])


def test_counts_are_shown_as_tables():
    lines = str(summary.count_classes({"one": HAND, "two": HAND.iloc[:4]})).split("\n")
    assert lines[0].split() == ["Target", "class", "Share", "(%)", "Count", "n", "Without", "a", "value"]
    assert lines[3].split() == ["proper", "noun", "44.4", "[18.9,", "73.3]", "4", "9", "1"]
    assert "Without" not in str(summary.count_classes(HAND.dropna()))


def test_novels_are_null_where_one_is_unknown():
    items = Items.concat([ITEMS, clozes("a {b} .", dataset="y")])
    table = statistics(items)
    assert cell(table, "novels", dataset="x") == 1
    assert cell(table, "novels", dataset="y") is pd.NA
    assert cell(table, "novels", "note", dataset="y") == "1 items name no book"


def test_statistics_stand_beside_the_paper():
    text = "it rained . the {dog} barked ."
    items = Items.from_records(cloze(text, item_id=f"lambada/{split}/0") for split in ("dev", "test"))
    table = statistics(items)
    assert list(dict.fromkeys(table["split"])) == ["dev", "test", "all"]
    assert cell(table, "passages", "paper", split="dev") == "4869"
    assert cell(table, "passages", "paper_row", split="all") == "text / all / passages"
    assert cell(table, "tokens per passage", "paper_row", split="test") == "text / test / tokens per passage"
    of_all = table.loc[table["quantity"] == "context sentences per passage", "paper_row"]
    assert of_all.tolist() == ["text / all / context sentences per passage"] * 3


def test_statistics_of_annotations():
    made = [cloze("it {rained} .", item_id=f"lambada/dev/{i}") for i in range(len(ROWS))]
    notes = frame(ids="lambada/dev").assign(target_pos=["PRON", *["NOUN"] * 8, None])
    table = statistics(Items.from_records(made), notes.sample(frac=1, random_state=1))
    expected = {
        "passages with quoted direct speech": (60, "71"),
        "target (or its lemma) in context": (500 / 9, ">80 (about 84)"),
        "target (or its lemma) not in context": (400 / 9, "16"),
        "proper nouns": (400 / 9, "48"), "common nouns": (300 / 9, "37"),
        "verbs": (100 / 9, "7.7"), "pronouns": (100 / 9, "0.3"),
        "proper nouns among targets whose lemma is not in context": (25, "1"),
    }  # fmt: skip
    for quantity, (value, paper) in expected.items():
        assert cell(table, quantity) == pytest.approx(value), quantity
        assert cell(table, quantity, "paper") == paper
    (row,) = table[table["quantity"] == "verbs"].to_dict("records")
    assert (row["n"], row["note"]) == (9, "1 without a value left out")
    low, high = summary.wilson(1, 9)
    assert (row["low"], row["high"]) == pytest.approx((100 * low[0], 100 * high[0]))


def test_the_control_set_stands_beside_the_papers_input():
    made = [cloze("it {rained} .", item_id=f"lambada/control/{i}") for i in range(len(ROWS))]
    table = statistics(Items.from_records(made), frame(ids="lambada/control"))
    assert cell(table, "passages with quoted direct speech", "paper") == "61"
    assert "not released" in cell(table, "passages with quoted direct speech", "note")
    assert cell(table, "passages", "paper") == "5000"
    assert pd.isna(cell(table, "tokens per passage", "paper"))


def test_statistics_need_the_annotations_of_these_items():
    notes = frame(ids="x/dev")
    refused(statistics, ITEMS, notes.iloc[:2])
    refused(statistics, ITEMS, pd.concat([notes, notes]))
    assert len(statistics(ITEMS[:0])) == 0


@pytest.mark.data
def test_statistics_of_the_real_development_set_are_the_papers(real_data):
    table = statistics(wb.load("lambada", "dev", path=real_data))
    assert cell(table, "passages") == float(cell(table, "passages", "paper"))
    sentences, paper = (cell(table, "context sentences per passage", name) for name in ("value", "paper"))
    assert round(sentences, 1) == float(paper)
