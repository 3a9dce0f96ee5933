"""The rule for candidate passages against the passages of LAMBADA's release."""

import pytest

import workbench as wb
from workbench.construction.candidates import CandidatePassages, Rule
from workbench.datasets.books import Book

pytestmark = pytest.mark.data


def test_every_passage_of_the_development_set_is_the_one_that_the_rule_cuts_from_it(real_data):
    items = wb.load("lambada", "dev", variant="capitalised", path=real_data)
    novels = [
        Book(item.item_id, "", None, None, f"{item.text} .", tokenised=True, source="") for item in items
    ]
    candidates = CandidatePassages.of(novels, shortest=1)
    last = {item.book_id: item for item in candidates.items()}  # of the candidates of a passage, the last one
    assert [last[item.item_id].text for item in items] == items.frame["text"].tolist()
    assert [last[item.item_id].sentences for item in items] == [item.sentences for item in items]
    lengths = [len(item.query.split()) + 2 for item in items]  # with a full stop and a closing quote, at most
    assert sum(length < Rule().shortest for length in lengths) <= 4  # which have more marks
