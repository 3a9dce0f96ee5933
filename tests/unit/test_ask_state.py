"""The widget without a page: what it sends, what its traits do, its static twin."""

import json
import threading

import numpy as np
import pytest
from ask_models import Counting

from workbench.items.schema import DataError
from workbench.render.numbers import probability
from workbench.widgets.ask.ask import EXAMPLE, Ask, ask, models_by_name

TEXT = "Nobody trusted the keeper. But the first man out of the storm was the keeper"
PAUSE = 20


@pytest.fixture
def made():
    """Make widgets that keep nothing by time, and close them at the end."""
    widgets = []

    def make(models, text="", **options):
        widget = Ask(models_by_name(models), text="", settle=None)
        sent = []

        def send(content, buffers=None):
            assert buffers is None
            sent.append(json.loads(json.dumps(content, allow_nan=False)))

        widget.send = send
        widgets.append(widget)
        with widget._together():
            for name, value in {"text": text, **options}.items():
                setattr(widget, name, value)
        if text:
            widget._ask()
        return widget, sent

    yield make
    for widget in widgets:
        widget.close()


def of(sent, kind):
    return [message for message in sent if message["type"] == kind]


def hear(widget, kind, **message):
    widget._hear(widget, {"type": kind, "from": "page", **message}, [])


def state(**options):
    return {"text": "", "other": "", "word": "", "candidates": "", "pairs": False} | options


def test_an_edit_is_read_and_answered(made):
    widget, sent = made(Counting())
    hear(widget, "open")
    opened = of(sent, "asked")[0]
    assert (opened["number"], opened["from"], opened["labels"]) == (0, "page", ["counting"])
    assert opened["read"] == []
    assert opened["example"] == EXAMPLE.text
    hear(widget, "ask", state=state(text=TEXT))
    widget.wait(PAUSE)
    asked, answer = of(sent, "asked")[1], of(sent, "answer")[0]
    assert (asked["number"], asked["from"], asked["answers"], asked["problems"]) == (1, "page", [None], {})
    [read] = asked["read"]
    assert "".join(text for text, _ in read["context"]) == "Nobody trusted the keeper."
    assert read["query"][-1] == ["keeper", "b"]
    assert widget.text == TEXT
    assert (answer["number"], answer["place"]) == (1, 0)
    [side] = answer["view"]["sides"]
    row = widget.to_frame().set_index("version").loc["passage"]
    assert (row["rank"], row["n_tied"]) == (2, 5)  # after "the"; beside storm, was, man and the full stop
    assert side["passage"]["rank"] == "rank 2 of 12, 5 tied"
    assert side["passage"]["p"] == probability(np.exp(row["log_prob"]))
    assert side["passage"]["ln"] == f"ln p −{-row['log_prob']:.2f}"  # noqa: RUF001
    word, p, label, here, own = side["passage"]["bars"][0]
    assert (word, here, own, label) == ("the", True, False, probability(p))
    assert [bar[4] for bar in side["passage"]["bars"]].count(True) == 1
    sentence = widget.to_frame().set_index("version").loc["sentence"]
    gain = row["log_prob"] - sentence["log_prob"]
    assert gain > 0
    assert side["gain"] == {"nats": f"+{gain:.2f} nats", "factor": f"× {np.exp(gain):.2f}"}  # noqa: RUF001
    assert of(sent, "history")[-1]["rows"][0] | {"time": ""} == {
        "number": 1, "time": "", "word": "keeper", "pairs": False,
        "text": "But the first man out of the storm was the ▁▁▁",
    }  # fmt: skip


def test_traits_ask_again_and_only_where_something_changes(made):
    widget, sent = made(Counting(), TEXT)
    assert len(of(sent, "asked")) == 1
    widget.text = TEXT
    assert len(of(sent, "asked")) == 1
    widget.word = "boat"
    assert len(of(sent, "asked")) == 2
    assert of(sent, "asked")[-1]["from"] == ""
    assert widget.wait(PAUSE).results()["word"].tolist() == ["boat", "boat"]
    hear(widget, "ask", state=widget.state._asdict())
    assert of(sent, "asked")[-1]["number"] == 2  # not asked again, but answered: the page waits
    assert of(sent, "asked")[-1]["answers"][0] is not None
    widget.text = "a ___ b ___"
    assert "2 blanks" in widget.problem
    assert of(sent, "asked")[-1]["problems"]["A"] == widget.problem
    with pytest.raises(DataError, match="2 blanks"):
        widget.wait(1)
    widget.text = ""
    assert widget.problem == ""
    assert widget.results().empty


def test_strange_messages_are_told_to_the_page(made):
    widget, sent = made(Counting())
    for message in ({}, {"state": {}}, {"state": state(text=3)}):
        sent.clear()
        hear(widget, "ask" if message else "back", number=7, **message)
        assert [(m["type"], m["from"]) for m in sent] == [("error", "page")]
    assert widget._asker == ""
    hear(widget, "ask", state=state(text=TEXT))
    assert widget.wait(PAUSE).problem == ""


def test_back_to_a_kept_question(made):
    model = Counting()
    widget, sent = made(model, TEXT)
    widget.wait(PAUSE)
    pair = state(text="A boat. The storm", other="A rock. The storm", pairs=True)
    hear(widget, "ask", state=pair, settled=True)
    widget.wait(PAUSE)
    n = len(model.asked)
    sent.clear()
    hear(widget, "back", number=1)
    [asked] = of(sent, "asked")
    assert (asked["from"], asked["state"]) == ("", state(text=TEXT))
    assert asked["answers"][0]["sides"][0]["word"] == "keeper"
    assert (widget.text, widget.pairs, len(model.asked)) == (TEXT, False, n)
    assert len(widget.history) == 2
    hear(widget, "keep")
    assert len(widget.history) == 2


def test_minimal_pairs(made):
    pair = {"text": "A baker ran. Then came the keeper", "other": "A keeper ran. Then came the keeper"}
    widget, sent = made(Counting(), **pair, pairs=True)
    frame = widget.wait(PAUSE).to_frame()
    assert frame["side"].tolist() == ["A", "A", "B", "B"]
    assert frame["version"].tolist() == ["passage", "sentence"] * 2
    log_prob = frame["log_prob"].to_numpy()
    assert log_prob[2] > log_prob[0]
    assert log_prob[1] == log_prob[3]
    view = of(sent, "answer")[0]["view"]
    assert view["differences"]["passage"]["nats"] == f"−{log_prob[2] - log_prob[0]:.2f} nats"  # noqa: RUF001
    assert view["differences"]["passage"]["factor"].startswith("÷ ")
    assert view["differences"]["sentence"]["nats"] == "0.00 nats"
    read = of(sent, "asked")[-1]["read"]
    different = [[text for text, kinds in side["context"] if "d" in kinds] for side in read]
    assert different == [["baker"], ["keeper"]]
    assert len(widget.items) == 2


def test_models_are_told_apart_and_checked():
    same = Counting("same")
    assert list(models_by_name([same, Counting("same"), Counting("same (2)")])) == [
        "same",
        "same (2)",
        "same (2) (2)",
    ]
    assert list(models_by_name({"mine": same})) == ["mine"]
    assert list(models_by_name(same)) == ["same"]
    for bad in ([], ["gpt"], [Counting], None):
        with pytest.raises(DataError):
            models_by_name(bad)


def test_no_thread_is_started_before_something_is_asked():
    widget = ask([Counting("quiet one")])
    assert "ask quiet one" not in [thread.name for thread in threading.enumerate()]
    widget.close()
