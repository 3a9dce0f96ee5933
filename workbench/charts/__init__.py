"""Charts: pure functions from annotations to Altair charts, which show and save with no network.

Each takes a frame of annotations, or several by name (``{"LAMBADA": a, "control": b}``), and
returns a chart whose data are aggregates: its size does not grow with the set.
"""

from __future__ import annotations

from workbench.charts.bars import FIELDS, PICK
from workbench.charts.expected import expected
from workbench.charts.figure import figure_2
from workbench.charts.ranks import ranks
from workbench.charts.save import save
from workbench.charts.seen import seen
from workbench.charts.show import offline
from workbench.charts.spread import BRUSH, lengths, mention_distance
from workbench.charts.targets import (
    direct_speech,
    in_context,
    target_classes,
    target_classes_out_of_context,
)
from workbench.charts.theme import side_by_side
from workbench.charts.training import training_curves

__all__ = [
    "BRUSH",
    "FIELDS",
    "PICK",
    "direct_speech",
    "expected",
    "figure_2",
    "in_context",
    "lengths",
    "mention_distance",
    "offline",
    "ranks",
    "save",
    "seen",
    "side_by_side",
    "target_classes",
    "target_classes_out_of_context",
    "training_curves",
]

offline()
