"""Run every function that meets foreign text on texts that repeat one piece; print the calls that hang.

A function of linear time takes eight times as long for a text of eight times the length, on any machine; one
of quadratic time takes 64 times as long. Ratios are compared, never seconds. A process that takes far longer
than any machine needs is killed, as a regular expression may not be interruptible.
`make fuzz` runs the same functions on longer texts of several pieces.
"""

# ruff: noqa: RUF001 - typographic quotes are meant

import contextlib
import io
import os
import resource
import signal
import sys
import time
import traceback
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
from book_chapters import chapters_of

from workbench.analysis import lemmas, mentions
from workbench.analysis.speech import speech_spans
from workbench.construction.childrens_book import word_classes
from workbench.datasets import books, cnn_qa, load
from workbench.datasets.books import Book
from workbench.evaluation.interchange.records import read_records
from workbench.items import query
from workbench.items import text as wt
from workbench.items.items import items_from_text
from workbench.items.schema import Item
from workbench.items.tokens import tokens
from workbench.render import tables
from workbench.storage.errors import DataError
from workbench.texts.ngram_hash import normalise
from workbench.texts.tokenise import TextLayout, cut_into_pieces

SECONDS = 600  # of processor time, after which one text counts as endless
LENGTH = 2**14
PART = 8  # a text is compared with one of an eighth of its length
RATIO = 3 * PART  # of the times: between linear and quadratic
NOISE = 0.25  # seconds of processor time below which a ratio says nothing
MARKS = r"""' ’ '' `` ` " “ - -- — . .. ... ! ? ?! , ; ( [ [] [a { ) _ ____ * *** # | a| \ \" / @
XXXXX a aaaa A a. A. I. Mr. Lt. a' a's a’s 's n't a- a& 1 1. 1, 9: ² @placeholder @entity1: etext proof ss é
a," [1,"""
PHRASES = (
    "\u0301", "é\u0301", " ", "\n", "\n ", " \n", "\t", "\r\n", "\x1a", "\u00a0", " .", ". ", " !", " '",
    "'' ",
    ". '' ", "a ", "A. ", "Mr. ", 'Lt. "', "*** ", "*** END", "\n*** END OF", "end of ", "\nend of ", "----",
    "the end of\n", "project ", "project\n", "project gutenberg ", "\nproject gutenberg ", "Title: ", "by ",
    " by a", "*** START OF THE PROJECT ", "Title: a\n", "# Title: a\n", "etext ", "scanned by a\n", "proof ",
    "-- \n", "1 a\n", "_BOOK_TITLE_ : a\n", "1a) [a]\n", "not ", "!(", "a = 1 and ", '"a", ',
    '{"a": ', "{}\n", '{"a": 1}\n', "-LRB- ", "said , '' ", "____ ", "\nCHAPTER I ",
    "AB ", "project gutenberg etext ", "\nproject gutenberg etext of a\n", "*END*THE SMALL PRINT\n",
    "*START OF THE PROJECT\nend of project gutenberg's A\n*END*THE SMALL PRINT\n", "edited and ",
    "produced by ",
)  # fmt: skip
PIECES = (*MARKS.split(), *PHRASES)
ENDS = ("", "xx")


def item(text, *, tokenised):
    end = (len(text), len(text))
    return Item("a", "a", "a", "a", text, None, end, ((0, len(text)),), tokenised=tokenised)


class Pumped:
    """The functions under test; each takes a text."""

    def __init__(self, folder):
        self.folder = folder

    @classmethod
    def functions(cls):
        """Return the names of the functions."""
        return [name for name in vars(cls) if not name.startswith("_") and name not in {"functions", "file"}]

    def file(self, name, content):
        path = self.folder / name
        path.write_bytes(content.encode("utf-8", "surrogatepass"))
        return path

    def sentences(self, text):
        wt.sentences(text)

    def running_text(self, text):
        wt.sentences_around(text, (0, 0), tokenised=False)
        normalise("".join(text.split()))

    def readable(self, text):
        wt.readable_spans(text, [(0, len(text))])
        wt.closed_up_spans(text, [(0, len(text))])

    def guesses(self, text):
        wt.looks_tokenised(text)
        wt.last_word(text, tokenised=False)

    def tokens(self, text):
        tokens(item(text, tokenised=True))

    def speech(self, text):
        speech_spans(text.split())
        speech_spans([piece for mark in text for piece in (mark, "a")])

    def marks(self, text):
        speech_spans(list(text))

    def words(self, text):
        for word in {*text.split(), "".join(text.split())}:
            mentions._token_readings(word), mentions._bare(word), lemmas.word_roots(word)

    def pieces(self, text):
        for tokenised, line_ends in ((False, False), (True, False), (True, True)):
            layout = TextLayout(lines=False, tokenised=tokenised, line_ends=line_ends)
            list(cut_into_pieces(text, layout, size=2**14))

    def html(self, text):
        item(text, tokenised=True)._repr_html_()
        tables._markdown(text)

    def book(self, text):
        list(books(self.file("a.txt", text)))

    def chapters(self, text):
        for tokenised in (True, False):
            chapters_of(Book("a", "a", None, None, text, tokenised=tokenised, source=""))
        word_classes(["".join(text.split())], ["NOUN"])

    def page(self, text):
        for tag in ("<p>", "<li><a href='#a'>"):
            many = tag.join(text[start : start + 9] for start in range(0, len(text) // 8, 9))
            with contextlib.suppress(DataError):
                list(books(self.file("a.html", f"<title>{text}</title><p>Contents{tag}{many}")))

    def gutenberg(self, text):
        for head in ("Project Gutenberg", "Project Gutenberg\n", "*** START OF THIS PROJECT GUTENBERG\n"):
            for begin in ("", "a\n"):
                list(books(self.file("a.txt", head + begin + text)))

    def markdown_book(self, text):
        list(books(self.file("a.txt", f"# Title: {text}")))
        list(books(self.file("a.txt", f"# Title: a\n{text}")))

    def childrens_book(self, text):
        list(books(self.file("a.txt", f"_BOOK_TITLE_ : {text}")))
        context = "".join(f"{number} {text if number == 1 else 'a'}\n" for number in range(1, 21))
        for row in (text, f"{context}21 a XXXXX {text}\ta\t\t{text}"):
            load("cbt", path=self.file("cbtest_NE_valid_2000ex.txt", row), on_error="skip")

    def sentence_completion(self, text):
        self.file("testing_data.csv", f'id,question,a),b),c),d),e)\n1,"{text}",a,b,c,d,e')
        self.file("test_answer.csv", f"id,answer\n1,{text}")
        load("msrcc", path=self.folder / "testing_data.csv", on_error="skip")
        self.file("x.machine_format.questions.txt", f"{text}\n1a) {text}[a]")
        load("msrcc", path=self.folder / "x.machine_format.questions.txt", on_error="skip")

    def cnn(self, text):
        parts = ("a", text, f"@placeholder {text}", "@entity1", f"@entity1:{text}\n{text}")
        path = self.file("a.question", "\n\n".join(parts))
        load("cnnqa", path=path, on_error="skip")
        cnn_qa._ENTITY.fullmatch(text)

    def filter(self, text):
        for start in ("", "a = ", "a contains '", "`"):
            try:
                str(query.parse(start + text))
            except DataError:
                continue

    def half_a_filter(self, text):
        query.word_start(text, len(text))
        query.suggest(text, len(text), pd.DataFrame({"a": ["x"]}))
        query._write(text), query._write_column(text)

    def records(self, text):
        for name, content in {"a.jsonl": text, "a.json": f"[{text}", "a.csv": f"a,b\n{text}"}.items():
            list(read_records(self.file(name, content)))

    def header(self, text):
        list(read_records(self.file("a.csv", ",".join(f"{text[:3]}{n}" for n in range(len(text) // 4)))))

    def own_text(self, text):
        items_from_text([f"{text} a", f"a ___ {text}", f"{text} ___"], tokenised=True)
        items_from_text([text])


def main():
    for name in sys.argv[1:] or Pumped.functions():
        if (text := killed(name)) is not None:
            sys.stdout.write(f"{name}: {text}\n")


def killed(name):
    """Return the text at which the process of a function was killed, None if it was not."""
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        try:
            run(name, write)
            os._exit(0)
        except BaseException:  # noqa: BLE001 - the child must end here
            traceback.print_exc()
            os._exit(1)
    os.close(write)
    with os.fdopen(read) as file:
        begun = file.read().splitlines()
    return begun[-1] if os.waitpid(child, 0)[1] else None


def run(name, log):
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    with TemporaryDirectory() as folder:
        function = getattr(Pumped(Path(folder)), name)
        for piece, end in zip(PIECES, cycle(ENDS)):
            os.write(log, f"{piece!r} ... {end!r}\n".encode())
            count = LENGTH // len(piece)
            used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
            hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
            resource.setrlimit(resource.RLIMIT_CPU, (int(used) + SECONDS, hard))
            text, half, part = (piece * (count // share) + end for share in (1, 2, PART))
            if taken(function, half) <= NOISE / 8:  # then all takes at most NOISE, in cubic time too
                continue
            if taken(function, text) > NOISE and is_quadratic(function, text, part):
                os._exit(2)


def is_quadratic(function, text, part):
    """Return whether the quickest of three runs of a text took too long beside the slowest of its part."""
    texts, parts = [], []
    for _ in range(3):  # more runs can only lower the one and raise the other
        texts.append(taken(function, text))
        parts.append(taken(function, part))
        if min(texts) <= RATIO * max(parts):
            return False
    return True


def taken(function, text):
    """Return the processor time that a function takes for a text."""
    begin = time.process_time()
    notes = io.StringIO()  # that every file differs from the published one
    with contextlib.suppress(DataError), contextlib.redirect_stderr(notes):
        function(text)
    return time.process_time() - begin


if __name__ == "__main__":
    main()
