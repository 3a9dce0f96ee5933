"""The stream of ids on disk, against plain loops, and what may happen to it there."""

import numpy as np
import pytest
from builders import Text
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused

from workbench.texts.batches import EncodedText
from workbench.texts.corpus import RESERVED, Corpus

LINES = ["the cat sat on the mat .", "'' -- the dog , the <x> dog sat !", "nobody 's 3 cats"]


def corpus_of(lines, **options):
    return Corpus.of(lines, **options)


def stream_of(lines, vocabulary=4):
    return EncodedText(corpus_of(lines), vocabulary)


WORD = st.sampled_from(["the", "cat", "a", ".", "''", "--", "'s", "<x>", "x\x7fy", "é", "७", "z"])
VOCABULARY = st.integers(1, 8) | st.lists(
    st.sampled_from(["the", "z", ".", "never", "<unk>", "</s>", "a"]), min_size=1
)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@settings(max_examples=15)
@given(st.lists(st.lists(WORD, min_size=1, max_size=9), min_size=1, max_size=9), VOCABULARY)
def test_a_stream_against_a_plain_loop(lines, vocabulary):
    corpus = corpus_of([" ".join(line) for line in lines])
    if isinstance(vocabulary, int):
        expected = corpus.vocabulary(vocabulary)
    else:
        expected = [w for i, w in enumerate(vocabulary) if w not in RESERVED and w not in vocabulary[:i]]
    if not expected:
        refused(EncodedText, corpus, vocabulary)
        return
    stream = EncodedText(corpus, vocabulary)
    words = [word for line in lines for word in line]
    assert stream.vocabulary == expected
    assert stream.n_words == len(expected) + 1
    assert stream.n_tokens == len(words)
    ids = stream.at(slice(None))
    assert ids.dtype == np.int64
    others = [word for word in corpus.words if word not in expected]
    assert stream.unknown_types == len(others)
    meaning = [None, *expected, *others]  # each word has one id, and each id one word
    assert [meaning[number] for number in ids] == words
    for number in ids:
        assert stream.is_word[number] == any(c.isalnum() for c in meaning[number])
    assert len(stream.is_word) == len(meaning)
    known = np.where(ids > len(expected), 0, ids)
    assert stream.counts.tolist() == np.bincount(known, minlength=len(expected) + 1).tolist()
    assert stream.starts.tolist() == np.cumsum([0, *map(len, lines)]).tolist()
    for start in range(len(words) + 1):
        for stop in range(start, len(words) + 3):
            assert stream.at(slice(start, stop)).tolist() == ids[start:stop].tolist()
    places = np.random.default_rng(0).integers(len(words), size=(3, 5))
    assert stream.at(places).tolist() == ids[places].tolist()


def test_what_it_says_of_itself():
    stream = stream_of(LINES)
    assert stream_of(LINES).sha256 == stream.sha256
    assert stream_of(LINES, 5).sha256 != stream.sha256
    assert stream_of(LINES, ["dog", "the"]).sha256 != stream_of(LINES, ["the", "dog"]).sha256
    assert stream_of(LINES[:2]).sha256 != stream.sha256
    books = ({"x": "a cat .", "y": "a dog ."}, {"x": "a cat . a dog ."})
    one, two = (stream_of([Text(text, name) for name, text in texts.items()]) for texts in books)
    assert one.sha256 != two.sha256  # the same words in other books
    assert one.books["book_id"].tolist() == ["x", "y"]
    assert (stream.n_tokens, len(stream.books), stream.n_words, stream.counts[0]) == (21, 1, 5, 12)


@pytest.mark.parametrize(
    "vocabulary",
    ["the", 0, ["<s>"],
     ["a\nb"], [""], []],
)  # fmt: skip
def test_what_is_no_vocabulary(vocabulary):
    refused(EncodedText, corpus_of(LINES), vocabulary)
