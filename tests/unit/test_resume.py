import json
import subprocess
import sys
from pathlib import Path


def test_killed_at_any_moment_it_comes_to_the_same_weights(tmp_path):
    program = Path(__file__).with_name("training_processes.py")
    done = subprocess.run(
        [sys.executable, program, "killed", tmp_path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout)
    assert told["same"] == {"weights.safetensors": True, "optimiser.safetensors": True}
    assert told["scores"][0] == told["scores"][1]
    assert len(told["scores"][0]) == 4
    assert told["left"] == [".lock", "step-00000030"]  # nothing of those that were killed
    steps = [life["step"] for life in told["lives"]]
    assert steps == sorted(steps)  # never back behind what was kept
    assert len(set(steps)) > 3
    assert any(life["halves"] for life in told["lives"])  # some were killed while they saved
