"""Models to ask in tests: one that counts, one that waits until it is let go, one that fails, and others."""

import threading

import numpy as np

from workbench.models.base import Predictor, pad
from workbench.models.item_words import passages
from workbench.storage.errors import DataError

WORDS = ("keeper", "baker", "boat", "storm", "the", "a", "was", "man", "rock", "<b>bold</b>", ",", ".")


class Counting(Predictor):
    """Add-one shares of its words in the passage."""

    score_type = "log_prob"

    def __init__(self, name="counting", words=WORDS):
        self.name, self.vocabulary = name, list(words)
        self.asked = []

    @property
    def config(self):
        return {"name": self.name}

    def form(self, word):
        return word.lower()

    def logs(self, items):
        rows = []
        for _, passage in passages(items, lower=True):
            counts = np.array([1 + 3 * passage.words.count(word) for word in self.vocabulary], dtype=float)
            rows.append(np.log(counts / counts.sum()))
        return np.array(rows).reshape(len(rows), len(self.vocabulary))

    def score(self, items, words):
        place = {word: i for i, word in enumerate(self.vocabulary)}
        rows = self.logs(items)
        return pad([[row[place[w.lower()]] if w.lower() in place else -20.0 for w in some]
                    for row, some in zip(rows, words, strict=True)])  # fmt: skip

    def distribution(self, items, *, chunk=256):
        del chunk
        yield self.logs(items)

    def predict(self, items, top_k=10, *, seed=0):
        self.asked.append([item.text for item in items])
        return super().predict(items, top_k, seed=seed)


class Gated(Counting):
    """The same, once it is let go: `gate` opens the way for all that ask, `entered` tells that one does."""

    def __init__(self, name="slow", words=WORDS):
        super().__init__(name, words)
        self.gate, self.entered = threading.Event(), threading.Event()

    def predict(self, items, top_k=10, *, seed=0):
        self.entered.set()
        if not self.gate.wait(1800):  # as PATIENCE; this file is also a cell of notebooks
            raise TimeoutError("nobody opened the gate")
        return super().predict(items, top_k, seed=seed)


class Searching(Gated):
    """Has a bound of the rank at once, and the exact one once it is let go."""

    budget = 1000

    def predict(self, items, top_k=10, *, seed=0):
        if self.budget:
            return super().predict(items, top_k, seed=seed)
        frame = Counting.predict(self, items, top_k, seed=seed)
        return frame.assign(rank_is_bound=frame["rank"] > 1, rank=1)


class Failing(Counting):
    """Fails, always or where the passage holds a word."""

    def __init__(self, name="failing", error=None, word=""):
        super().__init__(name)
        self.error = error or DataError("it ranks no <i>vocabulary</i>", hint="give candidates")
        self.word = word

    def predict(self, items, top_k=10, *, seed=0):
        if any(self.word in item.text for item in items):
            raise self.error
        return super().predict(items, top_k, seed=seed)


class Scoring(Counting):
    """Scores that are no probabilities."""

    def __init__(self, name="scoring"):
        super().__init__(name)
        self.score_type, self.vocabulary = "score", None

    def choices(self, items):
        return super().choices(items) or [["keeper", "boat", "sea"] for _ in items]

    def score(self, items, words):
        return pad([[-float(len(word)) for word in row] for _, row in zip(items, words, strict=True)])
