"""The truncated SVD of LSA against the full one of NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from workbench.models import lsa


def lanczos(matrix, k, *, seed=0, rows=11):
    """Decompose a dense matrix, that many rows at a time."""
    parts = [csr_array(matrix[at : at + rows]) for at in range(0, len(matrix), rows)]
    return lsa._lanczos(parts, k, seed)


def check(matrix, k, **options):
    """Compare k vectors and values with the full decomposition; vectors of equal values may be turned."""
    v, s = lanczos(matrix, k, **options)
    _, full, right = np.linalg.svd(matrix, full_matrices=False)
    allowed = 3e-7 * full[0]  # the root of what is rounding in the square
    np.testing.assert_allclose(s, full[:k], rtol=1e-9, atol=allowed)
    np.testing.assert_allclose(v.T @ v, np.eye(k), atol=1e-12)
    residuals = np.linalg.norm(matrix.T @ (matrix @ v) - v * s**2, axis=0)
    assert (residuals <= 1.1e-8 * s**2 + 1e-12 * full[0] ** 2).all()
    distinct = k == len(full) or full[k - 1] > 1.01 * full[k]
    if distinct and full[k - 1] > 1e-3 * full[0]:
        np.testing.assert_allclose(v @ v.T, right[:k].T @ right[:k], atol=1e-5)


@settings(deadline=None)
@given(
    shape=st.tuples(st.integers(2, 60), st.integers(2, 60)),
    rank=st.integers(1, 60),
    seed=st.integers(0, 99),
    data=st.data(),
)
def test_matrices_of_any_rank(shape, rank, seed, data):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(shape[0], rank)) @ rng.normal(size=(rank, shape[1]))
    matrix[:, rng.random(shape[1]) < 0.2] = 0  # words in no sentence
    if matrix.any():
        check(matrix, data.draw(st.integers(1, min(shape) - 1)))


@pytest.mark.parametrize("k", [1, 6, 50])
@pytest.mark.parametrize(
    "matrix",
    [
        np.eye(90),
        np.kron(np.eye(30), np.ones((4, 3))),  # 30 topics of three words that share no sentence
        np.diag(np.r_[np.ones(5), np.zeros(85)]),
        np.diag(np.r_[np.full(6, 10.0), np.ones(84)]),
        np.diag(2.0 ** -np.arange(90)),
    ],
    ids=["identity", "topics", "rank 5", "two values", "powers"],
)
def test_equal_values_and_empty_directions(matrix, k):
    check(matrix, k)


def products(monkeypatch):
    """Return a list that grows with each product of a block."""
    calls, plain = [], lsa._gram_product
    monkeypatch.setattr(lsa, "_gram_product", lambda *args: calls.append(1) or plain(*args))
    return calls


def test_values_close_together_take_restarts(monkeypatch):
    k, calls = 5, products(monkeypatch)
    rng = np.random.default_rng(1)
    left, right = (np.linalg.qr(rng.normal(size=(size, 500)))[0] for size in (600, 500))
    check(left @ np.diag(1 - np.arange(500) / 2e4) @ right.T, k)
    width = lsa._BLOCK[0]
    assert len(calls) * width > 4 * (k + width)  # more than the basis has columns
