"""Minimal pairs: which of two texts a model finds more probable."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from workbench.datasets.user_table import is_table
from workbench.evaluation.minimal_pairs import PAIR_COLUMNS, PAIR_RESULTS, pair_items, with_pairs
from workbench.items.schema import objects
from workbench.models.base import Predictor
from workbench.models.prediction_rows import from_scores
from workbench.models.text_scores import Beginning, LongText
from workbench.predictions.schema import PREDICTION_COLUMNS
from workbench.predictions.signature import SET_PREFIX
from workbench.probing.texts import model_list, stored_scores, text_items
from workbench.storage.errors import DataError, check_option
from workbench.storage.files import list_folder, read_bytes
from workbench.storage.tables import read_frame

Normalise = Literal["word", "character"]

_BOS = {"BOS": "added", "nothing": "none"}
_FORMS = "pass a list of (good, bad), a frame, or a CSV or JSON lines file or a folder of them"


def score_pairs(
    models: Predictor | Iterable[Predictor],
    pairs: Any,
    *,
    good: str = "sentence_good",
    bad: str = "sentence_bad",
    context: str = "context",
    sets: str = "UID",
    normalise: Normalise | None = None,
    beginning: Beginning | None = None,
    window: LongText = "strided",
    seed: int = 0,
) -> pd.DataFrame:
    """Return which text of each minimal pair is more probable by each model, as predictions.

    A pair is a choice between two texts, so the result is a frame of predictions:
    ``wb.evaluate(pairs, by="UID")``, ``wb.significance(pairs)``, ``wb.compare(pairs)``,
    ``wb.leaderboard(pairs)`` and ``wb.charts.accuracy(pairs, by="UID")`` take it. Pairs of one set share a
    template and are not independent, so sets are units of resampling, as novels are elsewhere.

    Parameters
    ----------
    models : Predictor, or several of these
        Models that :func:`workbench.score_texts` takes.
    pairs : path, DataFrame, or iterable of (good, bad)
        A file of JSON lines, as BLiMP's, CSV or another table, or a folder of such files, looked for in
        ``$WORKBENCH_DATA`` too.
    good, bad, context, sets : str
        Columns of the two texts, of a context that both are given (if there is one), and of the set. Without
        a column of sets, the files of a folder are sets.
    normalise : {"word", "character"}, optional
        Compare log-probabilities per word or per character of each text; as BLiMP, not by default.
    beginning, window
        As for :func:`workbench.score_texts`.
    seed : int, default 0
        Decides between two texts of the same probability.

    Returns
    -------
    DataFrame
        One row per model and pair: ``log_prob_good``, ``log_prob_bad`` (nats, the ends of words included; of
        a server the sub-tokens alone; pseudo-log-likelihoods of a masked model), ``difference`` (the first
        minus the second), ``difference_per_word`` and ``difference_per_character`` (of the log-probabilities
        divided by the lengths of the texts), ``correct`` (whether the good text is more probable), with
        ``p_correct`` 0.5 for a tie; the columns of `pairs`, and those of
        :data:`workbench.predictions.schema.PREDICTION_COLUMNS`: ``answer`` and ``prediction`` are the words
        that differ, ``book_id`` is the set. ``log_prob`` is null, as a pair has no single answer's.

    Raises
    ------
    DataError
        If there are no pairs or columns, a text is empty or missing, the two texts of a pair are equal, or a
        model has no probability of a text. The message has the row.

    References
    ----------
    Warstadt et al. 2020, "BLiMP: The Benchmark of Linguistic Minimal Pairs for English".

    Examples
    --------
    >>> pairs = wb.score_pairs(ngram, [("It is in the box.", "It is in box the."), ("He was.", "Was he.")])
    >>> pairs[["answer", "prediction"]].values.tolist()
    [['the box.', 'the box.'], ['He was.', 'He was.']]
    """
    check_option("normalise", normalise, (None, *get_args(Normalise)))
    columns = {"sentence_good": good, "sentence_bad": bad, "context": context}
    table = read_pairs(pairs, columns, sets)
    items = pair_items(table)
    texts = [text for row in zip(table["sentence_good"], table["sentence_bad"], strict=True) for text in row]
    asked = text_items(texts, np.repeat(table["context"], 2).tolist())
    words = np.array([len(text.split()) for text in texts]).reshape(-1, 2)
    letters = np.array([len(text) for text in texts]).reshape(-1, 2)
    frames = []
    for model in model_list(models, "score_pairs"):
        scores = stored_scores(model, asked, beginning=beginning, window=window).to_pandas()
        has_ends = scores["log_prob"].notna().any()
        values = scores["log_prob" if has_ends else "log_prob_uncorrected"].to_numpy(float).reshape(-1, 2)
        by_word, by_letter = values / words, values / letters
        compared = {None: values, "word": by_word, "character": by_letter}[normalise]
        is_probability = normalise is None and (scores["measure"] == "log_prob").all()
        predictions = from_scores(
            items, compared, items.frame["candidates"].tolist(), model=model.name, dtype=model.dtype,
            seed=seed, score_type="log_prob" if is_probability else "score",
            bos=objects([_BOS.get(start) for start in scores["beginning"][::2]]).to_numpy(),
        )  # fmt: skip
        with np.errstate(invalid="ignore"):
            differences = [rows[:, 0] - rows[:, 1] for rows in (values, by_word, by_letter)]
        results = dict(zip(PAIR_RESULTS, [*values.T, *differences], strict=True))
        frames.append(with_pairs(predictions, table, pd.DataFrame(results)))
    return pd.concat(frames, ignore_index=True)


def read_pairs(pairs: Any, columns: dict[str, str] | None = None, sets: str = "UID") -> pd.DataFrame:
    """Return checked pairs with ``item_id``, ``dataset``, ``book_id`` and their own columns.

    `columns` has the names of `PAIR_COLUMNS` in the table, where they are others.
    """
    columns = columns or {name: name for name in PAIR_COLUMNS}
    sources: list[tuple[pd.DataFrame, Path | None, Any]] = []
    if isinstance(pairs, str | Path):
        for path in _files(Path(pairs).expanduser()):
            frame, lines, problems, _ = read_frame(read_bytes(path, "these pairs"), path)
            if problems:
                raise problems[0]
            sources.append((frame, path, lines))
    elif isinstance(pairs, pd.DataFrame):
        sources.append((pairs, None, pairs.index))
    else:
        rows = list(pairs)
        if bad := [n for n, row in enumerate(rows) if isinstance(row, str) or len(row) != 2]:  # noqa: PLR2004
            raise DataError(f"row {bad[0]}: expected (good, bad), got {rows[bad[0]]!r:.80}", hint=_FORMS)
        frame = pd.DataFrame(rows, columns=[columns[name] for name in PAIR_COLUMNS[:2]])
        sources.append((frame, None, frame.index))
    tables = [_checked(*source, columns, sets, in_folder=len(sources) > 1) for source in sources]
    table = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()
    if table.empty:
        raise DataError("there are no pairs", hint=_FORMS)
    is_blimp = {"UID", "linguistics_term", "pairID"} <= set(table)
    table["dataset"] = "blimp" if is_blimp else "pairs"
    names = [table["dataset"], table["book_id"].str.removeprefix(SET_PREFIX)]
    numbers = pd.Series(np.arange(len(table)).astype(str)).str.zfill(6)
    for number in (table["pairID"].astype("str"), numbers) if is_blimp else (numbers,):
        levels = zip(*names, number, strict=True)
        table["item_id"] = ["/".join(name for name in row if isinstance(name, str)) for row in levels]
        if table["item_id"].is_unique:
            break
    return table


def _files(path: Path) -> list[Path]:
    """Return the tables in a folder, or the file itself; a relative path is looked for in the data, too."""
    home = os.environ.get("WORKBENCH_DATA")
    if not path.exists() and home:
        path = Path(home).expanduser() / path
    if not path.exists():
        raise DataError("there is no such file or folder", file=path, hint=_FORMS)
    if not path.is_dir():
        return [path]
    if files := [file for file in list_folder(path) if is_table(file)]:
        return files
    raise DataError("there are no tables in this folder", file=path, hint=_FORMS)


def _checked(
    frame: pd.DataFrame, path: Path | None, lines: Any, columns: dict[str, str], sets: str, *, in_folder: bool
) -> pd.DataFrame:
    """Return the pairs of one table with `PAIR_COLUMNS` and their set; DataError for the first bad row."""
    names = list(map(str, frame.columns))
    for name in PAIR_COLUMNS[:2]:
        if columns[name] not in names:
            problem = f"expected a column {columns[name]!r}, got {', '.join(names)}"
            raise DataError(problem, file=path, hint="name the columns of the texts: good=, bad=")
    table = frame.reset_index(drop=True).rename(columns={old: new for new, old in columns.items()})
    reserved = {*PREDICTION_COLUMNS, *PAIR_RESULTS}
    if taken := [name for name in table if name in reserved or list(table).count(name) > 1]:
        problem = f"the pairs have a column {taken[0]!r}, and the results have one too"
        raise DataError(problem, file=path, hint="give that column another name")
    contexts = table["context"].tolist() if "context" in table else [None] * len(table)
    contexts = [None if pd.isna(context) or context == "" else context for context in contexts]
    rows = zip(lines, *(table[name].tolist() for name in PAIR_COLUMNS[:2]), contexts, strict=True)
    for line, *texts in rows:
        good, bad, context = texts
        needed = texts[: 2 if context is None else 3]
        is_text = all(isinstance(text, str) and text.strip() for text in needed)
        if is_text and good != bad:
            continue
        problem = f"the two texts are equal: {good!r:.60}" if is_text else "a text is empty or missing"
        where = {"file": path, "line": line} if path else {}
        raise DataError(problem if path else f"row {line}: {problem}", **where, hint="leave the pair out")
    default = path.stem if path is not None and in_folder else None
    named = table[sets] if sets in table else pd.Series(default, table.index, dtype="object")
    table["book_id"] = [None if pd.isna(name) else f"{SET_PREFIX}{name}" for name in named.tolist()]
    return table.assign(book_id=table["book_id"].astype("str"), context=objects(contexts).to_numpy())
