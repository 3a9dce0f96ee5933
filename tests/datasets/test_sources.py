import os
import tarfile

import builders as b
import pytest
from refused import refused

from workbench import datasets
from workbench.datasets import archives, load, sources
from workbench.storage.errors import DataError

DEV = "lambada_development_plain_text.txt"
ONE = {DEV: b.text(b.PLAIN)}


def test_the_usual_places_are_searched_with_their_subfolders(no_data, tmp_path, monkeypatch):
    b.write(no_data / "raw" / "deep" / "er", ONE)
    assert len(load("lambada")) == 3
    b.write(tmp_path / "other", {DEV: b.text(b.PLAIN[:1])})
    monkeypatch.setenv("WORKBENCH_DATA", str(tmp_path / "other"))
    assert len(load("lambada")) == 1


def test_what_is_missing_is_named_with_the_places_and_the_hint(no_data, tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_DATA", str(tmp_path / "gone"))
    raised = refused(load, "lambada", "test")
    for part in (f"{tmp_path / 'gone'} (not there)", str(no_data / "raw"), 'wb.fetch("lambada")'):
        assert part in str(raised)
    refused(load, "lambada", path=tmp_path / "nowhere")


@pytest.mark.parametrize(
    "files",
    [
        {DEV.upper(): b.text(b.PLAIN)},
        {"lambada_development_plain_text_old.txt": b.text(b.PLAIN[:2]), **ONE},
        {"lambada-dataset.tar.gz": b.tar({DEV: b.text(b.PLAIN[:1])}), **ONE},
        {".cache/" + DEV: "x", "a/" + DEV: b.text(b.PLAIN)},
    ],
    ids=["case", "the official name wins", "a file wins over an archive", "hidden folders and links back"],
)
def test_the_file_that_is_meant_is_read(tmp_path, files):
    folder = b.write(tmp_path, files)
    (folder / "loop").symlink_to(folder)
    assert len(load("lambada", path=folder)) == 3


def test_several_files_that_fit_are_an_error_unless_they_are_the_same(tmp_path):
    folder = b.write(tmp_path, {f"a/{DEV}": b.text(b.PLAIN), f"b/{DEV}": b.text(b.PLAIN)})
    assert len(load("lambada", path=folder)) == 3
    b.write(folder, {f"b/{DEV}": b.text(b.PLAIN[:1])})
    refused(load, "lambada", path=folder)


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".zip"])
def test_archives(no_data, tmp_path, suffix):
    files = {
        "README": "x",
        f"release/{DEV}": b.text(b.PLAIN),
        "release/train-novels.tar": b.tar({"a": "x"}, "w"),
    }
    mode = {".tar": "w", ".tar.xz": "w:xz", ".tar.bz2": "w:bz2"}.get(suffix, "w:gz")
    content = b.zipped(files) if suffix == ".zip" else b.tar(files, mode)
    folder = b.write(tmp_path / "data", {f"lambada-dataset{suffix}": content})
    path = folder / f"lambada-dataset{suffix}"
    by_path, by_folder = load("lambada", path=path), load("lambada", path=folder)
    assert by_path.frame.equals(by_folder.frame)
    assert by_path.attrs["source"] == DEV
    refused(load, "lambada", "test", path=path)
    assert list(folder.iterdir()) == [path]
    kept = [file.name for file in (no_data / "cache" / "releases").rglob("*") if file.is_file()]
    assert sorted(kept) == ["README", DEV]


def test_an_archive_is_read_to_its_end_and_no_part_of_it_loads(tmp_path):
    packed = b.tar({DEV: b.text(b.PLAIN), "train-novels.tar": os.urandom(300_000)})
    path = b.write(tmp_path, {"x.tar.gz": packed[:100_000]}) / "x.tar.gz"
    for split in ("dev", "test"):
        refused(load, "lambada", split, path=path)


@pytest.mark.usefixtures("no_data")
def test_an_archive_that_is_cut_at_any_byte(tmp_path):
    whole = b.tar({"a/x.txt": b.text(b.PLAIN) * 3, "a/y.txt": "y"}, "w")
    path = tmp_path / "x.tar"
    for cut in range(0, len(whole), max(1, len(whole) // 25)):
        path.write_bytes(whole[:cut])
        try:
            whole_names = [member.name for member in archives.members(path) if member.read()]
        except DataError:
            refused(archives.unpacked, path)
            continue
        assert whole_names == ["a/x.txt", "a/y.txt"]  # only the filling after the last file was lost
        assert [file.name for file in sorted(archives.unpacked(path).rglob("*.txt"))] == ["x.txt", "y.txt"]


LINK = tarfile.TarInfo()
LINK.type, LINK.linkname = tarfile.SYMTYPE, "/etc/passwd"
OUTSIDE = f"../../evil/{DEV}"
EVIL = {
    "x.tar": b.tar({OUTSIDE: b.text(b.PLAIN)}),
    "x.zip": b.zipped({OUTSIDE: b.text(b.PLAIN)}),
    "link.tar": b.tar({DEV: LINK}),
}


@pytest.mark.parametrize("name", EVIL)
def test_an_archive_does_not_lead_out_of_its_folder(no_data, tmp_path, name):
    inner = b.write(tmp_path / "a" / "b" / "c", {name: EVIL[name]})
    refused(load, "lambada", path=inner / name)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [name]
    assert list((no_data / "cache" / "releases").iterdir()) == []


@pytest.mark.parametrize("content", [b"a b\0c", b"\x1f\x8b\x08 x y", b"PAR1 a b", b"%PDF-1.4 a b"])
def test_binary_files_are_told(tmp_path, content):
    refused(load, "lambada", path=b.write(tmp_path, {"x.txt": content}) / "x.txt")
    with pytest.raises(DataError):
        assert sources.File(tmp_path).data


def test_names_of_data_sets():
    assert datasets.dataset_names()[:5] == ["lambada", "cbt", "msrcc", "cnnqa", "sample"]
    refused(load, "lamdaba")
