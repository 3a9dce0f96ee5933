"""Wilson's interval, McNemar's test and corrections for many tests, against statsmodels and scipy."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from workbench.analysis.proportions import benjamini_hochberg, holm, mcnemar, wilson

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


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.integers(0, 2))
def test_corrections_are_those_of_statsmodels(values, missing):
    for correct, method in ((holm, "holm"), (benjamini_hochberg, "fdr_bh")):
        corrected = correct([np.nan] * missing + values)
        with mock.patch("gc.collect"):  # statsmodels collects garbage each time, which takes half a second
            wanted = multipletests(values, method=method)[1]
        assert corrected[missing:] == pytest.approx(wanted)
        assert np.isnan(corrected[:missing]).all()
