"""Plans of evaluations, written before the results are seen, and how often the results were looked at since.

A plan is one JSON file with a checksum. Writers read it again under a lock and replace it as a whole.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from filelock import FileLock

from workbench.evaluation.model_predictions import ModelPredictions, as_list
from workbench.evaluation.paired import mcnemar_power, minimum_detectable_effect
from workbench.items.cells import check_encodable
from workbench.items.items import Items, check_items
from workbench.predictions import store
from workbench.predictions.measures import MEASURES
from workbench.render.numbers import percent, points
from workbench.render.results import Table, TableColumn, TableLayout
from workbench.storage.cache import digest
from workbench.storage.errors import DataError, check_option, reading, writing
from workbench.storage.files import list_folder, read_json, write_atomic
from workbench.storage.packages import commit, library_versions
from workbench.storage.paths import data_home

_REMEDY = "restore the file, or delete it and write the plan again"
_SHARES = (0.05, 0.1, 0.2, 0.3)  # of discordant items, where none is expected
_SHOWN = (
    TableColumn("created", "time"), TableColumn("hypothesis"), TableColumn("measure", "column"),
    TableColumn("n", "count"), TableColumn("effect", "points"), TableColumn("mde", "unsigned points"),
    TableColumn("power", "share"), TableColumn("looks", "count"),
)  # fmt: skip


@dataclass(frozen=True)
class Look:
    """One look at planned items: when, by which function, and the models whose results were new."""

    time: str
    function: str
    models: tuple[str, ...]
    results: tuple[str, ...]  # digests of what the models had right


@dataclass(frozen=True)
class Plan:
    """A plan of tests on items, written in advance; made by :func:`plan`, shown by ``print``.

    Attributes
    ----------
    plan : str
        Name of the file, in ``plans/`` of :func:`workbench.storage.paths.data_home`.
    created : str
        Date and time (UTC).
    hypothesis, measure : str
    models : tuple of dict
        The ``model`` (name) of each; of a predictor also class, version and config.
    dataset, split, variant : str
        Names of the items' sets; several are joined by ``+``.
    n, items_digest, item_ids : int, str, tuple of str
        The items: how many, the SHA-256 of all their columns, and their ids.
    effect, discordant : float or None
        Expected difference between two models, and expected share of items that only one of them gets right.
    level : float
        Confidence level of the test.
    mde, power : float or None
        Minimum detectable effect (80 % power), and the power for `effect`, both of McNemar's exact test.
    runs_before : tuple of str
        Stored runs of these very items when the plan was written: their results may have been seen.
    commit, versions : str or None, dict
        Commit and package versions of the code that wrote the plan.
    looks : tuple of Look
    """

    plan: str
    created: str
    hypothesis: str
    measure: str
    models: tuple[Mapping[str, Any], ...]
    dataset: str
    split: str
    variant: str
    n: int
    items_digest: str
    item_ids: tuple[str, ...]
    effect: float | None
    discordant: float | None
    level: float
    mde: float | None
    power: float | None
    runs_before: tuple[str, ...]
    commit: str | None
    versions: Mapping[str, str]
    looks: tuple[Look, ...] = ()

    @property
    def line(self) -> str:
        """Description of the plan in tables: ``Planned 2026-11-27, look 2: <hypothesis>``."""
        n = len(self.runs_before)
        before = f" (after {n:,} stored run{'s' * (n > 1)} of these items)" * bool(n)
        return f"Planned {self.created[:10]}{before}, look {len(self.looks)}: {self.hypothesis}"

    @property
    def table(self) -> Table:
        """The plan, one row a detail, and its looks."""
        sets = f"{self.dataset}/{self.split}/{self.variant}"
        detectable = [(self.discordant, self.mde)]
        if self.discordant is None:
            shares = np.array(_SHARES)
            effects = minimum_detectable_effect(shares * self.n, self.n, level=self.level)
            detectable = list(zip(_SHARES, effects.tolist(), strict=True))
        texts = [
            f"{points(mde).lstrip('+')} points if {percent(share)} of the items are discordant"
            for share, mde in detectable
            if share is not None and mde is not None and not np.isnan(mde)
        ]
        power = "" if self.power is None else f" (power {percent(self.power)})"
        rows = {
            "Hypothesis": self.hypothesis, "Measure": self.measure, "Written": self.created,
            "Items": f"{self.n:,} of {sets}, SHA-256 {self.items_digest[:12]}…",
            "Models": "; ".join(str(each["model"]) for each in self.models),
            "Expected difference": "" if self.effect is None else f"{points(self.effect)} points{power}",
            "Detectable with 80 % power": "; ".join(texts) if self.measure == "accuracy" else "",
            "Runs of these items before": ", ".join(self.runs_before), "Commit": self.commit or "",
            **{f"Look {k}": f"{look.time[:16]}, {look.function}: {', '.join(look.models)}"
               for k, look in enumerate(self.looks, start=1)},
        }  # fmt: skip
        frame = pd.DataFrame([*rows.items()], columns=["quantity", "value"])
        return Table(frame, TableLayout(f"Plan {self.plan}", (TableColumn("quantity"), TableColumn("value"))))

    def __str__(self) -> str:
        return str(self.table)

    def _repr_html_(self) -> str:
        return self.table.to_html()


def plan(
    items: Items,
    *,
    hypothesis: str,
    measure: str = "accuracy",
    models: Any = (),
    effect: float | None = None,
    discordant: float | None = None,
    level: float = 0.95,
) -> Plan:
    """Write down a plan of tests on items, before their results are seen.

    From then on :func:`wb.evaluate`, :func:`wb.significance`, :func:`wb.leaderboard`, :func:`wb.hardest` and
    :func:`wb.compare` print the plan's date and the number of looks under results of these items. A look is a
    call that shows results that no call showed before: of another model, or of the same one with other
    outcomes. Showing the same results again, of whichever of the models, is no other look. Predictions that
    are read directly are not counted.

    Parameters
    ----------
    items : Items
        The test set; results of any of its items count.
    hypothesis : str
        One sentence.
    measure : str, default "accuracy"
        Name of a measure, as ``wb.evaluate`` has it.
    models : str or Predictor, or several of these, optional
        The models to be compared; of a predictor class, version and config are written down.
    effect : float, optional
        Expected difference in accuracy, such as 0.02: the plan says with which power it would be found.
    discordant : float, optional
        Expected share of items that only one of two models gets right, as on the development set. Without it
        the plan says what is detectable with 5, 10, 20 and 30 %.
    level : float, default 0.95
        1 - the level of significance.

    Returns
    -------
    Plan
        With `mde`, `power` and `looks`; the same plan of the same items is found again, with its first date.

    Raises
    ------
    DataError
        If there are no items, an option is invalid, or the plan cannot be written.

    Notes
    -----
    Minimum detectable effect and power are those of McNemar's exact test by item (see
    :func:`workbench.evaluation.paired.minimum_detectable_effect`). Items of one novel are alike, so a test by
    novel needs more of them.

    References
    ----------
    Card et al. 2020, "With little power comes great responsibility"; Dror et al. 2018.

    Examples
    --------
    >>> planned = wb.plan(items, hypothesis="The 3-gram model beats chance.", effect=0.3, discordant=0.4)
    >>> round(planned.mde, 2), round(planned.power, 2)
    (0.32, 0.71)
    """
    check_items(items, "plan")
    check_encodable(hypothesis, "the hypothesis")
    check_option("measure", measure, [each.name for each in MEASURES])
    shares = {"level": level, "discordant": discordant, "effect": None if effect is None else abs(effect)}
    for option, share in shares.items():
        if share is not None and not 0 < share < 1:
            raise DataError(f"{option} is {share!r:.40}, expected a fraction between 0 and 1")
    if measure != "accuracy" and (effect, discordant) != (None, None):
        problem = f"effect and discordant are of accuracies, and the measure is {measure!r}"
        raise DataError(problem, remedy="leave them out")
    if effect is not None and discordant is not None and abs(effect) > discordant:
        problem = f"a difference of {effect:g} needs that share of discordant items, got {discordant:g}"
        raise DataError(problem, remedy="expect more discordant items, or a smaller difference")
    digest_of_items, n = store.items_digest(items), len(items)
    content: dict[str, Any] = {
        "hypothesis": hypothesis.strip(), "measure": measure,
        "models": [{"model": each} if isinstance(each, str) else store.model_identity(each)
                   for each in as_list(models)],
        **{name: "+".join(map(str, items.frame[name].unique())) for name in ("dataset", "split", "variant")},
        "n": n, "items_digest": digest_of_items, "item_ids": items.frame["item_id"].tolist(),
        "effect": effect, "discordant": discordant, "level": level,
    }  # fmt: skip
    words = re.sub(r"[^a-z0-9]+", "-", f"{content['dataset']} {content['split']}".lower()).strip("-")[:80]
    name = f"{words or 'items'}-{digest(json.dumps(content, sort_keys=True))[:10]}"
    file = data_home() / "plans" / f"{name}.json"
    power = mde = None
    if discordant is not None:
        effects = minimum_detectable_effect(discordant * n, n, level=level)
        mde = None if np.isnan(effects[0]) else float(effects[0])
        power = None if effect is None else float(mcnemar_power(effect, discordant * n, n, level=level)[0])
    with _locked(file):
        if file.exists():
            return _read(file)
        infos = {run["run"]: store.find_run(run["run"]).info for run in store.runs().to_dict("records")}
        content |= {
            "plan": name, "created": _now(), "mde": mde, "power": power, "commit": commit(),
            "versions": library_versions("numpy", "scipy"), "looks": [],
            "runs_before": sorted(run for run, info in infos.items() if info.get("items") == digest_of_items),
        }  # fmt: skip
        _write(file, content)
        return _read(file)


def plans() -> Table:
    """List the plans, newest first, one row a plan.

    Columns are those of :class:`Plan` but the long ones, and ``looks``, the number of looks at its items.

    Raises
    ------
    DataError
        If a plan's file is damaged, or was changed by hand.

    Examples
    --------
    >>> planned = wb.plan(items, hypothesis="The 3-gram model beats chance.")
    >>> planned.plan in wb.plans()["plan"].tolist()
    True
    """
    left_out = {"item_ids", "models", "versions", "runs_before"}
    rows = [asdict(each) | {"looks": len(each.looks)} for each in map(_read, _files())]
    names = [name for name in Plan.__dataclass_fields__ if name not in left_out]
    frame = pd.DataFrame(rows, columns=names).astype(dict.fromkeys(("effect", "mde", "power"), "Float64"))
    frame = frame.sort_values("created", ascending=False, ignore_index=True, kind="stable")
    return Table(frame, TableLayout("Plans", _SHOWN, ("dataset", "split", "variant")))


def count_looks(function: str, models: Callable[[set[str]], Iterable[ModelPredictions]]) -> tuple[str, ...]:
    """Count a look at each plan whose items have new results; return a line to print for each.

    `function` is what shows them, such as ``evaluate``. `models`, called only where there are plans, returns
    the predictions that are shown, at least those of the data sets that it is passed. A damaged plan, or one
    that cannot be written, is left out with a warning.
    """
    valid: list[tuple[Path, Plan]] = []
    for file in _files():
        try:
            valid.append((file, _read(file)))
        except DataError as error:
            warnings.warn(f"a plan is left out: {error}", stacklevel=3)
    if not valid:
        return ()
    predictions = list(models({name for _, plan in valid for name in plan.dataset.split("+")}))
    lines = []
    for file, planned in valid:
        results = dict(filter(None, (_result(model, planned) for model in predictions)))
        try:
            lines += [_after_look(file, planned, function, results).line] if results else []
        except DataError as error:
            warnings.warn(f"a look is not counted: {error}", stacklevel=3)
    return tuple(lines)


def _result(model: ModelPredictions, planned: Plan) -> tuple[str, str] | None:
    """Return the digest of a model's outcomes on planned items, and its name; None without any."""
    table, datasets = model.table, pa.array([None, *planned.dataset.split("+")])
    mask = pc.and_(
        pc.and_(pc.is_in(table["item_id"], pa.array(planned.item_ids)), pc.is_valid(table["correct"])),
        pc.is_in(table["dataset"].cast(pa.string()), datasets),
    )
    rows = np.flatnonzero(pc.fill_null(mask, fill_value=False).to_numpy())
    if not len(rows):
        return None
    ids = table["item_id"].take(pa.array(rows)).to_pylist()
    rows = rows[sorted(range(len(rows)), key=ids.__getitem__)]
    values = model.correct_by_seed[rows].tobytes(), model.log_prob[rows].astype(np.float32).tobytes()
    return digest(model.model, json.dumps(sorted(ids)), *values), model.model


def _after_look(file: Path, planned: Plan, function: str, results: Mapping[str, str]) -> Plan:
    """Return a plan after a look at results, names of models by digest; new results count as a look."""

    def fresh(plan: Plan) -> dict[str, str]:
        seen = {result for look in plan.looks for result in look.results}
        return {result: model for result, model in results.items() if result not in seen}

    if not fresh(planned):
        return planned
    with _locked(file):
        planned = _read(file)  # another process may have counted
        if new := fresh(planned):
            look = Look(_now(), function, tuple(new.values()), tuple(new))
            _write(file, asdict(planned) | {"looks": [*map(asdict, planned.looks), asdict(look)]})
        return _read(file)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _files() -> Sequence[Path]:
    return [file for file in list_folder(data_home() / "plans") if file.suffix == ".json"]


def _locked(file: Path) -> FileLock:
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(file.with_name(f".{file.name}.lock"))


def _write(file: Path, content: Mapping[str, Any]) -> None:
    written = {**content, "sha256": digest(json.dumps(content, sort_keys=True))}
    write_atomic(file, json.dumps(written, ensure_ascii=False, indent=1) + "\n")


def _read(file: Path) -> Plan:
    content: dict[str, Any] = read_json(file, "this plan")
    with reading(file, "this plan", remedy=_REMEDY):
        if content.pop("sha256") != digest(json.dumps(content, sort_keys=True)):
            raise ValueError("it is not as it was written")
        looks = [
            Look(**look | {name: tuple(look[name]) for name in ("models", "results")})
            for look in content.pop("looks")
        ]
        content |= {name: tuple(content[name]) for name in ("models", "item_ids", "runs_before")}
        return Plan(**content, looks=tuple(looks))
