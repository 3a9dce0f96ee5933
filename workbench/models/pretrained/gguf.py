"""GGUF files, as llama.cpp, Ollama and LM Studio have them: converted once, into a folder of the cache."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from workbench.storage import cache, files
from workbench.storage.checksums import SUMS, check_checksums, sha256, write_checksums
from workbench.storage.errors import DataError, reading, writing
from workbench.storage.files import read_json, temporary_folder
from workbench.storage.paths import cache_home
from workbench.storage.progress import progress_bar

VERSION = 2
"""Raised when another folder is made of the same file."""

INSTALL = 'pip install "lambada-workbench[pretrained]"'

_MAGIC = b"GGUF"
_DESCRIPTION = "gguf.json"
_REMEDY = "download it again, or take the model as a folder of safetensors"
_HASH = re.compile(r"(sha256[-:])?[0-9a-f]{32,}")
_COMPUTED = "rope_"  # how names of tensors begin that are no weights: transformers computes what is in them
_DIGITS = {"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"}
_AS_GPT2 = {
    None, "default", "gpt-2", "gpt2", "phi-2", "mpt", "olmo", "jais", "jina-es", "jina-de", "jina-v2-es",
    "jina-v2-de", "gigachat", "a.x-4.0", "mellum", "modern-bert",
}  # fmt: skip
"""How llama.cpp cuts text for byte-level tokenizers, by the names that it gives: each digit alone, then as
GPT-2 does, or as that does at once. ``transformers`` knows others."""

_TRIAL = "“It's 1,025 miles,” Dr. O'Neil-Smith said; never — naïve? Why\nnot: U.S. $3.50 (the well-known)!"


class Converted(NamedTuple):
    """A GGUF file in the form of ``transformers``."""

    folder: Path
    label: str  # the model's name and its quantisation
    digest: str  # of all files in the folder


def is_gguf(path: Path) -> bool:
    """Return whether a path is a GGUF file, by its content or its name."""
    if not path.is_file():
        return False
    if path.suffix == ".gguf":
        return True
    with path.open("rb") as file:
        return file.read(4) == _MAGIC


def convert(file: Path) -> Converted:
    """Return the folder of a GGUF file in the cache, made where it is missing: weights as single precision.

    The key is the digest of the whole file, with the versions of what converts it. Files beside it are not
    read. Conversion needs memory for four bytes a weight. DataError if it is not a valid GGUF file, or its
    model or tokenizer cannot be converted exactly.
    """
    try:
        import gguf  # noqa: F401, PLC0415 - an extra
    except ImportError as error:
        raise DataError(f"GGUF files need the package gguf: {error}", remedy=INSTALL) from error
    with reading(file, "this GGUF file", remedy=_REMEDY):
        digest = sha256(file)
    home, versions = cache_home() / "gguf", map(version, ("gguf", "tokenizers", "transformers"))
    folder = home / cache.digest(digest, str(VERSION), *versions)
    if folder.is_dir():
        try:
            check_checksums(folder, what="this converted model", remedy=_REMEDY)
        except DataError:  # damaged: the file that it was made of is here
            with writing(folder, "this damaged folder"):
                files.remove(folder)
    if not folder.is_dir():
        with temporary_folder(home) as alone:
            link = alone / "model.gguf"
            link.symlink_to(file.resolve())
            _convert_into(folder, file, link)
        cache.make_room()
    description = read_json(folder / _DESCRIPTION, "this file of a converted model")
    sums = (folder / SUMS).read_bytes().splitlines(keepends=True)
    sums.sort(key=lambda line: line.endswith(b"  config.json\n"))  # last, as in the identity of stored runs
    return Converted(folder, _label(file, description), hashlib.sha256(b"".join(sums)).hexdigest())


def _convert_into(folder: Path, file: Path, link: Path) -> None:
    """Convert a GGUF file, by a link to it that lies in a folder without other files."""
    from transformers.utils import logging  # noqa: PLC0415 - heavy, an extra

    with reading(file, "this GGUF file", remedy=_REMEDY):
        metadata, sizes = _read_header(link)
        description = _description(metadata)
        with _progress(_label(file, description)):
            model, tokenizer = _read(link, metadata, sizes)
    with (
        no_progress_bar(logging),
        writing(folder, "this converted model", Exception),
        files.atomic_folder(folder) as new,
    ):
        model.save_pretrained(new)
        tokenizer.save_pretrained(new)
        for name in ("config.json", "generation_config.json"):  # the same model has the same digest
            content = read_json(new / name)
            content.pop("transformers_version", None)
            (new / name).write_text(json.dumps(content, indent=2), encoding="utf-8")
        (new / _DESCRIPTION).write_text(json.dumps(description), encoding="utf-8")
        write_checksums(new)


def _read(link: Path, metadata: Mapping[str, Any], sizes: Mapping[str, int]) -> tuple[Any, Any]:
    """Return the model, as single precision, and the tokenizer of a GGUF file."""
    import torch  # noqa: PLC0415 - heavy
    import transformers  # noqa: PLC0415 - heavy, an extra

    causal: Any = transformers.AutoModelForCausalLM
    options: dict[str, Any] = {"gguf_file": link.name, "trust_remote_code": False}
    config = transformers.AutoConfig.from_pretrained(link.parent, **options)
    with torch.device("meta"):
        n = sum(weight.numel() for weight in causal.from_config(config).parameters())
    n_held = sum(size for name, size in sizes.items() if not name.startswith(_COMPUTED))
    if n < n_held:  # transformers leaves out those that it has no place for, in silence
        raise ValueError(f"it holds {n_held:,} weights, but describes a model of {n:,}")
    tokenizer = _tokenizer(link, metadata, options)
    model, info = causal.from_pretrained(
        link.parent, config=config, dtype=torch.float32, output_loading_info=True,
        attn_implementation="eager", quantization_config=transformers.GgufConfig(dequantize=True), **options,
    )  # fmt: skip
    if missing := sorted(map(str, info["missing_keys"] | info["mismatched_keys"])):
        raise ValueError(f"it lacks {', '.join(map(repr, missing[:3]))} ({len(missing):,} in all)")
    model.hf_quantizer = None  # the weights are plain numbers now
    for quantised in (model, model.config):
        quantised.__dict__.pop("quantization_config", None)
    return model, tokenizer


@contextmanager
def _progress(label: str) -> Iterator[None]:
    """Show what is done: reading the description, then the converted tensors in bytes of the file."""
    from transformers import modeling_gguf_pytorch_utils  # noqa: PLC0415 - heavy, an extra
    from transformers.utils import logging  # noqa: PLC0415 - heavy, an extra

    converter: Any = modeling_gguf_pytorch_utils

    def counted(tensors: Sequence[Any], **_options: Any) -> Iterator[Any]:
        first.close()
        n_bytes = [int(tensor.n_bytes) for tensor in tensors]
        with progress_bar(sum(n_bytes), label=f"{label}: converting", unit="B") as bar:
            for tensor, size in zip(tensors, n_bytes, strict=True):
                yield tensor
                bar.update(size)

    original, phase = converter.tqdm, f"{label}: reading the tokenizer and the configuration"
    with progress_bar(label=phase, bar_format="{desc} [{elapsed}]") as first, no_progress_bar(logging):
        converter.tqdm = counted
        try:
            yield
        finally:
            converter.tqdm = original


@contextmanager
def no_progress_bar(logging: Any) -> Iterator[None]:
    """Disable the progress bars of transformers; `logging` is ``transformers.utils.logging``."""
    enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            logging.enable_progress_bar()


def _read_header(file: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the metadata of a file, and the size of each tensor; ValueError if it ends too early."""
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType  # noqa: PLC0415 - an extra
    from transformers.integrations.gguf import reader  # noqa: PLC0415 - heavy, an extra

    blob = reader._mapped(str(file))  # noqa: SLF001 - the public function leaves out where tensors lie
    metadata, count, position = reader._read_metadata(blob, str(file))  # noqa: SLF001
    tensors, position = reader._read_tensor_table(blob, count, position)  # noqa: SLF001
    start = position + -position % int(metadata.get("general.alignment", 32))
    sizes = {}
    for name, shape, quantisation, offset in tensors:
        weights, size = GGML_QUANT_SIZES[GGMLQuantizationType(quantisation)]
        sizes[name] = prod(shape)
        if start + offset + sizes[name] // weights * size > len(blob):
            raise ValueError(f"it ends before the tensor {name!r:.80}")
    return metadata, sizes


def _tokenizer(link: Path, metadata: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    """Return the tokenizer of a file; ValueError if it would cut text otherwise than the model's own."""
    import transformers  # noqa: PLC0415 - heavy, an extra
    from tokenizers import Regex, pre_tokenizers  # noqa: PLC0415 - an extra
    from transformers.integrations.gguf import gguf_tokenizer_mapping  # noqa: PLC0415 - heavy

    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(link.parent, **options)
    way, splits = metadata.get("tokenizer.ggml.pre"), gguf_tokenizer_mapping.GGUF_PRE_TOKENIZER_SPLITS
    if metadata.get("tokenizer.ggml.model") == "gpt2" and way not in splits:
        if way not in _DIGITS | _AS_GPT2:
            raise ValueError(f"how its tokenizer cuts text ({way!r:.40}) is not known to transformers")
        if way in _DIGITS:
            digits = pre_tokenizers.Split(Regex(r"\p{N}"), behavior="isolated")
            words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
            tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, words])
    ids = tokenizer(_TRIAL, add_special_tokens=False)["input_ids"]
    text = tokenizer.decode(ids, clean_up_tokenization_spaces=False)
    if text.strip() != _TRIAL:
        raise ValueError(f"its tokenizer makes {text!r:.60} of {_TRIAL!r:.60}")
    return tokenizer


def _description(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return the name and the quantisation that a file says."""
    from gguf.constants import LlamaFileType  # noqa: PLC0415 - an extra

    try:
        quantisation = LlamaFileType(metadata["general.file_type"]).name.partition("_")[2]
    except (KeyError, ValueError):
        quantisation = ""
    return {"name": str(metadata.get("general.name", "")), "quantisation": quantisation}


def _label(file: Path, description: Mapping[str, str]) -> str:
    """Return the model's name, from its file unless this is a digest, with its quantisation."""
    name, quantisation = file.name.removesuffix(".gguf"), description["quantisation"]
    if _HASH.fullmatch(name):
        name = description["name"] or name[:16]
    if quantisation and name.lower().endswith(quantisation.lower()):
        name = name[: -len(quantisation)].rstrip("._-")
    return ", ".join(filter(None, (name, quantisation)))
