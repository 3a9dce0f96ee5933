"""Questions to models: who answers what, and which answers count."""

import gc
import json
import threading
import weakref

import numpy as np
import pandas as pd
import pytest
import saved_models
from ask_models import Counting, Failing, Gated, Scoring, Searching
from hypothesis import given
from hypothesis import strategies as st
from ngrams import fitted
from patience import PATIENCE
from refused import refused

from workbench.items.items import Items, items_from_text
from workbench.models.pretrained.causal import CausalLM
from workbench.storage.errors import DataError
from workbench.widgets.ask.asking import Answer, Asking, answers
from workbench.widgets.ask.questions import TypedQuestion, read_question

TEXT = "Nobody trusted the keeper. But the first man out of the storm was the keeper"


OPEN = weakref.WeakSet()


def asking(*models, **options):
    """Return questions to models, which are closed when the test ends."""
    ask = Asking({model.name: model for model in models}, **{"settle": None} | options)
    OPEN.add(ask)
    return ask


@pytest.fixture(autouse=True)
def closed():
    yield
    for ask in [*OPEN]:
        ask.close()


def answered(ask, *states):
    for state in states:
        ask.ask(state)
        ask.wait(PATIENCE)


# -- who answers


def test_a_slow_model_holds_up_nobody_and_its_old_answer_is_dropped():
    told = []
    slow, fast = Gated(), Counting("fast")
    ask = asking(
        slow, fast, listener=lambda kind, record, place: told.append((kind, record.question.number, place))
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


def test_a_quick_answer_comes_first_and_the_exact_rank_when_it_is_known():
    told, first = [], threading.Event()
    model, slow = Searching("searching"), Gated()
    slow.gate.set()

    def tell(kind, record, place):
        if kind == "answer":
            told.append((place, record.answers[place]))
            first.set()

    ask = asking(model, slow, listener=tell)
    ask.ask(TypedQuestion(TEXT))
    assert model.entered.wait(PATIENCE)
    with pytest.raises(TimeoutError, match="still thinking after 0 s: searching"):
        ask.wait(0)
    quick = next(answer for place, answer in told if place == 0)
    assert not quick.final
    assert not quick.complete
    reply = quick.replies["A", "passage"]
    assert (reply["rank"], reply["rank_is_bound"]) == (1, True)
    model.gate.set()
    ask.wait(PATIENCE)
    answers = [answer for place, answer in told if place == 0]
    assert [answer.final for answer in answers] == [False, True]
    exact = Counting().predict(items_from_text(TEXT)).iloc[0]
    reply = answers[1].replies["A", "passage"]
    assert (reply["rank"], reply["log_prob"]) == (exact["rank"], exact["log_prob"])
    assert reply["top_words"] == quick.replies["A", "passage"]["top_words"]
    assert [answer.final for place, answer in told if place == 1] == [True]  # it has one step
    assert answers[0].seconds <= answers[1].seconds


def test_only_what_is_open_is_asked_twice():
    model = Searching()
    model.gate.set()
    ask = asking(model)
    answered(
        ask, TypedQuestion("The boat. A storm and the the the", other="The boat. A storm the", pairs=True)
    )  # "the" is the best word of one passage alone
    best = ask.current.answers[0].replies
    assert [reply["rank"] == 1 for reply in best.values()] == [True, True, True, False]
    quick, exact = model.asked
    assert len(quick) == 4
    assert exact == ["A storm the"]
    n = len(model.asked)
    answered(ask, TypedQuestion(TEXT, candidates="boat|storm"))
    assert len(model.asked) == n + 1  # there is no vocabulary to search
    answered(ask, TypedQuestion("One the. The the"))
    assert len(model.asked) == n + 2  # the quick answer is the exact one
    assert ask.current.answers[0].final


def test_the_search_is_not_begun_where_a_newer_question_has_come():
    model, told, released = Searching(), [], threading.Event()

    def tell(kind, record, place):
        if kind == "answer":
            told.append((record.question.number, record.answers[place].final))
            if len(told) == 1:
                ask.ask(TypedQuestion("Another one. The storm"))  # while the first is being told
                released.set()

    ask = asking(model, listener=tell)
    ask.ask(TypedQuestion(TEXT))
    assert released.wait(PATIENCE)
    model.gate.set()
    ask.wait(PATIENCE)
    assert told == [(1, False), (2, False), (2, True)]


def test_a_quick_answer_that_fails_is_left_out():
    class Half(Searching):
        def predict(self, items, top_k=10, *, seed=0):
            if self.budget == 0:
                raise ValueError("no quick answer")
            return super().predict(items, top_k, seed=seed)

    model, told = Half(), []
    model.gate.set()
    ask = asking(model, listener=lambda kind, record, _: kind == "answer" and told.append(record.answers[0]))
    ask.ask(TypedQuestion(TEXT))
    ask.wait(PATIENCE)
    assert [answer.complete for answer in told] == [True]


def test_the_quick_answer_of_a_causal_model_is_a_bound(folders):
    model = saved_models.made("causal-lm", folders)
    items = Items(saved_models.ITEMS.frame.assign(candidates=None))
    quick = model.quick(items)
    assert quick.budget == 0 < model.budget
    assert quick.quick(items) is None  # it has no search to leave out
    assert model.quick(saved_models.ITEMS) is None
    assert saved_models.made("ngram", folders).quick(items) is None
    bounds, exact = (each.predict(items, 3) for each in (quick, model))
    pd.testing.assert_series_equal(bounds["log_prob"], exact["log_prob"], rtol=1e-6)
    assert (bounds["rank"] <= exact["rank"]).all()
    assert (bounds["rank_is_bound"] | (bounds["rank"] == exact["rank"])).all()
    assert bounds["prediction"].tolist() == exact["prediction"].tolist()
    assert not exact["rank_is_bound"].any()


def test_the_first_answer_of_a_real_model_holds_when_the_ranks_are_known(smollm):
    words = ["gate", "house", "river", "wife", "ship", "door", "table", "water", "man", "sister", "old"]
    vocabulary = [*words, *(f"{one}{other}" for one in words[:3] for other in words[:4])]
    model = CausalLM(smollm, vocabulary=vocabulary)
    state = TypedQuestion(
        "The keeper walked down to the river. He sat beside the gate",
        "The farmer walked down to the river. He sat beside the gate", pairs=True,
    )  # fmt: skip
    steps = list(answers(model, read_question(state), top_k=10, seed=0))
    first, whole = steps[0], steps[-1]
    assert whole.final
    for key, reply in whole.replies.items():
        assert reply["rank_is_bound"] is False
        quick = first.replies[key]
        assert quick["log_prob"] == pytest.approx(reply["log_prob"], abs=1e-4)
        assert quick["rank"] <= reply["rank"]
        assert reply["top_words"][: len(quick["top_words"])] == quick["top_words"]
    assert whole.replies["A", "sentence"] == whole.replies["B", "sentence"]  # one item


def test_a_real_model_without_a_vocabulary_ranks_the_words_that_are_one_sub_token(smollm):
    model = CausalLM(smollm)
    *_, answer = answers(model, read_question(TypedQuestion("She opened the door")), top_k=10, seed=0)
    reply = answer.replies["A", "sentence"]
    assert reply["vocabulary_size"] > 10_000
    assert {"door", "box"} <= set(reply["top_words"])
    assert not {"floccinaucinihilipilification", "."} & set(model.ranking_words.vocabulary)
    [item] = read_question(TypedQuestion("She opened the door")).items[:1]
    words = [*reply["top_words"], "window"]
    singly = model.score(Items.from_records([item]), [words])[0]
    np.testing.assert_allclose(reply["top_log_probs"], singly[:10], atol=1e-4)
    assert singly[10] <= singly[9] or "window" in words[:10]
    assert reply["log_prob"] == pytest.approx(singly[words.index("door")], abs=1e-4)
    assert reply["rank"] == words.index("door") + 1


def test_an_error_is_that_models_alone_and_may_be_of_one_version():
    failing = Failing(error=DataError("no vocabulary", hint="give candidates"))
    half, strange = Failing("half", ValueError("too long"), "Nobody"), Failing("strange", SystemExit())
    ask = asking(failing, half, strange, Counting())
    answered(ask, TypedQuestion(TEXT))
    frame = ask.frame(ask.history).set_index(["model", "version"])
    assert frame.loc["failing", "error"].tolist() == ["no vocabulary -- give candidates"] * 2
    assert frame.loc[("half", "passage"), "error"] == "ValueError: too long"
    assert frame.loc[("half", "sentence"), "rank"] == frame.loc[("counting", "sentence"), "rank"]
    assert frame.loc["strange", "error"].tolist() == ["SystemExit"] * 2
    assert frame.loc["counting", "error"].isna().all()
    assert frame.loc["failing", "rank"].isna().all()
    assert not ask.current.answers[0].complete
    assert ask.current.answers[3].complete


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

    ask = asking(*(Counting(name) for name in "xyz"), listener=tell)
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
    refused(ask.wait)
    ask.ask(TypedQuestion("another text"))
    assert threads == ask._threads
    assert set(ask.models.values()) == {None}


def test_the_threads_end_when_nobody_has_it_any_more():
    ask = asking(Counting(), settle=60)
    answered(ask, TypedQuestion(TEXT))
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
    refused(ask.wait)
    ask.ask(TypedQuestion("a ___ and a ___"))
    refused(ask.wait)
    answered(ask, TypedQuestion(TEXT))
    ask.ask(TypedQuestion(TEXT + " ran"))
    answered(ask, TypedQuestion(TEXT, word="boat"))
    before = len(model.asked)
    answered(ask, TypedQuestion(TEXT, other="not asked"))
    assert len(model.asked) == before  # it had answered this; the one that failed was asked again
    assert [r.question.state.word for r in ask.history] == ["", "boat"]
    assert ask.history[0] is ask.current
    found = ask.questions()
    assert found["question"].tolist() == [1, 2]
    assert found["predictions"][0] == {"counting": "the", "failing": None}
    assert found["other"].tolist() == ["not asked", ""]
    items = ask.items()
    assert items.frame["answer"].tolist() == ["keeper", "boat"]


def test_a_question_settles_by_itself_when_all_have_answered():
    slow, kept = Gated(), threading.Event()
    ask = asking(slow, settle=0.01, listener=lambda kind, *_: kind == "kept" and kept.set())
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


def test_items_of_the_history_are_unique_and_can_be_exported(tmp_path):
    ask = asking(Counting())
    assert (len(ask.items()), ask.questions().empty, ask.frame(ask.history).empty) == (0, True, True)
    first, second = "A storm. The keeper", "A rock. The keeper"
    pair, choice = {"other": second, "pairs": True}, {"text": second, "candidates": "keeper|boat"}
    for values in (pair, {}, choice, {"text": "A storm. The ___"}):
        answered(ask, TypedQuestion(**{"text": first} | values))
    items = ask.items()
    assert items.frame["text"].tolist() == [first, second, second, "A storm. The "]
    items.to_parquet(tmp_path / "asked.parquet")
    assert Items.from_parquet(tmp_path / "asked.parquet").frame.equals(items.frame)
    assert len(ask.frame(ask.history)) == 2 * 5


# -- the history as a file


def saved(tmp_path, *states):
    ask = asking(Counting(), Failing())
    for state in states:
        answered(ask, state)
    ask.save(tmp_path / "history.json")
    return ask


STATES = (
    TypedQuestion(TEXT),
    TypedQuestion(
        "A storm. The ___ was late.", "A rock. The ___ was late.", "boat", "boat|rock", pairs=True, alpha=0.5
    ),
)


def test_a_saved_history_can_be_asked_again(tmp_path):
    first = saved(tmp_path, *STATES)
    data = json.loads((tmp_path / "history.json").read_text())
    assert [len(entry["answers"]) for entry in data["questions"]] == [4, 8]
    row = data["questions"][0]["answers"][0]
    wanted = first.frame(first.history).iloc[0]
    assert (row["model"], row["rank"], row["log_prob"]) == ("counting", wanted["rank"], wanted["log_prob"])
    again = asking(Counting(), Failing())
    answered(again, STATES[0])
    again.load(tmp_path / "history.json")
    assert [record.question.state for record in again.history] == list(STATES)  # each once
    assert again.history[1].answers == {}
    assert again.history[1].question.asked == first.history[1].question.asked
    answered(again, STATES[1])
    same = ["question", "model", "side", "version", "text", "word", "rank", "log_prob"]
    assert again.frame(again.history)[same].equals(first.frame(first.history)[same])
    again.save(tmp_path / "history.json")


def test_asked_anew_a_question_is_answered_anew_and_kept_once():
    model = Counting()
    ask = asking(model)
    answered(ask, TypedQuestion(TEXT), TypedQuestion(TEXT))
    assert len(model.asked) == 1
    ask.ask(TypedQuestion(TEXT), anew=True)
    ask.wait(PATIENCE)
    assert (len(model.asked), len(ask.history)) == (2, 1)
    for number in (0, 2, -1, True, "1", None):
        refused(ask.past, number)


def broken(entry):
    return {"format": "workbench ask history 1", "questions": [entry]}


QUESTION = {"time": "2026-01-01T12:00:00+00:00", "text": TEXT, "other": "", "word": "", "candidates": "",
            "pairs": False, "alpha": 0.0, "k": 10}  # fmt: skip


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        broken({}),
        broken(QUESTION | {"pairs": 1}),
        broken(QUESTION | {"text": ["a"]}),
        broken(QUESTION | {"alpha": "1"}),
        broken(QUESTION | {"alpha": -1.0}),
        broken(QUESTION | {"k": 0}),
        broken(QUESTION | {"text": "\ud800 a"}),
        broken(QUESTION | {"time": "yesterday"}),
        broken(QUESTION | {"time": "0001-01-01T00:00:00+14:00"}),
        broken(QUESTION | {"text": "a ___ b ___"}),
        broken(QUESTION | {"text": " "}),
    ],
)
def test_a_bad_history_is_one_error_and_adds_nothing(content, tmp_path):
    file = tmp_path / "history.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    ask = asking(Counting())
    error = refused(ask.load, file)
    assert str(file) in str(error)
    assert ask.history == []
    file.write_text(json.dumps(broken(QUESTION | {"model": "os.system", "answers": "anything"})))
    ask.load(file)  # only the question is read
    assert ask.history[0].question.state == TypedQuestion(TEXT)


# -- the numbers are those of the model


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
        answered(ask, state)
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
