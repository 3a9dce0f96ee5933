import re
import shutil
import subprocess
from functools import partial

import numpy as np
import pandas as pd
import pytest
from html_page import Page
from hypothesis import given, settings
from hypothesis import strategies as st
from made_predictions import made, run, scores
from refused import refused

from workbench.datasets import published
from workbench.evaluation.metrics import evaluate
from workbench.evaluation.paper import NAMES, table
from workbench.evaluation.significance import significance
from workbench.render import numbers
from workbench.render.numbers import MINUS, in_unit
from workbench.render.tables import (
    Cell,
    Grid,
    Heading,
    escape_latex,
    footnote_mark,
    grid_html,
    grid_latex,
    grid_text,
    html_table,
)
from workbench.storage.errors import DataError

QUICK = {"resamples": 20}
SOURCES = {
    "lambada": "lambada_table1",
    "cbt": "cbt_test_table2",
    "msrcc": "msrcc_table1",
    "cnnqa": "cnnqa_table3",
    "cbt-variants": "cbt_table4",
    "cbt-anonymised": "cbt_anonymised",
    "cnnqa-ablation": "cnnqa_ablation",
}


def lambada(split="dev", **columns):
    return made(150, start=f"lambada/{split}", **columns)


def book(word_class, split="dev", n=60, **columns):
    return made(n, start=f"cbt/{split}", word_class=word_class, variant=word_class, **columns).assign(
        item_id=[f"cbt/{split}/{word_class}/{i:06d}" for i in range(n)]
    )


def rows(shown, **wanted):
    frame = shown.frame
    for column, value in wanted.items():
        frame = frame[frame[column] == value]
    return frame


@pytest.mark.parametrize("name", NAMES)
def test_without_runs_every_row_of_the_paper_is_there_and_missing(name):
    shown = table(name, [])
    source = published.published_table(SOURCES[name])
    numbers = [column for column in source.columns if column not in {"set", "system", "note"}]
    cells = source[numbers].to_numpy().ravel().tolist()
    assert shown.frame["printed"].fillna("").tolist() == cells
    assert shown.frame["published"].dropna().tolist() == [float(text) for text in cells if text]
    assert shown.frame["system"].tolist() == [name for name in source["system"] for _ in numbers]
    assert shown.frame[["model", "ours", "low", "difference", "n"]].isna().all(axis=None)
    assert [note.startswith("There are no results for ") for note in shown.notes] == [True]


def test_the_validation_table_stands_beside_the_development_set():
    shown = table("cbt", book("NE", system="Sliding  window"), **QUICK)
    printed = published.published_table("cbt_validation")["verbs"].tolist()
    assert rows(shown, column="Verbs")["printed"].tolist() == ["0.716", "0.828", *printed]  # people first
    assert set(shown.frame["split"]) == {"dev"}
    assert "validation" in shown.title
    assert "test set" in table("cbt", book("NE", "test"), **QUICK).title


def test_ours_are_measured_as_everywhere_else():
    dev, control = lambada(system="n-gram", seed=3), lambada("control", system="N-Gram", seed=4, right=0.6)
    shown = table("lambada", [run(dev, "d"), run(control, "c")], **QUICK)
    for section, frame in (("lambada", dev), ("control", control)):
        (wanted,) = evaluate(frame, **QUICK).to_dict("records")
        for measure, scale in (("accuracy", 100), ("perplexity", 1), ("median_rank", 1)):
            (cell,) = rows(shown, section=section, system="N-Gram", measure=measure).to_dict("records")
            for column, name in (("ours", ""), ("low", "_low"), ("high", "_high")):
                assert cell[column] == pytest.approx(scale * wanted[measure + name])
            assert pd.isna(cell["difference"])  # 150 items, of another split than the paper's
            assert (cell["n"], cell["model"]) == (150, "made")
            if measure == "accuracy":
                assert cell["ours_known"] == pytest.approx(100 * wanted["accuracy_known"])
                assert cell["expected"] == pytest.approx(100 * wanted["expected_accuracy"])
    assert rows(shown, system="LSTM")["ours"].isna().all()


def test_a_difference_is_of_the_same_items():
    whole = book("NE", "test", n=2500, system="LSTMS (QUERY)", seed=1)
    for frame, dataset, is_same in (
        (whole, None, True),
        (whole[:2499], None, False),
        (whole.assign(unit="last-token"), None, False),  # another protocol
        (whole.assign(detokenised=True), None, False),
        (book("NE", "dev", n=2000, system="LSTMS (QUERY)", seed=1), None, True),  # appendix B
        (whole.assign(dataset="sample"), "sample", False),
    ):
        shown = table("cbt", run(frame, "r"), dataset=dataset, **QUICK)
        (cell,) = shown.frame[shown.frame["ours"].notna()].to_dict("records")
        assert pd.notna(cell["difference"]) == is_same
        assert ("No difference is shown" in " ".join(shown.notes)) != is_same
        assert ("ours on the data set 'sample'" in shown.title) == (dataset is not None)
        assert ("on items of sample (test), not on those of the paper" in shown.notes[0]) == bool(dataset)
        if is_same:
            assert cell["difference"] == pytest.approx(cell["ours"] - cell["published"])
    variants = table("cbt-variants", run(book("NE", "dev", n=2000), "r"), **QUICK).frame
    assert variants["difference"].isna().all()  # the paper's numbers are on the test set


def test_several_models_of_one_system_all_have_rows_and_others_come_last():
    a, b = lambada(system="RNN", model="small"), lambada(system="RNN", model="large", seed=1)
    extra, nameless = lambada(system="Pointer", model="p"), lambada(model="q")
    shown = table("lambada", [extra, a, nameless, b], **QUICK)
    ours = rows(shown, section="lambada", measure="accuracy")
    order = published.published_table("lambada_table1").query("set == 'lambada'")["system"].tolist()
    at = order.index("RNN")
    assert ours["system"].fillna("-").tolist() == [*order[:at], "RNN", *order[at:], "Pointer", "-"]
    assert ours["model"].dropna().tolist() == ["small", "large", "p", "q"]
    # nobody predicted the control set: it has the rows of the paper only
    assert len(rows(shown, section="control", measure="accuracy")) == len(order)


def test_runs_of_one_model_fill_one_row():
    window = partial(book, system="Sliding window")
    parts = [run(window(kind, seed=i), f"r{i}") for i, kind in enumerate(["NE", "CN", "P"])]
    other = window("NE", seed=7, run="again")
    found = rows(table("cbt", [*parts, other], **QUICK), system="SLIDING WINDOW")
    assert found["run"].tolist() == ["r0, r1, r2"] * 4 + ["again"] * 4
    assert found["ours"].isna().tolist() == [False, False, True, False, False, True, True, True]
    assert found["word_class"].tolist() == ["NE", "CN", "V", "P"] * 2
    assert found["measured_in"].unique().tolist() == ["fraction"]
    assert found["ours"].iloc[0] == parts[0].predictions["correct"].mean()


def test_other_variants_have_rows_of_their_own_and_are_named():
    plain, cased = lambada(system="N-Gram"), lambada(system="N-Gram", variant="capitalised", unknown="shared")
    runs = [
        plain,
        run(cased, "hash-1", seed=11),
        run(cased, "hash-2", seed=12),
        lambada(model="b", variant="x"),
    ]
    shown = table("lambada", runs, seed=5, **QUICK)
    assert "Variant: plain, capitalised, x. " in " ".join(shown.notes)
    assert shown.distinctions == ("seed", "variant", "unknown")
    assert re.search(r"\| made \| 11 \| capitalised \| shared \| ours \|", shown.to_markdown())
    assert "hash-" not in shown.to_html()
    shown = table("lambada", [plain, run(cased, "cased", seed=11)], seed=5, **QUICK)
    ours = rows(shown, system="N-Gram", section="lambada", measure="accuracy")
    assert ours["variant"].tolist() == ["plain", "capitalised"]
    notes = " ".join(shown.notes)
    for part in (
        "Variant: plain, capitalised.",
        "Vocabulary: 1000",
        "answers: unk, shared.",
        "Seeds",
        "seed 5",
    ):
        assert part in notes
    assert "| known |" in shown.to_markdown()
    assert "on items of lambada (dev). " in notes
    assert "The paper's numbers for lambada are on the test set." in notes


def test_a_random_baseline_has_its_expected_value():
    drawn = book("V", oov=0, tied=0, p_correct=0.1)
    assert "| expected |" in str(table("cbt", drawn, **QUICK))
    assert "| expected |" not in str(table("cbt", book("V"), **QUICK))


def test_the_split_is_chosen():
    both = [lambada(system="RNN"), lambada("test", system="LSTM")]
    shown = table("lambada", both, **QUICK)
    assert set(rows(shown, section="lambada")["split"]) == {"test"}
    dev = table("lambada", both, split="dev", **QUICK)
    assert rows(dev, system="RNN", section="lambada")["ours"].notna().all()
    assert rows(dev, system="LSTM", section="lambada")["ours"].isna().all()
    assert table("cnnqa", []).frame["split"].unique().tolist() == ["dev", "test"]
    refused(table, "lambada", [], split="control")
    refused(table, "squad", [])
    for wrong in (("\ud800", "lambada"), ("lambada", "\ud800")):
        with pytest.raises(DataError):
            table(wrong[0], [lambada()], dataset=wrong[1])


NASTY = r"""<script>alert("x")</script> & 50 % of $\alpha_1^2$ {a} ~ #1 | `b` *c* [d](e)"""


@pytest.fixture
def nasty():
    frames = [
        lambada("test", system="N-Gram", model=NASTY),
        scores(lambada("test", system=NASTY, model="two\nlines")),
        lambada("test", system="LSTM", model="never", log_prob=-np.inf),
    ]
    return table("lambada", frames, rows="all", **QUICK)


def test_the_html_is_balanced_and_escaped(nasty):
    html = nasty.to_html()
    page = Page(html)
    assert page.open == []
    allowed = {"style", "div", "table", "caption", "thead", "tbody", "tr", "th", "td", "small", "ul", "li"}
    allowed |= {"details", "summary", "wbr", "span"}
    assert set(page.tags) <= allowed
    assert NASTY in page.text
    assert nasty._repr_html_() == html
    style = html.split("</style>")[0]
    assert "var(--jp-content-font-color1,inherit)" in style
    assert not re.search(r"#(?:[0-9a-f]{3}|[0-9a-f]{6})\b", style)  # no colour that fits one theme only


def test_the_latex_is_balanced_and_escaped(nasty):
    shrink = r"\resizebox{\ifdim\width>\linewidth \linewidth\else\width\fi}{!}{%"
    assert shrink in nasty.to_latex()  # at most as wide as the page
    text = nasty.to_latex().replace(shrink, "{").replace(r">{\raggedright\arraybackslash}", "")
    begun, ended = (re.findall(rf"\\{word}{{(\w+)}}", text) for word in ("begin", "end"))
    assert begun == ended[::-1] == ["table", "tabular"]
    bare = re.sub(r"\\[{}%$&#_\\]", "", text.split("\n", 1)[1].replace("\\\\", ""))
    depth = np.cumsum([(sign == "{") - (sign == "}") for sign in bare])
    assert depth.min() == depth[-1] == 0
    assert not set(bare) & set("%#_^~<>|∞\N{MINUS SIGN}\N{EN DASH}")
    body = [line for line in text.split("\n") if line.endswith(r" \\")]
    spans = [sum(int(n) - 1 for n in re.findall(r"\\multicolumn{(\d+)}", line)) for line in body]
    cells = [len(re.findall(r"(?<!\\)&", line)) + 1 for line in body]
    assert {cell + span for cell, span in zip(cells, spans, strict=True)} == {5}


ARTICLE = r"""\documentclass{article}
\usepackage{array,booktabs,graphicx}
\let\shrink\resizebox %% tells the natural width
\renewcommand\resizebox[3]{\sbox0{#3}\typeout{width \the\wd0}\shrink{#1}{#2}{#3}}
\begin{document}
%s
\end{document}
"""


@pytest.fixture(scope="session")
def pdflatex(tmp_path_factory):
    """Return a function that compiles tables and returns the log; skip where there is no LaTeX."""
    program, finder = shutil.which("pdflatex"), shutil.which("kpsewhich")
    packages = ["array.sty", "booktabs.sty", "graphicx.sty"]
    if (
        not program
        or not finder
        or subprocess.run([finder, *packages], capture_output=True, check=False).returncode
    ):
        pytest.skip("needs pdflatex with array, booktabs and graphicx: texlive-latex-recommended")

    def compiled(*tables):
        folder = tmp_path_factory.mktemp("latex")
        (folder / "tables.tex").write_text(ARTICLE % "\n".join(tables), encoding="utf-8")
        command = [program, "-interaction=nonstopmode", "-halt-on-error", "tables.tex"]
        result = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, errors="replace", check=False
        )
        assert result.returncode == 0, result.stdout[-2000:]
        return result.stdout

    return compiled


def test_the_latex_compiles(pdflatex, nasty):
    a = made(40, model="[a] *first* \N{GREATER-THAN OR EQUAL TO} “x” \N{PLUS-MINUS SIGN}2")
    b = made(40, model="other", seed=1, variant="capitalised").assign(log_prob=np.nan, score_type="score")
    results = evaluate([run(a, "a"), run(b, "b")], **QUICK), significance(a, b, **QUICK)
    log = pdflatex(nasty.to_latex(), *(result.to_latex() for result in results))
    assert "Missing character" not in log
    assert "Overfull" not in log


def test_a_table_for_a_column_has_letters_of_seven_points(pdflatex):
    a = made(400, model="LSTM with a long name, 2 layers, 512 units, trained on novels")
    b, c = made(400, model="other", seed=1, variant="capitalised"), scores(made(400, model="third", seed=2))
    results, pair = evaluate([a, b, c], **QUICK), significance(a, b, **QUICK)
    names = ["model", "n", "accuracy", "perplexity", "median_rank"]
    latex = [results.to_latex(columns=names[:count], width="column") for count in (1, 3, 4)]
    latex.append(pair.to_latex(columns=["quantity", "difference", "p"], width="column"))
    latex += [table(name, []).to_latex(width="column") for name in ("lambada", "cbt", "msrcc", "cnnqa")]
    log = pdflatex(*latex)
    widths = [float(width) for width in re.findall(r"width ([\d.]+)pt", log)]
    assert len(widths) == len(latex)
    assert all(8 * 219 / width >= 7 for width in widths)  # text of 8 points, shrunk to a column of 219
    assert "Overfull" not in log
    refused(results.to_latex, width="column", columns=[*names, "bits"])


@pytest.mark.parametrize("shown", ["ours", "all"])
def test_the_table_of_the_childrens_book_test_fits_a_page(pdflatex, shown):
    system, model = "MEMNNS (WINDOW MEMORY + SELF-SUP.)", "Window memory, self-supervised, window 5"
    runs = [run(book(kind, "test", system=system, model=model, seed=i), f"r{i}")
            for i, kind in enumerate(["NE", "CN", "V", "P"])]  # fmt: skip
    log = pdflatex(table("cbt", runs, rows=shown, **QUICK).to_latex())
    widths = [float(width) for width in re.findall(r"width ([\d.]+)pt", log)]
    assert widths
    assert all(345 / width > 0.7 for width in widths)  # letters of 10 pt are 7 pt at least
    assert "Float too large" not in log


def test_accuracies_are_percentages_and_each_cell_has_its_n():
    parts = [run(book(kind, "test", n=n, system="LSTMS (QUERY)", seed=n), f"r{n}")
             for kind, n in (("NE", 60), ("CN", 1050))]  # fmt: skip
    lines = table("cbt", parts, **QUICK).to_markdown().split("\n")
    cells = {tuple(line.split(" | ")[:2]): line.split(" | ")[2:] for line in lines if line.startswith("|")}
    assert cells["| LSTMS (QUERY)", "paper"] == ["40.8", "54.1", "81.3", "80.2 |"]  # 0.408 in the paper
    assert cells["| ", "n"] == ["60 of 2,500", "1,050 of 2,500", "-", "- |"]
    (ours,) = [values for (_, kind), values in cells.items() if kind == "ours"]
    assert ours[0] == f"{100 * parts[0].predictions['correct'].mean():.1f}"


def test_decimal_points_are_aligned():
    texts = ["12.3 %", "1,234", "< 0.0001", "-", "\N{MINUS SIGN}0.5 points"]
    values = [Cell("12.3 %", "[1.0, 20.0]"), *map(Cell, texts[1:])]
    headings = [Heading("Model", numeric=False), Heading("Value")]
    grid = Grid("", headings, {"": [[Cell("a"), value] for value in values]})
    lines = grid_text(grid).split("\n")[1:]
    ends = [re.search(r"[\d-](?= |\.|$)", line[3:]).end() for line in lines]
    assert len(set(ends)) == 1
    latex = grid_latex(grid, "tab:a")
    for cell in (
        r"12.3\phantom{000}\rlap{ \%}\phantom{ points} & [1.0, 20.0]",
        r"1,234\phantom{.0000}\phantom{ points} &",
        r"\textless{} 0.0001\phantom{ points} &",
        r"--\phantom{.0000}\phantom{ points} &",
        r"$-$0.5\phantom{000} points &",
    ):
        assert f"& {cell} \\\\" in latex
    html = grid_html(grid)
    assert "tabular-nums" in html
    widths = re.findall(r'<span class="e" style="width:([\d.]+ch)">([^<]*)</span>', html)
    assert [text for _, text in widths] == [".3 %", "", ".0001", "", ".5 points"]
    assert len({width for width, _ in widths}) == 1
    alike = grid._replace(sections={"": [[Cell("a"), Cell("1.5")], [Cell("b"), Cell("22.0")]]})
    assert "phantom" not in grid_latex(alike, "tab:a")
    assert 'class="e"' not in grid_html(alike)


def test_a_part_of_a_set_keeps_its_blank_and_takes_no_room_from_other_numbers():
    texts = ["12.3", "60 of 4,869", "[1.0, 20.0]", "3.00e+12"]
    grid = Grid("", [Heading("n")], {"": [[Cell(text)] for text in texts]})
    html = grid_html(grid)
    assert "<td>60 of 4,869</td>" in html
    assert "\n60 of 4,869\n" in grid_text(grid)
    units = grid_html(grid._replace(sections={"": [[Cell("340 MB")], [Cell("1.2 GB")]]}))
    assert re.search(r'<span class="e"[^>]*> MB</span>', units)
    assert re.search(r"\.e\{[^}]*white-space:pre", units)  # else the blank before the unit is lost


def test_text_of_a_plain_table_stands_to_the_left_and_numbers_to_the_right():
    html = html_table(
        ["novel", "words", "right", "ln p"], [["8-grams, 3", 1695, "2 of 3", "-1.96"], ["x-1", 5, "", ""]]
    )
    assert html.count('style="text-align:left"') == 3  # the heading and cells of one column
    for cell in ("8-grams, 3", "x-1"):
        assert f'<td style="text-align:left">{cell}</td>' in html
    for cell in ("1,695", "2 of 3", f"{numbers.MINUS}1.96"):
        assert f'<td style="white-space:nowrap">{cell}</td>' in html  # a unit stays beside its number


def test_footnotes_have_letters():
    assert [footnote_mark(k) for k in (0, 25, 26, 27, 701, 702)] == ["a", "z", "aa", "ab", "zz", "aaa"]


def test_the_items_of_a_perplexity_are_told_where_they_are_fewer():
    frame = lambada()
    assert "n of the perplexity" not in Page(evaluate(frame, **QUICK).to_html()).text
    missing = frame.index < 10
    fewer = frame.assign(log_prob=frame["log_prob"].mask(missing), known=frame["known"] & ~missing)
    assert "n of the perplexity" in Page(evaluate(fewer, **QUICK).to_html()).text


def test_the_markdown_has_one_table_a_section(nasty):
    text = nasty.to_markdown()
    assert str(nasty) == text
    lines = [line for line in text.split("\n") if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {6}
    assert sum(line.startswith("| :--") for line in lines) == 2
    assert "<" not in text
    assert "two lines" in text
    assert r"\`b\` \*c\* \[d\](e)" in text


@settings(max_examples=40)
@given(st.text())
def test_any_text_is_one_line_without_open_marks_in_latex(text):
    found = escape_latex(text)
    assert "\n" not in found
    left = re.sub(r"\\(text\w+{}|infty|[&%$#_{}])|\$-\$|\$\\(infty|leq|geq|pm|times)\$", "", found)
    assert not set(left) & set("\\&%$#_{}~^<>|")


def shown_systems(text):
    return re.findall(r"^\| ([^|]*?) \| paper \|", text, re.MULTILINE)


@pytest.mark.parametrize("split", ["dev", "test"])
def test_people_stand_beside_our_rows(split):
    run = scores(made(40, start=f"cbt/{split}", word_class="NE", variant="NE", system="SLIDING WINDOW"))
    result = table("cbt", run, **QUICK)
    people = result.frame[result.frame["system"].str.startswith("HUMANS")]
    expected = published.published_table("cbt_test_table2").iloc[:2]
    assert people["system"].tolist() == [name for name in expected["system"] for _ in range(4)]
    assert people["printed"].tolist() == expected.iloc[:, 1:].to_numpy().ravel().tolist()
    text = result.to_markdown()
    assert "HUMANS (QUERY)" in text
    assert "HUMANS (CONTEXT+QUERY)" in text
    assert "WORD DISTANCE" not in text
    assert ("10 % of the test set, and none of the validation set." in text) == (split == "dev")


def test_our_rows_are_shown_and_the_papers_others_if_wanted():
    ours = lambada(system="LSTM", model="LSTM, 2 layers", variant="plain")
    other = lambada(system="RNN", model="RNN, small", variant="capitalised")
    shown = table("lambada", [ours, other], **QUICK)
    assert shown_systems(shown.to_markdown()) == ["RNN", "LSTM"]
    assert len(shown.frame) == len(table("lambada", [], **QUICK).frame)
    printed = published.published_table("lambada_table1")["system"].tolist()
    for complete in (table("lambada", [ours, other], rows="all", **QUICK), table("lambada", [])):
        assert shown_systems(complete.to_markdown()) == printed
    refused(table, "lambada", [ours], rows="mine")


@pytest.mark.parametrize(
    ("write", "value", "shown"),
    [
        (numbers.percent, 0.1234, "12.3 %"), (numbers.percent, np.nan, "-"), (numbers.points, 0.012, "+1.2"),
        (numbers.points, -0.0001, "0.0"), (numbers.p_value, 0.0234, "0.023"),
        (numbers.p_value, 1e-7, "< 0.0001"), (numbers.points, -0.1025, f"{MINUS}10.3"),
        (numbers.p_value, 0.0625, "0.063"), (partial(numbers.p_value, is_bound=True), 1 / 2001, "< 0.0005"),
        (partial(numbers.p_value, is_bound=True), 1 / 10_001, "< 0.0001"),
        (numbers.quantity, 3.14159, "3.142"),
        (numbers.probability, 0.4512, "45.1 %"), (numbers.probability, 3.14e-9, f"3.1e{MINUS}7 %"),
        (numbers.probability, 0.0, "0 %"), (numbers.quantity, 1234.5, "1,235"),
        (numbers.probability, 0.00998, "1.00 %"), (numbers.probability, 0.0099, "0.99 %"),
        ("fraction", 0.4567, "45.7"), ("percent", 12.345, "12.3"), ("percent", np.nan, "-"),
        ("percent", -0.5, f"{MINUS}0.5"), ("rank", 993.0, "993.0"), ("rank", 57.5, "57.5"),
        ("rank", pd.NA, "-"), ("per target word", 57_040.2, "57,040.20"), ("per target word", 3.14, "3.14"),
        ("per target word", np.inf, "∞"), ("per target word", 3e12, "3.00e+12"),
    ],
)  # fmt: skip
def test_numbers_are_written_alike_everywhere(write, value, shown):
    assert (in_unit(value, write) if isinstance(write, str) else write(value)) == shown
