from math import comb

import numpy as np
import pandas as pd
import pytest
from html_page import Page
from hypothesis import example, given, settings
from hypothesis import strategies as st
from made_predictions import made, run, scores, unknown_answers
from refused import refused
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar

from workbench.evaluation.paired import minimum_detectable_effect
from workbench.evaluation.significance import significance
from workbench.render.numbers import MINUS, percent

QUICK = {"resamples": 100}


def pair(n=400, **options):
    return made(n, seed=1, right=0.4, **options), made(n, seed=2, right=0.3, model="other", **options)


def test_the_numbers_of_a_comparison():
    a, b = pair()
    found = significance(a, b)
    right = [frame["correct"].to_numpy(dtype=bool) for frame in (a, b)]
    assert (found.n, found.n_units, found.resampled_by) == (400, 400, "item")
    assert (found.accuracy_a, found.accuracy_b) == pytest.approx((right[0].mean(), right[1].mean()))
    assert found.difference == pytest.approx(right[0].mean() - right[1].mean())
    assert (found.n_only_a, found.n_only_b) == ((right[0] & ~right[1]).sum(), (right[1] & ~right[0]).sum())
    table = pd.crosstab(right[0], right[1])
    assert found.p_value == pytest.approx(statsmodels_mcnemar(table, exact=True).pvalue)
    assert found.test == "exact McNemar test"
    assert found.log_prob_difference == pytest.approx(a["log_prob"].mean() - b["log_prob"].mean())


def test_the_intervals_are_those_of_scipys_paired_bootstrap():
    a, b = pair()
    found = significance(a, b, level=0.9)
    for column, interval in (("correct", found.interval), ("log_prob", found.log_prob_interval)):
        x, y = (frame[column].to_numpy(dtype=float) for frame in (a, b))
        wanted = stats.bootstrap(
            (x, y), lambda x, y, axis: (x - y).mean(axis=axis), paired=True, method="percentile",
            confidence_level=0.9, n_resamples=2_999, rng=np.random.default_rng(9),
        ).confidence_interval  # fmt: skip
        error = (x - y).std() / np.sqrt(400)
        assert interval == pytest.approx(tuple(wanted), abs=0.1 * error)
        assert interval[1] - interval[0] > 2 * error


@pytest.mark.parametrize(("books", "exact"), [(6, True), (60, False)])
def test_the_test_by_novel_is_scipys_permutation_test(books, exact):
    a, b = pair(books=books)
    found = significance(a, b)
    assert (found.resampled_by, found.n_units) == ("novel", books)
    assert found.test == "paired sign-flip test by novel, exact"
    assert ("random choices of signs" in " ".join(found.notes)) == (not exact)
    for column, p in (("correct", found.p_value), ("log_prob", found.log_prob_p_value)):
        sums = (a[column].astype(float) - b[column].astype(float)).groupby(a["book_id"]).sum()
        wanted = stats.permutation_test(
            (sums, np.zeros(books)), lambda x, y, axis: (x - y).mean(axis=axis),
            permutation_type="samples", n_resamples=20_000, rng=np.random.default_rng(3),
        ).pvalue  # fmt: skip
        error = 0 if exact else 5 * np.sqrt(wanted * (1 - wanted) * (1 / 10_000 + 1 / 20_000)) + 2e-4
        assert p == pytest.approx(wanted, abs=error + 1e-12)


def test_what_random_signs_cannot_tell_from_their_least_p_is_a_bound():
    a, b = made(log_prob=-1.0), made(seed=1, model="b", log_prob=-2.0 - np.arange(200) / 100)
    found = significance(a, b, resamples=2000)
    assert (found.log_prob_p_value, found.log_prob_p_is_bound) == (1 / 2001, True)
    assert "< 0.0005" in Page(found.to_html()).text


def test_a_part_of_the_items_and_all_have_an_exact_p():
    a, b = made(300, books=60, seed=1, right=0.9), made(300, books=60, seed=2, right=0.1, model="other")
    p_values = [significance(a, b, resamples=resamples).p_value for resamples in (10, 2000)]
    assert p_values[0] == p_values[1] < 1e-12
    assert significance(a[:150], b[:150], **QUICK).p_value < 1e-12


@pytest.mark.parametrize("books", [None, 5])
def test_a_model_does_not_differ_from_itself(books):
    frame = made(books=books)
    found = significance(frame, frame.sample(frac=1, random_state=0), **QUICK)
    assert (found.difference, found.interval, found.p_value) == (0, (0, 0), 1)
    assert (found.log_prob_difference, found.log_prob_interval, found.log_prob_p_value) == (0, (0, 0), 1)


def test_items_are_paired_by_their_id():
    a, b = pair(100)
    part = significance(a, made(100, seed=2, right=0.3, model="other", first=20), **QUICK)
    assert part.n == 80
    assert "on the 80 items that all predicted: “made” and “other” each have 20 more" in part.notes[0]
    every = significance(a, b, **QUICK)
    assert not any("did not predict" in note for note in every.notes)
    assert every == significance(a.sample(frac=1, random_state=1), b, **QUICK)


def test_what_makes_a_comparison_doubtful_is_said():
    a = made(oov=0)
    b = made(oov=0.25, seed=1, model="b", unknown="shared", vocabulary_size=70_000, variant="capitalised")
    test = significance(a, b, **QUICK)
    notes = " ".join(test.notes)
    for text in (
        "different variants of the text, which is not the same task: plain (“made”); capitalised (“b”).",
        "vocabularies of different size, so ranks and perplexities are not comparable: ",
        f"“b” cannot predict {percent((b['known'] == False).mean())} of the answers, which are not",  # noqa: E712
        "score unknown answers differently",
        "There is no p: they do not do the same task.",
    ):
        assert text in notes
    assert (np.isnan(test.p_value), test.log_prob_p_value) == (True, None)
    assert "(no p: not the same task, " in str(test)
    other_words = significance(a, b.assign(variant="plain"), **QUICK)
    assert other_words.p_value == significance(a, made(oov=0.25, seed=1, model="b"), **QUICK).p_value
    assert other_words.log_prob_p_value is None
    assert "novels were resampled" in " ".join(significance(*pair(books=5), **QUICK).notes)
    assert not any("different " in note for note in significance(*pair(), **QUICK).notes)


def test_log_probabilities_are_compared_only_where_both_have_them():
    a, b = pair()
    found = significance(a, scores(b), **QUICK)
    assert found.log_prob_difference is found.log_prob_interval is found.log_prob_p_value is None
    b.loc[:99, ["log_prob", "known"]] = np.nan, False
    found = significance(a, b, **QUICK)
    assert found.log_prob_difference == pytest.approx((a["log_prob"] - b["log_prob"])[100:].mean())
    assert any("compared on 300 items" in note for note in found.notes)


def test_impossible_answers_make_the_difference_infinite():
    a, b = pair()
    a.loc[3, "log_prob"] = -np.inf
    found = significance(a, b, **QUICK)
    assert found.log_prob_difference == -np.inf
    assert found.log_prob_interval is found.log_prob_p_value is None
    assert any("probability 0" in note for note in found.notes)
    b.loc[3, "log_prob"] = -np.inf
    both = significance(a, b, **QUICK)
    assert both.log_prob_difference * 400 == pytest.approx((a["log_prob"] - b["log_prob"]).drop(3).sum())
    assert both.log_prob_p_value is not None
    b.loc[4, "log_prob"] = a.loc[5, "log_prob"] = -np.inf
    assert np.isnan(significance(a, b, **QUICK).log_prob_difference)


def test_one_item_or_novel_gives_no_interval():
    for frames in (pair(1), pair(books=1)):
        found = significance(*frames, **QUICK)
        assert (np.isnan(found.interval).all(), found.p_value) == (True, 1)
        assert "interval" not in str(found)


def test_a_comparison_is_shown_as_text_and_html():
    a, b = made(model="<b>&x"), made(seed=1, model="y")
    result = significance(a, b, **QUICK)
    page = result._repr_html_()
    assert ("&lt;b&gt;&amp;x" in page, "<b>" in page) == (True, False)
    assert f"a difference of {100 * result.difference:+.1f} points".replace("-", MINUS) in str(result)
    assert "ln p" in page
    assert "ln p" not in significance(a, scores(b), **QUICK)._repr_html_()
    assert "made, r1" in str(significance(run(made(), "r1"), run(made(seed=1), "r2"), **QUICK))


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (
            made(),
            made(first=1000),
            "no item in common.* the first are 'lambada/dev/000000' and 'lambada/dev/001000'",
        ),
        (made(), unknown_answers(made()), "no item in common whose answer is known"),
        (pd.concat([made(), made(model="b")]), made(), "a must hold the predictions of one model, found 2"),
        (made(), [], "b must hold the predictions of one model, found 0: none"),
        (made(), made(answer="x", prediction="x", right=1, oov=0), "'made, #2' has the answer 'x' to"),
    ],
)
def test_what_cannot_be_compared_is_said(a, b, message):
    refused(message, significance, a, b)


def exact_power(m, probability, alpha):
    """Return how probable it is that McNemar's exact test of m discordant items finds the better side."""
    total, tail = 0.0, 0
    for k in range(m, m // 2, -1):
        tail += comb(m, k)
        if 2 * tail / 2**m <= alpha:
            total += comb(m, k) * probability**k * (1 - probability) ** (m - k)
    return total


@settings(max_examples=40)
@given(st.integers(0, 90), st.integers(0, 300), st.sampled_from([0.9, 0.95, 0.99]), st.floats(0.5, 0.95))
@example(487, 4382, 0.95, 0.8)
@example(5, 0, 0.95, 0.8)
@example(6, 0, 0.95, 0.8)
def test_the_exact_test_has_the_power_asked_for_at_the_minimum_detectable_effect(m, others, level, power):
    [effect] = minimum_detectable_effect(m, m + others, level=level, power=power)
    if exact_power(m, 1.0, 1 - level) == 0:  # not even if all are on one side
        assert np.isnan(effect)
    else:
        assert exact_power(m, (1 + effect * (m + others) / m) / 2, 1 - level) == pytest.approx(
            power, abs=1e-9
        )


def test_the_minimum_detectable_effect_of_common_test_sets():
    effects = 100 * minimum_detectable_effect([487, 156], [4869, 520])
    normal = 280.16 * np.sqrt([0.1 / 4869, 0.3 / 520])  # Connor 1987, without its last term
    np.testing.assert_allclose(normal, [1.27, 6.73], atol=0.01)
    assert ((effects > normal) & (effects < 1.02 * normal)).all()


def test_a_comparison_says_what_it_could_find():
    a, b = pair()
    found, alone = significance(a, b), significance(a[:8], b[:8], **QUICK)
    [wanted] = minimum_detectable_effect(found.n_only_a + found.n_only_b, 400)
    assert found.mde == wanted > 0.05
    below = [note for note in found.notes if "below the minimum detectable effect" in note]
    assert len(below) == (abs(found.difference) < found.mde)
    assert f"minimum detectable effect {100 * found.mde:.1f} points)" in str(found)
    assert np.isnan(alone.mde)
    assert "too few discordant items" in " ".join(alone.notes)
    assert "minimum" not in str(alone)
    assert np.isnan(significance(a, b.assign(variant="capitalised"), **QUICK).mde)
    assert significance(a, b, level=0.99, **QUICK).mde > found.mde
    equal = significance(a, made(400, seed=2, right=0.4, model="other"), **QUICK)
    assert "a true difference of its size is missed in more than 20 %" in " ".join(equal.notes)


@pytest.mark.parametrize("books", [5, 40])
def test_the_minimum_detectable_effect_by_novel_is_of_the_standard_error_of_novels(books):
    a, b = pair(books=books)
    found = significance(a, b)
    steps = a["correct"].astype(int) - b["correct"].astype(int)
    squares = 0.0  # of the sums of novels around what their sizes let expect
    for book in sorted(set(a["book_id"])):
        inside = steps[a["book_id"] == book]
        squares += (inside.sum() - steps.mean() * len(inside)) ** 2
    if books == 5:  # 2 of 32 choices of signs are as extreme as the most extreme one
        assert np.isnan(found.mde)
    else:
        assert found.mde == pytest.approx(2.8016 * np.sqrt(squares) / 400, rel=0.1)
