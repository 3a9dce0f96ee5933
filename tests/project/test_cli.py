import re
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import builders as b
import pandas as pd
import pytest

from workbench import cli
from workbench.datasets import load
from workbench.models import LSTM, registry
from workbench.models.base import Predictor
from workbench.predictions import store as results
from workbench.predictions.schema import from_answers


@pytest.fixture
def released(tmp_path):
    lines = [f"it rained . the heron number {i} saw the eel" for i in range(8)]
    return b.write(tmp_path / "raw", {"lambada_development_plain_text.txt": b.text(lines)})


@pytest.mark.parametrize("folder", [None, "here"])
def test_fetch_can_say_what_it_would_do(folder, no_data, tmp_path, capsys):
    options = [] if folder is None else ["--folder", str(tmp_path / folder)]
    assert cli.main(["fetch", "lambada", "cbt", "--dry-run", *options]) == 0
    output = capsys.readouterr().out
    assert "licence" in output
    for name in ("lambada", "cbt"):
        assert str(no_data / "raw" / name if folder is None else tmp_path / folder) in output
    assert list(no_data.iterdir()) == []
    assert not (tmp_path / "here").exists()


def test_show_prints_items_with_the_blank_and_the_answer(released, capsys):
    assert cli.main(["show", "lambada", "dev", "--path", str(released), "-n", "3", "--seed", "1"]) == 0
    output = capsys.readouterr().out
    assert output.startswith("Items(8: 8 x lambada/dev/plain")
    assert output.count("saw the _____\n= eel\n") == 3
    for item in load("lambada", "dev", path=released).sample(3, seed=1):
        assert f"{item.item_id}\n{item.passage}\n= {item.answer}\n" in output
    assert cli.main(["show", "lambada", "--variant", "plain", "--path", str(released), "-n", "0"]) == 0
    assert len(capsys.readouterr().out.strip().splitlines()) == 1


OUT = ["--out", "here"]
TEXTS = ["--texts", "a"]
SAMPLE = ["--dataset", "sample"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["show", "lambada", "--path", "nowhere"], "nowhere"),
        (["show", "lambada"], "lambada"),
        (["compare", "nowhere/nothing", "--dataset", "lambada"], "nothing"),
        (["reproduce", "--notebooks", "nowhere"], "nowhere"),
        (["train", "lstm", *OUT], "lstm is trained on texts"),
        (["train", "ngram", *OUT, *TEXTS, "--minutes", "3"], "no setting 'minutes'"),
        (["train", "next-word", *OUT], "ngram"),
        (["train", "lstm", *OUT, *TEXTS, "--stream", "b"], "its own texts"),
        (["train", "lstm", *OUT, "--stream", "b", "--vocabulary", "9"], "its own texts"),
        (["evaluate", "here"], "expected items"),
        (["evaluate", "here", *SAMPLE], "no saved model"),
        (["evaluate", "lsa", *SAMPLE, "far=3"], "the setting is 'far'"),
        (["evaluate", "ngram", *SAMPLE], "missing a required argument: 'folder'"),
    ],
)
@pytest.mark.usefixtures("no_data")
def test_what_goes_wrong_is_one_message(arguments, problem, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(arguments) == 1
    output = capsys.readouterr()
    assert output.err.startswith("workbench: ")
    assert problem in output.err
    assert "Traceback" not in output.err
    assert output.out == ""
    assert list(tmp_path.rglob("*")) == [tmp_path / "home"]


def test_a_stopped_command_says_so(monkeypatch, capsys):
    monkeypatch.setattr("workbench.datasets.load", Mock(side_effect=KeyboardInterrupt))
    assert cli.main(["show", "lambada"]) == 130
    assert capsys.readouterr().err == "workbench: stopped\n"


@pytest.fixture
def two_runs(no_data, released):
    """Two stored runs on the released passages: one knows the answer of half of them."""
    items = load("lambada", "dev", path=released)
    ids = items.frame["item_id"].tolist()
    for name, words in (("half", ["eel"] * 4 + ["cat"] * 4), ("never", ["dog"] * 8)):
        answers = dict(zip(ids, words, strict=True))
        results.keep(items, from_answers(items, answers, model=f"{name} right"), name=name)
    return no_data / "runs"


def test_compare_prints_models_and_pairs_and_writes_a_page(two_runs, released, tmp_path, capsys):
    out = tmp_path / "out.html"
    options = ["--path", str(released), "--html", str(out), "--limit", "3"]
    assert cli.main(["compare", "half", str(two_runs / "never"), *options]) == 0
    output = capsys.readouterr().out
    assert output.startswith("2 models on 8 items; 95 % intervals\n")
    lines = {line.split("  ")[0]: line for line in output.splitlines()}
    assert "50.0 [" in lines["half right"]
    assert "+50.0 [" in lines["half right - never right"]
    assert lines["half right - never right"].split()[-6:] == ["4", "/", "0", "0.13", "0.13", "0.13"]
    assert f"written to {out}" in output
    page = out.read_text(encoding="utf-8")
    assert page.count("lambada/dev/") == 3
    assert "half right right, never right wrong" in page
    assert "Difference +50.0 points" in page
    assert list(tmp_path.glob("*.html*")) == [out]


def test_compare_finds_the_items_by_what_the_runs_name(two_runs, released, monkeypatch, capsys):
    monkeypatch.setenv("WORKBENCH_DATA", str(released))
    assert cli.main(["compare", "half", "--dataset", "lambada", "--split", "dev", "--variant", "plain"]) == 0
    one = capsys.readouterr().out
    assert cli.main(["compare", "half"]) == 0
    assert capsys.readouterr().out == one
    assert "Pairs" not in one
    assert cli.main(["compare", "half", "--split", "control"]) == 1
    assert capsys.readouterr().err
    (two_runs / "half" / "run.json").write_text("{}")
    assert cli.main(["compare", str(two_runs / "half")]) == 1
    assert "the description of this run cannot be read" in capsys.readouterr().err


@pytest.mark.usefixtures("two_runs")
def test_compare_can_annotate(released, monkeypatch, capsys):
    def annotate(items):
        return pd.DataFrame({"item_id": items.frame["item_id"], "target_class": ["PN", "CN"] * 4})

    monkeypatch.setattr("workbench.analysis.annotations.annotate", annotate)
    assert cli.main(["compare", "half", "never", "--path", str(released), "--annotate"]) == 0
    assert "\nproper noun   4        50.0          0.0\n" in capsys.readouterr().out


def test_the_command_is_installed():
    program = Path(sys.executable).with_name("workbench")
    done = subprocess.run([program, "--help"], capture_output=True, text=True, check=True)
    for command in ("list", "fetch", "show", "compare", "reproduce"):
        assert f"\n    {command}" in done.stdout


@pytest.fixture
def novel(no_data, tmp_path):  # noqa: ARG001 - a home
    path = tmp_path / "novels" / "one.txt"
    path.parent.mkdir()
    path.write_text("the heron saw the eel . the eel saw the heron too .\n" * 40, encoding="utf-8")
    return path


def test_train_and_evaluate_a_network_without_a_notebook(novel, no_data, tmp_path, capsys):
    ids = str(tmp_path / "ids")
    assert cli.main(["stream", "--texts", str(novel), "--vocabulary", "6", "--out", ids]) == 0
    novel.unlink()  # ids are all that is needed
    folder = tmp_path / "lstm"
    train = ["train", "width=8", "lstm", "--stream", ids, "--out", str(folder), "rows=2", "--tokens", "60"]
    train += ["--device", "cpu", *SAMPLE, "length=5", "softmax=full", "evaluations=1"]
    assert cli.main(train) == 0
    assert cli.main(train) == 0  # found again
    assert capsys.readouterr().out.count(f"LSTM 8: finished, in {folder}") == 2
    assert LSTM.load(folder).vocabulary == Predictor.load(folder).vocabulary
    assert LSTM.load(folder).training_record.steps == 6
    assert cli.main(["evaluate", str(folder), *SAMPLE, "--split", "control"]) == 0
    output = capsys.readouterr().out
    (run,) = (no_data / "runs").iterdir()
    assert f"kept as {run.name}" in output
    assert re.search(r"^LSTM 8 +180 +0\.0 \[0\.0, ", output, re.MULTILINE)
    headings = r"^Model +n +Accuracy \(%\) +Perplexity .* +Median rank +Bits per word$"
    assert re.search(headings, output, re.MULTILINE)
    assert results.find_run(run.name).info["split"] == "control"


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("ngram", ["order=2", "memory=60M", "--vocabulary", "6"]),
        ("maximum-frequency", []),
        ("simple-4-gram", ["minimum=2"]),
        ("lsa", ["dimensions=2", "minimum=1", "--seed", "3"]),
        ("cbow", ["--epochs", "1", "dimensions=4"]),
    ],
)
def test_train_takes_every_model_by_name(model, settings, novel, tmp_path, capsys):
    out = tmp_path / "out"
    assert cli.main(["train", model, "--out", str(out), *settings, "--texts", str(novel)]) == 0
    assert f"finished, in {out}" in capsys.readouterr().out
    assert type(Predictor.load(out)) is registry.model_class(model)


def test_evaluate_takes_models_by_name(novel, tmp_path, capsys):
    bigram, distance = str(tmp_path / "bigram"), str(tmp_path / "distance")
    train = ["train", "ngram", "--out", bigram, "order=2", "memory=60M", "--texts", str(novel)]
    assert cli.main(train) == cli.main(["train", "word-distance", "m=3", "--out", distance]) == 0
    for models, shown in [
        (["word-distance", "m=3"], "Word distance"),
        (["next-word", f"ngram={bigram}"], "Next word, lowest (2-gram"),
        (["sliding-window", distance], "Sliding window"),
    ]:
        assert cli.main(["evaluate", *models, *SAMPLE, "--variant", "msrcc"]) == 0
        assert shown in capsys.readouterr().out


def test_models_lists_models_and_settings(capsys):
    assert cli.main(["models"]) == 0
    output = capsys.readouterr().out
    assert [line.split()[0] for line in output.splitlines()] == registry.model_names()
    assert cli.main(["models", "lstm"]) == 0
    assert {"width", "rows", "epochs"} <= set(re.findall(r"\w+", capsys.readouterr().out))
    for name, setting in (("causal-lm", "dtype"), ("server", "retries"), ("ngram", "temporary")):
        assert cli.main(["models", name]) == 0
        assert setting in re.findall(r"\w+", capsys.readouterr().out.rpartition("Settings:")[2])


def test_options_are_read_as_json_or_python_writes_them():
    written = ["False", "true", "None", "null", ".5", "1e-3", "[4, 9]", "full", "none", "FALSE"]
    values = [False, True, None, None, 0.5, 0.001, [4, 9], "full", None, False]
    assert [cli._value(text) for text in written] == values


def test_an_interrupted_training_is_no_success(novel, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("workbench.training.loop._Interrupts.asked", True)
    arguments = ["train", "lstm", "width=8", "rows=2", "length=5", "--texts", str(novel), "--tokens", "60"]
    assert cli.main([*arguments, "--device", "cpu", "--out", str(tmp_path / "out")]) == 1
    assert "interrupted; its state is in" in capsys.readouterr().err
