"""LAMBADA: the last word of a passage, which needs the whole passage to be guessed.

Paperno et al. (2016), "The LAMBADA dataset: Word prediction requiring a broad discourse
context", ACL. Three forms of the text go round, all read byte for byte: the release
(`plain`: lower-cased Penn Treebank tokens), its cased twin (`capitalised`), and OpenAI's
running text (`openai`: test split only; `openai-de` and others are its translations).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pandas as pd

from workbench.datasets import sources
from workbench.datasets.question_tables import check_no_books
from workbench.items import language as tongues
from workbench.items import text as wt
from workbench.items.language import ENGLISH, folder_of, in_language, language, language_name
from workbench.items.questions import Sides, continued
from workbench.items.schema import Item
from workbench.storage.errors import DataError
from workbench.storage.tables import parsed_json, read_frame

_ARCHIVES = ("lambada-dataset.tar.gz", "lambada-dataset*")
_FILES = {
    ("dev", "plain"): (
        "lambada_development_plain_text.txt", "lambada_development_plain_text*.txt",
        "*lambada*/validation[-/]*.parquet", "*lambada*/validation-*.jsonl",
    ),
    ("test", "plain"): (
        "lambada_test_plain_text.txt", "lambada_test_plain_text*.txt",
        "*lambada*/test[-/]*.parquet", "*lambada*/test-*.jsonl",
    ),
    ("control", "plain"): ("lambada_control_test_data_plain_text.txt", "lambada_control*plain_text*.txt"),
    ("rejected", "plain"): ("lambada_rejected_plain_text.txt", "*rejected*plain_text*.txt", "*rejected*.txt"),
    ("dev", "capitalised"): (
        "lambada_development_capitalized_plain_text.txt", "lambada_development_capitali[sz]ed*.txt",
    ),
    ("test", "capitalised"): (
        "lambada_test_capitalized_plain_text.txt", "lambada_test_capitali[sz]ed*.txt",
    ),
    ("test", "openai"): (  # those with a language of two letters are translations
        "lambada_test.jsonl", "lambada_test_en*.jsonl", "lambada_test[!_]*.jsonl",
        "lambada_test_[a-z][a-z][a-z]*.jsonl", "lambada_openai.jsonl", "lambada_openai_en*.jsonl",
        "lambada_openai[!_]*.jsonl", "lambada_openai_[a-z][a-z][a-z]*.jsonl",
        *(f"*lambada*/{folder}*test*.parquet" for folder in ("default/", "en/", "")),
        *(f"*lambada*/{folder}test-*.jsonl" for folder in ("default/", "en/", "")),
    ),
    **{
        ("test", f"openai-{language}"): (
            f"*lambada_openai/*_{language}.jsonl", f"*lambada_openai/*{language}/*test*.parquet",
            f"lambada_test_{language}*.jsonl", f"lambada_openai_{language}*.jsonl",
            f"*lambada*_{language}*.parquet", f"*lambada*/{language}/*test*.parquet",
        )
        for language in ("de", "es", "fr", "it")
    },
    **{
        ("test", f"openai-mt-{language}"): (
            f"*lambada*_mt_*{language}*.jsonl", f"*lambada*_mt_*{language}*.parquet",
            f"*lambada*stablelm*/*_{language}*.jsonl", f"*lambada*stablelm*/{language}/*test*.parquet",
            f"*lambada*stablelm*/*_{language}*.parquet",
            *([f"lambada_test_{language}*.jsonl"] if language in {"nl", "pt"} else []),
        )
        for language in ("de", "es", "fr", "it", "nl", "pt")
    },
}  # fmt: skip
_TRANSLATED = re.compile(r"(?:^|[/_.-])(de|en|es|fr|it|nl|pt)(?=[/_.-])")
_LATER = re.compile(r"(?:^|[/_.-])(?:mt|stablelm)(?=[/_.-])")
_CASED = re.compile(r"capitali[sz]ed", re.IGNORECASE)
_NOVELS = "whole novels, not passages"
_EXPECTED = '{"text": "..."} or {"context": "...", "continuation": "..."}'
_SAMPLE = 1000  # texts that tell the form of all
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
    path = sources.find_first(sources.search_roots("lambada", None), _VOCABULARY)
    return None if path is None else vocabulary(path)


@lru_cache(maxsize=4)
def _counts(file: sources.File, _written: int, _size: int) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    sources.compare_published("lambada", file)
    for number, line in enumerate(file.lines(), 1):
        word, tab, count = line.partition("\t")
        if not (word and tab and re.fullmatch(r"\d{1,18}", count)):
            problem = f"{line[:60]!r} is not a valid vocabulary line, expected a word, a tab and a count"
            raise DataError(problem, file=file.label, line=number, hint="fetch the file again")
        counts[word] = counts.get(word, 0) + int(count)
    return MappingProxyType(counts)


def _variant_in_file(file: sources.File) -> str | None:
    """Return the variant of running text, with its language; None for tokens."""
    rows = [row for row in _rows(file) if isinstance(row.text, str)]
    if _form([str(row.text) for row in rows]) != "openai":
        return None
    codes = _languages(rows)
    if len(codes) > 1:
        names = ", ".join(map(language_name, sorted(codes)))
        hint = f'pass variant="openai-de" or another of them, or read all: wb.load("{file.label}")'
        raise DataError(f"its rows are in several languages: {names}", file=file.label, hint=hint)
    return in_language("openai", codes.pop()) if codes else _translation(file)


def _languages(rows: Iterable[_Row]) -> set[str]:
    """Return the languages of good rows, English where a row names none; empty where none names one."""
    codes = {row.meta.get("language") for row in rows if isinstance(row.text, str)}
    return {code or ENGLISH for code in codes} if codes != {None} else set()


def _translation(file: sources.File) -> str:
    """Infer the variant of OpenAI's text from the name of the file, else of its folders."""
    folders = "/".join(file.path.absolute().parts[-4:-1]).lower()
    name = file.name.lower()
    match = _TRANSLATED.search(name) or _TRANSLATED.search(f"{folders.rpartition('/')[2]}/")
    code = match[1] if match else tongues.language_in_path(file.path)
    if code in {None, ENGLISH}:
        return "openai"
    is_later = _LATER.search(f"{folders}/{name}") or code in {"nl", "pt"}
    return f"openai-{'mt-' if is_later else ''}{code}"


def _parse(file: sources.File, split: str, variant: str) -> Iterator[Item | DataError]:
    """Yield passages with the last word of a line as answer.

    Those of `plain` and `capitalised` share their ids, ``lambada/dev/000017`` for line 18: they are the same.
    Translations have their language in the id: ``lambada/test/openai-de/000017``.
    """
    rows = _rows(file)
    tokenised = not variant.startswith("openai")
    texts = [row.text for row in rows if isinstance(row.text, str)]
    codes = _languages(rows)
    if mismatch := _mismatch(texts, variant, file, codes):
        remark, form = mismatch
        raise DataError(f"{remark}, expected {variant}", file=file.label, hint=f'pass variant="{form}"')
    folder = folder_of(split, variant)
    for number, (text, meta, shard, line) in enumerate(rows):
        if isinstance(text, DataError):
            yield text
            continue
        if codes and meta.get("language", ENGLISH) != language(variant):
            continue
        answer = wt.last_word(text, tokenised=tokenised)
        if answer is None or not text[: answer[0]].strip():
            yield _bad(f"{text[:60]!r} is not a passage, expected at least two words", shard, line)
            continue
        spans = wt.sentences(text, tokenised=tokenised, paragraphs=False)
        yield Item(
            item_id=f"lambada/{folder}/{number:06d}",
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
    hint = 'correct the line, or leave it out with on_error="skip"'
    return DataError(problem, file=file.label, line=line, hint=hint)


class _Row(NamedTuple):
    """A passage or the error of its row, what else the row says of it, and its file and line."""

    text: str | DataError
    meta: dict[str, Any]
    file: sources.File
    line: int


def _rows(file: sources.File) -> list[_Row]:
    return [row for shard in file.shards for row in _rows_of_shard(shard)]


def _rows_of_shard(file: sources.File) -> list[_Row]:
    ending = file.name.lower().rpartition(".")[2]
    if ending in {"parquet", "csv", "tsv", "json"}:
        return _table(file)
    lines = enumerate(sources.lines(sources.decode(file.data, file.label)), 1)
    if ending not in {"jsonl", "ndjson"}:
        return [_Row(line, {}, file, number) for number, line in lines]
    rows = [_Row(*_json_row(line, file, number), file, number) for number, line in lines]
    check_no_books(pd.DataFrame({"text": [row.text for row in rows]}), file.path, _NOVELS)
    return rows


def _json_row(line: str, file: sources.File, number: int) -> tuple[str | DataError, dict[str, Any]]:
    record = parsed_json(line)
    if isinstance(record, Exception):
        return _bad(f"not valid JSON ({record}), expected {_EXPECTED}", file, number), {}
    record = record if isinstance(record, dict) else {}
    code = tongues.language_of_row({name.lower(): cell for name, cell in record.items()})
    return _text(record, file, number), {"language": code} if code else {}


def _text(record: Mapping[Any, Any], file: sources.File, number: int) -> str | DataError:
    """Return the text of a row: ``text``, or ``context`` and the word in ``continuation``."""
    text = record.get("text")
    if "text" not in record and isinstance(word := record.get("continuation"), str):
        if len(word.split()) != 1:
            return _bad(f"the continuation is {word[:40]!r}, expected one word", file, number)
        sides, word = continued(record.get("context"), word)
        text = f"{sides.before}{word}{sides.after}" if isinstance(sides, Sides) else None
    if not isinstance(text, str):
        return _bad(f"there is no text in it, expected {_EXPECTED}", file, number)
    if not wt.is_encodable(text):
        return _bad(f"the text holds half a surrogate pair, expected {_EXPECTED}", file, number)
    return text


def _table(file: sources.File) -> list[_Row]:
    """Read the table of the Hugging Face hub, `text` and perhaps `domain`, or the columns of `_text`."""
    words = ["text", "domain", "context", "continuation"]
    frame, _, problems, _ = read_frame(file.data, Path(file.label))
    check_no_books(frame, file.path, _NOVELS)
    if "text" not in frame and not {"context", "continuation"} <= set(frame):
        problem = f"there is no column 'text'; there is {', '.join(map(str, frame))[:200]}"
        raise DataError(
            problem, file=file.label, hint=f'read a table of your own with wb.load("{file.label}")'
        )
    rows = [_Row(problem, {}, file, problem.line or 0) for problem in problems]
    records = frame[[name for name in words if name in frame]].to_dict("records")
    for number, (record, code) in enumerate(zip(records, tongues.languages_of_rows(frame), strict=True), 1):
        meta = {"domain": record["domain"]} if isinstance(record.get("domain"), str) else {}
        meta |= {"language": code} if code else {}
        rows.append(_Row(_text(record, file, number), meta, file, number))
    return rows


def _form(texts: list[str]) -> str | None:
    """Return the form of most texts: tokens (`plain`, or `capitalised`), or running text (`openai`)."""
    if not texts:
        return None
    if sum(not wt.looks_tokenised(text) for text in texts[:_SAMPLE]) * 2 > len(texts[:_SAMPLE]):
        return "openai"
    return "capitalised" if sum(text != text.lower() for text in texts) * 2 > len(texts) else "plain"


def _mismatch(texts: list[str], variant: str, file: sources.File, codes: set[str]) -> tuple[str, str] | None:
    """Return what shows that a file is of another variant, and that variant; None if it may be of this one.

    `codes` are the languages of its rows, where they name them.
    """
    form = _form(texts)
    if form == "openai" and not codes:
        form = _translation(file)
    is_untold = form == "openai" and variant.startswith("openai")  # the file does not tell its language
    if form and form != variant and not is_untold:
        cased = sum(text != text.lower() for text in texts)
        remark = f"{cased:,} of {len(texts):,} lines hold capitals: this is the {form} text"
        if form.startswith("openai") and not variant.startswith("openai"):
            remark = f"this is running text, the variant {form!r}"
        elif form.startswith("openai"):
            remark = f"its name says that this is the variant {form!r}"
        return remark, form
    if codes and language(variant) not in codes:
        names = ", ".join(map(language_name, sorted(codes)))
        return f"its rows are in {names}", in_language("openai", min(codes))
    return None


RELEASE = sources.Release(
    name="lambada",
    files=_FILES,
    parse=_parse,
    archives=_ARCHIVES,
    loose=[key for key in _FILES if key[0] == "rejected" or key[1] != "plain"],
    variant_in_file=_variant_in_file,
    variant_in_name=lambda name: "capitalised" if _CASED.search(name) else "plain",
    books={
        "train": sources.BookFiles(
            (
                "train-novels.tar",
                "*/train-novels/*.txt",
                "*lambada*/train[-/]*.parquet",
                "lambada-dataset*.tar*",
            ),
            inside="*train-novels*",
            depth=2,  # a novel's folder is its genre
        )
    },
)
