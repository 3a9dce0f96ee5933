"""Build KenLM's ``lmplz`` and ``build_binary``, which estimate n-gram models, from the pinned archive.

The kenlm package only answers queries; its source archive holds the estimator as well. Nothing
here may break the set-up: without the programs all but the estimation works, and one line says why.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from steps import ROOT, TOOLS, SetupError, apt_install, output, run, say, settings, step

PROGRAMS = ("lmplz", "build_binary")
HOME = TOOLS / "kenlm"
BIN = HOME / "bin"
LOG = HOME / "build.log"
FAILED = HOME / "failed"
PACKAGES = ("libboost-program-options-dev", "libboost-thread-dev", "zlib1g-dev")
PIP, CMAKE = "pip==25.3", "cmake==3.31.6"
OLDEST_CMAKE = (3, 10)


class BuildError(Exception):
    """A reason, in one line, why the programs cannot be built."""


class DownloadError(Exception):
    """The source archive could not be had this time; another time it may."""


def name_of(file: Path) -> str:
    """Return a file's name as seen from the repository; its path where it lies elsewhere."""
    return str(file.relative_to(ROOT) if ROOT in file.parents else file)


def pinned(lock: str) -> tuple[str, list[str]]:
    """Return the version of kenlm in a lock file's text, and the digests it may have."""
    match = re.search(r"^kenlm==(\S+)(?:.*\\\n\s+--hash=sha256:[0-9a-f]{64})+", lock, re.MULTILINE)
    if match is None:
        raise BuildError("requirements.lock does not pin kenlm with its hash")
    return match.group(1), re.findall(r"sha256:([0-9a-f]{64})", match.group(0))


def present(version: str) -> bool:
    """Tell whether the programs are there: built here from this version, or on the PATH."""
    mark = BIN / "version"
    if mark.exists() and mark.read_text(encoding="utf-8") == version:
        return all((BIN / name).exists() for name in PROGRAMS)
    return all(shutil.which(name) for name in PROGRAMS)


def ensure(find_uv: Callable[[], Path], find_compiler: Callable[[], str]) -> None:
    """Build the programs unless they are there; say in one line where that cannot be done."""
    try:
        version, digests = pinned((ROOT / "requirements.lock").read_text(encoding="utf-8"))
        if not present(version):
            attempt(version, digests, find_uv, find_compiler())
    except (BuildError, DownloadError, SetupError, OSError, tarfile.TarError) as problem:
        say(f"no n-gram estimation ({' and '.join(PROGRAMS)} are not there): {problem}")


def ensure_beside(find_uv: Callable[[], Path], find_compiler: Callable[[], str]) -> None:
    """Do what `ensure` does in a process of its own, which ends quietly at Ctrl-C."""
    with contextlib.suppress(KeyboardInterrupt):
        ensure(find_uv, find_compiler)


def attempt(version: str, digests: list[str], find_uv: Callable[[], Path], compiler: str) -> None:
    """Build the programs if Boost is there and the same build has not failed before."""
    if not has_boost(compiler) and not (apt_install(*PACKAGES) and has_boost(compiler)):
        raise BuildError(f"Boost is missing, install {' '.join(PACKAGES)} (or set BOOST_ROOT)")
    script = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    key = f"{version} {os.environ.get('BOOST_ROOT', '')} {script}"
    if FAILED.exists() and FAILED.read_text(encoding="utf-8") == key:
        raise BuildError(
            f"the build failed before, see {name_of(LOG)}; remove {name_of(FAILED)} to try again"
        )
    with step(f"{' and '.join(PROGRAMS)} of kenlm {version}"):
        try:
            build(find_uv(), version, digests)
        except (BuildError, OSError, tarfile.TarError):
            FAILED.write_text(key, encoding="utf-8")
            raise
    FAILED.unlink(missing_ok=True)


def has_boost(compiler: str) -> bool:
    """Tell whether a program can be compiled and linked with the libraries that the programs need."""
    if os.environ.get("BOOST_ROOT"):
        return True
    libraries = ["-lboost_program_options", "-lboost_thread"]
    command = [*compiler.split(), "-x", "c++", "-", "-o", os.devnull, *libraries]
    code = "#include <boost/version.hpp>\nint main() {}\n"
    return subprocess.run(command, input=code, text=True, capture_output=True, check=False).returncode == 0


def build(uv: Path, version: str, digests: list[str]) -> None:
    """Download, check, unpack and compile; the finished programs appear in ``BIN`` at once."""
    work = HOME / "work"
    for folder in (work, BIN):
        shutil.rmtree(folder, ignore_errors=True)
    work.mkdir(parents=True)
    LOG.unlink(missing_ok=True)
    source = unpack(download(uv, version, digests, work), work / "source")
    relax(source / "CMakeLists.txt")
    cmake = find_cmake(uv)
    options = ["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_POLICY_VERSION_MINIMUM=3.5", "-DENABLE_INTERPOLATE=OFF"]
    _must([*cmake, "-S", source, "-B", work / "build", *options], "cmake finds something missing")
    jobs = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    targets = [word for name in PROGRAMS for word in ("--target", name)]
    _must([*cmake, "--build", work / "build", "-j", jobs, *targets], "the compiler stopped")
    ready = work / "ready"
    ready.mkdir()
    for name in PROGRAMS:
        shutil.copy2(work / "build" / "bin" / name, ready / name)
    try_out(ready, work)
    (ready / "version").write_text(version, encoding="utf-8")
    ready.rename(BIN)
    shutil.rmtree(work)


def try_out(programs: Path, work: Path) -> None:
    """Estimate a model of two sentences, and make it binary."""
    text, arpa = work / "try.txt", work / "try.arpa"
    text.write_text("she read the letter\nhe read the book\n", encoding="utf-8")
    small = ["-o", 2, "-S", "64M", "-T", work, "--discount_fallback"]
    _must([programs / "lmplz", *small, "--text", text, "--arpa", arpa], "the new lmplz does not work")
    _must([programs / "build_binary", arpa, work / "try.bin"], "the new build_binary does not work")


def _must(command: list[object], problem: str) -> None:
    """Run a program with its output in the log; its failure ends the build."""
    if not run(command, log=LOG, env=settings()):
        raise BuildError(f"{problem}, see {name_of(LOG)}")


def download(uv: Path, version: str, digests: list[str], folder: Path) -> Path:
    """Fetch the source archive from the package index that pip is set up for, and check its digest."""
    wanted = folder / "kenlm.txt"
    hashes = " ".join(f"--hash=sha256:{digest}" for digest in digests)
    wanted.write_text(f"kenlm=={version} {hashes}\n", encoding="utf-8")
    pip = [uv, "run", "--isolated", "--no-project", "--with", PIP, "python", "-m", "pip"]
    only = ["--no-deps", "--no-binary", "kenlm", "--require-hashes", "-r", wanted]
    if not run([*pip, "download", "--retries", "1", *only, "-d", folder], log=LOG, env=settings()):
        raise DownloadError(f"the source archive could not be downloaded, see {name_of(LOG)}")
    archive = next(iter(sorted(folder.glob("kenlm-*.tar.gz"))), None)
    if archive is None or hashlib.sha256(archive.read_bytes()).hexdigest() not in digests:
        raise BuildError("the source archive is not the one that requirements.lock names")
    return archive


def unpack(archive: Path, folder: Path) -> Path:
    """Write an archive's plain files under a folder and return their common top folder.

    Links, devices and names that lead out of the folder are refused.
    """
    tops = set()
    with tarfile.open(archive) as tar:
        for member in tar:
            parts = PurePosixPath(member.name).parts
            if member.name.startswith("/") or ".." in parts or not (member.isfile() or member.isdir()):
                raise BuildError(f"{archive.name} holds {member.name!r}, which is no plain file inside it")
            content = tar.extractfile(member)
            if content is None:
                continue
            tops.add(parts[0])
            target = folder.joinpath(*parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            with content, target.open("wb") as file:
                shutil.copyfileobj(content, file)
    if len(tops) != 1:
        raise BuildError(f"{archive.name} has not one folder at its top")
    return folder / tops.pop()


def relax(cmake_lists: Path) -> None:
    """Ask for the Boost libraries that the programs need: no tests, and newer Boosts have no "system"."""
    text = cmake_lists.read_text(encoding="utf-8")
    pattern = r"find_package\(Boost 1\.41\.0 REQUIRED COMPONENTS[^)]*\)"
    needed = (
        "find_package(Boost 1.41.0 REQUIRED COMPONENTS program_options thread OPTIONAL_COMPONENTS system)"
    )
    cmake_lists.write_text(re.sub(pattern, needed, text), encoding="utf-8")


def find_cmake(uv: Path) -> list[object]:
    """Return the command for CMake: the system's if it is new enough, else the wheel's through uv."""
    version = re.search(r"(\d+)\.(\d+)", output(["cmake", "--version"]))
    if version and (int(version.group(1)), int(version.group(2))) >= OLDEST_CMAKE:
        return ["cmake"]
    return [uv, "tool", "run", "--from", CMAKE, "cmake"]
