"""What the set-up's scripts share: folders, steps with their times, programs, system packages."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = Path(os.environ.get("WORKBENCH_TOOLS") or ROOT / ".tools")  # named where a package is installed


class SetupError(Exception):
    """A reason, in one line, why the set-up cannot go on."""


def say(message: str) -> None:
    """Print one line at once, in order with what the programs print."""
    print(f"setup: {message}", flush=True)


@contextmanager
def step(what: str) -> Iterator[None]:
    """Say what is done, and how long it took."""
    start = time.monotonic()
    say(f"{what} ...")
    yield
    say(f"{what}: {time.monotonic() - start:.0f} s")


def settings() -> dict[str, str]:
    """Return the environment for uv, which is told of pip's package index and certificates."""
    env = dict(os.environ)
    for uv_name, pip_name in (("UV_DEFAULT_INDEX", "index-url"), ("SSL_CERT_FILE", "cert")):
        configured = [sys.executable, "-m", "pip", "config", "get", f"global.{pip_name}"]
        if value := env.get("PIP_" + pip_name.upper().replace("-", "_")) or output(configured):
            env.setdefault(uv_name, value)
    return env


def output(command: Sequence[object]) -> str:
    """Return what a program prints, stripped; nothing where it fails or is not there."""
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def run(command: Sequence[object], *, log: Path | None = None, env: dict[str, str] | None = None) -> bool:
    """Run a program in the repository and return whether it succeeded; its output is shown, or logged."""
    words = [str(word) for word in command]
    try:
        with log.open("a", encoding="utf-8") if log else nullcontext() as file:
            done = subprocess.run(words, cwd=ROOT, env=env, stdout=file, stderr=file, check=False)
    except OSError as problem:
        say(str(problem))
        return False
    return done.returncode == 0


def apt_install(*packages: str) -> bool:
    """Install system packages as root on Debian and its kin; return whether they are installed now."""
    if os.environ.get("WORKBENCH_NO_APT") or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return False
    env, log = dict(os.environ, DEBIAN_FRONTEND="noninteractive"), TOOLS / "apt.log"
    apt = ["apt-get", "-o", "DPkg::Lock::Timeout=120"]
    with step(f"apt-get install {' '.join(packages)}"), (TOOLS / "apt.lock").open("w") as one:
        fcntl.flock(one, fcntl.LOCK_EX)  # the build of KenLM may need packages at the same time
        run([*apt, "update"], log=log, env=env)
        return run([*apt, "install", "-y", "--no-install-recommends", *packages], log=log, env=env)
