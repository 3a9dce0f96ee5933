"""Published pages in a real Chromium, from files and without a network: they compute what the kernel does."""

# ruff: noqa: RUF001 - letters of other scripts are meant

import json
import random
import re
import shutil

import altair as alt
import numpy as np
import pandas as pd
import pytest
from accessible import THEMES, unseen_focus, violations
from adversarial_text import PAGES, RUN, STRINGS
from attentive import Windows
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from looks import CONTRAST
from random_predictions import annotated, predicted

import workbench as wb
from workbench.items.query import of_facets, parse, suggest
from workbench.items.tokens import tokens
from workbench.storage.errors import DataError
from workbench.widgets.publish.pages import _plain, script_json
from workbench.widgets.shared.published import column_data
from workbench.widgets.shared.widget import read_assets

pytestmark = pytest.mark.browser

ITEMS = wb.load("sample", variant="capitalised")[:80]
FRAMES = predicted(ITEMS, 3)
TABLE = annotated(ITEMS).assign(
    genre=[["a", "B"], [], ["ß"], None] * 20,
    weight=[0.5, np.nan, -np.inf, 1e-7] * 20,
    word=["ß", "É x", None, "1"] * 20,
)
SCRIPTS = read_assets(
    "shared/page.js", "publish/query.js", "publish/listing.js", "publish/comparison.js", "publish/site.js"
)  # fmt: skip
EXPOSED = "Object.assign(window, { filterLanguage, publishedLists, publishedComparison });"
READY = ":is(#wp-view[data-ready], .wb-chart[data-ready])"
CHANGED = "() => !document.querySelector('[data-waits]')?.dataset.waits"


WAITING = """
window.waiting = new Set(); // clocks that run until the kernel is said to be silent
const [start, stop] = [setTimeout, clearTimeout];
window.setTimeout = (what, ms, ...more) => {
    const clock = start(what, ms, ...more);
    if (ms === 5000) waiting.add(clock);
    return clock;
};
window.clearTimeout = (clock) => { waiting.delete(clock); stop(clock); };
"""
DRAWN = """() => new Promise((done) =>
    requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => setTimeout(done)))))"""


@pytest.fixture(scope="module")
def scripts(chromium):
    """Give a page with the scripts that stand in for the kernel."""
    context = chromium.new_context()
    page = context.new_page()
    page.goto("about:blank")
    needs = '<p id="wp-notice"></p>'
    page.evaluate(
        "(html) => document.body.append(document.createRange().createContextualFragment(html))", needs
    )
    page.evaluate(f"{SCRIPTS}\n{EXPOSED}")
    yield page
    context.close()


# -- the language of filters

CELLS = pd.DataFrame({
    "n": pd.array([1, None, 3, 60, -2, 10**15], dtype="Int64"),
    "x": [0.1, np.nan, np.inf, -np.inf, 1e-7, 3.0],
    "text": ["thing", "AB", None, "b c", "É ß", "1342"],
    "odd `name": pd.Categorical(["a", "b", None, "a", "true", "missing"]),
    "truth": pd.array([True, False, None, True, True, False], dtype="boolean"),
    "tags": [["hard"], [], ["Hard", "ß"], ["SS", "odd"], None, ["odd"]],
    "empty": [None] * 6,
})  # fmt: skip
LETTERS = "aAbBéÉßσςΣſK19_@.:/'-\"\\ `(+"
VALUES = (
    st.text(LETTERS, max_size=6)
    | st.sampled_from(
        ["thing", "b c", "true", "yes", "No", "hard", "missing", "1342", "12.50", "1e3", "and", "ing"]
    )
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.booleans()
)
CHOICES = st.builds(
    lambda name, values: of_facets({name: values}),
    st.sampled_from([*CELLS, "no column"]),
    st.lists(VALUES | st.none(), min_size=1, max_size=3),
)
COMPARISONS = st.builds(
    lambda name, sign, value: f"`{name.replace('`', '``')}` {sign} {value}",
    st.sampled_from(list(CELLS)),
    st.sampled_from(["=", "==", "!=", "<", "<=", ">", ">=", "contains", "not contains", "is", "in"]),
    VALUES.map(lambda value: json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)),
)
FILTERS = st.recursive(
    CHOICES.map(str) | COMPARISONS,
    lambda inner: (
        st.builds("({}) and {}".format, inner, inner) | st.builds("not ({} or {})".format, inner, inner)
    ),
    max_leaves=4,
)
TOKENS = [
    "n", "text", "`odd ``name`", "truth", "and", "or", "NOT", "!", "!=", "(", ")", "in", "is", "missing",
    "Null", "contains", "=", "<", "3", "-1.5", "1e999", "'b c'", '"x', ",", "&", "||", "true", "Yes",
    "thing", "~", "٣", "not-x", "in_x", "12ab", "a.b", ".5", "5.",
]  # fmt: skip
TEXTS = (
    FILTERS
    | st.lists(st.sampled_from(TOKENS), max_size=8).map(" ".join)
    | st.text(LETTERS + "=<>!&|)", max_size=9)
)
IN_PAGE = """([columns, texts]) => {
    const INFINITE = { inf: Infinity, "-inf": -Infinity };
    const table = Object.fromEntries(columns.map(({ name, kind, data }) => [name, {
        kind, missing: data.map((value) => value === null),
        data: kind === "numbers" ? data.map((value) => INFINITE[value] ?? value) : data,
    }]));
    return texts.map((text) => {
        try {
            const query = filterLanguage.parse(text);
            const written = filterLanguage.text(query);
            try {
                return [written, filterLanguage.mask(query, table, 6)];
            } catch (error) {
                return [written, null];
            }
        } catch (error) {
            return [error.message, null];
        }
    });
}"""


def in_python(text):
    """Return a filter as Python writes it and the rows that pass; None where the columns do not fit.

    Of a text that is no filter it is the error; a piece of text is quoted in another way there.
    """
    try:
        query = parse(text)
    except DataError as error:
        return str(error).partition(", there is")[0], None
    try:
        return str(query), query.mask(CELLS).tolist()
    except DataError:
        return str(query), None


@settings(max_examples=15, deadline=None, suppress_health_check=[*HealthCheck])  # no test depends on time
@given(st.lists(TEXTS, min_size=20, max_size=60))
@example(["n = 9007199254740992", "n = 9007199254740994", "n = 1e16", "n = -9007199254740994"])
def test_filters_mean_the_same_in_page_and_kernel(scripts, texts):
    columns = [column_data(CELLS, name) for name in CELLS]
    answers = scripts.evaluate(IN_PAGE, [json.loads(script_json(columns)), texts])
    for text, (written, mask) in zip(texts, answers, strict=True):
        expected, rows = in_python(text)
        is_error = expected.startswith("the filter")
        assert (written.partition(", there is")[0] if is_error else written, mask) == (expected, rows), text


def test_errors_of_filters_name_the_character_and_what_was_expected(scripts):
    text = "n > 3 and (truth or"
    ((message, _),) = scripts.evaluate(IN_PAGE, [[], [text]])
    with pytest.raises(DataError) as error:
        parse(text)
    assert message == str(error.value)


TYPED = [
    "", "n", "n >", "n > ", "text ", "text = t", "text contains ", "truth ", "truth a", "tags ",
    "tags contains h", "n = 1 ", "n = 1 a", "(n = 1 ", "text in ", "text in (", "text in (thing", "n is ",
    "n is not ", "not ", "`od", "n not ", "zz ", "text = thing and ", "x ", "empty ", "n ! = ",
]  # fmt: skip


def test_completions_are_those_of_the_kernel(scripts):
    columns = [column_data(CELLS, name) for name in CELLS if name != "tags"]
    page = (
        IN_PAGE[: IN_PAGE.index("return texts")]
        + "return texts.map((t) => filterLanguage.suggest(t, t.length, table)); }"
    )
    answers = scripts.evaluate(page, [json.loads(script_json(columns)), TYPED])
    frame = CELLS.drop(columns="tags")
    assert dict(zip(TYPED, answers, strict=True)) == {text: suggest(text, len(text), frame) for text in TYPED}


# -- the views

ANSWERS = """(sent) => {
    const [host, data, messages] = JSON.parse(sent);
    const answers = [];
    const Host = { ...publishedLists, ...publishedComparison }[host.split(".")[1]];
    const kernel = new Host(data, (message) => answers.push(message));
    const all = messages.map((message) => {
        answers.length = 0;
        try {
            if (message.state && !message.type) kernel.restore(message.state);
            else kernel.answer(message);
            return answers.at(-1);
        } catch (error) {
            if (!(error instanceof filterLanguage.FilterError)) throw error;
            return { type: "error" };
        }
    });
    const spelled = (value) => (typeof value === "number" && !Number.isFinite(value) ? `n ${value}` : value);
    return JSON.stringify(all, (_, value) => spelled(value ?? null)); // JSON has no infinite numbers
}"""
APART = {"version", "lane", "annotating", "published", "asks", "labels"}  # of this page alone


def plain(value):
    return json.loads(script_json(value))


def answered(scripts, host, data, messages):
    """Return the page's answers; as JSON, which passes to a test much faster than objects do."""
    text = scripts.evaluate(ANSWERS, json.dumps([host, data, messages]))
    return json.loads(re.sub(r'"n (-?Infinity|NaN)"', r"\1", text))


def nearly(value):
    """Round numbers: sums of other orders, and lengths of bars that are rounded twice."""
    if isinstance(value, dict):
        return {name: nearly(each) for name, each in value.items()}
    if isinstance(value, list):
        return [nearly(each) for each in value]
    return pytest.approx(value, abs=2e-4) if isinstance(value, float) else value


def compare_answers(scripts, widget, messages):
    """Ask page and kernel the same; return how many views they agree on."""
    view, n = widget.published(notes=True), 0
    widget._send_view = lambda *_lane: None  # it is asked for below
    rows = np.arange(len(ITEMS))
    data = plain(view.head(rows)) | {"items": [plain(view.item(row)) for row in rows.tolist()]}
    for message, answer in zip(messages, answered(scripts, view.host, data, messages), strict=True):
        try:
            if "type" in message:
                widget._on_query(message)
            else:
                widget.state = message["state"]
        except DataError:
            assert answer["type"] == "error", message
            continue
        expected = json.loads(json.dumps(widget._view(), default=_plain))  # an open range is infinite there
        for name in set(expected) - APART:
            if name == "selected":  # intervals and MDE of a choice need the workbench
                for each in (expected[name], answer[name]):
                    each["rows"][1].pop("difference")
            if answer[name] != expected[name]:  # to compare with tolerance takes long
                assert answer[name] == nearly(expected[name]), (message, name)
        n += 1
    return n


def chosen(listing, names, seed, n=40, **more):
    """Return messages that choose bins and ranges of columns by lot."""
    draw, messages = random.Random(seed), []  # noqa: S311 - a test
    for _ in range(n):
        name = draw.choice(names)
        keys = [each.key for each in listing.facets[name].bins]
        choice = {
            "keys": draw.sample(keys, min(len(keys), draw.randint(1, 4))),
            "exclude": draw.random() < 0.3,
        }
        if listing.facets[name].ranges and draw.random() < 0.4:
            choice = {"range": draw.choice([[10, None], [None, 70], [20.5, 60], [None, None], [3, 3]])}
        choices = {name: None if draw.random() < 0.2 else choice}
        messages.append({"type": "query", "lane": "query", "state": {}, "choose": choices, **more})
    return messages


def states(empty, *changes):
    return [{"state": {**empty, **change}} for change in changes]


SEARCHES = [
    {}, {"query": "said"}, {"query": "THE", "field": "sentence"}, {"query": "b[aeiou]+t", "regex": True},
    {"query": "(", "regex": True}, {"query": "a", "field": "answer"},
    {"query": str(ITEMS.frame["item_id"][3])},
    {"query": "thirty-one"},
    {"query": "it's (1+1)? [a] {b} $ ^ | / \\ * ."},
    {"where": "n_tokens > 40 and not direct_speech"},
    {"where": "zz = 1"},
    {"where": "n_tokens ="}, {"where": "genre contains SS or word is missing"}, {"where": "weight < 0"},
    {"where": "n_tokens = 1"}, {"where": "n_tokens = 40 and n_tokens = 41"}, {"field": "zz"},
    {"current": "nowhere"},
    {"where": "target_class = CN", "current": str(ITEMS.frame["item_id"][79])},
]  # fmt: skip


def influences():
    """Return the influence of some tokens of each item, for and against the answer."""
    spans = [(item, start, end) for item in ITEMS for start, end in tokens(item).spans[:9:2] if start < end]
    rows = [
        (item.item_id, start, end, item.text[start:end], 9, (-1) ** k * k / 7)
        for k, (item, start, end) in enumerate(spans)
    ]
    return pd.DataFrame(rows, columns=["item_id", "start", "end", "text", "distance", "influence"])


def test_a_published_browser_answers_as_the_kernel_does(scripts):
    widget = wb.browse(ITEMS, TABLE, FRAMES, influence=influences())
    empty = widget._empty()
    sorts = [{"sort": sign + name, "table": True} for name in widget._listing.sortable for sign in ("", "-")]
    tables = [{"table": ["answer", "genre", "weight"], "reveal": reveal} for reveal in (True, False)]
    views = [
        *SEARCHES,
        *sorts,
        {"sort": "zz"},
        *tables,
        {"table": ["zz"]},
        {"attention": "model 1", "query": "the", "shade": ""},
    ]
    messages = states(empty, *views) + chosen(widget._listing, list(widget._listing.facets), 1)
    assert compare_answers(scripts, widget, messages) > 70
    widget.close()


def test_a_published_comparison_answers_as_the_kernel_does(scripts):
    widget = wb.compare(ITEMS, FRAMES, TABLE, resamples=50)
    widget._measure()
    labels, listing = widget.comparison.labels, widget._listing
    sorts = [{"sort": sort, "hidden": hidden} for sort in (
        "disagreement", "difference", "all wrong", "only one right", "all right", "zz"
    ) for hidden in ([], labels[:1])]  # fmt: skip
    others = [
        {"pair": labels[1::-1], "sort": "difference"}, {"pair": labels[:1]}, {"baseline": labels[1]},
        {"baseline": "zz"},
        {"attention": labels[1]}, {"where": f"`{labels[0]}: correct` and `{labels[1]}: rank` > 9"},
        {"column": "zz"},
        *({"column": name, "where": "n_tokens > 40"} for name in widget.comparison.columns),
    ]  # fmt: skip
    cells = [{"type": "query", "state": {}, "outcome": outcome} for outcome in (
        [*labels[:2], "only first"], [*labels[1:], "only second"], [*labels[:2], "both right"],
        [*labels[:2], "both wrong"], None,
        [*labels[:2], "zz"],
    )]  # fmt: skip
    messages = states(widget._empty(), *SEARCHES, *sorts, *others) + cells
    messages += chosen(listing, widget.comparison.columns, 2) + chosen(
        listing, widget.comparison.columns, 3, 9, outcome=[*labels[:2], "only first"]
    )
    assert compare_answers(scripts, widget, messages) > 70
    widget.close()


def test_the_scatter_of_a_published_comparison_is_that_of_the_kernel(scripts):
    widget, sent = wb.compare(ITEMS, FRAMES, TABLE, resamples=50, where="n_tokens > 60"), []
    view = widget.published()
    data = plain(view.head(np.arange(80))) | {"items": [plain(view.item(row)) for row in range(80)]}
    (scatter,) = answered(scripts, view.host, data, [{"type": "scatter"}])
    widget.send = lambda content, _buffers=None: sent.append(plain(content))
    widget._on_scatter({})
    (expected,) = sent
    assert np.array(scatter.pop("points")) == pytest.approx(np.array(expected.pop("points")), abs=6e-4)
    assert scatter == expected
    widget.close()


def test_mcnemar_and_wilson_are_those_of_the_workbench(scripts):
    from workbench.analysis.proportions import mcnemar, wilson  # noqa: PLC0415 - of this test alone

    pairs = [(0, 0), (1, 0), (3, 9), (50, 61), (0, 400), (700, 900)]
    p = scripts.evaluate("(pairs) => pairs.map(([a, b]) => publishedComparison.mcnemar(a, b))", pairs)
    assert p == pytest.approx(mcnemar(*np.array(pairs).T).tolist(), rel=1e-9)
    shares = [(0, 7), (7, 7), (3, 7), (900, 4869)]
    z = 1.959963984540054
    bounds = scripts.evaluate(
        "([s, z]) => s.map(([k, n]) => publishedComparison.wilson(k, n, z))", [shares, z]
    )
    assert np.array(bounds) == pytest.approx(np.stack(wilson(*np.array(shares).T), axis=1), abs=1e-12)


# -- the site


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


def shown(page):
    """Return what a reader sees of the view, its boxes included."""
    page.wait_for_function(CHANGED)
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    value = "(n) => n.type === 'checkbox' ? n.checked : n.value"
    boxes = f"[...document.querySelectorAll('#wp-view :is(input, select)')].map({value})"
    return page.locator("#wp-view").inner_text(), page.evaluate(boxes)


def typed(page, box, text):
    page.locator(box).fill(text)
    page.keyboard.press("Enter")
    page.wait_for_function(CHANGED)


def test_a_link_shows_the_very_same_list(site, visit):
    page = visit((site / "passages.html").as_uri())
    first = shown(page)
    typed(page, ".wb-line", "n_tokens > 30 and direct_speech = no")
    page.locator(".wb-search").fill("the")
    page.wait_for_function(CHANGED)
    page.locator(".wb-sort").select_option("n_tokens")
    page.wait_for_function(CHANGED)
    page.locator(".wb-list").focus()
    for key in ("j", "j", "ArrowDown"):
        page.keyboard.press(key)
    view = shown(page)
    assert view != first
    link = page.url
    item = page.locator(".wb-selected .wb-id").inner_text()
    written = "filter=n_tokens+%3E+30+and+direct_speech+%3D+no&search=the&sort=n_tokens&item="
    assert link.split("#")[1] == written + item
    assert shown(visit(link)) == view
    page.evaluate("history.back()")  # the order is one step, the search another
    page.wait_for_function("() => document.querySelector('.wb-sort').value === ''")
    assert "sort=" not in page.url
    page.evaluate("history.back()")
    page.wait_for_function("() => document.querySelector('.wb-search').value === ''")
    page.locator(".wb-top .wb-button", has_text="Clear").click()
    page.wait_for_function(CHANGED)
    page.keyboard.press("Escape")
    page.locator(".wb-list").focus()
    page.keyboard.press("Home")
    assert shown(page) == first
    assert page.url == (site / "passages.html").as_uri()


def test_a_link_shows_the_very_same_comparison(site, visit):
    page = visit((site / "models.html").as_uri())
    page.locator("[data-outcome='only first']").click()
    page.locator(".wc-column").select_option("n_tokens")
    page.locator(".wb-sort").select_option("difference")
    page.locator("input[type=checkbox]").first.uncheck()
    page.wait_for_function(CHANGED)
    view = shown(page)
    assert "models=" in page.url
    assert "by=n_tokens" in page.url
    assert shown(visit(page.url)) == view


def test_charts_choose_items_and_a_link_keeps_the_choice(site, visit):
    page = visit((site / "charts-above.html").as_uri())
    page.locator("[data-chart=direct_speech] .we-row").first.click()
    page.wait_for_function(CHANGED)
    view = shown(page)
    assert page.url.endswith("#filter=direct_speech+%3D+true")
    assert shown(visit(page.url)) == view


def test_a_link_shows_the_very_same_weights(site, visit):
    page = visit((site / "weights.html").as_uri())
    page.locator(".wt-attention .wt-button").last.focus()
    for key in ("j", "m", "l"):
        page.keyboard.press(key)
        page.wait_for_function(CHANGED)
    page.locator(".wt-button", has_text="Show answer").click()
    page.locator(".wt-button", has_text="scale").click()
    view = shown(page)
    assert "targets=yes" in page.url
    assert "model=other" in page.url
    assert "scale=square+root" in page.url
    assert shown(visit(page.url)) == view


def test_a_table_is_filtered_and_sorted_and_a_link_keeps_that(site, visit):
    page = visit((site / "table.html").as_uri())
    typed(page, ".wp-bar input", "target_class = CN and n_tokens > 30")
    page.locator("[data-name=n_tokens]").click()
    page.locator("[data-name=n_tokens]").click()
    expected = TABLE[(TABLE["target_class"] == "CN") & (TABLE["n_tokens"] > 30)].sort_values(
        "n_tokens", ascending=False, kind="stable"
    )
    ids = page.locator("tbody tr td:first-child").all_inner_texts()
    assert ids == expected["item_id"].tolist()
    again = visit(page.url)
    assert again.locator("tbody tr td:first-child").all_inner_texts() == ids
    assert again.locator("th[aria-sort=descending]").count() == 1
    typed(again, ".wp-bar input", "zz = 1")
    assert "no column 'zz'" in again.locator("#wp-notice").inner_text()


FRAGMENTS = [
    "colour=red", "filter=n_tokens+%3E", "filter=zz+%3D+1", "sort=zz", "item=nowhere", "in=x", "%", "=",
    "filter=%E0%A4%A", "__proto__=1",
]  # fmt: skip


def test_a_link_that_does_not_fit_says_so_and_shows_the_view_as_published(site, visit):
    address = (site / "passages.html").as_uri()
    plain_view = shown(visit(address))
    for fragment in FRAGMENTS:
        page = visit(f"{address}#{fragment}")
        assert "does not fit this view" in page.locator("#wp-notice").inner_text(), fragment
        assert shown(page) == plain_view, fragment
    page.evaluate("location.hash = 'filter=n_tokens+%3E+30'")
    page.wait_for_function("() => document.querySelector('.wb-line').value === 'n_tokens > 30'")
    assert page.locator("#wp-notice").is_hidden()


def test_the_link_is_copied_by_a_button(site, chromium):
    context = chromium.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto((site / "passages.html").as_uri() + "#sort=n_tokens")
    page.wait_for_selector(READY)
    page.locator("#wp-link").click()
    page.wait_for_selector("#wp-link[data-done=copied]")
    assert page.evaluate("navigator.clipboard.readText()").endswith("passages.html#sort=n_tokens")
    context.close()


def test_nothing_is_offered_that_needs_a_kernel(site, visit):
    page = visit((site / "passages.html").as_uri())
    for text in ("Download", "Tags (t)", "Note (n)", "Analyse targets"):
        assert not page.locator("button", has_text=text).and_(page.locator(":visible")).count(), text
    page.locator(".wb-list").focus()
    for key in "tnx1":
        page.keyboard.press(key)
    assert page.locator(".wb-panel").is_hidden()
    page.keyboard.press("?")
    assert "edit tags" not in page.locator(".wb-panel").inner_text()
    weights = visit((site / "weights.html").as_uri())
    assert weights.locator("select[aria-label='Save a figure']").is_hidden()


def test_no_page_waits_for_a_kernel(site, visit):
    views = [file for file in site.glob("*.html") if "dataset.ready" in file.read_text(encoding="utf-8")]
    assert len(views) > 3
    for file in views:
        page = visit(file.as_uri(), before=WAITING)
        page.evaluate(DRAWN)  # what a page asks for once it is drawn, it has asked for
        page.wait_for_function("() => waiting.size === 0")
        page.close()


def test_the_focus_can_be_seen_in_a_comparison(site, visit):
    page = visit((site / "models.html").as_uri(), reduced_motion="reduce")
    assert unseen_focus(page, 30) == []


@pytest.mark.parametrize(
    "file", ["index", "about", "passages", "charts-above", "models", "weights", "table", "figure"]
)
def test_pages_can_be_read_in_both_schemes_and_fit_a_narrow_window(site, visit, file):
    page = visit((site / f"{file}.html").as_uri(), None if file in ("index", "about") else READY)
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
            f"Frame {text}": pd.DataFrame({text: [text, "b"], "n": [1, 2]}),
            f"Table {text}": PAGES["Table"](text),
        }
    folder = wb.publish(tmp_path / "site", views, title=everything).parent
    files = sorted(folder.glob("*.html"))
    assert len(files) == len(views) + 2
    for file in files:
        page = visit(file.as_uri(), READY if file.stem not in ("index", "about") else None)
        for facet in page.locator(".wb-facet").all():
            facet.click()
            page.locator(".wb-panel").wait_for()
        assert page.evaluate("window.hacked") is None, file.name
        assert page.locator("img, iframe, svg a, object").count() == 0, file.name
    fragment = f"#filter={RUN}&search={'%3Cimg src=x onerror=alert(1)%3E'}"
    page = visit(next(file for file in files if file.stem.startswith("browser")).as_uri() + fragment)
    assert page.evaluate("window.hacked") is None
