"""Warnings about predictions that are not comparable."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from workbench.evaluation.bootstrap import Floats, Ints, Mask
from workbench.evaluation.model_predictions import (
    ModelPredictions,
    is_uncorrected,
    list_answer_notes,
    words_of,
)
from workbench.items.ablation import split_variant
from workbench.items.language import language, language_name, languages_of
from workbench.render.numbers import percent
from workbench.storage.cache import digest

_DIFFERENCES = {
    "unit": "The models do not predict the same unit",
    "detokenised": "The models read texts in different forms",
    "filter": "The models exclude different words from their choices",
    "vocabulary_size": "The models choose from vocabularies of different size, so ranks and perplexities are"
    " not comparable",
    "unknown": "The models score unknown answers differently, so perplexities are not comparable",
    "prompt": "The models were prompted differently",
}
_SUB_TOKENS = "the sub-tokens of the answer alone"
_NAMED = 4  # models that a sentence names
_TENTH = 0.1

T = TypeVar("T", bound=Hashable)
Each = Sequence[tuple[str, ModelPredictions, Ints]]


def list_warnings(
    labels: Sequence[str],
    models: Sequence[ModelPredictions],
    rows: Ints,
    log_prob: Floats,
    variants: set[str] | None = None,
) -> list[str]:
    """Describe the differences between the predictions of models (m), and the items left out.

    `rows` (m, all items) has the row of each model for each item, -1 without a known answer; `log_prob`
    (m, n) is of the n items that are common to all models; `variants` are those of the items that were given.
    """
    common: Mask = np.asarray((rows >= 0).all(axis=0))
    each = list(zip(labels, models, rows[:, common], strict=True))
    return [
        *list_training(
            (label, int(model.truths("in_training")[r].sum()), len(r)) for label, model, r in each
        ),
        *_excluded(labels, models, rows, int(common.sum())),
        *_value_warnings(each, log_prob, variants),
        *list_answer_notes(models),
    ]


def _excluded(labels: Sequence[str], models: Sequence[ModelPredictions], rows: Ints, n: int) -> list[str]:
    """Warn of items that are left out because not all models predicted them; `n` are compared."""
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
    elif n < rows.shape[1]:
        warnings.append(
            f"Of the {_items(rows.shape[1])} given, {rows.shape[1] - n:,} are excluded: no model predicted"
            " them, or their answers are not known."
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


def list_unshared(labels: Sequence[str], models: Sequence[ModelPredictions]) -> Iterator[str]:
    """Warn of models (m) on different items of one split, or with other candidates for the same items.

    Word classes and languages count as splits, as they are often predicted apart.
    """
    answered = [np.flatnonzero(pc.is_valid(model.table["correct"]).to_numpy()) for model in models]
    tables = [
        model.table.select(["item_id", "dataset", "split", "word_class", "variant"]).take(pa.array(rows))
        for model, rows in zip(models, answered, strict=True)
    ]
    candidates = [model.candidates(rows) for model, rows in zip(models, answered, strict=True)]
    if all(
        table["item_id"].equals(tables[0]["item_id"]) and digests.equals(candidates[0])
        for table, digests in zip(tables, candidates, strict=True)
    ):
        return
    splits: dict[tuple[Any, ...], dict[str, pd.Series[Any]]] = {}
    for label, table, digests in zip(labels, tables, candidates, strict=True):
        frame = table.to_pandas()
        keys = [frame[name].astype("str").fillna("") for name in ("dataset", "split", "word_class")]
        codes = [key.to_numpy() for key in (*keys, frame["variant"].astype("str").map(language))]
        by_item = pd.Series(digests.to_pandas().to_numpy(), frame["item_id"].to_numpy())
        for key, members in by_item.groupby(codes):
            splits.setdefault(key, {})[label] = members
    for (dataset, split, word_class, _), of_models in splits.items():
        common = set.intersection(*(set(each.index) for each in of_models.values()))
        if any(len(each) > len(common) for each in of_models.values()):
            counts = _listed({label: _items(len(each)) for label, each in of_models.items()})
            yield (
                f"These are not on the same items of {'/'.join(filter(None, [dataset, split, word_class]))}:"
                f" {counts}; {_items(len(common))} in common."
            )
        ids = sorted(common)
        yield from list_candidates(
            {label: pa.array(each.loc[ids], pa.string()) for label, each in of_models.items()}
        )


def list_training(counts: Iterable[tuple[str, int, int]]) -> list[str]:
    """Return the models fitted on passages: name, number of these, and of all predicted passages."""
    grouped: dict[tuple[int, int], list[str]] = {}
    for name, count, n in counts:
        if count and name not in (names := grouped.setdefault((count, n), [])):
            names.append(name)
    return [
        f"{percent(count / n)} of these passages ({count:,} of {n:,}) stand whole in the texts that"
        f" {_and(who)} {'was' if len(who) == 1 else 'were'} fitted on, so results on new texts may be worse."
        for (count, n), who in grouped.items()
    ]


def _value_warnings(each: Each, log_prob: Floats, variants: set[str] | None) -> list[str]:
    """Warn of differences between the predictions of each model on the items."""
    warnings = list(_variants(each, variants))
    warnings += list_candidates({label: model.candidates(indices) for label, model, indices in each})
    lost = {
        label: int((~model.truths("known")[indices]).sum()) if model.values("known", indices) else 0
        for label, model, indices in each
    }
    sets = {label: model.value_sets(indices) for label, model, indices in each}
    log_probs = [label for (label, *_), row in zip(each, log_prob, strict=True) if not np.isnan(row).all()]
    warnings += _differences(sets, log_probs, lost, log_prob.shape[1])
    warnings += _beginnings({label: values["bos"] for label, values in sets.items()})
    warnings += _log_probs(each, log_prob)
    bounds = {label: int(model.truths("rank_is_bound")[indices].sum()) for label, model, indices in each}
    if any(bounds.values()):
        counts = "; ".join(f"{_and([label])}, {_items(k)}" for label, k in bounds.items() if k)
        warnings.append(f"Some ranks are only lower bounds, so median ranks may be too low: {counts}.")
    return warnings


def _differences(
    sets: Mapping[str, Mapping[str, set[Any]]], log_probs: Sequence[str], lost: Mapping[str, int], n: int
) -> list[str]:
    """Describe the columns of `VARIANT` in which models differ, from the different values by label.

    `log_probs` are the models that give some; `lost` of `n` answers are not among a model's words.
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
            sentences.append(f"{difference}: {listed}.")
            if name == "vocabulary_size":
                sentences[-1] = " ".join([sentences[-1], *_unpredictable(lost, n)])
                lost = {}  # said already
    return [*sentences, *filter(None, [unpredictable({who: count / n for who, count in lost.items()})])]


def unpredictable(shares: Mapping[str, float]) -> str:
    """List the models that cannot predict more than a tenth of the answers; empty without any.

    `shares` has the share of the answers that are not among the words of each.
    """
    lost = sorted((-share, who) for who, share in shares.items() if share > _TENTH)
    listed = [f"“{who}” {percent(-share)}" for share, who in lost]
    if len(listed) > _NAMED:
        least, others = percent(-lost[-1][0]), len(listed) - _NAMED + 1
        listed[_NAMED - 1 :] = [f"{others} others {least} or more"]
    if not listed:
        return ""
    return (
        "More than a tenth of the answers cannot be predicted, as they are not among the words of the model,"
        f" and count as wrong: {', '.join(listed)}."
    )


def _unpredictable(lost: Mapping[str, int], n: int) -> Iterator[str]:
    for count, who in _grouped(lost):
        if count:
            yield (
                f"{_and(who)} cannot predict {percent(count / n)} of the answers, which are not among"
                f" {'its' if len(who) == 1 else 'their'} words and count as wrong."
            )


def other_task(a: Mapping[str, set[Any]], b: Mapping[str, set[Any]]) -> bool:
    """Return whether two models read different texts or predict different units, so not comparable.

    What a model sees of a text, the query alone for instance, is not another text.
    """
    text_a, text_b = ({split_variant(str(variant))[0] for variant in each["variant"]} for each in (a, b))
    return text_a != text_b or a["unit"] != b["unit"]


def other_candidates(a: pa.Array, b: pa.Array) -> bool:
    """Return whether one of the items has other candidates for one model than for another.

    Both (n,) are digests as :meth:`ModelPredictions.candidates` gives them; null where they are not known.
    """
    return bool(pc.any(pc.not_equal(a, b), min_count=0).as_py())


def joint_candidates(candidates: pa.Array) -> str | None:
    """Return what is known of the candidates of items (n,) as if they were one item's.

    So `other_candidates` compares two models on the same items, in the same order, by one value of each.
    """
    return None if candidates.null_count else digest(*candidates.to_pylist())


def list_candidates(candidates: Mapping[str, pa.Array]) -> Iterator[str]:
    """Warn of items (n,) that have other candidates for one model than for the first, by label."""
    first, *others = candidates.values()
    if any(other_candidates(first, other) for other in others):
        each = {
            label: {value.partition(":")[0] for value in pc.unique(digests).to_pylist() if value}
            for label, digests in candidates.items()
        }
        listed = _listed({label: " or ".join(sorted(numbers, key=int)) for label, numbers in each.items()})
        yield (
            "The models did not have the same candidates to choose from, which is not the same task; their"
            f" numbers: {listed}."
        )


def other_event(a: Mapping[str, set[Any]], b: Mapping[str, set[Any]]) -> bool:
    """Return whether probabilities of two models are of different events, so not comparable."""
    return other_task(a, b) or any(a[name] != b[name] for name in ("vocabulary_size", "unknown"))


def _beginnings(bos: Mapping[str, set[Any]]) -> Iterator[str]:
    """Warn of logs that lack a mark of the beginning, or may, beside results that have one."""
    values = {label: frozenset(each) for label, each in bos.items() if each}
    listed = _listed({label: words_of("bos", value) for label, value in values.items()})
    seen = frozenset().union(*values.values())
    if seen & {"omitted", "unknown"} and len(seen & {"omitted", "unknown", "added", "tokenizer"}) > 1:
        yield (
            f"The texts do not all begin in the same way: {listed}. Where a tokenizer adds a mark of"
            " the beginning (BOS), results with and without it are not comparable; lm-evaluation-harness"
            " leaves it out before version 0.4.9.2, unless add_bos_token is set."
        )


def _variants(each: Each, variants: set[str] | None) -> Iterator[str]:
    """Compare the variants of the predictions with each other and with the items' variants."""
    sets = {label: model.values("variant", indices) for label, model, indices in each}
    if len(languages := languages_of(set().union(*sets.values()))) > 1:
        names = " and ".join(map(language_name, languages))
        yield (
            f"The items are in several languages ({names}), and all numbers are over all of them; to compare"
            " in one language, pass its items alone."
        )
    read = {label: ", ".join(sorted(variants)) for label, variants in sets.items()}
    variant, expected = next(iter(read.values())), ", ".join(sorted(variants or ()))
    unchanged = {label: {split_variant(str(name))[0] for name in each} for label, each in sets.items()}
    if len(set(read.values())) > 1 and len({frozenset(each) for each in unchanged.values()}) == 1:
        yield f"The models read different forms of the same items: {_listed(read)}."
    elif len(set(read.values())) > 1:
        yield (
            f"The models read different variants of the text, which is not the same task: {_listed(read)}."
        )
    elif variants is not None and variant != expected:
        yield f"The models read the variant {variant}, and the items shown are of the variant {expected}."


def _log_probs(each: Each, log_prob: Floats) -> Iterator[str]:
    present = ~np.isnan(log_prob)
    count = {label: int(row.sum()) for (label, *_), row in zip(each, present, strict=True)}
    pairs = [(model.log_prob[rows], model.floats("log_prob_uncorrected")[rows]) for _, model, rows in each]
    events = [_event(*pair) for pair in pairs]
    none = [label for (label, *_), event in zip(each, events, strict=True) if event is None]
    if none and len(none) < len(each):
        single = len(none) == 1
        yield (
            f"{_and(none)} {'gives' if single else 'give'} no log-probabilities, so"
            f" {'its perplexity is' if single else 'their perplexities are'} not known."
        )
    if len({row.tobytes() for row in present if row.any()}) > 1:
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
    if len(set(events) - {None}) > 1:
        corrected, uncorrected = map(np.stack, zip(*pairs, strict=True))
        held = {label: event for (label, *_), event in zip(each, events, strict=True) if event}
        of_all = not np.isnan(of_one_event(corrected, uncorrected)[~np.isnan(corrected)]).any()
        yield (
            f"Log-probabilities are not of the same event: {_listed(held)}."
            + (" So differences are of those of the sub-tokens." if of_all else "")
            + ("" if of_all else " So there are no differences between them.")
        )


def of_one_event(corrected: Floats, uncorrected: Floats) -> Floats:
    """Return log-probabilities of answers (m, n) that are of the same event for all models.

    Where some models have those of the sub-tokens alone, whatever follows them (``log_prob_uncorrected``),
    that is those of all models if all have them; else it is NaN for these models.
    """
    events = [_event(*pair) for pair in zip(corrected, uncorrected, strict=True)]
    if len(set(events) - {None}) < 2:  # noqa: PLR2004 - they differ
        return corrected
    missing = np.isnan(corrected)
    if not np.isnan(uncorrected[~missing]).any():
        return np.where(missing, np.nan, uncorrected)
    return np.where(np.array([event == _SUB_TOKENS for event in events])[:, None], np.nan, corrected)


def _event(corrected: Floats, uncorrected: Floats) -> str | None:
    """Return the event of a model's log-probabilities (n,) in words; None without any."""
    if np.isnan(corrected).all():
        return None
    return _SUB_TOKENS if is_uncorrected(corrected, uncorrected) else "the whole word"


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
