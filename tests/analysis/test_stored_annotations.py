"""Annotations of some passages are stored with `ANNOTATIONS_VERSION`: whoever changes annotations raises it.

``python tests/analysis/test_stored_annotations.py`` writes the version, the columns and the rows anew.
"""

import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import workbench as wb
from workbench.analysis import annotations
from workbench.items.items import Items

FILE = Path(__file__).parent / "annotations.json"


def current():
    """Return the version, the type of each column, and the rows of some passages, as JSON holds them."""
    items = [wb.load("sample", "dev")[:12], wb.load("sample", "dev", variant="capitalised")[12:16]]
    frame = wb.annotate(Items.concat(items))
    columns = {name: str(dtype) for name, dtype in frame.dtypes.items()}
    rows = json.loads(frame.to_json(orient="split", index=False))["data"]
    return {"version": annotations.ANNOTATIONS_VERSION, "columns": columns, "rows": rows}


@pytest.mark.usefixtures("no_data")
def test_the_version_is_that_of_the_stored_annotations():
    computed = current()
    stored = json.loads(FILE.read_text(encoding="utf-8"))
    assert list(computed["columns"]) == list(stored["columns"])
    assert computed == stored, f"raise `ANNOTATIONS_VERSION`, then store them with it: python {__file__}"


def text_of(stored):
    """Return the content of the file: a row of a passage is a line."""
    rows = ",\n  ".join(map(json.dumps, stored["rows"]))
    head = "".join(f" {json.dumps(name)}: {json.dumps(stored[name])},\n" for name in ("version", "columns"))
    return f'{{\n{head} "rows": [\n  {rows}\n ]\n}}\n'


def test_the_file_is_as_the_script_writes_it():
    text = FILE.read_text(encoding="utf-8")
    assert text_of(json.loads(text)) == text


if __name__ == "__main__":
    with TemporaryDirectory() as scratch:
        os.environ |= {"WORKBENCH_HOME": scratch, "WORKBENCH_DATA": scratch}  # no vocabulary of this machine
        FILE.write_text(text_of(current()), encoding="utf-8")
    sys.stdout.write(f"wrote {FILE}\n")
