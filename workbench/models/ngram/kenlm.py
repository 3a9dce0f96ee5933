"""KenLM's programs: n-gram models estimated by ``lmplz``, made binary by ``build_binary``."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from workbench.storage.errors import DataError
from workbench.storage.files import atomic_path, temporary_folder
from workbench.storage.paths import programs_home, resource
from workbench.storage.progress import progress_bar

_HINT = "run `workbench setup`, which builds it, or conda install -c conda-forge kenlm"
_DISCOUNTS = re.compile(r"^\d+ \d+(?:/\d+)? D1=(\S+) D2=(\S+) D3\+=(\S+)$", re.MULTILINE)
_NO_DISCOUNTS = "Substituting fallback discounts"
_HINTS = (
    (
        re.compile(r"No space left|File too large|Disk quota|SIGXFSZ|SIGBUS"),
        "make room, or let temporary= name a folder on another disk",
    ),
    (
        re.compile(r"MallocException|bad_alloc|Cannot allocate memory|Cannot create thread|SIGKILL|SIGTERM"),
        "memory may have run out: use less of it (memory=)",
    ),
    (
        re.compile(r"total memory|Not enough memory|minimum block size"),
        "use more memory (memory=)",
    ),
    (
        re.compile("Bad backoff -inf"),  # of a discount of 0, in a small text
        "predict with the model as it is, or fit it on more text",
    ),
)
"""Patterns in a program's log, or the signal that ended it, and what to do."""


def estimate(
    text: Iterable[bytes],
    prefix: Path,
    *,
    order: int,
    pruning: Sequence[int] | None = None,
    memory: str = "2G",
    blocks: int | None = None,
) -> dict[str, Any]:
    """Estimate a model with interpolated modified Kneser-Ney smoothing (Heafield et al. 2013).

    The text goes through a pipe, so no copy of it is made.

    Parameters
    ----------
    text : iterable of bytes
        Blocks of whole lines; a line is a sentence, words separated by spaces, none of them one that
        ``lmplz`` reserves.
    prefix : Path
        Beginning of the names of the files to write (:mod:`workbench.models.ngram.kenlm_records`). Their
        folder also has the temporary files, some 20 bytes per token and order; what a failure leaves there is
        for the caller to remove.
    order : int
        Length of the longest n-grams.
    pruning : sequence of int, optional
        Thresholds: 0 for order 1, as ``lmplz`` keeps all words, and none lower than the one before.
    memory : str
        Memory for sorting, as in ``2G`` or ``50%``; lmplz needs some more for the words.
    blocks : int, optional
        Number of blocks, for the progress bar.

    Returns
    -------
    dict
        ``fallback_discounts``: whether some order has the fixed discounts 0.5, 1 and 1.5, as its own could
        not be computed. ``discounts``: for each order those of adjusted counts 1, 2, and 3 or more
        (Chen and Goodman 1998, equation 26).

    Raises
    ------
    DataError
        If memory or disk do not suffice, or the program is killed or missing.
    """
    folder = prefix.parent
    program, options = find_program("lmplz"), ("-o", str(order), "-S", memory, "-T", f"{folder}/")
    command: list[str | Path] = [program, *options, "--intermediate", prefix.absolute()]
    command += ["--discount_fallback"]  # only for orders whose own discounts cannot be computed
    command += ["--prune", *map(str, pruning)] if pruning else []
    log = run_program(command, folder=folder, text=text, blocks=blocks, label="lmplz")
    if _NO_DISCOUNTS in log:
        logging.getLogger(__name__).info("lmplz cannot compute discounts; some orders have fixed ones")
    return {
        "fallback_discounts": _NO_DISCOUNTS in log,
        "discounts": [tuple(map(float, row)) for row in _DISCOUNTS.findall(log)],
    }


def build_binary(arpa: Path, binary: Path) -> None:
    """Turn a model into KenLM's own form, which is mapped into memory.

    Parameters
    ----------
    arpa : Path
        A model of order 2 or more.
    binary : Path
        The file to write, atomically.

    Raises
    ------
    DataError
        If the model is incomplete, memory or disk do not suffice, or the program is killed or missing.
    """
    with temporary_folder(binary.parent) as folder, atomic_path(binary) as target:
        program, files = find_program("build_binary"), (arpa.absolute(), target.absolute())
        command: list[str | Path] = [program, "-S", "2G", "-T", f"{folder}/", "probing", *files]
        run_program(command, folder=folder, label="build_binary")


def _message(log: str) -> str:
    """Return the message at the end of a log."""
    lines = [line.strip() for line in log.splitlines() if line.strip() not in {"", "ERROR"}]
    thrown = [number for number, line in enumerate(lines) if " threw " in line]
    return " ".join(lines[thrown[0] + 1 :] or lines[thrown[0] :] if thrown else lines[-2:])[:400]


def find_program(name: str) -> Path:
    """Return the absolute path of a program: as built here, else beside Python, else on the ``PATH``.

    Raises
    ------
    DataError
        If there is none; it says where it was looked for, and how to get it.
    """
    beside = Path(sys.executable).absolute().parent  # not resolved: of a virtual environment, not its base
    built = programs_home() / "kenlm" / "bin"
    folders = [built, beside, *map(Path, filter(None, os.environ.get("PATH", "").split(os.pathsep)))]
    for folder in folders:
        if path := shutil.which(name, path=str(folder)):
            return Path(path).absolute()
    raise DataError(
        f"the program {name!r} was not found in {', '.join(map(str, folders[:-1] or folders))}"
        " and the rest of the PATH",
        hint=_HINT,
    )


def build_programs() -> list[Path]:
    """Build KenLM's programs from its pinned sources, unless they are there; return their paths.

    The sources come from the package index that pip is set up for; their digest is that of
    ``requirements.lock``. A C++ compiler and Boost's headers are needed.

    Raises
    ------
    DataError
        If they cannot be built; the lines that were printed before say why.
    """
    script = resource("tools", "setup.py")
    environment = os.environ | {"WORKBENCH_TOOLS": str(programs_home())}
    subprocess.run([sys.executable, str(script), "--programs"], env=environment, check=False)  # noqa: S603 - ours
    return [find_program(name) for name in ("lmplz", "build_binary")]


def run_program(
    command: Sequence[str | Path],
    *,
    folder: Path,
    text: Iterable[bytes] = (),
    blocks: int | None = None,
    label: str = "KenLM",
) -> str:
    """Run one of KenLM's programs in a folder, write a text to it, show its progress, and return its log.

    Whatever happens here, Ctrl-C included, the program has ended when this returns. `blocks` is the number of
    blocks of the text, `label` that of a bar. DataError if the program fails: why, and what to do.
    """
    process = subprocess.Popen(  # noqa: S603 - found by `find_program`, with arguments of our own
        [str(argument) for argument in command],
        cwd=folder,  # what an aborted program leaves there goes with the folder
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    log: list[bytes] = []
    reader = threading.Thread(target=_drain, args=(process.stderr, log), daemon=True)
    reader.start()
    source = cast("BinaryIO", process.stdin)
    with _bar(label) as show:
        try:
            for fed, block in enumerate(text):
                try:
                    source.write(block)
                except BrokenPipeError:
                    break
                show(log, fed / blocks if blocks else 0)
            with suppress(BrokenPipeError):
                source.close()
            while process.poll() is None:
                show(log, 1)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_PAUSE)
        finally:
            process.kill()
            process.wait()
            reader.join()
            with suppress(BrokenPipeError):
                source.close()
    messages = _LINES_OF_BARS.sub("", b"".join(log).decode(errors="replace"))
    if code := process.returncode:
        ended = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        hint = next((text for pattern, text in _HINTS if pattern.search(f"{messages} {ended}")), None)
        problem = f"{Path(command[0]).name} failed: {_message(messages)} ({ended})"
        raise DataError(problem, hint=hint)
    return messages


def _drain(stream: IO[bytes], log: list[bytes]) -> None:
    with stream:
        while chunk := os.read(stream.fileno(), 1 << 16):
            log.append(chunk)


_PAUSE = 0.2  # seconds between two looks at the log
_STEP = re.compile(rb"=== (\d+)/(\d+) (.*?) ===")
_BANNER = b"95--100\n"
_LINES_OF_BARS = re.compile(r"^(?:----5---.*|\**)\n", re.MULTILINE)


def fraction(log: bytes, fed: float) -> tuple[float, str]:
    """Return the progress of a program, from 0 to 1, and the name of its step.

    The log has steps as ``=== 2/5 ... ===``, and within a step bars of 100 stars; `fed` is the share of
    the text that was written, which is the progress of the first step.
    """
    steps = list(_STEP.finditer(log))
    _, banner, bar = log[steps[-1].end() if steps else 0 :].rpartition(_BANNER)
    within = min(bar.count(b"*"), 100) / 100 if banner else 0.0
    if not steps:
        return within, ""
    step, last = int(steps[-1][1]), int(steps[-1][2])
    return (step - 1 + max(within, fed if step == 1 else 0.0)) / last, steps[-1][3].decode(errors="replace")


@contextmanager
def _bar(label: str) -> Iterator[Callable[[list[bytes], float], None]]:
    """Yield a function that shows progress by a log and the share of the text that was written."""
    seen = 0.0
    form = "{desc}: {percentage:.0f} %|{bar}| [{elapsed}{estimate}]"
    with progress_bar(100, label=label, bar_format=form) as bar:

        def show(log: list[bytes], fed: float) -> None:
            nonlocal seen
            if time.monotonic() - seen < _PAUSE:
                return
            seen = time.monotonic()
            fraction_done, doing = fraction(b"".join(log), fed)
            bar.set_description_str(f"{label}: {doing}" if doing else label, refresh=False)
            bar.n = round(100 * fraction_done)
            bar.refresh()

        yield show
        bar.n = 100
        bar.refresh()
