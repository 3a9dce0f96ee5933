"""A network with carried state and dropout, batches for it, and what holds of its training on any device."""

import gc
import signal

import numpy as np
import pytest
import torch
from torch import nn

from workbench.storage.errors import DataError
from workbench.training import checkpoint
from workbench.training.loop import train
from workbench.training.settings import TrainingSettings

torch.set_num_threads(1)  # several tests share few processors
gc.freeze()  # each training collects garbage once: 0.2 s with all of torch to look through

WORDS = 11
IDS, WIDTH = 40, 6


class Tiny(nn.Module):
    """A recurrent network with tied weights: its embedding is its softmax."""

    def __init__(self, dropout=0.0, width=6, bad=None, seed=3):
        super().__init__()
        torch.manual_seed(seed)
        self.embedding = nn.Embedding(WORDS, width)
        self.cell = nn.GRU(width, width, batch_first=True)
        self.output = nn.Linear(width, WORDS)
        self.output.weight = self.embedding.weight
        self.dropout = nn.Dropout(dropout)
        self.bad = bad  # the step that is not a number

    def forward(self, batch, state=None):
        ids = batch["ids"]
        first = None if state is None else state[0].transpose(0, 1).contiguous()
        hidden, last = self.cell(self.dropout(self.embedding(ids[:, :-1])), first)
        logits = self.output(self.dropout(hidden))
        loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten())
        if self.bad is not None:
            loss = loss * torch.where((batch["step"] == self.bad).any(), torch.nan, 1.0)
        return loss, (last.transpose(0, 1).contiguous(),)


class Counting:
    """Words that count up in each row, by 1, 2 or 3, so that there is something to learn."""

    carried, unit = True, "words"
    steps = 10

    def __init__(self, rows=8, length=5, before=None):
        self.rows, self.length, self.tokens, self.before = rows, length, rows * length, before

    def batch(self, step, rows=None):
        if self.before is not None:
            self.before(step)
        row = np.arange(self.rows)[rows or slice(None)][:, None]
        place = step * self.length + np.arange(self.length + 1)[None]
        ids = (row + place * (1 + row % 3)) % WORDS
        return {"ids": ids.astype(np.int64), "step": np.full(len(row), step)}


def perplexity(network):
    """Give the perplexity of a batch, and disturb the random numbers."""
    torch.rand(3)
    assert not network.training
    device = network.embedding.weight.device
    batch = {name: torch.from_numpy(values).to(device) for name, values in Counting().batch(1000).items()}
    return {"perplexity": float(network(batch)[0].exp())}


class Recorded(list):
    """Progress that remembers the step and the state of each call."""

    def __call__(self, training):
        self.append((training.last.get("step", 0), training.stopped))


def settings(steps=20, **options):
    defaults = {
        "device": "cpu", "learning_rate": 0.02, "evaluations": 0, "log_every": 5, "compile": False,
        "precision": "float32",
    }  # fmt: skip
    return TrainingSettings(steps=steps, **{**defaults, **options})


def weights(network):
    return {name: values.detach().cpu().clone() for name, values in network.state_dict().items()}


def equal(one, other):
    return set(one) == set(other) and all(torch.equal(one[name], other[name]) for name in one)


def assert_close(one, other, tolerance=1e-6):
    assert set(one) == set(other)
    for name in one:
        torch.testing.assert_close(one[name], other[name], rtol=0, atol=tolerance)


# What holds on any device; the tests of the CPU and those of the GPU call the same.


def it_learns_and_records_how(device, folder, **options):
    network, progress = Tiny(), Recorded()
    chosen = settings(150, evaluations=3, device=device, **options)
    training = train(
        network, Counting(), chosen, evaluate=perplexity, folder=folder, progress=progress, name="Tiny"
    )
    assert training.stopped == "finished"
    assert progress == [(step, "") for step in range(0, 150, 5)] + [(150, "finished")] * 2
    assert training.device == str(next(network.parameters()).device)
    assert training.parameters == sum(weight.numel() for weight in network.parameters())
    frame = training.to_frame()
    assert frame["step"].iloc[-1] == 150
    assert (frame["tokens"] == 40 * frame["step"]).all()
    assert frame["seconds"].is_monotonic_increasing
    assert frame["loss"].iloc[-1] < 0.5 * frame["loss"].iloc[0]
    assert [row["step"] for row in training.scores] == [50, 100, 150]
    with torch.no_grad():
        last = perplexity(network.eval())
    assert last["perplexity"] == pytest.approx(min(row["perplexity"] for row in training.scores), rel=1e-4)


def a_loss_that_is_not_finite_stops_it(device, folder, **options):
    """No checkpoint has weights of the bad step, or of later ones."""
    chosen = settings(40, schedule="constant", device=device, **options)
    progress = Recorded()
    train(Tiny(bad=7), Counting(before=interrupt_at(3)), chosen, folder=folder)
    with pytest.raises(DataError, match=r"step 8 \(320 words\)") as caught:
        train(Tiny(bad=7), Counting(), chosen, folder=folder, progress=progress)
    assert "lower learning rate than 0.02" in caught.value.hint
    assert progress[-1][1] == "error"
    state = checkpoint.newest(folder)
    assert state.step == 4
    moments = [values for kind in state.state["optimiser"]["state"].values() for values in kind.values()]
    tensors = [*state.weights.values(), *moments, *state.state["carried"]]
    assert all(values.isfinite().all() for values in tensors)
    with pytest.raises(DataError, match="step 8 "):  # with the same settings it comes to the same
        train(Tiny(bad=7), Counting(), chosen, folder=folder)


def interrupt_at(*steps):
    """Press Ctrl-C once in each of some steps, which are still completed."""
    left = set(steps)

    def interrupt(step):
        if step in left:
            left.remove(step)
            signal.raise_signal(signal.SIGINT)

    return interrupt


def it_continues_as_if_it_had_never_stopped(device, folder, tolerance=0.0):
    """Interrupted in a few steps; with dropout, carried state and evaluations in between."""

    def run(seed, place, before=None):
        network, chosen = Tiny(dropout=0.3, seed=seed), settings(24, evaluations=4, device=device)
        training = train(network, Counting(before=before), chosen, evaluate=perplexity, folder=folder / place)
        return weights(network), training

    expected, training = run(3, "whole")
    assert training.stopped == "finished"
    interrupt = interrupt_at(4, 11, 16)  # with other first weights each time
    assert [run(seed, "pieces", interrupt)[1].stopped for seed in (3, 7, 8)] == ["interrupted"] * 3
    last, training = run(9, "pieces")
    assert training.stopped == "finished"
    assert_close(last, expected, tolerance)
    assert [row["step"] for row in training.scores] == [6, 12, 18, 24]
    steps = [row["step"] for row in training.history]
    assert steps == sorted(set(steps))


class Bags(nn.Module):
    """The sum of some rows predicts the next one; its gradient is sparse or dense."""

    def __init__(self, *, sparse=True, seed=3, bad=None):
        super().__init__()
        torch.manual_seed(seed)
        self.rows = nn.Embedding(IDS, WIDTH, sparse=sparse)
        self.unused = nn.Embedding(5, WIDTH, sparse=sparse)
        self.output = nn.Linear(WIDTH, IDS)
        self.bad = bad

    def forward(self, batch, state=None):
        logits = self.output(self.rows(batch["ids"]).sum(1))
        loss = nn.functional.cross_entropy(logits, batch["ids"][:, 0])
        if self.bad is not None:
            loss = loss * torch.where((batch["step"] == self.bad).any(), torch.nan, 1.0)
        return loss, state


class Draws:
    """Rows of a few ids, some of them twice; other ones occur in each step."""

    carried, unit, steps, rows, tokens = False, "words", 10, 8, 8

    def __init__(self, before=lambda _step: None):
        self.before = before

    def batch(self, step, rows=None):
        self.before(step)
        ids = np.random.default_rng(step).integers(0, 9, (self.rows, 3)) + 7 * (step % 4)
        return {"ids": ids[rows or slice(None)], "step": np.full(self.rows, step)[rows or slice(None)]}
