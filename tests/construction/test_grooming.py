"""Grooming: what a person chooses, saved at once; the widget without a page."""

import json

import pytest
from grooming_questions import WORDS, question, questions
from html_page import Page
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refused import refused

import workbench as wb
from workbench.construction.grooming import REASONS, Grooming, next_open
from workbench.storage.errors import DataError
from workbench.widgets.groom.groom import Groom

EVIL = "<img src=x onerror=window.hacked=1>"


IDS = questions().frame["item_id"].tolist()


def pick(grooming, item_id, *words):
    for word in words:
        grooming.pick(item_id, word)


def test_four_options_make_a_question(tmp_path):
    grooming = Grooming(questions(), "Ann", folder=tmp_path)
    assert grooming.counts() == {"open": 4, "begun": 0, "done": 0, "rejected": 0, "sentence used": 0}
    pick(grooming, IDS[1], "w7", "w3", "w9")
    assert grooming.state(IDS[1]) == "begun"
    assert len(grooming.items()) == 0
    pick(grooming, IDS[1], "w3", "w29", "w1")
    assert grooming.choice(IDS[1]).words == ("w7", "w9", "w29", "w1")
    refused(grooming.pick, IDS[1], "w2")
    grooming.reject(IDS[2], REASONS[0])
    [item] = grooming.items()
    assert set(item.candidates) == {"cat", "w7", "w9", "w29", "w1"}
    assert (item.item_id, item.meta["choice"], item.dataset) == (IDS[1], "groomed by Ann", "msrcc")
    assert item.meta["alternates"] == WORDS
    assert grooming.items().attrs["grooming"]["done"] == 1
    frame = grooming.to_frame()
    assert frame["state"].tolist() == ["open", "done", "rejected", "open"]
    assert frame["reason"].tolist() == ["", "", REASONS[0], ""]
    assert frame["options"][1] == ["w7", "w9", "w29", "w1"]
    refused(grooming.pick, IDS[2], "w1")
    grooming.reject(IDS[2], "")
    assert grooming.state(IDS[2]) == "open"


def test_it_is_there_again_for_the_same_question_and_person_alone(tmp_path):
    pick(Grooming(questions(), "Ann", folder=tmp_path), IDS[0], "w1", "w2")
    again = Grooming(questions()[:2], "Ann", folder=tmp_path)
    assert again.choice(IDS[0]).words == ("w1", "w2")
    assert Grooming(questions(), "Bob", folder=tmp_path).state(IDS[0]) == "open"
    other = wb.Items.from_records([question(0, "another sentence has the cat .")])
    assert other[0].item_id == IDS[0]
    assert Grooming(other, "Ann", folder=tmp_path).state(IDS[0]) == "open"


def test_two_at_a_time_lose_nothing(tmp_path):
    one, two = (Grooming(questions(), folder=tmp_path) for _ in range(2))
    one.pick(IDS[0], "w1")
    two.pick(IDS[0], "w2")
    one.pick(IDS[0], "w3")
    assert one.choice(IDS[0]).words == ("w1", "w2", "w3")
    two.pick(IDS[0], "w4")
    refused(one.pick, IDS[0], "w5")


def test_undo_takes_back_the_last_changes_of_this_person(tmp_path):
    grooming = Grooming(questions(), folder=tmp_path)
    pick(grooming, IDS[0], "w1", "w2")
    grooming.reject(IDS[1], REASONS[1])
    Grooming(questions(), "Bob", folder=tmp_path).pick(IDS[0], "w9")
    grooming = Grooming(questions(), folder=tmp_path)  # after a restart too
    assert grooming.undo() == IDS[1]
    assert grooming.state(IDS[1]) == "open"
    assert grooming.undo() == IDS[0]
    assert grooming.choice(IDS[0]).words == ("w1",)
    assert grooming.undo() == IDS[0]
    assert grooming.undo() is None
    assert Grooming(questions(), "Bob", folder=tmp_path).state(IDS[0]) == "begun"


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["pick"] * 6 + ["reject", "undo", "open"]), st.integers(0, 2), st.integers(0, 6)
    ),
    max_size=40,
)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(actions=ACTIONS, same=st.booleans())
def test_any_order_of_actions_does_what_a_plain_list_does(actions, same, tmp_path_factory):
    text = "the old cat sat down ."
    items = wb.Items.from_records(
        [question(number, text if same else f"sentence {number} has the cat .") for number in range(3)]
    )
    folder = tmp_path_factory.mktemp("grooming")
    grooming = Grooming(items, folder=folder)
    history = []  # of changes: question, words, reason

    def now(number):
        return next(((words, reason) for n, words, reason in reversed(history) if n == number), ((), ""))

    def done(number):
        words, reason = now(number)
        return len(words) == 4 and not reason

    for kind, number, place in actions:
        item_id = items[number].item_id
        words, reason = now(number)
        if kind == "open":
            grooming = Grooming(items, folder=folder)
        elif kind == "undo":
            expected = items[history.pop()[0]].item_id if history else None
            assert grooming.undo() == expected
        elif kind == "reject":
            wanted = "" if place == 0 else REASONS[place % len(REASONS)]
            grooming.reject(item_id, wanted)
            if wanted != reason:
                history.append((number, words, wanted))
        else:
            word = WORDS[place]
            used = same and any(done(other) for other in range(3) if other != number)
            closed = reason or (used and not done(number))
            full = len(words) == 4 and word not in words
            try:
                grooming.pick(item_id, word)
            except DataError:
                assert closed or full
                continue
            assert not closed
            assert not full
            new = tuple(w for w in words if w != word) if word in words else (*words, word)
            history.append((number, new, reason))
    for number, item in enumerate(items):
        assert grooming.choice(item.item_id) == now(number)
    again = Grooming(items, folder=folder)
    assert again.to_frame().equals(grooming.to_frame())
    counts = again.counts()
    assert sum(counts.values()) == 3
    assert counts["done"] == len(again.items()) == sum(map(done, range(3)))


def test_questions_without_alternates(tmp_path):
    refused(Grooming, wb.load("sample", variant="msrcc"), folder=tmp_path)
    refused(Grooming(questions(), folder=tmp_path).pick, IDS[0], "cat")
    refused(Grooming(questions(), folder=tmp_path).reject, IDS[0], "no")


def test_the_next_open_question(tmp_path):
    grooming = Grooming(questions(), folder=tmp_path)
    pick(grooming, IDS[1], *WORDS[:4])
    grooming.reject(IDS[3], REASONS[0])
    assert [next_open(grooming, IDS, place) for place in range(-1, 4)] == [0, 2, 2, 0, 0]
    grooming.reject(IDS[0], REASONS[0])
    grooming.reject(IDS[2], REASONS[0])
    assert next_open(grooming, IDS, 1) == 1


# -- the widget


@pytest.fixture
def made(tmp_path):
    widgets = []

    def make(items=None, **options):
        widget = wb.groom(questions() if items is None else items, folder=tmp_path, **options)
        sent = []
        widget.send = lambda content: sent.append(json.loads(json.dumps(content)))
        widgets.append(widget)
        return widget, sent

    yield make
    for widget in widgets:
        widget.close()


def hear(widget, kind, **message):
    widget._handle_message(widget, {"type": kind, "lane": kind, **message}, [])


def test_a_page_picks_rejects_and_takes_back(made):
    widget, sent = made()
    assert isinstance(widget, Groom)
    hear(widget, "open")
    view = sent[-1]
    assert (view["type"], view["n"], view["index"], view["needed"], view["lane"]) == ("view", 4, 0, 4, "open")
    shown = view["question"]
    assert (shown["left"], shown["answer"], shown["right"]) == ("sentence 0 has the ", "cat", ".")
    assert shown["alternates"] == WORDS
    for word in WORDS[:4]:
        hear(widget, "pick", id=IDS[0], word=word)
    assert (sent[-1]["question"]["picked"], sent[-1]["question"]["state"]) == (WORDS[:4], "done")
    hear(widget, "pick", id=IDS[0], word="w9")
    assert sent[-1]["type"] == "error"
    assert "4 options are chosen" in sent[-1]["message"]
    hear(widget, "next")
    assert sent[-1]["index"] == 1
    hear(widget, "reject", id=IDS[1], reason=REASONS[2])
    assert sent[-1]["rejected"] == 1
    hear(widget, "show", index=3)
    assert widget.current_id == IDS[3]
    hear(widget, "undo")
    assert (widget.current_id, sent[-1]["rejected"]) == (IDS[1], 0)
    assert widget.counts["done"] == len(widget.items()) == 1
    assert widget.to_frame()["state"].tolist() == ["done", "open", "open", "open"]
    assert widget.current.item_id == widget.selection[0].item_id == IDS[1]
    for _ in range(4):
        hear(widget, "undo")
    assert widget.counts["done"] == 0
    assert sent[-1]["type"] != "error"


def test_the_question_is_a_trait(made):
    widget, sent = made(current=IDS[2])
    assert widget.current_id == IDS[2]
    widget.current = questions()[1]
    assert sent[-1]["index"] == 1
    with pytest.raises(DataError):
        widget.current_id = "none"
    assert widget.current_id == IDS[1]


def test_the_static_page_has_what_is_done_and_escapes_it(made):
    words = [EVIL, *WORDS[1:]]
    items = wb.Items.from_records([question(0, f"{EVIL} has the cat .", words=words), *questions()[1:]])
    widget, _ = made(items, subject=EVIL)
    for word in words[:4]:
        hear(widget, "pick", id=IDS[0], word=word)
    page = widget.to_html()
    assert "Content-Security-Policy" in page
    assert "<img" not in page
    assert f"Person{EVIL}Questions4Groomed1" in Page(page).text
    assert page.count("<details>") == 1
    assert "&lt;img" in page
    assert widget.to_html(limit=0).count("<details>") == 0
