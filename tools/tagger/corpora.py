"""What the tagger is trained on, varied in each epoch: case, hyphens, names, passages cut short."""

import json
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import treebanks
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import registry

_LENGTHS = (1, 1, 2, 3, 5, 8)  # sentences of a gold passage
_JOINED, _CAPITALS, _RENAMED = 0.35, 0.02, 0.3
ARTICLES = frozenset({"the", "a", "an", "this", "that"})
_NAMELIKE = frozenset({"NOUN", "ADJ", "PROPN", "VERB"})


class Passage(NamedTuple):
    """Words with their tags; an empty tag is not known."""

    words: list[str]
    upos: list[str]


class Variation(NamedTuple):
    """How a passage is varied: shares of passages in lower case, and of those cut short after a word."""

    lower: float
    short: float


GOLD, SILVER = Variation(0.5, 0.15), Variation(0.7, 0.4)


def narrative_corpus(
    gold: Sequence[str], silver: Path | None, share: float, seed: int
) -> Callable[[Language], Iterator[Example]]:
    """Return the training corpus: all gold passages, and a share of the silver ones drawn in each epoch."""
    sentences = [sentence for name in gold for sentence in treebanks.sentences(treebanks.find(name))]
    drawn = list(read(Path(silver))) if silver is not None else []
    words = sorted({w for p in drawn for w, tag in zip(*p, strict=True) if tag in _NAMELIKE and w.isalpha()})
    rng = random.Random(seed)  # noqa: S311 - no secret

    def epoch(nlp: Language) -> Iterator[Example]:
        passages = [(passage, GOLD) for passage in grouped(sentences, rng)]
        passages += [(passage, SILVER) for passage in rng.sample(drawn, round(share * len(drawn)))]
        rng.shuffle(passages)
        for passage, variation in passages:
            if variation is SILVER and rng.random() < _RENAMED:
                passage = renamed(passage, words, rng)  # noqa: PLW2901 - the same passage still
            yield example(nlp, vary(passage, variation, rng))

    return epoch


def narrative_development(gold: str) -> Callable[[Language], Iterator[Example]]:
    """Return a treebank for development: each sentence as it is, and in lower case."""

    def corpus(nlp: Language) -> Iterator[Example]:
        for sentence in treebanks.sentences(treebanks.find(gold)):
            passage = Passage(list(sentence.words), list(sentence.upos))
            yield example(nlp, passage)
            yield example(nlp, lowered(passage))

    return corpus


def example(nlp: Language, passage: Passage) -> Example:
    """Return a passage as spaCy learns and scores it."""
    wanted = Doc(nlp.vocab, words=passage.words, pos=passage.upos)
    return Example(Doc(nlp.vocab, words=passage.words), wanted)


def lowered(passage: Passage) -> Passage:
    """Return a passage in lower case."""
    return Passage([word.lower() for word in passage.words], passage.upos)


def grouped(sentences: Iterable[treebanks.Sentence], rng: random.Random) -> Iterator[Passage]:
    """Cut documents into passages of one to eight sentences; some have their hyphenated words joined."""
    for _, document in groupby(sentences, key=lambda sentence: sentence.doc):
        rest = list(document)
        while rest:
            length = rng.choice(_LENGTHS)
            part, rest = rest[:length], rest[length:]
            join = rng.random() < _JOINED
            passage = Passage([], [])
            for sentence in part:
                words, upos = joined(sentence) if join else (sentence.words, sentence.upos)
                passage.words.extend(words)
                passage.upos.extend(upos)
            yield passage


def joined(sentence: treebanks.Sentence) -> Passage:
    """Join words that hyphens hold together (``well - known``), as in novels; the last word's tag holds."""
    words, upos, glued = [], [], sentence.space_after
    place = 0
    while place < len(sentence.words):
        word, last = sentence.words[place], place
        while _hyphenated(sentence.words, glued, last):
            word, last = f"{word}-{sentence.words[last + 2]}", last + 2
        words.append(word)
        upos.append(sentence.upos[last])
        place = last + 1
    return Passage(words, upos)


def _hyphenated(words: Sequence[str], space_after: Sequence[bool], place: int) -> bool:
    if place + 2 >= len(words) or words[place + 1] != "-" or space_after[place] or space_after[place + 1]:
        return False
    return words[place][-1].isalnum() and words[place + 2][0].isalpha()


def renamed(passage: Passage, words: Sequence[str], rng: random.Random) -> Passage:
    """Rename somebody in a passage, mostly by a word: novels of today have a Clarity and a Cat.

    What follows an article anywhere in it (``the Thames``) is nobody, and keeps its name.
    """
    before = ["", *(word.lower() for word in passage.words)]
    somebody = {word for word, tag in zip(*passage, strict=True) if tag == "PROPN" and word.isalpha()}
    somebody -= {word for word, left in zip(passage.words, before, strict=False) if left in ARTICLES}
    if not somebody:
        return passage
    old, new = rng.choice(sorted(somebody)), rng.choice(words).capitalize()
    return Passage([new if word == old else word for word in passage.words], passage.upos)


def vary(passage: Passage, variation: Variation, rng: random.Random) -> Passage:
    """Return a passage as the release of LAMBADA might have it: cut short, in lower case."""
    words, upos = passage
    if rng.random() < variation.short:
        end = rng.randint(len(words) // 2 + 1, len(words))
        while end < len(words) and not words[end - 1][0].isalpha():
            end += 1
        words, upos = words[:end], upos[:end]
    case = rng.random()
    if case < variation.lower:
        words = [word.lower() for word in words]
    elif case < variation.lower + _CAPITALS:
        words = [word.upper() for word in words]
    return Passage(words, upos)


def read(path: Path) -> Iterator[Passage]:
    """Read silver passages: one JSON list of words and tags a line."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield Passage(*json.loads(line))


registry.readers.register("workbench.NarrativeCorpus.v1", func=narrative_corpus)
registry.readers.register("workbench.NarrativeDevelopment.v1", func=narrative_development)
