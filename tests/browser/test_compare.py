"""Models side by side, driven as a reader drives it: a matrix and bars above, items and a passage below."""

import pandas as pd
import pyarrow.parquet as pq
import pytest
from looks import CLIPPED, CONTRAST
from random_predictions import annotated, predicted

import workbench as wb
from workbench.predictions import schema
from workbench.widgets.compare.view import short_labels

pytestmark = pytest.mark.browser

READ = (
    "import pandas as pd, pyarrow.parquet as pq, workbench as wb\nfrom workbench.predictions import schema\n"
    "from workbench.widgets.compare.compare import compare\nitems = wb.Items.from_parquet('items.parquet')\n"
    "frames = schema.from_table(pq.read_table('models.parquet'))\n"
    "table = pd.read_parquet('annotations.parquet')"
)
SHOW = (
    "parts = pd.DataFrame([(i.item_id, a, b, 9, 0.5 - k) for i in items for k, (a, b) in"
    " enumerate(i.sentences[:-1])], columns=['item_id', 'start', 'end', 'distance', 'influence'])\n"
    "widget = compare(items, frames, table, resamples=200, influence=parts,"
    " state={'shade': ''})\nwidget"
)
LABELS = [f"model {k}" for k in range(4)]
HOSTILE = [
    "<img src=x onerror='window.hacked=1'>", "'\"</style><script>window.hacked=1</script>",
    "\u202eHebrew עם old", "averyveryverylongnamewithoutanyspaces" * 6,
]  # fmt: skip


@pytest.fixture
def shown(lab, opened, notebook):
    """Open a notebook that compares models."""

    def run(name, items, frames):
        items.to_parquet(lab.folder / "items.parquet")
        table = schema.to_table(pd.concat(frames, ignore_index=True))
        pq.write_table(table, lab.folder / "models.parquet")
        annotated(items).to_parquet(lab.folder / "annotations.parquet")
        notebook.page.set_viewport_size({"width": 1400, "height": 1080})
        return opened(f"compare-{name}", READ, SHOW, shows=".wb-row .wc-mark")

    return run


def wait_count(page, n, total):
    page.wait_for_selector(f".wc-compare[data-waits=''] .wb-count:text-is('{n} of {total}')")


def listed(page):
    """Scroll through the list and return the ids in it, in order."""
    return page.evaluate(
        """async () => {
            const list = document.querySelector('.wb-list'), found = new Map();
            const total = () => Number(document.querySelector('.wb-row')?.getAttribute('aria-setsize') ?? 0);
            for (let turn = 0; turn < 1500 && found.size < total(); turn += 1) {
                for (const row of list.querySelectorAll('.wb-row[aria-label]')) {
                    const id = row.getAttribute('aria-label').split(':')[0];
                    found.set(Number(row.getAttribute('aria-posinset')), id);
                }
                const missing = [...Array(total()).keys()].findIndex((i) => !found.has(i + 1));
                list.scrollTop = 44 * Math.max(0, missing - 2);
                await new Promise((done) => setTimeout(done, 30));
            }
            list.scrollTop = 0;
            return [...found].sort((a, b) => a[0] - b[0]).map(([, id]) => id);
        }"""
    )


def test_exactly_the_right_items_by_mouse_by_key_and_from_python(shown, notebook):
    items = wb.load("sample", variant="capitalised")
    frames = predicted(items, 4)
    right = pd.DataFrame({label: f["correct"].astype(bool) for label, f in zip(LABELS, frames, strict=True)})
    page = shown("story", items, frames)
    wait_count(page, len(items), len(items))
    cells_and_bars(page, notebook, items, right)
    orders(page, items, right, frames)
    keys(page, notebook, items, right)
    typed_filters(page, notebook, items, right)
    baseline(page, notebook, items, right)
    help_and_copies(page, notebook)
    brushing(page, notebook, items, frames)
    passage(page, notebook, items, right, frames)
    from_python(page, notebook, items)


def cells_and_bars(page, notebook, items, right):
    ids, total, table = items.frame["item_id"], len(items), annotated(items)
    selected = "widget.selection.frame.item_id.tolist()"
    cell = page.locator("[data-pair=DA]")
    cell.click()
    pair = right["model 3"] & ~right["model 0"]
    wait_count(page, pair.sum(), total)
    assert listed(page) == ids[pair].tolist() == notebook.value(selected)
    assert cell.get_attribute("aria-selected") == "true"
    assert f"D right, A wrong: {pair.sum()} items" in page.locator(".wc-about").inner_text()
    page.locator(".wc-column").select_option("target_class")
    group = page.locator("[data-key='PN']")
    names = table["target_class"] == "PN"
    assert group.locator(".wc-group-n").inner_text() == str(names.sum())
    group.click()
    wait_count(page, (pair & names).sum(), total)
    assert listed(page) == ids[pair & names].tolist() == notebook.value(selected)
    notebook.screenshot("compare-chosen", ".wc-body")
    page.locator("[data-key='V']").click(modifiers=["Control"])
    both = table["target_class"].isin(["PN", "V"])
    wait_count(page, (pair & both).sum(), total)
    cell.click()
    wait_count(page, both.sum(), total)
    page.locator(".wc-clear").click()
    wait_count(page, total, total)
    warnings = page.locator(".wc-strip:visible, .wc-compare [hidden]:visible")
    assert warnings.count() == 0, "nothing to warn of"
    numbers = page.locator(".wc-numbers tbody tr").nth(1)
    best = right[LABELS].mean().sort_values(ascending=False, kind="stable").index[:2]
    first, second = (right[label] for label in best)  # they are shown where no pair is chosen
    for outcome, cell in {"both right": first & second, "both wrong": ~first & ~second}.items():
        page.locator(f"[data-outcome='{outcome}']").focus()
        page.keyboard.press("Enter")
        wait_count(page, cell.sum(), total)
        assert listed(page) == ids[cell].tolist() == notebook.value(selected)
        assert "by outcome" in numbers.inner_text()
    page.locator(".wc-clear").click()
    group.click()
    wait_count(page, names.sum(), total)
    shares = [f"{100 * right[label][names].mean():.1f} %" for label in best]
    found = numbers.locator("td").all_inner_texts()
    assert [*found[:3], found[-1]] == [str(names.sum()), *shares, "exploratory"]
    assert notebook.value("widget.state['facets']") == {"target_class": ["PN"]}
    assert page.locator(".wb-line").input_value() == ""
    notebook.screenshot("compare-slice", ".wc-body")
    page.locator(".wc-clear").click()
    wait_count(page, total, total)


def orders(page, items, right, frames):
    ids = items.frame["item_id"]
    wrong = (~right).all(axis=1)
    page.locator(".wb-sort").select_option("all wrong")
    page.wait_for_selector(".wb-list[data-sorted='all wrong']")
    assert listed(page)[: wrong.sum()] == ids[wrong].tolist()
    page.locator(".wb-sort").select_option("difference")
    page.wait_for_selector(".wc-against >> nth=0")
    page.locator(".wc-against").nth(0).select_option("model 0")
    page.locator(".wc-against").nth(1).select_option("model 3")
    page.wait_for_selector(".wb-list[data-sorted='difference AD']")
    apart = frames[0]["log_prob"] - frames[3]["log_prob"]
    assert listed(page) == ids[apart.sort_values(ascending=False, kind="stable").index].tolist()


def keys(page, notebook, items, right):
    ids, total = items.frame["item_id"], len(items)
    cells = page.locator(".jp-Cell").count()
    page.locator("[data-pair=AB]").click()
    wait_count(page, (right["model 0"] & ~right["model 1"]).sum(), total)
    page.keyboard.press("ArrowDown")  # from A-B over the diagonal
    assert page.evaluate("document.activeElement.dataset.pair") == "CB"
    page.keyboard.press("Enter")
    wait_count(page, (right["model 2"] & ~right["model 1"]).sum(), total)
    page.keyboard.press("Escape")
    wait_count(page, total, total)
    page.locator(".wb-sort").select_option("")
    page.wait_for_selector(".wb-list[data-sorted='']")
    page.locator(".wb-list").focus()
    for key in ["End", "Home", "j", "j", "ArrowDown", "k", "d", "d"]:
        page.keyboard.press(key)
    page.wait_for_selector(f".wb-meta:has-text('{ids[2]}')")
    assert page.locator(".jp-Cell").count() == cells
    page.wait_for_selector(".wc-compare[data-waits='']")
    assert notebook.value("widget.current_id") == ids[2]


def typed_filters(page, notebook, items, right):
    total, line = len(items), page.locator(".wb-line")
    page.locator(".wb-list").focus()
    page.keyboard.press("f")
    line.press_sequentially("target_cl")
    page.wait_for_selector("datalist option[value=target_class]", state="attached")
    line.fill("target_class = 'PN' and \"model 0: correct\"")
    line.press("Enter")
    names = (annotated(items)["target_class"] == "PN").to_numpy(dtype=bool, na_value=False)
    wait_count(page, (names & right["model 0"]).sum(), total)
    line.fill("target_klass = 'PN'")
    line.press("Enter")
    page.wait_for_selector(".wb-alarm:has-text('target_class')")
    assert "still that of the last valid filter." in page.locator(".wb-alarm").inner_text()
    assert page.locator(".wb-alarm").inner_text().endswith("\ntarget_klass = 'PN'\n^^^^^^^^^^^^")
    page.locator(".wc-compare").evaluate("(node) => { node.style.width = '560px'; }")
    high, room = page.locator(".wb-alarm").evaluate("(node) => [node.scrollHeight, node.clientHeight]")
    assert high <= room  # the whole text
    page.locator(".wc-compare").evaluate("(node) => { node.style.width = ''; }")
    wait_count(page, (names & right["model 0"]).sum(), total)
    notebook.screenshot("compare-error", ".wc-body")
    line.press("Escape")
    wait_count(page, total, total)
    assert page.locator(".wb-alarm").is_hidden()


def baseline(page, notebook, items, right):
    ids, total, selected = items.frame["item_id"], len(items), "widget.selection.frame.item_id.tolist()"
    page.get_by_label("Baseline").select_option("model 3")
    table = page.get_by_role("table", name="Differences in accuracy from D, model 3")
    table.wait_for()
    assert page.get_by_role("grid", name="Differences in accuracy").is_hidden()
    names = table.locator("tbody .wc-name").all_inner_texts()
    assert names == ["model 0", "model 1", "model 2"]
    flips = {"improvements": right["model 1"] & ~right["model 3"]}
    flips["regressions"] = right["model 3"] & ~right["model 1"]
    for word, wanted in flips.items():
        button = table.get_by_role("button", name=f"{wanted.sum()} {word} of B, model 1")
        button.click()
        wait_count(page, wanted.sum(), total)
        assert listed(page) == ids[wanted].tolist() == notebook.value(selected)
        assert button.get_attribute("aria-pressed") == "true"
    facets = {"model 3: correct": [True], "model 1: correct": [False]}
    assert notebook.value("widget.state['facets']") == facets
    assert "'baseline': 'model 3'" in notebook.value("widget.code")
    button.press("Enter")  # once more: all items
    wait_count(page, total, total)
    assert button.evaluate("(node) => node === document.activeElement")
    button.click()
    wait_count(page, wanted.sum(), total)
    assert page.evaluate(CLIPS) == []
    assert page.evaluate(CONTRAST.replace(".wb-browser *", ".wc-compare *")) == []
    notebook.screenshot("compare-baseline", ".wc-body")
    page.locator(".wc-clear").click()
    page.get_by_label("Baseline").select_option("")
    page.wait_for_selector("[data-pair=DA]")
    wait_count(page, total, total)


def help_and_copies(page, notebook):
    keys = page.locator(".wc-keys")
    focused = ".wb-list .wb-sort .wb-passage [data-pair=AB] .wc-group .wc-clear"
    for selector in [".wc-models input", *focused.split()]:
        page.locator(selector).first.focus()
        page.keyboard.press("?")
        keys.wait_for()
        page.keyboard.press("Escape")
        keys.wait_for(state="hidden")
    page.locator(".wc-text").click()  # no control
    page.keyboard.press("?")
    keys.wait_for()
    box, button = keys.bounding_box(), page.locator(".wc-ask-keys").bounding_box()
    assert abs(box["x"] + box["width"] - button["x"] - button["width"]) < 2, "beside its button"
    notebook.screenshot("compare-keys", ".wc-body")
    page.keyboard.press("Escape")
    wrong = {"model 1: correct": [False], "model 0: correct": [False]}
    notebook.evaluate(f"widget.state = {{'facets': {wrong}}}")
    page.wait_for_selector(".wb-choice:has-text('both wrong')")
    for label, text in [
        ("Copy this view", notebook.value("widget.code")),
        ("Ask about this", "wb.ask(models, items["),
    ]:
        page.get_by_role("button", name=label).click()
        page.wait_for_selector("[data-done=copied]")
        assert page.evaluate("navigator.clipboard.readText()").startswith(text)
    page.locator(".wc-clear").click()
    page.wait_for_selector(".wc-clear:disabled")


def brushing(page, notebook, items, frames):
    page.get_by_role("button", name="Scatter of ln p").click()
    page.wait_for_selector(".wc-scatter > .wc-point")
    assert page.locator(".wc-scatter > .wc-point").count() == len(items)
    box = page.locator(".wc-frame").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.1)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + box["height"] * 0.9, steps=3)
    page.mouse.up()
    page.wait_for_selector(".wb-choice:has-text('ln p by') >> nth=1")
    page.wait_for_selector(".wc-compare[data-waits='']")
    notebook.screenshot("compare-scatter", ".wc-body")
    one, other = frames[3]["log_prob"], frames[1]["log_prob"]  # of the two best that have them
    low = min(one.min(), other.min()) // 1
    ends = [end for facet in notebook.value("[*widget.state['facets'].values()]") for end in facet]
    assert ends == pytest.approx([part * low for part in (0.5, 0.1, 0.9, 0.1)], abs=-0.01 * low)
    inside = one.between(*ends[:2]) & other.between(*ends[2:])
    assert notebook.value("len(widget.selection)") == inside.sum()
    assert page.locator(".wc-scatter > .wc-point").count() == len(items), "the points stay"
    page.get_by_role("button", name="Scatter of ln p").click()
    page.locator(".wc-clear").click()
    page.wait_for_selector(".wc-clear:disabled")


def passage(page, notebook, items, right, frames):
    ids = items.frame["item_id"]
    place = int((right["model 1"]).argmax())
    notebook.evaluate(f"widget.current = widget.comparison.items[{place}]")
    page.wait_for_selector(f".wb-meta:has-text('{ids[place]}')")
    answer = items[place].answer
    assert page.locator(".wc-target").inner_text() == answer
    card = page.locator(".wc-card").nth(1)
    assert card.locator("li.wc-answer bdi").inner_text() == answer
    assert "right" in card.locator(".wc-verdict").inner_text()
    words = card.locator("li bdi").all_inner_texts()
    assert words == list(frames[1]["top_words"][place])
    assert "scores, not probabilities" in page.locator(".wc-card").nth(2).inner_text()
    page.locator(".wb-look").select_option("amodel 1")
    page.wait_for_selector(".wc-text .wb-weighed >> nth=20")
    page.locator(".wb-look").select_option("sinfluence")
    page.wait_for_selector(".wb-shades:has-text('speaks against it')")
    assert page.locator(".wc-text .wb-against").count() > 0
    page.locator(".wc-text .wb-weighed").first.hover()
    assert "9 words before the answer" in page.locator(".wb-tip").inner_text()
    assert notebook.value("widget.state['shade']") == "influence"
    notebook.screenshot("compare-influence", ".wc-body")


def from_python(page, notebook, items):
    total = len(items)
    notebook.evaluate("widget.state = {'hidden': ['model 1'], 'search': 'the', 'sort': 'all right'}")
    text = items.frame["text"].str.contains("the", case=False)
    wait_count(page, text.sum(), total)
    assert page.locator(".wb-search").input_value() == "the"
    assert page.locator(".wc-card").count() == 3
    assert not page.locator(".wc-models input").nth(1).is_checked()
    notebook.evaluate("widget.comparison.slices = None")  # a fault in the kernel
    page.locator(".wc-column").select_option("direct_speech")
    page.wait_for_selector(".wb-alarm:has-text('not callable')")
    notebook.evaluate("del widget.comparison.slices")
    page.locator(".wb-search").fill("zzzz")
    wait_count(page, 0, total)
    for part in (".wb-list", ".wc-groups"):
        told = page.locator(f"{part} .wb-empty").inner_text()
        assert told == "No items match. Remove a filter, or press Clear."
    assert page.locator(".wc-axis span, .wc-group").count() == 0
    assert page.locator(".wb-alarm").is_hidden()
    notebook.screenshot("compare-empty", ".wc-body")
    page.get_by_role("combobox", name="Slice by").wait_for()


SCROLLS = ".wc-scroll, .wc-models, .wc-numbers, .wb-chosen-words, .wc-groups, .wb-list"
CLIPS = CLIPPED.replace(".wb-browser", ".wc-body").replace(".wb-list", SCROLLS)
LAYOUT = """() => [...document.querySelectorAll('.wc-body > *, .wc-top > *, .wc-main > *, .wb-list')]
    .map((n) => [n.className, n.getBoundingClientRect()])
    .map(([name, r]) => [name, r.left, r.top, r.width, r.height])"""


def test_twenty_models_hostile_text_both_themes_and_700_pixels(shown, notebook):
    texts = [
        "<img src=x onerror='window.hacked=1'> she said to <b>Ann</b>",
        "</textarea></style> $x^2$ of all </div>",
        "שלום עולם she said in the language of her \u202eold home",
        "x" * 900 + " and then the end",
    ]  # fmt: skip
    items = wb.Items.concat(
        [wb.items_from_text(texts, tokenised=False), wb.load("sample", variant="capitalised")[:60]]
    )
    names = HOSTILE + [f"model {k} of a long family of models" for k in range(16)]
    page = shown("many", items, predicted(items, 20, names=names, scores=(2,), attentive=(1,)))
    inside = page.locator(".wc-body")
    for number, text in enumerate(texts):
        page.locator(".wb-row").nth(number).click()
        page.wait_for_selector(f".wb-meta:has-text('{items[number].item_id}')")
        assert "".join(page.locator(".wc-text").text_content().split()) == "".join(text.split())
        assert page.evaluate(CLIPS) == []
    notebook.screenshot("compare-hostile", ".wc-body")
    assert page.locator(".wc-models bdi").all_text_contents() == short_labels(names)
    assert inside.locator("script, img, style, mjx-container").count() == 0
    assert page.evaluate("window.hacked") is None
    assert page.locator(".wc-cell").count() == 380

    page.locator("[data-pair=TA]").scroll_into_view_if_needed()  # else the click scrolls the notebook
    before = page.evaluate(LAYOUT)
    page.locator("[data-pair=TA]").click()
    page.wait_for_selector(".wb-choice")
    page.locator(".wc-group").first.click()
    page.wait_for_selector(".wb-choice >> nth=1")
    assert page.evaluate(LAYOUT) == before, "the layout jumps"
    page.locator(".wb-look").select_option(f"a{names[1]}")
    for theme in notebook.themes():
        dark = theme.endswith("Dark")
        assert page.evaluate(CONTRAST.replace(".wb-browser *", ".wc-compare *")) == []
        notebook.screenshot(f"compare-{'dark' if dark else 'light'}", ".wc-body")
    notebook.narrow(".wc-body")
    assert page.evaluate(CLIPS) == []
    assert page.evaluate(CONTRAST.replace(".wb-browser *", ".wc-compare *")) == []
    notebook.screenshot("compare-700", ".wc-body")
    heights = {name: height for name, *_, height in page.evaluate(LAYOUT)}
    assert min(heights[name] for name in ("wb-list", "wb-passage", "wc-slices", "wc-models")) > 100
