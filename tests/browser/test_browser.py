"""The passage browser, driven as a reader drives it."""

import pytest

pytestmark = pytest.mark.browser

IMPORT = "import workbench as wb"
SAMPLE = 'items = wb.load("sample", variant="capitalised")'
SHOW = "browser = wb.browse(items)\nbrowser"
ANNOTATE = "annotations = wb.annotate(items)\njoined = items.frame.merge(annotations, on='item_id')"
ANNOTATED = ANNOTATE, SHOW.replace("(items", "(items, annotations")


@pytest.fixture
def show(opened):
    """Run cells in a new notebook and wait for the passage browser in it."""
    return lambda name, *cells: opened(
        name, IMPORT, *cells, shows=".wb-browser[data-waits=''] .wb-count:has-text(' of ')"
    )


def wait_count(page, text):
    """Wait until the kernel has answered and so many items are counted."""
    page.wait_for_selector(f".wb-browser[data-waits=''] .wb-count:text-is('{text}')")


def clipboard(page, button):
    """Press a button that copies; return what it copied."""
    button.click()
    page.wait_for_selector("button[data-done=copied]")
    return page.evaluate("navigator.clipboard.readText()")


def test_a_list_is_searched_and_filtered_by_clicks_keys_and_typed_conditions(show, notebook):
    page = show("line", SAMPLE, *ANNOTATED)
    total = notebook.value("len(items)")
    searching(page, notebook, total)
    keys_and_roles(page, notebook)
    clicks(page, notebook, total)
    typing(page, notebook, total)


def searching(page, notebook, total):
    said = notebook.value("int(items.frame.text.str.contains('said', case=False).sum())")
    search, alarm = page.locator(".wb-search"), page.locator(".wb-alarm")
    search.fill("said")
    wait_count(page, f"{said} of {total}")
    assert notebook.value("len(browser.selection)") == said
    assert page.locator(".wb-passage .wb-h").first.inner_text().lower() == "said"
    page.locator(".wb-button", has_text=".*").click()
    search.fill("(unclosed")
    alarm.wait_for(state="visible")
    assert "Invalid regular expression: missing ): (unclosed (RE2 syntax" in alarm.inner_text()
    search.fill("(closed|open)")
    alarm.wait_for(state="hidden")
    search.fill("zzzz+")
    wait_count(page, f"0 of {total}")
    assert "No items match. Remove a filter, or press Clear." in page.locator(".wb-list").inner_text()
    notebook.screenshot("browser-empty", ".wb-browser")
    page.locator(".wb-button", has_text=".*").click()
    page.locator(".wb-button", has_text="Clear").click()
    wait_count(page, f"{total} of {total}")


def keys_and_roles(page, notebook):
    active = (
        "[...document.querySelectorAll('.jp-Cell')].findIndex((c) => c.classList.contains('jp-mod-active'))"
    )
    page.locator(".wb-row").first.click()
    cells, before = page.locator(".jp-Cell").count(), page.evaluate(active)
    for key in [*"jjkabxm", "ArrowDown", "ArrowUp", "PageDown", "End", "Home", *"dd"]:
        page.keyboard.press(key)
    assert page.locator(".jp-Cell").count() == cells
    assert page.evaluate(active) == before
    page.keyboard.press("?")
    page.wait_for_selector(".wb-panel[role=dialog]:has-text('next / previous')")
    notebook.screenshot("browser-help", ".wb-browser")
    page.keyboard.press("Escape")
    assert page.locator(".wb-panel").is_hidden()
    assert page.evaluate("document.activeElement.className") == "wb-list"
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.className") == "wb-search"
    page.wait_for_selector(".wb-browser[data-waits='']")  # an answer draws the button anew
    assert clipboard(page, page.locator(".wb-copy").first) == notebook.value("browser.current_id")
    page.locator(".wb-list").focus()
    page.keyboard.press("Home")
    page.keyboard.press("j")
    selected = page.locator("[role=option][aria-selected=true]")
    assert page.locator(".wb-list").get_attribute("aria-activedescendant") == selected.get_attribute("id")
    assert selected.get_attribute("aria-posinset") == "2"
    assert "Hidden target" in page.locator(".wb-browser").aria_snapshot()
    for selector in [".wb-list", ".wb-search", ".wb-facet", ".wb-blank"]:
        page.keyboard.press("Tab")
        page.locator(selector).first.focus()
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid", selector


def expect(page, notebook, facets, total, mask):
    """Wait for the items of facets, which pandas finds by a mask."""
    wait_count(page, f"{notebook.value(f'int(({mask}).sum())')} of {total}")
    assert notebook.value("browser.state['facets']") == facets
    assert page.locator(".wb-chosen").count() == len(facets)


def clicks(page, notebook, total):
    page.locator(".wb-facet[data-name=target_class]").click()
    page.locator(".wb-chip[data-value=PN]").click()
    is_named = "joined.target_class == 'PN'"
    expect(page, notebook, {"target_class": ["PN"]}, total, is_named)
    assert page.locator(".wb-chosen .wb-facet-name").inner_text() == "Target class: proper noun"
    page.locator(".wb-facet[data-name=mention_distance]").click()
    page.locator(".wb-chip[data-value=null]").click()
    both = {"target_class": ["PN"], "mention_distance": [None]}
    expect(page, notebook, both, total, f"({is_named}) & joined.mention_distance.isna()")
    notebook.screenshot("browser-chips", ".wb-browser")
    page.locator(".wb-chip[data-value=null]").click()
    bars = page.locator(".wb-bars").bounding_box()
    page.mouse.move(bars["x"] + 0.3 * bars["width"], bars["y"] + 20)
    page.mouse.down()
    page.mouse.move(bars["x"] + 0.6 * bars["width"], bars["y"] + 20, steps=4)
    page.mouse.up()
    low, high = [box.input_value() for box in page.locator(".wb-range input").all()]
    within = f"({is_named}) & joined.mention_distance.between({low}, {high}).fillna(False)"
    facets = {"target_class": ["PN"], "mention_distance": [int(low), int(high)]}
    expect(page, notebook, facets, total, within)
    assert 0 < int(low) < int(high)
    notebook.screenshot("browser-brush", ".wb-browser")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Remove: Target class: proper noun").focus()
    page.keyboard.press("Enter")
    del facets["target_class"]
    expect(page, notebook, facets, total, within.partition(" & ")[2])
    assert page.evaluate("document.activeElement.className") == "wb-remove"
    page.locator(".wb-button", has_text="Clear").first.click()
    wait_count(page, f"{total} of {total}")


def typing(page, notebook, total):
    line, alarm = page.locator(".wb-line"), page.locator(".wb-alarm")

    def enter(condition):
        line.fill(condition)
        line.press("Enter")

    line.fill("direct_spee")
    line.press("End")
    line.press("c")
    page.wait_for_selector("datalist option[value=direct_speech]", state="attached")
    line.fill("n_tokens > 60 and target_class in ('CN', ")
    options = page.locator("datalist:not([id$=tags]) option").evaluate_all("(all) => all.map((n) => n.value)")
    assert f"{line.input_value()}'PN'" in options
    enter("direct_speech")
    wait_count(page, f"{notebook.value('int(joined.direct_speech.sum())')} of {total}")
    before = page.locator(".wb-count").inner_text()
    enter("n_tokns > 60")
    page.wait_for_selector(".wb-alarm:has-text('n_tokens')")
    first, *place = alarm.inner_text().split("\n")
    assert first.endswith("The list is still that of the last valid filter.")
    assert place == ["n_tokns > 60", "^^^^^^^"]
    assert line.get_attribute("aria-invalid") == "true"
    assert page.locator(".wb-count").inner_text() == before
    notebook.screenshot("browser-refused", ".wb-browser")
    assert notebook.value("browser.state['where']") == "direct_speech"
    enter("direct_speech")  # the valid one again
    alarm.wait_for(state="hidden")
    assert line.get_attribute("aria-invalid") == "false"
    enter("n_tokens > 60 and not direct_speech")
    n = notebook.value("int(((joined.n_tokens > 60) & ~joined.direct_speech).sum())")
    wait_count(page, f"{n} of {total}")
    page.locator(".wb-sort").select_option("mention_distance")
    page.locator(".wb-sorting button").click()
    page.wait_for_selector(".wb-browser[data-waits='']")
    page.locator(".wb-button", has_text="Export").click()
    code = clipboard(page, page.locator(".wb-copier", has_text="Copy this view"))
    shown = notebook.value("browser.current_id")
    state = {"where": "n_tokens > 60 and not direct_speech", "sort": "-mention_distance", "current": shown}
    assert code == f"wb.browse(items, annotations, state={state})"
    same = f"[{code}.selection.frame.equals(browser.selection.frame), len(browser.selection) > 9]"
    assert notebook.value(same) == [True, True]


def test_items_are_revealed_and_marked_alone_or_together_also_after_a_restart(show, notebook):
    page = show("marks", SAMPLE, *ANNOTATED)
    total = notebook.value("len(items)")
    revealing(page, notebook)
    marking(page)
    several(page, notebook, total)
    table(page, notebook)
    notebook.restart()
    notebook.ready()
    notebook.run_all()
    page.wait_for_selector(f".wb-browser[data-layout=list] .wb-count:text-is('{total} of {total}')")
    page.locator(".wb-facet", has_text="Tags").click()
    page.locator(".wb-chip[data-value='to discuss']").click()
    wait_count(page, f"1 of {total}")
    assert page.locator(".wb-note").inner_text() == "a note\nof two lines"
    tags = notebook.value("wb.notes('sample').tags.map(list).tolist()")
    assert sorted(map(sorted, tags)) == [
        ["hard"], ["hard", "odd"], ["hard", "odd"], ["hard", "odd", "plot", "to discuss"],
    ]  # fmt: skip


def revealing(page, notebook):
    page.locator(".wb-list").focus()
    page.keyboard.press("j")
    item_id, answer = notebook.value("[items[1].item_id, items[1].answer]")
    page.wait_for_selector(f".wb-meta:has-text('{item_id}')")
    assert answer not in page.locator(".wb-blank").inner_text()
    assert page.locator(".wb-passage .wb-m").count() == 0
    page.keyboard.press(" ")
    assert page.locator(".wb-blank").inner_text() == answer
    spans = notebook.value("len(annotations.set_index('item_id').mentions[items[1].item_id])")
    assert page.locator(".wb-passage .wb-m").count() == spans
    notebook.screenshot("browser-revealed", ".wb-browser")


def marking(page):
    page.keyboard.press("t")
    page.keyboard.type("plot, to discuss")
    page.keyboard.press("Enter")
    page.wait_for_selector(".wb-marks .wb-tag[aria-pressed=true]:text-is('to discuss')")
    page.keyboard.press("n")
    page.keyboard.type("a note")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".wb-note:has-text('a note')")
    page.keyboard.press("n")
    page.keyboard.type("a note\nof two lines")
    page.keyboard.press("Escape")
    page.wait_for_selector(".wb-note:has-text('of two lines')")
    page.keyboard.press("n")
    page.keyboard.type("another note")
    page.locator(".wb-panel button", has_text="Cancel").click()
    assert page.locator(".wb-note").inner_text() == "a note\nof two lines"


def several(page, notebook, total):
    rows = page.locator(".wb-row")
    rows.nth(1).click()
    page.wait_for_selector(f".wb-place:text-is('2 of {total}')")
    rows.nth(3).click(modifiers=["Shift"])
    page.wait_for_selector(".wb-picking:has-text('3 selected')")
    rows.nth(5).hover()
    page.keyboard.down("ControlOrMeta")
    page.mouse.down()
    # The list is drawn while the button is down
    page.evaluate("document.querySelector('.wb-list').dispatchEvent(new Event('scroll'))")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    page.mouse.up()
    page.keyboard.up("ControlOrMeta")
    page.wait_for_selector(".wb-picking:has-text('4 selected')")
    page.keyboard.press("t")
    page.keyboard.type("hard, odd")
    box, left = (page.locator(at).bounding_box() for at in (".wb-panel", ".wb-left"))
    assert box["x"] + box["width"] <= left["x"] + left["width"], "it does not cover the passage"
    page.keyboard.press("Enter")
    page.wait_for_selector(".wb-row.wb-selected .wb-tag:text-is('odd')")
    tagged = "[i for i, t in enumerate(browser.to_frame().tags) if 'odd' in t]"
    assert notebook.value(tagged) == [1, 2, 3, 5]
    page.keyboard.press("Escape")
    page.keyboard.press(page.locator(".wb-marks [data-tag=odd]").get_attribute("data-key"))
    page.wait_for_selector(".wb-marks .wb-tag[data-tag=odd][aria-pressed=false]")
    assert notebook.value(tagged) == [1, 2, 3]
    page.keyboard.press("x")
    page.wait_for_selector(".wb-picking:has-text('1 selected')")
    notebook.screenshot("browser-selected", ".wb-browser")


def table(page, notebook):
    page.locator(".wb-button", has_text="Table").click()
    page.wait_for_selector(".wb-browser[data-layout=table] .wb-cells")
    for way, best in (("", "min"), ("-", "max")):
        page.locator(".wb-head [data-name=n_tokens]").click()
        page.wait_for_selector(f".wb-head .wb-way[aria-label={'descending' if way else 'ascending'}]")
        page.wait_for_selector(".wb-browser[data-waits='']")
        assert notebook.value("browser.state['sort']") == f"{way}n_tokens"
        page.keyboard.press("Home")
        expected = notebook.value(f"int(browser.to_frame().n_tokens.{best}())")
        page.wait_for_selector(f".wb-cells[aria-posinset='1'] .wb-cell:text-is('{expected}')")
        assert "▁" in page.locator(".wb-list [aria-posinset='1']").inner_text()
    notebook.look("browser-table-", ".wb-browser", axe=False)
    columns_are_chosen(page, notebook)
    with page.expect_download() as download:
        page.locator(".wb-button", has_text="Export").click()
        page.locator(".wb-panel button", has_text="CSV").click()
    notebook.evaluate('browser.export("python.csv")')
    assert download.value.suggested_filename == "items.csv"
    assert download.value.path().read_bytes() == (notebook.lab.folder / "python.csv").read_bytes()
    notebook.narrow(".wb-browser", 950)
    notebook.look("browser-table-700-", ".wb-browser", axe=False)


def columns_are_chosen(page, notebook):
    """Choose the columns of the table by keyboard."""
    heads, usual = page.locator(".wb-head > *"), ".wb-head > :nth-child(2):text-is('Passage')"
    assert (heads.nth(1).inner_text(), heads.last.inner_text()) == ("Passage", "Tags")
    assert page.evaluate(STARTS) == [0] * heads.count()
    page.locator(".wb-list").focus()
    page.keyboard.press("c")
    assert page.evaluate("document.activeElement.value") == "passage"
    page.keyboard.press("Space")
    page.locator(".wb-head-name:text-is('Passage')").wait_for(state="detached")
    page.keyboard.press("Space")
    page.wait_for_selector(".wb-head > :last-child:text-is('Passage')")  # what is added comes last
    assert page.locator(".wb-column-list input[value=passage]").is_checked()
    notebook.screenshot("browser-columns", ".wb-browser")
    page.locator(".wb-panel button", has_text="Usual ones").click()
    page.wait_for_selector(usual)
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.className") == "wb-list"
    names = "[*browser._listing.table][1:] + ['passage']"
    notebook.evaluate(f"browser.state = browser.state | {{'table': {names}}}")
    page.wait_for_selector(".wb-head :text-is('Passage')")
    list_ = page.locator(".wb-list")
    assert list_.evaluate("(n) => n.scrollWidth - n.clientWidth > 100 && n.clientHeight > 100")
    list_.evaluate("(n) => { n.scrollLeft = 100; }")
    page.wait_for_function("document.querySelector('.wb-head').scrollLeft === 100")  # headings stay above
    list_.evaluate("(n) => { n.scrollLeft = 0; }")
    notebook.evaluate("browser.state = browser.state | {'table': True}")
    page.wait_for_selector(usual)


STARTS = """() => {
    const start = (n, style = getComputedStyle(n)) =>
        n.getBoundingClientRect().x + parseFloat(style.paddingLeft) + parseFloat(style.borderLeftWidth);
    const cells = document.querySelector('.wb-cells').children;
    const heads = [...document.querySelector('.wb-head').children];
    return heads.map((n, i) => Math.round(start(n) - start(cells[i])));
}"""
"""How far the text of each heading begins from that of its column, in pixels."""


def test_many_items_scroll_to_the_end(show):
    page = show(
        "many",
        'import pandas as pd\nframe = wb.load("sample").frame\n'
        "many = pd.concat([frame] * (15_000 // len(frame) + 1), ignore_index=True).head(15_000)\n"
        "many['item_id'] = [f'many/dev/{i:06d}' for i in range(len(many))]\nitems = wb.Items(many)",
        SHOW,
    )
    wait_count(page, "15,000 of 15,000")
    assert page.locator(".wb-row").count() < 40
    for top, item in ((1e9, "014999"), (400000, "006252")):
        page.locator(".wb-list").evaluate("(n, top) => { n.scrollTop = top; }", top)
        page.wait_for_selector(f".wb-row:has-text('many/dev/{item}')")
    page.locator(".wb-list").focus()
    page.keyboard.press("End")
    page.wait_for_selector(".wb-meta:has-text('many/dev/014999')")


def test_a_passage_is_copied_asked_about_and_analysed(show, notebook):
    page = show(
        "analyse", SAMPLE,
        "from workbench.models import RandomWord\nasked = wb.ask(RandomWord('passage'))",
        "browser = wb.browse(items[:40], ask=asked)\nbrowser", "other = wb.browse(items)\nother",
    )  # fmt: skip
    first, second = page.locator(".wb-browser").all()
    text = clipboard(page, first.locator(".wb-copier", has_text="Copy text"))
    shown = first.locator(".wb-context").inner_text()
    assert text.startswith(shown.strip()[:40])
    assert "_____" in text
    first.locator(".wb-acts button", has_text="Ask about this").click()
    first.locator("button[data-done=sent]").wait_for()
    assert notebook.value("[asked.word == items[0].answer, '___' in asked.text]") == [True, True]
    line = clipboard(page, second.locator(".wb-acts button", has_text="Ask about this"))
    assert line == f'wb.ask(models, items["{notebook.value("items[0].item_id")}"])'
    first.locator(".wb-analyse").click()
    first.locator(".wb-facet[data-name=target_class]").wait_for()
    first.locator(".wb-progress").wait_for(state="hidden")
    assert 'annotations="auto"' in notebook.value("browser._arguments")


def test_readable_in_both_themes_and_at_700_pixels(show, notebook):
    page = show(
        "look",
        'items = wb.load("sample", variant="cbt")',
        "import pandas as pd\nannotations = pd.DataFrame({'item_id': items.frame.item_id, 'n_tokens':"
        " items.frame.text.str.split().str.len(), 'long': items.frame.text.str.len() > 2200})\n"
        "predictions = pd.DataFrame({'item_id': items.frame.item_id, 'model': 'first', 'prediction': 'x',"
        " 'correct': False, 'rank': 3, 'log_prob': -2.5})\n"
        "browser = wb.browse(items, annotations, predictions)\nbrowser",
    )
    page.locator(".wb-list").focus()
    page.keyboard.press("t")
    page.keyboard.type("tag")
    page.keyboard.press("Enter")
    page.wait_for_selector(".wb-marks .wb-tag")
    page.keyboard.press(" ")
    page.wait_for_selector(".wb-right")
    page.locator(".wb-search").fill("the")
    page.wait_for_selector(".wb-passage .wb-h")
    page.wait_for_selector(".wb-browser[data-waits='']")
    notebook.look("browser-cbt-", ".wb-browser", axe=False)
    page.locator(".wb-facet", has_text="Passage length").click()
    page.wait_for_selector(".wb-bar")
    notebook.look("browser-cbt-range-", ".wb-browser", axe=False)
    page.locator(".wb-facet", has_text="Word class").click()
    page.wait_for_selector(".wb-chip")
    page.locator(".wb-chip").first.click()
    page.wait_for_selector(".wb-chip[aria-pressed=true]")
    notebook.look("browser-cbt-chips-", ".wb-browser", axe=False)
    page.keyboard.press("Escape")
    notebook.narrow(".wb-browser", 950)
    notebook.look("browser-cbt-700-", ".wb-browser", axe=False)


def test_shades_are_read_by_key_and_under_the_pointer(show, notebook):
    page = show(
        "shades",
        "from workbench.models import NGram\n"
        "ngram = NGram.fit(wb.books('sample', 'train'), order=2)\n"
        "cached = ngram.cached(0.3)\n"
        "few = wb.load('sample', variant='capitalised')[:3]\nparts = wb.influence(cached, few, 'word')\n"
        "parts['influence'] = [k % 7 / 2 - 1 for k in range(len(parts))]\n"
        "words = wb.surprisal(cached, few, against=ngram, top_k=5)\n"
        "names = {'cached': words.drop(columns='difference'), 'cached less plain': words}",
        "shaded = wb.browse(few, influence=parts, surprisal=names)\nshaded",
    )
    tip, weighed = page.locator(".wb-tip"), page.locator(".wb-context .wb-weighed")
    assert page.locator(".wb-passage .wb-weighed").count() == 0, "they are shown with the target"
    page.locator(".wb-list").focus()
    page.keyboard.press(" ")
    page.wait_for_selector(".wb-passage .wb-weighed >> nth=30")
    values = notebook.value("parts.influence[parts.item_id == few[0].item_id].tolist()")
    n_below = sum(value < 0 for value in values)
    assert n_below > 0
    assert page.locator(".wb-passage :is(.wb-context, .wb-query) .wb-against").count() == n_below
    assert "speaks against it" in page.locator(".wb-shades").inner_text()
    assert tip.is_hidden()
    page.locator(".wb-weighed[tabindex='0']").focus()
    for key, value in (("ArrowRight", values[1]), ("ArrowLeft", values[0])):
        page.keyboard.press(key)
        assert f"influence {value:+.2f} nats".replace("-", "\u2212") in tip.inner_text()
    assert "words before the answer" in tip.inner_text()
    focused = page.evaluate("document.activeElement.getAttribute('aria-describedby')")
    assert focused == tip.get_attribute("id")
    notebook.look("browser-shades-influence-", ".wb-browser", axe=False)
    page.keyboard.press("Escape")
    assert tip.is_hidden()
    page.locator(".wb-look").select_option("ssurprisal: cached")
    page.wait_for_selector(".wb-shades:has-text('bits')")
    weighed.nth(12).hover()
    assert f"\n{notebook.value('words.top_words[12][0]')}\u00a0" in tip.inner_text()
    notebook.look("browser-shades-surprisal-", ".wb-browser", axe=False)
    page.locator(".wb-look").select_option("sdifference in surprisal: cached less plain")
    page.wait_for_selector(".wb-shades:has-text('more surprising for')")
    weighed.nth(12).hover()
    assert notebook.value("ngram.name + ': '") in tip.inner_text()
    assert notebook.value("shaded.state['shade']") == "difference in surprisal: cached less plain"
    notebook.narrow(".wb-browser", 950)
    weighed.nth(3).hover()
    notebook.look("browser-shades-700-", ".wb-browser", axe=False)
