"""Passages of LAMBADA's shape as items, against a slow search through the same novels."""

from collections import Counter

import pytest

import workbench as wb
from workbench.construction import lambada
from workbench.items import text as wt
from workbench.storage.errors import DataError

BOOKS = list(wb.books("sample"))[:4]


def slow(book, minimum):
    """Yield the passages of a book: sentence by sentence, word by word."""
    text = book.text
    lines = [
        [word.lower() for word in wt.tokenize(text[start:end])]
        for start, end in wt.sentences(text, tokenised=book.tokenised)
    ]
    for number, line in enumerate(lines):
        ends = [place for place, word in enumerate(line, 1) if any(map(str.isalnum, word))]
        target = line[: ends[-1]] if ends else []
        context = []
        for sentence in reversed(lines[:number]):
            context = [sentence, *context]
            if sum(map(len, context)) > minimum:
                break
        before = sum(map(len, context))
        if target and before > minimum and before + len(target) - 1 <= 256:
            yield [" ".join(sentence) for sentence in [*context, target]]


@pytest.mark.parametrize("answer_in_context", [True, False])
def test_passages_are_those_of_a_slow_search(answer_in_context):
    items = lambada.passages(BOOKS, answer_in_context=answer_in_context, progress=False)
    expected = {tuple(passage) for book in BOOKS for passage in slow(book, 50)}
    if answer_in_context:
        expected = {
            passage
            for passage in expected
            if passage[-1].split()[-1] in [word for sentence in passage[:-1] for word in sentence.split()]
        }
    drawn = {tuple(item.text[start:end] for start, end in item.sentences) for item in items}
    assert drawn == expected
    assert len(items) >= len(drawn) > 50
    for item in items:
        context = [word for sentence in item.context for word in sentence.split()]
        assert item.answer == item.text.split()[-1]
        assert dict.fromkeys(item.candidates) == dict.fromkeys([*context, item.answer])
        assert not item.right


def test_each_passage_is_drawn_once_in_the_order_of_the_seed():
    def drawn(**options):
        return lambada.passages(BOOKS, progress=False, **options).frame["text"].tolist()

    every = drawn()
    assert drawn(number=20) == every[:20]
    assert drawn(seed=1) != every
    assert sorted(drawn(seed=1)) == sorted(every)
    longer = lambada.passages(BOOKS, minimum=90, progress=False)
    assert min(len(" ".join(item.context).split()) for item in longer) == 91


def test_passages_that_end_in_a_frequent_word_are_left_out():
    every = lambada.passages(BOOKS, progress=False)
    counts = Counter(
        word.lower()
        for book in BOOKS
        for start, end in wt.sentences(book.text, tokenised=book.tokenised)
        for word in wt.tokenize(book.text[start:end])
    )
    frequent = sorted(counts, key=lambda word: (-counts[word], word))[:40]
    rarer = lambada.passages(BOOKS, skip_frequent=40, progress=False).frame["text"].tolist()
    assert rarer == [item.text for item in every if item.answer not in frequent]
    assert 0 < len(rarer) < len(every)


def test_novels_without_passages_raise_an_error():
    with pytest.raises(DataError, match="ends in a known word"):
        lambada.passages(["one line . "], progress=False)
    with pytest.raises(DataError, match="last word in the context"):
        lambada.passages([*["a b ."] * 20, "c d ."], minimum=58, progress=False)
