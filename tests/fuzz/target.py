"""What a target of the fuzz harness is."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from mutator import mutate_folder


@dataclass(frozen=True)
class Target:
    """One form of file or folder.

    Attributes
    ----------
    name, kind : str
    build : callable
        Writes valid files into an empty folder.
    read : callable
        Reads the folder.
    judge : callable
        Gets what `read` returned for the damaged folder, that folder, and what it returned for the valid one.
        Returns a word for the table ("same", "valid", "problems", "absent") or raises AssertionError.
    damage : callable
        Changes the files of the folder by what a `random.Random` draws.
    """

    name: str
    kind: str
    build: Callable[[Path], Any]
    read: Callable[[Path], Any]
    judge: Callable[[Any, Path, Any], str]
    damage: Callable[[Path, Random], None] = mutate_folder


def same(value, _folder, valid):
    """Judge what has a digest: the result is exactly that of the valid files."""
    assert value == valid, "another result"
    return "same"
