"""A small LSTM as a model, a text in which it can learn something, and items of it."""

import json
import multiprocessing
import os
import socket
import sys
from pathlib import Path

import numpy as np
import torch

from workbench.items.items import items_from_text
from workbench.models.neural.model import Neural
from workbench.models.neural.recurrent import RecurrentModule
from workbench.training.loop import train  # noqa: F401 - before processes are forked

torch.set_num_threads(1)

RNG = np.random.default_rng(4)
NAMES = ["ada", "tom", "eve", "sam"]
LINES = []
for _ in range(160):
    one, two = RNG.choice(NAMES, 2, replace=False)
    LINES.append(f"{one} saw {two} . then {two} said to {one} : good day {one} !")
DEV = items_from_text(
    [f"ada saw {name} . then {name} said to ___" for name in NAMES[1:]],
    answers=["ada", "ada", "never"],
    tokenised=True,
)
QUICK = {"vocabulary": 14, "width": 8, "rows": 4, "length": 10, "device": "cpu"}


class Small(Neural):
    title = "LSTM"
    module = RecurrentModule
    sizes = {"width": 8, "layers": 1, "softmax": "full", "dropout": 0.1}  # noqa: RUF012 - as models have it
    fit_defaults = {"rows": 4, "length": 10, "epochs": 1.0, "learning_rate": 0.01}  # noqa: RUF012
    systems = {"lambada": "LSTM"}  # noqa: RUF012


def fit(**options):
    return Small.fit(options.pop("texts", LINES), **{**QUICK, **options})


def one_of(rank, port, folder):
    """Fit as one of two processes."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    made = fit(development=DEV, evaluations=2, tokens=600)
    told = [made.config["weights"], made.training_record.stopped]
    (folder / f"{rank}.json").write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":  # both are forked from this one, which has imported torch once
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    import small_lstm  # so that the class has its name

    fork = multiprocessing.get_context("fork")
    ranks = [
        fork.Process(target=small_lstm.one_of, args=(rank, number, Path(sys.argv[1]))) for rank in range(2)
    ]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(120)
    sys.exit([process.exitcode for process in ranks] != [0, 0])
