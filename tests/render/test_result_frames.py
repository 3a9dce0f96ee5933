"""What results of the evaluation and of the analysis show, and that they stay frames."""

import io
import pickle
import re

import numpy as np
import pandas as pd
import pytest
from html_page import Page
from made_predictions import made, run, scores
from refused import refused

from workbench.analysis.contrast import contrast
from workbench.evaluation.leaderboard import leaderboard
from workbench.evaluation.metrics import evaluate
from workbench.evaluation.replicates import replicates
from workbench.evaluation.significance import significance
from workbench.render.results import Table, TableColumn, TableLayout, split_signatures, with_interval

QUICK = {"resamples": 20}
FRAME = pd.DataFrame({
    "model": ["<b>&_one", "two"], "source": [None, "a paper"], "set": ["dev", "test"],
    "accuracy": [0.1234, np.nan], "accuracy_low": [0.1, np.nan], "accuracy_high": [0.2, np.nan],
    "kind": ["share", "number"], "value": [0.5, 1234.5], "p_holm": [1e-9, 0.04],
    "difference": [-0.00001, 0.02], "hidden": [1, 2],
    "signature": ["s/dev|n:3|unit:word|seed:0", "s/dev|n:4|unit:token|seed:0"],
})  # fmt: skip
LAYOUT = TableLayout(
    "A title",
    (
        TableColumn("model", detail="source"), with_interval("accuracy", "share"),
        TableColumn("difference", "points"),
        TableColumn("value", ("kind", {"share": "percent"})), TableColumn("p_holm", "p"),
    ),
    ("set",), "signature",
)  # fmt: skip


@pytest.fixture
def shown():
    FRAME.attrs["note"] = "How it was measured."
    return Table(FRAME, LAYOUT)


def headings(html):
    return re.findall(r"<th[^>]*>([^<]*)</th>", html.split("</thead>")[0])


def test_a_notebook_sees_the_columns_that_matter(shown):
    html = shown._repr_html_()
    page = Page(html)
    assert page.open == []
    wanted = ["Model", "Accuracy (%)", "Difference (points)", "Value", "p (Holm)"]
    assert headings(html) == wanted
    assert html.count(' title="') >= len(wanted)
    assert (
        "McNemar" in evaluate.__doc__
        or 'title="p value corrected for the number of tests (Holm 1979)."' in html
    )
    for text in ("<b>&_one - 12.3", "two (a paper)", "12.3 [10.0, 20.0]", "50.0 %", "1,235", "< 0.0001"):
        assert text in page.text or text.removeprefix("<b>&_one - ") in page.text
    assert "<b>" not in html
    assert "<details><summary>Notes</summary>" in html
    assert "Signature: s/dev|seed:0" in page.text
    assert "unit:token" in page.text
    assert "hidden" not in page.text
    assert "0.0" in page.text
    assert not re.search("[-+\N{MINUS SIGN}]0\\.0", page.text)


def test_it_is_written_for_papers_pages_and_spreadsheets(shown):
    assert "Signature" not in shown.to_latex()
    latex = shown.to_latex("tab:mine", signatures=True)
    assert r"\resizebox{\ifdim\width>\linewidth \linewidth\else\width\fi}{!}{%" in latex
    assert r"\label{tab:mine}" in latex
    accuracy, value, p = r"--\phantom{.0} &", r"1,235\phantom{.0}\phantom{ \%}", r"0.04\phantom{00}"
    assert rf"two (a paper)\textsuperscript{{b}} & {accuracy} & +2.0 & {value} & {p} \\" in latex
    assert r"\textless{}b\textgreater{}\&\_one" in latex
    assert r"\textsuperscript{b}\,Signature: unit:token" in latex
    markdown = shown.to_markdown()
    assert markdown.count("| :-- | --: | --: | --: | --: |") == 2  # one table a section
    assert "two (a paper) \\[b\\]" in markdown
    assert "\n\n\\[b\\] Signature: unit:token\n" in markdown
    text = shown.to_csv()
    assert pd.read_csv(io.StringIO(text)).columns.tolist() == FRAME.columns.tolist()
    assert str(shown).split("\n")[0].split("  ")[0] == "Model"
    assert "How it was measured." in str(shown)


def test_it_stays_a_frame(shown):
    assert type(shown.frame) is type(shown.head(1)) is type(shown[["model"]]) is pd.DataFrame
    pd.testing.assert_frame_equal(shown.frame, FRAME)
    assert shown.frame.attrs == FRAME.attrs
    again = pickle.loads(pickle.dumps(shown))  # noqa: S301 - our own
    assert again.to_html() == shown.to_html()
    assert shown.copy()["accuracy"].iloc[0] == shown["accuracy"].iloc[0]
    assert shown.query("set == 'dev'").to_dict("records")[0]["hidden"] == 1
    empty = Table(FRAME.iloc[:0], LAYOUT)
    assert "no rows" in empty.to_html()
    assert "no rows" in str(empty)
    assert Page(empty.to_html()).open == []
    assert r"\bottomrule" in empty.to_latex()
    assert "| Model |" in empty.to_markdown()


def test_signatures_are_cut_into_what_they_share_and_the_rest():
    assert split_signatures(["a|n:1|x:1", None, "a|n:2|x:2"]) == ("a", ["x:1", "", "x:2"])
    assert split_signatures(["a|x:1", "b|x:1"], sets=False) == ("x:1", ["", ""])
    assert split_signatures([None]) == ("", [""])


def test_results_show_five_to_eleven_columns_in_percent():
    a, b = made(80), made(80, model="other, capitalised", seed=1, variant="capitalised")
    table = evaluate([run(a, "a"), run(b, "b")], **QUICK)
    measured = ["Accuracy (%)", "Perplexity (per target word)", "Median rank", "Bits per word"]
    assert headings(table.to_html()) == ["Model", "n", *measured]
    assert f"{100 * table['accuracy'].iloc[0]:.1f} [" in Page(table.to_html()).text
    by = evaluate(a, by=["split", "known"], **QUICK)
    assert headings(by.to_html())[:4] == ["Model", "Split", "Answer in vocabulary", "n"]
    twice = evaluate([run(a, "first"), run(a, "second")], **QUICK)
    assert headings(twice.to_html())[:3] == ["Model", "Run", "n"]
    assert "first" in Page(twice.to_html()).text
    board = leaderboard([a, b.assign(variant="plain")], **QUICK)
    assert headings(board.to_html())[: 7 + len(measured)] == [
        "Place", "Model", "n", *measured,
        "Difference from the best (points)", "MDE (points)", "p (Holm)",
    ]  # fmt: skip


def test_a_signature_names_what_was_measured():
    table = evaluate(made(60), level=0.9, seed=4, **QUICK)
    parts = table["signature"].iloc[0].split("|")
    assert parts[:2] == ["lambada/dev/plain", "n:60"]
    assert {"unit:word", "vocab:1000", "ci:90", "boot:20", "seed:4", "version:0.1.0"} <= set(parts)
    assert evaluate(made(60), level=0.9, seed=4, **QUICK)["signature"].iloc[0] == "|".join(parts)
    prompted = made(60).assign(prompt='{"template": "{passage}", "shots": 0}')
    assert evaluate(prompted, level=0.9, seed=4, **QUICK)["signature"].iloc[0] != "|".join(parts)


def test_a_paired_comparison_is_a_table_and_a_row():
    a, b = made(80), made(80, model="other", seed=1)
    result = significance(a, b, **QUICK)
    assert headings(result._repr_html_())[1:] == ["made", "other", "Difference", "p", "MDE (points)"]
    assert result.frame["difference"].item() == result.difference
    assert (result.frame["interval_low"].item(), result.frame["interval_high"].item()) == result.interval
    assert result.to_csv().startswith("a,b,n,")
    assert r"{15em}rrr@{\enspace}lrr}" in result.to_latex()
    assert "points" in result.to_markdown()
    assert "ln p" not in significance(a, scores(b), **QUICK).to_html()


def test_tables_say_what_codes_stand_for():
    frame, codes = made(40), ["CN", "PN", "own", None]
    classes = pd.DataFrame({"item_id": frame["item_id"], "target_class": [codes[i % 4] for i in range(40)]})
    table = evaluate(frame, annotations=classes, by="target_class", **QUICK)
    assert table["target_class"].tolist()[:3] == ["PN", "CN", "own"]
    shown = (Page(table.to_html()).text, table.to_latex(), table.to_markdown(), str(table))
    for text in shown:
        assert all(name in text for name in ("common noun", "proper noun", "own"))
        assert not re.search(r"\b(CN|PN)\b", text)
    assert "CN" in table.to_csv()
    rows = replicates([made(40, seed=k, word_class=["NE", "V"] * 20).assign(run=f"r{k}") for k in (1, 2)])
    assert "named entity" in str(rows)
    assert rows["word_class"].tolist() == ["all", "NE", "V"]
    compared = contrast(classes[:16], classes[16:])
    assert set(compared["level"]) == {"CN", "PN", "own"}
    assert "Target class (common noun)" in str(compared)
    in_sections = Table(FRAME.assign(word_class=["NE", "P"]), LAYOUT._replace(sections=("word_class",)))
    assert "preposition" in str(in_sections)


def test_columns_without_a_value_are_left_out_of_the_display_alone():
    empty = Table(FRAME.assign(value=np.nan, source=""), LAYOUT)
    assert headings(empty.to_html()) == ["Model", "Accuracy (%)", "Difference (points)", "p (Holm)"]
    assert empty.to_latex(columns=["model", "value"]).count("--") == 2
    assert "value" in empty.frame


def test_numbers_of_a_column_have_equally_many_decimals():
    columns = (TableColumn("model"), TableColumn("value", "quantity"), TableColumn("change", "signed"),
               TableColumn("time", "seconds"))  # fmt: skip
    frame = pd.DataFrame({"model": list("abc"), "value": [0.8333, 50.34, 3.2249], "change": [0.02, -1.5, 0.0],
                          "time": [100.2, 183.0, 1e4]})  # fmt: skip
    lines = str(Table(frame, TableLayout("", columns))).split("\n")[1:]
    assert [line.split()[1:] for line in lines] == [
        ["0.83", "+0.020", "100"], ["50.34", "\N{MINUS SIGN}1.500", "183"], ["3.22", "0.000", "10,000"],
    ]  # fmt: skip


def test_columns_of_a_latex_table_are_chosen():
    shown = Table(FRAME, LAYOUT)
    lines = shown.to_latex(columns=["model", "hidden", "p_holm"]).split("\n")
    assert r"Model & hidden & p (Holm) \\" in lines
    refused(shown.to_latex, columns=["model", "none"])
    refused(shown.to_latex, width="margin")
