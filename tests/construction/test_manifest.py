"""The record of a construction: what it holds, that it is read as it was written, and that damage is seen."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

from workbench.construction.manifest import MANIFEST_FILE, FileDigest, Manifest, Step

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
COUNTS = st.dictionaries(NAMES, st.integers(0, 2**50), max_size=3)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def steps(draw):
    dropped, n_out = draw(COUNTS), draw(st.integers(0, 2**50))
    return Step(
        draw(NAMES), n_out + sum(dropped.values()), n_out, dropped, unit=draw(NAMES), counts=draw(COUNTS)
    )


DIGESTS = st.builds(FileDigest, NAMES, st.integers(0), NAMES)
MANIFESTS = st.builds(
    Manifest,
    st.lists(DIGESTS, max_size=3),
    st.dictionaries(NAMES, st.dictionaries(NAMES, VALUES, max_size=3), max_size=3),
    st.lists(steps(), max_size=3),
    st.lists(DIGESTS, max_size=2),
)


@given(MANIFESTS)
def test_it_is_read_as_it_was_written(tmp_path_factory, manifest):
    folder = tmp_path_factory.mktemp("made")
    manifest.save(folder)
    again = Manifest.load(folder)
    assert again == manifest
    assert again.digest == manifest.digest
    assert again.created == manifest.created
    assert [path.name for path in folder.iterdir()] == [MANIFEST_FILE]


def manifest_of_two():
    return Manifest(
        inputs=[FileDigest("novels.tar", 10, "ab")],
        parameters={"novels": {"seed": 1, "shares": (0.5, 0.25, 0.25)}},
        steps=[
            Step("language", 10, 7, {"not English": 2, "too short": 1}, unit="novels", counts={"words": 700}),
            Step("target", np.int64(0), np.int32(0), unit="passages"),
        ],
    )


def test_time_makes_no_difference():
    manifest = manifest_of_two()
    later = replace(manifest, created="2030-01-01T00:00:00+00:00")
    assert later == manifest
    assert replace(manifest, versions={"python": "4.0"}) != manifest


def test_the_funnel():
    frame = manifest_of_two().to_frame()
    assert frame["step"].tolist() == ["language", "target"]
    assert frame["n_dropped"].tolist() == [3, 0]
    assert frame["share_dropped"].tolist()[0] == pytest.approx(0.3)
    assert frame["share_dropped"].isna().tolist() == [False, True]
    assert frame["reasons"].tolist() == ["not English: 2; too short: 1", ""]
    assert Manifest().to_frame().columns.tolist() == frame.columns.tolist()
    assert manifest_of_two()._repr_html_() == frame.to_html()
    assert "not English: 2; too short: 1" in repr(manifest_of_two())


@pytest.mark.parametrize(
    ("n_in", "n_out", "dropped"), [(3, 2, {}), (3, 2, {"x": 2}), (2, 3, {"x": -1}), (-1, -1, {})]
)
def test_the_numbers_of_a_step_add_up(n_in, n_out, dropped):
    with pytest.raises(ValueError, match="n_in = n_out"):
        Step("language", n_in, n_out, dropped)


def test_a_further_stage_adds_to_what_is_there():
    first = manifest_of_two()
    made = first.extended(
        "passages",
        parameters={"minimum": 50},
        steps=[Step("filter", 5, 1, {"4-gram": 4}, unit="passages")],
        inputs=[FileDigest("novels.tar", 10, "ab"), FileDigest("model", 3, "cd")],
        libraries=["numpy"],
    )
    assert [file.name for file in made.inputs] == ["novels.tar", "model"]
    assert list(made.parameters) == ["novels", "passages"]
    assert made.to_frame()["n_in"].tolist() == [10, 0, 5]
    assert made.versions["numpy"] == np.__version__
    with pytest.raises(ValueError, match="already"):
        made.extended("novels", parameters={}, steps=[])


def test_a_damaged_or_foreign_file_is_one_error(tmp_path):
    refused(Manifest.load, tmp_path)
    manifest_of_two().save(tmp_path)
    path = tmp_path / MANIFEST_FILE
    content = json.loads(path.read_text())
    changes = [
        {"steps": 3},
        {"steps": [{"name": "x"}]},
        {"inputs": [{"name": "novels.tar"}]},
    ]
    for change in changes:
        path.write_text(json.dumps(content | change))
        refused(Manifest.load, tmp_path)
    path.write_text(json.dumps(content))
    assert Manifest.load(tmp_path) == manifest_of_two()
