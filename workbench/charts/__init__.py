"""Charts: pure functions from data frames to Altair charts, shown and saved without a network.

Each takes a frame of annotations, or several by name (``{"LAMBADA": a, "control": b}``), and
returns a chart whose data are aggregates: its size does not grow with the set.
"""

from __future__ import annotations

import workbench.charts.iri_syntax  # noqa: F401 - before Altair is imported
from workbench.charts.attention import attention_map
from workbench.charts.construction import funnel
from workbench.charts.expected import expected
from workbench.charts.models import (
    context_curve,
    context_needed,
    influence_curve,
    ranks,
    training_curves,
    tuning,
    windows,
)
from workbench.charts.predictions import accuracy, scatter, waterfall
from workbench.charts.saving import save
from workbench.charts.targets import (
    direct_speech,
    figure_2,
    in_context,
    lengths,
    mention_distance,
    target_classes,
    target_classes_out_of_context,
)
from workbench.charts.theme import offline, side_by_side

__all__ = [
    "accuracy",
    "attention_map",
    "context_curve",
    "context_needed",
    "direct_speech",
    "expected",
    "figure_2",
    "funnel",
    "in_context",
    "influence_curve",
    "lengths",
    "mention_distance",
    "offline",
    "ranks",
    "save",
    "scatter",
    "side_by_side",
    "target_classes",
    "target_classes_out_of_context",
    "training_curves",
    "tuning",
    "waterfall",
    "windows",
]

offline()
