"""Archives that unpack to far more, links to themselves, pipes, odd names: one DataError, or ignored."""

import gc
import gzip
import io
import lzma
import os
import resource
import subprocess
import sys
import tarfile
import tracemalloc
import zipfile
from functools import partial

import builders as b
import pytest
from refused import refused

import workbench as wb
from workbench.datasets import archives, lambada, load, sources
from workbench.datasets.user_table import read_table
from workbench.storage import files
from workbench.storage.errors import DataError

DEV = "lambada_development_plain_text.txt"
BOUND = 1_000_000
ODD_PATHS = [
    "x" * 5000, "x/" * 5000, "a\0b", "\ud800", "~nobody-of-this-name/x", "pipe", "loop", "/dev/zero", "gone",
]  # fmt: skip


def with_size(size, kind=tarfile.REGTYPE):
    header = tarfile.TarInfo(DEV)
    header.type, header.size = kind, size
    return header.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 16)


def sparse(size):
    header = tarfile.TarInfo(DEV)
    header.type = tarfile.GNUTYPE_SPARSE
    block = bytearray(header.tobuf(tarfile.GNU_FORMAT))
    block[483:495] = b"%011o\0" % size
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return gzip.compress(bytes(block) + bytes(1 << 16))


def lzma_zip():
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_LZMA) as packed:
        packed.writestr(DEV, b.text(b.PLAIN))
    return content.getvalue()


def hungry_xz():
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 29}]
    return lzma.compress(b.tar({DEV: b.text(b.PLAIN)}, "w"), filters=filters)


def zeros(mode):
    return b.tar({DEV: bytes(2 * BOUND)}, mode)


BOMBS = {
    "x.tar.gz": (zeros("w:gz"), "more than 1,000,000 bytes"),
    "x.tar.xz": (zeros("w:xz"), "more than 1,000,000 bytes"),
    "x.tar.bz2": (zeros("w:bz2"), "more than 1,000,000 bytes"),
    "x.zip": (b.zipped({DEV: bytes(2 * BOUND)}), "more than 1,000,000 bytes"),
    "many.tar.gz": (b.tar({f"{n}.txt": b"a" * (BOUND // 4) for n in range(5)}), "more than 1,000,000 bytes"),
    "tiny.tar.gz": (b.tar({f"{n}.txt": b"a" for n in range(2000)}), "more than 1,000,000 bytes"),
    "sparse.tar.gz": (sparse(1 << 33), "more than 1,000,000 bytes"),
    "pax.tar": (with_size(3 << 30, tarfile.XHDTYPE), "a header in it has 3,221,225,472 bytes"),
    "negative.tar": (with_size(-512), "cannot be read"),
    "lzma.zip": (lzma_zip(), "LZMA"),
    "hungry.tar.xz": (hungry_xz(), "[Mm]emory"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_an_archive_that_holds_far_more_than_its_size_is_one_error(tmp_path, monkeypatch, name):
    monkeypatch.setattr(files, "MAX_IN_MEMORY", BOUND)
    monkeypatch.setattr(archives, "_LZMA_MEMORY", 1 << 25)
    content, problem = BOMBS[name]
    path = b.write(tmp_path, {name: content}) / name
    refused(problem, load, "lambada", path=path)
    refused(problem, list, wb.books(path))
    refused(problem, load, "cnnqa", path=path)


def test_one_member_is_bound_where_a_large_archive_may_hold_more(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_IN_MEMORY", 10_000)
    path = b.write(tmp_path, {"x.tar": b.tar({DEV: b.text(b.PLAIN * 100)}, "w")}) / "x.tar"
    refused(rf"x\.tar/{DEV}: it holds more than 10,000 bytes", load, "lambada", path=path)


def test_four_gigabytes_of_zeros_in_little_memory(tmp_path):
    path = tmp_path / "x.tar.xz"
    header = tarfile.TarInfo(DEV)
    header.size = 4 << 30
    block = lzma.compress(bytes(1 << 26), preset=0)
    with path.open("wb") as file:  # an xz file may consist of several
        file.write(lzma.compress(header.tobuf()))
        for _ in range(64):
            file.write(block)
        file.write(lzma.compress(bytes(1024)))
    code = "import sys, workbench as wb; wb.load('lambada', path=sys.argv[1])"
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (3 << 30,) * 2)  # noqa: E731
    command = [sys.executable, "-c", code, str(path)]
    process = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=limit)
    assert process.stderr.splitlines()[-1].startswith("workbench.storage.errors.DataError")
    assert "more than 2,147,483,648 bytes, unpacked" in process.stderr


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
@pytest.mark.parametrize(
    ("dataset", "name", "content"),
    [("lambada", DEV, b.text(b.PLAIN).encode()), ("cnnqa", "questions/test/1.question", b.cnn().encode())],
)
def test_a_member_twice_is_refused_unless_it_is_the_same(tmp_path, mode, dataset, name, content):
    for second, fits in ((content, True), (content.replace(b"a", b"o"), False)):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode=mode) as tar:
            for part in (content, second):
                info = tarfile.TarInfo(name)
                info.size = len(part)
                tar.addfile(info, io.BytesIO(part))
        path = b.write(tmp_path, {"x.tar": packed.getvalue()}) / "x.tar"
        split = "dev" if dataset == "lambada" else "test"
        if fits:
            b.write(tmp_path / "one", {name: content})
            expected = load(dataset, split, path=tmp_path / "one")
            assert load(dataset, split, path=path).frame.equals(expected.frame)
        else:
            refused(f"holds {name} twice, with different contents", load, dataset, split, path=path)


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
    refused(r"this folder cannot be read \(Permission denied\)", load, "lambada", path=folder)


READERS = {
    **{name: partial(load, name) for name in ("lambada", "cbt", "msrcc", "cnnqa", "sample")},
    "openai": partial(load, "lambada", "test", variant="openai"),
    "books": lambda path: list(wb.books(path)),
    "books of lambada": lambda path: list(wb.books("lambada", path=path)),
    "vocabulary": lambada.vocabulary,
    "items": wb.Items.from_parquet,
    "table": read_table,
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("end", ["", ".tar.gz", ".parquet", ".csv", ".txt"])
def test_odd_paths_are_one_error(tmp_path, monkeypatch, reader, end):
    folder = odd_entries(tmp_path / "folder")
    if end:
        os.mkfifo(folder / f"pipe{end}")
    monkeypatch.chdir(folder)
    read = READERS[reader]
    for name in ODD_PATHS:
        with pytest.raises(DataError):
            read(path=name + (end or (".csv" if reader == "table" else "")))


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
