import checked_networks as checked
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.models.neural.feedforward import FeedForwardModule, windows
from workbench.models.neural.network import right_aligned


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)
    torch.manual_seed(0)


def small(**options):
    return FeedForwardModule(checked.COUNTS, **{"order": 4, "width": 16, **options})


@settings(max_examples=15, deadline=None)
@given(order=st.integers(2, 8), at=st.integers(0, 11), seed=st.integers(0, 99))
def test_sees_just_so_many_words(order, at, seed):
    network = small(order=order).eval()
    ids = checked.drawn((1, 12), seed)
    changed = ids.clone()
    changed[0, at] = (ids[0, at] + 1) % checked.N_WORDS
    with torch.no_grad():
        moved = (network.states(ids)[0] - network.states(changed)[0]).abs().amax(-1)[0] > 0
    assert moved.tolist() == [at <= place < at + order - 1 for place in range(12)]


@pytest.mark.parametrize("direct", [False, True])
def test_equals_the_formula(direct):
    """Bengio et al. 2003, equation of section 2: y = b + W x + U tanh(d + H x), word by word."""
    order, embedded = 4, 6
    network = small(order=order, embedded=embedded, direct=direct, tied=False).eval()
    ids = checked.drawn((2, 9))
    matrix, bias = network.output.words.detach(), network.output.bias.detach()
    vectors = network.embedding.weight.detach() * embedded**0.5
    with torch.no_grad():
        said = network.following(ids)
        for row in range(2):
            for at in range(1, 9):
                x = torch.zeros(order - 1, embedded)
                for back in range(1, order):
                    if at - back >= 0:
                        x[-back] = vectors[ids[row, at - back]]
                x = x.flatten()
                hidden = torch.tanh(network.hidden.bias + network.hidden.weight @ x)
                y = bias + matrix[:, :16] @ hidden
                if direct:
                    y += matrix[:, 16:] @ x
                checked.near(said[row, at - 1], y.log_softmax(0)[ids[row, at]])
    assert network.width == matrix.shape[1] == 16 + direct * 3 * embedded


def test_planted_weights_give_known_probabilities():
    """The hidden layer says which the last two words are; the softmax multiplies what each expects."""
    n = 4
    torch.manual_seed(1)
    older, newer = torch.rand(n, n).log(), torch.rand(n, n).log()
    network = FeedForwardModule([1] * n, order=3, width=2 * n, embedded=n, tied=False)
    with torch.no_grad():
        network.embedding.weight.copy_(torch.eye(n))
        network.hidden.weight.copy_(20 * torch.eye(2 * n))
        network.hidden.bias.zero_()
        network.output.words.copy_(torch.cat([older, newer]).T)
        network.output.bias.zero_()
    ids = torch.tensor([[0, 3, 1, 2, 2, 0, 1]])
    expected = []
    for at in range(1, 7):
        y = newer[ids[0, at - 1]] + (older[ids[0, at - 2]] if at > 1 else 0)
        expected.append(y.log_softmax(0)[ids[0, at]])
    checked.near(network.following(ids)[0], torch.stack(expected))
    loss, _ = network({"ids": ids})
    assert loss.item() == pytest.approx(-torch.stack(expected).mean().item(), abs=1e-5)


def test_gradients_against_finite_differences():
    network = FeedForwardModule([1] * 5, order=3, width=3, embedded=2, direct=True, tied=False).double()
    ids, before = checked.drawn((2, 4), n_words=5), checked.drawn((2, 1), 1, n_words=5)
    checked.differentiates(lambda: network.states(ids, (before,))[0], tuple(network.parameters())[:-2])
    words = torch.rand(2, 6, 3, dtype=torch.double, requires_grad=True)
    checked.differentiates(lambda: windows(words, 4), (words,))


def test_windows_and_endings():
    words = torch.arange(5.0)[None, :, None]
    assert windows(words, 3).tolist() == [[[0, 1, 2], [1, 2, 3], [2, 3, 4]]]
    assert windows(words, 1).tolist() == words.tolist()
    ids = torch.tensor([[7, 8, 9, 5], [4, 0, 0, 0]])
    assert right_aligned(ids, torch.tensor([3, 1]), 2).tolist() == [[8, 9], [-1, 4]]
    assert right_aligned(ids, torch.tensor([4, 1]), 6).tolist() == [[-1, -1, 7, 8, 9, 5], [-1] * 5 + [4]]
