"""Batches of a stream: what each step holds, and that nothing but the step decides it."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused

import workbench as wb
from workbench.storage.errors import DataError
from workbench.texts.batches import ContiguousBatches, EncodedText, PassageBatches, ShuffledBatches, permuted
from workbench.texts.corpus import Corpus

pytestmark = pytest.mark.usefixtures("module_home")

SHAPE = st.tuples(st.integers(1, 7), st.integers(1, 9), st.integers(0, 60))  # rows, length, words over


def counting(n_tokens):
    """Return a text in which the word at place i has the id i + 1."""
    return SimpleNamespace(n_tokens=n_tokens, at=lambda places: np.arange(1, n_tokens + 1)[places])


@pytest.fixture(scope="module")
def novels():
    return EncodedText(Corpus.of(list(wb.books("sample"))), 2000)


def same(one, two):
    return one.keys() == two.keys() and all(np.array_equal(one[name], two[name]) for name in one)


@given(shape=SHAPE)
def test_contiguous_batches_are_the_text_once_and_go_on_where_they_stopped(shape):
    rows, length, extra = shape
    words = rows * length + 1 + extra
    batches = ContiguousBatches(counting(words), rows=rows, length=length)
    assert (batches.carried, batches.tokens) == (True, rows * length)
    assert words - 1 - batches.steps * batches.tokens in range(batches.tokens)
    for epoch in range(rows + 1):
        steps = range(epoch * batches.steps, (epoch + 1) * batches.steps)
        read = [batches.batch(step)["ids"] for step in steps]
        assert all(ids.shape == (rows, length + 1) and ids.dtype == np.int64 for ids in read)
        lines = np.concatenate([ids[:, :-1] for ids in read], axis=1)  # (rows, steps * length)
        text = np.roll(lines, epoch, axis=0).ravel()  # row 0 reads the part number `epoch`
        assert text.tolist() == list(range(1, 1 + batches.steps * batches.tokens))
        assert all((np.diff(ids) == 1).all() for ids in read)
        assert all((one[:, -1] == other[:, 0]).all() for one, other in pairwise(read))
        jumped = batches.batch(steps.stop)["ids"][:, 0] != read[-1][:, -1]
        assert jumped.sum() == 1  # one row is at the end of the text
        assert batches.batch(steps.stop)["ids"][jumped, 0] == 1


@given(shape=SHAPE, seed=st.integers(0, 5))
def test_windows_cover_each_word_at_most_once(shape, seed):
    rows, length, extra = shape
    words = rows * length + 1 + extra
    windows = ShuffledBatches(counting(words), rows=rows, length=length, seed=seed)
    assert not windows.carried
    for epoch in range(3):
        read = [windows.batch(epoch * windows.steps + step)["ids"] for step in range(windows.steps)]
        assert all(ids.shape == (rows, length + 1) and (np.diff(ids) == 1).all() for ids in read)
        predicted = np.concatenate([ids[:, 1:].ravel() for ids in read])
        assert len(np.unique(predicted)) == len(predicted) == windows.steps * windows.tokens
        assert 2 <= predicted.min() <= predicted.max() <= words
        assert words - 1 - len(predicted) < (rows + 1) * length


def test_windows_are_cut_and_shuffled_anew_in_each_epoch():
    windows = ShuffledBatches(counting(400), rows=3, length=10, seed=1)
    firsts = [windows.batch(step)["ids"][:, 0] for step in range(8 * windows.steps)]
    orders = np.concatenate(firsts).reshape(8, -1)  # (epochs, windows)
    assert (np.diff(orders) < 0).any(axis=1).all()
    cuts = orders % 10
    assert (cuts == cuts[:, :1]).all()
    assert len(np.unique(cuts)) > 3
    other = ShuffledBatches(counting(400), rows=3, length=10, seed=2)
    assert not same(other.batch(0), windows.batch(0))


@pytest.mark.parametrize("kind", [ContiguousBatches, ShuffledBatches, PassageBatches])
@pytest.mark.parametrize("step", [0, 3, 1000])
def test_a_part_of_the_rows_is_that_of_the_whole_batch(novels, kind, step):
    shape = {"number": 70} if kind is PassageBatches else {"length": 12}
    batches = kind(novels, rows=9, **shape)
    expected = batches.batch(step)
    for part in (slice(0, 4), slice(4, 9), slice(8, 9), slice(1, None, 2)):
        assert same(batches.batch(step, part), {name: array[part] for name, array in expected.items()})


@pytest.mark.parametrize("kind", [ContiguousBatches, ShuffledBatches])
def test_a_text_that_is_too_short(kind):
    assert kind(counting(11), rows=2, length=5).steps == 1
    for words, rows in ((10, 2), (0, 2), (99, 0)):
        with pytest.raises(DataError):
            kind(counting(words), rows=rows, length=5)


def passages_by_a_loop(stream, minimum, longest):
    """Yield the first place and the target's place of each passage."""
    ids = stream.at(slice(None)).tolist()
    starts = stream.starts.tolist()
    for book in stream.books.itertuples():
        sentences = range(book.first, book.first + book.sentences)
        for number in sentences:
            target = starts[number + 1] - 1
            while target >= starts[number] and not stream.is_word[ids[target]]:
                target -= 1
            first = number
            while first > book.first and starts[number] - starts[first] <= minimum:
                first -= 1
            if target < starts[number] or starts[number] - starts[first] <= minimum:
                continue
            if target - starts[first] <= longest and ids[target] < stream.n_words:
                yield starts[first], target


@pytest.mark.parametrize(("minimum", "longest"), [(50, 256), (0, 20), (7, 60)])
def test_passages_against_a_loop_over_sentences(novels, minimum, longest, monkeypatch):
    monkeypatch.setattr("workbench.texts.batches._LONGEST", longest)
    expected = sorted(passages_by_a_loop(novels, minimum, longest))
    batches = PassageBatches(novels, rows=1, number=1, minimum=minimum)
    assert batches.distinct == len(expected) > 100
    drawn = batches.places(np.arange(batches.distinct))
    assert sorted(zip(*(d.tolist() for d in drawn), strict=True)) == expected
    assert drawn[0].tolist() != sorted(drawn[0].tolist())
    again = batches.places(np.arange(batches.distinct, 2 * batches.distinct))
    assert sorted(again[0].tolist()) == sorted(drawn[0].tolist())  # all once more,
    assert again[0].tolist() != drawn[0].tolist()  # in another order


def test_a_batch_holds_its_passages(novels):
    batches = PassageBatches(novels, rows=6, number=40, seed=2)
    assert (batches.carried, batches.steps, batches.tokens) == (False, 6, 6)
    seen = []
    for step in range(6):
        batch = batches.batch(step)
        assert all(array.dtype == np.int64 for array in batch.values())
        assert batch["ids"].shape == (6, batch["lengths"].max())
        first, target = batches.places(np.arange(6 * step, 6 * step + 6))
        for row, (start, stop) in enumerate(zip(first.tolist(), target.tolist(), strict=True)):
            assert batch["lengths"][row] == stop - start
            assert batch["ids"][row, : stop - start].tolist() == novels.at(slice(start, stop)).tolist()
            assert not batch["ids"][row, stop - start :].any()
            assert batch["target"][row] == novels.at(slice(stop, stop + 1))[0] < novels.n_words
            seen.append((start, stop))
    assert len(set(seen)) == 36
    later = [tuple(row[:40]) for step in range(6, 12) for row in batches.batch(step)["ids"].tolist()]
    before = [tuple(novels.at(slice(start, start + 40)).tolist()) for start, _ in seen]
    assert len({*later} & {*before}) >= 32  # the same passages of an epoch, but for the rest,
    assert later != before  # in another order


def test_texts_without_a_passage(novels):
    short = EncodedText(Corpus.of(["a b c d"]), 3)
    for stream, minimum, rows in (
        (novels, 5000, 1),
        (short, 1, 1),
        (novels, 50, 9),
    ):
        refused(PassageBatches, stream, rows=rows, number=5, minimum=minimum)


@settings(max_examples=60)
@given(n=st.integers(1, 3000), key=st.tuples(st.integers(0, 9), st.integers(0, 9)))
def test_a_permutation_is_one(n, key):
    order = permuted(np.arange(n), n, key=key)
    assert sorted(order.tolist()) == list(range(n))
    numbers = np.random.default_rng(0).permutation(n)
    assert permuted(numbers, n, key=key).tolist() == order[numbers].tolist()  # each number by itself


def test_a_permutation_is_no_pattern():
    n = 20_000
    order = permuted(np.arange(n), n, key=(0,)) / n
    other = permuted(np.arange(n), n, key=(1,)) / n
    pairs = [order[1:], order[:-1]], [order, other], [order, np.arange(n)], np.diff([order[1:], order[:-1]])
    far = [abs(np.corrcoef(*pair)[0, 1] + 0.5 * (pair[0].size == n - 2)) for pair in pairs]
    assert max(far) < 5 / np.sqrt(n)  # five standard errors; differences of chance numbers have -1/2
    cells = np.histogram2d(order, other, bins=10, range=((0, 1), (0, 1)))[0]
    chi = ((cells - n / 100) ** 2 / (n / 100)).sum()
    assert chi < 160  # 99 degrees of freedom: beyond 160 once in 10,000
