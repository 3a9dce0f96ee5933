"""Warnings of what must not be compared, one whole sentence each.

`of_training`, `of_items` and `of_values` take labels and predictions of the models (m), items (n), and the
row of each model for each item (m, n), -1 where there is none.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from workbench.evaluation.bootstrap import Floats, Ints, Mask
from workbench.evaluation.reading import ModelPredictions, words_of
from workbench.items.ablation import split_variant
from workbench.items.items import Items
from workbench.render.numbers import percent

_DIFFERENCES = {
    "unit": "The models do not predict the same unit",
    "filter": "The models exclude different words from their choices",
    "vocabulary_size": "The models choose from vocabularies of different size, so ranks and perplexities are"
    " not comparable",
    "unknown": "The models score unknown answers differently, so perplexities are not comparable",
    "prompt": "The models were prompted differently",
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


def of_training(labels: Sequence[str], models: Sequence[ModelPredictions], rows: Ints) -> list[str]:
    """Warn of items whose whole passages the models were fitted on."""
    each = zip(labels, models, rows, strict=True)
    return list_training(
        (label, int(model.truths("in_training")[r].sum()), len(r)) for label, model, r in each
    )


def list_training(counts: Iterable[tuple[str, int, int]]) -> list[str]:
    """Say which models were fitted on passages: name, number of those, and of all that were predicted."""
    grouped: dict[tuple[int, int], list[str]] = {}
    for name, count, n in counts:
        if count and name not in (names := grouped.setdefault((count, n), [])):
            names.append(name)
    return [
        f"{percent(count / n)} of these passages ({count:,} of {n:,}) stand whole in the texts that"
        f" {_and(who)} {'was' if len(who) == 1 else 'were'} fitted on, so results on new texts may be worse."
        for (count, n), who in grouped.items()
    ]


def of_values(
    labels: Sequence[str], items: Items, models: Sequence[ModelPredictions], rows: Ints, log_prob: Floats
) -> list[str]:
    """Warn of differences between the predictions; `log_prob` (m, n) is that of the answers."""
    each = list(zip(labels, models, rows, strict=True))
    warnings = list(_variants(items, each))
    proper = {label: bool((~np.isnan(row)).any()) for label, row in zip(labels, log_prob, strict=True)}
    lost = {
        label: int((~model.truths("known")[places]).sum()) if model.values("known", places) else 0
        for label, model, places in each
    }
    sets = {label: model.value_sets(places) for label, model, places in each}
    log_probs = [label for label in labels if proper[label]]
    warnings += list_differences(sets, log_probs, lost, len(items))
    warnings += _log_probs(each, log_prob)
    bounds = {label: int(model.truths("rank_is_bound")[places].sum()) for label, model, places in each}
    if any(bounds.values()):
        counts = "; ".join(f"{_and([label])}, {_items(k)}" for label, k in bounds.items() if k)
        warnings.append(f"Some ranks are only lower bounds, so median ranks may be too low: {counts}.")
    return warnings


def list_differences(
    sets: Mapping[str, Mapping[str, set[Any]]], log_probs: Sequence[str], lost: Mapping[str, int], n: int
) -> list[str]:
    """Say in which columns of `VARIANT` models differ.

    `sets` has the different values of each column by label; `log_probs` are the models that give some, and
    `lost` says how many of `n` answers are not among a model's words.
    """
    sentences = []
    for name, difference in _DIFFERENCES.items():
        values = {
            label: frozenset(of_model[name])
            for label, of_model in sets.items()
            if name != "unknown" or label in log_probs
        }
        if len(set(values.values())) > 1:
            listed = _listed({label: words_of(name, value) for label, value in values.items()})
            meaning = _unpredictable(lost, n) if name == "vocabulary_size" else ()
            sentences.append(" ".join([f"{difference}: {listed}.", *meaning]))
    return sentences


def _unpredictable(lost: Mapping[str, int], n: int) -> Iterator[str]:
    for count, who in _grouped(lost):
        if count:
            yield (
                f"{_and(who)} cannot predict {percent(count / n)} of the answers, which are not among"
                f" {'its' if len(who) == 1 else 'their'} words and count as wrong."
            )


def other_task(a: Mapping[str, set[Any]], b: Mapping[str, set[Any]]) -> bool:
    """Tell whether two models read different texts or predict different units: accuracies are not comparable.

    What a model sees of a text, the query alone for instance, is no other text.
    """
    text_a, text_b = ({split_variant(str(variant))[0] for variant in each["variant"]} for each in (a, b))
    return text_a != text_b or a["unit"] != b["unit"]


def other_event(a: Mapping[str, set[Any]], b: Mapping[str, set[Any]]) -> bool:
    """Tell whether probabilities of two models are of different events, so not comparable."""
    return other_task(a, b) or any(a[name] != b[name] for name in ("vocabulary_size", "unknown"))


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
