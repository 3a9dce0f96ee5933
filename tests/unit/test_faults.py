"""A few of the faults of ``make faults``: kills at fixed steps, and full disks of fixed sizes.

They share one process, as importing what the work needs and the undisturbed work take half of the time.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE
from small_disks import small_disk

pytestmark = pytest.mark.slow
FOLDER = Path(__file__).parents[1] / "fuzz"
TRIALS = """
import json, os, sys, tempfile
sys.path.insert(0, sys.argv[1])
from faults import WORK, Faults, judges, writers

def torn(folder):
    with (folder / "items.parquet").open("w") as file:
        pass
    scratch = folder / f".partial-{os.getpid()}"
    with scratch.open("w") as file:
        file.write("x")
    scratch.unlink()
    return "done"

killed, full = {}, {}
with tempfile.TemporaryDirectory() as base:
    faults = Faults(base)
    for number, name in enumerate(WORK):
        known = faults.expected(name)
        part = 1 + number % 2  # halfway, at the end
        killed[name] = faults.kill(name, step=max(1, known.steps * part // 2))
        if sys.argv[2] == "full":
            full[name] = faults.full(name, max(8192, int(known.size * 0.5)))
    killed["writers"], _ = writers(faults.place() / "notes", 0)
    killed["campaign"], n_killed = judges(faults.place() / "campaign", 0)
    killed["kills"] = [] if n_killed else ["none"]
    WORK["torn"] = torn, lambda folder: "half" if (folder / "items.parquet").exists() else "absent"
    steps = faults.expected("torn").steps
    torn = [problem for part in (1, 2) for problem in faults.kill("torn", step=max(1, steps * part // 2))]
print(json.dumps({"killed": killed, "full": full, "torn": torn}))
"""


@pytest.fixture(scope="module")
def problems(tmp_path_factory):
    """Give what was wrong after each fault; there are no full disks where none can be mounted."""
    try:
        with small_disk(tmp_path_factory.mktemp("small") / "disk"):
            kind = "full"
    except pytest.skip.Exception:
        kind = "kill"
    command = [sys.executable, "-c", TRIALS, str(FOLDER), kind]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_killed_work_is_done_again_and_leaves_nothing(problems):
    assert len(problems["killed"]) > 3
    assert {name: found for name, found in problems["killed"].items() if found} == {}


def test_work_on_a_full_disk_is_one_error_and_leaves_nothing(problems, tmp_path):
    with small_disk(tmp_path / "disk"):  # or skip
        pass
    assert len(problems["full"]) == len(problems["killed"]) - 3  # writers, campaign and their number
    assert {name: found for name, found in problems["full"].items() if found} == {}


def test_a_trial_sees_work_that_is_not_atomic(problems):
    assert {problem.partition(":")[0] for problem in problems["torn"]} == {
        "half is visible",
        "left or lacking",
    }
