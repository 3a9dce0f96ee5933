"""Items of which a model sees the query alone, or the passage alone (Kaushik and Lipton 2018)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from workbench.items.schema import Item, content_digest
from workbench.storage.errors import DataError

INPUTS = ("query only", "passage only")
"""What a model sees of ablated items; their variant ends in it: ``NE (query only)``."""

RENAMED = "renamed"
"""How the variant of items with other names ends; see :func:`workbench.rename`."""


def query_only(item: Item, seed: int | None = None) -> Item:
    """Return an item with the query alone as text; with a seed, after its shuffled candidates."""
    (start, end), (a, b) = item.sentences[-1], item.answer_span
    before = "" if seed is None else _shuffled(item, seed)
    shift = len(before) + (1 if before else 0) - start
    query = (start + shift, end + shift)
    return replace(
        item,
        variant=f"{item.variant} ({INPUTS[0]})",
        text=f"{before}{' ' if before else ''}{item.text[start:end]}",
        sentences=((0, len(before)), query) if before else (query,),
        answer_span=(a + shift, b + shift),
    )


def passage_only(item: Item) -> Item:
    """Return an item with the blank alone as query."""
    start, (a, b) = item.sentences[-1][0], item.answer_span
    return replace(
        item,
        variant=f"{item.variant} ({INPUTS[1]})",
        text=item.text[:start] + item.text[a:b],
        sentences=(*item.sentences[:-1], (start, start + b - a)),
        answer_span=(start, start + b - a),
    )


def split_variant(variant: str) -> tuple[str, str]:
    """Return the variant of the unablated items, and the type in `INPUTS` or `RENAMED`; else empty."""
    for name in (*INPUTS, RENAMED):
        if variant.endswith(end := f" ({name})"):
            return variant.removesuffix(end), name
    return variant, ""


def whole_variant(variants: pd.Series[Any]) -> pd.Series[Any]:
    """Return the variants of the unablated items, for a column of variants (n,)."""
    return variants.map({name: split_variant(name)[0] for name in variants.dropna().unique()})


def check_whole(variants: pd.Series[Any]) -> None:
    """Raise DataError if an item of these variants (n,) is ablated or renamed."""
    for variant in variants.unique():
        if split_variant(variant)[1]:
            raise DataError(f"these items are ablated already: {variant!r}", hint="pass the whole items")


def _shuffled(item: Item, seed: int) -> str:
    """Return the candidates as one sentence, in an order that the answer does not decide."""
    if item.candidates is None:
        raise DataError(f"the item {item.item_id} has no candidates", hint="leave candidates_as_context out")
    rng = np.random.default_rng(int(content_digest(item.item_id, seed), 16))
    return " ".join(rng.permutation(sorted(set(item.candidates))).tolist())
