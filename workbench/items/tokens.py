"""The tokens of an item, each with its place in the text, and which of them are the target."""

# ruff: noqa: RUF001 - typographic quotes are meant

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from workbench.items import text as wt
from workbench.items.items import Item, Span

_TOKEN = re.compile(r"\S+")
_SHOWN = {
    "``": '"', "''": '"', "“": '"', "”": '"', "„": '"', "`": "'", "‘": "'", "’": "'",
    "-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-lcb-": "{", "-rcb-": "}",
}  # fmt: skip
_CLITICS = frozenset({"'s", "’s", "'m", "'d", "'ll", "'re", "'ve", "n't", "n’t"})


class Tokens(NamedTuple):
    """The tokens of one item.

    ``words`` (n,) are those of the release, or cut from running text by the rules of
    :func:`workbench.items.text.tokenize`. ``spans`` (n,) are their characters in ``item.text``, end excluded,
    in order; a period that the tokenizer adds after an abbreviation has an empty span. ``target`` is the
    index of the first token of the answer (of a bare blank, where it would stand), ``n_target`` how many
    tokens the answer has: 0 for a bare blank. ``sentences`` are the indices of the first token of each
    sentence, the target sentence last.
    """

    words: tuple[str, ...]
    spans: tuple[Span, ...]
    target: int
    n_target: int
    has_target: bool
    sentences: tuple[int, ...]

    @property
    def end(self) -> int:
        """Index of the token after the answer."""
        return self.target + self.n_target

    @property
    def head(self) -> int:
        """Index of the answer's head token; `target` without an answer.

        It is the last token of the answer that holds a letter or a digit and is not a contraction:
        ``York`` of ``New York``, ``do`` of ``do n't``, ``Nadia`` of ````Nadia``.
        """
        for index in reversed(range(self.target, self.end)):
            word = self.words[index]
            if word.lower() not in _CLITICS and any(map(str.isalnum, word)):
                return index
        return self.target


def tokens(item: Item) -> Tokens:
    """Cut an item into tokens, at white space where it is tokenised, else by the Treebank's rules.

    A token that an edge of the answer's span falls into is split there, so that the answer is
    always one or more whole tokens.
    """
    start, end = item.answer_span
    if item.tokenised:
        pieces = [(match[0], *match.span()) for match in _TOKEN.finditer(item.text)]
    else:
        pieces = wt.scan(item.text)
    for edge in (start, end):
        _split(pieces, edge, item.text)
    starts = [begin for _, begin, _ in pieces]
    target = bisect_left(starts, start)
    stop = bisect_left(starts, end, target)
    return Tokens(
        words=tuple([piece for piece, _, _ in pieces]),
        spans=tuple([(begin, stop) for _, begin, stop in pieces]),
        target=target,
        n_target=stop - target,
        has_target=stop > target,
        sentences=tuple([bisect_left(starts, first) for first, _ in item.sentences]),
    )


def _split(pieces: list[tuple[str, int, int]], edge: int, text: str) -> None:
    """Split the token that an edge of the answer falls into, if there is one."""
    index = bisect_left(pieces, edge, key=lambda piece: piece[1]) - 1
    if index < 0 or pieces[index][2] <= edge:
        return
    word, begin, stop = pieces[index]
    if len(word) != stop - begin:  # it is written otherwise (a dash): cut it as the text has it
        word = text[begin:stop]
    pieces[index : index + 1] = [(word[: edge - begin], begin, edge), (word[edge - begin :], edge, stop)]


def readable_tokens(words: Sequence[str]) -> list[str]:
    """Return words as a tagger shall see them: with plain quotes, and brackets for ``-LRB-`` and its like."""
    return [_SHOWN.get(word.lower(), word) for word in words]
