"""What models looked at: weights of each family beside plain calculations, the view, its page and figure."""

import json
import struct
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from attentive import HEADS, Blind, Windows
from braced_items import cloze, clozes, passages
from html_page import Page
from hypothesis import given, settings
from hypothesis import strategies as st
from random_predictions import ask, listening, predicted
from refused import refused
from tiny_models import makers
from traitlets import TraitError

import workbench as wb
from workbench import charts
from workbench.items.marked_text import pieces, weighted_pieces
from workbench.items.tokens import tokens
from workbench.models import LSTM, CausalLM, MemoryNetwork, PointerTransformer
from workbench.models.item_words import Attention
from workbench.storage.errors import DataError
from workbench.widgets.attention.attention import attention_view
from workbench.widgets.shared.widget import MAXIMUM

pytestmark = pytest.mark.usefixtures("home")

torch.set_num_threads(1)
TEXT = ["the keeper saw the boat . then ada told the keeper of the zyx . he thanked ada and the {keeper}"]
ITEMS = clozes(*TEXT, "a storm came . nobody saw the {boat} .", "{Tea}")
QUICK = {"tokens": 3000, "device": "cpu", "vocabulary": 60, "rows": 4}
LONG = "She said ` no ' , and <b>he</b> said nothing . " * 150


def look(spans=((0, 3), (4, 10)), weights=((0.75, 0.25), (0.5, 0.0)), rows=("hop 1", "hop 2"), **values):
    known = {"item_id": "x/dev/0", "model": "m", "query": None, "prediction": "keeper"} | values
    return Attention(rows=rows, spans=spans, weights=np.array(weights), **known)


# -- weights


def test_rows_are_chosen_by_name_by_group_or_all_together():
    heads = look(rows=HEADS[:2])
    assert heads.row_weights("layer 1, head 2").tolist() == [0.5, 0.0]
    assert heads.row_weights("layer 1").tolist() == heads.row_weights().tolist() == [0.625, 0.125]
    assert look(rows=("all", "head 1")).row_weights().tolist() == [0.75, 0.25]
    assert look(spans=(), weights=np.zeros((0, 0)), rows=()).row_weights().tolist() == []
    refused(heads.row_weights, "layer")


def test_weights_are_spread_over_tokens():
    item = cloze("the keeper saw . the {boat} sank")
    parts = look(spans=((0, 10), (4, 14), (3, 4)), weights=((0.5, 0.4, 0.1),), rows=("hop 1",))
    assert parts.by_token(item) == pytest.approx([0.25, 0.45, 0.2, 0, 0, 0, 0])  # white space has no token
    item = cloze("a b c d e {f} g")
    windows = look(
        spans=((0, 5), (0, 7), (4, 13), (6, 13)), weights=((0.1, 0.2, 0.3, 0.4),), rows=("hop 1",)
    )  # around a, b, e and f, cut off at both ends
    assert windows.by_token(item, window=5) == [0.1, 0.2, 0, 0, 0.3, 0.4, 0]
    item = cloze("the keeper saw . the {boat} sank")
    assert look().predicted(item) == [(4, 10)]
    assert look(prediction="").predicted(item) == []


@given(passages(), st.data())
def test_pieces_have_the_weight_of_each_of_their_characters(item, data):
    edge = st.integers(0, len(item.text))
    drawn = st.lists(st.tuples(edge, edge, st.floats(0, 1)), max_size=6)
    parts = [(min(a, b), max(a, b), w) for a, b, w in data.draw(drawn)]
    marks = {"s": [(0, len(item.text))]}
    cut = weighted_pieces(item, marks, [part[:2] for part in parts], [part[2] for part in parts])
    plain = pieces(item, marks)
    assert ["".join(text for text, _, _ in part) for part in cut] == [
        "".join(text for text, _ in part) for part in plain
    ]
    shown, (sentence, blank, *placed) = item.readable(
        [item.sentences[-1], item.answer_span, *(part[:2] for part in parts)]
    )
    place = 0
    for which, part in enumerate(cut):
        place = min(sentence[0], blank[0]) if which else 0
        for text, kinds, weight in part:
            for at in range(place, place + len(text)):
                over = [w for (a, b), (_, _, w) in zip(placed, parts, strict=True) if a <= at < b]
                if "b" not in kinds:
                    assert shown[at] == text[at - place]
                    assert (weight is None) == (not over)
                    assert (weight or 0) == pytest.approx(sum(over), abs=1e-9)
            place += len(text)


@cache
def memory():
    return MemoryNetwork.fit(wb.books("sample"), width=12, hops=3, memory=9, **QUICK)


@cache
def pointer():
    sizes = {"width": 16, "layers": 1, "heads": 2, "length": 32, "window": 32, "pointer_heads": 2}
    return PointerTransformer.fit(wb.books("sample"), **sizes, **QUICK)


def test_a_memory_network_says_what_each_hop_read():
    model, (first, second, bare) = memory(), memory().attend(ITEMS)
    network = model.network
    for item, attention in zip(ITEMS[:2], (first, second), strict=True):
        cut = tokens(item)
        words = cut.words[: cut.target][-9:]
        assert [item.text[a:b] for a, b in attention.spans] == list(words)
        ids = [model.vocabulary.index(word) + 1 if word in model.vocabulary else 0 for word in words]
        query = np.full(12, 0.1)
        weight = {name: value.detach().double().numpy() for name, value in network.named_parameters()}
        ages = slice(9 - len(ids), 9)
        keys = weight["keys.weight"][ids] + weight["key_ages"][ages]
        values = weight["values.weight"][ids] + weight["value_ages"][ages]
        for hop in range(3):
            part = np.exp(keys @ query - (keys @ query).max())
            part /= part.sum()
            np.testing.assert_allclose(attention.row_weights(f"hop {hop + 1}"), part, atol=1e-5)
            query = query @ weight["turn"] + part @ values
            query = np.where((query < 0) & (network.slopes.numpy() == 0), 0, query)
        assert attention.prediction == model.predict(ITEMS).set_index("item_id")["prediction"][item.item_id]
    assert first.query is None  # its first query is the same for all texts
    assert (bare.spans, bare.weights.shape) == ((), (3, 0))
    sentence = model.with_context("sentence").attend(ITEMS[:1])[0]
    assert " ".join(ITEMS[0].text[a:b] for a, b in sentence.spans) == "he thanked ada and the"


def test_a_pointer_says_what_it_copies():
    model, (first, _, bare) = pointer(), pointer().attend(ITEMS)
    item = ITEMS[0]
    words = [item.text[a:b] for a, b in first.spans]
    assert words == list(tokens(item).words[:-1])
    assert item.text[slice(*first.query)] == "the"
    heads = sum(first.row_weights(f"pointer head {number}") for number in (1, 2))
    np.testing.assert_allclose(first.row_weights(), heads, atol=1e-6)
    # an unknown word has its share of <unk> unless it stands in the passage; that is the difference
    there, elsewhere = np.exp(model.score(ITEMS[:1], [["zyx", "qqq"]])[0])
    at = [words.index("zyx")]
    assert "zyx" not in model.vocabulary
    assert first.row_weights()[at].sum() == pytest.approx(there - elsewhere, abs=1e-6)
    assert bare.row_weights().tolist() == []
    assert bare.query is None


def test_predictions_carry_the_weights_where_they_are_asked_for():
    run, plain = wb.predict(ITEMS, pointer(), attention=True), wb.predict(ITEMS, pointer())
    assert run.run != plain.run
    assert wb.predict(ITEMS, pointer(), attention=True).run == run.run
    rows = run.predictions["attention"]
    assert [len(row) for row in rows] == [len(tokens(item).words) for item in ITEMS]
    np.testing.assert_allclose(rows[0][:-1], pointer().attend(ITEMS)[0].row_weights(), atol=1e-6)
    assert rows[0][-1] == 0  # the answer
    assert plain.predictions["attention"].isna().all()
    assert not pointer().attention
    lstm = LSTM.fit(wb.books("sample"), width=8, length=10, softmax="full", **QUICK)
    for reject in (lambda: lstm.attend(ITEMS), lambda: wb.predict(ITEMS, lstm, attention=True)):
        refused(reject)


@pytest.mark.parametrize("kind", ["bytes", "llama"])
def test_a_causal_model_says_what_each_head_read(kind, tmp_path_factory):
    transformers = pytest.importorskip("transformers")
    folder = makers(tmp_path_factory.mktemp)(kind)
    model = CausalLM(folder)
    before = model._checkpoint.model.config._attn_implementation
    first, second = model.attend(ITEMS[:2])
    assert model._checkpoint.model.config._attn_implementation == before != "eager"
    network = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    for item, attention in zip(ITEMS[:2], (first, second), strict=True):
        left = item.text[: item.answer_span[0]].rstrip()
        encoded = tokenizer(left, return_offsets_mapping=True, return_tensors="pt")
        places = encoded.pop("offset_mapping")[0].tolist()
        with torch.inference_mode():
            layers = network(**encoded, output_attentions=True).attentions
        assert len(attention.rows) == sum(layer.shape[1] for layer in layers)
        assert item.text[slice(*attention.query)] == left.split()[-1]
        for a, layer in enumerate(layers, 1):
            for b, head in enumerate(layer[0, :, -1].numpy(), 1):
                expected = [
                    sum(w for w, (s, e) in zip(head, places, strict=True) if start <= e - 1 < end and s < e)
                    for start, end in attention.spans
                ]
                np.testing.assert_allclose(attention.row_weights(f"layer {a}, head {b}"), expected, atol=1e-5)
    frame = CausalLM(folder, attention=True).predict(ITEMS[:1])
    row = np.array(frame["attention"][0])
    np.testing.assert_allclose(row[row > 0], first.row_weights(f"layer {len(layers)}"), atol=1e-5)


# -- the view


def view(*models, items=ITEMS, **options):
    return listening(wb.attention(list(models) or Windows(), items, **options))


def test_the_page_gets_the_passage_with_weights_and_the_strongest_parts():
    widget = view()
    (message,) = ask(widget, type="open", request="show")
    p, attention, item = message["passage"], widget.weights, ITEMS[0]
    assert (message["n"], message["index"], message["row"], p["id"]) == (3, 0, "", item.item_id)
    assert [group for group, _ in p["groups"]] == ["hop 1", "hop 2"]
    weights = attention.row_weights()
    assert p["sum"] == pytest.approx(1)
    covered = [weight for _, _, weight in [*p["context"], *p["query"]] if weight is not None]
    assert p["most"] == pytest.approx(max(covered))
    best = np.argsort(-weights, kind="stable")[:12]
    assert [weight for _, weight, _ in p["parts"]] == pytest.approx(weights[best].tolist())
    all_pieces = [*p["context"], *p["query"]]
    for (text, _, at), place in zip(p["parts"], best, strict=True):
        shown, [(start, end)] = item.readable([attention.spans[place]])
        assert text == shown[start:end].strip()
        assert text.startswith(all_pieces[at][0].strip())
    letters = {letter: [text for text, kinds, _ in all_pieces if letter in kinds] for letter in "bwmp"}
    assert letters["b"] == ["keeper"]
    assert "".join(letters["w"]) == "the keeper"
    assert letters["m"] == ["keeper", "keeper"]
    assert letters["p"] == ["the"] * 5  # what it predicted
    frame = widget.to_frame()
    assert frame["weight"].is_monotonic_decreasing
    assert frame["weight"].sum() == pytest.approx(1)
    texts = [item.text[a:b] for a, b in zip(frame["start"], frame["end"], strict=True)]
    assert frame["text"].tolist() == texts
    widget.close()


def test_walking_choosing_and_setting_from_python():
    widget = view(Windows(), Windows("heads", HEADS))
    (message,) = ask(widget, type="show", request="show", index=1, row="hop 2")
    assert (message["index"], message["row"]) == (1, "hop 2")
    assert (widget.row, widget.current_id) == ("hop 2", "x/dev/1")
    (message,) = ask(widget, type="show", index=99, model="heads")
    assert (message["index"], message["model"], message["row"]) == (2, "heads", "")  # it has no hops
    assert message["passage"]["groups"][0] == ["layer 1", [f"layer 1, head {b}" for b in (1, 2, 3)]]
    widget.sent.clear()
    widget.current = ITEMS[1]
    widget.row = "layer 2"
    assert [(m["index"], m["row"]) for m in widget.sent] == [(1, ""), (1, "layer 2")]
    assert widget.selection[0].item_id == widget.current.item_id == "x/dev/1"
    for name, value in (("row", "hop 1"), ("model", "none"), ("current_id", "x/dev/9")):
        with pytest.raises(DataError):
            setattr(widget, name, value)
        assert (widget.current_id, widget.model, widget.row) == ("x/dev/1", "heads", "layer 2")
    (message,) = ask(widget, type="show", request="show", index=1, row="hop 9")
    assert message["type"] == "error"
    assert "no row 'hop 9'" in message["message"]
    assert widget.row == "layer 2"
    with pytest.raises(TraitError):
        widget.scale = "cubic"
    widget.close()


def test_weights_are_asked_for_once_and_errors_of_an_item_are_shown():
    model = Windows()
    widget = view(model)
    for index in (0, 1, 0, 1):
        ask(widget, type="show", index=index)
    assert model.asked == ["x/dev/0", "x/dev/1"]
    model.attend = lambda _items: 1 / 0
    widget._sources["windows"] = model.attend
    (message,) = ask(widget, type="show", request="show", index=2)
    assert message == {"type": "error", "request": "show", "from": None, "message": "division by zero"}
    assert widget.current_id == "x/dev/1"
    widget.close()


def test_models_that_cannot_say_and_items_that_are_not_there():
    empty = wb.load("sample")[:0]
    for models, items, options in (
        (Blind("blind"), ITEMS, {}),
        ([], ITEMS, {}),
        (5, ITEMS, {}),
        (predicted(ITEMS, 1, attentive=())[0], ITEMS, {}),
        (Windows(), ITEMS, {"row": "hop 3"}),
        (Windows(), ITEMS, {"current": "x/dev/7"}),
        (Windows(), ["text"], {}),
    ):
        refused(wb.attention, models, items, **options)
    widget = view(items=empty)
    (message,) = ask(widget, type="open")
    assert (message["n"], message["index"], message["passage"]) == (0, -1, None)
    assert ask(widget, type="show", index=3)[0]["index"] == -1
    assert "no items here" in widget.to_html()
    assert widget.current is None
    assert len(widget.to_frame()) == 0
    for reject in (widget.chart, lambda: widget.weights):
        refused(reject)
    widget.close()


def test_predictions_show_their_column():
    frames = predicted(ITEMS[:2], 2, attentive=(0, 1), names=["one", "one"])
    widget = view(*frames, items=ITEMS)
    assert list(widget._sources) == ["one", "one (2)"]
    for label, frame in zip(widget._sources, frames, strict=True):
        widget.model = label
        row = np.array(frame["attention"][0])
        spans = np.array(tokens(ITEMS[0]).spans)[row > 0]
        assert list(widget.weights.spans) == [tuple(span) for span in spans.tolist()]
        assert widget.weights.row_weights().tolist() == row[row > 0].tolist()
        assert widget.weights.prediction == frame["prediction"][0]
    (message,) = ask(widget, type="show", request="show", index=2)
    assert "'one' have no attention for 'x/dev/2'" in message["message"]
    wrong = frames[0].assign(attention=[[0.5], [0.5]])
    refused(wb.attention, wrong, ITEMS[:1])
    widget.close()
    named = wb.attention({"mine": Windows()}, ITEMS)
    assert named.model == "mine"
    named.close()


def test_the_static_page_is_small_escaped_and_hides_the_answer():
    item = cloze(f"{LONG}. they saw <i>the</i> {{keeper}}", "x/dev/<u>")
    items = wb.items.items.Items.from_records([item])
    widget = view(
        Windows("<b>evil</b>", prediction="<s>no</s>"), items=items, row="hop 1", scale="square root"
    )
    html = widget.saved.html()
    assert len(html.encode()) <= MAXIMUM
    page = Page(html)
    assert not {"i", "u", "s", "script"} & set(page.tags)
    assert page.tags.count("b") == 2, "answer and prediction, each in what opens on a click"
    assert page.tags.count("details") == 2
    assert "Attention of<b>evil</b>, hop 1" in page.text
    shown = item.readable()[0]
    context, query = shown.removesuffix(" keeper").split(". they")
    assert context in page.text
    assert query in page.text
    most = round(widget.weights.row_weights("hop 1").max(), 9)
    assert f"{most:.2g}" in page.text
    dense = view(Windows(rows=("hop 1",)), items=wb.items_from_text([f"{'the keeper saw it ' * 900}boat"]))
    assert len(dense.saved.html().encode()) <= MAXIMUM
    dense.close()
    widget.close()


@settings(max_examples=20)
@given(passages())
def test_every_passage_can_be_shown(item):
    (attention,) = Windows().attend([item])
    p = json.loads(json.dumps(attention_view(item, attention, "")))
    context, query = ("".join(text for text, _, _ in p[side]) for side in ("context", "query"))
    shown = item.readable([item.sentences[-1], item.answer_span])[0]
    assert context == shown[: len(context)]
    assert query == shown[len(shown) - len(query) :]
    assert all(0 <= at < len(p["context"]) + len(p["query"]) for _, _, at in p["parts"])


# -- the figure


def texts_of(chart):
    rows = chart.to_dict()["datasets"].values()
    return max(rows, key=len)


def test_the_figure_holds_the_passage_in_lines_of_its_width():
    item, model = ITEMS[0], Windows(rows=HEADS)
    (attention,) = model.attend([item])
    chart = charts.attention_map(item, attention, row="layer 2", width=200)
    runs = pd.DataFrame(texts_of(chart))
    assert runs["x2"].max() <= 200
    assert runs["line"].nunique() >= 3
    for _, line in runs.groupby("line"):
        assert (line["x"].iloc[1:].to_numpy() == line["x2"].iloc[:-1].to_numpy()).all()
    lines = ["".join(line["text"]).strip() for _, line in runs.groupby("line")]
    assert " ".join(lines) == item.readable()[0]
    weights = attention.row_weights("layer 2")
    shown = runs.groupby("text")["weight"].max()
    cut = weighted_pieces(item, {}, attention.spans, weights.tolist())
    for text, _, weight in [piece for part in cut for piece in part]:
        for word in text.split():
            assert weight is None or shown[word] >= weight - 1e-9
    told = " ".join(chart.to_dict()["title"]["subtitle"])
    assert "answer (underlined): keeper; prediction (dashed): the" in told
    assert "windows, layer 2" in told


def test_the_figure_hides_what_the_view_hides(tmp_path):
    widget = wb.attention(Windows(prediction="Ada"), ITEMS)
    spec = widget.chart().to_dict()
    assert "_____" in [row["text"] for row in texts_of(widget.chart())]
    assert "answer" not in json.dumps(spec["title"])
    widget.reveal = True
    assert "Ada" in json.dumps(widget.chart().to_dict()["title"])
    for kind, head in (("svg", b"<svg"), ("png", b"\x89PNG"), ("pdf", b"%PDF")):
        assert widget.save(tmp_path / f"figure.{kind}").read_bytes().startswith(head)
    wide = widget.save(tmp_path / "wide.png", width="8.5cm", dpi=300).read_bytes()
    assert struct.unpack(">I", wide[16:20])[0] == pytest.approx(8.5 / 2.54 * 300, abs=2)
    listening(widget)
    assert ask(widget, type="figure", request="figure", kind="svg")[0]["name"] == "attention.svg"
    widget.close()
    for reject in (
        lambda: charts.attention_map(ITEMS[1], Windows().attend(ITEMS[:1])[0]),
        lambda: charts.attention_map(ITEMS[0], look(), scale="log"),
    ):
        refused(reject)


# -- in the browser


def test_browse_shows_the_column_with_the_target():
    frames = pd.concat(predicted(ITEMS, 3, attentive=(0, 2)))
    widget = listening(wb.browse(ITEMS, predictions=frames))
    (message,) = ask(widget, type="open")
    p = message["passage"]
    assert (p["attention"], p["shades"]) == (["model 0", "model 2"], None)
    widget.attention = "model 2"
    p = widget.sent[-1]["passage"]
    row = frames[frames["model"] == "model 2"]["attention"].iloc[0]
    shares = [shade[0] for side in p["shades"]["pieces"] for shade in side if shade]
    n_before = tokens(ITEMS[0]).target
    assert sum(shares) == pytest.approx(sum(row[:n_before]) / max(row[:n_before]), abs=0.01)
    assert [len(side) for side in p["shades"]["pieces"]] == [len(p["context"]), len(p["query"])]
    widget.attention = "model 1"
    assert widget.sent[-1]["passage"]["shades"] is None
    widget.close()
