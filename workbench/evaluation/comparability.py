"""Warnings of what must not be compared, one whole sentence each.

`of_items` and `of_values` take labels and predictions of the models (m), items (n), and the row of each model
for each item (m, n), -1 where there is none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from workbench.evaluation.bootstrap import Floats, Ints, Mask
from workbench.evaluation.reading import ModelPredictions
from workbench.items.items import Items

_DIFFERENCES = {
    "unit": "The models do not predict the same unit",
    "filter": "The models exclude different words from their choices",
    "vocabulary_size": "The models choose from vocabularies of different size, so ranks and perplexities are"
    " not comparable",
    "unknown": "The models score unknown answers differently, so perplexities are not comparable",
    "prompt": "The models were prompted differently",
}
_WORDS = {
    "unit": {"word": "whole words", "last-token": "the last token only"},
    "filter": {"none": "none", "stop-words": "stop words excluded"},
}
_LOOSE = 1e-6
_NAMED = 4  # models that a sentence names

T = TypeVar("T", bound=Hashable)


def of_items(
    labels: Sequence[str], items: Items, models: Sequence[ModelPredictions], rows: Ints, common: Mask
) -> list[str]:
    """Warn of items that are left out because not all models predicted them; `common` (n,) are compared."""
    n = int(common.sum())
    predicted = dict(zip(labels, (rows >= 0).sum(axis=1).tolist(), strict=True))
    warnings = []
    extra = [
        f"{_and(who)} {'has' if len(who) == 1 else 'each have'} {count - n:,} more"
        for count, who in _grouped(predicted)
        if count > n
    ]
    if extra:
        warnings.append(
            f"The models did not predict the same items, so they are compared on the {_items(n)} that all"
            f" predicted: {'; '.join(extra)}."
        )
    elif n < len(items):
        warnings.append(
            f"Of the {_items(len(items))} given, {len(items) - n:,} are excluded: no model predicted them, or"
            " their answers are not known."
        )
    strange = {
        label: len(model.table) - predicted[label] - int(model.table["correct"].null_count)
        for label, model in zip(labels, models, strict=True)
    }
    for count, who in _grouped(strange):
        if count > 0:
            are = "is" if count == 1 else "are"
            warnings.append(
                f"{_items(count)} that {_and(who)} predicted {are} not among those given, and {are} excluded."
            )
    return warnings


def of_values(
    labels: Sequence[str], items: Items, models: Sequence[ModelPredictions], rows: Ints, log_prob: Floats
) -> list[str]:
    """Warn of differences between the predictions; `log_prob` (m, n) is that of the answers."""
    each = list(zip(labels, models, rows, strict=True))
    warnings = list(_variants(items, each))
    proper = {label: bool((~np.isnan(row)).any()) for label, row in zip(labels, log_prob, strict=True)}
    for name, difference in _DIFFERENCES.items():
        values = {
            label: frozenset(model.values(name, places))
            for label, model, places in each
            if name != "unknown" or proper[label]
        }
        if len(set(values.values())) > 1:
            warnings.append(f"{difference}: {_listed({k: _words(name, v) for k, v in values.items()})}.")
    warnings += _log_probs(each, log_prob)
    bounds = {label: int(model.truths("rank_is_bound")[places].sum()) for label, model, places in each}
    if any(bounds.values()):
        counts = "; ".join(f"{_and([label])}, {_items(k)}" for label, k in bounds.items() if k)
        warnings.append(f"Some ranks are only lower bounds, so median ranks may be too low: {counts}.")
    return warnings


Each = Sequence[tuple[str, ModelPredictions, Ints]]


def _variants(items: Items, each: Each) -> Iterator[str]:
    """Compare the variants of the predictions with each other and with that of the items."""
    read = {label: ", ".join(sorted(model.values("variant", places))) for label, model, places in each}
    variant, shown = next(iter(read.values())), ", ".join(sorted(set(items.frame["variant"])))
    if len(set(read.values())) > 1:
        yield (
            f"The models read different variants of the text, which is not the same task: {_listed(read)}."
        )
    elif variant != shown:
        yield f"The models read the variant {variant}, and the items shown are of the variant {shown}."


def _log_probs(each: Each, log_prob: Floats) -> Iterator[str]:
    known = ~np.isnan(log_prob)
    count = {label: int(row.sum()) for (label, *_), row in zip(each, known, strict=True)}
    none = [label for label, k in count.items() if not k]
    if none and len(none) < len(each):
        one = len(none) == 1
        yield (
            f"{_and(none)} {'gives' if one else 'give'} no log-probabilities, so"
            f" {'its perplexity is' if one else 'their perplexities are'} not known."
        )
    if len({row.tobytes() for row in known if row.any()}) > 1:
        yield (
            "Log-probabilities are given for different items, so perplexities are not of the same items:"
            f" {_listed({label: _items(k) for label, k in count.items() if k})}."
        )
    infinite = {label: int(row.sum()) for (label, *_), row in zip(each, np.isneginf(log_prob), strict=True)}
    for k, who in _grouped(infinite):
        if k:
            yield (
                f"{_and(who)} {'gives' if len(who) == 1 else 'each give'} probability 0 to"
                f" {'the answer' if k == 1 else 'the answers'} of {_items(k)}, so the perplexity is infinite."
            )
    events = {label: event for label, model, rows in each if (event := _event(model, rows)) is not None}
    if len(set(events.values())) > 1:
        yield (
            "Log-probabilities are not of the same event, so perplexities must not be compared:"
            f" {_listed(events)}."
        )


def _event(model: ModelPredictions, rows: Ints) -> str | None:
    """Say what the log-probabilities of a model are of; None where it gives none."""
    corrected, open_ended = (model.floats(name)[rows] for name in ("log_prob", "log_prob_uncorrected"))
    if np.isnan(corrected).all():
        return None
    both = np.isfinite(corrected) & np.isfinite(open_ended)
    if both.any() and (np.abs(open_ended - corrected)[both] < _LOOSE).all():
        return "the sub-tokens of the answer, whatever follows them"
    return "the whole word"


def _words(name: str, values: frozenset[Any]) -> str:
    """Write the values of a column of one model for readers."""
    write: Callable[[Any], str] = {
        "vocabulary_size": lambda size: f"{size:,} words",
        "prompt": lambda text: _prompt(str(text)),
    }.get(name, lambda value: _WORDS.get(name, {}).get(value, str(value)))
    return ", ".join(sorted(map(write, values))) or ("no prompt" if name == "prompt" else "not known")


def _prompt(text: str) -> str:
    """Say a prompt in few words: how many examples, and the template."""
    try:
        prompt = json.loads(text)
        template, shots, seed = str(prompt["template"]), int(prompt["shots"]), prompt.get("seed")
    except (ValueError, TypeError, KeyError):
        return _short(text, 60)
    drawn = f" drawn by seed {seed}" if shots and seed is not None else ""
    return f"{shots} {'example' if shots == 1 else 'examples'}{drawn}, template {_short(template, 40)!r}"


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _grouped(values: Mapping[str, T]) -> list[tuple[T, list[str]]]:
    """Return the different values, each with the labels that have it."""
    return [(value, [k for k in values if values[k] == value]) for value in dict.fromkeys(values.values())]


def _listed(values: Mapping[str, str]) -> str:
    """List values with the models that have them."""
    return "; ".join(f"{value} ({_and(who)})" for value, who in _grouped(values))


def _and(names: Sequence[str]) -> str:
    names = [f"“{name}”" for name in names]
    if len(names) > _NAMED:
        return f"{', '.join(names[: _NAMED - 1])} and {len(names) - _NAMED + 1} others"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _items(k: int) -> str:
    return f"{k:,} {'item' if k == 1 else 'items'}"
