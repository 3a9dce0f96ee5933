# ruff: noqa: RUF001, RUF003 - typographic apostrophes are meant
"""Causal language models, beside a plain calculation of one word at a time."""

import json
import shutil
from functools import cache, partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused

import workbench as wb
from workbench.items import text as wt
from workbench.items.items import Items, items_from_frame, items_from_text
from workbench.storage.errors import DataError

pytest.importorskip("transformers")

import torch
import transformers
from odd_tokenizers import WITH_ENDS, byte_level, tiny_with, with_marks
from plain_causal import ITEMS, RUNNING, TOKENS, WORDS, Plain, before, model
from tokenizers import processors

from workbench.models.base import Predictor
from workbench.models.pretrained.causal import Scoring
from workbench.models.pretrained.loading import Checkpoint, keep_asked
from workbench.models.pretrained.masked import MaskedLM
from workbench.models.pretrained.prompts import Prompt
from workbench.models.pretrained.scoring import KINDS, CausalScorer
from workbench.models.pretrained.subwords import cased_forms

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def plains(folders):
    return cache(lambda kind: Plain(folders(kind), 256 if kind == "bytes" else 10**6))


def questions(*rows):
    """Make items of texts with candidates, the first of which is the answer."""
    frame = pd.DataFrame([(f"q{n}", text, words[0], words) for n, (text, words) in enumerate(rows)])
    frame.columns = ["item_id", "text", "answer", "candidates"]
    return items_from_frame(frame, candidates="candidates", item_id="item_id")


def check_log_probs(frame, plain, items):
    """Compare with the plain calculation, and return it: log-probability, end, greedy of each answer."""
    expected = [plain.says(before(item), item.answer) for item in items]
    np.testing.assert_allclose(frame["log_prob_uncorrected"], [row[0] for row in expected], atol=1e-4)
    np.testing.assert_allclose(frame["log_prob"], [row[0] + row[1] for row in expected], atol=1e-4)
    return expected


@pytest.mark.parametrize("case", [("bytes", None, 1), ("llama", 60, 3)])
def test_log_probs_are_those_of_a_plain_calculation(folders, plains, monkeypatch, case):
    kind, batch_tokens, threads = case
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)  # so many batches at once
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)  # else this process keeps that number
    mine, plain = model(folders(kind), batch_tokens=batch_tokens), plains(kind)
    frame = mine.predict(ITEMS)
    expected = check_log_probs(frame, plain, ITEMS)
    np.testing.assert_allclose(mine.log_prob(ITEMS), frame["log_prob"], atol=1e-4)
    assert frame["greedy_correct"].tolist() == frame["correct"].tolist() == [row[2] for row in expected]
    assert frame[["rank", "n_choices"]].isna().all(axis=None)
    for row, item in zip(frame.itertuples(), ITEMS, strict=True):
        written = plain.writes(before(item))
        if not row.correct:
            assert pd.isna(row.prediction) if written in {"", item.answer} else row.prediction == written
    own = [(before(item), plain.writes(before(item))) for item in ITEMS[:6]]  # what it writes itself is right
    items = items_from_text([left + word for left, word in own if word.isalpha() and word.isascii()])
    frame = mine.predict(items)
    greedy = [row[2] for row in check_log_probs(frame, plain, items)]
    assert frame["correct"].tolist() == frame["prediction"].notna().tolist() == greedy
    assert (frame["prediction"] == frame["answer"]).tolist() == greedy


@pytest.mark.parametrize(("kind", "batch_tokens"), [("bytes", 1), ("llama", 400)])
def test_the_last_sub_token_alone(folders, plains, kind, batch_tokens):
    mine, plain = model(folders(kind), correct="last-token", batch_tokens=batch_tokens), plains(kind)
    assert mine.name.endswith("(last sub-token)")
    own = [before(item) + plain.writes(before(item)) for item in ITEMS[:6]]
    items = items_from_text([*(item.text for item in ITEMS), *(text for text in own if text[-1:].isalpha())])
    frame = mine.predict(items)
    assert set(frame["unit"]) == {"last-token"}
    assert frame["log_prob_uncorrected"].isna().all()
    assert set(frame["correct"]) == {True, False}
    for row, item in zip(frame.itertuples(), items, strict=True):
        whole, n = plain.cut(before(item), item.answer)
        [log_probs] = plain.logits(whole[:-1][-plain.length :], 1).detach()
        assert row.log_prob == pytest.approx(float(log_probs[whole[-1]]), abs=1e-4)
        assert row.correct == (int(log_probs.argmax()) == whole[-1])
        assert row.correct or not row.greedy_correct
        if not row.correct:
            written = plain.tokenizer.decode([*whole[:-1], int(log_probs.argmax())])
            start = len(plain.tokenizer.decode(whole[:n]))
            assert pd.isna(row.prediction) or row.prediction == written[start:].strip()


@pytest.mark.parametrize("kind", [*sorted(KINDS), "bloom", "a window", "apart"])
def test_paths_that_share_a_row_see_what_each_alone_would(folders, monkeypatch, kind):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folders("bytes"))
    name = {"a window": "mistral", "apart": "gpt2"}.get(kind, kind)
    if kind == "apart":
        monkeypatch.setattr("workbench.models.pretrained.scoring._STATE_BYTES", 0)
    config = transformers.AutoConfig.for_model(
        name, vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4 if name in {"opt", "gpt2"} else 2, intermediate_size=64, ffn_dim=64, head_dim=8,
        word_embed_proj_dim=32, max_position_embeddings=256, sliding_window=6 if kind == "a window" else None,
        bos_token_id=1, eos_token_id=2, pad_token_id=None,
    )  # fmt: skip
    torch.manual_seed(0)
    network = transformers.AutoModelForCausalLM.from_config(config).eval()
    for weight in network.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    network.tie_weights()
    network.get_output_embeddings().register_forward_pre_hook(keep_asked)
    scorer = CausalScorer(Checkpoint(network, tokenizer, "cpu", "tiny", ""), 48)
    assert scorer._packs == (name in KINDS and kind != "a window")
    rng = np.random.default_rng(0)
    ids = [rng.integers(3, 300, size).tolist() for size in (4, 30, 9)]
    paths = [[5], [5, 7], [5, 7, 8], [6], [7, 5], [5, 7, 9], *([n] for n in range(10, 60))]
    owners, seen = [0, 1, 1, 1, 1, 1, *(n % 3 for n in range(50))], []
    batches = list(scorer.contexts(ids))  # of several batches of the model, put together where they can be
    assert (len(batches) == 1) == (kind not in {"a window", "apart"})
    for batch, contexts in batches:
        those = [index for index, owner in enumerate(owners) if owner in batch]
        asked = [batch.index(owners[index]) for index in those]
        for every in (False, True):
            few = those[:6] if every else those
            counts = [len(paths[k]) for k in few] if every else None
            rows = scorer.next_logits(contexts, asked[: len(few)], [paths[k] for k in few], asked=counts)
            for part, logits in rows:
                values = iter(logits.log_softmax(-1))
                for index in (few[row] for row in part):
                    context, path = ids[owners[index]], paths[index]
                    with torch.inference_mode():
                        plain = network(torch.tensor([context + path])).logits[0].log_softmax(-1)
                    end = len(context + path)
                    for place in range(len(context) if every else end - 1, end):
                        np.testing.assert_allclose(next(values), plain[place], atol=1e-4)
                    seen.append(index)
    assert sorted(set(seen)) == list(range(len(paths)))
    long = rng.integers(3, 300, 60).tolist()
    shorter = [long[:n] + long[n + 7 :] for n in (50, 30, 9, 2)]
    texts = [ids[1], long, *shorter, long[:40], long * 5, ids[2], ids[2]]
    pairs = [(text, word) for text in texts for word in ([5, 7], [6])]
    for name, values in (("log_prob", 1e-3), ("end", 1e-3), ("greedy", 0)):
        alone = [scorer.score_pairs([pair])[name][0] for pair in pairs]
        np.testing.assert_allclose(scorer.score_variants(pairs)[name], alone, atol=values)


CASED = "He saw that Anna met O'Brien\nHe said that McDonald ran to Anna\nthe tea was for anna\nI said No"


@pytest.mark.parametrize("kind", ["bytes", "llama"])
def test_a_lower_cased_word_has_the_probabilities_of_its_forms(folders, plains, kind):
    rows = (
        "anna Anna ANNA", "o'brien O'brien O'Brien O'BRIEN", "jean-luc Jean-luc Jean-Luc JEAN-LUC",
        "mcdonald Mcdonald McDonald MCDONALD", "don't Don't DON'T", "i I", "7", "the The THE",
    )  # fmt: skip
    forms = {row[0]: row for row in map(str.split, rows)}
    assert {word: cased_forms(word) for word in forms} == forms
    plain, items, words = plains(kind), items_from_text(CASED.split("\n")), list(forms)
    mine = model(folders(kind), vocabulary=words, scoring=Scoring(case="sum", budget=None))
    frame = mine.predict(items, top_k=4)
    assert frame["known"].tolist() == [True, True, True, False]
    assert frame["case"].fillna("").tolist() == ["sum", "sum", "", "sum"]
    for row, item in zip(frame.itertuples(), items, strict=True):
        cased = item.text != item.text.lower()
        values = [plain.words(before(item), forms[word] if cased else [word]) for word in words]
        sums = np.array([np.logaddexp.reduce(few) for few in values])
        answer = sums[words.index(item.answer.lower())] if row.known else np.inf
        assert row.rank == (1 + (sums > answer + 1e-5).sum() if row.known else len(words) + 1)
        best = np.argsort(-sums, kind="stable")[:4]
        np.testing.assert_allclose(row.top_log_probs, sums[best], atol=1e-4)
        shown = [(forms[words[k]] if cased else [words[k]])[int(np.argmax(values[k]))] for k in best]
        assert list(row.top_words) == shown
        assert row.prediction == shown[0]
        assert row.correct == (shown[0].lower() == item.answer.lower())
        assert row.log_prob == pytest.approx(plain.words(before(item), [item.answer])[0], abs=1e-4)


def test_a_vocabulary_that_was_lower_cased_is_seen_from_its_words(folders):
    words = [f"word{n}" for n in range(1200)]
    for vocabulary, case in (
        (words, "sum"), ([*words, "Étienne"], "sum"), ([*words, "Anna", "I"], "as-is"), (words[:99], "as-is"),
    ):  # fmt: skip
        assert model(folders("bytes"), vocabulary=vocabulary).case == case
    assert model(folders("bytes"), vocabulary=words, scoring=Scoring(case="as-is")).case == "as-is"
    of_forms = Scoring(case="sum")
    assert model(folders("bytes"), vocabulary=["Tea", "tea", "I"], scoring=of_forms).vocabulary == (
        "tea",
        "i",
    )
    refused(model, folders("bytes"), scoring=of_forms)


@pytest.mark.parametrize("kind", ["bytes", "gpt2", "llama"])
def test_ranks_and_best_words_are_those_of_all_words_one_by_one(folders, plains, kind):
    plain = plains(kind)
    items = items_from_text([*TOKENS[:2], *RUNNING[:1], 'He said " well'])
    words = [*WORDS[: 8 if kind == "gpt2" else 25], *(item.answer for item in items)][::-1]
    words = [word for word in dict.fromkeys(words) if word != items[0].answer]  # one is not known
    mine = model(folders(kind), vocabulary=words, scoring=Scoring(budget=None))
    frame = mine.predict(items, top_k=5)
    assert frame["known"].tolist() == [False, True, True, True]
    assert frame["rank_is_bound"].tolist() == [pd.NA, False, False, False]
    assert frame["vocabulary_size"].unique() == [len(words)]
    for row, item in zip(frame.itertuples(), items, strict=True):
        values = plain.words(before(item), words)
        mine_is = values[words.index(item.answer)] if row.known else np.inf
        assert row.rank == (1 + (values > mine_is + 1e-5).sum() if row.known else len(words) + 1)
        best = np.argsort(-values, kind="stable")[:5]
        assert list(row.top_words) == [words[place] for place in best]
        np.testing.assert_allclose(row.top_log_probs, values[best], atol=1e-4)
        assert row.prediction == words[best[0]]
        assert row.log_prob == pytest.approx(sum(plain.says(before(item), item.answer)[:2]), abs=1e-4)
    assert mine.ranking(items, top_k=5).rank[1:].tolist() == frame["rank"][1:].tolist()


def test_equally_probable_words_are_tied(folders):
    mine = model(folders("bytes"), vocabulary=["he", "his", "the"], scoring=Scoring(budget=None))
    [first], [second] = mine._checkpoint.tokenizer([" the", " he"])["input_ids"]
    weights = mine._checkpoint.model.get_input_embeddings().weight
    with torch.no_grad():
        weights[second] = weights[first]
    items = items_from_text(["She looked at the", "She looked at he", "She looked at his"])
    frame = mine.predict(items, top_k=3)
    assert frame["n_tied"].tolist() == [2, 2, 1]
    assert frame["log_prob"][0] == pytest.approx(frame["log_prob"][1], abs=1e-5)
    assert frame["p_correct"][:2].isin([0, 0.5]).all()
    assert frame["rank"][0] == frame["rank"][1]


def test_probabilities_of_words_sum_to_at_most_one(folders, plains):
    """Many words of one and two sub-tokens, all of letters."""
    names = plains("bytes").tokenizer.get_vocab()
    first = [name[1:] for name in names if name[0] == "Ġ" and name[1:].isalpha()]
    more = [name for name in names if name.isalpha() and name.isascii()][:15]
    words = list(dict.fromkeys([*first, *(f + m for f in first[:15] for m in more)]))
    mine = model(folders("bytes"), vocabulary=words, scoring=Scoring(budget=None))
    total = np.exp(mine.score(ITEMS[:1], [words])).sum()
    open_ended = mine._scorer.score([[(before(ITEMS[0]), word) for word in words]])["log_prob"]
    assert 0.05 < total <= 1
    assert np.exp(open_ended).sum() > total  # without their ends, words count for what begins with them


PARTS = st.text(st.sampled_from("aebdtThIUS1209'’-_ée"), min_size=1, max_size=4)


@settings(max_examples=15)
@given(words=st.lists(PARTS, min_size=5, max_size=30, unique=True))
def test_words_of_letters_digits_apostrophes_and_hyphens_never_overlap(folders, words):
    mine = model(folders("bytes"), vocabulary=words, scoring=Scoring(budget=None))
    item = ITEMS[:1]
    paths = mine._scorer.subwords.words(words, " ", "a")
    total = np.exp(mine.score(item, [words])).sum()
    if len({tuple(path) for path in paths}) == len(words):
        assert total <= 1 + 2e-6


def test_a_small_budget_gives_a_bound(folders):
    words = [*WORDS, *(item.answer for item in ITEMS)]
    exact, short = (
        model(folders("bytes"), vocabulary=words, scoring=Scoring(budget=budget)).predict(ITEMS[:4])
        for budget in (None, 5)
    )
    assert short["rank_is_bound"].any()
    assert (short["rank"] <= exact["rank"]).all()
    assert short["prediction"].tolist() == exact["prediction"].tolist()


def test_stop_words_are_neither_predicted_nor_counted(folders):
    words = ["the", "The", ".", "soldier", "window", "n't"]
    items = items_from_text(["He saw the soldier", "He saw the The", "He saw the window"])
    mine = model(folders("bytes"), vocabulary=words, scoring=Scoring(filter="stop-words"))
    frame = mine.predict(items)
    assert list(mine.vocabulary) == ["soldier", "window"]
    assert frame["filter"].unique() == ["stop-words"]
    assert frame["known"].tolist() == [True, False, True]
    assert frame["rank"].tolist() in ([1, 3, 2], [2, 3, 1])


@pytest.mark.parametrize("scored", ["sentence", "rest"])
@pytest.mark.parametrize("kind", ["bytes", "llama"])
def test_candidates_are_scored_with_the_rest_of_the_sentence(folders, plains, kind, scored):
    items = questions(
        ("The dog ran . The cat saw a ___ and fled .", ["dog", "garden gate", "o'clock"]),
        ("It is ___ !", ["late", "early"]),
        ("___ came home .", ["Anna", "Bruno"]),
        ("It is ___", ["late", "early"]),  # nothing after the blank: the word ends there
    )
    plain, mine = plains(kind), model(folders(kind), vocabulary=WORDS, candidates=scored)
    frame = mine.predict(items)
    answers = check_log_probs(frame, plain, items)
    assert frame["greedy_correct"].tolist() == [greedy for *_, greedy in answers]
    for row, item in zip(frame.itertuples(), items, strict=True):
        context, rest = before(item), item.text[item.answer_span[1] :]
        parts = [(context, word + rest) for word in item.candidates]
        if scored == "rest":
            parts = [(context + word, rest) for word in item.candidates]
        expected = [plain.says(*part)[0] for part in parts] if rest else plain.words(context, item.candidates)
        np.testing.assert_allclose(row.candidate_scores, expected, atol=1e-4)
        assert row.prediction == item.candidates[int(np.argmax(expected))]
    assert mine.name == "tiny (words after the blank)" if scored == "rest" else "tiny"
    assert mine.config["candidates"] == scored


def test_marks_that_a_tokenizer_adds_after_a_text_change_no_number(folders, tmp_path):
    folder = folders("llama")
    ends = with_marks(folder, tmp_path / "tiny", WITH_ENDS["two"])
    chosen = questions(
        ("The dog ran . The cat saw a ___ .", ["dog", "cat"]), ("It is ___", ["late", "early"])
    )
    ways = [
        {"correct": "last-token"},
        {"vocabulary": WORDS, "attention": True},
        {"vocabulary": WORDS, "prompt": Prompt(beginning="nothing")},
    ]
    for options in ways:
        for items in (ITEMS, chosen):
            expected, frame = (model(path, **options).predict(items, 3) for path in (folder, ends))
            pd.testing.assert_frame_equal(frame, expected)
    expected, frame = (wb.surprisal(model(path), ITEMS, top_k=2) for path in (folder, ends))
    pd.testing.assert_frame_equal(frame, expected)


@pytest.fixture(scope="module")
def several_words(tmp_path_factory):
    """Give the folder of a tiny model whose sub-tokens hold several words."""
    words = byte_level(joins_words=True)
    words.backend_tokenizer.post_processor = processors.TemplateProcessing(
        "<s> $A", special_tokens=[("<s>", 0)]
    )
    return tiny_with(words, tmp_path_factory.mktemp("several") / "tiny")


def text_log_probs(plain, text):
    """Return ln p of each sub-token of a text after the mark of its beginning, and of the end of a word."""
    ids = plain.tokenizer(text)["input_ids"]
    with torch.inference_mode():
        rows = plain.logits(ids, len(ids))
    return [float(rows[i, ids[i + 1]]) for i in range(len(ids) - 1)], float(rows[-1][plain.over].logsumexp(0))


def test_candidates_within_sub_tokens_of_several_words_have_the_odds_of_whole_texts(several_words):
    items = questions(
        ("by the way the boy ran ___ by the river", ["home", "after", "off"]),
        ("The old woman put the ___ on the table", ["bread", "cat", "boat"]),
        ("by the way the boy ran ___", ["home", "after", "ho"]),
        ("The dog ___", ["ran", "sat"]),
    )
    plain = Plain(several_words)

    n_joined = 0
    for scored in ("sentence", "rest"):
        frame = model(several_words, candidates=scored).predict(items)
        for row, item in zip(frame.itertuples(), items, strict=True):
            start, end = item.answer_span
            rest = item.text[end:]
            whole = [text_log_probs(plain, item.text[:start] + word + rest) for word in item.candidates]
            expected = np.array([sum(values) + (0 if rest else over) for values, over in whole])
            values = np.array(row.candidate_scores)
            np.testing.assert_allclose(values - values[0], expected - expected[0], atol=1e-4)
            assert row.prediction == item.candidates[int(np.argmax(expected))]
            text = item.text[:end]
            offsets = plain.tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
            n = sum(last < start for _, last in offsets)  # with the mark
            n_joined += len(plain.tokenizer(text[: start - 1])["input_ids"]) != n
            values, over = text_log_probs(plain, text)
            assert row.log_prob_uncorrected == pytest.approx(sum(values[n - 1 :]), abs=1e-4)
            assert row.log_prob == pytest.approx(sum(values[n - 1 :]) + over, abs=1e-4)
    assert n_joined >= 4


def test_a_model_of_sub_tokens_of_several_words_writes_one_word_and_ranks_none(several_words):
    items = items_from_text(["by the way the boy ran home", "The old woman put the bread", "the boy ran to"])
    mine = model(several_words)
    frame = mine.predict(items)
    assert not frame["prediction"].dropna().str.contains(" ").any()
    np.testing.assert_allclose(mine.log_prob(items), frame["log_prob"], atol=1e-4)
    refused(model(several_words, vocabulary=["home", "off"]).predict, items)
    plain, words = Plain(several_words), wb.surprisal(mine, items, top_k=3)
    for item in items:
        log_probs, over = text_log_probs(plain, item.text)
        bits = -(sum(log_probs) + over) / np.log(2)
        values = words.loc[words["item_id"] == item.item_id, "surprisal"]
        assert values.sum() == pytest.approx(bits, abs=1e-3)
        assert values.isna().sum() == len(item.text.split()) - len(set(owners(plain, item)))


def owners(plain, item):
    """Return the words in which the sub-tokens of a text begin."""
    offsets = plain.tokenizer(item.text, return_offsets_mapping=True)["offset_mapping"]
    starts = [end - len(item.text[start:end].lstrip()) for start, end in offsets[1:]]
    return [item.text[:start].count(" ") for start in starts]


def test_long_contexts_lose_their_beginning_as_in_the_harness(folders, plains):
    plain, folder = plains("bytes"), folders("bytes")
    long = " ".join([*TOKENS, *RUNNING])
    chosen = questions((f"{long} ___ .", ["tea", "soldier"]))
    items = Items.concat([items_from_text([long, f"{long} indeed", TOKENS[0]]), chosen])
    words = [*WORDS[:10], "indeed"]
    for options in ({}, {"vocabulary": words}):
        frame = model(folder, **options).predict(items)
        check_log_probs(frame, plain, items)
    rest = [plain.says(before(items[3]), word + " .")[0] for word in ("tea", "soldier")]
    np.testing.assert_allclose(frame["candidate_scores"][3], rest, atol=1e-4)


def test_a_model_without_states_to_share_says_the_same(folders):
    words = [*WORDS[:15], ITEMS[1].answer]
    mine, slow = (model(folders("bytes"), vocabulary=words) for _ in range(2))
    slow._scorer._shares_states = False
    pd.testing.assert_frame_equal(mine.predict(ITEMS[2:]), slow.predict(ITEMS[2:]), atol=1e-4, rtol=0)


def test_only_the_positions_asked_go_through_the_head(folders):
    mine = model(folders("bytes"), vocabulary=[*WORDS[:20], "Colonel"])
    positions = []
    head = mine._checkpoint.model.get_output_embeddings()
    head.register_forward_hook(lambda _m, states, _o: positions.append(states[0].shape[:-1].numel()))
    mine.log_prob(ITEMS)
    paths = [path for _, path in mine._scorer.subwords.pairs([[(before(i), i.answer)] for i in ITEMS])]
    assert sum(positions) == sum(len(path) + 1 for path in paths)


def test_a_prompt_with_examples_and_words_between(folders, plains):
    prompt = Prompt("Q: {text} ____ ->", examples=items_from_text(TOKENS[:3]), shots=1, seed=1)
    mine, plain = model(folders("bytes"), prompt=prompt, attention=True), plains("bytes")
    item = ITEMS[-1:]
    row = mine.predict(item).iloc[0]
    context = prompt.split(item[0]).before
    assert row["log_prob"] == pytest.approx(sum(plain.says(context, item[0].answer)[:2]), abs=1e-4)
    assert mine.input_text(item[0]) == context
    assert mine.config["prompt"] == json.loads(row["prompt"])
    assert 0 < sum(row["attention"]) < 1


@pytest.mark.parametrize("text", ["as-is", "detokenised"])
@pytest.mark.parametrize("kind", ["bytes", "llama"])
def test_attention_is_that_of_the_last_layer_by_token(folders, kind, text):
    items = items_from_text(["`` I ca n't , '' she said to the soldier", "Tea"])
    frame = model(folders(kind), attention=True, text=text).predict(items)
    first, bare = frame["attention"]
    assert len(first) == 11
    assert first[10] == 0  # the answer
    assert (np.array(first[:10]) > 0).sum() >= 9  # "can" of "can’t" counts for "n’t", where it ends
    total = sum(first)  # with Llama without the weight of the mark before the text
    assert total == pytest.approx(1, abs=0.01) if kind == "bytes" else total < 1
    assert list(bare) == [0]
    network = transformers.AutoModelForCausalLM.from_pretrained(folders(kind), attn_implementation="eager")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folders(kind))
    shown = items[0].text if text == "as-is" else wt.readable(items[0].text)
    ids = tokenizer(shown.removesuffix(" soldier"), return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        weights = network(ids, output_attentions=True).attentions[-1][0, :, -1].mean(0)
    last = len(tokenizer(" the", add_special_tokens=False)["input_ids"])
    assert first[9] == pytest.approx(float(weights[-last:].sum()), abs=1e-5)
    assert model(folders(kind)).predict(items)["attention"].isna().all()


def test_passages_without_an_answer_and_as_printed(folders, plains):
    text = "`` I ca n't , '' she said . `` He 's gone to the fair"
    rows = {"text": [f"{text[:-4]}___", text[:-4] + "___"], "answer": [None, "fair"]}
    items, plain = items_from_frame(pd.DataFrame(rows)), plains("bytes")
    for words in (None, ["fair", "o'clock"]):
        frame = model(folders("bytes"), text="detokenised", vocabulary=words).predict(items)
        for column in ("log_prob", "correct", "greedy_correct"):
            assert frame[column].notna().tolist() == [False, True]
        assert frame["model"][0] == "tiny (detokenised)"
        shown = wt.readable(text).removesuffix("fair")
        assert frame["log_prob"][1] == pytest.approx(sum(plain.says(shown, "fair")[:2]), abs=1e-4)
    values = plain.words(shown, ["fair", "o’clock"])
    np.testing.assert_allclose(sorted(frame["top_log_probs"][0]), sorted(values), atol=1e-4)
    assert set(frame["top_words"][0]) == {"fair", "o'clock"}


def test_models_are_saved_and_loaded(folders, tmp_path):
    mine = model(
        folders("bytes"), vocabulary=WORDS, text="detokenised", name="mine", scoring=Scoring(budget=30)
    )
    mine.save(tmp_path / "saved")
    again = Predictor.load(tmp_path / "saved")
    assert again.config == mine.config
    assert mine.config["digest"] != model(folders("llama")).config["digest"]
    refused(model(folders("bytes"), prompt=Prompt()).save, tmp_path / "other")


def test_vocabularies_come_in_many_forms(folders, tmp_path):
    file = tmp_path / "words.txt"
    file.write_text("<s>\t9\nthe\t5\ncat\t3\ncat\t1\n", encoding="utf-8")
    corpus = type("C", (), {"words": ["the", "cat"]})()
    for words in (file, {"<s>": 9, "the": 5, "cat": 3}, ["the", "cat", "the"], corpus):
        assert model(folders("bytes"), vocabulary=words).vocabulary == ("the", "cat")


def test_what_is_no_model_is_refused(folders, tmp_path):
    for path in (tmp_path, folders("bytes") / "model.safetensors", str(folders("bytes") / "config.json")):
        refused(model, path)
    wrong = {"text": "raw", "correct": "words", "scoring": Scoring(filter="stop-words"), "budget": 3}
    vocabularies = [{"vocabulary": words} for words in ("the cat", [], [3], tmp_path / "none")]
    for options in (*({name: value} for name, value in wrong.items()), *vocabularies):
        with pytest.raises(DataError):
            model(folders("bytes"), **options)
    for options in ({"case": "lower"}, {"filter": "all"}):
        refused(Scoring, **options)
    refused(model(folders("bytes")).ranking, ITEMS)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_model_that_sees_what_comes_after_is_refused(folders, dtype):
    with pytest.raises(DataError):
        model(folders("bert"), dtype=dtype)


def test_an_encoder_decoder_is_refused_as_one(folders, tmp_path):
    t5 = transformers.T5Config(vocab_size=600, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
    folder = shutil.copytree(folders("bytes"), tmp_path / "t5")
    transformers.T5ForConditionalGeneration(t5).save_pretrained(folder)
    for load in (model, MaskedLM):
        refused(load, folder)


def test_a_model_that_was_trained_to_see_its_prefix_is_refused(folders, tmp_path):
    folder = shutil.copytree(folders("bytes"), tmp_path / "mpt")
    size = len(transformers.AutoTokenizer.from_pretrained(folder))
    sizes = {"d_model": 32, "n_heads": 4, "n_layers": 2, "vocab_size": size}
    config = transformers.MptConfig(**sizes, attn_config={"prefix_lm": True})
    transformers.MptForCausalLM(config).save_pretrained(folder)
    refused(model, folder)
    assert len(model(changed(folder, tmp_path / "causal", attn_config={})).predict(ITEMS[:1])) == 1


@pytest.mark.parametrize("kind", ["bytes", "bert"])
def test_a_folder_without_a_tokenizer_says_how_to_get_one(folders, tmp_path, kind):
    folder = shutil.copytree(folders(kind), tmp_path / "tiny")
    for file in ("tokenizer.json", "tokenizer_config.json", "vocab.json", "vocab.txt", "merges.txt"):
        (folder / file).unlink(missing_ok=True)
    with pytest.raises(DataError):
        (MaskedLM(folder) if kind == "bert" else model(folder))


def test_a_model_has_the_name_of_its_folder(folders, tmp_path):
    renamed = model(changed(folders("bytes"), tmp_path / "mine", added=1))
    assert renamed.name == renamed.config["model"] == "mine"
    assert renamed.config["digest"] != model(folders("bytes")).config["digest"]
    assert model(tmp_path / "mine", name="other").name == "other"


@pytest.mark.parametrize("kind", ["bytes", "llama"])
def test_predictions_tell_what_stands_before_the_text(folders, plains, kind):
    mark = transformers.AutoTokenizer.from_pretrained(folders(kind)).bos_token
    items = items_from_text([f"{mark} She took the tea", "She took the tea", "Tea"])
    frame = model(folders(kind), vocabulary=["tea", "the"]).predict(items)
    assert frame["bos"].tolist() == ["text", "added" if kind == "llama" else "none", "added"]
    plain = plains(kind)
    ids = plain.tokenizer(f"{mark} She took the tea", add_special_tokens=False)["input_ids"]
    n = len(plain.tokenizer(f"{mark} She took the", add_special_tokens=False)["input_ids"])
    at = plain.logits(ids[:-1], len(ids) - n).detach()
    value = float(at[range(len(ids) - n), ids[n:]].sum())
    assert frame["log_prob_uncorrected"][0] == pytest.approx(value, abs=1e-4)


def test_attention_needs_places_of_the_sub_tokens(folders, monkeypatch):
    mine = model(folders("bytes"), attention=True)
    tokenizer = mine._scorer.subwords.tokenizer
    real = type(tokenizer).__call__

    def call(self, text, **options):
        if options.get("return_offsets_mapping"):
            raise NotImplementedError
        return real(self, text, **options)

    monkeypatch.setattr(type(tokenizer), "__call__", call)
    for ask in (lambda: mine.predict(ITEMS[:1]), lambda: mine.attend(ITEMS[:1])):
        refused(ask)


def edit(folder, file="config.json", **values):
    """Change a JSON file of the folder of a model."""
    (folder / file).write_text(json.dumps(json.loads((folder / file).read_text()) | values))


def changed(folder, target, **config):
    """Copy the folder of a model, and change its configuration."""
    shutil.copytree(folder, target)
    edit(target, **config)
    return target


def index(folder, name):
    """Move the weights of a folder beside it, and write an index that has all of them in one file."""
    names = transformers.AutoModelForCausalLM.from_pretrained(folder).state_dict()
    (folder / "model.safetensors").rename(folder.parent / "x.safetensors")
    content = {"weight_map": dict.fromkeys(names, name)}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}} | content))


QUANTIZED = {"quantization_config": {"quant_method": "fp8"}}
REFUSED = [
    partial(edit, n_layer=1),
    partial(edit, n_layer=3),
    partial(index, name="missing.safetensors"),
    partial(edit, **QUANTIZED),
    partial(edit, model_type="llava", text_config={"model_type": "gpt2", **QUANTIZED}),
]  # fmt: skip


@pytest.mark.parametrize("spoil", REFUSED)
def test_files_that_do_not_make_one_model_are_refused(folders, tmp_path, spoil):
    folder = shutil.copytree(folders("bytes"), tmp_path / "tiny")
    spoil(folder)
    refused(model, folder)


COMMIT = "0123456789abcdef" * 2 + "01234567"


@pytest.fixture
def on_the_hub(folders, tmp_path, monkeypatch):
    """Give a snapshot in the hub's cache of the model that is called someone/tiny."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    home = tmp_path / "models--someone--tiny"
    snapshot = home / "snapshots" / COMMIT
    for place in (home / "refs", home / "blobs", snapshot):
        place.mkdir(parents=True)
    (home / "refs" / "main").write_text(COMMIT)
    for path in folders("bytes").iterdir():
        blob = shutil.copyfile(path, home / "blobs" / f"digest-{path.name}")
        (snapshot / path.name).symlink_to(f"../../blobs/{blob.name}")
    return snapshot


def test_a_model_of_the_hub_is_read_from_the_links_of_its_cache(folders, on_the_hub):
    expected = model(folders("bytes"), text="detokenised", vocabulary=WORDS)
    for source, digest in ((on_the_hub, expected.config["digest"]), ("someone/tiny", COMMIT)):
        again = model(source, text="detokenised", vocabulary=WORDS)
        assert again.config["digest"] == digest
        np.testing.assert_array_equal(again.log_prob(ITEMS), expected.log_prob(ITEMS))
    assert again.name == "someone/tiny (detokenised)"


@pytest.mark.parametrize("name", ["attn_implementation", "_attn_implementation", "fusion_config"])
def test_no_configuration_chooses_the_code_of_layers(folders, tmp_path, name):
    value = {"patch_embeddings": True} if name == "fusion_config" else "kernels-community/flash-attn"
    config = model(changed(folders("bytes"), tmp_path / "tiny", **{name: value}))._checkpoint.model.config
    assert (config._attn_implementation, getattr(config, "fusion_config", None)) == ("sdpa", None)


def test_code_beside_a_known_model_does_not_run(folders, tmp_path):
    code = f"from pathlib import Path\nPath({str(tmp_path / 'ran')!r}).touch()\n"
    classes = {"AutoConfig": "evil.C", "AutoModelForCausalLM": "evil.M", "AutoTokenizer": ["evil.T"] * 2}
    folder = shutil.copytree(folders("bytes"), tmp_path / "tiny")
    for file in ("config.json", "tokenizer_config.json", "generation_config.json"):
        edit(folder, file, auto_map=classes, trust_remote_code=True)
    (folder / "custom_generate").mkdir()
    for file in ("evil.py", "custom_generate/generate.py"):
        (folder / file).write_text(code)
    assert len(model(folder, vocabulary=WORDS).predict(ITEMS[:1])) == 1
    assert not (tmp_path / "ran").exists()


def test_a_text_with_a_sub_token_that_the_model_lacks_is_an_error(folders, tmp_path):
    folder = shutil.copytree(folders("bytes"), tmp_path / "tiny")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["zyzzyva"])
    tokenizer.save_pretrained(folder)
    mine = model(folder)
    items = items_from_text(["The old dog saw a zyzzyva there", "The old dog saw a cat there"])
    assert mine.predict(items[1:], top_k=0)["log_prob"].notna().all()
    refused(mine.predict, items[:1], top_k=0)
