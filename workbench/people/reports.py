"""Reports of a campaign as tables: judgments, states, counts by step, costs, agreement, curves."""

from __future__ import annotations

import json
import sqlite3

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbench.analysis.proportions import wilson
from workbench.evaluation.interchange.agreement import Agreement, agreement
from workbench.items.ablation import INPUTS
from workbench.items.items import Items
from workbench.items.schema import objects
from workbench.items.text import is_encodable
from workbench.people.protocols import Protocol, match
from workbench.predictions.schema import check_predictions, frame_of_answers
from workbench.render.results import Table, TableColumn, TableLayout, with_interval

SUBJECTS = ("subject", "name", "n_pages", "n_judgments")
JUDGMENTS = (
    "item_id", "subject", "name", "page", "step", "condition", "shown", "guesses", "prediction", "answer",
    "match", "correct", "prediction_correct", "counted", "last_answer", "response_time", "answered",
)  # fmt: skip
"""Columns of judgments: ``shown`` context sentences; ``prediction``, the first guess; ``match``, the best of
all guesses (:data:`workbench.people.protocols.MATCHES`); ``correct`` and ``prediction_correct``, whether any
guess and whether the first one counts as right; ``counted``, whether the item was still open;
``last_answer``, whether it was this person's last one about the item; ``response_time`` in seconds;
``answered``, a time in UTC."""
STATES = ("item_id", "step", "state", "reason", "n")
FUNNEL = (
    "step", "condition", "n_in", "n_open", "n_dropped", "n_out", "dropped_share", "dropped_share_low",
    "dropped_share_high", "passed_share",
)  # fmt: skip
COSTS = ("step", "condition", "n_pages", "n_judgments", "n_uncounted", "price", "cost", "cost_per_kept")
_FUNNEL = TableLayout(
    "Items at the steps of the campaign",
    (
        TableColumn("step"), TableColumn("condition"), TableColumn("n_in", "count"),
        TableColumn("n_open", "count"), TableColumn("n_dropped", "count"),
        with_interval("dropped_share", "share", heading="Dropped, of all"), TableColumn("n_out", "count"),
        TableColumn("passed_share", "share", heading="Passed, of all"),
    ),
)  # fmt: skip
_COSTS = TableLayout(
    "What the submitted pages cost",
    (
        TableColumn("step"), TableColumn("condition"),
        *(TableColumn(name, "count") for name in ("n_pages", "n_judgments", "n_uncounted")),
        *(TableColumn(name, "money") for name in ("price", "cost", "cost_per_kept")),
    ),
)  # fmt: skip
UNFOLDING = ("n_context_sentences", "n", "n_guessed", "share", "low", "high")


def subjects(connection: sqlite3.Connection) -> pd.DataFrame:
    """Return the people of a campaign."""
    rows = connection.execute(
        """SELECT s.id, s.name,
            (SELECT count(*) FROM pages p WHERE p.subject = s.id AND p.state = 'submitted'),
            (SELECT count(*) FROM assignments a WHERE a.subject = s.id AND a.state = 'finished')
        FROM subjects s ORDER BY s.id"""
    ).fetchall()
    return pd.DataFrame(rows, columns=list(SUBJECTS))


def judgments(connection: sqlite3.Connection, protocol: Protocol) -> pd.DataFrame:
    """Return all answers in the order of arrival, with the columns of `JUDGMENTS`."""
    rows = connection.execute(
        """SELECT i.item_id, a.subject, s.name, a.page, a.step, a.shown, a.guesses, i.answer, a.match,
            a.correct, a.counted, n.state = 'finished', a.seconds, a.answered
        FROM answers a JOIN items i ON i.number = a.item JOIN subjects s ON s.id = a.subject
        JOIN assignments n ON n.subject = a.subject AND n.item = a.item ORDER BY a.id"""
    ).fetchall()
    names = [name for name in JUDGMENTS if name not in ("condition", "prediction", "prediction_correct")]
    frame = pd.DataFrame(rows, columns=names)
    lists = [_words(text) for text in frame["guesses"]]
    frame["guesses"] = objects(lists)
    frame["prediction"] = pd.Series([words[0] for words in lists], dtype="str")
    frame["condition"] = pd.Series([protocol.steps[step].condition for step in frame["step"]], dtype="str")
    frame["prediction_correct"] = [
        right if len(words) == 1 else match(words[0], answer) in protocol.accept
        for words, answer, right in zip(lists, frame["answer"], frame["correct"], strict=True)
    ]
    later = frame.duplicated(["item_id", "subject"], keep="last")
    frame["last_answer"] = frame["last_answer"].astype(bool) & ~later
    for name in ("correct", "prediction_correct", "counted"):
        frame[name] = frame[name].astype(bool)
    frame["step"] += 1
    frame["response_time"] = frame["response_time"].astype(float)
    frame["answered"] = pd.to_datetime(frame["answered"].astype(float), unit="s", utc=True)
    return frame[list(JUDGMENTS)]


def _words(text: str) -> list[str]:
    words = json.loads(text)
    if (
        not isinstance(words, list)
        or not words
        or not all(isinstance(word, str) and is_encodable(word) for word in words)
    ):
        raise TypeError("guesses are not a list of words")
    return words


def states(connection: sqlite3.Connection) -> pd.DataFrame:
    """Return the state of each item, with the columns of `STATES`."""
    rows = connection.execute(
        """SELECT i.item_id, i.step + 1, i.state, i.reason, ifnull(n.judged, 0) FROM items i
        LEFT JOIN (SELECT item, count(*) AS judged FROM assignments WHERE state = 'finished' GROUP BY item) n
        ON n.item = i.number ORDER BY i.number"""
    ).fetchall()
    frame = pd.DataFrame(rows, columns=list(STATES))
    frame["reason"] = frame["reason"].astype("str")
    return frame


def step_counts(connection: sqlite3.Connection, protocol: Protocol) -> Table:
    """Return the number of items that entered and left each step, with the columns of `FUNNEL`."""
    counts = np.zeros((len(protocol.steps), 3), dtype=int)
    for step, state, n in connection.execute("SELECT step, state, count(*) FROM items GROUP BY step, state"):
        counts[step, ("open", "dropped", "kept").index(state)] = n
    n_in = counts.sum(axis=1)
    if not protocol.drawn:  # what is at a step has passed those before
        n_in = n_in[::-1].cumsum()[::-1]
    dropped, total = counts[:, 1], max(1, int(counts.sum()))
    n_out = n_in - counts[:, 0] - dropped
    low, high = wilson(dropped, np.full(len(dropped), total))
    columns = (
        range(1, len(dropped) + 1), [step.condition for step in protocol.steps], n_in, counts[:, 0], dropped,
        n_out, dropped / total, low, high, n_out / total,
    )  # fmt: skip
    return Table(pd.DataFrame(dict(zip(FUNNEL, columns, strict=True))), _FUNNEL)


def costs(connection: sqlite3.Connection, protocol: Protocol) -> Table:
    """Return the costs of the submitted pages, with the columns of `COSTS`."""
    pages = dict(
        connection.execute(
            "SELECT step, count(*) FROM pages WHERE state = 'submitted' GROUP BY step"
        ).fetchall()
    )
    answers = {
        step: (n, n - counted)
        for step, n, counted in connection.execute(
            """SELECT step, count(*), sum(counted) FROM (
                SELECT a.step, a.counted, max(a.shown) FROM answers a JOIN assignments n
                ON n.subject = a.subject AND n.item = a.item AND n.state = 'finished'
                GROUP BY a.subject, a.item) GROUP BY step"""
        )
    }
    [n_kept] = connection.execute("SELECT count(*) FROM items WHERE state = 'kept'").fetchone()
    rows = [
        (number + 1, step.condition, pages.get(number, 0), *answers.get(number, (0, 0)), step.price)
        for number, step in enumerate(protocol.steps)
    ]
    frame = pd.DataFrame(rows, columns=list(COSTS[:6]))
    frame["cost"] = frame["n_pages"] * frame["price"]
    total = frame[["n_pages", "n_judgments", "n_uncounted", "cost"]].sum()
    frame["step"] = frame["step"].astype(object)
    frame.loc[len(frame)] = {"step": "all", "condition": "", "price": np.nan, **total.to_dict()}
    for name in ("n_pages", "n_judgments", "n_uncounted"):
        frame[name] = frame[name].astype(int)
    frame["cost_per_kept"] = frame["cost"] / n_kept if n_kept else np.nan
    return Table(frame[list(COSTS)], _COSTS)


def last_words(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the final judgment of each person and item, one row each."""
    return frame[frame["last_answer"]]


def agreements(frame: pd.DataFrame) -> dict[str, Agreement]:
    """Return the agreement of people on a word, by condition."""
    answers = last_words(frame).rename(columns={"name": "person"})
    answers = answers.assign(prediction=answers["prediction"].where(answers["prediction"] != ""))
    return {
        str(condition): agreement(rows[["item_id", "person", "prediction"]])
        for condition, rows in answers.groupby("condition", sort=False)
    }


def predictions(frame: pd.DataFrame, items: Items, name: str | None) -> pd.DataFrame:
    """Return the judgments of one person or of all as predictions."""
    frame = last_words(frame)
    frame = frame if name is None else frame[frame["name"] == name]
    asked = items.frame.set_index("item_id", drop=False).loc[frame["item_id"]]
    alone = ((frame["condition"] == "sentence").to_numpy()) & (asked["sentences"].map(len) > 1).to_numpy()
    asked["variant"] = asked["variant"].where(~alone, asked["variant"] + f" ({INPUTS[0]})")
    pairs = zip(frame["prediction"], frame["answer"], strict=True)
    words = [answer if match(word, answer) == "exact" else word or None for word, answer in pairs]
    columns = {
        "model": ("person: " + frame["name"]).to_numpy(),
        "score_type": "score",
        "log_prob": np.nan,
        "top_words": objects([[word for word in row if word] for row in frame["guesses"]]),
    }
    table = frame_of_answers(asked.reset_index(drop=True), words, columns, {})
    # right but for case at most, as the table says of every model
    table["correct"] &= frame["prediction_correct"].to_numpy()
    table["p_correct"] = table["correct"].astype(float)
    return check_predictions(table)


def unfolding(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the cumulative share of right judgments by the number of context sentences."""
    frame = last_words(frame)
    frame = frame[frame["condition"] == "unfolding"]
    n_max = int(frame["shown"].max()) if len(frame) else -1
    needed = frame.loc[frame["correct"], "shown"].to_numpy()
    return curve(needed, len(frame), n_max)


def curve(needed: npt.NDArray[np.int64], n: int, n_max: int) -> pd.DataFrame:
    """Return how many of `n` need at most 0, 1, ... `n_max` sentences, with the columns of `UNFOLDING`."""
    sentences = np.arange(n_max + 1)
    n_guessed = np.searchsorted(np.sort(needed), sentences, side="right")
    low, high = wilson(n_guessed, np.full(len(sentences), n))
    columns = (sentences, np.full(len(sentences), n), n_guessed, n_guessed / max(1, n), low, high)
    return pd.DataFrame(dict(zip(UNFOLDING, columns, strict=True)))
