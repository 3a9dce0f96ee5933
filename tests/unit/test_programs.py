"""Finding programs, and running one that misbehaves."""

import os
import sys
from pathlib import Path

import pytest

from workbench.models.ngram import programs

BANNER = (
    b"----5---10---15---20---25---30---35---40---45---50---55---60---65---70---75---80---85---90---95--100\n"
)


def program(folder, name="lmplz", mode=0o755):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return path


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """Let no program be found: neither in the checkout, nor beside Python, nor on the PATH."""
    monkeypatch.setattr(programs, "_TOOLS", tmp_path / "tools")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    return tmp_path


def test_the_checkout_comes_first_then_what_lies_beside_python_then_the_path(nowhere):
    last = program(nowhere / "path")
    assert programs.find("lmplz") == last
    second = program(nowhere / "venv")
    assert programs.find("lmplz") == second
    first = program(nowhere / "tools" / "kenlm" / "bin")
    assert programs.find("lmplz") == first
    assert first.is_absolute()


def test_what_may_not_be_run_is_no_program(nowhere):
    program(nowhere / "venv", mode=0o644)
    (nowhere / "path" / "lmplz").mkdir(parents=True)
    with pytest.raises(programs.ProgramMissingError, match=r"'lmplz' is not there.*venv.* -- make setup"):
        programs.find("lmplz")


def test_a_stranger_is_looked_for_too_and_gets_no_remedy_of_ours(nowhere):
    found = program(nowhere / "path", "other")
    assert programs.find("other") == found
    with pytest.raises(programs.ProgramMissingError) as error:
        programs.find("another")
    assert "make setup" not in str(error.value)


def python(code):
    return [sys.executable, "-c", code]


def test_a_program_is_fed_and_its_log_comes_back_without_bars(tmp_path):
    bar = f"=== 1/1 Counting ===\n{BANNER.decode()}{'*' * 100}\n"
    said = f"{bar!r} + f'read {{n}}\\n'"
    code = f"import sys; n = len(sys.stdin.buffer.read()); sys.stderr.write({said}); sys.exit(3)"
    outcome = programs.run(python(code), folder=tmp_path, text=[b"abc", b"de"])
    assert outcome == programs.Outcome(3, "=== 1/1 Counting ===\nread 5\n")
    assert outcome.signal == ""


def test_one_that_ends_before_it_has_read_all_is_no_error(tmp_path):
    given = []

    def text():
        for block in range(1000):
            given.append(block)
            yield b"x" * 65536

    outcome = programs.run(python("import sys; sys.exit('enough')"), folder=tmp_path, text=text())
    assert outcome == programs.Outcome(1, "enough\n")
    assert len(given) < 1000


def test_one_that_talks_before_it_reads_does_not_wait_for_ever(tmp_path):
    code = "import sys; sys.stderr.write('y' * 3_000_000); print(len(sys.stdin.read()), file=sys.stderr)"
    outcome = programs.run(python(code), folder=tmp_path, text=[b"x" * 3_000_000])
    assert outcome.returncode == 0
    assert outcome.log.endswith("y3000000\n")


def test_the_name_of_a_signal(tmp_path):
    outcome = programs.run(python("import os; os.kill(os.getpid(), 9)"), folder=tmp_path)
    assert (outcome.returncode, outcome.signal) == (-9, "SIGKILL")


@pytest.mark.parametrize("fault", [KeyboardInterrupt, ValueError])
def test_it_ends_with_its_caller(tmp_path, fault):
    code = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(600)"

    def text():
        yield b"x"
        while not (tmp_path / "pid").is_file() or not (tmp_path / "pid").read_text():
            yield b""
        raise fault

    with pytest.raises(fault):
        programs.run(python(code), folder=tmp_path, text=text())
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.mark.parametrize(
    ("log", "fed", "told"),
    [
        (b"", 0.5, (0.0, "")),
        (b"Reading\n" + BANNER + b"*" * 25, 1, (0.25, "")),
        (b"=== 1/5 Counting ===\n", 0.5, (0.1, "Counting")),
        (b"=== 1/5 Counting ===\n=== 2/5 Sorting ===\n", 1, (0.2, "Sorting")),
        (b"=== 3/4 A ===\n" + BANNER + b"*" * 50, 1, (0.625, "A")),
        (b"=== 3/4 A ===\n" + BANNER + b"*" * 100 + b"\n=== 4/4 B ===\n", 1, (0.75, "B")),
        (b"=== 3/4 A ===\n" + BANNER + b"*" * 100 + b"\n", 1, (0.75, "A")),
    ],
)
def test_how_far_a_program_is(log, fed, told):
    assert programs.fraction(log, fed) == (pytest.approx(told[0]), told[1])


def test_a_bar_shows_the_step(tmp_path, capsys):
    code = "import sys, time; print('=== 2/4 Sorting ===', file=sys.stderr, flush=True); time.sleep(1)"
    programs.run(python(code), folder=tmp_path, progress="lmplz")
    shown = capsys.readouterr().err
    assert "lmplz: Sorting:  25%" in shown
    assert "100%" in shown
    assert not list(Path(tmp_path).iterdir())
