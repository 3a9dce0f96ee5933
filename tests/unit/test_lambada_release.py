"""The rule for candidate passages against LAMBADA's release: its passages, the shape of its control set."""

from itertools import islice

import pandas as pd
import pytest

import workbench as wb
from workbench.construction.candidates import Candidates
from workbench.construction.lambada_rule import Rule
from workbench.datasets.books import Book

pytestmark = pytest.mark.data


def shape(items):
    """Return features of the shape of passages, one row an item."""
    rows = []
    for item in items:
        lengths = [len(sentence.split()) for sentence in item.context]
        rows.append(
            {
                "item_id": item.item_id,
                "n_context_sentences": len(lengths),
                "n_context_tokens": sum(lengths),
                "n_without_the_first": sum(lengths[1:]),
                "n_tokens": len(item.tokens),
                "n_target_letters": len(item.answer),
                "letters_only": item.answer.isalpha(),
                "in_context": item.answer.lower() in " ".join(item.context).lower().split(),
                "quotes": "``" in item.tokens,
            }
        )
    return pd.DataFrame(rows)


def test_every_passage_of_the_development_set_is_the_one_that_the_rule_cuts_from_it(real_data):
    items = wb.load("lambada", "dev", variant="capitalised", path=real_data)
    novels = [
        Book(item.item_id, "", None, None, f"{item.text} .", tokenised=True, source="") for item in items
    ]
    candidates = Candidates.of(novels, shortest=1, progress=False)
    last = {item.book_id: item for item in candidates.items()}  # of the candidates of a passage, the last one
    assert [last[item.item_id].text for item in items] == items.frame["text"].tolist()
    assert [last[item.item_id].sentences for item in items] == [item.sentences for item in items]
    lengths = [len(item.query.split()) + 2 for item in items]  # with a full stop and a closing quote, at most
    assert sum(length < Rule().shortest for length in lengths) <= 4  # which have more marks


@pytest.mark.slow
def test_passages_of_other_novels_have_the_shape_of_the_control_set(real_data):
    novels = islice(wb.books(real_data / "novels.tar.xz"), 20, 200, 9)
    candidates = Candidates.of(novels, progress=False)
    ours, control = shape(candidates.sample(3000)), shape(wb.load("lambada", "control", path=real_data))
    for frame, share in ((ours, 1.0), (control, 0.999)):  # one sentence of the control set is cut otherwise
        assert (frame["n_context_tokens"] > 50).mean() >= share
        assert (frame["n_without_the_first"] <= 50).mean() >= share
        assert frame["letters_only"].all()
    table = wb.contrast(ours, control, names=("ours", "control")).set_index("feature")
    for feature in ("in_context", "quotes", "n_target_letters"):
        assert abs(table.loc[feature, "cliff_delta"]) < 0.15
    # sentences of older novels are longer, so that fewer of them are a context
    assert table.loc["n_tokens", "cliff_delta"] > 0 > table.loc["n_context_sentences", "cliff_delta"]
