"""The record of a training."""

import json
import math
from dataclasses import asdict

import pandas as pd
import pytest

from workbench.charts.models import training_curves
from workbench.training.history import HISTORY, Training


def point(step, seconds=1.0, **scores):
    return {"step": step, "tokens": 10 * step, "seconds": seconds, **scores}


def test_json_holds_it():
    scores = [point(1, perplexity=math.inf)]
    record = Training("LSTM", "cuda:0", 10**7, 12, scores=scores, notes=["a"], stopped="early")
    assert Training(**json.loads(json.dumps(asdict(record)))) == record


def test_frames():
    record = Training()
    assert list(record.to_frame()) == list(HISTORY)
    assert list(record.scores_frame()) == ["step", "tokens", "seconds"]
    record.history.append({"loss": 1.0, "step": 2})
    record.scores += [{"step": 2, "accuracy": 0.5}, {"step": 4, "perplexity": 9.0}]
    frame = record.to_frame()
    assert list(frame) == list(HISTORY)
    assert frame.step.tolist() == [2]
    expected = pd.DataFrame({"accuracy": [0.5, None], "perplexity": [None, 9.0]})
    pd.testing.assert_frame_equal(record.scores_frame()[["accuracy", "perplexity"]], expected)


def test_the_time_left_is_that_at_the_newest_pace():
    record = Training(steps=1000)
    assert math.isnan(record.seconds_left)
    record.history.append(point(100, 60.0, loss=5.0, tokens_per_second=1234.5))
    assert record.seconds_left == pytest.approx(9 * 60)
    assert record.facts()["time"] == "01:00, 09:00 left"
    record.history += [point(100 + k, 60.0 + 6 * k, loss=5.0, tokens_per_second=7.0) for k in range(1, 101)]
    assert record.seconds_left == pytest.approx(800 * 6)  # ten times slower
    record.scores.append(point(300, 700.0, accuracy=0.5))
    assert record.last["step"] == 300
    record.stopped = "interrupted"
    assert record.facts()["time"] == "11:40"


def test_the_best_row_is_the_one_that_was_chosen_by():
    scores = [
        point(1, accuracy=0.3, perplexity=50.0),
        point(2, accuracy=0.2, perplexity=40.0),
        point(300, accuracy=0.1, perplexity=math.nan),
    ]
    assert Training(scores=scores).best["step"] == 2
    assert Training(scores=scores, best_by="accuracy").best["step"] == 1
    assert Training(scores=scores, best_by="loss").best["step"] == 1  # the first that there is
    assert Training().best == {}
    record = Training("LSTM", device="cpu", steps=900, scores=scores)
    assert record.describe(scores[1]) == "perplexity 40, accuracy 20.0 %"
    assert record.facts()["best"] == "best perplexity 40, accuracy 20.0 % at 20 words"
    assert record.facts()["words"] == "3,000 words"
    assert repr(record).startswith("<Training LSTM on cpu, step 300 of 900, 3,000 words")


def test_a_reader_counts_questions():
    record = Training(history=[point(1, 2.0, loss=1.0, tokens_per_second=32.0)], unit="questions")
    facts = record.facts()
    assert (facts["words"], facts["speed"]) == ("10 questions", "32 questions/s")
    panels = training_curves(record.to_frame()).to_dict()["concat"]
    assert [panel["encoding"]["x"]["title"] for panel in panels] == ["questions trained on"] * 2
    assert panels[1]["encoding"]["y"]["title"] == "questions per second"
