"""The comparison's page writes numbers as the tables do."""

import json

import pytest

from workbench.render.numbers import MINUS, mid_rank, p_value, perplexity, points
from workbench.widgets.shared.widget import read_assets

pytestmark = pytest.mark.browser
SHARES = [0.0, -0.0, -0.0001, 0.0001, -0.012, 0.2345, -0.1025, 0.0625, 0.00125]
P_VALUES = [0.0, 1e-9, 0.00012, 0.0234, 0.0625, 0.125, 0.5, 0.999, 1.0]


def test_a_zero_has_no_sign_and_a_small_p_a_bound(chromium):
    page = chromium.new_page()
    names = f'const MINUS = "{MINUS}", DASH = "-", number = String;'
    result = f"[{json.dumps(SHARES)}.map(signed), {json.dumps(P_VALUES)}.map(pValue), fixed(-0.001, 2)]"
    shares, p_values, zero = page.evaluate(
        f"() => {{ {names} {read_assets('compare/base.js')}; return {result}; }}"
    )
    page.close()
    assert shares == [points(share) for share in SHARES]
    assert shares[SHARES.index(-0.1025)] == f"{MINUS}10.3"  # half a tenth is rounded away from zero
    assert p_values == [p_value(p) for p in P_VALUES]
    assert zero == "0.00"


def test_perplexities_and_ranks_have_the_digits_of_the_tables(chromium):
    page, values = chromium.new_page(), [1.0, 22.254, 2.5, 993.0, 57_040.2, 3e12]
    names = f'const MINUS = "{MINUS}", DASH = "-", number = String;'
    result = f"[{json.dumps(values)}.map(perplexity), {json.dumps(values[:5])}.map(midRank)]"
    perplexities, ranks = page.evaluate(
        f"() => {{ {names} {read_assets('compare/base.js')}; return {result}; }}"
    )
    page.close()
    assert perplexities == [perplexity(value) for value in values]
    assert ranks == [mid_rank(value) for value in values[:5]]
