"""The data of an experiment: a data set if it is on this machine, else the sample, and texts to train on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from workbench import datasets
from workbench.datasets import sources
from workbench.datasets.books import Book, books
from workbench.items.items import Items
from workbench.storage.errors import DataError

_SPLITS = {"lambada": {"dev", "control"}, "cbt": {"dev"}, "msrcc": {"test"}}
_IN_SAMPLE = {"lambada": "plain", "cbt": "cbt", "msrcc": "msrcc"}
"""The sample's variant in the place of a task."""
_NOVELS = ("novels*.tar.xz",)
_SMOKE = 400, 12  # passages of a split, and books to train on, that are enough to see how things work


@dataclass(frozen=True)
class ExperimentData:
    """Items to test on and texts to train on that do not share a book.

    `task` is the data set that was requested, `dataset` the same or "sample" in its place, `path` the file,
    folder or archive of books to train on, where one was given. At the scale "smoke", items are a sample and
    texts are the first books.
    """

    task: str
    dataset: str
    path: Path | None = None
    scale: str = "cpu"

    @property
    def texts(self) -> Path | Iterable[Book]:
        """Texts to train on: those given; of the sample the stories "train"; else the task's own.

        LAMBADA's are its training novels, or else ``novels*.tar.xz``, of which the Children's Book Test
        takes the folder ``children``. DataError if there are none on this machine.
        """
        texts = self._texts()
        if self.scale != "smoke" or self.dataset == "sample":
            return texts
        return list(islice(books(texts) if isinstance(texts, Path) else texts, _SMOKE[1]))

    def _texts(self) -> Path | Iterable[Book]:
        if self.path is not None:
            return self.path
        if self.dataset == "sample":
            return list(books("sample", "train"))
        if self.task == "msrcc":
            return books("msrcc", "train")
        searched = sources.search_roots("novels")
        if self.task == "lambada" and _found("lambada", {"train"}, books=True):
            return books("lambada", "train")
        if (novels := sources.find_first(searched, _NOVELS)) is None:
            folders = ", ".join(str(root.folder) for root in searched)
            problem = f"found no novels to train on ({_NOVELS[0]}); searched {folders}"
            raise DataError(problem, hint="pass texts= a file, folder or archive of books")
        if self.task == "cbt":
            return (book for book in books(novels) if "/children/" in f"/{book.book_id}")
        return novels

    def load(self, split: str | None = None, variant: str | None = None) -> Items:
        """Return items, as :func:`workbench.load` does; of the sample only the stories "test"."""
        if self.dataset != "sample":
            items = datasets.load(self.dataset, split, variant=variant)
            return items.sample(_SMOKE[0]) if self.scale == "smoke" else items
        items = datasets.load("sample", split, variant=variant or _IN_SAMPLE[self.task])
        held_out = [book.book_id for book in books("sample", "test")]
        return items.where(items.frame["book_id"].isin(held_out).to_numpy())


def experiment_data(
    task: str, data: str = "auto", *, texts: str | Path | None = None, scale: str = "cpu"
) -> ExperimentData:
    """Choose the data of an experiment.

    Parameters
    ----------
    task : {"lambada", "cbt", "msrcc"}
        The data set that the experiment is about.
    data : str, default "auto"
        `task`, "sample", or "auto": the data set if its files are on this machine, else the sample.
    texts : str or path, optional
        File, folder or archive of books to train on, in place of the usual ones.
    scale : {"cpu", "gpu", "smoke"}
        "smoke" takes a sample of 400 items of each split, the same of each variant, and the first 12 books,
        to try an experiment in seconds; the others take everything.

    Returns
    -------
    ExperimentData
        With ``.dataset`` (the name that was chosen), ``.load(split, variant)`` and ``.texts``.

    Raises
    ------
    DataError
        If there is no such task or data set.

    Examples
    --------
    >>> data = wb.experiment_data("lambada", "sample")
    >>> data.dataset, len(data.load("dev")), len(data.texts)
    ('sample', 86, 12)
    """
    sources.check_choice("task", task, tuple(_SPLITS), "experiment_data")
    sources.check_choice("data set", data, ("auto", task, "sample"), f"data of {task}")
    sources.check_choice("scale", scale, ("smoke", "cpu", "gpu"), "experiment_data")
    dataset = (task if _found(task, _SPLITS[task]) else "sample") if data == "auto" else data
    return ExperimentData(task, dataset, None if texts is None else Path(texts).expanduser(), scale)


def _found(dataset: str, splits: set[str], *, books: bool = False) -> bool:
    """Return whether the items (or the books) of all of these splits are on this machine."""
    table = datasets.available()
    of_kind = (table["variant"] == "books") == books
    return splits <= set(table.loc[table["found"] & (table["dataset"] == dataset) & of_kind, "split"])
