"""The pages of the reference: one a public name, in groups by what the names are for."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

import workbench as wb

GROUPS = {
    "datasets": "Data sets and novels",
    "items": "Items",
    "analysis": "Analysis of targets",
    "predictions": "Predictions and runs",
    "models": "Models",
    "evaluation": "Evaluation",
    "probing": "Probing",
    "charts": "Charts",
    "widgets": "Widgets",
    "construction": "Data sets from novels",
    "people": "People",
    "storage": "Errors and versions",
}
_PACKAGES = ("charts", "models", "construction", "people")
_CALLED = {  # a package whose name is a function too, and the protocol of models
    "workbench.models.registry.models": "models",
    "workbench.models.base.Predictor": "models",
}


@cache
def public() -> dict[str, Any]:
    """Return the documented objects by the name that users write, such as ``workbench.load``."""
    module: Any = wb
    objects = {f"workbench.{name}": getattr(module, name) for name in module.__all__}
    for package in _PACKAGES:
        module = getattr(wb, package)
        for name in module.__all__:
            value = getattr(module, name)
            objects |= dict(_documented(value)) if isinstance(value, ModuleType) else {}
            objects[f"workbench.{package}.{name}"] = value
    for name in _CALLED:
        home, _, attribute = name.rpartition(".")
        objects[name] = getattr(import_module(home), attribute)
    aliases: dict[int, str] = {}  # a function that has two public names has the shorter one's page
    for name in sorted(objects, key=len):
        if inspect.isfunction(objects[name]) or inspect.isclass(objects[name]):
            aliases.setdefault(id(objects[name]), name)
    return {name: objects[name] for name in objects if aliases.get(id(objects[name])) == name}


def _documented(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield the functions of a module whose docstrings have an example."""
    for name, value in vars(module).items():
        is_own = inspect.isfunction(value) and value.__module__ == module.__name__
        if is_own and not name.startswith("_") and ">>>" in (value.__doc__ or ""):
            yield f"{module.__name__}.{name}", value


@cache
def _homes() -> dict[str, str]:
    return {f"{value.__module__}.{value.__qualname__}": name for name, value in public().items()}


def public_name(target: str) -> str | None:
    """Return the public name of an object by any of its names; None if it has no page.

    Examples
    --------
    >>> public_name("workbench.evaluation.metrics.evaluate")
    'workbench.evaluate'
    """
    name = target.strip("~")
    return name if name in public() else _homes().get(name)


def _group(name: str, value: Any) -> str:
    package = _CALLED.get(name) or str(value.__module__).split(".")[1]
    return GROUPS.get(package, GROUPS["storage"])


def _summary(value: Any) -> str:
    return (inspect.getdoc(value) or "").partition("\n")[0]


def pages() -> dict[str, str]:
    """Return the pages as reStructuredText, by path: an index, and one page an object."""
    groups: dict[str, list[str]] = {title: [] for title in GROUPS.values()}
    texts = {}
    for name, value in public().items():
        groups[_group(name, value)].append(name)
        directive = "autoclass" if inspect.isclass(value) else "autofunction"
        options = "   :members:\n" if inspect.isclass(value) else ""
        texts[f"api/{name}.rst"] = f"{_titled(_short(name), '=')}\n.. {directive}:: {name}\n{options}"
    lines = [_titled("Reference", "="), _INTRODUCTION]
    for title, names in groups.items():
        if names:
            rows = [
                f"   * - :doc:`{_short(name)} <{name}>`\n     - {_summary(public()[name])}" for name in names
            ]
            lines += [_titled(title, "-"), _TABLE, *rows, ""]
            hidden = [f"   {_short(name)} <{name}>" for name in names]
            lines += [".. toctree::", "   :hidden:", f"   :caption: {title}", "", *hidden, ""]
    return texts | {"api/index.rst": "\n".join(lines)}


_INTRODUCTION = """\
All public names. The workbench is imported as ``import workbench as wb``; names of models are imported by
``from workbench.models import NGram``. Examples use what the docstring of the package makes:

.. code-block:: python

"""
_EXAMPLES = [line[4:] for line in (wb.__doc__ or "").splitlines() if line.startswith(">>> ")]
_INTRODUCTION += "\n".join(f"   {line}" for line in _EXAMPLES) + "\n"
_TABLE = ".. list-table::\n   :widths: 30 70\n   :class: wb-names\n"


def _short(name: str) -> str:
    """Return a name as users write it: ``wb.load``, ``models.NGram``."""
    *_, package, attribute = name.split(".")
    if name in _CALLED:
        return {"models": "wb.models"}.get(attribute, f"{_CALLED[name]}.{attribute}")
    return f"wb.{attribute}" if package == "workbench" else name.removeprefix("workbench.")


def _titled(title: str, line: str) -> str:
    return f"{title}\n{line * len(title)}\n"
