import os
import stat
from pathlib import Path

import pytest

from workbench.storage import files
from workbench.storage.files import atomic_folder, atomic_path, data_home, resource


class StoppedError(Exception):
    pass


def stop_midway(path):
    path.write_text("half")
    raise StoppedError


def test_what_was_there_stays_until_all_is_written(tmp_path):
    target = tmp_path / "new" / "table.txt"
    with atomic_path(target) as temporary:
        temporary.write_text("old")
        assert temporary.parent == target.parent
        assert not target.exists()
    assert stat.S_IMODE(target.stat().st_mode) == 0o644
    with pytest.raises(StoppedError), atomic_path(str(target)) as temporary:
        stop_midway(temporary)
    assert target.read_text() == "old"
    with pytest.raises(FileNotFoundError), atomic_path(target) as temporary:
        temporary.unlink()
    assert list(target.parent.iterdir()) == [target]
    with atomic_path(target) as temporary:
        temporary.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"


@pytest.mark.skipif(os.name == "nt" or not hasattr(os, "fork"), reason="needs fork")
def test_a_killed_writer_leaves_the_old_file(tmp_path):
    target = tmp_path / "table.txt"
    target.write_text("old")
    child = os.fork()
    if not child:
        with atomic_path(target) as temporary:
            temporary.write_text("half of the ne")
            os._exit(9)
    os.waitpid(child, 0)
    assert target.read_text() == "old"


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
    with pytest.raises(OSError, match="no space"), atomic_folder(target, replace=True):
        pass
    assert [path.name for path in target.iterdir()] == ["one"]


def test_folders_of_killed_processes_go_after_an_hour(tmp_path):
    old, young = tmp_path / ".folder.partial-old", tmp_path / ".folder.partial-young"
    for left in (old, young):
        (left / "new").mkdir(parents=True)
        (left / "new" / "a").touch()
    for path in (old, *old.rglob("*")):
        os.utime(path, (0, 0))
    with atomic_folder(tmp_path / "folder"):
        pass
    assert not old.exists()
    assert young.exists()


@pytest.mark.parametrize("value", ["{}/mine", "~/mine", ""])
def test_the_data_folder(tmp_path, monkeypatch, value):
    monkeypatch.setenv("WORKBENCH_HOME", value.format(tmp_path))
    default = Path(files.__file__).parents[2] / "data"
    assert data_home() == (Path(value.format(tmp_path)).expanduser() if value else default)


def test_what_ships_is_found_in_a_checkout_and_in_an_installed_package(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_PACKAGE", tmp_path)
    monkeypatch.setattr(files, "_CHECKOUT", tmp_path / "checkout")
    monkeypatch.setenv("WORKBENCH_HOME", "")
    monkeypatch.chdir(tmp_path)
    assert resource("registry.toml") == tmp_path / "checkout" / "data" / "registry.toml"
    assert data_home() == tmp_path / "data"
    (tmp_path / "_data").mkdir()
    assert resource("sample", "x.txt") == tmp_path / "_data" / "sample" / "x.txt"
