"""The signature of a run's measures, and the code that repeats them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from workbench.datasets import dataset_names
from workbench.evaluation.bootstrap import BootstrapSettings
from workbench.evaluation.metrics import evaluate
from workbench.evaluation.model_predictions import run_of
from workbench.items.ablation import split_variant
from workbench.models.pretrained.prompts import Prompt
from workbench.predictions.store import Run
from workbench.storage.errors import DataError

_CAUSAL = "workbench.models.pretrained.causal:CausalLM"
_USUAL = {"text": "as-is", "correct": "greedy", "candidates": "sentence", "budget": 100}
_PROMPT = ("template", "answer_template", "separator", "beginning", "space")


@dataclass(frozen=True)
class RunSignature:
    """The signature of a number, and the code that repeats it.

    Attributes
    ----------
    signature : str
        Column ``signature`` of :func:`workbench.evaluate`.
    code : str
        Python code that leaves the measures in the variable ``table``.
    predicts : bool
        Whether the code asks the model anew; else it measures the stored predictions again.
    reason : str
        Why the model is not asked anew.
    """

    signature: str
    code: str = field(repr=False)
    predicts: bool
    reason: str = ""

    def __str__(self) -> str:
        """Return the signature and the code, for a terminal."""
        why = f"# The stored predictions are measured again: {self.reason}.\n" if self.reason else ""
        return f"{self.signature}\n\n{why}{self.code}"

    __repr__ = __str__


def signature(run: Run | str, *, level: float = 0.95, resamples: int = 2000, seed: int = 0) -> RunSignature:
    """Return the signature of a stored run's measures, and the code that repeats them.

    Two numbers are comparable where their signatures agree in all but the model. The code loads the items and
    a pretrained model, predicts, and measures. Where something is not stored with the run, such as the texts
    that a model was fitted on, it measures the stored predictions.

    Parameters
    ----------
    run : Run or str
        A stored run, or its name.
    level, resamples, seed : float, int, int
        Confidence level of the intervals, and number and seed of the bootstrap replicates.

    Returns
    -------
    RunSignature
        Printed, it is the signature and the code.

    Raises
    ------
    DataError
        If there is no such run.

    Examples
    --------
    >>> print(wb.signature(runs[1]).signature.partition("|")[0])
    sample/test/plain
    """
    stored = run_of(run) if isinstance(run, str) else run
    if not isinstance(stored, Run):
        problem = f"the run is a {type(run).__name__}, expected a stored run or its name"
        raise DataError(problem, remedy="store predictions with wb.keep(items, predictions)")
    sampling = BootstrapSettings(level, resamples, seed).checked()
    options = ", ".join(f"{name}={value!r}" for name, value in sampling._asdict().items())
    texts = evaluate(stored, **sampling._asdict())["signature"].dropna().tolist()
    reason, lines = _prediction(stored)
    measured = repr(stored.run) if reason else "predictions"
    code = "\n".join(["import workbench as wb", *lines, f"table = wb.evaluate({measured}, {options})"])
    return RunSignature("\n".join(texts), code, not reason, reason)


def _prediction(run: Run) -> tuple[str, list[str]]:
    """Return why a run's model cannot be asked anew, or the lines of code that do it."""
    info = run.info
    config, training = info.get("config"), info.get("training")
    if info.get("class") != _CAUSAL or not isinstance(config, Mapping) or not isinstance(training, Mapping):
        return "the model is not a pretrained one that a name loads", []
    if "path_or_name" not in training:
        return "the name of the model's files is not stored with it", []
    names = [str(info[name]) for name in ("dataset", "split", "variant")]
    if names[0] not in dataset_names() or any("+" in name for name in names) or split_variant(names[2])[1]:
        return "its items are not one variant of a data set that a name loads", []
    if config.get("vocabulary") is not None:
        return "the words of the vocabulary are not stored with it", []
    prompt = config.get("prompt") or {}
    if prompt.get("shots"):
        return "the examples of the prompt are not stored with it", []
    options = {name: config[name] for name, usual in _USUAL.items() if config.get(name, usual) != usual}
    options |= {"revision": training["revision"]} if training.get("revision") else {}
    arguments = [repr(training["path_or_name"]), *(f"{name}={value!r}" for name, value in options.items())]
    arguments += [f"dtype={config['dtype']!r}"]
    usual = Prompt().config
    changes = {name: value for name, value in prompt.items() if name in _PROMPT and value != usual.get(name)}
    lines = ["from workbench.models import CausalLM"]
    if prompt:
        lines.append("from workbench.models.pretrained.prompts import Prompt")
        changed = ", ".join(f"{name}={value!r}" for name, value in changes.items())
        arguments.append(f"prompt=Prompt({changed})")
    lines += [
        "from workbench.predictions.store import find_run",
        "",
        f"asked = find_run({run.run!r}).predictions['item_id']",
        f"items = wb.load({names[0]!r}, {names[1]!r}, variant={names[2]!r})",
        "items = items.where(items.frame['item_id'].isin(asked).to_numpy())",
        f"model = CausalLM({', '.join(arguments)})",
        f"predictions = model.predict(items, {info['top_k']}, seed={info['seed']})",
    ]
    return "", lines
