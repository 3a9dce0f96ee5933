"""Closed widgets leave nothing behind: no object, no widget of the front end, no thread, no timer."""

import gc
import threading
import weakref

import pytest
from ask_models import Counting
from ipywidgets.widgets import widget as ipywidgets_widget
from widget_cases import CASES, ITEMS

import workbench as wb
from workbench.storage.errors import DataError
from workbench.widgets.shared.widget import Widget

OPEN = {name: case.make for name, case in CASES.items()} | {
    "browse and annotate": lambda: wb.browse(ITEMS, annotations="auto"),
}
REFUSED = {name: case.refuse for name, case in CASES.items()} | {
    "facets": lambda: wb.browse(ITEMS, state={"facets": 5}),
    "candidates": lambda: wb.ask([Counting()], candidates=5),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_widget_that_is_refused_is_kept_by_nobody(name):
    before = set(ipywidgets_widget._instances)
    with pytest.raises((DataError, TypeError)):
        REFUSED[name]()
    assert set(ipywidgets_widget._instances) <= before


def test_every_widget_is_opened():
    def below(cls):
        return {one for sub in cls.__subclasses__() for one in (sub, *below(sub))}

    opened = set()
    for make in OPEN.values():
        widget = make()
        opened |= {type(part) for part in (widget, *getattr(widget, "children", ()))}
        widget.close()
    kinds = {f"{kind.__module__}.{kind.__name__}" for kind in below(Widget)}
    names = {f"{base.__module__}.{base.__name__}" for kind in opened for base in kind.__mro__}
    assert {kind for kind in kinds if kind.startswith("workbench.")} <= names


@pytest.mark.parametrize("name", OPEN)
def test_several_that_are_opened_and_closed_are_gone(name, capsys):
    widget = OPEN[name]()
    widget._ipython_display_()
    widget.close()  # what the first one loads stays
    del widget
    gc.collect()
    gc.freeze()  # the collection below looks at what is made from here on
    before, threads, dead = set(ipywidgets_widget._instances), set(threading.enumerate()), []
    for _ in range(3):  # what one of them leaves, or the one before, is there after any number
        widget = OPEN[name]()
        widget._ipython_display_()
        parts = [widget, *getattr(widget, "children", ())]
        dead += [weakref.ref(each) for part in parts for each in (part, getattr(part, "saved", None)) if each]
        for part in parts:
            if isinstance(part, Widget):
                part.saved.schedule_update()
        widget.close()
        del widget, parts, part
    capsys.readouterr()
    any(thread.join(30) for thread in set(threading.enumerate()) - threads)  # no name that keeps one
    assert set(threading.enumerate()) <= threads
    gc.collect()
    assert not [ref() for ref in dead if ref() is not None]
    assert set(ipywidgets_widget._instances) <= before
