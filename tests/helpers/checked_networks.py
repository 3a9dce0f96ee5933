"""A text, small networks of each family that carries a state, and how their numbers are compared."""

import torch

from workbench.models.neural.feedforward import FeedForwardModule
from workbench.models.neural.memory import MemoryModule
from workbench.models.neural.recurrent import RecurrentModule

SENTENCES = """
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
WORDS = SENTENCES.split()
VOCABULARY = sorted(set(WORDS), key=lambda word: (-WORDS.count(word), word))
COUNTS = [1, *(WORDS.count(word) for word in VOCABULARY)]
N_WORDS = len(COUNTS)

FAMILIES = {
    "rnn": lambda **sizes: _made(RecurrentModule, {"cell": "rnn", "layers": 1}, sizes),
    "lstm": lambda **sizes: _made(RecurrentModule, {"cell": "lstm", "layers": 2}, sizes),
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
