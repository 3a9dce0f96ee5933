"""Data sets, all read into the same items.

One short module per data set, which ``data/registry.toml`` names, has its `Release`; `sources` and
`archives` find and read files, `fetch` downloads, `books` streams novels, `user_table` reads a user's table,
`published` has the papers' numbers. A package adds a data set through the entry points
``workbench.datasets``; what `load` returns for a released file must not change.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from workbench.datasets import sources
from workbench.datasets.books import Book, books
from workbench.datasets.user_table import is_table, read_table
from workbench.items.items import Items
from workbench.storage.errors import DataError
from workbench.storage.packages import load_extension

__all__ = ["Book", "available", "books", "dataset_names", "load"]


def dataset_names() -> list[str]:
    """Return the names for :func:`load`: data sets of the workbench, then of other packages."""
    return list(sources.readers())


def load(
    dataset: str | Path,
    /,
    split: str | None = None,
    *,
    variant: str | None = None,
    path: Path | str | None = None,
    on_error: str = "raise",
    **options: Any,
) -> Items:
    """Read one split of a data set, or a table of your own.

    Parameters
    ----------
    dataset : str
        "lambada", "cbt", "msrcc", "cnnqa", "sample", or a name that another package gives in
        the entry point group ``workbench.datasets``. Or the path of a table, one row per passage, in a file
        that ends in .csv, .tsv, .xlsx, .json, .jsonl or .parquet: texts, answers and candidates are found by
        the names of their columns, and all others are kept (see :func:`workbench.items_from_frame`). The data
        set is called after the file, ``mine`` for ``mine.csv``.
    split : str, optional
        "train", "dev", "test", "control" or "rejected"; null gives the data set's usual one:
        "test" for msrcc, else "dev".
    variant : str, optional
        The form of the text: "plain", "capitalised" or "openai" for lambada, the word class for
        cbt, "cnn" or "dailymail" for cnnqa. Another language than English is its end: "openai-de".
    path : path, optional
        A folder (searched with its subfolders), a file, or the official archive. A file such as
        ``train-00000-of-00002.parquet`` stands for all parts of its set. Without it
        ``$WORKBENCH_DATA`` is searched, then ``raw/`` in :func:`workbench.storage.paths.data_home`.
    on_error : {"raise", "skip"}
        Whether a bad record stops the reading, or is left out and kept in ``.problems``.
    **options
        For a table of your own, those of :func:`workbench.items_from_frame`: ``text="passage"``,
        ``dataset="pilot"``.

    Returns
    -------
    Items
        The text as released, byte for byte, with the answer in place. Where a file is not the published one
        of its name, may be cut short, or is called after another split, ``attrs["note"]`` says so; it is also
        printed once.

    Raises
    ------
    DataError
        If the files are not there (it says what to do), or not what they should be.

    Examples
    --------
    >>> items = wb.load("sample", "dev", variant="capitalised")
    >>> len(items), items[0].answer
    (222, 'Colonel')
    """
    sources.check_choice("mode", on_error, sources.ON_ERROR, "on_error")
    if is_table(dataset):
        if path is not None:
            raise DataError("the path of a table of your own comes first", hint="leave out path=")
        names = {name: value for name, value in (("split", split), ("variant", variant)) if value is not None}
        return read_table(dataset, on_error=on_error, **names, **options)
    if options:
        raise TypeError(f"load() got {', '.join(options)}: only a table of your own takes further options")
    readers = sources.readers()
    if str(dataset) not in readers and Path(dataset).is_file():
        raise DataError(
            "expected the name of a data set or a table, got another file",
            file=dataset,
            hint=f'wb.load("lambada", path="{dataset}") reads passages, wb.books("{dataset}") novels',
        )
    dataset = sources.check_choice("data set", str(dataset), list(readers), "the workbench")
    reader = load_extension(readers[dataset])
    items: Items = reader.load(split, variant=variant, path=path, on_error=on_error)
    return items


def available() -> pd.DataFrame:
    """List the data sets and where they are on this machine, without reading them; those found come first.

    Returns
    -------
    DataFrame
        ``dataset``, ``split``, ``variant`` ("books" for what :func:`books` streams), ``found``,
        and ``where``: the file or folder, relative to the place that was searched. Translations are listed
        where they are found. A data set of another package that does not tell its parts, or cannot be
        imported, has one row that says so.

    Examples
    --------
    >>> table = wb.available()
    >>> sorted(set(table.loc[table["dataset"] == "sample", "split"]))
    ['control', 'dev', 'rejected', 'test', 'train']
    """
    searched = sources.search_roots("workbench")
    rows: list[tuple[str, str, str, bool, str]] = []
    for name, entry in sources.readers().items():
        try:
            reader = load_extension(entry)
        except DataError as error:
            rows.append((name, "", "", False, error.problem))
            continue
        if hasattr(reader, "at_hand"):
            entries = reader.at_hand(searched)
            rows += [(name, *key, where is not None, _short(where, searched)) for *key, where in entries]
        else:
            origin = f"the package {entry.dist.name}" if entry.dist else entry.value
            rows.append((name, "", "", True, origin))
    # the name of the columns is the heading above the numbers of rows in a notebook
    columns = pd.Index(["dataset", "split", "variant", "found", "where"], name="row")
    table = pd.DataFrame(rows, columns=columns)
    return table.sort_values("found", ascending=False, kind="stable", ignore_index=True)


def _short(where: Path | None, searched: list[sources.Root]) -> str:
    if where is None:
        return ""
    folder = next((root.folder for root in searched if where.is_relative_to(root.folder)), where.parent)
    return str(where.relative_to(folder))
