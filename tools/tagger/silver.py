"""Tag novels as they are printed, for training on the same words without their capitals.

Where the tagger doubts a capitalised word within a sentence, print is believed: in a novel it
is a name. In LitBank's texts the annotated entities decide instead (Bamman, Popat and Shen 2019).
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import litbank
import novels
from corpora import ARTICLES
from spacy.language import Language
from spacy.tokens import Doc

from workbench.analysis.tagger.network import Lexicon, fold_token
from workbench.storage.files import atomic_path

_TOKENS = 75  # of a passage, as in LAMBADA
_PASSAGES = 48_000
_DOUBTED = frozenset({"NOUN", "VERB", "ADJ", "ADV", "INTJ", "X", "ADP", "NUM"})
_ALWAYS = 11  # the lexicon's mark of forms that are always capitalised, such as "French"
_MOSTLY = 6
_HEADING = 0.5  # share of capitalised words in a heading


def make(nlp: Language, lexicon: Lexicon, books: Path, target: Path, seed: int = 0) -> None:
    """Write silver passages to a file, one JSON list of words and tags a line."""
    passages: list[tuple[list[str], list[bool] | None]] = [(words, None) for words in _drawn(books, seed)]
    passages += _annotated()
    docs = nlp.pipe((Doc(nlp.vocab, words=words) for words, _ in passages), batch_size=500)
    with atomic_path(target) as temporary, temporary.open("w", encoding="utf-8") as file:
        for doc, (words, marks) in zip(docs, passages, strict=True):
            tags = believed(words, [token.pos_ for token in doc], lexicon, marks)
            file.write(json.dumps([words, tags], ensure_ascii=False) + "\n")


def believed(
    words: Sequence[str], tags: Sequence[str], lexicon: Lexicon, entities: Sequence[bool] | None = None
) -> list[str]:
    """Return the tags with the names that capitals, or annotated entities, show.

    Parameters
    ----------
    words, tags : sequence of str
        A passage in its case and what the tagger says of it.
    lexicon : Lexicon
        Tells adjectives such as "French", which are always capitalised.
    entities : sequence of bool, optional
        Whether each word is within a named entity; print decides without it.

    Returns
    -------
    list of str
        Universal parts of speech; empty where print and tagger disagree and neither is sure.
    """
    result = list(tags)
    heading = sum(word[0].isupper() for word in words) > _HEADING * sum(word[0].isalpha() for word in words)
    for place, (word, tag) in enumerate(zip(words, tags, strict=True)):
        if not word[0].isupper() or not word.isalpha() or len(word) == 1:
            if tag == "PROPN" and word.isalpha() and word.islower():
                result[place] = ""
            continue
        before = words[place - 1] if place else "."
        within = before[-1].isalnum() or before == ","
        share = lexicon.names[lexicon.row(fold_token(word))]
        if heading or not within:
            continue
        if before.lower() in ARTICLES and 0 < share < _MOSTLY and tag in _DOUBTED | {"PROPN"}:
            result[place] = ""  # old books have "the King" where newer ones have "the king"
            continue
        if entities is not None and entities[place] and tag in _DOUBTED:
            result[place] = "PROPN"
        elif tag == "ADJ" and share >= _ALWAYS:
            continue
        elif tag in _DOUBTED:
            result[place] = "PROPN" if share == 0 or share >= _MOSTLY or entities is None else ""
    return result


def _drawn(books: Path, seed: int) -> Iterator[list[str]]:
    """Draw passages of whole sentences from all books, a book as often as it is long."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    sizes = [sum(map(len, book)) for book in novels.read(books)]
    for book, size in zip(novels.read(books), _shares(sizes, _PASSAGES), strict=True):
        for _ in range(size):
            start = rng.randrange(max(1, len(book) - 8))
            passage: list[str] = []
            for sentence in book[start:]:
                if len(passage) >= _TOKENS:
                    break
                passage += sentence[: 4 * _TOKENS]
            yield passage


def _shares(sizes: Sequence[int], total: int) -> list[int]:
    """Divide a total by sizes, in whole numbers that add up to it."""
    edges, done = [0], 0
    for size in sizes:
        done += size
        edges.append(round(total * done / sum(sizes)))
    return [after - before for before, after in pairwise(edges)]


def _annotated() -> Iterator[tuple[list[str], list[bool]]]:
    """Cut LitBank into passages; a word is marked where it is within an entity."""
    for text in litbank.entities():
        words: list[str] = []
        marks: list[bool] = []
        for sentence in text.sentences:
            words += [token.word for token in sentence]
            marks += [any(label != "O" for label in token.labels) for token in sentence]
            if len(words) >= _TOKENS:
                yield words, marks
                words, marks = [], []
        if words:
            yield words, marks
