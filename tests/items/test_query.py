import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

from workbench.items.query import of_facets, parse, suggest, word_start

FRAME = pd.DataFrame({
    "target_class": ["CN", "PN", None, "V"],
    "mention_distance": pd.array([50, 3, None, 90], dtype="Int64"),
    "direct_speech": pd.array([False, True, None, False], dtype="boolean"),
    "split": list("abca"),
    "n_tokens": [60, 70, 80, 90],
    "answer": ["thing", "ox", "King", "ax"],
    "tags": [["hard"], [], ["Hard", "odd"], ["odd"]],
    "book_id": pd.Categorical(["1342", "7", None, "7"]),
    "odd `name": [1.5, np.nan, 3, 4],
    "empty": [None] * 4,
})  # fmt: skip


@pytest.mark.parametrize(
    ("text", "rows", "canonical"),
    [
        ("target_class = CN and mention_distance > 40 and not direct_speech", "1000", None),
        ("split in (a, c)", "1011", None),
        ("split not in (a, c)", "0100", None),
        ("n_tokens >= 60 and n_tokens <= 80", "1110", None),
        ('answer contains "ing"', "1010", "answer contains ing"),
        ("answer not contains x", "1010", None),
        ("mention_distance is missing", "0010", None),
        ("mention_distance IS NOT Null", "1101", "mention_distance is not missing"),
        ("not mention_distance is null", "1101", "mention_distance is not missing"),
        ('tags contains "hard"', "1010", "tags contains hard"),
        ("tags = hard", "1000", None),
        ("tags != hard", "0011", None),
        ("tags is missing", "0100", None),
        ("target_class != CN", "0101", None),
        ("mention_distance != 3", "1001", None),
        ("not (mention_distance > 40)", "0110", "not mention_distance > 40"),
        ("!direct_speech", "1011", "not direct_speech"),
        ("direct_speech != yes", "1001", None),
        ("direct_speech = FALSE", "1001", "direct_speech = false"),
        ("n_tokens>60&(answer='ox'|tags=odd)", "0111", "n_tokens > 60 and (answer = ox or tags = odd)"),
        ("n_tokens < 65 or n_tokens == 9e1 and split = a", "1001",
         "n_tokens < 65 or n_tokens = 90 and split = a"),
        ("((n_tokens < 65 or n_tokens > 75)) and (split = a)", "1001",
         "(n_tokens < 65 or n_tokens > 75) and split = a"),
        ("`odd ``name` < -.5 or not not split in ('c')", "0010", "`odd ``name` < -0.5 or split = c"),
        ("book_id = '7'", "0101", 'book_id = "7"'),
        ("empty = 3 or empty != 3 or empty contains x or empty", "0000", None),
        ("empty is missing", "1111", None),
    ],
)  # fmt: skip
def test_the_rows_that_pass(text, rows, canonical):
    query = parse(text)
    mask = query.mask(FRAME)
    assert mask.dtype == bool
    assert "".join(map(str, mask.astype(int))) == rows
    assert str(query) == (text if canonical is None else canonical)
    assert parse(str(query)) == query


@pytest.mark.parametrize(
    "text",
    [
        "target_clas = CN", "target_class > 3", "target_class", "n_tokens = CN", "direct_speech > 3",
        "book_id = 7", "n_tokens >", "n_tokens > 3)", "", "answer = '\ud800'",
    ],
)  # fmt: skip
def test_what_is_no_filter_of_these_columns_is_refused(text):
    refused(lambda: parse(text).mask(FRAME))


NAMES = st.sampled_from(
    ["x", "n_tokens", "not", "odd name", "`", "a``b", "is", "9", "é.f", "x y`"]
) | st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(
    ["true", "In", "1e5", '"', "\\", "\\'"]
)
VALUES = (
    TEXTS | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)
)
CHOICES = st.lists(VALUES | st.none(), min_size=1, max_size=4)
QUERIES = st.recursive(
    st.builds(lambda name, chosen: of_facets({name: chosen}), NAMES, CHOICES)
    | st.sampled_from(
        ["x", "`a b` not in (1, true)", "x contains 1", "x < -1e-9", "x not contains '\\a'"]
    ).map(parse),
    lambda inner: (
        st.builds(lambda a, b: a & b, inner, inner)
        | st.builds(lambda a, b: a | b, inner, inner)
        | inner.map(lambda query: ~query)
    ),
)


@given(QUERIES)
def test_a_filter_is_read_as_it_is_written(query):
    again = parse(str(query))
    assert again == query
    assert str(again) == str(query)
    assert again.columns == query.columns


COLUMNS = st.fixed_dictionaries({
    "number": st.none() | st.integers(-2, 2),
    "text": st.none() | st.sampled_from(["ab", "AB", "b c", ""]),
    "truth": st.none() | st.booleans(),
})  # fmt: skip
LEAVES = {  # a filter, and the same said of one row
    "number = 1": lambda row: row["number"] == 1,
    "number != 1": lambda row: row["number"] in {-2, -1, 0, 2},
    "number <= 0.5": lambda row: row["number"] in {-2, -1, 0},
    "number not in (1, 2)": lambda row: row["number"] in {-2, -1, 0},
    "number is missing": lambda row: row["number"] is None,
    "text = ab": lambda row: row["text"] == "ab",
    'text in ("b c", "")': lambda row: row["text"] in ("b c", ""),
    "text contains aB": lambda row: "ab" in (row["text"] or "").lower(),
    "truth": lambda row: row["truth"] is True,
    "truth = no": lambda row: row["truth"] is False,
}


@given(
    st.lists(COLUMNS, min_size=1, max_size=8),
    st.lists(st.tuples(st.sampled_from(list(LEAVES)), st.booleans(), st.booleans()), min_size=1, max_size=5),
)
def test_rows_are_those_of_a_plain_loop(rows, parts):
    types = {"number": "Int64", "text": "str", "truth": "boolean"}
    frame = pd.DataFrame(rows, columns=list(types)).astype(types)
    text, expected = "", None
    for leaf, negated, either in parts:
        part = f"not {leaf}" if negated else leaf
        mask = np.array([LEAVES[leaf](row) is not negated for row in rows])
        text = part if expected is None else f"({text}) {'or' if either else 'and'} {part}"
        expected = mask if expected is None else (expected | mask if either else expected & mask)
    assert parse(text).mask(frame).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("facets", "text"),
    [
        ({}, None),
        ({"split": []}, None),
        ({"split": ["dev"]}, "split = dev"),
        ({"split": ["a", "New York"], "n": [6, 8.5]}, 'split in (a, "New York") and n >= 6 and n <= 8.5'),
        ({"n": [None, np.float64(80)]}, "n <= 80"),
        ({"n": [None, None]}, "n is not missing"),
        ({"n": [None]}, "n is missing"),
        ({"book_id": ["1", None, "2"]}, 'book_id in ("1", "2") or book_id is missing'),
        ({"truth": [True, False]}, "truth in (true, false)"),
    ],
)
def test_choices_as_a_filter(facets, text):
    query = of_facets(facets)
    assert query is None if text is None else str(query) == text


@pytest.mark.parametrize(
    ("text", "suggestions"),
    [
        ("targ", ["target_class"]),
        ("not o", ["`odd ``name`", "mention_distance", "n_tokens", "book_id", "not"]),
        ("n_tokens > 3 and `od", ["`odd ``name`"]),
        ("target_class i", ["in", "is missing", "is not missing", "not in", "contains", "not contains"]),
        ("target_class is ", ["not", "missing"]),
        ("target_class not ", ["in", "contains"]),
        ("target_class = ", ["CN", "PN", "V"]),
        ("target_class in (CN, 'v", ["V"]),
        ("tags contains H", ["hard", "Hard"]),
        ("n_tokens > ", ["60", "70", "90"]),
        ("book_id = ", ['"7"', '"1342"']),
        ("(n_tokens > 3 ", ["and", "or", ")"]),
        ("direct_speech ", ["and", "or", "=", "!=", "in", "not in", "is missing", "is not missing"]),
        ("nowhere = ", []),
        ("n_tokens 3 3 ", []),
    ],
)
def test_suggestions(text, suggestions):
    assert suggest(text + " and x", len(text), FRAME) == suggestions
    start = word_start(text, len(text))
    assert text[start:] == text.split(" ")[-1].removeprefix("(")
