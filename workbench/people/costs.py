"""What judgments of items are expected to cost, from the shares of items that the steps drop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from workbench.people.protocols import Protocol
from workbench.people.protocols import protocol as named_protocol
from workbench.render.results import Table, TableColumn, TableLayout, with_interval
from workbench.storage.errors import DataError

EXPECTED_COST = (
    "step", "condition", "n_in", "n_judgments", "n_pages", "price", "cost", "cost_low", "cost_high",
    "cost_per_kept", "cost_per_kept_low", "cost_per_kept_high",
)  # fmt: skip
_LAYOUT = TableLayout(
    "What the judgments are expected to cost",
    (
        TableColumn("step"), TableColumn("condition"), TableColumn("n_in", "count"),
        TableColumn("n_judgments", "count"), TableColumn("n_pages", "count"), TableColumn("price", "money"),
        with_interval("cost", "money"), with_interval("cost_per_kept", "money"),
    ),
)  # fmt: skip
_DRAWS = 2000  # simulations


@dataclass(frozen=True)
class Rates:
    """Shares of all items that the steps of a protocol drop, as ranges.

    Parameters
    ----------
    dropped : sequence of (float, float)
        For each step the least and the greatest share of *all* items.

    Examples
    --------
    >>> from workbench import people
    >>> people.PAPER_RATES.dropped
    ((0.84, 0.86), (0.06, 0.07), (0.03, 0.05))
    """

    dropped: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        is_valid = all(0 <= low <= high <= 1 for low, high in self.dropped)
        if not is_valid or sum(low for low, _ in self.dropped) > 1:
            raise DataError(
                f"expected ranges within 0 and 1 that add up to 1 at most, got {self.dropped}",
                hint="give the least and the greatest share of all items that each step drops",
            )

    @property
    def middle(self) -> tuple[float, ...]:
        """Midpoint of each range."""
        return tuple((low + high) / 2 for low, high in self.dropped)


PAPER_RATES = Rates(((0.84, 0.86), (0.06, 0.07), (0.03, 0.05)))
"""What the three steps of LAMBADA dropped (Paperno et al. 2016, section 3.1)."""


def right_probabilities(protocol: Protocol, dropped: Sequence[float]) -> list[float]:
    """Return the probability of a right guess at each step that yields the given dropout rates.

    People are taken as independent. Where a step drops what anybody of ``n`` guesses, the share ``d`` of the
    items that reach it, this is ``1 - (1 - d) ** (1 / n)``.

    Raises
    ------
    DataError
        If there is not one share per step, they exceed 1, or a step drops nothing by its rules.
    """
    passes = [step.passes for step in protocol.steps]
    rounding = 1e-12
    if len(dropped) != len(passes) or "any" in passes or sum(dropped) > 1 + rounding:
        raise DataError(
            f"expected one share of all items for each step of {protocol.name}, 1 at most in all, and steps "
            f"that drop items, got {list(dropped)} for steps that pass items guessed {', '.join(passes)}",
            hint="pass one rate per step, or simulate with a model",
        )
    remaining, probabilities = 1.0, []
    for step, share in zip(protocol.steps, dropped, strict=True):
        lost = min(1.0, share / remaining) if remaining > 0 else 0.0
        passed = (1 - lost) ** (1 / step.people)
        probabilities.append(passed if step.passes == "right" else 1 - passed)
        remaining -= share
    return probabilities


def expected_cost(
    n_items: int,
    rates: Rates = PAPER_RATES,
    protocol: str | Protocol = "lambada",
    *,
    level: float = 0.95,
    seed: int = 0,
) -> Table:
    """Return the expected costs of judgments by step, with bands.

    Parameters
    ----------
    n_items : int
        Items that enter the first step.
    rates : Rates
        Shares of all items that each step drops; the paper's by default. Each draw takes a value out
        of each range.
    protocol : str or Protocol, default "lambada"
        With prices and sizes of pages; every step must drop items.
    level : float, default 0.95
        Share of 2,000 simulations within the bands.
    seed : int, default 0

    Returns
    -------
    Table
        One row per step and one for all: step, condition, n_in, n_judgments, n_pages (full pages but for the
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
    if n_items < 1 or not 0 < level < 1:
        raise DataError("expected n_items of at least 1, and a level within 0 and 1")
    right_probabilities(chosen, rates.middle)  # they fit
    rng = np.random.default_rng(seed)
    low, high = np.array(rates.dropped).T
    shares = rng.uniform(low, high, (_DRAWS, len(low)))
    total = shares.sum(axis=1, keepdims=True)
    shares = np.where(total > 1, shares / total, shares)
    counts = np.zeros((_DRAWS, len(chosen.steps), 3))  # items, judgments, pages
    n_kept = np.zeros(_DRAWS)
    for draw in range(_DRAWS):
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
    prices = np.array([step.price for step in chosen.steps])
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
    table.attrs["note"] = f"In brackets: {level:.0%} of {_DRAWS:,} simulations. The price is of a page."
    return Table(table, _LAYOUT)
