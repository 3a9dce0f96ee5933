import builders as b
import pandas as pd
import pytest
from refused import refused

from workbench.datasets import books

NOVEL = """\
# Title: The Weir

## Author: A. Nonymous

## Year: 1907

-------

## I

The weir was loud. "Listen," he said.
"""
GUTENBERG = """\
The Project Gutenberg Etext of The Lighthouse Goat, by Jane Inchcape

*** START**THE SMALL PRINT!**FOR PUBLIC DOMAIN ETEXTS**START***
Why is this "Small Print!" statement here?
*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*


Scanned by a friend.

THE LIGHTHOUSE GOAT

There was a goat. It kept the light.

{}
"""


def one(folder, content, name="a.txt"):
    """Return the only book of a file."""
    (book,) = books(b.write(folder, {name: content}) / name)
    return book


def test_markdown(tmp_path):
    (book,) = books(b.write(tmp_path, {"fiction/weir.md": NOVEL, "README.md": "x", "notes.csv": "x"}))
    assert (book.book_id, book.title) == ("fiction/weir", "The Weir")
    assert (book.author, book.year) == ("A. Nonymous", 1907)
    assert book.text.startswith("## I\n\nThe weir")
    assert not book.tokenised
    text = "Title: Goats\nAuthor: J. I.\n\n*** START OF THE PROJECT GUTENBERG EBOOK GOATS ***\n\nA goat.\n"
    book = one(tmp_path, text)  # the newer header
    assert (book.title, book.author, book.text) == ("Goats", "J. I.", "A goat.\n")


@pytest.mark.parametrize(
    "footer",
    [
        "End of The Project Gutenberg Etext of The Lighthouse Goat",
        "*** END OF THIS PROJECT GUTENBERG EBOOK ***",
        "This is the end of the Project Gutenberg Edition\n\x1a",
        "*The Project Gutenberg Etext of The Lighthouse Goat*",
        "End of\nThe Project Gutenberg Etext of the Goat",
        "\x1a",
    ],
)
def test_gutenberg_texts_lose_header_and_footer(tmp_path, footer):
    content = GUTENBERG.format(footer).replace("\n", "\r\n").encode() + b"\r\n"
    book = one(tmp_path, content.replace(b"kept", b"k\xe9pt"), "GOAT10.TXT")
    assert book.text == "THE LIGHTHOUSE GOAT\n\nThere was a goat. It k\xe9pt the light.\n"
    assert (book.title, book.author, book.year) == ("The Lighthouse Goat", "Jane Inchcape", None)


HEADER = """\
The Project Gutenberg EBook of {0}, by {1}

*** START OF THIS PROJECT GUTENBERG EBOOK {0} ***

"""
SMALL_PRINT = """\
The Project Gutenberg Etext of {0}, by {1}

*** START**THE SMALL PRINT!**FOR PUBLIC DOMAIN ETEXTS**START***
*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*

"""
FOOTER = "\n\n*** END OF THIS PROJECT GUTENBERG EBOOK ***\n"
SENTENCES = (
    "The light produced by the lamp went out.",
    "She typed by candle-light until the words, prepared by nobody, ran out.",
    "Proof by contradiction was all he had.",
    "He had read of the etexts of Project Gutenberg.",
    "The end of the story of the Project Gutenberg",
    "The end of the Project Gutenberg edition was near.",
    "Project Gutenberg was at the end of its means.",
    "*** END OF PART ONE ***",
    "Start of the project was delayed.",
    'He wrote "*** START OF THE PROJECT" on the board.',
)


@pytest.mark.parametrize("sentence", SENTENCES)
@pytest.mark.parametrize("header", [HEADER, SMALL_PRINT, "Project Gutenberg\n\n"])
def test_sentences_are_no_credits_and_no_footers(tmp_path, header, sentence):
    text = f"{sentence}\nThere was a goat.\n\n{sentence}\n\nIt slept."
    book = one(tmp_path, header.format("A", "B") + text + FOOTER)
    assert book.text.removeprefix("Project Gutenberg\n\n") == f"{text}\n"


def test_credits_have_five_lines_at_most(tmp_path):
    text = "Scanned by Jane Inchcape\n" * 9
    assert one(tmp_path, HEADER + text).text == "Scanned by Jane Inchcape\n" * 4


@pytest.mark.parametrize("footer", [FOOTER, "", "\n\nEnd of Project Gutenberg's The Goat, by Jane\n"])
@pytest.mark.parametrize("header", [HEADER, SMALL_PRINT])
@pytest.mark.parametrize("length", [1000, 30_000])
def test_a_file_of_two_books_is_an_error(tmp_path, header, footer, length):
    first = header.format("The Goat", "Jane") + "A goat slept. " * length + footer
    second = header.format("The Boat", "Ann Onym") + "A boat sank. " * length + footer
    caught = refused(one, tmp_path, f"{first}\n{second}")
    assert caught.line > first.count("\n")


@pytest.mark.parametrize("header", [HEADER, SMALL_PRINT])
def test_a_book_before_a_header_is_an_error(tmp_path, header):
    refused(one, tmp_path, "A goat slept.\n" * 5000 + header.format("The Boat", "Ann Onym") + "It sank.\n")


def test_a_header_may_have_two_marks(tmp_path):
    text = SMALL_PRINT.format("The Goat", "Jane") + HEADER.format("The Goat", "Jane") + "A goat." + FOOTER
    book = one(tmp_path, text)
    assert (book.title, book.text) == ("The Goat", "A goat.\n")
    after = HEADER.format("The Goat", "Jane") + "A goat.\n" * 400 + FOOTER
    assert one(tmp_path, after + SMALL_PRINT.format("The Goat", "Jane")).text == "A goat.\n" * 400


@pytest.mark.parametrize("accent", ["", "é"])  # other than ASCII is read line by line
@pytest.mark.parametrize(
    ("mark", "text"),
    [
        ("THE GOAT\nAND OF THE BRAVE PEOPLE\n  WHO LIVED BESIDE IT *** \n", "A goat."),
        ("THE GOAT ***\nAND OF THE BRAVE PEOPLE\nWHO LIVED BESIDE IT ***\n", "A goat.\n\nIt slept ***"),
        ("THE GOAT\n", "A goat.\n* * *\nIt slept.\n\n***\n\nIt woke."),
        ("THE GOAT ***\n", "A goat.\nIt slept."),
    ],
    ids=["several lines", "closed twice", "not closed", "one line"],
)
def test_the_mark_of_the_start_ends_at_its_own_asterisks(tmp_path, mark, text, accent):
    header = "The Project Gutenberg EBook of The Goat, by Jane\n\n*** START OF THE PROJECT GUTENBERG EBOOK "
    for gap in ("", "\n\n") if text.startswith("A goat.\n") else ("\n",):
        assert one(tmp_path, f"{header}{mark}{gap}{text}{accent}{FOOTER}").text == f"{text}{accent}\n"


@pytest.mark.parametrize("end", ["\r", "\r\n", "\r\r\n"])
@pytest.mark.parametrize("content", [NOVEL, GUTENBERG.format("*** END OF THIS PROJECT GUTENBERG EBOOK ***")])
def test_ends_of_lines(tmp_path, content, end):
    files = {"lf.txt": content, "other.txt": content.replace("\n", end).encode()}
    plain, other = books(b.write(tmp_path, files))
    assert (other.title, other.author, other.text) == (plain.title, plain.author, plain.text)
    assert "\r" not in other.text


def test_a_tenth_of_a_file_is_not_left_out_in_silence(tmp_path):
    story = "A goat slept on the hill, and no one came.\n" * 300
    footer = "\nEnd of Project Gutenberg's The Goat\n\n"
    licence = "You may copy this Project Gutenberg etext.\n" * 300
    header = HEADER.format("The Goat", "Jane")
    with pytest.warns(UserWarning, match=r"a\.txt: 50% of the file is left out"):
        assert one(tmp_path, header + story + footer + story).text == story
    assert one(tmp_path, header + story + footer + licence).text == story  # without a warning


CBT = "_BOOK_TITLE_ : Jane_Inchcape___The_Goat_(From_Tales).txt.out\nA goat kept the light .\n"
CBT += "_BOOK_TITLE_ : X___Y.txt.out\nHe slept .\n"


def test_the_books_behind_the_childrens_book_test(tmp_path):
    folder = b.write(tmp_path, {"cbt_valid.txt": CBT, "README.txt": "x"})
    first, second = books("cbt", "dev", path=folder)
    assert first.book_id == "cbt/dev/Jane_Inchcape___The_Goat_(From_Tales)"
    assert (first.title, first.author) == ("The Goat (From Tales)", "Jane Inchcape")
    assert (first.text, first.tokenised) == ("A goat kept the light .\n", True)
    assert second.text == "He slept .\n"
    archive = b.tar({"CBTest/data/cbt_valid.txt": CBT, "CBTest/data/cbt_test.txt": "x"})
    packed = b.write(tmp_path / "p", {"CBTest.tgz": archive})
    assert [book.title for book in books("cbt", "dev", path=packed)] == ["The Goat (From Tales)", "Y"]


NOVELS = {
    "train-novels/Fantasy/a.txt": "the goat slept . he did n't wake .\n",
    "train-novels/Horror/a.txt": "boo .\n",
}


@pytest.mark.parametrize("form", ["nested", "tar", "folder", "own folder"])
def test_the_training_novels_of_lambada(tmp_path, form):
    packed = {"train-novels.tar": b.tar(NOVELS, "w")}
    files = {
        "nested": {"lambada-dataset.tar.gz": b.tar({"lambada_test_plain_text.txt": "x y"} | packed)},
        "tar": packed,
        "folder": NOVELS,
        "own folder": {name.removeprefix("train-novels/"): text for name, text in NOVELS.items()},
    }
    folder = b.write(tmp_path, files[form])
    first, second = books("lambada", path=folder)
    assert [first.book_id, second.book_id] == ["lambada/train/Fantasy/a", "lambada/train/Horror/a"]
    assert first.tokenised
    assert second.text == "boo .\n"


def test_the_training_novels_of_the_hub(tmp_path):
    frame = pd.DataFrame({"text": ["the goat slept .", "boo ."], "domain": ["Fantasy", "Horror"]})
    for number in range(2):
        frame.to_parquet(tmp_path / f"train-0000{number}-of-00002.parquet")
    rows = list(books("lambada", path=tmp_path))
    assert [book.text for book in rows] == ["the goat slept .", "boo ."] * 2
    assert len({book.book_id for book in rows}) == 4


@pytest.mark.parametrize("packed", [True, False])
def test_the_training_texts_of_sentence_completion(tmp_path, packed):
    files = {"Holmes_Training_Data/A10.TXT": "A goat.", "Holmes_Training_Data/B10.TXT": "A boat."}
    folder = b.write(tmp_path, {"holmes_training_data.tar.xz": b.tar(files, "w:xz")} if packed else files)
    assert [book.book_id for book in books("msrcc", path=folder)] == ["msrcc/train/A10", "msrcc/train/B10"]


def test_books_are_read_one_by_one(tmp_path):
    whole = b.tar({"a.txt": "one", "b.txt": "two" * 100_000, "c.txt": "x"}, "w")
    reading = books(b.write(tmp_path, {"x.tar": whole[:50_000]}) / "x.tar")
    assert next(reading).text == "one"
    refused(list, reading)


def test_nothing_there(tmp_path, no_data):
    for arguments in (
        ("lambada",),
        ("msrcc", "dev"),
        ("lambda",),
        (no_data,),
    ):
        refused(books, *arguments)
    refused(books(b.write(tmp_path, {"x.txt": b"a\0b"}) / "x.txt").__next__)


PRODUCTION_NOTES = (
    "Scanned by Charles Keller with\nOmniPage Professional OCR software\ndonated by Caere, 1-800-535-7226.",
    "Scanned and proofed by David Price\nemail ccx074@coventry.ac.uk",
    "E-text prepared by Ann Onym,\nCarl Third, and the\nOnline Distributed Proofreading Team\n(https://www.pgdp.net)",
    "This file was produced from images generously made available by\nThe Internet Archive",
    "Note: Project Gutenberg also has an HTML version.\n      See http://gutenberg.org/1-h.zip",
    "      or\n      (https://archive.org/details/goat)",
    "[Transcriber's note: Obvious errors were corrected.\n\nItalics are marked with underscores.]",
    "Transcriber's Notes:\n\nSpelling and hyphenation are those of the original text.",
    "[Note on text: Italicized words are capitalized.\nSome obvious errors have been corrected.]",
    "John M. Krafft\nemail: krafft@example.edu",
    "This Etext prepared by Charles E. Keller <keller@example.edu>",
    "john@example.net.",
    "This edition was made of others that are in the Public Domain in the United\nStates.",
    "To preserve it, our edition is claimed as copyright (c)1991.",
    "Disclaimer:\nAll persons disclaim that this etext is accurate.",
    "This electronic edition was edited, proofed, and prepared by\nDouglas Killings (d@example.com), 1997.",
)
NO_NOTES = (
    "Produced by the heat, a mist rose.",
    "The stew was\nprepared by Mary, who was late.",
    "Prepared by Mary, the stew was cold.",
    "Scanned by eager eyes, the page was turned.",
    "Thanks to the rain, the proofs were late.",
    '"Thank you for the typing," she said.',
    "The document was produced in court.",
    "He kept to the plain text of the law.",
    "[The ship was lost.]",
    "He wrote a note about the text.",
    "The land was in the public domain, he claimed.",
    "The transcriber slept.",
    "EDITED BY\nANDREW LANG",
)


@pytest.mark.parametrize("note", PRODUCTION_NOTES)
@pytest.mark.parametrize("title", ["", "THE GOAT\n\nBy JANE INCHCAPE\n\n"])
def test_production_notes_are_left_out(tmp_path, title, note):
    story = "CHAPTER I\n\nThere was a goat.\n\nIt slept on the hill."
    text = HEADER.format("The Goat", "Jane") + title + note + "\n\n\n" + story + FOOTER
    assert one(tmp_path, text).text.split() == f"{title}{story}".split()


@pytest.mark.parametrize("sentence", NO_NOTES)
def test_sentences_are_no_production_notes(tmp_path, sentence):
    text = f"THE GOAT\n\n{sentence}\n\nIt slept.\n\n{sentence}\n"
    assert one(tmp_path, HEADER.format("A", "B") + text + FOOTER).text == text


def test_notes_at_the_end_are_left_out(tmp_path):
    notes = "Transcriber's Notes\n\nObvious misspellings were corrected.\n\nPage 3: a footnote was moved."
    text = "There was a goat.\n\nIt slept.\n"
    assert one(tmp_path, f"{HEADER}{text}\n{notes}{FOOTER}").text == text


@pytest.mark.parametrize(
    ("content", "share"),
    [(HEADER + FOOTER, "0.0%"),
     (HEADER + "A goat." + FOOTER + "The boat sank near the shore.\n" * 200, "0.1%")],
)  # fmt: skip
def test_a_book_of_which_little_is_left_is_an_error(tmp_path, content, share):
    folder = b.write(tmp_path, {"bad.txt": content, "good.txt": "A goat slept.\n"})
    refused(list, books(folder))
    reader = books(folder, on_error="skip")
    assert [book.book_id for book in reader] == ["good"]
    assert [problem.problem.split()[0] for problem in reader.problems] == [share]
    plain = "\n".join(line for line in content.split("\n") if "gutenberg" not in line.lower())
    (b.write(tmp_path, {"bad.txt": f"{plain}\nA boat sank."}))  # the advice is followed
    assert "A boat sank." in next(iter(books(folder))).text


DAMAGED = {
    "bad.txt": b"a\0b",
    "bad.zip": b.zipped({"goat.txt": "A goat slept."})[:-30],
    "empty.md": " \n",
    "page.txt": "<!DOCTYPE html><html><body>A goat slept.</body></html>",
    **dict.fromkeys(("book.epub", "book.epub3.images", "page.htm", "page.html"), "A goat slept."),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_one_damaged_file_of_several(tmp_path, name):
    folder = b.write(tmp_path, {"a.txt": "A goat slept.\n", name: DAMAGED[name], "z.txt": "A boat sank.\n"})
    refused(list, books(folder))
    reader = books(folder, on_error="skip")
    assert [book.book_id for book in reader] == ["a", "z"]
    assert [name in str(problem) for problem in reader.problems] == [True]
    if name.startswith(("book", "page")):
        assert f"pandoc -t plain -o {name.split('.')[0]}" in str(reader.problems[0])
    (folder / name).unlink()
    assert [book.book_id for book in books(folder)] == ["a", "z"]
    refused(books, folder, on_error="ignore")


@pytest.mark.parametrize(
    ("name", "book_id"), [("1.txt.utf-8", "1"), ("1-0.zip", "1-0/1-0"), ("pg1.txt", "pg1")]
)
def test_the_files_of_project_gutenberg_as_they_come(tmp_path, name, book_id):
    text = HEADER.format("Goats", "Jane") + "The caf\xe9 was loud.\n" + FOOTER
    content = b.zipped({"1-0.txt": text}) if name.endswith(".zip") else text
    (book,) = books(b.write(tmp_path, {name: content}))
    assert (book.book_id, book.title, book.author) == (book_id, "Goats", "Jane")
    assert book.text == "The caf\xe9 was loud.\n"


TABLE = pd.DataFrame(
    {
        "book_id": ["0012", "a//b"],
        "text": ["The goat slept.\n", HEADER.format("The Boat", "Ann") + "It sank.\n" + FOOTER],
        "title": ["The Goat", None],
        "author": ["Jane Inchcape", None],
        "year": [1907, None],
        "lang": ["en", "en"],
    }
)
ROWS = [("0012", "The Goat", "Jane Inchcape", 1907, "The goat slept.\n")]
ROWS += [("a//b", "The Boat", "Ann", None, "It sank.\n")]


def summary(reader):
    return [(book.book_id, book.title, book.author, book.year, book.text) for book in reader]


@pytest.mark.parametrize("name", ["books.jsonl", "books.ndjson", "books.parquet"])
def test_a_table_has_a_book_in_each_row(tmp_path, name):
    b.write_table(tmp_path / name, TABLE)
    b.write(tmp_path, {"README.md": "# Goats", "LICENSE.txt": "CC0", "dataset_info.json": "{}"})
    assert summary(books(tmp_path / name)) == ROWS
    assert summary(books(tmp_path)) == ROWS
    b.write_table(tmp_path / name, TABLE[["text"]])
    assert [book.book_id for book in books(tmp_path)] == ["books-0000", "books-0001"]
    b.write(tmp_path, {"novel.txt": "It rained."})  # beside which a table is a catalogue
    assert [book.book_id for book in books(tmp_path)] == ["novel"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "text,title\nx,y\n"),
        ("a.json", '[{"text": "x"}]'),
        ("a.jsonl", '{"name": "x"}'),
        ("a.jsonl", "[1]\n"),
        ("a.jsonl", '{"text": 7}\n'),
        ("a.jsonl", '{"a":' * 9999),
        ("a.parquet", b"PAR1PAR1"),
    ],
)
def test_what_is_no_table_of_books_is_one_error(tmp_path, name, content):
    path = b.write(tmp_path, {name: content}) / name
    refused(list, books(path))
    assert list(reader := books(path, on_error="skip")) == []
    assert len(reader.problems) == 1


def test_bad_rows_of_a_table_can_be_left_out(tmp_path):
    lines = '{"text": "It rained."}\n{"text": null}\n\n{"text": "It snew."}\n{"text"\n'
    path = b.write(tmp_path, {"a.jsonl": lines}) / "a.jsonl"
    reader = books(path, on_error="skip")
    assert [book.book_id for book in reader] == ["a-0000", "a-0002"]
    assert reader.left_out == ["a-0001", "a.jsonl"]
    assert [problem.line for problem in reader.problems] == [None, 5]
    b.write_table(tmp_path / "b.parquet", TABLE.rename(columns={"text": "content"}))
    refused(list, books(tmp_path / "b.parquet"))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32", "cp1252"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_encodings(tmp_path, encoding, end):
    story = "\u201cThe caf\xe9 was loud,\u201d he said \u2014 and left.\n\nIt rained.\n"
    text = story.replace("\n", end)
    files = {"a.txt.utf-8": text, "b.md": text, "c.txt": HEADER + text + FOOTER}
    files = {name: content.replace("\n", end).encode(encoding) for name, content in files.items()}
    for book in books(b.write(tmp_path, files)):
        assert book.text.split() == story.split()
        assert ("\r" in book.text, book.text.endswith("\n")) == (False, True)
    (tmp_path / "a.txt").write_bytes("It rained.".encode("utf-16")[:-1])
    refused(list, books(tmp_path / "a.txt"))
