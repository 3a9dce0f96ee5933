"""Batches that fit into memory."""

import threading

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from workbench.models.device_memory import Batcher
from workbench.storage.errors import DataError

CUDA = "CUDA out of memory. Tried to allocate 2.00 GiB."


ROWS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)))


@given(ROWS, st.integers(1, 60), st.integers(1, 20), st.integers(1, 5))
def test_each_row_once_longest_first_within_the_limits(rows, tokens, positions, most):
    lengths, asked = [row[0] for row in rows], [row[1] for row in rows]
    batcher = Batcher(tokens, rows=most, positions=positions)
    batches = [part for part, _ in batcher.run(lengths, list, positions=asked)]
    order = [row for part in batches for row in part]
    assert order == sorted(range(len(rows)), key=lambda row: -lengths[row])  # stable
    for part in batches:
        within = len(part) * lengths[part[0]] <= tokens and sum(asked[row] for row in part) <= positions
        assert len(part) == 1 or (within and len(part) <= most)


@pytest.fixture(params=[1, 3])
def threads(request, monkeypatch):
    """Let torch have some threads, and tell what it is set to afterwards."""
    before, torch_threads = torch.get_num_threads(), [request.param]
    monkeypatch.setattr(torch, "get_num_threads", lambda: request.param)
    monkeypatch.setattr(torch, "set_num_threads", torch_threads.append)
    yield request.param
    assert torch_threads[-1] == request.param
    monkeypatch.undo()
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("error", [torch.OutOfMemoryError(), RuntimeError(CUDA)])
@pytest.mark.parametrize("factor", [1, 2])
def test_running_out_of_memory_halves_this_batch_and_those_after_it(error, factor):
    sizes = []

    def work(rows):
        sizes.append(len(rows))
        if len(rows) > 3:
            raise error
        return [5 * row for row in rows]

    batcher = Batcher(60, rows=16)
    batches = list(batcher.run([5] * 20, work, factor=factor))
    assert [pair for part in batches for pair in zip(*part, strict=True)] == [(n, 5 * n) for n in range(20)]
    assert sizes[:2] in ([12, 6], [16, 8])
    assert max(sizes[3:]) <= 3
    later = [len(rows) for rows, _ in batcher.run([5] * 6, work, factor=factor)]
    assert max(later) <= 3


def test_batches_at_once_come_in_turn_each_row_once_and_smaller_where_memory_runs_out(threads):
    together, barrier = set(), threading.Barrier(threads)

    def work(rows):
        together.add(threading.get_ident())
        if len(rows) > 3:
            barrier.wait(60)  # a batch waits for as many others as there are threads
            raise MemoryError
        return [5 * row for row in rows]

    batches = list(Batcher(20, concurrent=True).run([5] * 30, work))
    assert [pair for part in batches for pair in zip(*part, strict=True)] == [(n, 5 * n) for n in range(30)]
    assert {len(rows) for rows, _ in batches} == {2}
    assert len(together) == threads


@pytest.mark.parametrize(("cause", "error"), [(CUDA, DataError), ("another cause", RuntimeError)])
def test_what_does_not_fit_alone_or_has_another_cause_is_an_error(cause, error):
    def work(_rows):
        raise RuntimeError(cause)

    with pytest.raises(error):
        list(Batcher(100).run([7, 3], work))
