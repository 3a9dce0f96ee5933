"""A model that looks at windows of the context, drawn by the length of the text."""

import numpy as np

from workbench.items.tokens import tokens
from workbench.models.base import Predictor
from workbench.models.item_words import Attention

HEADS = tuple(f"layer {a}, head {b}" for a in (1, 2) for b in (1, 2, 3))


class Windows(Predictor):
    """Looks at windows of five tokens around every third token before the blank."""

    config = {}  # noqa: RUF012 - as models have it

    def __init__(self, name="windows", rows=("hop 1", "hop 2"), prediction="the"):
        self.name, self.rows, self.prediction = name, rows, prediction
        self.asked = []

    def score(self, items, words):
        return np.zeros((len(items), max(map(len, words), default=0)))

    def choices(self, items):
        return [["the", "b"] for _ in items]

    def attend(self, items):
        looks = []
        for item in items:
            self.asked.append(item.item_id)
            cut = tokens(item)
            spans = [(s, e) for s, e in cut.spans[: cut.target] if s < e]
            windows = [(spans[max(0, k - 2)][0], spans[min(k + 2, len(spans) - 1)][1])
                       for k in range(0, len(spans), 3)]  # fmt: skip
            random = np.random.default_rng(len(item.text))
            weights = random.dirichlet(np.full(len(windows), 0.5), len(self.rows)) if windows else (
                np.zeros((len(self.rows), 0)))  # fmt: skip
            query = (spans[-1][0], item.answer_span[1]) if spans else None
            rows, spans = tuple(self.rows), tuple(windows)
            looks.append(Attention(item.item_id, self.name, rows, spans, weights, query, self.prediction))
        return looks


class Blind(Windows):
    """Cannot say what it looked at."""

    attend = Predictor.attend
