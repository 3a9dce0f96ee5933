"""CNN and Daily Mail questions: one entity of a news highlight, after the anonymised article.

Hermann et al. (2015), "Teaching Machines to Read and Comprehend", NeurIPS. One file per question:
address, article, question with ``@placeholder``, answer, ``@entity7:name`` lines, with blank
lines between.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import pandas as pd

from workbench.datasets import sources
from workbench.datasets.question_tables import QuestionTable
from workbench.items import text as wt
from workbench.items.cells import listed_cell
from workbench.items.items import Items
from workbench.items.questions import CANDIDATES, Sides
from workbench.items.schema import Item, Span
from workbench.storage.errors import DataError
from workbench.storage.progress import progress_bar

SPLITS = ("train", "dev", "test")
UNNAMED = "all"
"""The split of questions whose folder is not called training, validation or test."""
VARIANTS = ("cnn", "dailymail")
BLANK = "@placeholder"
SUFFIX = ".question"
_ARTICLES = ("article", "context", "passage", "document")
_QUERIES = ("question", "query")
_LISTS = ("entities", *CANDIDATES)
_FOLDERS = {"train": "training", "dev": "validation", "test": "test"}
_PARTS = ("address", "article", "question", "answer", "entities")
_ENTITY = re.compile(r"(@entity([0-9]{1,9})):(.*)", re.DOTALL)


def load(
    split: str | None = None,
    *,
    variant: str | None = None,
    path: Path | str | None = None,
    on_error: str = "raise",
) -> Items:
    """Read the questions of one split; see :func:`workbench.datasets.load`.

    `variant` is "cnn" or "dailymail". Questions in a folder that names no split are one set, the split "all";
    it is also read where no split is asked for. The candidates are all entities that the file lists, by
    number; their names and the article's address are in ``meta``.
    """
    location = None if path is None else Path(path).expanduser().absolute()
    if variant is None and location is not None and "dailymail" in _names(location):
        variant = "dailymail"
    variant = sources.check_choice("variant", variant, VARIANTS, "cnnqa", "cnn")
    file = sources.as_single_file(path)
    table = file if file and file.path.suffix != SUFFIX else None
    if split is None and location is not None:
        folder = location.parent if file else location
        split = sources.split_of_file(location) if table else _split_of_folder(folder)
    splits = ("dev", UNNAMED) if split is None else (split,)
    split = sources.check_choice("split", splits[0], (*SPLITS, UNNAMED), "cnnqa")
    if table is None:
        split, table, files = _find(path, splits, variant)
    if table is not None:
        records = _rows(table, split, variant)
        return sources.items_from_records("cnnqa", records, on_error, files=table.shards)
    source = file.name if file else f"{files[0].parent.name}/*{SUFFIX}"
    with progress_bar(len(files), label=f"{variant} {split}", unit="questions", delay=1) as bar:
        records = _records(files, split, variant, bar.update)
        return sources.items_from_records("cnnqa", records, on_error, attrs={"source": source})


def _find(
    path: Path | str | None, splits: Sequence[str], variant: str
) -> tuple[str, sources.File | None, list[Path]]:
    """Return the first of some splits that is there, and its table, or its files of one question each."""
    searched = sources.search_roots("cnnqa", path)
    for root in sources.with_unpacked("cnnqa", searched, _packs(variant)):
        for split in splits:
            folders = _folders(root, split, variant, by_path=path is not None or root not in searched)
            if len(folders) > 1:
                problem = f"several folders fit: {', '.join(folders)}"
                raise DataError(problem, hint="pass path= the one you mean")
            if folders:
                return split, None, list(map(Path, *folders.values()))
            if table := sources.from_disk(root, _tables(split, variant)):
                return split, table, []
    inside = f"{variant}/questions/{_FOLDERS.get(splits[0], '')}/*{SUFFIX}".replace("//", "/")
    raise sources.missing("cnnqa", [inside, f"{variant}.tgz"], searched)


def _tables(split: str, variant: str) -> list[str]:
    """Return the patterns of a split's tables, as the hub has them."""
    name = {"dev": "valid"}.get(split, split)
    return [f"*/{variant}/{name}*{ending}" for ending in sources.HUB]


def _folders(root: sources.Root, split: str, variant: str, *, by_path: bool) -> dict[str, list[str]]:
    """Return the question files of a split by folder.

    The split is that of the folder's name, `UNNAMED` for any other name. The variant is among the names of
    the folders above; folders that name none are those of CNN, and of either if they were asked for.
    """
    folders: dict[str, list[str]] = {}
    for _, name in root.files:
        if name.endswith(SUFFIX):
            folders.setdefault(name.rpartition(os.sep)[0], []).append(name)
    is_usual = by_path or variant == VARIANTS[0]
    return {
        folder: files
        for folder, files in folders.items()
        if (_split_of_folder(Path(folder)) or UNNAMED) == split
        and (variant in (names := _names(Path(folder))) or (is_usual and names.isdisjoint(VARIANTS)))
    }


def _names(path: Path) -> set[str]:
    return {name.lower() for name in path.parts}


def at_hand(searched: Sequence[sources.Root]) -> Iterator[tuple[str, str, Path | None]]:
    """Yield split, variant and place, None where it is not on this machine."""
    for variant in VARIANTS:
        archive = sources.find_first(searched, archives=_packs(variant))
        for split in (*SPLITS, UNNAMED):
            folders = chain.from_iterable(_folders(root, split, variant, by_path=False) for root in searched)
            path = next(map(Path, folders), None)
            if split in SPLITS:
                path = path or sources.find_first(searched, _tables(split, variant)) or archive
            if split in SPLITS or path:
                yield split, variant, path


def _packs(variant: str) -> tuple[str, ...]:
    return f"{variant}.tgz", f"{variant}*.t*gz"


def _split_of_folder(folder: Path) -> str | None:
    return next((split for split, name in _FOLDERS.items() if name == folder.name.lower()), None)


def _records(
    files: Sequence[Path], split: str, variant: str, step: Callable[[], Any]
) -> Iterator[Item | DataError]:
    # In this process: with eight more, the training split took 18.2 s in place of 19.0 s.
    for file in files:
        step()
        try:
            yield _question(sources.File(file), split, variant)
        except DataError as error:
            yield error


def _question(file: sources.File, split: str, variant: str) -> Item:
    def wrong(problem: str, section: int) -> DataError:
        line = starts[min(section, len(starts) - 1)] if starts else 1
        hint = 'correct the file, or leave it out with on_error="skip"'
        return DataError(problem, file=file.path, line=line, hint=hint)

    numbered = enumerate(file.lines(), 1)
    groups = [list(g) for blank, g in groupby(numbered, lambda line: not line[1].strip()) if not blank]
    starts = [group[0][0] for group in groups]
    blocks = [[line for _, line in group] for group in groups]
    if len(blocks) != len(_PARTS):
        raise wrong(
            f"there are {len(blocks)} blocks, expected {len(_PARTS)}: {', '.join(_PARTS)}", len(_PARTS)
        )
    address, article, query, answer = ("\n".join(block) for block in blocks[:4])
    if query.count(BLANK) != 1:
        raise wrong(f"the question holds {BLANK} {query.count(BLANK)} times, expected once", 2)
    entities = {}
    for line in blocks[4]:
        if not (match := _ENTITY.fullmatch(line)):
            raise wrong(f"found {line[:40]!r}, expected an entity such as @entity7:name", 4)
        entities[match[1]] = match[3], int(match[2])
    if not file.data.endswith(b"\n") and (lacking := set(re.findall(r"@entity\d+", article)) - set(entities)):
        raise wrong(f"the list of entities lacks {min(lacking)}, so the file may be cut short", 4)
    if answer not in entities:
        raise wrong(f"the answer {answer[:40]!r} is not among the {len(entities)} entities listed", 3)
    ordered = sorted(entities, key=lambda entity: entities[entity][1])
    return made_item(
        f"cnnqa/{split}/{file.name.removesuffix(SUFFIX)}", variant, article, query, answer, url=address,
        names={entity: entities[entity][0] for entity in ordered},
    )  # fmt: skip


def _rows(file: sources.File, split: str, variant: str) -> Iterator[Item | DataError]:
    """Yield the questions of a table, as the Hugging Face hub keeps them."""
    for row in QUESTIONS.rows_of_file(file):
        if isinstance(row, DataError):
            yield row
            continue
        number, cells, (article, query, answer, names) = row
        name, url = (cells[key] if isinstance(cells.get(key), str) else "" for key in ("id", "url"))
        item_id = f"cnnqa/{split}/{name.removesuffix(SUFFIX) or f'{number:06d}'}"
        yield made_item(item_id, variant, article, query, answer, url=url, names=names)


def _holds_questions(frame: pd.DataFrame, path: Path) -> bool:
    """Return whether a table has articles, questions with `BLANK`, and answers.

    Raise DataError for articles with their highlights, which would else be read as passages.
    """
    if {"article", "highlights"} <= {str(name).lower() for name in frame}:
        problem = "these are articles with highlights, of which no questions were made"
        hint = "pass the questions, cnn.tgz or dailymail.tgz"
        raise DataError(problem, file=path, hint=hint)
    columns = {str(name).lower(): name for name in reversed(list(frame))}
    queries = [columns[name] for name in _QUERIES if name in columns]
    return bool(
        queries
        and "answer" in columns
        and {*_ARTICLES} & {*columns}
        and any(isinstance(cell, str) and BLANK in cell for cell in frame[queries[0]].tolist())
    )


def _question_of(row: Mapping[str, Any]) -> tuple[str, str, str, dict[str, str]]:
    """Return article, query with its blank, answer, and the name of each entity, of a row of a table.

    Without a list of entities (``@entity7:name``, or ``@entity7``), they are those of the texts, unnamed.
    """
    article = next(row[name] for name in _ARTICLES if name in row)
    query, answer = next(row[name] for name in _QUERIES if name in row), row["answer"]
    texts = {"article": article, "question": query, "answer": answer}
    for name, cell in texts.items():
        blanks = f" with {BLANK} once" if name == "question" else ""
        if not isinstance(cell, str) or not cell.strip() or (blanks and cell.count(BLANK) != 1):
            raise DataError(f"the {name} is {str(cell)[:60]!r}, expected text{blanks}")
    lists = (listed_cell(row.get(column), "\n" if column == "entities" else "|") for column in _LISTS)
    listed: list[Any] = next((cell for cell in lists if isinstance(cell, list)), [])
    pairs = (str(entity).partition(":")[::2] for entity in listed)
    names = {entity: name for entity, name in pairs if re.fullmatch(r"@entity[0-9]{1,9}", entity)}
    if not names:
        entities = re.findall(r"@entity[0-9]{1,9}", f"{article} {query} {answer}")
        names = dict.fromkeys(entities, "")
    if answer not in names:
        raise DataError(f"the answer {answer[:40]!r} is not among the {len(names)} entities")
    return article, query, answer, {name: names[name] for name in sorted(names, key=lambda n: int(n[7:]))}


def _sentences_of(text: str) -> tuple[Span, ...]:
    """Return the sentences of a passage; the query is the last one."""
    article = text.rpartition("\n\n")[0]
    return (*wt.sentences(article), (len(article) + 2, len(text)))


def made_item(
    item_id: str,
    variant: str,
    article: str,
    query: str,
    answer: str,
    *,
    url: str,
    names: dict[str, str],
    book_id: str | None = None,
) -> Item:
    """Return an item of an article, a query that holds `BLANK`, and the name of each entity, by number."""
    start = len(article) + 2
    blank = start + query.index(BLANK)
    text = f"{article}\n\n{query.replace(BLANK, answer)}"
    return Item(
        item_id=item_id,
        dataset="cnnqa",
        split=item_id.split("/")[1],
        variant=variant,
        text=text,
        answer=answer,
        answer_span=(blank, blank + len(answer)),
        sentences=(*wt.sentences(article), (start, len(text))),
        candidates=tuple(names),
        book_id=book_id,
        meta={"url": url, "entities": names},
    )


def _sides(article: str, query: str) -> Sides:
    before, after = query.split(BLANK)
    return Sides(f"{article}\n\n{before}", after)


QUESTIONS = QuestionTable(
    columns=f"article, question (with {BLANK}) and answer",
    cells=frozenset({*_ARTICLES, *_QUERIES, *_LISTS, "answer", "text"}),
    holds=_holds_questions,
    read=_question_of,
    passage=lambda question: (_sides(*question[:2]), question[2], list(question[3])),
    sentences=_sentences_of,
)
"""How a table of the user holds these questions."""
