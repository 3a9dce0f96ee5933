"""Words with a vector each, on disk and mapped into memory: what LSA and CBOW share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from workbench.items import text as wt
from workbench.items.items import Items
from workbench.items.schema import DataError
from workbench.models.base import Predictor
from workbench.models.passage import passages
from workbench.storage.files import atomic_path, data_home

FILE = "vectors.json"
Matrix = npt.NDArray[np.float32]
Scope = Literal["sentence", "passage"]


class Vectors:
    """Words, and arrays with a row for each of them.

    Parameters
    ----------
    words : sequence of str (n,)
    arrays : mapping of str to array
        Arrays (n, ...) of float32 have a row for each word, others what belongs to all.
    info : mapping
        How they were made, as JSON can hold it.
    """

    def __init__(
        self, words: Sequence[str], arrays: Mapping[str, npt.NDArray[Any]], info: Mapping[str, Any]
    ) -> None:
        self.words, self.arrays, self.info = list(words), dict(arrays), dict(info)

    @cached_property
    def place(self) -> dict[str, int]:
        """The row of each word."""
        return {word: index for index, word in enumerate(self.words)}

    def rows(self, word: str) -> list[int]:
        """Return the row of a word; of a word that is not there those of its tokens (``mother 's``)."""
        row = self.place.get(word)
        if row is not None:
            return [row]
        parts = wt.tokenize(word)
        return [self.place[part] for part in parts if part in self.place] if len(parts) > 1 else []

    def write(self, folder: Path | str) -> None:
        """Write all into a folder; the list of words comes last, and says that the rest is whole."""
        target = Path(folder)
        (target / FILE).unlink(missing_ok=True)
        for name, array in self.arrays.items():
            with atomic_path(target / f"{name}.npy") as path, path.open("wb") as file:
                np.save(file, array)
        manifest = {"info": self.info, "arrays": sorted(self.arrays), "words": self.words}
        with atomic_path(target / FILE) as path:
            path.write_text(json.dumps(manifest), encoding="utf-8")

    @classmethod
    def read(cls, folder: Path | str) -> Vectors:
        """Map what `write` wrote into memory.

        Raises
        ------
        DataError
            If the folder does not hold whole vectors.
        """
        target = Path(folder)
        try:
            manifest = json.loads((target / FILE).read_text(encoding="utf-8"))
            arrays = {name: np.load(target / f"{name}.npy", mmap_mode="r") for name in manifest["arrays"]}
            return cls(manifest["words"], arrays, manifest["info"])
        except (OSError, ValueError, KeyError, EOFError) as error:
            raise DataError(
                f"there are no whole vectors: {error}", file=target, remedy="make them again"
            ) from None


class VectorModel(Predictor):
    """A model that has a vector for each word of its training texts.

    Attributes
    ----------
    options : tuple of str
        Attributes that are arguments, too: `config` holds them, and `load` passes them.
    """

    options: ClassVar[tuple[str, ...]] = ()

    def __init__(self, vectors: Vectors, checked_for: dict[str, Any] | None) -> None:
        self.vectors, self.checked_for = vectors, checked_for

    @property
    def config(self) -> dict[str, Any]:
        """How the vectors were made, and how they are used."""
        return {"vectors": self.vectors.info, **{name: getattr(self, name) for name in self.options}}

    @property
    def training(self) -> dict[str, Any]:
        """What the vectors were trained on."""
        return {"corpus": self.vectors.info["corpus"], "checked_for": self.checked_for}

    def form(self, word: str) -> str:
        """Return a word as the training texts have it."""
        return word.lower() if self.vectors.info["lower"] else word

    def _save(self, folder: Path) -> None:
        self.vectors.write(folder / "vectors")

    @classmethod
    def _load(cls, folder: Path, config: dict[str, Any]) -> Self:
        make: Any = cls
        model: Self = make(Vectors.read(folder / "vectors"), **{name: config[name] for name in cls.options})
        return model


def cached(name: str, key: str, make: Callable[[], Vectors]) -> Vectors:
    """Return the vectors of a key from ``cache/`` of the data folder, or make them."""
    folder = data_home() / "cache" / name / key
    try:
        return Vectors.read(folder)
    except DataError:
        make().write(folder)
    return Vectors.read(folder)


def around(items: Items, *, scope: Scope, lower: bool) -> Iterator[tuple[str, ...]]:
    """Yield for each item the tokens of its sentence, or of the whole passage, without the answer."""
    for _, passage in passages(items, lower=lower):
        yield passage.words if scope == "passage" else passage.left + passage.right


def unit(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return rows of length 1; a row of zeros stays one, so its cosine with any other is 0."""
    length = np.sqrt(np.einsum("...i,...i->...", rows, rows))[..., None]
    return np.asarray(np.divide(rows, length, out=np.zeros_like(rows), where=length > 0))
