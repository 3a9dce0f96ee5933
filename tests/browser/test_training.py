"""The live view of a training, and what stays of it in the notebook."""

import json

import pytest
from looks import CLIPPED, CONTRAST

pytestmark = pytest.mark.browser

EVIL = "<img src=x onerror=alert(1)> $x^2$"
LOOP = f"""
import math, time
import workbench
from workbench.training.history import Training
from workbench.training.history import progress_view
training = Training(name="LSTM " + {EVIL!r}, device="cpu", steps=5000, parameters=62_100_000)
import os
os.environ.pop('TQDM_DISABLE')
view = progress_view()
view(training)
for k in range(1, 26):
    at = dict(step=200 * k, tokens=1_280_000 * k, seconds=7.0 * k)
    loss = 4.6 + 5 * math.exp(-k / 4) + (0.1, -0.1)[k % 2]
    training.history.append(at | dict(loss=loss, tokens_per_second=180_000.0 + 2_000 * (k % 3)))
    if k % 5 == 0:
        scores = dict(perplexity=90 + 500 / k, accuracy=0.2 - 1 / (5 + k), median_rank=900 / k)
        training.scores.append(at | scores)
    if k == 2:
        training.notes.append("torch.compile failed")
    view._next = math.inf if k % 6 else 1  # draw some points, however slow the machine
    view(training)
training.stopped = "finished"
view(training)
"""
DONE = "document.querySelector('.wb-state')?.textContent === 'finished'"
OURS = [(script.replace(".wb-browser", ".wb-training")) for script in (CLIPPED, CONTRAST)]


def html(output):
    text = output["data"]["text/html"]
    return text if isinstance(text, str) else "".join(text)


def saved(lab, notebook):
    """Save the notebook and return it, after a look at what it keeps."""
    notebook.command("docmanager:save")
    notebook.page.wait_for_function("!window.jupyterapp.shell.currentWidget.context.model.dirty")
    content = json.loads((lab.folder / "training.ipynb").read_text(encoding="utf-8"))
    first, second = (cell["outputs"] for cell in content["cells"])
    assert [output["output_type"] for output in first] == ["display_data"]  # no widget, no text, no error
    for output in (first[0], second[0]):
        assert "torch.compile failed" in html(output)
        assert html(output).count("<svg") == 1
        assert len(html(output).encode()) < 60_000
    return content


def test_one_output_that_grows_and_stays_also_in_a_notebook_that_is_not_trusted(lab, notebook):
    page = notebook.page
    notebook.open(lab.write("training.ipynb", LOOP, "training"))
    page.evaluate(
        """() => {
            window.seen = [];
            new MutationObserver(() => {
                const all = [...document.querySelectorAll('.jp-Cell:first-child .wb-training')];
                const now = all.map((n) => n.querySelector('.wb-step').textContent);
                if (JSON.stringify(now) !== JSON.stringify(window.seen.at(-1))) window.seen.push(now);
            }).observe(document.body, { childList: true, subtree: true, characterData: true });
        }"""
    )
    notebook.run_all()
    page.wait_for_function(f"{DONE} && document.querySelectorAll('.wb-training').length === 2")
    seen = [state for state in page.evaluate("window.seen") if state]
    assert max(map(len, seen)) == 1  # updated in place, never a second one
    steps = [int(state[0].split()[1].replace(",", "")) for state in seen]
    assert steps == sorted(steps)
    assert len(set(steps)) >= 3  # it was drawn meanwhile

    content = saved(lab, notebook)
    inside = page.locator(".wb-training")
    assert inside.locator("img, mjx-container, script").count() == 0
    assert page.locator(".wb-name").first.inner_text() == f"LSTM {EVIL}"
    assert "words per second" in inside.locator("svg").first.text_content()
    for theme in notebook.themes():
        notebook.screenshot(f"training-{theme.split()[-1].lower()}", ".jp-Cell .jp-OutputArea")
        clipped, contrast = map(page.evaluate, OURS)
        assert clipped == []
        assert contrast == []

    content["cells"][0]["source"] = "pass"  # somebody else's notebook, which shows the numbers alone
    (lab.folder / "training-foreign.ipynb").write_text(json.dumps(content), encoding="utf-8")
    notebook.open("training-foreign.ipynb")
    opened = page.locator(".jp-NotebookPanel:visible", has=page.locator(".wb-training:not(:has(svg))"))
    opened.locator(".wb-best").first.wait_for()
    assert opened.locator(".wb-training svg").count() == 0
    assert opened.locator(".wb-curves").first.is_hidden()  # or the labels would stand there in a heap
    assert "best perplexity" in opened.locator(".wb-best").first.inner_text()
    notebook.screenshot("training-untrusted", ".jp-NotebookPanel:visible .jp-Cell .jp-OutputArea")
