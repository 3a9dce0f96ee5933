"""Locations on disk: a user's data, the cache, programs, and what ships with the project.

All paths are decided here: in a checkout ``data/``, of a wheel the platform's folders.
"""

from __future__ import annotations

import contextlib
import math
import os
import stat
from pathlib import Path

from workbench.storage.errors import DataError, reading
from workbench.storage.packages import DISTRIBUTION

_PACKAGE = Path(__file__).resolve().parents[1]
_CHECKOUT = _PACKAGE.parent
_AT_THE_TOP = {"notebooks", "tools", "requirements.lock", "models.lock"}


def data_home() -> Path:
    """Return the folder of a user's data: ``raw/``, ``runs/``, ``notes/`` and others.

    ``$WORKBENCH_HOME`` where it is set; else ``data/`` of the checkout that this package runs from; else the
    platform's folder for the data of a user's programs, such as ``~/.local/share/lambada-workbench`` on
    Linux. Results that can be computed again are in `cache_home`. DataError if the variable does not name a
    folder that can be read.
    """
    if home := _home_in_environment():
        return home
    return _CHECKOUT / "data" if in_checkout() else _platform_folder("user_data_path")


def cache_home() -> Path:
    """Return the folder of reproducible results, with one subfolder for each category.

    ``cache/`` in `data_home`; of an installed package without ``$WORKBENCH_HOME`` the platform's folder for
    caches, such as ``~/.cache/lambada-workbench`` on Linux.
    """
    if in_checkout() or _home_in_environment():
        return data_home() / "cache"
    return _platform_folder("user_cache_path")


def programs_home() -> Path:
    """Return the folder of KenLM's programs: ``.tools`` of a checkout, else in `data_home`."""
    return _CHECKOUT / ".tools" if in_checkout() else data_home() / "tools"


def in_checkout() -> bool:
    """Return True if this package runs from a checkout of the repository rather than an installed wheel."""
    return (_CHECKOUT / "pyproject.toml").is_file() and not (_PACKAGE / "_data").is_dir()


def _home_in_environment() -> Path | None:
    if value := os.environ.get("WORKBENCH_HOME"):
        with reading(value, "the folder that WORKBENCH_HOME names", hint="set it to a folder, or unset it"):
            home = Path.cwd() / Path(value).expanduser()  # also of a user who does not exist
            with contextlib.suppress(FileNotFoundError):
                if not stat.S_ISDIR(home.stat().st_mode):
                    raise NotADirectoryError(0, "what is there is not a folder", value)
            return home
    return None


def _platform_folder(purpose: str) -> Path:
    import platformdirs  # noqa: PLC0415 - a checkout does not ask

    folder: Path = getattr(platformdirs, purpose)(DISTRIBUTION, appauthor=False)
    return folder


def number_in_environment(variable: str, default: float, unit: str) -> float:
    """Return a number from an environment variable; DataError if it is not a number, or negative."""
    text = os.environ.get(variable) or f"{default:g}"
    with contextlib.suppress(ValueError):
        if 0 <= (number := float(text)) < math.inf:
            return number
    problem = f"expected a number of {unit} in {variable}, got {text!r}"
    raise DataError(problem, hint=f"set it to a number such as {default:g}, or unset it")


def resource(*parts: str) -> Path:
    """Return the path of a file or folder that ships with the project.

    The wheel has all of them in one folder. In a checkout they are in ``data/``; others, such as
    ``notebooks``, are at its top.
    """
    if not in_checkout():
        return (_PACKAGE / "_data").joinpath(*parts)
    return (_CHECKOUT if parts[0] in _AT_THE_TOP else _CHECKOUT / "data").joinpath(*parts)
