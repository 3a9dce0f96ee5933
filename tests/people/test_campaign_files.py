"""Files that are no campaign, or a damaged one, and SQL that holds nothing but constants."""

import ast
import inspect
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from refused import refused

import workbench as wb
from workbench import people
from workbench.people import Campaign, database
from workbench.storage.errors import DataError


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    path = tmp_path_factory.mktemp("valid") / "c.db"
    campaign = Campaign.create(path, wb.load("sample", "dev")[:9], per_page=3)
    subject = campaign.add_subject().id
    page = campaign.next_page(subject)
    campaign.answer(page.id, subject, page.tasks[0].item_id, ["word"])
    campaign.close()
    return path


@pytest.fixture
def path(valid, tmp_path):
    return Path(shutil.copy(valid, tmp_path / "c.db"))


def change(path, *statements):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        for statement in statements:
            connection.execute(statement)


def overwrite(path):
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 4096)


def by_sql(*statements):
    return lambda path: change(path, *statements)


DAMAGE = {
    "text": lambda path: path.write_text("guesses"),
    "a page overwritten": overwrite,
    "another program's": by_sql("PRAGMA application_id = 7"),
    "a trigger": by_sql("CREATE TRIGGER t AFTER INSERT ON answers BEGIN DELETE FROM items; END"),
    "a table less": by_sql("DROP TABLE answers"),
    "a view more": by_sql("CREATE VIEW v AS SELECT 1"),
    "no protocol": by_sql("DELETE FROM campaign WHERE key = 'protocol'"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_what_is_no_campaign_is_one_error(path, name):
    DAMAGE[name](path)
    error = refused(Campaign.open, path)
    assert error.file == str(path)
    assert error.remedy


def test_an_unwritable_place_is_one_error(path, monkeypatch):
    with pytest.raises(DataError):
        Campaign.create(path / "below a file" / "c.db", wb.load("sample", "dev")[:2])
    campaign = Campaign.open(path)
    monkeypatch.setattr(database, "_PATIENCE", 0.05)
    impatient = Campaign.open(path)
    with campaign.write_transaction(), pytest.raises(DataError):
        impatient.add_subject()
    impatient.add_subject()
    campaign.close()
    impatient.close()


def is_constant(node, constants):
    """Tell whether an expression is text that is written in the source."""
    if isinstance(node, ast.JoinedStr):
        return all(
            isinstance(part, ast.Constant) or (isinstance(part.value, ast.Name) and part.value.id.isupper())
            for part in node.values
        )
    if isinstance(node, ast.IfExp):
        return is_constant(node.body, constants) and is_constant(node.orelse, constants)
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id in constants)


def test_sql_holds_nothing_but_constants():
    """What is not a literal is one of the literals of a table in the same file."""
    loops = {"database.py": {"statement", "begin", "query"}}
    found = 0
    for file in sorted(Path(inspect.getfile(people)).parent.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in {"execute", "executemany", "executescript"}
            ):
                found += 1
                assert is_constant(node.args[0], loops.get(file.name, set())), f"{file.name}:{node.lineno}"
    assert found > 40
    assert not is_constant(ast.parse('f"SELECT {name}"', mode="eval").body, set())


@pytest.fixture
def judged(tmp_path):
    """A campaign that is open, with one answer that is acknowledged, and a function that gives another."""
    (tmp_path / "here").mkdir()
    campaign = Campaign.create(tmp_path / "here" / "c.db", wb.load("sample", "dev")[:9], per_page=9)
    subject = campaign.add_subject().id
    tasks = iter((page := campaign.next_page(subject)).tasks)

    def answer(word):
        return campaign.answer(page.id, subject, next(tasks).item_id, [word])

    answer("first")
    yield campaign, answer
    campaign.close()


def test_another_working_directory_is_no_move(judged, monkeypatch):
    campaign, _ = judged
    monkeypatch.chdir(campaign.path.parent)
    relative = Campaign.open("c.db")
    monkeypatch.chdir("/")
    relative.add_subject("Ada")
    relative.close()
    assert "Ada" in campaign.subjects()["name"].tolist()


def test_opening_a_campaign_again_keeps_the_locks(judged):
    """Another process that ends takes the log of a database away which nobody else has locked."""
    campaign, answer = judged
    Campaign.open(campaign.path).close()
    code = "import sys; from workbench.people import Campaign; Campaign.open(sys.argv[1]).close()"
    subprocess.run([sys.executable, "-c", code, campaign.path], check=True)
    answer("second")
    alone = campaign.path.parents[1] / "killed"  # as a killed process leaves it
    shutil.copytree(campaign.path.parent, alone)
    reopened = Campaign.open(alone / "c.db")
    assert reopened.judgments()["prediction"].tolist() == ["first", "second"]
    reopened.close()
