"""A short fixed seed of the fuzz harness, and that everything which is read is in its list."""

import ast
import inspect
from pathlib import Path

import pytest
import run as harness
from released import RELEASES
from target import Target, same
from targets import TARGETS

from workbench.datasets import own_table
from workbench.datasets.sources import readers as dataset_readers
from workbench.models.registry import BUILT_IN
from workbench.storage.errors import DataError

PACKAGE = Path(inspect.getfile(DataError)).parents[1]
READ = {
    "read_bytes", "read_text", "read_json", "open_regular", "read_parquet", "read_table", "read_csv",
    "ParquetFile", "load_file", "memmap", "fromfile", "from_pretrained",
}  # fmt: skip
SHIPPED = "it reads what ships with the package"
BEFORE = "what was written a moment before, in a scratch folder"
ELSEWHERE = {
    "storage/files.py": "the functions that read; every target runs them",
    "render/labels.py": SHIPPED,
    "datasets/published.py": SHIPPED,
    "datasets/sources.py:_registry": SHIPPED,
    "datasets/sample.py": SHIPPED,
    "analysis": "pipelines of spaCy; the one that is used ships with the package",
    "widgets": SHIPPED,
    "server/handlers.py": SHIPPED,
    "datasets/fetch.py": "what servers send: tests/unit/test_fetch.py",
    "people/database.py:_is_sqlite": "of files of another kind: tests/unit/test_campaign_files.py",
    "models/ngram/intermediate.py": BEFORE,
    "models/ngram/kenlm.py": BEFORE,
    "models/ngram/counts.py:_on_disk": BEFORE,
    "texts/corpus.py:_renumber": BEFORE,
    "construction/novels.py": BEFORE,
    "construction/candidates.py:_chapters": BEFORE,
    "construction/novel_checks.py:_check": BEFORE,
    "construction/novel_checks.py:_compare": BEFORE,
}


@pytest.fixture(scope="module")
def short_run(tmp_path_factory):
    """Return the counts of a case of every target, the reports of failures, and the functions that ran."""
    reports, called = [], set()
    counts = harness.run(
        TARGETS, cases=1, failures=tmp_path_factory.mktemp("failures"), called=called, out=reports.append
    )
    return counts, reports, called


@pytest.mark.slow
def test_damaged_files_give_the_same_a_listed_problem_or_one_data_error(short_run):
    counts, reports, _ = short_run
    assert reports == []
    assert {name: count.total() for name, count in counts.items()} == {target.name: 1 for target in TARGETS}


def fill(_folder):
    raise MemoryError


def crash(_folder):
    return ["x"].index("y")


@pytest.mark.parametrize("read", [crash, fill])
def test_a_reader_that_fails_is_a_failure(read, tmp_path):
    cases = harness.Cases(tmp_path)
    cases.targets = {"it": Target("it", "text", lambda folder: (folder / "x").write_text("y"), read, same)}
    cases.expected = {"it": None}
    outcome, report = cases.outcome("it", 0)
    assert outcome == "failure"
    assert ("MemoryError" if read is fill else "ValueError") in report


def test_every_model_reader_and_form_of_a_table_has_a_target():
    names = {target.name for target in TARGETS}
    assert {f"model {name}" for name in BUILT_IN} <= names
    assert {f"own table, {ending}" for ending in own_table._READERS} <= names
    assert len(names) == len(TARGETS)
    assert set(dataset_readers()) - {"sample"} == set(RELEASES)


def readers():
    """Return the functions that read files: path and first line, and a name for the report."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE).as_posix()
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(function, ast.FunctionDef):
                continue
            called = {
                node.attr if isinstance(node, ast.Attribute) else node.id
                for node in ast.walk(function)
                if isinstance(node, ast.Attribute | ast.Name)
            }
            if called & READ:
                line = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
                found[str(path), line] = f"{place}:{function.name}"
    return found


@pytest.mark.slow
def test_every_function_that_reads_files_is_run_by_a_target(short_run):
    missed = {name for place, name in readers().items() if place not in short_run[2]}
    assert {name for name in missed if not name.startswith(tuple(ELSEWHERE))} == set()
