"""One model under several evaluation protocols, and the effect of each change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from workbench.evaluation.align import align
from workbench.evaluation.comparison import Comparison
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

PROTOCOL_COLUMNS = (
    "step", "factor", "before", "after", "accuracy", "accuracy_low", "accuracy_high", "difference",
    "difference_low", "difference_high", "n_gained", "n_lost", "perplexity", "perplexity_low",
    "perplexity_high",
)  # fmt: skip
"""Columns of `ProtocolRuns.table`."""

_CHANGES = (*PROTOCOL_COLUMNS[2:4], *PROTOCOL_COLUMNS[7:12])
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

    def changes(self, other: ScoringProtocol) -> list[str]:
        """Return the factors whose values differ."""
        return [name for name in FACTORS if getattr(self, name) != getattr(other, name)]

    def __str__(self) -> str:
        """Return the text, the unit, and the unusual settings."""
        names = [name for name in ScoringProtocol().changes(self) if name not in {"text", "unit"}]
        return ", ".join([self.text, self.unit, *(f"{name} {getattr(self, name)}" for name in names)])


FACTORS = tuple(each.name for each in fields(ScoringProtocol))
"""Names of the factors."""


@dataclass(frozen=True)
class ProtocolRuns:
    """Runs of one model under several protocols.

    Attributes
    ----------
    items : Items (n,)
        Items in the variant of the first protocol, as far as all variants have them.
    runs : dict of ScoringProtocol to Run
        In the order of the protocols.
    """

    items: Items = field(repr=False)
    runs: dict[ScoringProtocol, Run]
    notes: tuple[str, ...] = field(default=(), repr=False)
    sampling: dict[str, Any] = field(default_factory=dict, repr=False)  # level, resamples and seed

    @property
    def model(self) -> str:
        """Name of the model without the settings of its protocols."""
        run = next(iter(self.runs.values()))
        return str(run.info["training"].get("pretrained", run.model))

    @cached_property
    def comparison(self) -> Comparison:
        """The predictions, item by item; log-probabilities are of what is predicted."""
        runs = [_of_unit(run, protocol.unit) for protocol, run in self.runs.items()]
        return align(self.items, runs, **self.sampling)

    @cached_property
    def table(self) -> Table:
        """One row per protocol: accuracy and perplexity, and the change from the protocol before it.

        Row 0 is the first protocol, and the last row the change from the first to the last one (``factor``
        "total"). Columns: ``step``, ``factor``, ``before``, ``after`` (values of the factors that changed),
        ``accuracy``, ``difference`` with its paired interval, ``n_gained`` and ``n_lost`` (items that became
        right and wrong), and ``perplexity`` of what is predicted: for the unit "word" of the sub-tokens,
        whatever follows them.
        """
        comparison, protocols = self.comparison, list(self.runs)
        measured = comparison.table().reindex(columns=[*PROTOCOL_COLUMNS[4:7], *PROTOCOL_COLUMNS[-3:]])
        last = len(protocols) - 1
        ends = [*pairwise(range(last + 1)), (0, last)] if last else []
        tests = comparison.tests(np.array(ends, dtype=np.int64).reshape(-1, 2).T[::-1])
        rows = [{"step": 0, "factor": "first", "after": str(protocols[0])} | dict(measured.iloc[0])]
        for number, (before, after) in enumerate(ends):
            sides, names = (protocols[before], protocols[after]), protocols[before].changes(protocols[after])
            row = {"step": number + 1, "factor": ", ".join(names)}
            texts = [", ".join(str(getattr(side, name)) for name in names) for side in sides]
            if number == last:
                row, texts = {"step": None, "factor": "total"}, [str(side) for side in sides]
            columns = (tests.difference, tests.low, tests.high, tests.only_a, tests.only_b)
            changes = [*texts, *(column[number] for column in columns)]
            rows.append(row | dict(zip(_CHANGES, changes, strict=True)) | dict(measured.iloc[after]))
        frame = pd.DataFrame(rows, columns=list(PROTOCOL_COLUMNS))
        types = dict.fromkeys(PROTOCOL_COLUMNS[1:4], "str") | dict.fromkeys(PROTOCOL_COLUMNS[4:], "Float64")
        frame = frame.astype(types | dict.fromkeys(("step", "n_gained", "n_lost"), "Int64"))
        level, resamples, seed = comparison.sampling
        intervals = f"{comparison.n:,} items; {100 * level:g} % intervals by {comparison.units.by}."
        frame.attrs["note"] = (*self.notes, intervals, f"{resamples:,} replicates, seed {seed}.")
        table_columns = (
            TableColumn("step", "count"),
            TableColumn("factor"),
            TableColumn("after", heading="Protocol, or value of the factor"),
            with_interval("accuracy", "share"),
            with_interval("difference", "points", tooltip="Change in accuracy, with its paired interval."),
            TableColumn("n_gained", "count"),
            TableColumn("n_lost", "count"),
            TableColumn("perplexity", "perplexity"),
        )
        return Table(frame, TableLayout(f"{self.model} by protocol", table_columns))

    def _repr_html_(self) -> str:
        return self.table.to_html()


def protocols(
    model: Predictor,
    items: Items | Iterable[Items],
    protocols: Sequence[Mapping[str, Any]],
    *,
    vocabulary: Any = None,
    examples: Items | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> ProtocolRuns:
    """Evaluate a model under several protocols, and measure the effect of each change on its accuracy.

    Parameters
    ----------
    model : Predictor
        A :class:`workbench.models.CausalLM`, whose weights all protocols share. Other models are evaluated on
        the variants of the text, and counted as they always are.
    items : Items, or several
        Items of one variant, or of several variants of the same texts, matched by ``item_id``.
    protocols : sequence of dict
        Factors of each protocol, such as ``{"text": "openai", "unit": "word"}``; each is compared with the
        one before it. The factors:

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
    vocabulary : optional
        Words to choose from, as of `CausalLM`: needed by ``filter="vocabulary"`` and ``"stop-words"``.
    examples : Items, optional
        Examples to draw from: needed by ``shots``.
    level, resamples, seed : float, int, int
        Confidence level of the intervals, number of replicates, and the seed of these and of the examples.

    Returns
    -------
    ProtocolRuns
        ``runs`` by protocol and ``table``; :func:`workbench.charts.waterfall` draws it, and
        ``wb.compare(result.items, list(result.runs.values()))`` lists the items that two protocols count
        differently.

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
    >>> steps = [{"text": "plain"}, {"text": "openai"}, {"text": "openai", "unit": "last-token"}]
    >>> result = wb.protocols(CausalLM(gpt2), variants, steps)
    >>> result.table["factor"].tolist()
    ['first', 'text', 'unit', 'total']
    """
    check_model(model, "protocols")
    sets = [items] if isinstance(items, Items) or not isinstance(items, Iterable) else list(items)
    for each in sets:
        check_items(each, "protocols")
    variants = _match_variants(sets)
    check_value("protocols", protocols, bool(protocols), 'one or more, such as [{"unit": "last-token"}]')
    wanted = list(dict.fromkeys(_protocol(values, next(iter(variants))) for values in protocols))
    options = {"vocabulary": vocabulary, "examples": examples, "seed": seed}
    models = {}
    for protocol in wanted:
        check_option("the variant of the items", protocol.variant, tuple(variants))
        models[protocol] = _configure(model, protocol, **options)
    with sharing_words():
        runs = {
            protocol: predict(variants[protocol.variant], models[protocol], seed=seed)
            for protocol in sorted(wanted, key=_without_unit)
        }
    first = variants[wanted[0].variant]
    lost = max(map(len, sets)) - len(first)
    notes = (f"{lost:,} items are left out that not all variants have.",) if lost else ()
    sampling = {"level": level, "resamples": resamples, "seed": seed}
    return ProtocolRuns(first, {protocol: runs[protocol] for protocol in wanted}, notes, sampling)


def _protocol(values: Mapping[str, Any], variant: str) -> ScoringProtocol:
    """Return the protocol with these values of factors; `text` is `variant` by default."""
    for name in values:
        check_option("the factor", name, FACTORS)
    return ScoringProtocol(**{"text": variant, **values})


def _without_unit(protocol: ScoringProtocol) -> tuple[Any, ...]:
    """Return a key that groups protocols by the text that the model gets."""
    return tuple(getattr(protocol, name) for name in FACTORS if name != "unit")


def _configure(
    model: Predictor, protocol: ScoringProtocol, *, vocabulary: Any, examples: Items | None, seed: int
) -> Predictor:
    """Return the model with the settings of a protocol, its weights shared; DataError if it has none such."""
    hint, changes = "choose another value of the factor", protocol.changes(ScoringProtocol(protocol.variant))
    if not isinstance(model, CausalLM):
        if changes:
            raise DataError(f"{model.name} has no choice of {', '.join(changes)}: not a CausalLM", hint=hint)
        return model
    has_words = protocol.filter != "none"
    if has_words and (protocol.unit != "whole-word" or vocabulary is None):
        problem = f"filter={protocol.filter!r} needs words (vocabulary=) and whole words (unit=)"
        raise DataError(problem, hint=hint)
    prompt = Prompt(
        protocol.template, examples=examples if protocol.shots else None, shots=protocol.shots,
        seed=seed if protocol.shots else 0, beginning=protocol.beginning, space=protocol.space,
    )  # fmt: skip
    return CausalLM(
        model,
        text="detokenised" if protocol.text.endswith(_DETOKENISED) else "as-is",
        correct="words" if has_words else _CORRECT[protocol.unit],  # type: ignore[arg-type]
        vocabulary=vocabulary if has_words else None,
        scoring=Scoring(
            filter="stop-words" if protocol.filter == "stop-words" else "none",
            budget=0 if has_words else 100,
        ),
        prompt=None if prompt.config == Prompt().config else prompt,
    )


def _match_variants(sets: Sequence[Items]) -> dict[str, Items]:
    """Return items by variant: those that all variants share, with the same answer but for case."""
    variants: dict[str, Items] = {}
    for items in sets:
        names = items.frame["variant"].unique().tolist()
        if len(names) != 1 or names[0] in variants:
            problem = f"the items are of the variants {', '.join(map(str, names)) or 'none'}"
            raise DataError(problem, hint="pass one Items for each variant of the same texts")
        variants[names[0]] = items
    check_value("items", sets, bool(variants), "Items of one variant or more")
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
