import checked_networks as checked
import pytest
import torch

from workbench.models.neural.feedforward import FeedForwardModule

torch.set_num_threads(1)


def small(**options):
    torch.manual_seed(0)
    return FeedForwardModule(checked.COUNTS, **{"order": 4, "width": 16, **options})


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


def test_gradients_against_finite_differences():
    network = FeedForwardModule([1] * 5, order=3, width=3, embedded=2, direct=True, tied=False).double()
    ids, before = checked.drawn((2, 4), n_words=5), checked.drawn((2, 1), 1, n_words=5)
    weights = tuple(network.parameters())[:-2]
    assert torch.autograd.gradcheck(lambda *_: network.states(ids, (before,))[0], weights)
