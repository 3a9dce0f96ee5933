"""Check novels for language and offensive words, each by itself, then in pairs for near-duplicates."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache as cached
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from workbench.construction import duplicates as dup
from workbench.construction.novels import chapter_texts
from workbench.datasets import sources
from workbench.storage import cache, files
from workbench.storage.errors import DataError
from workbench.storage.parallel import run_chunks
from workbench.storage.provenance import library_versions
from workbench.storage.spreadsheet import decoded_text
from workbench.texts.ngram_hash import Hashes, normalise

if TYPE_CHECKING:
    from distributed import Client

VERSION = 1
"""Raised when the checks of a novel give other results: those of an earlier version are not used."""

LIBRARIES = ("datasketch", "lingua-language-detector", "lxml", "numpy", "pyarrow")
"""What the results depend on."""

SAMPLES, SAMPLE = 10, 300
"""Pieces of a novel whose language is detected, and characters of each."""

_DIGITS = 4  # of a confidence
_FEW = 1 << 22  # bytes of text up to which this process does the work: starting others takes a second
_RESULT = pa.schema(
    {
        "words": pa.int64(),
        "chapters": pa.int64(),
        "language": pa.string(),
        "confidence": pa.float64(),
        "offensive": pa.int64(),
        "sketch": pa.list_(pa.uint32()),
    }
)


class _Novel(NamedTuple):
    """A novel to be checked: its text on disk, and the hashes of offensive n-grams by n."""

    text: Path
    tokenised: bool
    offensive: dict[int, Hashes]


class _Group(NamedTuple):
    """Novels to be compared, in pairs; their texts on disk by id."""

    texts: dict[str, Path]
    pairs: list[tuple[str, str]]


@cached
def _detector() -> Any:
    from lingua import LanguageDetectorBuilder  # noqa: PLC0415 - its models take memory

    return LanguageDetectorBuilder.from_all_languages().build()


def detect_language(text: str) -> tuple[str, float]:
    """Return the language of a text and the confidence, the mean over ten pieces of it.

    The language is the one of lingua's 75 with the highest mean; "" and 0 where no piece has any letter.
    """
    step = max(SAMPLE, len(text) // SAMPLES)
    total: Counter[str] = Counter()
    pieces = [text[start : start + SAMPLE] for start in range(0, len(text), step)][:SAMPLES]
    pieces = [piece for piece in pieces if re.search(r"[^\W\d_]", piece)]
    for piece in pieces:
        for value in _detector().compute_language_confidence_values(piece):
            total[value.language.name.capitalize()] += value.value
    if not total:
        return "", 0.0
    language, value = min(total.items(), key=lambda entry: (-round(entry[1], _DIGITS), entry[0]))
    return language, round(value / len(pieces), _DIGITS)


def languages() -> list[str]:
    """Return the names of the languages that are detected."""
    from lingua import Language  # noqa: PLC0415 - as above

    return sorted(language.name.capitalize() for language in Language.all())


def offensive_words(path: Path | str) -> list[tuple[str, ...]]:
    """Return the words and phrases of a list, one a line, as normalised words; blank lines do not count.

    Raises
    ------
    DataError
        If a line has no letter or digit, or there is no line.
    """
    content = decoded_text(files.read_bytes(path, "this list of words"), Path(path))
    phrases: dict[tuple[str, ...], None] = {}
    for number, line in enumerate(sources.lines(content), start=1):
        words = tuple(word for token in line.split() for word in normalise(token))
        if line.strip() and not words:
            problem = f"expected a word, got {line.strip()[:60]!r}"
            raise DataError(problem, file=path, line=number, remedy="remove the line")
        if words:
            phrases[words] = None
    if not phrases:
        raise DataError("expected a word a line, got none", file=path, remedy="pass a list of words")
    return sorted(phrases)


def _check(novel: _Novel) -> pa.Table:
    """Return the words, chapters, language, offensive words and sketch of one novel."""
    text = novel.text.read_bytes().decode()
    codes = dup.text_codes(text)
    counts = (
        int(np.isin(dup.n_gram_hashes(codes, n), hashes).sum())
        for n, hashes in novel.offensive.items()
        if len(codes) >= n
    )
    n_chapters = sum(bool(part.strip()) for part in chapter_texts(text, tokenised=novel.tokenised))
    row = (len(codes), n_chapters, *detect_language(text), sum(counts), dup.sketch(codes).ravel())
    columns = [pa.array([value], field.type) for value, field in zip(row, _RESULT, strict=True)]
    return pa.table(columns, _RESULT)


def _compare(group: _Group) -> list[dup.Pair]:
    """Return how much the novels of each pair share."""
    return dup.compare_pairs(lambda name: group.texts[name].read_bytes().decode(), group.pairs)


@dataclass(frozen=True)
class Checks:
    """Checks of texts on disk, and where they are done.

    Attributes
    ----------
    texts : mapping of str to Path
        The file of each novel, by its id.
    workers, client, progress
        See :func:`workbench.storage.parallel.run_chunks`.
    """

    texts: Mapping[str, Path]
    workers: int | None
    client: Client | None
    progress: bool

    def check(
        self, novels: pd.DataFrame, phrases: Sequence[tuple[str, ...]]
    ) -> tuple[pd.DataFrame, dict[str, dup.Sketch]]:
        """Check each novel by itself; results that are in the cache are used again.

        Parameters
        ----------
        novels : DataFrame
            ``book_id``, ``sha256`` of the text, ``tokenised``.
        phrases : sequence of tuple of str
            Offensive words and phrases.

        Returns
        -------
        frame : DataFrame
            ``words``, ``chapters``, ``language``, ``confidence``, ``offensive``, by the rows of `novels`.
        sketches : dict
            By id.
        """
        offensive = {
            n: np.unique([dup.n_gram_hashes(dup.text_codes(" ".join(words)), n)[0] for words in group])
            for n, group in groupby(sorted(phrases, key=len), len)
        }
        identity = (str(VERSION), repr(dup.PARAMETERS), repr(library_versions(*LIBRARIES)), repr(phrases))
        names = novels["book_id"].tolist()
        results = self._run(
            _check,
            [
                _Novel(self.texts[name], bool(tokenised), offensive)
                for name, tokenised in zip(names, novels["tokenised"], strict=True)
            ],
            "checking novels",
            keys=[
                cache.digest(*identity, sha256, str(tokenised))
                for sha256, tokenised in zip(novels["sha256"], novels["tokenised"], strict=True)
            ],
            store=cache.Cache("checked-novels", _RESULT),
            unit="novels",
        )
        frame = pd.concat([table.drop_columns("sketch").to_pandas() for table in results])
        values = (np.array(table["sketch"][0].as_py(), np.uint32) for table in results)
        sketches = dict(zip(names, (v.reshape(-1, dup.PERMUTATIONS) for v in values), strict=True))
        return frame.set_index(novels.index).astype({"language": "str"}), sketches

    def compare(self, sketches: Mapping[str, dup.Sketch]) -> list[dup.Pair]:
        """Find the pairs that may be alike, and count what they share; sorted."""
        pairs = dup.candidates(sketches)
        group = dup.groups({name for pair in pairs for name in pair}, pairs)
        by_group: dict[str, list[tuple[str, str]]] = {}
        for pair in pairs:
            by_group.setdefault(group[pair[0]], []).append(pair)
        chunks = [
            _Group({name: self.texts[name] for pair in part for name in pair}, part)
            for part in by_group.values()
        ]
        results = self._run(_compare, chunks, "comparing novels", unit="groups")
        return sorted(pair for result in results for pair in result)

    def _run(self, function: Callable[[Any], Any], chunks: Sequence[Any], label: str, **options: Any) -> Any:
        is_small = self.workers is None and sum(path.stat().st_size for path in self.texts.values()) < _FEW
        return run_chunks(
            function,
            chunks,
            workers=1 if is_small else self.workers,
            client=self.client,
            progress=label if self.progress else None,
            **options,
        )
