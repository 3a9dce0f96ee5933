"""Predictions made up by seed, in the form that every model gives."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
from braced_items import cloze

from workbench.items.items import Items
from workbench.predictions import schema

NESTED = ("top_words", "top_log_probs", "candidate_scores")


def made(n=200, *, seed=0, right=0.3, oov=0.1, first=0, books=None, tied=0.1, start="lambada/dev", **columns):
    """Make n predictions of a model that ranks 1,000 words; `books` novels hold the items in turn."""
    rng = np.random.default_rng(seed)
    known = rng.random(n) >= oov
    correct = known & (rng.random(n) < right)
    rank = np.where(correct, 1, rng.integers(2, 900, n))
    rank[~known] = 1001
    share = known & (rng.random(n) < tied)
    n_tied = np.where(share, rng.integers(2, 5, n), 1)
    ids = np.arange(first, first + n)
    frame = pd.DataFrame(
        {
            "item_id": [f"{start}/{i:06d}" for i in ids],
            "dataset": start.split("/")[0],
            "split": start.split("/")[1],
            "variant": "plain",
            "word_class": None,
            "book_id": None if books is None else [f"novel {i % books}" for i in ids],
            "answer": [f"word{i}" for i in ids],
            "model": "made",
            "system": None,
            "run": "",
            "prediction": [f"word{i}" if ok else "other" for i, ok in zip(ids, correct, strict=True)],
            "correct": correct,
            "p_correct": np.where(rank == 1, 1 / n_tied, 0.0),
            "score_type": "log_prob",
            "log_prob": -rng.gamma(4, 2, n),
            "rank": rank,
            "n_tied": n_tied,
            "n_choices": 1000,
            "known": known,
            "unit": "word",
            "filter": "none",
            "vocabulary_size": 1000,
            "unknown": "unk",
        }
        | dict.fromkeys(NESTED)
    )
    return schema.check_predictions(frame.assign(**columns))


def scores(frame):
    """Make the same predictions of a model that gives scores."""
    return schema.check_predictions(frame.assign(score_type="score", log_prob=np.nan))


def unknown_answers(frame):
    """Make the same predictions for items whose answers nobody knows."""
    return schema.check_predictions(
        frame.assign(
            answer=None, correct=None, p_correct=np.nan, log_prob=np.nan, rank=None, n_tied=None, known=None
        )
    )


def uniform(n, vocabulary):
    """Make predictions of the model that finds each of some words as likely as the others."""
    return made(n, right=0, oov=0, log_prob=-np.log(vocabulary), rank=1, n_tied=vocabulary,
                p_correct=1 / vocabulary, vocabulary_size=vocabulary)  # fmt: skip


def run(frame, name="run", **info):
    """Make a run that holds predictions."""
    return SimpleNamespace(run=name, predictions=frame, info=info)


def items_of(frame, **columns):
    """Make the items that made predictions are about."""
    rows = [
        cloze(f"It rained . The dog saw {{{answer}}} .", item_id=item_id, dataset="lambada")
        for item_id, answer in zip(frame["item_id"], frame["answer"], strict=True)
    ]
    table = Items.from_records(rows).frame
    return Items(table.assign(**columns))
