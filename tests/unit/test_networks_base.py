import importlib.util
import itertools
import sys

import pytest
import torch
from softmaxes import assert_close
from torch import nn

from workbench.models.neural.networks import shapes
from workbench.models.neural.networks.base import Last, Network, known, recent
from workbench.models.neural.softmax import softmax

N_WORDS = 20


class Small(Network):
    """A recurrent network that remembers all words, or that sees a window of them, summed with decay."""

    def __init__(self, window=None):
        super().__init__()
        self.n_words, self.width, self.window = N_WORDS, 8, window
        self.embedding = nn.Embedding(N_WORDS, 8)
        self.read = nn.GRU(8, 8, batch_first=True)
        self.output = softmax("full", 8, range(N_WORDS, 0, -1))

    def states(self, ids, state=None):
        assert 0 <= ids.min() <= ids.max() < N_WORDS
        before = None if state is None else state[0].transpose(0, 1).contiguous()
        hidden, after = self.read(self.embedding(ids), before)
        return hidden, (after.transpose(0, 1),)


@pytest.fixture
def network():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    return Small()


@pytest.fixture
def ids():
    return torch.randint(0, N_WORDS + 10, (4, 9), generator=torch.Generator().manual_seed(1))


def test_words_beyond_the_vocabulary_are_unknown(ids):
    classes = known(ids, N_WORDS)
    assert all(c == (i if i < N_WORDS else 0) for c, i in zip(classes.flatten(), ids.flatten(), strict=True))
    assert (ids >= N_WORDS).any()


def test_the_loss_is_the_mean_over_all_following_words(network, ids):
    loss, _ = network({"ids": ids})
    said = network.following(ids)
    assert said.shape == (4, 8)
    assert_close(loss, -said.mean())
    extended = network.following(known(ids, N_WORDS))
    assert torch.equal(said, extended)


def test_each_word_is_predicted_from_those_before_it(network, ids):
    said = network.following(ids)
    row, place = 2, 5
    hidden = network.last(ids[row : row + 1, : place + 1], torch.tensor([place + 1])).hidden
    word = known(ids[row, place + 1], N_WORDS)
    assert_close(network.output.distribution(hidden)[0, word], said[row, place])


def test_what_was_remembered_continues_the_text(network, ids):
    whole = network.following(ids)
    _, state = network({"ids": ids[:, :5]})  # reads four words
    assert_close(network.following(ids[:, 4:], state), whole[:, 4:])
    assert not torch.allclose(network.following(ids[:, 4:]), whole[:, 4:])


def test_padding_at_the_right_changes_nothing(network, ids):
    lengths = torch.tensor([9, 1, 4, 6])
    last = network.last(ids, lengths)
    assert isinstance(last, Last)
    assert last.copy is None
    for row, length in enumerate(lengths):
        alone = network.last(ids[row : row + 1, :length], torch.tensor([int(length)]))
        assert_close(last.hidden[row], alone.hidden[0])


def test_a_window_leaves_the_last_words_of_each_context(ids):
    torch.manual_seed(0)
    network, lengths = Small(window=3), torch.tensor([9, 2, 3, 5])
    found = network.last(ids, lengths).hidden
    for row, length in enumerate(lengths.tolist()):
        words = ids[row, max(0, length - 3) : length]
        alone = network.states(known(words[None], N_WORDS))[0][0, -1]
        assert_close(found[row], alone)


def test_recent_words_against_a_loop():
    ids = torch.arange(1, 36).view(5, 7)
    for lengths in itertools.product((1, 2, 7), (4, 6), (3,), (5,), (7, 1)):
        for window in (1, 3, 6, 7, 9, None):
            words, left = recent(ids, torch.tensor(lengths), window)
            assert words.shape[1] == min(7, window or 7)
            for row, length in enumerate(lengths):
                wanted = ids[row, :length][-(window or 7) :].tolist()
                assert words[row, : left[row]].tolist() == wanted


def test_shapes_without_jaxtyping(monkeypatch):
    monkeypatch.setitem(sys.modules, "jaxtyping", None)
    spec = importlib.util.spec_from_file_location("shapes_alone", shapes.__file__)
    alone = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(alone)
    assert alone.Float[torch.Tensor, "rows time"] is alone.Int[torch.Tensor, " rows"] is torch.Tensor
    assert alone.Bool[torch.Tensor, ""] is torch.Tensor


def test_shapes_are_checked_in_these_tests(network, pytestconfig):
    if not pytestconfig.getoption("--jaxtyping-packages", default=None):
        pytest.skip("needs --jaxtyping-packages")
    with pytest.raises(Exception, match=r"(?i)type"):
        known([1, 2], N_WORDS)
    with pytest.raises(Exception, match=r"(?i)type"):
        network.output(torch.zeros(3, 8), torch.zeros(4, dtype=torch.int64))
