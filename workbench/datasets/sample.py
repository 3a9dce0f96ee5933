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
from workbench.storage.errors import DataError
from workbench.storage.files import read_bytes, read_json
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
    "CN", "V" or "P" for those of one, and "msrcc" for sentence completions.
    """
    if path is not None:
        raise DataError("the sample is part of the workbench", hint="leave out path=")
    variant = sources.check_choice("variant", variant, VARIANTS, "the sample", "plain")
    splits = SPLITS if variant in PASSAGES else _WITH_QUESTIONS
    split = sources.check_choice("split", split, splits, f"the sample, variant {variant!r},", "dev")
    if variant in PASSAGES:
        records = list(_passages("dev" if split in STORIES else split, variant))
    else:
        records = list(_completions() if variant == "msrcc" else _questions(variant))
    if split in STORIES:
        books = {_book_id(name) for name in story_names(split)}
        records = [replace(item, split=split) for item in records if item.book_id in books]
    return sources.items_from_records("sample", records, on_error)


def story_names(split: str) -> list[str]:
    """Return the names of the files of the stories of a split, "train" or "test", without their ends."""
    return [str(name) for name in read_json(resource("sample", "split.json"))[split]]


def at_hand(_searched: Sequence[sources.Root]) -> Iterator[tuple[str, str, Path | None]]:
    """Yield split, variant and place: always with the project; "cbt" stands for its word classes."""
    for split in SPLITS:
        for variant in (*PASSAGES, "cbt", "msrcc") if split in _WITH_QUESTIONS else PASSAGES:
            yield split, variant, resource("sample")
    yield from ((split, "books", resource("sample", "novels")) for split in STORIES)


def _book_id(story: str) -> str:
    """Return the id of a story as :func:`workbench.datasets.books` has it."""
    return f"sample/{story}"


def _passages(split: str, variant: str) -> Iterator[Item]:
    rows = [row for row in _rows("passages") if row["split"] == split]
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


def _questions(variant: str) -> Iterator[Item]:
    numbers = dict.fromkeys(WORD_CLASSES, 0)
    for row in _rows("questions"):
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


def _completions() -> Iterator[Item]:
    for number, row in enumerate(_rows("completions"), start=1):
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


def _rows(name: str) -> list[dict[str, Any]]:
    text = read_bytes(resource("sample", f"{name}.jsonl")).decode()
    return [json.loads(line) for line in text.split("\n") if line]
