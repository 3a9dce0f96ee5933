"""Golden files: numbers that stay the same whatever is renamed, moved or made simpler in the package.

They are the predictions of every family of models, the losses of trainings, measures and tests, and
annotations. Only public names are used, and only named columns are read. To write all files anew::

    WRITE_GOLDEN=1 OMP_NUM_THREADS=1 .venv/bin/python -m pytest tests/golden

The weights in ``weights.safetensors`` stay; for new ones, remove that file before. The annotations of LAMBADA
are written where ``WORKBENCH_DATA`` is set.

Numbers may differ by 1e-5, or 1e-6 of their size; log-probabilities of pretrained models by 1e-4; all else is
equal. Losses of a new training may differ by 1e-5 of their size: on other processors sums are rounded in
another way (4e-7 without AVX), and a learning rate that is 1 % higher moves losses by 1e-4.
"""

import hashlib
import json
import math
import os
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file

import workbench as wb
from workbench import models
from workbench.models.registry import model_names

pytestmark = pytest.mark.usefixtures("module_home", "one_thread")

HERE = Path(__file__).parent
WEIGHTS = HERE / "weights.safetensors"
WRITE = bool(os.environ.get("WRITE_GOLDEN"))
COLUMNS = ("prediction", "correct", "p_correct", "log_prob", "rank", "n_tied", "candidate_scores")
MEASURES = (
    "n", "n_known", "n_tied_items", "accuracy", "accuracy_low", "accuracy_high", "expected_accuracy",
    "accuracy_known", "n_perplexity", "perplexity", "perplexity_low", "perplexity_high", "bits",
    "median_rank", "median_rank_low", "median_rank_high",
)  # fmt: skip
TESTED = (
    "n", "accuracy_a", "accuracy_b", "difference", "interval", "p_value", "mde", "n_only_a", "n_only_b",
    "n_units", "log_prob_difference", "log_prob_interval", "log_prob_p_value",
)  # fmt: skip
ANNOTATIONS = (
    "target_pos", "target_class", "target_lemma", "in_context", "lemma_in_context", "n_mentions",
    "n_context_mentions", "mention_distance", "mention_sentence", "same_root", "vocative", "direct_speech",
    "target_in_speech", "n_context_sentences", "n_tokens", "mentions", "speech", "pipeline",
)  # fmt: skip
LEARNING_RATE = 0.03  # so high that few steps change the losses
CHOOSING = (
    "reversed", "generating", "positional", "next-word", "word-two-on", "simple-4-gram", "lsa", "ensemble",
    "masked-lm",
)  # fmt: skip
"""Those that choose from candidates and rank no vocabulary."""


@pytest.fixture(scope="module")
def one_thread():
    torch.set_num_threads(1)


@cache
def sample(rows):
    """Return so many items of each split and variant of the sample, no item twice."""
    parts, seen = [], set()
    for split in ("test", "train", "dev", "control", "rejected"):
        passages = ("plain", "capitalised", "openai")
        for variant in passages + ("cbt", "msrcc") * (split not in {"control", "rejected"}):
            items = wb.load("sample", split, variant=variant)
            items = items.where(~items.frame["item_id"].isin(seen).to_numpy())
            items = items.where(np.arange(len(items)) % (len(items) // rows) == 0)[:rows]
            seen |= set(items.frame["item_id"])
            parts.append(items)
    return wb.Items.concat(parts)


def items_of(case):
    """Return the items that a model is asked, few where it takes long."""
    if case.startswith("causal-lm"):
        return sample(1)[2 :: 4 if "smollm2" in case else 2]
    items = sample(3)
    items = items.where(items.frame["candidates"].notna()) if case.startswith(CHOOSING) else items
    return items[2:4] if case == "masked-lm" else items


@cache
def books():
    return list(wb.books("sample", "train"))


@cache
def ngram(**options):
    return models.NGram.fit(books(), order=3, memory="60M", **options)


@cache
def words():
    """Return the most frequent words and those of the items: a small network knows all candidates."""
    frame = sample(3).frame
    choices = [*frame["answer"], *(word for row in frame["candidates"].dropna() for word in row)]
    return tuple(sorted({*(word.lower() for word in choices), *[*ngram().vocabulary][:300]}))


def network(kind, **options):
    """Train a network on 8 steps of text."""
    how = {"width": 12, "vocabulary": words(), "rows": 8, "length": 35, "tokens": 8 * 8 * 35} | options
    return kind.fit(books(), device="cpu", log_every=1, learning_rate=LEARNING_RATE, **how)


def reader(kind, questions, **options):
    """Train a reader on 4 batches of questions, twice."""
    how = {"width": 8, "vocabulary": 1000, "rows": questions // 4, "epochs": 2} | options
    items = wb.load("sample", variant="cbt")[:questions]
    return kind.fit(items, device="cpu", log_every=1, learning_rate=LEARNING_RATE, **how)


TRAINED = {
    "elman": lambda: network(models.ElmanRNN),
    "lstm": lambda: network(models.LSTM),
    "lstm: adaptive softmax": lambda: network(models.LSTM, width=16),
    "feed-forward": lambda: network(models.FeedForward),
    "memory-network": lambda: network(models.MemoryNetwork),
    "transformer": lambda: network(models.PointerTransformer, width=16, layers=1, heads=2),
    "query-lstm": lambda: network(models.QueryLSTM, lower=True, reads="query"),
    "sup-cbow": lambda: models.SupCBOW.fit(
        books(), dimensions=12, hidden=12, passages=100, vocabulary=words(), rows=16, epochs=1, device="cpu",
        log_every=1, learning_rate=LEARNING_RATE,
    ),
    "cbow": lambda: models.CBOW.fit(books(), dimensions=12, epochs=1, vocabulary=800),
    "embedding-reader": lambda: reader(models.EmbeddingReader, 80),
    "contextual-lstm": lambda: reader(models.ContextualLSTM, 40),
    "lexical-memory": lambda: reader(models.LexicalMemory, 80, memory=20, hops=2),
    "sentential-memory": lambda: reader(models.SententialMemory, 80),
    "window-memory": lambda: reader(models.WindowMemory, 80, hops=2),
    "window-memory: self-supervised": lambda: reader(models.WindowMemory, 80, self_supervised=True),
    "attention-sum": lambda: reader(models.AttentionSum, 16, embedded=8),
    "gated-attention": lambda: reader(models.GatedAttention, 8, embedded=8, epochs=1),
    "attentive-reader": lambda: reader(models.AttentiveReader, 16, embedded=8),
}  # fmt: skip
"""Short trainings, always the same."""

FITTED = {
    "random-word": lambda: models.RandomWord("passage"),
    "random-word: capitalised": lambda: models.RandomWord("capitalised"),
    "maximum-frequency": lambda: models.MaximumFrequency("context"),
    "sliding-window": models.SlidingWindow,
    "word-distance": models.WordDistance,
    "ngram": ngram,
    "ngram: good-turing": lambda: ngram(smoothing="good-turing"),
    "cached-ngram": lambda: ngram().cached(0.2, decay=0.9),
    "reversed": lambda: models.Reversed(ngram()),
    "generating": lambda: models.Generating(ngram()),
    "positional": lambda: models.Positional(ngram()),
    "next-word": lambda: models.NextWord(ngram()),
    "word-two-on": lambda: models.WordTwoOn(ngram()),
    "simple-4-gram": lambda: models.Simple4Gram.fit(books()),
    "lsa": lambda: models.LSA.fit(books(), dimensions=20),
    "cached-neural": lambda: saved_model("lstm").cached(0.2),
    "ensemble": lambda: models.Ensemble([ngram(), saved_model("lstm")]),
    "exclude-cooccurring": lambda: models.ExcludeCooccurring(models.MaximumFrequency("context")),
    "boosted": lambda: ngram().cached(0.2).boosted(k=4, alpha=0.5),
}
"""Models that count, and those that stand on others."""


def causal(model, **options):
    return models.CausalLM(model, device="cpu", vocabulary=list(ngram().vocabulary), **options)


PRETRAINED = {
    "causal-lm": lambda get: causal(get("folders")("bytes")),
    "causal-lm: greedy": lambda get: causal(
        get("folders")("bytes"), text="detokenised", correct="greedy", candidates="rest"
    ),
    "causal-lm: smollm2": lambda get: causal(get("smollm")),
    "masked-lm": lambda get: models.MaskedLM(get("folders")("bert"), device="cpu"),
}
"""Made by a function that gets the fixture of a name: tiny models with drawn weights, and a real one."""


@cache
def trained_model(case):
    return TRAINED[case]()


@cache
def saved_model(case):
    """Return a trained model with the stored weights, after it was saved and loaded."""
    model = trained_model(case)
    weights = stored_weights(case, arrays(model))
    if hasattr(model, "network"):
        model.network.load_state_dict(weights)
    else:
        model.vectors.arrays.update({name: tensor.numpy() for name, tensor in weights.items()})
    folder = Path(os.environ["WORKBENCH_HOME"], "golden", case.replace(": ", "-"))
    model.save(folder)
    again = type(model).load(folder)
    again.device = "cpu"
    return again


def arrays(model):
    if hasattr(model, "network"):
        return model.network.state_dict()
    return {name: torch.from_numpy(np.array(getattr(model, name))) for name in ("input", "output")}


def stored_weights(case, current):
    stored = load_file(WEIGHTS) if WEIGHTS.exists() else {}
    if WRITE and f"{case}/{next(iter(current))}" not in stored:
        stored |= {f"{case}/{name}": tensor.half() for name, tensor in current.items()}
        save_file(dict(sorted(stored.items())), WEIGHTS)
    return {name: stored[f"{case}/{name}"].float() for name in current}


@cache
def fitted_model(case):
    return FITTED[case]()


def columns_of(frame, names):
    """Return columns of a frame as JSON has them."""
    rows = json.loads(frame[list(names)].to_json(orient="split", double_precision=7))["data"]
    return {name: [row[number] for row in rows] for number, name in enumerate(names)}


def predictions(model, items, atol=1e-5):
    """Return the columns of the predictions, after a look at the arrays that should say the same."""
    frame = model.predict(items)
    assert frame["item_id"].tolist() == items.frame["item_id"].tolist()
    first, start = items[:12], frame[:12]
    np.testing.assert_allclose(model.log_prob(first), start["log_prob"], rtol=1e-5, atol=atol)
    mask = first.frame["candidates"].notna().to_numpy()
    questions = first.where(mask)
    scores = model.score(questions, questions.frame["candidates"].tolist())
    for row, values in zip(scores, start["candidate_scores"][mask], strict=True):
        np.testing.assert_allclose(row[: len(values)], values, rtol=1e-5, atol=atol)
    return columns_of(frame, COLUMNS)


def differences(value, expected, rtol, atol, path=""):
    """Yield where two values of JSON differ."""
    if isinstance(expected, dict | list) and type(value) is type(expected) and len(value) == len(expected):
        keys = expected if isinstance(expected, dict) else range(len(expected))
        for key in keys:
            inner = value.get(key) if isinstance(expected, dict) else value[key]
            yield from differences(inner, expected[key], rtol, atol, f"{path}/{key}")
    elif isinstance(expected, float) and isinstance(value, float | int):
        if not math.isclose(value, expected, rel_tol=rtol, abs_tol=atol):
            yield f"{path}: expected {expected}, got {value}"
    elif value != expected:
        yield f"{path}: expected {expected}, got {value}"


def check(file, case, value, rtol=1e-6, atol=1e-5):
    """Compare a table with the one that is stored under a name, or store it."""
    path = HERE / file
    stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if WRITE:
        stored[case] = value
        tables = []
        for name, table in sorted(stored.items()):
            lines = ",\n".join(f" {json.dumps(key)}: {json.dumps(table[key])}" for key in table)
            tables.append(f"{json.dumps(name)}: {{\n{lines}\n}}")
        path.write_text("{\n" + ",\n".join(tables) + "\n}\n", encoding="utf-8")
    else:
        assert list(differences(value, stored[case], rtol, atol)) == []


@pytest.mark.parametrize("case", FITTED)
def test_predictions_of_models_that_count(case):
    check("predictions.json", case, predictions(fitted_model(case), items_of(case)))


@pytest.mark.parametrize("case", TRAINED)
def test_losses_and_predictions_of_trained_models(case):
    training = getattr(trained_model(case), "training_record", None)
    if training is not None:
        check("losses.json", case, columns_of(training.to_frame(), ["step", "loss"]), rtol=1e-5)
    else:
        means = np.abs(arrays(trained_model(case))["input"].numpy()).mean(axis=0).tolist()
        check("losses.json", case, {"mean size of each dimension": means}, rtol=1e-5)
    check("predictions.json", case, predictions(saved_model(case), items_of(case)))


@pytest.mark.parametrize("case", PRETRAINED)
def test_predictions_of_pretrained_models(case, request):
    items = items_of(case)
    model = PRETRAINED[case](request.getfixturevalue)
    check("predictions.json", case, predictions(model, items, 1e-4), atol=1e-4)


def test_every_family_of_models_is_held():
    families = {case.partition(":")[0] for case in [*FITTED, *TRAINED, *PRETRAINED]}
    assert set(model_names()) - families == {"server"}  # it says what its model says


PAIRS = [("cached-ngram", "ngram"), ("ngram", "word-distance"), ("maximum-frequency", "random-word")]


@cache
def measured_predictions():
    """Return the items, and the predictions of some models by way of stored runs."""
    items = wb.Items.concat([wb.load("sample", variant=name) for name in ("capitalised", "cbt", "msrcc")])
    cases = ("random-word", "maximum-frequency", "word-distance", "ngram", "cached-ngram")
    return items, {case: wb.predict(items, fitted_model(case)).predictions for case in cases}


@pytest.mark.parametrize("by", [None, "variant", "word_class", "target_class"])
def test_measures(by):
    items, frames = measured_predictions()
    annotations = wb.annotate(items) if by == "target_class" else None
    table = wb.evaluate([*frames.values()], by=by, annotations=annotations)
    if by in {"word_class", "target_class"}:  # stored in the alphabetical order of the groups of a model
        models = table["model"].drop_duplicates().tolist()
        table = pd.concat([table[table["model"] == model].sort_values(by) for model in models])
    check("measures.json", f"by {by}", columns_of(table, [*filter(None, ["model", by]), *MEASURES]))


@pytest.mark.parametrize("unit", ["novel", "item"])
@pytest.mark.parametrize("pair", PAIRS)
def test_paired_tests(pair, unit):
    _, frames = measured_predictions()
    sides = [frames[case] if unit == "novel" else frames[case].assign(book_id=None) for case in pair]
    result = wb.significance(*sides)
    table = pd.DataFrame([{name: getattr(result, name) for name in TESTED}])
    check("measures.json", f"{' and '.join(pair)}, by {unit}", columns_of(table, TESTED))


def summary(values):
    """Return a digest of the values of a column, the sum of the numbers among them, and a few of them."""
    numbers = [value for value in values if isinstance(value, bool | int | float)]
    digest = hashlib.sha256(json.dumps(values).encode()).hexdigest()[:16]
    return {"digest": digest, "values": len(values), "sum": sum(numbers), "some": values[::120]}


def test_annotations_of_the_sample():
    items = sample(3)
    check("annotations.json", "sample", columns_of(wb.annotate(items), ANNOTATIONS))
    variants = {"capitalised": "dev", "openai": "control", "plain": "rejected", "cbt": "dev", "msrcc": "dev"}
    items = wb.Items.concat(
        [wb.load("sample", split, variant=variant) for variant, split in variants.items()]
    )
    columns = columns_of(wb.annotate(items), ANNOTATIONS)
    check("annotations.json", "sample, all", {name: summary(values) for name, values in columns.items()})


@pytest.mark.data
def test_annotations_of_lambada(real_data):
    items = wb.load("lambada", "dev", path=real_data)
    items = items.where(np.arange(len(items)) % 8 == 0)
    columns = columns_of(wb.annotate(items), ANNOTATIONS)
    check("annotations.json", "lambada", {name: summary(values) for name, values in columns.items()})
