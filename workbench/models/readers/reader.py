"""The base class of readers: training on questions, scores of candidates, attention, files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from workbench.items.items import Items, check_items
from workbench.items.schema import Item
from workbench.items.tokens import tokens
from workbench.models.base import Predictor, pad
from workbench.models.device_memory import Batcher
from workbench.models.item_words import Attention, ReadContext, distinct, passages, word_tokens
from workbench.models.neural.fitting import TrainedNetwork
from workbench.models.neural.network import AttentionWeights
from workbench.models.neural.scoring import evaluating
from workbench.models.prediction_rows import check_scores
from workbench.models.readers.encoding import BLANK, PAD, RESERVED, UNKNOWN, QuestionBatches, Questions
from workbench.predictions.schema import Floats
from workbench.storage import cache
from workbench.storage.errors import DataError, check_option
from workbench.storage.files import read_bytes, write_atomic

VOCABULARY = "vocabulary.txt"
_LEAST = 1e-6  # share of a blank whose answer is unknown, in `any_blank`
_TOKENS = 1 << 16  # of context in a batch of questions that are scored

Scores = Float[Tensor, "rows candidates"]
Ids = Int[Tensor, "rows time"]
Mask = Bool[Tensor, "rows time"]


class ReaderModule(nn.Module):
    """A network that scores the candidates of questions, as :meth:`Questions.batch` encodes them.

    A sub-class takes the number of ids and its sizes; it has `scores`, and `attention_weights` if it can.
    """

    around: int | None = None  # words of the query around the blank that it reads, all by default

    def scores(self, batch: Mapping[str, Tensor]) -> Scores:
        """Return a score of each candidate: higher is better, -inf for padding."""
        raise NotImplementedError

    def loss(self, batch: Mapping[str, Tensor]) -> Float[Tensor, " rows"]:
        """Return the loss of each question: -ln of the answer's share, by the softmax of the scores."""
        return functional.cross_entropy(self.scores(batch), batch["answer"], reduction="none")

    def forward(self, batch: Mapping[str, Tensor], state: None = None) -> tuple[Tensor, None]:
        """Return the mean loss, as the training loop needs it."""
        del state
        return self.loss(batch).mean(), None

    def attention_weights(self, batch: Mapping[str, Tensor]) -> AttentionWeights | None:
        """Return the attention weights, None if the network has none."""
        del batch
        return None


def mask_absent(scores: Scores, batch: Mapping[str, Tensor]) -> Scores:
    """Return the scores, -inf where a row has no further candidate."""
    return scores.masked_fill(batch["candidates"] == PAD, -torch.inf)


def any_blank(batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the questions with the blank at a random known word of the query.

    The answer is that word, and the only candidate; its mentions are those in the context.
    """
    answers = batch["candidates"].gather(1, batch["answer"][:, None])
    query = batch["query"].scatter(1, batch["blank"][:, None], answers)
    shares = (query > UNKNOWN) + _LEAST * functional.one_hot(batch["blank"], query.shape[1])
    position = shares.multinomial(1)
    words = query.gather(1, position)
    moved = {"query": query.scatter(1, position, BLANK), "blank": position[:, 0], "candidates": words}
    slots = (batch["context"] == words).long()
    return {**batch, **moved, "slots": slots, "answer": torch.zeros_like(batch["answer"])}


class Reader(TrainedNetwork, Predictor):
    """A network that chooses a word for the blank; made by `fit`, or read by `load`.

    Items without candidates are chosen from the different words of their context.

    Parameters
    ----------
    network : ReaderModule
    words : sequence of str (V,)
        Those that have ids of their own.
    info : mapping
        As JSON can hold it: ``sizes``, ``lower``, and what `fit` tells of the training.
    device : str, optional
        Where it computes: a GPU where there is one.
    name : str, optional
    attention : bool, default False
        Whether predictions have the column ``attention``, with one weight per token.
    """

    fitted_on = "items"
    title: ClassVar[str] = "Reader"
    module: ClassVar[type[ReaderModule]]
    _defaults: ClassVar[dict[str, Any]] = {"rows": 32, "epochs": 5, "best_by": "accuracy"}
    _model_defaults: ClassVar[dict[str, Any]] = {"name": None, "attention": False}
    _lengths = ("epochs", "minutes")
    _evaluated_on = "validation"
    _folder_name = "readers"

    def __init__(
        self,
        network: ReaderModule | None,
        *,
        words: Sequence[str],
        info: Mapping[str, Any],
        device: str | None = None,
        name: str | None = None,
        attention: bool = False,
    ) -> None:
        self.words, self.info = list(words), dict(info)
        self.lower = bool(self.info.get("lower", True))
        self.name = name or self._named(self.info)
        self.systems = self._systems(self.info["sizes"])  # type: ignore[misc] # by its sizes
        self._network, self._wanted_device, self.attention = network, device, attention

    @classmethod
    def _systems(cls, sizes: Mapping[str, Any]) -> dict[str, str]:
        """Return the rows of the papers' tables that a model of the given sizes reproduces."""
        del sizes
        return cls.systems

    @classmethod
    def _build(cls, n_ids: int, sizes: Mapping[str, Any]) -> ReaderModule:
        return cls.module(n_ids, **sizes)

    def _new_network(self) -> ReaderModule:
        return self._build(len(self.words) + RESERVED, self.info["sizes"])

    @classmethod
    def fit(
        cls,
        questions: Items,
        *,
        validation: Items | None = None,
        vocabulary: int = 60_000,
        lower: bool = True,
        folder: Path | str | None = None,
        **options: Any,
    ) -> Self:
        """Train a network on questions, or find the one of the same questions and options.

        Networks are stored in ``cache/readers``. A training that was interrupted resumes from its last
        checkpoint when `fit` is called again with the same arguments.

        Parameters
        ----------
        questions : Items
            Items with candidates and answers. Items without their answer among the candidates are left out.
        validation : Items, optional
            Questions on which accuracy is measured while it is trained; the weights that did best are kept.
            Never what is reported on.
        vocabulary : int, default 60,000
            So many of the most frequent words of the training questions have ids; all others are one.
        lower : bool, default True
            Whether words are lower-cased.
        folder : path, optional
            Where model and checkpoints lie instead of the cache.
        **options
            Settings of the training, such as its length (``epochs`` or ``minutes``), ``seed`` and ``device``:
            see :class:`workbench.training.settings.TrainingSettings`. ``rows`` is the number of questions in
            a batch. ``name`` and ``attention`` are those of the class, all others those of the network.
        """
        check_items(questions, f"{cls.__name__}.fit")
        settings, sizes, batching, model_options = cls._sorted_options(
            options, evaluated=validation is not None
        )
        encoded = Questions.cached(questions, vocabulary, lower=lower)
        batches = QuestionBatches(encoded, seed=settings.seed, **batching)
        on = None
        if validation is not None:
            on = Questions.cached(validation, encoded.vocabulary, lower=lower)
        info = {
            "sizes": sizes,
            "lower": lower,
            "training": {"rows": batches.rows, "settings": settings.identity()},
            "questions": {"number": len(encoded), "used": len(batches.usable), "sha256": encoded.key},
            "validation": None if on is None else {"number": len(on), "sha256": on.key},
        }
        return cls._fit_or_load(
            settings, info, info=info, key=encoded.key, folder=folder,
            ingredients={"words": encoded.vocabulary}, batches=lambda: batches,
            evaluate=None if on is None else lambda model: {"accuracy": model.accuracy(on)},
            **model_options,
        )  # fmt: skip

    @property
    def context(self) -> ReadContext:
        """The whole passage."""
        return ReadContext("both")

    @property
    def config(self) -> dict[str, Any]:
        """Sizes, settings and training data, digests of words and weights, and the name."""
        return {
            "name": self.name,
            "info": self.info,
            "vocabulary": cache.digest(*self.words),
            "weights": self._weights_sha256,
        }

    @property
    def training(self) -> dict[str, Any]:
        """The training questions: how many, and their digest."""
        return dict(self.info.get("questions", {}))

    def choices(self, items: Items) -> list[list[str]]:
        """Return the different words of each context."""
        return [
            distinct(passage.context, lower=self.lower, answer=item.answer)
            for item, passage in passages(items, lower=False)
        ]

    def score(self, items: Items, words: Sequence[Sequence[str]]) -> Floats:
        """Return scores of words in the blank of each item, (n, most words); NaN beyond an item's words."""
        questions = Questions.of(items, self.words, words=words, lower=self.lower)
        rows = []
        for item, row, values in zip(items, words, self._scores(questions), strict=True):
            forms = [word_tokens(item, word, lower=self.lower) for word in row]
            index = {form: number for number, form in enumerate(dict.fromkeys(forms))}
            rows.append([values[index[form]] for form in forms])
        scores = pad(rows)
        check_scores(items, scores, words, model=self.name, dtype=self.dtype)  # infinite ones are refused too
        return scores

    def attend(self, items: Items) -> list[Attention]:
        """Return the network's attention in each item; DataError if it has none.

        The spans of the text are words, windows around mentions of the candidates, or sentences.
        """
        network = self.network
        offered = self._offered(items) or []
        questions = Questions.of(items, self.words, words=offered, lower=self.lower)

        def work(rows: list[int]) -> tuple[AttentionWeights | None, Scores]:
            batch = self._batch(questions, rows)
            with evaluating(network):
                return network.attention_weights(batch), network.scores(batch)

        looks: dict[int, Attention] = {}
        for rows, (attention, scores) in self._batcher.run(questions.lengths, work):
            if attention is None:
                return super().attend(items)
            tensors = (attention.begin, attention.end, attention.weights)
            begin, end, weights = (tensor.cpu().numpy() for tensor in tensors if tensor is not None)
            for index, row in enumerate(rows):
                item = items[row]
                forms = [word_tokens(item, word, lower=self.lower) for word in offered[row]]
                choices = list(dict.fromkeys(forms))
                values = scores[index, : len(choices)].double().cpu().numpy()
                check_scores(
                    items[row : row + 1], values[None], [[" ".join(choice) for choice in choices]],
                    model=self.name, dtype=self.dtype,
                )  # fmt: skip
                best = choices[int(values.argmax())]
                prediction = offered[row][forms.index(best)]
                spans = begin[index], end[index]
                looks[row] = self._attention(item, attention.names, spans, weights[index], prediction)
        return [looks[row] for row in range(len(items))]

    def _token_attention(self, items: Items) -> list[list[float]]:
        """Return the attention: one weight per token; that of a window is on the word in its centre."""
        window = getattr(self.network, "window", 0)
        looks = zip(items, self.attend(items), strict=True)
        return [look.by_token(item, window=window) for item, look in looks]

    def _attention(
        self,
        item: Item,
        names: tuple[str, ...],
        bounds: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]],
        weights: npt.NDArray[np.floating],
        prediction: str,
    ) -> Attention:
        """Return a network's attention in one item, with spans of characters in place of tokens."""
        words = tokens(item)
        begin, end = bounds
        mask = (end > begin) & (weights != 0).any(0)
        spans = [
            (words.spans[b][0], words.spans[e - 1][1]) for b, e in zip(begin[mask], end[mask], strict=True)
        ]
        around = self.network.around
        first, last = words.sentences[-1], len(words.spans)
        if around is not None:
            first, last = max(first, words.target - around // 2), min(last, words.end + around // 2)
        query = (words.spans[first][0], words.spans[last - 1][1]) if first < last else None
        values = weights[:, mask].astype(np.float64)
        return Attention(item.item_id, self.name, names, tuple(spans), values, query, prediction)

    def accuracy(self, questions: Questions) -> float:
        """Return the share of encoded questions that are answered rightly, of ties the expected share."""
        total = 0.0
        for values, answer in zip(self._scores(questions), questions.arrays["answer"], strict=True):
            if np.isnan(values).any():
                hint = "train it again, with a lower learning rate"
                raise DataError(f"{self.name} gives scores that are NaN", hint=hint)
            if answer >= 0 and values[answer] == values.max():
                total += 1 / float((values == values.max()).sum())
        return total / max(1, len(questions))

    @cached_property
    def _batcher(self) -> Batcher:
        return Batcher(_TOKENS)

    def _scores(self, questions: Questions) -> list[Floats]:
        """Return the scores of the candidates of each encoded question."""
        network = self.network

        def work(rows: list[int]) -> Floats:
            with evaluating(network):
                return np.asarray(network.scores(self._batch(questions, rows)).double().cpu().numpy())

        sizes = np.diff(questions.arrays["candidates_starts"])
        scores: list[Floats] = [np.zeros(0)] * len(questions)
        for rows, values in self._batcher.run(questions.lengths, work):
            for row, of_row in zip(rows, values, strict=True):
                scores[row] = of_row[: sizes[row]]
        return scores

    def _batch(self, questions: Questions, rows: Sequence[int]) -> dict[str, Tensor]:
        """Return a subset of the questions on the device."""
        batch = questions.batch(rows)
        return {name: torch.from_numpy(values).to(self.device) for name, values in batch.items()}

    def _save(self, folder: Path) -> None:
        self._save_network(folder)
        write_atomic(folder / VOCABULARY, json.dumps(self.words, ensure_ascii=False))

    def _set(self, options: Mapping[str, Any]) -> None:
        for option in options:
            check_option("the option", option, ("name", "attention"))
        if "name" in options:
            self.name = options["name"] or self._named(self.info)
        self.attention = options.get("attention", False)

    @classmethod
    def _load(cls, folder: Path, config: dict[str, Any]) -> Self:
        words = json.loads(read_bytes(folder / VOCABULARY, "this vocabulary"))
        model = cls(None, words=words, info=config["info"], name=config["name"])
        model._read_network(folder, config["weights"])
        return model
