"""The command ``workbench``: start JupyterLab, fetch data, train, compare runs, run the notebooks."""

# ruff: noqa: PLC0415 - a command loads only what it needs

from __future__ import annotations

import argparse
import ast
import contextlib
import inspect
import json
import os
import re
import signal
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from workbench.storage.errors import DataError, reason
from workbench.storage.packages import DISTRIBUTION
from workbench.storage.progress import say

_FLAGS = ("vocabulary", "tokens", "epochs", "minutes", "seed", "device")  # of `train`, as `fit` names them
_WITH_SETTINGS = (["train"], ["evaluate"])
_LOGS = (".jsonl", ".json", ".eval", ".parquet", ".csv", ".tsv")  # which no name of a run ends in
_SETTING = re.compile(r"[a-z]\w*=", re.IGNORECASE)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    words = sys.argv[1:] if argv is None else list(argv)
    settings = [word for word in words if _SETTING.match(word)] if words[:1] in _WITH_SETTINGS else []
    arguments = _parser().parse_args([word for word in words if word not in settings])
    arguments.settings = settings  # they may stand anywhere, which argparse cannot read
    try:
        arguments.act(arguments)
        sys.stdout.flush()
    except DataError as error:
        say(f"workbench: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        try:
            sys.stdout.flush()
        except OSError:  # it would fail again when Python ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # as of `workbench list | head`
            return 128 + signal.SIGPIPE
        say(f"workbench: {reason(error)}", file=sys.stderr)
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

    showing = commands.add_parser("show", help="print items of a data set")
    showing.add_argument("dataset")
    showing.add_argument("split", nargs="?")
    showing.add_argument("--variant")
    showing.add_argument("--path", type=Path)
    showing.add_argument("-n", type=int, default=5, help="how many (5)")
    showing.add_argument("--seed", type=int, default=0, help="of the random selection (0)")
    showing.set_defaults(act=_show)

    comparing = commands.add_parser(
        "compare", help="compare stored runs, or logs of other programs, on the items that all predicted"
    )
    comparing.add_argument("run", nargs="+", help="names of runs, their folders, or logs: a.jsonl b.eval")
    comparing.add_argument("--filter", help="which of several filters of the logs is read (the first)")
    comparing.add_argument("--html", type=Path, help="write an HTML page: models, pairs, slices, items")
    comparing.add_argument("--limit", type=int, default=200, help="items on the page (200)")
    comparing.add_argument("--dataset", help="data set of the items; by default as in the runs")
    comparing.add_argument("--split", help="by default as in the runs")
    comparing.add_argument("--variant", help="by default as in the runs")
    comparing.add_argument("--path", type=Path, help="where the items are")
    comparing.add_argument("--annotate", action="store_true", help="slice by all annotations (takes longer)")
    comparing.set_defaults(act=_compare)

    _add_publishing(commands)
    _add_training(commands)

    running = commands.add_parser("reproduce", help="run the notebooks on the data at hand")
    running.add_argument("only", nargs="*", help="beginnings of names (all)")
    running.add_argument("--notebooks", type=Path, help="their folder (those of the workbench)")
    running.add_argument("--out", type=Path, help="where the pages go (runs/reproduce in the data folder)")
    running.add_argument("--data", help="the notebooks' DATA: auto, sample, ...")
    running.add_argument("--scale", choices=["smoke", "cpu", "gpu"], help="the notebooks' SCALE")
    running.set_defaults(act=_reproduce)
    return parser


def _add_publishing(commands: Any) -> None:
    """Add the command that writes a static site."""
    publishing = commands.add_parser(
        "publish", help="write views of items and runs as a static site: browser, comparison, table"
    )
    publishing.add_argument("folder", type=Path, metavar="FOLDER", help="a new folder, or one written before")
    publishing.add_argument("--run", nargs="+", default=[], help="names of stored runs, or their folders")
    publishing.add_argument("--dataset", help="data set of the items; by default as in the runs")
    publishing.add_argument("--split", help="by default as in the runs, else dev")
    publishing.add_argument("--variant", help="by default as in the runs")
    publishing.add_argument("--path", type=Path, help="where the items are")
    publishing.add_argument("--items", type=Path, help="or a Parquet file that Items.to_parquet wrote")
    publishing.add_argument("--annotate", action="store_true", help="annotate the items (takes longer)")
    publishing.add_argument("--title", default="Word prediction", help='title of the site ("%(default)s")')
    publishing.add_argument("--max-items", type=int, default=5000, help="items of a view, at most (5000)")
    publishing.add_argument("--max-megabytes", type=float, default=50, help="data of the site, at most (50)")
    publishing.set_defaults(act=_publish)


def _add_training(commands: Any) -> None:
    """Add the commands of models, and `stream`, which writes training data for another machine."""
    listing = commands.add_parser("models", help="the models and their settings")
    listing.add_argument("model", nargs="?", help="name of one, to see its settings")
    listing.set_defaults(act=_models)

    streaming = commands.add_parser("stream", help="write novels as ids of words, to train on elsewhere")
    training = commands.add_parser(
        "train",
        help="train a model; the same command resumes a training that was stopped",
        usage="workbench train MODEL --out FOLDER [--texts PATH ... | --stream FOLDER] [NAME=VALUE ...] ...",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=(
            "NAME=VALUE is a setting of the model, such as width=512 or order=4, anywhere on the line;\n"
            "`workbench models` lists the models, `workbench models MODEL` the settings of one.\n"
            "On several GPUs: torchrun --nproc-per-node 4 --no-python workbench train ..."
        ),
    )
    training.add_argument("model", metavar="MODEL", help="its registered name, such as lstm or ngram")
    for each in (streaming, training):
        needed = each is streaming
        paths = "files, folders or archives of novels"
        each.add_argument("--texts", type=Path, nargs="+", required=needed, help=paths)
        each.add_argument("--vocabulary", type=int, help="number of words, the most frequent ones (60000)")
        each.add_argument("--out", type=Path, required=True, help="folder to write to")
    streaming.set_defaults(act=_stream)
    training.add_argument("--stream", type=Path, help="a folder that `workbench stream` wrote, for --texts")
    training.add_argument("--tokens", type=float, help="train on this number of words,")
    training.add_argument("--epochs", type=_number, help="or on all texts this number of times,")
    training.add_argument("--minutes", type=float, help="or for this number of minutes, all included")
    training.add_argument("--seed", type=int, help="of weights and batches (0)")
    training.add_argument("--device", help="cpu, cuda, cuda:1 (a GPU where there is one)")
    training.set_defaults(act=_train)

    scoring = commands.add_parser(
        "evaluate",
        help="predict items with models, keep the runs and show the results",
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
    scoring.add_argument("--device", help="cpu, cuda, cuda:1 (a GPU where there is one)")
    scoring.set_defaults(act=_evaluate)
    uses = ((training, "development items to measure on, or items to train on"), (scoring, "the items"))
    for each, description in uses:
        each.add_argument("--dataset", help=f"{description}: lambada, cbt, ...")
        each.add_argument("--split", help="split of the data set (dev)")
        each.add_argument("--variant", help="variant of the data set")
        each.add_argument("--path", type=Path, help="where the data set is")
        each.add_argument("--items", type=Path, help="or a Parquet file that Items.to_parquet wrote")


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
    from workbench.environment_report import show_versions

    show_versions()


def _list(_arguments: argparse.Namespace) -> None:
    from workbench.datasets import available

    say(available().to_string(index=False))


def _fetch(arguments: argparse.Namespace) -> None:
    from workbench.datasets.fetch import fetch

    for dataset in arguments.dataset:
        say(fetch(dataset, dry_run=arguments.dry_run, folder=arguments.folder))


def _show(arguments: argparse.Namespace) -> None:
    from workbench.datasets import load

    items = load(arguments.dataset, arguments.split, variant=arguments.variant, path=arguments.path)
    say(f"{items!r}\n")
    for item in items.sample(arguments.n, seed=arguments.seed):
        say(f"{item.item_id}\n{item.passage}\n= {item.answer}\n")


def _required_items(arguments: argparse.Namespace) -> Any:
    """Return the requested items."""
    if (items := _items(arguments)) is None:
        raise DataError("expected items, got none", remedy="name a --dataset or a file of --items")
    return items


def _items(arguments: argparse.Namespace) -> Any:
    """Return the requested items, or None."""
    from workbench.datasets import load
    from workbench.items.items import Items

    if arguments.items is not None:
        return Items.from_parquet(arguments.items)
    if arguments.dataset is None:
        return None
    return load(arguments.dataset, arguments.split or "dev", variant=arguments.variant, path=arguments.path)


def _stream(arguments: argparse.Namespace) -> None:
    from workbench.texts.batches import EncodedText
    from workbench.texts.corpus import Corpus

    ids = EncodedText.of(Corpus.of(arguments.texts), arguments.vocabulary or 60_000)
    say(ids.copy(arguments.out))


def _models(arguments: argparse.Namespace) -> None:
    from workbench.models import registry

    if arguments.model is None:
        for name, _, fitted_on, description in registry.models().itertuples(index=False):
            say(f"{name:<18} {description} (fitted on: {fitted_on})")
        return
    family = registry.model_class(arguments.model)
    say(f"{inspect.getdoc(family)}\n\nSettings: {', '.join(sorted(_setting_names(family)))}")


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
            remedy=f"`workbench models {arguments.model}` lists its settings",
        )
    model = _fit(arguments, family, settings)
    info: dict[str, Any] = getattr(model, "info", {})
    if info.get("stopped") == "interrupted":
        raise DataError(f"interrupted; its state is in {arguments.out}", remedy="the same command resumes it")
    if not (arguments.out / FILE).is_file():
        model.save(arguments.out)
    say(f"{model.name}: {info.get('stopped', 'finished')}, in {arguments.out}")


def _fit(arguments: argparse.Namespace, family: Any, settings: dict[str, Any]) -> Any:
    """Return a model fitted on the data of the command."""
    if family.fitted_on not in {"items", "texts"}:
        return _build(family, settings)
    items, texts = _items(arguments), _texts(arguments)
    on_items = family.fitted_on == "items"
    if (items if on_items else texts) is None:
        options = "--dataset or --items" if on_items else "--texts or a --stream"
        raise DataError(f"{arguments.model} is trained on {family.fitted_on}", remedy=f"name {options}")
    if on_items:
        return family.fit(items, **settings)
    if arguments.stream is not None and not hasattr(family, "fit_defaults"):
        raise DataError(f"{arguments.model} is not trained on ids", remedy="name --texts")
    parameters = inspect.signature(family.fit).parameters
    extra = {"folder": arguments.out, "development": items}
    return family.fit(texts, **settings, **{name: extra[name] for name in extra if name in parameters})


def _texts(arguments: argparse.Namespace) -> Any:
    """Return the training texts of a command, or None."""
    from workbench.texts.batches import EncodedText

    if arguments.stream is not None and (arguments.texts, arguments.vocabulary) != (None, None):
        remedy = "leave out --texts and --vocabulary, or --stream"
        raise DataError("a stream has its own texts and vocabulary", remedy=remedy)
    return arguments.texts if arguments.stream is None else EncodedText.open(arguments.stream)


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
        remedy = f"its settings are {', '.join(sorted(_setting_names(family)))}"
        raise DataError(f"{family.__name__}: {error}", remedy=remedy) from None
    return family(**settings)


def _value(text: str) -> Any:
    """Parse a value as JSON or Python; anything else is text."""
    for read in (json.loads, ast.literal_eval):
        with contextlib.suppress(ValueError, SyntaxError):
            return read(text)
    return {"true": True, "false": False, "none": None, "null": None}.get(text.lower(), text)


def _evaluate(arguments: argparse.Namespace) -> None:
    from workbench.evaluation.metrics import evaluate
    from workbench.models import registry
    from workbench.models.base import Predictor
    from workbench.predictions.store import predict
    from workbench.storage.errors import check_option

    items = _required_items(arguments)
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


def _compare(arguments: argparse.Namespace) -> None:
    from workbench.evaluation.align import align
    from workbench.evaluation.comparison_text import comparison_text
    from workbench.evaluation.model_predictions import items_of, run_of
    from workbench.storage.files import write_atomic

    where = {name: getattr(arguments, name) for name in ("dataset", "split", "variant", "path")}
    logs = [name for name in arguments.run if Path(name).is_file() or Path(name).suffix in _LOGS]
    stored = {name: run_of(name) for name in arguments.run if name not in logs}
    of_runs = stored or arguments.dataset or arguments.path
    runs: list[Any] = list(stored.values())
    items: Any = items_of(runs, **where) if of_runs or not logs else None
    if logs:
        from workbench.evaluation.interchange.sample_logs import import_logs

        variant = None if of_runs else arguments.variant
        items, imported = import_logs(logs, items, variant=variant, filter=arguments.filter)
        by_name = stored | dict(zip(logs, imported, strict=True))
        runs = [by_name[name] for name in arguments.run]
    annotations = None
    if arguments.annotate:
        from workbench.analysis.annotations import annotate

        annotations = annotate(items)
    comparison = align(items, runs, annotations=annotations)
    say(comparison_text(comparison))
    if arguments.html is not None:
        from workbench.widgets.compare.compare import Compare

        widget = Compare(comparison, annotations=annotations, remake=None, state={})
        write_atomic(arguments.html, widget.to_html(limit=arguments.limit))
        say(f"\nwritten to {arguments.html}")


def _publish(arguments: argparse.Namespace) -> None:
    from workbench.evaluation.model_predictions import items_of, run_of
    from workbench.widgets.publish.site import publish, standard_views

    runs = [run_of(name) for name in arguments.run]
    if runs and arguments.items is None and arguments.dataset is None:
        names = ("dataset", "split", "variant", "path")
        items = items_of(runs, **{name: getattr(arguments, name) for name in names})
    else:
        items = _required_items(arguments)
    views = standard_views(items, runs, annotated=arguments.annotate)
    limits = {"max_items": arguments.max_items, "max_megabytes": arguments.max_megabytes}
    say(f"written to {publish(arguments.folder, views, title=arguments.title, runs=runs, **limits)}")


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
