"""Work in batches that fit into memory: the longest first, smaller ones where a GPU has not enough."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

Result = TypeVar("Result")

_ROWS = 512


class Size(NamedTuple):
    """How large one thing is: its sub-tokens, and the positions that are asked for."""

    tokens: int
    places: int = 1


class Batches:
    """Cuts things into batches.

    Parameters
    ----------
    tokens : int
        Sub-tokens in a batch at most, padding counted; a thing that is longer is a batch by itself.
    places : int
        Positions in a batch at most.
    """

    def __init__(self, tokens: int, places: int) -> None:
        self.tokens, self.places = tokens, max(places, 1)

    def run(
        self, sizes: Sequence[Size], work: Callable[[list[int]], Result], *, factor: int = 1
    ) -> Iterator[tuple[list[int], Result]]:
        """Yield the places of what is in each batch, and what the work on it returned.

        Parameters
        ----------
        sizes : sequence of Size
        work : callable
            Gets the places of a batch. Where the GPU's memory is not enough it is done in halves, and later
            batches are half as large.
        factor : int, default 1
            How many times as many sub-tokens may be in a batch.
        """
        left = sorted(range(len(sizes)), key=lambda place: -sizes[place].tokens)
        while left:
            part = self._first(left, sizes, factor)
            left = left[len(part) :]
            yield from self._halved(part, work)

    def _first(self, order: Sequence[int], sizes: Sequence[Size], factor: int) -> list[int]:
        widest, places = sizes[order[0]].tokens, 0
        most = min(max(self.tokens * factor // max(widest, 1), 1), _ROWS)
        for n, place in enumerate(order[:most]):
            places += sizes[place].places
            if n and places > self.places:
                return list(order[:n])
        return list(order[:most])

    def _halved(
        self, part: list[int], work: Callable[[list[int]], Result]
    ) -> Iterator[tuple[list[int], Result]]:
        import torch  # noqa: PLC0415 - heavy

        try:
            found = work(part)
        except torch.OutOfMemoryError:
            if len(part) == 1:
                raise
        else:
            yield part, found
            return
        torch.cuda.empty_cache()
        self.tokens = max(self.tokens // 2, 1)
        half = len(part) // 2
        yield from self._halved(part[:half], work)
        yield from self._halved(part[half:], work)
