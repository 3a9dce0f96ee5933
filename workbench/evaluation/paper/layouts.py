"""The layouts of the papers' tables; their numbers come from ``data/published``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from workbench.datasets import published
from workbench.items.schema import DataError

NAMES = ("lambada", "cbt", "msrcc", "cnnqa", "cbt-variants", "cbt-anonymised", "cnnqa-ablation")
"""Tables that can be shown."""

_CLASSES = {
    "NE": ("named_entities", "Named entities"),
    "CN": ("common_nouns", "Common nouns"),
    "V": ("verbs", "Verbs"),
    "P": ("prepositions", "Prepositions"),
}
_LAMBADA = {
    "accuracy": ("accuracy_percent", "Accuracy (%)", "percent"),
    "perplexity": ("perplexity", "Perplexity", "per target word"),
    "median_rank": ("median_rank", "Median rank", "rank"),
}
_CBT = {
    "dev": ("cbt_validation", "Children's Book Test, validation set (Hill et al. 2016, appendix B)"),
    "test": ("cbt_test_table2", "Children's Book Test, test set (Hill et al. 2016, table 2)"),
}
_VARIANTS = ("plain", "capitalised", "openai")


@dataclass(frozen=True)
class Column:
    """One column of numbers in one section of a table: what it holds, and what the paper prints.

    Attributes
    ----------
    section : str
        Part of the table, in LAMBADA's the set; empty where there is one part.
    label : str
        What stands above it.
    measure : {"accuracy", "perplexity", "median_rank"}
    unit : {"percent", "fraction", "per target word", "rank"}
    split : str
    word_class : str or None
    printed : mapping of str to str
        By system, in the order of the paper; empty where it prints nothing.
    """

    section: str
    label: str
    measure: str
    unit: str
    split: str
    word_class: str | None
    printed: Mapping[str, str]


@dataclass(frozen=True)
class Layout:
    """A paper's table without ours."""

    name: str
    dataset: str
    title: str
    columns: tuple[Column, ...]
    notes: tuple[str, ...] = ()


def belonging(frame: pd.DataFrame, name: str, dataset: str) -> pd.DataFrame:
    """Return the predictions of a data set that are of a table's task."""
    task = name.partition("-")[0]
    of_dataset = frame["dataset"] == dataset
    if dataset == task:
        return frame[of_dataset]
    # another data set may hold several tasks, as the sample does: its variants tell them apart
    passage, question = frame["variant"].isin(_VARIANTS), frame["word_class"].notna()
    other = ~passage & ~question & (frame["variant"] != ("msrcc" if task == "cnnqa" else "cnnqa"))
    return frame[of_dataset & {"lambada": passage, "cbt": question}.get(task, other)]


def layout_of(name: str, split: str | None, present: set[str]) -> Layout:
    """Return a paper's table.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    split : str or None
        ``dev`` or ``test``; by default the test set where there are predictions for it, else the
        development set.
    present : set of str
        Splits that there are predictions for.

    Raises
    ------
    DataError
        If the table or the split is unknown.
    """
    if name not in NAMES:
        raise DataError(f"there is no table called {name!r}", remedy=f"there are {', '.join(NAMES)}")
    if split not in {None, "dev", "test"}:
        raise DataError(f"the papers have no table for the split {split!r}", remedy='use "dev" or "test"')
    chosen = split or ("test" if "test" in present or "dev" not in present else "dev")
    if name == "lambada":
        return _lambada(chosen)
    if name == "msrcc":
        return _completion(chosen)
    if name.startswith("cnnqa"):
        return _news(name, split)
    return _book(name, chosen)


def _lambada(split: str) -> Layout:
    rows = published.table("lambada_table1")
    columns = [
        Column(
            str(of), label, measure, unit, split if of == "lambada" else "control", None, _printed(part, name)
        )
        for of, part in rows.groupby("set", sort=False)
        for measure, (name, label, unit) in _LAMBADA.items()
    ]
    notes = [
        "Perplexity is exp(-mean ln p) per target word; an answer tied with other words has their mean rank."
    ]
    if split == "dev":
        notes.append("The paper's numbers for lambada are on the test set, ours on the development set.")
    return Layout(
        "lambada", "lambada", "LAMBADA (Paperno et al. 2016, table 1)", tuple(columns), tuple(notes)
    )


def _completion(split: str) -> Layout:
    printed = _printed(published.table("msrcc_table1"), "percent_correct")
    column = Column("", "Correct (%)", "accuracy", "percent", split, None, printed)
    notes = (
        "The paper's numbers are on all 1,040 questions, its human's on 100 of them.",
        "Chance is not in the paper's table.",
    )
    return Layout("msrcc", "msrcc", "Sentence completion (Zweig and Burges 2012, table 1)", (column,), notes)


def _news(name: str, split: str | None) -> Layout:
    source, title = {
        "cnnqa": ("cnnqa_table3", "CNN QA (Hill et al. 2016, table 3)"),
        "cnnqa-ablation": ("cnnqa_ablation", "CNN QA, ablations (Hill et al. 2016, appendix C)"),
    }[name]
    rows = published.table(source)
    columns = [
        Column("", label, "accuracy", "fraction", of, None, _printed(rows, label.lower()))
        for label, of in (("Validation", "dev"), ("Test", "test"))
        if split in {None, of}
    ]
    return Layout(name, "cnnqa", title, tuple(columns))


def _book(name: str, split: str) -> Layout:
    notes: tuple[str, ...] = ()
    if name == "cbt":
        source, title = _CBT[split]
        if split == "test":
            notes = ("The paper's human readers answered 10 % of the test set.",)
    else:
        source, title = {
            "cbt-variants": (
                "cbt_table4",
                "Children's Book Test, memory networks (Hill et al. 2016, table 4)",
            ),
            "cbt-anonymised": (
                "cbt_anonymised",
                "Children's Book Test, anonymised (Hill et al. 2016, appendix D)",
            ),
        }[name]
        if split == "dev":
            notes = ("The paper's numbers are on the test set, ours on the validation set.",)
    rows = published.table(source)
    columns = [
        Column("", label, "accuracy", "fraction", split, word_class, _printed(rows, column))
        for word_class, (column, label) in _CLASSES.items()
    ]
    return Layout(name, "cbt", title, tuple(columns), notes)


def _printed(rows: pd.DataFrame, column: str) -> dict[str, str]:
    return {str(system): str(text) for system, text in zip(rows["system"], rows[column], strict=True)}


def normalised(system: Any) -> str:
    """Return a system's name as it is compared: without case and superfluous blanks; empty for None."""
    return " ".join(str(system or "").casefold().split())
