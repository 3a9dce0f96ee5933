"""Models from ARPA files as arrays and back: every n-gram in its place, damage is one clear error."""

import random
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ngrams import STRANGE, arpa, compiled, random_grams
from refused import refused

import workbench as wb
from workbench.models import NGram
from workbench.models.ngram.backoff import SPECIAL, BackOff
from workbench.models.ngram.estimate import save_arpa

SEEDS = st.integers(0, 10**6)


@pytest.fixture
def folder(tmp_path):
    """Give the arrays of n-grams of four orders."""
    words, grams = random_grams(3, n_words=4, order=4)
    compiled(arpa(grams, tmp_path / "m.arpa"), tmp_path / "m", words)
    return tmp_path / "m"


def listed(model):
    """Return the n-grams of the arrays as an ARPA file has them."""
    grams, before = [], [()]
    for level in model.levels:
        key = level.get("key", np.arange(len(level["logp"]), dtype=np.uint64))
        assert (key[1:] > key[:-1]).all()
        before = [(*before[int(k) >> 32], model.word(int(k) & 0xFFFFFFFF)) for k in key]
        weights = level.get("backoff", np.zeros(len(key))).tolist()
        grams.append(dict(zip(before, zip(level["logp"].tolist(), weights, strict=True), strict=True)))
    return grams


def rounded(grams):
    return [{g: tuple(np.float32(pair).tolist()) for g, pair in level.items()} for level in grams]


@settings(max_examples=25)
@given(seed=SEEDS, order=st.integers(2, 5), ragged=st.booleans())
def test_every_n_gram_is_in_its_place(tmp_path_factory, seed, order, ragged):
    folder = tmp_path_factory.mktemp("arpa")
    words, grams = random_grams(seed, order=order, ties=bool(seed % 2))
    shuffled = random.Random(seed).sample(words, len(words))  # noqa: S311 - no secret
    model = compiled(arpa(grams, folder / "m.arpa", ragged=ragged), folder / "m", shuffled)
    assert model.words == shuffled
    assert listed(model) == listed(BackOff.open(folder / "m")) == rounded(grams)
    for level in model.levels[1:]:  # what counting needs: sorted within each context
        context = level["key"] >> np.uint64(32)
        for name in ("top", "below"):
            same = context[1:] == context[:-1]
            assert (level[name][1:] <= level[name][:-1])[same].all()
    shutil.rmtree(folder)


def test_strange_words_are_words(tmp_path):
    level = {(word,): (-1 - i / 8, -i / 16) for i, word in enumerate([*STRANGE, *SPECIAL])}
    pairs = {(a, b): (-(i + j) / 8, 0) for i, a in enumerate(STRANGE) for j, b in enumerate(STRANGE)}
    model = compiled(arpa([level, pairs], tmp_path / "m.arpa"), tmp_path / "m", STRANGE)
    assert model.ids(["nan", "no such word"]) == [STRANGE.index("nan"), model.index["<unk>"]]
    save_arpa(model, tmp_path / "saved.arpa")
    again = compiled(tmp_path / "saved.arpa", tmp_path / "again", STRANGE)
    assert listed(model) == listed(again) == rounded([level, pairs])


def test_an_order_without_n_grams(tmp_path):
    words, grams = random_grams(3, n_words=4, order=2)
    file = arpa([*grams, {}], tmp_path / "m.arpa")
    model = compiled(file, tmp_path / "m", words)
    assert model.order == 3
    assert listed(model)[:2] == rounded(grams)
    contexts = model.contexts([[0, 1], [2], []])
    two = compiled(arpa(grams, tmp_path / "two.arpa"), tmp_path / "two", words)
    every = np.tile(np.arange(len(words)), (3, 1))
    assert (model.log10(contexts, every) == two.log10(contexts[:, 1:], every)).all()


@pytest.mark.usefixtures("no_data")
def test_a_model_of_another_program_is_named_rather_than_read_as_a_novel(tmp_path):
    model = NGram.fit(["the heron saw the eel ."] * 9, order=2, memory="60M")
    save_arpa(model.model, tmp_path / "m.arpa")
    for file in (tmp_path / "m.arpa", model.binary):
        for read in (NGram, NGram.load, NGram.fit, lambda path: list(wb.books(path))):
            refused(read, file)


def test_a_novel_that_speaks_of_data_is_a_novel(tmp_path):
    file = tmp_path / "novel.txt"
    file.write_text("The file began with \\data\\\nngram 1=5, she said.\n")
    assert len(list(wb.books(file))) == 1
