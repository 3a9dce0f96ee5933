"""Training of a network: the loop, from top to bottom.

Devices, processes, mixed precision and sums over processes come from accelerate. Its ``prepare`` is not used:
NCCL, on which DistributedDataParallel sums the gradients of GPUs, has no sum of sparse ones.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import InitProcessGroupKwargs, broadcast, broadcast_object_list, gather_object
from torch import Tensor, nn

from workbench.storage.errors import DataError
from workbench.texts.batches import Batches
from workbench.training import checkpoint as checkpoints
from workbench.training.checkpoint import TrainingState
from workbench.training.history import STOPPED, Progress, Training
from workbench.training.optimiser import SparseAdamW, dense_optimiser
from workbench.training.settings import TrainingSettings, torch_device

Evaluate = Callable[[nn.Module], dict[str, float]]
"""Takes the network in evaluation mode, without gradients; returns scores by name."""

State = tuple[Tensor, ...] | None
"""What a network remembers of the text before; each tensor has the rows first."""

_SECOND = 1.0  # between points of the history ...
_POINTS = 1000  # ... until there are so many; then they come ever more rarely
_FIRST = 0.001  # share of the time that the first step is taken to need
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

    Under ``torchrun`` or ``accelerate launch`` each process computes an equal part of the rows of each batch;
    the first one evaluates and writes.

    Parameters
    ----------
    network : nn.Module
        ``network(batch, state)`` returns the mean of -ln p over the predicted words, as many in each row, and
        the state after it: tensors with the rows first. It is trained in place.
    batches : Batches
    settings : TrainingSettings
    evaluate : Evaluate, optional
    folder : Path, optional
        Folder of the checkpoints. The training continues from the newest one in it. Without a folder the
        network has the last weights at the end, not the best.
    progress : Progress, optional
        Progress callback; silent by default.
    name : str
        Name of what is trained.
    key : str
        What else a checkpoint must be of to be continued, such as a digest of the text.

    Returns
    -------
    Training
        The history. The same call continues an interrupted training. DataError if the loss or the gradient is
        not finite.
    """
    settings = settings.in_steps(batches.steps, batches.tokens)
    run = _Run(network, batches, settings, evaluate, folder, progress)
    with run.started(name, key):
        while not run.training.stopped:
            batch = run.batch()  # the rows of this process, on its device
            loss, state = run.gradients(batch)  # means over all processes
            norm = nn.utils.clip_grad_norm_([*run.dense, *run.sparse.rows()], settings.clip or math.inf)
            run.update(settings.rate(run.step, run.share))
            run.finish_step(loss, norm, state)  # and log, evaluate, save, stop, where that is due
    return run.training


class _Run:
    """A training in this process."""

    interrupted = False

    def __init__(  # noqa: PLR0917 - those of `train`
        self,
        network: nn.Module,
        batches: Batches,
        settings: TrainingSettings,
        evaluation: Evaluate | None,
        folder: Path | None,
        progress: Progress | None,
    ) -> None:
        self.network, self.batches, self.settings = network, batches, settings
        self.accelerator = accelerator = processes(settings)
        self.several = accelerator.num_processes > 1
        self.folder, self.evaluation, self.progress = folder, evaluation, progress
        if not accelerator.is_main_process:
            self.folder = self.evaluation = self.progress = None
        self.device = accelerator.device if self.several else torch_device(settings.device)
        self.gpus = [self.device] if self.device.type == "cuda" else []
        network.to(self.device)
        rows, rest = divmod(batches.rows, accelerator.num_processes)
        if rest:
            raise DataError(
                f"{batches.rows} rows a batch cannot be shared evenly by {accelerator.num_processes}"
                " processes",
                hint="pass a multiple of the number of processes as rows",
            )
        self.rows = slice(accelerator.process_index * rows, (accelerator.process_index + 1) * rows)
        trained = [weight for weight in network.parameters() if weight.requires_grad]
        sparse = {id(module.weight) for module in network.modules() if getattr(module, "sparse", False)}
        self.dense = [weight for weight in trained if id(weight) not in sparse]
        self.optimiser = dense_optimiser(self.dense, settings)
        self.sparse = SparseAdamW([weight for weight in trained if id(weight) in sparse], settings)
        compiled = bool(self.gpus) if settings.compile is None else settings.compile
        self.forward: Callable[..., Any] = torch.compile(network) if compiled else network
        self.state: State = None  # carried from step to step where the batches continue each other
        self.step = self._point_step = 0  # steps that are done, and those at the last point of the history
        self._loss = torch.zeros((), dtype=torch.float64, device=self.device)  # sum since the last point
        self._bad_step = torch.full((), torch.inf, device=self.device)  # the first that is not finite
        self.share = _FIRST  # of the minutes, after the next step
        self._evaluated_in = 0.0  # seconds of the longest evaluation
        self._begun = self._saved = self._lap = self._step_begun = time.monotonic()

    @contextlib.contextmanager
    def started(self, name: str, key: str) -> Iterator[None]:
        """Begin, or continue from the newest checkpoint; end properly afterwards."""
        with contextlib.ExitStack() as stack:
            if self.folder is not None:
                stack.enter_context(checkpoints.only_process(self.folder))
            for gpu in self.gpus:
                stack.enter_context(torch.cuda.device(gpu))
            stack.enter_context(torch.random.fork_rng(devices=self.gpus))
            stack.callback(self.network.train, self.network.training)
            stack.enter_context(self._completed_steps())
            self._begin(name, key)
            try:
                yield
            finally:
                self.training.stopped = self.training.stopped or "error"
                self._show()
            self._finish()

    @contextlib.contextmanager
    def _completed_steps(self) -> Iterator[None]:
        """Complete a step after Ctrl-C, or the stop button of a notebook; a second one stops at once."""
        if threading.current_thread() is not threading.main_thread():  # which alone gets signals
            yield
            return
        before = signal.getsignal(signal.SIGINT)

        def interrupt(*_: object) -> None:
            self.interrupted = True
            signal.signal(signal.SIGINT, before)

        signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _begin(self, name: str, key: str) -> None:
        """Begin a training, or continue from a checkpoint; DataError if it is of a different training."""
        self.network.train()
        newest = None if self.folder is None else checkpoints.newest(self.folder)
        checkpoint: TrainingState | None = broadcast_object_list([newest])[0]
        self._identity = checkpoints.identity(self.network, self.batches, self.settings, key)
        training = Training(**checkpoint.info["training"]) if checkpoint else Training()
        self.training = replace(
            training, name=name, device=str(self.device), steps=self.settings.steps or training.steps,
            best_by=self.settings.best_by, unit=self.batches.unit,
            stopped="" if training.stopped == "interrupted" else training.stopped,
            parameters=sum(weight.numel() for weight in [*self.dense, *self.sparse.weights]),
        )  # fmt: skip
        rank = self.accelerator.process_index
        random = self._continue(checkpoint) if checkpoint else []
        if len(random) == self.accelerator.num_processes and len(random[rank]) == len(self._random_state()):
            for generator, state in zip(self._generators(), random[rank], strict=True):
                generator.set_state(state)
        else:  # anew, or a checkpoint of other processes, or of another kind of device
            for generator in self._generators():
                generator.manual_seed(self.settings.seed + _SEEDS_APART * rank + self.step)
        broadcast(self.network.state_dict())
        self._show()

    def _continue(self, checkpoint: TrainingState) -> list[list[Tensor]]:
        """Restore a checkpoint of the same training; return the states of its random generators."""
        if checkpoint.identity != self._identity:
            raise DataError(
                "this folder holds a training with another network, other settings or another text",
                file=self.folder,
                hint="pass another folder, or remove this one to begin anew",
            )
        self.network.load_state_dict(checkpoint.weights, strict=False)
        self.optimiser.load_state_dict(checkpoint.state["optimiser"])
        self.sparse.load(checkpoint.state["sparse"])
        self.step = self._point_step = checkpoint.step
        if carried := checkpoint.state["carried"]:
            self.state = tuple(values[self.rows].clone().to(self.device) for values in carried)
        self.share = checkpoint.info["share"]
        self._begun -= checkpoint.info["seconds"]
        random: list[list[Tensor]] = checkpoint.state["random"]
        return random

    def _generators(self) -> list[torch.Generator]:
        """Return the random generators: of the CPU, and of the GPU where one computes."""
        return [torch.default_generator, *(torch.cuda.default_generators[gpu.index] for gpu in self.gpus)]

    def _random_state(self) -> list[Tensor]:
        return [generator.get_state() for generator in self._generators()]

    def batch(self) -> dict[str, Tensor]:
        """Return the rows of this process of the next batch, on the device."""
        self._step_begun = time.monotonic()
        arrays = self.batches.batch(self.step, self.rows)
        tensors = {name: torch.from_numpy(np.array(values)) for name, values in arrays.items()}
        if self.gpus:
            tensors = {name: values.pin_memory() for name, values in tensors.items()}
        return {name: values.to(self.device, non_blocking=True) for name, values in tensors.items()}

    def gradients(self, batch: dict[str, Tensor]) -> tuple[Tensor, State]:
        """Set the gradients of the mean loss of a batch; return the loss and the carried state after it."""
        self.network.zero_grad(set_to_none=True)
        with self.accelerator.autocast():
            loss, after = self._forward(batch)
        loss.backward()
        for is_sparse, weights in ((False, self.dense), (True, self.sparse.weights)):
            for weight in weights:
                if weight.grad is None:  # it had no part in this batch
                    weight.grad = torch.zeros_like(weight)
                if self.several:
                    weight.grad = self.accelerator.reduce(weight.grad.to_dense(), "mean")
                if is_sparse and not weight.grad.is_sparse:
                    weight.grad = weight.grad.to_sparse(1)
        carried = after is not None and self.batches.carried
        state = tuple(values.detach() for values in after) if carried else None
        return self.accelerator.reduce(loss.detach(), "mean"), state

    def _forward(self, batch: dict[str, Tensor]) -> Any:
        try:
            return self.forward(batch, self.state)
        except Exception as error:
            if self.forward is self.network:
                raise
            self.forward = self.network
            result = self.network(batch, self.state)  # an error of the network itself is raised here
            reason = str(error).strip().partition("\n")[0]
            note = f"torch.compile failed, so it is not used ({type(error).__name__}: {reason})"
            self.training.notes.append(note)
            return result

    def update(self, rate: float) -> None:
        """Update the weights at a learning rate."""
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.step()
        self.sparse.step(rate)

    def finish_step(self, loss: Tensor, norm: Tensor, state: State) -> None:
        """Count a step; then log, evaluate, save and stop where that is due."""
        self.state, rate = state, self.settings.rate(self.step, self.share)
        self.step += 1
        self._loss += loss
        is_finite = loss.isfinite() & norm.isfinite()  # stays on the device: reading it would wait
        self._bad_step = torch.where(is_finite, self._bad_step, self._bad_step.clamp(max=self.step))
        settings, share = self.settings, self.share
        agree = self.step % _AGREE == 0
        if settings.minutes is not None and (agree or not self.several):
            self._measure_share(60 * settings.minutes)
        last = self.share >= 1 if settings.minutes is not None else self.step >= settings.n_steps
        due = settings.evaluates(self.step, (share, self.share))
        now, every, pause = time.monotonic(), settings.log_every, max(_SECOND, self._seconds() / _POINTS)
        save = now - self._saved >= settings.save_every or self.interrupted
        log = due or last or save or (self.step % every == 0 if every else now - self._lap >= pause)
        if not (agree or due or last if self.several else log):
            return
        self._check_finite()
        if log:
            self._add_point(rate)
        if due and self.evaluation is not None:
            self._evaluate(self.evaluation)
        stop = "interrupted" if self.interrupted else ""
        stop = "finished" if last else "early" if self._patience_is_over() else stop
        save |= bool(stop) or self.training.best.get("step") == self.step
        if self.several:  # what one of them does all do
            stops, saves = zip(*gather_object([(STOPPED.index(stop), save)]), strict=True)
            stop, save = STOPPED[max(stops)], any(saves)
        self.training.stopped = stop
        if save:
            self._save()
        if log:
            self._lap = time.monotonic()
            self._show()

    def _measure_share(self, limit: float) -> None:
        """Set the share of a limit in seconds that will have passed after the next step; 1 ends the training.

        The time of the longest evaluation is set aside for the last one. Several processes take the share of
        the first one.
        """
        ahead = (time.monotonic() - self._step_begun) * (_AGREE if self.several else 1)
        remaining = limit - self._evaluated_in - self._seconds() - ahead
        share = 1.0 if remaining <= 0 else 1 - remaining / (limit - self._evaluated_in)
        self.share = max(self.share, broadcast_object_list([share])[0])
        self.training.steps = max(self.step, round(self.step / self.share))  # an estimate

    def _check_finite(self) -> None:
        """Raise DataError if a loss or gradient was not finite; this waits for the device."""
        if math.isfinite(step := self._bad_step.item()):
            raise DataError(
                f"loss or gradient is not finite (not a number) in step {step:,.0f}"
                f" ({step * self.batches.tokens:,.0f} {self.batches.unit})",
                hint=f"train with a lower learning rate than {self.settings.learning_rate:g}",
            )

    def _evaluate(self, evaluation: Evaluate) -> None:
        start = time.monotonic()
        with torch.random.fork_rng(devices=self.gpus), torch.no_grad():
            scores = evaluation(self.network.eval())
        self.network.train()
        self._evaluated_in = max(self._evaluated_in, time.monotonic() - start)
        if self.settings.best_by not in scores and not self.training.scores:
            note = f"there is no score {self.settings.best_by!r}, only {', '.join(scores)}"
            self.training.notes.append(note)
        numbers = {name: float(score) for name, score in scores.items()}
        self.training.scores.append({**self._progress(), **numbers})

    def _patience_is_over(self) -> bool:
        patience, best = self.settings.patience, self.training.best.get("step", 0)
        worse = [row for row in self.training.scores if row["step"] > best]
        return patience is not None and len(worse) >= patience

    def _seconds(self) -> float:
        """Return the seconds since the beginning, those before an interruption included."""
        return time.monotonic() - self._begun

    def _progress(self) -> dict[str, Any]:
        return {"step": self.step, "tokens": self.step * self.batches.tokens, "seconds": self._seconds()}

    def _add_point(self, rate: float) -> None:
        """Add a point to the history."""
        n_steps = self.step - self._point_step
        point = {
            "loss": self._loss.item() / n_steps,
            "tokens_per_second": n_steps * self.batches.tokens / (time.monotonic() - self._lap),
            "learning_rate": rate,
        }
        self.training.history.append({**self._progress(), **point})
        self._loss.zero_()
        self._point_step = self.step

    def _show(self) -> None:
        if self.progress is not None:
            self.progress(self.training)

    def _save(self) -> None:
        """Write a checkpoint of all processes."""
        carried = None if self.state is None else self.accelerator.gather(self.state)
        random = gather_object([self._random_state()])
        if self.folder is not None:
            training = asdict(self.training)
            info = {"training": training, "seconds": self._seconds(), "share": self.share}
            state = {
                "optimiser": self.optimiser.state_dict(),
                "sparse": self.sparse.state,
                "carried": [values.cpu().clone() for values in carried or ()],
                "random": random,
            }
            weights = checkpoints.weights(self.network)
            checkpoint = TrainingState(self.step, self._identity, info, weights, state)
            best = self.training.best.get("step", self.step)
            checkpoints.save_checkpoint(self.folder, checkpoint, keep=[best])
        self._saved = time.monotonic()

    def _finish(self) -> None:
        """Leave the best weights in the network, the same ones and the same record in all processes."""
        best = self.training.best.get("step", self.step)
        is_over = self.training.stopped in {"finished", "early"}
        if is_over and self.settings.keep == "best" and best != self.step and self.folder is not None:
            saved = checkpoints.read_checkpoint(self.folder / checkpoints.folder_name(best))
            self.network.load_state_dict(saved.weights, strict=False)
        broadcast(self.network.state_dict())
        self.training = broadcast_object_list([self.training])[0]


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
