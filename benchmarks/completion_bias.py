"""How often the original scores best, and how much the lowest scores give away, in made questions.

Questions are made from a twentieth of the challenge's training books by a 4-gram of the others; the same
systems answer the official questions. Zweig and Burges (2012), section 2.2, have 26 % for the lowest score of
the model that made their options (31 % for the highest), 17 % for that of another model (39 %), 38 % for the
lowest score of the next word, 38 % for the highest one of the word two on, and 43 % for both.

    python benchmarks/completion_bias.py [--number 1000] [--seed 0] [--out frame.csv]
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import pandas as pd

import workbench as wb
from workbench import construction
from workbench.analysis.proportions import wilson
from workbench.models import NextWord, NGram, Positional, Reversed, WordTwoOn
from workbench.texts.corpus import Corpus

COPIES = {"msrcc/train/BADGE10"}  # another edition of it, BADGE10A, is among the books to train on


def share(count: int, n: int) -> str:
    """Return a percentage with its 95 % Wilson interval."""
    low, high = (100 * float(bound[0]) for bound in wilson(count, n))
    return f"{100 * count / n:.1f} ({low:.1f} to {high:.1f})"


def lowest_after(items: wb.Items) -> str:
    """Return how often the answer has the lowest score of step 4 among its options; ties count in part."""
    points = []
    for item in items:
        scores = dict(zip(item.meta["alternates"], item.meta["scores"], strict=True))
        others = [scores[word] for word in item.candidates or () if word != item.answer]
        own = item.meta["answer_score"]
        points.append(0.0 if min(others) < own else 1 / (1 + sum(value == own for value in others)))
    return share(round(sum(points)), len(points))


def main() -> None:
    """Make the questions, answer them, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out")
    options = parser.parse_args()
    corpus = Corpus.of("msrcc", lower=False, name="training books")
    ids = corpus.books["book_id"].tolist()
    books = np.random.default_rng(options.seed).choice(ids, round(0.05 * len(ids)), replace=False).tolist()
    background = corpus.without(books)
    counts = dict(zip(background.words, background.counts.tolist(), strict=True))
    known = [word for word, count in counts.items() if count >= 5]  # noqa: PLR2004 - as in the paper
    how: dict[str, Any] = {"order": 4, "lower": False, "vocabulary": known, "pruning": (0, 0, 0, 1)}
    generating = NGram.fit(background, **how)
    other = NGram.fit(background, smoothing="good-turing", **how)
    held = [book for book in wb.books("msrcc", "train") if book.book_id in set(books) - COPIES]
    sets: dict[str, wb.Items] = {}
    for choose in construction.sentence_completion.CHOICES:
        items = construction.sentence_completion.questions(
            held, background, model=generating, number=options.number, choose=choose, seed=options.seed
        )
        sets[choose] = items
    steps = items.attrs["steps"]
    print(steps, f"original best: {share(steps['the original scores best'], steps['tried'])} %", sep="\n")
    sets["official"] = wb.load("msrcc")
    systems = {
        "generating model, highest": generating, "generating model, lowest": Reversed(generating),
        "other model, highest": other, "other model, lowest": Reversed(other),
    }  # fmt: skip
    for name, model in (("generating", generating), ("other", other)):
        systems |= {
            f"next word, lowest ({name})": NextWord(model), f"word two on ({name})": WordTwoOn(model),
            f"both ({name})": Positional(model),
        }  # fmt: skip
    table = pd.DataFrame(
        {
            name: {
                system: share(round(float(model.predict(items)["p_correct"].sum())), len(items))
                for system, model in systems.items()
            }
            for name, items in sets.items()
        }
    )
    table.loc["score of step 4, lowest"] = {n: lowest_after(s) for n, s in sets.items() if n != "official"}
    print(table.to_string())
    ranks = [
        1 + int(np.sum(np.array(item.meta["scores"]) > item.meta["answer_score"])) for item in sets["random"]
    ]
    print("rank of the original among the thirty by step 4, median:", np.median(ranks), "below all:",
          share(sum(rank == 31 for rank in ranks), len(ranks)))  # noqa: PLR2004  # fmt: skip
    for name in ("random", "official"):
        frequencies = [counts.get(str(item.answer), 0) / background.n_tokens for item in sets[name]]
        words = [len(item.tokens) for item in sets[name]]
        rare = share(sum(frequency < 1e-4 for frequency in frequencies), len(words))  # noqa: PLR2004
        quartiles = [np.percentile(values, [25, 50, 75]) for values in (words, frequencies)]
        print(f"{name}: tokens a sentence, mean {np.mean(words):.1f}, quartiles {quartiles[0]}")
        print(f"{name}: frequency of the answer, quartiles {quartiles[1]}; rarer than 1e-4: {rare} %")
    annotations = [wb.annotate(sets[name]) for name in ("random", "official")]
    print(wb.contrast(*annotations, names=("made", "official")).to_string())
    if options.out:
        table.to_csv(options.out)


if __name__ == "__main__":
    main()
