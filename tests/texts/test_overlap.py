# ruff: noqa: RUF001 - typographic apostrophes are meant

import random

import pandas as pd
import pytest
from builders import Text
from hypothesis import example, given
from hypothesis import strategies as st
from refused import refused

from workbench.items import text as wt
from workbench.items.items import items_from_frame, items_from_text
from workbench.storage.errors import DataError
from workbench.texts import ngram_hash
from workbench.texts.batches import stream_sha256
from workbench.texts.corpus import Corpus
from workbench.texts.ngram_hash import normalise
from workbench.texts.overlap import check_held_out, overlap, passages_in_training, source_books

pytestmark = pytest.mark.usefixtures("module_home")

PASSAGE = (
    "The ferry did not sail that morning , for the river had frozen from bank to bank . `` We shall walk , "
    "'' said Tom 's aunt , and she did n't wait for an answer . So the whole family crossed the ice on foot "
    "behind the old gray mule"
)
RUNNING = (
    "The ferry did not sail that morning, for the river had frozen from bank to bank. “We shall walk,” said "
    "Tom’s aunt, and she didn’t wait for an answer. So the whole family crossed the ice on foot behind the "
    "old gray mule."
)
OTHER = "a lamp burned in every window of the long street and nobody slept while the bells were ringing ."


def stored(books):
    texts = [Text(" ".join(words), name, name.title()) for name, words in books]
    return Corpus.of(texts)


def streamed(*texts):
    return [(f"book {number}", text.split()) for number, text in enumerate(texts)]


def row(items, texts, **options):
    return overlap(items, texts, **options).frame.iloc[0]


WORDS = {
    "": "`` -LRB- -lrb- ... --", "do nt": "Don't don’t", "nt": "n't", "tom s": "Tom's", "s": "'s",
    "could nt ve": "couldn't've", "can not": "cannot", "t was": "'Twas", "d ye": "d'ye", "oclock": "o'clock",
    "em": "'em", "us": "U.S.", "mr": "Mr.", "1000": "1,000", "well known": "well-known",
    "said i": 'said."--"I', "well he": "well...he", "never": "_Never_", "elan": "Élan", "cafe s": "café´s",
}  # fmt: skip


@pytest.mark.parametrize(
    ("token", "words"), [(token, words) for words, tokens in WORDS.items() for token in tokens.split()]
)
def test_tokens_become_plain_words(token, words):
    assert normalise(token) == tuple(words.split())


@given(st.text(st.sampled_from("acdefgilmnostuvwyACGLT"), min_size=1, max_size=9))
@example("cannot")
@example("Tis")
def test_letters_alone_are_a_word_as_with_marks_around(letters):
    assert normalise(letters) == normalise(f'"{letters},"')


def plain(pieces):
    return [word for piece in pieces for word in normalise(piece)]


PIECES = """It can't o'clock Tom's 9:30 a.m. gonna wait--no "Go," 'Tis (so) well-known end. Mr. 'em she'd've
ol' 5,000 what?! ...and U.S. boys' d'you naïve “No” cannot etc.""".split()  # noqa: SIM905 - shorter


@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_treebank_tokens_and_running_text_become_the_same_words(pieces):
    text = " ".join(pieces)
    assert plain(wt.tokenize(text)) == plain(text.split()) == plain(wt.tokenize(text.replace("'", "’")))


@pytest.mark.parametrize("item", [PASSAGE, RUNNING.rstrip(".")])
def test_a_planted_passage_is_found_whatever_its_tokens(item):
    items = items_from_text([item])
    for text in (PASSAGE, PASSAGE.upper(), RUNNING, RUNNING.lower(), PASSAGE.replace(" , ", " ; ")):
        result = row(items, streamed(OTHER, f"{OTHER} {text} {OTHER}"))
        assert (result["passage"], result["query"], result["share"]) == (True, True, 1)
        assert result["n_grams"] == result["found"]
        assert result["query_words"] == 14
        assert result["books"] == ("book 1",)


@pytest.mark.parametrize("source", [list, stored])
def test_books_have_borders_and_sentences_have_none(source):
    items, words = items_from_text([PASSAGE]), PASSAGE.split()
    apart = row(items, source([("one", words[:30]), ("two", words[30:])]))
    assert not apart["passage"]
    assert apart["n_grams"] - apart["found"] == 7
    assert set(apart["books"]) == {"one", "two"}
    assert row(items, [("one", words[:30]), ("one", words[30:])])["passage"]


def test_a_blank_without_answer_is_crossed_by_no_n_gram():
    texts = [OTHER.replace("window", "___"), OTHER.replace("lamp", "___")]
    items = items_from_frame(pd.DataFrame({"text": texts, "answer": [None, "lamp"]}))
    frame = overlap(items, streamed(OTHER, OTHER.replace("window ", ""))).frame
    assert frame["passage"].isna().tolist() == frame["query"].isna().tolist() == [True, False]
    assert frame["n_grams"].tolist() == [18 - 5 - 8, 18 - 7] == [5, 11]
    assert frame["share"].tolist() == [1, 1]
    assert frame["passage"][1]
    no_words = row(items_from_text(["* _____"], answers=["!"]), streamed("nothing here"))
    assert no_words[["share", "passage"]].isna().all()


def n_grams(words, n):
    return [words[k : k + n] for k in range(len(words) - n + 1)]


def oracle(items, books, n):
    """Count with sets of tuples."""
    texts = [tuple(words) for _, words in books]
    for item in items:
        words = tuple(item.text.split())
        query = words[len(item.text[: item.sentences[-1][0]].split()) :]
        size, part = min(n, len(words)), min(n, len(query))
        inside = [[gram in set(n_grams(book, size)) for gram in n_grams(words, size)] for book in texts]
        counts = list(map(sum, inside))
        order = sorted((-count, place) for place, count in enumerate(counts) if count)
        yield (
            any(set(n_grams(words, size)) <= set(n_grams(book, size)) for book in texts),
            any(set(n_grams(query, part)) <= set(n_grams(book, part)) for book in texts),
            len(query),
            len(inside[0]),
            sum(map(any, zip(*inside, strict=True))),
            tuple(books[place][0] for _, place in order[:3]),
        )


@st.composite
def cases(draw):
    n = draw(st.integers(1, 5))
    letters = draw(st.sampled_from(["ab", "abcd"]))
    texts = draw(st.lists(st.text(letters, min_size=1, max_size=30).map(list), min_size=1, max_size=4))
    passages = draw(st.lists(st.text(letters, min_size=2, max_size=12).map(list), min_size=1, max_size=4))
    cuts = [draw(st.integers(0, len(passage) - 1)) for passage in passages]
    return n, texts, passages, cuts


def made(passages, cuts):
    """Make items whose target sentence begins at a word of our choice."""
    frame = items_from_text([" ".join(words) for words in passages], tokenised=True).frame
    spans = []
    for words, cut in zip(passages, cuts, strict=True):
        at = len(" ".join(words[:cut])) + bool(cut)
        end = len(" ".join(words))
        spans.append([(0, at - 1), (at, end)] if cut else [(0, end)])
    frame["sentences"] = spans
    return items_from_frame(frame)


@given(case=cases(), block=st.integers(1, 9))
@example(case=(3, [["a", "a", "a", "a", "a"]], [["a"] * 6, ["a", "a"]], [4, 0]), block=2)
@example(case=(4, [["c", "b"], ["a", "b", "a"]], [["c", "a", "b"], ["a", "b", "a"]], [1, 0]), block=2)
def test_counts_are_those_of_sets_of_tuples(case, block):
    n, texts, passages, cuts = case
    items = made(passages, cuts)
    books = [(f"b{place}", words) for place, words in enumerate(texts)]
    with pytest.MonkeyPatch.context() as context:
        context.setattr(ngram_hash, "BLOCK", block)
        result = overlap(items, books, n=n)
        of_corpus = overlap(items, stored(books), n=n) if block <= 2 else result
    columns = ["passage", "query", "query_words", "n_grams", "found", "books"]
    assert list(result.frame[columns].itertuples(index=False, name=None)) == list(oracle(items, books, n))
    assert result.frame["share"].tolist() == (result.frame["found"] / result.frame["n_grams"]).tolist()
    for name in ("frame", "pairs", "texts"):
        pd.testing.assert_frame_equal(getattr(of_corpus, name), getattr(result, name))


def test_whole_passages_may_lack_an_answer_or_the_corpus():
    texts = [OTHER.replace("window", "___"), OTHER.replace("lamp", "___"), "* ___"]
    items = items_from_frame(pd.DataFrame({"text": texts, "answer": [None, "lamp", "!"]}))
    corpus = stored([("one", PASSAGE.split()), ("two", f"{PASSAGE} {OTHER}".split())])
    assert passages_in_training(items, corpus.sha256).tolist() == [pd.NA, True, pd.NA]
    assert passages_in_training(items, "0" * 64, ["lamp"]).isna().all()
    of_stream = stream_sha256(corpus.sha256, ["lamp"], lower=corpus.lower)
    assert passages_in_training(items, of_stream, ["lamp"]).tolist() == [pd.NA, True, pd.NA]
    assert passages_in_training(items[:2], of_stream, ["window"]).isna().all()


def test_whole_passages_are_looked_for_once(monkeypatch):
    items, corpus = items_from_text([PASSAGE, OTHER.rstrip(" .")]), stored([("one", OTHER.split())])
    first = passages_in_training(items, corpus.sha256)
    monkeypatch.setattr("workbench.texts.overlap.overlap", None)
    corpus.path.unlink()
    assert first.tolist() == passages_in_training(items, corpus.sha256).tolist() == [False, True]


@pytest.mark.parametrize(
    ("n_items", "texts", "n"),
    [
        *((1, texts, 8) for texts in ([], [("empty", [])], [("marks", ["--", "..."])])),
        (0, streamed(PASSAGE), 8),
        (1, streamed(PASSAGE), 0),
    ],
)
def test_what_cannot_be_compared_is_refused(n_items, texts, n):
    refused(overlap, items_from_text([PASSAGE])[:n_items], texts, n=n)


KINDS = [f"w{number}" for number in range(2000)]


def novel(seed, length=4000):
    return random.Random(seed).choices(KINDS, k=length)  # noqa: S311 - a test


def pieces(book, size, places):
    return items_from_text([" ".join(book[at : at + size]) for at in places], tokenised=True)


def checked(items, *books):
    return check_held_out(stored(books), items)


def test_a_book_that_items_come_from_is_refused_by_its_words():
    book, other = novel(1), novel(2)
    items = pieces(book, 80, range(100, 3000, 300))
    with pytest.raises(DataError):
        checked(items, ("wrong", other), ("right", book), ("third", novel(3)))
    assert checked(items, ("wrong", other))["items"] == 10
    assert checked(None, ("right", book)) is None
    two = ("few", [*other[:500], *book[90:190], *other[500:700], *book[400:490]])
    assert overlap(items, [two]).frame["passage"].sum() == 2
    assert checked(items, two)
    refused(checked, items[:2], two)


def test_single_sentences_need_more_items():
    book = novel(5)
    items = pieces(book, 20, range(0, 4000, 100))
    refused(checked, items, ("it", book))
    partly = ("it", [*book[:330], *novel(6)])
    assert checked(items, partly)
    result = overlap(items, [partly])
    assert (result.frame["passage"].sum(), len(source_books(result))) == (4, 1)
    assert source_books(result, least=5).empty


def test_texts_are_compared_with_the_same_items_once(monkeypatch):
    book, corpus = novel(11), stored([("other", novel(12))])
    items, compared = pieces(book, 80, range(100, 3000, 300)), []

    def counted(held_out, *_, **__):
        compared.append(len(held_out))
        return pd.DataFrame({"book_id": [], "items": []}), 13, 3

    monkeypatch.setattr("workbench.texts.overlap.held_out_books", counted)
    first, again = (check_held_out(corpus, items) for _ in range(2))
    assert (first, compared) == (again, [10])
    check_held_out(corpus, items[:9])
    check_held_out(stored([("third", novel(13))]), items)
    assert compared == [10, 9, 10]
