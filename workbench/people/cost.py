"""What a campaign would cost, from the rates at which its steps drop items."""

from __future__ import annotations

import numpy as np
import pandas as pd

from workbench.people.protocols import Protocol
from workbench.people.protocols import protocol as named_protocol
from workbench.people.simulation import PAPER_RATES, Rates, right_probabilities
from workbench.render.results import Table, TableColumn, TableLayout, with_interval
from workbench.storage.errors import DataError

EXPECTED_COST = (
    "step", "condition", "n_in", "n_judgments", "n_pages", "price", "cost", "cost_low", "cost_high",
    "cost_per_kept", "cost_per_kept_low", "cost_per_kept_high",
)  # fmt: skip
_LAYOUT = TableLayout(
    "What a campaign is expected to cost",
    (
        TableColumn("step"), TableColumn("condition"), TableColumn("n_in", "count"),
        TableColumn("n_judgments", "count"), TableColumn("n_pages", "count"), TableColumn("price", "money"),
        with_interval("cost", "money"), with_interval("cost_per_kept", "money"),
    ),
)  # fmt: skip
PUBLISHED_COST_PER_ITEM = 1.24
"""Dollars for an item of LAMBADA (Paperno et al. 2016, section 3.1)."""


def expected_cost(
    n_items: int,
    rates: Rates = PAPER_RATES,
    protocol: str | Protocol = "lambada",
    *,
    fee: float = 0.0,
    draws: int = 2000,
    level: float = 0.95,
    seed: int = 0,
) -> Table:
    """Return what a campaign is expected to cost, step by step, with bands.

    Parameters
    ----------
    n_items : int
        Items that enter the first step.
    rates : Rates
        Shares of all items that each step drops; those of the paper by default. Each draw takes a value out
        of each range.
    protocol : str or Protocol, default "lambada"
        With prices and sizes of pages; every step must drop items.
    fee : float, default 0
        What the crowdsourcing service takes, as a share of what people get.
    draws : int, default 2000
        Simulated campaigns.
    level : float, default 0.95
        Share of the draws within the bands.
    seed : int, default 0

    Returns
    -------
    Table
        One row a step and one for all: step, condition, n_in, n_judgments, n_pages (full pages but for the
        last), price, cost, cost_per_kept (dollars for an item that passes every step), from the means of the
        draws, and the bounds of the two costs.

    Raises
    ------
    DataError
        If a number is out of range, or the rates do not fit the protocol.

    Notes
    -----
    People are taken as independent and as coming one after the other, so that an item stops at the first
    judgment that decides. With the paper's rates and prices an item costs less than the $1.24 that the paper
    reports, unless the share that passes is near the lowest that the rates allow: the paper does not say what
    the service took, nor what was paid for judgments that were not used.

    Examples
    --------
    >>> from workbench import people
    >>> table = people.expected_cost(200_000)
    >>> table["step"].tolist()
    [1, 2, 3, 'all']
    """
    chosen = named_protocol(protocol)
    if n_items < 1 or draws < 1 or not 0 < level < 1 or fee < 0:
        raise DataError(
            "expected n_items and draws of at least 1, a level within 0 and 1, a fee of at least 0"
        )
    right_probabilities(chosen, rates.middle)  # they fit
    rng = np.random.default_rng(seed)
    low, high = np.array(rates.dropped).T
    shares = rng.uniform(low, high, (draws, len(low)))
    total = shares.sum(axis=1, keepdims=True)
    shares = np.where(total > 1, shares / total, shares)
    counts = np.zeros((draws, len(chosen.steps), 3))  # items, judgments, pages
    n_kept = np.zeros(draws)
    for draw in range(draws):
        n = n_items
        for number, (step, chance) in enumerate(
            zip(chosen.steps, right_probabilities(chosen, shares[draw].tolist()), strict=True)
        ):
            goes_on = chance if step.passes == "right" else 1 - chance
            judgments, entered = 0, n
            for _ in range(step.people):  # everybody judges what nobody before has stopped
                judgments += n
                n = int(rng.binomial(n, goes_on))
            counts[draw, number] = entered, judgments, -(-judgments // step.per_page)
        n_kept[draw] = n
    prices = np.array([step.price for step in chosen.steps]) * (1 + fee)
    costs = counts[:, :, 2] * prices
    costs = np.column_stack([costs, costs.sum(axis=1)])
    with np.errstate(divide="ignore", invalid="ignore"):
        per_kept = costs / n_kept[:, None]
        mean_per_kept = costs.mean(axis=0) / n_kept.mean()
    edges = ((1 - level) / 2, (1 + level) / 2)
    means = np.vstack([counts.mean(axis=0), [n_items, *counts[:, :, 1:].sum(axis=1).mean(axis=0)]])
    columns = (
        [*range(1, len(prices) + 1), "all"], [*(step.condition for step in chosen.steps), ""], *means.T,
        [*prices, np.nan], costs.mean(axis=0), *np.quantile(costs, edges, axis=0), mean_per_kept,
        *np.quantile(per_kept, edges, axis=0, method="inverted_cdf"),
    )  # fmt: skip
    table = pd.DataFrame(dict(zip(EXPECTED_COST, columns, strict=True)))
    table.attrs["note"] = (
        f"In brackets: {level:.0%} of {draws:,} simulated campaigns. The price is of a page."
    )
    return Table(table, _LAYOUT)
