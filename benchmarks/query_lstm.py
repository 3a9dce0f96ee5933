"""How long an LSTM takes to rank ten candidates by the whole query, beside ten full passes.

    python benchmarks/query_lstm.py [--model FOLDER] [--n 50] [--vocabulary 60000] [--width 512]
                                    [--repeats 3] [--threads N] [--device cpu] [--json out.json]

The questions are the first of the Children's Book Test's named-entity validation set where $WORKBENCH_DATA
has it, else of the sample. The model is a `QueryLSTM` that was saved, else one with random weights: what is
computed does not depend on them.

1. Ours: what stands before the blank is read once, and what follows it as one batch of all candidates.
2. Ten full passes: of each question a batch of ten texts, each whole, one text a candidate.

Both are given the same questions, and take their turns, with the query alone and with the context before it.
The softmax is computed for the candidates and the words after them alone, in both. The median is told; the
scores must be equal to 1e-4.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import Counter

import numpy as np
import torch
from _report import Row, tell
from _timing import model_options, timed

import workbench as wb
from workbench.models import QueryLSTM
from workbench.models.item_words import passages
from workbench.models.neural.recurrent import RecurrentModule
from workbench.models.neural.scoring import evaluating
from workbench.predictions.schema import Floats

CLOSE = 1e-4  # of natural log-probabilities


def questions_of(n: int) -> tuple[str, wb.Items]:
    """Return the questions, and what they are."""
    try:
        return "the Children's Book Test, NE validation", wb.load("cbt", "dev", variant="NE")[:n]
    except wb.DataError:
        return "the sample", wb.load("sample", variant="cbt")[:n]


def random_model(items: wb.Items, options: argparse.Namespace) -> QueryLSTM:
    """Return a model with random weights that knows the words of the questions, and others."""
    counts = Counter(word for _, passage in passages(items, lower=False) for word in passage.words)
    counts.update(word for row in items.frame["candidates"] for word in row)
    words = [word for word, _ in counts.most_common(options.vocabulary)]
    words += [f"other-{number}" for number in range(options.vocabulary - len(words))]
    torch.manual_seed(0)
    frequencies = [1, *(10**9 // rank for rank in range(1, len(words) + 1))]
    network = RecurrentModule(frequencies, width=options.width)
    info = {"sizes": {"width": options.width}, "lower": False}
    return QueryLSTM(network.eval(), vocabulary=words, info=info, counts=frequencies, device=options.device)


def full_passes(model: QueryLSTM, items: wb.Items) -> Floats:
    """Return the scores of all candidates, each from its whole text."""
    encoder, network, rows = model.encoder, model.network, []
    for item, blank in encoder.blanks(items):
        words = [encoder.word(item, word, blank) for word in item.candidates or ()]
        texts = [torch.tensor([*blank.ids, *word, *blank.right]) for word in words]
        ids = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True).to(model.device)
        with evaluating(network):
            log_probs = network.following(ids, start=len(blank.ids) - 1).double().cpu()
        rows.append([
            float(values[: len(word) + len(blank.right)].sum())
            - model.unknown_share * sum(number >= network.n_words for number in word)
            for values, word in zip(log_probs, words, strict=True)
        ])  # fmt: skip
    scores = np.full((len(rows), max(map(len, rows))), np.nan)
    for index, row in enumerate(rows):
        scores[index, : len(row)] = row
    return scores


def main() -> None:
    """Measure, compare, and print."""
    options = model_options(__doc__, n=50, repeats=3)
    name, items = questions_of(options.n)
    if options.model:
        model = QueryLSTM.load(options.model, device=options.device)
    else:
        model = random_model(items, options)
    words = [list(item.candidates or ()) for item in items]
    print(f"{model.name}, {len(model.vocabulary):,} words, on {options.device}, "
          f"{torch.get_num_threads()} threads; {len(items):,} questions of {name}")  # fmt: skip
    reports = {}
    for reads in ("query", "context+query"):
        reader = model.with_context("sentence" if reads == "query" else None)
        reader.score(items[:2], words[:2])  # what is done once
        ways = {
            "ours": lambda reader=reader: reader.score(items, words),
            "ten full passes": lambda reader=reader: full_passes(reader, items),
        }
        taken: dict[str, list[float]] = {way: [] for way in ways}
        scores = {}
        for _ in range(options.repeats):
            for way, work in ways.items():
                seconds, scores[way] = timed(1, work)
                taken[way] += seconds
        apart = float(np.nanmax(np.abs(scores["ours"] - scores["ten full passes"])))
        ours, full = (statistics.median(taken[way]) for way in ways)
        reports[reads] = {"ours": ours, "ten full passes": full, "ratio": full / ours, "apart": apart}
        print(f"{reads:14} ours {1000 * ours / len(items):7.1f} ms a question, ten full passes "
              f"{1000 * full / len(items):7.1f}: {full / ours:.2f} times; "
              f"scores apart by {apart:.0e} at most")  # fmt: skip
        assert np.array_equal(np.isnan(scores["ours"]), np.isnan(scores["ten full passes"]))
        assert apart < CLOSE, "not the same scores"
        tell(
            Row(
                f"a question, {reads}",
                1000 * ours / len(items),
                "ms",
                peer="ten full passes",
                theirs=1000 * full / len(items),
            )
        )
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:  # noqa: PTH123 - a path as typed
            json.dump({"options": vars(options), "reports": reports}, file, indent=1)


if __name__ == "__main__":
    main()
