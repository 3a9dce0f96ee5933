import numpy as np
import pytest
import spacy
from hypothesis import example, given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab

from workbench.analysis import lemmas, tagging
from workbench.analysis.tagger import narrative, network
from workbench.analysis.tagger.network import UNKNOWN_ID, Lexicon, fold_token

KEY, FORM, SUFFIX, ENDING, PREFIX, SHAPE, USE, ROW, CASE, ENDS, COUNTED, PLACE, REPEATS = range(13)

# form: capitalised share (1 never to 11 always), frequency, whether it has a vector and an own embedding
KNOWN = {
    "the": (1, 20, True, True), "heron": (1, 6, True, True), "clarity": (9, 4, True, True),
    "looked": (1, 15, True, True), "saw": (2, 12, False, True), ".": (0, 21, False, True),
    "gage": (11, 3, False, False),
}  # fmt: skip
ROWS = {word: row for row, word in enumerate(sorted(KNOWN, key=lambda word: not KNOWN[word][2]), start=1)}
SIZES = {
    "@architectures": "workbench.NarrativeNetwork.v1",
    "width": 12, "depth": 1, "pieces": 2, "embedding": 6, "vectors": 4, "rows": [50] * 6, "unknown": 0.0,
}  # fmt: skip
WORDS = ["The", "heron", "looked", "at", "Clarity", ".", "Clarity", "saw", "2", "herons", "."]
TAGS = ["DET", "NOUN", "VERB", "ADP", "PROPN", "PUNCT", "PROPN", "VERB", "NUM", "NOUN", "PUNCT"]
NONE, LOWER, TITLE, UPPER, MIXED = range(5)
BIASES = [(0.0, 0.0, 0.0), (0.7, 3.0, -2.0), (-1.0, 0.5, 0.0)]
MORE_WORDS = ["GAGE", "o'Brien", "said", ",", "``", "''", "-LRB-", "--", "Gage", "A", "mcGill"]
pool_of_words = st.lists(st.sampled_from(WORDS + MORE_WORDS), max_size=20)


def lexicon():
    table = [KNOWN[word] for word in ROWS]
    held = sum(row[2] for row in table)
    vectors = np.random.default_rng(3).integers(-90, 91, (held + 1, 4)).astype(np.int8)
    vectors[0] = 0
    names, counts = (np.array([0, *(row[k] for row in table)], dtype=np.uint8) for k in (0, 1))
    return Lexicon(tuple(ROWS), vectors, names, counts, np.array([False, *(row[3] for row in table)]))


def features(*texts):
    vocab = Vocab()
    docs = [Doc(vocab, words=list(words)) for words in texts]
    return [table.astype(np.int64) for table in network.token_features(docs, network._Forms(lexicon()))]


def hashed(text):
    """Compute FNV-1a (Fowler, Noll and Vo), 64 bits, as the features hold it (signed)."""
    number = 14695981039346656037
    for byte in text.encode():
        number = (number ^ byte) * 1099511628211 % 2**64
    return number - 2**64 if number >= 2**63 else number


def gold(nlp, words, tags):
    return Example(Doc(nlp.vocab, words=words), Doc(nlp.vocab, words=words, pos=tags))


def examples(nlp):
    return [gold(nlp, WORDS, TAGS), gold(nlp, [word.lower() for word in WORDS], TAGS)]


def blank(path=None, **sizes):
    nlp = spacy.blank("en", meta={"name": "tiny", "version": "0.1"})
    nlp.add_pipe("narrative_tagger", name="tagger", config={"model": SIZES | sizes})
    nlp.add_pipe("narrative_lemmatizer", name="lemmatizer")
    if path is not None:
        nlp.config["initialize"]["components"]["tagger"] = {"lexicon": str(path)}
    np.random.seed(0)  # noqa: NPY002 - the generator that spaCy draws from
    nlp.initialize(lambda: examples(nlp))
    return nlp


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("narrative") / "lexicon.npz"
    path.write_bytes(lexicon().to_bytes())
    return path


@pytest.fixture(scope="module")
def untrained(table):
    """Give a pipeline of random weights: all tags are near each other."""
    return blank(path=table)


@pytest.fixture(scope="module")
def trained(table):
    nlp = blank(path=table)
    for _ in range(60):
        nlp.update(examples(nlp))
    return nlp


@pytest.fixture
def biased(monkeypatch):
    """Give a function that sets the bias of a pipeline's tagger for one test."""

    def change(nlp, bias):
        monkeypatch.setattr(nlp.get_pipe("tagger"), "bias", bias)
        return nlp.get_pipe("tagger")

    return change


def same_table(one, other):
    """Compare two lexicons, types included."""
    for name in ("vectors", "names", "counts", "embedded"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), strict=True)
    return one.words == other.words


def tags(nlp, *texts):
    return [[token.pos_ for token in doc] for doc in nlp.pipe(Doc(nlp.vocab, words=list(t)) for t in texts)]


def test_the_hash_is_that_of_every_process():
    assert network._hash("a") == 0xAF63DC4C8601EC8C  # published values of FNV-1a
    assert network._hash("foobar") == 0x85944171F73967E8


def test_features_of_a_passage():
    (found,) = features(WORDS)
    folded = [word.lower() for word in WORDS]
    rows = [ROWS.get(word, 0) for word in folded]
    names, counts, held, own = zip(*(KNOWN.get(word, (0, 0, False, False)) for word in folded), strict=True)
    plain = ["0" if word == "2" else word for word in folded]

    case = [TITLE, LOWER, LOWER, LOWER, TITLE, NONE, TITLE, LOWER, NONE, LOWER, NONE]
    starts = [place in (0, 6) for place in range(len(WORDS))]
    shapes = {"2": "0", ".": "."}
    columns = {
        FORM: [hashed(word) * known for word, known in zip(plain, own, strict=True)],
        SUFFIX: [hashed(word[-4:]) for word in plain],
        ENDING: [hashed(word[-2:]) for word in plain],
        PREFIX: [hashed(word[:3]) for word in plain],
        SHAPE: [hashed(shapes.get(word, "aa")) for word in folded],
        USE: [32 * name + count for name, count in zip(names, counts, strict=True)],
        ROW: [row * has for row, has in zip(rows, held, strict=True)],
        CASE: case,
        ENDS: [word == "." for word in WORDS],
        COUNTED: [0, 1, 0, 1, 1, 0, 1, 1, 0, 1, 0],  # "the" and "looked" are common
        PLACE: [
            16 * (1 + 2 * how + first) + name for how, first, name in zip(case, starts, names, strict=True)
        ],
        REPEATS: [1, 3, 1, 3, 5, 1, 5, 3, 1, 3, 1],  # clarity twice; the lowest bit: case tells
    }
    assert {number: found[:, number].tolist() for number in columns} == columns
    keys = found[:, KEY].tolist()
    assert [keys.index(key) for key in keys] == [folded.index(word) for word in folded]


FORMS = [
    ("heron", LOWER, "aa"), ("Heron", TITLE, "aa"), ("I", TITLE, "a"), ("HERON", UPPER, "aa"),
    ("McGill", MIXED, "aa"), ("o'Brien", MIXED, "a'aa"), ("well-known", LOWER, "aa-aa"), ("1963", NONE, "00"),
    ("2nd", LOWER, "0aa"), ("-LRB-", NONE, "("), ("-lrb-", NONE, "("), ("''", NONE, '"'),
]  # fmt: skip


def test_case_and_shape_of_forms():
    for form, case, shape in FORMS:
        (row,) = features([form])[0]
        assert (row[CASE], row[SHAPE]) == (case, hashed(shape)), form


@given(pool_of_words)
def test_lower_case_and_capitals_change_only_what_tells_of_case(words):
    printed, lower, upper = features(words, [w.lower() for w in words], [w.upper() for w in words])
    columns = [KEY, FORM, SUFFIX, ENDING, PREFIX, SHAPE, USE, ROW, ENDS, COUNTED]
    assert np.array_equal(printed[:, columns], lower[:, columns])
    assert np.array_equal(printed[:, PLACE] % 16, lower[:, PLACE] % 16)
    assert np.array_equal(printed[:, REPEATS] // 2, lower[:, REPEATS] // 2)
    assert not (lower[:, PLACE] // 16).any()
    assert not (lower[:, REPEATS] % 2).any()
    assert np.array_equal(np.delete(upper, CASE, axis=1), np.delete(lower, CASE, axis=1))


def test_repeats_are_counted_in_each_document():
    times = {1: 1, 2: 2, 3: 3, 4: 3, 5: 4, 7: 4}
    tables = features(*(["heron"] * n for n in times))
    assert [set((table[:, REPEATS] // 2).tolist()) for table in tables] == [{n} for n in times.values()]


@given(st.lists(pool_of_words, max_size=4))
def test_features_of_documents_together_are_those_of_each(texts):
    together = features(*texts)
    assert [len(part) for part in together] == [len(words) for words in texts]
    for words, part in zip(texts, together, strict=True):
        (alone,) = features(words)
        assert np.array_equal(alone[:, 1:], part[:, 1:])  # keys are numbered as forms are met


def test_forms_met_before_and_a_store_that_overflows_change_nothing(monkeypatch):
    forms, vocab = network._Forms(lexicon()), Vocab()
    docs = [Doc(vocab, words=[f"w{n}" for n in range(15)]), Doc(vocab, words=WORDS)]
    first = network.token_features(docs, forms)
    monkeypatch.setattr(network, "_MOST_FORMS", 10)
    for before, after in zip(first, network.token_features(docs, forms), strict=True):
        assert np.array_equal(before[:, 1:], after[:, 1:])


def test_forgotten_forms_are_unknown_everywhere_in_their_document():
    np.random.seed(1)  # noqa: NPY002
    words = [*WORDS, "Gage", "said", "so", "often", "and", "crane", "duck"] * 3
    before = network.token_features([Doc(Vocab(), words=words)], network._Forms(lexicon()))[0]
    after = before.copy()
    network._forget(after, 0.5)
    lost = after[:, KEY] != before[:, KEY]
    assert 0 < lost.sum() < (before[:, COUNTED] > 0).sum()
    assert not lost[before[:, COUNTED] == 0].any()
    assert set(before[lost, KEY].tolist()).isdisjoint(before[~lost, KEY].tolist())
    assert not after[lost][:, [FORM, ROW, USE]].any()
    assert not (after[lost, PLACE] % 16).any()
    assert np.array_equal(after[lost, PLACE] // 16, before[lost, PLACE] // 16)
    assert np.array_equal(after[~lost], before[~lost])
    assert not set(after[lost, KEY].tolist()) & set(before[:, KEY].tolist())


@given(st.lists(pool_of_words.filter(len), min_size=1, max_size=3))
@example([["Gage", "saw", "GAGE", "Gage"], ["gage", "Gage"], ["GAGE", "Gage"]])
def test_forms_are_grouped_within_their_document(texts):
    vocab = Vocab()
    tables = network.token_features([Doc(vocab, words=t) for t in texts], network._Forms(lexicon()))
    groups = network._same_forms(tables)
    tokens = []
    for number, (words, rows) in enumerate(zip(texts, tables, strict=True)):
        for place, (word, row) in enumerate(zip(words, rows, strict=True)):
            case = int(row[CASE]) if row[PLACE] >= 16 else None
            tokens.append((number, fold_token(word), case) if row[COUNTED] else (number, place))
    for one, group in zip(tokens, groups, strict=True):
        assert [group == other for other in groups] == [one == other for other in tokens]


def pooled_slowly(own, groups):
    rows = []
    for row, group in zip(own, groups, strict=True):
        same = own[groups == group]
        rows.append(np.concatenate([row, same.mean(axis=0), same.max(axis=0)]))
    return np.array(rows).reshape(len(own), 3 * own.shape[1])


@settings(max_examples=30)
@given(st.lists(st.integers(-3, 3), max_size=12), st.integers(0, 1000))
def test_pooling_and_its_gradient(numbers, seed):
    rng = np.random.default_rng(seed)
    groups = np.array(numbers, dtype=np.int64)
    own, direction = (rng.standard_normal((len(groups), 3)) for _ in range(2))
    weights = rng.standard_normal((len(groups), 9))
    rows, backprop = network.pool(own, groups)
    np.testing.assert_allclose(rows, pooled_slowly(own, groups), rtol=1e-5)
    step = 1e-6 * direction
    slope = (pooled_slowly(own + step, groups) - pooled_slowly(own - step, groups)) * weights / 2e-6
    assert (backprop(weights) * direction).sum() == pytest.approx(slope.sum(), rel=1e-3, abs=1e-3)


def test_the_gradient_of_a_maximum_is_shared_where_rows_are_equal():
    own = np.array([[1, 5], [3, 5], [3, 2], [4, 4]], np.float32)
    _, backprop = network.pool(own, np.array([7, 7, 7, 1]))
    gradient = np.zeros((4, 6), np.float32)
    gradient[:, 4:] = [[1, 2], [3, 4], [5, 6], [7, 8]]
    assert backprop(gradient).tolist() == [[0, 6], [4.5, 6], [4.5, 0], [7, 8]]


@given(pool_of_words)
@example(["-LRB-", "heron"])
@example(["-lrb-", "HERON"])
@example(["mcGill", "2"])
def test_case_tells_where_there_are_both_capitals_and_small_letters(words):
    (table,) = features(words)
    cases = set(table[:, CASE].tolist())
    telling = LOWER in cases and bool(cases & {TITLE, UPPER, MIXED})
    assert network.tells_by_case(Doc(Vocab(), words=words)) == telling
    assert (table[:, PLACE] >= 16).tolist() == [telling] * len(words)


@pytest.mark.parametrize("bias", BIASES)
def test_the_bias_moves_the_odds_of_a_name_where_case_tells_nothing(untrained, biased, bias):
    tagger = biased(untrained, bias)
    story = "Ann , the heron , a king , Ann saw an owl and the heron , Bob".split()  # noqa: SIM905
    texts = [story, [word.lower() for word in story], [], [word.upper() for word in story], ["the"]]
    docs = [Doc(untrained.vocab, words=words) for words in texts]
    name = tagging.UPOS.index("PROPN")
    changed = 0
    for words, scores, found in zip(texts, tagger.model.predict(docs), tags(untrained, *texts), strict=True):
        for place, (row, tag) in enumerate(zip(scores.astype(float), found, strict=True)):
            logits = np.log(row)
            plain = logits.argmax()
            before = words[place - 1].lower() if place else ""
            after = bias[0] if before == "," else 0 if before in {"the", "a", "an"} else bias[1]
            shift = after if words.count(words[place]) > 1 else bias[2]
            logits[name] += shift * (words is not story)
            assert tag == tagging.UPOS[logits.argmax()]
            changed += logits.argmax() != plain
    assert (changed > 0) == any(bias)


def test_the_gradient_is_the_slope_of_the_loss(table):
    nlp = blank(path=table, pieces=1)  # without kinks, where a difference is no slope
    tagger = nlp.get_pipe("tagger")
    pair = examples(nlp)
    docs = [example.predicted for example in pair]
    rng = np.random.default_rng(0)
    params = [
        (node, name) for node in tagger.model.walk() for name in node.param_names if node.has_param(name)
    ]
    values = [node.get_param(name) for node, name in params]
    values = [value + 0.1 * rng.standard_normal(value.shape).astype(np.float32) for value in values]

    def loss(shift, directions):
        for (node, name), value, direction in zip(params, values, directions, strict=True):
            node.set_param(name, (value + shift * direction).astype(np.float32))
        return tagger.get_loss(pair, tagger.model.predict(docs))[0]

    loss(0, values)
    scores, backprop = tagger.model.begin_update(docs)
    backprop(tagger.get_loss(pair, scores)[1])
    gradients = [node.get_grad(name) if node.has_grad(name) else None for node, name in params]
    for chosen in (*range(len(params)), None):  # each parameter by itself, and all together
        directions = [
            rng.standard_normal(value.shape) * (chosen in (number, None))
            for number, value in enumerate(values)
        ]
        slope = sum(
            float((gradient * direction).sum())
            for gradient, direction in zip(gradients, directions, strict=True)
            if gradient is not None
        )
        change = loss(1e-3, directions) - loss(-1e-3, directions)
        assert change / 2e-3 == pytest.approx(slope, rel=0.01, abs=0.02)


def test_it_learns_a_passage_in_either_case_and_scores_the_share_of_right_tags(trained):
    assert tags(trained, WORDS, [word.lower() for word in WORDS]) == [TAGS, TAGS]
    scores = trained.evaluate([gold(trained, WORDS, ["NOUN", *TAGS[1:]])])
    assert scores["pos_acc"] == pytest.approx(10 / 11)


def test_a_pipeline_is_read_as_it_was_written(trained, tmp_path):
    texts = [WORDS, ["gage", "saw", "the", "heron", "."], ["Who", "is", "Clarity", "?"]]
    wanted = tags(trained, *texts)
    trained.to_disk(tmp_path / "tiny", exclude=["vocab"])
    from_disk = spacy.load(tmp_path / "tiny")
    from_bytes = blank(unknown=0.5).from_bytes(trained.to_bytes())
    scores = trained.get_pipe("tagger").model.predict([Doc(trained.vocab, words=WORDS)])[0]
    for nlp in (from_disk, from_bytes):
        tagger = nlp.get_pipe("tagger")
        assert isinstance(tagger, narrative.NarrativeTagger)
        assert nlp.pipe_names == ["tagger", "lemmatizer"]
        assert tagger.labels == tagging.UPOS
        assert tags(nlp, *texts) == wanted
        assert np.array_equal(tagger.model.predict([Doc(nlp.vocab, words=WORDS)])[0], scores)
        assert same_table(tagger.model.get_ref("reader").attrs["lexicon"], lexicon())
    config = {"components": {"tagger": {"bias": [0.8, 0.0, -1.0]}}}
    spacy.load(tmp_path / "tiny", config=config).to_disk(tmp_path / "again")
    assert spacy.load(tmp_path / "again").get_pipe("tagger").bias == (0.8, 0.0, -1.0)


@pytest.mark.parametrize("bias", BIASES[:2])
def test_together_documents_get_the_tags_that_each_gets_alone(trained, biased, bias):
    biased(trained, bias)
    texts = [WORDS, WORDS[:5], [], ["clarity"], [word.lower() for word in WORDS[3:]], ["Gage", "saw", "Gage"]]
    assert tags(trained, *texts) == [tags(trained, words)[0] for words in texts]
    assert tags(trained) == trained.get_pipe("tagger").predict([]) == []


def test_loss_and_gradient(untrained):
    words = [["The", "heron", "looked"], [], ["Clarity"]]
    tagged = [["DET", "", "VERB"], [], ["PROPN"]]
    wanted = [gold(untrained, w, t) for w, t in zip(words, tagged, strict=True)]
    rng = np.random.default_rng(5)
    scores = [rng.dirichlet(np.ones(17), len(w)).astype(np.float32).reshape(len(w), 17) for w in words]
    before = np.concatenate(scores)
    loss, gradients = untrained.get_pipe("tagger").get_loss(wanted, scores)
    assert [gradient.shape for gradient in gradients] == [part.shape for part in scores]
    assert np.array_equal(np.concatenate(scores), before)  # they are not changed
    targets = np.array([[name == tag for name in tagging.UPOS] for tag in ("DET", "", "VERB", "PROPN")])
    assert loss == pytest.approx(-np.log(before[targets]).sum(), rel=1e-5)
    slopes = (before - targets) * targets.any(axis=1, keepdims=True)
    np.testing.assert_allclose(np.concatenate(gradients), slopes, atol=1e-6)


def test_an_empty_document_can_stand_in_a_batch_of_training(table):
    nlp = blank(path=table)
    nothing = gold(nlp, [], [])
    assert np.isfinite(nlp.update([nothing, *examples(nlp)])["tagger"])
    assert nlp.update([nothing])["tagger"] == 0


def test_lemmas_follow_the_tags(trained):
    doc = trained(Doc(trained.vocab, words=WORDS))
    table = lemmas.default()
    assert [token.lemma_ for token in doc] == [table.lemma(w, t) for w, t in zip(WORDS, TAGS, strict=True)]
    assert [doc[place].lemma_ for place in (2, 9)] == ["look", "heron"]
    assert trained.get_pipe("lemmatizer").lemma("saw", "VERB") == "see"


forms = st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1, max_size=12)


@st.composite
def lexicons(draw):
    drawn = draw(st.lists(forms, unique=True, max_size=8))
    held, width = draw(st.integers(0, len(drawn))), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    vectors = rng.integers(-127, 128, (held + 1, width)).astype(np.int8)
    names, counts = (rng.integers(0, 12, len(drawn) + 1).astype(np.uint8) for _ in range(2))
    return Lexicon(tuple(drawn), vectors, names, counts, rng.random(len(drawn) + 1) < 0.5)


def test_forms_are_folded():
    folded = {
        "Clarity": "clarity", "O’Brien": "o'brien", "``": '"', "''": '"', "”": '"', "`": "'", "‘": "'",  # noqa: RUF001
        "-LRB-": "(", "-rsb-": "]", "...": "...", "ÉMILE": "émile", "``x": "``x",
    }  # fmt: skip
    assert {form: fold_token(form) for form in folded} == folded


@given(lexicons())
def test_a_lexicon_is_read_as_it_was_written(lexicon):
    read = Lexicon.from_bytes(lexicon.to_bytes())
    assert same_table(read, lexicon)
    assert [read.row(word) for word in lexicon.words] == list(range(1, len(lexicon.words) + 1))
    assert read.row("not a form") == UNKNOWN_ID


def test_a_file_of_something_else_is_refused():
    with pytest.raises((ValueError, OSError)):
        Lexicon.from_bytes(b"this is no archive")
