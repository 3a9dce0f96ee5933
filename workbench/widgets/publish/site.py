"""Publish views as a static site: pages that open without Python, each with its own address."""

from __future__ import annotations

import ast
import datetime as dt
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

from workbench.datasets import dataset_names
from workbench.datasets.fetch import entry_of
from workbench.items.ablation import split_variant
from workbench.items.items import Items
from workbench.predictions.store import Run, find_run, items_digest
from workbench.storage.errors import DataError, reading
from workbench.storage.files import atomic_folder, read_json
from workbench.storage.packages import commit, library_versions
from workbench.widgets.publish.pages import PublishedPage, make_page
from workbench.widgets.shared.widget import render

MANIFEST = "publish.json"
"""The file by which a folder is known as a published site; it lists the site's files."""

_FORMAT = "workbench site 1"
_MEGABYTE = 1_000_000
_PACKAGES = ("altair", "anywidget", "numpy", "pandas", "pyarrow")
_LONGEST = 60  # letters of the name of a page
_RESERVED = ("index", "about")


def publish(
    folder: Path | str,
    views: Mapping[str, Any],
    *,
    title: str = "Word prediction",
    runs: Sequence[Run | str] = (),
    max_items: int = 5_000,
    max_megabytes: float = 50,
    notes: bool = False,
) -> Path:
    """Write views as a static site that opens in a browser without Python, server or network.

    Each view is a page of its own, and holds all that it needs. Lists of items and tables have facets, a
    search and an order, which are computed in the page; numbers are those of the workbench, of all items. The
    state (facets, search, order, item) is the fragment of the address, so that a link shows a colleague
    the very same view. A view with a condition (``where``) is published with the items that pass. The page
    ``about.html`` has data sets, licences, signatures of the runs, versions, and code for each view.

    Parameters
    ----------
    folder : path
        The folder to write. One that this function wrote is replaced; any other is refused.
    views : mapping of str to view
        By title: widgets (``wb.browse``, ``wb.explore``, ``wb.compare``; others as their static form), Altair
        charts, tables of the workbench, and pandas frames.
    title : str
        Title of the site.
    runs : sequence of Run or str
        Stored runs to name with their signatures, beside those that the views show.
    max_items : int, default 5000
        Items of a view, or rows of a table, at most: those that the view lists come first. The page says how
        many were left out.
    max_megabytes : float, default 50
        Size of the site's data, which the views share; items that do not fit are left out.
    notes : bool, default False
        Whether your tags and notes are published.

    Returns
    -------
    Path
        The page to open, ``index.html``.

    Raises
    ------
    DataError
        If the folder has other content, a view is of another type, or one needs data that are not published.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> views = {"Passages": wb.browse(items, annotations), "Models": wb.compare(items, runs, annotations)}
    >>> page = wb.publish(f"{mkdtemp()}/site", views)
    >>> sorted(path.name for path in page.parent.iterdir())
    ['about.html', 'index.html', 'models.html', 'passages.html', 'publish.json']
    """
    target = Path(folder)
    if not isinstance(views, Mapping) or not views or not all(str(name).strip() for name in views):
        raise DataError(
            f"the views are {views!r:.80}, expected them by title",
            hint='such as {"Passages": wb.browse(items)}',
        )
    if others := _other_files(target):
        problem = f"the folder holds {others[0]!r:.80}, which is not a file of a published site"
        raise DataError(problem, file=target, hint="move it away, or name a new folder")
    files = file_names(list(views))
    pages: dict[str, PublishedPage] = {}
    room = int(max_megabytes * _MEGABYTE)
    for number, (name, view) in enumerate(views.items()):
        share = room // (len(views) - number)
        pages[name] = make_page(view, name, max_items=max_items, max_bytes=share, notes=notes)
        room -= len(pages[name].data.encode())
    links = [(files[name], name) for name in views]
    listed = [
        {"file": files[name], "title": name, "code": _code(page),
         "about": ", ".join(filter(None, (page.view_type, page.about)))}
        for name, page in pages.items()
    ]  # fmt: skip
    sets = data_sets(list(pages.values()))
    licences = [f"{each['title']}: {each['notice']}" for each in sets if each["notice"]]
    signed = _signatures(list(pages.values()), runs)
    about = render("publish/about.html", sets=sets, runs=signed, views=listed, versions=_versions())
    texts = {
        "index.html": PublishedPage(
            "index", content=render("publish/index.html", views=listed), notes=licences
        ),
        "about.html": PublishedPage("about", content=about),
    }
    with atomic_folder(target, replace=True) as new:
        for name, page in pages.items():
            notices = [*page.notes, *_notices(page)]
            noticed = replace(page, notes=notices)
            _write(new / files[name], noticed.html(name, title, files[name], links))
        for file, page in texts.items():
            heading = title if file == "index.html" else "About"
            _write(new / file, page.html(heading, title, file, links))
        names = sorted([*files.values(), *texts, MANIFEST])
        _write(new / MANIFEST, json.dumps({"format": _FORMAT, "files": names}, indent=1) + "\n")
    return target / "index.html"


def _write(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8", "replace"))


def _other_files(folder: Path) -> list[str]:
    """Return the names of what a folder holds beside a published site; DataError if its list is damaged."""
    file, files = folder / MANIFEST, []
    if file.is_file():
        with reading(file, "the list of a published site", hint="name a new folder"):
            files = list(read_json(file, "the list of a published site")["files"])
    held = sorted(folder.iterdir()) if folder.is_dir() else []
    return [path.name for path in held if path.name not in files or not path.is_file()]


def file_names(titles: Sequence[str]) -> dict[str, str]:
    """Return a unique file name for each title: letters, digits and hyphens."""
    names: dict[str, str] = {}
    for title in titles:
        plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
        stem = base = re.sub(r"[^a-z0-9]+", "-", plain)[:_LONGEST].strip("-") or "view"
        number = 1
        while stem in _RESERVED or f"{stem}.html" in names.values():
            number += 1
            stem = f"{base}-{number}"
        names[title] = f"{stem}.html"
    return names


# -- provenance of the views


def data_sets(pages: Sequence[PublishedPage]) -> list[dict[str, Any]]:
    """Return the data sets of the pages with items, licence and citation, without duplicates."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for page in pages:
        if page.items is None or not len(page.items):
            continue
        for names, of_variant in page.items.frame.groupby(["dataset", "split", "variant"], sort=False):
            dataset, split, variant = map(str, names)
            items = Items(of_variant.reset_index(drop=True), attrs=page.items.attrs)
            text = f"{len(items):,} of the split {split}, variant {variant} (digest {items_digest(items)})"
            row = rows.setdefault((dataset, ""), {"name": dataset, "holdings": [], **terms(dataset)})
            if text not in row["holdings"]:
                row["holdings"].append(text)
    return [row | {"holdings": "; ".join(row["holdings"])} for row in rows.values()]


def terms(dataset: str) -> dict[str, str]:
    """Return the known title, licence, citation and notice of a data set."""
    try:
        entry = entry_of(dataset)
    except DataError:
        unknown = "not known: the data are not of the registry"
        return {"title": dataset, "licence": unknown, "citation": "", "notice": ""}
    names = ("title", "licence", "citation", "notice")
    return {name: getattr(entry, name).strip() for name in names}


def _notices(page: PublishedPage) -> list[str]:
    names = [] if page.items is None else page.items.frame["dataset"].unique().tolist()
    return [notice for name in names if (notice := terms(str(name))["notice"])]


def _signatures(pages: Sequence[PublishedPage], runs: Sequence[Run | str]) -> list[dict[str, str]]:
    """Return the signatures of the runs, by name; a reason where there is none."""
    named: dict[str, Any] = {}
    for run in (*runs, *(run for page in pages for run in page.runs)):
        named.setdefault(_run_name(run), run)
    rows = []
    for name, run in named.items():
        try:
            stored = find_run(run) if isinstance(run, str) else run
            rows.append({"name": name, "signature": stored.signature})
        except DataError as error:
            rows.append({"name": name, "reason": f"It has no signature: {error}"})
    return rows


def _run_name(run: Run | str) -> str:
    return run if isinstance(run, str) else run.run


def _code(page: PublishedPage) -> str:
    """Return Python that makes a view again; empty if an argument of it is not loaded by a name."""
    lines: dict[str, str] = {}  # by the variable that they define
    if page.items is not None and len(page.items):
        sets = page.items.frame[["dataset", "split", "variant"]].drop_duplicates().to_numpy().tolist()
        dataset, split, variant = sets[0]
        if len(sets) == 1 and dataset in dataset_names() and not split_variant(variant)[1]:
            lines["items"] = (
                f"items = wb.load({dataset!r}, {split!r}, variant={variant!r})  # shown: {page.n_items:,}"
            )
            lines["annotations"] = "annotations = wb.annotate(items)"
    if page.runs:
        names = [_run_name(run) for run in page.runs]
        lines |= {name: f"{name} = {names!r}" for name in ("runs", "predictions")}
    used = {node.id for node in ast.walk(ast.parse(page.code)) if isinstance(node, ast.Name)} - {"wb"}
    if not page.code or used - set(lines):
        return ""
    definitions = [line for name, line in lines.items() if name in used]
    return "\n".join(["import workbench as wb", "", *definitions, page.code])


def _versions() -> list[tuple[str, str]]:
    """Return the versions of the packages that made the site, the commit and the date."""
    try:
        versions = library_versions(*_PACKAGES)
    except PackageNotFoundError:
        versions = library_versions()
    origin = [("commit", commit() or "not known"), ("made on", dt.datetime.now(dt.UTC).date().isoformat())]
    return [*versions.items(), *origin]
