"""Entry points of other packages, real ones in folders on the path: a bad one spoils nothing else."""

import re
from pathlib import Path
from textwrap import dedent

import pytest
from refused import refused

import workbench as wb
from workbench import datasets
from workbench.analysis import tagging
from workbench.models import registry
from workbench.models.base import Predictor
from workbench.storage import packages

MODULE = """
from workbench.models.baselines.chance import RandomWord
from workbench.models.base import Predictor
class Plain(RandomWord):
    "Guess <b>anything</b>."
class Abstract(Predictor):
    "Cannot be made."
def load(split, **options):
    return split, options
"""
RAISES = {"exits": "raise SystemExit(3)", "is-wrong": "1 +"}
NO_MODELS = {
    "a-function": "plain_model:load", "not-there": "plain_model:Nothing", "other-class": "builtins:dict",
    "abstract": "plain_model:Abstract",
}  # fmt: skip


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return a function that writes a package with a list of entry points, and puts it on the path."""
    monkeypatch.syspath_prepend(tmp_path)
    packages._entry_points.cache_clear()
    (tmp_path / "plain_model.py").write_text(MODULE)

    def write(package, points, group="workbench.models"):
        info = tmp_path / f"{package}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
        lines = (
            points
            if isinstance(points, bytes)
            else "".join(f"{n} = {v}\n" for n, v in points.items()).encode()
        )
        (info / "entry_points.txt").write_bytes(f"[{group}]\n".encode() + lines)

    yield write
    packages._entry_points.cache_clear()


def test_a_model_of_another_package(install, tmp_path):
    install("good", {"plain": "plain_model:Plain"})
    kind = registry.model_class("plain")
    assert (kind.__name__, registry.name_of(kind), registry.model_names()[-1]) == ("Plain", "plain", "plain")
    table = wb.models()
    assert table.set_index("name").loc["plain", "class"] == "Plain"
    assert "<b>" not in table._repr_html_()
    kind().save(tmp_path / "saved")
    assert type(Predictor.load(tmp_path / "saved")) is kind


@pytest.mark.parametrize("name", [*RAISES, *NO_MODELS])
def test_one_that_cannot_be_loaded_is_a_row(install, tmp_path, name):
    if name in RAISES:
        (tmp_path / "bad_module.py").write_text(RAISES[name])
    install("bad", {name: NO_MODELS.get(name, "bad_module:Model"), "plain": "plain_model:Plain"})
    refused(registry.model_class, name)
    table = wb.models().set_index("name")
    assert name in table.loc[name, "description"]
    assert table.loc["plain", "class"] == "Plain"
    assert set(registry.BUILT_IN) < set(table.index)


def test_a_built_in_name_is_never_replaced(install):
    install("bad", {"lstm": "plain_model:Plain"})
    install("also-bad", {"sample": "plain_model"}, "workbench.datasets")
    with pytest.warns(UserWarning, match="'lstm' in workbench.models"):
        assert registry.model_names() == [*registry.BUILT_IN]
    assert registry.model_class("lstm").__module__ == "workbench.models.neural.recurrent"
    with pytest.warns(UserWarning, match="'sample' in workbench.datasets"):
        assert len(datasets.load("sample")) == 222


def test_a_name_of_two_packages_is_left_out(install):
    install("one", {"both": "plain_model:Plain", "plain": "plain_model:Plain"})
    install("two", {"both": "plain_model:Abstract"})
    with pytest.warns(UserWarning, match="'both' in workbench.models"):
        assert registry.model_names() == [*registry.BUILT_IN, "plain"]


@pytest.mark.parametrize("group", ["workbench.models", "workbench.datasets", "spacy_models"])
def test_a_damaged_package_is_one_warning_and_hides_no_other(install, group):
    install("good", {"plain": "plain_model:Plain"}, group)
    install("bad", b"\xff\xfe = x", group)
    names = {
        "workbench.models": registry.model_names, "workbench.datasets": datasets.dataset_names,
        "spacy_models": tagging.installed,
    }  # fmt: skip
    with pytest.warns(UserWarning, match="'bad' has unreadable entry points"):
        assert "plain" in names[group]()
    assert "plain" in names[group]()  # without a warning


def test_a_data_set_of_another_package(install, tmp_path):
    (tmp_path / "bad_reader.py").write_text("raise SystemExit")
    install("good", {"verses": "plain_model", "broken": "bad_reader"}, "workbench.datasets")
    assert datasets.dataset_names()[-2:] == ["broken", "verses"]
    listed = datasets.available().set_index("dataset").loc[["broken", "verses"]]
    unknown = "'broken' cannot be imported from bad_reader: SystemExit"
    assert listed["where"].tolist() == [unknown, "the package good"]
    assert listed["found"].tolist() == [False, True]
    options = {"variant": None, "path": tmp_path, "on_error": "raise"}
    assert datasets.load("verses", "dev", path=tmp_path) == ("dev", options)
    refused(datasets.load, "broken")


PAGE = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
HAIKU = dedent(re.search(r"^ *```python\n(.*?\n) *```", PAGE, re.DOTALL | re.MULTILINE)[1]).replace(
    "limerick", "haiku"
)
"""The reader of a data set as the page shows it, under another name."""
TERMS = """
from dataclasses import replace
from workbench.datasets.sources import BookFiles
ADDRESS = "https://haikus.example/dev.txt"
REMOTE = {"name": "haikus_dev.txt", "addresses": [ADDRESS], "bytes": 1, "sha256": "0"}
RELEASE = replace(
    RELEASE,
    terms={"title": "Haikus", "licence": "CC0-1.0", "citation": "Nobody", "files": [REMOTE]},
    books={"train": BookFiles(("*/haikus_books/*.txt",))},
)
"""


def test_a_release_of_another_package_is_seen_as_ours_are(install, tmp_path, no_data, capsys):
    (tmp_path / "haikus.py").write_text(HAIKU + TERMS)
    install("verses", {"haikus": "haikus:RELEASE"}, "workbench.datasets")
    listed = wb.available().set_index("dataset").loc["haikus"]
    assert listed["variant"].tolist() == ["plain", "books"]
    assert not listed["found"].any()
    refused(wb.load, "haikus")
    wb.fetch("haikus", dry_run=True)
    assert "https://haikus.example/dev.txt" in capsys.readouterr().out
    raw = no_data / "raw"
    (raw / "haikus_books").mkdir(parents=True)
    (raw / "haikus_books" / "one.txt").write_text("It rained.\n")
    (raw / "haikus_dev.txt").write_text("there was a goose\nalone\nthat ran loose\n")
    assert wb.available().set_index("dataset").loc["haikus", "found"].all()
    refused(wb.load, "haikus")
    items = wb.load("haikus", on_error="skip")
    assert (items[1].answer, items.attrs["licence"]) == ("loose", "CC0-1.0")
    assert "differs from the published file" in items.attrs["note"]
    assert [book.text for book in wb.books("haikus")] == ["It rained.\n"]
