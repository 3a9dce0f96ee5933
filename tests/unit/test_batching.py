"""The one batcher: rows longest first, in batches that fit into memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from workbench.items.schema import DataError
from workbench.models.batching import Batcher, is_out_of_memory

CUDA = "CUDA out of memory. Tried to allocate 2.00 GiB."


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9))),
    st.integers(1, 60),
    st.integers(1, 20),
    st.integers(1, 5),
)
def test_each_row_once_longest_first_within_the_limits(rows, tokens, positions, most):
    lengths, asked = [row[0] for row in rows], [row[1] for row in rows]
    batcher = Batcher(tokens, rows=most, positions=positions)
    batches = [part for part, _ in batcher.run(lengths, list, positions=asked)]
    order = [row for part in batches for row in part]
    assert sorted(order) == list(range(len(rows)))
    assert [lengths[row] for row in order] == sorted(lengths, reverse=True)
    for part in batches:
        assert len(part) == 1 or (
            len(part) * lengths[part[0]] <= tokens
            and sum(asked[row] for row in part) <= positions
            and len(part) <= most
        )


@pytest.mark.parametrize("error", [torch.OutOfMemoryError(), RuntimeError(CUDA), MemoryError()])
@pytest.mark.parametrize("factor", [1, 2])
def test_running_out_of_memory_halves_this_batch_and_those_after_it(error, factor):
    lengths, sizes = [5] * 20, []

    def work(rows):
        sizes.append(len(rows))
        if len(rows) > 3:
            raise error
        return [lengths[row] * row for row in rows]

    batcher = Batcher(60, rows=16)
    results = {}
    for rows, values in batcher.run(lengths, work, factor=factor):
        results |= dict(zip(rows, values, strict=True))
    assert results == {row: 5 * row for row in range(20)}
    assert sizes[:2] in ([12, 6], [16, 8])
    assert max(sizes[3:]) <= 3
    assert batcher.tokens < 60
    later = [len(rows) for rows, _ in batcher.run([5] * 6, work, factor=factor)]
    assert max(later) <= 3


def test_what_does_not_fit_alone_or_has_another_cause_is_an_error():
    def work(_rows):
        raise RuntimeError(CUDA)

    with pytest.raises(DataError, match="7 tokens"):
        list(Batcher(100).run([7, 3], work))
    with pytest.raises(RuntimeError, match="another cause"):
        list(Batcher(100).run([7, 3], lambda _rows: (_ for _ in ()).throw(RuntimeError("another cause"))))
    assert not is_out_of_memory(ValueError(CUDA))


def test_rows_of_one_length_keep_their_order():
    parts = [rows for rows, _ in Batcher(4).run(np.ones(10, dtype=int), list)]
    assert parts == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
