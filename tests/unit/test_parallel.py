import subprocess
import sys

import pytest

from workbench.items.items import DataError
from workbench.storage.parallel import chunked_map


def square(n):
    return n * n


def fail_at_30(n):
    if n == 30:
        raise DataError("it is 30", file="x", line=30, remedy="take another")
    return n


@pytest.mark.parametrize("workers", [1, 2])
def test_the_results_are_in_order(workers):
    assert list(chunked_map(square, range(50), workers=workers, chunk=7, serial=10)) == [
        n * n for n in range(50)
    ]


@pytest.mark.parametrize("workers", [1, 2])
def test_errors_come_back_as_they_are(workers):
    results = chunked_map(fail_at_30, iter(range(50)), workers=workers, chunk=7, serial=10)
    with pytest.raises(DataError, match="it is 30") as raised:
        list(results)
    assert (raised.value.file, raised.value.line, raised.value.remedy) == ("x", 30, "take another")


def test_one_may_stop_early():
    results = chunked_map(square, range(10_000), workers=2, chunk=7, serial=10)
    assert [next(results) for _ in range(3)] == [0, 1, 4]
    results.close()


def test_few_items_start_nothing_and_nothing_gives_nothing():
    assert list(chunked_map(lambda n: -n, range(10), workers=2)) == [-n for n in range(10)]
    assert list(chunked_map(square, [], progress="none")) == []


def test_progress(capsys):
    assert len(list(chunked_map(square, range(30), workers=1, serial=5, progress="squares"))) == 30
    assert "squares" in capsys.readouterr().err


def test_a_script_without_a_main_guard_runs_once(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import math\nfrom workbench.storage.parallel import chunked_map\nprint('started')\n"
        "print(sum(chunked_map(math.floor, [1.5] * 100, workers=2, chunk=10, serial=10)))\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["started", "100"]
    assert not done.stderr
