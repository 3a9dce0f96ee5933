"""`wb.show_versions` says what a report needs, whatever is broken, and nothing personal."""

import getpass
import importlib.metadata
from pathlib import Path

import pytest

import workbench as wb
from workbench import cli, environment_report
from workbench.environment_report import public_path
from workbench.models.ngram import kenlm
from workbench.storage.errors import DataError


def test_the_report_has_all_versions(no_data, capsys, monkeypatch):
    monkeypatch.setenv("WORKBENCH_DATA", str(no_data / "sets"))
    assert cli.main(["versions"]) == 0
    printed = capsys.readouterr().out
    report = environment_report.environment_report()
    assert list(report) == ["workbench", "packages", "programs and models", "folders", "data"]
    assert all(f"  {name}: {value}\n" in printed for each in report.values() for name, value in each.items())
    packages = report["packages"]
    assert packages["torch"] == importlib.metadata.version("torch")
    assert {"numpy", "jupyterlab", "transformers", "pytest"} <= set(packages)  # of extras, too
    assert all(name.replace("-", "").replace("_", "").isalnum() for name in packages)
    assert report["programs and models"]["tagger"].startswith("en_narrative ")
    assert report["folders"]["data"] == public_path(no_data)
    assert report["folders"]["WORKBENCH_DATA"] == public_path(no_data / "sets")
    assert report["data"]["data sets"] == "sample (dev, train, test, control, rejected)"
    assert report["data"]["runs"] == "0"


def test_paths_name_neither_the_home_folder_nor_the_user(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "ada"))
    monkeypatch.setattr(getpass, "getuser", lambda: "ada")
    assert public_path(tmp_path / "ada" / "x" / "y") == "~/x/y"
    assert public_path(Path("/data/ada/corpora")) == "/data/USER/corpora"
    assert public_path(Path("/data/adams")) == "/data/adams"

    def nobody():
        raise OSError("no such user")

    monkeypatch.setattr(getpass, "getuser", nobody)
    assert public_path(Path("/data/x")) == "/data/x"


@pytest.mark.usefixtures("no_data")
def test_what_is_broken_is_a_line_of_the_report(monkeypatch, capsys):
    def missing(_name):
        raise DataError("not there", remedy="look")

    def broken(*_):
        raise RuntimeError(f"{Path.home()}/x is broken")

    monkeypatch.setattr(kenlm, "find_program", missing)
    monkeypatch.setattr(environment_report, "_tagger", broken)

    def missing_package(name):
        if name == "lambada-workbench":
            return "1.2.3"
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing_package)
    wb.show_versions()
    printed = capsys.readouterr().out
    assert "  version: 1.2.3\n" in printed
    assert "  torch: not installed\n" in printed
    assert "  KenLM: missing: `workbench setup` builds it\n" in printed
    assert "  tagger: RuntimeError: ~/x is broken\n" in printed
