import math

import numpy as np
import pandas as pd
import pytest
from hand_annotated import frame, frames
from hypothesis import given, settings
from refused import refused
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_effectsize

from workbench.analysis.contrast import CORRECTIONS, contrast

FLIP = ["difference", "cliff_delta", "cohen_h"]


def row(table, feature, level=None):
    part = table[table["feature"] == feature]
    (found,) = (part if level is None else part[part["level"] == level]).to_dict("records")
    return found


def drawn(n, seed, shift=0.0):
    rng = np.random.default_rng(seed)
    columns = {
        "truth": pd.array(rng.random(n) < 0.4 + shift, dtype="boolean"),
        "word": rng.choice(["x", "y", "z"], size=n, p=[0.5 - shift, 0.3 + shift, 0.2]),
        "number": pd.array(rng.poisson(5 + 10 * shift, n), dtype="Int64"),
        "ratio": rng.normal(shift, 1, n),
    }
    return pd.DataFrame(columns)


A, B = drawn(180, 1, 0.15), drawn(120, 2)
A.loc[:9, "truth"] = pd.NA
B.loc[:4, "number"] = pd.NA


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_shares_are_those_of_the_libraries(level):
    table = contrast(A, B, level=level)
    cases = {("truth", None): (A["truth"].dropna(), B["truth"].dropna())} | {
        ("word", word): (A["word"] == word, B["word"] == word) for word in "xyz"
    }
    for (feature, value), (a, b) in cases.items():
        found = row(table, feature, value)
        counts = (int(a.sum()), len(a), int(b.sum()), len(b))
        assert (found["n_a"], found["n_b"]) == (counts[1], counts[3])
        p, q = counts[0] / counts[1], counts[2] / counts[3]
        low, high = confint_proportions_2indep(*counts, compare="diff", method="newcomb", alpha=1 - level)
        square = [[counts[0], counts[1] - counts[0]], [counts[2], counts[3] - counts[2]]]
        odds, probability = stats.fisher_exact(square)
        assert (found["a"], found["b"]) == pytest.approx((p, q))
        assert found["difference"] == found["cliff_delta"] == pytest.approx(p - q)
        assert (found["low"], found["high"]) == pytest.approx((low, high))
        assert found["cohen_h"] == pytest.approx(proportion_effectsize(p, q))
        assert found["odds_ratio"] == pytest.approx(odds)
        assert found["p"] == pytest.approx(probability)
        assert (found["kind"], found["test"]) == ("share", "Fisher")


def test_the_part_of_speech_is_tested_once_as_the_class_of_the_target():
    sets = [
        side.assign(target_pos=side["word"], target_class=side["word"].map({"x": "CN", "y": "PN", "z": "V"}))
        for side in (A, B)
    ]
    table = contrast(*sets)
    assert table["feature"].value_counts()["target_class"] == 3
    assert "target_pos" not in set(table["feature"])
    assert table.attrs["left_out"] == {"target_pos": "Target class is made from it"}
    assert table["p_holm"].tolist() == pytest.approx(multipletests(table["p"], method="holm")[1].tolist())
    alone = contrast(*(side.drop(columns="target_class") for side in sets))
    assert "target_pos" in set(alone["feature"])


@pytest.mark.parametrize("feature", ["number", "ratio"])
def test_numbers_are_those_of_the_libraries(feature):
    found = row(contrast(A, B), feature)
    a, b = (side[feature].dropna().to_numpy(dtype=float) for side in (A, B))
    assert (found["n_a"], found["n_b"]) == (len(a), len(b))
    assert (found["a"], found["b"]) == pytest.approx((a.mean(), b.mean()))
    assert (found["median_a"], found["median_b"]) == pytest.approx((np.median(a), np.median(b)))
    welch = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert (found["low"], found["high"]) == pytest.approx((welch.low, welch.high))
    assert found["p"] == pytest.approx(stats.mannwhitneyu(a, b, method="asymptotic").pvalue)
    slow = sum((x > y) - (x < y) for x in a.tolist() for y in b.tolist()) / (len(a) * len(b))
    assert found["cliff_delta"] == pytest.approx(slow)
    assert math.isnan(found["cohen_h"])


def test_the_interval_is_newcombes():
    """Newcombe 1998, method 10: the bounds of the two Wilson intervals, squared and added."""
    a = pd.DataFrame({"t": [True] * 56 + [False] * 14})
    b = pd.DataFrame({"t": [True] * 48 + [False] * 32})
    found = row(contrast(a, b), "t")
    interval = (found["difference"], found["low"], found["high"])
    assert interval == pytest.approx((0.2, 0.0524, 0.3339), abs=5e-5)


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_p_is_corrected_for_the_number_of_tests(correction):
    table = contrast(A, B, correction=correction)
    corrected = multipletests(table["p"], method=correction)[1]
    assert table[f"p_{correction}"].tolist() == pytest.approx(corrected.tolist())
    assert len(table) == 6
    size = table["cliff_delta"].abs().tolist()
    assert size == sorted(size, reverse=True)


def test_columns_bear_the_names():
    table = contrast(frame(), frame(), names=("LAMBADA", "control"))
    assert list(table.columns) == [
        "feature", "level", "kind", "LAMBADA", "control", "n_LAMBADA", "n_control", "median_LAMBADA",
        "median_control", "difference", "low", "high", "cliff_delta", "cohen_h", "odds_ratio", "test", "p",
        "p_holm",
    ]  # fmt: skip
    assert row(table, "target_class", "PN")["LAMBADA"] == pytest.approx(4 / 9)
    assert row(table, "lemma_in_context")["n_control"] == 9
    assert row(table, "direct_speech")["n_control"] == 10
    assert row(table, "mention_distance")["n_LAMBADA"] == 5


def test_what_is_no_feature_is_left_out_and_named():
    a = pd.DataFrame({"item_id": ["1"], "spans": [[(0, 1)]], "only": [1], "empty": [None], "mentions": [[]]})
    many = pd.DataFrame({"lemma": [f"w{i}" for i in range(21)], "spans": [[]] * 21, "empty": [None] * 21})
    table = contrast(a.assign(lemma="w0"), many)
    assert len(table) == 0
    assert table.attrs["left_out"] == {
        "spans": "it holds list", "only": "only a has it", "empty": "it is empty",
        "lemma": "it has 21 different values",
    }  # fmt: skip


def test_a_set_without_values_has_no_difference():
    empty = frame().assign(mention_distance=pd.array([None] * 10, dtype="Int64"))
    found = row(contrast(frame(), empty), "mention_distance")
    assert (found["n_a"], found["n_b"]) == (5, 0)
    assert found["a"] == pytest.approx(56 / 5)
    assert all(math.isnan(found[name]) for name in ("b", "difference", "low", "cliff_delta", "p", "p_holm"))
    found = row(contrast(frame().iloc[:0], frame()), "direct_speech")
    assert (found["n_a"], found["b"]) == (0, pytest.approx(0.6))
    assert math.isnan(found["p"])


def test_constant_numbers_differ_in_nothing():
    a, b = pd.DataFrame({"n": [4, 4, 4]}), pd.DataFrame({"n": [4, 4]})
    found = row(contrast(a, b), "n")
    assert [found[name] for name in ("difference", "low", "high", "cliff_delta", "p")] == [0, 0, 0, 0, 1]
    assert row(contrast(a, b + 1), "n")["cliff_delta"] == -1


@settings(max_examples=6, deadline=None)
@given(frames(least=1), frames(least=1))
def test_swapping_the_sets_flips_the_signs(a, b):
    there, back = contrast(a, b), contrast(b, a)
    key = ["feature", "level"]
    both = there.merge(back.rename(columns={"a": "b", "b": "a"}), on=key, suffixes=("", "_back"))
    assert len(both) == len(there) == len(back)
    for name in FLIP:
        np.testing.assert_allclose(both[name], -both[f"{name}_back"].astype(float), atol=1e-12)
    np.testing.assert_allclose(both["low"], -both["high_back"], atol=1e-9)
    np.testing.assert_allclose(both["p"], both["p_back"], atol=1e-12)
    np.testing.assert_allclose(both["p_holm"], both["p_holm_back"], atol=1e-12)
    finite = np.isfinite(both["odds_ratio"]) & (both["odds_ratio"] > 0)
    np.testing.assert_allclose(both["odds_ratio"][finite], 1 / both["odds_ratio_back"][finite])


REFUSED = [
    {"names": ("a", "a")}, {"names": ("a", "p")}, {"names": ("a", "")},
    {"level": 95}, {"correction": "none"},
]  # fmt: skip


@pytest.mark.parametrize("options", REFUSED)
def test_options_are_checked(options):
    refused(contrast, A, B, **options)
    refused(contrast, {}, B)
