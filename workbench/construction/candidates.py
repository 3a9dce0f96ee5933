"""Every candidate passage of LAMBADA's rule in novels: found in parallel, stored on disk, read as items.

A chunk of novels becomes two files: the tokens of its prose, one sentence a line, and one record a candidate.
For all chunks together, memory holds a row for each novel, and nothing else.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from workbench.construction.manifest import Step
from workbench.items import text as wt
from workbench.items.items import Items
from workbench.items.schema import Item
from workbench.storage import cache, files, paths
from workbench.storage.checksums import sha256
from workbench.storage.errors import DataError, reading
from workbench.storage.files import read_parquet
from workbench.storage.parallel import run_chunks
from workbench.texts.batches import permuted
from workbench.texts.corpus import Corpus, Texts
from workbench.texts.tokenise import Part, Piece, Tokeniser, parts_cache, prose_sentences, stored_part

Ints = npt.NDArray[np.int64]

VERSION = 4
"""Raised when the same novels give other candidates or files: those of an earlier version are not used."""

REASONS = (
    "short target sentence", "last word not of letters only", "too few tokens before", "too many tokens",
)  # fmt: skip
"""Why a sentence is the last one of no candidate; the first that applies is counted."""

RECORD = np.dtype(
    [
        ("start", "<u8"), ("length", "<u4"),  # bytes of the passage in the text of its chunk
        ("sentence", "<u4"),  # the number of the target sentence among all of its novel
        ("context", "<u2"), ("tokens", "<u2"),  # sentences before the target sentence, tokens of all
    ]
)  # fmt: skip

TEXT, RECORDS, CHUNK = "text.txt", "records.npy", "chunk.json"
"""Files of a chunk: its tokens, one sentence a line; one record a candidate; counts."""

MANIFEST, BOOKS = "candidates.json", "books.parquet"

_LONGEST = (1 << 16) - 1  # tokens that a record can count
_MIXED, _LETTERS = 1, 2  # kinds of types with a letter or a digit
_CHUNK = 1 << 22  # bytes of the novels in a chunk, at least, but for the last
_FEW = 1 << 21  # bytes up to which this process does the work: starting others takes a second
_TOKEN = 5  # bytes of a corpus that count for one of its tokens
_BOOKS = pa.schema(
    [("book_id", pa.string()), ("title", pa.string())]
    + [(name, pa.int64()) for name in ("chunk", "sentences", "tokens", "candidates")]
)
_WHAT, _AGAIN = "this folder of candidate passages", "make it again"


class Rule(NamedTuple):
    """Which passages are candidates: see :meth:`CandidatePassages.of`."""

    minimum: int = 50
    shortest: int = 10
    longest: int = 256


class Source(NamedTuple):
    """A novel, as pieces of text or a row of a corpus; `key` digests all that its candidates depend on."""

    key: str
    book_id: str
    title: str
    size: int  # bytes
    text: list[Piece] | tuple[Corpus, int]

    def parts(self) -> Iterable[Part]:
        """Return the tokens of its sentences."""
        if isinstance(self.text, list):
            store = parts_cache()
            return (stored_part(piece, store) for piece in self.text)
        corpus, row = self.text
        return [corpus.book_part(row)]


class NovelChunk(NamedTuple):
    """Work for one process: some novels, and the folder that their candidates are written to."""

    folder: Path
    sources: list[Source]
    rule: Rule

    @property
    def size(self) -> int:
        """Bytes of the novels."""
        return sum(source.size for source in self.sources)


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
        One row a novel: ``book_id``, ``title``, ``chunk``, ``sentences``, ``tokens``, ``candidates``.
    rule : Rule
        ``minimum``, ``shortest`` and ``longest``, as `of` takes them.
    dropped : dict of str to int
        How many sentences are the last one of no candidate, by reason.
    cased : bool
        Whether there is a capital in the novels.
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
        with reading(self.folder, _WHAT, remedy=_AGAIN):
            content = files.read_json(self.folder / MANIFEST)
            files.check_sizes(self.folder, content["bytes"])
            self.rule, self.sha256 = Rule(*content["rule"]), str(content["sha256"])
            self.dropped: dict[str, int] = content["dropped"]
            self.cased = bool(content["cased"])
            self.books = read_parquet(self.folder / BOOKS).cast(_BOOKS).to_pandas()
        cache.touch(self.folder)
        self._books = np.concatenate([[0], self.books["candidates"].cumsum()]).astype(np.int64)
        sizes = self.books.groupby("chunk")["candidates"].sum()
        self._starts = np.concatenate([[0], sizes.cumsum()]).astype(np.int64)

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
        if minimum < 0 or shortest < 1 or not minimum < longest <= _LONGEST:
            raise DataError(
                f"expected minimum >= 0, shortest >= 1, minimum < longest <= {_LONGEST:,}, got {minimum=},"
                f" {shortest=}, {longest=}",
                remedy="pass other numbers of tokens; LAMBADA's are 50, 10 and 256",
            )
        rule = Rule(int(minimum), int(shortest), int(longest))
        home = paths.cache_home() / "passages" if folder is None else Path(folder).absolute().parent
        with files.temporary_folder(home) as scratch:
            chunked = _chunked(_sources(novels, scratch / "texts"))
            about = (str(VERSION), repr(tuple(rule)))
            keys = [cache.digest(*about, *(source.key for source in sources)) for sources in chunked]
            key = cache.digest(*keys)
            target = home / (key if folder is None else Path(folder).name)
            candidates = _opened(target, key, is_cached=folder is None)
            if candidates is None:
                work = home / f"{key}.unfinished"
                chunks = [
                    NovelChunk(work / chunk_key, sources, rule)
                    for chunk_key, sources in zip(keys, chunked, strict=True)
                ]
                work.mkdir(exist_ok=True)
                _find_all(chunks)
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
        order = np.unique(wanted)
        owners = np.searchsorted(self._books, order, side="right") - 1
        book_ids = self.books["book_id"].to_numpy()[owners].tolist()
        for (number, cased, sentence), book_id in zip(self._passages(order), book_ids, strict=True):
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
        """Yield the tokens of the prose of all novels, one sentence a line, a chunk of novels at a time."""
        for number in range(len(self._starts) - 1):
            yield files.read_bytes(self.folder / _file(number, TEXT)).decode()

    @property
    def frame(self) -> pd.DataFrame:
        """One row a candidate: book_id, sentence (its number), n_context_sentences, n_tokens."""
        table = np.concatenate([np.zeros(0, RECORD), *self._records()])
        owners = np.repeat(self.books.index.to_numpy(), self.books["candidates"])
        return pd.DataFrame(
            {
                "book_id": pd.Categorical.from_codes(owners, self.books["book_id"].tolist()),
                "sentence": table["sentence"],
                "n_context_sentences": table["context"],
                "n_tokens": table["tokens"],
            }
        )

    @cached_property
    def statistics(self) -> dict[str, float]:
        """Numbers of novels, sentences, tokens and candidates; means of context sentences and tokens."""
        sums = np.zeros(2)
        for records in self._records():
            sums += [records["context"].sum(dtype=np.int64), records["tokens"].sum(dtype=np.int64)]
        means = (sums / len(self)).tolist() if len(self) else [float("nan")] * 2
        sizes = {name: int(self.books[name].sum()) for name in ("sentences", "tokens", "candidates")}
        return {"novels": len(self.books), **sizes, "context_sentences": means[0], "passage_tokens": means[1]}

    @property
    def step(self) -> Step:
        """What a manifest says of this step."""
        n = int(self.books["sentences"].sum())
        return Step("candidate passages", n, len(self), self.dropped, unit="sentences")

    def _passages(self, numbers: Ints) -> Iterator[tuple[int, list[str], int]]:
        """Yield number, sentences, and number of the target sentence of candidates, in ascending order."""
        owners = (np.searchsorted(self._starts, numbers, side="right") - 1).tolist()
        for chunk, group in groupby(zip(numbers.tolist(), owners, strict=True), key=lambda pair: pair[1]):
            records = self._chunk_records(chunk)
            with (self.folder / _file(chunk, TEXT)).open("rb") as file:
                for number, _ in group:
                    start, length, sentence, *_ = records[number - self._starts[chunk]].item()
                    file.seek(start)
                    with reading(self.folder, _WHAT, remedy=_AGAIN):
                        sentences = file.read(length).decode().split("\n")
                    yield number, sentences, sentence

    def _records(self) -> Iterator[npt.NDArray[Any]]:
        return map(self._chunk_records, range(len(self._starts) - 1))

    def _chunk_records(self, number: int) -> npt.NDArray[Any]:
        """Map the records of a chunk into memory."""
        with reading(self.folder, _WHAT, remedy=_AGAIN):
            records: npt.NDArray[Any] = np.load(self.folder / _file(number, RECORDS), mmap_mode="r")
            return records


def _file(number: int, name: str) -> str:
    """Return the name of a file of a chunk among those of the others."""
    return f"{number:06d}{Path(name).suffix}"


def _sources(novels: Texts, path: Path) -> Iterator[Source]:
    """Yield the novels of a corpus, or those that are copied to a file, in pieces."""
    if isinstance(novels, Corpus):
        rows = novels.books[["book_id", "title", "tokens"]].itertuples(index=False)
        content = cache.digest(novels.sha256, novels.roles.tobytes())
        for row, (book_id, title, n_tokens) in enumerate(rows):
            key = cache.digest(book_id, title, content, str(row))
            yield Source(key, book_id, title, n_tokens * _TOKEN, (novels, row))
        return
    tokeniser = Tokeniser(path)
    tokeniser.read(novels)
    for pieces in tokeniser.by_book():
        names = tokeniser.books[pieces[0].book]
        key = cache.digest(*names, *(piece.key for piece in pieces))
        yield Source(key, *names, sum(piece.size for piece in pieces), pieces)


def _chunked(sources: Iterable[Source]) -> list[list[Source]]:
    """Return the novels in chunks; DataError if there is none."""
    chunks: list[list[Source]] = []
    size = _CHUNK
    for source in sources:
        if size >= _CHUNK:
            chunks.append([])
            size = 0
        chunks[-1].append(source)
        size += source.size
    if not chunks:
        raise DataError("there is no novel to take passages from", remedy="pass a path or books")
    return chunks


def _opened(folder: Path, key: str, *, is_cached: bool) -> CandidatePassages | None:
    """Return the candidates of this key in a folder, None if it is to be made; DataError if it is in use."""
    if is_cached:
        with contextlib.suppress(DataError):
            return CandidatePassages(folder)
    elif folder.exists() and files.list_folder(folder):
        is_same = False
        with contextlib.suppress(DataError), reading(folder):
            is_same = files.read_json(folder / MANIFEST)["key"] == key
        if is_same:
            return CandidatePassages(folder)
        raise DataError(
            "this folder holds something else, or candidates of other novels or another rule", file=folder,
            remedy="name another folder, or remove it",
        )  # fmt: skip
    return None


def _find_all(chunks: Sequence[NovelChunk]) -> None:
    """Find the candidates of all chunks that an earlier call did not finish."""
    names = (TEXT, RECORDS, CHUNK)
    unfinished = [chunk for chunk in chunks if not all((chunk.folder / name).is_file() for name in names)]
    run_chunks(
        find,
        unfinished,
        in_process=sum(chunk.size for chunk in chunks) < _FEW,
        label="finding passages",
        size=lambda chunk: chunk.size,
        unit="B",
    )


def _join(chunks: Sequence[NovelChunk], target: Path, key: str) -> None:
    """Move the files of all chunks into one folder."""
    rows: list[dict[str, Any]] = []
    sums: list[str] = []
    dropped: Counter[str] = Counter()
    is_cased = False
    with files.atomic_folder(target, replace=target.exists()) as new:
        for number, chunk in enumerate(chunks):
            result = files.read_json(chunk.folder / CHUNK)
            for source, counts in zip(chunk.sources, result["books"], strict=True):
                rows.append({"book_id": source.book_id, "title": source.title, "chunk": number, **counts})
            dropped.update(result["dropped"])
            is_cased |= result["cased"]
            sums += result["sha256"]
            for name in (TEXT, RECORDS):
                (chunk.folder / name).rename(new / _file(number, name))
        pq.write_table(pa.Table.from_pylist(rows, _BOOKS), new / BOOKS, compression="zstd")
        rule = list(chunks[0].rule)
        content = {
            "version": VERSION, "key": key, "rule": rule, "dropped": dict(dropped), "cased": is_cased,
            "sha256": cache.digest(str(VERSION), repr(rule), repr(rows), *sums),
            "bytes": files.file_sizes(new),
        }  # fmt: skip
        (new / MANIFEST).write_text(json.dumps(content, indent=1), encoding="utf-8")


def find(chunk: NovelChunk) -> bool:
    """Find the candidates of some novels, and write the folder of the chunk; return True."""
    books, tables, is_cased = [], [np.zeros(0, RECORD)], False
    dropped = np.zeros(len(REASONS), np.int64)
    with files.atomic_folder(chunk.folder, replace=True) as new:
        with (new / TEXT).open("wb") as file:
            for source in chunk.sources:
                start, columns = file.tell(), []
                for block, is_prose, numbers, chapters in prose_sentences(source.parts()):
                    sizes, text, has_capitals = _measured(block, is_prose)
                    file.write(text)
                    is_cased |= has_capitals
                    sizes["number"], sizes["chapter"] = numbers, chapters
                    columns.append(sizes)
                sizes = np.concatenate(columns)
                records, reasons = _candidates(sizes, start, chunk.rule)
                tables.append(records)
                dropped += reasons
                n_tokens = int(sizes["tokens"].sum())
                books.append({"sentences": len(sizes), "tokens": n_tokens, "candidates": len(records)})
        with (new / RECORDS).open("wb") as file:
            np.save(file, np.concatenate(tables))
        by_reason = dict(zip(REASONS, dropped.tolist(), strict=True))
        sums = [sha256(new / name) for name in (TEXT, RECORDS)]
        content = json.dumps({"books": books, "dropped": by_reason, "cased": is_cased, "sha256": sums})
        (new / CHUNK).write_text(content, encoding="utf-8")
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


def _measured(block: Part, is_prose: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[Any], bytes, bool]:
    """Return the sizes of the prose sentences, these as lines, and whether there is a capital in them."""
    ids = block.ids[np.repeat(is_prose, block.lengths)].astype(np.int64)
    sizes = np.zeros(int(is_prose.sum()), _SIZES)
    if not len(sizes):
        return sizes, b"", False
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
    is_cased = any(word != word.lower() for word in map(block.words.__getitem__, np.unique(ids).tolist()))
    return sizes, (text.removesuffix(" \n") + "\n").encode(), is_cased


def _kind(token: str) -> int:
    """Return whether a token is of letters only, has a letter or a digit, or neither."""
    return _LETTERS if token.isalpha() else _MIXED if any(map(str.isalnum, token)) else 0


def _candidates(sizes: npt.NDArray[Any], start: int, rule: Rule) -> tuple[npt.NDArray[Any], Ints]:
    """Return the candidates of a novel, and how many of its sentences have none, by reason.

    `start` is the byte at which its text starts.
    """
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
    records = np.zeros(len(rows), RECORD)
    begins, ends = offsets[first[rows]], offsets[rows + 1] - 1 - sizes["after"][rows]
    records["start"], records["length"] = start + begins, ends - begins
    records["sentence"], records["context"] = sizes["number"][rows], rows - first[rows]
    records["tokens"] = length[rows]
    return records, np.bincount(reason[reason >= 0], minlength=len(faults))
