"""A small n-gram model with the scores that the sentence-completion systems use, for their tests."""

from collections import Counter

import numpy as np
from nltk.util import everygrams

from workbench.models.base import Predictor, pad
from workbench.models.item_words import passages


class ToyNGram(Predictor):
    """Add-one n-grams of some sentences."""

    def __init__(self, lines, order=3):
        self.lines, self.order = list(lines), order
        self.name, self.score_type = f"toy {order}-gram", "log_prob"
        self.counts = Counter()
        for line in self.lines:
            self.counts.update(everygrams(["<s>", *line.split(), "</s>"], max_len=order))
        self.after = Counter()
        for gram, count in self.counts.items():
            self.after[gram[:-1]] += count * (gram[-1] != "<s>")
        self.vocabulary = sorted({gram[0] for gram in self.counts if len(gram) == 1} - {"<s>"})

    systems = {"msrcc": "Smoothed 3-gram"}  # noqa: RUF012 - as in a predictor

    @property
    def config(self):
        return {"lines": self.lines, "order": self.order}

    def p(self, history, word):
        history = tuple(history[max(0, len(history) - self.order + 1) :])
        return (self.counts[(*history, word)] + 1) / (self.after[history] + len(self.vocabulary) + 1)

    def position_scores(self, items, words):
        found = np.full((len(items), max(map(len, words)), self.order + 1), np.nan)
        for i, (_, passage) in enumerate(passages(items, lower=True)):
            left, right = passage.left, passage.right
            for j, word in enumerate(words[i]):
                whole = ["<s>", *left, word, *right, "</s>"]
                for k in range(min(self.order, len(right) + 2)):
                    at = len(left) + 1 + k
                    found[i, j, k] = np.log(self.p(whole[:at], whole[at]))
        return found

    def score(self, items, words):
        found = np.nansum(self.position_scores(items, words), axis=2)
        return pad([list(found[i, : len(row)]) for i, row in enumerate(words)])

    @classmethod
    def _load(cls, folder, config):
        del folder
        return cls(**config)
