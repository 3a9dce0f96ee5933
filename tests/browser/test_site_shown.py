"""The documentation site in a real Chromium: from the disk, with the network cut, light, dark and narrow."""

import json
import re

import built_site
import pytest
from accessible import THEMES, unseen_focus, violations

pytestmark = pytest.mark.browser

STATE = """() => {
    const [charts, views] = [".wb-chart", ".wb-view"].map((name) => [...document.querySelectorAll(name)]);
    const attached = views.filter((view) => view.shadowRoot?.textContent.trim());
    return { charts: charts.length, views: views.length, attached: attached.length };
}"""
DRAWN = "() => [...document.querySelectorAll('.wb-chart')].every((chart) => chart.querySelector('svg.marks'))"
SCRIPT, SHOWS = re.compile("<script[^>]*>"), re.compile('class="[^"]*wb-(?:chart|view)')
WIDER = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
INK = "() => getComputedStyle(document.querySelector('.wb-view').shadowRoot.querySelector('.wbs')).color"


@pytest.fixture(scope="module")
def folder():
    return built_site.build()[0]


@pytest.fixture
def visit(chromium):
    """Give a function that opens a page, the addresses on other hosts that pages asked for, and errors."""
    foreign, problems, contexts = [], [], []

    def record(request):
        if not request.url.startswith("file:"):
            foreign.append(request.url)

    def opened(**options):
        context = chromium.new_context(offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("request", record)
        page.on("pageerror", lambda error: problems.append(str(error)))
        return page

    yield opened, foreign, problems
    for context in contexts:
        context.close()


def forms(folder):
    """Yield each page with charts or views, and of those with the same scripts one in each folder.

    `tests/project/test_site.py` reads the addresses of all pages.
    """
    known = set()
    for path in sorted(folder.rglob("*.html")):
        if "_static" not in path.parts:
            text = path.read_text(encoding="utf-8")
            form = (path.parent, *SCRIPT.findall(text))
            if form not in known or SHOWS.search(text):
                yield path
            known.add(form)


def test_pages_of_every_form_load_without_another_host(visit, folder):
    opened, foreign, problems = visit
    page = opened()
    charts = views = 0
    for path in forms(folder):
        page.goto(path.as_uri())
        page.wait_for_function(DRAWN)
        state = page.evaluate(STATE)
        assert state["attached"] == state["views"], path
        charts, views = charts + state["charts"], views + state["views"]
    assert (foreign, problems) == ([], [])
    assert charts > 20
    assert views > 20


@pytest.mark.parametrize("name", built_site.PAGES_TO_CHECK)
def test_a_narrow_page_does_not_scroll_sideways(visit, folder, name):
    opened, _, _ = visit
    page = opened(viewport={"width": 390, "height": 800})
    page.goto((folder / f"{name}.html").as_uri())
    assert page.evaluate(WIDER) <= 0


@pytest.mark.parametrize("name", built_site.PAGES_TO_CHECK)
def test_everybody_can_use_a_page(visit, folder, name):
    opened, _, _ = visit
    page = opened()
    page.goto((folder / f"{name}.html").as_uri())
    page.wait_for_function(DRAWN)
    assert [line for theme in THEMES for line in violations(page, None, theme)] == []


def test_views_follow_the_theme_of_the_site(visit, folder):
    opened, _, _ = visit
    colours = {}
    for scheme, theme in (("light", "light"), ("dark", "dark"), ("light", "dark"), ("dark", "light")):
        page = opened(color_scheme=scheme)
        page.goto((folder / "gallery/widgets.html").as_uri())
        page.evaluate("(theme) => { document.documentElement.dataset.theme = theme }", theme)
        page.wait_for_function(f"({INK})() === {json.dumps(colours[theme])}") if theme in colours else None
        colours.setdefault(theme, page.evaluate(INK))
    assert colours["light"] != colours["dark"]


def test_a_target_opens_by_keyboard(visit, folder):
    opened, _, _ = visit
    page = opened()
    page.goto((folder / "gallery/widgets.html").as_uri())
    blank = page.locator(".wb-view summary").first
    blank.focus()
    assert not page.evaluate(
        "() => document.querySelector('.wb-view').shadowRoot.querySelector('details').open"
    )
    page.keyboard.press("Enter")
    assert page.evaluate("() => document.querySelector('.wb-view').shadowRoot.querySelector('details').open")


@pytest.mark.parametrize("name", ["index", "tasks/index", "gallery/widgets"])
def test_the_focus_can_be_seen_wherever_the_keyboard_leads(visit, folder, name):
    opened, _, _ = visit
    page = opened(reduced_motion="reduce", viewport={"width": 1200, "height": 800})
    page.goto((folder / f"{name}.html").as_uri())
    page.wait_for_function(DRAWN)
    assert unseen_focus(page, 25) == []
