"""Set up the workbench with nothing but python3: uv, the environment, KenLM's programs, a browser.

uv goes to ``.tools/uv``, the environment (``requirements.lock``, the language model of ``models.lock``, the
project itself) to ``.venv``, KenLM's programs to ``.tools/kenlm/bin``; they are compiled while the packages
are installed. A set-up that is current is left as it is. With ``--cpu 1`` torch's build for processors is
installed, without the libraries for GPUs, and later set-ups keep to that until ``--cpu 0``.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import multiprocessing
import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import kenlm_build
from steps import ROOT, TOOLS, SetupError, apt_install, output, run, say, settings, step

UV_VERSION, PYTHONS = "0.13.8", ">=3.11,<3.13"
VENV = ROOT / ".venv"
PYTHON, STAMP = VENV / "bin" / "python", VENV / "workbench-stamp"
LOCK_FILE, MODELS_LOCK = ROOT / "requirements.lock", ROOT / "models.lock"
QUIET = [] if sys.stderr.isatty() else ["--quiet"]  # a terminal shows uv's bars
CONVERT = (
    "from workbench.models.pretrained import gguf, known; gguf.convert(known.find_model('smollm2-135m'))"
)
HEADERS = "import os, sysconfig; print(os.path.exists(sysconfig.get_path('include') + '/Python.h'))"
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
LATEX = ("texlive-latex-base", "texlive-latex-recommended")


def find_uv() -> Path:
    """Return a uv of the pinned version, installed into a private folder where there is none."""
    home, log = TOOLS / "uv", TOOLS / "uv.log"
    private = home / "bin" / "uv"
    for program in (private, shutil.which("uv") or private):
        if output([program, "--version"]).startswith(f"uv {UV_VERSION}"):
            return Path(program)
    make = [sys.executable, "-m", "venv", "--clear", home]
    with step(f"uv {UV_VERSION} into .tools/uv"):
        if not run(make, log=log) and not (apt_install("python3-venv") and run(make, log=log)):
            raise SetupError("python3 has no module venv: install python3-venv, then try again")
        if not run([home / "bin" / "python", "-m", "pip", "install", "--quiet", f"uv=={UV_VERSION}"]):
            raise SetupError("cannot install uv, see above: a package index must be reachable")
    return private


def find_compiler() -> str:
    """Return the C++ compiler (the kenlm package has no wheels), installed where that is possible."""
    for name in (os.environ.get("CXX", ""), "c++", "g++", "clang++"):
        if name and shutil.which(name.split()[0]):
            return name
    if apt_install("g++"):
        return "g++"
    raise SetupError("no C++ compiler: install g++ (kenlm is compiled from source), then try again")


def find_python(uv: Path) -> list[str]:
    """Return uv's options for the system's Python if it has the headers for kenlm, else for uv's own."""
    python = output([uv, "python", "find", "--system", PYTHONS])
    version = output([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"])
    if version and (output([python, "-c", HEADERS]) == "True" or apt_install(f"python{version}-dev")):
        return ["--python", python]
    return ["--managed-python", "--python", PYTHONS]


def set_up(cpu: bool | None) -> None:  # noqa: FBT001 - of the command line
    """Bring ``.venv`` to the lock and the project, and build KenLM's programs meanwhile.

    Torch's build stays as it is where `cpu` is None.
    """
    stamp = STAMP.read_text(encoding="utf-8") if STAMP.exists() and PYTHON.exists() else ""
    cpu = stamp.endswith(" cpu") if cpu is None else cpu
    files = (LOCK_FILE, MODELS_LOCK, ROOT / "pyproject.toml", Path(__file__))
    digest = hashlib.sha256(str(ROOT).encode() + b"".join(file.read_bytes() for file in files)).hexdigest()
    wanted = digest + " cpu" * cpu
    if stamp == wanted:
        kenlm_build.ensure(find_uv, find_compiler)
        return
    if not stamp:
        size = "3.5 GB" if cpu else "8 GB (5 of them for GPUs: make setup CPU=1 leaves those out)"
        say(f"2 to 7 minutes and {size} of disk, once; {shutil.disk_usage(ROOT).free / 1e9:,.0f} GB are free")
    find_compiler()  # the package kenlm is compiled
    uv = find_uv()
    programs = multiprocessing.Process(target=kenlm_build.ensure_beside, args=(find_uv, find_compiler))
    programs.start()
    try:
        make_environment(uv, is_new=not stamp, cpu=cpu)
    finally:
        programs.join()
    STAMP.write_text(wanted, encoding="utf-8")


def make_environment(uv: Path, *, is_new: bool, cpu: bool) -> None:
    """Install the packages of the lock and the project into ``.venv``, which is made where it is missing."""
    if is_new:
        with step("new .venv"):
            must([uv, "venv", "--quiet", "--clear", "--no-project", *find_python(uv), VENV])
    STAMP.write_text("unfinished" + " cpu" * cpu, encoding="utf-8")  # the next set-up goes on from here
    options = [*QUIET, "--python", PYTHON]
    with step("packages into .venv"):
        lock_file = lock_for_processors() if cpu else LOCK_FILE
        must([uv, "pip", "sync", *options, "--compile-bytecode", "--require-hashes", lock_file, MODELS_LOCK])
    if cpu:  # it lies in an index of its own, and the lock has no digests of it
        index = os.environ.get("TORCH_INDEX")
        source = ["--default-index", index] if index else ["--torch-backend", "cpu"]
        newest = re.findall(r"^torch==([\w.]+)", LOCK_FILE.read_text(encoding="utf-8"), re.MULTILINE)[0]
        with step("torch for processors into .venv"):
            must([uv, "pip", "install", *options, "--no-deps", *source, f"torch<={newest}"])
    with step("the project itself into .venv"):
        must([uv, "pip", "install", *options, "--no-deps", "-e", ROOT])
    with step("the language model converted into the cache"):
        if not run([PYTHON, "-c", CONVERT]):
            say("it is converted when it is first used")


def lock_for_processors() -> Path:
    """Return a copy of the lock without torch and the packages with its libraries for GPUs."""
    entries = re.split(r"\n(?=[A-Za-z0-9])", LOCK_FILE.read_text(encoding="utf-8").strip())
    for_gpus = re.compile(r"(?:torch|triton|(?:nvidia|cuda)-[\w-]+)(?:\[[\w,-]+\])?==")
    file = TOOLS / "requirements-cpu.txt"
    file.write_text("\n".join(entry for entry in entries if not for_gpus.match(entry)), encoding="utf-8")
    return file


def must(command: Sequence[object]) -> None:
    """Run uv, and stop the set-up where it fails; uv has said why."""
    if not run(command, env=settings()):
        raise SetupError(f"'uv {command[1]} {command[2]}' failed, see above; what is done so far is kept")


def find_test_programs() -> None:
    """Look for the Chromium and the LaTeX of the tests, and install them where that is possible."""
    if not any(map(shutil.which, BROWSERS)) and not any(map(apt_install, BROWSERS[:2])):
        say("no Chromium on the PATH: the browser tests will be skipped (install the package chromium)")
    if shutil.which("pdflatex") is None and not apt_install(*LATEX):
        say(f"no pdflatex on the PATH: tests of LaTeX will be skipped (install {' and '.join(LATEX)})")


def main() -> int:
    """Do what the command line asks for; without options the usual set-up."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cpu", choices=("0", "1"), help="1: torch without libraries for GPUs, from now on")
    parser.add_argument("--test", action="store_true", help="also look for Chromium and LaTeX for the tests")
    parser.add_argument("--programs", action="store_true", help="only KenLM's programs, no environment")
    parser.add_argument("--uv", nargs=argparse.REMAINDER, help="only run uv with what follows")
    options = parser.parse_args()
    TOOLS.mkdir(parents=True, exist_ok=True)
    try:
        with (TOOLS / "setup.lock").open("w", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # one set-up at a time in this checkout
            if options.uv:
                must([find_uv(), *options.uv])
            elif options.programs:
                kenlm_build.ensure(find_uv, find_compiler)
            else:
                set_up(None if options.cpu is None else options.cpu == "1")
            if options.test:
                find_test_programs()
    except (SetupError, KeyboardInterrupt) as problem:
        say(str(problem) or "stopped; the next set-up goes on from here")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
