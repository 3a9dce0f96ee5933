import numpy as np
import pytest

from workbench.items.items import DataError, items_from_text
from workbench.models.base import Predictor
from workbench.models.vectors.cbow import CBOW, _Sentences
from workbench.models.vectors.vectors import Vectors
from workbench.texts.corpus import Corpus

SEA, FARM = ["ship", "sail", "wave", "gull", "deck"], ["cow", "barn", "hay", "plough", "hen"]


def text(n=300):
    rng = np.random.default_rng(0)
    topics = (SEA, FARM)
    return [" ".join(["the", *rng.permutation(topics[i % 2])[:4], "."]) for i in range(n)]


@pytest.fixture
def corpus(no_data):
    del no_data
    return Corpus.of(text(), progress=False, workers=1)


def fit(corpus, **options):
    return CBOW.fit(corpus, progress=False, **{"dimensions": 8, "epochs": 3, "sample": 0, **options})


@pytest.fixture
def made():
    rng = np.random.default_rng(1)
    words = ["the", ".", *SEA, *FARM]
    arrays = {name: rng.normal(size=(len(words), 5)).astype(np.float32) for name in ("input", "output")}
    return CBOW(Vectors(words, arrays, {"lower": True, "corpus": "x", "dimensions": 5}))


ITEMS = items_from_text(
    [
        "The ship . a wave and a wave hit the deck",
        "the cow ate the Hay",
        "unheard of words , then zebra",
        "hen gull",
    ]
)


def slow(model, item):
    """Give each word its log-probability, one by one."""
    vectors = dict(zip(model.vocabulary, np.asarray(model.input, dtype=float), strict=True))
    passage = np.zeros(model.input.shape[1])
    for word in item.text[: item.answer_span[0]].lower().split():
        passage += vectors.get(word, 0)

    def cosine(x, y):
        size = np.sqrt((x @ x) * (y @ y))
        return x @ y / size if size else 0.0

    values = {word: cosine(passage, vector) for word, vector in vectors.items()}
    total = sum(np.exp(value) for value in values.values())
    return {word: value - np.log(total) for word, value in values.items()}


def test_against_a_loop(made):
    [whole] = list(made.distribution(ITEMS))
    ranked = made.ranking(ITEMS, top_k=4)
    assert ranked.known.tolist() == [True, True, False, True]
    for row, item in enumerate(ITEMS):
        values = slow(made, item)
        np.testing.assert_allclose(whole[row], [values[word] for word in made.vocabulary], atol=1e-6)
        order = sorted(values, key=lambda word: (-values[word], made.vocabulary.index(word)))
        if row != 2:
            answer = item.answer.lower()
            assert ranked.log_prob[row] == pytest.approx(values[answer], abs=1e-6)
            assert ranked.rank[row] == order.index(answer) + 1
            assert ranked.top_words[row] == order[:4]
            np.testing.assert_allclose(ranked.top_log_probs[row], [values[w] for w in order[:4]], atol=1e-6)


def test_probabilities_add_up_and_chunks_change_nothing(made):
    whole = np.concatenate(list(made.distribution(ITEMS, chunk=1)))
    np.testing.assert_allclose(np.exp(whole).sum(axis=1), 1)
    np.testing.assert_allclose(whole, next(made.distribution(ITEMS)), atol=1e-6)


def test_a_passage_without_known_words_is_uniform(made):
    ranked = made.ranking(ITEMS)
    assert ranked.n_tied[2] == len(made.vocabulary)  # all cosines are 0
    assert np.isnan(ranked.log_prob[2])
    np.testing.assert_allclose(ranked.top_log_probs[2], -np.log(len(made.vocabulary)))


def test_predictions(made):
    frame = made.predict(ITEMS)
    assert frame["known"].tolist() == [True, True, False, True]
    assert frame["rank"].tolist()[2] == len(made.vocabulary) + 1
    assert frame["vocabulary_size"].eq(12).all()
    assert frame["log_prob"].isna().tolist() == [False, False, True, False]


def test_scores_of_candidates(made):
    items = items_from_text(
        ["the ship and the ___ hit the deck", "___ ."], answers=["wave", "cow"],
        candidates=[["wave", "zebra", "cow hen"], ["hen", "cow"]], tokenised=True,
    )  # fmt: skip
    found = made.score(items, [list(c) for c in items.frame["candidates"]])
    vectors = dict(zip(made.vocabulary, np.asarray(made.input, dtype=float), strict=True))
    passage = 3 * vectors["the"] + vectors["ship"] + vectors["deck"]  # words after the blank too
    every = [passage @ v / np.linalg.norm(passage) / np.linalg.norm(v) for v in vectors.values()]
    both = vectors["cow"] + vectors["hen"]
    wanted = [
        every[made.vocabulary.index("wave")],
        0,
        passage @ both / np.linalg.norm(passage) / np.linalg.norm(both),
    ]
    np.testing.assert_allclose(found[0], wanted - np.log(np.exp(every).sum()), atol=1e-6)
    assert np.isnan(found[1]).tolist() == [False, False, True]
    assert made.predict(items)["score_type"].eq("log_prob").all()


def test_the_sentence_alone(made):
    text = "hen barn . the cow ate the hay"
    items = items_from_text([text], tokenised=True)
    alone = items_from_text(["the cow ate the hay"], tokenised=True)
    short = CBOW(made.vectors, scope="sentence")
    np.testing.assert_allclose(next(short.distribution(items)), next(made.distribution(alone)))
    assert not np.allclose(next(made.distribution(items)), next(made.distribution(alone)))


def test_vectors_are_kept_and_the_same_seed_gives_the_same(corpus, monkeypatch, tmp_path):
    first = fit(corpus)
    assert isinstance(first.input, np.memmap)
    assert first.input.shape == first.output.shape == (12, 8)
    assert first.input.dtype == np.float32
    with monkeypatch.context() as patch:
        patch.setattr("workbench.models.vectors.cbow._train", None)
        np.testing.assert_array_equal(fit(corpus).output, first.output)
        with pytest.raises(TypeError):
            fit(corpus, window=2)
    few = fit(corpus, vocabulary=4)
    assert (few.vocabulary, len(few.input)) == (corpus.words[:4], 4)
    assert len(few.ranking(ITEMS, top_k=100).top_words[0]) == 4
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "elsewhere"))
    again = fit(corpus)
    np.testing.assert_array_equal(again.input, first.input)
    np.testing.assert_array_equal(again.output, first.output)
    assert not np.allclose(fit(corpus, seed=1).input, first.input)


def test_it_is_gensims_own(no_data):
    from gensim.models import Word2Vec  # noqa: PLC0415 - slow

    del no_data
    rng = np.random.default_rng(2)
    share = np.arange(1, 13) / 78
    lines = [" ".join(rng.choice(["the", ".", *SEA, *FARM], 8, p=share)) for _ in range(400)]
    corpus = Corpus.of(lines, progress=False, workers=1)
    assert len(set(corpus.counts.tolist())) == 12  # so gensim orders the words as the corpus does
    cut = [line.split() for line in lines]
    other = Word2Vec(
        cut, sg=0, vector_size=8, epochs=3, min_count=1, workers=1, seed=7, sample=1e-2, window=3
    )
    model = fit(corpus, seed=7, sample=1e-2, window=3)
    assert model.vocabulary == other.wv.index_to_key
    np.testing.assert_array_equal(model.input, other.wv.vectors)
    np.testing.assert_array_equal(model.output, other.syn1neg)


def test_sentences_can_be_read_again_in_blocks(corpus, monkeypatch):
    class Bar:
        n = 0

        def update(self, n):
            self.n += n

    monkeypatch.setattr("workbench.models.vectors.cbow._BLOCK", 13)
    bar = Bar()
    sentences = _Sentences(corpus, bar)
    for _ in range(2):
        assert [" ".join(line) for line in sentences] == list(corpus.lines()) == text()
    assert bar.n == 2 * len(text())


def test_a_saved_model(made, tmp_path):
    model = CBOW(made.vectors, scope="sentence")
    model.save(tmp_path / "m")
    again = Predictor.load(tmp_path / "m")
    assert again.config == model.config
    np.testing.assert_array_equal(again.output, model.output)
    assert again.predict(ITEMS).equals(model.predict(ITEMS))


def test_wrong_arguments(corpus):
    with pytest.raises(DataError, match="no words"):
        fit(corpus, vocabulary=0)
    with pytest.raises(DataError, match="scope is 'book'"):
        fit(corpus, scope="book")
