"""The pointer transformer: it copies by position, unknown words too, and only from before."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from workbench.models.neural.scoring import Scorer
from workbench.models.neural.softmax import mix, softmax
from workbench.models.neural.transformer import Pointer, TransformerModule
from workbench.models.neural.transformer import PointerTransformer as Predictor

V = 12  # classes: <unk> and eleven words
UNKNOWN = 7  # types that are no words of the vocabulary

torch.set_num_threads(1)


def made(seed=0, **sizes):
    torch.manual_seed(seed)
    sizes = {"width": 16, "layers": 2, "heads": 2, "dropout": 0.0, "window": 32, "pointer_size": 8} | sizes
    network = TransformerModule([5] * V, unknown_types=UNKNOWN, **sizes).eval()
    with torch.no_grad():
        for values in network.parameters():  # so that nothing is near to what it was at the start
            values.add_(torch.randn_like(values) * 0.3)
    return network


def whole(network, context):
    """Return p of every word of the vocabulary and of every unknown type (ids V .. V + UNKNOWN - 1)."""
    last = network.last(torch.tensor([context]), torch.tensor([len(context)]))
    keep = 1.0 if last.copies is None else last.copies.keep[0].exp().item()
    classes = network.output.distribution(last.hidden)[0].exp() * keep
    result = torch.cat([classes, classes[0].expand(UNKNOWN) / UNKNOWN])
    result[0] = 0
    if last.copies is not None:
        for place, word in enumerate(context):
            result[word] += last.copies.copy[0, place]
    return result


contexts = st.just([0]) | st.lists(st.integers(1, V + UNKNOWN - 1), min_size=1, max_size=20)  # 0: no word


@given(context=contexts, seed=st.integers(0, 3), kind=st.sampled_from(["full", "adaptive"]))
def test_all_words_together_have_probability_one(context, seed, kind):
    network = made(seed)
    if kind == "adaptive":
        network.output = softmax(kind, 16, [5] * V, cutoffs=[4])
    with torch.no_grad():
        assert whole(network, context).sum().item() == pytest.approx(1, abs=1e-5)


@settings(max_examples=15)
@given(text=st.lists(st.integers(1, V + UNKNOWN - 1), min_size=2, max_size=14), heads=st.sampled_from([0, 3]))
def test_each_word_is_given_what_the_words_before_it_say(text, heads):
    network = made(1, pointer_heads=heads)
    with torch.no_grad():
        log_probs = network.following(torch.tensor([text]))[0]
        for place, word in enumerate(text[1:], start=1):
            expected = whole(network, text[:place])[word].log().item()
            if not heads and word >= V:  # without a pointer <unk> is one word, as in the other networks
                expected += math.log(UNKNOWN)
            assert log_probs[place - 1].item() == pytest.approx(expected, abs=1e-4)
        loss, state = network({"ids": torch.tensor([text, text])})
    assert state is None
    assert loss.item() == pytest.approx(-log_probs.mean().item(), abs=1e-5)


def test_unknown_words_are_told_apart_and_their_numbers_mean_nothing():
    network = made(4)
    with torch.no_grad():
        one, renamed, other = network.following(
            torch.tensor([[13, 2, 14, 2, 13], [18, 2, 15, 2, 18], [13, 2, 13, 2, 14]])
        )
    np.testing.assert_allclose(one, renamed, atol=1e-5)
    assert abs(one[-1] - other[-1]) > 1e-3


def test_planted_weights_copy_the_same_word_again():
    pointer = Pointer(4, heads=1, size=4).double()
    with torch.no_grad():
        pointer.query.weight.copy_(torch.eye(4) * 40)  # looks for a word like its own state
        pointer.key.weight.copy_(torch.cat([torch.zeros(4, 4), torch.eye(4)], 1))
        pointer.share.weight.zero_()
        pointer.share.bias.copy_(torch.tensor([math.log(3.0), 0.0]))  # three quarters are copied
    words = torch.eye(4, dtype=torch.double)[[0, 1, 2, 1]][None]
    with torch.no_grad():
        copied = pointer(words, words, torch.tensor([[3]]))
        keep, copy = copied.keep[:, 0], copied.by_position()[:, 0]
    assert keep.exp().item() == pytest.approx(0.25)
    np.testing.assert_allclose(copy[0], [0, 0.375, 0, 0.375], atol=1e-6)


def test_gradients_are_those_of_finite_differences():
    torch.manual_seed(0)
    pointer = Pointer(3, heads=2, size=2).double()
    states, words = torch.randn(2, 2, 4, 3, dtype=torch.double)
    vocabulary = torch.randn(2, 4, dtype=torch.double)
    same = torch.tensor([[1, 2, 1, 3], [4, 4, 5, 5]])
    same = same[:, :, None] == same[:, None, :]

    def mixture(states, words, vocabulary):
        copied = pointer(states, words)
        return mix(vocabulary, copied.keep, copied.next_word(same))

    given = [value.requires_grad_() for value in (states, words, vocabulary)]
    assert torch.autograd.gradcheck(mixture, given)


def test_a_text_longer_than_the_window():
    network = made(5, window=8)
    text = torch.randint(1, V + UNKNOWN, (2, 30))
    with torch.no_grad():
        log_probs = network.following(text)
        assert log_probs.shape == (2, 29)
        for start in (1, 7, 8, 9, 28):
            np.testing.assert_allclose(network.following(text, start=start), log_probs[:, start:], atol=1e-6)
        np.testing.assert_allclose(log_probs[:, :8], network.following(text[:, :9]), atol=1e-6)
        for place in (9, 12, 13, 16, 17, 25, 29):  # each is given between half of the window and all of it
            near = [network.following(text[:, place - n : place + 1])[:, -1] for n in range(4, 9)]
            assert any(torch.allclose(log_probs[:, place - 1], one, atol=1e-5) for one in near)
        scorer, texts = Scorer(network), text.tolist()
        long, short = scorer.last(texts), scorer.last([line[-8:] for line in texts])
    np.testing.assert_array_equal(long.hidden, short.hidden)
    np.testing.assert_array_equal(long.copies.ids, short.copies.ids)


@pytest.mark.usefixtures("no_data")
def test_it_learns_to_copy_words_that_no_vocabulary_has():
    names = [f"name{n}" for n in range(200)]
    rng = np.random.default_rng(0)
    lines = [f"{name} went home . then came {name} . we saw {name} ." for name in rng.permutation(names)]
    model = Predictor.fit(
        lines, vocabulary=9, width=32, layers=1, heads=2, window=32, rows=16, length=24, tokens=30_000,
        learning_rate=1e-2, dropout=0.0, pointer_heads=2, device="cpu",
    )  # fmt: skip
    new = [f"stranger{n} went home . then came stranger{n} . we saw stranger{n}" for n in range(20)]
    items = wb.items_from_text(new, answers=[f"stranger{n}" for n in range(20)])
    frame = model.predict(items)
    assert (frame["correct"] & (frame["rank"] == 1)).all()
    assert "Pointer transformer 1 x 32" in model.name
