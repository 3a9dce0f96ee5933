"""From texts and options to a trained network on disk: trained once, found again, resumed."""

from __future__ import annotations

import contextlib
import difflib
import json
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.items.items import Items
from workbench.items.schema import DataError
from workbench.runs import fingerprint
from workbench.storage import cache
from workbench.storage.files import atomic_path, data_home
from workbench.texts.corpus import Corpus, Texts
from workbench.texts.overlap import check_held_out
from workbench.training.settings import LENGTHS, TrainingSettings

if TYPE_CHECKING:
    from torch import nn

    from workbench.models.neural.model import Neural
    from workbench.texts.stream import Stream

VERSION = 3
"""Of what is trained: a model of another version is not found again."""

CHECKPOINTS, CONFIG = "checkpoints", "fit.json"  # beside the files of the model
_FINISHED = frozenset({"finished", "early"})
_SETTINGS = frozenset(field.name for field in fields(TrainingSettings))


def sorted_options(
    kind: type[Neural], options: Mapping[str, Any]
) -> tuple[TrainingSettings, dict[str, Any], dict[str, Any]]:
    """Sort the options of `fit`: settings of the training, sizes of the network, options of the batches.

    Parameters
    ----------
    kind : type
        Its ``trained`` and ``sizes`` have the defaults.
    options : mapping
        A length that is None was not given.

    Raises
    ------
    DataError
        If one is not known or out of range, or the length is given twice.
    """
    of_batches = set(kind.trained) - _SETTINGS
    known = {*kind.sizes, *_SETTINGS, *of_batches} - {"steps"}
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            remedy = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"
            raise DataError(f"{kind.__name__} has no option {name!r}", remedy=remedy)
    lengths = {name for name in LENGTHS if options.get(name) is not None}
    values = {"epochs": 1.0, **kind.trained} | {
        name: value for name, value in options.items() if name not in LENGTHS or value is not None
    }
    values = {
        name: value for name, value in values.items() if name not in LENGTHS or not lengths or name in lengths
    }
    window, length = values.get("window", kind.sizes.get("window")), values.get("length", 0)
    if window is not None and length > window:
        raise DataError(f"rows of {length} words, and a window of {window}", remedy=f"pass length={window}")
    return (
        TrainingSettings(**{name: value for name, value in values.items() if name in _SETTINGS}),
        {name: values.get(name, default) for name, default in kind.sizes.items()},
        {name: values[name] for name in sorted(of_batches)},
    )


def stream_of(
    texts: Texts | Stream,
    vocabulary: int | Sequence[str],
    *,
    lower: bool | None,
    tokenised: bool | None,
    held_out: Items | None,
    progress: bool,
) -> tuple[Stream, dict[str, Any] | None]:
    """Return the ids that are trained on, and which items they were checked for."""
    from workbench.texts.stream import Stream  # noqa: PLC0415 - only where something is trained

    if isinstance(texts, Stream):
        if held_out is not None:
            raise DataError(
                "a stream of ids has no text to check", remedy="pass the texts, or leave out held_out"
            )
        stream, checked_for = texts, None
    else:
        corpus = Corpus.of(texts, lower=lower is not False, tokenised=tokenised, progress=progress)
        checked_for = check_held_out(corpus, held_out, progress=progress)
        stream = Stream.of(corpus, vocabulary)
    if lower not in {None, stream.lower}:
        raise DataError(
            f"expected texts with lower={lower}, got lower={stream.lower}",
            remedy=f"pass lower={stream.lower}",
        )
    return stream, checked_for


def fitted(
    kind: type[Neural],
    stream: Stream,
    settings: TrainingSettings,
    sizes: dict[str, Any],
    batching: dict[str, Any],
    *,
    development: Items | None,
    evaluate_on: int,
    folder: Path | None,
    progress: bool,
    **options: Any,
) -> Any:
    """Return the model with these settings; it is trained if it is not on disk yet.

    Under ``torchrun`` the first process decides what is on disk, and writes.
    """
    import torch  # noqa: PLC0415 - slow
    from accelerate.utils import broadcast_object_list  # noqa: PLC0415 - all torch

    from workbench.training.loop import processes, train  # noqa: PLC0415
    from workbench.training.progress import progress_view  # noqa: PLC0415

    if settings.patience is not None and development is None:
        raise DataError("patience needs development items to measure on", remedy="pass development=")
    config = _config(kind, stream, settings, sizes, batching, development, evaluate_on)
    info = {
        "sizes": sizes,
        "lower": stream.lower,
        "unknown_types": int(stream.unknown_types),
        "training": {name: config[name] for name in ("batches", "settings")},
        "development": config["development"],
        "training_text": {
            "sha256": stream.sha256,
            "tokens": int(stream.n_tokens),
            "sentences": len(stream.starts) - 1,
            "books": len(stream.books),
            "vocabulary": len(stream.vocabulary),
        },
    }
    first = processes(settings).is_main_process
    on_disk: list[Any] = [None, False]
    if first:
        home = _home(config, folder)
        on_disk = [home, _is_whole(kind, home)]
    home, is_whole = broadcast_object_list(on_disk)
    if is_whole:
        return kind.load(home, device=settings.device, **options)
    batches = kind._batches(stream, seed=settings.seed, **batching)  # noqa: SLF001 - of this family
    counts = stream.counts.tolist()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        network = kind._build(info, counts)  # noqa: SLF001
    evaluate = None
    if development is not None:
        items = development
        if len(items) > evaluate_on:
            items = items.sample(evaluate_on, seed=settings.seed)
        evaluate = _evaluation(kind, items, stream, info, settings.seed)
    training = train(
        network, batches, settings, evaluate=evaluate, folder=home / CHECKPOINTS, name=kind.title,
        progress=progress_view(progress), key=stream.sha256,
    )  # fmt: skip
    network.zero_grad(set_to_none=True)  # gradients take as much memory as the weights
    info |= {"steps": training.steps, "stopped": training.stopped}
    model = kind(
        network.eval(),
        vocabulary=stream.vocabulary,
        info=info,
        counts=counts,
        device=settings.device,
        **options,
    )
    model.training_record = training
    if training.stopped in _FINISHED and first:
        model.save(home)
        shutil.rmtree(home / CHECKPOINTS, ignore_errors=True)
    broadcast_object_list([None])  # it is written before another process looks
    return model


def scores(model: Neural, items: Items, *, seed: int = 0) -> dict[str, float]:
    """Return expected accuracy, perplexity of the answers, and their median rank."""
    frame = model.predict(items, 1, seed=seed)
    ranks = frame["rank"].dropna().to_numpy(dtype=float)
    nll = -float(frame["log_prob"].mean())
    return {
        "accuracy": float(frame["p_correct"].mean()),
        "perplexity": math.exp(min(nll, 700.0)),
        "median_rank": float(np.median(ranks)) if len(ranks) else math.nan,
    }


def _evaluation(
    kind: type[Neural], items: Items, stream: Stream, info: dict[str, Any], seed: int
) -> Callable[[nn.Module], dict[str, float]]:
    """Return the function that scores a network on development items."""

    def evaluate(network: Any) -> dict[str, float]:
        device = str(next(network.parameters()).device)
        return scores(kind(network, vocabulary=stream.vocabulary, info=info, device=device), items, seed=seed)

    return evaluate


def _config(  # noqa: PLR0917 - as for `fitted`
    kind: type[Neural],
    stream: Stream,
    settings: TrainingSettings,
    sizes: dict[str, Any],
    batching: dict[str, Any],
    development: Items | None,
    evaluate_on: int,
) -> dict[str, Any]:
    """Return all that the weights depend on, as JSON can hold it."""
    items = development
    config = {
        "version": VERSION,
        "class": f"{kind.__module__}:{kind.__qualname__}",
        "sizes": sizes,
        "batches": batching,
        "settings": settings.identity(),
        "stream": stream.sha256,
        "vocabulary": cache.digest(*stream.vocabulary),
        "development": None
        if items is None
        else {"items": len(items), "sha256": fingerprint.items_digest(items), "evaluate_on": evaluate_on},
    }
    return dict(fingerprint.json_value(config, f"the options of {kind.__name__}"))


def _home(config: dict[str, Any], folder: Path | None) -> Path:
    """Return the folder of a training, with its configuration in it; DataError if it is of another one."""
    key = cache.digest(json.dumps(config, sort_keys=True))
    home = data_home() / "cache" / "neural" / key if folder is None else folder
    file = home / CONFIG
    if file.is_file():
        with contextlib.suppress(OSError, ValueError):
            if json.loads(file.read_text(encoding="utf-8")).get("key") == key:
                return home
        raise DataError(
            "this folder holds a training with other texts or options",
            file=home,
            remedy="name another folder, or remove it",
        )
    with atomic_path(file) as path:
        path.write_text(json.dumps({"key": key, **config}, indent=1), encoding="utf-8")
    return home


def _is_whole(kind: type[Neural], home: Path) -> bool:
    """Return whether a finished model is in a folder."""
    with contextlib.suppress(DataError):  # not there yet, or damaged
        kind.load(home, device="cpu").network  # noqa: B018 - weights are checked as they are read
        return True
    return False
