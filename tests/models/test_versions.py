"""Results of every model are stored with its `version`: whoever changes results raises the version.

``python tests/models/test_versions.py`` stores the results of new models and raised versions, no others.
"""

import inspect
import json
import os
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch

import workbench as wb
from workbench.items.items import Items
from workbench.models import registry
from workbench.models.base import Predictor
from workbench.models.baselines.chance import RandomWord
from workbench.models.baselines.passage_baseline import MaximumFrequency, SlidingWindow, WordDistance
from workbench.models.completion.positional import NextWord, Positional, Reversed, WordTwoOn
from workbench.models.completion.simple import Simple4Gram
from workbench.models.ensemble import Ensemble
from workbench.models.exclusion import ExcludeCooccurring
from workbench.models.lsa import LSA
from workbench.models.neural.feedforward import FeedForward
from workbench.models.neural.memory import MemoryNetwork
from workbench.models.neural.recurrent import LSTM, ElmanRNN
from workbench.models.neural.sup_cbow import SupCBOW
from workbench.models.neural.transformer import PointerTransformer
from workbench.models.ngram.model import NGram
from workbench.models.readers.attention_sum import AttentionSum
from workbench.models.readers.attentive import AttentiveReader
from workbench.models.readers.embedding import EmbeddingReader
from workbench.models.readers.gated_attention import GatedAttention
from workbench.models.readers.lstm import ContextualLSTM, QueryLSTM
from workbench.models.readers.memory import LexicalMemory, SententialMemory, WindowMemory
from workbench.models.vectors import CBOW
from workbench.runs.model_versions import VERSIONS
from workbench.texts.corpus import Corpus

pytestmark = pytest.mark.usefixtures("module_home")

FILE = Path(__file__).parent / "results.json"
COLUMNS = ("prediction", "log_prob", "rank", "candidate_scores")
TIE = 2e-4  # log-probabilities that are closer than this may be in another order on another machine


@cache
def corpus():
    return Corpus.of(list(wb.books("sample"))[:3])


def ngram(**options):
    return NGram.fit(corpus(), **{"order": 3, "vocabulary": 800, "memory": "60M"} | options)


def neural(kind, **options):
    how = {"vocabulary": 400, "tokens": 2000, "rows": 8, "device": "cpu"} | options
    return kind.fit(corpus(), **how)


def reader(kind, n=None, **options):
    """Train a reader on the questions of the sample, or on the first `n`."""
    how = {"vocabulary": 800, "epochs": 2, "rows": 8, "device": "cpu"} | options
    return kind.fit(wb.load("sample", variant="cbt")[:n], **how)


MODELS = {
    "random": lambda: RandomWord("passage"),
    "random capital": lambda: RandomWord("capitalised"),
    "frequency": lambda: MaximumFrequency("context"),
    "frequency of a corpus": lambda: MaximumFrequency("corpus", corpus=corpus()),
    "sliding window": SlidingWindow,
    "word distance": WordDistance,
    "Kneser-Ney": ngram,
    "Good-Turing": lambda: ngram(smoothing="good-turing"),
    "n-gram with cache": lambda: ngram().cached(0.2, decay=0.9),
    "lowest": lambda: Reversed(ngram()),
    "positional": lambda: Positional(ngram()),
    "next word": lambda: NextWord(ngram()),
    "word two on": lambda: WordTwoOn(ngram()),
    "simple 4-gram": lambda: Simple4Gram(corpus()),
    "LSA": lambda: LSA.fit(corpus(), dimensions=20),
    "CBOW": lambda: CBOW.fit(corpus(), dimensions=20, epochs=1, vocabulary=800),
    "Elman": lambda: neural(ElmanRNN, width=12),
    "LSTM": lambda: neural(LSTM, width=12),
    "LSTM with cache": lambda: neural(LSTM, width=12).cached(0.2),
    "feed-forward": lambda: neural(FeedForward, width=12),
    "memory network": lambda: neural(MemoryNetwork, width=12),
    "Sup-CBOW": lambda: neural(SupCBOW, dimensions=12, hidden=12, passages=100, tokens=None, epochs=1),
    "lexical memory": lambda: reader(LexicalMemory, width=8, memory=20, hops=2),
    "sentential memory": lambda: reader(SententialMemory, width=8),
    "window memory": lambda: reader(WindowMemory, width=8, self_supervised=True),
    "soft window memory": lambda: reader(WindowMemory, width=8, hops=2),
    "embedding reader": lambda: reader(EmbeddingReader, width=12),
    "attention-sum reader": lambda: reader(AttentionSum, 40, width=12, embedded=12),
    "gated-attention reader": lambda: reader(GatedAttention, 40, width=12, embedded=12),
    "attentive reader": lambda: reader(AttentiveReader, 40, width=12, embedded=12),
    "query LSTM": lambda: neural(QueryLSTM, lower=True, reads="query", width=12),
    "contextual LSTM": lambda: reader(ContextualLSTM, width=12),
    "transformer": lambda: neural(PointerTransformer, width=16, layers=1, heads=2),
    "ensemble": lambda: Ensemble([ngram(), neural(LSTM, width=12)]),
    "boosted": lambda: ngram().cached(0.2).boosted(k=4, alpha=0.5),
    "words of the query excluded": lambda: ExcludeCooccurring(MaximumFrequency("context")),
}

CHOOSING = ("lowest", "positional", "next word", "word two on", "simple 4-gram", "LSA", "ensemble")
"""Those that choose from candidates and rank no vocabulary."""


def items(name):
    """Return a few passages, questions and completions of the sample."""
    return few(name not in CHOOSING)


@cache
def few(passages):
    sizes = {"capitalised": 6 * passages, "cbt": 5, "msrcc": 5}
    return Items.concat([wb.load("sample", variant=name).sample(n) for name, n in sizes.items() if n])


def is_stored(model, stored):
    """Tell whether results of the model's version are stored."""
    return stored.get("version") == type(model).version


def results(name, model):
    """Return the version of a model and some columns of its predictions, as JSON holds them."""
    frame = model.predict(items(name), 1)
    columns = json.loads(frame[list(COLUMNS)].to_json(orient="split", double_precision=8))["data"]
    return {"version": type(model).version, **dict(zip(COLUMNS, zip(*columns, strict=True), strict=True))}


def numbers(rows):
    flat = [value for row in rows for value in (row if isinstance(row, list) else [row])]
    return np.array([np.nan if value is None else value for value in flat], dtype=float)


def near_tie(model, item, prediction, expected):
    """Tell whether the model prefers one word to the other by no more than rounding."""
    return prediction == expected or abs(np.diff(model.score(item, [[prediction, expected]])[0])[0]) < TIE


def near_ranks(model, item, rank, expected):
    """Tell whether two ranks differ by no more than the other words that are as probable as the answer."""
    if rank == expected:
        return True
    [values] = next(model.distribution(item))
    return abs(rank - expected) <= (abs(values - model.log_prob(item)[0]) < TIE).sum() - 1


@pytest.mark.parametrize("name", MODELS)
def test_results_are_those_stored_with_the_version(name):
    torch.set_num_threads(1)
    model = MODELS[name]()
    stored = json.loads(FILE.read_text(encoding="utf-8")).get(name, {})
    assert is_stored(model, stored), f"store the results of the new version: python {__file__}"
    now = results(name, model)
    asked = items(name)
    same = [
        np.allclose(numbers(now[column]), numbers(stored[column]), rtol=1e-3, atol=1e-5, equal_nan=True)
        for column in ("log_prob", "candidate_scores")
    ]
    for column, near in {"prediction": near_tie, "rank": near_ranks}.items():
        rows = enumerate(zip(now[column], stored[column], strict=True))
        same += [near(model, asked[row : row + 1], *pair) for row, pair in rows]
    assert all(same), f"{name} gives other results: raise `version` of the class, then write them anew"


def test_every_model_declares_its_version():
    def kinds(kind):
        return {kind}.union(*map(kinds, kind.__subclasses__()))

    ours = [kind for kind in kinds(Predictor) if kind.__module__.startswith("workbench.")]
    public = [kind for kind in ours if not inspect.isabstract(kind) and not kind.__name__.startswith("_")]
    assert {kind.__name__ for kind in public if "version" not in vars(kind)} <= {"Neural", "Reader"}


def test_the_list_of_versions_is_that_of_the_classes():
    """A stored run of a lower version is listed as outdated: what is listed has to follow the classes."""
    declared = {}
    for name in registry.BUILT_IN:
        kind = registry.model_class(name)
        declared[f"{kind.__module__}:{kind.__qualname__}"] = kind.version
    assert {name: version for name, version in declared.items() if version != 1} == VERSIONS


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        os.environ["WORKBENCH_HOME"] = folder
        stored, kept = json.loads(FILE.read_text(encoding="utf-8")), {}
        for name, make in MODELS.items():
            model, before = make(), stored.get(name, {})
            kept[name] = before if is_stored(model, before) else results(name, model)
        FILE.write_text(json.dumps(kept) + "\n", encoding="utf-8")
    sys.stdout.write(f"wrote {FILE}\n")
