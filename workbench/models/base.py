"""The base class of models: scores of words, and the rows of the predictions table made from them.

A saved model names its class by its registered name, so no file decides which Python module is imported. Its
files are compared with their checksums when it is loaded.
"""

from __future__ import annotations

import copy
import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbench.datasets.books import refuse_language_model
from workbench.items.ablation import split_variant, whole_variant
from workbench.items.changes import numbered, up_to, word_spans
from workbench.items.items import Items
from workbench.items.schema import Item, objects
from workbench.models import registry
from workbench.models.item_words import Attention, ReadContext
from workbench.models.prediction_rows import Ranked, check_answers, check_ranked, from_ranking, from_scores
from workbench.models.text_scores import Beginning, LongText, TextScores
from workbench.predictions.schema import Floats
from workbench.storage.checksums import SUMS, check_checksums, write_checksums
from workbench.storage.errors import DataError, reading, writing
from workbench.storage.files import read_json, temporary_folder, write_atomic
from workbench.texts.overlap import passages_in_training

FILE = "predictor.json"
remote_code: ContextVar[bool] = ContextVar("remote_code", default=False)
"""Whether code that comes with the models that are being loaded may run: an argument of `Predictor.load`."""


class PassageLogProbs(NamedTuple):
    """Natural log-probabilities of the words of a passage (:func:`workbench.items.changes.word_spans`).

    Attributes
    ----------
    log_probs : array (words, 2)
        That of each word given the words before it, its end included; and that of the end alone, which is 0
        where words are not made of sub-tokens. NaN where the model has none.
    top_words : list of list of str (words,)
        The most probable words in the place of each; empty where none were asked for.
    top_log_probs : list of list of float (words,)
        Their natural log-probabilities.
    """

    log_probs: Floats
    top_words: list[list[str]]
    top_log_probs: list[list[float]]


class Predictor(ABC):
    """A model that says how well words fit the blank of an item.

    A subclass has `name`, `config` and `score`; one that ranks a whole vocabulary has
    `vocabulary` and `distribution` or `ranking` too.

    Attributes
    ----------
    name : str
        What tables and widgets call it.
    version : int
        Version of the results: raised when the same items, config and seed give other predictions, so that
        stored runs of the older version are not found again.
    systems : dict of str to str
        Row of the papers' table that the model reproduces, by data set.
    fitted_on : str
        What it learns from, for lists of models: "texts", "items", "nothing", "a model" that it stands on, or
        "a folder or name of pretrained weights".
    score_type : {"log_prob", "score"}
        Whether scores are natural log-probabilities.
    vocabulary : sequence of str or None
        The words that it ranks where an item has no candidates.
    device : str
        Device of the computation.
    dtype : str or None
        Precision of its weights, which errors name; None if it has no weights or does not say.
    unknown : {"none", "unk", "shared"}
        How an answer outside the vocabulary is scored (:data:`workbench.predictions.schema.UNKNOWN_SCORING`).
    mask : str
        A neutral word, which stands for words that are masked: one that no vocabulary has.
    attention : bool
        Whether predictions have the column ``attention``, with one weight per token.
    options : tuple of str
        Attributes that are arguments of the constructor, too.
    budget : int or None
        How far it searches for the exact rank of one answer; None: to the end, 0: not at all, as it ranks
        without a search.

    Examples
    --------
    >>> from workbench.models.base import Predictor
    >>> class Shortest(Predictor):
    ...     name, config = "shortest word", {}
    ...     def score(self, items, words):
    ...         return [[-len(word) for word in row] for row in words]
    """

    name: str
    version: ClassVar[int] = 1
    fitted_on: ClassVar[str] = "nothing"
    systems: ClassVar[dict[str, str]] = {}
    options: ClassVar[tuple[str, ...]] = ()
    score_type: str = "score"
    vocabulary: Sequence[str] | None = None
    device: str = "cpu"
    dtype: str | None = None
    unknown: str = "none"
    mask: str = "□"
    attention: bool = False
    budget: int | None = 0

    def __repr__(self) -> str:
        training = self.training
        facts = [repr(self.name)]
        if self.vocabulary is not None:
            facts.append(f"{len(self.vocabulary):,} words")
        facts += [
            f"{name}={value!r}" for name, value in self._option_values.items() if value and name != "name"
        ]
        if "path_or_name" in training:
            facts.append(f"weights={training['path_or_name']!r}")
        for name, unit in (("tokens", "tokens"), ("number", "questions")):
            if name in training:
                facts.append(f"trained on {training[name]:,} {unit}")
        return f"{type(self).__name__}({', '.join(facts)})"

    @property
    @abstractmethod
    def config(self) -> dict[str, Any]:
        """All that the predictions depend on beside the items, as JSON can hold it.

        These are the arguments that would build it again, and digests of what it was trained on.
        """

    @classmethod
    def option_names(cls) -> list[str]:
        """Return the names of what the constructor or `fit` takes as ``**options``."""
        return []

    @property
    def _option_values(self) -> dict[str, Any]:
        """The values of `options`."""
        return {name: getattr(self, name) for name in self.options}

    @property
    def training(self) -> dict[str, Any]:
        """Training data, and whether they were checked for the items; empty without training."""
        return {}

    @property
    def context(self) -> ReadContext | None:
        """Extent of the passage that the model reads, which `wb.ask` shows; None if unknown."""
        return None

    def input_text(self, item: Item) -> str | None:
        """Return the text that the model reads of an item, ``___`` for the word; None if it is unknown.

        By default the words of :attr:`context`, as the vocabulary has them, separated by spaces.
        """
        if self.context is None:
            return None
        spans = self.context.spans(item)
        words = [self.form(item.text[slice(*span)]) for span in spans]
        before = sum(stop <= item.answer_span[0] for _, stop in spans)
        words[before:before] = ["___"] * (self.context.side == "both")
        return " ".join(words)

    def in_training(self, items: Items) -> pd.Series[Any]:
        """Return which items the training texts contain whole, by ``item_id``.

        Null where that is not known: its texts are not on this machine any more, or never were, as those of
        a pretrained model.
        """
        sha256 = self.training.get("sha256") or self.training.get("corpus")
        column = pd.array([pd.NA] * len(items), dtype="boolean")
        if isinstance(sha256, str):
            column = passages_in_training(items, sha256, self.vocabulary)
        return pd.Series(column, index=items.frame["item_id"])

    @abstractmethod
    def score(self, items: Items, words: Sequence[Sequence[str]]) -> Floats:
        """Return how well words fit the blank of each item.

        Parameters
        ----------
        items : Items (n,)
        words : sequence of sequence of str
            The words of each item.

        Returns
        -------
        array (n, most words)
            Higher is better; natural log-probabilities where `score_type` says so. NaN beyond
            the words of an item.
        """

    def log_prob(self, items: Items) -> Floats:
        """Return the natural log-probability of each answer, shape (n,); NaN where there is none."""
        answers = items.frame["answer"].tolist()
        if self.score_type != "log_prob":
            return np.full(len(items), np.nan)
        scores = self.score(items, [[a] if isinstance(a, str) else [] for a in answers])
        return np.asarray(scores[:, 0] if scores.shape[1] else np.full(len(items), np.nan), dtype=float)

    def passage_log_probs(self, items: Items, *, top_k: int = 0) -> list[PassageLogProbs]:
        """Return the natural log-probability of every word of each passage, and the best words in its place.

        By default the model is asked once per word, by `log_prob` and `predict`, with what stands before the
        word alone.
        """
        words = [word_spans(item) for item in items]
        asked = numbered(up_to(item, word) for item, row in zip(items, words, strict=True) for word in row)
        values = self.log_prob(asked)
        pairs = np.stack([values, np.where(np.isnan(values), np.nan, 0.0)], axis=1)
        top: list[list[Any]] = [[[] for _ in values]] * 2
        if top_k:
            best = self.predict(asked, top_k)
            top = [best[name].tolist() for name in ("top_words", "top_log_probs")]
        ends = np.cumsum([0, *map(len, words)])
        return [
            PassageLogProbs(pairs[start:end], top[0][start:end], top[1][start:end])
            for start, end in pairwise(ends.tolist())
        ]

    def text_scores(
        self, items: Items, *, beginning: Beginning | None = None, window: LongText = "strided"
    ) -> TextScores:
        """Return the log-probabilities of texts, which are the answers of items, given all before them.

        `beginning` is what stands before a text without context: by default a mark of the beginning where
        the model has one. `window` tells what is done with a text that is longer than the model sees.
        :func:`workbench.score_texts` checks both. DataError if the model has no probability of a text.
        """
        del items, beginning, window
        raise DataError(
            f"{self.name} has no probability of a text",
            hint="take an n-gram model, a neural language model, a CausalLM, a ServerModel or a MaskedLM",
        )

    def distribution(self, items: Items, *, chunk: int = 256) -> Iterator[Floats]:
        """Yield natural log-probabilities of the whole vocabulary, (up to `chunk`, vocabulary) at a time.

        Raises
        ------
        DataError
            If the model has no vocabulary.
        """
        del items, chunk
        raise DataError(
            f"{self.name} ranks no vocabulary", hint="use it on items with candidates, or another model"
        )

    def _listed_log_prob(self, items: Items) -> Floats:
        """Return the log-probability of each answer by `distribution`; NaN for one outside the vocabulary."""
        index = {word: number for number, word in enumerate(self.vocabulary or ())}
        answers = [index.get(self.form(a)) if isinstance(a, str) else None for a in items.frame["answer"]]
        rows = zip(answers, chain.from_iterable(self.distribution(items)), strict=True)
        return np.array([np.nan if answer is None else row[answer] for answer, row in rows], dtype=float)

    def next_words(self, items: Items, *, chunk: int = 256) -> Iterator[Floats]:
        """Yield natural log-probabilities of the vocabulary of `ranking_words`, by which words are compared.

        Those of `distribution` by default; a model whose words have several sub-tokens has others.
        """
        return self.distribution(items, chunk=chunk)

    def boosted(self, k: int = 10, alpha: float = 0.5) -> Predictor:
        """Return this model with the last `k` words counted less; see :class:`workbench.models.Boosted`."""
        boosted: Predictor = registry.model_class("boosted")(self, k, alpha)
        return boosted

    def ranking(self, items: Items, *, top_k: int = 10) -> Ranked:
        """Rank the answers among all words of the vocabulary, by `distribution`."""
        words = list(self.vocabulary or ())
        index: dict[str | None, int] = {word: number for number, word in enumerate(words)}
        forms = [self.form(a) if isinstance(a, str) else None for a in items.frame["answer"]]
        in_vocabulary = np.array([form in index for form in forms], dtype=bool)
        log_prob = np.full(len(items), np.nan)
        rank, tied = np.zeros((2, len(items)), dtype=np.int64)
        top_words: list[list[str]] = []
        top_log_probs: list[list[float]] = []
        for row, values in enumerate(chain.from_iterable(self.distribution(items))):
            answer = values[index.get(forms[row], 0)]
            log_prob[row], rank[row] = answer, 1 + (values > answer).sum()
            tied[row] = (values == answer).sum()
            best = _best(values, top_k)
            top_words.append([words[number] for number in best])
            top_log_probs.append(values[best].tolist())
        if not in_vocabulary.all():
            log_prob[~in_vocabulary] = self.log_prob(items.where(~in_vocabulary))
        return Ranked(log_prob, rank, tied, in_vocabulary, top_words, top_log_probs)

    def expected(self, items: Items, *, top_k: int = 10) -> pd.DataFrame:
        """Return the most probable words of the vocabulary for each blank, whether it has candidates or not.

        Returns
        -------
        DataFrame (n * top_k,)
            Columns item_id, place (1 is the most probable), word, log_prob (natural).
        """
        ranked = self.ranking(items, top_k=top_k)
        check_ranked(items, ranked, model=self.name, dtype=self.dtype)
        columns = zip(items.frame["item_id"], ranked.top_words, ranked.top_log_probs, strict=True)
        rows = [
            (item_id, rank, *best)
            for item_id, *top in columns
            for rank, best in enumerate(zip(*top, strict=True), 1)
        ]
        return pd.DataFrame(rows, columns=["item_id", "place", "word", "log_prob"])

    def attend(self, items: Items) -> list[Attention]:
        """Return the attention of the model in each item; DataError if it has none."""
        del items
        raise DataError(f"{self.name} has no attention to show", hint="take a reader or a transformer")

    def form(self, word: str) -> str:
        """Return a word as the model's vocabulary has it."""
        return word

    def choices(self, items: Items) -> list[list[str]] | None:
        """Return the words that each item is chosen from, None for the vocabulary.

        Called with items that have no candidates; those that have are chosen from these.
        """
        del items
        return None

    @property
    def ranking_words(self) -> Predictor:
        """The model that ranks words of its own where this one has no vocabulary, else this one."""
        return self

    def quick(self, items: Items) -> Self | None:
        """Return a copy that predicts items without a search for exact ranks; None if this one needs none.

        The ranks of the copy may be lower bounds (``rank_is_bound``); log-probabilities and best words are
        those of the model. `wb.ask` shows them until the model has answered.
        """
        if self.budget == 0 or self.vocabulary is None or items.frame["candidates"].notna().all():
            return None
        model = copy.copy(self)
        model.budget = 0
        return model

    def predict(self, items: Items, top_k: int = 10, *, seed: int = 0) -> pd.DataFrame:
        """Predict the answer of every item.

        Parameters
        ----------
        items : Items
            Those with candidates are chosen from these, the others from the vocabulary.
        top_k : int, default 10
            Number of best words kept in each row.
        seed : int, default 0
            Decides among equal scores.

        Returns
        -------
        DataFrame
            Predictions (see :mod:`workbench.predictions.schema`), in the order of the items.
        """
        if not len(items):
            raise DataError("there are no items to predict", hint="pass at least one")
        has_candidates = items.frame["candidates"].notna().to_numpy()
        masks = [mask for mask in (has_candidates, ~has_candidates) if mask.any()]
        tables = [self._predict(items.where(mask), top_k, seed) for mask in masks]
        order = np.argsort(np.concatenate([np.flatnonzero(mask) for mask in masks]))
        return pd.concat(tables, ignore_index=True).iloc[order].reset_index(drop=True)

    def _predict(self, items: Items, top_k: int, seed: int) -> pd.DataFrame:
        """Predict items that all have candidates, or all have none."""
        words, columns = self._offered(items), self._columns(items)
        if words is None:
            ranked = self.ranking(items, top_k=max(top_k, 2))  # two: one may be the answer, drawn against
            return from_ranking(
                items, ranked, model=self.name, dtype=self.dtype, seed=seed, top_k=top_k, **columns
            )
        log_prob = self.log_prob(items)
        if self.score_type == "log_prob":
            answers = zip(items.frame["answer"], words, strict=True)
            offered = np.array([answer in row for answer, row in answers], dtype=bool)
            needed = offered & self._in_vocabulary(items, log_prob)
            check_answers(items, log_prob, needed, model=self.name, dtype=self.dtype)
        return from_scores(
            items, self.score(items, words), words, model=self.name, score_type=self.score_type,
            log_prob=log_prob, dtype=self.dtype, seed=seed, top_k=top_k, **columns,
        )  # fmt: skip

    def _in_vocabulary(self, items: Items, log_prob: Floats) -> npt.NDArray[np.bool_]:
        """Return whether each answer is in the vocabulary; true, unchecked, where it has a `log_prob`."""
        in_vocabulary = np.ones(len(items), dtype=bool)
        if self.vocabulary is not None and (missing := np.isnan(log_prob)).any():
            words, answers = frozenset(self.vocabulary), items.frame["answer"].tolist()
            in_vocabulary[missing] = [
                isinstance(answers[row], str) and self.form(answers[row]) in words
                for row in np.flatnonzero(missing)
            ]
        return in_vocabulary

    def _offered(self, items: Items) -> list[list[str]] | None:
        """Return the candidates, or the choices of items that have none."""
        candidates = items.frame["candidates"]
        return [list(row) for row in candidates] if candidates.notna().any() else self.choices(items)

    def _columns(self, items: Items) -> dict[str, Any]:
        """Return the columns that are independent of the prediction."""
        complete = np.array([not split_variant(variant)[1] for variant in items.frame["variant"]], dtype=bool)
        columns = {
            "system": _tasks(items.frame).map(self.systems.get).where(complete).astype("str"),
            "vocabulary_size": pd.NA if self.vocabulary is None else len(self.vocabulary),
            "unknown": self.unknown,
        }
        if self.attention:
            columns["attention"] = objects(self._token_attention(items))
        return columns

    def _token_attention(self, items: Items) -> list[list[float]]:
        """Return the attention of the model in each item: one weight per token."""
        return [each.by_token(item) for item, each in zip(items, self.attend(items), strict=True)]

    def save(self, folder: Path | str) -> None:
        """Write the model into a folder, from which `load` reads it; a model that is there is replaced.

        The folder gets a ``SHA256SUMS`` of the files of the model, by which `load` checks them. DataError if
        it cannot be written, as on a full disk; a model that was there stays.
        """
        target = Path(folder)
        with temporary_folder(target) as new, writing(target, "this model"):
            self._save(new)
            about = {"model": registry.name_of(type(self)), "config": self.config}
            write_atomic(new / FILE, json.dumps(about, indent=1))
            write_checksums(new)
            (target / FILE).unlink(missing_ok=True)
            entries = {path.name for path in new.iterdir()} - {FILE, SUMS}
            for name in (SUMS, *sorted(entries), FILE):  # the last one says that the rest is complete
                if (target / name).is_dir():
                    shutil.rmtree(target / name)
                (new / name).replace(target / name)

    @classmethod
    def load(cls, folder: Path | str, *, trust_remote_code: bool = False) -> Self:
        """Read a model that `save` wrote.

        The file names the model as it is registered (:mod:`workbench.models.registry`). A class that is not
        registered, such as one of a notebook, must have been defined or imported before. All files are
        compared with the checksums that `save` wrote (about a second per gigabyte and core).

        Parameters
        ----------
        folder : path
        trust_remote_code : bool, default False
            Whether code that comes with a pretrained model may run. No file can allow it.

        Raises
        ------
        DataError
            If the folder holds no model, one of another class, or one that is damaged or has no checksums.
        """
        folder = Path(folder)
        file = folder / FILE
        if not file.is_file():
            if folder.is_file():
                refuse_language_model(folder)
            raise DataError("there is no saved model", file=file, hint="name its folder, or save it again")
        check_checksums(folder, what="this saved model", hint="save it again")
        with reading(file, "this saved model", hint="save it again"):
            about = read_json(file, "this saved model")
            name, config = str(about["model"]), dict(about["config"])
            if "trust_remote_code" in config:
                raise ValueError("no file may allow code")
        if name in registry.model_names():
            family: Any = registry.model_class(name)
        else:
            family = {registry.import_path_of(family): family for family in _subclasses(Predictor)}.get(name)
        if family is None or not issubclass(family, cls):
            raise DataError(
                f"expected a saved {cls.__name__}, got {name!r}", file=file,
                hint="load it by its own class, or import the module that defines that class first",
            )  # fmt: skip
        token = remote_code.set(trust_remote_code or remote_code.get())  # of those that it is made of, too
        try:
            with reading(file, "this saved model", hint="save it again"):
                model: Self = family._load(folder, config)  # noqa: SLF001 - of this family
        finally:
            remote_code.reset(token)
        return model

    def _save(self, folder: Path) -> None:
        """Write the data that are not in the configuration."""
        del folder

    @classmethod
    def _load(cls, folder: Path, config: dict[str, Any]) -> Self:
        del folder
        return cls(**config)


def _subclasses(base: Any) -> set[Any]:
    """Return a class and its imported subclasses."""
    return {base}.union(*map(_subclasses, base.__subclasses__()))


def pad(rows: Sequence[Sequence[float] | Floats]) -> Floats:
    """Return rows of different lengths as one array, NaN beyond the end of each, shape (n, longest)."""
    padded = np.full((len(rows), max(map(len, rows), default=0)), np.nan)
    for index, row in enumerate(rows):
        padded[index, : len(row)] = row
    return padded


def _best(values: Floats, k: int) -> Any:
    """Return the places of the `k` highest values, the highest first; of equal ones the first.

    Where there are NaN, which count as the highest, these are returned alone.
    """
    k = min(k, len(values))
    top = np.partition(values, len(values) - k)[len(values) - k :]
    if np.isnan(top).any():
        return np.flatnonzero(np.isnan(values))[:k]
    ids = np.flatnonzero(values >= top[0])
    return ids[np.argsort(-values[ids], kind="stable")][:k]


def _tasks(frame: pd.DataFrame) -> pd.Series[str]:
    """Return the task of each item: its data set, or the variant's, as the sample has several."""
    variant = whole_variant(frame["variant"])
    in_sample = variant.where(variant == "msrcc", "lambada")
    in_sample = in_sample.where(frame["word_class"].isna(), "cbt")
    return frame["dataset"].where(frame["dataset"] != "sample", in_sample)
