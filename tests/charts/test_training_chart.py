"""The curves of a training: numbers are read out of the specification."""

import math

import numpy as np
import pytest

from workbench.charts.models import training_curves, training_html
from workbench.training.history import Training

EVIL = "<img src=x onerror=alert(1)> & 'quoted'"


def trained(losses, scores=(), **options):
    history = [
        {"step": k, "tokens": 1000 * k, "seconds": float(k), "loss": loss, "tokens_per_second": 5.0}
        for k, loss in enumerate(losses, start=1)
    ]
    rows = [{"step": k, "tokens": 10 * k, "seconds": 1.0, **row} for k, row in enumerate(scores, start=1)]
    return Training("x", steps=len(losses), history=history, scores=rows, **options)


def panels(training):
    spec = training_curves(training.to_frame(), training.scores_frame()).to_dict()
    names = [
        "loss",
        "tokens_per_second",
        *training.scores_frame().columns.drop(["step", "tokens", "seconds"]),
    ]
    rows = [spec["datasets"][panel["data"]["name"]] for panel in spec["concat"]]
    points = [[(row["tokens"], row["value"]) for row in table] for table in rows]
    return dict(zip(names, zip(spec["concat"], points, strict=True), strict=True))


def test_the_curve_is_the_data_with_labelled_axes():
    panel, points = panels(trained([5.0, math.nan, math.inf, None, 3.5]))["loss"]
    assert points == [(1000, 5.0), (5000, 3.5)]  # what is not finite is left out
    assert panel["title"]["text"] == "training loss"
    assert panel["encoding"]["y"]["title"] == "nats per word"
    assert panel["encoding"]["x"]["title"] == "words trained on"


def test_a_single_point_is_drawn():
    (one, _), (two, _) = (panels(trained(losses))["loss"] for losses in ([5.0], [5.0, 4.0]))
    assert one["mark"]["point"]
    assert not two["mark"]["point"]


def test_each_score_has_the_axis_of_its_kind():
    result = panels(
        trained([5.0], [{"accuracy": 0.25, "perplexity": 90.0}, {"accuracy": 0.5, "perplexity": 0.0}])
    )
    panel, points = result["accuracy"]
    assert points == [(10, 25.0), (20, 50.0)]
    assert panel["encoding"]["y"]["title"] == "%"
    assert panel["encoding"]["y"]["scale"]["domain"] == [0, 52.5]  # never below 0
    panel, points = result["perplexity"]
    assert points == [(10, 90.0)]  # no logarithm of 0
    assert panel["encoding"]["y"]["scale"]["type"] == "log"


def test_a_long_history_is_averaged():
    losses = np.random.default_rng(0).random(6000)
    _, points = panels(trained(losses.tolist()))["loss"]
    assert len(points) == 150
    assert [loss for _, loss in points] == pytest.approx(losses.reshape(150, 40).mean(axis=1))


def test_html_has_numbers_curves_and_notes_escaped():
    training = trained([5.0, 4.0], notes=[EVIL])
    training.name = EVIL
    html = training_html(training)
    assert html.count("<svg") == 1
    assert "currentColor" in html  # light or dark as the page
    assert "loss 4.000" in html
    assert "<img" not in html
    assert html.count("onerror=alert(1)&gt;") == 2
    assert "<svg" not in training_html(Training("x", steps=9))
