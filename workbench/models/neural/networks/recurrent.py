"""Recurrent networks: Elman's (1990) simple one, and long short-term memory (Hochreiter, Schmidhuber 1997).

Both read a text word by word and carry on what they remember, from batch to batch in training too. The
loops over time are PyTorch's own: cuDNN's on a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from workbench.models.neural.networks.base import Network, State
from workbench.models.neural.networks.shapes import Float, Int
from workbench.models.neural.softmax import softmax as layer

Kind = Literal["rnn", "lstm"]
KINDS: tuple[Kind, ...] = ("rnn", "lstm")


class Recurrent(Network):
    """Embedded words, one or more recurrent layers, a softmax.

    Parameters
    ----------
    counts : sequence of int (V + 1,)
        Of ``<unk>`` and of the vocabulary's words in the training text.
    kind : {"lstm", "rnn"}
        "rnn": ``h[t] = tanh(W x[t] + U h[t-1] + b)`` (Elman 1990). "lstm": with input, forget and output
        gates.
    width : int, default 512
        Of the embedded words and of each layer.
    layers : int, default 1
    dropout : float, default 0
        Share of the units that are set to 0 in training: of the embedded words, between layers, and of the
        last layer's output. Drawn anew for every word, and never on the way from one word to the next
        (Zaremba et al. 2014).
    tied : bool, default True
        Whether words are embedded by the weights of the softmax (Press and Wolf 2017).
    softmax : {"full", "adaptive"}
        Kind of softmax.

    Notes
    -----
    The state is ``(h,)`` or ``(h, c)``, each of shape (rows, layers, width). No gradient flows from one batch
    into the one before. Recurrent weights begin orthogonal (each gate's), the forget gates' bias with 1
    (Jozefowicz et al. 2015), embedded words with variance 1.
    """

    def __init__(
        self,
        counts: Sequence[int],
        *,
        kind: Kind = "lstm",
        width: int = 512,
        layers: int = 1,
        dropout: float = 0.0,
        tied: bool = True,
        softmax: str = "full",
    ) -> None:
        super().__init__()
        self.n_words, self.width, self.dropout, self.kind = len(counts), width, dropout, kind
        self.embedding = nn.Embedding(self.n_words, width)
        between = dropout if layers > 1 else 0.0  # PyTorch warns of dropout after a last layer
        make = {"rnn": nn.RNN, "lstm": nn.LSTM}[kind]
        self.layers = make(width, width, layers, batch_first=True, dropout=between)
        self.output = layer(softmax, width, counts, embedding=self.embedding if tied else None)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)  # times the root of the width: see `states`
        self._begin()

    @torch.no_grad()
    def _begin(self) -> None:
        for name, weight in self.layers.named_parameters():
            if "bias" in name:
                weight.zero_()
                if self.kind == "lstm" and "_ih_" in name:
                    weight[self.width : 2 * self.width] = 1  # gates: input, forget, cell, output
            else:
                begin = nn.init.orthogonal_ if "_hh_" in name else nn.init.xavier_uniform_
                for gate in weight.split(self.width):
                    begin(gate)

    def states(
        self, ids: Int[Tensor, "rows time"], state: State = None
    ) -> tuple[Float[Tensor, "rows time width"], State]:
        """Return the last layer's output after each word, and what all layers remember."""
        words = self.embedding(ids) * self.width**0.5
        words = functional.dropout(words, self.dropout, self.training)
        given = None
        if state is not None:  # (rows, layers, width) to (layers, rows, width), as PyTorch has it
            parts = [part.detach().to(words.dtype).transpose(0, 1).contiguous() for part in state]
            given = tuple(parts) if self.kind == "lstm" else parts[0]
        with torch.autocast(words.device.type, enabled=False):  # cuDNN's would be float16, whatever it says
            found, new = self.layers(words, given)
        hidden = functional.dropout(found, self.dropout, self.training)
        kept = new if self.kind == "lstm" else (new,)
        return hidden, tuple(part.detach().transpose(0, 1) for part in kept)
