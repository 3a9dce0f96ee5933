"""How a network is trained: a few numbers, and the learning rate of each step."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from workbench.items.schema import DataError

Schedule = Literal["cosine", "linear", "constant"]
Precision = Literal["float32", "bfloat16"]
Keep = Literal["best", "last"]

_MAY_BE_NONE = frozenset({"clip", "patience", "log_every", "micro_rows"})
_INDIFFERENT = (
    "save_every",
    "log_every",
    "compile",
    "micro_rows",
)  # change no weight but by rounding, and dropout's draws
_WORDS = {
    "schedule": get_args(Schedule),
    "precision": (None, *get_args(Precision)),
    "keep": get_args(Keep),
}
_BOUNDS: tuple[tuple[tuple[str, ...], str, Callable[[Any], bool]], ...] = (
    (("steps", "patience", "log_every", "micro_rows"), "a whole number above 0", lambda n: n == int(n) > 0),
    (("evaluations",), "a whole number", lambda n: n == int(n) >= 0),
    (("learning_rate", "clip"), "a number above 0", lambda x: 0 < x < math.inf),
    (("warm_up", "final"), "a share, between 0 and 1", lambda x: 0 <= x <= 1),
    (("weight_decay", "save_every"), "0 or more", lambda x: x >= 0),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """How a network is trained.

    Parameters
    ----------
    steps : int
        Steps of the optimiser, one batch each.
    learning_rate : float, default 1e-3
        The highest; see `rate`.
    warm_up : float, default 0.02
        Share of the steps in which it rises to that.
    schedule : {"cosine", "linear", "constant"}
        How it falls afterwards.
    final : float, default 0.1
        Share of it that is left at the last step; without meaning for "constant".
    weight_decay : float, default 0
        Of AdamW (Loshchilov and Hutter 2019); vectors, such as biases and gains, do not decay.
    betas : (float, float), default (0.9, 0.98)
        Of AdamW: how slowly the means of the gradient and of its square change.
    clip : float, optional
        Longest gradient, all parameters together; a longer one is made as short (Pascanu et al. 2013).
    evaluations : int, default 10
        How often there is an evaluation, spread evenly; the last is at the end.
    patience : int, optional
        Evaluations in turn without a better one after which the training stops early.
    best_by : str, default "perplexity"
        The score that says which evaluation was the best: the lowest, but for an accuracy.
    keep : {"best", "last"}
        Which weights the network has at the end, where it was evaluated.
    save_every : float, default 300
        Seconds between checkpoints; there is one at each best evaluation and at the end, too.
    log_every : int, optional
        Steps between points of the history. By default one about every second, fewer in a long training.
    seed : int, default 0
        Of dropout.
    precision : {"float32", "bfloat16"}, optional
        By default bfloat16 (autocast: weights, softmax and optimiser stay in float32) on a GPU, float32 on a
        CPU.
    compile : bool, optional
        Whether ``torch.compile`` is used. By default on a GPU.
    micro_rows : int, optional
        Rows of a batch that are computed at a time. By default all, or what the memory holds.

    Raises
    ------
    DataError
        If one of them cannot be.
    """

    steps: int
    learning_rate: float = 1e-3
    warm_up: float = 0.02
    schedule: Schedule = "cosine"
    final: float = 0.1
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.98)
    clip: float | None = 1.0
    evaluations: int = 10
    patience: int | None = None
    best_by: str = "perplexity"
    keep: Keep = "best"
    save_every: float = 300.0
    log_every: int | None = None
    seed: int = 0
    precision: Precision | None = None
    compile: bool | None = None
    micro_rows: int | None = None

    def __post_init__(self) -> None:
        """Check what was passed."""
        for names, wanted, right in _BOUNDS:
            for name in names:
                value = getattr(self, name)
                try:
                    fine = right(value) if value is not None else name in _MAY_BE_NONE
                except (TypeError, ValueError, OverflowError):
                    fine = False
                if not fine:
                    _refuse(name, value, wanted)
        for name, words in _WORDS.items():
            if getattr(self, name) not in words:
                _refuse(name, getattr(self, name), f"one of {', '.join(map(repr, words))}")
        object.__setattr__(self, "betas", tuple(self.betas))
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):  # noqa: PLR2004 - a pair
            _refuse("betas", self.betas, "two numbers from 0 to less than 1")

    @property
    def rising(self) -> int:
        """Steps in which the learning rate rises; at least one, which has the whole rate then."""
        return max(1, round(self.warm_up * self.steps))

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0.

        It rises evenly, has its full value at the last step of the rise, and then falls to its final
        share, which it has at the last step: along half a cosine (Loshchilov and Hutter 2017, SGDR, equation
        5, without restarts), evenly, or not at all.
        """
        if step < self.rising:
            return self.learning_rate * (step + 1) / self.rising
        if self.schedule == "constant":
            return self.learning_rate
        done = min(1.0, (step + 1 - self.rising) / (self.steps - self.rising))
        left = 1 - done if self.schedule == "linear" else (1 + math.cos(math.pi * done)) / 2
        return self.learning_rate * (self.final + (1 - self.final) * left)

    def evaluates(self, step: int) -> bool:
        """Return whether there is an evaluation once so many steps are done."""
        return (
            step > 0 and step * self.evaluations // self.steps > (step - 1) * self.evaluations // self.steps
        )

    def identity(self) -> dict[str, Any]:
        """Return those that decide what becomes of the weights, as JSON holds them."""
        told = {name: value for name, value in asdict(self).items() if name not in _INDIFFERENT}
        return {**told, "betas": list(self.betas)}


def _refuse(name: str, value: Any, wanted: str) -> None:
    names = ", ".join(field.name for field in fields(Settings))
    raise DataError(f"{name}={value!r}: expected {wanted}", remedy=f"settings are {names}")
