"""Data sets built from novels: the same files whoever makes them, and a manifest that counts."""

import hashlib
from pathlib import Path

import builders as b
import pytest
from dask_cluster import cluster, kill_workers
from joblib import parallel_config
from refused import refused

import workbench as wb
from workbench import construction
from workbench.construction import novel_checks, novels, pipeline
from workbench.storage.errors import DataError
from workbench.texts.corpus import Corpus
from workbench.texts.tokenise import HEADING, OPENING, PROSE

OPTIONS = {
    "number": 12,
    "options": {"cnn_qa": {"n_tokens": 200}, "sentence_completion": {"frequency": 1e-3, "minimum": 2}},
}


def digests(folder):
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in Path(folder).glob("*.parquet")
    }


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Give a folder whose cache several tests use."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def build(home, tmp_path, monkeypatch):
    """Return a function that builds sets, with the cache of a folder."""

    def made(name, home=home, novels="sample", **options):
        monkeypatch.setenv("WORKBENCH_HOME", str(home))
        return construction.build(novels, tmp_path / name, **OPTIONS | options)

    return made


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Give a folder with a home, and sets that one process has built in it."""
    folder = tmp_path_factory.mktemp("alone")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_HOME", str(folder / "home"))
        return folder, construction.build("sample", folder / "one", **OPTIONS)


def test_the_files_are_the_same_whoever_makes_them(alone, build, tmp_path, monkeypatch):
    folder, one = alone
    assert list(one) == ["lambada", "lambada-control", "childrens_book", "sentence_completion", "cnn_qa"]
    expected = digests(folder / "one")
    assert len(expected) == 5
    for module, limit in ((novel_checks, "_FEW"), (novels, "_LITTLE")):  # little work stays here
        monkeypatch.setattr(module, limit, 0)
    with parallel_config(n_jobs=2):
        several = build("several", tmp_path / "home of several")
    assert digests(tmp_path / "several") == expected
    left = kill_workers(monkeypatch)
    with cluster() as client, client.as_current():
        clustered = build("cluster", tmp_path / "home of a cluster")
    assert digests(tmp_path / "cluster") == expected
    assert left == [("_described", 19), ("_tagged", 4)]
    assert one.manifest == several.manifest == clustered.manifest
    monkeypatch.setenv("WORKBENCH_HOME", str(folder / "home"))  # where the novels are tagged
    other = construction.build("sample", tmp_path / "other", seed=1, **OPTIONS)
    assert other.manifest != one.manifest
    assert set(digests(tmp_path / "other").values()).isdisjoint(expected.values())


def test_every_set_is_of_the_part_and_the_manifest_counts_it(alone, monkeypatch):
    folder, made = alone
    monkeypatch.setenv("WORKBENCH_HOME", str(folder / "home"))
    collection = construction.read_novels("sample")
    part = set(collection.frame.loc[collection.frame["split"] == "test", "book_id"])
    for name in made:
        assert set(made[name].frame["book_id"]) <= part
    assert [len(made[name]) for name in made] == [12, 12, 48, 12, 12]
    frame = made.manifest.to_frame().set_index("step")
    assert (frame["n_in"] == frame["n_out"] + frame["n_dropped"] + frame["n_not_drawn"]).all()
    out = frame["n_out"]
    assert out["filters"] == out["control set"] == len(made["lambada"])
    assert out["childrens_book questions"] == 48
    assert out["sentence completion"] == 12
    texts = construction.candidates.CandidatePassages.of(collection.books("test"))
    assert frame.loc["control set", "n_in"] == len(texts)
    everything = construction.childrens_book.questions(collection.books("test"))
    assert frame.loc["childrens_book questions", "n_in"] == len(everything)
    wb.charts.funnel(made.manifest.to_frame())


def test_a_call_that_was_interrupted_leaves_nothing_half_made(build, tmp_path, monkeypatch):
    before = build("sets", sets=["childrens_book"])
    expected = digests(before.folder)
    with monkeypatch.context() as patch:
        patch.setitem(pipeline._MAKERS, "cnn_qa", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            build("sets", sets=["lambada", "cnn_qa"])
    assert digests(before.folder) == expected
    assert list(construction.DataSets(before.folder)) == ["childrens_book"]
    again = build("sets", sets=["cnn_qa"])  # what was built before is replaced as a whole
    assert list(again) == ["cnn_qa"]
    assert set(digests(tmp_path / "sets")) == {"cnn_qa.parquet"}


def test_what_is_not_ours_stays(build, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work", encoding="utf-8")
    refused(build, "mine", sets=["childrens_book"])
    assert (tmp_path / "mine" / "thesis.txt").read_text(encoding="utf-8") == "years of work"


def test_a_damaged_file_is_an_error(build):
    made = build("sets", sets=["childrens_book"])
    path = made.folder / "childrens_book.parquet"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(DataError):
        made["childrens_book"]
    with pytest.raises(DataError):
        made["lambada"]


@pytest.mark.parametrize(
    "options",
    [
        {"sets": ["squad"]},
        {"sets": []},
        {"number": 0},
        {"options": {"passages": {}}},
        {"split": "control"},
    ],
)
def test_what_makes_no_sense_is_an_error(build, options):
    refused(build, "wrong", **options)


HEAD = (
    "The Project Gutenberg EBook of {}, by Ann\n\n*** START OF THIS PROJECT GUTENBERG EBOOK ***\n\n"
    "Produced by Ann Onym and the Online\nDistributed Proofreading Team\n\n"
)
FOOT = (
    "\n*** END OF THIS PROJECT GUTENBERG EBOOK ***\n\nThis file should be named goat10.txt or goat10.zip\n\n"
    "***START**THE SMALL PRINT!**START***\nYou know: lawyers.\n\n"
    "*END THE SMALL PRINT! FOR PUBLIC DOMAIN EBOOKS*Ver.02/11/02*END*\n"
)
LICENCE = ("gutenberg", "proofreading", "lawyers", "small print", "should be named", "produced by ann")
BAD = {
    "bad.epub": b"PK\x03\x04",
    "bad.txt": b"It rained.\0\0",
    "empty.txt": b"",
    "novels.jsonl.txt": b"\xff\xfeI",
}


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    """Give a folder of good novels in three forms, some with a licence, and some that cannot be read."""
    folder = tmp_path_factory.mktemp("damaged")
    for number, book in enumerate(wb.books("sample")):
        name, text = Path(book.book_id).name, book.text
        forms = {
            f"{name}.txt": (HEAD.format(book.title) + text + FOOT).encode("utf-16"),
            f"{name}.txt.utf-8": text.encode(),
            f"{name}.zip": b.zipped({f"{name}.md": text}),
        }
        form = [*forms][number % len(forms)]
        (folder / form).write_bytes(forms[form])
    b.write(folder, BAD)
    return folder


def test_sets_are_built_beside_damaged_files(damaged, build, tmp_path):
    sets = ["childrens_book", "cnn_qa"]
    refused(build, "sets", novels=damaged, sets=sets)
    assert not (tmp_path / "sets").exists()
    made = build("sets", novels=damaged, sets=sets, on_error="skip")
    assert all(len(made[each]) for each in made)
    texts = [text for each in made for text in made[each].frame["text"]]
    assert not set(BAD) & {book_id for each in made for book_id in made[each].frame["book_id"]}
    text = made.manifest.to_frame().set_index("step").loc["text"]
    assert (text["n_in"], text["n_out"], text["reasons"]) == (24, 20, "cannot be read: 4")
    assert construction.DataSets(tmp_path / "sets").manifest == made.manifest
    collection = construction.read_novels(wb.books(damaged, on_error="skip"))
    for text in (*texts, *(book.text for book in collection)):
        assert not [phrase for phrase in LICENCE if phrase in text.lower()]
    reasons = collection.frame.set_index("book_id")["reason"].dropna()
    assert reasons.index.tolist() == sorted(BAD)
    assert [reason.removeprefix("cannot be read: ").split(" (")[0] for reason in reasons] == [
        "expected plain text or Markdown, got an EPUB or HTML file",
        "this is a binary file, expected UTF-8 text",
        "there is no text in it",
        "this text in UTF-16 cannot be read",
    ]


def test_sentence_numbers_are_those_of_the_training_text(alone):
    """The ids of items of all sets count the sentences of their novel as a corpus does, headings included."""
    _, made = alone
    corpus = Corpus.of("sample", lower=False)
    firsts = dict(zip(corpus.books["book_id"], corpus.books["first"].tolist(), strict=True))
    lines, has_heading = list(corpus.lines()), False
    for name in made:
        for item in made[name]:
            first = firsts[item.book_id]
            number = first + int(item.item_id.rpartition("/")[2].partition("-")[0])
            assert corpus.roles[number] in (PROSE, OPENING)
            has_heading |= HEADING in corpus.roles[first:number]
            start, end = item.sentences[-1]
            if item.dataset == "cnnqa":  # lower-cased and anonymised, but for its marks
                marks = [word for word in item.query.split() if word in (",", ".", "?", "!")]
                assert marks == [word for word in lines[number].split() if word in (",", ".", "?", "!")]
            else:
                assert lines[number].startswith(item.text[start:end])
    assert has_heading
