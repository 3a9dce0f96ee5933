import re
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from workbench import cli
from workbench.models import LSTM, registry
from workbench.models.base import Predictor
from workbench.predictions import store as results


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


OUT = ["--out", "here"]
TEXTS = ["--texts", "a"]
SAMPLE = ["--dataset", "sample"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["evaluate", "here", "--dataset", "lambada", "--path", "nowhere"], "nowhere"),
        (["evaluate", "here", "--dataset", "lambada"], "lambada"),
        (["reproduce", "--notebooks", "nowhere"], "nowhere"),
        (["train", "lstm", *OUT], "lstm is trained on texts"),
        (["train", "ngram", *OUT, *TEXTS, "--minutes", "3"], "no setting 'minutes'"),
        (["train", "next-word", *OUT], "ngram"),
        (["train", "window-memory", *OUT], "window-memory is trained on items"),
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
    assert cli.main(["evaluate", "here", "--dataset", "lambada"]) == 130
    assert capsys.readouterr().err == "workbench: stopped\n"


def test_the_command_is_installed():
    program = Path(sys.executable).with_name("workbench")
    done = subprocess.run([program, "--help"], capture_output=True, text=True, check=True)
    for command in ("lab", "setup", "versions", "list", "fetch", "train", "evaluate", "reproduce"):
        assert f"\n    {command}" in done.stdout


@pytest.fixture
def novel(no_data, tmp_path):  # noqa: ARG001 - a home
    path = tmp_path / "novels" / "one.txt"
    path.parent.mkdir()
    path.write_text("the heron saw the eel . the eel saw the heron too .\n" * 40, encoding="utf-8")
    return path


def test_train_and_evaluate_a_network_without_a_notebook(novel, no_data, tmp_path, capsys):
    folder = tmp_path / "lstm"
    train = ["train", "width=8", "lstm", "--texts", str(novel), "--out", str(folder), "rows=2"]
    train += ["--vocabulary", "6", "--tokens", "60"]
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


def test_options_are_read_as_json_or_python_writes_them():
    written = ["False", "true", "None", "null", ".5", "1e-3", "[4, 9]", "full", "none", "FALSE"]
    values = [False, True, None, None, 0.5, 0.001, [4, 9], "full", None, False]
    assert [cli._value(text) for text in written] == values


def test_an_interrupted_training_is_no_success(novel, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("workbench.training.loop._Run.interrupted", True)
    arguments = ["train", "lstm", "width=8", "rows=2", "length=5", "--texts", str(novel), "--tokens", "60"]
    assert cli.main([*arguments, "--device", "cpu", "--out", str(tmp_path / "out")]) == 1
    assert "interrupted; its state is in" in capsys.readouterr().err
