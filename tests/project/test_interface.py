"""The public interface, what a notebook written today counts on, compared with ``interface.txt`` beside this.

``python tests/project/test_interface.py`` writes the file anew.
"""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import workbench as wb
from workbench.models.base import Predictor
from workbench.models.registry import BUILT_IN, model_class
from workbench.widgets.ask.ask import Ask
from workbench.widgets.attention.attention import AttentionView
from workbench.widgets.browser.browser import Browser
from workbench.widgets.compare.compare import Compare
from workbench.widgets.explore.explore import Explorer

FILE = Path(__file__).parent / "interface.txt"
WIDGETS = {
    "browse": Browser, "explore": Explorer, "compare": Compare, "ask": Ask, "attention": AttentionView,
}  # fmt: skip


def shape(thing):
    """Return the parameters without their types."""
    parameters = [p.replace(annotation=p.empty) for p in inspect.signature(thing).parameters.values()]
    return re.sub(r" at 0x\w+", "", str(inspect.Signature(parameters)))


def members(owner):
    """Return the public members that a class, or one between it and `Predictor`, defines, with signatures."""
    held = dict(vars(owner))
    if issubclass(owner, Predictor) and owner is not Predictor:
        bases = owner.__mro__[: owner.__mro__.index(Predictor)]
        held = {name: value for base in reversed(bases) for name, value in vars(base).items()}
    lines = []
    for name, value in sorted(held.items()):
        if name.startswith("_") or inspect.isclass(value):
            continue
        if isinstance(value, property) or type(value).__name__ == "cached_property":
            lines.append(f"  .{name}")
        elif callable(value) or isinstance(value, classmethod | staticmethod):
            lines.append(f"  .{name}{shape(getattr(owner, name))}")
    return lines


def public():
    """Yield every public thing with its name."""
    registered = {model_class(name).__name__ for name in BUILT_IN}
    for name in sorted(wb.__all__):
        thing = getattr(wb, name)
        yield name, thing
        if inspect.ismodule(thing):
            names = [inner for inner in getattr(thing, "__all__", ()) if inner not in registered]
            yield from ((f"{name}.{inner}", getattr(thing, inner)) for inner in sorted(names))
    yield from ((f"{name}() -> {kind.__name__}", kind) for name, kind in WIDGETS.items())
    yield "models: Predictor", Predictor
    yield from (
        (f"models: {name} = {model_class(name).__name__}", model_class(name)) for name in sorted(BUILT_IN)
    )


def interface():
    """Return the public interface as text: names, parameters, public members of classes."""
    lines = []
    for name, thing in public():
        lines.append(name + (shape(thing) if callable(thing) and name != "charts" else ""))
        if inspect.isclass(thing):
            lines += members(thing)
            traits = thing.class_own_traits() if hasattr(thing, "class_own_traits") else ()
            lines += [f"  .{trait} (trait)" for trait in sorted(traits) if not trait.startswith("_")]
    return "\n".join(lines) + "\n"


def test_the_interface_is_what_it_was():
    assert interface() == FILE.read_text(encoding="utf-8"), (
        "if this is meant, run python tests/project/test_interface.py"
    )


def test_all_of_it_is_documented():
    for name, thing in public():
        assert (thing.__doc__ or "").strip(), name
        assert not thing.__doc__.startswith(f"{getattr(thing, '__name__', '')}("), name
    assert dir(wb) == sorted(wb.__all__)
    assert wb.__version__


@pytest.mark.parametrize("name", ["Loader", "_nothing", "spacy", "pd"])
def test_an_unknown_name_is_an_attribute_error(name):
    with pytest.raises(AttributeError, match=name):
        getattr(wb, name)


def test_a_name_can_be_the_first_that_is_imported():
    subprocess.run([sys.executable, "-c", "from workbench import browse; assert browse.__doc__"], check=True)


if __name__ == "__main__":
    FILE.write_text(interface(), encoding="utf-8")
