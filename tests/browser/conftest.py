"""A notebook in a real JupyterLab, driven in a real Chromium that reaches no other host.

Tests wait for states that the page names: ``data-waits`` lists the requests that the kernel has not answered
yet, each from the moment of the click. Pictures are taken if WORKBENCH_SCREENSHOTS is set, and of failures.
"""

import os
from pathlib import Path

import _lab
import pytest

ARTEFACTS = Path(__file__).parents[1] / "artefacts"
NO_CHROMIUM = "no Chromium on the PATH: `make test` installs it as root, else install the package chromium"


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    with _lab.lab(tmp_path_factory.mktemp("lab")) as running:
        yield running


@pytest.fixture(scope="session")
def chromium():
    if _lab.CHROMIUM is None:
        pytest.skip(NO_CHROMIUM)
    with _lab.chromium() as browser:
        yield browser


class Notebook(_lab.Notebook):
    """One notebook, open in a page, that keeps pictures."""

    def still(self):
        """Wait until nothing moves."""
        self.page.wait_for_function("document.getAnimations().every((a) => a.playState !== 'running')")

    def theme(self, name):
        super().theme(name)
        self.still()

    def narrow(self, selector, height=1400):
        """Make the window 700 px wide, close the file browser, and wait until the widget fits."""
        self.page.set_viewport_size({"width": 700, "height": height})
        if self.page.locator("#jp-left-stack").is_visible():
            self.command("application:toggle-left-area")
        self.page.locator("#jp-left-stack").wait_for(state="hidden")
        self.page.wait_for_function(
            """(at) => {
                const { width } = document.querySelector(at).getBoundingClientRect();
                return width > 450 && width < 700;
            }""",
            arg=selector,
        )
        self.still()

    def screenshot(self, name, selector=None, *, always=False):
        if not (always or os.environ.get("WORKBENCH_SCREENSHOTS")):
            return
        ARTEFACTS.mkdir(exist_ok=True)
        target = self.page.locator(selector).first if selector else self.page
        target.screenshot(path=ARTEFACTS / f"{name}.png")


@pytest.fixture
def notebook(chromium, lab, request):
    failed = request.session.testsfailed
    with _lab.guarded(chromium, lab) as page:
        opened = Notebook(page, lab)
        yield opened
        if request.session.testsfailed > failed:
            opened.screenshot(f"failed-{request.node.name}", always=True)
    assert lab.foreign == [], "the page asked another host"


@pytest.fixture
def show(lab, notebook):
    """Run cells in a new notebook and wait for the passage browser in it."""

    def run(name, *cells):
        notebook.open(lab.write(f"{name}.ipynb", *cells))
        notebook.run_all()
        notebook.page.wait_for_selector(".wb-browser .wb-count:has-text(' of ')")
        return notebook.page

    return run
