"""Protocols of judgment: the context shown, the number of guesses, and when an item stops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from workbench.analysis import lemmas
from workbench.predictions.schema import bare_word
from workbench.storage.errors import DataError, check_option, check_value

Condition = Literal["passage", "sentence", "unfolding"]
"""What a person sees: the whole passage, the target sentence alone, or the target sentence and then one
sentence of context more after each wrong guess."""

Passes = Literal["right", "wrong", "any"]
"""Items that pass a step: guessed by all people, by none, or any."""

_MOST = 1000  # people, guesses, or tasks of a page
_PROSE = {
    "passage": "from the whole passage",
    "sentence": "from the target sentence alone",
    "unfolding": "sentence by sentence",
}


MATCHES = ("exact", "case", "number", "spelling", "no")
"""How a guess matches, the best first: the same word; the same but for case; singular and plural of one noun;
one letter added, left out or changed; not at all. Case does not count for the last three."""


@dataclass(frozen=True)
class ProtocolStep:
    """One step of a protocol.

    Attributes
    ----------
    condition : {"passage", "sentence", "unfolding"}
    people : int
        Different people who judge an item, at most.
    passes : {"right", "wrong", "any"}
        ``right``: an item is dropped at the first person who does not guess it; ``wrong``: at the first one
        who does; ``any``: never. It goes on to the next step after `people` judgments.
    guesses : int
        Words that a person may type for an item.
    per_page : int
        Items of a page.
    price : float
        Dollars that a person gets for a page.

    Examples
    --------
    >>> from workbench import people
    >>> step = people.ProtocolStep("sentence", people=10, passes="wrong", guesses=3)
    >>> step.outcome(n_judged=9, n_right=0), step.outcome(10, 0), step.outcome(4, 1)
    ('open', 'passed', 'dropped')
    """

    condition: Condition
    people: int = 1
    passes: Passes = "any"
    guesses: int = 1
    per_page: int = 10
    price: float = 0.0

    def __post_init__(self) -> None:
        check_option("condition", self.condition, get_args(Condition))
        check_option("passes", self.passes, get_args(Passes))
        most_guesses = 1 if self.condition == "unfolding" else _MOST
        for name, limit in (("people", _MOST), ("per_page", _MOST), ("guesses", most_guesses)):
            number = getattr(self, name)
            check_value(name, number, 1 <= number <= limit, f"a number from 1 to {limit}")
        check_value("price", self.price, 0 <= self.price < math.inf, "0 dollars or more")

    def outcome(self, n_judged: int, n_right: int) -> Literal["open", "passed", "dropped"]:
        """Return the outcome of an item from its number of judgments and of right ones."""
        if (self.passes == "right" and n_right < n_judged) or (self.passes == "wrong" and n_right):
            return "dropped"
        return "passed" if n_judged >= self.people else "open"

    @property
    def drop_reason(self) -> str:
        """Reason for which this step drops an item."""
        return f"{'guessed' if self.passes == 'wrong' else 'not guessed'} {_PROSE[self.condition]}"


@dataclass(frozen=True)
class Protocol:
    """The steps of a judgment.

    Attributes
    ----------
    name : str
    steps : tuple of ProtocolStep
    candidates : bool
        Whether people choose among the item's candidates; else they type a word.
    accept : tuple of str
        Matches that count as right (:data:`workbench.people.protocols.MATCHES`).

    Examples
    --------
    >>> from workbench import people
    >>> people.Protocol("once", (people.ProtocolStep("passage"),)).accept
    ('exact',)
    """

    name: str
    steps: tuple[ProtocolStep, ...]
    candidates: bool = False
    accept: tuple[str, ...] = ("exact",)

    def __post_init__(self) -> None:
        is_accepted = MATCHES[0] in self.accept and set(self.accept) <= set(MATCHES[:-1])
        matches = f'"exact" and perhaps some of {", ".join(MATCHES[1:-1])}'
        check_value("name", self.name, bool(self.name), "a name")
        check_value("steps", self.steps, bool(self.steps), "a ProtocolStep or more")
        check_value("accept", self.accept, is_accepted, matches)

    def match(self, guesses: Sequence[str], answer: Any, candidates: Sequence[str] | None) -> str:
        """Return the best match of guesses; another one of the candidates is no match, however alike."""
        others = {*(candidates or ())} - {answer} if self.candidates else set()
        return best_match([word for word in guesses if word not in others], str(answer))


LAMBADA = Protocol(
    "lambada",
    (
        ProtocolStep("passage", people=1, passes="right", per_page=10, price=0.22),
        ProtocolStep("passage", people=1, passes="right", per_page=10, price=0.22),
        ProtocolStep("sentence", people=10, passes="wrong", guesses=3, per_page=20, price=0.15),
    ),
)
"""The three steps of Paperno et al. (2016, section 3.1)."""

PROTOCOLS = {
    "lambada": LAMBADA,
    "unfolding": Protocol("unfolding", (ProtocolStep("unfolding", people=3),)),
    "cbt": Protocol("cbt", (ProtocolStep("passage", people=3),), candidates=True),
    "completion": Protocol("completion", (ProtocolStep("passage", people=3, per_page=20),), candidates=True),
}


def protocol(name: str | Protocol = "lambada", **settings: Any) -> Protocol:
    """Return a protocol by its name, with changed settings.

    Parameters
    ----------
    name : {"lambada", "unfolding", "cbt", "completion"} or Protocol
        ``lambada``: two people, one after the other, must guess the word from the whole passage, then none of
        up to ten may guess it from the target sentence with three guesses each. ``unfolding``: the target
        sentence first, then one sentence of context more after each wrong guess. ``cbt`` and ``completion``:
        a choice among the candidates.
    **settings
        ``people``, ``guesses``, ``per_page``, ``price``: one value for all steps, or a sequence with one per
        step (see `ProtocolStep`). ``condition`` (of ``cbt`` and ``completion``): ``"passage"``,
        ``"sentence"``, or ``"both"`` for two steps, in which no person judges an item twice. ``accept``
        and ``candidates``: see `Protocol`.

    Returns
    -------
    Protocol

    Raises
    ------
    DataError
        If there is no such protocol, or a value is out of range.

    Examples
    --------
    >>> from workbench import people
    >>> [(step.condition, step.people, step.price) for step in people.protocol("lambada").steps]
    [('passage', 1, 0.22), ('passage', 1, 0.22), ('sentence', 10, 0.15)]
    >>> people.protocol("lambada", people=(1, 1, 3)).steps[2].people
    3
    """
    if isinstance(name, str) and name not in PROTOCOLS:
        raise DataError(f"there is no protocol {name!r:.60}", hint=f"use one of {', '.join(PROTOCOLS)}")
    base = PROTOCOLS[name] if isinstance(name, str) else name
    steps = list(base.steps)
    if (condition := settings.pop("condition", None)) is not None:
        if len(steps) != 1 or steps[0].condition == "unfolding":
            raise DataError(f"the protocol {base.name} fixes its conditions", hint="leave condition out")
        conditions: tuple[Any, ...] = ("sentence", "passage") if condition == "both" else (condition,)
        steps = [replace(steps[0], condition=each) for each in conditions]
    for setting in ("people", "guesses", "per_page", "price"):
        if (value := settings.pop(setting, None)) is not None:
            values = value if isinstance(value, Sequence) else [value] * len(steps)
            if len(values) != len(steps):
                raise DataError(
                    f"{setting} has {len(values)} values, the protocol {base.name} has {len(steps)} steps",
                    hint="pass one value, or one per step",
                )
            steps = [replace(step, **{setting: number}) for step, number in zip(steps, values, strict=True)]
    if "accept" in settings:
        accept = settings["accept"]
        settings["accept"] = (accept,) if isinstance(accept, str) else tuple(accept)
    return replace(base, steps=tuple(steps), **settings)


def match(guess: str, answer: str) -> str:
    """Return the element of `MATCHES` for a guess.

    White space, quotes and sentence marks around a guess and the shape of its apostrophes do not count, as in
    :func:`workbench.predictions.schema.same_word`.

    Examples
    --------
    >>> from workbench.people.protocols import match
    >>> [match(guess, "Dogs") for guess in ("Dogs", "dogs", "dog", "docs", "cat", "")]
    ['exact', 'case', 'number', 'spelling', 'no', 'no']
    """
    guess, answer = bare_word(guess), bare_word(answer)
    if guess == answer:
        return "exact"
    guess, answer = guess.casefold(), answer.casefold()
    if not guess:
        return "no"
    if guess == answer:
        return "case"
    if _nouns(guess) & _nouns(answer):
        return "number"
    return "spelling" if _one_edit(guess, answer) else "no"


def best_match(guesses: Sequence[str], answer: str) -> str:
    """Return the best match of several guesses."""
    return min((match(guess, answer) for guess in guesses), key=MATCHES.index, default="no")


def _nouns(word: str) -> frozenset[str]:
    """Return the lemmas of a word read as a noun or name."""
    return frozenset(each.lemma for each in lemmas.default().readings(word) if each.word_class == "N")


def _one_edit(a: str, b: str) -> bool:
    """Return True if two different words are one edit apart."""
    if len(a) > len(b):
        a, b = b, a
    if len(b) - len(a) > 1:
        return False
    start = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), len(a))
    return a[start + (len(a) == len(b)) :] == b[start + 1 :]
