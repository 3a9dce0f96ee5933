"""Columns of predictions that not every model has, and tables that were written before there were such."""

import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from made_predictions import made
from pandas.testing import assert_frame_equal

import workbench as wb
from workbench.evaluation.reading import predictions_of
from workbench.items.schema import DataError
from workbench.runs import predictions
from workbench.runs import store as results
from workbench.storage import cache

FRAME = made(6, right=0.5)
TOLD = {
    "prompt": '{"shots": 2}',
    "log_prob_uncorrected": FRAME["log_prob"] / 2,
    "greedy_correct": [True, False, None] * 2,
    "rank_is_bound": [None, True, False] * 2,
    "attention": [[0.25, 0.75], None, []] * 2,
}


def items():
    texts = [f"passage number {i} ends with ___" for i in range(6)]
    frame = pd.DataFrame({"text": texts, "answer": FRAME["answer"], "item_id": FRAME["item_id"]})
    return wb.items_from_frame(
        frame, item_id="item_id", dataset="lambada", split="dev", variant="plain", tokenised=True
    )


def test_what_a_frame_lacks_is_null():
    given = predictions.check(FRAME.drop(columns=list(predictions.OPTIONAL)))
    assert given[list(predictions.OPTIONAL)].isna().all(axis=None)
    assert_frame_equal(given, FRAME)


@pytest.mark.parametrize("name", predictions.OPTIONAL)
def test_what_a_frame_has_is_kept_on_disk(name, no_data):
    frame = predictions.check(FRAME.assign(**{name: TOLD[name]}))
    back = results.keep(items(), frame, name="told").predictions
    assert_frame_equal(back, frame.assign(run="told"), check_dtype=name != "attention")
    others = [other for other in predictions.OPTIONAL if other != name]
    assert back[others].isna().all(axis=None)
    assert (no_data / "runs" / "told").is_dir()


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"log_prob_uncorrected": 0.5}, "a log-probability is above 0"),
        ({"log_prob_uncorrected": FRAME["log_prob"] - 1}, "'log_prob' is above 'log_prob_uncorrected'"),
        ({"greedy_correct": "perhaps"}, "not of type bool"),
    ],
)
def test_what_cannot_be_is_refused(values, problem):
    with pytest.raises(DataError, match=problem):
        predictions.check(FRAME.assign(**values))


def test_an_answer_is_no_likelier_than_its_sub_tokens_but_for_rounding():
    near = FRAME["log_prob"].to_numpy() - np.float64(1e-5)
    assert len(predictions.check(FRAME.assign(log_prob_uncorrected=near))) == 6


@pytest.mark.usefixtures("no_data")
def test_a_run_that_was_written_without_them_is_read():
    """A table of before: without the columns, and with the digest that it had."""
    run = results.keep(items(), FRAME, name="before")
    table = run.table.select([name for name in predictions.COLUMNS if name not in predictions.OPTIONAL])
    pq.write_table(table, run.folder / results.TABLE)
    told = json.loads((run.folder / results.INFO).read_text()) | {"sha256": cache.content(table)}
    (run.folder / results.INFO).write_text(json.dumps(told))
    assert results.query("select prompt, attention from predictions")["prompt"].isna().tolist() == [True] * 6
    results.keep(items(), FRAME.assign(model="after", prompt="{}"), name="after")
    back = results.find("before")
    assert_frame_equal(back.predictions, FRAME.assign(run="before"))
    assert back.table.schema == predictions.SCHEMA
    asked = results.query("select model, count(prompt) as told from predictions group by model")
    assert dict(zip(asked["model"], asked["told"], strict=True)) == {"made": 0, "after": 6}


def test_evaluation_reads_frames_without_them():
    found = predictions_of(FRAME.drop(columns=list(predictions.OPTIONAL)))
    assert found[0].frame["prompt"].isna().all()
    assert str(found[0].frame["rank_is_bound"].dtype) == "boolean"
