"""Log-probabilities of any texts, alone or given contexts."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, get_args

import pandas as pd
import pyarrow as pa

from workbench.items import text as wt
from workbench.items.items import Item, Items
from workbench.models.base import Predictor
from workbench.models.text_scores import TEXT_SCORE_SCHEMA, Beginning, LongText
from workbench.predictions.schema import check_model
from workbench.predictions.store import model_identity
from workbench.storage import cache
from workbench.storage.errors import DataError, check_option
from workbench.storage.progress import progress_bar, report_progress

TEXTS_VERSION = 1
"""Raised when the same model gives the same texts other scores, so that stored ones are not found again."""

_SLICE = 256  # texts that are stored together, so what a killed process loses


def score_texts(
    models: Predictor | Iterable[Predictor],
    texts: str | Iterable[str],
    *,
    given: str | Iterable[str | None] | None = None,
    beginning: Beginning | None = None,
    window: LongText = "strided",
) -> pd.DataFrame:
    """Return the log-probability of each text by each model, alone or given a context.

    The words of a text end as everywhere in the workbench: ``log_prob`` includes that the last word is over
    (Pimentel and Meister 2024, section 3). The sum over the sub-tokens alone, as ``minicons`` and
    lm-evaluation-harness have it, is ``log_prob_uncorrected``. A masked model has pseudo-log-likelihoods
    (Salazar et al. 2020), with the rest of a word masked too (Kauf and Ivanova 2023) unless its
    ``within_word`` says otherwise.

    Scores are stored in ``cache/texts`` in slices of 256 texts, so that a call that was interrupted goes on.

    Parameters
    ----------
    models : Predictor, or several of these
        A :class:`workbench.models.CausalLM`, `ServerModel` or `MaskedLM`, an n-gram model or a neural
        language model.
    texts : str, or iterable of str
    given : str, or iterable of str (one per text), optional
        Contexts, which are read and not scored. The space between context and text is put in where neither
        has one, and belongs to the text. N-gram models read the sentence that the text continues.
    beginning : {"BOS", "nothing"}, optional
        What stands before a text without context. By default a mark of the beginning (BOS, else the mark of
        the end, as lm-evaluation-harness takes it) where the tokenizer has one. After nothing, the first
        sub-token has no probability and is not counted, which is what ``minicons`` does by default.
    window : {"strided", "error"}
        A text that is longer with its context than the model sees is read in windows that advance by half of
        its length, or is an error.

    Returns
    -------
    DataFrame
        One row per model and text: ``model``, ``text``, ``given`` (where contexts are), ``n_words`` (split at
        white space), ``n_subtokens`` (that are summed; null for models of whole words), ``log_prob`` and
        ``log_prob_uncorrected`` in nats (NaN where a model has none, as a server's does not know ends of
        words), ``bits_per_word`` of ``log_prob``, ``beginning`` (what stands before the first sub-token:
        "context", "BOS" or "nothing"), ``stride`` (sub-tokens by which windows advance; 0 for a text that
        fits), and ``measure`` ("log_prob", or the name of the pseudo-log-likelihood).

    Raises
    ------
    DataError
        If a text is empty, there are not as many contexts as texts, or a model has no probability of a text.

    References
    ----------
    Pimentel and Meister 2024, "How to Compute the Probability of a Word"; Salazar et al. 2020, "Masked
    Language Model Scoring"; Kauf and Ivanova 2023, "A Better Way to Do Masked Language Model Scoring".

    Examples
    --------
    >>> scores = wb.score_texts(ngram, ["The keys are on the table.", "The keys is on the table."])
    >>> scores[["n_words", "beginning"]].values.tolist()
    [[6, 'BOS'], [6, 'BOS']]
    >>> scores = wb.score_texts(ngram, ["in the house", "in house the"], given="The keys are")
    >>> bool(scores["log_prob"][0] > scores["log_prob"][1])
    True
    """
    rows = [texts] if isinstance(texts, str) else list(texts)
    contexts = [given] * len(rows) if given is None or isinstance(given, str) else list(given)
    if len(contexts) != len(rows):
        problem = f"expected one context or one per text ({len(rows):,}), got {len(contexts):,}"
        raise DataError(problem, hint="pass given= as one string, or as many as there are texts")
    items = text_items(rows, contexts)
    frames = []
    for model in model_list(models, "score_texts"):
        scores = stored_scores(model, items, beginning=beginning, window=window).to_pandas()
        frame = pd.DataFrame({"model": model.name, "text": rows})
        if given is not None:
            frame["given"] = contexts
        frame["n_words"] = [len(text.split()) for text in rows]
        frame["n_subtokens"] = scores["n_subtokens"].astype("Int64")
        for name in ("log_prob", "log_prob_uncorrected"):
            frame[name] = scores[name].astype(float)
        frame["bits_per_word"] = frame["log_prob"] / -math.log(2) / frame["n_words"]
        frames.append(frame.join(scores[["beginning", "stride", "measure"]]))
    return pd.concat(frames, ignore_index=True)


def model_list(models: Any, caller: str) -> list[Predictor]:
    """Return one model or several as a list; DataError where something is no model, or there is none."""
    several = [models] if hasattr(models, "predict") or not isinstance(models, Iterable) else list(models)
    for model in several:
        check_model(model, caller)
    if not several:
        raise DataError(f"{caller} takes a model or several, got none", hint="pass one at least")
    return several


def text_items(texts: Sequence[Any], contexts: Sequence[str | None]) -> Items:
    """Return texts as items: each is the answer after its context; DataError for one that is empty."""
    records = []
    for number, (text, context) in enumerate(zip(texts, contexts, strict=True), 1):
        if not isinstance(text, str) or not text.strip():
            raise DataError(
                f"expected a text, got {text!r:.80} (text {number})", hint="leave empty texts out"
            )
        passage, start = wt.after_context(text, context if isinstance(context, str) else "")
        span = start, len(passage)
        sentences = wt.up_to_target(wt.sentences(passage, tokenised=False), span, len(passage))
        records.append(
            Item(f"text {number}", "texts", "test", "plain", passage, text, span, sentences, tokenised=False)
        )
    return Items.from_records(records)


def stored_scores(
    model: Predictor, items: Items, *, beginning: Beginning | None, window: LongText
) -> pa.Table:
    """Return a model's scores of :func:`text_items`; those of a stored slice are not computed again.

    A bar shows how many texts are done, and the time for all. Scores by a user's class without a version are
    not stored.
    """
    check_option("beginning", beginning, (None, *get_args(Beginning)))
    check_option("window", window, get_args(LongText))
    identity = model_identity(model)
    store, tables = cache.Cache("texts", TEXT_SCORE_SCHEMA), []
    with progress_bar(len(items), label=model.name, unit="texts") as bar:
        for start in range(0, len(items), _SLICE):
            batch, done = items[start : start + _SLICE], bar.n

            def report(n: float, total: float, batch: Items = batch, done: float = done) -> None:
                bar.update(done + len(batch) * n / max(total, 1) - bar.n)

            columns = (batch.frame[name].tolist() for name in ("text", "answer_span"))
            texts = json.dumps([TEXTS_VERSION, identity, beginning, window, *map(list, columns)])
            key = cache.digest(texts)
            table = store.get(key) if identity["version"] is not None else None
            if table is None:
                with report_progress(report):
                    table = model.text_scores(batch, beginning=beginning, window=window).to_table()
                if identity["version"] is not None:
                    with suppress(DataError):  # they are here, whatever can be stored
                        store.put(key, table)
            report(1, 1)
            tables.append(table)
    cache.make_room()
    return pa.concat_tables(tables) if tables else TEXT_SCORE_SCHEMA.empty_table()
