"""Colours that mean something are told apart by people with every colour vision deficiency.

Deficiencies are simulated at full severity by the models of Machado et al. (2009) and Brettel et al. (1997);
the distance is CIEDE2000, of which a difference of 1 to 2 is just seen.
"""

import re
from itertools import combinations

import pytest
from coloraide import Color

from workbench.charts import theme
from workbench.widgets.compare import view
from workbench.widgets.shared.widget import read_assets

LEAST = 7.5
MODELS = ["machado", "brettel"]
DEFICIENCIES = ["protan", "deutan", "tritan"]
PAIR = re.compile(r"--(?:wc-more|blue):\s*(#\w+);.*?--(?:wc-fewer|orange):\s*(#\w+)", re.DOTALL)
PAIRS = {
    "matrix, light and dark": PAIR.findall(read_assets("compare/compare.css")),
    "shades of passages": [
        tuple(dict.fromkeys(re.findall("#0072b2|#d55e00", read_assets("shared/theme.css"))))
    ],
}  # fmt: skip


def distance(one, other, deficiency, model):
    seen = [Color(colour).filter(deficiency, 1, method=model) for colour in (one, other)]
    return seen[0].delta_e(seen[1], method="2000")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("deficiency", DEFICIENCIES)
def test_colours_of_sets_and_models_are_told_apart(deficiency, model):
    for one, other in combinations(theme.PALETTE, 2):
        assert distance(one, other, deficiency, model) >= LEAST, (one, other)


@pytest.mark.parametrize("paper", ["#ffffff", "#111111"])
def test_the_first_colours_stand_out_from_light_and_dark(paper):
    """WCAG 2.2, criterion 1.4.11: 3 to 1 for graphics."""
    assert min(Color(colour).contrast(paper) for colour in theme.PALETTE[:3]) >= 3


def test_models_have_the_colours_of_charts():
    assert view.PALETTE == theme.PALETTE


@pytest.mark.parametrize("deficiency", DEFICIENCIES)
@pytest.mark.parametrize("name", PAIRS)
def test_opposites_are_told_apart(name, deficiency):
    assert PAIRS[name]
    for one, other in PAIRS[name]:
        assert min(distance(one, other, deficiency, model) for model in MODELS) >= 2 * LEAST
