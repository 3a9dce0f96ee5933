"""Closed widgets leave nothing behind: no object, no widget of the front end, no thread, no timer."""

import gc
import threading
import weakref
from tempfile import mkdtemp

import pytest
from ask_models import Counting
from attentive import Windows
from grooming_questions import questions
from ipywidgets.widgets import widget as ipywidgets_widget
from made_predictions import items_of, made

import workbench as wb
from workbench.storage.errors import DataError
from workbench.widgets.shared.widget import Widget

pytestmark = pytest.mark.slow
FRAMES = [made(12, seed=k).assign(model=f"model {k}") for k in range(2)]
ITEMS = items_of(FRAMES[0])
GAMES = mkdtemp()
OPEN = {
    "browse": lambda: wb.browse(ITEMS),
    "browse and annotate": lambda: wb.browse(ITEMS, annotations="auto"),
    "explore": lambda: wb.explore(ITEMS),
    "ask": lambda: wb.ask([Counting()], "The keeper saw the boat and the keeper"),
    "compare": lambda: wb.compare(ITEMS, FRAMES, None, resamples=10),
    "attention": lambda: wb.attention(Windows(), ITEMS),
    "groom": lambda: wb.groom(questions()),
    "guess": lambda: wb.guess(ITEMS, path=f"{GAMES}/game.db", runs=FRAMES),
}


REFUSED = {
    "browse": lambda: wb.browse(ITEMS, facets={"colour": ["red"]}),
    "facets": lambda: wb.browse(ITEMS, facets=5),
    "explore": lambda: wb.explore(ITEMS, wb.annotate(ITEMS), columns=["colour"]),
    "ask": lambda: wb.ask([Counting()], 5),
    "candidates": lambda: wb.ask([Counting()], candidates=5),
    "compare": lambda: wb.compare(ITEMS, FRAMES, None, resamples=10, pair=5),
    "attention": lambda: wb.attention(Windows(), ITEMS, row="none"),
    "groom": lambda: wb.groom(questions(), current="none"),
    "guess": lambda: wb.guess(ITEMS, "chess"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_widget_that_is_refused_is_kept_by_nobody(name):
    before = set(ipywidgets_widget._instances)
    with pytest.raises(DataError):
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
