"""Passages of LAMBADA's shape, drawn from novels, as items to train on."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate, islice, pairwise

import numpy as np

from workbench.items.items import Items
from workbench.items.schema import Item
from workbench.storage.errors import DataError
from workbench.texts.corpus import Corpus, Texts
from workbench.texts.passages import Passages
from workbench.texts.stream import Stream

_BLOCK = 4096  # passages that are drawn at a time


def passages(
    novels: Texts,
    *,
    minimum: int = 50,
    answer_in_context: bool = True,
    skip_frequent: int = 0,
    number: int | None = None,
    seed: int = 0,
    progress: bool = True,
) -> Items:
    """Draw passages at random: a target sentence, cut after its last word, and the sentences before it.

    The passages are those of :class:`workbench.texts.passages.Passages`, each drawn once (Paperno et al.
    2016, section 3.1, without the filter by language models and people). The candidates are the different
    words of the context, as readers choose from them (Chu et al. 2017).

    Parameters
    ----------
    novels : Corpus, path, str, book, or iterable of these
        As :meth:`workbench.texts.corpus.Corpus.of` reads them, lower-cased.
    minimum : int, default 50
        The context has more tokens than this.
    answer_in_context : bool, default True
        Leave out passages whose last word does not occur in the context; otherwise it is the last candidate
        there.
    skip_frequent : int, default 0
        Leave out passages whose last word is one of so many most frequent words of the novels. With 200,
        as in LAMBADA, hardly any is a pronoun.
    number : int, optional
        So many passages, if there are as many; all by default.
    seed : int, default 0
        Of what is drawn, and in which order.
    progress : bool, default True
        Show how the novels are tokenised.

    Returns
    -------
    Items
        Lower-cased tokens, each with the novel it is from.

    Raises
    ------
    DataError
        If there is no such passage.

    Examples
    --------
    >>> from workbench.construction import lambada
    >>> items = lambada.passages(wb.books("sample"), number=20, progress=False)
    >>> len(items), all(item.answer in item.candidates for item in items)
    (20, True)
    """
    corpus = Corpus.of(novels, lower=True, progress=progress)
    drawn = _drawn(corpus, minimum, skip_frequent, seed, answer_in_context=answer_in_context)
    rows = islice(drawn, number)
    items = Items.from_records(rows)
    if not len(items):
        raise DataError(
            "no passage of these novels has its last word in the context", remedy="pass more text"
        )
    return items


def _drawn(
    corpus: Corpus, minimum: int, skip_frequent: int, seed: int, *, answer_in_context: bool
) -> Iterator[Item]:
    """Yield all passages in random order."""
    stream = Stream.of(corpus, len(corpus.words))
    drawer = Passages(stream, rows=1, number=1, seed=seed, minimum=minimum)
    words = ["", *stream.vocabulary]
    firsts, ids = stream.books["first"].to_numpy(), stream.books["book_id"].tolist()
    count = 0
    for block in range(0, drawer.distinct, _BLOCK):
        places = drawer.places(np.arange(block, min(block + _BLOCK, drawer.distinct)))
        for first, target in zip(*(array.tolist() for array in places), strict=True):
            sentence = int(np.searchsorted(stream.starts, first))
            starts = stream.starts[sentence : bisect_right(stream.starts, target, sentence)].tolist()
            passage = stream.read(first, target + 1).tolist()  # ids: 1 is the most frequent word
            text = [words[id_] for id_ in passage]
            context, answer = text[: starts[-1] - first], text[-1]
            if passage[-1] <= skip_frequent or (answer_in_context and answer not in context):
                continue
            book = ids[int(np.searchsorted(firsts, sentence, side="right")) - 1]
            yield _item(count, text, [start - first for start in starts], book, [*context, answer])
            count += 1


def _item(number: int, text: list[str], starts: list[int], book: str, choices: list[str]) -> Item:
    """Make an item of the words of a passage and the first one of each sentence."""
    begins = [0, *accumulate(len(word) + 1 for word in text)]  # the character at which each word begins
    end = begins[-1] - 1
    return Item(
        item_id=f"lambada/train/{number:06d}",
        dataset="lambada",
        split="train",
        variant="plain",
        text=" ".join(text),
        answer=text[-1],
        answer_span=(begins[-2], end),
        sentences=tuple((begins[a], begins[b] - 1) for a, b in pairwise([*starts, len(text)])),
        candidates=tuple(dict.fromkeys(choices)),
        book_id=book,
    )
