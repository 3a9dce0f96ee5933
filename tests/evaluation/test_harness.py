"""The harness itself, offline, beside our own calculation of the same numbers."""

# ruff: noqa: PLC0415 - torch and the harness take seconds to import

import contextlib
import json
import logging
import warnings

import numpy as np
import pandas as pd
import pytest
from tiny_models import tiny_gpt2

from workbench import datasets
from workbench.evaluation.interchange.import_results import import_results
from workbench.evaluation.metrics import evaluate
from workbench.items.items import Items

pytest.importorskip("transformers")
pytest.importorskip("lm_eval")

TASK = """
task: {task}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {file}}}}}
output_type: loglikelihood
test_split: test
doc_to_text: "{{{{text.split(' ')[:-1]|join(' ')}}}}"
doc_to_target: "{{{{' '+text.split(' ')[-1]}}}}"
metric_list:
  - {{metric: perplexity, aggregation: perplexity, higher_is_better: false}}
  - {{metric: acc, aggregation: mean, higher_is_better: true}}
metadata: {{version: 1.0}}
"""
OFFLINE = {
    "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1",
    "HF_UPDATE_DOWNLOAD_COUNTS": "0", "TOKENIZERS_PARALLELISM": "false",
}  # fmt: skip


def greedy_items(model):
    """Make items of which the model writes some itself, so that it is right about them."""
    items = datasets.load("sample", "dev", variant="openai").sample(12)
    written = model.predict(items)["prediction"]
    texts = []
    for number, (item, word) in enumerate(zip(items, written, strict=True)):
        own = isinstance(word, str) and word.isalpha() and number % 2 == 0
        texts.append(f"{item.text[: item.answer_span[0]]}{word if own else item.answer}")
    return Items.from_frame(pd.DataFrame({"text": texts}), variant="openai", tokenised=False)


@pytest.fixture(scope="module")
def harness(tmp_path_factory):
    """Give, by task: the items, the harness's results, its sample log, and our predictions."""
    import torch

    torch.set_num_threads(1)
    home = tmp_path_factory.mktemp("harness")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        for name, value in OFFLINE.items():
            patch.setenv(name, value)
        patch.setenv("HF_HOME", str(home / "hub"))
        warnings.simplefilter("ignore")  # of what the harness imports and does
        tiny_gpt2(home / "tiny")
        from workbench.models.pretrained.causal import CausalLM

        model = CausalLM(home / "tiny", device="cpu", dtype="float32")
        sets = {
            "lambada_standard": datasets.load("sample", "dev", variant="plain").sample(12),
            "lambada_openai_local": greedy_items(model),
        }
        with contextlib.suppress(ValueError):  # the test that wants it says so
            sets["dev_cased"] = datasets.load("lambada", "dev", variant="capitalised")[:20]
        results, logs = run_harness(home, sets)
        yield {task: (items, results[task], logs[task], model.predict(items)) for task, items in sets.items()}


def run_harness(home, sets, **model):
    """Let the harness evaluate items, by the model in ``tiny`` or another one, and write what it writes."""
    from lm_eval import simple_evaluate
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    for task, items in sets.items():
        lines = [json.dumps({"text": text}) for text in items.frame["text"]]
        (home / f"{task}.jsonl").write_text("\n".join(lines) + "\n")
        (home / f"{task}.yaml").write_text(TASK.format(task=task, file=home / f"{task}.jsonl"))
    tracker = EvaluationTracker(output_path=str(home / "out"))
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    report = simple_evaluate(
        **{"model": "hf", "model_args": {"pretrained": str(home / "tiny"), "dtype": "float32"}} | model,
        tasks=list(sets), task_manager=TaskManager(include_path=str(home), include_defaults=False),
        batch_size=16, device="cpu", bootstrap_iters=0, evaluation_tracker=tracker,
    )  # fmt: skip
    samples = report.pop("samples")
    tracker.save_results_aggregated(results=report, samples=samples)
    for task in sets:
        tracker.save_results_samples(task_name=task, samples=samples[task])
    logs = {task: next((home / "out").rglob(f"samples_{task}_*.jsonl")) for task in sets}
    return report["results"], logs


@pytest.mark.parametrize(
    "task",
    ["lambada_standard", "lambada_openai_local", pytest.param("dev_cased", marks=pytest.mark.data)],
)
def test_the_harness_says_the_same(harness, task):
    items, numbers, log, direct = harness[task]
    imported = import_results(log, items, keep=False)
    theirs = imported.predictions
    # item by item
    same = ["item_id", "variant", "correct", "greedy_correct"]
    pd.testing.assert_frame_equal(theirs[same], direct[same])
    our_log_prob = direct["log_prob_uncorrected"]
    np.testing.assert_allclose(theirs["log_prob_uncorrected"], our_log_prob, rtol=1e-4, atol=1e-4)
    right = direct["greedy_correct"].astype(bool)
    assert theirs["prediction"][right].tolist() == direct["prediction"][right].tolist()
    # over all
    measured = evaluate(imported, resamples=10).iloc[0]
    assert measured["accuracy"] == pytest.approx(numbers["acc,none"], abs=1e-12)
    assert measured["perplexity_uncorrected"] == pytest.approx(numbers["perplexity,none"], rel=1e-9)
    assert direct["greedy_correct"].mean() == pytest.approx(numbers["acc,none"], abs=1e-12)
    assert np.exp(-our_log_prob.mean()) == pytest.approx(numbers["perplexity,none"], rel=1e-4)
    assert our_log_prob.std() > 0
    # about the run
    assert imported.models == ["tiny"]
    assert imported.matched == {"by text": len(items)}
    assert imported.info["task"] == task
    assert task != "lambada_openai_local" or 0 < measured["accuracy"] < 1


@pytest.fixture(scope="module")
def real(smollm, tmp_path_factory):
    """Give 8 passages, what the harness says of them with trained weights, and what we say."""
    import torch

    torch.set_num_threads(1)
    items = datasets.load("lambada", "test", variant="openai")[:8]
    home = tmp_path_factory.mktemp("real")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        for name, value in OFFLINE.items():
            patch.setenv(name, value)
        patch.setenv("HF_HOME", str(home / "hub"))
        warnings.simplefilter("ignore")
        from lm_eval.models.huggingface import HFLM

        from workbench.models.pretrained.causal import CausalLM

        model = CausalLM(smollm, device="cpu", dtype="float32")
        checkpoint = model._checkpoint
        peer = HFLM(pretrained=checkpoint.model, tokenizer=checkpoint.tokenizer, batch_size=4, device="cpu")
        results, logs = run_harness(home, {"lambada_openai": items}, model=peer, model_args=None)
        return items, results["lambada_openai"], logs["lambada_openai"], model.predict(items)


@pytest.mark.data
def test_the_harness_says_the_same_of_trained_weights(real):
    items, numbers, log, direct = real
    imported = import_results(log, items, model="smollm", keep=False)
    theirs, ours = imported.predictions, direct["log_prob_uncorrected"]
    np.testing.assert_allclose(theirs["log_prob_uncorrected"], ours, rtol=0, atol=1e-4)
    assert theirs["greedy_correct"].tolist() == direct["greedy_correct"].tolist()
    assert direct["greedy_correct"].mean() == pytest.approx(numbers["acc,none"], abs=1e-12)
    assert np.exp(-ours.mean()) == pytest.approx(numbers["perplexity,none"], rel=1e-4)
    assert imported.report.empty  # in all of them the answer is all that stands behind the last space
    assert (direct["log_prob"] < ours).all()
    assert 0 < direct["greedy_correct"].mean() < 1
