"""Tables of answers: which column names the item, the answer and who gave it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from workbench.evaluation.interchange.matching import Row
from workbench.evaluation.interchange.read import Notes, Record, number_of, text_of
from workbench.items.schema import DataError

_ITEM = ("item_id", "item", "text", "passage", "id")
_PREDICTION = ("prediction", "predicted", "response", "guess")
_PERSON = ("person", "participant", "annotator", "worker", "subject")
_SLACK = 1e-9
PERSON = "person: "
"""What the names of models begin with that are people."""


class Columns(NamedTuple):
    """Names of the columns of a table of answers; None where it has no such column."""

    item: str
    prediction: str
    person: str | None
    model: str | None
    log_prob: str | None


def columns(
    found: Sequence[str],
    notes: Notes,
    *,
    item: str | None,
    prediction: str | None,
    person: str | None,
    log_prob: str | None,
) -> Columns:
    """Choose the columns of a table: those that were named, else those of a usual name.

    Raises
    ------
    DataError
        If there is none for the item or the answer, or a named one is not there.
    """

    def choose(what: str, named: str | None, usual: Sequence[str], *, needed: bool) -> str | None:
        if named is not None and named not in found:
            raise DataError(
                f"there is no column {named!r}", file=notes.path, remedy=f"there are {', '.join(found)}"
            )
        names = {name.casefold(): name for name in reversed(found)}
        chosen = named or next((names[name] for name in usual if name in names), None)
        if chosen is None and needed:
            raise DataError(
                f"none of the columns {', '.join(found)} is called {', '.join(usual[:-1])} or {usual[-1]}",
                file=notes.path,
                remedy=f'name the one that holds the {what}: {what}="..."',
            )
        return chosen

    return Columns(
        str(choose("item", item, _ITEM, needed=True)),
        str(choose("prediction", prediction, _PREDICTION, needed=True)),
        choose("person", person, _PERSON, needed=False),
        choose("model", None, ("model",), needed=False),
        choose("log_prob", log_prob, ("log_prob",), needed=False),
    )


def rows(records: Sequence[Record], names: Columns, model: str | None, notes: Notes) -> list[Row]:
    """Return the answers; bad ones are noted.

    Parameters
    ----------
    records : sequence of Record
    names : Columns
    model : str, optional
        Who answered, where no column tells.
    notes : Notes
    """
    found = []
    for record in records:
        try:
            found.append(_row(record, names, model))
        except ValueError as error:
            notes.bad(str(error), record.line, str(record.fields.get(names.item) or ""))
    return found


def _row(record: Record, names: Columns, model: str | None) -> Row:
    fields = record.fields

    def cell(name: str) -> str | None:
        try:
            value = text_of(fields.get(name))
        except ValueError as error:
            raise ValueError(f"the column {name!r} holds {error}") from None
        return value

    if names.person is not None:
        who, what = cell(names.person), names.person
        who = who and f"{PERSON}{who.strip()}"
    else:
        who, what = model or (cell(names.model) if names.model else None), names.model or "model"
    if not who:
        raise ValueError(f"the column {what!r} is empty: whose answer is it?")
    prediction = cell(names.prediction)
    said: dict[str, Any] = {"prediction": prediction.strip() if prediction else None}
    if names.log_prob is not None:
        try:
            said["log_prob"] = number_of(fields.get(names.log_prob))
        except ValueError as error:
            raise ValueError(f"the column {names.log_prob!r} holds {error}") from None
        if not math.isnan(said["log_prob"]) and said["log_prob"] > _SLACK:
            raise ValueError(
                f"the log-probability {said['log_prob']:g} is above 0: it is the natural logarithm"
            )
    item = cell(names.item)
    return Row(record.line, who, item, said)
