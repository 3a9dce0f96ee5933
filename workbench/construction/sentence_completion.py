"""Questions in the form of the sentence completion challenge, made from any novels.

Zweig and Burges (2012), "A Challenge Set for Advancing Language Modeling", NAACL-HLT Workshop, section 2.2.
Their model, a class-based maximum-entropy 4-gram, was not released; here any n-gram model makes the options.
In section 2.3 people pick four of thirty: see `export_options`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from workbench.construction.alternates import (
    ALTERNATES_VERSION,
    BEST,
    FEW,
    N_OPTIONS,
    QUESTION,
    SCHEMA,
    Bools,
    Floats,
    Ints,
    SentenceChunk,
    Settings,
    find_alternates,
    position,
    rare_words,
)
from workbench.construction.childrens_book import NOTE, SPLIT
from workbench.construction.novels import keys, seed_of
from workbench.datasets import sources
from workbench.items.items import Items
from workbench.items.schema import Item
from workbench.models.ngram.model import NGram
from workbench.storage import cache, parallel
from workbench.storage.errors import DataError, check_value
from workbench.storage.files import atomic_path, read_bytes
from workbench.storage.tables import read_frame
from workbench.texts.corpus import Corpus, Texts
from workbench.texts.overlap import held_out_books
from workbench.texts.tokenise import HEADING, RULE, Novels, checked_texts

VARIANT = "novels"
"""The variant of the questions, beside "plain"."""

CHOICES = ("random", "top")
"""How options are chosen without people."""

REPEATED = "the sentence occurred before"
"""Why a sentence with alternates is not a question."""

_MARK = re.compile(r"[*_~#=|^]+")  # of emphasis, headings and tables: no part of a sentence
_CHUNK = 256  # sentences that are done at a time
_BLOCK = 1 << 16  # sentences with results in memory at a time
_PROBES, _PROBE = 40, 60  # passages of a novel that are looked for in the texts, and their tokens
_NAMED = 5  # books in a message


class _Foci(NamedTuple):
    """Sentences of a corpus, positions of their focus words, and the keys that order them, each (n,)."""

    sentence: Ints
    token: Ints
    key: Floats


class CompletionSettings(NamedTuple):
    """Which sentences and words `questions` takes.

    Attributes
    ----------
    frequency : float, default 1e-4
        Share of the tokens that focus word and alternates stay below.
    minimum : int, default 5
        How often they occur in the texts at least.
    alternates, best : int
        Number of words that are sampled, and of those that are kept. Where fewer words qualify, all are
        taken; four are needed.
    lengths : (int, int), default (5, 60)
        Least and greatest number of tokens of a sentence. The paper names none.
    """

    frequency: float = 1e-4
    minimum: int = 5
    alternates: int = 150
    best: int = 30
    lengths: tuple[int, int] = (5, 60)

    def checked(self) -> CompletionSettings:
        """Return the same; DataError if a setting is out of range."""
        check_value("frequency", self.frequency, 0 < self.frequency <= 1, "a number above 0, at most 1")
        check_value("minimum", self.minimum, self.minimum >= 1, "1 or more")
        are_enough = N_OPTIONS <= self.best <= self.alternates
        expected = f"{N_OPTIONS} or more, at most the {self.alternates} alternates"
        check_value("best", self.best, are_enough, expected)
        is_range = len(self.lengths) == 2 and 0 < self.lengths[0] <= self.lengths[1]  # noqa: PLR2004 - a range
        check_value("lengths", self.lengths, is_range, "the least and the greatest length of a sentence")
        return self


def questions(
    novels: Novels,
    texts: Texts | None = None,
    *,
    model: NGram | None = None,
    number: int | None = None,
    choose: str = "random",
    seed: int = 0,
    on_overlap: str = "raise",
    **settings: Any,
) -> Items:
    """Make sentence completion questions from novels by the five steps of Zweig and Burges (2012).

    1. A focus word is rarer than ``frequency`` in the texts that the model was trained on.
    2. ``alternates`` different words as rare are sampled from what the model expects after the two words
       before.
    3. The sentence is dropped if the model scores it higher with the focus word than with any of these.
    4. Each alternate is scored by p(next word | word before, alternate).
    5. The ``best`` ones are kept; people pick four of them (`export_options`).

    One focus word is drawn in each sentence. It is a word in lower case that the model knows, with two words
    before it and one after it. Of the 520 official questions at hand four ask for another kind of word.

    Parameters
    ----------
    novels : path, str, book, or iterable of books
        As for :func:`workbench.construction.childrens_book.questions`.
    texts : Corpus, path, str, book, or iterable of these, optional
        Other novels, which the model is trained on; words are counted in them. Without any, the novels are
        dealt into two halves, and a model of each half makes the questions of the other.
    model : NGram, optional
        A model of `texts` that generates. By default a Kneser-Ney 4-gram is fitted, with capitals as in the
        texts, the words that occur ``minimum`` times, and no 4-gram that occurs once. A model in lower case
        offers names as well, in lower case.
    number : int, optional
        Questions at most, a random sample of all; all by default.
    choose : {"random", "top"}
        Which four of the ``best`` ones are the options until people have picked: drawn at random, or those
        with the highest scores. ``meta["choice"]`` names it.
    seed : int, default 0
        What is drawn depends on it, the novel's id and the place, not on other novels or their order.
    on_overlap : {"raise", "drop"}
        What to do where the texts hold novels that questions are made from (by 13-grams): an error, or such
        books of `texts` are left out before a model is fitted.
    **settings
        Those of :class:`CompletionSettings`: ``frequency``, ``minimum``, ``alternates``, ``best``,
        ``lengths``.

    Returns
    -------
    Items
        As those of ``wb.load("msrcc")``, by novel and place, but as Treebank tokens; the split is "built",
        the variant "novels". ``meta["alternates"]`` has the ``best`` words, the best first, and
        ``meta["scores"]`` their natural log-probabilities of step 4, ``meta["answer_score"]`` that of the
        answer. ``attrs["steps"]`` counts the sentences at each step.

    Raises
    ------
    DataError
        If no question can be made, a novel occurs twice, the texts hold one of the novels, or `model` is no
        n-gram model of `texts`.

    Notes
    -----
    Sentences that were done are in the cache, so that an interrupted call resumes. Equal sentences are asked
    about once, that with the lowest random number.

    Examples
    --------
    >>> from workbench import construction
    >>> made = construction.sentence_completion.questions(
    ...     "sample", number=20, frequency=1e-3, minimum=2
    ... )
    >>> len(made), len(made[0].candidates), made[0].answer in made[0].candidates
    (20, 5, True)
    """
    sources.check_choice("choice", choose, CHOICES, "choose")
    sources.check_choice("mode", on_overlap, ("raise", "drop"), "on_overlap")
    check_value("number", number, number is None or number >= 1, "1 or more")
    frequency, minimum, alternates, best, lengths = CompletionSettings(**settings).checked()
    if model is not None and (texts is None or not isinstance(model, NGram)):
        got = "no texts" if isinstance(model, NGram) else type(model).__name__
        problem = f"expected an n-gram model and the texts that it was fitted on, got {got}"
        raise DataError(problem, hint="pass texts= and model=NGram.fit(texts), or texts= alone")
    corpus = Corpus.of(checked_texts(novels, lines=False), lower=False)
    if texts is not None:
        lower = model is not None and model.lower
        background = Corpus.of(texts, lower=lower)
        sides = [(corpus.books["book_id"].tolist(), background)]
    else:
        sides = [(half, corpus.without(half)) for half in _halves(corpus, seed)]
    generators: list[_Part] = []
    for books, others in sides:
        background = _without_overlap(corpus, books, others, model, on_overlap)
        generator = model or _fitted(background, minimum)
        if generator.info["training"]["sha256"] != background.sha256:
            raise DataError(
                f"the model {generator.name!r} was fitted on other texts than those passed",
                hint="pass texts= what it was fitted on, so that words are counted there",
            )
        folders = (corpus.path, background.path, generator.folder)
        asked = Settings(*folders, frequency, minimum, alternates, best, seed)
        rare = rare_words(generator, background, frequency, minimum)
        foci = _foci(corpus, books, generator, rare, lengths, seed=seed)
        generators.append(_Part(asked, generator, background, foci))
    with_focus = sum(len(each.foci.sentence) for each in generators)
    records, steps = _chosen(corpus, generators, number, choose)
    if not records:
        counts = ", ".join(f"{name}: {n:,}" for name, n in {"with a focus word": with_focus, **steps}.items())
        raise DataError(
            f"no question can be made (sentences {counts}): a focus word occurs {minimum} times or more in "
            f"the texts and is less than {frequency:g} of their tokens",
            hint="pass more novels or texts, a lower minimum, or a higher frequency",
        )
    attrs = {
        "seed": seed, "choice": choose, "books": len(corpus.books), "words": corpus.n_tokens,
        "models": sorted({each.model.name for each in generators}),
        "steps": {"sentences": corpus.n_sentences, "with a focus word": with_focus, **steps},
        "note": NOTE,
    }  # fmt: skip
    return Items.from_records(sorted(records, key=lambda item: item.item_id), attrs=attrs)


def choose_options(item: Item, words: Sequence[str], *, choice: str, seed: int = 0) -> Item:
    """Return a question with other options: the answer and some of its alternates, in random order.

    Parameters
    ----------
    item : Item
        Of `questions`.
    words : sequence of str
        Four different ones of ``item.meta["alternates"]``.
    choice : str
        Who chose, for ``meta["choice"]``.
    seed : int, default 0
        The order depends on it and the item's id.

    Raises
    ------
    DataError
        If the words are not four different alternates of this item.

    Examples
    --------
    >>> from workbench.construction import sentence_completion
    >>> item = sentence_completion.questions("sample", number=1, frequency=1e-3, minimum=2)[0]
    >>> mine = sentence_completion.choose_options(item, item.meta["alternates"][:4], choice="me")
    >>> mine.meta["choice"], set(mine.candidates) == {item.answer, *item.meta["alternates"][:4]}
    ('me', True)
    """
    alternates = alternates_of(item)
    if len(set(words)) != N_OPTIONS or len(words) != N_OPTIONS or not set(words) <= set(alternates):
        problem = f"item {item.item_id}: expected {N_OPTIONS} different alternates, got {list(words)}"
        raise DataError(problem, hint=f"choose from {', '.join(alternates)}")
    options = [str(item.answer), *sorted(words)]  # the order in which they were chosen plays no part
    order = np.random.default_rng(seed_of(seed, item.item_id, "options")).permutation(len(options))
    candidates = tuple(options[index] for index in order)
    return replace(item, candidates=candidates, meta={**item.meta, "choice": choice})


def export_options(questions: Items, path: Path | str) -> pd.DataFrame:
    """Write a table of all alternates, in which people mark four options a question; return it.

    Parameters
    ----------
    questions : Items
        Of `questions`.
    path : path
        CSV file with one row per alternate: ``item_id``, ``answer``, ``alternate``, ``sentence`` (with the
        alternate in place of the answer), and the empty column ``chosen``.

    Raises
    ------
    DataError
        If a question has no alternates, or the file cannot be written.

    Notes
    -----
    What the paper asks of the options (section 2.3): all sentences are grammatical; the answer is clearly a
    better fit than each of them; nothing might cause offence; ideally it takes some thought to find the
    answer; each sentence is used once.

    Examples
    --------
    >>> from workbench.construction import sentence_completion
    >>> made = sentence_completion.questions("sample", number=2, frequency=1e-3, minimum=2)
    >>> table = sentence_completion.export_options(made, "options.csv")
    >>> table.columns.tolist()
    ['item_id', 'answer', 'alternate', 'sentence', 'chosen']
    """
    rows = []
    for item in questions:
        _, before, after = item.readable_parts()
        words = alternates_of(item)
        rows += [(item.item_id, item.answer, word, f"{before}{word}{after}", "") for word in words]
    table = pd.DataFrame(rows, columns=["item_id", "answer", "alternate", "sentence", "chosen"])
    with atomic_path(path) as temporary:
        table.to_csv(temporary, index=False)
    return table


def import_options(questions: Items, path: Path | str, *, choice: str = "people") -> Items:
    """Return the questions for which people marked four options, with these; each sentence once.

    Parameters
    ----------
    questions : Items
        Those that were exported.
    path : path
        Table of `export_options`; each row whose cell ``chosen`` is not empty is an option. Questions without
        any are left out, and so are those whose sentence an earlier question used.
    choice : str, default "people"
        Who chose, for ``meta["choice"]``.

    Raises
    ------
    DataError
        If the file is not such a table, a question is not one of these, or another number of options than
        four is marked.

    Examples
    --------
    >>> from workbench.construction import sentence_completion
    >>> made = sentence_completion.questions("sample", number=2, frequency=1e-3, minimum=2)
    >>> table = sentence_completion.export_options(made, "options.csv")
    >>> table.loc[:3, "chosen"] = "x"
    >>> table.to_csv("options.csv", index=False)
    >>> [len(item.candidates) for item in sentence_completion.import_options(made, "options.csv")]
    [5]
    """
    table = read_frame(read_bytes(path, "this table of options"), Path(path))
    frame, columns = table.frame, ("item_id", "alternate", "chosen")
    if table.problems:
        raise table.problems[0]
    if missing := [name for name in columns if name not in frame]:
        raise DataError(f"there is no column {missing[0]!r}", file=path, hint="use export_options' table")
    marked = frame[frame["chosen"].notna()].groupby("item_id")["alternate"].apply(list).to_dict()
    if unknown := sorted(map(str, set(marked) - set(questions.frame["item_id"]))):
        raise DataError(f"{unknown[0]!r:.80} is not one of these questions", file=path)
    made: dict[str, Item] = {}  # by sentence
    for item in questions:
        if item.item_id in marked:
            chosen = choose_options(item, marked[item.item_id], choice=choice)
            made.setdefault(" ".join(item.text.split()), chosen)
    return Items.from_records(made.values(), attrs={**questions.attrs, "choice": choice})


def alternates_of(item: Item) -> list[str]:
    """Return the words that options are chosen from, the best first; DataError if an item has none."""
    words = item.meta.get("alternates")
    if item.answer is None or not isinstance(words, list | tuple | np.ndarray) or len(words) < N_OPTIONS:
        raise DataError(
            f"item {item.item_id}: expected an answer and {N_OPTIONS} alternates or more to choose from",
            hint="pass questions of construction.sentence_completion.questions",
        )
    return list(map(str, words))


class _Part(NamedTuple):
    """Novels with the model that makes their questions, and its texts, which stay in the cache meanwhile."""

    settings: Settings
    model: NGram
    texts: Corpus
    foci: _Foci

    def identity(self, corpus: Corpus) -> str:
        """Return a digest of all that a result depends on beside the sentence, places on disk left out."""
        options = self.settings._asdict()
        del options["novels"], options["texts"], options["model"]
        model = {name: value for name, value in self.model.info.items() if name not in {"report", "training"}}
        books = corpus.books[["book_id", "first"]].to_numpy().tolist()
        described = [ALTERNATES_VERSION, options, model, self.texts.sha256, corpus.sha256, books]
        return cache.digest(json.dumps(described, sort_keys=True))


def _halves(corpus: Corpus, seed: int) -> tuple[list[str], list[str]]:
    """Deal the novels into two halves."""
    ids = corpus.books["book_id"].tolist()
    if len(ids) < 2:  # noqa: PLR2004 - one to train on, one to ask about
        raise DataError(
            f"expected texts to train on, or two novels or more, of which a model of one half asks about the "
            f"other; got {len(ids)}",
            hint="pass texts=, other novels",
        )
    order = sorted(ids, key=lambda book_id: seed_of(seed, book_id, "half"))
    return order[: len(order) // 2], order[len(order) // 2 :]


def _fitted(corpus: Corpus, minimum: int) -> NGram:
    counted = zip(corpus.words, corpus.counts.tolist(), strict=True)
    frequent = [word for word, count in counted if count >= minimum]
    return NGram.fit(corpus, order=4, lower=corpus.lower, vocabulary=frequent, pruning=(0, 0, 0, 1))


def _without_overlap(
    corpus: Corpus, books: Sequence[str], texts: Corpus, model: NGram | None, on_overlap: str
) -> Corpus:
    """Return the texts without the novels that questions are made from; DataError where they may not go."""
    shared, n, _ = held_out_books(_probes(corpus, books), texts)
    if not len(shared):
        return texts
    if on_overlap == "drop" and model is None:
        return texts.without(shared["book_id"].tolist())
    names = "; ".join(shared["book_id"].head(_NAMED))
    others = f" and {len(shared) - _NAMED:,} more" if len(shared) > _NAMED else ""
    raise DataError(
        f"the texts hold {len(shared):,} of the novels that questions are made from (by {n}-grams): "
        f"{names}{others}",
        hint="fit a model without them" if model else 'leave them out, or pass on_overlap="drop"',
    )


def _probes(corpus: Corpus, books: Collection[str]) -> Items:
    """Return passages of each novel, from its beginning to its end, to be looked for in the texts."""
    records = []
    words = np.array(corpus.words, dtype=object)
    for book_id, first, n in _books(corpus, books):
        start, end = corpus.starts[first], corpus.starts[first + n]
        length = min(_PROBE, end - start)
        for begin in np.unique(np.linspace(start, end - length, _PROBES).astype(np.int64)).tolist():
            text = " ".join(words[corpus.ids[begin : begin + length]])
            span = (0, len(text))
            records.append(Item(f"{book_id}/{begin}", "probe", SPLIT, "plain", text, text, span, (span,)))
    return Items.from_records(records)


def _books(corpus: Corpus, books: Collection[str]) -> Iterator[tuple[str, int, int]]:
    """Yield id, first sentence and number of sentences of some novels that have any."""
    frame = corpus.books[corpus.books["book_id"].isin(list(books)) & (corpus.books["sentences"] > 0)]
    yield from zip(frame["book_id"], frame["first"].tolist(), frame["sentences"].tolist(), strict=True)


def _foci(
    corpus: Corpus, books: Collection[str], model: NGram, rare: Bools, lengths: tuple[int, int], *, seed: int
) -> _Foci:
    """Draw a focus word in each sentence that has one."""
    index, n_words = model.model.index, len(rare)
    numbers = [index.get(word, n_words) if word.islower() else n_words for word in corpus.words]
    is_rare = np.append(rare, np.zeros(len(index) + 1 - n_words, dtype=bool))[numbers]
    is_mark = np.array([_MARK.fullmatch(word) is not None for word in corpus.words], dtype=bool)
    foci = [_Foci(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))]
    for book_id, first, n in _books(corpus, books):
        starts = corpus.starts[first : first + n + 1]
        ids = np.asarray(corpus.ids[starts[0] : starts[-1]])
        length, begin = np.diff(starts), starts[:-1] - starts[0]
        good = (length >= lengths[0]) & (length <= lengths[1])
        good &= ~np.isin(corpus.roles[first : first + n], (HEADING, RULE))
        good &= ~np.logical_or.reduceat(is_mark[ids], begin)
        token = np.flatnonzero(is_rare[ids])
        sentence = np.searchsorted(begin, token, side="right") - 1
        within = token - begin[sentence]
        mask = good[sentence] & (within >= 2) & (within < length[sentence] - 1)  # noqa: PLR2004 - two before
        token, sentence = token[mask], sentence[mask]
        unique, start, count = np.unique(sentence, return_index=True, return_counts=True)
        drawn = keys(seed, book_id, "msrcc focus", n)[unique]
        chosen = start + np.floor(drawn * count).astype(np.int64)
        key = keys(seed, book_id, "msrcc", n)[unique]
        foci.append(_Foci(unique + first, token[chosen] + starts[0], key))
    return _Foci(*(np.concatenate(column) for column in zip(*foci, strict=True)))


def _chosen(
    corpus: Corpus, sides: Sequence[_Part], number: int | None, choose: str
) -> tuple[list[Item], dict[str, int]]:
    """Return the questions of the sentences with the lowest keys, and how many sentences went each way."""
    sentence, token, key = (np.concatenate([each.foci[column] for each in sides]) for column in range(3))
    side = np.repeat(np.arange(len(sides)), [len(each.foci.sentence) for each in sides])
    order = np.lexsort((sentence, key))
    steps: Counter[str] = Counter()
    records: list[Item] = []
    texts: set[str] = set()
    size = _BLOCK if number is None else min(_BLOCK, 2 * number)
    for start in range(0, len(order), size):
        block = order[start : start + size]
        results = _generated(corpus, sides, side[block], sentence[block], token[block])
        for index in block.tolist():
            if len(records) == number:
                break  # so that the numbers at the steps do not depend on the size of a block
            row = results[int(sentence[index])]
            item = _item(corpus, int(token[index]), row) if row["outcome"] == QUESTION else None
            repeated = item is not None and item.text in texts
            steps[REPEATED if repeated else row["outcome"]] += 1
            if item is not None and not repeated:
                texts.add(item.text)
                records.append(_options(item, choose, sides[side[index]].settings.seed))
        if len(records) == number:
            break
    counts = {name: steps[name] for name in (BEST, FEW, REPEATED)}
    return records, {"tried": steps.total(), **counts, "questions": len(records)}


def _generated(
    corpus: Corpus, sides: Sequence[_Part], side: Ints, sentence: Ints, token: Ints
) -> dict[int, dict[str, Any]]:
    """Return the outcome of each sentence."""
    chunks, digests = [], []
    for number, each in enumerate(sides):
        rows = np.flatnonzero(side == number)
        identity = each.identity(corpus)
        for start in range(0, len(rows), _CHUNK):
            some_rows = rows[start : start + _CHUNK]
            columns = (column[some_rows].tolist() for column in (sentence, token))
            chunks.append(SentenceChunk(each.settings, *columns))
            digests.append(cache.digest(identity, repr(chunks[-1][1:])))
    store = cache.Cache("sentence-completion", SCHEMA)
    tables = parallel.run_chunks(
        find_alternates, chunks, keys=digests, store=store, label="making questions",
        size=lambda chunk: len(chunk.sentences), unit="sentences",
    )  # fmt: skip
    cache.make_room()
    return {row["sentence"]: row for table in tables for row in table.to_pylist()}


def _item(corpus: Corpus, token: int, row: Mapping[str, Any]) -> Item:
    """Return a question without options, from the place of its focus word and what was found."""
    sentence = row["sentence"]
    first, stop = corpus.starts[sentence], corpus.starts[sentence + 1]
    tokens = [corpus.words[id_] for id_ in corpus.ids[first:stop].tolist()]
    book_id, item_id = position(corpus, sentence, token)
    start = sum(len(word) + 1 for word in tokens[: token - first])
    text, answer = " ".join(tokens), tokens[token - first]
    return Item(
        item_id=item_id,
        dataset="msrcc",
        split=SPLIT,
        variant=VARIANT,
        text=text,
        answer=answer,
        answer_span=(start, start + len(answer)),
        sentences=((0, len(text)),),
        book_id=book_id,
        meta={"alternates": row["words"], "scores": row["scores"], "answer_score": row["answer_score"]},
    )


def _options(item: Item, choose: str, seed: int) -> Item:
    """Choose options without people."""
    words = alternates_of(item)
    if choose == "random":
        rng = np.random.default_rng(seed_of(seed, item.item_id, "choice"))
        words = [words[index] for index in rng.choice(len(words), N_OPTIONS, replace=False)]
    return choose_options(item, words[:N_OPTIONS], choice=choose, seed=seed)
