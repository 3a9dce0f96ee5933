"""Words and sub-tokens: how a text is cut where its last word begins, and which sub-tokens end a word.

The cut is that of lm-evaluation-harness (Gao et al., ``TemplateLM._encode_pair`` and ``loglikelihood``), so
that the sub-tokens are the same. Where a word ends follows Pimentel and Meister (2024), "How to Compute the
Probability of a Word", and Oh and Schuler (2024), "Leading Whitespaces of Language Models' Subword
Vocabulary Pose a Confound for Calculating Word Probabilities".
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from workbench.items import text as wt
from workbench.items.schema import DataError, Item

Ids = list[int]

WITHIN = frozenset("'’ʼ-‐‑_\u00ad\u200c\u200d")  # noqa: RUF001 - apostrophes and hyphens are meant
"""Characters that go on with a word beside letters, digits and combining marks: apostrophes, hyphens, the
underscore, and characters that are not seen."""


class Fed(NamedTuple):
    """A text with a word in it, as a model is given it.

    Attributes
    ----------
    before : str
        All that stands before the word, white space at its end included.
    word : str
        Empty for a bare blank.
    after : str
        All that stands after it.
    """

    before: str
    word: str
    after: str

    @property
    def context(self) -> str:
        """What stands before the word, without the white space at its end."""
        return self.before.rstrip()

    @property
    def lead(self) -> str:
        """The white space before the word, which the tokenizer gets with the word."""
        return self.before[len(self.context) :]


def fed(item: Item, word: str | None = None, *, readable: bool = False) -> Fed:
    """Return the text of an item with a word at its blank, the answer by default.

    Parameters
    ----------
    item : Item
    word : str, optional
    readable : bool, default False
        Whether Treebank tokens are written as a book would (:func:`workbench.items.text.readable`).
    """
    start, end = item.answer_span
    text = item.text
    if word is not None:
        text, end = f"{text[:start]}{word}{text[end:]}", start + len(word)
    if readable and item.tokenised:
        text, [(start, end)] = wt.readable_spans(text, [(start, end)])
    return Fed(text[:start], text[start:end], text[end:])


class Subwords:
    """A tokenizer of ``transformers`` that cuts texts where their words begin.

    Parameters
    ----------
    tokenizer : PreTrainedTokenizerFast
    size : int
        Number of logits of the model, which may be more than the tokenizer has sub-tokens.

    Attributes
    ----------
    ends : array of bool (size,)
        Which sub-tokens, coming next, say that the word is over: those that begin with a character that
        no word goes on with (white space, punctuation), and special ones but the unknown one. One that
        begins with a letter, a digit, a combining mark or one of `WITHIN` goes on with the word; so does
        one that holds a part of a character only, as the character may be a letter.
    prefix : int or None
        Stands before a text that is empty: the beginning of a text, or else its end.
    """

    def __init__(self, tokenizer: Any, size: int) -> None:
        self.tokenizer = tokenizer
        self.ends = np.zeros(size, dtype=bool)
        for index, surface in enumerate(_surfaces(tokenizer)):
            if index < size:
                self.ends[index] = _ends(surface) if surface is not None else True
        if tokenizer.unk_token_id is not None and tokenizer.unk_token_id != tokenizer.eos_token_id:
            self.ends[tokenizer.unk_token_id] = False
        first = tokenizer.bos_token_id
        self.prefix = tokenizer.eos_token_id if first is None else first

    def encode(self, texts: Sequence[str], *, special: bool = True) -> list[Ids]:
        """Return the sub-tokens of texts; `special` adds what the tokenizer puts around a text."""
        if not texts:
            return []
        options = {} if special else {"add_special_tokens": False}
        found = self.tokenizer(list(texts), return_attention_mask=False, verbose=False, **options)
        return [list(row) for row in found["input_ids"]]

    def contexts(self, texts: Sequence[str]) -> list[Ids]:
        """Return the sub-tokens of what stands before words; an empty text has the prefix.

        Raises
        ------
        DataError
            If a text is empty, and the tokenizer has neither a beginning nor an end of a text.
        """
        texts = [text.rstrip() for text in texts]
        return [
            row if text else [self._prefix()] for text, row in zip(texts, self.encode(texts), strict=True)
        ]

    def pairs(self, befores: Sequence[str], afters: Sequence[str]) -> list[tuple[Ids, Ids]]:
        """Return the sub-tokens of texts before words, and those of the words with all that follows.

        White space at the end of a text before goes to the word. Both are encoded as one text, which is
        cut after as many sub-tokens as the first alone has. Where nothing is left then, as the end of the one
        and the beginning of the other are one sub-token, what follows is encoded by itself.

        Raises
        ------
        DataError
            If what follows has no sub-token.
        """
        lefts = [text.rstrip() for text in befores]
        rights = [
            whole[len(left) :] + after for whole, left, after in zip(befores, lefts, afters, strict=True)
        ]
        heads = self.contexts(lefts)
        given = [place for place, left in enumerate(lefts) if left]
        bare = [place for place, left in enumerate(lefts) if not left]
        found: list[tuple[Ids, Ids]] = [([], [])] * len(lefts)
        wholes = self.encode([lefts[place] + rights[place] for place in given])
        for place, whole in zip(given, wholes, strict=True):
            found[place] = heads[place], whole[len(heads[place]) :]
        for place, row in zip(bare, self.encode([rights[p] for p in bare], special=False), strict=True):
            same = row[:1] == heads[place]
            found[place] = (row[:1], row[1:]) if same else (heads[place], row)
        merged = [place for place, (_, ids) in enumerate(found) if not ids]
        for place, row in zip(merged, self.encode([rights[p] for p in merged], special=False), strict=True):
            found[place] = found[place][0], row
        for (_, ids), right in zip(found, rights, strict=True):
            if not ids:
                raise DataError(f"the tokenizer leaves no sub-token of {right[:40]!r}")
        return found

    def words(self, words: Sequence[str], lead: str, anchor: str) -> list[Ids]:
        """Return the sub-tokens of words after white space and some text, without those of the text.

        Parameters
        ----------
        words : sequence of str
        lead : str
            What stands directly before each word.
        anchor : str
            What stands before that; may be empty.
        """
        if not anchor:
            return self.encode([lead + word for word in words], special=False)
        skip = len(self.encode([anchor])[0])
        return [row[skip:] for row in self.encode([f"{anchor}{lead}{word}" for word in words])]

    def text(self, ids: Sequence[int], anchor: Sequence[int] = ()) -> str:
        """Return what some sub-tokens stand for, as they are written after some others."""
        whole = self.tokenizer.decode([*anchor, *ids], clean_up_tokenization_spaces=False)
        skip = len(self.tokenizer.decode(list(anchor), clean_up_tokenization_spaces=False)) if anchor else 0
        return str(whole)[skip:]

    def spans(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """Return which characters the sub-tokens of each text stand for; special ones for none."""
        found = self.tokenizer(list(texts), return_offsets_mapping=True, verbose=False)
        return [[(int(a), int(b)) for a, b in row] for row in found["offset_mapping"]]

    def _prefix(self) -> int:
        if self.prefix is None:
            raise DataError("there is no text before the word, and the tokenizer has no mark for that")
        return int(self.prefix)


def anchor_of(context: str, lead: str) -> str:
    """Return the text after which words are cut as they are after a context.

    After white space that is any letter; directly after another character, that character.
    """
    if not context:
        return ""
    return "a" if lead or context[-1].isalnum() else context[-1]


def _ends(surface: bytes) -> bool:
    """Say whether bytes that come after a word show that it is over."""
    size = 1 + sum(surface[0] >= bound for bound in (0xC0, 0xE0, 0xF0)) if surface else 1
    try:
        first = surface[:size].decode()
    except UnicodeDecodeError:  # a part of a character
        return False
    return bool(first) and not (
        first.isalnum() or first in WITHIN or unicodedata.category(first).startswith("M")
    )


def _surfaces(tokenizer: Any) -> Iterator[bytes | None]:
    """Yield the bytes that each sub-token stands for, a space before it included; None for special ones."""
    kinds = set(_kinds(json.loads(tokenizer.backend_tokenizer.decoder.__getstate__())))
    special, added = set(tokenizer.all_special_ids), tokenizer.added_tokens_decoder
    for index, token in enumerate(tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))):
        if index in special or token is None:
            yield None
        elif index in added:
            yield str(added[index].content).replace("▁", " ").encode()
        elif "ByteLevel" in kinds:
            yield b"".join(_BYTES.get(char, char.encode()) for char in token)
        elif "WordPiece" in kinds:
            yield (token[2:] if token.startswith("##") else f" {token}").encode()
        elif len(token) == len("<0x00>") and token.startswith("<0x") and "ByteFallback" in kinds:
            yield bytes.fromhex(token[3:5])
        else:
            yield token.replace("▁", " ").encode()


def _kinds(state: Any) -> Iterator[str]:
    """Yield the kinds of decoders that a tokenizer's decoder is made of."""
    if isinstance(state, dict):
        yield str(state.get("type"))
        for part in state.get("decoders", ()):
            yield from _kinds(part)


@cache
def _byte_letters() -> dict[str, bytes]:
    """Return what the letters of byte-level sub-tokens stand for (Radford et al. 2019, section 2.2).

    A byte that is a visible character of Latin-1 is written as that, the others as letters from 256 on.
    """
    shown = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [value for value in range(256) if value not in shown]
    letters = {chr(value): bytes([value]) for value in shown}
    return letters | {chr(256 + place): bytes([value]) for place, value in enumerate(hidden)}


_BYTES = _byte_letters()
