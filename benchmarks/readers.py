"""Readers: questions encoded a second, and processor time of a step with sparse and with dense gradients.

    python benchmarks/readers.py [--steps 40]

Questions are those of the Children's Book Test (named entities, validation) where `WORKBENCH_DATA` has
them, else those of the sample. Steps are those of the window memory with self-supervision: a vocabulary of
50,000, width 300, 5 positions, so 75 million weights; 64 questions of 450 words with 80 mentions of ten
candidates, all made up with the frequencies of Zipf's law. The dense run is the same network with
``sparse=False``: what the training loop did before it took sparse gradients. All on one thread, in seconds
of the processor, so that other work on the machine counts little.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from _report import Row, tell

import workbench as wb
from workbench.items.items import Items
from workbench.models.readers.encoding import RESERVED, QuestionBatches, Questions
from workbench.models.readers.memory import WindowMemoryModule
from workbench.storage.errors import DataError
from workbench.training.loop import train
from workbench.training.settings import TrainingSettings

VOCABULARY, WIDTH, ROWS, WORDS, MENTIONS, CANDIDATES = 50_000, 300, 64, 450, 80, 10


def questions() -> Items:
    """Return the questions that are encoded."""
    try:
        return wb.load("cbt", "dev", variant="NE")
    except DataError:
        return wb.load("sample", variant="cbt")


def made_up(number: int) -> Questions:
    """Return encoded questions that are made up."""
    rng = np.random.default_rng(0)
    shares = 1 / np.arange(1, VOCABULARY + 1)
    shares /= shares.sum()
    slots = np.zeros((number, WORDS), np.int32)
    for row in slots:
        row[rng.choice(WORDS, MENTIONS, replace=False)] = rng.integers(1, CANDIDATES + 1, MENTIONS)
    context = (RESERVED + rng.choice(VOCABULARY, (number, WORDS), p=shares)).astype(np.int32)
    query = (RESERVED + rng.choice(VOCABULARY, (number, 25), p=shares)).astype(np.int32)
    query[:, 12] = 1
    candidates = (RESERVED + rng.integers(0, VOCABULARY, (number, CANDIDATES))).astype(np.int32)
    arrays = {"context": context, "slots": slots, "query": query, "candidates": candidates}
    arrays["sentences"] = np.broadcast_to(np.arange(WORDS, dtype=np.int32) // 23, context.shape)
    starts = {f"{name}_starts": np.arange(number + 1) * values.shape[1] for name, values in arrays.items()}
    starts |= {"blank": np.full(number, 12), "answer": rng.integers(0, CANDIDATES, number)}
    return Questions(
        [str(word) for word in range(VOCABULARY)],
        {**{name: values.ravel() for name, values in arrays.items()}, **starts},
        "",
    )


def seconds_a_step(batches: QuestionBatches, steps: int, *, sparse: bool, update: str) -> float:
    """Return the processor's seconds of a training step, without those of starting and ending."""
    torch.manual_seed(0)
    network = WindowMemoryModule(VOCABULARY + RESERVED, self_supervised=True, width=WIDTH, update=update)
    network.keys.sparse = sparse
    seconds = []
    for number in (1, 1, steps + 1):
        begun = time.process_time()
        train(
            network, batches, TrainingSettings(steps=number, device="cpu", evaluations=0, schedule="constant")
        )
        seconds.append(time.process_time() - begun)
    return (seconds[2] - seconds[1]) / steps


def per_second(number: int, work: Callable[[], object]) -> float:
    """Return how many of a number of questions are done in a second of the processor."""
    begun = time.process_time()
    work()
    return number / (time.process_time() - begun)


def main() -> None:
    """Print one line a measurement."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=40)
    steps = parser.parse_args().steps
    torch.set_num_threads(1)
    items = questions()
    words = sum(len(item.tokens) for item in items) / len(items)
    speed = per_second(len(items), lambda: Questions.of(items, VOCABULARY))
    sys.stdout.write(f"encoded: {speed:,.0f} questions a second ({words:.0f} tokens each)\n")
    batches = QuestionBatches(made_up(2000), rows=ROWS)
    speed = per_second(20 * ROWS, lambda: [batches.batch(step) for step in range(20)])
    sys.stdout.write(f"padded into batches: {speed:,.0f} questions a second\n")
    for update in ("paper", "cross-entropy"):
        sparse = seconds_a_step(batches, steps, sparse=True, update=update)
        dense = seconds_a_step(batches, max(2, steps // 10), sparse=False, update=update)
        sys.stdout.write(
            f"{update}: {1000 * sparse:.0f} ms a step with sparse gradients, {1000 * dense:.0f} with dense "
            f"ones ({dense / sparse:.0f} times); 100,000 questions {100_000 / ROWS * sparse / 60:.1f} min\n"
        )
        tell(Row(f"a step, {update}", 1000 * sparse, "ms", peer="dense gradients", theirs=1000 * dense))


if __name__ == "__main__":
    main()
