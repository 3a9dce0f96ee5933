"""The store of runs: validated, whole or not there, found again, never overwritten."""

import glob
import importlib
import json
import os
import shutil
import signal
import sys

import duckdb
import numpy as np
import pandas as pd
import pytest
from made_predictions import made, unknown_answers
from pandas.testing import assert_frame_equal
from refused import refused

import workbench as wb
from workbench.models.base import Predictor, pad
from workbench.predictions import schema
from workbench.storage.errors import DataError
from workbench.storage.paths import resource

store = importlib.import_module("workbench.predictions.store")  # by its name

TEXTS = [
    "the heron ate the ___ .",
    "tom let go of the ___ .",
    "they baked ___ all night .",
    "who is it ? ___",
]
WORDS = ["eel", "string", "bread", "ada"]


def items(texts=TEXTS, answers=WORDS, candidates=None):
    candidates = [sorted(WORDS)] * 4 if candidates is None else candidates
    return wb.items_from_text(list(texts), answers=list(answers), candidates=candidates)


ITEMS = items()


class Length(Predictor):
    """Longer words are better: the shape of a model of one's own."""

    version = 1

    def __init__(self, config=None, *, name="length", change=None):
        self.name, self._config, self.change = name, config or {}, change
        self.asked = 0

    @property
    def config(self):
        return self._config

    def score(self, items, words):
        del items
        return pad([[len(word) for word in row] for row in words])

    def predict(self, items, top_k=10, *, seed=0):
        self.asked += 1
        frame = super().predict(items, top_k, seed=seed)
        return frame if self.change is None else self.change(frame)


@pytest.fixture
def home(no_data, monkeypatch):
    folder = no_data / "data [1] * what? {a}"  # characters that have a meaning in globs
    monkeypatch.setenv("WORKBENCH_HOME", str(folder))
    return folder / "runs"


def names(home):
    return sorted(path.name for path in home.iterdir()) if home.exists() else []


def test_a_run_holds_the_predictions_and_all_that_they_depend_on(home):
    model = Length({"a": 1, "b": (2, 3)})
    run = store.predict(ITEMS, model, top_k=2, seed=5)
    want = Length.predict(model, ITEMS, 2, seed=5).assign(run=run.run)
    assert_frame_equal(run.predictions, want.astype({"run": "str"}))
    assert run.folder == home / run.run
    assert (len(run), run.model) == (4, "length")
    assert repr(run) == f"Run({run.run!r}, model='length', n=4, accuracy={100 * run.info['accuracy']:.1f} %)"
    info = json.loads((run.folder / "run.json").read_text(encoding="utf-8"))
    assert info == run.info
    assert info["config"] == {"a": 1, "b": [2, 3]}
    assert (info["n"], info["seed"], info["top_k"], info["device"]) == (4, 5, 2, "cpu")
    assert info["accuracy"] == pytest.approx(want["correct"].mean())
    assert info["python"] == sys.version.split()[0]
    assert info["packages"]["numpy"] == np.__version__
    assert info["seconds"] > 0
    assert {"git", "version", "items", "training", "file_sha256", "finished"} <= set(info)
    assert sorted(path.name for path in run.folder.iterdir()) == ["predictions.parquet", "run.json"]


def test_predictions_are_the_same_from_disk_whatever_is_null(home):
    nested = pd.Series([["a", "b"], [], None, ["“"]], dtype=object)
    frame = unknown_answers(made(4)).assign(top_words=nested, item_id=ITEMS.frame["item_id"])
    run = store.keep(ITEMS, frame)
    assert names(home) == [run.run]
    assert_frame_equal(run.predictions, schema.check_predictions(run.predictions, ITEMS))
    assert run.predictions["top_words"].tolist() == nested.tolist()
    assert run.predictions["correct"].isna().all()
    assert run.info["accuracy"] is None
    assert pd.isna(store.runs()["accuracy"].iloc[0])


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("answers", [WORDS, [None] * 4])
def test_a_run_has_the_signature_of_its_measures_one_per_language(answers):
    english = items(answers=answers)
    german = english.frame.assign(variant="own-de", item_id=english.frame["item_id"] + " de")
    for one in (english, wb.Items.concat([english, wb.Items(german)])):
        run = store.predict(one, Length())
        signatures = wb.evaluate(run)["signature"].tolist()
        assert run.signature.splitlines() == signatures
        assert len(signatures) == one.frame["variant"].nunique()


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame.assign(item_id=["strange", *frame["item_id"][1:]]),
        lambda frame: frame[2:3],
        lambda frame: frame.assign(model="other"),
    ],
)
def test_wrong_predictions_are_refused_and_nothing_is_kept(home, change):
    refused(store.predict, ITEMS, Length(change=change))
    assert names(home) == []
    assert store.runs().empty


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        *(("config", {"a": value}) for value in ({1, 2}, np.int64(3), "\ud800")),
        ("training", {"books": {1}}),
    ],
)
def test_what_json_cannot_hold_is_an_error_before_the_work(home, monkeypatch, attribute, value):
    monkeypatch.setattr(Length, attribute, value)
    model = Length()
    refused(store.predict, ITEMS, model)
    assert (model.asked, names(home)) == (0, [])


def test_seeds_and_devices_may_be_of_other_kinds(home):
    model = Length()
    model.device = sys  # as torch has objects of its own for it
    run = store.predict(ITEMS, model, top_k=np.int64(3), seed=np.int32(7))
    assert (run.info["seed"], run.info["top_k"], run.info["device"]) == (7, 3, str(sys))
    assert store.predict(ITEMS, model, top_k=3, seed=7).run == run.run
    assert len(names(home)) == 1


def test_the_same_is_found_and_not_computed(home):
    first = store.predict(ITEMS, Length({"a": [1, 2]}))
    again = store.predict(items(), other := Length({"a": (1, 2)}))
    assert (again.run, again.info, other.asked) == (first.run, first.info, 0)
    assert names(home) == [first.run]


@pytest.mark.parametrize(
    ("asked", "named", "options"),
    [
        (items(candidates=[[*sorted(WORDS), "well"]] * 4), {}, {}),
        (ITEMS, {"config": {"a": 1}}, {}),
        (ITEMS, {"name": "long"}, {}),
        (ITEMS, {}, {"seed": 1}),
        (ITEMS, {}, {"top_k": 3}),
    ],
    ids=["candidates", "config", "name", "seed", "top_k"],
)
def test_anything_else_is_a_run_of_its_own(home, asked, named, options):
    first = store.predict(ITEMS, Length())
    second = store.predict(asked, model := Length(**named), **options)
    assert second.run != first.run
    assert model.asked == 1
    assert names(home) == sorted([first.run, second.run])
    assert store.predict(ITEMS, again := Length()).run == first.run
    assert again.asked == 0


def test_a_class_without_a_version_of_its_own_is_predicted_with_anew(home):
    class Edited(Length):
        """Its code may have changed since the last cell."""

    first = store.predict(ITEMS, Edited())
    again = store.predict(ITEMS, model := Edited())
    assert model.asked == 1
    assert names(home) == sorted({first.run, again.run})
    assert first.info["version"] is None

    class Raised(Length):
        version = 2

    Raised.__qualname__ = Length.__qualname__
    assert len({store.predict(ITEMS, each).run for each in (Length(), Raised(), Raised())}) == 2


def test_predictions_of_another_run_are_not_taken_for_its_own(home):
    one, other = store.predict(ITEMS, Length()), store.predict(ITEMS, Length(), seed=1)
    shutil.copy(home / one.run / "predictions.parquet", home / other.run / "predictions.parquet")
    with pytest.raises(DataError):
        _ = other.predictions


@pytest.mark.parametrize("text", ["[1]", '{"model": "m"}'])
def test_a_damaged_run_json_is_one_clear_error(home, text):
    whole = store.predict(ITEMS, Length(), seed=1)
    run = store.predict(ITEMS, Length())
    (home / run.run / "run.json").write_text(text)
    with pytest.warns(UserWarning, match=f"a run is left out: .*{run.run}/run.json"):
        assert store.runs()["run"].tolist() == [whole.run]
    for ask in (lambda: store.find_run(run.run), lambda: store.predict(ITEMS, Length())):
        raised = refused(ask)
        assert raised.file == str(home / run.run / "run.json")
    shutil.rmtree(home / run.run)
    assert store.predict(ITEMS, Length()).run == run.run


def test_a_store_that_cannot_be_written_is_an_error_before_the_work(home):
    home.parent.mkdir(parents=True)
    home.touch()
    with pytest.raises(DataError):
        store.predict(ITEMS, model := Length())
    assert model.asked == 0


def test_predictions_that_cannot_be_stored_are_not_lost(home):
    """The folder of runs goes away while the model predicts."""
    model = Length(change=lambda frame: (home.rmdir(), home.touch(), frame)[-1])
    with pytest.raises(store.NotStoredError) as raised:
        store.predict(ITEMS, model)
    home.unlink()
    [kept] = wb.import_results(raised.value.predictions, ITEMS).runs
    expected = Length().predict(ITEMS)
    assert_frame_equal(kept.predictions.drop(columns="run"), expected.drop(columns="run"))


def test_a_prediction_that_is_killed_while_it_is_stored_is_made_again(home):
    """Files are complete beside their place, and the process is killed before they are moved there."""
    if (child := os.fork()) == 0:
        sys.addaudithook(lambda event, _: event == "os.rename" and os.kill(os.getpid(), signal.SIGKILL))
        store.predict(ITEMS, Length())
        os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert wb.runs().empty
    run = store.predict(ITEMS, Length())
    assert [name for name in names(home) if not name.startswith(".")] == [run.run]
    assert_frame_equal(run.predictions.drop(columns="run"), Length().predict(ITEMS).drop(columns="run"))


@pytest.mark.parametrize("name", ["", "..", "a/b", "nothing", ".partial-x", "a\0", "x" * 300])
def test_a_name_without_a_run_is_refused(home, name):
    store.keep(ITEMS, Length().predict(ITEMS), name="one")
    shutil.copytree(home / "one", home / ".partial-x")
    refused(store.find_run, name)


def test_a_folder_under_the_name_of_another_run_is_not_that_run(home):
    run = store.predict(ITEMS, Length())
    run.folder.rename(home / "renamed")
    raised = refused(store.find_run, "renamed")
    assert raised.file == str(home / "renamed" / "run.json")
    assert f"expected the run 'renamed', got {run.run!r}" in str(raised)
    with pytest.warns(UserWarning, match="a run is left out: .*renamed/run.json"):
        assert store.runs().empty
    assert store.predict(ITEMS, model := Length()).run == run.run
    assert model.asked == 1


def answers(words=WORDS, model="ada"):
    given = dict(zip(ITEMS.frame["item_id"], words, strict=True))
    return schema.from_answers(ITEMS, given, model=model)


def test_answers_of_people_are_a_run_too(home):
    frame = answers(["eel", "kite", "bread", "tom"])
    run = store.keep(ITEMS, frame, source="a class of pupils", device="paper")
    assert (run.model, run.info["source"]) == ("ada", "a class of pupils")
    listed = store.runs().iloc[0]
    assert (listed["model"], listed["n"], listed["accuracy"], listed["device"]) == ("ada", 4, 0.5, "paper")
    assert pd.isna(listed["seconds"])
    assert names(home) == [run.run]


def test_runs_are_grouped_and_deleted_by_name(home):
    named = ("ada-1", "ada-2", "bob-1")
    runs = {name: store.keep(ITEMS, answers(model=name[:3]), name=name) for name in named}
    listed = wb.runs()
    size = sum(file.stat().st_size for file in (home / "ada-1").iterdir())
    assert listed.set_index("run")["bytes"]["ada-1"] == size
    assert f"{size / 1e3:.0f} kB" in listed.to_html()
    groups = listed.by("model").set_index("model")
    assert groups["runs"].to_dict() == {"bob": 1, "ada": 2}
    assert listed.by("items")["bytes"].tolist() == [listed["bytes"].sum()]
    refused(listed.delete, "ada-1", "ada")
    assert names(home) == ["ada-1", "ada-2", "bob-1"]
    left = listed.delete("ada-1", "bob-1")
    assert left["run"].tolist() == names(home) == ["ada-2"]
    for use in (lambda run: run.predictions, wb.evaluate, lambda run: wb.compare(ITEMS, [run])):
        refused(use, runs["bob-1"])


def test_runs_of_earlier_versions_of_the_models_are_named(home):
    """Those of a user's class are not: nothing tells whether its results have changed."""
    lsa = "workbench.models.lsa:LSA"
    infos = {
        "old": (lsa, 1),
        "new": (lsa, 2),
        "users": ("mine:LSA", 1),
        "unknown": (lsa, None),
        "bad": (3, "x"),
    }
    for name, (kind, version) in infos.items():
        store.keep(ITEMS, answers(), name=name, **{"class": kind, "version": version})
    listed = wb.runs().set_index("run")
    assert listed["outdated"].to_dict() == {name: name == "old" for name in infos}
    assert listed["version"].fillna(0).to_dict() == {"old": 1, "new": 2, "users": 1, "unknown": 0, "bad": 0}
    assert "earlier versions of their models" in wb.runs()._repr_html_()
    assert wb.runs().attrs["warnings"][0].endswith("predict again: old")
    for number in range(7):
        store.keep(ITEMS, answers(), name=f"more-{number}", **{"class": lsa, "version": 1})
    assert wb.runs().attrs["warnings"][0].endswith(" and 3 more")
    assert "warnings" not in wb.runs().delete("old", *(f"more-{number}" for number in range(7))).attrs
    assert len(names(home)) == len(infos) - 1


def cut(file):
    file.write_bytes(file.read_bytes()[:-9])


DAMAGES = {
    "predictions cut": lambda folder: cut(folder / "predictions.parquet"),
    "nothing in it": lambda folder: [file.unlink() for file in folder.iterdir()],
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.filterwarnings("ignore:a run is left out")
def test_a_damaged_run_is_deleted_by_its_name_too(home, damage):
    for name in ("good", "bad"):
        store.keep(ITEMS, answers(), name=name)
    DAMAGES[damage](home / "bad")
    left = wb.runs().delete("bad")
    assert left["run"].tolist() == ["good"]
    assert [path.name for path in home.iterdir()] == ["good"]  # nothing hidden either
    assert store.keep(ITEMS, answers(), name="bad").predictions["prediction"].tolist() == WORDS


def test_a_name_is_given_once(home):
    first = store.keep(ITEMS, answers(), name="pupils")
    assert store.keep(ITEMS, answers(), name="pupils").info == first.info  # a cell of a notebook, run again
    for frame, info in ((answers(["eel"] * 4), {}), (answers(), {"source": "b"})):
        refused(store.keep, ITEMS, frame, name="pupils", **info)
    assert names(home) == ["pupils"]
    assert_frame_equal(store.find_run("pupils").predictions, first.predictions)


def test_without_a_name_the_content_and_the_information_name_the_run(home):
    unnamed = store.keep(ITEMS, answers(), source="a")
    assert store.keep(ITEMS, answers(), source="a").run == unnamed.run
    others = {store.keep(ITEMS, answers(), source="b").run, store.keep(ITEMS, answers(["eel"] * 4)).run}
    assert names(home) == sorted({unnamed.run} | others)
    assert len(names(home)) == 3


def test_predictions_of_other_items_are_not_kept(home):
    refused(store.keep, ITEMS, answers().assign(item_id="strange"))
    assert names(home) == []


def test_no_runs_are_an_empty_list(home):
    listed = store.runs()
    assert listed.columns.tolist() == [
        "run", "model", "dataset", "split", "variant", "n", "accuracy", "finished", "seconds", "device",
        "seed", "bytes", "version", "outdated",
    ]  # fmt: skip
    assert not home.exists()


def test_duckdb_reads_every_cell_of_all_runs(home):
    """The predictions are a plain table; see "Runs in SQL" in ``docs/models.md``."""
    for seed, name in enumerate(("one", "two", "three")):
        frame = made(4, seed=seed, oov=0.3, right=0.5, model=f"model {name}")
        store.keep(ITEMS, frame.assign(item_id=ITEMS.frame["item_id"]), name=name)
    files = f"{glob.escape(str(home))}/*/predictions.parquet"
    got = duckdb.read_parquet(files).order("run, item_id").df()
    want = pd.concat([store.find_run(name).predictions for name in names(home)])
    want = want.sort_values(["run", "item_id"])
    assert got.columns.tolist() == want.columns.tolist() == list(schema.PREDICTION_COLUMNS)
    for name in want.columns:
        cells, wanted = (frame[name].astype(object).where(frame[name].notna(), None) for frame in (got, want))
        assert cells.tolist() == wanted.tolist(), name


class TestShippedRuns:
    """Runs that come with the workbench are found by their names, and read where they lie."""

    @pytest.fixture
    def published(self, tmp_path, monkeypatch):
        """A run in the folder of the runs that come with the workbench, and an empty store."""
        monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "published"))
        run = wb.predict(ITEMS, Length())
        monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "new"))
        monkeypatch.setattr(store, "resource", tmp_path.joinpath)
        return run

    def test_the_same_items_and_model_are_not_predicted_again(self, published, tmp_path):
        model = Length()
        again = wb.predict(ITEMS, model)
        assert model.asked == 0
        assert again == published == store.find_run(published.run)
        assert_frame_equal(again.predictions, published.predictions)
        assert wb.runs().empty
        assert wb.leaderboard(published=False).empty
        assert not (tmp_path / "new").exists()
        refused(wb.runs().delete, published.run)

    def test_others_are(self, published):
        run = wb.predict(ITEMS[:3], model := Length())
        assert model.asked == 1
        assert run.run != published.run
        assert wb.runs()["run"].tolist() == [run.run]

    def test_each_has_the_digests_of_its_candidates(self):
        folders = list(resource("published", "runs").iterdir())
        known = [store.open_run(folder).predictions["candidates_digest"].notna().all() for folder in folders]
        assert len(known) > 20
        assert all(known)
