import json
from types import SimpleNamespace

import build
import conllu
import numpy as np
import pytest
import scores
import spacy
import treebanks
from conllu import sentence
from spacy.language import Language
from spacy.tokens import Doc

from workbench.analysis import tagging
from workbench.analysis.tagger import network as lexicon

ANSWERS = {"Clarity": ("PROPN", "Clarity"), "saw": ("VERB", "see"), ".": ("PUNCT", ".")}


@Language.component("tagger_scores_table")
def table(doc):
    """Tag by a table; what is not in it is a noun and its own lemma."""
    for token in doc:
        token.pos_, token.lemma_ = ANSWERS.get(token.text, ("NOUN", token.text))
    return doc


@pytest.fixture
def nlp():
    pipeline = spacy.blank("en", meta={"name": "table", "version": "3.2.1"})
    pipeline.add_pipe("tagger_scores_table")
    return pipeline


@pytest.fixture
def folder(nlp, tmp_path):
    nlp.to_disk(tmp_path / "table")
    return tmp_path / "table"


NAMES = ["PROPN", "VERB", "PROPN", "PUNCT"]
FIRST = sentence(["Clarity", "saw", "Gage", "."], NAMES, ["Clarity", "see", "Gage", "."])
SECOND = sentence(["The", "heron"], ["DET", "NOUN"], ["the", "heron"])
OTHER = sentence(["Clarity", "grew"], ["NOUN", "PROPN"], ["clarity", "grow"], doc="two")


def test_sentences_are_joined_within_their_document():
    parts = list(scores.texts([FIRST, SECOND, SECOND, OTHER], length=2, lower=False))
    joined = [one + two for one, two in zip(FIRST[:3], SECOND[:3], strict=True)]
    wanted = [joined, SECOND[:3], OTHER[:3]]
    assert [list(map(tuple, part)) for part in parts] == [list(map(tuple, part)) for part in wanted]
    lower = list(scores.texts([FIRST], length=1, lower=True))
    assert lower == [(["clarity", "saw", "gage", "."], list(FIRST.upos), ["clarity", "see", "gage", "."])]


def test_treebank_scores_are_those_counted_by_hand(nlp):
    gold = list(scores.texts([FIRST, SECOND, OTHER], length=1, lower=False))
    # given: PROPN VERB NOUN PUNCT, NOUN NOUN, PROPN NOUN; 8 tokens, 4 tags right
    found = scores.treebank_scores(nlp, gold, lower=False)
    wanted = {"tokens": 8, "upos": 400 / 8, "lemma": 500 / 8}  # lemmas: not The, Clarity (a noun), grew
    wanted |= {"propn_precision": 100 / 2, "propn_recall": 100 / 3, "propn_f1": 200 / 5}
    assert found == pytest.approx(wanted)


def test_in_lower_case_the_case_of_lemmas_does_not_count(nlp):
    gold = list(scores.texts([FIRST, SECOND, OTHER], length=1, lower=True))
    # given: NOUN VERB NOUN PUNCT, NOUN NOUN, NOUN NOUN
    found = scores.treebank_scores(nlp, gold, lower=True)
    wanted = {"tokens": 8, "upos": 400 / 8, "lemma": 700 / 8}  # lemmas: not grew
    assert found == wanted | {"propn_precision": 0, "propn_recall": 0, "propn_f1": 0}


def test_lambadas_halves_are_every_other_item(nlp, monkeypatch):
    texts = ["he met Clarity", "a heron", "it was Clarity", "the grey heron", "they saw"]

    def load(name, split, *, variant):
        assert (name, split) == ("lambada", "dev")
        change = {"capitalised": str, "plain": str.lower}[variant]
        return [SimpleNamespace(tokens=change(text).split()) for text in texts]

    monkeypatch.setattr(scores, "load", load)
    found = scores.lambada_scores(nlp)
    assert [found[half]["items"] for half in ("even", "odd", "all")] == [3, 2, 5]
    assert [found[half]["same"] for half in ("even", "odd", "all")] == pytest.approx([100 / 3, 100, 60])
    classes = [f"{name} capitalised" for name in ("PN", "CN", "V", "J", "R", "O")]
    assert [found["even"][name] for name in classes] == pytest.approx([200 / 3, 0, 100 / 3, 0, 0, 0])
    assert found["even"]["PN lower-cased"] == 0
    assert found["odd"]["CN lower-cased"] == 100


def test_scores_are_written_beside_the_pipeline_that_was_scored(folder, monkeypatch, capsys):
    monkeypatch.setattr(treebanks, "find", lambda name: name)
    monkeypatch.setattr(treebanks, "sentences", lambda _: iter([FIRST, SECOND, OTHER]))
    half = scores._agreement([("PN", "PN")])
    monkeypatch.setattr(scores, "lambada_scores", lambda _: dict.fromkeys(("even", "odd", "all"), half))
    assert scores.main(["--pipeline", str(folder), "--write"]) == 0
    tables = json.loads((folder / "scores.json").read_text())["treebanks"]
    assert len(tables) == 2 * 2 * 2
    assert tables["ewt-dev, as printed, passages"]["upos"] == 50
    card = (folder / "README.md").read_text()
    assert card.strip() == capsys.readouterr().out.strip()
    assert card.startswith("# en_narrative 3.2.1")


def test_a_pipeline_or_data_that_are_missing_are_an_error(folder, no_data, capsys):  # noqa: ARG001 - hides the data
    assert scores.main(["--pipeline", str(folder / "nothing")]) == 1
    assert "tagger-scores: " in capsys.readouterr().err
    assert scores.main(["--pipeline", str(folder)]) == 1
    assert "WORKBENCH_DATA" in capsys.readouterr().err


GOLD = (
    (["The", "heron", "saw", "Clarity", "."], ["DET", "NOUN", "VERB", "PROPN", "PUNCT"]),
    (["Gage", "ran", "."], ["PROPN", "VERB", "PUNCT"]),
)


@pytest.fixture
def data(no_data, monkeypatch):
    for name in ("ewt-train", "gum-train", "ewt-dev"):
        conllu.write(no_data / treebanks._GOLD[name], *GOLD)
    monkeypatch.setenv("WORKBENCH_DATA", str(no_data))


@pytest.fixture
def small_lexicon(tmp_path):
    marks = np.array([0, 1, 1, 9], dtype=np.uint8)
    table = lexicon.Lexicon(WORDS, np.zeros((4, 64), dtype=np.int8), marks, marks, marks > 0)
    (tmp_path / "lexicon.npz").write_bytes(table.to_bytes())
    return tmp_path / "lexicon.npz"


WORDS = ("the", "heron", "clarity")
SIZES = {"width": 8, "depth": 1, "embedding": 4, "rows": [20] * 6}


def test_a_tagger_is_trained_by_the_configuration_and_packed(data, small_lexicon, tmp_path, capsys):  # noqa: ARG001
    drawn = tmp_path / "silver.jsonl"
    drawn.write_text('[["Clarity", "ran", "."], ["PROPN", "", "PUNCT"]]\n' * 8)
    final = tmp_path / "final"
    final.mkdir()
    (final / "old").touch()
    build.fit(final, lexicon=small_lexicon, silver_path=drawn, steps=3, **SIZES)
    assert not (final / "old").exists()
    assert not (tmp_path / "final.work").exists()
    nlp = spacy.load(final)
    tagger = nlp.get_pipe("tagger")
    assert tagger.labels == tagging.UPOS
    assert tagger.model.get_ref("reader").attrs["lexicon"].words == WORDS
    build.package(final, tmp_path / "packed", (0.8, 0.0, -1.0))
    packed = tagging.load(tmp_path / "packed")
    assert tagging.find_pipeline(tmp_path / "packed").label == f"en_narrative {build.META['version']}"
    assert packed.pipe_names == ["tagger", "lemmatizer"]
    assert packed.get_pipe("tagger").bias == (0.8, 0.0, -1.0)
    assert packed.meta["license"] == "CC BY-SA 4.0"
    assert not (tmp_path / "packed" / "vocab").exists()
    docs = [Doc(one.vocab, words=GOLD[0][0]) for one in (nlp, packed)]
    taggers = tagger, packed.get_pipe("tagger")
    first, second = (one.model.predict([doc])[0] for one, doc in zip(taggers, docs, strict=True))
    np.testing.assert_allclose(first, second, atol=1e-5)
    assert all(token.pos_ and token.lemma_ for token in packed(docs[1]))


def test_training_again_gives_the_same_weights(data, small_lexicon, tmp_path, capsys):  # noqa: ARG001
    for name in ("one", "two"):
        build.fit(tmp_path / name, lexicon=small_lexicon, silver_path=None, steps=2, **SIZES)
    one, two = ((tmp_path / name / "tagger" / "model").read_bytes() for name in ("one", "two"))
    assert one == two
