"""CITATION.cff is valid and of this version; the templates of issues ask for what a report needs."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import workbench as wb
from workbench.datasets.sources import registry

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


def test_the_citation_has_what_its_format_requires():
    """Keys of version 1.2.0 of the Citation File Format."""
    assert {"cff-version", "message", "title", "authors"} <= set(CITATION)
    assert CITATION["cff-version"] == "1.2.0"
    assert CITATION["type"] == "software"
    for work in [CITATION, *CITATION["references"]]:
        assert work["title"]
        assert work["authors"]
        assert all("name" in author or "family-names" in author for author in work["authors"])
    assert all({"type", "year", "url"} <= set(work) for work in CITATION["references"])


def test_the_citation_is_of_this_version():
    assert CITATION["title"] == PROJECT["name"]
    assert CITATION["version"] == PROJECT["version"] == wb.__version__
    assert CITATION["license"] == PROJECT["license"]
    assert CITATION["abstract"].rstrip(".") == PROJECT["description"]


@pytest.mark.parametrize("name", ["lambada", "cbt", "cnnqa"])
def test_the_papers_of_the_data_sets_are_cited(name):
    """By title and year, as the data set itself asks to be cited."""
    entry = registry()[name]["citation"]
    title = re.search(r"title = \{(.*)\}", entry)[1].replace("{", "").replace("}", "")
    year = int(re.search(r"year = \{(\d+)\}", entry)[1])
    assert (title, year) in {(work["title"], work["year"]) for work in CITATION["references"]}


def test_a_report_of_an_error_has_the_versions():
    folder = ROOT / ".github" / "ISSUE_TEMPLATE"
    if not folder.is_dir():
        pytest.skip("a source distribution has no templates of issues")
    for path in folder.glob("*.md"):
        _, heading, text = path.read_text(encoding="utf-8").split("---\n", 2)
        assert {"name", "about", "labels"} == set(yaml.safe_load(heading))
        assert text.strip()
    report = (folder / "bug_report.md").read_text(encoding="utf-8")
    assert "workbench versions" in report
    assert callable(wb.show_versions)
