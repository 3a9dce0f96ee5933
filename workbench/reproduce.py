"""Run the notebooks from the command line and keep their outputs."""

# ruff: noqa: PLC0415 - Jupyter is slow to import, and only running needs it

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from workbench.storage.errors import DataError, reading, writing
from workbench.storage.files import write_atomic
from workbench.storage.paths import data_home
from workbench.storage.progress import PROGRESS, say

_WIDGET = "application/vnd.jupyter.widget-view+json"
_PARAMETERS = "parameters"  # tag of the cell whose names can be set from outside


def notebooks(folder: Path) -> list[Path]:
    """Return the numbered notebooks of a folder, in reading order."""
    return sorted(path for path in folder.glob("[0-9][0-9]_*.ipynb"))


def run(path: Path, settings: Mapping[str, Any], *, timeout: int | None = None) -> Any:
    """Execute a notebook from top to bottom and return it with its outputs.

    A cell that sets the names in `settings` is put behind the first cell that is tagged ``parameters``.
    Progress bars are left out of the outputs.

    Raises
    ------
    DataError
        If the notebook has no such cell, or if a cell of it fails or takes more than `timeout` seconds.
    """
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    with reading(path, "this notebook"):
        notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    tagged = [i for i, c in enumerate(notebook.cells) if _PARAMETERS in c.metadata.get("tags", [])]
    if not tagged:
        raise DataError(f"no cell is tagged {_PARAMETERS!r}", file=path, hint="tag the first code cell")
    lines = "\n".join(f"{name} = {value!r}" for name, value in settings.items())
    notebook.cells.insert(tagged[0] + 1, nbformat.v4.new_code_cell(lines))  # type: ignore[no-untyped-call]
    client = NotebookClient(
        notebook,
        timeout=timeout,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        extra_arguments=["--log-level=ERROR"],  # otherwise messages about sockets appear
        store_widget_state=False,
    )
    try:
        client.execute()
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        raise DataError(f"a cell failed: {error}", file=path) from error
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if not _is_progress(output)]
    return notebook


def _is_progress(output: Mapping[str, Any]) -> bool:
    """Return True if an output is a progress bar: this package's, or a widget without its kernel."""
    data = output.get("data", {})
    return output.get("metadata") == PROGRESS or (_WIDGET in data and "text/html" not in data)


def reproduce(
    folder: Path,
    *,
    out: Path | None = None,
    only: Iterable[str] = (),
    settings: Mapping[str, Any] | None = None,
) -> None:
    """Run every notebook of a folder on the local data, and write an HTML page of each.

    Parameters
    ----------
    folder : Path
    out : Path, optional
        Folder for pages, figures and tables, the notebooks' parameter ``OUT``; ``runs/reproduce`` in the data
        folder by default.
    only : iterable of str, optional
        Beginnings of names; all notebooks by default.
    settings : mapping, optional
        Further values for the parameters of the notebooks.

    """
    from nbconvert import HTMLExporter

    target = (data_home() / "runs" / "reproduce" if out is None else out).absolute()
    beginnings = tuple(only) or ("",)
    chosen = [path for path in notebooks(folder) if path.name.startswith(beginnings)]
    if not chosen:
        raise DataError(f"there is no notebook to run in {folder}", hint="run it from the project's folder")
    with writing(target, "this folder"):
        target.mkdir(parents=True, exist_ok=True)
    for path in chosen:
        say(f"{path.name} ...", end=" ")
        start = time.perf_counter()
        notebook = run(path, {"OUT": str(target), **(settings or {})})
        page, _ = HTMLExporter(embed_images=True).from_notebook_node(notebook)  # type: ignore[no-untyped-call]
        file = target / f"{path.stem}.html"
        write_atomic(file, page)
        say(f"{time.perf_counter() - start:.0f} s -> {file}")
