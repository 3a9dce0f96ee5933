"""Work is killed at its steps on the disk, or its disk becomes full: what lies there then is whole or absent.

The next run gives the result of an undisturbed one, and no temporary file is left. All trials run in one
process, which forks a child for each.
"""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from limited_disk import small_disk
from patience import PATIENCE

from workbench.items.notes import read_notes
from workbench.items.notes import write_notes as write_item_notes
from workbench.storage import files, sealed
from workbench.storage.cache import Cache
from workbench.storage.errors import DataError, database_errors
from workbench.storage.files import atomic_folder, atomic_path
from workbench.storage.parallel import run_chunks
from workbench.storage.sqlite import create_database

CHANGES = ("mkdir", "rename", "remove", "rmdir", "chmod", "truncate", "link")
STEPS = {"open", "fcntl.flock", *map("os.{}".format, CHANGES)}
LONG = "a long line of text\n" * 1000
SCHEMA = pa.schema([("square", pa.int64())])
ABSENT = None


def write_file(folder):
    with atomic_path(folder / "file") as path, path.open("w") as file:
        for _ in range(3):
            file.write(LONG)
            file.flush()


def see_file(folder):
    return len((folder / "file").read_text()) if (folder / "file").exists() else ABSENT


def write_folder(folder):
    """Write a folder in place of another one."""
    for text in ("old", LONG):
        with atomic_folder(folder / "folder", replace=True) as new:
            for name in "ab":
                (new / name).write_text(text)


def see_folder(folder):
    files.remove_stale_scratch(folder)  # puts back what was being replaced
    texts = {path.read_text() for path in folder.glob("folder/?")}
    return ABSENT if texts in (set(), {"old"}) else [len(text) for text in texts]


def write_sealed(folder):
    with sealed.sealed_folder(folder / "sealed", "main.json", replace=True) as new:
        sealed.write_arrays(new, "main.json", {"a": np.arange(9000), "b": np.zeros(3)})


def see_sealed(folder):
    if not (folder / "sealed").exists():
        return ABSENT
    _, arrays = sealed.read_arrays(folder / "sealed", "main.json", what="it", remedy="none")
    return {name: int(array.sum()) for name, array in arrays.items()}


def square(number):
    return pa.table([pa.array([number * number] * 2000)], SCHEMA)


def write_chunks(_folder):
    cache, numbers = Cache("squares", SCHEMA), list(range(5))
    run_chunks(square, numbers, keys=[str(number) for number in numbers], store=cache, workers=1)


def see_chunks(_folder):
    tables = [Cache("squares", SCHEMA).get(str(number)) for number in range(5)]
    values = [table and table["square"][0].as_py() for table in tables]
    assert all(value in (None, number * number) for number, value in enumerate(values))
    return ABSENT if None in values else values


def write_database(folder):
    path = folder / "database"
    files.remove_stale_scratch(folder)
    with database_errors(path, patience=1, remedy="none"):
        if not path.exists():
            create_database(path, fill, "this database", remedy="none")
        insert(path)


def insert(path):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        if connection.execute("SELECT count(*) FROM lines").fetchone() == (50,):
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT INTO lines VALUES (?)", [["x" * 100]] * 50)
            connection.execute("COMMIT")


def fill(connection):
    connection.execute("CREATE TABLE lines (text)")
    connection.executemany("INSERT INTO lines VALUES (?)", [["x" * 1000]] * 50)


def see_database(folder):
    if not (folder / "database").exists():
        return ABSENT
    with closing(sqlite3.connect(folder / "database")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        (count,) = connection.execute("SELECT count(*) FROM lines").fetchone()
    assert count in (50, 100)
    return ABSENT if count == 50 else count


def write_notes(folder):
    for number in range(4):
        write_item_notes("x", {f"x/{number}": {"note": f"note {number} " * 50}}, folder=folder / "notes")


def see_notes(folder):
    """Read notes; those that are there are whole, in the order in which they were written."""
    notes = [note.note for note in read_notes(["x"], folder=folder / "notes").values()]
    assert notes == [(f"note {number} " * 50).strip() for number in range(len(notes))]
    return len(notes) if len(notes) == 4 else ABSENT


def write_torn(folder):
    """Write as no work should, so that the trials are seen to notice it."""
    for name in ("one", "two"):
        (folder / name).write_text(LONG)
    scratch = folder / f".partial-{os.getpid()}"
    scratch.touch()
    scratch.unlink()


def see_torn(folder):
    return [ABSENT, "half", "whole"][len([*folder.glob("[ot]*")])]


WORK = {
    "file": (write_file, see_file),
    "folder": (write_folder, see_folder),
    "sealed": (write_sealed, see_sealed),
    "chunks": (write_chunks, see_chunks),
    "database": (write_database, see_database),
    "notes": (write_notes, see_notes),
}
TORN = {"torn": (write_torn, see_torn)}


def in_child(folder, *works, kill_at=0, results=1):
    """Do works in a child process, killed at a step on the disk; return the last result, and the steps.

    With two `results`, those of the first and the last work.
    """
    reader, writer = os.pipe()
    if not (child := os.fork()):
        os.environ["WORKBENCH_HOME"] = str(folder / "home")
        steps = 0

        def count(event, arguments):
            nonlocal steps
            if event in STEPS and not (event == "open" and reads(*arguments)):
                steps += 1
                if steps == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        try:
            every = [work(folder) for work in works]
            result = every[-1] if results == 1 else [every[0], every[-1]]
        except DataError:
            result = ["DataError"] * 2 if results == 2 else "DataError"
        except BaseException as error:  # noqa: BLE001 - it is shown
            result = [repr(error)] * 2 if results == 2 else repr(error)
        os.write(writer, json.dumps([result, steps]).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return json.loads(answer) if answer else ["killed", 0]


def reads(_path, mode, flags):
    """Return whether a file is opened for reading alone."""
    if mode is None:
        return not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    return mode[:1] not in "wax" and "+" not in mode


def names(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def trials(base, works, *, disks):
    """Return the problems of all trials by work, and how many trials there were."""
    problems, count = {}, 0
    for name, work in works.items():
        whole = base / name
        whole.mkdir()
        expected, steps = in_child(whole, *work)
        size = sum(path.stat().st_size for path in whole.rglob("*") if path.is_file())
        result = problems[name] = []
        for kill_at in range(1, steps + 1, max(1, steps // 10)):
            folder = base / f"{name} {kill_at}"
            folder.mkdir()
            killed, _ = in_child(folder, work[0], kill_at=kill_at)
            result += [f"step {kill_at}: {text}" for text in after(folder, work, killed, expected, whole)]
            count += 1
        for part in (1, 2, 4) if disks else ():
            with small_disk(base / f"{name} disk", size=f"{max(8192, size * part // 5)}") as folder:
                full, _ = in_child(folder, work[0])
                remount = [shutil.which("mount"), "-o", "remount,size=64m", folder]
                subprocess.run(remount, check=True, capture_output=True)
                result += [f"disk {part}: {text}" for text in after(folder, work, full, expected, whole)]
                count += 1
    return {name: texts for name, texts in problems.items() if texts}, count


def after(folder, work, outcome, expected, whole):
    """Yield what is wrong after a fault, and after the next run."""
    if outcome not in ("killed", "DataError", None):
        yield f"the fault gives {outcome}"
    (seen, again), _ = in_child(folder, work[1], *work, results=2)
    if seen not in (expected, ABSENT):
        yield f"half is visible: {seen}"
    if again != expected:
        yield f"the next run gives {again}"
    if names(folder) != names(whole):
        yield f"left or lacking: {set(names(folder)) ^ set(names(whole))}"


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """Give what was wrong after each fault, by work; there are no full disks where none can be mounted."""
    try:
        with small_disk(tmp_path_factory.mktemp("small") / "disk"):
            kind = "disks"
    except pytest.skip.Exception:
        kind = "kills"
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}  # helpers of tests, too
    command = [sys.executable, __file__, kind]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_work_that_is_killed_or_has_a_full_disk_is_done_again_and_leaves_nothing(outcome):
    assert outcome["count"] > 40
    assert outcome["problems"] == {}


def test_a_trial_sees_work_that_is_not_atomic(outcome):
    text = "; ".join(outcome["torn"]["torn"])
    assert "half is visible" in text
    assert "left or lacking" in text


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as base:
        problems, count = trials(Path(base), WORK, disks=sys.argv[1] == "disks")
        torn, _ = trials(Path(base), TORN, disks=False)
    print(json.dumps({"problems": problems, "count": count, "torn": torn}))  # noqa: T201
