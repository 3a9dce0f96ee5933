"""Measures and pairs of many models, against slow loops, scipy and statsmodels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_predictions import made
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from workbench.evaluation import bootstrap as resampling
from workbench.evaluation import joint
from workbench.evaluation.bootstrap import Units
from workbench.evaluation.metrics import measure
from workbench.evaluation.pairs import Drawing, Measured
from workbench.evaluation.reading import sources
from workbench.evaluation.significance import compare


def measured(correct, log_prob=None, rank=None, of=None, *, level=0.95, resamples=300, seed=0):
    correct = np.asarray(correct, dtype=bool)
    m, n = correct.shape
    log_prob = np.full((m, n), np.nan) if log_prob is None else np.asarray(log_prob, dtype=float)
    rank = np.full((m, n), np.nan) if rank is None else np.asarray(rank, dtype=float)
    of = Units(np.arange(n), n, "item") if of is None else of
    return Measured([f"m{k}" for k in range(m)], correct, log_prob, rank, of, Drawing(level, resamples, seed))


def drawn_items(n, resamples, seed):
    """Draw as the definition says: n items with replacement, again and again."""
    rng = np.random.default_rng(seed)
    return [rng.integers(0, n, size=n, dtype=np.int64) for _ in range(resamples)]


def random(m, n, seed=0, missing=0.0):
    rng = np.random.default_rng(seed)
    correct = rng.random((m, n)) < np.linspace(0.2, 0.6, m)[:, None]
    log_prob = -rng.gamma(3, 2, (m, n))
    log_prob[rng.random((m, n)) < missing] = np.nan
    return correct, log_prob, rng.integers(1, 60, (m, n)).astype(float)


def test_mcnemar_is_that_of_statsmodels_and_scipy():
    correct, *_ = random(5, 400)
    pairs = measured(correct).pairs
    assert len(pairs) == 10
    for row in pairs.itertuples():
        a, b = correct[row.a], correct[row.b]
        cells = [[(a & b).sum(), (a & ~b).sum()], [(~a & b).sum(), (~a & ~b).sum()]]
        assert (row.n_only_a, row.n_only_b) == (cells[0][1], cells[1][0])
        assert row.p == pytest.approx(mcnemar(cells, exact=True).pvalue, rel=1e-9)
        assert row.p == pytest.approx(
            stats.binomtest(row.n_only_a, row.n_only_a + row.n_only_b).pvalue, rel=1e-9
        )
        assert row.difference == pytest.approx(a.mean() - b.mean())
    corrected = multipletests(pairs["p"], method="holm")[1]
    np.testing.assert_allclose(pairs["p_holm"], corrected, rtol=1e-12)
    assert (pairs["p_holm"] > pairs["p"]).any()


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300)), min_size=1, max_size=8))
def test_mcnemar_of_any_counts(counts):
    a, b = np.array(counts).T
    wanted = [stats.binomtest(x, x + y).pvalue if x + y else 1.0 for x, y in counts]
    np.testing.assert_allclose(joint.mcnemar(a, b), wanted, rtol=1e-8)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 60), st.sampled_from(["item", "novel"]), st.booleans())
def test_replicates_are_those_of_the_slow_loop(seed, n, by, holes):
    rng = np.random.default_rng(seed)
    correct, log_prob, rank = random(3, n, seed, missing=0.2 if holes else 0)
    rank[0] = 7
    if holes:
        rank[1, rng.random(n) < 0.3] = np.nan
        log_prob[2] = np.nan
        log_prob[0, 0] = -np.inf
    codes = np.arange(n) if by == "item" else rng.integers(0, 5, n)
    of = Units(np.unique(codes, return_inverse=True)[1], len(np.unique(codes)), by)
    found = measured(correct, log_prob, rank, of, resamples=40, seed=3)._replicates
    for place, units in enumerate(drawn_items(of.number, 40, 3)):
        items = np.concatenate([np.flatnonzero(of.codes == unit) for unit in units])
        for k in range(3):
            assert found.accuracy[place, k] == correct[k, items].mean()
            lp, ranks = log_prob[k, items], rank[k, items]
            lp, ranks = lp[~np.isnan(lp)], ranks[~np.isnan(ranks)]
            np.testing.assert_allclose(found.log_prob[place, k], lp.mean() if len(lp) else np.nan, rtol=1e-5)
            np.testing.assert_equal(found.median_rank[place, k], np.median(ranks) if len(ranks) else np.nan)


def test_intervals_of_differences_are_paired():
    correct, log_prob, _ = random(3, 150)
    draws = drawn_items(150, 300, 0)
    pairs = measured(correct, log_prob).pairs
    for row in pairs.itertuples():
        for values, low, high in (
            (correct.astype(float), row.difference_low, row.difference_high),
            (log_prob, row.log_prob_difference_low, row.log_prob_difference_high),
        ):
            apart = values[row.a] - values[row.b]
            slow = [apart[items].mean() for items in draws]
            assert low == pytest.approx(np.quantile(slow, 0.025, method="lower"), abs=1e-5)
            assert high == pytest.approx(np.quantile(slow, 0.975, method="higher"), abs=1e-5)
        apart = log_prob[row.a] - log_prob[row.b]
        assert row.log_prob_difference == pytest.approx(apart.mean())


def test_intervals_are_near_those_of_scipy():
    correct, log_prob, _ = random(2, 400)
    row = measured(correct, log_prob, resamples=4000).pairs.iloc[0]
    for values, name in ((correct.astype(float), "difference"), (log_prob, "log_prob_difference")):
        other = stats.bootstrap(
            tuple(values),
            lambda a, b, axis: a.mean(axis=axis) - b.mean(axis=axis),
            paired=True,
            vectorized=True,
            n_resamples=4000,
            method="percentile",
            rng=np.random.default_rng(5),
        ).confidence_interval
        wide = other.high - other.low
        assert row[f"{name}_low"] == pytest.approx(other.low, abs=0.08 * wide)
        assert row[f"{name}_high"] == pytest.approx(other.high, abs=0.08 * wide)


def test_log_probabilities_of_different_items_are_compared_where_both_are_known():
    correct, log_prob, _ = random(3, 120, missing=0.3)
    log_prob[2] = np.nan
    pairs = measured(correct, log_prob).pairs
    both = ~np.isnan(log_prob[0]) & ~np.isnan(log_prob[1])
    apart = (log_prob[0] - log_prob[1])[both]
    row = pairs.iloc[0]
    assert row["log_prob_difference"] == pytest.approx(apart.mean())
    slow = [(log_prob[0] - log_prob[1])[items] for items in drawn_items(120, 300, 0)]
    slow = [values[~np.isnan(values)].mean() for values in slow]
    assert row["log_prob_difference_low"] == pytest.approx(np.quantile(slow, 0.025, method="lower"), abs=1e-5)
    assert pairs.iloc[1:][["log_prob_difference", "log_prob_difference_low"]].isna().all(axis=None)


def test_an_answer_of_probability_0_leaves_no_interval():
    correct, log_prob, _ = random(3, 60)
    log_prob[0, 3] = log_prob[1, 3] = log_prob[1, 4] = -np.inf
    pairs, table = measured(correct, log_prob).pairs, measured(correct, log_prob).table
    assert pairs["log_prob_difference"].tolist()[:2] == [np.inf, -np.inf]
    assert pairs["log_prob_difference_low"].isna().all()
    assert table["perplexity"].tolist()[:2] == [np.inf, np.inf]
    assert np.isfinite(table["perplexity"][2])


@pytest.mark.parametrize("novels", [2, 9, 16, 40])
def test_sign_flips_are_those_of_one_pair(novels):
    correct, *_ = random(4, 300, seed=novels)
    of = Units(np.random.default_rng(0).permutation(300) % novels, novels, "novel")
    pairs = measured(correct, of=of, resamples=2000).pairs
    for row in pairs.itertuples():
        apart = correct[row.a].astype(float) - correct[row.b]
        wanted, exact = resampling.sign_flip(apart, of, 2000, 0)
        assert exact == (novels <= 16)
        assert row.p_novel == pytest.approx(wanted, abs=0 if exact else 0.03)
    assert measured(correct).pairs["p_novel"].isna().all()


def test_models_that_few_of_many_novels_tell_apart():
    correct, *_ = random(2, 300)
    correct[1] = correct[0]
    correct[1, :6] = ~correct[1, :6]
    of = Units(np.arange(300) % 30, 30, "novel")
    apart = correct[0].astype(float) - correct[1]
    assert measured(correct, of=of).pairs["p_novel"][0] == resampling.sign_flip(apart, of, 10, 0)[0]
    same = measured(np.stack([correct[0], correct[0]]), of=of).pairs.iloc[0]
    assert (same["p"], same["p_holm"], same["p_novel"], same["difference_low"]) == (1, 1, 1, 0)


@pytest.mark.parametrize("books", [None, 7])
def test_the_table_has_the_numbers_of_measure(books):
    frames = [made(250, seed=k, right=0.1 * k, books=books, model=f"m{k}") for k in range(4)]
    found = sources(frames)
    of = resampling.units(found[0].frame["book_id"])
    columns = [
        np.stack([s.frame[name].to_numpy(dtype=float) for s in found]) for name in ("correct", "log_prob")
    ]
    rank = np.stack(
        [
            s.frame["rank"].to_numpy(dtype=float) + (s.frame["n_tied"].to_numpy(dtype=float) - 1) / 2
            for s in found
        ]
    )
    table = measured(columns[0].astype(bool), columns[1], rank, of, resamples=500).table
    for row, source in zip(table.to_dict("records"), found, strict=True):
        wanted = measure(source.frame, level=0.95, resamples=500, seed=0)
        for name in wanted.keys() & row.keys():
            if isinstance(wanted[name], float):
                assert row[name] == pytest.approx(wanted[name], rel=1e-5), name
            elif wanted[name] is not None:
                assert row[name] == wanted[name], name
    assert set(table["interval"]) == ({"Wilson"} if books is None else {"Wilson", "bootstrap by novel"})


def test_a_pair_has_the_numbers_of_significance():
    frames = [made(250, seed=k, right=0.2 + 0.1 * k, books=6, model=f"m{k}") for k in range(2)]
    a, b = sources(frames)
    wanted = compare(a, b, resamples=400, seed=1, level=0.9)
    columns = [
        np.stack([s.frame[name].to_numpy(dtype=float) for s in (a, b)]) for name in ("correct", "log_prob")
    ]
    of = resampling.units(a.frame["book_id"])
    row = measured(columns[0].astype(bool), columns[1], of=of, level=0.9, resamples=400, seed=1).pairs.iloc[0]
    assert row["difference"] == pytest.approx(wanted.difference)
    np.testing.assert_allclose([row["difference_low"], row["difference_high"]], wanted.interval, rtol=1e-9)
    assert row["p_novel"] == wanted.p_value
    assert row["log_prob_difference"] == pytest.approx(wanted.log_prob_difference)
    span = [row["log_prob_difference_low"], row["log_prob_difference_high"]]
    np.testing.assert_allclose(span, wanted.log_prob_interval, rtol=1e-4)


def test_one_model_has_no_pairs_and_one_item_no_spread():
    correct, log_prob, rank = random(1, 30)
    assert len(measured(correct, log_prob, rank).pairs) == 0
    one = measured(correct[:, :1], log_prob[:, :1], rank[:, :1]).table.iloc[0]
    assert one["n"] == 1
    assert np.isnan(one["perplexity_low"])
    assert np.isnan(one["median_rank_high"])
    assert one["accuracy_high"] <= 1


@given(st.integers(0, 500), st.integers(0, 500), st.floats(0.5, 0.999))
def test_wilson_is_that_of_statsmodels(count, more, level):
    n = count + more
    low, high = joint.wilson(np.array([count]), np.array([float(n)]), level)
    if not n:
        assert np.isnan(low[0])
        return
    np.testing.assert_allclose(
        [low[0], high[0]], proportion_confint(count, n, alpha=1 - level, method="wilson"), atol=1e-12
    )


@pytest.mark.parametrize("novels", [None, 4, 50])
def test_medians_are_found_even_where_the_first_look_is_too_narrow(novels, monkeypatch):
    monkeypatch.setattr(joint, "_SPARE", 1)
    _, _, rank = random(2, 700, seed=4)
    rank[1] **= 2
    codes = np.arange(700) if novels is None else np.random.default_rng(1).integers(0, novels, 700)
    of = Units(codes, novels or 700, "item" if novels is None else "novel")
    found = measured(np.ones((2, 700)), rank=rank, of=of, resamples=200)._replicates.median_rank
    for k in range(2):
        np.testing.assert_array_equal(found[:, k], resampling.medians(rank[k], of, 200, 0))
