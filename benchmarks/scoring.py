"""How long scoring LAMBADA takes, beside one passage at a time and the softmax at all places.

    python benchmarks/scoring.py [--model FOLDER] [--n 100] [--vocabulary 60000] [--width 512]
                                 [--softmax full] [--threads N] [--device cpu] [--json out.json]

The passages are the first of LAMBADA's development set where $WORKBENCH_DATA has it, else of the sample. The
model is one that was saved, else an LSTM with random weights: what is computed does not depend on them.

1. Ours: batches by length, only the last place through the softmax; from ids to log-probability, exact
   rank, ties and best word of each passage.
2. One passage at a time, the last place alone.
3. Batches by length as ours, the softmax at all places, as a training loop's evaluation has it.

All are given the same ids, and take their turns; the median is told. The best words must be the same
(but for one item in a thousand: two words may differ by less than the rounding), and log-probabilities equal
to 1e-4.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from _report import Row, tell
from _timing import model_options, timed

import workbench as wb
from workbench.models.item_words import passages
from workbench.models.neural.model import Neural
from workbench.models.neural.network import ItemEncoder, class_ids
from workbench.models.neural.recurrent import RecurrentModule
from workbench.models.neural.scoring import Scorer

CLOSE = 1e-4  # of natural log-probabilities
BATCH = 8192  # words of a batch, in the third part
ROWS = 256  # places that go through the softmax at a time, in the third part

Ids = npt.NDArray[np.int64]
Told = tuple[Ids, npt.NDArray[np.float64]]


def passages_of(n: int) -> tuple[str, wb.Items]:
    """Give the passages, and what they are."""
    try:
        return "LAMBADA, development", wb.load("lambada", "dev")[:n]
    except wb.DataError:
        items = wb.load("sample", "dev")
        return "the sample", items.where(items.frame["candidates"].isna().to_numpy())[:n]


def random_lstm(items: wb.Items, options: argparse.Namespace) -> tuple[RecurrentModule, list[str]]:
    """Give an LSTM and its vocabulary: the words of the passages, and others that do not occur."""
    counts = Counter(word for _, p in passages(items, lower=True) for word in p.words)
    counts.update(str(answer).lower() for answer in items.frame["answer"])
    words = [word for word, _ in counts.most_common(options.vocabulary)]
    words += [f"other-{number}" for number in range(options.vocabulary - len(words))]
    torch.manual_seed(0)
    shares = 1 / np.arange(1, options.vocabulary + 2)  # as words fall off by their rank
    network = RecurrentModule(
        (1e9 * shares).astype(int).tolist(), cell="lstm", width=options.width, softmax=options.softmax
    )
    with torch.no_grad():
        network.embedding.weight.normal_()
    return network.to(options.device), words


def ours(network: Any, contexts: Sequence[Sequence[int]], wanted: Ids) -> Told:
    """Score by the workbench."""
    scorer = Scorer(network)
    ranks = scorer.ranked(scorer.last(contexts), wanted, 1)
    return np.array([row[0] for row in ranks.top]), ranks.log_prob


@torch.no_grad()
def one_at_a_time(network: Any, contexts: Sequence[Sequence[int]], wanted: Ids) -> Told:
    """Score a passage after the other."""
    best, log_prob = [], []
    device = next(network.parameters()).device
    for context, answer in zip(contexts, wanted.tolist(), strict=True):
        ids = torch.tensor([context], device=device)
        last = network.last(ids, torch.tensor([len(context)], device=device))
        values = network.output.distribution(last.hidden)[0]
        best.append(1 + int(values[1:].argmax()))
        log_prob.append(float(values[answer]))
    return np.array(best), np.array(log_prob)


@torch.no_grad()
def all_places(network: Any, contexts: Sequence[Sequence[int]], wanted: Ids) -> Told:
    """Score in batches by length, with the softmax at all places."""
    scorer = Scorer(network)
    best, log_prob = np.zeros(len(contexts), dtype=np.int64), np.zeros(len(contexts))
    order = sorted(enumerate(contexts), key=lambda pair: -len(pair[1]))
    while order:
        rows = order[: max(1, BATCH // len(order[0][1]))]
        order = order[len(rows) :]
        ids, lengths = scorer.padded([context for _, context in rows])
        hidden, _ = network.states(class_ids(ids, network.n_words))
        flat, places = hidden.flatten(0, 1), []
        for start in range(0, len(flat), ROWS):
            values = network.output.distribution(flat[start : start + ROWS])
            inside = torch.arange(start, min(start + ROWS, len(flat)), device=flat.device)
            row = inside // ids.shape[1]
            answers = torch.from_numpy(wanted[[place for place, _ in rows]]).to(flat.device)[row]
            outputs = values.gather(1, answers[:, None])[:, 0]
            places.append(torch.stack([(1 + values[:, 1:].argmax(1)).double(), outputs.double()]))
        table = torch.cat(places, 1).view(2, *ids.shape)
        ends = table[:, torch.arange(len(rows), device=ids.device), lengths - 1].cpu().numpy()
        which = [place for place, _ in rows]
        best[which], log_prob[which] = ends[0].astype(np.int64), ends[1]
    return best, log_prob


def main() -> None:
    """Measure, compare, and print."""
    options = model_options(__doc__, n=100, repeats=1, softmax="full")
    name, items = passages_of(options.n)
    if options.model:
        model = Neural.load(options.model, device=options.device)
        network: Any = model.network
        encoder, title = model.encoder, model.name
    else:
        network, words = random_lstm(items, options)
        encoder, title = (
            ItemEncoder(words, lower=True),
            f"LSTM {options.width}, {options.softmax} softmax, random",
        )
    network.eval()
    blanks = list(encoder.blanks(items))
    contexts = [blank.ids for _, blank in blanks]
    answers = [encoder.word(item, str(item.answer), blank)[0] for item, blank in blanks]
    wanted = np.array([number if number < network.n_words else 0 for number in answers])
    ways: dict[str, Callable[[Any, Sequence[Sequence[int]], Ids], Told]] = {
        "ours": ours, "one passage at a time": one_at_a_time, "softmax at all places": all_places
    }  # fmt: skip
    print(f"{title}, {network.n_words - 1:,} words, on {options.device}, {torch.get_num_threads()} threads")
    print(f"{len(items):,} passages of {name}, {sum(map(len, contexts)):,} words")
    if options.device != "cpu" or len(contexts) > 1:
        ours(network, contexts[:2], wanted[:2])  # what is done once
    taken: dict[str, list[float]] = {way: [] for way in ways}
    outputs: dict[str, Told] = {}
    for _ in range(options.repeats):
        for way, work in ways.items():
            seconds, outputs[way] = timed(1, lambda work=work: work(network, contexts, wanted))  # type: ignore[misc]
            taken[way] += seconds
    package, reports = outputs["ours"], {}
    inside = wanted > 0  # <unk> is not ranked
    medians = {way: statistics.median(times) for way, times in taken.items()}
    for way, (best, log_prob) in outputs.items():
        differ = int((best != package[0]).sum())
        apart = float(np.abs(log_prob - package[1])[inside].max())
        each, ratio = 1000 * medians[way] / len(items), medians[way] / medians["ours"]
        reports[way] = {"seconds": medians[way], "ratio": ratio, "other best words": differ, "apart": apart}
        print(f"{way:24} {medians[way]:8.2f} s  {each:7.2f} ms a passage  {ratio:6.1f} x"
              f"  other best words: {differ}; log-probabilities apart by {apart:.0e} at most")  # fmt: skip
        assert differ <= len(items) / 1000, "not the same best words"
        assert apart < CLOSE, "not the same log-probabilities"
        if way != "ours":
            ours_each = 1000 * medians["ours"] / len(items)
            tell(Row("a passage", ours_each, "ms", peer=way, theirs=each))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:  # noqa: PTH123 - a path as typed
            json.dump({"options": vars(options), "told": reports}, file, indent=1)


if __name__ == "__main__":
    main()
