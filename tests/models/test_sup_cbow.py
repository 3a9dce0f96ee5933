"""Sup-CBOW: sums of vectors against a loop, gradients against differences, and a network that learns."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from refused import refused

from workbench.items.items import items_from_text
from workbench.models.neural.sup_cbow import BagOfWordsModule, SupCBOW
from workbench.models.vectors import CBOW, Vectors
from workbench.texts.batches import EncodedText
from workbench.texts.corpus import Corpus

torch.set_num_threads(1)
pytestmark = pytest.mark.usefixtures("no_data")

NAMES = ["anna", "bert", "carl", "dora", "emil", "fina", "gert", "hugo", "ines", "jost", "karl", "lena"]
THINGS = ["ship", "cow", "hill", "lamp", "road", "fish", "king", "drum", "rose", "coat", "salt", "moon"]


def corpus():
    """Give a text of twelve pairs of sentences; what the first is about decides how the second ends."""
    lines = []
    for name, thing in zip(NAMES, THINGS, strict=True):
        lines += [f"the {thing} was old and the {thing} was here .", f"and so said {name} ."]
    return Corpus.of(lines)


def vectors(words, dimensions=24, **info):
    rng = np.random.default_rng(0)
    shape = len(words), dimensions
    drawn = {name: rng.normal(size=shape).astype(np.float32) for name in ("input", "output")}
    return CBOW(Vectors(words, drawn, {"lower": True, "corpus": "x", "dimensions": dimensions} | info))


def network(counts=(3, 9, 8, 7, 7, 5, 2, 1), **options):
    torch.manual_seed(0)
    sizes = {"dimensions": 4, "hidden": 6, "dropout": 0.0, "softmax": "full", **options}
    made = BagOfWordsModule(list(counts), **sizes)
    made.set_vectors(torch.randn(len(counts) - 1, made.embedding.embedding_dim))
    return made.eval()


@settings(max_examples=15)
@given(arrays(np.int64, st.tuples(st.integers(1, 4), st.integers(1, 9)), elements=st.integers(0, 12)))
def test_the_sum_is_that_of_a_loop_over_words(ids):
    made = network()
    weight = made.embedding.weight
    expected = torch.zeros(len(ids), 4)
    for row, words in enumerate(ids.tolist()):
        for word in words:
            if 1 <= word <= 7:  # 0 is padding or unknown, 8 to 12 are unknown, too
                expected[row] += weight[word]
    torch.testing.assert_close(made.sums(torch.from_numpy(ids)), expected)


@given(arrays(np.int64, (3, 6), elements=st.integers(0, 7)), st.tuples(*[st.integers(1, 6)] * 3))
def test_the_last_state_is_that_of_the_whole_bag(ids, lengths):
    made, rows, lengths = network(layers=2), torch.from_numpy(ids), torch.tensor(lengths)
    states, kept = made.states(rows)
    torch.testing.assert_close(made.last(rows, lengths).hidden, states[torch.arange(3), lengths - 1])
    halves = made.states(rows[:, 2:], made.states(rows[:, :2])[1])
    torch.testing.assert_close(halves[0], states[:, 2:])
    torch.testing.assert_close(halves[1], kept)
    turned = made.last(rows.flip(1), torch.full((3,), 6))
    torch.testing.assert_close(turned.hidden, states[:, -1])  # the order means nothing


def test_words_of_the_passage_alone_have_a_gradient():
    made = network(tuned=True).double()
    ids, target = torch.tensor([[3, 1, 1, 9, 0], [5, 7, 2, 0, 0]]), torch.tensor([4, 0])
    weight = made.embedding.weight.detach().clone().requires_grad_()
    batch = {"ids": ids, "target": target}

    def loss(weight):
        return torch.func.functional_call(made, {"embedding.weight": weight}, (batch,))[0]

    loss(weight).backward()
    assert weight.grad[[1, 2, 3, 5, 7]].abs().min() > 0
    assert not weight.grad[[0, 4, 6]].any()  # padding and <unk> have no vector
    fixed = network(tuned=False)
    fixed(batch)[0].backward()
    trained = {name for name, weight in fixed.named_parameters() if weight.grad is not None}
    assert trained == {name for name, _ in fixed.named_parameters()} - {"embedding.weight"}


def test_the_mean_is_over_the_passages():
    made = network()
    batch = {"ids": torch.tensor([[1, 2, 3], [4, 0, 0]]), "target": torch.tensor([5, 1])}
    loss, state = made(batch)
    assert state is None
    hidden = made.last(batch["ids"], torch.tensor([3, 1])).hidden
    expected = -made.output.distribution(hidden)[[0, 1], batch["target"]].mean()
    torch.testing.assert_close(loss, expected)
    text, kept = made({"ids": batch["ids"]})
    torch.testing.assert_close(text, -made.following(batch["ids"]).mean())
    assert len(kept) == 1


@pytest.fixture
def model():
    words = EncodedText(corpus()).vocabulary
    given_ = vectors([*words[5:], "never"], dimensions=5)
    made = BagOfWordsModule([2] * (len(words) + 1), dimensions=5, hidden=7, softmax="full")
    table = np.stack(
        [given_.input[given_.vectors.row_of[w]] if w in given_.vectors.row_of else np.zeros(5) for w in words]
    )
    made.set_vectors(torch.from_numpy(table).float())
    return SupCBOW(made.eval(), vocabulary=words, info={"lower": True, "unknown_types": 1}, device="cpu")


def test_it_sees_all_of_the_passage_but_the_answer(model):
    items = items_from_text(["The ship was old . so said ANNA", "A cow was here . and ___ said so unheard ."])
    assert [item.answer for item in items] == ["ANNA", None]
    index = {word: number for number, word in enumerate(model.vocabulary, 1)}
    seen = [line.split() for line in ("the ship was old . so said", "a cow was here . and said so unheard .")]
    with torch.inference_mode():
        sums = [model.network.sums(torch.tensor([[index.get(word, 0) for word in line]])) for line in seen]
        hidden = model.network.layers(torch.cat(sums))
        expected = model.network.output.distribution(hidden)[:, 1:].double().numpy()
    np.testing.assert_allclose(np.concatenate(list(model.distribution(items))), expected, atol=1e-6)
    assert model.log_prob(items)[0] == pytest.approx(expected[0, index["anna"] - 1])
    table = model.score(items, [["anna", "ship"], ["bert"]])
    wanted = [expected[0, index["anna"] - 1], expected[0, index["ship"] - 1], expected[1, index["bert"] - 1]]
    np.testing.assert_allclose([table[0, 0], table[0, 1], table[1, 0]], wanted, atol=1e-6)


def test_fitted_and_found_again():
    text = corpus()
    words = text.vocabulary()
    cbow = vectors(words[:-1])
    options = {
        "passages": 23, "minimum": 5, "rows": 8, "epochs": 40, "hidden": 32, "dropout": 0.0,
        "softmax": "full", "vocabulary": len(words) - 3, "learning_rate": 0.04, "evaluations": 0,
        "device": "cpu",
    }  # fmt: skip
    model = SupCBOW.fit(text, cbow=cbow, **options)
    table = model.network.embedding.weight.detach().numpy()
    assert table.shape == (len(words) - 2, 24)
    for number, word in enumerate(model.vocabulary, 1):  # the vectors are those given, each at its word
        expected = cbow.input[cbow.vectors.row_of[word]] if word in cbow.vectors.row_of else np.zeros(24)
        assert np.array_equal(table[number], expected)
    known = [pair for pair in zip(NAMES, THINGS, strict=True) if pair[0] in model.vocabulary]
    passages = [f"the {thing} was old and the {thing} was here . and so said {name}" for name, thing in known]
    frame = model.predict(items_from_text(passages))
    assert frame["p_correct"].mean() > 0.9
    assert SupCBOW.fit(text, cbow=cbow, **options).config == model.config


def test_what_cannot_be_fitted():
    words = corpus().vocabulary()
    for options in [
        {"cbow": vectors(words, lower=False)},
        {"cbow": vectors(words), "minimum": 5000},
    ]:
        refused(SupCBOW.fit, corpus(), **options)
