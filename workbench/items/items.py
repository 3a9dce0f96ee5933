"""One kind of item for every data set: a text with one blank, perhaps candidates, one answer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from workbench.items import schema
from workbench.items.schema import BLANK, COLUMNS, WORD_CLASSES, DataError, Item, Span
from workbench.storage.files import atomic_path

__all__ = ["BLANK", "COLUMNS", "WORD_CLASSES", "DataError", "Item", "Items", "Span"]

_SCHEMA = pa.schema(
    [(name, pa.string()) for name in schema.TEXT_COLUMNS]
    + [
        ("answer_span", pa.list_(pa.int32(), 2)),
        ("sentences", pa.list_(pa.list_(pa.int32(), 2))),
        ("candidates", pa.list_(pa.string())),
        ("tokenised", pa.bool_()),
        ("meta", pa.string()),
    ]
)


class Items:
    """A validated, immutable table of cloze items, one row an item.

    Parameters
    ----------
    frame : DataFrame
        The columns named in `COLUMNS`; any index (it is replaced by a range).
    attrs : mapping, optional
        What holds for the whole set: source, licence, citation.
    problems : sequence of DataError, optional
        What a reader left out under ``on_error="skip"``.

    Raises
    ------
    DataError
        If an id occurs twice, a span leaves the text or its order, the answer is not what
        its span holds or not among the candidates, or a column is missing or of another kind.
    """

    def __init__(
        self,
        frame: pd.DataFrame,
        *,
        attrs: Mapping[str, Any] | None = None,
        problems: Sequence[DataError] = (),
    ) -> None:
        missing = [name for name in COLUMNS if name not in frame.columns]
        if missing:
            raise DataError(
                f"the columns {', '.join(missing)} are missing",
                remedy="build items with Items.from_frame or wb.items_from_text",
            )
        frame = frame.loc[:, list(COLUMNS)].reset_index(drop=True)
        for name in schema.TEXT_COLUMNS:
            frame[name] = schema.as_text(frame[name])
        frame["tokenised"] = frame["tokenised"].astype(bool)
        frame = schema.frozen(frame)
        schema.check(frame)
        self._frame = frame
        self.attrs = dict(attrs or {})
        self.problems = tuple(problems)

    @classmethod
    def _trusted(
        cls, frame: pd.DataFrame, attrs: Mapping[str, Any], problems: Sequence[DataError] = ()
    ) -> Items:
        """Wrap rows that were checked already."""
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
        """Build items from single ones, in order."""
        rows = list(records)
        columns = {name: schema.objects([getattr(row, name) for row in rows]) for name in COLUMNS}
        return cls(pd.DataFrame(columns), attrs=attrs, problems=problems)

    @classmethod
    def from_frame(cls, frame: pd.DataFrame, **options: Any) -> Items:
        """Make items from a table of one's own; see :func:`workbench.items.build.items_from_frame`."""
        from workbench.items.build import items_from_frame  # noqa: PLC0415 - own builds Items, so it comes after them

        return items_from_frame(frame, **options)

    @classmethod
    def concat(cls, parts: Iterable[Items]) -> Items:
        """Join several sets into one; ids must stay unique."""
        parts = list(parts)
        if not parts:
            raise DataError("there is nothing to join", remedy="pass at least one Items")
        frame = pd.concat([part.frame for part in parts], ignore_index=True)
        twice = frame["item_id"][frame["item_id"].duplicated()]
        if len(twice):
            raise DataError(f"the id {twice.iloc[0]!r} occurs in more than one part")
        attrs = {k: v for k, v in parts[0].attrs.items() if all(p.attrs.get(k) == v for p in parts)}
        return cls._trusted(frame, attrs, [p for part in parts for p in part.problems])

    @property
    def frame(self) -> pd.DataFrame:
        """The items as a frame of its own: changing it does not change the items."""
        return self._frame.copy()

    def __len__(self) -> int:
        return len(self._frame)

    def __iter__(self) -> Iterator[Item]:
        for start in range(0, len(self), 4096):
            part = self._frame.iloc[start : start + 4096]
            yield from (_item(*row) for row in zip(*(part[c].tolist() for c in COLUMNS), strict=True))

    @overload
    def __getitem__(self, key: int | str) -> Item: ...
    @overload
    def __getitem__(self, key: slice) -> Items: ...
    def __getitem__(self, key: int | str | slice) -> Item | Items:
        """Return one item by position or id, or some by a slice."""
        if isinstance(key, slice):
            return self._trusted(self._frame.iloc[key], self.attrs)
        if isinstance(key, str):
            found = np.flatnonzero((self._frame["item_id"] == key).to_numpy())
            if not len(found):
                raise KeyError(key)
            key = int(found[0])
        return _item(*(column[key] for column in self._arrays))

    @cached_property
    def _arrays(self) -> list[Any]:
        return [self._frame[c].array for c in COLUMNS]

    def __getstate__(self) -> dict[str, Any]:
        """Let the items travel between processes without what can be derived."""
        return {name: value for name, value in vars(self).items() if name != "_arrays"}

    def where(self, mask: Any) -> Items:
        """Return the items for which `mask` holds.

        Parameters
        ----------
        mask : array of bool (n,), Series, or callable
            One value an item in order; a Series indexed by ``item_id`` is matched by id;
            a callable gets the frame and returns such an array.
        """
        if callable(mask):
            mask = mask(self.frame)
        if isinstance(mask, pd.Series) and not isinstance(mask.index, pd.RangeIndex):
            mask = mask.reindex(self._frame["item_id"])
        values = np.asarray(mask)
        if values.shape != (len(self),):
            raise DataError(f"the mask has shape {values.shape}, expected ({len(self)},)")
        if values.dtype != bool:
            values = pd.array(values, dtype="boolean").to_numpy(dtype=bool, na_value=False)
        return self._trusted(self._frame[values], self.attrs)

    def sample(self, n: int, seed: int = 0) -> Items:
        """Return `n` items drawn without replacement, in their order (all, if there are fewer)."""
        rng = np.random.default_rng(seed)
        rows = np.sort(rng.permutation(len(self))[: max(n, 0)])
        return self._trusted(self._frame.iloc[rows], self.attrs)

    def to_parquet(self, path: Path | str) -> None:
        """Write the items, exactly and atomically."""
        columns: dict[str, Any] = {name: self._frame[name].tolist() for name in COLUMNS}
        for name in schema.TEXT_COLUMNS:
            columns[name] = [_null(value) for value in columns[name]]
        columns["meta"] = [json.dumps(meta, ensure_ascii=False) for meta in columns["meta"]]
        table = pa.table({f.name: pa.array(columns[f.name], f.type) for f in _SCHEMA})
        extra = json.dumps({"attrs": self.attrs}, ensure_ascii=False)
        with atomic_path(path) as temporary:
            pq.write_table(table.replace_schema_metadata({"workbench": extra}), temporary)

    @classmethod
    def from_parquet(cls, path: Path | str) -> Items:
        """Read what :meth:`to_parquet` wrote."""
        try:
            table = pq.read_table(path)
        except FileNotFoundError:
            raise DataError("there is no such file", file=path) from None
        except (pa.ArrowInvalid, OSError) as error:
            raise DataError(f"this is no whole parquet file ({error})", file=path) from error
        extra = (table.schema.metadata or {}).get(b"workbench")
        if extra is None or set(COLUMNS) - set(table.column_names):
            raise DataError(
                "this parquet file does not hold items of the workbench",
                file=path,
                remedy="read tables of your own with pandas and pass them to Items.from_frame",
            )
        frame = pd.DataFrame(
            {
                n: schema.objects(table[n].to_pylist())
                if n in schema.NESTED_COLUMNS
                else table[n].to_pylist()
                for n in COLUMNS
            }
        )
        frame["meta"] = schema.objects([json.loads(meta) for meta in frame["meta"]])
        return cls(frame, attrs=json.loads(extra)["attrs"])

    def __repr__(self) -> str:
        kinds = Counter(zip(*(self._frame[c].tolist() for c in ("dataset", "split", "variant")), strict=True))
        parts = [f"{n:,} x {'/'.join(kind)}" for kind, n in kinds.items()]
        notes = [f"licence {self.attrs['licence']}"] if "licence" in self.attrs else []
        notes += [str(self.attrs["note"])] if "note" in self.attrs else []
        notes += [f"{len(self.problems):,} problems skipped"] if self.problems else []
        return f"Items({len(self):,}: {', '.join(parts) or 'empty'}{''.join(f'; {n}' for n in notes)})"


def _null(value: Any) -> Any:
    return value if isinstance(value, str) else None


def _item(*values: Any) -> Item:
    row = dict(zip(COLUMNS, values, strict=True))
    for name in ("answer", "word_class", "book_id"):
        row[name] = _null(row[name])
    row["tokenised"] = bool(row["tokenised"])
    return Item(**row)
