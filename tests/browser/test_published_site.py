"""Published pages in a real Chromium, from files and without a network: facets, search, order, links."""

import json
import shutil

import altair as alt
import numpy as np
import pandas as pd
import pytest
from accessible import THEMES, unseen_focus, violations
from adversarial_text import PAGES, RUN, STRINGS
from attentive import Windows
from looks import CONTRAST
from random_predictions import annotated, predicted

import workbench as wb

pytestmark = pytest.mark.browser

ITEMS = wb.load("sample", variant="capitalised")[:80]
FRAMES = predicted(ITEMS, 3)
TABLE = annotated(ITEMS).assign(
    genre=[["a", "B"], [], ["ß"], None] * 20,
    weight=[0.5, np.nan, -np.inf, 1e-7] * 20,
    word=["ß", "É x", None, "1"] * 20,
)
READY = ":is(#wp-view[data-ready], .wb-chart[data-ready])"
LISTED = ".wp-table[aria-label=Items] tbody th"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Publish one view of every kind, and move the folder."""
    base = tmp_path_factory.mktemp("site")
    chart = alt.Chart(pd.DataFrame({"a": ["x", "y"], "b": [1, 2]})).mark_bar().encode(x="a", y="b")
    views = {
        "Passages": wb.browse(ITEMS, TABLE, FRAMES), "Charts above": wb.explore(ITEMS, TABLE),
        "Models": wb.compare(ITEMS, FRAMES, TABLE, resamples=50),
        "Weights": wb.attention([Windows(), Windows("other")], ITEMS[:5]),
        "Table": TABLE.drop(columns=["mentions", "speech"]), "Figure": chart,
    }  # fmt: skip
    wb.publish(base / "made", views, title="Our <views>")
    (base / "elsewhere").mkdir()
    shutil.move(base / "made", base / "elsewhere" / "a folder #1")
    return base / "elsewhere" / "a folder #1"


@pytest.fixture
def visit(chromium):
    """Open pages without a network; what they ask for, or complain about, fails the test."""
    events = []
    context = chromium.new_context(viewport={"width": 1300, "height": 900}, offline=True)

    def opened(address, ready=READY, before="", **media):
        page = context.new_page()
        page.emulate_media(**media)
        if before:
            page.add_init_script(before)
        page.on("dialog", lambda dialog: (events.append("dialog"), dialog.dismiss()))
        page.on(
            "request",
            lambda request: events.append(request.url) if not request.is_navigation_request() else None,
        )
        page.on("console", lambda message: events.append(message.text))
        page.on("pageerror", lambda error: events.append(str(error)))
        page.goto(address)
        if ready:
            page.wait_for_selector(ready)
        return page

    yield opened
    context.close()
    assert [event for event in events if not event.startswith("WARN ")] == []


def listed(page):
    return page.locator(LISTED).all_inner_texts()


def facet(page, name):
    """Return an open facet by its heading."""
    further = page.locator(".wp-further:not([open]) > summary")
    if further.count():
        further.click()
    found = page.locator(".wp-facet").filter(has=page.locator("summary", has_text=name)).first
    if found.get_attribute("open") is None:
        found.locator("summary").click()
    found.locator(".wp-bin small:not(:empty)").first.wait_for()
    return found


def choose(page, name, label):
    facet(page, name).locator(".wp-bin").filter(has=page.get_by_text(label, exact=True)).click()


def shown(page):
    """Return what a reader sees of the view, the search included."""
    return page.locator("#wp-view").inner_text(), page.locator("input").input_value()


def ids(mask):
    return ITEMS.frame["item_id"][np.asarray(mask, dtype=bool)].tolist()


def test_facets_search_and_order_list_what_pandas_does(site, visit):
    page = visit((site / "passages.html").as_uri())
    everything = shown(page)
    mask = (TABLE["target_class"] == "PN").to_numpy()
    choose(page, "Target class", "proper noun")
    assert listed(page) == ids(mask)
    choose(page, "Target class", "common noun")
    mask = TABLE["target_class"].isin(["PN", "CN"]).to_numpy()
    assert listed(page) == ids(mask)
    choose(page, "Direct speech", "yes")
    mask = mask & TABLE["direct_speech"].astype(bool).to_numpy()
    assert listed(page) == ids(mask)
    page.locator("input").fill("The")
    mask = mask & ITEMS.frame["text"].str.contains("the", case=False).to_numpy()
    assert listed(page) == ids(mask)
    assert page.get_by_role("status").inner_text() == f"{mask.sum()} of 80 items shown"
    assert page.locator(".wp-passage mark").count() > 0
    view, link = shown(page), page.url
    again = visit(link)
    facet(again, "Target class")
    facet(again, "Direct speech")
    assert shown(again) == view
    page.locator(".wp-chips button", has_text="Clear").click()
    assert shown(page)[1] == ""
    assert listed(page) == ids(np.ones(80))
    page.evaluate("history.back()")
    page.wait_for_function("() => document.querySelector('input').value === 'The'")
    assert listed(page) == ids(mask)
    fresh = visit((site / "passages.html").as_uri())
    assert shown(fresh) == everything
    assert "#" not in fresh.url


def test_a_page_opens_as_the_view_is(visit, tmp_path):
    state = {"facets": {"target_class": ["PN"], "n_tokens": [60, None]}, "search": "the", "sort": "-n_tokens"}
    browser = wb.browse(ITEMS, TABLE, state=state)
    compared = wb.compare(ITEMS, FRAMES, TABLE, resamples=20, state={"where": '"model 0: rank" < 500'})
    folder = wb.publish(tmp_path / "site", {"Browser": browser, "Compared": compared}).parent
    page = visit((folder / "browser.html").as_uri())
    assert listed(page) == browser.selection.frame["item_id"].tolist()
    assert "#" not in page.url
    page.locator(".wp-chips button", has_text="Clear").click()
    assert sorted(listed(page)) == ids(np.ones(80))
    page = visit((folder / "compared.html").as_uri())
    assert listed(page) == compared.selection.frame["item_id"].tolist()
    assert '"model 0: rank" < 500' in page.locator(".wp-note").inner_text()


def test_the_numbers_of_a_facet_are_those_of_the_kernel(site, visit):
    page = visit((site / "charts-above.html").as_uri())
    widget = wb.explore(ITEMS, TABLE)
    for changes in ({}, {"direct_speech": "yes"}):
        for name, label in changes.items():
            choose(page, wb.render.labels.label(name), label)
            widget.state = {"facets": {name: [True]}}
        for name, heading in (
            ("target_class", "Target class"),
            ("n_tokens", "Passage length"),
            ("genre", "genre"),
        ):
            described = widget._listing.describe(name)
            rows = [*described["bins"], *([described["null"]] if described["null"] else [])]
            texts = facet(page, heading).locator(".wp-bin").all_inner_texts()
            assert [text.split("\n") for text in texts] == [
                [row[1], f"{row[-1]:,} of {row[-2]:,}"] for row in rows
            ]
    widget.close()


def test_a_range_grows_to_another_bin_and_shrinks_to_one_of_its_own(site, visit):
    page = visit((site / "charts-above.html").as_uri())
    bins = facet(page, "Passage length").locator(".wp-bin")
    labels = bins.locator("span").all_inner_texts()
    lengths = TABLE["n_tokens"]
    first, last = int(labels[2].split(" ")[0]), int(labels[5].split(" ")[-1])
    bins.nth(2).click()
    assert listed(page) == ids(lengths.between(first, int(labels[2].split(" ")[-1])))
    bins.nth(5).click()
    assert listed(page) == ids(lengths.between(first, last))
    assert bins.evaluate_all("(all) => all.map((each) => each.ariaPressed)")[:7] == [
        *["false"] * 2, *["true"] * 4, "false",
    ]  # fmt: skip
    assert json.loads(page.evaluate("new URLSearchParams(location.hash.slice(1)).get('facets')")) == {
        "n_tokens": [first, last]
    }
    bins.nth(3).click()
    bins.nth(3).click()
    assert listed(page) == ids(np.ones(80))


def test_a_cell_lists_what_one_model_has_right_and_the_other_wrong(site, visit):
    page = visit((site / "models.html").as_uri())
    right = [frame["correct"].to_numpy(dtype=bool) for frame in FRAMES]
    cell = page.locator(".wp-matrix tbody tr").nth(2).locator("td").nth(0).locator("button")
    cell.click()
    assert listed(page) == ids(right[2] & ~right[0])
    assert cell.get_attribute("aria-pressed") == "true"
    assert cell.get_attribute("title").startswith("model 2 right, model 0 wrong: ")
    assert listed(visit(page.url)) == listed(page)
    cell.click()
    assert listed(page) == ids(np.ones(80))
    choose(page, "model 1: correct", "yes")
    assert listed(page) == ids(right[1])
    item = page.locator(".wp-item")
    first = int(np.flatnonzero(right[1])[0])
    assert f"✓ {FRAMES[1]['prediction'][first]}" in item.inner_text()
    assert ITEMS[first].answer in item.locator("b").inner_text()


def test_a_table_is_searched_filtered_and_sorted_and_a_link_keeps_that(site, visit):
    page = visit((site / "table.html").as_uri())
    choose(page, "Target class", "common noun")
    for _ in range(2):
        page.locator("[data-name=n_tokens] button").click()
    expected = TABLE[TABLE["target_class"] == "CN"].sort_values("n_tokens", ascending=False, kind="stable")
    first = "tbody tr td:first-child"
    assert page.locator(first).all_inner_texts() == expected["item_id"].tolist()
    again = visit(page.url)
    assert again.locator(first).all_inner_texts() == expected["item_id"].tolist()
    assert again.locator("th[aria-sort=descending]").count() == 1
    again.locator("[data-name=n_tokens] button").click()
    again.locator("input").fill("É X")
    words = TABLE[(TABLE["target_class"] == "CN") & (TABLE["word"] == "É x")]
    assert again.locator(first).all_inner_texts() == words["item_id"].tolist()
    again.locator("[data-name=word] button").click()
    again.locator(".wp-chips button", has_text="Clear").click()
    known = TABLE.dropna(subset="word")
    assert again.locator(first).all_inner_texts()[: len(known)] == (
        known.sort_values("word", key=lambda column: column.str.casefold(), kind="stable")["item_id"].tolist()
    )


def test_a_target_is_hidden_until_it_is_asked_for(site, visit):
    page = visit((site / "passages.html").as_uri())
    hidden = page.locator("#wp-view")
    assert f"the {ITEMS[0].answer}" not in hidden.inner_text()
    page.get_by_role("button", name="Show the target").click()
    assert page.locator(".wp-text b").inner_text() == ITEMS[0].answer
    page.get_by_role("button", name="Show targets").click()
    assert "model 0" in page.locator(".wp-item").inner_text()
    assert FRAMES[0]["prediction"][0] in page.locator(".wp-item").inner_text()


def test_items_are_reached_by_keys_and_the_link_names_them(site, visit):
    page = visit((site / "passages.html").as_uri())
    page.get_by_role("region", name="Items").focus()
    for key in ("j", "ArrowDown", "k", "j"):
        page.keyboard.press(key)
    name = ITEMS[2].item_id
    assert page.locator("[aria-current] th").inner_text() == name
    assert page.locator(".wp-item h2").inner_text() == name
    assert page.evaluate("document.activeElement.textContent") == name
    assert page.evaluate("new URLSearchParams(location.hash.slice(1)).get('item')") == name
    assert visit(page.url).locator(".wp-item h2").inner_text() == name
    page.keyboard.press("Home")
    assert "#" not in page.url


FRAGMENTS = [
    "colour=red", "sort=zz", "sort=genre", "item=nowhere", "facets=1", "facets=[]", "facets={",
    "facets={%22zz%22:[1]}",
    "facets={%22target_class%22:1}", "facets={%22n_tokens%22:[%22a%22,1]}", "__proto__=1",
    "facets={%22__proto__%22:[1]}", "facets={%22target_class%22:[]}",
]  # fmt: skip


def test_a_link_that_does_not_fit_says_so_and_shows_the_view_as_published(site, visit):
    address = (site / "passages.html").as_uri()
    published = shown(visit(address))
    for fragment in FRAGMENTS:
        page = visit(f"{address}#{fragment}")
        assert "does not fit this view" in page.locator("#wp-notice").inner_text(), fragment
        assert shown(page) == published, fragment
    page.evaluate("location.hash = 'search=the'")
    page.wait_for_function("() => document.querySelector('input').value === 'the'")
    assert page.locator("#wp-notice").is_hidden()


def test_the_link_is_copied_by_a_button(site, chromium):
    context = chromium.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto((site / "passages.html").as_uri() + "#search=the")
    page.wait_for_selector(READY)
    page.locator("#wp-link").click()
    page.wait_for_selector("#wp-link[data-done=copied]")
    assert page.evaluate("navigator.clipboard.readText()").endswith("passages.html#search=the")
    context.close()


def test_long_lists_have_pages(visit, tmp_path):
    frame = pd.DataFrame({"n": range(250), "passage": [f"row {k}" for k in range(250)]})
    page = visit(wb.publish(tmp_path / "site", {"Rows": frame}).with_name("rows.html").as_uri())
    cells = page.locator("tbody td:first-child")
    assert cells.count() == 100
    for number, rows in ((1, (100, 200)), (2, (200, 250))):
        page.get_by_role("button", name="Next").click()
        assert cells.all_inner_texts() == [str(k) for k in range(*rows)], number
    assert page.get_by_role("button", name="Next").is_disabled()
    page.locator("input").fill("row 24")
    assert cells.all_inner_texts() == ["24", *map(str, range(240, 250))]
    assert page.get_by_role("navigation", name="Pages").is_hidden()


def test_the_focus_can_be_seen_in_a_comparison(site, visit):
    page = visit((site / "models.html").as_uri(), reduced_motion="reduce")
    assert unseen_focus(page, 30) == []


@pytest.mark.parametrize(
    "file", ["index", "about", "passages", "charts-above", "models", "weights", "table", "figure"]
)
def test_pages_can_be_read_in_both_schemes_and_fit_a_narrow_window(site, visit, file):
    page = visit((site / f"{file}.html").as_uri(), None if file in ("index", "about", "weights") else READY)
    assert page.title() in ("Our <views>", f"{page.locator('h1').inner_text()} | Our <views>")
    contrast = CONTRAST.replace(".wb-browser", "body")
    for theme, ground in zip(THEMES, ("[255, 255, 255]", "[0, 0, 0]"), strict=True):
        page.set_viewport_size({"width": 1300, "height": 900})
        assert violations(page, None, theme) == []
        assert page.evaluate(contrast.replace("[255, 255, 255]", ground)) == []
        page.set_viewport_size({"width": 400, "height": 800})
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        assert violations(page) == []


def test_hostile_text_is_text(visit, tmp_path):
    attacks = [text for text in STRINGS.values() if RUN in text]
    everything = " ".join(
        [*attacks, STRINGS["template"], STRINGS["right to left"], STRINGS["prototype"], STRINGS["quotes"]]
    )
    views = {
        f"{name} {text}": PAGES[name](text)
        for name in ("Browser", "Explorer", "Compare", "AttentionView")
        for text in (everything, STRINGS["prototype"], STRINGS["control characters"])
    }
    for text in (everything, STRINGS["prototype"]):
        views |= {
            f"Frame {text}": pd.DataFrame({text: [text, "b"] * 20, "n": range(40)}),
            f"Table {text}": PAGES["Table"](text),
        }
    folder = wb.publish(tmp_path / "site", views, title=everything).parent
    files = sorted(folder.glob("*.html"))
    assert len(files) == len(views) + 2
    for file in files:
        has_script = "data-ready" in file.read_text("utf-8") or "dataset.ready" in file.read_text("utf-8")
        page = visit(file.as_uri(), READY if has_script else None)
        page.evaluate("document.querySelectorAll('.wp-facet').forEach((each) => { each.open = true; })")
        for button in page.locator(".wp-bin:enabled").all()[:3]:
            button.click()
        if page.locator("input").count():
            page.locator("input").fill("<")
        assert page.evaluate("window.hacked") is None, file.name
        assert page.locator("img, iframe, svg a, object").count() == 0, file.name
    fragment = f"#sort={RUN}&search={'%3Cimg src=x onerror=alert(1)%3E'}"
    page = visit(next(file for file in files if file.stem.startswith("browser")).as_uri() + fragment)
    assert page.evaluate("window.hacked") is None
