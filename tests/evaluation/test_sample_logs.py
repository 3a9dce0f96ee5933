"""Logs of Inspect, lighteval and lm-evaluation-harness, as these programs wrote them, and side by side."""

import importlib.util
import json
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
from evaluation_logs import COLONEL, DUMPLINGS, ITEMS, PETRA, RECORDED, SAMPLE, START, TEXTS, archive
from refused import refused

from workbench.evaluation.align import align
from workbench.evaluation.interchange.import_results import import_results
from workbench.storage.errors import DataError

NAN = float("nan")
EXPECTED = {  # predictions (None: not known), log-probabilities; what the program counts as right
    "inspect_last_word.eval": ([COLONEL, DUMPLINGS, "stone"], [NAN] * 3),  # by the scorer `includes`
    "inspect_two_epochs.eval": ([COLONEL, DUMPLINGS, "stone"], [NAN] * 3),
    "inspect_last_word.json": ([COLONEL], [NAN]),
    "inspect_choices.eval": ([COLONEL, "sand", None], [NAN] * 3),
    "lighteval_lambada.parquet": ([COLONEL, None, None], [-0.5, -1.5, -2.5]),
    "lighteval_choices.parquet": ([COLONEL, "rock", "rock"], [-2.0, -3.0, -4.0]),
    "lighteval_written.parquet": ([COLONEL, None, "stone"], [NAN] * 3),  # by the metric `em`
    "samples_lambada_openai_local.jsonl": ([COLONEL, None, PETRA], [0.0, -1.0, -2.0]),
    "samples_lambada_openai_choices.jsonl": (["rock"] * 3, [0.0, -1.0, -2.0]),
    "samples_lambada_openai_written.jsonl": (["l"] * 3, [NAN] * 3),
}


def imported(path, items=ITEMS, **options):
    return import_results(path, items, keep=False, **{"model": "m"} | options)


def check(path, name):
    """Compare what is read of a log with what the program was made to write into it."""
    found = imported(path)
    words, log_probs = EXPECTED[name]
    frame = found.predictions
    assert frame["item_id"].tolist() == ITEMS.frame["item_id"].tolist()[: len(words)]
    assert [None if pd.isna(word) else word for word in frame["prediction"]] == words
    assert frame["correct"].tolist() == [w == a for w, a in zip(words, ITEMS.frame["answer"], strict=False)]
    np.testing.assert_allclose(frame["log_prob"].to_numpy(float), log_probs)
    assert found.report["kept"].all()
    assert set(frame["variant"]) == {"openai"}
    return found


@pytest.mark.parametrize("name", EXPECTED)
def test_recorded_logs_are_read(name):
    program = {"i": "Inspect", "l": "lighteval", "s": "lm-evaluation-harness"}[name[0]]
    assert check(RECORDED / name, name).kind == program


@pytest.mark.parametrize(
    ("program", "package"), [("inspect", "inspect_ai"), ("lighteval", "lighteval"), ("lm_eval", "lm_eval")]
)
def test_the_programs_write_the_same_today(program, package, tmp_path):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed: the logs that it wrote before are read above")
    subprocess.run(
        [sys.executable, RECORDED / "record.py", program, tmp_path], check=True, capture_output=True
    )
    names = [name for name in EXPECTED if name.startswith({"lm_eval": "samples"}.get(program, program))]
    assert names
    for name in names:
        check(tmp_path / name, name)


@pytest.mark.parametrize(
    ("name", "chosen", "words", "others"),
    [
        ("inspect_last_word.eval", "match", [COLONEL, None, "stone"], ["includes", "match"]),
        ("lighteval_written.parquet", "qem", [COLONEL, DUMPLINGS, "stone"], ["em", "qem"]),
        ("samples_lambada_openai_written.jsonl", "whole", ["lol"] * 3, ["first-letter", "whole"]),
    ],
)
def test_the_first_of_several_filters_is_read_and_another_can_be_chosen(name, chosen, words, others):
    found = imported(RECORDED / name)
    first, second = others
    assert f"{first!r}, the first of several filters, is read; filter= chooses {second!r}" in set(
        found.report["problem"]
    )
    assert found.info["filter"] == first
    other = imported(RECORDED / name, filter=chosen)
    assert [None if pd.isna(word) else word for word in other.predictions["prediction"]] == words
    assert other.info["filter"] == chosen
    assert not other.report["problem"].str.contains("several filters").any()
    with pytest.raises(DataError):
        imported(RECORDED / name, filter="none such")


def test_a_filter_is_of_logs_alone(tmp_path):
    (tmp_path / "a.csv").write_text("item_id,prediction\na,b\n")
    refused(imported, tmp_path / "a.csv", filter="none")


def test_epochs_after_the_first_are_left_out_and_counted():
    found = imported(RECORDED / "inspect_two_epochs.eval")
    assert (found.n_records, len(found)) == (6, 3)
    assert "the first epoch is read; 3 samples of later ones are left out" in set(found.report["problem"])


def test_the_model_is_named_by_the_log_or_the_folder_of_lighteval(tmp_path):
    assert imported(RECORDED / "inspect_choices.eval", model=None).models == ["mockllm/model"]
    time = "2026-11-26T16-12-13.123456"
    folder = tmp_path / "details" / "org" / "tiny" / time
    folder.mkdir(parents=True)
    path = folder / f"details_lambada:openai|0_{time}.parquet"
    shutil.copy(RECORDED / "lighteval_lambada.parquet", path)
    found = imported(path, model=None)
    assert (found.models, found.info["task"]) == (["org/tiny"], "lambada:openai|0")
    refused(imported, RECORDED / "lighteval_lambada.parquet", model=None)


def test_details_of_lighteval_by_other_names_of_columns(tmp_path):
    frame = pd.read_parquet(RECORDED / "lighteval_lambada.parquet")
    frame = frame.rename(columns=lambda name: f"__{name}__")
    frame.to_parquet(tmp_path / "a.parquet")
    check(tmp_path / "a.parquet", "lighteval_lambada.parquet")


# Perplexities of whole passages


def rolling(layout):
    """Make a log of whole passages, as versions of the harness wrote it."""
    text = TEXTS[0]
    fields = {"doc_id": 0, "doc": {"text": text}, "target": text, "word_perplexity": [-200.0, 70]}
    arguments, response = {
        "0.4.0": ([[text]], [-200.0]),
        "0.4.13": ({"gen_args_0": {"arg_0": text}}, ["-200.0"]),
        "0.5": ({"gen_args_0": {"arg_0": "", "arg_1": text}}, [["-200.0", "False"]]),
    }[layout]
    return json.dumps(fields | {"arguments": arguments, "resps": [response], "filtered_resps": response})


@pytest.mark.parametrize("layout", ["0.4.0", "0.4.13", "0.5", "recorded", "lighteval"])
def test_whole_passages_never_count_as_targets(layout, tmp_path):
    path = tmp_path / "samples_lambada_openai.jsonl"
    if layout == "recorded":
        path = RECORDED / "samples_lambada_openai_rolling.jsonl"
    elif layout == "lighteval":
        frame = pd.read_parquet(RECORDED / "lighteval_lambada.parquet")
        frame["doc"] = [doc | {"sampling_methods": ["PERPLEXITY"]} for doc in frame["doc"]]
        frame.to_parquet(path := tmp_path / "a.parquet")
    else:
        path.write_text(rolling(layout) + "\n", encoding="utf-8")
    for on_error in ("raise", "report"):
        refused(imported, path, on_error=on_error)


# Other forms


@pytest.mark.parametrize(
    "content",
    [
        {"adapter_spec": {}, "request_states": []},
        {"results": {"lambada_openai": {}}},
        {"version": 2, "status": "started", "eval": {"task": "x"}},
    ],
)
def test_other_forms_are_refused(content, tmp_path):
    path = tmp_path / "results.json"
    path.write_text(json.dumps(content))
    refused(imported, path)


def test_their_answers_are_read_from_a_table(tmp_path):
    path = tmp_path / "table.csv"
    pd.DataFrame({"text": TEXTS, "prediction": ["a", "b", PETRA], "model": "theirs"}).to_csv(path)
    assert import_results(path, ITEMS, keep=False).predictions["correct"].tolist() == [False, False, True]


# Archives of Inspect


@pytest.mark.parametrize(
    ("name", "method"), [("a.eval", zipfile.ZIP_STORED), ("renamed.zip", zipfile.ZIP_DEFLATED)]
)
def test_a_run_that_was_stopped_has_no_header_and_is_read(tmp_path, method, name):
    members = {"_journal/start.json": START, "samples/1_epoch_1.json": SAMPLE, "../../x_epoch_1.json": "{"}
    found = imported(archive(tmp_path / name, members, method), model=None)
    assert (found.models, found.predictions["correct"].tolist()) == (["org/m"], [True])


@pytest.mark.parametrize(
    "members",
    [
        {"table.csv": "a,b"},
        {"header.json": START},
        {"header.json": START, "samples/1_epoch_1.json": "{"},
        {"header.json": "[]", "samples/1_epoch_1.json": SAMPLE},
        {"header.json": START, "samples/1_epoch_1.json": "[" * 100_000},
        {"header.json": START, "../samples/1_epoch_1.json": SAMPLE},
    ],
)
def test_archives_that_are_no_logs(members, tmp_path):
    refused(imported, archive(tmp_path / "a.eval", members))


@pytest.mark.parametrize(
    ("change", "word", "right"),
    [
        ({"scores": {"s": {"value": "C", "answer": "the colonel"}}}, COLONEL, True),  # a person judged it
        ({"scores": {"s": {"value": "I", "answer": "Colonel"}}}, None, False),
        ({"scores": {"s": {"value": "P", "answer": "captain"}}}, "captain", False),
        ({"scores": {"s": {"value": 1.0, "answer": "COLONEL!"}}}, COLONEL, True),
        ({"scores": {"s": {"value": 0.5}}}, None, False),
        ({"scores": {"s": {"value": True}}}, COLONEL, True),
        ({"score": {"value": "C"}, "scores": None}, COLONEL, True),  # of early versions
        ({"scores": None}, COLONEL, True),
        ({"scores": None, "output": {"choices": [{"message": {"content": "a dog"}}]}}, "a dog", False),
        (
            {"input": [{"role": "system", "content": "x"}, {"role": "user", "content": SAMPLE["input"]}]},
            COLONEL,
            True,
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "text", "text": SAMPLE["input"]}]}]},
            COLONEL,
            True,
        ),
        ({"input": "attachment://a", "attachments": {"a": SAMPLE["input"]}}, COLONEL, True),
        ({"input": "Which word comes?", "metadata": {"text": TEXTS[0]}}, COLONEL, True),
        ({"input": "Which word comes?", "id": ITEMS.frame["item_id"][0]}, COLONEL, True),
        ({"target": ["Major", COLONEL]}, COLONEL, True),
    ],
)
def test_samples_of_inspect(change, word, right, tmp_path):
    log = START | {"status": "success", "samples": [SAMPLE | change]}
    (tmp_path / "log.json").write_text(json.dumps(log))
    (row,) = imported(tmp_path / "log.json").predictions.to_dict("records")
    assert (row["item_id"], row["correct"]) == (ITEMS.frame["item_id"][0], right)
    assert (None if pd.isna(row["prediction"]) else row["prediction"]) == word


@pytest.mark.parametrize(
    "change",
    [
        {"error": {"message": "timed out"}},
        {"output": {}},
        {"input": 3, "id": 3, "target": 5},
    ],
)
def test_samples_of_inspect_that_are_refused(change, tmp_path):
    samples = [SAMPLE, SAMPLE | {"input": TEXTS[1].rpartition(" ")[0], "target": DUMPLINGS} | change]
    (tmp_path / "log.json").write_text(json.dumps(START | {"status": "error", "samples": samples}))
    refused(imported, tmp_path / "log.json")
    assert len(imported(tmp_path / "log.json", on_error="report")) == 1


def test_logs_of_any_two_programs_are_compared():
    names = ("inspect_last_word.eval", "samples_lambada_openai_local.jsonl")
    logs = [imported(RECORDED / name, model=name) for name in names]
    made = align(ITEMS, logs)
    right = [sum(w == a for w, a in zip(EXPECTED[n][0], ITEMS.frame["answer"], strict=True)) for n in names]
    assert made.n == 3
    assert [round(3 * value) for value in made.points()["accuracy"]] == right
    assert not any("variant" in warning for warning in made.warnings)
