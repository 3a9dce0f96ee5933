"""Log-probabilities of what may follow a context, by a causal model that sees each context once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from workbench.models.pretrained.network import Network, Told
from workbench.models.pretrained.subwords import Ids


class Wanted(NamedTuple):
    """A text of which the probability is asked, and what stands before it."""

    before: str
    after: str


def told_of(
    network: Network, rows: Sequence[Sequence[Wanted]], *, step: Callable[[int], object] = lambda _n: None
) -> Told:
    """Return what a model says of texts.

    Parameters
    ----------
    network : Network
    rows : sequence of sequence of Wanted (n,)
        For each item what is asked. What stands before is seen once, unless it is too long for the model
        or is cut into other sub-tokens for one of the texts.
    step : callable, optional
        Is told how many texts are done.

    Returns
    -------
    Told
        About all of them in turn.
    """
    flat = [wanted for row in rows for wanted in row]
    pairs = network.subwords.pairs([wanted.before for wanted in flat], [wanted.after for wanted in flat])
    shared: list[list[int]] = []
    alone: list[int] = []
    first = 0
    for row in rows:
        places = list(range(first, first + len(row)))
        first += len(row)
        if len(row) > 1 and _fit(network, [pairs[place] for place in places]):
            shared.append(places)
        else:
            alone += places
    told = Told.nothing(len(flat))
    told.put(alone, network.follow([pairs[place] for place in alone], step=step))
    for part, contexts in network.contexts([pairs[places[0]][0] for places in shared]):
        asked = [(index, place) for index, owner in enumerate(part) for place in shared[owner]]
        found = network.told(contexts, [index for index, _ in asked], [pairs[place][1] for _, place in asked])
        told.put([place for _, place in asked], found)
        step(len(asked))
    return told


def _fit(network: Network, pairs: Sequence[tuple[Ids, Ids]]) -> bool:
    """Say whether all have the same context, and none is too long."""
    context = pairs[0][0]
    return all(left == context and len(left) + len(right) <= network.length for left, right in pairs)
