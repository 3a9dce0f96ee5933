"""Axes of small charts, and curves made ready for them: thinned and smoothed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LIMIT = 1e15
"""Numbers of this size and more are not drawn."""

PARTS = 79
"""Parts of a curve, each of which gives up to five points."""

_UNITS = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))
_SMOOTH = 50  # the window is as long as this part of the curve, on both sides


@dataclass(frozen=True)
class Axis:
    """Where numbers stand on a chart.

    Attributes
    ----------
    low, high : float
        The numbers at its ends.
    start, end : float
        Where the ends are, in pixels.
    ticks : tuple of float
        Round numbers between the ends.
    log : bool
        Whether it is logarithmic.
    """

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[float, ...]
    log: bool = False

    def at(self, values: Floats) -> Floats:
        """Return where numbers stand, in pixels; shape and NaN as given."""
        low, high = self.low, self.high
        if self.log:
            low, high, values = math.log(low), math.log(high), np.log(values)
        return self.start + (values - low) / (high - low) * (self.end - self.start)

    @property
    def labels(self) -> list[str]:
        """What stands at the ticks: ``0``, ``50k``, ``1.5M``; in one unit, but on a long logarithmic axis."""
        ticks = self.ticks
        if len(ticks) < 2 or (self.log and ticks[-1] >= 2 * ticks[0]):  # noqa: PLR2004 - a pair, twice
            return [_label(tick, tick, tick) for tick in ticks]
        return [_label(tick, max(map(abs, ticks)), ticks[1] - ticks[0]) for tick in ticks]

    def spaced(self, room: float) -> Axis:
        """Return the axis without the ticks that stand closer to the one before than this, in pixels."""
        kept, previous = list[float](), 0.0
        places = self.at(np.array(self.ticks)).tolist() if self.ticks else []
        for tick, place in zip(self.ticks, places, strict=True):
            if not kept or abs(place - previous) >= room:
                kept.append(tick)
                previous = place
        return replace(self, ticks=tuple(kept))


def drawable(values: Sequence[Any] | Floats, *, log: bool = False) -> Floats:
    """Return numbers with NaN for what cannot be drawn: not finite, very large, not above 0 if `log`."""
    found = np.array(values, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        wrong = ~(np.abs(found) < LIMIT)
        if log:
            wrong |= ~(found > 1 / LIMIT)
    found[wrong] = np.nan
    return found


def linear(
    values: Floats, start: float, end: float, *, ticks: int = 3, zero: bool = False, exact: bool = False
) -> Axis:
    """Return a linear axis that holds some numbers.

    Parameters
    ----------
    values : array
        NaN is left out; without numbers it goes from 0 to 1.
    start, end : float
        Pixels.
    ticks : int
        There are at least as many.
    zero : bool
        Whether it begins at 0.
    exact : bool
        Whether it ends at the largest number, not at a tick.
    """
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    low = min(low, 0.0) if zero else low
    least = 1e-2 * max(abs(low), abs(high)) or 1.0
    if high - low < least:
        low, high = (low, low + least) if zero else (low - least / 2, high + least / 2)
    step = _step((high - low) / ticks)
    if not exact:
        low, high = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    return Axis(low, high, start, end, _multiples(low, high, step))


def logarithmic(values: Floats, start: float, end: float, *, ticks: int = 2) -> Axis:
    """Return a logarithmic axis that holds some numbers above 0; see `linear`."""
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (1.0, 10.0)
    room = max(high / low, 1.2) ** 0.08
    low, high = low / room, high * room
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = [10.0**k for k in range(first, last + 1) if low <= 10.0**k <= high]
    fine = [k * 10.0**n for n in range(first, last + 1) for k in (1, 2, 5) if low <= k * 10.0**n <= high]
    if len(fine) < ticks:
        found = _multiples(low, high, _step((high - low) / ticks))
    elif len(fine) <= 2 * ticks or len(decades) < ticks:
        found = tuple(fine)
    else:
        found = tuple(decades[:: math.ceil(len(decades) / (2 * ticks))])
    return Axis(low, high, start, end, found, log=True)


def thin(values: Floats, parts: int = PARTS) -> npt.NDArray[np.int64]:
    """Return places of some values, rising, by which a curve looks as by all of them.

    Parameters
    ----------
    values : array (n,)
        Values of a curve, in order; NaN is a gap.
    parts : int
        Into how many the curve is cut.

    Returns
    -------
    array (at most 5 * parts + 2,)
        The first and the last value and, of each part, the first, least, largest and last number, and a
        gap. (Jugel et al. 2014, "M4: A Visualization-Oriented Time Series Data Aggregation".)
    """
    n = len(values)
    if n <= 5 * parts + 2:
        return np.arange(n, dtype=np.int64)
    edges = np.linspace(0, n, parts + 1).astype(np.int64)
    kept = {0, n - 1}
    for begin, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        part = values[begin:stop]
        known = np.flatnonzero(np.isfinite(part))
        if len(known):
            numbers = part[known]
            kept |= {begin + int(known[k]) for k in (0, numbers.argmin(), numbers.argmax(), -1)}
        if len(known) < len(part):
            kept.add(begin + int(np.flatnonzero(~np.isfinite(part))[0]))
    return np.array(sorted(kept), dtype=np.int64)


def smoothed(values: Floats) -> Floats:
    """Return the mean of each value with its neighbours on both sides, 4 % of the curve in all.

    Near the beginning, where a loss falls steeply, the window is narrower, as long on the left as on the
    right; near the end it only has a left side. NaN is left out, and stays.
    """
    n, most = len(values), len(values) // _SMOOTH
    known = np.isfinite(values)
    sums = np.concatenate([[0.0], np.cumsum(np.where(known, values, 0.0))])
    counts = np.concatenate([[0], np.cumsum(known)])
    places = np.arange(n)
    left, right = np.maximum(places - most, 0), np.minimum(places + np.minimum(most, places), n - 1) + 1
    found = np.full(n, np.nan)
    found[known] = ((sums[right] - sums[left]) / np.maximum(counts[right] - counts[left], 1))[known]
    return found


def _step(least: float) -> float:
    """Return the largest of 1, 2 and 5 times a power of ten that is not above a number."""
    power = 10.0 ** math.floor(math.log10(least))
    return next((k * power for k in (5.0, 2.0) if k * power <= least * (1 + 1e-9)), power)


def _multiples(low: float, high: float, step: float) -> tuple[float, ...]:
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return tuple(float(f"{k * step:.12g}") for k in range(first, last + 1))


def _label(tick: float, largest: float, step: float) -> str:
    """Return what stands at a tick, in the unit of the largest one and with the digits that a step needs."""
    unit, letter = next(((unit, letter) for unit, letter in _UNITS if abs(largest) >= unit), (1.0, ""))
    if tick == 0:
        return "0"
    if step == tick:  # it stands alone
        return f"{tick / unit:.3g}{letter}"
    digits = max(0, -math.floor(math.log10(abs(step) / unit) + 1e-9))
    return f"{tick / unit:.{digits}f}{letter}" if digits < 5 else f"{tick:.4g}"  # noqa: PLR2004 - room
