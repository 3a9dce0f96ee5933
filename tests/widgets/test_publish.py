"""Published sites: what their pages hold, what is left out, and which folders are replaced."""

import base64
import hashlib
import html
import json
import re
import sys
import types

import altair as alt
import builders as b
import numpy as np
import pandas as pd
import pytest
from adversarial_text import PAGES, STRINGS
from attentive import Windows
from html_page import Page as HtmlPage
from hypothesis import given
from hypothesis import strategies as st
from random_predictions import annotated, predicted
from refused import refused

import workbench as wb
from workbench.datasets import sources
from workbench.datasets.fetch import entry_of
from workbench.items.notes import write_notes
from workbench.storage.errors import DataError
from workbench.widgets.publish.pages import script_json
from workbench.widgets.publish.site import MANIFEST, file_names, terms
from workbench.widgets.shared.published import column_data

pytestmark = pytest.mark.usefixtures("home")

ITEMS = wb.load("sample", variant="capitalised")[:30]
FRAMES = predicted(ITEMS, 2)
TABLE = annotated(ITEMS)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "site"


@pytest.fixture
def read(folder):
    """Read a page of the site."""
    return lambda name: (folder / f"{name}.html").read_text("utf-8")


def data_of(page):
    """Return the data of a page, as its script reads it."""
    return json.loads(re.search(r'id="wp-data">(.*?)</script>', page, re.DOTALL)[1])


def cells_of(data, name):
    """Return the text of each row in a column of a page's data."""
    (column,) = [each for each in data["columns"] if each["name"] == name]
    texts = column["texts"]
    return [
        [texts[each] for each in code] if isinstance(code, list) else None if code < 0 else texts[code]
        for code in column["codes"]
    ]


def test_each_view_is_a_page_of_its_own_that_holds_its_data(folder, read):
    views = {
        "Passages": wb.browse(ITEMS, TABLE, FRAMES, state={"where": "n_tokens > 60"}),
        "Charts": wb.explore(ITEMS, TABLE),
        "Models": wb.compare(ITEMS, FRAMES, TABLE, resamples=20),
        "Weights": wb.attention(Windows(), ITEMS[:3]),
        "Table": TABLE.drop(columns=["mentions", "speech"]), "Measures": wb.evaluate(FRAMES, resamples=20),
    }  # fmt: skip
    assert wb.publish(folder, views, title="Ours") == folder / "index.html"
    names = [name.lower() for name in views]
    files = [*(f"{name}.html" for name in names), "about.html", "index.html", MANIFEST]
    assert sorted(path.name for path in folder.iterdir()) == sorted(files)
    for name in names:
        page = read(name)
        assert f'href="{name}.html"' in read("index")
        assert "//" not in "".join(re.findall(r'(?:src|href)="([^"]*)"', page))  # nothing of another host
        if name == "weights":
            assert "<script" not in page
            continue
        (script,) = re.findall(r'<script type="module">(.*?)</script>', page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"default-src 'none'; script-src 'sha256-{digest}'" in page
        assert "unsafe-eval" not in page
    data = data_of(read("passages"))
    passing = TABLE["n_tokens"] > 60
    assert cells_of(data, "item_id") == TABLE.loc[passing, "item_id"].tolist()
    assert "Items that pass: n_tokens &gt; 60." in read("passages")
    assert cells_of(data_of(read("charts")), "item_id") == ITEMS.frame["item_id"].tolist()
    assert "This view needs Python" in read("weights")
    assert data_of(read("table"))["n"] == 30


def test_a_chart_is_drawn_by_vega_and_stands_there_as_a_table(folder, read):
    chart = alt.Chart(pd.DataFrame({"a": ["<x>", "y"], "b": [1, 2.5]})).mark_bar().encode(x="a", y="b")
    wb.publish(folder, {"Bars": chart})
    page = read("bars")
    spec = json.loads(re.search(r'application/json">(.*?)</script>', page, re.DOTALL)[1])
    assert spec["encoding"]["x"]["field"] == "a"
    assert re.search(r"<summary>Table.*<td[^>]*>&lt;x&gt;</td><td[^>]*>1</td>.*<td[^>]*>2\.5</td>", page)
    assert "vegaEmbed" in page or "vega-lite" in page


def test_a_widget_that_needs_python_is_published_as_its_static_page(folder, read):
    wb.publish(folder, {"Guess": PAGES["Guess"]("a")})
    page = read("guess")
    assert "This view needs Python" in page
    assert "<script" not in page


def test_what_is_no_view_is_refused_and_nothing_is_written(folder):
    for views in (
        {"a": 3}, {},
        [ITEMS], {" ": TABLE},
        {"a": wb.browse}, {"a": type(TABLE)}, {"a": TABLE.style},
        {"a": types.SimpleNamespace(_repr_html_=lambda: "<b>bold</b>")},
    ):  # fmt: skip
        refused(wb.publish, folder, views)
    assert not folder.exists()


# -- bounds


def test_listed_items_come_first_and_the_page_says_how_many_were_left_out(folder, read):
    browser = wb.browse(ITEMS, TABLE, state={"search": "the", "sort": "-n_tokens"})
    wb.publish(folder, {"Passages": browser, "Table": TABLE[["item_id"]]}, max_items=5)
    data, page = data_of(read("passages")), read("passages")
    assert set(cells_of(data, "item_id")) == set(browser.selection.frame["item_id"][:5])
    assert cells_of(data, "item_id") == sorted(cells_of(data, "item_id")), "in the order of the items"
    assert f"5 of {len(ITEMS)} items; the others were left out." in page
    assert "5 of 30 rows; the others were left out." in read("table")
    assert "5 of 30 items" in read("index")
    assert all(len(column["codes"]) == 5 for column in data["columns"])
    assert (data["n"], data["state"]["sort"], data["state"]["search"]) == (5, "-n_tokens", "the")


@pytest.mark.parametrize("kilobytes", [30, 35, 40])
def test_a_site_keeps_within_its_size(folder, kilobytes, read):
    more = wb.browse(ITEMS, state={"current": ITEMS.frame["item_id"][20]})
    wb.publish(
        folder, {"Passages": wb.browse(ITEMS), "Table": TABLE, "More": more}, max_megabytes=kilobytes / 1000
    )
    data = [data_of(read(name)) for name in ("passages", "table", "more")]
    texts = [json.dumps(each, ensure_ascii=False, separators=(",", ":")) for each in data]
    assert sum(len(text.encode()) for text in texts) <= 1000 * kilobytes
    assert 0 < data[0]["n"] < 30
    more = data[2]
    assert more["state"]["current"] in {"", *cells_of(more, "item_id")}


def test_a_view_that_does_not_fit_is_an_error(folder):
    with pytest.raises(DataError):
        wb.publish(folder, {"Passages": wb.browse(ITEMS, TABLE)}, max_megabytes=0.001)


def test_a_comparison_has_the_numbers_of_all_items_and_its_cells(folder, read):
    widget = wb.compare(ITEMS, FRAMES, TABLE, resamples=20, state={"sort": "disagreement"})
    wb.publish(folder, {"Models": widget}, max_items=7)
    data = data_of(read("models"))
    page = HtmlPage(re.search(r'<details class="wp-numbers".*?</details>', read("models"), re.DOTALL)[0])
    assert cells_of(data, "item_id") == widget.to_frame()["item_id"].tolist()[:7], "in the order of the view"
    pair = widget.comparison.pairs().iloc[0]
    told = f"model 1 right, model 0 wrong{pair['n_only_b']} items; the other way: {pair['n_only_a']}."
    assert told in page.text
    for row in widget.comparison.table().itertuples():
        assert f"{row.label}Accuracy, % {100 * row.accuracy:.1f}" in page.text.replace("\n", "")
    cells = data["outcomes"]["cells"]
    assert [row[k] for k, row in enumerate(cells)] == [None, None]
    assert cells[1][0]["about"].startswith(f": {pair['n_only_b']:,} items; the other way: ")
    frame = widget.to_frame()[:7]
    for name in ("model 0: correct", "model 1: correct"):
        assert cells_of(data, name) == ["yes" if value else "no" for value in frame[name]]
    for name in widget.comparison.columns:
        (column,) = [each for each in data["columns"] if each["name"] == name]
        labels = [each.label for each in widget.comparison.bins(name)]
        assert [each["label"] for each in column["facet"]["bins"]] == labels


# -- what is not passed on


def marked():
    note = {"tags": ["my-secret-tag"], "note": "my private note", "text": ITEMS[0].text}
    write_notes("sample", {ITEMS[0].item_id: note})


def test_tags_and_notes_are_published_only_where_that_is_asked(folder, read):
    marked()
    wb.publish(folder, {"Passages": wb.browse(ITEMS, TABLE)})
    page = read("passages")
    assert "my-secret-tag" not in page
    assert "my private note" not in page
    wb.publish(folder, {"Passages": wb.browse(ITEMS, TABLE)}, notes=True)
    data = data_of(read("passages"))
    assert cells_of(data, "tags")[0] == ["my-secret-tag"]
    assert cells_of(data, "note")[0] == "my private note"


@pytest.mark.parametrize(
    "state",
    [
        {"where": "list_contains(tags, 'my-secret-tag')"},
        {"facets": {"tags": ["my-secret-tag"]}},
        {"table": ["passage", "tags"]},
    ],
)
def test_a_view_that_uses_tags_needs_them(folder, state):
    marked()
    browser = wb.browse(ITEMS, TABLE, state=state)
    refused(wb.publish, folder, {"Passages": browser})
    wb.publish(folder, {"Passages": browser}, notes=True)


def test_a_page_has_the_terms_of_its_data(folder, tmp_path, read):
    lines = [f"it rained . the heron number {k} saw the eel" for k in range(8)]
    raw = b.write(tmp_path / "raw", {"lambada_development_plain_text.txt": b.text(lines)})
    others = wb.browse(wb.items_from_text(["A ___ b ."]))
    wb.publish(folder, {"Passages": wb.browse(wb.load("lambada", "dev", path=raw)), "Others": others})
    notice = entry_of("lambada").notice.strip()
    assert "may not be passed on" in notice
    about = read("about")
    for text in (read("passages"), about, read("index")):
        assert notice in text
    assert notice not in read("others")
    assert "CC BY 4.0" in about
    assert "paperno-etal-2016-lambada" in about
    assert "8 of the split dev, variant plain (digest " in about
    assert "not known: the data are not of the registry" in about
    assert "wb.load(&#39;lambada&#39;, &#39;dev&#39;, variant=&#39;plain&#39;)" in about


def test_data_that_must_not_be_passed_on_in_bulk_have_a_notice():
    assert {name for name in sources.registry() if terms(name)["notice"]} == {"lambada", "cnnqa"}


def test_the_runs_of_the_views_stand_there_with_their_signature(folder, read):
    [run] = wb.import_results(FRAMES[0], ITEMS).runs
    models = wb.compare(ITEMS, [run, FRAMES[1]], TABLE, resamples=20)
    wb.publish(folder, {"Models": models, "Passages": wb.browse(ITEMS, None, run)})
    about = read("about")
    assert about.count(f"<h3>{run.run}</h3>") == 1
    assert run.signature in about
    wb.publish(folder, {"Table": TABLE}, runs=["no such run"])
    assert "It has no signature: there is no run" in read("about")


def test_code_of_views_runs_as_it_stands_there_or_is_not_there(folder, read):
    items = wb.load("sample", variant="capitalised")
    annotations, frames = wb.annotate(items), predicted(items, 2)
    runs = [run for frame in frames for run in wb.import_results(frame, items).runs]
    parts = pd.DataFrame({
        "item_id": [items[0].item_id], "part": [0], "start": [0], "end": [3], "text": [items[0].text[:3]],
        "distance": [9], "influence": [0.5],
    })  # fmt: skip
    views = {
        "Passages": wb.browse(
            items, annotations, runs, state={"where": "target_class = 'PN' and answer != 'a'"}
        ),
        "One run": wb.browse(items, predictions=runs[0].run, state={"sort": "-answer"}),
        "Models": wb.compare(items, runs, annotations, state={"column": "direct_speech"}, resamples=20),
        "Charts": wb.explore(items, annotations, add_columns=["same_root"]),
    }
    others = {
        "Frames": wb.browse(items, None, frames),
        "A run and a frame": wb.compare(items, [runs[0], frames[1]], resamples=20),
        "Columns": wb.explore(items, annotations.assign(genre="a"), add_columns=["genre"]),
        "Own": wb.browse(wb.items_from_text(["A ___ b ."])),
        "Renamed": wb.browse(wb.rename(items, annotations)),
        "Shaded": wb.browse(items, influence=parts),
        "Weights": wb.attention(Windows(), items[:3]),
    }
    wb.publish(folder, views | others)
    sections = re.findall(r"<h3><a[^>]*>(.*?)</a></h3>(.*?)(?=<h[23])", read("about"), re.DOTALL)
    codes = {
        title: html.unescape(code)
        for title, text in sections
        for code in re.findall("<pre>(.*?)</pre>", text, re.DOTALL)
    }
    assert set(codes) == set(views)
    for title, code in codes.items():
        *lines, last = code.split("\n")
        exec("\n".join(lines), names := {})  # noqa: S102 - what the page prints
        again = eval(last, names)  # noqa: S307
        assert again.state == views[title].state
        assert again.to_frame().columns.tolist() == views[title].to_frame().columns.tolist()


# -- folders


def test_a_published_site_is_replaced_and_any_other_folder_is_not(folder):
    wb.publish(folder, {"One": TABLE, "Two": TABLE})
    wb.publish(folder, {"One": TABLE})
    assert not (folder / "two.html").exists()
    (folder / "mine.txt").write_text("mine")
    refused(wb.publish, folder, {"One": TABLE})
    assert (folder / "one.html").exists()
    (folder / "mine.txt").unlink()
    (folder / "about.html").unlink()
    (folder / "about.html").mkdir()
    refused(wb.publish, folder, {"One": TABLE})


@pytest.mark.parametrize(
    "content", [None, "[]", "{}", '{"format": "other", "files": []}', '{"format": "workbench site 1"}', "x"]
)
def test_a_folder_with_other_files_is_refused(folder, content):
    folder.mkdir()
    (folder / "thesis.tex").write_text("years of work")
    if content is not None:
        (folder / MANIFEST).write_text(content)
    refused(wb.publish, folder, {"One": TABLE})
    assert (folder / "thesis.tex").read_text() == "years of work"


def test_an_empty_folder_is_taken_and_a_file_is_not(folder):
    folder.mkdir()
    wb.publish(folder, {"One": TABLE})
    with pytest.raises(DataError):
        wb.publish(folder / "one.html", {"One": TABLE})


def test_a_view_that_fails_leaves_the_site_as_it_was(folder):
    wb.publish(folder, {"One": TABLE})
    before = (folder / "one.html").read_bytes()
    refused(wb.publish, folder, {"One": TABLE[:3], "Broken": TABLE.style})
    assert (folder / "one.html").read_bytes() == before
    assert [path.name for path in folder.parent.iterdir() if path.name not in ("home", "site")] == []


@given(st.lists(st.text(min_size=1), unique=True, max_size=9))
def test_names_of_pages_are_plain_and_different(titles):
    names = file_names(titles)
    assert list(names) == titles
    assert len(set(names.values())) == len(titles)
    for name in names.values():
        assert re.fullmatch(r"[a-z0-9-]{1,66}\.html", name)
        assert name not in ("index.html", "about.html")


# -- data


@pytest.mark.parametrize("text", STRINGS.values(), ids=STRINGS)
def test_json_ends_no_script(text):
    written = script_json({text: [text, "\ud800"]})
    assert "<" not in written
    assert json.loads(written) == {text: [text, "\ud800"]}
    written.encode()


def test_a_column_has_each_value_once_in_the_order_of_lists():
    table = pd.DataFrame({
        "number": [1.5, np.inf, None], "whole": pd.array([30, None, 3], dtype="Int64"),
        "truth": [True, False, None],
        "text": ["B", None, "a"], "labels": [["b", "a"], [], None], "none": [None] * 3,
        "mixed": ["a", 1, "a"],
    })  # fmt: skip
    data = {"columns": [column_data(table, name) for name in table]}
    columns = {each["name"]: each for each in data["columns"]}
    kinds = ["numbers", "numbers", "yes or no", "text", "labels", "nothing", "text"]
    assert [each["kind"] for each in columns.values()] == kinds
    assert [each["codes"] for each in columns.values()] == [
        [0, 1, -1], [1, -1, 0], [1, 0, -1], [1, -1, 0], [[1, 0], [], []], [-1] * 3, [1, 0, 1],
    ]  # fmt: skip
    assert columns["number"]["values"] == [1.5, sys.float_info.max]
    assert [cells_of(data, name) for name in ("number", "whole", "truth", "text", "labels", "mixed")] == [
        ["1.5", "inf", None], ["30", None, "3"], ["yes", "no", None], ["B", None, "a"],
        [["b", "a"], [], []], ["a", "1", "a"],
    ]  # fmt: skip
    json.loads(script_json(data))


CATEGORIES = {
    "whole numbers": ([1, 5, 10], [10, 1, 5]),
    "two numbers": ([0, 1], [1, 0]),
    "fractions": ([0.5, 2.0, 7.5], [7.5, 2.0, 0.5]),
    "words": (["no", "yes"], ["yes", "perhaps", "no"]),
    "truth values": ([True, False], [True, False]),
    "numbers and words": ([1, "a"], [1, "a"]),
}


@pytest.mark.parametrize("gap", [False, True])
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("case", CATEGORIES)
def test_a_column_of_categories_is_one_of_their_values(case, ordered, gap, folder, read):
    values, categories = CATEGORIES[case]
    cells = [values[k % len(values)] if k % 4 or not gap else None for k in range(len(ITEMS))]
    column = pd.Categorical(cells, categories, ordered=ordered)
    if all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        cells = pd.array(cells, dtype="Int64")
    tables = [TABLE.assign(level=column), TABLE.assign(level=pd.Series(cells).infer_objects())]
    browsers, explorers = (
        [show(ITEMS, table, state={"sort": "level"}) for table in tables] for show in (wb.browse, wb.explore)
    )
    for of_categories, of_values in (browsers, explorers):
        assert of_categories._view()["facets"] == of_values._view()["facets"]
        order = [widget._listing.rows.tolist() for widget in (of_categories, of_values)]
        assert order[0] == order[1]
        assert "level" in of_categories._listing.facets
    if case == "whole numbers":
        known = [value for value in column[order[0]] if not pd.isna(value)]
        assert known == sorted(known)
    frames = dict(zip(("categories", "values"), tables, strict=True))
    wb.publish(folder, {f"{name} listed": view for name, view in zip(frames, browsers, strict=True)} | frames)
    for suffix in ("-listed", ""):
        columns = [data_of(read(f"{name}{suffix}"))["columns"] for name in frames]
        assert columns[0] == columns[1]


def test_columns_with_two_headings_have_both_in_their_name(folder, read):
    scores = pd.DataFrame({"model": ["a", "a", "b"], "rank": [1, 3, 8]})
    table = scores.groupby("model").agg({"rank": ["mean", "count"]})
    wb.publish(folder, {"Ranks": table})
    data = data_of(read("ranks"))
    columns = {each["name"]: cells_of(data, each["name"]) for each in data["columns"]}
    assert columns == {"model": ["a", "b"], "rank mean": ["2", "8"], "rank count": ["2", "1"]}
    refused(wb.publish, folder, {"x": scores.set_index("model", drop=False)})
