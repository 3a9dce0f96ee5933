# ruff: noqa: RUF001 - typographic quotes are meant
import numpy as np
import pandas as pd
import pytest
from braced_items import cloze, passages
from hypothesis import example, given
from hypothesis import strategies as st

from workbench.items import text as wt
from workbench.items.marked_text import pieces
from workbench.widgets.ask.questions import filled
from workbench.widgets.shared.passages import BLANK_MARK, cell_text, snippet


@st.composite
def marked(draw, *, known=None):
    """Draw an item and marks on it that are not empty."""
    item = draw(passages(known=known))
    pairs = st.tuples(st.integers(0, len(item.text)), st.integers(0, len(item.text)))
    spans = st.lists(pairs.map(sorted).map(tuple).filter(lambda span: span[0] < span[1]), max_size=4)
    marks = st.fixed_dictionaries({"m": spans, "s": spans, "h": spans}) if item.text else st.just({})
    return item, draw(marks)


def joined(parts):
    return "".join(text for text, _ in parts)


def test_a_passage_in_pieces():
    item = cloze("`` The dog ran , '' she said . She 'd seen the {dog} run .")
    context, query = pieces(item, {"m": [(7, 10)], "s": [(0, 19)], "h": [(43, 46), (42, 55)]})
    assert context == [("“The ", "s"), ("dog", "ms"), (" ran,”", "s"), (" she said.", "")]
    assert query == [("She’d seen ", ""), ("the", "h"), (" ", "h"), ("dog", "b"), (" run", "h"), (".", "")]


@given(marked())
@example((cloze("the {dogs} ran"), {"h": [(5, 7)]}))
@example((cloze("the {dogs} ran"), {"h": [(0, 6), (7, 12)], "s": [(5, 6)]}))
def test_pieces_join_to_the_readable_text_with_one_blank(drawn):
    item, marks = drawn
    context, query = pieces(item, marks)
    shown, (target, blank) = wt.readable_spans(item.text, [item.sentences[-1], item.answer_span])
    first = min(target[0], blank[0])
    assert joined(context) == shown[:first].rstrip()
    assert joined(query) == shown[first:]
    assert not any("b" in letters for _, letters in context)
    assert [text for text, letters in query if "b" in letters] == [shown[slice(*blank)]]
    before = joined(query[: next(i for i, (_, letters) in enumerate(query) if "b" in letters)])
    assert before == shown[first : blank[0]]
    assert all(text or "b" in letters for text, letters in query)


@given(marked())
def test_marks_cover_their_spans_and_nothing_else(drawn):
    item, marks = drawn
    context, query = pieces(item, marks)
    shown, (target, blank) = wt.readable_spans(item.text, [item.sentences[-1], item.answer_span])
    found = []
    for start, parts in ((0, context), (len(shown) - len(joined(query)), query)):
        place = start
        for text, letters in parts:
            found += [(at, set(letters) - {"b"}) for at in range(place, place + len(text))]
            place += len(text)
    expected = {at: set() for at in range(len(shown))}
    for letter, spans in marks.items():
        for start, end in wt.readable_spans(item.text, [item.answer_span, *spans])[1][1:]:
            for at in range(start, end):
                expected[at].add(letter)
    for at, letters in found:
        if not blank[0] <= at < blank[1]:
            assert letters == expected[at]
        else:
            assert letters <= {"s"}  # a mention or a hit would tell something about the target
    assert target[0] >= len(joined(context))


def test_the_room_of_an_unknown_answer_is_an_empty_piece():
    context, query = pieces(cloze("It rained . The {} ran ."), {"h": [(12, 20)]})
    assert (joined(context), query) == ("It rained.", [("The ", "h"), ("", "b"), (" ran", "h"), (".", "")])
    assert pieces(cloze("It rained . the {}"), {}) == ([("It rained.", "")], [("the ", ""), ("", "b")])
    assert pieces(cloze("{} ran"), {}) == ([], [("", "b"), (" ran", "")])


def test_running_text_keeps_its_paragraphs():
    item = cloze('It rained.\n\n"Oh," he said.  The {dog}\nran.', tokenised=False)
    context, query = pieces(item, {"s": [(12, 17)]})
    assert joined(context) == 'It rained.\n\n"Oh," he said.'
    assert ('"Oh,"', "s") in context
    assert query == [("The ", ""), ("dog", "b"), ("\nran.", "")]
    assert item.readable([(0, 3)]) == (item.text, [(0, 3)])


def test_a_row_shows_the_end_of_a_long_context():
    long = snippet(cloze(" ".join(f"word{i}" for i in range(200)) + " {dog}"), None)[0]
    assert long.startswith("…word")
    assert long.endswith(f" word199 {BLANK_MARK}")
    assert len(long) < 100
    before, hit, _ = snippet(cloze("rain " * 40 + ". then {dog}"), (100, 104))
    assert before.startswith("…")
    assert (len(before), hit) == (41, "rain")


@pytest.mark.parametrize(
    ("text", "hit", "parts"),
    [
        ("It rained . The {dog} ran .", None, (f"The {BLANK_MARK} ran.", "", "")),
        ("The {} ran .", None, (f"The {BLANK_MARK} ran.", "", "")),
        ("It rained . The {dog} ran .", (3, 9), ("It ", "rained", f". The {BLANK_MARK} ran.")),
        ("It rained . The {dog} ran .", (20, 23), (f"It rained. The {BLANK_MARK} ", "ran", ".")),
        ("It rained . The {} ran .", (3, 9), ("It ", "rained", f". The {BLANK_MARK} ran.")),
        ("the {dog} ran", (4, 6), ("the ", BLANK_MARK, " ran")),
        ("the {dog} ran", (6, 9), ("the ", f"{BLANK_MARK} r", "an")),
        ("the {dog} ran", (2, 5), ("th", f"e {BLANK_MARK}", " ran")),
    ],
)
def test_a_row_shows_the_target_sentence_or_the_hit_and_the_blank_once(text, hit, parts):
    assert snippet(cloze(text), hit) == parts


@given(marked(known=True))
def test_a_row_never_shows_the_target(drawn):
    item, marks = drawn
    hidden = filled(item, "Qqq")
    hits = [(a, b) for a, b in marks.get("h", []) if b <= len(hidden.text)]
    for hit in (None, *hits):
        shown = "".join(snippet(hidden, hit))
        assert "Qqq" not in shown
        assert shown.count(BLANK_MARK) <= 1
        assert "\n" not in shown


@pytest.mark.parametrize(
    ("shown", "values"),
    [
        ("", [None, float("nan"), pd.NA, pd.NaT, ()]),
        ("0.3333", [1 / 3, np.float32(1 / 3)]),
        ("1234567", [1234567]),
        ("yes", [True]),
        ("no", [np.False_]),
        ("two\nlines", ["two\nlines"]),
        ("a, 0.5, ", [["a", 0.5, None]]),
        ("1, 2.5", [np.array([1.0, 2.5]), {"2.5", "1"}]),
    ],
)
def test_a_cell_is_written_for_a_reader(shown, values):
    assert [cell_text(value) for value in values] == [shown] * len(values)
