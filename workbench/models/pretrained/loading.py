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
from workbench.models.pretrained.gguf import INSTALL, Converted, convert, is_gguf, no_progress_bar
from workbench.models.pretrained.known import find_model, missing_package
from workbench.storage import cache
from workbench.storage.errors import DataError, check_option, reading
from workbench.storage.files import read_json, write_atomic

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
_INCOMPLETE = (
    (
        "adapter_config.json",
        "this is an adapter, which changes the weights of another model",
        "merge the two (`merge_and_unload` of peft), and save the model that this gives",
    ),
    (
        "shard-*-model-*-of-*.safetensors",
        "these are weights of a distributed checkpoint, of which some may be left out in silence",
        "save the model without distributed_checkpoint=True, or pass its folder 'consolidated'",
    ),
)
"""Files of which transformers would load a part alone, what they are, and what to do."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][\w.+ -]*(/[A-Za-z0-9][\w.+-]*)?")
_TEMPORARY = re.compile(r"(tmp\w*|temp|(checkpoint|output|model|result)s?(-\d+)?)(/.*)?", re.IGNORECASE)
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "*.tiktoken", "spiece.model")
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
        ``wb.pretrained()`` lists; or the name of a model on the hub.""",
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
KINDS = {"gpt2", "gpt_neox", "llama", "mistral", "opt", "qwen2", "qwen3"}
"""Kinds of causal models whose layers see what a mask of four dimensions says, and end with a block for each
position by itself. Of others less is taken for granted."""
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
                remedy="the tokenizer is another model's, or was changed: download the model again",
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


def compute_asked_alone(model: Any) -> None:
    """Make a model compute its head, and the block before it, only at the asked positions."""
    model.get_output_embeddings().register_forward_pre_hook(_keep_asked)
    for block in [module for name, module in model.named_modules() if name.endswith(".mlp")][-1:]:
        if is_plain(model):  # nothing but the head looks at what the last block gives other positions
            block.register_forward_pre_hook(_keep_asked)
            block.register_forward_hook(_put_back)


def _keep_asked(_head: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Select the states of the asked positions (a hook before a module)."""
    shape, row, position = _ASKED.get() or (None, None, None)
    states = inputs[0]
    return (states[row, position][None], *inputs[1:]) if states.shape[:2] == shape else inputs


def _put_back(_block: Any, _inputs: Any, states: torch.Tensor) -> torch.Tensor:
    """Scatter states back to the asked positions, with 0 elsewhere (a hook after a module)."""
    if (asked := _ASKED.get()) is None:
        return states
    shape, *positions = asked
    everywhere = states.new_zeros(*shape, states.shape[-1])
    everywhere[tuple(positions)] = states[0]
    return everywhere


def is_plain(model: Any) -> bool:
    """Return whether a model has an architecture that the tests compare with a plain forward pass."""
    name = model.config.model_type
    return name in KINDS and type(model).__module__.startswith(f"transformers.models.{name}.")


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
        eager: bool = False,
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
            with reading(path, f"this {variant} model", remedy="pass a folder or a name on the hub"):
                location = str(path.resolve() if path.exists() else path_or_name)
            self._source = {"path_or_name": location, "revision": loading.get("revision")}
            self._checkpoint = _load_checkpoint(path_or_name, variant=variant, eager=eager, **loading)
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
                remedy="restore them, or save the model again",
            )
        return model


def _load_checkpoint(
    path_or_name: Path | str,
    *,
    variant: Variant,
    eager: bool,
    device: str | None = None,
    dtype: str | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
) -> Checkpoint:
    """Load a model and its tokenizer; an `eager` one can return the weights of its attention."""
    try:
        import torch  # noqa: PLC0415 - heavy
        import transformers  # noqa: PLC0415 - heavy, an extra
    except ImportError as error:
        raise DataError(
            f"pretrained models need transformers: {error}",
            remedy=" && ".join([INSTALL, *missing_package(str(path_or_name))]),
        ) from error
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    dtype = dtype or ("bfloat16" if "cuda" in device else "float32")
    check_option("dtype", dtype, ("float32", "bfloat16", "float16"))
    folder, converted = _find_files(path_or_name, variant)
    source = str(folder)
    hub = {"revision": revision, "trust_remote_code": trust_remote_code}
    remedy = "pass a folder with config.json, a tokenizer and *.safetensors, or a name on the hub"
    with reading(source, f"this {variant} model", remedy=remedy), no_progress_bar(transformers.utils.logging):
        files = folder if isinstance(folder, Path) else _fetch_small_files(source, revision)
        for pattern, problem, hint in _INCOMPLETE:
            if file := next(files.glob(pattern), None):
                raise DataError(problem, file=file, remedy=hint)
        config = transformers.AutoConfig.from_pretrained(source, **hub)
        _remove_choices_of_code(config, source, trust=trust_remote_code)
        tokenizer = _load_tokenizer(source, **hub)
        model, info = getattr(transformers, _CLASSES[variant]).from_pretrained(
            source, config=config, dtype=dtype, device_map=device, use_safetensors=True,
            output_loading_info=True, attn_implementation="eager" if eager else None, **hub,
        )  # fmt: skip
    missing = sorted(map(str, info["missing_keys"] or info["mismatched_keys"]))
    unexpected = sorted(key for key in map(str, info["unexpected_keys"]) if not _OTHER_HEADS.search(key))
    if missing or unexpected:
        raise DataError(
            f"the weights do not fit config.json: {len(missing):,} are missing or of another shape "
            f"({', '.join(missing[:3]) or 'none'}), {len(unexpected):,} have no place "
            f"({', '.join(unexpected[:3]) or 'none'})",
            file=source,
            remedy=f"take a checkpoint that was trained as a {variant} language model, with its config.json",
        )
    label, digest = source, files.name
    if converted is not None:
        label, digest = converted.label, converted.digest
        cache.touch(converted.folder)
    elif isinstance(folder, Path):
        counted = [path for pattern in _FILES for path in folder.glob(pattern)]
        with reading(folder, f"this {variant} model", remedy=remedy):
            label, digest = _name_of(folder), cache.fingerprint(counted, folder)
    compute_asked_alone(model)
    checkpoint = Checkpoint(model.eval(), tokenizer, str(model.device), label, digest)
    if variant == "causal":
        with reading(source, f"this {variant} model", remedy=remedy):
            _check_causal(checkpoint, source)
    return checkpoint


def _load_tokenizer(source: str, **options: Any) -> Any:
    """Load the tokenizer of a model; DataError if it is missing, or not one of the fast ones.

    For some kinds of model, transformers makes an empty tokenizer where the files are missing.
    """
    import transformers  # noqa: PLC0415 - heavy, an extra

    try:
        tokenizer: Any = transformers.AutoTokenizer.from_pretrained(source, **options)
        tokenizer("a", verbose=False)  # it reads some of its configuration when it is used
        missing = not tokenizer.is_fast or len(tokenizer) <= len(set(tokenizer.all_special_ids))
    except Exception:
        folder = Path(source)
        if not folder.is_dir() or any(path for pattern in _TOKENIZERS for path in folder.glob(pattern)):
            raise
        missing = True
    if missing:
        raise DataError(
            f"the model has no fast tokenizer: expected one of {', '.join(_TOKENIZERS)}",
            file=source,
            remedy="save the tokenizer that it was trained with into the folder: "
            f"AutoTokenizer.from_pretrained(...).save_pretrained({source!r})",
        )
    return tokenizer


def _name_of(folder: Path) -> str:
    """Return the name of a model from its configuration, else from its repository or folder.

    Paths, and names of temporary folders, are no names of models.
    """
    config = read_json(folder / "config.json", "this configuration")
    for key in ("_name_or_path", "_model_name_or_path"):
        name = config.get(key)
        if isinstance(name, str) and _PLAIN_NAME.fullmatch(name) and not _TEMPORARY.fullmatch(name):
            return name
    real = folder.resolve()
    if real.parent.name == "snapshots" and real.parent.parent.name.startswith("models--"):  # the hub's cache
        return "/".join(real.parent.parent.name.split("--")[1:])
    return real.name


def _check_causal(checkpoint: Checkpoint, source: str) -> None:
    """Raise DataError if the model attends to later positions, or was trained to (``prefix_lm``).

    Two texts differ in their last sub-token only. Log-probabilities that are not numbers are no difference.
    """
    import torch  # noqa: PLC0415 - heavy

    ids = checkpoint.tokenizer(PROBE, add_special_tokens=False, verbose=False)["input_ids"][:4]
    special = {*checkpoint.tokenizer.all_special_ids, ids[-1]}
    ids = ids if len(ids) > 1 else ids * 2
    size = int(checkpoint.model.get_input_embeddings().weight.shape[0])
    other = next((token for token in range(size) if token not in special), None)
    difference = 0.0
    if other is not None:
        with torch.inference_mode():
            inputs = checkpoint.input_ids([ids, [*ids[:-1], other]])
            logits = checkpoint.model(input_ids=inputs, use_cache=False).logits[:, :-1].float()
        first, second = logits.log_softmax(dim=-1)
        differences = (first - second).abs()
        differences = differences[differences.isfinite()]
        difference = float(differences.max()) if len(differences) else 0.0
    has_prefix = getattr(getattr(checkpoint.model.config, "attn_config", None), "prefix_lm", False)
    if has_prefix or difference > _TOLERANCES[str(checkpoint.model.dtype).removeprefix("torch.")]:
        raise DataError(
            "expected a causal language model, got one that sees what comes after a position (prefix_lm: "
            f"{has_prefix}; a later sub-token changes a log-probability by {difference:.2g} nats)",
            file=source,
            remedy="use MaskedLM for BERT and its like, or a model that was trained from left to right; set "
            '"is_decoder": true in config.json only if this one was',
        )


def _find_files(path_or_name: Path | str, variant: Variant) -> tuple[Path | str, Converted | None]:
    """Return the folder of a model or its name on the hub, and the converted model of a GGUF file."""
    path = Path(path_or_name)
    is_name = isinstance(path_or_name, str) and not path_or_name.startswith((".", "/", "~"))
    if is_name and not path.exists():
        source = find_model(str(path_or_name))
        if isinstance(source, str):
            return source, None
        path = source
    if path.is_dir():
        return path, None
    if variant == "causal" and is_gguf(path):
        converted = convert(path)
        return converted.folder, converted
    raise DataError(
        f"expected the folder of a model{' or a GGUF file' if variant == 'causal' else ''}, "
        f"got {'another file' if path.exists() else 'a path where nothing is'}",
        file=path,
        remedy="pass the folder with config.json, the tokenizer and the weights, or a name on the hub",
    )


def _fetch_small_files(name: str, revision: str | None) -> Path:
    """Fetch the configuration of a model on the hub, and what shows that more than its weights is needed.

    Return their folder in the cache, which is named after the commit.
    """
    from transformers.utils.hub import cached_file  # noqa: PLC0415 - heavy, an extra

    config = cached_file(name, "config.json", revision=revision)
    if config is None:
        raise OSError("it has no config.json")
    for file in ("tokenizer_config.json", "adapter_config.json", "model.safetensors.index.json"):
        cached_file(
            name, file, revision=revision, _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )  # fmt: skip
    return Path(config).parent


def _remove_choices_of_code(config: Any, source: str, *, trust: bool) -> None:
    """Remove the fields that choose code from a configuration; DataError for quantized weights.

    How these are read is code that the configuration chooses.
    """
    for name in _CODE:
        if hasattr(config, name):
            setattr(config, name, None)
    if (quantization := getattr(config, "quantization_config", None)) is not None and not trust:
        method = quantization.get("quant_method") if isinstance(quantization, dict) else quantization
        raise DataError(
            f"the weights are quantized ({method!s:.40}): the configuration chooses the code that reads them",
            file=source,
            remedy="take a checkpoint that is not quantized, or allow this with trust_remote_code=True",
        )
    for name in getattr(config, "sub_configs", {}):
        if (inner := getattr(config, name, None)) is not None:
            _remove_choices_of_code(inner, source, trust=trust)
