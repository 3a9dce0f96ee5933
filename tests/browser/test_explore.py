"""The linked view, driven as a reader drives it: charts above, passages below."""

import pandas as pd
import pytest
from looks import CLIPPED, CONTRAST
from random_predictions import annotated

import workbench as wb

pytestmark = pytest.mark.browser

READ = (
    "import pandas as pd\nimport workbench as wb\nfrom workbench.widgets.explore.explore import explore\n"
    'items = wb.load("sample", variant="capitalised")\nannotations = pd.read_parquet("annotations.parquet")'
)
SHOW = "explorer = explore(items, annotations)\nexplorer"


@pytest.fixture(scope="module")
def table():
    return annotated(wb.load("sample", variant="capitalised"))


@pytest.fixture
def explored(lab, opened, table):
    """Open a notebook with the linked view over the sample."""

    def run(name, annotations=table, cell=SHOW):
        annotations.to_parquet(lab.folder / "annotations.parquet")
        return opened(f"explore-{name}", READ, cell, shows=".we-charts .we-bin")

    return run


def wait_count(page, text):
    """Wait until as many items are counted."""
    page.wait_for_selector(f".we-explore[data-waits=''] .we-charts .wb-count:text-is('{text}')")


def bar(page, chart, value):
    return page.locator(f"[data-chart={chart}] .we-row[data-value='{value}']")


def bins(page, chart):
    """Return the plot's box, and the first number and the width of its bins."""
    box = page.locator(f"[data-chart={chart}] .we-plot").bounding_box()
    drawn = page.locator(f"[data-chart={chart}] .we-bin")
    titles = [drawn.nth(place).get_attribute("title") for place in (0, 1)]
    first, second = (float(title.split(" ")[0].strip(":")) for title in titles)
    return box, drawn.count(), first, second - first


def drag(page, chart, start, end):
    """Drag from one bin to another; hovering waits until the page lies still."""
    plot = page.locator(f"[data-chart={chart}] .we-plot")
    plot.scroll_into_view_if_needed()
    box, n, _, _ = bins(page, chart)
    at = [{"x": box["width"] * (place + 0.5) / n, "y": 20 + 5 * i} for i, place in enumerate((start, end))]
    plot.hover(position=at[0])
    page.mouse.down()
    plot.hover(position=at[1])
    page.mouse.up()


def chosen(page):
    """Return the filters that are chosen, in words."""
    return page.locator(".wb-chosen .wb-facet-name").all_inner_texts()


def facets(notebook):
    return notebook.value("explorer.state['facets']")


def test_choices_by_mouse_and_key_are_told_combined_and_cleared(explored, notebook, table):
    page = explored("story")
    total, counted = len(table), table["target_class"].value_counts()
    look(page, notebook)
    bars(page, notebook, total, counted)
    ranges(page, notebook, table)
    combined(page, notebook, table)
    keys(page, total, counted)
    chips(page, notebook)


def clear(page, total):
    page.locator(".we-head > .wb-button", has_text="Clear").click()
    wait_count(page, f"{total} of {total}")


def bars(page, notebook, total, counted):
    bar(page, "target_class", "V").click()
    wait_count(page, f"{counted['V']} of {total}")
    assert (
        page.locator(".wb-status:visible").inner_text().startswith(f"{counted['V']} of {total} items shown (")
    )
    assert chosen(page) == ["Target class: verb"]
    bar(page, "target_class", "PN").click()
    wait_count(page, f"{counted['PN']} of {total}")
    bar(page, "target_class", "V").click(modifiers=["Control"])
    wait_count(page, f"{counted['PN'] + counted['V']} of {total}")
    assert facets(notebook) == {"target_class": ["PN", "V"]}
    bar(page, "target_class", "PN").click(modifiers=["Control"])
    wait_count(page, f"{counted['V']} of {total}")
    bar(page, "target_class", "V").click()
    wait_count(page, f"{total} of {total}")
    bar(page, "target_class", "V").dblclick()
    wait_count(page, f"{total} of {total}")  # it is cleared, and stays so
    assert facets(notebook) == {}


def ranges(page, notebook, table):
    _, _, first, width = bins(page, "mention_distance")
    low, high = int(first + 4 * width), int(first + 9 * width - 1)
    inside = table["mention_distance"].between(low, high).fillna(value=False)
    drag(page, "mention_distance", 4, 8)
    wait_count(page, f"{inside.sum()} of {len(table)}")
    assert facets(notebook) == {"mention_distance": [low, high]}
    assert chosen(page) == [f"Mention distance: {low} to {high} tokens"]
    left = page.locator("[data-chart=mention_distance] .we-bin:not(.we-off)")
    assert left.count() == 5

    handle = page.locator("[data-chart=mention_distance] [role=slider]").last
    handle.focus()
    page.keyboard.press("ArrowLeft")
    narrower = table["mention_distance"].between(low, high - width).sum()
    wait_count(page, f"{narrower} of {len(table)}")
    assert handle.get_attribute("aria-valuenow") == f"{high - width:.0f}"
    drag(page, "mention_distance", 8, 4)  # the other way round
    wait_count(page, f"{inside.sum()} of {len(table)}")
    page.keyboard.press("Escape")
    wait_count(page, f"{len(table)} of {len(table)}")

    drag(page, "n_tokens", 3, 3)  # a click
    _, _, first, width = bins(page, "n_tokens")
    one = table["n_tokens"].between(first + 3 * width, first + 4 * width - 1).sum()
    wait_count(page, f"{one} of {len(table)}")
    drag(page, "n_tokens", 3, 3)
    wait_count(page, f"{len(table)} of {len(table)}")


def combined(page, notebook, table):
    total = len(table)
    bar(page, "target_class", "PN").click()
    bar(page, "direct_speech", "false").click()
    both = table[(table["target_class"] == "PN") & ~table["direct_speech"]]
    wait_count(page, f"{len(both)} of {total}")
    known = both["lemma_in_context"]
    shown = [row.inner_text() for row in page.locator("[data-chart=lemma_in_context] .we-n").all()]
    assert shown == [str(known.sum()), str((~known).sum()), "0"]
    pale = page.locator("[data-chart=lemma_in_context] .we-row").first.get_attribute("title")
    assert f"{known.sum()} of {table['lemma_in_context'].sum()}" in pale
    assert chosen(page) == ["Target class: proper noun", "Direct speech: no"]
    page.get_by_role("button", name="Remove: Target class: proper noun").click()
    wait_count(page, f"{(~table['direct_speech']).sum()} of {total}")
    page.locator(".wb-search").fill("zzzz")
    wait_count(page, f"0 of {total}")
    assert "No items match" in page.locator(".we-head").inner_text()
    notebook.screenshot("explore-empty", ".we-explore")
    clear(page, total)
    assert page.locator(".wb-search").input_value() == ""
    assert page.locator(".we-head > .wb-button", has_text="Clear").is_disabled()


def keys(page, total, counted):
    cells = page.locator(".jp-Cell").count()
    bar(page, "target_class", "PN").focus()
    page.keyboard.press("Enter")
    wait_count(page, f"{counted['PN']} of {total}")
    page.keyboard.press("Tab")
    page.keyboard.press("Control+Space")
    wait_count(page, f"{counted['PN'] + counted['CN']} of {total}")
    for key in ["d", "d", "a", "x", "m"]:
        page.keyboard.press(key)
    assert page.locator(".jp-Cell").count() == cells
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Escape")
    wait_count(page, f"{total} of {total}")


def chips(page, notebook):
    bar(page, "direct_speech", "false").click()
    bar(page, "target_class", "CN").click()
    bar(page, "target_class", "PN").click(modifiers=["Control"])
    drag(page, "n_tokens", 2, 30)
    page.wait_for_selector(".wb-chosen >> nth=2")
    notebook.narrow(".we-charts")
    assert page.evaluate(WRAPPED) == []
    assert len(chosen(page)) == 3
    notebook.screenshot("explore-chips-700", ".we-explore")
    for root in (".wb-browser", ".we-charts"):
        assert page.evaluate(CLIPPED.replace(".wb-browser", root)) == []
    assert page.locator(".wb-row").count() > 4
    readable(page, notebook, "-700")


OWN = """annotations["my_score"] = [place * 0.01 if place % 7 else None for place in range(len(annotations))]
annotations["genre"] = (["sea", "war", "love"] * len(annotations))[: len(annotations)]
state = {"facets": {"n_tokens": [61, None]}}
explorer = explore(items, annotations, add_columns=["my_score", "genre"], state=state)
explorer"""
WRAPPED = """[...document.querySelectorAll('.wb-chosen .wb-facet-name')]
    .filter((n) => n.scrollWidth > n.clientWidth + 1 || n.scrollHeight > n.clientHeight + 1)
    .map((n) => n.textContent)"""


def test_columns_of_ones_own_missing_values_and_what_lies_beyond(explored, notebook, table):
    far = table.assign(n_tokens=[*range(50, 50 + len(table) - 1), 5000])
    page = explored("own", far, OWN)
    wait_count(page, f"{(far['n_tokens'] > 60).sum()} of {len(far)}")
    assert chosen(page) == ["Passage length: 61 or more tokens"]
    assert page.locator("[data-chart=n_tokens] .we-beyond").inner_text().startswith("≥ ")
    page.locator(".wb-remove").click()
    wait_count(page, f"{len(far)} of {len(far)}")
    rest = page.locator("[data-chart=mention_distance] .we-rest")
    none = far["mention_distance"].isna()
    assert rest.get_attribute("title") == f"no earlier mention: {none.sum()} of {none.sum()}"
    rest.click()
    wait_count(page, f"{none.sum()} of {len(far)}")
    assert facets(notebook) == {"mention_distance": [None]}
    assert chosen(page) == ["Mention distance: no earlier mention"]
    rest.focus()
    page.keyboard.press("Enter")
    wait_count(page, f"{len(far)} of {len(far)}")
    bar(page, "genre", "sea").click()
    sea = pd.Series(range(len(far))) % 3 == 0
    wait_count(page, f"{sea.sum()} of {len(far)}")
    drag(page, "my_score", 3, 6)
    page.wait_for_selector(".wb-chosen:has-text('my score:')")
    page.locator("[data-chart=my_score] .we-rest").click()
    wait_count(page, f"{(sea & (pd.Series(range(len(far))) % 7 == 0)).sum()} of {len(far)}")
    for theme in notebook.themes():
        notebook.screenshot(f"explore-own-{theme.split()[-1].lower()}", ".we-explore")
    notebook.narrow(".we-charts", 2200)
    notebook.screenshot("explore-own-700", ".we-explore")


FAINT = """() => {
    const paint = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const light = (n, name) => {
        paint.fillStyle = getComputedStyle(n)[name]; paint.fillRect(0, 0, 1, 1);
        return [...paint.getImageData(0, 0, 1, 1).data].slice(0, 3)
            .map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
            .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    };
    const ground = light(document.querySelector('.we-charts'), 'backgroundColor');
    return [...document.querySelectorAll('.we-row .we-left, .we-bin .we-left')].map((n) => {
        const [a, b] = [ground, light(n, 'backgroundColor')].sort((x, y) => y - x);
        return (a + 0.05) / (b + 0.05);
    }).filter((ratio) => ratio < 3);
}"""
INNER = (
    "[...document.querySelectorAll('.we-charts, .wb-browser')].map((n) => n.getBoundingClientRect().height)"
)
CUT = """[...document.querySelectorAll('.we-title, .we-label, .we-note, .we-n')]
    .filter((n) => n.scrollWidth > n.clientWidth + 1).map((n) => n.textContent)"""
SCROLLS = """[...document.querySelectorAll('.we-body, .we-explore')]
    .filter((n) => n.scrollHeight > n.clientHeight + 1).map((n) => n.className)"""


def readable(page, notebook, name):
    contrast = CONTRAST.replace(".wb-browser *", ".we-charts *, .wb-browser *")
    for theme in notebook.themes():
        assert [page.evaluate(code) for code in (contrast, FAINT, CUT, SCROLLS)] == [[]] * 4
        notebook.screenshot(f"explore-{theme.split()[-1].lower()}{name}", ".we-explore")


def look(page, notebook):
    page.set_viewport_size({"width": 1400, "height": 1120})
    before = page.evaluate(INNER)
    bar(page, "target_class", "CN").click()
    page.wait_for_selector(".wb-chosen:has-text('common noun')")
    drag(page, "mention_distance", 5, 11)
    page.wait_for_selector(".wb-chosen:has-text('Mention distance: 35 to 69 tokens')")
    page.wait_for_selector(".we-explore[data-waits='']")  # the last answer to the drag hides the target again
    page.locator(".wb-list").focus()
    page.keyboard.press(" ")
    page.wait_for_selector(".wb-passage .wb-m")
    readable(page, notebook, "")
    assert page.evaluate(INNER) == before, "the layout jumps"
    page.locator(".we-head > .wb-button", has_text="Clear").click()
    page.wait_for_selector(".we-head > .wb-button:disabled")
