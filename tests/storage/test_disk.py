"""One bound for all that lies in the cache; what is in use stays."""

import os

import pytest
from refused import refused

import workbench as wb
from workbench.models.ngram.model import NGram
from workbench.storage import cache as disk

ONE, TWO, THREE = "1" * 64, "2" * 64, "3" * 64
LINES = ["the heron saw the eel .", "the eel saw the heron ."] * 30


@pytest.fixture
def home(no_data):
    """A cache with entries of several kinds: of 10 bytes each, used one after another, long ago."""
    places = (f"old/{ONE}.parquet", f"models/{ONE}/weights", f"corpus/{TWO}/ids", f"old/{THREE}.parquet")
    for number, place in enumerate(places):
        file = no_data / "cache" / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"0123456789")
        for path in (file, file.parent):
            os.utime(path, (1000 + number,) * 2)
    return no_data / "cache"


def names():
    return [f"{entry.kind}/{entry.path.name}" for entry in disk.cache_entries()]


def age():
    for entry in disk.cache_entries():
        for path in (entry.path, *entry.path.rglob("*")):
            os.utime(path, (1000, 1000))


@pytest.mark.usefixtures("home")
def test_the_bound_is_one_for_all_kinds(monkeypatch):
    assert names() == [f"old/{ONE}.parquet", f"models/{ONE}", f"corpus/{TWO}", f"old/{THREE}.parquet"]
    assert [entry.size for entry in disk.cache_entries()] == [10] * 4
    monkeypatch.setenv(disk.VARIABLE, "29e-9")
    disk.make_room()
    assert names() == [f"corpus/{TWO}", f"old/{THREE}.parquet"]
    for value in ("two", "-1", "nan", "inf", "1e400", " ", "1,5"):
        monkeypatch.setenv(disk.VARIABLE, value)
        refused(disk.make_room)
    monkeypatch.delenv(disk.VARIABLE)
    assert disk.cache_limit() == 10**10
    disk.make_room()
    assert names() == [f"corpus/{TWO}", f"old/{THREE}.parquet"]


def test_what_was_used_last_goes_last_and_what_was_used_now_stays(home):
    """A training whose checkpoints are new is in use, however old its folder is."""
    disk.touch(home / "models" / ONE)
    (home / "corpus" / TWO / "ids").write_bytes(b"0123456789")
    os.utime(home / "corpus" / TWO, (1000, 1000))
    assert sorted(names()[:2]) == [f"old/{ONE}.parquet", f"old/{THREE}.parquet"]
    disk.make_room(0)
    assert sorted(names()) == [f"corpus/{TWO}", f"models/{ONE}"]
    age()
    disk.make_room(0)
    assert names() == []


def test_only_what_the_cache_made_is_deleted(home, tmp_path):
    """Files, hidden folders and linked folders of a user stay, however old and large."""
    entries = [f"corpus/{TWO}/ids", f"elsewhere/{THREE}/weights"]
    own = ["notes.txt", ".git/config", "corpus/notes.txt", "corpus/.git/config", "mine/thesis/chapter.tex"]
    for place in (*own, *entries):
        file = tmp_path / place if place.startswith("elsewhere") else home / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes(100))
    (home / "linked").symlink_to(tmp_path / "elsewhere")
    (home / "corpus" / THREE).symlink_to(tmp_path / "elsewhere" / THREE)
    for path in (*home.rglob("*"), *(tmp_path / "elsewhere").rglob("*")):
        os.utime(path, (1000, 1000))
    wb.cache().free("models")
    disk.make_room(0)
    assert names() == []
    assert all((home / place).exists() for place in own)
    assert (home / "linked" / THREE / "weights").exists()
    assert (home / "corpus" / THREE / "weights").exists()
    tag = (home / "CACHEDIR.TAG").read_text()
    assert tag.startswith("Signature: 8a477f597d28d172789f06886806bc55\n")  # https://bford.info/cachedir


@pytest.mark.usefixtures("no_data")
def test_models_and_texts_count_as_used():
    NGram.fit(LINES, order=2, memory="60M")
    age()
    assert NGram.fit(LINES, order=2, memory="60M").vocabulary
    assert {entry.kind for entry in disk.cache_entries() if entry.used > 1000} >= {"ngram", "corpus"}
    age()
    disk.make_room(0)
    assert names() == []


@pytest.mark.usefixtures("no_data")
def test_the_cache_is_listed_and_freed():
    model = NGram.fit(LINES, order=2, memory="60M")
    wb.annotate(wb.items_from_text(["The heron saw the eel."]))
    listed = wb.cache()
    rows = listed.set_index("kind")
    assert rows["content"]["ngram"].startswith("2-gram, kneser-ney, 360 words")
    assert rows["content"]["corpus"] == "texts of 360 words, lower-cased"
    assert rows["content"]["annotations"].endswith(" tables")
    assert rows["bytes"].sum() == sum(entry.size for entry in disk.cache_entries())
    assert "of 10 GB" in listed.to_html()
    left = listed.free("annotations")
    assert set(left["kind"]) == {"ngram", "corpus"}
    key = model.folder.name[:12]
    assert set(left.free(key)["kind"]) == {"corpus"}
    for chosen in (
        (),
        ("models",),
    ):
        refused(wb.cache().free, *chosen)
