"""Wilson's interval, McNemar's test and corrections for many tests, against statsmodels and scipy."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats
from scipy.special import xlogy
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from workbench.analysis.proportions import benjamini_hochberg, holm, mcnemar, paired_interval, wilson

COUNTS = st.integers(0, 400)


@given(st.lists(st.tuples(COUNTS, COUNTS), min_size=1, max_size=8), st.floats(0.5, 0.999))
def test_wilson_is_that_of_statsmodels(pairs, level):
    count, other = np.array(pairs).T
    n = count + other
    low, high = wilson(count, n, level=level)
    assert np.isnan(low[n == 0]).all()
    wanted = proportion_confint(count[n > 0], n[n > 0], alpha=1 - level, method="wilson")
    np.testing.assert_allclose([low[n > 0], high[n > 0]], np.clip(wanted, 0, 1), atol=1e-12)
    one = wilson(int(count[0]), int(n[0]), level=level)
    np.testing.assert_array_equal([one[0][0], one[1][0]], [low[0], high[0]])


@given(st.lists(st.tuples(COUNTS, COUNTS), min_size=1, max_size=8))
def test_mcnemar_is_that_of_statsmodels_and_scipy(pairs):
    p = mcnemar(*np.array(pairs).T)
    exact = [stats.binomtest(a, a + b).pvalue if a + b else 1.0 for a, b in pairs]
    np.testing.assert_allclose(p, exact, rtol=1e-8)
    a, b = pairs[0]
    assert p[0] == pytest.approx(statsmodels_mcnemar([[5, a], [b, 7]], exact=True).pvalue)


def tango(a, b, n):
    """Return Tango's 95 % score interval, the nuisance parameter by numerical maximum likelihood."""

    def score(difference):
        def minus_log_likelihood(q):
            return -xlogy(a, q + difference) - xlogy(b, q) - xlogy(n - a - b, 1 - 2 * q - difference)

        bounds = max(0.0, -difference), (1 - difference) / 2
        q = optimize.minimize_scalar(minus_log_likelihood, bounds=bounds, options={"xatol": 1e-12}).x
        variance = n * (2 * q + difference * (1 - difference))
        return (a - b - n * difference) / np.sqrt(variance)

    z, middle = stats.norm.ppf(0.975), (a - b) / n
    ends = (-1 + 1e-9, middle, z), (middle, 1 - 1e-9, -z)
    return [optimize.brentq(lambda x, z=z: score(x) - z, low, high) for low, high, z in ends]


@pytest.mark.parametrize(("a", "b", "n"), [(0, 0, 20), (1, 0, 44), (12, 2, 50), (5, 0, 50), (60, 41, 300)])
def test_the_paired_interval_is_the_hull_of_tangos_and_clopper_and_pearsons(a, b, n):
    bounds = np.ravel(paired_interval(a, b, n))
    if a + b:
        exact = [(2 * share - 1) * (a + b) / n for share in stats.binomtest(a, a + b).proportion_ci()]
        score = tango(a, b, n)
        assert bounds == pytest.approx([min(exact[0], score[0]), max(exact[1], score[1])], abs=1e-6)
    else:
        assert bounds == pytest.approx(tango(a, b, n), abs=1e-6)


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99, 0.9999])
def test_the_paired_interval_excludes_0_where_mcnemar_is_significant(level):
    a, b = np.array([(k, m - k) for m in range(401) for k in range(m + 1)]).T
    low, high = paired_interval(a, b, 400, level=level)
    np.testing.assert_array_equal((low > 0) | (high < 0), mcnemar(a, b) <= 1 - level)
    mirrored = paired_interval(b, a, 400, level=level)
    np.testing.assert_array_equal([low, high], [-mirrored[1], -mirrored[0]])


@pytest.mark.parametrize(("n", "share", "difference"), [(20, 0.05, 0), (50, 0.05, 0.02), (50, 0.05, 0.05)])
def test_the_paired_interval_covers_the_difference_of_few_discordant_items(n, share, difference):
    covered = 0.0
    for m in range(n + 1):
        only_a = np.arange(m + 1)
        low, high = paired_interval(only_a, m - only_a, n)
        p = stats.binom.pmf(m, n, share) * stats.binom.pmf(only_a, m, (1 + difference / share) / 2)
        covered += p[(low <= difference) & (difference <= high)].sum()
    assert 0.945 < covered <= 1 + 1e-9


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.integers(0, 2))
def test_corrections_are_those_of_statsmodels(values, missing):
    for correct, method in ((holm, "holm"), (benjamini_hochberg, "fdr_bh")):
        corrected = correct([np.nan] * missing + values)
        with mock.patch("gc.collect"):  # statsmodels collects garbage each time, which takes half a second
            wanted = multipletests(values, method=method)[1]
        assert corrected[missing:] == pytest.approx(wanted)
        assert np.isnan(corrected[:missing]).all()
