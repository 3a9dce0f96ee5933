"""The workbench's own sample: passages and questions from short stories written for it (CC0).

All four tasks in small, with no download: LAMBADA-shaped passages (filtered by readers as in
Paperno et al. 2016, section 3.1, rejected, and unfiltered), Children's Book Test questions of
all four classes, and sentence completions. ``data/sample/README.md`` says how they were made.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from workbench.datasets import sources
from workbench.items import text as wt
from workbench.items.items import WORD_CLASSES, Item, Items
from workbench.storage.errors import reading
from workbench.storage.files import read_bytes
from workbench.storage.paths import resource

PASSAGES = ("plain", "capitalised", "openai")
VARIANTS = (*PASSAGES, "cbt", *WORD_CLASSES, "msrcc")
STORIES = ("train", "test")
"""Splits of the stories, and of the items made from them; ``split.json`` has both."""
_WITH_QUESTIONS = ("dev", *STORIES)
SPLITS = (*_WITH_QUESTIONS, "control", "rejected")


def load(
    split: str | None = None,
    *,
    variant: str | None = None,
    path: Path | str | None = None,
    on_error: str = "raise",
) -> Items:
    """Read a part of the sample; see :func:`workbench.datasets.load`.

    The split "dev" (the default) has the passages of all stories that readers guess from the passage alone;
    "train" and "test" those of them that are from the stories ``wb.books("sample", "train")`` or "test", with
    the same ids; "control" has unfiltered ones, and "rejected" what the readers did not let through. Models
    that are fitted on "train" are tested on "test". The variant is "plain" (the default), "capitalised" or
    "openai" of passages; in "dev", "train" and "test" also "cbt" for questions of all word classes, "NE",
    "CN", "V" or "P" for those of one, and "msrcc" for sentence completions. `path` is another folder with
    files of the same form.
    """
    variant = sources.check_choice("variant", variant, VARIANTS, "the sample", "plain")
    splits = SPLITS if variant in PASSAGES else _WITH_QUESTIONS
    split = sources.check_choice("split", split, splits, f"the sample, variant {variant!r},", "dev")
    folder = resource("sample") if path is None else Path(path)
    source_split = "dev" if split in STORIES else split
    with reading(folder, "the sample"):
        if variant in PASSAGES:
            records = list(_passages(folder, source_split, variant))
        else:
            records = list(_completions(folder) if variant == "msrcc" else _questions(folder, variant))
    if split in STORIES:
        books = {_book_id(name) for name in story_names(split, folder)}
        records = [replace(item, split=split) for item in records if item.book_id in books]
    return sources.items_from_records("sample", records, on_error)


def story_names(split: str, folder: Path | None = None) -> list[str]:
    """Return the names of the files of the stories of a split, "train" or "test", without their ends."""
    file = (folder or resource("sample")) / "split.json"
    description, hint = "the split of the stories", "restore the file"
    with reading(file, description, hint=hint):
        return [str(name) for name in json.loads(read_bytes(file, description))[split]]


def at_hand(_searched: Sequence[sources.Root]) -> Iterator[tuple[str, str, Path | None]]:
    """Yield split, variant and place: always with the project; "cbt" stands for its word classes."""
    for split in SPLITS:
        for variant in (*PASSAGES, "cbt", "msrcc") if split in _WITH_QUESTIONS else PASSAGES:
            yield split, variant, resource("sample")
    yield from ((split, "books", resource("sample", "novels")) for split in STORIES)


def _book_id(story: str) -> str:
    """Return the id of a story as :func:`workbench.datasets.books` has it."""
    return f"sample/{story}"


def _passages(folder: Path, split: str, variant: str) -> Iterator[Item]:
    rows = [row for row in _rows(folder / "passages.jsonl") if row["split"] == split]
    running = variant == "openai"
    for number, row in enumerate(rows):
        text = row["running"] if running else row["tokens"]
        text = text.lower() if variant == "plain" else text
        start = len(text) - len(row["target"])
        yield Item(
            item_id=f"sample/{split}/{number:06d}",
            dataset="sample",
            split=split,
            variant=variant,
            text=text,
            answer=text[start:],
            answer_span=(start, len(text)),
            sentences=tuple(wt.sentences(text, tokenised=not running, paragraphs=False)),
            tokenised=not running,
            book_id=_book_id(row["book"]),
        )


def _questions(folder: Path, variant: str) -> Iterator[Item]:
    numbers = dict.fromkeys(WORD_CLASSES, 0)
    for row in _rows(folder / "questions.jsonl"):
        word_class, sentences = row["word_class"], row["sentences"]
        if variant in ("cbt", word_class):
            spans = wt.joined_spans(sentences)
            start = spans[-1][0] + sum(len(word) + 1 for word in sentences[-1].split()[: row["blank"]])
            yield _item(
                row,
                start,
                item_id=f"sample/dev/{word_class}/{numbers[word_class]:06d}",
                variant=word_class,
                text="\n".join(sentences),
                sentences=tuple(spans),
                word_class=word_class,
            )
        numbers[word_class] += 1


def _completions(folder: Path) -> Iterator[Item]:
    for number, row in enumerate(_rows(folder / "completions.jsonl"), start=1):
        yield _item(
            row,
            row["blank"],
            item_id=f"sample/dev/msrcc/{number:04d}",
            variant="msrcc",
            text=row["sentence"],
            sentences=((0, len(row["sentence"])),),
            tokenised=False,
        )


def _item(row: dict[str, Any], start: int, **columns: Any) -> Item:
    """Return a question with candidates and the offset of its answer in the text."""
    return Item(
        dataset="sample",
        split="dev",
        answer=row["answer"],
        answer_span=(start, start + len(row["answer"])),
        candidates=tuple(row["candidates"]),
        book_id=_book_id(row["book"]),
        **columns,
    )


def _rows(file: Path) -> list[dict[str, Any]]:
    description, hint = "this part of the sample", "restore the file"
    with reading(file, description, hint=hint):
        return [json.loads(line) for line in read_bytes(file, description).decode().split("\n") if line]
