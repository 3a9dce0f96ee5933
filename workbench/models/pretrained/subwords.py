"""Words and sub-tokens: how a text is split where its last word begins, and which sub-tokens end a word.

The split is that of lm-evaluation-harness (Gao et al., ``TemplateLM._encode_pair`` and ``loglikelihood``), so
that the sub-tokens are the same. Where a word ends follows Pimentel and Meister (2024), "How to Compute the
Probability of a Word", and Oh and Schuler (2024), "Leading Whitespaces of Language Models' Subword
Vocabulary Pose a Confound for Calculating Word Probabilities".
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from workbench.items.schema import DataError

Ids = list[int]
Continuation = tuple[str, str]
"""A text, and what follows it: the pair of which a causal model gives the conditional probability."""

WORD_CHARACTERS = frozenset("'’ʼ-‐‑_\u00ad\u200c\u200d")  # noqa: RUF001 - apostrophes and hyphens are meant
"""Characters that continue a word beside letters, digits and combining marks: apostrophes, hyphens, the
underscore, and invisible characters."""


class Subwords:
    """A tokenizer of ``transformers`` that splits texts where their words begin.

    Parameters
    ----------
    tokenizer : PreTrainedTokenizerFast
    size : int
        Number of logits of the model, which may be more than the tokenizer has sub-tokens.

    Attributes
    ----------
    ends : array of bool (size,)
        Which sub-tokens, coming next, mean that the word is over: those that begin with a character that
        no word continues with (white space, punctuation), and special ones except the unknown one. One that
        begins with a letter, a digit, a combining mark or one of `WORD_CHARACTERS` continues the word; so
        does one that holds only a part of a character, as the character may be a letter.
    prefix : int or None
        Sub-token before a text that is empty: the beginning of a text, or else its end.
    """

    def __init__(self, tokenizer: Any, size: int) -> None:
        self.tokenizer = tokenizer
        self.ends = np.zeros(size, dtype=bool)
        for index, surface in zip(range(size), _surfaces(tokenizer), strict=False):
            self.ends[index] = surface is None or ends_word(surface)
        if tokenizer.unk_token_id is not None and tokenizer.unk_token_id != tokenizer.eos_token_id:
            self.ends[tokenizer.unk_token_id] = False
        first = tokenizer.bos_token_id
        self.prefix = tokenizer.eos_token_id if first is None else first

    def encode(self, texts: Sequence[str], *, special: bool = True) -> list[Ids]:
        """Return the sub-tokens of texts; `special` adds what the tokenizer puts around a text."""
        if not texts:
            return []
        options = {} if special else {"add_special_tokens": False}
        encoding = self.tokenizer(list(texts), return_attention_mask=False, verbose=False, **options)
        return [list(ids) for ids in encoding["input_ids"]]

    def contexts(self, texts: Sequence[str]) -> list[Ids]:
        """Return the sub-tokens of what stands before words; an empty text has the prefix.

        Raises
        ------
        DataError
            If a text is empty, and the tokenizer has neither a beginning nor an end of a text.
        """
        texts = [text.rstrip() for text in texts]
        return [
            ids if text else [self._prefix()] for text, ids in zip(texts, self.encode(texts), strict=True)
        ]

    def pairs(self, continuations: Sequence[Continuation]) -> list[tuple[Ids, Ids]]:
        """Return the sub-tokens of texts and of what follows them.

        White space at the end of a text belongs to what follows. Both are encoded as one text, which is
        split after as many sub-tokens as the first alone has. Where nothing is left then, as the end of the
        first and the beginning of the second are one sub-token, what follows is encoded by itself.

        Raises
        ------
        DataError
            If what follows has no sub-token.
        """
        lefts = [before.rstrip() for before, _ in continuations]
        rights = [
            before[len(left) :] + after for (before, after), left in zip(continuations, lefts, strict=True)
        ]
        heads = self.contexts(lefts)
        pairs: list[tuple[Ids, Ids]] = []
        for left, right, head, ids in zip(
            lefts, rights, heads, self.encode(list(map(str.__add__, lefts, rights))), strict=True
        ):
            tail = ids[len(head) :] if left else self._alone(right)
            if not left and tail[:1] == head:
                tail = tail[1:]
            pairs.append((head, tail or self._alone(right)))
        for (_, tail), right in zip(pairs, rights, strict=True):
            if not tail:
                raise DataError(f"the tokenizer leaves no sub-token of {right[:40]!r}")
        return pairs

    def words(self, words: Sequence[str], lead: str, anchor: str) -> list[Ids]:
        """Return the sub-tokens of words after white space and a text, without those of the text.

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
        return [ids[skip:] for ids in self.encode([f"{anchor}{lead}{word}" for word in words])]

    def text(self, ids: Sequence[int], context: Sequence[int] = ()) -> str:
        """Return the text of sub-tokens as it is written after those of a context."""
        text = self.tokenizer.decode([*context, *ids], clean_up_tokenization_spaces=False)
        skip = len(self.tokenizer.decode(list(context), clean_up_tokenization_spaces=False)) if context else 0
        return str(text)[skip:]

    def spans(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """Return the characters (start, end) of the sub-tokens of each text; special ones have none."""
        encoding = self.tokenizer(list(texts), return_offsets_mapping=True, verbose=False)
        return [[(int(a), int(b)) for a, b in row] for row in encoding["offset_mapping"]]

    def _alone(self, text: str) -> Ids:
        return self.encode([text], special=False)[0]

    def _prefix(self) -> int:
        if self.prefix is None:
            raise DataError("there is no text before the word, and the tokenizer has no mark for that")
        return int(self.prefix)


def anchor_of(context: str, lead: str) -> str:
    """Return a short text after which words have the sub-tokens that they have after a context.

    After white space that is any letter; directly after another character, that character.
    """
    if not context:
        return ""
    return "a" if lead or context[-1].isalnum() else context[-1]


def ends_word(surface: bytes) -> bool:
    """Return whether bytes that come after a word show that it is over."""
    size = 1 + sum(surface[0] >= bound for bound in (0xC0, 0xE0, 0xF0)) if surface else 1
    try:
        first = surface[:size].decode()
    except UnicodeDecodeError:  # a part of a character
        return False
    return bool(first) and not (
        first.isalnum() or first in WORD_CHARACTERS or unicodedata.category(first).startswith("M")
    )


def _surfaces(tokenizer: Any) -> Iterator[bytes | None]:
    """Yield the bytes that each sub-token stands for, a space before it included; None for special ones."""
    from transformers.convert_slow_tokenizer import bytes_to_unicode  # noqa: PLC0415 - heavy, an extra

    table: Any = bytes_to_unicode  # has no types
    letters = {letter: bytes([value]) for value, letter in table().items()}
    decoders = set(_decoders(json.loads(tokenizer.backend_tokenizer.decoder.__getstate__())))
    special, added = set(tokenizer.all_special_ids), tokenizer.added_tokens_decoder
    for index, token in enumerate(tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))):
        if index in special or token is None:
            yield None
        elif index in added:
            yield str(added[index].content).replace("▁", " ").encode()
        elif "ByteLevel" in decoders:
            yield b"".join(letters.get(char, char.encode()) for char in token)
        elif "WordPiece" in decoders:
            yield (token[2:] if token.startswith("##") else f" {token}").encode()
        elif len(token) == len("<0x00>") and token.startswith("<0x") and "ByteFallback" in decoders:
            yield bytes.fromhex(token[3:5])
        else:
            yield token.replace("▁", " ").encode()


def _decoders(state: Any) -> Iterator[str]:
    """Yield the types of the decoders that a tokenizer's decoder consists of."""
    if isinstance(state, dict):
        yield str(state.get("type"))
        for part in state.get("decoders", ()):
            yield from _decoders(part)
