"""The passage browser, driven as a reader drives it."""

import re

import pytest
from looks import CLIPPED, CONTRAST

pytestmark = pytest.mark.browser

IMPORT = "import workbench as wb"
SAMPLE = 'items = wb.load("sample", variant="capitalised")'
SHOW = "browser = wb.browse(items)\nbrowser"


def wait_count(page, text):
    """Wait until the kernel has answered and so many items are counted."""
    page.wait_for_selector(f".wb-browser[data-waits=''] .wb-count:text-is('{text}')")


def test_search_and_filter(show, notebook):
    page = show("story", IMPORT, SAMPLE, SHOW)
    total = int(notebook.evaluate("print(len(items))"))
    wait_count(page, f"{total} of {total}")

    search = page.locator(".wb-search")
    search.fill("said")
    expected = notebook.evaluate("print(items.frame.text.str.contains('said', case=False).sum())")
    wait_count(page, f"{expected} of {total}")
    assert notebook.evaluate("print(len(browser.selection))") == expected
    assert page.locator(".wb-passage .wb-h").first.inner_text().lower() == "said"

    page.locator(".wb-facet", has_text="Novel").click()
    chip = page.locator(".wb-chip").first
    book = chip.get_attribute("data-value")
    chip.click()
    evaluated = (
        "print((items.frame.text.str.contains('said', case=False) & (items.frame.book_id == {!r})).sum())"
    )
    both = notebook.evaluate(evaluated.format(book))
    wait_count(page, f"{both} of {total}")
    page.keyboard.press("Escape")
    page.locator(".wb-button", has_text="Clear").click()
    wait_count(page, f"{total} of {total}")


def test_reveal_tag_and_find_again_after_a_restart(show, notebook):
    page = show("marks", IMPORT, SAMPLE, SHOW)
    total = notebook.evaluate("print(len(items))")
    page.locator(".wb-list").focus()
    page.keyboard.press("j")
    answer = notebook.evaluate("print(items[1].answer)")
    page.wait_for_selector(f".wb-meta:has-text('{notebook.evaluate('print(items[1].item_id)')}')")
    assert answer not in page.locator(".wb-blank").inner_text()
    assert page.locator(".wb-passage .wb-m").count() == 0
    page.keyboard.press(" ")
    assert page.locator(".wb-blank").inner_text() == answer
    mentions = notebook.evaluate(
        "from workbench.analysis.mentions import mentions; print(len(mentions(items[1])))"
    )
    assert page.locator(".wb-passage .wb-m").count() == int(mentions)
    notebook.screenshot("browser-revealed", ".wb-browser")

    page.keyboard.press("t")
    page.keyboard.type("odd, to discuss")
    page.keyboard.press("Enter")
    page.wait_for_selector(".wb-marks .wb-tag[aria-pressed=true]:text-is('to discuss')")
    page.keyboard.press("n")
    page.keyboard.type("a note\nof two lines")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".wb-note:has-text('of two lines')")

    notebook.restart()
    notebook.ready()
    notebook.run_all()
    page.wait_for_selector(f".wb-count:text-is('{total} of {total}')")
    page.locator(".wb-facet", has_text="Tags").click()
    page.locator(".wb-chip[data-value='odd']").click()
    wait_count(page, f"1 of {total}")
    assert page.locator(".wb-note").inner_text() == "a note\nof two lines"
    notes = notebook.evaluate("print(wb.notes('sample')[['item_id', 'tags', 'note']].values.tolist())")
    assert "['odd', 'to discuss']" in notes


def test_text_from_data_is_only_text(show):
    hostile = [
        "<script>window.hacked = 1</script> and <img src=x onerror='window.hacked=1'> she said to <b>Ann</b>",
        "</textarea></style> $x^2$ and \\(y\\) cost him all of $3 </div>",
        "שלום עולם she said in the language of her \u202eold home",
    ]
    page = show(
        "hostile",
        IMPORT,
        f"items = wb.items_from_text({hostile!r}, tokenised=False)",
        "import pandas as pd\nkinds = ['<i>one</i>', '</script>', '&amp;']\n"
        "annotations = pd.DataFrame({'item_id': items.frame.item_id, 'kind': kinds})\n"
        "browser = wb.browse(items, annotations, reveal=True)\nbrowser",
    )
    page.locator(".wb-list").focus()
    for number, text in enumerate(hostile):
        page.wait_for_selector(f".wb-place:text-is('{number + 1} of 3')")
        shown = page.evaluate(
            "[...document.querySelectorAll('.wb-context, .wb-query')].map((n) => n.textContent).join('')"
        )
        assert re.sub(r"\s+", "", shown) == re.sub(r"\s+", "", text)
        page.keyboard.press("j")
    inside = page.locator(".wb-browser")
    assert inside.locator("script, img, i, mjx-container").count() == 0
    assert page.evaluate("window.hacked") is None
    page.locator(".wb-facet", has_text="kind").click()
    assert page.locator(".wb-chip").all_inner_texts()
    assert {c.get_attribute("data-value") for c in page.locator(".wb-chip").all()} == {
        "<i>one</i>", "</script>", "&amp;",
    }  # fmt: skip
    assert page.evaluate("window.hacked") is None


def test_errors_and_empty_views_are_told(show, notebook):
    page = show("errors", IMPORT, SAMPLE, SHOW)
    total = notebook.evaluate("print(len(items))")
    page.locator(".wb-button", has_text=".*").click()
    page.locator(".wb-search").fill("(unclosed")
    alarm = page.locator(".wb-alarm")
    alarm.wait_for(state="visible")
    assert "Invalid regular expression: missing ): (unclosed (RE2 syntax" in alarm.inner_text()
    page.locator(".wb-search").fill("(closed|open)")
    alarm.wait_for(state="hidden")
    page.locator(".wb-search").fill("zzzz+")
    wait_count(page, f"0 of {total}")
    assert "No items match. Remove a filter, or press Clear." in page.locator(".wb-list").inner_text()
    notebook.screenshot("browser-empty", ".wb-browser")


def test_keys_stay_in_the_widget(show, notebook):
    page = show("keys", IMPORT, SAMPLE, SHOW)
    cells = page.locator(".jp-Cell").count()
    active = (
        "[...document.querySelectorAll('.jp-Cell')].findIndex((c) => c.classList.contains('jp-mod-active'))"
    )
    page.locator(".wb-row").first.click()
    before = page.evaluate(active)
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
    page.locator(".wb-copy").first.click()
    page.wait_for_selector(".wb-copy[data-done=copied]")
    assert page.evaluate("navigator.clipboard.readText()") == notebook.evaluate("print(browser.current_id)")


def test_many_items_scroll_to_the_end(show):
    page = show(
        "many",
        IMPORT,
        'import pandas as pd\nframe = wb.load("sample").frame\n'
        "many = pd.concat([frame] * (15_000 // len(frame) + 1), ignore_index=True).head(15_000)\n"
        "many['item_id'] = [f'many/dev/{i:06d}' for i in range(len(many))]\nitems = wb.Items(many)",
        SHOW,
    )
    wait_count(page, "15,000 of 15,000")
    assert page.locator(".wb-row").count() < 40
    page.evaluate("document.querySelector('.wb-list').scrollTop = 1e9")
    page.wait_for_selector(".wb-row:has-text('many/dev/014999')")
    page.evaluate("document.querySelector('.wb-list').scrollTop = 400000")
    page.wait_for_selector(".wb-row:has-text('many/dev/006252')")
    page.locator(".wb-list").focus()
    page.keyboard.press("End")
    page.wait_for_selector(".wb-meta:has-text('many/dev/014999')")


def clipboard(page, button):
    """Press a button that copies; return what it copied."""
    button.click()
    page.wait_for_selector("button[data-done=copied]")
    return page.evaluate("navigator.clipboard.readText()")


def test_clicks_and_typed_conditions_are_one_line(show, notebook):  # noqa: PLR0915 - one session
    page = show(
        "line",
        IMPORT,
        SAMPLE,
        "from workbench.items.query import parse\nannotations = wb.annotate(items)\n"
        "joined = items.frame.merge(annotations, on='item_id')",
        SHOW.replace("(items", "(items, annotations"),
    )
    total = notebook.evaluate("print(len(items))")
    line = page.locator(".wb-line")

    def expect(condition):
        n = notebook.evaluate(f"print(parse({condition!r}).mask(joined).sum())")
        wait_count(page, f"{n} of {total}")
        assert line.input_value() == condition

    page.locator(".wb-facet[data-name=target_class]").click()
    page.locator(".wb-chip[data-value=PN]").click()
    expect("target_class = PN")
    page.locator(".wb-exclude").click()
    expect("not target_class = PN")
    page.locator(".wb-facet[data-name=mention_distance]").click()
    page.locator(".wb-chip[data-value=null]").click()
    expect("not target_class = PN and mention_distance is missing")
    page.locator(".wb-chip[data-value=null]").click()
    bars = page.locator(".wb-bars").bounding_box()
    page.mouse.move(bars["x"] + 0.3 * bars["width"], bars["y"] + 20)
    page.mouse.down()
    page.mouse.move(bars["x"] + 0.6 * bars["width"], bars["y"] + 20, steps=4)
    page.mouse.up()
    ends = [box.input_value() for box in page.locator(".wb-range input").all()]
    expect(f"not target_class = PN and mention_distance >= {ends[0]} and mention_distance <= {ends[1]}")
    assert 0 < int(ends[0]) < int(ends[1])
    notebook.screenshot("browser-brush", ".wb-browser")

    page.locator(".wb-button", has_text="Clear").first.click()
    wait_count(page, f"{total} of {total}")
    line.fill("direct_spee")
    line.press("End")
    line.press("c")
    page.wait_for_selector(".wb-browser[data-waits=''] .wb-choices li:text-is('direct_speech')")
    notebook.screenshot("browser-completion", ".wb-browser")
    line.press("ArrowDown")
    line.press("Tab")
    line.press("Enter")
    expect("direct_speech")
    before = page.locator(".wb-count").inner_text()
    line.fill("n_tokns > 60")
    line.press("Enter")
    page.wait_for_selector(".wb-alarm:has-text('n_tokens')")
    alarm = page.locator(".wb-alarm").inner_text()
    assert alarm.endswith("The list is still that of the last valid filter.")
    assert line.get_attribute("aria-invalid") == "true"
    assert page.locator(".wb-count").inner_text() == before
    notebook.screenshot("browser-refused", ".wb-browser")
    assert notebook.evaluate("print(browser.state['where'])") == "direct_speech"
    line.fill("direct_speech")  # the valid one again
    line.press("Enter")
    page.locator(".wb-alarm").wait_for(state="hidden")
    assert line.get_attribute("aria-invalid") == "false"
    line.fill("n_tokens > 60 and not direct_speech")
    line.press("Enter")
    n = notebook.evaluate("print(((joined.n_tokens > 60) & ~joined.direct_speech).sum())")
    wait_count(page, f"{n} of {total}")
    assert line.get_attribute("aria-invalid") == "false"
    page.locator(".wb-sort").select_option("mention_distance")
    page.locator(".wb-sorting button").click()
    page.wait_for_selector(".wb-browser[data-waits='']")
    code = clipboard(page, page.locator(".wb-copier", has_text="Copy this view"))
    shown = notebook.evaluate("print(browser.current_id)")
    filters = 'where="n_tokens > 60 and not direct_speech", sort="-mention_distance"'
    assert code == f'wb.browse(items, annotations, {filters}, current="{shown}")'
    same = f"print({code}.selection.frame.equals(browser.selection.frame), len(browser.selection) > 9)"
    assert notebook.evaluate(same) == "True True"


def test_several_items_are_tagged_at_once_and_shown_as_a_table(show, notebook):
    page = show("several", IMPORT, SAMPLE, "browser = wb.browse(items, wb.annotate(items))\nbrowser")
    total = notebook.evaluate("print(len(items))")
    rows = page.locator(".wb-row")
    rows.nth(1).click()
    page.wait_for_selector(f".wb-place:text-is('2 of {total}')")
    rows.nth(3).click(modifiers=["Shift"])
    rows.nth(5).click(modifiers=["ControlOrMeta"])
    page.wait_for_selector(".wb-picking:has-text('4 selected')")
    page.keyboard.press("t")
    page.keyboard.type("hard, odd")
    box, left = (page.locator(at).bounding_box() for at in (".wb-panel", ".wb-left"))
    assert box["x"] + box["width"] <= left["x"] + left["width"], "it does not cover the passage"
    page.keyboard.press("Enter")
    page.wait_for_selector(".wb-row.wb-selected .wb-tag:text-is('odd')")
    tagged = "print([i for i, t in enumerate(browser.to_frame().tags) if {!r} in t])"
    assert notebook.evaluate(tagged.format("odd")) == "[1, 2, 3, 5]"
    page.keyboard.press("Escape")
    page.keyboard.press(page.locator(".wb-marks [data-tag=odd]").get_attribute("data-key"))
    page.wait_for_selector(".wb-marks .wb-tag[data-tag=odd][aria-pressed=false]")
    assert notebook.evaluate(tagged.format("odd")) == "[1, 2, 3]"
    page.keyboard.press("x")
    page.wait_for_selector(".wb-picking:has-text('1 selected')")
    notebook.screenshot("browser-selected", ".wb-browser")

    page.locator(".wb-button", has_text="Table").click()
    page.wait_for_selector(".wb-browser[data-layout=table] .wb-cells")
    for way, best in (("", "min"), ("-", "max")):
        page.locator(".wb-head [data-name=n_tokens]").click()
        page.wait_for_selector(f".wb-head .wb-way[aria-label={'descending' if way else 'ascending'}]")
        page.wait_for_selector(".wb-browser[data-waits='']")
        assert notebook.evaluate("print(browser.state['sort'])") == f"{way}n_tokens"
        first = page.locator(".wb-list [aria-posinset='1']").or_(page.locator(".wb-cells").first).first
        page.keyboard.press("Home")
        expected = notebook.evaluate(f"print(browser.to_frame().n_tokens.{best}())")
        page.wait_for_selector(f".wb-cells[aria-posinset='1'] .wb-cell:text-is('{expected}')")
        assert "▁" in first.inner_text()
    for theme in notebook.themes():
        assert page.evaluate(CONTRAST) == []
        notebook.screenshot(f"browser-table-{theme.split()[-1].lower()}", ".wb-browser")
    columns_are_chosen(page, notebook)
    with page.expect_download() as download:
        page.locator(".wb-button", has_text="Download").click()
        page.locator(".wb-panel button", has_text="CSV").click()
    notebook.evaluate('browser.export("python.csv")')
    assert download.value.suggested_filename == "items.csv"
    assert download.value.path().read_bytes() == (notebook.lab.folder / "python.csv").read_bytes()
    notebook.narrow(".wb-browser", 950)
    notebook.screenshot("browser-table-700", ".wb-browser")
    assert page.evaluate(CLIPPED) == []


def columns_are_chosen(page, notebook):
    """Choose the columns of the table by keyboard."""
    heads = page.locator(".wb-head > *")
    assert heads.nth(1).inner_text() == "Passage"
    assert heads.last.inner_text() == "Tags"
    assert "▁" in page.locator(".wb-cells .wb-cell").first.inner_text()
    assert page.evaluate(STARTS) == [0] * heads.count()
    page.locator(".wb-list").focus()
    page.keyboard.press("c")
    box = page.locator(".wb-column-list input[value=passage]")
    assert page.evaluate("document.activeElement.value") == "passage"
    page.keyboard.press("Space")
    page.locator(".wb-head-name:text-is('Passage')").wait_for(state="detached")
    page.keyboard.press("Space")
    page.wait_for_selector(".wb-head > :last-child:text-is('Passage')")  # what is added comes last
    assert box.is_checked()
    notebook.screenshot("browser-columns", ".wb-browser")
    assert page.evaluate(CONTRAST) == []
    names = notebook.evaluate("print(browser.state['table'])")
    assert f"table={names}" in notebook.evaluate("print(browser.code)")
    page.locator(".wb-panel button", has_text="Usual ones").click()
    page.wait_for_selector(".wb-head > :nth-child(2):text-is('Passage')")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.className") == "wb-list"
    notebook.evaluate("names = [*browser._listing.table][1:] + ['passage']")
    notebook.evaluate("browser.state = browser.state | {'table': names}")
    page.wait_for_selector(".wb-head :text-is('Passage')")
    wide, high = page.evaluate(
        "(at => [at.scrollWidth - at.clientWidth, at.clientHeight])(document.querySelector('.wb-list'))"
    )
    assert wide > 100
    assert high > 100
    page.evaluate("document.querySelector('.wb-list').scrollLeft = 100")
    page.wait_for_function("document.querySelector('.wb-head').scrollLeft === 100")  # headings stay above
    page.evaluate("document.querySelector('.wb-list').scrollLeft = 0")
    notebook.evaluate("browser.state = browser.state | {'table': True}")
    page.wait_for_selector(".wb-head > :nth-child(2):text-is('Passage')")


def test_a_passage_is_copied_asked_about_and_analysed(show, notebook):
    page = show(
        "analyse", IMPORT, SAMPLE,
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
    assert notebook.evaluate("print(asked.word == items[0].answer, '___' in asked.text)") == "True True"
    line = clipboard(page, second.locator(".wb-acts button", has_text="Ask about this"))
    assert line == f'wb.ask(models, items["{notebook.evaluate("print(items[0].item_id)")}"])'
    first.locator(".wb-analyse").click()
    first.locator(".wb-facet[data-name=target_class]").wait_for()
    first.locator(".wb-progress").wait_for(state="hidden")
    assert 'annotations="auto"' in notebook.evaluate("print(browser._arguments)")


STARTS = """() => {
    const start = (n, style = getComputedStyle(n)) =>
        n.getBoundingClientRect().x + parseFloat(style.paddingLeft) + parseFloat(style.borderLeftWidth);
    const cells = document.querySelector('.wb-cells').children;
    const heads = [...document.querySelector('.wb-head').children];
    return heads.map((n, i) => Math.round(start(n) - start(cells[i])));
}"""
"""How far the text of each heading begins from that of its column, in pixels."""


def test_readable_in_both_themes_and_at_700_pixels(show, notebook):
    page = show(
        "look",
        IMPORT,
        'items = wb.load("sample", variant="cbt")',
        "import pandas as pd\nannotations = pd.DataFrame({'item_id': items.frame.item_id, 'n_tokens':"
        " items.frame.text.str.split().str.len(), 'long': items.frame.text.str.len() > 2200})\n"
        "predictions = pd.DataFrame({'item_id': items.frame.item_id, 'model': 'first', 'prediction': 'x',"
        " 'correct': False, 'rank': 3, 'log_prob': -2.5})\n"
        "browser = wb.browse(items, annotations, predictions)\nbrowser",
    )

    def look(name):
        for theme in notebook.themes():
            assert page.evaluate(CONTRAST) == []
            notebook.screenshot(f"browser-cbt-{theme.split()[-1].lower()}{name}", ".wb-browser")

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
    look("")
    page.locator(".wb-facet", has_text="Passage length").click()
    page.wait_for_selector(".wb-bar")
    look("-range")
    page.locator(".wb-facet", has_text="Word class").click()
    page.wait_for_selector(".wb-chip")
    page.locator(".wb-chip").first.click()
    page.wait_for_selector(".wb-chip[aria-pressed=true]")
    look("-chips")
    page.keyboard.press("Escape")
    notebook.narrow(".wb-browser", 950)
    look("-700")
    assert page.evaluate(CLIPPED) == []


def test_shades_are_read_by_key_and_under_the_pointer(show, notebook):
    page = show(
        "shades",
        f"{IMPORT}\nfrom workbench.models import NGram",
        "ngram = NGram.fit(wb.books('sample', 'train'), order=2, progress=False)\n"
        "cached = ngram.cached(0.3)\n"
        "few = wb.load('sample', variant='capitalised')[:3]\nparts = wb.influence(cached, few, 'word')\n"
        "parts['influence'] = [k % 7 / 2 - 1 for k in range(len(parts))]\n"
        "words = wb.surprisal(cached, few, against=ngram, top_k=5)\n"
        "names = {'cached': words.drop(columns='difference'), 'cached less plain': words}",
        "shaded = wb.browse(few, influence=parts, surprisal=names)\nshaded",
    )

    def look(name):
        for theme in notebook.themes():
            assert page.evaluate(CONTRAST) == []
            notebook.screenshot(f"browser-shades-{theme.split()[-1].lower()}{name}", ".wb-browser")

    page.wait_for_selector(".wb-browser[data-waits=''] .wb-list")
    assert page.locator(".wb-passage .wb-weighed").count() == 0, "they are shown with the target"
    page.locator(".wb-list").focus()
    page.keyboard.press(" ")
    page.wait_for_selector(".wb-passage .wb-weighed >> nth=30")
    values = notebook.evaluate("print(parts.influence[parts.item_id == few[0].item_id].tolist())")
    n_below = sum(float(value) < 0 for value in values.strip("[]").split(", "))
    assert n_below > 0
    assert page.locator(".wb-passage :is(.wb-context, .wb-query) .wb-against").count() == n_below
    assert "against the answer" in page.locator(".wb-shades").inner_text()
    tip = page.locator(".wb-tip")
    assert tip.is_hidden()
    page.locator(".wb-weighed[tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    first, second = notebook.evaluate("print(*parts.influence[:2])").split()
    assert f"influence {float(second):+.2f} nats".replace("-", "\u2212") in tip.inner_text()
    assert "words before the answer" in tip.inner_text()
    focused = page.evaluate("document.activeElement.getAttribute('aria-describedby')")
    assert focused == tip.get_attribute("id")
    page.keyboard.press("ArrowLeft")
    assert f"influence {float(first):+.2f} nats".replace("-", "\u2212") in tip.inner_text()
    look("-influence")
    page.keyboard.press("Escape")
    assert tip.is_hidden()
    page.locator(".wb-look").select_option("ssurprisal: cached")
    page.wait_for_selector(".wb-shades:has-text('bits')")
    page.locator(".wb-context .wb-weighed").nth(12).hover()
    best = notebook.evaluate("print(words.top_words[12][0])")
    assert f"\n{best}\u00a0" in tip.inner_text()
    look("-surprisal")
    page.locator(".wb-look").select_option("sdifference in surprisal: cached less plain")
    page.wait_for_selector(".wb-shades:has-text('second')")
    page.locator(".wb-context .wb-weighed").nth(12).hover()
    assert "second model: " in tip.inner_text()
    assert page.evaluate(CLIPPED) == []
    look("-difference")
    assert notebook.evaluate("print(shaded.state['shade'])") == "difference in surprisal: cached less plain"
    notebook.narrow(".wb-browser", 950)
    page.locator(".wb-context .wb-weighed").nth(3).hover()
    look("-700")
    assert page.evaluate(CLIPPED) == []


def test_roles_and_focus(show):
    page = show("roles", IMPORT, SAMPLE, SHOW)
    tree = page.locator(".wb-browser").aria_snapshot()
    for role in [
        'searchbox "Search items"',
        'listbox "Items"',
        'combobox "Filter by a condition"',
        "option",
        "status",
    ]:
        assert role in tree
    assert "Hidden target" in tree
    listbox = page.locator(".wb-list")
    listbox.focus()
    page.keyboard.press("j")
    selected = page.locator("[role=option][aria-selected=true]")
    assert listbox.get_attribute("aria-activedescendant") == selected.get_attribute("id")
    assert selected.get_attribute("aria-posinset") == "2"
    for selector in [".wb-list", ".wb-search", ".wb-facet", ".wb-blank"]:
        page.keyboard.press("Tab")
        page.locator(selector).first.focus()
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid", selector
