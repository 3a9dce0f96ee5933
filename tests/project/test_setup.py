"""The set-up's scripts, without the network; KenLM's programs, where they have been built."""

import hashlib
import importlib
import io
import re
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


def test_a_lock_without_gpus_lacks_torch_and_its_libraries_alone(tools, tmp_path):
    lock = (ROOT / "requirements.lock").read_text()
    (tmp_path / "requirements.lock").write_text(lock)
    kept = tools.setup.lock_for_processors().read_text()
    names, others = (set(re.findall(r"^([\w.-]+)==", text, re.MULTILINE)) for text in (lock, kept))
    assert {"torch", "triton", "nvidia-cublas", "nvidia-cudnn-cu13", "cuda-toolkit"} <= names - others
    assert all(re.match(r"torch$|triton$|nvidia-|cuda-", name) for name in names - others)
    assert {"sympy", "networkx", "filelock", "transformers", "accelerate"} <= others  # torch needs some
    entries = re.split(r"\n(?=[\w.-]+(?:\[|==))", kept.strip())
    assert all("--hash=sha256:" in entry for entry in entries)
