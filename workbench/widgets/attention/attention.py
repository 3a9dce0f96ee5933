"""Attention of models, drawn on the passage: one item at a time, by hop, layer or head."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import traitlets

from workbench.analysis.mentions import mentions
from workbench.evaluation.model_predictions import as_list, predictions_of, source_of
from workbench.items.items import Item, Items, check_items
from workbench.items.marked_text import weighted_pieces
from workbench.items.tokens import tokens
from workbench.models.item_words import ALL, Attention
from workbench.predictions.schema import not_a_number
from workbench.probing.influence import attention_to_parts, rank_correlation
from workbench.render.numbers import fixed
from workbench.storage.errors import DataError, check_option
from workbench.widgets.shared.list_widget import state_part
from workbench.widgets.shared.passages import BLANK_MARK, blanked_text, item_kind
from workbench.widgets.shared.shading import shaded_passage, shadings
from workbench.widgets.shared.widget import (
    StaticView,
    Widget,
    closed_on_error,
    free_name,
    read_assets,
)

Attend = Callable[[Items], list[Attention]]
Scale = Literal["linear", "square root"]

_MAX_PARTS = 12  # that are listed
_CACHED_ITEMS = 32  # whose weights stay in memory


class AttentionView(Widget):
    """A widget that shows the attention of models; made by :func:`attention`.

    Attributes
    ----------
    state : dict
        The view as plain values; setting it changes the view. ``current`` is the id of the item that is
        shown; ``model`` the model whose weights are shown, by its label; ``row`` the hop, layer or head, as
        in :meth:`workbench.models.item_words.Attention.of`, all of them together by default.
    current_id, model, row : str
        The parts of the state.
    reveal : bool
        Whether answer and prediction are shown.
    scale : str
        ``linear``, or ``square root``, which shows small weights more clearly.
    """

    _esm = read_assets("shared/page.js", "shared/passage.js", "attention/attention.js")
    _css = read_assets("attention/attention.css")
    state = traitlets.Dict()
    current_id = state_part("current", "The id of the item that is shown.")
    model = state_part("model", "The model whose weights are shown, by its label.")
    row = state_part("row", "The hop, layer or head that is shown; all of them together by default.")
    reveal = traitlets.Bool(default_value=False).tag(sync=True)
    scale = traitlets.Enum(["linear", "square root"], "linear").tag(sync=True)
    height = traitlets.Int(560, min=240).tag(sync=True)
    _runs: Sequence[Any] = ()  # that are stored
    _request: str | None = None  # the name of the request that is being answered

    @closed_on_error
    def __init__(
        self,
        sources: Mapping[str, Attend],
        items: Items,
        *,
        state: Mapping[str, Any],
        influence: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._sources, self._items = dict(sources), items
        self._shadings = shadings(items, influence=influence)
        self._row_of = {item_id: index for index, item_id in enumerate(items.frame["item_id"])}
        self._attention_of = lru_cache(maxsize=_CACHED_ITEMS)(self._attend)
        first = str(next(iter(self._row_of), ""))
        self.state = dict(state) | {"current": state["current"] or first}
        self.observe(lambda _: self._send_view(), "state")

    @traitlets.validate("state")
    def _valid_state(self, proposal: Mapping[str, Any]) -> dict[str, Any]:
        """Return a complete, valid state, or raise DataError; settings not named are unchanged."""
        with self._lock:
            before = self.state or {"current": "", "model": next(iter(self._sources)), "row": ""}
            for name in proposal["value"]:
                check_option("the setting", name, list(before))
            state = before | {name: str(value or "") for name, value in proposal["value"].items()}
            state["model"] = state["model"] or before["model"]
            item_id, model, row = state.values()
            check_option("model", model, list(self._sources))
            if item_id not in self._row_of and (item_id or len(self._items)):
                problem = f"the item {item_id!r:.80} is not among those shown"
                raise DataError(problem, hint="pass it as an item")
            if item_id:
                attention = self._attention_of(item_id, model)
                if model != before["model"] and row not in {"", *names_of(attention)}:
                    state["row"] = ""  # the other model has other layers
                attention.row_weights(state["row"])
            return state

    # -- state, as Python sees it

    @property
    def current(self) -> Item | None:
        """The shown item, or None. An item or its id can be assigned."""
        return self._items[self._row_of[self.current_id]] if self.current_id else None

    @current.setter
    def current(self, item: Item | str) -> None:
        self.current_id = item.item_id if isinstance(item, Item) else item

    @property
    def selection(self) -> Items:
        """The shown item, as Items."""
        index = self._row_of.get(self.current_id, 0)
        return self._items[index : index + 1]

    @property
    def weights(self) -> Attention:
        """The attention of the model to the shown item; DataError without an item."""
        if not self.current_id:
            raise DataError("there is no item to show", hint="pass items")
        return self._attention_of(self.current_id, self.model)

    def to_frame(self) -> pd.DataFrame:
        """Return the shown weights: one row per part, the largest weight first.

        Columns are item_id, model, row, start, end (characters in ``item.text``), text and weight.
        """
        names = ["item_id", "model", "row", "start", "end", "text", "weight"]
        item, rows = self.current, []
        if item is not None:
            attention = self.weights
            rows = [
                (item.item_id, self.model, self.row or ALL, start, end, item.text[start:end], float(weight))
                for (start, end), weight in zip(attention.spans, attention.row_weights(self.row), strict=True)
            ]
        frame = pd.DataFrame(rows, columns=names)
        return frame.sort_values("weight", ascending=False, kind="stable", ignore_index=True)

    def chart(self) -> Any:
        """Return the passage as a chart for :func:`wb.save`; answer and prediction as shown here."""
        from workbench.charts.attention import attention_map  # noqa: PLC0415 - Altair is slow to import

        item = self.current
        if item is None:
            raise DataError("there is no item to draw", hint="pass items")
        return attention_map(item, self.weights, row=self.row, scale=self.scale, reveal=self.reveal)

    def save(self, path: Path | str, **options: Any) -> Path:
        """Write the passage as a figure: ``.svg``, ``.png``, ``.pdf``; options as for :func:`wb.save`."""
        from workbench.charts.saving import save  # noqa: PLC0415 - Altair is slow to import

        return save(self.chart(), path, **options)

    def _static(self, limit: int) -> StaticView:
        item = self.current
        numbers = [("Items", f"{len(self._items):,}" if len(self._items) else "There are no items here.")]
        code = f"wb.attention(models, items, **{self.state!r})"
        if item is None:
            return StaticView("Attention", numbers, code=code)
        view = attention_view(item, self.weights, self.row)
        influence = self._influence(item, self.weights, self.row)
        numbers += [
            ("Item", f"{view['id']}, {self._row_of[self.current_id] + 1:,} of {len(self._items):,}"),
            ("Attention of", ", ".join(filter(None, [self.model, self.row]))),
            ("Passage", blanked_text(item)), ("Candidates", ", ".join(item.candidates or ())),
        ]  # fmt: skip
        if influence:
            correlation = f"Kendall's tau with the attention {influence['tau']} over {influence['n']} parts"
            numbers.append(("Influence", correlation))
        numbers += [("Answer", item.answer or "?"), ("Prediction", view["prediction"] or "none")]
        rows = [[text, f"{weight:.2g}"] for text, weight, _ in view["parts"][:limit]]
        return StaticView(
            "Attention", [(name, text) for name, text in numbers if text], ["Part", "Attention weight"], rows,
            hidden=["Answer", "Prediction"], code=code,
        )  # fmt: skip

    # -- what the page asks

    def _on_open(self, message: Mapping[str, Any]) -> None:
        self._send_view(message.get("request"))

    def _on_show(self, message: Mapping[str, Any]) -> None:
        """Show an item by its index; a model or row that is not named stays."""
        index = min(max(0, int(message["index"])), len(self._items) - 1)
        item_id = self._items.frame["item_id"].iloc[index] if len(self._items) else ""
        before, changes = self.state, {name: message[name] for name in ("model", "row") if name in message}
        self._request = message.get("request")
        try:
            self.state = before | changes | {"current": item_id}
            if self.state == before:
                self._send_view()
        finally:
            self._request = None

    def _on_figure(self, message: Mapping[str, Any]) -> None:
        """Send the figure as a file."""
        from tempfile import TemporaryDirectory  # noqa: PLC0415 - used here alone

        suffix = message["kind"]
        with TemporaryDirectory() as folder:
            content = self.save(Path(folder) / f"attention.{suffix}").read_bytes()
        self.send(
            {"type": "file", "request": message.get("request"), "name": f"attention.{suffix}"}, [content]
        )

    # -- how it is answered

    def _attend(self, item_id: str, model: str) -> Attention:
        index = self._row_of[item_id]
        look = self._sources[model](self._items[index : index + 1])[0]
        if not np.isfinite(look.weights).all():
            raise not_a_number(np.nan, item_id, model=model, quantity="attention to some part")
        return look

    def _influence(self, item: Item, attention: Attention, row: str) -> dict[str, Any] | None:
        """Return the passage shaded by influence, with its correlation with the attention.

        Of several influences, the model's or else the first is used. None if the item has none.
        """
        first = next(iter(self._shadings.values()), None)
        shading = self._shadings.get(f"influence: {attention.model}", first)
        spans = shading.spans.get(item.item_id) if shading else None
        if not spans:
            return None
        weights = attention_to_parts(attention, [each.span for each in spans], row)
        tau = rank_correlation(weights, [each.value for each in spans])
        text = fixed(tau, 2, sign=True)
        return shaded_passage(item, {"m": mentions(item)}, shading) | {"tau": text, "n": len(spans)}

    def _send_view(self, request: str | None = None) -> None:
        view: dict[str, Any] | None = None
        item, row = self.current, self.row
        if item is not None:
            attention = self.weights
            view = attention_view(item, attention, row) | {"influence": self._influence(item, attention, row)}
        self.send(
            {
                "type": "view", "request": request or self._request, "n": len(self._items),
                "index": self._row_of.get(self.current_id, -1), "models": list(self._sources),
                "model": self.model, "row": row, "passage": view,
            }
        )  # fmt: skip


def names_of(attention: Attention) -> list[str]:
    """Return the selectable rows: all but `ALL`, and the groups of rows."""
    names = [name for name in attention.rows if name != ALL]
    return list(dict.fromkeys([*(name.partition(", ")[0] for name in names), *names]))


def attention_view(item: Item, attention: Attention, row: str) -> dict[str, Any]:
    """Return an item as it is drawn, with the weights of one row or group of rows.

    ``context`` and ``query`` are pieces: text, the letters of their marks (b blank, m mention of the answer,
    p mention of the prediction, w window that asked) and the weight; ``parts`` are the strongest ones: text,
    weight, and the number of the piece where each begins.
    """
    weights = attention.row_weights(row)
    marks = {
        "m": mentions(item),
        "p": attention.predicted(item),
        "w": [attention.query] if attention.query else [],
    }
    context, query = weighted_pieces(item, marks, attention.spans, [float(weight) for weight in weights])
    pieces = [*context, *query]
    largest = max((weight for _, _, weight in pieces if weight is not None), default=0.0)
    groups: dict[str, list[str]] = {}
    for name in attention.rows:
        if name != ALL:
            group, comma, _ = name.partition(", ")
            groups.setdefault(group, []).extend([name] * bool(comma))
    answer = item.answer
    is_judged = bool(answer) and bool(attention.prediction)
    correct = str(answer).casefold() == attention.prediction.casefold() if is_judged else None
    return {
        "id": item.item_id, "kind": item_kind(item, item.book_id), "context": context, "query": query,
        "answer": answer, "prediction": attention.prediction, "correct": correct,
        "candidates": item.candidates, "groups": [[name, members] for name, members in groups.items()],
        "most": largest, "sum": float(weights.sum()), "n": len(attention.spans),
        "asked": attention.query is not None,
        "parts": strongest(item, attention, weights, [len(text) for text, _, _ in context],
                           [len(text) for text, _, _ in query]),
    }  # fmt: skip


def strongest(
    item: Item, attention: Attention, weights: Any, context: list[int], query: list[int]
) -> list[tuple[str, float, int]]:
    """Return text, weight and first piece of the parts with the largest positive weights.

    `context` and `query` are the lengths of the pieces. What a part holds of the blank is not shown.
    """
    order = [index for index in np.argsort(-weights, kind="stable")[:_MAX_PARTS] if weights[index] > 0]
    bounds = [item.sentences[-1], item.answer_span]
    text, (sentence, blank, *placed) = item.readable(bounds + [attention.spans[index] for index in order])
    first = min(sentence[0], blank[0])
    starts = [*np.cumsum([0, *context])[:-1], *(first + np.cumsum([0, *query])[:-1])]
    rows = []
    for index, (start, end) in zip(order, placed, strict=True):
        words = text[start:end]
        if start < blank[1] and blank[0] < end:
            words = f"{text[start : blank[0]]}{BLANK_MARK}{text[blank[1] : end]}"
        piece = int(np.searchsorted(starts, start, side="right")) - 1
        rows.append((" ".join(words.split()), float(weights[index]), piece))
    return rows


def sources_of(models: Any, items: Items) -> dict[str, Attend]:
    """Return the function that computes the attention of each model, by label; equal names get numbers."""
    named = models.items() if isinstance(models, Mapping) else [(None, each) for each in as_list(models)]
    sources: dict[str, Attend] = {}
    for label, source in named:
        if isinstance(source, type) or not callable(getattr(source, "attend", None)):
            pairs = [
                (source_of(each).model, stored_attention(each)) for each in predictions_of(source, items)
            ]
        else:
            pairs = [(str(source.name), source.attend)]
        for model, attend in pairs:
            sources[free_name(str(label or model), sources)] = attend
    if not sources:
        raise DataError("there is no model to show", hint="pass one, or predictions with weights")
    return sources


def stored_attention(frame: pd.DataFrame) -> Attend:
    """Return the function that reads the attention of predictions; it raises DataError if there is none."""
    model = source_of(frame).model
    rows = {item_id: number for number, item_id in enumerate(frame["item_id"])}

    def attend(items: Items) -> list[Attention]:
        looks = []
        for item in items:
            row = rows.get(item.item_id)
            values = None if row is None or "attention" not in frame else frame["attention"].iloc[row]
            if row is None or not isinstance(values, list | tuple | np.ndarray):
                raise DataError(
                    f"the predictions of {model!r:.80} have no attention for {item.item_id!r:.80}",
                    hint="predict with wb.predict(items, model, attention=True), or pass the model",
                )
            spans = tokens(item).spans
            if len(values) != len(spans):
                raise DataError(
                    f"{item.item_id!r:.80} has {len(spans)} tokens and {len(values)} weights",
                    hint="pass the very items that were predicted",
                )
            weights = np.nan_to_num(np.asarray(values, dtype=np.float64)).clip(0)
            read = [k for k, (start, end) in enumerate(spans) if start < end and weights[k] > 0]
            word = frame["prediction"].iloc[row]
            looks.append(
                Attention(item.item_id, model, (ALL,), tuple(spans[k] for k in read), weights[None, read],
                          None, "" if pd.isna(word) else str(word))
            )  # fmt: skip
        return looks

    return attend


def attention(
    models: Any,
    items: Items,
    *,
    current: str | Item = "",
    model: str = "",
    row: str = "",
    reveal: bool = False,
    scale: Scale = "linear",
    influence: Any = None,
    height: int = 560,
) -> AttentionView:
    """Show the attention of models to items, drawn on the passage.

    Parts of the text are shaded by their weight, the part that asked is outlined, and the strongest parts
    are listed. Answer and prediction are hidden until they are asked for. The keys j and k walk through the
    items, h and l through hops, layers or heads, m through the models; space shows the answer.

    Parameters
    ----------
    models : Predictor, Run, DataFrame or str, or a list or mapping of these
        Models that can say what they looked at (``model.attend``): readers, the memory network, the pointer
        transformer, causal models. Or runs, predictions or names of runs with the column ``attention``
        (``wb.predict(items, model, attention=True)``).
    items : Items
    current : str or Item, optional
        The item to begin with.
    model, row, reveal, scale
        Entries of the state, as in :class:`AttentionView`.
    influence : DataFrame or mapping of str to DataFrame, optional
        What ``wb.influence`` returned, for one model, or for several by the names that they have here. The
        passage stands there twice, shaded by attention and by influence, with Kendall's tau-b of the two over
        the parts (``wb.influence(..., attention=True)`` has its mean over items).
    height : int, default 560
        Height of the widget in px.

    Returns
    -------
    AttentionView
        ``view.save("figure.svg")`` writes the passage as a figure; ``wb.attention(models, items,
        **view.state)`` is the same view again.

    Raises
    ------
    DataError
        If a model has no attention, or there is no such item, model or row.

    Examples
    --------
    >>> from workbench.models import MemoryNetwork
    >>> model = MemoryNetwork.fit(wb.books("sample", "train"), width=16, tokens=2000)
    >>> view = wb.attention(model, items, row="hop 2")
    >>> float(view.to_frame()["weight"].sum()) < 1.01
    True
    >>> view.close()
    """
    check_items(items, "attention")
    item_id = current.item_id if isinstance(current, Item) else current
    return AttentionView(
        sources_of(models, items), items, state={"current": item_id, "model": model, "row": row},
        reveal=reveal, scale=scale, influence=influence, height=height,
    )  # fmt: skip
