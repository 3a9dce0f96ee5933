"""The words among which a pretrained model ranks: what is read and left out, and their cased forms."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench.models.passage import is_word
from workbench.storage.errors import DataError, reading
from workbench.storage.files import read_bytes
from workbench.storage.spreadsheet import decoded_text

MARKS = frozenset({"<s>", "</s>", "<unk>", "<pad>", "<eos>", "<bos>"})
"""Marks of a corpus, which no model is asked to rank."""

STOP_WORDS = frozenset(
    """
    i me my myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers
    herself it its itself they them their theirs themselves what which who whom this that these those
    am is are was were be been being have has had having do does did doing
    will would shall should can could may might must ought
    a an the and but if or because as until while of at by for with about against between into through during
    before after above below to from up down in out on off over under again further then once here there when
    where why how all any both each few more most other some such no nor not only own same so than too very
    i'm you're he's she's it's we're they're i've you've we've they've i'd you'd he'd she'd we'd they'd
    i'll you'll he'll she'll we'll they'll
    isn't aren't wasn't weren't hasn't haven't hadn't doesn't don't didn't won't wouldn't shan't
    shouldn't can't cannot couldn't mustn't let's that's who's what's here's there's when's where's
    why's how's
    n't 's 'm 're 've 'd 'll
    """.split()  # noqa: SIM905 - read as lines
)
"""The stop words of Snowball's English stemmer (Porter 2001), with "us" and the modal verbs, and the pieces
of contractions that are Treebank tokens. Radford et al. (2019, section 3.3) do not say which they took."""

_LOWERED = 100
"""Words that a vocabulary has at least if the lack of upper-case letters shows that it was lower-cased: as
many words of any cased text hold "I" or a name."""

_PARTS = re.compile(r"(?<=-)\w|(?<=['’])\w(?=\w\w)|(?<=^mc)\w(?=\w)")  # noqa: RUF001 - an apostrophe is meant
"""Letters that may be upper-case within a word: after a hyphen or an apostrophe, as in "Jean-Luc" and
"O'Brien" (but not in "don't" and "you'll"), and in "McDonald"."""


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
    if isinstance(words, str):
        raise DataError(
            f"a string alone is neither words nor a path: {words[:60]!r}",
            remedy="pass pathlib.Path(...), or a list of words",
        )
    if isinstance(words, Path):
        words = _read_words(words)
    elif hasattr(words, "words") and not isinstance(words, Mapping):
        words = words.words
    words = list(words)
    if strange := [word for word in words if not isinstance(word, str)]:
        raise DataError(f"the vocabulary holds {strange[0]!r}, expected words")
    if stop_words:
        apostrophes = str.maketrans("’", "'")  # noqa: RUF001 - a typographic one is meant
        words = [w for w in words if is_word(w) and w.lower().translate(apostrophes) not in STOP_WORDS]
    unique = dict.fromkeys(word for word in words if word and word not in MARKS)
    if not unique:
        raise DataError("the vocabulary has no words")
    return tuple(unique)


def _read_words(path: Path) -> list[str]:
    with reading(path, "this vocabulary"):
        lines = decoded_text(read_bytes(path, "this vocabulary"), path).splitlines()
    return [line.partition("\t")[0].strip() for line in lines]
