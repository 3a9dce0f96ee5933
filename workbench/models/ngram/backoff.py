"""A back-off n-gram model as arrays: log-probabilities, exact ranks and the best words of many contexts.

Words that are not listed after a context have their probabilities after the shorter context, scaled by a
back-off weight (Katz 1987; interpolated Kneser-Ney has the same form, Chen and Goodman 1999). So the words
above a value are those of the shorter context, without those listed, plus those listed: binary searches.
Sums are in single precision and in KenLM's order, so that ties and ranks are KenLM's.

On disk, an n-gram of order j is a row of ``key.j``: the place of its first j - 1 words in the order below,
and its last word. Rows are sorted, so the words that follow a context lie side by side.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from workbench.storage.errors import reading
from workbench.storage.files import read_json, write_atomic

MANIFEST = "backoff.json"
SPECIAL = ("</s>", "<unk>", "<s>")
"""They have the ids after the last word, and are not ranked."""

Ids = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]
Singles = npt.NDArray[np.float32]
SHIFT, WORD = np.uint64(32), np.uint64(2**32 - 1)
"""A key is ``context << SHIFT | word``; ``key & WORD`` is the last word."""

_HINT = "remove the folder and fit again"
_ROWS = 1 << 20  # n-grams that are sorted at a time


class BackOffState(NamedTuple):
    """Lookup of `n` contexts, for each length 1, 2, ... of their last words.

    Attributes
    ----------
    nodes : list of array (n,)
        The place of these words among the n-grams of their order; -1 where they are not listed.
    backoff : list of array (n,)
        Their back-off weights (log10); 0 where they are not listed.
    """

    nodes: list[Ids]
    backoff: list[Singles]


class BackOff:
    """A back-off model.

    Parameters
    ----------
    words : sequence of str
        The vocabulary (ids 0, 1, ...); `SPECIAL` have the ids after it.
    levels : sequence of mappings of arrays
        Arrays of each order, as returned by `level_arrays`.

    Notes
    -----
    Contexts are arrays of word ids (n, length), the last word at the end; -1 on the left
    where a context is shorter.
    """

    def __init__(self, words: Sequence[str], levels: Sequence[dict[str, Any]]) -> None:
        self.words, self.levels = list(words), list(levels)
        self.order = len(self.levels)

    @classmethod
    def open(cls, folder: Path | str) -> BackOff:
        """Map the arrays of a folder into memory; `DataError` if they are incomplete."""
        folder = Path(folder)
        with reading(folder, "this n-gram model", hint=_HINT):
            manifest = read_json(folder / MANIFEST)
            levels: list[dict[str, Any]] = [{} for _ in manifest["counts"]]
            for name, size in manifest["bytes"].items():
                array = np.load(folder / f"{name}.npy", mmap_mode="r")
                if array.nbytes != size:
                    raise ValueError(f"{name}.npy is incomplete")
                array_name, _, order = name.partition(".")
                levels[int(order) - 1][array_name] = array
            return cls(manifest["words"], levels)

    @cached_property
    def index(self) -> dict[str, int]:
        """The id of each word, `SPECIAL` included."""
        return {word: index for index, word in enumerate((*self.words, *SPECIAL))}

    def ids(self, words: Sequence[str]) -> list[int]:
        """Return the ids of words; others get that of ``<unk>``."""
        unknown = self.index["<unk>"]
        return [self.index.get(word, unknown) for word in words]

    def word(self, index: int) -> str:
        """Return the word with an id."""
        return self.words[index] if index < len(self.words) else SPECIAL[index - len(self.words)]

    def contexts(self, rows: Sequence[Sequence[int]]) -> Ids:
        """Return rows of ids of any length as contexts, shape (n, order - 1)."""
        width = self.order - 1
        ids = np.full((len(rows), width), -1, dtype=np.int64)
        for index, row in enumerate(rows):
            last = row[max(0, len(row) - width) :] if width else []
            if len(last):
                ids[index, width - len(last) :] = last
        return ids

    def _find(self, order: int, node: Ids, word: Ids) -> Ids:
        """Return the indices of n-grams of an order from the indices of their contexts; -1 if not listed."""
        key = self.levels[order - 1]["key"]
        wanted = (np.maximum(node, 0).astype(np.uint64) << SHIFT) | np.maximum(word, 0).astype(np.uint64)
        index = np.searchsorted(key, wanted)
        listed = (node >= 0) & (word >= 0) & (index < len(key))
        listed[listed] = key[index[listed]] == wanted[listed]
        return np.where(listed, index, -1)

    def node(self, grams: Ids) -> Ids:
        """Return the indices of n-grams (n, order) in their order's list; -1 if not listed."""
        index = grams[:, 0]
        for column in range(1, grams.shape[1]):
            index = self._find(column + 1, index, grams[:, column])
        return index

    def grams(self, order: int, indices: Ids) -> Ids:
        """Return the words of n-grams of an order by their indices, shape (n, order)."""
        columns = []
        for level in self.levels[order - 1 : 0 : -1]:
            key = level["key"][indices]
            columns.append(key & WORD)
            indices = (key >> SHIFT).astype(np.int64)
        return np.stack([indices, *columns[::-1]], axis=1).astype(np.int64)

    def state(self, contexts: Ids) -> BackOffState:
        """Look up contexts (n, length)."""
        nodes: list[Ids] = []
        weights: list[Singles] = []
        for length in range(1, min(contexts.shape[1], self.order - 1) + 1):
            index = self.node(contexts[:, contexts.shape[1] - length :])
            backoff = self.levels[length - 1]["backoff"]
            value = backoff[np.maximum(index, 0)] if len(backoff) else np.zeros(len(index), dtype=np.float32)
            nodes.append(index)
            weights.append(np.where(index < 0, np.float32(0), value))
        return BackOffState(nodes, weights)

    def log10(self, contexts: Ids, words: Ids, state: BackOffState | None = None) -> Singles:
        """Return log10 probabilities of words (n, m), by their ids, as KenLM computes them: float32 (n, m).

        `state` is that of the contexts (n, length), if known.
        """
        state = self.state(contexts) if state is None else state
        value = self.levels[0]["logp"][words]
        for order, (node, weight) in enumerate(zip(state.nodes, state.backoff, strict=True), start=2):
            value = value + weight[:, None]
            rows = np.flatnonzero(node >= 0)
            if not len(rows):
                continue
            pairs = words[rows]
            index = self._find(order, np.repeat(node[rows], pairs.shape[1]), pairs.ravel())
            index = index.reshape(pairs.shape)
            level = self.levels[order - 1]["logp"]
            value[rows] = np.where(index < 0, value[rows], level[np.maximum(index, 0)] if len(level) else 0)
        return np.asarray(value, dtype=np.float32)

    def count(self, state: BackOffState, value: npt.NDArray[Any], *, equal: bool = False) -> Ids:
        """Count words above a log10 probability after each context, (n,), or, if `equal`, not below it."""

        def above(sorted_values: Any, low: Ids, high: Ids, order: int) -> Ids:
            """Count the descending values of an order that exceed the value with the weights added."""
            start, weights = low.copy(), state.backoff[order - 1 :]
            low, high = low.copy(), high.copy()
            while (open_ := low < high).any():
                middle = (low + high) // 2
                total = sorted_values[np.minimum(middle, len(sorted_values) - 1)]
                for weight in weights:
                    total = total + weight
                yes = (total >= value) if equal else (total > value)
                low = np.where(open_ & yes, middle + 1, low)
                high = np.where(open_ & ~yes, middle, high)
            return low - start

        zero = np.zeros(len(value), dtype=np.int64)
        total = above(self._unigrams[0], zero, zero + len(self.words), 1)
        for order, node in enumerate(state.nodes, start=2):
            if (node < 0).all():
                continue
            low, high = self._range(order, node)
            level = self.levels[order - 1]
            total += above(level["top"], low, high, order) - above(level["below"], low, high, order - 1)
        return total

    def _range(self, order: int, node: Ids) -> tuple[Ids, Ids]:
        """Return where the n-grams that extend contexts begin and end; no range for those not listed."""
        key = self.levels[order - 1]["key"]
        context = np.maximum(node, 0).astype(np.uint64)
        low = np.searchsorted(key, context << SHIFT)
        high = np.where(node < 0, low, np.searchsorted(key, (context + np.uint64(1)) << SHIFT))
        return low.astype(np.int64), high.astype(np.int64)

    @cached_property
    def _unigrams(self) -> tuple[Singles, npt.NDArray[np.uint32]]:
        """The words' log-probabilities without a context, falling, and the words in that order."""
        values = np.array(self.levels[0]["logp"][: len(self.words)])
        turn = np.argsort(-values, kind="stable")
        return values[turn], turn.astype(np.uint32)

    def top(self, contexts: Ids, k: int, state: BackOffState | None = None) -> tuple[Singles, Ids]:
        """Return log10 and ids (n, k) of the best words, the best first; ties by falling frequency."""
        state = self.state(contexts) if state is None else state
        k = min(k, len(self.words))
        n = len(contexts)
        values = np.full((n, k), -np.inf, dtype=np.float32)
        words = np.zeros((n, k), dtype=np.int64)
        remaining, length = np.arange(n), k + 6
        while len(remaining):
            subset = BackOffState([a[remaining] for a in state.nodes], [a[remaining] for a in state.backoff])
            values[remaining], words[remaining], enough = self._best(subset, len(remaining), k, length)
            remaining, length = remaining[~enough], length * 8
        return values, words

    def _best(
        self, state: BackOffState, n: int, k: int, length: int
    ) -> tuple[Singles, Ids, npt.NDArray[np.bool_]]:
        """Choose among the first `length` words of each list; return where these are certainly enough."""
        best = np.full((n, k), -np.inf, dtype=np.float32)
        chosen = np.zeros((n, k), dtype=np.int64)
        last: list[tuple[Ids, Singles]] = []  # contexts, and the last value that was compared in a list
        for order in range(len(state.nodes) + 1, 0, -1):
            if order > 1:
                rows, level = np.flatnonzero(state.nodes[order - 2] >= 0), self.levels[order - 1]
                if not len(rows) or not len(level["key"]):  # pruning may leave no n-gram of an order
                    continue
                low, high = self._range(order, state.nodes[order - 2][rows])
                falling, names = level["top"], level["word"]
            else:
                rows, low = np.arange(n), np.zeros(n, dtype=np.int64)
                high = low + len(self.words)
                falling, names = self._unigrams
            index = low[:, None] + np.arange(length)
            inside = index < high[:, None]
            index = np.where(inside, index, 0)
            value = np.where(inside, falling[index], np.float32(-np.inf))
            for weight in state.backoff[order - 1 :]:
                value = value + weight[rows][:, None]
            last.append((rows, np.where(high - low > length, value[:, -1], np.float32(-np.inf))))
            word = names[index].astype(np.int64)
            use = np.isfinite(value) & (value >= best[rows, -1][:, None])
            for above in range(order + 1, len(state.nodes) + 2):  # a longer context that lists the word wins
                node = np.broadcast_to(state.nodes[above - 2][rows][:, None], word.shape)[use]
                use[use] = self._find(above, node, word[use]) < 0
            value = np.where(use, value, np.float32(-np.inf))
            joined = np.concatenate([best[rows], value], axis=1)
            names_of = np.concatenate([chosen[rows], word], axis=1)
            turn = np.lexsort((names_of, -joined), axis=1)[:, :k]
            best[rows] = np.take_along_axis(joined, turn, axis=1)
            chosen[rows] = np.take_along_axis(names_of, turn, axis=1)
        enough = np.ones(n, dtype=bool)
        for rows, value in last:
            enough[rows] &= np.isneginf(value) | (value < best[rows, -1])
        return best, chosen, enough

    def distribution(self, contexts: Ids, *, chunk: int = 256) -> Iterator[Singles]:
        """Yield log10 probabilities of all words, up to `chunk` contexts at a time, shape (chunk, words)."""
        n_words = len(self.words)
        unigrams = np.array(self.levels[0]["logp"][:n_words])
        for start in range(0, len(contexts), chunk):
            state = self.state(contexts[start : start + chunk])
            size = len(contexts[start : start + chunk])
            values = np.repeat(unigrams[None, :], size, axis=0)
            for order, (node, weight) in enumerate(zip(state.nodes, state.backoff, strict=True), start=2):
                low, high = self._range(order, node)
                level = self.levels[order - 1]
                for row in np.flatnonzero(node >= 0):
                    values[row] += weight[row]
                    words = (level["key"][low[row] : high[row]] & WORD).astype(np.int64)
                    real = words < n_words
                    values[row, words[real]] = level["logp"][low[row] : high[row]][real]
            yield values


def blocks_of(key: Keys) -> Iterator[slice]:
    """Cut sorted keys in parts of about a million, between two contexts; one part at least."""
    stop = 0
    while True:
        start, stop = stop, min(stop + _ROWS, len(key))
        if stop < len(key):
            stop = int(np.searchsorted(key, key[stop - 1] | WORD, "right"))
        yield slice(start, stop)
        if stop == len(key):
            return


def level_arrays(
    key: Keys, logp: Singles, lower: Singles, backoff: Singles | None, n_words: int
) -> dict[str, Any]:
    """Return the arrays of n-grams of one order, with all that counting needs.

    The keys (n,) are sorted. `logp` and `lower` are log-probabilities after the context, and after the
    shorter one; `backoff` is None for the highest order. Ids from `n_words` on are not ranked.
    """
    special = (key & WORD) >= n_words
    ranked, lower = (np.where(special, np.float32(-np.inf), values) for values in (logp, lower))
    context = key & ~WORD
    repeated = context[1:] == context[:-1]
    several = np.zeros(len(key), dtype=bool)  # all others are alone after their context
    several[1:] = repeated
    several[:-1] |= repeated
    rows = np.flatnonzero(several)
    word = (key & WORD).astype(np.uint32)
    turn = np.arange(len(key))
    turn[rows] = rows[_falling(context[rows], ranked[rows])]
    lower[rows] = _single(np.sort(context[rows] | _bits(lower[rows])))
    arrays = {"key": key, "logp": logp, "top": ranked[turn], "word": word[turn], "below": lower}
    return arrays if backoff is None else arrays | {"backoff": backoff}


def _bits(values: Singles) -> Keys:
    """Return numbers of 32 bits that rise as the values fall."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return np.where(bits >> 31, bits, ~bits & np.uint32(2**31 - 1)).astype(np.uint64)


def _single(bits: Keys) -> Singles:
    """Return the values of the lower 32 bits."""
    low = (bits & WORD).astype(np.uint32)
    return np.where(low >> 31, low, ~low & np.uint32(2**31 - 1)).view(np.float32)


def _falling(context: Keys, values: Singles) -> npt.NDArray[np.int64]:
    """Return the order by context, then by falling value, then as they are; fast sorts of numbers alone."""
    position = np.arange(len(values), dtype=np.uint64)
    by_value = (np.sort((_bits(values) << SHIFT) | position) & WORD).astype(np.int64)
    both = np.sort(context[by_value] | position) & WORD
    return np.asarray(by_value[both])


def write_level(folder: Path, order: int, size: int, blocks: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Write the arrays of an order of `size` n-grams, which come in blocks; return the bytes of each."""
    with ExitStack() as stack:
        files: dict[str, BinaryIO] = {}
        sizes: dict[str, int] = {}
        for block in blocks:
            for array_name, array in block.items():
                name = f"{array_name}.{order}"
                if name not in files:
                    files[name] = stack.enter_context((folder / f"{name}.npy").open("wb"))
                    header = {"descr": array.dtype.str, "fortran_order": False, "shape": (size,)}
                    np.lib.format.write_array_header_1_0(files[name], header)
                    sizes[name] = size * array.itemsize
                files[name].write(np.ascontiguousarray(array).data)
    return sizes


def finish_levels(
    folder: Path, words: Sequence[str], counts: Sequence[int], sizes: Mapping[str, int]
) -> BackOff:
    """Write the manifest of the arrays in a folder, the last file; return the model."""
    manifest = {"format": 1, "words": list(words), "counts": list(counts), "bytes": dict(sizes)}
    write_atomic(folder / MANIFEST, json.dumps(manifest))
    return BackOff.open(folder)
