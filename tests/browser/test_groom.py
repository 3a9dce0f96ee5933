"""Grooming in JupyterLab, as a person does it: keys, clicks, undo, a killed kernel, themes, 430 pixels."""

import json

import pytest

pytestmark = pytest.mark.browser

MADE = (
    "import workbench as wb\nfrom workbench import construction\n"
    "made = construction.sentence_completion.questions('sample', number=12, frequency=1e-3, minimum=2,"
    " workers=1, progress=False)"
)
EVIL = "<img src=x onerror=window.hacked=1>"
MANY = 30
NEEDED = 4


@pytest.fixture
def groom(lab, notebook):
    """Open a notebook with the widget."""

    def run(name, *cells):
        notebook.open(lab.write(f"groom-{name}.ipynb", MADE, *cells))
        notebook.run_all()
        notebook.page.wait_for_selector(".wr-groom[data-waits=''] .wr-word")
        return notebook.page

    return run


def python(notebook, what):
    return json.loads(notebook.evaluate(f"import json; print(json.dumps({what}))"))


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


def test_picking_by_keys_and_clicks(groom, notebook):
    page = groom("story", "view = wb.groom(made, subject='story')\nview")
    ids = python(notebook, "made.frame['item_id'].tolist()")
    words = page.locator(".wr-word").all_inner_texts()
    assert words == python(notebook, "made[0].meta['alternates']")
    assert len(words) == MANY
    assert page.locator(".wr-answer").inner_text() == python(notebook, "made[0].answer")
    assert " ".join(python(notebook, "made[0].candidates")) not in page.locator(".wr-groom").inner_text()
    first = page.locator(".wr-word").first
    first.focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".wr-other").inner_text() == words[1]
    left, right = python(notebook, "[made[0].readable()[0], made[0].answer]")
    shown = page.locator(".wr-preview").inner_text().replace("with the alternate", "").strip()
    assert shown.split() == left.replace(right, words[1], 1).split()
    page.keyboard.press("ArrowDown")
    below = page.evaluate("document.activeElement.getBoundingClientRect().top")
    assert below > first.bounding_box()["y"]
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.textContent") == words[1]
    page.locator(".wr-word").nth(9).hover()
    assert page.locator(".wr-other").inner_text() == words[9]

    pick_by_keys(page, ids[0])
    assert python(notebook, "[sorted(item.candidates) for item in view.items()]") == [
        sorted([*words[:NEEDED], python(notebook, "made[0].answer")])
    ]
    page.locator(".wr-word").nth(7).click()
    page.locator(".wb-alarm:has-text('4 options are picked')").wait_for()
    notebook.screenshot("groom", ".wr-groom")
    page.locator(".wr-picked button").nth(1).click()
    settled(page, ids[0], NEEDED - 1, "begun")
    page.locator(".wr-word").nth(7).click()
    settled(page, ids[0], NEEDED, "done")
    assert python(notebook, "list(view.to_frame()['options'][0])") == [words[0], words[2], words[3], words[7]]


def test_walking_rejecting_and_undoing(groom, notebook):
    page = groom("walk", "view = wb.groom(made, subject='walk')\nview")
    ids = python(notebook, "made.frame['item_id'].tolist()")
    cells = page.locator(".jp-Cell").count()
    pick_by_keys(page, ids[0])
    page.keyboard.press("n")
    settled(page, ids[1], 0, "open")
    page.keyboard.press("x")
    page.locator(".wr-reject").select_option("poor sentence")
    settled(page, ids[1], 0, "rejected")
    page.locator(".wr-word").nth(2).click(force=True)  # it says that it is disabled
    page.locator(".wb-alarm:has-text('this question is rejected')").wait_for()
    page.keyboard.press("j")
    settled(page, ids[2], 0, "open")
    page.keyboard.press("u")
    settled(page, ids[1], 0, "open")
    page.keyboard.press("u")
    settled(page, ids[0], NEEDED - 1, "begun")
    page.locator(".wr-place").fill("5")
    page.locator(".wr-place").press("Enter")
    settled(page, ids[4], 0, "open")
    assert page.locator(".wr-status").inner_text().startswith("0 done, 0 rejected, 12 left (walk)")
    notebook.evaluate("view.current = made[3]")
    settled(page, ids[3], 0, "open")
    assert page.locator(".jp-Cell").count() == cells  # no key reached the notebook
    tree = page.locator(".wr-groom").aria_snapshot()
    for role in ["progressbar", "status", 'group "Alternates', "spinbutton", 'button "Undo', "combobox"]:
        assert role in tree.replace("Take the last change back (key u)", "Undo")


def test_no_button_moves_under_the_pointer(groom):
    page = groom(
        "still",
        "from dataclasses import replace\n"
        "long = [replace(item, meta={'alternates': ['a', 'b', 'c', 'd', 'incomprehensibilities' * 20]}) "
        "for item in made]\nview = wb.groom(wb.Items.from_records(long), subject='still')\nview",
    )
    last = page.locator(".wr-word").nth(4)
    page.locator(".wr-word").first.hover()
    height, place = page.locator(".wr-preview").bounding_box()["height"], last.bounding_box()
    last.hover()
    assert page.locator(".wr-preview").bounding_box()["height"] > height
    assert last.bounding_box() == place


def test_text_is_text_and_errors_show(groom, notebook):
    page = groom(
        "hostile",
        "from dataclasses import replace\n"
        f"evil = {EVIL!r}\n"
        "items = [replace(item, text=evil + ' ' + item.text, answer_span=tuple(p + len(evil) + 1 for p in "
        "item.answer_span), sentences=((0, len(item.text) + len(evil) + 1),), meta={'alternates': [evil, "
        "*item.meta['alternates'][1:]]}) for item in made]\n"
        "view = wb.groom(wb.Items.from_records(items), subject=evil)\nview",
    )
    assert page.locator(".wr-word").first.inner_text() == EVIL
    first = python(notebook, "made.frame['item_id'][0]")
    pick_by_keys(page, first)
    assert page.locator(".wr-groom img").count() == 0
    assert page.evaluate("window.hacked") is None
    assert EVIL in page.locator(".wr-sentence").inner_text()
    notebook.evaluate("def fails(*_): raise wb.DataError('it <b>fails</b>')\nview._grooming.pick = fails")
    page.locator(".wr-word").nth(1).click()
    page.locator(".wb-alarm:has-text('it <b>fails</b>')").wait_for()
    assert page.locator(".wr-word[aria-pressed=true]").count() == NEEDED


def test_readable_in_both_themes_and_at_430_pixels(groom, notebook):
    page = groom("look", "view = wb.groom(made, subject='look')\nview")
    ids = python(notebook, "made.frame['item_id'].tolist()")
    pick_by_keys(page, ids[0])
    page.locator(".wr-guide summary").click()
    notebook.look("groom-", ".wr-groom")
    page.evaluate("document.querySelector('.wr-groom').style.width = '430px'")
    notebook.still()
    notebook.look("groom-430-", ".wr-groom")
    assert page.locator(".wr-main").evaluate("(node) => node.scrollWidth <= node.clientWidth")
    page.keyboard.press("Escape")
    page.locator(".wr-word").first.focus()
    page.keyboard.press("n")
    settled(page, ids[1], 0, "open")
    page.keyboard.press("x")
    page.locator(".wr-reject").select_option(index=3)
    settled(page, ids[1], 0, "rejected")
    notebook.look("groom-rejected-", ".wr-groom")
