"""A real JupyterLab and a real Chromium, cut off from every other host."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Error, Page, Request, sync_playwright
from playwright.sync_api import TimeoutError as Timeout

ROOT = Path(__file__).parents[1]
BROWSERS = (
    "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable",
)  # fmt: skip
SHELL = shutil.which(BROWSERS[0])
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS[1:])), SHELL)
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]  # fmt: skip
POLL = 100  # milliseconds between two looks at a condition; at each frame they cost as much as the work
PATIENCE = 300  # seconds until something counts as a hang; slow and busy machines need far less
_QUIET = {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True}


@dataclass
class Lab:
    """A running JupyterLab.

    Attributes
    ----------
    folder, home : Path
        The folder that it serves, and where the workbench keeps its data.
    foreign : list of str
        Addresses on other hosts that a page asked for, in vain.
    """

    url: str
    token: str
    folder: Path
    home: Path
    foreign: list[str] = field(default_factory=list)

    def write(self, name: str, *cells: str) -> str:
        """Write a notebook of code cells into the folder; return its name."""
        blank: dict[str, Any] = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        notebook = {
            "nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel},
            "cells": [blank | {"id": f"cell-{n}", "source": cell} for n, cell in enumerate(cells)],
        }  # fmt: skip
        (self.folder / name).write_text(json.dumps(notebook, indent=1), encoding="utf-8")
        return name


@contextmanager
def lab(base: Path, token: str = "secret") -> Iterator[Lab]:  # noqa: S107 - for one run, on this machine only
    """Run a JupyterLab with settings of its own, all below `base`.

    Raises
    ------
    RuntimeError
        If it does not come up; the message is its log.
    """
    settings = base / "settings" / "@jupyterlab" / "apputils-extension"
    for folder in (base / "work", settings):
        folder.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text(json.dumps(_QUIET))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {
        "WORKBENCH_HOME": str(base / "home"),
        "JUPYTERLAB_SETTINGS_DIR": str(base / "settings"),
        "JUPYTER_CONFIG_DIR": str(base / "config"),
        "JUPYTER_DATA_DIR": str(base / "data"),
        "JUPYTER_RUNTIME_DIR": str(base / "runtime"),
        "IPYTHONDIR": str(base / "ipython"),
        "JUPYTER_PREFER_ENV_PATH": "1",
    }
    command = [
        sys.executable, "-m", "jupyter", "lab", "--no-browser", "--expose-app-in-browser", "--allow-root",
        "--ip=127.0.0.1", f"--port={port}", f"--IdentityProvider.token={token}",
        f"--notebook-dir={base / 'work'}", "--ServerApp.port_retries=0",
        "--JupyterNotebookApp.expose_app_in_browser=True",  # where Jupyter Notebook 7 is installed
    ]  # fmt: skip
    log = base / "lab.log"
    with log.open("w") as out:
        process = subprocess.Popen(  # noqa: S603 - the project's own
            command, env=environment, stdout=out, stderr=subprocess.STDOUT, cwd=ROOT
        )
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(4 * PATIENCE):
            try:
                urllib.request.urlopen(f"{url}/api?token={token}", timeout=PATIENCE).close()  # noqa: S310 - http, ours
                break
            except OSError:
                if process.poll() is not None:
                    raise RuntimeError(log.read_text()) from None
                time.sleep(0.25)
        else:
            raise RuntimeError(f"JupyterLab did not come up:\n{log.read_text()}")
        yield Lab(url, token, base / "work", base / "home")
    finally:
        process.terminate()
        process.wait(PATIENCE)


@contextmanager
def chromium(*flags: str, light: bool = False) -> Iterator[Browser]:
    """Start the Chromium that is on the PATH, which reaches this machine alone, with more flags than always.

    A `light` one is the shell of it that draws no windows, if there is one: a new page costs a third.

    Raises
    ------
    RuntimeError
        If there is none, or it does not start.
    """
    if CHROMIUM is None:
        raise RuntimeError("there is no Chromium on the PATH; install the package chromium")
    program = SHELL or CHROMIUM if light else CHROMIUM
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=program, args=[*FLAGS, *flags])
        except Error as error:
            reason = error.message.partition("\n")[0]
            raise RuntimeError(f"{program} does not start ({reason}); install it again") from None
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def guarded(browser: Browser, running: Lab) -> Iterator[Page]:
    """Open a page that reaches the lab and no other host; what it asks for elsewhere is noted in the lab."""
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=running.url)

    def note(request: Request) -> None:  # to decide on each request costs a tenth of a page's time
        if not request.url.startswith((running.url, "data:", "blob:")):
            running.foreign.append(request.url)

    context.on("request", note)
    page = context.new_page()
    page.set_default_timeout(1000 * PATIENCE)
    try:
        yield page
    finally:
        context.close()


class Notebook:
    """One notebook, open in a page."""

    def __init__(self, page: Page, running: Lab) -> None:
        self.page, self.lab = page, running

    def open(self, name: str) -> None:
        """Open a notebook of the lab's folder and wait for its kernel."""
        self.page.goto(f"{self.lab.url}/lab/tree/{name}?token={self.lab.token}&reset")
        self.page.wait_for_selector(".jp-Notebook .jp-CodeCell")
        self.ready()

    def ready(self) -> None:
        """Wait until the kernel is idle.

        A page that connects to a running kernel learns its status from the answer to its first question, and
        never if the kernel publishes that answer before the server listens: so the page asks again.
        """
        kernel = "window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel"
        for _ in range(PATIENCE // 10):
            try:
                self.page.wait_for_function(
                    f"() => {kernel}?.status === 'idle'", polling=POLL, timeout=10_000
                )
            except Timeout:
                self.page.evaluate(f"() => {{ {kernel}?.requestKernelInfo().catch(() => null); }}")
            else:
                return
        title, status = self.page.evaluate(
            f"() => [window.jupyterapp?.shell.currentWidget?.title.label, {kernel}?.status]"
        )
        raise RuntimeError(f"the kernel of {title or 'nothing'} is {status or 'missing'} after five minutes")

    def command(self, name: str, arguments: Mapping[str, Any] | None = None) -> None:
        """Start a command of JupyterLab, without waiting for its end."""
        start = "([n, a]) => { window.jupyterapp.commands.execute(n, a); }"
        self.page.evaluate(start, [name, arguments or {}])

    def run_all(self) -> None:
        """Start running all cells."""
        self.command("notebook:run-all-cells")

    def restart(self) -> None:
        """Restart the kernel."""
        self.page.evaluate(
            "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"
        )

    def theme(self, name: str) -> None:
        """Change the colours, to "JupyterLab Light" or "JupyterLab Dark"."""
        self.command("apputils:change-theme", {"theme": name})
        self.page.wait_for_function("n => document.body.dataset.jpThemeName === n", arg=name, polling=POLL)

    def evaluate(self, code: str) -> str:
        """Run code in the kernel and return what it prints, or the error's message."""
        printed: str = self.page.evaluate(
            """async (code) => {
                const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
                const future = kernel.requestExecute({ code });
                let out = "";
                future.onIOPub = (m) => {
                    if (m.header.msg_type === "stream") out += m.content.text;
                    if (m.header.msg_type === "error") out += m.content.evalue;
                };
                await future.done;
                return out;
            }""",
            code,
        )
        return printed.strip()
