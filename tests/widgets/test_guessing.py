"""The guessing game without a page: what it sends, what it saves, and what comes of it."""

import json
import threading

import numpy as np
import pandas as pd
import pytest
from html_page import Page as HtmlPage
from refused import refused

import workbench as wb
from workbench import people
from workbench.analysis.proportions import wilson
from workbench.models import NGram, RandomWord
from workbench.storage.errors import DataError
from workbench.widgets.guess.game import game_protocol


@pytest.fixture(scope="module")
def items():
    return wb.load("sample", variant="capitalised")[:36]


@pytest.fixture(scope="module")
def ngram():
    return NGram.fit(wb.books("sample"), order=3)


@pytest.fixture
def make(tmp_path, items):
    """Give a function that opens games on one table, and what each of them sent."""
    games = []

    def of(chosen=items, *arguments, folder="game", **options):
        game = wb.guess(chosen, *arguments, folder=tmp_path / folder, **options)
        game.sent = []
        game.send = lambda content: game.sent.append(json.loads(json.dumps(content)))
        games.append(game)
        return game

    yield of
    for game in games:
        game.close()


def hear(game, kind, **message):
    """Let the page send a message; return the last one that came back."""
    game._handle_message(game, {"type": kind, "request": kind, "from": "page", **message}, [])
    return game.sent[-1]


def answer(game, task, *guesses, page=None, **more):
    """Let the page answer a task, which stands at its place; return the last message that came back."""
    more = {"page": page or game.page.id, "task": place_of(game, task), "guesses": list(guesses)} | more
    return hear(game, "answer", **more)


def place_of(game, task):
    """Return the place on the open page of a task, which may have gone on meanwhile."""
    return [each.item_id for each in game.page.tasks].index(task.item_id)


def play(game, word, pages=99):
    """Answer pages as a page of the browser does; return the items by condition."""
    judged = {}
    while game.page is not None and pages:
        pages -= 1
        page = game.page
        for task in page.tasks:
            shown = task.shown
            while True:
                view = answer(game, task, *word(task.item_id, page.condition, shown), shown=shown)
                state = view["page"]["tasks"][place_of(game, task)]
                judged.setdefault(page.condition, []).append(task.item_id)
                if state["finished"]:
                    break
                shown += 1
        hear(game, "submit", page=page.id)
        hear(game, "next")
    return judged


def test_an_item_is_seen_in_one_condition_and_pages_alternate(make, items):
    game = make()
    conditions = []
    answers = dict(zip(items.frame["item_id"], items.frame["answer"], strict=True))

    def word(item, condition, _shown):
        if not conditions or conditions[-1] != condition:
            conditions.append(condition)
        return [answers[item]]

    judged = play(game, word)
    assert conditions == ["passage", "sentence", "passage"]
    assert len(judged["passage"]) == len(judged["sentence"]) == 18
    assert set(judged["passage"]) | set(judged["sentence"]) == set(items.frame["item_id"])
    assert game._state()["stage"] == "done"
    assert game.judgments()["correct"].all()
    other = make(person="Ben")
    assert {task.item_id for task in other.page.tasks} <= set(judged["passage"])


def test_the_seed_draws_the_conditions(make):
    def drawn(folder, seed):
        game = make(folder=folder, seed=seed)
        return {page: game.game.item_ids([page]) for page in (1, 2, 3)}

    first = drawn("a", 1)
    assert [len(ids) for ids in first.values()] == [10, 18, 8]
    assert first == drawn("b", 1)
    assert first != drawn("c", 2)


def test_an_item_that_was_judged_otherwise_is_left_out(make, items):
    other = make(items, "unfolding")
    seen = other.page.tasks[0].item_id
    answer(other, other.page.tasks[0], "x", shown=0)
    game = make()
    assert game._state()["total"] == 35
    judged = play(game, lambda *_: ["x"])
    assert seen not in judged["passage"] + judged["sentence"]
    assert set(game.judgments()["item_id"]) == set(items.frame["item_id"]) - {seen}
    everything = people.read_judgments(game.game.folder)
    assert len(everything) == 36
    assert make(items, "unfolding")._state()["total"] == 1
    assert make(wb.load("sample")[:36])._state()["total"] == 0  # in another form of the text
    assert make(person="Ben")._state()["total"] == 36


def test_nothing_is_told_before_the_page_is_submitted(make, items):
    spans = zip(items.frame["text"], items.frame["answer_span"], strict=True)
    texts = [f"{text[:a]}secret{k}{text[b:]}" for k, (text, (a, b)) in enumerate(spans)]
    hidden = wb.items_from_text(texts, tokenised=True)
    secret = dict(zip(hidden.frame["item_id"], hidden.frame["answer"], strict=True))
    said = pd.DataFrame({"item_id": list(secret), "model": "m", "prediction": "secretmodel"})
    game = make(hidden, runs=[said], condition="passage")
    hear(game, "open")
    for task in game.page.tasks[:-1]:
        answer(game, task, "x")
    assert hear(game, "submit", page=game.page.id)["type"] == "view"
    assert "tasks of page" in game.sent[-2]["message"]
    answer(game, game.page.tasks[-1], "x")
    assert "secret" not in json.dumps(game.sent) + game.to_html()
    tasks = game.page.tasks
    view = hear(game, "submit", page=game.page.id)
    assert [row["answer"] for row in view["review"]] == [secret[task.item_id] for task in tasks]
    assert view["review"][0]["models"] == [["m", "secretmodel", False, ""]]
    assert secret[tasks[0].item_id] in game.to_html()
    quiet = make(hidden, runs=[said], condition="passage", person="Ben", feedback=False)
    play(quiet, lambda *_: ["x"])
    assert "secret" not in json.dumps(quiet.sent) + quiet.to_html()


def test_every_answer_is_on_the_disk_and_the_same_call_goes_on(make):
    game = make()
    page = game.page
    for task in page.tasks[:4]:
        answer(game, task, "  a   b ", seconds=1.5)
    again = make()  # as another kernel does
    assert again.page == game.page
    assert [task.finished for task in again.page.tasks] == [True] * 4 + [False] * 6
    assert again.judgments()["guesses"].tolist() == [["a b"]] * 4
    answer(again, page.tasks[4], "first")
    view = answer(game, page.tasks[4], "second")
    assert "answered before" in game.sent[-2]["message"]
    assert (game.sent[-2]["request"], game.sent[-2]["from"]) == ("answer", "page")
    assert view["page"]["tasks"][4]["guesses"] == ["first"]  # and the page is up to date
    answer(game, page.tasks[4], "first")  # sent again
    assert game.sent[-1]["type"] == "view"
    assert len(game.judgments()) == 5


@pytest.mark.parametrize("kind", ["lambada", "unfolding"])
def test_a_page_knows_places_and_no_ids(make, items, kind):
    game = make(items, kind)
    hear(game, "open")
    ids = {task.item_id for task in game.page.tasks}
    for task in game.page.tasks:
        for shown in range(task.shown, 99):
            if game.page.tasks[place_of(game, task)].finished:
                break
            answer(game, task, "x", shown=shown)
    first = game.page.tasks[0]
    answer(game, first, "y", shown=0 if kind == "unfolding" else first.shown)
    assert "answered before" in game.sent[-2]["message"]
    sent = json.dumps(game.sent) + game.to_html() + repr(game.get_state())
    hear(game, "submit", page=game.page.id)
    sent += json.dumps(game.sent) + game.to_html()
    assert '"place": 0' in sent
    assert "Task 1<" in sent
    assert not [name for name in ids if name in sent]


class Noticed:
    """A lock that tells when another thread comes to it."""

    def __init__(self, lock, came):
        self.lock, self.came, self.first = lock, came, threading.get_ident()

    def __enter__(self):
        if threading.get_ident() != self.first:
            self.came.set()
        self.lock.acquire()

    def __exit__(self, *_):
        self.lock.release()


def test_an_older_view_never_comes_after_a_newer_one(make):
    game = make()
    page, came = game.page, threading.Event()
    game._lock = Noticed(game._lock, came)
    state, later = game._state, threading.Thread(target=lambda: (typed(1), came.set()))

    def typed(n):
        answer(game, page.tasks[n], "word", shown=page.tasks[n].shown)

    def slow():
        made = state()
        if threading.current_thread() is threading.main_thread():
            later.start()
            came.wait()
        return made

    game._state = slow
    typed(0)
    later.join()
    finished = [sum(task["finished"] for task in view["page"]["tasks"]) for view in game.sent]
    assert finished == [1, 2]


def test_bounds_of_guesses(make):
    game = make()
    for guesses in (["w" * 201], ["a", "b"]):
        answer(game, game.page.tasks[0], *guesses)
        assert "guess" in game.sent[-2]["message"]
    answer(game, game.page.tasks[0], "w" * 200)
    assert len(game.judgments()) == 1


def test_the_score_is_that_of_the_judgments_and_a_row_beside_the_models(make, items, ngram):
    runs = [wb.predict(items, ngram), wb.predict(items.query_only(), ngram)]
    game = make(runs=runs)
    answers = dict(zip(items.frame["item_id"], items.frame["answer"], strict=True))
    order = {item: k for k, item in enumerate(items.frame["item_id"])}

    def word(item, condition, _shown):
        right = order[item] % 3 == 0
        if condition == "sentence":
            return ["wrong", answers[item]] if right else ["wrong"]
        return [answers[item].upper() if right else "wrong"]  # case does not count

    judged = play(game, word)
    table = game.score().frame.set_index(["model", "condition"])
    for condition, seen in judged.items():
        right = sum(order[item] % 3 == 0 for item in seen)
        row = table.loc["person: me", condition]
        assert row["n"] == len(seen)
        assert row["accuracy_any"] == pytest.approx(right / len(seen))
        assert row["accuracy"] == pytest.approx(right / len(seen) if condition == "passage" else 0)
        ends = wilson(np.array([row["accuracy"] * len(seen)]), np.array([len(seen)]))
        assert [row["accuracy_low"], row["accuracy_high"]] == pytest.approx([end.item() for end in ends])
    whole = runs[0].predictions.set_index("item_id")
    expected = whole.loc[judged["passage"], "correct"].mean()
    assert table.loc[(ngram.name, "passage"), "accuracy"] == pytest.approx(expected)
    query = runs[1].predictions.set_index("item_id").loc[judged["sentence"]]
    best = [[word, *words] for word, words in zip(query["prediction"], query["top_words"], strict=True)]
    near = [a.casefold() in map(str.casefold, w[:4]) for a, w in zip(query["answer"], best, strict=True)]
    measured = table.loc[(f"{ngram.name} (query only)", "sentence"), "accuracy_any"]
    assert query["correct"].mean() <= measured <= np.mean(near)

    mine = game.predictions()
    assert sorted(mine["item_id"]) == sorted(judged["passage"])
    assert set(mine["variant"]) == {"capitalised"}
    rows = wb.evaluate([mine, *runs]).set_index("model")
    assert rows.loc["person: me", "n"] == 18
    mean = table.loc[("person: me", "passage"), "accuracy"]
    assert rows.loc["person: me", "accuracy"] == pytest.approx(mean)
    assert "person: me (query only)" in wb.evaluate([game.predictions("sentence")])["model"].tolist()
    compared = wb.compare(items, [runs[0], mine], resamples=50)
    assert compared.comparison.pairs()["n"].tolist() == [18]
    compared.close()
    refused(game.predictions, "unfolding")


@pytest.mark.parametrize("kind", ["lambada", "unfolding"])
def test_a_page_that_is_not_submitted_has_no_score(make, items, kind):
    answers = dict(zip(items.frame["item_id"], items.frame["answer"], strict=True))
    game = make(protocol=kind, per_page=3)
    play(game, lambda item, *_: [answers[item]], pages=1)
    first = game.score().frame["n"].tolist()
    assert first == [3]
    for task in game.page.tasks[:2]:
        game.answer(task.item_id, [answers[task.item_id]])
        for view in (game, make(protocol=kind, per_page=3)):  # another view of the game too
            assert view.score().frame["n"].tolist() == first
            assert sum(len(view.predictions(name)) for name in {game.score().frame["condition"][0]}) == 3
            assert "2 of" not in str(view._score_rows())
    assert len(game.judgments()) == 5
    last = game.page.tasks[2].item_id
    game.answer(last, ["wrong" if kind == "lambada" else answers[last]])
    assert game.score().frame["n"].tolist() == first
    game.submit()
    assert game.score().frame["n"].sum() == 6


@pytest.mark.parametrize("person", ["a\ud800", "x" * 300, "a\0b", " "])
def test_a_name_that_nobody_can_have_is_one_error(make, person):
    refused(make, person=person)


def test_unfolding_shows_one_sentence_more_until_the_word_is_right(make, items):
    game = make(items[:6], "unfolding")
    answers = dict(zip(items.frame["item_id"], items.frame["answer"], strict=True))
    lengths = {item.item_id: len(item.context) for item in items}
    needed = {item.item_id: place for place, item in enumerate(items[:6])}
    first = game.page.tasks[0]
    view = answer(game, first, "none", shown=0)
    task = view["page"]["tasks"][0]
    assert (task["shown"], task["wrong"], task["ended"]) == (1, ["none"], None)
    assert task["sentences"] == [game.page.tasks[0].sentences[0]]
    again = make(items[:6], "unfolding")  # a new kernel shows as much
    assert again._state()["page"]["tasks"][0]["shown"] == 1
    for task in game.page.tasks:
        shown = task.shown
        while True:
            word = answers[task.item_id] if shown == needed[task.item_id] and shown else "none"
            view = answer(game, task, word, shown=shown)
            row = view["page"]["tasks"][place_of(game, task)]
            if row["finished"]:
                break
            assert row["ended"] is None
            shown += 1
        assert row["ended"]["answer"] == answers[task.item_id]
        reached = 0 < needed[task.item_id] <= lengths[task.item_id]
        assert row["ended"]["correct"] == reached
    shares = game.context_shares(RandomWord("passage"))
    counts = [sum(0 < n <= min(k, lengths[item]) for item, n in needed.items()) for k in range(3)]
    assert shares["person: me"]["n_guessed"].tolist()[:3] == counts
    assert set(shares["person: me"]["n"]) == set(shares["Random word from passage"]["n"]) == {6}
    drawn = game.unfolding([RandomWord("passage")]).to_dict()
    names = {row["model"] for rows in drawn["datasets"].values() for row in rows}
    assert names == {"person: me", "Random word from passage"}
    hear(game, "submit", page=game.page.id)
    assert {row["shown"] for row in game._state()["review"]} >= {1, 2}
    refused(make(folder="other").unfolding)


@pytest.mark.parametrize(("variant", "kind", "conditions"), [
    ("cbt", "cbt", ["passage", "sentence"]), ("msrcc", "completion", ["passage"]),
])  # fmt: skip
def test_candidates_are_chosen(make, variant, kind, conditions):
    questions = wb.load("sample", variant=variant)[:12]
    game = make(questions, kind)
    assert game._state()["page"]["candidates"]
    task = game.page.tasks[0]
    assert task.candidates == questions[task.item_id].candidates
    answer(game, task, "strange")
    assert "not one of the candidates" in game.sent[-2]["message"]
    judged = play(game, lambda item, *_: [questions[item].candidates[0]])
    assert sorted(judged) == conditions
    frame = game.predictions()
    first = [questions[item].candidates[0] for item in frame["item_id"]]
    assert frame["prediction"].tolist() == first
    assert frame["n_choices"].tolist() == [len(questions[0].candidates)] * len(frame)


def test_where_a_game_lies_and_what_it_refuses(tmp_path, monkeypatch, items):
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    game = wb.guess(items)
    game.answer(game.page.tasks[0].item_id, ["x"])
    assert [path.name for path in (tmp_path / "guess").glob("*.jsonl")] == ["me.jsonl"]
    assert people.read_judgments()["person"].tolist() == ["me"]
    with pytest.raises(DataError, match="have no answer"):
        game.submit()
    for options in [
        {"protocol": "chess"}, {"condition": "half"},
        {"protocol": "unfolding", "condition": "passage"}, {"protocol": "cbt"},
    ]:  # fmt: skip
        refused(wb.guess, items, **options)
    refused(wb.guess, items[:0])
    (tmp_path / "text").write_text("text")
    refused(wb.guess, items, folder=tmp_path / "text")
    steps = game_protocol("cbt").steps
    assert [(step.condition, step.people, step.passes) for step in steps] == [
        ("passage", 1, "any"), ("sentence", 1, "any")
    ]  # fmt: skip


def test_the_saved_page_needs_no_script_and_is_small(make):
    game = make(person="<b>Ada</b>")
    page = HtmlPage(game.to_html())
    assert "<b>Ada</b>" in page.text
    assert "Answered0 of 36 items" in page.text
    assert "script" not in page.tags
    assert len(game.saved.html().encode()) <= 50_000
