"""N-gram models for tests: random ARPA files, a text with strange words, and KenLM asked word by word."""

import os
import random
from collections import Counter
from contextlib import contextmanager
from functools import cache
from itertools import chain, pairwise
from tempfile import TemporaryDirectory
from unittest import mock

import numpy as np
import pytest

from workbench.items.items import items_from_text
from workbench.items.tokens import tokens
from workbench.models.ngram.backoff import SPECIAL, BackOff, finish_levels, level_arrays, write_level
from workbench.models.ngram.model import NGram

STRANGE = [
    '"', "null", "na", "nan", "n/a", "#", "inf", "-inf", "1e5", "-0.5", "true", "\\", "\\2-grams:", "\\end\\",
    "é", "日本", "😀", "``", "''", "don't", "'", "-lrb-", ",", ";", "x\u200by", "e\u0301", "\ufeffx", "ngram",
    "\\data\\",
]  # fmt: skip
_KEPT = TemporaryDirectory(prefix="ngrams-")


class _KenLM:
    """The package ``kenlm``; a test that asks for it is skipped where there is none."""

    def __getattr__(self, name):
        package = pytest.importorskip("kenlm", reason="kenlm's package does not compile on Python 3.13")
        setattr(self, name, getattr(package, name))
        return getattr(package, name)


kenlm = _KenLM()


class Sentences:
    """A corpus in memory: words by falling count, then in the order of the alphabet."""

    def __init__(self, lines):
        seen = Counter(chain(*lines))
        self.lines, self.words = lines, sorted(seen, key=lambda word: (-seen[word], word))
        index = {word: place for place, word in enumerate(self.words)}
        self.ids = np.array([index[word] for word in chain(*lines)], np.uint32)
        self.starts = np.cumsum([0, *map(len, lines)])


def compiled(file, folder, words):
    """Read an ARPA file into arrays, line by line, without waiting for the disk."""
    sections = []
    for line in file.read_text(encoding="utf-8").split("\n"):
        if line.endswith("-grams:") and "\t" not in line:
            sections.append({})
        elif "\t" in line:
            logp, gram, *weight = line.split("\t")
            sections[-1][tuple(gram.split(" "))] = float(logp), float(weight[0] if weight else 0)
    words = [word for word in words if (word,) in sections[0] and word not in SPECIAL]
    rows = np.float32([sections[0][word,] for word in (*words, *SPECIAL)])
    model = BackOff(words, [{"logp": rows[:, 0], "backoff": rows[:, 1]}])
    for n, section in enumerate(sections[1:], 2):
        ids = np.array([model.ids(gram) for gram in section], np.int64).reshape(-1, n)
        key = (model.node(ids[:, :-1]).astype(np.uint64) << np.uint64(32)) | ids[:, -1].astype(np.uint64)
        turn = np.argsort(key)
        rows = np.float32(list(section.values())).reshape(-1, 2)[turn]
        lower = model.log10(ids[:, 1:-1], ids[:, -1:])[turn, 0]
        backoff = rows[:, 1] if n < len(sections) else None  # the highest order is no context
        levels = [*model.levels, level_arrays(key[turn], rows[:, 0], lower, backoff, len(words))]
        model = BackOff(words, levels)
    counts = [len(level["logp"]) for level in model.levels]
    folder.mkdir(parents=True, exist_ok=True)
    sizes = {}
    for n, (count, level) in enumerate(zip(counts, model.levels, strict=True), 1):
        sizes |= write_level(folder, n, count, [level])
    with mock.patch.object(os, "fsync"):
        return finish_levels(folder, words, counts, sizes)


def arpa(grams, path, *, ragged=False):
    """Write an ARPA file; `grams` has for each order a mapping of tuples to (log10, back-off weight)."""
    lines = ["\\data\\", *(f"ngram {order}={len(level)}" for order, level in enumerate(grams, 1)), ""]
    for order, level in enumerate(grams, 1):
        lines.append(f"\\{order}-grams:")
        for gram, (value, weight) in level.items():
            last = order == len(grams) or (ragged and not weight)
            lines.append(f"{value}\t{' '.join(gram)}" + ("" if last else f"\t{weight}"))
        lines.append("")
    path.write_text("\n".join([*lines, "\\end\\", ""]), encoding="utf-8", newline="\n")
    return path


def random_grams(seed, *, n_words=5, order=3, ties=True, gaps=False, share=0.4):
    """Make up n-grams, each with its context; with gaps some lack that are the end of a longer one."""
    chosen = random.Random(seed)  # noqa: S311 - no secret
    words = [*chosen.sample(STRANGE, min(3, n_words)), *(f"w{i}" for i in range(n_words))][:n_words]

    def value():
        return -chosen.randint(1, 6) / 4 if ties else -round(chosen.uniform(0.01, 5), chosen.randint(3, 7))

    def weight():
        high = 0 if gaps else 0.25  # KenLM takes no probability above 1 where it fills a gap
        return chosen.choice([0, 0, -0.25, -0.5, high]) if ties else round(chosen.uniform(-1, high), 6)

    def shuffled(level):
        rows = list(level.items())
        chosen.shuffle(rows)
        return dict(rows)

    def with_values(level):
        return {gram: (value(), 0 if gram[-1] == "</s>" else weight()) for gram in level}

    ends = [*words, "<unk>", "</s>"]
    grams = [shuffled(with_values((word,) for word in ends) | {("<s>",): (-99, weight())})]
    for _ in range(1, order):
        contexts = [gram for gram in grams[-1] if gram[-1] != "</s>"]
        longer = [(*context, word) for context in contexts for word in ends]
        longer = [gram for gram in longer if gram[1:] in grams[-1] and chosen.random() < share]
        if longer:
            grams.append(shuffled(with_values(longer)))
    grams[-1] = {gram: (logp, 0) for gram, (logp, _) in grams[-1].items()}
    for level, longer in pairwise(grams[1:] if gaps else []):
        free = {gram[1:] for gram in longer} - {gram[:-1] for gram in longer}
        for gram in sorted(free)[: max(1, len(level) // 6)]:
            del level[gram]
    return words, grams


class Loop:
    """KenLM asked for every word of a vocabulary, one after the other; ``<s>`` begins a sentence."""

    def __init__(self, file, words):
        self.model, self.words = kenlm.Model(str(file)), list(words)

    def state(self, context):
        state, begin = kenlm.State(), list(context[:1]) == ["<s>"]
        (self.model.BeginSentenceWrite if begin else self.model.NullContextWrite)(state)
        for word in context[begin:]:
            after = kenlm.State()
            self.model.BaseScore(state, word, after)
            state = after
        return state

    def scores(self, context, words=None):
        """Return log10 probabilities as KenLM has them, in single precision."""
        state, after, ask = self.state(context), kenlm.State(), self.model.BaseScore
        words = self.words if words is None else words
        return np.array([ask(state, word, after) for word in words], dtype=np.float32)


def by_value(scores, k):
    """Return the places of the k highest values of each row; of equal ones, the first."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]


@cache
def text(n_lines=4000, n_words=650, seed=0):
    """Make sentences of a Markov chain over strange and made-up words, some of which occur once."""
    rng = np.random.default_rng(seed)
    words = [*STRANGE, *(f"w{i}" for i in range(n_words - len(STRANGE)))]
    rng.shuffle(words)
    after = rng.integers(0, n_words, (n_words, 12))
    lines = []
    for _ in range(n_lines):
        line = [int(n_words * rng.random() ** 3)]
        for _ in range(rng.integers(0, 16)):
            new = int(n_words * rng.random() ** 3)
            line.append(int(after[line[-1], int(12 * rng.random() ** 2)]) if rng.random() < 0.7 else new)
        lines.append(" ".join(words[i] for i in line))
    return tuple(lines)


@contextmanager
def new_home():
    """Let models be written to a folder that is removed, without waiting for the disk."""
    with (
        TemporaryDirectory() as folder,
        mock.patch.dict(os.environ, {"WORKBENCH_HOME": folder}),
        mock.patch.object(os, "fsync"),
    ):
        yield


@cache
def fitted(order=3, smoothing="kneser-ney", vocabulary=550, pruning=None, n_lines=4000):
    """Fit a model of the text, once for all tests."""
    with mock.patch.dict(os.environ, {"WORKBENCH_HOME": _KEPT.name}):
        return NGram.fit(
            list(text(n_lines)), order=order, smoothing=smoothing, vocabulary=vocabulary, pruning=pruning,
            memory="60M" )  # fmt: skip


@cache
def asked(n=150, seed=2):
    """Make items of the text: one to three sentences, a word of the last one is the answer."""
    chosen, lines = random.Random(seed), text()  # noqa: S311 - no secret
    texts, answers = [], []
    while len(texts) < n:
        words = chosen.choice(lines).split()
        place = chosen.choice([0, len(words) - 1, chosen.randrange(len(words))])
        answers.append(chosen.choice(["unheard", "w1"]) if chosen.random() < 0.2 else words[place])
        words[place] = "___"
        before = [f"{chosen.choice(lines)} ." for _ in range(chosen.randint(0, 2))]
        texts.append(" ".join([*before, *words]))
    return items_from_text(texts, answers=answers, tokenised=True, dataset="lambada")


def slow_log_probs(fit, items, words):
    """Return, word by word from KenLM, log-probabilities of words in the blank and of each word after them.

    One list an item, with one a word: one number for each of its tokens, then one for each word after.
    """
    ask, found = Loop(fit.binary, []), []
    known = {*fit.vocabulary, "</s>"}
    for item, row in zip(items, words, strict=True):
        cut = tokens(item)
        lowered = [word.lower() for word in cut.words]
        left, right = lowered[cut.sentences[-1] : cut.target], lowered[cut.end :]
        found.append([])
        for word in row:
            state, values = ask.state(["<s>", *left]), []
            for piece in [*word.lower().split(), *right, "</s>"]:
                after = kenlm.State()
                values.append(ask.model.BaseScore(state, piece if piece in known else "<unk>", after))
                state = after
            found[-1].append([value * np.log(10) for value in values])
    return found
