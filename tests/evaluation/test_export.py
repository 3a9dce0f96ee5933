import json

import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_predictions import made
from refused import refused

from workbench import datasets
from workbench.evaluation.interchange.export import SUFFIXES, export_results
from workbench.evaluation.interchange.import_results import import_results
from workbench.predictions import schema
from workbench.predictions.schema import SCHEMA
from workbench.predictions.store import keep

ITEMS = datasets.load("sample", "dev", variant="plain")[:12]
ABOUT = ITEMS.frame[["item_id", "dataset", "split", "variant", "word_class", "book_id", "answer"]]
FEW = ABOUT[:3]
LETTERS = st.characters(codec="utf-8", exclude_characters="\0")  # a file with zero bytes is not text
WORDS = st.text(LETTERS, min_size=1, max_size=8).filter(lambda word: word.strip())
FLOATS = st.floats(max_value=0) | st.just(float("-inf"))


def predicted(model="m", about=ABOUT, **columns):
    return made(len(about), right=0, oov=0, **about, model=model, **columns)


def several(values):
    return pd.Series(values, dtype="object")


@st.composite
def frames(draw):
    """Draw predictions of two models whose cells hold whatever may be there."""

    def column(values):
        return several(draw(st.lists(st.none() | values, min_size=len(FEW), max_size=len(FEW))))

    models = draw(st.lists(WORDS, min_size=1, max_size=2, unique=True))

    def vocabulary(log_prob):
        """Draw sizes of a vocabulary; a rank in one goes with a log-probability."""
        return column(st.integers(0, 2**40)).where(log_prob.notna(), None)

    log_probs = column(FLOATS)
    parts = [
        predicted(
            model,
            FEW,
            run=draw(st.just("") | WORDS),
            prediction=column(WORDS.map(lambda word: word + "x")),
            log_prob=log_probs,
            top_words=column(st.lists(WORDS | st.just(""), max_size=3)),
            top_log_probs=column(st.lists(FLOATS, max_size=3)),
            attention=column(st.lists(st.floats(0, 1), max_size=3)),
            prompt=column(WORDS),
            rank_is_bound=column(st.booleans()),
            vocabulary_size=vocabulary(log_probs),
        )
        for model in models
    ]
    return schema.check_predictions(pd.concat(parts, ignore_index=True))


@settings(max_examples=5)
@given(frames())
def test_what_is_written_reads_back(tmp_path_factory, frame):
    folder = tmp_path_factory.mktemp("round")
    for suffix in SUFFIXES:
        found = import_results(export_results(frame, folder / f"file{suffix}"), ITEMS, keep=False)
        assert schema.to_table(found.predictions).equals(schema.to_table(frame))
        assert not len(found.report)
    found = import_results(frame, ITEMS, keep=False)
    assert schema.to_table(found.predictions).equals(schema.to_table(frame))


@pytest.mark.usefixtures("no_data")
def test_runs_are_written_one_after_the_other(tmp_path):
    kept = [keep(ITEMS, predicted(name), name=name) for name in ("b", "a")]
    wanted = schema.to_table(pd.concat([run.predictions for run in kept], ignore_index=True))
    for runs in (kept, ["b", "a"], [kept[0], kept[1].predictions]):
        again = import_results(export_results(runs, tmp_path / "out.parquet"), ITEMS)
        assert schema.to_table(again.predictions).equals(wanted)
    assert [run.model for run in again.runs] == ["b", "a"]
    assert again.runs[0].info["run_of_file"] == "b"
    assert export_results(again, tmp_path / "x.csv").read_text().count("\n") == 25


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_texts_can_stand_beside(tmp_path, suffix):
    path = export_results(predicted(), tmp_path / f"out{suffix}", items=ITEMS)
    imported = import_results(path, ITEMS, keep=False)
    assert (len(imported), len(imported.report)) == (12, 0)
    if suffix == ".parquet":
        table = pq.read_table(path)
        assert table["text"].to_pylist() == ITEMS.frame["text"].tolist()
        assert table.schema.names == [*SCHEMA.names, "text"]
    refused(export_results, predicted(), path, items=ITEMS[:3])


def test_json_lines_are_json_by_the_standard(tmp_path):
    frame = predicted(log_prob=float("-inf"), top_log_probs=several([[float("-inf"), -1.0]] * 12))
    path = export_results(frame, tmp_path / "out.jsonl")
    line = json.loads(path.read_text().splitlines()[0], parse_constant=pytest.fail)
    assert (line["log_prob"], line["top_log_probs"]) == ("-inf", ["-inf", -1.0])


def test_what_cannot_be_written_leaves_the_file_as_it_was(tmp_path):
    path = export_results(predicted(), tmp_path / "new" / "out.CSV")
    before = path.read_bytes()
    for bad, name in (
        ([], path),
        (predicted().drop(columns="rank"), path),
        (predicted(), tmp_path / "out.xlsx"),
    ):
        refused(export_results, bad, name)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["out.CSV"]
