"""Read the output of ``lmplz --intermediate`` into sorted arrays; write its input.

Its n-grams are records of word ids and two floats, in suffix order: by the last word, then by the one
before it. The ids rise with a hash of the words. So it gets short codes in place of words, chosen such
that their hashes rise with our ids: then the n-grams after a context are in our order already.
"""

from __future__ import annotations

import os
import re
from bisect import insort
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.models.ngram.backoff import (
    SHIFT,
    SPECIAL,
    WORD,
    BackOff,
    Keys,
    blocks_of,
    finish_levels,
    level_arrays,
    write_level,
)
from workbench.storage.errors import DataError, reading
from workbench.storage.progress import progress_bar
from workbench.texts.corpus import Corpus

_ROWS = 1 << 20  # n-grams that are read at a time
_TOKENS = 1 << 18  # that are written as text at a time
_LETTERS = np.frombuffer(b"0123456789abcdefghijklmnopqrstuv", np.uint8)
_META = re.compile(r"KenLM intermediate binary file\nCounts((?: \d+)+)\nPayload pb\n")

Places = npt.NDArray[np.uint32]


class Text:
    """A corpus as ``lmplz`` reads it, each word of a vocabulary as its code, all others as one more."""

    def __init__(self, corpus: Corpus, words: Sequence[str]) -> None:
        self._corpus, self.words = corpus, list(words)
        self._codes = _codes(len(self.words))
        index = {word: number for number, word in enumerate(self.words)}
        self._ids = np.array([index.get(word, len(index)) for word in corpus.words])
        self.has_unknown = bool((self._ids == len(index)).any())

    def __len__(self) -> int:
        """Return the number of blocks."""
        return sum(1 for _ in self._cuts())

    def _cuts(self) -> Iterator[tuple[int, int]]:
        """Yield the first sentence of each block, and that after its last one."""
        starts, first = self._corpus.starts, 0
        while first < len(starts) - 1:
            last = int(np.searchsorted(starts, starts[first] + _TOKENS, "right")) - 1
            yield first, max(first + 1, last)
            first = max(first + 1, last)

    def __iter__(self) -> Iterator[bytes]:
        """Yield blocks of sentences, one per line."""
        spaced = np.array([code + b" " for code in self._codes])
        for first, last in self._cuts():
            starts = self._corpus.starts[first : last + 1]
            codes = spaced[self._ids[self._corpus.ids[starts[0] : starts[-1]]]]
            codes.view(np.uint8).reshape(len(codes), -1)[starts[1:] - starts[0] - 1, -1] = ord("\n")
            yield codes.tobytes()

    def lmplz_words(self) -> tuple[list[bytes], npt.NDArray[np.int64]]:
        """Return the words of ``lmplz`` in the order of its ids, and their ids here."""
        n_words = len(self.words)
        codes = self._codes[: n_words + self.has_unknown]
        ids = {code: number if number < n_words else n_words + 1 for number, code in enumerate(codes)}
        ids |= {special.encode(): n_words + number for number, special in enumerate(SPECIAL)}
        for special in (b"<s>", b"</s>"):
            insort(codes, special, key=_hash)
        codes = [b"<unk>", *codes]
        return codes, np.array([ids[code] for code in codes])


def _hash(code: bytes) -> int:
    """Return MurmurHash64A of up to seven bytes (Appleby), by which KenLM sorts words."""
    return int(_hashes(np.array([int.from_bytes(code, "little")], np.uint64), len(code))[0])


def _hashes(numbers: Keys, width: int) -> Keys:
    factor = np.uint64(0xC6A4A7935BD1E995)
    with np.errstate(over="ignore"):
        values = (np.uint64(width) * factor ^ numbers) * factor
        values = (values ^ (values >> np.uint64(47))) * factor
    return values ^ (values >> np.uint64(47))


def _codes(n_words: int) -> list[bytes]:
    """Return codes for words with ascending hashes, and one for unknown words, after that of ``</s>``."""
    numbers = np.arange(4 * n_words + 100)  # 42 % of them come before </s>
    width = -(-len(numbers).bit_length() // 5)
    letters = np.zeros((len(numbers), 8), np.uint8)
    for column in range(width):
        letters[:, column] = _LETTERS[numbers >> (5 * column) & 31]
    hashes = _hashes(letters.view("<u8")[:, 0], width)
    turn = np.argsort(hashes)
    n_before = int(np.searchsorted(hashes[turn], np.uint64(_hash(b"</s>"))))
    chosen = letters[[*turn[:n_words], turn[n_before]], :width]
    return [bytes(code) for code in chosen]


def compile_intermediate(prefix: Path, folder: Path, text: Text) -> BackOff:
    """Read a back-off model that ``lmplz`` wrote of a text into arrays in a folder, the manifest last.

    Each of the files that begin with `prefix` is removed when it was read. DataError if one is missing or
    incomplete, has other words, or is in another order.
    """
    counts = _counts(prefix)
    codes, ids = text.lmplz_words()
    path = _path(prefix, "vocab")
    with _reading(path):
        if path.read_bytes() != b"".join(code + b"\0" for code in codes):
            raise ValueError("the words are not those of the text, or in another order")
    model = _Orders(prefix, ids, text.words)
    counts[0] = len(text.words) + len(SPECIAL)
    sizes = write_level(folder, 1, counts[0], [model.unigrams])
    with progress_bar(sum(counts[1:]), label="sorting", unit="n-grams") as bar:
        for order, count in enumerate(counts[1:], start=2):
            blocks = model.extended(count, last=order == len(counts), bar=bar)
            sizes |= write_level(folder, order, count, blocks)
    arrays = finish_levels(folder, text.words, counts, sizes)
    if model.unseen is not None:
        _add_unseen(arrays, folder, model.unseen)
    return arrays


def _add_unseen(model: BackOff, folder: Path, unseen: float) -> None:
    """Add ``lmplz``'s probability of ``<unk>`` after a context to each listed probability of ``<unk>``.

    The words that no text has are unknown ones too. No other probability changes, so each context sums to 1.
    """
    unknown = model.index["<unk>"]
    for order, level in enumerate(model.levels[1:], start=2):
        for rows in blocks_of(level["key"]):
            indices = rows.start + np.flatnonzero((level["key"][rows] & WORD) == unknown)
            if len(indices):
                logp = np.load(folder / f"logp.{order}.npy", mmap_mode="r+")
                weights = model.state(model.grams(order, indices)[:, :-1]).backoff
                logp[indices] = _sum_of_log10(logp[indices], unseen + np.sum(weights, axis=0, dtype=float))


def _sum_of_log10(first: npt.NDArray[Any], second: Any) -> npt.NDArray[np.float32]:
    return np.asarray(np.log10(10 ** first.astype(float) + 10**second), dtype=np.float32)


def _path(prefix: Path, ending: str) -> Path:
    return prefix.with_name(f"{prefix.name}.{ending}")


def _reading(path: Path) -> AbstractContextManager[None]:
    return reading(path, "this file of lmplz", hint="estimate the model again")


def _counts(prefix: Path) -> list[int]:
    """Return the number of n-grams of each order; DataError unless each has a file of that size."""
    path = _path(prefix, "kenlm_intermediate")
    with _reading(path):
        match = _META.fullmatch(path.read_text("ascii"))
        if match is None:
            raise ValueError("it is incomplete, or of another version")
    counts = [int(count) for count in match[1].split()]
    for order, count in enumerate(counts, start=1):
        path = _path(prefix, str(order))
        with _reading(path):
            if (size := path.stat().st_size) != count * _record(order).itemsize:
                raise ValueError(f"expected {count:,} n-grams, got {size:,} bytes")
    return counts


def _record(order: int) -> np.dtype[Any]:
    return np.dtype([("words", "<u4", (order,)), ("logp", "<f4"), ("backoff", "<f4")])


class _Orders:
    """The orders that were read; a word's id is that of ``lmplz``, an n-gram's place that in its file.

    Attributes
    ----------
    unseen : float or None
        log10 probability of the ``<unk>`` of ``lmplz``, None where the text has no unknown words.
    unigrams : dict of str to array
        The arrays of order 1, in the order of our ids.
    """

    def __init__(self, prefix: Path, ids: npt.NDArray[np.int64], words: Sequence[str]) -> None:
        self._prefix, self._n_ids = prefix, len(ids)
        (grams,) = self._records(1)
        if not np.array_equal(grams["words"][:, 0], np.arange(len(ids))):
            raise self._error(1, "the words are in another order, or some are missing")
        self._n_words = len(words)
        unknown = np.flatnonzero(ids == len(words) + 1)  # that of lmplz, and that of the text if any
        # The first is in no text, and has what interpolation with the uniform distribution gives to it.
        self.unseen = float(grams["logp"][unknown[0]]) if len(unknown) > 1 else None
        if self.unseen is not None:
            grams["logp"][unknown] = _sum_of_log10(grams["logp"][unknown[1]], self.unseen)
        self.unigrams = {name: np.empty(len(words) + len(SPECIAL), "f4") for name in ("logp", "backoff")}
        for name, values in self.unigrams.items():
            values[ids] = grams[name]
        self._ids = ids.astype(np.uint32)
        self._keys = [np.arange(len(ids), dtype=np.uint64)]  # the suffix of each n-gram, and its first word
        self._context = np.zeros(len(ids), np.uint32)  # the place of its first words
        self._logp = grams["logp"].copy()
        self._place = self._ids  # where it is in our order

    def _error(self, order: int, problem: str) -> DataError:
        return DataError(problem, file=_path(self._prefix, str(order)), hint="estimate the model again")

    def _records(self, order: int) -> Iterator[npt.NDArray[Any]]:
        """Yield the n-grams of an order in blocks; remove the file at the end."""
        path = _path(self._prefix, str(order))
        with _reading(path), path.open("rb") as file:
            rows = _ROWS if order > 1 else -1
            while len(records := np.fromfile(file, _record(order), rows)):
                # of few words, a discount may be 0, and nothing is left for the words that did not follow
                weighs = records["backoff"] < np.inf  # false for NaN
                if not (np.isfinite(records["logp"]).all() and weighs.all()):
                    raise ValueError("a log-probability is not a number")
                if records["words"].max() >= self._n_ids:
                    raise ValueError("a word is not in the vocabulary")
                yield records
            path.unlink()

    def extended(self, count: int, *, last: bool, bar: Any) -> Iterator[dict[str, Any]]:
        """Read the n-grams of the next order; yield its arrays in parts."""
        order, size = len(self._keys) + 1, 0 if last else count  # the highest order is not a context
        packed = np.empty(count, np.uint64)  # where its context is in our order, and its own place
        grams = np.empty(count, [("word", "u4"), ("logp", "f4"), ("backoff", "f4"), ("lower", "f4")])
        key, context = np.empty(size, np.uint64), np.empty(size, np.uint32)
        start, before = 0, np.zeros(0, np.uint64)
        for records in self._records(order):
            words, rows = records["words"], slice(start, start + len(records))
            suffix = words[:, -1]
            for column, shorter in zip(range(order - 2, 0, -1), self._keys[1:], strict=True):
                suffix = self._find(shorter, suffix, words[:, column], order)
            contexts = self._find(self._keys[-1], self._context[suffix], words[:, 0], order)
            packed[rows] = _joined(self._place[contexts], np.arange(rows.start, rows.stop))
            keys = np.append(before, _joined(suffix, words[:, 0]))
            if (keys[1:] <= keys[:-1]).any():
                raise self._error(order, "the n-grams are not sorted")
            if not last:
                key[rows], context[rows] = keys[len(before) :], contexts
            grams["word"][rows] = self._ids[words[:, -1]]
            grams["lower"][rows] = self._logp[suffix]
            for name in ("logp", "backoff"):
                grams[name][rows] = records[name]
            start, before = rows.stop, keys[-1:]
            bar.update(len(records))
        if last:
            self._keys.clear()  # memory
        self._keys.append(key)
        self._context, self._logp = context, grams["logp"][:size].copy()
        self._place = np.empty(size, np.uint32)
        packed.sort()
        for rows in blocks_of(packed):
            turn = (packed[rows] & WORD).astype(np.int64)
            if not last:
                self._place[turn] = np.arange(rows.start, rows.stop)
            chosen = grams[turn]
            keys = (packed[rows] & ~WORD) | chosen["word"]
            backoff = None if last else chosen["backoff"]
            yield level_arrays(keys, chosen["logp"], chosen["lower"], backoff, self._n_words)

    def _find(self, key: Keys, high: Places, low: Places, order: int) -> npt.NDArray[np.int64]:
        """Return the indices of keys; DataError where one is missing."""
        wanted = _joined(high, low)
        threads = os.cpu_count() or 1
        with ThreadPoolExecutor(threads) as pool:
            index = np.concatenate(list(pool.map(key.searchsorted, np.array_split(wanted, threads))))
        if (index == len(key)).any() or (key[index] != wanted).any():
            raise self._error(order, "a part of an n-gram is missing in the order below")
        return index


def _joined(high: npt.NDArray[Any], low: npt.NDArray[Any]) -> Keys:
    return (high.astype(np.uint64) << SHIFT) | low.astype(np.uint64)
