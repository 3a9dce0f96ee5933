"""Annotate items: one row per item with the features of its passage and its target."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import pandas as pd
import pyarrow as pa

from workbench.analysis import mentions, speech, tagging
from workbench.analysis.lemmas import WORDS, any_same_root, fold_case
from workbench.datasets import lambada
from workbench.items.items import Items, Span, check_items
from workbench.items.language import ENGLISH, language, languages_of
from workbench.items.schema import Item, objects
from workbench.items.tokens import Tokens, readable_tokens, tokens
from workbench.storage import cache as disk
from workbench.storage.errors import DataError
from workbench.storage.parallel import run_chunks
from workbench.storage.paths import resource

if TYPE_CHECKING:
    from spacy.language import Language

R = TypeVar("R")

ANNOTATIONS_VERSION = 2
"""Raised when the annotations of an item by the same pipeline change, so that stored ones are made anew."""

SMALL = 400  # items that are annotated in this process: others take two seconds to start
CHUNK = 200  # items that are annotated and stored at a time

_SPANS = pa.list_(pa.int32())  # start, end, start, end ...
_TEXT, _TRUTH, _COUNT = pa.string(), pa.bool_(), pa.int64()
FEATURES = pa.schema([
    ("target_pos", _TEXT), ("target_class", _TEXT), ("target_lemma", _TEXT),
    ("in_context", _TRUTH), ("lemma_in_context", _TRUTH), ("n_mentions", _COUNT),
    ("n_context_mentions", _COUNT), ("mention_distance", _COUNT), ("mention_sentence", _COUNT),
    ("same_root", _TRUTH), ("vocative", _TRUTH), ("direct_speech", _TRUTH), ("target_in_speech", _TRUTH),
    ("n_context_sentences", _COUNT), ("n_tokens", _COUNT), ("target_count", _COUNT),
    ("mentions", _SPANS), ("speech", _SPANS), ("names", _SPANS),
])  # fmt: skip
"""The columns of the table in order, except ``item_id`` before and ``pipeline`` after them."""

_DTYPES = {_TEXT: "str", _TRUTH: "boolean", _COUNT: "Int64"}


class Chunk(NamedTuple):
    """A chunk of work as it is sent to workers."""

    pipeline: str  # name of a package, or a path; a loaded pipeline is never sent
    identity: str  # what the results depend on besides the items
    items: Items


def annotate(
    items: Items,
    pipeline: str | Path | Language = "en_narrative",
    *,
    vocabulary: Mapping[str, int] | Path | str | None = None,
    cache: bool = True,
) -> pd.DataFrame:
    """Annotate items: the target's class and lemma, its mentions, quoted speech, counts.

    Parameters
    ----------
    items : Items
    pipeline : str, Path or spacy.Language
        The spaCy pipeline: ``en_narrative``, an installed package such as ``en_core_web_sm``, a
        folder, or a loaded pipeline. A loaded one runs in this process only, because it may
        differ from what is on disk; for processes, save it with ``nlp.to_disk`` and pass the folder. One that
        needs PyTorch runs in this process, which uses all cores, or on a Dask cluster.
    vocabulary : mapping, path or str, optional
        Counts of lower-cased words, or a file of them (``word TAB count``). Without it LAMBADA's
        is used where ``lambada-vocab-2.txt`` is found; else `target_count` is null.
    cache : bool, default True
        Store results on disk, in ``cache/annotations`` (at most 2 GiB; the least recently used are
        removed first), and use those that are there. A killed run resumes where it stopped.

    Returns
    -------
    DataFrame
        One row per item: ``item_id``; ``target_pos``, ``target_class``, ``target_lemma``; ``in_context``,
        ``lemma_in_context``, ``n_mentions``, ``n_context_mentions``, ``mention_distance`` (tokens),
        ``mention_sentence``, ``same_root``; ``vocative``, ``direct_speech``, ``target_in_speech``;
        ``n_context_sentences``, ``n_tokens``, ``target_count``; ``mentions``, ``speech``, ``names`` (spans,
        ``names`` of all proper nouns); ``pipeline``.

    Raises
    ------
    DataError
        If the pipeline is not installed, an item cannot be annotated (says which), or items are in another
        language than English, by the end of their variant.
    WorkerError
        If worker processes, or those of the cluster, die repeatedly.

    Examples
    --------
    >>> annotations = wb.annotate(wb.load("sample", "dev"))
    >>> annotations[["target_class", "in_context", "n_mentions"]].head(2).values.tolist()
    [['PN', False, 0], ['CN', False, 0]]
    """
    check_items(items, "annotate")
    foreign = items.frame["variant"][items.frame["variant"].map(language) != ENGLISH]
    if len(foreign):  # classes, lemmas, names and speech are for English only
        raise DataError(
            f"{len(foreign):,} items are in another language than English ({foreign.iloc[0]}):"
            " the tagger, the lemmas and the rules for quoted speech are for English only",
            hint="annotate the English items; workbench.analysis.mentions finds mentions by form in all",
        )
    name, label, identity, nlp = _pipeline(pipeline)
    store = _Store(cache=cache and identity is not None)
    table_key = _table_key(identity, items)
    if (table := store.get(table_key)) is None:
        starts = range(0, len(items), CHUNK)
        keys = [disk.digest(table_key, str(start), str(CHUNK)) for start in starts]
        tables = run_chunks(
            _annotate if nlp is None else partial(features_of, nlp),
            [Chunk(name, identity or "", items[start : start + CHUNK]) for start in starts],
            keys=keys,
            store=store,
            in_process=nlp is not None or len(items) <= SMALL or tagging.stays_in_process(name),
            label=f"annotate ({label})" if len(items) > SMALL else None,
            size=lambda chunk: len(chunk.items),
            unit="items",
        )
        table = pa.concat_tables([FEATURES.empty_table(), *tables]).combine_chunks()
        store.put(table_key, table)
        if store.cache:
            for key in keys:  # they were for resuming
                store.cache.path(key).unlink(missing_ok=True)
            disk.make_room()
    return _frame(table, items, _counts(items, vocabulary), label)


def cached_annotations(items: Items) -> pd.DataFrame | None:
    """Return the annotations of items, all English, where they are in the cache on disk, None otherwise."""
    if languages_of(items.frame["variant"]) != [ENGLISH]:
        return None
    _, label, identity, _ = _pipeline("en_narrative")
    table = _Store(cache=True).get(_table_key(identity, items))
    return None if table is None else _frame(table, items, _counts(items, None), label)


def _table_key(identity: str | None, items: Items) -> str:
    """Return the key of a table: the pipeline, and each item's text, answer and sentences."""
    frame = items.frame
    columns = (frame[name].tolist() for name in ("answer_span", "sentences", "tokenised"))
    rows = zip(frame["text"].tolist(), _answers(items), *columns, strict=True)
    # repr tells a null from the word None, and where one value ends
    return disk.digest(identity or "", *map(repr, rows))


def _answers(items: Items) -> list[str | None]:
    return [answer if isinstance(answer, str) else None for answer in items.frame["answer"].tolist()]


def _pipeline(pipeline: str | Path | Language) -> tuple[str, str, str | None, Language | None]:
    """Return name, label and identity of a pipeline, and the pipeline itself if it was given loaded."""
    if isinstance(pipeline, str | Path):
        source = tagging.find_pipeline(pipeline)
        return source.name, source.label, _identity(source), None
    label = tagging.pipeline_label(pipeline)
    if not all(hasattr(component, "to_bytes") for _, component in pipeline.components):
        return "", label, None, pipeline  # such pipelines have no identity: nothing is stored
    content = pipeline.to_bytes(exclude=["vocab", "tokenizer"])  # words seen before do not matter
    return "", label, disk.digest("loaded", label, content, _version()), pipeline


def _identity(source: tagging.PipelineFolder) -> str:
    return disk.digest(source.label, source.identity, _version())


@lru_cache(maxsize=1)
def _version() -> str:
    """Return a digest of code version, lemma tables and spaCy version."""
    tables = resource("en_narrative", "lemmatizer")  # mentions depend on it with every pipeline
    lemmas = disk.fingerprint(tables.glob("*"), tables)
    return disk.digest(str(ANNOTATIONS_VERSION), lemmas, metadata.version("spacy"), str(FEATURES))


class _Store:
    """The cache on disk, or none; one warning if it cannot be written."""

    def __init__(self, *, cache: bool) -> None:
        self.cache = disk.Cache("annotations", FEATURES) if cache else None

    def get(self, key: str) -> pa.Table | None:
        return self.cache.get(key) if self.cache else None

    def put(self, key: str, value: pa.Table) -> None:
        if self.cache:
            try:
                self.cache.put(key, value)
            except DataError as error:
                warnings.warn(f"annotations are not stored in {self.cache.folder}: {error}", stacklevel=4)
                self.cache = None


_LOCK = threading.Lock()  # a Dask worker may have several threads, and a pipeline has one vocabulary


def _annotate(chunk: Chunk) -> pa.Table:
    with _LOCK:
        return features_of(_load(chunk.pipeline, chunk.identity), chunk)


@lru_cache(maxsize=2)
def _load(pipeline: str, identity: str) -> Language:
    """Load a pipeline and check that its identity is as expected."""
    if _identity(tagging.find_pipeline(pipeline)) != identity:
        raise DataError(
            f"this worker has another version of the pipeline {pipeline} or of the workbench",
            hint="install the same versions everywhere, and start the workers and this process again",
        )
    return tagging.load(pipeline)


def features_of(nlp: Language, chunk: Chunk) -> pa.Table:
    """Tag the items of a chunk and return their rows; ``target_count`` is null in workers."""
    records = list(chunk.items)
    cuts = [_named(item, tokens, item) for item in records]
    words = [readable_tokens(item_tokens.words) for item_tokens in cuts]
    heads = [item_tokens.head if item_tokens.has_target else None for item_tokens in cuts]
    try:
        tags, lemmas = tagging.tag(nlp, words, heads)
    except (DataError, MemoryError):
        raise
    except Exception:  # find the item that it is about
        for item, row, head in zip(records, words, heads, strict=True):
            _named(item, tagging.tag, nlp, [row], [head])
        raise
    rows = [
        _named(item, target_features, item, *features)
        for item, *features in zip(records, cuts, tags, lemmas, strict=True)
    ]
    for cells in rows:
        for name in ("mentions", "speech", "names"):
            cells[name] = list(chain.from_iterable(cells[name]))
    return pa.Table.from_pylist(rows, FEATURES)


def _named(item: Item, function: Callable[..., R], *arguments: Any) -> R:
    """Call a function; an error names the item."""
    try:
        return function(*arguments)
    except MemoryError:  # it is not a fault of the item
        raise
    except Exception as error:
        problem = error.problem if isinstance(error, DataError) else f"{type(error).__name__}: {error}"
        raise DataError(
            f"item {item.item_id} cannot be annotated: {problem}",
            hint="look at it with items[id]; leave it out with items.where",
        ) from error


def _counts(items: Items, vocabulary: Mapping[str, int] | Path | str | None) -> list[int | None]:
    """Return the targets' counts in the vocabulary; None without a target or a vocabulary."""
    if vocabulary is None:
        counts = lambada.vocabulary_at_hand()
    else:
        counts = vocabulary if isinstance(vocabulary, Mapping) else lambada.vocabulary(vocabulary)
    if counts is None:
        return [None] * len(items)
    return [None if answer is None else int(counts.get(answer.lower(), 0)) for answer in _answers(items)]


def _frame(table: pa.Table, items: Items, counts: Sequence[int | None], pipeline: str) -> pd.DataFrame:
    """Return the columns of `FEATURES` as a frame, with names, counts and the pipeline."""
    columns: dict[str, Any] = {"item_id": pd.Series(items.frame["item_id"].tolist(), dtype="str")}
    for field in FEATURES:
        values = table[field.name]
        if field.type == _SPANS:
            edges = values.to_pylist()
            columns[field.name] = objects([list(zip(flat[::2], flat[1::2], strict=True)) for flat in edges])
        else:
            columns[field.name] = pd.array(values.to_pylist(), dtype=_DTYPES[field.type])
    columns["target_count"] = pd.array(counts, dtype="Int64")
    columns["pipeline"] = pd.Series([pipeline] * len(items), dtype="str")
    annotations = pd.DataFrame(columns)
    sources = items.frame[["dataset", "split"]].drop_duplicates()
    annotations.attrs["sources"] = sources["dataset"].str.cat(sources["split"], "/").tolist()
    annotations.attrs |= {"filter": items.attrs["filter"]} if "filter" in items.attrs else {}
    return annotations


CLASS_OF_TAG = {"PROPN": "PN", "NOUN": "CN", "VERB": "V", "AUX": "V", "ADJ": "J", "ADV": "R"}
"""Class of the target by its UPOS tag (Paperno et al. 2016, Figure 2); all others are O."""

_QUOTES = frozenset("`` ` “ ‘ „ « '' ' \" ” ’ »".split())  # noqa: RUF001, SIM905 - typographic ones are meant
_FOLLOWING = frozenset({",", ".", "!", "?", ";", ":", "--", "...", "-", "—", "…"}) | _QUOTES
_INTERJECTIONS = frozenset(WORDS["annotations"]["interjections"].split())
ADDRESSES = frozenset(WORDS["annotations"]["addresses"].split())
"""Terms of address."""
_BEFORE = frozenset(  # what stands between the comma and the one who is addressed
    "dear dearest fellow good little my old our poor sweet young your".split()  # noqa: SIM905
)
_OWNERS = frozenset({"her", "his", "my", "our", "their", "your", "'s", "the", "a", "an"})
TITLES = frozenset(WORDS["annotations"]["titles"].split())
"""Titles, with which a name may begin."""
_LEADING = (TITLES | _BEFORE) - {"the"}


def target_features(item: Item, tokens: Tokens, tags: Sequence[str], lemma: str | None) -> dict[str, Any]:
    """Compute one row of the annotations, the columns of `FEATURES` but ``target_count``.

    It depends on the UPOS tags of the item's tokens (n,) and the lemma of the target's head by the pipeline.
    ``mention_distance`` is in tokens, ``mention_sentence`` in sentences; ``mentions``, ``speech`` and
    ``names`` (all proper nouns) are character spans in ``item.text``. Features of the target are absent
    without one. Neither mentions nor speech depend on the tags, nor on the case of the text.
    """
    spoken = speech.speech_spans(tokens.words)
    within = _in_speech(tokens, spoken)
    row: dict[str, Any] = {
        "direct_speech": bool(spoken),
        "target_in_speech": within is not None,
        "n_context_sentences": len(item.sentences) - 1,
        "n_tokens": len(tokens.words),
        "mentions": [],
        "speech": [(tokens.spans[start][0], tokens.spans[end - 1][1]) for start, end in spoken],
        "names": [span for span, tag in zip(tokens.spans, tags, strict=True) if tag == "PROPN"],
    }
    if not tokens.has_target:
        return row
    word, pos = tokens.words[tokens.head], tags[tokens.head]
    indices = mentions.mention_indices(tokens)
    last = max((index for index in indices if index < tokens.target), default=None)
    return row | {
        "target_pos": pos,
        "target_class": CLASS_OF_TAG.get(pos, "O"),
        "target_lemma": lemma,
        "in_context": mentions.same_form(tokens, indices),
        "lemma_in_context": bool(indices),
        "n_mentions": len(indices),
        "n_context_mentions": sum(index < tokens.sentences[-1] for index in indices),
        "mention_distance": None if last is None else tokens.target - last,
        "mention_sentence": None if last is None else mentions.sentence_of(tokens, last),
        "same_root": any_same_root(word, tokens.words),
        "vocative": within is not None and vocative(tokens, tags, within),
        "mentions": [tokens.spans[index] for index in indices],
    }


def _in_speech(tokens: Tokens, spoken: Sequence[Span]) -> Span | None:
    """Return the range of quoted speech that contains the blank, if any.

    A bare blank is in it if it is after its first token and before its last, or at its end
    where the text ends and no quote mark has closed it.
    """
    for start, end in spoken:
        if tokens.has_target:
            inside = start <= tokens.target < end
        else:
            inside = start < tokens.target < end or (
                start < tokens.target == end == len(tokens.words) and tokens.words[-1] not in _QUOTES
            )
        if inside:
            return start, end
    return None


def vocative(tokens: Tokens, tags: Sequence[str], within: Span) -> bool:
    """Return whether the target is a form of address in its quoted speech (tokens `within`): ``, John``.

    It is a name, or a term of address (*sir*, *mother*, *boys*), that a comma, an opening quote mark or an
    interjection sets off on its left, words such as *my dear* and the rest of the name between, and
    punctuation or the end of the text on its right. Names in a list, and those that explain who
    somebody is (``my brother , John``), are left out where the tokens before the comma show it.
    """
    low = [fold_case(word) for word in tokens.words[within[0] : within[1]]]
    first = last = tokens.head - within[0]
    pos_tags = tags[within[0] : within[1]]
    if pos_tags[first] != "PROPN" and (low[first] not in ADDRESSES or pos_tags[first] in {"VERB", "AUX"}):
        return False
    while last + 1 < len(low) and pos_tags[last + 1] == "PROPN":
        last += 1
    while first and (pos_tags[first - 1] == "PROPN" or low[first - 1] in _LEADING):
        first -= 1
    if first and low[first - 1] == "you":  # you fool
        first -= 1
    if not first or (last + 1 < len(low) and low[last + 1] not in _FOLLOWING):
        return False
    before = low[first - 1]
    if before == ",":
        return not _listed(low, pos_tags, first - 1, last + 1)
    return before in _INTERJECTIONS or before in _QUOTES


def _listed(low: Sequence[str], tags: Sequence[str], comma: int, after: int) -> bool:
    """Return whether a comma is in a list of names, or before an apposition."""
    if not comma:
        return False
    if low[after : after + 2] in ([",", "and"], [",", "or"]):
        return True
    if tags[comma - 1] == "PROPN":
        return comma > 1 and low[comma - 2] not in _QUOTES
    return (
        tags[comma - 1] == "NOUN" and comma > 1 and low[comma - 2] in _OWNERS and low[comma - 1] in ADDRESSES
    )
