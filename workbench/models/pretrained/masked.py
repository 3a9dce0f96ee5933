"""Masked language models (BERT and its like), which choose a candidate by pseudo-log-likelihood.

Salazar, Liang, Nguyen and Kirchhoff (2020), "Masked Language Model Scoring", section 2; the variant for words
of several sub-tokens is that of Kauf and Ivanova (2023), "A Better Way to Do Masked Language Model Scoring".
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from workbench.items import text as wt
from workbench.items.items import Items
from workbench.items.schema import Item
from workbench.models.base import pad
from workbench.models.device_memory import Batcher
from workbench.models.pretrained.loading import Checkpoint, PretrainedModel, Text, log_norm, padded
from workbench.models.pretrained.passages import too_long
from workbench.models.text_scores import (
    Beginning,
    LongText,
    TextScores,
    check_beginning,
    given_and_text,
    text_windows,
)
from workbench.predictions.schema import Floats
from workbench.storage.errors import DataError, check_option
from workbench.storage.progress import progress_bar

Over = Literal["sentence", "candidate"]
Within = Literal["original", "l2r"]

_MEASURES = {"original": "PLL", "l2r": "PLL-word-l2r"}
_ROWS = 512  # in a batch at most: each has a row of logits over the whole vocabulary


class _Sequence(NamedTuple):
    """The input ids of a text, and the positions to score."""

    ids: tuple[int, ...]
    masked_spans: tuple[tuple[int, int], ...]  # of each scored sub-token


class MaskedLM(PretrainedModel):
    """Choose the candidate with which the target sentence has the highest pseudo-log-likelihood (PLL).

    Each sub-token of the sentence is masked in turn, and the natural logarithms of its probabilities, given
    all other sub-tokens, are summed. The sentences before the target sentence are given and not scored. Of a
    text that is longer than the model sees, all candidates of an item lose the same beginning.

    Parameters
    ----------
    {model}
    {text}
    over : {"sentence", "candidate"}
        The sub-tokens whose probabilities are summed: those of the target sentence, or the candidate's alone.
    within_word : {"original", "l2r"}, optional
        What is masked with a sub-token: nothing else (Salazar et al.), or those on its right in the
        same word ("PLL-word-l2r" of Kauf and Ivanova). The first makes rare words of many sub-tokens look
        probable. By default candidates are scored by the first, whole texts by the second. Words are those
        into which the tokenizer splits a text before it looks for sub-tokens.
    {loading}

    Raises
    ------
    DataError
        If ``transformers`` is not installed, or there is no masked model with a fast tokenizer.

    Notes
    -----
    A PLL is not a log-probability: those of different sentences do not sum to one. So `score_type` is
    "score", ``log_prob`` is null, and there is no perplexity. It ranks candidates only: it has no vocabulary.

    Examples
    --------
    >>> from workbench.models import MaskedLM
    >>> model = MaskedLM(bert)  # a folder of save_pretrained
    >>> len(model.predict(wb.load("sample", variant="msrcc")[:2]))
    2
    """

    version = 1
    options = ("text", "over", "within_word", "dtype", "name")

    def __init__(
        self,
        path_or_name: Path | str,
        *,
        text: Text = "as-is",
        over: Over = "sentence",
        within_word: Within | None = None,
        name: str | None = None,
        **loading: Any,
    ) -> None:
        check_option("over", over, get_args(Over))
        check_option("within_word", within_word, (None, *get_args(Within)))
        super().__init__(path_or_name, variant="masked", text=text, **loading)
        if self._checkpoint.tokenizer.mask_token_id is None:
            raise DataError("the tokenizer has no mask", file=path_or_name)
        self.over, self.within_word = over, within_word
        self._lead, self._tail = _marks(self._checkpoint.tokenizer)
        self.length = _longest(self._checkpoint)
        self._room = self.length - len(self._lead) - len(self._tail)
        self._batcher = Batcher(self._batch_tokens or 2 * self._checkpoint.batch_tokens, rows=_ROWS)
        variant = _MEASURES[within_word or "original"]
        suffix = " of the candidate" if over == "candidate" else ""
        self.name = name or f"{self._checkpoint.label} ({variant}{suffix})"

    def score(self, items: Items, words: Sequence[Sequence[str]]) -> Floats:
        """Return the pseudo-log-likelihood of the sentence with each word in it, shape (n, most words).

        Raises
        ------
        DataError
            If a word has no sub-token, or what follows the blank leaves no room for it.
        """
        rows = [self._sequences(item, row) for item, row in zip(items, words, strict=True)]
        unique = list(dict.fromkeys(sequence for row in rows for sequence in row))  # so that ties stay ties
        totals = dict(zip(unique, self._totals(unique).tolist(), strict=True))
        return pad([[totals[sequence] for sequence in row] for row in rows])

    def text_scores(
        self, items: Items, *, beginning: Beginning | None = None, window: LongText = "strided"
    ) -> TextScores:
        """Return the pseudo-log-likelihoods of texts; the sub-tokens of contexts are given and not scored.

        A text that is longer than the model sees is read in windows, which advance by half of that.
        """
        usual: Beginning = "BOS" if self._lead else "nothing"
        check_beginning(self.name, beginning, usual)
        within_word, n_lead = self.within_word or "l2r", len(self._lead)
        texts = list(given_and_text(items))
        encoding = self._encode(["".join(text) for text in texts])
        sequences, owners, strides = [], [], []
        for number, (before, _) in enumerate(texts):
            ids, offsets = encoding["input_ids"][number], encoding["offset_mapping"][number]
            if window == "error" and len(ids) > self._room:
                raise too_long(texts[number][1], len(ids), self._room)
            ends = _ends(encoding.word_ids(number), within_word)
            for first, positions in text_windows(len(ids), self._room):
                last = min(len(ids), first + self._room)
                shift = n_lead - first
                spans = tuple(
                    (position + shift, min(ends[position], last) + shift)
                    for position in positions
                    if offsets[position][1] > max(len(before), offsets[position][0])
                )
                sequences.append(_Sequence((*self._lead, *ids[first:last], *self._tail), spans))
                owners.append(number)
            strides.append(self._room // 2 if len(ids) > self._room else 0)
        n, values = len(texts), self._totals(sequences)
        n_scored = np.bincount(owners, [len(each.masked_spans) for each in sequences], n).astype(int)
        totals = np.where(n_scored > 0, np.bincount(owners, values, n), np.nan)
        starts = ["context" if before.strip() else usual for before, _ in texts]
        measure = _MEASURES[within_word]
        return TextScores(totals, np.full(n, np.nan), n_scored.tolist(), starts, strides, measure)

    def _encode(self, texts: Sequence[str]) -> Any:
        return self._checkpoint.tokenizer(
            list(texts),
            add_special_tokens=False,
            return_offsets_mapping=True,
            split_special_tokens=True,  # "[MASK]" in a text is text
            verbose=False,
        )

    def _sequences(self, item: Item, words: Sequence[str]) -> list[_Sequence]:
        """Return the input of the model for each word in the blank of an item."""
        if not words:
            return []
        texts = [self._text(item, word) for word in words]
        encoding = self._encode([text for text, _, _ in texts])
        offsets = [np.array(row, dtype=np.int64).reshape(-1, 2) for row in encoding["offset_mapping"]]
        first = max(_edge(row[:, 0], self._room) for row in offsets)  # for all: they differ at the blank only
        if any(first > start for _, (start, _), _ in texts):
            raise DataError(
                f"the text after the blank of {item.item_id} leaves no room in {self.length} sub-tokens",
                hint="take a model that sees more",
            )
        sequences = []
        for row, (word, (_, (start, end), sentence)) in enumerate(zip(words, texts, strict=True)):
            char_starts, char_ends = offsets[row].T
            in_word = (char_starts < end) & (char_ends > start)
            if not in_word.any():
                label = self._checkpoint.label
                raise DataError(f"the tokenizer of {label!r} leaves nothing of {word!r} in {item.item_id}")
            scored = in_word if self.over == "candidate" else char_ends > sentence
            visible = char_starts >= first
            tokens = np.array(encoding["input_ids"][row])[visible].tolist()
            ends = _ends(encoding.word_ids(row), self.within_word or "original")
            shift = len(self._lead) - int((~visible).sum())
            masked_spans = tuple((int(i) + shift, ends[i] + shift) for i in np.flatnonzero(scored & visible))
            sequences.append(_Sequence((*self._lead, *tokens, *self._tail), masked_spans))
        return sequences

    def input_text(self, item: Item) -> str:
        """Return the text around the blank up to the end of the target sentence, ``___`` at the blank."""
        return self._text(item, "___")[0]

    def _text(self, item: Item, word: str) -> tuple[str, tuple[int, int], int]:
        """Return the text with a word at the blank, where that is in it, and where its sentence begins."""
        start, end = item.answer_span
        text = f"{item.text[:start]}{word}{item.text[end : item.sentences[-1][1]]}"
        span, sentence = (start, start + len(word)), item.sentences[-1][0]
        if self.text == "detokenised" and item.tokenised:
            text, (span, (sentence, _)) = wt.readable_spans(text, [span, (sentence, len(text))])
        return text, span, sentence

    def _totals(self, sequences: Sequence[_Sequence]) -> Floats:
        """Return the sum of the log-probabilities of each sequence's scored sub-tokens."""
        totals = np.zeros(len(sequences))
        masks = [(owner, *span) for owner, sequence in enumerate(sequences) for span in sequence.masked_spans]
        lengths = [len(sequences[owner].ids) for owner, _, _ in masks]

        def work(batch: list[int]) -> Floats:
            copies = [masks[row] for row in batch]
            return self._log_probs([(sequences[owner].ids, start, end) for owner, start, end in copies])

        with progress_bar(len(masks), label=self.name, unit="masks") as bar:
            for batch, log_probs in self._batcher.run(lengths, work):
                np.add.at(totals, [masks[row][0] for row in batch], log_probs)
                bar.update(len(batch))
        return totals

    def _log_probs(self, copies: Sequence[tuple[tuple[int, ...], int, int]]) -> Floats:
        """Return the natural log-probability of the first masked sub-token of each copy of a sequence."""
        checkpoint = self._checkpoint
        ids, mask = padded([row for row, _, _ in copies], fill=checkpoint.tokenizer.pad_token_id or 0)
        targets = [row[start] for row, start, _ in copies]
        for row, (_, start, end) in zip(ids, copies, strict=True):
            row[start:end] = checkpoint.tokenizer.mask_token_id
        asked = [[start] for _, start, _ in copies]
        logits, _ = checkpoint.logits(ids, asked, attention_mask=checkpoint.tensor(mask))
        answers = logits.gather(1, checkpoint.tensor(targets)[:, None])[:, 0]
        return np.asarray((answers - log_norm(logits)).cpu().numpy(), dtype=float)


def _ends(words: Sequence[int | None], within_word: Within) -> list[int]:
    """Return for every sub-token the place after the last one that is masked with it."""
    ends = [index + 1 for index in range(len(words))]
    if within_word == "l2r":
        for index in reversed(range(len(words) - 1)):
            if words[index] is not None and words[index] == words[index + 1]:
                ends[index] = ends[index + 1]
    return ends


def _edge(starts: npt.NDArray[np.int64], room: int) -> int:
    """Return the first character from which on the sub-tokens are no more than there is room for."""
    if len(starts) <= room:
        return 0
    first = starts[-room:][starts[-room:] > starts[-room - 1]]  # no part of a character
    return int(first[0]) if len(first) else int(starts[-1]) + 1


def _marks(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Return the marks that a tokenizer puts before and after a text."""
    encoding = tokenizer("a", return_special_tokens_mask=True)
    inside = [index for index, special in enumerate(encoding["special_tokens_mask"]) if not special]
    ids = list(encoding["input_ids"])
    return ids[: inside[0]], ids[inside[-1] + 1 :]


def _longest(checkpoint: Checkpoint) -> int:
    """Return the number of positions of a model; some models count them from the padding id on."""
    limit = int(checkpoint.tokenizer.model_max_length)
    n_positions = int(getattr(checkpoint.model.config, "max_position_embeddings", None) or limit)
    for name, module in checkpoint.model.named_modules():
        if name.endswith("position_embeddings"):
            padding = getattr(module, "padding_idx", None)
            return min(n_positions if padding is None else n_positions - int(padding) - 1, limit)
    return min(n_positions, limit)
