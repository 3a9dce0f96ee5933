"""Words a second in training: our LSTM and transformer, beside PyTorch's example of a word language model.

    python benchmarks/training.py [--stream FOLDER] [--device cuda] [--small] [--steps 60] [--rows 256]
                                  [--length 64] [--windows 64] [--only NAME ...] [--json out.json]

It needs torch, numpy, pandas, pyarrow and this package; no other data than a stream's folder
(`EncodedText.copy`), or none: words that are made up have Zipf's frequencies. `--small` is the same at a
size for a CPU, and the default where there is no GPU.

- lstm: one layer of 512 over 60,000 words, full softmax, trained by `workbench.training.loop`
  (on a GPU: bfloat16, compiled).
- example: the word language model among PyTorch's examples, written anew at the same sizes: `nn.LSTM`, a
  linear decoder, `log_softmax` and `NLLLoss`, plain gradient descent with clipping, `loss.item()` at each
  step; at its own batch of 20 x 35 words, at ours, and at ours with bfloat16.
- transformer: the one with a pointer, by the same loop.

Beside the words a second stands what bounds ours. Arithmetic: the FLOPs by formula over the card's peak; they
are those of products, three times those of the forward pass, and nothing that is computed twice counts.
Bytes: the least that must be moved over the bandwidth. Launches: kernels in a step, and the time in which
none ran.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from _report import Row, tell
from _timing import timed
from torch import Tensor, nn
from torch.nn import functional

from workbench.models.neural.network import LanguageModule, class_ids
from workbench.models.neural.recurrent import RecurrentModule
from workbench.models.neural.transformer import TransformerModule
from workbench.texts.batches import Batches, ContiguousBatches, EncodedText, ShuffledBatches
from workbench.training.history import Progress
from workbench.training.loop import train
from workbench.training.settings import TrainingSettings, torch_device

# Dense bfloat16 FLOPs a second and bytes a second, as the makers' data sheets have them.
CARDS = {
    "H200": (989e12, 4.8e12),
    "H100 PCIe": (756e12, 2.0e12),
    "H100 NVL": (835e12, 3.9e12),
    "H100": (989e12, 3.35e12),
    "A100": (312e12, 2.0e12),
}
PROFILED = 5  # steps
GOAL, PEAK_GOAL = 2.0, 0.4  # times the example; of the card's peak


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


def wait(device: torch.device) -> None:
    """Wait until a GPU has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@dataclass
class Card:
    """What a device can do at most: FLOPs and bytes a second."""

    name: str
    flops: float
    bandwidth: float
    measured: bool

    @classmethod
    def of(cls, device: torch.device) -> Card:
        """Look it up, or measure it by a large product and a large copy."""
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
        for known_name, (flops, bandwidth) in CARDS.items():
            if known_name in name:
                return cls(name, flops, bandwidth, measured=False)
        size, dtype = (8192, torch.bfloat16) if device.type == "cuda" else (1024, torch.float32)
        a = torch.randn(size, size, device=device, dtype=dtype)
        product, (source, copy) = torch.empty_like(a), torch.zeros(2, 1 << 25, device=device)
        flops = 2 * size**3 / fastest(lambda: torch.mm(a, a, out=product), device)
        bandwidth = 2 * copy.nbytes / fastest(lambda: copy.copy_(source), device)
        return cls(name, flops, bandwidth, measured=True)


def fastest(work: Callable[[], object], device: torch.device) -> float:
    """Return the seconds of the fastest of some runs."""

    def whole() -> None:
        work()
        wait(device)

    return min(timed(5, whole)[0])


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
    lanes, state, total, begun = ContiguousBatches(stream, rows=rows, length=length), None, 0.0, 0.0
    text = [torch.as_tensor(lanes.batch(step)["ids"]).t().to(device) for step in range(size.steps)]
    for step, batch in enumerate(text):  # (length + 1, rows); its data lie on the device from the start
        if step == size.steps // 3:
            wait(device)
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
    wait(device)
    return float((size.steps - size.steps // 3) * rows * length / (time.perf_counter() - begun))


class Profiling(Progress):
    """Profiles some of the last steps of a training."""

    def __init__(self, first: int, device: torch.device) -> None:
        self.first, self.device, self.done = first, device, 0
        self.profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])

    def step(self) -> None:
        """Begin and end the profile."""
        self.done += 1
        if self.device.type != "cuda" or self.done not in {self.first, self.first + PROFILED}:
            return
        wait(self.device)
        if self.done == self.first:
            self.profile.start()
        else:
            self.profile.stop()

    def kernels(self) -> tuple[float, float] | None:
        """Return the kernels in a step, and the share of the time in which none ran; None on a CPU."""
        if self.device.type != "cuda":
            return None
        events: Any = cast("Any", self.profile).events()
        spans = [(e.time_range.start, e.time_range.end) for e in events if e.device_type.name == "CUDA"]
        return len(spans) / PROFILED, idle(spans)


def idle(spans: list[tuple[float, float]]) -> float:
    """Return the share of the time, from the first beginning to the last end, in which no span lies."""
    ordered = sorted(spans)
    busy, until = 0.0, ordered[0][0]
    for start, end in ordered:
        busy += max(0.0, end - max(start, until))
        until = max(until, end)
    return 1 - busy / (until - ordered[0][0])


def ours(network: LanguageModule, batches: Batches, size: argparse.Namespace) -> tuple[float, Profiling]:
    """Train by our loop; return words a second, and what was profiled afterwards."""
    profiling = Profiling(size.steps + 2, size.device)
    settings = TrainingSettings(
        steps=size.steps + 3 + PROFILED, log_every=size.steps // 3, evaluations=0, keep="last",
        device=str(size.device),
    )  # fmt: skip
    history = train(network, batches, settings, progress=profiling).history
    points = [row for row in history if row["step"] <= size.steps]
    first, last = points[0], points[-1]
    return float((last["tokens"] - first["tokens"]) / (last["seconds"] - first["seconds"])), profiling


def lstm_flops(network: RecurrentModule) -> float:
    """Return the FLOPs of training on a word."""
    width = network.width
    return 6.0 * width * (8 * width * int(network.layers.num_layers) + network.n_words)


def transformer_flops(network: TransformerModule, window: int) -> float:
    """Return the FLOPs of training on a word; attention reads half of the window on average."""
    width, pointer = network.width, network.pointer
    products = sum(p.numel() for p in network.blocks.parameters() if p.ndim > 1)
    attention = 2 * len(network.blocks) * width * (window / 2)
    if pointer is not None:
        inner = pointer.heads * pointer.size
        products += 3 * width * inner
        attention += inner * (window / 2)
    return 6.0 * (products + attention + width * network.n_words)


def least_bytes(network: LanguageModule, tokens: int) -> float:
    """Return the bytes that a step must move: logits in half precision, and each parameter's.

    Logits are written, read for the sum, turned into gradients and read for two products: 12 bytes. A
    parameter is read twice in half precision, gets a gradient, which is clipped, and an update that reads
    four numbers and writes three: 48 bytes.
    """
    return 12.0 * tokens * network.n_words + 48.0 * sum(p.numel() for p in network.parameters())


def bounds(
    measured: tuple[float, Profiling], flops: float, network: LanguageModule, tokens: int, card: Card
) -> dict[str, float]:
    """Print what bounds a training, of which the words a second were measured."""
    speed, profiling = measured
    bytes_ = least_bytes(network, tokens)
    step = tokens / speed
    arithmetic, moved = tokens * flops / card.flops, bytes_ / card.bandwidth
    print(
        f"\n{type(network).__name__}: {speed:,.0f} words/s, {step * 1e3:,.1f} ms a step of {tokens:,} words"
    )
    peak = arithmetic / step
    least = f"{arithmetic * 1e3:,.1f} ms at least"
    print(f"  arithmetic: {flops / 1e6:,.0f} MFLOPs a word, {peak:.1%} of the peak: {least}")
    print(f"  bytes: {bytes_ / 1e9:,.2f} GB a step at least, so {moved * 1e3:,.1f} ms")
    results = {"words a second": speed, "share of peak": peak, "step": step, "bytes": moved}
    kernels = profiling.kernels()
    shares = {"arithmetic": arithmetic / step, "bytes": moved / step}
    if kernels is not None:
        print(f"  launches: {kernels[0]:,.0f} kernels a step; none runs in {kernels[1]:.1%} of the time")
        shares["launches"] = kernels[1]
        results |= {"kernels": kernels[0], "idle": kernels[1]}
    most = max(shares, key=lambda name: shares[name])
    print(f"  bound by {most}" if shares[most] > 1 / 2 else f"  bound by none alone, most by {most}")
    return results


def goal(name: str, met: bool) -> None:  # noqa: FBT001 - as it reads
    """Say whether a goal was met."""
    print(f"  goal, {name}: {'met' if met else 'MISSED'}")


def parts(
    stream: EncodedText, size: argparse.Namespace, card: Card
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield what can be measured, by name."""

    def lstm() -> Any:
        torch.manual_seed(0)
        network = RecurrentModule(stream.counts.tolist(), width=size.width, softmax="full")
        lanes = ContiguousBatches(stream, rows=size.rows, length=size.length)
        return bounds(ours(network, lanes, size), lstm_flops(network), network, lanes.tokens, card)

    def examples() -> Any:
        results = {}
        ways = [("20 x 35", 20, 35, False), ("our batch", size.rows, size.length, False)]
        ways += [("our batch, bfloat16", size.rows, size.length, True)] if size.device.type == "cuda" else []
        print("\nexample:")
        for name, rows, length, half in ways:
            results[name] = example(stream, size, rows, length, half=half)
            print(f"  {name}: {results[name]:,.0f} words/s", flush=True)
        return results

    def transformer() -> Any:
        torch.manual_seed(0)
        form = {
            "width": size.width,
            "layers": size.layers,
            "heads": size.heads,
            "window": size.window,
            "hide": 0.0,
        }
        network = TransformerModule(stream.counts.tolist(), unknown_types=stream.unknown_types, **form)
        windows = ShuffledBatches(stream, rows=size.windows, length=size.window)
        flops = transformer_flops(network, size.window)
        results = bounds(ours(network, windows, size), flops, network, windows.tokens, card)
        if size.device.type == "cuda":
            goal(f"{PEAK_GOAL:.0%} of the peak", results["share of peak"] >= PEAK_GOAL)
            share = 100 * results["share of peak"]
            tell(Row("transformer", share, "% of the peak", goal=100 * PEAK_GOAL, higher=True))
        return results

    yield from (("lstm", lstm), ("example", examples), ("transformer", transformer))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--stream", type=Path, help="folder of a stream; by default words by Zipf's law")
    parser.add_argument("--device", help="by default a GPU where there is one")
    parser.add_argument("--small", action="store_true", help="a size for a CPU; the default there")
    parser.add_argument("--steps", type=int, help="timed after a third of them; 60, small 12")
    parser.add_argument("--rows", type=int, help="of the LSTM's batch; 256, small 16")
    parser.add_argument("--length", type=int, help="words in each; 64, small 16")
    parser.add_argument("--windows", type=int, help="rows of the transformer's batch; 64, small 4")
    parser.add_argument("--only", nargs="+", choices=["lstm", "example", "transformer"])
    parser.add_argument("--json", type=Path, help="file for what was measured")
    options = parser.parse_args()
    options.device = torch_device(options.device)
    small = options.small or options.device.type == "cpu"
    sizes = {"steps": (60, 12), "rows": (256, 16), "length": (64, 16), "windows": (64, 4)}
    for name, (large, little) in sizes.items():
        setattr(options, name, getattr(options, name) or (little if small else large))
    options.width, options.layers, options.heads, options.window = (
        (128, 2, 4, 64) if small else (512, 8, 8, 256)
    )
    card = Card.of(options.device)
    if options.stream:
        stream = EncodedText.open(options.stream)
    else:
        stream = cast("EncodedText", MadeUp(5001 if small else 60_001, 1_000_000 if small else 20_000_000))
    print(f"Python {sys.version.split()[0]}, torch {torch.__version__}; {card.name}: ", end="")
    print(f"{card.flops / 1e12:,.2f} TFLOPs/s, {card.bandwidth / 1e9:,.0f} GB/s ", end="")
    print("(measured)" if card.measured else "(data sheet)")
    print(f"load average at the start: {', '.join(f'{x:.2f}' for x in os.getloadavg())}")
    print(f"{stream.n_words:,} classes; width {options.width}", flush=True)
    results = {n: work() for n, work in parts(stream, options, card) if not options.only or n in options.only}
    if "lstm" in results and "example" in results:
        for name, its in results["example"].items():
            ratio = results["lstm"]["words a second"] / its
            print(f"\nratio, lstm / example, {name}: {ratio:.2f}")
            tell(
                Row(
                    "lstm",
                    results["lstm"]["words a second"],
                    "words/s",
                    theirs=its,
                    higher=True,
                    peer=f"PyTorch's example, {name}",
                    times=GOAL if options.device.type == "cuda" else None,
                )
            )
            if options.device.type == "cuda":
                goal(f"{GOAL} times the example", ratio >= GOAL)
    print(f"load average at the end: {', '.join(f'{x:.2f}' for x in os.getloadavg())}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
