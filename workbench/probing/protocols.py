"""One model under several evaluation protocols, and the effect of each rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import pairwise, permutations, product
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd

from workbench.evaluation.align import align
from workbench.evaluation.comparison import Comparison
from workbench.evaluation.metrics import evaluate
from workbench.items.items import Items, check_items
from workbench.models.base import Predictor
from workbench.models.pretrained.causal import CausalLM, Scoring
from workbench.models.pretrained.prompts import Beginning, Prompt, Space
from workbench.models.pretrained.search import sharing_words
from workbench.predictions.schema import check_model
from workbench.predictions.store import Run, predict
from workbench.render.results import Table, TableColumn, TableLayout, with_interval
from workbench.storage.errors import DataError, check_option, check_value

Unit = Literal["whole-word", "word", "last-token"]
Words = Literal["none", "vocabulary", "stop-words"]

WATERFALL = (
    "step", "factor", "before", "after", "accuracy", "difference", "difference_low", "difference_high",
    "n_gained", "n_lost", "perplexity_ratio", "perplexity_ratio_low", "perplexity_ratio_high",
)  # fmt: skip
"""Columns of `ProtocolRuns.waterfall`."""

OPEN_COMPARISON: list[Callable[..., Any]] = []
"""What opens a comparison in JupyterLab; widgets are not known here."""

_CORRECT = {"whole-word": "whole-word", "word": "greedy", "last-token": "last-token"}
_DETOKENISED = " detokenised"
_SAME = 0.9  # least share of answers that variants of the same items have in common


@dataclass(frozen=True)
class ScoringProtocol:
    """Rules by which predictions are made and counted: a value of each factor; see :func:`protocols`."""

    text: str = "plain"
    unit: Unit = "whole-word"
    filter: Words = "none"
    beginning: Beginning = "tokenizer"
    space: Space = "word"
    shots: int = 0
    template: str = "{text}"

    def __post_init__(self) -> None:
        """Check the values."""
        choices = {"unit": Unit, "filter": Words, "beginning": Beginning, "space": Space}
        for name, values in choices.items():
            check_option(name, getattr(self, name), get_args(values))

    @property
    def variant(self) -> str:
        """Variant of the items."""
        return self.text.removesuffix(_DETOKENISED)

    @property
    def is_detokenised(self) -> bool:
        """Whether tokens are joined."""
        return self.text.endswith(_DETOKENISED)

    def changes(self, other: ScoringProtocol) -> list[str]:
        """Return the factors whose values differ."""
        return [name for name in FACTORS if getattr(self, name) != getattr(other, name)]


FACTORS = tuple(each.name for each in fields(ScoringProtocol))
"""Names of the factors, in the order in which they are changed."""


@dataclass(frozen=True)
class ProtocolRuns:
    """Runs of one model under several protocols.

    Attributes
    ----------
    items : Items (n,)
        Settings of the first protocol, as far as all variants have them.
    runs : dict of ScoringProtocol to Run
    path : tuple of ScoringProtocol
        Protocols of the waterfall, from the first to the last.
    skipped : dict of ScoringProtocol to str
        Combinations that were left out, and why.
    """

    items: Items = field(repr=False)
    runs: dict[ScoringProtocol, Run] = field(repr=False)
    path: tuple[ScoringProtocol, ...]
    skipped: dict[ScoringProtocol, str] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = field(default=(), repr=False)
    drawing: dict[str, Any] = field(default_factory=dict, repr=False)  # level, resamples and seed

    @property
    def table(self) -> Table:
        """One row a protocol: the factors that differ, and accuracy and perplexity with their intervals.

        The perplexity is of what is predicted: of ``unit="word"``, of the sub-tokens, whatever follows them.
        """
        names = [name for name in FACTORS if len({getattr(each, name) for each in self.runs}) > 1]
        rows = []
        for protocol, run in self.runs.items():
            measured = evaluate(_of_unit(run, protocol.unit), **self.drawing).iloc[0].to_dict()
            rows.append({name: getattr(protocol, name) for name in FACTORS} | measured)
        frame = pd.DataFrame(rows).drop(columns=["model"])
        frame.attrs["note"] = (*self.notes, *self._method())
        columns = (
            *(TableColumn(name, tooltip=_TOOLTIPS[name]) for name in names),
            TableColumn("n", "count"),
            with_interval("accuracy", "share"),
            with_interval("perplexity", "perplexity"),
        )
        return Table(frame, TableLayout(f"{self.model} by protocol", columns))

    @property
    def model(self) -> str:
        """Name of the model without the settings of its protocols."""
        run = self.runs[self.path[0]]
        return str(run.info["training"].get("pretrained", run.model))

    @cached_property
    def comparison(self) -> Comparison:
        """The predictions of the path for the items of all; log-probabilities are of what is predicted."""
        runs = [_of_unit(self.runs[each], each.unit) for each in self.path]
        made = align(self.items, runs, **self.drawing)
        common = made.mask.all(axis=0)
        return made if common.all() else align(made.items.where(common), runs, **self.drawing)

    @property
    def waterfall(self) -> Table:
        """One row a step of the path: the change, and its effect on the same items.

        Row 0 is the first protocol, and the last row the change from the first to the last one (``factor``
        "total"). Columns: ``step``, ``factor``, ``before``, ``after`` (values of the factor), ``accuracy``
        after the step, ``difference`` with its paired interval, ``n_gained`` and ``n_lost`` (items that
        became right and wrong), and ``perplexity_ratio`` (after divided by before) with its interval; null
        where the unit changes or one side has no log-probabilities.
        """
        made, last = self.comparison, len(self.path) - 1
        ends = [*pairwise(range(last + 1)), (0, last)] if last else []
        accuracy = made.shares.mean(axis=1)
        first = {"step": 0, "factor": "first", "after": _describe(self.path[0]), "accuracy": accuracy[0]}
        rows: list[dict[str, Any]] = [first]
        if ends:
            pairs = np.array([(after, before) for before, after in ends]).T
            tests = made.tests(pairs)
            mean, *bounds = made.log_prob_intervals(pairs)
            for number, (before, after) in enumerate(ends):
                sides = self.path[before], self.path[after]
                changed = _changed_factors(*sides) if number < last else ("total", *map(_describe, sides))
                each = (tests.difference, tests.low, tests.high, tests.only_a, tests.only_b)
                values = [accuracy[after], *(column[number] for column in each)]
                if sides[0].unit == sides[1].unit:
                    values += list(np.exp(-np.array([mean, *bounds[::-1]])[:, number]))
                step = number + 1 if number < last else None
                rows.append(dict(zip(WATERFALL, (step, *changed, *values), strict=False)))
        frame = pd.DataFrame(rows, columns=list(WATERFALL))
        texts, numbers = dict.fromkeys(WATERFALL[1:4], "str"), dict.fromkeys(WATERFALL[4:], "Float64")
        frame = frame.astype(texts | numbers | dict.fromkeys(("step", "n_gained", "n_lost"), "Int64"))
        frame.attrs |= {"note": (*self.notes, *self._method()), "model": self.model, "n": made.n}
        columns = (
            TableColumn("step", "count"),
            TableColumn("factor", tooltip="The rule that changed."),
            *(TableColumn(name, tooltip=f"Value {name} the step.") for name in ("before", "after")),
            TableColumn("accuracy", "share"),
            with_interval("difference", "points", tooltip="Change in accuracy, with its paired interval."),
            TableColumn("n_gained", "count"),
            TableColumn("n_lost", "count"),
            with_interval("perplexity_ratio", "quantity"),
        )
        return Table(frame, TableLayout(f"{self.model}: from one protocol to the other", columns))

    def flips(self, step: int) -> pd.DataFrame:
        """Return the items whose outcome changed in a step of the waterfall, one row an item.

        Steps count from 1; 0 compares the first protocol with the last. Columns: ``item_id``, ``answer``, the
        predictions ``before`` and ``after``, and ``change``: "gained" or "lost".
        """
        before, after = self._ends(step)
        made = self.comparison
        right = made.correct[[before, after]]
        rows = np.flatnonzero(right[0] != right[1])
        words = {
            name: [column[row] for row in rows]
            for name, column in (("before", made.words(before)), ("after", made.words(after)))
        }
        columns = {"item_id": [made.item_ids[row] for row in rows]}
        columns |= {"answer": [made.answers[row] for row in rows], **words}
        return pd.DataFrame({**columns, "change": np.where(right[1][rows], "gained", "lost")})

    def compare(self, step: int | None = None, **options: Any) -> Any:
        """Open `wb.compare` on the protocols of the waterfall; a click on two lists the changed items.

        With a `step`, as for `flips`: on its two protocols, and the items of which one of them has the right
        answer. Options are those of :func:`workbench.compare`.
        """
        if not OPEN_COMPARISON:
            raise DataError("there is nothing to open a comparison with", hint="use wb.protocols")
        if step is not None:
            options = {"state": {"where": "disagreement > 0"}} | options
        chosen = self.path if step is None else [self.path[end] for end in self._ends(step)]
        return OPEN_COMPARISON[0](self.items, [self.runs[protocol] for protocol in chosen], **options)

    def _ends(self, step: int) -> tuple[int, int]:
        last = len(self.path) - 1
        expected = f"a step from 1 to {last}, or 0 for all of them; one protocol alone has no step"
        check_value("step", step, last > 0 and step in range(last + 1), expected)
        return (int(step) - 1, int(step)) if step else (0, last)

    def _method(self) -> list[str]:
        made = self.comparison
        level, resamples, seed = made.sampling
        return [
            f"{made.n:,} items; {100 * level:g} % intervals by {made.units.by}.",
            f"{resamples:,} replicates, seed {seed}.",
            *(f"Left out, {_describe(protocol)}: {why}." for protocol, why in self.skipped.items()),
        ]

    def _repr_html_(self) -> str:
        return f"{self.waterfall.to_html()}{self.table.to_html()}"


_TOOLTIPS = {
    "text": "Form of the text that the model reads.",
    "unit": "What has to be right: the word and its end, its sub-tokens, or the last sub-token.",
    "filter": "What the prediction is chosen from: anything, a vocabulary, or that without stop words.",
    "beginning": "What stands before the text.",
    "space": "With what the space before the word is encoded.",
    "shots": "Examples before the passage.",
    "template": "Template of the prompt.",
}


def protocols(
    model: Predictor,
    items: Items | Iterable[Items],
    protocols: Sequence[Mapping[str, Any]] | None = None,
    *,
    vocabulary: Any = None,
    examples: Items | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    **factors: Any,
) -> ProtocolRuns:
    """Evaluate a model under several protocols, and measure the effect of each change on its accuracy.

    Parameters
    ----------
    model : Predictor
        A :class:`workbench.models.CausalLM`, whose weights all protocols share. Other models are evaluated on
        the variants of the text, and counted as they always are.
    items : Items, or several
        Items of one variant, or of several variants of the same texts, matched by ``item_id``.
    protocols : sequence of dict, optional
        Factors of each protocol, such as ``{"text": "openai", "unit": "word"}``, in the order of the
        waterfall. Between two that differ in several factors, the waterfall has
        the protocols that change one factor after the other.
    vocabulary : optional
        Words to choose from, as of `CausalLM`: needed by ``filter="vocabulary"`` and ``"stop-words"``.
    examples : Items, optional
        Examples to draw from: needed by ``shots``.
    level, resamples, seed : float, int, int
        Confidence level of the intervals, number of replicates, and the seed of these and of the examples.
    **factors
        Instead of `protocols`: one value or a list of values of each factor. All combinations are evaluated,
        those that have no meaning left out. The waterfall begins with the first value of each, and changes
        one factor after the other in the order in which they are written. The factors:

        ``text`` : str
            Variant of the items, such as "plain", "capitalised" or "openai"; with " detokenised" after it,
            tokens are joined as a book would print them. By default the variant of the first items.
        ``unit`` : {"whole-word", "word", "last-token"}
            Unit that must be right: the word and its end; the sub-tokens of the word, whatever follows, as in
            lm-evaluation-harness; or the last sub-token, given those before it.
        ``filter`` : {"none", "vocabulary", "stop-words"}
            Set of predictable words: any that the model writes; the words of a vocabulary; or these
            without stop words.
        ``beginning`` : {"tokenizer", "nothing", "newline", "mark"}
            Text before the passage: see :class:`workbench.models.pretrained.prompts.Prompt`.
        ``space`` : {"word", "context"}
            Neighbour with which the space before the word is encoded.
        ``shots`` : int
            Number of examples before the passage.
        ``template`` : str
            Template of the prompt; ``{text}`` is the passage up to the answer.

    Returns
    -------
    ProtocolRuns
        ``runs`` by protocol, whose attributes are the factors; ``table``, ``waterfall``,
        ``flips(step)`` and ``compare(step)``; see also :func:`workbench.charts.waterfall`.

    Raises
    ------
    DataError
        If a protocol cannot be followed, there is none, or variants are of different items.

    Notes
    -----
    What protocols share is computed once: the three units of a text are counted from one pass, and runs that
    are stored are found again.

    Examples
    --------
    >>> from workbench.models import CausalLM
    >>> variants = [wb.load("sample", variant=name)[:4] for name in ("plain", "openai")]
    >>> model = CausalLM(gpt2)
    >>> result = wb.protocols(model, variants, text=["plain", "openai"], unit=["whole-word", "last-token"])
    >>> result.waterfall["factor"].tolist()
    ['first', 'text', 'unit', 'total']
    """
    check_model(model, "protocols")
    several = [items] if isinstance(items, Items) or not isinstance(items, Iterable) else list(items)
    for each in several:
        check_items(each, "protocols")
    variants = _match_variants(several)
    check = _Check(model, tuple(variants), vocabulary is not None, examples is not None)
    if protocols is not None and (factors or not protocols):
        raise DataError(
            f"expected protocols or factors, got {len(protocols)} protocols and {len(factors)} factors",
            hint='name either, such as unit="last-token"',
        )
    if protocols is not None:
        wanted = [_protocol(values, check) for values in protocols]
        path = _path(wanted, check)
        skipped: dict[ScoringProtocol, str] = {}
        for protocol in wanted:
            check(protocol)
    else:
        wanted, path, skipped = _product(factors, check)
    wanted = list(dict.fromkeys([*path, *wanted]))
    runs: dict[ScoringProtocol, Run] = {}
    with sharing_words():
        for protocol in sorted(wanted, key=_shared_text):
            asked = _configure(model, protocol, vocabulary, examples, seed)
            runs[protocol] = predict(variants[protocol.variant], asked, seed=seed)
    lost = max(map(len, several)) - len(variants[path[0].variant])
    notes = (f"{lost:,} items are left out that not all variants have.",) if lost else ()
    drawing = {"level": level, "resamples": resamples, "seed": seed}
    ordered = {protocol: runs[protocol] for protocol in wanted}
    return ProtocolRuns(variants[path[0].variant], ordered, tuple(path), skipped, notes, drawing)


class _Check(NamedTuple):
    """Raises DataError where a model cannot be evaluated by a protocol."""

    model: Predictor
    variants: tuple[str, ...]
    has_vocabulary: bool
    has_examples: bool

    def __call__(self, protocol: ScoringProtocol) -> None:
        if reason := self.reason(protocol):
            raise DataError(reason, hint="choose another value of the factor, or pass what it needs")

    def reason(self, protocol: ScoringProtocol) -> str:
        """Return why a protocol cannot be applied; empty if it can."""
        changes = protocol.changes(ScoringProtocol(protocol.variant))
        reasons = {
            f"there are no items of the variant {protocol.variant!r}, only of {', '.join(self.variants)}": (
                protocol.variant not in self.variants
            ),
            f"{self.model.name} has no choice of {', '.join(changes)}: it is not a CausalLM": (
                bool(changes) and not isinstance(self.model, CausalLM)
            ),
            f"filter={protocol.filter!r} needs words (vocabulary=)": (
                protocol.filter != "none" and not self.has_vocabulary
            ),
            "words of a vocabulary are whole words (unit), with the space before them (space)": (
                protocol.filter != "none" and (protocol.unit != "whole-word" or protocol.space == "context")
            ),
            f"shots={protocol.shots!r} needs examples (examples=)": (
                bool(protocol.shots) and not self.has_examples
            ),
        }
        return next((reason for reason, applies in reasons.items() if applies), "")


def _protocol(values: Mapping[str, Any], check: _Check) -> ScoringProtocol:
    """Return the protocol with these values of factors; `text` is the first variant by default."""
    for name in values:
        check_option("the factor", name, FACTORS)
    return ScoringProtocol(**{"text": check.variants[0], **values})


def _product(
    factors: Mapping[str, Any], check: _Check
) -> tuple[list[ScoringProtocol], list[ScoringProtocol], dict[ScoringProtocol, str]]:
    """Return all valid combinations of values, the path through them, and the others."""
    values = {"text": [check.variants[0]]} | {
        name: list(dict.fromkeys([value] if isinstance(value, str | int) else value))
        for name, value in factors.items()
    }
    for name, choices in values.items():
        check_option("the factor", name, FACTORS)
        check_value(name, choices, bool(choices), "one value or more")
    every = [
        ScoringProtocol(**dict(zip(values, chosen, strict=True))) for chosen in product(*values.values())
    ]
    reasons = {protocol: check.reason(protocol) for protocol in every}
    if all(reasons.values()):
        check(every[0])
    current = next(protocol for protocol in every if not reasons[protocol])
    path = [current]
    for name in factors:
        for value in values[name]:
            change: dict[str, Any] = {name: value}
            changed = replace(current, **change)
            if changed not in path and not reasons[changed]:
                path.append(current := changed)
    wanted = [protocol for protocol in every if not reasons[protocol]]
    return wanted, path, {protocol: reason for protocol, reason in reasons.items() if reason}


def _path(listed: Sequence[ScoringProtocol], check: _Check) -> list[ScoringProtocol]:
    """Return protocols with intermediate ones, so that each step changes one factor."""
    path = list(listed[:1])
    for before, after in pairwise(listed):
        for order in permutations(before.changes(after)):
            between = [before]
            for name in order:
                between.append(replace(between[-1], **{name: getattr(after, name)}))
            if not any(map(check.reason, between)):
                path += between[1:]
                break
        else:
            path.append(after)
    return path


def _shared_text(protocol: ScoringProtocol) -> tuple[Any, ...]:
    """Return a key that groups protocols by the text that the model gets."""
    return tuple(getattr(protocol, name) for name in FACTORS if name != "unit")


def _configure(
    model: Predictor, protocol: ScoringProtocol, vocabulary: Any, examples: Items | None, seed: int
) -> Predictor:
    """Return the model with the settings of a protocol; the weights are shared."""
    if not isinstance(model, CausalLM):
        return model
    prompt = Prompt(
        protocol.template, examples=examples if protocol.shots else None, shots=protocol.shots,
        seed=seed if protocol.shots else 0, beginning=protocol.beginning, space=protocol.space,
    )  # fmt: skip
    has_words = protocol.filter != "none"
    return CausalLM(
        model,
        text="detokenised" if protocol.is_detokenised else "as-is",
        correct="words" if has_words else _CORRECT[protocol.unit],  # type: ignore[arg-type]
        vocabulary=vocabulary if has_words else None,
        scoring=Scoring(
            filter="stop-words" if protocol.filter == "stop-words" else "none",
            budget=0 if has_words else 100,
        ),
        prompt=None if prompt.config == Prompt().config else prompt,
    )


def _match_variants(several: Sequence[Items]) -> dict[str, Items]:
    """Return items by variant: those that all variants share, with the same answer but for case."""
    variants: dict[str, Items] = {}
    for items in several:
        names = items.frame["variant"].unique().tolist()
        if len(names) != 1 or names[0] in variants:
            problem = f"the items are of the variants {', '.join(map(str, names)) or 'none'}"
            raise DataError(problem, hint="pass one Items for each variant of the same texts")
        variants[names[0]] = items
    check_value("items", several, bool(variants), "Items of one variant or more")
    answers = pd.DataFrame(
        {name: items.frame.set_index("item_id")["answer"] for name, items in variants.items()}
    )
    shared = answers.dropna().apply(lambda column: column.str.casefold())
    same = shared.eq(shared.iloc[:, 0], axis=0).all(axis=1)
    if not same.any() or same.mean() < _SAME:
        problem = f"{int(same.sum()):,} of {len(same):,} items have the same answer in the variants"
        raise DataError(f"{problem} {', '.join(variants)}", hint="pass variants of the same items")
    ids = set(shared.index[same])
    return {name: items.where(items.frame["item_id"].isin(ids)) for name, items in variants.items()}


def _of_unit(run: Run, unit: Unit) -> Run | pd.DataFrame:
    """Return predictions with the log-probability of what is predicted: without the word's end if "word"."""
    if unit != "word":
        return run
    predictions = run.predictions
    return predictions.assign(log_prob=predictions["log_prob_uncorrected"], log_prob_uncorrected=np.nan)


def _describe(protocol: ScoringProtocol) -> str:
    """Describe a protocol: the text, the unit, and the unusual settings."""
    names = [name for name in ScoringProtocol().changes(protocol) if name not in {"text", "unit"}]
    others = [f"{name} {getattr(protocol, name)}" for name in names]
    return ", ".join([protocol.text, protocol.unit, *others])


def _changed_factors(*sides: ScoringProtocol) -> list[str]:
    """Return the factors that differ, and their values on both sides."""
    names = sides[0].changes(sides[1])
    values = [", ".join(str(getattr(each, name)) for name in names) for each in sides]
    return [", ".join(names), *values]
