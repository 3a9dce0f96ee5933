"""Questions in the form of CNN QA, made from any novels: an anonymised text, and one entity of what follows.

Hermann et al. (2015), "Teaching Machines to Read and Comprehend", NeurIPS, made theirs of news articles and
their highlights, and found the mentions of an entity by coreference. Novels have no highlights, so the
question is the sentence after the text; an entity is a name as the tagger finds it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from workbench.construction.childrens_book import NOTE, SPLIT
from workbench.construction.novels import Chapter, Novel, keys, seed_of, tagged_novels, threshold
from workbench.datasets.cnn_qa import BLANK, made_item
from workbench.items.items import Items
from workbench.items.schema import Item
from workbench.items.tokens import readable_tokens
from workbench.storage.errors import DataError
from workbench.texts.tokenise import Novels

VARIANT = "novels"
"""The variant of the questions, beside "cnn" and "dailymail"."""

_LENGTHS = range(5, 41)  # tokens of a question
_ENTITIES = 5  # in a text at least, or guessing would do

_Name = tuple[str, ...]


class _Mention(NamedTuple):
    """The tokens of a sentence that name an entity."""

    start: int
    end: int
    name: _Name


class _Spot(NamedTuple):
    """A place for a question: the first sentence of the text, the question, and the mention removed."""

    first: int
    query: int
    mention: _Mention


def questions(
    novels: Novels,
    *,
    number: int | None = None,
    n_tokens: int = 700,
    seed: int = 0,
    pipeline: str | Path = "en_narrative",
    held_out: Items | None = None,
    on_overlap: str = "raise",
) -> Items:
    """Make questions in the form of CNN QA from novels.

    The text is the fewest consecutive sentences of a chapter that have `n_tokens` tokens, with five entities
    or more. The question is the sentence after it, of 5 to 40 tokens, in which an entity of the text is
    missing. Entities are names; a part of just one longer name in the chapter (``Anne`` of ``Anne Shirley``)
    is the same entity. They become ``@entity0``, ``@entity1`` and so on, numbered at random in each item;
    all are candidates. All else is lower-cased.

    Parameters
    ----------
    novels : path, str, book, or iterable of books
        As for :func:`workbench.construction.childrens_book.questions`.
    number : int, optional
        Questions at most, a random sample of all; all by default.
    n_tokens : int, default 700
        Tokens of a text at least; those of the news articles have about 700 on average.
    seed : int, default 0
        The numbers, and which questions are drawn, depend on it and the novel's id, not on other novels.
    pipeline, held_out, on_overlap
        As for :func:`workbench.construction.childrens_book.questions`. Anonymised items share few n-grams
        with their novels: to test on such items, split the novels (:func:`workbench.construction.split`).

    Returns
    -------
    Items
        As those of ``wb.load("cnnqa")``, by novel and place; the split is "built", the variant "novels".
        ``meta["entities"]`` has the name of each entity.

    Raises
    ------
    DataError
        If no question can be made, a novel occurs twice or is held out.

    Examples
    --------
    >>> from workbench import construction
    >>> made = construction.cnn_qa.questions("sample", number=20, n_tokens=200)
    >>> len(made), made[0].answer in made[0].candidates, made[0].query.count("_____")
    (20, True, 1)
    """
    if n_tokens < 1 or (number is not None and number < 1):
        raise DataError(f"expected a question and a token or more, got number={number}, n_tokens={n_tokens}")
    with tagged_novels(
        novels, pipeline=pipeline, held_out=held_out, on_overlap=on_overlap
        ) as tagged:  # fmt: skip
        limit, n_places = 1.0, None
        if number is not None:
            counts = [
                (novel.book_id, sum(len(spots) for *_, spots in _chapters(novel, n_tokens)))
                for novel in tagged
            ]
            limit = threshold((keys(seed, book_id, "cnnqa", count) for book_id, count in counts), number)
            n_places = sum(count for _, count in counts)
        records: list[Item] = []
        for novel in tagged.shown():
            records += _questions(novel, n_tokens, limit, seed)
        attrs = {"seed": seed, **tagged.attrs}
    if not records:
        raise DataError(
            f"no question can be made: no chapter has a sentence with a name after {n_tokens:,} tokens "
            f"that hold {_ENTITIES} names",
            hint="pass more novels, or a smaller n_tokens",
        )
    records.sort(key=lambda item: item.item_id)
    attrs["places"] = len(records) if n_places is None else n_places
    attrs["note"] = NOTE
    return Items.from_records(records, attrs=attrs)


def _chapters(novel: Novel, n_tokens: int) -> Iterator[tuple[Chapter, list[list[_Mention]], list[_Spot]]]:
    """Yield each chapter, the mentions in its sentences, and the places for questions."""
    for chapter in novel.chapters:
        mentions = _resolved(list(map(_mentions, chapter.words, chapter.tags)))
        yield chapter, mentions, list(_spots(chapter, mentions, n_tokens))


def _mentions(words: Sequence[str], tags: Sequence[str]) -> list[_Mention]:
    """Return the runs of proper nouns in a sentence."""
    inside = [tag == "PROPN" and any(map(str.isalpha, word)) for word, tag in zip(words, tags, strict=True)]
    edges = np.flatnonzero(np.diff([0, *inside, 0])).reshape(-1, 2).tolist()
    return [_Mention(start, end, tuple(word.lower() for word in words[start:end])) for start, end in edges]


def _resolved(sentences: list[list[_Mention]]) -> list[list[_Mention]]:
    """Replace names that are a part of just one longer name by the longer one."""
    names = {mention.name: mention.name for mention in chain(*sentences)}
    for name in sorted(names, key=len, reverse=True):
        longer = {names[other] for other in names if set(name) < set(other)}
        if len(longer) == 1:
            (names[name],) = longer
    return [[m._replace(name=names[m.name]) for m in mentions] for mentions in sentences]


def _spots(chapter: Chapter, mentions: list[list[_Mention]], n_tokens: int) -> Iterator[_Spot]:
    """Yield mentions of an entity that occurs in the text before, once in a sentence."""
    entities: Counter[_Name] = Counter()  # of the text
    first, length = 0, 0
    for query, words in enumerate(chapter.words):
        if length >= n_tokens and len(entities) >= _ENTITIES and len(words) in _LENGTHS:
            times = Counter(mention.name for mention in mentions[query])
            for mention in mentions[query]:
                if times[mention.name] == 1 and mention.name in entities:
                    yield _Spot(first, query, mention)
        entities.update(mention.name for mention in mentions[query])
        length += len(words)
        while length - len(chapter.words[first]) >= n_tokens:
            entities -= Counter(mention.name for mention in mentions[first])
            length -= len(chapter.words[first])
            first += 1


def _questions(novel: Novel, n_tokens: int, limit: float, seed: int) -> Iterator[Item]:
    """Yield the questions of a novel whose keys are not above the limit."""
    chapters = list(_chapters(novel, n_tokens))
    random_keys = iter(keys(seed, novel.book_id, "cnnqa", sum(len(spots) for *_, spots in chapters)))
    for chapter, mentions, spots in chapters:
        for spot in spots:
            if next(random_keys) <= limit:
                yield _question(novel.book_id, chapter, mentions, spot, seed)


def _question(book_id: str, chapter: Chapter, mentions: list[list[_Mention]], spot: _Spot, seed: int) -> Item:
    first, query, removed = spot
    item_id = f"cnnqa/{SPLIT}/{book_id}/{chapter.numbers[query]:06d}-{removed.start:03d}"
    names = list(dict.fromkeys(mention.name for mention in chain(*mentions[first : query + 1])))
    order = np.random.default_rng(seed_of(seed, item_id)).permutation(len(names)).tolist()
    entities = {name: f"@entity{number}" for name, number in zip(names, order, strict=True)}
    article = " ".join(_anonymous(chapter, mentions, number, entities) for number in range(first, query))
    question = _anonymous(chapter, mentions, query, entities | {removed.name: BLANK})
    by_number = sorted(entities.items(), key=lambda pair: int(pair[1].removeprefix("@entity")))
    names_of = {entity: " ".join(name) for name, entity in by_number}
    answer = entities[removed.name]
    return made_item(
        item_id, VARIANT, article, question, answer, url=book_id, names=names_of, book_id=book_id
    )


def _anonymous(
    chapter: Chapter, mentions: list[list[_Mention]], sentence: int, entities: dict[_Name, str]
) -> str:
    """Return a sentence in lower case with placeholders for its names."""
    pieces = [word.lower() for word in readable_tokens(chapter.words[sentence])]
    for start, end, name in reversed(mentions[sentence]):
        pieces[start:end] = [entities[name]]
    return " ".join(pieces)
