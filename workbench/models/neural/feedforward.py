"""The feed-forward n-gram language model of Bengio et al. (2003).

It is no system of Table 1 of Paperno et al. (2016), but one of the four language models that their
construction filters passages by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from workbench.models.neural.model import Neural

if TYPE_CHECKING:
    from workbench.models.neural.networks.base import Network


class FeedForward(Neural):
    """A network that sees the last words side by side.

    Make one by `fit`, which takes these options beside its own. What Paperno et al. (2016) took is not
    published; the order is that of Bengio et al. (2003), the width that of our other networks.

    order : int, default 5
        The n of its n-grams: it sees the last n - 1 words.
    width : int, default 512
        Units of the hidden layer (Bengio et al.: 50 to 100).
    embedded : int, optional
        Size of the words' vectors; the width by default (Bengio et al.: 30 to 100).
    direct : bool, default False
        Whether the softmax sees the words' vectors beside the hidden layer.
    dropout : float, default 0
        Share of the words' vectors and of the hidden layer that is set to 0 in training.
    tied : bool, default True
        Whether words are embedded by the weights of the softmax (Press and Wolf 2017); the paper has two
        sets of weights.
    softmax : {"adaptive", "full"}, default "adaptive"
        Both give exact probabilities of all words; the first is many times faster on a CPU.
    epochs : float, default 1
        Times the text is read.
    rows : int, default 64
        Texts that are read side by side. On a GPU 256 is faster.
    length : int, default 35
        Words of each that are predicted at once.
    learning_rate : float, default 0.003
        Of AdamW; all other :class:`workbench.training.settings.TrainingSettings` may be given too.
    """

    version = 1
    title = "Feed-forward n-gram"
    sizes: ClassVar[dict[str, Any]] = {
        "order": 5, "width": 512, "embedded": None, "direct": False, "dropout": 0.0, "tied": True,
        "softmax": "adaptive",
    }  # fmt: skip
    trained: ClassVar[dict[str, Any]] = {"epochs": 1.0, "rows": 64, "length": 35, "learning_rate": 3e-3}

    @classmethod
    def _build(cls, info: Mapping[str, Any], counts: Sequence[int]) -> Network:
        from workbench.models.neural.networks import feedforward  # noqa: PLC0415 - all torch

        return feedforward.FeedForward(counts, **info["sizes"])

    @classmethod
    def _named(cls, info: Mapping[str, Any]) -> str:
        """Return the title with its order, and the width."""
        order = info.get("sizes", {}).get("order")
        return super()._named(info).replace("n-gram", "n-gram" if order is None else f"{order}-gram", 1)
