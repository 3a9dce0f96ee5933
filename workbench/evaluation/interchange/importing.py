"""The three ways in which results computed elsewhere become predictions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from workbench.evaluation.interchange import agreement as people
from workbench.evaluation.interchange import answer_tables as answered
from workbench.evaluation.interchange import export as exported
from workbench.evaluation.interchange import lm_eval as samples
from workbench.evaluation.interchange.agreement import Agreement
from workbench.evaluation.interchange.matching import Placed, Row, assign, by_id, joined, loaded
from workbench.evaluation.interchange.read import Notes, Record
from workbench.items.items import Items
from workbench.items.schema import DataError, objects
from workbench.runs import predictions
from workbench.runs import store as results
from workbench.runs.predictions import nullable

_HOW = {"id": "by id", "exact": "exactly", "same wording": "by wording", "same key": "by key"}


class Told(NamedTuple):
    """What the caller said of the file."""

    model: str | None
    variant: str | None


@dataclass(frozen=True)
class Made:
    """Predictions made of a file, and what is known of them: see the attributes of `Imported`."""

    kind: str
    frame: pd.DataFrame
    items: Items
    matched: dict[str, int]
    info: dict[str, Any] = field(default_factory=dict)
    people: pd.DataFrame | None = None
    by_item: pd.DataFrame | None = None
    agreement: Agreement | None = None


def harness(found: Sequence[Record], items: Items | None, notes: Notes, told: Told, text: str | None) -> Made:
    """Make predictions of a sample log of lm-evaluation-harness."""
    log = samples.log_of(notes.path)
    if items is None:
        seen = told.variant or log.variant
        if seen is None:
            raise DataError(
                f"the task {log.task!r} does not tell which form of LAMBADA's text was read",
                file=notes.path,
                remedy='pass variant="openai" (running text) or variant="plain" (tokens, lower case)',
            )
        items = loaded("lambada", "test", seen, notes)
    if (model := told.model or log.model) is None:
        raise DataError(
            "the model's name is not known: no results_*.json beside the file names it",
            file=notes.path,
            remedy='pass model="..."',
        )
    rows, templates = [], set()
    for record in found:
        try:
            one = samples.sample(record.line, record.fields, text)
        except ValueError as error:
            notes.bad(str(error), record.line)
            continue
        templates.add(one.template)
        rows.append(Row(one.line, model, one.text, {"sample": one}))
    if log.n is not None and log.n != len(found):
        notes.note(f"the results tell of {log.n:,} passages, the file holds {len(found):,}", kept=True)
    placed, variants = assign(rows, items, notes, told.variant, log.variant)
    answers = items.frame["answer"].tolist()
    logged = [(one.row.said["sample"], answers[one.place]) for one in placed]
    for one, answer in logged:
        if math.isnan(one.log_prob):
            notes.note("the log-likelihood is no number", one.line, one.text, kept=True)
        if not samples.same_target(one.target, answer):
            problem = f"the harness asked for {one.target.strip()[:40]!r}, the item's answer is {answer!r}"
            notes.note(problem, one.line, one.text, kept=True)
    log_probs = np.array([one.log_prob for one, _ in logged], dtype=float)
    greedy = [one.greedy for one, _ in logged]
    frame = _frame(
        placed,
        items,
        variants,
        prediction=[answer if one.greedy else None for one, answer in logged],
        score_type=["log_prob"] * len(logged),
        log_prob=log_probs,
        log_prob_uncorrected=log_probs,
        greedy_correct=pd.array(greedy, dtype="boolean"),
        prompt=log.prompt(templates),
    )
    info = {"task": log.task, **log.info}
    return Made("lm-evaluation-harness", frame, _those(items, placed), _counted(placed), info)


def answers(
    found: Sequence[Record],
    names: answered.Columns,
    items: Items | None,
    notes: Notes,
    told: Told,
    *,
    seed: int,
) -> Made:
    """Make predictions of a table of answers, by models or by people."""
    if told.model is None and names.person is None and names.model is None:
        raise DataError(
            "no column says whose answers these are",
            file=notes.path,
            remedy='pass model="...", or person="..." for the column that names people',
        )
    rows = answered.rows(found, names, told.model, notes)
    if items is None:
        items = by_id([row.item for row in rows], told.variant, notes)
    placed, variants = assign(rows, items, notes, told.variant, None)
    said = [one.row.said for one in placed]
    log_probs = np.array([row.get("log_prob", np.nan) for row in said], dtype=float)
    scored = {one.row.who for one, value in zip(placed, log_probs, strict=True) if not math.isnan(value)}
    frame = _frame(
        placed,
        items,
        variants,
        prediction=[row["prediction"] for row in said],
        score_type=["log_prob" if one.row.who in scored else "score" for one in placed],
        log_prob=log_probs,
    )
    matched, asked = _counted(placed), _those(items, placed)
    if names.person is None:
        return Made("answers", frame, asked, matched)
    given = frame.rename(columns={"model": "person"})[["item_id", "person", "prediction", "correct"]]
    given["person"] = given["person"].str.removeprefix(answered.PERSON)
    everyone = pd.concat([frame, _majority(given, asked, seed, variants)], ignore_index=True)
    return Made(
        "people",
        predictions.check(everyone),
        asked,
        matched,
        people=people.by_person(given),
        by_item=people.by_item(given),
        agreement=people.agreement(given),
    )


def _majority(given: pd.DataFrame, items: Items, seed: int, variants: Sequence[str]) -> pd.DataFrame:
    """Return the predictions of the majority; ``p_correct`` is that of the draw among equals."""
    most = people.majority(given, seed)
    name = f"majority of {given['person'].nunique()} people"
    frame = predictions.from_answers(items, most[["item_id", "prediction"]], model=name)
    tied = dict(zip(most["item_id"], most["tied"], strict=True))
    pairs = zip(frame["item_id"], frame["answer"], strict=True)
    share = [
        np.nan if pd.isna(answer) else float(answer.casefold() in tied[item]) / max(1, len(tied[item]))
        for item, answer in pairs
    ]
    label = next(iter(variants)) if len(set(variants)) == 1 else None
    return frame.assign(p_correct=share, variant=label or frame["variant"])


def table(found: Sequence[Record], items: Items | None, notes: Notes, told: Told) -> Made:
    """Make predictions of a table that has the columns of predictions already."""
    frame, lines = exported.frame_of(found, notes)
    known = {field.name for field in predictions.SCHEMA}
    if more := sorted({name for record in found for name in record.fields} - known - {"text"}):
        notes.note(f"not read: the columns {', '.join(map(repr, more))}", kept=True)
    if items is None:
        sets = frame[["dataset", "split", "variant"]].dropna().drop_duplicates()
        parts = [
            loaded(str(one.dataset), str(one.split), str(one.variant), notes)
            for one in sets.itertuples(index=False)
        ]
        items = parts[0] if len(parts) == 1 else joined(parts, notes)
    if told.model is not None:
        if len(set(frame["model"])) > 1:
            names = ", ".join(map(repr, frame["model"].unique()[:3]))
            raise DataError(f"the file holds several models ({names})", file=notes.path, remedy="omit model=")
        frame["model"] = told.model
    frame = frame[_fitting(frame, lines, items, notes, told)].reset_index(drop=True)
    if not len(frame):
        raise DataError(
            "no prediction is about one of the items",
            file=notes.path,
            remedy="pass the items that it is about",
        )
    try:
        checked = predictions.check(frame, items)
    except DataError as error:
        raise DataError(error.problem, file=notes.path, remedy=error.remedy) from None
    asked = items.where(items.frame["item_id"].isin(checked["item_id"]).to_numpy())
    return Made("predictions", checked, asked, {_HOW["id"]: len(checked)})


def _fitting(frame: pd.DataFrame, lines: list[int], items: Items, notes: Notes, told: Told) -> list[bool]:
    """Tell which rows are about the items as these are; change the variant of all where it was told."""
    known = items.frame.set_index("item_id")[["answer", "variant"]].to_dict("index")
    if told.variant is not None:
        frame["variant"] = told.variant
    fits = []
    rows = zip(frame["item_id"], frame["answer"], frame["variant"], lines, strict=True)
    for item_id, answer, variant, line in rows:
        item = known.get(item_id)
        if item is None:
            notes.note("no item has this id", line, str(item_id), kept=False)
        elif told.variant is None and variant != item["variant"]:
            raise DataError(
                f"the predictions are of the variant {variant!r}, the items of {item['variant']!r}",
                file=notes.path,
                line=line,
                remedy=f"pass items of that variant, or variant={variant!r} to take these all the same",
            )
        elif _word(answer) != _word(item["answer"]):
            notes.bad(f"the answer is {answer!r}, that of the item {item['answer']!r}", line, str(item_id))
            item = None
        fits.append(item is not None)
    return fits


def _word(answer: Any) -> str | None:
    return None if pd.isna(answer) else str(answer).casefold()


def _frame(placed: Sequence[Placed], items: Items, variants: Sequence[str], **said: Any) -> pd.DataFrame:
    """Return checked predictions of what was said about the items in their places."""
    asked = items.frame.iloc[[one.place for one in placed]].reset_index(drop=True)
    has = asked["answer"].notna().to_numpy()
    given = zip(said["prediction"], asked["answer"], has, strict=True)
    correct = np.array([bool(ok and _word(p) == _word(a)) for p, a, ok in given], dtype=bool)
    empty = objects([None] * len(placed))
    choices = [None if c is None else len(c) for c in asked["candidates"]]
    optional = {name: said.pop(name) for name in predictions.OPTIONAL if name in said}
    columns = {
        "model": [one.row.who for one in placed],
        "correct": nullable(correct, has),
        "p_correct": np.where(has, correct.astype(float), np.nan),
        "rank": pd.NA,
        "n_tied": pd.NA,
        "n_choices": pd.array(choices, dtype="Int64"),
        "known": nullable(has, has),
        **dict.fromkeys(("top_words", "top_log_probs", "candidate_scores"), empty),
    }
    return predictions.frame_of(asked.assign(variant=list(variants)), columns | said, optional)


def _those(items: Items, placed: Sequence[Placed]) -> Items:
    mask = np.zeros(len(items), dtype=bool)
    mask[[one.place for one in placed]] = True
    return items.where(mask)


def _counted(placed: Sequence[Placed]) -> dict[str, int]:
    counts = Counter(one.how for one in placed)
    return {shown: counts[how] for how, shown in _HOW.items() if counts[how]}


def kept(made: Made, info: dict[str, Any]) -> tuple[pd.DataFrame, tuple[results.Run, ...]]:
    """Keep the predictions, one run a model and run of the file; rows without a run get its name."""
    frame, runs = made.frame.copy(), []
    for (model, run), part in made.frame.groupby(["model", "run"], sort=False):
        asked = made.items.where(made.items.frame["item_id"].isin(part["item_id"]).to_numpy())
        told = info | ({"run_of_file": str(run)} if run else {})
        one = results.keep(asked, part.assign(run=""), **told)
        runs.append(one)
        if not run:
            frame.loc[(frame["model"] == model) & (frame["run"] == ""), "run"] = one.run
    return frame, tuple(runs)
