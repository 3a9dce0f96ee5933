"""A masked model of ``transformers``: reading it, and the probabilities of what is behind its masks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from workbench.items.schema import DataError
from workbench.models.pretrained.loading import read
from workbench.runs.predictions import Floats


@dataclass(frozen=True)
class Filler:
    """A model with its tokenizer.

    Attributes
    ----------
    model, tokenizer : of transformers
    lead, tail : list of int
        The marks that the tokenizer puts before and after a text.
    length : int
        Sub-tokens that the model sees at most, marks counted.
    """

    model: Any
    tokenizer: Any
    lead: list[int]
    tail: list[int]
    length: int

    @property
    def marks(self) -> int:
        """Number of sub-tokens that are marks around the text."""
        return len(self.lead) + len(self.tail)

    @property
    def device(self) -> str:
        """Where it computes."""
        return str(self.model.device)

    @property
    def dtype(self) -> str:
        """The type of its weights."""
        return str(self.model.dtype).removeprefix("torch.")

    @property
    def commit(self) -> str | None:
        """The commit of a model on the hub."""
        return getattr(self.model.config, "_commit_hash", None)

    @classmethod
    def read(
        cls,
        path_or_name: Path | str,
        *,
        device: str | None = None,
        dtype: str | None = None,
        **options: Any,
    ) -> Self:
        """Read a model and its tokenizer; see :class:`~workbench.models.pretrained.masked.MaskedLM`.

        Raises
        ------
        DataError
            If ``transformers`` is not installed, or there is no masked model with a fast tokenizer.
        """
        model, tokenizer, _ = read(path_or_name, device, dtype, kind="masked", **options)
        if tokenizer.mask_token_id is None:
            raise DataError("the tokenizer has no mask", file=path_or_name)
        lead, tail = _marks(tokenizer)
        return cls(model, tokenizer, lead, tail, min(_positions(model), tokenizer.model_max_length))

    def log_probs(
        self, rows: Sequence[npt.NDArray[np.int32]], places: Sequence[int], ids: Sequence[int]
    ) -> Floats:
        """Return the natural log-probability of one sub-token of each row, computed in single precision.

        Parameters
        ----------
        rows : sequence of array
            Sub-tokens with masks, marks included; of any lengths.
        places : sequence of int
            Which place of each row is asked for.
        ids : sequence of int
            Which sub-token.
        """
        import torch  # noqa: PLC0415 - heavy

        given = np.full((len(rows), max(map(len, rows))), self.tokenizer.pad_token_id or 0, dtype=np.int64)
        seen = np.zeros_like(given)
        for index, row in enumerate(rows):
            given[index, : len(row)], seen[index, : len(row)] = row, 1
        device = self.model.device
        at = torch.tensor(places, device=device)
        number = torch.arange(len(rows), device=device)

        def only_asked(_module: Any, _inputs: Any, output: Any) -> Any:
            """Leave one state of each row, so that the head computes no logits for the others."""
            states = output[0]
            if states.shape[:2] != given.shape:
                return output
            states = states[number, at][:, None]
            if isinstance(output, tuple):
                return (states, *output[1:])
            return type(output)(last_hidden_state=states)

        hook = self.model.base_model.register_forward_hook(only_asked)
        try:
            with torch.inference_mode():
                logits = self.model(
                    input_ids=torch.from_numpy(given).to(device),
                    attention_mask=torch.from_numpy(seen).to(device),
                ).logits
                logits = (logits[:, 0] if logits.shape[1] == 1 else logits[number, at]).float()
                found = logits[number, torch.tensor(ids, device=device)] - logits.logsumexp(dim=-1)
        finally:
            hook.remove()
        return np.asarray(found.cpu().numpy(), dtype=float)


def _marks(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Return the marks that a tokenizer puts before and after a text."""
    told = tokenizer("a", return_special_tokens_mask=True)
    inside = [place for place, special in enumerate(told["special_tokens_mask"]) if not special]
    ids = list(told["input_ids"])
    return ids[: inside[0]], ids[inside[-1] + 1 :]


def _positions(model: Any) -> int:
    """Return how many sub-tokens a model has positions for; some count them from after the padding's."""
    most = int(getattr(model.config, "max_position_embeddings", None) or 0)
    for name, module in model.named_modules():
        if most > 0 and name.endswith("position_embeddings"):
            padding = getattr(module, "padding_idx", None)
            return most if padding is None else most - int(padding) - 1
    return most if most > 0 else 2**31
