"""Agreement of people's answers, and the majority's answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from workbench.render.numbers import percent

_KEEP = 2  # an item counts for agreement from so many answers on


@dataclass(frozen=True)
class Agreement:
    """Agreement of several people on the answers to items; rows without an answer are left out.

    Attributes
    ----------
    n_people, n_items, n_answers : int
    pairwise : float
        Share of equal words among all pairs of answers to one item; NaN where no item has two answers.
    fleiss_kappa : float
        Chance-corrected agreement (Fleiss 1971, "Measuring nominal scale agreement among many raters",
        equations 1 to 7) on the `kappa_items` items that have `kappa_k` answers, the commonest number of
        answers from 2 on. NaN where all answers are one word, or no item has two.
    kappa_k, kappa_items : int
    krippendorff_alpha : float
        Chance-corrected agreement for any numbers of answers (Krippendorff 2011, "Computing Krippendorff's
        alpha-reliability", section C, nominal data). NaN as above.
    """

    n_people: int
    n_items: int
    n_answers: int
    pairwise: float
    fleiss_kappa: float
    kappa_k: int
    kappa_items: int
    krippendorff_alpha: float

    def __str__(self) -> str:
        return (
            f"{self.n_people:,} people, {self.n_answers:,} answers to {self.n_items:,} items: equal in "
            f"{_shown(self.pairwise, percent)} of the pairs, "
            f"Krippendorff's alpha {_shown(self.krippendorff_alpha)}, Fleiss' kappa "
            f"{_shown(self.fleiss_kappa)} ({self.kappa_items:,} items with {self.kappa_k} answers)"
        )


def _shown(value: float, write: Callable[[float], str] = "{:.3f}".format) -> str:
    return "not known" if np.isnan(value) else write(value)


def answer_agreement(answers: pd.DataFrame) -> Agreement:
    """Measure the agreement of people: columns ``item_id``, ``person``, ``prediction`` (null: no answer).

    Case does not count.
    """
    tally = tallied(answers)
    per_item = tally.groupby("item_id")["count"].sum()
    same = (tally["count"] * (tally["count"] - 1)).sum()
    pairs = (per_item * (per_item - 1)).sum()
    k, kappa_items, kappa = 0, 0, np.nan
    if several := Counter(int(n) for n in per_item if n >= _KEEP):
        k = max(several, key=lambda n: (several[n], n))
        chosen = per_item.index[per_item == k]
        kappa_items, kappa = several[k], fleiss_kappa(tally[tally["item_id"].isin(chosen)])
    return Agreement(
        n_people=int(answers["person"].nunique()),
        n_items=len(per_item),
        n_answers=int(per_item.sum()),
        pairwise=float(same / pairs) if pairs else np.nan,
        fleiss_kappa=kappa,
        kappa_k=k,
        kappa_items=kappa_items,
        krippendorff_alpha=krippendorff_alpha(tally),
    )


def tallied(answers: pd.DataFrame) -> pd.DataFrame:
    """Return how often each word (lower case) was given: item_id, word, count."""
    answered = answers.dropna(subset=["prediction"])
    answered = answered.assign(word=answered["prediction"].str.casefold())
    return answered.groupby(["item_id", "word"], sort=False).size().rename("count").reset_index()


def fleiss_kappa(tally: pd.DataFrame) -> float:
    """Return Fleiss' kappa (Fleiss 1971) of the counts of `tallied`; all items have as many answers.

    statsmodels' fleiss_kappa takes a dense table of items by words: 200 MB for 5,000 of each.
    """
    count = tally["count"]
    per_item = count.groupby(tally["item_id"]).sum()
    n_items, k = len(per_item), int(per_item.iloc[0])
    chance = float(((count.groupby(tally["word"]).sum() / (n_items * k)) ** 2).sum())
    observed = float((count * (count - 1)).sum() / (n_items * k * (k - 1)))
    return (observed - chance) / (1 - chance) if len(set(tally["word"])) > 1 else np.nan


def krippendorff_alpha(tally: pd.DataFrame) -> float:
    """Return Krippendorff's alpha for nominal data of the counts of `tallied`."""
    total = tally.groupby("item_id")["count"].transform("sum")
    tally, total = tally[total >= _KEEP], total[total >= _KEEP]
    count, n = tally["count"], int(tally["count"].sum())
    # the diagonal of the matrix of coincidences; what it lacks to n disagrees
    agreeing = float((count * (count - 1) / (total - 1)).sum())
    per_word = count.groupby(tally["word"]).sum()
    expected = float(n * n - (per_word**2).sum())  # pairs of unequal words, by chance
    return 1 - (n - 1) * (n - agreeing) / expected if expected else np.nan


def majority_answers(answers: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """Return the commonest answer to each item; among equals the seed draws one.

    Of `answers`, the columns ``item_id`` and ``prediction`` (null: no answer) are read. Columns are item_id,
    prediction (null where nobody gave a word; in its commonest spelling), and ``tied``, the words (in lower
    case) that were given as often.
    """
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for item_id, group in answers.groupby("item_id", sort=True):  # sorted: the draw is that of any order
        words = group["prediction"].dropna().tolist()
        counts = Counter(word.casefold() for word in words)
        tied = sorted(word for word, count in counts.items() if count == max(counts.values()))
        prediction = None
        if tied:
            chosen = tied[int(rng.integers(len(tied)))]
            forms = Counter(word for word in words if word.casefold() == chosen)
            prediction = max(sorted(forms), key=lambda form: forms[form])
        rows.append({"item_id": item_id, "prediction": prediction, "tied": tied})
    return pd.DataFrame(rows, columns=["item_id", "prediction", "tied"])
