"""What holds of networks with a cache on any device, from the formula of Grave et al. (2017)."""

import math

import numpy as np
import pytest
import torch
from checked_scoring import CLOSE
from planted import CHOICES, CHOSEN, ITEMS, N_WORDS, TYPES

from workbench.models.neural.network import known
from workbench.runs import predictions


def by_formula(model, context):
    """Return {word id: p} after a context: equations 2 to 4 of the paper, a place at a time."""
    network = model.base.network.eval()
    with torch.no_grad():
        states, _ = network.states(known(torch.tensor([context], device=model.device), N_WORDS))
        p = network.output.distribution(states[0, -1:])[0].double().exp().cpu().numpy()
    h = states[0].double().cpu().numpy()
    weights = [
        (context[i + 1], math.exp(model.flatness * float(h[-1] @ h[i])))
        for i in range(len(context) - 1)
        if context[i + 1] != 0
    ]
    total = math.fsum(weight for _, weight in weights)
    rate = model.weight if weights else 0.0
    found = {number: (1 - rate) * p[number] for number in range(1, N_WORDS)}
    other = (1 - rate) * p[0] / TYPES
    for number, weight in weights:
        found[number] = found.get(number, other) + rate * weight / total
    return found, other


def as_the_formula_says(cached):
    """Compare log-probabilities, ranks, best words and distributions."""
    frame = predictions.check_predictions(cached.predict(ITEMS, 4), ITEMS)
    assert set(frame["model"]) == {cached.name}
    far = 0
    for row, (item, blank) in zip(frame.itertuples(), cached.encoder.blanks(ITEMS), strict=True):
        p, other = by_formula(cached, list(blank.ids))
        pieces = cached.encoder.word(item, row.answer, blank)
        if len(pieces) == 1:
            own = p.get(pieces[0], other)
            assert row.log_prob == pytest.approx(math.log(own), abs=CLOSE)
            assert row.known == (pieces[0] in p)
            far += pieces[0] in p and pieces[0] >= N_WORDS
            if row.known:
                assert row.rank == 1 + sum(value > own * (1 + CLOSE) for value in p.values())
        best = sorted(p.values(), reverse=True)[:4]
        np.testing.assert_allclose(np.exp(row.top_log_probs), best, rtol=CLOSE)
    assert far == 1
    values = np.concatenate(list(cached.distribution(ITEMS)))
    for row, (_, blank) in zip(values, cached.encoder.blanks(ITEMS), strict=True):
        p, _ = by_formula(cached, list(blank.ids))
        np.testing.assert_allclose(np.exp(row), [p[number] for number in range(1, N_WORDS)], rtol=1e-4)


def candidates_are_as_the_formula_says(cached):
    """Compare scores with those of one word after the other."""
    got = cached.score(CHOSEN, CHOICES)
    for row, (item, blank), choices in zip(got, cached.encoder.blanks(CHOSEN), CHOICES, strict=True):
        for value, word in zip(row, choices, strict=False):
            line, total = list(blank.ids), 0.0
            for number in (*cached.encoder.word(item, word, blank), *blank.right):
                p, other = by_formula(cached, line)
                total += math.log(p.get(number, other))
                line.append(number)
            assert value == pytest.approx(total, abs=5 * CLOSE)
    cached.after = False
    alone = cached.score(CHOSEN, CHOICES)
    assert (alone[6] > got[6])[~np.isnan(got[6])].all()
