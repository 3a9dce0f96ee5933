"""Names of people and places that :func:`workbench.rename` replaces, with category, gender and frequency.

The annotations say which tokens are proper nouns; the words beside them, the pronouns of their sentences and
the lists in ``words.toml`` say what they name. The tagger marks proper nouns and not names, so this errs: of
40 passages that a person read, 9 had wrong names. Two names that stand beside each other are joined, titles
and common nouns are counted as names, and some names are missed. Renaming tolerates such errors, as
each word is replaced by itself and everywhere; a count of names would not.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import pandas as pd

from workbench.analysis.annotations import ADDRESSES, TITLES, annotate
from workbench.analysis.lemmas import POSSESSIVE, WORDS, default, fold_case
from workbench.analysis.mentions import JOINED
from workbench.items.items import Item, Items, Span, in_item_order
from workbench.items.tokens import Tokens, tokens

GENDERS = ("feminine", "masculine")

FAMILIES: dict[str, str] = WORDS["names"]["families"]
"""First names with their short forms and diminutives (``-``: none), by gender."""

_FIRST_NAMES: dict[str, str] = WORDS["names"]["first_names"]
_PLACES = frozenset(WORDS["names"]["places"].split())
_OTHER = frozenset(WORDS["names"]["other"].split())
"""Proper nouns that name neither a person nor a place by one word."""
_ARTICLES = frozenset({"a", "an", "the"})
_TITLES_OF = {
    "masculine": "mr mr. sir lord king prince duke count father uncle brother master monsieur",
    "feminine": "mrs mrs. ms ms. miss lady queen princess duchess countess aunt sister madame madam",
}
_GENDER_OF_TITLE = {title: gender for gender, text in _TITLES_OF.items() for title in text.split()}
_BEFORE_SURNAMES = frozenset(
    """mr mr. mrs mrs. ms ms. miss dr dr. doctor professor prof. officer detective inspector captain capt.
    colonel col. major lieutenant lt. sergeant sgt. general gen. senator judge agent president""".split()  # noqa: SIM905
)
_BEFORE_PLACES = frozenset(
    "in near at across outside into around throughout".split()  # noqa: SIM905
)
_PRONOUNS = {
    **dict.fromkeys(("he", "him", "his", "himself"), "masculine"),
    **dict.fromkeys(("she", "her", "hers", "herself"), "feminine"),
}
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")  # noqa: RUF001 - typographic apostrophes are meant
_CERTAIN = 3  # pronouns of a gender, and how many times those of the other


class Occurrence(NamedTuple):
    """A word of letters in a passage: a token, or one of its parts between hyphens or dashes."""

    name: str
    """The word in lower case, without a possessive ending."""
    start: int
    end: int
    token: int
    """Index of its token."""
    is_name: bool
    """Whether its token is a proper noun."""


class Name(NamedTuple):
    """A name."""

    name: str
    """In lower case."""
    category: str
    """First name, surname or place."""
    gender: str | None
    """Of a first name, where it is known."""
    n_items: int
    """Number of passages with the name."""


Evidence = Counter[str]
"""Counts about a name: ``n_items``; ``n``, its tokens, of which ``surname`` follow what surnames do and
``locative`` a preposition; ``title:`` and ``pronoun:`` with each gender."""


def _category(name: str, evidence: Evidence) -> str:
    """Return the category: as listed, or by the words before the name; else a first name."""
    if name in _PLACES:
        return "place"
    if is_listed(name):
        return "first name"
    if 2 * evidence["locative"] > evidence["n"] > 1:
        return "place"
    return "surname" if 2 * evidence["surname"] > evidence["n"] else "first name"


def _gender(name: str, evidence: Evidence) -> str | None:
    """Return the gender: listed, by title, or by the pronouns of the sentences; None where not known."""
    if len(genders := _listed().get(name, frozenset())) == 1:
        return next(iter(genders))
    for sign, least in (("title", 1), ("pronoun", _CERTAIN)):
        counts = {gender: evidence[f"{sign}:{gender}"] for gender in GENDERS}
        first, second = sorted(GENDERS, key=lambda gender: -counts[gender])
        if counts[first] >= least and counts[first] >= _CERTAIN * counts[second]:
            return first
    return None


def names(items: Items, spans_of: Sequence[Sequence[Span]]) -> list[Name]:
    """Return the names of people and places in passages, each with the number of passages that have it.

    `spans_of` are the proper nouns of each item. Left out are names with an article, words that join names of
    several (``New York``), titles, days, peoples and the like, and words that are ordinary ones elsewhere in
    the same passage. First names and places that are listed have the category and gender of the list; the
    others', by titles, prepositions and pronouns in all passages together.
    """
    counts: dict[str, Evidence] = defaultdict(Counter)
    for item, spans in zip(items, spans_of, strict=True):
        for name, evidence in evidence_of(item, spans).items():
            counts[name].update(evidence)
    rows = [described(name, evidence) for name, evidence in counts.items()]
    return sorted(rows, key=lambda row: (-row.n_items, row.name))


def described(name: str, evidence: Evidence) -> Name:
    """Return a name with its category and gender by the evidence."""
    category = _category(name, evidence)
    gender = _gender(name, evidence) if category == "first name" else None
    return Name(name, category, gender, evidence["n_items"])


def name_spans(items: Items, annotations: pd.DataFrame | None) -> list[list[Span]]:
    """Return the spans of the proper nouns of each item, by annotations; those are made where None."""
    table = annotate(items) if annotations is None else annotations
    rows = in_item_order(table, items.frame["item_id"], columns=["names"], complete=True)
    return [[(int(start), int(end)) for start, end in spans] for spans in rows["names"]]


def name_occurrences(item: Item, spans: Sequence[Span], passage: Tokens) -> Iterator[Occurrence]:
    """Yield the words of a passage in order, with their tokens; `spans` are of proper nouns."""
    proper = set(spans)
    for index, (start, end) in enumerate(passage.spans):
        for match in _WORD.finditer(item.text, start, end):
            name = POSSESSIVE.sub("", fold_case(match[0]))
            first = match.start()
            yield Occurrence(name, first, first + len(name), index, (start, end) in proper)


def letter_words(text: str) -> set[str]:
    """Return the words of letters of a text as `name_occurrences` names them."""
    return {POSSESSIVE.sub("", word) for word in _WORD.findall(fold_case(text))}


def passage_names(
    item: Item, spans: Sequence[Span], passage: Tokens | None = None
) -> dict[str, list[Occurrence]]:
    """Return the names of one passage, each with all its occurrences; :func:`names` defines names.

    A word that is also attested as another word than a name must be a proper noun wherever it stands; a
    name that is not, in most places: there the annotations are taken to err.
    """
    passage = passage or tokens(item)
    words = list(name_occurrences(item, spans, passage))
    by_name: dict[str, list[Occurrence]] = defaultdict(list)
    for word in words:
        by_name[word.name].append(word)
    alone = {word.token for word in words if _is_excluded(word.name) and word.is_name}
    low = list(map(fold_case, passage.words))
    result = {name: group for name, group in by_name.items() if _is_renamable(name, group, low, alone)}
    for word in words:
        joined, plural = JOINED.fullmatch(word.name), word.name.removesuffix("s")
        stem = joined[1] if joined else plural if word.token and low[word.token - 1] == "the" else word.name
        if stem != word.name and stem in result:  # Shaneand, the Smiths
            result[stem].append(word._replace(name=stem, end=word.start + len(stem)))
            result.pop(word.name, None)
    return result


def evidence_of(item: Item, spans: Sequence[Span]) -> dict[str, Evidence]:
    """Return the evidence about each name of one passage."""
    passage = tokens(item)
    low = [fold_case(word) for word in passage.words]
    proper = set(spans)
    is_name = [span in proper for span in passage.spans]
    result: dict[str, Evidence] = {}
    for name, group in passage_names(item, spans, passage).items():
        evidence = result[name] = Counter(n_items=1, n=len(group))
        for index in {word.token for word in group}:
            before = low[index - 1] if index else ""
            if before in _GENDER_OF_TITLE:
                evidence[f"title:{_GENDER_OF_TITLE[before]}"] += 1
            follows_name = index > 0 and is_name[index - 1] and before not in TITLES
            evidence["surname"] += before in _BEFORE_SURNAMES | {"the"} or follows_name
            evidence["locative"] += before in _BEFORE_PLACES
            sentence = bisect_right(passage.sentences, index)
            first = passage.sentences[sentence - 1] if sentence else 0
            last = passage.sentences[sentence] if sentence < len(passage.sentences) else len(low)
            evidence.update(f"pronoun:{_PRONOUNS[word]}" for word in low[first:last] if word in _PRONOUNS)
    return result


@cache
def relatives() -> dict[str, list[tuple[str, int]]]:
    """Return the families of each listed first name, and its role in each: formal, short, diminutive (2)."""
    roles: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for family, forms in families().items():
        for role, form in enumerate(forms):
            if form:
                roles[form].append((family, role))
    return dict(roles)


@cache
def families() -> dict[str, tuple[str, ...]]:
    """Return the forms of first names by role, empty without any, by gender and forms as text."""
    return {
        f"{gender} {row.strip()}": tuple(form.strip("-") for form in row.strip().split("/"))
        for gender, text in FAMILIES.items()
        for row in text.split(",")
    }


@cache
def _listed() -> dict[str, frozenset[str]]:
    """Return the genders of listed first names."""
    genders: dict[str, set[str]] = defaultdict(set)
    for gender, text in _FIRST_NAMES.items():
        for name in text.split():
            genders[name].add(gender)
    for family, forms in families().items():
        for form in filter(None, forms):
            genders[form].add(family.split()[0])
    return {name: frozenset(each) for name, each in genders.items()}


def is_listed(name: str) -> bool:
    """Whether this is one of the listed first names and places."""
    return name in _PLACES or name in _listed()


def _is_excluded(name: str) -> bool:
    return (name in _OTHER and name not in _listed()) or len(name) < 2  # noqa: PLR2004 - an initial


def _is_renamable(name: str, group: Sequence[Occurrence], low: Sequence[str], alone: set[int]) -> bool:
    n_names = sum(word.is_name for word in group)
    if not n_names or _is_excluded(name) or {name, f"{name}."} & TITLES:
        return False
    if name in ADDRESSES and not is_listed(name):
        return False
    is_ordinary = default().is_ordinary(name)
    if n_names < len(group) and (is_ordinary or 2 * n_names <= len(group)):
        return False
    for word in group:
        before, after = (low[k] if 0 <= k < len(low) else "" for k in (word.token - 1, word.token + 1))
        if not is_listed(name) and before in _ARTICLES:
            return False
        if {word.token - 1, word.token + 1} & alone and TITLES.isdisjoint({before, after}):
            return False
    return True
