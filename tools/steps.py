"""What the set-up's scripts share: folders, steps with their times, programs, system packages.

They also come with an installed package, whose ``workbench setup`` builds KenLM's programs by them; it names
the folder for these in ``WORKBENCH_TOOLS``.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = Path(os.environ.get("WORKBENCH_TOOLS") or ROOT / ".tools")
VENV = ROOT / ".venv"
APT_FAILED = TOOLS / "apt-failed"


class SetupError(Exception):
    """A reason, in one line, why the set-up cannot go on."""


def say(message: str) -> None:
    """Print one line at once, in order with what the programs print."""
    print(f"{_clear()}setup: {message}", flush=True)


def _clear() -> str:
    """Return what removes the line on a terminal that shows the seconds of a step."""
    return "\r\033[K" if sys.stdout.isatty() else ""


@contextmanager
def step(what: str, *, own_lines: bool = False) -> Iterator[None]:
    """Say how long something took, in one line; on a terminal the seconds are shown while it is done.

    With `own_lines` they are not, as what is done shows its own progress.
    """
    start, ended = time.monotonic(), threading.Event()

    def show() -> None:
        while not ended.wait(1):
            print(f"{_clear()}setup: {what} ... {time.monotonic() - start:.0f} s", end="", flush=True)

    ticking = threading.Thread(target=show, daemon=True)
    if sys.stdout.isatty() and not own_lines:
        ticking.start()
    else:
        say(f"{what} ...")
    try:
        yield
    finally:
        ended.set()
        if ticking.is_alive():
            ticking.join()
    say(f"{what}: {time.monotonic() - start:.0f} s")


def name_of(file: Path) -> str:
    """Return a file's name as seen from the repository; its path where it lies elsewhere."""
    return str(file.relative_to(ROOT) if ROOT in file.parents else file)


def settings() -> dict[str, str]:
    """Return the environment for uv and pip, each told of the other's package index and certificates."""
    env = dict(os.environ, PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_ROOT_USER_ACTION="ignore")
    for uv_name, pip_name in (("UV_DEFAULT_INDEX", "index-url"), ("SSL_CERT_FILE", "cert")):
        variable = "PIP_" + pip_name.upper().replace("-", "_")
        asked = [sys.executable, "-m", "pip", "config", "get", f"global.{pip_name}"]
        value = env.get(variable) or _output(asked)
        if value:
            env.setdefault(uv_name, value)
        elif pip_name == "index-url" and uv_name in env:
            env[variable] = env[uv_name]
    return env


def _output(command: Sequence[str]) -> str:
    """Return what a program prints, stripped; nothing where it fails or is not there."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def output(command: Sequence[object]) -> str:
    """Return what a program prints, stripped; nothing where it fails or is not there."""
    return _output([str(part) for part in command])


def run(command: Sequence[object], *, log: Path | None = None, env: dict[str, str] | None = None) -> bool:
    """Run a program in the repository and return whether it succeeded; its output is shown, or logged."""
    parts = [str(part) for part in command]
    try:
        if log is None:
            return subprocess.run(parts, cwd=ROOT, env=env, check=False).returncode == 0
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as file:
            file.write(f"$ {' '.join(parts)}\n")
            file.flush()
            return (
                subprocess.run(parts, cwd=ROOT, env=env, stdout=file, stderr=file, check=False).returncode
                == 0
            )
    except OSError as problem:
        say(str(problem))
        return False


def run_shown(command: Sequence[object], *, env: dict[str, str]) -> bool:
    """Run uv in the repository with its own progress bars, and return whether it succeeded.

    Where its output is not a terminal it has no bars but lines, with the size of each large download; those
    that list every package are left out.
    """
    if sys.stderr.isatty():
        return run(command, env=env)
    with subprocess.Popen(
        [str(part) for part in command], cwd=ROOT, env=env, stderr=subprocess.PIPE, text=True
    ) as process:
        for line in process.stderr or ():
            if not line.startswith((" + ", " - ", " ~ ")):
                print(f"setup:   {line.strip()}", flush=True)
    return process.returncode == 0


def can_apt() -> bool:
    """Tell whether system packages can be installed: as root, on Debian and its kin."""
    allowed = not os.environ.get("WORKBENCH_NO_APT")
    return allowed and os.geteuid() == 0 and shutil.which("apt-get") is not None


def apt_install(*packages: str) -> bool:
    """Install system packages where that is possible; what failed once is not tried again.

    Returns
    -------
    bool
        Whether the packages have been installed now.
    """
    names = " ".join(packages)
    if not can_apt():
        return False
    if APT_FAILED.exists() and names in APT_FAILED.read_text(encoding="utf-8").splitlines():
        say(f"apt-get could not install {names} before; remove {name_of(APT_FAILED)} to try again")
        return False
    env = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    log = TOOLS / "apt.log"
    apt = ["apt-get", "-o", "DPkg::Lock::Timeout=120"]
    with step(f"apt-get install {names}"), (TOOLS / "apt.lock").open("w", encoding="utf-8") as one:
        fcntl.flock(one, fcntl.LOCK_EX)  # the build of KenLM may need packages at the same time
        run([*apt, "update"], log=log, env=env)
        done = run([*apt, "install", "-y", "--no-install-recommends", *packages], log=log, env=env)
    if not done:
        say(f"apt-get could not install {names}, see {name_of(log)}")
        with APT_FAILED.open("a", encoding="utf-8") as file:
            file.write(names + "\n")
    return done
