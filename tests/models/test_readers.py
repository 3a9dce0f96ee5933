"""Questions as arrays, and what holds of every reader: padding, order, seeds, resuming."""

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
import saved_models
import torch
from braced_items import TOKENS, of_sentences
from hypothesis import given
from hypothesis import strategies as st
from made_questions import FILLERS, counted, made, plain
from refused import refused

from workbench.items.items import Items, items_from_text
from workbench.models.readers.embedding import EmbeddingReader
from workbench.models.readers.encoding import PAD, QuestionBatches, Questions
from workbench.models.readers.memory import WindowMemory
from workbench.models.registry import BUILT_IN
from workbench.storage.errors import DataError

pytestmark = pytest.mark.usefixtures("home")
READERS = [name for name, place in BUILT_IN.items() if place.startswith("workbench.models.readers")]
READERS.remove("query-lstm")  # a language model
QUIET = {"device": "cpu"}


def copied(rng, choices):
    """Ask for one of the names in the context, of a few sentences; the answer is any of them."""
    words = [*rng.permutation(choices), *rng.choice(FILLERS, rng.integers(1, 9))]
    cut = int(rng.integers(1, len(words)))
    place = int(rng.integers(0, 3))
    return words[:cut], words[cut:], rng.choice(FILLERS, 3).tolist(), place, str(rng.choice(choices))


QUESTIONS = made(copied, 40)


@st.composite
def questions(draw):
    """Draw items, and words to choose from, which may have the answer among them."""
    items, words = [], []
    for number in range(draw(st.integers(1, 3))):
        sentences = draw(st.lists(st.lists(TOKENS, min_size=1, max_size=6), min_size=1, max_size=4))
        place = draw(st.integers(0, len(sentences[-1]) - 1))
        answer = sentences[-1].pop(place)
        choices = draw(st.lists(st.sampled_from([answer, *chain(*sentences)]), min_size=1, max_size=5))
        words.append(list(dict.fromkeys(choices)))
        item = of_sentences(*sentences, place=place, answer=answer)
        items.append(replace(item, item_id=f"x/dev/{number}", tokenised=True))
    return Items.from_records(items), words


def rows(encoded):
    """Return the arrays of each question as lists."""
    batch = {name: values for name, values in encoded.arrays.items() if f"{name}_starts" in encoded.arrays}
    results = []
    for row in range(len(encoded)):
        one = {name: encoded.arrays[name][row] for name in ("blank", "answer")}
        for name, values in batch.items():
            starts = encoded.arrays[f"{name}_starts"]
            one[name] = values[starts[row] : starts[row + 1]].tolist()
        results.append(one)
    return results


@given(questions())
def test_questions_are_encoded_as_a_plain_loop_does(drawn):
    items, words = drawn
    known = sorted({word.lower() for item in items for word in item.text.split()})[::2]
    encoded = Questions.of(items, known, words=words)
    assert rows(encoded) == [plain(item, row, known) for item, row in zip(items, words, strict=True)]


@given(questions(), st.integers(1, 12))
def test_the_vocabulary_has_the_most_frequent_words(drawn, size):
    items, words = drawn
    encoded = Questions.of(items, size, words=words)
    counts = counted(items, words)
    expected = sorted(counts, key=lambda word: (-counts[word], word))[:size]
    assert encoded.vocabulary == expected
    assert rows(encoded) == rows(Questions.of(items, expected, words=words))


def test_a_candidate_of_several_words_begins_where_all_of_them_stand():
    item = items_from_text(
        ["New York or New Jersey . He left ___ ."], answers=["New York"],
        candidates=[["New Jersey", "new york", "York", "New York"]], tokenised=True,
    )  # fmt: skip
    [one] = rows(Questions.of(item, ["new", "york"]))
    assert one["slots"] == [2, 3, 0, 1, 0, 0]
    assert one["candidates"] == [2, 4, 4]
    assert one["answer"] == 1


@given(questions(), st.data())
def test_a_batch_has_the_questions_padded(drawn, data):
    items, words = drawn
    encoded = Questions.of(items, 5, words=words)
    chosen = data.draw(st.lists(st.integers(0, len(items) - 1), min_size=1, max_size=4))
    batch, expected = encoded.batch(chosen), rows(encoded)
    for name, values in batch.items():
        assert values.dtype == np.int64
        for number, row in enumerate(chosen):
            value = np.atleast_1d(expected[row][name])
            line = np.atleast_1d(values[number])
            assert line[: len(value)].tolist() == value.tolist()
            assert (line[len(value) :] == PAD).all()
            assert values.ndim == 1 or values.shape[1] == max(1, *(len(expected[r][name]) for r in chosen))


def test_the_batches_of_an_epoch_hold_each_question_once():
    encoded = Questions.of(QUESTIONS, 30)
    encoded.arrays["answer"][[3, 17]] = -1
    encoded.arrays["order"] = np.arange(40)
    batches = QuestionBatches(encoded, rows=7, seed=4)
    assert (batches.steps, batches.tokens) == (5, 7)
    orders = [batches._order(epoch) for epoch in (0, 1)]
    for order in orders:
        chosen = batches.usable[order.ravel()]
        assert len(set(chosen)) == 35
        assert not {3, 17} & set(chosen)
    assert (orders[0] != orders[1]).any()
    assert (QuestionBatches(encoded, rows=7, seed=4)._order(1) == orders[1]).all()
    assert (QuestionBatches(encoded, rows=7, seed=5)._order(1) != orders[1]).any()
    whole = batches.batch(8)
    for name, values in batches.batch(8, slice(2, 5)).items():
        part = whole[name][2:5]
        assert (part[..., : values.shape[-1]] == values).all() if part.ndim > 1 else (part == values).all()
        assert part.ndim == 1 or (part[:, values.shape[1] :] == PAD).all()


def test_questions_of_a_batch_are_of_about_the_same_length():
    def long(rng, choices):
        return [*choices, *["f0"] * int(rng.integers(200))], ["f1"], 0, choices[0]

    batches = QuestionBatches(Questions.of(made(long, 400), 30), rows=8)
    spread = [np.ptp(batches.lengths[row]) for row in batches._order(0)]
    assert np.mean(spread) < 10  # of 200


def test_cached_questions_are_the_fresh_ones_and_found_again(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    fresh, cached = Questions.of(QUESTIONS, 20), Questions.cached(QUESTIONS, 20)
    assert cached.vocabulary == fresh.vocabulary
    assert rows(cached) == rows(fresh)
    monkeypatch.setattr(Questions, "of", None)
    again = Questions.cached(QUESTIONS, 20)
    assert (again.key, rows(again)) == (cached.key, rows(fresh))


def test_items_without_candidates_or_answers_among_them():
    bare = items_from_text(["w1 . w2 ___"], answers=["w1"], tokenised=True)
    refused(Questions.of, bare, 5)
    with pytest.raises(DataError):
        QuestionBatches(Questions.of(bare, 5, words=[["w2"]]), rows=2)


def reader(name):
    return saved_models.made(name, None)


def scores(model, items):
    return model.score(items, [list(item.candidates) for item in items])


LONG = made(copied, 6, seed=3)
SHORT = items_from_text(
    ["n1 . n2 ___", "n3 n1 n2 . f1 ___ f2 f3", "___ n2 n1"], answers=["n1", "n2", "n1"],
    candidates=[["n2", "n1"], ["n1", "n2", "n3"], ["n1", "n2"]], tokenised=True,
)  # fmt: skip


@pytest.mark.parametrize("name", READERS)
def test_padding_never_changes_a_score(name):
    model = reader(name)
    items = Items.concat([vary(LONG, "l"), vary(SHORT, "s")])
    together = scores(model, items)
    for row, item in enumerate(items):
        alone = scores(model, items[row : row + 1])[0]
        n = len(item.candidates)
        np.testing.assert_allclose(together[row, :n], alone, rtol=1e-5, atol=1e-6)
        assert np.isfinite(alone).all()
        assert np.isnan(together[row, n:]).all()


def vary(items, name):
    return Items.from_records(replace(item, item_id=f"{name}/{item.item_id}") for item in items)


@pytest.mark.parametrize("name", READERS)
def test_the_order_of_the_candidates_never_changes_a_score(name):
    model, rng = reader(name), np.random.default_rng(0)
    orders = [rng.permutation(len(item.candidates)) for item in LONG]
    mixed = Items.from_records(
        replace(item, candidates=tuple(item.candidates[place] for place in order))
        for item, order in zip(LONG, orders, strict=True)
    )
    expected, values = scores(model, LONG), scores(model, mixed)
    for row, order in enumerate(orders):
        np.testing.assert_allclose(values[row], expected[row][order], rtol=1e-5, atol=1e-6)


def fitted(folder=None, *, rows=8, **options):
    options = {"reads": "query", "width": 6, "epochs": 3, "rows": rows} | QUIET | options
    return EmbeddingReader.fit(QUESTIONS, folder=folder, **options)


def weights(model):
    return {name: values.clone() for name, values in model.network.state_dict().items()}


def same(one, other):
    return all(torch.equal(values, weights(other)[name]) for name, values in weights(one).items())


def test_a_seed_gives_the_same_weights_and_another_one_others(tmp_path):
    models = [fitted(tmp_path / str(number), seed=seed) for number, seed in enumerate((1, 1, 2))]
    assert same(models[0], models[1])
    assert not same(models[0], models[2])


def test_the_vocabulary_comes_from_the_training_questions_alone():
    def other(rng, choices):
        return [*choices, "held", "out"], ["held", "f1"], 1, str(rng.choice(choices))

    validation = made(other, 10, seed=9)
    model = fitted(validation=validation, evaluations=2)
    known = {word for item in QUESTIONS for word in item.text.split()}
    assert set(model.words) == known
    assert not {"held", "out"} & set(model.words)
    assert [row["step"] for row in model.training_record.scores] == [8, 15]
    again = fitted(validation=validation, evaluations=2)  # found again: nothing is trained
    assert again.training_record.last == model.training_record.last


def test_accuracy_shares_ties_and_counts_questions_without_the_answer():
    model = reader("embedding-reader")
    encoded = Questions.of(LONG, model.words)
    model._scores = lambda _: [np.array([1.0, 2.0, 2.0]), np.array([3.0, 1.0]), *[np.zeros(4)] * 4]
    encoded.arrays["answer"][:] = [1, 0, -1, 0, 1, 2]
    assert model.accuracy(encoded) == pytest.approx((1 / 2 + 1 + 0 + 3 / 4) / 6)


def test_predictions_have_where_it_looked_if_that_is_wanted(tmp_path):
    model = WindowMemory.fit(QUESTIONS, width=4, epochs=1, attention=True, name="mine", **QUIET)
    model.save(tmp_path / "model")
    loaded = WindowMemory.load(tmp_path / "model", device="cpu", attention=True)
    frames = [one.predict(LONG) for one in (model, loaded)]
    for item, weights, again in zip(LONG, *(frame["attention"] for frame in frames), strict=True):
        assert len(weights) == len(item.tokens)
        assert sum(weights) == pytest.approx(1)
        assert list(weights) == list(again)
    plain = WindowMemory.fit(QUESTIONS, width=4, epochs=1, **QUIET)  # found again
    assert [one.name for one in (model, loaded, plain)] == ["mine", "mine", "Window memory"]
    assert plain.predict(LONG)["attention"].isna().all()


def test_options_that_are_not_known_are_refused():
    refused(fitted, widht=3)
    refused(fitted, patience=2)


def test_without_candidates_it_chooses_among_the_words_of_the_context():
    model = reader("embedding-reader")
    items = items_from_text(["w1 W2 w1 . w3 ___"], answers=["w2"], tokenised=True)
    assert sorted(model.choices(items)[0]) == [".", "w1", "w2"]
    assert model.predict(items)["prediction"][0] in {".", "w1", "w2"}
