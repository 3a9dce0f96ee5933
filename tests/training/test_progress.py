"""What is shown of a training: in a notebook, on a terminal, in a log."""

import io
import re
import sys
from types import SimpleNamespace

import pytest

from workbench.storage.progress import progress_bar, report_progress, say
from workbench.training import history as module
from workbench.training.history import Training, progress_view

ROW = {"step": 1, "tokens": 9000, "seconds": 30.0, "loss": 5.5, "tokens_per_second": 300.0}


class Publisher:
    """What IPython has for a notebook."""

    def __init__(self):
        self.sent = []

    def publish(self, *, data, metadata, transient, update):  # noqa: ARG002 - of IPython
        self.sent.append((transient["display_id"], update, *data.values()))

    def format(self, training):
        return {"text/html": training.to_html()}, {}


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def _bars_are_shown(monkeypatch):
    monkeypatch.delenv("TQDM_DISABLE")


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(module, "monotonic", lambda: clock.now)
    return clock


@pytest.fixture
def notebook(monkeypatch):
    """Pretend that a notebook is running."""
    publisher = Publisher()
    shell = SimpleNamespace(kernel=object(), display_pub=publisher, display_formatter=publisher)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    return publisher


def run(view, clock=None, *, steps=40, seconds=1.0):
    """Call a view as the loop does."""
    training = Training("LSTM", device="cpu", steps=steps, parameters=62_000_000)
    view(training)
    for step in range(1, steps + 1):
        if clock:
            clock.now += seconds
        training.history.append(ROW | {"step": step})
        if step % 10 == 0:
            training.scores.append({"step": step, "tokens": 9000, "seconds": 1.0, "accuracy": step / 1000})
        view(training)
    training.notes.append("a note")
    training.stopped = "finished"
    view(training)


@pytest.mark.parametrize(("disabled", "rank"), [("1", "0"), ("0", "1"), ("0", "0")])
def test_silent_and_only_the_first_of_several_processes(capfd, monkeypatch, notebook, disabled, rank):
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("TQDM_DISABLE", disabled)
    view = progress_view()
    assert (view is not None) == (disabled == "0" and rank == "0")
    if view is not None:
        run(view)
        assert notebook.sent
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("disabled", ["0", "1"])
def test_a_view_counts_and_cancels_bars_that_are_not_shown(capfd, monkeypatch, disabled):
    monkeypatch.setenv("TQDM_DISABLE", disabled)
    seen = []

    def report(done, total):
        seen.append((done, total))
        if done > 5:
            raise InterruptedError

    with report_progress(report):
        bar = progress_bar(9, label="", initial=2)
        bar.update(2)
        with pytest.raises(InterruptedError):
            bar.update(2)
    assert seen == [(2, 9), (4, 9), (6, 9)]
    progress_bar(3, label="", mininterval=0).update(3)
    assert len(seen) == 3
    assert ("3 of 3 items" in capfd.readouterr().err) == (disabled == "0")


@pytest.mark.parametrize("terminal", [True, False])
def test_a_bar_on_a_terminal_and_in_a_log(capsys, monkeypatch, terminal):
    stream = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    run(progress_view())
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "LSTM on cpu: 62,000,000 parameters"
    assert lines[1:5] == [f"step {step}: accuracy {step / 10:.1f} %" for step in (10, 20, 30, 40)]
    assert lines[5] == "a note"
    assert lines[6].startswith("LSTM on cpu, step 40 of 40")
    assert lines[6].endswith("finished")
    shown = stream.getvalue()
    assert "LSTM:" in shown
    assert "0 of 40 steps" in shown
    assert shown.split("\r")[-1].strip() == ""  # and is gone


def test_one_output_in_a_notebook_drawn_once_a_second(notebook, clock, capsys):
    run(progress_view(), clock, seconds=0.3)
    first, *others = notebook.sent
    assert len({name for name, _, _ in notebook.sent}) == 1
    assert (first[1], {update for _, update, _ in others}) == (False, {True})
    assert len(others) == 40 // 4 + 1  # every fourth point, and at the end
    assert "<progress" in first[2]
    last = others[-1][2]
    assert "<p>a note</p>" in last
    assert ">finished<" in last
    assert "<progress" not in last
    assert capsys.readouterr().out == ""


def test_a_bar_in_a_notebook_is_text_that_stays(notebook, capfd):
    with progress_bar(25_000, label="reading", unit="items", mininterval=0) as bar:
        bar.update(3100)
        with progress_bar(label="inside", unit="B", mininterval=0) as inner:
            inner.update(2000)
        bar.update(21_900)
    by_id = {}
    for name, update, text in notebook.sent:
        assert update == (name in by_id)  # one output each
        by_id.setdefault(name, []).append(text)
    reading, inside = by_id.values()
    assert re.fullmatch(r"reading: 0 %\|.*", reading[0])
    assert re.fullmatch(r"reading: 12 %\|█+.*\| 3,100 of 25,000 items \[00:00 of about \d s\]", reading[1])
    assert re.fullmatch(r"reading: 100 %\|█+\| 25,000 of 25,000 items \[00:00\]", reading[-1])
    assert re.fullmatch(r"inside: 2 kB \[00:00\]", inside[-1])
    assert not [text for texts in by_id.values() for text in texts if len(text) > 100 or "\x1b" in text]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("options", [{"shown": False}, {"delay": 3600}])
def test_a_bar_that_is_not_shown_leaves_nothing_in_a_notebook(notebook, options):
    with progress_bar(3, label="reading", **options) as bar:
        bar.update(3)
    assert notebook.sent == []


def test_lines_say_what_a_terminal_cannot_show():
    for encoding, shown in (("ascii", "\\u2212\\xe9"), ("utf-8", "\N{MINUS SIGN}é")):
        stream = io.TextIOWrapper(io.BytesIO(), encoding)
        say("\N{MINUS SIGN}é\x1b[31m\r\ud800\n\tend", file=stream, end="!")
        assert stream.buffer.getvalue().decode(encoding) == f"{shown}\\x1b[31m\\r\\ud800\n\tend!"


@pytest.mark.parametrize(
    ("n", "total", "unit", "seconds", "text"),
    [
        (20.5, 5153, "items", 50, "20 of 5,153 items [00:50 of about 3.5 h, about 4 min per 100 items]"),
        (20, 90, "items", 60, "20 of 90 items [01:00 of about 4 min]"),
        (50, 200, "items", 30, "50 of 200 items [00:30 of about 2 min, about 1 min per 100 items]"),
        (9, 90, "items", 60, "9 of 90 items [01:00]"),
        (90, 90, "items", 60, "90 of 90 items [01:00]"),
        (20, None, "items", 60, "20 items [01:00]"),
        (12_345_678, 170_000_000, "B", 1, "12 of 170 MB [00:01 of about 14 s]"),
        (1500, 9000, "B", 1, "1 of 9 kB [00:01 of about 6 s]"),
    ],
)
def test_a_bar_counts_whole_units_and_estimates_the_whole_time(n, total, unit, seconds, text):
    terminal = Terminal()
    with progress_bar(total, label="model", unit=unit, mininterval=0, file=terminal, ncols=110) as bar:
        assert terminal.getvalue().startswith("\rmodel: 0")  # shown at once
        bar._time = lambda: seconds
        bar.start_t = 0.0
        bar.update(n)
        assert str(bar).endswith(text)
