"""The funnel of a construction as a chart."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

from workbench import charts
from workbench.charts.construction import funnel_counts
from workbench.construction.manifest import Manifest, Step


@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(0, 50), st.sampled_from(("novels", "passages"))), min_size=1
    )
)
def test_every_item_is_counted_once(steps):
    manifest = Manifest(
        steps=[
            Step(f"step {place}", kept + dropped, kept, {"reason": dropped}, unit=unit)
            for place, (kept, dropped, unit) in enumerate(steps)
        ],
        versions={},
    )
    counts = funnel_counts(manifest.to_frame())
    by_place = counts.groupby("place")["n"].sum()
    assert by_place.tolist() == [kept + dropped for kept, dropped, _ in steps]
    assert counts[counts["outcome"] == "kept"]["n"].tolist() == [kept for kept, *_ in steps]
    assert counts["share"].between(0, 1).all()


def test_what_is_still_open_is_neither_kept_nor_dropped():
    steps = pd.DataFrame(
        {"step": [1], "condition": ["passage"], "n_in": [10], "n_open": [4], "n_dropped": [5], "n_out": [1]}
    )
    counts = funnel_counts(steps)
    assert dict(zip(counts["outcome"], counts["n"], strict=True)) == {"kept": 1, "dropped": 5, "open": 4}
    assert set(counts["step"]) == {"1. passage"}


def test_a_panel_for_each_unit_and_a_colour_for_each_outcome():
    steps = pd.DataFrame(
        {"step": ["a", "b"], "n_in": [10, 70], "n_out": [8, 70], "unit": ["novels", "items"]}
    )
    spec = charts.funnel(steps).to_dict()
    assert [panel["layer"][0]["encoding"]["x"]["title"] for panel in spec["vconcat"]] == ["novels", "items"]
    values = [row["label"] for rows in spec["datasets"].values() for row in rows if "label" in row]
    assert values == ["8 (80.0%)", "70 (100.0%)"]
    assert spec["vconcat"][0]["layer"][0]["encoding"]["color"]["scale"]["domain"] == ["kept", "dropped"]


@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        (pd.DataFrame({"step": ["a"]}), "the funnel has no column 'n_in', 'n_out'"),
        ("steps", "the funnel is not a DataFrame, but str"),
        (pd.DataFrame({"step": [], "n_in": [], "n_out": []}), "has no step"),
    ],
)
def test_a_frame_that_is_no_funnel_is_an_error(frame, problem):
    refused(problem, charts.funnel, frame)
