"""The table of items: validated and immutable, built from a user's frame or texts, stored as Parquet.

``text`` is byte for byte what the file holds, with the answer in place. Blank, sentences and marks are
character offsets into it; the readable form is computed, with a map of offsets.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeAlias, overload

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from workbench.items import ablation, cells, questions, schema
from workbench.items import text as wt
from workbench.items.cells import check_options, plain_cell, text_cell
from workbench.items.language import folder_of, in_language, languages_of_rows
from workbench.items.query import columns_of, where_mask
from workbench.items.schema import BLANK, ITEM_COLUMNS, WORD_CLASSES, Item, Span, content_digest
from workbench.items.view import items_html
from workbench.storage.errors import DataError, check_option, reading
from workbench.storage.files import atomic_path, read_parquet

__all__ = ["BLANK", "ITEM_COLUMNS", "WORD_CLASSES", "Item", "Items", "Span"]

Mask: TypeAlias = "list[bool] | NDArray[np.bool_] | pd.Series[bool]"

_BLOCK = 1 << 16  # rows of a table that are Python objects at a time
_USUAL = {"dataset": "own", "split": "dev", "variant": "own"}
_MORE_COLUMNS = ("item_id", "word_class", "book_id")  # that `items_from_frame` takes, beside those it names
_SCHEMA = pa.schema(
    [(name, pa.string()) for name in schema.TEXT_COLUMNS]
    + [("answer_span", pa.list_(pa.int32(), 2)), ("sentences", pa.list_(pa.list_(pa.int32(), 2)))]
    + [("candidates", pa.list_(pa.string())), ("tokenised", pa.bool_()), ("meta", pa.string())]
)


class Items:
    """A validated, immutable table of cloze items, one row per item.

    Parameters
    ----------
    frame : DataFrame
        The columns named in `ITEM_COLUMNS`; any index (it is replaced by a range).
    attrs : mapping, optional
        Information about the set: source, licence, citation.
    problems : sequence of DataError, optional
        Errors of the records that a reader left out under ``on_error="skip"``.

    Raises
    ------
    DataError
        If an id occurs twice, a span is out of range or out of order, the answer differs from the
        text of its span or is not a candidate, or a column is missing or of the wrong type.

    Examples
    --------
    >>> items = wb.load("sample", "dev")
    >>> long = items.where([len(item.tokens) > 80 for item in items])
    >>> len(items), len(items[:5]), len(items.sample(7)), items[0].answer
    (222, 5, 7, 'colonel')
    >>> question = wb.load("sample", variant="cbt").query_only()[0]
    >>> question.context, question.passage == question.query
    ([], True)
    """

    def __init__(
        self,
        frame: pd.DataFrame,
        *,
        attrs: Mapping[str, Any] | None = None,
        problems: Sequence[DataError] = (),
    ) -> None:
        self._frame = schema.with_types(frame)
        schema.check(self._frame)
        self.attrs, self.problems = dict(attrs or {}), tuple(problems)

    @cached_property
    def _arrays(self) -> list[Any]:
        return [self._frame[column].array for column in ITEM_COLUMNS]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_arrays"}

    @classmethod
    def _trusted(
        cls, frame: pd.DataFrame, attrs: Mapping[str, Any], problems: Sequence[DataError] = ()
    ) -> Items:
        """Wrap rows that have already been checked."""
        items = cls.__new__(cls)
        items._frame = frame.reset_index(drop=True)  # noqa: SLF001 - of this class
        items.attrs, items.problems = dict(attrs), tuple(problems)
        return items

    @classmethod
    def from_records(
        cls,
        records: Iterable[Item],
        *,
        attrs: Mapping[str, Any] | None = None,
        problems: Sequence[DataError] = (),
    ) -> Items:
        """Build items from single `Item` objects, in order."""
        rows = list(records)
        columns = {name: [getattr(row, name) for row in rows] for name in ITEM_COLUMNS}
        return cls(schema.frame_of_objects(columns), attrs=attrs, problems=problems)

    @classmethod
    def from_frame(cls, frame: pd.DataFrame, **options: Any) -> Items:
        """Make items from a user's table; see :func:`items_from_frame`."""
        return items_from_frame(frame, **options)

    @classmethod
    def concat(cls, sets: Iterable[Items]) -> Items:
        """Concatenate several sets with unique ids. Entries of `attrs` that all share stay, and all notes."""
        sets = list(sets)
        frame = pd.concat([items.frame for items in sets], ignore_index=True)
        schema.check_unique(frame["item_id"], "items")
        attrs = {k: v for k, v in sets[0].attrs.items() if all(p.attrs.get(k) == v for p in sets)}
        if remarks := dict.fromkeys(str(items.attrs["note"]) for items in sets if items.attrs.get("note")):
            attrs["note"] = "; ".join(remarks)
        return cls._trusted(frame, attrs, [p for items in sets for p in items.problems])

    @property
    def frame(self) -> pd.DataFrame:
        """A copy of the items as a frame, with the columns of `ITEM_COLUMNS`."""
        return self._frame.copy(deep=False)  # columns are copied where they are written to

    def __len__(self) -> int:
        return len(self._frame)

    def __iter__(self) -> Iterator[Item]:
        for start in range(0, len(self), 4096):
            block = self._frame.iloc[start : start + 4096]
            yield from (_item(*row) for row in zip(*(block[c].tolist() for c in ITEM_COLUMNS), strict=True))

    @overload
    def __getitem__(self, key: int | str) -> Item: ...
    @overload
    def __getitem__(self, key: slice | Mask) -> Items: ...
    def __getitem__(self, key: int | str | slice | Mask) -> Item | Items:
        """Return one item by position or id, or several by a slice or a mask of True and False."""
        if isinstance(key, slice):
            return self._trusted(self._frame.iloc[key], self.attrs)
        if _is_mask(key):
            return self.where(key)
        if isinstance(key, str):
            if not wt.is_encodable(key):  # no id
                raise KeyError(key)
            positions = np.flatnonzero((self._frame["item_id"] == key).to_numpy())
            if not len(positions):
                raise KeyError(key)
            key = int(positions[0])
        if isinstance(key, bool) or not isinstance(key, int | np.integer):
            raise TypeError(
                "items are chosen by a position, an id, a slice, or a mask of True and False, not by "
                f"{key!r:.60} ({type(key).__name__}); for several positions: [items[i] for i in positions]"
            )
        return _item(*(array[key] for array in self._arrays))

    def where(self, mask: Any) -> Items:
        """Return the items for which a mask holds.

        It is an array of bool (n,) in their order, a Series indexed by ``item_id`` or by position, or a
        callable that gets the frame and returns one of these. What a Series leaves out does not pass.
        """
        if callable(mask):
            mask = mask(self.frame)
        if isinstance(mask, pd.Series) and not isinstance(mask.index, pd.RangeIndex):
            by_position = pd.api.types.is_integer_dtype(mask.index)
            mask = mask.reindex(self._frame.index if by_position else self._frame["item_id"])
        values = np.asarray(mask)
        if values.dtype != bool:
            values = pd.array(values, dtype="boolean").to_numpy(dtype=bool, na_value=False)
        return self._trusted(self._frame.loc[values], self.attrs)

    def query(self, where: str, annotations: Items | pd.DataFrame | None = None) -> Items:
        """Return the items for which a condition in SQL holds; see :mod:`workbench.items.query`.

        Parameters
        ----------
        where : str
            What follows WHERE in DuckDB's SQL, over the columns of the items, those of :attr:`extra`,
            ``n_context_sentences``, ``n_tokens``, and the columns of `annotations`.
        annotations : DataFrame or Items, optional
            Any table with ``item_id`` as a column or the index, at most one row per item, or items with
            columns of their own.

        Raises
        ------
        DataError
            If the condition is not valid; the message shows the place, and columns with similar names.

        Examples
        --------
        >>> import workbench as wb
        >>> wb.load("sample").query("n_context_sentences < 5 and answer ilike '%er%'")
        Items(6: 6 x sample/dev/plain; licence CC0-1.0)
        """
        table = self._frame.drop(columns=["answer_span", "sentences", "meta"])
        table["n_context_sentences"] = self._frame["sentences"].map(len) - 1
        table = table.join(self.extra[[name for name in self.extra if name not in table]])
        if annotations is not None:
            beside = in_item_order(annotations, table["item_id"])
            table = table.join(beside.loc[:, ~beside.columns.isin(table.columns)])
        names = dict.fromkeys([*map(str, table), "n_tokens"])
        if "n_tokens" in columns_of(where, names) and "n_tokens" not in table:
            table["n_tokens"] = [len(item.tokens) for item in self]
        items = self.where(where_mask(table, where))
        earlier = self.attrs.get("filter")
        items.attrs["filter"] = f"({earlier}) and ({where})" if earlier else where
        return items

    def query_only(self, *, candidates_as_context: bool = False, seed: int = 0) -> Items:
        """Return the items with the query alone as text: the context is removed.

        What a model gets right of them does not need the passage (Kaushik and Lipton 2018, section 3). Train
        on ``questions.query_only()`` to measure how far the query alone goes. Ids, answers and candidates
        stay; the variant ends in ``(query only)``, which results add to the names of models.

        Parameters
        ----------
        candidates_as_context : bool, default False
            Put one sentence before the query, with each candidate once in random order: for models that
            choose a word of the context, such as the attention-sum reader.
        seed : int, default 0
            Seed of this order, which depends neither on the answer nor on how the candidates are listed.

        Raises
        ------
        DataError
            If the items are ablated or renamed already, or lack candidates that are wanted as context.
        """
        seed_of_candidates = seed if candidates_as_context else None
        return self._ablated(partial(ablation.query_only, seed=seed_of_candidates))

    def passage_only(self) -> Items:
        """Return the items with the blank alone as query, whose words are removed; see :meth:`query_only`."""
        return self._ablated(ablation.passage_only)

    def _ablated(self, change: Callable[[Item], Item]) -> Items:
        ablation.check_whole(self._frame["variant"])
        return self.from_records(map(change, self), attrs=self.attrs, problems=self.problems)

    @property
    def extra(self) -> pd.DataFrame:
        """Additional columns, such as columns of a user's table: (n, k), in the order of the items.

        They are the entries of ``meta`` that hold text, numbers, truth values or lists of them; a row without
        an entry is missing. Facets, slices and groups are made of them as of annotations: pass the items
        where annotations are expected.
        """
        rows = [
            {key: value for key, value in meta.items() if not isinstance(value, Mapping)}
            for meta in self._frame["meta"]
        ]
        return pd.DataFrame(rows, index=self._frame.index)

    def head(self, n: int = 5) -> Items:
        """Return the first `n` items."""
        return self[: max(n, 0)]

    def sample(self, n: int, seed: int = 0) -> Items:
        """Return `n` items drawn without replacement, in their order (all, if there are fewer)."""
        rng = np.random.default_rng(seed)
        rows = np.sort(rng.permutation(len(self))[: max(n, 0)])
        return self._trusted(self._frame.iloc[rows], self.attrs)

    def to_parquet(self, path: Path | str) -> None:
        """Write the items to a Parquet file, exactly and atomically."""
        columns: dict[str, Any] = {name: self._frame[name].tolist() for name in ITEM_COLUMNS}
        columns["meta"] = [json.dumps(meta, ensure_ascii=False) for meta in columns["meta"]]
        arrays = [
            pa.array(columns[f.name], f.type, from_pandas=f.name in schema.TEXT_COLUMNS) for f in _SCHEMA
        ]
        table = pa.table(arrays, _SCHEMA)
        extra = json.dumps({"attrs": self.attrs}, ensure_ascii=False)
        with atomic_path(path) as temporary:
            pq.write_table(table.replace_schema_metadata({"workbench": extra}), temporary)

    def to_csv(self, path: Path | str) -> None:
        """Write a table that people can read, atomically; ``wb.load(path)`` makes items of it again.

        ``text`` has the blank in place of the answer; lists are written as JSON; the columns of :attr:`extra`
        follow. Offsets are left out: :meth:`to_parquet` keeps the items exactly.
        """
        table = self._frame.drop(columns=["answer_span", "sentences", "meta"])
        table["text"] = [item.passage for item in self]
        table = table.join(self.extra[[name for name in self.extra if name not in ITEM_COLUMNS]])
        for name in filter(lambda name: pd.api.types.is_object_dtype(table[name]), table.columns):
            table[name] = table[name].map(cells.json_cell)
        with atomic_path(path) as temporary:
            table.to_csv(temporary, index=False)

    @classmethod
    def from_parquet(cls, path: Path | str) -> Items:
        """Read a file of :meth:`to_parquet`."""
        description = "this Parquet file of items"
        table = read_parquet(path, what=description)
        with reading(path, description, hint="read a table of your own with pandas and Items.from_frame"):
            columns = {name: schema.objects(table[name].to_pylist()) for name in ITEM_COLUMNS}
            columns["meta"] = schema.objects([json.loads(meta) for meta in columns["meta"]])
            return cls(pd.DataFrame(columns), attrs=json.loads(table.schema.metadata[b"workbench"])["attrs"])

    def __repr__(self) -> str:
        sizes = Counter(zip(*(self._frame[c].tolist() for c in ("dataset", "split", "variant")), strict=True))
        sets = [f"{n:,} x {'/'.join(names)}" for names, n in sizes.items()]
        notes = [f"licence {self.attrs['licence']}"] if "licence" in self.attrs else []
        notes += [str(self.attrs["note"])] if "note" in self.attrs else []
        notes += [f"{len(self.problems):,} problems skipped"] if self.problems else []
        return f"Items({len(self):,}: {', '.join(sets) or 'empty'}{''.join(f'; {n}' for n in notes)})"

    def _repr_html_(self) -> str:
        rows = [(item, item.readable_parts()) for item in self.head()]
        return items_html(rows, repr(self).removeprefix("Items(").removesuffix(")"))


def in_item_order(
    table: Items | pd.DataFrame,
    item_ids: pd.Series[Any],
    label: str = "annotations",
    *,
    columns: Sequence[str] = (),
    complete: bool = False,
) -> pd.DataFrame:
    """Return the rows of a table in the order of `item_ids`, with their index and without the ids.

    The table has ``item_id`` as a column or index, or it is items, which stand for :attr:`Items.extra`. Raise
    DataError if it has no ``item_id`` or lacks one of `columns`, holds an item twice, or has none of the
    items; with `complete`, if it lacks any.
    """
    if isinstance(table, Items):
        table = table.extra.set_axis(table.frame["item_id"])
    names = [*table.columns, table.index.name] if isinstance(table, pd.DataFrame) else []
    if absent := [name for name in ("item_id", *columns) if name not in names]:
        expected = ", ".join(map(repr, ("item_id", *columns)))
        raise DataError(
            f"expected the {label} as a DataFrame with {expected}, got a {type(table).__name__} "
            f"without {', '.join(map(repr, absent))}",
            hint="pass wb.annotate(items), the items themselves, or a frame with these columns",
        )
    if "item_id" in table.columns:
        table = table.set_index("item_id")
    table = table.set_axis(table.index.astype("str"))
    if table.index.equals(pd.Index(item_ids)):  # they are unique
        return table.set_axis(item_ids.index)
    schema.check_unique(table.index.to_series(), label)
    lacking = item_ids[table.index.get_indexer(pd.Index(item_ids)) < 0]
    if len(lacking) and (complete or len(lacking) == len(item_ids)):
        raise DataError(
            f"the {label} lack {len(lacking):,} of {len(item_ids):,} items: expected ids such as "
            f"{lacking.iloc[0]!r}, got {table.index[0] if len(table) else None!r}",
            hint=f"pass the {label} that belong to these items",
        )
    return table.reindex(item_ids).set_axis(item_ids.index)


def check_items(items: Any, caller: str, *, optional: bool = False) -> None:
    """Raise DataError unless these are Items, or None if `optional`; `caller` takes them."""
    if not isinstance(items, Items) and not (optional and items is None):
        raise DataError(
            f"{caller} takes Items, not {type(items).__name__}",
            hint="load them with wb.load, or make them with wb.items_from_frame or wb.items_from_text",
        )


def _is_mask(key: Any) -> bool:
    types = (list, np.ndarray, pd.Series, pd.api.extensions.ExtensionArray)
    return (
        isinstance(key, types) and getattr(key, "ndim", 1) == 1 and pd.api.types.infer_dtype(key) == "boolean"
    )


def _item(*values: Any) -> Item:
    row = dict(zip(ITEM_COLUMNS, values, strict=True))
    for name in ("answer", "word_class", "book_id"):
        row[name] = row[name] if isinstance(row[name], str) else None
    row["tokenised"] = bool(row["tokenised"])
    return Item(**row)


def items_from_frame(
    frame: pd.DataFrame,
    *,
    text: str = "text",
    answer: str | None = "answer",
    candidates: str | None = None,
    dataset: str | None = None,
    split: str | None = None,
    variant: str | None = None,
    tokenised: bool | None = None,
    on_error: str = "raise",
    **columns: str | None,
) -> Items:
    """Make items from a table, one row per item; columns without a role are :attr:`Items.extra`.

    An index with names is columns of these names, and one called ``item_id`` names the items.

    Parameters
    ----------
    frame : DataFrame
        A table; a frame with all columns of `ITEM_COLUMNS` is used as it is.
    text : str
        The column of texts. One ``___``, ``XXXXX`` or ``@placeholder`` marks the blank; without a mark the
        last word is the answer: the last token with a letter or digit, whatever marks follow it. A line of
        underscores between paragraphs is not a mark. Where words of its script have no spaces between them
        (Chinese, Japanese, Thai ...), the blank must be marked, or the answer given, unless `tokenised` is
        True. A column ``context`` (``prompt``) is continued by a column ``continuation`` (``completion``),
        the answer.
    answer : str or None
        The column of answers. Where it is absent or null, a marked blank stays empty. Without a
        mark, an answer must be the last word; where most rows with a mark end with their answer, the last
        word is the answer in these rows too. With candidates, it may be the letter or number of one.
    candidates : str, optional
        The column of candidates: sequences of words, or words joined by ``|``, or a list in JSON. By
        default the columns ``a)``, ``b)`` ..., ``option_a`` ... or ``a``, ``b``, ``c`` ... beside a blank.
    dataset, split, variant : str, optional
        Names of the set; by default what columns of these names hold, else "own", "dev" and "own". A column
        ``lang`` or ``language`` (``de``, ``German``) adds the language to variant and id: ``own-de``.
    tokenised : bool, optional
        Whether words are space-separated tokens; guessed for every text by default.
    on_error : {"raise", "skip"}
        Whether an invalid row is an error, or is left out and listed in ``.problems``.
    **columns : str
        ``item_id``, ``word_class``, ``book_id``: the columns with these values. By default a column
        ``item_id``, or ``id`` where each row has another one, names the items. Without them the id names the
        text and the place of the blank (``own/dev/3f9c0b12a4d5e6f7``), whatever the file and the data set are
        called and whatever else is in the table; equal texts are numbered from the second on
        (``own/dev/3f9c0b12a4d5e6f7-2``).

    Raises
    ------
    DataError
        If an option is unknown, a column is missing or a row is invalid; the message names the row.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"text": ["The ___ barked ."], "answer": ["dog"]})
    >>> wb.items_from_frame(frame)[0].text
    'The dog barked .'
    """
    _check_frame(frame)
    for option in columns:
        check_option("the name of an option", option, _MORE_COLUMNS)
    named = {"candidates": candidates, **dict.fromkeys(_MORE_COLUMNS), **columns}
    check_options({"text": text, "answer": answer} | named, "a column")
    check_options({"dataset": dataset, "split": split, "variant": variant}, "a name")
    check_option("tokenised", tokenised, (None, True, False))
    check_option("on_error", on_error, ("raise", "skip"))
    is_complete = set(ITEM_COLUMNS) - {"item_id"} <= set(frame)
    if named["item_id"] is None and "item_id" in frame.index.names and not is_complete:
        named["item_id"] = "item_id"
    frame = cells.index_as_columns(frame)
    if set(ITEM_COLUMNS) <= set(frame) and not any(named.values()) and (text, answer) == ("text", "answer"):
        return Items(frame)
    note = ""
    if named["item_id"] is None:
        named["item_id"], note = _id_column(frame)
    frame, text, answer = questions.with_continuations(frame, text, answer)
    roles = _columns_of_roles(frame, named | {"text": text, "answer": answer})
    if candidates is None and (options := questions.choice_columns(frame, frame[text])):
        frame = questions.with_choices(frame, options)
        roles["candidates"], tokenised = "candidates", bool(tokenised)
    build = partial(questions.built, form=questions.table_form(frame, roles), tokenised=tokenised)
    sets = {"dataset": dataset, "split": split, "variant": variant}
    roles |= {name: name for name, value in sets.items() if value is None and name in frame}
    usual = {name: value or _USUAL[name] for name, value in sets.items()}
    problems: list[DataError] | None = None if on_error == "raise" else []
    blocks, unnamed = [], []
    for start in range(0, max(len(frame), 1), _BLOCK):  # so that few rows at a time are Python objects
        rows = list(_rows(frame.iloc[start : start + _BLOCK], roles, usual, build, problems))
        block = {name: [row[index] for row in rows] for index, name in enumerate(ITEM_COLUMNS)}
        blocks.append(schema.with_types(schema.frame_of_objects(block)))
        unnamed += [row[-1] for row in rows]
    table = pd.concat(blocks, ignore_index=True)
    if problems and table.empty:
        raise problems[0]
    ids = table["item_id"]
    equal = ids[ids.duplicated(keep=False) & np.array(unnamed, dtype=np.bool_)]
    if len(equal):  # else it takes a quarter of the time of a short table
        nth = equal.groupby(equal).cumcount() + 1
        table.loc[equal.index, "item_id"] = equal.where(nth == 1, equal + "-" + nth.astype("str"))
    schema.check(table)
    attrs = {"note": note} if note else {}
    return Items._trusted(table, attrs, problems or ())  # noqa: SLF001 - checked just now


def _id_column(frame: pd.DataFrame) -> tuple[Any, str]:
    """Return the column that names the items, or None, and a note on a column ``id`` that does not."""
    column = cells.column_named(frame, ("item_id", "id"))
    if column is None or str(column).lower() == "item_id":
        return column, ""
    ids = frame[column]
    if not ids.isna().any() and ids.map(str).is_unique and ids.map(str).str.strip().all():
        return column, ""
    return None, f"the column {column!r} has empty or equal cells, so ids are made of the passages"


def _columns_of_roles(frame: pd.DataFrame, named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that are named for a role; the usual column of answers may be absent."""
    columns = {role: column for role, column in named.items() if column is not None}
    if columns.get("answer") == "answer" and "answer" not in frame.columns:
        del columns["answer"]
    for column in columns.values():
        if column not in frame.columns:
            problem = f"there is no column {column!r}; there is {', '.join(map(str, frame.columns))}"
            raise DataError(problem, hint="name the column, such as text=")
    return columns


def _check_frame(frame: Any) -> None:
    """Raise DataError unless this is a frame whose columns have one name each, no two the same."""
    names = pd.Index(list(map(str, frame.columns)) if isinstance(frame, pd.DataFrame) else [])
    if not isinstance(frame, pd.DataFrame):
        problem = type(frame).__name__
    elif frame.columns.nlevels > 1:
        problem = f"columns of {frame.columns.nlevels} levels"
    elif not names.is_unique:
        problem = f"the column {names[names.duplicated()][0]!r} twice"
    else:
        return
    raise DataError(
        f"expected a pandas DataFrame whose columns have different names of one level, got {problem}",
        hint='pass a table, renamed where needed: frame.set_axis(["text", "answer"], axis="columns")',
    )


def _rows(
    block: pd.DataFrame,
    columns: Mapping[str, str],
    usual: Mapping[str, str],
    build: Callable[[Mapping[str, Any]], tuple[Any, ...]],
    problems: list[DataError] | None,
) -> Iterator[tuple[Any, ...]]:
    """Yield rows as values of `ITEM_COLUMNS`, and whether the id was made of the content; list bad ones."""
    values_of = {name: block[column].tolist() for name, column in columns.items()}
    further = [(str(n), block[n].tolist()) for n in block if n not in {*columns.values(), *ITEM_COLUMNS}]
    codes = languages_of_rows(block)
    for number, label in enumerate(block.index):
        row = {name: values[number] for name, values in values_of.items()}
        try:
            about = [text_cell(row, name) or default for name, default in usual.items()]
            about[2] = in_language(about[2], codes[number])
            meta = {name: plain_cell(values[number], name) for name, values in further}
            item_id, text, answer, span, *rest = build(row)
        except DataError as error:
            bad = DataError(f"row {label}: {error.problem}", hint=error.hint)
            if problems is None:
                raise bad from None
            problems.append(bad)
            continue
        name = item_id or f"own/{folder_of(*about[1:])}/{content_digest(text, span)}"
        meta = {name: value for name, value in meta.items() if value is not None}
        yield name, *about, text, answer, span, *rest, meta, item_id is None


def items_from_text(
    texts: str | Iterable[str],
    *,
    answers: Sequence[str | None] | None = None,
    candidates: Sequence[Sequence[str] | None] | None = None,
    **options: Any,
) -> Items:
    """Make items from one text or several, with one entry of `answers` and `candidates` for each.

    Parameters
    ----------
    texts : str, or iterable of str
        With ``___`` for the blank; without, the last word is the target.
    answers : sequence of str, optional
    candidates : sequence of sequences of str, optional
    **options
        Those of :func:`items_from_frame`.

    Examples
    --------
    >>> items = wb.items_from_text(["Nobody had fed the dog", "The ___ barked ."], answers=["dog", "dog"])
    >>> [item.answer for item in items]
    ['dog', 'dog']
    """
    columns: dict[str, Any] = {"text": [texts] if isinstance(texts, str) else list(texts)}
    for name, values in (("answer", answers), ("candidates", candidates)):
        if values is None:
            continue
        columns[name] = [values] if isinstance(values, str) else list(values)
        if len(columns[name]) != len(columns["text"]):
            raise DataError(f"there are {len(columns[name])} {name} entries for {len(columns['text'])} texts")
    frame = schema.frame_of_objects(columns)
    if candidates is not None:
        options = {"candidates": "candidates", **options}
    return items_from_frame(frame, **options)
