"""What stands around the steps of a training: beginning, telling, evaluating, keeping, ending."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from workbench.items.schema import DataError
from workbench.training import checkpoint as kept
from workbench.training.checkpoint import Checkpoint
from workbench.training.device import Fit, trial
from workbench.training.distributed import World
from workbench.training.gradients import (
    Gradients,
    State,
    own_random,
    random_state,
    seed,
    set_random_state,
    to_device,
)
from workbench.training.guard import Guard
from workbench.training.history import STOPPED, Training
from workbench.training.interrupts import Interrupts
from workbench.training.optimiser import AdamW
from workbench.training.task import Task
from workbench.training.telling import best

_SECOND = 1.0  # between points of the history ...
_POINTS = 1000  # ... until there are so many; then they come ever more rarely
_APART = 1_000_003  # between the seeds of two processes


class Run:
    """A training under way in this process.

    Attributes
    ----------
    step : int
        Steps that are done.
    state : tuple of Tensor or None
        What the network remembers of the text before, where batches go on from step to step.
    rows : slice
        This process's rows of each batch.
    """

    def __init__(self, task: Task, world: World, interrupts: Interrupts, found: Checkpoint | None) -> None:
        self.task, self.world, self.device, self.interrupts = task, world, world.device, interrupts
        self.rows, self.step = world.rows(task.batches.rows), 0
        self.state: State = None
        self.identity, told = task.identity(), found.told if found else {}
        self.training = Training.from_json(told.get("training", {}))
        about: dict[str, Any] = {"name": task.name, "folder": task.folder, "device": str(self.device)}
        about |= {"steps": task.settings.steps, "best_by": task.settings.best_by}
        if self.stopped in {"interrupted", "not a number"}:
            about["stopped"] = ""
        self.training = replace(self.training, **about)
        self.gradients = Gradients(
            task.network, task.settings, self.device, whole=task.batches.rows,
            rows=self.rows.stop - self.rows.start, say=self.say,
            micro_rows=min(filter(None, (task.settings.micro_rows, told.get("micro_rows"))), default=None),
        )  # fmt: skip
        self.guard = Guard(self.gradients.trained, self.device, step=found.step if found else 0)
        self.optimiser = AdamW(self.gradients.trained, task.settings)
        self._losses = torch.zeros((), dtype=torch.float64, device=self.device)  # since the last look
        self._loss, self._since = told.get("pending", (0.0, 0))  # sum, and steps, since the last point
        self._begun, self._saved = time.monotonic() - float(told.get("seconds", 0.0)), time.monotonic()
        self._lap, self._lap_step, self._point = time.monotonic(), 0, self.seconds
        self._bad: tuple[int, str] | None = None
        self._best: dict[str, Tensor] = {}
        self._looked = 0  # the step up to which the losses are known
        if found:
            self._restore(found)
        else:
            seed(task.settings.seed + _APART * world.rank, self.device)
        self._before = self.step, random_state(self.device)

    @property
    def seconds(self) -> float:
        """Seconds since the beginning, those of the trainings that this one goes on from with them."""
        return time.monotonic() - self._begun

    @property
    def stopped(self) -> str:
        """How it ended, "" while it runs."""
        return self.training.stopped

    def say(self, text: str) -> None:
        """Tell and note what happened."""
        if self.world.first:
            self.training.notes.append(text)
            self.task.watch.say(text)

    def begin(self) -> None:
        """Find out whether it fits, say so, and do what was due when it was broken off."""
        task = self.task
        if self.stopped:
            task.watch.begin(self.training, self.step)
            return
        with self._pause():
            fit = self.interrupts.breakable(self._tried)
        if fit is not None and self.world.first:
            self.training.fits = str(fit)
            task.watch.say(self.training.fits)
        task.watch.begin(self.training, self.step)
        self.evaluate()
        self.decide()

    def _tried(self) -> Fit:
        batches, steps = self.task.batches, self.task.settings.steps - self.step
        return trial(
            self.gradients, to_device(batches.batch(self.step, self.rows), self.device),
            name=self.task.name, steps=steps, tokens=batches.tokens, carried=batches.carried,
        )  # fmt: skip

    def batch(self) -> dict[str, Tensor]:
        """Return this process's rows of the next batch, on the device."""
        self._before = self.step, random_state(self.device)  # for a step that is broken off
        return to_device(self.task.batches.batch(self.step, self.rows), self.device)

    def advance(self, loss: Tensor, state: State) -> None:
        """Take note of a step that is done."""
        self._losses += loss
        if self.task.batches.carried:
            self.state = self.guard.kept(self.state, state)
        self.step += 1
        self.task.watch.step()

    def log(self) -> None:
        """Add a point to the history where one is due; find out whether all was finite."""
        every = self.task.settings.log_every
        pause = max(_SECOND, self.seconds / _POINTS)
        due = self.step % every == 0 if every else self.seconds - self._point >= pause
        if self.world.first and (due or self.device.type == "cpu") and self._look() and due:
            self._add_point()

    def evaluate(self) -> None:
        """Evaluate where that is due and was not done before."""
        task, training = self.task, self.training
        if not self.world.first or not task.settings.evaluates(self.step) or self._is_scored():
            return
        if not self._look():
            return
        self._add_point()
        found = self._scored()
        if found is None:
            return
        if task.settings.best_by not in found and not training.scores:
            self.say(f"no evaluation tells {task.settings.best_by!r}, but {', '.join(found)}")
        training.scores.append({**self._place(), **found})
        task.watch.told(training)
        if self._is_best() and task.folder is None and task.settings.keep == "best":
            self._best = {name: values.cpu().clone() for name, values in kept.weights(task.network).items()}

    def _scored(self) -> dict[str, float] | None:
        """Return the scores of the network; None if that was interrupted."""
        task = self.task
        if task.evaluate is None:
            return None
        try:
            with self._pause(), own_random(self.device), torch.no_grad():
                task.network.eval()
                try:
                    return self.interrupts.breakable(partial(task.evaluate, task.network))
                finally:
                    task.network.train()
        except Exception:
            if self.world.size == 1:
                self._save()  # what was trained is kept, whatever is wrong with the evaluation
            raise

    def decide(self) -> None:
        """Agree with the other processes whether this was the last step; save a checkpoint where due."""
        task, training = self.task, self.training
        over = self.step >= task.settings.steps
        owed = self.world.first and task.settings.evaluates(self.step) and not self._is_scored()
        due = self._is_best() or time.monotonic() - self._saved >= task.settings.save_every
        stop = "finished" if over else "early" if self._is_enough() else ""
        if self.interrupts.asked and (not over or owed):
            stop = "interrupted"
        if self.world.first and (due or stop) and self._look() and stop:
            self._add_point()
        if self._bad:
            stop = "not a number"
        ending, saving = self.world.highest(STOPPED.index(stop), int(due and self.world.first))
        training.stopped = STOPPED[ending]
        if saving or training.stopped:
            self._save()

    def broken_off(self) -> None:
        """Stop before the step that an interrupt broke off: nothing of it remains."""
        if self._before[0] == self.step:
            set_random_state(self._before[1], self.device)
        if not self.stopped:
            self.interrupts.asked = True
            if self.world.size == 1:
                self.decide()
            self.training.stopped = "interrupted"

    def finish(self) -> None:
        """Leave the best weights in the network, or say what was not a number.

        Raises
        ------
        DataError
            If a loss or a gradient was not finite.
        """
        task, training = self.task, self.training
        if self._bad:
            step, what = self._bad
            words = (step + 1) * task.batches.tokens
            where = "in memory" if task.folder is None else f"in {task.folder / kept.name_of(step)}"
            raise DataError(
                f"not a number in step {step + 1:,} ({words:,} words): {what}",
                remedy=f"train with a lower learning rate than {task.settings.learning_rate:g}; "
                f"the weights before this step are kept {where}",
            )
        row = best(training) if training.stopped in {"finished", "early"} else {}
        if task.settings.keep == "best" and row and row["step"] != self.step and self.world.first:
            found = kept.read(task.folder / kept.name_of(row["step"])) if task.folder else None
            tensors = found.weights if found else self._best
            if tensors:
                kept.put(task.network, tensors)
            else:
                self.say(
                    f"the weights of step {row['step']:,}, which were the best, are gone: the last ones stay"
                )
        self.world.same_weights(task.network)
        self.training = self.world.from_first(training)

    def _place(self) -> dict[str, Any]:
        return {"step": self.step, "tokens": self.step * self.task.batches.tokens, "seconds": self.seconds}

    def _is_scored(self) -> bool:
        """Return whether the network of this step was evaluated, or nobody wants that."""
        scores = self.training.scores
        return self.task.evaluate is None or bool(scores and scores[-1]["step"] == self.step)

    def _is_best(self) -> bool:
        row = best(self.training)
        return bool(row) and bool(row["step"] == self.step)

    def _is_enough(self) -> bool:
        patience, row, scores = self.task.settings.patience, best(self.training), self.training.scores
        if patience is None or not scores:
            return False
        best_step = int(row["step"]) if row else 0
        return len([later for later in scores if later["step"] > best_step]) >= patience

    @contextlib.contextmanager
    def _pause(self) -> Iterator[None]:
        """Let what is done here not count as time of steps."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self._lap += time.monotonic() - begun

    def _look(self) -> bool:
        """Return whether all was finite so far; it waits for the device."""
        self._bad = self._bad or self.guard.found()
        if self._bad:
            return False
        self._loss += self._losses.item()
        self._losses.zero_()
        self._since += self.step - self._looked
        self._looked = self.step
        return True

    def _add_point(self) -> None:
        if not self._since:
            return
        now, steps = time.monotonic(), self.step - self._lap_step
        pace = steps * self.task.batches.tokens / (now - self._lap) if steps else math.nan
        self.training.history.append(
            {
                **self._place(),
                "loss": self._loss / self._since,
                "tokens_per_second": pace,
                "learning_rate": self.task.settings.rate(self.step - 1),
            }
        )
        self._loss, self._since, self._lap, self._lap_step, self._point = 0.0, 0, now, self.step, self.seconds
        self.task.watch.told(self.training)

    def _save(self) -> None:
        """Keep a checkpoint of all processes."""
        if self.stopped == "not a number":
            self._look()
            self.step = self._bad[0] if self._bad else self.step
            set_random_state(self._before[1], self.device)
        with self._pause():
            state = None if self.state is None else tuple(values.cpu() for values in self.state)
            parts = self.world.gather((state, random_state(self.device)))
            if self.world.first and self.task.folder is not None:
                told = {
                    "training": self.training.to_json(),
                    "seconds": self.seconds,
                    "pending": [self._loss, self._since],
                    "micro_rows": self.gradients.micro_rows,
                }
                found = Checkpoint(self.step, self.identity, told, kept.weights(self.task.network))
                found.rest = {**self.optimiser.tensors(), **kept.joined(parts)}
                row = best(self.training)
                kept.save(self.task.folder, found, keep=[row["step"]] if row else [])
        self._saved = time.monotonic()

    def _restore(self, found: Checkpoint) -> None:
        """Go on from a checkpoint.

        Raises
        ------
        DataError
            If it is of another training.
        """
        for part, mine in self.identity.items():
            if problem := kept.differ(mine, found.identity.get(part, {})):
                raise DataError(
                    f"here is a training with another {part}: {problem}",
                    file=self.task.folder,
                    remedy="pass another folder, or remove this one to begin anew",
                )
        if self.world.first and self.task.folder is not None:  # a kill between save and clean-up leaves more
            row = best(self.training)
            kept.prune(self.task.folder, {found.step, row.get("step", found.step)})
        kept.put(self.task.network, found.weights)
        self.optimiser.put(found.rest)
        self.step = self._looked = self._lap_step = found.step
        if carried := kept.numbered(found.rest, "carried"):
            self.state = tuple(values[self.rows].clone().to(self.device) for values in carried)
        random = kept.numbered(found.rest, f"random/{self.world.rank}")
        if len(random) == len(random_state(self.device)):
            set_random_state(random, self.device)
        else:  # there are more processes now, or it was another kind of device
            seed(self.task.settings.seed + _APART * self.world.rank + self.step, self.device)
