"""Report of the environment for error reports, without personal names."""

# ruff: noqa: PLC0415 - what is slow to import is imported when a report is asked for

from __future__ import annotations

import getpass
import os
import platform
import re
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from workbench.storage import paths
from workbench.storage.errors import DataError, reason
from workbench.storage.packages import DISTRIBUTION, commit

_VARIABLES = ("WORKBENCH_HOME", "WORKBENCH_DATA")


def environment_report() -> dict[str, dict[str, str]]:
    """Return the environment for an error report: values by name for each heading.

    Versions of the workbench, Python, the platform and the packages it uses; KenLM's programs, tagger,
    language model and GPU; folders, data sets that are found, and stored runs. The home folder is written as
    ``~`` and the user's name is left out, so that the text can be published.

    Examples
    --------
    >>> from workbench.environment_report import environment_report
    >>> environment_report()["workbench"]["version"]
    '0.1.0'
    """
    return {
        "workbench": {
            "version": metadata.version(DISTRIBUTION),
            "commit": commit() or "none (installed from a wheel)",
            "python": platform.python_version(),
            "platform": platform.platform(),
            "processors": str(os.cpu_count()),
        },
        "packages": _packages(),
        "programs and models": {
            "KenLM": _answer(_kenlm),
            "tagger": _answer(_tagger),
            "language model": _answer(_language_model),
            "GPU": _answer(_gpu),
        },
        "folders": {
            "data": _answer(lambda: public_path(paths.data_home())),
            "cache": _answer(lambda: public_path(paths.cache_home())),
            **{name: public_path(Path(os.environ[name])) for name in _VARIABLES if os.environ.get(name)},
        },
        "data": {"data sets": _answer(_data_sets), "runs": _answer(_runs)},
    }


def public_path(path: Path) -> str:
    """Return a path with ``~`` for the home folder, and without the user's name elsewhere.

    Examples
    --------
    >>> from workbench.environment_report import public_path
    >>> public_path(Path.home() / "corpora")
    '~/corpora'
    """
    home = Path.home()
    if path.is_relative_to(home):
        return str(Path("~") / path.relative_to(home))
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in some containers
        return str(path)
    return str(Path(*("USER" if name == user else name for name in path.parts)))


def _answer(ask: Callable[[], str]) -> str:
    """Return an answer, or the error in its place: reports are needed most when something is broken."""
    try:
        return ask()
    except Exception as error:  # noqa: BLE001 - whatever is broken is what the report is about
        text = error.problem if isinstance(error, DataError) else reason(error)
        return text.replace(str(Path.home()), "~")


def _packages() -> dict[str, str]:
    """Return the installed versions of all required packages, sorted by name."""
    requirements = metadata.requires(DISTRIBUTION) or []
    names = sorted({re.split(r"[^\w.-]", requirement, maxsplit=1)[0] for requirement in requirements})
    versions = {}
    for name in names:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return versions


def _kenlm() -> str:
    from workbench.models.ngram.kenlm import find_program

    try:
        return public_path(find_program("lmplz"))
    except DataError:
        return "missing: `workbench setup` builds it"


def _tagger() -> str:
    from workbench.analysis.tagging import find_pipeline, installed

    return ", ".join(find_pipeline(name).label for name in installed()) or "none"


def _language_model() -> str:
    from workbench.models.pretrained.known import known_models

    packages = [model for model in known_models().values() if model.package]
    return ", ".join(
        f"{model.name} ({model.package if model.path() else f'missing: {model.command}'})"
        for model in packages
    )


def _gpu() -> str:
    import torch

    if not torch.cuda.is_available():
        return "none"
    return ", ".join(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))


def _data_sets() -> str:
    from workbench.datasets import available

    table = available()
    present = table[table["found"]]
    return ", ".join(
        f"{name} ({', '.join(dict.fromkeys(rows['split']))})"
        for name, rows in present.groupby("dataset", sort=False)
    )


def _runs() -> str:
    from workbench.predictions.store import runs

    return f"{len(runs()):,}"
