"""A network with carried state and dropout, batches for it, and what holds of its training on any device."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from workbench.items.schema import DataError
from workbench.training import checkpoint
from workbench.training.loop import train
from workbench.training.settings import Settings

torch.set_num_threads(1)  # several tests share few processors

WORDS = 11


class Tiny(nn.Module):
    """A recurrent network with tied weights: its embedding is its softmax."""

    def __init__(self, dropout=0.0, width=6, most=None, bad=None, seed=3):
        super().__init__()
        torch.manual_seed(seed)
        self.embedding = nn.Embedding(WORDS, width)
        self.cell = nn.GRU(width, width, batch_first=True)
        self.output = nn.Linear(width, WORDS)
        self.output.weight = self.embedding.weight
        self.dropout = nn.Dropout(dropout)
        self.most, self.bad = most, bad  # rows beyond which there is no memory; the step that is not a number

    def forward(self, batch, state=None):
        ids = batch["ids"]
        if self.most is not None and len(ids) > self.most:
            raise torch.OutOfMemoryError(f"no room for {len(ids)} rows")
        first = None if state is None else state[0].transpose(0, 1).contiguous()
        hidden, last = self.cell(self.dropout(self.embedding(ids[:, :-1])), first)
        logits = self.output(self.dropout(hidden))
        loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten())
        if self.bad is not None:
            loss = loss * torch.where((batch["step"] == self.bad).any(), torch.nan, 1.0)
        return loss, (last.transpose(0, 1).contiguous(),)


class Counting:
    """Words that count up in each row, by 1, 2 or 3, so that there is something to learn."""

    carried = True
    steps = 10

    def __init__(self, rows=8, length=5, before=None):
        self.rows, self.length, self.tokens, self.before = rows, length, rows * length, before

    def batch(self, step, rows=None):
        if self.before is not None:
            self.before(step)
        mine = np.arange(self.rows)[rows or slice(None)][:, None]
        place = step * self.length + np.arange(self.length + 1)[None]
        ids = (mine + place * (1 + mine % 3)) % WORDS
        return {"ids": ids.astype(np.int64), "step": np.full(len(mine), step)}


def perplexity(network):
    """Give the perplexity of a batch, and disturb the random numbers."""
    torch.rand(3)
    assert not network.training
    device = network.embedding.weight.device
    batch = {name: torch.from_numpy(values).to(device) for name, values in Counting().batch(1000).items()}
    return {"perplexity": float(network(batch)[0].exp())}


class Told:
    """A watch that remembers what it was told."""

    def __init__(self):
        self.said, self.steps, self.begun, self.ended = [], 0, [], []

    def begin(self, _training, step):
        self.begun.append(step)

    def step(self, n=1):
        self.steps += n

    def told(self, _training):
        pass

    def say(self, text):
        self.said.append(text)

    def end(self, training):
        self.ended.append(training.stopped)


def settings(steps=20, **more):
    given = {
        "learning_rate": 0.02,
        "evaluations": 0,
        "log_every": 5,
        "compile": False,
        "precision": "float32",
    }
    return Settings(steps=steps, **{**given, **more})


def weights(network):
    return {name: values.detach().cpu().clone() for name, values in network.state_dict().items()}


def equal(one, other):
    return set(one) == set(other) and all(torch.equal(one[name], other[name]) for name in one)


def assert_close(one, other, tolerance=1e-6):
    assert set(one) == set(other)
    for name in one:
        torch.testing.assert_close(one[name], other[name], rtol=0, atol=tolerance)


# What holds on any device; the tests of the CPU and those of the GPU call the same.


def it_learns_and_tells_how(device, folder, **more):
    network, told = Tiny(), Told()
    chosen = settings(150, evaluations=3, **more)
    training = train(
        network,
        Counting(),
        chosen,
        evaluate=perplexity,
        folder=folder,
        device=device,
        watch=told,
        name="Tiny",
    )
    assert training.stopped == "finished"
    assert told.ended == ["finished"]
    assert told.begun == [0]
    assert told.steps == 150
    assert told.said[0] == training.fits
    assert training.device == str(next(network.parameters()).device)
    frame = training.to_frame()
    assert frame["step"].iloc[-1] == 150
    assert (frame["tokens"] == 40 * frame["step"]).all()
    assert frame["seconds"].is_monotonic_increasing
    assert frame["loss"].iloc[-1] < 0.5 * frame["loss"].iloc[0]
    assert [row["step"] for row in training.scores] == [50, 100, 150]
    with torch.no_grad():
        last = perplexity(network.eval())
    assert last["perplexity"] == pytest.approx(min(row["perplexity"] for row in training.scores), rel=1e-4)


def it_stops_where_a_number_is_none(device, folder, tolerance=0.0, **more):
    """The weights are those before the bad step, in memory and on disk."""
    chosen = settings(40, schedule="constant", **more)
    short, network, told = Tiny(), Tiny(bad=7), Told()
    stopping = Counting(before=stopped_at(7))
    assert train(short, stopping, chosen, device=device).stopped == "interrupted"
    with pytest.raises(DataError, match=r"step 8 \(320 words\): the loss and the gradient of emb") as caught:
        train(network, Counting(), chosen, device=device, folder=folder, watch=told)
    assert "lower learning rate than 0.02" in caught.value.remedy
    assert str(folder / "step-00000007") in caught.value.remedy
    assert told.ended == ["not a number"]
    assert_close(weights(network), weights(short), tolerance)
    found = checkpoint.newest(folder)
    assert found.step == 7
    assert equal(found.weights, weights_once(network))
    assert all(values.isfinite().all() for values in found.rest.values() if values.is_floating_point())
    with pytest.raises(DataError, match="step 8 "):  # with the same settings it comes to the same
        train(Tiny(bad=7), Counting(), chosen, device=device, folder=folder)


def stopped_at(*steps):
    """Give what interrupts once at each of some steps, before they are computed."""
    left = set(steps)

    def stop(step):
        if step in left:
            left.remove(step)
            raise KeyboardInterrupt

    return stop


def weights_once(network):
    return {name: values.detach().cpu().clone() for name, values in checkpoint.weights(network).items()}


def out_of_memory_changes_nothing_but_the_pieces(device, tolerance=1e-5):
    whole, told = Tiny(), Told()
    train(whole, Counting(), settings(), device=device)
    pieces = Tiny(most=2)
    training = train(pieces, Counting(), settings(), device=device, watch=told)
    assert_close(weights(pieces), weights(whole), tolerance)
    halved = [note for note in training.notes if "rows at a time now" in note]
    assert [note.split(": ")[1].split(" ")[0] for note in halved] == ["4", "2"]
    assert set(halved) <= set(told.said)


def it_goes_on_as_if_it_had_never_stopped(device, folder, tolerance=0.0):
    """Interrupted at a few steps; with dropout, carried state and evaluations in between."""

    def goes(network, batches, place):
        return train(
            network, batches, settings(24, evaluations=4), evaluate=perplexity, folder=place, device=device
        )

    whole = Tiny(dropout=0.3)
    assert goes(whole, Counting(), folder / "whole").stopped == "finished"
    stop = stopped_at(5, 12, 17)
    networks = [Tiny(dropout=0.3), *(Tiny(dropout=0.3, seed=seed) for seed in (7, 8))]  # begun anew each time
    done = [goes(network, Counting(before=stop), folder / "pieces") for network in networks]
    assert [training.stopped for training in done] == ["interrupted"] * 3
    last = Tiny(dropout=0.3, seed=9)
    training = goes(last, Counting(), folder / "pieces")
    assert training.stopped == "finished"
    assert_close(weights(last), weights(whole), tolerance)
    assert [row["step"] for row in training.scores] == [6, 12, 18, 24]
    steps = [row["step"] for row in training.history]
    assert all(a < b for a, b in pairwise(steps))
