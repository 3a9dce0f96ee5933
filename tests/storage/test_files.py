import errno
import os
import stat
from pathlib import Path

import pytest
from refused import refused

from workbench.storage import files
from workbench.storage.errors import DataError
from workbench.storage.files import (
    atomic_folder,
    atomic_path,
    read_bytes,
    remove,
    temporary_folder,
    write_atomic,
)


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
    with pytest.raises(StoppedError), atomic_path(str(target)) as temporary:
        stop_midway(temporary)
    assert target.read_text() == "old"
    with pytest.raises(DataError), atomic_path(target):
        pass  # nothing is written
    assert list(target.parent.iterdir()) == [target]
    write_atomic(target, "new")
    assert target.read_text() == "new"


def test_a_file_has_the_mode_of_the_one_it_replaces_and_a_new_one_that_of_the_umask(tmp_path):
    earlier = os.umask(0o027)
    try:
        for mode in (0o640, 0o600, 0o444, 0o755):
            write_atomic(tmp_path / "file", "x")
            assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640
            (tmp_path / "file").chmod(mode)
            write_atomic(tmp_path / "file", "y")
            assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode
            (tmp_path / "file").unlink()
        with atomic_folder(tmp_path / "folder") as folder:
            (folder / "file").touch()
        modes = [
            stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "folder", tmp_path / "folder" / "file")
        ]
        assert modes == [0o750, 0o640]
    finally:
        os.umask(earlier)


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
    with pytest.raises(DataError), atomic_folder(target, replace=True):
        pass
    assert [path.name for path in target.iterdir()] == ["one"]


def test_what_cannot_be_written_is_one_error_before_the_work(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    for write, name in (
        (atomic_path, "folder"), (atomic_folder, "file"), (temporary_folder, "file"), (atomic_path, "file/a"),
        (atomic_folder, "file/a"), (atomic_path, "/dev/null"), (atomic_path, "x" * 300),
    ):  # fmt: skip
        with pytest.raises(DataError), write(tmp_path / name):
            pytest.fail("the work is done")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_errors_that_are_not_of_the_disk_stay_what_they_are(tmp_path):
    kept = ConnectionResetError(104, "reset"), FileNotFoundError(2, "absent"), MemoryError(), KeyError("a")
    for error in (*kept, OSError(errno.ENOSPC, "full"), OSError("3 requested and 1 written")):
        problem = None if error in kept else "file: this file cannot be written"
        expected = pytest.raises(DataError if problem else type(error), match=problem)
        with expected, atomic_path(tmp_path / "file"):
            raise error
    assert list(tmp_path.iterdir()) == []


def test_what_is_removed_is_gone_and_what_a_link_leads_to_stays(tmp_path):
    (tmp_path / "folder").mkdir()
    for name in ("file", "folder/file"):
        (tmp_path / name).write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    remove(tmp_path / "link")
    assert (tmp_path / "folder" / "file").exists()
    for name in ("file", "folder", "absent"):
        remove(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_only_files_are_read(tmp_path):
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "folder", tmp_path / "absent"):
        refused(read_bytes, path, "this list")


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000, b"9" * 5000, b"\0"])
def test_what_is_no_json_is_one_error(tmp_path, content):
    file = tmp_path / "x.json"
    file.write_bytes(content)
    refused(files.read_json, file, "this list")
