import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from refused import refused
from torch.optim import lr_scheduler

from workbench.training.settings import TrainingSettings, torch_device

SCHEDULES = ["cosine", "linear", "constant"]


class Bare(torch.optim.Optimizer):
    """An optimiser that has a learning rate and nothing else; a real one loads the compiler first."""

    def __init__(self, rate):
        self.param_groups, self.defaults = [{"lr": rate, "params": []}], {}

    def step(self):
        pass


def by_torch(settings):
    """Give the learning rates by torch's schedules."""
    optimiser = Bare(settings.learning_rate)
    rising = settings.rising
    rise = lr_scheduler.LinearLR(optimiser, start_factor=1 / rising, total_iters=max(rising - 1, 1))
    left, lowest = max(1, settings.steps - rising), settings.final * settings.learning_rate
    schedule = {
        "cosine": lambda: lr_scheduler.CosineAnnealingLR(optimiser, left, eta_min=lowest),
        "linear": lambda: lr_scheduler.LinearLR(optimiser, 1.0, settings.final, left),
        "constant": lambda: lr_scheduler.ConstantLR(optimiser, 1.0),
    }[settings.schedule]()
    if rising > 1:
        schedule = lr_scheduler.SequentialLR(optimiser, [rise, schedule], milestones=[rising - 1])
    rates = []
    for _ in range(settings.steps):
        rates.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        schedule.step()
    return rates


@pytest.mark.filterwarnings("ignore:The epoch parameter in")  # of torch's own SequentialLR
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("steps", "warm_up", "final"), [(100, 0.1, 0.1), (57, 0.5, 0.0), (7, 0.0, 0.3), (9, 1.0, 1.0)]
)
def test_the_rates_are_those_of_torch(schedule, steps, warm_up, final):
    shape = {"schedule": schedule, "warm_up": warm_up, "final": final}
    settings = TrainingSettings(steps=steps, learning_rate=0.3, **shape)
    rates = [settings.rate(step) for step in range(steps)]
    assert rates == pytest.approx(by_torch(settings), rel=1e-9)
    assert max(rates) == 0.3
    if schedule != "constant" and warm_up < 1:
        assert rates[-1] == pytest.approx(0.3 * final)


@given(st.integers(1, 1000), st.integers(0, 50))
def test_evaluations_are_spread_evenly_and_the_last_is_at_the_end(steps, evaluations):
    settings = TrainingSettings(steps=steps, evaluations=evaluations)
    places = [step for step in range(steps + 1) if settings.evaluates(step)]
    assert len(places) == min(steps, evaluations)
    if places:
        assert places[-1] == steps
        gaps = np.diff([0, *places])
        assert max(gaps) - min(gaps) <= 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", 0), ("learning_rate", -1), ("learning_rate", float("nan")), ("learning_rate", ".1"),
        ("learning_rate", None), ("warm_up", 2), ("schedule", "steep"), ("precision", "float8"),
        ("keep", None), ("clip", 0), ("betas", (0.9,)), ("betas", (0.9, 1.0)), ("save_every", -1),
        ("patience", 0), ("patience", "abc"), ("evaluations", float("inf")), ("minutes", 0), ("epochs", 1.0),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_name(name, value):
    refused(TrainingSettings, **{"steps": 5, name: value})


def test_what_decides_the_weights():
    one = TrainingSettings(steps=5, device="cuda:7", save_every=1, log_every=3, compile=True)
    assert one.identity() == TrainingSettings(steps=5).identity()
    assert one.identity() != TrainingSettings(steps=5, seed=1).identity()
    assert one.identity()["betas"] == [0.9, 0.98]


def test_the_length_in_steps():
    settings = TrainingSettings(minutes=3, seed=4)
    assert settings.in_steps(10, 40) == settings
    assert TrainingSettings(epochs=0.65).in_steps(10, 40) == TrainingSettings(steps=7)
    assert TrainingSettings(tokens=241).in_steps(10, 40) == TrainingSettings(steps=7)
    refused(TrainingSettings)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("warm_up", [0.0, 0.2, 1.0])
def test_minutes_have_the_schedule_of_steps_by_the_share_of_the_time(schedule, warm_up):
    shape = {"schedule": schedule, "warm_up": warm_up, "evaluations": 4}
    steps, timed = TrainingSettings(steps=1000, **shape), TrainingSettings(minutes=5, **shape)
    shares = np.arange(1, 1001) / 1000
    expected = [steps.rate(step) for step in range(1000)]
    assert [timed.rate(0, share) for share in shares] == pytest.approx(expected, rel=0.02)
    pairs = zip([0.0, *shares], shares, strict=False)
    evaluated = [shares[k] for k, pair in enumerate(pairs) if timed.evaluates(7, pair)]
    assert evaluated == [0.25, 0.5, 0.75, 1.0]


def test_devices_by_name():
    assert torch_device("cpu") == torch.device("cpu")
    assert torch_device().type == ("cuda" if torch.cuda.is_available() else "cpu")
    messages = [
        "warp",
        "cuda:99",
        "meta",
    ]
    for name in messages:
        refused(torch_device, name)
