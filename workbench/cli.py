"""The command ``workbench``: fetch data, see what is at hand, train, compare runs, run the notebooks."""

# ruff: noqa: PLC0415 - a command loads only what it needs

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workbench.items.schema import DataError

MODELS = {
    "elman": "neural.recurrent:ElmanRNN",
    "lstm": "neural.recurrent:LSTM",
    "feed-forward": "neural.feedforward:FeedForward",
    "memory-network": "neural.memory:MemoryNetwork",
    "sup-cbow": "neural.sup_cbow:SupCBOW",
    "transformer": "neural.transformer:PointerTransformer",
}
"""What can be trained, and where it is."""

_FLAGS = ("vocabulary", "tokens", "epochs", "minutes", "seed", "device")  # of `train`, as `fit` names them


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    arguments = _parser().parse_args(argv)
    try:
        arguments.act(arguments)
    except DataError as error:
        print(f"workbench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("workbench: stopped", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="workbench", description="A workbench for word prediction that needs broad discourse context."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    listing = commands.add_parser("list", help="the data sets and where they are found")
    listing.set_defaults(act=_list)

    fetching = commands.add_parser("fetch", help="download a data set into data/raw")
    fetching.add_argument("dataset", nargs="+", help="lambada, lambada-openai, cbt, ...")
    fetching.add_argument("--dry-run", action="store_true", help="say what would be done")
    fetching.add_argument("--folder", type=Path, help="where to put it")
    fetching.set_defaults(act=_fetch)

    showing = commands.add_parser("show", help="print items of a data set")
    showing.add_argument("dataset")
    showing.add_argument("split", nargs="?")
    showing.add_argument("--variant")
    showing.add_argument("--path", type=Path)
    showing.add_argument("-n", type=int, default=5, help="how many (5)")
    showing.add_argument("--seed", type=int, default=0, help="which ones are drawn (0)")
    showing.set_defaults(act=_show)

    comparing = commands.add_parser("compare", help="compare stored runs on the items that all predicted")
    comparing.add_argument("run", nargs="+", help="names of runs, or their folders")
    comparing.add_argument("--html", type=Path, help="write a page of its own: models, pairs, slices, items")
    comparing.add_argument("--limit", type=int, default=200, help="items on the page (200)")
    comparing.add_argument("--dataset", help="of the items; found from the runs by default, as are")
    comparing.add_argument("--split")
    comparing.add_argument("--variant")
    comparing.add_argument("--path", type=Path, help="where the items are")
    comparing.add_argument("--annotate", action="store_true", help="slice by all annotations (takes longer)")
    comparing.set_defaults(act=_compare)

    _add_training(commands)

    running = commands.add_parser("reproduce", help="run the notebooks on the data at hand")
    running.add_argument("only", nargs="*", help="beginnings of names (all)")
    running.add_argument("--notebooks", type=Path, default=Path("notebooks"), help="their folder")
    running.add_argument("--out", type=Path, help="where the pages go (data/runs/reproduce)")
    running.add_argument("--data", help="the notebooks' DATA: auto, sample, ...")
    running.add_argument("--scale", choices=["smoke", "cpu", "gpu"], help="the notebooks' SCALE")
    running.set_defaults(act=_reproduce)
    return parser


def _add_training(commands: Any) -> None:
    """Add the commands that need a model: train, evaluate, and stream for what another machine trains on."""
    streaming = commands.add_parser("stream", help="write novels as ids of words, to train on elsewhere")
    training = commands.add_parser(
        "train",
        help="train a model; the same command goes on where it stopped",
        epilog="On several GPUs: torchrun --nproc-per-node 4 --no-python workbench train ...",
    )
    training.add_argument("model", choices=list(MODELS))
    training.add_argument("option", nargs="*", metavar="NAME=VALUE", help="width=512 layers=1 rows=64 ...")
    for each in (streaming, training):
        each.add_argument("--texts", type=Path, nargs="+", help="files, folders or archives of novels")
        each.add_argument("--vocabulary", type=int, help="most frequent words that it knows (60000)")
        each.add_argument("--out", type=Path, required=True, help="folder for it")
    streaming.set_defaults(act=_stream)
    training.add_argument("--stream", type=Path, help="a folder that `workbench stream` wrote, for --texts")
    training.add_argument("--tokens", type=float, help="train on so many words,")
    training.add_argument("--epochs", type=float, help="... or on the whole text so often,")
    training.add_argument("--minutes", type=float, help="... or for about so many minutes")
    training.add_argument("--seed", type=int, default=0)
    training.add_argument("--device", help="cpu, cuda, cuda:1 (a GPU where there is one)")
    training.set_defaults(act=_train)

    scoring = commands.add_parser("evaluate", help="let a trained model predict items, and keep what it says")
    scoring.add_argument("model", type=Path, nargs="+", help="folders of trained models")
    scoring.add_argument("--device")
    scoring.set_defaults(act=_evaluate)
    for each, what in ((training, "development items, measured on while it trains"), (scoring, "the items")):
        each.add_argument("--dataset", help=f"{what}: lambada, cbt, ...")
        each.add_argument("--split", help="(dev)")
        each.add_argument("--variant")
        each.add_argument("--path", type=Path, help="where they are")
        each.add_argument("--items", type=Path, help="or a parquet file that Items.to_parquet wrote")


def _list(_arguments: argparse.Namespace) -> None:
    from workbench.datasets import available

    print(available().to_string(index=False))


def _fetch(arguments: argparse.Namespace) -> None:
    from workbench.datasets.fetch import fetch

    for dataset in arguments.dataset:
        print(fetch(dataset, dry_run=arguments.dry_run, folder=arguments.folder))


def _show(arguments: argparse.Namespace) -> None:
    from workbench.datasets import load

    items = load(arguments.dataset, arguments.split, variant=arguments.variant, path=arguments.path)
    print(f"{items!r}\n")
    for item in items.sample(arguments.n, seed=arguments.seed):
        print(f"{item.item_id}\n{item.passage}\n= {item.answer}\n")


def _items(arguments: argparse.Namespace) -> Any:
    """Return the items that are asked for, None where there are none."""
    from workbench.datasets import load
    from workbench.items.items import Items

    if arguments.items is not None:
        return Items.from_parquet(arguments.items)
    if arguments.dataset is None:
        return None
    return load(arguments.dataset, arguments.split or "dev", variant=arguments.variant, path=arguments.path)


def _stream(arguments: argparse.Namespace) -> None:
    from workbench.texts.sources import corpus_of
    from workbench.texts.stream import Stream

    if not arguments.texts:
        raise DataError("there is nothing to read", remedy="name novels with --texts")
    found = Stream.of(corpus_of(arguments.texts), arguments.vocabulary or 60_000)
    print(found.copy(arguments.out))


def _train(arguments: argparse.Namespace) -> None:
    from workbench.texts.stream import Stream

    if (arguments.texts is None) == (arguments.stream is None):
        raise DataError("a model is trained on --texts or on a --stream", remedy="name one of them")
    options: dict[str, Any] = {}
    for text in arguments.option:
        name, equals, value = text.partition("=")
        if not equals:
            raise DataError(f"{text!r} is no option of a model", remedy="write NAME=VALUE, as width=512")
        if name in _FLAGS:
            raise DataError(f"{name} is an option of the command", remedy=f"write --{name} {value}")
        if name in {"texts", "folder", "development"}:
            raise DataError(f"{name} is not given so", remedy="pass --texts, --out, or --dataset")
        options[name] = _value(value)
    if arguments.stream is None:
        options["vocabulary"] = arguments.vocabulary or 60_000
    elif arguments.vocabulary is not None:
        raise DataError("a stream has its own vocabulary", remedy="leave out --vocabulary")
    for name in _FLAGS[1:]:
        options[name] = getattr(arguments, name)
    texts = arguments.texts if arguments.stream is None else Stream.open(arguments.stream)
    model = _kind(MODELS[arguments.model]).fit(
        texts, folder=arguments.out, development=_items(arguments), **options
    )
    if model.info["stopped"] == "interrupted":
        raise DataError(f"interrupted, kept in {arguments.out}", remedy="the same command goes on")
    print(f"{model.name}: {model.info['stopped']}, in {arguments.out}")


def _value(text: str) -> Any:
    """Return a value as JSON or Python writes it; what is neither is text."""
    for read in (json.loads, ast.literal_eval):
        with contextlib.suppress(ValueError, SyntaxError):
            return read(text)
    return {"true": True, "false": False, "none": None, "null": None}.get(text.lower(), text)


def _evaluate(arguments: argparse.Namespace) -> None:
    from workbench.evaluation.metrics import evaluate
    from workbench.models.neural.model import Neural
    from workbench.runs.store import predict

    items = _items(arguments)
    if items is None:
        raise DataError("there is nothing to predict", remedy="name a --dataset or a file of --items")
    runs = []
    for folder in arguments.model:
        inner = folder / "model"  # as training leaves it
        model = Neural.load(inner if inner.is_dir() else folder, device=arguments.device)
        runs.append(predict(items, model))
    print(evaluate(runs).to_string(index=False))
    for run in runs:
        print(f"kept as {run.run}")


def _kind(name: str) -> Any:
    """Return a class of models by its module and name."""
    module, _, kind = name.partition(":")
    return getattr(importlib.import_module(f"workbench.models.{module}"), kind)


def _compare(arguments: argparse.Namespace) -> None:
    from workbench.evaluation.comparison import Comparison
    from workbench.evaluation.reading import items_of, run_of
    from workbench.storage.files import atomic_path

    runs = [run_of(name) for name in arguments.run]
    given = {name: getattr(arguments, name) for name in ("dataset", "split", "variant", "path")}
    items = items_of(runs, **given)
    annotations = None
    if arguments.annotate:
        from workbench.analysis.annotations import annotate

        annotations = annotate(items)
    found = Comparison.of(items, runs, annotations=annotations)
    print(found)
    if arguments.html is not None:
        from workbench.widgets.compare.page import page

        text = page(found, limit=arguments.limit)
        with atomic_path(arguments.html) as temporary:
            temporary.write_text(text, encoding="utf-8")
        print(f"\nwritten to {arguments.html}")


def _reproduce(arguments: argparse.Namespace) -> None:
    from workbench.reproduce import reproduce

    given = {"DATA": arguments.data, "SCALE": arguments.scale}
    settings = {name: value for name, value in given.items() if value is not None}
    reproduce(arguments.notebooks, out=arguments.out, only=arguments.only, settings=settings)
