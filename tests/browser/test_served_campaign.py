"""People answer the pages of a campaign in their browsers, by keyboard, while the server is killed."""

import os
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from patience import PATIENCE

import workbench as wb
from workbench.people import Campaign

pytestmark = pytest.mark.browser

ARTEFACTS = Path(__file__).parents[1] / "artefacts"
MAIN = "import sys; from workbench.cli import main; sys.exit(main())"
FIELD = "#task-{} input[type=text]"


class Served:
    """A campaign and the process that serves it, which may be killed and started again on the same port."""

    def __init__(self, campaign):
        self.campaign, self.process, self.port = campaign, None, 0

    def start(self):
        command = [sys.executable, "-c", MAIN, "serve", str(self.campaign.path), "--port", str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            if match := re.match(r"(http://127.0.0.1:(\d+)) ", line):
                self.url, self.port = match[1], int(match[2])
                return
        pytest.fail("the server did not start")

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def served(tmp_path):
    """Give a function that makes a campaign and serves it."""
    made = []

    def of(protocol="lambada", items=None, **settings):
        items = wb.load("sample", "dev").sample(40) if items is None else items
        server = Served(Campaign.create(tmp_path / f"{len(made)}.db", items, protocol, **settings))
        made.append(server)
        server.start()
        return server

    yield of
    for server in made:
        server.kill()
        server.campaign.close()


@contextmanager
def person(chromium, server, **options):
    """Open the link of a new subject in a browser of their own, which reaches no other host."""
    context = chromium.new_context(**({"viewport": {"width": 1000, "height": 900}} | options))
    foreign, problems = [], []

    def note(request):
        if not request.url.startswith(server.url):
            foreign.append(request.url)

    context.on("request", note)
    page = context.new_page()
    page.set_default_timeout(1000 * PATIENCE)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda line: problems.append(line.text) if "Content Security" in line.text else None)
    page.goto(f"{server.url}/start/{server.campaign.add_subject().token}")
    for address in ("/", "/page"):
        page.locator(".main:focus").wait_for()  # the button to go on
        page.keyboard.press("Enter")
        page.wait_for_url(f"{server.url}{address}")
    page.locator("[autofocus]:focus").wait_for()  # the first field: what is typed before is lost
    try:
        yield page
    finally:
        context.close()
    assert foreign == []
    assert problems == []


def picture(page, name):
    if os.environ.get("WORKBENCH_SCREENSHOTS"):
        ARTEFACTS.mkdir(exist_ok=True)
        page.screenshot(path=ARTEFACTS / f"served-{name}.png", full_page=True)


def saved(page, n):
    page.wait_for_function("n => document.querySelectorAll('.saved').length === n", arg=n)


def test_two_people_answer_by_keyboard_while_the_server_is_killed(chromium, served):
    server = served()
    campaign = server.campaign
    with person(chromium, server) as ada, person(chromium, server) as ben:
        for page, name in ((ada, "ada"), (ben, "ben")):
            for place in range(4):
                assert page.evaluate("document.activeElement.name") == f"guess-{place}-0"
                page.keyboard.type(f"{name}{place}")
                page.keyboard.press("Enter")
            saved(page, 4)
        assert len(campaign.judgments()) == 8
        ada.keyboard.type("draft")  # typed, not saved
        picture(ada, "light")
        server.kill()
        ben.keyboard.type("ben4")
        ben.keyboard.press("Enter")
        ben.locator("#task-4 .state", has_text="the server does not answer").wait_for()
        ben.keyboard.type("ben5")  # goes on meanwhile
        server.start()
        saved(ben, 5)  # sent again by itself
        ada.reload()
        saved(ada, 4)
        assert ada.locator(FIELD.format(4)).input_value() == "draft"
        for page, name in ((ada, "ada"), (ben, "ben")):
            for place in range(4 if name == "ada" else 5, 10):
                field = page.locator(FIELD.format(place))
                field.fill(f"{name}{place}")
                field.press("Enter")
            saved(page, 10)
            assert page.evaluate("document.activeElement.value") == "send"
            page.keyboard.press("Enter")
            page.wait_for_function("() => document.querySelectorAll('.saved').length === 0")
    rows = campaign.judgments()
    words = sorted(f"{name}{place}" for name in ("ada", "ben") for place in range(10))
    assert sorted(rows["prediction"]) == words
    assert rows["response_time"].ge(0).all()  # tenths of a second
    assert campaign.subjects()["n_pages"].tolist() == [1, 1]
    assert len(set(rows["item_id"])) == 20


def test_without_a_script(chromium, served):
    server = served()
    with person(chromium, server, java_script_enabled=False) as page:
        for place in range(10):
            page.locator(FIELD.format(place)).fill(f"word{place}")
        picture(page, "without-script")
        page.locator("button[value=send]").click()
        page.locator("#count", has_text="0 of 10 saved").wait_for()
        page.locator(FIELD.format(2)).fill("one")
        page.locator("#task-2 button").click()
        page.locator("#task-2 .saved", has_text="one").wait_for()
        page.locator("button[value=send]").click()
        page.locator(".problem", has_text="There is no word yet for 1, 2, 4").wait_for()
        picture(page, "missing")
        page.locator("input[name=empty]").check()
        page.locator("button[value=send]").click()
        page.locator("#count", has_text="0 of 10 saved").wait_for()
    assert sorted(server.campaign.judgments()["prediction"])[9:] == ["one", *(f"word{k}" for k in range(10))]


def test_unfolding_by_keyboard(chromium, served):
    server = served("unfolding", wb.load("sample", "dev").sample(3), people=1)
    with person(chromium, server) as page:
        context = page.locator("#task-0 .context")
        assert context.text_content() == ""
        page.keyboard.type("zebra")
        page.keyboard.press("Enter")
        page.locator("#task-0 .tried", has_text="zebra").wait_for()
        first = context.text_content()
        assert first
        page.keyboard.press("Enter")  # no idea
        page.locator("#task-0 .tried", has_text="No word.").wait_for()
        assert context.text_content().endswith(first)
        assert page.locator("[name=shown-0]").input_value() == "2"
        picture(page, "unfolding")
        page.reload()
        assert context.text_content().endswith(first)
        answer = {item.item_id: item.answer for item in server.campaign.items()}
        task = server.campaign.next_page(1).tasks[0]
        page.locator(FIELD.format(0)).fill(answer[task.item_id])
        page.locator(FIELD.format(0)).press("Enter")
        saved(page, 1)
        assert page.evaluate("document.activeElement.name") == "guess-1-0"
    assert server.campaign.judgments()["correct"].tolist() == [False, False, True]


def test_candidates_by_digits_in_the_dark_and_narrow(chromium, served):
    server = served("cbt", wb.load("sample", variant="cbt")[:12], people=1)
    narrow = {"viewport": {"width": 360, "height": 740}, "color_scheme": "dark"}
    with person(chromium, server, **narrow) as page:
        tasks = server.campaign.next_page(1).tasks
        for place, key in enumerate("3021456789"):
            page.keyboard.press(key)
            page.keyboard.press("Enter")
            assert page.locator(f"#task-{place}").count() == 1
        saved(page, 10)
        picture(page, "narrow-dark-saved")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        page.keyboard.press("Enter")
        page.locator("#count", has_text="0 of 2 saved").wait_for()
        picture(page, "narrow-dark")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        page.goto(f"{server.url}/")
        picture(page, "narrow-dark-instructions")
    chosen = server.campaign.judgments().set_index("item_id")["prediction"]
    for task, key in zip(tasks, "3021456789", strict=True):
        assert chosen[task.item_id] == task.candidates[(int(key) + 9) % 10]


def test_three_guesses_for_a_sentence(chromium, served):
    sentences = wb.people.protocol("lambada", per_page=4)
    steps = (sentences.steps[2],)
    only = wb.people.Protocol("sentences", steps)
    server = served(only, wb.load("sample", "dev").sample(4))
    with person(chromium, server, color_scheme="dark") as page:
        for word in ("one", "two", "three"):
            page.keyboard.type(word)
            page.keyboard.press("Enter")
        saved(page, 1)
        page.keyboard.type("only")
        page.keyboard.press("Enter")
        page.keyboard.press("Enter")  # an empty field: no more words
        saved(page, 2)
        picture(page, "sentences-dark")
        page.locator("input[name=empty]").check()
        page.locator("button[value=send]").click()
        page.locator("h1", has_text="Thank you").wait_for()
        picture(page, "thanks-dark")
    rows = server.campaign.judgments()
    assert rows["guesses"].tolist() == [["one", "two", "three"], ["only"], [""], [""]]
