"""The sentence-completion systems of Zweig and Burges (2012) that use single scores of an n-gram model.

Their decoys came from a generator that preferred words which predict the next word well, so the scores at
single positions around the blank say more than that of the whole sentence (section 2.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbench.items.ablation import whole_variant
from workbench.items.items import Items
from workbench.models.base import Predictor
from workbench.models.wrapper import Wrapper
from workbench.predictions.schema import Floats
from workbench.storage import cache
from workbench.storage.errors import DataError, check_value

_BLANK, _NEXT, _TWO_ON = 0, 1, 2
_SLOPE = 1e-10  # of the loss an item, at its minimum
_PERFECT = 1e-6  # loss an item below which the answers are separated


class Positions(Protocol):
    """A model with scores by position, such as :class:`workbench.models.ngram.model.NGram`."""

    name: str
    order: int

    def position_scores(self, items: Items, words: Sequence[Sequence[str]]) -> Floats:
        """Return log-probabilities of the word at the blank and of those after it: (n, words, positions)."""


class Reversed(Wrapper):
    """Choose the word with the lowest score of another model ("score reversal", section 2.2).

    The paper does this with the generating model (26 %, against 31 % for the highest) and with the
    smoothed 4-gram (17 %, against 39 %), to show how much the way in which the decoys were made gives away.

    Parameters
    ----------
    model : Predictor

    Examples
    --------
    >>> from workbench.models import Reversed
    >>> questions = wb.load("sample", "test", variant="msrcc")
    >>> round(float(Reversed(ngram).predict(questions)["p_correct"].mean()), 2)
    0.16
    """

    version = 1
    base_name = "model"

    def __init__(self, model: Predictor) -> None:
        self.base = model
        self.name = f"{model.name}, lowest"
        row = model.systems.get("msrcc")
        self.systems = {} if row is None else {"msrcc": f"{row}, lowest"}  # type: ignore[misc]

    def score(self, items: Items, words: Sequence[Sequence[str]]) -> Floats:
        """Return the scores of the model below with the other sign."""
        return -self.base.score(items, words)


class Generating(Wrapper):
    """Choose by the model that made the decoys of the questions.

    The paper's own model, a class-based maximum-entropy 4-gram, was never released. So this reproduces the
    row of the table for questions made with `model`, not for the released ones.

    Parameters
    ----------
    model : Predictor
        The n-gram model that :func:`workbench.construction.sentence_completion.questions` took.
    lowest : bool, default False
        Whether the lowest score wins.
    datasets : sequence of str, default ("msrcc/built",)
        The data sets, or ``data set/split``, whose decoys the model made.

    Examples
    --------
    >>> from workbench.models import Generating
    >>> Generating(ngram).name
    'Generating model (3-gram, Kneser-Ney)'
    """

    version = 1
    base_name = "model"
    options = ("lowest", "datasets")

    def __init__(
        self, model: Predictor, *, lowest: bool = False, datasets: Sequence[str] = ("msrcc/built",)
    ) -> None:
        self.base, self.lowest, self.datasets = model, lowest, list(datasets)
        self._row = "Generating model, lowest" if lowest else "Generating model"
        self.name = f"{self._row} ({model.name})"
        self.score_type = "score" if lowest else model.score_type

    def score(self, items: Items, words: Sequence[Sequence[str]]) -> Floats:
        """Return the scores of the model below, with the other sign where the lowest wins."""
        scores = self.base.score(items, words)
        return -scores if self.lowest else scores

    def _columns(self, items: Items) -> dict[str, Any]:
        frame = items.frame
        made = frame["dataset"].isin(self.datasets)
        made |= (frame["dataset"] + "/" + frame["split"]).isin(self.datasets)
        made &= frame["variant"] == whole_variant(frame["variant"])
        row = pd.Series(self._row, frame.index, dtype="str")
        return {**super()._columns(items), "system": row.where(made)}


class Positional(Wrapper):
    """Choose by a weighted sum of the n-gram scores at single positions ("positional combination").

    Position 0 is the word at the blank, 1 the next word, 2 the word two on, and so on. In the paper a
    low score of the next word is combined with a high score of the word two on (section 4.4, 43 %). It
    gives no weights; -1 and 1 are the signs that it names. `fit` finds weights on other questions.
    Positions after the end of the sentence count as 0 for every word.

    Parameters
    ----------
    ngram : NGram
        In the paper "each option [is scored] according to how well it and its immediate predecessor
        predict the next word" (section 2.2, step 4): p(next | previous word, option), the score of a
        model of order 3. A model of order 4 sees one word more before the blank.
    weights : mapping of int to float, default {1: -1, 2: 1}
        Weights by position.
    fitted : mapping, optional
        A record of what the weights were fitted on.

    Examples
    --------
    >>> from workbench.models import Positional
    >>> questions = wb.load("sample", "test", variant="msrcc")
    >>> round(float(Positional(ngram).predict(questions)["p_correct"].mean()), 2)
    0.07
    """

    version = 1
    base_name = "model"
    options: ClassVar[tuple[str, ...]] = ("weights", "fitted")
    base: Any  # of `Positions`
    system = "Positional combination"
    title = "Positional combination"

    def __init__(
        self,
        ngram: Positions,
        *,
        weights: Mapping[int, float] | Mapping[str, float] | None = None,
        fitted: Mapping[str, Any] | None = None,
    ) -> None:
        by_position = {_NEXT: -1.0, _TWO_ON: 1.0} if weights is None else weights
        self.weights = {int(position): float(weight) for position, weight in by_position.items()}
        valid = bool(self.weights) and 0 <= min(self.weights) <= max(self.weights) < ngram.order
        expected = f"positions from 0 to {ngram.order - 1}, the words that a model of this order looks back"
        check_value("weights", weights, valid, expected)
        self.base, self.fitted = ngram, None if fitted is None else dict(fitted)
        self.name = f"{self.title}{', fitted' if self.fitted else ''} ({ngram.name})"
        self.systems = {"msrcc": self.system}  # type: ignore[misc]

    @classmethod
    def fit(
        cls,
        ngram: Positions,
        items: Items,
        *,
        positions: Sequence[int] = (_NEXT, _TWO_ON),
        ridge: float = 1.0,
    ) -> Self:
        """Fit the weights by a conditional logit model: see `conditional_logit`.

        Parameters
        ----------
        ngram : NGram
        items : Items
            Questions with answers, and never those to be reported on. The decoys of
            :func:`workbench.construction.sentence_completion.questions` prefer likely next words.
        positions : sequence of int, default (1, 2)
        ridge : float, default 1
            Ridge penalty, see `conditional_logit`.
        """
        frame = items.frame
        asked = items.where((frame["answer"].notna() & frame["candidates"].notna()).to_numpy())
        if not len(asked):
            raise DataError("no question has an answer and candidates", hint="pass some that have both")
        words = [list(row) for row in asked.frame["candidates"]]
        answer_index = [row.index(answer) for row, answer in zip(words, asked.frame["answer"], strict=True)]
        values = _features(ngram, asked, words, positions)
        weights = conditional_logit(values, np.array(answer_index), ridge=ridge)
        fitted = {
            "questions": len(asked),
            "dataset": sorted(set(asked.frame["dataset"])),
            "sha256": cache.digest(*asked.frame["item_id"], *asked.frame["text"], *map(str, words)),
            "ridge": ridge,
        }
        return cls(ngram, weights=dict(zip(positions, weights.tolist(), strict=True)), fitted=fitted)

    def score(self, items: Items, words: Sequence[Sequence[str]]) -> Floats:
        """Return the weighted sum of the positions' log-probabilities, shape (n, most words)."""
        values = _features(self.base, items, words, list(self.weights))
        return np.asarray(values @ np.array(list(self.weights.values())))


class _OnePosition(Positional):
    """A model that uses the score at one position."""

    options = ()
    _weights: ClassVar[dict[int, float]]

    def __init__(self, ngram: Positions) -> None:
        super().__init__(ngram, weights=self._weights)


class NextWord(_OnePosition):
    """Choose the word after which the next word is least probable (section 2.2: 38 %).

    Parameters
    ----------
    ngram : NGram
        See `Positional`: the paper's score is that of a model of order 3.
    """

    version = 1
    system = title = "Next word, lowest"
    _weights: ClassVar[dict[int, float]] = {_NEXT: -1}


class WordTwoOn(_OnePosition):
    """Choose the word after which the word two on is most probable (section 2.2: 38 %).

    Parameters
    ----------
    ngram : NGram
        See `Positional`.
    """

    version = 1
    system = title = "Word two on"
    _weights: ClassVar[dict[int, float]] = {_TWO_ON: 1}


def _features(
    ngram: Positions, items: Items, words: Sequence[Sequence[str]], positions: Sequence[int]
) -> Floats:
    """Return the scores at the positions, (n, most words, positions); NaN beyond the words of an item."""
    values = ngram.position_scores(items, words)
    lacking = max(0, max(positions, default=-1) + 1 - values.shape[2])
    features = np.nan_to_num(np.pad(values, [(0, 0), (0, 0), (0, lacking)]))[..., list(positions)]
    inside = np.arange(values.shape[1]) < np.array([len(row) for row in words], dtype=int)[:, None]
    return np.where(inside[..., None], features, np.nan)


def conditional_logit(values: Floats, answers: npt.NDArray[np.int64], *, ridge: float = 0.0) -> Floats:
    """Return the weights under which the answers are most likely, shape (features,).

    p(choice) is the softmax of the weighted sum of features over the choices (conditional logit, McFadden
    1974). The likelihood has one maximum. `values` (n, choices, features) are NaN for choices that an item
    does not have; `answers` (n,) are the places of the right choices. Half of `ridge` times the sum of
    squared weights is added to the negative log-likelihood, in nats; with 0, weights that separate all
    answers are an error, as there is no maximum.
    """
    from scipy.optimize import minimize  # type: ignore[import-untyped]  # noqa: PLC0415 - slow
    from scipy.special import logsumexp  # type: ignore[import-untyped]  # noqa: PLC0415 - slow

    rows = np.arange(len(values))
    inside = np.asarray(~np.isnan(values).any(axis=2))
    filled = np.where(inside[..., None], values, 0.0)
    filled = np.where(inside[..., None], filled - filled[rows, answers][:, None], 0.0)  # the answer is at 0

    def loss(weights: Floats) -> tuple[float, Floats]:
        _, mean, total = shares(weights)
        return float(total.sum() + ridge / 2 * weights @ weights), mean.sum(axis=0) + ridge * weights

    def curvature(weights: Floats) -> Floats:
        share, mean, _ = shares(weights)
        squares = np.einsum("nc,ncf,ncg->fg", share, filled, filled)
        return np.asarray(squares - mean.T @ mean + ridge * np.eye(len(weights)))

    def shares(weights: Floats) -> tuple[Floats, Floats, Floats]:
        raw = np.where(inside, filled @ weights, -np.inf)
        total = logsumexp(raw, axis=1)
        share = np.exp(raw - total[:, None])
        return share, np.einsum("nc,ncf->nf", share, filled), total

    start, options = np.zeros(values.shape[2]), {"gtol": _SLOPE * len(values)}
    best = minimize(loss, start, jac=True, hess=curvature, method="trust-exact", options=options)
    if best.fun < _PERFECT * len(values):
        raise DataError("the weights grow without limit, as they separate all answers", hint="raise ridge")
    return np.asarray(best.x)
