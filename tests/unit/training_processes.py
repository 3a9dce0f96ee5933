"""A program: trainings that are killed and gone on with, and trainings in two processes.

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

from safetensors.torch import save_file
from tiny_training import Counting, Tiny, perplexity, settings, weights

from workbench.items.schema import DataError
from workbench.training import checkpoint
from workbench.training.loop import train

STEPS, LIVES = 30, 16
FORK = multiprocessing.get_context("fork")


def long(folder, seed, start=0.0):
    """Train with dropout, carried state, evaluations, and a checkpoint at every step."""
    time.sleep(start)
    chosen = settings(STEPS, evaluations=4, save_every=0, learning_rate=0.05)
    training = train(
        Tiny(dropout=0.3, seed=seed), Counting(), chosen, evaluate=perplexity, folder=folder, device="cpu"
    )
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
        (checkpoint, "save_file"), (checkpoint.tempfile, "mkdtemp"), (os, "fsync"), (os, "rename"),
        (os, "replace"), (shutil, "rmtree"), (os, "unlink"), (os, "rmdir"), (Path, "write_bytes"),
    ):  # fmt: skip
        setattr(place, name, dying(getattr(place, name)))
    long(folder, seed)


def ended(process):
    process.join(60)
    assert process.exitcode is not None
    return process.exitcode


def killed(folder):
    """Kill a training again and again, and tell how; compare it with one that nobody disturbed."""
    draw = random.Random(6)  # noqa: S311 - no secret
    whole = FORK.Process(target=long, args=(folder / "whole", 3))
    whole.start()
    assert ended(whole) == 0
    place, told = folder / "pieces", []
    for life in range(LIVES):
        seed = life if place.is_dir() and any(place.glob("step-*")) else 3  # gone on with, or begun anew
        if life % 2:
            process = FORK.Process(target=killed_within, args=(place, seed, draw.randint(1, 60)))
            process.start()
        else:
            process = FORK.Process(target=long, args=(place, seed))
            process.start()
            time.sleep(draw.uniform(0.01, 0.15))
            process.kill()
        code = ended(process)
        halves = sum(path.name.startswith(".aside-") for path in place.iterdir()) if place.is_dir() else 0
        steps = [int(path.name[5:]) for path in place.glob("step-*")] if place.is_dir() else []
        told.append({"code": code, "halves": halves, "step": max(steps, default=0)})
        if code == 0:
            break
        assert code == -signal.SIGKILL
    last = FORK.Process(target=long, args=(place, 99))
    last.start()
    assert ended(last) == 0
    name = checkpoint.name_of(STEPS)
    same = {
        file: (folder / "whole" / name / file).read_bytes() == (place / name / file).read_bytes()
        for file in (checkpoint.WEIGHTS, checkpoint.REST)
    }
    states = [
        json.loads((folder / run / name / "state.json").read_bytes())["told"] for run in ("whole", "pieces")
    ]
    scores = [[(row["step"], row["perplexity"]) for row in state["training"]["scores"]] for state in states]
    left = sorted(path.name for path in place.iterdir())
    print(json.dumps({"lives": told, "same": same, "scores": scores, "left": left}))  # noqa: T201 - the answer


def one_of(rank, port, folder, out, given):
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    network = Tiny(seed=3 + rank, most=3 if rank == 1 else None)  # other weights, and less memory
    network.bad = given["bad"] if rank == 1 else None
    scored, told = [], {}

    def score(network):
        scored.append(rank)
        return perplexity(network)

    try:
        training = train(
            network, Counting(before=interrupts(rank, given["stop"])), settings(12, evaluations=2),
            evaluate=score, folder=folder, device="cpu",
        )  # fmt: skip
        told = {"stopped": training.stopped, "scores": len(training.scores), "evaluated": len(scored)}
    except DataError as error:
        told = {"problem": str(error)}
    (out / f"{rank}.json").write_text(json.dumps(told))
    save_file(weights(network), out / f"{rank}.safetensors")
    if given["twice"]:  # one script, two trainings
        another = Tiny(seed=3 + rank)
        train(another, Counting(), settings(12, evaluations=2), evaluate=perplexity, device="cpu")
        save_file(weights(another), out / f"{rank}-another.safetensors")


def interrupts(rank, stop):
    def before(step):
        if step == stop and rank == 1:  # only one of them is interrupted
            os.kill(os.getpid(), signal.SIGINT)

    return before


def together(folder, out, stop=None, bad=None, *, twice=False):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    out.mkdir()
    given = {"stop": stop, "bad": bad, "twice": twice}
    ranks = [FORK.Process(target=one_of, args=(rank, port, folder, out, given)) for rank in range(2)]
    for process in ranks:
        process.start()
    assert [ended(process) for process in ranks] == [0, 0]


def two(folder):
    """Train in two processes; interrupt one of them and go on; let one compute what is not a number."""
    together(folder / "whole", folder / "a", twice=True)
    together(folder / "pieces", folder / "b", stop=7)
    shutil.copytree(folder / "pieces", folder / "copy")
    together(folder / "pieces", folder / "c")
    together(None, folder / "d", bad=4)


if __name__ == "__main__":
    {"killed": killed, "two": two}[sys.argv[1]](Path(sys.argv[2]))
