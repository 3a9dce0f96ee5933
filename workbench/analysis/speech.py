"""Quoted direct speech in a passage: the tokens between quote marks that set off dialogue.

A quote mark has several readings: ``'`` opens, closes or is an apostrophe, ``"`` opens or closes, and either
may set off a term (scare quotes). Each reading of a mark has a cost, by the tokens around it; the reading of
the passage is the cheapest path through a small automaton (Viterbi 1967).
"""

# ruff: noqa: RUF001, SIM905 - typographic quotes are what this module is about, words are lists in one string

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from workbench.items.items import Item, Span
from workbench.items.language import ENGLISH, language
from workbench.items.tokens import tokens

_OPENS, _CLOSES, _EITHER = "opens", "closes", "either"
_DOUBLE = {
    "``": _OPENS, "“": _OPENS, "„": _OPENS, "«": _OPENS,
    "''": _CLOSES, "”": _CLOSES, "»": _CLOSES, '"': _EITHER,
}  # fmt: skip
_SINGLE = {"`": _OPENS, "‘": _OPENS, "’": _CLOSES, "'": _EITHER}
# Some texts leave two marks in one token: the first closes or opens within the second, or around it.
_MARKS: dict[str, tuple[str, ...]] = {mark: (mark,) for mark in (*_DOUBLE, *_SINGLE)}
_MARKS |= {"".join(pair): pair for a in _DOUBLE for b in _SINGLE for pair in ((a, b), (b, a))}

_ELIDED = frozenset(  # words that an apostrophe shortens at their start
    "em tis twas twere twill twould til till cause bout cept neath n round ere er im e t".split()
)
_SHORTENED = frozenset("a d lil mo o ol an po t th wi y".split())  # at their end: o' th' wi'
_SAYS = frozenset(
    """add added adds answer answered answers ask asked asks began begin begins call called calls continue
    continued continues cried cries cry exclaim exclaimed exclaims inquire inquired inquires murmur murmured
    murmurs mutter muttered mutters observe observed observes remark remarked remarks repeat repeated repeats
    replied replies reply return returned returns said say says scream screamed screams shout shouted shouts
    tell tells think thinks thought told whisper whispered whispers yell yelled yells""".split()
)
_NAMING = frozenset({"call", "called", "calls"})  # what they introduce is a term, what they follow is speech
_ENDS = frozenset({".", "!", "?", "..."})
_STOPS = frozenset({",", ".", "!", "?", ";", ":"})
_TAGGED = frozenset({",", "!", "?", "--"})

# Costs of readings that the tokens around a mark speak against.
_SLIGHT, _WEAK, _CLEAR, _STRONG = 0.5, 1.0, 2.0, 4.0
_PER_TOKEN = 0.005  # speech costs so much a token: of two readings the one with less speech in it
_NEVER = float("inf")
_LONGEST_TERM = 8  # tokens from the opening to the closing mark of a term; "the house ," is a term

# States after a mark. "begun" is speech that began before the passage.
(_OUT, _IN_DOUBLE, _SINGLE_IN_DOUBLE, _IN_SINGLE, _DOUBLE_IN_SINGLE, _BEGUN, _SINGLE_IN_BEGUN,
 _BEGUN_SINGLE, _DOUBLE_IN_BEGUN, _TERM, _SINGLE_TERM, _TERM_IN_DOUBLE) = range(12)  # fmt: skip
_N_STATES = 12
_SPEECH = slice(_IN_DOUBLE, _DOUBLE_IN_BEGUN + 1)
_NOT_SPEECH = frozenset({_OUT, _TERM, _SINGLE_TERM})
_START = {_OUT: 0.0, _BEGUN: _SLIGHT, _BEGUN_SINGLE: _CLEAR}
_FINAL = {
    _OUT: 0.0, _IN_DOUBLE: 0.0, _SINGLE_IN_DOUBLE: _SLIGHT, _IN_SINGLE: _WEAK, _DOUBLE_IN_SINGLE: _WEAK,
}  # fmt: skip

# What a mark does in a transition, in the order of the costs of a mark.
_OPEN, _CLOSE, _NOTHING, _AGAIN, _OPEN_TERM, _CLOSE_TERM = range(6)
_Way = tuple[int, int, int, float]  # from, to, what the mark does, additional cost
_WAYS_OF_DOUBLE: tuple[_Way, ...] = (
    (_OUT, _OUT, _NOTHING, 0), (_OUT, _IN_DOUBLE, _OPEN, 0), (_OUT, _TERM, _OPEN_TERM, 0),
    (_IN_DOUBLE, _OUT, _CLOSE, 0), (_IN_DOUBLE, _IN_DOUBLE, _AGAIN, 0),
    (_IN_DOUBLE, _TERM_IN_DOUBLE, _OPEN_TERM, _WEAK), (_TERM_IN_DOUBLE, _IN_DOUBLE, _CLOSE_TERM, 0),
    (_SINGLE_IN_DOUBLE, _OUT, _CLOSE, _SLIGHT), (_TERM, _OUT, _CLOSE_TERM, 0),
    (_IN_SINGLE, _DOUBLE_IN_SINGLE, _OPEN, 0), (_DOUBLE_IN_SINGLE, _IN_SINGLE, _CLOSE, 0),
    (_BEGUN, _OUT, _CLOSE, 0), (_SINGLE_IN_BEGUN, _OUT, _CLOSE, _SLIGHT),
    (_BEGUN_SINGLE, _DOUBLE_IN_BEGUN, _OPEN, 0), (_DOUBLE_IN_BEGUN, _BEGUN_SINGLE, _CLOSE, 0),
)  # fmt: skip
_WAYS_OF_SINGLE: tuple[_Way, ...] = (
    (_OUT, _OUT, _NOTHING, 0), (_OUT, _IN_SINGLE, _OPEN, 0), (_OUT, _SINGLE_TERM, _OPEN_TERM, 0),
    (_IN_SINGLE, _OUT, _CLOSE, 0), (_IN_SINGLE, _IN_SINGLE, _AGAIN, 0),
    (_DOUBLE_IN_SINGLE, _OUT, _CLOSE, _SLIGHT), (_DOUBLE_IN_SINGLE, _DOUBLE_IN_SINGLE, _NOTHING, 0),
    (_IN_DOUBLE, _IN_DOUBLE, _NOTHING, 0), (_IN_DOUBLE, _SINGLE_IN_DOUBLE, _OPEN, 0),
    (_SINGLE_IN_DOUBLE, _IN_DOUBLE, _CLOSE, 0), (_SINGLE_IN_DOUBLE, _SINGLE_IN_DOUBLE, _NOTHING, 0),
    (_BEGUN, _BEGUN, _NOTHING, 0), (_BEGUN, _SINGLE_IN_BEGUN, _OPEN, 0),
    (_SINGLE_IN_BEGUN, _BEGUN, _CLOSE, 0), (_SINGLE_IN_BEGUN, _SINGLE_IN_BEGUN, _NOTHING, 0),
    (_BEGUN_SINGLE, _OUT, _CLOSE, 0), (_BEGUN_SINGLE, _BEGUN_SINGLE, _AGAIN, 0),
    (_DOUBLE_IN_BEGUN, _OUT, _CLOSE, _SLIGHT), (_DOUBLE_IN_BEGUN, _DOUBLE_IN_BEGUN, _NOTHING, 0),
    (_TERM, _TERM, _NOTHING, 0), (_SINGLE_TERM, _OUT, _CLOSE_TERM, 0),
    (_SINGLE_TERM, _SINGLE_TERM, _NOTHING, 0), (_TERM_IN_DOUBLE, _TERM_IN_DOUBLE, _NOTHING, 0),
)  # fmt: skip


class _Mark(NamedTuple):
    """A quote mark: index of its token, whether it is a double one, and the side that its form shows."""

    token: int
    double: bool
    side: str


class _Near(NamedTuple):
    """The tokens around a mark, other marks left out."""

    before: str  # the token before it; empty where there is none
    after: str
    ended: bool  # punctuation, or the start of the passage, stands before it
    stop: bool  # no token that could begin speech stands after it
    says: bool  # a verb of saying stands before it: he said " yes "
    introduced: bool  # so it does before a comma or a colon: he said , " yes "
    tagged: bool  # one stands after it: " yes , " he said
    joins_before: bool  # a mark of the same kind stands right before it
    joins_after: bool


def speech_spans(words: Sequence[str]) -> list[Span]:
    """Find the quoted direct speech of a passage.

    Parameters
    ----------
    words : sequence of str (n,)
        Tokens of a passage in which punctuation marks are tokens, in any case. Quote
        marks may be those of the Treebank, straight or typographic ones.

    Returns
    -------
    list of (int, int)
        Token ranges, end excluded, in order and disjoint; quote marks included. Speech that is
        still open where the passage ends runs to its end; speech that is closed without having
        been opened starts with the passage. Quotations within speech, and marks that are repeated
        at the start of a paragraph, are part of it.

    Notes
    -----
    Speech is what LitBank annotates as quotations (Sims and Bamman 2020): dialogue, and not terms, titles or
    ironic words in quote marks. A term is short, no punctuation or verb of saying stands before it, and no
    punctuation before its closing mark. Speech without quote marks (after a dash, in italics) is not found.
    """
    marks = _marks(words)
    if not marks:
        return []
    low = [word.lower() for word in words]
    plain = [index for index, word in enumerate(low) if word not in _MARKS]
    score = [_START.get(state, _NEVER) for state in range(_N_STATES)]
    opened = [0] * _N_STATES  # index of the mark that opened the term
    back = []
    last = 0
    for mark in marks:
        costs = _costs(low, plain, mark)
        score[_SPEECH] = [cost + _PER_TOKEN * (mark.token - last) for cost in score[_SPEECH]]
        last = mark.token
        new, came, begun = [_NEVER] * _N_STATES, [0] * _N_STATES, opened.copy()
        for start, end, does, extra in _WAYS_OF_DOUBLE if mark.double else _WAYS_OF_SINGLE:
            cost = score[start] + costs[does] + extra
            if cost < new[end] and not (does == _CLOSE_TERM and mark.token - opened[start] > _LONGEST_TERM):
                new[end], came[end] = cost, start
                begun[end] = mark.token if does == _OPEN_TERM else opened[start]
        score, opened = new, begun
        back.append(came)
    score[_SPEECH] = [cost + _PER_TOKEN * (len(low) - last) for cost in score[_SPEECH]]
    return _path_spans(marks, back, min(_FINAL, key=lambda state: score[state] + _FINAL[state]), len(words))


def _path_spans(marks: list[_Mark], back: list[list[int]], state: int, end: int) -> list[Span]:
    """Return the spans of the reading that ends in a state."""
    spans = []
    for mark, came in zip(reversed(marks), reversed(back), strict=True):
        before = came[state]
        if before == _OUT and state not in _NOT_SPEECH:
            spans.append((mark.token, end))
        elif state == _OUT and before not in _NOT_SPEECH:
            end = mark.token + 1
        state = before
    if state != _OUT:
        spans.append((0, end))
    joined: list[Span] = []
    for start, stop in reversed(spans):
        if joined and start < joined[-1][1]:  # one token closes and opens
            start = joined.pop()[0]  # noqa: PLW2901
        joined.append((start, stop))
    return joined


def _marks(words: Sequence[str]) -> list[_Mark]:
    marks = [(index, mark) for index, word in enumerate(words) if word in _MARKS for mark in _MARKS[word]]
    sides = _DOUBLE | _SINGLE
    if any(mark == "„" for _, mark in marks):
        sides["“"] = _EITHER  # it closes what „ opened
    return [_Mark(index, mark in _DOUBLE, sides[mark]) for index, mark in marks]


def _near(low: list[str], plain: list[int], mark: _Mark) -> _Near:
    previous, following, size = mark.token - 1, mark.token + 1, len(low)
    quotes = _DOUBLE if mark.double else _SINGLE
    joins_before = previous >= 0 and low[previous] in _MARKS and _MARKS[low[previous]][-1] in quotes
    joins_after = following < size and low[following] in _MARKS and _MARKS[low[following]][0] in quotes
    index = bisect_left(plain, mark.token)  # a row of marks may be long: its ends are looked up
    previous = plain[index - 1] if index else -1
    following = plain[index] if index < len(plain) else size
    before, after = low[previous] if previous >= 0 else "", low[following] if following < size else ""
    return _Near(
        before,
        after,
        ended=not before[-1:].isalnum(),
        stop=after in _STOPS or (not after and mark.side != _OPENS),
        says=before in _SAYS and before not in _NAMING,
        introduced=before in {",", ":"} and not _SAYS.isdisjoint(low[max(0, previous - 3) : previous]),
        tagged=not _SAYS.isdisjoint(low[mark.token + 1 : mark.token + 4]),
        joins_before=joins_before,
        joins_after=joins_after,
    )


def _costs(low: list[str], plain: list[int], mark: _Mark) -> tuple[float, ...]:
    """Return the cost of each reading of a quote mark (opening, closing, ...)."""
    near = _near(low, plain, mark)
    against_open = _CLEAR * (mark.side == _CLOSES)
    against_close = _CLEAR * (mark.side == _OPENS)
    before_speech = _STRONG * near.stop
    opens = before_speech + _WEAK * (not near.ended and not near.says) + _STRONG * near.joins_after
    opens += against_open + _CLEAR * (near.tagged and near.before in _TAGGED)
    closes = against_close + _CLEAR * (not near.ended) + _CLEAR * near.introduced
    closes += _STRONG * near.joins_before
    closes += _CLEAR * (not near.before)  # closing marks stand with the sentence before the passage
    opens_term = before_speech + _CLEAR * (near.says or near.ended) + against_open
    closes_term = _CLEAR * near.tagged + against_close
    if near.ended:
        closes_term += _SLIGHT if near.before in {",", "."} else _CLEAR
    if mark.double:
        again = _STRONG
        if near.before in _ENDS and mark.side != _CLOSES and not near.stop:
            again = _SLIGHT if mark.side == _OPENS else _CLEAR
        return opens, closes, _STRONG, again, opens_term, closes_term
    return _single(near, mark.side, (opens, closes, opens_term, closes_term))


def _single(near: _Near, side: str, costs: tuple[float, float, float, float]) -> tuple[float, ...]:
    """Return the cost of each reading of a single mark, which may be an apostrophe."""
    opens, closes, opens_term, closes_term = costs
    elided = near.after in _ELIDED and not near.joins_after
    opens, opens_term = opens + _CLEAR * elided, opens_term + _CLEAR * elided
    if side == _OPENS:
        apostrophe, again = (0.0, 0.0) if elided else (_STRONG, _WEAK)
        return opens, closes, apostrophe, again, opens_term, closes_term
    word = near.before
    shortened = word[-1:] in {"s", "x", "z"} or word.endswith("in") or word in _SHORTENED
    possessive = not near.ended and shortened and (near.after[-1:].isalnum() or not near.after)
    apostrophe = 0.0 if elided or possessive else _STRONG if near.ended else _WEAK
    closing = _CLEAR * possessive
    doubtful = _SLIGHT + _CLEAR * (side == _CLOSES) + closing
    return (
        opens + doubtful, closes + closing, apostrophe, apostrophe,
        opens_term + doubtful, closes_term + closing,
    )  # fmt: skip


def speech(item: Item) -> list[Span]:
    """Find the quoted direct speech of an item (see :func:`speech_spans`), as spans in ``item.text``.

    There is none for an item in another language than English, of which the rules are.
    """
    if language(item.variant) != ENGLISH:
        return []
    words, spans = tokens(item)[:2]
    return [(spans[start][0], spans[end - 1][1]) for start, end in speech_spans(words)]
