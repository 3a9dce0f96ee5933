"""The table of annotations: what can be said about each item and its target, one row an item."""

from __future__ import annotations

import hashlib
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import pandas as pd
import pyarrow as pa

from workbench.analysis import columns, tagging
from workbench.analysis.columns import FEATURES
from workbench.datasets import lambada
from workbench.items import text as wt
from workbench.items import tokens
from workbench.items.items import Items, Span
from workbench.items.schema import DataError, Item
from workbench.storage import cache as disk
from workbench.storage.files import resource
from workbench.storage.parallel import run_chunks

if TYPE_CHECKING:
    from distributed import Client
    from spacy.language import Language

R = TypeVar("R")

SMALL = 400  # items that are annotated here: processes take two seconds to start
_MEAN, _LEAST, _MOST = 192, 64, 512  # items of a chunk
_FORMAT = "1"  # of the files in the cache
_SOURCES = (  # of this folder, that results depend on
    "__init__", "annotations", "columns", "tagger/discourse", "lemmas", "tagger/lexicon", "mentions",
    "tagger/narrative", "tagger/network", "roots", "speech", "tagging", "targets",
)  # fmt: skip


class Content(NamedTuple):
    """What annotations depend on: an item without its names."""

    text: str
    answer: str | None
    answer_span: Span
    sentences: tuple[Span, ...]
    tokenised: bool


class Task(NamedTuple):
    """A chunk of work as it travels: the pipeline by name, never the loaded one.

    Attributes
    ----------
    pipeline : str
        Name of a package, or a path.
    identity : str
        What the results depend on besides the items, as it is where the work was asked for.
    ids : sequence of str
        Names of the items, for messages.
    rows : sequence of Content
    """

    pipeline: str
    identity: str
    ids: Sequence[str]
    rows: Sequence[Content]


def annotate(
    items: Items,
    pipeline: str | Path | Language = "en_narrative",
    *,
    vocabulary: Mapping[str, int] | Path | str | None = None,
    workers: int | None = None,
    client: Client | None = None,
    cache: bool = True,
    progress: bool = True,
) -> pd.DataFrame:
    """Annotate items: the target's class and lemma, its mentions, quoted speech, counts.

    Parameters
    ----------
    items : Items
        Items of any data set.
    pipeline : str, Path or spacy.Language
        The spaCy pipeline: ``en_narrative``, an installed package such as ``en_core_web_sm``, a
        folder, or a loaded pipeline. A loaded one runs in this process only, because it may
        differ from what is on disk; for workers, save it with ``nlp.to_disk`` and pass the folder.
    vocabulary : mapping, path or str, optional
        Counts of lower-cased words, or a file of them (``word TAB count``). Without it LAMBADA's
        is taken where ``lambada-vocab-2.txt`` is found; else `target_count` is null.
    workers : int, optional
        Number of processes, all cores by default. Up to 400 items are worked on here.
    client : distributed.Client, optional
        A Dask client: its workers do the work. The project and the pipeline must be installed
        there in the same version.
    cache : bool, default True
        Keep results on disk, in ``cache/annotations`` (at most 2 GiB; the least used go first),
        and use what is there. A killed run goes on where it was.
    progress : bool, default True
        Show a progress bar.

    Returns
    -------
    DataFrame
        One row an item in order; its columns are ``item_id``, those of `FEATURES`, ``pipeline``.

    Raises
    ------
    DataError
        If the pipeline is not installed, or an item cannot be annotated (says which).
    WorkerError
        If worker processes, or those of the cluster, die again and again.
    """
    rows = _contents(items)
    ids = items.frame["item_id"].tolist()
    name, label, identity, nlp = _pipeline(pipeline, client, workers)
    store = _Store(cache=cache and identity is not None)
    digests = [_digest(row) for row in rows]
    whole = disk.digest(_FORMAT, identity or "", "whole", *digests)
    if (table := store.get(whole)) is None:
        edges = list(pairwise(_edges(digests)))
        tasks = [Task(name, identity or "", ids[a:b], rows[a:b]) for a, b in edges]
        keys = [disk.digest(_FORMAT, identity or "", "chunk", *digests[a:b]) for a, b in edges]
        here = nlp is not None or (len(rows) <= SMALL and client is None)
        tables = run_chunks(
            _annotate if nlp is None else _Here(nlp),
            tasks,
            keys=keys,
            store=store,
            workers=1 if here else workers,
            client=client,
            progress=f"annotate ({label})" if progress and len(rows) > SMALL else None,
            size=lambda task: len(task.rows),
        )
        table = pa.concat_tables([FEATURES.empty_table(), *tables]).combine_chunks()
        store.put(whole, table)
        store.trim()
    return columns.frame(table, ids, _counts(rows, vocabulary), label)


def _contents(items: Items) -> list[Content]:
    frame = items.frame
    answers = [answer if isinstance(answer, str) else None for answer in frame["answer"].tolist()]
    others = (frame[name].tolist() for name in ("text", "answer_span", "sentences", "tokenised"))
    text, span, sentences, tokenised = others
    return list(map(Content, text, answers, span, sentences, tokenised))


def _digest(row: Content) -> str:
    """Return the SHA-256 of what an item holds, in hexadecimal."""
    # repr tells a null from the word None, and where one part ends
    return hashlib.sha256(repr(tuple(row)).encode("utf-8", "backslashreplace")).hexdigest()


def _edges(digests: Sequence[str]) -> list[int]:
    """Cut items into chunks where their content says so, so that items added later move few cuts.

    Returns
    -------
    list of int
        The first item of each chunk, and the number of items; empty without items.
    """
    edges = [0] if digests else []
    for index, found in enumerate(digests):
        held = index + 1 - edges[-1]
        if held >= _MOST or (held >= _LEAST and int(found[:8], 16) % (_MEAN - _LEAST) == 0):
            edges.append(index + 1)
    if edges and edges[-1] != len(digests):
        edges.append(len(digests))
    return edges


def _pipeline(
    pipeline: str | Path | Language, client: Client | None, workers: int | None
) -> tuple[str, str, str | None, Language | None]:
    """Return name, label and identity of a pipeline, and itself if it was given loaded."""
    if isinstance(pipeline, str | Path):
        source = tagging.find(pipeline)
        return source.name, source.label, _identity(source), None
    label = tagging.label(pipeline)
    if client is not None or (workers is not None and workers > 1):
        raise DataError(
            f"a loaded pipeline ({label}) runs in this process only",
            remedy="for workers save it with nlp.to_disk(folder) and pass the folder, or pass its name",
        )
    if not all(hasattr(component, "to_bytes") for _, component in pipeline.components):
        return "", label, None, pipeline  # nothing tells two such pipelines apart: not kept
    content = pipeline.to_bytes(exclude=["vocab", "tokenizer"])  # the words that it has seen do not matter
    return "", label, disk.digest("loaded", label, content, _version()), pipeline


def _identity(source: tagging.Source) -> str:
    return disk.digest(source.label, source.identity, _version())


@lru_cache(maxsize=1)
def _version() -> str:
    """Return a digest of what computes: this code and its table of lemmas, spaCy, the columns."""
    here = Path(__file__).parent
    sources = disk.code(
        [*(Path(str(m.__file__)) for m in (wt, tokens)), *(here / f"{name}.py" for name in _SOURCES)],
        here.parent,
    )
    tables = resource("en_narrative", "lemmatizer")  # mentions depend on it with every pipeline
    lemmas = disk.fingerprint(tables.glob("*"), tables)
    return disk.digest(sources, lemmas, metadata.version("spacy"), str(FEATURES))


class _Store:
    """The cache, or nothing; where it cannot be written that is said once."""

    def __init__(self, *, cache: bool) -> None:
        self.cache = disk.Cache("annotations") if cache else None

    def get(self, key: str) -> pa.Table | None:
        return self.cache.get(key, FEATURES) if self.cache else None

    def put(self, key: str, value: pa.Table) -> None:
        if self.cache:
            try:
                self.cache.put(key, value)
            except OSError as error:
                warnings.warn(f"annotations are not kept in {self.cache.folder}: {error}", stacklevel=4)
                self.cache = None

    def trim(self) -> None:
        if self.cache:
            self.cache.trim()


class _Here:
    """The work on a chunk with a pipeline that was given loaded."""

    def __init__(self, nlp: Language) -> None:
        self.nlp = nlp

    def __call__(self, task: Task) -> pa.Table:
        return features_of(self.nlp, task)


_LOCK = threading.Lock()  # a Dask worker may have several threads, and a pipeline has one vocabulary


def _annotate(task: Task) -> pa.Table:
    """Annotate a chunk, wherever that is."""
    with _LOCK:
        return features_of(_ready(task.pipeline, task.identity), task)


@lru_cache(maxsize=2)
def _ready(pipeline: str, identity: str) -> Language:
    """Load a pipeline, having made sure that it is the one that was meant."""
    if _identity(tagging.find(pipeline)) != identity:
        raise DataError(
            f"this worker has another version of the pipeline {pipeline} or of the workbench",
            remedy="install the same versions everywhere, and start the workers and this process again",
        )
    return tagging.load(pipeline)


def features_of(nlp: Language, task: Task) -> pa.Table:
    """Tag the items of a chunk and compute their rows.

    Returns
    -------
    pyarrow.Table
        The columns of `FEATURES`; ``target_count`` is null: the vocabulary does not travel.
    """
    from workbench.analysis import targets  # noqa: PLC0415 - tables that only this needs

    records = [_item(*pair) for pair in zip(task.ids, task.rows, strict=True)]
    cut = [_named(item, tokens.tokens, item) for item in records]
    words = [tokens.shown(found.words) for found in cut]
    heads = [found.head if found.has_target else None for found in cut]
    tags, lemmas = _tagged(nlp, records, words, heads)
    rows = [
        _named(item, targets.features, item, tags[index], lemmas[index], None, cut=cut[index])
        for index, item in enumerate(records)
    ]
    return columns.table(rows)


def _item(item_id: str, row: Content) -> Item:
    return Item(item_id, "", "", "", *row[:4], tokenised=row.tokenised)


def _named(item: Item, function: Callable[..., R], *arguments: Any, **options: Any) -> R:
    """Call a function; an error names the item."""
    try:
        return function(*arguments, **options)
    except DataError as error:
        raise DataError(f"item {item.item_id}: {error.problem}", remedy=error.remedy) from error
    except Exception as error:
        raise DataError(
            f"item {item.item_id} cannot be annotated: {type(error).__name__}: {error}",
            remedy="look at it with items[id]; leave it out with items.where",
        ) from error


def _tagged(
    nlp: Language, records: list[Item], words: list[list[str]], heads: list[int | None]
) -> tuple[list[list[str]], list[str | None]]:
    try:
        return tagging.tag(nlp, words, heads)
    except DataError:
        raise
    except Exception:  # which item was it?
        for item, row, head in zip(records, words, heads, strict=True):
            _named(item, tagging.tag, nlp, [row], [head])
        raise


def _counts(rows: Sequence[Content], vocabulary: Mapping[str, int] | Path | str | None) -> list[int | None]:
    """Return how often the targets occur in the vocabulary; None without a target or a vocabulary."""
    if vocabulary is None:
        found = lambada.vocabulary_at_hand()
    elif isinstance(vocabulary, Mapping):
        found = vocabulary
    else:
        found = lambada.vocabulary(vocabulary)
    if found is None:
        return [None] * len(rows)
    return [None if row.answer is None else int(found.get(row.answer.lower(), 0)) for row in rows]
