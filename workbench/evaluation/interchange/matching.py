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
    """Return the letters and digits of a text, which are the same in all of its variants.

    Case, accents, white space, punctuation, and the names of brackets (``-lrb-``) do not count; a blank of
    underscores has no key.
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
    """Places of the items that have a text, several where they cannot be told apart, and how it was found.

    `how` is ``exact``, ``same wording`` (white space and quotes differ) or ``same key`` (case, tokens or
    punctuation differ).
    """

    rows: tuple[int, ...]
    how: str


NONE = Match((), "")


class Index:
    """Find items by their texts: whole, or with a blank (underscores) or nothing for the answer."""

    def __init__(self, items: Items) -> None:
        frame = items.frame
        texts: list[str] = frame["text"].tolist()
        spans = frame["answer_span"].tolist()
        blanked = [text[:start] + text[end:] for text, (start, end) in zip(texts, spans, strict=True)]
        self.ids = {item_id: row for row, item_id in enumerate(frame["item_id"].tolist())}
        self._exact = _places(texts)
        self._by_key = [(_places(map(key, forms)), forms) for forms in (texts, blanked)]

    def find(self, text: str) -> Match:
        """Return the items that have this text, the most alike first: exact, one wording, one key."""
        if rows := self._exact.get(text):
            return Match(rows, "exact")
        # whole first, then with a blank or nothing for the answer
        for (places, texts), written in zip(self._by_key, (text, text.replace("_", "")), strict=True):
            if rows := places.get(key(text), ()):
                alike = tuple(row for row in rows if wording(texts[row]) == wording(written))
                return Match(alike, "same wording") if alike else Match(rows, "same key")
        return NONE


class ResultRow(NamedTuple):
    """One answer of a model or person to one item, which its id or text names."""

    line: int
    who: str
    item: str | None
    fields: dict[str, Any]


class Placed(NamedTuple):
    """An answer and the place of its item; ``how`` is that of a `Match`, or ``id``."""

    row: ResultRow
    place: int
    how: str


def place(answers: Sequence[ResultRow], index: Index, notes: Notes) -> list[Placed]:
    """Return the answers that have an item, one for each model or person and item; note the others.

    Items of exactly the same text are told apart by their order, where someone answered them all.
    """
    placed: list[Placed] = []
    unclear: dict[tuple[str, tuple[int, ...]], list[ResultRow]] = {}
    for answer in answers:
        if answer.item is None:
            notes.bad("it names no item", answer.line)
        elif (row := index.ids.get(answer.item.strip())) is not None:
            placed.append(Placed(answer, row, "id"))
        else:
            match = index.find(answer.item)
            if len(match.rows) == 1:
                placed.append(Placed(answer, match.rows[0], match.how))
            elif match.how == "exact":
                unclear.setdefault((answer.who, match.rows), []).append(answer)
            else:
                held = f"{len(match.rows)} items have this text"
                problem = held if match.rows else "no item has this id or text"
                notes.note(problem, answer.line, answer.item, used=False)
    for (_, rows), alike in unclear.items():
        if len(alike) == len(rows):
            placed += [Placed(answer, row, "exact") for answer, row in zip(alike, rows, strict=True)]
        else:
            for answer in alike:
                notes.note(f"{len(rows)} items have this text", answer.line, answer.item, used=False)
    return _single(sorted(placed, key=lambda one: one.row.line), notes)


def _single(placed: list[Placed], notes: Notes) -> list[Placed]:
    """Return the first answer of each model or person to each item."""
    first: dict[tuple[str, int], int] = {}
    single = []
    for one in placed:
        line, who = one.row.line, one.row.who
        if first.setdefault((who, one.place), line) == line:
            single.append(one)
        else:
            problem = f"{who!r} answered this item on line {first[who, one.place]} already"
            notes.bad(problem, line, one.row.item)
    return single


def form(text: str) -> tuple[bool, bool]:
    """Return whether a text is cut into tokens, and whether it is cased, as LAMBADA's variants differ."""
    return looks_tokenised(text), text != text.lower()


def assign(
    answers: Sequence[ResultRow], items: Items, notes: Notes, variant: str | None, task_variant: str | None
) -> tuple[list[Placed], list[str]]:
    """Return the answers that have an item, by model and item, and the variant that each is of.

    `variant` and `task_variant` are the form of the text that was read, as the caller and the name of the
    task say. Raise DataError if no answer has an item, or most texts are written differently from those of
    the items and neither says how.
    """
    placed = place(answers, Index(items), notes)
    first = next((answer.item for answer in answers if answer.item), "")
    if not placed:
        ways = "by id, by text, and by the letters and digits of it"
        raise DataError(
            f"none of the {len(answers):,} records is about one of the {len(items):,} items ({ways}); "
            f"the first is {first[:60]!r}",
            file=notes.path,
            remedy="pass the items that they are about" if first else "name the column of the item: item=",
        )
    texts, variants = items.frame["text"].tolist(), items.frame["variant"].tolist()

    def is_odd(one: Placed) -> bool:
        expected = variant is not None or task_variant == variants[one.place]
        return one.how == "same key" and not expected and form(str(one.row.item)) != form(texts[one.place])

    odd = [one for one in placed if is_odd(one)]
    if 2 * len(odd) > len(placed):
        seen = f" (the task's variant is {task_variant!r})" if task_variant else ""
        raise DataError(
            f"the texts are cased or cut otherwise than those of the items, which are of the variant "
            f"{variants[odd[0].place]!r}{seen}: {str(odd[0].row.item)[:60]!r}",
            file=notes.path,
            line=odd[0].row.line,
            remedy=f'pass items of that form, or say what was read: variant="{task_variant or "plain"}"',
        )
    for one in odd:
        problem = "it is cased or cut otherwise than the item"
        notes.note(problem, one.row.line, one.row.item, used=False)
    placed = [one for one in placed if not is_odd(one)]
    order = {name: number for number, name in enumerate(dict.fromkeys(one.row.who for one in placed))}
    placed.sort(key=lambda one: (order[one.row.who], one.place))
    return placed, [variant or variants[one.place] for one in placed]


def load_by_id(ids: Sequence[str | None], variant: str | None, notes: Notes) -> Items:
    """Load the items that ids such as ``lambada/dev/000017`` are of."""
    parts = [item_id.strip().split("/") for item_id in ids if item_id]
    sets = {(part[0], part[1]) for part in parts if len(part) > 2 and part[0] in datasets.dataset_names()}  # noqa: PLR2004
    if not sets:
        raise DataError(
            "the file does not tell which items it is about",
            file=notes.path,
            remedy='pass them: items=wb.load("lambada", "dev")',
        )
    return load_items([(*names, variant) for names in sorted(sets)], notes)


def load_items(sets: Iterable[tuple[str, str, str | None]], notes: Notes) -> Items:
    """Load the items of data sets, each named by data set, split and variant, as one."""
    parts = []
    for dataset, split, variant in sets:
        try:
            parts.append(datasets.load(dataset, split, variant=variant))
        except DataError as error:
            named = " ".join(filter(None, (dataset, split, variant)))
            raise DataError(
                f"its items ({named}) cannot be loaded: {error.problem}",
                file=notes.path,
                remedy=f"{error.remedy or 'get the data'}; or pass items=",
            ) from None
    try:
        return parts[0] if len(parts) == 1 else Items.concat(parts)
    except DataError as error:
        remedy = "import each variant apart, with its items"
        raise DataError(error.problem, file=notes.path, remedy=remedy) from None


def _places(values: Iterable[str]) -> dict[str, tuple[int, ...]]:
    places: dict[str, list[int]] = {}
    for row, value in enumerate(values):
        if value:
            places.setdefault(value, []).append(row)
    return {value: tuple(rows) for value, rows in places.items()}
