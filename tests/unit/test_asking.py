"""Questions to models: who answers what, and which answers count."""

import gc
import threading
import weakref

import numpy as np
import pandas as pd
import pytest
from ask_models import Counting, Failing, Gated, Scoring
from hypothesis import given
from hypothesis import strategies as st
from ngrams import fitted
from patience import PATIENCE

from workbench.items.items import Items, items_from_text
from workbench.storage.errors import DataError
from workbench.widgets.ask.asking import Answer, Asking
from workbench.widgets.ask.questions import TypedQuestion

TEXT = "Nobody trusted the keeper. But the first man out of the storm was the keeper"


def asking(*models, **options):
    return Asking({model.name: model for model in models}, **{"settle": None} | options)


# -- who answers


def test_a_slow_model_holds_up_nobody_and_its_old_answer_is_dropped():
    told = []
    slow, fast = Gated(), Counting("fast")
    ask = asking(
        slow, fast, tell=lambda kind, record, place: told.append((kind, record.question.number, place))
    )
    ready = threading.Event()
    real = ask.take
    ask.take = lambda place, *rest: real(place, *rest) and place == 1 and ready.set()
    ask.ask(TypedQuestion("one two keeper"))
    assert slow.entered.wait(PATIENCE)
    assert ready.wait(PATIENCE)
    assert ("answer", 1, 1) in told
    for text in ("one two storm", "one two boat", "one two rock"):
        ready.clear()
        ask.ask(TypedQuestion(text))
        assert ready.wait(PATIENCE)
    with pytest.raises(TimeoutError, match="still thinking after 0 s: slow"):
        ask.wait(0)
    assert slow.asked == []
    slow.gate.set()
    ask.wait(PATIENCE)
    assert slow.asked == [["one two keeper"], ["one two rock"]]  # what came between was never begun
    assert [entry for entry in told if entry[2] == 0] == [("answer", 4, 0)]
    rank = fast.predict(items_from_text("one two rock"))["rank"][0]
    assert ask.current.answers[0].replies["A", "passage"]["rank"] == rank
    ask.close()


def test_an_error_is_that_models_alone_and_may_be_of_one_version():
    failing = Failing(error=DataError("no vocabulary", remedy="give candidates"))
    half, strange = Failing("half", ValueError("too long"), "Nobody"), Failing("strange", SystemExit())
    ask = asking(failing, half, strange, Counting())
    ask.ask(TypedQuestion(TEXT))
    ask.wait(PATIENCE)
    frame = ask.frame(ask.history).set_index(["model", "version"])
    assert frame.loc["failing", "error"].tolist() == ["no vocabulary -- give candidates"] * 2
    assert frame.loc[("half", "passage"), "error"] == "ValueError: too long"
    assert frame.loc[("half", "sentence"), "rank"] == frame.loc[("counting", "sentence"), "rank"]
    assert frame.loc["strange", "error"].tolist() == ["SystemExit"] * 2
    assert frame.loc["counting", "error"].isna().all()
    assert frame.loc["failing", "rank"].isna().all()
    assert not ask.current.answers[0].complete
    assert ask.current.answers[3].complete
    ask.close()


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.sampled_from(["ask", "answer", "keep"]), st.integers(0, 5), st.integers(0, 2)),
        max_size=14,
    )
)
def test_no_answer_is_told_after_a_newer_question(steps):
    """Ask and answer in any order: what is told of answers is always of the question told last."""
    now, shown = [0], {}

    def tell(kind, record, place):
        if kind == "asked":
            now[0] = record.question.number
            shown.clear()
            shown.update({p: a.seconds for p, a in record.answers.items()})
        elif kind == "answer":
            assert record.question.number == now[0]
            shown[place] = record.answers[place].seconds

    ask = asking(*(Counting(name) for name in "xyz"), tell=tell)
    ask._start = list  # no threads: answers come from here
    texts = {}
    for step, n, place in steps:
        if step == "ask":
            record = ask.ask(TypedQuestion(f"text number {n}"))
            texts[record.question.number] = n
        elif step == "answer":  # it carries the number of its text in the seconds
            replies = {key: {"rank": 1} for key in ask.current.question.versions}
            taken = ask.take(place, n, Answer(float(texts.get(n, -1)), replies))
            assert taken == (n == now[0] > 0)
        else:
            ask.keep(now=True)
        assert set(shown.values()) <= {float(texts[now[0]])} if now[0] else not shown
    ask.close()


def test_the_threads_end_with_it():
    slow, fast = Gated("a slow one"), Counting("a fast one")
    ask = asking(slow, fast, settle=60)
    ask.ask(TypedQuestion(TEXT))
    threads = list(ask._threads)
    assert [t.name for t in threads] == ["ask a slow one", "ask a fast one"]
    assert all(t.daemon for t in threads)
    assert slow.entered.wait(PATIENCE)
    ask.close()
    threads[1].join(PATIENCE)
    assert not threads[1].is_alive()
    assert threads[0].is_alive()  # it computes: it ends when it is done
    slow.gate.set()
    threads[0].join(PATIENCE)
    assert not threads[0].is_alive()
    assert ask.current.answers.keys() <= {1}
    with pytest.raises(DataError, match="closed"):
        ask.wait()
    ask.ask(TypedQuestion("another text"))
    assert threads == ask._threads
    assert set(ask.models.values()) == {None}


def test_the_threads_end_when_nobody_has_it_any_more():
    ask = asking(Counting(), settle=60)
    ask.ask(TypedQuestion(TEXT))
    ask.wait(PATIENCE)
    threads, ref = ask._threads, weakref.ref(ask)
    del ask
    gc.collect()
    assert ref() is None
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


# -- what is kept


def test_history_keeps_what_is_settled_once_and_answers_from_it():
    model, failing = Counting(), Failing()
    ask = asking(model, failing)
    with pytest.raises(DataError, match="there is no passage"):
        ask.wait()
    ask.ask(TypedQuestion("a ___ and a ___"))
    with pytest.raises(DataError, match="2 blanks"):
        ask.wait()
    ask.ask(TypedQuestion(TEXT))
    ask.wait(PATIENCE)
    ask.ask(TypedQuestion(TEXT + " ran"))
    ask.ask(TypedQuestion(TEXT, word="boat"))
    ask.wait(PATIENCE)
    before = len(model.asked)
    ask.ask(TypedQuestion(TEXT, other="not asked"))
    ask.wait(PATIENCE)
    assert len(model.asked) == before  # it had answered this; the one that failed was asked again
    assert [r.question.state.word for r in ask.history] == ["", "boat"]
    assert ask.history[0] is ask.current
    found = ask.questions()
    assert found["question"].tolist() == [1, 2]
    assert found["predictions"][0] == {"counting": "the", "failing": None}
    assert found["other"].tolist() == ["not asked", ""]
    items = ask.items()
    assert items.frame["answer"].tolist() == ["keeper", "boat"]
    ask.close()


def test_a_question_settles_by_itself_when_all_have_answered():
    slow, kept = Gated(), threading.Event()
    ask = asking(slow, settle=0.01, tell=lambda kind, *_: kind == "kept" and kept.set())
    ask.ask(TypedQuestion(TEXT))
    ask._timer.join(PATIENCE)
    assert ask.history == []
    slow.gate.set()
    assert kept.wait(PATIENCE)
    assert len(ask.history) == 1
    kept.clear()
    ask.ask(TypedQuestion(TEXT, word="boat"))
    assert kept.wait(PATIENCE)
    assert len(ask.history) == 2
    ask.close()


def test_kept_at_once_with_the_answers_that_are_there():
    slow = Gated()
    ask = asking(slow)
    ask.ask(TypedQuestion(TEXT))
    ask.keep()
    ask.keep(99, now=True)
    assert ask.history == []
    ask.keep(now=True)
    assert (len(ask.history), len(ask.frame(ask.history))) == (1, 0)
    slow.gate.set()
    ask.wait(PATIENCE)
    assert len(ask.frame(ask.history)) == 2  # the answer came later
    ask.close()


def test_items_of_the_history_are_unique_and_can_be_exported(tmp_path):
    ask = asking(Counting())
    assert (len(ask.items()), ask.questions().empty, ask.frame(ask.history).empty) == (0, True, True)
    first, second = "A storm. The keeper", "A rock. The keeper"
    pair, choice = {"other": second, "pairs": True}, {"text": second, "candidates": "keeper|boat"}
    for values in (pair, {}, choice, {"text": "A storm. The ___"}):
        ask.ask(TypedQuestion(**{"text": first} | values))
        ask.wait(PATIENCE)
    items = ask.items()
    assert items.frame["text"].tolist() == [first, second, second, "A storm. The "]
    items.to_parquet(tmp_path / "asked.parquet")
    assert Items.from_parquet(tmp_path / "asked.parquet").frame.equals(items.frame)
    assert len(ask.frame(ask.history)) == 2 * 5
    ask.close()


# -- the numbers are those of the model


@pytest.mark.slow
@pytest.mark.parametrize("tokenised", [True, False])
def test_numbers_equal_those_of_the_model(tokenised):
    ngram = fitted()
    models = [ngram, ngram.cached(0.2), Scoring()]
    known = [word for word in ngram.vocabulary if word.isalnum()]
    first = f"{known[5]} {known[9]} {known[30]}{' .' if tokenised else '.'}"
    last = f"{known[3]} {known[7]}"
    word, others = known[11], known[1:3]
    asked = [  # what is asked, and the answers and candidates of its item
        (TypedQuestion(f"{first} {last} {known[30]}"), known[30], None),
        (TypedQuestion(f"{first} {last} {known[30]}", word=word), word, None),
        (TypedQuestion(f"{first} {last} ___", word="unheard"), "unheard", None),
        (TypedQuestion(f"{first} {last} ___"), None, None),
        (TypedQuestion(f"{first} {last} ___", word=word, candidates="|".join(others)), word, [*others, word]),
    ]
    ask = asking(*models)
    for state, _, _ in asked:
        ask.ask(state)
        ask.wait(PATIENCE)
    frame = ask.frame(ask.history)
    assert len(frame) == len(asked) * len(models) * 2
    for version, start in (("passage", f"{first} "), ("sentence", "")):
        items = items_from_text(
            [f"{start}{last} ___"] * len(asked), answers=[answer for _, answer, _ in asked],
            candidates=[choices for *_, choices in asked], tokenised=tokenised,
        )  # fmt: skip
        for model in models:
            mine = frame[(frame["model"] == model.name) & (frame["version"] == version)]
            theirs = model.predict(items, 10)
            for name in ("log_prob", "rank", "n_tied", "known", "n_choices", "score_type", "vocabulary_size"):
                pd.testing.assert_series_equal(
                    mine[name].reset_index(drop=True), theirs[name], check_names=False, rtol=1e-12
                )
            alone = ((theirs["n_tied"] == 1) | theirs["answer"].isna()).to_numpy()  # else the id decides
            assert mine["prediction"][alone].tolist() == theirs["prediction"][alone].tolist()
            assert mine["top_words"].tolist() == theirs["top_words"].tolist()
            for one, other in zip(mine["top_log_probs"], theirs["top_log_probs"], strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-12)
    ask.close()
