"""The widget without a page: what it sends, what its traits do, its static twin."""

import json
import threading
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from ask_models import Counting, Failing, Gated, Scoring
from html_page import Page
from patience import PATIENCE
from refused import refused
from traitlets import TraitError

from workbench.items.items import Items, items_from_text
from workbench.models import RandomWord
from workbench.models.base import Predictor, pad
from workbench.models.item_words import ReadContext
from workbench.models.prediction_rows import Ranked
from workbench.probing.influence import influence
from workbench.probing.surprisal import surprisal
from workbench.render.numbers import probability
from workbench.storage.errors import DataError
from workbench.widgets.ask.ask import EXAMPLE, Ask, ask, models_by_name
from workbench.widgets.ask.questions import TypedQuestion
from workbench.widgets.ask.views import answer_view, preview
from workbench.widgets.shared.widget import MAXIMUM

TEXT = "Nobody trusted the keeper. But the first man out of the storm was the keeper"


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
        widget.state = widget.state._replace(text=text, **options)
        return widget, sent

    yield make
    for widget in widgets:
        widget.close()


def of(sent, kind):
    return [message for message in sent if message["type"] == kind]


def hear(widget, kind, **message):
    widget._handle_message(widget, {"type": kind, "from": "page", **message}, [])


def state(**options):
    return TypedQuestion()._asdict() | options


def test_an_edit_is_read_and_answered(made):
    widget, sent = made(Counting())
    hear(widget, "open")
    opened = of(sent, "asked")[0]
    assert opened["rest"] is False
    assert (opened["number"], opened["from"], opened["labels"]) == (0, "page", ["counting"])
    assert opened["read"] == []
    assert opened["example"] == EXAMPLE.text
    hear(widget, "ask", state=state(text=TEXT))
    widget.wait(PATIENCE)
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
    assert side["passage"]["rank"] == "tied 2–6 of 12"  # noqa: RUF001
    assert side["passage"]["p"] == probability(np.exp(row["log_prob"]))
    assert side["passage"]["ln"] == f"ln p −{-row['log_prob']:.2f} nats"  # noqa: RUF001
    word, p, label, here, own = side["passage"]["bars"][0]
    assert (word, here, own, label) == ("the", True, False, probability(p))
    assert [bar[4] for bar in side["passage"]["bars"]].count(True) == 1
    sentence = widget.to_frame().set_index("version").loc["sentence"]
    gain = row["log_prob"] - sentence["log_prob"]
    assert gain > 0
    text = f"context makes it {np.exp(gain):.2f} times as likely (+{gain:.2f} nats)"
    assert side["gain"] == {"nats": f"+{gain:.2f} nats", "text": text}
    assert of(sent, "history")[-1]["rows"][0] | {"time": ""} == {
        "number": 1, "time": "", "word": "keeper", "pairs": False, "candidates": 0, "alpha": 0.0, "k": 10,
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
    assert widget.wait(PATIENCE).results()["word"].tolist() == ["boat", "boat"]
    hear(widget, "ask", state=widget.state._asdict())
    assert of(sent, "asked")[-1]["number"] == 2  # not asked again, but answered: the page waits
    assert of(sent, "asked")[-1]["answers"][0] is not None
    widget.text = "a ___ b ___"
    assert "2 blanks" in widget.problem
    assert of(sent, "asked")[-1]["problems"]["A"] == widget.problem
    refused(widget.wait, 1)
    widget.text = ""
    assert widget.problem == ""
    assert widget.results().empty


def test_a_question_of_the_history_is_asked_again(made):
    model = Counting()
    widget, sent = made(model, TEXT)
    widget.wait(PATIENCE)
    hear(widget, "ask", state=state(text="A boat. The storm"), settled=True)
    widget.wait(PATIENCE)
    n = len(model.asked)
    sent.clear()
    hear(widget, "again", number=1)
    [asked] = of(sent, "asked")
    assert (asked["from"], asked["state"], asked["answers"]) == ("", state(text=TEXT), [None])
    widget.wait(PATIENCE)
    assert (widget.text, len(model.asked), len(widget.history)) == (TEXT, n + 1, 2)
    widget.ask_again(timeout=PATIENCE)
    assert (widget.text, len(model.asked), len(widget.history)) == ("A boat. The storm", n + 3, 2)
    assert widget.ask_again(1, timeout=PATIENCE).text == TEXT
    for number in (0, 3, "1", None):
        sent.clear()
        for kind in ("again", "back"):
            hear(widget, kind, number=number)
        assert ["no question" in message["message"] for message in of(sent, "error")] == [True, True]
    refused(widget.ask_again, 7)
    assert widget.text == TEXT


def test_an_item_is_asked_as_it_is_and_can_be_edited():
    text = "I ran . Mr. ___ said `` I keep ! '' to the baker , not the ___ . so it was"
    [item] = items_from_text(["the keeper and the man . the boat"], candidates=[["boat", "rock"]])
    first = text.index("said")
    bounds = ((0, first), (first, len(text)))  # not as one would cut it
    blank = text.rindex("___")
    odd = replace(
        item, text=text.replace("the ___", "the keeper"), answer="keeper", candidates=("baker", "keeper"),
        answer_span=(blank, blank + 6), sentences=(bounds[0], (first, len(text) + 3)), tokenised=True,
    )  # fmt: skip
    widget = ask(Counting(), item)
    row = widget.wait(PATIENCE).results().iloc[0]
    wanted = Counting().predict(Items.from_records([item])).iloc[0]
    assert (
        row[["rank", "log_prob", "prediction"]].tolist()
        == wanted[["rank", "log_prob", "prediction"]].tolist()
    )
    assert widget.state == ("the keeper and the man . the ___", "", "boat", "boat|rock", False, 0.0, 10)
    assert widget.put(odd) is widget
    assert widget.problem == ""  # though the text holds what marks a blank elsewhere
    asked = widget.wait(PATIENCE).items[1]
    assert (asked.text, asked.sentences, asked.candidates) == (odd.text, odd.sentences, odd.candidates)
    widget.put(odd, word="storm", candidates="rock")
    assert (widget.word, widget._asking.current.question.passages["A"].candidates) == (
        "storm",
        ("rock", "storm"),
    )
    widget.candidates = r" a\|b |c\d|e\\"
    assert widget._asking.current.question.passages["A"].candidates == ("a|b", r"c\d", "e\\", "storm")
    listed = ask(Counting(), "the ___", candidates=["a|b", r"c\d", "e\\"]).wait(PATIENCE)
    assert listed.items[0].candidates == ("a|b", r"c\d", "e\\")
    widget.word = ""
    assert widget._asking.current.question.passages["A"].answer is None
    widget.text = "the man . the ___ was"
    assert len(widget._asking.current.question.passages["A"].sentences) == 2
    refused(widget.put, widget.items)
    widget.close()


def test_minimal_pairs(made):
    pair = {"text": "A baker ran. Then came the keeper", "other": "A keeper ran. Then came the keeper"}
    widget, sent = made(Counting(), **pair, pairs=True)
    frame = widget.wait(PATIENCE).to_frame()
    assert frame["side"].tolist() == ["A", "A", "B", "B"]
    assert frame["version"].tolist() == ["passage", "sentence"] * 2
    log_prob = frame["log_prob"].to_numpy()
    assert log_prob[2] > log_prob[0]
    assert log_prob[1] == log_prob[3]
    view = of(sent, "answer")[0]["view"]
    assert view["differences"]["passage"]["nats"] == f"−{log_prob[2] - log_prob[0]:.2f} nats"  # noqa: RUF001
    assert view["differences"]["passage"]["text"].startswith("B is ")
    assert view["differences"]["sentence"]["text"] == "A and B are as likely (0.00 nats)"
    read = of(sent, "asked")[-1]["read"]
    different = [[text for text, kinds in side["context"] if "d" in kinds] for side in read]
    assert different == [["baker"], ["keeper"]]
    assert len(widget.items) == 2


def test_models_are_told_apart_and_checked():
    same = Counting("same")
    names = list(models_by_name([same, Counting("same"), Counting("same (2)")]))
    assert names == ["same", "same (2)", "same (2) (2)"]
    assert list(models_by_name({"mine": same})) == ["mine"]
    assert list(models_by_name(same)) == ["same"]
    for bad in ([], ["gpt"], [Counting], None):
        with pytest.raises(DataError):
            models_by_name(bad)


# -- what an answer says in words, and the static twin

EVIL = "<img src=x onerror=alert(1)>\"'&"


def view_of(model, text, **options):
    widget = ask(model, text, **options)
    try:
        widget.wait(PATIENCE)
        record = widget._asking.current
        return answer_view(record.question, record.answers[0], widget.top_k)
    finally:
        widget.close()


class Sentence(Counting):
    """Scores a candidate by the sentence with it, the target by what stands before it."""

    def log_prob(self, items):
        return np.full(len(items), -2.5)


def test_each_number_says_what_it_is_and_bars_belong_to_it():
    [side] = view_of(Sentence(), TEXT, candidates=["boat", "storm"])["sides"]
    cell = side["passage"]
    bars = cell["bars"]
    assert cell["note"] == "ranked among 3 candidates; their shares add up to 100 %"
    assert {bar[0] for bar in bars} == {"boat", "storm", "keeper"}
    assert sum(float(bar[2].split()[0]) for bar in bars) == pytest.approx(100, abs=0.2)
    [target] = [bar[2] for bar in bars if bar[4]]
    assert (cell["p"], cell["unit"], cell["rank"]) == (target, "of the 3 candidates", "tied 1–2 of 3")  # noqa: RUF001
    assert cell["ln"] == "by itself 8.21 %, ln p −2.50 nats"  # noqa: RUF001
    [side] = view_of(Counting(), TEXT)["sides"]
    cell = side["passage"]
    [target] = [bar[2] for bar in cell["bars"] if bar[4]]
    assert (cell["p"], cell["unit"], cell["note"]) == (
        target, "probability", "ranked among 12 words of the vocabulary; probabilities"
    )  # fmt: skip
    assert "before" not in cell["ln"]
    [side] = view_of(Scoring(), TEXT)["sides"]
    assert side["passage"]["note"] == "ranked among 3 candidate words; scores, not probabilities"
    wanted = [["sea", 1, "−3"], ["boat", pytest.approx(2 / 3), "−4"], ["keeper", 0, "−6"]]  # noqa: RUF001
    assert [bar[:3] for bar in side["passage"]["bars"]] == wanted
    assert [side["passage"][name] for name in ("p", "unit", "rank")] == ["score −6", "", "rank 3 of 3"]  # noqa: RUF001
    assert side["gain"] == {"nats": "", "text": ""}
    [side] = view_of(RandomWord("passage"), TEXT)["sides"]
    cell = side["passage"]
    assert {(length, label) for _, length, label, *_ in cell["bars"]} == {(0.0, "0")}
    assert (cell["p"], cell["unit"]) in {("", ""), ("score 0", "")}  # the target may be none of the ten


class Mine(Predictor):
    """What the documentation asks of a model of one's own: name, config, score."""

    name = "mine"
    config: ClassVar = {}

    def score(self, items, words):
        return pad([[float(len(word)) for word in row] for _, row in zip(items, words, strict=True)])


def test_name_config_and_score_are_enough_for_a_passage():
    text = "The keeper saw the boat . The man called , and THE Keeper came to the storm . Then more ."
    widget = ask(Mine(), text.replace("storm", "___"), word="harbour")
    cells = answer_view(
        widget.wait(PATIENCE)._asking.current.question, widget._asking.current.answers[0], 10
    )["sides"][0]
    words = {"the", "keeper", "saw", "boat", "man", "called", "and", "came", "to", "Then", "more", "harbour"}
    for version in ("passage", "sentence"):  # the same words in both
        assert {bar[0].lower() for bar in cells[version]["bars"]} <= {word.lower() for word in words}
        assert cells[version]["note"] == "ranked among 12 words of the passage; scores, not probabilities"
        assert cells[version]["rank"] == "rank 1 of 12"
        assert (cells[version]["p"], cells[version]["unit"]) == ("score 7", "")
    widget.candidates = "boat|rock"
    row = widget.wait(PATIENCE).results().iloc[0]
    assert row["n_choices"] == 3
    widget.put(items_from_text("the boat . the ___ was")[0])
    assert widget.wait(PATIENCE).results()["prediction"].isin(["the", "boat", "was"]).all()
    widget.close()


def test_a_model_without_words_says_why_there_are_no_bars():
    class Writing(Counting):
        def predict(self, items, top_k=10, *, seed=0):
            frame = super().predict(items, top_k, seed=seed)
            return frame.assign(top_words=None, top_log_probs=None, rank=pd.NA, prediction="boat")

    [side] = view_of(Writing(), TEXT)["sides"]
    note = "no words to show: this model ranks no vocabulary; its own continuation: “boat”"
    assert (side["passage"]["bars"], side["passage"]["note"]) == ([], note)


def test_the_target_sentence_alone_holds_no_later_sentence():
    widget = ask(Counting(), "A storm came. The ___ was late. Nobody knew why.", word="boat")
    frame = widget.wait(PATIENCE).to_frame().set_index("version")
    assert frame.loc["sentence", "text"] == "The boat was late."
    assert frame.loc["passage", "text"] == "A storm came. The boat was late. Nobody knew why."
    [read] = preview(widget._asking.current.question)
    assert [text for text, kinds in read["query"] if "l" in kinds] == [" Nobody knew why."]
    child = replace(items_from_text("`` What a XXXXX ! '' he said .", answers=["boat"])[0], word_class="CN")
    widget.put(replace(child, sentences=((0, len(child.text)),)))
    assert len(set(widget.wait(PATIENCE).results()["text"])) == 1
    widget.close()


class Reading(Counting):
    """Says what it reads."""

    def __init__(self, *context):
        super().__init__()
        self.said = context

    @property
    def context(self):
        return ReadContext(*self.said)


EARLY = "The ___ barked twice. Nobody heard it at night."
END = "A storm came. Nobody heard the boat"


@pytest.mark.parametrize(
    ("context", "options", "heads", "reads"),
    [
        (("before",), {"text": END}, ("whole passage", "target sentence alone"),
         ("reads 6 words before the blank", "reads 3 words before the blank: “Nobody heard the”")),
        (("before",), {"text": f"{END}."}, ("whole passage", "target sentence alone"),
         ("reads 6 words before the blank", "reads 3 words before the blank: “Nobody heard the”")),
        (("before",), {"text": EARLY, "word": "dog"},
         ("passage before the blank", "target sentence before the blank"),
         ("reads 1 word before the blank: “The”; the rest of the passage is neither read nor scored",
          "reads 1 word before the blank: “The”; the rest of the sentence is neither read nor scored")),
        (("before", None, False, True), {"text": EARLY, "candidates": "man|boat"},
         ("passage before the blank", "target sentence before the blank"),
         ("reads 1 word before the blank: “The”; each candidate is scored with the rest of the passage",
          "reads 1 word before the blank: “The”; each candidate is scored with the rest of the sentence")),
        (("before", 2, True), {"text": END}, ("2 words before the blank",) * 2,
         ("reads 2 words before the blank: “heard the”",) * 2),
        (("before", 1), {"text": END}, ("word before the blank",) * 2,
         ("reads 1 word before the blank: “the”",) * 2),
        (("before", None, True), {"text": END}, ("target sentence before the blank", "target sentence alone"),
         ("reads 3 words before the blank: “Nobody heard the”",) * 2),
        (("both",), {"text": EARLY, "word": "dog"}, ("whole passage", "target sentence alone"),
         ("reads 8 words around the blank", "reads 3 words around the blank")),
        (("both", 2), {"text": EARLY, "word": "dog"}, ("2 words around the blank",) * 2,
         ("reads 3 words around the blank",) * 2),
        (("none",), {"text": END}, ("nothing of the passage",) * 2, ("reads nothing of the passage",) * 2),
        (("before",), {"text": "___ barked", "word": "dog"},
         ("passage before the blank", "target sentence before the blank"),
         ("reads nothing before the blank; the rest of the sentence is neither read nor scored",) * 2),
    ],
)  # fmt: skip
def test_what_a_model_reads_stands_above_its_answers(context, options, heads, reads):
    view = view_of(Reading(*context), **options)
    assert tuple(view["heads"].values()) == heads
    assert tuple(view["sides"][0][version]["reads"] for version in view["heads"]) == reads


def test_a_model_may_not_say_what_it_reads():
    class Broken(Counting):
        @property
        def context(self):
            raise ValueError

    for model in (Counting(), Broken()):
        view = view_of(model, END)
        assert list(view["heads"].values()) == ["whole passage", "target sentence alone"]
        assert view["sides"][0]["passage"]["reads"] == "the model does not say what it reads"


def test_one_passage_of_a_pair_that_is_not_read_whole_is_enough():
    view = view_of(Reading("before"), END, other=EARLY)
    assert view["heads"]["passage"] == "passage before the blank"


class Bound(Counting):
    """Tells bounds, minus infinity, and words that are to be shown otherwise."""

    def ranking(self, items, *, top_k=10):
        del top_k
        n = len(items)
        one, yes = np.ones(n, dtype=int), np.ones(n, dtype=bool)
        return Ranked(np.full(n, -np.inf), 4 * one, one, yes, [["``", "</s>"]] * n, [[-1.0, -np.inf]] * n)

    def predict(self, items, top_k=10, *, seed=0):
        return super().predict(items, top_k, seed=seed).assign(rank_is_bound=True)


def test_bounds_and_impossible_words():
    [side] = view_of(Bound(), TEXT)["sides"]
    cell = side["passage"]
    assert (cell["p"], cell["ln"], cell["rank"]) == ("0 %", "ln p −∞ nats", "rank ≥ 4 of 12")  # noqa: RUF001
    wanted = [["“", pytest.approx(np.exp(-1)), "36.8 %"], ["</s>", 0.0, "0 %"]]
    assert [bar[:3] for bar in cell["bars"]] == wanted
    assert side["gain"] == {"nats": "", "text": ""}


def test_the_static_twin_is_escaped_and_whole():
    models = [
        Counting(EVIL, [EVIL.split(maxsplit=1)[0], "keeper", "the"]),
        Failing(error=DataError(EVIL)),
        Scoring(),
    ]
    widget = ask(models, f"{EVIL} ran. He said {EVIL} to the keeper", other=f"{EVIL} sat. The keeper")
    widget.wait(PATIENCE)
    widget.text = "a ___ and ___"
    page = Page(widget.to_html())
    assert not {"script", "img"} & set(page.tags)
    assert page.text.count(EVIL) >= 4
    assert "A minus B" in page.text
    assert "has 2 blanks" in page.text
    assert not {"script", "img"} & set(Page(widget.saved.html()).tags)
    widget.close()


def test_the_notebook_keeps_the_newest_questions_within_its_bound():
    widget = ask(Counting("c"), TEXT)
    for number in range(15):
        widget.text = f"{EVIL} {number} {'and on ' * 120} the boat"
        widget.wait(PATIENCE)
    html = widget.saved.html()
    page = Page(html)
    assert len(html.encode()) <= MAXIMUM
    assert not {"script", "img"} & set(page.tags)
    assert "Questions15" in page.text
    assert f"{EVIL} 14 and on" in page.text  # the newest ones
    assert f"{EVIL} 0 and on" not in page.text
    assert page.tags.count("tr") == 2 + 1 + 10
    widget.close()
    few = ask(Counting("c"), TEXT)
    few.wait(PATIENCE)
    few.text = "A storm. The keeper"
    page = Page(few.wait(PATIENCE).saved.html())
    assert TEXT in page.text  # the one before
    assert "tied 2–6 of 12; ln p −" in page.text  # noqa: RUF001
    few.close()


def test_the_static_twin_before_a_question_and_before_an_answer():
    slow = Gated("quiet one")
    widget = ask([slow, Counting()])
    assert "Nothing was asked yet." in widget.to_html()
    assert "ask quiet one" not in [thread.name for thread in threading.enumerate()]
    widget.text = TEXT
    assert "has not answered" in Page(widget.to_html()).text
    slow.gate.set()
    assert "has not answered" not in Page(widget.wait(PATIENCE).saved.html()).text
    widget.close()


def test_the_passage_is_shaded_by_influence_after_the_answer(made):
    text = "Nobody trusted the keeper . The boat sank . The first man was the ___"
    models = [Counting("fair"), Scoring()]
    widget, sent = made(models)
    widget.influence = "sentence"
    widget.state = widget.state._replace(text=text, word="keeper")
    widget.wait(PATIENCE)
    views = [one["view"] for one in of(sent, "answer") if one["place"] == 0]
    assert [view["final"] for view in views] == [False, True], "the words come first"
    assert views[0]["shaded"] == {}
    p = views[1]["shaded"]["A"]
    expected = influence(models[0], widget.items)
    shown = [shade for side in p["shades"]["pieces"] for shade in side if shade]
    top = expected["influence"].abs().max()
    np.testing.assert_allclose([share for share, _ in shown], expected["influence"] / top, atol=1e-4)
    assert "keeper" not in "".join(piece[0] for piece in p["query"] if "b" not in piece[1])
    [other] = [one["view"] for one in of(sent, "answer") if one["place"] == 1 and one["view"]["shaded"]]
    assert "has no log-probabilities" in other["shaded"]["A"]
    sent.clear()
    widget.influence = "word"
    widget.wait(PATIENCE)
    last = [one["view"] for one in of(sent, "answer") if one["place"] == 0][-1]
    n_words = len(influence(models[0], widget.items, "word"))
    shades = last["shaded"]["A"]["shades"]["pieces"]
    assert sum(shade is not None for side in shades for shade in side) == n_words
    refused(ask, models, text, influence="line")


def shares(view):
    """Return the label of the shades of the only passage, and their shares in order."""
    shades = view["shaded"]["A"]["shades"]
    return shades["label"], [shade[0] for side in shades["pieces"] for shade in side if shade]


def test_the_passage_is_shaded_by_a_contrast_or_by_surprisal(made, sample_ngram):
    text = "Nobody trusted the keeper . The boat sank . The first man was the ___"
    widget, sent = made([sample_ngram], text, word="boat")

    def shaded(**shades):
        sent.clear()
        hear(widget, "shade", **({"influence": "", "against": "", "surprisal": False} | shades))
        assert of(sent, "done")
        widget.wait(PATIENCE)
        return shares(of(sent, "answer")[-1]["view"])

    label, plain = shaded(influence="word")
    assert label == "influence"
    label, contrast = shaded(influence="word", against="man")
    expected = influence(sample_ngram, widget.items, "word", "man")["contrast"]
    np.testing.assert_allclose(contrast, expected / expected.abs().max(), atol=1e-4)
    assert (label, contrast != plain) == ("influence, “boat” against “man”", True)
    assert shaded(influence="word", against="prediction")[0].endswith("against the best other word")
    label, bits = shaded(surprisal=True)
    expected = surprisal(sample_ngram, widget.items)["surprisal"]
    np.testing.assert_allclose(bits, expected / expected.max(), atol=1e-4)
    assert (label, widget.surprisal, widget.influence) == ("surprisal", True, "")
    n = len(of(sent, "asked"))
    widget.against = "keeper"  # no influence is shown
    assert len(of(sent, "asked")) == n


def test_the_text_that_a_model_read_is_in_its_answer(made, sample_ngram):
    widget, sent = made([sample_ngram, Counting()], TEXT)
    widget.wait(PATIENCE)
    views = {one["place"]: one["view"] for one in of(sent, "answer")}
    cells = views[0]["sides"][0]
    context = sample_ngram.order - 1
    words = TEXT.lower().removesuffix(" keeper").split()[-context:]
    assert (cells["passage"]["input"], cells["sentence"]["input"]) == (" ".join(words),) * 2
    assert views[1]["sides"][0]["passage"]["input"] is None  # it does not say what it reads


def test_a_question_is_answered_by_the_boosted_model_and_says_so(made):
    model = Counting("fair")
    widget, sent = made([model, Scoring()], TEXT, alpha=0.5, k=3)
    widget.wait(PATIENCE)
    views = {answer["place"]: answer["view"] for answer in of(sent, "answer")}
    rows = widget.to_frame().query("version == 'passage'").set_index("model")
    boosted, own = (each.predict(widget.items).iloc[0] for each in (model.boosted(3, 0.5), model))
    fair = rows.loc["fair"]
    assert fair["top_words"] == list(boosted["top_words"])
    np.testing.assert_array_equal(fair["top_log_probs"], boosted["top_log_probs"])
    assert (fair["log_prob"], fair["rank"]) == (boosted["log_prob"], boosted["rank"])
    assert fair["log_prob"] != own["log_prob"]
    assert (fair["alpha"], fair["k"]) == (0.5, 3)
    assert (rows.loc["scoring", "alpha"], rows.loc["scoring", "k"]) == (0.0, pd.NA)
    notes = [views[place]["sides"][0]["passage"]["note"] for place in (0, 1)]
    assert notes[0].endswith("; probabilities; boosted by 0.5 over 3 words")
    assert notes[1].endswith("; not boosted: no log-probabilities")
    assert (of(sent, "asked")[-1]["boosts"], of(sent, "history")[-1]["rows"][0]["alpha"]) == (True, 0.5)
    for page in (widget.to_html(), widget.saved.html()):
        assert "boosted by 0.5 over 3 words" in page
        assert "not boosted: no log-probabilities" in page
    assert widget.history[["alpha", "k"]].to_numpy().tolist() == [[0.5, 3]]

    sent.clear()
    widget.alpha = 0.0
    widget.wait(PATIENCE)
    np.testing.assert_array_equal(widget.results()["top_log_probs"][0], own["top_log_probs"])
    assert widget.results()["k"].isna().all()
    assert "boosted" not in json.dumps(of(sent, "answer"))
    widget.k = 5  # of a model that is its own it changes nothing
    assert len(widget.wait(PATIENCE).history) == 2
    only, told = made(Scoring(), TEXT)
    hear(only, "open")
    assert of(told, "asked")[-1]["boosts"] is False


@pytest.mark.parametrize(
    "options",
    [{"alpha": -0.5},
     {"alpha": float("nan")},
     {"k": 0},
     {"k": 10**6}],
)  # fmt: skip
def test_what_nothing_can_be_boosted_by_is_refused(options, made):
    refused(ask, Counting(), TEXT, **options)
    widget, _ = made(Counting(), TEXT)
    [(name, value)] = options.items()
    with pytest.raises(TraitError):
        setattr(widget, name, value)
    assert (widget.alpha, widget.k) == (0.0, 10)


def test_a_model_that_fails_to_be_boosted_says_why(made):
    model = Counting()
    model.boosted = lambda *_: 1 / 0
    widget, sent = made(model, TEXT, alpha=1.0)
    widget.wait(PATIENCE)
    assert of(sent, "answer")[-1]["view"]["error"] == "ZeroDivisionError: division by zero"
