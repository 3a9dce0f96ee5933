"""The signature of measures: what was measured and how, as sacrebleu states it for BLEU (Post 2018)."""

from __future__ import annotations

from importlib import metadata
from typing import Any, Literal

import pandas as pd

from workbench.storage.cache import digest

VARIANT = ("unit", "filter", "vocabulary_size", "case", "unknown", "prompt", "bos", "detokenised")
"""Columns of predictions that tell results apart which must not be mixed up."""

_PARTS = ("unit", "filter", "vocab", "case", "unknown", "prompt", "bos", "text")
"""Parts of a signature, for the columns `VARIANT`."""

SIGNED = ("dataset", "split", "variant", "book_id", "correct", *VARIANT)
"""Columns of predictions that a signature depends on."""


SET_PREFIX = "set: "
"""What a ``book_id`` begins with that names a set of minimal pairs, which share a template."""


def signature_of(frame: pd.DataFrame, level: float = 0.95, resamples: int = 2000, seed: int = 0) -> str:
    """Return the signature of measures of predictions.

    ``lambada/dev/plain|n:4869|unit:word|vocab:60000|unknown:shared|match:word|ci:95|boot:2000|by:item|seed:0|
    version:0.1.0``: data set, split and variant (several with +), items, those of the columns `VARIANT` that
    have a value (of a prompt a digest), what counts as the answer (``match:word``, the rule of
    :func:`workbench.predictions.schema.same_word`), intervals (confidence level, bootstrap replicates, units
    of resampling, seed), and this package.
    """
    sets = (frame[name].dropna().unique() for name in ("dataset", "split", "variant"))
    data = ("+".join(sorted(set(map(str, names)))) for names in sets)
    values = [one_value(frame[name]) for name in VARIANT]
    fields = {"n": len(frame)} | dict(zip(_PARTS, values, strict=True)) | {"match": "word"}
    if fields["prompt"] is not None:
        fields["prompt"] = digest(fields["prompt"])[:8]
    fields["text"] = "detokenised" if fields["text"] is True else fields["text"] or None
    by = resampling_unit(frame["book_id"])
    fields |= {"ci": f"{100 * level:g}", "boot": resamples, "by": by, "seed": seed}
    fields["version"] = metadata.version("lambada-workbench")
    return "|".join(["/".join(data), *(f"{k}:{v}" for k, v in fields.items() if v not in {None, "none"})])


def resampling_unit(book_id: pd.Series[Any]) -> Literal["novel", "set", "item"]:
    """Return the unit that a bootstrap draws: novels where every item names one, else items.

    Sets of minimal pairs (`SET_PREFIX`) stand in place of novels; the pairs of a single set are items.
    """
    if not len(book_id) or book_id.isna().any():
        return "item"
    if book_id.astype("str").str.startswith(SET_PREFIX).all():
        return "item" if (book_id == book_id.iloc[0]).all() else "set"
    return "novel"


def one_value(column: pd.Series[Any]) -> Any:
    """Return the value of a column: several are joined by commas, None where all are null."""
    values = [value for value in column.unique().tolist() if not pd.isna(value)]
    if len(values) <= 1:
        return values[0] if values else None
    return ", ".join(sorted(map(str, values)))
