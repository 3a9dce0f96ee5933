"""What the adaptive softmax spares on a CPU, beside a plain full one and PyTorch's own adaptive module.

    python benchmarks/softmax.py [--texts PATH] [--vocabulary 60000] [--width 512] [--n 2048] [--repeats 5]
                                 [--minutes 8] [--rows 64] [--length 32] [--threads N] [--cpu-time]
                                 [--quick] [--json out.json]

The text is the books in a path (file, folder, archive), else the novels where $WORKBENCH_DATA has them, else
those of the sample; its words and their counts are what both parts run on.

1. The layers alone, forward and backward for n states and the words of the text: ours, full and adaptive;
   `F.cross_entropy` after `nn.Linear`; `nn.AdaptiveLogSoftmaxWithLoss`, with our cutoffs and with usual ones
   (1/15 and 3/15 of the words). They take turns; the fastest run and the median are printed.
2. An LSTM trained by `workbench.training.loop` with each of three outputs: plain full, ours, PyTorch's
   adaptive. Same words, batches, optimiser, and beginning (biases by the words' frequency); the last words
   of the text are held out. The plain one gets 70 % of the minutes, the others the rest. Printed are words a
   second, the perplexity of the held-out words against time (that of evaluations does not count), and how
   long each takes until it is where the slowest one ends.

Where other programs run too, `--threads 1 --cpu-time` counts the processor's seconds for this one alone.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import workbench as wb
from workbench.models.neural.networks.adaptive import AdaptiveSoftmax
from workbench.models.neural.networks.base import Network, known
from workbench.models.neural.networks.frequent import log_shares
from workbench.models.neural.networks.recurrent import Recurrent
from workbench.models.neural.softmax import FullSoftmax
from workbench.texts.batches import ContiguousBatches
from workbench.texts.sources import corpus_of
from workbench.texts.stream import Stream
from workbench.training.history import Training
from workbench.training.loop import train
from workbench.training.progress import Progress
from workbench.training.settings import TrainingSettings

HELD_OUT = 8192  # words
POINTS = 10  # perplexities in a training
CLOCKS = {False: time.perf_counter, True: time.process_time}
SHARE = {"plain full": 0.7, "ours, adaptive": 0.15, "PyTorch's adaptive": 0.15}  # of the minutes


class Plain(nn.Module):
    """A linear layer and torch's cross-entropy."""

    def __init__(self, width: int, counts: np.ndarray) -> None:
        super().__init__()
        self.linear = nn.Linear(width, len(counts))
        self.linear.bias.data.copy_(log_shares(counts))

    def loss(self, hidden: Tensor, target: Tensor) -> Tensor:
        """Return the mean of -ln p."""
        return functional.cross_entropy(self.linear(hidden), target)

    def forward(self, hidden: Tensor, target: Tensor) -> Tensor:
        """Return ln p."""
        return -functional.cross_entropy(self.linear(hidden), target, reduction="none")


class Theirs(nn.Module):
    """PyTorch's module, used plainly."""

    def __init__(self, width: int, counts: np.ndarray, cutoffs: list[int]) -> None:
        super().__init__()
        self.layer = nn.AdaptiveLogSoftmaxWithLoss(width, len(counts), cutoffs, head_bias=True)
        first, *rest = np.split(counts, cutoffs)
        self.layer.head.bias.data.copy_(log_shares(np.array([*first, *map(np.sum, rest)])))

    def loss(self, hidden: Tensor, target: Tensor) -> Tensor:
        """Return the mean of -ln p."""
        return cast("Tensor", self.layer(hidden, target).loss)

    def forward(self, hidden: Tensor, target: Tensor) -> Tensor:
        """Return ln p."""
        return cast("Tensor", self.layer(hidden, target).output)


def text(options: argparse.Namespace) -> tuple[Stream, str]:
    """Give the text as ids, and its name."""
    folder = os.environ.get("WORKBENCH_DATA")
    novels = Path(folder) / "novels.tar.xz" if folder and not options.quick else None
    path = options.texts or (novels if novels is not None and novels.is_file() else None)
    corpus = corpus_of(path or list(wb.books("sample")), progress=False)
    return Stream.of(corpus, options.vocabulary, progress=False), str(path.name if path else "the sample")


def layers(stream: Stream, options: argparse.Namespace) -> dict[str, Any]:
    """Time the bare layers."""
    counts, width, n = stream.counts, options.width, options.n
    torch.manual_seed(0)
    adaptive = AdaptiveSoftmax(width, counts)
    cutoffs, usual = adaptive.cutoffs[:-1] or [len(counts) // 2], [len(counts) // 15, 3 * len(counts) // 15]
    usual_ours = AdaptiveSoftmax(width, counts, cutoffs=usual)
    modules: dict[str, nn.Module] = {
        "ours, adaptive": adaptive,
        "PyTorch's adaptive, our cutoffs": Theirs(width, counts, cutoffs),
        "ours, the usual cutoffs": usual_ours,
        "PyTorch's adaptive, the usual cutoffs": Theirs(width, counts, usual),
        "ours, full": FullSoftmax(width, counts),
        "plain full": Plain(width, counts),
    }
    start = stream.n_tokens // 2
    target = known(torch.as_tensor(stream.read(start, start + n)), stream.n_words)
    hidden = (torch.randn(len(target), width) / 2).requires_grad_()
    clock, taken = CLOCKS[options.cpu_time], {name: list[float]() for name in modules}

    def once(module: nn.Module) -> float:
        start = clock()
        hidden.grad = None
        module.zero_grad()
        loss = cast("Tensor", cast("Any", module).loss(hidden, target))
        torch.autograd.backward(loss)
        return clock() - start

    for module in modules.values():  # the first run of each does not count
        once(module)
    for _ in range(options.repeats):
        for name, module in modules.items():
            taken[name].append(once(module))
    fastest = {name: min(times) for name, times in taken.items()}
    print(f"\nlayers alone: {len(target):,} rows, width {width}; our cutoffs {cutoffs}, usual ones {usual}")
    for name, times in taken.items():
        print(f"  {name:38s} {min(times):8.3f} s, median {statistics.median(times):.3f} s")
    pairs = [
        ("ours, adaptive", "plain full"),
        ("ours, adaptive", "PyTorch's adaptive, our cutoffs"),
        ("ours, the usual cutoffs", "PyTorch's adaptive, the usual cutoffs"),
        ("ours, full", "plain full"),
    ]
    for ours, other in pairs:
        print(f"  ratio, {other} / {ours}: {fastest[other] / fastest[ours]:.2f}")
    return {"taken": taken, "cutoffs": cutoffs, "usual": usual}


def networks(stream: Stream, width: int) -> dict[str, Callable[[], Network]]:
    """Give what makes the LSTM with each output."""

    def made(output: Callable[[], nn.Module] | None) -> Network:
        torch.manual_seed(0)
        kind = "full" if output else "adaptive"
        network = Recurrent(stream.counts.tolist(), width=width, tied=False, softmax=kind)
        if output:
            network.output = cast("Any", output())
        return network

    cutoffs = AdaptiveSoftmax(width, stream.counts).cutoffs[:-1] or [stream.n_words // 2]
    return {
        "plain full": lambda: made(lambda: Plain(width, stream.counts)),
        "ours, adaptive": lambda: made(None),
        "PyTorch's adaptive": lambda: made(lambda: Theirs(width, stream.counts, cutoffs)),
    }


class Curve(Progress):
    """Watches a training and evaluates it: perplexities against the seconds of training alone.

    Parameters
    ----------
    held_out : Tensor
        Ids, shape (rows, time).
    clock : callable
        Returns seconds.
    """

    def __init__(self, held_out: Tensor, clock: Callable[[], float]) -> None:
        self.held_out, self.clock = held_out, clock
        self.points: list[tuple[float, float]] = []
        self.steps: list[float] = []  # seconds at the end of each
        self._since, self._before = 0.0, 0.0

    def __call__(self, network: nn.Module) -> dict[str, float]:
        """Evaluate; the clock stands still meanwhile."""
        now = self._now()
        assert isinstance(network, Network)
        parts = [network.following(rows) for rows in torch.split(self.held_out, 4)]
        found = math.exp(-float(torch.cat(parts).detach().double().mean()))
        self.points.append((now, found))
        self._before, self._since = now, self.clock()
        return {"perplexity": found}

    def begin(self, training: Training, step: int) -> None:
        """Let the clock run."""
        del training, step
        self._before, self._since = 0.0, self.clock()

    def step(self) -> None:
        """Note the time of a step."""
        self.steps.append(self._now())

    def _now(self) -> float:
        return self._before + self.clock() - self._since


def trainings(stream: Stream, options: argparse.Namespace) -> dict[str, Any]:
    """Train the LSTM with each output."""
    length = min(HELD_OUT, stream.n_tokens // 20) // 16
    held_out = torch.as_tensor(stream.read(stream.n_tokens - 16 * length, stream.n_tokens)).view(16, length)
    lanes = ContiguousBatches(
        stream, rows=options.rows, length=options.length, stop=stream.n_tokens - 16 * length
    )
    common: dict[str, Any] = {"learning_rate": options.learning_rate, "schedule": "constant", "warm_up": 0.0}
    common |= {"keep": "last"}
    found: dict[str, Any] = {}
    for name, make in networks(stream, options.width).items():
        short = Curve(held_out, CLOCKS[options.cpu_time])
        train(make(), lanes, TrainingSettings(steps=6, evaluations=0, **common), progress=short)
        step = statistics.median(after - before for before, after in pairwise(short.steps))
        steps = max(POINTS, round(options.minutes * 60 * SHARE[name] / step))
        curve, network = Curve(held_out, CLOCKS[options.cpu_time]), make()
        with torch.no_grad():
            curve(network)  # before the first step
        settings = TrainingSettings(steps=steps, evaluations=POINTS, **common)
        train(network, lanes, settings, evaluate=curve, progress=curve)
        points = [(0.0, curve.points[0][1]), *curve.points[1:]]
        speed = steps * lanes.tokens / curve.steps[-1]
        found[name] = {"curve": points, "words a second": speed, "steps": steps}
        print(f"\n{name}: {steps:,} steps of {lanes.tokens:,} words, {speed:,.0f} words/s")
        print("  seconds: perplexity  " + ", ".join(f"{s:.0f}: {p:,.0f}" for s, p in points), flush=True)
    compared(found)
    return found


def reached(curve: list[tuple[float, float]], goal: float) -> float:
    """Return after how many seconds a curve is at a perplexity; logarithms are taken as linear in between."""
    for (before, high), (after, low) in pairwise(curve):
        if low <= goal:
            share = 0.0 if high <= goal else math.log(high / goal) / math.log(high / low)
            return before + share * (after - before)
    return math.inf


def compared(found: dict[str, Any]) -> None:
    """Say how long each takes to what all reach."""
    goal = max(min(p for _, p in each["curve"]) for each in found.values())
    times = {name: reached(each["curve"], goal) for name, each in found.items()}
    print(f"\nuntil a perplexity of {goal:,.0f} on held-out words, which all reach:")
    for name, seconds in times.items():
        print(f"  {name:20s} {seconds:7.1f} s")
    ours = times["ours, adaptive"]
    for other in ("plain full", "PyTorch's adaptive"):
        rate = found["ours, adaptive"]["words a second"] / found[other]["words a second"]
        print(f"  ratio, {other} / ours: {times[other] / ours:.2f} (words a second: {rate:.2f})")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--texts", type=Path, help="books to train on")
    parser.add_argument("--vocabulary", type=int, default=60_000)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--n", type=int, default=2048, help="rows of the bare layers")
    parser.add_argument("--repeats", type=int, default=5, help="runs of the bare layers")
    parser.add_argument("--minutes", type=float, default=8.0, help="of training, all together")
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--threads", type=int, help="of torch")
    parser.add_argument("--cpu-time", action="store_true", help="count the processor's seconds")
    parser.add_argument("--quick", action="store_true", help="on the sample, seconds alone")
    parser.add_argument("--json", type=Path, help="file for what was measured")
    options = parser.parse_args()
    if options.quick:
        options.width, options.n, options.minutes, options.repeats = 64, 512, 0.2, 2
        options.rows, options.length = 16, 16
    if options.threads:
        torch.set_num_threads(options.threads)
    print(f"Python {sys.version.split()[0]}, torch {torch.__version__}, {torch.get_num_threads()} threads")
    print(f"load average at the start: {', '.join(f'{x:.2f}' for x in os.getloadavg())}")
    begun = time.perf_counter()
    stream, name = text(options)
    print(f"text: {name}, {stream.n_tokens:,} tokens, {stream.n_words:,} classes, ", end="")
    print(f"read in {time.perf_counter() - begun:.0f} s", flush=True)
    found = {"layers": layers(stream, options), "trainings": trainings(stream, options)}
    print(f"load average at the end: {', '.join(f'{x:.2f}' for x in os.getloadavg())}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
