"""Copies mixed into what a softmax says, and ranks counted in it: against plain sums and loops."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.models.neural.networks.words import Copies, alone, mixed, of_targets

torch.set_num_threads(1)
ROW = st.lists(st.sampled_from([-3.0, -2.0, -1.5, -1.0]), min_size=6, max_size=6)


@st.composite
def copies(draw):
    rows, time, n_words = draw(st.integers(1, 4)), draw(st.integers(0, 7)), draw(st.integers(2, 6))
    ids = draw(st.lists(st.integers(0, n_words + 3), min_size=rows * time, max_size=rows * time))
    shares = draw(
        st.lists(st.sampled_from([0.0, 0.1, 0.25, 1.0]), min_size=rows * time, max_size=rows * time)
    )
    copy = torch.tensor(shares, dtype=torch.float64).view(rows, time)
    ids = torch.tensor(ids, dtype=torch.int64).view(rows, time)
    copy = torch.where(ids > 0, copy, 0)
    total = copy.sum(1, keepdim=True)
    copy = torch.where(total > 0, copy / total.clamp_min(1e-9) * 0.5, 0)
    keep = torch.log1p(-copy.sum(1))
    values = torch.randn(rows, n_words, generator=torch.Generator().manual_seed(rows)).double().log_softmax(1)
    return values, Copies(ids, copy, keep)


@settings(deadline=None, max_examples=60)
@given(copies(), st.sampled_from([0.0, math.log(3)]))
def test_copies_are_mixed_in_as_the_sum_says(made, share):
    values, some = made
    rows, n_words = values.shape
    got = mixed(values, some, share)
    for row in range(rows):
        keep, places = (
            math.exp(some.keep[row]),
            list(zip(some.ids[row].tolist(), some.copy[row].tolist(), strict=True)),
        )
        p = values[row].exp() * keep
        wanted = [p[word] + sum(c for number, c in places if number == word) for word in range(1, n_words)]
        np.testing.assert_allclose(got.values[row, 1:n_words].exp(), wanted, rtol=1e-9)
        assert got.values[row, 0] == -torch.inf
        far = {number for number, c in places if number >= n_words and c}
        held = got.ids[row][got.ids[row] >= 0].tolist()
        assert sorted(far) == sorted(held)
        for column, number in enumerate(got.ids[row].tolist()):
            value = got.values[row, n_words + column]
            if number < 0:
                assert value == -torch.inf
                continue
            copied = sum(c for other, c in places if other == number)
            assert value.exp().item() == pytest.approx(p[0].item() * math.exp(-share) + copied)
            targets = torch.tensor([[number]])
            one = of_targets(
                values[row : row + 1, :1], targets, n_words, share, Copies(*(x[row : row + 1] for x in some))
            )
            assert one.item() == pytest.approx(value.item())
        if share == 0 and not far and 0 not in some.ids[row]:
            assert got.values[row].exp().sum() + p[0] == pytest.approx(1)


@settings(deadline=None, max_examples=60)
@given(st.lists(ROW, min_size=1, max_size=5), st.integers(0, 7), st.integers(-1, 5))
def test_ranks_and_best_words_are_counted(rows, k, wanted):
    values = torch.tensor(rows)
    log_prob, counts, places, best = alone(values, 0.0).ranked(torch.full((len(rows),), wanted), k)
    for row, own in enumerate(rows):
        order = sorted(range(1, 6), key=lambda place: (-own[place], place))[:k]
        assert places[row].tolist() == order
        assert best[row].tolist() == [own[place] for place in order]
        if wanted <= 0:
            assert counts[row].tolist() == [0, 0]
            assert math.isnan(log_prob[row]) if wanted < 0 else log_prob[row] == own[0]
        else:
            above = sum(value > own[wanted] for value in own[1:])
            assert counts[row].tolist() == [above + 1, own[1:].count(own[wanted])]
            assert log_prob[row] == own[wanted]
