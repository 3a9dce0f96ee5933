"""Probabilities of words after contexts: log-probabilities, exact ranks and best words, in bounded memory.

Contexts are sorted by length into batches; of each only the last place goes through the softmax, in chunks
of rows, so that a chunk's 60,000 log-probabilities a row stay within a bound. Where memory does not suffice,
a batch or chunk is halved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from workbench.models.neural.batching import Batched, Context, quiet, sorted_by_length
from workbench.runs.predictions import Floats

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.models.neural.networks.base import Last
    from workbench.models.neural.networks.words import Copies, Words

Ids = npt.NDArray[np.int64]
T = TypeVar("T")


class Lasts(NamedTuple):
    """What predicts the words after `n` contexts.

    Attributes
    ----------
    hidden : Tensor (n, width)
    copies : list of (Tensor (time,), Tensor (time,), float), or None
        Of each context, extended ids that can be copied, the probability of each place, and ln of the
        share that is left to the softmax; None where the network does not copy.
    """

    hidden: Tensor
    copies: list[tuple[Tensor, Tensor, Tensor]] | None

    def of(self, rows: slice) -> Copies | None:
        """Return the copies of some contexts, padded."""
        from workbench.models.neural.networks.words import Copies  # noqa: PLC0415 - all torch

        if self.copies is None:
            return None
        import torch  # noqa: PLC0415 - slow

        ids, copy, keep = zip(*self.copies[rows], strict=True)
        return Copies(padded(ids), padded(copy), torch.stack(keep))


class Counted(NamedTuple):
    """What is known of the answers of `n` contexts, and the best words.

    Attributes
    ----------
    log_prob : array (n,)
        NaN where nothing was asked.
    rank, tied : array (n,)
        1 + words strictly more probable, and words exactly as probable; 0 where the answer is not ranked.
    top : list of list of int
        Extended ids of the best words, the best first; of equal ones the lower id.
    values : list of list of float
    """

    log_prob: Floats
    rank: Ids
    tied: Ids
    top: list[list[int]]
    values: list[list[float]]


class Scorer(Batched):
    """Computes what a network says of words after contexts; see :class:`Batched` for its parameters."""

    @quiet
    def last(self, contexts: Sequence[Context]) -> Lasts:
        """Read contexts of extended ids, none of them empty."""
        import torch  # noqa: PLC0415 - slow

        hidden = torch.empty(len(contexts), self.network.width, device=self.where)
        copies: list[Any] = [None] * len(contexts)
        order = sorted_by_length(contexts, self.network.window)
        for rows, last in self.bounded(order, lambda _, batch: self._read(batch)):
            hidden[rows] = last.hidden.float()
            if last.ids is None or last.copy is None or last.keep is None:
                continue
            for place, row in enumerate(rows):
                there = last.copy[place] > 0
                copies[row] = (last.ids[place][there], last.copy[place][there], last.keep[place])
        return Lasts(hidden, None if None in copies or not copies else copies)

    def _read(self, contexts: Sequence[Context]) -> Last:
        ids, lengths = self.padded(contexts)
        return self.network.last(ids, lengths)

    def _over(
        self, lasts: Lasts, work: Callable[[Words, slice], T], start: int = 0, stop: int | None = None
    ) -> list[T]:
        """Do work for chunks of contexts with the log-probabilities of all words."""
        return self.chunks(
            len(lasts.hidden) if stop is None else stop,
            lambda rows: work(self._words(lasts, rows), rows),
            start=start,
        )

    def _words(self, lasts: Lasts, rows: slice) -> Words:
        """Return ln p of all words after some contexts, those of the passage mixed in."""
        from workbench.models.neural.networks.words import alone, mixed  # noqa: PLC0415 - all torch

        values = self.network.output.distribution(lasts.hidden[rows]).float()
        copies = lasts.of(rows)
        return alone(values, self.share) if copies is None else mixed(values, copies, self.share)

    @quiet
    def distribution(self, lasts: Lasts, start: int, stop: int) -> Floats:
        """Return ln p of the words of the vocabulary, ``<unk>`` left out: float64 (stop - start, V)."""
        n_words = self.network.n_words
        parts = self._over(
            lasts, lambda words, _: words.values[:, 1:n_words].double().cpu().numpy(), start, stop
        )
        return np.concatenate(parts) if parts else np.zeros((0, n_words - 1))

    @quiet
    def ranked(self, lasts: Lasts, wanted: Ids, top_k: int) -> Counted:
        """Rank words among all of the vocabulary and, where they are copied, the passage's unknown ones.

        Parameters
        ----------
        lasts : Lasts (n,)
        wanted : array (n,)
            Extended id of each answer, -1 for none.
        top_k : int
        """
        import torch  # noqa: PLC0415 - slow

        ids = torch.from_numpy(wanted).to(self.where)
        parts = self._over(lasts, lambda words, rows: [x.cpu() for x in words.ranked(ids[rows], top_k)])
        if not parts:
            none = np.zeros(0, dtype=np.int64)
            return Counted(np.zeros(0), none, none, [], [])
        log_prob, counts, top, values = (torch.cat(part).numpy() for part in zip(*parts, strict=True))
        return Counted(log_prob.astype(np.float64), counts[:, 0], counts[:, 1], top.tolist(), values.tolist())

    @quiet
    def lines(
        self, contexts: Sequence[Context], lines: Sequence[Sequence[Context]], pieces: Sequence[Sequence[int]]
    ) -> list[Floats]:
        """Return ln p of some continuations of each context: a word, and what may stand after it.

        Parameters
        ----------
        contexts : sequence (n,) of sequence of int
        lines : sequence (n,) of sequence of sequence of int
            Extended ids of the continuations of each context.
        pieces : sequence (n,) of sequence of int
            How many ids of each continuation are the word's: of these an unknown one has its share of
            ``<unk>``; for the words after it, which are the same whatever the word, all of ``<unk>`` counts.
        """
        lasts = self.last(contexts)
        found = self._firsts(lasts, [[line[0] for line in row] for row in lines])
        self._add_rest(found, contexts, lines)
        if lasts.copies is None and self.share:  # a network that copies counts unknown words itself
            for values, row, numbers in zip(found, lines, pieces, strict=True):
                for place, (line, n) in enumerate(zip(row, numbers, strict=True)):
                    values[place] -= self.share * sum(number >= self.network.n_words for number in line[1:n])
        return found

    def _firsts(self, lasts: Lasts, wanted: Sequence[Sequence[int]]) -> list[Floats]:
        """Return ln p of words right after the contexts."""
        from workbench.models.neural.networks.base import known  # noqa: PLC0415 - all torch
        from workbench.models.neural.networks.words import of_targets  # noqa: PLC0415

        n_words = self.network.n_words

        def values(rows: slice) -> list[Floats]:
            targets, lengths = self.padded(wanted[rows])
            plain = self.network.output.log_prob(lasts.hidden[rows], known(targets, n_words))
            said = of_targets(plain, targets, n_words, self.share, lasts.of(rows)).cpu().numpy()
            return [row[:n].copy() for row, n in zip(said, lengths.tolist(), strict=True)]

        return [row for part in self.chunks(len(wanted), values) for row in part]

    def _add_rest(
        self, found: list[Floats], contexts: Sequence[Context], lines: Sequence[Sequence[Context]]
    ) -> None:
        """Add ln p of all but the first word of each continuation."""
        asked = [
            [column for column, line in enumerate(own) if len(line) > 1] for own in lines
        ]  # of each context, its continuations of more than a word
        some = [row for row, columns in enumerate(asked) if columns]
        if not some:
            return
        if not self._carries():
            most = None if self.network.window is None else self.network.window + 1  # the last is not read
            places = [(row, column) for row in some for column in asked[row]]
            whole = [(*contexts[row], *lines[row][column]) for row, column in places]
            rest = [len(lines[row][column]) for row, column in places]

            def work(which: Sequence[int], batch: Sequence[Context]) -> list[Floats]:
                first = min(len(line) - rest[i] for i, line in zip(which, batch, strict=True))
                return self._followed(batch, start=max(0, first))  # 0 where less than `rest` fits

            for which, said in self.bounded(sorted_by_length(whole, most), work):
                for i, values in zip(which, said, strict=True):
                    row, column = places[i]
                    found[row][column] += values[1 - len(lines[row][column]) :].sum()
            return
        order = sorted_by_length([contexts[row] for row in some], self.network.window)
        for held, states in self.bounded(order, lambda _, batch: self._states(batch)):
            after = dict(zip([some[place] for place in held], states, strict=True))
            places = [(row, column) for row in after for column in asked[row]]
            for which, said in self._after(places, after, lines):
                for i, values in zip(which, said, strict=True):
                    row, column = places[i]
                    found[row][column] += values.sum()

    def _after(
        self,
        places: Sequence[tuple[int, int]],
        states: dict[int, tuple[Tensor, ...]],
        lines: Sequence[Sequence[Context]],
    ) -> Iterator[tuple[list[int], list[Floats]]]:
        """Yield ln p of all but the first word of some continuations, given the states before them."""

        def work(which: Sequence[int], batch: Sequence[Context]) -> list[Floats]:
            return self._followed(batch, [states[places[i][0]] for i in which])

        return self.bounded(sorted_by_length([lines[row][column] for row, column in places]), work)

    def _carries(self) -> bool:
        """Say whether the network remembers a text, so that it can go on with it."""
        import torch  # noqa: PLC0415 - slow

        return self.network.states(torch.zeros(1, 1, dtype=torch.int64, device=self.where))[1] is not None

    def _states(self, contexts: Sequence[Context]) -> list[tuple[Tensor, ...]]:
        """Return what the network remembers after each context; they are sorted, the longest first.

        All are read up to the end of the shortest; the others go on from there.
        """
        ids, _ = self.padded(contexts)
        lengths = [len(context) for context in contexts]
        found: list[tuple[Tensor, ...]] = [()] * len(contexts)
        state, at, rows = None, 0, len(contexts)
        for stop in sorted(set(lengths)):
            after = self._remembered(ids[:rows, at:stop], state)
            left = sum(length > stop for length in lengths)
            for row in range(left, rows):
                found[row] = tuple(part[row : row + 1] for part in after)
            state, at, rows = tuple(part[:left] for part in after), stop, left
        return found

    def _remembered(self, ids: Tensor, state: Any) -> Any:
        """Return what the network remembers after a stretch of text."""
        from workbench.models.neural.networks.base import known  # noqa: PLC0415 - all torch

        return self.network.states(known(ids, self.network.n_words), state)[1]

    def _followed(
        self,
        lines: Sequence[Context],
        states: Sequence[tuple[Tensor, ...]] | None = None,
        *,
        start: int = 0,
    ) -> list[Floats]:
        """Return ln p of all but the first `start` + 1 words of each line, given what stands before."""
        ids, lengths = self.padded(lines)
        state = None if states is None else tuple(joined(parts) for parts in zip(*states, strict=True))
        values = self.network.following(ids, state, start=start, share=self.share).double().cpu().numpy()
        return [row[: n - 1 - start] for row, n in zip(values, lengths.tolist(), strict=True)]


def joined(parts: Sequence[Tensor]) -> Tensor:
    """Join tensors along the rows; shorter ones are padded along the second axis, ids by -1."""
    import torch  # noqa: PLC0415 - slow

    most = max((part.shape[1] for part in parts if part.ndim > 1), default=0)
    if all(part.ndim == 1 or part.shape[1] == most for part in parts):
        return torch.cat(list(parts))
    padded = []
    for part in parts:
        shape = (part.shape[0], most - part.shape[1], *part.shape[2:])
        padded.append(torch.cat([part, part.new_full(shape, 0 if part.is_floating_point() else -1)], 1))
    return torch.cat(padded)


def padded(parts: Sequence[Tensor]) -> Tensor:
    """Return tensors of one axis as the rows of one, padded by 0."""
    from torch.nn.utils.rnn import pad_sequence  # noqa: PLC0415 - slow

    return pad_sequence(list(parts), batch_first=True)
