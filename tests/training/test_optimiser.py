"""Sparse gradients: only the rows of a batch change, as with torch's SparseAdam."""

import numpy as np
import torch
from tiny_training import IDS, Bags, Draws, assert_close, settings, weights

from workbench.training.loop import train


def by_torch(network, chosen):
    """Train with SparseAdam for the sparse matrix and AdamW for the layer."""
    options = {"lr": 1.0, "betas": chosen.betas, "eps": 1e-8}
    parts = [torch.optim.SparseAdam([network.rows.weight], **options)]
    parts += [torch.optim.AdamW(network.output.parameters(), weight_decay=0.0, **options)]
    for step in range(chosen.steps):
        network.zero_grad()
        network({name: torch.from_numpy(values) for name, values in Draws().batch(step).items()})[
            0
        ].backward()
        gradients = [network.rows.weight.grad.coalesce().values()]
        gradients += [weight.grad for weight in network.output.parameters()]
        norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
        network.rows.weight.grad = network.rows.weight.grad * min(1.0, chosen.clip / norm)
        for gradient in gradients[1:]:
            gradient.mul_(min(1.0, chosen.clip / norm))
        [sparse] = parts[0].param_groups  # adds its epsilon before the root is corrected for the first steps
        sparse["eps"] = 1e-8 * (1 - chosen.betas[1] ** (step + 1)) ** 0.5
        for part in parts:
            part.param_groups[0]["lr"] = chosen.rate(step)
            part.step()


def test_it_is_sparse_adam_with_the_gradient_clipped():
    chosen = settings(30, clip=0.3)
    network, expected = Bags(), Bags()
    train(network, Draws(), chosen)
    by_torch(expected, chosen)
    assert_close(weights(network), weights(expected), 5e-6)


def test_rows_that_do_not_occur_stay_and_dense_ones_move_on():
    """After the ids of a step the momentum of dense Adam moves their rows on, that of lazy Adam does not."""
    moved = {}
    for sparse in (True, False):
        one, two = Bags(sparse=sparse), Bags(sparse=sparse)
        train(one, Draws(), settings(1, schedule="constant", warm_up=0))
        train(two, Draws(), settings(2, schedule="constant", warm_up=0))
        first = np.setdiff1d(Draws().batch(0)["ids"], Draws().batch(1)["ids"])
        moved[sparse] = (one.rows.weight - two.rows.weight)[first].abs().max().item()
        assert torch.equal(two.unused.weight, Bags().unused.weight)
    assert moved[True] == 0.0
    assert moved[False] > 1e-3


def test_decay_is_of_the_rows_that_occur():
    """With a rate and a decay whose product is 1, nothing of the old row is left."""
    options = {"learning_rate": 0.01, "schedule": "constant", "warm_up": 0, "clip": None}
    plain, decayed = Bags(), Bags()
    train(plain, Draws(), settings(1, **options))
    train(decayed, Draws(), settings(1, weight_decay=100.0, **options))
    before, ids = Bags().rows.weight, np.unique(Draws().batch(0)["ids"])
    torch.testing.assert_close(decayed.rows.weight[ids], (plain.rows.weight - before)[ids], rtol=0, atol=1e-6)
    others = np.setdiff1d(np.arange(IDS), ids)
    assert torch.equal(decayed.rows.weight[others], before[others])
