"""Influence of the parts of a passage on the answer: each omitted or masked in turn.

Influences are summarised by their mean by distance, and by their correlation with attention.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbench.analysis.mentions import mentions
from workbench.evaluation.bootstrap import BootstrapSettings, Floats, Units, intervals, resample
from workbench.items.changes import masked, numbered, with_answer, without, word_spans
from workbench.items.items import Item, Items, Span, check_items
from workbench.models.base import Predictor
from workbench.models.item_words import Attention
from workbench.predictions.schema import check_model
from workbench.probing import check_probable
from workbench.storage.errors import DataError, check_option, check_value

Part = Literal["sentence", "word", "mention"]
How = Literal["omitted", "masked"]

INFLUENCE_COLUMNS = (
    "item_id", "part", "start", "end", "text", "distance", "influence", "against", "contrast", "rank",
    "rank_change", "attention",
)  # fmt: skip

DISTANCES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
"""Least distances of the bins in which influences are averaged: each third is twice the first."""

_ITEMS = 64  # asked at a time


def influence(
    model: Predictor,
    items: Items,
    by: Part = "sentence",
    against: str | pd.Series[Any] | None = None,
    how: How = "omitted",
    *,
    mask: str | None = None,
    ranks: bool = False,
    attention: bool | str = False,
) -> pd.DataFrame:
    """Return the change in the answer's log-probability due to each part of a passage before its blank.

    Each part is omitted or masked in turn. The influence of a part is ln p(answer | whole passage) - ln
    p(answer | passage without the part): above 0 where the part speaks for the answer.

    Parameters
    ----------
    model : Predictor
        A model of log-probabilities.
    items : Items (n,)
        Items with answers.
    by : {"sentence", "word", "mention"}
        The parts: the sentences before the target sentence, the words before the blank (by white space), or
        the earlier mentions of the answer (:func:`workbench.analysis.mentions.mentions`).
    against : str or Series, optional
        Another word, for the influence on ln p(answer) - ln p(other word): why this word and not that one. A
        word for all items; ``"prediction"`` for each item's most probable word that is not the answer; or a
        Series of words by ``item_id``, without a contrast where it has none.
    how : {"omitted", "masked"}
        Whether a part is removed, with the white space that is left over, or each of its words replaced by a
        neutral one: from its first letter or digit to its last, so that punctuation, and the distances of all
        other words, stay. A part without letters and digits is replaced as a whole.
    mask : str, optional
        The neutral word. By default ``model.mask``: ``_`` for a causal model, which has no mask among its
        sub-tokens (the mark of an end would tell it that another text begins); ``□`` for an n-gram or a
        neural model, an unknown word that no vocabulary has.
    ranks : bool, default False
        Whether the ranks of the answer are compared, too, by ``model.ranking_words``. Ranks cost more than
        log-probabilities, as all words are compared.
    attention : bool or str, default False
        Whether the attention to each part is returned, too, by ``model.attend``: of all hops, layers and
        heads together, or of the one that is named, such as ``"layer 2"``.

    Returns
    -------
    DataFrame
        One row per part, in the order of the text: ``item_id``; number of the ``part``, from 0; ``start`` and
        ``end`` in ``item.text``; ``text``; ``distance``, the number of words from the end of the part to the
        answer, 1 for the word before it; ``influence`` in nats; with `against`, the other word (column
        ``against``) and ``contrast``, the influence on the difference, in nats; and with `ranks`, the
        ``rank`` of the answer after the whole passage and ``rank_change``, its rank without the part less
        that: above 0 where the part speaks for the answer. Null where there is no rank, the answer is none of
        the words that the model ranks, or a rank is only a lower bound (`budget` of a causal model).

        With `attention`, the weight of the part (column ``attention``), and its correlation with the
        influence in ``.attrs["attention_correlation"]``: of each item, Kendall's tau-b over its parts is
        computed (Jain and Wallace 2019, section 4.1). ``correlation`` is the mean over the ``n`` items that
        have a tau, ``low`` and ``high`` its 95 % bootstrap interval over items; the ``n_missing`` others have
        one part, or equal values for all. Beside ``attention`` stands ``nearness``, the tau of influence and
        nearness to the answer: attention without more information than that has no greater tau.

    Raises
    ------
    DataError
        If the model has no log-probabilities (a masked language model has pseudo-log-likelihoods), or no
        ranks or attention where they are wanted, an item has no answer, or an argument is not valid.

    Notes
    -----
    Without a few words a text is ungrammatical, and unlikely for that reason too; without
    a sentence it reads well more often. A masked text has the length of the whole one, but no model was
    trained on it. A conclusion that both support is safer.

    Log-probabilities as of `model.log_prob`: of the answer and the end of the word, whatever follows.
    The model is asked about a passage and all its changed forms together. A causal model (of a kind whose
    paths can share a row, such as GPT-2 and Llama) computes once what a form and the whole passage begin
    with. A passage of five sentences then costs 2.9 readings of it (64 passages of the sample, padding
    counted), with `against` as many; one form at a time it would cost 3.9. By word, 68 words before the
    blank cost 33 readings. Other models read each form anew.

    References
    ----------
    Jain and Wallace 2019, "Attention is not Explanation".

    Examples
    --------
    >>> parts = wb.influence(ngram.cached(), items[:3])
    >>> parts["item_id"].nunique(), bool(parts["influence"].notna().all())
    (3, True)
    """
    check_model(model, "influence")
    check_items(items, "influence")
    check_option("by", by, get_args(Part))
    check_option("how", how, get_args(How))
    check_value("mask", mask, mask is None or len(mask.split()) == 1, "one word")
    check_probable(model, "whose changes are the influence")
    if (bare := items.frame["answer"].isna()).any():
        which = items.frame["item_id"][bare].iloc[0]
        raise DataError(f"{which} has no answer", hint="pass items with answers")
    others = _others(model, items, against)
    word = None if how == "omitted" else mask or model.mask
    rows: list[tuple[Any, ...]] = []
    for start in range(0, len(items), _ITEMS):
        batch = slice(start, start + _ITEMS)
        rows += _rows(model, items[batch], by, others[batch], word, ranks=ranks, attention=attention)
    types: Any = dict.fromkeys(("influence", "contrast", "attention"), float)
    types |= dict.fromkeys(("rank", "rank_change"), "Int64")
    frame = pd.DataFrame(rows, columns=list(INFLUENCE_COLUMNS)).astype(types)
    unused = ["against", "contrast"] * (against is None) + ["rank", "rank_change"] * (not ranks)
    frame = frame.drop(columns=unused + ["attention"] * (not attention))
    if attention:
        frame.attrs["attention_correlation"] = _correlations(frame)
    return frame


def parts_of(item: Item, by: Part) -> list[Span]:
    """Return the parts of a passage before its blank: sentences, words, or mentions of the answer."""
    if by == "sentence":
        return [span for span in item.sentences[:-1] if span[0] < span[1]]
    spans = word_spans(item) if by == "word" else mentions(item)
    return [span for span in spans if span[1] <= item.answer_span[0] and span[0] < span[1]]


def _rows(
    model: Predictor,
    items: Items,
    by: Part,
    others: list[str | None],
    mask: str | None,
    *,
    ranks: bool,
    attention: bool | str,
) -> list[tuple[Any, ...]]:
    """Return the rows of a batch of items, whose changed forms are scored in one call."""
    spans_of = [parts_of(item, by) for item in items]
    weights_of: list[Floats] = [np.full(len(spans), np.nan) for spans in spans_of]
    if attention:
        row = "" if attention is True else attention
        pairs = zip(model.attend(items), spans_of, strict=True)
        weights_of = [attention_to_parts(each, spans, row) for each, spans in pairs]
    forms = [
        [item, *(without(item, x) if mask is None else masked(item, x, mask) for x in reversed(spans))]
        for item, spans in zip(items, spans_of, strict=True)
    ]  # the longest beginning first
    answers = [
        [(form, form if other is None else with_answer(form, other)) for form in row]
        for row, other in zip(forms, others, strict=True)
    ]
    n_words = [1 if other is None else 2 for other in others]
    asked = [form for row, n in zip(answers, n_words, strict=True) for pair in row for form in pair[:n]]
    values = iter(model.log_prob(numbered(asked)).tolist())
    ranked = iter(_ranks(model, [form for row in forms for form in row]) if ranks else ())
    rows: list[tuple[Any, ...]] = []
    for item, spans, weights, other, n in zip(items, spans_of, weights_of, others, n_words, strict=True):
        log_probs = np.array([[next(values) for _ in range(n)] for _ in range(len(spans) + 1)])
        with np.errstate(invalid="ignore"):  # of two that are impossible
            change = (log_probs[:1] - log_probs[1:])[::-1]
            contrast = change[:, 0] - change[:, -1] if n > 1 else np.full(len(spans), np.nan)
        rank = [next(ranked) for _ in range(len(spans) + 1)] if ranks else [pd.NA] * (len(spans) + 1)
        rank_change = [each - rank[0] for each in reversed(rank[1:])]
        starts = np.array([first for first, _ in word_spans(item) if first < item.answer_span[0]])
        for number, (start, end) in enumerate(spans):
            distance = 1 + int((starts >= end).sum())
            about = (item.item_id, number, start, end, item.text[start:end], distance)
            ranking = (rank[0], rank_change[number])
            rows.append((*about, change[number, 0], other, contrast[number], *ranking, weights[number]))
    return rows


def _ranks(model: Predictor, forms: list[Item]) -> list[Any]:
    """Return the rank of each item's answer; null if it is none of the ranked words, or only a bound."""
    frame = model.ranking_words.predict(numbered(forms), 1)
    rank = frame["rank"].astype("Int64")
    rank = rank.mask(~frame["known"].fillna(value=True).astype(bool))
    if "rank_is_bound" in frame:
        rank = rank.mask(frame["rank_is_bound"].fillna(value=False).astype(bool))
    return rank.tolist()


def _others(model: Predictor, items: Items, against: str | pd.Series[Any] | None) -> list[str | None]:
    """Return the contrast word of each item, or None if it is missing or equals the answer."""
    ids, answers = items.frame["item_id"], items.frame["answer"].tolist()
    if against is None:
        return [None] * len(items)
    valid = isinstance(against, pd.Series) or bool(against.strip())
    check_value("against", against, valid, "a word, 'prediction' or a Series of words by item_id")
    if isinstance(against, pd.Series):
        words = against.reindex(ids).tolist()
    elif against == "prediction":
        ranking = model.ranking_words
        best = ranking.predict(items, top_k=2)["top_words"]
        words = [
            next((word for word in row if ranking.form(word) != ranking.form(answer)), None)
            for row, answer in zip(best, answers, strict=True)
        ]
    else:
        words = [against] * len(items)
    pairs = zip(words, answers, strict=True)
    return [
        word if isinstance(word, str) and word.strip() and word != answer else None for word, answer in pairs
    ]


def influence_by_distance(
    parts: Any,
    value: str = "influence",
    *,
    edges: Sequence[int] = DISTANCES,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    """Return the mean influence of parts by their distance from the answer, with bootstrap intervals.

    Parameters
    ----------
    parts : DataFrame or mapping of str to DataFrame
        What :func:`influence` returned, for one or several models by name.
    value : {"influence", "contrast", "rank_change"}
        The column that is averaged.
    edges : sequence of int
        Least distance of each bin, ascending; the last bin has no end.
    level, resamples, seed
        Confidence level, bootstrap replicates, and their seed. Whole items are resampled, as the parts of an
        item are not independent.

    Returns
    -------
    DataFrame
        One row per model and bin that has parts: ``model``; ``distance``, the mean in the bin; ``first`` and
        ``last``, the least and the greatest distance there; the mean of the column, by its name; ``low`` and
        ``high``, NaN for a single item; ``n_parts``; ``n``, the items that have any. Parts whose value is
        missing or infinite are not counted; their number is in ``.attrs["n_missing"]``.

    Examples
    --------
    >>> from workbench.probing.influence import influence_by_distance
    >>> curve = influence_by_distance(wb.influence(ngram.cached(), items[:20], by="word"))
    >>> curve["n"].max()
    20
    """
    how = BootstrapSettings(level, resamples, seed).checked()
    starts = np.asarray(edges)
    check_value("edges", edges, len(starts) > 0 and bool((np.diff(starts) > 0).all()), "ascending numbers")
    rows: list[tuple[Any, ...]] = []
    n_missing = 0
    for model, frame in by_name(parts, value).items():
        is_finite = np.isfinite(frame[value].to_numpy(dtype=float, na_value=np.nan))
        n_missing += int((~is_finite).sum())
        counted = frame[is_finite & (frame["distance"] >= starts[0]).to_numpy()]
        bins = np.searchsorted(starts, counted["distance"], side="right")
        for _, rows_of_bin in counted.groupby(bins):
            distance, values = rows_of_bin["distance"], rows_of_bin[value].to_numpy(dtype=float)
            mean, low, high, n = _mean_by_item(values, rows_of_bin["item_id"], how)
            rows.append((model, distance.mean(), distance.min(), distance.max(), mean, low, high,
                         len(values), n))  # fmt: skip
    if not rows:
        raise DataError(f"no part has a finite {value}", hint="pass what wb.influence returned")
    columns = ["model", "distance", "first", "last", value, "low", "high", "n_parts", "n"]
    table = pd.DataFrame(rows, columns=columns)
    table.attrs["n_missing"] = n_missing
    return table


def _mean_by_item(
    values: Floats, items: pd.Series[Any], how: BootstrapSettings
) -> tuple[float, float, float, int]:
    """Return the mean of values (n,), its bootstrap interval over whole items, and the number of items."""
    codes, ids = pd.factorize(items)
    units = Units(codes.astype(np.int64), len(ids), "item")
    means, _ = resample(values[None], np.empty((0, len(values))), units, how.resamples, how.seed)
    low, high = intervals(means, how.level, len(ids))
    return float(values.mean()), float(low[0]), float(high[0]), len(ids)


def by_name(parts: Any, *columns: str) -> dict[str, pd.DataFrame]:
    """Return frames of influences by name, ``"influence"`` for a single one; DataError for anything else."""
    frames = dict(parts) if isinstance(parts, Mapping) else {"influence": parts}
    for name, frame in frames.items():
        required = ("item_id", "start", "end", "distance", "influence", *columns)
        got = list(frame.columns) if isinstance(frame, pd.DataFrame) else []
        if not set(required).issubset(got):
            raise DataError(
                f"expected a DataFrame of influences with the columns {', '.join(required)}, got "
                f"{', '.join(map(str, got)) or type(frame).__name__} ({name!r:.60})",
                hint="make it with wb.influence(model, items, against=..., ranks=True)",
            )
    return {str(name): frame for name, frame in frames.items()}


def attention_to_parts(attention: Attention, parts: Sequence[Span], row: str = "") -> Floats:
    """Return the attention to each part of one item, (parts,): its spans' weights by their overlap."""
    spans = np.array(attention.spans, dtype=float).reshape(-1, 2)
    start, end = np.array(parts, dtype=float).reshape(-1, 2).T[:, :, None]
    overlap = np.minimum(end, spans[:, 1]) - np.maximum(start, spans[:, 0])
    shares = overlap.clip(0) / np.maximum(spans[:, 1] - spans[:, 0], 1)
    return np.asarray(shares @ attention.row_weights(row), dtype=float)


def rank_correlation(values: npt.ArrayLike, others: npt.ArrayLike) -> float:
    """Return Kendall's tau-b of two sequences; NaN for fewer than two values, or if all are equal."""
    from scipy.stats import kendalltau  # type: ignore[import-untyped]  # noqa: PLC0415 - slow to import

    pairs = np.stack([np.asarray(values, dtype=float), np.asarray(others, dtype=float)])
    pairs = pairs[:, np.isfinite(pairs).all(axis=0)]
    if pairs.shape[1] < 2 or (np.ptp(pairs, axis=1) == 0).any():  # noqa: PLR2004 - a pair
        return float("nan")
    return float(kendalltau(*pairs).statistic)


def _correlations(frame: pd.DataFrame) -> dict[str, dict[str, float]]:
    """Return the rank correlation of influence with attention, and with nearness to the answer.

    Each is the mean over items of Kendall's tau-b over the parts, with its bootstrap interval over items.
    """
    items = [rows for _, rows in frame.groupby("item_id", sort=False)]
    taus = {
        "attention": [rank_correlation(rows["influence"], rows["attention"]) for rows in items],
        "nearness": [rank_correlation(rows["influence"], -rows["distance"]) for rows in items],
    }
    correlations = {}
    for variable, values in taus.items():
        counted = np.array([tau for tau in values if not np.isnan(tau)])
        if len(counted):
            ids = pd.Series(range(len(counted)))
            mean, low, high, n = _mean_by_item(counted, ids, BootstrapSettings())
            about = {"correlation": mean, "low": low, "high": high, "n": n, "n_missing": len(values) - n}
            correlations[variable] = about
    return correlations
