"""From an ARPA file to sorted arrays on disk, once; :mod:`workbench.models.ngram.backoff` computes with them.

An n-gram of order j is a row of ``key.j``: the place of its first j - 1 words in the order below, and
its last word. Rows are sorted, so the words that follow a context lie side by side.
"""

from __future__ import annotations

import json
import mmap
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from workbench.items.schema import DataError
from workbench.models.ngram.backoff import MANIFEST, SPECIAL, BackOff
from workbench.storage.files import atomic_path

_BLOCK = 1 << 25  # bytes of text that are read at a time
_RAGGED = re.compile(rb"^([^\t\n]+\t[^\t\n]+)$", re.MULTILINE)
_COUNT = re.compile(rb"^ngram (\d+)\s*=\s*(\d+)\s*$", re.MULTILINE)
_REMEDY = "estimate the model again"

Block = tuple[npt.NDArray[np.float32], npt.NDArray[np.int64], npt.NDArray[np.float32]]


def compile_arpa(
    arpa: Path | str,
    folder: Path | str,
    vocabulary: Sequence[str] | None = None,
    *,
    tell: Callable[[int, int], object] | None = None,
) -> BackOff:
    """Read a back-off model in the ARPA format into arrays.

    Parameters
    ----------
    arpa : path
        The model: log-probabilities to the base 10 and back-off weights; every n-gram's
        context must be in it, as in all that ``lmplz`` writes.
    folder : path
        Where the arrays go; the manifest is written last.
    vocabulary : sequence of str, optional
        The order of the words (ids 0, 1, ...); words that the model does not know are left out. By
        default they go by falling probability.
    tell : callable, optional
        Told the order and the number of n-grams after each block, for a progress bar.

    Returns
    -------
    BackOff

    Raises
    ------
    DataError
        If the file is cut off or is no ARPA file, or an n-gram's context is missing.
    """
    arpa, folder = Path(arpa), Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST).unlink(missing_ok=True)
    if not arpa.is_file() or not arpa.stat().st_size:
        raise DataError("there is no model here", file=arpa, remedy=_REMEDY)
    with arpa.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        counts, places = _sections(data, arpa)
        words, unigrams = _unigrams(data, places[0], counts[0], arpa, vocabulary)
        model = BackOff(words, [unigrams])
        saved = {"logp.1": unigrams["logp"], "backoff.1": unigrams["backoff"]}
        values = pa.array([*words, *SPECIAL])
        for order in range(2, len(counts) + 1):
            blocks = _told(_blocks(data, places[order - 1], order, values, arpa), order, tell)
            level = _level(model, blocks, counts[order - 1], arpa)
            if order == len(counts):
                del level["backoff"]  # nothing goes on from there
            saved |= {f"{name}.{order}": array for name, array in level.items()}
            model = BackOff(words, [*model.levels, level])
    for name, array in saved.items():
        with atomic_path(folder / f"{name}.npy") as path, path.open("wb") as out:
            np.save(out, array)
    manifest = {
        "format": 1,
        "words": words,
        "counts": counts,
        "bytes": {n: int(a.nbytes) for n, a in saved.items()},
    }
    with atomic_path(folder / MANIFEST) as path:
        path.write_text(json.dumps(manifest), encoding="utf-8")
    return BackOff.open(folder)


def rename_unknown(arpa: Path, word: str) -> None:
    """Let a word that stands for all unknown ones be ``<unk>`` in an ARPA file.

    ``lmplz`` refuses ``<unk>`` in a text, and gives its own ``<unk>`` what interpolation with the uniform
    distribution leaves. That is added to the word's probability; where the text does not hold the
    word, the file stays as it is.
    """
    mark = word.encode()
    with arpa.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        end = data.find(b"\n\\2-grams:")
        end = len(data) if end < 0 else end
        head = data[:end]
        unknown = re.search(rb"^(\S+)\t<unk>(\t\S+)?\n", head, re.MULTILINE)
        put = re.search(rb"^(\S+)\t" + re.escape(mark) + rb"(?=\t|\n)", head, re.MULTILINE)
        if unknown is None or mark not in head:
            return
        if put is not None:
            both = float(np.log10(10 ** float(unknown[1]) + 10 ** float(put[1])))
            line = f"{np.float32(both)!s}\t<unk>".encode()
            head = head[: put.start()] + line + head[put.end() :]
            head = head.replace(unknown[0], b"", 1)
            head = _COUNT.sub(lambda m: m[0] if m[1] != b"1" else b"ngram 1=%d" % (int(m[2]) - 1), head)
        head = head.replace(mark, b"<unk>")  # where it is a part of other words
        with atomic_path(arpa) as path, path.open("wb") as out:
            out.write(head)
            while end < len(data):
                stop = min(len(data), end + _BLOCK)
                stop = stop if stop == len(data) else data.rfind(b"\n", end + 1, stop)
                if stop < 0:
                    raise _too_long(arpa)
                out.write(data[end:stop].replace(mark, b"<unk>"))
                end = stop


def _sections(data: mmap.mmap, arpa: Path) -> tuple[list[int], list[tuple[int, int]]]:
    """Find how many n-grams there are of each order, and where they stand."""
    head = data.find(b"\\data\\")
    first = data.find(b"\\1-grams:")
    if head < 0 or first < 0 or data.find(b"\\end\\", max(0, len(data) - 100)) < 0:
        raise DataError("this is no whole ARPA file (\\data\\ to \\end\\)", file=arpa, remedy=_REMEDY)
    counts = [int(n) for _, n in _COUNT.findall(data[head:first])]
    marks = [data.find(f"\n\\{order}-grams:".encode()) for order in range(1, len(counts) + 1)]
    marks = [mark + 1 for mark in marks] + [data.rfind(b"\\end\\")]
    if not counts or sorted(marks) != marks or 0 in marks:
        raise DataError("the sections are not all there", file=arpa, remedy=_REMEDY)
    starts = [data.find(b"\n", mark) + 1 for mark in marks[:-1]]
    return counts, list(zip(starts, marks[1:], strict=True))


def _texts(data: mmap.mmap, place: tuple[int, int], arpa: Path, *, ragged: bool) -> Iterator[pa.Table]:
    """Read a section as tables of three columns: log-probability, n-gram, back-off weight."""
    start, end = place
    kinds = {"logp": pa.float32(), "gram": pa.string(), "backoff": pa.float32()}
    while start < end:
        stop = min(end, start + _BLOCK)
        stop = end if stop == end else data.rfind(b"\n", start, stop) + 1
        if stop <= start:
            raise _too_long(arpa)
        text = data[start:stop]
        start = stop
        if not text.strip():
            continue
        if ragged:  # the back-off weight may be left out where it is 0
            text = _RAGGED.sub(rb"\1\t0", text)
        try:
            table = csv.read_csv(
                pa.BufferReader(text),
                read_options=csv.ReadOptions(column_names=list(kinds), block_size=_BLOCK * 2),
                parse_options=csv.ParseOptions(delimiter="\t", quote_char=False, double_quote=False),
                convert_options=csv.ConvertOptions(column_types=kinds, null_values=[""]),
            )
        except pa.ArrowInvalid as error:
            raise DataError(
                f"a line is no n-gram of an ARPA file ({error})", file=arpa, remedy=_REMEDY
            ) from None
        for name in ("logp", "backoff"):
            if not pc.all(pc.is_finite(table[name])).as_py() or table[name].null_count:
                raise DataError("a log-probability is no number", file=arpa, remedy=_REMEDY)
        yield table


def _too_long(arpa: Path) -> DataError:
    return DataError("a line is longer than 32 MB", file=arpa, remedy=_REMEDY)


def _unigrams(
    data: mmap.mmap, place: tuple[int, int], count: int, arpa: Path, vocabulary: Sequence[str] | None
) -> tuple[list[str], dict[str, Any]]:
    tables = list(_texts(data, place, arpa, ragged=True))
    if not tables or sum(map(len, tables)) != count:
        raise DataError(f"there are not {count:,} n-grams of order 1", file=arpa, remedy=_REMEDY)
    table = pa.concat_tables(tables)
    known = dict(zip(table["gram"].to_pylist(), range(len(table)), strict=True))
    if len(known) != count:
        raise DataError("a word is listed twice", file=arpa, remedy=_REMEDY)
    if lacking := [word for word in SPECIAL if word not in known]:
        raise DataError(f"the model does not know {lacking[0]}", file=arpa, remedy=_REMEDY)
    logp, backoff = (table[name].to_numpy() for name in ("logp", "backoff"))
    if vocabulary is None:
        by_value = sorted(known, key=lambda word: (-logp[known[word]], word))
        words = [word for word in by_value if word not in SPECIAL]
    else:
        words = [word for word in vocabulary if word in known and word not in SPECIAL]
        if len(words) != len(known) - len(SPECIAL):
            raise DataError("the model knows words that are not in the vocabulary", file=arpa, remedy=_REMEDY)
    rows = [known[word] for word in (*words, *SPECIAL)]
    return words, {"logp": logp[rows], "backoff": backoff[rows]}


def _blocks(
    data: mmap.mmap, place: tuple[int, int], order: int, words: pa.Array, arpa: Path
) -> Iterator[Block]:
    """Read n-grams of one order: log-probabilities, word ids (rows, order), back-off weights."""
    for table in _texts(data, place, arpa, ragged=True):
        grams = pc.split_pattern(table["gram"].combine_chunks(), " ")
        flat = grams.flatten()
        if len(flat) != order * len(table):
            raise DataError(f"an n-gram of order {order} has another length", file=arpa, remedy=_REMEDY)
        ids = pc.index_in(flat, value_set=words)
        if ids.null_count:
            word = flat[pc.index(pc.is_null(ids), value=True).as_py()]
            raise DataError(f"the word {word} is in an n-gram, but no unigram", file=arpa, remedy=_REMEDY)
        rows = ids.to_numpy().reshape(-1, order).astype(np.int64)
        yield table["logp"].to_numpy(), rows, table["backoff"].to_numpy()


def _told(blocks: Iterator[Block], order: int, tell: Callable[[int, int], object] | None) -> Iterator[Block]:
    for block in blocks:
        yield block
        if tell:
            tell(order, len(block[0]))


def _level(model: BackOff, blocks: Iterable[Block], count: int, arpa: Path) -> dict[str, Any]:
    """Sort the n-grams of one order, with all that counting needs, by the orders below."""
    n_words = len(model.words)
    key, logp = np.empty(count, dtype=np.uint64), np.empty(count, dtype=np.float32)
    lower, backoff = np.empty(count, dtype=np.float32), np.empty(count, dtype=np.float32)
    done = 0
    for values, ids, weights in blocks:
        stop = done + len(values)
        if stop > count:
            break
        node = model.node(ids[:, :-1])
        if (node < 0).any():
            gram = [model.word(i) for i in ids[int((node < 0).argmax())]]
            raise DataError(
                f"the context of the n-gram {' '.join(gram)} is missing", file=arpa, remedy=_REMEDY
            )
        key[done:stop] = (node.astype(np.uint64) << np.uint64(32)) | ids[:, -1].astype(np.uint64)
        logp[done:stop] = values
        lower[done:stop] = model.log10(ids[:, 1:-1], ids[:, -1:])[:, 0]
        backoff[done:stop] = weights
        done = stop
    if done != count:
        raise DataError(
            f"there are not {count:,} n-grams of order {model.order + 1}", file=arpa, remedy=_REMEDY
        )
    turn = np.argsort(key, kind="stable")
    key, logp, lower = key[turn], logp[turn], lower[turn]
    if (key[1:] == key[:-1]).any():
        raise DataError(f"an n-gram of order {model.order + 1} is listed twice", file=arpa, remedy=_REMEDY)
    level = {"key": key, "logp": logp, "backoff": backoff[turn]}
    special = (key & np.uint64(0xFFFFFFFF)) >= n_words
    turn = _falling(key, np.where(special, np.float32(-np.inf), logp))
    level["top"] = np.where(special, np.float32(-np.inf), logp)[turn]
    level["word"] = (key[turn] & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    lower = np.where(special, np.float32(-np.inf), lower)
    level["below"] = lower[_falling(key, lower)]
    return level


def _falling(key: npt.NDArray[np.uint64], values: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """Return the order by context, then by falling value, then by word."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rising = np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31))
    mixed = (key & ~np.uint64(0xFFFFFFFF)) | (~rising).astype(np.uint64)
    return np.argsort(mixed, kind="stable")
