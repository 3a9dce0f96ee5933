"""A collection of novels, checked and split: what a data set is made from, and why novels were dropped."""

from __future__ import annotations

import hashlib
import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from workbench.construction.manifest import FileDigest, Manifest, Step
from workbench.construction.novel_checks import (
    CHECKS_VERSION,
    LIBRARIES,
    PARAMETERS,
    SAMPLE,
    SAMPLES,
    Pair,
    check_novels,
    connected_groups,
    languages,
    offensive_words,
    similar_pairs,
)
from workbench.construction.novels import seed_of
from workbench.datasets import sources
from workbench.datasets.books import Book, BookIterator, book_files, books
from workbench.render.results import Table, TableColumn, TableLayout
from workbench.storage import cache, files, paths
from workbench.storage.errors import DataError, reading
from workbench.storage.files import read_parquet
from workbench.storage.packages import library_versions
from workbench.storage.progress import progress_bar
from workbench.texts.tokenise import Novels, checked_texts

SHARES = {"train": 0.5, "dev": 0.25, "test": 0.25}
"""The parts of LAMBADA: half of the novels to train on (Paperno et al. 2016, section 3.1)."""

STAGE = "novels"
"""The name of this stage in a manifest."""

_DRAW = "shelf"  # part of the seed of every draw: another word would split the same novels in another way
_NOVELS, _PAIRS, _TEXTS = "novels.parquet", "pairs.parquet", "texts"
_UNREADABLE = "cannot be read"
_LISTED = 3  # reasons in a message
_DUPLICATES = ("drop", "drop contained", "keep")
_COMPARED = TableLayout(
    "Novels that were compared",
    (*map(TableColumn, Pair._fields[:2]), *(TableColumn(name, "share") for name in Pair._fields[2:])),
)
_LABELS = ("book_id", "title", "author", "year", "tokenised", "sha256")
_COLUMNS = (
    *_LABELS, "words", "chapters", "language", "confidence", "offensive", "reason", "similar_to", "jaccard",
    "containment", "group", "duplicate_of", "split",
)  # fmt: skip


class NovelCollection:
    """Novels that were checked and split, on disk.

    Iterating yields the novels that were not dropped as :class:`workbench.Book`, one in memory at a time.

    Attributes
    ----------
    folder : Path
    frame : DataFrame
        All novels, by id: ``book_id``, ``title``, ``author``, ``year``, ``tokenised``, ``sha256`` (of the
        text in UTF-8), ``words``, ``chapters``, ``language`` and its ``confidence``, ``offensive``
        (occurrences of words of the list), ``similar_to`` (the novel that holds most of its 5-grams),
        ``jaccard`` and ``containment`` (with that novel; the share of its own 5-grams that the other has),
        ``group`` (the smallest id of the novels that are in one part), ``duplicate_of``, ``split`` (missing
        if dropped), and ``reason`` (why it was dropped, missing if not).
    pairs : Table
        All pairs that were compared: ``one``, ``other``, ``jaccard``, ``one_in_other``, ``other_in_one``.
    manifest : Manifest
        Its ``to_frame()`` is the funnel.

    Examples
    --------
    >>> from workbench import construction
    >>> made = construction.read_novels("sample")
    >>> made.save("collection")
    PosixPath('collection')
    >>> construction.NovelCollection("collection").manifest == made.manifest
    True
    """

    def __init__(self, folder: Path | str) -> None:
        """Open a folder that `save` wrote; DataError if it is damaged."""
        self.folder = Path(folder)
        self.manifest = Manifest.load(self.folder)
        tables = []
        for name, columns in ((_NOVELS, _COLUMNS), (_PAIRS, Pair._fields)):
            path, hint = self.folder / name, "make the collection again"
            table = read_parquet(path, what="this table of novels", hint=hint)
            with reading(path, "this table of novels", hint=hint):
                tables.append(table.select(columns).to_pandas())
        self.frame, pairs = tables
        self.pairs = Table(pairs, _COMPARED)
        cache.touch(self.folder)

    def __len__(self) -> int:
        return int(self.frame["reason"].isna().sum())

    def __iter__(self) -> Iterator[Book]:
        return self.books()

    def __repr__(self) -> str:
        sizes = ", ".join(f"{n:,} {split}" for split, n in self._sizes().items())
        return f"<NovelCollection of {len(self):,} novels ({sizes}), {len(self.frame) - len(self):,} dropped>"

    def _sizes(self) -> dict[str, int]:
        names: list[str] = list(self.manifest.parameters[STAGE]["shares"])
        return {name: int((self.frame["split"] == name).sum()) for name in names}

    def books(self, split: str | None = None) -> Iterator[Book]:
        """Return an iterator over the novels of a part, or all that were not dropped, by id.

        Raises
        ------
        DataError
            If there is no such part; while reading, if a text is missing.

        Examples
        --------
        >>> from workbench import construction
        >>> made = construction.read_novels("sample")
        >>> [book.title for book in made.books("train")][:2]
        ['Market Day at Quarrow', 'Night Shift at Corran']
        """
        frame = self.frame[self.frame["reason"].isna()]
        if split is not None:
            sources.check_choice("part", split, list(self._sizes()), "this collection")
            frame = frame[frame["split"] == split]
        return (self._book(row) for row in frame[list(_LABELS)].itertuples(index=False))

    def _book(self, row: Any) -> Book:
        path = self.folder / _TEXTS / f"{row.sha256}.txt"
        content = files.read_bytes(path, "this novel of a collection")
        year = None if pd.isna(row.year) else int(row.year)
        author = None if pd.isna(row.author) else row.author
        return Book(row.book_id, row.title, author, year, content.decode(), bool(row.tokenised), str(path))

    def save(self, folder: Path | str) -> Path:
        """Copy the texts, the tables and the manifest to a folder, at once or not at all; return its path."""
        with files.atomic_folder(folder, replace=True) as new:
            shutil.copytree(self.folder, new, dirs_exist_ok=True)
        return Path(folder)


class NovelLimits(NamedTuple):
    """Limits that decide which novels `read_novels` drops or groups.

    Attributes
    ----------
    confidence : float, default 0.8
        Novels whose language is less certain are dropped: see `detect_language`.
    offensive_rate : float, default 0
        Novels in which more than this share of the words is offensive are dropped; by default those with any.
    jaccard : float, default 0.5
        Two novels with this Jaccard similarity of their sets of word 5-grams, or more, are near-duplicates.
        All but the longest of each set of near-duplicates are dropped.
    containment : float, default 0.5
        Two novels of which one holds this share of the other's 5-grams, or more, are in one group, and a
        group is in one part: an omnibus and its novels, an abridged edition and the whole one.
    """

    confidence: float = 0.8
    offensive_rate: float = 0.0
    jaccard: float = 0.5
    containment: float = 0.5


def read_novels(
    novels: Novels,
    *,
    shares: Mapping[str, float] = SHARES,
    seed: int = 0,
    language: str | None = "English",
    offensive: Path | str | None = None,
    duplicates: str = "drop",
    on_error: str = "raise",
    **limits: float,
) -> NovelCollection:
    """Read novels, check language, offensive words and near-duplicates, and split them into parts.

    Each novel is checked by itself in processes or on a cluster; what was checked before comes from the
    cache, so a run that was interrupted goes on where it stopped. The outcome depends on the novels, the
    parameters and the versions of the libraries alone: not on the order of the novels, nor on where the work
    is done.

    Parameters
    ----------
    novels : path, str, book, or iterable of these
        A file, folder or archive of plain text or Markdown, as Project Gutenberg's; the name of a data set
        with books; or what :func:`workbench.books` yields.
    shares : mapping of str to float
        The parts and their shares of the novels; LAMBADA's by default. A novel's part is drawn by the seed
        and the smallest id of its group, whatever the other novels are, so shares hold on average: of 200
        novels 100 are to train on, more or less 7.
    seed : int, default 0
        Of the split.
    language : str or None
        Other novels are dropped; None keeps all. One of the 75 languages of lingua.
    offensive : path, optional
        A list of offensive words or phrases, one per line; case and accents do not matter.
    duplicates : {"drop", "drop contained", "keep"}
        Drop near-duplicates; those of which a longer novel contains so much, too; or none. Groups are in
        one part in any case.
    on_error : {"raise", "skip"}
        Raise the error of a file that cannot be read, or go on: the file is a row whose ``reason`` begins
        with "cannot be read".
    **limits : float
        Those of :class:`NovelLimits`: ``confidence``, ``offensive_rate``, ``jaccard``, ``containment``.

    Returns
    -------
    NovelCollection
        Stored in ``cache/novels``; ``save`` copies it.

    Raises
    ------
    DataError
        If there is no novel, a file cannot be read and `on_error` is "raise", an id occurs twice, no novel is
        left, or a parameter is not valid.

    Notes
    -----
    Candidates for pairs are found by MinHash, so a pair may be missed: see
    :mod:`workbench.construction.novel_checks`. What the two share is then counted exactly. In simulations all
    pairs were candidates in which so many words were changed at random that half of the 5-grams were left
    (60 pairs each of 4,000 and 20,000 words, 25 of 75,000). Where the first half of a novel stood in a text
    three times as long, 75 % of those of 4,000 words were, 98 % of 20,000, and all of 75,000.

    Examples
    --------
    >>> from workbench import construction
    >>> made = construction.read_novels("sample")
    >>> made.frame["language"].unique().tolist()
    ['English']
    >>> made.manifest.to_frame()["step"].tolist()
    ['text', 'language', 'offensive words', 'near-duplicates', 'split']
    """
    sources.check_choice("mode", duplicates, _DUPLICATES, "duplicates")
    confidence, offensive_rate, jaccard, containment = NovelLimits(**limits)
    is_possible = all(0 <= value <= 1 for value in (confidence, jaccard, containment))
    is_possible &= min(shares.values(), default=0) > 0 and math.isclose(sum(shares.values()), 1)
    if not is_possible:
        raise DataError(
            "expected a confidence, jaccard and containment from 0 to 1 and shares above 0 that add up to 1, "
            f"got {confidence=}, {jaccard=}, {containment=}, {shares=}",
            hint='pass such as confidence=0.5 and shares={"train": 0.8, "test": 0.2}',
        )
    if language is not None:
        language = sources.check_choice("language", language.capitalize(), languages(), "lingua")
    phrases = [] if offensive is None else offensive_words(offensive)
    parameters = {
        "version": CHECKS_VERSION,
        "shares": dict(shares),
        "seed": seed,
        "language": language,
        "confidence": confidence,
        "language_samples": f"{SAMPLES} of {SAMPLE} characters",
        "offensive_list": cache.digest(*map(" ".join, phrases)) if phrases else None,
        "offensive_rate": offensive_rate,
        "jaccard": jaccard,
        "containment": containment,
        "duplicates": duplicates,
        **PARAMETERS,
    }
    home = paths.cache_home() / "novels"
    with files.temporary_folder(home) as scratch:
        frame, inputs, unreadable = _copied(novels, scratch, on_error)
        if offensive is not None:
            inputs.append(FileDigest.of(offensive))
        base = Manifest(inputs, {STAGE: parameters}, versions=library_versions(*LIBRARIES))
        folder = home / cache.digest(
            base.digest, frame.to_json(), *(f"{n}: {why}" for n, why in sorted(unreadable.items()))
        )
        with_same_key = _opened(folder)
        if with_same_key is not None:
            return with_same_key
        texts = {name: scratch / f"{sha256}.txt" for name, sha256 in _columns(frame, "book_id", "sha256")}
        results, sketches = check_novels(frame, texts, phrases)
        frame = pd.concat([frame, results], axis=1)
        frame["reason"] = _reasons(frame, language, confidence, offensive_rate)
        remaining = frame.loc[frame["reason"].isna(), "book_id"].tolist()
        pairs = similar_pairs({name: sketches[name] for name in remaining}, texts)
        frame = _grouped(frame, pairs, jaccard=jaccard, containment=containment, mode=duplicates)
        if frame["reason"].notna().all():
            counts = "; ".join(f"{reason}: {n:,}" for reason, n in frame["reason"].value_counts().items())
            raise DataError(f"no novel is left ({counts})", hint="pass other novels, or other limits")
        frame["split"] = _split(frame, shares, seed)
        with files.atomic_folder(folder, replace=folder.exists()) as new:
            (new / _TEXTS).mkdir()
            for name in frame.loc[frame["reason"].isna(), "sha256"].unique():
                (scratch / f"{name}.txt").rename(new / _TEXTS / f"{name}.txt")
            frame = _with_unreadable(frame, unreadable)
            frame.to_parquet(new / _NOVELS, index=False)
            pd.DataFrame(pairs, columns=list(Pair._fields)).to_parquet(new / _PAIRS, index=False)
            outputs = [FileDigest.of(new / name) for name in (_NOVELS, _PAIRS)]
            Manifest(inputs, base.parameters, _steps(frame, list(shares)), outputs, base.versions).save(new)
    made = NovelCollection(folder)
    cache.make_room()
    return made


def _columns(frame: pd.DataFrame, *names: str) -> Iterator[tuple[Any, ...]]:
    return zip(*(frame[name].tolist() for name in names), strict=True)


def _opened(folder: Path) -> NovelCollection | None:
    """Return the collection in a folder of the cache, None if there is none that can be read."""
    try:
        return NovelCollection(folder)
    except DataError:
        return None


def _copied(
    novels: Novels, folder: Path, on_error: str
) -> tuple[pd.DataFrame, list[FileDigest], dict[str, str]]:
    """Write texts to files by SHA-256; return novels by id, input files, and why others could not be read."""
    rows: dict[str, tuple[Any, ...]] = {}
    inputs: list[FileDigest] = []
    unreadable: dict[str, str] = {}
    with progress_bar(label="reading novels", unit="B") as bar:
        for book in checked_texts(_books(novels, inputs, unreadable, on_error), lines=False):
            content = book.text.encode("utf-8", "replace")
            sha256 = hashlib.sha256(content).hexdigest()
            (folder / f"{sha256}.txt").write_bytes(content)
            rows[book.book_id] = (book.book_id, book.title, book.author, book.year, book.tokenised, sha256)
            bar.update(len(content))
    if not rows:
        reasons = "".join(f"; {name}: {reason}" for name, reason in list(unreadable.items())[:_LISTED])
        raise DataError(f"there is no novel in the collection{reasons}", hint="pass a path or books")
    frame = pd.DataFrame([rows[name] for name in sorted(rows)], columns=list(_LABELS))
    strings = dict.fromkeys(("book_id", "title", "author", "sha256"), "str")
    frame = frame.astype({**strings, "year": "Int64", "tokenised": "bool"})
    return frame, sorted(set(inputs), key=lambda file: (file.name, file.sha256)), unreadable


def _with_unreadable(frame: pd.DataFrame, unreadable: Mapping[str, str]) -> pd.DataFrame:
    """Add a row for each file that could not be read, with the reason."""
    if not unreadable:
        return frame
    names = sorted(unreadable)
    rows = pd.DataFrame({"book_id": names, "group": names, "reason": [unreadable[name] for name in names]})
    numbers = dict.fromkeys(("words", "chapters", "confidence", "offensive"), 0)
    rows = rows.assign(tokenised=False, **numbers).reindex(columns=frame.columns)
    rows = pd.concat([frame, rows.astype(frame.dtypes)], ignore_index=True)
    return rows.sort_values("book_id", ignore_index=True)


def _books(
    novels: Novels, inputs: list[FileDigest], unreadable: dict[str, str], on_error: str
) -> Iterator[Book]:
    """Yield the novels; add the files that they are in, or the texts of those that come without a file."""
    is_one = isinstance(novels, str | Path) or hasattr(novels, "book_id")
    sources: Any = [novels] if is_one else novels
    for source in sources:
        if isinstance(source, str | Path):
            reader = books(source, on_error=on_error)
            yield from reader
            unreadable |= _unreadable(reader)
            inputs += [FileDigest.of(path, name) for name, path in book_files(source)]
        else:
            yield source  # goes on when it was checked
            content = source.text.encode("utf-8", "replace")
            inputs.append(FileDigest(source.book_id, len(content), hashlib.sha256(content).hexdigest()))
    if isinstance(novels, BookIterator):
        unreadable |= _unreadable(novels)


def _unreadable(reader: BookIterator) -> dict[str, str]:
    reasons = (f"{_UNREADABLE}: {error.problem}" for error in reader.problems)
    return dict(zip(reader.left_out, reasons, strict=True))


def _reasons(
    frame: pd.DataFrame, language: str | None, confidence: float, offensive_rate: float
) -> pd.Series[str]:
    """Return why each novel by itself is dropped; missing where it is not."""
    reasons = pd.Series(None, frame.index, dtype="str")
    reasons[frame["offensive"] > offensive_rate * frame["words"]] = "offensive words"
    if language is not None:
        reasons[frame["confidence"] < confidence] = f"language: {language}, confidence below {confidence:g}"
        others = frame["language"] != language
        reasons[others] = "language: " + frame.loc[others, "language"].replace("", "unknown")
    reasons[frame["words"] == 0] = "no word"
    return reasons


def _grouped(
    frame: pd.DataFrame, pairs: Sequence[Pair], *, jaccard: float, containment: float, mode: str
) -> pd.DataFrame:
    """Add the most similar novel, the group, and what each near-duplicate is one of; drop those."""
    words = dict(zip(frame["book_id"], frame["words"], strict=True))
    near: dict[str, list[tuple[float, float, str]]] = {}
    linked: dict[str, list[tuple[str, str]]] = {}
    for pair in pairs:
        is_near = pair.jaccard >= jaccard
        is_linked = is_near or pair.containment >= containment
        ways = ((pair.one, pair.other, pair.one_in_other), (pair.other, pair.one, pair.other_in_one))
        for name, other, share in ways:
            near.setdefault(name, []).append((share, pair.jaccard, other))
            if is_linked:
                reason = "near-duplicate" if is_near else "contained in a longer novel"
                linked.setdefault(name, []).append((other, reason))
    group = connected_groups(
        frame["book_id"], [(name, other) for name, rest in linked.items() for other, _ in rest]
    )
    duplicate_of: dict[str, tuple[str, str]] = {}
    dropped = {"drop": ("near-duplicate",), "keep": ()}.get(
        mode, ("near-duplicate", "contained in a longer novel")
    )

    def length(name: str) -> tuple[int, str]:
        return -words[name], name

    for name in sorted(linked, key=length):  # the longest first
        longer = [
            (reason, *length(other))
            for other, reason in linked[name]
            if reason in dropped and other not in duplicate_of and length(other) < length(name)
        ]
        if longer:
            reason, _, other = max(longer, key=lambda entry: (entry[0] == "near-duplicate", entry[1:]))
            duplicate_of[name] = other, reason
    best = {name: max(others, key=lambda entry: (entry[:2], entry[2])) for name, others in near.items()}
    names = frame["book_id"].tolist()
    none = (float("nan"), float("nan"), None)
    frame["similar_to"] = pd.array([best.get(name, none)[2] for name in names], dtype="str")
    frame["jaccard"] = [best.get(name, none)[1] for name in names]
    frame["containment"] = [best.get(name, none)[0] for name in names]
    frame["group"] = pd.array([group[name] for name in names], dtype="str")
    frame["duplicate_of"] = pd.array([duplicate_of.get(name, (None,))[0] for name in names], dtype="str")
    reasons = [duplicate_of[name][1] if name in duplicate_of else None for name in names]
    frame["reason"] = frame["reason"].fillna(pd.Series(reasons, frame.index, dtype="str"))
    return frame


def _split(frame: pd.DataFrame, shares: Mapping[str, float], seed: int) -> pd.Series[str]:
    """Return the part of each novel, drawn by the seed and its group; missing where it was dropped."""
    names, bounds = list(shares), np.cumsum(list(shares.values()))
    draws = [seed_of(_DRAW, seed, group) / 2**64 for group in frame["group"]]
    numbers = np.searchsorted(bounds[:-1], draws, "right")
    return pd.Series(np.array(names)[numbers], frame.index, dtype="str").where(frame["reason"].isna())


def _steps(frame: pd.DataFrame, splits: Sequence[str]) -> list[Step]:
    """Return the steps in their order, with the novels and words that each left."""
    steps = []
    of_step: dict[str, str | tuple[str, ...]] = {"text": ("no word", _UNREADABLE)}
    of_step |= {"language": "language:", "offensive words": "offensive words"}
    remaining = frame
    for name, prefix in [*of_step.items(), ("near-duplicates", "")]:
        is_out = remaining["reason"].notna() & remaining["reason"].fillna("").str.startswith(prefix)
        reasons = remaining.loc[is_out, "reason"].str.replace(rf"^{_UNREADABLE}.*", _UNREADABLE, regex=True)
        by_reason = reasons.value_counts().sort_index()
        dropped = {str(reason).removeprefix("language: "): int(n) for reason, n in by_reason.items()}
        n, remaining = len(remaining), remaining[~is_out]
        counts = {"words": int(remaining["words"].sum())}
        steps.append(Step(name, n, len(remaining), dropped, "novels", counts))
    sizes: dict[str, int] = {}
    for name in splits:
        group = remaining[remaining["split"] == name]
        sizes |= {f"novels {name}": len(group), f"words {name}": int(group["words"].sum())}
    return [*steps, Step("split", len(remaining), len(remaining), {}, "novels", sizes)]
