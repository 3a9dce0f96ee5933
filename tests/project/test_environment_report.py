"""`workbench versions` says what a report needs, whatever is broken, and nothing personal."""

import getpass
import importlib.metadata
from pathlib import Path

from workbench import cli, environment_report
from workbench.environment_report import public_path


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
