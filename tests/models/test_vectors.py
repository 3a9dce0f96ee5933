"""LSA and CBOW against scikit-learn, gensim and slow loops."""

import numpy as np
import pytest
from gensim.models import Word2Vec
from hypothesis import given
from hypothesis import strategies as st
from refused import refused
from scipy.sparse import csr_array
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer

from workbench.items.items import items_from_text
from workbench.models import lsa as lsa_module
from workbench.models import vectors as module
from workbench.models.lsa import LSA
from workbench.models.vectors import CBOW, Vectors
from workbench.texts.corpus import Corpus

pytestmark = pytest.mark.usefixtures("no_data")
WEIGHTINGS = ["none", "tf-idf", "log-entropy"]
WORDS = [f"w{i}" for i in range(40)]
K = 6
SEA, FARM = ["ship", "sail", "wave", "gull", "deck"], ["cow", "barn", "hay", "plough", "hen"]


def corpus_of(lines, **options):
    return Corpus.of(lines, **options)


def topics(n):
    """Make sentences of the words of the sea, and of the farm."""
    rng = np.random.default_rng(0)
    return [" ".join(["the", *rng.permutation((SEA, FARM)[i % 2])[:4], "."]) for i in range(n)]


def lsa(corpus, **options):
    return LSA.fit(corpus, **{"dimensions": K, **options})


def cbow(corpus, **options):
    return CBOW.fit(corpus, **{"dimensions": 8, "epochs": 3, "sample": 0, **options})


@pytest.fixture
def lines():
    rng = np.random.default_rng(5)
    sizes = [(rng.integers(2, 12), rng.dirichlet(np.full(40, 0.1))) for _ in range(300)]
    return [" ".join(rng.choice(WORDS, size, p=p)) for size, p in sizes]


@pytest.fixture
def corpus(lines):
    return corpus_of(lines)


def cosine(x, y):
    size = np.sqrt((x @ x) * (y @ y))
    return x @ y / size if size else 0.0


# LSA.


def slow_weights(counts, weighting):
    """Weigh a dense matrix, entry by entry."""
    n, found = len(counts), np.zeros(counts.shape)
    for j in range(counts.shape[1]):
        total, seen = counts[:, j].sum(), (counts[:, j] > 0).sum()
        entropy = -sum((c / total) * np.log(c / total) for c in counts[:, j] if c)
        for i in range(n):
            tf = counts[i, j]
            found[i, j] = {
                "none": tf,
                "tf-idf": tf * np.log(n / max(seen, 1)),
                "log-entropy": np.log2(1 + tf) * (1 - entropy / np.log(n)),
            }[weighting]
    return found


def slow_score(vectors, place, item, word):
    """Average the cosines to every other word, one by one."""
    around = f"{item.left} {item.right}".lower().split()
    others = [w for w in around if w in place and w.isalnum()]
    return np.mean([cosine(vectors[place[word]], vectors[place[w]]) for w in others])


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@given(data=st.data())
def test_weights_against_a_loop(weighting, data):
    rows = data.draw(st.lists(st.tuples(*[st.integers(0, 3)] * 4), min_size=2, max_size=7))
    counts = np.array([*rows, (1, 1, 1, 1)], dtype=float)  # each word somewhere
    matrix = csr_array(counts)
    lsa_module.weigh(matrix, weighting)
    np.testing.assert_allclose(matrix.toarray(), slow_weights(counts, weighting), atol=1e-12)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_vectors_are_those_of_truncated_svd(corpus, lines, weighting):
    model = lsa(corpus, weighting=weighting)
    counter = CountVectorizer(vocabulary=model.vectors.words, analyzer=str.split, dtype=float)
    matrix = slow_weights(counter.fit_transform(lines).toarray(), weighting)
    other = TruncatedSVD(K, algorithm="arpack", random_state=1).fit(matrix)
    arrays = model.vectors.arrays
    np.testing.assert_allclose(arrays["s"], other.singular_values_, rtol=1e-4)
    products = arrays["v"] @ arrays["v"].T  # signs do not matter
    np.testing.assert_allclose(products, other.components_.T @ other.components_, atol=2e-4)


def test_blocks_of_sentences_change_nothing(corpus, monkeypatch):
    whole = lsa(corpus).vectors.arrays["s"]
    monkeypatch.setattr(lsa_module, "_SENTENCES", 7)
    np.testing.assert_allclose(lsa(corpus, seed=3).vectors.arrays["s"], whole, rtol=1e-5)


@pytest.mark.parametrize("scaled", [True, False])
def test_scores_of_lsa_against_a_loop(corpus, scaled):
    model = lsa(corpus, scaled=scaled)
    candidates = [["w5", "w6", "w7", "w3 w4"], ["w8", "w1"]]
    items = items_from_text(["w1 w2 ___ w3 w3 unheard", "___ w9 , w4"], candidates=candidates, tokenised=True)
    arrays, place = model.vectors.arrays, model.vectors.row_of
    vectors = (arrays["v"] * (arrays["s"] if scaled else 1)).astype(float)
    vectors = np.vstack([vectors, vectors[place["w3"]] + vectors[place["w4"]]])  # a word of two tokens
    place = place | {"w3 w4": len(vectors) - 1}
    scores = model.score(items, candidates)
    for row, item in zip(scores, items, strict=True):
        expected = [slow_score(vectors, place, item, word) for word in item.candidates]
        np.testing.assert_allclose(row[: len(expected)], expected, rtol=1e-5)
    assert np.isnan(scores[1]).tolist() == [False, False, True, True]


def test_a_word_without_weight_has_no_direction():
    vectors = lsa(corpus_of(topics(120)), dimensions=3, weighting="log-entropy").vectors
    rows = np.asarray(vectors.arrays["v"])
    assert not rows[[vectors.row_of["the"], vectors.row_of["."]]].any()  # in every sentence once
    assert np.abs(rows[vectors.row_of["ship"]]).max() > 0.1


def test_a_topic_is_found():
    model = lsa(corpus_of(topics(120)), dimensions=3, weighting="log-entropy", punctuation=False)
    items = items_from_text(
        ["The ship had one ___ on its deck .", "The cow ate ___ in the barn ."],
        answers=["sail", "hay"], tokenised=True,
        candidates=[["plough", "sail", "barn"], ["gull", "wave", "hay"]],
    )  # fmt: skip
    frame = model.predict(items)
    assert frame["correct"].all()
    assert model.systems == {"msrcc": "Average LSA similarity"}
    assert frame["log_prob"].isna().all()


def test_words_that_lsa_does_not_know(corpus):
    candidates = [["w3", "zebra", "zebra 's"], ["w1", "w2"]]
    items = items_from_text(["w1 ___ w2", "what ___ this"], candidates=candidates, tokenised=True)
    found = lsa(corpus).score(items, candidates)
    assert found[0, 0] != 0
    assert found[0, 1:].tolist() == [0, 0]
    assert found[1, :2].tolist() == [0, 0]  # no other word that it knows


def test_which_others_count():
    rng = np.random.default_rng(4)
    sentences = [" ".join([",", *rng.choice(WORDS[:9], 5), "."]) for _ in range(100)]
    model = lsa(corpus_of(sentences), dimensions=4)
    assert set(model.vectors.words[:2]) == {",", "."}

    def score(text, **options):
        items = items_from_text(text, candidates=[["w1", "w2"]], tokenised=True)
        return model.variant(**options).score(items, [["w1", "w2"]])[0]

    plain, marks = score("w3 ___ w4"), score("w3 , ___ w4 .")
    assert not np.allclose(plain, marks)
    np.testing.assert_allclose(score("w3 , ___ w4 .", punctuation=False), plain)
    np.testing.assert_allclose(score("w3 , ___ w4 .", skip=2), plain)
    two = "w5 w6 . w3 ___ w4"
    np.testing.assert_allclose(score(two), plain)
    assert not np.allclose(score(two, scope="passage"), plain)


@pytest.mark.parametrize(("minimum", "words"), [(2, list("abcde")), (3, list("abc"))])
def test_case_counts_as_in_the_corpus_and_rare_words_have_no_vector(minimum, words):
    lines = ["a b c d", "A b c", "b a e c", "c b A"] * 2
    low, cased = (corpus_of(lines, lower=lower) for lower in (True, False))
    model = lsa(low, dimensions=1, minimum=minimum)
    assert model.vectors.words == words
    items = items_from_text("b ___ c", candidates=[["A", "a", "x"]], tokenised=True)
    [row] = model.score(items, [["A", "a", "x"]])
    assert row[0] == row[1] != row[2] == 0
    [row] = lsa(cased, dimensions=1, minimum=2).score(items, [["B", "a", "x"]])
    assert row[0] == row[2] == 0 != row[1]


# CBOW.


@pytest.fixture
def made():
    rng = np.random.default_rng(1)
    words = ["the", ".", *SEA, *FARM]
    arrays = {name: rng.normal(size=(len(words), 5)).astype(np.float32) for name in ("input", "output")}
    return CBOW(Vectors(words, arrays, {"lower": True, "corpus": "x", "dimensions": 5}))


ITEMS = items_from_text(
    ["The ship . a wave and a wave hit the deck", "the cow ate the Hay", "unheard of words , then zebra",
     "hen gull"],
)  # fmt: skip


def slow_log_probs(model, item):
    """Give each word its log-probability, one by one."""
    vectors = dict(zip(model.vocabulary, np.asarray(model.input, dtype=float), strict=True))
    passage = np.zeros(model.input.shape[1])
    for word in item.text[: item.answer_span[0]].lower().split():
        passage += vectors.get(word, 0)
    values = {word: cosine(passage, vector) for word, vector in vectors.items()}
    total = sum(np.exp(value) for value in values.values())
    return {word: value - np.log(total) for word, value in values.items()}


def test_cbow_against_a_loop(made):
    whole = next(made.distribution(ITEMS))
    chunks = np.concatenate(list(made.distribution(ITEMS, chunk=1)))
    np.testing.assert_allclose(chunks, whole, atol=1e-6)
    ranked = made.ranking(ITEMS, top_k=4)
    assert ranked.known.tolist() == [True, True, False, True]
    for row, item in enumerate(ITEMS):
        values = slow_log_probs(made, item)
        np.testing.assert_allclose(whole[row], [values[word] for word in made.vocabulary], atol=1e-6)
        order = sorted(values, key=lambda word: (-values[word], made.vocabulary.index(word)))
        if row != 2:
            answer = item.answer.lower()
            assert ranked.log_prob[row] == pytest.approx(values[answer], abs=1e-6)
            assert ranked.rank[row] == order.index(answer) + 1
            assert ranked.top_words[row] == order[:4]
            np.testing.assert_allclose(ranked.top_log_probs[row], [values[w] for w in order[:4]], atol=1e-6)


def test_a_passage_without_known_words_is_uniform(made):
    ranked, frame = made.ranking(ITEMS), made.predict(ITEMS)
    assert ranked.n_tied[2] == len(made.vocabulary)  # all cosines are 0
    np.testing.assert_allclose(ranked.top_log_probs[2], -np.log(len(made.vocabulary)))
    assert frame["rank"].tolist()[2] == len(made.vocabulary) + 1
    assert frame["log_prob"].isna().tolist() == [False, False, True, False]


def test_scores_of_candidates(made):
    items = items_from_text(
        ["the ship and the ___ hit the deck", "___ ."], answers=["wave", "cow"],
        candidates=[["wave", "zebra", "cow hen"], ["hen", "cow"]], tokenised=True,
    )  # fmt: skip
    found = made.score(items, [list(c) for c in items.frame["candidates"]])
    vectors = dict(zip(made.vocabulary, np.asarray(made.input, dtype=float), strict=True))
    passage = 3 * vectors["the"] + vectors["ship"] + vectors["deck"]  # words after the blank too
    every = [cosine(passage, vector) for vector in vectors.values()]
    wanted = [cosine(passage, vectors["wave"]), 0, cosine(passage, vectors["cow"] + vectors["hen"])]
    np.testing.assert_allclose(found[0], wanted - np.log(np.exp(every).sum()), atol=1e-6)
    assert np.isnan(found[1]).tolist() == [False, False, True]
    assert made.predict(items)["score_type"].eq("log_prob").all()


def test_the_sentence_alone(made):
    items = items_from_text(["hen barn . the cow ate the hay"], tokenised=True)
    alone = items_from_text(["the cow ate the hay"], tokenised=True)
    short = CBOW(made.vectors, scope="sentence")
    np.testing.assert_allclose(next(short.distribution(items)), next(made.distribution(alone)))
    assert not np.allclose(next(made.distribution(items)), next(made.distribution(alone)))


def test_cbow_is_gensims_own():
    rng = np.random.default_rng(2)
    share = np.arange(1, 13) / 78
    lines = [" ".join(rng.choice(["the", ".", *SEA, *FARM], 8, p=share)) for _ in range(400)]
    corpus = corpus_of(lines)
    assert len(set(corpus.counts.tolist())) == 12  # so gensim orders the words as the corpus does
    options = {"seed": 7, "sample": 1e-2, "window": 3, "epochs": 3}
    other = Word2Vec([line.split() for line in lines], sg=0, vector_size=8, min_count=1, workers=1, **options)
    model = cbow(corpus, **options)
    assert model.vocabulary == other.wv.index_to_key
    np.testing.assert_array_equal(model.input, other.wv.vectors)
    np.testing.assert_array_equal(model.output, other.syn1neg)


def test_vectors_do_not_depend_on_blocks_but_on_the_seed(monkeypatch, tmp_path):
    corpus = corpus_of(topics(300))
    first = cbow(corpus)
    assert first.input.shape == first.output.shape == (12, 8)
    assert first.input.dtype == np.float32
    few = cbow(corpus, vocabulary=4)
    assert (few.vocabulary, len(few.input)) == (corpus.words[:4], 4)
    assert len(few.ranking(ITEMS, top_k=100).top_words[0]) == 4
    assert not np.allclose(cbow(corpus, seed=1).input, first.input)
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "elsewhere"))
    monkeypatch.setattr(module, "_TOKENS", 13)
    again = cbow(corpus)
    np.testing.assert_array_equal(again.input, first.input)
    np.testing.assert_array_equal(again.output, first.output)


# Both.


@pytest.mark.parametrize(("fit", "name"), [(lsa, "v"), (cbow, "output")])
def test_vectors_are_kept_by_corpus_and_arguments(corpus, fit, name):
    first = fit(corpus).vectors
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lsa_module, "_decompose", None)
        patch.setattr(module, "_train", None)
        again = fit(corpus, scope="passage").vectors  # another model of the same vectors
        np.testing.assert_array_equal(again.arrays[name], first.arrays[name])
        assert isinstance(again.arrays[name], np.memmap)
        with pytest.raises(TypeError):
            fit(corpus, seed=2)


@pytest.mark.parametrize(
    ("fit", "options"),
    [
        (lsa, {"weighting": "bm25"}),
        (lsa, {"dimensions": 40}),
        (lsa, {"scope": "book"}),
        (cbow, {"vocabulary": 0}),
        (cbow, {"scope": "book"}),
    ],
)
def test_wrong_arguments(corpus, fit, options):
    refused(fit, corpus, **options)


def test_a_matrix_without_information():
    refused(lsa, corpus_of(["a b c"] * 5), dimensions=1, weighting="tf-idf")
