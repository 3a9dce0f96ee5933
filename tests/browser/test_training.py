"""The live picture of a training, and what stays of it in the notebook."""

import json
import xml.etree.ElementTree as ET

import pytest
from test_browser import CLIPPED, CONTRAST, THEMES

pytestmark = pytest.mark.browser

EVIL = "<img src=x onerror=alert(1)> $x^2$"
LOOP = f"""
import math, time
from workbench.training.history import Training
from workbench.training.progress import watching
training = Training(name="LSTM " + {EVIL!r}, device="cpu", steps=5000, fits="62.1M parameters, 3 minutes")
watch = watching()
watch.begin(training, 0)
for k in range(1, 26):
    watch.step(200)
    at = dict(step=200 * k, tokens=1_280_000 * k, seconds=7.0 * k)
    loss = 4.6 + 5 * math.exp(-k / 4) + (0.1, -0.1)[k % 2]
    training.history.append(at | dict(loss=loss, tokens_per_second=180_000.0 + 2_000 * (k % 3)))
    if k % 5 == 0:
        scores = dict(perplexity=90 + 500 / k, accuracy=0.2 - 1 / (5 + k), median_rank=900 / k)
        training.scores.append(at | scores)
    watch.told(training)
    time.sleep(0.1)
    if k == 2:
        watch.say("micro-batches of 16 rows, as 32 did not fit")
training.stopped = "finished"
watch.end(training)
"""
SVG = "{http://www.w3.org/2000/svg}"
DONE = "document.querySelector('.wt-state')?.textContent === 'finished'"
OURS = [(script.replace(".wb-browser", ".wt-training")) for script in (CLIPPED, CONTRAST)]


def html(output):
    told = output["data"]["text/html"]
    return told if isinstance(told, str) else "".join(told)


def saved(lab, notebook):
    """Save the notebook and return it, after a look at what it keeps."""
    notebook.command("docmanager:save")
    notebook.page.wait_for_function("!window.jupyterapp.shell.currentWidget.context.model.dirty")
    kept = json.loads((lab.folder / "training.ipynb").read_text(encoding="utf-8"))
    first, second = (cell["outputs"] for cell in kept["cells"])
    pictures = [html(o) for o in first if "text/html" in o.get("data", {})]
    assert len(pictures) == 1
    assert [o for o in first if "application/vnd.jupyter.widget-view+json" in o.get("data", {})] == []
    assert [o for o in first if o["output_type"] in {"stream", "error"}] == []
    assert "micro-batches of 16 rows" in pictures[0]
    for told in (pictures[0], html(second[0])):
        panels = list(ET.fromstring(told).iter(f"{SVG}svg"))  # noqa: S314 - ours
        assert len(panels) == 3
        assert all(len(list(svg.iter(f"{SVG}path"))) > 3 for svg in panels)
        assert len(told.encode()) < 40_000
    return kept


def test_one_output_that_grows_and_stays_also_in_a_notebook_that_is_not_trusted(lab, notebook):
    page = notebook.page
    notebook.open(lab.write("training.ipynb", LOOP, "training"))
    page.evaluate(
        """() => {
            window.seen = [];
            new MutationObserver(() => {
                const all = [...document.querySelectorAll('.jp-Cell:first-child .wt-training')];
                const now = all.map((n) => [
                    n.querySelector('.wt-step').textContent, n.offsetHeight, n.querySelectorAll('p').length,
                ]);
                if (JSON.stringify(now) !== JSON.stringify(window.seen.at(-1))) window.seen.push(now);
            }).observe(document.body, { childList: true, subtree: true, characterData: true });
        }"""
    )
    notebook.run_all()
    page.wait_for_selector(".wt-state:text-is('training')")
    page.wait_for_selector(".jp-OutputArea .widget-hbox, .jp-OutputArea .jupyter-widgets")  # the bar
    notebook.screenshot("training-live", ".jp-Cell .jp-OutputArea")
    page.wait_for_function(f"{DONE} && document.querySelectorAll('.wt-training').length === 2")
    seen = [state for state in page.evaluate("window.seen") if state]
    assert max(map(len, seen)) == 1  # updated in place, never a second one
    steps = [int(state[0][0].split()[1].replace(",", "")) for state in seen]
    assert steps == sorted(steps)
    assert len(set(steps)) >= 3  # it was drawn meanwhile ...
    assert len(set(steps)) < 20  # ... but not at every point
    assert len({height for ((_, height, lines),) in seen if height and lines == 3}) == 1  # nothing jumps

    kept = saved(lab, notebook)
    inside = page.locator(".wt-training")
    assert inside.locator("img, mjx-container, script").count() == 0
    assert page.locator(".wt-name").first.inner_text() == f"LSTM {EVIL}"
    tree = inside.first.aria_snapshot()
    for role in ['img "training loss', 'img "words per second', 'img "perplexity']:
        assert role in tree
    for theme in THEMES:
        notebook.theme(theme)
        notebook.screenshot(f"training-{theme.split()[-1].lower()}", ".jp-Cell .jp-OutputArea")
        clipped, contrast = map(page.evaluate, OURS)
        assert clipped == []
        assert contrast == []
    notebook.command("application:toggle-left-area")
    page.set_viewport_size({"width": 700, "height": 1000})
    page.wait_for_timeout(300)
    assert page.evaluate(OURS[0]) == []
    notebook.screenshot("training-700", ".jp-Cell .jp-OutputArea")

    kept["cells"][0]["source"] = "pass"  # somebody else's notebook, which shows the facts alone
    (lab.folder / "training-foreign.ipynb").write_text(json.dumps(kept), encoding="utf-8")
    notebook.command("docmanager:open", {"path": "training-foreign.ipynb"})
    opened = page.locator(".jp-NotebookPanel", has=page.locator(".wt-untrusted:visible"))
    opened.wait_for()
    assert opened.locator(".wt-training svg").count() == 0
    assert opened.locator(".wt-panels").first.is_hidden()  # or the labels would stand there in a heap
    assert "best perplexity" in opened.locator(".wt-best").first.inner_text()
    notebook.screenshot("training-untrusted", ".jp-NotebookPanel:visible .jp-Cell .jp-OutputArea")
