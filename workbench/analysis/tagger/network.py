"""The network of the tagger: words in any case to scores of the tags."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
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

Groups = NDArray[np.int64]

_MARKS = {
    "``": '"', "''": '"', "“": '"', "”": '"', "`": "'", "‘": "'", "’": "'",  # noqa: RUF001 - quote marks
    "-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-lcb-": "{", "-rcb-": "}",
}  # fmt: skip
SCALE = 32
"""Steps of a vector's int8 numbers to 1."""

UNKNOWN_ID = 0
"""Row of a form that the table does not hold."""

_ARRAYS = ("vectors", "names", "counts", "own")  # names in the file, in the order of the attributes


def fold_token(form: str) -> str:
    """Return a form without its case; Treebank brackets, and quote marks of any kind, as plain ones."""
    low = form.lower()
    return _MARKS.get(low) or low.replace("’", "'")  # noqa: RUF001 - a typographic apostrophe is meant


@dataclass(frozen=True)
class Lexicon:
    """Case-insensitive counts of each form in novels, and the share that are names.

    It carries what capitals show in print over to lower-cased text. Row 0 is of unknown forms, and zero.
    """

    words: tuple[str, ...]  # folded, the most frequent first; row ``i + 1`` is that of ``words[i]``
    vectors: NDArray[np.int8]  # (m + 1, width), of the first m words
    names: NDArray[np.uint8]  # (n + 1,), capitalised share within sentences, 1 (never) to 11 (always)
    counts: NDArray[np.uint8]  # (n + 1,), the integer part of log2 of the count, plus 1
    embedded: NDArray[np.bool_]  # (n + 1,), whether frequent enough for an embedding in the tagger
    rows: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", {word: row for row, word in enumerate(self.words, start=1)})

    def row(self, folded: str) -> int:
        """Return the row of a folded form, `UNKNOWN_ID` where it has none."""
        return self.rows.get(folded, UNKNOWN_ID)

    def to_bytes(self) -> bytes:
        """Write the table as a compressed NumPy archive."""
        file = io.BytesIO()
        words = np.frombuffer("\n".join(self.words).encode(), dtype=np.uint8)
        arrays: Any = zip(_ARRAYS, (self.vectors, self.names, self.counts, self.embedded), strict=True)
        np.savez_compressed(file, words=words, **dict(arrays))
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Lexicon:
        """Read the bytes of `to_bytes`."""
        with np.load(io.BytesIO(data), allow_pickle=False) as table:
            words = table["words"].tobytes().decode()
            return cls(tuple(words.split("\n")) if words else (), *(table[name] for name in _ARRAYS))

    @classmethod
    def empty(cls, width: int) -> Lexicon:
        """Return a table that holds no word."""
        none = np.zeros(1, dtype=np.uint8)
        return cls((), np.zeros((1, width), dtype=np.int8), none, none, none.astype(bool))


# Columns of a form's features, and of a token's, which add what depends on the passage.
KEY, FORM, SUFFIX, ENDING, PREFIX, SHAPE, USE, ROW, CASE, ENDS, COUNTED, PLACE, REPEATS = range(13)
_FORM_COLUMNS, _COLUMNS = COUNTED + 1, REPEATS + 1
_NONE, _LOWER, _TITLE, _UPPER, _MIXED = range(5)  # how a form is written
_ENDERS = frozenset(".!?:\"'(-") | {"--", "...", "[", "*", "#"}
_COMMON = 13  # forms this frequent (binary logarithm of the count) repeat in any passage
_MOST_FORMS = 400_000  # forms whose features are stored


class _Forms:
    """Features of the forms met so far, by spaCy's hash of the form."""

    def __init__(self, lexicon: Lexicon) -> None:
        self.lexicon = lexicon
        self._keys: dict[str, int] = {}
        self._features: dict[int, NDArray[np.uint64]] = {}

    def rows(self, orths: Sequence[int], strings: Any) -> NDArray[np.uint64]:
        """Return the features of the forms, shape (n, form columns)."""
        if len(self._features) > _MOST_FORMS:
            self._features.clear()
            self._keys.clear()
        for orth in orths:
            if orth not in self._features:
                self._features[orth] = np.array(self._row(strings[orth]), dtype=np.uint64)
        rows = [self._features[orth] for orth in orths]
        return np.array(rows, dtype=np.uint64).reshape(len(rows), _FORM_COLUMNS)

    def _row(self, form: str) -> list[int]:
        folded = fold_token(form)
        plain = re.sub(r"\d", "0", folded)
        row = self.lexicon.row(folded)
        shape = re.sub(r"(.)\1+", r"\1\1", re.sub(r"[^\W\d_]", "a", plain))
        names, counts = int(self.lexicon.names[row]), int(self.lexicon.counts[row])
        return [
            self._keys.setdefault(folded, len(self._keys)),
            _hash(plain) if self.lexicon.embedded[row] else 0,
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


@lru_cache(maxsize=_MOST_FORMS)
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
    """Return whether a text has both small and capital letters, so that capitals are informative."""
    cases = {_case(form) for form in {token.text for token in doc}}
    return _LOWER in cases and not cases.isdisjoint((_TITLE, _UPPER, _MIXED))


def token_features(docs: Sequence[Doc], forms: _Forms) -> list[NDArray[np.uint64]]:
    """Return the features of every token, an array of shape (tokens, columns) a document."""
    if not docs:
        return []
    lengths = [len(doc) for doc in docs]
    edges = np.concatenate([[0], np.cumsum(lengths)])
    flat = np.concatenate([doc.to_array("ORTH") for doc in docs])
    unique_forms, inverse = np.unique(flat, return_inverse=True)
    table = np.zeros((len(flat), _COLUMNS), dtype=np.uint64)
    table[:, :_FORM_COLUMNS] = forms.rows(unique_forms.tolist(), docs[0].vocab.strings)[inverse]
    doc_index = np.repeat(np.arange(len(docs)), lengths)
    case = table[:, CASE].astype(np.int64)
    lower = np.bincount(doc_index, case == _LOWER, len(docs)) > 0
    upper = np.bincount(doc_index, case >= _TITLE, len(docs)) > 0
    telling = (lower & upper)[doc_index]
    starts = np.zeros(len(flat), dtype=bool)
    starts[edges[:-1][np.array(lengths) > 0]] = True
    starts[1:] |= table[:-1, ENDS].astype(bool)
    written = np.where(telling, 1 + case * 2 + starts, 0)
    table[:, PLACE] = written * 16 + np.minimum(table[:, USE] // 32, 15)
    table[:, REPEATS] = _repeats(doc_index, table) * 2 + telling
    return np.split(table, edges[1:-1])


def _repeats(doc_index: NDArray[np.int64], table: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return how often each token's form occurs in its document: 0 not counted, once, twice, 3 or 4, more."""
    keys = doc_index.astype(np.uint64) * np.uint64(1 << 32) + table[:, KEY]
    _, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    times = np.digitize(counts, [1, 2, 3, 5])[inverse]
    return np.where(table[:, COUNTED] > 0, times, 0)


def pooled(
    reader: Model[Any, Any],
    encode: Model[Any, list[Floats2d]],
    decide: Model[Floats2d, Floats2d],
    groups: Callable[[Sequence[Any]], Groups],
) -> Model[Any, list[Floats2d]]:
    """Return a model from documents to scores, an array per document.

    `reader` makes a table of features of each document, `encode` vectors of the tables (tokens, width).
    Each vector is joined with the mean and the maximum of the tokens that have its number in `groups`, for
    `decide` to score (tokens, 3 x width). In lower-cased text one place often disambiguates another:
    ``clarity`` is not a noun if it answers the telephone later ("one sense per discourse", Gale et al. 1992).
    """

    def forward(
        model: Model[Any, list[Floats2d]],
        docs: Any,
        is_train: bool,  # noqa: FBT001 - Thinc's call
    ) -> tuple[list[Floats2d], Callable[[list[Floats2d]], Any]]:
        reader, encode, decide = model.layers
        tables, _ = reader(docs, is_train)
        vectors, back_encode = encode(tables, is_train)
        edges = np.cumsum([len(each) for each in vectors])[:-1]
        pooled_vectors, back_pool = pool(_flat(vectors), groups(tables))
        scores, back_decide = decide(pooled_vectors, is_train)

        def backprop(d_scores: list[Any]) -> Any:
            d_vectors = back_pool(np.asarray(back_decide(np.concatenate(d_scores))))
            return back_encode(np.split(d_vectors, edges))

        by_document: list[Any] = np.split(np.asarray(scores), edges)
        return by_document, backprop

    def init(model: Model[Any, list[Floats2d]], X: Any = None, Y: Any = None) -> None:  # noqa: ARG001, N803
        reader, encode, decide = model.layers
        tables = reader.predict(X)
        encode.initialize(X=tables)
        decide.initialize(X=pool(_flat(encode.predict(tables)), groups(tables))[0])

    return Model("discourse", forward, init=init, layers=[reader, encode, decide])


def _flat(arrays: Sequence[Any]) -> NDArray[np.float32]:
    return np.concatenate([np.asarray(array) for array in arrays])


def pool(
    vectors: NDArray[np.float32], groups: Groups
) -> tuple[NDArray[np.float32], Callable[[NDArray[np.float32]], NDArray[np.float32]]]:
    """Join each row (n, width) with mean and maximum of its group; return (n, 3 * width) and the backprop."""
    n, width = vectors.shape
    if not n:
        return np.zeros((0, 3 * width), np.float32), lambda gradient: gradient[:, :width]
    _, number, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = np.argsort(groups, kind="stable")
    starts = np.cumsum(sizes) - sizes
    counts = sizes[:, None].astype(np.float32)
    mean = (np.add.reduceat(vectors[order], starts) / counts)[number]
    highest = np.maximum.reduceat(vectors[order], starts)[number]

    def backprop(gradient: NDArray[np.float32]) -> NDArray[np.float32]:
        d_vectors, d_mean, d_highest = (gradient[:, k * width : (k + 1) * width] for k in range(3))
        spread = (np.add.reduceat(d_mean[order], starts) / counts)[number]
        is_highest = vectors == highest
        summed = np.add.reduceat(d_highest[order], starts)[number]
        ties = np.add.reduceat(is_highest[order].astype(np.float32), starts)[number]
        return np.asarray(d_vectors + spread + is_highest * summed / ties, dtype=np.float32)

    return np.concatenate([vectors, mean, highest], axis=1), backprop


def narrative_network(
    *, width: int, depth: int, pieces: int, embedding: int, vectors: int, rows: Sequence[int], unknown: float
) -> Model[list[Doc], list[Floats2d]]:
    """Build the network: from documents to scores, an array (tokens, tags) a document.

    A token is seen as a form without its case, with what the `Lexicon` says about that form, and as it is
    written. Whether the case of a text tells anything is an input too. Hashed embeddings, a convolution
    over windows of three words and a softmax are spaCy's (Honnibal et al. 2020); `pooled` joins them.

    `width`, `depth` and `pieces` are sizes of the convolutional encoder; `embedding` and `vectors` widths of
    each embedding of a form's features, and of the lexicon's vectors; `rows` those of the hashed embeddings
    of form, suffixes of four and two letters, prefix of three, shape and use; `unknown` the share of the
    rarer words that training hides as unknown forms.
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
    feature_embeds: list[Model[Ints2d, Floats2d]] = [
        HashEmbed(width, 256, column=PLACE, seed=seed),
        HashEmbed(width, 16, column=REPEATS, seed=seed + 1),
    ]
    embed: Model[list[Ints2d], list[Floats2d]] = with_array(add(uniqued(mixed, column=KEY), *feature_embeds))
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
        tables: list[Any] = token_features(docs, forms)
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
    doc_index = np.repeat(np.arange(len(tables), dtype=np.uint64), [len(each) for each in tables])
    case = np.where(table[:, REPEATS] % 2, table[:, CASE], 0).astype(np.uint64)
    keys = (doc_index << np.uint64(36)) | (table[:, KEY] << np.uint64(3)) | case
    alone = np.arange(len(table), dtype=np.uint64) | np.uint64(1 << 62)
    return np.where(table[:, COUNTED] > 0, keys, alone).astype(np.int64)


def _forget(table: NDArray[np.uint64], share: float) -> None:
    """Replace rare forms of a document by the unknown form at random (word dropout)."""
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
        rows = np.asarray(table)[:, ROW].astype(np.int64)
        inputs = reader.attrs["lexicon"].vectors[rows].astype(np.float32) * np.float32(1 / SCALE)
        weights: Any = model.get_param("W")
        scores = model.ops.gemm(inputs, weights, trans2=True)

        def backprop(d_scores: Floats2d) -> Ints2d:
            model.inc_grad("W", model.ops.gemm(d_scores, inputs, trans1=True))
            nothing: Ints2d = model.ops.xp.zeros_like(table)  # numbers of forms have no gradient
            return nothing

        return scores, backprop

    def init(model: Model[Ints2d, Floats2d], X: Any = None, Y: Any = None) -> None:  # noqa: ARG001, N803
        model.set_param("W", glorot_uniform_init(model.ops, (out, width)))

    return Model("narrative_vectors", forward, init=init, params={"W": None}, dims={"nO": out, "nI": None})
