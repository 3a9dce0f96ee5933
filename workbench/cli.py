"""The command ``workbench``: fetch data, see what is at hand, compare runs, run the notebooks."""

# ruff: noqa: PLC0415 - a command loads only what it needs

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from workbench.schema import DataError


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

    running = commands.add_parser("reproduce", help="run the notebooks on the data at hand")
    running.add_argument("only", nargs="*", help="beginnings of names (all)")
    running.add_argument("--notebooks", type=Path, default=Path("notebooks"), help="their folder")
    running.add_argument("--out", type=Path, help="where the pages go (data/runs/reproduce)")
    running.add_argument("--data", help="the notebooks' DATA: auto, sample, ...")
    running.add_argument("--scale", choices=["smoke", "cpu", "gpu"], help="the notebooks' SCALE")
    running.set_defaults(act=_reproduce)
    return parser


def _list(_arguments: argparse.Namespace) -> None:
    from workbench.datasets import available

    print(available().to_string(index=False))


def _fetch(arguments: argparse.Namespace) -> None:
    from workbench.datasets.registry import fetch

    for dataset in arguments.dataset:
        print(fetch(dataset, dry_run=arguments.dry_run, folder=arguments.folder))


def _show(arguments: argparse.Namespace) -> None:
    from workbench.datasets import load

    items = load(arguments.dataset, arguments.split, variant=arguments.variant, path=arguments.path)
    print(f"{items!r}\n")
    for item in items.sample(arguments.n, seed=arguments.seed):
        print(f"{item.item_id}\n{item.passage}\n= {item.answer}\n")


def _compare(arguments: argparse.Namespace) -> None:
    from workbench.evaluation.comparison import Comparison
    from workbench.evaluation.rows import loaded, run_of
    from workbench.evaluation.told import told
    from workbench.files import atomic_path

    runs = [run_of(name) for name in arguments.run]
    given = {name: getattr(arguments, name) for name in ("dataset", "split", "variant", "path")}
    items = loaded(runs, **given)
    annotations = None
    if arguments.annotate:
        from workbench.analysis.annotations import annotate

        annotations = annotate(items)
    found = Comparison.of(items, runs, annotations=annotations)
    print(told(found))
    if arguments.html is not None:
        from workbench.widgets.compare_page import page

        text = page(found, limit=arguments.limit)
        with atomic_path(arguments.html) as temporary:
            temporary.write_text(text, encoding="utf-8")
        print(f"\nwritten to {arguments.html}")


def _reproduce(arguments: argparse.Namespace) -> None:
    from workbench.reproduce import reproduce

    given = {"DATA": arguments.data, "SCALE": arguments.scale}
    settings = {name: value for name, value in given.items() if value is not None}
    reproduce(arguments.notebooks, out=arguments.out, only=arguments.only, settings=settings)
