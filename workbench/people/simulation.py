"""Simulated people: models, or rates such as the paper's, in place of subjects; expected costs.

`unfold` measures how many context sentences a model needs to guess a word.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import pandas as pd

from workbench.items.ablation import query_only
from workbench.items.items import Items
from workbench.items.schema import Item
from workbench.models.base import Predictor
from workbench.people import assignment
from workbench.people.assignment import item_from_record
from workbench.people.campaign import Campaign
from workbench.people.protocols import Protocol, ProtocolStep
from workbench.people.protocols import protocol as named_protocol
from workbench.people.reports import curve
from workbench.render.results import Table, TableColumn, TableLayout, with_interval
from workbench.storage.errors import DataError
from workbench.storage.progress import progress_bar

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
_DRAWS = 2000  # simulated campaigns


def with_context_sentences(items: Items, n: int) -> Items:
    """Return items with the last `n` sentences of their contexts only; shorter contexts stay whole.

    Parameters
    ----------
    items : Items
    n : int
        At least 0.

    Returns
    -------
    Items
        With the same ids and answers.

    Examples
    --------
    >>> from workbench import people
    >>> [len(item.context) for item in people.with_context_sentences(items[:3], 1)]
    [1, 1, 1]
    """
    if n < 0:
        raise DataError(f"expected a number of sentences of at least 0, got {n}")

    def shorten(item: Item) -> Item:
        spans = item.sentences[-1 - n :]
        start = spans[0][0]
        if len(spans) == len(item.sentences):
            return item
        a, b = item.answer_span
        moved = tuple((first - start, last - start) for first, last in spans)
        return replace(item, text=item.text[start:], sentences=moved, answer_span=(a - start, b - start))

    return Items.from_records(map(shorten, items), attrs=items.attrs)


def unfold(items: Items, model: Predictor, *, seed: int = 0) -> pd.DataFrame:
    """Return the cumulative share of items that a model predicts, by the number of context sentences.

    The model sees the target sentence alone, then one sentence of context more at a time until its best word
    is the answer, as people do in the protocol ``unfolding``; see :meth:`Campaign.unfolding`.

    Parameters
    ----------
    items : Items
        With answers.
    model : Predictor
        To limit what a model reads by words, pass ``model.with_context(n)``.
    seed : int, default 0
        Decides among equal scores.

    Returns
    -------
    DataFrame
        n_context_sentences, n, n_guessed, share, low, high (Wilson's 95 %).

    Examples
    --------
    >>> from workbench import people
    >>> people.unfold(items, ngram)["n"].unique().tolist()
    [30]
    """
    rest, needed = items, []
    n_max = max((len(item.context) for item in items), default=-1)
    for n in range(n_max + 1):
        rest = rest.where(np.array([len(item.context) >= n for item in rest], dtype=bool))
        if not len(rest):
            break
        right = model.predict(with_context_sentences(rest, n), top_k=1, seed=seed)["correct"]
        mask = right.fillna(value=False).to_numpy(dtype=bool)
        needed += [n] * int(mask.sum())
        rest = rest.where(~mask)
    return curve(np.array(needed, dtype=np.int64), len(items), n_max)


_PAGES = 2000  # of one transaction
_ITEMS = 20_000  # that a model predicts at a time

Guess = Callable[[int, Item, int], list[str]]
"""Gives the words for an item: its number, the item, and how many context sentences are shown."""


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
                remedy="give the least and the greatest share of all items that each step drops",
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
        If there is not one share a step, they exceed 1, or a step drops nothing by its rules.
    """
    passes = [step.passes for step in protocol.steps]
    rounding = 1e-12
    if len(dropped) != len(passes) or "any" in passes or sum(dropped) > 1 + rounding:
        raise DataError(
            f"expected one share of all items for each step of {protocol.name}, 1 at most in all, and steps "
            f"that drop items, got {list(dropped)} for steps that pass items guessed {', '.join(passes)}",
            remedy="pass one rate a step, or simulate with a model",
        )
    remaining, probabilities = 1.0, []
    for step, share in zip(protocol.steps, dropped, strict=True):
        lost = min(1.0, share / remaining) if remaining > 0 else 0.0
        passed = (1 - lost) ** (1 / step.people)
        probabilities.append(passed if step.passes == "right" else 1 - passed)
        remaining -= share
    return probabilities


def simulate(
    campaign: Campaign,
    subjects: Predictor | Sequence[Predictor] | Rates = PAPER_RATES,
    *,
    n_subjects: int = 100,
    seed: int = 0,
) -> None:
    """Let simulated people judge all due items of a campaign, step by step.

    They get pages and answer by the same rules as people. The answers are written in large transactions; a
    run that is killed goes on when it is called again.

    Parameters
    ----------
    campaign : Campaign
    subjects : Predictor, sequence of Predictor, or Rates
        Models, whose best words are the guesses (of the whole items, or of what the step shows of them), or
        rates at which items are dropped; the paper's by default. Where rates say that somebody does
        not guess an item, the guess is empty.
    n_subjects : int, default 100
        People; of several models each is as many. No item goes to one of them twice, so at least as many are
        needed as the steps need together.
    seed : int, default 0

    Raises
    ------
    DataError
        If there are too few people, or rates do not fit the protocol.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from workbench import people
    >>> campaign = people.Campaign.create(f"{mkdtemp()}/guesses.db", items)
    >>> people.simulate(campaign, people.Rates(((0.5, 0.5), (0.2, 0.2), (0.1, 0.1))))
    >>> int(campaign.funnel()["n_open"].sum())
    0
    """
    protocol = campaign.protocol
    rng = np.random.default_rng(seed)
    if isinstance(subjects, Rates):
        chances = right_probabilities(protocol, subjects.middle)
        models: list[Predictor] = []
    else:
        chances, models = [], [subjects] if isinstance(subjects, Predictor) else list(subjects)
    needed = sum(step.people for step in protocol.steps)
    if n_subjects < needed or not (chances or models):
        raise DataError(
            f"expected {needed} people or more for each item, and rates or a model in their place, got "
            f"n_subjects={n_subjects} and {len(models)} models",
            remedy=f"pass n_subjects={needed} and at least one model",
        )
    people = [campaign.add_subject().id for _ in range(n_subjects)]
    for number in range(len(protocol.steps)):
        if models:
            words = [_predict_words(campaign, number, model, seed) for model in models]
            guesses = [_from_words(each) for each in words]
        else:
            guesses = [_by_chance(chances[number], rng)]
        _judge(campaign, number, [(who, guesses[i % len(guesses)]) for i, who in enumerate(people)])


def _by_chance(chance: float, rng: np.random.Generator) -> Guess:
    return lambda _number, item, _shown: [str(item.answer) if rng.random() < chance else ""]


def _from_words(words: Mapping[tuple[int, int], list[str]]) -> Guess:
    return lambda number, _item, n_shown: words[number, n_shown]


def _judge(campaign: Campaign, step: int, people: Sequence[tuple[int, Guess]]) -> None:
    """Let people judge pages of one step in turn until no pages remain."""
    with progress_bar(label=f"step {step + 1}", unit="pages") as bar:
        turn = idle = 0
        while idle < len(people):
            with campaign.write_transaction() as connection:
                for _ in range(_PAGES):
                    subject, guess = people[turn % len(people)]
                    turn += 1
                    done = _judge_page(connection, campaign, step, subject, guess)
                    idle = 0 if done else idle + 1
                    if idle == len(people):
                        break
            bar.update(_PAGES)


def _judge_page(
    connection: sqlite3.Connection, campaign: Campaign, step: int, subject: int, guess: Guess
) -> bool:
    protocol, now = campaign.protocol, campaign.now()
    page = assignment.assign_page(connection, protocol, subject, now, steps=[step])
    if page is None:
        return False
    for number, item in assignment.items_of_page(connection, page):
        finished = False
        n_shown = len(item.context) if protocol.steps[step].condition == "passage" else 0
        while not finished:
            finished = assignment.record_judgment(
                connection, protocol, now, page=page, subject=subject, number=number, step=step, item=item,
                words=guess(number, item, n_shown), n_shown=n_shown,
            )  # fmt: skip
            n_shown += 1
    connection.execute("UPDATE pages SET state = 'submitted', submitted = ? WHERE id = ?", (now, page))
    return True


def _predict_words(
    campaign: Campaign, step: int, model: Predictor, seed: int
) -> dict[tuple[int, int], list[str]]:
    """Return a model's best words for the items at a step, by number and context sentences shown."""
    words: dict[tuple[int, int], list[str]] = {}
    described = campaign.protocol.steps[step]
    with campaign.read_transaction() as connection:
        rows = iter(
            connection.execute(
                """SELECT r.item, r.record FROM items i JOIN records r ON r.item = i.number
                WHERE i.step = ? AND i.state = 'open' ORDER BY i.number""",
                (step,),
            ).fetchall()
        )
    while chunk := list(islice(rows, _ITEMS)):
        items = Items.from_records(item_from_record(record) for _, record in chunk)
        for n_sentences, shortened in _visible_items(items, described):
            numbers = {
                item_id: number for (number, _), item_id in zip(chunk, items.frame["item_id"], strict=True)
            }
            table = model.predict(shortened, top_k=described.guesses, seed=seed)
            best = zip(table["item_id"], table["prediction"], table["top_words"], strict=True)
            for (item_id, first, others), n in zip(best, n_sentences, strict=True):
                guesses = [first] if isinstance(first, str) else []
                guesses += [word for word in others if word != first]
                words[numbers[item_id], n] = guesses[: described.guesses] or [""]
    return words


def _visible_items(items: Items, step: ProtocolStep) -> Iterator[tuple[list[int], Items]]:
    """Yield the items as a step shows them, with the number of context sentences of each."""
    lengths = [len(item.context) for item in items]
    if step.condition == "passage":
        yield lengths, items
    elif step.condition == "sentence":
        yield [0] * len(items), query_only(items)
    else:
        for n in range(max(lengths) + 1):
            mask = np.array([length >= n for length in lengths])
            yield [n] * int(mask.sum()), with_context_sentences(items.where(mask), n)


def expected_cost(
    n_items: int,
    rates: Rates = PAPER_RATES,
    protocol: str | Protocol = "lambada",
    *,
    level: float = 0.95,
    seed: int = 0,
) -> Table:
    """Return the expected costs of a campaign by step, with bands.

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
        Share of 2,000 simulated campaigns within the bands.
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
    table.attrs["note"] = (
        f"In brackets: {level:.0%} of {_DRAWS:,} simulated campaigns. The price is of a page."
    )
    return Table(table, _LAYOUT)
