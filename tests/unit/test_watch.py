"""Who watches a training: in a notebook, on a terminal, in a log."""

import io
import sys
from types import SimpleNamespace

import pytest
from tqdm.notebook import tqdm_notebook
from tqdm.std import tqdm

from workbench.training import progress as watches
from workbench.training.history import Training
from workbench.training.progress import watching

ROW = {"tokens": 9000, "seconds": 30.0, "loss": 5.5, "tokens_per_second": 300.0, "learning_rate": 1e-3}


class Clock:
    """Time that goes on when it is told to."""

    now = 100.0

    def __call__(self):
        return self.now


class Publisher:
    """Keeps what a shell would send to a page."""

    def __init__(self):
        self.sent = []

    def publish(self, *, data, metadata, transient, update):
        assert isinstance(metadata, dict)
        self.sent.append((transient["display_id"], update, data))


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(watches, "monotonic", clock)
    return clock


@pytest.fixture
def publisher(monkeypatch):
    """Pretend that a notebook is running."""
    publisher = Publisher()
    formatter = SimpleNamespace(format=lambda widget: ({"text/plain": repr(widget)}, {}))
    shell = SimpleNamespace(kernel=object(), display_pub=publisher, display_formatter=formatter)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    return publisher


@pytest.fixture
def bar_of_text(monkeypatch):
    monkeypatch.setattr(watches, "_bar_class", lambda: tqdm)


def run(watch, clock=None, *, steps=40, seconds=1.0, name="LSTM"):
    """Drive a watch as a loop does."""
    training = Training(name, device="cpu", steps=steps, fits="it fits")
    watch.say("before")
    watch.begin(training, 0)
    for step in range(1, steps + 1):
        watch.step()
        if clock:
            clock.now += seconds
        training.history.append(ROW | {"step": step})
        if step % 10 == 0:
            training.scores.append({"step": step, "tokens": 9000, "seconds": 1.0, "accuracy": step / 1000})
        watch.told(training)
    watch.say("after")
    training.stopped = "finished"
    watch.end(training)
    return training


def test_without_progress_there_is_nothing(capfd, publisher):
    run(watching(progress=False))
    assert capfd.readouterr() == ("", "")
    assert publisher.sent == []


def test_only_the_first_of_several_processes_shows_something(capfd, monkeypatch, publisher):
    monkeypatch.setenv("RANK", "1")
    run(watching())
    assert capfd.readouterr() == ("", "")
    assert publisher.sent == []
    monkeypatch.setenv("RANK", "0")
    run(watching())
    assert publisher.sent


def test_lines_in_a_log(capsys, clock):
    run(watching(), clock)
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert lines[:3] == ["before", "LSTM on cpu: step 0 of 40", "it fits"]
    steps = [line for line in lines if line.startswith("step ")]
    assert steps[0] == "step 1 of 40, 9k words, loss 5.500, 300 words/s, 30 s, 19.5 min left"
    assert [int(line.split()[1]) for line in steps] == [1, 11, 21, 31]  # one in ten seconds
    scores = [line for line in lines if line.startswith("development")]
    assert scores == [f"development, step {k}: accuracy {k / 10:.1f} %" for k in (10, 20, 30, 40)]
    assert lines[-2] == "after"
    assert lines[-1].startswith("LSTM on cpu, step 40 of 40")
    assert lines[-1].endswith("finished")


def test_a_log_that_knows_ascii_alone_and_a_name_with_line_ends(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    run(watching(), steps=10, name="Λ\n\x1b[2J\rx")
    out = raw.getvalue().decode("ascii")  # flushed, line by line
    assert "\\u039b" in out
    assert "\x1b" not in out
    assert "\r" not in out
    assert all("x" in line for line in out.splitlines() if "u039b" in line)


@pytest.mark.usefixtures("bar_of_text")
def test_a_bar_on_a_terminal(capsys, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    run(watching())
    out = capsys.readouterr().out
    assert "development, step 30: accuracy 3.0 %" in out
    assert "after" in out
    assert not [line for line in out.splitlines() if line.startswith("step ")]  # the bar says it
    shown = terminal.getvalue()
    assert "LSTM:" in shown
    assert "0/40" in shown
    assert shown.split("\r")[-1].strip() == ""  # and is gone


def test_lines_on_a_terminal_without_tqdm(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    run(watching())
    assert "step 1 of 40" in capsys.readouterr().out
    assert sys.stderr.getvalue() == ""


@pytest.mark.usefixtures("bar_of_text")
def test_one_picture_in_a_notebook_drawn_once_a_second(publisher, clock, capsys):
    training = run(watching(), clock, seconds=0.3)
    first, *others = [sent for sent in publisher.sent if sent[0].endswith("-picture")]
    assert len({name for name, _, _ in publisher.sent}) == 1
    assert (first[1], {update for _, update, _ in others}) == (False, {True})
    assert len(others) == 40 // 4 + 2  # every fourth point, as it is told something, and at the end
    assert "no point yet" in first[2]["text/html"]
    last = others[-1][2]
    assert last["text/plain"] == repr(training)
    assert "it fits" in last["text/html"]
    assert "after" in last["text/html"]
    assert first[2]["text/html"].count(">before<") == 1  # said when there was no picture yet
    assert ">before<" in last["text/html"]
    assert "before" not in capsys.readouterr().out
    assert ">finished<" in last["text/html"]


@pytest.mark.usefixtures("bar_of_text")
def test_what_waits_to_be_drawn_is_drawn_at_a_later_step(publisher, clock):
    training = Training("x", steps=9)
    watch = watching()
    watch.begin(training, 0)
    training.history.append(ROW | {"step": 1})
    watch.told(training)
    assert len(publisher.sent) == 1  # too soon
    watch.step()
    assert len(publisher.sent) == 1
    clock.now += 1.1
    watch.step()
    watch.step()
    assert len(publisher.sent) == 2
    assert "loss 5.500" in publisher.sent[1][2]["text/html"]
    watch.end(training)


def test_the_bar_of_a_notebook_is_taken_away_also_when_interrupted(publisher, monkeypatch):
    closed = []

    class Bar(tqdm_notebook):
        def close(self):
            closed.append((self.n, self.total, self.leave))

    monkeypatch.setattr(watches, "_bar_class", lambda: Bar)
    training = Training("x", steps=9, stopped="interrupted")
    watch = watching()
    watch.begin(training, 2)
    watch.step(3)
    watch.end(training)
    assert closed == [(5, 5, False)]
    bars = [(update, data) for name, update, data in publisher.sent if name.endswith("-bar")]
    assert [update for update, _ in bars] == [False, True]
    assert "x:" in bars[0][1]["text/plain"]
    assert bars[1][1] == {"text/plain": ""}


@pytest.mark.usefixtures("bar_of_text")
def test_a_watch_that_fails_is_left_alone(publisher, capsys, monkeypatch):
    def publish(**_):
        calls.append(1)
        raise OSError("the page is gone")

    calls = []
    monkeypatch.setattr(publisher, "publish", publish)
    run(watching(), steps=100)
    assert len(calls) == 3
    assert "progress is not shown any more: OSError('the page is gone')" in capsys.readouterr().err


@pytest.mark.usefixtures("bar_of_text")
def test_an_error_ends_it_too(publisher):
    training = Training("x", steps=9)
    watch = watching()
    watch.begin(training, 0)
    watch.end(training)
    assert ">ended by an error<" in publisher.sent[-1][2]["text/html"]
    assert training.stopped == ""


def test_an_interrupt_is_not_held_back(publisher, monkeypatch):
    def publish(**_):
        raise KeyboardInterrupt

    monkeypatch.setattr(publisher, "publish", publish)
    with pytest.raises(KeyboardInterrupt):
        watching().begin(Training(), 0)
