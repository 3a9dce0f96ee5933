"""From an ARPA file to the sorted arrays of `levels`, and back."""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from workbench.models.ngram.backoff import MANIFEST, SPECIAL, BackOff
from workbench.models.ngram.levels import LOW, level_arrays, publish, write_level
from workbench.storage.errors import DataError
from workbench.storage.files import atomic_path
from workbench.storage.progress import progress_bar

_BLOCK = 1 << 25  # bytes of text that are read at a time
_NO_WEIGHT = re.compile(rb"^([^\t\n]+\t[^\t\n]+)$", re.MULTILINE)
_COUNT = re.compile(rb"^ngram (\d+)\s*=\s*(\d+)\s*$", re.MULTILINE)
_ROWS = 1 << 20  # n-grams that are written at a time


class _Section(NamedTuple):
    """The n-grams of one order in an ARPA file: `size` lines, from byte `start` to `stop`."""

    data: mmap.mmap
    file: Path
    order: int
    size: int
    start: int
    stop: int

    def error(self, problem: str) -> DataError:
        return _error(problem, self.file)


def _error(problem: str, file: Path) -> DataError:
    return DataError(problem, file=file, remedy="estimate the model again")


def compile_arpa(arpa: Path, folder: Path, vocabulary: Sequence[str], *, progress: bool = True) -> BackOff:
    """Read a back-off model in the ARPA format into arrays.

    Parameters
    ----------
    arpa : Path
        The model: log-probabilities to the base 10 and back-off weights; every n-gram's
        context must be in it, as in all that ``lmplz`` writes.
    folder : Path
        Where the arrays go; the manifest is written last.
    vocabulary : sequence of str
        The order of the words (ids 0, 1, ...); words that the model does not know are left out.
    progress : bool, default True

    Returns
    -------
    BackOff

    Raises
    ------
    DataError
        If the file is incomplete or not in the ARPA format, or an n-gram's context is missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST).unlink(missing_ok=True)
    if not arpa.is_file() or not arpa.stat().st_size:
        raise _error("there is no model", arpa)
    with (
        arpa.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        progress_bar(_size(data, arpa), label="sorting", unit="n-grams", shown=progress) as bar,
    ):
        sections = _sections(data, arpa)
        words, unigrams = _unigrams(sections[0], vocabulary)
        model = BackOff(words, [unigrams])
        for section in sections[1:]:
            model = BackOff(words, [*model.levels, _level(model, section, bar)])
    if len(sections) > 1:
        del model.levels[-1]["backoff"]  # the highest order is no context
    sizes: dict[str, int] = {}
    for section, arrays in zip(sections, model.levels, strict=True):
        sizes |= write_level(folder, section.order, section.size, [arrays])
    return publish(folder, words, [section.size for section in sections], sizes)


def save_arpa(model: BackOff, path: Path, *, progress: bool = True) -> None:
    """Write a back-off model in the ARPA format, whole or not at all; each number reads as the same float."""
    words = pa.array([*model.words, *SPECIAL], pa.string())
    sizes = [len(level["logp"]) for level in model.levels]
    with (
        atomic_path(path) as target,
        target.open("wb") as file,
        progress_bar(sum(sizes), label="ARPA", unit="n-grams", shown=progress) as bar,
    ):
        counts = (f"ngram {n}={size}\n" for n, size in enumerate(sizes, start=1))
        file.write("\\data\\\n{}".format("".join(counts)).encode())
        for n, level in enumerate(model.levels, start=1):
            file.write(b"\n\\%d-grams:\n" % n)
            for first in range(0, sizes[n - 1], _ROWS):
                rows = slice(first, min(first + _ROWS, sizes[n - 1]))
                weights = np.asarray(level["backoff"][rows]) if "backoff" in level else None
                grams = _grams(model, n, np.arange(rows.start, rows.stop))
                write_grams(file, words, grams, np.asarray(level["logp"][rows]), weights)
                bar.update(rows.stop - rows.start)
        file.write(b"\n\\end\\\n")


def _grams(model: BackOff, order: int, places: Any) -> npt.NDArray[np.int64]:
    """Return the ids of the words of n-grams, shape (n, order), by their places."""
    columns = []
    for level in model.levels[order - 1 : 0 : -1]:
        key = level["key"][places]
        columns.append(key & LOW)
        places = (key >> np.uint64(32)).astype(np.int64)
    return np.stack([places, *columns[::-1]], axis=1).astype(np.int64)


def write_grams(
    file: BinaryIO, words: pa.Array, grams: Any, log10: npt.NDArray[np.float32], backoff: Any | None
) -> None:
    """Write lines of a section of an ARPA file: n-grams as ids (n, order), log-probabilities and weights."""
    parts: list[Any] = [pa.array(log10).cast(pa.string()), pa.scalar("\t")]
    for column in range(grams.shape[1]):
        parts += [words.take(pa.array(grams[:, column])), pa.scalar(" ")]
    weights = [] if backoff is None else [pa.scalar("\t"), pa.array(backoff).cast(pa.string())]
    text = pc.binary_join_element_wise(*parts[:-1], *weights, pa.scalar("\n"), "")
    _, offsets, data = text.buffers()
    ends = np.frombuffer(offsets, np.int32)[text.offset : text.offset + len(text) + 1]
    file.write(memoryview(data)[ends[0] : ends[-1]])


def _sections(data: mmap.mmap, file: Path) -> list[_Section]:
    """Find the n-grams of each order."""
    head = data.find(b"\\data\\")
    first = data.find(b"\\1-grams:")
    if head < 0 or first < 0 or data.find(b"\\end\\", max(0, len(data) - 100)) < 0:
        raise _error("not a complete ARPA file (from \\data\\ to \\end\\)", file)
    counts = [int(n) for _, n in _COUNT.findall(data[head:first])]
    marks = [data.find(f"\n\\{order}-grams:".encode()) for order in range(1, len(counts) + 1)]
    marks = [mark + 1 for mark in marks] + [data.rfind(b"\\end\\")]
    if not counts or sorted(marks) != marks or 0 in marks:
        raise _error("a section of the ARPA file is missing", file)
    return [
        _Section(data, file, order, count, data.find(b"\n", mark) + 1, stop)
        for order, (count, (mark, stop)) in enumerate(zip(counts, pairwise(marks), strict=True), start=1)
    ]


def _size(data: mmap.mmap, file: Path) -> int:
    """Return the number of n-grams that are sorted: those of order 2 and more."""
    return sum(section.size for section in _sections(data, file)[1:])


def _tables(section: _Section) -> Iterator[pa.Table]:
    """Read a section as tables of three columns: log-probability, n-gram, back-off weight."""
    kinds = {"logp": pa.float32(), "gram": pa.string(), "backoff": pa.float32()}
    data, start, end = section.data, section.start, section.stop
    while start < end:
        stop = min(end, start + _BLOCK)
        stop = end if stop == end else data.rfind(b"\n", start, stop) + 1
        if stop <= start:
            raise _too_long(section.file)
        text = data[start:stop]
        start = stop
        if not text.strip():
            continue
        try:
            table = csv.read_csv(
                pa.BufferReader(_NO_WEIGHT.sub(rb"\1\t0", text)),  # a weight of 0 may be left out
                read_options=csv.ReadOptions(column_names=list(kinds), block_size=_BLOCK * 2),
                parse_options=csv.ParseOptions(delimiter="\t", quote_char=False, double_quote=False),
                convert_options=csv.ConvertOptions(column_types=kinds, null_values=[""]),
            )
        except pa.ArrowInvalid as error:
            raise section.error(f"a line is not an n-gram of an ARPA file ({error})") from None
        for name in ("logp", "backoff"):
            if not pc.all(pc.is_finite(table[name])).as_py() or table[name].null_count:
                raise section.error("a log-probability is not a number")
        yield table


def _too_long(file: Path) -> DataError:
    return _error("a line is longer than 32 MB", file)


def _unigrams(section: _Section, vocabulary: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Return the words in the order of the vocabulary, and the arrays of order 1."""
    tables = list(_tables(section))
    if not tables or sum(map(len, tables)) != section.size:
        raise section.error(f"expected {section.size:,} n-grams of order 1")
    table = pa.concat_tables(tables)
    known = dict(zip(table["gram"].to_pylist(), range(len(table)), strict=True))
    if len(known) != section.size:
        raise section.error("a word is listed twice")
    if lacking := [word for word in SPECIAL if word not in known]:
        raise section.error(f"the model does not know {lacking[0]}")
    words = [word for word in vocabulary if word in known and word not in SPECIAL]
    if len(words) != len(known) - len(SPECIAL):
        raise section.error("the model knows words that are not in the vocabulary")
    rows = [known[word] for word in (*words, *SPECIAL)]
    return words, {name: table[name].to_numpy()[rows] for name in ("logp", "backoff")}


def _level(model: BackOff, section: _Section, bar: Any) -> dict[str, Any]:
    """Sort the n-grams of one order, with all that counting needs, by the orders below."""
    order, count = section.order, section.size
    vocabulary = pa.array([*model.words, *SPECIAL])
    key, logp = np.empty(count, dtype=np.uint64), np.empty(count, dtype=np.float32)
    lower, backoff = np.empty(count, dtype=np.float32), np.empty(count, dtype=np.float32)
    done = 0
    for table in _tables(section):
        grams = pc.split_pattern(table["gram"].combine_chunks(), " ").flatten()
        if len(grams) != order * len(table):
            raise section.error(f"an n-gram of order {order} has another length")
        numbers = pc.index_in(grams, value_set=vocabulary)
        if numbers.null_count:
            word = grams[pc.index(pc.is_null(numbers), value=True).as_py()]
            raise section.error(f"the word {word} is in an n-gram, but no unigram")
        ids = numbers.to_numpy().reshape(-1, order).astype(np.int64)
        stop = done + len(table)
        if stop > count:
            break
        node = model.node(ids[:, :-1])
        if (node < 0).any():
            gram = " ".join(model.word(i) for i in ids[int((node < 0).argmax())])
            raise section.error(f"the context of the n-gram {gram} is missing")
        key[done:stop] = (node.astype(np.uint64) << np.uint64(32)) | ids[:, -1].astype(np.uint64)
        logp[done:stop] = table["logp"].to_numpy()
        lower[done:stop] = model.log10(ids[:, 1:-1], ids[:, -1:])[:, 0]
        backoff[done:stop] = table["backoff"].to_numpy()
        bar.update(stop - done)
        done = stop
    if done != count:
        raise section.error(f"expected {count:,} n-grams of order {order}")
    turn = np.argsort(key, kind="stable")
    key = key[turn]
    if (key[1:] == key[:-1]).any():
        raise section.error(f"an n-gram of order {order} is listed twice")
    return level_arrays(key, logp[turn], lower[turn], backoff[turn], len(model.words))
