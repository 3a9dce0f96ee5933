"""The item: its fields and derived values, the columns of a frame of items, and their checks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from workbench.items import text as wt
from workbench.items import view
from workbench.items.cells import check_encodable
from workbench.storage.errors import DataError

BLANK = "_____"
"""How a blank is shown in :attr:`Item.query` and :attr:`Item.passage`."""

WORD_CLASSES = ("NE", "CN", "V", "P")
"""Classes of the missing word in the Children's Book Test (Hill et al. 2016, section 2)."""

Span = tuple[int, int]

TEXT_COLUMNS = ("item_id", "dataset", "split", "variant", "text", "answer", "word_class", "book_id")
_CUT_AT_HYPHENS = frozenset({"cbt", "cnnqa"})  # releases in which dashes are "--"
_NULLS = (type(None), float, type(pd.NA))  # types of cells that hold nothing
_BLOCK = 1 << 16  # rows that are Python objects at a time
ITEM_COLUMNS = (
    "item_id", "dataset", "split", "variant", "text", "answer", "answer_span", "sentences",
    "candidates", "word_class", "tokenised", "book_id", "meta",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Item:
    """One cloze item. Spans are character offsets into `text`, end excluded.

    Parameters
    ----------
    item_id, dataset, split, variant : str
        A unique name, and what the item belongs to.
    text : str
        Text as released, the answer in place.
    answer : str or None
    answer_span : (int, int)
        Where the answer or the blank is in `text`.
    sentences : sequence of (int, int)
        Spans; the last is the target sentence.
    candidates : sequence of str, optional
    word_class : str, optional
        ``NE``, ``CN``, ``V`` or ``P``: of questions of the Children's Book Test.
    tokenised : bool, default True
        Whether words are tokens between spaces.
    book_id : str, optional
    meta : dict

    Examples
    --------
    >>> item = wb.items_from_text("The dog barked . Nobody fed the ___", answers="dog")[0]
    >>> item.query, item.answer, len(item.context)
    ('Nobody fed the _____', 'dog', 1)
    """

    item_id: str
    dataset: str
    split: str
    variant: str
    text: str
    answer: str | None
    answer_span: Span
    sentences: tuple[Span, ...]
    candidates: tuple[str, ...] | None = None
    word_class: str | None = None
    tokenised: bool = True
    book_id: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def context(self) -> list[str]:
        """The sentences before the target sentence."""
        return [self.text[start:end] for start, end in self.sentences[:-1]]

    @property
    def left(self) -> str:
        """The target sentence before the blank."""
        return self.text[self.sentences[-1][0] : self.answer_span[0]]

    @property
    def right(self) -> str:
        """The target sentence after the blank; empty in LAMBADA."""
        return self.text[self.answer_span[1] : self.sentences[-1][1]]

    @property
    def query(self) -> str:
        """The target sentence with the blank shown."""
        return f"{self.left}{BLANK}{self.right}"

    @property
    def passage(self) -> str:
        """The whole text with the blank shown."""
        start, end = self.answer_span
        return f"{self.text[:start]}{BLANK}{self.text[end:]}"

    @property
    def tokens(self) -> list[str]:
        """The words of the whole text, the answer in place (Treebank tokens)."""
        return self.text.split() if self.tokenised else wt.tokenize(self.text)

    def readable(self, spans: Iterable[Span] = ()) -> tuple[str, list[Span]]:
        """Return the text as a book would print it, and where spans of `text` lie in it."""
        if not self.tokenised:
            return wt.closed_up_spans(self.text, spans)
        return wt.readable_spans(self.text, spans, cut_at_hyphens=self.dataset in _CUT_AT_HYPHENS)

    def readable_parts(self) -> view.ReadableParts:
        """Return the context and the two sides of the target sentence, the spaces between them in place."""
        text, (query, blank) = self.readable([self.sentences[-1], self.answer_span])
        start = min(query[0], blank[0])
        return view.ReadableParts(text[:start], text[start : blank[0]], text[blank[1] :])

    def _repr_html_(self) -> str:
        return view.item_html(self, self.readable_parts())


def content_digest(*values: Any) -> str:
    """Return 16 hexadecimal digits that name a content: equal for equal parts only."""
    return hashlib.blake2b(repr(values).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def objects(values: Sequence[Any]) -> pd.Series[Any]:
    """Return a column of Python objects: tuples and lists stay as they are."""
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return pd.Series(column, dtype=object)  # pandas would infer text, without our checks


def frame_of_objects(columns: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    """Return a frame of Python objects, all in one array: a third of the time of a frame of Series."""
    cells = np.empty((len(next(iter(columns.values()))), len(columns)), dtype=object, order="F")
    for number, values in enumerate(columns.values()):
        cells[:, number] = values
    return pd.DataFrame(cells, columns=list(columns), dtype=object, copy=False)


def with_types(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with the columns of `ITEM_COLUMNS` alone and their types; DataError for other types.

    Lists become tuples, so that no cell can be changed from outside, and equal spans are one object.
    """
    if missing := [name for name in ITEM_COLUMNS if name not in frame.columns]:
        raise DataError(
            f"the columns {', '.join(missing)} are missing",
            hint="build items with Items.from_frame or wb.items_from_text",
        )
    columns: dict[str, Any] = {name: _as_text(frame[name]) for name in TEXT_COLUMNS}
    unique: dict[Any, Any] = {}
    spans = (tuple(map(int, span)) for span in frame["answer_span"])
    rows = ([(int(a), int(b)) for a, b in row] for row in frame["sentences"])
    nested: dict[str, list[Any]] = {
        "answer_span": [unique.setdefault(span, span) for span in spans],
        "sentences": [tuple([unique.setdefault(span, span) for span in row]) for row in rows],
        "candidates": [None if isinstance(c, _NULLS) else tuple(c) for c in frame["candidates"]],
        "meta": [dict(m) if isinstance(m, Mapping) else {} for m in frame["meta"]],
    }
    columns |= {name: objects(values).to_numpy() for name, values in nested.items()}
    columns["tokenised"] = frame["tokenised"].astype(bool).to_numpy()
    return pd.DataFrame({name: columns[name] for name in ITEM_COLUMNS})


def _as_text(column: pd.Series[Any]) -> Any:
    if strange := [cell_type.__name__ for cell_type in set(map(type, column.tolist())) - {str, *_NULLS}]:
        raise DataError(f"the column {column.name!r} holds {strange[0]}, expected text")
    try:
        return column.array.astype("str")  # in half the time of the column's
    except UnicodeEncodeError:
        for value in filter(lambda value: isinstance(value, str), column):
            check_encodable(value, f"the column {column.name!r}")
        raise


def check(frame: pd.DataFrame) -> None:
    """Raise DataError for the first fault in a frame of items."""
    wrong = {name: frame[name].isna() for name in ("item_id", "dataset", "split", "variant", "text")}
    wrong["word_class"] = frame["word_class"].notna() & ~frame["word_class"].isin(WORD_CLASSES)
    for name, mask in wrong.items():
        if mask.any():
            index = int(mask.argmax())
            expected = f"one of {' '.join(WORD_CLASSES)}" if name == "word_class" else "text"
            raise DataError(
                f"row {index}: the column {name!r} holds {frame[name][index]!r}, expected {expected}"
            )
    check_unique(frame["item_id"], "items")
    names = ("text", "answer", "answer_span", "sentences", "candidates")
    for start in range(0, len(frame), _BLOCK):
        block = frame.iloc[start : start + _BLOCK]
        for number, row in enumerate(zip(*(block[name].tolist() for name in names), strict=True), start):
            text, answer, span, sentences, candidates = row
            held = text[slice(*span)]
            if problem := _misplaced(text, span, sentences) or unanswered(held, answer, candidates):
                raise DataError(f"item {frame['item_id'][number]}: {problem}")


def check_unique(ids: pd.Series[Any], label: str) -> None:
    """Raise DataError if an id occurs twice in a table, which `label` names."""
    if ids.duplicated().any():
        raise DataError(
            f"the {label} hold the id {ids[ids.duplicated()].iloc[0]!r} twice, expected one row per item",
            hint="leave one of the rows out, or give it another id",
        )


def _misplaced(text: str, span: Span, sentences: tuple[Span, ...]) -> str | None:
    """Return the error in the spans of an item, if there is one."""
    if not sentences:
        return "there is no sentence; the last one must be the target sentence"
    before = 0
    for start, end in sentences:
        if not before <= start <= end:
            return f"the sentence span {start, end} is out of order"
        before = end
    if before > len(text):
        return f"the sentence span {sentences[-1]} leaves the text of {len(text)} characters"
    if not sentences[-1][0] <= span[0] <= span[1] <= sentences[-1][1]:
        return f"the answer span {span} is not inside the target sentence {sentences[-1]}"
    return None


def unanswered(held: str, answer: Any, candidates: tuple[str, ...] | None) -> str | None:
    """Return the error in the answer of an item whose span holds `held`, if there is one."""
    wanted = answer if isinstance(answer, str) else ""
    if held != wanted:
        return f"the answer span holds {held!r}, expected {wanted or 'an empty span'!r}"
    if answer == "":
        return "the answer is empty; leave it null where it is not known"
    if candidates is not None and wanted and wanted not in candidates:
        return f"the answer {wanted!r} is not among the candidates {list(candidates)}"
    return None
