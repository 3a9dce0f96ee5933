import pytest

from workbench.analysis import annotations, contrast, statistics
from workbench.construction import manifest, novel_checks, novel_collection
from workbench.evaluation import leaderboard, metrics
from workbench.items.schema import ITEM_COLUMNS
from workbench.people import costs, judgments, reports
from workbench.predictions import schema, store
from workbench.probing import context_accuracy, influence, protocols, surprisal
from workbench.render.labels import column_label, label, tooltip
from workbench.widgets.explore.explore import PANELS

OWN_NAMES = {"a", "b", "n_a", "n_b", "median_a", "median_b"}  # named after the sets
SHOWN = {
    "items": ITEM_COLUMNS,
    "annotations": ("item_id", *annotations.FEATURES.names, "pipeline"),
    "predictions": schema.PREDICTION_COLUMNS,
    "evaluate": ("model", "run", *metrics.METRIC_COLUMNS),
    "leaderboard": ("place", *leaderboard.MEASURED, *leaderboard._AGAINST, *leaderboard._PUBLISHED),
    "statistics": statistics.STATISTICS_COLUMNS,
    "contrast": (*(set(contrast._COLUMNS) - OWN_NAMES), *(f"p_{kind}" for kind in contrast.CORRECTIONS)),
    "runs": tuple(store._LISTED),
    "novels": (
        *(*novel_collection._LABELS, *novel_checks._RESULT.names[:-1], "similar_to", "containment", "group"),
        *("duplicate_of", "split", "reason", *novel_checks.Pair._fields),
    ),
    "funnel": tuple(manifest.Manifest().to_frame()),
    "judgments": judgments.JUDGMENT_COLUMNS,
    "scored judgments": judgments.SCORED,
    **{name: getattr(reports, name) for name in ("STATES", "FUNNEL", "UNFOLDING")},
    "expected cost": costs.EXPECTED_COST,
    "charts": PANELS,
    "surprisal": surprisal.SURPRISAL_COLUMNS,
    "influence": influence.INFLUENCE_COLUMNS,
    "protocols": (*protocols.PROTOCOL_COLUMNS, *protocols.FACTORS),
    "context curve": context_accuracy.CONTEXT_COLUMNS,
}


@pytest.mark.parametrize("table", SHOWN)
def test_every_column_has_a_label_and_one_sentence(table):
    for name in SHOWN[table]:
        assert "_" not in label(name), name
        assert tooltip(name).endswith("."), name
        assert len(label(name)) <= 36, name


def test_a_label_has_its_unit_and_bounds_are_called_after_their_value():
    assert label("n_tokens", unit=True) == "Passage length (tokens)"
    assert label("target_class", unit=True) == "Target class"
    assert label("median_rank_low") == "Median rank, lower bound"
    assert column_label("accuracy_high").unit == "%"


def test_an_unknown_column_is_called_by_its_name():
    assert (label("my_own_column", unit=True), tooltip("my_own_column")) == ("my own column", "")
    assert label("_") == "_"
