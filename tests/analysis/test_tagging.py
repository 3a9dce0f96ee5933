"""spaCy pipelines: found, loaded, and run on given words."""

import logging
import subprocess
import sys

import numpy as np
import pipelines
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from joblib import parallel_config
from other_items import imports_torch
from refused import refused
from spacy.tokens import Doc
from thinc.api import NumpyOps

from workbench.analysis import tagging
from workbench.storage import packages, paths
from workbench.storage.parallel import run_chunks

WORDS = ["The", "herons", "waited", ".", "``", "Ada", "nod-ded", "n't", "a b"]
PASSAGES = st.lists(st.lists(st.sampled_from(WORDS), max_size=12), max_size=12)


def documents(nlp, passages):
    return [Doc(nlp.vocab, words=words) for words in passages]


@pytest.fixture(scope="module")
def ruled():
    return pipelines.ruled()


@pytest.fixture(scope="module")
def neural():
    return pipelines.neural()


@given(passages=PASSAGES, batch=st.integers(1, 20))
def test_batches_change_nothing(ruled, passages, batch):
    targets = [len(words) - 1 if words else None for words in passages]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tagging, "_BATCH", batch)
        tags, lemmas = tagging.tag(ruled, passages, targets)
    docs = [ruled(doc) for doc in documents(ruled, passages)]
    assert tags == [[token.pos_ for token in doc] for doc in docs]
    assert lemmas == [doc[-1].lemma_ if len(doc) else None for doc in docs]


def test_lemmas_of_the_targets_by_hand(ruled):
    words = [["Two", "herons", "waited", "."], ["herons"], ["waited"]]
    tags, lemmas = tagging.tag(ruled, words, [1, None, 0])
    assert tags == [["PROPN", "NOUN", "VERB", "PUNCT"], ["NOUN"], ["VERB"]]
    assert lemmas == ["heron", None, "wait"]
    # without a lemmatizer there is none
    assert tagging.tag(pipelines.ruled(lemmas=False), [["herons"]], [0]) == ([["NOUN"]], [None])


def test_a_lemmatizer_of_single_words_is_asked_for_the_target_only():
    nlp = pipelines.ruled(lemmas=False)
    lemmatizer = nlp.add_pipe("test_lemmas", name="lemmatizer")
    _, lemmas = tagging.tag(nlp, [["Two", "herons", "waited"], ["x"]], [2, None])
    assert lemmas == ["waited/VERB", None]
    assert lemmatizer.asked == [("waited", "VERB")]


def test_only_what_is_needed_runs(neural, ruled):
    assert tagging.needed(neural) == {"tok2vec", "tagger"}
    assert tagging.needed(ruled) == {"attribute_ruler", "lemmatizer"}
    before = neural.pipe_names
    tagging.tag(neural, [["a"]], [0])
    assert neural.pipe_names == before
    nlp = pipelines.ruled(lemmas=False)
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("test_breaks")  # does not say what it sets
    assert tagging.needed(nlp) == {"attribute_ruler", "test_breaks"}


def test_tags_are_taken_where_a_pipeline_sets_nothing_else(neural):
    words = [["the", "heron", "waited", "."]]
    expected = [token.tag_ for token in neural(documents(neural, words)[0])]
    assert tagging.tag(neural, words, [None])[0] == [expected]
    penn = pipelines.neural(("NNP", "VBD", "-LRB-"))
    coarse = {"NNP": "PROPN", "VBD": "VERB", "-LRB-": "PUNCT"}
    expected = [coarse[token.tag_] for token in penn(documents(penn, words)[0])]
    assert tagging.tag(penn, words, [None])[0] == [expected]


def test_penn_tags_all_have_a_universal_one():
    assert set(tagging._COARSE.values()) == set(tagging.UPOS)
    known = spacy.glossary.GLOSSARY
    assert not [tag for tag in tagging._COARSE if tag not in known]


def test_a_pipeline_without_parts_of_speech_is_told():
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    refused(tagging.tag, nlp, [["a"]], [0])
    assert tagging.tag(nlp, [[]], [None]) == ([[]], [None])


def test_a_loaded_pipeline_computes_the_same_with_numpy(tmp_path, neural):
    neural.to_disk(tmp_path / "it")
    plain, ours = spacy.load(tmp_path / "it"), tagging.load(tmp_path / "it")
    nodes = [node for _, part in ours.components if hasattr(part, "model") for node in part.model.walk()]
    assert nodes
    assert not any(type(node.ops) is NumpyOps and node.ops.use_blis for node in nodes)
    words = [WORDS * 3, ["the", "heron"]]
    scores = [
        nlp.get_pipe("tagger").model.predict(list(nlp.pipe(documents(nlp, words), disable=["tagger", "ner"])))
        for nlp in (plain, ours)
    ]
    for one, other in zip(*scores, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_a_pipeline_is_loaded_once_and_anew_when_it_is_written_anew(tmp_path, ruled, monkeypatch):
    ruled.to_disk(tmp_path / "it")
    first = tagging.load(tmp_path / "it")
    assert tagging.load(str(tmp_path / "it")) is first
    assert tagging.find_pipeline(tmp_path / "it").label == tagging.pipeline_label(first) == "en_ruled 1.2.3"
    before = tagging.find_pipeline(tmp_path / "it").identity
    monkeypatch.setitem(ruled.meta, "version", "1.2.4")
    ruled.to_disk(tmp_path / "it")
    assert tagging.pipeline_label(tagging.load(tmp_path / "it")) == "en_ruled 1.2.4"
    assert tagging.find_pipeline(tmp_path / "it").identity != before


def test_a_pipeline_of_another_spacy_is_logged_not_warned_of(tmp_path, ruled, caplog):
    ruled.to_disk(tmp_path / "it")
    meta = tmp_path / "it" / "meta.json"
    text = meta.read_text().replace(f'"{ruled.meta["spacy_version"]}"', '">=2.0.0,<2.1.0"')
    assert "<2.1.0" in text
    meta.write_text(text)
    with caplog.at_level(logging.WARNING):
        tagging.load(tmp_path / "it")
    assert "W095" in caplog.text


def test_an_installed_package_is_found_by_its_name(tmp_path, monkeypatch, ruled):
    package = tmp_path / "en_reedy"
    package.mkdir()
    monkeypatch.setitem(ruled.meta, "name", "reedy")
    ruled.to_disk(package / "en_reedy-1.2.3")
    (package / "meta.json").write_text((package / "en_reedy-1.2.3" / "meta.json").read_text())
    (package / "__init__.py").write_text(
        "from spacy.util import load_model_from_init_py\n\n"
        "def load(**overrides):\n    return load_model_from_init_py(__file__, **overrides)\n"
    )
    info = tmp_path / "en_reedy-1.2.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: en-reedy\nVersion: 1.2.3\n")
    (info / "entry_points.txt").write_text("[spacy_models]\nen_reedy = en_reedy\n")
    monkeypatch.syspath_prepend(tmp_path)
    packages._entry_points.cache_clear()  # they are read once per process
    assert "en_reedy" in tagging.installed()
    assert tagging.find_pipeline("en_reedy").label == "en_reedy 1.2.3"
    assert tagging.tag(tagging.load("en_reedy"), [["Ada"]], [0]) == ([["PROPN"]], ["Ada"])
    monkeypatch.delitem(sys.modules, "en_reedy")
    packages._entry_points.cache_clear()


def test_what_is_not_installed_is_told_with_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "resource", lambda *parts: tmp_path.joinpath("none", *parts))  # nor our own
    for name in ("en_core_none_sm", "my-own", "en_core_none_trf", "en_narrative"):
        assert refused(tagging.load, name).hint


def test_folders_that_hold_no_sound_pipeline_are_told(tmp_path, ruled):
    refused(tagging.find_pipeline, tmp_path)
    ruled.to_disk(tmp_path / "it")
    config = tmp_path / "it" / "config.cfg"
    config.write_text(config.read_text().replace('factory = "lemmatizer"', 'factory = "curated_unknown"'))
    refused(tagging.load, tmp_path / "it")
    (tmp_path / "it" / "meta.json").write_text("{}")
    refused(tagging.find_pipeline, tmp_path / "it")


def test_which_pipelines_need_no_pytorch(tmp_path, ruled, neural):
    ruled.to_disk(tmp_path / "ruled")
    assert tagging.find_pipeline(tmp_path / "ruled").plain
    neural.to_disk(tmp_path / "neural")
    pipeline = tagging.find_pipeline(tmp_path / "neural")
    assert pipeline.plain
    config = pipeline.folder / "config.cfg"
    text = config.read_text()
    for other in ("spacy.TorchBiLSTMEncoder.v1", "spacy-curated-transformers.Roberta.v1"):
        config.write_text(text.replace("spacy.Tagger.v2", other))
        assert not pipeline.plain
    config.write_text(text.replace('factory = "tagger"', 'factory = "curated_transformer"'))
    assert not pipeline.plain


def test_our_workers_do_not_import_pytorch_for_nothing(tmp_path, ruled):
    ruled.to_disk(tmp_path / "it")
    with parallel_config(n_jobs=2):
        assert run_chunks(imports_torch, [str(tmp_path / "it")] * 2) == [(False, True)] * 2
    assert sys.modules.get("torch", "none") is not None


def test_finding_a_pipeline_does_not_import_spacy(tmp_path, ruled):
    ruled.to_disk(tmp_path / "it")
    code = (
        "import sys; from workbench.analysis import tagging; tagging.find_pipeline(sys.argv[1]).identity;"
        "tagging.installed(); print('spacy' in sys.modules)"
    )
    command = [sys.executable, "-c", code, tmp_path / "it"]
    assert subprocess.check_output(command, text=True).strip() == "False"
