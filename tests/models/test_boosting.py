"""Models that count the last words less, beside a plain calculation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

import workbench as wb
from workbench.items.changes import shortened
from workbench.items.items import Items, items_from_text
from workbench.models import MaximumFrequency
from workbench.models.base import Predictor
from workbench.models.wrapper import TRIAL_MEASURES, measured

pytest.importorskip("transformers")

import torch
from plain_causal import ITEMS, WORDS, Plain, before
from plain_causal import model as causal

torch.set_num_threads(1)


@given(st.lists(st.sampled_from(["a", "Dog", ".", "''", "(b", "\n\n"]), max_size=12), st.integers(1, 9))
def test_the_last_words_before_the_blank_are_left(words, k):
    [item] = items_from_text(" ".join([*words, "___", "b ."]), answers=["dog"], tokenised=True)
    changed = shortened(item, k)
    Items.from_records([changed])  # checks all spans
    assert item.text.endswith(changed.text)
    left = changed.text[: changed.answer_span[0]].split()
    assert left == item.text[: item.answer_span[0]].split()[-k:]
    assert (changed.answer, changed.right) == (item.answer, item.right)
    assert item.text[slice(*item.sentences[-1])].endswith(changed.text[slice(*changed.sentences[-1])])


def boosted(whole, short, alpha):
    """Return the log-probabilities of words in the plain way."""
    shares = [math.exp((1 + alpha) * a - alpha * b) for a, b in zip(whole, short, strict=True)]
    return np.log(np.array(shares) / sum(shares))


@pytest.mark.parametrize("alpha", [0.5, 0])
def test_n_gram_models(items, sample_ngram, alpha):
    items, base = items[:4], sample_ngram.cached(0.2)
    model = base.boosted(5, alpha)
    [whole], [short] = (
        list(base.distribution(each))
        for each in (items, Items.from_records(shortened(item, 5) for item in items))
    )
    [rows] = model.distribution(items)
    frame = model.predict(items, 3)
    words = model.vocabulary
    for row, values, frame_row, item in zip(
        rows, zip(whole, short, strict=True), frame.itertuples(), items, strict=True
    ):
        expected = boosted(*values, alpha)
        np.testing.assert_allclose(row, expected, atol=1e-9)
        best = np.argsort(-expected, kind="stable")[:3]
        assert frame_row.prediction == words[best[0]]
        np.testing.assert_allclose(frame_row.top_log_probs, expected[best])
        if frame_row.known:
            answer = expected[words.index(item.answer)]
            assert frame_row.log_prob == pytest.approx(answer)
            assert frame_row.rank == 1 + (row > row[words.index(item.answer)]).sum()
    known = frame["known"].to_numpy(dtype=bool)
    np.testing.assert_allclose(model.log_prob(items), np.where(known, frame["log_prob"], np.nan))
    assert (frame["score_type"] == "log_prob").all()
    if not alpha:
        np.testing.assert_allclose(np.ptp(rows - whole, axis=1), 0, atol=1e-9)  # but for unknown words
    assert len(wb.surprisal(model, items[:1])) == len(items[0].text.split())


class Counted(Predictor):
    """A model that counts the items it is asked about."""

    score_type, version = "log_prob", 1

    def __init__(self, base):
        self.base, self.name, self.vocabulary, self.asked = base, base.name, base.vocabulary, 0

    config = property(lambda self: self.base.config)

    def form(self, word):
        return self.base.form(word)

    def distribution(self, items, *, chunk=256):
        self.asked += len(items)
        return self.base.distribution(items, chunk=chunk)

    def score(self, items, words):
        self.asked += len(items)
        return self.base.score(items, words)


@pytest.mark.filterwarnings("ignore:the best (k|alpha)")
@pytest.mark.parametrize("by", ["accuracy", "perplexity"])
def test_tuning_tries_all_settings_on_few_passes(items, sample_ngram, by, monkeypatch):
    monkeypatch.setattr("workbench.models.wrapper._CHUNK", 5)
    base, items = Counted(sample_ngram.cached(0.2)), items[:12]
    windows, alphas = (5, 2), (0.0, 0.4, 0.8, 50.0)
    model = base.boosted().tuned(items, windows=windows, alphas=alphas, by=by)
    assert base.asked == len(items) * (1 + len(windows))
    trials = model.trials.set_index(["k", "alpha"])
    scores = {}
    for k in windows:
        for alpha in alphas:
            expected = measured(base.boosted(k, alpha).predict(items, 1))
            np.testing.assert_allclose(trials.loc[(k, alpha), list(TRIAL_MEASURES)].astype(float), expected)
            scores[k, alpha] = expected[1] if by == "accuracy" else -expected[2]
    best = max(sorted(scores), key=scores.get)
    assert (model.k, model.alpha) == best
    assert trials["chosen"].sum() == 1
    assert wb.charts.tuning(model.trials).to_dict()["hconcat"]


@pytest.mark.filterwarnings("ignore:the best (k|alpha)")
def test_tuning_on_candidates_reads_each_passage_once(sample_ngram):
    questions = wb.load("sample", variant="cbt")[:4]
    base = Counted(sample_ngram.cached(0.2))
    model = base.boosted().tuned(questions, windows=(2, 5), alphas=(0, 0.5, 1, 90))
    expected = [
        base.boosted(k, a).predict(questions, 1)["p_correct"].mean() for k in (2, 5) for a in (0, 0.5, 1, 90)
    ]
    np.testing.assert_allclose(model.trials["accuracy"], expected)


def test_a_causal_model_ranks_words_of_one_sub_token(folders):
    base, plain = causal(folders("llama")), Plain(folders("llama"))
    model = base.boosted(3, 0.5)
    items = ITEMS[:4]
    frame, words = model.predict(items), list(model.vocabulary)
    assert words == list(base.ranking_words.vocabulary)
    places = range(0, len(words), max(len(words) // 40, 1))
    short = Items.from_records(shortened(item, 3) for item in items)
    for values, whole, part in zip(next(model.distribution(items)), items, short, strict=True):
        assert np.logaddexp.reduce(values) == pytest.approx(0)
        sums = [
            1.5 * plain.says(before(whole), words[n])[0] - 0.5 * plain.says(before(part), words[n])[0]
            for n in places
        ]
        np.testing.assert_allclose(values[places] - values[0], np.array(sums) - sums[0], atol=2e-4)
    assert set(frame["prediction"]) <= set(words)
    known = [item.answer in words for item in items]
    assert frame["known"].tolist() == known
    assert (~np.isnan(model.log_prob(items))).tolist() == known


def test_candidates_and_models_without_a_vocabulary(folders, items):
    questions = wb.load("sample", variant="cbt")[:4]
    candidates = questions.frame["candidates"].tolist()
    short = Items.from_records(shortened(item, 10) for item in questions)
    for base in (MaximumFrequency("context"), causal(folders("bytes"), vocabulary=WORDS)):
        model = base.boosted(alpha=0.5)
        scores = model.score(questions, candidates)
        expected = 1.5 * base.score(questions, candidates) - 0.5 * base.score(short, candidates)
        np.testing.assert_allclose(scores - scores[:, :1], expected - expected[:, :1], atol=1e-4)
        assert len(model.predict(questions)) == len(questions)
        if model.vocabulary is None:
            assert model.score_type == "score"
            assert np.isnan(model.log_prob(questions)).all()
    refused(causal(folders("bytes"), vocabulary=WORDS).boosted().predict, items)


@pytest.mark.parametrize("options", [{"k": 0}, {"k": 1.5}, {"alpha": math.inf}])
def test_wrong_options_are_refused(options):
    refused(MaximumFrequency("context").boosted, **options)
