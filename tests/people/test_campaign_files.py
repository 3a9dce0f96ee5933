"""Files that are no campaign, or a damaged one, and SQL that holds nothing but constants."""

import ast
import inspect
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from campaign_server import Client, running
from limited_disk import small_disk
from refused import refused

import workbench as wb
from workbench import people
from workbench.people import Campaign, database
from workbench.storage.errors import DataError
from workbench.storage.sqlite import MovedError


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


def cut(path):
    os.truncate(path, path.stat().st_size // 2)


def overwrite(path):
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 4096)


def is_pipe(path):
    path.unlink()
    os.mkfifo(path)


def is_folder(path):
    path.unlink()
    path.mkdir()


def misspell(path):
    path.write_bytes(path.read_bytes().replace(b"CREATE INDEX leases", b"CREATE \xd8NDEX leases"))


def by_sql(*statements):
    return lambda path: change(path, *statements)


DAMAGE = {
    "no file": (Path.unlink, "No such file"),
    "empty": (lambda path: path.write_bytes(b""), "got another file"),
    "text": (lambda path: path.write_text("guesses"), "got another file"),
    "a pipe": (is_pipe, "not a regular file"),
    "a folder": (is_folder, "not a regular file"),
    "only the first bytes": (lambda path: path.write_bytes(b"SQLite format 3\0" + b"x" * 999), "damaged"),
    "half": (cut, "damaged"),
    "a page overwritten": (overwrite, "damaged"),
    "a schema whose error is no text": (misspell, "damaged"),
    "another program's": (by_sql("PRAGMA application_id = 7"), "another program"),
    "another version": (by_sql("PRAGMA user_version = 2"), "version 1, got version 2"),
    "a trigger": (
        by_sql("CREATE TRIGGER t AFTER INSERT ON answers BEGIN DELETE FROM items; END"),
        "not those of a campaign",
    ),
    "a table less": (by_sql("DROP TABLE answers"), "not those of a campaign"),
    "a view more": (by_sql("CREATE VIEW v AS SELECT 1"), "not those of a campaign"),
    "an item changed": (by_sql("UPDATE records SET record = replace(record, 'a', 'b')"), "were changed"),
    "the protocol changed": (
        by_sql("UPDATE campaign SET value = '{}' WHERE key = 'protocol'"),
        "were changed",
    ),
    "a price changed": (
        by_sql("UPDATE campaign SET value = replace(value, '0.22', '0.99') WHERE key = 'protocol'"),
        "were changed",
    ),
    "no digest": (by_sql("DELETE FROM campaign WHERE key = 'digest'"), "KeyError"),
    "a strange state": (by_sql("UPDATE items SET state = 'x'"), "CHECK"),
    "more people than needed": (
        by_sql("UPDATE items SET vacant = 9 WHERE number = 5"),
        "more or fewer than 1",
    ),
    "a stopped item given out": (by_sql("UPDATE items SET state = 'kept'"), "given out"),
    "a step too many": (
        by_sql("UPDATE pages SET step = 7", "UPDATE assignments SET step = 7", "UPDATE answers SET step = 7"),
        "does not have",
    ),
    "an answer of nobody": (by_sql("PRAGMA foreign_keys = OFF", "DELETE FROM subjects"), "nobody"),
    "an answer without a task": (by_sql("DELETE FROM assignments WHERE state = 'finished'"), "nobody had"),
    "a task without its answer": (by_sql("DELETE FROM answers"), "without an answer"),
    "a page of another": (by_sql("UPDATE assignments SET subject = NULL WHERE state = 'open'"), "differ"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_what_is_no_campaign_is_one_error(path, name):
    damage, message = DAMAGE[name]
    damage(path)
    error = refused(message, Campaign.open, path)
    assert error.file == str(path)
    assert error.remedy


def test_damage_while_it_is_open_is_one_error(path):
    campaign = Campaign.open(path)
    change(path, "UPDATE answers SET guesses = '[1]'")
    refused("cannot be read", campaign.judgments)
    change(path, "UPDATE records SET record = 'x'")
    refused("cannot be read", campaign.next_page, 1)
    campaign.close()


def test_an_unwritable_place_is_one_error(path, monkeypatch):
    with pytest.raises(DataError):
        Campaign.create(path / "below a file" / "c.db", wb.load("sample", "dev")[:2])
    campaign = Campaign.open(path)
    monkeypatch.setattr(database, "_PATIENCE", 0.05)
    impatient = Campaign.open(path)
    with campaign.write_transaction(), pytest.raises(DataError, match="in use"):
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


MANY = ("The dog ran over there and back . He saw the ___ .", 400)


def make_campaign(path, items):
    campaign = Campaign.create(path, items)
    campaign.next_page(campaign.add_subject().id)
    return campaign


def make_game(path, items):
    game = wb.guess(items, path=path)
    game.close()
    return game.campaign


@pytest.mark.parametrize("make", [make_campaign, make_game])
def test_on_a_full_disk_a_campaign_is_whole_or_absent(tmp_path, make):
    text, n = MANY
    items = wb.items_from_text([f"{number} {text}" for number in range(n)], answers=["dog"] * n)
    outcomes = []
    for size in range(324, 640, 24):
        with small_disk(tmp_path / f"{size}", f"{size}k") as disk:
            try:
                make(disk / "c.db", items).close()
                campaign = Campaign.open(disk / "c.db")
                assert len(campaign.items()) == n
                assert campaign.subjects()["name"].tolist() == [campaign._name_of(1)]
                campaign.close()
                outcomes.append("whole")
            except DataError as error:
                outcomes.append(error.remedy.partition(",")[0].partition(" and ")[0])
            assert outcomes[-1] == "whole" or not any(disk.iterdir())
    assert outcomes == sorted(outcomes)  # none on all smaller disks
    assert set(outcomes) == {"free some space", "whole"}


def copied(path):
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


def lacking(end):
    return lambda path: path.with_name(path.name + end).unlink()


def renewed(end):
    return lambda path: copied(path.with_name(path.name + end))


MOVES = {
    "renamed": lambda path: path.rename(path.with_name("other.db")),
    "deleted": Path.unlink,
    "replaced by a copy": copied,
    "its folder renamed": lambda path: path.parent.rename(path.parent.with_name("other")),
    "its folder deleted": lambda path: shutil.rmtree(path.parent),
    "without its log": lacking("-wal"),
    "with another log": renewed("-wal"),
    "without its index": lacking("-shm"),
    "with another index": renewed("-shm"),
}


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


@pytest.mark.parametrize("name", MOVES)
def test_no_answer_is_acknowledged_that_is_not_at_the_path(judged, name):
    campaign, answer = judged
    before = campaign.judgments()
    MOVES[name](campaign.path)
    for word in ("second", "third"):
        with pytest.raises(MovedError, match=r"(moved|deleted).* nothing is saved -- ") as error:
            answer(word)
        assert error.value.file.startswith(str(campaign.path))
    with pytest.raises(MovedError):
        campaign.next_page(1)
    if name not in {"deleted", "its folder deleted"}:
        folder = campaign.path.parent if campaign.path.parent.exists() else campaign.path.parents[1] / "other"
        there = folder / ("other.db" if name == "renamed" else "c.db")
        if name != "replaced by a copy":  # the file itself holds what was acknowledged, without a log
            alone = shutil.copy(there, campaign.path.parents[1] / "alone.db")
            reopened = Campaign.open(alone)
            assert reopened.judgments().equals(before)
            reopened.close()


def test_a_database_that_is_moved_back_goes_on(judged):
    campaign, answer = judged
    campaign.path.rename(campaign.path.with_name("other.db"))
    with pytest.raises(MovedError):
        answer("lost")
    campaign.path.with_name("other.db").rename(campaign.path)
    answer("second")
    assert campaign.judgments()["prediction"].tolist() == ["first", "second"]


def test_a_database_that_moves_while_an_answer_is_committed_is_not_acknowledged(judged):
    campaign, answer = judged
    commits = []

    def move(statement):
        if statement == "COMMIT":
            commits.append(campaign.path.rename(campaign.path.with_name("other.db")))

    campaign._database._connection.set_trace_callback(move)
    with pytest.raises(MovedError):
        answer("second")
    assert len(commits) == 1


def test_a_fork_does_not_write_to_another_database(judged):
    campaign, answer = judged
    copied(campaign.path)
    if (child := os.fork()) == 0:
        status = 1
        try:
            answer("from the child")
        except MovedError:
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


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


def test_a_server_and_a_game_acknowledge_nothing_after_a_move(tmp_path, caplog):
    campaign = Campaign.create(tmp_path / "c.db", wb.load("sample", "dev")[:9], per_page=4)
    with running(campaign) as server:
        client = Client(server.url, campaign.add_subject().token)
        page = client.get("/page")
        fields = {"place": 0, "guess": "dog", "_xsrf": page.field("_xsrf")}
        path = "/page/1/answer"
        assert client.ask("POST", path, fields).status == 200
        campaign.path.rename(tmp_path / "other.db")
        assert client.ask("POST", path, fields | {"place": 1}).status == 503
        assert "is no longer at this path" in caplog.text
        (tmp_path / "other.db").rename(campaign.path)
        assert client.ask("POST", path, fields | {"place": 2}).status == 200
        client.close()
    assert len(campaign.judgments()) == 2
    campaign.close()
    game = wb.guess(wb.load("sample", "dev")[:9], path=tmp_path / "game.db")
    sent = []
    game.send = sent.append
    game.campaign.path.unlink()
    task = {"page": game.page.id, "task": 0, "guesses": ["dog"]}
    game._handle_message(game, {"type": "answer", **task}, [])
    assert [message["type"] for message in sent] == ["error"]
    assert "moved, deleted or replaced" in sent[0]["message"]
    game.campaign.close()
    game.close()
