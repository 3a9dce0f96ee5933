"""What holds of scores and ranks on any device, and the networks of which it is asked."""

import numpy as np
import planted
import pytest
import torch
from planted import CHOICES, CHOSEN, COUNTS, ITEMS, TYPES, WORDS, Copying, Planted

from workbench.models.neural.feedforward import FeedForwardModule
from workbench.models.neural.memory import MemoryModule
from workbench.models.neural.recurrent import RecurrentModule
from workbench.models.neural.softmax import softmax
from workbench.models.neural.transformer import TransformerModule
from workbench.runs import predictions

CLOSE = 2e-5  # ln p in single precision
COPY = {"copying", "transformer", "short-sighted"}


def networks():
    """Give a small network of each family, its weights drawn."""
    torch.manual_seed(3)
    small = {
        "counts": COUNTS,
        "unknown_types": TYPES,
        "width": 16,
        "layers": 1,
        "heads": 2,
        "pointer_size": 8,
    }
    made = {
        "lstm": RecurrentModule(COUNTS, kind="lstm", width=8, layers=2),
        "rnn": RecurrentModule(COUNTS, kind="rnn", width=8, tied=False),
        "forward": FeedForwardModule(COUNTS, width=8),
        "memory": MemoryModule(COUNTS, width=8),
        "transformer": TransformerModule(**small, window=40, dropout=0.3),
        "short-sighted": TransformerModule(**small, window=12),
    }
    made["rnn"].output = softmax("adaptive", 8, COUNTS, cutoffs=[5])
    for network in made.values():
        with torch.no_grad():
            for weight in network.parameters():
                weight.add_(torch.randn(weight.shape) * 0.3)
    return {
        "planted": Planted(),
        "not carried": Planted(carried=False),
        "copying": Copying(carried=False),
        **made,
    }


def as_a_slow_loop_says(ours, *, copies):
    """Compare log-probabilities, ranks, ties and best words with one passage at a time."""
    frame = predictions.check_predictions(ours.predict(ITEMS, 5), ITEMS)
    ranked = False
    for row, (log_prob, words) in zip(frame.itertuples(), planted.slow(ours, ITEMS), strict=True):
        assert row.log_prob == pytest.approx(log_prob, abs=CLOSE)
        np.testing.assert_allclose(row.top_log_probs, [value for value, _ in words[:5]], atol=CLOSE)
        values = {word: value for value, word in words}
        np.testing.assert_allclose(row.top_log_probs, [values[word] for word in row.top_words], atol=CLOSE)
        own = values.get(row.answer.lower())
        assert row.known == (own is not None)
        if own is None:
            assert row.rank == len(WORDS) + 1
            continue
        ranked |= row.answer.lower() not in WORDS
        surely = sum(value > own + CLOSE for value in values.values())
        perhaps = sum(value > own - CLOSE for value in values.values())
        assert surely < row.rank <= perhaps
        assert row.n_tied <= perhaps - surely
    assert ranked == copies


def candidates_are_scored_with_the_words_after_them(ours, *, copies):
    """Compare scores with those of one word after the other."""
    got = ours.score(CHOSEN, CHOICES)
    wanted = planted.slow_scores(ours, CHOSEN, CHOICES, copies=copies)
    assert got.shape == (len(CHOSEN), 4)
    for row, own in zip(got, wanted, strict=True):
        np.testing.assert_allclose(row[: len(own)], own, atol=5 * CLOSE)
        assert np.isnan(row[len(own) :]).all()
    frame = predictions.check_predictions(ours.predict(CHOSEN), CHOSEN)
    for row, own, choices in zip(frame.itertuples(), wanted, CHOICES, strict=True):
        np.testing.assert_allclose(row.candidate_scores, own, atol=5 * CLOSE)
        assert own[choices.index(row.prediction)] > max(own) - 10 * CLOSE
