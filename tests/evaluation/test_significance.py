from math import comb

import numpy as np
import pandas as pd
import pytest
from html_page import Page
from hypothesis import example, given, settings
from hypothesis import strategies as st
from made_predictions import items_of, made, run, scores, unknown_answers
from refused import refused
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar

from workbench.analysis.proportions import mcnemar, paired_interval
from workbench.evaluation.align import align
from workbench.evaluation.bootstrap import BootstrapSettings, Units
from workbench.evaluation.paired import Seeds, accuracy_tests, mcnemar_power, minimum_detectable_effect
from workbench.evaluation.replicates import replicates
from workbench.evaluation.significance import significance
from workbench.render.numbers import MINUS

QUICK = {"resamples": 100}


def pair(n=400, **options):
    return made(n, seed=1, right=0.4, **options), made(n, seed=2, right=0.3, model="other", **options)


def test_the_numbers_of_a_comparison():
    a, b = pair()
    found = significance(a, b)
    right = [frame["correct"].to_numpy(dtype=bool) for frame in (a, b)]
    assert (found.n, found.n_units, found.resampled_by) == (400, 400, "item")
    assert (found.accuracy_a, found.accuracy_b) == pytest.approx((right[0].mean(), right[1].mean()))
    assert found.difference == pytest.approx(right[0].mean() - right[1].mean())
    assert (found.n_only_a, found.n_only_b) == ((right[0] & ~right[1]).sum(), (right[1] & ~right[0]).sum())
    table = pd.crosstab(right[0], right[1])
    assert found.p_value == pytest.approx(statsmodels_mcnemar(table, exact=True).pvalue)
    assert found.test == "exact McNemar test"
    assert found.log_prob_difference == pytest.approx(a["log_prob"].mean() - b["log_prob"].mean())


def test_the_interval_of_log_probabilities_is_that_of_scipys_paired_bootstrap():
    a, b = pair()
    found = significance(a, b, level=0.9, resamples=10_000)
    x, y = (frame["log_prob"].to_numpy(dtype=float) for frame in (a, b))
    wanted = stats.bootstrap(
        (x, y), lambda x, y, axis: (x - y).mean(axis=axis), paired=True, method="percentile",
        confidence_level=0.9, n_resamples=2_999, rng=np.random.default_rng(9),
    ).confidence_interval  # fmt: skip
    error = (x - y).std() / np.sqrt(400)
    assert found.log_prob_interval == pytest.approx(tuple(wanted), abs=0.1 * error)
    assert found.interval == pytest.approx(
        [bound[0] for bound in paired_interval(found.n_only_a, found.n_only_b, 400, level=0.9)]
    )


@pytest.mark.parametrize(("books", "exact"), [(6, True), (60, False)])
def test_the_test_by_novel_is_scipys_permutation_test(books, exact):
    a, b = pair(books=books)
    found = significance(a, b)
    assert (found.resampled_by, found.n_units) == ("novel", books)
    assert found.test == "paired sign-flip test by novel, exact"
    for column, p in (("correct", found.p_value), ("log_prob", found.log_prob_p_value)):
        sums = (a[column].astype(float) - b[column].astype(float)).groupby(a["book_id"]).sum()
        wanted = stats.permutation_test(
            (sums, np.zeros(books)), lambda x, y, axis: (x - y).mean(axis=axis),
            permutation_type="samples", n_resamples=20_000, rng=np.random.default_rng(3),
        ).pvalue  # fmt: skip
        error = 0 if exact else 5 * np.sqrt(wanted * (1 - wanted) * (1 / 10_000 + 1 / 20_000)) + 2e-4
        assert p == pytest.approx(wanted, abs=error + 1e-12)


def test_what_random_signs_cannot_tell_from_their_least_p_is_a_bound():
    a, b = made(log_prob=-1.0), made(seed=1, model="b", log_prob=-2.0 - np.arange(200) / 100)
    found = significance(a, b, resamples=2000)
    assert (found.log_prob_p_value, found.log_prob_p_is_bound) == (1 / 2001, True)
    assert "< 0.0005" in Page(found.to_html()).text


def test_a_part_of_the_items_and_all_have_an_exact_p():
    a, b = made(300, books=60, seed=1, right=0.9), made(300, books=60, seed=2, right=0.1, model="other")
    p_values = [significance(a, b, resamples=resamples).p_value for resamples in (10, 2000)]
    assert p_values[0] == p_values[1] < 1e-12
    assert significance(a[:150], b[:150], **QUICK).p_value < 1e-12


@pytest.mark.parametrize("books", [None, 5])
def test_a_model_does_not_differ_from_itself(books):
    frame = made(books=books)
    found = significance(frame, frame.sample(frac=1, random_state=0), **QUICK)
    [half] = paired_interval(0, 0, found.n)[1]
    assert (found.difference, found.interval, found.p_value) == (0, (-half, half), 1)
    assert (found.log_prob_difference, found.log_prob_interval, found.log_prob_p_value) == (0, (0, 0), 1)


def test_items_are_paired_by_their_id():
    a, b = pair(100)
    part = significance(a, made(100, seed=2, right=0.3, model="other", first=20), **QUICK)
    assert part.n == 80
    every = significance(a, b, **QUICK)
    assert every == significance(a.sample(frac=1, random_state=1), b, **QUICK)


@pytest.mark.parametrize(("books", "right", "text"), [
    (None, 0.5, "not every item names its novel"), (30, 0.5, ""), (30, 0.05, "there are 30 novels"),
])  # fmt: skip
def test_intervals_that_may_be_too_narrow_are_named(books, right, text):
    a, b = (made(400, seed=seed, right=right, books=books, oov=0, model=str(seed)) for seed in (1, 2))
    assert bool(text) == any("too narrow" in note for note in significance(a, b, **QUICK).notes)
    assert text in " ".join(significance(a, b, **QUICK).notes)


def test_another_task_has_no_p_and_another_vocabulary_none_of_log_probabilities():
    a, b = made(oov=0), made(oov=0.25, seed=1, model="b", unknown="shared", vocabulary_size=70_000)
    test = significance(a, b.assign(variant="capitalised"), **QUICK)
    assert (np.isnan(test.p_value), test.log_prob_p_value) == (True, None)
    assert "(no p: not the same task, " in str(test)
    other_words = significance(a, b, **QUICK)
    assert other_words.p_value == significance(a, made(oov=0.25, seed=1, model="b"), **QUICK).p_value
    assert other_words.log_prob_p_value is None


def test_log_probabilities_are_compared_only_where_both_have_them():
    a, b = pair()
    found = significance(a, scores(b), **QUICK)
    assert found.log_prob_difference is found.log_prob_interval is found.log_prob_p_value is None
    b.loc[:99, ["log_prob", "known"]] = np.nan, False
    found = significance(a, b, **QUICK)
    assert found.log_prob_difference == pytest.approx((a["log_prob"] - b["log_prob"])[100:].mean())
    assert (found.n, found.n_log_prob) == (400, 300)
    assert "(nats), 300 items" in Page(found.to_html()).text


def test_impossible_answers_make_the_difference_infinite():
    a, b = pair()
    a.loc[3, "log_prob"] = -np.inf
    found = significance(a, b, **QUICK)
    assert found.log_prob_difference == -np.inf
    assert found.log_prob_interval is found.log_prob_p_value is None
    b.loc[3, "log_prob"] = -np.inf
    both = significance(a, b, **QUICK)
    assert both.log_prob_difference * 400 == pytest.approx((a["log_prob"] - b["log_prob"]).drop(3).sum())
    assert both.log_prob_p_value is not None
    b.loc[4, "log_prob"] = a.loc[5, "log_prob"] = -np.inf
    assert np.isnan(significance(a, b, **QUICK).log_prob_difference)


def test_one_novel_says_nothing_of_others():
    found = significance(*pair(books=1), **QUICK)
    assert (found.interval, found.p_value, np.isnan(found.mde)) == ((-1, 1), 1, True)


@pytest.mark.parametrize("novels", [None, 12])
def test_log_probabilities_that_are_equal_but_for_rounding_do_not_differ(novels):
    a = made(200, log_prob=-np.random.default_rng(0).gamma(3, 4, 200), books=novels)
    other = made(200, log_prob=a["log_prob"] + 6.23e-6, model="other", books=novels)
    for b in (other, other.assign(log_prob=a["log_prob"].astype(np.float32).astype(float))):
        found = significance(a, b)
        assert (found.log_prob_difference, found.log_prob_interval, found.log_prob_p_value) == (0, (0, 0), 1)
        row = align(items_of(a), [a, b]).pairs().iloc[0]
        names = ("log_prob_difference", "log_prob_difference_low", "log_prob_difference_high")
        assert [row[name] for name in names] == [0, 0, 0]
    other.loc[0, "log_prob"] += 1.0  # one item does differ
    assert significance(a, other).log_prob_p_value == 1
    assert significance(a, other.assign(log_prob=a["log_prob"] + 1e-3)).log_prob_p_value < 0.01


def test_a_comparison_is_shown_as_text_and_html():
    a, b = made(model="<b>&x"), made(seed=1, model="y")
    result = significance(a, b, **QUICK)
    page = result._repr_html_()
    assert ("&lt;b&gt;&amp;x" in page, "<b>" in page) == (True, False)
    assert f"a difference of {100 * result.difference:+.1f} points".replace("-", MINUS) in str(result)
    assert "ln p" in page
    assert "ln p" not in significance(a, scores(b), **QUICK)._repr_html_()


def test_two_models_of_one_name_are_told_apart_by_columns():
    a, b = run(made(), "r1", seed=1), run(made(seed=1), "r2", seed=2, config={"width": 8})
    result = significance(a, b, **QUICK)
    assert (result.a, result.b) == ("made #1", "made #2")
    assert result.frame[["seed_a", "seed_b", "width_b"]].to_numpy().tolist() == [[1, 2, 8]]
    assert result.table[["quantity", "a", "b"]].head(2).to_numpy().tolist()[0] == ["Seed", "1", "2"]
    assert "Seed12" in Page(result.to_html()).text
    assert not significance(a, run(made(seed=1, model="b"), "r2"), **QUICK).distinctions
    assert "made #1 is right" in str(result)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (
            made(),
            made(first=1000),
        ),
        (made(), unknown_answers(made())),
        (pd.concat([made(), made(model="b")]), made()),
        (made(), []),
        (made(), made(answer="x", prediction="x", right=1, oov=0)),
    ],
)
def test_what_cannot_be_compared_is_said(a, b):
    refused(significance, a, b)


def conditional_power(m, probability, alpha):
    """Return how probable it is that McNemar's exact test of m discordant items finds the better side."""
    total, tail = 0.0, 0
    for k in range(m, m // 2, -1):
        tail += comb(m, k)
        if 2 * tail / 2**m <= alpha:
            total += comb(m, k) * probability**k * (1 - probability) ** (m - k)
    return total


def exact_power(effect, m, n, alpha):
    """Return the same where the number of discordant items is binomial."""
    share = max(m / n, effect)
    weights = stats.binom.pmf(np.arange(n + 1), n, share)
    probability = (1 + effect / share) / 2 if share else 0.5
    likely = np.flatnonzero(weights > 1e-9)
    return sum(weights[k] * conditional_power(int(k), probability, alpha) for k in likely)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 40), st.integers(1, 60), st.sampled_from([0.9, 0.95, 0.99]), st.floats(0.5, 0.95))
@example(5, 45, 0.95, 0.8)
@example(5, 0, 0.95, 0.8)
@example(6, 0, 0.95, 0.8)
@example(1, 25, 0.99, 0.6)
@example(5, 32, 0.99, 0.8)
def test_the_exact_test_has_the_power_asked_for_at_the_minimum_detectable_effect(m, others, level, power):
    n = m + others
    [effect] = minimum_detectable_effect(m, n, level=level, power=power)
    if exact_power(1, m, n, 1 - level) < power:  # not even if all are on one side
        assert np.isnan(effect)
    else:
        assert exact_power(effect, m, n, 1 - level) == pytest.approx(power, abs=1e-4)
        assert exact_power(effect - 1e-3, m, n, 1 - level) < power


def test_the_number_of_discordant_items_is_not_given_to_the_power():
    assert mcnemar_power(0.08, 6, 60)[0] == pytest.approx(exact_power(0.08, 6, 60, 0.05), abs=1e-9)
    assert mcnemar_power([0.08, 0.1], [6, 5], [60, 50]) == pytest.approx([0.3136, 0.3839], abs=1e-4)
    rng, power = np.random.default_rng(0), []
    for effect, share, n in ((0.05, 0.2, 400), (0.02, 0.15, 4869)):  # more than all numbers are summed
        only = rng.multinomial(n, [(share + effect) / 2, (share - effect) / 2, 1 - share], 20_000)
        power = np.mean((mcnemar(only[:, 0], only[:, 1]) <= 0.05) & (only[:, 0] > only[:, 1]))
        assert mcnemar_power(effect, share * n, n)[0] == pytest.approx(power, abs=0.02)


def test_the_minimum_detectable_effect_of_common_test_sets():
    effects = 100 * minimum_detectable_effect([487, 156], [4869, 520])
    normal = 280.16 * np.sqrt([0.1 / 4869, 0.3 / 520])  # Connor 1987, without its last term
    np.testing.assert_allclose(normal, [1.27, 6.73], atol=0.01)
    assert ((effects > normal) & (effects < 1.03 * normal)).all()


def right_on_first(frame, number):
    """Return predictions that are right on the first items alone."""
    right = np.arange(len(frame)) < number
    words, ranks = frame["answer"].where(right, "unheard"), np.where(right, 1, 2)
    return frame.assign(prediction=words, correct=right, p_correct=right.astype(float), rank=ranks)


def test_a_comparison_says_what_it_could_find():
    a, b = pair()
    found, alone = significance(a, b), significance(a[:8], b[:8], **QUICK)
    [wanted] = minimum_detectable_effect(found.n_only_a + found.n_only_b, 400)
    assert found.mde == wanted > 0.05
    assert abs(found.difference) < found.mde
    assert f"smallest detectable difference {100 * found.mde:.1f} points)" in str(found)
    assert np.isnan(alone.mde) == (exact_power(1, alone.n_only_a + alone.n_only_b, 8, 0.05) < 0.8)
    few = significance(*[right_on_first(frame[:50], last) for frame, last in ((a, 10), (b, 5))])
    assert few.mde == pytest.approx(0.1535, abs=1e-4)
    assert np.isnan(significance(a[:5], b[:5], **QUICK).mde)
    assert np.isnan(significance(a, b.assign(variant="capitalised"), **QUICK).mde)
    assert significance(a, b, level=0.99, **QUICK).mde > found.mde


@pytest.mark.parametrize("books", [9, 40])
def test_the_minimum_detectable_effect_by_novel_is_of_the_standard_error_of_novels(books):
    a, b = pair(books=books)
    found = significance(a, b)
    steps = a["correct"].astype(int) - b["correct"].astype(int)
    sums, sizes = steps.groupby(a["book_id"]).sum(), steps.groupby(a["book_id"]).size()
    number = sizes.sum() ** 2 / (sizes**2).sum()
    squares = ((sums - steps.mean() * sizes) ** 2).sum() * number / (number - 1)
    if books == 9:
        assert np.isnan(found.mde)
    else:
        t = [stats.t.ppf(q, number - 1) for q in (0.975, 0.8)]
        assert found.mde == pytest.approx(sum(t) * np.sqrt(squares) / 400, rel=0.03)


@pytest.mark.parametrize("sizes", [[50] * 10, [20 * k for k in range(1, 13)], [30] * 25])
def test_the_test_by_novel_has_about_the_power_that_is_promised(sizes):
    rng, n = np.random.default_rng(1), sum(sizes)
    units = Units(np.repeat(np.arange(len(sizes)), sizes), len(sizes), "novel")

    def tested(effect):
        discordant = rng.random((400, n)) < 0.25
        steps = np.where(discordant, np.where(rng.random((400, n)) < (1 + effect / 0.25) / 2, 1, -1), 0)
        return accuracy_tests(steps, units, BootstrapSettings(resamples=300))

    effect = np.nanmedian(tested(0).mde)
    found = tested(effect)
    assert 0.68 < ((found.p <= 0.05) & (found.difference > 0)).mean() < 0.9
    assert 0.9 < ((found.low <= effect) & (effect <= found.high)).mean() < 0.995
    np.testing.assert_array_equal((found.low > 0) | (found.high < 0), found.p <= 0.05)


def test_the_interval_by_novel_has_what_the_sign_flip_test_does_not_reject():
    rng = np.random.default_rng(4)
    for number in (5, 6, 9, 12):
        codes = np.repeat(np.arange(number), rng.integers(1, 12, number))
        units, sizes = Units(codes, number, "novel"), np.bincount(codes)
        signs = np.array([[1 if k >> bit & 1 else -1 for bit in range(number)] for k in range(2**number)])
        steps = rng.choice([-1, 0, 1], (6, len(codes)), p=[0.1, 0.5, 0.4])
        for level in (0.8, 0.95):
            found = accuracy_tests(steps, units, BootstrapSettings(level))
            for row, low, high in zip(steps, found.low, found.high, strict=True):
                differences = np.array([low, low - 1e-6, high, high + 1e-6])
                residuals = units.sums(row) - differences[:, None] * sizes
                size = np.abs(residuals.sum(axis=1)) - 1e-9
                p = (np.abs(residuals @ signs.T) >= size[:, None]).mean(axis=1)
                assert (p[[0, 2]] > 1 - level).all()
                assert ((np.abs(differences[1::2]) > 1) | (p[1::2] <= 1 - level)).all()
            np.testing.assert_array_equal((found.low > 0) | (found.high < 0), found.p <= 1 - level + 1e-12)


@pytest.mark.parametrize("novels", [None, 9, 30])
def test_a_difference_mirrors_and_its_interval_agrees_with_p(novels):
    rng, n = np.random.default_rng(2), 90
    codes = np.arange(n) if novels is None else rng.permutation(n) % novels
    units = Units(codes, n if novels is None else novels, "item" if novels is None else "novel")
    steps = rng.choice([-1, 0, 1], (400, n), p=[0.1, 0.7, 0.2]) * (rng.random((400, 1)) < 0.9)
    seeds = Seeds(np.full((400, 2), 3), rng.random((400, 2)) * 1e-3)
    for of in (None, seeds, Seeds(np.tile([3, 1], (400, 1)), np.zeros((400, 2)))):
        found, mirrored = (
            accuracy_tests(values, units, BootstrapSettings(0.9, 200), of) for values in (steps, -steps)
        )
        np.testing.assert_array_equal(found.p, mirrored.p)
        np.testing.assert_array_equal(found.mde, mirrored.mde)
        np.testing.assert_array_equal([found.low, found.high], [-mirrored.high, -mirrored.low])
        np.testing.assert_array_equal((found.low > 0) | (found.high < 0), found.p <= 0.1)


def replicated(accuracies, seed, model, books=None):
    runs = [
        run(made(300, seed=seed + k, right=right, model=model, books=books, oov=0), f"{model}{k}",
            config={"width": 8, "seed": k})
        for k, right in enumerate(accuracies)
    ]  # fmt: skip
    return runs[0] if len(runs) == 1 else replicates(runs)


@pytest.mark.parametrize("books", [None, 15])
def test_seeds_are_tested_by_welchs_t(books):
    accuracies = [0.5, 0.6, 0.55], [0.4, 0.3]
    a, b = replicated(accuracies[0], 1, "a", books), replicated(accuracies[1], 9, "b", books)
    found = significance(a, b)
    right = [np.array([run["correct"] for run in side.replicated], float) for side in (a, b)]
    apart = right[0].mean(axis=0) - right[1].mean(axis=0)
    if books:
        novel = pd.Series(apart).groupby(a.pooled["book_id"].to_numpy()).mean()  # of equal size
        parts, df = [novel.var() / books], [books - 1]
    else:
        parts, df = [apart.var(ddof=1) / 300], [299]
    parts += [values.mean(axis=1).var(ddof=1) / len(values) for values in right]
    df += [2, 1]
    freedom = sum(parts) ** 2 / sum(part**2 / k for part, k in zip(parts, df, strict=True))
    error = np.sqrt(sum(parts))
    assert found.p_value == pytest.approx(2 * stats.t.sf(abs(apart.mean()) / error, freedom))
    assert found.interval == pytest.approx(stats.t.interval(0.95, freedom, apart.mean(), error))
    true = error / np.sqrt(stats.chi2.median(freedom) / freedom)  # estimates are below it in half of cases
    critical = stats.t.ppf(0.975, freedom)
    assert stats.nct.sf(critical, freedom, found.mde / true) == pytest.approx(0.8, abs=1e-6)
    assert found.test == f"Welch t test by {'novel' if books else 'item'} and seed"
    assert found.log_prob_p_value is found.log_prob_interval is None


def test_one_seed_is_tested_by_item_and_another_training_may_differ():
    one, several = replicated([0.5], 1, "one"), replicated([0.4, 0.5, 0.45], 9, "several")
    found = significance(several, one)
    assert found.test == "paired sign-flip test by item, exact"
    [note] = [note for note in found.notes if "another seed may differ" in note]
    assert note.endswith(": “several”, “one”.")
    untrained = run(made(300, seed=5, right=0.4, model="5-gram", oov=0), "ngram", config={"order": 5})
    notes = " ".join(significance(one, untrained).notes)
    assert "another seed may differ: “one”." in notes
    assert "training" not in " ".join(significance(untrained, made(300, model="x", oov=0)).notes)


@pytest.mark.parametrize("seeds", [(2, 2), (3, 3), (2, 5)])
def test_equal_methods_of_several_seeds_seldom_differ(seeds):
    rng, n, draws = np.random.default_rng(0), 1000, 250
    scale, units = np.lcm(*seeds), Units(np.arange(n), n, "item")
    steps, variances = np.empty((draws, n), dtype=np.int64), np.empty((draws, 2))
    for k in range(draws):
        difficulty = rng.normal(0, 1.5, n)
        right = [
            rng.random((number, n)) < 1 / (1 + np.exp(-difficulty - rng.normal(0, 0.1, (number, 1))))
            for number in seeds
        ]
        means = [scale // len(values) * values.sum(axis=0) for values in right]
        steps[k] = means[0] - means[1]
        variances[k] = [values.mean(axis=1).var(ddof=1) / len(values) for values in right]
    found = accuracy_tests(steps, units, BootstrapSettings(), Seeds(np.tile(seeds, (draws, 1)), variances))
    assert (found.p <= 0.05).mean() < 0.12
    singles = accuracy_tests(
        steps, units, BootstrapSettings(resamples=100), Seeds(np.tile([scale, 1], (draws, 1)), 0 * variances)
    )
    assert (singles.p <= 0.05).mean() > 0.12
