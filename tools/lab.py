"""Start JupyterLab on the tour, from the repository's folder."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOUR = "notebooks/00_tour.ipynb"


def has_browser() -> bool:
    """Tell whether there is a display with a browser on it."""
    if sys.platform.startswith("linux") and not (
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    ):
        return False
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True


def command(*, root: bool, browser: bool, port: str, ip: str) -> list[str]:
    """Return the command line; a port that is taken moves on to the next free one."""
    parts = [
        str(Path(sys.executable).with_name("jupyter-lab")),
        f"--ServerApp.root_dir={ROOT}",
        f"--LabApp.default_url=/lab/tree/{TOUR}",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=50",
        f"--ServerApp.ip={ip}",
    ]
    return parts + ["--allow-root"] * root + ["--no-browser"] * (not browser)


def main() -> None:
    """Become JupyterLab."""
    if Path("/.dockerenv").exists() and not os.environ.get("IP"):
        print("lab: in a container; to reach it from outside: make lab IP=0.0.0.0", flush=True)
    line = command(
        root=os.geteuid() == 0,
        browser=has_browser(),
        port=os.environ.get("PORT") or "8888",
        ip=os.environ.get("IP") or "localhost",
    )
    os.chdir(ROOT)
    os.execv(line[0], line)  # noqa: S606 (no shell on purpose)


if __name__ == "__main__":
    main()
