"""LAMBADA's way from novels to a set: what is drawn, what the filters drop, the control set, the manifest."""

import math
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

import workbench as wb
from workbench.construction import lambada
from workbench.construction.candidates import CandidatePassages
from workbench.construction.manifest import Manifest
from workbench.models.base import Predictor, pad

BOOKS = list(wb.books("sample"))[:4]


class Lengths(Predictor):
    """Words of so many letters are likely; counts the items that it was asked for."""

    score_type = "log_prob"
    version = 1

    def __init__(self, *letters, name="lengths", likely=0.5):
        self.letters, self.name, self.likely, self.asked = letters, name, likely, 0

    @property
    def config(self):
        return {"letters": list(self.letters), "likely": self.likely}

    @property
    def training(self):
        return {"texts": "none"}

    def score(self, items, words):
        self.asked += len(items)
        low = math.log(lambada.THRESHOLD / 2)
        return pad([[math.log(self.likely) if len(w) in self.letters else low for w in row] for row in words])


@pytest.fixture(scope="module")
def candidates():
    return CandidatePassages.of(BOOKS)


def words(item):
    return [word.lower() for sentence in item.context for word in sentence.split()]


def test_all_passages_are_the_candidates_in_the_order_of_the_seed(candidates):
    every = lambada.passages(BOOKS)
    assert sorted(every.frame["item_id"]) == sorted(candidates.items().frame["item_id"])
    assert every.frame["item_id"].tolist() == lambada.passages(candidates).frame["item_id"].tolist()
    assert list(lambada.passages(BOOKS, number=20)) == list(every[:20])
    other = lambada.passages(BOOKS, seed=1)
    assert other.frame["item_id"].tolist() != every.frame["item_id"].tolist()
    assert set(every.frame["variant"]) == {"capitalised"}
    assert set(every.frame["book_id"]) == {book.book_id for book in BOOKS}
    lower = lambada.passages(BOOKS, lowercased=True, split="dev", number=20)
    assert lower.frame["text"].tolist() == every[:20].frame["text"].str.lower().tolist()
    assert (lower[0].variant, lower[0].item_id.startswith("lambada/dev/sample/")) == ("plain", True)
    names = ("Tom", *["the old man"] * 3) * 20  # a few capitals were left in
    text = " ".join(f"{name} saw the dog by the river , and nobody ran after it ." for name in names)
    lower_cased = [wb.Book("lower", "lower", None, None, text, tokenised=True, source="")]
    mixed = lambada.passages([*BOOKS, *lower_cased]).frame
    is_lower = mixed["book_id"].str.startswith("lower")
    assert set(mixed["variant"][is_lower]) == {"plain"}
    assert set(mixed["variant"][~is_lower]) == {"capitalised"}
    longer = lambada.passages(BOOKS, minimum=90)
    assert min(len(words(item)) for item in longer) == 91


def test_passages_with_the_answer_in_their_context():
    every = lambada.passages(BOOKS)
    inside = lambada.passages(BOOKS, answer_in_context=True)
    expected = [item.item_id for item in every if item.answer.lower() in words(item)]
    assert inside.frame["item_id"].tolist() == expected
    assert 20 < len(inside) < len(every)
    for item in inside:
        context = [word for sentence in item.context for word in sentence.split()]
        assert item.candidates == tuple(dict.fromkeys([*context, item.answer]))
    assert list(lambada.passages(BOOKS, answer_in_context=True, number=15)) == list(inside[:15])
    assert every.frame["candidates"].isna().all()


def test_passages_that_end_in_a_frequent_word_are_left_out(candidates):
    every = lambada.passages(BOOKS)
    counts = Counter(word.lower() for text in candidates.texts() for word in text.split())
    frequent = sorted(counts, key=lambda word: (-counts[word], word))[:40]
    rarer = lambada.passages(BOOKS, skip_frequent=40).frame["text"].tolist()
    assert rarer == [item.text for item in every if item.answer.lower() not in frequent]
    assert 0 < len(rarer) < len(every)


def test_novels_without_passages_raise_an_error():
    lines = [*["a b ."] * 20, *["c d e f g h i j k l ."] * 6]
    refused(lambada.passages, ["one line . "])
    refused(lambada.passages, lines, skip_frequent=99)


@given(st.lists(st.frozensets(st.integers(1, 12), max_size=4), min_size=1, max_size=4))
def test_a_passage_is_dropped_by_the_first_filter_that_finds_its_target_likely(sets):
    items = lambada.passages(BOOKS, number=80)
    filters = [Lengths(*sorted(letters), name=f"filter {n}") for n, letters in enumerate(sets)]
    result = lambada.filtered(items, filters, block=32)
    expected = [next((m.name for m in filters if len(item.answer) in m.letters), None) for item in items]
    dropped_by = result.frame["dropped_by"]
    assert result.frame["item_id"].tolist() == items.frame["item_id"].tolist()
    assert dropped_by.astype(object).where(dropped_by.notna(), None).tolist() == expected
    likely = [math.log(0.5) if name else math.log(lambada.THRESHOLD / 2) for name in expected]
    assert result.frame["log_prob"].tolist() == pytest.approx(likely)
    survivors = [item for item, name in zip(items, expected, strict=True) if name is None]
    assert list(result.survivors) == survivors
    assert result.step.dropped == {model.name: expected.count(model.name) for model in filters}
    assert (result.step.n_in, result.step.n_out) == (80, expected.count(None))


def test_a_target_of_exactly_the_threshold_is_dropped():
    items = lambada.passages(BOOKS, number=30)
    for likely, n in ((lambada.THRESHOLD, 0), (np.nextafter(lambada.THRESHOLD, 0) * 0.999, 30)):
        model = Lengths(*range(1, 40), name=f"all {likely}", likely=likely)
        assert len(lambada.filtered(items, [model])) == n
        assert len(lambada.filtered(items, [model], threshold=0.5)) == 30


def numbers(result):
    """Return the numbers of the survivors, in the order in which they were looked at."""
    return result.frame.loc[result.frame["dropped_by"].isna(), "number"].tolist()


def test_so_many_survivors_are_drawn_at_random(candidates):
    model = Lengths(3, 4, 5, name="drawn")
    result = lambada.filtered(candidates, [model], number=25, seed=2, block=16)
    every = lambada.filtered(candidates, [model])
    order = candidates.drawn(0, len(candidates), seed=2)
    survivors = set(numbers(every))
    expected = [number for number in order.tolist() if number in survivors]
    assert numbers(result) == expected[:25]
    assert len(result) == len(result.survivors) == 25
    looked_at = result.frame["number"].tolist()
    assert looked_at == order[: len(looked_at)].tolist()
    assert looked_at[-1] == expected[24]
    assert len(every.frame) == len(candidates)
    for block in (1, 7, 500):
        again = lambada.filtered(candidates, [model], number=25, seed=2, block=block)
        pd.testing.assert_frame_equal(again.frame, result.frame)
    dev = lambada.filtered(candidates, [model], number=5, split="dev", lowercased=True).survivors
    assert set(zip(dev.frame["split"], dev.frame["variant"], strict=True)) == {("dev", "plain")}
    assert len(lambada.filtered(candidates, [model], number=10**6)) == len(every)


class DyingError(Exception):
    """Stands for a kill."""


def test_a_call_that_ended_early_resumes(candidates):
    class Dying(Lengths):
        version = 1
        left = 200

        def score(self, items, words):
            if self.left < len(items):
                raise DyingError
            self.left -= len(items)
            return super().score(items, words)

    first, second = Lengths(4, name="resumed 1"), Dying(5, name="resumed 2")
    with pytest.raises(DyingError):
        lambada.filtered(candidates, [first, second], block=50)
    asked = (first.asked, second.asked)
    assert 0 < asked[1] <= 200
    second.left = 10**6
    result = lambada.filtered(candidates, [first, second], block=50)
    assert first.asked == len(candidates)  # nothing twice
    assert second.asked == len(candidates) - result.step.dropped["resumed 1"]
    lambada.filtered(candidates, [first, second], block=50)
    assert first.asked == len(candidates)
    second.letters = (6,)  # another configuration: its scores are others
    lambada.filtered(candidates, [first, second], block=50)
    assert second.asked == 2 * (len(candidates) - result.step.dropped["resumed 1"])


def test_scores_of_a_class_without_a_version_are_not_stored():
    class Unversioned(Lengths):
        pass

    model = Unversioned(4, name="unversioned")
    items = lambada.passages(BOOKS, number=30)
    for n in (30, 60):
        lambada.filtered(items, [model])
        assert model.asked == n


def test_filters_that_make_no_sense_are_one_error(candidates):
    items = lambada.passages(BOOKS, number=30)
    model = Lengths(4)

    class Scores(Lengths):
        score_type = "score"

    senseless = [{"filters": []}, {"threshold": 0.0}, {"threshold": 1.1}, {"block": 0}, {"number": 0}]
    for arguments in (
        *(each for each in (*senseless, {"source": items[:0]})),
        {"filters": [model, model]},
        {"filters": [Scores(4)]},
        {"source": candidates, "trained_on": BOOKS[:1]},
    ):
        refused(lambada.filtered, **{"source": items, "filters": [model]} | arguments)
    others = list(wb.books("sample"))[4:6]
    assert lambada.filtered(items, [model], trained_on=others).frame["dropped_by"].notna().any()


def test_the_control_set_is_a_draw_of_its_own(candidates):
    items = lambada.control(candidates, 60, seed=5)
    assert set(items.frame["split"]) == {"built-control"}
    assert len(set(items.frame["item_id"])) == 60
    assert list(items[:20]) == list(lambada.control(candidates, 20, seed=5))
    drawn = {item.text for item in candidates.sample(60, seed=5)}
    assert len(drawn & set(items.frame["text"])) < 60
    assert len(lambada.control(candidates, len(candidates))) == len(candidates)
    for number in (0, len(candidates) + 1):
        refused(lambada.control, candidates, number)


def test_the_manifest_has_every_step(candidates, tmp_path):
    result = lambada.filtered(candidates, [Lengths(3, 4, name="manifest")], number=30)
    control = lambada.control(candidates, 40)
    manifest = lambada.recorded(Manifest(), candidates, result, control)
    manifest.save(tmp_path)
    assert Manifest.load(tmp_path) == manifest
    frame = manifest.to_frame()
    assert frame["step"].tolist() == ["candidate passages", "filters", "control set"]
    assert frame["n_out"].tolist() == [len(candidates), 30, 40]
    assert frame["n_in"].tolist() == [candidates.books["sentences"].sum(), len(result.frame), len(candidates)]
    (filter_,) = manifest.parameters["filters"]["filters"]
    assert (filter_["model"], filter_["version"], filter_["training"]) == ("manifest", 1, {"texts": "none"})
    assert manifest.parameters["passages"]["sha256"] == candidates.sha256


def test_the_filters_of_the_paper():
    novels = list(wb.books("sample"))
    train, held = novels[4:], CandidatePassages.of(novels[:4])
    items = held.sample(40)
    options = {"width": 16, "tokens": 2000, "vocabulary": 500}
    filters = lambada.paper_filters(train, pretrained=Lengths(name="fourth"), held_out=items, **options)
    assert [type(model).__name__ for model in filters] == ["NGram", "FeedForward", "ElmanRNN", "Lengths"]
    assert filters[0].order == 4
    result = lambada.filtered(held, filters, number=20)
    assert len(result.survivors) == 20
    scores = np.array([model.log_prob(result.survivors) for model in filters])
    assert (scores.max(0) < math.log(lambada.THRESHOLD)).all()
    drops = result.frame[result.frame["dropped_by"].notna()]
    assert len(drops)
    for name, part in drops.groupby("dropped_by"):
        model = next(model for model in filters if model.name == name)
        again = model.log_prob(held.items(part["number"]))
        assert part["log_prob"].to_numpy() == pytest.approx(again, rel=1e-4)
        assert (again >= math.log(lambada.THRESHOLD)).all()
    refused(lambada.paper_filters, novels, held_out=items, **options)
