"""The continuous cache beside networks, against loops straight from its formula."""

import math

import known_networks
import numpy as np
import pytest
import torch
from known_networks import CHOICES, CHOSEN, CLOSE, ITEMS, N_WORDS, TYPES, Planted, networks
from refused import refused

from workbench.models.neural.cache import CacheModule
from workbench.models.neural.network import class_ids
from workbench.predictions import schema
from workbench.storage.errors import DataError

torch.set_num_threads(1)
NETWORKS = {name: network for name, network in networks().items() if name in {"lstm", "forward"}}


@pytest.fixture(params=NETWORKS)
def base(request):
    return known_networks.model(NETWORKS[request.param])


@pytest.fixture(params=[(0.3, 0.7), (0.6, 0.0), (0.1, 3.0)], ids=str)
def cached(base, request, device):
    base.device = device
    weight, flatness = request.param
    return base.cached(weight, flatness=flatness)


def by_formula(model, context):
    """Return {word id: p} after a context: equations 2 to 4 of the paper, a place at a time."""
    network = model.base.network.eval()
    with torch.no_grad():
        states, _ = network.states(class_ids(torch.tensor([context], device=model.device), N_WORDS))
        p = network.output.distribution(states[0, -1:])[0].double().exp().cpu().numpy()
    h = states[0].double().cpu().numpy()
    nearness = np.exp(model.flatness * (h[:-1] @ h[-1]))
    weights = [(number, weight) for number, weight in zip(context[1:], nearness, strict=True) if number]
    total = math.fsum(weight for _, weight in weights)
    rate = model.weight if weights else 0.0
    result = {number: (1 - rate) * p[number] for number in range(1, N_WORDS)}
    other = (1 - rate) * p[0] / TYPES
    for number, weight in weights:
        result[number] = result.get(number, other) + rate * weight / total
    return result, other


def test_everything_is_as_the_formula_says(cached):
    frame = schema.check_predictions(cached.predict(ITEMS, 4), ITEMS)
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


def test_probabilities_sum_to_one(cached):
    cached.unknown = "unk"  # each unknown word of the passage has all of <unk>, beside what is copied
    blanks = [blank for _, blank in cached.encoder.blanks(ITEMS)]
    scorer = cached.scorer()
    with torch.no_grad():
        scores = scorer.words(scorer.last([blank.ids for blank in blanks]), slice(None))
    values, ids, unknown = (part.cpu() for part in scores)
    for row, blank in enumerate(blanks):
        far = len({number for number in blank.ids[1:] if number >= N_WORDS})
        assert (ids[row] >= N_WORDS).sum() == far
        total = values[row].exp().sum() + unknown[row].exp() * (1 - far)
        assert total == pytest.approx(1, abs=1e-5)


def test_candidates_and_the_words_after_them_are_as_the_formula_says(cached):
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


def test_a_text_in_pieces_is_a_text(base):
    network = CacheModule(base.network.eval(), 0.4, 0.5)
    ids = torch.tensor([[3, 14, 5, 14, 2, 13, 3, 5], [1, 1, 13, 2, 13, 1, 1, 7]])
    with torch.no_grad():
        whole = network.following(ids)
        for cut in (1, 3, 6):
            _, state = network.states(ids[:, :2])
            _, state = network.states(ids[:, 2:cut], state) if cut > 2 else network.states(ids[:, :cut])
            rest = network.following(ids[:, cut:], state)
            torch.testing.assert_close(rest, whole[:, cut:], rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:the best (weight|flatness):UserWarning")
def test_trials_are_what_the_models_say(base):
    options = {"weights": (0.0, 0.5), "flatnesses": (0.0, 0.8)}
    best = base.cached().tuned(ITEMS[:7], CHOSEN, **options, by="perplexity")
    trials, sets = best.trials, {"set": ITEMS[:7], "other": CHOSEN}
    assert (*trials.columns[:3], len(trials)) == ("weight", "flatness", "set", 8)
    sets = dict(zip(trials["set"].unique(), sets.values(), strict=True))
    for row in trials.itertuples():
        frame = base.cached(row.weight, flatness=row.flatness).predict(sets[row.set])
        assert row.n == len(frame)
        assert row.accuracy == pytest.approx(frame["p_correct"].mean())
        assert row.perplexity == pytest.approx(math.exp(-frame["log_prob"].mean()), rel=1e-4)
        ranks = frame["rank"].astype(float) + (frame["n_tied"].astype(float) - 1) / 2
        assert row.median_rank == ranks.median()
    for by, sign in (("perplexity", 1), ("accuracy", -1)):
        model = best if by == "perplexity" else base.cached().tuned(ITEMS[:7], CHOSEN, **options, by=by)
        means = (sign * np.log(trials[by].clip(1e-9))) if by == "perplexity" else -trials[by]
        means = means.groupby([trials["weight"], trials["flatness"]]).mean().round(9)
        assert (model.weight, model.flatness) == means.idxmin()
    refused(base.cached().tuned, ITEMS, by="rank")


def test_the_network_reads_each_passage_once_for_all_trials():
    network = Planted()
    known_networks.model(network).cached().tuned(ITEMS[:7])
    read = sum(rows * time for rows, time in network.asked if time > 1)
    assert read <= 7 * max(len(text.split()) for text in known_networks.TEXTS)


@pytest.mark.parametrize(
    "options", [{"weight": 1.0}, {"weight": -0.1}, {"flatness": -1.0}, {"flatness": math.inf}]
)
def test_what_cannot_be_is_refused(options):
    refused(known_networks.model(Planted()).cached, **options)
    info = {**known_networks.INFO, "sizes": {"pointer_heads": 4}}
    with pytest.raises(DataError):
        known_networks.Ours(Planted(), vocabulary=known_networks.WORDS, info=info).cached()
