"""Paths of sub-tokens after contexts, packed into rows of a batch: a tree in each row, and what it sees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from workbench.models.pretrained.loading import Ids

_ALIKE = 8  # sub-tokens that contexts begin with for their states to be shared


class PathRow(NamedTuple):
    """Paths after a context in one row: what several begin with stands there once."""

    owner: int  # the context
    seen: int | None  # how many sub-tokens of it are seen; None for all
    ids: Ids
    above: list[int]  # the place of the sub-token before each; -1 after the context
    steps: list[int]  # how many sub-tokens are between the context and each
    paths: list[int]  # which paths
    asked: list[int]  # the places asked, of one path after the other


def pack_paths(
    owners: Sequence[int],
    paths: Sequence[Ids],
    *,
    n_tokens: float,
    asked: Sequence[int] | None = None,
    seen: Sequence[int] | None = None,
) -> list[PathRow]:
    """Put the paths after each context (`owners`) into rows, which are full with `n_tokens` sub-tokens.

    The model is asked after the last sub-tokens of each path (`asked`), one by default; a path comes after
    the first `seen` sub-tokens of its context, all by default.
    """
    rows: list[PathRow] = []
    current: dict[tuple[int, int | None], tuple[PathRow, dict[tuple[int, int], int]]] = {}
    for index, (owner, path) in enumerate(zip(owners, paths, strict=True)):
        key = owner, None if seen is None else seen[index]
        row, nodes = current.get(key, (None, {}))
        if row is None or len(row.ids) >= n_tokens:
            row, nodes = PathRow(*key, [], [], [], [], []), {}
            rows.append(row)
            current[key] = row, nodes
        node, on_path = -1, []
        for step, token in enumerate(path):
            above, node = node, nodes.setdefault((node, token), len(row.ids))
            if node == len(row.ids):
                row.ids.append(token)
                row.above.append(above)
                row.steps.append(step)
            on_path.append(node)
        row.paths.append(index)
        row.asked.extend(on_path[-(1 if asked is None else asked[index]) :])
    return rows


def tree_mask(contexts: npt.NDArray[np.bool_], rows: Sequence[PathRow], width: int) -> npt.NDArray[np.bool_]:
    """Return what each node of the rows sees: its context, what is before it on its path, and itself.

    `contexts` (rows, length) are the places of the contexts; the mask is (rows, 1, width, length + width).
    """
    tree = np.zeros((len(rows), width, width), dtype=bool)
    tree[:, np.arange(width), np.arange(width)] = True
    for visible, row in zip(tree, rows, strict=True):
        for node, above in enumerate(row.above):
            if above >= 0:
                visible[node] |= visible[above]
    seen = np.broadcast_to(contexts[:, None], (len(rows), width, contexts.shape[1]))
    return np.concatenate([seen, tree], axis=2)[:, None]


def group_alike(contexts: Sequence[Ids], fits: Sequence[bool]) -> list[list[tuple[int, int]]]:
    """Return groups of contexts in a row that begin as the first of the group: which, and how far.

    The last sub-token of a context, after which the model is asked, does not count. A context that does not
    fit into what the model sees is a group by itself.
    """
    groups: list[list[tuple[int, int]]] = []
    first: Ids = []
    for index, (ids, is_short) in enumerate(zip(contexts, fits, strict=True)):
        alike = next((n for n, (a, b) in enumerate(zip(ids, first, strict=False)) if a != b), len(first))
        n = min(alike, len(ids)) if is_short else 0
        if n >= _ALIKE:
            groups[-1].append((index, min(n, len(ids) - 1)))
        else:
            first = ids if is_short else []
            groups.append([(index, len(ids) - 1)])
    return groups
