"""Start JupyterLab on the tour, with the notebooks in a user's folder."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path

from workbench.storage.errors import DataError, reason
from workbench.storage.files import read_bytes, write_atomic
from workbench.storage.paths import in_checkout, resource
from workbench.storage.progress import say

_TOUR = "00_tour.ipynb"
_FOLDER = "workbench-notebooks"
_MODEL = "smollm2-135m"


def copy_notebooks(folder: Path) -> list[Path]:
    """Copy the notebooks of the package into a folder, and return those that differ there.

    A file that is there already is never overwritten: it may hold a user's changes.

    Parameters
    ----------
    folder : Path
        It is made where it is missing.

    Returns
    -------
    list of Path
        Files of the folder with the name of a notebook but another content, sorted.

    Raises
    ------
    DataError
        If the folder cannot be written to, or a file in it cannot be read.
    """
    changed = []
    for notebook in sorted(resource("notebooks").glob("*.ipynb")):
        content, target = notebook.read_bytes(), folder / notebook.name
        if not os.path.lexists(target):
            write_atomic(target, content)
        elif read_bytes(target, "this notebook") != content:
            changed.append(target)
    return changed


def start_lab(
    folder: Path | None = None, *, port: int = 8888, ip: str = "localhost", browser: bool = True
) -> None:
    """Replace this process by JupyterLab, on the tour.

    Parameters
    ----------
    folder : Path, optional
        Folder for copies of the notebooks, see `copy_notebooks`. In a checkout the notebooks themselves are
        opened by default, else copies in ``workbench-notebooks`` of the working directory.
    port : int, default 8888
        If it is taken, the next free one; 0 for any.
    ip : str
        Address that the server listens on.
    browser : bool
        Whether a browser is opened, where there is one.
    """
    if folder is None and in_checkout():
        root = resource("notebooks").parent
        tour = f"{resource('notebooks').name}/{_TOUR}"
    else:
        root, tour = Path(folder or _FOLDER).absolute(), _TOUR
        for file in copy_notebooks(root):
            say(f"{file.name} stays as it is in {root}; remove it to get the one of this version")
        say(f"notebooks are in {root}")
    for message in missing_parts():
        say(message)
    if Path("/.dockerenv").exists() and ip == "localhost":
        say("in a container; to reach it from outside, listen on 0.0.0.0 (--ip, in a checkout make lab IP=)")
    line = lab_command(
        root, tour, port=port, ip=ip, superuser=os.geteuid() == 0, browser=browser and has_browser()
    )
    sys.stdout.flush()
    os.chdir(root)
    try:
        os.execv(line[0], line)  # noqa: S606 - no shell on purpose
    except OSError as error:
        raise DataError(f"JupyterLab cannot be started ({reason(error)})") from error


def missing_parts() -> list[str]:
    """Return a line for each optional package of the tour that is missing, with how to install it."""
    from workbench.models.ngram.kenlm import find_program  # noqa: PLC0415 - with what they import
    from workbench.models.pretrained.known import missing_package  # noqa: PLC0415

    lines = [f"the language model of the tour is missing: {line}" for line in missing_package(_MODEL)]
    try:
        find_program("lmplz")
    except DataError:
        lines.append("the programs that estimate n-gram models are missing: `workbench setup` builds them")
    return lines


def lab_command(root: Path, tour: str, *, port: int, ip: str, superuser: bool, browser: bool) -> list[str]:
    """Return the command line of JupyterLab for a notebook, whose path is relative to `root`."""
    options = [
        f"--ServerApp.root_dir={root}",
        f"--LabApp.default_url=/lab/tree/{tour}",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=50",
        f"--ServerApp.ip={ip}",
        *["--allow-root"] * superuser,
        *["--no-browser"] * (not browser),
    ]
    return [sys.executable, "-P", "-m", "jupyterlab", *options]  # no module of the user's folder is imported


def has_browser() -> bool:
    """Return True if there is a display with a browser."""
    linux = sys.platform.startswith("linux")
    if linux and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True
