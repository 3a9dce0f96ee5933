import re

import numpy as np
import pandas as pd
import pytest
from braced_items import cloze, clozes
from hypothesis import example, given
from hypothesis import strategies as st
from refused import refused

from workbench.items.items import Items
from workbench.storage.errors import DataError
from workbench.widgets.shared.listing import (
    Listing,
    clauses,
    columns_clause,
    facet,
    facets_filter,
    replace_clause,
)
from workbench.widgets.shared.search import TextSearch, hits, patterns

ITEMS = Items.from_records(
    [
        cloze("It rained . The {dog} ran .", "x/dev/0"),
        cloze("She did n't see a_b . 100% of (it) {went}", "x/dev/1", variant="other"),
        cloze("she didn't.\n\nSee the {Dog}.", "x/test/2", tokenised=False),
        cloze("ÉMILE ate. His {} fell", "y/dev/3"),
    ]
)


def rows(state, items=ITEMS, columns=None):
    made = Listing(items, columns or {})
    made.apply(state)
    return made.rows.tolist()


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
    with pytest.raises(DataError):
        rows({"query": query, "regex": True})


TEXTS = st.lists(st.text("abAB .*+?()[]<>|^$\\_%-\n'é", max_size=12), min_size=1, max_size=6)


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
NUMBER = st.one_of(st.none(), st.floats(allow_infinity=False), st.integers(-3, 3).map(float))
LABEL = st.one_of(st.none(), st.lists(st.sampled_from(["p", "q", "r"]), max_size=3))
COLUMNS = ["category", "number", "labels"]


@given(
    st.lists(st.tuples(CATEGORY, NUMBER, LABEL, st.booleans()), min_size=1, max_size=12),
    st.data(),
    st.booleans(),
)
def test_a_click_lists_what_its_number_says(drawn, data, searched):
    items = clozes(*("a dog {ran}" if dog else "a cat {ran}" for *_, dog in drawn))
    columns = {
        name: pd.Series([row[place] for row in drawn], dtype=float if name == "number" else object)
        for place, name in enumerate(COLUMNS)
    }
    made = Listing(items, columns)
    made.apply({"query": "dog" if searched else ""})
    for name in [name for name in COLUMNS if name in made.facets]:
        bins = made.facets[name].bins
        keys = data.draw(st.lists(st.sampled_from([b.key for b in bins]), unique=True))
        choice = {"keys": keys, "exclude": data.draw(st.booleans())} if keys else None
        made.apply(made.state | {"where": made.choose(made.state["where"], {name: choice})})
        expected = np.logical_or.reduce([b.mask for b in bins if b.key in keys]) if keys else None
        if choice and choice["exclude"]:
            expected = ~expected
        others = made.mask(but=[name])
        assert made.mask().tolist() == (others & expected if keys else others).tolist()
        assert made.rows.tolist() == np.flatnonzero(made.mask()).tolist()
        facet_now = made.describe(name)
        assert facet_now["excluded"] == bool(choice and choice["exclude"])
        if name != "number" or len(bins) > len(made.facets[name].ranges):
            assert set(keys) <= set(facet_now["keys"])
        counts = {row[0]: row[2:] for row in [*facet_now["bins"], *filter(None, [facet_now["null"]])]}
        for b in bins:
            assert counts[b.key] == [b.mask.sum(), (b.mask & others).sum()]


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        ("text", [["a", "b"], ["a", None]]),
        ("yes or no", [[True, False], [True, None]]),
        ("numbers", [[1, 2], [1.5, None, 2]]),
        (
            "labels",
            [[["p"], ["q", "r"]], [{"p"}, frozenset({"q"})], [("p",), None], [np.array(["p"]), np.array([])]],
        ),
        (None, [[[], None], [[[1, 2], [3]], [[1]]], [[(0, 3)], [(4, 5)]], [{"a": 1}, {"a": 2}]]),
        (None, [["a", ["b"]], ["a", {"b"}], ["same", "same"], [1, 1, None], []]),
        (None, [[[f"word{i}"] for i in range(500)], [f"id {i}" for i in range(500)]]),
    ],
)
def test_the_kind_of_a_column(kind, columns):
    made = [facet("x", pd.Series(values)) for values in columns]
    assert [binned and binned.value_type for binned in made] == [kind] * len(columns)


@pytest.mark.parametrize("kind", ["boolean", "object", "bool[pyarrow]"])
def test_truth_values_are_yes_no_and_not_known(kind):
    columns = [[False, True, None], [True, False], [True, None], [True] * 2, [None] * 2]
    made = [facet("x", pd.Series(values, dtype=kind)) for values in columns]
    assert [binned and [b.label for b in binned.bins] for binned in made] == [
        ["yes", "no", "not known"], ["yes", "no"], ["yes", "not known"], None, None,
    ]  # fmt: skip
    assert made[0].query(["is:yes", "null"]).mask(pd.DataFrame({"x": columns[0]})).tolist() == [
        False, True, True,
    ]  # fmt: skip


def test_categories_stand_commonest_first_and_the_rare_ones_of_many_are_left_out():
    names = [f"{i // 3}" for i in range(900)] + ["often"] * 4
    items = clozes(*("a {dog}" for _ in names))
    made = Listing(items, {"name": pd.Series(names)})
    made.apply({"where": 'name = "99"'})
    described = made.describe("name")
    keys = [key for key, *_ in described["bins"]]
    assert (keys[0], keys[-1], len(keys), described["more"]) == ("is:often", "is:99", 201, 301 - 201)


def test_ranges_that_adjoin_are_one_range():
    column = pd.Series([*range(100), None])
    binned = facet("n", column)
    keys = [b.key for b in binned.ranges]
    assert str(binned.query(keys[2:5])) == f"n >= {binned.ranges[2].low:g} and n <= {binned.ranges[4].high:g}"
    apart = binned.query([keys[0], keys[2], "null"])
    assert apart.operator == "or"
    frame = pd.DataFrame({"n": column})
    for query in (binned.query(keys[2:5]), apart, binned.query(["null"])):
        mask = query.mask(frame)
        assert sorted(binned.chosen(query, mask)) == sorted(
            b.key for b in binned.bins if (b.mask & mask).any()
        )
    shares = facet("x", pd.Series([0.1, 0.25, 0.3, 0.3]))
    third = next(b for b in shares.ranges if b.low == 0.3)
    assert len(third.rows) == 2, "0.3 is not less than 3 * 0.1"
    assert third.query.mask(pd.DataFrame({"x": [0.1, 0.25, 0.3, 0.3]})).tolist() == [False, False, True, True]


# -- the one filter


def test_clauses_of_a_column_are_replaced_where_they_stand():
    where = "a = 1 and (b = 2 or c = 3) and n > 5 and a < 9"
    assert len(clauses(where)) == 4
    assert str(columns_clause(where, ["a"])) == "a = 1 and a < 9"
    assert columns_clause(where, ["b"]) is None, "it is chosen together with c"
    assert str(columns_clause(where, ["b", "c"])) == "b = 2 or c = 3"
    a_is_7 = columns_clause("a = 7", ["a"])
    assert replace_clause(where, ["a"], a_is_7) == "a = 7 and (b = 2 or c = 3) and n > 5"
    assert replace_clause(where, ["a"], None) == "(b = 2 or c = 3) and n > 5"
    assert replace_clause("n>5", ["x"], None) == "n>5", "what is typed stays as it is"
    assert replace_clause("", ["x"], columns_clause("x = 1", ["x"])) == "x = 1"


def test_what_is_chosen_in_words_and_the_change_that_removes_it():
    columns = {"n_tokens": pd.Series([1, 2, 3, 4]), "word": pd.Series(["a", "b", "c", "d"])}
    made = Listing(ITEMS, columns)
    where = "n_tokens > 1 and not word in (a, b) and (word = a or n_tokens = 3) and word contains c"
    made.apply({"where": where, "query": "see"})
    texts = [text for text, _ in made.words()]
    assert texts == [
        "passage contains “see”", "Passage length: 2 or more tokens",
        "not word in (a, b) and word contains c", "word = a or n_tokens = 3",
    ]  # fmt: skip
    assert made.rows.tolist() == [2]
    made.apply(made.state | made.words()[2][1])
    assert made.state["where"] == "n_tokens > 1 and (word = a or n_tokens = 3)"
    made.apply({"where": "not word in (a, b) and n_tokens <= 3"})
    assert [text for text, _ in made.words()] == ["Word: not a or b", "Passage length: at most 3 tokens"]


@pytest.mark.parametrize(
    "state",
    [
        {"queri": "x"},
        {"where": "colour = red"},
        {"current": "x/dev/99"},
    ],
)
def test_a_state_that_does_not_fit_is_told(state):
    made = Listing(ITEMS, {"n": pd.Series([1, 2, 3, 4])})
    before = made.apply({"where": "n > 1"})
    refused(made.apply, state)
    assert (made.state, made.rows.tolist()) == (before, [1, 2, 3])


@pytest.mark.parametrize(
    "facets",
    [
        {"colour": ["red"]},
        {"split": "dev"},
        {"split": 5},
        *({"n": n} for n in (["a"], [1], [1, "2"], [True, False])),
    ],
)
def test_facets_that_do_not_fit_are_told(facets):
    refused(facets_filter, facets, Listing(ITEMS, {"n": pd.Series([1, 2, 3, 4])}))


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
    places = [field.buffers()[2].address for _ in range(2) for field in [TextSearch(ITEMS)._texts["passage"]]]
    assert places[0] == places[1]
