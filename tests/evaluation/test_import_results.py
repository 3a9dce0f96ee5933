import json
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_predictions import made
from refused import refused

from workbench import datasets
from workbench.evaluation.align import align
from workbench.evaluation.interchange.import_results import import_results
from workbench.evaluation.leaderboard import leaderboard
from workbench.evaluation.metrics import evaluate
from workbench.items.items import Items, items_from_frame
from workbench.predictions.schema import SCHEMA, from_answers
from workbench.predictions.store import find_run, runs
from workbench.storage.errors import DataError

ITEMS = datasets.load("sample", "dev", variant="plain")
FEW = ITEMS[:6]
IDS = FEW.frame["item_id"].tolist()
ANSWERS = FEW.frame["answer"].tolist()


@pytest.fixture
def file(no_data, tmp_path):
    assert no_data.is_dir()  # nothing is kept among the runs of this machine
    return tmp_path / "results.csv"


def table(ids, words):
    rows = (f'{i},"{w}"\n' for i, w in zip(ids, words, strict=True))
    return "".join(["item_id,prediction\n", *rows])


def test_a_table_of_answers(file):
    words = [ANSWERS[0].upper(), f" {ANSWERS[1]} ", "Käse", "", *ANSWERS[4:]]
    file.write_text(table(IDS, words), encoding="utf-8")
    found = import_results(file, ITEMS, model="mine")
    frame = found.predictions
    assert frame["item_id"].tolist() == IDS
    assert frame["correct"].tolist() == [True, True, False, False, True, True]
    assert frame["prediction"].tolist()[:3] == [words[0], ANSWERS[1], "Käse"]
    assert pd.isna(frame["prediction"].iloc[3])
    assert set(frame["score_type"]) == {"score"}
    assert (found.kind, found.matched, len(found.items)) == ("answers", {"by id": 6}, 6)
    assert found.runs[0].run == frame["run"].iloc[0]


@pytest.mark.usefixtures("no_data")
def test_a_frame_is_read_as_the_table_in_a_file(file):
    frame = pd.DataFrame({"text": FEW.frame["text"], "guess": ANSWERS, "model": ["a", "b"] * 3, "year": 1850})
    frame.to_csv(file, index=False)
    found, of_file = (import_results(source, ITEMS, columns={"model": "model"}) for source in (frame, file))
    columns = [name for name in found.predictions if name != "run"]
    pd.testing.assert_frame_equal(found.predictions[columns], of_file.predictions[columns])
    assert [run.model for run in found.runs] == found.models == ["a", "b"]
    assert found.runs[0].info["imported"] == {"from": "frame", "kind": "answers"}
    for wrong in (
        frame[:0],
        frame.drop(columns="guess"),
        frame.drop(columns="model"),
        frame.assign(text="x"),
    ):
        assert refused(import_results, wrong, ITEMS).file is None


def test_the_items_of_known_ids_are_loaded(file):
    file.write_text(table(IDS, ANSWERS))
    assert import_results(file, model="m").items.frame["text"].tolist() == FEW.frame["text"].tolist()
    cased = import_results(file, model="m", variant="capitalised")
    assert set(cased.predictions["variant"]) == {"capitalised"}
    file.write_text(table(["1", "2"], ["a", "b"]))
    refused(import_results, file, model="m")


def test_texts_name_the_items_too(file):
    texts = FEW.frame["text"].tolist()
    blank = [item.passage for item in FEW]
    mixed = [texts[0], blank[1], texts[2].replace(" ", "  "), texts[3].rpartition(" ")[0], blank[4], IDS[5]]
    file.write_text(json.dumps([{"text": t, "guess": a} for t, a in zip(mixed, ANSWERS, strict=True)]))
    found = import_results(file, ITEMS, model="m", keep=False)
    assert found.predictions["item_id"].tolist() == IDS
    assert found.predictions["correct"].all()
    assert found.matched == {"by id": 1, "by text": 5}


def test_several_models_in_one_table(file):
    columns = {"item_id": IDS * 2, "model": ["b"] * 6 + ["a"] * 6, "prediction": ANSWERS * 2}
    pd.DataFrame(columns)[:-1].to_csv(file, index=False)
    found = import_results(file, ITEMS)
    assert found.models == ["b", "a"]
    assert [len(run) for run in found.runs] == [6, 5]
    assert len(found.items) == 6


@pytest.fixture
def predicted():
    """Predictions as a model returns them."""
    copied = FEW.frame[["item_id", "dataset", "split", "variant", "word_class", "book_id", "answer"]]
    tops = {"top_words": [["a", "b"]] * 6, "top_log_probs": [[-1.0, float("-inf")]] * 6}
    return made(6, right=0, oov=0, **copied, model="theirs", run="first", **tops)


def test_predictions_of_others(file, predicted):
    path = file.with_suffix(".parquet")
    predicted.to_parquet(path)
    for source in (predicted, path):
        imported = import_results(source, keep=False)
        assert (imported.kind, imported.models) == ("predictions", ["theirs"])
        pd.testing.assert_frame_equal(imported.predictions, predicted)
    [run] = import_results(predicted).runs
    pd.testing.assert_frame_equal(
        run.predictions.drop(columns=["run", "candidates_digest"]),
        predicted.drop(columns=["run", "candidates_digest"]),
    )
    assert import_results(path, ITEMS, model="mine").models == ["mine"]
    other = predicted.assign(variant="openai", colour="red")
    refused(import_results, other, ITEMS)
    changed = import_results(other, ITEMS, variant="openai")
    assert set(changed.predictions["variant"]) == {"openai"}
    assert changed.report["problem"].str.contains("'colour'").tolist() == [True]


@pytest.mark.parametrize(
    "change",
    [
        {"answer": "zzz"},
        {"item_id": "no/such/1"},
        {"rank": "x"},
        {"correct": "perhaps"},
        {"top_words": 3},
        {"log_prob": 0.5},
    ],
)
def test_bad_predictions_are_refused(predicted, change):
    rows = predicted[:1].astype("object").assign(**change)
    refused(import_results, rows, ITEMS)


def test_predictions_that_are_written_as_csv_are_read_as_answers(file, predicted):
    predicted.to_csv(file, index=False)
    imported = import_results(file, ITEMS, keep=False)
    assert (imported.kind, imported.models) == ("answers", ["theirs"])
    assert imported.predictions["correct"].tolist() == predicted["correct"].tolist()
    assert imported.predictions["log_prob"].tolist() == predicted["log_prob"].tolist()


def test_answers_of_people_are_sent_to_where_they_are_read(file):
    rows = pd.DataFrame({"item_id": IDS * 2, "response": ANSWERS * 2, "WorkerId": ["P1"] * 6 + ["P2"] * 6})
    rows.to_csv(file, index=False)
    assert "people.import_answers" in refused(import_results, file, FEW).hint


def test_what_is_imported_goes_wherever_runs_go(file):
    file.write_text(table(IDS, ANSWERS))
    imported = import_results(file, ITEMS, model="m")
    assert evaluate(imported)["accuracy"].tolist() == [1]
    assert leaderboard(imported, resamples=50)["model"].tolist() == ["m"]
    (run,) = imported.runs
    assert leaderboard(resamples=50)["run"].tolist() == [run.run]
    assert find_run(run.run).info["imported"]["from"] == "results.csv"
    assert import_results(file, ITEMS, model="m").runs == (run,)
    assert import_results(file, ITEMS, model="n", keep=False).runs == ()
    assert len(runs()) == 1


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("item_id,prediction\na,b\nc\n", 3),
        ('item_id,prediction\n"a"b,c\n', 2),
        ("item_id,item_id\na,b\n", 1),
        ('{"item_id": "a", "prediction": "b"}\n{"item_id": \n{"item_id": "c"}\n', 2),
        ('{"item_id": "a", "prediction": "b"}\n\n{"item_id": "c", "pre', 3),
        ('{"item_id": "a", "prediction": "b"}\n[1]\n', 2),
        ('[{"item_id": "a", "prediction": "b"}, 3]', 2),
        ("item_id,prediction\n,b\n", 2),
        ("item_id,prediction,log_prob\na,b,x\n", 2),
        ("item_id,prediction,log_prob\na,b,0.5\n", 2),
        ("item_id,prediction\na,b\na,c\n", 3),
        ("item_id,model,prediction\na,m,b\na,,c\n", 3),
        ('{"item_id": "a", "prediction": {"x": 1}}\n', 1),
        ('{"item_id": "a", "prediction": "\\ud800"}\n', 1),
    ],
)
def test_errors_name_file_line_and_hint(file, text, line):
    text = text.replace('"a"', f'"{IDS[0]}"').replace("\na,", f"\n{IDS[0]},")
    file = file.with_suffix(".txt")
    file.write_text(text)
    model = None if ",model," in text else "m"
    caught = refused(import_results, file, ITEMS, model=model)
    assert (caught.file, caught.line) == (str(file), line)
    if line > 2:  # a record is left
        imported = import_results(file, ITEMS, model=model, on_error="report")
        assert (len(imported), line in imported.report["line"].tolist()) == (1, True)


@pytest.mark.parametrize(
    "content",
    [
        None,
        b" \n",
        b"item_id,prediction\n",
        b"item_id,prediction\na,K\x81se",
        b"\xff\xfea",
        b"PAR1 and then",
        b'[{"item_id": "a",\n "prediction": ',
        b'{\n"results": {"lambada_openai": {}}}',
    ],
)
def test_files_that_are_none(file, content):
    if content is not None:
        file.write_bytes(content)
    refused(import_results, file, ITEMS, model="m")


def test_columns_are_found_or_named(file):
    pd.DataFrame({"where": IDS, "what": ANSWERS, "lp": -1.0, "who": "x" * 200_000}).to_csv(file, index=False)
    named = {"item": "where", "prediction": "what"}
    for columns in ({}, {"item": "there"}, named, named | {"person": "who"}):
        refused(import_results, file, ITEMS, columns=columns)
    imported = import_results(file, ITEMS, columns=named | {"log_prob": "lp"}, model="m", keep=False)
    assert evaluate(imported)["perplexity"].iloc[0] == pytest.approx(np.e)
    file.write_text(json.dumps({"where": IDS[0], "guess": ANSWERS[0]}, indent=1))
    imported = import_results(file, ITEMS, columns={"item": "where"}, model="m", keep=False)
    assert imported.predictions["correct"].all()


@settings(max_examples=60)
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_are_read_or_refused(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "bytes"
    path.write_bytes(data)
    with pytest.raises(DataError):
        import_results(path, ITEMS, model="m", keep=False)


@settings(max_examples=8)
@given(st.dictionaries(st.sampled_from(IDS), st.text(min_size=1, max_size=12), min_size=1))
def test_whatever_was_answered_is_in_the_table(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    path.write_text("\n".join(json.dumps({"id": i, "response": w}) for i, w in rows.items()))
    frame = import_results(path, FEW, model="m", keep=False).predictions
    words = frame.set_index("item_id")["prediction"].fillna("").to_dict()
    assert words == {item_id: rows[item_id].strip() for item_id in sorted(rows)}
    assert set(SCHEMA.names) == set(frame.columns)


WRITTEN = [  # a written word, the answer, the candidates, whether it is right
    (" table", "table", None, True), ("dog\n", "dog", None, True), ("cat.", "cat", None, True),
    ("“River”", "river", None, True), ("*boat*!", "boat", None, True), ("don’t", "don't", None, True),  # noqa: RUF001
    ("'s", "'s", None, True), (".", ".", None, True), ("U.S.", "U.S.", None, True), ("Mr", "Mr.", None, True),
    ("the dog", "dog", None, False), ("dogs", "dog", None, False), ("dog and cat", "dog", None, False),
    ("C", "C#", None, False), ("5", "-5", None, False), ("!", ".", None, False), (" ", "dog", None, False),
    ("US", "U.S.", None, False), ("Dog", "dog", ["dog", "cat"], True),
    (" dog. ", "dog", ["dog", "cat"], True),
    ("Mr.", "Mr.", ["Mr.", "Mr"], True), ("Mr", "Mr.", ["Mr.", "Mr"], False),
    ("fox", "Fox", ["Fox", "fox"], False), ("@entity1", "@entity1", ["@entity1", "@entity2"], True),
]  # fmt: skip


@pytest.mark.usefixtures("no_data")
def test_one_rule_says_what_the_answer_is_in_all_ways_in(tmp_path):
    columns = ["prediction", "answer", "candidates", "right"]
    rows = pd.DataFrame(WRITTEN, columns=columns).assign(item_id=[f"i/{n}" for n in range(len(WRITTEN))])
    rows["text"] = [f"{n} was the ___ ." for n in range(len(rows))]
    free, choices = (rows[rows["candidates"].isna() == is_free] for is_free in (True, False))
    make = partial(items_from_frame, text="text", answer="answer", item_id="item_id")
    items = Items.concat(
        [
            make(free[["item_id", "text", "answer"]]),
            make(choices.drop(columns=["prediction", "right"]), candidates="candidates"),
        ]
    )
    given = rows[["item_id", "prediction"]].assign(model="m")
    given.to_csv(tmp_path / "a.csv")
    given.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    arguments = {"gen_args_0": {"arg_0": "It was", "arg_1": {"until": ["."]}}}
    logged = [
        {"doc": {"text": row.text}, "target": row.answer, "arguments": arguments, "resps": [[row.prediction]]}
        for row in free.itertuples()
    ]
    (tmp_path / "a_log.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in logged))
    read = partial(import_results, items=items, model="m", keep=False, variant="own")
    tables = [read(tmp_path / name).predictions for name in ("a.csv", "a.jsonl", "a_log.jsonl")]
    answered = from_answers(items, given, model="m")
    for table in (answered, *tables):
        right = rows.set_index("item_id")["right"].loc[table["item_id"]]
        assert table["correct"].tolist() == right.tolist()
    assert [len(table) for table in tables] == [len(rows), len(rows), len(free)]
    assert answered["prediction"].tolist()[:6] == ["table", "dog", "cat", "river", "boat", "don't"]
    measured = evaluate(given, items=items)
    assert measured.frame["accuracy"].item() == pytest.approx(rows["right"].mean())
    assert "|match:word|" in measured.frame["signature"].item()
    note = "Right answers that differ from the item's in white space, or marks around the word: 8 of 24."
    assert f"m: {note}" in measured.attrs["warnings"]
    assert f"m: {note}" in align(items, [given, given.assign(model="n")]).warnings
    assert answered.attrs["note"] == note
    assert note in read(tmp_path / "a.csv").report["problem"].tolist()
