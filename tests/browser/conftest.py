"""A notebook in a real JupyterLab, driven in a real Chromium that reaches no other host.

Tests wait for states that the page names: ``data-waits`` lists the requests that the kernel has not answered
yet, each from the moment of the click. Pictures are taken if WORKBENCH_SCREENSHOTS is set, and of failures.

The server, the page and the kernel are started once. Each test has notebooks of its own; after it they are
closed, and the kernel forgets its names and widgets. After a test that fails, page and kernel are new.
"""

import json
import os
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import _lab
import pytest
from accessible import still, violations
from looks import CLIPPED, CONTRAST, THEMES

ARTEFACTS = Path(__file__).parents[1] / "artefacts"
NO_CHROMIUM = "no Chromium on the PATH: `make test` installs it as root, else install the package chromium"
# less processor time: no process for an absent GPU, and pages that live too briefly to be optimised
LIGHT = ("--in-process-gpu", "--js-flags=--no-opt,--max-lazy")
SIZE = {"width": 1400, "height": 1000}

OPEN = """async ([path, id]) => {
    const { commands, shell } = window.jupyterapp;
    const kernel = id ? { id } : { name: "python3" };
    const panel = await commands.execute("docmanager:open", { path, factory: "Notebook", kernel });
    await panel.context.ready;
    await panel.sessionContext.ready;
    await panel.revealed;
    shell.activateById(panel.id);
    return panel.sessionContext.session.kernel.id;
}"""
LEAVE = """async ([id, code]) => {
    const { serviceManager, shell } = window.jupyterapp;
    for (const panel of [...shell.widgets("main")]) panel.dispose();
    shell.expandLeft();
    if (!id) return;
    const kernel = serviceManager.kernels.connectTo({ model: { id, name: "python3" } });
    const late = new Promise((_, refuse) => setTimeout(() => refuse(new Error("no kernel")), 120000));
    await Promise.race([kernel.requestExecute({ code }).done, late]); // a kernel that is gone answers nothing
    kernel.dispose();
}"""
FORGET = """import os, ipywidgets
os.environ["TQDM_DISABLE"] = "1"  # as it was, where a test wanted bars
ipywidgets.Widget.close_all()
get_ipython().run_line_magic('reset', '-sf')
"""


@pytest.fixture(scope="session")
def lab(tmp_path_factory, link_converted):
    base = tmp_path_factory.mktemp("lab")
    link_converted(base / "home")
    with _lab.lab(base) as running:
        yield running


@contextmanager
def started():
    """Start Chromium; a test without one is skipped, and one that does not start fails, each in one line."""
    if _lab.CHROMIUM is None:
        pytest.skip(NO_CHROMIUM)
    with ExitStack() as stack:
        problem = None
        try:
            browser = stack.enter_context(_lab.chromium(*LIGHT, light=True))
        except RuntimeError as error:
            problem = str(error)
        if problem:  # outside of the error, whose traceback would be shown too
            pytest.fail(problem, pytrace=False)
        yield browser


@pytest.fixture(scope="session")
def chromium():
    with started() as browser:
        yield browser


class Desk:
    """The page that the tests of a session share, and the kernel of their notebooks."""

    def __init__(self, chromium, lab):
        self.chromium, self.lab = chromium, lab
        self.stack, self.page, self.kernel = ExitStack(), None, None

    def open(self):
        """Open JupyterLab, unless it is open."""
        if self.page is None:
            self.page = self.stack.enter_context(_lab.guarded(self.chromium, self.lab))
            self.page.wait_for_function = partial(self.page.wait_for_function, polling=_lab.POLL)
            try:
                self.load()
            except BaseException:  # else each test that follows would wait on a page without JupyterLab
                self.close()
                raise
        return self.page

    def load(self):
        """Load the page anew, at an address that opens no notebook: one would come back at any later time."""
        self.page.goto(f"{self.lab.url}/lab?token={self.lab.token}&reset")
        self.page.wait_for_function("() => window.jupyterapp?.restored")
        self.page.evaluate("() => window.jupyterapp.restored.then(() => null)")

    def close(self):
        """Close the page; the next one has a kernel of its own."""
        self.stack.close()
        self.page = self.kernel = None


@pytest.fixture(scope="session")
def desk(chromium, lab):
    shared = Desk(chromium, lab)
    yield shared
    shared.close()


class Notebook(_lab.Notebook):
    """One notebook, open in the shared page, that keeps pictures."""

    def __init__(self, desk):
        super().__init__(desk.open(), desk.lab)
        self.desk = desk

    def open(self, name):
        self.desk.kernel = self.page.evaluate(OPEN, [name, self.desk.kernel])
        self.page.wait_for_selector(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-CodeCell")
        self.ready()

    def leave(self):
        """Close what is open, and leave page and kernel as they were."""
        self.page.evaluate(LEAVE, [self.desk.kernel, FORGET])
        self.page.set_viewport_size(SIZE)
        if self.page.evaluate("document.body.dataset.jpThemeName") != "JupyterLab Light":
            self.theme("JupyterLab Light")

    def still(self):
        """Wait until nothing moves."""
        still(self.page)

    def theme(self, name):
        super().theme(name)
        self.still()

    def themes(self):
        """Show both themes, first the one that is shown already: a change draws all of JupyterLab anew."""
        shown = self.page.evaluate("document.body.dataset.jpThemeName")
        yield shown
        for theme in THEMES:
            if theme != shown:
                self.theme(theme)
                yield theme

    def look(self, name, root, *, axe=True):
        """Look at a widget in both themes: everybody can read and use it, and nothing is cut off."""
        prefix = root.removeprefix(".").partition("-")[0]
        for theme in self.themes():
            for code in (CONTRAST, CLIPPED):
                own = code.replace(".wb-browser", root).replace("wb-", f"{prefix}-")
                assert self.page.evaluate(own) == []
            assert not axe or violations(self.page, root) == []
            self.screenshot(f"{name}{theme.split()[-1].lower()}", root)

    def value(self, expression):
        """Return the value of an expression in the kernel, as JSON has it."""
        return json.loads(self.evaluate(f"import json; print(json.dumps({expression}))"))

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
def notebook(desk, lab, request):
    failed = request.session.testsfailed
    opened = Notebook(desk)
    yield opened
    try:
        if request.session.testsfailed > failed:
            opened.screenshot(f"failed-{request.node.name}", always=True)
            desk.close()
        else:
            opened.leave()
    except BaseException:
        desk.close()
        raise
    assert lab.foreign == [], "the page asked another host"


@pytest.fixture
def opened(lab, notebook):
    """Give a function that runs cells in a new notebook and waits for what they show; it returns the page."""

    def run(name, *cells, shows, state="visible"):
        notebook.open(lab.write(f"{name}.ipynb", *cells))
        notebook.run_all()
        notebook.page.wait_for_selector(shows, state=state)
        return notebook.page

    return run
