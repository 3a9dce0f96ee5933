"""The tables of charts: the numbers that tooltips show, escaped, and below the cell in a notebook."""

from types import SimpleNamespace

import altair as alt
import pandas as pd
import pytest
from adversarial_text import CHARTS, STRINGS
from html_page import Page

from workbench import charts
from workbench.charts import chart_tables
from workbench.charts.chart_tables import first_title, tables_html

FRAME = pd.DataFrame({"group": ["a", "b"], "share": [0.25, None], "n": [1200, 3]})
TIPS = [
    alt.Tooltip("group:N"),
    alt.Tooltip("share:Q", format=".1%", title="share of all"),
    alt.Tooltip("n:Q", format=","),
]


def chart(**options):
    return (
        alt.Chart(FRAME, title="Shares").mark_bar().encode(x="group:N", y="share:Q", tooltip=TIPS, **options)
    )


def tables(made):
    return chart_tables.chart_tables(made.to_dict())


def test_a_table_has_the_columns_and_formats_of_the_tooltips():
    (table,) = tables(chart())
    assert table.title == "Shares"
    assert table.headings == ["group", "share of all", "n"]
    assert table.rows == [["a", "25.0 %", "1,200"], ["b", "-", "3"]]
    assert table.n_rows == 2


def test_parts_inherit_data_and_each_data_set_has_one_table():
    other = (
        alt.Chart(FRAME.assign(n=9), title="Others").mark_bar().encode(x="group:N", y="n:Q", tooltip=["n:Q"])
    )
    labels = alt.Chart(pd.DataFrame({"line": ["a note"]})).mark_text().encode(text="line:N")
    made = alt.vconcat(alt.layer(chart(), chart().mark_rule()), other, labels)
    assert [(table.title, table.headings[0]) for table in tables(made)] == [
        ("Shares", "group"),
        ("Others", "group"),
    ]
    assert first_title(made.to_dict()) == "Shares"


def test_without_tooltips_a_table_has_the_axes():
    x, y = alt.X("n:Q", title="words"), alt.Y("share:Q", axis=alt.Axis(format="~s"))
    (table,) = tables(alt.Chart(FRAME).mark_line().encode(x=x, y=y))
    assert (table.headings, table.rows[0]) == (["words", "share"], ["1200", "0.25"])


def test_a_long_table_says_how_much_of_it_there_is(monkeypatch):
    monkeypatch.setattr(chart_tables, "MAX_ROWS", 1)
    assert "The first 1 of 2 rows." in tables_html(chart().to_dict())
    assert len(tables(chart())[0].rows) == 1


def test_a_chart_without_numbers_has_no_table():
    assert tables_html(alt.Chart(FRAME).mark_bar().encode(x="count()").to_dict()) == ""
    assert tables_html(alt.Chart(FRAME.iloc[:0]).mark_bar().encode(x="n:Q", tooltip=TIPS).to_dict()) == ""
    assert first_title({}) == "Chart"


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
    assert "20.0 %" in output["text/html"]
    shell.end_cell()
    assert len(shell.outputs) == 1


def test_without_a_notebook_nothing_is_published(shell):
    del shell.kernel
    charts.context_curve(
        pd.DataFrame({"model": ["m"], "unit": ["words"], "reads": ["1"], "accuracy": [0.2], "low": [0.1],
                      "high": [0.3], "n": [9]})
    )._repr_mimebundle_()  # fmt: skip
    assert shell.callbacks == []
