"""Let Inspect, lighteval and lm-evaluation-harness write logs about three passages of the sample.

``python record.py PROGRAM FOLDER`` runs without the network in an environment that has the program; the
files beside this script are by inspect-ai 0.3.285, lighteval 0.13.0 and lm-eval 0.5.0.dev1. The passages are
those of ``passages.json``; models are the programs' own mock models, and for lighteval made-up responses.
"""

# ruff: noqa: PLC0415 - only one of the programs may be installed

import json
import os
import sys
import types
from pathlib import Path

HERE = Path(__file__).parent
PASSAGES = json.loads((HERE / "passages.json").read_text(encoding="utf-8"))
LAST = [(text.rpartition(" ")[0], text.rpartition(" ")[2]) for text in PASSAGES]
WRITTEN = [LAST[0][1], f" {LAST[1][1].capitalize()}.", "stone"]  # right, right but for its form, wrong
CHOICES = [["rock", word, "sand"] for _, word in LAST]
TASK = """
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {file}}}}}
test_split: test
doc_to_text: "{{{{text.split(' ')[:-1]|join(' ')}}}}"
metadata: {{version: 1.0}}
"""
TASKS = {
    "lambada_openai_local": """
output_type: loglikelihood
doc_to_target: "{{' ' + text.split(' ')[-1]}}"
metric_list:
  - {metric: perplexity, aggregation: perplexity, higher_is_better: false}
  - {metric: acc, aggregation: mean, higher_is_better: true}
""",
    "lambada_openai_written": """
output_type: generate_until
doc_to_target: "{{text.split(' ')[-1]}}"
generation_kwargs: {until: ["\\n"], max_gen_toks: 8}
filter_list:
  - {name: first-letter, filter: [{function: regex, regex_pattern: '(\\w)'}, {function: take_first}]}
  - {name: whole, filter: [{function: take_first}]}
metric_list:
  - {metric: exact_match, aggregation: mean, higher_is_better: true}
""",
    "lambada_openai_choices": """
output_type: multiple_choice
doc_to_target: 1
doc_to_choice: "{{['rock', text.split(' ')[-1], 'sand']}}"
metric_list:
  - {metric: acc, aggregation: mean, higher_is_better: true}
""",
    "lambada_openai_rolling": """
output_type: loglikelihood_rolling
doc_to_target: "{{text}}"
metric_list:
  - {metric: word_perplexity, aggregation: weighted_perplexity, higher_is_better: false}
""",
}


def inspect(folder):
    """Write a log of last words, in both forms and with two epochs, and one of choices."""
    import tiktoken

    tokens = types.SimpleNamespace(encode=lambda text, **_options: text.split())
    tiktoken.get_encoding = tiktoken.encoding_for_model = lambda _name: tokens  # it would be downloaded
    import inspect_ai
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput, get_model
    from inspect_ai.scorer import choice, includes, match
    from inspect_ai.solver import generate, multiple_choice

    def run(name, samples, answers, log_format, *, epochs=1, **task):
        outputs = [ModelOutput.from_content("mockllm/model", answer) for answer in answers] * epochs
        model = get_model("mockllm/model", custom_outputs=iter(outputs))
        options = {
            "log_format": log_format,
            "log_dir": str(folder / name),
            "display": "none",
            "epochs": epochs,
        }
        inspect_ai.eval(
            inspect_ai.Task(samples, name="lambada_openai", **task), model=model, max_samples=1, **options
        )
        next((folder / name).iterdir()).rename(folder / f"inspect_{name}.{log_format}")
        (folder / name).rmdir()

    words = [Sample(input=before, target=word, id=n) for n, (before, word) in enumerate(LAST, 1)]
    last_word = {"solver": generate(), "scorer": [includes(), match(location="exact", ignore_case=False)]}
    run("last_word", words[:1], WRITTEN[:1], "json", **last_word)
    run("last_word", words, WRITTEN, "eval", **last_word)
    run("two_epochs", words, WRITTEN, "eval", epochs=2, **last_word)
    samples = [
        Sample(input=f"{before} ____", choices=options, target="B")
        for (before, _), options in zip(LAST, CHOICES, strict=True)
    ]
    answers = ["ANSWER: B", "ANSWER: C", "I do not know."]
    run("choices", samples, answers, "eval", solver=multiple_choice(), scorer=choice())


def lighteval(folder):
    """Write details of last words, of choices and of generated text, by lighteval's own tracker."""
    import lighteval.logging.info_loggers as loggers
    import xxhash
    from lighteval.logging.evaluation_tracker import EvaluationTracker
    from lighteval.models.dummy.dummy_model import DummyModelConfig
    from lighteval.models.model_output import ModelResponse
    from lighteval.tasks.requests import Doc, SamplingMethod
    from lighteval.tasks.tasks.lambada import lambada_prompt

    def digest(text):  # newer versions of xxhash take bytes alone
        return xxhash.xxh64(text.encode() if isinstance(text, str) else text)

    loggers.xxhash = types.SimpleNamespace(xxh64=digest)
    tracker = EvaluationTracker(output_dir=str(folder / "out"), save_details=True)
    tracker.general_config_logger.log_model_info(DummyModelConfig(seed=1, model_name="org/dummy"))
    for n, text in enumerate(PASSAGES):
        doc = lambada_prompt({"text": text}, "lambada:openai|0")
        doc.sampling_methods = [SamplingMethod.LOGPROBS]
        scored = {"logprobs": [-0.5 - n], "argmax_logits_eq_gold": [n == 0]}
        chosen = {"logprobs": [-3.0, -2.0 - n, -4.0], "argmax_logits_eq_gold": [False] * 3}
        log = tracker.details_logger.log
        log("lambada:openai|0", doc, ModelResponse(input=doc.query, **scored), {"ppl": -0.5 - n})
        options = [f" {word}" for word in CHOICES[n]]
        choices = Doc(query=doc.query, choices=options, gold_index=1, task_name="choices|0")
        log("choices|0", choices, ModelResponse(input=doc.query, **chosen), {"acc": int(n < 1)})
        written = Doc(query=doc.query, choices=[LAST[n][1]], gold_index=0, task_name="written|0")
        metrics = {"em": int(n == 0), "qem": int(n < 2)}
        log("written|0", written, ModelResponse(input=doc.query, text=[WRITTEN[n]]), metrics)
    tracker.save()
    for path in sorted((folder / "out" / "details").rglob("*.parquet")):
        task = path.name.split("_")[1].partition("|")[0].partition(":")[0]
        path.rename(folder / f"lighteval_{task}.parquet")


def lm_eval(folder):
    """Write logs of the four kinds of requests by the harness's dummy model."""
    from lm_eval import simple_evaluate
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.models.dummy import DummyLM
    from lm_eval.tasks import TaskManager

    def scores(_model, requests, **_options):  # as since 0.5; random before
        return [(-float(request.doc_id), request.doc_id % 2 == 0) for request in requests]

    DummyLM.loglikelihood = scores
    passages = folder / "passages.jsonl"
    passages.write_text("".join(json.dumps({"text": text}) + "\n" for text in PASSAGES), encoding="utf-8")
    for name, rest in TASKS.items():
        (folder / f"{name}.yaml").write_text(TASK.format(name=name, file=passages) + rest)
    tracker = EvaluationTracker(output_path=str(folder / "out"))
    report = simple_evaluate(
        model="dummy", tasks=list(TASKS), bootstrap_iters=0, evaluation_tracker=tracker,
        task_manager=TaskManager(include_path=str(folder), include_defaults=False),
    )  # fmt: skip
    samples = report.pop("samples")
    tracker.save_results_aggregated(results=report, samples=samples)
    for name in TASKS:
        tracker.save_results_samples(task_name=name, samples=samples[name])
        next((folder / "out").rglob(f"samples_{name}_*.jsonl")).rename(folder / f"samples_{name}.jsonl")


if __name__ == "__main__":
    for variable in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"):
        os.environ[variable] = "1"
    os.environ["HF_HOME"] = str(Path(sys.argv[2], "hub").absolute())
    {"inspect": inspect, "lighteval": lighteval, "lm_eval": lm_eval}[sys.argv[1]](
        Path(sys.argv[2]).absolute()
    )
