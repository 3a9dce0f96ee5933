"""The words that a pretrained model ranks: a vocabulary, with or without stop words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from workbench.items.schema import DataError
from workbench.models.baselines.passage import is_word

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


def vocabulary_of(words: Any, *, stop_words: bool = False) -> tuple[str, ...] | None:
    """Return the different words of a vocabulary in their order, without the marks of a corpus.

    Parameters
    ----------
    words : iterable of str, mapping, Corpus, path, or None
        A mapping of words to counts, or a file with a word on each line and perhaps a tab and its count.
    stop_words : bool, default False
        Whether stop words and what has neither letter nor digit are left out.

    Raises
    ------
    DataError
        If there are no words, or no such file.
    """
    if words is None:
        return None
    if isinstance(words, str):
        raise DataError(
            f"a string alone is neither words nor a path: {words[:60]!r}",
            remedy="pass pathlib.Path(...), or a list of words",
        )
    if isinstance(words, Path):
        words = _lines(words)
    elif hasattr(words, "words") and not isinstance(words, Mapping):
        words = words.words
    found = dict.fromkeys(word for word in _texts(words) if word and word not in MARKS)
    if stop_words:
        found = {word: None for word in found if is_word(word) and plain(word) not in STOP_WORDS}
    if not found:
        raise DataError("the vocabulary has no words")
    return tuple(found)


def plain(word: str) -> str:
    """Return a word as the stop words are written."""
    return word.lower().replace("’", "'")  # noqa: RUF001 - the typographic apostrophe


def _lines(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"there is no vocabulary that can be read: {error}", file=path) from error
    return [line.partition("\t")[0].strip() for line in lines]


def _texts(words: Iterable[Any]) -> Iterable[str]:
    for word in words:
        if not isinstance(word, str):
            raise DataError(f"the vocabulary holds {word!r}, expected words")
        yield word
