"""What holds of a campaign whatever people do, in any order: reopened, late, at the same time."""

import os
import sqlite3
import tempfile
import threading
from collections import Counter
from functools import cache
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import workbench as wb
from workbench.people import Campaign, RefusalError, protocol

LEASE = 100


@cache
def passages():
    return wb.load("sample", "dev")[:9]


@cache
def questions():
    return wb.load("sample", variant="cbt")[:9]


def attempt(call, *arguments):
    """Return what a call gives, and why it was refused."""
    try:
        return call(*arguments), None
    except RefusalError as error:
        return None, error.reason


def people_by_item_and_step(campaign):
    """Return, from the tables alone, who has which item now, and who judged it and counts."""
    connection = sqlite3.connect(campaign.path)
    try:
        leased = connection.execute(
            """SELECT a.item, a.step FROM assignments a JOIN pages p ON p.id = a.page
            WHERE a.state = 'open' AND p.state = 'open'"""
        ).fetchall()
        rows = connection.execute("SELECT number, step, state, n_judged, vacant FROM items").fetchall()
    finally:
        connection.close()
    return Counter(leased), rows


class Judging(RuleBasedStateMachine):
    """People ask, answer, send again, come late and give up; the program is closed and opened."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.campaign = None
        self.now = 0.0
        self.answers = {}  # subject, item: what was taken, in order
        self.seen = {}  # subject, item: steps in which it was shown
        self.pages = {}  # subject: last page
        self.survivors = []  # ids of the items that had passed every step

    @initialize(
        kind=st.sampled_from(["lambada", "unfolding", "cbt"]),
        per_page=st.integers(1, 4),
        people=st.integers(1, 3),
    )
    def start(self, kind, per_page, people):
        special = {"lambada": {"people": (1, 1, people)}, "cbt": {"condition": "both"}}.get(kind, {})
        chosen = protocol(kind, **{"people": people, "per_page": per_page, "lease": LEASE, **special})
        self.items = questions() if kind == "cbt" else passages()
        self.path = Path(self.folder.name) / "c.db"
        Campaign.create(self.path, self.items, chosen).close()
        self.open()

    def open(self):
        self.campaign = Campaign.open(self.path)
        self.campaign._clock = lambda: self.now

    @rule()
    def reopen(self):
        self.campaign.close()
        self.open()

    @rule()
    def add(self):
        self.pages[self.campaign.add_subject().id] = None

    @rule(seconds=st.sampled_from([1, LEASE / 2, LEASE]))
    def wait(self, seconds):
        self.now += seconds

    @precondition(lambda self: self.pages)
    @rule(data=st.data())
    def ask(self, data):
        subject = data.draw(st.sampled_from(sorted(self.pages)))
        page = self.campaign.next_page(subject)
        if page is not None:
            self.pages[subject] = page
            assert len({task.item_id for task in page.tasks}) == len(page.tasks)
            assert page.expires > self.now
            for task in page.tasks:
                self.seen.setdefault((subject, task.item_id), set()).add(page.step)

    @precondition(lambda self: any(self.pages.values()))
    @rule(data=st.data(), right=st.booleans(), again=st.booleans())
    def answer(self, data, right, again):
        subject = data.draw(st.sampled_from([s for s, page in self.pages.items() if page]))
        page = self.pages[subject]
        task = data.draw(st.sampled_from(page.tasks))
        item = self.items[task.item_id]
        wrong = next((word for word in item.candidates or () if word != item.answer), "?")
        key = subject, task.item_id
        previous = self.answers.get(key, [])
        guess = previous[-1] if again and previous else item.answer if right else wrong
        late = page.expires <= self.now
        following, refused = attempt(self.campaign.answer, page.id, subject, task.item_id, [guess])
        if refused:
            assert refused in {"expired page", "item not on the page", "answered before"}
            assert refused != "expired page" or late
            return
        if self.campaign.judgments().shape[0] > sum(map(len, self.answers.values())):
            assert not late
            self.answers[key] = [*previous, guess]
            over = guess == item.answer or page.condition != "unfolding" or len(previous) == len(item.context)
            assert (following is None) == over
        else:
            assert guess == previous[-1]

    @precondition(lambda self: any(self.pages.values()))
    @rule(data=st.data())
    def submit(self, data):
        subject = data.draw(st.sampled_from([s for s, page in self.pages.items() if page]))
        page = self.pages[subject]
        _, refused = attempt(self.campaign.submit, page.id, subject)
        assert refused in {None, "unanswered tasks", "expired page"}
        if not refused:
            assert all((subject, task.item_id) in self.answers for task in page.tasks) or (
                page.expires <= self.now
            )

    @precondition(lambda self: len([1 for page in self.pages.values() if page]) > 1)
    @rule(data=st.data())
    def foreign(self, data):
        ours, theirs = data.draw(
            st.permutations([s for s, page in self.pages.items() if page]).map(lambda p: p[:2])
        )
        page = self.pages[theirs]
        with pytest.raises(RefusalError) as refused:
            self.campaign.answer(page.id, ours, page.tasks[0].item_id, ["x"])
        assert refused.value.reason == "page of another subject"

    @invariant()
    def nobody_sees_an_item_in_two_steps(self):
        assert all(len(steps) == 1 for steps in self.seen.values())

    @invariant()
    def judgments_are_those_that_were_taken_and_items_stop_by_them(self):
        if self.campaign is not None:
            frame = self.campaign.judgments()
            self.no_answer_is_lost_or_changed(frame)
            self.items_stop_by_the_rules(frame)

    def no_answer_is_lost_or_changed(self, frame):
        taken = {}
        for subject, item, words in zip(frame["subject"], frame["item_id"], frame["guesses"], strict=True):
            taken.setdefault((subject, item), []).extend(words)
        assert taken == self.answers

    @invariant()
    def no_item_has_more_people_than_its_step_needs(self):
        if self.campaign is None:
            return
        steps = self.campaign.protocol.steps
        leased, rows = people_by_item_and_step(self.campaign)
        for number, step, state, n_judged, vacant in rows:
            if state == "open":
                assert n_judged + leased[number, step] + vacant == steps[step].people
            else:
                assert vacant == 0

    def items_stop_by_the_rules(self, frame):
        """Judge all items again from the judgments that count."""
        judged = {}  # item, step: who was right, in order
        columns = ("item_id", "step", "correct", "last_answer", "counted")
        for item, step, correct, last_answer, counted in zip(*map(frame.get, columns), strict=True):
            if last_answer and counted:
                judged.setdefault((item, step), []).append(bool(correct))
        steps = self.campaign.protocol.steps
        states = self.campaign.states()
        for row in states.itertuples():
            state, step = "open", 1
            while state == "open" and step <= len(steps):
                right = judged.get((row.item_id, step), [])
                described = steps[step - 1]
                assert len(right) <= described.people
                stops = {"right": False in right, "wrong": True in right, "any": False}[described.passes]
                if stops:
                    state = "dropped"
                    assert right.index(described.passes == "wrong") == len(right) - 1
                elif len(right) < described.people:
                    break
                else:
                    step += 1
            state = "kept" if state == "open" and step > len(steps) else state
            assert (row.state, row.step) == (state, min(step, len(steps)))
            assert all(step <= row.step for item, step in judged if item == row.item_id)
        funnel = self.campaign.funnel()
        assert (funnel["n_in"] == funnel["n_open"] + funnel["n_dropped"] + funnel["n_out"]).all()
        assert funnel["n_in"].tolist() == [len(self.items), *funnel["n_out"].tolist()[:-1]]
        survivors = states.loc[states["state"] == "kept", "item_id"].tolist()
        assert funnel["n_out"].iloc[-1] == len(survivors)
        if survivors != self.survivors:
            self.survivors = survivors
            assert [item.item_id for item in self.campaign.survivors()] == survivors

    def teardown(self):
        if self.campaign is not None:
            self.campaign.close()
        self.folder.cleanup()


TestJudging = Judging.TestCase
TestJudging.settings = settings(max_examples=12, stateful_step_count=40, deadline=None)


def test_threads_of_one_campaign_and_of_two_do_not_collide(tmp_path):
    items = wb.load("sample", "dev")
    path = tmp_path / "c.db"
    first = Campaign.create(path, items, people=(1, 1, 4), per_page=(3, 3, 5))
    second = Campaign.open(path)
    problems, sent = [], []

    def play(campaign, subject, share):
        try:
            while page := campaign.next_page(subject):
                for place, task in enumerate(page.tasks):
                    word = items[task.item_id].answer if place % share and page.step < 3 else "?"
                    campaign.answer(page.id, subject, task.item_id, [word])
                    sent.append((subject, task.item_id, word))
                campaign.submit(page.id, subject)
        except Exception as error:  # noqa: BLE001 - told by the assertion below
            problems.append(error)

    people = [first.add_subject().id for _ in range(8)]
    threads = [
        threading.Thread(target=play, args=((first, second)[number % 2], subject, 4))
        for number, subject in enumerate(people)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    frame = first.judgments()
    assert sorted(zip(frame["subject"], frame["item_id"], frame["prediction"], strict=True)) == sorted(sent)
    counted = frame[frame["counted"]].groupby(["item_id", "step"]).size()
    allowed = {number: step.people for number, step in enumerate(first.protocol.steps, 1)}
    assert all(n <= allowed[step] for (_, step), n in counted.items())
    assert not frame.duplicated(["subject", "item_id"]).any()
    assert not people_by_item_and_step(first)[0]
    first.close()
    second.close()


def test_a_forked_process_uses_a_connection_of_its_own(tmp_path):
    campaign = Campaign.create(tmp_path / "c.db", wb.load("sample", "dev")[:5])
    subject = campaign.add_subject().id
    page = campaign.next_page(subject)
    if (child := os.fork()) == 0:
        status = 1
        try:
            campaign.answer(page.id, subject, page.tasks[0].item_id, ["from the child"])
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    campaign.answer(page.id, subject, page.tasks[1].item_id, ["from the parent"])
    assert campaign.judgments()["prediction"].tolist() == ["from the child", "from the parent"]
    campaign.close()
