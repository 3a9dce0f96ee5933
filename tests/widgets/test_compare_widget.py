"""The widget that compares models: what is chosen, its state in Python, and what its page is told."""

import json
import threading
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from braced_items import clozes
from html_page import Page
from hypothesis import given
from hypothesis import strategies as st
from patience import PATIENCE
from random_predictions import annotated, ask, listening, predicted
from refused import refused

import workbench as wb
from workbench.analysis import annotations as annotating
from workbench.charts import theme
from workbench.evaluation.align import align
from workbench.items.tokens import tokens
from workbench.models import RandomWord
from workbench.predictions.schema import from_answers
from workbench.render.numbers import MINUS, mid_rank, p_value, percent, points, probability, rank_text
from workbench.storage.progress import progress_bar
from workbench.widgets.compare import view as messages
from workbench.widgets.compare.compare import compare
from workbench.widgets.compare.selection import SORTS, ComparedItems
from workbench.widgets.shared.passages import score_bars

pytestmark = pytest.mark.usefixtures("home")  # no annotations are at hand

ITEMS = wb.load("sample", variant="capitalised")
FRAMES = predicted(ITEMS, 4)
TABLE = annotated(ITEMS)
LABELS = [f"model {k}" for k in range(4)]
RIGHT = pd.DataFrame({label: f["correct"].astype(bool) for label, f in zip(LABELS, FRAMES, strict=True)})
LOG_PROB = pd.DataFrame({label: f["log_prob"] for label, f in zip(LABELS, FRAMES, strict=True)})
LISTING = ComparedItems(align(ITEMS, FRAMES, annotations=TABLE, resamples=50))
BINS = {b.key: b for b in LISTING.comparison.bins("target_class")}
IDS = ITEMS.frame["item_id"]


@pytest.fixture
def widget():
    return listening(compare(ITEMS, FRAMES, TABLE, resamples=50))


# -- state from and to Python


RIGHTS = {
    "only first": (True, False), "only second": (False, True), "both right": (True, True),
    "both wrong": (False, False),
}  # fmt: skip


def cell(a, b, outcome="only first"):
    """Return the facets of a cell of two models."""
    return {f"{name}: correct": [right] for name, right in zip((a, b), RIGHTS[outcome], strict=True)}


def test_the_state_builds_the_view_again(widget):
    assert widget.code == "wb.compare(items, runs, annotations)"
    where = "target_class = 'PN' and \"model 1: rank\" <= 50 and answer ilike '%e%'"
    widget.state = {
        "facets": {"model 0: correct": [False]}, "where": where,
        "sort": "difference", "pair": ["model 3", "model 0"], "hidden": ["model 1"],
        "search": "a", "column": "direct_speech", "attention": "model 1", "baseline": "model 2",
    }  # fmt: skip
    text = ITEMS.frame["answer"].str.contains("e", case=False).to_numpy()
    named = (TABLE["target_class"] == "PN").to_numpy(dtype=bool, na_value=False)
    ranks = FRAMES[1]["rank"].to_numpy(dtype=float) <= 50
    found = ITEMS.frame["text"].str.contains("a", case=False).to_numpy()
    assert 0 < len(widget.selection) == (named & ~RIGHT["model 0"] & ranks & text & found).sum()
    again = compare(ITEMS, FRAMES, TABLE, resamples=50, state=json.loads(json.dumps(widget.state)))
    typed = eval(widget.code, {"wb": wb, "items": ITEMS, "runs": FRAMES, "annotations": TABLE})  # noqa: S307 - our own line
    for other in (again, typed):
        assert other.state == widget.state
        assert other.to_frame()["item_id"].tolist() == widget.to_frame()["item_id"].tolist()


def test_selection_and_frame(widget):
    widget.state = {"facets": cell("model 3", "model 0"), "sort": "disagreement"}
    expected = RIGHT["model 3"] & ~RIGHT["model 0"]
    frame = widget.to_frame()
    assert set(frame["item_id"]) == set(IDS[expected])
    assert widget.selection.frame["item_id"].tolist() == frame["item_id"].tolist()
    rows = [IDS.tolist().index(item_id) for item_id in frame["item_id"]]
    assert frame["model 3: correct"].all()
    assert not frame["model 0: correct"].any()
    assert frame["model 1: log_prob"].tolist() == FRAMES[1]["log_prob"].iloc[rows].tolist()
    assert frame["model 2: rank"].tolist() == FRAMES[2]["rank"].iloc[rows].tolist()
    assert frame["n_right"].tolist() == RIGHT.sum(axis=1).iloc[rows].tolist()
    assert frame["target_lemma"].fillna("").tolist() == TABLE["target_lemma"].fillna("").iloc[rows].tolist()
    assert frame["disagreement"].between(0, 1).all()


# -- what the page is told


def test_the_page_is_told_what_the_comparison_says(widget):
    quick, view = ask(widget, type="open")
    (whole,) = ask(widget, type="measure")
    assert (quick["pairs"], quick["warnings"]) == (None, whole["warnings"])
    table, pairs = widget.comparison.table(), widget.comparison.pairs()
    assert [(m["key"], m["label"]) for m in whole["models"]] == list(zip("ABCD", LABELS, strict=True))
    for model, row in zip(whole["models"], table.to_dict("records"), strict=True):
        (share, interval, _), (perplexity, *_), (rank, *_) = model["measures"][:3]
        ends = [percent(row[f"accuracy_{end}"], unit=False) for end in ("low", "high")]
        assert (share, interval) == (percent(row["accuracy"], unit=False), "\N{EN DASH}".join(ends))
        assert (perplexity == "\N{EN DASH}") == (model["label"] == "model 2")
        assert rank == mid_rank(row["median_rank"])
        low, value, high = (model["bar"][place] for place in (1, 0, 2))
        assert 0 <= low <= value <= high <= 1
    for model, before in zip(whole["models"], quick["models"], strict=True):  # at once, but for the intervals
        quick = [m[0].replace("…", "\N{EN DASH}") for m in before["measures"]]
        assert [m[0] for m in model["measures"]] == quick
    for row in pairs.to_dict("records"):
        ahead, behind = whole["pairs"][row["a"]][row["b"]], whole["pairs"][row["b"]][row["a"]]
        assert (ahead["text"], behind["text"]) == (points(row["difference"]), points(-row["difference"]))
        assert ahead["about"].startswith(f": {row['n_only_a']:,} items; the other way: {row['n_only_b']:,}.")
        tested, mde = f" p {p_value(row['p'])}, Holm {p_value(row['p_holm'])}", ["", ""]
        if row["p"] >= 0.05:
            text = f"{100 * row['mde']:.1f}" + " (observed: smaller)" * (abs(row["difference"]) < row["mde"])
            tested += f"; smallest detectable difference {text}"
            mde = [text, "found in 80 % of such comparisons"]
        assert ahead["about"].endswith(tested)
        assert ahead["mde"] == mde
        assert ahead["sure"] == behind["sure"] == (row["p_holm"] < 0.05)
    assert view["n"] == view["slices"]["n"] == len(ITEMS)
    assert view["state"]["column"] == widget.column == "target_class"
    assert messages.PALETTE == theme.PALETTE


def test_numbers_of_a_selection_appear_with_it_and_empty_columns_do_not():
    scores = [frame.assign(score_type="score", log_prob=np.nan, top_log_probs=None) for frame in FRAMES[:2]]
    made = listening(compare(ITEMS, scores, TABLE, resamples=50))
    whole, view = ask(made, type="open")
    assert [name for name, _ in whole["measures"]] == ["Accuracy, %", "Median rank"]
    assert [len(model["measures"]) for model in whole["models"]] == [2, 2]
    assert [row["name"] for row in view["selected"]["rows"]] == ["all"]
    assert view["example"] == f"target_class = '{TABLE['target_class'].value_counts().index[0]}'"
    (view,) = ask(made, type="query", state={"facets": {"target_class": ["PN"]}})
    assert [row["name"] for row in view["selected"]["rows"]] == ["all", "selected"]


def test_clicks_are_facets(widget):
    bins = {"target_class": ["PN", "V"], "direct_speech": [True]}
    pair = LABELS[1:3]
    (view,) = ask(widget, type="query", state={"facets": cell(*pair) | bins})
    assert (view["state"]["facets"], view["state"]["where"]) == (cell(*pair) | bins, "")
    assert (view["cell"], view["words"][0][0]) == ([1, 2, "only first"], "model 1 right, model 2 wrong")
    assert view["words"][0][1] == {"facets": bins}, "a click on the words removes the cell"
    assert len(view["words"]) == 3
    right = RIGHT["model 1"] & ~RIGHT["model 2"]
    chosen = right & TABLE["target_class"].isin(["PN", "V"]) & TABLE["direct_speech"]
    assert (view["n"], view["selected"]["cells"]["only first"]) == (chosen.sum(),) * 2
    (view,) = ask(widget, type="query", state={"facets": cell("model 2", "model 1", "both wrong")})
    assert (view["cell"], view["cell_text"]) == ([2, 1, "both wrong"], "model 2 and model 1 both wrong")
    (view,) = ask(widget, type="query", state={"facets": {"model 1: correct": [True]}})
    assert (view["cell"], view["words"][0][0]) == (None, "model 1 right")
    for column in LISTING.comparison.columns:  # every group of bars
        (view,) = ask(widget, type="query", state={"facets": {}, "column": column})
        facets = [group["facet"] for group in view["slices"]["groups"]]
        assert facets == [made.facet for made in LISTING.comparison.bins(column)]
        for made in LISTING.comparison.bins(column):
            if made.facet is None:  # several rare values
                continue
            (view,) = ask(widget, type="query", state={"facets": {column: made.facet}})
            assert view["n"] == len(made.rows)


def test_slices_leave_the_cell_and_their_own_choice_out(widget):
    facets = cell(*LABELS[:2]) | {"target_class": ["PN"]}
    state = {"facets": facets, "hidden": LABELS[3:], "search": "said"}
    (view,) = ask(widget, type="query", state=state)
    text = ITEMS.frame["text"].str.contains("said", case=False).to_numpy()
    assert view["slices"]["n"] == text.sum()
    for group in view["slices"]["groups"]:
        mask = next(each.mask for each in BINS.values() if each.facet == group["facet"]) & text
        assert group["n"] == mask.sum()
        shares = [percent(RIGHT.loc[mask, label].mean()) if mask.any() else None for label in LABELS[:3]]
        assert [bar and bar[3] for bar in group["bars"]] == shares
        assert all(bar[1] <= bar[0] <= bar[2] for bar in group["bars"] if bar)
    assert view["n"] == len(widget.selection) < text.sum()


def test_a_row_has_a_mark_a_model(widget):
    (rows,) = ask(widget, type="rows", version=widget._listing.version, start=30, end=33)
    assert [row["id"] for row in rows["rows"]] == IDS.iloc[30:33].tolist()
    for row, place in zip(rows["rows"], range(30, 33), strict=True):
        assert [right for right, *_ in row["marks"]] == RIGHT.iloc[place].tolist()
        assert [text for *_, text in row["marks"]] == [rank_text(f["rank"].iloc[place]) for f in FRAMES]
        assert row["text"][1] == ITEMS[place].answer


def test_a_choice_begins_at_the_top_and_a_column_does_not(widget):
    ask(widget, type="show", version=widget._listing.version, index=40)
    (view,) = ask(widget, type="query", state={"hidden": ["model 1"], "column": "direct_speech"})
    assert (view["index"], widget.column) == (40, "direct_speech")
    (view,) = ask(widget, type="query", state={"sort": "all right"})
    assert (view["index"], view["state"]["hidden"]) == (0, ["model 1"]), "what is not named stays"


def test_a_passage_with_what_each_model_expected(widget):
    place = int(np.flatnonzero(RIGHT["model 1"] & ~RIGHT["model 0"])[0])
    item = ITEMS[place]
    widget.state = {"attention": "model 1", "current": item.item_id}
    told = widget.sent[-1]["passage"]
    assert [text for text, kinds in told["context"] + told["query"] if "b" in kinds] == [item.answer]
    assert told["attention"] == ["model 1"]
    cut = tokens(item)
    outside = [w for at, w in enumerate(FRAMES[1]["attention"].iloc[place]) if not cut.target <= at < cut.end]
    assert told["shades"]["top"] == pytest.approx(max(outside))
    assert max(shade[0] for part in told["shades"]["pieces"] for shade in part if shade) == 1
    context = {w.casefold() for at, w in enumerate(cut.words) if not cut.target <= at < cut.end}
    chances = [f["top_log_probs"].iloc[place] for k, f in enumerate(FRAMES) if k != 2]
    scale = np.exp(max(map(max, chances)))
    for model, frame in zip(told["models"], FRAMES, strict=True):
        row = frame.iloc[place]
        marked = [(w.casefold() in context, w == item.answer) for w in row["top_words"]]
        assert [tuple(marks) for _, _, *marks, _ in model["words"]] == marked
        assert model["correct"] == row["correct"]
        values = np.array(row["top_log_probs"])
        lengths = values / values.max() if model["scores"] else np.exp(values) / scale
        assert [length for _, length, *_ in model["words"]] == pytest.approx(lengths, abs=1e-4)
        written = [f"{value:.4g}" if model["scores"] else probability(np.exp(value)) for value in values]
        assert [text for *_, text in model["words"]] == written
    assert ["Target class", TABLE["target_class"].iloc[place] or ""] in told["facts"]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=8))
def test_scores_keep_their_order_and_are_not_normalised(scores):
    bars = score_bars(scores)
    assert [text for _, text in bars] == [f"{score:.4g}".replace("-", MINUS) for score in scores]
    lengths = np.array([length for length, _ in bars])
    assert ((lengths >= 0) & (lengths <= 1)).all()
    assert (np.diff(lengths[np.argsort(scores, kind="stable")]) >= -1e-12).all()
    if max(scores, default=0) > 0 or len(set(scores)) > 1:
        assert lengths.max() == 1
    alone = [score_bars([score])[0][1] for score in scores]
    assert alone == [text for _, text in bars]  # a number does not depend on the list that is shown


def test_scores_that_are_missing_or_infinite_have_no_bar():
    assert score_bars([2.0, None, np.nan, np.inf, 1.0]) == [
        (1.0, "2"), (0.0, "none"), (0.0, "none"), (0.0, "none"), (0.5, "1"),
    ]  # fmt: skip


def test_a_word_drawn_at_random_has_no_percentage():
    items = wb.load("sample", "dev").sample(1)
    frame = RandomWord("passage").predict(items)
    assert frame["n_choices"].iloc[0] > 10
    widget = compare(items, frame, None, resamples=20)
    [model] = widget._passage(0)["models"]
    assert [(length, text) for _, length, *_, text in model["words"]] == [(0.0, "0")] * 10
    assert " %" not in widget.to_html().partition('aria-label="Rows"')[2]
    widget.close()


def test_an_answer_of_probability_0_and_one_without_a_rank():
    items = clozes("a dog and a {dog}", "no cat . a {cat}")
    frame = predicted(items, 1, scores=(), attentive=())[0]
    frame["log_prob"], frame["rank"] = [-np.inf, np.nan], pd.array([None, None], dtype="Int64")
    frame["correct"], frame["p_correct"], frame["prediction"] = False, 0.0, "mat"
    frame["known"] = [True, False]
    made = compare(items, [frame], annotations=False, resamples=20)
    texts = [made._passage(place)["models"][0]["text"] for place in (0, 1)]
    assert texts == ["probability 0", "rank and probability not known"]
    assert made._overview()["models"][0]["measures"][1][0] == "∞"
    json.dumps([made._overview(), made._view()], allow_nan=False)


@pytest.mark.parametrize(
    ("rank", "tied", "bound", "text"),
    [(1, 58, False, "tied 1\N{EN DASH}58"), (1000, 1, False, "rank 1,000"), (7, 3, True, "rank ≥ 7"),
     (2, None, False, "rank 2"), (None, 5, False, "")],
)  # fmt: skip
def test_ties_are_ranges_of_ranks(rank, tied, bound, text):
    assert rank_text(rank, tied, bound=bound) == text
    wrong = {"prediction": "other", "correct": False, "p_correct": 0.0}
    one = predicted(ITEMS, 1)[0].assign(rank=rank, n_tied=tied, rank_is_bound=bound, **wrong)
    made = compare(ITEMS, [one.astype({"rank": "Int64", "n_tied": "Int64"})], annotations=False, resamples=9)
    assert made._passage(0)["models"][0]["text"].startswith(text)
    assert made._row(0)["marks"][0][2] == text
    assert made.to_html(limit=1).count(f"✗ other, {text}" if text else ", rank") == bool(text)


@pytest.mark.parametrize("most", [2000, 9])
def test_a_scatter_has_points_or_counts(widget, monkeypatch, most):
    monkeypatch.setattr(messages, "_MOST_POINTS", most)
    brush = {"model 3: log_prob": [-6, -1], "model 0: log_prob": [-5, None]}
    state = {"where": "not direct_speech", "pair": ["model 3", "model 0"], "facets": brush}
    ask(widget, type="query", state=state)
    (found,) = ask(widget, type="scatter")
    inside = LOG_PROB["model 3"].between(-6, -1) & LOG_PROB["model 0"].between(-5, 0)
    assert (found["brush"], found["names"]) == ([-6, -1, -5, 0], [*brush])
    assert len(widget.selection) == (inside & ~TABLE["direct_speech"].to_numpy(dtype=bool)).sum()
    mask = ~TABLE["direct_speech"].to_numpy(dtype=bool)
    values = LOG_PROB.loc[mask, ["model 3", "model 0"]]
    assert (found["two"], found["n"], found["left_out"]) == ([3, 0], mask.sum(), 0)
    if most > found["n"]:
        assert [row[:2] for row in found["points"]] == values.round(3).to_numpy().tolist()
        right = RIGHT.loc[mask, "model 3"] + 2 * RIGHT.loc[mask, "model 0"]
        assert [row[2] for row in found["points"]] == right.tolist()
        ask(widget, type="query", state={"where": "", "facets": {}, "pair": None})
        ask(widget, type="pick", row=found["points"][7][3], request="pick")
        assert widget.current_id == IDS[mask].iloc[7]
    else:
        assert sum(count for *_, count in found["bins"]) == found["n"]
        edges = np.linspace(found["low"], 0, found["cut"] + 1)
        i, j, count = found["bins"][3]
        x, y = (
            pd.cut(values[name], edges, labels=False, include_lowest=True, right=False) for name in values
        )
        assert ((x == i) & (y == j)).sum() == count
    widget.state = {"pair": ["model 2", "model 0"]}
    assert ask(widget, type="scatter")[0]["n"] == 0, "scores are not probabilities"


def test_models_are_differences_from_a_baseline(widget):
    (view,) = ask(widget, type="query", state={"baseline": "model 1"})
    assert view["baseline"] is None, "nothing is resampled yet"
    (whole,) = ask(widget, type="measure")
    table = widget.comparison.differences(1)
    assert whole["baseline"]["k"] == 1
    for row, wanted in zip(whole["baseline"]["rows"], table.to_dict("records"), strict=True):
        k = wanted["a"]
        assert (row["k"], row["p"], row["sure"]) == (k, p_value(wanted["p_holm"]), wanted["p_holm"] < 0.05)
        assert row["difference"] == whole["pairs"][k][1]["difference"]
        assert bool(row["mde"][0]) == (wanted["p_holm"] >= 0.05)
        assert row["mde"][0].startswith(f"{100 * wanted['mde']:.1f}" * bool(row["mde"][0]))
        for name, two in (("improvements", [k, 1]), ("regressions", [1, k])):
            (view,) = ask(widget, type="query", state={"facets": cell(LABELS[two[0]], LABELS[two[1]])})
            assert (view["n"], view["selected"]["two"]) == (row[name], two)
            assert view["cell"] == [*two, "only first"]
            assert view["baseline"] == whole["baseline"]
    text = Page(widget.saved.html()).text
    for row in whole["baseline"]["rows"]:
        assert f"{LABELS[row['k']]} minus model 1{row['difference']} points; {row['improvements']:,}" in text
    assert "minus model 1" in Page(widget.to_html(limit=0)).text
    (view,) = ask(widget, type="query", state={"baseline": "", "facets": {}})
    assert view["baseline"] is None
    assert "minus model 1" not in widget.saved.html()


def test_words_are_enough_to_compare():
    words = [answer.upper() if k % 3 else "no" for k, answer in enumerate(ITEMS.frame["answer"])]
    frame = pd.DataFrame({"item_id": IDS, "model": "mine", "prediction": words})
    stray = pd.DataFrame({"item_id": ["x/1"], "model": ["mine"], "prediction": ["word"]})
    made = compare(ITEMS, [pd.concat([stray, frame]), FRAMES[0]], annotations=None, resamples=9)
    table = made.to_frame()
    assert table["mine: prediction"].tolist() == words
    assert table["mine: correct"].tolist() == [k % 3 > 0 for k in range(len(ITEMS))]
    assert table["mine: rank"].isna().all()
    assert table["passage"][0].endswith(f"{ITEMS[0].answer}") or ITEMS[0].answer in table["passage"][0]
    assert wb.evaluate(frame, items=ITEMS)["accuracy"].tolist() == [table["mine: correct"].mean()]
    refused(wb.evaluate, frame)
    with pytest.raises(wb.DataError):
        compare(ITEMS, frame.drop(columns="prediction"))
    refused(compare, ITEMS, stray)


def test_an_item_is_put_into_the_widget_that_asks():
    put = []
    made = listening(compare(ITEMS, FRAMES, TABLE, resamples=9, ask=SimpleNamespace(put=put.append)))
    assert ask(made, type="open")[0]["asks"]
    assert ask(made, type="ask", request="ask", id=made.current_id) == [
        {"type": "asked", "id": made.current_id}
    ]
    assert [item.item_id for item in put] == [made.current_id]


def test_what_is_selected_has_numbers_of_its_own(widget):
    pair, mask = ["model 3", "model 0"], BINS["is:PN"].mask
    ask(widget, type="measure")
    named = {"target_class": ["PN"]}
    (view,) = ask(widget, type="query", state={"pair": pair, "facets": named})
    numbers, right = view["selected"], RIGHT[mask]
    assert (numbers["n"], numbers["two"], numbers["whole"]) == (mask.sum(), [3, 0], False)
    assert [share for share, _ in numbers["accuracy"]] == right.mean().map(percent).tolist()
    a, b = right["model 3"], right["model 0"]
    cells = {"only first": a & ~b, "only second": b & ~a, "both right": a & b, "both wrong": ~a & ~b}
    assert numbers["cells"] == {name: part.sum() for name, part in cells.items()} | {"any": mask.sum()}
    test = wb.significance(
        FRAMES[3][mask], FRAMES[0][mask], resamples=50
    )  # by novel, as the sample names them
    difference = f"{points(a.mean() - b.mean())} [{points(test.interval[0])}, {points(test.interval[1])}]"
    everything, selected = numbers["rows"]
    assert selected["difference"][:2] == [difference, p_value(test.p_value)]
    assert everything["difference"][0].startswith(points(RIGHT["model 3"].mean() - RIGHT["model 0"].mean()))
    assert (everything["remark"], selected["remark"]) == ("", "exploratory")
    for outcome, part in cells.items():
        (view,) = ask(widget, type="query", state={"facets": named | cell(*pair, outcome)})
        assert widget.selection.frame["item_id"].tolist() == IDS[mask][part].tolist()
        swapped = (
            {"only first": "only second", "only second": "only first"} if outcome == "only second" else {}
        )
        assert view["selected"]["cells"] == {swapped.get(k, k): n for k, n in numbers["cells"].items()}
        assert view["selected"]["rows"][1]["remark"] == "by outcome"


def test_a_difference_on_items_is_that_of_the_paired_test():
    frames = [frame.assign(book_id=None) for frame in FRAMES[:2]]
    items = wb.Items(ITEMS.frame.assign(book_id=None))
    made, mask = align(items, frames, resamples=4000), np.arange(len(items)) % 3 > 0
    found, test = made.pair(0, 1, mask), wb.significance(frames[0][mask], frames[1][mask])
    assert (found["difference"], found["p"]) == pytest.approx((test.difference, test.p_value))
    assert [found["difference_low"], found["difference_high"]] == pytest.approx(test.interval, abs=0.015)
    assert np.isnan(made.pair(0, 1, mask & ~mask)["difference"])


def test_long_names_are_cut_in_what_they_share():
    family = "a model of a long family whose names say everything, layer"
    names = ["short", *(f"{family} {k}" for k in (1, 12)), "x" * 100 + "end"]
    short, *alike, long = messages.short_labels(names)
    assert short == "short"
    assert alike == [
        "a model of a long family whose names say every…1",
        "a model of a long family whose names say ever…12",
    ]  # fmt: skip
    assert long == "x" * 24 + "…" + "x" * 20 + "end"
    assert {len(name) for name in (*alike, long)} == {48}


def test_names_are_cut_where_they_are_alike():
    names = [
        "5-gram, Kneser-Ney",
        "5-gram, Kneser-Ney, cache 0.1",
        "LSTM of 512 units",
        "model A",
        "model AB",
    ]
    cut = [
        ("5-gram, Kneser-", "Ney"),
        ("5-gram, Kneser-", "Ney, cache 0.1"),
        ("", names[2]),
        ("model ", "A"),
        ("model ", "AB"),
    ]
    assert messages.split_labels(names) == cut


# -- annotations that come later


def opened(made):
    """Open a page, and wait for the annotations; return what it is sent."""
    listening(made)
    for kind in ("open", "measure"):
        made._handle_message(made, {"type": kind}, [])
    made.release.set()
    for thread in threading.enumerate():
        if thread.name == "annotate":
            thread.join(60)
    return made.sent


def test_annotations_come_after_the_first_paint(monkeypatch):
    asked, release = threading.Event(), threading.Event()

    def annotate(_items):
        asked.set()
        progress_bar(len(ITEMS), label="annotate").update(3)
        release.wait(PATIENCE)
        return TABLE

    monkeypatch.setattr(annotating, "annotate", annotate)
    made = compare(ITEMS, FRAMES, annotations="auto", resamples=50)
    made.release = release
    assert not asked.is_set(), "not before the page is there"
    made.column = before = "answer_in_passage"  # of the text alone
    facets = {before: [True], **cell(*LABELS[:2])}
    made.state = made.state | {"facets": facets, "where": "n_words > 9"}
    assert len(made.selection) > 0
    sent = opened(made)
    assert [m["type"] for m in sent if m["type"] != "note"] == ["whole", "view", "whole", "view"]
    notes = [m["text"] for m in sent if m["type"] == "note"]
    assert f"annotating: 3 of {len(ITEMS)} items" in notes
    assert notes[-1] == ""
    assert made.column == "target_class" in made.comparison.columns
    view = next(m for m in reversed(sent) if m["type"] == "view")
    assert view["slices"]["groups"]
    assert (made.state["facets"], made.state["where"]) == (cell(*LABELS[:2]), ""), "the rest is there no more"
    assert len(made.selection) == (RIGHT["model 0"] & ~RIGHT["model 1"]).sum() == view["n"]
    assert [m["type"] for m in opened(made)] == ["whole", "view", "whole"], "a second page"


def test_no_annotations_where_none_are_wanted(monkeypatch):
    asked = []
    monkeypatch.setattr(annotating, "annotate", lambda *_, **__: asked.append(1))
    for none in (None, False):
        made = compare(ITEMS, FRAMES, annotations=none, resamples=50)
        made.release = threading.Event()
        opened(made)
    assert asked == []


def test_annotations_that_fail_are_told(monkeypatch):
    def fail(_items, **_options):
        raise wb.DataError("the pipeline is not installed")

    monkeypatch.setattr(annotating, "annotate", fail)
    made = compare(ITEMS, FRAMES, resamples=50)
    made.release = threading.Event()
    errors = [m["message"] for m in opened(made) if m["type"] == "error"]
    assert ["the pipeline is not installed" in message for message in errors] == [True]
    assert len(made.selection) == len(ITEMS)


def test_a_state_that_needs_annotations_gets_them_first(monkeypatch):
    monkeypatch.setattr(annotating, "annotate", lambda _items, **_: TABLE)
    made = compare(ITEMS, FRAMES, resamples=50, state={"where": "target_class = 'PN'"})
    assert made._remake is None
    assert len(made.selection) == len(BINS["is:PN"].rows)
    for state in ({"facets": {"target_class": ["PN"]}}, {"column": "target_class"}):
        assert compare(ITEMS, FRAMES, resamples=50, state=state)._remake is None
    refused(compare, ITEMS, FRAMES, state={"column": "colour"}, resamples=50)
    refused(compare, ITEMS, FRAMES, annotations="yes")


# -- without a kernel, and the script


def test_a_page_of_its_own_lists_the_items_in_order(widget):
    genre = pd.Series(["novel <1>", "story"] * (len(ITEMS) // 2))
    facets = {"genre": ["story"], "n_tokens": [10, None], **cell(*LABELS[:2])}
    state = {"hidden": LABELS[3:], "search": "the", "facets": facets, "column": "genre"}
    made = compare(ITEMS, FRAMES, TABLE.assign(genre=genre), resamples=9, state=state)
    page = Page(made.to_html())
    told = "model 0 right, model 1 wrong; genre: story; Passage length: 10 or more tokens; passage"
    assert f"Items{len(made.to_frame())} of {len(ITEMS)}Selection{told}" in page.text
    assert page.text.count("genre: novel <1>") == 1, "a chart of one's own column"
    listed = page.text.partition("ItemPassageAnswer")[2]
    assert listed.startswith("model 0model 1model 2")
    assert "model 3" not in listed.partition("Show it again")[0]
    widget.state = {"facets": cell(*LABELS[:2]), "sort": "disagreement"}
    html = widget.to_html(limit=3)
    ids = widget.to_frame()["item_id"].tolist()
    places = [html.index(item_id) for item_id in ids[:3]]
    assert places == sorted(places)
    assert ids[3] not in html


def test_a_notebook_keeps_the_measures_and_no_item_that_is_not_listed():
    attack = "<img src=x onerror=alert(1)>"
    names = [attack, *(f"model {k} of a long family" for k in range(19))]
    frames = predicted(ITEMS, 20, names=names)
    made = compare(
        ITEMS, frames, TABLE, resamples=20, state={"facets": cell(*names[:2]), "search": attack}
    )  # fmt: skip
    html = made.saved.html()
    assert len(html) < 12_000
    assert "<img" not in html
    assert f"Items0 of {len(ITEMS)}" in Page(html).text
    assert (len(made.to_frame()), made.current, made.current_id) == (0, None, "")
    assert ITEMS[0].text[:40] not in html


# -- which items, in which order: against pandas


@given(
    sort=st.sampled_from(SORTS),
    hidden=st.sets(st.sampled_from(LABELS), max_size=3),
    pair=st.one_of(st.none(), st.permutations(LABELS).map(lambda names: names[:2])),
    against=st.permutations(LABELS).map(lambda names: names[:2]),
)
def test_orders_are_those_that_pandas_gives(sort, hidden, pair, against):
    LISTING.apply(
        {"sort": sort, "hidden": list(hidden), "facets": cell(*pair) if pair else {}, "pair": against}
    )
    found = LISTING.rows.tolist()
    right = RIGHT[[label for label in LABELS if label not in hidden]]
    n, m = right.sum(axis=1), right.shape[1]
    difference = LOG_PROB[against[1]] - LOG_PROB[against[0]]
    key = {
        "": n * 0, "disagreement": -n * (m - n), "difference": difference, "all wrong": n,
        "only one right": n.where(n > 0, m + 1), "all right": -n,
    }[sort]  # fmt: skip
    left = RIGHT[pair[0]] & ~RIGHT[pair[1]] if pair else n >= 0
    assert found == key[left].sort_values(kind="stable", na_position="last").index.tolist()


def test_counts_follow_the_models_shown():
    LISTING.apply({"hidden": ["model 1", "model 3"], "search": "said"})
    said = ITEMS.frame["text"].str.contains("said", case=False)
    right = RIGHT.loc[said, ["model 0", "model 2"]].sum(axis=1)
    expected = {"all wrong": (right == 0).sum(), "only one right": (right == 1).sum()}
    assert LISTING.counts() == expected | {"all right": (right == 2).sum()}
    LISTING.apply({"hidden": LABELS})
    assert LISTING.visible_models() == [0, 1, 2, 3], "with all hidden, all are shown"


def test_models_count_where_they_predicted():
    shown, part = 60, [frame.iloc[:part] for frame, part in zip(FRAMES[:3], (60, 40, 20), strict=True)]
    listing = ComparedItems(align(ITEMS[:shown], part, resamples=50))
    right = RIGHT.iloc[:shown, :3].where([[True, k < 40, k < 20] for k in range(shown)])
    n, right = right.notna().sum(axis=1), right.fillna(value=False).sum(axis=1).astype(int)
    assert listing.counts() == {
        "all wrong": (right == 0).sum(), "only one right": (right == 1).sum(),
        "all right": (right == n).sum(),
    }  # fmt: skip
    listing.apply({"sort": "disagreement"})
    disagreement = right * (n - right) / ((n // 2) * (n - n // 2)).clip(lower=1)
    assert listing.comparison.disagreement.tolist() == disagreement.tolist()
    assert listing.rows.tolist() == (-disagreement).sort_values(kind="stable").index.tolist()
    assert not disagreement[40:].any(), "one model alone disagrees with none"
    listing.apply({"hidden": ["model 0", "model 1"]})
    counts, alone = listing.counts(), RIGHT["model 2"][:20]
    assert (counts["all wrong"], counts["all right"]) == ((~alone).sum(), alone.sum())


def test_which_two_models_are_compared():
    assert RIGHT.mean().sort_values(ascending=False).index.tolist()[:3] == ["model 3", "model 2", "model 1"]
    for state, two, scattered, subtracted in [
        ({}, (3, 2), (3, 1), (3, 1)),  # model 2 gives scores
        ({"facets": cell("model 3", "model 1")}, (3, 1), (3, 1), (3, 1)),
        ({"facets": cell("model 1", "model 3", "only second")}, (3, 1), (3, 1), (3, 1)),
        ({"facets": cell("model 1", "model 3", "both wrong")}, (1, 3), (1, 3), (1, 3)),
        ({"facets": cell("model 3", "model 1"), "pair": LABELS[1:3]}, (3, 1), (3, 1), (1, 2)),
        ({"facets": {"model 0: correct": [True]}}, (3, 2), (3, 1), (3, 1)),
        ({"where": '"model 0: correct" and not "model 1: correct"'}, (3, 2), (3, 1), (3, 1)),
    ]:
        LISTING.apply(state)
        pairs = LISTING.shown_pair(), LISTING.scatter_pair(), LISTING.difference_pair()
        assert pairs == (two, scattered, subtracted)


@pytest.mark.parametrize(
    ("n_right", "best"),
    [([1, 3, 2], (1, 2)), ([2, 1, 2], (0, 2)), ([1, 1, 1], (0, 1)), ([0, 2, 2, 3], (3, 1))],
)
def test_the_best_model_and_the_one_below_it_are_shown_first(n_right, best):
    frames = [
        pd.DataFrame({"item_id": IDS[:4], "model": name, "prediction": ["" for _ in range(4)]})
        for name in "abcd"[: len(n_right)]
    ]
    for frame, n in zip(frames, n_right, strict=True):
        frame.loc[: n - 1, "prediction"] = ITEMS.frame["answer"][:n]
    widget = compare(ITEMS[:4], frames, None, resamples=20)
    assert widget._view()["selected"]["two"] == widget._view()["subtracted"] == best
    widget.close()


def test_the_two_that_are_shown_first_are_of_one_protocol():
    frames = [made_run(model, unit) for model, unit in (("a", "word"), ("b", "last-token"), ("c", "word"))]
    widget = compare(ITEMS[:4], frames, None, resamples=20)
    assert widget.comparison.protocols[0] == "capitalised, whole words"
    assert widget._view()["selected"]["two"] == (2, 0)
    widget.close()


def made_run(model, unit):
    """Return predictions, of which one more is right the later the model's name is in the alphabet."""
    n = 1 + "abc".index(model)
    words = [*ITEMS.frame["answer"][:n], *["" for _ in range(4 - n)]]
    answers = dict(zip(IDS[:4], words, strict=True))
    return from_answers(ITEMS, answers, model=model).assign(unit=unit, run=model)


# -- what cannot be chosen


@pytest.mark.parametrize(
    "state",
    [
        {"pairs": None},
        {"pair": ["model 0", "gpt"]},
        {"pair": ["model 0", "model 0"]},
        {"pair": ["model 0"]},
        {"sort": "best"},
        {"column": "colour"},
        {"hidden": "model 0"},
        {"attention": "gpt"},
        {"baseline": "gpt"},
        {"baseline": 1},
        {"where": "colour = 'red'"},
        {"facets": {"colour": ["red"]}},
        {"facets": {"model 0: rank": [1, 2]}},
        {"facets": {"model 0: correct": ["yes"]}},
        {"search": "\ud800"},
        {"current": "sample/none"},
    ],
)
def test_a_wrong_state_is_told_and_changes_nothing(widget, state):
    widget.state = {"facets": cell(*LABELS[:2])}
    before, n = widget.state, len(widget.selection)
    with pytest.raises(ValueError):  # noqa: PT011 - a DataError, or Python's own
        widget.state = state
    assert (widget.state, len(widget.selection)) == (before, n)
    (answer,) = ask(widget, type="query", request="query", state=state)
    assert (answer["type"], answer["request"], widget.state) == ("error", "query", before)


def test_setting_a_state_tells_the_page(widget):
    widget.state = {"facets": cell(*LABELS[:2])}
    widget.current = widget.selection[1]
    assert [m["type"] for m in widget.sent] == ["view", "passage"]
    assert widget.sent[-1]["index"] == 1
    assert widget.sent[-1]["passage"]["id"] == widget.current.item_id == widget.selection[1].item_id
