"""What the asking widget says of an answer in words, and its static twin."""

import numpy as np
import pytest
from ask_models import Counting, Failing, Gated, Scoring
from html_page import Page

from workbench.items.schema import DataError
from workbench.models.rows import Ranked
from workbench.widgets.ask.ask import answer_view, ask

TEXT = "Nobody trusted the keeper. But the first man out of the storm was the keeper"
EVIL = "<img src=x onerror=alert(1)>\"'&"
PAUSE = 20


def view_of(model, text, **options):
    widget = ask(model, text, **options)
    try:
        widget.wait(PAUSE)
        record = widget._asking.current
        return answer_view(record.question, record.answers[0], widget.top_k)
    finally:
        widget.close()


@pytest.mark.parametrize(
    ("model", "rank"),
    [(Counting(), "not in the vocabulary of 12"), (Scoring(), "not among its 3 words")],
    ids=["probabilities", "scores"],
)
def test_words_outside_the_vocabulary_are_told(model, rank):
    [side] = view_of(model, TEXT, word="unheard")["sides"]
    assert side["passage"]["rank"] == rank


def test_candidates_have_shares_and_scores_are_no_probabilities():
    [side] = view_of(Counting(), TEXT, candidates=["boat", "storm"])["sides"]
    bars = side["passage"]["bars"]
    assert "shares" in side["passage"]["note"]
    assert {bar[0] for bar in bars} == {"boat", "storm", "keeper"}
    assert sum(float(bar[2].split()[0]) for bar in bars) == pytest.approx(100, abs=0.2)
    assert side["passage"]["rank"].startswith("rank 1 of 3, 2 tied")
    [side] = view_of(Scoring(), TEXT)["sides"]
    assert "no probabilities" in side["passage"]["note"]
    wanted = [["sea", 1, "-3"], ["boat", pytest.approx(2 / 3), "-4"], ["keeper", 0, "-6"]]
    assert [bar[:3] for bar in side["passage"]["bars"]] == wanted
    assert (side["passage"]["p"], side["passage"]["rank"]) == ("", "rank 3 of 3")
    assert side["gain"] == {"nats": "", "factor": ""}


def test_a_bare_blank_has_words_but_no_rank():
    [side] = view_of(Counting(), "A storm. The ___")["sides"]
    assert (side["word"], side["passage"]["p"], side["passage"]["rank"]) == (None, "", "")
    assert (len(side["passage"]["bars"]), side["single"]) == (10, False)
    assert view_of(Counting(), "The ___", top_k=3)["sides"][0]["single"] is True


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
    assert (cell["p"], cell["ln"], cell["rank"]) == ("0 %", "ln p −∞", "rank at least 4 of 12")  # noqa: RUF001
    wanted = [["“", pytest.approx(np.exp(-1)), "36.8 %"], ["</s>", 0.0, "0 %"]]
    assert [bar[:3] for bar in cell["bars"]] == wanted
    assert side["gain"] == {"nats": "", "factor": ""}


def test_the_static_twin_is_escaped_and_whole():
    models = [
        Counting(EVIL, [EVIL.split(maxsplit=1)[0], "keeper", "the"]),
        Failing(error=DataError(EVIL)),
        Scoring(),
    ]
    widget = ask(models, f"{EVIL} ran. He said {EVIL} to the keeper", other=f"{EVIL} sat. The keeper")
    widget.wait(PAUSE)
    widget.text = "a ___ and ___"
    page = Page(widget.to_html())
    assert not {"script", "img"} & set(page.tags)
    assert page.text.count(EVIL) >= 4
    assert "A − B" in page.text  # noqa: RUF001
    assert "has 2 blanks" in page.text
    assert "text/html" in widget._repr_mimebundle_()[0]
    widget.close()


def test_the_static_twin_before_a_question():
    widget = ask(Counting())
    assert "Nothing was asked yet." in widget.to_html()
    widget.close()


def test_what_has_not_answered_is_told_in_the_static_twin():
    slow = Gated()
    widget = ask([slow, Counting()], TEXT)
    assert "has not answered" in Page(widget.to_html()).text
    slow.gate.set()
    assert "has not answered" not in Page(widget.wait(PAUSE).to_html()).text
    widget.close()
