"""What holds of real novels: those that come with the sentence completion challenge, and others.

Each archive is unpacked once for all tests of this file, which takes longer than most of them.
"""

from functools import cache
from pathlib import Path

import lemma_tables as tables
import novels
import pandas as pd
import pytest
import test_linear

import workbench as wb
from workbench import construction
from workbench.construction.candidates import Candidates
from workbench.datasets import books

pytestmark = [pytest.mark.data, pytest.mark.slow]


@pytest.fixture(scope="module")
def read():
    """Give a function that reads books as `books` does, the same ones once."""
    return cache(lambda *names: list(books(*names)))


@pytest.fixture
def archive(real_data):
    return Path(real_data) / "novels.tar.xz"


def test_real_books(read, archive):
    assert [book.author for book in books("cbt", "dev")][:2] == ["Andrew Lang", "Lucy Maud Montgomery"]
    holmes = [(len(book.text), "small print" in book.text[:5000].lower()) for book in read("msrcc", "train")]
    assert len(holmes) == 522
    assert min(length for length, _ in holmes) > 2000
    assert sum(header for _, header in holmes) <= 1
    others = read(archive)[:40]
    assert len({book.book_id for book in others}) == 40
    assert all(book.year and book.author for book in others)


def test_the_table_that_ships_is_what_the_data_give(read, real_data, tmp_path, monkeypatch, capsys):  # noqa: ARG001 - skips
    shipped = tables.TARGET.read_bytes()
    monkeypatch.setattr(tables, "TARGET", tmp_path / "lemmas.json")
    monkeypatch.setattr(novels, "books", read)
    tables.main()
    assert (tmp_path / "lemmas.json").read_bytes() == shipped
    assert "gum-dev: lemma accuracy 98." in capsys.readouterr().out


def test_nothing_is_read_in_another_way(read, archive):
    several = read(archive)[:40:4]
    assert several
    for novel in several:
        test_linear.test_the_same_guess.hypothesis.inner_test(novel.text)
        test_linear.test_the_same_tokens.hypothesis.inner_test(novel.text)
        assert [
            body for *_, body in test_linear.books._gutenberg(novel.text, "")
        ] == test_linear.old_gutenberg(novel.text)


def test_a_shelf(read, archive, tmp_path, monkeypatch):
    story = ("Dubliners", "The_Dead")
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    every = enumerate(read(archive))
    chosen = [novel for place, novel in every if place % 4 == 0 or novel.book_id.endswith(story)]
    made = construction.read_shelf(chosen, progress=False)
    assert len(made.frame) == len(chosen) > 50
    assert made.frame["reason"].isna().all()
    assert (made.frame["confidence"] > 0.95).mean() > 0.98
    [pair] = made.pairs.to_dict("records")  # a long story of a collection, which is also there by itself
    assert (pair["one"].endswith("Dubliners"), pair["other"].endswith("The_Dead")) == (True, True)
    assert pair["other_in_one"] > 0.99
    assert made.frame["group"].nunique() == len(chosen) - 1


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


def test_passages_of_other_novels_have_the_shape_of_the_control_set(read, real_data, archive):
    candidates = Candidates.of(read(archive)[20:200:9], progress=False)
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
