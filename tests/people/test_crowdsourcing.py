"""Pages that go to a crowdsourcing service and come back: taken whole or refused by name."""

import pandas as pd
import pytest
from refused import refused

import workbench as wb
from workbench.people import Campaign, export_pages, import_pages
from workbench.people.crowdsourcing import _labels
from workbench.storage.errors import DataError


@pytest.fixture
def campaign(tmp_path):
    campaign = Campaign.create(
        tmp_path / "c.db", wb.load("sample", "dev").sample(6), per_page=3, people=(1, 1, 2)
    )
    campaign.moment = 1000.0
    campaign._clock = lambda: campaign.moment
    yield campaign
    campaign.close()


def words(campaign, right):
    with campaign.read_transaction() as connection:
        names = map(_labels(connection), campaign.items().frame["item_id"])
    answers = dict(zip(names, campaign.items().frame["answer"], strict=True))
    return lambda item: answers[item] if right else "?"


def results(campaign, pages, workers, *, right=True, guesses=1):
    """Return what a service makes of exported pages: one assignment a page."""
    table = pages.add_prefix("Input.")
    for place in range(1, 4):
        for guess in range(1, guesses + 1):
            column = f"Answer.guess_{place}" + (f"_{guess}" if guesses > 1 else "")
            table[column] = [words(campaign, right)(item) for item in pages[f"item_{place}"]]
    return table.assign(AssignmentId=[f"A{page}" for page in pages["page"]], WorkerId=workers, Title="guess")


def imported(campaign, table):
    path = campaign.path.with_name("results.csv")
    table.to_csv(path, index=False)
    return import_pages(campaign, path)


def test_pages_go_out_and_come_back(campaign, tmp_path):
    pages = export_pages(campaign, tmp_path / "pages.csv")
    pd.testing.assert_frame_equal(
        pages, pd.read_csv(tmp_path / "pages.csv", keep_default_na=False), check_dtype=False
    )
    assert len(pages) == 2
    assert campaign.next_page(campaign.add_subject("local").id) is None
    refused(export_pages, campaign, tmp_path / "more.csv")
    first = imported(campaign, results(campaign, pages, ["W1", "W1"]))
    assert (len(first.accepted), len(first.refused)) == (2, 0)
    again = imported(campaign, results(campaign, pages, ["W1", "W1"]))
    pd.testing.assert_frame_equal(first.accepted, again.accepted)
    assert len(campaign.judgments()) == 6
    assert campaign.states()["step"].tolist() == [2] * 6
    second = export_pages(campaign, tmp_path / "pages.csv")
    taken = imported(campaign, results(campaign, second, ["W2", "W2"]))
    assert str(taken) == "2 pages accepted, 0 refused"
    third = export_pages(campaign, tmp_path / "pages.csv")
    assert (third["guesses"] == 3).all()
    assert (third["context_1"] == "").all()
    assert len(third) == 4
    workers = ["W3", "W4", "W3", "W4"]
    first_items = third["item_1"].tolist()
    assert first_items[0] == first_items[1]
    taken = imported(campaign, results(campaign, third, workers, right=False, guesses=3))
    assert len(taken.refused) == 0
    assert len(campaign.survivors()) == 6
    assert campaign.costs().set_index("step").loc["all", "cost"] == pytest.approx(4 * 0.22 + 4 * 0.15)
    assert len(campaign.subjects()) == 5


def test_no_name_in_a_page_tells_which_item_it_is(campaign, tmp_path):
    pages = export_pages(campaign, tmp_path / "pages.csv")
    names = {name for place in (1, 2, 3) for name in pages[f"item_{place}"]}
    assert len(names) == 6
    written = (tmp_path / "pages.csv").read_text(encoding="utf-8")
    assert not any(item_id in written for item_id in campaign.items().frame["item_id"])
    other = Campaign.create(tmp_path / "other.db", campaign.items(), campaign.protocol)
    others = export_pages(other, tmp_path / "others.csv")
    assert names.isdisjoint(others[f"item_{place}"].tolist()[0] for place in (1, 2, 3))
    row = results(other, others, ["W1"] * len(others))
    assert set(imported(campaign, row).refused["reason"]) <= {"wrong page", "unknown page"}
    assert len(campaign.judgments()) == 0


def test_rows_are_refused_by_name_and_nothing_is_lost(campaign, tmp_path):
    pages = export_pages(campaign, tmp_path / "pages.csv")
    table = results(campaign, pages, ["W1", "W1"])
    one, two = table.iloc[0].to_dict(), table.iloc[1].to_dict()
    local = campaign.add_subject("local")
    bad = {
        "unknown page": [
            {"Input.page": 99},
            {"Input.page": "x"},
            {"Input.page": "9" * 40},
            {"Input.page": "-1"},
        ],
        "wrong page": [{"Input.page": two["Input.page"]}, {"Input.item_4": "more"}],
        "invalid row": [{"WorkerId": ""}, {"AssignmentId": "x" * 300}],
        "invalid guess": [{"Answer.guess_1_2": "second"}, {"Answer.guess_2": "x" * 300}],
        "rejected": [{"AssignmentStatus": "Rejected"}],
    }
    rows = [(reason, {**one, **change}) for reason, changes in bad.items() for change in changes]
    for reason, row in rows:
        result = imported(campaign, pd.DataFrame([row]))
        assert result.refused["reason"].tolist() == [reason], row
        for name, value in row.items():
            assert str(result.refused[name].iloc[0]) == str(value)
    assert len(campaign.judgments()) == 0
    unanswered = pd.DataFrame([one]).drop(columns="Answer.guess_2")
    assert imported(campaign, unanswered).refused["reason"].tolist() == ["unanswered tasks"]
    mixed = pd.DataFrame(
        [{**one, "Input.page": 99}, one, {**one, "WorkerId": "W2", "AssignmentId": "B"}, two]
    )
    result = imported(campaign, mixed)
    assert result.accepted["row"].tolist() == [2, 4]
    assert result.refused["row"].tolist() == [1, 3]
    assert result.refused["reason"].tolist() == ["unknown page", "finished page"]
    changed = imported(campaign, pd.DataFrame([{**one, "Answer.guess_1": "other"}]))
    assert changed.refused["reason"].tolist() == ["answered before"]
    page = campaign.next_page(local.id)  # a page that was not exported
    row = {**one, "Input.page": page.id, "AssignmentId": "C"}
    row |= {f"Input.item_{place}": task.item_id for place, task in enumerate(page.tasks, 1)}
    assert imported(campaign, pd.DataFrame([row])).refused["reason"].tolist() == ["unknown page"]


@pytest.mark.parametrize("separator", [",", "\t", ";"])
def test_commas_tabs_and_any_order_of_columns(campaign, tmp_path, separator):
    pages = export_pages(campaign, tmp_path / "pages.csv")
    table = results(campaign, pages, ["W1", "W1"])
    table = table[sorted(table, key=lambda name: name[::-1])]
    preview = table.iloc[[0]].assign(WorkerId="", AssignmentId="")
    path = tmp_path / "results.csv"
    text = pd.concat([table[:1], preview, table[1:]]).to_csv(sep=separator, index=False)
    path.write_bytes(f"{text}W9{separator}A9\n".encode("utf-16" if separator == "\t" else "utf-8-sig"))
    result = import_pages(campaign, path)
    assert result.accepted["row"].tolist() == [1, 3]
    assert result.refused[["row", "reason"]].to_numpy().tolist() == [[2, "invalid row"], [4, "invalid row"]]
    assert len(campaign.judgments()) == 6


def test_the_same_worker_twice_both_conditions_and_late_answers(campaign, tmp_path):
    pages = export_pages(campaign, tmp_path / "pages.csv")
    imported(campaign, results(campaign, pages, ["W1", "W2"]))
    second = export_pages(campaign, tmp_path / "pages.csv")
    result = imported(campaign, results(campaign, second, ["W1", "W1"]))
    assert "duplicate subject" in result.refused["reason"].tolist()
    rest = second[second["page"].isin(result.refused["Input.page"].astype(int))]
    imported(campaign, results(campaign, rest, "W3"))
    third = export_pages(campaign, tmp_path / "pages.csv", lease=50)
    result = imported(campaign, results(campaign, third, "W1", guesses=3))
    assert result.refused["reason"].tolist() == ["both conditions"] * len(third)
    campaign.moment += 50
    result = imported(
        campaign, results(campaign, third, [f"W{place}" for place in range(5, 5 + len(third))], guesses=3)
    )
    assert result.refused["reason"].tolist() == ["expired page"] * len(third)
    again = export_pages(campaign, tmp_path / "pages.csv")
    assert len(again) == len(third)
    assert not set(again["page"]) & set(third["page"])


def test_files_that_are_no_results_and_protocols_without_forms(campaign, tmp_path):
    path = tmp_path / "x.csv"
    for content in (b"", b"\xff\xfe\x00", b"a,b\n1,2\n", b'"'):
        path.write_bytes(content)
        with pytest.raises(DataError):
            import_pages(campaign, path)
    with pytest.raises(DataError):
        import_pages(campaign, tmp_path / "absent.csv")
    refused(export_pages, campaign, path, step=4)
    assert len(export_pages(campaign, path, n=1, step=1)) == 1
    unfolding = Campaign.create(tmp_path / "u.db", campaign.items(), "unfolding")
    refused(export_pages, unfolding, path)
    unfolding.close()
