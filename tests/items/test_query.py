import operator

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

from workbench.items.query import columns_of, quoted, where_mask
from workbench.storage.errors import DataError

FRAME = pd.DataFrame({
    "target_class": ["CN", "PN", None, "V"],
    "mention_distance": pd.array([50, 3, None, 90], dtype="Int64"),
    "direct_speech": pd.array([False, True, None, False], dtype="boolean"),
    "split": list("abca"),
    "n_tokens": [60, 70, 80, 90],
    "answer": ["thing", "it's", "Éking", "ax"],
    "tags": [["hard"], [], ["Hard", "odd"], ["odd"]],
    "book_id": pd.Categorical(["1342", "7", None, "7"]),
    "3-gram: correct": [True, False, None, True],
    'odd "name': [1.5, np.nan, 3, 4],
    "order": [1, 2, 3, 4],
    "empty": [None] * 4,
})  # fmt: skip


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("target_class = 'CN' and mention_distance > 40 and not direct_speech", "1000"),
        ("split in ('a', 'c')", "1011"),
        ("n_tokens between 60 and 80", "1110"),
        ("answer ilike '%ÉK%' or answer = 'it''s'", "0110"),
        ("regexp_matches(answer, '^(th|ax)')", "1001"),
        ("mention_distance is null", "0010"),
        ("not (mention_distance > 40)", "0100"),
        ("mention_distance <> 3", "1001"),
        ("list_contains(tags, 'hard')", "1000"),
        ("len(list_filter(tags, lambda tag: lower(tag) = 'hard')) > 0", "1010"),
        ("tags is null", "0100"),
        ('"3-gram: correct"', "1001"),
        ("book_id = '7'", "0101"),
        ('"odd ""name" < 3', "1000"),
        ('"order" = 2 -- the second', "0100"),
        ("N_TOKENS = 60", "1000"),
        ("empty is null and not coalesce(empty = 'x', false)", "1111"),
        ("true;", "1111"),
        ("  ", "1111"),
    ],
)
def test_the_rows_for_which_a_condition_holds(where, rows):
    mask = where_mask(FRAME, where)
    assert mask.dtype == bool
    assert "".join(map(str, mask.astype(int))) == rows
    assert where_mask(FRAME.head(0), where).tolist() == []


@pytest.mark.parametrize(
    ("where", "place", "part"),
    [
        ("n_token > 60", "^^^^^^^", "did you mean n_tokens?"),
        (
            "answer = 'é' and n_tokens = colour",
            " " * 28 + "^^^^^^",
            "no column colour -- text is quoted ('colour'); columns are",
        ),
        ('target_class = "CN"', " " * 15 + "^^^^", "text is quoted ('CN')"),
        ("n_tokens > 60 and\nsplit == 'a' and splt = 'b'", " " * 17 + "^^^^", "did you mean split?"),
        ("items.split = 'a'", "^^^^^^^^^^^", 'there is no column "items.split"'),
        ("rowid = 1", "^^^^^", "there is no column rowid"),
        ("n_tokens >", " " * 9 + "^", 'syntax error at or near ">"'),
        ("order > 1", "^", "syntax error"),
        ("n_tokens > 'abc'", " " * 11 + "^^^^^", "Could not convert string 'abc'"),
        ("regexp_matches(answer, '(')", "^", "missing ): ("),
        ("count(n_tokens) > 3", "^" * 15, "cannot contain aggregates"),
        ("columns('n.*') > 3", "^", "cannot have an asterisk or COLUMNS"),
        ("#1 = 3", "^", "cannot have a column by its number"),
        ("true) or (1=1 --", "    ^", "syntax error"),
        ("n_tokens in (select 60)", " " * 12 + "^", "cannot have a query inside it"),
        ("exists(from read_csv('/etc/passwd'))", "^", "cannot have a query inside it"),
        ("exists(from '/etc/passwd')", "^", "cannot have a query inside it"),
        ("read_text('/etc/passwd') = ''", "^" * 24, "table function"),
    ],
)
def test_what_a_condition_cannot_be_is_an_error_that_shows_the_place(where, place, part):
    with pytest.raises(DataError) as error:
        where_mask(FRAME, where)
    first, *_, line, carets = str(error.value).split("\n")
    assert part in first
    assert line in where.split("\n")
    assert carets.startswith(place)


@pytest.mark.parametrize(
    "where",
    [
        "1=1; drop table items", "1=1; select 1", "true limit 1", "true order by 1", "true group by 1",
        "true union select 1", "true qualify true", "? = 3", "$name = 3", "from items", "\ud800",
        "n_tokens = error('" + "x" * 500 + "')",
    ],
)  # fmt: skip
def test_only_one_expression_is_a_condition(where):
    refused(where_mask, FRAME, where)


def test_names_that_differ_only_in_case_are_not_told_apart():
    frame = pd.DataFrame({"A": [1, 2], "a": [2, 1], "b": [1, 1]})
    assert where_mask(frame, "A = 1 and b = 1").tolist() == [True, False]
    refused(where_mask, frame, "A = 1 and a = 2")
    assert columns_of("b = 1 and B = 2", frame) == ["b"]


@given(st.text(min_size=1, max_size=8).filter(lambda name: name.isprintable()))
def test_a_quoted_name_is_that_of_the_column(name):
    assert where_mask(pd.DataFrame({name: [1, 2]}), f"{quoted(name)} = 2").tolist() == [False, True]


NUMBERS = st.lists(st.none() | st.integers(-5, 5) | st.floats(-5, 5), min_size=1, max_size=8)
TEXTS = st.text("ab'\"\\%é ", max_size=3)
SIGNS = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip


@given(NUMBERS, st.sampled_from(list(SIGNS)), st.integers(-5, 5), st.booleans())
def test_numbers_are_compared_as_pandas_does(numbers, sign, value, negated):
    column = pd.Series(numbers, dtype="Float64")
    expected = SIGNS[sign](column, value)
    mask = where_mask(
        pd.DataFrame({"n": column}), f"not n {sign} {value}" if negated else f"n {sign} {value}"
    )
    assert mask.tolist() == (~expected if negated else expected).fillna(value=False).tolist()


@given(st.lists(st.none() | TEXTS, min_size=1, max_size=8), st.lists(TEXTS, min_size=1, max_size=3))
def test_texts_are_compared_as_pandas_does(texts, values):
    column = pd.Series(texts, dtype="str")
    literals = ["'{}'".format(value.replace("'", "''")) for value in values]
    frame = pd.DataFrame({"word": column})
    assert where_mask(frame, f"word in ({', '.join(literals)})").tolist() == column.isin(values).tolist()
    contained = where_mask(frame, f"contains(word, {literals[0]})")
    assert contained.tolist() == column.str.contains(values[0], regex=False, na=False).tolist()
