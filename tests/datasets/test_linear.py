"""Texts and files that were made to be slow are read in linear time, and nothing is read in another way."""

# ruff: noqa: RUF001 - typographic quotes are meant

import re
import subprocess
import sys
from itertools import accumulate, islice
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from workbench.datasets import load
from workbench.items import text as wt
from workbench.items.query import parse
from workbench.texts import ngram_hash

books = sys.modules["workbench.datasets.books"]  # the function hides the module
HELPERS = Path(__file__).parents[1] / "helpers"
# As they were before they were linear: the oracles.
DETACHED = re.compile(r"(?<=\s)(?:(?<!\.\s)[.,;:?!](?!\s\.(?:\s|$))|``|''|n't|'(?:s|ll|re|ve|d|m))(?=\s|$)")
ATTACHED = re.compile(r"\w[,;:?!](?=\s|$)|\w{4,}\.(?=\s|$)|\w(?:n't|'(?:s|ll|re|ve|d|m))(?=\s|$)")
PG_END = re.compile(
    r"^\W*(?:(this is )?(the )?end (?:(?:of|if)\s?)?(the\swiretap/)?"
    rf"{books._PG_WORK}|(?P<next>{books._PG_WORK}))",
    re.IGNORECASE | re.MULTILINE,
)
WORDS = rf"(?P<plain>{wt._PLAIN}(?:[ \n]{wt._PLAIN})*+)"  # the shortcut, which the oracle does not have
assert WORDS in wt._TOKEN.pattern
TOKEN = re.compile(
    wt._TOKEN.pattern.replace(WORDS, "(?P<plain>(?!))").replace("{2,99}+", "{2,}").replace("{1,99}+", "+"),
    re.VERBOSE,
)
pieces = st.lists(
    st.sampled_from(
        [*".,;:?!`'n’ta1é_ \n\u2028\u0301A", "n't", "'s", "''", "``", "'ll", "A.", "U.S.", "xx", "Mr."]
    )
).map("".join)


prose = st.lists(
    st.sampled_from([
        "dog", "Dog", "I", "A", "al.", "etc.", "Mrs.", "drs.", "vol.", "vols.", "p.", "I.", "e.g.", "gonna",
        "Cannot", "cannot", "d'ye", "D’you", "I'm", "he’ll", "don't", "ol'", "off-season", "a-", "--",
        "—", "...", ".", '"', "”", "’", "'", "!", "?", "?!", ",", ";", ":", "3", "3.5", "'em", "'tis", "é",
    ])
    | st.sampled_from([" ", " ", " ", "\n", "\n\n", "\u2028", "\u00a0", ". . .", ". "])
).map("".join)  # fmt: skip


def test_nothing_takes_quadratic_time():
    run = subprocess.run(
        [sys.executable, HELPERS / "superlinear_time.py"], capture_output=True, text=True, check=False
    )
    assert (run.stdout, run.stderr, run.returncode) == ("", "", 0)


def splits_by_the_old_pattern(word):
    cuts = [len(word), *([3] if word.lower() in wt._SPLIT else [])]
    while tail := wt._TAIL.search(word, 0, cuts[-1]):
        cuts.append(tail.start())
    return cuts


@given(pieces)
def test_the_same_guess(text):
    assert len(wt._DETACHED.findall(text)) == len(DETACHED.findall(text))
    assert len(wt._ATTACHED.findall(text)) == len(ATTACHED.findall(text))


@settings(max_examples=1000)
@given(pieces | prose)
@example("one etc. and mrs. A in vol. 3 or vols. 4 but.\nno, d'ye gonna. . . cannot off-season!\n")
def test_the_same_tokens(text):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wt, "_TOKEN", TOKEN)
        old = wt.scan(text)
    assert wt.scan(text) == old
    assert wt.tokenize(text) == [token for token, _, _ in old]
    for word in {match[0] for match in TOKEN.finditer(text) if match.lastgroup == "word"}:
        ends = [*accumulate(map(len, wt._split(word)))]
        assert ends == sorted(splits_by_the_old_pattern(word))


@given(pieces)
def test_the_same_normal_form(text):
    tails, word = [], text
    while tail := ngram_hash._TAIL.search(word):
        tails.append(tail[0])
        word = word[: tail.start()]
    if ngram_hash._WORD.fullmatch(text) and text.islower() and text.isascii() and word not in ngram_hash._TWO:
        parts = (word, *reversed(tails))
        assert ngram_hash.normalise(text) == tuple(part.replace("'", "") for part in parts if part)


def old_gutenberg(text):
    """Return what is left of a text by a pattern of a line, which takes quadratic time."""
    texts = []
    headers = books._headers(text)
    for number, header in enumerate(headers, start=1):
        begin, is_last = header.end, number == len(headers)
        stop = len(text) if is_last else headers[number].start
        for _ in range(books._CREDITS):
            credit = books._PG_CREDIT.match(text, begin, stop)
            begin = credit.end() if credit else begin
        ends = PG_END.finditer(text[:stop], max(begin, stop - books._TAIL))
        end = next((end.start() for end in ends if not (is_last and end["next"])), stop)
        body = text[begin:end].strip("\x1a \n")
        if last := books._PG_LAST.search(body, max(0, len(body) - books._LAST)):
            body = body[: last.start()].rstrip()
        texts.append(f"{body}\n")
    return [text for text in texts if text != "\n"] or ["\n"]


lines = st.lists(
    st.sampled_from([
        "project gutenberg", "Project\nGutenberg", "end of", "The end", "this is the end of ", "*** END OF",
        "***END OF", "_", "Scanned by me\n", "proofproofed by", " end of", "\x1a", "--", "é",
        "END", "*** START OF THIS PROJECT", "***", "* ", "\n", "\n", " ", "a",
        "proofed by", "etext", "etexts\n", "\n*** START OF THE PROJECT\n", "\n*END*THE SMALL PRINT\n",
        "\nProject Gutenberg's Etext of A\n", "\nEnd of Project Gutenberg's A\n", "Project Gutenberg ",
    ])
).map("".join)  # fmt: skip


@settings(max_examples=300)
@given(lines, st.sampled_from([books._TAIL, 7, 20]))
@example("a***\nEND OF", 20)
@example("a\n\n *\n***END OF", 5)
def test_the_same_book(text, tail):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(books, "_TAIL", tail)
        assert [body for *_, body in books._gutenberg(text, "")] == old_gutenberg(text)
    assert list(map(str, books._marks(text))) == list(map(str, books._PG_START.finditer(text)))


@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize("name", ["lambada", "cbt", "msrcc", "cnnqa"])
def test_the_same_on_the_data_sets(name):
    for item in islice(load(name), 0, None, 7):
        test_the_same_guess.hypothesis.inner_test(item.text)
        test_the_same_tokens.hypothesis.inner_test(item.text)


def test_any_number_of_negations():
    assert str(parse("not " * 30_001 + "a")) == "not a"
    assert str(parse("!" * 30_000 + "(a = 1)")) == "a = 1"
    assert str(parse("not not not (not a or b)")) == "not (not a or b)"
