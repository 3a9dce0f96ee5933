"""The table with which the benchmarks end, from scripts that measure nothing."""

import json

import _table
import pytest
from _report import VARIABLE, Row, tell

GOOD = """
from _report import Row, tell
tell(Row("reading", 2, "s", peer="a plain loop", theirs=8, times=3))
tell(Row("words", 900, "words/s", goal=1000, higher=True))
"""
FAILING = """
from _report import Row, tell
tell(Row("the first part", 1, "s"))
raise SystemExit(3)
"""
KILLED = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
SILENT = "print('only text')"
HEAD = ["benchmark", "work", "ours", "peer", "ratio", "goal", "verdict", "load before", "after"]


@pytest.fixture
def lines(tmp_path, monkeypatch, capfd):
    """Run scripts with given loads; return the status, and the table's cells."""
    monkeypatch.setenv("PYTHONPATH", str(_table.FOLDER))

    def run(scripts, loads, *arguments):
        for name, source in scripts.items():
            (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
        values = iter(loads)
        options = ["--markdown", "--wait", "0", *arguments]
        status = _table.main(options, folder=tmp_path, load=lambda: next(values))
        rows = [line for line in capfd.readouterr().out.splitlines() if line.startswith("|")]
        return status, [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]

    return run


def test_a_failing_script_and_a_good_one_stand_in_one_table(lines):
    scripts = {"failing": FAILING, "good": GOOD, "killed": KILLED, "silent": SILENT, "_help": "1 / 0"}
    status, (head, _, *rows) = lines(scripts, [0.5, 1.5] * 4)
    assert status == 1
    assert head == HEAD
    loads = ["0.50", "1.50"]
    assert rows == [
        ["failing", "the first part", "1 s", "", "", "", "", *loads],
        ["failing", "", "", "", "", "", "FAILED: exit code 3", *loads],
        ["good", "reading", "2 s", "a plain loop: 8 s", "4", "3 times", "met", *loads],
        ["good", "words", "900 words/s", "", "", "at least 1,000 words/s", "MISSED", *loads],
        ["killed", "", "", "", "", "", "FAILED: killed by SIGKILL", *loads],
        ["silent", "", "", "", "", "", "no peer, no goal", *loads],
    ]


@pytest.mark.parametrize(("before", "is_marked"), [(0.99, False), (1.0, True), (7.0, True)])
def test_figures_of_a_busy_machine_are_marked(lines, before, is_marked):
    status, rows = lines({"good": GOOD}, [before, 9.0])
    assert status == 0
    assert [row[6] for row in rows[2:]] == [
        f"{verdict} (not to be quoted)" if is_marked else verdict for verdict in ("met", "MISSED")
    ]


def test_scripts_are_chosen_by_the_beginning_of_their_names(lines, capfd):
    scripts = {"one": GOOD, "other": GOOD, "third": FAILING}
    assert {row[0] for row in lines(scripts, [0.0] * 4, "on", "oth")[1][2:]} == {"one", "other"}
    with pytest.raises(SystemExit):
        lines(scripts, [], "fourth")
    assert "no benchmark begins with 'fourth'; there are one, other, third" in capfd.readouterr().err


VERDICTS = [
    (Row("a", 99, "ms", goal=100), None, True),
    (Row("a", 101, "ms", goal=100), None, False),
    (Row("a", 99, "words/s", goal=100, higher=True), None, False),
    (Row("a", 2, "s", theirs=5, times=2.5), 2.5, True),
    (Row("a", 2, "words/s", theirs=5, times=1, higher=True), 0.4, False),
    (Row("a", 2, "s", theirs=5, ratio=2.4, times=2.5), 2.4, False),
    (Row("a", 2, "s", theirs=5, times=2, goal=1), 2.5, False),
    (Row("a", 2, "s", theirs=5), 2.5, None),
    (Row("a", float("nan"), "s", goal=1), None, False),
]


@pytest.mark.parametrize(("row", "ratio", "met"), VERDICTS)
def test_goals_are_of_our_number_or_of_the_ratio(row, ratio, met):
    assert row.times_peer == ratio
    assert row.met is met


def test_rows_are_told_only_to_a_file_that_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    tell(Row("a", 1, "s"))
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv(VARIABLE, str(tmp_path / "rows"))
    for work in ("a", "b"):
        tell(Row(work, 1, "s"))
    rows = [json.loads(line) for line in (tmp_path / "rows").read_text("utf-8").splitlines()]
    assert [Row(**row) for row in rows] == [Row("a", 1, "s"), Row("b", 1, "s")]
