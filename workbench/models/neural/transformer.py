"""A small transformer over words with a pointer over the passage.

Beyond the papers of this project. It is to show what broad context is worth: a language model like the
others, trained on the same novels with no passage of LAMBADA's shape picked out, but one that can copy a word
from where it stood before, a word outside the vocabulary too; see
:class:`workbench.models.neural.networks.pointer.Pointer`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from workbench.models.neural.model import Neural

if TYPE_CHECKING:
    from workbench.models.neural.networks.base import Network
    from workbench.texts.batches import Batches
    from workbench.texts.stream import Stream


class PointerTransformer(Neural):
    """A decoder transformer over words, mixed with a pointer over the passage.

    Make one by `fit`. Its options, with their defaults for a GPU:

    - width 512, layers 8, heads 8, `inner` (units of the gated part; by default 8/3 of the width),
      dropout 0.1;
    - window 256: words that it reads; `length`, the words of a training row, is at most that;
    - hide 0.15: share of the words, the most frequent left out, that a row of a training batch does not know;
    - pointer_heads 4, pointer_size 64; ``pointer_heads=0`` is the same transformer without a pointer;
    - softmax "full"; "adaptive" is faster on a CPU;
    - tied True: words are embedded by the weights of the softmax (full softmax only);
    - rows 128, length 256, learning_rate 1e-3, warm_up 0.04, weight_decay 0.05, epochs 4.

    Notes
    -----
    The words of a row are all predicted, each from those before it in the row; rows are cut from the text
    anew in each epoch. Nothing in the training knows of LAMBADA. What is hidden in a row can only be copied
    there, so the network learns early to copy words that it does not know.
    """

    version = 1
    title = "Pointer transformer"
    sizes: ClassVar[dict[str, Any]] = {
        "width": 512, "layers": 8, "heads": 8, "inner": None, "dropout": 0.1, "window": 256, "hide": 0.15,
        "pointer_heads": 4, "pointer_size": 64, "softmax": "full", "tied": True,
    }  # fmt: skip
    trained: ClassVar[dict[str, Any]] = {
        "epochs": 4.0, "rows": 128, "length": 256, "learning_rate": 1e-3, "warm_up": 0.04,
        "weight_decay": 0.05,
    }  # fmt: skip

    @classmethod
    def _build(cls, info: Mapping[str, Any], counts: Sequence[int]) -> Network:
        from workbench.models.neural.networks import transformer  # noqa: PLC0415 - all torch

        return transformer.PointerTransformer(counts, unknown_types=info["unknown_types"], **info["sizes"])

    @classmethod
    def _batches(cls, stream: Stream, **how: Any) -> Batches:
        from workbench.texts.batches import Windows  # noqa: PLC0415 - only where something is trained

        return Windows(stream, rows=how["rows"], length=how["length"], seed=how["seed"])

    @classmethod
    def _named(cls, info: Mapping[str, Any]) -> str:
        sizes = info.get("sizes", {})
        plain = "" if sizes.get("pointer_heads", 1) else " without pointer"
        shape = f" {sizes['layers']} x {sizes['width']}" if {"layers", "width"} <= set(sizes) else ""
        return f"{cls.title}{plain}{shape}{super()._named({**info, 'sizes': {}}).removeprefix(cls.title)}"
