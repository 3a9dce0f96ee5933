import builders as b
import pytest

from workbench.datasets import load
from workbench.items.items import DataError

QUESTIONS, ANSWERS = "Holmes.machine_format.questions.txt", "Holmes.machine_format.answers.txt"
TABLE, KEY = "testing_data.csv", "test_answer.csv"


def official(**changes):
    return {QUESTIONS: b.holmes_questions(), ANSWERS: b.holmes_answers()} | changes


def table(**changes):
    return {TABLE: b.holmes_csv(), KEY: b.holmes_csv_answers()} | changes


def read(folder, files, **options):
    return load("msrcc", path=b.write(folder, files), **options)


def test_an_item(tmp_path):
    items = read(tmp_path, official())
    assert [item.item_id for item in items] == ["msrcc/test/0001", "msrcc/test/0002", "msrcc/test/0003"]
    assert items[1].text == "He looked at me and said nothing."
    assert items[1].query == "He _____ at me and said nothing."
    assert items[1].candidates == ("boiled", "looked", "grew", "rang", "froze")
    assert items[2].tokens[:4] == ["The", "hound", "'s", "howl"]
    assert items[0].sentences == ((0, len(items[0].text)),)


def test_both_forms_give_the_same_items(tmp_path):
    first, second = read(tmp_path / "a", official()), read(tmp_path / "b", table())
    assert first.frame.equals(second.frame)


def test_the_official_form_wins(tmp_path):
    assert read(tmp_path, official() | table()).attrs["source"] == f"{QUESTIONS}, {ANSWERS}"


@pytest.mark.parametrize("files", [official(), table()])
def test_archives(tmp_path, files):
    packed = b.tar({f"x/Data/{name}": content for name, content in files.items()})
    path = b.write(tmp_path, {"any.tar.gz": packed}) / "any.tar.gz"
    assert len(load("msrcc", path=path)) == 3


def test_a_suffix_is_kept_for_the_answers(tmp_path):
    files = {
        "Holmes.machine_format.questions.half.txt": b.holmes_questions(),
        "Holmes.machine_format.answers.half.txt": b.holmes_answers(),
    }
    assert len(read(tmp_path, files)) == 3


def test_there_is_only_a_test_set(tmp_path):
    with pytest.raises(DataError, match="one set of questions"):
        load("msrcc", "dev", path=tmp_path)
    with pytest.raises(DataError, match="there is test"):
        load("msrcc", "tset", path=tmp_path)


def test_questions_are_checked_before_answers_are_missed(tmp_path):
    with pytest.raises(DataError, match=r"answers file Holmes\.machine_format\.answers\.txt is missing"):
        read(tmp_path, {QUESTIONS: b.holmes_questions()})
    with pytest.raises(DataError, match=r"line 2: found 'oops'"):
        read(tmp_path, {QUESTIONS: "1a) A [b] c.\noops\n"})
    with pytest.raises(DataError, match=r"test_answer\.csv is missing"):
        read(tmp_path / "b", {TABLE: b.holmes_csv()})


def test_without_answers_the_blank_stays_empty(tmp_path):
    items = read(tmp_path, {QUESTIONS: b.holmes_questions()}, on_error="skip")
    assert items[1].answer is None
    assert items[1].text == "He  at me and said nothing."
    assert items[1].passage == "He _____ at me and said nothing."
    assert len(items.problems) == 1


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            official(**{QUESTIONS: b.holmes_questions().replace("2c)", "2d)")}),
            "question 2 has lines a b d d e",
        ),
        (
            official(**{QUESTIONS: b.holmes_questions().replace("[grew] at me", "[grew] at us")}),
            "differ in more",
        ),
        (official(**{QUESTIONS: b.holmes_questions().replace("[grew]", "grew")}), "with one word"),
        (
            official(**{ANSWERS: b.holmes_answers().replace("[looked]", "[stared]")}),
            "the question has 'looked'",
        ),
        (official(**{ANSWERS: b.holmes_answers().split("2b)")[0]}), "no answer to question 2"),
        (official(**{ANSWERS: b.holmes_answers() * 2}), "the number 1 occurs twice"),
        (table(**{TABLE: b.holmes_csv().replace("He _____", "He ___ and ____")}), "2 blanks"),
        (table(**{TABLE: b.holmes_csv().replace("He _____", "He")}), "0 blanks"),
        (table(**{TABLE: b.holmes_csv().replace("\n2,", "\ntwo,")}), "line 3: found 'two"),
        (table(**{TABLE: b.holmes_csv().replace("boiled", "")}), "lacks a choice"),
        (table(**{TABLE: b.holmes_csv().replace("id,question", "nr,text")}), "the columns are nr"),
        (table(**{KEY: b.holmes_csv_answers().replace("2,b", "2,f")}), "expected one of a b c d e"),
        (table(**{KEY: ""}), "the columns are"),
    ],
)
def test_bad_files(tmp_path, files, message):
    with pytest.raises(DataError, match=message) as raised:
        read(tmp_path, files)
    assert raised.value.file
    items = read(tmp_path, files, on_error="skip")
    assert len(items) < 3 or items.problems
    assert items.problems


@pytest.mark.data
def test_real_questions(real_data):
    folder = real_data / "msrcc"
    items = load("msrcc")
    assert len(items) == 520
    assert items.frame.equals(load("msrcc", path=folder / "testing_data_first520.csv").frame)
