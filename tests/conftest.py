import gc
import os
import secrets
import shutil
import sys
import tempfile
from contextlib import suppress
from functools import cache
from multiprocessing import util
from pathlib import Path

import pytest
from hypothesis import HealthCheck, core, settings

# a machine under load must not fail a property; a failure says how to repeat it, and its seed
settings.register_profile(
    "patient", deadline=None, max_examples=30, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")

_PLACES = ("WORKBENCH_DATA", "WORKBENCH_HOME")
_SLOW_FILE = Path(__file__).with_name("slow.txt")
_SLOW, _SLOW_SETUP = 0.1, 2.0  # seconds of a test, and of a set-up that the tests of a file share
_seconds: dict[str, dict[str, float]] = {}  # of each case of each test
_slow_files: set[str] = set()

# Else each of many processes compiles the package and the tests anew: a third of what collection takes.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ["LOKY_MAX_CPU_COUNT"] = "1"  # each process would import the package: tests say how many they want
os.environ["TQDM_DISABLE"] = "1"  # no progress bars, in child processes either


def pytest_addoption(parser):
    parser.addoption(
        "--note-slow",
        action="store_true",
        help=f"list tests of {_SLOW} s or more in {_SLOW_FILE.name}, with their seconds",
    )


def pytest_configure(config):
    """Keep what tests store apart from a user's runs, notes and cache, and remove temporary files at the end.

    All processes share one folder. Those of ``tmp_path`` are where pytest has them always: it keeps some.
    A seed is chosen where none is given: one that hypothesis draws by itself could not be printed.
    """
    if config.getoption("--hypothesis-seed", None) is None:
        core.global_force_seed = secrets.randbits(32)
    if "PYTEST_XDIST_WORKER" not in os.environ:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
        util.get_temp_dir()  # of multiprocessing, which removes it at exit, after the folder below is gone
        folder = tempfile.TemporaryDirectory(prefix="workbench-", ignore_cleanup_errors=True)
        config.add_cleanup(folder.cleanup)
        Path(folder.name).chmod(0o755)  # some tests read and write as another user
        for name, place in (("WORKBENCH_HOME", "home"), ("TMPDIR", "tmp")):
            os.environ[name] = f"{folder.name}/{place}"
            Path(folder.name, place).mkdir()
        tempfile.tempdir = None  # look at TMPDIR again


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Let one of two workers run all browser tests, and one all tests on a Dask cluster.

    Each worker that has some starts a JupyterLab, a Chromium and a kernel, or the process that a cluster's
    workers are forked from. Of more workers each takes a file of them, as one alone would end last.
    """
    if config.getvalue("dist") != "loadfile" or config.getvalue("numprocesses") != 2:
        return None
    from xdist.scheduler import LoadFileScheduling  # noqa: PLC0415 - xdist is here if it calls this

    @cache
    def shared(file):
        if file.startswith("tests/browser/"):
            return "browser"
        content = (config.rootpath / file).read_text(encoding="utf-8")
        return "cluster" if "from dask_cluster import" in content else file

    class Shared(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return shared(super()._split_scope(nodeid))

    return Shared(config, log)


@pytest.hookimpl(tryfirst=True)  # before tests are left out by their markers
def pytest_collection_modifyitems(items):
    """Mark the tests, and those of the files, that were slow when they were last measured."""
    slow = _noted_seconds()
    for item in items:
        test = item.nodeid.partition("[")[0]
        if test in slow or test.partition("::")[0] in slow:
            item.add_marker("slow")


def pytest_runtest_logreport(report):
    """Measure the cases of a test together, and look for set-ups that the tests of a file share."""
    test = report.nodeid.partition("[")[0]
    if "browser" not in report.keywords:  # left out by that marker
        cases = _seconds.setdefault(test, {})
        cases[report.nodeid] = cases.get(report.nodeid, 0) + report.duration
        if report.when == "setup" and report.duration >= _SLOW_SETUP:
            _slow_files.add(test.partition("::")[0])


def pytest_collection_finish():
    """Spare the garbage collector the collected tests and the libraries, and let it look less often.

    The first saves a seventh of all processor time, the second a tenth of the rest.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_sessionfinish(session):
    gc.unfreeze()
    if session.config.option.note_slow and not hasattr(session.config, "workerinput"):  # of xdist
        _note_slow()


def _noted_seconds() -> dict[str, float]:
    """Return the seconds of each slow test or file when it was last measured."""
    lines = _SLOW_FILE.read_text(encoding="utf-8").splitlines()
    return {test: float(*seconds or [_SLOW]) for *seconds, test in (line.split() for line in lines)}


def _note_slow():
    """Write which tests and files were slow, the slowest first; what did not run stays as it was noted.

    The seconds are those of all cases of a test, and of all tests of a file.
    """
    seconds = {test: sum(cases.values()) for test, cases in _seconds.items()}
    slow = {test: seconds[test] for test, cases in _seconds.items() if seconds[test] >= _SLOW * len(cases)}
    for file in _slow_files:
        slow[file] = sum(seconds[test] for test in seconds if test.partition("::")[0] == file)
    measured = seconds.keys() | {test.partition("::")[0] for test in seconds}
    slow |= {test: noted for test, noted in _noted_seconds().items() if test not in measured}
    tests = [test for test in slow if test.partition("::")[0] not in slow.keys() - {test}]
    tests.sort(key=lambda test: (-round(slow[test], 1), test))
    _SLOW_FILE.write_text("".join(f"{slow[test]:.1f} {test}\n" for test in tests), encoding="utf-8")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    outcome = yield
    report = outcome.get_result()
    if report.failed and getattr(item.obj, "is_hypothesis_test", False):
        report.sections.append(("Hypothesis", f"repeat with --hypothesis-seed={core.global_force_seed}"))


def _torch_threads():
    return sys.modules["torch"].get_num_threads() if "torch" in sys.modules else None


@pytest.fixture(autouse=True)
def same_process():
    """Refuse a test that leaves other folders or more threads behind.

    Tests after it would be skipped, write elsewhere, or take four times as long.
    """
    folders, threads = [os.environ.get(name) for name in _PLACES], _torch_threads()
    yield
    assert [os.environ.get(name) for name in _PLACES] == folders
    assert threads in {None, _torch_threads()}


def _real_data() -> Path:
    folder = os.environ.get("WORKBENCH_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("needs the real data sets: set WORKBENCH_DATA to their folder")
    return Path(folder)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Skip what needs the real data sets before a fixture of its file looks for them."""
    if item.get_closest_marker("data"):
        _real_data()


@pytest.fixture
def real_data() -> Path:
    """Give the folder with the real data sets, or skip."""
    return _real_data()


@pytest.fixture
def no_data(tmp_path, monkeypatch) -> Path:
    """Hide every data set of this machine."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.delenv("WORKBENCH_DATA", raising=False)
    monkeypatch.setenv("WORKBENCH_HOME", str(home))
    return home


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """Keep what a test stores in a folder of its own."""
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture(scope="module")
def module_home(tmp_path_factory):
    """Keep what the tests of a module store in a folder of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_HOME", str(tmp_path_factory.mktemp("home")))
        yield


def _link(source, target):
    try:
        os.link(source, target)
    except OSError:  # on another disk
        shutil.copy2(source, target)


@pytest.fixture(scope="session")
def link_converted():
    """Give a function that puts the language model, as the set-up converted it, into a home of tests.

    To convert it anew takes half a minute of processor time.
    """
    made = Path(__file__).parents[1] / "data" / "cache" / "gguf"

    def link(home):
        for folder in made.glob("[!.]*") if made.is_dir() else ():
            with suppress(FileExistsError):
                shutil.copytree(folder, Path(home, "cache", "gguf", folder.name), copy_function=_link)

    return link


@pytest.fixture(scope="session")
def smollm(link_converted) -> str:
    """Give the short name of the language model that the set-up installs, and has converted."""
    link_converted(os.environ["WORKBENCH_HOME"])
    return "smollm2-135m"


@pytest.fixture(scope="session")
def items():
    """Give 24 passages of the sample."""
    import workbench as wb  # noqa: PLC0415 - after the home is set

    return wb.load("sample", "dev").sample(24)


@pytest.fixture(scope="session")
def sample_ngram():
    """Give a trigram model of the sample's novels."""
    import workbench as wb  # noqa: PLC0415 - after the home is set

    return wb.models.NGram.fit(wb.books("sample", "train"), order=3)


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
