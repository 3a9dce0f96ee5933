"""The tokeniser's shortcuts against its pattern without them, and normal forms against a loop."""

# ruff: noqa: RUF001 - typographic quotes are meant

import re
from itertools import accumulate, islice

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from workbench.datasets import load
from workbench.items import text as wt
from workbench.texts import ngram_hash

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


def splits_by_the_old_pattern(word):
    cuts = [len(word), *([3] if word.lower() in wt._SPLIT else [])]
    while tail := wt._TAIL.search(word, 0, cuts[-1]):
        cuts.append(tail.start())
    return cuts


@settings(max_examples=300)
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


@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize("name", ["lambada", "cbt", "msrcc", "cnnqa"])
def test_the_same_on_the_data_sets(name):
    for item in islice(load(name), 0, None, 7):
        test_the_same_tokens.hypothesis.inner_test(item.text)
