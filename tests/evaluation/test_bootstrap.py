"""Replicates and sign flips, against slow loops over what was drawn."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.analysis.proportions import mcnemar
from workbench.evaluation import bootstrap
from workbench.evaluation.bootstrap import Units, intervals, resample, sign_flip, sign_flips


def units_of(codes, by="item"):
    names, places = np.unique(codes, return_inverse=True)
    return Units(places, len(names), by)


def draws(of, resamples, seed):
    """Draw as the definition says: units with replacement, again and again; give the items of each draw."""
    rng = np.random.default_rng(seed)
    for _ in range(resamples):
        units = rng.integers(0, of.number, size=of.number, dtype=np.int64)
        yield np.concatenate([np.flatnonzero(of.codes == unit) for unit in units])


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 60), st.sampled_from(["item", "novel"]), st.booleans())
def test_replicates_are_those_of_the_slow_loop(seed, n, by, holes):
    rng = np.random.default_rng(seed)
    means = np.stack([rng.random(n) < 0.4, -rng.gamma(3, 2, n), np.full(n, np.nan)]).astype(float)
    ranks = np.stack([np.full(n, 7.0), rng.integers(1, 60, n)])
    if holes:
        means[1, rng.random(n) < 0.3] = ranks[1, rng.random(n) < 0.3] = np.nan
        means[1, 0] = -np.inf
    of = units_of(np.arange(n) if by == "item" else rng.integers(0, 5, n), by)
    drawn_means, drawn_medians = resample(means, ranks, of, 40, 3)
    for place, items in enumerate(draws(of, 40, 3)):
        for row, drawn, measure in ((means, drawn_means, np.mean), (ranks, drawn_medians, np.median)):
            parts = [values[items][~np.isnan(values[items])] for values in row]
            wanted = [measure(part) if len(part) else np.nan for part in parts]
            np.testing.assert_allclose(drawn[place], wanted, rtol=1e-12)


@pytest.mark.parametrize("novels", [None, 4, 50])
def test_medians_are_found_even_where_the_first_look_is_too_narrow(novels, monkeypatch):
    monkeypatch.setattr(bootstrap, "_SPARE", 1)
    rng = np.random.default_rng(4)
    ranks = rng.integers(1, 60, (1, 300)).astype(float) ** 2
    of = units_of(np.arange(300) if novels is None else rng.integers(0, novels, 300))
    wanted = [np.median(ranks[0, items]) for items in draws(of, 60, 0)]
    np.testing.assert_array_equal(resample(ranks[:0], ranks, of, 60, 0)[1][:, 0], wanted)


def test_intervals_are_order_statistics_outwards():
    drawn = np.array([[-np.inf, 1, np.nan], *([k, 5, k] for k in range(99))], dtype=float)
    low, high = intervals(drawn, 0.9, 10)
    for column, bounds in zip(drawn.T, zip(low, high, strict=True), strict=True):
        values = np.sort(column[~np.isnan(column)])
        k = len(values) - 1
        assert bounds == (values[int(np.floor(0.05 * k))], values[int(np.ceil(0.95 * k))])
    assert np.isnan(intervals(drawn, 0.9, 1)).all()
    assert np.isnan(intervals(np.full((5, 1), np.nan), 0.9, 10)).all()


def test_units_are_novels_where_every_item_names_one():
    assert bootstrap.units(pd.Series(["b", "a", "b"]))[1:] == (2, "novel")
    assert bootstrap.units(pd.Series(["b", None, "b"], dtype="str"))[1:] == (3, "item")
    part = units_of([0, 0, 1, 2], "novel").subset(np.array([False, True, False, True]))
    assert (part.codes.tolist(), part.number) == ([0, 1], 2)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=8))
def test_few_signs_are_all_tried(differences):
    values = np.array(differences, dtype=float)
    p, exact, _ = sign_flip(values, units_of(np.arange(len(values))), 1, 0)
    sums = np.array(list(itertools.product([-1, 1], repeat=len(values)))) @ values
    assert (p, exact) == (pytest.approx(np.mean(np.abs(sums) >= abs(values.sum()))), True)
    whole, exact, is_bound = sign_flip(values.astype(np.int64), units_of(np.arange(len(values))), 1, 0)
    assert (whole, exact, is_bound) == (pytest.approx(p, rel=1e-9), True, False)


def test_whole_numbers_of_many_units_have_the_exact_p():
    values = np.random.default_rng(1).integers(-3, 5, 18)
    signs = np.array(list(itertools.product([-1, 1], repeat=17)), dtype=np.int32)
    sums = signs @ values[1:].astype(np.int32) + values[0]  # by symmetry, the first may stay positive
    wanted = (np.abs(sums) >= abs(values.sum())).mean()
    p, is_bound = sign_flips(3 * values[None], 1, 0)
    assert (p[0], is_bound[0]) == (pytest.approx(wanted, rel=1e-9), False)


@pytest.mark.parametrize(("only_a", "only_b"), [(0, 40), (13, 7), (900, 700), (5, 5)])
def test_signs_of_single_items_are_mcnemars_test(only_a, only_b):
    p, _ = sign_flips(np.repeat([1, -1, 0], [only_a, only_b, 30])[None], 1, 0)
    assert p[0] == pytest.approx(mcnemar(only_a, only_b)[0], rel=1e-9)


def test_random_signs_come_near_the_exact_p():
    values = np.random.default_rng(0).normal(0.25, 1, 17)  # one more than are all tried
    p, exact, _ = sign_flip(values, units_of(np.arange(17)), 10_000, 0)
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=17)))
    wanted = (np.abs(signs @ values) >= abs(values.sum()) - 1e-9).mean()
    assert not exact
    assert 0.02 < wanted < 0.9
    assert p == pytest.approx(wanted, abs=4 * np.sqrt(wanted * (1 - wanted) / 10_000))


@pytest.mark.parametrize("novels", [2, 9, 16, 40])
def test_sign_flips_of_many_pairs_are_those_of_one(novels):
    rng = np.random.default_rng(novels)
    of = units_of(rng.permutation(300) % novels, "novel")
    pairs = rng.integers(-1, 2, (5, 300)).astype(float)
    pairs[3] = 0
    pairs[4, of.codes > 1] = 0  # two novels tell this pair apart
    p, _ = sign_flips(np.stack([of.sums(pair) for pair in pairs]), 2000, 0)
    for pair, found in zip(pairs, p, strict=True):
        wanted, exact, _ = sign_flip(pair, of, 2000, 0)
        assert found == pytest.approx(wanted, abs=0 if exact else 0.03)
    assert p[3] == 1


def test_weights_are_drawn_once_for_as_many_units_and_kept_within_a_bound(monkeypatch):
    draws = []

    def drawing(*key, of=bootstrap._draw_weights):
        draws.append(key)
        return of(*key)

    monkeypatch.setattr(bootstrap, "_draw_weights", drawing)
    monkeypatch.setattr(bootstrap, "_DRAWS", {})
    monkeypatch.setattr(bootstrap, "_KEPT", 2_000)
    monkeypatch.setattr(bootstrap, "_BLOCK", 300)
    rows, none = np.arange(40.0).reshape(2, 20), np.empty((0, 20))
    of = bootstrap.Units(np.arange(20), 20, "item")
    first = bootstrap.resample(rows, rows, of, 50, 0)
    again = bootstrap.resample(rows, rows, of, 50, 0)
    assert draws == [(20, 50, 0)]
    np.testing.assert_array_equal(first, again)
    bootstrap.resample(rows, none, of, 50, 1)
    bootstrap.resample(rows, none, of, 50, 0)
    bootstrap.resample(rows, none, of, 50, 2)  # takes the place of the one that was used longest ago
    assert list(bootstrap._DRAWS) == [(20, 50, 0), (20, 50, 2)]
    bootstrap.resample(rows, none, of, 101, 0)  # more than are kept
    assert draws[1:] == [(20, 50, 1), (20, 50, 2), (20, 101, 0)]
    assert list(bootstrap._DRAWS) == [(20, 50, 0), (20, 50, 2)]
