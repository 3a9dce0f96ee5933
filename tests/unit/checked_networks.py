"""What every network must do that reads a text in carried pieces; the same on a CPU and on a GPU."""

import numpy as np
import pytest
import torch

from workbench.items.items import items_from_text
from workbench.items.schema import DataError
from workbench.models.base import Predictor
from workbench.models.neural.feedforward import FeedForwardModule
from workbench.models.neural.memory import MemoryModule
from workbench.models.neural.recurrent import RecurrentModule

_SENTENCES = """
the old sailor mended his torn net before dawn .
nobody in the village believed what she had seen .
a cold wind came down from the northern hills .
my brother sold both horses to pay our rent .
they waited for hours under one broken umbrella .
his letter arrived three years after the war ended .
every window of that house faced an empty garden .
she poured the tea and said nothing about it .
rain had turned all the narrow roads to mud .
the doctor closed her bag and shook her head .
we counted eleven boats along the crowded harbour wall .
then someone knocked twice and called me by name .
"""
WORDS = _SENTENCES.split()

VOCABULARY = sorted(set(WORDS), key=lambda word: (-WORDS.count(word), word))
COUNTS = [1, *(WORDS.count(word) for word in VOCABULARY)]
N_WORDS = len(COUNTS)


FAMILIES = {
    "rnn": lambda **sizes: _made(RecurrentModule, {"kind": "rnn", "layers": 1}, sizes),
    "lstm": lambda **sizes: _made(RecurrentModule, {"kind": "lstm", "layers": 2}, sizes),
    "forward": lambda **sizes: _made(FeedForwardModule, {"order": 4}, sizes),
    "memory": lambda **sizes: _made(MemoryModule, {"memory": 6, "hops": 2, "chunk": 7}, sizes),
}


def _made(kind, defaults, sizes):
    """Make a small network of those sizes that its family has."""
    shared = {"width", "dropout", "softmax", "tied"}
    own = {name: value for name, value in sizes.items() if name in shared | set(defaults)}
    return kind(COUNTS, **{"width": 16, **defaults, **own})


def lively(network):
    """Give a network weights so large that nothing that it mixes up goes unseen."""
    with torch.no_grad():
        for weight in network.parameters():
            weight.add_(torch.randn_like(weight) * 0.3)
    return network


def near(found, expected, tolerance=1e-5):
    """Equal in shape and, but for rounding, in value; torch's own check takes five seconds to import."""
    assert found.shape == expected.shape, (found.shape, expected.shape)
    apart = (found.double() - expected.double()).abs().flatten()
    assert (apart <= tolerance).all(), apart.max()


def drawn(shape, seed=0, device="cpu", n_words=N_WORDS):
    return torch.randint(0, n_words, shape, generator=torch.Generator().manual_seed(seed)).to(device)


def carries(network, *, device="cpu", tolerance=1e-5):
    """A text in pieces is the same as the text at once; each row for itself."""
    network.to(device).eval()
    ids = drawn((3, 23), device=device)
    with torch.no_grad():
        whole, end = network.states(ids)
        state, parts = None, []
        for piece in (ids[:, :1], ids[:, 1:8], ids[:, 8:9], ids[:, 9:11], ids[:, 11:]):
            found, state = network.states(piece, state)
            parts.append(found)
        near(torch.cat(parts, 1), whole, tolerance)
        assert len(state) == len(end)
        for one, other in zip(state, end, strict=True):
            assert one.shape[0] == 3  # rows first
            assert not one.requires_grad
            near(one, other, tolerance)
        _, middle = network.states(ids[:, :11])
        alone, _ = network.states(ids[1:2, 11:], tuple(part[1:2] for part in middle))
        near(alone, whole[1:2, 11:], tolerance)
        said = network.following(ids)
        for start in (1, 5, ids.shape[1] - 2):
            near(network.following(ids, start=start), said[:, start:], tolerance)
        assert said.shape == (3, 22)
        for state in (middle, network.remember(ids[:, :11])):
            near(network.following(ids[:, 11:], state), said[:, 11:], tolerance)
        # the state is worth something: without it the words after are predicted otherwise
        assert (network.states(ids[:, 11:])[0] - whole[:, 11:]).abs().max() > 100 * tolerance


def reads_the_last(network, *, device="cpu", tolerance=1e-5):
    """Contexts that are padded at the right are the same as each alone, word by word; extended ids are 0."""
    network.to(device).eval()
    lengths = [17, 1, 9, 2, 20, 5]
    ids = torch.zeros(len(lengths), 20, dtype=torch.int64)
    for row, length in enumerate(lengths):
        ids[row, :length] = drawn((length,), seed=row)
    ids[0, 15], ids[4, 19] = N_WORDS + 3, N_WORDS
    with torch.no_grad():
        last = network.last(ids.to(device), torch.tensor(lengths, device=device))
        assert last.copies is None
        for row, length in enumerate(lengths):
            alone = torch.where(ids >= N_WORDS, 0, ids)[row : row + 1, :length].to(device)
            state = None
            for at in range(length):
                hidden, state = network.states(alone[:, at : at + 1], state)
            near(last.hidden[row], hidden[0, -1], tolerance)


def ignores_the_future(network, ids, at, other, *, device="cpu"):
    """Whatever stands after a place, and in other rows, nothing changes up to it; something does after it."""
    network.to(device).eval()
    with torch.no_grad():
        before, _ = network.states(ids.to(device))
        changed = ids.clone()
        changed[0, at:] = other[at:]
        after, _ = network.states(changed.to(device))
    assert torch.equal(before[1:], after[1:])
    near(after[0, :at], before[0, :at], 1e-6)
    assert torch.equal(ids[0], changed[0]) == torch.equal(before[0, at:], after[0, at:])


def trains_in_half_precision(network, *, device="cpu"):
    """Under autocast to bfloat16 loss and gradient are close to those in float32, with a state too."""
    network.to(device).eval()  # without dropout
    ids = drawn((4, 40), device=device)
    results = []
    for half in (False, True):
        network.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=half):
            first, state = network({"ids": ids[:, :20]})
            second, _ = network({"ids": ids[:, 19:]}, state)
        assert not [part for part in state or () if part.dtype == torch.float16]  # too narrow unscaled
        (first + second).backward()
        gradient = torch.cat([p.grad.flatten() for p in network.parameters()])
        results.append((first.item(), second.item(), gradient))
    (one, two, whole), (one_half, two_half, half) = results
    assert abs(one - one_half) < 0.02 * one
    assert abs(two - two_half) < 0.02 * two
    assert torch.cosine_similarity(whole, half, dim=0) > 0.99


def fits(kind, folder, **options):
    """A predictor learns twelve sentences, is found again, and is the same when it was saved and loaded."""
    lines = _SENTENCES.strip().splitlines()
    told = {
        "rows": 2, "length": 59, "epochs": 40, "learning_rate": 0.04, "evaluations": 0, "device": "cpu",
        "progress": False, "width": 48, "softmax": "full", **options,
    }  # fmt: skip
    model = kind.fit(lines, **told)
    texts = [f"{' '.join(line.split()[:-2])} ___ ." for line in lines]
    items = items_from_text(texts, answers=[line.split()[-2] for line in lines], tokenised=True, split="dev")
    found = model.predict(items, 2)
    assert (found["correct"] & (found["rank"] == 1)).all()
    total = np.concatenate(list(model.distribution(items)))
    assert total.shape == (12, len(VOCABULARY))
    assert ((np.exp(total).sum(1) > 0.9) & (np.exp(total).sum(1) < 1 + 1e-5)).all()  # the rest is <unk>'s
    assert model.training_record.stopped == "finished"
    again = kind.fit(lines, **told)  # kept: not trained a second time
    assert again.config == model.config
    model.save(folder)
    loaded = Predictor.load(folder)
    assert type(loaded) is kind
    assert (loaded.name, loaded.systems) == (model.name, kind.systems)
    np.testing.assert_allclose(loaded.log_prob(items), found["log_prob"], rtol=0, atol=1e-5)
    with pytest.raises(DataError, match="no option 'widht'"):
        kind.fit(lines, widht=3)
    return model
