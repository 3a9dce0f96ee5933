"""Masked language models (BERT and its like), which choose a candidate by pseudo-log-likelihood.

Salazar, Liang, Nguyen and Kirchhoff (2020), "Masked Language Model Scoring", section 2; the variant for words
of several sub-tokens is that of Kauf and Ivanova (2023), "A Better Way to Do Masked Language Model Scoring".
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
import numpy.typing as npt

from workbench.items import text as wt
from workbench.items.items import Items
from workbench.items.schema import DataError, Item
from workbench.models.base import Predictor, pad
from workbench.models.baselines.passage import one_of
from workbench.models.batching import Batcher
from workbench.models.pretrained.filling import Filler
from workbench.models.pretrained.loading import known_as
from workbench.runs.predictions import Floats
from workbench.storage.files import atomic_path
from workbench.storage.progress import progress_bar

Text = Literal["as-is", "detokenised"]
Over = Literal["sentence", "candidate"]
Within = Literal["original", "l2r"]
Ids = npt.NDArray[np.int32]

_SOURCE = "source.json"
_ROWS = 512  # sequences in a batch at most: each has a row of logits over the whole vocabulary
_TOKENS = {"cpu": 4096, "cuda": 65_536}


class _Sequence(NamedTuple):
    """A text as the model gets it, and what is asked of it."""

    ids: bytes  # all sub-tokens
    places: tuple[tuple[int, int], ...]  # those that are scored, and the end of what is masked from there on


class MaskedLM(Predictor):
    """Choose the candidate with which the target sentence has the highest pseudo-log-likelihood (PLL).

    Each sub-token of the sentence is masked in turn, and the natural logarithms of its probabilities, given
    all other sub-tokens, are summed. The sentences before the target sentence are given and not scored.

    Parameters
    ----------
    path_or_name : path or str
        A folder with a model and its tokenizer in the form of ``transformers``, or the name of one on the
        hub. Weights are read as safetensors only.
    text : {"as-is", "detokenised"}
        Whether texts of Treebank tokens are given as they are, or as a book would print them
        (:func:`workbench.items.text.readable`). Running text is always given as it is.
    over : {"sentence", "candidate"}
        The sub-tokens whose probabilities are summed: those of the target sentence, or the candidate's alone.
    within_word : {"original", "l2r"}
        What is masked with a sub-token: nothing else (Salazar et al.), or those on its right in the
        same word ("PLL-word-l2r" of Kauf and Ivanova). The first makes rare words that are cut into many
        sub-tokens look probable. Words are those that the tokenizer cuts first, before it looks for
        sub-tokens.
    length : int, optional
        Sub-tokens that the model sees at most; by default as many as it can. A longer text loses its
        beginning, for all candidates of an item at the same place.
    batch_tokens : int, optional
        Sub-tokens in a batch: 4,096 on a CPU, 65,536 on a GPU.
    device, dtype : str, optional
        By default a GPU where there is one, and there bfloat16; else single precision. Logarithms are
        always taken in single precision.
    revision : str, optional
        Of a model on the hub.
    trust_remote_code : bool, default False
        Whether code that comes with the model may run.
    name : str, optional
        What tables call it.
    progress : bool, default False

    Raises
    ------
    DataError
        If ``transformers`` is not installed, or there is no masked model with a fast tokenizer.

    Notes
    -----
    A PLL is no log-probability: those of different sentences do not sum to one. So `score_type` is
    "score", ``log_prob`` is null, and there is no perplexity. It ranks candidates only: it has no vocabulary.
    """

    version = 1

    def __init__(
        self,
        path_or_name: Path | str,
        *,
        text: Text = "as-is",
        over: Over = "sentence",
        within_word: Within = "original",
        length: int | None = None,
        batch_tokens: int | None = None,
        device: str | None = None,
        dtype: str | None = None,
        revision: str | None = None,
        trust_remote_code: bool = False,
        name: str | None = None,
        progress: bool = False,
    ) -> None:
        one_of("text", text, get_args(Text))
        one_of("over", over, get_args(Over))
        one_of("within_word", within_word, get_args(Within))
        folder = Path(path_or_name)
        where = str(folder.resolve() if folder.is_dir() else path_or_name)
        self._source = {"path_or_name": where, "revision": revision}
        self._filler = Filler.read(
            path_or_name, device=device, dtype=dtype, revision=revision, trust_remote_code=trust_remote_code
        )
        self.device, self.dtype = self._filler.device, self._filler.dtype
        self.text, self.over, self.within_word, self.progress = text, over, within_word, progress
        self.length = min(length or self._filler.length, self._filler.length)
        most = batch_tokens or _TOKENS.get(self.device.partition(":")[0], _TOKENS["cpu"])
        self._batcher = Batcher(most, rows=_ROWS)
        if self.length <= self._filler.marks:
            raise DataError(
                f"length is {length}, expected more than the {self._filler.marks} marks of the model"
            )
        self._label, self._digest = known_as(path_or_name, self._filler.commit or revision)
        how = "PLL" if within_word == "original" else "PLL-word-l2r"
        self.name = name or f"{self._label} ({how}{' of the candidate' if over == 'candidate' else ''})"

    @property
    def config(self) -> dict[str, Any]:
        """The model's name and the digest of its files, and how it is used."""
        return {
            "model": self._label,
            "digest": self._digest,
            "text": self.text,
            "over": self.over,
            "within_word": self.within_word,
            "length": self.length,
            "dtype": self.dtype,
            "name": self.name,
        }

    @property
    def training(self) -> dict[str, Any]:
        """The model, as what it was trained on is not known."""
        return {"pretrained": self._label}

    def score(self, items: Items, words: Sequence[Sequence[str]]) -> Floats:
        """Return the pseudo-log-likelihood of the sentence with each word in it, shape (n, most words).

        Raises
        ------
        DataError
            If a word has no sub-token, or what follows the blank leaves no room for it.
        """
        rows = [self._sequences(item, row) for item, row in zip(items, words, strict=True)]
        wanted = list(
            dict.fromkeys(sequence for row in rows for sequence in row)
        )  # each once: ties stay ties
        found = dict(zip(wanted, self._totals(wanted).tolist(), strict=True))
        return pad([[found[sequence] for sequence in row] for row in rows])

    def _sequences(self, item: Item, words: Sequence[str]) -> list[_Sequence]:
        """Return what the model gets for each word at the blank of an item."""
        if not words:
            return []
        written = [self._written(item, word) for word in words]
        told = self._filler.tokenizer(
            [text for text, _, _ in written],
            add_special_tokens=False,
            return_offsets_mapping=True,
            split_special_tokens=True,  # "[MASK]" in a text is text
            verbose=False,
        )
        spans = [np.array(row, dtype=np.int64).reshape(-1, 2) for row in told["offset_mapping"]]
        lead, tail = self._filler.lead, self._filler.tail
        room = self.length - self._filler.marks
        cut = max(_cut(row[:, 0], room) for row in spans)  # the same for all: they differ at the blank only
        if any(cut > start for _, (start, _), _ in written):
            raise DataError(
                f"what follows the blank of {item.item_id} leaves no room in {self.length} sub-tokens",
                remedy="take a model that sees more, or a greater length",
            )
        found = []
        for place, (word, (_, (start, end), sentence)) in enumerate(zip(words, written, strict=True)):
            left, right = spans[place].T
            mine = (left < end) & (right > start)
            if not mine.any():
                raise DataError(
                    f"the tokenizer of {self._label!r} leaves nothing of {word!r} in {item.item_id}"
                )
            scored = mine if self.over == "candidate" else right > sentence
            kept = left >= cut
            ids = np.array([*lead, *np.array(told["input_ids"][place])[kept], *tail], dtype=np.int32)
            ends = self._ends(told.word_ids(place))
            shift = len(lead) - int((~kept).sum())
            at = np.flatnonzero(scored & kept)
            found.append(_Sequence(ids.tobytes(), tuple((int(i) + shift, ends[i] + shift) for i in at)))
        return found

    def _written(self, item: Item, word: str) -> tuple[str, tuple[int, int], int]:
        """Return the text with a word at the blank, where that is in it, and where its sentence begins."""
        start, end = item.answer_span
        text = f"{item.text[:start]}{word}{item.text[end : item.sentences[-1][1]]}"
        span, sentence = (start, start + len(word)), item.sentences[-1][0]
        if self.text == "detokenised" and item.tokenised:
            text, (span, (sentence, _)) = wt.readable_spans(text, [span, (sentence, len(text))])
        return text, span, sentence

    def _ends(self, words: Sequence[int | None]) -> list[int]:
        """Return for every sub-token the place after the last one that is masked with it."""
        ends = [place + 1 for place in range(len(words))]
        if self.within_word == "l2r":
            for place in reversed(range(len(words) - 1)):
                if words[place] is not None and words[place] == words[place + 1]:
                    ends[place] = ends[place + 1]
        return ends

    def _totals(self, sequences: Sequence[_Sequence]) -> Floats:
        """Return the sum of the log-probabilities of each sequence's scored sub-tokens."""
        totals = np.zeros(len(sequences))
        masks = [
            (owner, *place) for owner, sequence in enumerate(sequences) for place in sequence.places
        ]  # of each masked copy its sequence, the sub-token asked, and the end of what is masked
        lengths = [len(sequences[owner].ids) // 4 for owner, _, _ in masks]
        asked = np.array(masks, dtype=np.int64).reshape(-1, 3)

        def work(part: list[int]) -> Floats:
            copies = [np.frombuffer(sequences[owner].ids, dtype=np.int32).copy() for owner in asked[part, 0]]
            targets = [int(ids[place]) for ids, place in zip(copies, asked[part, 1], strict=True)]
            for ids, (_, place, end) in zip(copies, asked[part], strict=True):
                ids[place:end] = self._filler.tokenizer.mask_token_id
            return self._filler.log_probs(copies, asked[part, 1].tolist(), targets)

        with progress_bar(len(masks), label=self.name, unit="masks", shown=self.progress) as bar:
            for part, log_probs in self._batcher.run(lengths, work):
                np.add.at(totals, asked[part, 0], log_probs)
                bar.update(len(part))
        return totals

    def _save(self, folder: Path) -> None:
        with atomic_path(folder / _SOURCE) as path:
            path.write_text(json.dumps(self._source), encoding="utf-8")

    @classmethod
    def _load(cls, folder: Path, config: dict[str, Any]) -> Self:
        options = {name: config[name] for name in ("text", "over", "within_word", "length", "dtype", "name")}
        model = cls(**json.loads((folder / _SOURCE).read_text(encoding="utf-8")), **options)
        if model.config["digest"] != config["digest"]:
            raise DataError("the model is another than the one that was saved", file=folder)
        return model


def _cut(starts: npt.NDArray[np.int64], room: int) -> int:
    """Return the first character from which on the sub-tokens are no more than there is room for."""
    if len(starts) <= room:
        return 0
    first = starts[-room:][starts[-room:] > starts[-room - 1]]  # no part of a character
    return int(first[0]) if len(first) else int(starts[-1]) + 1
