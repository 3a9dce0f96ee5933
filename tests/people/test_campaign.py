"""A campaign: who gets what, what is taken, when items stop, and that nothing is lost."""

import pickle
import sqlite3

import pandas as pd
import pytest
from refused import refused

import workbench as wb
from workbench.items.items import Items
from workbench.people import Campaign, ProtocolStep, RefusalError, protocol
from workbench.people.protocols import Protocol
from workbench.storage.errors import DataError

N = 24


@pytest.fixture
def make(tmp_path, items):
    """Give a function that makes a campaign, and a clock that tests move."""
    made = []

    def of(kind="lambada", chosen=items, **settings):
        campaign = Campaign.create(tmp_path / f"{len(made)}.db", chosen, kind, **settings)
        campaign.now = 1000.0
        campaign._clock = lambda: campaign.now
        made.append(campaign)
        return campaign

    yield of
    for campaign in made:
        campaign.close()


def answer_page(campaign, subject, word):
    """Answer a page with what `word` gives for each task, and submit it; return the page."""
    page = campaign.next_page(subject)
    if page is not None:
        for task in page.tasks:
            while task is not None:
                task = campaign.answer(page.id, subject, task.item_id, [word(task)])  # noqa: PLW2901
        campaign.submit(page.id, subject)
    return page


def answers(items):
    words = dict(zip(items.frame["item_id"], items.frame["answer"], strict=True))
    return lambda task: words[task.item_id]


def reason(call, *arguments, **options):
    with pytest.raises(RefusalError) as error:
        call(*arguments, **options)
    assert pickle.loads(pickle.dumps(error.value)).reason == error.value.reason  # noqa: S301
    return error.value.reason


def test_lambada_keeps_what_two_guess_from_the_passage_and_ten_do_not_from_the_sentence(make, items):
    campaign, right = make(), answers(items)
    people = [campaign.add_subject().id for _ in range(12)]
    for subject in people[:2]:  # nobody judges an item twice, so each does the first step, then the other's
        while answer_page(campaign, subject, right):
            pass
    while any(answer_page(campaign, subject, right) for subject in people[:2]):
        pass
    assert campaign.states()["step"].tolist() == [3] * N
    guessed = set(items.frame["item_id"][:5])
    first = right
    for number, subject in enumerate(people[2:]):
        word = (
            (lambda task: first(task) if task.item_id in guessed else "?") if number == 3 else lambda _: "?"
        )
        while page := answer_page(campaign, subject, word):
            assert {(page.condition, page.guesses, task.sentences) for task in page.tasks} == {
                ("sentence", 3, ())
            }
    states = campaign.states().set_index("item_id")
    assert set(states.index[states["state"] == "dropped"]) == guessed
    assert set(states.loc[list(guessed), "reason"]) == {"guessed from the target sentence alone"}
    assert set(states.loc[list(guessed), "n"]) == {2 + 4}
    assert set(states["n"]) == {2 + 4, 2 + 10}
    pd.testing.assert_frame_equal(
        campaign.survivors().frame, items.where(~items.frame["item_id"].isin(guessed)).frame
    )
    funnel = campaign.funnel()
    assert funnel["n_in"].tolist() == [N, N, N]
    assert funnel["n_out"].tolist() == [N, N, N - 5]
    costs = campaign.costs().set_index("step")
    assert costs.loc["all", "n_judgments"] == 2 * N + 5 * 4 + (N - 5) * 10
    pages = campaign.judgments().groupby("step")["page"].nunique()
    assert costs.loc["all", "cost"] == pytest.approx(0.22 * (pages[1] + pages[2]) + 0.15 * pages[3])


def test_an_item_is_dropped_at_the_first_wrong_guess_from_the_passage(make):
    campaign = make()
    page = answer_page(campaign, campaign.add_subject().id, lambda _: "?")
    states = campaign.states()
    dropped = states[states["state"] == "dropped"]
    assert set(dropped["item_id"]) == {task.item_id for task in page.tasks}
    assert set(dropped["reason"]) == {"not guessed from the whole passage"}
    assert campaign.funnel()["n_dropped"].tolist() == [10, 0, 0]


def test_an_open_page_is_given_again_and_a_lost_one_to_somebody_else(make):
    campaign = make(lease=60, per_page=N)
    ada, eve = (campaign.add_subject(name).id for name in ("Ada", "Eve"))
    page = campaign.next_page(ada)
    assert campaign.next_page(ada) == page
    assert campaign.next_page(eve) is None
    first, second = page.tasks[:2]
    campaign.answer(page.id, ada, first.item_id, ["?"])
    campaign.now += 60
    other = campaign.next_page(eve)
    assert {task.item_id for task in other.tasks} == {task.item_id for task in page.tasks[1:]}
    Campaign.open(campaign.path).close()  # it refuses items that are free too often
    assert reason(campaign.answer, page.id, ada, second.item_id, ["?"]) == "expired page"
    assert reason(campaign.submit, page.id, ada) == "expired page"
    campaign.now += 60
    again = campaign.next_page(ada)  # the same person may have the same items in the same step
    assert {task.item_id for task in again.tasks} == {task.item_id for task in page.tasks[1:]}
    assert len(campaign.judgments()) == 1


def test_answers_are_refused_by_name_and_the_same_one_is_taken_twice(make):
    campaign = make()
    ada, eve = (campaign.add_subject(name).id for name in ("Ada", "Eve"))
    page, other = campaign.next_page(ada), campaign.next_page(eve)
    task = page.tasks[0].item_id
    assert reason(campaign.add_subject, " Ada ") == "duplicate subject"
    assert reason(campaign.subject, "x") == "unknown subject"
    assert reason(campaign.next_page, 99) == "unknown subject"
    assert reason(campaign.answer, 99, ada, task, ["x"]) == "unknown page"
    assert reason(campaign.answer, "1", ada, task, ["x"]) == "unknown page"
    assert reason(campaign.answer, 1 << 80, ada, task, ["x"]) == "unknown page"
    assert reason(campaign.answer, other.id, ada, task, ["x"]) == "page of another subject"
    assert reason(campaign.answer, page.id, ada, other.tasks[0].item_id, ["x"]) == "item not on the page"
    for guesses in ([], ["x", "y"], ["x" * 201], [3], 3, ["\ud800"], ["\0"]):
        assert reason(campaign.answer, page.id, ada, task, guesses) == "invalid guess"
    for seconds in (-1, float("nan"), float("inf"), "1"):
        assert reason(campaign.answer, page.id, ada, task, ["x"], seconds=seconds) == "invalid guess"
    assert reason(campaign.answer, page.id, ada, task, ["x"], shown=0) == "wrong context"
    assert len(campaign.judgments()) == 0
    campaign.answer(page.id, ada, task, [" x "])
    campaign.answer(page.id, ada, task, ["x"])
    assert reason(campaign.answer, page.id, ada, task, ["y"]) == "answered before"
    assert reason(campaign.answer, page.id, ada, task, ["y"], shown=0) == "answered before"
    assert reason(campaign.submit, page.id, ada) == "unanswered tasks"
    assert reason(campaign.submit, page.id, eve) == "page of another subject"
    for each in page.tasks[1:]:
        campaign.answer(page.id, ada, each.item_id, [""])
    campaign.submit(page.id, ada)
    campaign.submit(page.id, ada)
    campaign.answer(page.id, ada, task, ["x"])
    assert reason(campaign.answer, page.id, ada, task, ["y"]) == "answered before"
    assert campaign.judgments()["prediction"].tolist() == ["x", *[""] * 9]


def test_unfolding_shows_one_sentence_more_after_each_wrong_guess(make, items):
    campaign, right = make("unfolding", per_page=4, people=1), answers(items)
    subject = campaign.add_subject().id
    page = campaign.next_page(subject)
    item = items[page.tasks[0].item_id]
    task = page.tasks[0]
    assert task.sentences == ()
    for shown in range(len(item.context)):
        assert (
            reason(campaign.answer, page.id, subject, item.item_id, ["?"], shown=shown + 1) == "wrong context"
        )
        before, task = task, campaign.answer(page.id, subject, item.item_id, ["?"], shown=shown)
        assert task.sentences[1:] == before.sentences
        assert campaign.answer(page.id, subject, item.item_id, ["?"], shown=shown).sentences == task.sentences
        assert campaign.next_page(subject).tasks[0].sentences == task.sentences
    assert campaign.answer(page.id, subject, item.item_id, ["?"]) is None
    assert campaign.answer(page.id, subject, item.item_id, ["?"]) is None
    for task in page.tasks[1:]:
        assert campaign.answer(page.id, subject, task.item_id, ["?"]) is not None
        assert campaign.answer(page.id, subject, task.item_id, [right(task)]) is None
    campaign.submit(page.id, subject)
    curve = campaign.unfolding()
    assert curve["n_guessed"].tolist() == [0, *[3] * len(item.context)]
    assert set(curve["n"]) == {4}
    predictions = campaign.predictions("subject 1")
    assert int(predictions["correct"].sum()) == 3


def test_both_conditions_of_cbt_are_judged_by_different_people(make):
    questions = wb.load("sample", variant="cbt")[:10]
    campaign = make("cbt", chosen=questions, condition="both", people=1)
    ada, eve = (campaign.add_subject(name).id for name in ("Ada", "Eve"))
    first = answer_page(campaign, ada, lambda task: task.candidates[0])
    assert {(len(task.candidates), task.shown) for task in first.tasks} == {(10, 0)}
    assert campaign.next_page(ada) is None
    second = campaign.next_page(eve)
    assert (second.condition, second.step) == ("passage", 2)
    assert reason(campaign.answer, second.id, eve, second.tasks[0].item_id, ["zebra"]) == "invalid guess"
    answer_page(campaign, eve, lambda task: task.candidates[0])
    table = campaign.predictions()
    ablated = table["variant"].str.endswith(" (query only)")
    assert ablated.tolist() == (table["model"] == "person: Ada").tolist()
    assert len(campaign.survivors()) == 10


def test_no_text_that_is_shown_depends_on_the_answer(items):
    from dataclasses import replace  # noqa: PLC0415

    from workbench.people.assignment import task_of  # noqa: PLC0415

    for item in [*items, *wb.load("sample", variant="cbt")[:20], *wb.load("sample", variant="openai")[:20]]:
        start, end = item.answer_span
        text = f"{item.text[:start]}xylophone{item.text[end:]}"
        shift = len("xylophone") - (end - start)
        sentences = (*item.sentences[:-1], (item.sentences[-1][0], item.sentences[-1][1] + shift))
        span = (start, end + shift)
        other = replace(item, text=text, answer="xylophone", answer_span=span, sentences=sentences)
        one, two = (task_of(each, 99, candidates=False) for each in (item, other))
        assert one == two
        shown, _ = item.readable()
        assert " ".join(f"{' '.join(one.sentences)} {one.query[0]}".split()) in " ".join(shown.split())


def test_protocols_are_data_and_refuse_what_they_are_not():
    for name in ("lambada", "unfolding", "cbt", "completion"):
        assert Protocol.from_json(protocol(name).to_json()) == protocol(name)
    assert [step.people for step in protocol("lambada", people=(1, 1, 3)).steps] == [1, 1, 3]
    for settings in (
        {"people": 0}, {"people": (1, 2)}, {"price": -1}, {"price": float("nan")}, {"lease": 0},
        {"accept": ("case",)}, {"accept": "no"}, {"accept": ("exact", "no")}, {"condition": "passage"},
        {"per_page": 10**9},
    ):  # fmt: skip
        with pytest.raises(DataError):
            protocol("lambada", **settings)
    refused(protocol, "x")
    refused(ProtocolStep, "unfolding", guesses=2)
    with pytest.raises(TypeError, match="colour"):
        protocol("lambada", colour=1)


def test_items_that_the_protocol_cannot_use_and_a_path_that_is_taken_are_refused(tmp_path, items):
    path = tmp_path / "c.db"
    refused(Campaign.create, path, items, "cbt")
    refused(Campaign.create, path, wb.items_from_text("Nobody knows the ___"))
    refused(Campaign.create, path, items[:0])
    refused(Campaign.create, path, [1])
    assert list(tmp_path.iterdir()) == []
    path.with_name("c.db-wal").write_bytes(b"x")  # of a database that was removed: it would be read as ours
    refused(Campaign.create, path, items)
    path.with_name("c.db-wal").unlink()
    Campaign.create(path, items).close()
    refused(Campaign.create, path, items)


def test_a_campaign_is_what_its_file_holds(make, items):
    campaign = make(seed=3)
    ada = campaign.add_subject("Ada")
    page = answer_page(campaign, ada.id, lambda _: "?")
    token = sqlite3.connect(campaign.path)
    assert ada.token not in "".join(token.iterdump())
    token.close()
    again = pickle.loads(pickle.dumps(Campaign.open(campaign.path)))  # noqa: S301
    assert again.subject(ada.token).name == "Ada"
    for frame in ("judgments", "states", "funnel", "costs", "subjects"):
        pd.testing.assert_frame_equal(getattr(again, frame)(), getattr(campaign, frame)())
    assert isinstance(again.items(), Items)
    pd.testing.assert_frame_equal(again.items().frame, items.frame)
    assert again.items().attrs == items.attrs
    assert page.tasks[0].item_id in again.judgments()["item_id"].tolist()


def test_a_page_is_seen_by_its_subject_alone(make):
    campaign = make()
    ada, ben = campaign.add_subject().id, campaign.add_subject().id
    page = campaign.next_page(ada)
    assert campaign.page(page.id, ada) == page
    assert reason(campaign.page, page.id, ben) == "page of another subject"
    assert reason(campaign.page, page.id + 1, ada) == "unknown page"
    answer_page(campaign, ada, lambda _: "word")
    assert all(task.finished for task in campaign.page(page.id, ada).tasks)


def test_what_is_refused_in_a_transaction_undoes_only_itself(make):
    campaign = make()
    ada = campaign.add_subject().id
    page = campaign.next_page(ada)
    with campaign.write_transaction():
        campaign.answer(page.id, ada, page.tasks[0].item_id, ["word"])
        assert reason(campaign.answer, page.id, ada, "none", ["word"]) == "item not on the page"
        assert reason(campaign.submit, page.id, ada) == "unanswered tasks"
        campaign.answer(page.id, ada, page.tasks[1].item_id, ["word"])
        other = sqlite3.connect(campaign.path)
        assert other.execute("SELECT count(*) FROM answers").fetchone() == (0,)  # not before its end
    assert other.execute("SELECT count(*) FROM answers").fetchone() == (2,)
    other.close()
    with pytest.raises(KeyboardInterrupt), campaign.write_transaction():  # noqa: PT012 - undone
        campaign.answer(page.id, ada, page.tasks[2].item_id, ["word"])
        raise KeyboardInterrupt
    assert len(campaign.judgments()) == 2
    campaign.answer(page.id, ada, page.tasks[2].item_id, ["word"])
