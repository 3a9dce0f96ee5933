"""What holds of real novels: those that come with the sentence completion challenge, and others.

Each archive is unpacked once for all tests of this file, which takes longer than most of them.
"""

import random
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import lemma_tables as tables
import novels
import pytest
import test_tokeniser_oracle

from workbench import construction
from workbench.datasets import books

pytestmark = pytest.mark.data


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


def test_the_licence_is_in_no_real_training_text(read):
    phrases = ("this small print", "gutenberg-tm", "literary archive foundation", "should be named", "as-is")
    novels = read("msrcc", "train")
    for book in novels:
        text = " ".join(book.text[:20_000].split() + book.text[-20_000:].split()).lower()
        assert not [phrase for phrase in phrases if phrase in text], book.book_id
    assert len(novels) == 522


PHRASES = re.compile(
    r"gutenberg|small print|e-?text|should be named|indemnity|\bas-is\b|literary archive|proofread"
    r"|public domain|plain vanilla|money order|hart@|https?:|www\."
)


def test_the_licence_is_in_no_item_of_real_novels(read, tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    novels = read("msrcc", "train")
    drawn = random.Random(0).sample(novels, 11)  # noqa: S311 - no secret
    drawn += [book for book in novels if book.book_id.endswith("PETER16")]  # had a notice of its own
    ends = [replace(book, text=f"{book.text[:6000]}\n\n{book.text[-6000:]}") for book in drawn]
    half, others = ends[6:], ends[:6]
    made = {
        "lambada": construction.lambada.passages(ends),
        "cbt": construction.childrens_book.questions(half, classes=["CN", "V", "P"]),
        "completion": construction.sentence_completion.questions(half, others, frequency=1e-3, minimum=2),
    }
    for name, items in made.items():
        assert len(items) > 50, name
        texts = [" ".join(text.split()) for text in items.frame["text"]]
        lowered = map(str.lower, texts)
        assert [text for text in lowered if PHRASES.search(text)] == [], name


def test_the_table_that_ships_is_what_the_data_give(read, tmp_path, monkeypatch, capsys):
    shipped = tables.TARGET.read_bytes()
    monkeypatch.setattr(tables, "TARGET", tmp_path / "lemmas.json")
    monkeypatch.setattr(novels, "books", read)
    tables.main()
    assert (tmp_path / "lemmas.json").read_bytes() == shipped
    assert "gum-dev: lemma accuracy 98." in capsys.readouterr().out


def test_nothing_is_read_in_another_way(read, archive):
    several = read(archive)[:40:10]
    assert several
    for novel in several:
        test_tokeniser_oracle.test_the_same_tokens.hypothesis.inner_test(novel.text)


def test_a_novel_collection(read, archive, tmp_path, monkeypatch):
    story = ("Dubliners", "The_Dead")
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    every = enumerate(read(archive))
    chosen = [novel for place, novel in every if place % 4 == 0 or novel.book_id.endswith(story)]
    made = construction.read_novels(chosen)
    assert len(made.frame) == len(chosen) > 50
    assert made.frame["reason"].isna().all()
    assert (made.frame["confidence"] > 0.95).mean() > 0.98
    [pair] = made.pairs.to_dict("records")  # a long story of a collection, which is also there by itself
    assert (pair["one"].endswith("Dubliners"), pair["other"].endswith("The_Dead")) == (True, True)
    assert pair["other_in_one"] > 0.99
    assert made.frame["group"].nunique() == len(chosen) - 1
