"""Influence of the parts of a passage, beside a plain loop over its changed forms."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from workbench.items.changes import with_answer, without
from workbench.items.items import Items, items_from_text
from workbench.models import RandomWord
from workbench.probing.influence import parts_of
from workbench.storage.errors import DataError

pytest.importorskip("transformers")

import torch
from plain_causal import Plain
from plain_causal import model as causal

from workbench.models.pretrained.loading import Checkpoint

torch.set_num_threads(1)

WORDS = ["a", "Dog", "dogs", "(b", "c)", ".", "?", "''", '"', "dog.", "\n\n", ",", "it's"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join)


@given(TEXTS, TEXTS, st.booleans(), st.sampled_from(["sentence", "word", "mention"]))
def test_what_is_left_out_is_the_part_and_nothing_else(before, after, tokenised, by):
    text = f"{before} ___ {after}".replace("( ___", "(___")
    [item] = items_from_text(text, answers=["dog"], candidates=[["dog", "cat"]], tokenised=tokenised)
    for start, end in parts_of(item, by):
        changed = without(item, (start, end))
        Items.from_records([changed])  # checks all spans
        removed = len(item.text) - len(changed.text)
        first = next(n for n in range(start + 1) if item.text[:n] + item.text[n + removed :] == changed.text)
        widest = [
            n for n in range(len(item.text)) if item.text[:n] + item.text[n + removed :] == changed.text
        ]
        assert any(item.text[n : n + removed].strip() == item.text[start:end].strip() for n in widest)
        assert first <= start
        answer = item.answer_span[0] - removed
        assert changed.answer_span == (answer, answer + 3)
        assert (changed.text[slice(*changed.answer_span)], changed.right) == ("dog", item.right)
        kept = [item.text[slice(*span)] for span in item.sentences[:-1] if not span[0] <= start < span[1]]
        rest = iter(changed.context)
        assert all(each in rest for each in kept), "in their order; what is left of a part's may be as one"
        assert len(changed.context) - len(kept) == (
            by != "sentence" and start < item.sentences[-1][0] and any(
                a <= start < b and item.text[a:b].strip() != item.text[start:end] for a, b in item.sentences
            )
        )  # fmt: skip


def test_parts_of_a_question_are_its_sentences_words_and_mentions():
    item = wb.load("sample", variant="cbt")[0]
    sentences = parts_of(item, "sentence")
    assert [item.text[slice(*span)] for span in sentences] == item.context
    shorter = without(item, sentences[3])
    assert shorter.context == [*item.context[:3], *item.context[4:]]
    assert (shorter.query, shorter.candidates) == (item.query, item.candidates)
    words = [item.text[slice(*span)] for span in parts_of(item, "word")]
    assert words == item.text[: item.answer_span[0]].split()
    [item] = items_from_text("The dog saw a cat . The dog's friend met the ___ , dog", answers=["dog"])
    assert [item.text[slice(*span)] for span in parts_of(item, "mention")] == ["dog", "dog's"]


def plain_loop(log_prob, items, by, other=None):
    """Return the influences, or contrasts with another word, one form at a time."""
    changes = []
    for item in items:

        def value(form):
            return log_prob(form) - (0 if other is None else log_prob(with_answer(form, other)))

        changes += [value(item) - value(without(item, span)) for span in parts_of(item, by)]
    return changes


@pytest.mark.parametrize("by", ["sentence", "word", "mention"])
def test_an_n_gram_model_with_cache(items, sample_ngram, by):
    model, items = sample_ngram.cached(0.2), items[: 2 if by == "word" else 5]
    frame = wb.influence(model, items, by=by, against="man")

    def log_prob(form):
        return model.log_prob(Items.from_records([form]))[0]

    np.testing.assert_allclose(frame["influence"], plain_loop(log_prob, items, by), atol=1e-9)
    np.testing.assert_allclose(frame["contrast"], plain_loop(log_prob, items, by, "man"), atol=1e-9)
    assert (frame["against"] == "man").all()
    texts = {item.item_id: item.text for item in items}
    for row in frame.itertuples():
        assert row.text == texts[row.item_id][row.start : row.end]
    assert frame["item_id"].tolist() == [item.item_id for item in items for _ in parts_of(item, by)]
    if by == "word":
        distances = [n for item in items for n in range(len(parts_of(item, by)), 0, -1)]
        assert frame["distance"].tolist() == distances
    plain = wb.influence(sample_ngram, items, by=by)
    assert "contrast" not in plain
    if by == "sentence":
        assert (plain["influence"] == 0).all()


@pytest.fixture(scope="module")
def sample_ngram():
    return wb.models.NGram.fit(wb.books("sample", "train"), order=3, progress=False)


@pytest.mark.parametrize("by", ["sentence", "word"])
@pytest.mark.parametrize("kind", ["bytes", "llama"])
def test_a_causal_model_whose_forms_share_their_beginning(folders, items, kind, by):
    plain = Plain(folders(kind), 256 if kind == "bytes" else 10**6)
    items = Items.concat([items[:2], wb.load("sample", "dev", variant="capitalised")[3:4]])
    model = causal(folders(kind), batch_tokens=300)

    def log_prob(form):
        return sum(plain.says(form.text[: form.answer_span[0]], form.answer)[:2])

    frame = wb.influence(model, items, by=by, against="He was")
    np.testing.assert_allclose(frame["influence"], plain_loop(log_prob, items, by), atol=2e-4)
    np.testing.assert_allclose(frame["contrast"], plain_loop(log_prob, items, by, "He was"), atol=3e-4)


def test_a_passage_of_five_sentences_costs_three_readings(folders, monkeypatch):
    words = "Nobody had seen {} of the other people there . "
    text = "".join(map(words.format, ["Ann", "Bob", "Carl", "Dora"])) + "Then all of us went with the dog"
    model, items = causal(folders("gpt2"), batch_tokens=1), items_from_text(text, tokenised=True)
    sizes, logits = [], Checkpoint.logits

    def counted(self, ids, *arguments, **options):
        sizes.append(ids.size)  # without padding, as each row is a batch
        return logits(self, ids, *arguments, **options)

    monkeypatch.setattr(Checkpoint, "logits", counted)
    model.log_prob(items)
    [reading] = sizes
    for against in (None, "cat"):
        sizes.clear()
        wb.influence(model, items, against=against)
        assert sum(sizes) <= 3 * reading + 5 * 2  # and the answers, once a form


def test_against_the_most_probable_other_word(folders, items, sample_ngram):
    items = items[:4]
    best = sample_ngram.predict(items, 3)["top_words"]
    frame = wb.influence(sample_ngram, items, against="prediction").groupby("item_id", sort=False)
    for words, answer, others in zip(best, items.frame["answer"], frame["against"].unique(), strict=True):
        assert others == [next(word for word in words if word != answer.lower())]
    words = pd.Series(["cat", items.frame["answer"][1]], index=items.frame["item_id"][:2])
    frame = wb.influence(causal(folders("bytes")), items[:3], against=words)
    has_other = frame["item_id"] == items.frame["item_id"][0]
    assert frame["contrast"].notna().tolist() == frame["against"].notna().tolist() == has_other.tolist()
    frame = wb.influence(causal(folders("bytes")), items[:1], against="prediction")
    assert frame["contrast"].notna().all()


def test_wrong_arguments_are_refused(items, sample_ngram):
    wrong = [
        ({"model": RandomWord("passage")}, "no log-probabilities"),
        ({"items": items[:0]}, "there are no items"),
        ({"items": items_from_text("A ___ .", answers=[None])}, "has no answer"),
        ({"by": "line"}, "by is 'line'"),
        ({"against": 3}, "against is 3"),
        ({"against": " "}, "against is ' '"),
    ]
    for options, message in wrong:
        with pytest.raises(DataError, match=message):
            wb.influence(**{"model": sample_ngram, "items": items[:1], **options})
