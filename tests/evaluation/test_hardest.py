import builders as b
import numpy as np
import pandas as pd
import pytest
from braced_items import cloze
from made_predictions import items_of, made, scores
from refused import refused

from workbench.datasets import load
from workbench.evaluation.hardest import hardest
from workbench.items.items import Items
from workbench.predictions.schema import from_answers
from workbench.storage.errors import DataError

HOSTILE = "</td><script>alert(1)</script>"


@pytest.fixture(scope="module")
def models():
    return [made(60, seed=k, right=0.3 + 0.1 * k, model=f"m{k}") for k in range(4)]


@pytest.fixture(scope="module")
def table(models):
    """The same numbers by a loop."""
    rows = {}
    for item_id, part in pd.concat(models).groupby("item_id"):
        right = part.loc[part["correct"], "model"].tolist()
        row = {"n_right": len(right), "disagreement": len(right) * (4 - len(right)) / 4}
        row |= {"mean_log_prob": np.mean(part["log_prob"]), "variance": np.var(part["log_prob"])}
        rows[item_id] = row | {"alone": right[0] if len(right) == 1 else None}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("item_id")


KEYS = {
    "difficulty": lambda row: (row["n_right"], row["mean_log_prob"]),
    "disagreement": lambda row: (-row["disagreement"], -row["variance"]),
    "alone": lambda row: (row["alone"], row["mean_log_prob"]) if row["n_right"] == 1 else None,
    "variance": lambda row: -row["variance"],
    "all wrong": lambda row: row["mean_log_prob"] if row["n_right"] == 0 else None,
}


@pytest.mark.parametrize("by", KEYS)
def test_items_are_ordered_as_a_loop_orders_them(by, models, table):
    found = hardest(models, items_of(models[0]), by=by)
    keys = {item_id: KEYS[by](row) for item_id, row in table.iterrows()}
    wanted = sorted((i for i in keys if keys[i] is not None), key=keys.__getitem__)
    assert found.frame["item_id"].tolist() == wanted
    assert found.items.frame["item_id"].tolist() == wanted
    assert wanted
    rows = table.loc[wanted].reset_index()
    for name in ("n_right", "disagreement", "mean_log_prob", "variance"):
        np.testing.assert_allclose(found.frame[name], rows[name], err_msg=name)
    assert found.frame["alone"].fillna("").tolist() == rows["alone"].fillna("").tolist()
    assert set(found.frame["n_models"]) == {4}
    few = hardest(models, items_of(models[0]), by=by, n=2)
    assert hardest(models, few.items, by=by).frame["item_id"].tolist() == wanted[:2]


def test_models_of_scores_have_no_mean_and_one_model_no_variance(models):
    items = items_of(models[0])
    scored = hardest([scores(models[0]), scores(models[1])], items).frame
    assert scored[["mean_log_prob", "variance"]].isna().all(axis=None)
    assert scored["n_right"].is_monotonic_increasing
    assert hardest(models[0], items).frame["alone"].isna().all()
    impossible = hardest([models[0].assign(log_prob=-np.inf), models[1]], items).frame
    assert (impossible["mean_log_prob"] == -np.inf).all()
    assert impossible["variance"].isna().all()


def test_items_are_loaded_by_what_the_predictions_name(no_data):
    lines = [f"it rained . the heron number {i} saw the eel" for i in range(6)]
    b.write(no_data / "raw", {"lambada_development_plain_text.txt": b.text(lines)})
    items = load("lambada", "dev")
    ids = items.frame["item_id"]
    runs = [from_answers(items, dict.fromkeys(ids, word), model=word) for word in ("eel", "cat")]
    found = hardest(runs, by="alone")
    assert found.items.frame["text"].tolist() == lines
    assert set(found.frame["alone"]) == {"eel"}
    refused(hardest, [runs[0], runs[1].assign(split="test")])
    refused(hardest, runs[0].assign(split="test"))


def test_it_is_shown_as_a_table_of_text(models):
    texts = models[0].apply(lambda row: cloze(f"{HOSTILE} a {{{row.answer}}}", row.item_id), axis=1)
    named = [frame.assign(model=f"{HOSTILE}{k}") for k, frame in enumerate(models)]
    html = hardest(named, Items.from_records(texts))._repr_html_()
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert html.count("<tr>") == 21  # the first 20


def test_what_makes_no_sense_is_an_error(models):
    for runs, options in ((models, {"by": "size"}), (models, {"n": 0}), (models[0], {"by": "alone"})):
        with pytest.raises(DataError):
            hardest(runs, items_of(models[0]), **options)
