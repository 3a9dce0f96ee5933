"""The record of a construction: its inputs, parameters, library versions, and how much each step left."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from workbench.render.results import Table, TableColumn, TableLayout
from workbench.storage import cache
from workbench.storage.checksums import sha256
from workbench.storage.errors import reading
from workbench.storage.files import read_json, write_atomic
from workbench.storage.packages import library_versions

MANIFEST_FILE = "manifest.json"
"""The file in the folder of what was made."""

NOT_DRAWN = "not drawn"
"""The reason of a step for what was left out because only a sample was asked for."""

_FUNNEL = TableLayout(
    "Steps of the construction",
    (
        TableColumn("step"),
        TableColumn("unit"),
        *(TableColumn(name, "count") for name in ("n_in", "n_out", "n_dropped", "n_not_drawn")),
        TableColumn("share_dropped", "share"),
        TableColumn("reasons"),
    ),
)


def _now() -> str:
    return datetime.now(UTC).isoformat("T", "seconds")


@dataclass(frozen=True)
class FileDigest:
    """Name, size in bytes and SHA-256 of a file; the name has no folder of this machine."""

    name: str
    size: int
    sha256: str

    @classmethod
    def of(cls, path: Path | str, name: str | None = None) -> FileDigest:
        """Return the digest of a regular file, called by `name` or else by its own name."""
        path = Path(path)
        with reading(path):
            return cls(name or path.name, path.stat().st_size, sha256(path))


@dataclass(frozen=True)
class Step:
    """One step of a construction: how many went in, how many came out, and why others were dropped.

    What went in is what came out and what was dropped, by reason; else ValueError. A step of another unit
    (such as "novels" or "passages") begins a count anew.
    """

    name: str
    n_in: int
    n_out: int
    dropped: Mapping[str, int] = field(default_factory=dict)
    unit: str = "items"
    counts: Mapping[str, int] = field(default_factory=dict)  # further sizes of what came out: its words

    def __post_init__(self) -> None:
        for name in ("dropped", "counts"):  # integers of NumPy become Python's
            object.__setattr__(self, name, {key: int(n) for key, n in getattr(self, name).items()})
        for name in ("n_in", "n_out"):
            object.__setattr__(self, name, int(getattr(self, name)))
        numbers = [self.n_out, *self.dropped.values(), *self.counts.values()]
        if min(numbers) < 0 or self.n_in != self.n_out + sum(self.dropped.values()):
            raise ValueError(
                f"step {self.name!r}: expected n_in = n_out + dropped, all 0 or more, got {self.n_in} in,"
                f" {self.n_out} out, dropped {dict(self.dropped)}"
            )


@dataclass(frozen=True, eq=False, repr=False)
class Manifest:
    """How a data set was made from which files; written beside it as ``manifest.json``.

    Attributes
    ----------
    inputs, outputs : sequence of FileDigest
        The files that were read, and those that were written.
    parameters : mapping
        By stage ("novels", "passages", ...) what it was called with, seeds included: values that JSON holds.
    steps : sequence of Step
        In their order.
    versions : mapping of str to str
        Of Python, this package, and the libraries that the outcome depends on.
    created : str
        When it was made (ISO 8601, UTC). Two manifests are equal whatever their times.

    Examples
    --------
    >>> from workbench.construction.manifest import Manifest, Step
    >>> manifest = Manifest(
    ...     parameters={"novels": {"seed": 0}}, steps=[Step("language", 10, 8, {"not English": 2})]
    ... )
    >>> manifest.save("made")
    PosixPath('made/manifest.json')
    >>> Manifest.load("made") == manifest
    True
    >>> manifest.to_frame()[["step", "n_in", "n_out", "share_dropped"]]
           step  n_in  n_out  share_dropped
    0  language    10      8            0.2
    """

    inputs: Sequence[FileDigest] = ()
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    steps: Sequence[Step] = ()
    outputs: Sequence[FileDigest] = ()
    versions: Mapping[str, str] = field(default_factory=library_versions)
    created: str = field(default_factory=_now)

    def __post_init__(self) -> None:
        for name in ("inputs", "steps", "outputs"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for name in ("parameters", "versions"):  # as they are read again: tuples are lists
            object.__setattr__(self, name, json.loads(json.dumps(getattr(self, name), allow_nan=False)))

    @property
    def digest(self) -> str:
        """The SHA-256 of all but the time, in hexadecimal."""
        content = self.to_dict()
        del content["created"]
        return cache.digest(json.dumps(content, sort_keys=True))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Manifest) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def extended(
        self,
        stage: str,
        *,
        parameters: Mapping[str, Any],
        steps: Iterable[Step],
        inputs: Iterable[FileDigest] = (),
        outputs: Iterable[FileDigest] = (),
        libraries: Iterable[str] = (),
    ) -> Manifest:
        """Return the manifest of what a further stage made of this; the outputs are those of that stage.

        Parameters
        ----------
        stage : str
            Its name, under which its parameters are listed.
        parameters : mapping
        steps, inputs : iterable
            Added to those that are there.
        outputs : iterable of FileDigest
        libraries : iterable of str
            Names of distributions, as they are installed.

        Raises
        ------
        ValueError
            If the stage is there already.
        """
        if stage in self.parameters:
            raise ValueError(f"the manifest has a stage {stage!r} already")
        return replace(
            self,
            inputs=tuple(dict.fromkeys([*self.inputs, *inputs])),
            parameters={**self.parameters, stage: parameters},
            steps=(*self.steps, *steps),
            outputs=tuple(outputs),
            versions={**self.versions, **library_versions(*libraries)},
            created=_now(),
        )

    def to_frame(self) -> Table:
        """Return the funnel, one row per step: what went in and out, the share dropped, and the reasons.

        What was left out because only a sample was asked for is counted apart, as ``n_not_drawn``.
        """
        rows = []
        for step in self.steps:
            n_not_drawn = step.dropped.get(NOT_DRAWN, 0)
            n_dropped = step.n_in - step.n_out - n_not_drawn
            share = n_dropped / step.n_in if step.n_in else float("nan")
            reasons = "; ".join(f"{reason}: {n:,}" for reason, n in step.dropped.items())
            rows.append((step.name, step.unit, step.n_in, step.n_out, n_dropped, n_not_drawn, share, reasons))
        return Table(pd.DataFrame(rows, columns=[column.name for column in _FUNNEL.columns]), _FUNNEL)

    def _repr_html_(self) -> str:
        return self.to_frame().to_html()

    def __repr__(self) -> str:
        return str(self.to_frame())

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as what JSON holds."""
        return asdict(self) | {
            name: [asdict(entry) for entry in getattr(self, name)] for name in ("inputs", "steps", "outputs")
        }

    def save(self, folder: Path | str) -> Path:
        """Write ``manifest.json`` into a folder, at once or not at all; return its path."""
        path = Path(folder) / MANIFEST_FILE
        write_atomic(path, json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n")
        return path

    @classmethod
    def load(cls, folder: Path | str) -> Manifest:
        """Read the manifest in a folder.

        Raises
        ------
        DataError
            If there is none, or it is damaged.
        """
        path = Path(folder) / MANIFEST_FILE
        description = "this manifest"
        content = read_json(path, description)
        with reading(path, description, hint="make it again"):
            return cls(
                [FileDigest(**file) for file in content["inputs"]],
                content["parameters"],
                [Step(**step) for step in content["steps"]],
                [FileDigest(**file) for file in content["outputs"]],
                content["versions"],
                content["created"],
            )
