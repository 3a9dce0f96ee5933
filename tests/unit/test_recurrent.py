import checked_networks as checked
import pytest
import torch

from workbench.models.neural.recurrent import RecurrentModule

torch.set_num_threads(1)


def small(kind, **options):
    torch.manual_seed(0)
    return RecurrentModule(checked.COUNTS, **{"kind": kind, "width": 16, **options})


def by_hand(network, ids):
    """The papers' formulas, word by word, for one row."""
    weights = {name: value.detach() for name, value in network.layers.named_parameters()}
    layers = sum(name.startswith("weight_hh") for name in weights)
    width = network.width
    h, c = torch.zeros(layers, width), torch.zeros(layers, width)
    found = []
    for word in ids:
        x = network.embedding.weight.detach()[word] * width**0.5
        for layer in range(layers):
            parts = [weights[f"{name}_l{layer}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
            z = parts[0] @ x + parts[1] @ h[layer] + parts[2] + parts[3]
            if network.kind == "rnn":
                x = torch.tanh(z)
            else:
                enter, forget, new, leave = z.view(4, width)
                c[layer] = torch.sigmoid(forget) * c[layer] + torch.sigmoid(enter) * torch.tanh(new)
                x = torch.sigmoid(leave) * torch.tanh(c[layer])
            h[layer] = x
        found.append(x)
    return torch.stack(found), h, c


@pytest.mark.parametrize("kind", ["rnn", "lstm"])
@pytest.mark.parametrize("layers", [1, 2])
def test_equals_the_formulas(kind, layers):
    network = checked.lively(small(kind, layers=layers)).eval()
    ids = checked.drawn((2, 12))
    with torch.no_grad():
        found, state = network.states(ids)
    for row in range(2):
        expected, *memory = by_hand(network, ids[row])
        checked.near(found[row], expected)
        for one, other in zip(state, memory[: len(state)], strict=True):
            assert one.shape == (2, layers, 16)
            checked.near(one[row], other)


def test_begins_as_it_says():
    lstm, rnn = small("lstm", width=32, layers=2), small("rnn", width=32)
    bias = lstm.layers.bias_ih_l1 + lstm.layers.bias_hh_l1
    assert bias.view(4, 32).tolist() == [[0.0] * 32, [1.0] * 32, [0.0] * 32, [0.0] * 32]
    assert rnn.layers.bias_ih_l0.abs().max() == 0
    for gate in [*lstm.layers.weight_hh_l1.view(4, 32, 32), rnn.layers.weight_hh_l0]:
        checked.near(gate @ gate.T, torch.eye(32))
    assert 0.9 < (lstm.embedding.weight * 32**0.5).std() < 1.1
    same = [name for name, value in lstm.named_parameters() if value.shape == lstm.embedding.weight.shape]
    assert same == ["embedding.weight"]  # tied: the softmax has no such matrix


def test_dropout_is_for_training_and_never_between_words():
    network = small("lstm", width=256, dropout=0.5)
    network.train()
    ids = torch.full((1, 50), 3)
    hidden, state = network.states(ids)
    share = (hidden == 0).float().mean()
    assert 0.45 < share < 0.55
    assert not torch.equal(hidden[0, 0] == 0, hidden[0, 1] == 0)  # drawn anew for each word
    assert (state[0] != 0).all()
    assert (network.eval().states(ids)[0] != 0).all()
