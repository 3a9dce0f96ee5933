"""A few of the faults of ``make faults``: kills at fixed steps, and full disks of fixed sizes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE
from small_disks import small_disk

FOLDER = Path(__file__).parents[1] / "fuzz"
TRIALS = """
import json, sys, tempfile
sys.path.insert(0, sys.argv[1])
from faults import WORK, Faults, judges, writers
problems = {}
with tempfile.TemporaryDirectory() as base:
    faults = Faults(base)
    for number, name in enumerate(sys.argv[3:] or WORK):
        known = faults.expected(name)
        if sys.argv[2] == "full":
            found = [faults.full(name, max(8192, int(known.size * part))) for part in (0.5,)]
        else:
            parts = (1, 2) if sys.argv[3:] else (1 + number % 2,)  # halfway, at the end
            found = [faults.kill(name, step=max(1, known.steps * part // 2)) for part in parts]
        problems[name] = sum(found, [])
    if sys.argv[2] == "kill":
        problems["writers"], _ = writers(faults.place() / "notes", 0)
        problems["campaign"], n_killed = judges(faults.place() / "campaign", 0)
        problems["kills"] = [] if n_killed else ["none"]
print(json.dumps(problems))
"""


def trials(kind, *works):
    command = [sys.executable, "-c", TRIALS, str(FOLDER), kind, *works]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert result.returncode == 0, result.stderr
    return {name: problems for name, problems in json.loads(result.stdout).items() if problems}


@pytest.mark.slow
def test_killed_work_is_done_again_and_leaves_nothing():
    assert trials("kill") == {}


@pytest.mark.slow
def test_work_on_a_full_disk_is_one_error_and_leaves_nothing(tmp_path):
    with small_disk(tmp_path / "disk"):  # or skip
        pass
    assert trials("full") == {}


@pytest.mark.slow
def test_a_trial_sees_work_that_is_not_atomic():
    broken = TRIALS.replace(
        "problems = {}",
        """import os
problems = {}
def torn(folder):
    with (folder / "items.parquet").open("w") as file:
        pass
    scratch = folder / f".partial-{os.getpid()}"
    with scratch.open("w") as file:
        file.write("x")
    scratch.unlink()
    return "done"
WORK["torn"] = torn, lambda folder: "half" if (folder / "items.parquet").exists() else "absent"
""",
    )
    command = [sys.executable, "-c", broken, str(FOLDER), "steps", "torn"]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
    (problems,) = json.loads(result.stdout).values()
    assert {problem.partition(":")[0] for problem in problems} == {"half is visible", "left or lacking"}
