"""Records of a file (CSV, JSON lines, a JSON array, Parquet, a log of Inspect), and the items they are about.

A record keeps its line, or its number in Parquet and in a JSON list. Its item is found by id, by text, or by
a key made of the text.
"""

from __future__ import annotations

import io
import json
import math
import re
import unicodedata
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from workbench import datasets
from workbench.datasets.archives import members
from workbench.items.items import Items
from workbench.items.text import is_encodable, looks_tokenised
from workbench.storage.errors import DataError, check_option, reading
from workbench.storage.files import read_bytes, read_parquet
from workbench.storage.tables import (
    TableFrame,
    decoded_text,
    json_lines,
    parsed_json,
    read_separated,
    read_workbook,
)

_PARQUET, _ZIP = b"PAR1", b"PK"
_LEAVE = 'correct it, or have it reported and left out with on_error="report"'
_START = 80  # characters of a text that a note shows
_INSPECT_SAMPLE = re.compile(r"samples/[^/]+_epoch_\d+\.json")
_INSPECT_FILES = {"_journal/start.json", "header.json"}
_ENDS = "the file ends within this record: was it written or downloaded to its end?"
_BRACKET = re.compile(r"(?<!\w)-[lr][rsc]b-(?!\w)", re.IGNORECASE)
_OTHER = re.compile(r"[\W_]+")
_SAME = str.maketrans(dict.fromkeys("“”„«»", '"') | dict.fromkeys("‘’`´", "'"))  # noqa: RUF001
_PLAIN_QUOTES = (("``", '"'), ("''", '"'))


class FileRecord(NamedTuple):
    """One record: its line (in Parquet and in a JSON list its number), counted from 1, and its fields."""

    line: int
    fields: Mapping[str, Any]


class Notes:
    """Notes on the records of a file.

    With `on_error` ``raise`` a bad record stops the reading, with ``report`` it is left out and noted.
    """

    def __init__(self, path: Path | None, on_error: str) -> None:
        check_option("on_error", on_error, ("raise", "report"))
        self.path, self._raises = path, on_error == "raise"
        self._rows: list[tuple[int | None, str, str, bool]] = []

    def bad(self, problem: str | DataError, line: int | None = None, text: str | None = None) -> None:
        """Leave a record out, or raise DataError."""
        if isinstance(problem, str):
            problem = DataError(problem, file=self.path, line=line, hint=_LEAVE)
        if self._raises:
            raise problem
        self.note(problem.problem, problem.line, text, used=False)

    def note(self, problem: str, line: int | None = None, text: str | None = None, *, used: bool) -> None:
        """Add a note about a record that is not an error."""
        self._rows.append((line, problem, (text or "")[:_START], used))

    def frame(self) -> pd.DataFrame:
        """Return all notes: line, problem, text (its start), kept (whether the record is used)."""
        dtypes = {"line": "Int64", "problem": "str", "text": "str", "kept": "bool"}
        rows = sorted(self._rows, key=lambda row: (row[0] is None, row[0] or 0))
        return pd.DataFrame(rows, columns=list(dtypes)).astype(dtypes)


def read_records(path: Path, notes: Notes) -> Iterator[FileRecord | DataError]:
    """Read the records of a file in order; the format is inferred from the content.

    The encoding or the sheet of a table, where it is not the usual one, is noted.

    A bad record gives an error in its place, and reading continues after it where its end is known. DataError
    if the file is missing, empty, not text, or damaged as a whole.
    """
    data = read_bytes(path, "this file of results")
    if data.startswith(_PARQUET):
        return _parquet(data, path)
    if data.startswith(_ZIP):
        return _inspect_archive(path) if _is_inspect(data, path) else _rows(read_workbook(data, path), notes)
    text = decoded_text(data, path)
    start = text.lstrip()[:1]
    if start == "[":
        values = parsed_json(text)
        if isinstance(values, Exception):
            hint = "write or download it again"
            raise DataError(f"this is not a JSON list ({values})", file=path, hint=hint)
        return (_record(value, path, number) for number, value in enumerate(values, 1))
    return _lines(text, path) if start == "{" else _rows(read_separated(data, path), notes)


def frame_records(frame: pd.DataFrame) -> list[FileRecord | DataError]:
    """Return the rows of a frame; missing values are None."""
    cells = frame.astype("object")
    rows = cells.where(cells.notna(), None).to_dict("records")
    return [FileRecord(number, {str(name): row[name] for name in row}) for number, row in enumerate(rows, 1)]


def _record(value: Any, path: Path, line: int) -> FileRecord | DataError:
    if isinstance(value, dict):
        return FileRecord(line, value)
    problem = f"this is JSON, but no record with names and values: {str(value)[:40]!r}"
    return DataError(problem, file=path, line=line, hint=_LEAVE)


def _lines(text: str, path: Path) -> Iterator[FileRecord | DataError]:
    """Read JSON lines, or one JSON object of a known format."""
    values = json_lines(text)
    if isinstance(values[0][1], Exception) or len(values) == 1:
        value = parsed_json(text)  # one object, perhaps on several lines
        if isinstance(value, dict):
            is_log = isinstance(value.get("eval"), dict) and "status" in value
            samples = _inspect_records(value, value.get("samples"), path) if is_log else None
            yield from samples or [FileRecord(1, value)]
            return
    for number, value in values:
        if isinstance(value, Exception):
            problem = _ENDS if number == values[-1][0] else f"not valid JSON ({value})"
            yield DataError(problem, file=path, line=number, hint=_LEAVE)
        else:
            yield _record(value, path, number)


def _inspect_records(log: Mapping[str, Any], samples: Any, path: Path) -> Iterator[FileRecord | DataError]:
    """Yield the samples of an Inspect log, each with the log's description of the evaluation."""
    if not samples or not isinstance(samples, list):
        raise DataError(
            f"this log of Inspect (status {log.get('status', 'started')!s:.20}) holds no samples",
            file=path,
            hint="run the evaluation to its end, without --no-log-samples",
        )
    evaluation = log.get("eval")
    for number, sample in enumerate(samples, 1):
        record = _record(sample, path, number)
        if isinstance(record, FileRecord):
            record = FileRecord(number, {**sample, "eval": evaluation})
        yield record


def _is_inspect(data: bytes, path: Path) -> bool:
    """Return whether a zip archive is a log of Inspect, by its name or its files' names."""
    if path.suffix.lower() == ".eval":
        return True
    with reading(path, "this archive", hint="download or write it again"):
        names = zipfile.ZipFile(io.BytesIO(data)).namelist()
    return any(name in _INSPECT_FILES or _INSPECT_SAMPLE.fullmatch(name) for name in names)


def _inspect_archive(path: Path) -> Iterator[FileRecord | DataError]:
    """Yield the samples of an ``.eval`` file of Inspect: a zip of JSON files, compressed by Zstandard."""
    log: Any = None
    samples: list[Any] = []
    for member in members(path):
        # the journal stands first and says less, but a run that was stopped has no header
        if member.name in _INSPECT_FILES or _INSPECT_SAMPLE.fullmatch(member.name):
            with reading(f"{path}/{member.name}", "this part of a log of Inspect"):
                value = json.loads(member.read())
                if not isinstance(value, dict):
                    raise TypeError("expected an object of JSON")
            if _INSPECT_SAMPLE.fullmatch(member.name):
                samples.append(value)
            else:
                log = value
    if log is None:
        hint = "unpack it, and pass a file of it"
        raise DataError("this is a zip archive, and no log of Inspect", file=path, hint=hint)

    def order(sample: Mapping[str, Any]) -> tuple[float, str, str]:  # numeric ids by value, then other ids
        number = sample.get("id")
        return number if isinstance(number, int) else math.inf, str(number), str(sample.get("epoch"))

    return _inspect_records(log, sorted(samples, key=order), path)


def _rows(table: TableFrame, notes: Notes) -> Iterator[FileRecord | DataError]:
    """Return the rows of a table in their order, an error in place of one that cannot be read."""
    if table.note:
        notes.note(table.note, used=True)
    rows: dict[int, FileRecord | DataError] = {}
    for line, cells in zip(table.lines, table.frame.to_dict("records"), strict=True):
        rows[line] = FileRecord(line, {str(name): cell for name, cell in cells.items()})
    for error in table.problems:
        line = error.line or 0
        rows[line] = DataError(error.problem, file=error.file, line=line, hint=_LEAVE)
    return (rows[line] for line in sorted(rows))


def is_parquet(path: Path) -> bool:
    """Return whether a file is Parquet, by its beginning."""
    with path.open("rb") as file:
        return file.read(len(_PARQUET)) == _PARQUET


def _parquet(data: bytes, path: Path) -> Iterator[FileRecord]:
    hint = "download or write it again"
    with reading(path, "this Parquet file", hint=hint):
        rows = read_parquet(path, data=data, hint=hint).to_pylist()
    return (FileRecord(number, row) for number, row in enumerate(rows, 1))


def text_of(value: Any) -> str | None:
    """Parse a cell as text; None if empty, ValueError if not valid."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, (Mapping, list, tuple)):
        raise ValueError(f"a list or record, expected text: {str(value)[:40]!r}")  # noqa: TRY004 - of a cell
    text = value if isinstance(value, str) else str(value)
    if not is_encodable(text):
        raise ValueError("the text holds half a surrogate pair")
    return text if text.strip() else None


def number_of(value: Any) -> float:
    """Parse a cell as float; NaN if empty, ValueError if not numeric or "NaN"."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return math.nan
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f"no number: {str(value)[:40]!r}")  # noqa: TRY004 - of a cell
    try:
        number = float(value)
    except (ValueError, OverflowError):
        raise ValueError(f"no number: {str(value)[:40]!r}") from None
    if math.isnan(number):
        raise ValueError("NaN, which is not a valid number; leave missing numbers empty")
    return number


def truth_of(value: Any) -> bool | None:
    """Return a cell as true or false, None where it is empty; raise ValueError if it is neither."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    word = str(value).strip().lower()
    if word in {"", "nan"}:
        return None
    if word not in {"true", "1", "1.0", "false", "0", "0.0"}:
        raise ValueError(f"neither true nor false: {str(value)[:40]!r}")
    return word in {"true", "1", "1.0"}


def text_key(text: str) -> str:
    """Return the letters and digits of a text, which all its variants share.

    Case, accents, white space, punctuation, and the names of brackets (``-lrb-``) do not count; a blank of
    underscores has no key.
    """
    bare = unicodedata.normalize("NFKD", _BRACKET.sub(" ", text))
    return _OTHER.sub("", bare.casefold())


def normalised_text(text: str) -> str:
    """Return a text with one space for white space and plain quotes for typographic ones.

    Two texts of one wording are the same to a model; two of one `text_key` may be cased or cut differently.
    """
    text = unicodedata.normalize("NFC", text)
    for written, plain in _PLAIN_QUOTES:
        text = text.replace(written, plain)
    return " ".join(text.translate(_SAME).split())


class Match(NamedTuple):
    """Indices of the items with a text, several if they are indistinguishable, and the type of the match.

    `how` is ``text`` (but for white space and quotes) or ``letters`` (case, tokens or punctuation differ).
    """

    rows: tuple[int, ...]
    how: str


NONE = Match((), "")


class Index:
    """Find items by their texts: whole, or with a blank (underscores) or nothing for the answer."""

    def __init__(self, items: Items) -> None:
        frame = items.frame
        texts: list[str] = frame["text"].tolist()
        spans = frame["answer_span"].tolist()
        blanked = [text[:start] + text[end:] for text, (start, end) in zip(texts, spans, strict=True)]
        self.ids = {item_id: row for row, item_id in enumerate(frame["item_id"].tolist())}
        self._levels = [
            (how, normalise, [_rows_by_value(map(normalise, forms)) for forms in (texts, blanked)])
            for how, normalise in (("text", normalised_text), ("letters", text_key))
        ]

    def find(self, text: str) -> Match:
        """Return the items that have this text."""
        for how, normalise, rows_by_form in self._levels:
            for rows_by_text, written in zip(rows_by_form, (text, text.replace("_", "")), strict=True):
                if rows := rows_by_text.get(normalise(written)):
                    return Match(rows, how)
        return NONE


class ResultRow(NamedTuple):
    """One answer of a model or person to one item, which its id or text names."""

    line: int
    who: str
    item: str | None
    fields: dict[str, Any]
    texts: tuple[str, ...] = ()  # other forms of the text, tried in turn where the first is not an item's


class MatchedRow(NamedTuple):
    """An answer and the index of its item; ``how`` as in `Match`, or ``id``."""

    row: ResultRow
    item_index: int
    how: str


def match_rows(answers: Sequence[ResultRow], index: Index, notes: Notes) -> list[MatchedRow]:
    """Return the answers that have an item, one for each model or person and item; note the others.

    Items of exactly the same text are told apart by their order, where someone answered them all.
    """
    matched: list[MatchedRow] = []
    unclear: dict[tuple[str, tuple[int, ...]], list[ResultRow]] = {}
    for answer in answers:
        if answer.item is None:
            notes.bad("it names no item", answer.line)
            continue
        forms = (answer.item, *answer.texts)
        row = next((index.ids[name] for name in map(str.strip, forms) if name in index.ids), None)
        if row is not None:
            matched.append(MatchedRow(answer, row, "id"))
        else:
            match = next((match for match in map(index.find, forms) if match.rows), NONE)
            if len(match.rows) == 1:
                matched.append(MatchedRow(answer, match.rows[0], match.how))
            elif match.how == "text":
                unclear.setdefault((answer.who, match.rows), []).append(answer)
            else:
                held = f"{len(match.rows)} items have this text"
                problem = held if match.rows else "no item has this id or text"
                notes.note(problem, answer.line, answer.item, used=False)
    for (_, rows), alike in unclear.items():
        if len(alike) == len(rows):
            matched += [MatchedRow(answer, row, "text") for answer, row in zip(alike, rows, strict=True)]
        else:
            for answer in alike:
                notes.note(f"{len(rows)} items have this text", answer.line, answer.item, used=False)
    return _single(sorted(matched, key=lambda match: match.row.line), notes)


def _single(matched: list[MatchedRow], notes: Notes) -> list[MatchedRow]:
    """Return the first answer of each model or person to each item."""
    first: dict[tuple[str, int], int] = {}
    single = []
    for match in matched:
        line, who = match.row.line, match.row.who
        if first.setdefault((who, match.item_index), line) == line:
            single.append(match)
        else:
            problem = f"{who!r} answered this item on line {first[who, match.item_index]} already"
            notes.bad(problem, line, match.row.item)
    return single


def text_form(text: str) -> tuple[bool, bool]:
    """Return whether a text is cut into tokens, and whether it is cased, as LAMBADA's variants differ."""
    return looks_tokenised(text), text != text.lower()


def resolve_variants(
    answers: Sequence[ResultRow], items: Items, notes: Notes, variant: str | None, task_variant: str | None
) -> tuple[list[MatchedRow], list[str]]:
    """Return the answers that have an item, by model and item, and the variant that each is of.

    `variant` and `task_variant` are the form of the text that was read, as the caller and the name of the
    task say. Raise DataError if no answer has an item, or most texts are written differently from those of
    the items and neither says how.
    """
    matched = match_rows(answers, Index(items), notes)
    first = next((answer.item for answer in answers if answer.item), "")
    if not matched:
        ways = "by id, by text, and by the letters and digits of it"
        raise DataError(
            f"none of the {len(answers):,} records is about one of the {len(items):,} items ({ways}); "
            f"the first is {first[:60]!r}",
            file=notes.path,
            hint="pass the items that they are about"
            if first
            else 'name its column: columns={"item": "..."}',
        )
    texts, variants = items.frame["text"].tolist(), items.frame["variant"].tolist()

    def is_odd(match: MatchedRow) -> bool:
        if match.how != "letters" or variant is not None or task_variant == variants[match.item_index]:
            return False
        return text_form(str(match.row.item)) != text_form(texts[match.item_index])

    odd = [match for match in matched if is_odd(match)]
    if 2 * len(odd) > len(matched):
        seen = f" (the task's variant is {task_variant!r})" if task_variant else ""
        raise DataError(
            f"the texts are cased or cut otherwise than those of the items, which are of the variant "
            f"{variants[odd[0].item_index]!r}{seen}: {str(odd[0].row.item)[:60]!r}",
            file=notes.path,
            line=odd[0].row.line,
            hint=f'pass items of that form, or say what was read: variant="{task_variant or "plain"}"',
        )
    for match in odd:
        problem = "it is cased or cut otherwise than the item"
        notes.note(problem, match.row.line, match.row.item, used=False)
    matched = [match for match in matched if not is_odd(match)]
    order = {name: number for number, name in enumerate(dict.fromkeys(match.row.who for match in matched))}
    matched.sort(key=lambda match: (order[match.row.who], match.item_index))
    return matched, [variant or variants[match.item_index] for match in matched]


def load_by_id(ids: Sequence[str | None], variant: str | None, notes: Notes) -> Items:
    """Load the data sets of ids such as ``lambada/dev/000017``."""
    paths = [item_id.strip().split("/") for item_id in ids if item_id]
    sets = {(path[0], path[1]) for path in paths if len(path) > 2 and path[0] in datasets.dataset_names()}  # noqa: PLR2004
    if not sets:
        hint = 'pass them: items=wb.load("lambada", "dev")'
        problem = "expected ids of items such as lambada/dev/000017, got none"
        raise DataError(problem, file=notes.path, hint=hint)
    return load_items([(*names, variant) for names in sorted(sets)])


def load_items(sets: Iterable[tuple[str, str, str | None]]) -> Items:
    """Load the items of data sets, each named by data set, split and variant, as one."""
    loaded = [datasets.load(dataset, split, variant=variant) for dataset, split, variant in sets]
    return loaded[0] if len(loaded) == 1 else Items.concat(loaded)


def _rows_by_value(values: Iterable[str]) -> dict[str, tuple[int, ...]]:
    rows_by_value: dict[str, list[int]] = {}
    for row, value in enumerate(values):
        if value:
            rows_by_value.setdefault(value, []).append(row)
    return {value: tuple(rows) for value, rows in rows_by_value.items()}
