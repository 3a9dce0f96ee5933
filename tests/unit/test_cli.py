import subprocess
import sys
from pathlib import Path

import builders as b
import pytest

from workbench import cli
from workbench.datasets import load


@pytest.fixture
def released(tmp_path):
    lines = [f"it rained . the heron number {i} saw the eel" for i in range(8)]
    return b.write(tmp_path / "raw", {"lambada_development_plain_text.txt": b.text(lines)})


def test_fetch_can_say_what_it_would_do(no_data, capsys):
    assert cli.main(["fetch", "lambada", "cbt", "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert "licence" in told
    assert str(no_data / "raw" / "lambada") in told
    assert str(no_data / "raw" / "cbt") in told
    assert list(no_data.iterdir()) == []


def test_fetch_into_another_folder(no_data, tmp_path, capsys):
    assert cli.main(["fetch", "lambada", "--dry-run", "--folder", str(tmp_path / "here")]) == 0
    assert str(tmp_path / "here") in capsys.readouterr().out.splitlines()[-1]
    assert list(no_data.iterdir()) == []
    assert not (tmp_path / "here").exists()


def test_show_prints_items_with_the_blank_and_the_answer(released, capsys):
    assert cli.main(["show", "lambada", "dev", "--path", str(released), "-n", "3", "--seed", "1"]) == 0
    told = capsys.readouterr().out
    expected = load("lambada", "dev", path=released).sample(3, seed=1)
    assert told.startswith("Items(8: 8 x lambada/dev/plain")
    assert told.count("saw the _____\n= eel\n") == 3
    for item in expected:
        assert f"{item.item_id}\n{item.passage}\n= {item.answer}\n" in told
    assert cli.main(["show", "lambada", "--variant", "plain", "--path", str(released), "-n", "0"]) == 0
    assert len(capsys.readouterr().out.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "nothing"],
        ["show", "lambada", "nosplit"],
        ["show", "lambada", "--path", "nowhere"],
        ["show", "lambada"],
        ["fetch", "nothing", "--dry-run"],
        ["reproduce", "--notebooks", "nowhere"],
    ],
)
def test_what_goes_wrong_is_one_message(arguments, no_data, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(arguments) == 1
    told = capsys.readouterr()
    assert told.err.startswith("workbench: ")
    assert "Traceback" not in told.err
    assert told.out == ""
    assert list(no_data.iterdir()) == []


@pytest.mark.parametrize("arguments", [[], ["dance"], ["show"], ["fetch"], ["show", "lambada", "-n", "few"]])
def test_a_command_that_is_none_is_told_with_the_usage(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2
    assert "usage: workbench" in capsys.readouterr().err


def test_a_stopped_command_says_so(monkeypatch, capsys):
    def stop(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("workbench.datasets.load", stop)
    assert cli.main(["show", "lambada"]) == 130
    assert capsys.readouterr().err == "workbench: stopped\n"


def test_reproduce_hands_its_options_on(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(
        "workbench.reproduce.reproduce", lambda *args, **options: asked.append((args, options))
    )
    assert cli.main(["reproduce"]) == 0
    assert (
        cli.main(["reproduce", "01", "02", "--out", str(tmp_path), "--data", "sample", "--scale", "cpu"]) == 0
    )
    assert asked == [
        ((Path("notebooks"),), {"out": None, "only": [], "settings": {}}),
        (
            (Path("notebooks"),),
            {"out": tmp_path, "only": ["01", "02"], "settings": {"DATA": "sample", "SCALE": "cpu"}},
        ),
    ]


def test_the_command_is_installed():
    program = Path(sys.executable).with_name("workbench")
    told = subprocess.run([program, "--help"], capture_output=True, text=True, check=True)
    for command in ("list", "fetch", "show", "reproduce"):
        assert f"\n    {command}" in told.stdout
