"""Reports of a table of judgments: states of items, survivors, funnel, agreement, predictions, curves."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbench.analysis.proportions import wilson
from workbench.items.ablation import INPUTS
from workbench.items.items import Items
from workbench.items.schema import objects
from workbench.people.judgments import score_judgments
from workbench.people.protocols import Protocol, match
from workbench.people.protocols import protocol as named_protocol
from workbench.people.rater_agreement import Agreement, answer_agreement, majority_answers
from workbench.predictions.schema import check_predictions, frame_of_answers
from workbench.render.results import Table, TableColumn, TableLayout, with_interval
from workbench.storage.errors import DataError

STATES = ("item_id", "step", "state", "reason", "n_judged")
FUNNEL = (
    "step", "condition", "n_in", "n_open", "n_dropped", "n_out", "dropped_share", "dropped_share_low",
    "dropped_share_high", "passed_share",
)  # fmt: skip
_FUNNEL = TableLayout(
    "Items at the steps of the protocol",
    (
        TableColumn("step"), TableColumn("condition"), TableColumn("n_in", "count"),
        TableColumn("n_open", "count"), TableColumn("n_dropped", "count"),
        with_interval("dropped_share", "share", heading="Dropped, of all"), TableColumn("n_out", "count"),
        TableColumn("passed_share", "share", heading="Passed, of all"),
    ),
)  # fmt: skip
UNFOLDING = ("n_context_sentences", "n", "n_guessed", "share", "low", "high")


def states(items: Items, judgments: pd.DataFrame, protocol: str | Protocol = "lambada") -> pd.DataFrame:
    """Return the step and state of each item.

    Parameters
    ----------
    items : Items
    judgments : DataFrame
        See :func:`workbench.people.read_judgments`.
    protocol : {"lambada", "unfolding", "cbt", "completion"} or Protocol

    Returns
    -------
    DataFrame
        One row per item, in their order: item_id; step, from 1, that it is at or stopped at; state, ``open``,
        ``kept`` (it passed every step) or ``dropped``; reason; n_judged, the people who judged it at this
        step. Judgments after the one that decides do not count.

    Examples
    --------
    >>> from workbench import people
    >>> people.states(items, people.read_judgments("an-empty-table"))["state"].unique().tolist()
    ['open']
    """
    chosen = named_protocol(protocol)
    scored = score_judgments(items, judgments, chosen)
    scored = scored[scored["last_answer"]]
    right: dict[tuple[str, int], list[bool]] = defaultdict(list)
    for item_id, step, correct in zip(scored["item_id"], scored["step"], scored["correct"], strict=True):
        right[item_id, step].append(bool(correct))
    rows = [(item_id, *_state(item_id, right, chosen)) for item_id in items.frame["item_id"]]
    return pd.DataFrame(rows, columns=list(STATES)).astype({"reason": "str"})


def _state(
    item_id: str, right: dict[tuple[str, int], list[bool]], protocol: Protocol
) -> tuple[int, str, str | None, int]:
    n_judged = 0
    for number, step in enumerate(protocol.steps, 1):
        n_judged = n_right = 0
        outcome = step.outcome(0, 0)
        for correct in right.get((item_id, number), ()):
            n_judged, n_right = n_judged + 1, n_right + correct
            if (outcome := step.outcome(n_judged, n_right)) != "open":
                break
        if outcome == "open":
            return number, "open", None, n_judged
        if outcome == "dropped":
            return number, "dropped", step.drop_reason, n_judged
    return len(protocol.steps), "kept", "passed every step", n_judged


def survivors(items: Items, judgments: pd.DataFrame, protocol: str | Protocol = "lambada") -> Items:
    """Return the items that passed every step, in their order.

    Parameters
    ----------
    items : Items
    judgments : DataFrame
        See :func:`workbench.people.read_judgments`.
    protocol : {"lambada", "unfolding", "cbt", "completion"} or Protocol

    Examples
    --------
    >>> from workbench import people
    >>> judgments = people.simulate(items, subjects=people.Rates(((0.2, 0.2), (0.2, 0.2), (0.2, 0.2))))
    >>> 0 < len(people.survivors(items, judgments)) < len(items)
    True
    """
    return items.where((states(items, judgments, protocol)["state"] == "kept").to_numpy())


def funnel(items: Items, judgments: pd.DataFrame, protocol: str | Protocol = "lambada") -> Table:
    """Return the number of items that entered and left each step.

    Parameters
    ----------
    items : Items
    judgments : DataFrame
        See :func:`workbench.people.read_judgments`.
    protocol : {"lambada", "unfolding", "cbt", "completion"} or Protocol

    Returns
    -------
    Table
        One row per step: step, condition, n_in, n_open, n_dropped, n_out, and the shares of all items that
        the step dropped (``dropped_share``, with Wilson's 95 % interval) and let pass (``passed_share``). For
        LAMBADA the paper dropped 84 to 86, 6 to 7 and 3 to 5 % (Paperno et al. 2016, section 3.1).

    Examples
    --------
    >>> from workbench import people
    >>> people.funnel(items, people.simulate(items))["n_in"].tolist()[0]
    30
    """
    chosen = named_protocol(protocol)
    counts = np.zeros((len(chosen.steps), 3), dtype=int)
    table = states(items, judgments, chosen)
    for step, state in zip(table["step"], table["state"], strict=True):
        counts[step - 1, ("open", "dropped", "kept").index(state)] += 1
    n_in = counts.sum(axis=1)[::-1].cumsum()[::-1]  # what is at a step has passed those before
    dropped, total = counts[:, 1], max(1, int(counts.sum()))
    n_out = n_in - counts[:, 0] - dropped
    low, high = wilson(dropped, np.full(len(dropped), total))
    columns = (
        range(1, len(dropped) + 1), [step.condition for step in chosen.steps], n_in, counts[:, 0], dropped,
        n_out, dropped / total, low, high, n_out / total,
    )  # fmt: skip
    return Table(pd.DataFrame(dict(zip(FUNNEL, columns, strict=True))), _FUNNEL)


def agreement(
    items: Items, judgments: pd.DataFrame, protocol: str | Protocol = "lambada"
) -> dict[str, Agreement]:
    """Return the agreement of people, by condition: pairs, Fleiss' kappa, Krippendorff's alpha.

    The first guess counts; of unfolding the last one.

    Parameters
    ----------
    items : Items
    judgments : DataFrame
        See :func:`workbench.people.read_judgments`.
    protocol : {"lambada", "unfolding", "cbt", "completion"} or Protocol

    Examples
    --------
    >>> from workbench import people
    >>> judgments = people.simulate(items, "unfolding", ngram, n_subjects=3)
    >>> people.agreement(items, judgments, "unfolding")["unfolding"].pairwise
    1.0
    """
    answers = last_words(score_judgments(items, judgments, protocol))
    answers = answers.assign(prediction=answers["prediction"].where(answers["prediction"] != ""))
    return {
        str(condition): answer_agreement(rows[["item_id", "person", "prediction"]])
        for condition, rows in answers.groupby("condition", sort=False)
    }


def predictions(
    items: Items,
    judgments: pd.DataFrame,
    protocol: str | Protocol = "lambada",
    *,
    person: str | None = None,
    majority: bool = False,
    seed: int = 0,
) -> pd.DataFrame:
    """Return people's answers as predictions, which tables and :func:`workbench.compare` take.

    Parameters
    ----------
    items : Items
    judgments : DataFrame
        See :func:`workbench.people.read_judgments`.
    protocol : {"lambada", "unfolding", "cbt", "completion"} or Protocol
    person : str, optional
        One person; all by default, each as a model of their own (``person: Ada``).
    majority : bool, default False
        The commonest answer of all people to each item, as one model.
    seed : int, default 0
        Draws the majority's answer among words that are equally common.

    Returns
    -------
    DataFrame
        See :mod:`workbench.predictions.schema`. The prediction is the first guess (of unfolding the last
        one), ``top_words`` are all; ``correct`` is whether the prediction counts as right by the protocol.
        Where the target sentence stood alone, the variant ends in ``(query only)``.

    Raises
    ------
    DataError
        If nobody of this name has judged an item, or both `person` and `majority` are passed.

    Notes
    -----
    In the protocol ``lambada`` another person guessed the items of the second step before, so a share
    of right answers there is not an estimate for all items.

    Examples
    --------
    >>> from workbench import people
    >>> judgments = people.simulate(items, "unfolding", ngram, n_subjects=3)
    >>> people.predictions(items, judgments, "unfolding", majority=True)["model"].unique().tolist()
    ['majority of 3 people']
    """
    chosen = named_protocol(protocol)
    scored = last_words(score_judgments(items, judgments, chosen))
    if person is not None:
        if majority or person not in set(scored["person"]):
            problem = "got both a person and majority" if majority else f"nobody called {person!r:.60} judged"
            raise DataError(problem, hint="pass one of the people, or neither for all of them")
        scored = scored[scored["person"] == person]
    if majority:
        scored = _majority(scored, chosen, seed)
    else:
        scored = scored.assign(model="person: " + scored["person"])
    return predictions_of_scored(items, scored)


def _majority(scored: pd.DataFrame, protocol: Protocol, seed: int) -> pd.DataFrame:
    """Return the commonest answer to each item and condition, with the columns of judgments that are read."""
    frames = []
    for condition, rows in scored.groupby("condition", sort=False):
        answers = rows.assign(prediction=rows["prediction"].where(rows["prediction"] != ""))
        common = majority_answers(answers, seed).drop(columns="tied")
        words = common["prediction"].fillna("")
        answer = rows.drop_duplicates("item_id").set_index("item_id")["answer"]
        common = common.assign(
            prediction=words, guesses=objects([[word] for word in words]), condition=condition,
            answer=answer.loc[common["item_id"]].to_numpy(),
            model=f"majority of {rows['person'].nunique()} people",
        )  # fmt: skip
        pairs = zip(words, common["answer"], strict=True)
        frames.append(common.assign(prediction_correct=[match(*pair) in protocol.accept for pair in pairs]))
    return pd.concat(frames, ignore_index=True) if frames else scored.assign(model="majority")


def predictions_of_scored(items: Items, scored: pd.DataFrame) -> pd.DataFrame:
    """Return scored judgments, one for each ``model`` and item, as predictions."""
    asked = items.frame.set_index("item_id", drop=False).loc[scored["item_id"]]
    alone = ((scored["condition"] == "sentence").to_numpy()) & (asked["sentences"].map(len) > 1).to_numpy()
    asked["variant"] = asked["variant"].where(~alone, asked["variant"] + f" ({INPUTS[0]})")
    pairs = zip(scored["prediction"], scored["answer"], strict=True)
    words = [answer if match(word, answer) == "exact" else word or None for word, answer in pairs]
    columns = {
        "model": scored["model"].to_numpy(),
        "score_type": "score",
        "log_prob": np.nan,
        "top_words": objects([[word for word in row if word] for row in scored["guesses"]]),
    }
    table = frame_of_answers(asked.reset_index(drop=True), words, columns, {})
    # right but for case at most, as the table says of every model
    table["correct"] &= scored["prediction_correct"].to_numpy()
    table["p_correct"] = table["correct"].astype(float)
    return check_predictions(table)


def last_words(scored: pd.DataFrame) -> pd.DataFrame:
    """Return the final judgment of each person and item, one row each."""
    return scored[scored["last_answer"]]


def unfolding(scored: pd.DataFrame) -> pd.DataFrame:
    """Return the cumulative share of right judgments by the number of context sentences.

    An item with a shorter context counts with the words that were guessed from all of it.
    """
    scored = last_words(scored)
    scored = scored[scored["condition"] == "unfolding"]
    n_max = int(scored["shown"].max()) if len(scored) else -1
    needed = scored.loc[scored["correct"], "shown"].to_numpy()
    return curve(needed, len(scored), n_max)


def curve(needed: npt.NDArray[np.int64], n: int, n_max: int) -> pd.DataFrame:
    """Return how many of `n` need at most 0, 1, ... `n_max` sentences, with the columns of `UNFOLDING`."""
    sentences = np.arange(n_max + 1)
    n_guessed = np.searchsorted(np.sort(needed), sentences, side="right")
    low, high = wilson(n_guessed, np.full(len(sentences), n))
    columns = (sentences, np.full(len(sentences), n), n_guessed, n_guessed / max(1, n), low, high)
    return pd.DataFrame(dict(zip(UNFOLDING, columns, strict=True)))
