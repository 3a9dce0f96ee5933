"""Results computed elsewhere: read, matched to items, and made predictions that everything else takes."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from workbench.evaluation.interchange import answer_tables as answered
from workbench.evaluation.interchange import export as exported
from workbench.evaluation.interchange import importing
from workbench.evaluation.interchange import lm_eval as samples
from workbench.evaluation.interchange import read as records
from workbench.evaluation.interchange.agreement import Agreement
from workbench.evaluation.interchange.importing import Told
from workbench.evaluation.interchange.read import Notes, Record
from workbench.items.items import Items
from workbench.items.schema import DataError
from workbench.runs.store import Run

_LOOKED_AT = 10  # records that tell what a file is
_SHOWN = 10  # notes that a notebook shows


@dataclass(frozen=True)
class Imported:
    """Predictions that were made elsewhere. It can be passed wherever runs are.

    Attributes
    ----------
    name : str
        Name of the file.
    kind : str
        ``lm-evaluation-harness``, ``predictions``, ``people`` or ``answers``.
    predictions : DataFrame
        As :func:`workbench.runs.predictions.check` gives them, all models together.
    items : Items
        Those that were matched.
    report : DataFrame
        What is to be known of single records: line, problem, text (its start), kept (false: left out).
    matched : dict
        How many rows were matched ``by id``, ``exact``, in the ``same wording`` (white space and quotes
        differ) or by the ``same key`` (punctuation, case or tokens differ).
    n_records : int
        Records of the file, bad ones included.
    people, by_item : DataFrame or None
        Accuracy by person and by item (see :mod:`workbench.evaluation.interchange.agreement`), where people
        answered.
    agreement : Agreement or None
        How often they agree.
    runs : tuple of Run
        What was kept, one run a model.
    info : dict
        What the file tells of itself: task, version of the harness, arguments of the model.
    """

    name: str
    kind: str
    predictions: pd.DataFrame = field(repr=False)
    items: Items
    report: pd.DataFrame = field(repr=False)
    matched: dict[str, int]
    n_records: int
    people: pd.DataFrame | None = field(default=None, repr=False)
    by_item: pd.DataFrame | None = field(default=None, repr=False)
    agreement: Agreement | None = None
    runs: tuple[Run, ...] = ()
    info: dict[str, Any] = field(default_factory=dict)

    @property
    def models(self) -> list[str]:
        """Names of the models and people, in the order of the file."""
        return [str(name) for name in self.predictions["model"].unique()]

    def __len__(self) -> int:
        return len(self.predictions)

    def __str__(self) -> str:
        names = self.models
        who = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")  # noqa: PLR2004
        out = int((~self.report["kept"]).sum())
        how = ", ".join(f"{n:,} {name}" for name, n in self.matched.items() if n)
        lines = [
            f"{self.name} ({self.kind}): {len(self):,} predictions of {who} for {len(self.items):,} items",
            f"{self.n_records:,} records; matched {how}; {out:,} left out",
        ]
        if self.agreement is not None:
            lines.append(str(self.agreement))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        parts = ["".join(f"<p>{html.escape(line)}</p>" for line in str(self).split("\n"))]
        if self.people is not None:
            parts.append(self.people.head(_SHOWN).to_html(index=False, escape=True))
        if len(self.report):
            more = "" if len(self.report) <= _SHOWN else f", the first {_SHOWN}"
            parts.append(f"<p>Notes ({len(self.report):,}{more}; all in <code>.report</code>):</p>")
            parts.append(self.report.head(_SHOWN).to_html(index=False, escape=True))
        return "".join(parts)


def import_results(
    path: Path | str,
    items: Items | None = None,
    *,
    model: str | None = None,
    variant: str | None = None,
    item: str | None = None,
    prediction: str | None = None,
    person: str | None = None,
    log_prob: str | None = None,
    text: str | None = None,
    keep: bool = True,
    on_error: str = "raise",
    seed: int = 0,
) -> Imported:
    """Import what was computed elsewhere, or what people answered.

    Parameters
    ----------
    path : path
        A sample log of lm-evaluation-harness (``--log_samples``) of any English LAMBADA task; or a table
        (CSV, JSON lines, parquet) with a column for the item and one for the answer; or a predictions
        table, as :func:`export_results` writes it.
    items : Items, optional
        What the results are about; by default loaded with :func:`workbench.load`, where the file tells which.
    model : str, optional
        Name of the model. Needed where the file does not tell.
    variant : str, optional
        The form of the text that the model saw (``plain``, ``openai`` ...). Needed where the file does not
        tell and its texts are cased or cut otherwise than those of the items.
    item, prediction, person, log_prob : str, optional
        Columns of a table: id or text of the item (whole, or with a blank), the answer, who gave it, its
        natural log-probability. By default those of usual names (``item_id``, ``text`` ...; ``prediction``,
        ``response`` ...; ``person`` ...; ``log_prob``).
    text : str, optional
        Field of the harness's documents that holds the passage; ``text`` by default.
    keep : bool, default True
        Whether to keep each model's predictions as a run; the same content is found again, not kept twice.
    on_error : {"raise", "report"}
        Whether a bad record stops the import, or is left out and reported.
    seed : int, default 0
        Draws the majority's answer among words that equally many people gave.

    Returns
    -------
    Imported

    Raises
    ------
    DataError
        If the file is none of these, a record is bad, nothing matches, or model or variant are not known.

    Notes
    -----
    A text is matched exactly, else by its letters and digits
    (:func:`workbench.evaluation.interchange.matching.key`). Rows without an item, or with several, are left
    out and reported; nothing is guessed. An answer is right if it is the item's but for case.

    The harness logs no prediction: it is the answer where the answer was the greedy continuation, else null;
    ``correct`` and ``greedy_correct`` are its ``acc``. Its log-probability is that of the answer's sub-tokens
    without the end of the word, so both ``log_prob`` and ``log_prob_uncorrected`` hold it, and perplexity is
    the harness's. It takes all behind the last space for the answer (``"Nadia`` with the quote); where the
    item's answer is another, the report says so.

    People's answers give one model a person (``person: name``) and one more, the majority.

    Examples
    --------
    >>> wb.import_results("samples_lambada_openai_2025-01-01T00-00-00.jsonl")  # doctest: +SKIP
    """
    path = Path(path)
    notes = Notes(path, on_error)
    if items is not None and not isinstance(items, Items):
        raise TypeError(f"the second argument is {type(items).__name__}, expected Items")
    read = list(records.read(path))
    good = [record for record in read if isinstance(record, Record)]
    for record in read:
        if isinstance(record, DataError):
            notes.bad(record)
    if not good:
        raise DataError("the file holds no record that can be read", file=path)
    told = Told(model, variant)
    if any(samples.is_sample(record.fields) for record in good[:_LOOKED_AT]):
        made = importing.harness(good, items, notes, told, text)
    elif exported.is_predictions(good[0]):
        made = importing.table(good, items, notes, told)
    else:
        found = list(dict.fromkeys(name for record in good for name in record.fields))
        names = answered.columns(
            found, notes, item=item, prediction=prediction, person=person, log_prob=log_prob
        )
        made = importing.answers(good, names, items, notes, told, seed=seed)
    info = {"from": path.name, "kind": made.kind, **made.info}
    frame, runs = importing.kept(made, {"imported": info}) if keep else (made.frame, ())
    return Imported(
        name=path.name,
        kind=made.kind,
        predictions=frame,
        items=made.items,
        report=notes.frame(),
        matched=made.matched,
        n_records=len(read),
        people=made.people,
        by_item=made.by_item,
        agreement=made.agreement,
        runs=runs,
        info=info,
    )
