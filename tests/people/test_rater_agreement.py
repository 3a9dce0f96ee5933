from itertools import combinations, permutations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa

from workbench.people import rater_agreement as people

# Krippendorff 2011, "Computing Krippendorff's alpha-reliability", section C: four observers, twelve units
PRINTED = [
    "1 2 3 3 2 1 4 1 2 . . .",
    "1 2 3 3 2 2 4 1 2 5 . 3",
    ". 3 3 3 2 3 4 2 2 5 1 .",
    "1 2 3 3 2 4 4 1 2 5 1 .",
]
TABLES = st.integers(2, 6).flatmap(
    lambda n: st.lists(
        st.lists(st.sampled_from(["a", "b", "c", None]), min_size=n, max_size=n), min_size=2, max_size=9
    )
)


def answers(rows):
    """Make answers of rows of people, one column per item."""
    cells = [(f"p{p}", f"i{i}", word) for p, row in enumerate(rows) for i, word in enumerate(row)]
    return pd.DataFrame(cells, columns=["person", "item_id", "prediction"]).astype({"prediction": "str"})


def slow_alpha(rows):
    """Compute Krippendorff's alpha pair by pair."""
    units = [[word for word in unit if word is not None] for unit in zip(*rows, strict=True)]
    units = [unit for unit in units if len(unit) > 1]
    values = [word for unit in units for word in unit]
    observed = [(a != b) / (len(unit) - 1) for unit in units for a, b in permutations(unit, 2)]
    chance = [a != b for a, b in permutations(values, 2)]
    return 1 - (sum(observed) / len(values)) / (sum(chance) / len(chance)) if any(chance) else np.nan


def slow_pairs(rows):
    pairs = [pair for unit in zip(*rows, strict=True) for pair in combinations(unit, 2) if None not in pair]
    return np.mean([a == b for a, b in pairs]) if pairs else np.nan


def test_the_printed_example_of_krippendorff():
    rows = [[None if cell == "." else cell for cell in row.split()] for row in PRINTED]
    found = people.answer_agreement(answers(rows))
    assert found.krippendorff_alpha == pytest.approx(0.743, abs=0.0005)
    assert (found.n_people, found.n_items, found.n_answers) == (4, 12, 41)
    assert (found.kappa_k, found.kappa_items) == (4, 8)


@settings(max_examples=15)
@given(TABLES)
def test_alpha_and_pairs_are_those_of_a_slow_loop(rows):
    found = people.answer_agreement(answers(rows))
    assert found.krippendorff_alpha == pytest.approx(slow_alpha(rows), nan_ok=True)
    assert found.pairwise == pytest.approx(slow_pairs(rows), nan_ok=True)


@settings(max_examples=15)
@given(TABLES.map(lambda rows: [[word or "d" for word in row] for row in rows]))
def test_kappa_is_that_of_statsmodels(rows):
    found = people.answer_agreement(answers(rows))
    if len({word for row in rows for word in row}) == 1:
        assert np.isnan(found.fleiss_kappa)
        return
    codes = np.array([[ord(word) for word in row] for row in rows]).T
    assert found.fleiss_kappa == pytest.approx(fleiss_kappa(aggregate_raters(codes)[0]))
    assert (found.kappa_k, found.kappa_items) == (len(rows), len(rows[0]))
    assert "Fleiss' kappa" in str(found)


def test_kappa_takes_the_items_with_the_most_common_number_of_answers():
    rows = [["a", "a", "b", "b"], ["a", "b", "b", "a"], ["c", None, None, None]]
    found = people.answer_agreement(answers(rows))
    assert (found.kappa_k, found.kappa_items) == (2, 3)
    part = people.answer_agreement(answers([row[1:] for row in rows[:2]]))
    assert found.fleiss_kappa == part.fleiss_kappa
    nobody = people.answer_agreement(answers([[None, None]]))
    assert (nobody.n_answers, nobody.kappa_k) == (0, 0)
    assert np.isnan([nobody.fleiss_kappa, nobody.krippendorff_alpha, nobody.pairwise]).all()
    assert "not known" in str(nobody)


def test_the_majority_is_drawn_by_seed_among_equals():
    rows = [["Ann", "bob", None, "x"], ["Ann", "cy", None, "y"], ["ann", None, None, "z"]]
    table = answers(rows)
    found = people.majority_answers(table).set_index("item_id")
    assert found.loc["i0", "prediction"] == "Ann"
    assert found["tied"].tolist() == [["ann"], ["bob", "cy"], [], ["x", "y", "z"]]
    assert pd.isna(found.loc["i2", "prediction"])
    drawn = {people.majority_answers(table, seed)["prediction"].iloc[3] for seed in range(30)}
    assert drawn == {"x", "y", "z"}
    orders = table, table.sample(frac=1, random_state=1)
    ordered, shuffled = (people.majority_answers(rows, 5) for rows in orders)
    assert shuffled["prediction"].tolist()[:2] == ordered["prediction"].tolist()[:2]
