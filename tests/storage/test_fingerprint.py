"""What results depend on: digests that change with every part, and with nothing else."""

import importlib
import shutil
import subprocess

import pytest

import workbench as wb
from workbench.items.schema import ITEM_COLUMNS
from workbench.storage import packages

store = importlib.import_module("workbench.predictions.store")  # by its name

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
    assert set(others) == set(ITEM_COLUMNS) - {"meta"}
    assert len(others["text"][0]) == len(text[0])
    found = {store.items_digest(ITEMS)}
    pair = {name: others.pop(name) for name in ("answer", "answer_span")}
    for columns in (pair, *({name: values} for name, values in others.items())):
        found.add(store.items_digest(changed(**columns)))
    assert len(found) == len(ITEM_COLUMNS) - 1  # the answer and its span change together
    assert store.items_digest(ITEMS[:1]) not in found
    assert store.items_digest(ITEMS[::-1]) not in found


# the commit


def git(folder, *arguments):
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_commit_and_whether_files_differ(tmp_path, monkeypatch):
    (tmp_path / "workbench" / "storage").mkdir(parents=True)
    file = tmp_path / "workbench" / "storage" / "packages.py"
    monkeypatch.setattr(packages, "__file__", str(file))
    assert packages.commit() is None
    git(tmp_path, "init", "-q")
    assert packages.commit() is None
    file.write_text("a", encoding="utf-8")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert packages.commit() == head
    (tmp_path / "untracked").touch()
    assert packages.commit() == head
    file.write_text("b", encoding="utf-8")
    assert packages.commit() == f"{head}+"
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert packages.commit() is None
