"""Logs of evaluation programs: recorded ones, and made-up ones of lm-evaluation-harness and Inspect."""

import json
import zipfile
from pathlib import Path

import workbench as wb

NAME = "samples_lambada_openai_2025-06-01T12-30-00.123456.jsonl"
RESULTS = "results_2025-06-01T12-30-00.123456.json"
RECORDED = Path(__file__).parents[1] / "evaluation" / "recorded_logs"
ITEMS = wb.load("sample", "dev", variant="openai")[:3]
TEXTS = ITEMS.frame["text"].tolist()
COLONEL, DUMPLINGS, PETRA = ITEMS.frame["answer"]
START = {"version": 2, "eval": {"task": "lambada_openai", "model": "org/m"}}
SAMPLE = {"id": 1, "epoch": 1, "input": TEXTS[0].rpartition(" ")[0], "target": COLONEL, "scores": {}}
SAMPLE |= {"output": {"completion": COLONEL}}


def response_to(number):
    """Make up a log-likelihood and whether the answer was the greedy one."""
    return -1.5 - number / 7, number % 3 == 0


def record(number, text, layout="0.4.13", before="", suffix=""):
    """Make the record of one passage."""
    passage, _, last = text.rpartition(" ")
    context, target = before + passage + suffix, " " + last
    log_prob, greedy = response_to(number)
    fields = {"doc_id": number, "doc": {"text": text, "domain": None}, "target": target}
    if layout == "0.4.0":
        response, arguments = [log_prob, greedy], [[context, target]]
    else:
        response = [str(log_prob), str(greedy)]
        arguments = {"gen_args_0": {"arg_0": context, "arg_1": target}}
        fields |= {"filter": "none", "metrics": ["perplexity", "acc"], "doc_hash": "0" * 64}
    fields |= {"arguments": arguments, "resps": [[response]], "filtered_resps": [response]}
    return fields | {"perplexity": log_prob, "acc": int(greedy)}


def log(texts, layout="0.4.13", **around):
    """Return the text of a whole file."""
    records = [record(number, text, layout, **around) for number, text in enumerate(texts)]
    if layout == "0.4.0":
        return json.dumps(records, indent=4, ensure_ascii=False)
    return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in records)


def results(task="lambada_openai", n=222, shots=0, **changed):
    """Return the text of the results beside it."""
    fields = {
        "results": {task: {"alias": task, "acc,none": 0.3, "perplexity,none": 40.0}},
        "config": {"model": "hf", "model_args": "pretrained=org/tiny,dtype=float32", "fewshot_seed": 1234},
        "n-shot": {task: shots},
        "n-samples": {task: {"original": n, "effective": n}},
        "model_name": "org/tiny",
        "lm_eval_version": "0.4.13",
    }
    return json.dumps(fields | changed)


def archive(path, members, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as packed:
        for name, content in members.items():
            packed.writestr(name, content if isinstance(content, (str, bytes)) else json.dumps(content))
    return path
