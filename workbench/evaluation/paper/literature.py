"""Published scores as rows of a leaderboard: what others report, without items."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import pandas as pd

from workbench.datasets import published
from workbench.items.schema import DataError

COLUMNS = (
    "dataset", "split", "variant", "word_class", "model", "system", "accuracy", "perplexity", "median_rank",
    "source",
)  # fmt: skip

_CLASSES = {"named_entities": "NE", "common_nouns": "CN", "verbs": "V", "prepositions": "P"}


class _Table(NamedTuple):
    """A printed table: each of its `cells` is (column, split, variant, word class)."""

    name: str
    dataset: str
    source: str
    cells: tuple[tuple[str, str, str, str | None], ...]
    scale: float = 1


def _books(name: str, split: str, source: str) -> _Table:
    return _Table(name, "cbt", source, tuple((column, split, of, of) for column, of in _CLASSES.items()))


_NEWS = (("validation", "dev", "cnn", None), ("test", "test", "cnn", None))
_TABLES = (  # a system that an earlier table has is not listed again
    _books("cbt_test_table2", "test", "Hill et al. 2016, table 2"),
    _books("cbt_table4", "test", "Hill et al. 2016, table 4"),
    _books("cbt_validation", "dev", "Hill et al. 2016, appendix B"),
    _Table(
        "msrcc_table1", "msrcc", "Zweig and Burges 2012, table 1",
        (("percent_correct", "test", "plain", None),), scale=100,
    ),
    _Table("cnnqa_table3", "cnnqa", "Hill et al. 2016, table 3", _NEWS),
    _Table("cnnqa_ablation", "cnnqa", "Hill et al. 2016, appendix C", _NEWS),
)  # fmt: skip
_SEPARATOR = " / "
_COMMON = re.compile(r"(?P<last>.*?)(?P<common>, .*| on .*)?", re.DOTALL)
_PERPLEXITY = re.compile(r"perplexity (\d+(?:\.\d+)?)")
_LATER = re.compile(
    r"(?P<name>\w+)(?: (?P<split>test|dev))?(?: (?P<classes>[A-Z]+(?: / [A-Z]+)*))?(?: \((?P<of>.*)\))?"
)
_SETS = {"lambada_openai": ("lambada", "openai"), "msrcc": ("msrcc", "plain")}


@cache
def _scores() -> pd.DataFrame:
    rows = [*_lambada(), *_tables(), *_later()]
    texts = dict.fromkeys(("dataset", "split", "variant", "word_class", "model", "system", "source"), "str")
    numbers = dict.fromkeys(("accuracy", "perplexity", "median_rank"), "Float64")
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(texts | numbers)


def scores() -> pd.DataFrame:
    """Return every published score of ``data/published``, one row a system, split and word class.

    Returns
    -------
    DataFrame
        Columns `COLUMNS`. Accuracy is a fraction; ``variant`` is null where the source does not say which
        form of the text was read; ``source`` names the paper and its table. Tables of data that a paper
        changed (anonymised entities) are left out: those are other items.
    """
    return _scores().copy()


def _row(dataset: str, split: str, system: str, source: str, **columns: Any) -> dict[str, Any]:
    return {"dataset": dataset, "split": split, "model": system, "system": system, "source": source} | columns


def _lambada() -> Iterator[dict[str, Any]]:
    for row in published.table("lambada_table1").to_dict("records"):
        yield _row(
            "lambada",
            "test" if row["set"] == "lambada" else "control",
            row["system"],
            "Paperno et al. 2016, table 1",
            variant="plain",
            accuracy=_number(row["accuracy_percent"], 100),
            perplexity=_number(row["perplexity"]),
            median_rank=_number(row["median_rank"]),
        )


def _tables() -> Iterator[dict[str, Any]]:
    listed: set[tuple[str, str, str]] = set()
    for table in _TABLES:
        for row in published.table(table.name).to_dict("records"):
            key = (table.dataset, table.cells[0][1], row["system"])
            for column, split, variant, word_class in () if key in listed else table.cells:
                yield _row(
                    table.dataset,
                    split,
                    row["system"],
                    table.source,
                    variant=variant,
                    word_class=word_class,
                    accuracy=_number(row[column], table.scale),
                )
            listed.add(key)


def _later() -> Iterator[dict[str, Any]]:
    for row in published.table("later_results").to_dict("records"):
        match = _LATER.fullmatch(row["dataset"])
        if match is None or row["metric"] != "accuracy":
            raise DataError(f"later_results has a row of {row['dataset']!r} and {row['metric']!r}")
        dataset, variant = _SETS.get(match["name"], (match["name"], None))
        source = row["source"] + (f"; {match['of']}" if match["of"] else "")
        values = [_number(value, 100) for value in row["value"].split(_SEPARATOR)]
        classes = match["classes"].split(_SEPARATOR) if match["classes"] else [None] * len(values)
        names = [row["system"]] * len(values) if match["classes"] else _names(row["system"], len(values))
        perplexity = _PERPLEXITY.search(source)
        for name, of, accuracy in zip(names, classes, values, strict=True):
            yield _row(
                dataset,
                match["split"] or "test",
                name,
                source,
                variant=of or variant,
                word_class=of,
                accuracy=accuracy,
                perplexity=float(perplexity[1]) if perplexity else None,
            )


def _names(text: str, n: int) -> Sequence[str]:
    """Give several systems that are printed as one apart: ``Pythia 70M / 160M`` are two.

    What stands before the last word of the first, and behind a comma or "on" in the last, holds for all.
    """
    parts = text.split(_SEPARATOR)
    if n == 1 and len(parts) == 1:
        return [text]
    if len(parts) != n:
        raise DataError(f"later_results has {n} values for {len(parts)} systems: {text!r}")
    match = _COMMON.fullmatch(parts[-1])
    last, common = (match["last"], match["common"] or "") if match else (parts[-1], "")
    parts[-1] = last
    if all(" " not in part for part in parts[1:]):  # sizes, or numbers of shots
        before, _, parts[0] = parts[0].rpartition(" ")
        tail = last[last.index("-") :] if "-" in last else ""
        parts = [f"{before} {part if part.endswith(tail) else part + tail}".strip() for part in parts]
    return [part + common for part in parts]


def _number(text: str, scale: float = 1) -> float | None:
    """Return a printed number; None for an empty cell."""
    value = published.parse(text).about if text.strip() else None
    return None if value is None else round(value / scale, 10)


def rows(names: Sequence[str], wanted: Mapping[str, str | None], datasets: set[str]) -> pd.DataFrame | None:
    """Return the scores that can stand in a leaderboard.

    Parameters
    ----------
    names : sequence of str
        What the leaderboard groups by.
    wanted : mapping
        ``dataset`` and ``split`` where only one is asked for.
    datasets : set of str
        Those that have runs; empty for all.

    Returns
    -------
    DataFrame or None
        None where the leaderboard groups by something that only items have.
    """
    if set(names) - set(COLUMNS):
        return None
    table = scores()
    for column, value in wanted.items():
        if value is not None:
            table = table[table[column] == value]
    return table[table["dataset"].isin(datasets)] if datasets else table
