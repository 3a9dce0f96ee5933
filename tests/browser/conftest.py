"""A notebook in a real JupyterLab, driven in a real Chromium that reaches no other host."""

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

    def screenshot(self, name, selector=None):
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
            opened.screenshot(f"failed-{request.node.name}")
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
