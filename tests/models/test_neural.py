"""Networks as predictors: fitted, found again, resumed, saved and loaded."""

import json
import signal
import subprocess
import sys

import known_networks
import pandas as pd
import pytest
import small_lstm
import torch
from known_networks import INFO, Planted
from refused import refused
from safetensors.torch import save_file
from small_lstm import DEV, LINES, Small, fit

import workbench as wb
from workbench.models.neural.model import Neural, scores
from workbench.models.neural.recurrent import RecurrentModule
from workbench.models.neural.transformer import PointerTransformer
from workbench.texts.batches import EncodedText
from workbench.texts.corpus import Corpus
from workbench.training import loop

torch.set_num_threads(1)
pytestmark = pytest.mark.usefixtures("no_data")


def folders(home):
    return sorted((home / "cache" / "neural").iterdir())


def test_a_model_is_trained_kept_and_found_again(no_data, monkeypatch):
    options = {"tokens": 4000, "development": DEV, "evaluations": 2}
    first = fit(**options)
    assert not first.network.training
    assert all(weight.grad is None for weight in first.network.parameters())
    assert first.name == "LSTM 8"
    assert first.vocabulary == EncodedText(Corpus.of(LINES), 14).vocabulary
    assert (first.info["steps"], first.training_record.stopped) == (100, "finished")
    frame = first.training_record.scores_frame()
    assert frame["step"].tolist() == [50, 100]
    assert {"accuracy", "perplexity", "median_rank"} <= set(frame)
    measured = scores(first, DEV)
    assert measured["perplexity"] == pytest.approx(frame["perplexity"].min(), rel=1e-4)
    assert scores(first, DEV[:2])["perplexity"] < 10 < measured["perplexity"]
    (folder,) = folders(no_data)
    assert not (folder / "checkpoints").exists()
    assert Small.load(folder).config["weights"] == first.config["weights"]

    monkeypatch.setattr(loop, "train", None)  # nothing is to be trained
    again = fit(**options, after=False, unknown="unk", name="mine", save_every=7.0)
    assert again.config["weights"] == first.config["weights"]
    assert (again.name, again.after, again.unknown) == ("mine", False, "unk")
    assert again.training_record.scores == first.training_record.scores
    assert again.training == first.training == {**first.info["training_text"], "checked_for": None}
    same = ["rank", "p_correct", "top_words", "top_log_probs"]
    pd.testing.assert_frame_equal(again.predict(DEV)[same], first.predict(DEV)[same])
    for other in ({"tokens": 4040}, {"seed": 1}, {"width": 9}, {"vocabulary": 9}, {"learning_rate": 0.02},
                  {"rows": 5}, {"precision": "bfloat16"}, {"texts": LINES[:-1]},
                  {"development": None}):  # fmt: skip
        with pytest.raises(TypeError, match="NoneType"):
            fit(**options | other)


def test_a_training_shows_the_median_rank_that_tables_have():
    network = RecurrentModule([1] * 15, width=8, layers=1, softmax="full")
    with torch.no_grad():
        for weight in network.parameters():
            weight.zero_()  # all words are equally probable
    info = {"sizes": {"width": 8, "layers": 1, "softmax": "full"}}
    words = ["ada", *(f"w{n}" for n in range(13))]
    model = Small(network, vocabulary=words, info=info, device="cpu")
    assert scores(model, DEV[:2])["median_rank"] == (14 + 1) / 2
    assert wb.evaluate(model.predict(DEV[:2]), resamples=10)["median_rank"].tolist() == [(14 + 1) / 2]
    cached = model.cached(0.0).tuned(DEV[:2], weights=[0.0], flatnesses=[0.0])
    assert cached.trials["median_rank"].tolist() == [(14 + 1) / 2]


def test_a_corpus_is_as_good_as_its_texts(monkeypatch):
    corpus = Corpus.of(LINES)
    made = fit(texts=corpus, epochs=0.1)
    monkeypatch.setattr(loop, "train", None)
    assert fit(texts=LINES, epochs=0.1).config["weights"] == made.config["weights"]
    refused(fit, texts=corpus, lower=False)


def test_seeds_and_threads_around_it_do_not_matter(no_data, tmp_path):
    torch.manual_seed(1)
    one = fit(tokens=400, folder=tmp_path / "one")
    torch.manual_seed(2)
    before = torch.get_rng_state()
    two = fit(tokens=400, folder=tmp_path / "two")
    assert torch.equal(torch.get_rng_state(), before)
    assert one.config["weights"] == two.config["weights"]
    assert not (no_data / "cache" / "neural").exists()
    refused(fit, tokens=440, folder=tmp_path / "two")


def broken(monkeypatch, step, how):
    """Let a training be broken at its first way to a step."""
    plain, steps = Small._batches, {step}

    def batches(stream, **options):
        batches = plain(stream, **options)
        batch = batches.batch

        def once(at, rows=None):
            if at in steps:
                steps.remove(at)
                how()
            return batch(at, rows)

        batches.batch = once
        return batches

    monkeypatch.setattr(Small, "_batches", batches)


def test_a_training_that_stopped_goes_on_from_its_last_checkpoint(no_data, monkeypatch, tmp_path):
    whole = fit(tokens=800, folder=tmp_path / "whole")
    broken(monkeypatch, 8, lambda: signal.raise_signal(signal.SIGINT))
    part = fit(tokens=800)
    assert part.name == "LSTM 8, interrupted"
    assert part.info["stopped"] == part.training_record.stopped == "interrupted"
    assert part.predict(DEV)["log_prob"].notna().all()
    assert not (folders(no_data)[0] / "predictor.json").exists()
    assert part.config["weights"] != whole.config["weights"]

    def die():
        raise RuntimeError("the machine is gone")

    broken(monkeypatch, 12, die)
    with pytest.raises(RuntimeError, match="gone"):
        fit(tokens=800, save_every=0.0)
    checkpoints, plain = [], loop.train

    def train(network, batches, settings, **options):
        checkpoints.append(sorted(path.name for path in options["folder"].glob("step-*")))
        return plain(network, batches, settings, **options)

    monkeypatch.setattr(loop, "train", train)
    rest = fit(tokens=800)
    assert checkpoints == [["step-00000012"]]
    assert rest.info == whole.info
    assert rest.config["weights"] == whole.config["weights"]
    assert not (folders(no_data)[0] / "checkpoints").exists()


def test_development_items_are_drawn_by_seed(monkeypatch):
    predicted, plain = [], Small.predict

    def predict(self, items, *args, **options):
        predicted.append(items.frame["item_id"].tolist())
        return plain(self, items, *args, **options)

    monkeypatch.setattr(Small, "predict", predict)
    fit(tokens=80, development=DEV, evaluate_on=2, evaluations=2)
    assert predicted == [DEV.sample(2, seed=0).frame["item_id"].tolist()] * 2


def test_what_does_not_fit_is_refused():
    for options in [
        {"widht": 3},
        {"epochs": 1, "tokens": 5},
        {"tokens": 0},
        {"patience": 2},
        {"precision": "half"},
    ]:
        refused(fit, **options)
    refused(PointerTransformer.fit, LINES, window=32, length=64)
    refused(known_networks.Ours, Planted(), vocabulary=["a", "b", "c"], info=INFO)
    refused(known_networks.model, Planted(), unknown="none")


def test_items_held_out_are_refused():
    dev = wb.load("sample", "dev")
    items = dev.where((dev.frame["book_id"] == "sample/copper-bay").to_numpy())
    books = list(wb.books("sample"))[2:4]
    refused(fit, texts=books, held_out=items)
    made = fit(texts=books[1:], held_out=items, tokens=40)
    assert made.training["checked_for"]["items"] == len(items)


def test_the_record_of_the_training_is_saved_and_options_are_checked(tmp_path):
    made = fit(tokens=400)
    made.save(tmp_path / "saved")
    loaded = Neural.load(tmp_path / "saved", device="cpu")
    assert loaded.training_record == made.training_record
    refused(known_networks.Ours.load, tmp_path / "saved")
    refused(Small.load, tmp_path / "saved", colour="red")


def test_weights_are_read_when_they_are_needed_and_checked(tmp_path):
    made = fit(tokens=40)
    made.save(tmp_path)
    lazy = Small.load(tmp_path, device="cpu")
    assert lazy._network is None
    assert lazy.config["weights"] == made.config["weights"]
    assert lazy._network is None
    file = tmp_path / "weights.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    refused(lazy.log_prob, DEV)
    save_file({"another.weight": torch.ones(3)}, file)
    refused(lazy.log_prob, DEV)
    file.write_bytes(whole[:100])
    refused(lazy.log_prob, DEV)
    file.write_bytes(whole)
    assert lazy.log_prob(DEV).shape == (3,)
    (tmp_path / "vocabulary.txt").write_text("a\nb", encoding="utf-8")
    refused(Small.load, tmp_path)


def test_predictions_depend_on_the_weights():
    network = Planted()
    model = known_networks.model(network)
    first = model.config
    with torch.no_grad():
        network.rows[0, 0] += 1
    assert model.config["weights"] != first["weights"]
    assert {**model.config, "weights": ""} == {**first, "weights": ""}
    assert known_networks.model(network, after=False).config != model.config
    json.dumps(model.config)


def test_two_processes_train_one_model(tmp_path, monkeypatch):
    command = [sys.executable, small_lstm.__file__, tmp_path]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    reports = [json.loads((tmp_path / f"{rank}.json").read_text(encoding="utf-8")) for rank in range(2)]
    assert reports[0] == reports[1]  # both have the same weights
    monkeypatch.setattr(loop, "train", None)
    cached = fit(development=DEV, evaluations=2, tokens=600)
    assert [cached.config["weights"], cached.training_record.stopped] == reports[0]
    assert [row["step"] for row in cached.training_record.scores] == [8, 15]
