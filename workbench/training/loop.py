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
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import FrameType
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
from workbench.training.checkpoint import TrainingState, random_state, seed_generators, set_random_state
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
        Folder of the checkpoints. With a complete one in it the training continues from there. Without a
        folder the network has the last weights at the end, not the best.
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
        not finite: the network then has the weights before that step.
    """
    settings = settings.in_steps(batches.steps, batches.tokens)
    run = _Run(network, batches, settings, evaluate, folder, progress or Progress())
    with run.started(name, key):
        while not run.stopped:
            batch = run.batch()  # the rows of this process, on its device
            loss, state = run.gradients(batch)  # means over all processes
            norm = nn.utils.clip_grad_norm_([*run.dense, *run.sparse.rows()], settings.clip or math.inf)
            run.detect_non_finite(loss, norm)  # from then on no step changes anything
            run.update(settings.rate(run.step, run.share))
            run.finish_step(loss, state)  # and log, evaluate, save, stop, where that is due
    return run.training


class _Run:
    """A training in this process."""

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
        self.writes = folder if self.first else None
        self.progress = progress if self.first else Progress()
        self.device = accelerator.device if several > 1 else torch_device(settings.device)
        self.gpus = [self.device] if self.device.type == "cuda" else []
        network.to(self.device)
        rows, rest = divmod(batches.rows, several)
        if rest:
            raise DataError(
                f"{batches.rows} rows a batch cannot be shared evenly by {several} processes",
                hint="pass a multiple of the number of processes as rows",
            )
        self.rows = slice(accelerator.process_index * rows, (accelerator.process_index + 1) * rows)
        self.micro_rows = min(settings.micro_rows or rows, rows)  # rows that are computed at a time
        trained = [weight for weight in network.parameters() if weight.requires_grad]
        sparse = {id(module.weight) for module in network.modules() if getattr(module, "sparse", False)}
        self.dense = [weight for weight in trained if id(weight) not in sparse]
        self.optimiser = dense_optimiser(self.dense, settings)
        self.sparse = SparseAdamW([weight for weight in trained if id(weight) in sparse], settings)
        compiled = bool(self.gpus) if settings.compile is None else settings.compile
        self.forward: Callable[..., Any] = torch.compile(network) if compiled else network
        self.step = 0  # steps that are done
        self.share = self._share_before = _FIRST  # of the time, after the next step and after the last one
        self._evaluated_in = 0.0  # seconds of the longest evaluation
        self.state: State = None  # carried from step to step where the batches continue each other
        self.bad = torch.zeros((), device=self.device)  # 1 from the first step on that is not finite
        zero = torch.zeros((), dtype=torch.float64, device=self.device)
        self._good, self._first_step = zero.clone(), 0  # number of finite steps since the first one here
        self._bad_step: int | None = None
        self._loss, self._point_step = zero, 0  # sum since the last point, and the step of that
        self._begun = self._saved = self._lap = self._step_begun = time.monotonic()

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
        with contextlib.ExitStack() as stack:
            if self.writes is not None:
                stack.enter_context(checkpoints.only_process(self.writes))
            for gpu in self.gpus:
                stack.enter_context(torch.cuda.device(gpu))
            stack.enter_context(torch.random.fork_rng(devices=self.gpus))
            stack.callback(self.network.train, self.network.training)
            self.network.train()
            stack.enter_context(self.interrupts.caught())
            newest = None if self.writes is None else checkpoints.newest(self.writes)
            self._begin(broadcast_object_list([newest])[0], name, key)
            try:
                self._after_step()  # what was due when it was interrupted
                yield
            finally:
                self.progress.end(self.training)
            self._finish()

    def _begin(self, checkpoint: TrainingState | None, name: str, key: str) -> None:
        """Begin a training, or continue from a checkpoint; DataError if it is of a different training."""
        settings, rank = self.settings, self.accelerator.process_index
        self.identity = checkpoints.identity(self.network, self.batches, settings, key)
        training = Training.from_json(checkpoint.info["training"] if checkpoint else {})
        self.training = replace(
            training, name=name, folder=self.folder, device=str(self.device),
            steps=settings.steps or training.steps,
            best_by=settings.best_by, unit=self.batches.unit,
            parameters=sum(weight.numel() for weight in [*self.dense, *self.sparse.weights]),
        )  # fmt: skip
        if self.stopped in {"interrupted", "not a number"}:
            self.training.stopped = ""
        seed = settings.seed + _SEEDS_APART * rank
        if checkpoint is None:
            seed_generators(seed, self.device)
        else:
            self._continue(checkpoint)
            random, current = checkpoint.state["random"], random_state(self.device)
            if len(random) == self.accelerator.num_processes and len(random[rank]) == len(current):
                set_random_state(random[rank], self.device)
            else:  # by other processes, or on another kind of device
                seed_generators(seed + self.step, self.device)
        broadcast(self.network.state_dict())
        self.progress.begin(self.training, self.step)

    def _continue(self, checkpoint: TrainingState) -> None:
        """Restore weights, optimiser and carried state from a checkpoint of the same training."""
        if checkpoint.identity != self.identity:
            raise DataError(
                "this folder holds a training with another network, other settings or another text",
                file=self.folder,
                hint="pass another folder, or remove this one to begin anew",
            )
        checkpoints.set_weights(self.network, checkpoint.weights)
        self.optimiser.load_state_dict(checkpoint.state["optimiser"])
        self.sparse.load(checkpoint.state["sparse"])
        self.step = self._first_step = self._point_step = checkpoint.step
        if carried := checkpoint.state["carried"]:
            self.state = tuple(values[self.rows].clone().to(self.device) for values in carried)
        self._share_before, self.share = checkpoint.info["shares"]
        self._begun -= checkpoint.info["seconds"]

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
        rows = len(next(iter(batch.values())))
        total, states = torch.zeros((), device=self.device), []
        for start in range(0, rows, self.micro_rows):
            micro = slice(start, min(start + self.micro_rows, rows))
            state = None if self.state is None else tuple(values[micro] for values in self.state)
            with self.accelerator.autocast():
                loss, after = self._forward({name: value[micro] for name, value in batch.items()}, state)
            loss = loss * ((micro.stop - micro.start) / rows)
            loss.backward()
            total += loss.detach()
            if after is not None and self.batches.carried:
                states.append([values.detach() for values in after])
        for is_sparse, weights in ((False, self.dense), (True, self.sparse.weights)):
            for weight in weights:
                if weight.grad is None:  # it had no part in this batch
                    weight.grad = torch.zeros_like(weight)
                if self.accelerator.num_processes > 1:
                    weight.grad = self.accelerator.reduce(weight.grad.to_dense(), "mean")
                if is_sparse and not weight.grad.is_sparse:
                    weight.grad = weight.grad.to_sparse(1)
        carried = tuple(map(torch.cat, zip(*states, strict=True))) if states else None
        return self.accelerator.reduce(total, "mean"), carried

    def _forward(self, batch: dict[str, Tensor], state: State) -> Any:
        try:
            return self.forward(batch, state)
        except Exception as error:
            if self.forward is self.network:
                raise
            self.forward = self.network
            result = self.network(batch, state)  # an error of the network itself is raised here
            reason = str(error).strip().partition("\n")[0]
            self._note(f"torch.compile failed, so it is not used ({type(error).__name__}: {reason})")
            return result

    def detect_non_finite(self, loss: Tensor, norm: Tensor) -> None:
        """Detect a loss or gradient that is not finite, without waiting for the device."""
        self.bad = torch.maximum(self.bad, (~(loss.isfinite() & norm.isfinite())).float())
        self._good += 1 - self.bad

    def update(self, rate: float) -> None:
        """Update the weights at a learning rate, unless a loss or gradient was not finite."""
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.found_inf = self.bad  # type: ignore[attr-defined] # as torch's GradScaler sets it
        self.optimiser.step()
        self.sparse.step(rate, skip=self.bad)

    def finish_step(self, loss: Tensor, state: State) -> None:
        """Count a step, then evaluate, save and report where due."""
        if state is not None:  # after a loss that is not finite the last good one stays
            before = self.state or tuple(map(torch.zeros_like, state))
            pairs = zip(state, before, strict=True)
            self.state = tuple(torch.where(self.bad == 0, new, old) for new, old in pairs)
        self._loss += torch.where(self.bad == 0, loss, 0.0)
        self.step += 1
        if self.settings.minutes is not None:
            self._measure_share(60 * self.settings.minutes)
        self.progress.step()
        every, pause = self.settings.log_every, max(_SECOND, self.seconds / _POINTS)
        due = self.step % every == 0 if every else time.monotonic() - self._lap >= pause
        if self.first and due and self._is_good():
            self._add_point()
        self._after_step()

    def _measure_share(self, limit: float) -> None:
        """Set the share of a limit in seconds that will have passed after the next step; 1 ends the training.

        The time of the longest evaluation is set aside for the last one. Several processes take the share of
        the first one, every few steps.
        """
        self._share_before, several = self.share, self.accelerator.num_processes > 1
        if several and self.step % _AGREE:
            return
        ahead = (time.monotonic() - self._step_begun) * (_AGREE if several else 1)
        remaining = limit - self._evaluated_in - self.seconds - ahead
        share = 1.0 if remaining <= 0 else 1 - remaining / (limit - self._evaluated_in)
        self.share = max(self.share, broadcast_object_list([share])[0])
        self.training.steps = max(self.step, round(self.step / self.share))  # as far as can be told

    def _is_due(self) -> bool:
        """Return whether an evaluation is due after this step."""
        return self.settings.evaluates(self.step, (self._share_before, self.share))

    def _after_step(self) -> None:
        """Evaluate, save and stop where that is due; all processes agree about the last two."""
        if self.stopped:
            return
        if self.first:
            self._evaluate()
        timed = self.settings.minutes is not None
        last = self.share >= 1 if timed else self.step >= self.settings.n_steps
        owed = self.first and self._is_due() and not self._is_evaluated()
        is_best = self.training.best.get("step") == self.step
        save = self.first and (is_best or time.monotonic() - self._saved >= self.settings.save_every)
        stop = "finished" if last else "early" if self._patience_is_over() else ""
        if self.interrupts.asked and (not last or owed):
            stop = "interrupted"
        if self.first and (save or stop) and self._is_good():
            self._add_point()
        if self._bad_step is not None:
            stop = "not a number"
        if self.accelerator.num_processes > 1:
            if not (last or self.step % _AGREE == 0 or self._is_due()):
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
            step = self._bad_step + 1
            amount = f"{step * self.batches.tokens:,} {self.batches.unit}"
            name = checkpoints.folder_name(self._bad_step)
            where = "in memory" if self.folder is None else f"in {self.folder / name}"
            raise DataError(
                f"loss or gradient is not finite (not a number) in step {step:,} ({amount})",
                hint=f"train with a lower learning rate than {self.settings.learning_rate:g}; "
                f"the weights before this step are kept {where}",
            )
        best = training.best.get("step", self.step)
        is_over = training.stopped in {"finished", "early"}
        if is_over and self.settings.keep == "best" and best != self.step and self.writes is not None:
            saved = checkpoints.read_checkpoint(self.writes / checkpoints.folder_name(best))
            if saved is not None:
                checkpoints.set_weights(self.network, saved.weights)
            else:
                self._note(f"the weights of step {best:,}, the best ones, are gone; these are the last ones")
        broadcast(self.network.state_dict())
        self.training = broadcast_object_list([training])[0]

    def _note(self, text: str) -> None:
        self.training.notes.append(text)
        self.progress.update(self.training)

    def _evaluate(self) -> None:
        """Evaluate where that is due and was not done before."""
        training, evaluation = self.training, self.evaluation
        due = self._is_due() and not self._is_evaluated() and self._is_good()
        if evaluation is None or not due:
            return
        self._add_point()
        start = time.monotonic()
        try:
            with torch.random.fork_rng(devices=self.gpus), torch.no_grad():
                scores = self.interrupts.breakable(lambda: evaluation(self.network.eval()))
        except Exception:
            if self.accelerator.num_processes == 1:
                self._save()  # the evaluation may be wrong, the training is not
            raise
        finally:
            self.network.train()
        seconds = time.monotonic() - start
        self._lap += seconds
        self._evaluated_in = max(self._evaluated_in, seconds)
        if scores is None:
            return
        if self.settings.best_by not in scores and not training.scores:
            self._note(f"there is no score {self.settings.best_by!r}, only {', '.join(scores)}")
        training.scores.append({**self._progress(), **scores})
        self.progress.update(training)

    def _is_evaluated(self) -> bool:
        scores = self.training.scores
        return self.evaluation is None or bool(scores and scores[-1]["step"] == self.step)

    def _patience_is_over(self) -> bool:
        patience, best = self.settings.patience, self.training.best.get("step", 0)
        worse = [row for row in self.training.scores if row["step"] > best]
        return patience is not None and len(worse) >= patience

    def _progress(self) -> dict[str, Any]:
        return {"step": self.step, "tokens": self.step * self.batches.tokens, "seconds": self.seconds}

    def _is_good(self) -> bool:
        """Return whether all was finite so far; this waits for the device."""
        if self._bad_step is None and self.bad.item():
            self._bad_step = self._first_step + int(self._good.item())
        return self._bad_step is None

    def _add_point(self) -> None:
        """Add a point to the history, unless there is one of this step."""
        n_steps, now = self.step - self._point_step, time.monotonic()
        if not n_steps:
            return
        point = {
            "loss": self._loss.item() / n_steps,
            "tokens_per_second": n_steps * self.batches.tokens / (now - self._lap),
            "learning_rate": self.settings.rate(self.step - 1, self._share_before),
        }
        self.training.history.append({**self._progress(), **point})
        self._loss.zero_()
        self._lap, self._point_step = now, self.step
        self.progress.update(self.training)

    def _save(self) -> None:
        """Write a checkpoint of all processes."""
        if self.stopped == "not a number":
            self._is_good()
            self.step = self.step if self._bad_step is None else self._bad_step
        start = time.monotonic()
        carried = None if self.state is None else self.accelerator.gather(self.state)
        random = gather_object([random_state(self.device)])
        if self.writes is not None:
            info = {
                "training": self.training.to_json(),
                "seconds": self.seconds,
                "shares": [self._share_before, self.share],
            }
            state = {
                "optimiser": self.optimiser.state_dict(),
                "sparse": self.sparse.state,
                "carried": [values.cpu().clone() for values in carried or ()],
                "random": random,
            }
            weights = checkpoints.weights(self.network)
            checkpoint = TrainingState(self.step, self.identity, info, weights, state)
            best = self.training.best.get("step", self.step)
            checkpoints.save_checkpoint(self.writes, checkpoint, keep=[best])
        self._saved = time.monotonic()
        self._lap += self._saved - start


class _Interrupts:
    """Turns Ctrl-C and the stop button of a notebook into `asked`: a step or checkpoint is completed.

    What takes long and changes nothing runs under `breakable`. Only the main thread gets signals.
    """

    asked = _breakable = False

    @contextlib.contextmanager
    def caught(self) -> Iterator[None]:
        """Catch interrupts here."""
        is_main = threading.current_thread() is threading.main_thread()
        before = signal.getsignal(signal.SIGINT) if is_main else None
        if before is not None:  # a handler that is not Python's could not be put back
            signal.signal(signal.SIGINT, self._ask)
        try:
            yield
        finally:
            if before is not None:
                signal.signal(signal.SIGINT, before)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True
        if self._breakable:
            raise KeyboardInterrupt

    def breakable(self, do: Callable[[], dict[str, float]]) -> dict[str, float] | None:
        """Return the result of `do`; None if it was interrupted."""
        self._breakable = True
        try:
            return None if self.asked else do()
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
