"""Each family of networks against the formulas of its paper, one word at a time."""

import checked_networks as checked
import pytest
import torch

from workbench.models.neural.feedforward import FeedForwardModule
from workbench.models.neural.memory import MemoryModule
from workbench.models.neural.recurrent import RecurrentModule

torch.set_num_threads(1)


def small(module, **sizes):
    torch.manual_seed(0)
    return module(checked.COUNTS, **{"width": 16, **sizes})


def recurrent_by_formula(network, ids):
    weights = {name: value.detach() for name, value in network.layers.named_parameters()}
    layers, width = sum(name.startswith("weight_hh") for name in weights), network.width
    h, c = torch.zeros(layers, width), torch.zeros(layers, width)
    states = []
    for word in ids:
        x = network.embedding.weight.detach()[word] * width**0.5
        for layer in range(layers):
            parts = [weights[f"{name}_l{layer}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
            z = parts[0] @ x + parts[1] @ h[layer] + parts[2] + parts[3]
            if network.cell == "rnn":
                x = torch.tanh(z)
            else:
                enter, forget, new, leave = z.view(4, width)
                c[layer] = torch.sigmoid(forget) * c[layer] + torch.sigmoid(enter) * torch.tanh(new)
                x = torch.sigmoid(leave) * torch.tanh(c[layer])
            h[layer] = x
        states.append(x)
    return torch.stack(states), h, c


@pytest.mark.parametrize("kind", ["rnn", "lstm"])
@pytest.mark.parametrize("layers", [1, 2])
def test_recurrent_states_equal_the_formulas(kind, layers):
    network = checked.lively(small(RecurrentModule, cell=kind, layers=layers)).eval()
    ids = checked.drawn((2, 12))
    with torch.no_grad():
        states, carried = network.states(ids)
    for row in range(2):
        expected, *memory = recurrent_by_formula(network, ids[row])
        checked.near(states[row], expected)
        for one, other in zip(carried, memory[: len(carried)], strict=True):
            assert one.shape == (2, layers, 16)
            checked.near(one[row], other)


def test_dropout_is_drawn_for_each_word_and_never_between_words():
    network = small(RecurrentModule, cell="lstm", width=256, dropout=0.5).train()
    ids = torch.full((1, 50), 3)
    hidden, state = network.states(ids)
    assert 0.45 < (hidden == 0).float().mean() < 0.55
    assert not torch.equal(hidden[0, 0] == 0, hidden[0, 1] == 0)
    assert (state[0] != 0).all()
    assert (network.eval().states(ids)[0] != 0).all()


@pytest.mark.parametrize("direct", [False, True])
def test_the_feed_forward_network_equals_the_formula(direct):
    """Bengio et al. 2003, equation of section 2: y = b + W x + U tanh(d + H x), word by word."""
    order, embedded = 4, 6
    network = small(FeedForwardModule, order=order, embedded=embedded, direct=direct, tied=False).eval()
    ids = checked.drawn((2, 9))
    matrix, bias = network.output.words.detach(), network.output.bias.detach()
    vectors = network.embedding.weight.detach() * embedded**0.5
    with torch.no_grad():
        log_probs = network.following(ids)
        for row in range(2):
            for at in range(1, 9):
                x = torch.zeros(order - 1, embedded)
                for back in range(1, min(order, at + 1)):
                    x[-back] = vectors[ids[row, at - back]]
                x = x.flatten()
                hidden = torch.tanh(network.hidden.bias + network.hidden.weight @ x)
                y = bias + matrix[:, :16] @ hidden
                if direct:
                    y += matrix[:, 16:] @ x
                checked.near(log_probs[row, at - 1], y.log_softmax(0)[ids[row, at]])
    assert network.width == matrix.shape[1] == 16 + direct * 3 * embedded


def memory_network(**sizes):
    """Return one with weights so large that attention is far from even."""
    network = small(MemoryModule, **{"memory": 6, "hops": 3, **sizes})
    with torch.no_grad():
        for weight in (network.keys.weight, network.values.weight, network.key_ages, network.value_ages):
            weight.normal_(std=0.7)
        network.turn.normal_(std=0.3)
    return network


def memory_by_formula(network, words):
    """Sukhbaatar et al. 2015 for one place: the memories are the words up to it, each with its age."""
    words = words[-network.window :]
    a, c = network.keys.weight, network.values.weight
    u = torch.full((network.width,), 0.1)
    for _ in range(network.hops):
        scores, answers = [], []
        for age, word in enumerate(reversed(words), 1):
            scores.append(u @ (a[word] + network.key_ages[-age]))
            answers.append(c[word] + network.value_ages[-age])
        shares = torch.stack(scores).softmax(0)
        u = network.turn.T @ u + sum(share * answer for share, answer in zip(shares, answers, strict=True))
        half = network.width // 2
        u = torch.cat([u[:half], u[half:].clamp_min(0)])
    return u


@pytest.mark.parametrize("memory", [1, 5, 30])
@pytest.mark.parametrize("hops", [1, 4])
def test_the_memory_network_equals_the_formulas(memory, hops):
    network = memory_network(memory=memory, hops=hops, chunk=7).eval()
    ids = checked.drawn((2, 12))
    with torch.no_grad():
        states, _ = network.states(ids)
        for row in range(2):
            for at in range(12):
                checked.near(states[row, at], memory_by_formula(network, ids[row, : at + 1].tolist()))
        assert (states[..., 8:] >= 0).all()
        assert (states[..., :8] < 0).any()


def test_gradients_of_hops_against_finite_differences():
    network = MemoryModule([1] * 5, memory=3, width=4, hops=3).double()
    weights = (network.key_ages, network.value_ages, network.turn)
    with torch.no_grad():
        for weight in weights:
            weight.normal_()
    keys, values = (torch.randn(2, 7, 4, dtype=torch.double, requires_grad=True) for _ in range(2))
    mask = torch.zeros(2, 7, dtype=torch.double)
    mask[1, :2] = -torch.inf  # the second text begins at its third word
    inputs = (keys, values, *weights)
    assert torch.autograd.gradcheck(lambda keys, values, *_: network.attend(keys, values, mask), inputs)


def test_chunks_do_not_change_the_gradients():
    whole, parts = memory_network(chunk=64), memory_network(chunk=3)
    batch = {"ids": checked.drawn((2, 12))}
    gradients = []
    for network in (whole, parts):
        network(batch)[0].backward()
        gradients.append(torch.cat([p.grad.flatten() for p in network.parameters()]))
    checked.near(gradients[0], gradients[1], 1e-6)
