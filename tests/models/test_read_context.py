"""What a model says that it reads of a passage, by changing all other words: the numbers stay."""

from dataclasses import replace

import numpy as np
import pytest
import saved_models

from workbench.items.items import Items, items_from_text
from workbench.items.tokens import tokens
from workbench.models.base import Predictor
from workbench.models.baselines.chance import RandomWord
from workbench.models.baselines.passage_baseline import MaximumFrequency
from workbench.models.ensemble import Ensemble
from workbench.models.item_words import ReadContext
from workbench.models.registry import BUILT_IN

TEXT = "w0 w4 w2 w3 . w5 w1 w6 ___ w2 w3 w5 w4 w0"
ITEM = items_from_text([TEXT], answers=["w7"], candidates=[["w7", "w3", "w5"]], tokenised=True)[0]


def numbers(model, item):
    """Return what a model computes from what it reads: without the words that it scores after the blank."""
    items = Items.from_records([item])
    if model.score_type == "log_prob" and model.context.side == "before":
        return model.log_prob(items)
    return np.asarray(model.score(items, [list(item.candidates)]), dtype=float)


def with_words(item, changed):
    """Return an item with one more word in the place of some of its tokens, of the same length."""
    text = item.text
    for start, end in changed:
        text = text[:start] + "w8"[: end - start] + text[end:]
    return replace(item, text=text)


def others(model):
    """Return the words that a model does not read; it may score those after the blank."""
    cut = tokens(ITEM)
    by_score = model.score_type == "score" or type(model).log_prob is Predictor.log_prob
    scored = model.context.scores_rest and by_score
    known = [*model.context.spans(ITEM), *cut.spans[cut.target : None if scored else cut.end]]
    return [span for span in cut.spans if span not in known and ITEM.text[slice(*span)] != "."]


@pytest.mark.parametrize("name", BUILT_IN)
def test_words_that_it_does_not_read_change_nothing_and_those_that_it_reads_do(name, folders):
    model = saved_models.made(name, folders)
    assert model.context is not None
    before = numbers(model, ITEM)
    np.testing.assert_allclose(numbers(model, with_words(ITEM, others(model))), before, rtol=1e-5)
    read = [span for span in model.context.spans(ITEM) if ITEM.text[slice(*span)] != "."]
    assert bool(read) == (model.context.side != "none")
    words = [ITEM.text[slice(*span)] for span in model.context.spans(ITEM)]
    assert [word for word in model.input_text(ITEM).split() if word != "___"] == words
    if read and name not in {"sup-cbow", "cbow"}:  # their tiny vectors do not tell these words apart
        candidates = replace(with_words(ITEM, read), candidates=ITEM.candidates)
        assert not np.allclose(numbers(model, candidates), before, rtol=1e-9) or model.score_type == "score"


@pytest.mark.parametrize("reads", [1, 3, "sentence", None])
def test_a_network_that_reads_less_says_so(reads, folders):
    model = saved_models.made("lstm", folders).with_context(reads)
    before = numbers(model, ITEM)
    assert len(model.context.spans(ITEM)) == {1: 1, 3: 3, "sentence": 3, None: 8}[reads]
    np.testing.assert_allclose(numbers(model, with_words(ITEM, others(model))), before, rtol=1e-5)


def test_where_the_words_stand():
    def words(*context):
        return [ITEM.text[slice(*span)] for span in ReadContext(*context).spans(ITEM)]

    assert words("before") == ["w0", "w4", "w2", "w3", ".", "w5", "w1", "w6"]
    assert words("before", 2) == ["w1", "w6"]
    assert words("before", None, True) == ["w5", "w1", "w6"]  # noqa: FBT003
    assert words("both", 1) == ["w6", "w2"]
    assert words("both", None, True) == ["w5", "w1", "w6", "w2", "w3", "w5", "w4", "w0"]  # noqa: FBT003
    assert words("none") == []


def test_models_of_models_and_of_no_passage():
    drawn, counted = RandomWord(vocabulary=["a", "b"]), MaximumFrequency("context")
    assert drawn.context == ReadContext("none")
    assert RandomWord("passage").context == ReadContext("both")
    assert counted.context is None  # its passage lacks the target sentence
    assert MaximumFrequency("context", query=True).context == ReadContext("both")
    assert Ensemble([drawn, drawn]).context == ReadContext("none")
    assert Ensemble([drawn, RandomWord("passage")]).context == ReadContext("both")
    assert Ensemble([drawn, counted]).context is None
