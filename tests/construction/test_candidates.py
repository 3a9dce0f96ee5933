"""Candidate passages on disk, against a slow search; the same files whoever makes them; damage and kills."""

from dataclasses import replace

import numpy as np
import pytest
from book_chapters import chapters_of
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

import workbench as wb
from workbench.construction import candidates as module
from workbench.construction.candidates import REASONS, CandidatePassages
from workbench.datasets.books import Book
from workbench.texts.corpus import Corpus

BOOKS = list(wb.books("sample"))[:4]
CLOSING = {"''", '"', "'", "”", "’", ")", "]", "}", "-rrb-", "-rsb-", "-rcb-", "."}  # noqa: RUF001
TOKENS = [
    ".", ".", "?!", "!", "...", ",", "``", "''", "-RRB-", "--", "a", "the", "Ada", "oven", "Élan", "İzmir",
    "n't", "o'clock", "9:30", "well-known", "x1",
]  # fmt: skip


def book(text, name="book", *, tokenised=True):
    return Book(name, name, None, None, text, tokenised, "")


def sentences(tokens):
    """Cut tokens into sentences, one token after the other."""
    result, ended = [[]], False
    for token in tokens:
        is_end = token == "." or not token.strip("?!")  # noqa: S105 - no password
        if ended and not is_end and token.lower() not in CLOSING:
            result.append([])
            ended = False
        result[-1].append(token)
        ended = ended or is_end
    return [sentence for sentence in result if sentence]


def in_lines(tokens):
    """Cut tokens of which each is a line: lines end a sentence where most of them are the end of one."""
    ends = sum(token == "." or not token.strip("?!") for token in tokens)  # noqa: S105 - no password
    return [[token] for token in tokens] if 2 * ends > len(tokens) else sentences(tokens)


def slow(chapters, minimum, shortest, longest):
    """Yield the passages of chapters, which are lists of sentences: sentence by sentence, word by word."""
    for lines in chapters:
        for number, line in enumerate(lines):
            target = list(line)
            while target and not any(map(str.isalnum, target[-1])):
                target.pop()
            context = []
            for sentence in reversed(lines[:number]):
                context.insert(0, sentence)
                if sum(map(len, context)) > minimum:
                    break
            before = sum(map(len, context))
            if not target or not target[-1].isalpha() or len(line) < shortest:
                continue
            if before > minimum and before + len(target) <= longest:
                yield [" ".join(sentence) for sentence in [*context, target]]


def parts(items):
    return [[item.text[start:end] for start, end in item.sentences] for item in items]


@given(
    st.lists(st.lists(st.sampled_from(TOKENS), max_size=120), min_size=1, max_size=3).filter(any),
    st.integers(0, 12), st.integers(1, 5), st.integers(13, 60), st.sampled_from([" ", "\n", "  \t"]),
)  # fmt: skip
def test_candidates_are_those_of_a_slow_search(texts, minimum, shortest, longest, space):
    rule = {"minimum": minimum, "shortest": shortest, "longest": longest}
    novels = [book(space.join(tokens), f"novel {n}") for n, tokens in enumerate(texts)]
    result = CandidatePassages.of(novels, **rule)
    cut = [in_lines(tokens) if space == "\n" else sentences(tokens) for tokens in texts]
    expected = [passage for lines in cut for passage in slow([lines], **rule)]
    items = result.items()
    assert parts(items) == expected
    assert len(result) == len(expected)
    if expected:
        n_tokens = [len(" ".join(passage).split()) for passage in expected]
        assert result.statistics["passage_tokens"] == pytest.approx(np.mean(n_tokens))
        n_context = [len(passage) - 1 for passage in expected]
        assert result.statistics["context_sentences"] == pytest.approx(np.mean(n_context))
    lowercased = result.items(lowercased=True)
    assert parts(lowercased) == [[line.lower() for line in passage] for passage in expected]
    n_sentences = sum(map(len, cut))
    assert result.step.n_in == n_sentences == len(result) + sum(result.dropped.values())
    assert result.books["tokens"].tolist() == list(map(len, texts))
    for item in items:
        assert item.answer == item.text.split()[-1]
        assert item.answer.isalpha()
        assert not item.right
        assert item.candidates is None


@pytest.mark.parametrize("rule", [(50, 1, 256), (20, 10, 64)])
def test_novels_in_running_text_have_the_candidates_of_their_sentences(rule):
    options = dict(zip(("minimum", "shortest", "longest"), rule, strict=True))
    result = CandidatePassages.of(BOOKS, **options)
    for each in BOOKS:
        here = [item for item in result.items() if item.book_id == each.book_id]
        assert parts(here) == list(slow(chapters_of(each), *rule))
        assert len(here) > 20


MARKDOWN = """The miller kept a goose in the yard behind the house . It sang .

## Chapter II

Nobody knew where the goose had gone that night . The miller looked for his goose in the well !

* * *

"Here is the _goose_ ," said the boy who won't . At 9:30 they all went to the house of the miller ...
"""


def test_hand_made_chapters():
    result = CandidatePassages.of([book(MARKDOWN, tokenised=False)], minimum=9, shortest=4)
    chapters = [
        ["The miller kept a goose in the yard behind the house .", "It sang ."],
        [
            "Nobody knew where the goose had gone that night .",
            "The miller looked for his goose in the well !",
            "`` Here is the goose , '' said the boy who wo n't .",
            "At 9:30 they all went to the house of the miller ...",
        ],
    ]
    assert [len(passage) for passage in parts(result.items())] == [2, 2]
    first, second = parts(result.items())
    assert first == [chapters[1][0], chapters[1][1].removesuffix(" !")]
    assert second[-1] == "At 9:30 they all went to the house of the miller"
    assert result.dropped == dict(zip(REASONS, (1, 1, 2, 0), strict=True))
    sentences_of = [int(item.item_id.rpartition("/")[2]) for item in result.items()]
    assert sentences_of == [4, 7]  # the heading and the rule count
    assert [item.item_id for item in result.items()] == [
        "lambada/built/book/000004",
        "lambada/built/book/000007",
    ]


def test_candidates_of_a_corpus_follow_its_roles():
    novel, rule = book(MARKDOWN, tokenised=False), {"minimum": 9, "shortest": 4}
    corpus = Corpus.of([novel], lower=False)
    expected = CandidatePassages.of([novel], **rule).items()
    items = CandidatePassages.of(corpus, **rule).items()
    assert parts(items) == parts(expected)
    assert [item.item_id for item in items] == [item.item_id for item in expected]
    corpus.roles = np.zeros_like(corpus.roles)  # as of the first version: headings are sentences
    before = CandidatePassages.of(corpus, **rule).items()
    assert "## Chapter II" in " ".join(before.frame["text"])


def test_lines_are_sentences_and_lines_in_a_row_one_novel():
    lines = ["one two. three", "", "four five six", "seven eight nine"]
    result = CandidatePassages.of([*lines, *BOOKS[:1], *lines], minimum=2, shortest=3)
    assert result.books["book_id"].tolist() == ["lines", BOOKS[0].book_id, "lines 2"]
    assert parts(result.items([0, 1])) == [lines[::2], lines[2:]]
    assert result.items([0])[0].book_id == "lines"


def test_numbers_draws_and_blocks():
    result = CandidatePassages.of(BOOKS)
    every = result.items()
    assert every.frame["item_id"].is_unique
    assert sorted(result.drawn(0, len(result), seed=3)) == list(range(len(result)))
    sample = result.sample(60, seed=3)
    assert list(sample[:20]) == list(result.sample(20, seed=3))
    assert list(sample) == [every[number] for number in result.drawn(0, 60, seed=3).tolist()]
    assert list(sample) != list(result.sample(60, seed=4))
    assert len(result.sample(10**6)) == len(result)
    for wrong in ([-1], [len(result)], [0, len(result) + 5]):
        with pytest.raises(IndexError, match="numbers of candidates from 0"):
            result.items(wrong)
    assert not len(result.items([]))
    words = [word for text in result.texts() for word in text.split()]
    assert result.statistics["tokens"] == len(words) == result.books["tokens"].sum()


def copies(n):
    """Return the sample's novels over and over, with changed ids and words."""
    return [
        replace(each, book_id=f"{each.book_id} {k}", text=f"{k} . {each.text}")
        for k in range(n)
        for each in BOOKS
    ]


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def small_chunks(monkeypatch):
    """Make many chunks of few novels, and start processes for them."""
    monkeypatch.setattr(module, "_CHUNK", 1 << 12)
    monkeypatch.setattr(module, "_FEW", 0)


@pytest.mark.usefixtures("small_chunks")
def test_an_interrupted_call_resumes_and_gives_the_same_files(tmp_path, monkeypatch):
    folder = tmp_path / "made"
    calls, find, limit = [], module.find, 3

    def counted(chunk):
        if len(calls) == limit:
            raise KeyboardInterrupt
        calls.append(chunk.file)
        return find(chunk)

    monkeypatch.setattr(module, "find", counted)
    with pytest.raises(KeyboardInterrupt):
        CandidatePassages.of(copies(6), folder=folder)
    assert not folder.exists()
    limit = 1000
    result = CandidatePassages.of(copies(6), folder=folder)
    assert len(calls) == len(set(calls)) == result.books["chunk"].nunique()
    assert [path.name for path in tmp_path.iterdir()] == ["made"]
    assert CandidatePassages.of(copies(6), folder=folder).sha256 == result.sha256
    assert len(calls) == len(set(calls))
    CandidatePassages.of(copies(6), folder=tmp_path / "other")
    assert content(folder) == content(tmp_path / "other")


def test_a_damaged_or_foreign_folder_is_an_error_and_in_the_cache_made_again(tmp_path):
    made, kept = CandidatePassages.of(BOOKS), tmp_path / "kept"
    path, before = made.folder / "candidates.parquet", content(made.folder)
    path.write_bytes(before[path.name][:-9])
    refused(CandidatePassages, made.folder)
    assert content(CandidatePassages.of(BOOKS).folder) == before
    assert CandidatePassages.of(BOOKS, folder=kept).sha256 == made.sha256
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    for name, options in (("kept", {"minimum": 40}), ("other", {})):
        options |= {"folder": tmp_path / name}
        refused(CandidatePassages.of, BOOKS, **options)
    (kept / path.name).unlink()
    (kept / "other").touch()
    refused(CandidatePassages.of, BOOKS, folder=kept)


@pytest.mark.parametrize(
    ("novels", "options"),
    [
        *((BOOKS, {name: value}) for name, value in (
            ("minimum", -1), ("shortest", 0), ("longest", 50))),
        ([BOOKS[0], BOOKS[0]], {}), ([], {}),
        ([5], {}),
    ],
)  # fmt: skip
def test_input_that_makes_no_sense_is_one_error(novels, options):
    refused(CandidatePassages.of, novels, **options)


def test_a_novel_of_nothing_is_none():
    refused(CandidatePassages.of, [book("  \n")])
    assert not len(CandidatePassages.of([book("  \n"), book("a b .", "short")]))
