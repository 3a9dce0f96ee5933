"""The guessing game, played as a person plays it: by keyboard, across kills, in two browsers at once."""

import os
import signal

import pytest

import workbench as wb
from workbench.widgets.guess.game import Game, game_protocol

pytestmark = pytest.mark.browser

IMPORT = (
    "import workbench as wb\nfrom workbench.models import NGram\n"
    "items = wb.load('sample', variant='capitalised')[:40]"
)
EVIL = "<img src=x onerror=window.hacked=1>"
ALL_SHOWN = (
    """() => [...document.querySelectorAll('.wg-context, .wg-query')].map((n) => n.textContent).join(' ')"""
)
WORDS = """() => [...document.querySelectorAll('.wg-word')].map((box) => box.value)"""
COMPOSED = """(n) => n.dispatchEvent(
    new KeyboardEvent('keydown', { key: 'Enter', isComposing: true, bubbles: true }))"""
TOP = """() => ['.wg-view', '.wg-bottom'].map((at) => {
    const { top, height } = document.querySelector(at).getBoundingClientRect();
    return [top, height];
})"""


@pytest.fixture
def play(opened):
    """Open a notebook with the game; every one has a table of its own."""
    shows = ".wg-guess[data-stage][data-waits='']"
    return lambda name, game, *cells: opened(
        f"guess-{name}", IMPORT, f"game = {game}\ngame", *cells, shows=shows
    )


def settled(page, left, stage="page"):
    """Wait until so many tasks are open, and the kernel has answered."""
    page.wait_for_selector(f".wg-guess[data-stage='{stage}'][data-left='{left}'][data-waits='']")


def focus(page):
    page.locator(".wg-word, .wg-choices").first.focus()


def words(page, *guesses):
    """Type words, each with Enter."""
    for guess in guesses:
        page.keyboard.type(guess)
        page.keyboard.press("Enter")


def saved(notebook):
    return notebook.value("game.judgments()[['item_id', 'guesses']].values.tolist()")


def test_a_page_is_answered_by_keyboard_alone(play, notebook):
    page = play(
        "keys",
        "wb.guess(items, person='Ada', folder='keys', "
        "runs=[wb.predict(items, NGram.fit(wb.books('sample'), order=3))])",
    )
    cells = page.locator(".jp-Cell").count()
    tasks = notebook.value("[task.item_id for task in game.page.tasks]")
    answers = notebook.value("dict(zip(items.frame['item_id'], items.frame['answer']))")
    assert len(tasks) == 10
    assert page.locator(".wg-progress").inner_text() == "0 of 10 on this page · 0 of 40 answered · Ada"
    focus(page)
    before = page.evaluate(TOP)
    right = [answers[item] for item in tasks]
    words(page, *right[:3])
    settled(page, 7)
    assert page.locator(".wg-progress").inner_text() == "3 of 10 on this page · 3 of 40 answered · Ada"
    assert page.locator(".wg-right, .wg-wrong, .wg-answer").count() == 0  # nothing is told before the end
    page.keyboard.type("  dd ")  # outside, "d d" deletes the cell
    page.keyboard.press("Shift+Enter")  # back, to what is saved; outside, it runs the cell
    page.wait_for_selector(f".wg-guess[data-task='2'] .wg-saved:has-text('{right[2]}')")
    page.keyboard.press("Enter")
    page.wait_for_selector(".wg-guess[data-task='3']")
    assert page.evaluate(WORDS) == ["  dd "]  # what was typed is still there
    page.keyboard.press("Enter")
    settled(page, 6)
    page.keyboard.press("Enter")
    page.wait_for_selector(".wg-hint:has-text('No word is typed. Enter again')")
    assert page.evaluate(TOP) == before  # nothing moves
    notebook.screenshot("guess-hint", ".wg-guess")
    page.keyboard.press("Enter")
    words(page, *right[5:])
    settled(page, 0)
    assert page.locator(".wg-submit").is_enabled()
    notebook.screenshot("guess-all-answered", ".wg-guess")
    page.keyboard.press("Enter")
    settled(page, 0, "review")
    expected = [[item, [word]] for item, word in zip(tasks, right, strict=True)]
    expected[3][1], expected[4][1] = ["dd"], [""]
    assert sorted(saved(notebook)) == sorted(expected)  # the kernel hears in two threads
    marks = page.locator(".wg-verdict b").all_inner_texts()
    assert marks == ["✓"] * 3 + ["✗"] * 2 + ["✓"] * 5
    assert page.locator(".wg-answer").all_inner_texts() == right
    assert page.locator(".wg-model").count() == 10
    assert "8 of 10" in page.locator(".wg-score").inner_text()
    notebook.screenshot("guess-review", ".wg-guess")

    assert page.locator(".jp-Cell").count() == cells
    roles = page.locator(".wg-guess").aria_snapshot()
    for role in ['region "Passage"', 'list "Tasks of this page"', "status"]:
        assert role in roles


def test_a_killed_kernel_and_a_reload_lose_nothing(play, notebook):
    page = play("killed", "wb.guess(items, folder='killed')")
    tasks = notebook.value("[task.item_id for task in game.page.tasks]")
    focus(page)
    words(page, "one", "two", "three", "four")
    settled(page, 6)
    page.keyboard.type("unfinish")
    expected = saved(notebook)
    os.kill(notebook.value("__import__('os').getpid()"), signal.SIGKILL)
    page.locator(".jp-Dialog button", has_text="Ok").click()
    page.locator(".jp-Dialog").wait_for(state="detached")
    notebook.ready()
    page.locator(".wg-word").press("Enter")
    page.locator(".wb-alarm:has-text('The kernel does not answer')").wait_for()
    notebook.run_all()
    page.wait_for_function("() => document.querySelectorAll('.wg-guess').length === 1")
    settled(page, 6)
    assert saved(notebook) == expected
    assert page.evaluate(WORDS) == ["unfinish"]
    focus(page)
    page.keyboard.press("End")
    words(page, "ed")
    settled(page, 5)
    page.keyboard.type("again")
    notebook.desk.load()
    notebook.open("guess-killed.ipynb")
    notebook.run_all()
    settled(page, 5)
    assert page.evaluate(WORDS) == ["again"]
    guesses = [["one"], ["two"], ["three"], ["four"], ["unfinished"]]
    assert sorted(saved(notebook)) == sorted(map(list, zip(tasks, guesses, strict=False)))


def test_two_views_and_another_browser_lose_and_double_nothing(play, notebook, lab):
    page = play("two", "wb.guess(items, folder='two')", "game")
    page.wait_for_selector(".wg-guess[data-stage='page'] >> nth=1")
    first, second = (page.locator(".wg-guess").nth(n) for n in range(2))
    tasks = notebook.value("[task.item_id for task in game.page.tasks]")
    first.locator(".wg-word").focus()
    words(page, "one")
    page.wait_for_selector(".wg-guess[data-left='9'] >> nth=1")
    second.locator(".wg-dot").nth(1).click()
    second.locator(".wg-word").focus()
    page.keyboard.type("mine")
    first.locator(".wg-word").fill("theirs")
    first.locator(".wg-word").press("Enter")  # the same task, in the first view
    page.wait_for_selector(".wg-guess[data-left='8'] >> nth=1")
    assert second.locator(".wg-saved").inner_text() == "Saved: theirs"
    items = wb.load("sample", variant="capitalised")[:40]
    elsewhere = Game(items, game_protocol(), folder=lab.folder / "two")  # another browser, by another kernel
    number = elsewhere.next_page().id
    elsewhere.answer(number, tasks[2], ["elsewhere"])
    first.locator(".wg-word").fill("late")
    first.locator(".wg-word").press("Enter")
    first.locator(".wb-alarm:has-text('answered before')").wait_for()
    assert first.locator(".wg-saved").inner_text() == "Saved: elsewhere"
    for item in tasks[3:]:
        elsewhere.answer(number, item, ["elsewhere"])
    second.locator(".wg-dot").nth(5).click()
    second.locator(".wg-word").fill("late")
    second.locator(".wg-word").press("Enter")
    second.locator(".wb-alarm:has-text('answered before')").wait_for()
    page.wait_for_selector(".wg-guess[data-left='0'] >> nth=1")
    assert saved(notebook) == [[tasks[0], ["one"]], [tasks[1], ["theirs"]],
                               *([item, ["elsewhere"]] for item in tasks[2:])]  # fmt: skip


def test_a_passage_unfolds_until_the_word_is_guessed(play, notebook):
    page = play("unfolding", "wb.guess(items[:6], 'unfolding', folder='unfolding')")
    tasks = notebook.value("[task.item_id for task in game.page.tasks]")
    item = notebook.value(f"[items['{tasks[0]}'].answer, len(items['{tasks[0]}'].context)]")
    focus(page)
    before = page.evaluate(TOP)
    assert page.locator(".wg-context").count() == 0
    for shown in range(1, 3):
        words(page, f"wrong{shown}")
        page.wait_for_function(
            f"() => document.querySelector('.wg-wrongs').textContent.includes('wrong{shown}')"
        )
        page.locator(".wg-fresh").wait_for()
        task = notebook.value("game.page.tasks[0].sentences")
        assert len(task) == shown
        assert page.locator(".wg-context").inner_text() == " ".join(task)
    assert page.evaluate(TOP) == before
    notebook.screenshot("guess-unfolding", ".wg-guess")
    words(page, item[0])
    page.locator(".wg-answer").wait_for()
    assert "Guessed with 2 sentences of context" in page.locator(".wg-wrongs").inner_text()
    page.keyboard.press("Enter")
    page.wait_for_selector(".wg-guess[data-task='1'][data-waits='']")
    length = notebook.value(f"len(items['{tasks[1]}'].context)")
    for _ in range(length + 1):
        state = page.locator(".wg-guess").get_attribute("data-shown")
        words(page, "wrong")
        page.wait_for_function(
            "(was) => { const n = document.querySelector('.wg-guess');"
            " return n.dataset.waits === '' && n.dataset.shown !== was; }",
            arg=state,
        )
    assert "Not guessed" in page.locator(".wg-wrongs").inner_text()
    notebook.screenshot("guess-unfolding-ended", ".wg-guess")
    shares = notebook.value("game.context_shares()['person: me'][['n', 'n_guessed']].values.tolist()")
    assert shares[0] == [2, 0]
    assert shares[2] == [2, 1]


def test_candidates_are_keys(play, notebook):
    page = play(
        "completion",
        "wb.guess(wb.load('sample', variant='msrcc')[:14], 'completion', folder='completion', per_page=4)",
    )
    tasks = notebook.value("[[task.item_id, task.candidates] for task in game.page.tasks]")
    assert page.locator(".wg-choice").count() == 5
    focus(page)
    page.keyboard.press("2")
    assert page.locator(".wg-choice[aria-selected=true] bdi").inner_text() == tasks[0][1][1]
    page.keyboard.press("e")
    notebook.screenshot("guess-completion", ".wg-guess")
    page.keyboard.press("Enter")
    settled(page, 3)
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    settled(page, 2)
    page.keyboard.press("Enter")
    page.wait_for_selector(".wg-hint:has-text('Nothing is chosen')")
    page.keyboard.press("Enter")
    settled(page, 1)
    page.locator(".wg-choice").nth(2).click()
    page.keyboard.press("Enter")
    settled(page, 0)
    chosen = [tasks[0][1][4], tasks[1][1][4], "", tasks[3][1][2]]
    assert saved(notebook) == [[item, [word]] for (item, _), word in zip(tasks, chosen, strict=True)]


def test_text_is_text_and_composed_or_pasted_words_are_taken(play, notebook):
    page = play(
        "hostile",
        f"wb.guess(wb.items_from_text([{EVIL!r} + ' said he . She saw the keeper', 'a boat and a storm']), "
        f"person={EVIL!r}, folder='hostile', condition='passage')",
    )
    root = page.locator(".wg-guess")
    assert EVIL in " ".join(page.evaluate(ALL_SHOWN).split()) or root.get_attribute("data-task")
    box = page.locator(".wg-word")
    box.focus()
    box.evaluate(COMPOSED)
    assert page.locator(".wg-hint").inner_text() == ""  # Enter ends the composition, not the task
    page.evaluate("(text) => navigator.clipboard.writeText(text)", f"{EVIL}\n\t" + "long " * 500)
    page.keyboard.press("Control+v")
    assert len(box.input_value()) == 200
    page.keyboard.press("Enter")
    settled(page, 1)
    words(page, "storm")
    settled(page, 0)
    page.keyboard.press("Enter")
    settled(page, 0, "review")
    assert (
        EVIL
        in page.locator(".wg-verdict").first.inner_text() + page.locator(".wg-verdict").nth(1).inner_text()
    )
    assert root.locator("img").count() == 0
    assert page.evaluate("window.hacked") is None
    page.keyboard.press("Enter")
    settled(page, 0, "done")
    assert "You have answered all 2 items" in page.locator(".wg-empty").inner_text()
    notebook.screenshot("guess-done", ".wg-guess")


def test_readable_in_both_themes_and_at_430_pixels(play, notebook):
    page = play(
        "look",
        "wb.guess(wb.load('sample', variant='cbt')[:3], 'cbt', person='a long name ' * 5, folder='look', "
        "condition='passage', per_page=3)",
    )
    notebook.look("guess-look-", ".wg-guess")
    notebook.narrow(".wg-guess")
    page.set_viewport_size({"width": 540, "height": 900})
    page.wait_for_function("() => document.querySelector('.wg-guess').getBoundingClientRect().width <= 430")
    notebook.look("guess-430-", ".wg-guess")
    tasks = notebook.value("[task.candidates for task in game.page.tasks]")
    focus(page)
    for left, key in ((2, "1"), (1, "0"), (0, "9")):
        page.keyboard.press(key)
        page.keyboard.press("Enter")
        settled(page, left)
    chosen = [[words[int(key) - 1]] for words, key in zip(tasks, "109", strict=True)]  # 0 is the tenth
    assert [guesses for _, guesses in saved(notebook)] == chosen
    page.keyboard.press("Enter")
    settled(page, 0, "review")
    notebook.look("guess-430-review-", ".wg-guess")
    page.keyboard.press("Enter")
    settled(page, 0, "done")
    notebook.look("guess-430-done-", ".wg-guess")
