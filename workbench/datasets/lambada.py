"""LAMBADA: the last word of a passage, which needs the whole passage to be guessed.

Paperno et al. (2016), "The LAMBADA dataset: Word prediction requiring a broad discourse
context", ACL. Three forms of the text go round, all read byte for byte: the release
(`plain`: lower-cased Penn Treebank tokens), its cased twin (`capitalised`), and OpenAI's
running text (`openai`: test split only).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from workbench.datasets import sources
from workbench.items import text as wt
from workbench.items.schema import Item
from workbench.storage.errors import DataError, reading
from workbench.storage.parquet import read_parquet

_ARCHIVES = ("lambada-dataset.tar.gz", "lambada-dataset*")
_FILES = {
    ("dev", "plain"): (
        "lambada_development_plain_text.txt", "lambada_development_plain_text*.txt",
        "*lambada*/validation-*.parquet",
    ),
    ("test", "plain"): (
        "lambada_test_plain_text.txt", "lambada_test_plain_text*.txt", "*lambada*/test-*.parquet",
    ),
    ("control", "plain"): ("lambada_control_test_data_plain_text.txt", "lambada_control*plain_text*.txt"),
    ("rejected", "plain"): ("lambada_rejected_plain_text.txt", "*rejected*plain_text*.txt", "*rejected*.txt"),
    ("dev", "capitalised"): (
        "lambada_development_capitalized_plain_text.txt", "lambada_development_capitali[sz]ed*.txt",
    ),
    ("test", "capitalised"): (
        "lambada_test_capitalized_plain_text.txt", "lambada_test_capitali[sz]ed*.txt",
    ),
    ("test", "openai"): ("lambada_test.jsonl", "lambada_test*.jsonl", "lambada_openai*.jsonl"),
}  # fmt: skip
_VOCABULARY = ("lambada-vocab-2.txt", "lambada-vocab*.txt")


def vocabulary(path: Path | str | None = None) -> Mapping[str, int]:
    """Read the vocabulary of the release: how often each word occurs in the training novels.

    Parameters
    ----------
    path : path, optional
        The file (a word, a tab and its count on each line), or a folder or an archive that
        holds ``lambada-vocab-2.txt``, in place of ``$WORKBENCH_DATA`` and ``data/raw``.

    Returns
    -------
    mapping of str to int
        112,746 lower-cased words in the release, ``<s>`` and ``</s>`` among them.

    Raises
    ------
    DataError
        If there is no such file, or a line is not of that form.
    """
    file = sources.find_file("lambada", _VOCABULARY, _ARCHIVES, path)
    stat = file.path.stat()
    return _counts(file, stat.st_mtime_ns, stat.st_size)


def vocabulary_at_hand() -> Mapping[str, int] | None:
    """Return the vocabulary if its file lies, unpacked, where data sets are looked for, else None."""
    path = sources.spot(sources.search_roots("lambada", None), _VOCABULARY)
    return None if path is None else vocabulary(path)


@lru_cache(maxsize=4)
def _counts(file: sources.File, _written: int, _size: int) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    sources.compare_published("lambada", file)
    for number, line in enumerate(file.lines(), 1):
        word, tab, count = line.partition("\t")
        if not (word and tab and re.fullmatch(r"\d{1,18}", count)):
            problem = f"{line[:60]!r} is no line of a vocabulary, expected a word, a tab and a count"
            raise DataError(problem, file=file.label, line=number, remedy="fetch the file again")
        counts[word] = counts.get(word, 0) + int(count)
    return MappingProxyType(counts)


def _variant_in_name(name: str) -> str:
    name = name.lower()
    if name.endswith(".jsonl"):
        return "openai"
    return "capitalised" if "capitalised" in name or "capitalized" in name else "plain"


def _parse(file: sources.File, split: str, variant: str) -> Iterator[Item | DataError]:
    """Yield passages, whose answer is the last word of a line.

    Those of `plain` and `capitalised` share their ids, ``lambada/dev/000017`` for line 18: they are the same.
    """
    rows = _parquet(file) if file.name.lower().endswith(".parquet") else _rows(file, variant)
    tokenised = variant != "openai"
    if tokenised:
        _check_case([text for text, _ in rows if isinstance(text, str)], variant, file)
    for number, (text, meta) in enumerate(rows):
        if isinstance(text, DataError):
            yield text
            continue
        answer = wt.last_word(text, tokenised=tokenised)
        if answer is None or not text[: answer[0]].strip():
            yield _bad(f"{text[:60]!r} is no passage, expected at least two words", file, number + 1)
            continue
        spans = wt.sentences(text, tokenised=tokenised, paragraphs=False)
        yield Item(
            item_id=f"lambada/{split}/{number:06d}",
            dataset="lambada",
            split=split,
            variant=variant,
            text=text,
            answer=text[slice(*answer)],
            answer_span=answer,
            sentences=wt.up_to_target(spans, answer, answer[1]),
            tokenised=tokenised,
            meta=meta,
        )


def _bad(problem: str, file: sources.File, line: int) -> DataError:
    remedy = 'correct the line, or leave it out with on_error="skip"'
    return DataError(problem, file=file.label, line=line, remedy=remedy)


def _rows(file: sources.File, variant: str) -> list[tuple[str | DataError, dict[str, Any]]]:
    if variant != "openai":
        return [(line, {}) for line in file.lines()]
    return [(_json_text(line, file, number), {}) for number, line in enumerate(file.lines(), 1)]


def _json_text(line: str, file: sources.File, number: int) -> str | DataError:
    fault = "there is no text in it"
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        record, fault = None, f"this is no JSON ({error})"
    text = record.get("text") if isinstance(record, dict) else None
    if isinstance(text, str):
        if wt.is_encodable(text):
            return text
        fault = "the text holds half a surrogate pair"
    return _bad(f'{fault}, expected {{"text": "..."}}', file, number)


def _parquet(file: sources.File) -> list[tuple[str | DataError, dict[str, Any]]]:
    """Read the form in which the Hugging Face hub keeps the data set: columns `text` and `domain`."""
    what, remedy = "this Parquet file of passages", "download it again"
    with reading(file.label, what, remedy=remedy):
        table = read_parquet(file.label, data=file.data, what=what, remedy=remedy)
        texts = table["text"].cast("string").to_pylist()
        domains = table["domain"].to_pylist() if "domain" in table.column_names else [None] * len(texts)
    lacking = DataError("a row has no text", file=file.label)
    return [
        (lacking if text is None else text, {} if domain is None else {"domain": str(domain)})
        for text, domain in zip(texts, domains, strict=True)
    ]


def _check_case(lines: list[str], variant: str, file: sources.File) -> None:
    cased = sum(line != line.lower() for line in lines)
    actual = "capitalised" if cased * 2 > len(lines) else "plain"
    if lines and actual != variant:
        raise DataError(
            f"{cased:,} of {len(lines):,} lines hold capitals: this is the {actual} text, expected {variant}",
            file=file.label,
            remedy=f'pass variant="{actual}"',
        )


RELEASE = sources.Release(
    name="lambada",
    files=_FILES,
    parse=_parse,
    archives=_ARCHIVES,
    loose=[part for part in _FILES if part[0] == "rejected" or part[1] != "plain"],
    variant_in_name=_variant_in_name,
    books={
        "train": sources.BookFiles(
            (
                "train-novels.tar",
                "*/train-novels/*.txt",
                "*lambada*/train-*.parquet",
                "lambada-dataset*.tar*",
            ),
            inside="*train-novels*",
            depth=2,  # a novel's folder is its genre
        )
    },
)
