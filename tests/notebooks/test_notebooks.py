"""Every notebook runs from top to bottom on the sample.

The tour runs in a browser (tests/browser). The others share one kernel, emptied before each, and one
folder of models and annotations: importing the libraries anew takes as long as what the notebooks do.
"""

import json
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import AsyncKernelManager
from jupyter_core.utils import run_sync
from nbclient import NotebookClient
from patience import PATIENCE

from workbench.reproduce import notebooks, run

FOLDER = Path(__file__).parents[2] / "notebooks"
SHOWN = {  # what a notebook must show: the cache's trade-off, the five options of a question
    "02_counting_models": "chosen: ",
    "03_neural_language_models": "chosen: ",
    "05_sentence_completion": "The candidates, with their shares",
}
IN_BROWSER = "00_tour"
EMPTIED = "%reset -f\n__import__('gc').freeze()"  # else each collection goes through all libraries again


@pytest.fixture(scope="module")
def manager(tmp_path_factory, link_converted):
    """Give the manager of the shared kernel."""
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("home")
        link_converted(home)
        patch.setenv("WORKBENCH_HOME", str(home))
        # a blocking manager would wait for ever for the output of a kernel that died
        manager = AsyncKernelManager(kernel_name="python3")
        yield manager
        run_sync(manager.shutdown_kernel)(now=True)


@pytest.fixture
def shared(manager, monkeypatch):
    """Let notebooks run in the shared kernel, which starts anew if the notebook before has killed it."""
    if not (manager.has_kernel and run_sync(manager.is_alive)()):
        run_sync(manager.start_kernel)(cwd=str(FOLDER), extra_arguments=["--log-level=ERROR"])

    class Client(NotebookClient):
        def __init__(self, notebook, **options):
            notebook.cells.insert(0, nbformat.v4.new_code_cell(EMPTIED))
            super().__init__(notebook, km=manager, **options)

        def execute(self, **options):
            try:
                return super().execute(**options)
            finally:
                self.kc.stop_channels()

    monkeypatch.setattr("nbclient.NotebookClient", Client)


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize(
    "path", [path for path in notebooks(FOLDER) if path.stem != IN_BROWSER], ids=lambda path: path.stem
)
def test_notebook_runs_on_the_sample(path, tmp_path):
    settings = {"DATA": "sample", "SCALE": "smoke", "SEED": 0, "OUT": str(tmp_path)}
    result = run(path, settings, timeout=PATIENCE)
    outputs = [output for cell in result.cells if cell.cell_type == "code" for output in cell.outputs]
    assert outputs
    assert not [output for output in outputs if output.output_type == "error"]
    warned = [o.text for o in outputs if o.output_type == "stream" and o.name == "stderr"]
    assert warned == []
    assert SHOWN.get(path.stem, "") in json.dumps(outputs)


def test_there_are_notebooks():
    assert [path.stem for path in notebooks(FOLDER)][:2] == [IN_BROWSER, "01_dataset_analysis"]


@pytest.mark.parametrize("path", notebooks(FOLDER), ids=lambda path: path.stem)
def test_the_first_cell_says_how_long_it_takes(path):
    assert "**Time.** It takes " in nbformat.read(path, as_version=4).cells[0].source
