"""From texts and options to a trained network on disk: made once, found again, resumed where it stopped."""

from __future__ import annotations

import contextlib
import difflib
import json
import math
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.items.items import Items
from workbench.items.schema import DataError
from workbench.runs import fingerprint as provenance
from workbench.storage import cache
from workbench.storage.files import atomic_path, data_home, sweep
from workbench.texts.sources import Texts, checked, corpus_of

if TYPE_CHECKING:
    from torch import nn

    from workbench.models.neural.model import Neural
    from workbench.models.neural.networks.base import Network
    from workbench.texts.batches import Batches
    from workbench.texts.stream import Stream
    from workbench.training.distributed import World
    from workbench.training.history import Training
    from workbench.training.settings import Settings

VERSION = 2
"""Of what is trained: a model of another version counts as not there."""

MODEL, CHECKPOINTS, PLAN, STEPS = "model", "checkpoints", "fit.json", "steps.json"
_OURS = frozenset({"steps", "seed", "precision", "compile"})  # settings that `fit` names itself
_ALIKE = frozenset({"save_every", "log_every", "micro_rows"})  # settings that change no result
_FINISHED = frozenset({"finished", "early"})
_PARTIAL = ".partial-"


@dataclass(frozen=True)
class How:
    """What `fit` was asked for; see :meth:`workbench.models.neural.model.Neural.fit`."""

    kind: type[Neural]
    vocabulary: int | Sequence[str]
    lower: bool | None
    tokenised: bool | None
    development: Items | None
    evaluate_on: int
    held_out: Items | None
    seed: int
    device: str | None
    precision: Any
    compile: bool | None
    folder: Path | None
    progress: bool
    budget: dict[str, float | None]
    options: dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """The options of a training, sorted: of the network, of the batches, of the loop, and how long."""

    sizes: dict[str, Any]
    batches: dict[str, Any]
    settings: dict[str, Any]
    budget: dict[str, float]


def fitted(how: How, texts: Texts | Stream, **options: Any) -> Any:
    """Return the trained model of some texts; it is trained where it is not there yet."""
    from workbench.training.distributed import world  # noqa: PLC0415 - all torch

    plan = planned(how)
    stream, options["checked_for"] = _stream(how, texts)
    told = _told(how, plan, stream)
    key = cache.digest(json.dumps(told, sort_keys=True))
    info = {
        "sizes": plan.sizes,
        "lower": stream.lower,
        "unknown_types": int(stream.unknown_types),
        "training": {name: told[name] for name in ("batches", "settings", "budget", "seed", "precision")},
        "development": told["development"],
        "training_text": _text(stream),
    }
    all_of_us = world(how.device)
    home = all_of_us.from_first(_home(how, key, told) if all_of_us.first else Path())
    if all_of_us.from_first(_whole(how, home) if all_of_us.first else None):
        return how.kind.load(home / MODEL, device=how.device, **options)
    network, record = _trained(how, plan, stream, info, home, all_of_us)
    info |= {"steps": record.steps, "stopped": record.stopped}
    model = how.kind(
        network, vocabulary=stream.vocabulary, info=info, counts=stream.counts.tolist(),
        device=how.device, **options,
    )  # fmt: skip
    model.training_record = record
    if model.info["stopped"] in _FINISHED and all_of_us.first:
        _keep(model, home)
        shutil.rmtree(home / CHECKPOINTS, ignore_errors=True)
    all_of_us.from_first(None)  # written, before another process looks
    return model


def planned(how: How) -> Plan:
    """Sort the options of a training.

    Raises
    ------
    DataError
        If one is not known, or the length is given twice.
    """
    from workbench.training.settings import Settings  # noqa: PLC0415 - only where something is trained

    kind = how.kind
    of_loop = {field.name for field in fields(Settings)} - _OURS
    of_batches = set(kind.trained) - of_loop - {"epochs", "tokens", "minutes"}
    known = {*kind.sizes, *of_loop, *of_batches}
    for name in how.options:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            remedy = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"
            raise DataError(f"{kind.__name__} has no option {name!r}", remedy=remedy)
    given = {name: value for name, value in how.budget.items() if value is not None}
    if len(given) > 1:
        raise DataError(f"{' and '.join(given)} are given, expected one of them")
    budget = (
        given or {name: kind.trained[name] for name in how.budget if name in kind.trained} or {"epochs": 1.0}
    )
    ((name, value),) = budget.items()
    if not 0 < value < math.inf:
        raise DataError(f"{name} is {value}, expected more than 0")
    whole = {**kind.trained, **how.options}
    window, length = whole.get("window", kind.sizes.get("window")), whole.get("length", 0)
    if window is not None and length > window:
        raise DataError(f"rows of {length} words, and a window of {window}", remedy=f"pass length={window}")
    if whole.get("patience") is not None and how.development is None:
        raise DataError("patience needs development items to measure on", remedy="pass development=")
    return Plan(
        sizes={name: how.options.get(name, value) for name, value in kind.sizes.items()},
        batches={name: whole[name] for name in sorted(of_batches)},
        settings={name: whole[name] for name in sorted(of_loop) if name in whole},
        budget={name: float(value)},
    )


def _whole(how: How, home: Path) -> bool:
    """Say whether a finished model lies in a folder."""
    with contextlib.suppress(DataError):  # not there yet, or torn
        how.kind.load(home / MODEL, device="cpu").network  # noqa: B018 - weights are checked as they are read
        return True
    return False


def _stream(how: How, texts: Texts | Stream) -> tuple[Stream, dict[str, Any] | None]:
    """Return the ids that are trained on, and what they were checked for."""
    from workbench.texts.stream import Stream  # noqa: PLC0415 - only where something is trained

    if isinstance(texts, Stream):
        if how.held_out is not None:
            raise DataError(
                "a stream of ids has no text to check", remedy="pass the texts, or leave held_out away"
            )
        if how.lower not in {None, texts.lower}:
            raise DataError("the stream is " + ("lower-cased" if texts.lower else "cased"))
        return texts, None
    options: dict[str, Any] = {"tokenised": how.tokenised, "progress": how.progress}
    corpus = corpus_of(texts, lower=True if how.lower is None else how.lower, **options)
    if how.lower not in {None, corpus.lower}:
        raise DataError("the corpus is lower-cased" if corpus.lower else "the corpus is cased",
                        remedy=f"pass lower={corpus.lower}")  # fmt: skip
    held = checked(corpus, how.held_out, progress=how.progress)
    return Stream.of(corpus, how.vocabulary, progress=how.progress), held


def _told(how: How, plan: Plan, stream: Stream) -> dict[str, Any]:
    """Return all that the weights depend on, as JSON can hold it."""
    items = how.development
    development = None if items is None else {
        "items": len(items), "sha256": provenance.digest(items), "evaluate_on": how.evaluate_on
    }  # fmt: skip
    settings = {name: value for name, value in plan.settings.items() if name not in _ALIKE}
    told = {
        "version": VERSION,
        "class": f"{how.kind.__module__}:{how.kind.__qualname__}",
        "sizes": plan.sizes,
        "batches": plan.batches,
        "settings": settings,
        "budget": plan.budget,
        "seed": how.seed,
        "precision": how.precision,
        "stream": stream.sha256,
        "vocabulary": cache.digest(*stream.vocabulary),
        "development": development,
    }
    return dict(provenance.plain(told, f"the options of {how.kind.__name__}"))


def _text(stream: Stream) -> dict[str, Any]:
    """Return what is told of the training text."""
    return {
        "sha256": stream.sha256,
        "tokens": int(stream.n_tokens),
        "sentences": len(stream.starts) - 1,
        "books": len(stream.books),
        "vocabulary": len(stream.vocabulary),
    }


def _home(how: How, key: str, told: dict[str, Any]) -> Path:
    """Return the folder of a training, and write into it what it is."""
    home = data_home() / "cache" / "neural" / key if how.folder is None else how.folder
    file = home / PLAN
    if file.is_file():
        with contextlib.suppress(OSError, ValueError):
            if json.loads(file.read_text(encoding="utf-8")).get("key") == key:
                return home
        raise DataError("another training lies here", file=home, remedy="name another folder, or remove it")
    with atomic_path(file) as path:
        path.write_text(json.dumps({"key": key, **told}, indent=1), encoding="utf-8")
    return home


def _trained(  # noqa: PLR0917 - what was made in `fitted`
    how: How, plan: Plan, stream: Stream, info: dict[str, Any], home: Path, all_of_us: World
) -> tuple[Network, Training]:
    """Train a network, or go on with it."""
    import torch  # noqa: PLC0415 - slow

    from workbench.training.loop import train  # noqa: PLC0415 - all torch
    from workbench.training.progress import watching  # noqa: PLC0415
    from workbench.training.settings import Settings  # noqa: PLC0415

    kind, counts = how.kind, stream.counts.tolist()
    batches = kind._batches(stream, seed=how.seed, **plan.batches)  # noqa: SLF001 - of this family
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(how.seed)
        network = kind._build(info, counts)  # noqa: SLF001

    def settings(steps: int) -> Settings:
        return Settings(
            steps=steps, seed=how.seed, precision=how.precision, compile=how.compile, **plan.settings
        )

    def steps() -> int:
        return _steps(plan.budget, batches, lambda: _seconds(network, batches, settings(1), all_of_us), home)

    planned = all_of_us.from_first(steps() if all_of_us.first else 0)
    record = train(
        network,
        batches,
        settings(planned),
        evaluate=None if how.development is None else measuring(how, how.development, stream, info),
        folder=home / CHECKPOINTS,
        device=how.device,
        watch=watching(how.progress),
        name=kind.title,
        key=stream.sha256,
    )
    network.zero_grad(set_to_none=True)  # gradients take as much memory as the weights
    return network.eval(), record


def _steps(budget: dict[str, float], batches: Batches, measure: Callable[[], float], home: Path) -> int:
    """Return how many steps a budget is; of minutes it is measured once, and kept."""
    ((name, value),) = budget.items()
    if name == "epochs":
        return max(1, math.ceil(value * batches.steps))
    if name == "tokens":
        return max(1, math.ceil(value / batches.tokens))
    file = home / STEPS
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # not there yet
        return int(json.loads(file.read_text(encoding="utf-8"))["steps"])
    seconds = measure()
    found = max(1, int(60 * value / seconds))
    with atomic_path(file) as path:
        path.write_text(json.dumps({"steps": found, "seconds_a_step": seconds}), encoding="utf-8")
    return found


def _seconds(network: nn.Module, batches: Batches, settings: Settings, all_of_us: World) -> float:
    """Return the seconds of a step, from a few on trial; the network is as before."""
    from workbench.training.device import room, trial  # noqa: PLC0415 - all torch
    from workbench.training.gradients import Gradients, to_device  # noqa: PLC0415

    rows, device = all_of_us.rows(batches.rows), all_of_us.device
    with room(device):
        gradients = Gradients(
            network.to(device), settings, device, whole=batches.rows, rows=rows.stop - rows.start,
            say=lambda _: None, micro_rows=settings.micro_rows,
        )  # fmt: skip
        batch = to_device(batches.batch(0, rows), device)
        means = 2 * sum(weight.nbytes for weight in gradients.trained.values())
        return trial(
            gradients, batch, name="", steps=1, tokens=batches.tokens, carried=batches.carried, later=means
        ).seconds


def measuring(
    how: How, items: Items, stream: Stream, info: dict[str, Any]
) -> Callable[[nn.Module], dict[str, float]]:
    """Return what measures a network on the development items, or on some of them."""
    some = items if len(items) <= how.evaluate_on else items.sample(how.evaluate_on, seed=how.seed)

    def measure(network: Any) -> dict[str, float]:
        device = str(next(network.parameters()).device)
        model = how.kind(network, vocabulary=stream.vocabulary, info=info, device=device)
        return measured(model, some, seed=how.seed)

    return measure


def measured(model: Neural, items: Items, *, seed: int = 0) -> dict[str, float]:
    """Return expected accuracy, perplexity of the answers, and their median rank."""
    frame = model.predict(items, 1, seed=seed)
    ranks = frame["rank"].dropna().to_numpy(dtype=float)
    surprise = -float(frame["log_prob"].mean())
    return {
        "accuracy": float(frame["p_correct"].mean()),
        "perplexity": math.exp(min(surprise, 700.0)),
        "median_rank": float(np.median(ranks)) if len(ranks) else math.nan,
    }


def _keep(model: Neural, home: Path) -> None:
    """Write a finished model into a folder beside, then give it its name."""
    sweep(home, f"{_PARTIAL}*")
    partial = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=home))
    try:
        model.save(partial)
        partial.chmod(0o755)
        shutil.rmtree(home / MODEL, ignore_errors=True)  # torn, or it would have been found
        try:
            partial.rename(home / MODEL)
        except OSError:
            type(model).load(home / MODEL)  # another process was first
    finally:
        shutil.rmtree(partial, ignore_errors=True)
