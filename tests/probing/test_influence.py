"""Influence of the parts of a passage, beside a plain loop over its changed forms."""

import itertools
import re
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from refused import refused

import workbench as wb
from workbench.items.changes import masked, with_answer, without
from workbench.items.items import Items, items_from_text
from workbench.models import RandomWord, Scoring
from workbench.models.item_words import Attention
from workbench.probing.influence import influence_by_distance, parts_of, rank_correlation

pytest.importorskip("transformers")

import torch
from plain_causal import Plain
from plain_causal import model as causal

from workbench.models.pretrained.loading import Checkpoint

torch.set_num_threads(1)

WORDS = ["a", "Dog", "dogs", "(b", "c)", ".", "?", "''", '"', "dog.", "\n\n", ",", "it's"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join)
RULE = re.compile(
    r"(\A|\n) *___ *(\n|\Z)|[Dd]og\W*\Z"
)  # a paragraph, or a text that ends with the answer: no blank


@given(TEXTS, TEXTS, st.booleans(), st.sampled_from(["sentence", "word", "mention"]))
def test_what_is_left_out_is_the_part_and_nothing_else(before, after, tokenised, by):
    text = f"{before} ___ {after}".replace("( ___", "(___")
    assume(not RULE.search(text))
    [item] = items_from_text(text, answers=["dog"], candidates=[["dog", "cat"]], tokenised=tokenised)
    for start, end in parts_of(item, by):
        changed = without(item, (start, end))
        Items.from_records([changed])  # checks all spans
        removed = len(item.text) - len(changed.text)
        cuts = [(n, item.text[n : n + removed]) for n in range(len(item.text))]
        fit = [(n, cut) for n, cut in cuts if item.text[:n] + item.text[n + removed :] == changed.text]
        assert fit[0][0] <= start
        assert item.text[start:end].strip() in [cut.strip() for _, cut in fit]
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


def plain_loop(log_prob, items, by, other, change=without):
    """Return the influences, and the contrasts with another word, one form at a time."""

    def values(form):
        return [log_prob(form), log_prob(with_answer(form, other))]

    changes = []
    for item in items:
        whole = np.array(values(item))
        changes += [whole - values(change(item, span)) for span in parts_of(item, by)]
    of_answer, of_other = np.reshape(changes, (-1, 2)).T
    return of_answer, of_answer - of_other


@pytest.mark.parametrize("by", ["sentence", "word", "mention"])
def test_an_n_gram_model_with_cache(items, sample_ngram, by):
    model, items = sample_ngram.cached(0.2), items[: 1 if by == "word" else 3]
    frame = wb.influence(model, items, by=by, against="man")

    def log_prob(form):
        return model.log_prob(Items.from_records([form]))[0]

    influences, contrasts = plain_loop(log_prob, items, by, "man")
    np.testing.assert_allclose(frame["influence"], influences, atol=1e-9)
    np.testing.assert_allclose(frame["contrast"], contrasts, atol=1e-9)
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


def test_a_causal_model_whose_forms_share_their_beginning(folders, items):
    plain, model = Plain(folders("llama")), causal(folders("llama"), batch_tokens=300)
    items = Items.concat([items[:1], wb.load("sample", "dev", variant="capitalised")[3:4]])

    def log_prob(form):
        return sum(plain.says(form.text[: form.answer_span[0]], form.answer)[:2])

    frame = wb.influence(model, items, against="He was")
    influences, contrasts = plain_loop(log_prob, items, "sentence", "He was")
    np.testing.assert_allclose(frame["influence"], influences, atol=2e-4)
    np.testing.assert_allclose(frame["contrast"], contrasts, atol=3e-4)


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
    for options in (
        {"model": RandomWord("passage")},
        {"items": items_from_text("A ___ .", answers=[None])},
        {"by": "line"},
        {"how": "left out"},
        {"how": "masked", "mask": "two words"},
    ):
        refused(wb.influence, **{"model": sample_ngram, "items": items[:1], **options})


WORD_CORE = r"\w(?:\S*\w)?"


@given(TEXTS, TEXTS, st.booleans(), st.sampled_from(["sentence", "word", "mention"]))
def test_what_is_masked_is_each_word_of_the_part_and_nothing_else(before, after, tokenised, by):
    text = f"{before} ___ {after}".replace("( ___", "(___")
    assume(not RULE.search(text))
    [item] = items_from_text(text, answers=["dog"], candidates=[["dog", "cat"]], tokenised=tokenised)
    for start, end in parts_of(item, by):
        changed = masked(item, (start, end), "_")
        Items.from_records([changed])  # checks all spans
        longer = len(changed.text) - len(item.text)
        assert (changed.text[:start], changed.text[end + longer :]) == (item.text[:start], item.text[end:])
        words, new = item.text[start:end].split(), changed.text[start : end + longer].split()
        if any(map(str.isalnum, "".join(words))):
            assert len(new) == len(words), "distances stay"
            for word, other in zip(words, new, strict=True):
                inside = re.search(WORD_CORE, word)
                assert other == (word.replace(inside[0], "_") if inside else word)
        else:
            assert new == ["_"]
        assert (changed.text[slice(*changed.answer_span)], changed.right) == ("dog", item.right)
        assert len(changed.sentences) == len(item.sentences)


def test_masked_words_are_unknown_to_an_n_gram_model_and_underscores_to_a_causal_one(
    items, sample_ngram, folders
):
    model = sample_ngram.cached(0.2)
    assert (model.mask, causal(folders("bytes")).mask) == ("□", "_")
    assert model.mask not in model.vocabulary

    def log_prob(form):
        return model.log_prob(Items.from_records([form]))[0]

    for by, n in (("sentence", 2), ("word", 1)):
        frame = wb.influence(model, items[:n], by, against="man", how="masked")
        change = partial(masked, word=model.mask)
        influences, contrasts = plain_loop(log_prob, items[:n], by, "man", change)
        np.testing.assert_allclose(frame["influence"], influences, atol=1e-9)
        np.testing.assert_allclose(frame["contrast"], contrasts, atol=1e-9)
    chosen = wb.influence(sample_ngram, items[:1], "word", how="masked", mask="the")
    assert chosen["influence"].tolist() != wb.influence(sample_ngram, items[:1], "word", how="masked")[
        "influence"
    ].tolist()  # fmt: skip


def test_the_change_of_rank(items, sample_ngram, folders):
    words = [*sample_ngram.vocabulary[:100], *items.frame["answer"][:2].str.lower()]
    causal_model = causal(
        folders("bytes"), vocabulary=dict.fromkeys(words, 1), scoring=Scoring(case="as-is", budget=None)
    )
    for model in (sample_ngram.cached(0.2), causal_model):
        frame = wb.influence(model, items[:2], ranks=True)
        pairs = [(item, without(item, span)) for item in items[:2] for span in parts_of(item, "sentence")]
        ranks = [[model.predict(Items.from_records([form]), 1)["rank"][0] for form in pair] for pair in pairs]
        expected = pd.array([pd.NA if pd.isna(a) or pd.isna(b) else b - a for a, b in ranks], dtype="Int64")
        pd.testing.assert_series_equal(
            frame["rank_change"], pd.Series(expected), check_names=False, check_dtype=True
        )
        assert frame["rank_change"].notna().any()
        assert frame["rank"].dtype == "Int64"
    fewer = causal(
        folders("bytes"), vocabulary=dict.fromkeys(words[:-1], 1), scoring=Scoring(case="as-is", budget=None)
    )
    frame = wb.influence(fewer, items[:2], ranks=True)  # the answer of the second item is not ranked
    is_known = frame["item_id"] == items[0].item_id
    for name in ("rank", "rank_change"):
        assert frame[name].notna().tolist() == is_known.tolist()
    bound = causal(
        folders("bytes"), vocabulary=dict.fromkeys(words, 1), scoring=Scoring(case="as-is", budget=0)
    )
    is_bound = bound.predict(items[:2], 1)["rank_is_bound"]
    assert is_bound.any()
    frame = wb.influence(bound, items[:2], ranks=True)
    unknown = frame["item_id"].isin(items.frame["item_id"][:2][is_bound.to_numpy()])
    assert frame.loc[unknown, "rank_change"].isna().all()


def made_parts(n_items=12, seed=3):
    """Return parts with any influences, of which the distances of an item are all different."""
    rng = np.random.default_rng(seed)
    rows = []
    for item in range(n_items):
        distances = rng.choice(np.arange(1, 40), size=rng.integers(2, 9), replace=False)
        rows += [
            (f"item {item}", 10 * k, 10 * k + 8, int(d), rng.normal())
            for k, d in enumerate(sorted(distances.tolist(), reverse=True))
        ]
    return pd.DataFrame(rows, columns=["item_id", "start", "end", "distance", "influence"])


def test_the_mean_by_distance_and_its_interval():
    parts = made_parts()
    parts.loc[3, "influence"], parts.loc[5, "influence"] = np.nan, -np.inf
    edges = (1, 4, 16, 32)
    curve = influence_by_distance({"a": parts}, edges=edges, level=0.9, resamples=400, seed=7)
    assert curve.attrs["n_missing"] == 2
    counted = parts[np.isfinite(parts["influence"])]
    n_rows = 0
    for low, high in zip(edges, (*edges[1:], 10**9), strict=True):
        rows = counted[(counted["distance"] >= low) & (counted["distance"] < high)]
        got = curve[(curve["first"] >= low) & (curve["first"] < high)].iloc[0]
        n_rows += 1
        assert got["distance"] == pytest.approx(rows["distance"].mean())
        assert (got["first"], got["last"]) == (rows["distance"].min(), rows["distance"].max())
        assert got["influence"] == pytest.approx(rows["influence"].mean())
        assert (got["n_parts"], got["n"]) == (len(rows), rows["item_id"].nunique())
        # the same draws, one item at a time
        ids, rng, means = rows["item_id"].unique(), np.random.default_rng(7), []
        by_item = {i: rows.loc[rows["item_id"] == i, "influence"].tolist() for i in ids}
        for _ in range(400):
            drawn = rng.integers(0, len(ids), size=len(ids), dtype=np.int32)
            means.append(np.mean([x for k in drawn for x in by_item[ids[k]]]))
        means = np.sort(means)
        last = len(means) - 1
        ends = means[int(np.floor(last * 0.05))], means[int(np.ceil(last * 0.95))]
        np.testing.assert_allclose((got["low"], got["high"]), ends, rtol=1e-5)
    assert len(curve) == n_rows


def test_the_curve_is_drawn_from_one_row_a_bin():
    parts = {"one": made_parts(), "other": made_parts(seed=5)}
    spec = wb.charts.influence_curve(parts).to_dict()
    [data] = [rows for rows in spec["datasets"].values() if "influence" in rows[0]]
    expected = influence_by_distance(parts)
    np.testing.assert_allclose([row["influence"] for row in data], expected["influence"])
    assert {row["model"] for row in data} == {"one", "other"}
    bigger = wb.charts.influence_curve(pd.concat([made_parts(seed=n).assign(
        item_id=lambda frame, n=n: frame["item_id"] + str(n)) for n in range(5)])).to_dict()  # fmt: skip
    [data] = [rows for rows in bigger["datasets"].values() if "influence" in rows[0]]
    assert len(data) <= 13
    for wrong in (
        parts["one"].drop(columns="distance"),
        {"a": 3},
        parts["one"].assign(influence=np.nan),
    ):
        refused(wb.charts.influence_curve, wrong)
    refused(wb.charts.influence_curve, parts, "contrast")
    refused(wb.charts.influence_curve, parts, edges=(4, 2))


def plain_tau(values, others):
    """Return Kendall's tau-b by its definition, pair by pair."""
    pairs = list(itertools.combinations(range(len(values)), 2))
    signs = [(np.sign(values[a] - values[b]), np.sign(others[a] - others[b])) for a, b in pairs]
    product, first, second = (
        sum(x * y for x, y in signs), sum(x != 0 for x, _ in signs), sum(y != 0 for _, y in signs)
    )  # fmt: skip
    return product / np.sqrt(first * second) if first and second else np.nan


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), max_size=9))
def test_kendalls_tau(pairs):
    values, others = [a for a, _ in pairs], [b for _, b in pairs]
    np.testing.assert_allclose(rank_correlation(values, others), plain_tau(values, others), atol=1e-9)


def test_the_correlation_of_attention_and_influence(items, sample_ngram, monkeypatch):
    [short] = items_from_text("dogs ___", answers=["bark"])
    items, model = Items.from_records([*items[:5], short]), sample_ngram.cached()
    rng, heads = np.random.default_rng(1), ("layer 1, head 1", "layer 1, head 2")
    windows = {item.item_id: tuple((k, k + 5) for k in range(0, len(item.text), 5)) for item in items}
    weights = {item_id: rng.dirichlet(np.ones(len(spans)), size=2) for item_id, spans in windows.items()}

    def attend(batch):
        return [
            Attention(item.item_id, "m", heads, windows[item.item_id], weights[item.item_id], None, "")
            for item in batch
        ]

    monkeypatch.setattr(model, "attend", attend)
    frame = wb.influence(model, items, by="word", attention="layer 1, head 2")
    taus = []
    for item_id, parts in frame.groupby("item_id", sort=False):
        by_character = np.repeat(weights[item_id][1] / 5, 5)
        spans = zip(parts["start"], parts["end"], strict=True)
        expected = [by_character[start:end].sum() for start, end in spans]
        np.testing.assert_allclose(parts["attention"], expected)
        values = parts["influence"].tolist()
        taus.append([plain_tau(values, expected), plain_tau(values, -parts["distance"].to_numpy())])
    correlations = pd.DataFrame(frame.attrs["attention_correlation"])
    assert correlations.columns.tolist() == ["attention", "nearness"]
    np.testing.assert_allclose(correlations.loc["correlation"], np.nanmean(taus, axis=0))
    assert (correlations.loc["low"] < correlations.loc["correlation"]).all()
    assert (correlations.loc["correlation"] < correlations.loc["high"]).all()
    assert correlations.loc[["n", "n_missing"]].to_numpy().tolist() == [[5, 5], [1, 1]]
    both = wb.influence(model, items[:1], by="word", attention=True)["attention"]
    by_head = [wb.influence(model, items[:1], by="word", attention=head)["attention"] for head in heads]
    np.testing.assert_allclose(both, np.mean(by_head, axis=0))
    alone = wb.influence(model, items[5:], by="word", attention=True)
    assert alone.attrs["attention_correlation"] == {}
    refused(wb.influence, model, items, attention="layer 3")
    refused(wb.influence, sample_ngram, items, attention=True)
