"""Items and predictions that are made of a hostile string."""

import pandas as pd
from made_predictions import made

import workbench as wb


def predicted(text, n=20, seed=0, **columns):
    """Return predictions whose words, model, sets and answers are such a string."""
    rows = made(n, seed=seed, right=0.5)
    named = {"item_id": [f"{text}/{k}" for k in range(n)], "answer": text, **columns}
    rows = rows.assign(
        dataset=text, split=text, model=f"{text}{seed}", top_words=[[text, f"{text}!", "."]] * n,
        top_log_probs=[[-0.5, -1.5, -2.5]] * n, **named,
    )  # fmt: skip
    return rows.assign(prediction=rows["answer"].where(rows["correct"].astype(bool), f"{text}!"))


def items_of(text):
    """Return items whose text, answer, candidates and further column are such a string."""
    word = text.strip() or "x"
    rows = {
        "text": [f"{word} said . She saw ___ {word}"] * 2,
        "answer": word,
        "candidates": [[word, "b"]] * 2,
    }
    return wb.items_from_frame(
        pd.DataFrame(rows | {"kind": [word, "b"]}), candidates="candidates", dataset="d"
    )


def predictions_of(text, items):
    ids = items.frame["item_id"].tolist()
    answers = items.frame["answer"].to_numpy()
    return [predicted(text, 2, seed=k, item_id=ids, answer=answers) for k in range(2)]
