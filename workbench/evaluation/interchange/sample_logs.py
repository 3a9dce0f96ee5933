"""Import several logs of any programs, lined up by the texts of their items."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from workbench.evaluation.interchange.import_results import Imported, filters_of, import_results, program_of
from workbench.evaluation.interchange.lm_eval import Program, Sample
from workbench.evaluation.interchange.records import FileRecord, check_language, read_records
from workbench.items.items import Items, check_items, items_from_frame
from workbench.items.questions import marks_of
from workbench.predictions.schema import bare_word
from workbench.storage.errors import DataError, check_option


def import_logs(
    paths: Sequence[Path | str],
    items: Items | None = None,
    *,
    variant: str | None = None,
    filter: str | None = None,  # noqa: A002 - the harness's name
) -> tuple[Items, list[Imported]]:
    """Import several logs about the same items; return the items and the imports. Nothing is stored.

    The arguments are those of :func:`import_results`. A model that no file names is called as its file; by
    default items are those that the first log names, else those of its texts, and the variant is inferred
    from each task's name. `filter` is that of the logs that have it.
    """
    check_items(items, "compare_logs", optional=True)
    if not paths:
        raise DataError("expected logs to compare, got none", remedy='pass their files: "a.jsonl", "b.jsonl"')
    logs = [_Source.read(Path(path), filter) for path in paths]
    if filter is not None:
        check_option("filter", filter, list(dict.fromkeys(name for log in logs for name in log.filters)))
    if items is None:
        try:
            items = import_results(logs[0].path, **logs[0].options).items
        except DataError:
            if logs[0].program is None:
                raise
            items = _items_of(logs[0], logs[0].program, variant)
    for log in logs:
        if variant is None and log.variant is not None:
            check_language(items, log.variant, log.path)
    return items, [
        import_results(log.path, items, variant=variant or log.variant, **log.options) for log in logs
    ]


class _Source(NamedTuple):
    """A file, its records, their program, its description of the run, and arguments for the import."""

    path: Path
    records: list[FileRecord]
    program: Program | None
    variant: str | None
    filters: list[str]
    options: dict[str, Any]

    @classmethod
    def read(cls, path: Path, chosen: str | None) -> _Source:
        held = [record for record in read_records(path) if isinstance(record, FileRecord)]
        if (program := program_of(held)) is None:
            return cls(path, held, None, None, [], {"filter": None, "keep": False})
        log = program.log_of(path, held[0].fields)
        filters = list(dict.fromkeys(name for names in filters_of(program, held) for name in names))
        options = {"filter": chosen if chosen in filters else None, "keep": False}
        return cls(
            path, held, program, log.variant, filters, options | {"model": None if log.model else path.stem}
        )


def _items_of(log: _Source, program: Program, variant: str | None) -> Items:
    """Make items of the texts of a log: each with its target in place, or with a mark for the blank."""
    rows: dict[str, dict[str, Any]] = {}
    for record in log.records:
        try:
            sample = program.sample(record.line, record.fields, None, None)
        except DataError as error:  # of the whole file
            raise DataError(error.problem, file=log.path, line=record.line, remedy=error.remedy) from None
        except (ValueError, RecursionError):
            continue  # the import says what is wrong with it
        text, choices = _full_text(sample), list(sample.choices)
        answer = sample.target.strip() if marks_of(text) else None
        rows[text] = {"text": text, "answer": answer, "candidates": choices or None}
    if not rows:
        raise DataError("no record of this log has a text", file=log.path, remedy="pass items=")
    frame = pd.DataFrame(list(rows.values()))
    candidates = None if frame["candidates"].isna().any() else "candidates"
    if candidates is None:
        frame = frame[["text", "answer"]]
    return items_from_frame(frame, variant=variant or log.variant, candidates=candidates)


def _full_text(sample: Sample) -> str:
    """Return the form of a text that has a mark for the blank, else one that ends with the target."""
    forms, word = dict.fromkeys((sample.text, *sample.texts)), bare_word(sample.target).casefold()
    marked = [form for form in forms if marks_of(form) and not form.endswith(f"_ {sample.target}")]
    complete = [form for form in forms if word and bare_word(form).casefold().endswith(word)]
    return next(iter([*marked, *complete]), sample.text)
