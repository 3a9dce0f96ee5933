"""What must not be compared, and why: one whole sentence each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.evaluation.rows import Rows
from workbench.items.items import Items

Places = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_SAID = {
    "unit": "The models do not predict the same unit",
    "filter": "The models' candidates are not filtered alike",
    "vocabulary_size": "The models choose from vocabularies of different size, so ranks and perplexities do"
    " not mean the same",
    "unknown": "Answers outside the vocabulary are not counted alike, so perplexities do not mean the same",
    "prompt": "The models were not prompted alike",
}
_UNITS = {"word": "whole words", "last-token": "the last token only"}
_FILTERS = {"none": "none", "stop-words": "stop words left out"}
_NULLS = {"prompt": "no prompt", "vocabulary_size": "not known"}
_LOOSE = 1e-6
_NAMED = 4


def of_items(
    labels: Sequence[str], items: Items, found: Sequence[Rows], aligned: Places, common: npt.NDArray[np.bool_]
) -> list[str]:
    """Tell what is left out because not all models predicted it.

    Parameters
    ----------
    labels : sequence of str (m,)
    items : Items (all,)
        As they were given.
    found : sequence of Rows (m,)
    aligned : array of int (m, all)
        The row of each model for each item, -1 without one.
    common : array of bool (all,)
        Items that are compared.
    """
    n = int(common.sum())
    warnings = []
    more = {label: int((mine >= 0).sum()) - n for label, mine in zip(labels, aligned, strict=True)}
    if any(more.values()):
        has = "; ".join(f"{_and(who)} {_has(who)} {k:,} more" for k, who in _grouped(more) if k)
        warnings.append(
            f"The models did not predict the same items, so they are compared on the {_items(n)} that all"
            f" predicted: {has}."
        )
    elif n < len(items):
        warnings.append(
            f"Of the {_items(len(items))} given, {len(items) - n:,} are left out: no model predicted them, or"
            " their answers are not known."
        )
    strange = {
        label: len(one.table) - int((mine >= 0).sum()) - _unanswered(one)
        for label, one, mine in zip(labels, found, aligned, strict=True)
    }
    for k, who in _grouped(strange):
        if k > 0:
            are = "is" if k == 1 else "are"
            warnings.append(
                f"{_items(k)} that {_and(who)} predicted {are} not among those given, and {are} left out."
            )
    return [f"{text[0].upper()}{text[1:]}" for text in warnings]


def of_values(
    labels: Sequence[str],
    items: Items,
    found: Sequence[Rows],
    places: Places,
    log_prob: npt.NDArray[np.float64],
) -> list[str]:
    """Tell what the predictions of the compared items differ in.

    Parameters
    ----------
    labels : sequence of str (m,)
    items : Items (n,)
        Those that are compared.
    found : sequence of Rows (m,)
    places : array of int (m, n)
        Their rows for these items.
    log_prob : array (m, n)
    """
    each = list(zip(labels, found, places, strict=True))
    warnings = list(_variants(items, each))
    for name, said in _SAID.items():
        values = {
            label: frozenset(one.values(name, mine))
            for (label, one, mine), given in zip(each, ~np.isnan(log_prob), strict=True)
            if name != "unknown" or given.any()
        }
        if len(set(values.values())) > 1:
            warnings.append(f"{said}: {_listed({label: _one(name, v) for label, v in values.items()})}.")
    warnings += _log_probs(each, log_prob)
    bounds = [label for label, one, mine in each if one.truths("rank_is_bound")[mine].any()]
    if bounds:
        some = {label: int(one.truths("rank_is_bound")[mine].sum()) for label, one, mine in each}
        counts = "; ".join(f"{_and([label])}, {_items(some[label])}" for label in bounds)
        warnings.append(f"Some ranks are only lower bounds, so median ranks may be too low: {counts}.")
    return warnings


def _variants(items: Items, each: Sequence[tuple[str, Rows, Places]]) -> Iterator[str]:
    """Compare the variants of the predictions with each other and with that of the items."""
    mine = {label: ", ".join(sorted(one.values("variant", places))) for label, one, places in each}
    if len(set(mine.values())) > 1:
        yield (
            f"The models read different variants of the text, which is not the same task: {_listed(mine)}."
        )
        return
    given = ", ".join(sorted(set(items.frame["variant"])))
    said = next(iter(mine.values()))
    if said != given:
        yield f"The models read the variant {said}, and the items shown are of the variant {given}."


def _log_probs(each: Sequence[tuple[str, Rows, Places]], log_prob: Floats) -> Iterator[str]:
    some = ~np.isnan(log_prob)
    count = dict(zip((label for label, *_ in each), some.sum(axis=1).tolist(), strict=True))
    none = [label for label, k in count.items() if not k]
    if none and len(none) < len(each):
        yield (
            f"{_and(none)} {'gives' if len(none) == 1 else 'give'} no log-probabilities, so"
            f" {'its perplexity is' if len(none) == 1 else 'their perplexities are'} not known."
        )
    has = [row for row in some if row.any()]
    if has and any((row != has[0]).any() for row in has[1:]):
        given = {label: _items(k) for label, k in count.items() if k}
        yield (
            "Log-probabilities are given for different items, so perplexities are not of the same items:"
            f" {_listed(given)}."
        )
    infinite = {label: int(k) for (label, *_), k in zip(each, np.isneginf(log_prob).sum(axis=1), strict=True)}
    for k, who in _grouped(infinite):
        if k:
            yield (
                f"{_and(who)} {_gives(who)} probability 0 to {'the answer' if k == 1 else 'the answers'} of"
                f" {_items(k)}, so the perplexity is infinite."
            )
    ends = {label: end for label, one, places in each if (end := _end_of_word(one, places)) is not None}
    if len(set(ends.values())) > 1:
        yield (
            "Log-probabilities are not of the same event, so perplexities must not be compared:"
            f" {_listed(ends)}."
        )


def _end_of_word(one: Rows, places: Places) -> str | None:
    """Tell what the log-probabilities of a model are of; None where it gives none."""
    given, open_ended = one.floats("log_prob")[places], one.floats("log_prob_uncorrected")[places]
    if np.isnan(given).all():
        return None
    both = np.isfinite(given) & np.isfinite(open_ended)
    if both.any() and (np.abs(open_ended - given)[both] < _LOOSE).all():
        return "the sub-tokens of the answer, whatever follows them"
    return "the whole word"


def _one(name: str, values: frozenset[Any]) -> str:
    if not values:
        return _NULLS.get(name, "not known")
    return ", ".join(sorted(_shown(name, value) for value in values))


def _shown(name: str, value: Any) -> str:
    if name == "vocabulary_size":
        return f"{value:,} words"
    if name == "prompt":
        return _prompt(str(value))
    return {"unit": _UNITS, "filter": _FILTERS}.get(name, {}).get(value, str(value))


def _prompt(text: str) -> str:
    """Say a prompt in few words: how many examples, and the template."""
    try:
        told = json.loads(text)
        template, shots, seed = str(told["template"]), int(told["shots"]), told.get("seed")
    except (ValueError, TypeError, KeyError):
        return text if len(text) <= 60 else f"{text[:59]}…"  # noqa: PLR2004
    short = template if len(template) <= 40 else f"{template[:39]}…"  # noqa: PLR2004
    drawn = f" drawn by seed {seed}" if shots and seed is not None else ""
    return f"{shots} {'example' if shots == 1 else 'examples'}{drawn}, template {short!r}"


def _unanswered(one: Rows) -> int:
    return int(one.table["correct"].null_count)


def _grouped(counts: dict[str, int]) -> list[tuple[int, list[str]]]:
    """Return the models that share a count, together."""
    found: dict[int, list[str]] = {}
    for label, k in counts.items():
        found.setdefault(k, []).append(label)
    return list(found.items())


def _listed(values: dict[str, str]) -> str:
    """List values with the models that have them."""
    found: dict[str, list[str]] = {}
    for label, value in values.items():
        found.setdefault(value, []).append(label)
    return "; ".join(f"{value} ({_and(who)})" for value, who in found.items())


def _and(names: Sequence[str]) -> str:
    names = [f"“{name}”" for name in names]
    if len(names) > _NAMED:
        return f"{', '.join(names[: _NAMED - 1])} and {len(names) - _NAMED + 1} others"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _has(names: Sequence[str]) -> str:
    return "has" if len(names) == 1 else "each have"


def _gives(names: Sequence[str]) -> str:
    return "gives" if len(names) == 1 else "each give"


def _items(k: int) -> str:
    return f"{k:,} {'item' if k == 1 else 'items'}"
