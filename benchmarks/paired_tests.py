"""False alarms, coverage and power of the paired tests, by simulation and, of single runs by item, exactly.

python benchmarks/paired_tests.py [--draws 400] [--seed 0]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import stats  # type: ignore[import-untyped]

from workbench.analysis.proportions import mcnemar, paired_interval
from workbench.evaluation.bootstrap import BootstrapSettings, Floats, Units, intervals, resample
from workbench.evaluation.paired import AccuracyTests, Seeds, accuracy_tests

SETTINGS = BootstrapSettings(resamples=1000)
EQUAL, UNEQUAL = "equal", "unequal"
ALPHA, DISCORDANT, COPIED, HALF = 0.05, 0.25, 0.3, 0.5
MANY = 50  # items beyond which the bootstrap is left out, novels beyond which sizes are equal alone


def novels(number: int, per_novel: int, sizes: str) -> Units:
    """Return novels of one size, or each 0.8 times as long as the one before."""
    shares = np.ones(number) if sizes == EQUAL else 0.8 ** np.arange(number)
    counts = np.maximum(5, np.rint(number * per_novel * shares / shares.sum())).astype(np.int64)
    return Units(np.repeat(np.arange(number), counts), number, "novel")


def found(tests: AccuracyTests) -> float:
    """Return how often the first model is found to be better."""
    return float(((tests.p <= ALPHA) & (tests.difference > 0)).mean())


def covered(low: Floats, high: Floats, difference: float) -> float:
    """Return how often the interval has a difference."""
    return float(((low <= difference + 1e-12) & (difference - 1e-12 <= high)).mean())


def row(*cells: Any) -> str:
    """Return a row of a Markdown table."""
    return f"| {' | '.join(f'{cell:.3f}' if isinstance(cell, float) else str(cell) for cell in cells)} |"


def of_seeds(rng: np.random.Generator, draws: int) -> Iterator[str]:
    """Two equal methods with several seeds each; items have a difficulty, novels one of each method."""
    yield row("units", "seeds", "sd of a seed", "sd of a novel", "false alarms", "by unit alone", "coverage")
    items = Units(np.arange(1000), 1000, "item")
    cases: list[tuple[Units, tuple[int, int], float, float]] = [
        (items, (k, k), sd, 0.0) for k in (2, 3, 5) for sd in (0.0, 0.01, 0.02)
    ]
    cases += [(items, (2, 5), 0.01, 0.0), (Units(np.arange(4869), 4869, "item"), (3, 3), 0.01, 0.0)]
    cases += [
        (novels(number, 100, sizes), (k, k), 0.01, 0.03)
        for number, sizes in ((6, EQUAL), (20, EQUAL), (20, UNEQUAL)) for k in (2, 3, 5)
    ]  # fmt: skip
    for units, seeds, sd, of_novel in cases:
        n, scale = len(units.codes), int(np.lcm(*seeds))
        steps, variance = np.zeros((draws, n), dtype=np.int64), np.empty((draws, 2))
        for draw in range(draws):
            difficulty = rng.normal(0, 1.5, n)
            for side, number in enumerate(seeds):
                logits = difficulty + rng.normal(0, of_novel / 0.16, units.number)[units.codes]
                shifts = rng.normal(0, sd / 0.16, (number, 1))  # 0.16: points of accuracy per logit
                right = rng.random((number, n)) < 1 / (1 + np.exp(-logits - shifts))
                steps[draw] += (1 - 2 * side) * scale // number * right.sum(axis=0)
                variance[draw, side] = right.mean(axis=1).var(ddof=1) / number
        tests = accuracy_tests(steps, units, SETTINGS, Seeds(np.tile(seeds, (draws, 1)), variance))
        ignored = Seeds(np.tile([scale, 1], (draws, 1)), np.zeros((draws, 2)))
        alone = accuracy_tests(steps, units, BootstrapSettings(resamples=100), ignored)
        name = f"{units.number:,} {units.by}s" + ", unequal" * (len(set(np.bincount(units.codes))) > 1)
        alarms = [float((each.p <= ALPHA).mean()) for each in (tests, alone)]
        yield row(name, f"{seeds[0]}, {seeds[1]}", sd, of_novel, *alarms, covered(tests.low, tests.high, 0))


def of_power(rng: np.random.Generator, draws: int) -> Iterator[str]:
    """Power of the sign-flip test by novel at the median of the smallest detectable difference."""
    yield row("novels", "sizes", "sd of a novel", "false alarms", "difference", "power", "coverage")
    for number in (10, 12, 20, 50):
        for sizes in (EQUAL, UNEQUAL)[: 1 if number == MANY else 2]:
            for of_novel in (0.0, 0.05):
                units = novels(number, 50, sizes)

                def draw(effect: float, units: Units = units, of_novel: float = of_novel) -> AccuracyTests:
                    shape = draws, len(units.codes)
                    effects = effect + of_novel * rng.standard_normal((draws, units.number))[:, units.codes]
                    side = np.where(rng.random(shape) < (1 + effects / DISCORDANT) / 2, 1, -1)
                    steps = np.where(rng.random(shape) < DISCORDANT, side, 0)
                    return accuracy_tests(steps, units, SETTINGS)

                equal = draw(0)
                effect = float(np.nanmedian(equal.mde))
                tests, alarms = draw(effect), float((equal.p <= ALPHA).mean())
                coverage = covered(tests.low, tests.high, effect)
                yield row(number, sizes, of_novel, alarms, effect, found(tests), coverage)


def of_items() -> Iterator[str]:
    """Coverage of the interval of single runs by item, exactly, and of the bootstrap's of three counts."""
    yield row("items", "discordant", "difference", "coverage", "bootstrap", "p and interval agree")
    for n in (20, 50, 200):
        for share in (0.05, 0.1, 0.3):
            for difference in (0.0, share / 2, share):
                a, b = np.array([(k, m - k) for m in range(n + 1) for k in range(m + 1)]).T
                p = stats.binom.pmf(a + b, n, share) * stats.binom.pmf(a, a + b, (1 + difference / share) / 2)
                low, high = paired_interval(a, b, n)
                agree = bool((((low > 0) | (high < 0)) == (mcnemar(a, b) <= ALPHA)).all())
                bounds = [(low, high)]
                if n <= MANY:
                    shares, rng = np.stack([a, b, n - a - b], axis=1) / n, np.random.default_rng(0)
                    drawn = [rng.multinomial(n, each, 1000) @ [1, -1, 0] / n for each in shares]
                    bounds.append(intervals(np.transpose(drawn), 0.95, n))
                inside = [(x <= difference + 1e-12) & (difference - 1e-12 <= y) for x, y in bounds]
                coverage: list[Any] = [float(p[each].sum()) for each in inside]
                yield row(n, share, difference, *coverage, *[""] * (2 - len(coverage)), agree)


def of_low_accuracy(rng: np.random.Generator, draws: int) -> Iterator[str]:
    """Coverage by novel where accuracies are low, the second model half as good as the first."""
    yield row("novels", "items each", "accuracy", "coverage", "bootstrap of novels")
    for number, per_novel in ((10, 20), (20, 20), (20, 100), (50, 20), (50, 100)):
        for accuracy in (0.02, 0.05, 0.1, 0.3):
            units, shape = novels(number, per_novel, EQUAL), (draws, number * per_novel)
            p = rng.beta(8 * accuracy, 8 * (1 - accuracy), (draws, number))[:, units.codes]
            first = rng.random(shape) < p
            copied = first & (rng.random(shape) < HALF)
            second = np.where(rng.random(shape) < COPIED, copied, rng.random(shape) < p / 2)
            steps = first.astype(np.int64) - second
            tests = accuracy_tests(steps, units, SETTINGS)
            means, _ = resample(steps.astype(float), np.empty((0, shape[1])), units, *SETTINGS[1:])
            bounds = [(tests.low, tests.high), intervals(means, 0.95, number)]
            yield row(number, per_novel, accuracy, *(covered(*each, accuracy / 2) for each in bounds))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for simulation in (of_seeds, of_power, of_low_accuracy):
        print(f"\n{simulation.__doc__}\n")
        for line in simulation(np.random.default_rng(options.seed), options.draws):
            print(line, flush=True)
    print(f"\n{of_items.__doc__}\n")
    for line in of_items():
        print(line, flush=True)


if __name__ == "__main__":
    main()
