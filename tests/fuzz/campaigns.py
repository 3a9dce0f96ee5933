"""Databases of campaigns, and result files of crowdsourcing services."""

import sqlite3
import warnings
from contextlib import closing, suppress

from mutator import mutate_folder
from target import Target

import workbench as wb
from workbench.items.items import Items
from workbench.people import Campaign, export_pages, import_pages
from workbench.people.crowdsourcing import _labels
from workbench.people.reports import JUDGMENTS, STATES
from workbench.storage.errors import DataError

ITEMS = wb.load("sample", "dev")[:9]
ANSWERS = dict(zip(ITEMS.frame["item_id"], ITEMS.frame["answer"], strict=True))
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


def campaign_in(folder):
    """Make a campaign in which one person has submitted a page, and one has answered a part of one."""
    campaign = Campaign.create(folder / NAME, ITEMS, per_page=3, people=(1, 1, 2), lease=1e9)
    ada, eve = (campaign.add_subject(name).id for name in ("Ada", "Eve"))
    page = campaign.next_page(ada)
    for place, task in enumerate(page.tasks):
        campaign.answer(page.id, ada, task.item_id, [ANSWERS[task.item_id] if place else "?"], seconds=1.5)
    campaign.submit(page.id, ada)
    page = campaign.next_page(eve)
    campaign.answer(page.id, eve, page.tasks[0].item_id, ["?"])
    campaign.close()


def campaign_of(folder):
    """Read every table, go on with an open page, and return what there is."""
    campaign = Campaign.open(folder / NAME)
    with closing(campaign):
        tables = [
            campaign.judgments(), campaign.states(), campaign.funnel(), campaign.costs(), campaign.subjects(),
            campaign.predictions(), campaign.unfolding(),
        ]  # fmt: skip
        told = [repr(campaign), str(campaign.agreement()), *(table.to_json() for table in tables)]
        items, kept = campaign.items(), campaign.survivors()
        page = campaign.next_page(2)
        if page is not None:
            for task in page.tasks:
                with suppress(DataError):  # answered before, with other words
                    campaign.answer(page.id, 2, task.item_id, ["?"])
    return items, kept, tables, told


def judge_campaign(value, _folder, valid):
    """Judge what was read: the items never change; people's words may, which nothing can tell."""
    items, kept, tables, told = value
    assert [str(item) for item in items] == [str(item) for item in valid[0]], "other items"
    assert set(kept.frame["item_id"]) <= set(ANSWERS)
    judgments, states = tables[:2]
    assert tuple(judgments.columns) == JUDGMENTS
    assert tuple(states.columns) == STATES
    assert set(judgments["item_id"]) <= set(ANSWERS)
    assert set(states["state"]) <= {"open", "kept", "dropped"}
    assert not judgments.duplicated(["subject", "item_id", "shown"]).any()
    assert isinstance(items, Items)
    return "same" if told == valid[3] else "valid"


def damage_campaign(folder, rng):
    """Change the bytes of a database, or what it holds by SQL that no check hinders."""
    if rng.random() < 0.4:
        mutate_folder(folder, rng)
        return
    connection = sqlite3.connect(folder / NAME, isolation_level=None)
    with closing(connection), suppress(sqlite3.Error, OverflowError):
        connection.execute("PRAGMA ignore_check_constraints = ON")
        found = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        table = rng.choice(found)[0]
        columns = connection.execute("SELECT name FROM pragma_table_info(?)", (table,)).fetchall()
        change = rng.choice([*[UPDATE] * 12, *CHANGES])
        names = {"<table>": table, "<column>": rng.choice(columns)[0], "<n>": str(rng.randrange(4))}
        for mark, name in names.items():
            change = change.replace(mark, name)
        connection.execute(change, (rng.choice(VALUES),) if "?" in change else ())


def results_in(folder):
    """Write what a service makes of the pages of a campaign."""
    Campaign.create(folder / NAME, ITEMS, per_page=3, lease=1e9).close()
    with closing(Campaign.open(folder / NAME)) as campaign:
        table = export_pages(campaign, folder / "pages.csv", lease=1e9).add_prefix("Input.")
        with campaign.read_transaction() as connection:
            label = _labels(connection)
    answers = {label(item_id): answer for item_id, answer in ANSWERS.items()}
    (folder / "pages.csv").unlink()
    for place in range(1, 4):
        table[f"Answer.guess_{place}"] = table[f"Input.item_{place}"].map(answers)
    table["AssignmentId"], table["WorkerId"] = ["A1", "A2", "A3"], ["W1", "W2", "W3"]
    table.to_csv(folder / "results.csv", index=False)


def results_of(folder):
    with closing(Campaign.open(folder / NAME)) as campaign, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = import_pages(campaign, folder / "results.csv")
        return result, campaign.judgments()


def judge_results(value, _folder, valid):
    result, judgments = value
    assert len(judgments) == result.accepted.drop_duplicates("page")["n_answers"].sum()
    assert set(result.accepted["row"]) | set(result.refused["row"]) == set(
        range(1, 1 + len(result.accepted) + len(result.refused))
    )
    if len(result.refused):
        return "problems"
    columns = ["item_id", "name", "prediction"]
    same = judgments[columns].equals(valid[1][columns])
    return "same" if same else "valid"


def damage_results(folder, rng):
    aside = folder.parent / f"{folder.name}.db"
    (folder / NAME).rename(aside)
    mutate_folder(folder, rng)
    aside.rename(folder / NAME)


CAMPAIGNS = [
    Target("campaign", "database", campaign_in, campaign_of, judge_campaign, damage_campaign),
    Target("crowdsourcing results", "table", results_in, results_of, judge_results, damage_results),
]
