"""Rows that others wrote to the items that they are about: by id, by text, by a key made of the text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from workbench import datasets
from workbench.evaluation.interchange.read import Notes
from workbench.items.items import Items
from workbench.items.schema import DataError
from workbench.items.text import looks_tokenised

_BRACKET = re.compile(r"(?<!\w)-[lr][rsc]b-(?!\w)", re.IGNORECASE)
_OTHER = re.compile(r"[\W_]+")
_SAME = str.maketrans(dict.fromkeys("“”„«»", '"') | dict.fromkeys("‘’`´", "'"))  # noqa: RUF001
_PLAIN_QUOTES = (("``", '"'), ("''", '"'))


def key(text: str) -> str:
    """Return what a text and every other way of writing it have in common: its letters and digits.

    Case, accents, white space, punctuation, and the names of brackets (``-lrb-``) do not count. So the
    release's tokens, their readable form, the cased text and OpenAI's running text have one key, and a
    blank of underscores none.
    """
    bare = unicodedata.normalize("NFKD", _BRACKET.sub(" ", text))
    return _OTHER.sub("", bare.casefold())


def wording(text: str) -> str:
    """Return a text with one space for white space and plain quotes for typographic ones.

    Two texts of one wording are the same to a model; two of one `key` may be cased or cut differently.
    """
    text = unicodedata.normalize("NFC", text)
    for written, plain in _PLAIN_QUOTES:
        text = text.replace(written, plain)
    return " ".join(text.translate(_SAME).split())


class Match(NamedTuple):
    """What a text was found to be.

    Attributes
    ----------
    rows : tuple of int
        Places of the items; empty where there is none, several where they cannot be told apart.
    how : str
        ``exact``, ``same wording`` (white space and quotes differ), ``same key`` (case, tokens or
        punctuation differ), or empty.
    """

    rows: tuple[int, ...]
    how: str


NONE = Match((), "")


class Index:
    """The texts of items, found by whatever form of them someone has.

    Parameters
    ----------
    items : Items
        A text may be given whole, or with a blank (underscores) or nothing for the answer.
    """

    def __init__(self, items: Items) -> None:
        columns = ("text", "answer_span", "item_id")
        frame = items.frame
        texts, spans, ids = (frame[name].tolist() for name in columns)
        self.ids = {name: row for row, name in enumerate(ids)}
        self._texts: list[str] = texts
        self._asked = [text[:start] + text[end:] for text, (start, end) in zip(texts, spans, strict=True)]
        self._exact = _places(texts)
        self._whole = _places(map(key, texts))
        self._cut = _places(map(key, self._asked))

    def find(self, text: str) -> Match:
        """Return the items that have this text, the most alike first: exact, one wording, one key."""
        if rows := self._exact.get(text):
            return Match(rows, "exact")
        wanted = key(text)
        for places, texts in ((self._whole, self._texts), (self._cut, self._asked)):
            if wanted and (rows := places.get(wanted)):
                form = wording(text.replace("_", "") if texts is self._asked else text)
                alike = tuple(row for row in rows if wording(texts[row]) == form)
                return Match(alike, "same wording") if alike else Match(rows, "same key")
        return NONE


class Row(NamedTuple):
    """One answer to one item.

    Attributes
    ----------
    line : int
        Where it stands in the file.
    who : str
        The model or person that answered.
    item : str or None
        What names the item: its id, or its text.
    said : mapping
        What was answered.
    """

    line: int
    who: str
    item: str | None
    said: dict[str, Any]


class Placed(NamedTuple):
    """A row and the place of its item; ``how`` is that of a `Match`, or ``id``."""

    row: Row
    place: int
    how: str


def place(rows: Sequence[Row], index: Index, notes: Notes) -> list[Placed]:
    """Find the item of every row.

    What has none is noted: no item has the text, or several have. Several items of exactly one text are told
    apart by their order, where someone answered them all.
    """
    found: list[Placed] = []
    unclear: dict[tuple[str, tuple[int, ...]], list[Row]] = {}
    for row in rows:
        if row.item is None:
            notes.bad("it names no item", row.line)
        elif (at := index.ids.get(row.item.strip())) is not None:
            found.append(Placed(row, at, "id"))
        else:
            match = index.find(row.item)
            if len(match.rows) == 1:
                found.append(Placed(row, match.rows[0], match.how))
            elif match.how == "exact":
                unclear.setdefault((row.who, match.rows), []).append(row)
            elif match.rows:
                notes.note(f"{len(match.rows)} items have this text", row.line, row.item, kept=False)
            else:
                notes.note("no item has this id or text", row.line, row.item, kept=False)
    for (_, places), several in unclear.items():
        if len(several) == len(places):
            found += [Placed(row, at, "exact") for row, at in zip(several, places, strict=True)]
            continue
        for row in several:
            notes.note(f"{len(places)} items have this text", row.line, row.item, kept=False)
    return _once(sorted(found, key=lambda one: one.row.line), notes)


def _once(found: list[Placed], notes: Notes) -> list[Placed]:
    first: dict[tuple[str, int], int] = {}
    kept = []
    for one in found:
        line = first.setdefault((one.row.who, one.place), one.row.line)
        if line == one.row.line:
            kept.append(one)
        else:
            problem = f"{one.row.who!r} answered this item on line {line} already"
            notes.bad(problem, one.row.line, one.row.item)
    return kept


def form(text: str) -> tuple[bool, bool]:
    """Return what tells LAMBADA's variants apart: whether a text is cut into tokens, whether it is cased."""
    return looks_tokenised(text), text != text.lower()


def assign(
    rows: Sequence[Row], items: Items, notes: Notes, told: str | None, by_task: str | None
) -> tuple[list[Placed], list[str]]:
    """Return the rows that have an item, and the variant that each is of.

    Raises
    ------
    DataError
        If none has, or most are of a text that is written otherwise than the items, and nobody said how.
    """
    index = Index(items)
    placed = place(rows, index, notes)
    first = next((row.item for row in rows if row.item), "")
    if not placed:
        ways = "by id, by text, and by the letters and digits of it"
        raise DataError(
            f"none of the {len(rows):,} records is about one of the {len(items):,} items ({ways}); "
            f"the first is {first[:60]!r}",
            file=notes.path,
            remedy="pass the items that they are about" if first else "name the column of the item: item=",
        )
    texts, variants = items.frame["text"].tolist(), items.frame["variant"].tolist()
    strange = [
        one
        for one in placed
        if one.how == "same key"
        and told is None
        and by_task != variants[one.place]
        and form(str(one.row.item)) != form(texts[one.place])
    ]
    if 2 * len(strange) > len(placed):
        one = strange[0]
        seen = f" (the task's variant is {by_task!r})" if by_task else ""
        raise DataError(
            f"the texts are cased or cut otherwise than those of the items, which are of the variant "
            f"{variants[one.place]!r}{seen}: {str(one.row.item)[:60]!r}",
            file=notes.path,
            line=one.row.line,
            remedy=f'pass items of that form, or say what was read: variant="{by_task or "plain"}"',
        )
    for one in strange:
        notes.note("it is cased or cut otherwise than the item", one.row.line, one.row.item, kept=False)
    out = {id(one) for one in strange}
    placed = [one for one in placed if id(one) not in out]
    order = {name: number for number, name in enumerate(dict.fromkeys(one.row.who for one in placed))}
    placed = sorted(placed, key=lambda one: (order[one.row.who], one.place))
    return placed, [told or variants[one.place] for one in placed]


def by_id(ids: Sequence[str | None], variant: str | None, notes: Notes) -> Items:
    """Load the items that ids such as ``lambada/dev/000017`` are of."""
    parts = [name.strip().split("/") for name in ids if name]
    sets = {(one[0], one[1]) for one in parts if len(one) > 2}  # noqa: PLR2004 - set, split, number
    sets = {one for one in sets if one[0] in datasets.names()}
    if not sets:
        raise DataError(
            "the file does not tell which items it is about",
            file=notes.path,
            remedy='pass them: items=wb.load("lambada", "dev")',
        )
    return joined([loaded(*one, variant, notes) for one in sorted(sets)], notes)


def joined(parts: list[Items], notes: Notes) -> Items:
    """Join sets of items into one."""
    try:
        return Items.concat(parts)
    except DataError as error:
        raise DataError(
            error.problem, file=notes.path, remedy="import each variant apart, with its items"
        ) from None


def loaded(dataset: str, split: str, variant: str | None, notes: Notes) -> Items:
    """Load items, or say that results need them."""
    try:
        return datasets.load(dataset, split, variant=variant)
    except DataError as error:
        named = " ".join(filter(None, (dataset, split, variant)))
        raise DataError(
            f"its items ({named}) cannot be loaded: {error.problem}",
            file=notes.path,
            remedy=f"{error.remedy or 'get the data'}; or pass items=",
        ) from None


def _places(values: Iterable[str]) -> dict[str, tuple[int, ...]]:
    found: dict[str, list[int]] = {}
    for row, value in enumerate(values):
        if value:
            found.setdefault(value, []).append(row)
    return {value: tuple(rows) for value, rows in found.items()}
