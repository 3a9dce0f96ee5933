import re

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
@pytest.mark.parametrize("length", [1, 30_000])
def test_every_book_of_a_file_of_two_is_read(tmp_path, header, footer, length):
    texts = ["A goat slept. " * length, "A boat sank. " * length]
    content = "\n".join(
        header.format(*names) + text + footer
        for names, text in zip([("The Goat", "Jane Inchcape"), ("The Boat", "Ann Onym")], texts, strict=True)
    )
    first, second = books(b.write(tmp_path, {"two.txt": content}) / "two.txt")
    assert [first.text, second.text] == [f"{text.strip()} \n".replace(" \n", "\n") for text in texts]
    assert (first.book_id, first.title, first.author) == ("two", "The Goat", "Jane Inchcape")
    assert (second.book_id, second.title, second.author) == ("two#2", "The Boat", "Ann Onym")
    plain = "A goat slept.\n" * length + "\nEnd of Project Gutenberg's Goat\n\n"
    first, second = books(
        b.write(tmp_path, {"x.txt": plain + header.format("The Boat", "Ann") + "It sank.\n"}) / "x.txt"
    )
    assert (first.text, second.text) == ("A goat slept.\n" * length, "It sank.\n")


def test_a_header_may_have_two_marks(tmp_path):
    text = SMALL_PRINT.format("The Goat", "Jane") + HEADER.format("The Goat", "Jane") + "A goat." + FOOTER
    book = one(tmp_path, text)
    assert (book.title, book.text) == ("The Goat", "A goat.\n")
    after = HEADER.format("The Goat", "Jane") + "A goat." + FOOTER + SMALL_PRINT.format("The Goat", "Jane")
    assert one(tmp_path, after).text == "A goat.\n"
    empty = HEADER.format("The Boat", "Ann") + FOOTER + HEADER.format("The Goat", "Jane") + "A goat." + FOOTER
    book = one(tmp_path, empty)
    assert (book.book_id, book.title, book.text) == ("a", "The Goat", "A goat.\n")


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


LATE_HEADER = """\
The Project Gutenberg EBook of The Goat, by Jane Inchcape
(#3 in our series by Jane Inchcape)

Copyright laws are changing all over the world. Be sure to check the
copyright laws for your country before downloading or redistributing
this or any other Project Gutenberg eBook.

This header should be the first thing seen when viewing this Project
Gutenberg file.  Please do not remove it.

**Welcome To The World of Free Plain Vanilla Electronic Texts**

Title: The Goat

Author: Jane Inchcape

Release Date: January, 2004 [EBook #4976]
[Yes, we are more than one year ahead of schedule]

Edition: 10

Language: English

"""
NAMED = "******This file should be named goat10.txt or goat10.zip******"
MARK = "*** START OF THE PROJECT GUTENBERG EBOOK THE GOAT ***\n\n"
LATE_LICENCE = """\
***START**THE SMALL PRINT!**FOR PUBLIC DOMAIN EBOOKS**START***
Why is this "Small Print!" statement here? You know: lawyers.

INDEMNITY
You will indemnify and hold Michael Hart, the Foundation,
and its trustees and agents harmless.

*END THE SMALL PRINT! FOR PUBLIC DOMAIN EBOOKS*Ver.02/11/02*END*
"""
INFORMATION = """\
This file should be named goat10.txt or goat10.zip
Corrected EDITIONS of our eBooks get a new NUMBER, goat11.txt

Most people start at our Web sites at:
http://gutenberg.net

eBooks Year Month

    1  1971 July

*In Progress

Donations by check or money order may be sent to:

Michael S. Hart <hart@pobox.com>

**The Legal Small Print**

(Three Pages)

"""


@pytest.mark.parametrize("information", [INFORMATION, ""])
@pytest.mark.parametrize("footer", [
    "\n", "\nEnd of Project Gutenberg's The Goat\n\n", "\n*** END OF THE PROJECT GUTENBERG EBOOK X ***\n\n",
])  # fmt: skip
@pytest.mark.parametrize(
    "note", ["", "Produced by Ann Onym,\nBob Other and the Online\nDistributed Proofreading Team\n\n"]
)
@pytest.mark.parametrize("header", [
    LATE_HEADER, LATE_HEADER + MARK,
    f"{LATE_HEADER}The Project Gutenberg Etext of The Goat, by Jane Inchcape\n{NAMED}\n\n",
])  # fmt: skip
def test_the_licence_may_be_at_the_end(tmp_path, header, note, footer, information):
    for end, length in (("\n", 1), ("\r\n", 2000), ("\r", 1)):
        story = "CHAPTER I\n\n" + "There was a goat. It kept the light.\n\n" * length + "It slept.\n"
        content = (header + note + story + footer + information + LATE_LICENCE).replace("\n", end)
        book = one(tmp_path, content.encode())
        assert book.text == story
        assert (book.title, book.author) == ("The Goat", "Jane Inchcape")


PRODUCTION_NOTES = (
    "Scanned by Charles Keller with\nOmniPage Professional OCR software\ndonated by Caere, 1-800-535-7226.",
    "Scanned and proofed by David Price\nemail ccx074@coventry.ac.uk",
    "E-text prepared by Ann Onym,\nCarl Third, and the\nOnline Distributed Proofreading Team\n(https://www.pgdp.net)",
    "This file was produced from images generously made available by\nThe Internet Archive",
    "We wish to thank Ann Onym and all\nwho helped with proofreading this text.",
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
    [(LATE_HEADER + LATE_LICENCE, "0.0%"), (HEADER + FOOTER, "0.0%"),
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
    "bad.epub": b"PK\x03\x04 no zip",
    "bad.txt": b"a\0b",
    "bad.zip": b.zipped({"goat.txt": "A goat slept."})[:-30],
    "empty.html": "<html><body></body></html>",
}


@pytest.mark.parametrize("name", DAMAGED)
def test_one_damaged_file_of_a_shelf(tmp_path, name):
    folder = b.write(tmp_path, {"a.txt": "A goat slept.\n", name: DAMAGED[name], "z.txt": "A boat sank.\n"})
    refused(list, books(folder))
    reader = books(folder, on_error="skip")
    assert [book.book_id for book in reader] == ["a", "z"]
    assert [name in str(problem) for problem in reader.problems] == [True]
    (folder / name).unlink()
    assert [book.book_id for book in books(folder)] == ["a", "z"]
    refused(books, folder, on_error="ignore")


PAGE = """\
<!DOCTYPE html><html><head><meta charset="utf-8"><title>The Project Gutenberg eBook of Goats, by Jane</title>
</head><body><pre>
The Project Gutenberg EBook of Goats, by Jane

*** START OF THIS PROJECT GUTENBERG EBOOK GOATS ***

Produced by Ann Onym
</pre><h1>GOATS</h1><div class="toc"><a href="#i">I</a></div><div class="chapter"><h2 id="i">I</h2>
<p>The caf\xe9<span class="pagenum">[Pg 3]</span> was<a class="fnanchor" href="#f">[1]</a> loud.</p></div>
<div class="footnote" id="f">[1] Note.</div><pre>
End of Project Gutenberg's Goats, by Jane
</pre></body></html>
"""
GOATS = "# GOATS\n\n## I\n\nThe caf\xe9 was loud.\n"


@pytest.mark.parametrize(
    ("name", "content", "book_id"),
    [
        ("1-h.htm", PAGE, "1-h"),
        ("1.html.images", PAGE, "1"),
        ("page.txt", PAGE, "page"),
        ("1-h.zip", b.zipped({"1-h/1-h.htm": PAGE, "1-h/images/cover.jpg": b"\xff\xd8"}), "1-h/1-h/1-h"),
        ("1.txt.utf-8", HEADER.format("Goats", "Jane") + GOATS + FOOTER, "1"),
        ("1-0.zip", b.zipped({"1-0.txt": HEADER.format("Goats", "Jane") + GOATS + FOOTER}), "1-0/1-0"),
        ("1.epub3.images", b.zipped(b.epub_files({"1.xhtml": PAGE[PAGE.index("<h1>") :][:-26]})), "1"),
    ],
)
def test_the_files_of_project_gutenberg_as_they_come(tmp_path, name, content, book_id):
    (book,) = books(b.write(tmp_path, {name: content}))
    assert (book.book_id, book.text.split("End of")[0].strip()) == (book_id, GOATS.strip())
    if "epub" not in name:
        assert (book.title, book.author) == ("Goats", "Jane")


STORY = "<h2><a href='#toc'>CHAPTER I</a></h2><p>There was a goat.</p><p>It slept on the hill.</p>"
READ = "## CHAPTER I\n\nThere was a goat.\n\nIt slept on the hill.\n"
OLD_HEADER = "<pre>\n{}Produced by Ann Onym and the Online\nDistributed Proofreading Team\n</pre>"
NEW_HEADER = (
    "<section class='pg-boilerplate pgheader' id='pg-header'><h2>The Project Gutenberg eBook of Goats</h2>"
    "</section><p>Produced by Ann Onym and the Online Distributed Proofreading Team</p>"
)
NOTE = "<p><b>Transcriber\u2019s Note:</b></p><p>Obvious errors were corrected.</p>"
CHANGES = "<p>Page 3: a goat.</p>"
CONTENTS_LISTS = (
    "<h3>CONTENTS</h3><p><a href='#c1'>CHAPTER I</a><br><a href='#c2'>CHAPTER II</a></p>",
    "<h2>CONTENTS</h2><table><tr><td>CHAP.<td>PAGE<tr><td>I.<td>The Hill<td><a href='#p1'>1</a></table>",
    "<p>Contents.</p><ul><li><a href='#c1'>The Hill</a></li></ul>",
    "<h2>TABLE OF CONTENTS</h2><p>I. <a href='#c1'>The Hill</a> <span>1</span></p><p>II. The Lake ... 2</p>",
    "<p>CONTENTS</p><p>CHAPTER I. The Hill ... 1<br>CHAPTER II. The Lake ... 12</p>",
    "<p><a href='#c1'>The Hill</a></p><p><a href='#c2'>The Lake</a></p><p>III. <a href='#c3'>The End</a></p>",
    "<h2>Illustrations</h2><ol><li>A goat</li></ol><h2>Contents</h2><dl><dt>I</dt><dd>The Hill</dd></dl>",
    "<div class='titlepage'><h1>GOATS</h1><p>LONDON</p></div><div id='tableofcontents'><p>The Hill</p></div>",
)


def read_page(folder, body, head="<title>Goats</title>"):
    return one(folder, f"<!DOCTYPE html><html><head>{head}</head><body>{body}</body></html>", "1.html")


@pytest.mark.parametrize("contents", CONTENTS_LISTS)
@pytest.mark.parametrize("header", ["", NEW_HEADER, OLD_HEADER.format(""), OLD_HEADER.format(HEADER)])
def test_header_credits_and_contents_of_a_page_are_left_out(tmp_path, header, contents):
    assert read_page(tmp_path, header + contents + STORY).text == READ


@pytest.mark.parametrize(
    ("before", "after"),
    [(f"<div>{NOTE}{CHANGES}</div>", ""), (NOTE, ""), ("", f"<hr>{NOTE}{CHANGES}"),
     ("", f"<blockquote>{NOTE}{CHANGES}</blockquote>"),
     ("<p>[Transcriber's Note: Obvious errors were corrected.]</p>", "")],
)  # fmt: skip
@pytest.mark.parametrize("header", [NEW_HEADER, OLD_HEADER.format(HEADER), ""])
def test_notes_of_a_page_are_left_out(tmp_path, header, before, after):
    assert read_page(tmp_path, header + before + STORY + after).text == READ


@pytest.mark.parametrize(
    "story",
    [
        "<p>CONTENTS</p><p>The box had no contents, they said.</p>",
        "<p><a href='#toc'>I</a></p><p>It rained.</p><p><a href='#toc'>II</a></p><p>It snew.</p>",
        "<p>See <a href='#lake'>the lake</a>.</p><p>1907</p><p><a href='http://a.b/c'>A link</a></p>",
        "<h2><a href='#c1'>I</a></h2><h2><a href='#c2'>II</a></h2><h2><a href='#c3'>III</a></h2>",
        "<table><tr><td>The</td><td>goat</td></tr></table><ul><li>I</li><li>slept</li></ul>",
        "<div><p>He wrote a note.</p></div><p>I. Newton was there in 1687.</p><p>i</p><p>i</p><p>i</p>",
    ],
)
def test_paragraphs_of_a_story_are_no_contents(tmp_path, story):
    words = re.sub("</?(?:p|li|td|h2|div|ul|tr|table)>", " ", re.sub("</?a[^>]*>", "", story)).split()
    assert read_page(tmp_path, story).text.replace("#", " ").split() == words


@pytest.mark.parametrize("tag", ["div", "span"])
def test_a_page_that_is_not_read_to_its_end_is_an_error(tmp_path, tag):
    refused(read_page, tmp_path, f"<p>It rained.</p><{tag}>" * 300 + "<p>It snew.</p>")


def meta(**names):
    return "".join(f'<meta name="{name.replace("_", ".")}" content="{text}">' for name, text in names.items())


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (meta(dc_title="Goats", dc_creator="Inchcape, Jane, 1860-1930"), ("Goats", "Jane Inchcape")),
        (meta(DC_Title="Goats", AUTHOR="Jane Inchcape"), ("Goats", "Jane Inchcape")),
        (meta(title="Goats", author=" Jane  Inchcape "), ("Goats", "Jane Inchcape")),
        (meta(dcterms_creator="Jane") + meta(dcterms_creator="Ann, Lady"), ("1", "Jane and Ann, Lady")),
        ("<title>Goats, by Jane Inchcape</title>", ("Goats", "Jane Inchcape")),
        ("<title>Goats | Project Gutenberg</title>", ("Goats", None)),
        ("<title>Goats, by Jane Inchcape--The Project Gutenberg eBook</title>", ("Goats", "Jane Inchcape")),
        ("<title>Goats, by Jane Inchcape, a Project Gutenberg eBook</title>", ("Goats", "Jane Inchcape")),
        ("<title>The Project Gutenberg E-text of Goats, by Jane</title>", ("Goats", "Jane")),
        ("<title>Stand by Me</title>", ("Stand by Me", None)),
    ],
)  # fmt: skip
def test_title_and_author_of_a_page(tmp_path, head, expected):
    book = read_page(tmp_path, STORY, head)
    assert (book.title, book.author) == expected


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32", "cp1252"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_encodings(tmp_path, encoding, end):
    story = "\u201cThe caf\xe9 was loud,\u201d he said \u2014 and left.\n\nIt rained.\n"
    text = story.replace("\n", end)
    page = f"<html><head><meta charset='iso-8859-1'></head><body><p>{story.strip()}</p></body></html>"
    files = {"a.txt.utf-8": text, "b.md": text, "c.txt": HEADER + text + FOOTER}
    files = {name: content.replace("\n", end).encode(encoding) for name, content in files.items()}
    files |= {"d.htm": page.replace("<p>It", "It").encode(encoding), "e.html": page.encode(encoding)}
    for book in books(b.write(tmp_path, files)):
        assert book.text.split() == story.split()
        assert ("\r" in book.text, book.text.endswith("\n")) == (False, True)
    for name in ("a.txt", "a.html"):
        (tmp_path / name).write_bytes("It rained.".encode("utf-16")[:-1])
        refused(list, books(tmp_path / name))
