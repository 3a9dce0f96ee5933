"""Words a second in training: our LSTM, beside PyTorch's example of a word language model.

    python benchmarks/training.py [--stream FOLDER] [--device cuda] [--steps 60] [--rows 256] [--length 64]

It needs torch, numpy, pandas, pyarrow and this package; no other data than the folder of a
corpus (`Corpus.of`), or none: words that are made up have Zipf's frequencies. Without a GPU all sizes are
small.

- ours: one layer of 512 over 60,000 words, full softmax, trained by `workbench.training.loop` (on a GPU:
  bfloat16, compiled).
- example: the word language model among PyTorch's examples, written anew at the same sizes: `nn.LSTM`, a
  linear decoder, `log_softmax` and `NLLLoss`, plain gradient descent with clipping, `loss.item()` at each
  step; at its own batch of 20 x 35 words, at ours, and on a GPU at ours with bfloat16.
"""

from __future__ import annotations

import argparse
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from _report import Row, tell
from torch import Tensor, nn
from torch.nn import functional

from workbench.models.neural.network import class_ids
from workbench.models.neural.recurrent import RecurrentModule
from workbench.texts.batches import ContiguousBatches, EncodedText
from workbench.texts.corpus import Corpus
from workbench.training.loop import train
from workbench.training.settings import TrainingSettings, torch_device

GOAL = 2.0  # times the example, on a GPU


class MadeUp:
    """Words drawn by Zipf's law, with the part of a stream's interface that batches need."""

    def __init__(self, n_words: int, n_tokens: int) -> None:
        rank = np.arange(1, n_words + 1)
        share = 1 / rank / (1 / rank).sum()
        self.ids = np.random.default_rng(0).choice(n_words, n_tokens, p=share).astype(np.int64)
        self.counts = np.bincount(self.ids, minlength=n_words)
        self.n_words, self.n_tokens, self.unknown_types = n_words, n_tokens, n_words

    def at(self, places: np.ndarray) -> np.ndarray:
        """Return the ids at some places."""
        return cast("np.ndarray", self.ids[places])


class Example(nn.Module):
    """The word language model of PyTorch's examples, time first."""

    def __init__(self, n_words: int, width: int) -> None:
        super().__init__()
        self.encoder, self.rnn = nn.Embedding(n_words, width), nn.LSTM(width, width)
        self.decoder = nn.Linear(width, n_words)
        for weight in (self.encoder.weight, self.decoder.weight):
            nn.init.uniform_(weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Return ln p of all words at all places, shape (time * rows, n_words)."""
        output, state = self.rnn(self.encoder(ids), state)
        return functional.log_softmax(self.decoder(output).flatten(0, 1), dim=1), state


def example(stream: EncodedText, size: argparse.Namespace, rows: int, length: int, *, half: bool) -> float:
    """Train the example; return words a second."""
    torch.manual_seed(0)
    device = size.device
    model, criterion = Example(stream.n_words, size.width).to(device), nn.NLLLoss()
    batches, state, total, begun = ContiguousBatches(stream, rows=rows, length=length), None, 0.0, 0.0
    text = [torch.as_tensor(batches.batch(step)["ids"]).t().to(device) for step in range(size.steps)]
    for step, batch in enumerate(text):  # (length + 1, rows); its data lie on the device from the start
        if step == size.steps // 3:
            begun = time.perf_counter()
        ids = class_ids(batch, stream.n_words)
        model.zero_grad()
        if state is not None:
            state = tuple(part.detach() for part in state)
        with torch.autocast(device.type, dtype=torch.bfloat16) if half else nullcontext():
            output, state = model(ids[:-1], state)
            loss = criterion(output, ids[1:].reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        for p in model.parameters():
            assert p.grad is not None
            p.data.add_(p.grad, alpha=-1.0)
        total += loss.item()
    return float((size.steps - size.steps // 3) * rows * length / (time.perf_counter() - begun))


def ours(stream: EncodedText, size: argparse.Namespace) -> float:
    """Train by our loop; return words a second."""
    torch.manual_seed(0)
    network = RecurrentModule(stream.counts.tolist(), width=size.width, softmax="full")
    batches = ContiguousBatches(stream, rows=size.rows, length=size.length)
    settings = TrainingSettings(
        steps=size.steps, log_every=size.steps // 3, evaluations=0, keep="last", device=str(size.device)
    )
    history = train(network, batches, settings).history
    first, last = history[0], history[-1]
    return float((last["tokens"] - first["tokens"]) / (last["seconds"] - first["seconds"]))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--stream", help="folder of a corpus")
    parser.add_argument("--device")
    parser.add_argument("--steps", type=int, help="60; small 12")
    parser.add_argument("--rows", type=int, help="256; small 16")
    parser.add_argument("--length", type=int, help="64; small 16")
    options = parser.parse_args()
    options.device = torch_device(options.device)
    on_gpu = options.device.type == "cuda"
    for name, (large, small) in {"steps": (60, 12), "rows": (256, 16), "length": (64, 16)}.items():
        setattr(options, name, getattr(options, name) or (large if on_gpu else small))
    options.width = 512 if on_gpu else 128
    if options.stream:
        stream = EncodedText(Corpus(Path(options.stream)))
    else:
        made_up = MadeUp(60_001, 20_000_000) if on_gpu else MadeUp(5001, 1_000_000)
        stream = cast("EncodedText", made_up)
    speed = ours(stream, options)
    print(f"{options.device}, {stream.n_words:,} classes, width {options.width}: {speed:,.0f} words/s")
    ways = {"20 x 35": (20, 35, False), "our batch": (options.rows, options.length, False)}
    ways |= {"our batch, bfloat16": (options.rows, options.length, True)} if on_gpu else {}
    for name, (rows, length, half) in ways.items():
        theirs = example(stream, options, rows, length, half=half)
        print(f"  example, {name}: {theirs:,.0f} words/s, ratio {speed / theirs:.2f}", flush=True)
        peer, times = f"PyTorch's example, {name}", GOAL if on_gpu else None
        tell(Row("LSTM", speed, "words/s", theirs=theirs, higher=True, peer=peer, times=times))


if __name__ == "__main__":
    main()
