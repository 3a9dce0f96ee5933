"""Programs that this package runs, KenLM's ``lmplz`` and ``build_binary``: finding and running them."""

from __future__ import annotations

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
from pathlib import Path
from typing import IO, BinaryIO, cast

_TOOLS = Path(__file__).resolve().parents[3] / ".tools"
_FOLDERS = {"lmplz": "kenlm/bin", "build_binary": "kenlm/bin"}  # of the checkout's tools


class ProgramMissingError(FileNotFoundError):
    """A program that is not there; the message says where it was looked for, and how to get it."""


def find(name: str) -> Path:
    """Find a program: that of the checkout first, then beside Python, then on the ``PATH``.

    Parameters
    ----------
    name : str
        Its name without a folder, as in ``lmplz``.

    Returns
    -------
    Path
        An absolute path to something that may be run.

    Raises
    ------
    ProgramMissingError
        If there is none.
    """
    beside = Path(sys.executable).absolute().parent  # not resolved: of a virtual environment, not its base
    folders = [_TOOLS / _FOLDERS[name]] if name in _FOLDERS else []
    folders += [beside, *map(Path, filter(None, os.environ.get("PATH", "").split(os.pathsep)))]
    for folder in folders:
        if found := shutil.which(name, path=str(folder)):
            return Path(found).absolute()
    remedy = (
        " -- make setup builds it, conda install -c conda-forge kenlm brings it" if name in _FOLDERS else ""
    )
    raise ProgramMissingError(
        f"the program {name!r} is not there: looked in {', '.join(map(str, folders[:-1] or folders))}"
        f" and the rest of the PATH{remedy}"
    )


@dataclass(frozen=True)
class Outcome:
    """How a program ended: 0, an exit status, or the negative number of a signal; and its log."""

    returncode: int
    log: str

    @property
    def signal(self) -> str:
        """Name of the signal that ended it, empty if none did."""
        return "" if self.returncode >= 0 else signal.Signals(-self.returncode).name


def run(
    command: Sequence[str | Path],
    *,
    folder: Path,
    text: Iterable[bytes] = (),
    blocks: int | None = None,
    progress: str | None = None,
) -> Outcome:
    """Run one of KenLM's programs, feed it, and show how far it is by what it writes.

    Whatever happens here, Ctrl-C included, the program has ended when this returns. That it ends
    before it has read all is no error here: its log says why.

    Parameters
    ----------
    command : sequence of (str or Path)
        The program and its arguments.
    folder : Path
        Where it runs.
    text : iterable of bytes
        What it reads from its standard input.
    blocks : int, optional
        How many blocks `text` has, for the bar.
    progress : str, optional
        Label of a bar; none without it.
    """
    process = subprocess.Popen(  # noqa: S603 - a program found by `find`, with arguments of our own
        [str(part) for part in command],
        cwd=folder,  # what an aborted program leaves there goes with the folder
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    told: list[bytes] = []
    reader = threading.Thread(target=_drain, args=(process.stderr, told), daemon=True)
    reader.start()
    source = cast("BinaryIO", process.stdin)
    with _bar(progress) as show:
        try:
            for fed, block in enumerate(text):
                try:
                    source.write(block)
                except BrokenPipeError:
                    break
                show(told, fed / blocks if blocks else 0)
            with suppress(BrokenPipeError):
                source.close()
            while process.poll() is None:
                show(told, 1)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_PAUSE)
        finally:
            process.kill()
            process.wait()
            reader.join()
            with suppress(BrokenPipeError):
                source.close()
    return Outcome(process.returncode, _LINES_OF_BARS.sub("", b"".join(told).decode(errors="replace")))


def _drain(stream: IO[bytes], told: list[bytes]) -> None:
    with stream:
        while part := os.read(stream.fileno(), 1 << 16):
            told.append(part)


_PAUSE = 0.2  # seconds between two looks at the log
_STEP = re.compile(rb"=== (\d+)/(\d+) (.*?) ===")
_BANNER = b"95--100\n"
_LINES_OF_BARS = re.compile(r"^(?:----5---.*|\**)\n", re.MULTILINE)


def fraction(log: bytes, fed: float) -> tuple[float, str]:
    """Read off a log how far its program is, from 0 to 1, and what it does.

    Parameters
    ----------
    log : bytes
        What was written so far: steps as ``=== 2/5 ... ===``, and within a step bars of 100 stars.
    fed : float
        Which part of the text was written, from 0 to 1: how far the first step is.
    """
    steps = list(_STEP.finditer(log))
    _, banner, bar = log[steps[-1].end() if steps else 0 :].rpartition(_BANNER)
    within = min(bar.count(b"*"), 100) / 100 if banner else 0.0
    if not steps:
        return within, ""
    step, of = int(steps[-1][1]), int(steps[-1][2])
    return (step - 1 + max(within, fed if step == 1 else 0.0)) / of, steps[-1][3].decode(errors="replace")


@contextmanager
def _bar(label: str | None) -> Iterator[Callable[[list[bytes], float], None]]:
    if label is None:
        yield lambda _told, _fed: None
        return
    from tqdm.auto import tqdm  # noqa: PLC0415 - loads ipywidgets in a notebook

    shown = 0.0
    with tqdm(desc=label, total=100, leave=False, bar_format="{l_bar}{bar}| {elapsed}") as bar:

        def show(told: list[bytes], fed: float) -> None:
            nonlocal shown
            if time.monotonic() - shown < _PAUSE:
                return
            shown = time.monotonic()
            part, doing = fraction(b"".join(told), fed)
            bar.set_description(f"{label}: {doing}" if doing else label, refresh=False)
            bar.n = round(100 * part)
            bar.refresh()

        yield show
        bar.n = 100
        bar.refresh()
