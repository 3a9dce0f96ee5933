import errno
import fcntl
import multiprocessing
import os
import signal
import stat
import tempfile
from pathlib import Path
from unittest.mock import Mock

import pytest
from refused import refused

from workbench.storage import files
from workbench.storage.errors import DataError, reading, writing
from workbench.storage.files import atomic_folder, atomic_path, read_bytes, scratch_folder


class StoppedError(Exception):
    pass


def stop_midway(path):
    path.write_text("half")
    raise StoppedError


def test_what_was_there_stays_until_all_is_written(tmp_path):
    target = tmp_path / "new" / "table.txt"
    with atomic_path(target) as temporary:
        temporary.write_text("old")
        assert temporary.parent.parent == target.parent
        assert temporary.name == target.name  # what writes it may look at the ending
        assert not target.exists()
    assert stat.S_IMODE(target.stat().st_mode) == 0o644
    with pytest.raises(StoppedError), atomic_path(str(target)) as temporary:
        stop_midway(temporary)
    assert target.read_text() == "old"
    with pytest.raises(DataError, match="No such file"), atomic_path(target):
        pass  # nothing is written
    assert list(target.parent.iterdir()) == [target]
    with atomic_path(target) as temporary:
        temporary.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    target = tmp_path / "deep" / "folder"
    with pytest.raises(StoppedError), atomic_folder(target) as folder:
        stop_midway(folder / "a")
    assert list(target.parent.iterdir()) == []
    with atomic_folder(target) as folder:
        (folder / "inner").mkdir()
        (folder / "inner" / "a").write_text("one")
        assert not target.exists()
    assert (target / "inner" / "a").read_text() == "one"
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize(("replace", "content"), [(False, "one"), (True, "two")])
def test_a_second_folder_is_dropped_or_replaces_the_first(tmp_path, replace, content):
    target = tmp_path / "folder"
    for text in ("one", "two"):
        with atomic_folder(target, replace=replace) as folder:
            (folder / text).write_text(text)
    assert [path.name for path in target.iterdir()] == [content]
    assert list(tmp_path.iterdir()) == [target]


def test_the_old_folder_comes_back_where_the_new_one_cannot_take_its_place(tmp_path, monkeypatch):
    target = tmp_path / "folder"
    with atomic_folder(target) as folder:
        (folder / "one").touch()
    real = Path.rename

    def refuse(path, place):
        if path.name == "new":
            raise OSError("no space")
        return real(path, place)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(DataError, match="no space"), atomic_folder(target, replace=True):
        pass
    assert [path.name for path in target.iterdir()] == ["one"]


def left_by_a_killed_process(home, code):
    """Run code in a child process that is killed while it uses a scratch folder of `home`."""
    child = os.fork()
    if not child:
        try:
            code(home)
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    return sorted(path.name for path in home.iterdir())


def use(home):
    with scratch_folder(home) as folder:
        (folder / "a").touch()
        os.kill(os.getpid(), signal.SIGKILL)


def test_what_killed_processes_left_goes_with_the_next_use_and_what_is_used_stays(tmp_path):
    with scratch_folder(tmp_path) as mine:
        (mine / "a").touch()
        one = left_by_a_killed_process(tmp_path, use)
        two = left_by_a_killed_process(tmp_path, use)
        assert len(one) == len(two) == 2
        assert set(one) & set(two) == {mine.name}
        with atomic_path(tmp_path / "file") as path:
            path.touch()
        assert sorted(tmp_path.iterdir()) == [mine, tmp_path / "file"]
        assert (mine / "a").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_what_no_lock_can_tell_goes_after_a_day(tmp_path, monkeypatch):
    other, old = (tmp_path / f".partial-0{name}-x" for name in "ab")  # of other computers
    for path in (other, old):
        (path / "inner").mkdir(parents=True)
    for path in (old, old / "inner"):
        os.utime(path, (0, 0))
    (tmp_path / ".hidden").mkdir()
    files.remove_stale_scratch(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".hidden", other.name]

    monkeypatch.setattr(files.fcntl, "flock", Mock(side_effect=OSError(errno.ENOLCK, "no locks")))
    with scratch_folder(tmp_path) as mine:
        files.remove_stale_scratch(tmp_path)
        assert mine.exists()
        os.utime(mine, (0, 0))
        files.remove_stale_scratch(tmp_path)
        assert not mine.exists()


def swept(folder):
    files.remove_stale_scratch(Path(folder).parent)


def busy(folder):
    handle = os.open(folder, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)


def replaced(folder):
    Path(folder).rmdir()
    Path(folder).mkdir()  # by whoever draws the same name
    busy(folder)


@pytest.mark.parametrize("meanwhile", [swept, busy, replaced])
def test_a_sweep_before_a_folder_is_locked_is_noticed(tmp_path, monkeypatch, meanwhile):
    real, made = tempfile.mkdtemp, []

    def mkdtemp(**options):
        made.append(real(**options))
        if len(made) == 1:
            meanwhile(made[0])
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", mkdtemp)
    with scratch_folder(tmp_path) as folder:
        assert [str(folder)] == made[1:]
        files.remove_stale_scratch(tmp_path)
        assert folder.exists()


def test_the_handle_of_a_sweep_that_came_late_removes_nothing_else(tmp_path):
    with atomic_path(tmp_path / "file") as path:
        path.write_text("new")
        handle = os.open(path.parent, os.O_RDONLY)  # a sweep opens it, and gets its lock when all is done
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(handle)
    assert (tmp_path / "file").read_text() == "new"


def scratching(home):
    for number in range(60):
        with scratch_folder(home) as folder:
            (folder / "a").write_text(str(number))
            with atomic_path(home / "file") as path:
                path.write_text("x" * number)
            assert (folder / "a").read_text() == str(number)


def test_many_processes_sweep_and_lose_nothing(tmp_path):
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        pool.map(scratching, [tmp_path] * 3, chunksize=1)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_folder_that_was_being_replaced_comes_back(tmp_path):
    def stop(home):
        real = Path.rename

        def rename(path, target):
            if path.name == "new":
                os.kill(os.getpid(), signal.SIGKILL)
            return real(path, target)

        Path.rename = rename
        with atomic_folder(home / "folder", replace=True):
            pass

    (tmp_path / "folder" / "inner").mkdir(parents=True)
    assert "folder" not in left_by_a_killed_process(tmp_path, stop)
    files.remove_stale_scratch(tmp_path)
    assert [path.name for path in tmp_path.rglob("*")] == ["folder", "inner"]


NUL, LONG, FILE, FOLDER = "a\0b", "x" * 300, "file", "folder"


@pytest.mark.parametrize("write", [atomic_path, atomic_folder])
@pytest.mark.parametrize(
    "name", [NUL, LONG, f"{NUL}/a", f"{LONG}/a", f"{FILE}/a", f"{FILE}/a/b", "loop", "/dev/null"]
)
def test_what_cannot_be_written_is_one_error_before_the_work(tmp_path, write, name):
    (tmp_path / FILE).touch()
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(DataError, match="cannot be written"), write(tmp_path / name):
        pytest.fail("the work is done")
    assert sorted(path.name for path in tmp_path.iterdir()) == [FILE, "loop"]


def test_a_file_replaces_no_folder_and_a_folder_no_file(tmp_path):
    (tmp_path / FILE).touch()
    (tmp_path / FOLDER).mkdir()
    for write, name in ((atomic_path, FOLDER), (atomic_folder, FILE), (scratch_folder, FILE)):
        problem = rf"{name}: this .*what is there is not a \w+"
        with pytest.raises(DataError, match=problem), write(tmp_path / name):
            pytest.fail("the work is done")


def test_a_name_may_be_as_long_as_the_disk_allows(tmp_path):
    with atomic_path(tmp_path / ("x" * 255)) as path:
        path.touch()
    with atomic_folder(tmp_path / ("y" * 255)):
        pass
    assert {len(path.name) for path in tmp_path.iterdir()} == {255}


def test_errors_that_are_not_of_the_disk_stay_what_they_are(tmp_path):
    kept = ConnectionResetError(104, "reset"), FileNotFoundError(2, "absent"), MemoryError(), KeyError("a")
    for error in (*kept, OSError(errno.ENOSPC, "full"), OSError("3 requested and 1 written")):
        problem = None if error in kept else "file: this file cannot be written"
        expected = pytest.raises(DataError if problem else type(error), match=problem)
        with expected, atomic_path(tmp_path / "file"):
            raise error
    assert list(tmp_path.iterdir()) == []


def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    unusable = {"pipe": "not a regular file", "": "not a regular file", "absent": "No such file"}
    for name, problem in (unusable | {"a\0b": "Invalid", "x" * 300: "too long"}).items():
        refused(problem, read_bytes, tmp_path / name)
    refused("not a regular file", read_bytes, "/dev/zero")
    (tmp_path / "five").write_bytes(b"12345")
    assert read_bytes(tmp_path / "five", limit=5) == b"12345"
    refused("five: it holds more than 4 bytes", read_bytes, tmp_path / "five", "this list", limit=4)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000, b"9" * 5000, b"\0"])
def test_what_is_no_json_is_one_error(tmp_path, content):
    file = tmp_path / "x.json"
    file.write_bytes(content)
    refused(r"x\.json: this list cannot be read \(\w+Error", files.read_json, file, "this list")


def test_an_error_of_the_disk_says_what_to_do(tmp_path):
    problem = r"cannot be written .No space left.* -- free some space"
    with pytest.raises(DataError, match=problem), writing(tmp_path), Path("/dev/full").open("wb") as full:
        full.write(b"x")
    with pytest.raises(DataError, match=r"too long.* -- choose a shorter name"), writing(tmp_path):
        (tmp_path / ("x" * 300)).touch()


def test_a_panic_is_an_error_of_the_file_and_an_interruption_is_none():
    panic = type("PanicException", (BaseException,), {})  # of libraries in Rust, which have no common module
    with (
        pytest.raises(DataError, match=r"x: this file cannot be read .PanicException: out of range"),
        reading("x"),
    ):
        raise panic("out of range")
    for interruption in (KeyboardInterrupt, SystemExit, GeneratorExit):
        with pytest.raises(interruption), reading("x"):
            raise interruption


@pytest.mark.parametrize("error", [
    OSError(errno.ENOSPC, "No space left on device"), Exception("No space left on device (os error 28)"),
])  # fmt: skip
def test_a_disk_that_is_full_while_a_file_is_read_is_not_the_fault_of_the_file(error):
    def read():
        wrapper = ValueError("it cannot be loaded")
        wrapper.__context__ = error
        with reading("model.gguf", "this model", remedy="download it again"):
            raise wrapper

    refused(r"this model needs a file that cannot be written .*No space left on device.* -- free some", read)
