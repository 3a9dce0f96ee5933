"""The wheel, installed for a user with an empty home who works in an empty folder, without a network.

Its dependencies are those of the tests' own environment; nothing of the checkout is imported.
"""

import json
import os
import re
import subprocess
import sys
import sysconfig
import time
import venv
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
import requests

ROOT = Path(__file__).parents[2]
SHARED = Path(sysconfig.get_path("purelib"))


class Installed:
    """An environment with the wheel, and the empty folder and home that its programs run in."""

    def __init__(self, top):
        self.venv, self.home, self.folder = top / "venv", top / "home", top / "folder"
        for folder in (self.home, self.folder):
            folder.mkdir()
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(top / "dist")]
        subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
        venv.create(self.venv, with_pip=True)
        (self.wheel,) = (top / "dist").glob("*.whl")
        self.run("python", "-m", "pip", "install", "--no-index", "--no-deps", self.wheel)
        (packages,) = self.venv.glob("lib/python*/site-packages")
        (packages / "shared.pth").write_text(
            f"{SHARED}\n"
        )  # .pth files in there, as the checkout's, do not act
        self.package = packages / "workbench"

    @property
    def environment(self):
        """Variables of a user who has set nothing, and where JupyterLab's own files are."""
        share = Path(sys.prefix, "share", "jupyter")
        return {
            "HOME": str(self.home),
            "PATH": f"{self.venv / 'bin'}{os.pathsep}{os.defpath}",
            "JUPYTER_PATH": str(share),
            "JUPYTERLAB_DIR": str(share / "lab"),
            "OMP_NUM_THREADS": "1",
        }

    def start(self, program, *arguments):
        command = [str(self.venv / "bin" / program), *map(str, arguments)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.Popen(command, cwd=self.folder, env=self.environment, **pipes)

    def run(self, program, *arguments, status=0):
        """Run a program of the environment and return what it prints."""
        process = self.start(program, *arguments)
        output, _ = process.communicate()
        assert process.returncode == status, output
        return output


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    return Installed(tmp_path_factory.mktemp("wheel"))


def test_commands_run_in_an_empty_folder(installed):
    assert re.fullmatch(r"workbench \d+\.\d+\.\d+\n", installed.run("workbench", "--version"))
    assert "sample" in installed.run("workbench", "list")
    report = installed.run("workbench", "versions")
    assert "commit: none (installed from a wheel)" in report
    assert "data: ~/.local/share/lambada-workbench" in report
    assert "tagger: en_narrative" in report
    assert str(installed.home) not in report
    assert list(installed.folder.iterdir()) == []


CODE = """
import json, sys
import workbench as wb
from workbench.predictions import store
from workbench.storage.paths import resource

items = wb.load("sample", variant="capitalised")
annotations = wb.annotate(items)
ship = sorted(resource("published", "runs").glob("sample-*"))[0]
table = wb.evaluate(store.open_run(ship))
try:
    wb.models.NGram.fit(wb.books("sample", "train"), order=3)
except wb.DataError as error:
    problem = str(error)
print(json.dumps({
    "package": wb.__file__, "items": len(items), "annotations": len(annotations),
    "classes": sorted(set(annotations["target_pos"])), "n": int(table["n"].iloc[0]), "problem": problem,
    "paths": sys.path,
}))
"""


def test_sample_tagger_and_published_runs_are_in_it(installed):
    """What is computed lies in the user's folders; that KenLM's programs are missing is one error."""
    lines = installed.run("python", "-P", "-c", CODE).splitlines()
    answer = json.loads(lines[-1])
    assert Path(answer["package"]).parent == installed.package
    assert str(ROOT) not in answer["paths"]
    assert answer["annotations"] == answer["items"] > 0
    assert {"NOUN", "PROPN"} <= set(answer["classes"])
    assert answer["n"] > 0
    assert "'lmplz' was not found" in answer["problem"]
    assert "run `workbench setup`" in answer["problem"]
    assert (installed.home / ".cache" / "lambada-workbench" / "annotations").is_dir()
    assert list(installed.folder.iterdir()) == []
    with zipfile.ZipFile(installed.wheel) as wheel:
        files = {name for name in wheel.namelist() if name.startswith("workbench/")}
    there = {path for path in installed.package.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert {path.relative_to(installed.package.parent).as_posix() for path in there} == files


def test_the_lab_opens_the_tour_from_an_empty_folder(installed):
    process = installed.start("workbench", "lab", "--no-browser", "--port", "0")
    try:
        printed = []
        for line in process.stdout:
            printed.append(line)
            if found := re.search(r"http://localhost:(\d+)/lab/tree/00_tour\.ipynb\?token=(\w+)", line):
                break  # after what is missing, as KenLM's programs here
        else:
            pytest.fail("".join(printed))

        def get(path):
            address = f"http://localhost:{found[1]}/{path}?token={found[2]}"
            while True:
                with suppress(requests.ConnectionError):  # it prints its address before it listens
                    answer = requests.get(address, timeout=600)
                    break
                assert process.poll() is None
                time.sleep(0.1)
            answer.raise_for_status()
            return answer

        assert any("`workbench setup` builds them" in line for line in printed)
        assert "JupyterLab" in get("lab/tree/00_tour.ipynb").text
        tour = get("api/contents/00_tour.ipynb").json()["content"]
        assert "# A tour" in tour["cells"][0]["source"]
        assert "python3" in get("api/kernelspecs").json()["kernelspecs"]
    finally:
        process.terminate()
        process.communicate()
    copies, originals = installed.folder / "workbench-notebooks", ROOT / "notebooks"
    assert {path.name: path.read_bytes() for path in copies.glob("*.ipynb")} == {
        path.name: path.read_bytes() for path in originals.glob("*.ipynb")
    }
