"""Charts of a model's most probable words for a blank, and the rank of the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from workbench.charts import theme
from workbench.evaluation.model_predictions import as_list
from workbench.items import text as wt
from workbench.items.items import Items
from workbench.items.schema import Item
from workbench.predictions.store import find_run
from workbench.render.numbers import probability
from workbench.storage.errors import DataError

_Frames = list[tuple[str | None, pd.DataFrame]]  # frames of expected words, by the name of the argument
_LIMIT = 24  # panels of a chart
_SIGN = "← answer"
_NEEDED = ("item_id", "place", "word", "log_prob")
_PREDICTED = ("item_id", "top_words", "top_log_probs")
_TOLD = ("item_id", "model", "answer", "rank", "log_prob", "known")
_ALL = "The most probable words, with their probabilities."
_SHARES = "The candidates, with their shares: the probabilities of all candidates sum to 1."
_SOME = f"{_ALL} Those of candidates sum to 1."
_BLANK, _HOLD = "____", "\u00a0"  # where no line breaks
_NAMES = {
    ".": "full stop", ",": "comma", ";": "semicolon", ":": "colon", "?": "question mark",
    "!": "exclamation mark", "``": "opening quote", "''": "closing quote", '"': "quote", "`": "opening quote",
    "'": "quote", "--": "dash", "-": "hyphen", "...": "dots",
    "</s>": "end of sentence", "<unk>": "unknown word",
}  # fmt: skip
_STEPS = tuple(factor * 10.0**power for power in range(-9, 0) for factor in (1, 2, 5))
_TICKS = 5
_SLACK = 1e-6
_LONGEST = 22  # letters of a word
_LINE = 46  # letters of a line
_LINES = 2  # of a heading
_AFTER = 3  # words after the blank
_STEP = 19  # pixels a bar
_LETTER = 6.2  # pixels
_BARS, _ROOM = 190, 110  # pixels for bars, and for what stands at their ends


def expected(
    expected: pd.DataFrame | Mapping[str, pd.DataFrame] | Sequence[Any] | Any,
    *,
    answers: Mapping[str, str] | pd.DataFrame | None = None,
    items: Items | None = None,
    top_k: int = 10,
    columns: int = 2,
    same_scale: bool = True,
) -> alt.VConcatChart:
    """Draw the most probable words for some blanks: one panel per item and model, one bar per word.

    Parameters
    ----------
    expected : DataFrame, Run or str, or a sequence or mapping of name to these
        Either with the columns ``item_id``, ``place`` (1 is the most probable), ``word`` and ``log_prob``
        (natural), as :meth:`workbench.models.ngram.model.NGram.expected` gives, or predictions. There may be
        a column ``model``; models can be given by name too: ``{"5-gram": a, "3-gram": b}``. Where predictions
        are of candidates, the bars are the candidates' shares: their probabilities sum to 1.
    answers : mapping of item_id to word, or DataFrame
        A frame has the columns ``item_id`` and ``answer``, and perhaps ``rank``, ``log_prob``, ``known`` and
        ``model``: predictions have them. By default what `expected` says, else what `items` say.
    items : Items, optional
        The items that are drawn, each with the last words before the blank as its heading; by default all
        that `expected` has, with their ids.
    top_k : int, default 10
        Bars a panel, at most.
    columns : int, default 2
        Panels side by side, where there is one model; several models stand side by side.
    same_scale : bool, default True
        Whether all panels have the same horizontal axis.

    Returns
    -------
    alt.VConcatChart
        The answer's bar has a colour and a sign of its own; where the answer is none of the words, a line
        below the bars says its rank and probability as far as they are known.

    Raises
    ------
    DataError
        If a column is missing, there is nothing to show, there are more than 24 panels, or the predictions
        hold scores that are not probabilities, or a word's place is taken twice.

    Examples
    --------
    >>> chart = wb.charts.expected(runs[1], items=items[:2], top_k=5)
    """
    frames = _frames(expected, items)
    data = _table(frames, top_k)
    models, ids = list(dict.fromkeys(data["model"])), list(dict.fromkeys(data["item_id"]))
    panels = data[["item_id", "model"]].drop_duplicates()
    if len(panels) > _LIMIT:
        problem = f"{len(panels)} panels are more than one can read, expected {_LIMIT} at most"
        raise DataError(problem, hint=f"choose items: items=items[:{_LIMIT // len(models)}]")
    answer_of = _answers(frames, answers, items, alone=len(models) == 1)
    drawn_items = items.where(items.frame["item_id"].isin(ids).to_numpy()) if items else ()
    texts = {item.item_id: item for item in drawn_items}
    extent = min(max(map(len, data["shown"])), _LONGEST + 3) * _LETTER + 10
    colours = [colour for colour in theme.PALETTE if colour != theme.PALETTE[1]]
    headings = {item_id: _heading(texts.get(item_id), item_id) for item_id in ids}
    drawn: dict[str, list[alt.LayerChart]] = {item_id: [] for item_id in ids}
    for keys, panel_words in data.groupby(["item_id", "model"], sort=False):
        item_id, model = map(str, keys)
        top = float((data if same_scale else panel_words)["p"].max()) or 1.0
        fill = colours[models.index(model) % len(colours)]
        answer = answer_of.get((item_id, model)) or answer_of.get((item_id, None)) or {}
        panel = _panel(panel_words, answer, fill=fill, top=top, extent=extent)
        panel.title = _title(headings[item_id] if len(models) == 1 else [model])
        drawn[item_id].append(panel)
    if len(models) == 1:
        flat = [panel for row in drawn.values() for panel in row]
        rows = [alt.hconcat(*flat[i : i + columns], spacing=24) for i in range(0, len(flat), columns)]
        title_text = f"What {models[0]} expects" if models[0] else "What the model expects"
    else:
        headed = ((row, _title(headings[item_id])) for item_id, row in drawn.items())
        rows = [alt.HConcatChart(hconcat=row, spacing=24, title=title) for row, title in headed]
        title_text = "What the models expect"
    note = _SHARES if data["among"].all() else _SOME if data["among"].any() else _ALL
    title = theme.chart_title(title_text, [note])
    title.frame = "bounds"
    chart = alt.VConcatChart(vconcat=rows, spacing=28, title=title)
    return theme.themed(chart, title_text, data[["item_id", "model", "place", "word", "p"]])


def _table(frames: _Frames, top_k: int) -> pd.DataFrame:
    """Return one row per bar: item_id, model, place, word, shown, p, among (of candidates only)."""
    tables: list[pd.DataFrame] = []
    for name, frame in frames:
        if set(_PREDICTED) <= set(getattr(frame, "columns", ())):
            table = _word_rows(frame, top_k)
        else:
            theme.check_table(frame, _NEEDED, "what is expected", "pass what model.expected(items) gives")
            table = frame.assign(
                p=np.exp(frame["log_prob"].astype(float)), among=False, model=frame.get("model", "")
            )
        tables.append(table if name is None else table.assign(model=name))
    data = pd.concat(tables, ignore_index=True)
    theme.check_table(data, (), "what is expected", "pass what model.expected(items) gives, or predictions")
    if (data["p"] > 1 + _SLACK).any():
        raise DataError("a log-probability is above 0", hint="pass natural logarithms of probabilities")
    twice = data.duplicated(["item_id", "model", "place"])
    if twice.any():
        hint = "give each model a name of its own: {'name': expected, ...}"
        raise DataError(f"{data['item_id'][twice].iloc[0]} has two words at one place", hint=hint)
    data = data.assign(order=pd.factorize(data["item_id"])[0], shown=data["word"].map(_word_text))
    data = data[data["place"] <= top_k].sort_values(["order", "place"], kind="stable")
    return data[["item_id", "model", "place", "word", "shown", "p", "among"]]


def _frames(expected: Any, items: Items | None) -> _Frames:
    """Return the frames with their names, restricted to the items."""
    named = isinstance(expected, Mapping)
    inputs: Any = expected.items() if named else [(None, value) for value in as_list(expected)]
    sources: Any = [(name, find_run(value) if isinstance(value, str) else value) for name, value in inputs]
    frames: _Frames = [(name, getattr(value, "predictions", value)) for name, value in sources]
    if items is None:
        return frames
    ids = items.frame["item_id"]
    return [(name, f[f["item_id"].isin(ids)] if "item_id" in f.columns else f) for name, f in frames]


def _word_rows(frame: pd.DataFrame, top_k: int) -> pd.DataFrame:
    """Return the lists of predictions as one row per word."""
    rows: list[dict[str, Any]] = []
    for row in frame.to_dict("records"):
        words, values = _as_list(row["top_words"]), _as_list(row["top_log_probs"])
        if row.get("score_type", "log_prob") != "log_prob":
            problem = f"the model {row.get('model')!r} gives scores, which are not probabilities"
            raise DataError(problem, hint="choose a model whose score_type is log_prob")
        choices = _as_list(row.get("candidate_scores"))
        total = np.logaddexp.reduce(choices) if choices else 0.0
        rows += [
            {"item_id": row["item_id"], "model": row.get("model") or "", "place": rank, "word": word,
             "p": float(np.exp(value - total)), "among": bool(choices)}
            for rank, (word, value) in enumerate(zip(words, values, strict=True), start=1) if rank <= top_k
        ]  # fmt: skip
    return pd.DataFrame(rows, columns=["item_id", "model", "place", "word", "p", "among"])


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple | np.ndarray) else []


def _answers(
    frames: _Frames, answers: Any, items: Items | None, *, alone: bool
) -> dict[tuple[str, str | None], dict[str, Any]]:
    """Return the answers by item and model; the key None holds for every model."""
    answer_of: dict[tuple[str, str | None], dict[str, Any]] = {}
    if items is not None:
        pairs = zip(items.frame["item_id"], items.frame["answer"], strict=True)
        answer_of = {(item_id, None): {"answer": word} for item_id, word in pairs if isinstance(word, str)}
    table = {} if answers is None else answers
    if isinstance(table, Mapping):
        table = pd.DataFrame({"item_id": list(table), "answer": list(table.values())})
    else:
        theme.check_table(table, ("item_id", "answer"), "the answers", "pass predictions, or a mapping")
    is_single = alone and ("model" not in table or len(table["model"].unique()) == 1)  # all of that model
    for name, row in [*((name, row) for name, frame in frames for row in _answer_rows(frame)),
                       *((None, row) for row in _answer_rows(table))]:  # fmt: skip
        answer_of[row["item_id"], name or row.get("model")] = row
    for row in _answer_rows(table):
        answer_of[row["item_id"], None] = row if is_single else {"answer": row["answer"]}
    return answer_of


def _answer_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the answer columns without nulls."""
    if "answer" not in frame.columns:
        return []
    rows = frame[[column for column in _TOLD if column in frame.columns]].to_dict("records")
    records = [{str(key): value for key, value in row.items() if not pd.isna(value)} for row in rows]
    return [row for row in records if "answer" in row]


def _panel(
    words: pd.DataFrame, answer: Mapping[str, Any], *, fill: str, top: float, extent: float
) -> alt.LayerChart:
    word = str(answer.get("answer", "")).casefold()
    is_answer = (words["word"].str.casefold() == word) & bool(word)
    ends = words["p"].map(probability) + is_answer.map({True: f" {_SIGN}", False: ""})
    words = words.assign(answer=is_answer, end=ends)
    below: list[str] = []
    if word and not is_answer.any():
        missed = _answer_facts(answer, among=bool(words["among"].any()))
        below = wrap(", ".join(missed), int((extent + _BARS + _ROOM) / _LETTER))
        below = [line.replace(_HOLD, " ") for line in below]
    positions = [*words["place"].tolist(), *(f"line {index}" for index in range(len(below)))]
    y = alt.Y(
        "place:O", sort=None, title=None, scale=alt.Scale(domain=positions, paddingInner=0.2),
        axis=alt.Axis(labels=False, ticks=False, domain=False, minExtent=extent),
    )  # fmt: skip
    x = alt.X(
        "p:Q", title=None, scale=alt.Scale(domain=[0, top], range=[0, _BARS], nice=False), axis=_axis(top)
    )
    base = alt.Chart(words).encode(y=y)
    tooltip = [alt.Tooltip("word:N", title="word"), alt.Tooltip("place:O", title="place")]
    bars = base.mark_bar().encode(
        x=x,
        color=alt.condition("datum.answer", alt.value(theme.PALETTE[1]), alt.value(fill)),
        tooltip=[*tooltip, alt.Tooltip("p:Q", format=".3%", title="probability")],
    )
    text: dict[str, Any] = {"align": "left", "baseline": "middle", "color": theme.INK, "fontSize": 11}
    numbers = base.mark_text(dx=4, **text).encode(x=x, text="end:N")
    # an axis would take its labels from an expression, where Vega stumbles over words such as "if"
    names = base.mark_text(dx=-6, **text | {"align": "right", "fontSize": 12}).encode(
        x=alt.value(0), text="shown:N"
    )
    layers: list[alt.Chart] = [bars, numbers, names]
    if below:
        lines = pd.DataFrame({"place": positions[len(words) :], "line": below})
        layers.append(alt.Chart(lines).mark_text(**text).encode(y=y, x=alt.value(-extent), text="line:N"))
    return alt.LayerChart(layer=layers, width=_BARS + _ROOM, height=_STEP * len(positions))


def _answer_facts(answer: Mapping[str, Any], *, among: bool) -> list[str]:
    """Return the rank label of an answer outside the top words."""
    facts = [f"answer: {_word_text(str(answer['answer']))}"]
    if answer.get("known") is not None and not answer["known"]:
        facts.append("outside the vocabulary")
    elif "rank" in answer:
        facts.append(f"rank {int(answer['rank']):,}")
    if "log_prob" in answer and not among:
        facts.append(f"p = {probability(float(np.exp(answer['log_prob'])))}")
    return [fact.replace(" ", _HOLD) for fact in facts]


def _axis(top: float) -> alt.Axis:
    step = next((step for step in _STEPS if top <= _TICKS * step), _STEPS[-1])
    digits = max(0, int(np.ceil(-np.log10(step) - 2 - 1e-9)))
    ticks = [round(float(tick), 12) for tick in np.arange(0, top + step * 1e-9, step)]
    return alt.Axis(format=f".{digits}%", values=ticks, tickSize=4, grid=False)


def _word_text(word: str) -> str:
    """Return a token as readable text of limited length."""
    text = wt.readable(word) if len(word.split()) == 1 else word
    name = _NAMES.get(word)
    if name:
        return name if word.startswith("<") else f"{text} ({name})"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _heading(item: Item | None, item_id: str) -> list[str]:
    """Return the last words before the blank, the blank, and a few words after it."""
    if item is None:
        return [item_id]
    text, [(start, end)] = item.readable([item.answer_span])
    after = text[end:].split()
    tail = ("" if text[end : end + 1].strip() else " ") + " ".join(after[:_AFTER])
    tail = f"{_BLANK}{tail.rstrip()}{' …' if len(after) > _AFTER else ''}"
    glue = "" if text[:start][-1:].strip() else " "
    before = text[:start].split()
    words: list[str] = []
    while before and len(_lines([*before[-1:], *words], glue, tail)) <= _LINES:
        words.insert(0, before.pop())
    return _lines(words, glue, tail, truncated=bool(before))


def _lines(words: Sequence[str], glue: str, tail: str, *, truncated: bool = True) -> list[str]:
    text = f"{'… ' if truncated else ''}{' '.join(words)}{glue if words else ''}{tail}"
    return wrap(text, _LINE)


def _title(lines: Sequence[str]) -> alt.TitleParams:
    return alt.TitleParams(
        text=list(lines), fontSize=12, fontWeight="normal", frame="bounds", offset=8, lineHeight=15
    )
