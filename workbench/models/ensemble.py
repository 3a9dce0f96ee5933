"""Ensembles: the mean of several models' probabilities of an item's words."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from workbench.items.items import Items
from workbench.models.base import Predictor, pad
from workbench.models.item_words import ReadContext, Side
from workbench.models.prediction_rows import check_scores
from workbench.predictions.schema import Floats, check_predictions
from workbench.predictions.store import find_run
from workbench.storage.cache import digest
from workbench.storage.errors import DataError, check_value

_SYSTEMS = ("MEMNNS (WINDOW MEMORY + ENSEMBLE)", "MEMNNS (WINDOW MEMORY + SELF-SUP. + ENSEMBLE)")
_SUM = 1e-6  # by which the sum of probabilities may differ from 1


class Ensemble(Predictor):
    """Mean over models of the probabilities of the words to choose from (Hill et al. 2016, appendix A).

    The scores of each model become probabilities of the item's words, and these are averaged. A mean of the
    scores themselves would follow the model with the largest differences. Log-probabilities and other scores
    pass through a softmax over the words: those of candidates then sum to 1, so that a model that spreads its
    probability over words that are not offered counts as much as the others. Scores that already sum to 1
    over the words of every item, none below 0, are kept. Other scores should be logits, as networks
    have them: the softmax of counts or distances has no meaning.

    Parameters
    ----------
    models : Predictor, Run, DataFrame or str, or several of these
        A run, its name, or a frame of predictions of one model gives the candidate scores that it holds: it
        scores the items that were predicted, and cannot be saved.

    Raises
    ------
    DataError
        If there are no models, or a run has several models or no scores of candidates.

    Examples
    --------
    >>> from workbench.models import Ensemble, SlidingWindow
    >>> questions = wb.load("sample", variant="cbt")
    >>> both = Ensemble([ngram, SlidingWindow()])
    >>> both.name
    'ensemble of 3-gram, Kneser-Ney; Sliding window'
    >>> bool((abs(both.score(questions, questions.frame["candidates"]).sum(axis=1) - 1) < 1e-9).all())
    True
    >>> of_predictions = Ensemble([ngram.predict(questions), SlidingWindow().predict(questions)])
    >>> len(of_predictions.predict(questions)) == len(questions)
    True
    """

    version = 1
    fitted_on = "a model"

    def __init__(self, models: Any) -> None:
        single = isinstance(models, Predictor | pd.DataFrame | str) or not isinstance(models, Iterable)
        several: Iterable[Any] = [models] if single else models
        self.models = [model if isinstance(model, Predictor) else _StoredScores(model) for model in several]
        check_value("models", models, bool(self.models), "one model or run at least")
        names = list(dict.fromkeys(model.name for model in self.models))
        self.name = f"ensemble of {f'{len(self.models)} x ' if len(names) == 1 else ''}{'; '.join(names)}"
        self.systems = _shared_systems(self.models)  # type: ignore[misc] # of this ensemble
        self.device, self.mask = self.models[0].device, self.models[0].mask

    @property
    def config(self) -> dict[str, Any]:
        """The configurations of the models, in order."""
        return {"models": [{"name": model.name, "config": model.config} for model in self.models]}

    @property
    def training(self) -> dict[str, Any]:
        """The training of the models."""
        trainings = [model.training for model in self.models]
        return {"models": trainings} if any(trainings) else {}

    @property
    def context(self) -> ReadContext | None:
        """Extent that all models read together; None if unknown for one of them."""
        contexts = {model.context for model in self.models}
        if len(contexts) == 1 or None in contexts:
            return contexts.pop() if len(contexts) == 1 else None
        stated = [context for context in contexts if context is not None]
        side: Side = "both" if any(context.side == "both" for context in stated) else "before"
        return ReadContext(side, scores_rest=any(context.scores_rest for context in stated))

    def in_training(self, items: Items) -> pd.Series[Any]:
        """Return which items the texts of one of the models contain whole; null if unknown."""
        return reduce(or_, [model.in_training(items) for model in self.models])

    def score(self, items: Items, words: Sequence[Sequence[str]]) -> Floats:
        """Return the mean probability of each of the items' words, shape (n, most words); NaN beyond them."""
        shares = []
        for model in self.models:
            scores = model.score(items, words)
            values, inside = check_scores(items, scores, words, model=model.name, dtype=model.dtype)
            shares.append(_probabilities(values, inside))
        return np.where(inside, np.mean(shares, axis=0), np.nan)

    def _save(self, folder: Path) -> None:
        for number, model in enumerate(self.models):
            model.save(folder / f"{number}")

    @classmethod
    def _load(cls, folder: Path, config: dict[str, Any]) -> Ensemble:
        return cls([Predictor.load(folder / f"{number}") for number in range(len(config["models"]))])


class _StoredScores(Predictor):
    """A model of the scores that a run stores for the candidates of its items."""

    version: ClassVar[int] = 1

    def __init__(self, run: Any) -> None:
        run = find_run(run) if isinstance(run, str) else run
        frame = check_predictions(run) if isinstance(run, pd.DataFrame) else getattr(run, "predictions", None)
        names = [] if frame is None else frame["model"].unique().tolist()
        if frame is None or len(names) != 1:
            got = type(run).__name__ if frame is None else f"those of {len(names)}"
            raise DataError(
                f"expected a model or predictions of one, got {got}", hint="pass models or runs, each apart"
            )
        self.name, self.score_type = str(names[0]), str(frame["score_type"].iloc[0])
        systems = frame.groupby("dataset")["system"].first().dropna()
        self.systems = {str(name): str(system) for name, system in systems.items()}  # type: ignore[misc]
        self._in_training = (
            frame.set_index("item_id")["in_training"] if "in_training" in frame else pd.Series()
        )
        lists = zip(frame["item_id"], frame["candidate_scores"], strict=True)
        self._scores = {str(item_id): list(map(float, row)) for item_id, row in lists if row is not None}

    @property
    def config(self) -> dict[str, Any]:
        return {"scores": digest(json.dumps(self._scores, sort_keys=True))}

    def in_training(self, items: Items) -> pd.Series[Any]:
        return self._in_training.reindex(items.frame["item_id"]).astype("boolean")

    def score(self, items: Items, words: Sequence[Sequence[str]]) -> Floats:
        rows = []
        for item_id, candidates, row in zip(
            items.frame["item_id"], items.frame["candidates"], words, strict=True
        ):
            scores = self._scores.get(item_id)
            if scores is None or candidates is None or list(row) != list(candidates):
                raise DataError(
                    f"the predictions of {self.name!r} have no scores of these words for {item_id}",
                    hint="pass the items that were predicted, or the model itself",
                )
            rows.append(scores)
        return pad(rows)

    def _save(self, folder: Path) -> None:
        del folder
        raise DataError("an ensemble of runs cannot be saved", hint="make it of the models")


def _probabilities(scores: Floats, inside: Any) -> Floats:
    """Return scores (n, m) as probabilities of the words of each item; 0 beyond them (not `inside`).

    The scores are numbers or -inf, as they are beyond the words.
    """
    from scipy.special import softmax  # type: ignore[import-untyped]  # noqa: PLC0415 - slow

    values, shares = scores.copy(), np.where(inside, scores, 0.0)
    if (shares >= 0).all() and (np.abs(shares.sum(axis=1) - 1) < _SUM).all():
        return shares
    values[np.isneginf(values).all(axis=1)] = 0.0  # no word is possible: none is preferred
    return np.asarray(softmax(np.where(inside, values, -np.inf), axis=1), dtype=float)


def _shared_systems(models: Sequence[Predictor]) -> dict[str, str]:
    """Return the rows of the papers' tables of an ensemble of one system (Hill et al. 2016, table 3)."""
    names = {model.systems.get("cnnqa", "") for model in models}
    system = f"{min(names).removesuffix(')')} + ENSEMBLE)"
    return {"cnnqa": system} if len(names) == 1 and system in _SYSTEMS else {}
