"""A program: trainings that are killed and resumed, and trainings in two processes.

Processes are forked from this one, which has imported torch once and computed nothing.
"""

import json
import multiprocessing
import os
import shutil
import signal
import socket
import sys
from pathlib import Path

from patience import PATIENCE
from safetensors.torch import save_file
from tiny_training import Bags, Counting, Draws, Tiny, perplexity, settings, weights

from workbench.storage.errors import DataError
from workbench.training import checkpoint
from workbench.training.loop import train

STEPS = 20
FORK = multiprocessing.get_context("fork")


def long(folder, seed, kill_at=None):
    """Train with dropout, carried state, evaluations, and a checkpoint at every step; be killed at a step."""

    def kill(step):
        if step == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    chosen = settings(STEPS, evaluations=4, save_every=0, learning_rate=0.05)
    network, batches = Tiny(dropout=0.3, seed=seed), Counting(before=kill)
    training = train(network, batches, chosen, evaluate=perplexity, folder=folder)
    assert training.stopped == "finished"


def started(function, *args):
    process = FORK.Process(target=function, args=args)
    process.start()
    return process


def exit_code(process):
    process.join(PATIENCE)
    assert process.exitcode is not None
    return process.exitcode


def killed(folder):
    """Train undisturbed in ``whole``; in ``pieces`` kill one between two checkpoints, and resume it."""
    assert exit_code(started(long, folder / "whole", 3)) == 0
    assert exit_code(started(long, folder / "pieces", 3, 7)) == -signal.SIGKILL
    assert checkpoint.newest(folder / "pieces").step in {6, 7}
    assert exit_code(started(long, folder / "pieces", 99)) == 0


def one_of(rank, port, folder, out, options):
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    network = Tiny(seed=3 + rank)  # other weights
    network.bad = options.get("bad") if rank == 1 else None
    chosen, scored = settings(12, evaluations=2), []

    def score(network):
        scored.append(rank)
        return perplexity(network)

    def interrupt(step):
        if step == options.get("stop") and rank == 1:  # only one of them is interrupted
            signal.raise_signal(signal.SIGINT)

    try:
        training = train(network, Counting(before=interrupt), chosen, evaluate=score, folder=folder)
        result = {"stopped": training.stopped, "scores": len(training.scores), "evaluated": len(scored)}
    except DataError as error:
        result = {"problem": str(error)}
    (out / f"{rank}.json").write_text(json.dumps(result))
    save_file(weights(network), out / f"{rank}.safetensors")
    if options.get("twice"):  # one script, several trainings
        another = Tiny(seed=3 + rank)
        train(another, Counting(), chosen, evaluate=perplexity)
        save_file(weights(another), out / f"{rank}-another.safetensors")
        sparse = Bags(seed=3 + rank)
        train(sparse, Draws(), chosen)
        save_file(weights(sparse), out / f"{rank}-sparse.safetensors")


def together(folder, out, **options):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    out.mkdir()
    ranks = [started(one_of, rank, port, folder, out, options) for rank in range(2)]
    assert [exit_code(process) for process in ranks] == [0, 0]


def two(folder):
    """Train in two processes; interrupt one of them and resume; let one compute a loss that is not finite."""
    together(folder / "whole", folder / "a", twice=True)
    together(folder / "pieces", folder / "b", stop=3)
    shutil.copytree(folder / "pieces", folder / "copy")
    together(folder / "pieces", folder / "c")
    together(None, folder / "d", bad=4)


if __name__ == "__main__":
    for work in (killed, two):
        place = Path(sys.argv[1]) / work.__name__
        place.mkdir()
        work(place)
