"""Surprisal of every word, beside a plain calculation of one word at a time."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

import workbench as wb
from workbench.items.changes import up_to, word_spans
from workbench.items.items import Items, items_from_text

pytest.importorskip("transformers")

import torch
from plain_causal import ITEMS, Plain
from plain_causal import model as causal

from workbench.models.pretrained.prompts import Prompt

torch.set_num_threads(1)

TEXTS = st.text("ab .,'\"-\n", min_size=1, max_size=40).filter(lambda text: any(map(str.isalnum, text)))


@given(TEXTS, st.booleans())
def test_words_hold_all_of_a_text_but_white_space(text, tokenised):
    [item] = items_from_text(text, tokenised=tokenised)
    words = word_spans(item)
    assert "".join(text[slice(*word)] for word in words) == "".join(text.split())
    assert item.answer_span in words or any(map(str.isspace, item.answer))
    for word in words:
        changed = up_to(item, word)
        Items.from_records([changed])  # checks all spans
        assert changed.text == text[: word[1]]
        assert changed.answer_span == word
        assert word_spans(changed)[-1] == word
        sentences = [text[slice(*span)] for span in item.sentences if span[1] <= word[0]]
        assert changed.context[: len(sentences)] == sentences


def test_an_item_without_an_answer_has_the_words_before_the_blank():
    [item] = items_from_text("The ___ barked .", answers=[None])
    assert [item.text[slice(*word)] for word in word_spans(item)] == ["The"]


def check(frame, items, log_prob):
    """Compare with -log2 of the probability of each word as an answer."""
    for item in items:
        rows = frame[frame["item_id"] == item.item_id]
        assert rows["position"].tolist() == list(range(len(rows)))
        spans = zip(rows["start"], rows["end"], strict=True)
        assert [item.text[start:end] for start, end in spans] == rows["word"].tolist()
        expected = [log_prob(item, row) for row in rows.itertuples()]
        np.testing.assert_allclose(rows["surprisal"], -np.array(expected) / np.log(2), atol=2e-4)


def test_an_n_gram_model_is_asked_once_a_word(items, sample_ngram):
    items = items[:1]
    for model in (sample_ngram, sample_ngram.cached()):
        frame = wb.surprisal(model, items)

        def log_prob(item, row, model=model):
            changed = up_to(item, (row.start, row.end))
            return model.log_prob(Items.from_records([changed]))[0]

        check(frame, items, log_prob)
        last = frame.groupby("item_id", sort=False)["surprisal"].last()
        np.testing.assert_allclose(last, -model.log_prob(items) / np.log(2))
        assert (frame["word_end"] == 0).all()


def test_best_words_and_the_difference_of_two_n_gram_models(items, sample_ngram):
    items, cached = items[:2], sample_ngram.cached(0.3)
    frame = wb.surprisal(cached, items, against=sample_ngram, top_k=3)
    for name, model in (("", cached), ("_against", sample_ngram)):
        alone = wb.surprisal(model, items)
        np.testing.assert_allclose(frame[f"surprisal{name}"], alone["surprisal"])
        rows = frame.groupby("item_id", sort=False).tail(1)
        best = model.predict(items, 3)  # the passages end with their answers
        assert rows[f"top_words{name}"].tolist() == best["top_words"].tolist()
        for values, expected in zip(rows[f"top_log_probs{name}"], best["top_log_probs"], strict=True):
            np.testing.assert_allclose(values, expected)
    np.testing.assert_allclose(frame["difference"], frame["surprisal"] - frame["surprisal_against"])
    assert (frame["difference"] != 0).any()
    refused(wb.surprisal, cached, items, top_k=-1)


def test_the_best_words_of_a_causal_model_are_those_of_one_sub_token(folders):
    plain, model = Plain(folders("gpt2")), causal(folders("gpt2"))
    frame = wb.surprisal(model, ITEMS, top_k=4)
    pd.testing.assert_frame_equal(frame[[*wb.surprisal(model, ITEMS[:1])]], wb.surprisal(model, ITEMS))
    singles = model._scorer.subwords.whole_words()
    assert all(plain.tokenizer.decode([index]) == f" {word}" for word, index in singles.items())
    words, indices = [*singles], np.array([*singles.values()])
    n_checked = 0
    for item in ITEMS:
        rows = frame[frame["item_id"] == item.item_id].to_dict("records")
        assert rows[0]["top_words"] == rows[0]["top_log_probs"] == []
        for before, row in itertools.pairwise(rows):
            if before["end"] == row["start"] and item.text[row["start"]].isalnum():
                assert row["top_words"] == []  # joined to the word before
                continue
            ids = plain.tokenizer(item.text[: before["end"]])["input_ids"]
            with torch.inference_mode():
                log_probs = plain.logits(ids, 1)[0]
            values = log_probs.numpy()[indices] - float(log_probs[plain.over].logsumexp(0))
            best = np.argsort(-values)[:4]
            np.testing.assert_allclose(row["top_log_probs"], values[best], atol=2e-4)
            assert row["top_words"] == [words[place] for place in best]
            assert np.exp(values).sum() <= 1 + 1e-6
            n_checked += 1
    assert n_checked > 30


def test_scores_that_are_no_log_probabilities_are_refused(items):
    refused(wb.surprisal, wb.models.RandomWord("passage"), items)


def test_each_word_and_the_sum_are_those_of_a_plain_calculation(folders):
    plain, model = Plain(folders("gpt2")), causal(folders("gpt2"))
    frame = wb.surprisal(model, ITEMS)
    bits = []  # of the last word, as an answer
    for item in ITEMS:
        rows = frame[frame["item_id"] == item.item_id]
        before, total, expected = 0.0, 0.0, []
        for row in rows.itertuples():
            log_prob, end, _ = plain.says(item.text[: row.start], row.word)
            end *= not item.text[row.end :][:1].isalnum()  # else the next word is joined to it
            expected.append(log_prob + end - before)
            before, total = end, total + log_prob
        np.testing.assert_allclose(rows["surprisal"], -np.array(expected) / np.log(2), atol=2e-4)
        assert rows["surprisal"].sum() == pytest.approx(-(total + before) / np.log(2), abs=1e-3)
        bits.append(rows["surprisal"].iloc[-1] + sum(rows["word_end"].iloc[-2:-1]))
    np.testing.assert_allclose(bits, -model.log_prob(ITEMS) / np.log(2), atol=2e-4)
    alone = [wb.surprisal(model, ITEMS[row : row + 1]) for row in range(len(ITEMS))]
    pd.testing.assert_frame_equal(pd.concat(alone, ignore_index=True), frame, atol=2e-4)


def test_a_long_passage_is_read_in_windows(folders):
    """Within the first window each word is what it is in a short passage; all others are finite."""
    model = causal(folders("bytes"))
    [item] = items_from_text(" ".join([ITEMS[0].text] * 8), tokenised=True)
    words = wb.surprisal(model, Items.from_records([item]))["surprisal"]
    n = len(words) // 8
    assert len(model._scorer.subwords.encode([item.text])[0]) > 2 * model._scorer.length
    np.testing.assert_allclose(words[: n - 1], wb.surprisal(model, ITEMS[:1])["surprisal"][:-1], atol=2e-4)
    assert np.isfinite(words).all()
    assert (words > 0).all()


def test_readable_text_is_scored_for_the_released_words(folders):
    model = causal(folders("gpt2"), text="detokenised")
    items = items_from_text("`` I did n't go , '' said the dog", tokenised=True)
    frame = wb.surprisal(model, items)
    readable, _ = items[0].readable()
    plain = Plain(folders("gpt2"))
    total = plain.says("", readable[:1])[0] + plain.says(readable[:1], readable[1:])[0]
    total += plain.says(readable[:-3], "dog")[1]
    assert frame["word"].tolist() == items[0].text.split()
    assert frame["surprisal"].sum() == pytest.approx(-total / np.log(2), abs=1e-3)


def test_a_prompt_is_refused(folders):
    refused(wb.surprisal, causal(folders("bytes"), prompt=Prompt("{text}")), ITEMS)
