import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

from workbench.items.items import DataError, items_from_text
from workbench.models.base import Predictor
from workbench.models.vectors import lsa
from workbench.models.vectors.lsa import LSA
from workbench.texts.corpus import Corpus

WORDS = [f"w{i}" for i in range(40)]
K = 6


@pytest.fixture
def lines():
    rng = np.random.default_rng(5)
    return [
        " ".join(rng.choice(WORDS, rng.integers(2, 12), p=rng.dirichlet(np.full(40, 0.1))))
        for _ in range(300)
    ]


@pytest.fixture
def corpus(no_data, lines):
    del no_data
    return Corpus.of(lines, progress=False, workers=1)


def fit(corpus, **options):
    return LSA.fit(corpus, progress=False, **{"dimensions": K, **options})


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


def dense(lines, words):
    return CountVectorizer(vocabulary=words, analyzer=str.split, dtype=float).fit_transform(lines).toarray()


def slow_score(vectors, place, item, word):
    """Average the cosines to every other word, one by one."""

    def cosine(x, y):
        return x @ y / np.sqrt((x @ x) * (y @ y))

    around = f"{item.left} {item.right}".lower().split()
    found = [cosine(vectors[place[word]], vectors[place[w]]) for w in around if w in place and w.isalnum()]
    return np.mean(found)


@pytest.mark.parametrize("weighting", ["none", "tf-idf", "log-entropy"])
@given(data=st.data())
def test_weights_against_a_loop(weighting, data):
    rows = data.draw(st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4), min_size=2, max_size=7))
    counts = np.array([*rows, [1, 1, 1, 1]], dtype=float)  # each word somewhere
    matrix = csr_array(counts)
    lsa.weigh(matrix, weighting)
    np.testing.assert_allclose(matrix.toarray(), slow_weights(counts, weighting), atol=1e-12)


def test_tf_idf_is_that_of_scikit_learn_but_for_its_one():
    counts = np.array([[1.0, 2, 0], [0, 1, 1], [3, 1, 0]])
    matrix = csr_array(counts)
    lsa.weigh(matrix, "tf-idf")
    other = TfidfTransformer(norm=None, smooth_idf=False).fit_transform(counts).toarray()
    np.testing.assert_allclose(matrix.toarray(), other - counts)  # theirs is tf * (ln(N / df) + 1)


@pytest.mark.parametrize("solver", ["arpack", "randomized"])
@pytest.mark.parametrize("weighting", ["none", "tf-idf", "log-entropy"])
def test_vectors_are_those_of_truncated_svd(corpus, lines, weighting, solver):
    model = fit(corpus, weighting=weighting, solver=solver)
    matrix = slow_weights(dense(lines, model.vectors.words), weighting)
    other = TruncatedSVD(K, algorithm="arpack", random_state=1).fit(matrix)
    arrays = model.vectors.arrays
    tight = 1e-4 if solver == "arpack" else 0.05
    np.testing.assert_allclose(arrays["s"], other.singular_values_, rtol=tight)
    products = arrays["v"] @ arrays["v"].T  # signs do not matter
    np.testing.assert_allclose(products, other.components_.T @ other.components_, atol=tight * 2)


def test_blocks_of_sentences_change_nothing(corpus, monkeypatch):
    whole = fit(corpus).vectors.arrays["s"]
    monkeypatch.setattr(lsa, "_BLOCK", 7)
    np.testing.assert_allclose(fit(corpus, seed=3).vectors.arrays["s"], whole, rtol=1e-5)


@pytest.mark.parametrize("scaled", [True, False])
def test_scores_against_a_loop(corpus, scaled):
    model = fit(corpus, scaled=scaled)
    items = items_from_text(
        ["w1 w2 ___ w3 w3 unheard", "___ w9 , w4"],
        candidates=[["w5", "w6", "w7"], ["w8", "w1"]],
        tokenised=True,
    )
    arrays = model.vectors.arrays
    vectors = (arrays["v"] * (arrays["s"] if scaled else 1)).astype(float)
    found = model.score(items, [list(c) for c in items.frame["candidates"]])
    for row, item in zip(found, items, strict=True):
        wanted = [slow_score(vectors, model.vectors.place, item, word) for word in item.candidates]
        np.testing.assert_allclose(row[: len(wanted)], wanted, rtol=1e-5)
    assert np.isnan(found[1]).tolist() == [False, False, True]


def test_a_topic_is_found(no_data):
    del no_data
    sea, farm = ["ship", "sail", "wave", "gull", "deck"], ["cow", "barn", "hay", "plough", "hen"]
    rng = np.random.default_rng(0)
    lines = [" ".join(["the", *rng.permutation(topic)[:4], "."]) for topic in (sea, farm) * 60]
    model = fit(
        Corpus.of(lines, progress=False, workers=1),
        dimensions=3, weighting="log-entropy", punctuation=False,
    )  # fmt: skip
    items = items_from_text(
        ["The ship had one ___ on its deck .", "The cow ate ___ in the barn ."],
        answers=["sail", "hay"], tokenised=True,
        candidates=[["plough", "sail", "barn"], ["gull", "wave", "hay"]],
    )  # fmt: skip
    frame = model.predict(items)
    assert frame["correct"].all()
    assert model.systems == {"msrcc": "Average LSA similarity"}
    assert frame["log_prob"].isna().all()


def test_words_that_it_does_not_know(corpus):
    model = fit(corpus)
    items = items_from_text(
        ["w1 ___ w2", "what ___ this"], candidates=[["w3", "zebra", "zebra 's"], ["w1", "w2"]], tokenised=True
    )
    found = model.score(items, [list(c) for c in items.frame["candidates"]])
    assert found[0, 0] != 0
    assert found[0, 1:].tolist() == [0, 0]
    assert found[1, :2].tolist() == [0, 0]  # no other word that it knows
    assert not np.isnan(found[0]).any()


def test_a_word_of_several_tokens(corpus):
    model = fit(corpus)
    items = items_from_text("w1 ___ w2", candidates=[["w3 w4", "w3"]], tokenised=True)
    vectors = model.vectors.arrays["v"].astype(float)
    place = {**model.vectors.place, "w3 w4": len(vectors)}
    both = np.vstack([vectors, vectors[place["w3"]] + vectors[place["w4"]]])
    [row] = model.score(items, [["w3 w4", "w3"]])
    np.testing.assert_allclose(
        row, [slow_score(both, place, items[0], w) for w in ("w3 w4", "w3")], rtol=1e-5
    )


def test_which_others_count(no_data):
    del no_data
    rng = np.random.default_rng(4)
    lines = [" ".join([",", *rng.choice(WORDS[:9], 5), "."]) for _ in range(100)]
    model = fit(Corpus.of(lines, progress=False, workers=1), dimensions=4)
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


def test_it_is_kept_by_corpus_and_arguments_and_made_again_if_torn(corpus, no_data, monkeypatch):
    first = fit(corpus).vectors
    with monkeypatch.context() as patch:
        patch.setattr(lsa, "_matrix", None)
        again = fit(corpus, scaled=True).vectors  # of the same vectors
        np.testing.assert_array_equal(again.arrays["v"], first.arrays["v"])
        assert isinstance(again.arrays["v"], np.memmap)
        with pytest.raises(TypeError):
            fit(corpus, seed=2)
    s, v = (np.array(first.arrays[name]) for name in "sv")
    [file] = (no_data / "cache" / "lsa").glob("*/v.npy")
    file.write_bytes(file.read_bytes()[:200])
    again = fit(corpus).vectors
    np.testing.assert_array_equal(again.arrays["s"], s)
    np.testing.assert_array_equal(again.arrays["v"], v)  # the same seed gives the same vectors


@pytest.mark.parametrize(("minimum", "words"), [(2, list("abcde")), (3, list("abc"))])
def test_case_counts_as_in_the_corpus_and_rare_words_have_no_vector(no_data, minimum, words):
    del no_data
    lines = ["a b c d", "A b c", "b a e c", "c b A"] * 2
    low, cased = (Corpus.of(lines, lower=x, progress=False, workers=1) for x in (True, False))
    model = fit(low, dimensions=1, minimum=minimum, weighting="none")
    assert model.vectors.words == words
    items = items_from_text("b ___ c", candidates=[["A", "a", "x"]], tokenised=True)
    [row] = model.score(items, [["A", "a", "x"]])
    assert row[0] == row[1] != row[2] == 0
    [row] = fit(cased, dimensions=1, minimum=2, weighting="none").score(items, [["B", "a", "x"]])
    assert row[0] == row[2] == 0 != row[1]


def test_a_saved_model(corpus, tmp_path):
    model = fit(corpus, scaled=True, skip=3, scope="passage", punctuation=True)
    model.save(tmp_path / "m")
    again = Predictor.load(tmp_path / "m")
    assert (again.config, again.name) == (model.config, model.name)
    items = items_from_text("w1 . w2 ___ w3", candidates=[["w4", "w5"]], tokenised=True)
    np.testing.assert_array_equal(again.score(items, [["w4", "w5"]]), model.score(items, [["w4", "w5"]]))
    (tmp_path / "m" / "vectors" / "v.npy").unlink()
    with pytest.raises(DataError, match="no whole vectors"):
        Predictor.load(tmp_path / "m")


def test_wrong_arguments(corpus):
    with pytest.raises(DataError, match="weighting is 'bm25', expected one of none, tf-idf, log-entropy"):
        fit(corpus, weighting="bm25")
    with pytest.raises(DataError, match="too few for 40 dimensions"):
        fit(corpus, dimensions=40)
    with pytest.raises(DataError, match="too few"):
        fit(corpus, minimum=10**9)
    with pytest.raises(DataError, match="evenly"):
        fit(Corpus.of(["a b c"] * 5, progress=False, workers=1), dimensions=1, weighting="tf-idf")
    with pytest.raises(DataError, match="scope is 'book'"):
        fit(corpus, scope="book")
