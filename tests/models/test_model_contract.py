"""One contract for every registered family of models, checked on a small model of each."""

import copy

import numpy as np
import pandas as pd
import pytest
import saved_models
from refused import refused
from saved_models import ITEMS

from workbench.items.changes import word_spans
from workbench.items.items import Items, items_from_text
from workbench.models import registry
from workbench.models.base import Predictor
from workbench.models.baselines.chance import RandomWord
from workbench.models.baselines.passage_baseline import MaximumFrequency, SlidingWindow, WordDistance
from workbench.models.completion.positional import Generating, Positional
from workbench.models.ngram.model import NGram
from workbench.predictions.schema import check_predictions
from workbench.probing.texts import text_items
from workbench.storage.errors import DataError

CLOSE = 1e-5
OPEN = items_from_text(["w0 w1 w5 w1 ___", "w2 w3 w4 ___"], answers=["w7", "w2"], tokenised=True)
UNANSWERED = items_from_text(
    ["w0 w1 . w5 w1 ___", "w2 w3 . w4 ___ w1"], candidates=[["w7", "w3"], ["w1", "w2"]], tokenised=True
)
STRANGE = Items(ITEMS.frame.assign(candidates=[("w7", "xylophone"), ("zither", "w2")]))
WITH_UNKNOWN = (
    "ngram", "cached-ngram", "elman", "lstm", "feed-forward", "memory-network", "sup-cbow", "transformer",
    "cached-neural", "query-lstm",
)  # fmt: skip
"""Families that rank a vocabulary in which a word can be unknown."""
RANKING = ("random-word", "cbow", "causal-lm", "boosted", *WITH_UNKNOWN)
"""Families that rank their whole vocabulary where an item has no candidates."""


@pytest.fixture(scope="module", params=registry.BUILT_IN)
def model(request, folders, tmp_path_factory):
    """Give a small model of each family, which is made once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_HOME", str(tmp_path_factory.mktemp("home")))
        yield saved_models.made(request.param, folders)


def ranks_all_words(model):
    """Return whether the model ranks its whole vocabulary where an item has no candidates."""
    return model.vocabulary is not None and model.choices(OPEN) is None


def test_families_that_rank_a_vocabulary_are_listed(model, request):
    family = request.node.callspec.params["model"]
    assert ranks_all_words(model) == (family in RANKING)
    assert (ranks_all_words(model) and model.unknown != "none") == (family in WITH_UNKNOWN)


def test_ranks_of_candidates_are_those_of_a_full_sort(model):
    for items in (ITEMS, STRANGE):
        frame = check_predictions(model.predict(items, 2), items)
        words = items.frame["candidates"]
        for row, scores, options in zip(frame.itertuples(), model.score(items, words), words, strict=True):
            by_word = dict(zip(options, scores, strict=True))
            np.testing.assert_allclose(row.candidate_scores, scores, rtol=CLOSE, atol=CLOSE)
            answer = by_word[row.answer]
            assert row.rank == 1 + sum(score > answer for score in scores)
            assert row.n_tied == sum(score == answer for score in scores)
            assert row.n_choices == len(options)
            assert by_word[row.prediction] == max(scores)
            assert row.correct == (row.prediction == row.answer)
            assert row.p_correct == ((1 / row.n_tied) if row.rank == 1 else 0)


@pytest.mark.parametrize("model", RANKING, indirect=True)
def test_ranks_in_the_vocabulary_are_those_of_a_full_sort(model):
    frame = check_predictions(model.predict(OPEN, 4), OPEN)
    try:
        rows = np.concatenate([*model.distribution(OPEN)])
    except DataError:
        rows = model.score(OPEN, [list(model.vocabulary)] * len(OPEN))
    words = [*model.vocabulary]
    assert rows.shape == (len(OPEN), len(words))
    for row, values in zip(frame.itertuples(), rows, strict=True):
        order = sorted(values, reverse=True)
        np.testing.assert_allclose(row.top_log_probs, order[: len(row.top_words)], rtol=CLOSE, atol=CLOSE)
        for word, value in zip(row.top_words, row.top_log_probs, strict=True):
            assert values[words.index(word)] == pytest.approx(value, abs=CLOSE)
        answer = values[words.index(model.form(row.answer))]
        assert row.known
        assert 1 + (values > answer + CLOSE).sum() <= row.rank <= (values > answer - CLOSE).sum()
        assert values[words.index(row.prediction)] == pytest.approx(order[0], abs=CLOSE)
        assert row.log_prob == pytest.approx(answer, abs=CLOSE)


def test_log_probabilities_are_those_of_the_scores(model):
    log_prob = model.log_prob(OPEN)
    if model.score_type == "score":
        assert np.isnan(log_prob).all()
        return
    word_alone = copy.copy(model)
    word_alone.after = False  # not what follows it, the end of the text included
    alone = word_alone.score(OPEN, [[answer] for answer in OPEN.frame["answer"]])[:, 0]
    np.testing.assert_allclose(log_prob, alone, rtol=CLOSE, atol=CLOSE)
    assert not (log_prob > CLOSE).any()


def test_a_text_has_the_log_probabilities_of_its_words_one_after_the_other(model):
    texts, contexts = ["w1 w2 w3 w1 w2", "W3 w0 w3 . w5", "w4"], [None, "w2 w2 .", "w5 w3"]
    items = text_items(texts, contexts)
    if type(model).text_scores is Predictor.text_scores:
        refused(model.text_scores, items)
        return
    scores = model.text_scores(items)
    if model.score_type == "score":
        assert "PLL" in scores.measure
        return
    if scores.n_subtokens[0] is not None:  # as an answer, which may have several words
        answers = slice(None) if np.isfinite(scores.log_prob).all() else slice(1, None)
        values = scores.log_prob if answers == slice(None) else scores.log_prob_uncorrected
        np.testing.assert_allclose(values[answers], model.log_prob(items[answers]), rtol=1e-5)
        return
    parts = model.passage_log_probs(items)
    words = [[start >= item.answer_span[0] for start, _ in word_spans(item)] for item in items]
    sums = np.array([part.log_probs[mask, 0].sum() for part, mask in zip(parts, words, strict=True)])
    rows = np.array(scores.beginning) != "nothing"  # a network goes on seeing <unk> there
    assert scores.beginning[2] == "context"
    np.testing.assert_allclose(scores.log_prob[rows], sums[rows], rtol=1e-4, atol=CLOSE)


def test_an_item_without_an_answer_has_a_prediction_and_no_rank(model):
    frame = check_predictions(model.predict(UNANSWERED, 2), UNANSWERED)
    assert frame[["correct", "rank", "known", "log_prob", "p_correct"]].isna().all(axis=None)
    for row, options in zip(frame.itertuples(), UNANSWERED.frame["candidates"], strict=True):
        best = max(row.candidate_scores)
        assert row.candidate_scores[options.index(row.prediction)] == best


@pytest.mark.parametrize("model", WITH_UNKNOWN, indirect=True)
def test_a_word_outside_the_vocabulary_is_no_known_answer(model):
    odd = items_from_text(["w0 w1 . w5 w1 ___", "w2 w3 . w4 ___"], answers=["q7", "w2"], tokenised=True)
    frame = check_predictions(model.predict(odd), odd)
    assert frame["known"].tolist() == [False, True]
    assert frame["rank"][0] == len(model.vocabulary) + 1
    assert not frame["correct"][0]


def test_one_item_at_a_time_is_predicted_as_all_together(model):
    together = model.predict(ITEMS, 2)
    alone = pd.concat([model.predict(ITEMS[row : row + 1], 2) for row in range(len(ITEMS))])
    for column in ("prediction", "rank", "n_tied", "correct"):
        assert alone[column].tolist() == together[column].tolist(), column
    for column in ("log_prob", "p_correct"):
        np.testing.assert_allclose(alone[column], together[column], rtol=1e-4, atol=CLOSE)


def test_no_items_are_refused(model):
    refused(model.predict, ITEMS[:0])


def check_saved(model, folder, *, times=1):
    """Save a model and load it; more than once, what was loaded is saved where it lies itself."""
    model.save(folder)
    items = [ITEMS, OPEN] if ranks_all_words(model) else [ITEMS]
    for _ in range(times):
        again = Predictor.load(folder)
        assert type(again) is type(model)
        assert (again.name, again.version, again.config) == (model.name, model.version, model.config)
        assert (again.training, again.systems) == (model.training, model.systems)
        assert (again.unknown, again.score_type) == (model.unknown, model.score_type)
        assert list(again.vocabulary or ()) == list(model.vocabulary or ())
        again.device = model.device
        for asked in items:
            assert again.predict(asked).equals(model.predict(asked))
        if times > 1:
            again.save(folder)


@pytest.mark.usefixtures("home")
def test_saved_and_loaded_it_is_the_same(model, request, tmp_path):
    if request.node.callspec.params["model"] in saved_models.UNSAVED:
        refused(model.save, tmp_path / "saved")
        return
    check_saved(model, tmp_path / "saved")
    other = registry.model_class("word-distance")
    if not isinstance(model, other):
        refused(other.load, tmp_path / "saved")


NAMES = pd.DataFrame({"item_id": list(ITEMS.frame["item_id"]), "names": [["w2"], [(0, 2), (3, 5)]]})
OPTIONS = {
    "random-word": {
        "unk": lambda _: RandomWord(vocabulary=saved_models.WORDS, unknown="unk"),
        "by tokens": lambda _: RandomWord("passage", unit="tokens"),
        "names": lambda _: RandomWord("capitalised", annotations=NAMES),
    },
    "maximum-frequency": {"with the query": lambda _: MaximumFrequency("context", query=True)},
    "word-distance": {"of the context": lambda _: WordDistance(3, within="context", mention=False)},
    "sliding-window": {
        "another": lambda _: SlidingWindow(
            weight="idf", overlap="bag", length="words", punctuation=False, query=True
        )
    },
    "ngram": {
        "before the blank": lambda model: NGram(model.folder, after=False, unknown="unk", name="mine"),
        "cache": lambda model: NGram(model.folder, after=False).cached(0.25, decay=0.75),
        "weights": lambda model: Positional(model, weights={0: 0.25, 1: -2}),
        "fitted": lambda model: Positional.fit(model, ITEMS),
        "lowest": lambda model: Generating(model, lowest=True, datasets=["own"]),
    },
    "lsa": {"scaled": lambda model: model.variant(scaled=True, skip=3, scope="passage", punctuation=False)},
    "cbow": {"sentence": lambda model: type(model)(model.vectors, scope="sentence")},
    "simple-4-gram": {"points": lambda model: type(model)(model.corpus, points={2: 2, 3: 1}, minimum=2)},
    "lstm": {
        "cache": lambda model: model.cached(0.25, flatness=0.1),
        "before the blank": lambda model: same_network(model, after=False, unknown="unk", name="mine"),
        "sentence": lambda model: model.with_context("sentence"),
    },
    "query-lstm": {"sentence": lambda model: model.with_context("sentence")},
    "window-memory": {"named": lambda model: same_network(model, name="mine")},
    "masked-lm": {
        "candidate": lambda model: type(model)(
            model._source["path_or_name"], over="candidate", within_word="l2r", text="detokenised",
            device="cpu",
        )
    },
}  # fmt: skip


def same_network(model, **options):
    """Return a model with the network of another one."""
    again = copy.copy(model)
    vars(again).update(options)
    return again


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("model", OPTIONS, indirect=True)
def test_options_are_saved_too(model, request, tmp_path):
    for name, make in OPTIONS[request.node.callspec.params["model"]].items():
        other = make(model)
        assert other.config != model.config
        check_saved(other, tmp_path / name, times=2)
