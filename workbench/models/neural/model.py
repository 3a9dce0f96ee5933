"""The base class of neural language models: training, scoring and files."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

from workbench.items.items import Items
from workbench.models.neural.cache import CachedNeural
from workbench.models.neural.fitting import TrainedNetwork
from workbench.models.neural.network import ItemEncoder, LanguageModule, reads_suffix
from workbench.models.neural.scoring import NetworkPredictor
from workbench.models.wrapper import TRIAL_MEASURES, measured
from workbench.predictions import store
from workbench.predictions.schema import UNKNOWN_SCORING
from workbench.storage import cache
from workbench.storage.errors import DataError, check_option
from workbench.storage.files import read_bytes, read_json, write_atomic
from workbench.texts.batches import Batches, ContiguousBatches, EncodedText
from workbench.texts.corpus import Corpus, Texts
from workbench.texts.overlap import check_held_out

VOCABULARY, COUNTS = "vocabulary.txt", "counts.json"


class Neural(TrainedNetwork, NetworkPredictor):
    """A network over the words of a vocabulary; make one by `fit`, or read one by `load`.

    Parameters
    ----------
    network : LanguageModule
        Its classes are ``<unk>`` and the words of the vocabulary, in this order.
    vocabulary : sequence of str (V,)
    info : mapping
        As JSON can hold it: ``sizes`` (what `_build` reads), ``lower``, ``unknown_types``, and what `fit`
        tells of the training.
    counts : sequence of int (V + 1,), optional
        Counts of the classes in the training text, for `_build`. All 1 by default.
    device : str, optional
        Where it computes: a GPU where there is one.
    after : bool, default True
        Whether candidates are scored by the words after the blank too.
    unknown : {"shared", "unk"}, default "shared"
        A word outside the vocabulary has the probability of ``<unk>``; "shared" divides that by the number
        of different ones in the training text.
    reads : int or "sentence", optional
        How much it reads before a blank: so many words, or those of the target sentence; all by default.
    name, checked_for : str, dict, optional
        The latter describes the items that the texts were checked for (`fit` with ``held_out``).

    Notes
    -----
    Ranks compare log-probabilities in single precision as they are computed, ``<unk>`` left out. Words that
    differ by less than the rounding, some 1e-6 of ln p, may change their order when an item is computed in
    another batch or on another device; words further apart never do.
    """

    fitted_on = "texts"
    options = ("after", "unknown", "reads", "name", "checked_for")
    module: ClassVar[type[LanguageModule]]
    fit_defaults: ClassVar[dict[str, Any]] = {"rows": 32, "length": 35}
    _defaults: ClassVar[dict[str, Any]] = {"epochs": 1.0}
    _model_defaults: ClassVar[dict[str, Any]] = {"after": True, "unknown": "shared", "name": None}
    _training_version = 3

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
        check_option("unknown", unknown, UNKNOWN_SCORING[1:])
        self.vocabulary, self.info = list(vocabulary), dict(info)
        n = len(self.vocabulary) + 1  # <unk> and the words
        self.counts = [1] * n if counts is None else [int(n) for n in counts]
        if network is not None and network.n_words != n:
            raise DataError(f"the network has {network.n_words:,} classes, expected {n:,}")
        self.lower = bool(self.info.get("lower", True))
        self.after, self.unknown, self.checked_for = bool(after), unknown, checked_for
        self.copies = bool(self.info.get("sizes", {}).get("pointer_heads"))
        suffix = reads_suffix(reads)
        self.reads = reads
        self.name = name or self._named(self.info) + suffix
        self._network, self._wanted_device = network, device

    @classmethod
    def _build(cls, info: Mapping[str, Any], counts: Sequence[int]) -> LanguageModule:
        """Build the network, its weights drawn by torch's generator."""
        return cls.module(counts, **info["sizes"])

    @classmethod
    def _batches(cls, stream: EncodedText, **how: Any) -> Batches:
        """Return the batches of a training; `how` has their options in `fit_defaults`, and ``seed``."""
        return ContiguousBatches(stream, rows=how["rows"], length=how["length"])

    @classmethod
    def _label(cls, sizes: Mapping[str, Any]) -> str:
        return f"{cls.title} {sizes['width']}" if "width" in sizes else cls.title

    @classmethod
    def fit(
        cls,
        texts: Texts,
        *,
        vocabulary: int | Sequence[str] = 60_000,
        lower: bool | None = None,
        tokenised: bool | None = None,
        development: Items | None = None,
        evaluate_on: int = 1000,
        held_out: Items | None = None,
        folder: Path | str | None = None,
        **options: Any,
    ) -> Self:
        """Train a network, or find the one that was trained of the same texts and options.

        Networks are stored in ``cache/neural``. A training that was interrupted resumes from its last
        checkpoint when `fit` is called again with the same arguments.

        Parameters
        ----------
        texts : Corpus, path, str, book, or iterable of (str, path or book)
            As :meth:`workbench.texts.corpus.Corpus.of` takes them.
        vocabulary : int or sequence of str, default 60,000
            So many of the most frequent words, or these.
        lower : bool, optional
            Lower-case the texts, and the items: yes by default; a corpus is as it is.
        tokenised : bool, optional
            Whether the texts are tokens with spaces between them; recognised by default.
        development : Items, optional
            On these, at most `evaluate_on` of them drawn by seed, accuracy, perplexity and median rank are
            measured while it is trained; with ``patience`` (evaluations without a better one) it stops
            early. Never what is reported on.
        held_out : Items, optional
            Items that must not be in the texts: see :func:`workbench.contamination`.
        folder : path, optional
            Where model and checkpoints lie instead of the cache.
        **options
            Settings of the training, such as its length (``epochs``, ``tokens`` or ``minutes``), ``seed``,
            ``device`` and ``learning_rate``: see :class:`workbench.training.settings.TrainingSettings`.
            ``precision`` is that of the training; scores are computed in float32. ``after``, ``unknown`` and
            ``name`` are those of the class. Most networks have

            - ``dropout``: share of the units that is set to 0 in training;
            - ``tied``: whether words are embedded by the weights of the softmax (Press and Wolf 2017), of the
              adaptive one by those of its head;
            - ``softmax``: "adaptive" or "full". Both give exact probabilities of all words; the first is many
              times faster on a CPU;
            - ``rows``: parts of the corpus that are read side by side (on a GPU 256 is faster), and
              ``length``: words of each that are predicted at once.

        Raises
        ------
        DataError
            If the texts are empty or hold the items held out, an option is not known, a loss is not a
            number, or the disk is full.

        Notes
        -----
        Of an interrupted training the model is returned as far as it came; its name and ``info["stopped"]``
        say so. Under ``torchrun`` every process calls this with the same arguments; the first one writes.
        """
        settings, sizes, batching, model_options = cls._sorted_options(
            options, evaluated=development is not None
        )
        window, length = sizes.get("window"), batching.get("length", 0)
        if window is not None and length > window:
            problem = f"expected a length of at most {window}, the window, got {length}"
            raise DataError(problem, hint=f"pass length={window}")
        corpus = Corpus.of(texts, lower=lower is not False, tokenised=tokenised)
        checked_for = check_held_out(corpus, held_out)
        stream = EncodedText(corpus, vocabulary)
        if lower not in {None, stream.lower}:
            message = f"expected texts with lower={lower}, got lower={stream.lower}"
            raise DataError(message, hint=f"pass lower={stream.lower}")
        config = {
            "sizes": sizes,
            "batches": batching,
            "settings": settings.identity(),
            "stream": stream.sha256,
            "vocabulary": cache.digest(*stream.vocabulary),
            "development": None if development is None else {
                "items": len(development),
                "sha256": store.items_digest(development),
                "evaluate_on": evaluate_on,
            },
        }  # fmt: skip
        info = {
            "sizes": sizes,
            "lower": stream.lower,
            "unknown_types": int(stream.unknown_types),
            "training": {name: config[name] for name in ("batches", "settings")},
            "development": config["development"],
            "training_text": {
                "sha256": stream.sha256,
                "tokens": int(stream.n_tokens),
                "sentences": len(stream.starts) - 1,
                "books": len(stream.books),
                "vocabulary": len(stream.vocabulary),
            },
        }
        sample = development
        if development is not None and len(development) > evaluate_on:
            sample = development.sample(evaluate_on, seed=settings.seed)
        return cls._fit_or_load(
            settings, config, info=info, key=stream.sha256, folder=folder,
            ingredients={"vocabulary": stream.vocabulary, "counts": stream.counts.tolist()},
            batches=lambda: cls._batches(stream, seed=settings.seed, **batching),
            evaluate=None if sample is None else lambda model: scores(model, sample, seed=settings.seed),
            checked_for=checked_for, **model_options,
        )  # fmt: skip

    def _new_network(self) -> LanguageModule:
        return self._build(self.info, self.counts)

    @property
    def config(self) -> dict[str, Any]:
        """Sizes, settings and training data, digests of vocabulary and weights, and the options."""
        return {
            **self._option_values,
            "info": self.info,
            "vocabulary": cache.digest(*self.vocabulary),
            "weights": self._weights_sha256,
        }

    @property
    def training(self) -> dict[str, Any]:
        """The training text: digest, size, and whether it was checked for items."""
        return {**self.info.get("training_text", {}), "checked_for": self.checked_for}

    @cached_property
    def encoder(self) -> ItemEncoder:
        """Encoder of items as ids."""
        return ItemEncoder(self.vocabulary, lower=self.lower, reads=self.reads)

    @property
    def unknown_types(self) -> int:
        """Different words outside the vocabulary in the training text."""
        return max(1, int(self.info.get("unknown_types", 1)))

    def with_context(self, reads: int | str | None) -> Self:
        """Return this model, its weights shared, as one that reads only so much before a blank.

        So many words, those of the target sentence ("sentence"), or all (None).
        """
        self.network  # noqa: B018 - read once, for both
        model = copy.copy(self)
        model._set({"reads": reads})  # noqa: SLF001 - of the same class
        return model

    def cached(self, weight: float = 0.1, *, flatness: float = 0.3) -> CachedNeural:
        """Return this model with a continuous cache; see :class:`CachedNeural`."""
        return CachedNeural(self, weight, flatness=flatness)

    def _set(self, options: Mapping[str, Any]) -> None:
        """Change options of the class; the name follows the context size."""
        for option in options:
            check_option("the option", option, self.options)
        check_option("unknown", options.get("unknown", self.unknown), UNKNOWN_SCORING[1:])
        reads = options.get("reads", self.reads)
        name = self.name.removesuffix(reads_suffix(self.reads)) + reads_suffix(reads)
        if "name" in options:
            name = options["name"] or self._named(self.info) + reads_suffix(reads)
        vars(self).update({**options, "name": name})
        vars(self).pop("encoder", None)

    def _save(self, folder: Path) -> None:
        self._save_network(folder)
        write_atomic(folder / VOCABULARY, "\n".join(self.vocabulary))
        write_atomic(folder / COUNTS, json.dumps(self.counts))

    @classmethod
    def _load(cls, folder: Path, config: dict[str, Any]) -> Self:
        words = read_bytes(folder / VOCABULARY, "this vocabulary").decode().split("\n")
        counts = read_json(folder / COUNTS)
        options = {name: config[name] for name in cls.options}
        model = cls(None, vocabulary=words, info=config["info"], counts=counts, **options)
        model._read_network(folder, config["weights"])
        return model


def scores(model: Neural, items: Items, *, seed: int = 0) -> dict[str, float]:
    """Return expected accuracy, perplexity of the answers, and their median rank."""
    values = dict(zip(TRIAL_MEASURES, measured(model.predict(items, 1, seed=seed)), strict=True))
    return {name: values[name] for name in ("accuracy", "perplexity", "median_rank")}
