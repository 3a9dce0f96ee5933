"""The record of a training."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

from workbench.charts.models import training_curves
from workbench.training.history import HISTORY, NO_VALUE, Score, Training, minutes, short

NUMBERS = st.floats() | st.integers(0, 10**12)
ROWS = st.lists(st.dictionaries(st.sampled_from([*HISTORY, "accuracy", "perplexity"]), NUMBERS), max_size=4)


@given(ROWS, ROWS, st.lists(st.text()), st.text(), st.sampled_from([None, Path("a/b")]))
def test_json_there_and_back(history, scores, notes, name, folder):
    record = Training(
        name, folder, "cuda:0", 10**7, 12, history=history, scores=scores, notes=notes, stopped="early"
    )
    again = Training.from_json(json.loads(json.dumps(record.to_json(), allow_nan=False)))
    assert {**vars(again), "history": 0, "scores": 0} == {**vars(record), "history": 0, "scores": 0}
    np.testing.assert_equal([again.history, again.scores], [record.history, record.scores])  # nan is nan


def test_json_of_numpy_and_of_little():
    record = Training(history=[{"step": np.int64(3), "loss": np.float32(0.5)}])
    assert record.to_json()["history"] == [{"step": 3, "loss": 0.5}]
    assert Training.from_json({}) == Training()
    assert Training.from_json({"name": "x", "of a later version": 1}).name == "x"


@pytest.mark.parametrize("content", [[1], {"history": 3}, {"history": [3]}, {"steps": "many"}, {"folder": 3}])
def test_what_is_no_record_is_refused(content):
    refused(Training.from_json, content)


def test_frames():
    record = Training()
    assert list(record.to_frame()) == list(HISTORY)
    assert list(record.scores_frame()) == ["step", "tokens", "seconds"]
    record.history.append({"loss": 1.0, "step": 2, "more": 5})
    record.scores += [{"step": 2, "accuracy": 0.5}, {"step": 4, "perplexity": 9.0}]
    frame = record.to_frame()
    assert list(frame) == [*HISTORY, "more"]
    assert frame.step.tolist() == [2]
    expected = pd.DataFrame({"accuracy": [0.5, None], "perplexity": [None, 9.0]})
    pd.testing.assert_frame_equal(record.scores_frame()[["accuracy", "perplexity"]], expected)


def test_minutes_left_are_those_of_the_newest_pace():
    record = Training(steps=1000)
    assert math.isnan(record.minutes_left)
    record.history.append({"step": 100, "seconds": 60.0})
    assert record.minutes_left == pytest.approx(9)
    record.history += [{"step": 100 + k, "seconds": 60.0 + 6 * k} for k in range(1, 101)]  # ten times slower
    assert record.minutes_left == pytest.approx(800 * 6 / 60)
    assert record.minutes == pytest.approx(11)
    record.scores.append({"step": 300, "seconds": 700.0})
    assert record.last["step"] == 300
    record.stopped = "interrupted"
    assert record.minutes_left == 0


def test_the_best_row_is_the_one_that_was_chosen_by():
    scores = [
        {"step": 1, "tokens": 10, "accuracy": 0.3, "perplexity": 50.0},
        {"step": 2, "tokens": 20, "accuracy": 0.2, "perplexity": 40.0},
        {"step": 3, "tokens": 30, "accuracy": 0.1, "perplexity": math.nan},
    ]
    assert Training(scores=scores).best["step"] == 2
    assert Training(scores=scores, best_by="accuracy").best["step"] == 1
    assert Training(scores=scores, best_by="loss").best["step"] == 1  # the first that there is
    assert Training().best == {}
    record = Training("LSTM", device="cpu", steps=9, scores=scores)
    assert record.describe(scores[1]) == "perplexity 40, accuracy 20.0 %"
    assert record.facts()["best"] == "best perplexity 40, accuracy 20.0 % at 20 words"
    assert repr(record).startswith("<Training LSTM on cpu, step 3 of 9")


def test_what_a_name_says_of_a_score():
    assert Score.from_column("accuracy") == Score("accuracy", percent=True, log=False, higher=True)
    assert Score.from_column("median_rank") == Score("median rank", percent=False, log=True, higher=False)
    assert Score.from_column("control_perplexity").log
    assert Score.from_column("entropy").higher is None
    assert Score.from_column("accuracy").show(0.1834) == "18.3 %"
    assert Score.from_column("perplexity").show(math.inf) == NO_VALUE


def test_short_numbers():
    texts = [short(value) for value in (999.6, 999_950, 203e6, 0, 5.1234, math.nan)]
    assert texts == ["1k", "1M", "203M", "0", "5.12", NO_VALUE]


def test_minutes_in_words():
    texts = [minutes(value) for value in (0, 0.5, 0.9999, 3.21, 99.96, 2500, math.nan)]
    assert texts == ["0 s", "30 s", "1.0 min", "3.2 min", "100 min", "2,500 min", NO_VALUE]


def test_a_reader_counts_questions():
    record = Training(
        history=[{"step": 1, "tokens": 64, "seconds": 2.0, "loss": 1.0, "tokens_per_second": 32.0}],
        unit="questions",
    )
    facts = Training.from_json(record.to_json()).facts()
    assert (facts["words"], facts["speed"]) == ("64 questions", "32 questions/s")
    panels = training_curves(record.to_frame()).to_dict()["concat"]
    assert [panel["encoding"]["x"]["title"] for panel in panels] == ["questions trained on"] * 2
    assert panels[1]["encoding"]["y"]["title"] == "questions per second"
