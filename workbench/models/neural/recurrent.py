"""Recurrent language models: Elman's network and long short-term memory.

Both are systems of Paperno et al. (2016, section 4), "RNN" and "LSTM". Of their sizes the paper says
nothing; one layer of 512 units is what later work took from its supplement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import nn
from torch.nn import functional

from workbench.models.neural.model import Neural
from workbench.models.neural.network import LanguageModule, States, TextState, WordIds, sizes_of
from workbench.models.neural.softmax import softmax as softmax_layer

Cell = Literal["rnn", "lstm"]


class RecurrentModule(LanguageModule):
    """Embedded words, one or more recurrent layers, a softmax.

    The kind "rnn" is ``h[t] = tanh(W x[t] + U h[t-1] + b)``, "lstm" has input, forget and output gates.

    Notes
    -----
    The state is ``(h,)`` or ``(h, c)``, each of shape (rows, layers, width). No gradient flows from one batch
    into the one before. Recurrent weights begin orthogonal (each gate's), the forget gates' bias with 1
    (Jozefowicz et al. 2015), embedded words with variance 1.
    """

    def __init__(
        self,
        counts: Sequence[int],
        cell: Cell = "lstm",
        *,
        width: int = 512,
        layers: int = 1,
        dropout: float = 0.0,
        tied: bool = True,
        softmax: str = "adaptive",
    ) -> None:
        super().__init__()
        self.n_words, self.width, self.dropout, self.cell = len(counts), width, dropout, cell
        self.embedding = nn.Embedding(self.n_words, width)
        between = dropout if layers > 1 else 0.0  # PyTorch warns of dropout after a last layer
        layer_type = {"rnn": nn.RNN, "lstm": nn.LSTM}[cell]
        self.layers = layer_type(width, width, layers, batch_first=True, dropout=between)
        self.output = softmax_layer(softmax, width, counts, embedding=self.embedding if tied else None)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)  # times the root of the width: see `states`
        self._initialise()

    @torch.no_grad()
    def _initialise(self) -> None:
        for name, weight in self.layers.named_parameters():
            if "bias" in name:
                weight.zero_()
                if self.cell == "lstm" and "_ih_" in name:
                    weight[self.width : 2 * self.width] = 1  # gates: input, forget, cell, output
            else:
                initialise = nn.init.orthogonal_ if "_hh_" in name else nn.init.xavier_uniform_
                for gate in weight.split(self.width):
                    initialise(gate)

    def states(self, ids: WordIds, state: TextState = None) -> tuple[States, TextState]:
        """Return the last layer's output after each word, and the states of all layers."""
        words = self.embedding(ids) * self.width**0.5
        words = functional.dropout(words, self.dropout, self.training)
        before = None
        if state is not None:  # (rows, layers, width) to (layers, rows, width), as PyTorch has it
            tensors = [tensor.detach().to(words.dtype).transpose(0, 1).contiguous() for tensor in state]
            before = tuple(tensors) if self.cell == "lstm" else tensors[0]
        with torch.autocast(words.device.type, enabled=False):  # cuDNN's would be float16, whatever it says
            output, after = self.layers(words, before)
        hidden = functional.dropout(output, self.dropout, self.training)
        memory = after if self.cell == "lstm" else (after,)
        return hidden, tuple(tensor.detach().transpose(0, 1) for tensor in memory)


class _Recurrent(Neural):
    """The base class of recurrent language models."""

    cell: ClassVar[Cell]
    sizes: ClassVar[dict[str, Any]] = sizes_of(RecurrentModule)
    fit_defaults: ClassVar[dict[str, Any]] = {"rows": 64, "length": 35, "learning_rate": 4e-3}

    @classmethod
    def _build(cls, info: Mapping[str, Any], counts: Sequence[int]) -> LanguageModule:
        return RecurrentModule(counts, cls.cell, **info["sizes"])

    @classmethod
    def _label(cls, sizes: Mapping[str, Any]) -> str:
        layers = sizes.get("layers", 1)
        return super()._label(sizes).replace(cls.title, cls.title + (f" {layers} x" if layers > 1 else ""), 1)


class LSTM(_Recurrent):
    """A language model of long short-term memory (Hochreiter and Schmidhuber 1997).

    Make one by `fit`, which takes these options beside its own:

    width : int, default 512
        Units of a layer, and size of the words' vectors.
    layers : int, default 1
        Number of layers.
    dropout : float, default 0
        Of the words' vectors, between layers, and of the output, drawn anew for each word, never on the way
        from one word to the next (Zaremba et al. 2014). It helps where the text is read more than once.
    length : int, default 35
        Words that are read at once, and as far as gradients go back (Zaremba et al. 2014); what is remembered
        is carried on.

    Defaults of the others: tied True, softmax "adaptive", epochs 1 (with several million words of novels, far
    from too many), rows 64, learning_rate 0.004.

    Notes
    -----
    ``model.cached()`` adds a continuous cache of the passage's words (Grave et al. 2017).

    Examples
    --------
    >>> from workbench.models import LSTM
    >>> model = LSTM.fit(wb.books("sample", "train"), width=16, tokens=2000)
    >>> frame = model.predict(items)
    >>> bool(frame["rank"].notna().all())
    True
    """

    version = 1
    title = "LSTM"
    cell = "lstm"
    systems: ClassVar[dict[str, str]] = {"lambada": "LSTM"}


class ElmanRNN(_Recurrent):
    """A simple recurrent language model: one layer of tanh that sees its own last output (Elman 1990).

    Make one by `fit`, which takes the options of :class:`LSTM`, with the same defaults.
    """

    version = 1
    title = "RNN"
    cell = "rnn"
    systems: ClassVar[dict[str, str]] = {"lambada": "RNN"}
