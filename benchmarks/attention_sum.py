"""Training of the attention-sum reader beside a plain PyTorch loop, and an epoch on a GPU by arithmetic.

    python benchmarks/attention_sum.py [--steps 6] [--rows 32] [--width 128] [--embedded 256] [--threads 1]
                                       [--tflops 15.7] [--share 0.1] [--step-time 15]

The questions are those of the Children's Book Test (named entities, validation) where $WORKBENCH_DATA has
them, else of the sample. Vocabulary, sizes, clipping and the learning rate of AdamW are the same for all:

1. Ours: batches of about the same length, two GRUs that read to the end of the padding, and an AdamW that
   changes only the vectors of words that occur.
2. Packed: questions in random order, one bidirectional GRU over packed sequences, as tutorials have it.
3. Padded: questions in random order, one bidirectional GRU over the padded rows; the states of its second
   direction depend on the padding.

They take their turns, step by step. Words of contexts and queries a second of processor time are told, as
other work on the machine changes it less than the time of day.

The epoch of 100,000 questions on a GPU is not measured. It takes as long as its floating-point operations at
a share of the peak (by default 10 % of the 15.7 TFLOP/s that a V100 has in float32), or as its GRU steps
one after the other at some microseconds each, whichever is longer.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping

import numpy as np
import torch
from _report import Row, tell
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import workbench as wb
from workbench.models.readers.attention_sum import AttentionSumModule, attention_weights, is_mentioned, summed
from workbench.models.readers.encoding import PAD, RESERVED, QuestionBatches, Questions
from workbench.training.optimiser import AdamW
from workbench.training.settings import TrainingSettings

QUESTIONS = 100_000  # of the epoch that is calculated
CLIP, RATE = 10.0, 1e-3
GOAL = 2.0

Batch = Mapping[str, Tensor]


class Plain(nn.Module):
    """The same reader, as one would write it: a bidirectional GRU for the context, one for the query."""

    def __init__(self, n_ids: int, *, width: int, embedded: int, packed: bool) -> None:
        super().__init__()
        self.words, self.packed = nn.Embedding(n_ids, embedded, padding_idx=PAD), packed
        self.context, self.query = (
            nn.GRU(embedded, width, batch_first=True, bidirectional=True) for _ in range(2)
        )

    def read(self, gru: nn.GRU, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return the states and the last state of each direction."""
        vectors, lengths = self.words(ids), (ids != PAD).sum(1)
        if not self.packed:
            states, last = gru(vectors)
        else:
            rows = pack_padded_sequence(vectors, lengths.clamp_min(1), batch_first=True, enforce_sorted=False)
            states, last = gru(rows)
            states, _ = pad_packed_sequence(states, batch_first=True, total_length=ids.shape[1])
        return states, torch.cat([last[0], last[1]], 1)

    def loss(self, batch: Batch) -> Tensor:
        """Return -ln of the attention to the answer's mentions, row by row."""
        states, _ = self.read(self.context, batch["context"])
        _, query = self.read(self.query, batch["query"])
        scores = summed(attention_weights(states, query, batch["context"] != PAD), batch)
        return -scores.gather(1, batch["answer"][:, None])[:, 0] * is_mentioned(batch)


def questions() -> tuple[str, wb.Items]:
    """Return the questions, and what they are."""
    try:
        return "Children's Book Test, validation, named entities", wb.load("cbt", "dev", variant="NE")
    except wb.DataError:
        return "the sample", wb.load("sample", variant="cbt")


def words(batch: Batch) -> int:
    """Return the number of words of contexts and queries."""
    return int((batch["context"] != PAD).sum() + (batch["query"] != PAD).sum())


def trainer(network: nn.Module) -> Callable[[Batch], float]:
    """Return what trains a network by one batch, and returns the seconds of processor time."""
    plain = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=0)
    ours = AdamW(dict(network.named_parameters()), TrainingSettings(steps=1))

    def step(batch: Batch) -> float:
        start = time.process_time()
        plain.zero_grad(set_to_none=True)
        network.loss(batch).mean().backward()  # type: ignore[operator]
        if isinstance(network, Plain):
            nn.utils.clip_grad_norm_(network.parameters(), CLIP)
            plain.step()
        else:
            nn.utils.clip_grad_norm_(ours.changed(), CLIP)
            ours.step(RATE, skip=torch.zeros(()))
        return time.process_time() - start

    return step


def epoch_on_gpu(encoded: Questions, n_ids: int, options: argparse.Namespace) -> None:
    """Print what an epoch takes on a GPU by arithmetic."""
    width, size = options.width, options.embedded
    ids = sum(len(encoded.arrays[name]) for name in ("context", "query")) / len(encoded)
    context = len(encoded.arrays["context"]) / len(encoded)
    products = ids * 2 * 3 * width * (size + width) + context * 2 * width  # of one question, forwards
    flops = 3 * 2 * products * QUESTIONS  # a product and a sum; the way back is twice the way there
    steps = QUESTIONS / options.rows
    flops += steps * 12 * size * n_ids  # of AdamW, for the words' vectors
    by_flops = flops / (options.share * options.tflops * 1e12)
    by_steps = steps * 3 * ids * options.step_time * 1e-6  # both directions at once; the way back is two
    print(f"\nan epoch of {QUESTIONS:,} questions of {ids:.0f} words on a GPU (arithmetic):")
    print(
        f"  {flops / 1e12:,.0f} TFLOP, {by_flops:,.0f} s at {options.share:.0%} of {options.tflops} TFLOP/s"
    )
    print(f"  {by_steps:,.0f} s at {options.step_time:g} microseconds a step of a GRU")
    print(f"  so about {max(by_flops, by_steps) / 60:.1f} minutes")


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--embedded", type=int, default=256)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tflops", type=float, default=15.7)
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--step-time", type=float, default=15.0)
    return parser.parse_args()


def main() -> None:
    """Measure, compare, and print."""
    options = arguments()
    torch.set_num_threads(options.threads)
    name, items = questions()
    encoded = Questions.of(items, 60_000)
    buckets = QuestionBatches(encoded, rows=options.rows)
    rng = np.random.default_rng(0)
    n_ids = len(encoded.vocabulary) + RESERVED
    sizes = {"width": options.width, "embedded": options.embedded}
    torch.manual_seed(0)
    ways = {
        "ours": trainer(AttentionSumModule(n_ids, **sizes)),
        "packed": trainer(Plain(n_ids, **sizes, packed=True)),
        "padded": trainer(Plain(n_ids, **sizes, packed=False)),
    }
    seconds, read = dict.fromkeys(ways, 0.0), dict.fromkeys(ways, 0)
    print(f"{name}: {len(encoded):,} questions, {n_ids:,} ids; {options.rows} a batch, {sizes}")
    for number in range(options.steps + 1):
        for way, step in ways.items():
            rows = rng.choice(buckets.usable, buckets.rows, replace=False)
            arrays = buckets.batch(number) if way == "ours" else encoded.batch(rows)
            batch = {column: torch.from_numpy(values) for column, values in arrays.items()}
            taken = step(batch)
            if number:  # the first step also allocates
                seconds[way] += taken
                read[way] += words(batch)
    rates = {way: read[way] / seconds[way] for way in ways}
    for way, rate in rates.items():
        print(f"{way:8} {rate:10,.0f} words/s  {rates['ours'] / rate:6.2f} x")
        if way != "ours":
            times = GOAL if way == "packed" else None
            tell(
                Row(
                    "training",
                    rates["ours"],
                    "words/s",
                    peer=f"PyTorch, {way}",
                    theirs=rate,
                    times=times,
                    higher=True,
                )
            )
    reached = rates["ours"] >= GOAL * rates["packed"]
    print(f"goal, {GOAL} times the packed loop: {'reached' if reached else 'missed'}")
    epoch_on_gpu(encoded, n_ids, options)


if __name__ == "__main__":
    main()
