import checked_networks as checked
import pytest
import torch

from workbench.models.neural.memory import MemoryModule

torch.set_num_threads(1)


def small(**options):
    torch.manual_seed(0)
    return MemoryModule(checked.COUNTS, **{"memory": 6, "width": 16, "hops": 3, **options})


def lively(**options):
    """With weights so large that attention is far from even."""
    network = small(**options)
    with torch.no_grad():
        for weight in (network.keys.weight, network.values.weight, network.key_ages, network.value_ages):
            weight.normal_(std=0.7)
        network.turn.normal_(std=0.3)
    return network


def by_hand(network, words):
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
def test_equals_the_formulas_at_each_place(memory, hops):
    network = lively(memory=memory, hops=hops, chunk=7).eval()
    ids = checked.drawn((2, 12))
    with torch.no_grad():
        found, _ = network.states(ids)
        for row in range(2):
            for at in range(12):
                checked.near(found[row, at], by_hand(network, ids[row, : at + 1].tolist()))
        assert (found[..., 8:] >= 0).all()
        assert (found[..., :8] < 0).any()


def test_hops_are_differentiated_as_finite_differences_are():
    network = MemoryModule([1] * 5, memory=3, width=4, hops=3).double()
    weights = (network.key_ages, network.value_ages, network.turn)
    with torch.no_grad():
        for weight in weights:
            weight.normal_()
    keys, values = (torch.randn(2, 7, 4, dtype=torch.double, requires_grad=True) for _ in range(2))
    mask = torch.zeros(2, 7, dtype=torch.double)
    mask[1, :2] = -torch.inf  # the second text begins at its third word

    assert network.attend(keys, values, mask).shape == (2, 5, 4)
    inputs = (keys, values, *weights)
    assert torch.autograd.gradcheck(lambda keys, values, *_: network.attend(keys, values, mask), inputs)


def test_a_chunk_changes_nothing_but_memory():
    whole, parts = lively(chunk=64), lively(chunk=3)
    parts.load_state_dict(whole.state_dict())
    batch = {"ids": checked.drawn((2, 12))}
    gradients = []
    for network in (whole, parts):
        loss, _ = network(batch)
        loss.backward()
        gradients.append(torch.cat([p.grad.flatten() for p in network.parameters()]))
    checked.near(gradients[0], gradients[1], 1e-6)


def test_half_of_the_units_are_cut_off_unless_told_otherwise():
    assert small().slopes.tolist() == [1.0] * 8 + [0.0] * 8
    assert small(rectified=0.0).slopes.tolist() == [1.0] * 16
    assert "slopes" not in small().state_dict()


def test_attention_begins_as_one_by_age():
    shares = (0.1 * MemoryModule(checked.COUNTS, memory=20).key_ages.sum(-1)).softmax(0)  # words left out
    assert 1.5 < shares[-1] / shares[-2] < 3
    assert 7 < shares[-1] / shares[-10] < 14
