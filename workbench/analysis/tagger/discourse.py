"""A layer that brings together what a passage says of a form at all the places where it occurs.

In lower-cased text one place often tells what another hides: ``clarity`` may be a noun, but not if
it answers the telephone two sentences on. Each token's vector is put beside the mean and the maximum
of those of its form in the document, and the network learns what follows ("one sense per
discourse", Gale, Church and Yarowsky 1992, as pooling).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from thinc.api import Model
from thinc.types import Floats2d

Groups = NDArray[np.int64]


def pooled(
    reader: Model[Any, Any],
    encode: Model[Any, list[Floats2d]],
    decide: Model[Floats2d, Floats2d],
    groups: Callable[[Sequence[Any]], Groups],
) -> Model[Any, list[Floats2d]]:
    """Join a reader, an encoder of its tables, and a decision on vectors with their pooled company.

    Parameters
    ----------
    reader : Model
        From documents to one table of features a document.
    encode : Model
        From those tables to vectors, an array of shape (tokens, width) a document.
    decide : Model
        From an array of shape (tokens, 3 x width), own, mean and maximum, to scores.
    groups : callable
        From the tables to a number for each token; tokens of one number are pooled.

    Returns
    -------
    Model
        From documents to scores, an array a document.
    """

    def forward(
        model: Model[Any, list[Floats2d]],
        docs: Any,
        is_train: bool,  # noqa: FBT001 - Thinc's call
    ) -> tuple[list[Floats2d], Callable[[list[Floats2d]], Any]]:
        reader, encode, decide = model.layers
        tables, _ = reader(docs, is_train)
        vectors, back_encode = encode(tables, is_train)
        edges = np.cumsum([len(part) for part in vectors])[:-1]
        own = np.concatenate([np.asarray(part) for part in vectors])
        with_company, back_pool = pool(own, groups(tables))
        scores, back_decide = decide(with_company, is_train)

        def backprop(d_scores: list[Any]) -> Any:
            d_own = back_pool(np.asarray(back_decide(np.concatenate(d_scores))))
            return back_encode(np.split(d_own, edges))

        found: list[Any] = np.split(np.asarray(scores), edges)
        return found, backprop

    def init(model: Model[Any, list[Floats2d]], X: Any = None, Y: Any = None) -> None:  # noqa: ARG001, N803
        reader, encode, decide = model.layers
        tables = reader.predict(X)
        encode.initialize(X=tables)
        own = np.concatenate([np.asarray(part) for part in encode.predict(tables)])
        decide.initialize(X=pool(own, groups(tables))[0])

    return Model("discourse", forward, init=init, layers=[reader, encode, decide])


def pool(
    own: NDArray[np.float32], groups: Groups
) -> tuple[NDArray[np.float32], Callable[[NDArray[np.float32]], NDArray[np.float32]]]:
    """Put the mean and the maximum of its group beside each row.

    Parameters
    ----------
    own : array, shape (n, width)
    groups : int array, shape (n,)

    Returns
    -------
    rows : array, shape (n, 3 * width)
        Own, mean, maximum.
    backprop : callable
        From the gradient of the rows to that of `own`.
    """
    if not len(own):
        return np.zeros((0, 3 * own.shape[1]), np.float32), lambda gradient: gradient[:, : own.shape[1]]
    order = np.argsort(groups, kind="stable")
    sorted_groups = groups[order]
    starts = np.flatnonzero(np.concatenate([[True], sorted_groups[1:] != sorted_groups[:-1]]))
    sizes = np.diff([*starts.tolist(), len(own)])
    number = np.empty(len(own), dtype=np.int64)
    number[order] = np.repeat(np.arange(len(starts)), sizes)
    counts = sizes[:, None].astype(np.float32)
    mean = (np.add.reduceat(own[order], starts) / counts)[number]
    highest = np.maximum.reduceat(own[order], starts)[number]

    def backprop(gradient: NDArray[np.float32]) -> NDArray[np.float32]:
        width = own.shape[1]
        d_own, d_mean, d_highest = (gradient[:, k * width : (k + 1) * width] for k in range(3))
        spread = (np.add.reduceat(d_mean[order], starts) / counts)[number]
        highest_here = own == highest
        summed = np.add.reduceat(d_highest[order], starts)[number]
        ties = np.add.reduceat(highest_here[order].astype(np.float32), starts)[number]
        return np.asarray(d_own + spread + highest_here * summed / ties, dtype=np.float32)

    return np.concatenate([own, mean, highest], axis=1), backprop
