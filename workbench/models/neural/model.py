"""Neural language models that are trained here: what all of them share, and their files.

A sub-class says how its network is built and what it is called; texts, training, files, and scores and ranks
over the whole vocabulary are the same for all.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from workbench.items.items import Items
from workbench.items.schema import DataError
from workbench.models.neural import fit as fitting
from workbench.models.neural.cache import CachedNeural
from workbench.models.neural.encoding import ItemEncoder, check_reads, reads_suffix
from workbench.models.neural.network import LanguageModule
from workbench.models.neural.scoring import NetworkPredictor
from workbench.models.passage import one_of
from workbench.runs.predictions import UNKNOWN
from workbench.storage import cache
from workbench.storage.files import atomic_path
from workbench.texts.batches import Batches, ContiguousBatches
from workbench.texts.corpus import Texts
from workbench.texts.stream import Stream
from workbench.training.history import Training
from workbench.training.settings import torch_device

WEIGHTS, VOCABULARY, COUNTS = "weights.safetensors", "vocabulary.txt", "counts.json"
RECORD = "training.json"
_OPTIONS = ("after", "unknown", "reads", "name", "checked_for")


class Neural(NetworkPredictor):
    """A network over the words of a vocabulary; make one by `fit`, or read one by `load`.

    Parameters
    ----------
    network : LanguageModule
        Its classes are ``<unk>`` and the words of the vocabulary. It is moved when it is first used.
    vocabulary : sequence of str (V,)
        The word of id 1 first.
    info : mapping
        As JSON can hold it: ``sizes`` (what `_build` reads), ``lower``, ``unknown_types``, and what `fit`
        tells of the training.
    counts : sequence of int (V + 1,), optional
        Of ``<unk>`` and the words in the training text; `_build` needs them again when it is loaded. All 1
        by default.
    device : str, optional
        Where it computes: a GPU where there is one.
    after : bool, default True
        Whether candidates are scored by the words after the blank too.
    unknown : {"shared", "unk"}, default "shared"
        A word outside the vocabulary has the probability of ``<unk>``; "shared" divides that by the number
        of different ones in the training text.
    reads : int or "sentence", optional
        How much it reads before a blank: so many words, or those of the target sentence; all by default.
    name : str, optional
    checked_for : dict, optional
        The items that the texts were checked for (`fit` with ``held_out``).

    Attributes
    ----------
    title : str
        What the kind of model is called.
    sizes, trained : dict
        Options of the network and of the training, and their defaults; the latter are ``epochs``, what
        `_batches` takes, and fields of :class:`workbench.training.settings.TrainingSettings`.
    training_record : Training or None
        How the training went.

    Notes
    -----
    Ranks compare log-probabilities in single precision as they are computed, ``<unk>`` left out. Words that
    differ by less than the rounding, some 1e-6 of ln p, may change their order when an item is computed in
    another batch or on another device; words further apart never do.
    """

    fitted_on = "texts"
    title: ClassVar[str] = "Network"
    sizes: ClassVar[dict[str, Any]] = {}
    trained: ClassVar[dict[str, Any]] = {"epochs": 1.0, "rows": 32, "length": 35}

    def __init__(
        self,
        network: LanguageModule | None,
        *,
        vocabulary: Sequence[str],
        info: Mapping[str, Any],
        counts: Sequence[int] | None = None,
        device: str | None = None,
        after: bool = True,
        unknown: str = "shared",
        reads: int | str | None = None,
        name: str | None = None,
        checked_for: dict[str, Any] | None = None,
    ) -> None:
        one_of("unknown", unknown, UNKNOWN[1:])
        self.words, self.info = list(vocabulary), dict(info)
        self.vocabulary = self.words
        self.counts = [1] * (len(self.words) + 1) if counts is None else [int(n) for n in counts]
        n = len(self.words) + 1  # <unk> and the words of the vocabulary
        if network is not None and network.n_words != n:
            raise DataError(f"the network has {network.n_words:,} classes, expected {n:,}")
        self.lower = bool(self.info.get("lower", True))
        self.after, self.unknown, self.checked_for = after, unknown, checked_for
        self.copies = bool(self.info.get("sizes", {}).get("pointer_heads"))
        self.reads = check_reads(reads)
        self.name = name or self._named(self.info) + reads_suffix(reads)
        self.training_record: Training | None = None
        self._network, self._wanted_device = network, device
        self._folder = Path()  # where the weights lie as long as they are not read
        self._digest: tuple[Any, str] | None = None

    @classmethod
    def _build(cls, info: Mapping[str, Any], counts: Sequence[int]) -> LanguageModule:
        """Build the network, its weights drawn by torch's generator.

        `info` has ``sizes`` (the options of the class), ``unknown_types`` and ``lower``; `counts` (V + 1,)
        are those of ``<unk>`` and the words of the vocabulary in the training text.
        """
        raise NotImplementedError

    @classmethod
    def _batches(cls, stream: Stream, **how: Any) -> Batches:
        """Return the batches of a training; `how` has what `trained` names of them, and ``seed``."""
        return ContiguousBatches(stream, rows=how["rows"], length=how["length"])

    @classmethod
    def _named(cls, info: Mapping[str, Any]) -> str:
        """Return what tables call a model."""
        width = info.get("sizes", {}).get("width")
        suffix = {"interrupted": ", interrupted", "not a number": ", stopped"}.get(
            info.get("stopped", ""), ""
        )
        return f"{cls.title}{'' if width is None else f' {width}'}{suffix}"

    @classmethod
    def fit(
        cls,
        texts: Texts | Stream,
        *,
        vocabulary: int | Sequence[str] = 60_000,
        lower: bool | None = None,
        tokenised: bool | None = None,
        development: Items | None = None,
        evaluate_on: int = 1000,
        held_out: Items | None = None,
        epochs: float | None = None,
        tokens: float | None = None,
        minutes: float | None = None,
        seed: int = 0,
        device: str | None = None,
        precision: str | None = None,
        compile: bool | None = None,  # noqa: A002 - the name of what it switches
        folder: Path | str | None = None,
        progress: bool = True,
        after: bool = True,
        unknown: str = "shared",
        name: str | None = None,
        **options: Any,
    ) -> Self:
        """Train a network, or find the one that was trained of the same texts and options.

        They are kept in ``cache/neural``. A training that was interrupted or killed goes on from its last
        checkpoint when `fit` is called again with the same arguments.

        Parameters
        ----------
        texts : Stream, Corpus, path, str, book, or iterable of (str, path or book)
            As :meth:`workbench.texts.corpus.Corpus.of` takes them, or a stream of ids that was made before.
        vocabulary : int or sequence of str, default 60,000
            So many of the most frequent words, or these; a stream has its own.
        lower : bool, optional
            Lower-case the texts, and the items: yes by default; a corpus or stream is as it is.
        tokenised : bool, optional
            Whether the texts are tokens with blanks between them; told from the texts by default.
        development : Items, optional
            On these, at most `evaluate_on` of them drawn by seed, accuracy, perplexity and median rank are
            measured while it is trained; with ``patience`` (evaluations without a better one) it stops
            early. Never what is reported on.
        held_out : Items, optional
            Items that must not be in the texts: see :func:`workbench.contamination`.
        epochs, tokens, minutes : float, optional
            How long it is trained; one of them. Minutes are turned into steps once (``info["steps"]``), by
            the speed of a few on this device; a training that goes on has the same schedule.
        seed : int, default 0
            Of weights, batches and dropout.
        device : str, optional
            A GPU where there is one.
        precision : {"float32", "bfloat16"}, optional
            Of the products in training; by default bfloat16 on a GPU. Scores are computed in float32.
        compile : bool, optional
            Whether ``torch.compile`` is used in training; by default on a GPU.
        folder : path, optional
            Where model and checkpoints lie instead of the cache.
        progress : bool, default True
            Show how it goes.
        after, unknown, name
            As for the class.
        **options
            Of the network (`sizes`), of the batches and of the training (`trained`, and the fields of
            :class:`workbench.training.settings.TrainingSettings`, such as ``learning_rate``).

        Returns
        -------
        Neural
            Of an interrupted training as far as it came; its name and ``info["stopped"]`` say so.

        Raises
        ------
        DataError
            If the texts are empty or hold the items held out, an option is not known, a loss is not a
            number, or the disk is full.

        Notes
        -----
        Under ``torchrun`` every process calls this with the same arguments; the first one writes.
        """
        settings, sizes, batching = fitting.sorted_options(
            cls,
            options
            | {"epochs": epochs, "tokens": tokens, "minutes": minutes, "seed": seed, "device": device}
            | {"precision": precision, "compile": compile},
        )
        stream, checked_for = fitting.stream_of(
            texts, vocabulary, lower=lower, tokenised=tokenised, held_out=held_out, progress=progress
        )
        model: Self = fitting.fitted(
            cls, stream, settings, sizes, batching, development=development, evaluate_on=evaluate_on,
            folder=None if folder is None else Path(folder), progress=progress, after=after, unknown=unknown,
            name=name, checked_for=checked_for,
        )  # fmt: skip
        return model

    @property
    def device(self) -> str:
        """Where it computes."""
        return str(torch_device(self._wanted_device))

    @device.setter
    def device(self, device: str | None) -> None:
        self._wanted_device = device

    @property
    def network(self) -> LanguageModule:
        """The network on its device, ready for prediction; read from disk when it is first used."""
        network = self._network
        if network is None:
            with torch.random.fork_rng(devices=[]):  # weights are drawn, then read
                network = self._build(self.info, self.counts).eval()
            digest = _read_weights(self._folder, network, self._digest and self._digest[1])
            self._network, self._digest = network, (_versions(network), digest)
        if str(next(network.parameters()).device) != self.device:
            unchanged = self._digest is not None and self._digest[0] == _versions(network)
            network.to(self.device)
            if unchanged and self._digest is not None:  # moving them changes nothing
                self._digest = (_versions(network), self._digest[1])
        return network

    @property
    def config(self) -> dict[str, Any]:
        """What it was built and trained from, digests of vocabulary and weights, and the options."""
        return {
            **{name: getattr(self, name) for name in _OPTIONS},
            "info": self.info,
            "vocabulary": cache.digest(*self.words),
            "weights": self._weights(),
        }

    def _weights(self) -> str:
        """Return the digest of the weights, computed again where they were changed."""
        if self._network is None and self._digest is not None:
            return self._digest[1]
        versions = _versions(self.network)
        if self._digest is None or self._digest[0] != versions:
            self._digest = (versions, _weights_digest(_tensors(self.network)))
        return self._digest[1]

    @property
    def training(self) -> dict[str, Any]:
        """The training text: digest, size, and whether it was checked for items."""
        return {**self.info.get("training_text", {}), "checked_for": self.checked_for}

    @cached_property
    def encoder(self) -> ItemEncoder:
        """How items become ids."""
        return ItemEncoder(self.words, lower=self.lower, reads=self.reads)

    @property
    def unknown_types(self) -> int:
        """Different words outside the vocabulary in the training text."""
        return max(1, int(self.info.get("unknown_types", 1)))

    def with_context(self, reads: int | str | None) -> Self:
        """Return this model, its weights shared, as one that reads only so much before a blank."""
        check_reads(reads)
        self.network  # noqa: B018 - read once, for both
        model = copy.copy(self)
        model.__dict__.pop("encoder", None)
        model.reads = reads
        model.name = self.name.removesuffix(reads_suffix(self.reads)) + reads_suffix(reads)
        return model

    def cached(self, weight: float = 0.1, *, flatness: float = 0.3) -> CachedNeural:
        """Return this model with a continuous cache; see :class:`CachedNeural`."""
        return CachedNeural(self, weight, flatness=flatness)

    @classmethod
    def load(cls, folder: Path | str, *, device: str | None = None, **options: Any) -> Self:
        """Read a model that `save` wrote; its weights are read when they are first used.

        The options are those of the class, where others are wanted than those saved. DataError if the
        folder holds no model, or one of another class.
        """
        model = super().load(folder)
        model.device = device
        model._set(options)  # noqa: SLF001 - of this family
        return model

    def _set(self, options: Mapping[str, Any]) -> None:
        one_of("unknown", options.get("unknown", self.unknown), UNKNOWN[1:])
        before, self.reads = self.reads, check_reads(options.get("reads", self.reads))
        self.name = self.name.removesuffix(reads_suffix(before)) + reads_suffix(self.reads)
        for name, value in options.items():
            one_of("the option", name, _OPTIONS)
            default = (name, value) == ("name", None)
            setattr(self, name, self._named(self.info) + reads_suffix(self.reads) if default else value)

    def _save(self, folder: Path) -> None:
        with atomic_path(folder / WEIGHTS) as path:
            save_file(_tensors(self.network), path)
        with atomic_path(folder / VOCABULARY) as path:
            path.write_text("\n".join(self.words), encoding="utf-8", newline="\n")
        record = self.training_record
        for name, value in ((COUNTS, self.counts), (RECORD, record and record.to_json())):
            if value is not None:
                with atomic_path(folder / name) as path:
                    path.write_text(json.dumps(value), encoding="utf-8")

    @classmethod
    def _load(cls, folder: Path, config: dict[str, Any]) -> Self:
        try:
            words = (folder / VOCABULARY).read_bytes().decode().split("\n")
            counts = json.loads((folder / COUNTS).read_text(encoding="utf-8"))
            file = folder / RECORD
            record = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
            if cache.digest(*words) != config["vocabulary"]:
                raise ValueError("the vocabulary was changed")  # noqa: TRY301 - a DataError below
        except (OSError, ValueError) as error:
            raise DataError(
                f"the model is incomplete or damaged: {error}", file=folder, remedy="fit it again"
            ) from None
        options = {name: config[name] for name in _OPTIONS}
        model = cls(None, vocabulary=words, info=config["info"], counts=counts, **options)
        model._folder, model._digest = folder, (None, config["weights"])
        model.training_record = record and Training.from_json(record)
        return model


def _tensors(network: LanguageModule) -> dict[str, torch.Tensor]:
    """Return the weights, each tensor once, on the CPU."""
    return {name: value.detach().cpu().contiguous() for name, value in network.state_dict().items()}


def _weights_digest(tensors: Mapping[str, torch.Tensor]) -> str:
    """Return the SHA-256 of all weights: names, types, shapes, bits."""
    parts: list[str | bytes] = []
    for name, value in sorted(tensors.items()):
        parts += [f"{name} {value.dtype} {tuple(value.shape)}"]
        parts += [cache.digest(memoryview(value.reshape(-1).view(torch.uint8).numpy()))]  # type: ignore[arg-type]
    return cache.digest(*parts)


def _versions(network: LanguageModule) -> tuple[Any, ...]:
    """Return what changes when weights are changed in place."""
    return tuple((value.data_ptr(), value._version) for value in network.state_dict().values())  # noqa: SLF001


def _read_weights(folder: Path, network: LanguageModule, expected: str | None) -> str:
    """Read weights into a network that was built with the same sizes; return their digest.

    DataError if they are not there, damaged, of another network, or their digest is not the one expected.
    """
    file = folder / WEIGHTS
    try:
        tensors = load_file(file)
        if any(name.startswith("output.tails.") for name in tensors):
            raise DataError(
                "the model has the adaptive softmax of an earlier version", file=file, remedy="fit it again"
            )
        network.load_state_dict(tensors)
    except (OSError, SafetensorError, RuntimeError) as error:
        raise DataError(
            f"the weights cannot be read: {str(error)[:300]}", file=file, remedy="fit it again"
        ) from None
    digest = _weights_digest(tensors)
    if expected not in {None, digest}:
        raise DataError("the weights are not those that were written", file=folder, remedy="fit it again")
    return digest
