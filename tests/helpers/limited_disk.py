"""A disk that is small, and a process that may do little: real faults instead of patched functions."""

import os
import shutil
import subprocess
from contextlib import contextmanager

import pytest

NOBODY = 65_534


@contextmanager
def small_disk(folder, size="1m"):
    """Mount a disk of its own on a folder; the test is skipped where that is not permitted."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [shutil.which("mount") or "mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no disk can be mounted")
    try:
        yield folder
    finally:
        subprocess.run([shutil.which("umount"), "--lazy", folder], check=True)


def fill(folder, leave=0):
    """Fill a disk up to some bytes, and return the file that does."""
    file = folder / "filler"
    with file.open("wb", buffering=0) as content:
        free = shutil.disk_usage(folder).free - leave
        while free > 0:
            free -= content.write(bytes(free))
    return file


def as_nobody(function):
    """Call a function in a process without any right, and return the text that it returns."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.seteuid(NOBODY)
            os.write(writer, function().encode())
        except BaseException as error:  # noqa: BLE001 - the parent shows it
            os.write(writer, f"raised {error!r}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read().decode()
    os.waitpid(child, 0)
    return answer
