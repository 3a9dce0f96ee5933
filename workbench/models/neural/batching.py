"""Work on rows of ids in batches that the memory holds, on a CPU or a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from threading import Lock
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

import numpy as np

from workbench.items.schema import DataError

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.models.neural.networks.base import Network

Context = Sequence[int]
T = TypeVar("T")
P = ParamSpec("P")
B = TypeVar("B", bound="Batched")

_CHUNK = {"cpu": 64 * 2**20, "cuda": 2**30}  # bytes of log-probabilities in a chunk
_BATCH = {"cpu": 1 << 13, "cuda": 1 << 16}  # words of contexts in a batch, padding counted


_lock = Lock()  # of the two lists
_inside: list[None] = []  # one for each thread that computes exactly
_before: list[Any] = []  # what held before the first of them


def quiet(method: Callable[Concatenate[B, P], T]) -> Callable[Concatenate[B, P], T]:
    """Let a method of `Batched` run without gradients, dropout and reduced precision."""

    @wraps(method)
    def quietly(self: B, *given: P.args, **named: P.kwargs) -> T:
        with self.at_rest():
            return method(self, *given, **named)

    return cast("Callable[Concatenate[B, P], T]", quietly)


class Batched:
    """A network that reads rows of ids.

    Parameters
    ----------
    network : Network
        On the device where it shall compute.
    share : float, default 0
        What is subtracted from ln p(``<unk>``) for one unknown word.
    batch_tokens : int, optional
        Words of contexts in a batch, padding counted: 8,192 on a CPU, 65,536 on a GPU.
    chunk_bytes : int, optional
        Bytes of log-probabilities in a chunk: 64 MB on a CPU, 1 GB on a GPU.
    """

    def __init__(
        self,
        network: Network,
        *,
        share: float = 0.0,
        batch_tokens: int | None = None,
        chunk_bytes: int | None = None,
    ) -> None:
        self.network, self.share = network, share
        self.where = next(network.parameters()).device
        kind = "cuda" if self.where.type == "cuda" else "cpu"
        self.batch_tokens = batch_tokens or _BATCH[kind]
        self.chunk_rows = max(1, (chunk_bytes or _CHUNK[kind]) // (4 * network.n_words))

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        """Compute without gradients, dropout and reduced precision; all is as before afterwards."""
        import torch  # noqa: PLC0415 - slow

        trained = self.network.training  # where it is not, another thread may use it too
        if trained:
            self.network.eval()
        try:
            with (
                torch.no_grad(),
                torch.autocast(self.where.type, enabled=False),
                exact(self.where.type),
            ):
                yield
        finally:
            if trained:
                self.network.train()

    def padded(self, rows: Sequence[Context], value: int = 0) -> tuple[Tensor, Tensor]:
        """Return rows of ids as one tensor, padded at the right, and their lengths, on the device."""
        import torch  # noqa: PLC0415 - slow

        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        ids = np.full((len(rows), int(lengths.max(initial=0))), value, dtype=np.int64)
        ids[np.arange(ids.shape[1]) < lengths[:, None]] = np.concatenate([*map(np.asarray, rows), []])
        return torch.from_numpy(ids).to(self.where), torch.from_numpy(lengths).to(self.where)

    def bounded(
        self, rows: Sequence[tuple[int, Context]], work: Callable[[Sequence[int], Sequence[Context]], T]
    ) -> Iterator[tuple[list[int], T]]:
        """Yield what work gives for batches of rows (sorted, the longest first), and which these are.

        A batch for which memory does not suffice is halved, and so are all after it.
        """
        start = 0
        while start < len(rows):
            longest = max(1, len(rows[start][1]))
            batch = rows[start : start + max(1, self.batch_tokens // longest)]
            places, texts = [place for place, _ in batch], [text for _, text in batch]
            found = self.tried(lambda places=places, texts=texts: work(places, texts), len(batch))  # type: ignore[misc]
            if found is None:
                self.batch_tokens = len(batch) // 2 * longest
                continue
            yield places, found[0]
            start += len(batch)

    def chunks(self, n: int, work: Callable[[slice], T], *, start: int = 0) -> list[T]:
        """Do work for rows of which the log-probabilities of all words are held at a time."""
        found: list[T] = []
        while start < n:
            rows = slice(start, min(n, start + self.chunk_rows))
            done = self.tried(lambda rows=rows: work(rows), rows.stop - rows.start)  # type: ignore[misc]
            if done is None:
                self.chunk_rows = (rows.stop - rows.start) // 2
                continue
            found.append(done[0])
            start = rows.stop
        return found

    def tried(self, work: Callable[[], T], rows: int) -> tuple[T] | None:
        """Return what some work gave, None where memory did not suffice for so many rows."""
        try:
            return (work(),)
        except (RuntimeError, MemoryError) as error:
            if not exhausted(error):
                raise
            if rows <= 1:
                raise DataError(
                    "there is not enough memory for a single context",
                    remedy="free memory, or compute on another device",
                ) from error
        freed()
        return None


def sorted_by_length(rows: Sequence[Context], window: int | None = None) -> list[tuple[int, Context]]:
    """Return rows with their places, the longest first, each cut to its last `window` words."""
    cut = [row if window is None else row[-window:] for row in rows]
    return sorted(enumerate(cut), key=lambda pair: -len(pair[1]))


@contextmanager
def exact(kind: str) -> Iterator[None]:
    """Let products of float32 be computed in float32 on a GPU, too (not in TF32); as before afterwards."""
    import torch  # noqa: PLC0415 - slow

    if kind != "cuda":
        yield
        return
    with _lock:
        if not _before:
            _before.extend([torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32])
            torch.set_float32_matmul_precision("highest")
            torch.backends.cudnn.allow_tf32 = False
        _inside.append(None)
    try:
        yield
    finally:
        with _lock:
            _inside.pop()
            if not _inside:  # the last of all threads
                torch.set_float32_matmul_precision(_before[0])
                torch.backends.cudnn.allow_tf32 = _before[1]
                _before.clear()


def exhausted(error: BaseException) -> bool:
    """Say whether an error means that memory does not suffice."""
    import torch  # noqa: PLC0415 - slow

    said = str(error)
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "not enough memory" in said


def freed() -> None:
    """Give back what a GPU's memory holds in reserve."""
    import torch  # noqa: PLC0415 - slow

    if torch.cuda.is_available():
        torch.cuda.empty_cache()
