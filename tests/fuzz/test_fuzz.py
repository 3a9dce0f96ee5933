"""A damaged file of any kind gives its content or one DataError; all that is read is listed.

``make fuzz CASES=1000 SEED=0`` runs more cases; the report of a failure has its seed.
"""

import ast
import inspect
import os
import resource
import shutil
import sys
import threading
import warnings
from collections import Counter
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from random import Random

import pytest
from artefacts import ARTEFACTS, LOADED, RELEASES, TEXTS, Artefact, writes

from workbench.datasets.sources import readers as dataset_readers
from workbench.storage import files
from workbench.storage.errors import DataError

PACKAGE = Path(inspect.getfile(DataError)).parents[1]
CASES, SEED = (int(os.environ.get(name, default)) for name, default in (("FUZZ_CASES", 1), ("FUZZ_SEED", 0)))
MEMORY = 2 << 30  # bytes beyond those that the process has
UNPACKED = 64 << 20  # the bound of what is unpacked, so that a bomb is small
READ = {
    "read_bytes", "read_text", "read_json", "open_regular", "read_parquet", "read_table", "read_csv",
    "ParquetFile", "load_file", "memmap", "fromfile", "from_pretrained",
}  # fmt: skip
SHIPPED = "it reads what ships with the package"
BEFORE = "what was written a moment before, in a scratch folder"
ELSEWHERE = {
    "storage/files.py": "the functions that read; every artefact runs them",
    "datasets/published.py": SHIPPED,
    "datasets/sample.py": SHIPPED,
    "analysis": "pipelines of spaCy; the one that is used ships with the package",
    "widgets": SHIPPED,
    "server/handlers.py": SHIPPED,
    "lab.py:copy_notebooks": "bytes that are only compared: tests/project/test_lab.py",
    "datasets/fetch.py": "what servers send: tests/datasets/test_fetch.py",
    "storage/packages.py:_entry_points": "lists of packages: tests/storage/test_extensions.py",
    "people/database.py:_is_sqlite": "of files of another kind: tests/people/test_campaign_files.py",
    "models/ngram/kenlm_records.py": BEFORE,
    "models/ngram/good_turing.py:_on_disk": BEFORE,
    "texts/corpus.py:_renumber": BEFORE,
    "construction/novels.py": BEFORE,
    "construction/novel_checks.py:_check": BEFORE,
    "construction/novel_checks.py:_compare": BEFORE,
}


@contextmanager
def bounded():
    """Bound memory, and what may be unpacked into it."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "MAX_IN_MEMORY", UNPACKED)
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, limits[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_AS, limits)


@contextmanager
def calls(called):
    """Collect the functions of the package that run: file and first line."""

    def see(frame, _event, _argument):
        if frame.f_code.co_filename.startswith(str(PACKAGE)):
            called.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))

    sys.settrace(see)  # of calls alone, unlike a profile
    threading.settrace(see)
    try:
        yield
    finally:
        sys.settrace(None)
        threading.settrace(None)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Give the folder of what several artefacts are made from, and the functions that read valid files."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.delenv("WORKBENCH_DATA", raising=False)
        home = tmp_path_factory.mktemp("home")
        patch.setenv("WORKBENCH_HOME", str(home))
        yield home, set(), set()


def read_damaged(artefact, home, folder, called, cases=range(SEED, SEED + CASES)):
    """Write valid files, and read them and damaged ones."""
    with pytest.MonkeyPatch.context() as patch:
        case = folder / "case"
        case.mkdir()
        patch.setenv("WORKBENCH_HOME", str(case if artefact.is_home else home))
        artefact.write(case)
        shutil.copytree(case, folder / "valid")
        with calls(called):
            valid = artefact.read(case)
        artefact.check(valid, valid)
        for seed in cases:
            shutil.rmtree(case)
            shutil.copytree(folder / "valid", case)
            artefact.damage(case, Random(seed))  # noqa: S311 - no secret
            try:
                with bounded():
                    artefact.check(artefact.read(case), valid)
            except DataError:
                pass
            except BaseException as error:
                error.add_note(
                    f"the damaged files are in {case}; repeat with `make fuzz CASES=1 SEED={seed}`"
                )
                raise


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ARTEFACTS)
def test_a_damaged_file_gives_its_content_or_one_error(name, shared, tmp_path):
    home, called, done = shared
    read_damaged(ARTEFACTS[name], home, tmp_path, called)
    done.add(name)


def fill(_folder):
    raise MemoryError


def crash(_folder):
    return ["x"].index("y")


@pytest.mark.parametrize("read", [crash, fill, lambda folder: (folder / "x").read_bytes()])
def test_a_reader_that_fails_is_a_failure(read, tmp_path):
    with pytest.raises((ValueError, MemoryError, AssertionError, OSError)):
        read_damaged(Artefact(writes({"x": "y"}), read), tmp_path, tmp_path, set(), range(9))


@pytest.mark.parametrize("key", [key for key in TEXTS if key[1] != "CSV"], ids=", ".join)
def test_one_damaged_place_costs_few_records(key, tmp_path):
    """No record is lost or made up far from what was damaged, unless that names the columns."""
    valid = Counter(LOADED[key](writes(TEXTS[key])(tmp_path)).frame["text"])
    names, rng = [*TEXTS[key]], Random(0)  # noqa: S311 - no secret
    for _ in range(10):
        content = {name: text.encode() for name, text in TEXTS[key].items()}
        name = rng.choice(names)
        start = rng.randrange(len(content[name]))
        insert = rng.choice([b"", b"x", b" ", b"\n", b"\n\n", b"|", b"\t", b"[", b"\xff", b"1 "])
        content[name] = content[name][:start] + insert + content[name][start + rng.choice([0, 1, 4]) :]
        texts = Counter(LOADED[key](writes(content)(tmp_path)).frame["text"])
        assert (valid - texts).total() <= 2, (name, start, insert)
        assert (texts - valid).total() <= 2, (name, start, insert)


@cache
def readers():
    """Return the functions that read files: path and first line, and a name for the report."""
    result = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        code = path.read_text(encoding="utf-8")
        for function in ast.walk(ast.parse(code)) if any(name in code for name in READ) else ():
            if not isinstance(function, ast.FunctionDef):
                continue
            nodes = [node for node in ast.walk(function) if isinstance(node, ast.Attribute | ast.Name)]
            if {node.attr if isinstance(node, ast.Attribute) else node.id for node in nodes} & READ:
                line = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
                result[str(path), line] = f"{path.relative_to(PACKAGE).as_posix()}:{function.name}"
    return result


@pytest.mark.filterwarnings("ignore")
def test_all_that_is_read_is_listed(shared, tmp_path):
    home, called, done = shared
    for name in ARTEFACTS.keys() - done:  # none where all tests of this module run
        (tmp_path / name).mkdir(parents=True)
        read_damaged(ARTEFACTS[name], home, tmp_path / name, called, cases=())
    assert set(dataset_readers()) - {"sample"} == set(RELEASES)
    missing = {name for place, name in readers().items() if place not in called}
    assert {name for name in missing if not name.startswith(tuple(ELSEWHERE))} == set()


def test_every_exception_is_a_reader():
    names = set(readers().values())
    assert [prefix for prefix in ELSEWHERE if not any(name.startswith(prefix) for name in names)] == []
