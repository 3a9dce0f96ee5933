"""From a collection of novels to finished data sets, with a manifest of every step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from workbench.construction import childrens_book, cnn_qa, lambada, sentence_completion
from workbench.construction.candidates import CandidatePassages
from workbench.construction.manifest import NOT_DRAWN, FileDigest, Manifest, Step
from workbench.construction.novel_collection import NovelCollection, read_novels
from workbench.datasets import sources
from workbench.datasets.books import Book
from workbench.items.items import Items
from workbench.models.base import Predictor
from workbench.models.ngram.model import NGram
from workbench.storage import files
from workbench.storage.errors import DataError
from workbench.storage.progress import progress_bar
from workbench.texts.tokenise import Novels

SETS = ("lambada", "childrens_book", "sentence_completion", "cnn_qa")
"""The data sets that `build` makes."""

Made = tuple[dict[str, Items], Manifest]
"""The items of a set by the name of their file, and the manifest with their steps."""


class _Call(NamedTuple):
    """Arguments of `build` for each set."""

    novels: Callable[[], Iterator[Book]]  # that items come from
    others: Callable[[], Iterator[Book]]  # that models are trained on
    split: str
    number: int | None
    seed: int
    filters: Sequence[Predictor] | None


class DataSets:
    """Data sets that were built, in a folder.

    Attributes
    ----------
    folder : Path
    manifest : Manifest
        Inputs, parameters, versions, what each step kept and dropped, and digests of the files.

    Examples
    --------
    >>> from workbench import construction
    >>> made = construction.build("sample", "built", sets=["childrens_book"], number=5)
    >>> made.names, len(made["childrens_book"])
    (['childrens_book'], 20)
    >>> construction.DataSets("built").manifest == made.manifest
    True
    """

    def __init__(self, folder: Path | str) -> None:
        """Open a folder that `build` wrote; DataError if it holds no manifest, or a damaged one."""
        self.folder = Path(folder)
        self.manifest = Manifest.load(self.folder)

    @property
    def names(self) -> list[str]:
        """The names of the sets, such as ``lambada`` and ``lambada-control``."""
        return [Path(file.name).stem for file in self.manifest.outputs]

    def __getitem__(self, name: str) -> Items:
        """Return the items of a set; DataError if there is none of this name, or its file was changed."""
        sources.check_choice("set", name, self.names, "this folder")
        path = self.folder / f"{name}.parquet"
        if FileDigest.of(path) not in self.manifest.outputs:
            raise DataError("this file is damaged or was changed", file=path, hint="build the sets again")
        return Items.from_parquet(path)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.manifest.outputs)

    def __repr__(self) -> str:
        return f"<DataSets {', '.join(self.names)} in {str(self.folder)!r}>"


def build(
    novels: Novels | NovelCollection,
    folder: Path | str,
    *,
    sets: Sequence[str] = SETS,
    number: int | None = 1000,
    split: str = "test",
    train: str = "train",
    filters: Sequence[Predictor] | None = None,
    seed: int = 0,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    on_error: str = "raise",
) -> DataSets:
    """Build data sets in the form of the releases from a collection of novels.

    The novels are checked and split (:func:`workbench.construction.read_novels`). Items come from one part of
    them, models that filter or generate are trained on another, so that none has seen what it judges. A call
    that was killed resumes: what was finished comes from the cache. The same novels, parameters and versions
    give the same files, byte for byte, in one process, in several, and on a cluster.

    Parameters
    ----------
    novels : path, str, book, iterable of these, or NovelCollection
        As for `read_novels`; or what that returned.
    folder : path
        Where the sets (``lambada.parquet`` ...) and ``manifest.json`` are written, at once or not at all. It
        replaces what `build` wrote there before.
    sets : sequence of str
        Some of `SETS`. ``lambada`` has passages that its filters left, and a control set of the same number,
        unfiltered; what people drop of them is for :func:`workbench.people.export_step`.
    number : int, optional
        Items of each set at most (of the Children's Book Test, of each class of words), drawn at random; None
        for all.
    split, train : str
        The part of the collection that items come from, and that which models are trained on.
    filters : sequence of Predictor, optional
        Models that drop passages whose target they find likely
        (:func:`workbench.construction.lambada.filtered`). By default a 4-gram model of the part to train on;
        :func:`workbench.construction.lambada.paper_filters` trains all that the paper names.
    seed : int, default 0
    options : mapping, optional
        Further options by stage: ``novels`` (of `read_novels`), or the name of a set.
    on_error : {"raise", "skip"}
        As for `read_novels`: what to do with a file that cannot be read.

    Returns
    -------
    DataSets

    Raises
    ------
    DataError
        If there is no such set or part, no novel is left, or a set cannot be made of the novels.

    Examples
    --------
    >>> from workbench import construction
    >>> made = construction.build("sample", "sets", sets=["lambada"], number=20)
    >>> made.names, made["lambada"][0].book_id in set(made["lambada-control"].frame["book_id"])
    (['lambada', 'lambada-control'], True)
    """
    for name in sets:
        sources.check_choice("set", name, SETS, "construction")
    stages = {name: dict(values) for name, values in (options or {}).items()}
    for name in stages:
        sources.check_choice("stage", name, ("novels", *SETS), "options")
    if not sets or (number is not None and number < 1):
        raise DataError(f"expected a set and an item or more, got sets={list(sets)}, number={number}")
    if isinstance(novels, NovelCollection):
        collection = novels
    else:
        collection = read_novels(novels, **{"seed": seed, "on_error": on_error, **stages.get("novels", {})})
    manifest = collection.manifest
    books = (partial(collection.books, split), partial(collection.books, train))
    call = _Call(*books, split, number, seed, filters)
    outputs: dict[str, Items] = {}
    with progress_bar(len(sets), label="building", unit="sets") as bar:
        for name in dict.fromkeys(sets):
            made, manifest = _MAKERS[name](call, manifest, stages.get(name, {}))
            outputs |= made
            bar.update()
    with files.atomic_folder(folder, replace=_is_ours(Path(folder))) as new:
        digests = []
        for name, items in outputs.items():
            items.to_parquet(new / f"{name}.parquet")
            digests.append(FileDigest.of(new / f"{name}.parquet"))
        parameters = {"split": split, "train": train, "number": number, "seed": seed}
        manifest.extended("build", parameters=parameters, steps=[], outputs=digests).save(new)
    return DataSets(folder)


def _is_ours(folder: Path) -> bool:
    """Return whether a folder holds sets that `build` wrote, which may be replaced."""
    try:
        return "build" in Manifest.load(folder).parameters
    except DataError:
        return False


def _lambada(call: _Call, manifest: Manifest, options: dict[str, Any]) -> Made:
    filters = options.pop("filters", call.filters)
    if filters is None:
        filters = [NGram.fit(call.others(), order=4)]
    candidates = CandidatePassages.of(call.novels())
    drawn: dict[str, Any] = {"number": call.number, "seed": call.seed, "split": call.split}
    result = lambada.filtered(candidates, filters, **drawn, **options)
    passages = result.survivors
    control = lambada.control(candidates, min(len(candidates), max(1, len(passages))), seed=call.seed)
    sets = {"lambada": passages, "lambada-control": control}
    return sets, lambada.recorded(manifest, candidates, result, control)


def _drawn(stage: str, call: _Call, manifest: Manifest, options: dict[str, Any]) -> Made:
    """Draw questions of all places in novels, of the Children's Book Test or CNN QA."""
    if stage == "cnn_qa":
        questions = partial(cnn_qa.questions, number=call.number)
    else:
        questions = partial(childrens_book.questions, per_class=call.number)
    items = questions(call.novels(), seed=call.seed, **options)
    n, n_places = len(items), int(items.attrs["places"])
    counts = {str(name): int(k) for name, k in items.frame["word_class"].value_counts().items()}
    step = Step(f"{stage} questions", n_places, n, {NOT_DRAWN: n_places - n}, unit="questions", counts=counts)
    parameters = {"pipeline": items.attrs["pipeline"], **options}
    return {stage: items}, manifest.extended(stage, parameters=parameters, steps=[step], libraries=["spacy"])


def _sentence_completion(call: _Call, manifest: Manifest, options: dict[str, Any]) -> Made:
    items = sentence_completion.questions(
        call.novels(), call.others(), number=call.number, seed=call.seed, **options
    )
    counts = dict(items.attrs["steps"])
    sentences, with_focus, tried = (counts.pop(name) for name in ("sentences", "with a focus word", "tried"))
    n = counts.pop("questions")
    steps = [
        Step("a rare focus word", sentences, with_focus, {"none": sentences - with_focus}, unit="sentences"),
        Step("sentences tried", with_focus, tried, {NOT_DRAWN: with_focus - tried}, unit="sentences"),
        Step("sentence completion", tried, n, counts, unit="sentences"),
    ]
    parameters = {"models": items.attrs["models"], "choice": items.attrs["choice"], **options}
    stage = "sentence_completion"
    return {stage: items}, manifest.extended(stage, parameters=parameters, steps=steps, libraries=["kenlm"])


_MAKERS: dict[str, Callable[..., Made]] = {
    "lambada": _lambada,
    "childrens_book": partial(_drawn, "childrens_book"),
    "sentence_completion": _sentence_completion,
    "cnn_qa": partial(_drawn, "cnn_qa"),
}
