"""What a model expected: the numbers of the chart, read from its specification."""

import importlib
import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_predictions import made, scores
from refused import refused

import workbench as wb
from workbench import charts
from workbench.charts import theme
from workbench.models.prediction_rows import from_scores
from workbench.storage.errors import DataError

MODULE = importlib.import_module("workbench.charts.expected")  # charts.expected is the function
TEXTS = [
    "`` it 's late , '' said tom . he looked for the ___",
    "they did n't see that -- ___ , of all things , was here .",
]
ITEMS = wb.items_from_text(TEXTS, answers=["heron", "mrs. tulley"], tokenised=True)
IDS = ITEMS.frame["item_id"].tolist()
WORDS = [["the", "''", "Heron", "."], ["</s>", "counterrevolutionarinesses", "<unk>", "``"]]
PROBABILITIES = [[0.5, 0.25, 0.125, 0.004], [0.3, 0.2, 1e-7, 0.0]]


def table(words=WORDS, values=PROBABILITIES, ids=IDS):
    rows = [
        {"item_id": item_id, "place": place, "word": word, "log_prob": math.log(p) if p else -math.inf}
        for item_id, ws, ps in zip(ids, words, values, strict=True)
        for place, (word, p) in enumerate(zip(ws, ps, strict=True), start=1)
    ]
    return pd.DataFrame(rows)


TABLE = table()


def predicted(**columns):
    """Make predictions of the two items."""
    frame = made(2, known=True, rank=[3, 1234], log_prob=np.log([0.125, 2e-6]), correct=False, p_correct=0.0,
                 prediction="x", answer=["heron", "mrs. tulley"], item_id=IDS, n_tied=1)  # fmt: skip
    values = [np.log(np.maximum(p, 1e-300)).tolist() for p in PROBABILITIES]
    return frame.assign(top_words=pd.Series(WORDS), top_log_probs=pd.Series(values)).assign(**columns)


def panels(chart):
    """Return the panels of a chart in order: title, bars, lines below, and the specification."""
    spec = chart.to_dict()
    found = []
    for row in spec["vconcat"]:
        for panel in row["hconcat"]:
            given = [next(part["data"] for part in (layer, panel, row, spec) if "data" in part)
                     for layer in panel["layer"]]  # fmt: skip
            tables = [spec["datasets"][data["name"]] for data in given]
            below = [line["line"] for part in tables[3:] for line in part]
            found.append(
                SimpleNamespace(title=panel["title"]["text"], bars=tables[0], below=below, spec=panel)
            )
    return found


def head(chart):
    title = chart.to_dict()["title"]
    return " ".join([*title["text"], *title["subtitle"]])


def test_there_is_a_panel_an_item_and_a_bar_a_word():
    chart = charts.expected(TABLE)
    for panel, item_id, words, p in zip(panels(chart), IDS, WORDS, PROBABILITIES, strict=True):
        assert (panel.title, panel.below) == ([item_id], [])
        assert [(bar["place"], bar["word"]) for bar in panel.bars] == list(enumerate(words, start=1))
        assert [bar["p"] for bar in panel.bars] == pytest.approx(p)
        x, y = (panel.spec["layer"][0]["encoding"][axis] for axis in "xy")
        assert (x["field"], x["axis"]["format"], y["scale"]["domain"]) == ("p", ".0%", [1, 2, 3, 4])
    assert "The most probable words" in head(chart)


def test_only_so_many_bars_are_drawn():
    assert [len(panel.bars) for panel in panels(charts.expected(TABLE, top_k=3))] == [3, 3]
    many = table([[f"w{i}" for i in range(30)]], [[1 / 30] * 30], IDS[:1])
    assert len(panels(charts.expected(many))[0].bars) == 10
    shuffled = many.sample(frac=1, random_state=1)
    assert [bar["word"] for bar in panels(charts.expected(shuffled))[0].bars] == [f"w{i}" for i in range(10)]


def test_the_answer_has_a_colour_and_a_sign():
    one, two = panels(charts.expected(TABLE, items=ITEMS))
    assert [bar["answer"] for bar in one.bars] == [False, False, True, False]  # heron, Heron
    assert [bar["end"] for bar in one.bars] == ["50.0 %", "25.0 %", "12.5 % ← answer", "0.40 %"]
    colour = one.spec["layer"][0]["encoding"]["color"]
    assert colour["condition"]["value"] == theme.PALETTE[1] != colour["value"]
    assert colour["condition"]["test"] == "datum.answer"
    assert one.below == []
    assert two.below == ["answer: mrs. tulley"]
    assert not any(bar["answer"] for bar in two.bars)


@pytest.mark.parametrize("how", ["mapping", "frame", "predictions", "in the table"])
def test_answers_come_in_several_ways(how):
    given = {
        "mapping": dict(zip(IDS, ["heron", "lamp"], strict=True)),
        "frame": pd.DataFrame({"item_id": IDS, "answer": ["heron", "lamp"]}),
        "predictions": predicted(answer=["heron", "lamp"]),
        "in the table": None,
    }[how]
    data = TABLE.assign(answer=["heron"] * 4 + ["lamp"] * 4) if given is None else TABLE
    one, two = panels(charts.expected(data, answers=given, items=ITEMS))
    assert [bar["word"] for bar in one.bars if bar["answer"]] == ["Heron"]
    assert two.below[0].startswith("answer: lamp")
    assert (", rank 1,234, p = 0.00020 %" in two.below[0]) == (how == "predictions")


def test_predictions_say_all_by_themselves():
    chart = charts.expected(predicted(model="5-gram"))
    one, two = panels(chart)
    assert [bar["p"] for bar in one.bars] == pytest.approx(PROBABILITIES[0])
    assert two.below == ["answer: mrs. tulley, rank 1,234, p = 0.00020 %"]
    assert "What 5-gram expects" in head(chart)
    run = SimpleNamespace(predictions=predicted(model="5-gram"))
    assert charts.expected(run).to_dict() == chart.to_dict()


def test_an_answer_outside_the_vocabulary_is_said_to_be_there():
    (_, two) = panels(charts.expected(predicted(known=[True, False], rank=[3, 1001])))
    assert two.below == ["answer: mrs. tulley, outside the vocabulary, p = 0.00020 %"]
    assert two.spec["layer"][0]["encoding"]["y"]["scale"]["domain"] == [1, 2, 3, 4, "line 0"]


def test_an_answer_that_nobody_knows_is_not_spoken_of():
    unknown = predicted(answer=None, correct=None, p_correct=np.nan, log_prob=np.nan, rank=None, known=None)
    for panel in panels(charts.expected(unknown)):
        assert panel.below == []
        assert not any(bar["answer"] for bar in panel.bars)


CANDIDATES = wb.items_from_text(["the ___ ate .", "a ___ ."], answers=["heron", "eel"],
                                candidates=[["eel", "heron", "tom"], ["eel", "ada", "tom"]])  # fmt: skip


def test_candidates_are_shown_by_their_shares():
    values = np.array([[-40.0, -38.0, -41.0], [-700.0, -710.0, -705.0]])
    words = [list(c) for c in CANDIDATES.frame["candidates"]]
    frame = from_scores(
        CANDIDATES, values, words, model="m", score_type="log_prob", log_prob=np.log([0.1, 0.2])
    )
    chart = charts.expected(frame)
    for panel, row in zip(panels(chart), values, strict=True):
        want = np.exp(row - row.max()) / np.exp(row - row.max()).sum()
        assert [bar["p"] for bar in panel.bars] == pytest.approx(sorted(want, reverse=True))
        assert sum(bar["answer"] for bar in panel.bars) == 1
    assert "sum to 1" in head(chart)
    one, _ = panels(charts.expected(frame.assign(answer="crow"), top_k=1))
    assert one.below[0].startswith("answer: crow")
    assert "p =" not in one.below[0]  # it would be no share


def test_several_models_stand_side_by_side():
    other = table([words[::-1] for words in WORDS], [sorted(p, reverse=True) for p in PROBABILITIES])
    chart = charts.expected({"5-gram": TABLE, "3-gram": other}, items=ITEMS)
    spec, drawn = chart.to_dict(), panels(chart)
    assert [len(row["hconcat"]) for row in spec["vconcat"]] == [2, 2]
    assert [panel.title for panel in drawn] == [["5-gram"], ["3-gram"]] * 2
    assert spec["vconcat"][0]["title"]["text"][-1].endswith("looked for the ____")
    fills = [panel.spec["layer"][0]["encoding"]["color"]["value"] for panel in drawn]
    assert fills[:2] == fills[2:]
    assert len({*fills, theme.PALETTE[1]}) == 3
    both = pd.concat([predicted(model="3", rank=[7, 8]), predicted(model="5")], ignore_index=True)
    below = [" ".join(panel.below) for panel in panels(charts.expected(both))]
    assert ("rank 8," in below[2], "rank 1,234," in below[3]) == (True, True)
    listed = charts.expected([predicted(model="3"), predicted(model="5")], items=ITEMS[1:])
    assert [panel.title for panel in panels(listed)] == [["3"], ["5"]]  # of these items alone


@pytest.mark.parametrize(
    ("data", "same", "ends"),
    [(TABLE, True, [0.5, 0.5]), (TABLE, False, [0.5, 0.3]), (table(values=[[0.0] * 4] * 2), True, [1, 1])],
)
def test_panels_have_one_scale_or_each_its_own(data, same, ends):
    drawn = panels(charts.expected(data, same_scale=same))
    domains = [panel.spec["layer"][0]["encoding"]["x"]["scale"]["domain"] for panel in drawn]
    assert domains == [[0, pytest.approx(end)] for end in ends]


@given(st.floats(1e-9, 1))
def test_ticks_are_few_round_and_told_apart(top):
    axis = MODULE._axis(top).to_dict()
    digits = int(axis["format"][1:-1])
    shown = [f"{tick:.{digits}%}" for tick in axis["values"]]
    assert 2 <= len(shown) <= 6
    assert len(set(shown)) == len(shown)
    assert shown[0].strip("0.") == "%"
    assert [float(text[:-1]) / 100 for text in shown] == pytest.approx(axis["values"])
    assert max(axis["values"]) <= top * (1 + 1e-9)


def test_words_can_be_read():
    one, two = panels(charts.expected(TABLE))
    shown = [[bar["shown"] for bar in panel.bars] for panel in (one, two)]
    assert shown == [
        ["the", "” (closing quote)", "Heron", ". (full stop)"],
        ["end of sentence", "counterrevolutionarin…", "unknown word", "“ (opening quote)"],
    ]
    words = ["n't", "-lrb-", "--", "a b", "''", '"']  # the last two are shown alike, and are two bars
    (panel,) = panels(charts.expected(table([words], [[0.1] * 6], ["x"])))
    assert [bar["shown"] for bar in panel.bars][:4] == ["n’t", "(", "— (dash)", "a b"]  # noqa: RUF001
    assert panel.spec["layer"][0]["encoding"]["y"]["scale"]["domain"] == [1, 2, 3, 4, 5, 6]
    assert two.bars[1]["word"] == "counterrevolutionarinesses"


def test_the_heading_is_the_text_before_the_blank():
    one, two = panels(charts.expected(TABLE, items=ITEMS))
    assert " ".join(one.title) == "“it’s late,” said tom. he looked for the ____"  # noqa: RUF001
    assert " ".join(two.title) == "they didn’t see that—____, of all …"  # noqa: RUF001


@settings(max_examples=8)
@given(st.integers(1, 80), st.integers(0, 8), st.booleans())
def test_headings_keep_within_two_lines(before, after, tokenised):
    text = " ".join(["word"] * before + ["___"] + ["more"] * after + ["."])
    item = wb.items_from_text([text], answers=["it"], tokenised=tokenised)
    ids = item.frame["item_id"].tolist()
    (panel,) = panels(charts.expected(table([["a"]], [[0.5]], ids), items=item))
    lines = panel.title
    assert len(lines) <= 2
    assert max(map(len, lines)) <= 46
    whole = " ".join(lines)
    assert whole.count("____") == 1
    assert "it" not in whole.split()
    assert whole.startswith("… ") == (whole.split("____")[0].count("word") < before)
    assert whole.split("____")[1].count("more") == min(after, 3)


def test_a_passage_of_one_endless_word_is_drawn():
    item = wb.items_from_text(["x" * 500 + " ___"], answers=["it"], tokenised=True)
    (panel,) = panels(charts.expected(table([["a"]], [[0.5]], item.frame["item_id"].tolist()), items=item))
    assert panel.title == ["… ____"]


@pytest.mark.parametrize(("models", "n", "most"), [(1, 25, 24), (2, 13, 12)])
def test_a_chart_has_so_many_panels_and_no_more(models, n, most):
    data = table([["a"]] * n, [[0.5]] * n, [f"x/{i}" for i in range(n)])
    with pytest.raises(DataError) as error:
        charts.expected({str(k): data for k in range(models)})
    assert f"items[:{most}]" in error.value.hint


@pytest.mark.parametrize(
    ("data", "answers"),
    [
        (TABLE.drop(columns="word"), None),
        (TABLE[:0], None),
        (pd.concat([TABLE, TABLE]), None),
        (TABLE.assign(log_prob=3.0), None),
        (scores(made(2)).assign(top_words=[["a"]] * 2, top_log_probs=[[1.0]] * 2), None),
        (made(2), None),
        (TABLE, pd.DataFrame({"item_id": IDS})),
    ],
)
def test_what_cannot_be_drawn_is_told(data, answers):
    told = refused(charts.expected, data, answers=answers)
    assert told.hint


def test_what_is_passed_is_not_changed():
    data, frame = TABLE.copy(), predicted()
    before = frame.copy(deep=True)
    charts.expected(data, answers=frame, items=ITEMS)
    pd.testing.assert_frame_equal(data, TABLE)
    pd.testing.assert_frame_equal(frame, before)


def test_it_is_rendered_with_its_labels(tmp_path):
    chart = charts.expected(TABLE, answers=predicted(), items=ITEMS)
    svg = charts.save(chart, tmp_path / "a.svg", dark=True).read_text(encoding="utf-8")
    for text in ("Heron", "” (closing quote)", "12.5 % ← answer", "rank 1,234, p =", "looked for the ____"):
        assert text in svg
    assert svg.count(theme.PALETTE[1]) == 1
    assert "currentColor" not in svg
    assert "NaN" not in svg
