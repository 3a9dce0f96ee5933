"""Predictions of any content: tables and views, or one DataError; a model's odd answer is its error."""

import json
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from patience import PATIENCE
from random_predictions import ask, listening, predicted

import workbench as wb
from workbench.runs import predictions
from workbench.storage.errors import DataError
from workbench.widgets.ask import asking

pytestmark = pytest.mark.usefixtures("home")

ITEMS = wb.load("sample", variant="capitalised")[:6]
FRAME = pd.concat(predicted(ITEMS, 3), ignore_index=True)

FLOATS = st.floats() | st.sampled_from([1e308, -1e308, 1e6, -0.0])
TEXTS = st.sampled_from(
    ["", "abc", "nan", "\ud800", "\0", "\U0001f600", "\u202b\u05d0\u05d1", "score", "log_prob"]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.sampled_from([2**63, 10**400]) | FLOATS | TEXTS
CELLS = SCALARS | st.lists(SCALARS, max_size=3) | st.lists(FLOATS, max_size=3).map(np.array)
CELLS |= st.sampled_from([pd.NA, pd.NaT, {}, {"a": 1}, {1}, b"x", 1j, [[1]], object()])
COLUMNS = st.sampled_from(predictions.COLUMNS)


def column(values, index):
    cells = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        cells[place] = value
    return pd.Series(cells, index=index, dtype=object)  # no text is made of it


@st.composite
def frames(draw):
    """Change predictions: cells, whole columns, columns that are missing or twice, rows that are twice."""
    frame = FRAME
    for name in draw(st.lists(COLUMNS, min_size=1, max_size=3, unique=True)):
        how = draw(st.sampled_from(["cell", "cell", "cell", "column", "drop", "twice", "row"]))
        if how == "drop":
            frame = frame.drop(columns=name)
        elif how == "twice":
            frame = pd.concat([frame, frame[[name]]], axis=1)
        elif how == "row":
            frame = pd.concat([frame, frame[:1]])
        elif how == "column":
            frame = frame.assign(**{name: column([draw(CELLS)] * len(frame), frame.index)})
        else:
            values = frame[name].tolist()
            values[draw(st.integers(0, len(values) - 1))] = draw(CELLS)
            frame = frame.assign(**{name: column(values, frame.index)})
    return frame


def shown(widget):
    """Show every item of a widget, as the page would read it, and close it."""
    listening(widget)
    kinds = [{"type": "open"}] + [{"type": "show", "index": n, "version": 1} for n in range(len(ITEMS))]
    sent = [answer for kind in kinds for answer in ask(widget, **kind)]
    json.dumps(sent, allow_nan=False, ensure_ascii=False).encode()
    assert "error" not in {answer["type"] for answer in sent}
    widget.saved.html()
    widget.to_frame()
    widget.close()


USES = {
    "check": lambda frame: predictions.check_predictions(frame, ITEMS),
    "evaluate": lambda frame: wb.evaluate(frame, items=ITEMS, resamples=10).to_html(),
    "leaderboard": lambda frame: wb.leaderboard([frame], resamples=10).to_html(),
    "hardest": lambda frame: wb.hardest(frame, ITEMS)._repr_html_(),
    "browse": lambda frame: shown(wb.browse(ITEMS, None, frame)),
    "compare": lambda frame: shown(wb.compare(ITEMS, frame, None, resamples=10)),
}


@pytest.mark.parametrize("name", USES)
@settings(max_examples=10)
@given(frame=frames())
def test_odd_predictions_are_used_or_refused(name, frame):
    USES[name](FRAME)
    with suppress(DataError):
        USES[name](frame)


@settings(max_examples=10)
@given(
    cells=st.dictionaries(st.sampled_from(asking.COLUMNS), CELLS, min_size=1, max_size=3),
    kind=st.sampled_from(["score", "log_prob"]),
)
def test_an_odd_answer_of_a_model_is_shown_or_is_its_error(cells, kind):
    class Odd:
        name = "odd"

        def predict(self, items, top_k=10, *, seed=0):
            del top_k, seed
            same = {"score_type": kind, "top_words": ["a", "b"], "top_log_probs": [-1.0, -2.0]}
            frame = pd.DataFrame({"item_id": items.frame["item_id"]})
            return frame.assign(
                **{k: column([v] * len(items), frame.index) for k, v in (same | cells).items()}
            )

    widget = listening(wb.ask(Odd(), candidates="a|b|c"))
    for text in ("The dog ran. She fed the dog", "It rained. The man saw the dog"):
        widget.text = text
        widget.wait(PATIENCE)
        json.dumps(widget.sent, allow_nan=False, ensure_ascii=False).encode()
        widget.sent.clear()
    widget.to_frame()
    widget.to_html()
    assert [answer["type"] for answer in ask(widget, type="open")] == ["asked", "history"]
    widget.close()
