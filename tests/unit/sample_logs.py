"""Sample logs as lm-evaluation-harness writes them, in the layouts of its versions."""

import json

NAME = "samples_lambada_openai_2025-06-01T12-30-00.123456.jsonl"
RESULTS = "results_2025-06-01T12-30-00.123456.json"


def responses(texts, first=-1.5):
    """Make up a log-likelihood and whether the answer was the greedy one for each text."""
    return [(first - number / 7, number % 3 == 0) for number in range(len(texts))]


def record(number, text, said, layout="0.4.13", context=None):
    """Make the record of one passage."""
    before, _, last = text.rpartition(" ")
    context, target = before if context is None else context, " " + last
    log_prob, greedy = said
    if layout == "0.3":
        return {
            "doc_id": number, "prompt_0": context + target, "logit_0": log_prob, "logit_1": greedy,
            "truth": target, "ppl": str(log_prob), "acc": str(int(greedy)),
        }  # fmt: skip
    told = {"doc_id": number, "doc": {"text": text, "domain": None}, "target": target}
    if layout == "0.4.0":
        told |= {"arguments": [[context, target]], "resps": [[[log_prob, greedy]]]}
        told |= {"filtered_resps": [[log_prob, greedy]]}
    else:
        told |= {"arguments": {"gen_args_0": {"arg_0": context, "arg_1": target}}}
        told |= {"resps": [[[str(log_prob), str(greedy)]]], "filtered_resps": [[str(log_prob), str(greedy)]]}
        told |= {"filter": "none", "metrics": ["perplexity", "acc"], "doc_hash": "0" * 64}
    return told | {"perplexity": log_prob, "acc": int(greedy)}


def log(texts, layout="0.4.13", suffix=""):
    """Return the text of a whole file."""
    said = responses(texts)
    records = [
        record(n, text, one, layout, None if not suffix else text.rpartition(" ")[0] + suffix)
        for n, (text, one) in enumerate(zip(texts, said, strict=True))
    ]
    if layout in {"0.3", "0.4.0"}:
        return json.dumps(records, indent=4, ensure_ascii=False)
    return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in records)


def results(task="lambada_openai", n=222, shots=0, **more):
    """Return the text of the results beside it."""
    told = {
        "results": {task: {"alias": task, "acc,none": 0.3, "perplexity,none": 40.0}},
        "config": {"model": "hf", "model_args": "pretrained=org/tiny,dtype=float32", "fewshot_seed": 1234},
        "n-shot": {task: shots},
        "n-samples": {task: {"original": n, "effective": n}},
        "model_name": "org/tiny",
        "lm_eval_version": "0.4.13",
    }
    return json.dumps(told | more)
