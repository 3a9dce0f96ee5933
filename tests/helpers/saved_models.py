"""A small one of every registered model, and damage to the files of a saved one."""

import completion_server
import torch

from workbench.items.items import items_from_text
from workbench.models import registry
from workbench.models.ngram.model import NGram
from workbench.models.readers.encoding import RESERVED
from workbench.models.readers.reader import Reader
from workbench.texts.corpus import Corpus

WORDS = [f"w{number}" for number in range(12)]
LINES = [" ".join(WORDS[(a * b + b) % 12] for b in range(1, 9)) for a in range(1, 40)]
ITEMS = items_from_text(
    [f"{' '.join(WORDS[:5])} . {WORDS[5]} w1 ___ {WORDS[6]} w3", "w2 w3 . w4 ___ w1"],
    answers=["w7", "w2"], candidates=[["w7", "w3"], ["w1", "w2"]], tokenised=True,
)  # fmt: skip
NETWORKS = {
    "elman": {"width": 4, "layers": 1}, "lstm": {"width": 4, "layers": 1},
    "feed-forward": {"order": 3, "width": 4, "embedded": 3},
    "memory-network": {"memory": 3, "width": 4, "hops": 2},
    "transformer": {"width": 8, "layers": 1, "heads": 2, "inner": 8},
    "sup-cbow": {"dimensions": 4, "hidden": 4}, "query-lstm": {"width": 4, "layers": 1},
}  # fmt: skip
BELOW = {"reversed", "generating", "positional", "next-word", "word-two-on"}
UNSAVED = {"server"}
"""Families that have no files."""
PRETRAINED = {"causal-lm": "bytes", "masked-lm": "bert"}


def made(name, folders):
    """Return a model by its registered name; `folders` gives that of a tiny transformer."""
    kind = registry.model_class(name)
    if name in PRETRAINED:
        options = {"vocabulary": WORDS} if name == "causal-lm" else {}
        return kind(folders(PRETRAINED[name]), device="cpu", **options)
    if name in NETWORKS:
        info = {"sizes": {**kind.sizes, **NETWORKS[name]}, "lower": True, "unknown_types": 3}
        torch.manual_seed(0)
        counts = [5] * (len(WORDS) + 1)
        network = kind._build(info, counts).eval()
        return kind(network, vocabulary=WORDS, info=info, counts=counts, device="cpu")
    if issubclass(kind, Reader):
        torch.manual_seed(0)
        info = {"sizes": {**kind.sizes, "width": 8}, "lower": True}
        network = kind._build(len(WORDS) + RESERVED, info["sizes"]).eval()
        return kind(network, words=WORDS, info=info, device="cpu")
    if name == "cached-neural":
        return made("lstm", folders).cached(0.2)
    if name in BELOW | {"ngram", "cached-ngram"}:
        ngram = NGram.fit(LINES, order=3, memory="60M")
        return ngram if name == "ngram" else ngram.cached(0.2) if name == "cached-ngram" else kind(ngram)
    corpus = Corpus.of(LINES)
    special = {
        "random-word": lambda: kind(vocabulary=WORDS),
        "maximum-frequency": lambda: kind("corpus", corpus=corpus),
        "lsa": lambda: kind.fit(corpus, dimensions=4, minimum=1),
        "cbow": lambda: kind.fit(corpus, dimensions=4, epochs=1),
        "simple-4-gram": lambda: kind.fit(corpus),
        "ensemble": lambda: kind([made("elman", folders), made("word-distance", folders)]),
        "boosted": lambda: kind(NGram.fit(LINES, order=3, memory="60M", after=False), k=1, alpha=0.3),
        "server": lambda: kind(completion_server.week_server()),
        "exclude-cooccurring": lambda: kind(made("word-distance", folders)),
    }
    return special.get(name, kind)()
