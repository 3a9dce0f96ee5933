import nbformat
import pytest
from refused import refused

from workbench import cli
from workbench.reproduce import notebooks, reproduce, run

PARAMETERS = 'OUT = "."\nDATA = "auto"'


def notebook(path, *cells, tagged=True):
    """Write a notebook: a heading, a cell with parameters, and cells of code."""
    made = nbformat.v4.new_notebook()
    first = nbformat.v4.new_code_cell(PARAMETERS)
    if tagged:
        first.metadata["tags"] = ["parameters"]
    made.cells = [nbformat.v4.new_markdown_cell("# A notebook"), first]
    made.cells += [nbformat.v4.new_code_cell(cell) for cell in cells]
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(made, path)
    return path


def test_notebooks_are_those_with_a_number(tmp_path):
    for name in ("10_last", "01_first", "scratch", "1_x", ".02_x"):
        (tmp_path / f"{name}.ipynb").touch()
    (tmp_path / "02_text.md").touch()
    assert [path.name for path in notebooks(tmp_path)] == ["01_first.ipynb", "10_last.ipynb"]
    assert notebooks(tmp_path / "nowhere") == []


def test_a_notebook_is_run_and_kept_as_a_page(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("TQDM_DISABLE")
    folder, out = tmp_path / "notebooks", tmp_path / "out"
    cell = 'from pathlib import Path\nPath(OUT, "table.txt").write_text(DATA + SCALE)\nprint("shown" * 2)'
    cell += "\nfrom workbench.storage.progress import progress_bar\n"
    cell += 'with progress_bar(2, label="a" "bar") as bar:\n    bar.update()'
    path = notebook(folder / "01_first.ipynb", cell, 'Path("beside.txt").touch()')
    notebook(folder / "02_other.ipynb", "raise SystemExit")
    before, data = path.read_bytes(), 'it\'s "odd"\n'
    command = ["reproduce", "01", "--notebooks", str(folder), "--out", str(out), "--data", data]
    assert cli.main([*command, "--scale", "cpu"]) == 0
    assert (out / "table.txt").read_text() == f"{data}cpu"
    page = (out / "01_first.html").read_text(encoding="utf-8")
    assert "shownshown" in page
    assert "abar" not in page  # a bar that is done
    assert "A notebook" in page
    assert (folder / "beside.txt").exists()
    assert path.read_bytes() == before
    assert sorted(file.name for file in out.iterdir()) == ["01_first.html", "table.txt"]
    assert f"-> {out / '01_first.html'}" in capsys.readouterr().out


def test_a_cell_that_fails_is_told_with_the_name_of_its_notebook(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    path = notebook(tmp_path / "01_bad.ipynb", "x = 1", "x / 0", "print('never')")
    notebook(tmp_path / "02_good.ipynb")
    page = tmp_path / "home" / "runs" / "reproduce" / "01_bad.html"
    page.parent.mkdir(parents=True)
    page.write_text("of an earlier run")
    assert cli.main(["reproduce", "--notebooks", str(tmp_path), "--data", "sample", "--scale", "smoke"]) == 1
    output = capsys.readouterr()
    assert output.err.startswith(f"workbench: {path}: a cell failed: ")
    assert "ZeroDivisionError" in output.err
    assert "Traceback (most recent call last):\n  File" not in output.err
    assert "02_good" not in output.out
    assert page.read_text() == "of an earlier run"
    assert list(page.parent.iterdir()) == [page]


@pytest.mark.parametrize(
    ("cell", "timeout"), [("import os\nos.kill(os.getpid(), 9)", None), ("import time\ntime.sleep(3600)", 1)]
)
@pytest.mark.filterwarnings("ignore")
def test_a_kernel_that_dies_or_hangs_is_an_error(tmp_path, cell, timeout):
    path = notebook(tmp_path / "01_bad.ipynb", cell)
    caught = refused(run, path, {}, timeout=timeout)
    assert caught.file == str(path)


def test_a_notebook_must_say_which_cell_holds_its_parameters(tmp_path):
    path = notebook(tmp_path / "01_bare.ipynb", tagged=False)
    refused(run, path, {})


@pytest.mark.parametrize("only", [(), ("07",)])
def test_nothing_to_run_is_told(tmp_path, only):
    if only:
        notebook(tmp_path / "01_first.ipynb")
    refused(reproduce, tmp_path, out=tmp_path / "out", only=only)
    assert not (tmp_path / "out").exists()
