"""What passages are shaded by: each character has the value of the span that it is in, and its note."""

import math

import numpy as np
import pandas as pd
import pytest
from braced_items import clozes
from hypothesis import given
from hypothesis import strategies as st
from random_predictions import ask, listening, predicted
from refused import refused

import workbench as wb
from workbench.items.changes import word_spans
from workbench.render.numbers import MINUS
from workbench.storage.errors import DataError
from workbench.widgets.compare.compare import compare
from workbench.widgets.shared.shading import ShadedSpan, Shading, shaded_passage, shadings

pytestmark = pytest.mark.usefixtures("home")

ITEMS = clozes("It rained . The dog said `` go now '' . I fed the {dog}", "No rain fell . She did n't {run}")


def influences(values=(0.5, -2.0, 1.0)):
    """Return influences of the sentences of the first item, then of the second's."""
    spans = [(item, span) for item in ITEMS for span in item.sentences[:-1]]
    rows = [
        (item.item_id, start, end, item.text[start:end], 4 + place, value)
        for place, ((item, (start, end)), value) in enumerate(zip(spans, values, strict=True))
    ]
    return pd.DataFrame(rows, columns=["item_id", "start", "end", "text", "distance", "influence"])


@given(
    st.lists(st.floats(-9, 9) | st.sampled_from([math.nan, math.inf, -math.inf]), min_size=12, max_size=12)
)
def test_each_piece_has_the_share_of_its_span(values):
    item = ITEMS[0]
    words = [span for k, span in enumerate(word_spans(item)) if k % 3][: len(values)]
    spans = [
        ShadedSpan(span, value, [str(k)]) for k, (span, value) in enumerate(zip(words, values, strict=False))
    ]
    view = shaded_passage(item, {"s": [(0, 20)]}, Shading("x", "nats", {item.item_id: spans}, ("a", "b")))
    finite = [abs(each.value) for each in spans if math.isfinite(each.value)]
    top = max(finite, default=0)
    shown, placed = item.readable(words)
    seen = set()
    for side, shades in zip(("context", "query"), view["shades"]["pieces"], strict=True):
        assert len(view[side]) == len(shades)
        for (text, _), shade in zip(view[side], shades, strict=True):
            if shade is None:
                continue
            share, (number,) = shade
            begin, end = placed[int(number)]
            assert text in shown[begin:end]
            value = spans[int(number)].value
            seen.add(int(number))
            if math.isnan(value) or not top:
                assert share == 0
            else:
                assert share == pytest.approx(np.clip(value / top, -1, 1), abs=1e-4)
    assert seen == set(range(len(spans)))


def test_browse_shades_by_influence_with_the_sign_and_a_note():
    parts = influences()
    parts = parts.assign(against="cat", contrast=0.25, rank=3, rank_change=[2, 0, -1])
    widget = listening(wb.browse(ITEMS, influence=parts, state={"reveal": True}))
    (view,) = ask(widget, type="open")
    shades = view["passage"]["shades"]
    assert (shades["label"], shades["unit"], shades["top"]) == ("influence", "nats", 2.0)
    assert shades["signs"] == ["supports the answer", "speaks against it"]
    by_share = {shade[0]: shade[1] for side in shades["pieces"] for shade in side if shade}
    assert list(by_share) == [0.25, -1.0]
    assert by_share[-1.0] == [
        f"influence {MINUS}2.00 nats", "5 words before the answer", "against “cat”: +0.25 nats",
        "rank 3, without this part 3",
    ]  # fmt: skip
    assert view["code"] == "wb.browse(items, influence=influence, state={'reveal': True})"
    widget.state = widget.state | {"shade": ""}
    assert widget.sent[-1]["passage"]["shades"] is None
    assert "'shade': ''" in widget.code
    with pytest.raises(DataError):
        widget.state = {"shade": "x"}
    widget.close()
    named = wb.browse(
        ITEMS, influence={"A": parts, "B": influences((1, 1, 1))}, state={"shade": "influence: B"}
    )
    assert named.state["shade"] == "influence: B"
    named.close()


def test_browse_shades_by_surprisal_with_the_best_words(sample_ngram):
    words = wb.surprisal(sample_ngram.cached(0.3), ITEMS, against=sample_ngram, top_k=5)
    widget = listening(wb.browse(ITEMS, surprisal={"one": words.drop(columns="difference"), "two": words}))
    (view,) = ask(widget, type="open")
    assert view["passage"]["shadings"] == ["surprisal: one", "difference in surprisal: two"]
    shades = view["passage"]["shades"]
    assert shades["signs"] is None
    notes = [shade[1] for side in shades["pieces"] for shade in side if shade]
    first = words[words["item_id"] == ITEMS[0].item_id]
    for note, row in zip(notes, first.itertuples(), strict=True):
        assert note[0] == f"surprisal {row.surprisal:.1f} bits".replace("inf", "∞").replace("nan", "-")
        assert [each.split()[0] for each in note[1].split(" · ")] == row.top_words
    blank = [shade for piece, shade in zip(view["passage"]["query"], shades["pieces"][1], strict=True)
             if "b" in piece[1]]  # fmt: skip
    assert blank[0][1] == notes[-1], "the answer has its own"
    widget.state = widget.state | {"shade": "difference in surprisal: two"}
    shades = widget.sent[-1]["passage"]["shades"]
    notes = [shade[1] for side in shades["pieces"] for shade in side if shade]
    first, second = (f"{model.name}: " for model in (sample_ngram.cached(0.3), sample_ngram))
    assert all(note[1].startswith(first) and note[2].startswith(second) for note in notes)
    assert shades["signs"][0] == f"more surprising for {sample_ngram.cached(0.3).name}"
    widget.close()


def test_compare_shades_too_and_attention_gives_way():
    items = wb.load("sample", variant="capitalised")[:6]
    frames, item = predicted(items, 2), items[1]
    start, end = item.sentences[0]
    parts = pd.DataFrame([(item.item_id, start, end, 9, -0.5)],
                         columns=["item_id", "start", "end", "distance", "influence"])  # fmt: skip
    widget = listening(
        compare(
            items, frames, annotations=False, influence=parts, resamples=50, state={"current": item.item_id}
        )
    )
    ask(widget, type="open")
    p = widget.sent[-1]["passage"]
    assert (p["shadings"], p["shades"]["label"]) == (["influence"], "influence")
    widget.state = widget.state | {"shade": "", "attention": "model 1"}
    assert widget.sent[-1]["passage"]["shades"]["label"] == "attention"
    assert widget.code.startswith("wb.compare(items, runs, influence=influence, ")
    with pytest.raises(DataError):
        widget.state = widget.state | {"shade": "y"}
    widget.close()


def test_spans_that_do_not_fit_are_refused():
    parts = influences()
    twice = pd.concat([parts, parts[:1].assign(end=lambda frame: frame["end"] - 2)])
    for options in (
        {"influence": parts.drop(columns="start")},
        {"influence": parts.assign(start=parts["start"] + 1)},
        {"influence": parts.assign(end=999)},
        {"influence": twice.drop(columns="text")},
        {"influence": 3},
        {"surprisal": parts},
        {"surprisal": "x"},
    ):
        refused(wb.browse, ITEMS, **options)
    assert shadings(ITEMS, influence=parts.assign(item_id="of another set"))["influence"].spans == {}
