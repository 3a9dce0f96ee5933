"""Links to themselves, pipes, odd names: one DataError, or ignored."""

import gc
import os
import tracemalloc

import builders as b
import pytest
from refused import refused

import workbench as wb
from workbench.datasets import load, sources
from workbench.storage.errors import DataError

DEV = "lambada_development_plain_text.txt"


def odd_entries(folder):
    folder.mkdir(exist_ok=True)
    (folder / "loop").symlink_to("loop")
    (folder / "one").symlink_to("two")
    (folder / "two").symlink_to("one")
    (folder / "dangling").symlink_to("gone")
    (folder / DEV.replace("development", "test")).symlink_to("loop")
    (folder / "up").symlink_to("..")
    os.mkfifo(folder / "pipe")
    os.mkfifo(folder / "lambada_control_test_data_plain_text.txt")
    os.mkfifo(folder / "train-novels.tar")
    (folder / os.fsdecode(b"\xff.txt")).write_text("x")
    return folder


def test_odd_entries_of_a_folder_are_not_in_the_way(no_data):
    folder = odd_entries(no_data / "raw")
    b.write(folder, {DEV: b.text(b.PLAIN), "Holmes.machine_format.questions.txt": "x"})
    table = wb.available()
    found = table[table["found"] & (table["dataset"] != "sample")]
    assert set(found["dataset"]) == {"lambada", "msrcc"}
    assert len(load("lambada")) == len(load("lambada", path=folder)) == 3
    absent = {"lambada": ("test", "control"), "msrcc": ("test",), "cnnqa": ("dev",), "cbt": ("dev",)}
    for dataset, split in ((dataset, split) for dataset, splits in absent.items() for split in splits):
        with pytest.raises(DataError):
            load(dataset, split)
    assert [book.text for book in wb.books(folder)]


def test_a_folder_that_may_not_be_listed(tmp_path, monkeypatch):
    folder = b.write(tmp_path, {DEV: b.text(b.PLAIN), "closed/x.txt": "x"})
    scandir, listdir = os.scandir, os.listdir

    def closing(call, closed):
        def listed(path):
            if str(path).endswith(closed):
                raise PermissionError(13, "Permission denied", str(path))
            return call(path)

        return listed

    monkeypatch.setattr(os, "scandir", closing(scandir, "closed"))
    assert len(load("lambada", path=folder)) == 3
    monkeypatch.setattr(os, "listdir", closing(listdir, tmp_path.name))
    refused(load, "lambada", path=folder)


@pytest.mark.parametrize("line", ["x", "1 a b", "21 q\ta\t\tb"])
def test_bad_questions_take_little_more_than_their_file(tmp_path, line):
    name = "cbtest_NE_valid_2000ex.txt"
    few, path = (b.write(tmp_path / str(n), {name: f"{line}\n\n" * n}) / name for n in (2, 20_000))
    load("cbt", path=few, on_error="skip")  # what it imports is not counted
    tracemalloc.start()
    items = load("cbt", path=path, on_error="skip")
    gc.collect()
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(items.problems) == sources.MAX_PROBLEMS + 1
    assert "10,000 further problems are not listed" in str(items.problems[-1])
    assert held < 2500 * sources.MAX_PROBLEMS
    assert peak < held + 400 * 20_000
    assert items.problems[0].__traceback__ is None
