"""Every candidate passage of LAMBADA's rule in novels: found in parallel, stored on disk, read as items.

They are one Parquet file with a row per novel: the tokens of its prose, one sentence per line, and where its
candidates are. A row group is a chunk of novels, the work of one process. For all chunks together, memory
holds the sizes of each novel, and nothing else.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from workbench.construction.manifest import Step
from workbench.items import text as wt
from workbench.items.items import Items
from workbench.items.schema import Item
from workbench.storage import cache, files, paths
from workbench.storage.errors import DataError, reading, writing
from workbench.storage.parallel import run_chunks
from workbench.texts.batches import permuted
from workbench.texts.corpus import Corpus, Texts
from workbench.texts.tokenise import Part, prose_sentences

Ints = npt.NDArray[np.int64]

CANDIDATES_VERSION = 6
"""Raised when the same novels give other candidates or files: those of an earlier version are not used."""

REASONS = (
    "short target sentence", "last word not of letters only", "too few tokens before", "too many tokens",
)  # fmt: skip
"""Why a sentence is the last one of no candidate; the first that applies is counted."""

CANDIDATES_FILE = "candidates.parquet"
"""The file in the folder of candidates."""

_MIXED, _LETTERS = 1, 2  # kinds of types with a letter or a digit
_CHUNK = 1 << 20  # tokens of the novels in a chunk, at least, but for the last
_FEW = 1 << 19  # tokens up to which this process does the work: starting others takes a second
_SIZE_COLUMNS = ("sentences", "tokens", "candidates")
_CANDIDATE_COLUMNS = ("start", "length", "sentence", "context_sentences", "passage_tokens")
_SCHEMA = pa.schema(
    [("book_id", pa.string()), ("title", pa.string()), ("text", pa.large_string())]
    + [(name, pa.int64()) for name in _SIZE_COLUMNS]
    + [(name, pa.list_(pa.uint32())) for name in _CANDIDATE_COLUMNS]  # start and length in bytes of the text
)
_INFO = b"workbench"  # the key of JSON in the metadata of a file
_WHAT, _AGAIN = "this folder of candidate passages", "make it again"


class Rule(NamedTuple):
    """Which passages are candidates: see :meth:`CandidatePassages.of`."""

    minimum: int = 50
    shortest: int = 10
    longest: int = 256


class NovelChunk(NamedTuple):
    """Work for one process: some novels, and the file that their candidates are written to."""

    file: Path
    corpus: Corpus
    rows: range  # of its books
    rule: Rule

    @property
    def size(self) -> int:
        """Tokens of the novels."""
        return int(self.corpus.books["tokens"].iloc[self.rows.start : self.rows.stop].sum())


class CandidatePassages:
    """All candidate passages of some novels, on disk, in the order of the novels.

    Make them by `of`. A candidate has a number from 0 on; `items` makes items of numbers, `sample` of some
    that are drawn.

    Parameters
    ----------
    folder : Path
        Where `of` wrote them.

    Attributes
    ----------
    books : pandas.DataFrame
        One row per novel: ``book_id``, ``title``, ``chunk``, ``sentences``, ``tokens``, ``candidates``.
    rule : Rule
        ``minimum``, ``shortest`` and ``longest``, as `of` takes them.
    dropped : dict of str to int
        How many sentences are the last one of no candidate, by reason.
    sha256 : str
        Digest of the content: the same for the same novels and rule, wherever and by whomever it was made.

    Raises
    ------
    DataError
        If the folder holds no candidates, or a file of it is incomplete.

    Examples
    --------
    >>> from workbench.construction.candidates import CandidatePassages
    >>> candidates = CandidatePassages.of(wb.books("sample"))
    >>> candidates
    CandidatePassages(1,847 passages, 20 novels, 43,185 tokens)
    >>> candidates.sample(2)[0].answer
    'cherries'
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        with reading(self.folder, _WHAT, hint=_AGAIN), pq.ParquetFile(self._path) as file:
            content = _info(file)
            self.key, self.rule, self.sha256 = content["key"], Rule(*content["rule"]), content["sha256"]
            self.dropped: dict[str, int] = content["dropped"]
            self.books = file.read(["book_id", "title", *_SIZE_COLUMNS]).to_pandas()
            groups = [file.metadata.row_group(chunk).num_rows for chunk in range(file.num_row_groups)]
        cache.touch(self.folder)
        self.books.insert(2, "chunk", np.repeat(np.arange(len(groups)), groups))
        self._starts = np.concatenate([[0], self.books["candidates"].cumsum()]).astype(np.int64)

    @property
    def _path(self) -> Path:
        return self.folder / CANDIDATES_FILE

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __repr__(self) -> str:
        tokens = self.books["tokens"].sum()
        return f"CandidatePassages({len(self):,} passages, {len(self.books):,} novels, {tokens:,} tokens)"

    @classmethod
    def of(
        cls,
        novels: Texts,
        *,
        minimum: int = 50,
        shortest: int = 10,
        longest: int = 256,
        folder: Path | str | None = None,
    ) -> CandidatePassages:
        """Find all candidate passages of novels, or those that were found before.

        A passage is a target sentence, cut after its last word, the target, and the fewest whole sentences
        before it in its chapter that have more than `minimum` tokens together (Paperno et al. 2016, section
        3.1). The same novels and rule give the same files, byte for byte, whoever computes them. A call that
        was killed resumes: finished chunks of novels are not computed again.

        Parameters
        ----------
        novels : Corpus, path, str, book, or iterable of these
            Read once, one at a time, as :meth:`workbench.texts.corpus.Corpus.of` does. Strings in an iterable
            are sentences; consecutive ones are one novel. A heading ends a chapter
            (:func:`workbench.texts.tokenise.segments`); headings and rules between scenes are in no passage.
        minimum : int, default 50
            The context has more tokens than this. The paper says "at least 50 tokens", and all passages of
            the release have more.
        shortest : int, default 10
            Tokens of the target sentence, at least, the marks after its last word included. No paper says
            so: no passage of the release, nor of its control set, has fewer.
        longest : int, default 256
            Tokens of the passage, at most. The longest of the release has 198.
        folder : path, optional
            Where to write them. By default a folder of the cache, whose bound they count towards.

        Raises
        ------
        DataError
            If there is no novel, two have one id, a number makes no sense, `folder` holds something else, or
            the disk is full.

        Notes
        -----
        The last word of a sentence is its last token with a letter or a digit, and must be of letters
        alone: no target of the release or its control set has an apostrophe, hyphen or digit, though these
        occur at the end of sentences. So a sentence that ends in "wo n't ." has no candidate.
        """
        if minimum < 0 or shortest < 1 or not minimum < longest:
            raise DataError(
                f"expected minimum >= 0, shortest >= 1, minimum < longest, got {minimum=}, {shortest=},"
                f" {longest=}",
                hint="pass other numbers of tokens; LAMBADA's are 50, 10 and 256",
            )
        rule = Rule(int(minimum), int(shortest), int(longest))
        home = paths.cache_home() / "passages" if folder is None else Path(folder).absolute().parent
        corpus = Corpus.of(novels, lower=False)
        titles = repr(corpus.books[["book_id", "title"]].to_numpy().tolist())
        about = (str(CANDIDATES_VERSION), repr(tuple(rule)), titles, corpus.roles.tobytes())
        key = cache.digest(*about, corpus.sha256)
        target = home / (key if folder is None else Path(folder).name)
        candidates = _opened(target, key)
        if candidates is None:
            if folder is not None and target.exists() and files.list_folder(target):
                raise DataError(
                    "this folder holds something else, or candidates of other novels or another rule",
                    file=folder,
                    hint="name another folder, or remove it",
                )
            work = home / f"{key}.unfinished"
            with writing(work, "this folder"):
                work.mkdir(parents=True, exist_ok=True)
            chunks = [
                NovelChunk(work / f"{rows.start:08d}.parquet", corpus, rows, rule)
                for rows in _chunked(corpus)
            ]
            _find_missing(chunks)
            _join(chunks, target, key)
            files.remove(work)
            candidates = cls(target)
        cache.make_room()
        return candidates

    def items(
        self,
        numbers: Iterable[int] | Ints | None = None,
        *,
        split: str = "built",
        lowercased: bool = False,
        choices: bool = False,
    ) -> Items:
        """Return passages as items, in the order of their numbers as they are passed.

        Parameters
        ----------
        numbers : iterable of int, optional
            All by default: a novel has thousands.
        split : str, default "built"
            Split of the items: another name than those of the release, so that they are not mixed up.
        lowercased : bool, default False
            Lower-case the tokens (variant ``plain``, as the release); else they are as in the novels (variant
            ``capitalised`` where most sentences of a passage have a capital, else ``plain``).
        choices : bool, default False
            Whether the candidates are the different words of the context and the target, as readers choose
            from (Chu et al. 2017). Otherwise there are none, as in the release.

        Raises
        ------
        IndexError
            If there is no candidate of a number.
        """
        wanted = np.arange(len(self)) if numbers is None else np.asarray(list(numbers), np.int64)
        if len(wanted) and not 0 <= wanted.min() <= wanted.max() < len(self):
            raise IndexError(f"expected numbers of candidates from 0 to {len(self) - 1:,}")
        rows: dict[int, Item] = {}
        for number, book_id, cased, sentence in self._passages(np.unique(wanted)):
            lines = [line.lower() for line in cased] if lowercased else cased
            is_cased = 2 * sum(line != line.lower() for line in lines) > len(lines)
            text = " ".join(lines)
            answer = text.rpartition(" ")[2]
            rows[number] = Item(
                item_id=f"lambada/{split}/{book_id}/{sentence:06d}",
                dataset="lambada",
                split=split,
                variant="capitalised" if is_cased else "plain",
                text=text,
                answer=answer,
                answer_span=(len(text) - len(answer), len(text)),
                sentences=tuple(wt.joined_spans(lines)),
                candidates=tuple(dict.fromkeys([*" ".join(lines[:-1]).split(" "), answer]))
                if choices
                else None,
                book_id=book_id,
            )
        return Items.from_records(rows[number] for number in wanted.tolist())

    def sample(self, n: int, seed: int = 0, **options: Any) -> Items:
        """Return `n` items drawn, the first of any larger sample; `options` are those of `items`."""
        return self.items(self.drawn(0, n, seed), **options)

    def drawn(self, start: int, stop: int, seed: int = 0) -> Ints:
        """Return the numbers at the places `start` to `stop` - 1 of a random order, by the seed."""
        numbers = np.arange(start, min(stop, len(self)), dtype=np.int64)
        return permuted(numbers, len(self), key=(seed,)) if len(numbers) else numbers

    def texts(self) -> Iterator[str]:
        """Yield the tokens of the prose of each novel, one sentence per line."""
        for table in self._read("text"):
            yield from table["text"].to_pylist()

    @cached_property
    def statistics(self) -> dict[str, float]:
        """Numbers of novels, sentences, tokens and candidates; means of context sentences and tokens."""
        sums, names = np.zeros(2), ("context_sentences", "passage_tokens")
        for table in self._read(*names):
            sums += [_flat(table, name).sum(dtype=np.int64) for name in names]
        means = (sums / len(self)).tolist() if len(self) else [float("nan")] * 2
        sizes = {name: int(self.books[name].sum()) for name in _SIZE_COLUMNS}
        return {"novels": len(self.books), **sizes, "context_sentences": means[0], "passage_tokens": means[1]}

    @property
    def step(self) -> Step:
        """What a manifest says of this step."""
        n = int(self.books["sentences"].sum())
        return Step("candidate passages", n, len(self), self.dropped, unit="sentences")

    def _passages(self, numbers: Ints) -> Iterator[tuple[int, str, list[str], int]]:
        """Yield number, book id, sentences, and number of the target sentence, in ascending order."""
        novels = np.searchsorted(self._starts, numbers, side="right") - 1
        chunks = self.books["chunk"].to_numpy()
        wanted = np.unique(chunks[novels])
        names = ("book_id", "text", "start", "length", "sentence")
        for chunk, table in zip(wanted.tolist(), self._read(*names, chunks=wanted.tolist()), strict=True):
            first = int(np.searchsorted(chunks, chunk))
            here = chunks[novels] == chunk
            pairs = zip(numbers[here].tolist(), novels[here].tolist(), strict=True)
            for novel, group in groupby(pairs, key=lambda pair: pair[1]):
                row = table.slice(novel - first, 1)
                text = row["text"][0].as_buffer()
                columns = [_flat(row, name) for name in names[2:]]
                for number, _ in group:
                    start, length, sentence = (int(array[number - self._starts[novel]]) for array in columns)
                    lines = text[start : start + length].to_pybytes().decode().split("\n")
                    yield number, row["book_id"][0].as_py(), lines, sentence

    def _read(self, *names: str, chunks: Iterable[int] | None = None) -> Iterator[pa.Table]:
        """Yield columns of some chunks of novels, or of all; DataError if the file is damaged."""
        with reading(self.folder, _WHAT, hint=_AGAIN), pq.ParquetFile(self._path) as file:
            for chunk in range(file.num_row_groups) if chunks is None else chunks:
                yield file.read_row_group(chunk, columns=list(names))


def _flat(table: pa.Table, name: str) -> Ints:
    """Return the numbers in a column of lists."""
    values: Ints = pc.list_flatten(table[name]).to_numpy()
    return values


def _info(file: pq.ParquetFile) -> dict[str, Any]:
    """Return what the metadata of a file say of its candidates."""
    content: dict[str, Any] = json.loads(file.metadata.metadata[_INFO])
    return content


def _chunked(corpus: Corpus) -> list[range]:
    """Return the rows of the novels in each chunk."""
    numbers = (corpus.books["tokens"].cumsum() - corpus.books["tokens"]) // _CHUNK
    firsts = [0, *np.flatnonzero(np.diff(numbers)) + 1, len(numbers)]
    return [range(int(start), int(stop)) for start, stop in pairwise(firsts)]


def _opened(folder: Path, key: str) -> CandidatePassages | None:
    """Return the candidates of this key in a folder, None if there are none that can be read."""
    with contextlib.suppress(DataError):
        candidates = CandidatePassages(folder)
        if candidates.key == key:
            return candidates
    return None


def _find_missing(chunks: Sequence[NovelChunk]) -> None:
    """Find the candidates of all chunks that an earlier call did not finish."""
    run_chunks(
        find,
        [chunk for chunk in chunks if not chunk.file.is_file()],
        in_process=sum(chunk.size for chunk in chunks) < _FEW,
        label="finding passages",
        size=lambda chunk: chunk.size,
        unit="tokens",
    )


def _join(chunks: Sequence[NovelChunk], target: Path, key: str) -> None:
    """Write the candidates of all chunks into one file."""
    sums: list[str] = []
    dropped: Counter[str] = Counter()
    rule = list(chunks[0].rule)
    with (
        files.atomic_folder(target, replace=target.exists()) as new,
        pq.ParquetWriter(new / CANDIDATES_FILE, _SCHEMA, compression="zstd") as writer,
    ):
        for chunk in chunks:
            with pq.ParquetFile(chunk.file) as file:
                content = _info(file)
                writer.write_table(file.read().cast(_SCHEMA))
            dropped.update(content["dropped"])
            sums += content["sha256"]
        content = {
            "key": key, "rule": rule, "dropped": dict(dropped),
            "sha256": cache.digest(str(CANDIDATES_VERSION), repr(rule), *sums),
        }  # fmt: skip
        writer.add_key_value_metadata({_INFO.decode(): json.dumps(content)})


def find(chunk: NovelChunk) -> bool:
    """Find the candidates of some novels, and write the file of the chunk; return True."""
    rows: list[dict[str, Any]] = []
    sums = []
    dropped = np.zeros(len(REASONS), np.int64)
    books = chunk.corpus.books
    for row in chunk.rows:
        block = chunk.corpus.book_part(row)
        is_prose, numbers, chapters = prose_sentences(block)
        sizes, text = _measured(block, is_prose)
        sizes["number"], sizes["chapter"] = numbers, chapters
        candidates, reasons = _candidates(sizes, chunk.rule)
        dropped += reasons
        counts = (len(sizes), int(sizes["tokens"].sum()), len(candidates["start"]))
        about: dict[str, Any] = {name: books[name].iloc[row] for name in ("book_id", "title")}
        about |= dict(zip(_SIZE_COLUMNS, counts, strict=True))
        rows.append({**about, "text": text.decode(), **candidates})
        sums.append(cache.digest(repr(about), text, *(array.tobytes() for array in candidates.values())))
    by_reason = dict(zip(REASONS, dropped.tolist(), strict=True))
    content = json.dumps({"dropped": by_reason, "sha256": sums})
    table = pa.Table.from_pylist(rows, _SCHEMA.with_metadata({_INFO: content}))
    with files.atomic_path(chunk.file) as path:
        pq.write_table(table, path, compression="zstd")
    return True


_SIZES = np.dtype(
    [
        ("number", "<i8"),  # of the sentence in its novel
        ("chapter", "<i8"),
        ("tokens", "<i8"), ("bytes", "<i8"),  # the line feed after it included
        ("kind", "<i8"),  # of its last token with a letter or a digit; 0 where there is none
        ("after", "<i8"), ("n_after", "<i8"),  # bytes, with the spaces before them, and tokens after that one
    ]
)  # fmt: skip


def _measured(block: Part, is_prose: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[Any], bytes]:
    """Return the sizes of the prose sentences, and these as lines."""
    ids = block.ids[np.repeat(is_prose, block.lengths)].astype(np.int64)
    sizes = np.zeros(int(is_prose.sum()), _SIZES)
    if not len(sizes):
        return sizes, b""
    type_kinds = np.fromiter(map(_kind, block.words), np.int64, len(block.words))
    n_bytes = np.fromiter((len(word.encode()) + 1 for word in block.words), np.int64, len(block.words))
    sizes["tokens"] = block.lengths[is_prose]
    ends = sizes["tokens"].cumsum()
    starts = ends - sizes["tokens"]
    last = np.maximum.reduceat(np.where(type_kinds[ids] > 0, np.arange(len(ids)), -1), starts)
    has_word = last >= starts
    last = np.where(has_word, last, starts - 1)
    offsets = np.concatenate([[0], n_bytes[ids].cumsum()])
    sizes["bytes"] = offsets[ends] - offsets[starts]
    sizes["kind"] = np.where(has_word, type_kinds[ids[last]], 0)
    sizes["after"], sizes["n_after"] = offsets[ends] - offsets[last + 1], ends - last - 1
    with_ends = np.insert(ids, ends, len(block.words))
    text = " ".join(np.array([*block.words, "\n"], object)[with_ends]).replace(" \n ", "\n")
    return sizes, (text.removesuffix(" \n") + "\n").encode()


def _kind(token: str) -> int:
    """Return whether a token is of letters only, has a letter or a digit, or neither."""
    return _LETTERS if token.isalpha() else _MIXED if any(map(str.isalnum, token)) else 0


def _candidates(sizes: npt.NDArray[Any], rule: Rule) -> tuple[dict[str, npt.NDArray[np.uint32]], Ints]:
    """Return the candidates of a novel, and how many of its sentences have none, by reason."""
    n = len(sizes)
    tokens, offsets = (np.concatenate([[0], sizes[name].cumsum()]) for name in ("tokens", "bytes"))
    opening = np.searchsorted(sizes["chapter"], sizes["chapter"])  # the first sentence of the chapter
    first = np.searchsorted(tokens, tokens[:n] - rule.minimum, side="left") - 1  # of the context
    length = tokens[1:] - sizes["n_after"] - tokens[first]
    faults = (
        sizes["tokens"] < rule.shortest, sizes["kind"] != _LETTERS, first < opening, length > rule.longest,
    )  # fmt: skip
    reason = np.select(faults, range(len(faults)), -1)
    rows = np.flatnonzero(reason < 0)
    begins, ends = offsets[first[rows]], offsets[rows + 1] - 1 - sizes["after"][rows]
    columns = (begins, ends - begins, sizes["number"][rows], rows - first[rows], length[rows])
    candidates = dict(zip(_CANDIDATE_COLUMNS, (each.astype(np.uint32) for each in columns), strict=True))
    return candidates, np.bincount(reason[reason >= 0], minlength=len(faults))
