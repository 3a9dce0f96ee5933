"""Synthetic questions like those of the sentence-completion challenge, from books held out of the training.

They serve to choose between options and to fit weights without the 1,040 released questions. The work of
people on those (Zweig and Burges 2012, section 2.3) is left out: decoys may be ungrammatical, or as good
as the answer.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from workbench.items.items import Items
from workbench.items.schema import Item
from workbench.storage.errors import DataError

if TYPE_CHECKING:
    from workbench.models.completion.positional import Positions
    from workbench.texts.corpus import Corpus

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_BLOCK = 1 << 22  # tokens that are read at a time
_ITEMS = 256  # sentences that are scored at a time
_TRIGRAM = 0.7  # share of the trigram in the model that proposes words; the rest is the bigram's


def held_out(corpus: Corpus, *, share: float = 0.05, seed: int = 0) -> list[str]:
    """Return the ids of a share of a corpus's books, drawn at random: at least one, and not all.

    `DataError` if there are fewer than two books.
    """
    ids = corpus.books["book_id"].drop_duplicates().tolist()
    if len(ids) < 2:  # noqa: PLR2004 - one to train on, one to ask about
        raise DataError("the corpus has one book, so none can be held out", remedy="pass more books")
    n = min(len(ids) - 1, max(1, round(share * len(ids))))
    drawn = np.random.default_rng(seed).choice(len(ids), n, replace=False)
    return [ids[place] for place in np.sort(drawn)]


def validation_questions(
    corpus: Corpus,
    n: int = 500,
    *,
    books: Collection[str],
    ngram: Positions | None = None,
    frequency: float = 1e-4,
    minimum: int = 5,
    alternates: int = 150,
    best: int = 30,
    decoys: int = 4,
    lengths: tuple[int, int] = (5, 60),
    seed: int = 0,
) -> Items:
    """Make synthetic questions by the steps of the challenge that need no people.

    The steps are those of Zweig and Burges (2012), section 2.2:

    1. draw a sentence of the held-out books, and a focus word in it that is rarer than `frequency`;
    2. draw `alternates` other words as rare from what follows the two words before it, by an interpolated
       trigram of the other books;
    3. drop the sentence if `ngram` gives it a higher score with the focus word than with any of these;
    4. score each by p(next word | words before, alternate), by `ngram`;
    5. keep the `best` ones; of these, people picked four, and here `decoys` are drawn at random.

    Without `ngram`, steps 3 to 5 are left out, and the decoys are drawn from the alternates.

    Parameters
    ----------
    corpus : Corpus
        All books. The model under test is to be trained on ``corpus.without(books)``.
    n : int, default 500
        Questions that are made at most; short texts give fewer.
    books : collection of str
        Ids of the books that questions are made from: see `held_out`.
    ngram : NGram, optional
        A model of ``corpus.without(books)``, of order 3 as in the paper or higher.
    frequency : float, default 1e-4
        Highest share of the tokens of the other books that an answer or a decoy may have.
    minimum : int, default 5
        How often both must occur in them. Both consist of letters only.
    alternates, best, decoys : int
        As above.
    lengths : (int, int), default (5, 60)
        Least and greatest number of tokens of a sentence. The paper names none.
    seed : int, default 0

    Returns
    -------
    Items
        Of the data set ``held-in``, split ``dev``, variant ``synthetic``; tokenised, in the case of the
        corpus. ``book_id`` is that of the book.

    Raises
    ------
    DataError
        If a book is not in the corpus, or no question can be made.
    """
    rng = np.random.default_rng(seed)
    inside, books_of = _held(corpus, books)
    counts = np.bincount(corpus.ids[~inside], minlength=len(corpus.words))
    letters = np.array([word.isalpha() for word in corpus.words], dtype=bool)
    rare = letters & (counts >= minimum) & (counts < frequency * counts.sum())
    sentence, place = _foci(corpus, inside, rare, lengths, rng)
    tries = min(len(place), 4 * n + 20)
    sentence, place = sentence[:tries], place[:tries]
    drawn = _alternates(corpus, place, ~inside, rare, alternates, rng=rng) if tries else []
    chosen = [at for at in range(tries) if len(drawn[at]) >= decoys]
    words = np.array(corpus.words, dtype=object)

    def made(at: int, number: int, candidates: Sequence[str] | None) -> Item:
        first, stop = corpus.starts[sentence[at]], corpus.starts[sentence[at] + 1]
        tokens = words[corpus.ids[first:stop]].tolist()
        focus = int(place[at] - first)
        start = sum(len(word) + 1 for word in tokens[:focus])
        text = " ".join(tokens)
        return Item(
            item_id=f"held-in/dev/{number:06d}",
            dataset="held-in",
            split="dev",
            variant="synthetic",
            text=text,
            answer=tokens[focus],
            answer_span=(start, start + len(tokens[focus])),
            sentences=((0, len(text)),),
            candidates=None if candidates is None else tuple(candidates),
            book_id=books_of(int(sentence[at])),
        )

    options = [words[drawn[at]].tolist() for at in chosen]
    if ngram is not None and chosen:
        asked = Items.from_records([made(at, at, None) for at in chosen])
        options = _by_next_word(ngram, asked, options, best)
    records: list[Item] = []
    for at, row in zip(chosen, options, strict=True):
        if len(row) < decoys or len(records) == n:
            continue
        answer = words[corpus.ids[place[at]]]
        candidates = [answer, *(row[i] for i in rng.choice(len(row), decoys, replace=False))]
        records.append(made(at, len(records), [candidates[i] for i in rng.permutation(decoys + 1)]))
    if not records:
        raise DataError(
            "no question can be made from these books", remedy="pass more text, or a lower minimum"
        )
    note = "synthetic questions from held-in books, made without people; no part of a released set"
    return Items.from_records(records, attrs={"note": note, "seed": seed, "books": sorted(books)})


def _held(corpus: Corpus, books: Collection[str]) -> tuple[Bools, Any]:
    """Return which tokens are of the held-out books, and a function from a sentence to its book."""
    frame = corpus.books
    if unknown := set(books) - set(frame["book_id"]):
        raise DataError(f"there is no book {min(unknown)!r} in this corpus", remedy="corpus.books lists them")
    inside = np.zeros(len(corpus.ids), dtype=bool)
    starts, firsts = np.asarray(corpus.starts), frame["first"].to_numpy()
    chosen = frame[frame["book_id"].isin(list(books))]
    for first, sentences in zip(chosen["first"].tolist(), chosen["sentences"].tolist(), strict=True):
        inside[starts[first] : starts[first + sentences]] = True
    names = frame["book_id"].tolist()
    if inside.all():
        raise DataError("all books are held out", remedy="leave some to train on")
    return inside, lambda sentence: names[int(np.searchsorted(firsts, sentence, side="right")) - 1]


def _foci(
    corpus: Corpus, inside: Bools, rare: Bools, lengths: tuple[int, int], rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """Return held-out sentences in random order, and the place of one rare word in each, two before it."""
    starts = np.asarray(corpus.starts)
    places = np.flatnonzero(inside)
    places = places[rare[corpus.ids[places]]]
    sentence = np.searchsorted(starts, places, side="right") - 1
    length = starts[sentence + 1] - starts[sentence]
    good = (places - starts[sentence] >= 2) & (places < starts[sentence + 1] - 1)  # noqa: PLR2004 - two before
    good &= (length >= lengths[0]) & (length <= lengths[1])
    order = rng.permutation(np.flatnonzero(good))
    _, first = np.unique(sentence[order], return_index=True)  # each sentence once
    order = order[np.sort(first)]
    return sentence[order], places[order]


def _alternates(
    corpus: Corpus, place: Ints, train: Bools, rare: Bools, most: int, *, rng: np.random.Generator
) -> list[Ints]:
    """Return for each place up to `most` different rare words that may follow its two words before."""
    ids, eligible, tables = corpus.ids, train.copy(), []
    for length, share in ((1, 1 - _TRIGRAM), (2, _TRIGRAM)):
        without = np.asarray(corpus.starts) + length - 1  # those with one word too few before them
        eligible[without[without < len(ids)]] = False
        tables.append((_followers(ids, eligible, rare, place, length=length), share))
    alternates = []
    for at, answer in enumerate(ids[place]):
        weights: npt.NDArray[np.float64] = np.zeros(0)
        options = np.zeros(0, dtype=np.int64)
        for (of_history, borders, words, times), share in tables:
            part = slice(borders[of_history[at]], borders[of_history[at] + 1])
            options = np.concatenate([options, words[part]])
            weights = np.concatenate([weights, share * times[part] / max(1, times[part].sum())])
        options, inverse = np.unique(options, return_inverse=True)
        weights = np.bincount(inverse, weights=weights, minlength=len(options)).astype(np.float64)
        weights, options = weights[options != answer], options[options != answer]
        keys = np.log(weights) + rng.gumbel(size=len(weights))  # drawn without replacement, by weight
        alternates.append(options[np.argsort(-keys, kind="stable")[:most]])
    return alternates


def _histories(ids: Any, place: Ints, length: int) -> Ints:
    """Return the one or two words before each place as one number."""
    one: Ints = ids[place - 1].astype(np.int64)
    return one if length == 1 else (ids[place - 2].astype(np.int64) << 32) | one


def _followers(
    ids: npt.NDArray[np.uint32], eligible: Bools, rare: Bools, wanted: Ints, *, length: int
) -> tuple[Ints, Ints, Ints, Ints]:
    """Count the rare words at the eligible places that follow the one or two words before the wanted ones.

    Returns
    -------
    tuple of int64 arrays
        For each wanted place the number h of its history; the borders of the histories in the rest, so
        that h has ``borders[h]`` to ``borders[h + 1]``; the words; how often each follows.
    """
    histories, of_history = np.unique(_histories(ids, wanted, length), return_inverse=True)
    before = np.zeros((length + 1, len(rare)), dtype=bool)
    for back in range(1, length + 1):
        before[back, ids[wanted - back]] = True
    parts = []
    for first in range(0, len(ids), _BLOCK):
        part = slice(first, first + _BLOCK)
        place = first + np.flatnonzero(rare[ids[part]] & eligible[part])
        for back in range(1, length + 1):
            place = place[before[back, ids[place - back]]]
        keys = _histories(ids, place, length)
        at = np.minimum(np.searchsorted(histories, keys), len(histories) - 1)
        seen = histories[at] == keys
        parts.append(np.unique((at[seen] << 32) | ids[place[seen]], return_counts=True))
    pairs, inverse = np.unique(np.concatenate([keys for keys, _ in parts]), return_inverse=True)
    times = np.zeros(len(pairs), dtype=np.int64)
    np.add.at(times, inverse, np.concatenate([many for _, many in parts]))
    borders = np.searchsorted(pairs >> 32, np.arange(len(histories) + 1))
    return of_history, borders, pairs & (2**32 - 1), times


def _by_next_word(ngram: Positions, asked: Items, options: list[list[str]], best: int) -> list[list[str]]:
    """Return the words of each sentence that predict the next one best; none where the answer beats all."""
    answers = asked.frame["answer"].tolist()
    words = [[answer, *row] for answer, row in zip(answers, options, strict=True)]
    chosen = []
    for start in range(0, len(asked), _ITEMS):
        part = slice(start, start + _ITEMS)
        scores = ngram.position_scores(asked[part], words[part])
        totals = np.nan_to_num(scores).sum(axis=2)
        for row, values, total in zip(options[part], scores[..., 1], totals, strict=True):
            better = total[1 : len(row) + 1] >= total[0]
            order = np.argsort(-values[1 : len(row) + 1], kind="stable")[:best]
            chosen.append([row[at] for at in order] if better.any() else [])
    return chosen
