"""Write the digests of the items' candidates into the runs that come with the workbench.

``WORKBENCH_DATA=... python tools/shipped_runs.py`` reads the items of each run in ``data/published/runs``,
compares them with the digest in its ``run.json``, and writes its predictions anew, with all columns of today.
Nothing is predicted, and a run that has the digests is left as it is.
"""

from __future__ import annotations

import json
from pathlib import Path

import workbench as wb
from workbench.items.ablation import split_variant
from workbench.items.items import Items
from workbench.runs import predictions
from workbench.runs.run_table import write_table
from workbench.runs.store import INFO, Run, items_digest, open_run
from workbench.storage.errors import DataError

FOLDER = Path(__file__).parents[1] / "data" / "published" / "runs"


def items_of(run: Run) -> Items:
    """Return the items of a run, in its order; DataError if they are not those that were predicted.

    Items with other names in place of some are those of the text without them, as they have its candidates.
    """
    variant, change = split_variant(str(run.info["variant"]))
    items = Items.concat(
        wb.load(str(run.info["dataset"]), str(run.info["split"]), variant=name) for name in variant.split("+")
    )
    ids = run.predictions["item_id"]
    items = Items(items.frame.set_index("item_id", drop=False).loc[ids].reset_index(drop=True))
    if not change and items_digest(items) != run.info["items"]:
        raise DataError("these are not the items that were predicted", file=run.folder)
    return items


def main() -> None:
    """Complete each run that lacks the digests."""
    for folder in sorted(FOLDER.iterdir()):
        run = open_run(folder)
        if not run.predictions["candidates_digest"].isna().any():
            continue
        frame = predictions.with_digests(run.predictions, items_of(run))
        info = {name: value for name, value in run.info.items() if name != "run"}
        info |= write_table(predictions.to_table(frame), folder)
        (folder / INFO).write_text(json.dumps(info, indent=1, ensure_ascii=False), encoding="utf-8")
        print(run.run, frame["candidates_digest"].str.partition(":")[0].value_counts().to_dict())


if __name__ == "__main__":
    main()
