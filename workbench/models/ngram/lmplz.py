"""KenLM's programs: n-gram models estimated by ``lmplz``, made binary by ``build_binary``."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from workbench.items.schema import DataError
from workbench.models.ngram import programs
from workbench.storage.files import atomic_path
from workbench.texts import store

Fallback = Literal["auto", "never", "always"]

_SPACES = re.compile(r"[\0\t\n\r ]+")  # what parts words for lmplz, and nothing else does
_RESERVED = re.compile(r"(?<![^\0\t\n\r ])(?:<s>|</s>|<unk>|<UNK>)(?![^\0\t\n\r ])")
_OUTSIDE = "\x1f"  # white space to Python, so no word; a word to lmplz, and in no vocabulary
_LINES = 4096  # that are written at a time
_DISCOUNTS = re.compile(r"^\d+ \d+(?:/\d+)? D1=(\S+) D2=(\S+) D3\+=(\S+)$", re.MULTILINE)
_TOKENS = re.compile(r"^Unigram tokens (\d+)", re.MULTILINE)
_MAGIC = b"mmap lm http://kheafield.com/code"
_ROOM = "make room, or let temporary= name a folder on another disk"
_EMPTY = "the text is empty: there is no word in it"
_NO_DISCOUNTS = "BadDiscountException"
_NO_ROOM = re.compile(r"No space left|File too large|Disk quota")
_NO_MEMORY = re.compile(r"MallocException|bad_alloc|Cannot allocate memory|Cannot create thread")
_SMALL = re.compile(r"total memory|Not enough memory|minimum block size")


@dataclass(frozen=True)
class Estimated:
    """What ``lmplz`` told of a model.

    Attributes
    ----------
    seconds : float
        Wall clock, a second try included.
    log : str
        What the program wrote, without its bars.
    fallback : bool
        Whether some order has the fixed discounts 0.5, 1 and 1.5, as its own could not be computed.
    counts : tuple of int (order,)
        N-grams of each order in the model.
    discounts : tuple of (float, float, float) (order,)
        Of adjusted counts 1, 2, and 3 or more (Chen & Goodman 1998, equation 26).
    """

    seconds: float
    log: str
    fallback: bool
    counts: tuple[int, ...]
    discounts: tuple[tuple[float, float, float], ...]


class _Reserved(Exception):  # noqa: N818 - no error: the text is read again
    """The text holds words that ``lmplz`` reserves, and nothing said which are the others."""


def estimate(
    lines: Callable[[], Iterable[str]],
    arpa: Path,
    *,
    order: int,
    vocabulary: Sequence[str] | None = None,
    pruning: Sequence[int] | None = None,
    memory: str = "2G",
    temporary: Path | None = None,
    fallback: Fallback = "auto",
    n_lines: int | None = None,
    progress: bool = True,
) -> Estimated:
    """Estimate a model with interpolated modified Kneser-Ney smoothing (Heafield et al. 2013).

    The text goes through a pipe, so no copy of it is made.

    Parameters
    ----------
    lines : callable
        Called without arguments, it returns an iterable of sentences, words apart by blanks: the same each
        time, as the text may be needed twice. ``<unk>`` (as ``<s>`` and ``</s>``) stands for a word outside
        the vocabulary.
    arpa : Path
        Where the model is written, whole or not at all.
    order : int
        Length of the longest n-grams.
    vocabulary : sequence of str, optional
        The words of the model; all words by default.
    pruning : sequence of int, optional
        For each order, up to which count n-grams are left out; never falls, the last holds for the rest.
    memory : str
        What sorting may take, as in ``2G`` or ``50%``; lmplz takes some more for the words.
    temporary : Path, optional
        Folder for temporary files, some 20 bytes a token and order; that of `arpa` by default.
    fallback : {"auto", "never", "always"}
        Whether fixed discounts may stand in where a text is too small or too regular to compute them.
    n_lines : int, optional
        How many lines there are, for the progress bar.
    progress : bool
        Show a bar.

    Returns
    -------
    Estimated

    Raises
    ------
    DataError
        If the text is empty, the discounts cannot be computed and may not be replaced, memory or disk do
        not suffice, or the program is killed or not there.
    """
    if order < 1:
        raise DataError(f"an n-gram model has order 1 or more, not {order}")
    if vocabulary is not None and not any(vocabulary):
        raise DataError("the vocabulary is empty", remedy="pass some words, or None for all")
    begun, allowed, limited = time.perf_counter(), fallback == "always", vocabulary
    program, label = _find("lmplz"), "lmplz" if progress else None
    with store.scratch(temporary or arpa.parent, _ROOM) as folder, atomic_path(arpa) as target:
        command: list[str | Path] = [
            program,
            "-o",
            str(order),
            "-S",
            memory,
            "-T",
            f"{folder}/",
            "--arpa",
            target.absolute(),
        ]
        command += ["--prune", *map(str, pruning)] if pruning else []
        while True:
            options = ["--discount_fallback"] if allowed else []
            options += _limits(folder, limited)
            text = _text(lines(), limited=limited is not None)
            blocks = None if n_lines is None else -(-n_lines // _LINES)
            try:
                outcome = programs.run(
                    [*command, *options], folder=folder, text=text, blocks=blocks, progress=label
                )
            except _Reserved:
                limited = _words(lines())
                if not limited:
                    raise DataError(_EMPTY, remedy="pass lines of words") from None
                continue
            told = _TOKENS.search(outcome.log)
            if told and not int(told[1]):
                raise DataError(_EMPTY, remedy="pass lines of words")
            allowed = fallback == "auto" and not allowed and _NO_DISCOUNTS in outcome.log
            if not allowed:
                break
            logging.getLogger(__name__).info("lmplz cannot compute discounts: fixed ones, the text again")
        _check(outcome, "lmplz", arpa, memory)
        counts = _counts(target, order, arpa)
    return Estimated(
        seconds=time.perf_counter() - begun,
        log=outcome.log,
        fallback="Substituting fallback discounts" in outcome.log,
        counts=counts,
        discounts=tuple((float(a), float(b), float(c)) for a, b, c in _DISCOUNTS.findall(outcome.log)),
    )


def build_binary(
    arpa: Path,
    binary: Path,
    *,
    kind: Literal["probing", "trie"] = "probing",
    memory: str = "2G",
    temporary: Path | None = None,
    progress: bool = True,
) -> float:
    """Turn a model into KenLM's own form, which is mapped into memory.

    Parameters
    ----------
    arpa : Path
        A model of order 2 or more.
    binary : Path
        Where it is written, whole or not at all.
    kind : {"probing", "trie"}
        A hash table, quicker, or a trie, smaller.
    memory : str
        What sorting may take for a trie.
    temporary : Path, optional
        Folder for temporary files; that of `binary` by default.
    progress : bool
        Show a bar.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    DataError
        If this is no whole model, memory or disk do not suffice, or the program is killed or not there.
    """
    begun = time.perf_counter()
    if not arpa.is_file():
        raise DataError("there is no model here", file=arpa, remedy="estimate it first")
    program, label = _find("build_binary"), "build_binary" if progress else None
    with store.scratch(temporary or binary.parent, _ROOM) as folder, atomic_path(binary) as target:
        command: list[str | Path] = [
            program,
            "-S",
            memory,
            "-T",
            f"{folder}/",
            kind,
            arpa.absolute(),
            target.absolute(),
        ]
        outcome = programs.run(command, folder=folder, progress=label)
        _check(outcome, "build_binary", arpa, memory)
        with target.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                raise DataError("build_binary wrote no model", file=arpa, remedy=_said(outcome.log))
    return time.perf_counter() - begun


def _find(name: str) -> Path:
    try:
        return programs.find(name)
    except programs.ProgramMissingError as error:
        problem, _, remedy = str(error).partition(" -- ")
        raise DataError(problem, remedy=remedy) from error


def _limits(folder: Path, vocabulary: Sequence[str] | None) -> list[str]:
    """Write down the words of the model, and return the option that names the file."""
    if vocabulary is None:
        return []
    path = folder / "vocabulary.txt"
    path.write_bytes(b"".join(f"{word}\n".encode() for word in vocabulary if not _RESERVED.fullmatch(word)))
    return ["--limit_vocab_file", path.name]


def _text(lines: Iterable[str], *, limited: bool) -> Iterator[bytes]:
    """Yield a text in blocks; words that lmplz reserves become one that is in no vocabulary."""
    source, before = iter(lines), " "  # a text that begins as a packed file would be unpacked
    while block := list(islice(source, _LINES)):
        text = "\n".join([*block, ""])
        if any(word in text for word in ("<s>", "</s>", "<unk>", "<UNK>")):
            text, found = _RESERVED.subn(_OUTSIDE, text)
            if found and not limited:
                raise _Reserved
        yield f"{before}{text}".encode(errors="replace")
        before = ""


def _words(lines: Iterable[str]) -> list[str]:
    """Return all words of a text but those that lmplz reserves."""
    found = {word for line in lines for word in _SPACES.split(line)}
    return sorted(word for word in found if word and not _RESERVED.fullmatch(word))


def _check(outcome: programs.Outcome, program: str, file: Path, memory: str) -> None:
    """Raise what the end of a program means for its user."""
    log, ended, said = outcome.log, outcome.signal, _said(outcome.log)
    if not outcome.returncode:
        return
    if _NO_ROOM.search(log) or ended in {"SIGXFSZ", "SIGBUS"}:
        raise DataError(f"{program} has no room on the disk ({said or ended})", file=file, remedy=_ROOM)
    if ended not in {"", "SIGABRT"}:
        remedy = f"most often memory ran out: take less than memory={memory!r}, then try again"
        raise DataError(f"{program} was killed by {ended}", file=file, remedy=remedy)
    if _NO_DISCOUNTS in log:
        problem = "lmplz cannot compute the discounts, the text is too small or too regular"
        raise DataError(f"{problem} ({said.partition(';')[0]})", remedy='more text, or fallback="auto"')
    if _NO_MEMORY.search(log):
        raise DataError(
            f"{program} got no memory ({said})", file=file, remedy=f"take less than memory={memory!r}"
        )
    if _SMALL.search(said):
        raise DataError(
            f"{program} has too little memory ({said})", file=file, remedy=f"take more than memory={memory!r}"
        )
    raise DataError(f"{program} failed: {said or ended or outcome.returncode}", file=file)


def _said(log: str) -> str:
    """Return the message at the end of a log."""
    lines = [line.strip() for line in log.splitlines() if line.strip() not in {"", "ERROR"}]
    thrown = [place for place, line in enumerate(lines) if " threw " in line]
    return " ".join(lines[thrown[0] + 1 :] or lines[thrown[0] :] if thrown else lines[-2:])[:400]


def _counts(target: Path, order: int, arpa: Path) -> tuple[int, ...]:
    """Read the number of n-grams off a model, and see that it has its end."""
    counts = []
    with target.open("rb") as file:
        head = file.readline()
        while match := re.fullmatch(rb"ngram (\d+)=(\d+)\s*", line := file.readline()):
            counts.append(int(match[2]))
        size = file.seek(0, 2)
        file.seek(max(0, size - 64))
        tail = file.read()
    whole = head.strip() == b"\\data\\" and not line.strip() and tail.rstrip().endswith(b"\\end\\")
    if not whole or len(counts) != order:
        raise DataError("lmplz wrote no whole model", file=arpa, remedy="try again")
    return tuple(counts)
