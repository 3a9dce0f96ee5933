"""LAMBADA: the last word of a passage, which needs the whole passage to be guessed.

Paperno et al. (2016), "The LAMBADA dataset: Word prediction requiring a broad discourse
context", ACL. Three forms of the text are in use, all read byte for byte: the release
(`plain`: lower-cased Penn Treebank tokens), the same in its original case (`capitalised`), and OpenAI's
running text (`openai`: test split only; `openai-de` and others are its translations).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from workbench.datasets import sources
from workbench.items import text as wt
from workbench.items.language import ENGLISH, folder_of, in_language, language_in_path
from workbench.items.schema import Item
from workbench.storage.errors import DataError
from workbench.storage.tables import read_frame

_ARCHIVES = ("lambada-dataset.tar.gz", "lambada-dataset*")


def _translation(folder: str, language: str) -> tuple[str, ...]:
    """Return the patterns of a translation in a folder of the hub."""
    return f"{folder}/*_{language}.jsonl", f"{folder}/*{language}/*test*.parquet"


_FILES = {
    ("dev", "plain"): (
        "lambada_development_plain_text.txt", "lambada_development_plain_text*.txt",
        "*lambada*/validation[-/]*.parquet",
    ),
    ("test", "plain"): (
        "lambada_test_plain_text.txt", "lambada_test_plain_text*.txt", "*lambada*/test[-/]*.parquet",
    ),
    ("control", "plain"): ("lambada_control_test_data_plain_text.txt", "lambada_control*plain_text*.txt"),
    ("rejected", "plain"): ("lambada_rejected_plain_text.txt", "*rejected_plain_text*.txt"),
    ("dev", "capitalised"): ("lambada_development_capitalized*.txt",),
    ("test", "capitalised"): ("lambada_test_capitalized*.txt",),
    ("test", "openai"): (
        "lambada_test.jsonl", "lambada_test_en.jsonl", "lambada_openai*.jsonl", "lambada_test*.jsonl",
        *(f"*lambada_openai*/{folder}*test*.parquet" for folder in ("default/", "en/", "")),
    ),
    **{
        ("test", f"openai-{language}"): (
            *_translation("*lambada_openai", language), f"lambada_test_{language}.jsonl",
        )
        for language in ("de", "es", "fr", "it")
    },
    **{
        ("test", f"openai-mt-{language}"): (
            *_translation("*lambada*_mt*", language), *_translation("*lambada*stablelm*", language),
        )
        for language in ("de", "es", "fr", "it", "nl", "pt")
    },
}  # fmt: skip
_LATER = re.compile(r"(?:^|[/_.-])(?:mt|stablelm)(?=[/_.-])")
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
    file = sources.as_single_file(path)
    file = file or sources.find_files("lambada", {"": _VOCABULARY}, archives=_ARCHIVES, path=path)[""]
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
            raise DataError(problem, file=file.path, line=number, hint="fetch the file again")
        counts[word] = counts.get(word, 0) + int(count)
    return MappingProxyType(counts)


def _variant_of(path: Path) -> str:
    """Infer the variant from the names of a file and its folders: text is the release's, JSON OpenAI's."""
    name = "/".join(path.absolute().parts[-4:]).lower()
    if path.suffix.lower() == ".txt":
        return "capitalised" if "capitali" in path.name.lower() else "plain"
    code = language_in_path(path)
    if code in {None, ENGLISH}:
        return "openai" if "openai" in name or path.suffix.lower() == ".jsonl" else "plain"
    return in_language("openai-mt" if _LATER.search(name) or code in {"nl", "pt"} else "openai", code)


class _Row(NamedTuple):
    """A row of a file: its passage, its genre where the hub has it, and its file and line."""

    text: Any
    domain: Any
    file: sources.File
    line: int


def _rows(file: sources.File) -> Iterator[_Row | DataError]:
    """Yield the lines of a text, or the rows of a table with the column `text`, of all parts."""
    for shard in file.shards:
        if shard.path.suffix.lower() == ".txt":
            yield from (_Row(line, None, shard, number) for number, line in enumerate(shard.lines(), 1))
            continue
        frame, lines, problems, _ = read_frame(shard.data, shard.path)
        if "text" not in frame:
            problem = f"expected a column 'text', got {', '.join(map(str, frame)):.200}"
            hint = f'read a table of your own with wb.load("{shard.path}")'
            raise DataError(problem, file=shard.path, hint=hint)
        domains = frame["domain"] if "domain" in frame else [None] * len(frame)
        cells = zip(frame["text"], domains, lines, strict=True)
        rows = (_Row(text, domain, shard, line) for text, domain, line in cells)
        records: list[_Row | DataError] = [*rows, *problems]
        yield from sorted(records, key=lambda record: record.line or 0)


def _parse(file: sources.File, split: str, variant: str) -> Iterator[Item | DataError]:
    """Yield passages with the last word of a line as answer.

    Those of `plain` and `capitalised` share their ids, ``lambada/dev/000017`` for line 18: they are the same.
    Translations have their language in the id: ``lambada/test/openai-de/000017``.
    """
    rows = list(_rows(file))
    _check_variant([row.text for row in rows if isinstance(row, _Row)], variant, file)
    tokenised = not variant.startswith("openai")
    folder = folder_of(split, variant)
    hint = 'correct the line, or leave it out with on_error="skip"'
    for number, row in enumerate(rows):
        if isinstance(row, DataError):
            yield row
            continue
        text, domain, shard, line = row
        is_text = isinstance(text, str) and wt.is_encodable(text)
        answer = wt.last_word(text, tokenised=tokenised) if is_text else None
        if answer is None or not text[: answer[0]].strip():
            problem = f"{str(text)[:60]!r} is not a passage, expected at least two words"
            yield DataError(problem, file=shard.path, line=line, hint=hint)
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
            meta={"domain": domain} if isinstance(domain, str) else {},
        )


def _check_variant(rows: list[Any], variant: str, file: sources.File) -> None:
    """Raise DataError if a file is of another variant, by the form of most texts or the name of the file."""
    texts = [text for text in rows if isinstance(text, str)]
    form = "capitalised" if sum(text != text.lower() for text in texts) * 2 > len(texts) else "plain"
    sample = texts[:_SAMPLE]
    if sum(not wt.looks_tokenised(text) for text in sample) * 2 > len(sample):
        by_name = _variant_of(file.path)
        form = by_name if by_name.startswith("openai") else "openai"
        form = variant if form == "openai" and variant.startswith("openai") else form
    if texts and form != variant:
        hint = f'pass path="{file.path}", variant="{form}"'
        raise DataError(f"this is the variant {form!r}, expected {variant!r}", file=file.path, hint=hint)


RELEASE = sources.Release(
    name="lambada",
    files=_FILES,
    parse=_parse,
    archives=_ARCHIVES,
    loose=[key for key in _FILES if key[0] == "rejected" or key[1] != "plain"],
    variant_of=_variant_of,
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
