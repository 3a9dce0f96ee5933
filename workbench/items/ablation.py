"""Items of which a model sees the query alone, or the passage alone (Kaushik and Lipton 2018)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from workbench.items.schema import Item, content_digest
from workbench.storage.errors import DataError

Table = TypeVar("Table", bound=Any)  # workbench.Items, whose methods these functions are

INPUTS = ("query only", "passage only")
"""What a model sees of ablated items; their variant ends in it: ``NE (query only)``."""

RENAMED = "renamed"
"""How the variant of items with other names ends; see :func:`workbench.rename`."""


def query_only(items: Table, *, candidates_as_context: bool = False, seed: int = 0) -> Table:
    """Return items with the query alone as text: the context is removed.

    What a model gets right of them, it gets right without the passage. Train on ``questions.query_only()`` to
    measure how far the query alone goes; a model that was trained on whole items shows how far it uses them.

    Parameters
    ----------
    items : Items (n,)
    candidates_as_context : bool, default False
        Put one sentence before the query, with each candidate once in random order: for models that choose a
        word of the context, such as the attention-sum reader.
    seed : int, default 0
        Decides the order of the candidates in this sentence, for each item by itself. It depends neither on
        the answer nor on the order in which the candidates are listed.

    Returns
    -------
    Items (n,)
        With the same ids, answers and candidates; the variant ends in ``(query only)``; results add it to the
        names of models.

    Raises
    ------
    DataError
        If the items are ablated already, or lack candidates that are wanted as context.

    References
    ----------
    Kaushik and Lipton 2018, "How Much Reading Does Reading Comprehension Require?", section 3.

    Examples
    --------
    >>> question = wb.load("sample", variant="cbt").query_only()[0]
    >>> question.context, question.passage == question.query
    ([], True)
    """

    def change(item: Item) -> Item:
        (start, end), (a, b) = item.sentences[-1], item.answer_span
        before = _shuffled(item, seed) if candidates_as_context else ""
        shift = len(before) + (1 if before else 0) - start
        query = (start + shift, end + shift)
        return replace(
            item,
            text=f"{before}{' ' if before else ''}{item.text[start:end]}",
            sentences=((0, len(before)), query) if before else (query,),
            answer_span=(a + shift, b + shift),
        )

    return _ablated(items, INPUTS[0], change)


def passage_only(items: Table) -> Table:
    """Return items with the blank alone as query: its words are removed.

    What a model gets right of them, it gets right without the question.

    Parameters
    ----------
    items : Items (n,)

    Returns
    -------
    Items (n,)
        With the same ids, contexts, answers and candidates; the variant ends in ``(passage only)``; results
        add it to the names of models.

    Raises
    ------
    DataError
        If the items are ablated already.

    References
    ----------
    Kaushik and Lipton 2018, "How Much Reading Does Reading Comprehension Require?", section 3.

    Examples
    --------
    >>> questions = wb.load("sample", variant="cbt")
    >>> question = questions.passage_only()[0]
    >>> question.query, question.context == questions[0].context
    ('_____', True)
    """

    def change(item: Item) -> Item:
        start, (a, b) = item.sentences[-1][0], item.answer_span
        span = (start, start + b - a)
        text = item.text[:start] + item.text[a:b]
        return replace(item, text=text, sentences=(*item.sentences[:-1], span), answer_span=span)

    return _ablated(items, INPUTS[1], change)


def split_variant(variant: str) -> tuple[str, str]:
    """Return the variant of the unablated items, and the type in `INPUTS` or `RENAMED`; else empty."""
    for name in (*INPUTS, RENAMED):
        if variant.endswith(end := f" ({name})"):
            return variant.removesuffix(end), name
    return variant, ""


def whole_variant(variants: pd.Series[Any]) -> pd.Series[Any]:
    """Return the variants of the unablated items, for a column of variants (n,)."""
    return variants.map({name: split_variant(name)[0] for name in variants.dropna().unique()})


def check_whole(items: Any) -> None:
    """Raise DataError if items are ablated or renamed."""
    for variant in items.frame["variant"].unique():
        if split_variant(variant)[1]:
            raise DataError(f"these items are ablated already: {variant!r}", remedy="pass the whole items")


def _ablated(items: Table, name: str, change: Callable[[Item], Item]) -> Table:
    check_whole(items)
    records = (replace(change(item), variant=f"{item.variant} ({name})") for item in items)
    ablated: Table = items.from_records(records, attrs=items.attrs, problems=items.problems)
    return ablated


def _shuffled(item: Item, seed: int) -> str:
    """Return the candidates as one sentence, in an order that the answer does not decide."""
    if item.candidates is None:
        raise DataError(
            f"the item {item.item_id} has no candidates", remedy="leave candidates_as_context out"
        )
    rng = np.random.default_rng(int(content_digest(item.item_id, seed), 16))
    return " ".join(rng.permutation(sorted(set(item.candidates))).tolist())
