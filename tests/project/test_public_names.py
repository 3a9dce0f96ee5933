"""Whatever says ``wb.NAME`` - messages, docstrings, pages, notebooks - names something that there is."""

import re
from pathlib import Path

import pytest

import workbench as wb

ROOT = Path(__file__).parents[2]
FILES = sorted(
    path
    for pattern in (
        "workbench/**/*",
        "docs/**/*.md",
        "notebooks/*.ipynb",
        "*.md",
        "benchmarks/*.py",
        "tools/**/*.py",
    )
    for path in ROOT.glob(pattern)
    if path.suffix in {".py", ".md", ".ipynb", ".html", ".js", ".toml"}
)
NAME = re.compile(r"(?<![\w./-])wb\.([A-Za-z_]\w*)")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_name_exists(path):
    names = set(NAME.findall(path.read_text(encoding="utf-8")))
    assert sorted(name for name in names if not hasattr(wb, name)) == []
