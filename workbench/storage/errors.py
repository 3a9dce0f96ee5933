"""The one error of the workbench, checks of options, and the conversion of other errors."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any


class DataError(ValueError):
    """Invalid data: what was expected and what was there, where (lines count from 1), and what to do."""

    def __init__(
        self,
        problem: str,
        *,
        file: str | Path | None = None,
        line: int | None = None,
        hint: str | None = None,
    ) -> None:
        self.problem, self.line, self.hint = problem, line, hint
        self.file = None if file is None else str(file)
        where = "" if file is None else f"{file}{'' if line is None else f', line {line}'}: "
        text = f"{where}{problem}{f' -- {hint}' if hint else ''}"
        super().__init__(text.encode(errors="backslashreplace").decode())  # half a surrogate pair

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the error with all its attributes."""
        return partial(DataError, file=self.file, line=self.line, hint=self.hint), (self.problem,)


def check_option(name: str, value: object, allowed: Sequence[Any]) -> None:
    """Raise DataError if the value of an option is not one of the allowed ones."""
    check_value(name, value, value in allowed, f"one of {', '.join(map(str, allowed))}")


def check_value(name: str, value: object, valid: bool, expected: str) -> None:  # noqa: FBT001 - the result of a test
    """Raise DataError, which says what was expected, if the value of an option is not `valid`."""
    if not valid:
        raise DataError(f"{name} is {value!r:.100}, expected {expected}")


_LONGEST = 300
_ROOM = "free some space, or choose another place: $WORKBENCH_HOME is where models, texts and runs are"
_HINTS = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), _ROOM),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "choose a place where you may write"),
    errno.ENAMETOOLONG: "choose a shorter name",
}
_OF_WRITING = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}
_NO_ROOM = os.strerror(errno.ENOSPC)  # the libraries in Rust have no error numbers


@contextmanager
def reading(
    file: Path | str, what: str = "this file", *, line: int | None = None, hint: str | None = None
) -> Iterator[None]:
    """Convert every error of a block that only reads a file into one DataError.

    An unchecked file can make a parser fail in any way, so any exception counts as the file's fault, as does
    the panic of a library in Rust: keep the block to reading and parsing. Errors for lack of memory stay as
    they are; those of a full disk, where something is stored on the way (a download), keep their message.
    `what` says what the file is, such as "this vocabulary", and `line` which line is read.
    """
    try:
        yield
    except (DataError, MemoryError):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        words, disk_hint = _writing_error(error)
        if disk_hint:
            problem = f"{what} needs a file that cannot be written ({words})"
            raise DataError(problem, file=file, hint=disk_hint) from error
        raise DataError(
            f"{what} cannot be read ({reason(error)})", file=file, line=line, hint=hint
        ) from error


def _writing_error(error: BaseException) -> tuple[str, str]:
    """Return the words and a hint of the system error of writing behind an error; empty texts if none."""
    # in a function of its own: a frame that holds its own error keeps all objects of its callers alive
    for cause in (error, innermost(error)):
        number = getattr(cause, "errno", None) or (errno.ENOSPC if _NO_ROOM in str(cause) else None)
        if number in _OF_WRITING:
            return reason(cause), _HINTS[number]
    return "", ""


@contextmanager
def writing(file: Path | str, what: str = "this file", *also: type[Exception]) -> Iterator[None]:
    """Convert an error of the disk (full, not writable, name too long) or one of `also` into a DataError."""
    try:
        yield
    except DataError:
        raise
    except (OSError, UnicodeEncodeError, *also) as error:  # type: ignore[misc] # exception types
        hint = _HINTS.get(getattr(error, "errno", None) or 0, _ROOM if also else None)
        raise DataError(f"{what} cannot be written ({reason(error)})", file=file, hint=hint) from error


def innermost(error: BaseException) -> BaseException:
    """Return the innermost of nested errors; the wrappers of requests and urllib3 say less."""
    while isinstance(inner := getattr(error, "reason", None) or error.__context__, BaseException):
        error = inner
    return error


def reason(error: BaseException) -> str:
    """Return the message of an error in one line; for an error of a file the operating system's message."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    words = " ".join(str(error).split())
    words = words if len(words) <= _LONGEST else words[:_LONGEST] + " ..."
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
