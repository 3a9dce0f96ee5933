"""Strings that try to become something else: markup, code, a formula, a field, the end of what holds them.

Each is text and nothing else, wherever it is shown. `CHARTS` and `TABLES` make every chart and table of the
workbench with such strings in each place that a name, a word or a heading can come from.
"""

from types import SimpleNamespace

import numpy as np
import pandas as pd
from adversarial_items import items_of, predicted, predictions_of
from attentive import Windows
from hand_annotated import ROWS, frame
from made_predictions import made
from widget_cases import CASES

import workbench as wb
from workbench import charts
from workbench.construction.manifest import Manifest, Step
from workbench.evaluation.contamination import Contamination
from workbench.evaluation.interchange.import_results import Imported
from workbench.evaluation.paper import table
from workbench.evaluation.significance import significance
from workbench.items.notes import NotesTable
from workbench.people.reports import curve
from workbench.render.results import Table, TableColumn, TableLayout
from workbench.training.history import Training

RUN = "window.hacked=1;alert(1)"
STRINGS = {
    "end of script": f"</script><script>{RUN}</script>",
    "comment in script": f"<!--<script>{RUN}</script>",
    "image": f"<img src=x onerror='{RUN}'>",
    "svg": f"<svg onload='{RUN}'><a href='javascript:{RUN}'>x</a></svg>",
    "end of style": f"</style></title></textarea><script>{RUN}</script>",
    "attribute": f"\" onmouseover=\"{RUN}\" x='",
    "link": f"javascript:{RUN}",
    "address": "https://example.org/tracker.png",
    "character data": f"]]><script>{RUN}</script>",
    "entity": "&lt;b&gt; &amp; &#60;script&#62;",
    "template": "{{ 7 * 7 }} {% raw %} ${7*7} %(spec)s %s {0}",
    "lines of scripts": "a\u2028b\u2029c",
    "right to left": "\u202eevil\u202c \u2066x",
    "control characters": "a\0b\x01c\x1bd\x7f\ufffe",
    "beyond the basic plane": "\U0001f600 e\u0301",
    "long": "w" * 2000,
    "expression": "datum['x'] || datum.y",
    "field": "a.b[0]['c']",
    "quotes": "it's \"quoted\" `ticks` \\ back\\slash\\",
    "LaTeX": r"\input{/etc/passwd} $x^2$ 50% #1 a_b {c} ~ ^ & \\",
    "Markdown": "| a | **b** [c](javascript:d) `e` <br> # f",
    "formula": '=HYPERLINK("https://example.org","x")',
    "plus": "+1+cmd|' /C calc'!A0",
    "minus": "-2+3",
    "at": "@SUM(A1:A9)",
    "tab": "\t=1+1",
    "line ends": "\r\n=1+1\r",
    "word of Vega": "if",
    "colour of text": "currentColor",
    "prototype": "__proto__",
    "constructor": "constructor",
    "empty": "",
}  # fmt: skip


def _expected(text):
    return charts.expected({f"{text} {k}": predicted(text, 2, seed=k) for k in range(2)})


def _trials(text):
    rows = [(w, name, 0.1 + w / 9, 9 + w, w == 0.5) for w in (0.0, 0.5, 1.0) for name in (text, f"{text} 2")]
    return pd.DataFrame(rows, columns=["weight", "set", "accuracy", "perplexity", "chosen"])


def _curves(text):
    history = pd.DataFrame({"tokens": [1e3, 2e3], "loss": [9.1, 8.2], "tokens_per_second": [800, 900]})
    scores = {"step": [1, 2], "tokens": [1e3, 2e3], "seconds": [1, 2]}
    return charts.training_curves(history, pd.DataFrame(scores | {text: [1.0, 2.0]}))


def _accuracy(text):
    frames = [predicted(text, seed=k) for k in range(2)]
    column = pd.DataFrame({"item_id": frames[0]["item_id"], text: np.array([text, "b"])[np.arange(20) % 2]})
    return charts.accuracy(frames, column, by=text)


def _sets(text):
    return {text: frame(ids=text), f"{text} 2": frame(ROWS[2:], ids=text)}


def _figure_2(text):
    parts = {name: frame(ids=text) for name in ("lambada", "input", "sentence")}
    return charts.figure_2(**parts, title=text)


def _attention_map(text):
    model = Windows(text, (text, f"{text}, {text}"), prediction=text)
    item = items_of(text)[0]
    return charts.attention_map(item, model.attend([item])[0])


def _influence_curve(text):
    rows = [(text, 0, 0, 4, text, 9, 0.5), (text, 1, 5, 9, text, 1, -0.1), ("b", 0, 0, 3, text, 4, 0.2)]
    columns = ["item_id", "part", "start", "end", "text", "distance", "influence"]
    parts = pd.DataFrame(rows, columns=columns)
    return charts.influence_curve({text: parts})


def _protocols(text):
    model = wb.models.RandomWord("passage")
    model.name = text
    variants = [wb.load("sample", "test", variant=name)[:4] for name in ("plain", "capitalised")]
    return wb.protocols(model, variants, [{"text": "plain"}, {"text": "capitalised"}], resamples=20)


CHARTS = {
    "accuracy": _accuracy,
    "attention_map": _attention_map,
    "context_needed": lambda text: charts.context_needed({text: curve(np.array([0, 2]), 3, 3)}),
    "context_curve": lambda text: charts.context_curve(
        pd.DataFrame({"model": [text] * 2, "unit": "words", "reads": ["1", "all"], "accuracy": [0.2, 0.5],
                      "low": [0.1, 0.4], "high": [0.3, 0.6], "n": [9, 9]})
    ),
    "context_curve of runs": lambda text: charts.context_curve(
        {text: {text: predicted(text), None: predicted(text)}}
    ),
    "direct_speech": lambda text: charts.direct_speech(_sets(text), title=text),
    "expected": _expected,
    "figure_2": _figure_2,
    "influence_curve": _influence_curve,
    "waterfall": lambda text: charts.waterfall(_protocols(text)),
    "in_context": lambda text: charts.in_context(_sets(text), title=text),
    "lengths": lambda text: charts.lengths(_sets(text), title=text),
    "mention_distance": lambda text: charts.mention_distance(_sets(text), title=text),
    "ranks": lambda text: charts.ranks([predicted(text, seed=k) for k in range(2)]),
    "scatter": lambda text: charts.scatter(predicted(text), predicted(text, seed=1)),
    "side_by_side": lambda text: charts.side_by_side(*[charts.target_classes(_sets(text))] * 2),
    "target_classes": lambda text: charts.target_classes(_sets(text), title=text),
    "target_classes_out_of_context": lambda text: charts.target_classes_out_of_context(_sets(text)),
    "training_curves": _curves,
    "tuning": lambda text: charts.tuning(_trials(text)),
    "funnel": lambda text: charts.funnel(
        pd.DataFrame({"step": [text], "n_in": [3], "n_out": [2], "unit": [text], "reasons": [text]})
    ),
    "windows": lambda text: charts.windows({text: predicted(text).assign(word_class="NE")}),
}  # fmt: skip
"""Every chart, as a function of the string."""


def _result_table(text):
    return Table(
        pd.DataFrame({text: [text, "b"], "n": [-1, 2], "more": [text, text]}),
        TableLayout(
            text, (TableColumn(text, heading=text, tooltip=text, detail="more"), TableColumn("n", "count"))
        ),
    )


def _contamination(text):
    frame = {"item_id": [text], "passage": [True], "query": [True], "query_words": [9], "n_grams": [2]}
    pairs = pd.DataFrame({"item_id": [text], "book_id": [text], "found": [1], "share": [0.5]})
    books = pd.DataFrame({"book_id": [text], "words": [9]})
    return Contamination(8, pd.DataFrame(frame | {"found": [1], "share": [0.5]}), pairs, books)


def _imported(text):
    items = items_of(text)
    report = pd.DataFrame({"line": [1], "problem": [text], "text": [text], "kept": [False]})
    rows = predictions_of(text, items)[0]
    return Imported(text, rows, items, {text: 2}, name=text, report=report)


def _notes(text):
    notes = NotesTable({"item_id": [text], "tags": [[text]], "note": [text]})
    return SimpleNamespace(_repr_html_=notes._repr_html_)  # the LaTeX of pandas escapes nothing


PAGES = {case.view: case.hostile for case in CASES.values()} | {
    "Contamination": _contamination,
    "Imported": _imported,
    "Item": lambda text: items_of(text)[0],
    "Items": items_of,
    "Manifest": lambda text: Manifest(steps=[Step(text, 9, 4, {text: 3, f"{text} 2": 2}, unit=text)]),
    "NotesTable": _notes,
    "ProtocolRuns": _protocols,
    "ResultsTable": lambda text: table("lambada", made(9, start="lambada/test", model=text), resamples=9),
    "Significance": lambda text: significance(predicted(text), predicted(text, seed=1), resamples=9),
    "Table": _result_table,
    "Training": lambda text: Training(text, device=text, steps=9, notes=[text, f"{text} 2"]),
}
"""Everything that is shown as HTML, by its class, as a function of the string."""
