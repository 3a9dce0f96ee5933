"""Where files are: in a checkout, and of an installed package."""

import sys
from pathlib import Path

import pytest
from refused import refused

from workbench.storage import paths
from workbench.storage.paths import data_home, resource


@pytest.mark.parametrize("value", ["{}/file", "{}/file/x", "~nobody-of-this-name"])
def test_an_odd_data_folder_is_one_error(tmp_path, monkeypatch, value):
    (tmp_path / "file").touch()
    monkeypatch.setenv("WORKBENCH_HOME", value.format(tmp_path))
    refused(data_home)


@pytest.mark.parametrize("value", ["{}/mine", "~/mine", ""])
def test_the_data_folder(tmp_path, monkeypatch, value):
    monkeypatch.setenv("WORKBENCH_HOME", value.format(tmp_path))
    default = Path(paths.__file__).parents[2] / "data"
    assert data_home() == (Path(value.format(tmp_path)).expanduser() if value else default)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package that looks like one that a wheel installed, for a user whose home is ``tmp_path/home``."""
    monkeypatch.setattr(paths, "_PACKAGE", tmp_path / "site-packages" / "workbench")
    monkeypatch.setattr(paths, "_CHECKOUT", tmp_path / "site-packages")
    for name in ("WORKBENCH_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (paths._PACKAGE / "_data").mkdir(parents=True)
    return paths._PACKAGE / "_data"


def test_what_ships_lies_in_the_folder_of_an_installed_package(installed):
    assert not paths.in_checkout()
    for parts in (("sample", "x.txt"), ("notebooks",), ("tools", "setup.py"), ("requirements.lock",)):
        assert resource(*parts) == installed.joinpath(*parts)


def test_what_ships_lies_in_data_or_at_the_top_of_a_checkout(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "_PACKAGE", tmp_path / "workbench")
    monkeypatch.setattr(paths, "_CHECKOUT", tmp_path)
    (tmp_path / "pyproject.toml").touch()
    assert paths.in_checkout()
    assert resource("sample", "x.txt") == tmp_path / "data" / "sample" / "x.txt"
    for parts in (("notebooks",), ("tools", "setup.py"), ("requirements.lock",)):
        assert resource(*parts) == tmp_path.joinpath(*parts)


def test_everything_that_ships_is_there():
    names = ("en_narrative", "published", "registry.toml", "sample", *paths._AT_THE_TOP)
    assert [name for name in names if not resource(name).exists()] == []


@pytest.mark.usefixtures("installed")
@pytest.mark.skipif(sys.platform != "linux", reason="the folders of Linux")
def test_the_data_of_an_installed_package_are_the_users(tmp_path, monkeypatch):
    """Never in the package nor in the working directory; what WORKBENCH_HOME names comes first."""
    home = tmp_path / "home"
    assert data_home() == home / ".local" / "share" / "lambada-workbench"
    assert paths.cache_home() == home / ".cache" / "lambada-workbench"
    assert paths.programs_home() == data_home() / "tools"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    assert data_home() == tmp_path / "xdg" / "lambada-workbench"
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "mine"))
    assert data_home() == tmp_path / "mine"
    assert paths.cache_home() == tmp_path / "mine" / "cache"
    assert paths.programs_home() == tmp_path / "mine" / "tools"
    assert not home.exists()


def test_the_data_of_a_checkout_stay_in_it(monkeypatch):
    monkeypatch.setenv("WORKBENCH_HOME", "")
    top = Path(paths.__file__).parents[2]
    assert (data_home(), paths.cache_home(), paths.programs_home()) == (
        top / "data", top / "data" / "cache", top / ".tools",
    )  # fmt: skip
