"""People choose four options of thirty in a table."""

import pandas as pd
import pytest
from completion_questions import WORDS, question, questions
from refused import refused

import workbench as wb
from workbench.construction.sentence_completion import export_options, import_options

IDS = questions().frame["item_id"].tolist()


@pytest.fixture
def mark(tmp_path):
    """Give a function that exports questions and marks words of some of them; it returns the file."""

    def marked(items, words, **columns):
        path = tmp_path / "options.csv"
        table = export_options(items, path)
        pairs = zip(table["item_id"], table["alternate"], strict=True)
        table["chosen"] = ["x" if word in words.get(item_id, ()) else "" for item_id, word in pairs]
        table.assign(**columns).to_csv(path, index=False)
        return path

    return marked


def test_four_marked_options_make_a_question(mark):
    path = mark(questions(), {IDS[1]: ["w7", "w9", "w29", "w1"], IDS[3]: ["w2", "w3", "w4", "w5"]})
    first, second = import_options(questions(), path, choice="Ann")
    assert set(first.candidates) == {"cat", "w7", "w9", "w29", "w1"}
    assert (first.item_id, first.meta["choice"], first.dataset) == (IDS[1], "Ann", "msrcc")
    assert first.meta["alternates"] == WORDS
    assert second.item_id == IDS[3]
    assert len(import_options(questions(), mark(questions(), {}))) == 0


def test_each_alternate_stands_in_its_sentence(mark):
    table = pd.read_csv(mark(questions(), {}), keep_default_na=False)
    assert len(table) == 4 * len(WORDS)
    assert table["sentence"][3].split() == ["sentence", "0", "has", "the", "w3."]
    assert set(table["answer"]) == {"cat"}


def test_a_sentence_is_used_once(mark):
    twice = wb.Items.from_records([question(number) for number in range(2)])
    ids = twice.frame["item_id"].tolist()
    path = mark(twice, {item_id: ["w1", "w2", "w3", "w4"] for item_id in ids})
    assert [item.item_id for item in import_options(twice, path)] == ids[:1]


def test_other_tables_are_refused(mark, tmp_path):
    refused(import_options, questions(), mark(questions(), {IDS[0]: ["w1", "w2", "w3"]}))
    refused(import_options, questions(), mark(questions(), {IDS[0]: ["w1", "w2", "w3", "w4", "w5"]}))
    refused(import_options, questions()[:2], mark(questions(), {IDS[3]: ["w1", "w2", "w3", "w4"]}))
    refused(
        import_options, questions(), mark(questions(), {IDS[0]: ["w1", "w2", "w3", "w4"]}, alternate="dog")
    )
    path = mark(questions(), {})
    pd.read_csv(path).drop(columns="chosen").to_csv(path, index=False)
    refused(import_options, questions(), path)
    path.write_text("item_id,alternate,chosen\na\n", encoding="utf-8")
    refused(import_options, questions(), path)
    refused(import_options, questions(), tmp_path / "absent.csv")
    refused(export_options, wb.load("sample", variant="cbt")[:2], path)
