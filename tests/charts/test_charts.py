import re
import struct
import zlib
from functools import cache
from xml.etree import ElementTree as ET

import altair as alt
import numpy as np
import pandas as pd
import pytest
from hand_annotated import ROWS, frame
from refused import refused

import workbench as wb
from workbench import charts
from workbench.charts import theme
from workbench.datasets import published

HAND = frame()
LAMBADA, CONTROL = frame(ids="lambada/dev"), frame(ROWS[2:], ids="lambada/control")
TWO = {"LAMBADA": LAMBADA, "control": CONTROL}
BARS = ["in_context", "target_classes", "target_classes_out_of_context", "direct_speech"]
SPREAD = ["mention_distance", "lengths"]
EVERY = {name: getattr(charts, name) for name in [*BARS, *SPREAD]}


def rows(chart):
    """Return the rows of all data of a chart, each table once."""
    return [row for table in chart.to_dict()["datasets"].values() for row in table]


def bars(chart):
    """Return the rows that are drawn as bars."""
    tables = chart.to_dict()["datasets"].values()
    return next(table for table in tables if table and "count" in table[0])


def marks(chart):
    """Return the paper's values: set, bar, share, entry in the legend."""
    return [(r["set"], r["label"], r["share"], r["kind"]) for r in rows(chart) if "source" in r]


def told(chart):
    """Return title and lines below it as one text."""
    head = chart.to_dict()["title"]
    return " ".join([*head["text"], *head.get("subtitle", [])])


def test_2a_shows_what_was_counted():
    chart = charts.in_context(HAND)
    assert [(r["set"], r["label"], r["count"], r["n"], r["missing"]) for r in bars(chart)] == [
        ("x/dev", "in context", 5, 9, 1),
        ("x/dev", "not in context", 4, 9, 1),
    ]
    assert bars(chart)[0]["share"] == pytest.approx(5 / 9)
    assert bars(chart)[0]["low"] < 5 / 9 < bars(chart)[0]["high"]
    assert told(chart).endswith("x/dev: n = 9 (1 without answer excluded)")
    assert [r["count"] for r in bars(charts.in_context(HAND, by="form"))] == [3, 6]
    assert [r["count"] for r in bars(charts.in_context(HAND, within="context"))] == [4, 5]


def test_2b_shows_any_number_of_sets_side_by_side():
    sets = {f"set {i}": frame(ROWS[: i + 1]) for i in range(8)}
    chart = charts.target_classes(sets)
    assert len(bars(chart)) == 8 * 6
    assert [r["count"] for r in bars(chart)][-6:] == [4, 3, 1, 0, 0, 0]
    colours = chart.to_dict()["layer"][0]["layer"][0]["encoding"]["color"]["scale"]
    assert (colours["domain"], len(colours["range"])) == (list(sets), 8)


def test_speech_distances_and_lengths_show_what_was_counted():
    speech = [(r["column"], r["count"]) for r in bars(charts.direct_speech(HAND))]
    assert speech == [("direct_speech", 6), ("target_in_speech", 3)]
    distances = charts.mention_distance(HAND, width=10)
    assert [(r["values"], r["count"]) for r in bars(distances)] == [("1–10", 3), ("11–20", 1), ("21–30", 1)]  # noqa: RUF001
    assert "n = 5, mean 11.2 (5 with no earlier mention excluded)" in told(distances)
    lengths = charts.lengths({"a": HAND, "b": HAND}, column="n_context_sentences")
    assert [(r["values"], r["count"]) for r in bars(lengths)] == [("3", 2), ("4", 4), ("5", 3), ("6", 1)] * 2
    assert [r["mean"] for r in rows(lengths) if r.get("kind") == "mean"] == pytest.approx([4.3, 4.3])


def test_bars_of_several_sets_share_a_bin_without_overlap():
    drawn = pd.DataFrame(bars(charts.lengths(TWO, width=5)))
    for _, part in drawn.groupby("first"):
        edges = part.sort_values("x")[["x", "x2"]].to_numpy().ravel()
        assert (np.diff(edges) > -1e-9).all()
        assert part["first"].iloc[0] - 0.5 <= edges[0]
        assert edges[-1] <= part["last"].iloc[0] + 0.5


def test_the_papers_values_stand_beside_its_sets():
    inside, given = (
        published.find_value("2a", of, "target (or its lemma) in context") for of in ("lambada", "input")
    )
    outside = published.find_value("text", "lambada", "target (or its lemma) not in context")
    assert marks(charts.in_context(TWO)) == [
        ("LAMBADA", "in context", inside.low / 100, f"paper: >{inside.low:g} %"),
        ("LAMBADA", "not in context", outside.about / 100, "paper"),
        ("control", "in context", given.high / 100, f"paper: <{given.high:g} %"),
    ]
    shapes = {r["kind"]: r["shape"] for r in rows(charts.in_context(TWO)) if "source" in r}
    assert list(shapes.values()) == ["triangle-up", "diamond", "triangle-down"]
    assert [(m[0], m[1], m[2]) for m in marks(charts.target_classes(TWO))] == [
        ("LAMBADA", label, published.find_value("2b", "lambada", quantity).about / 100)
        for label, quantity in (("PN", "proper nouns"), ("CN", "common nouns"), ("V", "verbs"))
    ]
    assert marks(charts.target_classes_out_of_context(LAMBADA))[0][1:3] == ("PN", 0.01)
    assert [m[2] for m in marks(charts.direct_speech(TWO))] == [0.71, 0.61]
    (mean,) = (r["mean"] for r in rows(charts.lengths(TWO)) if r.get("kind") == "paper's mean")
    assert mean == published.find_value("text", "dev", "tokens per passage").about


def test_the_papers_values_stand_beside_no_other_set():
    others = [{"paper": False}, {"by": "form"}, {"within": "context"}]
    drawn = [charts.in_context(HAND), charts.in_context({"LAMBADA": HAND})]
    drawn += [charts.in_context(TWO, **options) for options in others]
    assert [marks(chart) for chart in drawn] == [[]] * 5
    assert len(marks(charts.in_context({"mine": HAND}, paper={"mine": "lambada"}))) == 2


@pytest.mark.parametrize("name", EVERY)
def test_charts_hold_aggregates_only(name):
    few = figure(name).to_dict()
    many = EVERY[name]({name: pd.concat([part] * 3) for name, part in TWO.items()}).to_dict()
    assert "item_id" not in str(few)
    assert sum(map(len, many["datasets"].values())) == sum(map(len, few["datasets"].values()))


@pytest.mark.parametrize("name", EVERY)
def test_shares_begin_at_zero_and_stay_below_the_top(name):
    spec = figure(name).to_dict()
    assert "'format': '%'" in str(spec)
    domains = [layer["encoding"]["y"]["scale"]["domain"] for layer in units(spec) if "scale" in y(layer)]
    assert domains
    assert all(low == 0 and high <= 1 for low, high in domains)
    tops = [row[key] for row in rows(figure(name)) for key in ("high", "share") if row.get(key)]
    assert max(tops) <= max(high for _, high in domains) + 1e-9


def units(spec):
    """Return the drawn layers of a specification."""
    inner = spec.get("layer") or spec.get("hconcat")
    return [unit for part in inner for unit in units(part)] if inner else [spec]


def y(layer):
    return layer["encoding"].get("y", {})


@pytest.mark.parametrize("name", EVERY)
def test_a_missing_column_is_named(name):
    column = {"lengths": "n_tokens", "mention_distance": "mention_distance", "direct_speech": "direct_speech"}
    needed = column.get(name, "lemma_in_context" if "context" in name else "target_class")
    refused(EVERY[name], {"a": HAND.drop(columns=needed)})


@pytest.mark.parametrize("name", EVERY)
def test_sets_with_nothing_in_them_are_drawn(name):
    sets = {"none": HAND.iloc[:0], "one": HAND.iloc[:1], "no answer": HAND.iloc[-1:]}
    for drawn in (sets, {"none": HAND.iloc[:0]}):
        assert "<svg" in theme.picture(EVERY[name](drawn).to_dict())


@pytest.mark.parametrize("name", BARS)
def test_bars_count_the_rows_that_they_name(name):
    chart = EVERY[name](TWO)
    for row in bars(chart):
        part = TWO[row["set"]]
        if name == "target_classes_out_of_context":
            part = part[(~part["lemma_in_context"]).fillna(value=False)]
        assert (part[row["column"]] == row["value"]).fillna(value=False).sum() == row["count"]


def test_figure_2_has_three_panels():
    chart = figure("figure_2")
    spec = chart.to_dict()
    panels = spec["vconcat"][0]["hconcat"]
    heads = [" ".join([*panel["title"]["text"], *panel["title"]["subtitle"]]) for panel in panels]
    assert heads == [
        "(a) Target in context n = 9 / 7",
        "(b) Target class n = 9 / 7 / 9",
        "(c) Class, not in context n = 4",
    ]
    lines = [row["line"] for row in rows(chart) if "line" in row]
    assert "control: the paper's input sample was not released" in " ".join(lines)
    assert {m[0] for m in marks(chart)} == {"LAMBADA", "control"}
    (domain,) = {
        tuple(u["encoding"]["color"]["scale"]["domain"])
        for panel in panels
        for u in units(panel)
        if "color" in u["encoding"]
    }
    assert domain == ("LAMBADA", "control", "sentence only")


@pytest.mark.parametrize(
    ("sets", "panels", "beside"),
    [
        ({"input": HAND}, 2, set()),
        ({"sentence": HAND}, 1, set()),
        ({"lambada": LAMBADA, "paper": False}, 3, set()),
        ({"lambada": HAND, "input": CONTROL, "paper": {"x/dev": "lambada"}}, 3, {"x/dev"}),
    ],
)
def test_figure_2_leaves_out_what_is_not_given(sets, panels, beside):
    chart = charts.figure_2(**sets)
    assert len(chart.to_dict()["vconcat"][0]["hconcat"]) == panels
    assert {m[0] for m in marks(chart)} == beside


def test_figure_2_of_other_items_has_their_name_and_no_values_of_the_paper():
    other = frame(ROWS[2:], ids="y/test")
    chart = charts.figure_2(lambada=HAND, input=other)
    assert list(dict.fromkeys(row["set"] for row in rows(chart) if "set" in row)) == ["x/dev", "y/test"]
    assert marks(chart) == []
    assert not any("the paper" in row["line"] for row in rows(chart) if "line" in row)
    same = charts.figure_2(lambada=HAND, input=frame(ROWS[2:]))  # two sets of one source
    assert {row["set"] for row in rows(same) if "set" in row} == {"x/dev", "input"}
    mixed = charts.figure_2(lambada=pd.concat([HAND, other]))
    assert {row["set"] for row in rows(mixed) if "set" in row} == {"x/dev + y/test"}


def test_sets_of_figure_2_are_called_after_their_items_and_never_by_ids(tmp_path):
    table = pd.DataFrame({
        "name": [f"p{k:03}" for k in range(6)], "genre": list("aabbab"),
        "text": [f"The dog ran to the river near the {word}" for word in ("dog", "cat", "hen") * 2],
    })  # fmt: skip
    items = wb.items_from_frame(table, item_id="name")
    genres = [items.query(f"genre = '{genre}'") for genre in "ab"]
    own = [wb.annotate(each) for each in genres]

    def names(**options):
        chart = charts.figure_2(lambada=own[0], input=own[1], paper=False, **options)
        return list(dict.fromkeys(row["set"] for row in rows(chart) if "set" in row))

    assert names() == ["own/dev, genre = 'a'", "own/dev, genre = 'b'"]
    assert names(names=["novels", "letters"]) == ["novels", "letters"]
    assert genres[0].query("genre = 'a'").attrs["filter"] == "(genre = 'a') and (genre = 'a')"
    own[0].to_parquet(tmp_path / "own.parquet")
    own[0] = pd.read_parquet(tmp_path / "own.parquet")
    own[1] = own[1][own[1]["n_tokens"] > 0]
    assert names() == ["own/dev, genre = 'a'", "own/dev, genre = 'b'"]
    own = [wb.annotate(items).query("n_tokens > 0")] * 2
    assert names() == ["own/dev", "input"]
    own = [pd.DataFrame(each.to_dict("list")) for each in own]  # as read from a CSV file
    assert names() == ["LAMBADA", "input"]
    for wrong in (["a"], ["a", "a"], "ab"):
        refused(names, names=wrong)
    [bar] = {row["set"] for row in rows(charts.in_context(own[0][:1])) if "set" in row}
    assert bar == "items"


def test_the_panels_of_figure_2_have_one_scale_and_titles_at_one_height(tmp_path):
    chart = figure("figure_2")
    domains = {
        tuple(unit["encoding"]["y"]["scale"]["domain"])
        for panel in chart.to_dict()["vconcat"][0]["hconcat"]
        for unit in units(panel)
        if "scale" in unit["encoding"].get("y", {})
    }
    assert domains == {(0, 1)}
    assert len(title_heights(chart, tmp_path, "(a) ", "(b) ", "(c) ")) == 1


def title_heights(chart, tmp_path, *begin):
    """Return the distances of titles from the top of the picture."""
    svg = ET.fromstring(charts.save(chart, tmp_path / "a.svg").read_text(encoding="utf-8"))  # noqa: S314 - our own
    heights = {}

    def walk(element, height):
        moved = re.match(r"translate\([^,]+,([^)]+)\)", element.get("transform", ""))
        height += float(moved[1]) if moved else 0
        if element.text and element.text.startswith(begin):
            heights[element.text] = height
        for child in element:
            walk(child, height)

    walk(svg, 0.0)
    assert len(heights) == len(begin)
    return {round(height) for height in heights.values()}


def test_titles_of_panels_stand_at_one_height(tmp_path):
    sets = {"LAMBADA": LAMBADA, "a second set": HAND, "a third set": HAND}
    panels = charts.in_context(LAMBADA, title="One"), charts.target_classes(sets, title="Two")
    joined = charts.side_by_side(*panels)
    assert ["config" in part for part in joined.to_dict()["hconcat"]] == [False, False]
    assert joined.to_dict()["config"]
    assert len(title_heights(joined, tmp_path, "One", "Two")) == 1


@pytest.mark.parametrize(
    ("draw", "options"),
    [
        (charts.figure_2, {}),
        (charts.lengths, {"sets": HAND, "column": "pages"}),
        (charts.in_context, {"sets": {"a": HAND}, "paper": {"b": "lambada"}}),
        (charts.in_context, {"sets": {"a": HAND}, "paper": {"a": "dev"}}),
        (charts.context_needed, {"curves": HAND}),
        (charts.waterfall, {"result": HAND}),
        (charts.save, {"chart": "a.svg", "path": HAND}),
    ],
)
def test_what_cannot_be_drawn_is_refused(draw, options):
    refused(draw, **options)


def pixels(png):
    """Return the pixels of a PNG of four bytes a pixel, as (height, width, 4)."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    place, packed = 8, b""
    while place < len(png):
        size, kind = struct.unpack(">I4s", png[place : place + 8])
        packed += png[place + 8 : place + 8 + size] if kind == b"IDAT" else b""
        place += 12 + size
    width, height, depth, colours, _, _, interlaced = struct.unpack(">IIBBBBB", png[16:29])
    assert (depth, colours, interlaced) == (8, 6, 0)
    lines = np.frombuffer(zlib.decompress(packed), dtype=np.uint8).reshape(height, 1 + 4 * width)
    assert set(lines[:, 0]) <= {0, 1}, "each byte as it is, or as the difference from its left neighbour"
    body = lines[:, 1:].reshape(height, width, 4)
    summed = np.cumsum(body, axis=1, dtype=np.uint8)
    return np.where((lines[:, 0] == 1)[:, None, None], summed, body)


@cache
def figure(name):
    """Make a chart once, when a test asks for it."""
    if name == "figure_2":
        return charts.figure_2(lambada=LAMBADA, input=CONTROL, sentence=HAND)
    return EVERY[name](TWO)


@pytest.mark.parametrize(
    ("name", "dark"), [*((name, False) for name in [*EVERY, "figure_2"]), ("figure_2", True)]
)
def test_every_figure_is_rendered(name, dark, tmp_path):
    image = pixels(charts.save(figure(name), tmp_path / "a.png", dark=dark, dpi=96).read_bytes())
    ground = (17, 17, 17, 255) if dark else (255, 255, 255, 255)
    border = np.concatenate([image[0], image[-1], image[:, 0], image[:, -1]])
    assert (border == ground).all(), "something is cut off at the edge"
    bar = [int(theme.PALETTE[0][i : i + 2], 16) for i in (1, 3, 5)]
    assert (image[:, :, :3] == bar).all(axis=2).sum() > 100


def test_a_resolution_gives_more_pixels(tmp_path):
    one, two = (charts.save(figure("lengths"), tmp_path / "a.png", dpi=k).read_bytes() for k in (96, 192))
    assert pixels(two).shape[:2] == pytest.approx([2 * side for side in pixels(one).shape[:2]], abs=2)


def test_files_need_nothing_from_elsewhere(tmp_path):
    chart = figure("figure_2")
    svg = charts.save(chart, tmp_path / "a" / "figure.SVG").read_text(encoding="utf-8")
    assert svg.startswith("<svg")
    assert "currentColor" not in svg
    assert "(c) Class, not in context" in svg
    assert charts.save(chart, str(tmp_path / "figure.pdf")).read_bytes().startswith(b"%PDF")
    page = charts.save(chart, tmp_path / "figure.html", dark=True).read_text(encoding="utf-8")
    assert not re.search(r"<(script|link)[^>]*(src|href)=", page)
    assert '"background": "#111111"' in page
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "figure.html", "figure.pdf"]


def test_any_altair_chart_can_be_saved(tmp_path):
    plain = alt.Chart(pd.DataFrame({"a": [1, 2]})).mark_point().encode(x="a")
    for chart, ground in ((plain, "#ffffff"), (plain.configure(background="#abcdef"), "#abcdef")):
        assert ground in charts.save(chart, tmp_path / "own.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["figure.jpg", "figure", "figure.svg.gz"])
def test_an_unknown_ending_is_refused(name, tmp_path):
    refused(charts.save, figure("lengths"), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_charts_show_with_no_network():
    assert alt.renderers.active == "workbench"
    data, metadata = charts.in_context(HAND)._repr_mimebundle_()
    assert data["application/vnd.vegalite.v5+json"]["layer"]
    assert metadata["application/vnd.vegalite.v5+json"]["embed_options"]["renderer"] == "svg"
    assert data["image/svg+xml"].startswith("<svg")
    charts.offline()
    assert not isinstance(vars(alt.JupyterChart)["_esm"], str), "it takes a second; made when asked for"
    assert "https://esm.sh" not in alt.JupyterChart._esm


def test_a_renderer_of_ones_own_stays():
    with alt.renderers.enable("html"):
        charts.offline()
        assert alt.renderers.active == "html"
    assert alt.renderers.active == "workbench"


def test_tuning_shows_each_set_and_the_chosen_weight():
    dev, control = ({0.0: 0.0, 0.3: 0.1, 0.8: 0.2}, {0.0: 0.2, 0.3: 0.15, 0.8: 0.1})
    trials = pd.DataFrame(
        {"weight": weight, "set": f"lambada/{name}", "accuracy": accuracy, "chosen": weight == 0.3}
        for name, accuracies in (("dev", dev), ("control", control))
        for weight, accuracy in accuracies.items()
    ).assign(n=9, perplexity=100.0, median_rank=3)
    drawn = {(r["set"], r["weight"]): r["accuracy"] for r in rows(charts.tuning(trials)) if "accuracy" in r}
    assert (drawn["LAMBADA development", 0.8], drawn["Control", 0.8]) == (0.2, 0.1)
    assert "chosen: 0.3" in [row.get("label") for row in rows(charts.tuning(trials))]
    other = pd.concat([trials.assign(flatness=0.5), trials.assign(flatness=1.0, accuracy=0.9, chosen=False)])
    assert max(r.get("accuracy", 0) for r in rows(charts.tuning(other))) == 0.2
    refused(charts.tuning, trials.drop(columns="chosen"))


def test_charts_side_by_side_wrap_in_a_narrow_window():
    pair = charts.side_by_side(charts.in_context(frame()), charts.target_classes(frame()))
    data, metadata = pair._repr_mimebundle_()
    vega = data["application/vnd.vega.v5+json"]
    assert vega["layout"]["columns"] == {"signal": "columns"}
    assert vega["description"] == "Target (or its lemma) elsewhere in the passage; Target class"
    assert metadata.keys() == {"application/vnd.vega.v5+json"}
    data, _ = charts.figure_2(lambada=frame())._repr_mimebundle_()
    layouts = [group["layout"]["columns"] for group in data["application/vnd.vega.v5+json"]["marks"][:1]]
    assert layouts == [{"signal": "columns"}]
