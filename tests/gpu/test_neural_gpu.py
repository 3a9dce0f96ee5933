"""What is particular to networks on a GPU; the unit tests run there, too."""

import known_networks
import numpy as np
import pytest
import torch
from known_networks import ITEMS
from small_lstm import DEV, Small, fit

from workbench.models.neural.scoring import Scorer
from workbench.training import loop

pytestmark = pytest.mark.usefixtures("no_data")


@pytest.mark.parametrize("kind", known_networks.networks())
def test_reduced_precision_outside_changes_nothing(kind):
    ours = known_networks.model(known_networks.networks()[kind], device="cuda")
    before = ours.predict(ITEMS)
    was = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            assert ours.predict(ITEMS).equals(before)
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(was)


def test_memory_that_does_not_suffice_halves_the_batch():
    network = known_networks.networks()["lstm"].cuda()
    contexts = [(1, 2, 3, 4)] * 64
    asked, plain = [], network.last

    def scarce(ids, lengths):
        asked.append(len(ids))
        if len(ids) > 16:
            torch.empty(2**50, device="cuda")  # a true failure of the allocator
        return plain(ids, lengths)

    network.last = scarce
    lasts = Scorer(network).last(contexts)
    assert asked == [64, 32, 16, 16, 16, 16]
    assert torch.equal(lasts.hidden, lasts.hidden[:1].expand(64, -1))


def test_a_model_is_trained_on_it_and_used_elsewhere(monkeypatch, tmp_path):
    made = fit(tokens=4000, development=DEV, evaluations=2, device="cuda", compile=False)
    assert made.training_record.stopped == "finished"
    assert made.training_record.device.startswith("cuda")
    monkeypatch.setattr(loop, "train", None)
    again = fit(tokens=4000, development=DEV, evaluations=2, device="cpu")
    assert again.config["weights"] == made.config["weights"]
    np.testing.assert_allclose(again.log_prob(DEV), made.log_prob(DEV), atol=1e-4)
    made.save(tmp_path)
    loaded = Small.load(tmp_path)
    assert loaded.device.startswith("cuda")
    assert loaded.predict(DEV).equals(made.predict(DEV))
