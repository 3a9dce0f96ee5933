"""Saved charts and pages with hostile text in a real Chromium: they are drawn, nothing runs or is loaded."""

import pytest
from adversarial_text import CHARTS, PAGES, RUN, STRINGS

from workbench import charts

pytestmark = pytest.mark.browser
ATTACKS = [text for text in STRINGS.values() if RUN in text]
ALL = " ".join([*ATTACKS, STRINGS["template"], STRINGS["expression"], STRINGS["field"], STRINGS["quotes"]])
MARKS = "svg.marks .role-mark path, svg.marks .role-mark text"
FILES = {
    "figure_2, every attack": lambda tmp: [
        charts.save(CHARTS["figure_2"](text), tmp / f"{number}.html") for number, text in enumerate(ATTACKS)
    ],
    "every chart": lambda tmp: [
        charts.save(make(ALL), tmp / f"{name}.html", dark=dark)
        for dark, (name, make) in enumerate(CHARTS.items())
    ],
}


@pytest.fixture
def seen(chromium):
    """Open files; return the page, and what it ran, asked for or complained about."""
    events = []
    context = chromium.new_context()
    page = context.new_page()
    page.on("dialog", lambda dialog: (events.append("dialog"), dialog.dismiss()))
    page.on("request", lambda request: events.append(request.url))
    page.on("console", lambda message: events.append(message.text))
    page.on("pageerror", lambda error: events.append(str(error)))

    def opened(path, drawn):
        events.clear()
        page.goto(path.as_uri())
        page.wait_for_selector(drawn, state="attached")
        assert page.evaluate("window.hacked") is None
        told = [event for event in events if not event.startswith("WARN ")]  # Vega: scales are joined
        assert told == [path.as_uri()], path.name
        return page

    yield opened
    context.close()


@pytest.mark.parametrize("name", FILES)
def test_saved_charts_are_drawn_and_run_nothing(name, seen, tmp_path):
    for path in FILES[name](tmp_path):
        page = seen(path, MARKS)
        assert page.locator(MARKS).count() > 1
        data = ".wb-chart > [type='application/json']"
        assert page.locator(f"img, iframe, script:not({data}):not(body > script)").count() == 0


def test_a_tooltip_shows_the_text_and_pictures_are_saved(seen, tmp_path):
    text = STRINGS["image"]
    page = seen(charts.save(CHARTS["target_classes"](text), tmp_path / "a.html", width="10cm"), MARKS)
    wide = page.locator("svg.marks").bounding_box()["width"]
    assert wide == pytest.approx(10 / 2.54 * 96, abs=1)  # the button beside it keeps its size
    assert page.locator(".vega-embed summary").bounding_box()["width"] < wide / 4
    page.locator("svg.marks path[aria-roledescription=bar]").first.hover(position={"x": 3, "y": 3})
    page.wait_for_selector("#vg-tooltip-element.visible")
    assert text in page.locator("#vg-tooltip-element").inner_text()
    page.locator(".vega-embed summary").click()
    for place, kind in enumerate(("svg", "png")):
        with page.expect_download() as download:
            page.locator(".vega-actions a").nth(place).click()
        assert download.value.suggested_filename.endswith(kind)
    assert page.locator(".vega-actions a").count() == 2  # none opens another page
    assert page.evaluate("window.hacked") is None


def test_the_policy_stops_a_script_that_came_in(seen, tmp_path):
    path = charts.save(CHARTS["lengths"]("a"), tmp_path / "a.html")
    page = path.read_text(encoding="utf-8")
    path.write_text(page.replace("<body>", f"<body><img src=x onerror='{RUN}'><script>{RUN}</script>", 1))
    with pytest.raises(AssertionError, match="violates"):
        seen(path, MARKS)


def test_pictures_of_charts_run_nothing(seen, tmp_path):
    for name, make in CHARTS.items():
        seen(charts.save(make(ALL), tmp_path / f"{name}.svg"), "svg path")


def test_pages_run_nothing(seen, tmp_path):
    for name in ("Ask", "AttentionView", "Browser", "Compare", "Explorer", "Items", "Table", "Training"):
        made = PAGES[name](ALL)
        show = made.to_html if hasattr(made, "to_html") else made._repr_html_
        path = tmp_path / f"{name}.html"
        path.write_text(show(), encoding="utf-8")
        seen(path, "body *")
        if hasattr(made, "saved"):
            made.close()
