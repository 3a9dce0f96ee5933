"""Networks are scored, cached, fitted and loaded on a GPU as on a CPU: the checks of the unit tests."""

import checked_cache
import checked_scoring as checked
import numpy as np
import planted
import pytest
import torch
from planted import CHOICES, CHOSEN, ITEMS
from small_lstm import DEV, Small, fit

from workbench.models.neural.scoring import Scorer
from workbench.training import loop

pytestmark = pytest.mark.usefixtures("no_data")
KINDS = [*checked.networks()]


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def test_everything_is_as_a_slow_loop_says(kind):
    ours = planted.model(checked.networks()[kind], device="cuda")
    assert ours.device.startswith("cuda")
    checked.as_a_slow_loop_says(ours, copies=kind in checked.COPY)


@pytest.mark.parametrize("after", [True, False])
def test_candidates_are_scored_with_the_words_after_them(kind, after):
    ours = planted.model(checked.networks()[kind], device="cuda", after=after)
    checked.candidates_are_scored_with_the_words_after_them(ours, copies=kind in checked.COPY)
    cpu = planted.model(checked.networks()[kind], after=after)
    np.testing.assert_allclose(ours.log_prob(ITEMS), cpu.log_prob(ITEMS), atol=1e-4)
    np.testing.assert_allclose(ours.score(CHOSEN, CHOICES), cpu.score(CHOSEN, CHOICES), atol=1e-4)


def test_reduced_precision_outside_changes_nothing(kind):
    ours = planted.model(checked.networks()[kind], device="cuda")
    before = ours.predict(ITEMS)
    was = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            assert ours.predict(ITEMS).equals(before)
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(was)


@pytest.mark.parametrize("options", [(0.3, 0.7), (0.6, 0.0)], ids=str)
def test_the_cache_is_as_the_formula_says(options):
    base = planted.model(checked.networks()["lstm"], device="cuda")
    cached = base.cached(options[0], flatness=options[1])
    checked_cache.as_the_formula_says(cached)
    checked_cache.candidates_are_as_the_formula_says(cached)
    tried = cached.trials(ITEMS[:7], weights=options[:1], flatnesses=options[1:])
    assert tried["accuracy"].iloc[0] == pytest.approx(cached.predict(ITEMS[:7])["p_correct"].mean())


def test_memory_that_does_not_suffice_halves_the_batch():
    network = checked.networks()["lstm"].cuda()
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
