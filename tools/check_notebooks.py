"""Refuse notebooks with outputs: a hook for pre-commit, which gives the notebooks' names."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path


def with_outputs(notebook: Path) -> list[int]:
    """Return the positions of the cells that hold an output or a count of their runs."""
    cells = json.loads(notebook.read_text(encoding="utf-8")).get("cells", [])
    return [place for place, cell in enumerate(cells) if cell.get("outputs") or cell.get("execution_count")]


def main(names: Iterable[str]) -> int:
    """Name each notebook with outputs; return 1 where there is one."""
    bad = {name: cells for name in names if (cells := with_outputs(Path(name)))}
    for name, cells in bad.items():
        print(f"{name}: clear the outputs of cells {', '.join(map(str, cells))}")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
