"""N-gram language models: estimated by KenLM's ``lmplz``, or with Good-Turing discounts; ranked exactly."""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import pandas as pd

from workbench.items.items import Items
from workbench.items.schema import DataError
from workbench.models.baselines.passage import Passage, lefts, parts, passages
from workbench.models.completion.positions import Positional
from workbench.models.ngram import estimate as estimating
from workbench.models.ngram.backoff import BackOff, Ids
from workbench.models.rows import Ranked
from workbench.runs.predictions import UNKNOWN, Floats
from workbench.texts.sources import Texts

if TYPE_CHECKING:
    from workbench.models.ngram.cache import CachedNGram

LN10 = math.log(10)
_CONTEXTS = 1 << 15  # that are ranked at a time
_OPTIONS = ("after", "unknown", "name", "checked_for")


class Blank(NamedTuple):
    """The words around the blank of an item, as the model sees them.

    Attributes
    ----------
    passage : Passage
    left : tuple of int
        Ids from the start of the target sentence (``<s>``) to the blank.
    right : tuple of int
        Ids after the blank, ``</s>`` at the end.
    """

    passage: Passage
    left: tuple[int, ...]
    right: tuple[int, ...]


class NGram(Positional):
    """An n-gram model that was fitted before; :meth:`fit` makes one.

    Parameters
    ----------
    folder : path
        Where the model lies.
    after : bool, default True
        Whether candidates are scored by the words after the blank too, that is by all of the target
        sentence that depends on them; False: by the words before alone.
    unknown : {"shared", "unk"}, default "shared"
        How a word outside the vocabulary is counted: ``<unk>`` has the probability of all such words
        together; "shared" divides it by the number of different ones in the training text.
    name : str, optional
        What tables call it.
    checked_for : dict, optional
        The items that the texts were checked for (`fit` with ``held_out``).
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        after: bool = True,
        unknown: str = "shared",
        name: str | None = None,
        checked_for: dict[str, Any] | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.info = estimating.manifest(self.folder)
        if unknown not in UNKNOWN[1:]:
            raise DataError(f"unknown is {unknown!r}, expected one of {', '.join(UNKNOWN[1:])}")
        self.after, self.unknown, self.checked_for = after, unknown, checked_for
        self.order, self.lower = int(self.info["order"]), bool(self.info["lower"])
        self.smoothing = str(self.info["smoothing"])
        kind = {"kneser-ney": "Kneser-Ney", "good-turing": "Good-Turing"}[self.smoothing]
        said = ", fallback discounts" if self.info["report"].get("fallback_discounts") else ""
        self.name = name or f"{self.order}-gram, {kind}{said}"

    @classmethod
    def fit(
        cls,
        texts: Texts,
        *,
        order: int = 5,
        smoothing: str = "kneser-ney",
        vocabulary: int | Sequence[str] | None = 60_000,
        pruning: Sequence[int] | None = None,
        lower: bool = True,
        tokenised: bool | None = None,
        held_out: Items | None = None,
        memory: str = "2G",
        temporary: Path | None = None,
        progress: bool = True,
        **options: Any,
    ) -> Self:
        """Estimate a model, or find the one that was estimated of the same texts and settings.

        Parameters
        ----------
        texts : Corpus, path, book, or iterable of (str, path or book)
            A string is a sentence; a path is read as :func:`workbench.books` does.
        order : int, default 5
            Length of the longest n-grams.
        smoothing : {"kneser-ney", "good-turing"}
            Interpolated modified Kneser-Ney by ``lmplz`` (Heafield et al. 2013), or Katz back-off with
            Good-Turing discounts (Katz 1987).
        vocabulary : int, sequence of str or None
            The words that it knows: so many of the most frequent (60,000: Paperno et al. 2016, section 5),
            these, or all. Other words are counted as one, ``<unk>``.
        pruning : sequence of int, optional
            For each order, up to which count n-grams are left out: (0, 0, 0, 1) leaves 4-grams out that
            occur once.
        lower : bool, default True
            Lower-case the texts, and the items.
        tokenised : bool, optional
            Whether the texts are tokens with blanks between them; told from the texts by default.
        held_out : Items, optional
            Items that must not be in the texts: see :func:`workbench.contamination`.
        memory : str, default "2G"
            What ``lmplz`` may take for sorting.
        temporary : path, optional
            Folder for its temporary files; that of the model by default.
        progress : bool, default True
            Show bars.
        **options
            `after`, `unknown` and `name` of the class.

        Raises
        ------
        DataError
            If the texts are empty or hold the items held out, a program is missing or fails, or the
            disk is full. No half of a model is left.
        """
        folder, checked = estimating.estimated(
            texts, order=order, smoothing=smoothing, vocabulary=vocabulary, pruning=pruning, lower=lower,
            tokenised=tokenised, held_out=held_out, memory=memory, temporary=temporary, progress=progress,
        )  # fmt: skip
        return cls(folder, checked_for=checked, **options)

    @property
    def systems(self) -> dict[str, str]:  # type: ignore[override] # depends on the smoothing
        """By data set, the row of the papers' table that it stands for."""
        if self.smoothing == "good-turing":
            return {"lambada": "N-Gram", "msrcc": f"Smoothed {self.order}-gram"}
        return {"lambada": "N-Gram", "cbt": "KNESER-NEY LANGUAGE MODEL"}

    @cached_property
    def model(self) -> BackOff:
        """The arrays that it computes with, mapped into memory."""
        return BackOff.open(self.folder)

    @property
    def vocabulary(self) -> list[str]:  # type: ignore[override] # read when it is asked for
        """The words that it ranks, the most frequent first."""
        return self.model.words

    @property
    def binary(self) -> Path:
        """KenLM's own model, which ``kenlm.Model`` reads."""
        return self.folder / estimating.BINARY

    @property
    def config(self) -> dict[str, Any]:
        """What it was estimated of and how, and the options."""
        return {name: getattr(self, name) for name in _OPTIONS} | self.info

    @property
    def training(self) -> dict[str, Any]:
        """The training text: digest, size, and whether it was checked for items."""
        return {**self.info["training"], "checked_for": self.checked_for}

    def form(self, word: str) -> str:
        """Return a word as the vocabulary has it."""
        return word.lower() if self.lower else word

    @property
    def unknown_share(self) -> float:
        """What is subtracted from the natural log-probability of ``<unk>`` for one unknown word."""
        return math.log(max(1, int(self.info["unknown_types"]))) if self.unknown == "shared" else 0.0

    def blanks(self, items: Items) -> Iterator[Blank]:
        """Yield what the model sees of each item."""
        start, end = self.model.index["<s>"], self.model.index["</s>"]
        for _, passage in passages(items, lower=self.lower):
            left, right = self.model.ids(passage.left), self.model.ids(passage.right)
            yield Blank(passage, (start, *left), (*right, end))

    def answers(self, items: Items) -> Ids:
        """Return the id of each answer, -1 for one outside the vocabulary or of several tokens."""
        index, n_words = self.model.index, len(self.model.words)
        found = [index.get(self.form(a), -1) if isinstance(a, str) else -1 for a in items.frame["answer"]]
        ids = np.array(found, dtype=np.int64).reshape(-1)
        return np.where(ids < n_words, ids, -1)

    def position_scores(self, items: Items, words: Sequence[Sequence[str]]) -> Floats:
        """Return log-probabilities of words in the blank, and of each word after it.

        Parameters
        ----------
        items : Items (n,)
        words : sequence of sequence of str
            The words of each item; one may be of several tokens.

        Returns
        -------
        array (n, most words, order)
            Natural logarithms: at 0 of the word in the blank, at 1 of the next word given it, and so on as
            far as it is in the context; the last may be the end of the sentence. NaN where there is none.
        """
        width = max((len(row) for row in words), default=0)
        found = np.full((len(items), width, self.order), np.nan)
        contexts, wanted, places = [], [], []
        unknown = self.model.index["<unk>"]
        shares: dict[int, float] = {}
        for row, (item, blank) in enumerate(zip(items, self.blanks(items), strict=True)):
            for column, word in enumerate(words[row]):
                pieces = self.model.ids(parts(item, word, lower=self.lower))
                line = [*blank.left, *pieces, *blank.right[: self.order - 1]]
                first = len(blank.left)
                for place in range(first, len(line)):
                    step = max(0, place - first - len(pieces) + 1)
                    contexts.append(line[max(0, place - self.order + 1) : place])
                    wanted.append(line[place])
                    places.append((row * width + column) * self.order + step)
                    if not step and line[place] == unknown:
                        shares[len(places) - 1] = self.unknown_share
        values = self._log_probs(contexts, wanted)
        for index, share in shares.items():
            values[index] -= share
        flat = found.reshape(-1)
        flat[places] = 0
        np.add.at(flat, places, values)
        return found

    def _log_probs(self, contexts: Sequence[Sequence[int]], words: Sequence[int]) -> Floats:
        rows, ids = self.model.contexts(contexts), np.array(words, dtype=np.int64)[:, None]
        found = [
            self.model.log10(rows[start : start + _CONTEXTS], ids[start : start + _CONTEXTS])[:, 0]
            for start in range(0, len(rows), _CONTEXTS)
        ]
        return np.concatenate(found).astype(float) * LN10 if found else np.zeros(0)

    def contexts(self, items: Items) -> Ids:
        """Return the last words before each blank as ids, shape (n, order - 1); -1 where there are fewer."""
        start = self.model.index["<s>"]
        rows = [(start, *self.model.ids(left)) for left in lefts(items, lower=self.lower)]
        return self.model.contexts(rows)

    def distribution(self, items: Items, *, chunk: int = 256) -> Iterator[Floats]:
        """Yield natural log-probabilities of the whole vocabulary, (up to `chunk`, vocabulary) at a time."""
        for values in self.model.distribution(self.contexts(items), chunk=chunk):
            yield values.astype(float) * LN10

    def ranking(self, items: Items, *, top_k: int = 10) -> Ranked:
        """Rank the answers among the vocabulary, exactly and without computing it all."""
        contexts, ids = self.contexts(items), self.answers(items)
        blocks = [slice(start, start + _CONTEXTS) for start in range(0, max(1, len(ids)), _CONTEXTS)]
        ranked = [self._ranked(contexts[block], ids[block], top_k) for block in blocks]
        own, rank, tied, values, words = (np.concatenate(part) for part in zip(*ranked, strict=True))
        known = ids >= 0
        log_prob = own.astype(float) * LN10
        if not known.all():
            log_prob[~known] = self.log_prob(items.where(~known))
        names = np.array(self.model.words, dtype=object)[words]
        return Ranked(log_prob, rank, tied, known, names.tolist(), (values.astype(float) * LN10).tolist())

    def _ranked(self, contexts: Ids, ids: Ids, top_k: int) -> tuple[Any, Ids, Ids, Any, Ids]:
        state = self.model.state(contexts)
        own = self.model.log10(contexts, np.maximum(ids, 0)[:, None], state)[:, 0]
        above = self.model.count(state, own, len(ids))
        tied = self.model.count(state, own, len(ids), equal=True) - above
        return own, above + 1, tied, *self.model.top(contexts, top_k, state)

    def expected(self, items: Items, *, top_k: int = 10) -> pd.DataFrame:
        """Return what the model expects in each blank, of all its vocabulary, candidates or not.

        Returns
        -------
        DataFrame (n * top_k,)
            Columns item_id, place (1 is the most probable), word, log_prob (natural).
        """
        values, words = self.model.top(self.contexts(items), top_k)
        n, k = words.shape
        return pd.DataFrame({
            "item_id": np.repeat(items.frame["item_id"].to_numpy(), k),
            "place": np.tile(np.arange(1, k + 1), n),
            "word": [self.model.words[i] for i in words.ravel()],
            "log_prob": values.ravel().astype(float) * LN10,
        })  # fmt: skip

    def cached(self, weight: float = 0.1, *, decay: float = 1.0) -> CachedNGram:
        """Return this model interpolated with the words of the context; see :class:`CachedNGram`."""
        from workbench.models.ngram.cache import CachedNGram  # noqa: PLC0415 - it stands on this module

        return CachedNGram(self, weight, decay=decay)

    def _save(self, folder: Path) -> None:
        target = folder / "model"
        partial = Path(tempfile.mkdtemp(prefix=".model-", dir=folder))
        try:
            for file in self.folder.iterdir():
                shutil.copy2(file, partial / file.name)
            shutil.rmtree(target, ignore_errors=True)
            partial.rename(target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    @classmethod
    def _load(cls, folder: Path, config: dict[str, Any]) -> Self:
        options = {name: config[name] for name in _OPTIONS}
        return cls(folder / "model", **options)
