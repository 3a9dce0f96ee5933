"""Networks whose probabilities are known, small ones of each family, items, and slow loops over a passage."""

import math
from collections import Counter

import numpy as np
import torch
from torch import nn

from workbench.items.items import items_from_text
from workbench.models.neural.feedforward import FeedForwardModule
from workbench.models.neural.memory import MemoryModule
from workbench.models.neural.model import Neural
from workbench.models.neural.network import ContextStates, Copies, LanguageModule, class_ids
from workbench.models.neural.recurrent import RecurrentModule
from workbench.models.neural.softmax import softmax
from workbench.models.neural.transformer import TransformerModule

V = 12
WORDS = [f"w{number}" for number in range(1, V + 1)]
N_WORDS = V + 1
TYPES = 4
TABLE = np.random.default_rng(5).dirichlet(np.full(N_WORDS, 0.5), N_WORDS)
TABLE[3, 4:9] = TABLE[3, 4:9].mean()  # after w3 five words are equal
TABLE[4] = np.where(np.arange(N_WORDS) == 7, 0.4, 0.6 / V)  # after w4 comes w7, else all are equal
SHARE = math.log(TYPES)
COPIED = 0.4
CLOSE = 2e-5  # ln p in single precision
COPY = {"copying", "transformer", "short-sighted"}
COUNTS = [30, *range(3 * V, 2 * V, -1)]
INFO = {"lower": True, "unknown_types": TYPES, "sizes": {}, "training_text": {"sha256": "planted"}}

TEXTS = [
    "w1 w2 . w3 ___",
    "w5 w1 w2 w3 w4 . w2 w1 w4 ___",
    "never w1 . never seen ___",
    "never w1 w2 . w2 seen never w2 ___",
    "W3 ___",
    "___ w1 w2",
    "w9 w8 w7 w6 . w5 never never . w2 never seen w1 ___ . w4",
    "w1 w1 w1 w1 w1 w2 w1 w1 w1 w1 w3 w1 w1 w1 w1 w1 w10 ___",
]
ANSWERS = ["w5", "w7", "w2", "never", "W4", "w1", "other", "never seen"]
ITEMS = items_from_text(TEXTS, answers=ANSWERS, tokenised=True, split="test")
CHOICES = [
    ["w1", "w5", "never"],
    ["w7", "w7 w2", "w8"],
    ["w2", "never", "seen never"],
    ["never", "other"],
    ["W4", "w5"],
    ["w1", "w2"],
    ["other", "w2", "w2 other", "never w2 other"],
    ["never seen", "w1"],
]
CHOSEN = items_from_text(TEXTS, answers=ANSWERS, candidates=CHOICES, tokenised=True, split="test")


class Planted(LanguageModule):
    """The word after a word is drawn from its row of `TABLE`; the state is the last word."""

    def __init__(self, *, carried=True):
        super().__init__()
        self.n_words, self.width, self.window, self.stateful = N_WORDS, N_WORDS, None, carried
        self.rows = nn.Parameter(torch.from_numpy(np.log(TABLE)).float())
        self.output = softmax("full", N_WORDS, COUNTS)
        with torch.no_grad():
            self.output.words.copy_(torch.eye(N_WORDS))
            self.output.bias.zero_()
        self.asked = []

    def states(self, ids, state=None):  # noqa: ARG002 - the last word says it
        assert ids.max() < self.n_words, "the ids are not clamped"
        self.asked.append(tuple(ids.shape))
        return self.rows[ids], (ids[:, -1:],) if self.stateful else None


class Copying(Planted):
    """Planted, and with the probability `COPIED` a word of the context, the later the likelier."""

    def _shares(self, n):
        return torch.arange(1, n + 1) / (n * (n + 1) / 2) * COPIED

    def last(self, ids, lengths):
        copy = torch.zeros(ids.shape, device=ids.device)
        for row, n in enumerate(lengths.tolist()):
            copy[row, :n] = self._shares(n)
        copies = Copies(ids, copy, torch.full_like(copy[:, 0], math.log(1 - COPIED)))
        return ContextStates(super().last(ids, lengths).hidden, copies)

    def following(self, ids, state=None, *, start=0, share=SHARE):  # noqa: ARG002 - nothing is carried
        plain = super().following(ids) - share * (ids[:, 1:] >= N_WORDS)
        mass = torch.zeros_like(plain)
        for place in range(1, ids.shape[1]):
            same = ids[:, :place] == ids[:, place : place + 1]
            mass[:, place - 1] = (same * self._shares(place).to(ids.device)).sum(1)
        return ((1 - COPIED) * plain.exp() + mass).log()[:, start:]


def networks():
    """Give a small network of each family, its weights drawn."""
    torch.manual_seed(3)
    sizes = {"unknown_types": TYPES, "width": 16, "layers": 1, "heads": 2, "pointer_size": 8}
    made = {
        "lstm": RecurrentModule(COUNTS, cell="lstm", width=8, layers=2),
        "rnn": RecurrentModule(COUNTS, cell="rnn", width=8, tied=False),
        "forward": FeedForwardModule(COUNTS, width=8),
        "memory": MemoryModule(COUNTS, width=8),
        "transformer": TransformerModule(COUNTS, **sizes, window=40, dropout=0.3),
        "short-sighted": TransformerModule(COUNTS, **sizes, window=12),
    }
    made["rnn"].output = softmax("adaptive", 8, COUNTS, cutoffs=[5])
    for network in made.values():
        with torch.no_grad():
            for weight in network.parameters():
                weight.add_(torch.randn(weight.shape) * 0.3)
    known_ones = {
        "planted": Planted(),
        "not carried": Planted(carried=False),
        "copying": Copying(carried=False),
    }
    return known_ones | made


class Ours(Neural):
    title = "planted"


def model(network, device="cpu", **options):
    return Ours(network, vocabulary=WORDS, info=INFO, counts=COUNTS, device=device, **options)


def one(network, context):
    """Return the probability of each class after one context, the softmax's share, and {copied id: p}."""
    ids = torch.tensor([context], device=next(network.parameters()).device)
    with torch.no_grad():
        hidden, copies = network.eval().last(ids, torch.tensor([len(context)], device=ids.device))
        if copies is None:
            hidden = network.states(class_ids(ids, network.n_words))[0][0, -1:]
        p = network.output.distribution(hidden)[0].double().exp().cpu().numpy()
    copied = Counter()
    if copies is None:
        return p, 1.0, copied
    for number, share in zip(copies.ids[0].tolist(), copies.copy[0].tolist(), strict=True):
        copied[number] += share if number else 0.0
    return p, math.exp(float(copies.keep[0])), +copied


def log_prob(network, context, number, types):
    """Return ln p of one extended id after one context."""
    p, keep, copied = one(network, context)
    return math.log((p[number] if number < len(p) else p[0] / types) * keep + copied[number])


def slow(model, items):
    """Return for each item ln p of the answer, and [(ln p, word)] of all that is ranked."""
    network, types, reader = model.scorer().network, math.exp(model.unknown_share), model.encoder
    results = []
    for (item, blank), answer in zip(reader.blanks(items), items.frame["answer"], strict=True):
        p, keep, copied = one(network, cut(network, blank.ids))
        words = {word: p[number] * keep + copied[number] for number, word in enumerate(model.vocabulary, 1)}
        for number, share in copied.items():
            if number >= len(p):
                words[blank.unknown[number - len(p)]] = p[0] / types * keep + share
        line, total = list(blank.ids), 0.0
        for number in reader.word(item, answer, blank):
            total += log_prob(network, cut(network, line), number, types)
            line.append(number)
        results.append((total, sorted(((math.log(p), word) for word, p in words.items()), reverse=True)))
    return results


def slow_scores(model, items, words, *, copies):
    """Return ln p of each word in the blank and of the words after it, one after the other."""
    network, types, reader = model.scorer().network, math.exp(model.unknown_share), model.encoder
    scores = []
    for (item, blank), choices in zip(reader.blanks(items), words, strict=True):
        scores.append([])
        right = blank.right if model.after else ()
        for word in choices:
            pieces = reader.word(item, word, blank)
            line, total = list(blank.ids), 0.0
            whole = [*blank.ids, *pieces, *right]
            for place, number in enumerate((*pieces, *right)):
                of_one = copies or place < len(pieces)  # of the words after it, all of <unk> counts
                context = cut(network, line)
                if place and not network.stateful:  # what follows is read at once, within one window
                    context = line[len(whole) - len(cut(network, whole, 1)) :]
                total += log_prob(network, context, number, types if of_one else 1.0)
                line.append(number)
            scores[-1].append(total)
    return scores


def cut(network, line, more=0):
    return list(line) if network.window is None else list(line)[-network.window - more :]
