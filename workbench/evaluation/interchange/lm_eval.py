"""Read sample logs of lm-evaluation-harness: its samples and its description of the run.

Gao et al. (2021), "A framework for few-shot language model evaluation", https://github.com/EleutherAI/lm-evaluation-harness.
Read are the ``samples_*.jsonl`` that ``--log_samples`` writes since version 0.4.3 (0.5 included), and the
JSON lists of 0.4.0 to 0.4.2. A request is the log-likelihood of the last word, those of several choices, or a
text that is generated. Log-likelihoods of whole passages are refused: their perplexity is not that of the
target.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from workbench.evaluation.interchange.records import normalised_text, number_of, truth_of
from workbench.items.language import ENGLISH, in_language, language_code
from workbench.predictions.schema import same_word
from workbench.storage.errors import DataError
from workbench.storage.files import read_json
from workbench.storage.tables import parsed_json

_NAMES = (
    re.compile(r"samples_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT[\d.:-]+)"),
    re.compile(r"samples_(?P<task>.+)"),
    re.compile(r"(?:.*[^a-z])?(?P<task>lambada\w*)"),
)
_TRANSLATED = re.compile(r"lambada_(?:openai_)?(?:mt_)?(?P<later>stablelm_)?(?P<code>[a-z]{2})(?:_.*)?")
_VARIANTS = (("lambada_openai", "openai"), ("lambada_standard", "plain"))
_SOURCES = ("pretrained", "peft", "delta", "model", "path", "engine")
_CONFIG = ("model", "model_args", "model_dtype", "model_sha", "batch_size", "limit", "fewshot_seed")
_DELEGATES = (0, 4, 9, 2)
"""Version since which the harness leaves the mark of the beginning (BOS) to the tokenizer, in these backends
(EleutherAI/lm-evaluation-harness, pull request 3347); before, and in others, ``add_bos_token`` is false."""
_DELEGATING = ("hf", "hf-auto", "huggingface", "vllm")
_ROLLING = {"word_perplexity", "byte_perplexity", "bits_per_byte"}  # metrics of whole passages
_TEXTS = ("passage", "question", "query", "sentence", "context")
_VERDICTS = ("acc", "exact_match", "em", "acc_norm")
_SLACK = 1e-3  # above 0 by the rounding of half precision


class Sample(NamedTuple):
    """One record of a program's log."""

    line: int
    text: str  # the passage: whole, or with a blank or nothing for the answer
    target: str  # the harness's answer: all behind the last space; empty where the record has none
    log_prob: float  # ln p of the target's sub-tokens, whatever comes after; NaN where text was generated
    greedy: bool  # whether each of these was the most probable one; else, whether the program counts it right
    template: str | None  # form of the prompt, such as "{shots}{passage} ____. ->"
    answer: str | None = None  # the text that was generated, or the choice that was taken
    choices: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()  # one per choice, of those of `choices` that were scored
    texts: tuple[str, ...] = ()  # other forms of the text, by which the item may be found


class Log(NamedTuple):
    """The run of a whole file, by the name of the file and the ``results_*.json`` beside it."""

    task: str | None
    variant: str | None
    model: str | None
    shots: int | None
    info: dict[str, Any]
    n: int | None  # passages
    bos: str  # what texts begin with, one of `workbench.predictions.schema.BOS`

    def prompt(self, templates: set[str | None]) -> str | None:
        """Return the value of the column ``prompt``: null where every passage was shown alone."""
        used = templates - {None}
        if used <= {PASSAGE} and not self.shots and not self.info.get("system_instruction"):
            return None
        unknown = self.shots is None and any("{shots}" in str(template) for template in used)
        prompt: dict[str, Any] = {"task": self.task, "template": max(map(str, used), default=None)}
        prompt["shots"] = None if unknown else self.shots or 0
        if self.shots:
            prompt["seed"] = self.info.get("fewshot_seed")
        if system := self.info.get("system_instruction"):
            prompt["system"] = system
        return json.dumps(prompt, ensure_ascii=False, sort_keys=True)


class Program(NamedTuple):
    """How the logs of a program are read: its name, and functions of records.

    They recognise a record, name its filters, read it, and describe the run of a file.
    """

    name: str
    is_sample: Callable[[Mapping[str, Any]], bool]
    filters: Callable[[Mapping[str, Any]], list[str]]
    sample: Callable[[int, Mapping[str, Any], str | None, str | None], Sample]
    log_of: Callable[[Path, Mapping[str, Any]], Log]


PASSAGE = "{passage}"


def is_sample(fields: Mapping[str, Any]) -> bool:
    """Return whether a record looks like a sample of the harness."""
    return "doc" in fields and bool({"resps", "filtered_resps"} & set(fields))


def filters(fields: Mapping[str, Any]) -> list[str]:
    """Return the filter that a response went through; a log has all records once for each of them."""
    name = fields.get("filter")
    return [name] if isinstance(name, str) else []


def sample(
    line: int, fields: Mapping[str, Any], text: str | None = None, _filter: str | None = None
) -> Sample:
    """Read one record; `text` is the field of ``doc`` that holds the passage, by default ``text``.

    Raise ValueError if it holds no passage, or no response to one.
    """
    requests = _requests(fields.get("arguments"))
    context, target, is_chat = requests[0] if requests else (None, None, False)
    doc = mapping(fields.get("doc"))
    passage = doc.get(text or "text")
    texts: tuple[str, ...] = ()
    metrics = fields.get("metrics")
    names = {*fields, *(filter(is_text, metrics) if isinstance(metrics, list) else ())}
    if names & _ROLLING or (target and not str(context or "").strip()):
        raise whole_passages()
    generated, several = isinstance(target, Mapping), len(requests) > 1
    if (generated or several) and text is None:
        texts = tuple(t for t in (*map(doc.get, _TEXTS), context) if isinstance(t, str) and t.strip())
        passage = passage or next(iter(texts), None)
    if not isinstance(passage, str) or not passage.strip():
        where = f"its doc has no text {text or 'text'!r}"
        raise ValueError(f"{where}: is this a LAMBADA task?" if text is None else where)
    template = None if context is None else f"{'chat: ' * is_chat}{prompt_template(context, passage)}"
    if generated or several:
        read = _generated if generated else _chosen
        response = read(fields, [str(continuation).strip() for _, continuation, _ in requests])
        return Sample(line=line, text=passage, template=template, texts=texts, **response)
    if not isinstance(target, str):  # since 0.5 a record's own target may be the number of a choice
        target = fields.get("target")
    log_prob, greedy = _response(fields)
    if log_prob > _SLACK:
        raise ValueError(f"the log-likelihood {log_prob:g} is above 0")
    target = target if isinstance(target, str) else ""
    return Sample(line, passage, target, min(log_prob, 0.0) if log_prob > 0 else log_prob, greedy, template)


def whole_passages() -> DataError:
    """Return the error of a log that has log-likelihoods of whole passages."""
    return DataError(
        "these are log-likelihoods of whole passages (loglikelihood_rolling), not of their last words",
        hint="evaluate a task that asks for the last word: lambada_openai, lambada_standard",
    )


def is_text(value: Any) -> bool:
    """Return whether a value is text."""
    return isinstance(value, str)


def _values(value: Any) -> list[Any]:
    """Return all requests, or the arguments of a request: a list before 0.4.3, {"arg_0": ...} since."""
    if isinstance(value, Mapping):
        return [value[name] for name in sorted(value, key=lambda name: (len(str(name)), str(name)))]
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else []


def _messages(context: Any) -> list[Mapping[str, Any]]:
    """Return the messages of a chat: a list of them, or their JSON, perhaps in a list; else none."""
    if isinstance(context, list) and len(context) == 1 and is_text(context[0]):
        context = context[0]
    if is_text(context) and context.lstrip().startswith("["):
        context = parsed_json(context)
    is_chat = isinstance(context, list) and all(isinstance(m, Mapping) and "role" in m for m in context)
    return context if is_chat else []


def _text_of(message: Mapping[str, Any]) -> str:
    """Return the text of a message, whose content is text or a list of pieces."""
    pieces = message.get("content")
    pieces = pieces if isinstance(pieces, list) else [pieces]
    return "".join(str(mapping(piece).get("text", "")) if not is_text(piece) else piece for piece in pieces)


def _requests(arguments: Any) -> list[tuple[str, Any, bool]]:
    """Return context and continuation of each request, and whether it is a chat.

    The context of a chat is the text of its messages but those of the system. The continuation is a mapping
    where text is generated.
    """
    requests: list[tuple[str, Any, bool]] = []
    for request in _values(arguments):
        values = _values(request) or [request]
        values = ["", *values] if len(values) == 1 else values[:2]  # of a whole passage
        messages = _messages(values[0])
        texts = [_text_of(message) for message in messages if message["role"] != "system"]
        context = "\n".join(texts) if messages else values[0]
        if not isinstance(context, str) or not isinstance(values[1], (str, Mapping)):
            return []
        requests.append((context, values[1], bool(messages)))
    return requests


def verdict(fields: Mapping[str, Any], names: Sequence[str]) -> bool | None:
    """Return the first metric of `names` that is 0 or 1; None without one."""
    for name in names:
        value = fields.get(name)
        if isinstance(value, (bool, int, float)) and value in {0, 1}:
            return bool(value)
    return None


def _generated(fields: Mapping[str, Any], _: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a `Sample` about the generated text."""
    responses = next(filter(None, (fields.get("filtered_resps"), fields.get("resps"))), None)
    answer = next(leaves(responses or ()), None)
    if not isinstance(answer, str):
        raise ValueError("there is no response")  # noqa: TRY004 - of a record
    targets = list(filter(is_text, leaves(fields.get("target"))))
    metrics = fields.get("metrics")
    names = [*_VERDICTS, *filter(is_text, metrics if isinstance(metrics, list) else ())]
    right = verdict(fields, names)
    if right is None:
        right = any(same_word(answer, target) for target in targets)
    return {"target": next(iter(targets), ""), "log_prob": math.nan, "greedy": right, "answer": answer}


def _chosen(fields: Mapping[str, Any], choices: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a `Sample` that say which of several choices was taken."""
    responses = fields.get("filtered_resps") or fields.get("resps")
    pairs = [list(leaves([each])) for each in responses] if isinstance(responses, list) else []
    if len(pairs) != len(choices) or not all(pairs):
        raise ValueError(f"expected {len(choices)} log-likelihoods, one per choice, got {len(pairs)}")
    scores = choice_scores(values[0] for values in pairs)
    answer = choices[scores.index(max(scores))]
    target = str(fields.get("target", "")).strip()
    number = int(target) if target.isascii() and target.isdigit() and target not in choices else -1
    target = choices[number] if 0 <= number < len(choices) else target
    right = verdict(fields, _VERDICTS)
    return {
        "target": target, "log_prob": scores[choices.index(target)] if target in choices else math.nan,
        "greedy": same_word(answer, target) if right is None else right,
        "answer": answer, "choices": tuple(choices), "scores": tuple(scores),
    }  # fmt: skip


def choice_scores(values: Iterable[Any]) -> list[float]:
    """Return the log-likelihoods of choices; ValueError where one is missing or above 0, but for rounding."""
    scores = list(map(number_of, values))
    if not all(score <= _SLACK for score in scores):
        raise ValueError("a choice has no log-likelihood, or one above 0")
    return [min(score, 0.0) for score in scores]


def prompt_template(context: str, passage: str) -> str:
    """Return the form of a prompt that holds a passage without its last word."""
    beginning = normalised_text(passage.rstrip().rpartition(" ")[0])
    if not beginning or beginning not in normalised_text(context):
        return "{other}"
    before, _, after = normalised_text(context).rpartition(beginning)
    return f"{'{shots}' if before.strip() else ''}{PASSAGE}{' ' + after.strip() if after.strip() else ''}"


def leaves(value: Any) -> Iterator[Any]:
    """Yield the elements of nested lists."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        for element in value:
            yield from leaves(element)
    else:
        yield value


def _response(fields: Mapping[str, Any]) -> tuple[float, bool]:
    """Return log-likelihood and greedy correctness, from the response or else from the metrics."""
    accuracy = fields.get("acc")
    right = None if accuracy is None else truth_of(accuracy)
    values = list(leaves(fields.get("filtered_resps") or fields.get("resps") or ()))
    values = values or [fields.get("perplexity")]
    if not values or values[0] is None or isinstance(values[0], Mapping):
        raise ValueError("there is no response")
    try:
        log_prob = number_of(values[0])
    except ValueError:
        raise ValueError(f"the response {str(values[0])[:40]!r} is not a log-likelihood") from None
    if math.isnan(log_prob):
        raise ValueError("the response has no log-likelihood")
    greedy = truth_of(values[1]) if len(values) > 1 else right
    if greedy is None:
        raise ValueError("the response does not say whether the answer was the greedy one")
    if right is not None and right != greedy:
        raise ValueError(f"acc is {accuracy}, but the response says {greedy}")
    return log_prob, greedy


def log_of(path: Path, _fields: Mapping[str, Any] | None = None) -> Log:
    """Return the description of the run in a file's name and in the results beside it."""
    stem = path.name.removesuffix(path.suffix)
    match = next(filter(None, (pattern.fullmatch(stem) for pattern in _NAMES)), None)
    task = None if match is None else str(match["task"])
    time = (match.groupdict().get("time") if match else None) or ""
    results = _results(path, task, time)
    config = mapping(results.get("config"))
    info = {
        "lm_eval": results.get("lm_eval_version"),
        "transformers": results.get("transformers_version"),
        "system_instruction": results.get("system_instruction"),
    } | {name: config.get(name) for name in _CONFIG}
    info = {name: value for name, value in info.items() if value is not None}
    shots, n = mapping(results.get("n-shot")).get(task), mapping(results.get("n-samples")).get(task)
    numbers = (shots, mapping(n).get("effective"))
    shots, n = (each if type(each) is int and each >= 0 else None for each in numbers)
    return Log(task, variant_of(task), _model(results, config), shots, info, n, _bos(results, config))


def _bos(results: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    """Return the beginning of texts, by the version of the harness and the arguments of the model."""
    token, arguments = results.get("tokenizer_bos_token"), _arguments_of(config)
    if isinstance(token, list) and token and token[0] is None:
        return "none"  # the tokenizer has no such mark
    added = str(arguments.get("add_bos_token"))
    if added in {"True", "False"}:
        return "added" if added == "True" else "omitted"
    if not results:
        return "unknown"
    version = re.match(r"\d+(\.\d+)*", str(results.get("lm_eval_version")))  # old versions do not log it
    delegates = version is not None and tuple(map(int, version[0].split("."))) >= _DELEGATES
    if delegates and str(config.get("model")) in _DELEGATING:
        return "tokenizer"
    return "added" if "gemma" in str(arguments.get("pretrained")).casefold() else "omitted"


def variant_of(task: str | None) -> str | None:
    """Return the form of a task's passages by its name: ``openai``, ``plain``, or None if unknown.

    That of a translation has its language: ``openai-de``, of the later ones ``openai-mt-de``.
    """
    task = task or ""
    if (match := _TRANSLATED.fullmatch(task)) and (code := language_code(match["code"])):
        return in_language("openai-mt" if match["later"] and code != ENGLISH else "openai", code)
    return next((variant for start, variant in _VARIANTS if task.startswith(start)), None)


def _results(path: Path, task: str | None, time: str) -> Mapping[str, Any]:
    """Return the results of the same run, by the time, or the only results in the folder."""
    files = [file for file in path.parent.glob("*.json") if time and file.stem.endswith(time)]
    if not files:
        files = sorted(path.parent.glob("*results*.json"))
        dated = time and files and re.search(r"\d{4}-\d\d-\d\dT", files[0].stem)
        files = [] if len(files) > 1 or dated else files
    for file in files:
        try:
            results = mapping(read_json(file))
        except DataError:
            continue
        if task is None or task in mapping(results.get("results")):
            return results
    return {}


def mapping(value: Any) -> Mapping[Any, Any]:
    """Return a value that is a mapping; an empty one for any other value."""
    return value if isinstance(value, Mapping) else {}


def listed(value: Any) -> list[Any]:
    """Return a value that is a list; any other value, but for None, as a list of one."""
    return value if isinstance(value, list) else [] if value is None else [value]


def _arguments_of(config: Mapping[str, Any]) -> Mapping[Any, Any]:
    """Return the arguments of the model, which are written as a mapping or as ``name=value,name=value``."""
    arguments = config.get("model_args")
    if isinstance(arguments, str):
        pairs = (argument.partition("=") for argument in arguments.split(","))
        arguments = {name.strip(): value.strip() for name, _, value in pairs}
    return mapping(arguments)


def _model(results: Mapping[str, Any], config: Mapping[str, Any]) -> str | None:
    """Return the model's name; the harness makes one up where it was given no arguments."""
    arguments = _arguments_of(config)
    named = [str(v) for name in _SOURCES if (v := arguments.get(name))]
    name = str((named and results.get("model_name")) or (named[0] if named else ""))
    if name.startswith(("/", "./", "../", "~", "\\")) or re.match(r"[A-Za-z]:[\\/]", name):
        name = PurePath(name.replace("\\", "/")).name  # of a local folder
    return name or None


LM_EVAL = Program("lm-evaluation-harness", is_sample, filters, sample, log_of)
"""How logs of lm-evaluation-harness are read."""
