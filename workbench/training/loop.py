"""Training of a network: the loop, from top to bottom.

Devices, processes, mixed precision, sums over processes and halving the batch when memory runs out come from
accelerate rather than Lightning Fabric: it is locked already, and there is no trainer class to inherit from.
Its ``prepare`` is not used: DistributedDataParallel sums gradients while they are computed, so a process that
runs out of memory in the middle would leave the others waiting.
"""

from __future__ import annotations

import atexit
import contextlib
import copy
import json
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any, Self

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import (
    InitProcessGroupKwargs,
    broadcast,
    broadcast_object_list,
    find_executable_batch_size,
    gather_object,
)
from accelerate.utils.memory import should_reduce_batch_size
from torch import Tensor, nn

from workbench.items.schema import DataError
from workbench.storage.files import atomic_path
from workbench.texts.batches import Batches
from workbench.training import checkpoint as checkpoints
from workbench.training.checkpoint import TrainingState, random_state, seed_generators, set_random_state
from workbench.training.history import STOPPED, Training
from workbench.training.optimiser import AdamW
from workbench.training.progress import Progress
from workbench.training.settings import TrainingSettings, torch_device

Evaluate = Callable[[nn.Module], dict[str, float]]
"""Takes the network in evaluation mode, without gradients; returns scores by name."""

State = tuple[Tensor, ...] | None
"""What a network remembers of the text before; each tensor has the rows first."""

_SECOND = 1.0  # between points of the history ...
_POINTS = 1000  # ... until there are so many; then they come ever more rarely
_TIMED = 5  # steps by which minutes become steps
_AGREE = 10  # steps from one agreement of several processes to the next
_WAIT = timedelta(hours=6)  # that processes wait for the first one, which evaluates alone
_SEEDS_APART = 1_000_003  # between the seeds of two processes


def train(
    network: nn.Module,
    batches: Batches,
    settings: TrainingSettings,
    *,
    evaluate: Evaluate | None = None,
    folder: Path | None = None,
    progress: Progress | None = None,
    name: str = "",
    key: str = "",
) -> Training:
    """Train a network, or continue its training.

    Parameters
    ----------
    network : nn.Module
        ``network(batch, state)`` returns the mean of -ln p over the predicted words, as many in each row, and
        the state after it: tensors with the rows first. It is trained in place.
    batches : Batches
        Functions of the step (see :mod:`workbench.texts.batches`).
    settings : TrainingSettings
    evaluate : callable, optional
        Takes the network in evaluation mode, without gradients; returns scores by name.
    folder : Path, optional
        Folder of the checkpoints. With a whole one in it the training continues from there.
    progress : Progress, optional
        Progress callback; silent by default.
    name : str
        Name of what is trained.
    key : str
        What else a checkpoint must be of to be continued, such as a digest of the text.

    Returns
    -------
    Training
        The history. The same call continues an interrupted training.

    Raises
    ------
    DataError
        If the loss or the gradient is not finite: the network then has the weights before that step. If not
        one row of a batch fits into the memory, or the folder holds another training.

    Notes
    -----
    Under ``torchrun`` or ``accelerate launch`` each process computes an equal part of the rows of each batch;
    the first one evaluates and writes.
    """
    settings = _in_steps(network, batches, settings, folder)
    run = _Run(network, batches, settings, evaluate, folder, progress or Progress())
    with run.started(name, key):

        @find_executable_batch_size(starting_batch_size=run.micro_rows, reduce_batch_size_fn=run.halve)  # type: ignore[untyped-decorator]
        def steps(micro_rows: int) -> None:
            while not run.stopped:
                batch = run.batch()  # the rows of this process, on its device
                loss, state = run.gradients(batch, micro_rows)  # means over all processes
                norm = nn.utils.clip_grad_norm_(run.trained.values(), settings.clip or math.inf)
                run.check(loss, norm)  # from the first that is not finite on, no step changes anything
                run.optimiser.step(settings.rate(run.step), skip=run.bad)
                run.finish_step(loss, state)  # and log, evaluate, save, stop, where that is due

        steps()
    return run.training


class _Run:
    """A training in this process.

    Attributes
    ----------
    step : int
        Steps that are done.
    state : tuple of Tensor or None
        Carried from step to step where the batches continue each other.
    micro_rows : int
        Rows that are computed at a time.
    bad : Tensor
        1 from the first loss or gradient on that is not finite; read from the device now and then.
    """

    state: State
    training: Training

    def __init__(  # noqa: PLR0917 - those of `train`
        self,
        network: nn.Module,
        batches: Batches,
        settings: TrainingSettings,
        evaluation: Evaluate | None,
        folder: Path | None,
        progress: Progress,
    ) -> None:
        self.network, self.batches, self.settings = network, batches, settings
        self.evaluation, self.folder, self.interrupts = evaluation, folder, _Interrupts()
        self.accelerator = accelerator = processes(settings)
        self.first, several = accelerator.is_main_process, accelerator.num_processes
        self.progress = progress if self.first else Progress()
        self.device = accelerator.device if several > 1 else torch_device(settings.device)
        network.to(self.device)
        rows: int = batches.rows // several
        if rows * several != batches.rows:
            raise DataError(
                f"{batches.rows} rows a batch cannot be shared evenly by {several} processes",
                remedy="pass a multiple of the number of processes as rows",
            )
        self.rows = slice(accelerator.process_index * rows, (accelerator.process_index + 1) * rows)
        self.micro_rows = min(settings.micro_rows or rows, rows)
        self.trained = {name: weight for name, weight in network.named_parameters() if weight.requires_grad}
        if not self.trained:
            raise DataError("this network has no parameter to train", remedy="pass one with requires_grad")
        self.optimiser = AdamW(self.trained, settings)
        self.compiled = self.device.type == "cuda" if settings.compile is None else settings.compile
        self.forward: Callable[..., Any] = torch.compile(network) if self.compiled else network
        self.step, self.state = 0, None
        self.bad = torch.zeros((), device=self.device)
        zero = torch.zeros((), dtype=torch.float64, device=self.device)
        self._good, self._first_step = zero.clone(), 0  # number of finite steps since the first one here
        self._bad_step: int | None = None
        self._losses = zero  # since the last look
        self._loss, self._since, self._looked = 0.0, 0, 0  # sum and steps since the last point; last look
        self._best: dict[str, Tensor] = {}
        self._begun = self._saved = self._lap = time.monotonic()
        self._point, self._lap_step = 0.0, 0

    @property
    def stopped(self) -> str:
        """How it ended, empty while it runs."""
        return self.training.stopped

    @property
    def seconds(self) -> float:
        """Seconds since the beginning, those before an interruption included."""
        return time.monotonic() - self._begun

    @contextlib.contextmanager
    def started(self, name: str, key: str) -> Iterator[None]:
        """Begin, or continue from the newest checkpoint; end properly afterwards."""
        mode, writes = self.network.training, self.folder is not None and self.first
        gpus = [self.device] if self.device.type == "cuda" else []
        with contextlib.ExitStack() as stack:
            if self.folder is not None and writes:
                stack.enter_context(checkpoints.only_process(self.folder))
            for gpu in gpus:
                stack.enter_context(torch.cuda.device(gpu))
            stack.enter_context(torch.random.fork_rng(devices=gpus))
            stack.callback(self.network.train, mode)
            self.network.train()
            stack.enter_context(self.interrupts)
            newest = checkpoints.newest(self.folder) if self.folder is not None and writes else None
            self._begin(broadcast_object_list([newest])[0], name, key)
            try:
                self._after_step()  # what was due when it was interrupted
                yield
            finally:
                self.progress.end(self.training)
            self._finish()

    def _begin(self, checkpoint: TrainingState | None, name: str, key: str) -> None:
        """Begin anew, or continue from a checkpoint; DataError if it is of another training."""
        settings, rank = self.settings, self.accelerator.process_index
        self.identity = checkpoints.identity(self.network, self.batches, settings, key)
        info = checkpoint.info if checkpoint else {}
        self.training = replace(
            Training.from_json(info.get("training", {})), name=name, folder=self.folder,
            device=str(self.device), steps=settings.n_steps, best_by=settings.best_by,
            parameters=sum(weight.numel() for weight in self.trained.values()),
        )  # fmt: skip
        if self.stopped in {"interrupted", "not a number"}:
            self.training.stopped = ""
        seed = settings.seed + _SEEDS_APART * rank
        if checkpoint is not None:
            for part, values in self.identity.items():
                if problem := checkpoints.difference(values, checkpoint.identity.get(part, {})):
                    raise DataError(
                        f"this folder holds a training with different {part}: {problem}",
                        file=self.folder,
                        remedy="pass another folder, or remove this one to begin anew",
                    )
            if self.first and self.folder is not None:  # a kill between save and clean-up leaves more
                checkpoints.prune(
                    self.folder, {checkpoint.step, self.training.best.get("step", checkpoint.step)}
                )
            checkpoints.set_weights(self.network, checkpoint.weights)
            self.optimiser.load(checkpoint.state["optimiser"])
            self.step = self._first_step = self._looked = self._lap_step = checkpoint.step
            if carried := checkpoint.state["carried"]:
                self.state = tuple(values[self.rows].clone().to(self.device) for values in carried)
            self.micro_rows = min(self.micro_rows, info["micro_rows"])
            self._loss, self._since = info["pending"]
            self._begun -= info["seconds"]
            self._point = self.seconds
            random, current = checkpoint.state["random"], random_state(self.device)
            if len(random) == self.accelerator.num_processes and len(random[rank]) == len(current):
                set_random_state(random[rank], self.device)
            else:  # by other processes, or on another kind of device
                seed_generators(seed + self.step, self.device)
        else:
            seed_generators(seed, self.device)
        broadcast(self.network.state_dict())
        self._before = random_state(self.device)
        self.progress.begin(self.training, self.step)

    def batch(self) -> dict[str, Tensor]:
        """Return the rows of this process of the next batch, on the device."""
        self._before = random_state(self.device)  # a step that runs out of memory is repeated
        arrays = self.batches.batch(self.step, self.rows)
        tensors = {name: torch.from_numpy(np.array(values)) for name, values in arrays.items()}
        if self.device.type == "cuda":
            tensors = {name: values.pin_memory() for name, values in tensors.items()}
        return {name: values.to(self.device, non_blocking=True) for name, values in tensors.items()}

    def gradients(self, batch: dict[str, Tensor], micro_rows: int) -> tuple[Tensor, State]:
        """Set the gradients of the mean loss of a batch; return the loss and the carried state after it."""
        for weight in self.trained.values():
            weight.grad = None
        rows = len(next(iter(batch.values())))
        total, states = torch.zeros((), device=self.device), []
        for start in range(0, rows, micro_rows):
            part = slice(start, min(start + micro_rows, rows))
            state = None if self.state is None else tuple(values[part] for values in self.state)
            with self.accelerator.autocast():
                loss, after = self._forward({name: values[part] for name, values in batch.items()}, state)
            loss = loss * ((part.stop - part.start) / rows)
            loss.backward()
            total += loss.detach()
            if after is not None and self.batches.carried:
                states.append([values.detach() for values in after])
        several = self.accelerator.num_processes > 1
        for weight in self.trained.values():
            if weight.grad is None:  # it had no part in this batch
                weight.grad = torch.zeros_like(weight)
            if several:
                weight.grad = self.accelerator.reduce(weight.grad, "mean")
        total = self.accelerator.reduce(total, "mean") if several else total
        return total, tuple(map(torch.cat, zip(*states, strict=True))) if states else None

    def _forward(self, batch: dict[str, Tensor], state: State) -> Any:
        try:
            return self.forward(batch, state)
        except Exception as error:
            if not self.compiled or should_reduce_batch_size(error):
                raise
            self.compiled, self.forward = False, self.network
            result = self.network(batch, state)  # an error of the network itself is raised here
            reason = str(error).strip().partition("\n")[0]
            self._note(f"torch.compile failed, so it is not used ({type(error).__name__}: {reason})")
            return result

    def halve(self) -> int:
        """Return half as many rows at a time, for memory has run out; the step begins again."""
        if self.micro_rows == 1:
            raise DataError(
                f"not one row of a batch fits into the memory of {self.device}",
                remedy="make the network narrower or the rows shorter, or use another device",
            )
        self.micro_rows = (self.micro_rows + 1) // 2
        set_random_state(self._before, self.device)
        self._note(f"out of memory: {self.micro_rows:,} rows at a time now, same gradient but for dropout")
        return self.micro_rows

    def check(self, loss: Tensor, norm: Tensor) -> None:
        """Detect a loss or gradient that is not finite, without waiting for the device."""
        self.bad = torch.maximum(self.bad, (~(loss.isfinite() & norm.isfinite())).float())
        self._good += 1 - self.bad

    def finish_step(self, loss: Tensor, state: State) -> None:
        """Count a step, and do what is due after it."""
        if state is not None:  # after a loss that is not finite the last good one stays
            before = self.state or tuple(map(torch.zeros_like, state))
            pairs = zip(state, before, strict=True)
            self.state = tuple(torch.where(self.bad == 0, new, old) for new, old in pairs)
        self._losses += loss
        self.step += 1
        self.progress.step()
        every, pause = self.settings.log_every, max(_SECOND, self.seconds / _POINTS)
        due = self.step % every == 0 if every else self.seconds - self._point >= pause
        if self.first and (due or self.device.type == "cpu") and self._look() and due:
            self._add_point()
        self._after_step()

    def _after_step(self) -> None:
        """Evaluate, save and stop where that is due; all processes agree about the last two."""
        if self.stopped:
            return
        if self.first:
            self._evaluate()
        last = self.step >= self.settings.n_steps
        owed = self.first and self.settings.evaluates(self.step) and not self._is_evaluated()
        best = self.first and self.training.best.get("step") == self.step
        save = self.first and (best or time.monotonic() - self._saved >= self.settings.save_every)
        stop = "finished" if last else "early" if self._patience_is_over() else ""
        if self.interrupts.asked and (not last or owed):
            stop = "interrupted"
        if self.first and (save or stop) and self._look() and stop:
            self._add_point()
        if self._bad_step is not None:
            stop = "not a number"
        if self.accelerator.num_processes > 1:
            if not (last or self.step % _AGREE == 0 or self.settings.evaluates(self.step)):
                return
            votes = torch.tensor([[STOPPED.index(stop), int(save)]], device=self.device)
            reason, saving = self.accelerator.gather(votes).amax(0).tolist()
            stop, save = STOPPED[reason], bool(saving)
        self.training.stopped = stop
        if save or stop:
            self._save()

    def _finish(self) -> None:
        """Leave the best weights in the network; DataError if the loss was not finite."""
        training = self.training
        if self._bad_step is not None:
            step, words = self._bad_step + 1, (self._bad_step + 1) * self.batches.tokens
            name = checkpoints.folder_name(self._bad_step)
            where = "in memory" if self.folder is None else f"in {self.folder / name}"
            raise DataError(
                f"loss or gradient is not finite (not a number) in step {step:,} ({words:,} words)",
                remedy=f"train with a lower learning rate than {self.settings.learning_rate:g}; "
                f"the weights before this step are kept {where}",
            )
        best = (
            training.best.get("step", self.step) if training.stopped in {"finished", "early"} else self.step
        )
        if self.settings.keep == "best" and best != self.step and self.first:
            folder = self.folder and self.folder / checkpoints.folder_name(best)
            saved = checkpoints.read_checkpoint(folder) if folder else None
            if weights := saved.weights if saved else self._best:
                checkpoints.set_weights(self.network, weights)
            else:
                self._note(f"the weights of step {best:,}, the best ones, are gone; these are the last ones")
        broadcast(self.network.state_dict())
        self.training = broadcast_object_list([training])[0]

    def _note(self, text: str) -> None:
        """Note what happened."""
        self.training.notes.append(text)
        self.progress.update(self.training)

    def _evaluate(self) -> None:
        """Evaluate where that is due and was not done before."""
        training, evaluation = self.training, self.evaluation
        if evaluation is None or not self.settings.evaluates(self.step) or self._is_evaluated():
            return
        if not self._look():
            return
        self._add_point()
        gpus = [self.device] if self.device.type == "cuda" else []
        with self._paused():
            try:
                with torch.random.fork_rng(devices=gpus), torch.no_grad():
                    scores = self.interrupts.breakable(lambda: evaluation(self.network.eval()))
            except Exception as error:
                if self.accelerator.num_processes == 1:
                    self._save()  # the evaluation may be wrong, the training is not
                if should_reduce_batch_size(error):  # not by the rows of a batch
                    raise DataError(f"{self.device} is out of memory in an evaluation") from error
                raise
            finally:
                self.network.train()
        if scores is None:
            return
        if self.settings.best_by not in scores and not training.scores:
            self._note(f"there is no score {self.settings.best_by!r}, only {', '.join(scores)}")
        training.scores.append({**self._at(), **scores})
        self.progress.update(training)
        is_best = training.best.get("step") == self.step
        if is_best and self.folder is None and self.settings.keep == "best":
            self._best = {
                name: tensor.cpu().clone() for name, tensor in checkpoints.weights(self.network).items()
            }

    def _is_evaluated(self) -> bool:
        scores = self.training.scores
        return self.evaluation is None or bool(scores and scores[-1]["step"] == self.step)

    def _patience_is_over(self) -> bool:
        patience, best = self.settings.patience, self.training.best.get("step", 0)
        worse = [row for row in self.training.scores if row["step"] > best]
        return patience is not None and len(worse) >= patience

    def _at(self) -> dict[str, Any]:
        return {"step": self.step, "tokens": self.step * self.batches.tokens, "seconds": self.seconds}

    @contextlib.contextmanager
    def _paused(self) -> Iterator[None]:
        """Do not count what is done here as time of steps."""
        start = time.monotonic()
        try:
            yield
        finally:
            self._lap += time.monotonic() - start

    def _look(self) -> bool:
        """Return whether all was finite so far; this waits for the device."""
        if self._bad_step is None and self.bad.item():
            self._bad_step = self._first_step + int(self._good.item())
        if self._bad_step is not None:
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
        point = {
            **self._at(),
            "loss": self._loss / self._since,
            "tokens_per_second": steps * self.batches.tokens / (now - self._lap) if steps else math.nan,
            "learning_rate": self.settings.rate(self.step - 1),
        }
        self.training.history.append(point)
        self._loss, self._since, self._lap, self._lap_step, self._point = 0.0, 0, now, self.step, self.seconds
        self.progress.update(self.training)

    def _save(self) -> None:
        """Write a checkpoint of all processes."""
        if self.stopped == "not a number":
            self._look()
            self.step = self.step if self._bad_step is None else self._bad_step
            set_random_state(self._before, self.device)
        with self._paused():
            carried = None if self.state is None else self.accelerator.gather(self.state)
            random = gather_object([random_state(self.device)])
            if self.first and self.folder is not None:
                info = {
                    "training": self.training.to_json(),
                    "seconds": self.seconds,
                    "pending": [self._loss, self._since],
                    "micro_rows": self.micro_rows,
                }
                state = {
                    "optimiser": self.optimiser.state(),
                    "carried": [values.cpu().clone() for values in carried or ()],
                    "random": random,
                }
                weights = checkpoints.weights(self.network)
                checkpoint = TrainingState(self.step, self.identity, info, weights, state)
                best = self.training.best.get("step", self.step)
                checkpoints.save_checkpoint(self.folder, checkpoint, keep=[best])
        self._saved = time.monotonic()


class _Interrupts:
    """Turns Ctrl-C and the stop button of a notebook into `asked` while it is entered.

    A step and a checkpoint are short, and half of one is of no use. What takes long and changes nothing runs
    under `breakable`. A thread other than the main one gets no signals.
    """

    def __init__(self) -> None:
        self.asked = self._breakable = False
        self._before: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.getsignal(signal.SIGINT)
            if self._before is not None:  # a handler that is not Python's could not be put back
                signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True
        if self._breakable:
            raise KeyboardInterrupt

    def breakable(self, do: Callable[[], dict[str, float]]) -> dict[str, float] | None:
        """Return what `do` returns; None if an interrupt came before or broke it off."""
        if self.asked:
            return None
        self._breakable = True
        try:
            return do()
        except KeyboardInterrupt:
            self.asked = True
            return None
        finally:
            self._breakable = False


def processes(settings: TrainingSettings) -> Accelerator:
    """Return this process's access to the device and to the other processes."""
    device = torch_device(settings.device)
    half = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    half = half if settings.precision is None else settings.precision == "bfloat16"
    AcceleratorState._reset_state(reset_partial_state=True)  # noqa: SLF001 - or the first device stays
    accelerator = Accelerator(
        cpu=device.type == "cpu",
        mixed_precision="bf16" if half else "no",
        kwargs_handlers=[InitProcessGroupKwargs(timeout=_WAIT)],
    )
    if accelerator.num_processes > 1:
        atexit.register(accelerator.state.destroy_process_group)
    return accelerator


def _in_steps(
    network: nn.Module, batches: Batches, settings: TrainingSettings, folder: Path | None
) -> TrainingSettings:
    """Return settings whose length is given in steps; minutes are timed once, and kept in the folder."""
    if settings.steps is not None:
        return settings
    if settings.epochs is not None:
        return settings.with_steps(max(1, math.ceil(settings.epochs * batches.steps)))
    if settings.tokens is not None:
        return settings.with_steps(max(1, math.ceil(settings.tokens / batches.tokens)))
    first, file = processes(settings).is_main_process, folder and folder / "steps.json"
    steps = None
    if first and file is not None:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # not there yet
            steps = int(json.loads(file.read_text(encoding="utf-8"))["steps"])
    steps = broadcast_object_list([steps])[0]
    if steps is None:
        seconds = seconds_per_step(network, batches, settings)
        steps = broadcast_object_list([max(1, int(60 * (settings.minutes or 0) / seconds))])[0]
        if first and file is not None:
            with atomic_path(file) as path:
                path.write_text(json.dumps({"steps": steps, "seconds_per_step": seconds}), encoding="utf-8")
    return settings.with_steps(steps)


def seconds_per_step(network: nn.Module, batches: Batches, settings: TrainingSettings) -> float:
    """Return the seconds of a step, measured on a copy of the network; the first two are left out."""
    timed = replace(settings.with_steps(_TIMED), evaluations=0, log_every=1, patience=None)
    training = train(copy.deepcopy(network), batches, timed)
    if training.stopped == "interrupted":
        raise KeyboardInterrupt
    first, last = training.history[1], training.history[-1]
    return float((last["seconds"] - first["seconds"]) / (last["step"] - first["step"]))
