"""The predictions table: one row per item and model, for every model and task; its columns and checks."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from workbench.items.items import Items
from workbench.items.schema import objects
from workbench.storage.cache import digest
from workbench.storage.errors import DataError, reason

Floats = npt.NDArray[np.float64]

UNKNOWN_SCORING = ("none", "unk", "shared")
"""How an answer outside the vocabulary is scored: not at all, with the probability of ``<unk>``, or with that
probability divided by the number of different words that ``<unk>`` stands for."""

BOS = ("added", "none", "text", "omitted", "tokenizer", "unknown")
"""What a text of sub-tokens begins with: a mark of the beginning (BOS) that the tokenizer adds, none as the
tokenizer adds none, or one that stands in the text. Of other programs: it was left out whatever the tokenizer
does, it was left to the tokenizer, or neither is known."""

_ITEM = ("item_id", "dataset", "split", "variant", "word_class", "book_id", "answer")
_TEXT = pa.string()
SCHEMA = pa.schema(
    [(name, _TEXT) for name in (*_ITEM, "model", "system", "run", "prediction")]
    + [
        ("correct", pa.bool_()),
        ("p_correct", pa.float64()),
        ("score_type", _TEXT),
        ("log_prob", pa.float64()),
        ("rank", pa.int64()),
        ("n_tied", pa.int64()),
        ("n_choices", pa.int64()),
        ("known", pa.bool_()),
        ("top_words", pa.list_(_TEXT)),
        ("top_log_probs", pa.list_(pa.float64())),
        ("candidate_scores", pa.list_(pa.float64())),
        ("unit", _TEXT),
        ("filter", _TEXT),
        ("vocabulary_size", pa.int64()),
        ("unknown", _TEXT),
        ("case", _TEXT),
        ("prompt", _TEXT),
        ("log_prob_uncorrected", pa.float64()),
        ("greedy_correct", pa.bool_()),
        ("rank_is_bound", pa.bool_()),
        ("attention", pa.list_(pa.float64())),
        ("bos", _TEXT),
        ("in_training", pa.bool_()),
        ("detokenised", pa.bool_()),
        ("candidates_digest", _TEXT),
    ]
)
PREDICTION_COLUMNS = tuple(SCHEMA.names)
CATEGORIES = (
    "dataset", "split", "variant", "word_class", "book_id", "model", "system", "run", "score_type", "unit",
    "filter", "unknown", "case", "prompt", "bos",
)  # fmt: skip
"""Columns of text with few values."""

OPTIONAL = (
    "case", "prompt", "log_prob_uncorrected", "greedy_correct", "rank_is_bound", "attention", "bos",
    "in_training", "detokenised", "candidates_digest",
)  # fmt: skip
"""Columns that a frame may lack; they are null then.

``case`` is "sum" where the probabilities of a word's cased forms are added, and null where words stand as
they are spelt. ``prompt`` tells (as JSON) what stood before the passage, ``log_prob_uncorrected`` is the
log-probability of the answer's sub-tokens, whatever goes on after them, ``greedy_correct`` whether each of
these was the most probable one, ``rank_is_bound`` whether the rank is at least what ``rank`` says,
``attention`` has one weight per token of the item (see :func:`workbench.items.tokens.tokens`), ``bos`` is one
of `BOS`, null for models without sub-tokens, ``in_training`` tells whether all of the item's passage
stands in the texts that the model was fitted on, ``detokenised`` whether its tokens were joined to text
as a book would print it, and ``candidates_digest`` is what `candidate_digests` gives for the item.
"""
FROM_ANSWERS = (
    "workbench.predictions.schema.from_answers(items, frame, model=...) makes predictions of answers"
)
_NEVER_NULL = (
    "item_id", "dataset", "split", "variant", "model", "run", "score_type", "unit", "filter", "unknown",
)  # fmt: skip
_EXTENSIONS = {
    pa.string(): pd.StringDtype(na_value=np.nan), pa.bool_(): pd.BooleanDtype(), pa.int64(): pd.Int64Dtype()
}  # fmt: skip
_KINDS = {pa.string(): "str", pa.bool_(): "boolean", pa.int64(): "Int64", pa.float64(): "float64"}
_WORDS = {
    "score_type": ("log_prob", "score"), "unit": ("word", "whole-word", "last-token"),
    "filter": ("none", "stop-words"), "unknown": UNKNOWN_SCORING,
}  # fmt: skip
_APOSTROPHES = str.maketrans("’‘ʼ`´", "'''''")  # noqa: RUF001 - as they are shown, and typed
_MARKS = r"""[\s"'“”„‟«»‹›.,;:!?…¡¿()\[\]{}*_–—]+"""  # noqa: RUF001 - quotes, brackets, sentence marks, emphasis
_AROUND = re.compile(f"^{_MARKS}|{_MARKS}$")
_UNKNOWN_ITEM = "its id is not one of the items"
_SLACK = 1e-9
_LOOSE = 1e-3  # two sums of single-precision logarithms
_VARIANT = {"run": "", "system": None, "unit": "word", "filter": "none", "vocabulary_size": pd.NA,
            "unknown": "none", **dict.fromkeys(OPTIONAL)}  # fmt: skip


def check_model(model: Any, caller: str) -> None:
    """Raise DataError unless this predicts items; `caller` is the function that takes it."""
    if isinstance(model, type) or not callable(getattr(model, "predict", None)):
        raise DataError(
            f"{caller} takes a model, not {model!r:.80}: it has no predict(items, top_k)",
            hint="pass one such as NGram.fit(...) or CausalLM(...) gives",
        )


def plain_word(word: str) -> str:
    """Return a written word without surrounding white space, composed (NFC), with plain apostrophes."""
    return " ".join(unicodedata.normalize("NFC", word).translate(_APOSTROPHES).split())


def bare_word(word: str) -> str:
    """Return `plain_word` without quotes and sentence marks around it, if anything else is there."""
    word = plain_word(word)
    return _AROUND.sub("", word) or word


def same_word(word: str | None, answer: str | None, candidates: Iterable[str] | None = None) -> bool:
    r"""Return whether a word that a person or program wrote is the answer: the rule for all that is imported.

    It is, but for case, the shape of apostrophes, and white space, quotes, brackets and sentence marks around
    it; not if it is another one of the candidates, letter by letter.

    Examples
    --------
    >>> from workbench.predictions.schema import same_word
    >>> [same_word(word, "river") for word in (" river", "River.", "“river”\n", "a river", "rivers")]
    [True, True, True, False, False]
    >>> same_word("Mr", "Mr."), same_word("Mr", "Mr.", candidates=["Mr.", "Mr"])
    (True, False)
    """
    if not word or not answer:
        return False
    plain = word.strip()
    if plain != answer and plain in (candidates or ()):
        return False
    return bare_word(word).casefold() == bare_word(answer).casefold()


def note_marks(frame: pd.DataFrame, words: Sequence[Any]) -> str:
    """Return a note on right predictions (n,) whose written `words` (n,) are the answers but for marks."""
    pairs = zip(words, frame["answer"], frame["correct"].fillna(value=False), strict=True)
    n = sum(bool(right) and not _is_alike(word, answer) for word, answer, right in pairs)
    written = "white space, or marks around the word"
    return f"Right answers that differ from the item's in {written}: {n:,} of {len(frame):,}." if n else ""


def _is_alike(word: Any, answer: Any) -> bool:
    return str(word).casefold() == str(answer).casefold()


def from_answers(
    items: Items, answers: Mapping[str, str] | pd.DataFrame, *, model: str, **variant: Any
) -> pd.DataFrame:
    """Return the predictions table of answers by people or other programs, in the order of the items.

    An answer is right if it is the item's by :func:`same_word`.

    Parameters
    ----------
    items : Items
    answers : mapping of item_id to word, or DataFrame
        A frame has the columns ``item_id`` and ``prediction``, and may have ``log_prob`` and ``rank``.
    model : str
        Name of the person or program.

    Returns
    -------
    DataFrame
        ``.attrs["note"]`` says how many answers are right but for white space and marks around the word.
    """
    if isinstance(answers, Mapping):
        answers = pd.DataFrame({"item_id": list(answers), "prediction": list(answers.values())})
    if lacking := {"item_id", "prediction"} - set(answers):
        raise DataError(f"the answers have no column {min(lacking)!r}")
    answers = answers.assign(model=model)
    check_rows(answers, ~answers["item_id"].duplicated(), "there are two answers")
    check_rows(answers, answers["item_id"].isin(items.frame["item_id"]), _UNKNOWN_ITEM)
    asked = items.where(items.frame["item_id"].isin(answers["item_id"]).to_numpy())
    rows = answers.set_index("item_id").loc[asked.frame["item_id"]].reset_index()
    columns = {
        "model": model,
        "score_type": "log_prob" if "log_prob" in rows else "score",
        "log_prob": rows["log_prob"].to_numpy(dtype=float) if "log_prob" in rows else np.nan,
        "rank": rows["rank"].astype("Int64").array if "rank" in rows else pd.NA,
    }
    words = rows["prediction"].tolist()
    frame = check_predictions(frame_of_answers(asked.frame, words, columns, variant))
    if note := note_marks(frame, words):
        frame.attrs["note"] = note
    return frame


def candidate_digests(items: pd.DataFrame) -> list[str]:
    """Return a digest of each item's candidates, ``10:`` and 16 hexadecimal digits; ``0`` without any.

    The number is that of the candidates. Two items have the same digest where they offer the same choice: the
    order of the candidates and their case do not count, a candidate that occurs twice counts twice.
    """
    return [
        "0"
        if words is None
        else f"{len(words)}:{digest(json.dumps(sorted(str(word).casefold() for word in words)))[:16]}"
        for words in items["candidates"]
    ]


def check_predictions(frame: pd.DataFrame, items: Items | None = None) -> pd.DataFrame:
    """Return predictions with the columns and types of `SCHEMA` after checking every value.

    Raises
    ------
    DataError
        If a column is missing or strange, an id occurs twice for one model and run or is not in `items`, a
        log-probability is above 0 or NaN, a rank below 1, or ``correct`` does not fit the prediction.
    """
    frame = _typed(frame)
    if items is not None:
        check_rows(frame, frame["item_id"].isin(items.frame["item_id"]), _UNKNOWN_ITEM)
    check_values(frame)
    return frame


def with_digests(frame: pd.DataFrame, items: Items) -> pd.DataFrame:
    """Return checked predictions with the digest of each item's candidates where they have none."""
    digests = pd.Series(candidate_digests(items.frame), items.frame["item_id"], dtype="str")
    filled = frame["candidates_digest"].fillna(frame["item_id"].map(digests))
    return frame.assign(candidates_digest=filled)


def check_values(frame: pd.DataFrame) -> None:
    """Raise DataError unless every value of typed predictions is valid; see `check_predictions`.

    No word is greater than NaN, so a model that computes NaN would have its answers at rank 1: where a
    vocabulary is ranked, the answer needs a log-probability. Minus infinity, a probability of 0, is valid.
    ``n_choices`` may be missing.
    """
    for name in _NEVER_NULL:
        check_rows(frame, frame[name].notna(), f"the column {name!r} is empty")
    for name, allowed in _WORDS.items():
        check_rows(frame, frame[name].isin(allowed), f"{name!r} is not one of {', '.join(allowed)}")
    twice = "it has two predictions: give each set of predictions a run or model name of its own"
    check_rows(frame, ~frame.duplicated(["item_id", "model", "run"]), twice)
    check_rows(frame, frame["bos"].isna() | frame["bos"].isin(BOS), f"'bos' is not one of {', '.join(BOS)}")
    size = frame["vocabulary_size"]
    among_vocabulary = (frame.get("n_choices", size) == size).fillna(value=size.notna()).astype(bool)
    ranked = frame["known"].fillna(value=False).astype(bool) & frame["answer"].notna() & frame["rank"].notna()
    needed = ranked & among_vocabulary & (frame["score_type"] == "log_prob")
    finite = ~(needed & frame["log_prob"].isna()) & (frame["log_prob"] != np.inf)
    check_rows(frame, finite, "the log-probability of the answer is not a number, or infinite")
    score = frame["score_type"] == "score"
    log_prob, open_ended = frame["log_prob"], frame["log_prob_uncorrected"]
    check_rows(frame, log_prob.isna() | ~score, "a score has no log-probability")
    for values in (log_prob, open_ended):
        check_rows(frame, values.isna() | (values <= _SLACK), "a log-probability is above 0")
    unended = open_ended.isna() | log_prob.isna() | (log_prob <= open_ended + _LOOSE)
    check_rows(frame, unended, "'log_prob' is above 'log_prob_uncorrected'")
    for name in ("rank", "n_tied"):
        check_rows(frame, (frame[name] >= 1).fillna(value=True), f"{name!r} is below 1")
    within = frame["p_correct"].isna() | frame["p_correct"].between(0, 1)
    check_rows(frame, within, "'p_correct' is not within 0 and 1")
    _consistent(frame)


def _typed(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with the columns and types of `SCHEMA`."""
    if lacking := [name for name in PREDICTION_COLUMNS if name not in frame.columns and name not in OPTIONAL]:
        raise DataError(f"the predictions have no column {lacking[0]!r}", hint=FROM_ANSWERS)
    if extra := [name for name in frame.columns if name not in PREDICTION_COLUMNS]:
        raise DataError(f"the predictions have a column {extra[0]!r}", hint="join such columns by item_id")
    frame = frame.assign(**{name: None for name in OPTIONAL if name not in frame.columns})
    frame = frame.loc[:, list(PREDICTION_COLUMNS)].reset_index(drop=True)
    return typed_predictions(frame)


def not_a_number(
    value: float,
    item_id: str,
    *,
    model: str,
    quantity: str = "log-probability of the answer",
    dtype: str | None = None,
) -> DataError:
    """Return the error of a model, with precision `dtype`, that computes NaN or infinity for an item."""
    precision = f" ({dtype})" if dtype else ""
    problem = "not a number" if np.isnan(value) else f"infinite ({value})"
    return DataError(
        f"the {quantity} is {problem} for {item_id} by the model {model!r}{precision}",
        hint="its weights are not finite, or its precision overflows: use dtype='float32' where the "
        "model has that option, else train or download it again",
    )


def typed_predictions(frame: pd.DataFrame) -> pd.DataFrame:
    """Convert the columns of a frame that are in `SCHEMA` to its types; DataError for other values."""
    arrays = {}
    for name in filter(frame.columns.__contains__, PREDICTION_COLUMNS):
        arrow_type, nulls = SCHEMA.field(name).type, 0
        try:
            if arrow_type in _KINDS:
                arrays[name] = frame[name].array.astype(_KINDS[arrow_type])
            else:
                nulls = pa.array(frame[name].tolist(), arrow_type, from_pandas=True).flatten().null_count
        except Exception as error:  # noqa: BLE001 - a value may be anything
            raise DataError(f"the column {name!r} is not of type {arrow_type} ({reason(error)})") from None
        if nulls:
            lacking = "word" if arrow_type.value_type == _TEXT else "number, or holds NaN"
            raise DataError(f"the column {name!r} has a list that lacks a {lacking}")
    return frame.assign(**arrays)


def _consistent(frame: pd.DataFrame) -> None:
    has = frame["answer"].notna()
    for name in ("correct", "p_correct"):
        check_rows(frame, frame[name].notna() == has, f"{name!r} must be null just where there is no answer")
    correct = frame["correct"].fillna(value=False).astype(bool)
    same = frame["prediction"] == frame["answer"]
    alike = frame["prediction"].str.casefold() == frame["answer"].str.casefold()
    marked = frame[["prediction", "answer"]][correct & ~alike]  # right but for marks, perhaps
    alike.loc[marked.index] = np.array([same_word(*row) for row in marked.to_numpy()], dtype=bool)
    check_rows(frame, ~correct | alike, "'correct' is true, but the prediction is not the answer")
    check_rows(frame, correct | ~same | ~has, "'correct' is false, but the prediction is the answer")
    first = (frame["rank"] == 1).fillna(value=True)
    check_rows(frame, ~correct | first, "'correct' is true, but the rank is not 1")
    check_rows(frame, ~correct | (frame["p_correct"] > 0), "'correct' is true, but 'p_correct' is 0")


def to_table(frame: pd.DataFrame) -> pa.Table:
    """Return checked predictions as an Arrow table with the columns of `SCHEMA`."""
    columns = []
    for field in SCHEMA:
        values = frame[field.name] if field.type in _KINDS else frame[field.name].tolist()
        columns.append(pa.array(values, field.type, from_pandas=True))
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def cast(table: pa.Table, names: Sequence[str] = PREDICTION_COLUMNS, encoded: Sequence[str] = ()) -> pa.Table:
    """Return columns of an Arrow table in the order and with the types of `SCHEMA`.

    Those in `encoded` are dictionaries. It may lack columns of `OPTIONAL`.
    """
    held = [
        field.with_type(pa.dictionary(pa.int32(), field.type)) if field.name in encoded else field
        for field in SCHEMA
        if field.name in names and (field.name in table.column_names or field.name not in OPTIONAL)
    ]
    return table.select([field.name for field in held]).cast(pa.schema(held))


def from_table(table: pa.Table) -> pd.DataFrame:
    """Return an Arrow table of predictions as a frame, with the types of `check_predictions`.

    It may have some of the columns of `SCHEMA` only, and dictionaries.
    """
    held = [name for name in PREDICTION_COLUMNS if name in table.column_names]
    table = cast(table.select(held), held)
    fields = [field for field in SCHEMA if field.name in table.column_names]
    plain = [field.name for field in fields if field.type in _KINDS]
    frame: pd.DataFrame = table.select(plain).to_pandas(types_mapper=_EXTENSIONS.get)
    for index, field in enumerate(fields):
        if field.type not in _KINDS:
            frame.insert(index, field.name, pd.Series(table[field.name].to_pylist(), dtype="object"))
    return frame


def frame_of(items: pd.DataFrame, columns: Mapping[str, Any], variant: Mapping[str, Any]) -> pd.DataFrame:
    """Join a model's columns to the items' columns, with the types of `SCHEMA`, unchecked."""
    if strange := set(variant) - set(_VARIANT):
        raise TypeError(f"predictions have no column {min(strange)!r}")
    digests = {"candidates_digest": candidate_digests(items)}
    return _typed(items.loc[:, list(_ITEM)].assign(**{**_VARIANT, **digests, **columns, **variant}))


def frame_of_answers(
    asked: pd.DataFrame, words: Sequence[Any], columns: Mapping[str, Any], variant: Mapping[str, Any]
) -> pd.DataFrame:
    """Return unchecked predictions: one word (null: none) per item, right if it is the answer by `same_word`.

    A right word that is not spelt as the answer, but for case, is written as the answer.
    """
    has = asked["answer"].notna().to_numpy()
    written = [str(word).strip() or None if pd.notna(word) else None for word in words]
    answers = [answer if ok else None for answer, ok in zip(asked["answer"].tolist(), has, strict=True)]
    same = list(map(same_word, written, answers, asked["candidates"]))
    correct = np.array(same, dtype=bool)
    pairs = zip(written, answers, same, strict=True)
    predictions = [answer if right and not _is_alike(word, answer) else word for word, answer, right in pairs]
    choices = [None if candidates is None else len(candidates) for candidates in asked["candidates"]]
    answered = {
        "prediction": predictions,
        "correct": nullable(correct, has),
        "p_correct": np.where(has, correct.astype(float), np.nan),
        "rank": pd.NA,
        "n_tied": pd.NA,
        "n_choices": pd.array(choices, dtype="Int64"),
        "known": nullable(has, has),
        **dict.fromkeys(("top_words", "top_log_probs", "candidate_scores"), objects([None] * len(asked))),
    }
    return frame_of(asked, answered | dict(columns), variant)


def check_rows(frame: pd.DataFrame, good: Any, problem: str) -> None:
    """Raise DataError for the first row that is not `good`, by its model and item."""
    right = np.asarray(good, dtype=bool)
    if not right.all():
        row = frame.iloc[int((~right).argmax())]
        raise DataError(f"predictions of {row['model']!r} for {row['item_id']}: {problem}")


def mid_ranks(rank: Any, n_tied: Any) -> Floats:
    """Return the mean of the ranks that each answer shares with the words tied with it; NaN without a rank.

    This is the rank of which tables, trainings and charts show medians. Where `n_tied` is null, no other word
    is tied with the answer.
    """
    first, tied = (
        np.asarray(pd.array(values, dtype="Float64").to_numpy(dtype=float, na_value=np.nan))
        for values in (rank, n_tied)
    )
    return np.asarray(first + (np.where(np.isnan(tied), 1.0, tied) - 1) / 2, dtype=np.float64)


def nullable(values: Any, has: npt.NDArray[np.bool_]) -> Any:
    """Return a nullable column of Booleans or whole numbers: null where `has` is false."""
    values = np.asarray(values)
    column: Any = pd.array(values.tolist(), dtype="boolean" if values.dtype == bool else "Int64")
    column[~has] = pd.NA
    return column


def text_array(column: Any) -> pa.Array:
    """Return a pandas column of text as one Arrow array; that of items put together has a chunk per set."""
    array = pa.array(column, pa.string(), from_pandas=True)
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
