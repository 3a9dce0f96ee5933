"""What is chosen in a comparison of models: which items it leaves, and in which order."""

import numpy as np
import pandas as pd
import pytest
from by_lot import annotated
from hypothesis import given
from hypothesis import strategies as st
from side_by_side import ask, listening, predicted

import workbench as wb
from workbench.evaluation.comparison import Comparison
from workbench.widgets.compare.compare import compare
from workbench.widgets.compare.view import NOTHING, SORTS, Selector

ITEMS = wb.load("sample", variant="capitalised")
FRAMES = predicted(ITEMS, 4)
TABLE = annotated(ITEMS)
LABELS = [f"model {k}" for k in range(4)]
RIGHT = pd.DataFrame({label: f["correct"].astype(bool) for label, f in zip(LABELS, FRAMES, strict=True)})
LOG_PROB = pd.DataFrame({label: f["log_prob"] for label, f in zip(LABELS, FRAMES, strict=True)})
STATE = Selector(Comparison.of(ITEMS, FRAMES, annotations=TABLE, resamples=50))


@pytest.fixture
def widget():
    return listening(compare(ITEMS, FRAMES, TABLE, resamples=50))


def listed(chosen):
    checked = STATE.checked(chosen)
    return STATE.rows(checked, STATE.mask(checked)).tolist()


# -- which items, in which order: against pandas


@pytest.mark.parametrize("pair", [("model 0", "model 3"), ("model 3", "model 0"), ("model 2", "model 1")])
def test_a_cell_leaves_what_its_row_has_right_and_its_column_wrong(pair):
    expected = np.flatnonzero(RIGHT[pair[0]] & ~RIGHT[pair[1]]).tolist()
    assert 0 < len(expected) < len(ITEMS)
    assert listed({"pair": list(pair)}) == expected


def test_bins_of_a_column_are_alternatives_and_columns_combine():
    classes, speech = (STATE.bins(name) for name in ("target_class", "direct_speech"))
    first, second = list(classes)[:2]
    said = next(iter(speech))
    chosen = {"bins": {"target_class": [second, first], "direct_speech": [said]}, "query": "The"}
    text = ITEMS.frame["text"].str.contains("the", case=False).to_numpy()
    expected = np.flatnonzero((classes[first] | classes[second]) & speech[said] & text).tolist()
    assert 0 < len(expected) < len(ITEMS)
    assert listed(chosen) == expected
    value = TABLE["target_class"]
    labels = {one.key: one.label for one in STATE.comparison.bins("target_class")}
    by_value = {key: set(value[mask].dropna()) for key, mask in classes.items()}
    assert all(len(values) == (0 if labels[key] == "not known" else 1) for key, values in by_value.items())


@given(
    sort=st.sampled_from(SORTS),
    hidden=st.sets(st.sampled_from(LABELS), max_size=3),
    pair=st.one_of(st.none(), st.permutations(LABELS).map(lambda names: names[:2])),
    against=st.permutations([LABELS[0], LABELS[1], LABELS[3]]).map(lambda names: names[:2]),
)
def test_orders_are_those_that_pandas_gives(sort, hidden, pair, against):
    found = listed({"sort": sort, "hidden": list(hidden), "pair": pair, "against": against})
    right = RIGHT[[label for label in LABELS if label not in hidden]]
    n, m = right.sum(axis=1), right.shape[1]
    key = {
        "order": n * 0,
        "disagreement": -n * (m - n),
        "difference": -(LOG_PROB[against[0]] - LOG_PROB[against[1]]),
        "all wrong": n,
        "only one right": n.where(n > 0, m + 1),
        "all right": -n,
    }[sort]
    left = RIGHT[pair[0]] & ~RIGHT[pair[1]] if pair else n >= 0
    assert found == key[left].sort_values(kind="stable", na_position="last").index.tolist()


def test_items_of_which_no_difference_is_known_come_last():
    found = listed({"sort": "difference", "against": ["model 0", "model 2"]})  # the second gives scores
    assert found == list(range(len(ITEMS)))


def test_counts_follow_the_models_shown():
    chosen = STATE.checked({"hidden": ["model 1", "model 3"], "query": "said"})
    mask = STATE.mask(chosen)
    right = RIGHT.loc[mask, ["model 0", "model 2"]].sum(axis=1)
    expected = {"all wrong": (right == 0).sum(), "only one right": (right == 1).sum()}
    assert STATE.counts(chosen, mask) == expected | {"all right": (right == 2).sum()}
    assert STATE.shown(STATE.checked({"hidden": LABELS})) == [0, 1, 2, 3], "with all hidden, all are shown"


def test_what_is_compared_in_order_of_difference():
    assert STATE.against(STATE.checked({})) == (0, 1)
    assert STATE.against(STATE.checked({"pair": ["model 3", "model 1"]})) == (3, 1)
    assert STATE.against(STATE.checked({"pair": ["model 3", "model 1"], "against": LABELS[1:3]})) == (1, 2)


# -- what cannot be chosen


@pytest.mark.parametrize(
    ("chosen", "problem"),
    [
        ({"pairs": None}, "no part 'pairs'"),
        ({"pair": ["model 0", "gpt"]}, "no model 'gpt'"),
        ({"pair": ["model 0", "model 0"]}, "twice"),
        ({"against": ["model 0"]}, "expected two models"),
        ({"sort": "best"}, "no order 'best'"),
        ({"hidden": "model 0"}, "expected a list of models"),
        ({"bins": {"colour": ["red"]}}, "no column 'colour'"),
        ({"bins": {"target_class": ["is:Z"]}}, "no bin 'is:Z'"),
        ({"bins": {"target_class": "is:PN"}}, "expected a list"),
        ({"bins": ["target_class"]}, "expected lists of bins"),
        ({"query": 3}, "expected text"),
        (None, "expected a dict"),
    ],
)
def test_a_wrong_state_is_told_and_changes_nothing(widget, chosen, problem):
    with pytest.raises(wb.DataError, match=problem):
        STATE.checked(chosen)
    widget.chosen = {"pair": LABELS[:2]}
    before, n = widget.state_kwargs, len(widget.selection)
    if isinstance(chosen, dict):
        with pytest.raises(wb.DataError, match=problem):
            widget.chosen = chosen
        assert widget.state_kwargs == before
        assert widget.chosen == {name: before[name] for name in NOTHING}
        answer = ask(widget, type="choose", lane="choose", chosen=chosen)
        assert [(a["type"], a["lane"]) for a in answer] == [("error", "choose")]
        assert problem in answer[0]["message"]
    assert len(widget.selection) == n


def test_a_wrong_column_or_item_is_told_and_changes_nothing(widget):
    before = widget.column, widget.current_id
    with pytest.raises(wb.DataError, match="no column 'colour'"):
        widget.column = "colour"
    with pytest.raises(wb.DataError, match="not among those listed"):
        widget.current_id = "sample/none"
    assert (widget.column, widget.current_id) == before


@pytest.mark.parametrize("thing", [True, "yes", [1]])
def test_annotations_are_a_frame(thing):
    with pytest.raises(wb.DataError, match="expected a frame, None or False"):
        compare(ITEMS, FRAMES, thing)
