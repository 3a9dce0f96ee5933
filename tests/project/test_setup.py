"""The set-up's scripts, without the network; KenLM's programs, where they have been built."""

import hashlib
import importlib
import io
import json
import re
import shutil
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("steps", "kenlm_build", "setup", "check_notebooks")


@pytest.fixture
def tools(monkeypatch, tmp_path):
    """The scripts as modules, working in a folder of their own instead of the checkout."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    for name in NAMES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    modules = {name: importlib.import_module(name) for name in NAMES}
    for module in modules.values():
        for name, place in vars(module).copy().items():
            if isinstance(place, Path) and place.is_relative_to(ROOT):
                monkeypatch.setattr(module, name, tmp_path / place.relative_to(ROOT))
    monkeypatch.setattr(modules["steps"], "APT_FAILED", tmp_path / "apt-failed")
    (tmp_path / ".tools").mkdir()
    yield type("Tools", (), modules)
    for name in NAMES:
        sys.modules.pop(name, None)


def archive(path, *members):
    """A tar file with members of (name, content); a content of None makes a link out of the archive."""
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content or b"")
            if content is None:
                info.type, info.linkname = tarfile.SYMTYPE, "/etc"
            tar.addfile(info, io.BytesIO(content or b""))
    return path


def test_pin_takes_kenlms_hashes_and_no_others(tools):
    a, b, c = "a" * 64, "b" * 64, "c" * 64
    lock = (
        f"jedi==1 \\\n    --hash=sha256:{a}\nkenlm==0.9 ; x \\\n    --hash=sha256:{b} \\\n"
        f"    --hash=sha256:{c}\n    # via y\nlark==1 \\\n    --hash=sha256:{a}\n"
    )
    assert tools.kenlm_build.pinned(lock) == ("0.9", [b, c])
    assert tools.kenlm_build.pinned((ROOT / "requirements.lock").read_text(encoding="utf-8"))
    with pytest.raises(tools.kenlm_build.BuildError, match="does not pin kenlm"):
        tools.kenlm_build.pinned("jedi==1\n")


EVIL = [("../evil", b"x"), ("/evil", b"x"), ("k-1/../../evil", b"x"), ("k-1/link", None)]


@pytest.mark.parametrize("member", EVIL, ids=str)
def test_archive_that_leads_out_of_its_folder_is_refused(tools, tmp_path, member):
    file = archive(tmp_path / "k.tar.gz", ("k-1/a.txt", b"one"), member)
    with pytest.raises(tools.kenlm_build.BuildError, match="no plain file inside it"):
        tools.kenlm_build.unpack(file, tmp_path / "deep" / "out")
    assert not list(tmp_path.rglob("evil"))


def test_downloaded_archive_of_another_digest_is_refused(tools, monkeypatch, tmp_path):
    def pip(*_args, **_options):
        return bool((tmp_path / "kenlm-1.tar.gz").write_bytes(b"not it"))

    monkeypatch.setattr(tools.kenlm_build, "run", pip)
    with pytest.raises(tools.kenlm_build.BuildError, match="not the one"):
        tools.kenlm_build.download(Path("uv"), "1", ["0" * 64], tmp_path)
    good = hashlib.sha256(b"not it").hexdigest()
    assert tools.kenlm_build.download(Path("uv"), "1", [good], tmp_path).name == "kenlm-1.tar.gz"


def test_boost_without_a_system_library_is_asked_for_less(tools, tmp_path):
    file = tmp_path / "CMakeLists.txt"
    wanted = "find_package(Boost 1.41.0 REQUIRED COMPONENTS\n  system\n  unit_test_framework\n)"
    file.write_text(f"a()\n{wanted}\nb()\n")
    tools.kenlm_build.relax(file)
    assert "program_options thread OPTIONAL_COMPONENTS system)\nb()" in file.read_text()
    assert "unit_test_framework" not in file.read_text()


def test_failed_build_is_one_line_is_not_tried_again_and_breaks_nothing(tools, monkeypatch, capsys, tmp_path):
    shutil.copy(ROOT / "requirements.lock", tmp_path)
    build = tools.kenlm_build
    tried = []

    def fail(*_args):
        tried.append(1)
        build.HOME.mkdir(exist_ok=True)
        raise build.BuildError("the compiler stopped")

    monkeypatch.setattr(build, "present", lambda _version: False)
    monkeypatch.setattr(build, "apt_install", lambda *_packages: False)
    monkeypatch.setattr(build, "build", fail)
    for message in ("libboost-thread-dev", "the compiler stopped", "failed before"):
        monkeypatch.setattr(build, "has_boost", lambda _compiler, text=message: "boost" not in text)
        build.ensure(lambda: Path("uv"), lambda: "c++")
        assert message in capsys.readouterr().out.splitlines()[-1]
    assert tried == [1]


def test_apt_is_for_root_and_a_failure_is_remembered(tools, monkeypatch):
    commands = []

    def run(command, **_options):
        commands.append(command)
        return False

    monkeypatch.setattr(tools.steps, "run", run)
    monkeypatch.setattr(tools.steps.shutil, "which", lambda name: f"/usr/bin/{name}")
    for user, forbidden in ((1000, ""), (0, "1")):
        monkeypatch.setattr(tools.steps.os, "geteuid", lambda user=user: user)
        monkeypatch.setenv("WORKBENCH_NO_APT", forbidden)
        assert not tools.steps.apt_install("x")
        assert not commands
    monkeypatch.delenv("WORKBENCH_NO_APT")
    for _ in range(2):
        assert not tools.steps.apt_install("x")
    assert [command[3] for command in commands] == ["update", "install"]


def test_fingerprint_follows_the_lock_and_the_place(tools, tmp_path):
    def copy(place):
        (place / "tools").mkdir(parents=True)
        names = ("requirements.lock", "models.lock", "pyproject.toml", "tools/setup.py", "tools/steps.py")
        for name in names:
            shutil.copy(ROOT / name, place / name)
        return place

    one, two = copy(tmp_path / "one"), copy(tmp_path / "two")
    before = tools.setup.fingerprint(one)
    assert before == tools.setup.fingerprint(one)
    assert before != tools.setup.fingerprint(two)
    for name in ("requirements.lock", "models.lock"):
        with (one / name).open("a", encoding="utf-8") as file:
            file.write("\n")
        changed = tools.setup.fingerprint(one)
        assert changed != before
        before = changed


@pytest.fixture
def made(tools, monkeypatch, tmp_path):
    """A set-up whose programs only say what they would do: the list of that."""
    setup, events = tools.setup, []
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copy(ROOT / "requirements.lock", tmp_path)
    monkeypatch.setattr(setup, "VENV", tmp_path)
    monkeypatch.setattr(setup, "STAMP", tmp_path / "stamp")
    results = {
        "find_compiler": "c++",
        "find_uv": Path("uv"),
        "find_python": "python3.11",
        "fingerprint": "now",
    }
    for name, result in results.items():
        monkeypatch.setattr(setup, name, lambda *_, result=result: result)

    class Beside:  # the process that builds KenLM's programs
        def __init__(self, target, args):
            assert (target, args[0]()) == (tools.kenlm_build.ensure_beside, Path("uv"))

        def start(self):
            events.append("programs")

        def join(self):
            events.append("programs ended")

    def run(command, **_options):
        assert not (tmp_path / "stamp").exists()  # a set-up that is killed here starts again
        done = "convert" if "convert" in str(command[2]) else " ".join(map(str, command[1:3]))
        files = [Path(part).stem for part in command if str(part).endswith(".txt")]
        events.append(" ".join([done, *(name.removeprefix("requirements-") for name in files)]))
        if done == "pip compile":
            Path(command[command.index("-o") + 1]).write_text("torch==2+cpu --hash=sha256:00\n")
        return "offline" not in events

    monkeypatch.setattr(setup.multiprocessing, "Process", Beside)
    monkeypatch.setattr(setup.kenlm_build, "ensure", lambda *_: events.append("look"))
    monkeypatch.setattr(setup, "run", run)
    monkeypatch.setattr(setup, "run_shown", run)
    return events


def done(made, tools, **options):
    """Set up, and return what was done this time."""
    made.clear()
    tools.setup.set_up(**{"dev": False} | options)
    return made


def test_current_environment_is_left_alone_and_another_is_not(tools, made, monkeypatch, capsys):
    """KenLM's programs are built while the packages are installed; what a test needs is added, and stays."""
    install, around = (
        ["pip sync", "pip install", "convert"],
        lambda steps: ["programs", *steps, "programs ended"],
    )
    tools.setup.set_up(dev=False)
    assert made == around(["venv --quiet", "pip sync lab", "pip install", "convert"])
    lines = capsys.readouterr().out.splitlines()
    assert "minutes and" in lines[0]
    assert "GB of disk" in lines[0]
    assert len(lines) == 1 + 2 * 4  # a line at the beginning and one at the end of a step; no package
    assert done(made, tools) == ["look"]
    tools.setup.set_up(dev=True)
    assert made[1:] == around(install)
    assert done(made, tools) == ["look"]
    monkeypatch.setattr(tools.setup, "fingerprint", lambda: "later")
    tools.setup.set_up(dev=False)
    assert made[1:] == around(install)


def test_a_set_up_that_failed_goes_on_where_it_was(tools, made):
    made.append("offline")
    tools.setup.STAMP.write_text("before lab")
    with pytest.raises(tools.steps.SetupError, match="what is done so far is kept"):
        tools.setup.set_up(dev=False)
    assert made[1:] == ["programs", "pip sync lab", "programs ended"]
    assert done(made, tools) == ["programs", "pip sync lab", "pip install", "convert", "programs ended"]


def test_the_lab_has_no_packages_of_tests_and_all_that_the_others_need(tools):
    lock, project = ((ROOT / name).read_text() for name in ("requirements.lock", "pyproject.toml"))
    lab = tools.setup.without_dev(lock, project)
    names = {text: set(re.findall(r"^([\w.-]+)==", text, re.MULTILINE)) for text in (lock, lab)}
    assert names[lab] < names[lock]
    assert {"torch", "jupyterlab", "transformers", "pyarrow", "six", "kenlm"} <= names[lab]
    assert (
        not {"pytest", "mypy", "playwright", "lm-eval", "sacrebleu", "greenlet", "sphinx", "docutils"}
        & names[lab]
    )
    assert all("--hash=sha256:" in part for part in re.split(r"\n(?=\w)", lab.strip()))
    small = "a==1\n    # via lambada-workbench (x)\nb==1\n    # via\n    #   a\n    #   d\n"
    small += "c==1\n    # via d\nd==1\n    # via lambada-workbench (x)\n"
    for project in ('dev = [\n  "D>=1",\n]\n', 'docs = [\n  "D>=1",\n]\ndev = [\n]\n'):
        kept = tools.setup.without_dev(small, project)
        assert re.findall(r"^(\w)==", kept, re.MULTILINE) == ["a", "b"]


def test_torch_for_processors_is_installed_where_it_is_asked_for_and_stays(tools, made, monkeypatch, capsys):
    """The version and its digest are asked of the index once; what GPUs need is installed again on demand."""
    around = lambda *steps: ["programs", *steps, "pip install", "convert", "programs ended"]  # noqa: E731
    monkeypatch.delenv("TORCH_INDEX", raising=False)
    tools.setup.set_up(dev=False, cpu=True)
    torch = "pip install torch-cpu"
    assert made == around("venv --quiet", "pip sync lab-cpu", "pip compile", torch)
    assert "3.1 GB" in capsys.readouterr().out
    made.clear()
    tools.setup.set_up(dev=False)
    tools.setup.set_up(dev=False, cpu=True)
    assert made == ["look", "look"]
    made.clear()
    tools.setup.set_up(dev=True)  # the build of torch stays, and its digest is not asked for again
    assert made == around("pip sync dev-cpu", torch)
    made.clear()
    monkeypatch.setenv("TORCH_INDEX", "https://mirror.example/simple")
    monkeypatch.setattr(tools.setup, "fingerprint", lambda: "later")
    tools.setup.set_up(dev=False)
    assert made == around("pip sync dev-cpu", "pip compile", torch)
    assert done(made, tools, cpu=False) == around("pip sync")
    assert done(made, tools) == ["look"]


def test_the_index_of_torch_is_uvs_own_or_the_one_that_is_named(tools, made, monkeypatch):
    commands = []

    def run(command, **_options):
        commands.append([str(part) for part in command])
        Path(commands[-1][commands[-1].index("-o") + 1]).write_text("torch==2+cpu\n")
        return True

    monkeypatch.setattr(tools.setup, "run", run)
    monkeypatch.delenv("TORCH_INDEX", raising=False)
    file = tools.setup.torch_lock(Path("uv"))
    assert "--generate-hashes" in commands[0]
    assert commands[0][commands[0].index("--torch-backend") + 1] == "cpu"
    asked = (tools.setup.TOOLS / "torch.in").read_text()
    assert re.fullmatch(r"torch>=[\d.]+,<=[\d.]+\n", asked)
    assert file.read_text().splitlines() == [f"# {asked.strip()} --torch-backend cpu", "torch==2+cpu"]
    monkeypatch.setenv("TORCH_INDEX", "https://mirror.example/simple")
    tools.setup.torch_lock(Path("uv"))
    assert "--torch-backend" not in commands[1]
    assert commands[1][commands[1].index("--default-index") + 1] == "https://mirror.example/simple"
    assert made == []


def test_a_lock_without_gpus_lacks_torch_and_its_libraries_alone(tools):
    lock = (ROOT / "requirements.lock").read_text()
    names = {name for name, _ in tools.setup.entries(lock)}
    kept = {name for name, _ in tools.setup.entries(tools.setup.without_gpu(lock))}
    dropped = names - kept
    assert {"torch", "triton", "nvidia-cublas", "nvidia-cudnn-cu13", "cuda-toolkit"} <= dropped
    assert all(re.match(r"torch$|triton$|nvidia-|cuda-", name) for name in dropped)
    assert {
        "sympy",
        "networkx",
        "filelock",
        "transformers",
        "accelerate",
    } <= kept  # torch needs some of these


def test_options_choose_the_build_of_torch(tools, monkeypatch, capsys):
    calls = []
    monkeypatch.setattr(tools.setup, "set_up", lambda **options: calls.append(options))
    for arguments in ([], ["--cpu"], ["--gpu", "--dev"]):
        assert tools.setup.main(arguments) == 0
    assert calls == [
        {"dev": False, "cpu": None}, {"dev": False, "cpu": True}, {"dev": True, "cpu": False},
    ]  # fmt: skip
    with pytest.raises(SystemExit):
        tools.setup.main(["--cpu", "--gpu"])
    assert "not allowed with" in capsys.readouterr().err


def test_what_uv_downloads_is_shown_and_the_list_of_all_packages_is_not(tools, capfd):
    lines = ["Downloading torch (514.2MiB)", " Downloaded torch", " + torch==2", " - old==1", "Installed 2"]
    code = f"import sys; print({chr(10).join(lines)!r}, file=sys.stderr); sys.exit(int(sys.argv[1]))"
    for status in (0, 1):
        done = tools.steps.run_shown([sys.executable, "-c", code, status], env={})
        assert done == (status == 0)
        shown = ["Downloading torch (514.2MiB)", "Downloaded torch", "Installed 2"]
        assert capfd.readouterr().out.splitlines() == [f"setup:   {line}" for line in shown]


def test_scripts_of_an_installed_package_work_in_the_folder_that_it_names(tools, monkeypatch, tmp_path):
    monkeypatch.setenv("WORKBENCH_TOOLS", str(tmp_path / "data" / "tools"))
    monkeypatch.delitem(sys.modules, "steps")
    steps = importlib.import_module("steps")
    assert tmp_path / "data" / "tools" == steps.TOOLS
    assert steps.name_of(steps.ROOT / "x" / "y") == str(Path("x", "y"))
    assert steps.name_of(steps.TOOLS / "x") == str(tmp_path / "data" / "tools" / "x")
    assert tools


def test_missing_compiler_and_python_are_named(tools, monkeypatch):
    monkeypatch.setattr(tools.setup.shutil, "which", lambda _name: None)
    monkeypatch.setattr(tools.setup, "apt_install", lambda *_packages: False)
    monkeypatch.setattr(tools.setup, "output", lambda _command: "")
    monkeypatch.setattr(tools.setup, "run", lambda *_args, **_options: False)
    with pytest.raises(tools.steps.SetupError, match=r"install g\+\+"):
        tools.setup.find_compiler()
    with pytest.raises(tools.steps.SetupError, match=r"no Python 3\.11 or 3\.12"):
        tools.setup.find_python(Path("uv"))


def test_missing_chromium_is_one_line_and_the_set_up_goes_on(tools, monkeypatch, capsys):
    import _lab  # noqa: PLC0415 - needs playwright, as only the tests of the browser do

    assert tools.setup.BROWSERS == _lab.BROWSERS
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("WORKBENCH_NO_APT", "1")
    tools.setup.find_browser()
    tools.setup.find_latex()
    line = (
        "setup: no Chromium on the PATH: the browser tests will be skipped (install the package chromium)\n"
        "setup: no pdflatex on the PATH: tests of LaTeX will be skipped "
        "(install texlive-latex-base and texlive-latex-recommended)\n"
    )
    assert capsys.readouterr().out == line
    monkeypatch.setattr(_lab, "CHROMIUM", None)
    with pytest.raises(RuntimeError, match="no Chromium on the PATH"), _lab.chromium():
        pass


def test_the_shell_without_windows_is_installed_beside_another_chromium(tools, monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(tools.setup, "apt_install", asked.append)  # which says that it could not
    monkeypatch.setattr(tools.setup.shutil, "which", lambda name: name if name == "chromium" else None)
    tools.setup.find_browser()
    assert (asked, capsys.readouterr().out) == (["chromium-headless-shell"], "")
    monkeypatch.setattr(tools.setup.shutil, "which", lambda _name: None)
    tools.setup.find_browser()
    assert asked[1:] == ["chromium-headless-shell", "chromium"]


def test_notebooks_with_outputs_are_refused(tools, tmp_path, capsys):
    cells = [{"cell_type": "code", "outputs": [], "execution_count": None}, {"cell_type": "markdown"}]
    clean, dirty = tmp_path / "clean.ipynb", tmp_path / "dirty.ipynb"
    clean.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    cells += [{"outputs": [{}]}, {"execution_count": 3}]
    dirty.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    assert tools.check_notebooks.main([str(clean)]) == 0
    assert tools.check_notebooks.main([str(clean), str(dirty)]) == 1
    assert "cells 2, 3" in capsys.readouterr().out
