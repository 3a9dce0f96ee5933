"""What the counts of words say to a softmax: how it begins, and where to cut the adaptive one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from workbench.models.neural.networks.shapes import Float

Counts = Sequence[int] | npt.NDArray[np.int64]

# What a product of B rows by k words of width d costs, in multiplications: k * (d * (B + _STEP) + _CELL * B).
_BATCH = 2048  # rows, B
_STEP = 64  # rows' worth of work that a weight causes once a step: it is read, gets a gradient and is updated
_CELL = 32  # for a logit: its exponential and its gradient
_PART = 1 << 25  # for a cluster: finding its rows, starting its operations
_MOST = 2
_PLACES = 160  # where a cut may be


def log_shares(counts: Counts) -> Float[Tensor, " n_words"]:
    """Return ln p of words by frequency, with one more occurrence each."""
    number = torch.as_tensor(np.asarray(counts), dtype=torch.float64) + 1
    return (number / number.sum()).log().float()


def order(counts: Counts) -> npt.NDArray[np.int64]:
    """Return the classes by falling count, class 0 first; equal ones by number."""
    number = np.asarray(counts, dtype=np.int64)
    return np.concatenate([[0], 1 + np.argsort(-number[1:], kind="stable")]).astype(np.int64)


def cuts(counts: Counts, width: int) -> list[int]:
    """Return where to cut the words, by falling frequency, so that a step of training costs least.

    A cost is the number of multiplications that take as long as all work for a part (Grave et al. 2017,
    section 4.2, who measure it on their device); its constants are fixed here, so that the same counts always
    give the same cuts. As there, all words are counted at full width: that clusters are narrower comes on
    top, and does not draw more words into them. The cuts are the best of a logarithmic scale, by dynamic
    programming (section 4.3).

    Parameters
    ----------
    counts : sequence of int (n_words,)
        By falling count, but for class 0.
    width : int
        Of what words are predicted from.

    Returns
    -------
    list of int
        Words in the head, then where each further cluster ends, but for the last; empty: no cut pays.
    """
    number = np.asarray(counts, dtype=np.float64)
    n = len(number)
    p = np.concatenate([[0.0], np.cumsum(number / max(number.sum(), 1.0))])
    scale = np.geomspace(1, n, _PLACES) if n > 1 else np.array([1.0])
    at = np.unique(np.concatenate([scale.round().astype(np.int64), [n]]))
    best_cost, best = _cost(at[-1:], np.array([1.0]), width)[0], list[int]()
    for clusters in range(1, _MOST + 1):
        cost = np.where(at == n, 0.0, np.inf)  # of the words from each place on
        chosen = []
        for _ in range(clusters):
            rows = (p[at][None, :] - p[at][:, None]).clip(0)  # share of the rows, (start, stop)
            size = at[None, :] - at[:, None]
            each = _cost(size, rows, width) + _PART + cost[None, :]
            each[size <= 0] = np.inf
            chosen.append(each.argmin(1))
            cost = each.min(1)
        whole = cost + _cost(at + clusters, np.ones(len(at)), width)
        place = int(whole.argmin())
        if whole[place] < best_cost:
            best_cost, best = whole[place], [int(at[place])]
            for choice in chosen[:0:-1]:
                place = int(choice[place])
                best.append(int(at[place]))
    return best


def narrow(width: int, divide: float, part: int) -> int:
    """Return the width of a cluster; the first is number 1."""
    return max(1, int(width // divide**part))


def _cost(
    words: npt.NDArray[np.int64], share: npt.NDArray[np.float64], width: int
) -> npt.NDArray[np.float64]:
    """Return what it costs to predict some words for a share of the rows."""
    rows = _BATCH * share
    found: npt.NDArray[np.float64] = words * (width * (rows + _STEP) + _CELL * rows)
    return found
