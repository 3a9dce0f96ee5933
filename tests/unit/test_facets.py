import re

import numpy as np
import pandas as pd
import pytest
from clozes import cloze, clozes
from hypothesis import example, given
from hypothesis import strategies as st

from workbench.items.items import Items
from workbench.storage.errors import DataError
from workbench.widgets.shared.facets import (
    NONE,
    Category,
    Filters,
    Labels,
    Number,
    facet,
    hits,
    patterns,
)

ITEMS = Items.from_records(
    [
        cloze("It rained . The {dog} ran .", "x/dev/0"),
        cloze("She did n't see a_b . 100% of (it) {went}", "x/dev/1", variant="other"),
        cloze("she didn't.\n\nSee the {Dog}.", "x/test/2", tokenised=False),
        cloze("ÉMILE ate. His {} fell", "y/dev/3"),
    ]
)


def rows(filters, items=ITEMS, columns=None):
    made = Filters(items, columns or {})
    mask, _ = made.apply(made.checked(filters))
    return np.flatnonzero(mask).tolist()


@pytest.mark.parametrize(
    ("places", "queries"),
    [
        ([0, 1, 2, 3], ["", "  "]),
        ([0, 2], ["dog", "DOG"]),
        ([3], ["émile"]),
        ([0], ["rained. The", "rained . the"]),
        ([1, 2], ["didn't"]),
        ([1], ["did n't", "a_b", "100%", "(it)", "(", "x/dev/1"]),
        ([0, 1, 3], ["/dev/"]),
        ([], ["a.b", "d.g", "d_g", "d%g", "*", "\\", "X/dev/1", "nowhere"]),
    ],
)
def test_plain_search(places, queries):
    assert {query: rows({"query": query}) for query in queries} == dict.fromkeys(queries, places)


@pytest.mark.parametrize(
    ("query", "field", "found"),
    [
        ("d.g", "passage", [0, 2]),
        ("^she", "passage", [1, 2]),
        ("^(the|see)", "sentence", [0, 2]),
        ("rained", "sentence", []),
        ("^dog$", "answer", [0, 2]),
        ("^$", "answer", [3]),
        (r"\bit\b", "passage", [0, 1]),
        ("x/dev/1", "passage", []),
        ("(a+)+b", "passage", []),
    ],
)
def test_search_for_a_regular_expression(query, field, found):
    assert rows({"query": query, "field": field, "regex": True}) == found


def test_no_pattern_takes_for_ever():
    items = clozes("a" * 5000 + " {dog}", "aaab {dog}")
    assert rows({"query": "(a+)+b", "regex": True}, items) == [1]
    assert hits("a" * 5000, ["(a+)+b"]) == []
    assert hits("aaab", ["(a+)+b"]) == [(0, 4)]


@pytest.mark.parametrize("query", ["(", "a{2,1}", r"\q", "(?=a)", r"(a)\1"])
def test_a_bad_regular_expression_is_told(query):
    with pytest.raises(DataError, match=r"Invalid regular expression: .*RE2 syntax; no look-around"):
        rows({"query": query, "regex": True})


TEXTS = st.lists(st.text("abAB .*+?()[]<>|^$\\_%-\n'é", max_size=12), min_size=1, max_size=6)


@pytest.mark.slow
@given(TEXTS, st.text("abAB .*+?()[]|^$\\_%-'é", max_size=3), st.booleans())
@example(["A.b", "aXb"], "a.B", False)  # noqa: FBT003 - hypothesis takes it so
def test_search_finds_what_python_finds(texts, query, regex):
    items = clozes(*(f"{text} {{}}" for text in texts), tokenised=False)
    if regex:
        query = "".join(c for c in query if c.isalnum() or c in " .")
    pattern = re.compile(query.strip() if regex else re.escape(query.strip()), re.IGNORECASE)
    expected = [i for i, item in enumerate(items) if pattern.search(item.text)]
    assert rows({"query": query, "regex": regex}, items) == expected


# -- columns

CATEGORY = st.sampled_from(["a", "b", "c", None])
NUMBER = st.one_of(st.none(), st.floats(allow_nan=True), st.integers(-3, 3).map(float))
LABEL = st.one_of(st.none(), st.lists(st.sampled_from(["p", "q", "r"]), max_size=3))
FINITE = st.floats(allow_nan=False, allow_infinity=False)
RANGE = st.lists(st.one_of(st.none(), FINITE, st.integers(-3, 3)), min_size=2, max_size=2)
WANTED = st.fixed_dictionaries(
    {},
    optional={
        "category": st.lists(st.sampled_from(["a", "b", "c", NONE, "gone"]), max_size=3),
        "number": RANGE,
        "labels": st.lists(st.sampled_from(["p", "q", NONE, "gone"]), max_size=3),
    },
)


def slowly(row, name, chosen):
    """Tell whether a row passes one filter, the plain way."""
    value = row[name]
    if not len(chosen):
        return True
    if name == "category":
        return (NONE if value is None else value) in chosen
    if name == "labels":
        return bool(set(value or [NONE]) & set(chosen))
    low, high = chosen
    missing = value is None or value != value  # noqa: PLR0124 - not a number
    return not missing and (low is None or value >= low) and (high is None or value <= high)


@pytest.mark.slow
@given(
    st.lists(st.tuples(CATEGORY, NUMBER, LABEL, st.booleans()), min_size=1, max_size=12),
    WANTED,
    st.booleans(),
)
def test_masks_and_counts_are_those_of_a_plain_loop(drawn, wanted, searched):
    table = [{"category": c, "number": n, "labels": v, "dog": d} for c, n, v, d in drawn]
    items = clozes(*("a dog {ran}" if row["dog"] else "a cat {ran}" for row in table))
    columns = {
        "category": pd.Series([row["category"] for row in table], dtype=object),
        "number": pd.Series([row["number"] for row in table], dtype=float),
        "labels": pd.Series([row["labels"] for row in table], dtype=object),
    }
    made = Filters(items, columns)
    chosen = {name: value for name, value in wanted.items() if name in made.facets}
    mask, described = made.apply(made.checked({"query": "dog" if searched else "", "facets": chosen}))

    def passes(row, but=None):
        found = row["dog"] or not searched
        return found and all(slowly(row, name, value) for name, value in chosen.items() if name != but)

    assert mask.tolist() == [passes(row) for row in table]
    assert set(described) == set(made.facets)
    for name in set(described) & {"category", "labels"}:
        counts = dict(map(tuple, described[name]["choices"]))
        left = [row for row in table if passes(row, but=name)]
        for choice, count in counts.items():
            assert count == sum(slowly(row, name, [choice]) for row in left)
        seen = {choice for row in table for choice in choices_of(row, name)}
        assert seen <= set(counts)
        if name == "labels":
            assert set(chosen.get(name, ())) <= set(counts), "also a label that no row carries any more"


def choices_of(row, name):
    return (row[name] or [NONE]) if name == "labels" else [row[name] or NONE]


@given(st.lists(st.floats(), min_size=2, max_size=20), st.data())
def test_bars_stand_where_the_numbers_are(values, data):
    made = Number(np.array(values))
    shown = np.array(data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values))))
    described = made.describe(shown, ())
    finite = [v for v, s in zip(values, shown, strict=True) if s and np.isfinite(v)]
    assert sum(described["bars"]) == len(finite)
    if np.isfinite(values).any():
        assert described["low"] == min(v for v in values if np.isfinite(v))
        assert described["high"] == max(v for v in values if np.isfinite(v))


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        (Category, [["a", "b"], ["a", None], [True, False]]),
        (Number, [[1, 2], [1.5, None, 2]]),
        (
            Labels,
            [[["p"], ["q", "r"]], [{"p"}, frozenset({"q"})], [("p",), None], [np.array(["p"]), np.array([])]],
        ),
        (type(None), [[[], None], [[[1, 2], [3]], [[1]]], [[(0, 3)], [(4, 5)]], [{"a": 1}, {"a": 2}]]),
        (type(None), [["a", ["b"]], ["a", {"b"}], ["same", "same"], [1, 1, None], []]),
        (type(None), [[[f"word{i}"] for i in range(500)], [f"id {i}" for i in range(500)]]),
    ],
)
def test_the_kind_of_a_column(kind, columns):
    assert [type(facet(pd.Series(values))) for values in columns] == [kind] * len(columns)


def test_categories_stand_commonest_first_and_the_rare_ones_of_many_are_left_out():
    names = [f"{i // 3}" for i in range(900)] + ["often"] * 4
    described = facet(pd.Series(names)).describe(np.ones(len(names), dtype=bool), ["299"])
    choices = described["choices"]
    assert (choices[0], choices[-1], len(choices)) == (["often", 4], ["299", 3], 201)
    assert described["more"] == 301 - 201


# -- filters


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"queri": "x"}, "there is no filter 'queri'"),
        ({"field": "title"}, "there is no field 'title'"),
        ({"query": "\ud800"}, "the search holds half a surrogate pair"),
        ({"facets": {"colour": ["red"]}}, "there is no column 'colour'"),
        ({"facets": {"split": "dev"}}, "expected a list"),
        ({"facets": {"split": 5}}, "expected a list"),
        *(
            ({"facets": {"n": n}}, r"expected \[lowest, highest\]")
            for n in (["a"], [1], [1, "2"], [True, False])
        ),
    ],
)
def test_a_filter_that_does_not_fit_is_told(filters, message):
    with pytest.raises(DataError, match=message):
        Filters(ITEMS, {"n": pd.Series([1, 2, 3, 4])}).checked(filters)


# -- where it was found

MARKED = st.text("abAB .\ue000\ue001\ue002é😀\n", max_size=15)


@given(MARKED, st.text("abAB .\ue000\ue001é😀", min_size=1, max_size=3))
def test_hits_are_the_matches(text, query):
    found = hits(text, patterns(query, regex=False, tokenised=False))
    assert found == [match.span() for match in re.finditer(re.escape(query), text, re.IGNORECASE)]


EXPRESSIONS = st.sampled_from(["a+", "b?", "a|ab", "(a)(b)", ".", "", "\\bab", "^", "(?i)A", "é"])


@given(MARKED, st.lists(EXPRESSIONS, max_size=3))
def test_hits_of_several_patterns_match_and_do_not_overlap(text, found):
    spans = hits(text, found)
    edges = [edge for span in spans for edge in span]
    assert edges == sorted(edges)
    for start, end in spans:
        assert start < end
        assert any(re.search(p, text[start:end], re.IGNORECASE) for p in found if p)


@pytest.mark.parametrize("query", [r"\Qrained", "(?P<x>dog)|(?P<x>cat)"])
def test_what_can_be_searched_but_not_marked_is_not_marked(query):
    assert rows({"query": query, "regex": True})
    assert hits("It rained .", [query]) == []


def test_a_query_is_found_as_typed_and_as_tokens():
    expressions = patterns("didn't", regex=False, tokenised=True)
    assert hits("she did n't , he didn't", expressions) == [(4, 11), (17, 23)]
    assert patterns("didn't", regex=True, tokenised=True) == ["didn't"]
    assert patterns("didn't", regex=False, tokenised=False) == ["didn\\'t"]


def test_filters_of_the_same_items_share_the_text():
    places = [
        field.buffers()[2].address for _ in range(2) for field in [Filters(ITEMS, {})._fields["passage"]]
    ]
    assert places[0] == places[1]
