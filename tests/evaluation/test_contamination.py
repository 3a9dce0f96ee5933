from functools import cache
from pathlib import Path

import pandas as pd
import pytest
from refused import refused

import workbench as wb
from workbench.datasets.books import Book
from workbench.evaluation.contamination import Contamination, contamination
from workbench.items import text as wt
from workbench.models import CBOW, LSTM, MaximumFrequency, NGram, RandomWord
from workbench.models.base import Predictor
from workbench.models.ensemble import Ensemble
from workbench.predictions import store
from workbench.texts.corpus import Corpus
from workbench.texts.overlap import check_held_out

SENTENCE = "The ferry did not sail that morning, for the river had frozen from bank to bank."
PASSAGE = f"{SENTENCE} So the whole family crossed the ice on foot behind the old gray mule"
OTHER = "A lamp burned in every window of the long street & nobody slept while the bells were ringing"
LONELY = "They baked all night in the little shop. At dawn the whole street smelled of warm fresh bread"


def book(name, text):
    return Book(name, name, None, None, text, tokenised=False, source=name)


@pytest.fixture
def items():
    return wb.items_from_text([PASSAGE, OTHER, LONELY])


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "novels"
    path.mkdir()
    (path / "ice.txt").write_text(f"Once.\n\n{PASSAGE.upper()}.\n\nThe end.", encoding="utf-8")
    (path / "lamps.txt").write_text(OTHER.replace("burned", "glowed"), encoding="utf-8")
    return path


def check(report):
    assert isinstance(report, Contamination)
    assert report.frame["passage"].tolist() == [True, False, False]
    assert report.frame["query"].tolist() == [True, False, False]
    assert report.frame["found"].tolist() == [23, 7, 0]
    assert report.frame["n_grams"].tolist() == [23, 10, 11]


def test_texts_may_come_in_any_form(items, folder):
    every, changed = PASSAGE.lower(), OTHER.replace("burned", "glowed")
    for texts in (
        str(folder),
        [folder / "ice.txt", folder / "lamps.txt"],
        [every, changed],
        iter([book("a", every), changed, folder / "lamps.txt", every[:20]]),
        [SENTENCE, PASSAGE[len(SENTENCE) :], changed],  # lines are one text
    ):
        check(contamination(items, texts))
    assert contamination(items, book("a", every)).frame["passage"].tolist()[0]
    assert contamination(items, folder).frame["books"].tolist() == [("ice",), ("lamps",), ()]
    assert contamination(items, [every, changed]).texts["book_id"].tolist() == ["lines"]


@pytest.mark.usefixtures("no_data")
def test_a_corpus_without_the_books_of_the_items(items, folder):
    corpus = Corpus.of(wb.books(folder))
    check(contamination(items, corpus))
    refused(check_held_out, corpus, items[:1])
    assert check_held_out(corpus.without(["ice"]), items[:1])


def test_the_summary_counts(items, folder):
    report = contamination(items, folder)
    table = report.summary.set_index("what")
    assert table["found"].tolist() == [1, 1, 1, 2, 2, 30]
    assert table["of"].tolist() == [3, 3, 3, 3, 3, 44]
    assert table["share"].tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 3, 2 / 3, 2 / 3, 30 / 44])
    books = report.by_book()
    assert books[["book_id", "items", "half"]].to_numpy().tolist() == [["ice", 1, 1], ["lamps", 1, 1]]


def test_it_is_told_plainly(items):
    report = contamination(items, [book(f"<{place}>", PASSAGE) for place in range(7)])
    assert "passage occurs: 1 of 3 (33.3 %)" in str(report)
    assert str(report).endswith("and 2 more books")
    page = report._repr_html_()
    assert "&lt;0&gt;" in page
    assert "<0>" not in page
    blank = wb.items_from_text(["The ___ ran"], answers=[None])
    assert "passage occurs: 0 of 0\n" in str(contamination(blank, ["the dog ran"]))


@pytest.mark.parametrize(
    "texts",
    [[], ["-- ..."], [book("a", "  ")], [3],
     [("a", ["b"])], Path("nowhere")],
)  # fmt: skip
def test_what_holds_no_text_is_refused(items, texts):
    refused(contamination, items, texts)


@pytest.mark.data
def test_the_childrens_questions_stand_in_their_books(real_data):
    """13 passages of the release run from the end of one book into the next: their queries stand in one."""
    items = wb.load("cbt", "dev")
    path = real_data / "cbt" / "cbt_valid.txt"
    frame = contamination(items, path).frame
    assert frame["query"].all()
    assert (~frame["passage"]).sum() == 13
    assert (frame["n_grams"] - frame["found"])[~frame["passage"]].tolist() == [7] * 13
    assert (frame["share"][frame["passage"]] == 1).all()


def train():
    return wb.books("sample", "train")


def of_run(items, model):
    """Return the column of a run, read from disk."""
    return wb.predict(items, model).predictions["in_training"]


@cache
def stories():
    return ["".join(wt.tokenize(book.text)).lower() for book in train()]


def substrings(items):
    """Return which items stand in a story of the training texts, by a search in their letters."""
    texts = ["".join(item.tokens if item.tokenised else wt.tokenize(item.text)).lower() for item in items]
    return [any(text in story for story in stories()) for text in texts]


@pytest.mark.parametrize("variant", ["openai", "cbt"])
@pytest.mark.usefixtures("no_data")
def test_a_run_says_which_passages_its_model_was_fitted_on(variant):
    items = wb.load("sample", variant=variant)
    expected = substrings(items)
    assert 0 < sum(expected) < len(items)
    ngram = NGram.fit(train(), order=2)
    for model in (ngram, ngram.cached()):
        assert of_run(items, model).tolist() == expected
        assert not of_run(wb.load("sample", "test", variant=variant), model).any()
        assert of_run(wb.load("sample", "train", variant=variant), model).all()


def corpus_models():
    """Yield models of every kind that names its corpus."""
    corpus = Corpus.of(train())
    lstm = LSTM.fit(corpus, width=4, tokens=500, vocabulary=300)
    yield from (lstm, lstm.cached(), MaximumFrequency("corpus", corpus=corpus))
    yield CBOW.fit(corpus, dimensions=4, epochs=1)
    yield NGram.fit(corpus, order=2)


@pytest.mark.usefixtures("no_data")
def test_models_that_are_loaded_say_the_same_as_long_as_the_corpus_is_there(tmp_path):
    items = wb.load("sample", variant="cbt").sample(30)
    expected = substrings(items)
    assert 0 < sum(expected) < len(items)
    models = list(corpus_models())
    for number, model in enumerate(models):
        assert model.in_training(items).tolist() == expected, model.name
        model.save(tmp_path / str(number))
    others = items[:20]
    loaded = [Predictor.load(tmp_path / str(number)) for number in range(len(models))]
    assert [model.in_training(others).tolist() for model in loaded] == [expected[:20]] * len(models)
    [corpus] = (store.data_home() / "cache" / "corpus").iterdir()
    corpus.unlink()
    for model in loaded:
        assert model.in_training(items).tolist() == expected  # it was found before
        assert model.in_training(items[:10]).isna().all()
        assert of_run(items[:10], model).isna().all()


class Plain:
    """A model that is no `Predictor`."""

    name, device, config, training = "plain", "cpu", {}, {}

    def predict(self, items, top_k=10, *, seed=0):
        return RandomWord("passage").predict(items, top_k, seed=seed).assign(model=self.name)


@pytest.mark.usefixtures("no_data")
def test_nothing_is_claimed_of_texts_that_are_not_known():
    items = wb.load("sample", variant="cbt").sample(10)
    for model in (
        Plain(),
        RandomWord("passage"),
        NamesNothing({"pretrained": "gpt2"}),
        NamesNothing({"corpus": 3}),
    ):
        assert of_run(items, model).isna().all()
    runs = [wb.predict(items, RandomWord("passage")), wb.predict(items, Plain())]
    assert wb.evaluate(runs).attrs["warnings"] == []
    assert wb.evaluate(runs)["share_in_training"].isna().all()


class NamesNothing(RandomWord):
    version = 1

    def __init__(self, training):
        super().__init__("passage")
        self._training = training

    @property
    def training(self):
        return self._training


@pytest.mark.usefixtures("no_data")
def test_an_ensemble_has_read_what_one_of_its_models_has():
    items = wb.load("sample", variant="cbt").sample(30)
    expected = substrings(items)
    known, unknown = NGram.fit(train(), order=2), RandomWord("passage")
    for models in ([known, unknown], [wb.predict(items, known), wb.predict(items, unknown)]):
        assert of_run(items, Ensemble(models)).tolist() == [True if read else pd.NA for read in expected]
    frame = wb.evaluate(wb.predict(items, Ensemble([known, unknown])))
    assert frame["share_in_training"].tolist() == [sum(expected) / 30]


@pytest.mark.usefixtures("no_data")
def test_the_key_of_a_run_does_not_depend_on_it(monkeypatch):
    items, ngram = wb.load("sample")[:5], NGram.fit(train(), order=2)
    with monkeypatch.context() as patch:
        patch.setattr(NGram, "in_training", lambda _, items: pd.Series(pd.NA, items.frame["item_id"]))
        before = wb.predict(items, ngram)
    assert before.predictions["in_training"].isna().all()
    assert wb.predict(items, ngram).run == before.run


SENTENCE_OF_ALL = (
    "Whole passages in the texts that a model was fitted on, so new texts may be harder: 61.3 %, 136 of 222"
    " (“2-gram, Kneser-Ney”, “2-gram, Kneser-Ney, cache 0.1”)."
)


@pytest.mark.usefixtures("no_data")
def test_tables_and_comparisons_say_what_was_read_before():
    items = wb.load("sample")
    ngram = NGram.fit(train(), order=2)
    runs = [wb.predict(items, model) for model in (RandomWord("passage"), ngram, ngram.cached())]
    table = wb.evaluate(runs)
    assert table.attrs["warnings"][0] == SENTENCE_OF_ALL
    assert f"<p>{SENTENCE_OF_ALL}</p>" in table._repr_html_()
    assert table["share_in_training"].tolist() == [pd.NA, 136 / 222, 136 / 222]
    groups = wb.evaluate(runs[1], by="in_training")
    assert groups[["in_training", "n", "share_in_training"]].to_numpy().tolist() == [
        [False, 86, 0],
        [True, 136, 1],
    ]
    board = wb.leaderboard(runs)
    assert board["share_in_training"].dropna().tolist() == [136 / 222] * 2
    comparison = wb.compare(items, runs, None)
    assert comparison.comparison.warnings[0] == SENTENCE_OF_ALL
    comparison.close()
