import checked_networks as checked
import pytest
import torch

from workbench.models.neural.recurrent import LSTM, RecurrentModule

KINDS = ("rnn", "lstm")


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)
    torch.manual_seed(0)


def small(kind, **options):
    return RecurrentModule(checked.COUNTS, **{"kind": kind, "width": 16, **options})


def lively(kind, **options):
    """With weights so large that no way of mixing units up goes unseen."""
    network = small(kind, **options)
    with torch.no_grad():
        for weight in network.layers.parameters():
            weight.normal_(std=0.4)
    return network


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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layers", [1, 2])
def test_equals_the_formulas(kind, layers):
    network = lively(kind, layers=layers).eval()
    ids = checked.drawn((2, 12))
    with torch.no_grad():
        found, state = network.states(ids)
    for row in range(2):
        expected, *memory = by_hand(network, ids[row])
        checked.near(found[row], expected)
        for one, other in zip(state, memory[: len(state)], strict=True):
            assert one.shape == (2, layers, 16)
            checked.near(one[row], other)


def test_planted_weights_give_known_probabilities():
    n = 4
    table = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1], [0.25] * 4, [0.01, 0.01, 0.01, 0.97]])
    for kind in KINDS:
        network = RecurrentModule([1] * n, kind=kind, width=n, tied=False)
        with torch.no_grad():
            for weight in network.parameters():
                weight.zero_()
            network.embedding.weight.copy_(torch.eye(n))
            network.layers.weight_ih_l0[-2 * n : -n if kind == "lstm" else None].zero_()
            if kind == "rnn":
                network.layers.weight_ih_l0.copy_(20 * torch.eye(n))
                height = 1.0
            else:  # gates in, forget, out are open, shut, open; the cell is the word
                network.layers.weight_ih_l0[2 * n : 3 * n] = 20 * torch.eye(n)
                network.layers.bias_ih_l0.copy_(torch.tensor([30.0, -30.0, 0.0, 30.0]).repeat_interleave(n))
                height = torch.tanh(torch.tensor(1.0))
            network.output.words.copy_(table.log().T / height)
        ids = torch.tensor([[0, 3, 1, 2, 2, 0, 1]])
        expected = table.log()[ids[0, :-1], ids[0, 1:]]
        checked.near(network.following(ids)[0], expected)
        loss, _ = network({"ids": ids})
        assert loss.item() == pytest.approx(-expected.mean().item(), abs=1e-5)


def test_begins_as_it_says():
    lstm, rnn = small("lstm", width=32, layers=2), small("rnn", width=32)
    for layer in (0, 1):
        bias = getattr(lstm.layers, f"bias_ih_l{layer}") + getattr(lstm.layers, f"bias_hh_l{layer}")
        assert bias.view(4, 32).tolist() == [[0.0] * 32, [1.0] * 32, [0.0] * 32, [0.0] * 32]
        for gate in getattr(lstm.layers, f"weight_hh_l{layer}").view(4, 32, 32):
            checked.near(gate @ gate.T, torch.eye(32))
    recurrent = rnn.layers.weight_hh_l0
    checked.near(recurrent @ recurrent.T, torch.eye(32))
    assert rnn.layers.bias_ih_l0.abs().max() == 0
    words = lstm.embedding.weight * 32**0.5
    assert 0.9 < words.std() < 1.1
    own = [name for name, value in lstm.named_parameters() if value.shape == lstm.embedding.weight.shape]
    assert own == ["embedding.weight"]  # tied: the softmax has no such matrix


def test_dropout_is_for_training_and_never_between_words():
    network = small("lstm", width=256, dropout=0.5)
    network.train()
    ids = torch.full((1, 50), 3)
    hidden, state = network.states(ids)
    share = (hidden == 0).float().mean()
    assert 0.45 < share < 0.55
    assert not torch.equal(hidden[0, 0] == 0, hidden[0, 1] == 0)  # drawn anew for each word
    assert (state[0] != 0).all()
    network.eval()
    first, second = network.states(ids)[0], network.states(ids)[0]
    assert torch.equal(first, second)
    assert (first != 0).all()


def test_layers_are_named():
    assert LSTM._named({"sizes": {"width": 8, "layers": 3}}) == "LSTM 3 x 8"
