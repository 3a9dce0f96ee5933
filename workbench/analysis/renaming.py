"""Items with other names in place of theirs, to tell what a model reads from what it remembers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from workbench.analysis import names as analysis_names
from workbench.analysis.lemmas import default
from workbench.analysis.names import (
    GENDERS,
    KINDS,
    Name,
    Occurrence,
    described,
    evidence_of,
    families,
    is_listed,
    name_spans,
    passage_names,
    relatives,
    words_of,
)
from workbench.items.ablation import SUBSTITUTIONS, check_whole
from workbench.items.changes import replaced
from workbench.items.items import Item, Items, Span
from workbench.items.schema import content_digest
from workbench.storage.errors import DataError

NEAREST = 20
"""Names of the nearest frequency, among which the replacement of a name is drawn."""
_RARE = 2  # passages: words that so few have may be no names
_SUFFIXES = ("y", "ie", "ey")


def rename(
    items: Items,
    names: pd.DataFrame | None = None,
    annotations: pd.DataFrame | None = None,
    *,
    seed: int = 0,
) -> Items:
    """Return items whose names of people and places are replaced by others of the same kind and frequency.

    A model that reads the passage predicts the new name as well as the old one; one that remembers the text
    does not. The difference in accuracy on the same items is the paired drop: :func:`workbench.significance`
    of the runs on both.

    Parameters
    ----------
    items : Items (n,)
        Whole items in English.
    names : DataFrame, optional
        The names to replace with, as :func:`workbench.names` lists them. Those of the items by default; those
        of a whole data set offer more names to a part of it.
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
    check_whole(items)
    spans_of = name_spans(items, annotations)
    table = analysis_names.names(items, annotations) if names is None else checked_names(names)
    pool = NamePool(table)
    records = [_renamed(item, spans, pool, seed) for item, spans in zip(items, spans_of, strict=True)]
    return Items.from_records(records, attrs=items.attrs, problems=items.problems)


class NamePool:
    """Names to replace with: by kind and gender, the nearest in frequency first.

    They are in three passages or listed, and not ordinary words.

    Parameters
    ----------
    table : DataFrame
        As :func:`workbench.names` returns it.
    """

    def __init__(self, table: pd.DataFrame) -> None:
        names = [
            Name(name, kind, gender if isinstance(gender, str) else None, int(n))
            for name, kind, gender, n in zip(
                *(table[column].tolist() for column in Name._fields), strict=True
            )
        ]
        self.names = {each.name: each for each in names}
        self._groups: dict[tuple[str, str | None], list[tuple[float, str]]] = {}
        for name, kind, gender, n in names:
            if (n > _RARE or is_listed(name)) and name.isalpha() and not default().is_ordinary(name):
                self._groups.setdefault((kind, gender), []).append((math.log(n), name))

    def drawn(self, of: Name, rng: np.random.Generator) -> list[str]:
        """Return the nearest names in frequency in random order, then the further ones, nearest first."""
        group = self._groups.get((of.kind, of.gender), [])
        order = rng.permutation(len(group))
        distance = np.abs(np.array([value for value, _ in group]) - math.log(of.n_items))[order]
        order = order[np.argsort(distance, kind="stable")]
        first = order[:NEAREST].copy()
        rng.shuffle(first)
        return [group[k][1] for k in (*first, *order[NEAREST:]) if group[k][1] != of.name]

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
        order = rng.permutation(len(options))
        distance = [abs(self._log_count(options[k]) - self._log_count(names)) for k in order]
        nearest = order[np.argsort(distance, kind="stable")]
        rng.shuffle(nearest[:NEAREST])
        return [options[k] for k in nearest]

    def _log_count(self, names: Sequence[str]) -> float:
        return math.log(1 + sum(self.names[name].n_items for name in names if name in self.names))


def checked_names(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table of names, DataError if it is not as :func:`workbench.names` makes it."""
    remedy = "pass wb.names(items), or rows of it"
    if not isinstance(table, pd.DataFrame) or not set(Name._fields) <= set(table.columns):
        raise DataError(
            f"expected a table of names with the columns {', '.join(Name._fields)}", remedy=remedy
        )
    for column, known in (("kind", KINDS), ("gender", GENDERS)):
        if strange := set(table[column].dropna()) - set(known):
            problem = f"the {column} of a name is {min(map(str, strange))!r:.60}"
            raise DataError(f"{problem}, expected one of {', '.join(known)}", remedy=remedy)
    is_count = pd.to_numeric(table["n_items"], errors="coerce").ge(1)
    is_name = table["name"].map(lambda name: isinstance(name, str) and name == name.lower().strip() != "")
    if not (is_count & is_name).all():
        row = table[~(is_count & is_name)].iloc[0]
        problem = f"the names have a row {row['name']!r:.60} with n_items {row['n_items']!r:.60}"
        raise DataError(f"{problem}, expected a word in lower case and a number from 1", remedy=remedy)
    return table.drop_duplicates("name")


def replacements(
    item: Item, spans: Sequence[Span], pool: NamePool, seed: int
) -> tuple[dict[str, str], dict[str, list[Occurrence]]]:
    """Return the new name of each name of a passage that has one, and all names with their occurrences."""
    by_name = {
        name: places for name, places in passage_names(item, spans).items() if _has_plain_case(item, places)
    }
    taken = words_of(" ".join([item.text, *(item.candidates or ())]))
    taken.update(*map(_related, sorted(taken)))
    rng = np.random.default_rng(int(content_digest(item.item_id, seed), 16))
    rows = {name: pool.names[name] for name in by_name if name in pool.names}
    if len(rows) < len(by_name):
        evidence = evidence_of(item, spans)
        rows = {name: rows.get(name) or described(name, evidence[name]) for name in by_name}
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


def groups_of_forms(
    names: Mapping[str, Name],
) -> list[tuple[list[str], list[int], str | None]]:
    """Group first names of a passage that are forms of one name, each with its role; others stand alone."""
    groups: list[tuple[list[str], list[int], str | None]] = []
    grouped: set[str] = set()
    for family, forms in families().items():
        roles = [role for role, form in enumerate(forms) if form in names and form not in grouped]
        if len(roles) > 1:
            groups.append(([forms[role] for role in roles], roles, family.split()[0]))
            grouped.update(groups[-1][0])
    first_names = [name for name, row in names.items() if row.kind == "first name" and name not in grouped]
    for name in first_names:
        for diminutive in first_names:
            if is_diminutive(diminutive, name) and not grouped & {name, diminutive}:
                groups.append(([name, diminutive], [1, 2], names[name].gender or names[diminutive].gender))
                grouped |= {name, diminutive}
    return groups + [([name], [0], each.gender) for name, each in names.items() if name not in grouped]


def is_diminutive(name: str, short: str) -> bool:
    """Tell if a name is another one with -y, -ie or -ey: Tommy of Tom."""
    stems = {name.removesuffix(suffix) for suffix in _SUFFIXES if name.endswith(suffix)}
    return bool(stems & {short, short + short[-1], short.removesuffix("e")})


def in_case_of(form: str, word: str) -> str:
    """Return a word in lower case with the capitals of a form: none, all, or the first."""
    if form.islower():
        return word
    return word.upper() if form.isupper() and len(form) > 1 else word.capitalize()


def substituted(item: Item, places: Sequence[tuple[Occurrence, str]], name: str, **meta: Any) -> Item:
    """Return an item with other words in place of occurrences of its own.

    The variant ends in `name`. Candidates that are one of the forms follow, with a possessive ending or not.
    """
    forms: dict[str, str] = {}
    changes = []
    for place, word in sorted(places, key=lambda pair: pair[0].start):
        form = item.text[place.start : place.end]
        forms[form] = in_case_of(form, word)
        changes.append(((place.start, place.end), forms[form]))
    changed = replaced(item, changes)
    candidates = item.candidates
    if candidates is not None:
        candidates = tuple(_candidate(word, forms, item, changed) for word in candidates)
    about = {
        **item.meta, name.replace(" ", "_"): forms, **meta,
        "answer_renamed": changed.answer != item.answer, "original_answer": item.answer,
    }  # fmt: skip
    variant = f"{item.variant} ({name})"
    return replace(changed, candidates=candidates, variant=variant, meta=about)


def _renamed(item: Item, spans: Sequence[Span], pool: NamePool, seed: int) -> Item:
    new, by_name = replacements(item, spans, pool, seed)
    places = [(place, word) for name, word in new.items() for place in by_name[name]]
    return substituted(item, places, SUBSTITUTIONS[0], n_renamed=len(new))


def _has_plain_case(item: Item, places: Sequence[Occurrence]) -> bool:
    """Tell if different forms of a name have different capitals; McDonald and Mcdonald would become one."""
    forms = {item.text[place.start : place.end] for place in places}
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
