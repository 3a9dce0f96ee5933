"""Runs that come with the workbench, in ``data/published/runs``: ``wb.predict`` finds them by their key."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from workbench.runs.store import INFO, TABLE, Run
from workbench.storage.errors import DataError
from workbench.storage.files import atomic_folder

ORIGIN = "the workbench"
LARGEST = 500_000
"""Bytes of a run that may come with the workbench."""


def ship(run: Run, folder: Path) -> Path:
    """Copy a run into a folder of runs that come with the workbench, and return its place.

    It holds ids, words and numbers, and no text of a data set: columns of one's own are left out.

    Raises
    ------
    DataError
        If it is larger than `LARGEST`, or cannot be written.
    """
    with atomic_folder(folder / run.run, replace=True) as target:
        shutil.copyfile(run.folder / TABLE, target / TABLE)
        info = {name: value for name, value in run.info.items() if name != "run"} | {"origin": ORIGIN}
        (target / INFO).write_text(json.dumps(info, indent=1, ensure_ascii=False), encoding="utf-8")
        if (size := sum(file.stat().st_size for file in target.iterdir())) > LARGEST:
            raise DataError(f"the run takes {size:,} bytes, expected at most {LARGEST:,}", file=run.folder)
    return folder / run.run
