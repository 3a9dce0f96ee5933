import math
from functools import partial
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from braced_items import cloze, clozes
from hypothesis import given, settings
from hypothesis import strategies as st
from made_predictions import items_of, made
from pandas.testing import assert_frame_equal
from refused import refused
from scipy.stats import rankdata

from workbench.items.items import Items
from workbench.models.base import FILE, Predictor, pad
from workbench.models.prediction_rows import Ranked, from_ranking, from_scores
from workbench.predictions import schema
from workbench.predictions import store as results

VOCABULARY = ["ash", "bay", "cat", "dog", "elm"]
ITEMS = clozes("a {cat} ran", "the {dog}", "an {owl}", "some {}", dataset="lambada")
MIXED = Items.from_records(
    [
        cloze("one {cat}", "lambada/dev/0"),
        cloze("two {dog}", "cbt/dev/1", candidates=("elm", "dog"), word_class="CN"),
        cloze("three {Elm}", "lambada/dev/2"),
        cloze("four {}", "cbt/dev/3", candidates=("cat", "dog", "ash")),
    ]
)


class Lengths(Predictor):
    """Prefers the words whose letters sum up to most; knows five words, all of the same probability."""

    name = "Lengths"
    systems: ClassVar[dict[str, str]] = {"cbt": "LENGTHS"}
    score_type = "log_prob"
    vocabulary = VOCABULARY

    def __init__(self, power=1, chunk=2):
        self.power, self.chunk = power, chunk

    @property
    def config(self):
        return {"power": self.power, "chunk": self.chunk}

    def form(self, word):
        return word.lower()

    def _weight(self, word):
        return sum(map(ord, self.form(word))) ** self.power if self.form(word) in VOCABULARY else 0

    def score(self, items, words):
        del items
        total = sum(map(self._weight, VOCABULARY))
        with np.errstate(divide="ignore"):
            return pad([[float(np.log(self._weight(word) / total)) for word in row] for row in words])

    def distribution(self, items, *, chunk=256):
        del chunk
        row = self.score(items, [VOCABULARY])[0]
        for start in range(0, len(items), self.chunk):
            yield np.tile(row, (len(items[start : start + self.chunk]), 1))


@st.composite
def scored(draw):
    """Draw items with candidates and few different scores, so that there are ties."""
    records, words, scores = [], [], []
    for i in range(draw(st.integers(1, 6))):
        row = draw(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8, unique=True))
        answer = draw(st.sampled_from([*row, "", "z"]))
        given_ = draw(st.booleans()) and answer != "z"
        records.append(cloze(f"x {{{answer}}}", f"x/dev/{i}", candidates=tuple(row) if given_ else None))
        words.append(row)
        scores.append([draw(st.sampled_from([-math.inf, -2.0, -1.5, 0.0])) for _ in row])
    return Items.from_records(records), words, scores


@given(scored(), st.integers(0, 5), st.integers(1, 9))
@settings(max_examples=25)
def test_rows_of_scores(drawn, seed, top_k):
    items, words, scores = drawn
    rows = from_scores(items, pad(scores), words, model="m", score_type="score", seed=seed, top_k=top_k)
    for row, item, choices, values in zip(rows.itertuples(), items, words, scores, strict=True):
        best = [w for w, v in zip(choices, values, strict=True) if v == max(values)]
        assert row.prediction in best
        assert row.n_choices == len(choices)
        ordered = sorted(values, reverse=True)
        assert row.top_log_probs == ordered[:top_k]
        assert [dict(zip(choices, values, strict=True))[w] for w in row.top_words] == ordered[:top_k]
        assert len(set(row.top_words)) == min(top_k, len(choices))
        assert row.candidate_scores == (None if item.candidates is None else values)
        if item.answer is None:
            assert all(pd.isna(v) for v in (row.correct, row.p_correct, row.rank, row.n_tied, row.known))
            continue
        assert row.correct == (row.prediction == item.answer)
        assert row.p_correct == (1 / len(best) if item.answer in best else 0)
        assert row.known == (item.answer in choices)
        if item.answer in choices:
            place = choices.index(item.answer)
            assert row.rank == rankdata([-v for v in values], method="min")[place]
            assert row.n_tied == values.count(values[place])
        else:
            assert (row.rank, row.n_tied) == (len(choices) + 1, 1)


def test_ties_are_drawn_evenly_and_by_the_seed():
    n = 3000
    items = clozes(*["a {b}"] * n)
    words, scores = [["a", "b", "c", "d"]] * n, np.array([[1.0, 1.0, 0.0, 1.0]] * n)
    draw = partial(from_scores, model="m", score_type="score")
    first, again, other = (draw(items, scores, words, seed=seed) for seed in (1, 1, 2))
    counts = first["prediction"].value_counts()
    assert set(counts.index) == {"a", "b", "d"}
    assert (abs(counts - n / 3) < 5 * math.sqrt(n * 2 / 9)).all()
    assert first.equals(again)
    agree = (first["prediction"] == other["prediction"]).mean()
    assert abs(agree - 1 / 3) < 5 * math.sqrt(2 / 9 / n)  # independent draws
    part = draw(items[7:9], scores[:2], words[:2], seed=1)
    assert part["prediction"].tolist() == first["prediction"].tolist()[7:9]  # whatever else is asked


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        (
            [[1, np.nan]],
            [["b", "c"]],
        ),
        ([[1.0]], [[]]),
    ],
)
def test_words_without_scores(scores, words):
    refused(from_scores, clozes("a {b}"), np.array(scores), words, model="m", score_type="score")
    items, scores = clozes("a {b}", "a {b}"), np.array([[1.0, np.nan, 9.0], [1.0, 2.0, 3.0]])
    rows = from_scores(items, scores, [["b"], ["b", "c", "d"]], model="m", score_type="score")
    assert rows["prediction"].tolist() == ["b", "d"]  # what lies beyond an item's words is not looked at
    assert rows["rank"].tolist() == [1, 3]


@pytest.mark.parametrize("top_k", [1, 2, 3])
@pytest.mark.parametrize("tops", [["b", "c", "a"], ["c", "b", "a"]])
def test_a_shared_first_rank_is_drawn(top_k, tops):
    n = 2000
    items = clozes(*["a {b}"] * n)
    columns = (np.full(n, value) for value in (-1.5, 1, 2, True))
    ranking = Ranked(*columns, [tops] * n, [[-1.5] * 3] * n)
    rows = from_ranking(items, ranking, model="m", vocabulary_size=9, top_k=top_k)
    assert set(rows["prediction"]) == {"b", "c"}
    assert rows["correct"].tolist() == (rows["prediction"] == "b").tolist()
    assert abs(rows["correct"].mean() - 0.5) < 5 * math.sqrt(1 / 4 / n)
    assert set(rows["p_correct"]) == {0.5}
    assert rows[["top_words", "top_log_probs"]].map(len).eq(top_k).all(axis=None)


@given(st.integers(-3, 3), st.integers(1, 5), st.integers(0, 12))
@settings(max_examples=15)
def test_the_base_ranks_a_vocabulary(power, chunk, top_k):
    rows = Lengths(power, chunk).predict(MIXED[::2], top_k)
    weights = np.array([Lengths(power)._weight(word) for word in VOCABULARY])
    order = np.argsort(-weights, kind="stable")
    logs = np.log(weights / weights.sum())
    assert rows["top_words"].tolist() == [[VOCABULARY[i] for i in order[:top_k]]] * 2
    assert rows["top_log_probs"].tolist() == [pytest.approx(logs[order[:top_k]].tolist())] * 2
    for row, word in zip(rows.itertuples(), ("cat", "elm"), strict=True):
        place = VOCABULARY.index(word)
        assert row.rank == rankdata(-weights, method="min")[place]
        assert row.n_tied == (weights == weights[place]).sum()
        assert row.log_prob == pytest.approx(logs[place])
    assert rows["known"].all()
    assert set(rows["n_choices"]) == set(rows["vocabulary_size"]) == {5}


def test_items_with_and_without_candidates_keep_their_order():
    rows = Lengths().predict(MIXED)
    assert rows["item_id"].tolist() == MIXED.frame["item_id"].tolist()
    assert rows["n_choices"].tolist() == [5, 2, 5, 3]
    assert rows["system"].isna().tolist() == [True, False, True, False]
    assert rows["candidate_scores"].isna().tolist() == [True, False, True, False]
    assert rows["correct"].tolist() == [False, False, True, pd.NA]
    assert rows["prediction"].tolist() == ["elm", "elm", "elm", "ash"]
    for i in range(len(MIXED)):
        assert Lengths().predict(MIXED[i : i + 1]).equals(rows.iloc[i : i + 1].reset_index(drop=True))
    refused(Lengths().predict, MIXED[:0])

    class Bare(Lengths):
        vocabulary = None
        distribution = Predictor.distribution

    assert len(Bare().predict(MIXED[1:2])) == 1
    refused(Bare().predict, MIXED[:1])


def test_save_and_load(tmp_path):
    folder = tmp_path / "new" / "model"
    Lengths(3).save(folder)
    assert Predictor.load(folder).power == 3
    assert Lengths.load(folder).config == {"power": 3, "chunk": 2}

    class Other(Lengths):
        def _save(self, folder):
            (folder / "half").touch()
            raise OSError(28, "full")

    refused(Other.load, folder)
    refused(Other().save, folder)
    assert Predictor.load(folder).power == 3, "the model that was there stays"
    assert sorted(path.name for path in folder.iterdir()) == ["SHA256SUMS", FILE]


@pytest.mark.parametrize(
    "content",
    [
        "{", "[]", "{}", '{"class": "json:JSONDecoder", "config": {}}', '{"model": [], "config": {}}',
        '{"model": "no-such-model", "config": {}}', '{"model": "json:JSONDecoder", "config": {}}',
    ],
)  # fmt: skip
def test_what_is_no_saved_model(content, tmp_path):
    (tmp_path / FILE).write_text(content)
    refused(Predictor.load, tmp_path)


GOOD = Lengths().predict(MIXED)


def changed(row=0, **values):
    frame = GOOD.astype(object)
    frame.loc[row, list(values)] = list(values.values())
    return frame


def test_good_predictions_pass_unchanged():
    assert schema.check_predictions(GOOD, MIXED).equals(GOOD)
    assert list(GOOD.columns) == schema.SCHEMA.names
    shuffled = GOOD[GOOD.columns[::-1]].iloc[::-1]
    assert schema.check_predictions(shuffled).equals(GOOD.iloc[::-1].reset_index(drop=True))
    assert schema.check_predictions(GOOD.astype(object)).dtypes.equals(GOOD.dtypes)
    both = pd.concat([GOOD, GOOD.assign(model="other"), GOOD.assign(run="second")])
    assert len(schema.check_predictions(both)) == 12
    refused(schema.check_predictions, GOOD, MIXED[:2])
    table = schema.to_table(GOOD)
    assert schema.check_predictions(schema.from_table(table)).equals(GOOD)
    assert len(schema.from_table(table[:0])) == 0


@pytest.mark.parametrize(
    "bad",
    [
        GOOD.drop(columns="rank"),
        GOOD.assign(more=1),
        pd.concat([GOOD, GOOD[:1]]),
        changed(item_id=None),
        changed(log_prob=0.1),
        changed(score_type="score"),
        changed(rank=0),
        changed(rank=1.5),
        changed(p_correct=1.5),
        changed(p_correct=None),
        changed(correct=True),
        changed(prediction="cat"),
        changed(2, rank=2),
        changed(2, p_correct=0.0),
        GOOD.assign(log_prob_uncorrected=0.5),
        GOOD.assign(log_prob_uncorrected=-99.0),
    ],
)
def test_bad_predictions_are_refused(bad):
    refused(schema.check_predictions, bad)


def test_answers_given_elsewhere():
    answers = {"lambada/dev/1": "Dog", "lambada/dev/0": "bat", "lambada/dev/3": "salt"}
    rows = schema.from_answers(ITEMS, answers, model="people", system="Human")
    assert rows["item_id"].tolist() == ["lambada/dev/0", "lambada/dev/1", "lambada/dev/3"]
    assert rows["correct"].tolist() == [False, True, pd.NA]
    assert rows["p_correct"].tolist()[:2] == [0, 1]
    assert rows["rank"].isna().all()
    assert set(rows["system"]) == {"Human"}
    assert set(rows["score_type"]) == {"score"}
    frame = pd.DataFrame({"item_id": ["cbt/dev/1", "lambada/dev/0"], "prediction": ["elm", "cat"]})
    frame = frame.assign(log_prob=[-3, -1.5], rank=[2, 1])
    rows = schema.from_answers(MIXED, frame, model="program", run="r")
    assert rows["log_prob"].tolist() == [-1.5, -3]
    assert rows["rank"].tolist() == [1, 2]
    assert rows["n_choices"].tolist() == [pd.NA, 2]
    assert set(rows["score_type"]) == {"log_prob"}
    missing = schema.from_answers(ITEMS, {"lambada/dev/0": None, "lambada/dev/1": np.nan}, model="people")
    assert missing["prediction"].isna().all()
    assert missing["correct"].tolist() == [False, False]
    refused(schema.from_answers, MIXED, pd.concat([frame, frame]), model="program")
    with pytest.raises(TypeError, match="no column 'sytem'"):
        schema.from_answers(ITEMS, {"lambada/dev/0": "a"}, model="people", sytem="Human")


FRAME = made(6, right=0.5)
VALUES = {
    "case": ["sum", None] * 3,
    "prompt": '{"shots": 2}',
    "log_prob_uncorrected": FRAME["log_prob"] / 2,
    "greedy_correct": [True, False, None] * 2,
    "rank_is_bound": [None, True, False] * 2,
    "in_training": [None, True, False] * 2,
    "detokenised": [None, True, False] * 2,
    "attention": [[0.25, 0.75], None, []] * 2,
    "bos": ["added", None] * 3,
    "candidates_digest": ["0", "3:0123456789abcdef"] * 3,
}


def test_what_a_frame_has_is_kept_on_disk(no_data):
    assert set(VALUES) == set(schema.OPTIONAL)
    frame = schema.check_predictions(FRAME.assign(**VALUES))
    back = results.keep(items_of(FRAME), frame, name="more").predictions
    assert_frame_equal(back, frame.assign(run="more"), check_dtype=False)
    assert (no_data / "runs" / "more").is_dir()


def test_an_answer_is_no_likelier_than_its_sub_tokens_but_for_rounding():
    near = FRAME["log_prob"].to_numpy() - np.float64(1e-5)
    assert len(schema.check_predictions(FRAME.assign(log_prob_uncorrected=near))) == 6
