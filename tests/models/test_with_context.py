"""Models that read only so much of a passage."""

import known_networks
import numpy as np
import pytest
import torch
from known_networks import ITEMS, Planted
from refused import refused

from workbench.items.items import items_from_text
from workbench.items.tokens import tokens
from workbench.models.neural.model import Neural
from workbench.models.neural.sup_cbow import SupCBOW

torch.set_num_threads(1)


class Summing(Planted):
    """The state is the mean over all words read, so each of them counts."""

    def states(self, ids, state=None):  # noqa: ARG002 - not carried
        whole = self.rows[ids].cumsum(1)
        return whole / torch.arange(1, ids.shape[1] + 1)[:, None], None


@pytest.mark.parametrize("reads", [1, 5, "sentence"])
@pytest.mark.parametrize("network", [Summing, known_networks.Copying])
def test_a_model_reads_so_much_and_no_more(reads, network):
    short = []
    for item in ITEMS:
        words = tokens(item)
        start = words.sentences[-1] if reads == "sentence" else max(words.target - reads, 0)
        short.append(" ".join([*words.words[start : words.target], "___"]))
    cut = items_from_text(short, answers=ITEMS.frame["answer"].tolist(), tokenised=True, split="test")
    model = known_networks.model(network())
    limited = model.with_context(reads)
    frame, expected = limited.predict(ITEMS), model.predict(cut)
    for column in ("log_prob", "rank", "p_correct", "top_words"):
        assert frame[column].tolist() == expected[column].tolist()
    whole = model.log_prob(ITEMS)
    np.testing.assert_array_equal(limited.with_context(None).log_prob(ITEMS), whole)
    if reads == 1:
        assert not np.allclose(frame["log_prob"], whole)


def test_it_is_named_kept_and_shares_its_weights(tmp_path, monkeypatch):
    model = known_networks.model(Summing())
    short = model.with_context(1_000)
    assert short.network is model.network
    assert (short.name, model.name) == ("planted, last 1,000 words", "planted")
    assert model.with_context(1).with_context("sentence").name == "planted, sentence alone"
    assert short.with_context(None).name == "planted"
    assert short.config == {**model.config, "reads": 1_000, "name": short.name}
    assert model.with_context(3).cached(0.2).name == "planted, last 3 words, cache 0.2, flatness 0.3"
    assert model.cached(0.2).with_context(3).config == model.with_context(3).cached(0.2).config

    monkeypatch.setattr(known_networks.Ours, "_build", classmethod(lambda *_: Summing()))
    short.save(tmp_path / "model")
    again = known_networks.Ours.load(tmp_path / "model", device="cpu")
    assert (again.reads, again.name) == (1_000, short.name)
    assert again.predict(ITEMS)["log_prob"].tolist() == short.predict(ITEMS)["log_prob"].tolist()
    assert Neural.load(tmp_path / "model", reads=None, name=None).name == "planted"
    load = known_networks.Ours.load
    assert load(tmp_path / "model", reads="sentence").name == "planted, sentence alone"
    assert load(tmp_path / "model", reads=2, name="mine").name == "mine"
    model.save(tmp_path / "whole")
    assert load(tmp_path / "whole", reads=4).name == "planted, last 4 words"


def test_a_copy_computes_where_it_says(monkeypatch):
    model = known_networks.model(Summing())
    short = model.with_context(2)
    monkeypatch.setattr(Summing, "to", lambda self, device: self.to_empty(device=device))
    model.network.to("meta")  # as if the model were moved, or its memory given back
    assert str(next(short.network.parameters()).device) == short.device == "cpu"


@pytest.mark.parametrize("reads", [0, -1, "passage"])
def test_nonsense_is_refused(reads):
    refused(known_networks.model(Summing()).with_context, reads)
    refused(SupCBOW.with_context, object.__new__(SupCBOW), 4)
