import secrets

import pytest
from hypothesis import core


def pytest_configure(config):
    """Choose a seed where none is given: one that hypothesis draws by itself could not be printed."""
    if config.getoption("--hypothesis-seed", None) is None:
        core.global_force_seed = secrets.randbits(32)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    outcome = yield
    report = outcome.get_result()
    if report.failed and getattr(item.obj, "is_hypothesis_test", False):
        report.sections.append(("Hypothesis", f"repeat with --hypothesis-seed={core.global_force_seed}"))


@pytest.fixture(scope="session", autouse=True)
def one_core():
    """Work in this process unless a test says in how many: each of them would import the package."""
    from workbench.storage import parallel  # noqa: PLC0415 - after the home is set

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "cores", lambda: 1)
        yield


@pytest.fixture(scope="session")
def items():
    """Give 24 passages of the sample."""
    import workbench as wb  # noqa: PLC0415 - after the home is set

    return wb.load("sample", "dev").sample(24)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Give a function that returns the folder of a tiny pretrained model, which is made once."""
    import tiny_models  # noqa: PLC0415 - imports torch

    return tiny_models.makers(tmp_path_factory.mktemp)


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request, monkeypatch):
    """Give a device on which products of float32 are computed in float32."""
    import torch  # noqa: PLC0415 - slow

    if request.param == "cuda":
        if not torch.cuda.is_available():
            pytest.skip("needs a CUDA device")
        monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", False)
        monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    torch.manual_seed(0)
    return request.param
