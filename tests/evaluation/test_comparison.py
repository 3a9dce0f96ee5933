from itertools import product

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from braced_items import cloze
from hypothesis import example, given, settings
from hypothesis import strategies as st
from made_predictions import items_of, made, run, scores, unknown_answers
from refused import refused
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

import workbench as wb
from workbench.evaluation.align import align
from workbench.evaluation.comparison import OUTCOMES
from workbench.evaluation.leaderboard import leaderboard
from workbench.evaluation.metrics import evaluate
from workbench.evaluation.replicates import replicates
from workbench.evaluation.significance import significance
from workbench.evaluation.slices import MOST, bins_of, occurs
from workbench.items.items import Items
from workbench.models import RandomWord
from workbench.predictions import store as results
from workbench.storage.errors import DataError


def several(m=3, n=40, **options):
    options = {"oov": 0, **options}
    return [made(n, seed=k, right=0.2 + 0.2 * k, model=f"model {k}", **options) for k in range(m)]


def compared(frames, resamples=50, **options):
    return align(items_of(frames[0]), frames, resamples=resamples, **options)


def test_models_are_lined_up_by_item_whatever_the_order():
    frames = several()
    items = items_of(frames[0])[::-1]
    result = align(items, [f.sample(frac=1, random_state=k) for k, f in enumerate(frames)])
    assert (result.m, result.n, result.warnings) == (3, 40, [])
    assert result.items.frame["item_id"].tolist() == items.frame["item_id"].tolist()
    for k, frame in enumerate(frames):
        one = frame.set_index("item_id").loc[items.frame["item_id"]]
        for name in ("correct", "log_prob", "rank"):
            assert getattr(result, name)[k].tolist() == one[name].tolist()
        assert [result.top(row)[k]["prediction"] for row in range(40)] == one["prediction"].tolist()
    assert result.answers == one["answer"].tolist()


@pytest.mark.parametrize("books", [None, 6])
def test_the_table_is_that_of_evaluate(books):
    frames = several(4, books=books, n=120)
    frames[1] = scores(frames[1])
    frames[3].loc[::3, ["log_prob", "known"]] = np.nan, False
    table, wanted = compared(frames).table(), evaluate(frames, resamples=50)
    other = align(items_of(frames[0])[::-1], frames, resamples=50)  # the order draws nothing else
    pd.testing.assert_frame_equal(other.table(), table)
    pd.testing.assert_frame_equal(other.pairs(), compared(frames).pairs())
    assert {"accuracy_low", "perplexity_high", "median_rank_low", "n_perplexity"} <= set(table.columns)
    wanted = wanted[table.columns.intersection(wanted.columns)]
    pd.testing.assert_frame_equal(table[wanted.columns].astype(wanted.dtypes), wanted, rtol=1e-9)


@pytest.mark.usefixtures("no_data")
def test_a_stored_run_gives_what_its_frame_gives():
    frames = several()
    frames[0] = frames[0].assign(
        top_words=pd.Series([[f"w{i}", "other"] for i in range(40)]),
        top_log_probs=pd.Series([[-1.0, -2.0]] * 40),
        attention=pd.Series([[0.5, 0.25, i / 100] for i in range(40)]),
    )
    items = items_of(frames[0])
    stored = [results.keep(items, frame, name=f"run-{k}") for k, frame in enumerate(frames)]
    one, other = align(items, stored, resamples=50), compared(frames)
    assert align(items, "run-1").table()["run"].tolist() == ["run-1"]
    pd.testing.assert_frame_equal(one.pairs(), other.pairs())
    pd.testing.assert_frame_equal(one.table().drop(columns="run"), other.table().drop(columns="run"))
    assert one.top(7) == other.top(7)
    first, second = one.top(7)[:2]
    assert (first["words"], first["log_probs"]) == (["w7", "other"], [-1.0, -2.0])
    assert (first["attention"], second["attention"], second["words"]) == ([0.5, 0.25, 0.07], None, [])
    assert (first["answer_log_prob"], first["rank"]) == tuple(frames[0].loc[7, ["log_prob", "rank"]])


TWELVE = made(12)
ITEMS = items_of(TWELVE)


@settings(max_examples=12, deadline=None)
@given(st.lists(st.sets(st.integers(0, 11)), min_size=1, max_size=4), st.sets(st.integers(0, 11)))
def test_items_are_those_that_a_model_predicted_and_whose_answer_is_known(predicted, asked):
    items = ITEMS.where(np.isin(np.arange(12), list(asked)))
    predicted = [rows for rows in predicted if rows]
    frames = [TWELVE.iloc[sorted(rows)].assign(model=f"m{k}") for k, rows in enumerate(predicted)]
    if not predicted or not all(asked & rows for rows in predicted):
        with pytest.raises(DataError):
            align(items, frames)
        return
    left = sorted(set.union(*predicted) & asked)
    result = align(items, frames, resamples=10)
    assert result.items.frame["item_id"].tolist() == [f"lambada/dev/{i:06d}" for i in left]
    for k, rows in enumerate(predicted):
        assert result.mask[k].tolist() == [i in rows for i in left]
    for a, b in product(range(result.m), repeat=2):
        cells = np.array([result.cell(a, b, name) for name in OUTCOMES[:4]])
        assert (cells.sum(axis=0) == (result.mask[a] & result.mask[b])).all()
        right = zip(*result.correct[[a, b]].tolist(), *result.mask[[a, b]].tolist(), strict=True)
        assert result.cell(a, b).tolist() == [bool(x and not y and m and n) for x, y, m, n in right]


@pytest.mark.parametrize("books", [None, 9])
def test_a_run_on_a_part_is_measured_on_its_part_and_pairs_are_of_common_items(books):
    frames = several(4, books=books, n=120)
    parts = [frames[0], frames[1].iloc[:70], frames[2].iloc[50:], frames[3].iloc[100:]]
    items = items_of(frames[0])
    result = align(items, parts, resamples=50, annotations=annotated(frames[0]))
    table, wanted = result.table(), evaluate(parts, resamples=50)
    assert table["n"].tolist() == [120, 70, 70, 20]
    wanted = wanted[table.columns.intersection(wanted.columns)]
    pd.testing.assert_frame_equal(table[wanted.columns].astype(wanted.dtypes), wanted, rtol=1e-9)
    pairs = result.pairs().set_index(["a", "b"])
    names = ["n", "n_only_a", "n_only_b", "difference", "p", "mde"]
    for (a, b), row in pairs.iterrows():
        if (a, b) == (1, 3):  # no common item
            assert (row["n"], row["test"]) == (0, "")
            assert row[["difference", "p", "mde", "log_prob_difference"]].isna().all()
            continue
        test = significance(parts[a], parts[b], resamples=50)
        expected = [test.n, test.n_only_a, test.n_only_b, test.difference, test.p_value, test.mde]
        np.testing.assert_allclose(row[names].astype(float), np.array(expected, dtype=float), rtol=1e-9)
        assert (row["difference_low"], row["difference_high"]) == pytest.approx(test.interval)
        assert row["log_prob_difference"] == pytest.approx(test.log_prob_difference)
        assert result.pair(a, b)["p"] == pytest.approx(test.p_value)
    slices = result.slices("target_class")
    assert slices.groupby("label")["n"].sum().to_dict() == dict(zip(result.labels, table["n"], strict=True))
    assert result.frame["model 1: correct"].isna().sum() == 50
    assert result.top(119)[1]["prediction"] is None
    assert 0 <= result.disagreement.min() <= result.disagreement.max() <= 1


def test_what_was_left_out_is_told():
    frames = several()
    items = items_of(frames[0])
    few = [frames[0], frames[1].iloc[:30], frames[2]]
    cased = items_of(frames[0], variant="capitalised")
    for part, runs, message in (
        (items, few, "40 (“items given”, “model 0”, “model 2”); 30 (“model 1”); 30 are common to all."),
        (items[:20], few[:1], "20 (“items given”); 40 (“model 0”); 20 are common"),
        (items, few[1], "40 (“items given”); 30 (“model 1”); 30 are common"),
        (cased, few[0], "Variant: plain (“model 0”); capitalised (“items given”)."),
    ):
        (warning,) = align(part, runs).warnings
        assert message in warning


@pytest.mark.parametrize(
    "frames",
    [
        [made(20), made(20, first=60)],
        [made(40), unknown_answers(made(40, model="b"))],
        made(4, start="own/dev"),
        made(4, start="own/dev")[["item_id", "model", "prediction"]],
        [],
        [made(40), made(40, model="b", answer="cat", right=0)],
        pd.concat([made(40), made(40)]),
    ],
)
def test_nothing_in_common_is_an_error(frames):
    refused(align, items_of(made(40)), frames)
    refused(compared, [made()], level=2)
    refused(compared([made()]).bins, "nothing")


def test_case_does_not_tell_answers_apart():
    frames = several(2)
    upper = frames[1].assign(**{name: frames[1][name].str.title() for name in ("answer", "prediction")})
    assert compared([frames[0], upper]).n == 40


def test_labels_are_unique():
    frame = made(10)
    result = compared([frame, run(frame, "b"), run(frame, "b"), frame.assign(model="other")])
    assert result.labels == ["made #1", "made #2", "made #3", "other"]
    assert result.table()["run"].tolist() == ["", "b", "b", ""]


def test_models_of_one_name_are_told_apart_by_columns():
    frame, infos = made(10), [{"seed": 1}, {"seed": 2}, {"seed": 1, "config": {"width": 8}}]
    runs = [run(frame, f"hash {k}", **info) for k, info in enumerate(infos)]
    apart = compared([frame.assign(model="other"), *runs]).distinctions
    assert apart["seed"].fillna(0).tolist() == [0, 1, 2, 1]
    assert apart["width"].fillna(0).tolist() == [0, 0, 0, 8]
    assert list(apart) == ["seed", "width"]
    table = compared([frame, frame.assign(unit="last-token", run="b"), frame.assign(model="other")]).table()
    assert table["label"].tolist() == ["made #1", "made #2", "other"]
    assert table["unit"].tolist() == ["word", "last-token", "word"]
    assert not len(compared([frame, frame.assign(model="other")]).distinctions.columns)


OUTCOME = ["correct", "prediction", "p_correct", "rank", "n_tied"]
LOG_PROB = several(2)[1]["log_prob"]


@pytest.mark.parametrize(
    ("changed", "said", "who"),
    [
        ({"variant": "openai"}, "not the same task, so there is no p. Variant", "openai (“model 1”)"),
        ({"variant": "plain (query only)"}, "not evaluated alike. Variant", "plain (query only) (“model 1 ("),
        ({"unit": "last-token"}, "not the same task, so there is no p. Unit", "last-token (“model 1”)"),
        ({"filter": "stop-words"}, "not evaluated alike. Filter", "stop-words (“model 1”)"),
        ({"vocabulary_size": 60_000}, "not comparable. Vocabulary", "60,000 (“model 1”)"),
        ({"unknown": "shared"}, "not comparable. Unknown answers", "unk> (“model 0”); a share of"),
        ({"prompt": '{"shots": 2}'}, "alike. Prompt", 'stated (“model 0”); {"shots": 2} (“model 1”)'),
        ({"log_prob_uncorrected": LOG_PROB}, "leave out the end of the word", "“model 1”"),
        ({"rank_is_bound": True}, "only lower bounds", "40 (“model 1”)"),
        ({"known": False, "log_prob": np.nan}, "count as wrong", "100.0 % (“model 1”)"),
    ],
)  # fmt: skip
def test_what_must_not_be_compared_is_told_with_names(changed, said, who):
    a, b = several(2)
    [warning] = compared([a, b.assign(**changed)]).warnings
    assert said in warning
    assert who in warning


def test_a_note_names_four_models():
    frames = [made(20, oov=0, model=f"m{k}", filter="stop-words" if k else "none") for k in range(7)]
    [warning] = compared(frames).warnings
    assert warning.endswith("Filter: none (“m0”); stop-words (“m1”, “m2”, “m3”, “m4”, 2 more).")


@pytest.mark.parametrize(("n", "named"), [(4, False), (5, True)])
def test_answers_that_cannot_be_predicted_are_named_where_they_are_more_than_a_tenth(n, named):
    a, b = (frame.assign(known=True) for frame in several(2))
    b["known"] = np.arange(40) >= n
    b.loc[~b["known"], ["correct", "p_correct", "prediction"]] = False, 0.0, "other"
    assert bool(compared([a, b]).warnings) == named
    if named:
        text = "count as wrong: 12.5 % (“model 1”)."
        assert compared([a, b]).warnings[0].endswith(text)
        for table in (evaluate([a, b], resamples=99), leaderboard([a, b], resamples=99)):
            assert text in table.attrs["warnings"][0]
            assert text in table._repr_html_()
        assert not evaluate([a, b], by="known", resamples=99).attrs["warnings"]


def test_log_probabilities_of_the_whole_word_are_compared_silently():
    a, b = several(2)
    assert compared([a, b.assign(log_prob_uncorrected=b["log_prob"] / 2)]).warnings == []


def annotated(frame, seed=0):
    rng = np.random.default_rng(seed)
    n = len(frame)
    columns = {
        "target_class": rng.choice(["PN", "CN", "V"], n),
        "in_context": pd.array(rng.random(n) < 0.7, dtype="boolean"),
        "mention_distance": pd.array(rng.integers(1, 120, n), dtype="Int64"),
        "rare": [f"kind {k}" for k in rng.integers(0, 40, n)],
        "share": rng.random(n),
        "constant": "same",
        "spans": [[(0, 1)]] * n,
    }
    table = pd.DataFrame({"item_id": frame["item_id"], **columns})
    table.loc[:9, ["target_class", "in_context", "mention_distance"]] = None
    return table.sample(frac=1, random_state=seed)


def test_slices_are_those_of_pandas_and_statsmodels():
    frames = several(3, n=200)
    notes = annotated(frames[0])
    found = compared(frames, annotations=notes)
    assert {"target_class", "in_context", "mention_distance", "rare", "share"} <= set(found.columns)
    assert not {"constant", "spans", "item_id", "dataset", "answer_in_passage"} & set(found.columns)
    mask = found.cell(2, 0) | found.cell(0, 2)
    for chosen, rows in ((None, slice(None)), (mask, mask)):
        table = found.slices("target_class", chosen).set_index(["key", "label"])
        for k, frame in enumerate(frames):
            beside = frame.merge(notes, on="item_id")[rows]
            for key, part in beside.groupby("is:" + beside["target_class"].astype("str"), dropna=False):
                row = table.loc["null" if pd.isna(key) else key, f"model {k}"]
                assert row["n"] == len(part)
                assert row["accuracy"] == pytest.approx(part["correct"].mean())
                bounds = proportion_confint(part["correct"].sum(), len(part), method="wilson")
                np.testing.assert_allclose([row["low"], row["high"]], bounds, atol=1e-12)
    assert found.slices("target_class")["bin"].drop_duplicates().tolist() == [
        "proper noun", "common noun", "verb", "not known",
    ]  # fmt: skip


def test_every_item_is_in_one_bin():
    frames = several(2, n=200)
    result = compared(frames, annotations=annotated(frames[0]))
    for column in result.columns:
        bins = result.bins(column)
        assert np.sum([one.mask for one in bins], axis=0).tolist() == [1] * 200, column
        assert len({one.key for one in bins}) == len({one.label for one in bins}) == len(bins)
    *rare, other = result.bins("rare")
    assert (len(rare), other.key, other.label) == (MOST, "other", "other")
    sizes = [int(one.mask.sum()) for one in rare]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("kind", ["Int64", "boolean", "str", "float64", "object"])
def test_a_column_of_which_nothing_is_known_is_one_bin_and_no_slice(kind):
    unknown = pd.Series([None] * 3, dtype=kind)
    assert [(one.key, one.mask.tolist()) for one in bins_of("x", unknown)] == [("null", [True] * 3)]
    about = made(3)[["item_id"]].assign(x=unknown)
    assert "x" not in compared(several(2, n=3), annotations=about).columns


@example([0, 1, -1, 2, -2, 3, -3, 4, 5e-324])
@given(st.lists(st.none() | st.integers(-(10**6), 10**6) | st.floats(), min_size=1, max_size=60))
def test_ranges_hold_what_they_say(values):
    column = np.array([np.nan if v is None else float(v) for v in values])
    bins = bins_of("x", pd.Series(column))
    assert len({one.key for one in bins}) == len({one.label for one in bins}) == len(bins)
    assert np.sum([one.mask for one in bins], axis=0).tolist() == [1] * len(values)
    for one in bins:
        held = column[one.mask]
        if one.key == "null":
            assert np.isnan(held).all()
        elif one.key.startswith("from:"):
            low, high = one.key[5:].split(":to:")
            low, high = float(low or -np.inf), float(high or np.inf)
            assert (held >= low - 1e-9 * abs(low)).all() if low > -np.inf else high < np.inf
            assert (held < high + 1e-9 * abs(high)).all() if high < np.inf else low > -np.inf


def test_a_column_without_annotations_tells_whether_the_answer_is_in_the_passage():
    texts = ["A dog ran . I saw the {Dog} .", "The dogs ran . I saw the {dog} .", "The hot-dog . The {dog} ."]
    rows = [cloze(text, item_id=f"lambada/dev/{n:06d}") for n, text in enumerate(texts)]
    frame = made(3, answer=["Dog", "dog", "dog"], right=0)
    bins = align(Items.from_records(rows), frame).bins("answer_in_passage")
    assert [one.mask.tolist() for one in bins] == [[True, False, True], [False, True, False]]
    assert not occurs("", "text")


def test_novels_are_known_from_the_items_or_the_predictions():
    frames = several(2)
    assert set(compared(frames).table()["resampled_by"]) == {"item"}
    assert set(compared([made(40, books=4, model="b"), frames[0]]).table()["n_novels"]) == {4}
    items = items_of(frames[0], book_id=[f"b{k % 8}" for k in range(40)])
    assert set(align(items, frames, resamples=50).table()["n_novels"]) == {8}


@pytest.mark.parametrize("kind", ["items", "novels", "replicates"])
def test_a_pair_has_one_interval_and_p_in_every_view(kind):
    frames = several(4, n=90, books=6 if kind == "novels" else None)
    frames[1]["variant"] = "openai"  # another task
    frames[2].loc[[3], ["answer", "correct", "p_correct"]] = None  # another set of items
    if kind == "replicates":
        frames[0] = replicates([frames[0], frames[0].assign(**made(90, seed=9, oov=0)[OUTCOME], run="b")])
    options = {"resamples": 200, "seed": 1, "level": 0.9}
    board = leaderboard(frames, by="dataset", published=False, **options).set_index("model")
    for k in range(3):
        wanted = significance(frames[k], frames[3], **options)
        log_prob = (wanted.log_prob_difference, *(wanted.log_prob_interval or (np.nan, np.nan)))
        result = align(items_of(frames[3]), [frames[k], frames[3]], **options)
        row = result.pairs().iloc[0]
        names = ["log_prob_difference", "log_prob_difference_low", "log_prob_difference_high"]
        if k != 1:
            assert tuple(row[names]) == pytest.approx(log_prob, abs=1e-12)
        for view in (
            row,
            result.pair(0, 1),
            result.pair(0, 1, np.ones(result.n, bool)),
            board.loc[f"model {k}"],
        ):
            names = ("difference", "difference_low", "difference_high", "p", "mde")
            shown = [np.nan if pd.isna(view[name]) else view[name] for name in names]
            expected = [wanted.difference, *wanted.interval, wanted.p_value, wanted.mde]
            np.testing.assert_allclose(np.array(shown, dtype=float), expected, atol=1e-12)
        assert row["test"] == wanted.test
        assert np.isnan(wanted.p_value) == (k == 1)


@pytest.mark.parametrize("baseline", [0, 1, 3])
def test_differences_from_a_baseline_are_those_of_pairs_with_it(baseline):
    result = compared(several(4, n=90))
    table, pairs = result.differences(baseline), result.pairs()
    assert table["a"].tolist() == [k for k in range(4) if k != baseline]
    assert set(table["b"]) == {baseline}
    right, base = result.correct, result.correct[baseline]
    for row in table.to_dict("records"):
        k = row["a"]
        assert row["label_a"] == result.labels[k]
        assert (row["n_only_a"], row["n_only_b"]) == ((right[k] & ~base).sum(), (base & ~right[k]).sum())
        assert row["difference"] == pytest.approx(right[k].mean() - base.mean())
        assert row["difference_low"] < row["difference"] < row["difference_high"]
        log_prob = (result.log_prob[k] - result.log_prob[baseline]).mean()
        assert row["log_prob_difference"] == pytest.approx(log_prob)
        assert row["log_prob_difference_low"] < log_prob < row["log_prob_difference_high"]
        [pair] = pairs[(pairs["a"] == min(k, baseline)) & (pairs["b"] == max(k, baseline))].to_dict("records")
        assert [row[name] for name in ("p", "mde", "test")] == [pair[name] for name in ("p", "mde", "test")]
        if k < baseline:
            assert {name: row[name] for name in pair if name not in {"p_holm", "p_fdr_bh"}} == {
                name: value for name, value in pair.items() if name not in {"p_holm", "p_fdr_bh"}
            }
    for column, method in (("p_holm", "holm"), ("p_fdr_bh", "fdr_bh")):
        for each in (table, pairs):
            corrected = multipletests(each["p"], method=method)[1]
            np.testing.assert_allclose(each[column], corrected, rtol=1e-12)
    assert len(pairs) == 6
    assert compared(several(1)).differences(0).empty


def test_log_probabilities_are_compared_where_both_are_known():
    frames = several(3, n=120)
    for k in range(2):
        frames[k].loc[k::3, ["log_prob", "known"]] = np.nan, False
    frames[2]["log_prob"], frames[2]["known"] = np.nan, False
    found = compared(frames)
    pairs, apart = found.pairs(), found.log_prob[0] - found.log_prob[1]
    rng = np.random.default_rng(0)
    slow = [np.nanmean(apart[rng.integers(0, 120, size=120, dtype=np.int64)]) for _ in range(50)]
    assert pairs["log_prob_difference"][0] == pytest.approx(np.nanmean(apart))
    assert pairs["log_prob_difference_low"][0] == pytest.approx(np.quantile(slow, 0.025, method="lower"))
    assert pairs.iloc[1:][["log_prob_difference", "log_prob_difference_low"]].isna().all(axis=None)


def test_an_answer_of_probability_0_leaves_no_interval():
    frames = several(3, n=60)
    frames[0].loc[3, "log_prob"] = frames[1].loc[3, "log_prob"] = frames[1].loc[4, "log_prob"] = -np.inf
    pairs = compared(frames).pairs()
    assert pairs["log_prob_difference"].tolist()[:2] == [np.inf, -np.inf]
    assert pairs["log_prob_difference_low"].isna().all()


def test_one_item_has_no_spread():
    assert compared(several(2, n=1)).table()[["perplexity_low", "median_rank_high"]].isna().all(axis=None)


def test_items_that_were_put_together_are_compared_as_any(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    items = wb.load("sample", "test", variant="capitalised")
    frame = pd.concat([items[:40].frame, items[40:].frame], ignore_index=True)
    assert pa.array(frame["item_id"], pa.string()).num_chunks > 1  # Arrow sees a chunk a set
    stored = wb.predict(items, RandomWord("passage"))
    again = stored.predictions.assign(model="again")
    expected = align(items, [stored, again]).table()
    for together in (Items(frame), Items.concat([items[:40], items[40:]])):
        pd.testing.assert_frame_equal(align(together, [stored, again]).table(), expected)
        assert len(wb.compare(together, [stored, again], None).selection) == len(items)
