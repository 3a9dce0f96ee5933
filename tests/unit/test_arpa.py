"""ARPA files read into arrays: every n-gram in its place, or one clear error."""

import random
import re
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ngrams import STRANGE, arpa, compiled, random_grams

from workbench.models.ngram import arpa as module
from workbench.models.ngram.backoff import SPECIAL, BackOff
from workbench.storage.errors import DataError

SEEDS = st.integers(0, 10**6)


@pytest.fixture
def file(tmp_path):
    """Give an ARPA file with n-grams of four orders."""
    return arpa(random_grams(3, n_words=4, order=4)[1], tmp_path / "m.arpa")


def read(file, folder, words=None):
    """Read a file, by default with the words that it lists, in the order of the alphabet."""
    if words is None:
        pattern = r"^[^\t\n]+\t([^\t \n]+)(?:\t.*)?$"
        words = sorted(set(re.findall(pattern, file.read_text("utf-8"), re.MULTILINE)))
    return compiled(file, folder, words)


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


@pytest.mark.slow
@settings(max_examples=25)
@given(seed=SEEDS, order=st.integers(2, 5), ragged=st.booleans(), block=st.sampled_from([60, 300, 1 << 25]))
def test_every_n_gram_is_in_its_place(tmp_path_factory, seed, order, ragged, block):
    folder = tmp_path_factory.mktemp("arpa")
    words, grams = random_grams(seed, order=order, ties=bool(seed % 2))
    shuffled = random.Random(seed).sample(words, len(words))  # noqa: S311 - no secret
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK", block)
        model = read(arpa(grams, folder / "m.arpa", ragged=ragged), folder / "m", shuffled)
    assert model.words == shuffled
    assert listed(model) == listed(BackOff.open(folder / "m")) == rounded(grams)
    for level in model.levels[1:]:  # what counting needs: sorted within each context
        context = level["key"] >> np.uint64(32)
        for name in ("top", "below"):
            same = context[1:] == context[:-1]
            assert (level[name][1:] <= level[name][:-1])[same].all()
    shutil.rmtree(folder)


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(DataError, match="there is no model"):
        read(tmp_path / "none.arpa", tmp_path / "m", [])


def test_strange_words_are_words(tmp_path):
    level = {(word,): (-1 - i / 8, -i / 16) for i, word in enumerate([*STRANGE, *SPECIAL])}
    pairs = {(a, b): (-(i + j) / 8, 0) for i, a in enumerate(STRANGE) for j, b in enumerate(STRANGE)}
    file = arpa([level, pairs], tmp_path / "m.arpa")
    model = read(file, tmp_path / "m", STRANGE)
    assert listed(model) == rounded([level, pairs])
    assert model.ids(["nan", "no such word"]) == [STRANGE.index("nan"), model.index["<unk>"]]


def test_an_order_without_n_grams(tmp_path):
    words, grams = random_grams(3, n_words=4, order=2)
    file = arpa([*grams, {}], tmp_path / "m.arpa")
    model = read(file, tmp_path / "m", words)
    assert model.order == 3
    assert listed(model)[:2] == rounded(grams)
    contexts = model.contexts([[0, 1], [2], []])
    two = read(arpa(grams, tmp_path / "two.arpa"), tmp_path / "two", words)
    every = np.tile(np.arange(len(words)), (3, 1))
    assert (model.log10(contexts, every) == two.log10(contexts[:, 1:], every)).all()


@settings(max_examples=25)
@given(share=st.floats(0, 1))
def test_a_file_that_is_cut_off_anywhere_is_refused(tmp_path_factory, share):
    folder = tmp_path_factory.mktemp("cut")
    file = arpa(random_grams(3, n_words=4, order=3)[1], folder / "m.arpa")
    content = file.read_bytes().rstrip()
    file.write_bytes(content[: int(share * (len(content) - 1))])
    refused(file, folder / "m", r"m\.arpa: .* -- estimate the model again")
    shutil.rmtree(folder)


def refused(file, folder, message):
    """Check that a file is refused, and that no arrays are there that look whole."""
    with pytest.raises(DataError, match=message):
        read(file, folder)
    with pytest.raises(DataError, match=r"backoff\.json"):
        BackOff.open(folder)


def changed(file, pattern, new, count=1):
    content, n = re.subn(pattern, new, file.read_text(encoding="utf-8"), count=count, flags=re.MULTILINE)
    assert n
    file.write_text(content, encoding="utf-8", newline="\n")


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("more", [-1, 1])
def test_wrong_counts_replace_no_whole_model_as_if_whole(file, tmp_path, order, more):
    read(file, tmp_path / "m")
    changed(file, rf"^ngram {order}=(\d+)", lambda m: f"ngram {order}={int(m[1]) + more}")
    refused(file, tmp_path / "m", f"n-grams of order {order}")


@pytest.mark.parametrize(
    ("pattern", "new", "message"),
    [
        (r"(\\3-grams:\n\S+\t)(\S+) ", r"\1no-such-word ", "no-such-word is in an n-gram, but no unigram"),
        (r"(\\3-grams:\n\S+\t\S+) ", r"\1 \1 ", "not an n-gram of an ARPA file|order 3 has another length"),
        (r"(\\2-grams:\n\S+\t\S+ \S+)\t", r"\1\tword\t", "is not an n-gram of an ARPA file"),
        (r"(\\2-grams:\n)\S+\t", r"\1much\t", "is not an n-gram of an ARPA file"),
        (r"(\\2-grams:\n)\S+\t", r"\1nan\t", "is not a number"),
        (r"(\\2-grams:\n)\S+\t", r"\1\t", "is not a number"),
        (r"(\\1-grams:\n)\S+\t", r"\1nan\t", "is not a number"),
        (r"(\\2-grams:\n\S+\t\S+ \S+)\t", r"\1\tnan", "is not an n-gram of an ARPA file|is not a number"),
        (r"^(\S+)\t<unk>", r"\1\tunk", "the model does not know <unk>"),
        (r"^(\S+)\t<s>\t", r"\1\ts\t", "the model does not know <s>"),
        (r"^\\3-grams:", r"\\5-grams:", "a section of the ARPA file is missing"),
        (r"^\\2-grams:(?s:.*)\\3-grams:", r"\\3-grams:", "a section of the ARPA file is missing"),
        (r"^\\1-grams:", "", "not a complete ARPA file"),
        (r"^\\data\\", "", "not a complete ARPA file"),
        (r"(?s:.*)", "", "there is no model"),
    ],
)
def test_what_is_no_model_is_told(file, tmp_path, pattern, new, message):
    changed(file, pattern, new)
    refused(file, tmp_path / "m", message)


@pytest.mark.parametrize("order", [3, 4])
def test_a_missing_context_is_told(tmp_path, order):
    words, grams = random_grams(3, n_words=4, order=4)
    gram = next(iter(grams[order - 1]))
    del grams[order - 2][gram[:-1]]
    file = arpa(grams, tmp_path / "m.arpa")
    with pytest.raises(DataError, match=r"the context of the n-gram .* is missing") as error:
        read(file, tmp_path / "m", words)
    named = tuple(error.value.problem.removeprefix("the context of the n-gram ").split()[:-2])
    assert named[:-1] == gram[:-1] or named[:-1] not in grams[len(named) - 2]


@pytest.mark.parametrize(
    ("order", "message"), [(1, "a word is listed"), (3, "an n-gram of order 3 is listed")]
)
def test_n_grams_that_are_listed_twice_are_told(file, tmp_path, order, message):
    changed(file, rf"(\\{order}-grams:\n)(.*\n)", r"\1\2\2")
    changed(file, rf"^ngram {order}=(\d+)", lambda m: f"ngram {order}={int(m[1]) + 1}")
    refused(file, tmp_path / "m", f"{message} twice")


def test_a_vocabulary_that_lacks_a_word_is_refused_and_more_words_are_left_out(file, tmp_path):
    words = read(file, tmp_path / "m").words
    with pytest.raises(DataError, match="not in the vocabulary"):
        read(file, tmp_path / "n", words[1:])
    assert read(file, tmp_path / "n", ["more", *words[::-1], "<s>"]).words == words[::-1]


def test_a_huge_line_is_told(file, tmp_path, monkeypatch):
    long = "x" * 500
    changed(file, r"(\\1-grams:\n\S+\t)\S+", rf"\1{long}")
    monkeypatch.setattr(module, "_BLOCK", 400)
    refused(file, tmp_path / "m", "a line is longer than")


@pytest.mark.slow
def test_a_long_line_is_read(tmp_path):
    long = "ab" * 1_500_000
    level = {(word,): (-1, 0) for word in [long, *SPECIAL]}
    pairs = {(long, long): (-1, 0), (long, "</s>"): (-1, 0)}
    model = read(arpa([level, pairs], tmp_path / "long.arpa"), tmp_path / "m")
    assert model.words == [long]
    assert len(model.levels[1]["key"]) == 2


@pytest.mark.parametrize("damage", ["shorter", "empty", "gone", "other"])
def test_damaged_arrays_are_refused(file, tmp_path, damage):
    read(file, tmp_path / "m")
    array = tmp_path / "m" / "logp.2.npy"
    if damage == "gone":
        array.unlink()
    elif damage == "other":
        np.save(array, np.load(array)[:-1])
    else:
        array.write_bytes(array.read_bytes()[:-4] if damage == "shorter" else b"")
    with pytest.raises(DataError, match=r"this n-gram model cannot be read.*remove the folder and fit again"):
        BackOff.open(tmp_path / "m")


@pytest.mark.parametrize("content", ["", "{", "{}", "[]", '{"counts": [1], "bytes": {"key.7": 1}}'])
def test_a_damaged_manifest_is_told(file, tmp_path, content):
    read(file, tmp_path / "m")
    (tmp_path / "m" / "key.7.npy").write_bytes((tmp_path / "m" / "key.2.npy").read_bytes())
    (tmp_path / "m" / "backoff.json").write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=r"n-gram model cannot be read|backoff\.json"):
        BackOff.open(tmp_path / "m")
