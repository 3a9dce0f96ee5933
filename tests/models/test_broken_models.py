"""Models that do not work, as their weights are NaN or infinite or overflow: an error and no number."""

import numpy as np
import pandas as pd
import pytest
import saved_models
import torch
from made_predictions import items_of, made
from refused import refused
from saved_models import ITEMS

import workbench as wb
from workbench.evaluation.align import align
from workbench.evaluation.interchange.import_results import import_results
from workbench.items.items import Items
from workbench.models import Reversed, registry
from workbench.models.base import Predictor
from workbench.models.readers.encoding import Questions
from workbench.predictions import schema, store
from workbench.storage.errors import DataError
from workbench.widgets.ask.asking import answers
from workbench.widgets.ask.questions import TypedQuestion, read_question

pytestmark = pytest.mark.usefixtures("home")

NO_WEIGHTS = {
    "maximum-frequency", "ngram", "cached-ngram", "simple-4-gram", *saved_models.BELOW,
    *saved_models.UNSAVED, "boosted", "exclude-cooccurring",
}  # fmt: skip
"""Families that are fitted and have counts, or a model, in place of weights."""
OPEN = Items(ITEMS.frame.assign(candidates=None))


def weights_of(model):
    """Return the weights of a model and of those that it is made of."""
    tensors = []
    checkpoint = getattr(model, "_checkpoint", None)
    for network in (getattr(model, "_network", None), checkpoint and checkpoint.model):
        tensors += [] if network is None else network.parameters()
    for other in (getattr(model, "base", None), *getattr(model, "models", ())):
        tensors += [] if other is None else weights_of(other)
    return tensors


def spoilt(model):
    with torch.no_grad():
        for tensor in weights_of(model):
            tensor.fill_(np.nan)
    if vectors := getattr(model, "vectors", None):
        for name, array in vectors.arrays.items():
            vectors.arrays[name] = np.full_like(array, np.nan)
    return model


@pytest.mark.parametrize("name", sorted(set(registry.BUILT_IN) - NO_WEIGHTS))
def test_every_family_names_item_model_and_cause(name, folders):
    model = saved_models.made(name, folders)
    if model.fitted_on == "nothing":
        assert not weights_of(model)
        return
    model = spoilt(model)
    asked = [ITEMS] if model.vocabulary is None and model.choices(OPEN) is None else [ITEMS, OPEN]
    for items in asked:
        caught = refused(wb.predict, items, model)
        names = [model.name] if name != "ensemble" else [each.name for each in model.models]
        assert any(f"model {each!r}" in str(caught) for each in names)
        assert "weights" in caught.hint
    assert not len(wb.runs())
    if getattr(model, "network", None) is not None:
        assert "(float32)" in str(caught)


class Own(Predictor):
    """A model of a user's: the same row of log-probabilities for each item."""

    name, config, score_type, vocabulary = "own", {}, "log_prob", ("a", "b", "c")

    def __init__(self, *values):
        self.values = np.array(values, dtype=float)

    def score(self, items, words):
        del items
        return np.array([[self.values[self.vocabulary.index(word)] for word in row] for row in words])

    def distribution(self, items, *, chunk=256):
        del chunk
        yield np.repeat(self.values[None], len(items), axis=0)


A = wb.items_from_text("one two ___", answers="a")
CHOSEN = wb.items_from_text("one two ___", answers="a", candidates=[["a", "b", "c"]])


@pytest.mark.parametrize("items", [A, CHOSEN])
@pytest.mark.parametrize(
    "values",
    [(np.nan, -1, -1), (-1, np.nan, -1), (np.inf, -1, -1), (-1, -1, np.inf)],
)  # fmt: skip
def test_the_log_probability_of_any_word_is_a_number(values, items):
    refused(wb.predict, items, Own(*values))
    assert not len(wb.runs())


def test_no_vocabulary_has_words_of_probability_0_alone():
    with pytest.raises(DataError):
        Own(-np.inf, -np.inf, -np.inf).predict(A)
    tied = Own(-np.inf, -np.inf, -np.inf).predict(CHOSEN).iloc[0]
    assert (tied["p_correct"], tied["n_tied"]) == (pytest.approx(1 / 3), 3)


@pytest.mark.parametrize("items", [A, CHOSEN])
def test_an_answer_of_probability_0_is_ranked_last(items):
    row = Own(-np.inf, -1, -2).predict(items).iloc[0]
    assert (row["rank"], row["n_tied"], row["p_correct"], row["log_prob"]) == (3, 1, 0.0, -np.inf)
    assert wb.evaluate(Own(-np.inf, -1, -2).predict(items), resamples=10)["perplexity"].tolist() == [np.inf]
    low = Reversed(Own(-np.inf, -1, -2)).predict(CHOSEN).iloc[0]
    assert (low["prediction"], low["rank"]) == ("a", 1)


@pytest.mark.parametrize("place", range(3))
def test_nan_is_found_wherever_it_stands(place):
    values = np.log([0.3, 0.2, 0.5])
    values[place] = np.nan
    refused(Own(*values).predict, A, top_k=1)


def spoil_token(model, word, value):
    """Spoil the embedding that the model reads of the first sub-token of a word, not what it predicts by."""
    network = model._checkpoint.model
    network.config.tie_word_embeddings = False
    head = network.get_output_embeddings()
    head.weight = torch.nn.Parameter(head.weight.detach().clone())
    ids = model._scorer.subwords.encode([f" {word}"], special=False)[0]
    with torch.no_grad():
        network.get_input_embeddings().weight[ids[0]] = value
    return model


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_causal_model_that_fails_after_one_sub_token(value, folders):
    from workbench.models import CausalLM  # noqa: PLC0415 - slow

    folder, words = folders("bytes"), ["village", "man", "xylophone"]
    items = wb.items_from_text("The old woman lived alone in a ___", answers="man")
    working = CausalLM(folder, vocabulary=words, device="cpu").predict(items, top_k=3)
    assert set(working["top_words"][0]) == set(words)
    model = spoil_token(CausalLM(folder, vocabulary=words, device="cpu"), "xylophone", value)
    refused(model.predict, items, top_k=3)
    refused(model.predict, wb.Items(items.frame.assign(candidates=[tuple(words)])))


def test_a_model_that_writes_words_says_that_it_cannot(folders):
    from workbench.models import CausalLM  # noqa: PLC0415 - slow

    items = wb.items_from_text("The old woman lived alone in a ___", answers=None)
    model = CausalLM(folders("bytes"), device="cpu")
    assert len(model.predict(items)) == 1
    refused(spoilt(model).predict, items)


def test_a_cache_is_not_tuned_on_a_network_that_does_not_work(folders):
    items = wb.items_from_text("w1 w2 w3 w4 ___", answers="w5", tokenised=True)
    model = saved_models.made("lstm", folders).cached(0.1)
    assert len(model.tuned(items, weights=[0.1], flatnesses=[0.1]).trials) == 1
    refused(spoilt(model).tuned, items, weights=[0.1], flatnesses=[0.1])


def test_a_training_has_no_accuracy_of_a_reader_that_does_not_work(folders):
    reader = spoilt(saved_models.made("attention-sum", folders))
    refused(reader.accuracy, Questions.of(ITEMS, reader.words, lower=True))


# -- tables of predictions that were made elsewhere, or stored by an earlier version


FRAME = made(5, oov=0)
BROKEN = FRAME.assign(log_prob=[-1, -2, np.nan, -4, -5])


@pytest.mark.parametrize(
    "use",
    [
        schema.check_predictions,
        lambda frame: wb.evaluate(frame, resamples=10),
        lambda frame: align(items_of(FRAME), [FRAME, frame.assign(model="other")], resamples=10),
        lambda frame: store.keep(items_of(FRAME), frame),
    ],
)
def test_a_table_with_such_a_number_is_refused(use):
    use(FRAME)
    refused(use, BROKEN)
    with pytest.raises(DataError):
        use(FRAME.assign(log_prob=[-1, -2, np.inf, -4, -5]))


def test_an_answer_outside_the_vocabulary_may_lack_a_log_probability():
    known = [True, True, False, True, True]
    table = wb.evaluate(BROKEN.assign(known=known, correct=False, prediction="x"), resamples=10)
    assert table["n_perplexity"].tolist() == [4]


@pytest.mark.parametrize("column", ["top_log_probs", "candidate_scores", "attention"])
def test_lists_hold_numbers(column):
    lists = pd.Series([[-1.0], [-2.0, np.nan], None, [-1.0], [-1.0]])
    with pytest.raises(DataError):
        wb.evaluate(FRAME.assign(**{column: lists}), resamples=10)


@pytest.mark.parametrize(("cell", "kept"), [("nan", 0), ("NaN", 0), ("", 2)])
def test_a_file_says_nan_or_nothing(cell, kept, tmp_path):
    two = wb.items_from_text(["one two ___", "two one ___"], answers=["a", "a"])
    lines = [
        "item_id,prediction,log_prob",
        *(f"{item_id},a,{value}" for item_id, value in zip(two.frame["item_id"], (-1, cell), strict=True)),
    ]
    (tmp_path / "answers.csv").write_text("\n".join(lines), encoding="utf-8")
    if kept:
        assert len(import_results(tmp_path / "answers.csv", two, model="m", keep=False)) == kept
        return
    with pytest.raises(DataError):
        import_results(tmp_path / "answers.csv", two, model="m")
    assert not len(wb.runs())


# -- widgets


def test_ask_shows_an_error_and_no_number():
    model = Own(-1, np.nan, -1)
    question = read_question(TypedQuestion("One. Two ___", word="a"))
    *_, (_, replies, *_) = answers(model, question, top_k=5, seed=0)
    assert len(replies) == 2
    for reply in replies.values():
        assert set(reply) == {"error"}
        assert "not a number" in reply["error"]


@pytest.mark.parametrize("name", ["attention-sum", "causal-lm"])
def test_attention_is_an_error_too(name, folders):
    refused(wb.attention, spoilt(saved_models.made(name, folders)), ITEMS)
