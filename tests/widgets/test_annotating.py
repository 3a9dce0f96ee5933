import threading

import pandas as pd
import pytest
from braced_items import clozes
from patience import PATIENCE

from workbench.analysis import annotations as module
from workbench.storage.progress import progress_bar
from workbench.widgets.shared.annotating import Annotating, annotations_at_hand

pytestmark = pytest.mark.usefixtures("home")

ITEMS = clozes("It rained . The dog ran . I fed the {dog}", "He saw the {cat}")


def annotating(**calls):
    heard = []
    made = Annotating(
        ITEMS, arrived=calls.get("arrived", heard.append), changed=lambda: heard.append(made.describe())
    )
    return made, heard


def test_annotations_arrive_with_progress_and_are_then_at_hand():
    assert annotations_at_hand(ITEMS) is None
    made, heard = annotating()
    assert made.describe() == {"state": "idle", "done": 0, "total": 2, "problem": ""}
    made.start()
    assert made.wait(PATIENCE)
    states = [h["state"] for h in heard if isinstance(h, dict)]
    assert states[-1] == "done"
    assert set(states[:-1]) == {"running"}
    (table,) = [h for h in heard if isinstance(h, pd.DataFrame)]
    assert table["in_context"].tolist() == [True, False]
    pd.testing.assert_frame_equal(annotations_at_hand(ITEMS), table)


def test_an_error_is_kept_and_one_can_start_again(monkeypatch):
    def broken(*_args, **_options):
        raise OSError("no space left")

    made, heard = annotating()
    with monkeypatch.context() as patched:
        patched.setattr(module, "annotate", broken)
        made.start()
        assert not made.wait(PATIENCE)
    assert heard[-1]["state"] == "failed"
    assert "no space left" in heard[-1]["problem"]
    made.start()
    assert made.wait(PATIENCE)


def test_a_closed_widget_hears_nothing(monkeypatch):
    begun, go, ended = threading.Event(), threading.Event(), []

    def slow(_items):
        begun.set()
        go.wait(PATIENCE)
        try:
            progress_bar(2, label="annotate").update(1)
        finally:
            ended.append(True)

    monkeypatch.setattr(module, "annotate", slow)
    made, heard = annotating()
    made.start()
    begun.wait(PATIENCE)
    made.close()
    go.set()
    assert not made.wait(PATIENCE)
    assert (heard, ended) == ([], [True])
