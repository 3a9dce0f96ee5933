"""KenLM's programs: n-gram models estimated by ``lmplz``, made binary by ``build_binary``."""

from __future__ import annotations

import logging
import operator
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
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, BinaryIO, SupportsIndex, cast

from workbench.storage.errors import DataError, reason
from workbench.storage.files import atomic_path, scratch_folder
from workbench.storage.paths import programs_home, resource
from workbench.storage.progress import progress_bar

_REMEDY = "run `workbench setup`, which builds it, or conda install -c conda-forge kenlm"
_DISCOUNTS = re.compile(r"^\d+ \d+(?:/\d+)? D1=(\S+) D2=(\S+) D3\+=(\S+)$", re.MULTILINE)
_TOKENS = re.compile(r"^Unigram tokens (\d+)", re.MULTILINE)
_MAGIC = b"mmap lm http://kheafield.com/code"
_ROOM = "make room, or let temporary= name a folder on another disk"
_MOST = 2**32 - 2  # counts have 32 bits
_NO_WEIGHT = "Bad backoff -inf"
_NO_DISCOUNTS = "Substituting fallback discounts"
_NO_ROOM = re.compile(r"No space left|File too large|Disk quota")
_NO_MEMORY = re.compile(r"MallocException|bad_alloc|Cannot allocate memory|Cannot create thread")
_SMALL = re.compile(r"total memory|Not enough memory|minimum block size")


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
        folder also has the temporary files, some 20 bytes a token and order; what a failure leaves there is
        for the caller to remove.
    order : int
        Length of the longest n-grams.
    pruning : sequence of int, optional
        Thresholds, see `check_pruning`.
    memory : str
        Memory for sorting, as in ``2G`` or ``50%``; lmplz needs some more for the words.
    blocks : int, optional
        Number of blocks, for the progress bar.
    progress : bool

    Returns
    -------
    dict
        ``fallback_discounts``: whether some order has the fixed discounts 0.5, 1 and 1.5, as its own could
        not be computed. ``discounts``: for each order those of adjusted counts 1, 2, and 3 or more
        (Chen and Goodman 1998, equation 26).

    Raises
    ------
    DataError
        If the text is empty, thresholds are wrong, memory or disk do not suffice, or the program is killed or
        missing.
    """
    if order < 1:
        raise DataError(f"an n-gram model has order 1 or more, not {order}")
    pruning = check_pruning(pruning, order)
    folder = prefix.parent
    program, options = find_program("lmplz"), ("-o", str(order), "-S", memory, "-T", f"{folder}/")
    command: list[str | Path] = [program, *options, "--intermediate", prefix.absolute()]
    command += ["--discount_fallback"]  # only for orders whose own discounts cannot be computed
    command += ["--prune", *map(str, pruning)] if pruning else []
    outcome = run_program(command, folder=folder, text=text, blocks=blocks, label="lmplz")
    if _NO_DISCOUNTS in outcome.log:
        logging.getLogger(__name__).info("lmplz cannot compute discounts; some orders have fixed ones")
    tokens = _TOKENS.search(outcome.log)
    if tokens and not int(tokens[1]):
        raise DataError("the text has no words", remedy="pass lines of words")
    _check(outcome, "lmplz", prefix, memory)
    return {
        "fallback_discounts": _NO_DISCOUNTS in outcome.log,
        "discounts": [tuple(map(float, row)) for row in _DISCOUNTS.findall(outcome.log)],
    }


def check_pruning(pruning: Sequence[int] | None, order: int) -> list[int]:
    """Return the thresholds of pruning as a list, empty for none; DataError if they cannot be applied.

    For each order, n-grams that occur up to so often are left out; the last threshold is for all higher
    orders too. That of order 1 is 0: ``lmplz`` keeps all words, and the vocabulary chooses them. The others
    never fall, so that no n-gram is listed without its parts.
    """
    if pruning is None:
        return []
    try:
        values: Iterable[object] = [pruning] if isinstance(pruning, str | bytes) else pruning
        thresholds = list(map(_whole_number, values))
    except TypeError:
        problem = f"pruning is {pruning!r:.100}, expected a sequence of whole numbers, one for each order"
        raise DataError(problem, remedy="pass the highest counts to leave out, as in (0, 0, 1)") from None
    got = f"got pruning={tuple(thresholds)!s:.100}"
    if len(thresholds) > order:
        problem = f"a model of order {order} has at most {order} thresholds; {got}"
        raise DataError(problem, remedy="pass one for each order")
    if thresholds and thresholds[0] != 0:
        problem = f"the first threshold must be 0, as words are not pruned; {got}"
        raise DataError(problem, remedy="pass vocabulary= to leave out rare words")
    if not all(0 <= threshold <= _MOST for threshold in thresholds):
        problem = f"a threshold must be a number from 0 to {_MOST:,}; {got}"
        raise DataError(problem, remedy="pass the highest count to leave out, 0 for none")
    if any(after < before for before, after in pairwise(thresholds)):
        raise DataError(f"the thresholds must never fall; {got}", remedy="raise those of higher orders")
    return thresholds


def _whole_number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise TypeError
    return operator.index(value)


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
    if not arpa.is_file():
        raise DataError("there is no model", file=arpa, remedy="estimate it first")
    with scratch_folder(binary.parent) as folder, atomic_path(binary) as target:
        program, files = find_program("build_binary"), (arpa.absolute(), target.absolute())
        command: list[str | Path] = [program, "-S", "2G", "-T", f"{folder}/", "probing", *files]
        outcome = run_program(command, folder=folder, label="build_binary")
        _check(outcome, "build_binary", arpa, "2G")
        with target.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                raise DataError("build_binary wrote no model", file=arpa, remedy=_message(outcome.log))


def _check(outcome: Outcome, program: str, file: Path, memory: str) -> None:
    """Raise an error that says why a program failed."""
    log, ended, message = outcome.log, outcome.signal, _message(outcome.log)
    if not outcome.returncode:
        return
    if _NO_ROOM.search(log) or ended in {"SIGXFSZ", "SIGBUS"}:
        raise DataError(f"no room on the disk for {program} ({message or ended})", file=file, remedy=_ROOM)
    if ended not in {"", "SIGABRT"}:
        remedy = f"memory may have run out: try again with less than memory={memory!r}"
        raise DataError(f"{program} was killed by {ended}", file=file, remedy=remedy)
    if _NO_MEMORY.search(log):
        remedy = f"use less than memory={memory!r}"
        raise DataError(f"{program} could not allocate memory ({message})", file=file, remedy=remedy)
    if _SMALL.search(message):
        remedy = f"use more than memory={memory!r}"
        raise DataError(f"{program} has too little memory ({message})", file=file, remedy=remedy)
    if _NO_WEIGHT in message:
        problem = f"{program} takes no back-off weight of 0, which a discount of 0 gives in so small a text"
        raise DataError(problem, file=file, remedy="predict with the model as it is, or fit it on more text")
    raise DataError(f"{program} failed: {message or ended or outcome.returncode}", file=file)


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
        remedy=_REMEDY,
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
    try:
        return [find_program(name) for name in ("lmplz", "build_binary")]
    except DataError as error:
        remedy = "install what the lines above name, and try again; or conda install -c conda-forge kenlm"
        raise DataError("KenLM's programs could not be built", remedy=remedy) from error


@dataclass(frozen=True)
class Outcome:
    """Exit status of a program, or the negative number of the signal that ended it; and its log."""

    returncode: int
    log: str

    @property
    def signal(self) -> str:
        """Name of the signal that ended it, empty if none did."""
        return "" if self.returncode >= 0 else signal.Signals(-self.returncode).name


def run_program(
    command: Sequence[str | Path],
    *,
    folder: Path,
    text: Iterable[bytes] = (),
    blocks: int | None = None,
    label: str = "KenLM",
) -> Outcome:
    """Run one of KenLM's programs in a folder, write a text to it, and show its progress, read from its log.

    Whatever happens here, Ctrl-C included, the program has ended when this returns. A program that ends
    before it has read all is not an error here: its log says why. `blocks` is the number of blocks of the
    text, `label` that of a bar.
    """
    try:
        process = subprocess.Popen(  # noqa: S603 - found by `find_program`, with arguments of our own
            [str(argument) for argument in command],
            cwd=folder,  # what an aborted program leaves there goes with the folder
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        problem = f"this program cannot be run ({reason(error)})"
        raise DataError(
            problem, file=command[0], remedy="run `workbench setup`, which builds it anew"
        ) from error
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
    return Outcome(process.returncode, _LINES_OF_BARS.sub("", b"".join(log).decode(errors="replace")))


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
    options: dict[str, Any] = {"bar_format": "{desc}: {percentage:.0f} %|{bar}| [{elapsed}<{remaining}]"}
    with progress_bar(100, label=label, **options) as bar:

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
