"""One widget in one notebook of a real JupyterLab, timed inside the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from _lab import Notebook

CLOSE = "import ipywidgets, gc; ipywidgets.Widget.close_all(); gc.collect(); None"
HELPERS = """
window.bench = {
  painted(done) { // in the next frame, once it has been handed over
    requestAnimationFrame(() => {
      const channel = new MessageChannel();
      channel.port1.onmessage = () => done(performance.now());
      channel.port2.postMessage(0);
    });
  },
  run(index, ready) { // ms from the command that runs a cell to its widget's first paint
    const app = window.jupyterapp;
    app.shell.currentWidget.content.activeCellIndex = index;
    return new Promise((resolve, reject) => {
      setTimeout(() => reject(new Error("nothing was painted")), 60_000);
      const start = performance.now();
      const watch = new MutationObserver(() => {
        if (!ready()) return;
        watch.disconnect();
        this.painted((end) => resolve(end - start));
      });
      watch.observe(document.body, { subtree: true, childList: true, characterData: true });
      app.commands.execute("notebook:run-cell");
    });
  },
  arm(event, watched, ready) { // ms from the next such event to the change of an element that follows it
    let start = null;
    const heard = (e) => { start ??= e.timeStamp; };
    window.addEventListener(event, heard, { capture: true });
    this.result = new Promise((resolve, reject) => {
      setTimeout(() => reject(new Error(`nothing changed after ${event}`)), 60_000);
      const watch = new MutationObserver(() => {
        if (start === null || !ready()) return;
        watch.disconnect();
        window.removeEventListener(event, heard, { capture: true });
        this.painted((end) => resolve(end - start));
      });
      watch.observe(document.querySelector(watched), { subtree: true, childList: true, characterData: true });
    });
  },
};
"""


@dataclass(frozen=True)
class Subject:
    """What is measured: the cells that show it, and when it is there.

    Attributes
    ----------
    load, imports, show : str
        Cells: the items, what is imported beforehand when it is warm, and the widget.
    ready : str
        A JavaScript expression that is true once the first rows are in the page.
    """

    name: str
    load: str
    imports: str
    show: str
    ready: str


class Trial:
    """A subject, open in a page, with what was measured of it: milliseconds by name."""

    def __init__(self, notebook: Notebook, subject: Subject) -> None:
        self.notebook, self.page, self.subject = notebook, notebook.page, subject
        self.empty_kb = 0.0
        self.taken: dict[str, list[float]] = {}
        self.file = f"{subject.name}.ipynb"

    def open(self, *, warm: bool) -> None:
        """Open a new notebook, with a new kernel, in a new page; run all cells but the widget's."""
        before = [self.subject.load, self.subject.imports if warm else "pass"]
        self.notebook.lab.write(self.file, *before, self.subject.show)
        self.empty_kb = self.written_kb()
        self.notebook.open(self.file)
        self.page.evaluate(HELPERS)
        for index in range(len(before)):
            self.page.evaluate(
                """async (index) => {
                    const app = window.jupyterapp;
                    app.shell.currentWidget.content.activeCellIndex = index;
                    await app.commands.execute("notebook:run-cell");
                }""",
                index,
            )
        self.notebook.ready()

    def close(self) -> None:
        """Shut the kernel down."""
        self.page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")

    def first_paint(self, name: str) -> None:
        """Run the widget's cell."""
        taken = self.page.evaluate(f"window.bench.run(2, () => {self.subject.ready})")
        self.taken.setdefault(name, []).append(taken)
        self.notebook.ready()

    def again(self) -> None:
        """Take the widget away, in the page and in the kernel."""
        self.notebook.command("notebook:clear-all-cell-outputs")
        self.page.wait_for_selector(".wb-browser, .dt-container", state="detached")
        self.notebook.evaluate(CLOSE)
        self.notebook.ready()

    def time(self, name: str, act: Callable[[], None], event: str, watched: str, ready: str = "true") -> None:
        """Act, and note how long after the event the watched element had changed."""
        self.page.evaluate(f"window.bench.arm({event!r}, {watched!r}, () => {ready})")
        act()
        self.taken.setdefault(name, []).append(self.page.evaluate("window.bench.result"))

    def keys(self, name: str, text: str, watched: str) -> None:
        """Type a text, waiting for the answer to each key, then empty the box."""
        for key in text:
            self.time(name, lambda k=key: self.page.keyboard.press(k), "keydown", watched)  # type: ignore[misc]
        self.page.keyboard.press("Control+a")
        self.time(f"{name}: empty the box", lambda: self.page.keyboard.press("Delete"), "keydown", watched)

    def written_kb(self) -> float:
        """Return the size of the notebook's file."""
        return (self.notebook.lab.folder / self.file).stat().st_size / 1000

    def saved_kb(self) -> float:
        """Save the notebook as a reader does; return by how much it has grown since it was written."""
        self.page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
        return self.written_kb() - self.empty_kb
