"""Sub-tokens of texts that are split where words begin and end, and the words of a vocabulary by case."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import numpy as np

from workbench.models.item_words import is_word
from workbench.models.pretrained.loading import PROBE, Ids
from workbench.storage.errors import DataError, reading
from workbench.storage.files import read_bytes
from workbench.storage.tables import decoded_text

Continuation = tuple[str, str]
"""A text, and what follows it: the pair of which a causal model gives the conditional probability."""

WORD_CHARACTERS = frozenset("'’ʼ-‐‑_\u00ad\u200c\u200d")  # noqa: RUF001 - apostrophes and hyphens are meant
"""Characters that continue a word beside letters, digits and combining marks: apostrophes, hyphens, the
underscore, and invisible characters."""

MARKS = frozenset({"<s>", "</s>", "<unk>", "<pad>", "<eos>", "<bos>"})
"""Marks of a corpus, which no model is asked to rank."""

STOP_WORDS = frozenset(Path(__file__).with_name("stop_words.txt").read_text(encoding="utf-8").split())
"""The stop words of Snowball's English stemmer (Porter 2001), with "us" and the modal verbs, and the pieces
of contractions that are Treebank tokens. Radford et al. (2019, section 3.3) do not say which they took."""

_LOWERED = 100
"""Words that a vocabulary has at least if the lack of upper-case letters shows that it was lower-cased: as
many words of any cased text hold "I" or a name."""

_PARTS = re.compile(r"(?<=-)\w|(?<=['’])\w(?=\w\w)|(?<=^mc)\w(?=\w)")  # noqa: RUF001 - an apostrophe is meant
"""Letters that may be upper-case within a word: after a hyphen or an apostrophe, as in "Jean-Luc" and
"O'Brien" (but not in "don't" and "you'll"), and in "McDonald"."""

_SEVERAL_WORDS = re.compile(r"[^\W\d_]\s+[^\W\d_]")
"""Letters of two words in one sub-token."""


class Subwords:
    """A tokenizer of ``transformers`` that splits texts where their words begin.

    The split is that of lm-evaluation-harness (Gao et al., ``TemplateLM._encode_pair`` and
    ``loglikelihood``), so that the sub-tokens are the same, but where a sub-token reaches over the split
    (`pairs`). For the ends of words see :mod:`workbench.models.pretrained.causal`. What the tokenizer adds
    after a text is left out.

    Parameters
    ----------
    size : int
        Number of logits of the model, which may be more than the tokenizer has sub-tokens.
    beginning : {"tokenizer", "nothing", "newline", "mark"}
        Sub-tokens before a text: those that the tokenizer adds (also with "newline", which is text), none, or
        the mark of the beginning in any case.
    space : {"word", "context"}
        Whether white space before a word is encoded with the word, or at the end of what stands before it.

    Attributes
    ----------
    ends : array of bool (size,)
        Which sub-tokens, coming next, mean that the word is over: those that begin with a character that
        no word continues with (white space, punctuation), and special ones except the unknown one. One that
        begins with a letter, a digit, a combining mark or one of `WORD_CHARACTERS` continues the word; so
        does one that holds only a part of a character, as the character may be a letter.
    prefix : int or None
        Sub-token before a text that is empty: the beginning of a text (BOS), or else its end.
    adds_bos : bool
        Whether the tokenizer puts a mark of the beginning before a text. A text that begins with that mark
        itself gets no other one, as in lm-evaluation-harness since 0.4.9.2.

    Raises
    ------
    DataError
        If the tokenizer does not give the words of a sentence back, or its sub-tokens do not show where
        words begin, as those of GPT-1, which mark where words end.
    """

    def __init__(
        self, tokenizer: Any, size: int, *, beginning: str = "tokenizer", space: str = "word"
    ) -> None:
        self.tokenizer, self.beginning, self.space = tokenizer, beginning, space
        self.ends = np.zeros(size, dtype=bool)
        surfaces = list(islice(_surfaces(tokenizer), size))
        for index, surface in enumerate(surfaces):
            self.ends[index] = surface is None or ends_word(surface)
        texts = [(surface or b"").decode(errors="replace") for surface in surfaces]
        marks_ends = getattr(tokenizer.backend_tokenizer.model, "end_of_word_suffix", None)
        if marks_ends or not any(text[:1].isspace() for text in texts):
            marks = f"mark ends of words ({marks_ends!r})" if marks_ends else "hold no white space"
            raise DataError(
                f"the sub-tokens {marks}: expected white space where words begin, which shows that the word "
                "before is over",
                file=tokenizer.name_or_path or None,
                hint="take a model whose sub-tokens hold the white space before words, such as GPT-2",
            )
        self._several_words = next(filter(_SEVERAL_WORDS.search, texts), None)
        self._whole_words = {
            text[1:]: index for index, text in enumerate(texts) if text[:1] == " " and text[1:].isalpha()
        }
        unknown = tokenizer.unk_token_id
        if unknown is not None and unknown != tokenizer.eos_token_id and unknown < size:
            self.ends[unknown] = False
        first = tokenizer.bos_token_id
        self.prefix = tokenizer.eos_token_id if first is None else first
        added = _added_before(tokenizer)
        self.adds_bos = bool(added)
        beginnings = {self.prefix, *added[:1]} - {None}
        self._marks = tuple(tokenizer.decode([each]) for each in sorted(beginnings))
        mark = self._prefix() if beginning == "mark" else []
        self._first: Ids = [] if beginning == "nothing" else added or mark

    def whole_words(self) -> dict[str, int]:
        """Return the words of letters that are one sub-token with a space before them, with the sub-token.

        Empty where sub-tokens hold several words: a word may then be a part of another sub-token.
        """
        return {} if self._several_words else self._whole_words

    def encode(self, texts: Sequence[str], *, special: bool = True) -> list[Ids]:
        """Return the sub-tokens of texts; `special` adds the tokens before a text (`beginning`)."""
        if not texts:
            return []
        rows: list[Ids] = self.tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
        first = self._first if special else []
        return [row if self.has_mark(text) else [*first, *row] for text, row in zip(texts, rows, strict=True)]

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return the spans of the sub-tokens of `encode` in a text; (0, 0) for marks before it.

        DataError if the tokenizer has no offsets.
        """
        try:
            encoding = self.tokenizer(
                text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
            )
            offsets: list[tuple[int, int]] = encoding["offset_mapping"]
        except (NotImplementedError, KeyError):
            offsets = []
        if text.strip() and not any(start < end for start, end in offsets):
            raise DataError(
                f"the tokenizer has no offsets of its sub-tokens in a text: {text.strip()[:40]!r}",
                hint="take the fast tokenizer of the model, with its tokenizer.json",
            )
        return offsets if self.has_mark(text) else [(0, 0)] * len(self._first) + offsets

    def has_mark(self, text: str) -> bool:
        """Return whether a text begins with the tokenizer's own beginning-of-text token."""
        return bool(self._marks) and text.startswith(self._marks)

    def beginnings(self, texts: Sequence[str]) -> list[str]:
        """Return the beginning of each text: one of :data:`workbench.predictions.schema.BOS`."""
        usual = "added" if self.adds_bos else "text" if self.beginning == "mark" else "none"
        if self.beginning == "nothing" and self.adds_bos:
            usual = "omitted"
        return ["text" if self.has_mark(text) else usual if text else "added" for text in texts]

    def contexts(self, texts: Sequence[str]) -> list[Ids]:
        """Return the sub-tokens of the texts before words; an empty text has the prefix."""
        texts = [text if self.space == "context" and text.strip() else text.rstrip() for text in texts]
        return [ids if text else self._prefix() for text, ids in zip(texts, self.encode(texts), strict=True)]

    def _prefix(self) -> Ids:
        """Return the mark of the beginning of a text; DataError if the tokenizer has none."""
        if self.prefix is None:
            raise DataError(
                "the tokenizer has no mark of the beginning of a text",
                hint='use beginning="tokenizer", and items with text before the blank',
            )
        return [self.prefix]

    def pairs(self, rows: Sequence[Sequence[Continuation]]) -> list[tuple[Ids, Ids]]:
        """Return the sub-tokens of texts and of their continuations, for the rows in turn.

        White space at the end of a text belongs to what follows. Both are encoded as one text, which is
        split after as many sub-tokens as the first alone has, if it begins with these. If one of a row does
        not, as a sub-token reaches over the split ("the boy ran home" may be one), all of the row are split
        where their common sub-tokens before that end: what is scored of each is the text from there on.
        Where white space is encoded with what stands before the word (`space`), both are encoded by
        themselves.
        """
        continuations = [continuation for row in rows for continuation in row]
        heads = self.contexts([before for before, _ in continuations])
        if self.space == "context":
            return list(
                zip(heads, self.encode([after for _, after in continuations], special=False), strict=True)
            )
        joined = self.encode([before + after for before, after in continuations])
        for index, (before, after) in enumerate(continuations):
            if not before.strip():  # of the marks before a text, the prefix alone
                [tail] = self.encode([before + after], special=False)
                joined[index] = heads[index] + tail[tail[:1] == heads[index] and len(tail) > 1 :]
        start = 0
        for row in rows:
            indices, start = range(start, start + len(row)), start + len(row)
            if any(joined[index][: len(heads[index])] != heads[index] for index in indices):
                befores = [joined[index][: self._n_before(*continuations[index])] for index in indices]
                columns = takewhile(lambda ids: len(set(ids)) == 1, zip(*befores, strict=False))
                common = [ids[0] for ids in columns]
                for index in indices:
                    heads[index] = common
        pairs = []
        for (before, after), ids, head in zip(continuations, joined, heads, strict=True):
            if len(head) == len(ids):
                remainder = before[len(before.rstrip()) :] + after
                raise DataError(f"the tokenizer leaves no sub-token of {remainder[:40]!r}")
            pairs.append((head or self.contexts([""])[0], ids[len(head) :]))
        return pairs

    def _n_before(self, before: str, after: str) -> int:
        """Return the number of sub-tokens of a text that end before its continuation."""
        split = len(before.rstrip())
        offsets = self.offsets(before + after)
        return next((index for index, (_, end) in enumerate(offsets) if end > split), len(offsets))

    def words(self, words: Sequence[str], lead: str, anchor: str) -> list[Ids]:
        """Return the sub-tokens of words after a text (`anchor`) and white space (`lead`) alone.

        A word that is one sub-token with the end of that text is encoded by itself. DataError if sub-tokens
        hold several words.
        """
        if self._several_words:
            raise DataError(
                f"the tokenizer has sub-tokens of several words ({self._several_words!r:.60}), expected "
                "sub-tokens of one word each to rank a vocabulary",
                hint="leave out vocabulary=, or give the items candidates",
            )
        [first] = self.encode([anchor], special=False)
        texts = [f"{anchor}{lead}{word}" for word in words]
        # a quarter of the time that the tokenizer of transformers takes for as many texts
        encode = self.tokenizer.backend_tokenizer.encode_batch_fast
        rows = [encoding.ids for encoding in encode(texts, add_special_tokens=False)]
        for index, ids in enumerate(rows):
            rows[index] = ids[len(first) :]
            if ids[: len(first)] != first:
                [rows[index]] = self.encode([f"{lead}{words[index]}"], special=False)
        return rows

    def text(self, ids: Sequence[int], context: Sequence[int] = ()) -> str:
        """Return the text of sub-tokens as written after a context."""
        text = self.tokenizer.decode([*context, *ids], clean_up_tokenization_spaces=False)
        skip = len(self.tokenizer.decode(list(context), clean_up_tokenization_spaces=False)) if context else 0
        return str(text)[skip:]


def _added_before(tokenizer: Any) -> Ids:
    """Return the sub-tokens that a tokenizer adds before a text; DataError if it cannot be used word by word.

    One sentence is encoded and decoded: it comes back in any case of letters, without those that the
    tokenizer does not know.
    """
    [marked], [bare] = (tokenizer([PROBE], add_special_tokens=add)["input_ids"] for add in (True, False))
    n = next((n for n in range(len(marked)) if marked[n : n + len(bare)] == bare), None)
    text = tokenizer.decode(bare, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    letters = iter(PROBE.casefold())
    if n is None or not all(letter in letters for letter in " ".join(text.casefold().split())):
        raise DataError(
            f"the tokenizer reads {PROBE!r} as {text!r:.80}",
            file=tokenizer.name_or_path or None,
            hint="take the tokenizer that the model was trained with, with its decoder",
        )
    added: Ids = marked[:n]
    return added


def anchor_of(context: str, lead: str) -> str:
    """Return a short text after which words have the sub-tokens that they have after a context.

    After white space that is any letter; directly after another character, that character.
    """
    if not context:
        return ""
    return "a" if lead or context[-1].isalnum() else context[-1]


def ends_word(surface: bytes) -> bool:
    """Return whether bytes that come after a word show that it is over."""
    first = surface.decode(errors="surrogateescape")[:1]  # a surrogate (Cs) for a part of a character
    return bool(first) and not (
        first.isalnum() or first in WORD_CHARACTERS or unicodedata.category(first) in {"Mn", "Mc", "Me", "Cs"}
    )


def _surfaces(tokenizer: Any) -> Iterator[bytes | None]:
    """Yield the bytes of each sub-token, a leading space included; None for special tokens."""
    from transformers.convert_slow_tokenizer import bytes_to_unicode  # noqa: PLC0415 - heavy, an extra

    table: Any = bytes_to_unicode  # has no types
    letters = {letter: bytes([value]) for value, letter in table().items()}
    decoders = str(tokenizer.backend_tokenizer.decoder.__getstate__())  # JSON, perhaps of several
    special, added = set(tokenizer.all_special_ids), tokenizer.added_tokens_decoder
    for index, token in enumerate(tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))):
        if index in special or token is None:
            yield None
        elif index in added:
            yield str(added[index].content).replace("▁", " ").encode()
        elif '"ByteLevel"' in decoders:
            yield b"".join(letters.get(char, char.encode()) for char in token)
        elif '"WordPiece"' in decoders:
            yield (token[2:] if token.startswith("##") else f" {token}").encode()
        elif len(token) == len("<0x00>") and token.startswith("<0x") and '"ByteFallback"' in decoders:
            yield bytes.fromhex(token[3:5])
        else:
            yield token.replace("▁", " ").encode()


def is_lowered(words: Sequence[str] | None) -> bool:
    """Return whether words were lower-cased: they are many, and less than one in 1,000 has a capital.

    Some programs lower the case of A to Z alone: the vocabulary of LAMBADA's release has "Étienne".
    """
    if words is None or len(words) < _LOWERED:
        return False
    return 1000 * sum(word != word.lower() for word in words) < len(words)


def cased_forms(word: str) -> list[str]:
    """Return the forms that a lower-cased word has in texts, the word itself first."""
    first = word[:1].upper() + word[1:]
    capitalised = _PARTS.sub(lambda letter: letter[0].upper(), word)
    return list(dict.fromkeys([word, first, capitalised[:1].upper() + capitalised[1:], word.upper()]))


def read_vocabulary(words: Any, *, stop_words: bool) -> tuple[str, ...] | None:
    """Return the different words of a vocabulary in their order, without the marks of a corpus.

    `stop_words` leaves out stop words and what has neither letter nor digit.
    """
    if words is None:
        return None
    source = words
    if isinstance(words, str):
        words = []
    elif isinstance(words, Path):
        words = _read_words(words)
    elif hasattr(words, "words") and not isinstance(words, Mapping):
        words = words.words
    words = list(words)
    are_words = all(isinstance(word, str) for word in words)
    if are_words and stop_words:
        apostrophes = str.maketrans("’", "'")  # noqa: RUF001 - a typographic one is meant
        words = [w for w in words if is_word(w) and w.lower().translate(apostrophes) not in STOP_WORDS]
    unique = dict.fromkeys(word for word in words if word and word not in MARKS)
    if not unique or not are_words:
        raise DataError(
            f"expected a vocabulary of words, got {source!r:.80}",
            hint="pass a list of words, a corpus, or pathlib.Path(...) of a file with a word per line",
        )
    return tuple(unique)


def _read_words(path: Path) -> list[str]:
    with reading(path, "this vocabulary"):
        lines = decoded_text(read_bytes(path, "this vocabulary"), path).splitlines()
    return [line.partition("\t")[0].strip() for line in lines]
