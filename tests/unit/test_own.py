import numpy as np
import pandas as pd
import pytest

from workbench.items.items import DataError, Items, items_from_frame, items_from_text


def one(text, **options):
    return items_from_text(text, **options)[0]


@pytest.mark.parametrize("mark", ["___", "_______", "XXXXX", "@placeholder"])
def test_a_marked_blank_is_filled(mark):
    item = one(f"It rained. The {mark} ran. All was well.", answers=["dog"])
    assert item.text == "It rained. The dog ran. All was well."
    assert (item.left, item.right, item.answer) == ("The ", " ran. All was well.", "dog")
    assert item.context == ["It rained."]


def test_a_marked_blank_without_an_answer_stays_empty():
    item = one("It rained. The ___ ran.")
    assert item.answer is None
    assert item.passage == "It rained. The _____ ran."


@pytest.mark.parametrize(
    ("text", "answer"),
    [("It rained on the dog", "dog"), ('He said: "It\'s the dog."', "dog"), ("he saw the dog .", ".")],
)
def test_without_a_mark_the_last_word_is_the_answer(text, answer):
    assert one(text).answer == answer
    assert one(text, answers=[answer]).text == text


def test_the_last_word_must_be_the_answer():
    with pytest.raises(DataError, match="row 0: the text ends with 'dog', not with the answer 'cat'"):
        one("It rained on the dog.", answers=["cat"])


@pytest.mark.parametrize(
    ("text", "tokenised"),
    [
        ("he did n't go . `` why ? '' she asked", True),
        ('He didn\'t go. "Why?" she asked, and left', False),
        ("A word", False),
        ("Mr. Brown , who was there , left", True),
    ],
)
def test_tokenised_is_guessed(text, tokenised):
    assert one(text).tokenised is tokenised
    assert one(text, tokenised=not tokenised).tokenised is not tokenised


def test_a_table():
    frame = pd.DataFrame(
        {
            "Passage": ["The ___ ran .", "She sat down .\nThen ate the ___ ."],
            "word": ["dog", None],
            "choices": ["dog|cat", ["pie", "cake"]],
            "key": [7, 8],
            "pos": ["CN", None],
            "novel": ["n1", np.nan],
        },
        index=["p", "q"],
    )
    names = {"text": "Passage", "answer": "word", "candidates": "choices", "item_id": "key"}
    items = items_from_frame(frame, **names, word_class="pos", book_id="novel", dataset="mine")
    assert items.frame["item_id"].tolist() == ["7", "8"]
    assert items[0].candidates == ("dog", "cat")
    assert (items[0].word_class, items[1].word_class, items[1].book_id, items[1].answer) == (
        "CN",
        None,
        None,
        None,
    )
    assert Items.from_frame(frame, text="Passage", answer="word").frame["item_id"].tolist() == [
        "own/dev/000000",
        "own/dev/000001",
    ]


def test_a_frame_of_items_is_taken_as_it_is():
    items = items_from_text(["The ___ ran."], answers=["dog"])
    assert items_from_frame(items.frame).frame.equals(items.frame)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": "The ___ and the ___ ran"}, "row b: the text has 2 blanks"),
        ({"text": "  "}, "row b: the text is '  '"),
        ({"text": None}, "row b: the text is"),
        ({"text": 3}, "row b: the text is 3"),
        ({"text": "___"}, "row b: the text is nothing but a blank"),
        ({"text": "The ___", "answer": " "}, "row b: the answer is empty"),
        ({"text": "The ___", "answer": 3}, "row b: the answer is 3"),
        ({"text": "The ___", "answer": "a", "candidates": ["b"]}, "not among the candidates"),
        ({"text": "The ___", "candidates": 3}, "row b: the candidates are 3"),
        ({"text": "The ___", "candidates": []}, "row b: the candidates are"),
        ({"text": "The \ud800 ___", "answer": "b"}, "row b: the text holds half a surrogate pair"),
    ],
)
def test_bad_rows_are_named(row, message):
    good = {"text": "The ___ ran", "answer": "dog", "candidates": ["dog"]}
    frame = pd.DataFrame([good, {"answer": None, "candidates": None} | row], index=["a", "b"], dtype=object)
    with pytest.raises(DataError, match=message):
        items_from_frame(frame, candidates="candidates")


def test_bad_calls():
    with pytest.raises(DataError, match="expected a pandas DataFrame"):
        items_from_frame(["text"])
    with pytest.raises(DataError, match="no column 'txt'; there is text"):
        items_from_frame(pd.DataFrame({"text": ["a b"]}), text="txt")
    with pytest.raises(DataError, match="1 answer entries for 2 texts"):
        items_from_text(["a ___", "b ___"], answers=["x"])
    with pytest.raises(DataError, match="occurs twice"):
        items_from_frame(pd.DataFrame({"text": ["a b", "a c"], "i": [1, 1]}), item_id="i")
