"""Recurrent language models: Elman's network and long short-term memory.

Both are systems of Paperno et al. (2016, section 4), "RNN" and "LSTM". Of their sizes the paper says
nothing; one layer of 512 units is what later work took from its supplement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from workbench.models.neural.model import Neural

if TYPE_CHECKING:
    from workbench.models.neural.networks.base import Network
    from workbench.models.neural.networks.recurrent import Kind

_SIZES = {"width": 512, "layers": 1, "dropout": 0.0, "tied": True, "softmax": "adaptive"}
_TRAINED = {"epochs": 1.0, "rows": 64, "length": 35, "learning_rate": 4e-3}


class _Recurrent(Neural):
    """What both kinds share."""

    kind: ClassVar[str]

    @classmethod
    def _build(cls, info: Mapping[str, Any], counts: Sequence[int]) -> Network:
        from workbench.models.neural.networks.recurrent import Recurrent  # noqa: PLC0415 - all torch

        return Recurrent(counts, kind=cast("Kind", cls.kind), **info["sizes"])

    @classmethod
    def _named(cls, info: Mapping[str, Any]) -> str:
        """Return the title, layers where there are several, and width."""
        layers = info.get("sizes", {}).get("layers", 1)
        return super()._named(info).replace(cls.title, cls.title + (f" {layers} x" if layers > 1 else ""), 1)


class LSTM(_Recurrent):
    """A language model of long short-term memory (Hochreiter and Schmidhuber 1997).

    Make one by `fit`, which takes these options beside its own:

    width : int, default 512
        Units of a layer, and size of the words' vectors (see above for 1 x 512).
    layers : int, default 1
    dropout : float, default 0
        Share of units set to 0 in training, anew for each word: of the words' vectors, between layers, and
        of the output (Zaremba et al. 2014). It helps where the text is read more than once.
    tied : bool, default True
        Whether words are embedded by the weights of the softmax (Press and Wolf 2017); of the
        adaptive one, by those of its head.
    softmax : {"adaptive", "full"}, default "adaptive"
        Both give exact probabilities of all words; the first is many times faster on a CPU.
    epochs : float, default 1
        Times the text is read. With several million words of novels, one is far from too many.
    rows : int, default 64
        Texts that are read side by side: the corpus is cut into so many lanes. On a GPU 256 is faster.
    length : int, default 35
        Words of each that are read at once, and as far as gradients go back (Zaremba et al. 2014); what is
        remembered is carried on.
    learning_rate : float, default 0.004
        Of AdamW, with the gradient clipped to a length of 1; all other
        :class:`workbench.training.settings.TrainingSettings` may be given too.

    Notes
    -----
    ``model.cached()`` adds a continuous cache of the passage's words (Grave et al. 2017).
    """

    version = 1
    title = "LSTM"
    kind = "lstm"
    systems: ClassVar[dict[str, str]] = {"lambada": "LSTM"}
    sizes: ClassVar[dict[str, Any]] = dict(_SIZES)
    trained: ClassVar[dict[str, Any]] = dict(_TRAINED)


class ElmanRNN(_Recurrent):
    """A simple recurrent language model: one layer of tanh that sees itself as it was (Elman 1990).

    Make one by `fit`, which takes the options of :class:`LSTM`, with the same defaults.
    """

    version = 1
    title = "RNN"
    kind = "rnn"
    systems: ClassVar[dict[str, str]] = {"lambada": "RNN"}
    sizes: ClassVar[dict[str, Any]] = dict(_SIZES)
    trained: ClassVar[dict[str, Any]] = dict(_TRAINED)
