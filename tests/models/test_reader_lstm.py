"""LSTMs that rank candidates by the probability of the whole query with each of them in place."""

import numpy as np
import pytest
import torch
from refused import refused
from torch import nn

from workbench.items.items import items_from_text
from workbench.models.readers.encoding import RESERVED, UNKNOWN, Questions
from workbench.models.readers.lstm import ContextualLSTM, ContextualModule, QueryLSTM

torch.set_num_threads(1)

NAMES, COLOURS = ["ada", "tom", "eve", "sam"], ["red", "blue", "green", "pink"]
CHANCE = 0.25
QUIET = {"device": "cpu"}


def questions(n, seed, *, of_context=True):
    """Make questions whose answer the context tells, or the words after the blank do."""
    rng = np.random.default_rng(seed)
    texts, answers = [], []
    for _ in range(n):
        colours = dict(zip(NAMES, rng.permutation(COLOURS).tolist(), strict=True))
        likes = " ".join(f"then {name} likes {colours[name]} very much ." for name in rng.permutation(NAMES))
        name = str(rng.choice(NAMES))
        answers.append(colours[name] if of_context else COLOURS[NAMES.index(name)])
        texts.append(f"{likes} now {name} takes ___ ." if of_context else f"{likes} now ___ suits {name} .")
    return items_from_text(texts, answers=answers, candidates=[COLOURS] * n, tokenised=True, split="dev")


def lines(items):
    return [item.text for item in items]


def accuracy(model, items):
    return model.predict(items)["p_correct"].mean()


def at_chance(share, n):
    """Return whether an accuracy is within four standard errors of chance."""
    return abs(share - CHANCE) < 4 * (CHANCE * (1 - CHANCE) / n) ** 0.5


# -- the language model


@pytest.fixture(scope="module")
def query_lstm(tmp_path_factory):
    """Give a small model, trained for a moment."""
    folder = tmp_path_factory.mktemp("query")
    texts = lines(questions(40, 0)) + lines(questions(40, 0, of_context=False))
    return QueryLSTM.fit(texts, width=12, tokens=1500, rows=8, length=12, folder=folder, **QUIET)


ODD = items_from_text(
    [
        "then ada likes red . eve likes green . now tom takes ___ very much .",
        "___ suits eve .",
        "Then sam likes nothing . is ___",
        "then ada likes Blue . now never ___ for never ada .",
    ],
    answers=["red", "blue green", "ada", "unseen"],
    candidates=[
        ["red", "green", "Red"], ["blue green", "eve", "then ada likes"], ["ada", "sam"], ["unseen", "ada"]
    ],
    tokenised=True,
    split="test",
)  # fmt: skip


@pytest.mark.parametrize("reads", ["query", "context+query"])
def test_scores_are_those_of_ten_full_passes(query_lstm, reads):
    model = query_lstm.with_context("sentence" if reads == "query" else None)
    network, encoder, items = model.network, model.encoder, ODD
    scores = model.score(items, [list(item.candidates) for item in items])
    for item, row in zip(items, scores, strict=True):
        context = [] if reads == "query" else " ".join(item.context).split()
        for word, score in zip(item.candidates, row, strict=False):
            left = [*context, *item.left.split()]
            whole = [*left, *word.split(), *item.right.split()]
            ids = [encoder.index.get(token, 0) for token in whole]
            if not left:
                ids, left = [0, *ids], [""]
            log_probs = network.following(torch.tensor([ids]))[0].detach().double().numpy()
            rarer = [encoder.index.get(token, 0) == 0 for token in word.split()]
            expected = log_probs[len(left) - 1 :].sum() - model.unknown_share * sum(rarer)
            np.testing.assert_allclose(score, expected, atol=1e-5)


def test_the_shared_prefix_is_read_once(query_lstm, monkeypatch):
    model, sizes = query_lstm.with_context(None), []
    states = type(model.network).states

    def counted(self, ids, state=None):
        sizes.append(ids.numel())
        return states(self, ids, state)

    monkeypatch.setattr(type(model.network), "states", counted)
    items = questions(1, 3, of_context=False)
    model.score(items, [COLOURS])
    before = len(items[0].text.partition(items[0].answer + " suits")[0].split())
    after = len(items[0].right.split())
    assert sum(sizes) == before + len(COLOURS) * after  # the last word of all is not read


def test_what_it_reads_is_one_training_and_a_row_of_the_table(query_lstm, tmp_path):
    texts = lines(questions(20, 0))
    options = {"width": 8, "tokens": 200, "rows": 4, "folder": tmp_path, **QUIET}
    both = QueryLSTM.fit(texts, **options)
    query = QueryLSTM.fit(texts, reads="query", **options)
    assert query.config["weights"] == both.config["weights"]
    assert (both.systems, query.systems) == ({"cbt": "LSTMS (CONTEXT+QUERY)"}, {"cbt": "LSTMS (QUERY)"})
    assert query.with_context(3).systems == {}
    assert set(query.predict(ODD)["model"]) == {"LSTM 8, sentence alone"}
    assert not query.lower
    assert np.diff(query_lstm.score(ODD[:1], [["red", "Red"]])[0])[0] != 0  # case is kept
    assert query.reads == "sentence"
    refused(QueryLSTM.fit, texts, reads="window", **options)


def test_it_learns_from_the_words_after_the_blank_and_not_from_a_context_it_does_not_read(tmp_path):
    n, options = 200, {"width": 24, "epochs": 4, "rows": 8, "learning_rate": 0.01, **QUIET}
    for of_context in (False, True):
        texts = lines(questions(400, 0, of_context=of_context))
        folder = tmp_path / str(of_context)
        model = QueryLSTM.fit(texts, reads="query", folder=folder, **options)
        share = accuracy(model, questions(n, 1, of_context=of_context))
        assert at_chance(share, n) if of_context else share > 0.95


# -- the contextual one


@pytest.fixture
def module():
    """Give a network with weights so large that nothing that it mixes up goes unseen."""
    torch.manual_seed(2)
    network = ContextualModule(RESERVED + 12, width=6, window=3)
    with torch.no_grad():
        for weights in network.parameters():
            weights.add_(torch.randn_like(weights) * 0.3)
    return network.eval()


WORDS = [*NAMES, *COLOURS, "then", "likes", ".", "now"]


def encoded():
    """Encode questions whose contexts, queries, candidates and words after the blank differ in number."""
    items = items_from_text(
        [
            "then ada likes red . tom likes blue . now then tom likes ___ . . now",
            "sam likes pink . ___ likes never",
            "___ .",
            "then ada likes green . eve ___",
        ],
        answers=["blue", "sam", "ada", "likes"],
        candidates=[["red", "blue", "never"], ["pink", "sam"], ["ada", "eve"], ["green", "likes", "."]],
        tokenised=True, split="test",
    )  # fmt: skip
    return Questions.of(items, WORDS, lower=False)


def tensors(batch):
    return {name: torch.from_numpy(values) for name, values in batch.items()}


def plain(network, context, query):
    """Return ln p of each word of a query, one word after the other."""
    table = network.language.embedding.weight.double() * network.width**0.5
    cell = nn.LSTMCell(network.width, network.width)
    cell.load_state_dict({
        name.removesuffix("_l0"): value for name, value in network.language.layers.state_dict().items()
    })  # fmt: skip
    ask, to_input, to_output = (
        part.weight.double() for part in (network.ask, network.to_input, network.to_output)
    )
    half, zero = network.window // 2, torch.zeros(network.width, dtype=torch.double)
    words = [table[id_ - UNKNOWN] for id_ in context]
    means = [sum(words[max(0, i - half) : i + half + 1], zero) / network.window for i in range(len(words))]
    state, log_probs, past = None, [], [zero] * network.window
    for id_ in query:
        asking = network.ask.bias.double() + sum(
            ask[:, :, place] @ word for place, word in enumerate(past[-network.window :])
        )
        if words:
            match = torch.stack([word @ asking for word in words]) / network.width**0.5
            read = match.softmax(0) @ torch.stack(means)
        else:
            read = zero
        state = cell.double()((past[-1] + to_input @ read)[None], state)
        output = network.language.output
        logits = table / network.width**0.5 @ (state[0][0] + to_output @ read) + output.bias.double()
        log_probs.append(float(logits.log_softmax(0)[id_ - UNKNOWN]))
        past.append(table[id_ - UNKNOWN])
    return log_probs


@torch.no_grad()
def test_scores_and_loss_equal_a_plain_loop(module):
    questions_ = encoded()
    batch = tensors(questions_.batch(range(4)))
    scores, losses = module.scores(batch).numpy(), module.loss(batch).numpy()
    for row in range(4):
        one = questions_.batch([row])
        place, candidates = int(one["blank"][0]), one["candidates"][0].tolist()
        for number, candidate in enumerate(candidates):
            query = one["query"][0].tolist()
            query[place] = candidate
            context = one["context"][0].tolist() if row != 2 else []  # it has none
            log_probs = plain(module, context, query)
            np.testing.assert_allclose(scores[row, number], sum(log_probs[place:]), atol=1e-5)
            if number == one["answer"][0]:
                np.testing.assert_allclose(losses[row], -np.mean(log_probs), atol=1e-5)
        assert (scores[row, len(candidates) :] == -np.inf).all()


@torch.no_grad()
def test_padding_changes_no_attention(module):
    """Nor a score or loss, as those of a batch equal a plain loop."""
    questions_ = encoded()
    looked = module.attention_weights(tensors(questions_.batch(range(4))))
    for row in range(4):
        one = tensors(questions_.batch([row]))
        length = one["context"].shape[1]
        weights = module.attention_weights(one).weights[0]
        np.testing.assert_allclose(weights, looked.weights[row, :, :length], atol=1e-6)
        assert (looked.weights[row, :, length:] == 0).all()


@torch.no_grad()
def test_it_shows_the_windows_of_the_context(module):
    batch = tensors(encoded().batch([0]))
    looked = module.attention_weights(batch)
    length = batch["context"].shape[1]
    assert looked.names == ("blank",)
    assert looked.begin[0].tolist() == [max(0, place - 1) for place in range(length)]
    assert looked.end[0].tolist() == [min(length, place + 2) for place in range(length)]
    np.testing.assert_allclose(looked.weights.sum(-1), 1, atol=1e-6)


SMALL = {"width": 32, "epochs": 15, "rows": 16, "learning_rate": 0.01, **QUIET}


def test_it_learns_what_the_context_tells(tmp_path):
    """The questions are others than those that the start of attention was chosen on (seeds 0 and 1)."""
    seed = 2
    model = ContextualLSTM.fit(questions(800, 10 + seed), folder=tmp_path, seed=seed, **SMALL)
    asked = questions(200, 20 + seed)
    assert accuracy(model, asked) > 0.9
    without = items_from_text(
        [item.text[item.sentences[-1][0] :].replace(item.answer, "___") for item in asked],
        answers=[item.answer for item in asked], candidates=[COLOURS] * 200, tokenised=True, split="dev",
    )  # fmt: skip
    assert at_chance(accuracy(model, without), 200)  # it is the context that tells
    assert model.systems == {"cbt": "CONTEXTUAL LSTMS (WINDOW CONTEXT)"}
    predicted = model.predict(asked[:5])["prediction"].tolist()
    assert [look.prediction for look in model.attend(asked[:5])] == predicted
