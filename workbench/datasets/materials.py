"""The data of an experiment: a data set if it is on this machine, else the sample, and texts to train on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from workbench import datasets
from workbench.datasets import sources
from workbench.datasets.books import Book, books
from workbench.items.items import Items
from workbench.items.schema import DataError

_SPLITS = {"lambada": {"dev", "control"}, "cbt": {"dev"}, "msrcc": {"test"}}
# The sample in the place of a task: its variant, and the number of stories that nothing is trained on
_SAMPLED = {"lambada": ("plain", 5), "cbt": ("cbt", 5), "msrcc": ("msrcc", 8)}
_NOVELS = ("novels*.tar.xz",)


@dataclass(frozen=True)
class Materials:
    """Items to test on and texts to train on that do not share a book.

    `task` is the data set that was requested, `dataset` the same or "sample" in its place, `path` the file,
    folder or archive of books to train on, where one was given.
    """

    task: str
    dataset: str
    path: Path | None = None

    @property
    def texts(self) -> Path | Iterable[Book]:
        """Texts to train on: those given; of the sample all but the last stories; else the task's own.

        LAMBADA's are its training novels, or else ``novels*.tar.xz``, of which the Children's Book Test
        takes the folder ``children``. DataError if there are none on this machine.
        """
        if self.path is not None:
            return self.path
        if self.dataset == "sample":
            return list(books("sample"))[: -_SAMPLED[self.task][1]]
        if self.task == "msrcc":
            return books("msrcc", "train")
        searched = sources.search_roots("novels")
        if self.task == "lambada" and _found("lambada", {"train"}, books=True):
            return books("lambada", "train")
        if (novels := sources.spot(searched, _NOVELS)) is None:
            places = ", ".join(str(root.folder) for root in searched)
            problem = f"found no novels to train on ({_NOVELS[0]}); searched {places}"
            raise DataError(problem, remedy="pass texts= a file, folder or archive of books")
        if self.task == "cbt":
            return (book for book in books(novels) if "/children/" in f"/{book.book_id}")
        return novels

    def load(self, split: str | None = None, variant: str | None = None) -> Items:
        """Return items, as :func:`workbench.load` does; of the sample those of the last stories only."""
        if self.dataset != "sample":
            return datasets.load(self.dataset, split, variant=variant)
        default, n = _SAMPLED[self.task]
        items = datasets.load("sample", split, variant=variant or default)
        last = [book.book_id.rpartition("/")[2] for book in list(books("sample"))[-n:]]
        return items.where(items.frame["book_id"].isin(last).to_numpy())


def materials(task: str, data: str = "auto", *, texts: str | Path | None = None) -> Materials:
    """Choose the data of an experiment.

    Parameters
    ----------
    task : {"lambada", "cbt", "msrcc"}
        The data set that the experiment is about.
    data : str, default "auto"
        `task`, "sample", or "auto": the data set if its files are on this machine, else the sample.
    texts : str or path, optional
        File, folder or archive of books to train on, in place of the usual ones.

    Returns
    -------
    Materials
        With ``.dataset`` (the name that was chosen), ``.load(split, variant)`` and ``.texts``.

    Raises
    ------
    DataError
        If there is no such task or data set.

    Examples
    --------
    >>> wb.materials("lambada", "sample").load("dev")  # doctest: +SKIP
    """
    sources.choose("task", task, tuple(_SPLITS), "materials")
    sources.choose("data set", data, ("auto", task, "sample"), f"materials of {task}")
    dataset = (task if _found(task, _SPLITS[task]) else "sample") if data == "auto" else data
    return Materials(task, dataset, None if texts is None else Path(texts).expanduser())


def _found(dataset: str, splits: set[str], *, books: bool = False) -> bool:
    """Return whether the items (or the books) of all of these splits are on this machine."""
    table = datasets.available()
    of_kind = (table["variant"] == "books") == books
    return splits <= set(table.loc[table["found"] & (table["dataset"] == dataset) & of_kind, "split"])
