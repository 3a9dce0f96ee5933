"""The documentation site, built once for all tests, and what its pages ask for."""

import os
import re
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path

import filelock

ROOT = Path(__file__).parents[2]
PAGES_TO_CHECK = (
    "index", "getting_started", "tasks/compare", "gallery/widgets", "gallery/models", "gallery/tables",
    "gallery/targets", "gallery/probing",
    "data", "results", "experiments", "api/index", "api/workbench.Items", "notebooks/00_tour", "search",
)  # fmt: skip
"""One page of each form: to be checked for accessibility, and to be looked at."""


def build():
    """Return the folder of the site, and what Sphinx said; all test processes share one build."""
    folder = Path(tempfile.gettempdir()) / "site"
    with filelock.FileLock(f"{folder}.lock"):
        log = folder.with_name("site.log")
        if not log.exists():
            command = [sys.executable, ROOT / "tools/site/docs_site.py", "--out", folder]
            environment = os.environ | {"PYTHONPATH": str(ROOT)}
            ended = subprocess.run(
                command, cwd=ROOT, env=environment, check=False, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            log.write_text(f"{ended.returncode}\n{ended.stdout}", encoding="utf-8")
        status, _, said = log.read_text(encoding="utf-8").partition("\n")
    assert status == "0", said
    return folder, said


class Page(HTMLParser):
    """What a page loads, where its links lead, and the names that links can lead to."""

    def __init__(self, path):
        super().__init__()
        self.loaded, self.links, self.names = [], [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.names |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag == "a":
            self.links += [values["href"]] if values.get("href") else []
        elif address := values.get("src") or values.get("href") or values.get("data"):
            self.loaded.append(address)
        self.loaded += [part.split()[0] for part in (values.get("srcset") or "").split(",") if part.strip()]
        self.loaded += addresses(values.get("style") or "")


def addresses(style):
    """Return what a style sheet loads."""
    return re.findall(r"(?:url\(|@import\s+)\s*[\"']?([^\"')\s]+)", style)
