"""CNN and Daily Mail questions: one entity of a news highlight, after the anonymised article.

Hermann et al. (2015), "Teaching Machines to Read and Comprehend", NeurIPS. One file a question:
address, article, question with ``@placeholder``, answer, ``@entity7:name`` lines, with blank
lines between.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd

from workbench.datasets import sources
from workbench.datasets.file_names import split_of_file
from workbench.datasets.question_tables import TABLES, QuestionTable
from workbench.items import text as wt
from workbench.items.cells import listed_cell
from workbench.items.items import Items
from workbench.items.language import folder_of
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
_TABLES = {"train": "train", "dev": "valid", "test": "test"}
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
    folders = [] if path is None else [folder.lower() for folder in Path(path).parts]
    if variant is None and any("dailymail" in folder for folder in folders[-4:]):
        variant = "dailymail"
    variant = sources.check_choice("variant", variant, VARIANTS, "cnnqa", "cnn")
    file = sources.as_single_file(path)
    table = file if file and file.path.suffix.lower() in TABLES else None
    if split is None and path is not None:
        split = _split_of_path(Path(path).absolute())
    is_flat = split in {None, UNNAMED}  # questions whose folder names no split will do
    split = sources.check_choice("split", split, (*SPLITS, UNNAMED), "cnnqa", "dev")

    if file and not table:
        folder, names = file.path, [str(file.path)]
        is_split = split == _named_split(folder.absolute())
    elif not table:
        table, folder, names, is_split = _located(path, split, variant)
    if table:
        note = sources.note_split(table, split)
        records, attrs = _rows(table, split, variant), {"note": note} if note else {}
        return sources.items_from_records("cnnqa", records, on_error, files=table.shards, attrs=attrs)
    if not (is_split or is_flat):
        raise _no_split(folder, split)
    source = file.source if file else f"{folder.name}/*{SUFFIX}"
    with progress_bar(len(names), label=f"{variant} {split}", unit="questions", delay=1) as bar:
        records = _records((sources.File(Path(name)) for name in names), variant, bar.update)
        return sources.items_from_records("cnnqa", records, on_error, attrs={"source": source})


def _located(
    path: Path | str | None, split: str, variant: str
) -> tuple[sources.File | None, Path, list[str], bool]:
    """Return the table of a split; or None, the folder of its questions, their files, and whether it says so.

    DataError if there is neither.
    """
    searched = sources.search_roots("cnnqa", path)
    for root in sources.with_unpacked("cnnqa", searched, _packs(variant)):
        by_path = path is not None or root not in searched
        folder, names, is_split = _folder([root], split, variant, by_path=by_path)
        if folder:
            return None, Path(folder), names, is_split
        (ours,), patterns = _tables([root], split, variant)
        if table := sources.from_disk(ours, patterns):
            return table, root.folder, [], True
    inside = f"{variant}/questions/{_FOLDERS.get(split, '')}/*{SUFFIX}".replace("//", "/")
    raise sources.missing("cnnqa", [inside, f"{variant}.tgz"], searched)


def _tables(roots: Sequence[sources.Root], split: str, variant: str) -> tuple[list[sources.Root], list[str]]:
    """Return the roots without files of the other variant, and patterns of tables as the hub has them."""
    other = next(v for v in VARIANTS if v != variant)
    searched = [
        sources.Root(root.folder, [file for file in root.files if other not in file[0].lower().split("/")])
        for root in roots
    ]
    folders = (f"*/{variant}", "*cnnqa*") if split in _TABLES else ()
    return searched, [f"{folder}/{_TABLES[split]}*{ending}" for folder in folders for ending in TABLES]


def at_hand(searched: Sequence[sources.Root]) -> Iterator[tuple[str, str, Path | None]]:
    """Yield split, variant and place, None where it is not on this machine."""
    for variant in VARIANTS:
        archive = sources.find_first(searched, archives=_packs(variant))
        for split in (*SPLITS, UNNAMED):
            folder, _, official = _folder(searched, split, variant, by_path=False)
            if official or split in SPLITS:
                table = sources.find_first(*_tables(searched, split, variant))
                yield split, variant, Path(folder) if official else table or archive
            elif folder:
                yield split, variant, Path(folder)


def _folder(
    roots: Sequence[sources.Root], split: str, variant: str, *, by_path: bool
) -> tuple[str, list[str], bool]:
    """Return the folder with the files of a split, and whether its name says so."""
    for root in roots:
        folders: dict[str, list[str]] = {}
        for _, path in root.files:
            if path.endswith(SUFFIX):
                folders.setdefault(path.rpartition("/")[0], []).append(path)
        start = 0 if by_path else len(root.folder.parts) - 1
        paths = {folder: [p.lower() for p in Path(folder).parts[start:]] for folder in folders}
        other = next(v for v in VARIANTS if v != variant)
        unnamed = by_path or variant == VARIANTS[0]  # what no folder calls dailymail is not
        ours = [f for f, names in paths.items() if variant in names or (unnamed and other not in names)]
        for official, fits in (
            (True, [f for f in ours if paths[f][-1] == _FOLDERS.get(split) and variant in paths[f]]),
            (True, [f for f in ours if paths[f][-1] == _FOLDERS.get(split)]),
            (False, [f for f in ours if paths[f][-1] not in _FOLDERS.values()]),
        ):
            if len(fits) > 1:
                several = f"several folders fit: {', '.join(fits)}"
                raise DataError(several, hint="pass path= the one you mean")
            if fits:
                return fits[0], folders[fits[0]], official
    return "", [], False


def _packs(variant: str) -> tuple[str, ...]:
    return f"{variant}.tgz", f"{variant}*.t*gz", f"{variant}*.tar*", f"{variant}*.zip"


def _no_split(location: Path, split: str) -> DataError:
    folders = ", ".join(_FOLDERS.values())
    problem = f"these questions are one set without splits, so there is no {split!r}"
    return DataError(
        f"{problem}: no folder is called {folders}",
        file=location,
        hint='leave the split out: wb.load("cnnqa")',
    )


def _split_of_path(path: Path) -> str | None:
    """Return the split that the name of a table says, or that of a folder."""
    if not sources.is_file(path):
        return _named_split(path / "-")
    is_table = path.suffix.lower() in TABLES
    return (split_of_file(path) if is_table else None) or _named_split(path)


def _named_split(file: Path) -> str | None:
    """Return the split that the folder of a file names, if it does."""
    folder = file.parent.name.lower()
    return next((split for split, name in _FOLDERS.items() if name == folder), None)


def _records(
    files: Iterator[sources.File], variant: str, step: Callable[[], Any]
) -> Iterator[Item | DataError]:
    # In this process: with eight more, the training split took 18.2 s in place of 19.0 s.
    for file in files:
        step()
        try:
            yield _question(file, _named_split(file.path.absolute()) or UNNAMED, variant)
        except DataError as error:
            yield error


def _question(file: sources.File, split: str, variant: str) -> Item:
    def wrong(problem: str, section: int) -> DataError:
        line = starts[min(section, len(starts) - 1)] if starts else 1
        hint = 'correct the file, or leave it out with on_error="skip"'
        return DataError(problem, file=file.label, line=line, hint=hint)

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
    for row in QUESTIONS.rows_of_file(file, variant):
        if isinstance(row, DataError):
            yield row
            continue
        (number, cells, (article, query, answer, names)), of_row = row
        name, url = (cells[key] if isinstance(cells.get(key), str) else "" for key in ("id", "url"))
        item_id = f"cnnqa/{folder_of(split, of_row)}/{name.removesuffix(SUFFIX) or f'{number:06d}'}"
        yield made_item(item_id, of_row, article, query, answer, url=url, names=names)


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
