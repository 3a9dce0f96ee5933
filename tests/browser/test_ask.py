"""Asking models about a passage, driven as a reader does it."""

from pathlib import Path

import pytest
from looks import CLIPPED

pytestmark = pytest.mark.browser

MODELS = (Path(__file__).parents[1] / "helpers" / "ask_models.py").read_text(encoding="utf-8")
IMPORT = (
    "from workbench import ask\nfast, slow, failing = Counting('fast'), Gated(), Failing()\n"
    "searching = Searching('searching')"
)
TEXT = "Nobody trusted the keeper. But the first man out of the storm was the"
EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture
def asked(opened):
    """Open a notebook with the widget."""
    there = {"shows": ".wa-ask .wa-card", "state": "attached"}
    return lambda name, *cells: opened(f"ask-{name}", MODELS, IMPORT, *cells, **there)


def card(page, name):
    return page.locator(f".wa-card[aria-label='{name}']")


def wait_for(page, state, number=None):
    """Wait until the question (with this number) is "thinking", "answered" or "empty".

    A change in a box makes the state "typing" at once, so no earlier question is taken for this one.
    """
    which = "" if number is None else f"[data-question='{number}']"
    page.wait_for_selector(f".wa-ask[data-state={state}]{which}")


def wait_for_python(page, notebook, state="answered"):
    """Wait for the question that the kernel has now, which something other than the boxes has asked."""
    wait_for(page, state, notebook.value("asker._asking.current.question.number"))


def shown(page, name):
    """Return probabilities and gain of one card, as words."""
    return card(page, name).locator(".wa-p, .wa-gain").all_inner_texts()


def unfold(page):
    """Open the details of all models."""
    while page.locator(".wa-folded .wa-name:visible").count():
        page.locator(".wa-folded .wa-name:visible").first.click()


INSIDE = "[...document.querySelectorAll('.wa-top, .wa-card')].map((n) => n.getBoundingClientRect().height)"


def test_type_and_watch_while_a_slow_model_thinks(asked, notebook):
    page = asked("type", "asker = ask([fast, slow])\nasker")
    assert page.locator(".wa-empty").is_visible()
    assert page.locator(".wa-card").first.is_hidden()
    notebook.screenshot("ask-empty", ".wa-ask")
    cells = page.locator(".jp-Cell").count()
    text = page.locator(".wa-text").first
    text.click()
    page.keyboard.type(f"{TEXT} dd keeper")
    wait_for(page, "thinking")
    page.wait_for_selector(".wa-status:text-is('1 of 2 models answered')")
    page.wait_for_selector(".wa-card[aria-label=slow].wa-thinks .wa-mark:has-text('thinking')")
    assert card(page, "fast").locator(".wa-row").count() == 20
    assert card(page, "slow").locator(".wa-row").count() == 0
    before = page.evaluate(INSIDE)
    assert page.locator(".jp-Cell").count() == cells
    said = notebook.value("[f'{100 * 2.718281828459045 ** x:#.3g} %' for x in asker.results().log_prob]")
    assert shown(page, "fast")[1:] == said  # after the gain
    target = page.locator(".wa-read .wa-target")
    assert target.inner_text() == "keeper"
    assert page.locator(".wa-context").inner_text() == "Nobody trusted the keeper."

    notebook.evaluate("slow.gate.set()")
    wait_for(page, "answered")
    assert page.locator(".wa-status").inner_text() == "2 of 2 models answered"
    assert page.evaluate(INSIDE) == before  # nothing jumps
    assert shown(page, "slow") == shown(page, "fast")
    assert page.locator(".wa-stale").count() == 0
    page.wait_for_selector(".wa-past")  # it is kept by itself
    first = shown(page, "fast")

    notebook.evaluate("slow.gate.clear(); slow.entered.clear()")
    text.fill(f"{TEXT} storm")
    wait_for(page, "thinking")
    page.wait_for_selector(".wa-card[aria-label=fast]:not(.wa-stale)")
    assert page.locator(".wa-card[aria-label=slow].wa-stale").count() == 1
    assert target.inner_text() == "storm"
    page.wait_for_selector(".wa-card[aria-label=slow].wa-thinks")
    assert shown(page, "slow") == []  # no old numbers under a new text
    assert first
    notebook.evaluate("slow.entered.wait()")
    text.fill(f"{TEXT} keeper keeper keeper")
    wait_for(page, "thinking")
    notebook.evaluate("slow.gate.set()")
    wait_for(page, "answered")
    assert shown(page, "slow") == shown(page, "fast") != first
    old_answers(page, notebook)


def old_answers(page, notebook):
    """An answer under another text says what it answers."""
    text = page.locator(".wa-text").first
    text.fill(f"{TEXT} keeper")
    wait_for(page, "answered")
    first = shown(page, "fast")
    caption = card(page, "fast").locator(".wa-from")
    assert caption.inner_text() == ""
    notebook.evaluate("slow.gate.clear()")
    page.evaluate(WATCH, [f"{TEXT} keeper", f"{TEXT} storm"])
    text.fill(f"{TEXT} storm")
    wait_for(page, "thinking")
    page.wait_for_selector(".wa-card[aria-label=fast]:not(.wa-old)")
    page.wait_for_selector(".wa-card[aria-label=slow].wa-thinks")
    assert shown(page, "fast") != first
    assert caption.inner_text() == ""
    notebook.evaluate("slow.gate.set()")
    wait_for(page, "answered")
    seen = page.evaluate("window.seen")
    captions = {caption for _, _, caption in seen if caption}
    assert captions == {f"Answer to “{TEXT} keeper”"}
    for numbers, typed, caption in seen:  # whenever the page changed
        assert caption or (numbers == []) or (numbers == first) == typed.endswith("keeper")
    text.fill("no blank ___ is like ___ another")  # no model is asked
    page.wait_for_selector(".wa-problem")
    assert card(page, "slow").locator(".wa-from").inner_text() == f"Answer to “{TEXT} storm”"
    notebook.screenshot("ask-old", ".wa-ask")


WATCH = """([one, other]) => {
    window.seen = [];
    const card = document.querySelector(".wa-card[aria-label=fast]");
    const look = () => window.seen.push([
        [...card.querySelectorAll(".wa-p, .wa-gain")].map((n) => n.innerText),
        document.querySelector(".wa-text").value,
        card.classList.contains("wa-old") ? card.querySelector(".wa-from").textContent : ""]);
    new MutationObserver(look).observe(document.querySelector(".wa-ask"),
        { subtree: true, childList: true, attributes: true, characterData: true });
}"""


def test_two_steps_what_is_read_and_a_question_asked_again(asked, notebook):
    page = asked("steps", "asker = ask([fast, searching])\nasker")
    page.locator(".wa-text").first.fill("The ___ was late. Then a storm came.")
    page.locator(".wa-line").first.fill("boat")
    page.wait_for_selector(".wa-card[aria-label=searching] .wa-told:has-text('exact rank: computing')")
    page.wait_for_selector(
        ".wa-card[aria-label=searching].wa-thinks .wa-mark:has-text('exact rank: computing')"
    )
    wait_for(page, "thinking")
    assert page.locator(".wa-status").inner_text() == "1 of 2 models answered"
    assert card(page, "searching").locator(".wa-row").count() == 20
    assert shown(page, "searching") == shown(page, "fast")
    notebook.screenshot("ask-computing", ".wa-ask")
    notebook.evaluate("searching.gate.set()")
    wait_for(page, "answered")
    ranks = [card(page, name).locator(".wa-told").all_inner_texts() for name in ("fast", "searching")]
    assert ranks[0] == ranks[1]
    reads = card(page, "fast").locator(".wa-reads > div").all_inner_texts()
    assert reads == ["the model does not say what it reads"] * 2

    page.locator(".wa-button", has_text="Score the best words with the rest").click()
    page.wait_for_selector(".wa-note:has-text('candidates; their shares')")
    wait_for(page, "answered")
    words = page.locator(".wa-line").nth(1).input_value().split("|")
    assert "boat" in words
    assert "," not in words
    assert page.locator(".wa-button", has_text="Score the best words").is_hidden()
    page.wait_for_selector(".wa-past:has-text('candidates')")

    n = notebook.value("len(fast.asked)")
    page.locator(".wa-again").last.click()
    page.wait_for_selector(".wa-ask:not([data-state=typing])")
    page.wait_for_function("document.querySelectorAll('.wa-line')[1].value === ''")
    wait_for(page, "answered")
    wait_for_python(page, notebook)
    assert notebook.value("[asker.text, asker.candidates]") == ["The ___ was late. Then a storm came.", ""]
    assert notebook.value("len(fast.asked)") == n + 1
    assert page.locator(".wa-changed").inner_text() == ""
    words_and_problems(page, notebook)


def words_and_problems(page, notebook):
    """A word is unknown, a passage cannot be read, and a kernel is silent."""
    text, word = page.locator(".wa-text").first, page.locator(".wa-line").first
    prompts = page.locator(".jp-InputPrompt").all_inner_texts()
    word.fill("unheard")
    word.press("Control+Enter")
    page.wait_for_selector(".wa-told:text-is('not in the vocabulary of 12')")
    assert notebook.value("asker.word") == "unheard"
    assert page.locator(".jp-InputPrompt").all_inner_texts() == prompts
    text.fill("no blank ___ is like ___ another")
    page.wait_for_selector(".wa-problem:has-text('2 blanks')")
    assert text.input_value() == "no blank ___ is like ___ another"
    notebook.screenshot("ask-problem", ".wa-ask")
    notebook.restart()
    notebook.ready()
    text.fill("is anybody there")
    page.wait_for_selector(".wb-alarm:has-text('The kernel does not answer')")


def test_pairs_errors_history_and_python(asked, notebook):
    models = f"[fast, failing, Counting({EVIL!r}, [{EVIL!r}, 'keeper'])]"
    page = asked("pairs", f"asker = ask({models}, '{TEXT} keeper')\nasker")
    wait_for(page, "answered")
    errors = page.locator(".wa-error").all_inner_texts()
    assert errors == ["it ranks no <i>vocabulary</i> -- give candidates"]
    assert page.locator(".wa-ask img, .wa-ask i:not(.wa-key)").count() == 0
    assert page.locator(".wa-name").all_inner_texts()[2] == EVIL
    page.wait_for_selector(".wa-past")
    notebook.screenshot("ask-error", ".wa-ask")

    page.locator(".wa-button", has_text="Minimal pair").click()
    second = page.locator(".wa-text").nth(1)
    assert second.input_value() == f"{TEXT} keeper"
    second.fill(f"{TEXT.replace('keeper', 'baker')} keeper")
    wait_for(page, "answered")
    assert page.locator(".wa-differs").all_inner_texts() == ["keeper", "baker"]
    rows = notebook.value("asker.results().query('model == \"fast\"').log_prob.tolist()")
    between = card(page, "fast").locator(".wa-between .wa-gain").all_inner_texts()
    assert between[0].startswith("A is ")
    assert between[0].endswith(f" times as likely as B (+{rows[0] - rows[2]:.2f} nats)")
    assert between[1] == "A and B are as likely (0.00 nats)"
    table = [row.split("\t") for row in page.locator(".wa-summary tbody tr").all_inner_texts()]
    assert [row[0] for row in table] == ["fast", "B", EVIL, "B"]  # the failing model has no numbers
    assert table[0][-1] == f"+{rows[0] - rows[2]:.2f}"
    folded = card(page, EVIL)
    assert folded.locator(".wa-body").is_hidden()
    folded.locator(".wa-name").click()
    assert folded.locator(".wa-body").is_visible()
    folded.locator(".wa-name").click()
    page.wait_for_selector(".wa-past >> nth=1")

    page.locator(".wa-past").last.click()  # the oldest
    page.wait_for_selector(".wa-ask:not(.wa-pairs)")
    assert second.is_hidden()
    assert page.locator(".wa-text").first.input_value() == f"{TEXT} keeper"
    wait_for_python(page, notebook)
    assert notebook.value("asker.state") == [f"{TEXT} keeper", "", "", "", False, 0.0, 10]

    notebook.evaluate("asker.text = 'A storm. The ___ was a rock'")
    wait_for_python(page, notebook)
    assert page.locator(".wa-target").inner_text() == "▁▁▁"
    assert page.locator(".wa-text").first.input_value() == "A storm. The ___ was a rock"
    assert card(page, "fast").locator(".wa-p").count() == 0
    notebook.evaluate("asker.keep()")
    page.wait_for_selector(".wa-past:has-text('was a rock')")
    assert notebook.value("asker.history.text.tolist()")[-1] == "A storm. The ___ was a rock"
    page.locator(".wa-line").nth(1).fill("boat|rock|keeper")
    page.wait_for_selector(".wa-note:text-is('ranked among 3 candidates; their shares add up to 100 %')")
    page.locator(".wa-line").nth(1).press("d")
    page.locator(".wa-line").nth(1).press("d")
    assert page.locator(".wa-line").nth(1).input_value() == "boat|rock|keeperdd"


def test_readable_in_both_themes_and_at_700_pixels(asked, notebook):
    page = asked("look", f"asker = ask([fast, failing, Scoring(), Counting('{'a long name ' * 9}')])\nasker")
    page.set_viewport_size({"width": 1400, "height": 1100})
    page.locator(".wa-button", has_text="Try an example").click()
    wait_for(page, "answered")
    page.wait_for_selector(".wa-past")
    notebook.look("ask-", ".wa-ask")
    before = shown(page, "fast")
    slider = page.get_by_role("slider", name="Boosting")
    assert slider.is_hidden()
    page.locator(".wa-button", has_text="More").click()
    slider.focus()
    for _ in range(3):
        slider.press("ArrowRight")
    page.wait_for_selector(".wa-note:has-text('boosted by 0.75 over 10 words')")
    wait_for(page, "answered")
    assert page.locator(".wa-alpha-shown").inner_text() == "0.75"
    assert shown(page, "fast") != before
    assert page.locator(".wa-note:has-text('not boosted: no log-probabilities')").count() == 1
    page.locator(".wa-k").fill("3")
    page.wait_for_selector(".wa-note:has-text('boosted by 0.75 over 3 words')")
    wait_for(page, "answered")
    assert notebook.value("[asker.alpha, asker.k]") == [0.75, 3]
    notebook.look("ask-boosted-", ".wa-ask")
    slider.press("Home")
    page.wait_for_function("() => !document.querySelector('.wa-ask').innerText.includes('boosted')")
    wait_for(page, "answered")
    assert shown(page, "fast") == before
    shades_and_text(page, notebook)
    page.locator(".wa-button", has_text="Minimal pair").click()
    second = page.locator(".wa-text").nth(1)
    second.fill(second.input_value().replace("keeper, and", "baker, and"))
    wait_for(page, "answered")
    assert page.locator(".wa-read .wa-differs").count() == 2
    assert page.locator(".wa-between").count() == 3
    unfold(page)
    notebook.look("ask-pairs-", ".wa-ask")
    notebook.narrow(".wa-ask", 1000)
    notebook.look("ask-700-", ".wa-ask")


def shades_and_text(page, notebook):
    """The passage is shaded, and the text that a model read is one click away."""
    page.locator(".wa-parts").select_option("word")
    fair = card(page, "fast")
    fair.locator(".wa-influence .wb-weighed >> nth=20").wait_for()
    wait_for(page, "answered")
    assert notebook.value("asker.influence") == "word"
    assert page.locator(".wa-changed").inner_text() == ""
    assert "has no log-probabilities" in page.locator(".wa-error").last.inner_text()
    fair.locator(".wa-influence .wb-weighed").nth(4).hover()
    assert "words before the answer" in page.locator(".wb-tip").inner_text()
    notebook.look("ask-influence-", ".wa-ask")
    page.locator(".wa-against").fill("boat")
    page.locator(".wa-against").press("Tab")
    fair.locator(".wb-shades:has-text('against “boat”')").wait_for()
    page.locator(".wa-parts").select_option("surprisal")
    fair.locator(".wb-shades:has-text('surprisal'), .wa-error").first.wait_for()
    assert page.locator(".wa-against").is_hidden()
    fair.locator(".wa-input").click()
    assert fair.locator(".wa-inputs pre").all_inner_texts() == ["The model does not say what it reads."] * 2
    fair.locator(".wa-input").click()
    page.locator(".wa-parts").select_option("")
    page.wait_for_function("() => !document.querySelector('.wa-influence')")
    wait_for(page, "answered")


def test_every_model_is_in_view_and_its_bars_are_long_enough(asked, notebook):
    models = "models = [Counting(f'model {n}') for n in range(5)] + [Scoring()]"
    show = "from IPython.display import display\nfor n in (1, 3, 6): display(ask(models[-n:], top_k=5))"
    page = asked("many", models, f"{show}\nasker = ask(models[0])")
    tracks = (
        """[...document.querySelectorAll('.wa-row .wa-track')].map((n) => n.getBoundingClientRect().width)"""
    )
    hidden = """[...document.querySelectorAll('.wa-results')]
        .filter((n) => n.scrollHeight > n.clientHeight + 1 || n.scrollWidth > n.clientWidth + 1).length"""
    for place in range(3):
        page.locator(".wa-ask").nth(place).locator(".wa-button", has_text="Try an example").click()
    page.wait_for_function("document.querySelectorAll('.wa-ask[data-state=answered]').length === 3")
    assert page.locator(".wa-folded").count() == 1 + 4
    unfold(page)
    boosting = [page.locator(".wa-boosting").nth(place) for place in range(2)]  # of scores alone; of both
    assert [each.locator("input:disabled").count() for each in boosting] == [2, 0]
    titles = [each.get_attribute("title") for each in boosting]
    assert titles[0] == "No model here can be boosted: none has probabilities"
    assert titles[1] == "Counts the last k words less (coherence boosting, Malkin et al. 2022)"
    for width in (1900, 1400, 1000):
        page.set_viewport_size({"width": width, "height": 1000})
        notebook.still()
        assert min(page.evaluate(tracks)) > 80
        assert page.evaluate(hidden) == 0
        for place, name in enumerate(("one", "three", "six")):
            page.locator(".wa-ask").nth(place).scroll_into_view_if_needed()
            notebook.screenshot(f"ask-{name}-{width}", f".wa-ask >> nth={place}")
    notebook.narrow(".wa-ask")
    assert min(page.evaluate(tracks)) > 80
    assert page.evaluate(hidden) == 0
    notebook.screenshot("ask-three-700", ".wa-ask >> nth=1")
    page.set_viewport_size({"width": 520, "height": 1400})
    page.wait_for_function("document.querySelector('.wa-card').getBoundingClientRect().width < 430")
    assert min(page.evaluate(tracks)) > 80
    assert page.evaluate(CLIPPED.replace("wb-browser", "wa-ask").replace("wb-", "wa-")) == []
    notebook.screenshot("ask-three-520", ".wa-ask >> nth=1")


def test_a_change_from_elsewhere_is_said_and_a_pair_is_of_this_passage(asked, notebook):
    page = asked("elsewhere", f"asker = ask(fast, '{TEXT} keeper')\nasker", "asker")
    page.wait_for_selector(".wa-ask >> nth=1")
    wait_for(page, "answered")
    here, other = (page.locator(".wa-ask").nth(n) for n in (0, 1))
    assert here.locator(".wa-status").inner_text() == "answered"
    notebook.evaluate("asker.text = 'A storm. Then the boat'")
    for view in (here, other):
        view.locator(".wa-changed:text-matches('^Changed by another cell or view at \\\\d')").wait_for()
    text = here.locator(".wa-text")
    text.first.fill(f"{TEXT} storm")
    here.locator(".wa-changed:text-is('')").wait_for(state="attached")
    other.locator(".wa-changed:has-text('another cell or view')").wait_for()
    assert other.locator(".wa-text").first.input_value() == f"{TEXT} storm"
    notebook.screenshot("ask-elsewhere", ".wa-ask >> nth=1")

    pair = here.locator(".wa-button", has_text="Minimal pair")
    pair.click()
    text.nth(1).fill("An edited version. Then the storm")
    pair.click()
    pair.click()
    assert text.nth(1).input_value() == "An edited version. Then the storm"
    pair.click()
    text.first.fill("Another passage. Then the rock")
    pair.click()
    assert text.nth(1).input_value() == "Another passage. Then the rock"
