"""Training a network: the loop, from top to bottom."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import torch
from filelock import FileLock, Timeout
from torch import nn
from torch.nn.utils import clip_grads_with_norm_

from workbench.items.schema import DataError
from workbench.texts.batches import Batches
from workbench.training import checkpoint
from workbench.training.device import room
from workbench.training.distributed import world
from workbench.training.gradients import own_random
from workbench.training.history import Training
from workbench.training.interrupts import Interrupts
from workbench.training.progress import Watch, watching
from workbench.training.run import Run
from workbench.training.settings import Settings
from workbench.training.task import Evaluate, Task


def train(
    network: nn.Module,
    batches: Batches,
    settings: Settings,
    *,
    evaluate: Evaluate | None = None,
    folder: Path | None = None,
    device: str | None = None,
    watch: Watch | None = None,
    name: str = "",
    key: str = "",
) -> Training:
    """Train a network, or go on with it.

    Parameters
    ----------
    network : nn.Module
        ``network(batch, state)`` returns the mean of -ln p over the predicted words, as many in each row, and
        the state after it: tensors with the rows first. It is trained in place.
    batches : Batches
        Functions of the step (see :mod:`workbench.texts.batches`).
    settings : Settings
    evaluate : callable, optional
        Takes the network, in evaluation mode and without gradients; returns scores by name.
    folder : Path, optional
        Where checkpoints lie. With a sound one in it the training goes on from there.
    device : str, optional
        By default a GPU where there is one.
    watch : Watch, optional
        Who is told how it goes; nobody by default.
    name : str
        What it is called.
    key : str
        What else a checkpoint must be of to be gone on with, such as a digest of the text.

    Returns
    -------
    Training
        What happened. An interrupted one can be gone on with by the same call.

    Raises
    ------
    DataError
        If a loss or a gradient is not finite: the network has the weights before that step then. If not even
        one row fits into the memory, or the folder holds another training.

    Notes
    -----
    Under ``torchrun`` each process computes some rows of every batch; the first one evaluates and writes.
    """
    task = Task(network, batches, settings, evaluate, folder, watch or watching(progress=False), name, key)
    with _begun(task, device) as run:
        while not run.stopped:
            batch = run.batch()  # this process's rows, on the device
            loss, state = run.gradients(batch, run.state)  # in as many pieces as the memory asks for
            run.world.sum([loss, *run.gradients.all()])
            norm = run.guard.look(loss)  # once one is not finite, no step is taken any more
            if settings.clip is not None:
                clip_grads_with_norm_(run.gradients.trained.values(), settings.clip, norm)
            run.optimiser.step(settings.rate(run.step), run.guard.bad)
            run.advance(loss, state)
            run.log()
            run.evaluate()
            run.decide()  # whether to save, and whether to stop
    return run.training


@contextlib.contextmanager
def _begun(task: Task, device: str | None) -> Iterator[Run]:
    """Give a training that goes on where its newest checkpoint ends, or begins; end it in order."""
    mode = task.network.training
    with contextlib.ExitStack() as stack:
        processes = world(device)
        if not processes.first:
            task.watch = watching(progress=False)
        if task.folder is not None and processes.first:
            stack.enter_context(_alone(task.folder))
        if processes.device.type == "cuda":
            stack.enter_context(torch.cuda.device(processes.device))
        stack.enter_context(own_random(processes.device))
        stack.callback(task.network.train, mode)
        stack.enter_context(room(processes.device))
        task.network.to(processes.device).train()
        interrupts = stack.enter_context(Interrupts())
        found = checkpoint.newest(task.folder) if task.folder is not None and processes.first else None
        run = Run(task, processes, interrupts, processes.from_first(found))
        processes.same_weights(task.network)
        try:
            run.begin()
            yield run
        except KeyboardInterrupt:
            run.broken_off()
        finally:
            task.watch.end(run.training)
        run.finish()


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Be the only process that trains in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / ".lock", timeout=0):
            yield
    except Timeout as error:
        raise DataError(
            "another process trains here", file=folder, remedy="wait for it, end it, or pass another folder"
        ) from error
