"""The tables of charts: the frames that they were given, escaped, and below the cell in a notebook."""

import re
from types import SimpleNamespace

import altair as alt
import pandas as pd
import pytest
from adversarial_text import CHARTS, STRINGS
from hand_annotated import ROWS, frame
from html_page import Page

from workbench import charts
from workbench.charts import chart_tables
from workbench.charts.chart_tables import chart_name, tables_html

FRAME = pd.DataFrame({"group": ["a", "b"], "share": [0.25, None], "n": [1200, 3]})


def chart(data=FRAME, title="Shares"):
    return alt.Chart(data, title=title).mark_bar().encode(x="group:N", y="share:Q")


def tables(made):
    """Return the tables of a chart: rows of the texts of their cells, the headings first."""
    texts = re.findall(r"<table>.*?</table>", tables_html(made.to_dict()))
    rows = (text.split("<tr>")[1:] for text in texts)
    return [[re.findall(r"<t[hd][^>]*>([^<]*)<", row) for row in table] for table in rows]


def test_a_chart_of_the_workbench_shows_what_was_counted():
    counts, paper = tables(charts.in_context(frame(ids="lambada/dev")))
    columns = [counts[0].index(name) for name in ("label", "count", "n", "Share")]
    assert [[row[k] for k in columns] for row in counts[1:]] == [
        ["in context", "5", "9", "0.5556"],
        ["not in context", "4", "9", "0.4444"],
    ]
    assert [row[1] for row in paper[1:]] == ["in context", "not in context"]


def test_charts_side_by_side_have_the_tables_of_all():
    bars = charts.in_context(frame()), charts.target_classes({"a": frame(), "b": frame(ROWS[2:])})
    assert [len(table) for table in tables(charts.side_by_side(*bars))] == [3, 13]


def test_any_other_chart_shows_its_data_sets():
    made = alt.vconcat(alt.layer(chart(), chart().mark_rule()), chart(FRAME.assign(n=9), title="Others"))
    first, second = tables(made)
    assert first == [["Group", "Share", "n"], ["a", "0.25", "1,200"], ["b", "-", "3"]]
    assert [row[2] for row in second] == ["n", "9", "9"]
    assert chart_name(chart().to_dict()) == "Shares"
    assert "<summary>Table</summary>" in tables_html(made.to_dict())


def test_a_long_table_says_how_much_of_it_there_is(monkeypatch):
    monkeypatch.setattr(chart_tables, "MAX_ROWS", 1)
    assert "The first 1 of 2 rows." in tables_html(chart().to_dict())
    assert len(tables(chart())[0]) == 2


def test_a_chart_without_numbers_has_no_table():
    assert tables_html(chart(FRAME.iloc[:0]).to_dict()) == ""
    assert chart_name({}) == ""


@pytest.mark.parametrize("name", CHARTS)
def test_every_chart_of_the_workbench_says_what_it_shows(name):
    assert chart_name(CHARTS[name]("a text").to_dict())


@pytest.mark.parametrize("name", CHARTS)
def test_every_chart_has_a_table_that_is_text_alone(name):
    text = " ".join(STRINGS[key] for key in ("image", "end of script", "attribute", "template"))
    html = tables_html(CHARTS[name](text).to_dict())
    page = Page(html)
    assert page.open == []
    assert {"details", "summary", "table"} <= set(page.tags)
    assert not {"img", "script", "svg"} & set(page.tags)


class Shell:
    """As much of IPython's shell as the tables need."""

    def __init__(self):
        self.kernel, self.callbacks, self.outputs = object(), [], []
        self.events = SimpleNamespace(
            register=lambda _event, call: self.callbacks.append(call),
            unregister=lambda _event, call: self.callbacks.remove(call),
        )

    def end_cell(self):
        for call in [*self.callbacks]:
            call()


@pytest.fixture
def shell(monkeypatch):
    made = Shell()
    monkeypatch.setattr("IPython.core.getipython.get_ipython", lambda: made)
    monkeypatch.setattr("IPython.display.publish_display_data", made.outputs.append)
    return made


def test_a_cell_ends_with_the_tables_of_its_charts(shell):
    table = pd.DataFrame({"model": ["m"] * 2, "unit": "words", "reads": ["1", "all"], "accuracy": [0.2, 0.5],
                          "low": 0.1, "high": 0.6, "n": 9})  # fmt: skip
    curve = charts.context_curve(table)
    for _ in range(2):  # displayed twice, one table
        data, _ = curve._repr_mimebundle_()
        assert "text/html" not in data  # the chart stays one output
    chart()._repr_mimebundle_()  # of the user's own
    assert shell.outputs == []
    shell.end_cell()
    (output,) = shell.outputs
    assert output["text/html"].count("<details") == 1
    assert "0.2</td>" in output["text/html"]
    shell.end_cell()
    assert len(shell.outputs) == 1


def test_without_a_notebook_nothing_is_published(shell):
    del shell.kernel
    charts.context_curve(
        pd.DataFrame({"model": ["m"], "unit": ["words"], "reads": ["1"], "accuracy": [0.2], "low": [0.1],
                      "high": [0.3], "n": [9]})
    )._repr_mimebundle_()  # fmt: skip
    assert shell.callbacks == []
