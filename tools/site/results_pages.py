"""The page of results: each paper's table beside the measurements, read from both, with the commands.

The papers' numbers are those of ``data/published``. Ours are read from the tables of the dated pages in
``docs/experiments``, as ``docs/results.toml`` says, so no number is written twice. The predictions that come
with the workbench are measured anew.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

_CELLS = re.compile(r"(?<!\\)\|")
_INTRODUCTION = """\
# The papers' tables beside ours

The numbers of the papers are as printed. Ours, below them, are as measured, on the dated page that the
table links: it has intervals, settings, and reasons where they differ. The command repeats them on the data
at hand (`WORKBENCH_DATA`). Systems with the paper's rows alone were not measured here.
"""
_PRETRAINED = """\
## A pretrained model on the same tasks

SmolLM2-135M-Instruct comes with the workbench, as do its predictions. These tables are computed from them
when this page is built; the command `workbench reproduce 12 --scale cpu` makes the predictions again.
"""


_COLUMNS = {  # of the papers' tables, as the dated pages call them
    "accuracy_percent": "accuracy %",
    "perplexity": "perplexity",
    "median_rank": "median rank",
    "percent_correct": "",
    "named_entities": "NE",
    "common_nouns": "CN",
    "verbs": "V",
    "prepositions": "P",
    "validation": "validation",
    "test": "test",
}


class ResultError(ValueError):
    """A row of ``results.toml`` that a page or a paper's table does not have."""


@cache
def _tables(page: Path) -> list[list[list[str]]]:
    """Return the tables of a Markdown page, each as rows of cells."""
    tables: list[list[list[str]]] = [[]]
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("|"):
            tables[-1].append([cell.strip() for cell in _CELLS.split(line.strip("|"))])
        elif tables[-1]:
            tables.append([])
    return [table for table in tables if table]


def find_cells(page: Path, row: str, columns: Sequence[str]) -> list[str]:
    """Return cells of the one row with a name, in the first table of a page that has it and all columns.

    Raises
    ------
    ResultError
        If no table of the page has them.
    """
    for heading, _, *rows in _tables(page):
        if set(columns) <= set(heading):
            for cells in rows:
                if cells[0] == row:
                    return [cells[heading.index(column)] for column in columns]
    raise ResultError(f"{page.name} has no table with the row {row!r} and the columns {list(columns)}")


def _papers_rows(source: str) -> tuple[list[str], dict[str, list[tuple[str, list[str]]]]]:
    """Return the columns of a paper's table, and by system who says it ("paper, control") and the cells.

    Fractions are in percent.
    """
    from workbench.datasets.published import published_table  # noqa: PLC0415 - slow

    table = published_table(source)
    names = [name for name in table.columns if name in _COLUMNS]
    printed: dict[str, list[tuple[str, list[str]]]] = {}
    for record in table.to_dict("records"):
        cells = [_as_percent(record[name] or "") for name in names]
        who = f"paper, {record['set']}" if "set" in record else "paper"
        printed.setdefault(record["system"], []).append((who, cells))
    return [_COLUMNS[name] for name in names], printed


def _as_percent(text: str) -> str:
    """Return a fraction as percent with the digits of the paper; other numbers as they are."""
    return f"{float(text) * 100:.{len(text) - 4}f}" if re.fullmatch(r"[01]\.\d{3,}", text) else text


def _measured(
    entry: dict[str, Any], table: dict[str, Any], heads: Sequence[str], folder: Path
) -> tuple[str, list[str], str]:
    """Return a link to the page of one measurement, its numbers below the paper's columns, and its command.

    Those of a column that the paper's table does not have stand in the first one, with their name.
    """
    page, columns, command = (entry.get(name, table[name]) for name in ("page", "columns", "command"))
    cells = dict(zip(columns, find_cells(folder / f"{page}.md", entry["row"], columns), strict=True))
    others = [name for name in columns if name not in heads]
    named = [f"{name}: {cells[name]}" if len(others) > 1 else cells[name] for name in others if cells[name]]
    row = [cells.get(name, "") for name in heads]
    row[0] = "<br>".join(filter(None, [row[0], *named]))
    return f"[{entry['row']}](experiments/{page}.md)", row, f"`{command}`"


def _rows(table: dict[str, Any], folder: Path) -> Iterator[tuple[str, ...]]:
    """Yield a table, its heading first: system, the paper or a measurement, the numbers, and the command."""
    heads, papers = _papers_rows(table["source"])
    if unknown := table["rows"].keys() - papers.keys():
        raise ResultError(f"{table['source']} has no row {sorted(unknown)}")
    yield ("system", "from", *(head or "correct, %" for head in heads), "command")
    for system, printed in papers.items():
        rows = [(who, cells, "") for who, cells in printed]
        rows += [_measured(entry, table, heads, folder) for entry in table["rows"].get(system, [])]
        for number, (who, cells, command) in enumerate(rows):
            yield ("" if number else system, who, *cells, command)


def pages(root: Path) -> dict[str, str]:
    """Return the page of results as Markdown, by its path."""
    listed = tomllib.loads((root / "docs" / "results.toml").read_text(encoding="utf-8"))["table"]
    parts = [_INTRODUCTION]
    for table in listed:
        lines = [f"| {' | '.join(row)} |" for row in _rows(table, root / "docs" / "experiments")]
        lines.insert(1, "|---" * (lines[0].count("|") - 1) + "|")
        parts += [f"## {table['title']}\n", f"{table['note'].strip()}\n", *lines, ""]
    parts += [_PRETRAINED, *_pretrained()]
    return {"results.md": "\n".join(parts)}


def _pretrained() -> Iterator[str]:
    """Yield the tables of the predictions that come with the workbench."""
    import executed_pages  # noqa: PLC0415 - beside this file

    import workbench as wb  # noqa: PLC0415 - slow
    from workbench.predictions import store  # noqa: PLC0415 - slow
    from workbench.storage.paths import resource  # noqa: PLC0415 - slow

    runs = [store.open_run(path) for path in sorted(resource("published", "runs").iterdir())]
    for name in ("lambada", "cbt", "msrcc"):
        of_task = [run for run in runs if run.info["dataset"] == name]
        yield executed_pages.markup(wb.table(name, of_task))
