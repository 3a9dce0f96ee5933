import math
import signal
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import tiny_training as tiny
import torch
from refused import refused
from tiny_training import Counting, Recorded, Tiny, assert_close, equal, perplexity, settings, weights

from workbench.training import checkpoint, loop
from workbench.training.loop import train


@pytest.mark.parametrize(
    "holds",
    [
        tiny.it_learns_and_records_how,
        tiny.a_loss_that_is_not_finite_stops_it,
        tiny.it_continues_as_if_it_had_never_stopped,
    ],
)
def test_on_the_cpu(holds, tmp_path):
    holds("cpu", tmp_path)


class Watched(Tiny):
    """Remembers the state, and whether there was autocast, of each call."""

    def __init__(self):
        super().__init__()
        self.states, self.autocast = [], set()

    def forward(self, batch, state=None):
        self.states.append(state)
        self.autocast.add(torch.is_autocast_enabled("cpu"))
        return super().forward(batch, state)


def by_hand(network, batches, chosen):
    """Train by the formulas of AdamW; return the mean losses of five steps each."""
    state, losses = None, []
    parameters = list(network.parameters())
    means, squares = ([torch.zeros_like(weight) for weight in parameters] for _ in range(2))
    one, two = chosen.betas
    for step in range(chosen.steps):
        batch = {name: torch.from_numpy(values) for name, values in batches.batch(step).items()}
        loss, state = network(batch, state)
        state = tuple(values.detach() for values in state)
        network.zero_grad()
        loss.backward()
        losses.append(loss.item())
        if chosen.clip is not None:
            torch.nn.utils.clip_grad_norm_(network.parameters(), chosen.clip)
        with torch.no_grad():
            for weight, mean, square in zip(parameters, means, squares, strict=True):
                mean.copy_(one * mean + (1 - one) * weight.grad)
                square.copy_(two * square + (1 - two) * weight.grad**2)
                up = mean / (1 - one ** (step + 1))
                down = (square / (1 - two ** (step + 1))).sqrt() + 1e-8
                decay = chosen.weight_decay if weight.ndim > 1 else 0.0
                weight.sub_(chosen.rate(step) * (up / down + decay * weight))
    return [sum(losses[i : i + 5]) / 5 for i in range(0, chosen.steps, 5)]


@pytest.mark.parametrize(("clip", "decay"), [(None, 0.0), (0.1, 0.3)])
def test_it_does_what_the_formulas_say(clip, decay):
    chosen = settings(20, clip=clip, weight_decay=decay, warm_up=0.2)
    network, expected = Tiny(), Tiny()
    losses = by_hand(expected, Counting(), chosen)
    training = train(network, Counting(), chosen)
    assert_close(weights(network), weights(expected), 2e-6)
    assert [row["loss"] for row in training.history] == pytest.approx(losses, rel=1e-5)
    rates = [(row["step"], row["learning_rate"]) for row in training.history]
    assert rates == [(step, chosen.rate(step - 1)) for step in (5, 10, 15, 20)]


def test_without_carried_state_each_step_begins_anew():
    batches, network = Counting(), Watched()
    batches.carried = False
    train(network, batches, settings(4))
    assert network.states == [None] * len(network.states)


def test_the_users_random_numbers_stay_where_they_were():
    network = Tiny(dropout=0.5)
    before = torch.get_rng_state()
    train(network, Counting(), settings(2, evaluations=1), evaluate=perplexity)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_real_interrupt_ends_between_two_steps(tmp_path):
    before, progress = signal.getsignal(signal.SIGINT), Recorded()
    batches = Counting(before=tiny.interrupt_at(5))
    training = train(Tiny(), batches, settings(), folder=tmp_path, progress=progress)
    assert training.stopped == "interrupted"
    assert progress[-1] == (6, "interrupted")
    assert signal.getsignal(signal.SIGINT) is before
    state = checkpoint.newest(tmp_path)
    assert state.step == training.history[-1]["step"] == 6  # the step under way was ended
    assert state.info["training"]["stopped"] == "interrupted"


def test_an_evaluation_is_completed_unless_it_is_interrupted_twice(tmp_path):
    """The training continues with the same random numbers as if there had been no interrupt."""

    def once(network):
        signal.raise_signal(signal.SIGINT)
        return perplexity(network)

    def twice(_):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("the interrupt came too late")

    def run(network, evaluate, folder):
        chosen = settings(20, evaluations=2, keep="last")
        return train(network, Counting(), chosen, evaluate=evaluate, folder=folder)

    network, expected = Tiny(dropout=0.3), Tiny(dropout=0.3)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run(Tiny(), twice, tmp_path / "twice")
    finally:
        signal.signal(signal.SIGINT, before)
    training = run(network, once, tmp_path / "broken")
    assert (training.stopped, len(training.scores), network.training) == ("interrupted", 1, True)
    assert checkpoint.newest(tmp_path / "broken").step == 10
    network = Tiny(dropout=0.3, seed=8)
    training = run(network, perplexity, tmp_path / "broken")
    assert [row["step"] for row in training.scores] == [10, 20]
    run(expected, perplexity, tmp_path / "whole")
    assert equal(weights(network), weights(expected))


def test_in_another_thread_it_trains_as_well():
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(train, Tiny(), Counting(), settings(3)).result().stopped == "finished"


@pytest.mark.parametrize("interrupted", [(), (3, 70)])
def test_a_limit_in_minutes_is_one(interrupted, tmp_path, monkeypatch):
    """The first steps are fast and the later ones slow; evaluations take time, too."""
    now = [1000.0]
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: now[0]))
    interrupt, at = tiny.interrupt_at(*interrupted), []

    def before(step):
        now[0] += 0.1 if step < 10 else 1.0
        interrupt(step)

    def score(network):
        now[0] += 6.0
        return perplexity(network)

    chosen, seconds = settings(None, minutes=2, evaluations=3, log_every=1), 0.0
    for _ in range(len(interrupted) + 1):
        begun = now[0]
        training = train(Tiny(), Counting(before=before), chosen, evaluate=score, folder=tmp_path)
        seconds += now[0] - begun
        at.append(training.stopped)
        now[0] += 5000  # between two calls
    assert at == ["interrupted"] * len(interrupted) + ["finished"]
    assert 118 < seconds <= 120
    assert len(training.scores) == 3
    rates = [point["learning_rate"] for point in training.history]
    top = rates.index(max(rates))
    assert rates == sorted(rates[:top]) + sorted(rates[top:], reverse=True)
    assert rates[-1] == pytest.approx(0.1 * chosen.learning_rate, rel=0.05)
    assert training.steps == training.last["step"] == len(rates)


@pytest.mark.parametrize("keep", ["best", "last"])
def test_it_stops_early_and_keeps_the_best(tmp_path, keep):
    scores = iter([5.0, 3.0, math.nan, 3.0, 9.0, 1.0])
    seen = []

    def score(network):
        seen.append(weights(network))
        return {"perplexity": next(scores)}

    network = Tiny()
    chosen = settings(60, evaluations=6, patience=3, keep=keep)
    training = train(network, Counting(), chosen, evaluate=score, folder=tmp_path)
    assert training.stopped == "early"
    assert len(seen) == 5
    assert equal(weights(network), seen[1 if keep == "best" else 4])
    assert sorted(path.name for path in tmp_path.glob("step*")) == ["step-00000020", "step-00000050"]
    again = Tiny(seed=1)
    once_more = train(again, Counting(), chosen, evaluate=score, folder=tmp_path)
    assert once_more.stopped == "early"
    assert equal(weights(again), weights(network))
    assert len(seen) == 5


def test_a_missing_score_is_noted():
    training = train(Tiny(), Counting(), settings(4, evaluations=2), evaluate=lambda _: {"accuracy": 0.1})
    assert [note for note in training.notes if "'perplexity'" in note and "accuracy" in note]


def test_without_a_compiler_it_trains_uncompiled(monkeypatch):
    def compile_nothing(_):
        def call(*_):
            raise NotImplementedError("no compiler here\nand more")

        return call

    monkeypatch.setattr(loop.torch, "compile", compile_nothing)
    network, expected = Tiny(), Tiny()
    training = train(network, Counting(), settings(compile=True))
    train(expected, Counting(), settings(compile=False))
    assert equal(weights(network), weights(expected))
    assert [note for note in training.notes if "NotImplementedError: no compiler here)" in note]


@pytest.mark.parametrize("precision", ["bfloat16", None])
def test_half_precision_is_autocast(precision):
    network = Watched()
    train(network, Counting(), settings(4, precision=precision))
    assert network.autocast == {precision == "bfloat16"}
    assert {values.dtype for values in network.state_dict().values()} == {torch.float32}


def test_one_process_a_folder(tmp_path):
    def score(_):
        refused(train, Tiny(), Counting(), settings(4), folder=tmp_path)
        return {"perplexity": 1.0}

    chosen = settings(4, evaluations=1)
    assert train(Tiny(), Counting(), chosen, evaluate=score, folder=tmp_path).scores


@pytest.mark.parametrize(
    "change",
    [
        {"settings": settings(20, learning_rate=0.5)},
        {"batches": Counting(length=4)},
        {"network": Tiny(width=7)},
        {"key": "other"},
    ],
)
def test_a_folder_of_another_training_is_refused(tmp_path, change):
    options = {"network": Tiny(), "batches": Counting(), "settings": settings(20), "key": "first"}
    train(**options, folder=tmp_path)
    train(**{**options, "settings": settings(20, log_every=2, save_every=1)}, folder=tmp_path)
    caught = refused(train, **{**options, **change}, folder=tmp_path)
    assert "another folder" in caught.hint
