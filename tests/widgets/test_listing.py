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
from workbench.widgets.shared.listing import Listing, facet, facet_mask
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
    assert {query: rows({"search": query}) for query in queries} == dict.fromkeys(queries, places)


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
    assert rows({"search": query, "field": field, "regex": True}) == found


def test_a_list_says_where_its_items_are_from_and_in_what_they_differ():
    genres = pd.Series(["sea's", None, "war", "sea's"], dtype="str")
    made = Listing(ITEMS, {"n": pd.Series([7, 7, 7, 7]), "genre": genres})
    assert made.origin == "x and y, dev and test, plain and other"
    assert "split" in made.varying
    assert "genre" in made.varying
    assert "n" not in made.varying
    assert made.example(["split", "genre"]) == "split = 'dev'"
    condition = made.example(["genre"])
    assert condition == "genre = 'sea''s'"
    made.apply({"where": condition})
    assert made.rows.tolist() == [0, 3]
    assert made.example([]) == ""


def test_no_pattern_takes_for_ever():
    items = clozes("a" * 5000 + " {dog}", "aaab {dog}")
    assert rows({"search": "(a+)+b", "regex": True}, items) == [1]
    assert hits("a" * 5000, ["(a+)+b"]) == []
    assert hits("aaab", ["(a+)+b"]) == [(0, 4)]


@pytest.mark.parametrize("query", ["(", "a{2,1}", r"\q", "(?=a)", r"(a)\1"])
def test_a_bad_regular_expression_is_told(query):
    with pytest.raises(DataError):
        rows({"search": query, "regex": True})


TEXTS = st.lists(st.text("abAB .*+?()[]<>|^$\\_%-\n'é", max_size=12), min_size=1, max_size=6)


@given(TEXTS, st.text("abAB .*+?()[]|^$\\_%-'é", max_size=3), st.booleans())
@example(["A.b", "aXb"], "a.B", False)  # noqa: FBT003 - hypothesis takes it so
def test_search_finds_what_python_finds(texts, query, regex):
    items = clozes(*(f"{text} {{}}" for text in texts), tokenised=False)
    if regex:
        query = "".join(c for c in query if c.isalnum() or c in " .")
    pattern = re.compile(query.strip() if regex else re.escape(query.strip()), re.IGNORECASE)
    expected = [i for i, item in enumerate(items) if pattern.search(item.text)]
    assert rows({"search": query, "regex": regex}, items) == expected


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
    made.apply({"search": "dog" if searched else ""})
    for name in [name for name in COLUMNS if name in made.facets]:
        bins = made.facets[name].bins
        drawn_bins = data.draw(
            st.lists(st.sampled_from(bins), unique=True, max_size=1 if name == "number" else 9)
        )
        chosen = [value for b in drawn_bins for value in b.facet]
        made.apply(made.state | {"facets": made.state["facets"] | {name: chosen}})
        expected = np.logical_or.reduce([b.mask for b in drawn_bins]) if drawn_bins else None
        others = made.mask(but=[name])
        assert made.mask().tolist() == (others & expected if drawn_bins else others).tolist()
        assert made.rows.tolist() == np.flatnonzero(made.mask()).tolist()
        described = made.describe(name)
        rows_of_bins = [*described["bins"], *filter(None, [described["null"]])]
        expected_rows = [[b.facet, b.label, b.mask.sum(), (b.mask & others).sum()] for b in bins]
        assert sorted(rows_of_bins, key=repr) == sorted(expected_rows, key=repr)


VALUES = {
    "number": st.lists(st.none() | st.floats(-9, 9) | st.integers(-9, 9), min_size=2, max_size=2)
    | st.just([None]),
    "category": st.lists(CATEGORY, min_size=1, max_size=3),
    "labels": st.lists(st.sampled_from(["p", "q", "r", None]), min_size=1, max_size=3),
}


@given(st.lists(st.tuples(CATEGORY, NUMBER, LABEL), min_size=1, max_size=12), st.data())
def test_a_facet_lists_what_pandas_lists(drawn, data):
    frame = pd.DataFrame(drawn, columns=["category", "number", "labels"])
    frame = frame.astype({"number": float, "category": object})
    for name, strategy in VALUES.items():
        values = data.draw(strategy)
        column, low, high = frame[name], values[0], values[-1]
        missing = (
            column.map(lambda cell: not isinstance(cell, list) or not cell)
            if name == "labels"
            else column.isna()
        )
        if name == "number" and values != [None]:
            expected = column.between(-np.inf if low is None else low, np.inf if high is None else high)
        elif name == "labels":
            hits_of_rows = [bool(set(values) & set(cell or ())) for cell in column]
            expected = pd.Series(hits_of_rows) | (missing & (None in values))
        else:
            expected = column.isin([v for v in values if v is not None]) | (missing & (None in values))
        if not missing.all() or name != "number":
            assert facet_mask(frame, name, values).tolist() == expected.tolist()


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
    assert [b.facet for b in made[0].bins] == [[True], [False], [None]]


def test_categories_stand_commonest_first_and_the_rare_ones_of_many_are_left_out():
    names = [f"{i // 3}" for i in range(900)] + ["often"] * 4
    items = clozes(*("a {dog}" for _ in names))
    made = Listing(items, {"name": pd.Series(names)})
    made.apply({"facets": {"name": ["99"]}})
    described = made.describe("name")
    values = [value for [value], *_ in described["bins"]]
    assert (values[0], values[-1], len(values), described["more"]) == ("often", "99", 201, 301 - 201)


def test_a_bin_of_numbers_is_a_closed_range():
    column = pd.Series([0.1, 0.25, 0.3, 0.3])
    third = next(b for b in facet("x", column).bins if b.facet[0] == 0.3)
    assert len(third.rows) == 2, "0.3 is not less than 3 * 0.1"
    assert facet_mask(column.to_frame("x"), "x", third.facet).tolist() == [False, False, True, True]
    whole = facet("n", pd.Series([*range(100), None]))
    assert whole.bins[0].facet == [0, 4]
    assert whole.bins[-1].facet == [None]


# -- facets, condition and search together


def test_each_choice_in_words_and_the_change_that_removes_it():
    columns = {
        "n_tokens": pd.Series([1, 2, 3, 4]), "word": pd.Series(["a", "b", None, "d"]),
        "3-gram: correct": pd.Series([True, False, True, True]), "share": pd.Series([0.1, 0.25, 0.3, 0.3]),
    }  # fmt: skip
    made = Listing(ITEMS, columns)
    where = 'n_tokens > 1 and "3-gram: correct"'
    facets = {"n_tokens": [2, None], "word": [None, "b"], "3-gram: correct": [True]}
    made.apply({"facets": facets, "where": where, "search": "see"})
    assert [text for text, _ in made.words()] == [
        "Passage length: 2 or more tokens", "Word: not known or b", "3-gram: correct: yes", where,
        "passage contains “see”",
    ]  # fmt: skip
    assert made.rows.tolist() == [2]
    for _, change in made.words():
        made.apply(made.state | change)
        for part, value in change.items():
            assert made.state[part] == value
            made.apply(made.state | {part: {"facets": facets, "where": where, "search": "see"}[part]})
    phrases = {
        (None, 3): "at most 3 tokens", (2, 2): "2 tokens", (1, 3): "1 to 3 tokens",
        (None, None): "any number of tokens",
    }  # fmt: skip
    for values, phrase in phrases.items():
        made.apply({"facets": {"n_tokens": list(values)}})
        assert made.words()[0][0] == f"Passage length: {phrase}"
    made.apply({"facets": {"share": made.facets["share"].bins[0].facet}})
    assert "to below" in made.words()[0][0]
    assert '"3-gram: correct"' in made.completions()


@pytest.mark.parametrize(
    "state",
    [
        {"queri": "x"},
        {"where": "colour = 'red'"},
        {"where": "n >"},
        {"current": "x/dev/99"},
        {"facets": 5},
        {"facets": {"colour": ["red"]}},
        {"facets": {"split": "dev"}},
        {"facets": {"split": 5}},
        {"facets": {"split": [5]}},
        *({"facets": {"n": n}} for n in (["a"], [1], [1, "2"], [True, False], [1, 2, 3], [1, np.inf])),
    ],
)
def test_a_state_that_does_not_fit_is_told(state):
    made = Listing(ITEMS, {"n": pd.Series([1, 2, 3, 4])})
    before = made.apply({"where": "n > 1"})
    refused(made.apply, state)
    assert (made.state, made.rows.tolist()) == (before, [1, 2, 3])


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
    assert rows({"search": query, "regex": True})
    assert hits("It rained .", [query]) == []


def test_a_query_is_found_as_typed_and_as_tokens():
    expressions = patterns("didn't", regex=False, tokenised=True)
    assert hits("she did n't , he didn't", expressions) == [(4, 11), (17, 23)]
    assert patterns("didn't", regex=True, tokenised=True) == ["didn't"]
    assert patterns("didn't", regex=False, tokenised=False) == ["didn\\'t"]


def test_filters_of_the_same_items_share_the_text():
    places = [field.buffers()[2].address for _ in range(2) for field in [TextSearch(ITEMS)._texts["passage"]]]
    assert places[0] == places[1]
