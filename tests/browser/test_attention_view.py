"""The attention view, driven as a reader does it."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

MODELS = (Path(__file__).parents[1] / "helpers" / "attentive.py").read_text(encoding="utf-8")
IMPORT = "import workbench as wb\nitems = wb.load('sample', variant='capitalised')[:40]"
SHARES = """[...document.querySelectorAll('.wb-weighed')]
    .map((n) => parseFloat(n.style.getPropertyValue('--wb-weight')) / 60)"""
HERE = """(n) => {
    const [a, b] = [n, n.querySelector('.wt-here')].map((each) => each.getBoundingClientRect());
    return b.top >= a.top && b.bottom <= a.bottom;
}"""
EVIL = "<img src=x onerror=window.hacked=1>"


@pytest.fixture
def attention(opened):
    """Open a notebook with the widget."""
    shows = ".wt-attention[data-waits=''] .wt-passage > *"
    return lambda name, *cells: opened(f"attention-{name}", MODELS, IMPORT, *cells, shows=shows)


def settled(page, row, item):
    page.wait_for_selector(f".wt-attention[data-waits=''][data-row='{row}'][data-item='{item}']")


def test_walk_choose_and_reveal(attention, notebook):
    page = attention("story", "view = wb.attention([Windows(), Windows('heads', HEADS)], items)\nview")
    first, second = notebook.value("[items[k].item_id for k in (0, 1)]")
    cells = page.locator(".jp-Cell").count()
    settled(page, "", first)
    text = page.evaluate(
        "[...document.querySelectorAll('.wb-context, .wb-query')].map((n) => n.textContent).join('')"
    )
    answer, shown = notebook.value("[items[0].answer, items[0].readable()[0]]")
    assert re.sub(r"\s+", "", text) == re.sub(r"\s+", "", shown.removesuffix(answer))
    assert page.locator(".wb-m, .wb-p").count() == 0
    assert answer not in page.locator(".wt-side").inner_text()
    weights = page.evaluate("[...document.querySelectorAll('.wt-part em')].map((n) => Number(n.textContent))")
    assert weights == sorted(weights, reverse=True)
    assert weights[0] == pytest.approx(notebook.value("float(view.weights.row_weights().max())"), rel=0.06)
    assert max(page.evaluate(SHARES)) == 1
    assert "".join(page.locator(".wt-passage .wb-w").all_inner_texts()).split()[0] == shown.split()[-2]

    page.locator(".wt-passage").focus()
    page.keyboard.press(" ")
    assert page.locator(".wb-blank").inner_text() == answer
    page.wait_for_function("() => document.querySelector('.wt-facts').textContent.includes('prediction the')")
    assert notebook.value("view.reveal")
    notebook.screenshot("attention", ".wt-attention")
    page.keyboard.press("l")
    settled(page, "hop 1", first)
    page.keyboard.press("j")
    settled(page, "hop 1", second)
    assert notebook.value("[view.row, view.current_id]") == ["hop 1", second]
    page.keyboard.press("h")
    settled(page, "", second)
    page.keyboard.press("m")
    page.wait_for_selector(".wt-select[title^=Head]:visible")
    settled(page, "", second)
    page.locator(".wt-select[title^=Hop]").select_option("layer 2")
    settled(page, "layer 2", second)
    page.locator(".wt-select[title^=Head]").select_option("layer 2, head 3")
    settled(page, "layer 2, head 3", second)
    before = page.evaluate(SHARES)
    page.locator(".wt-button", has_text="√ scale").click()
    page.wait_for_function(f"(before) => {SHARES}.some((x, i) => x > before[i] + 0.05)", arg=before)
    assert notebook.value("view.scale") == "square root"
    page.locator(".wt-place").fill("7")
    page.locator(".wt-place").press("Enter")
    settled(page, "layer 2, head 3", notebook.value("items[6].item_id"))
    assert page.locator(".jp-Cell").count() == cells
    notebook.evaluate("view.current = items[0]; view.row = ''")
    settled(page, "", first)
    with page.expect_download() as download:
        page.locator("select[title^=Save]").select_option("SVG")
    assert download.value.suggested_filename == "attention.svg"
    tree = page.locator(".wt-attention").aria_snapshot()
    for role in ['region "Passage"', 'region "Strongest parts"', "spinbutton", 'button "Next item', "status"]:
        assert role in tree


def test_text_is_text_errors_show_and_long_or_no_passages_are_shown(attention, notebook):
    page = attention(
        "hostile",
        f"evil = wb.items_from_text([{EVIL!r} + ' saw the keeper', 'a boat and a storm'])\n"
        f"model = Windows({EVIL!r}, rows=({EVIL!r}, 'b'), prediction={EVIL!r})\n"
        "view = wb.attention(model, evil, reveal=True)\nview",
        "wb.attention(Windows(), items[:0])",
        "text = ' . '.join(' '.join(item.text.split()) for item in items[:12])\n"
        "wb.attention(Windows(), wb.items_from_text([text], tokenised=True))",
    )
    page.locator(".wt-attention").nth(2).locator(".wt-part").first.wait_for()
    hostile, empty, long = (page.locator(".wt-attention").nth(place) for place in range(3))
    assert page.locator(".wt-attention img").count() == 0
    assert EVIL in hostile.locator(".wt-facts").first.inner_text()
    assert page.evaluate("window.hacked") is None
    assert "no items here" in empty.locator(".wb-empty").inner_text()
    strongest_parts(notebook, long)
    notebook.evaluate(
        "def fails(items): raise wb.DataError('it <b>fails</b>')\nview._sources[view.model] = fails"
    )
    hostile.locator("button[title^=Next]").click()
    hostile.locator(".wb-alarm:has-text('it <b>fails</b>')").wait_for()
    assert hostile.locator(".wt-place").input_value() == "1"
    notebook.restart()
    notebook.ready()
    hostile.locator("button[title^=Next]").click()
    hostile.locator(".wb-alarm:has-text('The kernel does not answer')").wait_for()


def strongest_parts(notebook, shown):
    """A long passage scrolls to its strongest parts."""
    view = shown.locator(".wt-passage")
    assert view.evaluate("(n) => n.textContent.split(' ').length > 500")
    assert view.evaluate("(n) => n.scrollHeight > 1.5 * n.clientHeight")
    for place in range(5):
        shown.locator(".wt-part").nth(place).click()
        assert view.evaluate(HERE)
    query, box = shown.locator(".wb-query").bounding_box(), view.bounding_box()
    assert box["y"] <= query["y"] < box["y"] + box["height"]  # it stays in view
    notebook.screenshot("attention-long", ".wt-attention >> nth=2")


def test_readable_in_both_themes_and_at_700_pixels(attention, notebook):
    heads = "[f'layer {a}, head {b}' for a in range(1, 13) for b in range(1, 13)]"
    page = attention(
        "look",
        f"models = [Windows(), Windows('a name ' * 9, {heads})]\ncbt = wb.load('sample', variant='cbt')\n"
        "import pandas as pd\n"
        "parts = pd.DataFrame([(i.item_id, a, b, 9, k % 5 - 1.5) for i in cbt for k, (a, b) in"
        " enumerate(i.sentences[:-1])], columns=['item_id', 'start', 'end', 'distance', 'influence'])\n"
        "view = wb.attention(models, cbt, reveal=True, influence=parts)\nview",
    )
    assert page.locator(".wt-influence .wb-against").count() > 3
    tau = notebook.value("view._influence(cbt[0], view.weights, '')['tau']")
    assert tau in page.locator(".wt-tau").inner_text()
    page.locator(".wt-influence .wb-weighed").first.hover()
    assert "influence" in page.locator(".wb-tip").inner_text()
    notebook.look("attention-", ".wt-attention")
    page.locator(".wt-passage").focus()
    page.keyboard.press("m")
    page.wait_for_selector(".wt-select[title^=Head]:visible")
    assert page.locator(".wt-select[title^=Hop] option").count() == 13
    notebook.narrow(".wt-attention")
    notebook.look("attention-700-", ".wt-attention")
