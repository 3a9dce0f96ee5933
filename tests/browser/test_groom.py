"""Grooming in JupyterLab, as a person does it: keys, clicks, undo, errors, themes, 430 pixels."""

import pytest

pytestmark = pytest.mark.browser

MADE = (
    "import workbench as wb\nfrom dataclasses import replace\nfrom workbench import construction\n"
    "made = construction.sentence_completion.questions('sample', number=12, frequency=1e-3, minimum=2)"
)
EVIL = "<img src=x onerror=window.hacked=1>"
NEEDED = 4


@pytest.fixture
def groom(opened):
    """Open a notebook with the widget."""
    return lambda name, *cells: opened(
        f"groom-{name}", MADE, *cells, shows=".wr-groom[data-waits=''] .wr-word"
    )


def settled(page, item, picked, state):
    wanted = f"[data-item='{item}'][data-picked='{picked}'][data-state='{state}']"
    page.wait_for_selector(f".wr-groom[data-waits='']{wanted}")


def pick_by_keys(page, item):
    """Pick the first four alternates with the keyboard."""
    page.locator(".wr-word").first.focus()
    for number in range(NEEDED):
        if number:
            page.keyboard.press("ArrowRight")
        page.keyboard.press(" ")
        settled(page, item, number + 1, "begun" if number < NEEDED - 1 else "done")


def test_options_are_picked_rejected_and_taken_back(groom, notebook):
    page = groom("story", "view = wb.groom(made, subject='Ada')\nview")
    ids = notebook.value("made.frame['item_id'].tolist()")
    cells = page.locator(".jp-Cell").count()
    picking(page, notebook, ids)
    walking(page, notebook, ids)
    assert page.locator(".jp-Cell").count() == cells  # no key reached the notebook
    tree = page.locator(".wr-groom").aria_snapshot()
    for role in ["progressbar", "status", 'group "Alternates', "spinbutton", 'button "Undo', "combobox"]:
        assert role in tree.replace("Take the last change back (key u)", "Undo")
    looking(page, notebook, ids)


def picking(page, notebook, ids):
    words = page.locator(".wr-word").all_inner_texts()
    alternates, answer, others, left = notebook.value(
        "[made[0].meta['alternates'], made[0].answer, made[0].candidates, made[0].readable()[0]]"
    )
    assert words == alternates
    assert len(words) == 30
    assert page.locator(".wr-answer").inner_text() == answer
    assert " ".join(others) not in page.locator(".wr-groom").inner_text()
    first = page.locator(".wr-word").first
    first.focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".wr-other").inner_text() == words[1]
    shown = page.locator(".wr-preview").inner_text().replace("with the alternate", "").strip()
    assert shown.split() == left.replace(answer, words[1], 1).split()
    page.keyboard.press("ArrowDown")
    below = page.evaluate("document.activeElement.getBoundingClientRect().top")
    assert below > first.bounding_box()["y"]
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.textContent") == words[1]
    page.locator(".wr-word").nth(9).hover()
    assert page.locator(".wr-other").inner_text() == words[9]
    pick_by_keys(page, ids[0])
    candidates = notebook.value("[sorted(item.candidates) for item in view.items()]")
    assert candidates == [sorted([*words[:NEEDED], answer])]
    page.locator(".wr-word").nth(7).click()
    page.locator(".wb-alarm:has-text('4 options are picked')").wait_for()
    notebook.screenshot("groom", ".wr-groom")
    page.locator(".wr-picked button").nth(1).click()
    settled(page, ids[0], NEEDED - 1, "begun")
    page.locator(".wr-word").nth(7).click()
    settled(page, ids[0], NEEDED, "done")
    assert notebook.value("list(view.to_frame()['options'][0])") == [words[k] for k in (0, 2, 3, 7)]


def walking(page, notebook, ids):
    page.keyboard.press("n")
    settled(page, ids[1], 0, "open")
    page.keyboard.press("x")
    page.locator(".wr-reject").select_option("poor sentence")
    settled(page, ids[1], 0, "rejected")
    page.locator(".wr-word").nth(2).click(force=True)  # it says that it is disabled
    page.locator(".wb-alarm:has-text('the question is rejected')").wait_for()
    page.keyboard.press("j")
    settled(page, ids[2], 0, "open")
    page.keyboard.press("u")
    settled(page, ids[1], 0, "open")
    page.keyboard.press("u")
    settled(page, ids[0], NEEDED - 1, "begun")
    page.locator(".wr-place").fill("5")
    page.locator(".wr-place").press("Enter")
    settled(page, ids[4], 0, "open")
    assert page.locator(".wr-status").inner_text().startswith("0 done, 0 rejected, 12 left (Ada)")
    notebook.evaluate("view.current = made[3]")
    settled(page, ids[3], 0, "open")


def looking(page, notebook, ids):
    pick_by_keys(page, ids[3])
    page.locator(".wr-guide summary").click()
    notebook.look("groom-", ".wr-groom")
    page.evaluate("document.querySelector('.wr-groom').style.width = '430px'")
    notebook.still()
    notebook.look("groom-430-", ".wr-groom")
    assert page.locator(".wr-main").evaluate("(node) => node.scrollWidth <= node.clientWidth")
    notebook.evaluate("view.current = made[1]")
    settled(page, ids[1], 0, "open")
    page.locator(".wr-word").first.focus()
    page.keyboard.press("x")
    page.locator(".wr-reject").select_option(index=3)
    settled(page, ids[1], 0, "rejected")
    notebook.look("groom-rejected-", ".wr-groom")


def test_text_is_text_errors_show_and_no_button_moves_under_the_pointer(groom, notebook):
    page = groom(
        "hostile",
        f"evil, long = {EVIL!r}, 'incomprehensibilities' * 20\n"
        "items = [replace(item, text=evil + ' ' + item.text, answer_span=tuple(p + len(evil) + 1 for p in "
        "item.answer_span), sentences=((0, len(item.text) + len(evil) + 1),), meta={'alternates': [evil, "
        "'b', 'c', 'd', long]}) for item in made]\n"
        "view = wb.groom(wb.Items.from_records(items), subject=evil)\nview",
    )
    assert page.locator(".wr-word").first.inner_text() == EVIL
    pick_by_keys(page, notebook.value("made.frame['item_id'][0]"))
    assert page.locator(".wr-groom img").count() == 0
    assert page.evaluate("window.hacked") is None
    assert EVIL in page.locator(".wr-sentence").inner_text()
    last = page.locator(".wr-word").nth(4)
    page.locator(".wr-word").nth(1).hover()
    height, place = page.locator(".wr-preview").bounding_box()["height"], last.bounding_box()
    last.hover()
    assert page.locator(".wr-preview").bounding_box()["height"] > height
    assert last.bounding_box() == place
    notebook.evaluate("def fails(*_): raise wb.DataError('it <b>fails</b>')\nview._grooming.pick = fails")
    page.locator(".wr-word").nth(1).click()
    page.locator(".wb-alarm:has-text('it <b>fails</b>')").wait_for()
    assert page.locator(".wr-word[aria-pressed=true]").count() == NEEDED
