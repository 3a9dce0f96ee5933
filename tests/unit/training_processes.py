"""A program: trainings that are killed and resumed, and trainings in two processes.

Processes are forked from this one, which has imported torch once and computed nothing.
"""

import json
import multiprocessing
import os
import random
import shutil
import signal
import socket
import sys
import time
from pathlib import Path

import torch
from safetensors.torch import save_file
from tiny_training import Counting, Tiny, perplexity, settings, weights

from workbench.items.schema import DataError
from workbench.training import checkpoint
from workbench.training.loop import train

STEPS, LIVES = 20, 8
FORK = multiprocessing.get_context("fork")


def long(folder, seed):
    """Train with dropout, carried state, evaluations, and a checkpoint at every step."""
    chosen = settings(STEPS, evaluations=4, save_every=0, learning_rate=0.05)
    training = train(Tiny(dropout=0.3, seed=seed), Counting(), chosen, evaluate=perplexity, folder=folder)
    assert training.stopped == "finished"


def killed_within(folder, seed, number):
    """Train, and be killed at one of the calls that write to the disk, before it is done or after."""
    count = 0

    def dying(call):
        def wrapped(*args, **kwargs):
            nonlocal count
            count += 1
            if count == number and number % 2:
                os.kill(os.getpid(), signal.SIGKILL)
            answer = call(*args, **kwargs)
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return wrapped

    for place, name in (
        (checkpoint, "save_file"), (torch, "save"), (os, "fsync"), (os, "rename"), (os, "mkdir"),
        (os, "replace"), (shutil, "rmtree"), (os, "unlink"), (os, "rmdir"), (Path, "write_bytes"),
    ):  # fmt: skip
        setattr(place, name, dying(getattr(place, name)))
    long(folder, seed)


def exit_code(process):
    process.join(60)
    assert process.exitcode is not None
    return process.exitcode


def newest(place):
    return max((int(path.name[5:]) for path in place.glob("step-*")), default=0)


def run_to_end(function, *args):
    """Run a function in a process; return its exit code."""
    process = FORK.Process(target=function, args=args)
    process.start()
    return exit_code(process)


def killed(folder):
    """Kill a training again and again, and record how; compare it with one that was never disturbed."""
    draw = random.Random(6)  # noqa: S311 - no secret
    assert run_to_end(long, folder / "whole", 3) == 0
    place, lives = folder / "pieces", []
    for life in range(LIVES):
        seed = life if newest(place) else 3  # resumed, or begun anew
        if life % 2:
            code = run_to_end(killed_within, place, seed, draw.randint(1, 90))
        else:
            process = FORK.Process(target=long, args=(place, seed))
            process.start()
            step = newest(place) + draw.randint(1, 4)
            while newest(place) < step and process.is_alive():
                time.sleep(0.001)
            process.kill()
            code = exit_code(process)
        lives.append({"partial": len(list(place.glob(".step-*"))), "step": newest(place)})
        if code == 0:
            break
        assert code == -signal.SIGKILL
    assert run_to_end(long, place, 99) == 0
    name = checkpoint.folder_name(STEPS)
    same = {
        file: (folder / "whole" / name / file).read_bytes() == (place / name / file).read_bytes()
        for file in (checkpoint.WEIGHTS, checkpoint.STATE)
    }
    states = [checkpoint.newest(folder / run) for run in ("whole", "pieces")]
    scores = [
        [(row["step"], row["perplexity"]) for row in state.info["training"]["scores"]] for state in states
    ]
    left = sorted(path.name for path in place.iterdir())
    (folder / "killed.json").write_text(
        json.dumps({"lives": lives, "same": same, "scores": scores, "left": left})
    )


def one_of(rank, port, folder, out, options):
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    network = Tiny(seed=3 + rank, most=3 if rank == 1 else None)  # other weights, and less memory
    network.bad = options["bad"] if rank == 1 else None
    scored, result = [], {}

    def score(network):
        scored.append(rank)
        return perplexity(network)

    def interrupt(step):
        if step == options["stop"] and rank == 1:  # only one of them is interrupted
            signal.raise_signal(signal.SIGINT)

    try:
        training = train(
            network, Counting(before=interrupt), settings(12, evaluations=2), evaluate=score, folder=folder
        )
        result = {"stopped": training.stopped, "scores": len(training.scores), "evaluated": len(scored)}
    except DataError as error:
        result = {"problem": str(error)}
    (out / f"{rank}.json").write_text(json.dumps(result))
    save_file(weights(network), out / f"{rank}.safetensors")
    if options["twice"]:  # one script, two trainings
        another = Tiny(seed=3 + rank)
        train(another, Counting(), settings(12, evaluations=2), evaluate=perplexity)
        save_file(weights(another), out / f"{rank}-another.safetensors")


def together(folder, out, stop=None, bad=None, *, twice=False):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    out.mkdir()
    options = {"stop": stop, "bad": bad, "twice": twice}
    ranks = [FORK.Process(target=one_of, args=(rank, port, folder, out, options)) for rank in range(2)]
    for process in ranks:
        process.start()
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
