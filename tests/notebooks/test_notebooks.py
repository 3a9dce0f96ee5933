"""Every notebook runs from top to bottom on the sample."""

from pathlib import Path

import pytest

from workbench.reproduce import notebooks, run

FOLDER = Path(__file__).parents[2] / "notebooks"


@pytest.mark.slow
@pytest.mark.parametrize("path", notebooks(FOLDER), ids=lambda path: path.stem)
def test_notebook_runs_on_the_sample(path, tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    settings = {"DATA": "sample", "SCALE": "smoke", "SEED": 0, "OUT": str(tmp_path)}
    done = run(path, settings, timeout=300)
    outputs = [output for cell in done.cells if cell.cell_type == "code" for output in cell.outputs]
    assert outputs
    assert not [output for output in outputs if output.output_type == "error"]
    warned = [o.text for o in outputs if o.output_type == "stream" and o.name == "stderr"]
    assert warned == []


def test_there_are_notebooks():
    assert [path.stem for path in notebooks(FOLDER)][:2] == ["00_tour", "01_browse_passages"]
