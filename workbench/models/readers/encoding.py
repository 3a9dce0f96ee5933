"""Questions as arrays: encoded once, mapped into memory, padded a batch at a time."""

from __future__ import annotations

import contextlib
import json
from array import array
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from workbench.items.items import Items
from workbench.items.schema import Item
from workbench.items.tokens import tokens
from workbench.models.item_words import occurrences, positions_of, word_tokens
from workbench.predictions.store import items_digest
from workbench.storage import cache
from workbench.storage.errors import DataError, reading
from workbench.storage.files import atomic_folder, read_arrays, write_arrays
from workbench.storage.paths import cache_home
from workbench.storage.progress import progress_bar
from workbench.texts.batches import Batch

PAD, BLANK, UNKNOWN, RESERVED = range(4)
"""Ids of padding, of the blank, of words outside the vocabulary, and of its first word."""

_FILE = "questions.json"
_VERSION = 1  # of the arrays: those of another version count as absent
_FLAT = ("blank", "answer")
_POOL = 64  # batches whose questions are sorted by length together

Ints = npt.NDArray[np.int64]


class _Question(NamedTuple):
    """The arrays of one question."""

    context: list[int]
    slots: list[int]
    sentences: list[int]
    query: list[int]
    candidates: list[int]
    blank: int
    answer: int


_RAGGED = _Question._fields[:-2]


class Questions:
    """Encoded questions, concatenated into arrays.

    Candidates that the lower-cased text does not distinguish are one. A candidate of several tokens begins
    where all of them stand in a row, and has the id of the last one.

    Attributes
    ----------
    vocabulary : list of str (V,)
        The word of id `RESERVED` first.
    arrays : dict of str to array
        ``context``: ids of the words before the target sentence; ``slots``: for each of them the candidate
        that begins there, 1 for the first one, 0 for none; ``sentences``: in which sentence it stands, 0 for
        the first; ``query``: ids of the target sentence with `BLANK`; ``candidates``: their ids. For each of
        these, ``<name>_starts`` (n + 1,) says where a question begins. ``blank`` (n,): place of the blank in
        the query; ``answer`` (n,): index of the answer in the candidates, -1 where it is none of them.
    key : str
        Digest of all that they depend on.
    """

    def __init__(self, vocabulary: Sequence[str], arrays: dict[str, npt.NDArray[Any]], key: str) -> None:
        self.vocabulary, self.arrays, self.key = list(vocabulary), arrays, key

    def __len__(self) -> int:
        return len(self.arrays["blank"])

    @property
    def lengths(self) -> list[int]:
        """Tokens of each context."""
        return [int(length) for length in np.diff(self.arrays["context_starts"])]

    @classmethod
    def cached(cls, items: Items, vocabulary: int | Sequence[str], *, lower: bool = True) -> Self:
        """Return items encoded with their candidates as :meth:`of` does, mapped from ``cache/questions``.

        They are encoded again where the files are damaged.
        """
        about = [_VERSION, items_digest(items), lower]
        about += [vocabulary if isinstance(vocabulary, int) else cache.digest(*vocabulary)]
        key = cache.digest(json.dumps(about))
        folder = cache_home() / "questions" / key
        with contextlib.suppress(DataError):  # not there yet, or damaged
            return cls.open(folder)
        questions = cls.of(items, vocabulary, lower=lower)
        with atomic_folder(folder, replace=True) as new:
            write_arrays(new, _FILE, questions.arrays, vocabulary=questions.vocabulary)
        cache.make_room()
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Map questions that `cached` wrote; DataError if they are damaged."""
        description, hint = "these encoded questions", "remove the folder: they are encoded again"
        manifest, arrays = read_arrays(folder, _FILE, what=description, hint=hint)
        with reading(folder, description, hint=hint):
            cache.touch(folder)
            return cls(manifest["vocabulary"], arrays, folder.name)

    @classmethod
    def of(
        cls,
        items: Items,
        vocabulary: int | Sequence[str],
        *,
        words: Sequence[Sequence[str]] | None = None,
        lower: bool = True,
    ) -> Self:
        """Encode items.

        Parameters
        ----------
        items : Items (n,)
        vocabulary : int or sequence of str
            So many of the most frequent words of these items, their answers included, or these words.
        words : sequence of sequence of str (n,), optional
            What is chosen from; the candidates of the items by default.
        lower : bool, default True
            Whether words are lower-cased.
        """
        index: dict[str, int] = {}
        columns = {name: array("i") for name in _Question._fields}  # no Python object a question
        starts = {name: array("q", [0]) for name in _RAGGED}
        with progress_bar(len(items), label="encode questions", unit="questions") as bar:
            for number, item in enumerate(items):
                row = item.candidates if words is None else words[number]
                if row is None:
                    raise DataError(f"the item {item.item_id} has no candidates to choose from")
                question = _encode(item, row, index, lower=lower)
                for name in _RAGGED:
                    columns[name].extend(getattr(question, name))
                    starts[name].append(len(columns[name]))
                for name in _FLAT:
                    columns[name].append(getattr(question, name))
                bar.update()
        arrays: dict[str, npt.NDArray[Any]] = {name: np.array(values) for name, values in columns.items()}
        arrays |= {f"{name}_starts": np.array(values) for name, values in starts.items()}
        if isinstance(vocabulary, int):
            types = _most_frequent(arrays, list(index), vocabulary)
        else:
            types = list(vocabulary)
        table = np.full(RESERVED + len(index), UNKNOWN, np.int32)
        table[:RESERVED] = np.arange(RESERVED)
        for id_, word in enumerate(types, RESERVED):
            if word in index:
                table[index[word]] = id_
        arrays |= {name: table[arrays[name]] for name in ("context", "query", "candidates")}
        return cls(types, arrays, "")

    def batch(self, rows: Sequence[int] | Ints) -> Batch:
        """Return a subset of the questions, padded with `PAD`, int64.

        Returns
        -------
        dict of str to array
            ``context``, ``slots``, ``sentences`` (rows, longest context); ``query`` (rows, longest query);
            ``candidates`` (rows, most candidates), `PAD` where there is none; ``blank``, ``answer`` (rows,).
        """
        batch: Batch = {name: self.arrays[name][rows].astype(np.int64) for name in _FLAT}
        for name in _RAGGED:
            starts, values = self.arrays[f"{name}_starts"], self.arrays[name]
            spans = [(int(starts[row]), int(starts[row + 1])) for row in rows]
            padded = np.full((len(spans), max([1, *(end - start for start, end in spans)])), PAD, np.int64)
            for number, (start, end) in enumerate(spans):
                padded[number, : end - start] = values[start:end]
            batch[name] = padded
        return batch


def _encode(item: Item, words: Sequence[str], index: dict[str, int], *, lower: bool) -> _Question:
    """Encode one item; words that are not in the index get the next ids."""

    def ids(words: Sequence[str]) -> list[int]:
        return [index.setdefault(word, len(index) + RESERVED) for word in words]

    item_tokens = tokens(item)
    text = tuple([word.lower() for word in item_tokens.words]) if lower else item_tokens.words
    first = item_tokens.sentences[-1]
    context = text[:first]
    forms = list(dict.fromkeys(word_tokens(item, word, lower=lower) for word in words))
    slots, positions = [0] * first, positions_of(context)
    for slot, form in reversed(list(enumerate(forms, 1))):
        for position in occurrences(context, form, positions.get(form[0], ())):
            slots[position] = slot
    starts = [*item_tokens.sentences[:-1], first] if first else [0]
    sentences = [n for n, (start, end) in enumerate(pairwise(starts)) for _ in range(start, end)]
    right = None if item.answer is None else word_tokens(item, item.answer, lower=lower)
    return _Question(
        ids(context), slots, sentences,
        [*ids(text[first : item_tokens.target]), BLANK, *ids(text[item_tokens.end :])],
        ids([form[-1] for form in forms]), item_tokens.target - first,
        forms.index(right) if right in forms else -1,
    )  # fmt: skip


def _most_frequent(arrays: Mapping[str, npt.NDArray[Any]], words: Sequence[str], size: int) -> list[str]:
    """Return the most frequent words of contexts, queries and answers."""
    answers = (arrays["candidates_starts"][:-1] + arrays["answer"])[arrays["answer"] >= 0]
    counted = [arrays["context"], arrays["query"], arrays["candidates"][answers]]
    counts = np.bincount(np.concatenate(counted), minlength=RESERVED + len(words))[RESERVED:]
    order = sorted(np.flatnonzero(counts).tolist(), key=lambda row: (-counts[row], words[row]))
    return [words[row] for row in order[:size]]


class QuestionBatches:
    """Batches of questions of about the same length, in random order, for the training loop.

    Of each epoch the questions that fill no batch are left out: others in each epoch.

    Parameters
    ----------
    questions : Questions
        Questions without their answer among the candidates are left out.
    rows : int
        Questions of a batch.
    seed : int

    Raises
    ------
    DataError
        If no question has its answer among the candidates.
    """

    carried, unit = False, "questions"

    def __init__(self, questions: Questions, *, rows: int, seed: int = 0) -> None:
        self.questions, self.seed = questions, seed
        self.usable = np.flatnonzero(np.asarray(questions.arrays["answer"]) >= 0)
        if not len(self.usable):
            raise DataError("no question has its answer among the candidates", hint="train on others")
        self.rows = min(rows, len(self.usable))
        self.steps, self.tokens = len(self.usable) // self.rows, self.rows
        self.lengths = np.diff(questions.arrays["context_starts"])[self.usable]

    def batch(self, step: int, rows: slice | None = None) -> Batch:
        """Return the arrays of a step, as :meth:`Questions.batch` does."""
        epoch, step = divmod(step, self.steps)
        return self.questions.batch(self.usable[self._order(epoch)[step]][rows or slice(None)])

    @lru_cache(maxsize=2)  # noqa: B019 - it lives as long as the training
    def _order(self, epoch: int) -> Ints:
        """Return the questions of each batch of an epoch, (steps, rows)."""
        rng = np.random.default_rng([self.seed, epoch])
        order = rng.permutation(len(self.usable))[: self.steps * self.rows]
        pools = [
            order[start : start + _POOL * self.rows] for start in range(0, len(order), _POOL * self.rows)
        ]
        ordered = [pool[np.argsort(self.lengths[pool], kind="stable")] for pool in pools]
        return rng.permutation(np.concatenate(ordered).reshape(self.steps, self.rows))
