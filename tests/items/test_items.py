import dataclasses
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused

from workbench.datasets import load
from workbench.items import schema
from workbench.items.items import ITEM_COLUMNS, Item, Items, items_from_frame, items_from_text

TEXT = "It rained . The dog ran ."
SPANS = {"answer_span": (16, 19), "sentences": ((0, 11), (12, 25))}
GOOD = Item("x/dev/0", "x", "dev", "plain", TEXT, "dog", **SPANS, candidates=("dog", "cat"), word_class="CN",
            book_id="b")  # fmt: skip


def changed(**values):
    return dataclasses.replace(GOOD, **values)


def several(n=5):
    records = [changed(item_id=f"x/dev/{i}", meta={"n": i}) for i in range(n)]
    return Items.from_records(records, attrs={"licence": "MIT"})


def test_what_an_item_shows():
    assert GOOD.context == ["It rained ."]
    assert (GOOD.left, GOOD.right) == ("The ", " ran .")
    assert GOOD.query == "The _____ ran ."
    assert GOOD.passage == "It rained . The _____ ran ."
    assert GOOD.tokens == TEXT.split()
    assert changed(text="It's a dog.", tokenised=False).tokens == ["It", "'s", "a", "dog", "."]


@pytest.mark.parametrize(
    "values",
    [
        {"sentences": ()},
        {"sentences": ((12, 25), (0, 11))},
        {"sentences": ((0, 13), (12, 25))},
        {"sentences": ((11, 0), (12, 25))},
        {"sentences": ((-1, 11), (12, 25))},
        {"sentences": ((0, 11), (12, 26))},
        {"sentences": ((0, 11), (17, 25))},
        {"answer_span": (19, 16)},
        {"answer_span": (16, 18)},
        {"answer": None},
        {"answer": "", "answer_span": (16, 16)},
        {"candidates": ("cat",)},
        {"word_class": "ADJ"},
        {"item_id": None},
        {"text": 3},
        {"text": TEXT + "\ud800"},
    ],
)
def test_bad_items(values):
    refused(Items.from_records, [changed(**values)])


def test_the_items_do_not_change():
    items = several()
    before, changed_copy = items.frame, items.frame
    changed_copy.loc[0, "text"] = "x"
    assert items.frame.equals(before)
    with pytest.raises(dataclasses.FrozenInstanceError):
        items[0].text = "x"
    with pytest.raises(TypeError):
        items.frame["sentences"][0][0] = (0, 0)


def test_access():
    items = several()
    assert items[1].item_id == items["x/dev/1"].item_id == "x/dev/1"
    assert items[-1].item_id == "x/dev/4"
    assert items[1:3].frame["item_id"].tolist() == ["x/dev/1", "x/dev/2"]
    assert [item.meta["n"] for item in items] == [0, 1, 2, 3, 4]
    assert next(iter(items)) == items[0] == dataclasses.replace(GOOD, meta={"n": 0})
    with pytest.raises(KeyError):
        items["x/dev/9"]
    with pytest.raises(IndexError):
        items[9]
    assert repr(items) == "Items(5: 5 x x/dev/plain; licence MIT)"
    empty = Items.from_records([])
    assert (len(empty), list(empty), list(empty.frame.columns)) == (0, [], list(ITEM_COLUMNS))
    assert "empty" in repr(empty)


def test_sample_and_concat():
    items = several(50)
    drawn = items.sample(10, seed=1)
    assert drawn.frame.equals(items.sample(10, seed=1).frame)
    assert not drawn.frame.equals(items.sample(10, seed=2).frame)
    assert [item.meta["n"] for item in drawn] == sorted(item.meta["n"] for item in drawn)
    assert (len(items.sample(80)), len(items.sample(0))) == (50, 0)
    joined = Items.concat([items[:2], items[2:]])
    assert joined.frame.equals(items.frame)
    assert joined.attrs == items.attrs


def test_the_notes_of_all_parts_are_kept():
    parts = [several(3)[i : i + 1] for i in range(3)]
    for part, note in zip(parts, ["first", None, "third"], strict=True):
        part.attrs.update({"note": note} if note else {})
    assert Items.concat(parts).attrs["note"] == "first; third"
    assert Items.concat([parts[0], parts[1]]).attrs["note"] == "first"


@pytest.mark.parametrize(
    "act",
    [
        lambda: Items.concat([several(), several()[1:2]]),
        lambda: Items.from_records([GOOD, GOOD]),
        lambda: Items(several().frame.drop(columns="answer_span")),
        lambda: one("It rained on the dog.", answers=["cat"]),
        lambda: items_from_frame(pd.DataFrame({"text": ["a b"]}), text="txt"),
        lambda: items_from_text(["a ___", "b ___"], answers=["x"]),
        lambda: items_from_frame(pd.DataFrame({"text": ["a b"] * 2, "i": 1}), item_id="i"),
    ],
)
def test_bad_calls(act):
    refused(act)


def test_where():
    items = several()
    assert items.where(lambda frame: frame["item_id"] == "x/dev/3")[0].item_id == "x/dev/3"
    by_id = pd.Series([True, False], index=["x/dev/4", "x/dev/0"])
    assert items.where(by_id).frame["item_id"].tolist() == ["x/dev/4"]
    assert items.where(by_id).attrs == {"licence": "MIT"}
    with pytest.raises(IndexError, match="Boolean index has wrong length: 2 instead of 5"):
        items.where([True, False])


words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


@st.composite
def any_item(draw, number):
    before, left, answer, right = (draw(words) for _ in range(4))
    known = draw(st.booleans())
    text = before + left + (answer if known else "") + right
    start = len(before) + len(left)
    return Item(
        item_id=f"h/{number}",
        dataset=draw(words),
        split="dev",
        variant=draw(words),
        text=text,
        answer=answer if known else None,
        answer_span=(start, start + len(answer) * known),
        sentences=((0, len(before)), (len(before), len(text))),
        candidates=draw(st.none() | st.tuples(st.just(answer), words)),
        word_class=draw(st.sampled_from([None, "NE", "CN", "V", "P"])),
        tokenised=draw(st.booleans()),
        book_id=draw(st.none() | words),
        meta=draw(st.dictionaries(words, words | st.integers(-9, 9), max_size=2)),
    )


@settings(deadline=None, max_examples=40)
@given(data=st.data(), n=st.integers(0, 3))
def test_parquet_gives_back_what_it_was_given(data, n, tmp_path_factory):
    items = Items.from_records([data.draw(any_item(i)) for i in range(n)], attrs={"note": data.draw(words)})
    path = tmp_path_factory.mktemp("parquet") / "items.parquet"
    items.to_parquet(path)
    back = Items.from_parquet(path)
    assert back.frame.equals(items.frame)
    assert list(back) == list(items)
    assert back.attrs == items.attrs


def test_what_is_no_parquet_of_items(tmp_path):
    (tmp_path / "y").write_bytes(b"PAR1 no")
    several().frame[["item_id"]].to_parquet(tmp_path / "z")
    for name in ("x", "y", "z"):
        refused(Items.from_parquet, tmp_path / name)


def one(text, **options):
    return items_from_text(text, **options)[0]


@pytest.mark.parametrize("mark", ["___", "_______", "XXXXX", "@placeholder"])
def test_a_marked_blank_is_filled(mark):
    item = one(f"It rained. The {mark} ran. All was well.", answers=["dog"])
    assert item.text == "It rained. The dog ran. All was well."
    assert (item.left, item.right, item.answer) == ("The ", " ran. All was well.", "dog")
    assert item.context == ["It rained."]
    bare = one(f"It rained. The {mark} ran.")
    assert (bare.answer, bare.passage) == (None, "It rained. The _____ ran.")


SCENES = "He fed the dog.\n\n{rule}\n\nIn the morning Ann called the dog"


@pytest.mark.parametrize("rule", ["_____", "___ ___ ___", "  ______\t", "* ___ *", "~_____~", "_____\r"])
@pytest.mark.parametrize("answers", [None, ["dog"]])
def test_a_rule_between_scenes_is_no_blank(rule, answers):
    text = SCENES.format(rule=rule)
    item = one(text, answers=answers)
    assert (item.text, item.answer, item.answer_span[1]) == (text, "dog", len(text))
    blank = one(text.replace("He fed", "The ___ fed"), answers=["man"] if answers else None)
    assert (blank.text[4:].startswith("man fed"), blank.answer) == (
        (True, "man") if answers else (False, None)
    )


def test_a_mark_alone_in_a_paragraph_is_a_blank_where_it_has_marks_or_no_text_follows():
    assert one("Who barked?\n\n“___!”\n\nNobody saw it.", answers=["dog"]).left == "“"
    assert one("It was, she said,\n\n___\n", answers=["over"]).text == "It was, she said,\n\nover\n"


def test_the_end_of_a_name_is_no_blank():
    item = one("Mr. W____ and M___ went to the sea")
    assert (item.answer, item.text) == ("sea", "Mr. W____ and M___ went to the sea")
    assert one("Mr. W____ went to the ___").answer is None


INLINE = ["She wrote ____ and called the dog", "An XXXXX, a @placeholder and an @placeholder saw the dog"]


def test_an_answer_at_the_end_comes_before_a_mark_where_most_rows_say_so():
    """A table of passages that end with their answer, and one of blanks whose answer is repeated once."""
    items = items_from_text([*INLINE, "Then came the dog"], answers=["dog"] * 3)
    assert [item.text for item in items] == [*INLINE, "Then came the dog"]
    assert all(item.answer_span == (len(item.text) - 3, len(item.text)) for item in items)
    blanks = ["The ___ saw the other dog", "The ___ ran.", "A ___ sat."]
    assert [item.left for item in items_from_text(blanks, answers=["dog"] * 3)] == ["The ", "The ", "A "]
    assert one("He is the son of a son of a ___", answers=["son"]).passage.endswith("son of a _____")
    assert one("He called his dog ___ .", answers=["dog"]).text == "He called his dog dog ."
    refused(items_from_text, INLINE, answers=["cat", "cat"])


@pytest.mark.parametrize(
    ("text", "answer"),
    [("It rained on the dog", "dog"), ('He said: "It\'s the dog."', "dog"), ("he saw the dog . . .", "dog")],
)
def test_without_a_mark_the_last_word_is_the_answer(text, answer):
    assert one(text).answer == answer
    assert one(text, answers=[answer]).text == text


@pytest.mark.parametrize(
    ("text", "tokenised"),
    [
        ('He didn\'t go. "Why?" she asked, and left', False),
        ("A word", False),
        ("Mr. Brown , who was there , left", True),
    ],
)
def test_tokenised_is_guessed(text, tokenised):
    assert one(text).tokenised is tokenised
    assert one(text, tokenised=not tokenised).tokenised is not tokenised


RUNNING = "The dog ran far away. Nobody saw him. It was late, and Ann called the dog."
ELLIPSES = [
    " . . .",
    ". . . .",
    " . . . ?",
    " . . . !",
    " …",
    "\u00a0.\u00a0.\u00a0.",
    "\u202f.\u202f.\u202f.",
]


@pytest.mark.parametrize("ellipsis", ELLIPSES)
def test_an_ellipsis_makes_no_tokens_of_running_text(ellipsis):
    """Three dots end no sentence; four do, as does a mark after them."""
    ends = any(mark in ellipsis for mark in "?!") or ellipsis == ". . . ."
    for match in re.finditer(r"(?<=[a-z]) ", RUNNING):
        item = one(RUNNING[: match.start()] + ellipsis + RUNNING[match.start() :])
        assert (item.tokenised, item.answer, len(item.sentences)) == (False, "dog", 3 + ends)


def test_a_final_stop_is_no_part_of_the_answer():
    for text in (
        "He saw , at last , the dog.",
        "He saw , at last , the dog?!",
        "He saw , at last , the dog…",
    ):
        assert one(text, tokenised=True).answer == "dog"
        assert one(text).answer == "dog"
    assert one("He went , at last , to the U.S.", answers=["U.S."]).answer == "U.S."


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
    assert items[0].word_class == "CN"
    assert (items[1].word_class, items[1].book_id, items[1].answer) == (None, None, None)
    assert items_from_frame(items.frame).frame.equals(items.frame)


def test_an_own_id_names_the_text():
    texts = ["The ___ ran.", "A ___ sat.", "The ___ ran."]
    first, second, again = items_from_text(texts).frame["item_id"]
    assert re.fullmatch(r"own/dev/[0-9a-f]{16}", first)
    assert again == f"{first}-2"
    assert items_from_text(texts[1])[0].item_id == second
    assert items_from_text("The ran ___.")[0].item_id != first
    assert items_from_text("The ran.")[0].item_id != first
    named = items_from_text(texts[0], dataset="mine", split="test")
    assert named[0].item_id == first.replace("own/dev", "own/test")


def own_table():
    return items_from_frame(pd.DataFrame({
        "text": ['The ___ ran, "quick".', "He sat , then ate the ___ .", "A ___."],
        "answer": ["dog", "pie", None],
        "candidates": ["dog|cat", ["pie", "cake"], None], "genre": ["novel", "play", None],
        "year": [1851, 1900, None], "tags": [["odd", "short"], [], None], "read": [True, False, None],
    }), candidates="candidates")  # fmt: skip


def test_further_columns_stay(tmp_path):
    items = own_table()
    assert items[0].meta == {"genre": "novel", "year": 1851, "tags": ["odd", "short"], "read": True}
    items.to_parquet(tmp_path / "own.parquet")
    other = items_from_text("And the ___ slept.")
    joined = Items.concat([Items.from_parquet(tmp_path / "own.parquet").where([True, True, False]), other])
    assert joined.extra["genre"].dropna().tolist() == ["novel", "play"]
    assert items.extra.columns.tolist() == ["genre", "year", "tags", "read"]
    assert (other.extra.shape, Items.from_records([]).extra.shape) == ((1, 0), (0, 0))
    rows = {"year > 1860": [1], "genre = 'novel' and read": [0], "list_contains(tags, 'short')": [0],
            "n_tokens >= 6": [0, 1], "genre is null and n_context_sentences = 0": [2],
            "list_contains(candidates, 'cake')": [1]}  # fmt: skip
    for text, places in rows.items():
        assert [item.text for item in items.query(text)] == [items[place].text for place in places]


def test_a_condition_reads_annotations_too():
    items = several()
    table = pd.DataFrame({"item_id": ["x/dev/3", "x/dev/1"], "mention_distance": [50, 30], "text": "other"})
    assert items.query("mention_distance > 40", table)[0].item_id == "x/dev/3"
    assert len(items.query("mention_distance is null and text ilike '%the dog%'", table)) == 3
    assert items.query("n > 2").frame.equals(items[3:].frame)
    refused(items.query, "mention_distance > 40")
    refused(items.query, "n > 2", pd.concat([table, table]))


def test_csv_is_read_again(tmp_path):
    items = own_table()
    items.to_csv(tmp_path / "own.csv")
    assert "The _____ ran" in (tmp_path / "own.csv").read_text(encoding="utf-8")
    again = load(tmp_path / "own.csv")
    assert again.frame.drop(columns="meta").equals(items.frame.drop(columns="meta"))
    assert again.extra["year"].tolist()[:2] == [1851, 1900]


@pytest.mark.parametrize("mask", [[False, True, False, False, True], np.array([0, 1, 0, 0, 1], dtype=bool),
    pd.Series([False, True, None, False, True], dtype="boolean"), pd.Series({4: True, 1: True, 0: False}),
    pd.array([False, True, None, False, True], dtype="boolean")])  # fmt: skip
def test_a_mask_filters(mask):
    assert several()[mask].frame["item_id"].tolist() == ["x/dev/1", "x/dev/4"]
    assert several().where(mask).frame.equals(several()[mask].frame)


def test_a_position_may_be_of_numpy_and_nothing_else_chooses():
    items = several()
    assert items[np.int64(1)] == items[1]
    assert len(items.head(2)) == 2
    assert len(Items.from_records([])[np.array([], dtype=bool)]) == 0
    for key in (np.array([0, 1]), [0, 1], ["x/dev/1"], pd.Series([1, 0, 1, 0, 1]), True, 1.0, None, (0, 1)):
        with pytest.raises(
            TypeError, match="a position, an id, a slice, or a mask of True and False, not by"
        ):
            items[key]
    with pytest.raises(IndexError, match="wrong length"):
        items[[True, False]]


def test_what_a_notebook_shows():
    hostile = "<img src=x onerror=alert(1)>"
    items = items_from_text(f"{hostile} He saw , at last , the ___ .", answers=["dog"], dataset=hostile)
    item, table = items[0]._repr_html_(), Items.concat([items, several(9)])._repr_html_()
    for page in (item, table):
        assert hostile not in page
        assert "&lt;img" in page
        assert "He saw, at last, the <mark>▁▁▁</mark>." in page.replace("</span>", "")
    assert re.search(r"<details><summary>target</summary>dog</details>", item)
    assert "dog" not in item.split("<details>")[0]
    assert table.count("<tr>") == 6
    assert "5 of 10: 1 x " in table
    assert "0 of 0: empty" in Items.from_records([])._repr_html_()


@pytest.mark.parametrize(
    "row",
    [
        {"text": "The ___ and the ___ ran"},
        {"text": "  "},
        {"text": "___"},
        {"text": "The ___", "answer": 3},
        {"text": "The ___", "answer": "a", "candidates": ["b"]},
        {"text": "The ___", "candidates": 3},
        {"text": "The \ud800 ___", "answer": "b"},
    ],
)
def test_bad_rows_are_named(row):
    good = {"text": "The ___ ran", "answer": "dog", "candidates": ["dog"]}
    frame = pd.DataFrame([good, {"answer": None, "candidates": None} | row], index=["a", "b"], dtype=object)
    refused(items_from_frame, frame, candidates="candidates")


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        ({"text": ["a b"], "x": [{"y": "\ud800"}]}, {}),
        *(({"text": ["a b"]}, {name: "\ud800"})
          for name in ("text", "dataset", "split", "variant")),
        ({"text": ["a b"], "x": [{"\ud800": 1}]}, {}),
        ({"text": ["a b"]}, {"text": ["text"]}),
        ({"text": ["a b"]}, {"split": ["dev"]}),
        ({"text": ["a b"]}, {"dataset": 3}),
        ({"text": ["a b"]}, {"tokenised": "yes"}),
        ({("text", "x"): ["a b"]}, {}),
        ({"text": ["a b"], 1: [2], "1": [3]}, {}),
        ({"text": ["\u4ed6\u770b\u89c1\u4e86\u90a3\u53ea\u72d7\u3002"]}, {}),
        ({"text": [". . ."]}, {}),
        ({"text": ["a b"], "candidates": [{"b": 1}]}, {"candidates": "candidates"}),
    ],
)  # fmt: skip
def test_tables_that_are_no_items_are_one_error(columns, options):
    refused(items_from_frame, pd.DataFrame(columns), **options)


@pytest.mark.parametrize("column", schema.TEXT_COLUMNS)
def test_half_a_surrogate_pair_is_one_error_in_every_column(column):
    frame = several().frame.astype({column: object})
    frame.loc[0, column] = "\ud800"
    refused(Items.from_frame, frame)
    with pytest.raises(KeyError, match="ud800"):
        several()["\ud800"]


def test_passages_of_a_script_without_spaces_name_their_word():
    chinese = "\u4ed6\u770b\u89c1\u4e86\u90a3\u53ea___\u3002"
    assert one(chinese, answers=["\u72d7"]).answer == "\u72d7"
    spaced = "\u4ed6 \u770b\u89c1 \u4e86 \u90a3\u53ea \u72d7 \u3002"
    assert one(spaced, tokenised=True).answer == "\u72d7"


@pytest.mark.parametrize("end", [" . . .", "...", ' . "', ". -RRB-", " ! ?", " \u2026"])
def test_marks_at_the_end_are_no_answer(end):
    assert one(f"He saw the dog{end}").answer == "dog"
