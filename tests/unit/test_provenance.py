"""What results depend on: digests that change with every part, and with nothing else."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from workbench.items.schema import COLUMNS, DataError
from workbench.runs import fingerprint as provenance

PACKAGE = Path(wb.__file__).parent
ITEMS = wb.items_from_text(
    ["the heron ate the ___ .", "tom let go of it . ``  ___"],
    answers=["eel", "ada"],
    candidates=[["eel", "ada"]] * 2,
)


def changed(**columns):
    return wb.Items(ITEMS.frame.assign(**columns))


def test_the_digest_of_items_sees_every_column_that_predictions_depend_on():
    text = ITEMS.frame["text"]
    span, sentences, candidates = (
        ITEMS.frame[c].tolist() for c in ("answer_span", "sentences", "candidates")
    )
    others = {
        "item_id": ["a", "b"],
        "dataset": ["cbt"] * 2,
        "split": ["test"] * 2,
        "variant": ["other"] * 2,
        "text": [text[0].replace("heron", "storks"[:5]), text[1]],
        "answer": [None, ITEMS.frame["answer"][1]],
        "sentences": [sentences[0], (sentences[1][0], (sentences[1][1][0] + 1, sentences[1][1][1]))],
        "candidates": [candidates[0][::-1], candidates[1]],
        "word_class": ["CN", "NE"],
        "tokenised": [not value for value in ITEMS.frame["tokenised"]],
        "book_id": ["one", "two"],
    }
    others["answer_span"] = [(span[0][0], span[0][0]), span[1]]
    assert set(others) == set(COLUMNS) - {"meta"}
    found = {provenance.digest(ITEMS)}
    for name, values in others.items():
        more = {"answer": [None, "ada"]} if name == "answer_span" else {}
        more |= {"answer_span": others["answer_span"]} if name == "answer" else {}
        if name == "text":
            assert len(values[0]) == len(text[0])
        one = provenance.digest(changed(**{name: values}, **more))
        found.add(one)
    assert len(found) == len(COLUMNS) - 1  # the answer and its span change together
    assert provenance.digest(ITEMS[:1]) not in found
    assert provenance.digest(ITEMS[::-1]) not in found


def test_the_digest_of_items_does_not_see_how_they_came(tmp_path):
    want = provenance.digest(ITEMS)
    ITEMS.to_parquet(tmp_path / "items.parquet")
    assert provenance.digest(wb.Items.from_parquet(tmp_path / "items.parquet")) == want
    assert provenance.digest(wb.Items.concat([ITEMS[:1], ITEMS[1:]])) == want
    assert provenance.digest(ITEMS.where(np.array([True, True]))) == want
    assert provenance.digest(wb.Items.from_records(list(ITEMS))) == want
    assert provenance.digest(changed(candidates=[list(c) for c in ITEMS.frame["candidates"]])) == want
    spans = [tuple(np.array(span)) for span in ITEMS.frame["answer_span"]]
    assert provenance.digest(changed(answer_span=spans)) == want


@pytest.mark.parametrize("null", [None, np.nan, float("nan")])
def test_every_way_to_write_null_is_the_same(null):
    bare = changed(answer=[None, None], answer_span=[(0, 0), (25, 25)], candidates=[None, None])
    nulls = {name: [null, null] for name in ("answer", "candidates", "book_id")}
    assert provenance.digest(changed(answer_span=[(0, 0), (25, 25)], **nulls)) == provenance.digest(bare)


# code


def class_of(source, folder, monkeypatch, *, name="a_users_model", written=True):
    """Return the class Own of a source, from a file or as a notebook would have it."""
    module = type(sys)(name)
    file = folder / f"{name}.py"
    if written:
        file.write_text(source, encoding="utf-8")
        module.__file__ = str(file)
    monkeypatch.setitem(sys.modules, name, module)
    exec(compile(source, str(file) if written else "<cell 1>", "exec"), vars(module))  # noqa: S102 - as an import does
    return module.Own


NOTEBOOK = """
import functools, math
SCALE, WORDS, STOP = 2, ["a", "b"], {"the", "of", "and", "to"}
UNUSED = 1
def helper(word):
    return len(word) * SCALE
class Base:
    def base(self):
        return 1
class Own(Base):
    weight = 0.5
    def __init__(self, first=1, *, second=2):
        self.first = first
    def score(self, word):
        inner = lambda: {word: helper(word)}
        return [inner() for _ in WORDS if word not in STOP and word not in {"x", "y", "z"}]
    @property
    def config(self):
        return {"a": self.base()}
    @functools.cached_property
    def table(self):
        return "cached"
    @staticmethod
    def fixed():
        return math.pi
    @classmethod
    def made(cls):
        return cls(3)
"""
CHANGES = [
    ("* SCALE", "+ SCALE"), ("STOP = 2", "STOP = 3"), ('["a", "b"]', '["a", "c"]'), ('"and"', '"or"'),
    ("return 1\n", "return 2\n"), ("weight = 0.5", "weight = 0.25"), ("first=1", "first=2"),
    ("second=2", "second=3"), ("helper(word)}", "1}"), ('"z"', '"w"'), ('"a": self', '"b": self'),
    ('"cached"', '"kept"'), ("math.pi", "math.e"), ("cls(3)", "cls(4)"), ("class Own(Base)", "class Own"),
]  # fmt: skip


@pytest.mark.parametrize("written", [True, False], ids=["a file", "a notebook"])
@pytest.mark.parametrize(("old", "new"), CHANGES)
def test_a_change_of_a_users_class_is_seen(tmp_path, monkeypatch, old, new, written):
    assert NOTEBOOK.count(old) == 1
    first = provenance.code(class_of(NOTEBOOK, tmp_path, monkeypatch, written=written)())
    again = provenance.code(class_of(NOTEBOOK, tmp_path, monkeypatch, written=written)())
    source = NOTEBOOK.replace(old, new)
    if new == "class Own":
        source = source.replace("self.base()", "1")
    assert first == again
    assert provenance.code(class_of(source, tmp_path, monkeypatch, written=written)()) != first


def test_what_a_notebooks_class_does_not_use_does_not_count(tmp_path, monkeypatch):
    first = provenance.code(class_of(NOTEBOOK, tmp_path, monkeypatch, written=False)())
    other = NOTEBOOK.replace("UNUSED = 1", "UNUSED = 2\nMORE = object()\n\n\n")
    assert provenance.code(class_of(other, tmp_path, monkeypatch, written=False)()) == first


def test_line_ends_do_not_count(tmp_path, monkeypatch):
    own = class_of(NOTEBOOK, tmp_path, monkeypatch)()
    first = provenance.code(own)
    file = tmp_path / "a_users_model.py"
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert provenance.code(own) == first
    file.write_text(f"{NOTEBOOK}# more\n", encoding="utf-8")
    assert provenance.code(own) != first


def test_a_file_that_was_changed_but_not_loaded_again_is_neither_the_old_nor_the_new(tmp_path, monkeypatch):
    old, new = NOTEBOOK, NOTEBOOK.replace("* SCALE", "+ SCALE").replace("cls(3)", "cls(4)")
    model = class_of(old, tmp_path, monkeypatch)()
    before = provenance.code(model)
    (tmp_path / "a_users_model.py").write_text(new, encoding="utf-8")
    stale = provenance.code(model)
    loaded = provenance.code(class_of(new, tmp_path, monkeypatch)())
    assert len({before, stale, loaded}) == 3


def test_the_file_of_a_base_class_counts(tmp_path, monkeypatch):
    base = "class Own:\n    def score(self):\n        return 1\n"
    source = "from the_base import Own as Base\nclass Own(Base):\n    pass\n"
    found = set()
    for text in (base, base.replace("1", "2"), base):
        class_of(text, tmp_path, monkeypatch, name="the_base")
        found.add(provenance.code(class_of(source, tmp_path, monkeypatch)()))
    assert len(found) == 2


def test_values_of_a_class_in_a_file_may_change_as_it_works(tmp_path, monkeypatch):
    own = class_of(NOTEBOOK, tmp_path, monkeypatch)
    first = provenance.code(own())
    own.weight = 7  # as a counter would
    assert provenance.code(own()) == first


@pytest.mark.parametrize("file", ["gone.py", "", None])
def test_a_file_that_is_gone_is_no_error(tmp_path, monkeypatch, file):
    own = class_of(NOTEBOOK, tmp_path, monkeypatch)
    first = provenance.code(own())
    sys.modules[own.__module__].__file__ = file and str(tmp_path / file)
    assert provenance.code(own()) != first


def test_a_compiled_module_is_read_as_bytes(tmp_path, monkeypatch):
    own = class_of(NOTEBOOK, tmp_path, monkeypatch)
    binary = tmp_path / "own.so"
    binary.write_bytes(bytes(range(256)))
    sys.modules[own.__module__].__file__ = str(binary)
    first = provenance.code(own())
    binary.write_bytes(bytes(range(255)))
    assert provenance.code(own()) != first


def test_objects_that_are_no_simple_values_do_not_make_the_digest_change(tmp_path, monkeypatch):
    """Whose text would hold an address."""
    source = NOTEBOOK.replace(
        "weight = 0.5", "weight = object(); also = [object()]; to = {1: object()}; me = print"
    )
    found = {provenance.code(class_of(source, tmp_path, monkeypatch, written=False)()) for _ in range(3)}
    assert len(found) == 1


def test_functions_that_call_each_other_or_are_wrapped_end(tmp_path, monkeypatch):
    source = """
import functools
def twice(function):
    @functools.wraps(function)
    def inner(*arguments):
        return function(*arguments)
    return inner
class Own:
    other = None
    @twice
    def even(self, n):
        return n == 0 or odd(self, n - 1)
def odd(self, n):
    return n != 0 and self.even(n - 1) and Own is not None
Own.other = Own
"""
    found = set()
    for text in (source, source.replace("n == 0", "n <= 0"), source.replace("n != 0", "n > 0"), source):
        found.add(provenance.code(class_of(text, tmp_path, monkeypatch, written=False)()))
    assert len(found) == 3


def test_the_digest_of_code_is_the_same_in_every_process():
    script = (
        f"{NOTEBOOK}\nfrom workbench.runs import fingerprint as provenance\nprint(provenance.code(Own()))"
    )
    path = os.pathsep.join(map(os.fspath, sys.path))
    said = {
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True,
                       env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed}).stdout
        for seed in "13"
    }  # fmt: skip
    assert len(said) == 1
    assert len(said.pop().strip()) == 64


def copy_of_the_package(tmp_path, monkeypatch):
    shutil.copytree(PACKAGE, tmp_path / "workbench", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "workbench" / "runs" / "fingerprint.py"))
    return tmp_path / "workbench"


@pytest.mark.parametrize(
    "name",
    ["items/text.py", "items/tokens.py", "items/schema.py", "models/rows.py", "models/new/x.py"],
)
def test_the_code_of_the_package_counts(tmp_path, monkeypatch, name):
    package = copy_of_the_package(tmp_path, monkeypatch)
    first = provenance.code(1)
    assert first == provenance.code("any model of the package")
    (package / "charts" / "theme.py").write_text("changed", encoding="utf-8")
    assert provenance.code(1) == first
    file = package / name
    file.parent.mkdir(exist_ok=True)
    with file.open("a", encoding="utf-8") as changed_file:
        changed_file.write("\n# changed\n")
    assert provenance.code(1) != first


# the commit, the packages


def git(folder, *arguments):
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_commit_and_whether_files_differ(tmp_path, monkeypatch):
    (tmp_path / "workbench" / "runs").mkdir(parents=True)
    file = tmp_path / "workbench" / "runs" / "fingerprint.py"
    monkeypatch.setattr(provenance, "__file__", str(file))
    assert provenance.commit() is None
    git(tmp_path, "init", "-q")
    assert provenance.commit() is None
    file.write_text("a", encoding="utf-8")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert provenance.commit() == head
    (tmp_path / "untracked").touch()
    assert provenance.commit() == head
    file.write_text("b", encoding="utf-8")
    assert provenance.commit() == f"{head}+"
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert provenance.commit() is None


def test_the_versions_are_those_that_are_imported():
    found = provenance.versions()
    assert found["numpy"] == np.__version__
    assert set(found) <= set(provenance._PACKAGES)
    assert json.loads(json.dumps(found)) == found


def test_a_package_that_is_not_installed_is_left_out(monkeypatch):
    monkeypatch.setattr(provenance, "_PACKAGES", ("numpy", "no-such-package-of-a-test"))
    assert list(provenance.versions()) == ["numpy"]


@pytest.mark.parametrize("value", [{"a": (1, 2.5, None, True, "ü")}, [], {"a": {"b": [1]}}])
def test_plain_values_are_as_json_reads_them(value):
    assert provenance.plain(value, "it") == json.loads(json.dumps(value))


@pytest.mark.parametrize(
    "value", [{1, 2}, b"a", np.float32(1), np.arange(2), object(), "\udc80", {(1, 2): 3}]
)
def test_values_that_json_cannot_hold(value):
    with pytest.raises(DataError, match="the config cannot be written as JSON"):
        provenance.plain({"a": value}, "the config")


def test_a_value_within_itself():
    value = []
    value.append(value)
    with pytest.raises(DataError, match="JSON"):
        provenance.plain(value, "it")
