"""Texts and tables: the forms in which data sets are released, in archives too, and a user's own tables."""

import csv
import io
import json
import re
import zipfile
from functools import partial
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import builders as b
import pandas as pd
from target import Target, same

import workbench as wb
from workbench.datasets import lambada
from workbench.items.items import Items
from workbench.storage.errors import DataError


def decoded(data):
    """Return the text of a file: UTF-8 without its mark, else each line as UTF-8, Windows-1252 or Latin-1."""
    data = data[3:] if data[:3] == b"\xef\xbb\xbf" else data
    data = data if b"\n" in data else data.replace(b"\r", b"\n")
    lines = []
    for line in data.split(b"\n"):
        for encoding in ("utf-8", "cp1252", "latin-1"):
            try:
                lines.append(line.decode(encoding))
                break
            except UnicodeDecodeError:
                continue
    return lines


def content_lines(file):
    """Return the lines of a text file with their numbers, blank ones included; none of anything else."""
    if not file.is_file() or b"\0" in (data := file.read_bytes()):
        return []
    return [(n, line[:-1] if line[-1:] == "\r" else line) for n, line in enumerate(decoded(data), 1)]


def blocks(file):
    """Return the runs of lines between blank ones."""
    runs = [[]]
    for _, line in content_lines(file):
        if line.strip():
            runs[-1].append(line)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


# What a data set's files hold, by a parser of our own: (text, answer, candidates) of each good record. An
# answer that it cannot tell is `...`; a record that may be good or not has the answer None.


def lambada_rows(folder):
    (file,) = folder.iterdir()
    lines = [line for _, line in content_lines(file)]
    while lines and not lines[-1].strip():
        lines.pop()
    return [(line, line.split()[-1], None) for line in lines if len(line.split()) > 1]


def openai_rows(folder):
    (file,) = folder.iterdir()
    texts = []
    for _, line in content_lines(file):
        try:
            record = json.loads(line)
            text = record["text"]
            text.encode()
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
            continue
        words = text.split()
        if len(words) > 1:
            texts.append((text, ... if any(map(str.isalnum, words[-1])) else None, None))
    return texts


def cbt_rows(folder):
    (file,) = folder.iterdir()
    rows = []
    for run in blocks(file):
        starts = [0, *(at for at, line in enumerate(run) if at and line.startswith("1 ")), len(run)]
        for start, end in pairwise(starts):
            lines = run[start:end]
            if len(lines) != 21 or any(not line.startswith(f"{n} ") for n, line in enumerate(lines, 1)):
                continue
            sentences = [line.partition(" ")[2] for line in lines]
            query, *columns = sentences.pop().split("\t")
            if len(columns) not in {2, 3} or query.count("XXXXX") != 1:
                continue
            candidates = columns[-1].split("|")
            if "" in candidates:  # a bar that is a candidate itself, perhaps
                columns[0], candidates = None, ...
                query = query.replace("XXXXX", lines[-1].split("\t")[1])
            elif len(candidates) != 10 or columns[0] not in candidates:
                continue
            text = "\n".join([*sentences, query.replace("XXXXX", columns[0] or "")])
            rows.append((text, columns[0], candidates))
    return rows


def completion_line(line):
    head, closed, rest = line.partition(") ")
    number, letter = head[:-1], head[-1:]
    left, opened, tail = rest.partition("[")
    word, shut, right = tail.partition("]")
    if rest.count("[") > 1 or rest.count("]") > 1:
        raise NotImplementedError
    digits = number.isascii() and number.isdecimal() and 1 <= len(number) <= 6
    if not (closed and digits and letter in "abcde" and opened and shut and word and "[" not in word):
        return None
    return int(number), letter, left, word, right


def holmes_rows(folder):
    choices, answers = {}, {}
    if not (folder / b.ANSWERS).is_file():  # questions without answers
        raise NotImplementedError
    for _, line in content_lines(folder / b.QUESTIONS):
        if parsed := completion_line(line):
            choices.setdefault(parsed[0], []).append(parsed[1:])
    questions = {
        number: rows
        for number, rows in choices.items()
        if "".join(row[0] for row in rows) == "abcde" and len({(row[1], row[3]) for row in rows}) == 1
    }
    for _, line in content_lines(folder / b.ANSWERS):
        if not (parsed := completion_line(line)):
            continue
        number, letter, _, word, _ = parsed
        if number in questions and questions[number]["abcde".index(letter)][2] != word:
            continue
        answers.setdefault(number, letter)
    return [
        (f"{rows[0][1]}{word}{rows[0][3]}", word, [row[2] for row in rows])
        for number, rows in questions.items()
        if number in answers and (word := rows["abcde".index(answers[number])][2])
    ]


def cnn_rows(folder):
    rows = []
    for file in filter(Path.is_file, sorted(folder.rglob("*.question"))):
        parts = blocks(file)
        if len(parts) != 5:
            continue
        article, query, answer = ("\n".join(part) for part in parts[1:4])
        names = [line.partition(":") for line in parts[4]]
        numbers = [name[7:] for name, _, _ in names if name[:7] == "@entity"]
        good = [n for n in numbers if n.isascii() and n.isdecimal() and len(n) < 10]
        complete = len(good) == len(names) and all(colon for _, colon, _ in names)
        if not complete or query.count("@placeholder") != 1:
            continue
        mentioned = {f"@entity{n}" for n in re.findall(r"@entity(\d+)", article)}
        if not file.read_bytes().endswith(b"\n") and mentioned - {f"@entity{n}" for n in good}:
            continue  # the list of entities was cut short
        entities = sorted({f"@entity{n}": int(n) for n in good}.items(), key=lambda entity: entity[1])
        if answer in dict(entities):
            text = f"{article}\n\n{query.replace('@placeholder', answer)}"
            rows.append((text, answer, [name for name, _ in entities]))
    return rows


def vocabulary_rows(folder):
    (file,) = folder.iterdir()
    counts = {}
    lines = [line for _, line in content_lines(file)]
    while lines and not lines[-1].strip():
        lines.pop()
    for line in lines:
        word, _, count = line.partition("\t")
        counts[word] = counts.get(word, 0) + int(count)
    return counts


def loaded(dataset, where):
    """Load with bad records left out, and strictly: the same, or an error if there are bad ones."""

    def read(folder):
        items = wb.load(dataset, path=folder / where, on_error="skip")
        assert len(items) or items.problems
        try:
            strict = wb.load(dataset, path=folder / where)
        except DataError:
            assert items.problems, "refused as a whole, but without a problem in it"
        else:
            assert not items.problems
            assert strict.frame.equals(items.frame)
        return items

    return read


def held_by(rows):
    """Judge items by what a parser of our own finds in the files."""

    def judge(items, folder, valid):
        Items(items.frame)
        rest = list(items)
        try:
            records = rows(folder)
        except NotImplementedError:
            return outcome(items, valid)
        for text, answer, candidates in records:
            if answer is None and (not rest or rest[0].text != text):
                continue
            assert rest, f"lost: {text!r}"
            item = rest.pop(0)
            assert item.text == text
            assert answer in {..., None, item.answer}
            assert candidates is ... or list(item.candidates or ()) == list(candidates or ())
        assert not rest, f"made up: {rest[0].text!r}"
        return outcome(items, valid)

    return judge


def outcome(items, valid):
    """Return a word for items that were judged."""
    return "problems" if items.problems else "same" if items.frame.equals(valid.frame) else "valid"


def valid_items(items, _folder, valid):
    Items(items.frame)
    return outcome(items, valid)


def dataset_target(name, dataset, files, rows, where=""):
    where = where or (next(iter(files)) if len(files) == 1 else "")
    return Target(name, "text", lambda folder: b.write(folder, files), loaded(dataset, where), held_by(rows))


def archive(name, dataset, pack, files):
    def build(folder):
        b.write(folder, {name: pack(files)})

    return Target(f"{dataset} in {name}", "archive", build, loaded(dataset, name), valid_items)


MARKDOWN = "# Title: A Title\n\n## Author: Ann\n\n## Year: 1900\n\n-----\n\nIt rained. The dog ran on.\n"
BOOKS = {
    "markdown": MARKDOWN,
    "Gutenberg": "The Project Gutenberg EBook of Rain, by Ann\n\nTitle: Rain\nAuthor: Ann\n\n"
    "*** START OF THIS PROJECT GUTENBERG EBOOK RAIN ***\n\nProduced by Bob\n\nIt rained. The dog ran on.\n\n"
    "*** END OF THIS PROJECT GUTENBERG EBOOK ***\n",
    "children": "_BOOK_TITLE_ : Ann___Rain.txt.out\nit rained . the dog ran on .\n"
    "_BOOK_TITLE_ : Bob___Snow.txt.out\nit snew .\n",
}


def novels(name):
    return lambda folder: list(wb.books(folder / name))


def parts_of_the_file(books, folder, valid):
    text = "\n".join(decoded((folder / "x.txt").read_bytes()))
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    for book in books:
        body = book.text.replace("\r", "\n").strip("\x1a \n")
        assert body in text, "a text that the file does not hold"
        assert book.year is None or 0 <= book.year <= 9999
    return "same" if [book.text for book in books] == [book.text for book in valid] else "valid"


def any_books(books, _folder, valid):
    assert all(isinstance(book.text, str) and book.text.encode() is not None for book in books)
    return "same" if books == valid else "valid"


def text_of_its_documents(books, folder, valid):
    """Judge a book of an EPUB: where its documents are well-formed, they hold each of its paragraphs."""
    with zipfile.ZipFile(folder / "x.epub") as packed:
        documents = [packed.read(name) for name in packed.namelist() if "xhtml" in name]
    try:
        texts = ["".join(ET.fromstring(document).itertext()) for document in documents]  # noqa: S314
    except (ET.ParseError, ValueError, LookupError):
        return any_books(books, folder, valid)
    held = "".join("".join(texts).split())
    for book in books:
        for line in book.text.split("\n\n"):
            assert "".join(line.lstrip("# ").split()) in held, "a text that the file does not hold"
    return any_books(books, folder, valid)


def writes(files):
    return lambda folder: b.write(folder, files)


PLAIN = "lambada_development_plain_text.txt"
VOCABULARY = "lambada-vocab-2.txt"
QUESTIONS = {f"questions/{n}.question": b.cnn() for n in "abc"}
TEXT = [
    dataset_target("LAMBADA, plain", "lambada", {PLAIN: b.text(b.PLAIN * 2)}, lambada_rows),
    dataset_target("LAMBADA, capitalised", "lambada", {"x_capitalised.txt": b.text(b.CASED)}, lambada_rows),
    dataset_target("LAMBADA, OpenAI", "lambada", {"x.jsonl": b.OPENAI}, openai_rows),
    dataset_target("CBT", "cbt", {"cbtest_NE_valid_2000ex.txt": b.cbt()}, cbt_rows),
    dataset_target("MSRCC, official", "msrcc", b.OFFICIAL, holmes_rows),
    Target("MSRCC, CSV", "text", writes(b.CSV), loaded("msrcc", b.TABLE), valid_items),
    dataset_target("CNN QA", "cnnqa", QUESTIONS, cnn_rows),
    Target(
        "LAMBADA's vocabulary",
        "text",
        writes({VOCABULARY: "the\t10\nof\t7\nrain\t1\n"}),
        lambda folder: dict(lambada.vocabulary(folder / VOCABULARY)),
        lambda value, folder, valid: same(
            value, folder, valid if value == valid else vocabulary_rows(folder)
        ),
    ),
    *(
        Target(f"books, {name}", "text", writes({"x.txt": text}), novels("x.txt"), parts_of_the_file)
        for name, text in BOOKS.items()
    ),
]

RELEASES = {
    "lambada": {"release/lambada_development_plain_text.txt": b.text(b.PLAIN * 2), "release/README": "x"},
    "cbt": {"CBTest/data/cbtest_NE_valid_2000ex.txt": b.cbt()},
    "msrcc": {f"MSR/{name}": text for name, text in b.OFFICIAL.items()},
    "cnnqa": {f"cnn/questions/validation/{n}.question": b.cnn() for n in "ab"},
}
PACKS = {
    "x.tar": partial(b.tar, mode="w"),
    "x.tar.gz": b.tar,
    "x.tar.xz": partial(b.tar, mode="w:xz"),
    "x.tar.bz2": partial(b.tar, mode="w:bz2"),
    "x.zip": b.zipped,
}
DOCUMENTS = {"1.xhtml": "<h2>I</h2><p>It rained.</p>", "2.xhtml": "<h2>II</h2><p>The <i>dog</i> ran on.</p>"}
EPUB = b.zipped(b.epub_files(DOCUMENTS))
NOVELS = {"a/x.txt": MARKDOWN, "a/y.md": "It snew."}
ARCHIVES = [
    *(
        archive(name, dataset, pack, RELEASES[dataset])
        for dataset in RELEASES
        for name, pack in PACKS.items()
    ),
    Target("books in x.epub", "archive", writes({"x.epub": EPUB}), novels("x.epub"), text_of_its_documents),
    *(
        Target(f"books in {name}", "archive", writes({name: pack(NOVELS)}), novels(name), any_books)
        for name, pack in PACKS.items()
    ),
]


OWN = {
    "text": ["It rained; the dog ___ home.", "She took her ___ and left.", "They sang a ___.", "A ___ fell."],
    "answer": ["ran", "hat", "song", "stone"],
    "candidates": ["ran|sat", "hat|cup", "song|pan", "stone|leaf"],
    "year": [1900, 1901, 1902, 1903],
}


def own(ending):
    def build(folder):
        frame, path = pd.DataFrame(OWN), folder / f"own{ending}"
        if ending in {".csv", ".tsv"}:
            frame.to_csv(path, index=False, sep="," if ending == ".csv" else "\t")
        elif ending == ".parquet":
            frame.to_parquet(path)
        else:
            frame.to_json(path, orient="records", lines=ending == ".jsonl")

    def judge(items, folder, valid):
        Items(items.frame)
        data = (folder / f"own{ending}").read_bytes()
        if ending in {".csv", ".tsv"} and not set(data) & set(b'"\r\0') and data.startswith(b"text"):
            text = "\n".join(decoded(data))
            rows = csv.reader(io.StringIO(text), delimiter="," if ending == ".csv" else "\t")
            filled = [row for row in rows if len(row) > 1 or "".join(row).strip(" \t")]
            assert len(items) == len(filled) - 1, "a row was lost or made up"
        return outcome(items, valid)

    def read(folder):
        return wb.load(folder / f"own{ending}")

    return Target(f"own table, {ending}", "own table", build, read, judge)


def parquet(name, build, read, judge=valid_items):
    return Target(f"{name}, parquet", "parquet", build, read, judge)


def table_of(name, **columns):
    return lambda folder: pd.DataFrame(columns).to_parquet(folder / name)


OWN_TABLES = [
    *map(own, (".csv", ".tsv", ".json", ".jsonl", ".parquet")),
    parquet(
        "items",
        lambda folder: wb.load("sample", "dev", variant="cbt")[:4].to_parquet(folder / "items.parquet"),
        lambda folder: Items.from_parquet(folder / "items.parquet"),
    ),
    parquet(
        "LAMBADA",
        table_of("validation.parquet", text=b.RUNNING, domain=None),
        lambda folder: wb.load(
            "lambada", "dev", variant="openai", path=folder / "validation.parquet", on_error="skip"
        ),
    ),
    parquet(
        "books",
        table_of("train-0.parquet", text=list(BOOKS.values()), domain="Sea"),
        novels("train-0.parquet"),
        any_books,
    ),
]

RELEASED = [*TEXT, *ARCHIVES, *OWN_TABLES]
