"""Every candidate passage of LAMBADA's rule in novels: found in parallel, stored on disk, read as items.

Novels are cut into sentences a chunk of them at a time (:mod:`workbench.construction.lambada_rule`). For all
chunks together, memory holds a row for each chunk and each novel, and nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from workbench.construction.lambada_rule import (
    REASONS,
    RECORD,
    VERSION,
    NovelChunk,
    Rule,
    Source,
    checked_rule,
    find,
    records_file,
    text_file,
)
from workbench.construction.manifest import Step
from workbench.construction.novels import checked_novels
from workbench.items import text as wt
from workbench.items.items import Items
from workbench.items.schema import Item
from workbench.storage import cache, files
from workbench.storage.errors import DataError, reading
from workbench.storage.parallel import run_chunks
from workbench.storage.parquet import read_parquet
from workbench.storage.progress import progress_bar
from workbench.storage.sealed import sha256
from workbench.texts.corpus import Corpus, Texts, lines_or_books
from workbench.texts.passages import permuted
from workbench.texts.tokenise import utf8

if TYPE_CHECKING:
    from distributed import Client

Ints = npt.NDArray[np.int64]

MANIFEST, BOOKS, CHUNKS = "candidates.json", "books.parquet", "chunks.parquet"

_CHUNK = 1 << 22  # bytes of the novels in a chunk, at least, but for the last
_FEW = 1 << 21  # bytes up to which this process does the work: starting others takes a second
_BLOCK = 4096  # items that are made at a time
_UNFINISHED = "unfinished.json"  # the key of what is being made, beside descriptions of finished chunks
_BOOKS = pa.schema(
    [("book_id", pa.string()), ("title", pa.string())]
    + [(name, pa.int64()) for name in ("chunk", "sentences", "tokens", "candidates")]
)
_SIZES = ("candidates", "text_bytes", "records_bytes")
_CHUNKS = pa.schema(
    [(name, pa.int64()) for name in _SIZES]
    + [(f"{name}_sha256", pa.string()) for name in ("text", "records")]
)
_AGAIN = "make it again"


class Candidates:
    """All candidate passages of some novels, on disk, in the order of the novels.

    Make them by `of`. A candidate has a number from 0 on; `items` makes items of numbers, `sample` of some
    that are drawn, `blocks` of all, a block at a time.

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
        If the folder holds no candidates, or they were changed. The files of a chunk are compared with their
        checksums when it is first read.

    Examples
    --------
    >>> from workbench.construction.candidates import Candidates
    >>> candidates = Candidates.of(wb.books("sample"), progress=False)
    >>> candidates
    Candidates(1,847 passages, 20 novels, 43,185 tokens)
    >>> candidates.sample(2)[0].answer
    'cherries'
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        with reading(self.folder, "this folder of candidate passages", remedy=_AGAIN):
            content = json.loads(files.read_bytes(self.folder / MANIFEST))
            checksum = content.pop("checksum")
            is_same = checksum == _digest_of(content) and content["version"] == VERSION
            books = read_parquet(self.folder / BOOKS, remedy=_AGAIN).cast(_BOOKS)
            chunks = read_parquet(self.folder / CHUNKS, remedy=_AGAIN).cast(_CHUNKS)
            is_same &= content["sha256"] == _digest(Rule(*content["rule"]), books, chunks)
        if not is_same:
            raise DataError("these candidate passages were changed", file=self.folder, remedy=_AGAIN)
        cache.hold(self, self.folder)
        self.rule, self.sha256 = Rule(*content["rule"]), str(content["sha256"])
        self.dropped: dict[str, int] = content["dropped"]
        self.cased = bool(content["cased"])
        self.books = books.to_pandas()
        self._chunks = chunks.to_pandas()
        self._starts = np.concatenate([[0], self._chunks["candidates"].cumsum()]).astype(np.int64)
        self._books = np.concatenate([[0], self.books["candidates"].cumsum()]).astype(np.int64)
        self._checked: set[int] = set()

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __repr__(self) -> str:
        tokens = self.books["tokens"].sum()
        return f"Candidates({len(self):,} passages, {len(self.books):,} novels, {tokens:,} tokens)"

    def __reduce__(self) -> tuple[Any, ...]:
        return Candidates, (self.folder,)

    @classmethod
    def of(
        cls,
        novels: Texts,
        *,
        minimum: int = 50,
        shortest: int = 10,
        longest: int = 256,
        folder: Path | str | None = None,
        workers: int | None = None,
        client: Client | None = None,
        progress: bool = True,
    ) -> Candidates:
        """Find all candidate passages of novels, or those that were found before.

        A passage is a target sentence, cut after its last word, the target, and the fewest whole sentences
        before it in its chapter that have more than `minimum` tokens together (Paperno et al. 2016, section
        3.1). The same novels and rule give the same files, byte for byte, whoever computes them. A call that
        was killed resumes: finished chunks of novels are not computed again.

        Parameters
        ----------
        novels : Corpus, path, str, book, or iterable of these
            Read once, one at a time, as :meth:`workbench.texts.corpus.Corpus.of` does. Strings in an iterable
            are sentences; consecutive ones are one novel. Running text is cut into chapters as
            :func:`workbench.construction.novels.chapters_of` does, without their headings.
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
        workers : int, optional
            Number of processes; all cores by default.
        client : distributed.Client, optional
            A Dask cluster, in place of processes. Its workers must see the folder under the same path.
        progress : bool, default True
            Show bars.

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
        rule = checked_rule(minimum, shortest, longest)
        home = files.data_home() / "cache" / "passages" if folder is None else Path(folder).absolute().parent
        with files.scratch_folder(home) as scratch:
            sources = _copied(novels, scratch / "texts", progress=progress)
            keys = [_key(rule, part) for part in sources]
            key = cache.digest(*keys)
            target = home / key if folder is None else Path(folder).absolute()
            if folder is not None or _is_intact(target):
                _check_owner(target, key)
            else:
                files.discard(target)
            if not (target / MANIFEST).exists():
                chunks = [
                    NovelChunk(
                        keys[number], number, target, scratch / "texts", tuple(s for s, _ in part), rule
                    )
                    for number, part in enumerate(sources)
                ]
                _write(chunks, key, workers, client, progress=progress)
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
            ``capitalised``, unless these hold no capital).
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
        variant = "capitalised" if self.cased and not lowercased else "plain"
        rows: dict[int, Item] = {}
        book_ids = self.books["book_id"].tolist()
        order = np.unique(wanted)
        owners = (np.searchsorted(self._books, order, side="right") - 1).tolist()
        for (number, lines, record), owner in zip(self._passages(order), owners, strict=True):
            rows[number] = _item(
                f"lambada/{split}/{book_ids[owner]}/{record['sentence']:06d}",
                [line.lower() if lowercased else line for line in lines],
                split, variant, book_ids[owner], choices=choices,
            )  # fmt: skip
        return Items.from_records(rows[number] for number in wanted.tolist())

    def sample(self, n: int, seed: int = 0, **options: Any) -> Items:
        """Return `n` items drawn without replacement (all, if there are fewer), in the order of the draw.

        The first items of a larger sample are those of a smaller one. `options` are those of `items`.
        """
        return self.items(self.drawn(0, n, seed), **options)

    def drawn(self, start: int, stop: int, seed: int = 0) -> Ints:
        """Return the numbers at the places `start` to `stop` - 1 of a random order, by the seed."""
        places = np.arange(start, min(stop, len(self)), dtype=np.int64)
        return permuted(places, len(self), key=(seed,)) if len(places) else places

    def blocks(self, size: int = _BLOCK, **options: Any) -> Iterator[Items]:
        """Yield all items in order, `size` at a time; `options` are those of `items`."""
        for start in range(0, len(self), size):
            yield self.items(range(start, min(start + size, len(self))), **options)

    def texts(self) -> Iterator[str]:
        """Yield the tokens of all novels, one sentence a line, a chunk of novels at a time."""
        for number in range(len(self._chunks)):
            self._records(number)
            yield files.read_bytes(self.folder / text_file(number)).decode()

    @property
    def frame(self) -> pd.DataFrame:
        """One row a candidate: ``book_id``, ``sentence``, ``n_context_sentences``, ``n_tokens``.

        ``sentence`` is the number of the target sentence in its novel.
        """
        parts = [self._records(number) for number in range(len(self._chunks))]
        table = np.concatenate([np.zeros(0, RECORD), *parts])
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
        for number in range(len(self._chunks)):
            records = self._records(number)
            sums += [records["context"].sum(dtype=np.int64), records["tokens"].sum(dtype=np.int64)]
        means = (sums / len(self)).tolist() if len(self) else [float("nan")] * 2
        sizes = {name: int(self.books[name].sum()) for name in ("sentences", "tokens", "candidates")}
        return {"novels": len(self.books), **sizes, "context_sentences": means[0], "passage_tokens": means[1]}

    @property
    def step(self) -> Step:
        """What a manifest says of this step."""
        n = int(self.books["sentences"].sum())
        return Step("candidate passages", n, len(self), self.dropped, unit="sentences")

    def _passages(self, numbers: Ints) -> Iterator[tuple[int, list[str], Any]]:
        """Yield sentences and record of candidates by number, which are in ascending order."""
        owners = (np.searchsorted(self._starts, numbers, side="right") - 1).tolist()
        for chunk, group in groupby(zip(numbers.tolist(), owners, strict=True), key=lambda pair: pair[1]):
            records = self._records(chunk)
            with files.open_regular(self.folder / text_file(chunk)) as file:
                for number, _ in group:
                    record = records[number - self._starts[chunk]]
                    file.seek(int(record["start"]))
                    yield number, file.read(int(record["end"])).decode().split("\n"), record

    def check(self) -> None:
        """Compare all files with their checksums; DataError if one was changed or is missing."""
        for number in range(len(self._chunks)):
            self._records(number)

    def _records(self, number: int) -> npt.NDArray[Any]:
        """Map the records of a chunk into memory; DataError if its files are not those that were written."""
        row = self._chunks.iloc[number]
        with reading(self.folder, "this folder of candidate passages", remedy=_AGAIN):
            if number not in self._checked:
                for name, kind in ((text_file(number), "text"), (records_file(number), "records")):
                    if sha256(self.folder / name) != row[f"{kind}_sha256"]:
                        raise ValueError(f"{name} was changed")
                self._checked.add(number)
            records: npt.NDArray[Any] = files.map_array(self.folder, Path(records_file(number)).stem)
            if records.dtype != RECORD or len(records) != row["candidates"]:
                raise ValueError(f"{records_file(number)} holds other records")
            return records


def _item(item_id: str, lines: list[str], split: str, variant: str, book_id: str, *, choices: bool) -> Item:
    """Make an item of the sentences of a passage, the last of which ends in the target."""
    text = " ".join(lines)
    answer = text.rpartition(" ")[2]
    return Item(
        item_id=item_id,
        dataset="lambada",
        split=split,
        variant=variant,
        text=text,
        answer=answer,
        answer_span=(len(text) - len(answer), len(text)),
        sentences=tuple(wt.joined_spans(lines)),
        candidates=tuple(dict.fromkeys([*" ".join(lines[:-1]).split(" "), answer])) if choices else None,
        book_id=book_id,
    )


def _copied(novels: Texts, path: Path, *, progress: bool) -> list[list[tuple[Source, str]]]:
    """Copy all novels to a file; return where they are, with a digest of each, by chunk."""
    chunks: list[list[tuple[Source, str]]] = []
    ids: Counter[str] = Counter()
    size = _CHUNK
    with path.open("wb") as file, progress_bar(label="reading", unit="B", shown=progress) as bar:
        for name, title, lines, tokenised, pieces in _texts(novels):
            offset, content = file.tell(), hashlib.sha256()
            for piece in pieces:
                data = utf8(piece)
                file.write(data)
                content.update(data)
                bar.update(len(data))
            ids[name] += 1
            book_id = name if ids[name] == 1 else f"{name} {ids[name]}"
            if size >= _CHUNK:
                chunks.append([])
                size = 0
            source = Source(book_id, title, offset, file.tell() - offset, lines, tokenised)
            chunks[-1].append((source, content.hexdigest()))
            size += source.size
    if not chunks:
        raise DataError("there is no novel to take passages from", remedy="pass a path or books")
    return chunks


def _texts(novels: Texts) -> Iterator[tuple[str, str, bool, bool, Iterable[str]]]:
    """Yield identifier, title, whether it has a sentence a line, whether it is tokenised, and the text."""
    if isinstance(novels, Corpus):
        sentences = novels.lines()
        for book in novels.books.itertuples():
            yield book.book_id, book.title, True, True, _ended(islice(sentences, book.sentences))
        return
    texts = checked_novels(lines_or_books(novels), with_lines=True)
    for are_lines, group in groupby(texts, lambda text: isinstance(text, str)):
        if are_lines:
            yield "lines", "", True, True, _ended(map(str, group))
            continue
        for book in group:
            yield book.book_id, str(book.title or ""), False, bool(book.tokenised), [book.text]


def _ended(lines: Iterable[str]) -> Iterator[str]:
    return (f"{line}\n" for line in lines)


def _key(rule: Rule, sources: Sequence[tuple[Source, str]]) -> str:
    """Return a digest of all that the files of a chunk depend on."""
    parts = (repr((s.book_id, s.title, s.lines, s.tokenised, content)) for s, content in sources)
    return cache.digest(str(VERSION), repr(tuple(rule)), *parts)


def _is_intact(folder: Path) -> bool:
    """Return False where a folder of the cache holds candidates of which a file is damaged."""
    if (folder / MANIFEST).exists():
        try:
            Candidates(folder).check()
        except DataError:
            return False
    return True


def _check_owner(folder: Path, key: str) -> None:
    """Raise DataError if a folder holds anything but candidates of this key, finished or not."""
    names = {path.name for path in files.listed(folder)}
    for name in sorted(names & {MANIFEST, _UNFINISHED}):
        with contextlib.suppress(DataError), reading(folder):
            if files.read_json(folder / name)["key"] == key:
                return
    if names:
        raise DataError(
            "this folder holds something else, or candidates of other novels or another rule", file=folder,
            remedy="name another folder, or remove it",
        )  # fmt: skip


def _write(
    chunks: Sequence[NovelChunk], key: str, workers: int | None, client: Client | None, *, progress: bool
) -> None:
    """Find the candidates of all chunks, and write the files of the folder; the manifest comes last."""
    folder = chunks[0].folder
    files.write_atomic(folder / _UNFINISHED, json.dumps({"key": key}))
    finished = cache.hold(_Finished(folder), folder)
    total = sum(map(_size, chunks))
    results = run_chunks(
        find, chunks, keys=[chunk.key for chunk in chunks], store=finished, client=client,
        workers=1 if total < _FEW else workers, progress="finding passages" if progress else None,
        size=_size, unit="B",
    )  # fmt: skip
    books = pa.Table.from_pylist(
        [
            {"book_id": source.book_id, "title": source.title, "chunk": chunk.number, **counts}
            for chunk, result in zip(chunks, results, strict=True)
            for source, counts in zip(chunk.sources, result["books"], strict=True)
        ],
        _BOOKS,
    )
    sizes = pa.Table.from_pylist([result["files"] for result in results], _CHUNKS)
    dropped: Counter[str] = Counter()
    for result in results:
        dropped.update(result["dropped"])
    rule = chunks[0].rule
    content = {
        "version": VERSION,
        "key": key,
        "rule": list(rule),
        "dropped": {reason: dropped[reason] for reason in REASONS},
        "cased": any(result["cased"] for result in results),
        "sha256": _digest(rule, books, sizes),
    }
    for name, table in ((BOOKS, books), (CHUNKS, sizes)):
        with files.atomic_path(folder / name) as path:
            pq.write_table(table, path, compression="zstd")
    content["checksum"] = _digest_of(content)
    files.write_atomic(folder / MANIFEST, json.dumps(content, indent=1))
    for name in (_UNFINISHED, *(finished.path(chunk.key).name for chunk in chunks)):
        (folder / name).unlink(missing_ok=True)


class _Finished:
    """The descriptions of finished chunks in the folder of their files, by key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, key: str) -> Path:
        return self.folder / f"{key}.json"

    def get(self, key: str) -> dict[str, Any] | None:
        """Return the description of a chunk, None if it is not finished, or its files are not there."""
        with contextlib.suppress(DataError), reading(self.folder):
            result: dict[str, Any] = files.read_json(self.path(key))
            if result.pop("checksum") != _digest_of(result):
                return None
            for kind in ("text", "records"):
                path = files.path_in(self.folder, result["names"][kind])
                if sha256(path) != result["files"][f"{kind}_sha256"]:
                    return None
            return result
        return None

    def put(self, key: str, value: dict[str, Any]) -> None:
        """Store the description of a chunk."""
        files.write_atomic(self.path(key), json.dumps({**value, "checksum": _digest_of(value)}))


def _size(chunk: NovelChunk) -> int:
    return sum(source.size for source in chunk.sources)


def _digest(rule: Rule, books: pa.Table, chunks: pa.Table) -> str:
    """Return a digest of all that candidates hold."""
    return cache.digest(str(VERSION), repr(tuple(rule)), cache.content(books), cache.content(chunks))


def _digest_of(content: Mapping[str, Any]) -> str:
    return cache.digest(json.dumps(content, sort_keys=True))
