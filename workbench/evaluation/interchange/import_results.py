"""Results computed elsewhere: read, matched to items, and made predictions that everything else takes."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from workbench.evaluation.interchange import inspect_log, lighteval, lm_eval, records
from workbench.evaluation.interchange.records import FileRecord, Notes, ResultRow, number_of, text_of
from workbench.items.items import Items, check_items
from workbench.items.schema import objects
from workbench.predictions import schema, store
from workbench.render.tables import html_table
from workbench.storage.errors import DataError, check_option

_PROGRAMS = (lm_eval.LM_EVAL, inspect_log.INSPECT, lighteval.LIGHTEVAL)
_FIRST = 10  # records by which a file is recognised, and rows that a notebook shows
_SLACK = 1e-9
_HOW = {"id": "by id", "text": "by text", "letters": "by letters and digits"}
_USUAL = {
    "item": ("item_id", "item", "text", "passage", "id"),
    "prediction": ("prediction", "predicted", "response", "guess"),
    "model": ("model",),
    "log_prob": ("log_prob",),
}


@dataclass(frozen=True)
class Imported:
    """Predictions that were made elsewhere. It can be passed wherever runs are.

    Attributes
    ----------
    kind : str
        ``lm-evaluation-harness``, ``Inspect``, ``lighteval``, ``predictions`` or ``answers``.
    predictions : DataFrame
        As :func:`workbench.predictions.schema.check_predictions` gives them, all models together.
    items : Items
        Those that were matched.
    matched : dict
        How many rows were matched ``by id``, ``by text`` (but for white space and quotes) or ``by letters and
        digits`` (punctuation, case or tokens differ).
    info : dict
        Name and kind of the file; of a sample log also task, filter, version of the harness, arguments of the
        model.
    name : str
        Name of the file; ``frame`` of a frame.
    n_records : int
        Records of the file or frame, bad ones included.
    report : DataFrame
        Problems of single records: line, problem, text (its start), kept (false: left out).
    runs : tuple of Run
        The stored runs, one per model.
    """

    kind: str
    predictions: pd.DataFrame = field(repr=False)
    items: Items
    matched: dict[str, int]
    info: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    n_records: int = 0
    report: pd.DataFrame = field(default_factory=pd.DataFrame, repr=False)
    runs: tuple[store.Run, ...] = ()

    @property
    def models(self) -> list[str]:
        """Names of the models, in the order of the file."""
        return [str(name) for name in self.predictions["model"].unique()]

    def __len__(self) -> int:
        return len(self.predictions)

    def __str__(self) -> str:
        names = self.models
        who = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")  # noqa: PLR2004
        how = ", ".join(f"{n:,} {name}" for name, n in self.matched.items() if n)
        return (
            f"{self.name} ({self.kind}): {len(self):,} predictions of {who} for {len(self.items):,} items\n"
            f"{self.n_records:,} records; matched {how}; {int((~self.report['kept']).sum()):,} left out"
        )

    def _repr_html_(self) -> str:
        page = html_table([], [], notes=str(self).split("\n"))
        if len(self.report):
            first = f", the first {_FIRST}" if len(self.report) > _FIRST else ""
            head = self.report.head(_FIRST).astype("object")
            rows = head.where(head.notna(), "").to_numpy().tolist()
            caption = f"Notes ({len(self.report):,}{first}; all in .report)"
            page += html_table(list(head.columns), rows, caption=caption)
        return page


class _File(NamedTuple):
    """The records of a file, and the caller's options."""

    records: Sequence[FileRecord]
    notes: Notes
    items: Items | None
    model: str | None
    variant: str | None

    @property
    def is_parquet(self) -> bool:
        return self.notes.path is not None and records.is_parquet(self.notes.path)

    def error(self, problem: str, hint: str | None = None, line: int | None = None) -> DataError:
        return DataError(problem, file=self.notes.path, line=line, hint=hint)


def import_results(
    source: Path | str | pd.DataFrame,
    items: Items | None = None,
    *,
    model: str | None = None,
    variant: str | None = None,
    columns: Mapping[str, str] | None = None,
    text: str | None = None,
    filter: str | None = None,  # noqa: A002 - the harness's name
    keep: bool = True,
    on_error: str = "raise",
) -> Imported:
    """Import predictions of other programs, or your own.

    Parameters
    ----------
    source : path or DataFrame
        A log of one record per item: lm-evaluation-harness (``--log_samples``), Inspect (``.json`` or
        ``.eval``) or lighteval (``details_*.parquet``, 0.10 and later); or a table (CSV, JSON lines, Parquet,
        a frame) with a column for the item and one for the answer; or predictions, a frame as a model's
        `predict` returns it, or its Parquet file.
    items : Items, optional
        What the results are about; by default loaded with :func:`workbench.load`, where the table or log
        names them.
    model, variant : str, optional
        Name of the model, and the form of the text that it saw (``plain``, ``openai`` ...). Needed where the
        file does not say (the variant only if texts and items differ in case or tokens).
    columns : mapping, optional
        Names of columns of a table, such as ``{"item": "stimulus"}``: ``item`` (id or text of the item, whole
        or with a blank), ``prediction`` (the answer), ``model``, ``log_prob`` (its natural log-probability).
        By default those of usual names, however spelt (``item_id``, ``text`` ...; ``prediction``,
        ``response`` ...; ``model``; ``log_prob``).
    text : str, optional
        Field of the harness's documents (Inspect: of the metadata) that holds the passage; ``text`` by
        default.
    filter : str, optional
        Which of several filters (Inspect: scorers, lighteval: metrics) is read; the first by default, and the
        report says so.
    keep : bool, default True
        Store each model's predictions as a run; the same content is not stored twice.
    on_error : {"raise", "report"}
        Whether a bad record stops the import, or is left out and reported.

    Returns
    -------
    Imported

    Raises
    ------
    DataError
        If the source is none of these, a record is bad, nothing matches, or model or variant are not known.

    Notes
    -----
    A text is matched but for white space and quotes, else by its letters and digits. Rows without an item, or
    with several, are left out and reported. An answer is right if it is the item's but for case, and for
    white space, quotes, brackets and sentence marks around it
    (:func:`workbench.predictions.schema.same_word`). Answers of people are read by
    :func:`workbench.people.import_answers`.

    A log of log-likelihoods has no predictions: they are the answer where it was the greedy continuation,
    else null; ``correct`` and ``greedy_correct`` are its ``acc``. Its log-probability is that of the answer's
    sub-tokens without the end of the word, so both ``log_prob`` and ``log_prob_uncorrected`` hold it, and
    tables have the harness's perplexity in the column ``perplexity_uncorrected``. Its answer is all behind
    the last space (``"Nadia`` with the quote); the report names the items that have another answer.

    Of choices and generated text, what the log counts as right is right; the report names answers that look
    otherwise. Of several epochs the first is read. Log-likelihoods of whole passages are refused.

    Examples
    --------
    >>> import pandas as pd
    >>> answers = pd.DataFrame({"text": [item.passage for item in items], "prediction": "time"})
    >>> [run] = wb.import_results(answers, items, model="always the same").runs
    >>> len(run)
    30
    """
    check_items(items, "import_results", optional=True)
    path = None if isinstance(source, pd.DataFrame) else Path(source)
    notes = Notes(path, on_error)
    if isinstance(source, pd.DataFrame):
        results = records.frame_records(source)
    else:
        results = list(records.read_records(Path(source), notes))
    for result in results:
        if isinstance(result, DataError):
            notes.bad(result)
    file = _File([r for r in results if isinstance(r, FileRecord)], notes, items, model, variant)
    if not file.records:
        raise file.error("there is no record that can be read")
    program = None if path is None else program_of(file.records)
    if filter is not None and program is None:
        raise file.error("only logs of harnesses have filters", "omit filter=")
    if path is not None and program is not None:
        imported = _sample_log(file, path, program, text, filter)
    elif (path is None or file.is_parquet) and _is_predictions(file.records[0]):
        imported = _predictions(file)
    else:
        imported = _answers(file, _columns(file, columns or {}))
    name = "frame" if path is None else path.name
    info = {"from": name, "kind": imported.kind, **imported.info}
    imported = replace(imported, name=name, n_records=len(results), report=notes.frame(), info=info)
    return _stored(imported) if keep else imported


def program_of(file_records: Sequence[FileRecord]) -> lm_eval.Program | None:
    """Return the program that wrote a log, by its first records; None if it is unknown."""
    first = [record.fields for record in file_records[:_FIRST]]
    return next((program for program in _PROGRAMS if any(map(program.is_sample, first))), None)


def _stored(imported: Imported) -> Imported:
    """Store the predictions, one run for each model and run of the file; rows without a run get its name."""
    frame, runs = imported.predictions.copy(), []
    for (model, run), group in imported.predictions.groupby(["model", "run"], sort=False):
        items = imported.items.where(imported.items.frame["item_id"].isin(group["item_id"]).to_numpy())
        info: dict[str, Any] = {"run_of_file": str(run)} if run else {}
        runs.append(store.keep(items, group.assign(run=""), imported=imported.info, **info))
        if not run:
            frame.loc[(frame["model"] == model) & (frame["run"] == ""), "run"] = runs[-1].run
    return replace(imported, predictions=frame, runs=tuple(runs))


def _sample_log(
    file: _File, path: Path, program: lm_eval.Program, text: str | None, chosen: str | None
) -> Imported:
    """Make predictions from a program's log of samples."""
    notes, log = file.notes, program.log_of(path, file.records[0].fields)
    items = file.items
    if items is None:
        if (variant := file.variant or log.variant) is None:
            raise file.error(
                f"the task {log.task!r} does not say which form of LAMBADA's text was read",
                'pass variant="openai" (running text) or variant="plain" (tokens, lower case), or items=',
            )
        items = records.load_items([("lambada", "test", variant)])
    if (model := file.model or log.model) is None:
        raise file.error(
            "the model's name is not known: no results_*.json beside the file names it", 'pass model="..."'
        )
    name, rows = _filtered(file, program, chosen)
    answers, templates = [], set()
    for record in rows:
        try:
            sample = program.sample(record.line, record.fields, text, name)
        except DataError as error:  # of the whole file
            raise file.error(error.problem, error.hint, record.line) from None
        except (ValueError, RecursionError) as error:
            notes.bad(str(error), record.line)
        else:
            templates.add(sample.template)
            answers.append(ResultRow(record.line, model, sample.text, {"sample": sample}, texts=sample.texts))
    if log.n is not None and log.n != len(rows):
        notes.note(f"expected {log.n:,} passages, as in the results, got {len(rows):,}", used=True)
    matched, variants = records.resolve_variants(answers, items, notes, file.variant, log.variant)
    asked = items.frame.iloc[[match.item_index for match in matched]]
    logged = [match.row.fields["sample"] for match in matched]
    columns = zip(logged, asked["answer"], asked["candidates"], strict=True)
    words = [_predicted_word(*row, notes) for row in columns]
    log_probs = np.array([sample.log_prob for sample in logged], dtype=float)
    greedy = [None if s.answer is not None or np.isnan(s.log_prob) else s.greedy for s in logged]
    scores = list(map(_candidate_scores, logged, asked["candidates"]))
    frame = _frame(
        matched, items, variants, words, score_type="score" if np.isnan(log_probs).all() else "log_prob",
        log_prob=log_probs, log_prob_uncorrected=log_probs,
        greedy_correct=pd.array(greedy, dtype="boolean"), candidate_scores=objects(scores),
        prompt=log.prompt(templates), bos=log.bos,
    )  # fmt: skip
    info = {"task": log.task, **log.info} | ({} if name in {None, "none"} else {"filter": name})
    return _imported(program.name, frame, items, matched, info)


def _filtered(
    file: _File, program: lm_eval.Program, chosen: str | None
) -> tuple[str | None, list[FileRecord]]:
    """Return the filter (scorer, metric) that is read, chosen or else the first, and its records."""
    of_records = [program.filters(record.fields) for record in file.records]
    names = list(dict.fromkeys(name for each in of_records for name in each))
    if chosen is not None and chosen not in names:
        raise file.error(
            f"there is no filter {chosen!r}",
            f"there are {', '.join(names)}" if names else "omit filter=: this log names none",
        )
    name = chosen or next(iter(names), None)
    if len(names) > 1 and chosen is None:
        others = ", ".join(map(repr, names[1:]))
        problem = f"{name!r}, the first of several filters, is read; filter= chooses {others}"
        file.notes.note(problem, used=True)
    rows = [r for r, each in zip(file.records, of_records, strict=True) if name in each or not each]
    epochs = (record.fields.get("epoch") for record in rows)
    later = [isinstance(epoch, int) and epoch > 1 for epoch in epochs]
    if any(later):
        problem = f"the first epoch is read; {sum(later):,} samples of later ones are left out"
        file.notes.note(problem, used=True)
    return name, [record for record, is_later in zip(rows, later, strict=True) if not is_later]


def _predicted_word(sample: lm_eval.Sample, word: Any, candidates: Any, notes: Notes) -> str | None:
    """Return the predicted word of a program's record: the item's answer if it counts as right.

    Note where record and item do not agree on the answer, or on whether it is right.
    """
    target = sample.target.strip()
    asked = target if sample.answer is None else schema.bare_word(target)
    if target and _folded(word) not in {None, asked.casefold()}:
        problem = f"the harness asked for {target[:40]!r}, the item's answer is {word!r}"
        notes.note(problem, sample.line, sample.text, used=True)
    if sample.answer is None:
        return word if sample.greedy else None
    same = schema.same_word(sample.answer, None if pd.isna(word) else word, candidates)
    if same != sample.greedy:
        verdict = "right" if sample.greedy else "wrong"
        problem = f"{sample.answer[:40]!r} is counted as {verdict}, as in the log; the answer is {word!r}"
        notes.note(problem, sample.line, sample.text, used=True)
        return word if sample.greedy else None
    return word if same else schema.bare_word(sample.answer) or None


def _candidate_scores(sample: lm_eval.Sample, candidates: Any) -> list[float] | None:
    """Return the scores of an item's candidates, in their order; None where the log has others."""
    scores = dict(zip(map(str.casefold, sample.choices), sample.scores, strict=False))
    if candidates is None or not scores or not {str(c).casefold() for c in candidates} <= set(scores):
        return None
    return [scores[str(candidate).casefold()] for candidate in candidates]


def _columns(file: _File, named: Mapping[str, str]) -> dict[str, str]:
    """Choose the columns of a table of answers: the named ones, else by their usual names."""
    for role in named:
        check_option("a column's role", role, list(_USUAL))
    present = list(dict.fromkeys(name for record in file.records for name in record.fields))
    lower = {_column_key(name): name for name in reversed(present)}
    chosen = {}
    for role, usual in _USUAL.items():
        name = named.get(role)
        if name is not None and name not in present:
            raise file.error(f"there is no column {name!r}", f"there are {', '.join(present)}")
        name = name or next((lower[key] for key in map(_column_key, usual) if key in lower), None)
        if name is not None:
            chosen[role] = name
        elif role in {"item", "prediction"}:
            raise file.error(
                f"none of the columns {', '.join(present)} is called {', '.join(usual[:-1])} or {usual[-1]}",
                f'name the one that holds the {role}: columns={{"{role}": "..."}}',
            )
    return chosen


def _column_key(name: str) -> str:
    """Return the letters and digits of a column's name."""
    return re.sub(r"[\W_]+", "", name.casefold())


def _answers(file: _File, columns: Mapping[str, str]) -> Imported:
    """Make predictions of a table of answers."""
    notes = file.notes
    if file.model is None and "model" not in columns:
        raise file.error(
            "no column says whose answers these are",
            'pass model="...", or columns={"model": "..."}; people.import_answers reads those of people',
        )
    answers = []
    for record in file.records:
        try:
            answers.append(_answer(record, columns, file.model))
        except (ValueError, RecursionError) as error:
            notes.bad(str(error), record.line, str(record.fields.get(columns["item"]) or ""))
    items = file.items
    if items is None:
        items = records.load_by_id([answer.item for answer in answers], file.variant, notes)
    matched, variants = records.resolve_variants(answers, items, notes, file.variant, None)
    log_probs = np.array([match.row.fields["log_prob"] for match in matched], dtype=float)
    scored = {match.row.who for match, value in zip(matched, log_probs, strict=True) if not math.isnan(value)}
    words = [match.row.fields["prediction"] for match in matched]
    score_types = ["log_prob" if match.row.who in scored else "score" for match in matched]
    frame = _frame(matched, items, variants, words, score_type=score_types, log_prob=log_probs)
    if problem := schema.note_marks(frame, words):
        notes.note(problem, used=True)
    return _imported("answers", frame, items, matched, {})


def _answer(record: FileRecord, columns: Mapping[str, str], model: str | None) -> ResultRow:
    """Read one row; raise ValueError if a cell is not a text or number, or the model is missing."""

    def cell(role: str, convert: Any) -> Any:
        try:
            return convert(record.fields.get(columns[role]))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"the column {columns[role]!r} holds {error}") from None

    who = model or cell("model", text_of)
    if not who:
        raise ValueError(f"the column {columns['model']!r} is empty: whose answer is it?")
    log_prob = cell("log_prob", number_of) if "log_prob" in columns else math.nan
    if log_prob > _SLACK:
        raise ValueError(f"the log-probability {log_prob:g} is above 0: it is the natural logarithm")
    fields = {"prediction": cell("prediction", text_of), "log_prob": log_prob}
    return ResultRow(record.line, who, cell("item", text_of), fields)


def _is_predictions(record: FileRecord) -> bool:
    return set(schema.PREDICTION_COLUMNS) - set(schema.OPTIONAL) <= set(record.fields)


def _predictions(file: _File) -> Imported:
    """Make predictions of a table that has the columns of predictions already."""
    notes, items = file.notes, file.items
    frame = pd.DataFrame([record.fields for record in file.records])
    if unread := sorted(set(frame.columns) - set(schema.PREDICTION_COLUMNS)):
        notes.note(f"not read: the columns {', '.join(map(repr, unread))}", used=True)
    frame = frame.drop(columns=unread).assign(run=frame["run"].fillna(""))
    if items is None:
        sets = frame[["dataset", "split", "variant"]].dropna().drop_duplicates().to_numpy().tolist()
        items = records.load_items(map(tuple, sets))
    if file.model is not None:
        if len(models := frame["model"].unique()) > 1:
            named = ", ".join(map(repr, models[:3]))
            raise file.error(f"the file holds several models ({named})", "omit model=")
        frame["model"] = file.model
    if file.variant is not None:
        frame["variant"] = file.variant
    frame = frame[_fitting(frame, items, file)].reset_index(drop=True)
    if not len(frame):
        raise file.error("no prediction is about one of the items", "pass the items that it is about")
    try:
        frame = schema.check_predictions(frame, items)
    except DataError as error:
        raise file.error(error.problem, error.hint) from None
    asked = items.where(items.frame["item_id"].isin(frame["item_id"]).to_numpy())
    return Imported("predictions", frame, asked, {_HOW["id"]: len(frame)})


def _fitting(frame: pd.DataFrame, items: Items, file: _File) -> list[bool]:
    """Return which rows are about the items as these are."""
    by_id = items.frame.set_index("item_id")[["answer", "variant"]].to_dict("index")
    fits = []
    columns = (frame[name] for name in ("item_id", "answer", "variant"))
    for number, (item_id, word, variant) in enumerate(zip(*columns, strict=True), 1):
        item = by_id.get(item_id)
        fits.append(item is not None and _folded(word) == _folded(item["answer"]))
        if item is None:
            file.notes.note("no item has this id", number, str(item_id), used=False)
        elif file.variant is None and variant != item["variant"]:
            raise file.error(
                f"the predictions are of the variant {variant!r}, the items of {item['variant']!r}",
                f"pass items of that variant, or variant={variant!r} to take these all the same",
                number,
            )
        elif not fits[-1]:
            problem = f"the answer is {word!r}, that of the item {item['answer']!r}"
            file.notes.bad(problem, number, str(item_id))
    return fits


def _folded(word: Any) -> str | None:
    return None if pd.isna(word) else str(word).casefold()


def _frame(
    matched: Sequence[records.MatchedRow], items: Items, variants: list[str], words: list[Any], **columns: Any
) -> pd.DataFrame:
    """Return unchecked predictions of the answers to the matched items."""
    asked = items.frame.iloc[[match.item_index for match in matched]].reset_index(drop=True)
    columns["model"] = [match.row.who for match in matched]
    return schema.frame_of_answers(asked.assign(variant=list(variants)), words, columns, {})


def _imported(
    kind: str, frame: pd.DataFrame, items: Items, matched: Sequence[records.MatchedRow], info: dict[str, Any]
) -> Imported:
    """Return predictions with the items that were matched, and how."""
    mask = np.zeros(len(items), dtype=bool)
    mask[[match.item_index for match in matched]] = True
    counts = Counter(match.how for match in matched)
    how = {label: counts[name] for name, label in _HOW.items() if counts[name]}
    return Imported(kind, frame, items.where(mask), how, info)
