"""Batches of a stream: what each step holds, and that nothing but the step decides it."""

import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from workbench.items.schema import DataError
from workbench.texts.batches import ContiguousBatches, Windows
from workbench.texts.corpus import Corpus
from workbench.texts.passages import Passages, permuted
from workbench.texts.stream import Stream

ROOT = Path(__file__).parents[2]
SHAPE = st.tuples(st.integers(1, 7), st.integers(1, 9), st.integers(0, 60))  # rows, length, words more


@dataclass
class Text:
    text: str
    book_id: str
    title: str | None = None
    tokenised: bool = True


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="module")
def counting():
    """Give a text in which the word at place i has the id i + 1."""
    words = [f"w{i:03}" for i in range(400)]
    return Stream.of(Corpus.of([" ".join(words)], progress=False), words)


@pytest.fixture(scope="module")
def novels():
    return Stream.of(Corpus.of(list(wb.books("sample")), progress=False), 2000)


def same(one, two):
    return one.keys() == two.keys() and all(np.array_equal(one[name], two[name]) for name in one)


@given(shape=SHAPE, start=st.integers(0, 20))
def test_lanes_are_the_text_once(counting, shape, start):
    rows, length, more = shape
    words = rows * length + 1 + more
    lanes = ContiguousBatches(counting, rows=rows, length=length, start=start, stop=start + words)
    assert lanes.carried
    assert lanes.tokens == rows * length
    assert words - 1 - lanes.steps * lanes.tokens in range(lanes.tokens)
    for epoch in range(rows + 1):
        read = [lanes.batch(epoch * lanes.steps + step)["ids"] for step in range(lanes.steps)]
        assert all(ids.shape == (rows, length + 1) and ids.dtype == np.int64 for ids in read)
        lines = np.concatenate([ids[:, :-1] for ids in read], axis=1)  # (rows, steps * length)
        first = start + 1
        whole = np.roll(lines, epoch, axis=0).ravel()  # row 0 reads the lane number `epoch`
        assert whole.tolist() == list(range(first, first + lanes.steps * lanes.tokens))
        assert all((ids[:, 1:] == ids[:, :-1] + 1).all() for ids in read)


@given(shape=SHAPE)
def test_a_lane_goes_on_where_it_stopped(counting, shape):
    rows, length, more = shape
    lanes = ContiguousBatches(counting, rows=rows, length=length, stop=rows * length + 1 + more)
    for step in range(2 * lanes.steps):
        before, after = (lanes.batch(at)["ids"] for at in (step, step + 1))
        broken = np.flatnonzero(after[:, 0] != before[:, -1])
        assert len(broken) == (step % lanes.steps == lanes.steps - 1)  # one row is through with the text
        assert (after[broken, 0] == 1).all()


@given(shape=SHAPE, start=st.integers(0, 20), seed=st.integers(0, 5))
def test_windows_cover_each_word_at_most_once(counting, shape, start, seed):
    rows, length, more = shape
    words = rows * length + 1 + more
    windows = Windows(counting, rows=rows, length=length, seed=seed, start=start, stop=start + words)
    assert not windows.carried
    for epoch in range(3):
        read = [windows.batch(epoch * windows.steps + step)["ids"] for step in range(windows.steps)]
        assert all(ids.shape == (rows, length + 1) and (np.diff(ids) == 1).all() for ids in read)
        predicted = np.concatenate([ids[:, 1:].ravel() for ids in read])
        assert len(np.unique(predicted)) == len(predicted) == windows.steps * windows.tokens
        assert predicted.min() >= start + 2
        assert predicted.max() <= start + words
        assert words - 1 - len(predicted) < (rows + 1) * length


def test_windows_are_cut_and_shuffled_anew_in_each_epoch(counting):
    windows = Windows(counting, rows=3, length=10, seed=1)
    epochs = [
        [windows.batch(e * windows.steps + s)["ids"][:, 0] for s in range(windows.steps)] for e in range(8)
    ]
    orders = [np.concatenate(firsts) for firsts in epochs]
    assert all((np.diff(order) < 0).any() for order in orders)
    cuts = [set((order % 10).tolist()) for order in orders]
    assert all(len(cut) == 1 for cut in cuts)
    assert len(set.union(*cuts)) > 3
    other = Windows(counting, rows=3, length=10, seed=2)
    assert not same(other.batch(0), windows.batch(0))


@pytest.mark.parametrize("kind", [ContiguousBatches, Windows, Passages])
@pytest.mark.parametrize("step", [0, 3, 1000])
def test_some_rows_are_those_of_the_whole(novels, kind, step):
    shape = {"number": 70} if kind is Passages else {"length": 12}
    batches = kind(novels, rows=9, **shape)
    whole = batches.batch(step)
    for part in (slice(0, 4), slice(4, 9), slice(8, 9), slice(1, None, 2)):
        assert same(batches.batch(step, part), {name: array[part] for name, array in whole.items()})


def test_a_step_is_the_same_in_a_new_process_where_little_is_installed(novels, tmp_path):
    away = novels.copy(tmp_path / "stream")
    calls = (
        "ContiguousBatches(s, rows=5, length=7)",
        "Windows(s, rows=5, length=7, seed=3)",
        "Passages(s, rows=5, number=20)",
    )
    program = f"""
import sys
for name in ("spacy", "IPython", "ipywidgets", "tqdm", "distributed", "gensim", "sklearn", "scipy"):
    sys.modules[name] = None
from workbench.texts.stream import Stream
from workbench.texts.batches import ContiguousBatches, Windows
from workbench.texts.passages import Passages
s = Stream.open({str(away.folder)!r})
for each in ({", ".join(calls)}):
    print({{name: array.tolist() for name, array in each.batch(2345).items()}})
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    mine = [
        ContiguousBatches(novels, rows=5, length=7),
        Windows(novels, rows=5, length=7, seed=3),
        Passages(novels, rows=5, number=20),
    ]
    said = [str({name: array.tolist() for name, array in each.batch(2345).items()}) for each in mine]
    assert done.stdout.splitlines() == said


def test_a_text_that_is_too_short(counting):
    for kind in (ContiguousBatches, Windows):
        assert kind(counting, rows=2, length=5, start=20, stop=31).steps == 1
        with pytest.raises(DataError, match="a text of 10 words gives no 2 rows of 5"):
            kind(counting, rows=2, length=5, start=20, stop=30)
        with pytest.raises(DataError, match="a text of 0 words"):
            kind(counting, rows=2, length=5, start=20, stop=10)
        with pytest.raises(DataError, match="gives no 0 rows"):
            kind(counting, rows=0, length=5)


def passages_by_a_loop(stream, minimum, longest, *, unknown):
    """Yield the first place and the target's place of each passage."""
    ids = stream.read(0, stream.n_tokens).tolist()
    starts = stream.starts.tolist()
    for book in stream.books.itertuples():
        sentences = range(book.first, book.first + book.sentences)
        for number in sentences:
            target = starts[number + 1] - 1
            while target >= starts[number] and not stream.words_like[ids[target]]:
                target -= 1
            context = [s for s in sentences if s < number]
            taken = []
            while context and sum(starts[s + 1] - starts[s] for s in taken) <= minimum:
                taken.append(context.pop())
            if target < starts[number] or sum(starts[s + 1] - starts[s] for s in taken) <= minimum:
                continue
            if target - starts[taken[-1]] > longest or (ids[target] >= stream.n_words and not unknown):
                continue
            yield starts[taken[-1]], target


@pytest.mark.parametrize(
    ("minimum", "longest", "unknown"), [(50, 256, False), (50, 256, True), (0, 20, False), (7, 60, True)]
)
def test_passages_against_a_loop_over_sentences(novels, minimum, longest, unknown):
    expected = sorted(passages_by_a_loop(novels, minimum, longest, unknown=unknown))
    batches = Passages(novels, rows=1, number=1, minimum=minimum, longest=longest, unknown=unknown)
    assert batches.distinct == len(expected) > 100
    drawn = batches.places(np.arange(batches.distinct))
    assert sorted(zip(*(d.tolist() for d in drawn), strict=True)) == expected
    assert drawn[0].tolist() != sorted(drawn[0].tolist())
    again = batches.places(np.arange(batches.distinct, 2 * batches.distinct))
    assert sorted(again[0].tolist()) == sorted(drawn[0].tolist())  # all once more,
    assert again[0].tolist() != drawn[0].tolist()  # in another order


def test_a_batch_holds_its_passages(novels):
    batches = Passages(novels, rows=6, number=40, seed=2, unknown=True)
    assert (batches.carried, batches.steps, batches.tokens) == (False, 6, 6)
    seen = []
    for step in range(6):
        batch = batches.batch(step)
        assert all(array.dtype == np.int64 for array in batch.values())
        assert batch["ids"].shape == (6, batch["lengths"].max())
        first, target = batches.places(np.arange(6 * step, 6 * step + 6))
        for row, (start, stop) in enumerate(zip(first.tolist(), target.tolist(), strict=True)):
            assert batch["lengths"][row] == stop - start
            assert batch["ids"][row, : stop - start].tolist() == novels.read(start, stop).tolist()
            assert not batch["ids"][row, stop - start :].any()
            answer = int(novels.read(stop, stop + 1)[0])
            assert batch["target"][row] == (answer if answer < novels.n_words else 0)
            seen.append((start, stop))
    assert len(set(seen)) == 36
    later = [batches.batch(step) for step in range(6, 12)]
    firsts = {tuple(row[:40]) for batch in later for row in batch["ids"].tolist()}
    mine = {tuple(novels.read(start, start + 40).tolist()) for start, _ in seen}
    assert len(firsts & mine) >= 32  # the same passages of an epoch, but for the rest,
    assert not same(batches.batch(0), later[0])  # in another order


def test_the_shape_of_a_passage():
    lines = ["a b c .", "d e .", "f g h i .", "`` j k ? '' ''", "-- .", "l ! ''"]
    stream = Stream.of(Corpus.of(lines, progress=False), [*list("abcdefghijkl.?!"), "``", "''", "--"])
    word = dict(enumerate(stream.vocabulary, 1))
    batches = Passages(stream, rows=1, number=99, minimum=5)
    found = set()
    for step in range(batches.distinct):
        batch = batches.batch(step)
        found.add((" ".join(word[i] for i in batch["ids"][0].tolist()), word[int(batch["target"][0])]))
    assert found == {
        ("a b c . d e . f g h", "i"),  # 7 tokens before it; 3 are too few
        ("d e . f g h i . `` j", "k"),  # 8: 5 are not more than 5
        ("`` j k ? '' '' -- .", "l"),  # a sentence without a word is context, and never a target
    }


def test_texts_without_a_passage(novels):
    with pytest.raises(DataError, match="holds no sentence that ends in a known word after more than 5,000"):
        Passages(novels, rows=1, number=10, minimum=5000, longest=4000)
    one = Stream.of(Corpus.of(["a b c d"], progress=False), 3)
    with pytest.raises(DataError, match="holds no sentence"):
        Passages(one, rows=1, number=1, minimum=1)
    with pytest.raises(DataError, match="5 passages are no batch of 9"):
        Passages(novels, rows=9, number=5)


def test_the_released_passages_are_of_this_shape(real_data):
    items = wb.load("lambada", "dev", path=real_data)[:200]
    texts = [Text(item.text, item.item_id) for item in items]
    stream = Stream.of(Corpus.of(texts, progress=False), 10**6)
    batches = Passages(stream, rows=1, number=1)
    found = set(
        zip(*(places.tolist() for places in batches.places(np.arange(batches.distinct))), strict=True)
    )
    ends = np.append(stream.starts[stream.books["first"]], stream.n_tokens)
    whole = [(start, stop - 1) in found for start, stop in pairwise(ends.tolist())]
    assert (
        np.mean(whole) > 0.97
    )  # from the first word to the last; the rest have sentences that we cut otherwise


@settings(max_examples=60)
@given(n=st.integers(1, 3000), key=st.tuples(st.integers(0, 9), st.integers(0, 9)))
def test_a_permutation_is_one(n, key):
    order = permuted(np.arange(n), n, key=key)
    assert sorted(order.tolist()) == list(range(n))
    some = np.random.default_rng(0).permutation(n)
    assert permuted(some, n, key=key).tolist() == order[some].tolist()  # each number by itself


def test_a_permutation_is_no_pattern():
    n = 20_000
    order = permuted(np.arange(n), n, key=(0,)) / n
    other = permuted(np.arange(n), n, key=(1,)) / n
    pairs = (
        [order[1:], order[:-1]],
        [order, other],
        [order, np.arange(n) / n],
        [np.diff(order)[1:], np.diff(order)[:-1]],
    )
    far = [abs(np.corrcoef(*pair)[0, 1] - (-0.5 if pair[0].size == n - 2 else 0)) for pair in pairs]
    assert max(far) < 5 / np.sqrt(n)  # five standard errors; differences of chance numbers have -1/2
    cells = np.histogram2d(order, other, bins=10, range=((0, 1), (0, 1)))[0]
    chi = ((cells - n / 100) ** 2 / (n / 100)).sum()
    assert chi < 160  # 99 degrees of freedom: beyond 160 once in 10,000
