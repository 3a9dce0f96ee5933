"""Reading a causal model of ``transformers`` and its tokenizer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from workbench.items.schema import DataError
from workbench.storage import cache

Kind = Literal["causal", "masked"]

_HEADS: dict[Kind, str] = {"causal": "AutoModelForCausalLM", "masked": "AutoModelForMaskedLM"}
_LENGTH = 2048  # where neither the model nor its tokenizer says how much it sees
_KEPT = ("*.json", "*.txt", "*.model", "*.safetensors", "*.py")
_UNSET = 10**9  # tokenizers without a length have a greater one


def known_as(path_or_name: Path | str, commit: str | None) -> tuple[str, str]:
    """Return what a model is called, and a digest of its files or, for one on the hub, its commit."""
    folder = Path(path_or_name)
    if not folder.is_dir():
        return str(path_or_name), str(commit)
    files = [path for kind in _KEPT for path in folder.glob(kind)]
    return folder.resolve().name, cache.fingerprint(files, folder)


def length(config: Any, tokenizer: Any) -> int:
    """Return how many sub-tokens a model sees, found where lm-evaluation-harness looks for it."""
    inner = getattr(config, "text_config", None) or config
    for name in ("n_positions", "max_position_embeddings", "n_ctx"):
        if (value := getattr(inner, name, None)) is not None:
            return int(value)
    told = getattr(tokenizer, "model_max_length", None)
    return int(told) if told and told < _UNSET else _LENGTH


def read(
    path_or_name: Path | str,
    device: str | None,
    dtype: str | None,
    *,
    kind: Kind,
    eager: bool = False,
    **options: Any,
) -> tuple[Any, Any, str]:
    """Read a model and its tokenizer; return them and the device.

    Parameters
    ----------
    path_or_name, device, dtype
        As :class:`workbench.models.pretrained.causal.CausalLM` has them.
    kind : {"causal", "masked"}
    eager : bool, default False
        Whether the model is to compute attention in the way that gives its weights.
    **options
        `revision` and `trust_remote_code`.

    Raises
    ------
    DataError
        If ``transformers`` is not installed, or there is no such model with a fast tokenizer.
    """
    try:
        import torch  # noqa: PLC0415 - heavy
        import transformers  # noqa: PLC0415 - heavy, an extra
    except ImportError as error:
        raise DataError(
            f"pretrained models need transformers: {error}",
            remedy='pip install "lambada-workbench[pretrained]"',
        ) from error
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    precision: Any = getattr(torch, dtype or ("bfloat16" if "cuda" in device else "float32"), None)
    if not isinstance(precision, torch.dtype):
        raise DataError(f"dtype is {dtype!r}, expected float32, bfloat16 or float16")
    where = str(path_or_name)
    if (isinstance(path_or_name, Path) or where.startswith((".", "/", "~"))) and not Path(where).is_dir():
        raise DataError("there is no such folder", file=where)
    model: Any
    told: dict[str, Any]
    try:
        with quiet():
            tokenizer: Any = transformers.AutoTokenizer.from_pretrained(where, **options)
            model, told = getattr(transformers, _HEADS[kind]).from_pretrained(
                where, dtype=precision, use_safetensors=True, output_loading_info=True,
                **({"attn_implementation": "eager"} if eager else {}), **options,
            )  # fmt: skip
        model = model.to(device).eval()
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        raise DataError(
            f"there is no {kind} model that can be read: {' '.join(str(error).split())[:300]}",
            file=where,
            remedy="pass a folder with config.json, a tokenizer and *.safetensors, or a name on the hub",
        ) from error
    if lacking := told["missing_keys"] or told["mismatched_keys"]:
        raise DataError(
            f"the weights lack {min(map(str, lacking))!r}: this is no {kind} model with its head",
            file=where,
            remedy=f"take a checkpoint that was trained as a {kind} language model",
        )
    if not getattr(tokenizer, "is_fast", False):
        raise DataError("the tokenizer is none of the fast ones of transformers", file=where)
    return model, tokenizer, device


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers from showing a bar while it reads weights."""
    from transformers.utils import logging as _logging  # noqa: PLC0415 - heavy, an extra

    logging: Any = _logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
