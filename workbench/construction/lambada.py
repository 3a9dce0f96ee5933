"""LAMBADA's way from novels to passages: candidates, the filter by language models, and the control set.

:class:`workbench.construction.candidates.CandidatePassages` finds all candidates; the human steps are in
:mod:`workbench.people`. Paperno et al. (2016), section 3.1.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from workbench.construction.candidates import CANDIDATES_VERSION, CandidatePassages
from workbench.construction.manifest import NOT_DRAWN, Manifest, Step
from workbench.items.items import Items
from workbench.items.schema import Item
from workbench.models.base import Predictor
from workbench.predictions.store import items_digest, model_identity
from workbench.storage import cache
from workbench.storage.errors import DataError
from workbench.storage.files import json_value
from workbench.storage.progress import progress_bar
from workbench.texts.batches import permuted
from workbench.texts.corpus import Corpus, Texts
from workbench.texts.overlap import check_held_out

THRESHOLD = 0.00175
"""A passage is dropped if a filter gives its target this probability or more (Paperno et al. 2016)."""

_BLOCK = 4096  # passages that are drawn at a time
_SCORES = pa.schema({"log_prob": pa.float64()})
_CONTROL = 1  # beside the seed, so that the control set is another draw than the passages to filter


def passages(
    novels: Texts | CandidatePassages,
    *,
    minimum: int = 50,
    answer_in_context: bool = False,
    skip_frequent: int = 0,
    number: int | None = None,
    seed: int = 0,
    split: str = "built",
    lowercased: bool = False,
) -> Items:
    """Return passages in the shape of LAMBADA's: a target sentence up to its last word, after its context.

    The passages are those of :meth:`workbench.construction.candidates.CandidatePassages.of`, in random
    order: all of them, or the first `number` (Paperno et al. 2016, section 3.1, before the filters).

    Parameters
    ----------
    novels : CandidatePassages, Corpus, path, str, book, or iterable of these
        As :meth:`workbench.texts.corpus.Corpus.of` reads them. Of more novels than some hundred, all
        passages do not fit into memory: pass a `number`, or use `CandidatePassages`.
    minimum : int, default 50
        The context has more tokens than this (candidates have their own).
    answer_in_context : bool, default False
        Leave out passages whose last word, in any case, does not occur in the context. The candidates are
        the different words of the context then, as readers choose from them (Chu et al. 2017).
    skip_frequent : int, default 0
        Leave out passages whose last word is one of so many most frequent words of the novels, in any case.
        With 200, as in LAMBADA, hardly any is a pronoun.
    number : int, optional
        So many passages, if there are as many; all by default.
    seed : int, default 0
        Of the order.
    split : str, default "built"
        Split of the items: another name than those of the release, so that they are not mixed up.
    lowercased : bool, default False
        Lower-case the tokens (variant ``plain``); else they are as in the novels (``capitalised``).

    Returns
    -------
    Items
        Treebank tokens, each passage with the novel it is from.

    Raises
    ------
    DataError
        If there is no such passage.

    Examples
    --------
    >>> from workbench.construction import lambada
    >>> items = lambada.passages(wb.books("sample"), number=20)
    >>> len(items), items[0].book_id, items[0].answer
    (20, 'sample/a-room-for-the-inspector', 'cherries')
    """
    if isinstance(novels, CandidatePassages):
        candidates = novels
    else:
        candidates = CandidatePassages.of(novels, minimum=minimum)
    frequent = set(_most_frequent(candidates, skip_frequent))
    wanted = len(candidates) if number is None else number
    step = max(1, min(_BLOCK, wanted))
    blocks = [candidates.items([])]
    for start in range(0, len(candidates), step):
        if sum(map(len, blocks)) >= wanted:
            break
        drawn = candidates.drawn(start, start + step, seed)
        items = candidates.items(drawn, split=split, lowercased=lowercased, choices=answer_in_context)
        blocks.append(items.where([_is_wanted(item, frequent, inside=answer_in_context) for item in items]))
    items = Items.concat(blocks)[:wanted]
    if not len(items):
        problem = f"none of the {len(candidates):,} candidate passages of these novels is as it was asked for"
        raise DataError(problem, hint="pass more text, a lower minimum, or fewer conditions")
    return items


def _is_wanted(item: Item, frequent: Collection[str], *, inside: bool) -> bool:
    """Return whether the answer is not a frequent word and, where it must be, inside the context."""
    answer = str(item.answer).lower()
    return answer not in frequent and (not inside or answer in " ".join(item.context).lower().split(" "))


def _most_frequent(candidates: CandidatePassages, n: int) -> list[str]:
    """Return the `n` most frequent words of the novels, lower-cased."""
    counts: Counter[str] = Counter()
    for text in candidates.texts() if n else ():
        counts.update(text.lower().split())
    return sorted(counts, key=lambda word: (-counts[word], word))[:n]


@dataclass(frozen=True, repr=False)
class Filtered:
    """What filters left of passages, and why they dropped the others.

    `frame` has one row per passage that was read: ``item_id``, ``book_id``, ``number`` (its place in the
    candidates or items), ``dropped_by`` (the filter that dropped it; missing for survivors) and ``log_prob``
    (natural logarithm of the highest probability that a filter gave to its target: of a passage that was
    dropped, the filter that dropped it). `parameters` are threshold, number, seed, and of each filter class,
    version, configuration and training.
    """

    frame: pd.DataFrame
    parameters: dict[str, Any]
    survivors: Items

    def __len__(self) -> int:
        return len(self.survivors)

    def __repr__(self) -> str:
        return f"Filtered({len(self):,} of {len(self.frame):,} passages)"

    @property
    def step(self) -> Step:
        """What a manifest says of this step; drops are counted by filter."""
        counts = self.frame["dropped_by"].value_counts()
        names = [each["model"] for each in self.parameters["filters"]]
        dropped = {name: int(counts.get(name, 0)) for name in names}
        return Step("filters", len(self.frame), len(self), dropped, unit="passages")


def filtered(
    source: CandidatePassages | Items,
    filters: Sequence[Predictor],
    *,
    threshold: float = THRESHOLD,
    number: int | None = None,
    seed: int = 0,
    split: str = "built",
    lowercased: bool = False,
    trained_on: Texts | None = None,
    block: int = 1024,
) -> Filtered:
    """Drop the passages whose target one of some models finds likely.

    A passage is dropped by the first filter that gives its target a probability of `threshold` or more; later
    filters do not see it. Log-probabilities are stored in the cache, a block of passages and a filter at a
    time, so a call that was killed resumes.

    Parameters
    ----------
    source : CandidatePassages or Items
    filters : sequence of Predictor
        Models that give log-probabilities, such as :func:`paper_filters`; the quickest first.
    threshold : float, default 0.00175
    number : int, optional
        Stop when so many passages have survived; candidates are then drawn at random. By default all passages
        are looked at, in their order.
    seed : int, default 0
        Of the draw.
    split, lowercased
        Of items of candidates: see `CandidatePassages.items`.
    trained_on : Corpus, path, or iterable of books, optional
        The texts that the filters were trained on. DataError if a novel that passages come from is among
        them, by the 13-grams of the first block.
    block : int, default 1024
        Passages that are looked at together.

    Raises
    ------
    DataError
        If a filter gives no probability, two have one name, or a number makes no sense.

    Examples
    --------
    >>> from workbench.construction import lambada
    >>> items = lambada.passages(wb.books("sample"), number=60)
    >>> result = lambada.filtered(items, [ngram])
    >>> len(result.survivors) + len(result.frame[result.frame["dropped_by"] == ngram.name])
    60
    """
    is_possible = block >= 1 and (number is None or number >= 1) and 0 < threshold <= 1
    names = [model.name for model in filters]
    if not filters or len(set(names)) < len(names) or not is_possible or not len(source):
        raise DataError(
            "expected passages, filters with different names, a threshold above 0 and up to 1, a number and a"
            f" block of 1 or more, got {len(source):,} passages, the filters {names}, threshold={threshold},"
            f" number={number}, block={block}",
            hint="pass models such as those of paper_filters; the paper's threshold is 0.00175",
        )
    identities = [model_identity(model) for model in filters]
    about = [
        json_value({**identity, "training": model.training}, f"the training of {model.name!r}")
        for identity, model in zip(identities, filters, strict=True)
    ]
    is_drawn = isinstance(source, CandidatePassages)
    options: dict[str, Any] = {"split": split, "lowercased": lowercased} if is_drawn else {}
    store = cache.Cache("filter-scores", _SCORES)
    frames: list[pd.DataFrame] = []
    survivors: list[Items] = []
    n, total = 0, len(source) if number is None else number
    with progress_bar(total, label="filtering", unit="passages") as bar:
        for start in range(0, len(source), block):
            if number is not None and n >= number:
                break
            numbers = np.arange(start, min(start + block, len(source)))
            if isinstance(source, Items):
                items = source[start : start + block]
            else:
                if number is not None:
                    numbers = source.drawn(start, start + block, seed)
                items = source.items(numbers, **options)
            if trained_on is not None and not frames:
                check_held_out(Corpus.of(trained_on), items)
            frames.append(_filtered_block(items, filters, identities, math.log(threshold), store))
            frames[-1].insert(2, "number", numbers)
            survivors.append(items.where(frames[-1]["dropped_by"].isna().to_numpy()))
            n += len(survivors[-1])
            bar.update(len(items) if number is None else min(len(survivors[-1]), total - bar.n))
    cache.make_room()
    frame = pd.concat(frames, ignore_index=True)
    if number is not None and n > number:  # the block held more than were wanted
        frame = frame[: 1 + int(np.flatnonzero(frame["dropped_by"].isna())[number - 1])]
    parameters = {"threshold": threshold, "number": number, "seed": seed, **options, "filters": about}
    return Filtered(frame, parameters, Items.concat(survivors)[:number])


def _filtered_block(
    items: Items,
    filters: Sequence[Predictor],
    identities: Sequence[Mapping[str, Any]],
    limit: float,
    store: cache.Cache,
) -> pd.DataFrame:
    """Return the rows of some passages; `limit` is the natural logarithm of the threshold."""
    dropped_by = np.full(len(items), None, dtype=object)
    log_prob = np.full(len(items), -np.inf)
    remaining = np.arange(len(items))
    for model, identity in zip(filters, identities, strict=True):
        if not len(remaining):
            break
        scores = _log_probs(model, identity, items.where(np.isin(np.arange(len(items)), remaining)), store)
        log_prob[remaining] = np.maximum(log_prob[remaining], scores)
        dropped_by[remaining[scores >= limit]] = model.name
        remaining = remaining[scores < limit]
    columns = items.frame[["item_id", "book_id"]]
    return columns.assign(dropped_by=pd.Series(dropped_by, dtype="str"), log_prob=log_prob)


def _log_probs(
    model: Predictor, identity: Mapping[str, Any], items: Items, store: cache.Cache
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the log-probabilities of the targets, from the cache where they are there."""
    key = cache.digest("filter", json.dumps(identity, sort_keys=True), items_digest(items))
    is_versioned = identity["version"] is not None  # else nothing tells that the code has changed
    table = store.get(key) if is_versioned else None
    if table is not None and len(table) == len(items):
        return np.asarray(table["log_prob"], np.float64)
    scores = np.asarray(model.log_prob(items), np.float64)
    if scores.shape != (len(items),) or np.isnan(scores).any():
        index = int(np.isnan(scores).argmax()) if scores.shape == (len(items),) else 0
        raise DataError(
            f"the filter {model.name!r} gives no probability to the target of {items[index].item_id}",
            hint="take a language model, whose scores are log-probabilities",
        )
    if is_versioned:
        store.put(key, pa.table([pa.array(scores)], _SCORES))
    return scores


def paper_filters(
    novels: Texts,
    *,
    pretrained: Predictor | None = None,
    held_out: Items | None = None,
    vocabulary: int = 60_000,
    **options: Any,
) -> list[Predictor]:
    """Train the language models that LAMBADA's passages were filtered by.

    They are a 4-gram model, a feed-forward network and a simple recurrent one, trained on novels, and a
    recurrent network that was trained before on other text (Paperno et al. 2016, section 3.1). Their sizes
    and settings are not published: those of the networks here are the defaults of their classes.

    Parameters
    ----------
    novels : Corpus, path, str, book, or iterable of these
        The novels to train on, none of which may be among those that passages are taken from.
    pretrained : Predictor, optional
        The fourth filter; without it there are three.
    held_out : Items, optional
        Passages that must not come from these novels (:func:`workbench.texts.overlap.check_held_out`).
    vocabulary : int, default 60,000
        Words that the models know.
    **options
        Of the training of both networks, such as ``minutes``, ``width`` or ``seed``.

    Returns
    -------
    list of Predictor
        The quickest first.

    Raises
    ------
    DataError
        If the novels are empty or hold a book that the passages come from.

    Examples
    --------
    >>> from workbench.construction import lambada
    >>> small = {"vocabulary": 500, "width": 16, "tokens": 2000}
    >>> [type(model).__name__ for model in lambada.paper_filters(wb.books("sample"), **small)]
    ['NGram', 'FeedForward', 'ElmanRNN']
    """
    from workbench.models import ElmanRNN, FeedForward, NGram  # noqa: PLC0415 - torch is slow to import

    corpus = Corpus.of(novels)
    shared: Any = {"vocabulary": vocabulary, "held_out": held_out}
    filters = [
        NGram.fit(corpus, order=4, **shared),
        FeedForward.fit(corpus, **shared, **options),
        ElmanRNN.fit(corpus, **shared, **options),
    ]
    return filters if pretrained is None else [*filters, pretrained]


def control(candidates: CandidatePassages, number: int = 5000, *, seed: int = 0) -> Items:
    """Draw a control set: passages of the same shape from the same novels, not filtered.

    Paperno et al. (2016, section 4) draw 5,000 passages at random from the novels of the test set "without
    filtering them in any way". Nothing excludes passages that are in the test set, so nothing does here.

    Parameters
    ----------
    candidates : CandidatePassages
        Of the novels that the filtered passages come from.
    number : int, default 5000
    seed : int, default 0
        Of the draw, which is another one than that of `filtered` with the same seed.

    Returns
    -------
    Items
        In the order of the draw. ``attrs["parameters"]`` says how they were drawn.

    Raises
    ------
    DataError
        If there are fewer candidates.

    Examples
    --------
    >>> from workbench.construction import lambada
    >>> from workbench.construction.candidates import CandidatePassages
    >>> candidates = CandidatePassages.of(wb.books("sample"))
    >>> lambada.control(candidates, 50)
    Items(50: 50 x lambada/built-control/capitalised)
    """
    if not 0 < number <= len(candidates):
        raise DataError(
            f"expected a number of passages from 1 to {len(candidates):,}, got {number}",
            hint="ask for fewer, or pass more novels",
        )
    drawn = permuted(np.arange(number, dtype=np.int64), len(candidates), key=(seed, _CONTROL))
    items = candidates.items(drawn, split="built-control")
    items.attrs["parameters"] = {"number": number, "seed": seed}
    return items


def recorded(
    manifest: Manifest,
    candidates: CandidatePassages,
    result: Filtered | None = None,
    control: Items | None = None,
) -> Manifest:
    """Add the steps that were taken to the manifest of the novels: ``passages``, ``filters``, ``control``.

    Parameters
    ----------
    manifest : Manifest
    candidates : CandidatePassages
    result, control : Filtered and Items, optional
        What the functions `filtered` and `control` returned.

    Examples
    --------
    >>> from workbench.construction import lambada
    >>> from workbench.construction.candidates import CandidatePassages
    >>> from workbench.construction.manifest import Manifest
    >>> candidates = CandidatePassages.of(wb.books("sample"))
    >>> lambada.recorded(Manifest(), candidates).to_frame()[["step", "n_in", "n_out"]]
                     step  n_in  n_out
    0  candidate passages  3177   1847
    """
    parameters = {**candidates.rule._asdict(), "version": CANDIDATES_VERSION, "sha256": candidates.sha256}
    manifest = manifest.extended("passages", parameters=parameters, steps=[candidates.step])
    if result is not None:
        manifest = manifest.extended("filters", parameters=result.parameters, steps=[result.step])
    if control is not None:
        n = len(control)
        step = Step("control set", len(candidates), n, {NOT_DRAWN: len(candidates) - n}, unit="passages")
        manifest = manifest.extended("control", parameters=control.attrs["parameters"], steps=[step])
    return manifest
