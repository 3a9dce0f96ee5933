import numpy as np
import pandas as pd
import pytest

from workbench.items.items import DataError, Items, items_from_frame, items_from_text

pytest.importorskip("transformers")

import torch
from plain_causal import ITEMS, RUNNING, TOKENS, WORDS, Plain, before, makers, model

from workbench.models.pretrained.causal import STOP_WORDS

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return makers(tmp_path_factory.mktemp)


def asked(frame):
    """Make items of rows: text, answer, candidates."""
    options = {name: name for name in ("candidates", "item_id") if name in frame}
    return items_from_frame(pd.DataFrame(frame), **options)


@pytest.mark.parametrize("kind", ["bytes", "llama"])
@pytest.mark.parametrize("batch_tokens", [1, 400, None])
def test_log_probs_are_those_of_a_plain_calculation(folders, kind, batch_tokens):
    mine, plain = model(folders(kind), batch_tokens=batch_tokens), Plain(folders(kind))
    told = [plain.says(before(item), item.answer) for item in ITEMS]
    frame = mine.predict(ITEMS)
    np.testing.assert_allclose(frame["log_prob_uncorrected"], [t[0] for t in told], atol=1e-4)
    np.testing.assert_allclose(frame["log_prob"], [t[0] + t[1] for t in told], atol=1e-4)
    np.testing.assert_allclose(mine.log_prob(ITEMS), frame["log_prob"], atol=1e-4)
    assert frame["greedy_correct"].tolist() == frame["correct"].tolist() == [t[2] for t in told]
    assert frame["rank"].isna().all()
    assert frame["n_choices"].isna().all()
    written = [plain.writes(before(item)) for item in ITEMS]
    wanted = [None if w in {"", i.answer} else w for w, i in zip(written, ITEMS, strict=True)]
    got = frame["prediction"].where(frame["prediction"].notna(), None)
    assert [g for g, ok in zip(got, frame["correct"], strict=True) if not ok] == [
        w for w, ok in zip(wanted, frame["correct"], strict=True) if not ok
    ]


def test_what_a_model_writes_is_right_where_each_sub_token_is(folders):
    plain = Plain(folders("bytes"))
    contexts = [before(item) for item in ITEMS][:10]
    answers = [plain.writes(context) for context in contexts]
    pairs = [(c, a) for c, a in zip(contexts, answers, strict=True) if a.isalpha() and a.isascii()]
    assert pairs
    items = items_from_text([context + answer for context, answer in pairs])
    assert [item.answer for item in items] == [answer for _, answer in pairs]
    frame = model(folders("bytes")).predict(items)
    greedy = [plain.says(before(item), item.answer)[2] for item in items]
    assert any(greedy)
    assert frame["correct"].tolist() == greedy
    assert (frame["prediction"].dropna() == frame["answer"][frame["prediction"].notna()]).tolist() == [
        True
    ] * sum(greedy)


@pytest.mark.parametrize("kind", ["bytes", "gpt2", "llama"])
def test_ranks_and_best_words_are_those_of_all_words_one_by_one(folders, kind):
    plain = Plain(folders(kind))
    items = items_from_text([*sorted(TOKENS, key=len)[:2], *RUNNING[:1], 'He said " well'])
    words = [*WORDS[: 30 if kind == "gpt2" else 70], *(item.answer for item in items)][::-1]
    words = [word for word in dict.fromkeys(words) if word != items[0].answer]  # one is not known
    mine = model(folders(kind), vocabulary=words, budget=None)
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
    ranked = mine.ranking(items, top_k=5)
    assert ranked.rank[1:].tolist() == frame["rank"][1:].tolist()


def test_equally_probable_words_are_tied(folders, tmp_path):
    transformers = pytest.importorskip("transformers")
    folder = folders("bytes")
    network = transformers.AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    twins = tokenizer(" the")["input_ids"] + tokenizer(" he")["input_ids"]
    assert len(twins) == 2
    with torch.no_grad():
        weights = network.get_input_embeddings().weight
        weights[twins[1]] = weights[twins[0]]
    tokenizer.save_pretrained(tmp_path)
    network.save_pretrained(tmp_path)
    items = items_from_text(["She looked at the", "She looked at he", "She looked at his"])
    frame = model(tmp_path, vocabulary=["he", "his", "the"], budget=None).predict(items, top_k=3)
    assert frame["n_tied"].tolist() == [2, 2, 1]
    assert frame["log_prob"][0] == pytest.approx(frame["log_prob"][1], abs=1e-5)
    assert frame["p_correct"][:2].isin([0, 0.5]).all()
    assert frame["rank"][0] == frame["rank"][1]


def test_probabilities_of_words_sum_to_at_most_one(folders):
    """All words of up to two sub-tokens, but for those with others than letters in them."""
    plain = Plain(folders("bytes"))
    names = plain.tokenizer.get_vocab()
    first = [name[1:] for name in names if name[0] == "Ġ" and name[1:].isalpha()]
    more = [name for name in names if name.isalpha() and name.isascii()][:30]
    words = list(dict.fromkeys([*first, *(f + m for f in first[:30] for m in more)]))
    mine = model(folders("bytes"), vocabulary=words, budget=None)
    item = ITEMS[:1]
    paths = {tuple(path) for path in mine._scorer.subwords.words(words, " ", "a")}
    assert len(paths) == len(words)
    total = np.exp(mine.score(item, [words])).sum()
    open_ended = mine._scorer.score([[(before(item[0]), word) for word in words]]).log_prob
    assert 0.05 < total <= 1
    assert np.exp(open_ended).sum() > total  # without their ends, words count for what begins with them


def test_a_small_budget_gives_a_bound(folders):
    words = [*WORDS, *(item.answer for item in ITEMS)]
    exact = model(folders("bytes"), vocabulary=words, budget=None).predict(ITEMS[:5])
    short = model(folders("bytes"), vocabulary=words, budget=5).predict(ITEMS[:5])
    assert short["rank_is_bound"].any()
    assert (short["rank"] <= exact["rank"]).all()
    sure = ~short["rank_is_bound"].fillna(value=False).astype(bool)
    assert (short["rank"] == exact["rank"])[sure].all()
    assert short["prediction"].tolist() == exact["prediction"].tolist()
    for few, many in zip(short["top_words"], exact["top_words"], strict=True):
        assert list(few) == list(many)[: len(few)]


def test_stop_words_are_neither_predicted_nor_counted(folders):
    words = ["the", "The", ".", "soldier", "window", "n't"]
    items = items_from_text(["He saw the soldier", "He saw the The", "He saw the window"])
    mine = model(folders("bytes"), vocabulary=words, filter="stop-words")
    frame = mine.predict(items)
    assert list(mine.vocabulary) == ["soldier", "window"]
    assert frame["filter"].unique() == ["stop-words"]
    assert frame["known"].tolist() == [True, False, True]
    assert frame["rank"].tolist() in ([1, 3, 2], [2, 3, 1])
    assert {"the", "n't", "not"} <= STOP_WORDS
    assert "us" in STOP_WORDS
    with pytest.raises(DataError, match="filtered"):
        model(folders("bytes"), filter="stop-words")


@pytest.mark.parametrize("kind", ["bytes", "llama"])
def test_candidates_are_scored_with_the_rest_of_the_sentence(folders, kind):
    items = asked(
        {
            "text": ["The dog ran . The cat saw a ___ and fled .", "It is ___ !", "___ came home ."],
            "answer": ["dog", "late", "Anna"],
            "candidates": [["dog", "garden gate", "o'clock"], ["late", "early"], ["Anna", "Bruno"]],
        }
    )
    plain, mine = Plain(folders(kind)), model(folders(kind), vocabulary=WORDS)
    frame = mine.predict(items)
    for row, item in zip(frame.itertuples(), items, strict=True):
        rest = item.text[item.answer_span[1] :]
        told = [plain.says(before(item), word + rest)[0] for word in item.candidates]
        np.testing.assert_allclose(row.candidate_scores, told, atol=1e-4)
        assert row.prediction == item.candidates[int(np.argmax(told))]
        own = plain.says(before(item), item.answer)
        assert row.log_prob == pytest.approx(own[0] + own[1], abs=1e-4)
        assert row.log_prob_uncorrected == pytest.approx(own[0], abs=1e-4)
        assert row.greedy_correct == own[2]
    assert (frame["filter"] == "none").all()
    np.testing.assert_allclose(
        mine.score(items[:1], [["dog"]])[0, 0], frame["candidate_scores"][0][0], atol=1e-4
    )
    last = asked({"text": ["It is ___"], "answer": ["late"], "candidates": [["late", "early"]]})
    told = plain.words("It is ", ["late", "early"])
    np.testing.assert_allclose(mine.predict(last)["candidate_scores"][0], told, atol=1e-4)


def test_long_contexts_lose_their_beginning_as_in_the_harness(folders):
    plain, folder = Plain(folders("bytes"), length=256), folders("bytes")
    long = " ".join(row for row in TOKENS)
    chosen = {
        "text": [f"{long} ___ ."],
        "answer": ["tea"],
        "candidates": [["tea", "soldier"]],
        "item_id": ["x"],
    }
    items = Items.concat([items_from_text([long, f"{long} indeed", TOKENS[0]]), asked(chosen)])
    words = [*WORDS[:20], "indeed"]
    for mine in (model(folder), model(folder, vocabulary=words)):
        frame = mine.predict(items)
        told = [plain.says(before(item), item.answer) for item in items]
        np.testing.assert_allclose(frame["log_prob_uncorrected"], [t[0] for t in told], atol=1e-4)
        np.testing.assert_allclose(frame["log_prob"], [t[0] + t[1] for t in told], atol=1e-4)
    rest = [plain.says(before(items[3]), word + " .")[0] for word in ("tea", "soldier")]
    np.testing.assert_allclose(frame["candidate_scores"][3], rest, atol=1e-4)


def test_a_model_without_states_to_share_says_the_same(folders):
    words = [*WORDS[:30], ITEMS[1].answer]
    mine = model(folders("bytes"), vocabulary=words)
    slow = model(folders("bytes"), vocabulary=words)
    slow._scorer._shares_states = False
    pd.testing.assert_frame_equal(mine.predict(ITEMS), slow.predict(ITEMS), atol=1e-4, rtol=0)


def test_running_out_of_memory_halves_the_batch(folders, monkeypatch):
    mine = model(folders("bytes"))
    wanted = mine.log_prob(ITEMS)
    forward, sizes = mine._scorer._forward, []

    def small(ids, *args, **options):
        sizes.append(len(ids))
        if len(ids) > 3:
            raise torch.OutOfMemoryError
        return forward(ids, *args, **options)

    monkeypatch.setattr(mine._scorer, "_forward", small)
    np.testing.assert_allclose(mine.log_prob(ITEMS), wanted, atol=1e-4)
    assert max(sizes) > 3
    assert mine._scorer.batcher.tokens < 2048
    monkeypatch.setattr(
        mine._scorer, "_forward", lambda *_, **__: (_ for _ in ()).throw(torch.OutOfMemoryError)
    )
    with pytest.raises(DataError, match="memory does not suffice"):
        mine.log_prob(ITEMS)


def test_only_the_positions_asked_go_through_the_head(folders):
    mine = model(folders("bytes"), vocabulary=[*WORDS[:20], "Colonel"])
    seen = []
    mine._scorer._head.register_forward_hook(lambda _m, given, _o: seen.append(given[0].shape))
    mine.log_prob(ITEMS)
    paths = [path for _, path in mine._scorer.subwords.pairs([(before(i), i.answer) for i in ITEMS])]
    assert sum(shape[0] * shape[1] for shape in seen) == sum(len(path) + 1 for path in paths)
