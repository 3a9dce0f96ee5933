"""The bins against a slow loop with exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.analysis.binning import even_bins, open_bins, quantile_bins, whole_bins

WHOLE = st.lists(st.integers(-50, 3000), min_size=1, max_size=60)


def test_places_by_hand():
    bins = even_bins(0, 12, 3)
    assert bins.edges.tolist() == [0, 4, 8, 12]
    assert bins.bin_index([0, 3.9, 4, 12, 12.1, -1, np.nan, np.inf]).tolist() == [0, 0, 1, 2, -1, -1, -1, -1]
    assert bins.count([0, 3.9, 4, 12, np.nan]).tolist() == [2, 1, 1]


@given(WHOLE)
def test_whole_bins_hold_every_value_in_bins_of_equal_width(values):
    bins = whole_bins(values)
    counts = bins.count(values).tolist()
    for start, count in zip(bins.starts.tolist(), counts, strict=True):
        assert count == sum(start <= value < start + bins.width for value in values)
    assert sum(counts) == len(values)
    assert (bins.starts[0] - 1) % bins.width == 0
    assert whole_bins(values, first=-60, width=7).edges[:2].tolist() == [-60, -53]


@pytest.mark.parametrize(
    ("values", "first", "width", "n", "is_open"),
    [(range(3, 13), 3, 1, 10, False), (range(80), 0, 2, 40, False), ([*range(200), 5000], 0, 5, 40, True)],
)
def test_open_bins_are_round_and_few_far_values_share_the_last(values, first, width, n, is_open):
    bins = open_bins(list(values))
    assert (bins.starts[0], bins.width, len(bins.starts), bins.open) == (first, width, n, is_open)
    assert bins.count(list(values)).sum() == len(values)


@given(WHOLE, st.integers(1, 30))
def test_even_bins_are_exact_for_whole_numbers(values, n):
    low, high = min(values), max(*values, min(values) + 1)
    exact = [min(n - 1, int(Fraction(n * (value - low), high - low))) for value in values]
    assert even_bins(low, high, n).bin_index(values).tolist() == exact


def test_even_bins_of_the_widest_range():
    assert even_bins(-1e308, 1e308, 4).count([-1e308, 0, 1e308]).tolist() == [1, 0, 1, 1]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60))
def test_quantile_bins_hold_all_values(values):
    bins = quantile_bins(values)
    assert bins.count([*values, np.inf, -np.inf]).sum() == len(values) + 2


def test_quantile_bins_are_readable():
    assert quantile_bins(range(1, 101)).edges.tolist() == [-np.inf, 20, 40, 60, 80, np.inf]
    assert quantile_bins([0.013 * n for n in range(1, 101)], 2).edges[1] == pytest.approx(0.6)
