"""The command ``workbench``: start JupyterLab, fetch data, train and evaluate models, run the notebooks."""

# ruff: noqa: PLC0415 - a command loads only what it needs

from __future__ import annotations

import argparse
import ast
import inspect
import os
import re
import signal
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from workbench.storage.errors import DataError, check_option, reason
from workbench.storage.packages import DISTRIBUTION
from workbench.storage.progress import say

_FLAGS = ("vocabulary", "tokens", "epochs", "minutes", "seed", "device")  # of `train`, as `fit` names them
_WITH_SETTINGS = (["train"], ["evaluate"])
_SETTING = re.compile(r"[a-z]\w*=", re.IGNORECASE)
_WORDS = {"true": True, "false": False, "none": None, "null": None}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    words = sys.argv[1:] if argv is None else list(argv)
    settings = [word for word in words if _SETTING.match(word)] if words[:1] in _WITH_SETTINGS else []
    arguments = _parser().parse_args([word for word in words if word not in settings])
    arguments.settings = settings  # they may stand anywhere, which argparse cannot read
    try:
        arguments.act(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # as of `workbench list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes again when it ends
        return 128 + signal.SIGPIPE
    except (DataError, OSError) as error:
        say(f"workbench: {error if isinstance(error, DataError) else reason(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        say("workbench: stopped", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="workbench", description="A workbench for word prediction that needs broad discourse context."
    )
    parser.add_argument("--version", action="version", version=f"workbench {version(DISTRIBUTION)}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    starting = commands.add_parser("lab", help="start JupyterLab on the tour")
    starting.add_argument(
        "folder", nargs="?", type=Path, help="where the notebooks are copied to (workbench-notebooks)"
    )
    starting.add_argument("--port", type=int, default=8888, help="port to listen on (8888; 0: any)")
    starting.add_argument("--ip", default="localhost", help="address to listen on (this machine only)")
    starting.add_argument("--no-browser", action="store_true", help="only print the address")
    starting.set_defaults(act=_lab)

    building = commands.add_parser("setup", help="build KenLM's programs, which estimate n-gram models")
    building.set_defaults(act=_setup)

    reporting = commands.add_parser(
        "versions", help="print what a report of an error needs: versions, folders"
    )
    reporting.set_defaults(act=_versions)

    listing = commands.add_parser("list", help="the data sets and where they are found")
    listing.set_defaults(act=_list)

    fetching = commands.add_parser("fetch", help="download a data set into raw/ of the data folder")
    fetching.add_argument("dataset", nargs="+", help="lambada, lambada-openai, cbt, ...")
    fetching.add_argument("--dry-run", action="store_true", help="only show what would be done")
    fetching.add_argument("--folder", type=Path, help="where to put it")
    fetching.set_defaults(act=_fetch)

    _add_models(commands)

    running = commands.add_parser("reproduce", help="run the notebooks on the data at hand")
    running.add_argument("only", nargs="*", help="beginnings of names (all)")
    running.add_argument("--notebooks", type=Path, help="their folder (those of the workbench)")
    running.add_argument("--out", type=Path, help="where the pages go (runs/reproduce in the data folder)")
    running.add_argument("--data", help="the notebooks' DATA: auto, sample, ...")
    running.add_argument("--scale", choices=["smoke", "cpu", "gpu"], help="the notebooks' SCALE")
    running.set_defaults(act=_reproduce)
    return parser


def _add_models(commands: Any) -> None:
    """Add the commands that train and evaluate models."""
    training = commands.add_parser(
        "train",
        help="train a model; the same command resumes a training that was stopped",
        usage="workbench train MODEL --out FOLDER [--texts PATH ...] [NAME=VALUE ...] ...",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=(
            "NAME=VALUE is a setting of the model, such as width=512 or order=4, anywhere on the line.\n"
            "On several GPUs: torchrun --nproc-per-node 4 --no-python workbench train ..."
        ),
    )
    training.add_argument("model", metavar="MODEL", help="its registered name, such as lstm or ngram")
    training.add_argument("--texts", type=Path, nargs="+", help="files, folders or archives of novels")
    training.add_argument("--vocabulary", type=int, help="number of words, the most frequent ones (60000)")
    training.add_argument("--out", type=Path, required=True, help="folder to write to")
    training.add_argument("--tokens", type=float, help="train on this number of words,")
    training.add_argument("--epochs", type=_number, help="or on all texts this number of times,")
    training.add_argument("--minutes", type=float, help="or for this number of minutes, all included")
    training.add_argument("--seed", type=int, help="of weights and batches (0)")
    training.add_argument("--dataset", help="items to measure on, or to train on: lambada, cbt, mine.csv ...")
    training.set_defaults(act=_train)

    scoring = commands.add_parser(
        "evaluate",
        help="predict a data set with models, keep the runs and show the results",
        usage="workbench evaluate MODEL ... --dataset NAME [NAME=VALUE ...] ...",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=(
            "NAME=VALUE is a setting of the models that are given by name, anywhere on the line:\n"
            "workbench evaluate causal-lm path_or_name=gpt2 --dataset lambada"
        ),
    )
    scoring.add_argument(
        "model", metavar="MODEL", nargs="+", help="folder of a trained model, or registered name of one"
    )
    scoring.add_argument("--dataset", required=True, help="the items: lambada, cbt, mine.csv ...")
    scoring.set_defaults(act=_evaluate)
    for each in (training, scoring):
        each.add_argument("--split", help="split of the data set (its usual one)")
        each.add_argument("--variant", help="variant of the data set")
        each.add_argument("--path", type=Path, help="where the data set is")
        each.add_argument("--device", help="cpu, cuda, cuda:1 (a GPU where there is one)")


def _number(text: str) -> float:
    """Parse a number, as an integer where possible."""
    value = float(text)
    return int(value) if value.is_integer() else value


def _lab(arguments: argparse.Namespace) -> None:
    from workbench.lab import start_lab

    start_lab(arguments.folder, port=arguments.port, ip=arguments.ip, browser=not arguments.no_browser)


def _setup(_arguments: argparse.Namespace) -> None:
    from workbench.models.ngram.kenlm import build_programs

    for program in build_programs():
        say(program)


def _versions(_arguments: argparse.Namespace) -> None:
    from workbench.environment_report import environment_report

    for heading, entries in environment_report().items():
        say(heading)
        for name, value in entries.items():
            say(f"  {name}: {value}")


def _list(_arguments: argparse.Namespace) -> None:
    from workbench.datasets import available

    say(available().to_string(index=False))


def _fetch(arguments: argparse.Namespace) -> None:
    from workbench.datasets.fetch import fetch

    for dataset in arguments.dataset:
        say(fetch(dataset, dry_run=arguments.dry_run, folder=arguments.folder))


def _items(arguments: argparse.Namespace) -> Any:
    """Return the items of the data set, or None without one."""
    from workbench.datasets import load

    if arguments.dataset is None:
        return None
    return load(arguments.dataset, arguments.split, variant=arguments.variant, path=arguments.path)


def _train(arguments: argparse.Namespace) -> None:
    from workbench.models import registry
    from workbench.models.base import FILE

    family: Any = registry.model_class(arguments.model)
    settings = _settings(arguments, family)
    for name in _FLAGS:
        if (value := getattr(arguments, name)) is not None:
            settings[name] = value
    unknown = sorted(set(settings) - _setting_names(family))
    if unknown and not hasattr(family, "fit_defaults"):  # a network checks its settings itself
        raise DataError(
            f"{arguments.model} has no setting {unknown[0]!r}",
            hint=f"its settings are {', '.join(sorted(_setting_names(family)))}",
        )
    model = _fit(arguments, family, settings)
    info: dict[str, Any] = getattr(model, "info", {})
    if info.get("stopped") == "interrupted":
        raise DataError(f"interrupted; its state is in {arguments.out}", hint="the same command resumes it")
    if not (arguments.out / FILE).is_file():
        model.save(arguments.out)
    say(f"{model.name}: {info.get('stopped', 'finished')}, in {arguments.out}")


def _fit(arguments: argparse.Namespace, family: Any, settings: dict[str, Any]) -> Any:
    """Return a model fitted on the data of the command."""
    if family.fitted_on not in {"items", "texts"}:
        return _build(family, settings)
    items, texts = _items(arguments), arguments.texts
    on_items = family.fitted_on == "items"
    if (items if on_items else texts) is None:
        option = "--dataset" if on_items else "--texts"
        raise DataError(
            f"{arguments.model} is trained on {family.fitted_on}", hint=f"name them with {option}"
        )
    if on_items:
        return family.fit(items, **settings)
    parameters = inspect.signature(family.fit).parameters
    extra = {"folder": arguments.out, "development": items}
    return family.fit(texts, **settings, **{name: extra[name] for name in extra if name in parameters})


def _settings(arguments: argparse.Namespace, family: Any) -> dict[str, Any]:
    """Return the settings NAME=VALUE of a command; a setting that is a model is loaded."""
    from workbench.models.base import Predictor

    settings: dict[str, Any] = {}
    for text in arguments.settings:
        name, _, value = text.partition("=")
        settings[name] = _value(value)
    if family.fitted_on == "a model":
        below = next(iter(inspect.signature(family).parameters))
        if below not in settings:
            return settings
        several = settings[below] if isinstance(settings[below], list) else [settings[below]]
        loaded = [Predictor.load(str(folder)) for folder in several]
        settings[below] = loaded if isinstance(settings[below], list) else loaded[0]
    return settings


def _setting_names(family: Any) -> set[str]:
    """Return the names of the settings of a model: of its constructor, of `fit` and of its training."""
    functions = [family, family.fit] if hasattr(family, "fit") and family.fitted_on != "a model" else [family]
    parameters = [each for function in functions for each in inspect.signature(function).parameters.values()]
    names = {each.name for each in parameters if each.kind is not each.VAR_KEYWORD} - {"texts"}
    return names | set(family.option_names())


def _build(family: Any, settings: dict[str, Any]) -> Any:
    """Return a model that needs no training."""
    try:
        inspect.signature(family).bind(**settings)
    except TypeError as error:
        hint = f"its settings are {', '.join(sorted(_setting_names(family)))}"
        raise DataError(f"{family.__name__}: {error}", hint=hint) from None
    return family(**settings)


def _value(text: str) -> Any:
    """Parse a value as Python; anything else is text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return _WORDS.get(text.lower(), text)


def _evaluate(arguments: argparse.Namespace) -> None:
    from workbench.evaluation.metrics import evaluate
    from workbench.models import registry
    from workbench.models.base import Predictor
    from workbench.predictions.store import predict

    items = _items(arguments)
    named = [name for name in arguments.model if not Path(name).is_dir() and name in registry.model_names()]
    accepted = set().union(*(_setting_names(registry.model_class(name)) for name in named))
    for text in arguments.settings:
        check_option("the setting", text.partition("=")[0], sorted(accepted))
    runs = []
    for name in arguments.model:
        if name in named:
            family = registry.model_class(name)
            settings = {"device": arguments.device} if arguments.device else {}
            settings |= _settings(arguments, family)
            model = _build(family, {key: settings[key] for key in settings if key in _setting_names(family)})
        else:
            model = Predictor.load(name)
            if arguments.device and isinstance(getattr(type(model), "device", None), property):
                model.device = arguments.device  # a network moves when it is first used
        runs.append(predict(items, model))
    say(evaluate(runs))
    for run in runs:
        say(f"kept as {run.run}")


def _reproduce(arguments: argparse.Namespace) -> None:
    from workbench.reproduce import reproduce
    from workbench.storage.paths import resource

    parameters = {"DATA": arguments.data, "SCALE": arguments.scale}
    settings = {name: value for name, value in parameters.items() if value is not None}
    reproduce(
        arguments.notebooks or resource("notebooks"),
        out=arguments.out,
        only=arguments.only,
        settings=settings,
    )
