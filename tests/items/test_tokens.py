# ruff: noqa: RUF001 - typographic quotes are meant
import dataclasses

import pytest
from braced_items import cloze, passages
from hypothesis import given
from hypothesis import strategies as st

from workbench.items import text as wt
from workbench.items.tokens import readable_tokens, tokens


@pytest.mark.parametrize(
    ("marked", "target", "n_words"),
    [("a dog saw {} .", 3, 4), ("{} saw", 0, 1), ("a dog {}", 2, 2), ("{}", 0, 0), ("up - {}side", 2, 3)],
)
def test_a_bare_blank_is_no_token(marked, target, n_words):
    found = tokens(cloze(marked))
    assert (found.target, found.n_target, found.has_target) == (target, 0, False)
    assert found.head == found.end == target
    assert len(found.words) == n_words


@pytest.mark.parametrize(
    ("marked", "words", "head"),
    [
        ("the dog ran . it saw a {cat} today", ["cat"], "cat"),
        ("he likes {New York} a lot", ["New", "York"], "York"),
        ("he {did n't} go", ["did", "n't"], "did"),
        ("that {dog 's} tail", ["dog", "'s"], "dog"),
        ("so {`` Nadia} left", ["``", "Nadia"], "Nadia"),
    ],
)
def test_the_head_of_an_answer_of_several_tokens(marked, words, head):
    found = tokens(cloze(marked))
    assert (list(found.words[found.target : found.end]), found.has_target) == (words, True)
    assert found.words[found.head] == head


@pytest.mark.parametrize(
    ("marked", "words", "target"),
    [
        ("I saw the red-{dog} there.", ["I", "saw", "the", "red-", "dog", "there", "."], ["dog"]),
        ("He {could}n't go", ["He", "could", "n't", "go"], ["could"]),
        ("a{bc}d e", ["a", "bc", "d", "e"], ["bc"]),
        ("red-{}dog", ["red-", "dog"], []),
        ("“Yes,” {“Nadia}", ["``", "Yes", ",", "''", "``", "Nadia"], ["``", "Nadia"]),
        ("well—{}—yes", ["well", "--", "--", "yes"], []),
        ("-----{}--", ["-----", "--"], []),
    ],
)  # fmt: skip
def test_running_text_is_cut_at_the_edges_of_the_answer(marked, words, target):
    found = tokens(cloze(marked, tokenised=False))
    assert list(found.words) == words
    assert list(found.words[found.target : found.end]) == target


@given(passages())
def test_tokens_of_passages_are_their_words(item):
    found = tokens(item)
    assert [item.text[start:end] for start, end in found.spans] == list(found.words) == item.text.split()
    place = len(item.text[: item.answer_span[0]].split())  # the oracle: words before the blank
    assert found.target == place
    assert found.n_target == len((item.answer or "").split())
    assert found.sentences == tuple(len(item.text[:start].split()) for start, _ in item.sentences)


@given(st.text("ab -'’“”\".,’—M r", max_size=40), st.data())
def test_any_edges_leave_whole_tokens(text, data):
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    item = dataclasses.replace(
        cloze("{}"), text=text, answer=text[start:end] or None, answer_span=(start, end),
        sentences=((0, len(text)),), tokenised=False,
    )  # fmt: skip
    found = tokens(item)
    edges = [edge for span in found.spans for edge in span]
    assert edges == sorted(edges)
    assert not [span for span in found.spans if any(span[0] < edge < span[1] for edge in (start, end))]
    inside = [span for span in found.spans if start <= span[0] < end]
    assert list(found.spans[found.target : found.end]) == inside
    uncut = {(left, right) for _, left, right in wt.scan(text)}
    assert {s for s in uncut if not any(s[0] < edge < s[1] for edge in (start, end))} <= set(found.spans)


def test_a_tagger_sees_plain_marks():
    words = ["``", "Go", "''", "-LRB-", "-rrb-", "`", "a", "'s", "“", "’", "-lsb-", "-RCB-", "..."]
    assert readable_tokens(words) == ['"', "Go", '"', "(", ")", "'", "a", "'s", '"', "'", "[", "}", "..."]
