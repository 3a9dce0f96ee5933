"""Check novels for language and offensive words, each by itself, then in pairs for near-duplicates.

Near-duplicates are pairs that share their word 5-grams, found by MinHash and verified exactly. A novel is cut
into segments. MinHash (Broder 1997) with locality-sensitive hashing finds the segments of different novels
that look alike, so a short novel is found in an omnibus of any size, which a sketch of whole novels would
miss. The shared 5-grams of each candidate pair are then counted.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache as cached
from functools import lru_cache
from itertools import chain, groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from workbench.datasets import sources
from workbench.storage import cache, files
from workbench.storage.errors import DataError
from workbench.storage.packages import library_versions
from workbench.storage.parallel import run_chunks
from workbench.storage.tables import decoded_text
from workbench.texts.ngram_hash import Hashes, normalise, rolling_hashes
from workbench.texts.tokenise import n_chapters

CHECKS_VERSION = 2
"""Raised when the checks of a novel give other results: those of an earlier version are not used."""

LIBRARIES = ("datasketch", "lingua-language-detector", "numpy", "pyarrow")
"""What the results depend on."""

SAMPLES, SAMPLE = 10, 300
"""Pieces of a novel whose language is detected, and characters of each.

Each is detected by itself: where half of a novel is French, one call for all says English with a confidence
of 1.0, and not of 0.5.
"""

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


Sketch = npt.NDArray[np.uint32]
"""The MinHash values of the segments of a novel: (segments, `PERMUTATIONS`)."""

SHINGLE = 5
"""Words of an n-gram."""
SEGMENT = 4096
"""N-grams of a segment; the last one may have fewer or up to half as many more."""
BANDS, ROWS = 42, 3
"""Segments are alike if all values of a band are equal: half of the segments with a Jaccard of 0.25 are."""
PERMUTATIONS = BANDS * ROWS
SEED, SCHEME = 1, "affine32"
_LEAST = 0.05  # share of the segments of the shorter novel that must be like one of the other
_KNOWN = 1 << 20  # tokens whose words are cached
_MARKS = '.,;:!?"'  # around a token
_SETS = 64  # n-gram sets in memory

PARAMETERS: dict[str, Any] = {
    "shingle": f"{SHINGLE} normalised words",
    "shingle_hash": "polynomial, 64 bits, of BLAKE2b-64 word codes",
    "segment": SEGMENT,
    "minhash_permutations": PERMUTATIONS,
    "minhash_bands": BANDS,
    "minhash_rows": ROWS,
    "minhash_scheme": SCHEME,
    "minhash_seed": SEED,
}
"""What a manifest names."""


class _Novel(NamedTuple):
    """A novel to be checked: its text on disk, and the hashes of offensive n-grams by n."""

    text: Path
    tokenised: bool
    offensive: dict[int, Hashes]


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
    """Return the words and phrases of a list, one per line, as normalised words.

    Lines without a letter or digit do not count.
    """
    content = decoded_text(files.read_bytes(path, "this list of words"), Path(path))
    phrases: dict[tuple[str, ...], None] = {}
    for line in sources.lines(content):
        if words := tuple(word for token in line.split() for word in normalise(token)):
            phrases[words] = None
    if not phrases:
        raise DataError("expected one word per line, got none", file=path, hint="pass a list of words")
    return sorted(phrases)


def _described(novel: _Novel) -> pa.Table:
    """Return the words, chapters, language, offensive words and sketch of one novel."""
    text = novel.text.read_bytes().decode()
    codes = text_codes(text)
    counts = (
        int(np.isin(n_gram_hashes(codes, n), hashes).sum())
        for n, hashes in novel.offensive.items()
        if len(codes) >= n
    )
    chapters = n_chapters(text, tokenised=novel.tokenised)
    row = (len(codes), chapters, *detect_language(text), sum(counts), minhash_segments(codes).ravel())
    columns = [pa.array([value], field.type) for value, field in zip(row, _RESULT, strict=True)]
    return pa.table(columns, _RESULT)


def _compare(group: tuple[dict[str, Path], list[tuple[str, str]]]) -> list[Pair]:
    """Return how much the novels of each pair share; their texts are on disk, by id."""
    texts, pairs = group
    return compare_pairs(lambda name: texts[name].read_bytes().decode(), pairs)


def check_novels(
    novels: pd.DataFrame, texts: Mapping[str, Path], phrases: Sequence[tuple[str, ...]]
) -> tuple[pd.DataFrame, dict[str, Sketch]]:
    """Check each novel (``book_id``, ``sha256`` of the text, ``tokenised``) by itself, unless cached.

    `texts` are on disk, by id. Returns ``words``, ``chapters``, ``language``, ``confidence``, ``offensive``
    (occurrences of `phrases`), by the rows of `novels`; and the sketches, by id.
    """
    offensive = {
        n: np.unique([n_gram_hashes(text_codes(" ".join(words)), n)[0] for words in group])
        for n, group in groupby(sorted(phrases, key=len), len)
    }
    identity = (str(CHECKS_VERSION), repr(PARAMETERS), repr(library_versions(*LIBRARIES)), repr(phrases))
    chunks, keys = [], []
    for name, sha256, tokenised in novels[["book_id", "sha256", "tokenised"]].itertuples(index=False):
        chunks.append(_Novel(texts[name], bool(tokenised), offensive))
        keys.append(cache.digest(*identity, sha256, str(tokenised)))
    results = run_chunks(
        _described, chunks, in_process=_is_little(texts), label="checking novels", unit="novels", keys=keys,
        store=cache.Cache("checked-novels", _RESULT),
    )  # fmt: skip
    frame = pd.concat([table.drop_columns("sketch").to_pandas() for table in results])
    values = (np.array(table["sketch"][0].as_py(), np.uint32) for table in results)
    sketches = dict(zip(novels["book_id"], (v.reshape(-1, PERMUTATIONS) for v in values), strict=True))
    return frame.set_index(novels.index).astype({"language": "str"}), sketches


def similar_pairs(sketches: Mapping[str, Sketch], texts: Mapping[str, Path]) -> list[Pair]:
    """Find the pairs of novels that may be alike, and count what they share; sorted."""
    pairs = candidates(sketches)
    group = connected_groups({name for pair in pairs for name in pair}, pairs)
    by_group: dict[str, list[tuple[str, str]]] = {}
    for pair in pairs:
        by_group.setdefault(group[pair[0]], []).append(pair)
    chunks = [
        ({name: texts[name] for pair in group_pairs for name in pair}, group_pairs)
        for group_pairs in by_group.values()
    ]
    results = run_chunks(
        _compare, chunks, in_process=_is_little(texts), label="comparing novels", unit="groups"
    )
    return sorted(pair for result in results for pair in result)


def _is_little(texts: Mapping[str, Path]) -> bool:
    return sum(path.stat().st_size for path in texts.values()) < _FEW


class Pair(NamedTuple):
    """How much two novels share, by their ids in order."""

    one: str
    other: str
    jaccard: float
    """Shared n-grams as a share of all different n-grams of both."""
    one_in_other: float
    """Containment: shared n-grams as a share of those of one, or of the other."""
    other_in_one: float

    @property
    def containment(self) -> float:
        """The greater containment: how much of the smaller novel the larger one holds."""
        return max(self.one_in_other, self.other_in_one)


class _WordCodes(dict[str, tuple[int, ...]]):
    """The codes of the normalised words of each token, which no process or machine changes."""

    def __missing__(self, token: str) -> tuple[int, ...]:
        if len(self) > _KNOWN:
            self.clear()
        if token.isascii() and (plain := token.strip(_MARKS).lower()) != token:
            codes = self[token] = self[plain]  # marks and capitals give no other words: normalised once
            return codes
        words = (hashlib.blake2b(word.encode(), digest_size=8).digest() for word in normalise(token))
        codes = self[token] = tuple([int.from_bytes(word, "little") for word in words])
        return codes


_codes = _WordCodes()


def text_codes(text: str) -> Hashes:
    """Return a code of 64 bits for each normalised word of a text, tokenised or not."""
    return np.fromiter(chain.from_iterable(map(_codes.__getitem__, text.split())), np.uint64)


def n_gram_hashes(codes: Hashes, n: int = SHINGLE) -> Hashes:
    """Return the hashes of the n-grams at their places; of a shorter text the hash of all its words."""
    n = min(n, len(codes))
    return next(hashes for _, hashes in rolling_hashes(codes, [n])) if n else codes


def shingles(text: str) -> Hashes:
    """Return the set of the hashes of a text's n-grams, sorted.

    Hashes of 64 bits stand for n-grams: different n-grams of two novels of 100,000 words have the same one in
    one of two billion pairs of novels.
    """
    return np.unique(n_gram_hashes(text_codes(text)))


def minhash_segments(codes: Hashes) -> Sketch:
    """Return the MinHash values of each segment of a text."""
    from datasketch import MinHash  # noqa: PLC0415 - slow

    empty = MinHash(PERMUTATIONS, seed=SEED, scheme=SCHEME, hashfunc=int)
    hashes = (n_gram_hashes(codes) >> np.uint64(32)).astype(np.uint32)
    n = max(1, round(len(hashes) / SEGMENT))
    bounds = [*range(0, n * SEGMENT, SEGMENT), len(hashes)]
    rows = np.empty((n if len(hashes) else 0, PERMUTATIONS), np.uint32)
    for number in range(len(rows)):
        segment = empty.copy()
        segment.update_batch(hashes[bounds[number] : bounds[number + 1]].tolist())
        rows[number] = segment.hashvalues
    return rows


def candidates(sketches: Mapping[str, Sketch]) -> list[tuple[str, str]]:
    """Return the pairs of novels that may share much, sorted: segments of both look alike.

    Of the novel with fewer segments one in twenty must be like a segment of the other, so that a licence that
    many files have in common makes no pairs of them.
    """
    from datasketch import LeanMinHash, MinHashLSH  # noqa: PLC0415 - slow

    index = MinHashLSH(num_perm=PERMUTATIONS, params=(BANDS, ROWS))
    alike: defaultdict[tuple[str, str], tuple[set[int], set[int]]] = defaultdict(lambda: (set(), set()))
    for name in sorted(sketches):
        rows = [LeanMinHash(seed=SEED, hashvalues=row, scheme=SCHEME) for row in sketches[name]]
        for number, row in enumerate(rows):
            for other, segment in index.query(row):
                matched = alike[other, name]
                matched[0].add(segment)
                matched[1].add(number)
        for number, row in enumerate(rows):
            index.insert((name, number), row, check_duplication=False)
    pairs = []
    for (first, other), matched in alike.items():
        n, is_alike = min(
            (len(sketches[name]), len(rows)) for name, rows in zip((first, other), matched, strict=True)
        )
        if is_alike >= _LEAST * n:
            pairs.append((first, other))
    return sorted(pairs)


def compare_pairs(text: Callable[[str], str], pairs: Sequence[tuple[str, str]]) -> list[Pair]:
    """Return how much the novels of each pair share, counted exactly; `text` gives a text by its id."""
    n_grams = lru_cache(maxsize=_SETS)(lambda name: shingles(text(name)))
    result = []
    for name, other in pairs:
        first, second = n_grams(name), n_grams(other)
        shared = len(np.intersect1d(first, second, assume_unique=True))
        union = len(first) + len(second) - shared
        shares = (shared / size if size else 0.0 for size in (union, len(first), len(second)))
        result.append(Pair(name, other, *shares))
    return result


def connected_groups(names: Iterable[str], pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the group of each name, called by its smallest member: names of a pair are in one group."""
    from scipy.sparse import coo_array  # type: ignore[import-untyped]  # noqa: PLC0415 - slow to import
    from scipy.sparse.csgraph import connected_components  # type: ignore[import-untyped]  # noqa: PLC0415

    order = sorted(names)
    numbers = {name: number for number, name in enumerate(order)}
    edges = np.array([[numbers[name] for name in pair] for pair in pairs], np.int64).reshape(-1, 2).T
    graph = coo_array((np.ones(edges.shape[1]), tuple(edges)), (len(order), len(order)))
    smallest: dict[int, str] = {}  # of each component
    components = connected_components(graph, directed=False)[1].tolist()
    return {name: smallest.setdefault(label, name) for name, label in zip(order, components, strict=True)}
