"""Runs of one model that differ in the seed alone: the mean accuracy, and the spread between seeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from workbench.evaluation.bootstrap import BootstrapSettings
from workbench.evaluation.metrics import (
    METRIC_COLUMNS,
    SPREAD,
    interval_notes,
    measure,
    shown_measures,
    typed,
    unknown_shares,
)
from workbench.evaluation.model_predictions import BY_SEED, by_seed, from_source, predictions_of, source_of
from workbench.evaluation.table_notes import unknown_note
from workbench.items.schema import WORD_CLASSES
from workbench.predictions.schema import mid_ranks
from workbench.predictions.signature import VARIANT
from workbench.render.results import Table, TableColumn, TableLayout
from workbench.storage.errors import DataError

_OF_RUN = ("class", "version", "config", "training", "items")
_OF_SEED = frozenset({"seed", "weights", "steps", "stopped"})
"""Names of what differs between seeds: the seed, and what training made of it."""
_SAME = ("dataset", "split", "variant", "answer", "system", "score_type", *VARIANT)
_MEANS = ("p_correct", "log_prob", "log_prob_uncorrected")
_RANKS = ("rank", "n_tied", "rank_is_bound")


class Replicates(Table):
    """Runs that differ in the seed alone; made by :func:`replicates`.

    Attributes
    ----------
    pooled : DataFrame
        The replicates as one model, one row per item: the column ``correct_by_seed`` has a bool for each run,
        ``p_correct`` and ``log_prob`` are means over the runs, ``rank`` is their median (of an even number
        the lower one), and the rest is from the first run that predicts what most runs predict.
    replicated : tuple of DataFrame
        The runs.
    """

    _metadata = ["_layout", "pooled", "replicated"]  # noqa: RUF012 - pandas keeps these attributes

    def __init__(
        self,
        frame: pd.DataFrame,
        layout: TableLayout,
        *,
        pooled: pd.DataFrame,
        replicated: Sequence[pd.DataFrame],
    ) -> None:
        super().__init__(frame, layout)
        self.pooled, self.replicated = pooled, tuple(replicated)


def replicates(runs: Any, *, level: float = 0.95, resamples: int = 2000, seed: int = 0) -> Replicates:
    """Measure runs of one model that differ in the seed alone.

    An accuracy depends on the items and on the seeds. The interval is over items, of the mean over the
    seeds; the spread between seeds is a column of its own. A difference between two models that both
    have several seeds is tested over items (or novels) and seeds (see
    :func:`workbench.evaluation.paired.accuracy_tests`).

    Parameters
    ----------
    runs : sequence of Run, DataFrame or str
        Two or more, for the same items, as ``wb.predict`` gives them.
    level, resamples, seed : float, int, int
        Confidence level of the intervals, number of bootstrap replicates, and the bootstrap's seed.

    Returns
    -------
    Replicates
        A DataFrame that shows its most important columns in a notebook. One row for all items, and one for
        each of several word classes: `model`, `word_class` (or ``all``), the columns of
        :func:`workbench.evaluation.metrics.evaluate`, of means over the seeds, and

        `n_seeds`
            Number of runs.
        `seed_sd`, `seed_min`, `seed_max`
            Standard deviation (with n - 1), least and greatest accuracy of the seeds, as fractions.
        `spread`
            The standard deviation in words: ``± 0.8 between 3 seeds``, in percentage points.

        It can be passed as one run to ``wb.compare``, ``wb.evaluate``, ``wb.leaderboard``,
        ``wb.significance`` and ``wb.table``; everything else takes it as its runs.

    Raises
    ------
    DataError
        If there is one run only, or the runs differ in more than the seed: the message says in what. Frames
        without a record of their run are compared by model, items and the columns that name the variant.

    Examples
    --------
    >>> from workbench.models import RandomWord
    >>> model = RandomWord("passage")
    >>> three = wb.replicates([wb.predict(items, model, seed=seed) for seed in (1, 2, 3)])
    >>> three["n_seeds"].tolist(), len(wb.evaluate([three, runs[0]]))
    ([3], 2)
    """
    sampling = BootstrapSettings(level, resamples, seed).checked()
    models = predictions_of(runs)
    names = [source_of(frame).run for frame in models if source_of(frame).run]
    if len(models) < 2 or len(set(names)) < len(names):  # noqa: PLR2004 - a spread needs two
        problem = f"expected two different runs or more, got {', '.join(names) or len(models)}"
        raise DataError(problem, hint="pass runs of several seeds, each once")
    first, *others = models
    for other in others:
        for difference, a, b in _differences(first, other):
            problem = f"these runs differ in more than the seed: {difference} is {a!r:.80} and {b!r:.80}"
            raise DataError(problem, hint="pass runs of one model and one setting, for the same items")
    seeds = _seeds(models)
    frame = _pooled(models, ", ".join(seeds))
    model = source_of(frame).model
    classes = [name for name in WORD_CLASSES if (frame["word_class"] == name).any()]
    frames = {"all": frame}
    frames |= {name: frame[frame["word_class"] == name] for name in classes if len(classes) > 1}
    rows = [{"model": model, "word_class": name} | measure(each, sampling) for name, each in frames.items()]
    table = typed(pd.DataFrame(rows, columns=["model", "word_class", *METRIC_COLUMNS, *SPREAD]))
    table = table.astype({"word_class": "str"})
    which = f"seeds {', '.join(seeds)}" if seeds else f"{len(models)} seeds"
    table.attrs["warnings"] = unknown_note(unknown_shares(table, ["word_class"]))
    table.attrs["note"] = interval_notes(table)
    heading = TableColumn("word_class", tooltip="All items, or those of a word class.")
    bounds = (TableColumn(name, "share") for name in ("seed_min", "seed_max"))
    columns = (heading, *shown_measures(table)[:2], *bounds)
    layout = TableLayout(f"{model}, mean of {which}", columns, signature="signature")
    return Replicates(table, layout, pooled=frame, replicated=models)


def _differences(a: pd.DataFrame, b: pd.DataFrame) -> Iterator[tuple[str, Any, Any]]:
    """Yield the differences of two runs apart from the seed: name, and the values."""
    sources = source_of(a), source_of(b)
    if sources[0].model != sources[1].model:
        yield "the model", sources[0].model, sources[1].model
    if a["item_id"].tolist() != b["item_id"].tolist():
        ids = [set(frame["item_id"]) for frame in (a, b)]
        yield "the number of items that only one has", len(ids[0] - ids[1]), len(ids[1] - ids[0])
        return
    for name in _SAME:
        first, other = a[name], b[name]
        differ = ~((first == other) | (first.isna() & other.isna())).fillna(value=False).to_numpy(dtype=bool)
        if differ.any():
            index = int(differ.argmax())
            yield f"{name} of {a['item_id'].iloc[index]}", first.iloc[index], other.iloc[index]
    if all(source.info for source in sources):
        settings = [dict(_flat({name: source.info.get(name) for name in _OF_RUN})) for source in sources]
        for name in dict.fromkeys((*settings[0], *settings[1])):
            values = [config.get(name) for config in settings]
            if values[0] != values[1] and _OF_SEED.isdisjoint(name.split(".")):
                yield name, values[0], values[1]


def _flat(values: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested mappings by their path, such as ``config.width``."""
    if not isinstance(values, Mapping):
        yield name, values
        return
    for key, value in values.items():
        yield from _flat(value, f"{name}.{key}" if name else str(key))


def training_seeds(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the seeds of a run's training by their path in its config; empty of a model without any."""
    config = _flat(info.get("config", {}))
    return {name: value for name, value in config if name.rpartition(".")[2] == "seed"}


def _seeds(frames: Sequence[pd.DataFrame]) -> list[str]:
    """Return the seeds of the runs: of the training if they differ, else of the predictions."""
    infos = [source_of(frame).info for frame in frames]
    by_name = list(map(training_seeds, infos))
    for name in by_name[0]:
        values = [str(seeds.get(name)) for seeds in by_name]
        if len(set(values)) > 1:
            return values
    return [str(info["seed"]) for info in infos if info.get("seed") is not None]


def _pooled(frames: Sequence[pd.DataFrame], seeds: str) -> pd.DataFrame:
    """Return replicates as one model; see :class:`Replicates`."""
    n, every = len(frames[0]), pd.concat(frames, ignore_index=True)
    words = every["prediction"].fillna("").str.casefold().to_numpy(dtype=object).reshape(len(frames), n)
    votes = (words[:, None, :] == words[None, :, :]).sum(axis=1)  # (runs, n): that predict the same
    frame = every.iloc[votes.argmax(axis=0) * n + np.arange(n)].reset_index(drop=True)
    ranks = np.nan_to_num(mid_ranks(every["rank"], every["n_tied"]), nan=np.inf).reshape(len(frames), n)
    middle = np.argsort(ranks, axis=0, kind="stable")[(len(frames) - 1) // 2]
    medians = every.iloc[middle * n + np.arange(n)].reset_index(drop=True)
    means = {
        name: every[name].to_numpy(dtype=float, na_value=np.nan).reshape(len(frames), n).mean(axis=0)
        for name in _MEANS
    }
    right = np.stack([by_seed(frame)[:, 0] for frame in frames], axis=1)
    frame = frame.assign(**means, **{name: medians[name] for name in _RANKS})
    frame[BY_SEED] = pd.Series(list(map(tuple, right.tolist())), dtype=object)
    sources = [source_of(frame) for frame in frames]
    run = ", ".join(filter(None, (source.run for source in sources)))
    info = dict(sources[0].info) | ({"seed": seeds} if seeds else {})
    return from_source(frame.assign(run=run), replace(sources[0], run=run, info=info))
