"""N-gram models from texts to predictions, against KenLM."""

import json
import math
import re
import shutil
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from braced_items import passages
from hypothesis import given
from hypothesis import strategies as st
from ngrams import Loop, asked, by_value, compiled, fitted, kenlm, slow_log_probs, text
from refused import refused

import workbench as wb
from workbench.items.items import Items, items_from_text
from workbench.items.tokens import tokens
from workbench.models.base import Predictor
from workbench.models.item_words import lefts
from workbench.models.item_words import passages as of_items
from workbench.models.ngram import estimate as estimating
from workbench.models.ngram import kenlm as tools
from workbench.models.ngram.model import NGram
from workbench.predictions import schema
from workbench.storage.errors import DataError
from workbench.texts.corpus import Corpus

QUICK = {"memory": "60M"}
MODELS = [("kneser-ney", 3), ("kneser-ney", 5), ("good-turing", 3)]


@pytest.fixture(params=MODELS, ids=str)
def fit(request):
    smoothing, order = request.param
    return fitted(order=order, smoothing=smoothing)


@pytest.fixture(scope="module")
def sample():
    return wb.load("sample")


@pytest.fixture(scope="module")
def of_sample(tmp_path_factory):
    """Give a 4-gram model of the sample's novels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_HOME", str(tmp_path_factory.mktemp("home")))
        return NGram.fit(wb.books("sample"), order=4, vocabulary=1500, **QUICK)


def tiny(lines=400, **options):
    return NGram.fit(list(text()[:lines]), **{"order": 2, "vocabulary": 100} | QUICK | options)


def models(home):
    """Return what looks like a whole model."""
    return sorted((home / "cache" / "ngram").glob(f"[!.]*/{estimating.INFO}"))


# Probabilities sum to 1.


def sums(model, lines):
    """Return the sums of the probabilities of all words after the beginnings of some lines."""
    rows = [["<s>", *line.split()][: place + 1] for line in lines for place in range(6)]
    rows += [row[1:] for row in rows] + [[], ["<unk>"], ["<unk>", "<unk>"]]
    every = np.arange(len(model.words) + 2)  # and </s> and <unk>
    contexts = model.contexts([model.ids(row) for row in rows])
    log10 = model.log10(contexts, np.tile(every, (len(rows), 1))).astype(float)
    return (10**log10).sum(axis=1)


@pytest.mark.parametrize("vocabulary", [None, 550])
@pytest.mark.parametrize("smoothing", ["kneser-ney", "good-turing"])
@pytest.mark.parametrize("order", [2, 5])
def test_probabilities_sum_to_1(smoothing, order, vocabulary):
    model = fitted(order=order, smoothing=smoothing, vocabulary=vocabulary, n_lines=2000).model
    np.testing.assert_allclose(sums(model, text()[:50]), 1, rtol=0, atol=1e-5)


@pytest.mark.usefixtures("no_data")
def test_probabilities_sum_to_1_after_contexts_that_list_unknown_words():
    """Without what lmplz keeps for its own <unk> the sums are 0.95 to 0.98."""
    lines = ["a b c d", "a b x y", "a b z x"]
    fit = NGram.fit(lines, order=3, vocabulary=["a", "b", "c"], tokenised=True, **QUICK)
    totals = sums(fit.model, [*lines, "d x"])
    assert (fit.model.state(fit.model.contexts([fit.model.ids(["a", "b"])])).nodes[1] >= 0).all()
    np.testing.assert_allclose(totals, 1, rtol=0, atol=1e-6)


@pytest.mark.parametrize("pruning", [None, (0, 0, 1, 1, 2)])
def test_unknown_words_have_what_lmplz_keeps_for_unk(tmp_path, pruning):
    fit = fitted(order=5, pruning=pruning)
    known = set(fit.vocabulary)
    lines = [" ".join(w if w in known else "<other>" for w in line.split()) for line in text()]
    command = [tools.find_program("lmplz"), "-o", "2", "-S", "60M", "-T", f"{tmp_path}/"]
    command += ["--arpa", tmp_path / "m.arpa", "--discount_fallback"]
    tools.run_program(command, folder=tmp_path, text=["\n".join([*lines, ""]).encode()])
    listed = (tmp_path / "m.arpa").read_text(encoding="utf-8")
    own, other = (
        10 ** float(re.search(rf"^(\S+)\t{w}\t", listed, re.MULTILINE)[1]) for w in ("<unk>", "<other>")
    )
    assert 0 < own < 2e-4 < other
    np.testing.assert_allclose(sums(fit.model, text()[:50]), 1, rtol=0, atol=1e-5)
    unk = fit.model.index["<unk>"]
    assert 10 ** float(fit.model.levels[0]["logp"][unk]) == pytest.approx(own + other, rel=1e-5)


@pytest.mark.usefixtures("no_data")
def test_the_text_ends_with_a_newline():
    """Without one lmplz loses the end of the last sentence: probabilities sum to much more than 1."""
    lines = ["a b c a b", "b c d", "a a c d b", "d e"]
    model = NGram.fit(lines, order=3, vocabulary=None, **QUICK).model
    np.testing.assert_allclose(sums(model, lines), 1, rtol=0, atol=1e-5)


@pytest.mark.filterwarnings("ignore:.* words? of the text (is|are) <unk>")
@pytest.mark.usefixtures("no_data")
def test_the_words_of_a_text_are_the_words_of_its_model():
    odd = "a\x01b c\x07 d\0e f\x0bg h\x85i j\u2028k l\u200bm \ufeffn \ud800o é\u0301 \x1a \x7f <unk> p\x1fq"
    corpus = Corpus.of([f"{odd} x<s> <unk>x {'y' * 100_000}", *text()], lower=False)
    fit = NGram.fit(corpus, order=2, vocabulary=None, lower=False, **QUICK)
    assert set(fit.vocabulary) == set(corpus.words) - {"<unk>"}
    assert fit.model.ids(["x<s>", "<unk>x"]) != fit.model.ids(["<unk>", "<unk>"])
    model = kenlm.Model(str(fit.binary))
    assert all(word in model for word in fit.vocabulary)


# Scores of words.


def choices(fit):
    """Return candidates: known, unknown, of several tokens."""
    w = fit.vocabulary
    return [w[0], w[200], "unheard", f"{w[3]} {w[9]}", f"{w[1]} unheard {w[2]}", w[-1].upper()]


@pytest.mark.parametrize("unknown", ["shared", "unk"])
def test_scores_are_those_of_kenlm_word_by_word(fit, unknown):
    items = asked(60)
    model = NGram(fit.folder, unknown=unknown)
    words = [choices(fit)[: 1 + i % 6] for i in range(len(items))]
    by_position = model.position_scores(items, words)
    assert by_position.shape == (60, 6, fit.order)
    score = model.score(items, words)
    alone = NGram(fit.folder, unknown=unknown, after=False).score(items, words)
    types = {word for line in text() for word in line.split()}
    share = math.log(len(types - set(fit.vocabulary))) if unknown == "shared" else 0
    for i, rows in enumerate(slow_log_probs(fit, items, words)):
        for j, values in enumerate(rows):
            pieces = words[i][j].lower().split()
            inside = sum(values[: len(pieces)]) - share * pieces.count("unheard")
            after = values[len(pieces) : len(pieces) + fit.order - 1]
            expected = [inside, *after, *[np.nan] * (fit.order - 1 - len(after))]
            np.testing.assert_allclose(by_position[i, j], expected, rtol=1e-6)
            assert score[i, j] == pytest.approx(inside + sum(after), rel=1e-6)
            assert alone[i, j] == pytest.approx(inside, rel=1e-6)
        assert np.isnan(score[i, len(rows) :]).all()
        assert np.isnan(alone[i, len(rows) :]).all()


# Rankings.


def test_rankings_are_those_of_kenlm_word_by_word(fit):
    items, loop = asked(150), Loop(fit.binary, fit.vocabulary)
    cuts = [tokens(item) for item in items]
    left = [[w.lower() for w in cut.words[cut.sentences[-1] : cut.target]] for cut in cuts]
    scores = np.array([loop.scores(["<s>", *words]) for words in left])
    frame = schema.check_predictions(fit.predict(items, 7), items)
    places = {word: place for place, word in enumerate(fit.vocabulary)}
    best = by_value(scores, 7)
    for i, row in enumerate(frame.itertuples()):
        place = places.get(row.answer)
        if place is None:
            assert (row.known, row.rank, row.p_correct, row.n_tied) == (False, len(places) + 1, 0, 1)
        else:
            above, same = (scores[i] > scores[i, place]).sum(), (scores[i] == scores[i, place]).sum()
            assert (row.rank, row.n_tied, row.known) == (above + 1, same, True)
            assert row.p_correct == (1 / same if above == 0 else 0)
            assert row.log_prob == pytest.approx(scores[i, place] * np.log(10), rel=1e-6)
        assert list(row.top_words) == [fit.vocabulary[j] for j in best[i]]
        np.testing.assert_allclose(row.top_log_probs, scores[i, best[i]] * np.log(10), rtol=1e-6)
    assert (frame["vocabulary_size"] == len(fit.vocabulary)).all()
    assert (frame["system"] == "N-Gram").all()
    log_probs = np.concatenate(list(fit.distribution(items, chunk=64)))
    np.testing.assert_allclose(log_probs, scores * np.log(10), rtol=1e-6)


def test_unknown_answers_are_counted_as_the_row_says(fit):
    answers = ["unheard", "</s>", "<s>", "<unk>"]  # what KenLM reserves is no answer
    items = items_from_text(["___ w1"] * 4, answers=answers, tokenised=True)
    unk = NGram(fit.folder, unknown="unk")
    shared, apart = fit.predict(items), unk.predict(items, 551)
    assert fit.info["unknown_types"] == 650 - 550
    assert apart["log_prob"][0] - shared["log_prob"][0] == pytest.approx(math.log(100))
    for frame, unknown in ((shared, "shared"), (apart, "unk")):
        assert frame["unknown"].tolist() == [unknown] * 4
        assert frame["rank"].tolist() == [551] * 4
        assert not frame["known"].any()
    expected = Loop(fit.binary, ["<unk>"]).scores(["<s>"])[0] * np.log(10)
    assert apart["log_prob"][0] == pytest.approx(expected, rel=1e-6)
    assert not set(answers) & set(apart["top_words"][0])


def test_what_is_expected(of_sample, sample):
    expected, top = of_sample.expected(sample[:5], top_k=4), of_sample.ranking(sample[:5], top_k=4)
    assert expected["place"].tolist() == [1, 2, 3, 4] * 5
    assert expected["word"].tolist() == np.ravel(top.top_words).tolist()
    np.testing.assert_allclose(expected["log_prob"], np.ravel(top.top_log_probs))


@pytest.mark.usefixtures("no_data")
def test_a_cased_model_knows_case():
    lines = ["The dog saw the Dog .", "the dog ran", "A Dog ran"]
    cased = NGram.fit(lines, order=2, lower=False, **QUICK)
    assert {"The", "the", "Dog", "dog"} <= set(cased.vocabulary)
    items = items_from_text(["the ___"], answers=["Dog"], tokenised=True)
    lowered = NGram.fit(lines, order=2, **QUICK)
    assert "Dog" not in lowered.vocabulary
    assert (cased.form("Dog"), lowered.form("Dog")) == ("Dog", "dog")
    assert cased.predict(items)["top_words"][0][0] in {"Dog", "dog"}
    assert lowered.predict(items)["known"].tolist() == [True]
    assert cased.log_prob(items)[0] != lowered.log_prob(items)[0]
    with pytest.raises(DataError):
        NGram.fit(Corpus.of(lines, lower=False), order=2, **QUICK)


@given(st.lists(passages(), min_size=1, max_size=3), st.booleans())
def test_the_quick_way_to_what_is_before_the_blank(drawn, lower):
    items = Items.from_records(replace(item, item_id=f"x/dev/{i}") for i, item in enumerate(drawn))
    assert [tuple(left) for left in lefts(items, lower=lower)] == [
        passage.left for _, passage in of_items(items, lower=lower)
    ]


# Fitting once, and what goes wrong.


def test_equal_texts_and_settings_find_the_model_again(no_data):
    first = tiny()
    assert json.loads(json.dumps(first.config)) == first.config
    assert (first.training["checked_for"], first.training["sentences"]) == (None, 400)
    assert first.training["tokens"] == sum(len(line.split()) for line in text()[:400])
    (file,) = models(no_data)
    before = {path: path.stat().st_mtime_ns for path in file.parent.iterdir()}
    with mock.patch.object(tools, "run_program", None):
        again = tiny(memory="70M", temporary=no_data, after=False, name="other")
    assert again.folder == first.folder == file.parent
    assert {path: path.stat().st_mtime_ns for path in file.parent.iterdir()} == before
    assert (again.name, again.after) == ("other", False)
    others = [
        tiny(lines=401), tiny(order=3), tiny(vocabulary=99), tiny(smoothing="good-turing"), tiny(lower=False),
        tiny(order=3, pruning=(0, 0, 1)),
    ]  # fmt: skip
    assert len({first.folder, *(other.folder for other in others)}) == 7
    checked = tiny(held_out=items_from_text(["Not from any of these texts"]))
    assert (checked.folder, checked.training["checked_for"]["items"]) == (first.folder, 1)
    assert checked.config != first.config
    assert len(models(no_data)) == 7
    assert not list((no_data / "cache" / "ngram").glob(".*"))


def test_a_saved_model_is_one_of_kenlm_too(of_sample, tmp_path):
    of_sample.save(tmp_path / "saved")
    loaded = Predictor.load(tmp_path / "saved")
    assert loaded.folder.is_relative_to(tmp_path)
    kenlm.Model(str(loaded.binary))
    shutil.rmtree(tmp_path / "saved" / "model")
    refused(NGram.load, tmp_path / "saved")


def test_items_held_out_are_refused_and_their_books_named(no_data, sample):
    stories = ["sample/bees-for-the-bishop", "sample/copper-bay"]
    held_out = sample.where(sample.frame["book_id"].isin(stories).to_numpy())
    books = list(wb.books("sample"))
    with pytest.raises(DataError) as error:
        NGram.fit(books, order=2, held_out=held_out, **QUICK)
    assert "sample/bees-for-the-bishop (Bees for the Bishop)" in str(error.value)
    assert "sample/copper-bay (Copper Bay)" in str(error.value)
    assert "market-day" not in str(error.value)
    assert models(no_data) == []
    others = [book for book in books if "bees" not in book.book_id and "copper" not in book.book_id]
    fit = NGram.fit(others, order=2, vocabulary=500, held_out=held_out, **QUICK)
    assert fit.training["checked_for"]["items"] == len(held_out)
    fit.save(no_data / "saved")
    assert NGram.load(no_data / "saved").training == fit.training


@pytest.mark.parametrize(
    ("texts", "options"),
    [
        (["", " \n "], {}),
        (["<unk> <unk>", "<s>"], {}),
        (["a b"], {"order": 1}),
        (["a b"], {"smoothing": "laplace"}),
        (["a b"], {"vocabulary": ["c"]}),
        (["a b c d"] * 9, {"memory": "much"}),
        (["a b"], {"pruning": (-1, 0)}),
        (["a b"], {"pruning": [0, 2, 1], "order": 3}),
        (["a b"], {"pruning": (0, 1, 1)}),
    ],
)
@pytest.mark.filterwarnings("ignore:.* words? of the text (is|are) <unk>")
def test_what_cannot_be_fitted_is_one_clear_error(no_data, texts, options):
    refused(NGram.fit, texts, **{"order": 2} | QUICK | options)
    assert models(no_data) == []
    assert not list((no_data / "cache").glob("ngram/.*"))


@pytest.mark.parametrize("pruning", [(), (0, 0)])
@pytest.mark.usefixtures("no_data")
def test_thresholds_of_0_leave_out_nothing(pruning):
    assert len(tiny(pruning=pruning).model.levels[1]["key"]) == len(tiny().model.levels[1]["key"])


@pytest.mark.parametrize("smoothing", ["kneser-ney", "good-turing"])
@pytest.mark.parametrize(
    "lines",
    [
        ["word"],
        ["a a a"],
        ["a"] * 3,
        ["<unk> a x<unk>y <unk>-like", "x<unk>y b"],
        ["<s> a </s>", "b <UNK> c"],
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:.* words? of the text (is|are) <unk>")
@pytest.mark.usefixtures("no_data")
def test_tiny_and_reserved_texts(lines, smoothing):
    model = NGram.fit(lines, order=3, smoothing=smoothing, lower=False, **QUICK)
    words = {word for line in lines for word in line.split()} - {"<s>", "</s>", "<unk>"}
    assert words - set(model.vocabulary) <= {"<UNK>"}
    loop, arrays = Loop(model.binary, model.vocabulary), model.model
    rows = [[], [model.vocabulary[0]], ["unheard"]]
    (scores,) = arrays.distribution(arrays.contexts([arrays.ids(row) for row in rows]))
    np.testing.assert_array_equal(scores, [loop.scores(row) for row in rows])


@pytest.mark.parametrize("smoothing", ["kneser-ney", "good-turing"])
@pytest.mark.usefixtures("no_data")
def test_the_binary_is_made_when_it_is_asked_for(smoothing, tmp_path):
    """From the arrays, of which each number is written so that it is read as the same."""
    fit = fitted(order=3, vocabulary=100, n_lines=200, smoothing=smoothing)
    names = sorted(path.name for path in fit.folder.iterdir())
    assert estimating.KENLM not in names
    assert kenlm.Model(str(fit.binary)).order == 3
    assert sorted(path.name for path in fit.folder.iterdir()) == sorted([*names, estimating.KENLM])
    estimating.save_arpa(fit.model, tmp_path / "m.arpa")
    again = compiled(tmp_path / "m.arpa", tmp_path / "again", fit.vocabulary)
    for level, wanted in zip(again.levels, fit.model.levels, strict=True):
        assert set(level) == set(wanted)
        assert all(array.tobytes() == wanted[name].tobytes() for name, array in level.items())
