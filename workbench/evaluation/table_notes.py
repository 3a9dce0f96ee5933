"""Notes under tables and comparisons: fixed sentences with numbers in them, each chosen by a condition.

That on answers that differ from the items' by marks alone is of :mod:`workbench.predictions.schema`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from workbench.evaluation.bootstrap import Mask
from workbench.evaluation.model_predictions import is_uncorrected
from workbench.evaluation.paired import other_candidates
from workbench.evaluation.table_columns import (
    digests_of,
    known_candidates,
    log_probs,
    numbers,
    truths,
    value_sets,
)
from workbench.items.ablation import split_variant
from workbench.items.language import language_name, languages_of
from workbench.render.labels import label as label_of
from workbench.render.numbers import percent

TRAINING = "Whole passages in the texts that a model was fitted on, so new texts may be harder: {each}."
ITEMS = "The models did not predict the same items: {each}; {n:,} are common to all."
TASK = "This is not the same task, so there is no p. {column}: {each}."
PERPLEXITY = "Perplexities and ranks are not comparable. {column}: {each}."
PROTOCOL = "The models were not evaluated alike. {column}: {each}."
BEGINNING = "Some texts begin with a BOS token, and some may not: {each}."
SUB_TOKENS = "Differences in ln p leave out the end of the word for all models, as {each} leaves it out."
NO_SUB_TOKENS = "The log-probabilities of {each} leave out the end of the word, so none of them is compared."
UNKNOWN_ANSWERS = "Answers that are not among the words of the model count as wrong: {each}."
BOUNDS = "Ranks that are only lower bounds, so median ranks may be too low: {each}."
UNITS = "Intervals may be too narrow, and p too small: {each}."
TRAINED = "The test is of single trainings, and another seed may differ: {each}."

_NAMED = 4  # models that a sentence names
_TENTH = 0.1
_LONGEST = 60  # letters of a value
_SENTENCES = {
    "unit": TASK, "vocabulary_size": PERPLEXITY, "unknown": PERPLEXITY, "filter": PROTOCOL,
    "prompt": PROTOCOL, "detokenised": PROTOCOL, "bos": BEGINNING,
}  # fmt: skip
"""The notes on columns of `VARIANT` in which models differ."""

_VALUES: Mapping[str, Mapping[Any, str]] = {
    "unknown": {
        "unk": "the probability of <unk>", "shared": "a share of the probability of <unk>",
        "none": "no probability",
    },
    "bos": {
        "added": "with BOS", "text": "with BOS", "none": "without BOS", "omitted": "without BOS",
        "tokenizer": "left to the tokenizer", "unknown": "not known",
    },
}  # fmt: skip
"""The meaning of values of these columns."""


def training_note(counts: Mapping[str, tuple[int, int]]) -> list[str]:
    """Name the models fitted on passages, by the number of these and of all predicted passages."""
    shares = {
        label: f"{percent(count / n)}, {count:,} of {n:,}" for label, (count, n) in counts.items() if count
    }
    return [TRAINING.format(each=_each(shares))] if shares else []


def unknown_note(shares: Mapping[str, float]) -> list[str]:
    """Name the models that cannot predict more than a tenth of the answers, by the shares of these."""
    lost = {label: percent(share) for label, share in shares.items() if share > _TENTH}
    return [UNKNOWN_ANSWERS.format(each=_each(lost))] if lost else []


def trained_note(labels: Sequence[str]) -> list[str]:
    """Name the models of which there is a single training."""
    return [TRAINED.format(each=_names(labels))] if labels else []


def units_note(by: str, number: int, *, is_few: bool) -> list[str]:
    """Return a note on items whose novels are not known, or on a small number of novels."""
    if by == "item":
        each = "items of one novel are not independent, and not every item names its novel"
        return [UNITS.format(each=each)]
    return [UNITS.format(each=f"there are {number:,} {by}s")] if is_few else []


def languages_note(languages: Collection[str]) -> list[str]:
    """Name the languages if there are several."""
    if len(languages) <= 1:
        return []
    names = " and ".join(map(language_name, sorted(languages)))
    return [PROTOCOL.format(column=label_of("language"), each=names)]


def items_note(counts: Mapping[str, int], n: int) -> list[str]:
    """Tell how many items each model predicted, if that is not the number `n` that is common to all."""
    if all(count == n for count in counts.values()):
        return []
    return [ITEMS.format(each=_each({label: f"{count:,}" for label, count in counts.items()}), n=n)]


def shared_notes(frames: Sequence[pd.DataFrame]) -> list[str]:
    """Return notes on models on different items of one split, or with other candidates for the same items.

    Of each model a frame has the columns of :func:`asked_items`. Word classes count as splits, as they are
    often predicted apart.
    """
    if all(frames[0].drop(columns="label").equals(frame.drop(columns="label")) for frame in frames):
        return []
    table = pd.concat(frames, ignore_index=True)
    counts, n = dict.fromkeys(table["label"], 0), 0
    for _, members in table.groupby("set", sort=False):
        is_common = members.groupby("item_id").size() == members["label"].nunique()
        if not is_common.all():
            n += int(is_common.sum())
            for label in members["label"]:
                counts[label] += 1
    table = table.dropna(subset="digest")
    is_other = table.drop_duplicates(["item_id", "digest"])["item_id"].duplicated().any()
    sizes = {str(label): pa.array(members) for label, members in table.groupby("label", sort=False)["digest"]}
    return [
        *items_note({label: count for label, count in counts.items() if count}, n),
        *([_candidates_note(sizes)] if is_other else []),
    ]


def asked_items(frame: pd.DataFrame, label: str) -> pd.DataFrame:
    """Return the predicted items with an answer: `item_id`, `set`, `digest` of the candidates, `label`."""
    frame = frame[frame["correct"].notna()].reset_index(drop=True)
    sets = frame["dataset"] + "/" + frame["split"] + "/" + frame["word_class"].fillna("")
    columns = {"item_id": frame["item_id"], "set": sets, "digest": digests_of(frame), "label": label}
    return pd.DataFrame(columns)


def comparison_notes(
    tables: Mapping[str, pa.Table], mask: Mask, counts: Mapping[str, int], variants: set[str] | None
) -> list[str]:
    """Return the notes on models that are compared.

    `tables` have the predictions of each model for the same n items, null where it did not predict one,
    which `mask` (m, n) tells; `counts` have the number of items that each predicted, and of those given;
    `variants` are those of the items, if there are some.
    """
    n = dict(zip(tables, mask.sum(axis=1).tolist(), strict=True))
    common = mask.all(axis=0)
    is_part = common.any() and not common.all()
    shared = {k: table.filter(pa.array(common)) if is_part else table for k, table in tables.items()}
    bound = {label: int(truths(table, "rank_is_bound").sum()) for label, table in tables.items()}
    bounds = {label: f"{count:,}" for label, count in bound.items() if count}
    shares = {
        label: (n[label] - truths(table, "known").sum()) / n[label]
        for label, table in tables.items()
        if table["known"].null_count < len(table)
    }
    return [
        *training_note({k: (int(truths(table, "in_training").sum()), n[k]) for k, table in tables.items()}),
        *items_note(counts, int(common.sum())),
        *_value_notes(shared, variants),
        *_other_candidates({label: known_candidates(table) for label, table in tables.items()}),
        *_sub_tokens_note(shared),
        *unknown_note(shares),
        *([BOUNDS.format(each=_each(bounds))] if bounds else []),
    ]


def _value_notes(tables: Mapping[str, pa.Table], of_items: set[str] | None) -> Iterator[str]:
    """Yield notes on the variant and the columns of `VARIANT` that models differ in."""
    sets = {label: value_sets(table) for label, table in tables.items()}
    variants = {label: values["variant"] for label, values in sets.items()}
    texts = {frozenset(split_variant(str(name))[0] for name in each) for each in variants.values()}
    if len(texts) == 1 and of_items is not None:
        variants["items given"] = of_items
    yield from _differing(PROTOCOL if len(texts) == 1 else TASK, "variant", variants)
    yield from languages_note(languages_of(set().union(*variants.values())))
    for name, sentence in _SENTENCES.items():
        values = {label: of_model[name] for label, of_model in sets.items()}
        if name == "unknown":
            values = {k: each for k, each in values.items() if not np.isnan(log_probs(tables[k])).all()}
        if name == "bos":
            values = {label: each for label, each in values.items() if each}
        if name != "bos" or {"omitted", "unknown"} & set().union(*values.values()):
            yield from _differing(sentence, name, values)


def _differing(sentence: str, column: str, values: Mapping[str, set[Any]]) -> Iterator[str]:
    """Yield a sentence on a column if not all have the same values."""
    if len({frozenset(each) for each in values.values()}) > 1:
        each = {
            label: ", ".join(sorted(_value_text(column, value) for value in of_model))
            for label, of_model in values.items()
        }
        missing = "open vocabulary" if column == "vocabulary_size" else "not stated"
        names = {label: text or missing for label, text in each.items()}
        yield sentence.format(column=label_of(column), each=_each(names))


def _value_text(column: str, value: Any) -> str:
    value = _VALUES.get(column, {}).get(value, value)
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _other_candidates(candidates: Mapping[str, pa.Array]) -> list[str]:
    """Return a note if one of the items (n,) has other candidates for one model than for the first."""
    first, *others = candidates.values()
    is_other = any(other_candidates(first, other) for other in others)
    return [_candidates_note(candidates)] if is_other else []


def _candidates_note(candidates: Mapping[str, pa.Array]) -> str:
    """Return the note on other candidates, with their numbers, from digests by model."""
    numbers = {
        label: sorted({value.partition(":")[0] for value in digests.unique().to_pylist() if value}, key=int)
        for label, digests in candidates.items()
    }
    each = _each({label: " or ".join(texts) for label, texts in numbers.items()})
    return TASK.format(column="Number of candidates", each=each)


def _sub_tokens_note(tables: Mapping[str, pa.Table]) -> list[str]:
    """Return a note if the log-probabilities of some models, not of all, are of the sub-tokens alone."""
    values = {
        label: (log_probs(table), numbers(table, "log_prob_uncorrected")) for label, table in tables.items()
    }
    values = {label: pair for label, pair in values.items() if not np.isnan(pair[0]).all()}
    alone = [label for label, pair in values.items() if is_uncorrected(*pair)]
    if not 0 < len(alone) < len(values):
        return []
    for_all = not any(
        np.isnan(uncorrected[~np.isnan(corrected)]).any() for corrected, uncorrected in values.values()
    )
    return [(SUB_TOKENS if for_all else NO_SUB_TOKENS).format(each=_names(alone))]


def _each(values: Mapping[str, str]) -> str:
    """List the different values, each with the models that have it."""
    return "; ".join(
        f"{value} ({_names([label for label in values if values[label] == value])})"
        for value in dict.fromkeys(values.values())
    )


def _names(labels: Sequence[str]) -> str:
    """List the first models, and how many more there are."""
    rest = [f"{len(labels) - _NAMED:,} more"] if len(labels) > _NAMED else []
    return ", ".join([*(f"“{label}”" for label in labels[:_NAMED]), *rest])
