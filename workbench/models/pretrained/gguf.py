"""GGUF files, as llama.cpp, Ollama and LM Studio have them: converted once, into a folder of the cache."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from workbench.storage import cache, files
from workbench.storage.checksums import SUMS, check_checksums, sha256, write_checksums
from workbench.storage.errors import DataError, reading, writing
from workbench.storage.files import read_json, temporary_folder
from workbench.storage.paths import cache_home
from workbench.storage.progress import progress_bar

CONVERSION_VERSION = 2
"""Raised when another folder is made of the same file."""

INSTALL = 'pip install "lambada-workbench[pretrained]"'

_MAGIC = b"GGUF"
_DESCRIPTION = "gguf.json"
_HINT = "download it again, or take the model as a folder of safetensors"
_METADATA = ("general.name", "general.file_type", "tokenizer.ggml.model", "tokenizer.ggml.pre")
_COMPUTED = "rope_"  # how names of tensors begin that are no weights: transformers computes what is in them
_DIGITS = {"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"}
_AS_GPT2 = {
    None, "default", "gpt-2", "gpt2", "phi-2", "mpt", "olmo", "jais", "jina-es", "jina-de", "jina-v2-es",
    "jina-v2-de", "gigachat", "a.x-4.0", "mellum", "modern-bert",
}  # fmt: skip
"""How llama.cpp cuts text for byte-level tokenizers, by the names that it gives: each digit alone, then as
GPT-2 does, or as that does at once. ``transformers`` knows others."""


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
    read. Conversion needs four bytes of memory per weight. DataError if it is not a valid GGUF file, or its
    model or tokenizer cannot be converted exactly.
    """
    try:
        import gguf  # noqa: F401, PLC0415 - an extra
    except ImportError as error:
        raise DataError(f"GGUF files need the package gguf: {error}", hint=INSTALL) from error
    with reading(file, "this GGUF file", hint=_HINT):
        digest = sha256(file)
    home, versions = cache_home() / "gguf", map(version, ("gguf", "tokenizers", "transformers"))
    folder = home / cache.digest(digest, str(CONVERSION_VERSION), *versions)
    if folder.is_dir():
        try:
            check_checksums(folder, what="this converted model", hint=_HINT)
        except DataError:  # damaged: the file that it was made of is here
            with writing(folder, "this damaged folder"):
                files.remove(folder)
    if not folder.is_dir():
        with temporary_folder(home) as alone:
            link = alone / "model.gguf"
            link.symlink_to(file.resolve())
            with no_bars():
                _convert_into(folder, file, link)
        cache.make_room()
    quantisation = read_json(folder / _DESCRIPTION, "this file of a converted model")["quantisation"]
    name = file.name.removesuffix(".gguf")
    if quantisation and name.lower().endswith(quantisation.lower()):
        name = name[: -len(quantisation)].rstrip("._-")
    label = f"{name}, {quantisation}" if quantisation else name
    sums = (folder / SUMS).read_bytes().splitlines(keepends=True)
    sums.sort(key=lambda line: line.endswith(b"  config.json\n"))  # last, as in the identity of stored runs
    return Converted(folder, label, hashlib.sha256(b"".join(sums)).hexdigest())


@contextmanager
def no_bars() -> Iterator[None]:
    """Disable the progress bars of transformers, which a saved notebook shows as missing widgets."""
    import transformers  # noqa: PLC0415 - heavy, an extra

    logging: Any = transformers.utils.logging
    enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            logging.enable_progress_bar()


def _convert_into(folder: Path, file: Path, link: Path) -> None:
    """Convert a GGUF file, by a link to it that lies in a folder without other files."""
    with reading(file, "this GGUF file", hint=_HINT):
        model, tokenizer, description = _read(link)
    with writing(folder, "this converted model", Exception), files.atomic_folder(folder) as new:
        model.save_pretrained(new)
        tokenizer.save_pretrained(new)
        for name in ("config.json", "generation_config.json"):  # the same model has the same digest
            content = read_json(new / name)
            content.pop("transformers_version", None)
            (new / name).write_text(json.dumps(content, indent=2), encoding="utf-8")
        settings = new / "tokenizer_config.json"
        text = settings.read_text(encoding="utf-8")  # of a process with HF_HUB_OFFLINE=1 or without
        text = text.replace('"local_files_only": true', '"local_files_only": false')
        settings.write_text(text, encoding="utf-8")
        (new / _DESCRIPTION).write_text(json.dumps(description), encoding="utf-8")
        write_checksums(new)


def _read(link: Path) -> tuple[Any, Any, dict[str, str]]:
    """Return the model, as single precision, and the tokenizer of a GGUF file, and its name and quantisation.

    ValueError if the file lacks weights, or holds more than the model that it describes.
    """
    import torch  # noqa: PLC0415 - heavy
    import transformers  # noqa: PLC0415 - heavy, an extra
    from gguf import GGUFReader, LlamaFileType  # noqa: PLC0415 - an extra

    reader = GGUFReader(link)
    metadata = {name: reader.fields[name].contents() for name in _METADATA if name in reader.fields}
    causal: Any = transformers.AutoModelForCausalLM
    options: dict[str, Any] = {"gguf_file": link.name, "trust_remote_code": False}
    config = transformers.AutoConfig.from_pretrained(link.parent, **options)
    with torch.device("meta"):
        n = sum(weight.numel() for weight in causal.from_config(config).parameters())
    n_held = sum(int(row.n_elements) for row in reader.tensors if not row.name.startswith(_COMPUTED))
    if n < n_held:  # transformers leaves out those that it has no place for, in silence
        raise ValueError(f"it holds {n_held:,} weights, but describes a model of {n:,}")
    with _progress(sum(int(tensor.n_bytes) for tensor in reader.tensors)):
        tokenizer = _tokenizer(link, metadata, options)
        model, info = causal.from_pretrained(
            link.parent, config=config, dtype=torch.float32, output_loading_info=True,
            attn_implementation="eager", quantization_config=transformers.GgufConfig(dequantize=True),
            **options,
        )  # fmt: skip
    if missing := sorted(map(str, info["missing_keys"] | info["mismatched_keys"])):
        raise ValueError(f"it lacks {', '.join(map(repr, missing[:3]))} ({len(missing):,} in all)")
    model.hf_quantizer = None  # the weights are plain numbers now
    for quantised in (model, model.config):
        quantised.__dict__.pop("quantization_config", None)
    number = metadata.get("general.file_type")
    quantisation = LlamaFileType(number).name.partition("_")[2] if number in list(LlamaFileType) else ""
    return model, tokenizer, {"name": str(metadata.get("general.name", "")), "quantisation": quantisation}


@contextmanager
def _progress(n_bytes: int) -> Iterator[None]:
    """Show what is done: reading the tokenizer, then how many bytes of the file are converted."""
    from transformers import modeling_gguf_pytorch_utils  # noqa: PLC0415 - heavy, an extra

    converter: Any = modeling_gguf_pytorch_utils

    def counted(tensors: Iterable[Any], **_options: Any) -> Iterator[Any]:
        first.close()
        with progress_bar(n_bytes, label="Converting to float32 (first use only)", unit="B") as bar:
            for tensor in tensors:
                yield tensor
                bar.update(int(tensor.n_bytes))

    with progress_bar(label="Reading the tokenizer", unit="") as first:
        original, converter.tqdm = converter.tqdm, counted
        try:
            yield
        finally:
            converter.tqdm = original


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
    return tokenizer
