"""Query alone and passage alone: what is left of an item, and that nothing else is."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from braced_items import cloze
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused

import workbench as wb
from workbench.items.ablation import split_variant, whole_variant
from workbench.items.items import Items
from workbench.models import AttentionSum
from workbench.models.baselines.passage_baseline import MaximumFrequency, SlidingWindow, WordDistance
from workbench.models.ngram.model import NGram
from workbench.storage.errors import DataError

WORD = st.text("abc", min_size=1, max_size=3)
SENTENCE = st.lists(WORD, min_size=1, max_size=5).map(" ".join)


def question(context, left, answer, right, **columns):
    """Return a question in the form of the Children's Book Test."""
    query = " ".join(filter(None, [left, f"{{{answer}}}", right]))
    text = " . ".join([*context, query])
    return cloze(f"{text} .", **{"item_id": "cbt/dev/q", "dataset": "cbt", "variant": "NE"} | columns)


@settings(max_examples=15, deadline=None)
@given(st.lists(SENTENCE, max_size=3), SENTENCE, WORD, SENTENCE, SENTENCE)
def test_the_query_alone_does_not_depend_on_the_context(context, left, answer, right, other):
    one, two = (
        Items.from_records([question(before, left, answer, right)]).query_only()[0]
        for before in (context, [other])
    )
    assert one == two
    assert one.text == f"{left} {answer} {right} ."
    assert (one.context, one.answer, one.passage) == ([], answer, f"{left} _____ {right} .")


@settings(max_examples=15, deadline=None)
@given(st.lists(SENTENCE, min_size=1, max_size=3), SENTENCE, WORD, SENTENCE, SENTENCE)
def test_the_passage_alone_does_not_depend_on_the_query(context, left, answer, right, other):
    one, two = (
        Items.from_records([question(context, *query)]).passage_only()[0]
        for query in ((left, answer, right), (other, answer, ""))
    )
    assert one == two
    assert (one.query, one.left, one.right, one.answer) == ("_____", "", "", answer)
    assert one.context == [f"{sentence} ." for sentence in context]
    assert one.text == one.passage.removesuffix("_____") + answer


@settings(max_examples=15, deadline=None)
@given(SENTENCE, WORD, WORD)
def test_no_answer_leaks_into_the_passage_with_the_blank(left, answer, other):
    for ablate in (Items.query_only, Items.passage_only):
        first, second = (
            ablate(Items.from_records([question(["it rained"], left, word, "")]))[0]
            for word in (answer, other)
        )
        assert first.passage == second.passage


def test_ids_and_candidates_stay_and_the_variant_tells_the_input():
    items = wb.load("sample", "dev", variant="cbt")
    kept = ["item_id", "dataset", "split", "answer", "candidates", "word_class", "book_id", "meta"]
    for ablate, name in ((Items.query_only, "query only"), (Items.passage_only, "passage only")):
        changed = ablate(items)
        assert changed.frame[kept].equals(items.frame[kept])
        assert (changed.frame["variant"] == items.frame["variant"] + f" ({name})").all()
        assert whole_variant(changed.frame["variant"]).tolist() == items.frame["variant"].tolist()
        refused(changed.query_only)
    assert split_variant("a (b)") == ("a (b)", "")


def test_items_without_an_answer_keep_their_bare_blank():
    items = wb.items_from_text("It rained . The ___ barked .", answers=[None])
    assert items.query_only()[0].passage == "The _____ barked ."
    assert items.passage_only()[0].passage == "It rained . _____"


def test_candidates_as_context_come_in_an_order_that_tells_nothing():
    names = [f"w{k}" for k in range(10)]
    rng = np.random.default_rng(0)
    records = []
    for number in range(400):
        listed = rng.permutation(names).tolist()
        records.append(
            question(["hay"], "the", listed[0], "", item_id=f"cbt/dev/{number}", candidates=tuple(listed))
        )
    changed = Items.from_records(records).query_only(candidates_as_context=True)
    assert all(sorted(item.context[0].split()) == names and len(item.context) == 1 for item in changed)
    places = np.array([item.context[0].split().index(item.answer) for item in changed])
    counts = np.bincount(places, minlength=10)
    assert ((counts - 40) ** 2 / 40).sum() < 27.9  # chi-square, 9 degrees of freedom: p = 0.001
    turned = Items.from_records(
        [question(["hay"], "the", "w3", "", item_id="cbt/dev/0", candidates=tuple(names))]
    )
    again = turned.query_only(candidates_as_context=True)
    assert again[0].context == changed[0].context  # whatever the answer and the order of the candidates
    other = turned.query_only(candidates_as_context=True, seed=1)
    assert other[0].context != again[0].context
    assert again[0].passage.endswith(again[0].query)
    assert again[0].query == "the _____ ."
    with pytest.raises(DataError):
        Items.from_records([question([], "a", "b", "c")]).query_only(candidates_as_context=True)


def test_models_see_only_what_is_left():
    items = wb.load("sample", "dev", variant="cbt")[:40]
    frequency = MaximumFrequency("context", query=True)
    ngram = NGram.fit(["the dog saw the cat .", "a cat saw it ."], order=3, memory="60M")
    scores = {
        (model.name, name): model.predict(changed)["candidate_scores"].tolist()
        for model in (frequency, ngram)
        for name, changed in (("all", items), ("q", items.query_only()), ("p", items.passage_only()))
    }
    of = {name: scores[frequency.name, name] for name in ("all", "q", "p")}
    for item, passage, query in zip(items, of["p"], of["q"], strict=True):
        words = " ".join(item.context).casefold().split()
        assert passage == [words.count(word.casefold()) for word in item.candidates]
        rest = f"{item.left} {item.right}".casefold().split()
        assert query == [rest.count(word.casefold()) for word in item.candidates]
    assert of["all"] != of["p"] != of["q"]
    assert scores[ngram.name, "q"] != scores[ngram.name, "p"]


def with_other_answer(item):
    """Return an item with another candidate in the place of its answer."""
    word, (start, end) = item.candidates[item.candidates.index(item.answer) - 3], item.answer_span
    *before, (first, last) = item.sentences
    return replace(
        item,
        text=item.text[:start] + word + item.text[end:],
        answer=word,
        answer_span=(start, start + len(word)),
        sentences=(*before, (first, last + len(word) - (end - start))),
    )


@pytest.mark.parametrize("make", [WordDistance, SlidingWindow, AttentionSum])
def test_scores_do_not_depend_on_the_answer(make, tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    items = wb.load("sample", "dev", variant="cbt")[:24]
    changed = Items.from_records(map(with_other_answer, items))
    inputs = [Items.query_only, partial(Items.query_only, candidates_as_context=True), Items.passage_only]
    for ablate in inputs:
        one, two = ablate(items), ablate(changed)
        how = {"epochs": 1, "width": 8, "device": "cpu"}
        model = make.fit(one, **how) if hasattr(make, "fit") else make()
        scores = [model.score(part, part.frame["candidates"].tolist()) for part in (one, two)]
        assert np.array_equal(*scores)


def test_results_say_which_input_it_was():
    items = wb.load("sample", "dev", variant="cbt")
    model = MaximumFrequency("context")
    frames = [model.predict(part) for part in (items, items.query_only(), items.passage_only())]
    names = [model.name, f"{model.name} (query only)", f"{model.name} (passage only)"]
    assert wb.evaluate(frames)["model"].tolist() == names
    assert frames[0]["system"].notna().all()
    assert frames[1]["system"].isna().all()  # the paper's row has the whole items
    table = wb.table("cbt", frames, dataset="sample").frame
    ours = table[table["model"].notna()].drop_duplicates("model").set_index("model")["system"]
    assert ours.index.tolist() == names
    assert ours.notna().tolist() == [True, False, False]
    board = wb.leaderboard(frames, by="dataset", published=False)
    assert set(board["model"]) == set(names)
