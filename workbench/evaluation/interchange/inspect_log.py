"""Logs of Inspect (UK AI Security Institute, https://inspect.aisi.org.uk): JSON, and the zip ``.eval``.

`records` unpacks both within the bounds for all files, whether or not Inspect is installed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench.evaluation.interchange import lm_eval
from workbench.evaluation.interchange.lm_eval import Log, Program, Sample, listed, mapping
from workbench.predictions.schema import same_word

_RIGHT = {"C": True, "I": False, "P": False, "N": False}
_TEXTS = ("text", "passage", "item_id", "sentence", "context", "question")
_LETTERS = 26


def _is_sample(fields: Mapping[str, Any]) -> bool:
    """Return whether a record is a sample of an Inspect log, as read by `records`."""
    return isinstance(fields.get("eval"), Mapping) and "input" in fields and "target" in fields


def _scores(fields: Mapping[str, Any]) -> dict[str, Any]:
    scores = fields.get("scores")
    if isinstance(scores, Mapping):
        return {str(name): score for name, score in scores.items()}
    score = fields.get("score")  # of early versions
    return {"score": score} if score is not None else {}


def _sample(
    line: int, fields: Mapping[str, Any], text: str | None = None, scorer: str | None = None
) -> Sample:
    """Read one sample; `text` is the field of its metadata that holds the passage.

    Raise ValueError if the sample failed, or has no input or answer.
    """
    if isinstance(error := fields.get("error"), Mapping) and not fields.get("scores"):
        raise ValueError(f"the sample failed: {error.get('message')!s:.80}")
    metadata = mapping(fields.get("metadata"))
    question = _text_of(fields.get("input"), fields)
    targets = [str(t).strip() for t in listed(fields.get("target")) if isinstance(t, (str, int, float))]
    choices = tuple(str(c).strip() for c in listed(fields.get("choices")))
    if text is not None and not isinstance(metadata.get(text), str):
        raise ValueError(f"its metadata has no text {text!r}")
    score = _scores(fields).get(scorer or "")
    score = score if isinstance(score, Mapping) else {"value": score}
    answer = score.get("answer")
    answer = answer if isinstance(answer, str) else _completion(fields)
    if choices:
        answer, targets = _choice(answer, choices), [_choice(target, choices) or "" for target in targets]
    right = _right(score.get("value"))
    if answer is None and right is None and not choices:
        raise ValueError("there is no answer")
    if right is None:
        right = any(same_word(answer, target) for target in targets)
    target = next(iter(targets), "")
    identity = fields.get("id")
    forms = [metadata.get(name) for name in ((text,) if text else _TEXTS)] + [
        question and f"{question} {target}"
    ]
    texts = [form for form in (*forms, question, identity) if isinstance(form, str) and form.strip()]
    if not texts:
        raise ValueError("its input has no text")
    first = question if text is None and question else texts[0]
    return Sample(
        line, first, target, math.nan, right, f"chat: {lm_eval.PASSAGE}", answer, choices, texts=tuple(texts)
    )


def _text_of(content: Any, fields: Mapping[str, Any]) -> str | None:
    """Return the text of an input: itself, or that of the last message of the user."""
    if isinstance(content, list):
        messages = [m for m in content if isinstance(m, Mapping)]
        users = [m for m in messages if m.get("role") == "user"]
        if users:
            return _text_of(users[-1].get("content"), fields)
        return "\n".join(str(m["text"]) for m in messages if isinstance(m.get("text"), str)) or None
    if not isinstance(content, str):
        return None
    name = content.removeprefix("attachment://")
    if name != content:  # a long text is kept aside
        content = mapping(fields.get("attachments")).get(name, content)
    return content if isinstance(content, str) else None


def _completion(fields: Mapping[str, Any]) -> str | None:
    """Return the model's text: the completion, or the content of the output's first choice."""
    output = mapping(fields.get("output"))
    if isinstance(output.get("completion"), str):
        return _text_of(output["completion"], fields)
    for each in listed(output.get("choices")):
        content = mapping(mapping(each).get("message")).get("content")
        return _text_of([{"role": "user", "content": content}], fields)
    return None


def _choice(answer: str | None, choices: Sequence[str]) -> str | None:
    """Return the choice that a letter (or the choice itself) names; None for several, or none."""
    answer = (answer or "").strip()
    if answer in choices:
        return answer
    number = ord(answer.upper()) - ord("A") if len(answer) == 1 and answer.isascii() else -1
    return choices[number] if 0 <= number < min(len(choices), _LETTERS) else None


def _right(value: Any) -> bool | None:
    """Return whether a score is full: C, true or 1; None where the sample has no score."""
    if isinstance(value, str):
        return _RIGHT.get(value, value.strip().casefold() in {"1", "1.0", "true", "yes", "correct"})
    if isinstance(value, (bool, int, float)) and not (isinstance(value, float) and math.isnan(value)):
        return value >= 1
    return None


def _log_of(_path: Path, fields: Mapping[str, Any]) -> Log:
    """Return the log's description of its run."""
    evaluation = fields["eval"]
    task, packages = evaluation.get("task"), evaluation.get("packages")
    task = task.rpartition("/")[2] if isinstance(task, str) else None
    info = {"inspect_ai": mapping(packages).get("inspect_ai")}
    info |= {name: evaluation.get(name) for name in ("created", "solver")}
    messages = fields.get("messages")
    system = [m for m in listed(messages) if isinstance(m, Mapping) and m.get("role") == "system"]
    if system:
        info["system_instruction"] = _text_of([{**system[0], "role": "user"}], fields)
    info = {name: value for name, value in info.items() if isinstance(value, str)}
    model = evaluation.get("model")
    model = model if isinstance(model, str) else None
    return Log(task, lm_eval.variant_of(task), model or None, None, info, None, "unknown")


INSPECT = Program("Inspect", _is_sample, lambda fields: list(_scores(fields)), _sample, _log_of)
"""How logs of Inspect are read."""
