"""How a network is trained: one frozen object, from the keyword arguments of `fit` to the training loop."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from workbench.storage.errors import DataError

if TYPE_CHECKING:
    import torch

Schedule = Literal["cosine", "linear", "constant"]
Precision = Literal["float32", "bfloat16"]
Keep = Literal["best", "last"]

LENGTHS = ("steps", "epochs", "tokens", "minutes")
"""Ways to say how long a training is; exactly one is set."""

_OPTIONAL = frozenset({*LENGTHS, "clip", "patience", "log_every"})
_WITHOUT_EFFECT = ("device", "save_every", "log_every", "compile")  # but for rounding
_CHOICES = {"schedule": get_args(Schedule), "precision": (None, *get_args(Precision)), "keep": get_args(Keep)}
_RANGES: tuple[tuple[str, str, Callable[[Any], bool]], ...] = (
    ("steps patience log_every", "a whole number above 0", lambda n: n > 0 and n % 1 == 0),
    ("evaluations", "a whole number, 0 or more", lambda n: n >= 0 and n % 1 == 0),
    ("epochs tokens minutes learning_rate clip", "a number above 0", lambda x: 0 < x < math.inf),
    ("warm_up final", "a share between 0 and 1", lambda x: 0 <= x <= 1),
    ("weight_decay save_every", "0 or more", lambda x: x >= 0),
    ("betas", "two numbers from 0 to less than 1", lambda x: len(x) == 2 and 0 <= min(x) <= max(x) < 1),  # noqa: PLR2004
)


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingSettings:
    """Settings of a training.

    Parameters
    ----------
    steps, epochs, tokens, minutes : number
        Length of the training; exactly one of them. A step is one batch, and `tokens` counts predicted words.
        `minutes` limits the time in total: evaluations, and what was done before an interruption, count.
        The learning rate and the evaluations then follow the share of the time that has passed.
    learning_rate : float, default 1e-3
        Highest learning rate; see `rate`.
    warm_up : float, default 0.02
        Share of the training in which the learning rate rises.
    schedule : {"cosine", "linear", "constant"}
        How the learning rate falls afterwards.
    final : float, default 0.1
        Learning rate of the last step, as a share of the highest; ignored for "constant".
    weight_decay : float, default 0
        Of AdamW (Loshchilov and Hutter 2019); vectors, such as biases and gains, do not decay.
    betas : (float, float), default (0.9, 0.98)
        Of AdamW: decay of the running means of the gradient and of its square.
    clip : float, optional
        Maximum norm of the gradient over all parameters (Pascanu et al. 2013).
    evaluations : int, default 10
        Number of evaluations, evenly spread; the last is at the end.
    patience : int, optional
        Stop after so many evaluations in a row without a better one.
    best_by : str, default "perplexity"
        Score that decides which evaluation is best: the lowest value, for an accuracy the highest.
    keep : {"best", "last"}
        Weights that the network has at the end, where it was evaluated.
    save_every : float, default 300
        Seconds between checkpoints; one is also written at each best evaluation and at the end.
    log_every : int, optional
        Steps between points of the history. By default about one a second, fewer in a long training.
    seed : int, default 0
        Seed of weights, batches and dropout.
    device : str, optional
        ``cpu``, ``cuda``, ``cuda:1``, ...; by default a GPU where there is one.
    precision : {"float32", "bfloat16"}, optional
        Precision of products (autocast; weights, softmax and optimiser stay in float32). By default
        bfloat16 on a GPU that has it, float32 on a CPU.
    compile : bool, optional
        Whether to use ``torch.compile``; by default on a GPU.

    Raises
    ------
    DataError
        If a value is out of range, or not exactly one length is given.
    """

    steps: int | None = None
    epochs: float | None = None
    tokens: float | None = None
    minutes: float | None = None
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
    device: str | None = None
    precision: Precision | None = None
    compile: bool | None = None

    def __post_init__(self) -> None:
        """Check the values."""
        object.__setattr__(self, "betas", tuple(self.betas))
        lengths = [name for name in LENGTHS if getattr(self, name) is not None]
        wrong = [
            f"{name}={getattr(self, name)!r}: expected {expected}"
            for names, expected, accepts in _RANGES
            for name in names.split()
            if not _is_valid(name, getattr(self, name), accepts)
        ]
        wrong += [
            f"{name}={getattr(self, name)!r}: expected one of {', '.join(map(repr, words))}"
            for name, words in _CHOICES.items()
            if getattr(self, name) not in words
        ]
        if len(lengths) != 1:
            wrong += [f"expected one of {', '.join(LENGTHS)}, got {' and '.join(lengths) or 'none'}"]
        if wrong:
            names = ", ".join(field.name for field in fields(TrainingSettings))
            raise DataError("; ".join(wrong), hint=f"settings are {names}")

    def in_steps(self, epoch: int, tokens: int) -> Self:
        """Convert epochs or tokens to steps, given steps per epoch and tokens per step."""
        if self.epochs is None and self.tokens is None:
            return self
        steps = self.tokens / tokens if self.epochs is None else self.epochs * epoch  # type: ignore[operator]
        return replace(self, steps=max(1, math.ceil(steps)), epochs=None, tokens=None)

    @property
    def n_steps(self) -> int:
        """Number of steps, where the length is set in steps or was converted by `in_steps`."""
        return int(self.steps)  # type: ignore[arg-type] # it is set

    @property
    def rising(self) -> int:
        """Number of steps in which the learning rate rises; the last of them has the full rate."""
        return max(1, round(self.warm_up * self.n_steps))

    def rate(self, step: int, share: float = 0.0) -> float:
        """Return the learning rate of a step, counted from 0; with `minutes`, at a `share` of the time.

        It rises linearly to `learning_rate`, and falls to its final share at the last step: along half a
        cosine (Loshchilov and Hutter 2017, SGDR, equation 5, without restarts), linearly, or not at all.
        """
        if self.minutes is not None:
            position, rising, end = share, self.warm_up, 1.0
        else:
            position, rising, end = step + 1, self.rising, self.n_steps
        if position < rising:
            return self.learning_rate * position / rising
        if self.schedule == "constant" or position == rising:
            return self.learning_rate
        done = min(1.0, (position - rising) / (end - rising))
        remaining = 1 - done if self.schedule == "linear" else (1 + math.cos(math.pi * done)) / 2
        return self.learning_rate * (self.final + (1 - self.final) * remaining)

    def evaluates(self, step: int, shares: tuple[float, float] = (0.0, 0.0)) -> bool:
        """Return whether an evaluation is due after `step` steps.

        With `minutes` the shares of the time before and after the last step decide.
        """
        n = self.evaluations
        if self.minutes is not None:
            before, after = shares
            return int(after * n) > int(before * n)
        return step > 0 and step * n // self.n_steps > (step - 1) * n // self.n_steps

    def identity(self) -> dict[str, Any]:
        """Return the settings that decide the weights, as JSON can hold them."""
        settings = {name: value for name, value in asdict(self).items() if name not in _WITHOUT_EFFECT}
        return {**settings, "betas": list(self.betas)}


def torch_device(name: str | None = None) -> torch.device:
    """Return a device by its name, by default a GPU if available; DataError if it is missing."""
    import torch  # noqa: PLC0415 - slow

    n_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    try:
        device = torch.device(name or ("cuda" if n_gpus else "cpu"))
    except (RuntimeError, TypeError):
        device = torch.device("meta")  # as a name that is not of a device
    if device.type == "cpu":
        return device
    if device.type != "cuda" or (device.index or 0) >= n_gpus:
        several = "; start fewer processes" if "LOCAL_RANK" in os.environ else ""
        raise DataError(
            f"there is no device {name!r} here, GPUs: {n_gpus}",
            hint=f"pass 'cpu', or 'cuda:0' where there is a GPU{several}",
        )
    return torch.device("cuda", torch.cuda.current_device() if device.index is None else device.index)


def _is_valid(name: str, value: Any, accepts: Callable[[Any], bool]) -> bool:
    if value is None:
        return name in _OPTIONAL
    try:
        return accepts(value)
    except TypeError:
        return False
