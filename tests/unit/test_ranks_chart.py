"""Where the right word is put: the numbers of the chart, against a slow count."""

import pytest
from made_predictions import made, scores

from workbench import charts
from workbench.charts.ranks import shares
from workbench.items.schema import DataError

FRAMES = [
    made(120, seed=1).assign(model="one"),
    made(90, seed=2, start="lambada/control").assign(model="two"),
]


def test_shares_are_those_of_a_slow_count():
    found = shares(FRAMES)
    assert set(zip(found["model"], found["set"], strict=True)) == {
        ("one", "lambada/dev"),
        ("two", "lambada/control"),
    }
    for row in found.itertuples():
        frame = FRAMES[row.model == "two"]
        among = sum(
            bool(known) and rank <= row.k for known, rank in zip(frame["known"], frame["rank"], strict=True)
        )
        assert row.share == pytest.approx(among / len(frame))
        assert row.n == len(frame)
    assert found["k"].min() == 1


def test_a_bound_is_no_rank_and_choices_are_no_vocabulary():
    frame = made(50, seed=3).assign(rank_is_bound=[n % 2 == 0 for n in range(50)])
    sure = [row for row in frame.itertuples() if row.known and not row.rank_is_bound]
    for row in shares(frame).itertuples():
        assert row.share == pytest.approx(sum(one.rank <= row.k for one in sure) / 50)
    with pytest.raises(DataError, match="no prediction has a rank"):
        shares(frame.assign(vocabulary_size=None))


def test_the_chart_shows_them_and_stays_small():
    chart = charts.ranks(FRAMES)
    spec = chart.to_dict()
    assert [panel["title"]["text"] for panel in spec["hconcat"]] == ["LAMBADA development", "Control"]
    assert len(str(spec)) < 60_000
    drawn = [row for rows in spec["datasets"].values() for row in rows]
    assert {(row["k"], row["share"]) for row in drawn} == set(
        shares(FRAMES)[["k", "share"]].itertuples(index=False, name=None)
    )


def test_without_ranks_it_says_so():
    with pytest.raises(DataError, match="no prediction has a rank"):
        charts.ranks(scores(made(5)).assign(rank=None))
