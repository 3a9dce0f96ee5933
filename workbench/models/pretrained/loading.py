"""Load models of ``transformers``; the base class of causal and masked ones."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, get_args

import numpy as np
import numpy.typing as npt

from workbench.items.items import Items
from workbench.models.base import Predictor, remote_code
from workbench.models.item_words import ReadContext
from workbench.models.pretrained.gguf import INSTALL, convert, is_gguf, no_bars
from workbench.models.pretrained.known import find_model
from workbench.storage import cache
from workbench.storage.errors import DataError, check_option, reading
from workbench.storage.files import read_json, write_atomic
from workbench.storage.progress import progress_bar

if TYPE_CHECKING:
    import torch

Variant = Literal["causal", "masked"]
Text = Literal["as-is", "detokenised"]

Ids = list[int]

_CLASSES: dict[Variant, str] = {"causal": "AutoModelForCausalLM", "masked": "AutoModelForMaskedLM"}
_FILES = ("*.json", "*.txt", "*.model", "*.safetensors", "*.py")
_SOURCE = "source.json"
_OTHER_HEADS = re.compile(
    r"(^|\.)(pooler|seq_relationship|sop_classifier|mtp)\.|\.masked_bias$|\.attn\.bias$"
)
"""Weights that a checkpoint may have beyond those of its language model: heads for other tasks, and masks."""
_TOLERANCES = {"float32": 1e-3, "float16": 0.02, "bfloat16": 0.05}
"""Nats by which log-probabilities of equal texts may differ in a batch, by precision."""
PROBE = "One two three four"
"""Text by which a tokenizer is tested, and whether a model sees what comes after a position."""
_CODE = ("_attn_implementation", "_experts_implementation", "fusion_config", "transformers_weights")
"""Attributes of a configuration that choose code or files; transformers has a default for each."""

_PARAMETERS = {  # that causal and masked models share
    "model": """path_or_name : path or str
        A folder with a model and its tokenizer in the form of ``transformers``, whose weights are read as
        safetensors only; a GGUF file, which is converted once (causal models); a short name that
        ``wb.models()`` lists; or the name of a model on the hub.""",
    "text": """text : {"as-is", "detokenised"}
        Whether texts of Treebank tokens are given as they are, or as a book would print them
        (:func:`workbench.items.text.readable`). Running text is always given as it is.""",
    "loading": """name : str, optional
        Name in tables.
    **loading
        How the model is loaded and computed:

        - ``device``, ``dtype``: by default a GPU where there is one, and there bfloat16; else single
          precision. Logarithms are always taken in single precision.
        - ``revision``: revision of a model on the hub.
        - ``trust_remote_code`` (False): whether code that comes with the model may run, and whether its
          weights may be quantized.
        - ``batch_tokens``: sub-tokens in a batch; 512 on a CPU and 32,768 on a GPU, twice as many for masked
          models.""",
}
LOADING = ("device", "dtype", "revision", "trust_remote_code", "batch_tokens")
_ASKED: ContextVar[tuple[tuple[int, ...], torch.Tensor, torch.Tensor] | None]
_ASKED = ContextVar("_ASKED", default=None)
"""The shape of a batch, the rows and the positions asked: each thread has its own."""


class Checkpoint(NamedTuple):
    """A model of ``transformers`` with its tokenizer."""

    model: Any
    tokenizer: Any
    device: str  # where inputs are expected
    label: str  # the name on the hub, or in the configuration, else of the folder
    digest: str  # of the files in the folder; the commit of a model on the hub

    @property
    def batch_tokens(self) -> int:
        """Sub-tokens in a batch of a causal model; a masked one has no keys and values to keep.

        With more, the states that a CPU computes leave its cache, and their memory goes back to the system.
        """
        return 32_768 if "cuda" in self.device else 512

    def tensor(self, values: Any) -> torch.Tensor:
        """Return integers as a tensor on the model's device."""
        import torch  # noqa: PLC0415 - heavy

        return torch.from_numpy(np.asarray(values, dtype=np.int64)).to(self.device)

    def input_ids(self, ids: Any) -> torch.Tensor:
        """Return sub-tokens as a tensor; DataError for an id outside the model's vocabulary."""
        size, max_id = int(self.model.get_input_embeddings().weight.shape[0]), int(np.max(ids, initial=0))
        if max_id >= size:
            raise DataError(
                f"the tokenizer gives sub-token {max_id:,}, the model {self.label!r} has {size:,}, from 0 on",
                hint="the tokenizer is another model's, or was changed: download the model again",
            )
        return self.tensor(ids)

    @contextmanager
    def eager(self) -> Iterator[None]:
        """Make the model return its attention weights, which faster implementations do not."""
        before = self.model.config._attn_implementation  # noqa: SLF001 - it has no public name
        self.model.set_attn_implementation("eager")
        try:
            yield
        finally:
            self.model.set_attn_implementation(before)

    def logits(
        self, ids: npt.NDArray[np.int64], asked: Sequence[Sequence[int]], **options: Any
    ) -> tuple[torch.Tensor, Any]:
        """Run the model, its head on the asked positions of each row only.

        Return logits in single precision, (positions, vocabulary), those of the first row first, and the keys
        and values; None where the model returns none.
        """
        import torch  # noqa: PLC0415 - heavy

        row = self.tensor([index for index, positions in enumerate(asked) for _ in positions])
        position = self.tensor([position for positions in asked for position in positions])
        token = _ASKED.set((ids.shape, row, position))
        try:
            with torch.inference_mode():
                output = self.model(input_ids=self.input_ids(ids), **options)
                logits = output.logits
                logits = logits[0] if logits.shape[:2] == (1, len(row)) else logits[row, position]
                return logits.float(), getattr(output, "past_key_values", None)
        finally:
            _ASKED.reset(token)


def keep_asked(_head: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Select the states of the asked positions (a hook before the head, so that it computes no others)."""
    shape, row, position = _ASKED.get() or (None, None, None)
    states = inputs[0]
    return (states[row, position][None], *inputs[1:]) if states.shape[:2] == shape else inputs


def log_norm(logits: torch.Tensor) -> torch.Tensor:
    """Return the logarithm of the sum of each row's exponentials; NaN where it is not finite.

    So all log-probabilities of a row with an infinite logit are NaN, not -inf.
    """
    norm = logits.logsumexp(dim=-1)
    return norm.masked_fill(norm.isinf(), float("nan"))


def padded(
    rows: Sequence[Sequence[int]], *, fill: int = 0, pad_left: bool = False
) -> tuple[npt.NDArray[np.int64], ...]:
    """Return rows of sub-tokens as one array, padded at the right (`pad_left`: at the left), and a mask."""
    width = max(map(len, rows))
    ids = np.full((len(rows), width), fill, dtype=np.int64)
    mask = np.zeros_like(ids)
    for index, row in enumerate(rows):
        columns = slice(width - len(row), width) if pad_left else slice(len(row))
        ids[index, columns], mask[index, columns] = row, 1
    return ids, mask


class PretrainedModel(Predictor):
    """A predictor that is a checkpoint of ``transformers``."""

    fitted_on = "a folder or name of pretrained weights"
    mask = "_"

    def __init_subclass__(cls) -> None:
        """Fill the shared parameters into the docstring."""
        super().__init_subclass__()
        for name, text in _PARAMETERS.items():
            cls.__doc__ = cls.__doc__ and cls.__doc__.replace(f"{{{name}}}", text)

    def __init__(
        self,
        path_or_name: Path | str | PretrainedModel,
        *,
        variant: Variant,
        text: Text,
        **loading: Any,
    ) -> None:
        check_option("text", text, get_args(Text))
        for option in loading:
            check_option("the option of loading", option, self.option_names())
        self.text, self._variant = text, variant
        self._batch_tokens: int | None = loading.pop("batch_tokens", None)
        self._source: dict[str, Any]
        if isinstance(path_or_name, PretrainedModel):
            loaded = vars(path_or_name)
            check_option("the kind of the loaded model", loaded["_variant"], (variant,))
            self._source = {name: loaded["_source"][name] for name in ("path_or_name", "revision")}
            self._checkpoint = loaded["_checkpoint"]
        else:
            path = Path(path_or_name)
            location = str(path.resolve() if path.exists() else path_or_name)
            self._source = {"path_or_name": location, "revision": loading.get("revision")}
            self._checkpoint = _load_checkpoint(path_or_name, variant=variant, **loading)
        self.device = self._checkpoint.device
        self.dtype = str(self._checkpoint.model.dtype).removeprefix("torch.")

    @classmethod
    def option_names(cls) -> list[str]:
        """Return the names of what the constructor takes as ``**loading``."""
        return list(LOADING)

    @property
    def config(self) -> dict[str, Any]:
        """The model's name and the digest of its files, and how it is used."""
        checkpoint = {"model": self._checkpoint.label, "digest": self._checkpoint.digest}
        return checkpoint | self._option_values

    def _columns(self, items: Items) -> dict[str, Any]:
        columns = super()._columns(items)
        if self.text == "detokenised":
            columns["detokenised"] = items.frame["tokenised"].to_numpy()
        return columns

    @property
    def context(self) -> ReadContext:
        """All before the blank, and on both sides of it for a masked model."""
        return ReadContext("before", scores_rest=True) if self._variant == "causal" else ReadContext("both")

    @property
    def training(self) -> dict[str, Any]:
        """The name of the model and the options of loading; its training data are unknown."""
        source = {name: self._source[name] for name in ("path_or_name", "revision")}
        return {"pretrained": self._checkpoint.label} | source

    def _save(self, folder: Path) -> None:
        write_atomic(folder / _SOURCE, json.dumps(self._source))

    @classmethod
    def _load(cls, folder: Path, config: dict[str, Any], **options: Any) -> Self:
        source = read_json(folder / _SOURCE, "this saved model")
        options |= {name: config[name] for name in cls.options}
        model = cls(**source, **options, trust_remote_code=remote_code.get())
        if model.config["digest"] != config["digest"]:
            raise DataError(
                f"the files of {source['path_or_name']} are not those of the model that was saved",
                file=folder,
                hint="restore them, or save the model again",
            )
        return model


def _load_checkpoint(
    path_or_name: Path | str,
    *,
    variant: Variant,
    device: str | None = None,
    dtype: str | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
) -> Checkpoint:
    """Load a model and its tokenizer from a folder, a GGUF file or the hub."""
    try:
        import torch  # noqa: PLC0415 - heavy
        import transformers  # noqa: PLC0415 - heavy, an extra
    except ImportError as error:
        raise DataError(f"pretrained models need transformers: {error}", hint=INSTALL) from error
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    dtype = dtype or ("bfloat16" if "cuda" in device else "float32")
    check_option("dtype", dtype, tuple(_TOLERANCES))
    path = Path(path_or_name)
    if not path.exists() and (path.is_absolute() or path.suffix == ".gguf"):
        raise DataError("there is no such file or folder", file=path)
    source = str(path if path.exists() else find_model(str(path_or_name)))
    converted = convert(Path(source)) if variant == "causal" and is_gguf(Path(source)) else None
    location = source if converted is None else str(converted.folder)
    hub = {"revision": revision, "trust_remote_code": trust_remote_code}
    hint = "pass a folder with config.json, a tokenizer and *.safetensors, or a name on the hub"
    with reading(source, f"this {variant} model", hint=hint), no_bars(), _download_bar(location, revision):
        config = transformers.AutoConfig.from_pretrained(location, **hub)
        _remove_choices_of_code(config, source, trust=trust_remote_code)
        tokenizer: Any = transformers.AutoTokenizer.from_pretrained(location, **hub)
        if not tokenizer.is_fast or len(tokenizer) <= len(set(tokenizer.all_special_ids)):
            raise DataError(
                "the model has no fast tokenizer, or an empty one",
                file=source,
                hint="save the tokenizer that it was trained with into the folder: "
                f"AutoTokenizer.from_pretrained(...).save_pretrained({location!r})",
            )
        model, info = getattr(transformers, _CLASSES[variant]).from_pretrained(
            location, config=config, dtype=dtype, device_map=device, use_safetensors=True,
            output_loading_info=True, **hub,
        )  # fmt: skip
        _check_weights(info, variant, source)
        label, digest = _identity(source, revision) if converted is None else converted[1:]
        model.get_output_embeddings().register_forward_pre_hook(keep_asked)
        checkpoint = Checkpoint(model.eval(), tokenizer, str(model.device), label, digest)
        if variant == "causal":
            _check_causal(checkpoint, source)
    return checkpoint


def _download_bar(source: str, revision: str | None) -> Any:
    """Return a bar that says that a model is downloaded; one that is here already has none."""
    from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415 - an extra

    is_here = Path(source).exists() or try_to_load_from_cache(source, "config.json", revision=revision)
    return progress_bar(label=f"Downloading {source} from the hub", unit="", shown=not is_here)


def _identity(source: str, revision: str | None) -> tuple[str, str]:
    """Return the name and the digest of a folder with a model; of one on the hub its commit."""
    from transformers.utils.hub import cached_file  # noqa: PLC0415 - heavy, an extra

    folder = Path(source)
    if folder.is_dir():
        counted = [path for pattern in _FILES for path in folder.glob(pattern)]
        return folder.resolve().name, cache.fingerprint(counted, folder)
    return source, Path(str(cached_file(source, "config.json", revision=revision))).parent.name


def _remove_choices_of_code(config: Any, source: str, *, trust: bool) -> None:
    """Remove the fields that choose code from a configuration; DataError for quantized weights.

    How these are read is code that the configuration chooses.
    """
    for name in _CODE:
        if hasattr(config, name):
            setattr(config, name, None)
    if getattr(config, "quantization_config", None) is not None and not trust:
        raise DataError(
            "the weights are quantized: the configuration chooses the code that reads them",
            file=source,
            hint="take a checkpoint that is not quantized, or allow this with trust_remote_code=True",
        )
    for name in getattr(config, "sub_configs", {}):
        if (inner := getattr(config, name, None)) is not None:
            _remove_choices_of_code(inner, source, trust=trust)


def _check_weights(info: dict[str, Any], variant: Variant, source: str) -> None:
    """Raise DataError if weights were missing or had no place, which transformers only logs."""
    missing = sorted(map(str, info["missing_keys"] or info["mismatched_keys"]))
    unexpected = sorted(key for key in map(str, info["unexpected_keys"]) if not _OTHER_HEADS.search(key))
    if missing or unexpected:
        raise DataError(
            f"the weights do not fit config.json: {len(missing):,} are missing or of another shape "
            f"({', '.join(missing[:3]) or 'none'}), {len(unexpected):,} have no place "
            f"({', '.join(unexpected[:3]) or 'none'})",
            file=source,
            hint=f"take a checkpoint that was trained as a {variant} language model, with its config.json",
        )


def _check_causal(checkpoint: Checkpoint, source: str) -> None:
    """Raise DataError if the model attends to later positions, or was trained to (``prefix_lm``).

    Two texts differ in their last sub-token only. Log-probabilities that are not numbers are no difference.
    """
    import torch  # noqa: PLC0415 - heavy

    ids = checkpoint.tokenizer(PROBE, add_special_tokens=False)["input_ids"]
    with torch.inference_mode():
        inputs = checkpoint.input_ids([[*ids, ids[0]], [*ids, ids[-1]]])
        logits = checkpoint.model(input_ids=inputs, use_cache=False).logits[:, :-1].float()
    first, second = logits.log_softmax(dim=-1)
    difference = float((first - second).abs().nan_to_num(0, 0).max())
    has_prefix = getattr(getattr(checkpoint.model.config, "attn_config", None), "prefix_lm", False)
    if has_prefix or difference > _TOLERANCES[str(checkpoint.model.dtype).removeprefix("torch.")]:
        raise DataError(
            "expected a causal language model, got one that sees what comes after a position (prefix_lm: "
            f"{has_prefix}; a later sub-token changes a log-probability by {difference:.2g} nats)",
            file=source,
            hint="use MaskedLM for BERT and its like, or a model that was trained from left to right; set "
            '"is_decoder": true in config.json only if this one was',
        )
