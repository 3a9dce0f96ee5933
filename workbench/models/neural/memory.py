"""The memory network of Paperno et al. (2016): the last words as memories, read several times.

"Our Memory Network implementation is similar to the one with which [Hill et al.] reached the best results
on the CBT data set" (section 4): of these, the one that predicts over a whole vocabulary is the lexical
memory (Hill et al. 2016, section 3.1), the language model of Sukhbaatar et al. (2015, section 5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from workbench.models.neural.model import Neural

if TYPE_CHECKING:
    from workbench.models.neural.networks.base import Network


class MemoryNetwork(Neural):
    """An end-to-end memory network over the last words.

    Make one by `fit`, which takes these options beside its own. What Paperno et al. (2016) took is not
    published; the defaults are those of Hill et al. (2016) with the memory that Sukhbaatar et al. (2015)
    took for their larger text (Text8), as long as the longest contexts of LAMBADA.

    memory : int, default 100
        Words that it remembers (Hill et al.: 200).
    width : int, default 200
        Of the words' vectors and of the query (Hill et al.'s p).
    hops : int, default 7
        Readings of the memory (Hill et al.'s K).
    rectified : float, default 0.5
        Share of the units that is cut off at 0 after each hop.
    dropout : float, default 0
        Share of the last query that is set to 0 in training.
    tied : bool, default False
        Whether the softmax has the weights by which memories are found (A); the papers have a third set.
    softmax : {"adaptive", "full"}, default "adaptive"
        Both give exact probabilities of all words; the first is many times faster on a CPU.
    chunk : int, default 64
        Words of each row that are computed at once; changes nothing but memory and speed.
    epochs : float, default 1
        Times the text is read.
    rows : int, default 64
        Texts that are read side by side.
    length : int, default 64
        Words of each that are predicted at once. The memory before is there too, so a longer piece
        costs less a word.
    learning_rate : float, default 0.006
        Of AdamW (the papers: plain gradient descent, 0.01); all other
        :class:`workbench.training.settings.TrainingSettings` may be given too.
    """

    version = 1
    title = "Memory Network"
    systems: ClassVar[dict[str, str]] = {"lambada": "Memory Network"}
    sizes: ClassVar[dict[str, Any]] = {
        "memory": 100, "width": 200, "hops": 7, "rectified": 0.5, "dropout": 0.0, "tied": False,
        "softmax": "adaptive", "chunk": 64,
    }  # fmt: skip
    trained: ClassVar[dict[str, Any]] = {"epochs": 1.0, "rows": 64, "length": 64, "learning_rate": 6e-3}

    @classmethod
    def _build(cls, info: Mapping[str, Any], counts: Sequence[int]) -> Network:
        from workbench.models.neural.networks import memory  # noqa: PLC0415 - all torch

        return memory.MemoryNetwork(counts, **info["sizes"])
