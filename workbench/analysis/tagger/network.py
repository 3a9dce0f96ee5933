"""The network of the tagger: words in any case to scores of the tags.

A token is seen twice: as a form without its case, with what the `Lexicon` knows of that form,
and as it is written. A text all in lower case, or all in capitals, says nothing by its case, and
the network is told that it says nothing. What follows is spaCy's usual arrangement (Honnibal et
al. 2020, "embed, encode, predict"): hashed embeddings, a convolution over windows of three words
with residual connections, a softmax.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.ml.models.tok2vec import MaxoutWindowEncoder
from spacy.tokens import Doc
from thinc.api import (
    HashEmbed,
    Maxout,
    Model,
    Softmax,
    add,
    chain,
    concatenate,
    deserialize_attr,
    glorot_uniform_init,
    serialize_attr,
    uniqued,
    with_array,
)
from thinc.types import Floats2d, Ints2d

from workbench.analysis.tagger.discourse import pooled
from workbench.analysis.tagger.lexicon import SCALE, Lexicon, fold

# Columns of a form's features, and of a token's, which add what depends on the passage.
KEY, FORM, SUFFIX, ENDING, PREFIX, SHAPE, USE, ROW, CASE, ENDS, COUNTED, PLACE, REPEATS = range(13)
_FORM_COLUMNS, _COLUMNS = COUNTED + 1, REPEATS + 1
_NONE, _LOWER, _TITLE, _UPPER, _MIXED = range(5)  # how a form is written
_ENDERS = frozenset(".!?:\"'(-") | {"--", "...", "[", "*", "#"}
_COMMON = 13  # forms this frequent (binary logarithm of the count) repeat in any passage
_KEPT_FORMS = 400_000
_CASES: dict[int, int] = {}  # how a form is written, by spaCy's hash of it, which is the same everywhere


class _Forms:
    """Features of the forms met so far, by spaCy's hash of the form."""

    def __init__(self, lexicon: Lexicon) -> None:
        self.lexicon = lexicon
        self._index: dict[int, int] = {}
        self._keys: dict[str, int] = {}
        self._table = np.zeros((1024, _FORM_COLUMNS), dtype=np.uint64)

    def rows(self, orths: NDArray[np.uint64], strings: Any) -> NDArray[np.uint64]:
        """Return the features of the forms, shape (n, form columns)."""
        if len(self._index) > _KEPT_FORMS:
            self._index.clear()
            self._keys.clear()
        index = self._index
        found = [index.get(orth, -1) for orth in orths.tolist()]
        if -1 in found:
            for place, orth in enumerate(orths.tolist()):
                if found[place] < 0:
                    found[place] = self._add(orth, strings[orth])
        return self._table[found]

    def _add(self, orth: int, form: str) -> int:
        place = self._index[orth] = len(self._index)
        if place == len(self._table):
            self._table = np.concatenate([self._table, np.zeros_like(self._table)])
        self._table[place] = self._features(form)
        return place

    def _features(self, form: str) -> list[int]:
        folded = fold(form)
        plain = re.sub(r"\d", "0", folded)
        row = self.lexicon.row(folded)
        shape = re.sub(r"(.)\1+", r"\1\1", re.sub(r"[^\W\d_]", "a", plain))
        names, counts = int(self.lexicon.names[row]), int(self.lexicon.counts[row])
        return [
            self._keys.setdefault(folded, len(self._keys)),
            _hash(plain) if self.lexicon.own[row] else 0,
            _hash(plain[-4:]), _hash(plain[-2:]), _hash(plain[:3]), _hash(shape),
            names * 32 + counts,
            row if row < len(self.lexicon.vectors) else 0,
            _case(form), folded in _ENDERS, folded.isalpha() and counts < _COMMON,
        ]  # fmt: skip


def _hash(text: str) -> int:
    """Return a number for a text, the same in every process, never 0."""
    number = 0xCBF29CE484222325
    for byte in text.encode():
        number = ((number ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return number or 1


def _case(form: str) -> int:
    letters = [letter for letter in form if letter.isalpha()]
    if not letters or form.lower() in ("-lrb-", "-rrb-", "-lsb-", "-rsb-", "-lcb-", "-rcb-"):
        return _NONE
    upper = sum(letter.isupper() for letter in letters)
    if not upper:
        return _LOWER
    if upper == len(letters):
        return _UPPER if upper > 1 else _TITLE
    return _TITLE if upper == 1 and letters[0].isupper() else _MIXED


def tells_by_case(doc: Doc) -> bool:
    """Tell if a text has both small and capital letters, so that a capital says something."""
    if len(_CASES) > _KEPT_FORMS:
        _CASES.clear()
    cases = set()
    for orth in set(doc.to_array("ORTH").tolist()):
        case = _CASES.get(orth)
        if case is None:
            case = _CASES[orth] = _case(doc.vocab.strings[orth])
        cases.add(case)
    return _LOWER in cases and not cases.isdisjoint((_TITLE, _UPPER, _MIXED))


def features(docs: Sequence[Doc], forms: _Forms) -> list[NDArray[np.uint64]]:
    """Return the features of every token, an array of shape (tokens, columns) a document."""
    if not docs:
        return []
    lengths = [len(doc) for doc in docs]
    edges = np.concatenate([[0], np.cumsum(lengths)])
    flat = np.concatenate([doc.to_array("ORTH") for doc in docs])
    kinds, inverse = np.unique(flat, return_inverse=True)
    known = forms.rows(kinds, docs[0].vocab.strings)
    table = np.zeros((len(flat), _COLUMNS), dtype=np.uint64)
    table[:, :_FORM_COLUMNS] = known[inverse]
    place = np.repeat(np.arange(len(docs)), lengths)
    case = table[:, CASE].astype(np.int64)
    lower = np.bincount(place, case == _LOWER, len(docs)) > 0
    upper = np.bincount(place, case >= _TITLE, len(docs)) > 0
    telling = (lower & upper)[place]
    starts = np.zeros(len(flat), dtype=bool)
    starts[edges[:-1][np.array(lengths) > 0]] = True
    starts[1:] |= table[:-1, ENDS].astype(bool)
    written = np.where(telling, 1 + case * 2 + starts, 0)
    table[:, PLACE] = written * 16 + np.minimum(table[:, USE] // 32, 15)
    table[:, REPEATS] = _repeats(place, table) * 2 + telling
    return np.split(table, edges[1:-1])


def _repeats(place: NDArray[np.int64], table: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return how often each token's form occurs in its document: 0 not counted, once, twice, 3 or 4, more."""
    keys = place.astype(np.uint64) * np.uint64(1 << 32) + table[:, KEY]
    _, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    times = np.digitize(counts, [1, 2, 3, 5])[inverse]
    return np.where(table[:, COUNTED] > 0, times, 0)


def narrative_network(
    *, width: int, depth: int, pieces: int, embedding: int, vectors: int, rows: Sequence[int], unknown: float
) -> Model[list[Doc], list[Floats2d]]:
    """Build the network.

    Parameters
    ----------
    width, depth, pieces : int
        Of the convolutional encoder.
    embedding : int
        Width of each embedding of a form's features.
    vectors : int
        Width of the lexicon's vectors.
    rows : sequence of int
        Rows of the hashed embeddings of: form, suffixes of four and two letters, prefix of three, shape, use.
    unknown : float
        Share of the rarer words that are met as unknown forms in training.

    Returns
    -------
    Model
        From documents to scores, an array of shape (tokens, tags) a document.
    """
    columns = (FORM, SUFFIX, ENDING, PREFIX, SHAPE, USE)
    reader = _reader(Lexicon.empty(vectors), unknown)
    tables: list[Model[Ints2d, Floats2d]] = [
        HashEmbed(embedding, n, column=column, seed=seed)
        for seed, (column, n) in enumerate(zip(columns, rows, strict=True))
    ]
    mixed: Model[Ints2d, Floats2d] = chain(
        concatenate(*tables, _vectors(embedding, vectors, reader)),
        Maxout(width, embedding * (len(tables) + 1), nP=pieces, normalize=True, dropout=0.0),
    )
    seed = len(tables)
    place: list[Model[Ints2d, Floats2d]] = [
        HashEmbed(width, 256, column=PLACE, seed=seed),
        HashEmbed(width, 16, column=REPEATS, seed=seed + 1),
    ]
    embed: Model[list[Ints2d], list[Floats2d]] = with_array(add(uniqued(mixed, column=KEY), *place))
    encode = MaxoutWindowEncoder(width, window_size=1, maxout_pieces=pieces, depth=depth)
    output = Softmax(nI=width)
    decide: Model[Floats2d, Floats2d] = chain(
        Maxout(width, 3 * width, nP=pieces, normalize=True, dropout=0.0), output
    )
    model: Model[list[Doc], list[Floats2d]] = pooled(reader, chain(embed, encode), decide, _same_forms)
    model.set_ref("reader", reader)
    model.set_ref("output", output)
    return model


@serialize_attr.register(Lexicon)
def _write(_: Lexicon, value: Lexicon, _name: str, _model: Model[Any, Any]) -> bytes:
    return value.to_bytes()


@deserialize_attr.register(Lexicon)
def _read(_: Lexicon, value: bytes, _name: str, _model: Model[Any, Any]) -> Lexicon:
    return Lexicon.from_bytes(value)


def _reader(lexicon: Lexicon, unknown: float) -> Model[list[Doc], list[Ints2d]]:
    """Make the layer that reads documents; it keeps the lexicon."""
    forms = _Forms(lexicon)

    def forward(
        model: Model[list[Doc], list[Ints2d]],
        docs: list[Doc],
        is_train: bool,  # noqa: FBT001 - Thinc's call
    ) -> tuple[list[Ints2d], Callable[[Any], list[Doc]]]:
        nonlocal forms
        if forms.lexicon is not model.attrs["lexicon"]:
            forms = _Forms(model.attrs["lexicon"])
        tables: list[Any] = features(docs, forms)
        if is_train:
            for table in tables:
                _forget(table, unknown)
        return tables, lambda _: []

    return Model("narrative_features", forward, attrs={"lexicon": lexicon})


def _same_forms(tables: Sequence[NDArray[np.uint64]]) -> NDArray[np.int64]:
    """Return a number for each token, the same for the rarer forms that occur again in their document.

    Where case tells something, a form with a capital is another form.
    """
    table = np.concatenate(tables)
    place = np.repeat(np.arange(len(tables), dtype=np.uint64), [len(part) for part in tables])
    case = np.where(table[:, REPEATS] % 2, table[:, CASE], 0).astype(np.uint64)
    keys = (place << np.uint64(36)) | (table[:, KEY] << np.uint64(3)) | case
    alone = np.arange(len(table), dtype=np.uint64) | np.uint64(1 << 62)
    return np.where(table[:, COUNTED] > 0, keys, alone).astype(np.int64)


def _forget(table: NDArray[np.uint64], share: float) -> None:
    """Let some of the rarer forms of a document be met as words that nobody knows."""
    forms, inverse = np.unique(table[:, KEY], return_inverse=True)
    drawn = np.random.random(len(forms)) < share  # noqa: NPY002 - the generator that spaCy seeds
    lost = drawn[inverse] & (table[:, COUNTED] > 0)
    table[lost, FORM] = table[lost, ROW] = table[lost, USE] = 0
    table[lost, KEY] += np.uint64(1 << 31)
    table[lost, PLACE] -= table[lost, PLACE] % 16


def _vectors(out: int, width: int, reader: Model[list[Doc], list[Ints2d]]) -> Model[Ints2d, Floats2d]:
    """Make the layer that looks up the lexicon's vectors and projects them."""

    def forward(
        model: Model[Ints2d, Floats2d],
        table: Ints2d,
        is_train: bool,  # noqa: ARG001, FBT001 - Thinc's call
    ) -> tuple[Floats2d, Callable[[Floats2d], Ints2d]]:
        kept = reader.attrs["lexicon"].vectors
        found = kept[np.asarray(table)[:, ROW].astype(np.int64)].astype(np.float32) * np.float32(1 / SCALE)
        weights: Any = model.get_param("W")
        scores = model.ops.gemm(found, weights, trans2=True)

        def backprop(d_scores: Floats2d) -> Ints2d:
            model.inc_grad("W", model.ops.gemm(d_scores, found, trans1=True))
            nothing: Ints2d = model.ops.xp.zeros_like(table)  # numbers of forms have no gradient
            return nothing

        return scores, backprop

    def init(model: Model[Ints2d, Floats2d], X: Any = None, Y: Any = None) -> None:  # noqa: ARG001, N803
        model.set_param("W", glorot_uniform_init(model.ops, (out, width)))

    return Model("narrative_vectors", forward, init=init, params={"W": None}, dims={"nO": out, "nI": None})
