"""Databases of campaigns, and result files of crowdsourcing services."""

import sqlite3
import warnings
from contextlib import closing, suppress

from damage import damage

import workbench as wb
from workbench.people import Campaign, export_pages, import_pages
from workbench.people.crowdsourcing import _labels
from workbench.people.reports import JUDGMENTS, STATES
from workbench.storage.errors import DataError

NAME = "campaign.db"
VALUES = [
    *(None, "", "x", "[]", "{}", '["x"]', '["\\ud800"]', "null", "\0", b"\xff"),
    *(0, -1, 1, 2, 9, 2**62, 1e308, -1e308, 0.5),
]
UPDATE = """UPDATE <table> SET <column> = ?
    WHERE rowid = (SELECT rowid FROM <table> ORDER BY rowid LIMIT 1 OFFSET <n>)"""
CHANGES = [
    "DELETE FROM <table> WHERE rowid % 2 = 0",
    "DROP TABLE <table>",
    "CREATE TRIGGER t AFTER INSERT ON <table> BEGIN DELETE FROM answers; END",
    "CREATE VIEW v AS SELECT * FROM <table>",
    "ALTER TABLE <table> ADD COLUMN x",
    "DROP INDEX vacancies",
    "PRAGMA user_version = <n>",
    "PRAGMA application_id = 7",
    "PRAGMA journal_mode = DELETE",
]


def answers():
    frame = wb.load("sample", "dev").frame[:9]
    return dict(zip(frame["item_id"], frame["answer"], strict=True))


def campaign_in(folder):
    """Make a campaign in which one person has submitted a page, and one has answered a part of one."""
    items = wb.load("sample", "dev")[:9]
    with closing(Campaign.create(folder / NAME, items, per_page=3, people=(1, 1, 2), lease=1e9)) as campaign:
        ada, eve = (campaign.add_subject(name).id for name in ("Ada", "Eve"))
        page = campaign.next_page(ada)
        for task in page.tasks:
            campaign.answer(page.id, ada, task.item_id, [answers()[task.item_id]], seconds=1.5)
        campaign.submit(page.id, ada)
        page = campaign.next_page(eve)
        campaign.answer(page.id, eve, page.tasks[0].item_id, ["?"])


def campaign_of(folder):
    """Read every table, go on with an open page, and return the items."""
    with closing(Campaign.open(folder / NAME)) as campaign:
        judgments, states = campaign.judgments(), campaign.states()
        assert (tuple(judgments.columns), tuple(states.columns)) == (JUDGMENTS, STATES)
        assert {*judgments["item_id"], *campaign.survivors().frame["item_id"]} <= set(answers())
        assert set(states["state"]) <= {"open", "kept", "dropped"}
        assert not judgments.duplicated(["subject", "item_id", "shown"]).any()
        tables = (
            campaign.funnel,
            campaign.costs,
            campaign.subjects,
            campaign.predictions,
            campaign.unfolding,
        )
        for table in (*tables, campaign.agreement):
            str(table())
        page = campaign.next_page(2)
        for task in () if page is None else page.tasks:
            with suppress(DataError):  # answered before, with other words
                campaign.answer(page.id, 2, task.item_id, ["?"])
        return [str(item) for item in campaign.items()]


def damage_campaign(folder, rng):
    """Change the bytes of a database, or what it holds by SQL that no check hinders."""
    if rng.random() < 0.4:
        damage(folder, rng)
        return
    connection = sqlite3.connect(folder / NAME, isolation_level=None)
    with closing(connection), suppress(sqlite3.Error, OverflowError):
        connection.execute("PRAGMA ignore_check_constraints = ON")
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        table = rng.choice(tables)[0]
        columns = connection.execute("SELECT name FROM pragma_table_info(?)", (table,)).fetchall()
        change = rng.choice([*[UPDATE] * 12, *CHANGES])
        names = {"<table>": table, "<column>": rng.choice(columns)[0], "<n>": str(rng.randrange(4))}
        for mark, name in names.items():
            change = change.replace(mark, name)
        connection.execute(change, (rng.choice(VALUES),) if "?" in change else ())


def results_in(folder):
    """Write what a service makes of the pages of a campaign."""
    items = wb.load("sample", "dev")[:9]
    with closing(Campaign.create(folder / NAME, items, per_page=3, lease=1e9)) as campaign:
        table = export_pages(campaign, folder / "pages.csv", lease=1e9).add_prefix("Input.")
        with campaign.read_transaction() as connection:
            label = _labels(connection)
    (folder / "pages.csv").unlink()
    by_label = {label(item_id): answer for item_id, answer in answers().items()}
    for place in range(1, 4):
        table[f"Answer.guess_{place}"] = table[f"Input.item_{place}"].map(by_label)
    table["AssignmentId"], table["WorkerId"] = ["A1", "A2", "A3"], ["W1", "W2", "W3"]
    table.to_csv(folder / "results.csv", index=False)


def results_of(folder):
    """Import results: each row is accepted or refused, and what was accepted is judged."""
    with closing(Campaign.open(folder / NAME)) as campaign, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = import_pages(campaign, folder / "results.csv")
        accepted, refused = result.accepted, result.refused
        rows = {*accepted["row"], *refused["row"]}
        assert rows == set(range(1, 1 + len(accepted) + len(refused)))
        assert len(campaign.judgments()) == accepted.drop_duplicates("page")["n_answers"].sum()


def damage_results(folder, rng):
    aside = folder.parent / f"{folder.name}.db"
    (folder / NAME).rename(aside)
    damage(folder, rng)
    aside.rename(folder / NAME)
