"""Questions in the form of the Children's Book Test, made from any novels.

Hill et al. (2016), "The Goldilocks Principle: Reading Children's Books with Explicit Memory
Representations", ICLR, section 2; how candidates are chosen is in the README of the release.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, chain, groupby
from operator import itemgetter
from pathlib import Path
from statistics import mean
from sys import intern
from typing import NamedTuple

import numpy as np
import pandas as pd

from workbench.analysis.annotations import TITLES
from workbench.construction.novels import Chapter, Novel, keys, seed_of, tagged_novels, threshold
from workbench.datasets import sources
from workbench.datasets.childrens_book import (
    BLANK,
    N_CANDIDATES,
    N_CONTEXT,
    SPLITS,
    STATISTICS,
    released_statistics,
)
from workbench.items import text as wt
from workbench.items.items import Items
from workbench.items.schema import WORD_CLASSES, Item
from workbench.render.results import Table, TableColumn, TableLayout
from workbench.storage.errors import DataError
from workbench.texts.tokenise import Novels

SPLIT = "built"
"""The split of the questions, so that they are not taken for those of the release."""

NOTE = "questions made from novels; no part of the release"
"""What the attributes of all questions say."""

PLACEHOLDER = "@entity{}"
"""What replaces a candidate in anonymised questions."""

_CLASS_OF_TAG = {"PROPN": "NE", "NOUN": "CN", "VERB": "V", "ADP": "P"}
_FALLBACK = {"NE": "CN"}  # the class that others are drawn from first where the answer's has too few
_LETTERS = re.compile(r"[^\W\d_]+(?:[-'.][^\W\d_]+)*")  # no title or abbreviation with its period, no clitic
_UNITS = "second minute hour day night morning afternoon evening week fortnight month year century"
_DATES = frozenset(
    f"""noon midnight today tonight tomorrow yesterday to-day to-night to-morrow spring summer autumn winter
    first third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth {_UNITS}""".split()
    + [f"{unit}s" for unit in _UNITS.replace("century", "centurie").split()]
)
"""Dates, times, durations and ordinals, which the recogniser behind the release counts as entities."""
_DATE_TAGS = frozenset({"NOUN", "ADJ", "ADV", "NUM"})


_Forms = dict[str, dict[str, str]]
"""Of each class the words of a sentence, by their lower case."""


class _Spot(NamedTuple):
    """A place for a question: the query in its chapter, the word in the query, and its class."""

    query: int
    token: int
    word_class: str


def word_classes(words: Sequence[str], tags: Sequence[str]) -> list[str | None]:
    """Return the class of each word of a sentence by its tag (UPOS): NE, CN, V, P, or None.

    Names, dates, times, durations and ordinals are NE, as the recogniser of the release makes them entities.
    A title before a name is CN. Auxiliaries, titles with a period (``Mr.``), contractions and what is not of
    letters have no class.
    """
    classes: list[str | None] = []
    for word, tag, following in zip(words, tags, [*tags[1:], ""], strict=True):
        if not _LETTERS.fullmatch(word):
            classes.append(None)
        elif tag in _DATE_TAGS and word.lower() in _DATES:
            classes.append("NE")
        elif tag == following == "PROPN" and word.lower() in TITLES:
            classes.append("CN")
        else:
            classes.append(_CLASS_OF_TAG.get(tag))
    return classes


def questions(
    novels: Novels,
    *,
    classes: Sequence[str] = WORD_CLASSES,
    per_class: int | None = None,
    seed: int = 0,
    pipeline: str | Path = "en_narrative",
    held_out: Items | None = None,
    on_overlap: str = "raise",
) -> Items:
    """Make questions in the form of the Children's Book Test from novels.

    Twenty-one consecutive sentences of a chapter make a question: 20 are the context, and a word of the 21st
    is removed. The word and all candidates occur in the context, as in the release. The nine other candidates
    are drawn from the words of the answer's class in the context. Where there are fewer, those of a named
    entity are filled up from the common nouns, then those of any class from words of any class. Candidates
    differ in more than case, and are in alphabetical order, as in the release.

    Parameters
    ----------
    novels : path, str, book, or iterable of books
        A file, folder or archive of books, the name of a data set, or what :func:`workbench.books` yields.
        The raw texts of the release (``cbt_train.txt``) are read, too. Names are found by their case.
    classes : sequence of str
        Of ``NE``, ``CN``, ``V`` and ``P``.
    per_class : int, optional
        Questions of each class at most, a random sample of all; all by default. 100,000 questions take
        about 0.6 GB of memory.
    seed : int, default 0
        Candidates, and which questions are drawn, depend on it and the novel's id, not on other novels.
    pipeline : str or Path
        The spaCy pipeline that tags the words: see :func:`workbench.annotate`. Tags are stored in the cache.
    held_out : Items, optional
        The items that models will be tested on. Novels that they come from are not used.
    on_overlap : {"raise", "drop"}
        Whether such a novel is an error, or is left out and named in ``attrs["dropped_books"]``.

    Returns
    -------
    Items
        As those of ``wb.load("cbt")``, by class, novel and place; the split is "built", ``book_id`` the
        novel's. ``attrs`` has the seed, the pipeline and the number of novels.

    Raises
    ------
    DataError
        If no question can be made, a class is unknown, a novel occurs twice or is held out.

    Examples
    --------
    >>> from workbench import construction
    >>> made = construction.childrens_book.questions("sample", per_class=20)
    >>> len(made), len(made[0].context), len(made[0].candidates)
    (80, 20, 10)
    """
    for name in classes:
        sources.check_choice("class", name, WORD_CLASSES, "the Children's Book Test")
    order = {name: number for number, name in enumerate(classes)}
    if per_class is not None and per_class < 1:
        raise DataError(f"expected one question of a class or more, got per_class={per_class}")
    with tagged_novels(
        novels, pipeline=pipeline, held_out=held_out, on_overlap=on_overlap
        ) as tagged:  # fmt: skip
        limits = dict.fromkeys(classes, 1.0)
        n_places = None
        if per_class is not None:
            counts = {
                novel.book_id: Counter(spot.word_class for _, _, spots in _chapters(novel) for spot in spots)
                for novel in tagged
            }
            for name in classes:
                every = (keys(seed, book_id, name, count[name]) for book_id, count in counts.items())
                limits[name] = threshold(every, per_class)
            n_places = sum(count[name] for count in counts.values() for name in classes)
        groups: dict[tuple[int, str], Items] = {}  # by class and novel, so that few items are Python objects
        for novel in tagged.shown():
            made = sorted(_questions(novel, limits, seed), key=lambda item: order[item.variant])
            for name, records in groupby(made, key=lambda item: item.variant):
                groups[order[name], novel.book_id] = Items.from_records(records)
        attrs = {"seed": seed, **tagged.attrs}
    if not groups:
        raise DataError(
            "no question can be made: no chapter has 21 sentences with ten different words and a word of the "
            f"classes {' '.join(classes)} that occurs twice",
            hint="pass more novels, or other classes",
        )
    items = Items.concat(groups[key] for key in sorted(groups))
    items.attrs.update(attrs, note=NOTE, places=len(items) if n_places is None else n_places)
    return items


def _chapters(novel: Novel) -> Iterator[tuple[Chapter, list[_Forms], list[_Spot]]]:
    """Yield each chapter, the forms of its sentences, and the places for questions."""
    for chapter in novel.chapters:
        classes = list(map(word_classes, chapter.words, chapter.tags))
        forms: list[_Forms] = []
        for words, names in zip(chapter.words, classes, strict=True):
            forms.append({})
            for word, name in zip(words, names, strict=True):
                if name:
                    forms[-1].setdefault(name, {}).setdefault(word.lower(), word)
        yield chapter, forms, list(_spots(chapter, classes, forms))


def _spots(chapter: Chapter, classes: list[list[str | None]], forms: list[_Forms]) -> Iterator[_Spot]:
    """Yield words of a class that occur in the 20 sentences before, which have nine other words of any."""
    tokens: Counter[str] = Counter()  # of the 20 sentences
    pool: Counter[str] = Counter()  # sentences in which a word of each class stands
    for query, (words, names) in enumerate(zip(chapter.words, classes, strict=True)):
        if query >= N_CONTEXT:
            for index, (word, name) in enumerate(zip(words, names, strict=True)):
                if name and tokens[word] and len(pool) - (word.lower() in pool) >= N_CANDIDATES - 1:
                    yield _Spot(query, index, name)
            tokens.subtract(chapter.words[query - N_CONTEXT])
            pool -= Counter(chain(*forms[query - N_CONTEXT].values()))
        tokens.update(words)
        pool.update(chain(*forms[query].values()))


def _questions(novel: Novel, limits: Mapping[str, float], seed: int) -> Iterator[Item]:
    """Yield the questions of a novel whose keys are not above the limit of their class."""
    chapters = list(_chapters(novel))
    counts = Counter(spot.word_class for _, _, spots in chapters for spot in spots)
    random_keys = {name: iter(keys(seed, novel.book_id, name, counts[name])) for name in limits}
    for chapter, forms, spots in chapters:
        lines = [" ".join(words) for words in chapter.words]
        context = _Context(0, [])
        for spot in spots:
            if spot.word_class in limits and next(random_keys[spot.word_class]) <= limits[spot.word_class]:
                if context.query != spot.query:
                    context = _Context(spot.query, forms[spot.query - N_CONTEXT : spot.query])
                yield _question(novel.book_id, chapter, lines, spot, context, seed=seed)


class _Context:
    """The words in the context of a query, by class."""

    def __init__(self, query: int, forms: list[_Forms]) -> None:
        self.query, self._forms = query, forms
        self._words: dict[str, dict[str, str]] = {}

    def words(self, name: str) -> dict[str, str]:
        """Return the words of a class, sorted, by their lower case: of each the form that comes first."""
        if name not in self._words:
            words: dict[str, str] = {}
            for forms in reversed(self._forms):
                words |= forms.get(name, {})
            self._words[name] = dict(sorted(words.items()))
        return self._words[name]

    def others(self, answer: str, name: str, rng: np.random.Generator) -> list[str]:
        """Draw nine other words: of the answer's class, then of the class to fall back on, then of any."""
        drawn: dict[str, str] = {}
        for names in ([name], [_FALLBACK.get(name, name)], WORD_CLASSES):
            n = N_CANDIDATES - 1 - len(drawn)
            if not n:
                break
            words = {low: word for other in names for low, word in self.words(other).items()}
            pool = [low for low in words if low != answer.lower() and low not in drawn]
            drawn_rows = rng.choice(len(pool), n, replace=False) if len(pool) > n else range(len(pool))
            drawn |= {pool[row]: words[pool[row]] for row in drawn_rows}
        return list(drawn.values())


def _question(
    book_id: str, chapter: Chapter, lines: list[str], spot: _Spot, context: _Context, *, seed: int
) -> Item:
    query, index, name = spot
    words = chapter.words[query]
    item_id = f"cbt/{SPLIT}/{name}/{book_id}/{chapter.numbers[query]:06d}-{index:03d}"
    others = context.others(words[index], name, np.random.default_rng(seed_of(seed, item_id)))
    sentences = lines[query - N_CONTEXT : query + 1]
    spans = tuple(wt.joined_spans(sentences))
    start = spans[-1][0] + sum(len(word) + 1 for word in words[:index])
    return Item(
        item_id=item_id,
        dataset="cbt",
        split=SPLIT,
        variant=name,
        text="\n".join(sentences),
        answer=words[index],
        answer_span=(start, start + len(words[index])),
        sentences=spans,
        candidates=tuple(map(intern, sorted([words[index], *others]))),
        word_class=name,
        book_id=book_id,
    )


def question_statistics(items: Items, *, path: Path | str | None = None) -> Table:
    """Count in questions what the release's own statistics count, beside the release's numbers.

    Parameters
    ----------
    items : Items
        Questions of one class or several.
    path : path, optional
        Where the release's ``stats`` are; the usual places by default. Without them the columns are empty.

    Returns
    -------
    Table
        One row per class (`variant`) and quantity: `value`, and what the release says of its parts
        (`released_train`, `released_dev`, `released_test`). Questions are the same where query and answer
        are; vocabulary and candidates are counted in lower case. By these definitions the official validation
        questions give the release's numbers.

    Raises
    ------
    DataError
        If an item has no candidates, or the statistics cannot be read.

    Examples
    --------
    >>> from workbench.construction import childrens_book
    >>> table = childrens_book.question_statistics(wb.load("sample", variant="cbt"))
    >>> int(table.loc[table["quantity"] == "words in the context, most", "value"].iloc[0]) > 200
    True
    """
    released = released_statistics(path)
    classes: dict[str, list[Item]] = {}
    for item in items:
        classes.setdefault(item.variant or "", []).append(item)
    numbers = ["value", *(f"released_{split}" for split in SPLITS)]
    rows = []
    for variant, group in classes.items():
        for quantity, value in zip(chain(*STATISTICS.values()), _counted(group), strict=True):
            beside = [released.get((group[0].word_class or "", split, quantity)) for split in SPLITS]
            rows.append((variant, quantity, value, "mean" if "mean" in quantity else "count", *beside))
    table = pd.DataFrame(rows, columns=["variant", "quantity", "value", "unit", *numbers[1:]])
    table = table.astype(dict.fromkeys(numbers, "Float64"))
    if not released:
        table.attrs["note"] = (
            'The numbers of the release are not on this machine: get them with wb.fetch("cbt").'
        )
    unit = ("unit", {"count": "count"})
    layout = (TableColumn("quantity"), *(TableColumn(name, unit) for name in numbers))
    return Table(table, TableLayout("Questions beside those of the release", layout, ("variant",)))


def _counted(items: Sequence[Item]) -> list[float]:
    """Return the quantities of the release's statistics, in their order."""
    contexts, queries, vocabulary, options, distinct = [], [], set(), set(), set()
    lacking = Counter[str]()
    for item in items:
        if not item.candidates or item.answer is None:
            raise DataError(
                f"item {item.item_id} has no candidates, or no answer",
                hint="pass questions of the Children's Book Test",
            )
        context = [word for sentence in item.context for word in sentence.split()]
        query = [*item.left.split(), BLANK, *item.right.split()]
        contexts.append(len(context))
        queries.append(len(query))
        distinct.add((*query, item.answer))
        words = {word.lower() for word in chain(context, query)}
        offered = {word.lower() for word in item.candidates}
        vocabulary |= words | offered
        options |= offered
        lacking["candidate"] += not offered <= words
        lacking["answer"] += item.answer.lower() not in words
    return [
        len(items), len(distinct), min(contexts), mean(contexts), max(contexts), min(queries), mean(queries),
        max(queries), len(vocabulary), len(options), lacking["candidate"], lacking["answer"],
    ]  # fmt: skip


def anonymised(items: Items, *, seed: int = 0) -> Items:
    """Replace the mentions of the candidates by placeholders, as in the anonymised Children's Book Test.

    Hill et al. (2016), appendix D. Each word of an item that is a candidate, the answer included, becomes
    ``@entity0`` to ``@entity9``. Which candidate gets which number is a random permutation in each item.

    Parameters
    ----------
    items : Items
        Tokenised, with candidates that are single words.
    seed : int, default 0
        The permutation of an item depends on it and the item's id.

    Returns
    -------
    Items
        With the same ids; the variant ends in "-anonymised". ``meta["entities"]`` has the word of each
        placeholder.

    Raises
    ------
    DataError
        If an item is not tokenised, has no candidates, a candidate is not one word, or the text already
        holds such a placeholder.

    Examples
    --------
    >>> from workbench.construction.childrens_book import anonymised
    >>> item = anonymised(wb.load("sample", variant="cbt"))[0]
    >>> item.candidates[:3], item.meta["entities"][item.answer] in item.text.split()
    (('@entity0', '@entity1', '@entity2'), False)
    """
    return Items.from_records((_anonymised(item, seed) for item in items), attrs=items.attrs)


def _anonymised(item: Item, seed: int) -> Item:
    candidates = item.candidates or ()
    order = np.random.default_rng(seed_of("anonymised", seed, item.item_id)).permutation(len(candidates))
    names = {candidates[index]: PLACEHOLDER.format(entity) for entity, index in enumerate(order)}
    pieces = re.split(r"(\s)", item.text)
    anonymous = [names.get(piece, piece) for piece in pieces]
    before = [0, *accumulate(map(len, pieces))]
    after = [0, *accumulate(map(len, anonymous))]
    moved = dict(zip(before, after, strict=True))
    start, end = item.answer_span
    if (
        not item.tokenised
        or not candidates
        or any(word.split() != [word] for word in candidates)
        or not {start, end} <= moved.keys()
        or not set(names.values()).isdisjoint([*pieces, *candidates])
    ):
        raise DataError(
            f"item {item.item_id}: expected a tokenised text without {PLACEHOLDER.format(0)[:-1]}, "
            f"candidates of one word, and as answer a whole word, got {item.text[:60]!r} and {candidates}",
            hint="pass questions of the Children's Book Test, once",
        )
    return replace(
        item,
        variant=f"{item.variant}-anonymised",
        text="".join(anonymous),
        answer=item.answer and names[item.answer],
        answer_span=(moved[start], moved[end]),
        sentences=tuple((moved[first], moved[last]) for first, last in item.sentences),
        candidates=tuple(names[candidates[index]] for index in order),
        meta={
            **item.meta,
            "entities": {name: word for word, name in sorted(names.items(), key=itemgetter(1))},
        },
    )
