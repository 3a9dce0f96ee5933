"""Details of lighteval (https://github.com/huggingface/lighteval): the Parquet of ``--save-details``.

Read are the three columns of version 0.10 and later: a document, a response, metrics.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from workbench.evaluation.interchange import lm_eval
from workbench.evaluation.interchange.lm_eval import Log, Program, Sample, listed, mapping, variant_of
from workbench.evaluation.interchange.records import truth_of
from workbench.predictions.schema import same_word
from workbench.storage.errors import DataError
from workbench.storage.files import read_json

_NAME = re.compile(r"details_(?P<task>.+?)_(?P<time>\d{4}-\d\d-\d\dT.+)\.parquet")


def _is_sample(fields: Mapping[str, Any]) -> bool:
    """Return whether a record looks like one of lighteval's details."""
    return all(isinstance(_field(fields, name), Mapping) for name in ("doc", "model_response"))


def _field(fields: Mapping[str, Any], name: str) -> Any:
    return fields.get(f"__{name}__", fields.get(name))


def _filters(fields: Mapping[str, Any]) -> list[str]:
    """Return the names of the metrics of a record that are one number."""
    metrics = _metrics(fields)
    return [str(name) for name, value in metrics.items() if isinstance(value, (bool, int, float))]


def _metrics(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(_field(fields, "metric"))


def _sample(
    line: int, fields: Mapping[str, Any], text: str | None = None, metric: str | None = None
) -> Sample:
    """Read one record; `text` is the field of the document's ``specific`` that holds the passage.

    Raise ValueError if it has no query, or no response to one.
    """
    doc, response = _field(fields, "doc"), _field(fields, "model_response")
    if [str(method).rpartition(".")[2] for method in listed(doc.get("sampling_methods"))] == ["PERPLEXITY"]:
        raise lm_eval.whole_passages()
    query = doc.get("query") if text is None else mapping(doc.get("specific")).get(text)
    if not isinstance(query, str) or not query.strip():
        raise ValueError(f"its document has no {'query' if text is None else f'text {text!r}'}")
    choices = [choice.strip() for choice in listed(doc.get("choices")) if isinstance(choice, str)]
    gold = next(iter(listed(doc.get("gold_index"))), 0)
    gold = gold if isinstance(gold, int) else 0
    target = choices[gold] if 0 <= gold < len(choices) else ""
    forms = (f"{query.rstrip()} {target}", query)
    template = None
    if isinstance(prompt := response.get("input"), str):
        template = lm_eval.prompt_template(prompt, f"{query.rstrip()} {target or '_'}")
    scores = lm_eval.choice_scores(listed(response.get("logprobs")))
    if len(scores) == 1:
        greedy = truth_of(next(iter(listed(response.get("argmax_logits_eq_gold"))), None))
        if greedy is None:
            raise ValueError("the response does not say whether the answer was the greedy one")
        return Sample(line, forms[0], target, scores[0], greedy, template, texts=forms)
    if scores and (len(scores) != len(choices) or not target):
        raise ValueError(f"expected {len(choices)} log-likelihoods, one per choice, got {len(scores)}")
    texts = listed(response.get("text_post_processed") or response.get("text"))
    answer = choices[scores.index(max(scores))] if scores else next(filter(lm_eval.is_text, texts), None)
    if answer is None:
        raise ValueError("there is no response")
    right = lm_eval.verdict(_metrics(fields), [metric] if metric else [])
    right = same_word(answer, target) if right is None else right
    log_prob, names = (scores[gold], tuple(choices)) if scores else (math.nan, ())
    return Sample(line, forms[0], target, log_prob, right, template, answer, names, tuple(scores), forms)


def _log_of(path: Path, fields: Mapping[str, Any]) -> Log:
    """Return the log of a file of details, whose path is ``details/MODEL/TIME``."""
    match = _NAME.fullmatch(path.name)
    doc = _field(fields, "doc")
    task = match["task"] if match else mapping(doc).get("task_name")
    folders = path.absolute().parent.parts
    model = None
    if match and "details" in folders:
        model = "/".join(folders[len(folders) - folders[::-1].index("details") : -1]) or None
    results = sorted(path.parent.glob(f"results_{match['time']}.json")) if match else []
    if model is None and results:
        with suppress(DataError, AttributeError, KeyError, TypeError):
            name = read_json(results[0])["config_general"].get("model_name")
            model = name if isinstance(name, str) else None
    name = task if isinstance(task, str) else None
    _, _, shots = (name or "").rpartition("|")
    plain = re.sub(r"[^a-z]+", "_", (name or "").rpartition("lambada")[2].lower()).strip("_")
    variant = variant_of(f"lambada_{plain}") if "lambada" in (name or "") else None
    n_shots = int(shots) if shots.isascii() and shots.isdigit() else None
    return Log(name, variant, model, n_shots, {}, None, "unknown")


LIGHTEVAL = Program("lighteval", _is_sample, _filters, _sample, _log_of)
"""How logs of lighteval are read."""
