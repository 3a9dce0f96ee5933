"""What results depend on: the items, the code, the commit, the packages."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from workbench.items.items import Items
from workbench.items.schema import DataError
from workbench.storage import cache

_PACKAGES = (
    "kenlm", "numpy", "pandas", "pyarrow", "scikit-learn", "scipy", "gensim", "torch", "tokenizers",
    "transformers",
)  # fmt: skip
_CODE = (  # what predictions depend on
    "items", "runs/predictions.py", "texts", "models", "training",
)  # fmt: skip
_SIMPLE = (str, bytes, int, float, complex, type(None))


def digest(items: Items) -> str:
    """Return the SHA-256 of all that predictions may depend on."""
    frame = items.frame
    columns = [name for name in frame.columns if name != "meta"]
    return cache.digest(*(repr(frame[name].tolist()) for name in columns))


def plain(value: Any, what: str) -> Any:
    """Return a value as JSON holds it: tuples as lists, keys as text.

    Raises
    ------
    DataError
        If JSON cannot hold it; `what` says what it is.
    """
    try:
        return json.loads(json.dumps(value, ensure_ascii=False).encode())
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{what} cannot be written as JSON: {error}",
            remedy="use text, numbers, None, and lists and dicts of these",
        ) from None


def code(model: object) -> str:
    """Return a digest of the code that predictions come from, that of a user's own model included.

    Of the user's own classes, those that the model's class inherits from too, count the file as it is now
    and the functions as they were loaded. A class without a file, as one that a notebook defines, counts
    with its simple attributes and with what its functions name of the notebook's own functions, classes
    and simple values.
    """
    base = Path(__file__).parents[1]
    places = [base / name for name in _CODE]
    files = [path for place in places for path in ([place] if place.suffix else place.rglob("*.py"))]
    parts: list[str | bytes] = [cache.code(files, base)]
    for kind in type(model).__mro__:
        package = kind.__module__.partition(".")[0]
        if package == "workbench" or (package in sys.stdlib_module_names and package != "__main__"):
            continue
        file = getattr(sys.modules.get(kind.__module__), "__file__", None)
        source = Path(file).read_bytes().replace(b"\r\n", b"\n") if file and Path(file).is_file() else None
        parts += [source or b"", *_loaded(kind, kind.__module__, set(), alone=source is None)]
    return cache.digest(*parts)


def _loaded(thing: Any, home: str, seen: set[int], *, alone: bool) -> Iterator[str]:
    """Yield what a class or function of the module `home` is made of; `alone` where no file says the rest."""
    inner: dict[str, Any] = {}
    if not isinstance(thing, type | FunctionType):
        yield str(_shown(thing)) if alone else ""
    elif thing.__module__ != home or id(thing) in seen:
        yield thing.__qualname__
    elif isinstance(thing, type):
        inner = {name: value for name, value in vars(thing).items() if name != "__firstlineno__"}
    else:
        names: set[str] = set()
        yield repr(_compiled(thing.__code__, names))
        inner = {name: thing.__globals__[name] for name in names & set(thing.__globals__) if alone}
        inner |= {f"({i}": part for i, part in enumerate(_bound(thing))}
    seen.add(id(thing))
    for name, value in sorted(inner.items()):
        yield name
        for part in _unwrapped(value):
            yield from _loaded(part, home, seen, alone=alone)


def _unwrapped(value: Any) -> list[Any]:
    """Return the functions that a member of a class stands for."""
    if isinstance(value, property):
        return [value.fget, value.fset]
    return [value.func if isinstance(value, cached_property) else getattr(value, "__func__", value)]


def _bound(function: FunctionType) -> list[Any]:
    """Return what a function was made with: defaults, and what it has from the function around it."""
    found = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # nothing is in it yet
            found.append(cell.cell_contents)
    return found


def _shown(value: Any) -> Any:
    """Return a simple value as it reads in every process, of another its class."""
    if isinstance(value, dict):
        return ["dict", *([_shown(key), _shown(one)] for key, one in value.items())]
    if isinstance(value, list | tuple | set | frozenset):
        parts = [str(_shown(part)) for part in value]
        return [type(value).__name__, *(sorted(parts) if isinstance(value, set | frozenset) else parts)]
    return repr(value) if isinstance(value, _SIMPLE) else type(value).__qualname__


def _compiled(code: CodeType, names: set[str]) -> tuple[Any, ...]:
    """Return what a function does, the same in every process, and add the names that it looks up."""
    names.update(code.co_names)
    values = [
        _compiled(part, names) if isinstance(part, CodeType) else _shown(part) for part in code.co_consts
    ]
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, values


def commit() -> str | None:
    """Return the commit that the package's checkout is at, with ``+`` where files differ; None elsewhere."""
    git = shutil.which("git")
    root = Path(__file__).parents[2]
    if git is None or not (root / ".git").exists():
        return None

    def said(*arguments: str) -> str | None:
        command = [git, "-C", str(root), *arguments]
        told = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - git itself
        return told.stdout.strip() if told.returncode == 0 else None

    head = said("rev-parse", "HEAD")
    return head and head + ("+" if said("status", "--porcelain", "--untracked-files=no") else "")


def versions() -> dict[str, str]:
    """Return the versions of the packages that models compute with, as far as they are installed."""
    found: dict[str, str] = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
