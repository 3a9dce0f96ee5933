"""Small networks of each family whose scores and ranks are compared with slow loops."""

import torch
from planted import COUNTS, TYPES, Copying, Planted

from workbench.models.neural.feedforward import FeedForwardModule
from workbench.models.neural.memory import MemoryModule
from workbench.models.neural.recurrent import RecurrentModule
from workbench.models.neural.softmax import softmax
from workbench.models.neural.transformer import TransformerModule

CLOSE = 2e-5  # ln p in single precision
COPY = {"copying", "transformer", "short-sighted"}


def networks():
    """Give a small network of each family, its weights drawn."""
    torch.manual_seed(3)
    small = {
        "counts": COUNTS,
        "unknown_types": TYPES,
        "width": 16,
        "layers": 1,
        "heads": 2,
        "pointer_size": 8,
    }
    made = {
        "lstm": RecurrentModule(COUNTS, kind="lstm", width=8, layers=2),
        "rnn": RecurrentModule(COUNTS, kind="rnn", width=8, tied=False),
        "forward": FeedForwardModule(COUNTS, width=8),
        "memory": MemoryModule(COUNTS, width=8),
        "transformer": TransformerModule(**small, window=40, dropout=0.3),
        "short-sighted": TransformerModule(**small, window=12),
    }
    made["rnn"].output = softmax("adaptive", 8, COUNTS, cutoffs=[5])
    for network in made.values():
        with torch.no_grad():
            for weight in network.parameters():
                weight.add_(torch.randn(weight.shape) * 0.3)
    return {
        "planted": Planted(),
        "not carried": Planted(carried=False),
        "copying": Copying(carried=False),
        **made,
    }
