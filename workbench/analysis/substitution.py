"""Items with other names, to distinguish reading from memorization."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from workbench.analysis.lemmas import default
from workbench.analysis.names import (
    Name,
    Occurrence,
    families,
    is_listed,
    letter_words,
    name_spans,
    names,
    passage_names,
    relatives,
)
from workbench.items.ablation import RENAMED, check_whole
from workbench.items.changes import with_replacements
from workbench.items.items import Item, Items, Span, check_items
from workbench.items.schema import content_digest

NEAREST = 20
"""Names of the nearest frequency, among which the replacement of a name is drawn."""
_RARE = 2  # passages: words that so few have may be no names
_ENDINGS = ("s", "ed", "ing", "ly", "er", "est")
_SUFFIXES = ("y", "ie", "ey")


def rename(items: Items, annotations: pd.DataFrame | None = None, *, seed: int = 0) -> Items:
    """Return items with names of people and places replaced by others of the same category and frequency.

    A model that reads the passage predicts the new name as well as the old one; one that remembers the text
    does not. The difference in accuracy on the same items is the paired drop: :func:`workbench.significance`
    of the runs on both.

    Parameters
    ----------
    items : Items (n,)
        Whole items in English. New names are names of these items, so rename a whole data set before a sample
        of it is drawn.
    annotations : DataFrame, optional
        Of :func:`workbench.annotate`, which is called by default.
    seed : int, default 0
        Decides which of the `NEAREST` names in frequency replaces a name, for each item by itself.

    Returns
    -------
    Items (n,)
        With the same ids; the variant ends in ``(renamed)``, and results add it to the names of models. In
        ``meta`` there are ``renamed`` (old and new form of each word), ``n_renamed`` (names),
        ``answer_renamed`` and ``original_answer``. An item without a name to replace keeps its text.

    Raises
    ------
    DataError
        If items are ablated or renamed already, in another language than English, or an argument is not
        valid.

    Notes
    -----
    Within a passage the replacement is one-to-one: a name becomes the same name everywhere, in lower case,
    capitals or with a capital, with a possessive ending, in the plural (the Smiths) and where a release has
    joined a conjunction to it. Forms of one name (Tom and Tommy; listed in
    :data:`workbench.analysis.names.FAMILIES`, or with -y, -ie, -ey) become the same forms of another. No new
    name stands in the passage, is related to one there, or is an ordinary word of English. Candidates follow.

    Examples
    --------
    >>> renamed = wb.rename(items, annotations=annotations)
    >>> renamed.frame["variant"].iloc[0], list(renamed.frame["item_id"]) == list(items.frame["item_id"])
    ('plain (renamed)', True)
    """
    check_items(items, "rename")
    check_whole(items.frame["variant"])
    spans_of = name_spans(items, annotations)
    pool = NamePool(names(items, spans_of))
    records = [_renamed(item, spans, pool, seed) for item, spans in zip(items, spans_of, strict=True)]
    return Items.from_records(records, attrs=items.attrs, problems=items.problems)


def _nearest_first(counts: Sequence[int], count: int, rng: np.random.Generator) -> list[int]:
    """Return the order of words: the `NEAREST` in log frequency at random, the further ones nearest first."""
    order = rng.permutation(len(counts))
    distance = np.abs(np.log(np.array(counts, dtype=float)) - math.log(count))[order]
    order = order[np.argsort(distance, kind="stable")]
    rng.shuffle(order[:NEAREST])
    return list(map(int, order))


class NamePool:
    """Replacement names by category and gender, the nearest in frequency first.

    They are in three passages or listed, and not ordinary words.
    """

    def __init__(self, names: Sequence[Name]) -> None:
        self.names = {each.name: each for each in names}
        self._groups: dict[tuple[str, str | None], list[tuple[int, str]]] = {}
        for name, category, gender, n in names:
            if (n > _RARE or is_listed(name)) and name.isalpha() and not default().is_ordinary(name):
                self._groups.setdefault((category, gender), []).append((n, name))

    def drawn(self, name: Name, rng: np.random.Generator) -> list[str]:
        """Return the nearest names in frequency in random order, then the further ones, nearest first."""
        group = self._groups.get((name.category, name.gender), [])
        order = _nearest_first([n for n, _ in group], name.n_items, rng)
        return [group[k][1] for k in order if group[k][1] != name.name]

    def drawn_forms(
        self, names: Sequence[str], roles: Sequence[int], gender: str | None, rng: np.random.Generator
    ) -> list[tuple[str, ...]]:
        """Return forms of other first names in the roles of names of one family, in the order of `drawn`."""
        groups = {
            family: tuple(forms[role] for role in roles)
            for family, forms in families().items()
            if gender in {None, family.split()[0]} and all(forms[role] for role in roles)
        }
        options = [forms for forms in groups.values() if not any(map(default().is_ordinary, forms))]
        counts = [self._count(forms) for forms in options]
        return [options[k] for k in _nearest_first(counts, self._count(names), rng)]

    def _count(self, names: Sequence[str]) -> int:
        return 1 + sum(self.names[name].n_items for name in names if name in self.names)


def replacements(
    item: Item, spans: Sequence[Span], pool: NamePool, seed: int
) -> tuple[dict[str, str], dict[str, list[Occurrence]]]:
    """Return the new name of each name of a passage that has one, and all names with their occurrences."""
    by_name = {
        name: group for name, group in passage_names(item, spans).items() if _has_plain_case(item, group)
    }
    taken = letter_words(" ".join([item.text, *(item.candidates or ())]))
    taken.update(*map(_related, sorted(taken)))
    rng = np.random.default_rng(int(content_digest(item.item_id, seed), 16))
    rows = {name: pool.names[name] for name in by_name}
    new: dict[str, str] = {}
    for group, roles, gender in groups_of_forms(rows):
        if len(group) > 1:
            options = pool.drawn_forms(group, roles, gender, rng)
        else:
            options = [(name,) for name in pool.drawn(rows[group[0]], rng)]
        if (forms := next(filter(taken.isdisjoint, options), None)) is not None:
            new |= dict(zip(group, forms, strict=True))
            taken.update(*map(_related, forms))
    return new, by_name


def groups_of_forms(names: Mapping[str, Name]) -> list[tuple[list[str], list[int], str | None]]:
    """Group first names of a passage that are forms of one name, each with its role."""
    groups: list[tuple[list[str], list[int], str | None]] = []
    grouped: set[str] = set()
    for family, forms in families().items():
        roles = [role for role, form in enumerate(forms) if form in names and form not in grouped]
        if len(roles) > 1:
            groups.append(([forms[role] for role in roles], roles, family.split()[0]))
            grouped.update(groups[-1][0])
    first_names = [
        name for name, row in names.items() if row.category == "first name" and name not in grouped
    ]
    for name in first_names:
        for diminutive in first_names:
            if is_diminutive(diminutive, name) and not grouped & {name, diminutive}:
                groups.append(([name, diminutive], [1, 2], names[name].gender or names[diminutive].gender))
                grouped |= {name, diminutive}
    return groups + [([name], [0], each.gender) for name, each in names.items() if name not in grouped]


def is_diminutive(name: str, short: str) -> bool:
    """Return whether a name is a diminutive of another with -y, -ie or -ey: Tommy of Tom."""
    stems = {name.removesuffix(suffix) for suffix in _SUFFIXES if name.endswith(suffix)}
    return bool(stems & {short, short + short[-1], short.removesuffix("e")})


def in_case_of(form: str, word: str) -> str:
    """Return a word in lower case with the capitals of a form: none, all, or the first."""
    if form.islower():
        return word
    return word.upper() if form.isupper() and len(form) > 1 else word.capitalize()


def _renamed(item: Item, spans: Sequence[Span], pool: NamePool, seed: int) -> Item:
    """Return an item with other names; candidates follow, with a possessive ending or not."""
    new, by_name = replacements(item, spans, pool, seed)
    changes = [(each, word) for name, word in new.items() for each in by_name[name]]
    forms: dict[str, str] = {}
    new_words = []
    for occurrence, word in sorted(changes, key=lambda pair: pair[0].start):
        form = item.text[occurrence.start : occurrence.end]
        forms[form] = in_case_of(form, word)
        new_words.append(((occurrence.start, occurrence.end), forms[form]))
    changed = with_replacements(item, new_words)
    candidates = item.candidates
    if candidates is not None:
        candidates = tuple(_candidate(word, forms, item, changed) for word in candidates)
    about = {
        **item.meta, "renamed": forms, "n_renamed": len(new),
        "answer_renamed": changed.answer != item.answer, "original_answer": item.answer,
    }  # fmt: skip
    return replace(changed, candidates=candidates, variant=f"{item.variant} ({RENAMED})", meta=about)


def _has_plain_case(item: Item, group: Sequence[Occurrence]) -> bool:
    """Return whether forms of a name differ in capitals; McDonald and Mcdonald would become one."""
    forms = {item.text[each.start : each.end] for each in group}
    return len({in_case_of(form, "ab") for form in forms}) == len(forms)


def _candidate(word: str, forms: Mapping[str, str], item: Item, changed: Item) -> str:
    if word == item.answer and changed.answer is not None:
        return changed.answer
    if word in forms:
        return forms[word]
    low = {form.lower(): new for form, new in forms.items()}
    new = low.get(word.lower())
    return word if new is None else in_case_of(word, new.lower())


def _related(word: str) -> set[str]:
    """Return a word and all that count as forms of the same name."""
    related = {word}.union(*(families()[family] for family, _ in relatives().get(word, ()))) - {""}
    for suffix in _SUFFIXES:
        related |= {word + suffix, word + word[-1] + suffix, word.removesuffix("e") + suffix}
        if (stem := word.removesuffix(suffix)) != word and stem:
            related |= {stem, f"{stem}e", stem[:-1]}
    return related
