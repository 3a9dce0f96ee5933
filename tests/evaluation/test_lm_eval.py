import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from evaluation_logs import NAME, RESULTS, log, record, response_to, results
from refused import refused

from workbench import datasets
from workbench.evaluation.align import align
from workbench.evaluation.interchange import lm_eval as samples
from workbench.evaluation.interchange.import_results import import_results
from workbench.evaluation.leaderboard import leaderboard
from workbench.evaluation.metrics import evaluate
from workbench.evaluation.significance import significance
from workbench.items.language import language

ITEMS = datasets.load("sample", "dev", variant="openai")
TEXTS = ITEMS.frame["text"].tolist()


@pytest.fixture
def written(no_data, tmp_path):
    assert no_data.is_dir()  # nothing is kept among the runs of this machine
    (tmp_path / NAME).write_text(log(TEXTS), encoding="utf-8")
    (tmp_path / RESULTS).write_text(results(), encoding="utf-8")
    return tmp_path / NAME


def test_the_rows_are_what_the_harness_logged(written):
    imported = import_results(written, ITEMS)
    log_probs, greedy = map(list, zip(*map(response_to, range(222)), strict=True))
    frame = imported.predictions
    assert (imported.kind, imported.models, len(imported)) == ("lm-evaluation-harness", ["org/tiny"], 222)
    assert frame["item_id"].tolist() == ITEMS.frame["item_id"].tolist()
    assert frame["log_prob"].tolist() == frame["log_prob_uncorrected"].tolist() == log_probs
    assert frame["greedy_correct"].tolist() == frame["correct"].tolist() == greedy
    assert frame["prediction"].equals(ITEMS.frame["answer"].where(greedy).rename("prediction"))
    assert set(frame["variant"]) == {"openai"}
    assert frame["prompt"].isna().all()
    assert (imported.matched, len(imported.report)) == ({"by text": 222}, 0)
    assert imported.info["task"] == "lambada_openai"
    measured = evaluate(imported).iloc[0]
    assert measured["accuracy"] == pytest.approx(np.mean(greedy))
    assert measured["perplexity_uncorrected"] == pytest.approx(np.exp(-np.mean(log_probs)))
    assert measured["perplexity"] is pd.NA


def test_no_column_has_perplexities_with_and_without_the_end_of_the_word(written):
    imported = import_results(written, ITEMS, keep=False)
    theirs = imported.predictions
    ours = theirs.assign(model="whole words", run="", log_prob=theirs["log_prob"] - 0.5, bos="none")
    alone = ours.assign(model="n-gram", log_prob_uncorrected=np.nan)
    base = np.exp(-theirs["log_prob"].mean())
    for table in (evaluate([imported, ours, alone]), leaderboard([imported, ours, alone], published=False)):
        rows = table.set_index("model")
        expected = {"org/tiny": (np.nan, base), "whole words": (base * np.exp(0.5), base)}
        for model, values in (expected | {"n-gram": (base * np.exp(0.5), np.nan)}).items():
            columns = ["perplexity", "perplexity_uncorrected"]
            np.testing.assert_allclose(rows.loc[model, columns].to_numpy(float, na_value=np.nan), values)
        for text in (table.to_markdown(), table.to_latex(), table._repr_html_()):
            assert "sub-tokens" in text.partition("ignature")[0]  # a heading
    for table in (evaluate([ours, alone]), leaderboard([ours], published=False)):
        assert "sub-tokens" not in table.to_markdown()

    both, apart = align(ITEMS, [theirs, ours]), align(ITEMS, [theirs, alone])
    whole = [np.nan, base * np.exp(0.5)]  # as it is without a log beside
    for comparison, alone_has in ((both, base), (apart, np.nan)):
        points = comparison.points()
        assert points["perplexity"].tolist() == pytest.approx(whole, nan_ok=True)
        assert points["perplexity_uncorrected"].tolist() == pytest.approx([base, alone_has], nan_ok=True)
    three = align(ITEMS, [theirs, ours, ours.assign(model="third", log_prob=ours["log_prob"] - 1)])
    pair = three.pairs().query("a == 1 and b == 2").iloc[0]  # of their sub-tokens, which are equal
    assert pair[["log_prob_difference", "log_prob_difference_low"]].tolist() == [0, 0]
    for each, note in ((both, "as “org/tiny” leaves it out"), (apart, "of “org/tiny” leave out the end")):
        assert any(note in text for text in each.warnings)
    assert significance(theirs, ours).log_prob_difference == 0
    assert significance(theirs, alone).log_prob_difference is None


@pytest.mark.parametrize(
    ("layout", "name"),
    [
        ("0.4.0", "pretrained__gpt2_lambada_openai.jsonl"),
        ("0.4.0", "samples_lambada_openai_2024-06-01T12:30:00.1.jsonl"),
        ("0.4.13", "samples_lambada_openai_mt_stablelm_en_2025-06-01T12-30-00.1.jsonl"),
    ],
)
def test_every_layout_and_task_gives_the_same(written, layout, name):
    path = written.with_name(name)
    path.write_text(log(TEXTS, layout), encoding="utf-8")
    assert samples.log_of(path).variant == "openai"
    frames = [import_results(p, ITEMS, model="m", keep=False).predictions for p in (written, path)]
    frames = [frame.drop(columns=["run", "bos"]) for frame in frames]  # not all have results beside them
    assert frames[0].equals(frames[1])


@pytest.mark.parametrize(
    ("changed", "bos"),
    [
        ({"lm_eval_version": "0.4.9.1"}, "omitted"),
        ({"lm_eval_version": "0.4.9.2"}, "tokenizer"),
        ({"lm_eval_version": "0.4.10"}, "tokenizer"),
        ({"lm_eval_version": None}, "omitted"),  # before 0.4.3
        ({"lm_eval_version": "0.4.8", "config": {"model": "hf", "model_args": "pretrained=gemma"}}, "added"),
        ({"config": {"model": "vllm", "model_args": {"pretrained": "org/tiny"}}}, "tokenizer"),
        ({"config": {"model": "sglang", "model_args": {"pretrained": "org/tiny"}}}, "omitted"),
        ({"config": {"model": "hf", "model_args": {"pretrained": "a", "add_bos_token": True}}}, "added"),
        ({"config": {"model": "hf", "model_args": "pretrained=a,add_bos_token=False"}}, "omitted"),
        ({"tokenizer_bos_token": [None, "None"]}, "none"),
        ({"tokenizer_bos_token": ["<s>", "1"]}, "tokenizer"),
    ],
)  # fmt: skip
def test_what_the_harness_put_before_a_text_is_told(written, changed, bos):
    (written.parent / RESULTS).write_text(results(**changed), encoding="utf-8")
    assert set(import_results(written, ITEMS, model="m", keep=False).predictions["bos"]) == {bos}


def test_logs_before_and_after_the_change_of_the_beginning_are_not_compared_in_silence(written):
    frames = []
    for version in ("0.4.9.1", "0.4.13"):
        (written.parent / RESULTS).write_text(results(lm_eval_version=version), encoding="utf-8")
        frames.append(import_results(written, ITEMS, keep=False).predictions.assign(run=version))
    assert align(ITEMS, [frames[0], frames[0].assign(run="again")]).warnings == []
    result = align(ITEMS, frames)
    assert result.labels == ["org/tiny #1", "org/tiny #2"]
    assert result.table()["bos"].tolist() == ["omitted", "tokenizer"]
    (warning,) = result.warnings
    assert "without BOS (“org/tiny #1”); left to the tokenizer (“org/tiny #2”)" in warning
    assert "|bos:omitted|" in evaluate(frames[0])["signature"].iloc[0]


TRANSLATED = ["Sie rief ihn. Nur die Aale sahen den Reiher", "Ich rief ihren Namen: Ada"]


@pytest.mark.usefixtures("no_data")
@pytest.mark.parametrize(("task", "variant"), [("mt_de", "openai-de"), ("mt_stablelm_de", "openai-mt-de")])
def test_logs_of_translations_are_read_with_items_of_their_language(tmp_path, task, variant):
    path = tmp_path / NAME.replace("openai", f"openai_{task}")
    path.write_text(log(TRANSLATED), encoding="utf-8")
    texts = tmp_path / ("lambada_openai" + "_mt" * ("stablelm" in task)) / "lambada_test_de.jsonl"
    texts.parent.mkdir()
    texts.write_text("".join(json.dumps({"text": text}) + "\n" for text in TRANSLATED), encoding="utf-8")
    for items in (datasets.load("lambada", path=texts), datasets.load(texts)):
        imported = import_results(path, items, model="m", keep=False)
        assert imported.predictions["variant"].tolist() == items.frame["variant"].tolist()
        assert imported.predictions["prediction"].iloc[0] == "Reiher"
    unmarked = datasets.load(texts, variant="own")
    refused(import_results, path, ITEMS, model="m")
    own = import_results(path, unmarked, model="m", keep=False)
    assert set(own.predictions["variant"]) == {"own"}
    said = import_results(path, unmarked, model="m", variant=variant, keep=False)
    assert set(said.predictions["variant"]) == {variant}
    refused(import_results, path, model="m")
    english = tmp_path / NAME
    english.write_text(log(TEXTS), encoding="utf-8")
    refused(import_results, english, datasets.load(texts), model="m")


def test_all_lambada_tasks_of_the_installed_harness_are_known():
    tasks = pytest.importorskip("lm_eval").__path__[0]
    files = Path(tasks, "tasks").glob("lambada*/*.yaml")
    names = {yaml.safe_load(file.read_text())["task"] for file in files}
    assert {"lambada_openai", "lambada_standard", "lambada_openai_mt_en"} <= names
    for name in names:
        code = language(f"-{name[-2:]}") if "_mt_" in name else "en"
        later = "mt-" if "stablelm" in name else ""
        expected = {"openai", "plain"} if code == "en" else {f"openai-{later}{code}"}
        assert samples.variant_of(name) in expected


def test_the_variant_is_named_or_refused(written, tmp_path):
    plain = datasets.load("sample", "dev", variant="plain")
    refused(import_results, written, plain)
    refused(import_results, written)
    imported = import_results(written, plain, variant="openai", keep=False)
    assert (set(imported.predictions["variant"]), imported.matched) == (
        {"openai"},
        {"by letters and digits": 222},
    )
    other = tmp_path / "samples_mine_2025-06-01T12-30-00.1.jsonl"
    other.write_text(log(TEXTS), encoding="utf-8")
    refused(import_results, other, model="m")
    refused(import_results, other, plain, model="m")
    assert set(import_results(other, ITEMS, model="m", keep=False).predictions["variant"]) == {"openai"}


@pytest.mark.data
def test_the_items_are_loaded_by_the_task(real_data, tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_DATA", str(real_data))
    items = datasets.load("lambada", "test", variant="openai")
    (tmp_path / NAME).write_text(log([*items.frame["text"], "No such passage"]), encoding="utf-8")
    found = import_results(tmp_path / NAME, model="m", keep=False)
    assert found.predictions["item_id"].tolist() == items.frame["item_id"].tolist()
    others = found.report[found.report["kept"]]
    assert found.report.drop(others.index)["text"].tolist() == ["No such passage"]
    assert others["problem"].str.contains("the harness asked for '\"").all()  # "Nadia has its quote there
    assert len(others) == sum(i.text.split(" ")[-1] != i.answer for i in items) > 0


def test_the_model_is_that_of_the_results_or_told(written, tmp_path):
    assert import_results(written, ITEMS, model="mine", keep=False).models == ["mine"]
    beside = tmp_path / RESULTS
    local = {"model_args": {"pretrained": "./models/gpt2-small"}}
    beside.write_text(results(model_name="./models/gpt2-small", config=local))
    assert import_results(written, ITEMS, keep=False).models == ["gpt2-small"]
    random_name = results(config={"model": "HFLM", "model_args": None}, model_name="6fdcb")
    for content in (random_name, results(task="another"), "{"):
        beside.write_text(content)
        refused(import_results, written, ITEMS)
    earlier = beside.rename(tmp_path / "results_2024-01-01T00-00-00.1.json")
    earlier.write_text(results())
    refused(import_results, written, ITEMS)
    old = written.rename(tmp_path / "pretrained__org_lambada_openai.jsonl")
    earlier.rename(tmp_path / "results.json")
    assert import_results(old, ITEMS, keep=False).models == ["org/tiny"]


def test_what_stood_around_the_passage_is_told(written, tmp_path):
    path = tmp_path / "samples_lambada_openai_cloze_yaml_2025-06-01T12-30-00.1.jsonl"
    path.write_text(log(TEXTS, suffix=" ____. ->"), encoding="utf-8")
    (prompt,) = import_results(path, ITEMS, model="m", keep=False).predictions["prompt"].unique()
    cloze = {"task": "lambada_openai_cloze_yaml", "template": "{passage} ____. ->", "shots": 0}
    assert json.loads(prompt) == cloze
    written.write_text(log(TEXTS, before="Ann saw Bob\n\n"), encoding="utf-8")
    (tmp_path / RESULTS).write_text(results(shots=1, system_instruction="Be brief."))
    (prompt,) = import_results(written, ITEMS, keep=False).predictions["prompt"].unique()
    one_shot = {"task": "lambada_openai", "template": "{shots}{passage}", "shots": 1, "seed": 1234}
    assert json.loads(prompt) == one_shot | {"system": "Be brief."}


PIECES = [{"type": "text", "text": "He had "}, {"type": "text", "text": "a"}]


@pytest.mark.parametrize(
    ("wrap", "content", "system"),
    [
        (list, "He had a", []),
        (json.dumps, PIECES, []),
        (lambda messages: [json.dumps(messages)], "He had a", [{"role": "system", "content": "Be brief."}]),
    ],
)
def test_a_chat_is_read_as_its_text(wrap, content, system):
    messages = wrap([*system, {"role": "user", "content": content}])
    arguments = {"gen_args_0": {"arg_0": messages, "arg_1": {"until": ["."]}}}
    generated = {
        "doc": {"text": "He had a dog"},
        "target": "dog",
        "arguments": arguments,
        "filtered_resps": [" Dog."],
    }
    sample = samples.sample(1, generated)
    assert (sample.answer, sample.greedy, sample.template) == (" Dog.", True, "chat: {passage}")
    assert np.isnan(sample.log_prob)
    arguments["gen_args_0"]["arg_1"] = " dog"
    sample = samples.sample(1, generated | {"filtered_resps": [["-2.5", "True"]]})
    assert (sample.log_prob, sample.greedy, sample.template) == (-2.5, True, "chat: {passage}")
    shot = [{"role": "user", "content": "Ann saw"}, {"role": "assistant", "content": "Bob"}]
    arguments["gen_args_0"]["arg_0"] = wrap([*system, *shot, {"role": "user", "content": content}])
    assert (
        samples.sample(1, generated | {"filtered_resps": [["-2.5", "True"]]}).template
        == "chat: {shots}{passage}"
    )


@pytest.mark.parametrize(
    "change",
    [
        {"doc": {"query": "x"}},
        {"filtered_resps": [["word"]]},
        {"filtered_resps": [["nan", "True"]]},
        {"filtered_resps": [], "resps": [], "perplexity": None},
        {"filtered_resps": [["-1.5"]], "acc": None},
        {"acc": 0},
        {"filtered_resps": [["2.5", "True"]]},
    ],
)
def test_bad_records_are_refused_or_left_out(written, change):
    lines = written.read_text(encoding="utf-8").splitlines()
    lines[0] = json.dumps(json.loads(lines[0]) | change) + "\n"
    written.write_text("\n".join(lines), encoding="utf-8")
    refused(import_results, written, ITEMS)
    written.write_text("\n".join(lines[:100]), encoding="utf-8")
    imported = import_results(written, ITEMS, on_error="report", keep=False)
    assert len(imported) == 99
    assert len(imported.report) == 2  # the record, and that the log is cut


@pytest.mark.parametrize(("response", "log_prob"), [("-inf", -np.inf), (1e-5, 0.0), (-3, -3.0)])
def test_other_forms_of_a_response(response, log_prob):
    sample = samples.sample(1, record(0, "A b c") | {"filtered_resps": [[response, "True"]]})
    assert (sample.log_prob, sample.greedy) == (pytest.approx(log_prob), True)
