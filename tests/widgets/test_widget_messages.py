"""States, traits and interrupts: a value that cannot be taken changes nothing, and the widget goes on."""

import json
from contextlib import suppress
from functools import cache

import pytest
from ask_models import Counting
from attentive import HEADS, Windows
from braced_items import clozes
from hypothesis import given, settings
from hypothesis import strategies as st
from random_predictions import annotated, listening, predicted
from traitlets import TraitError
from widget_cases import CASES

import workbench as wb
from workbench.evaluation.align import align
from workbench.storage.errors import DataError
from workbench.widgets.shared.widget import RefusedValueError

pytestmark = pytest.mark.usefixtures("home")

TEXTS = [
    "It rained . The dog said `` go '' . I fed the {dog}",
    "She did n't {run}",
    "It was dry . The {} ran",
]
ITEMS = clozes(*TEXTS)
SAMPLE = wb.load("sample", variant="capitalised")

WORDS = st.sampled_from(
    ["", "passage", "csv", "n_tokens", "-n_tokens", "target_class", "model 0", "only first", "tags",
     "x/dev/0", "none/dev/0", "n_tokens > 3", "n_tokens >", "(", "\\", "\ud800", "\0", "__class__", "NaN",
     "msrcc/built/a/000001-002", "w3", "w4", "w5", "w6", "w7", "poor sentence"]
)  # fmt: skip
NUMBERS = st.integers() | st.sampled_from([10**40, -1, 0, 1, 2**63]) | st.floats(allow_nan=False)
SCALARS = st.none() | st.booleans() | NUMBERS | WORDS | st.text(max_size=8)
KEYS = st.sampled_from(
    ["search", "field", "regex", "facets", "where", "sort", "current", "table", "tags",
     "n_tokens", "target_class", "pair", "hidden", "text", "other", "word",
     "candidates", "pairs"]
) | st.text(max_size=3)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


def browse():
    return wb.browse(ITEMS, annotated(ITEMS))


@cache
def compared():
    """Return what `compare` shows, made once."""
    return SAMPLE, predicted(SAMPLE, 2), annotated(SAMPLE)


def compare():
    return wb.compare(*compared(), resamples=20)


WIDGETS = {name: case.make for name, case in CASES.items()} | {
    "browse": browse,
    "explore": lambda: wb.explore(ITEMS, annotated(ITEMS)),
    "ask": lambda: wb.ask(Counting()),
    "compare": compare,
    "attention": lambda: wb.attention([Windows(), Windows("heads", HEADS)], ITEMS),
}
"""The widgets, some with more columns, models and rows than their small ones."""

TRAITS = {name: case.traits for name, case in CASES.items() if case.traits}


def heard(widget, message):
    """Return what is answered, as the page would read it: JSON in UTF-8, which knows no NaN."""
    widget.sent.clear()
    widget._handle_message(widget, message, [])
    return [
        json.loads(json.dumps(each, allow_nan=False, ensure_ascii=False).encode()) for each in widget.sent
    ]


def opened(widget):
    return [answer["type"] for answer in heard(widget, {"type": "open", "request": "open"})]


REFUSED = {"ask": {"text": "\ud800"}}


@pytest.mark.parametrize(("name", "state"), REFUSED.items())
def test_a_value_that_is_refused_is_taken_back(name, state):
    widget = listening(WIDGETS[name]())
    first, values = opened(widget), widget.get_state(list(state))
    with pytest.raises(RefusedValueError):
        widget.set_state(state)
    assert (opened(widget), widget.get_state(list(state))) == (first, values)
    widget.close()


@pytest.mark.parametrize("name", TRAITS)
@settings(max_examples=10)
@given(data=st.data())
def test_whatever_a_page_sets_the_widget_goes_on(name, data):
    widget = listening(WIDGETS[name]())
    first = opened(widget)
    names = st.sampled_from(TRAITS[name])
    for trait, value in data.draw(st.lists(st.tuples(names, VALUES), min_size=15, max_size=15)):
        with suppress(DataError, TraitError):  # which the kernel logs
            widget.set_state({trait: value})
    assert opened(widget) == first
    widget.saved.html()
    widget.close()


@pytest.mark.parametrize("name", ["browse", "explore", "compare", "attention"])
@settings(max_examples=20)
@given(data=st.data())
def test_whatever_a_state_is_set_to_it_is_whole_or_refused(name, data):
    widget = WIDGETS[name]()
    parts = [*widget.state, "facets"]
    for part, value in data.draw(st.lists(st.tuples(st.sampled_from(parts), VALUES), max_size=15)):
        before = widget.state
        try:
            widget.state = before | {part: value}
        except (ValueError, TypeError, AttributeError, TraitError):
            assert widget.state == before
        assert json.loads(json.dumps(widget.state)) == widget.state
    widget.state = dict(widget.state)
    widget.close()


@pytest.mark.parametrize("name", WIDGETS)
def test_an_interrupt_of_the_kernel_frees_the_request(name, monkeypatch):
    widget = listening(WIDGETS[name]())

    def interrupted(_message):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(widget, "_on_open", interrupted)
        (answer,) = heard(widget, {"type": "open", "request": "choose", "from": "a page"})
    expected = {
        "type": "error",
        "request": "choose",
        "from": "a page",
        "message": "the kernel was interrupted",
    }
    assert answer == expected
    assert "error" not in opened(widget)
    widget.close()


@pytest.mark.parametrize(
    "facets", [5, {"n_tokens": 5}, {"target_class": [["V"]]}, {"n_tokens": [10**400, None]}]
)
def test_filters_that_cannot_be_read_change_nothing(facets):
    widget = listening(browse())
    before = widget.state
    with pytest.raises((DataError, TypeError, AttributeError)):
        widget.state = before | {"facets": facets}
    assert widget.state == before
    assert opened(widget) == ["view"]
    (answer,) = heard(widget, {"type": "query", "state": {"facets": facets}})
    assert answer["type"] == "error"
    assert opened(widget) == ["view"]
    widget.close()


def test_runs_that_are_in_use_are_held_once():
    run = wb.predict(SAMPLE[:5], Counting())
    first, second = (align(SAMPLE[:5], run) for _ in range(2))
    assert first.tables[0] is second.tables[0]
