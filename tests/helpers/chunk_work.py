"""Functions of chunks for processes and workers; they import nothing that is slow."""

import os
import signal
import time
from pathlib import Path

from workbench.storage import parallel
from workbench.storage.parallel import run_chunks


def squares(chunk):
    return [n * n for n in chunk]


def marked(task):
    """Square, and leave a file for every time a chunk is worked on."""
    folder, chunk = task
    (Path(folder) / f"{chunk[0]}.{os.getpid()}.{time.monotonic_ns()}").touch()
    return squares(chunk)


def dying(task):
    """Die once, at the fifth chunk: as by ``kill -9``."""
    folder, chunk = task
    first = not list(Path(folder).glob("8.*"))
    marked(task)
    return deadly(chunk) if first else squares(chunk)


def deadly(chunk):
    if 8 in chunk:
        os.kill(os.getpid(), signal.SIGKILL)
    return squares(chunk)


def failing(chunk):
    if 8 in chunk:
        time.sleep(0.5)  # until those before are stored
        raise TimeoutError("it is 8")
    return squares(chunk)


def threads(_):
    return os.environ["OMP_NUM_THREADS"], os.environ["OPENBLAS_NUM_THREADS"]


def home(_):
    return os.environ["WORKBENCH_HOME"]


def lacking(_):
    import not_installed_here  # noqa: PLC0415, F401 - where it is worked on


def nested(_):
    return parallel.dask_client() is None, run_chunks(process, range(2))


def process(_):
    return os.getpid()


def slow(n):
    Path(os.environ["MARKS"], f"pid{os.getpid()}").touch()
    time.sleep(0.05)
    return n
