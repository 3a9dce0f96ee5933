"""Set up the workbench with nothing but python3: uv, the environment, KenLM's programs, a browser.

uv goes to ``.tools/uv``, the environment (exactly ``requirements.lock``, without what only tests and
benchmarks need unless ``--dev`` is given, the language model of ``models.lock``, then the project itself) to
``.venv``, KenLM's programs to ``.tools/kenlm/bin``; they are compiled while the packages are installed. A
set-up that is current is left as it is; one that was killed starts again. With ``--cpu`` torch's build for
processors is installed, without the libraries for GPUs, and later set-ups keep to that until ``--gpu``. This
file and those it imports run on Python 3.8.
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import kenlm_build
from steps import ROOT, TOOLS, VENV, SetupError, apt_install, output, run, run_shown, say, settings, step

UV_VERSION = "0.13.8"
PYTHONS = ("3.11", "3.12")
PROJECT = "lambada-workbench"
STAMP = VENV / "workbench-stamp"
LOCK_FILE = ROOT / "requirements.lock"
MODELS_LOCK = ROOT / "models.lock"
CONVERT = (
    "from workbench.models.pretrained import gguf, known; gguf.convert(known.find_model('smollm2-135m'))"
)
BROWSERS = (
    "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable",
)  # fmt: skip
LATEX = ("texlive-latex-base", "texlive-latex-recommended")
OLDEST = (3, 8)
MINUTES = "2 to 7"  # on two cores: 1.7 of work, and the download
GIGABYTES = {"lab": 7.4, "dev": 7.8, "lab cpu": 3.1, "dev cpu": 3.5}  # of disk
GPU_PACKAGES = re.compile(r"(nvidia|cuda)-|triton$")


@contextmanager
def only_one() -> Iterator[None]:
    """Let one set-up at a time work in this checkout; the others wait."""
    TOOLS.mkdir(parents=True, exist_ok=True)
    with (TOOLS / "setup.lock").open("w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say("another set-up is at work here, waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def fingerprint(root: Path = ROOT) -> str:
    """Return a hash of all that the environment follows from: lock, project, these scripts, the place."""
    digest = hashlib.sha256(str(root).encode())
    for name in ("requirements.lock", "models.lock", "pyproject.toml", "tools/setup.py", "tools/steps.py"):
        digest.update((root / name).read_bytes())
    return digest.hexdigest()


def stamped() -> tuple[str, str]:
    """Return the fingerprint that ``.venv`` was made by, and its packages: "lab" or "dev", then " cpu"."""
    if not (STAMP.exists() and (VENV / "bin" / "python").exists()):
        return "", ""
    fingerprint, _, packages = STAMP.read_text(encoding="utf-8").partition(" ")
    return fingerprint, packages


def without_dev(lock: str, project: str) -> str:
    """Return a lock without the packages that only the extras ``dev`` and ``docs`` ask for."""
    blocks = re.findall(r"^(?:dev|docs) = \[\n(.*?)^\]", project, re.MULTILINE | re.DOTALL)
    extra = {_plain(name) for name in re.findall(r'^\s*"([\w.-]+)', "".join(blocks), re.MULTILINE)}
    askers: dict[str, set[str]] = {}
    for name, part in entries(lock):
        via = re.findall(r"^    #(?: via|  ) +([A-Za-z0-9][\w.-]*)", part, re.MULTILINE)
        askers.setdefault(name, set()).update(map(_plain, via))
    own = _plain(PROJECT)
    needed = {name for name, by in askers.items() if own in by and name not in extra}
    while more := {name for name, by in askers.items() if name not in needed and by & needed}:
        needed |= more
    return _without(lock, lambda name: name not in needed)


def without_gpu(lock: str) -> str:
    """Return a lock without torch and the packages with its libraries and its compiler for GPUs."""
    return _without(lock, lambda name: name == "torch" or GPU_PACKAGES.match(name) is not None)


def entries(lock: str) -> list[tuple[str, str]]:
    """Return the entries of a lock, each with the name of its package."""
    parts = re.split(r"\n(?=[A-Za-z0-9])", lock.strip())
    return [(_plain(re.split(r"[\[=]", part, maxsplit=1)[0]), part) for part in parts]


def _without(lock: str, leave_out: Callable[[str], bool]) -> str:
    return "\n".join([*(part for name, part in entries(lock) if not leave_out(name)), ""])


def _plain(name: str) -> str:
    """Return the name of a package as all its spellings have it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def find_uv() -> Path:
    """Return a uv of the pinned version, installed into a private folder where there is none."""
    private = TOOLS / "uv" / "bin" / "uv"
    for program in (private, Path(shutil.which("uv") or private)):
        if output([program, "--version"]).startswith(f"uv {UV_VERSION}"):
            return program
    with step(f"uv {UV_VERSION} into .tools/uv"):
        if not _install_uv(private) and not (
            apt_install("python3-venv", "python3-pip") and _install_uv(private)
        ):
            raise SetupError(
                "cannot install uv: python3 needs its venv module or pip (package python3-venv) "
                "and a package index that can be reached"
            )
    return private


def _install_uv(private: Path) -> bool:
    """Install uv with pip, in an environment of its own or, without the venv module, in a folder."""
    home = private.parent.parent
    env = settings()
    quiet = TOOLS / "uv.log"
    package = ["install", "--quiet", f"uv=={UV_VERSION}"]
    shutil.rmtree(home, ignore_errors=True)
    if run([sys.executable, "-m", "venv", home], log=quiet):
        return run([home / "bin" / "python", "-m", "pip", *package], env=env)
    shutil.rmtree(home, ignore_errors=True)
    if not output([sys.executable, "-m", "pip", "--version"]):
        return False
    return run([sys.executable, "-m", "pip", *package, "--target", home], env=env)


def find_compiler() -> str:
    """Return the C++ compiler (the kenlm package has no wheels), installed where that is possible."""
    for _ in range(2):
        for name in (os.environ.get("CXX", ""), "c++", "g++", "clang++"):
            if name and shutil.which(name.split()[0]):
                return name
        if not apt_install("g++"):
            break
    raise SetupError("no C++ compiler: install g++ (kenlm is compiled from source), then try again")


def find_python(uv: Path) -> str:
    """Return a Python the project runs on, with the headers that kenlm is compiled against."""
    without_headers = ""
    for version in PYTHONS:
        python = output([uv, "python", "find", "--system", version])
        if not python:
            continue
        if _has_headers(python) or (apt_install(f"python{version}-dev") and _has_headers(python)):
            return python
        without_headers = without_headers or version
    with step(f"no usable Python here, uv gets its own {PYTHONS[0]}"):
        run([uv, "python", "install", PYTHONS[0]], env=settings())
    python = output([uv, "python", "find", "--managed-python", PYTHONS[0]])
    if python:
        return python
    if without_headers:
        raise SetupError(f"Python {without_headers} has no headers: install python{without_headers}-dev")
    raise SetupError(f"no Python {' or '.join(PYTHONS)}, and uv could not fetch one: install python3.11-dev")


def _has_headers(python: str) -> bool:
    """Tell whether extension modules can be compiled for a Python."""
    code = "import os, sysconfig; print(os.path.exists(sysconfig.get_path('include') + '/Python.h'))"
    return output([python, "-c", code]) == "True"


def set_up(*, dev: bool, cpu: bool | None = None) -> None:
    """Bring ``.venv`` to the lock and the project, and build KenLM's programs meanwhile.

    What is installed stays: packages for tests, and torch's build where `cpu` is None.
    """
    wanted = fingerprint()
    made_by, present = stamped()
    cpu = present.endswith(" cpu") if cpu is None else cpu
    dev = dev or present.startswith("dev")
    packages = ("dev" if dev else "lab") + " cpu" * cpu
    if (made_by, present) == (wanted, packages):
        kenlm_build.ensure(find_uv, find_compiler)
        return
    if not present:
        free = shutil.disk_usage(str(ROOT)).free / 1e9
        libraries = "" if cpu else "; 5 GB are for GPUs, and left out by make setup CPU=1"
        say(f"{MINUTES} minutes and {GIGABYTES[packages]} GB of disk, once (free: {free:,.0f} GB{libraries})")
    find_compiler()  # the package kenlm is compiled
    uv = find_uv()
    programs = multiprocessing.Process(target=kenlm_build.ensure_beside, args=(find_uv, find_compiler))
    programs.start()
    try:
        make_environment(uv, wanted, packages)
    finally:
        programs.join()


def make_environment(uv: Path, wanted: str, packages: str) -> None:
    """Install the packages of the lock and the project into ``.venv``, which is made where it is missing."""
    python = VENV / "bin" / "python"
    if STAMP.exists() and python.exists():
        STAMP.unlink()  # one that is killed from here on starts from nothing
    else:
        base = find_python(uv)
        with step(f"new .venv with {base}"):
            _must([uv, "venv", "--quiet", "--clear", "--no-project", "--python", base, VENV])
    checked = ["--compile-bytecode", "--require-hashes", "--python", python]
    cpu = packages.endswith(" cpu")
    try:
        with step(
            f"packages into .venv{'' if packages.startswith('dev') else ', those for tests left out'}",
            own_lines=True,
        ):
            _must_shown([uv, "pip", "sync", *checked, lock_for(packages), MODELS_LOCK])
        if cpu:
            with step("torch for processors into .venv", own_lines=True):
                _must_shown(
                    [uv, "pip", "install", "--no-deps", *checked, "-r", torch_lock(uv), *torch_source()]
                )
        with step("the project itself into .venv"):
            _must([uv, "pip", "install", "--quiet", "--no-deps", "--python", python, "-e", ROOT])
    except SetupError:  # no network, mostly: what is there stays, and the next set-up goes on
        STAMP.write_text(f"unfinished {packages}", encoding="utf-8")
        raise
    with step("the language model converted into the cache"):
        if not run([python, "-c", CONVERT.format(name="smollm2-135m")]):
            say("it is converted when it is first used")
    STAMP.write_text(f"{wanted} {packages}", encoding="utf-8")


def lock_for(packages: str) -> Path:
    """Return the file with what is to be installed: the lock, or a copy without what is left out."""
    if packages == "dev":
        return LOCK_FILE
    text = LOCK_FILE.read_text(encoding="utf-8")
    if packages.startswith("lab"):
        text = without_dev(text, (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    if packages.endswith(" cpu"):
        text = without_gpu(text)
    file = TOOLS / f"requirements-{packages.replace(' ', '-')}.txt"
    file.write_text(text, encoding="utf-8")
    return file


def torch_source() -> list[str]:
    """Return uv's options for the index with torch's builds for processors: its own, or ``TORCH_INDEX``."""
    index = os.environ.get("TORCH_INDEX")
    return ["--default-index", index] if index else ["--torch-backend", "cpu"]


def torch_lock(uv: Path) -> Path:
    """Return a file with the version and digests of torch's build for processors.

    The usual index has none, so ``requirements.lock`` cannot have its digests. They are those that its index
    gives at the first set-up; later ones check what they get by them. The version is that of the lock, or the
    newest below it that the index has.
    """
    locked = re.search(r"^torch==([\w.]+)", LOCK_FILE.read_text(encoding="utf-8"), re.MULTILINE)
    bound = re.search(r'"(torch>=[\w.]+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    if locked is None or bound is None:
        raise SetupError("requirements.lock and pyproject.toml do not both name torch")
    asked, source, file = TOOLS / "torch.in", torch_source(), TOOLS / "requirements-torch-cpu.txt"
    heading = f"# {bound.group(1)},<={locked.group(1)} {' '.join(source)}\n"
    if not (file.exists() and file.read_text(encoding="utf-8").startswith(heading)):
        file.unlink(missing_ok=True)
        asked.write_text(f"{bound.group(1)},<={locked.group(1)}\n", encoding="utf-8")
        options = ["--quiet", "--no-deps", "--generate-hashes", "--no-header", "--no-annotate"]
        fresh = TOOLS / "torch.new"
        python = ["--python", VENV / "bin" / "python"]
        _must([uv, "pip", "compile", *options, *python, *source, "-o", fresh, asked])
        file.write_text(heading + fresh.read_text(encoding="utf-8"), encoding="utf-8")
        fresh.unlink()
    return file


def _must(command: Sequence[object]) -> None:
    """Run uv, and stop the set-up where it fails; uv has said why."""
    _check(command, done=run(command, env=settings()))


def _must_shown(command: Sequence[object]) -> None:
    """Do what `_must` does, with uv's own bars and sizes of what it downloads."""
    _check(command, done=run_shown(command, env=settings()))


def _check(command: Sequence[object], *, done: bool) -> None:
    if not done:
        raise SetupError(f"'uv {command[1]} {command[2]}' failed, see above; what is done so far is kept")


def find_browser() -> None:
    """Look for the Chromium that the browser tests drive, and install it where that is possible.

    Best is the shell without windows: a new page costs a third of the processor time.
    """
    if shutil.which(BROWSERS[0]) or apt_install(BROWSERS[0]):
        return
    if not any(map(shutil.which, BROWSERS)) and not apt_install(BROWSERS[1]):
        say("no Chromium on the PATH: the browser tests will be skipped (install the package chromium)")


def find_latex() -> None:
    """Look for the LaTeX that compiles tables in tests, and install it where that is possible."""
    if shutil.which("pdflatex") is None and not apt_install(*LATEX):
        say(f"no pdflatex on the PATH: tests of LaTeX will be skipped (install {' and '.join(LATEX)})")


def lock(arguments: Sequence[str]) -> None:
    """Resolve ``requirements.lock`` anew from ``pyproject.toml``."""
    command = ["pip", "compile", "--quiet", "--universal", "--generate-hashes", "--all-extras", "--no-header"]
    target = ["--python-version", PYTHONS[0], "-o", LOCK_FILE.name]
    with step("requirements.lock"):
        _must([find_uv(), *command, *target, *arguments, "pyproject.toml"])


def check_python() -> None:
    """Refuse to set up with a Python that is too old for these scripts."""
    if sys.version_info < OLDEST:
        raise SetupError("python3 is too old to set up with: 3.8 or newer is needed")


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the command line asks for; without options the usual set-up."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--dev", action="store_true", help="also what tests, benchmarks and docs need")
    torch = parser.add_mutually_exclusive_group()
    torch.add_argument(
        "--cpu", action="store_const", const=True, help="torch without the libraries for GPUs, from now on"
    )
    torch.add_argument("--gpu", dest="cpu", action="store_const", const=False, help="with them, from now on")
    parser.add_argument("--browser", action="store_true", help="also look for a Chromium for the tests")
    parser.add_argument("--latex", action="store_true", help="also look for LaTeX for the tests")
    parser.add_argument("--programs", action="store_true", help="only KenLM's programs, no environment")
    parser.add_argument("--lock", action="store_true", help="only resolve requirements.lock; more goes to uv")
    options, rest = parser.parse_known_args(argv)
    if rest and not options.lock:
        parser.error(f"unknown: {' '.join(rest)}")
    try:
        check_python()
        with only_one():
            if options.lock:
                lock(rest)
                return 0
            if options.programs:
                kenlm_build.ensure(find_uv, find_compiler)
            else:
                set_up(dev=options.dev, cpu=options.cpu)
            if options.browser:
                find_browser()
            if options.latex:
                find_latex()
    except SetupError as problem:
        say(str(problem))
        return 1
    except KeyboardInterrupt:
        say("stopped; the next set-up goes on from here")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
