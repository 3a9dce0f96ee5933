"""The table of annotations: its columns, its cache, and the workers that may make it."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pandas as pd
import pipelines
import pytest
import spacy
from joblib import parallel_config
from other_items import more
from refused import refused
from spacy.tokens import Doc

import workbench as wb
from workbench.analysis import annotations, tagging
from workbench.analysis.annotations import annotate
from workbench.items import tokens
from workbench.items.items import Items
from workbench.storage import cache as disk
from workbench.storage import parallel

STORED = Path(__file__).parent / "annotations.json"
DTYPES = json.loads(STORED.read_text(encoding="utf-8"))["columns"]
"""The contract: every column and its type."""
NEVER_NULL = ["item_id", "direct_speech", "target_in_speech", "n_context_sentences", "n_tokens"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Give the folder of a small pipeline."""
    path = tmp_path_factory.mktemp("pipeline") / "ruled"
    pipelines.ruled().to_disk(path)
    return path


@pytest.fixture(scope="module")
def sample():
    return wb.load("sample", "dev")


@pytest.fixture(autouse=True)
def home(no_data):
    """Keep the cache of each test in a folder of its own."""
    return no_data


@pytest.fixture
def small(monkeypatch):
    """Make chunks of few items, so that a few dozen make many, and workers do them."""
    for name, value in {"SMALL": 0, "CHUNK": 4}.items():
        monkeypatch.setattr(annotations, name, value)


@pytest.fixture
def worked(monkeypatch):
    """Collect the ids of the items that are worked on in this process, chunk by chunk."""
    chunks = []

    def counted(nlp, chunk):
        chunks.append(chunk.items.frame["item_id"].tolist())
        return features_of(nlp, chunk)

    features_of = annotations.features_of
    monkeypatch.setattr(annotations, "features_of", counted)
    return chunks


def plain(items, nlp, vocabulary=None):
    """Compute the table with a plain loop, one item at a time."""
    rows = []
    for item in items:
        cut = tokens.tokens(item)
        doc = nlp(Doc(nlp.vocab, words=tokens.readable_tokens(cut.words)))
        tags, lemma = [token.pos_ for token in doc], doc[cut.head].lemma_ if cut.has_target else None
        row = dict.fromkeys(DTYPES) | annotations.target_features(item, cut, tags, lemma)
        row |= {"item_id": item.item_id, "pipeline": tagging.pipeline_label(nlp)}
        row["target_count"] = vocabulary and item.answer and vocabulary.get(item.answer.lower(), 0)
        rows.append(row)
    frame = pd.DataFrame({name: pd.Series([row[name] for row in rows], dtype="object") for name in DTYPES})
    return frame.astype({name: kind for name, kind in DTYPES.items() if kind != "object"})


def same(one, other):
    """Hold two tables to be equal, spans as lists of tuples."""
    for name in ("mentions", "speech", "names"):
        cells = [[tuple(span) for span in cell] for cell in other[name]]
        assert one[name].tolist() == cells
    flat = [name for name in DTYPES if DTYPES[name] != "object"]
    pd.testing.assert_frame_equal(one[flat], other[flat])


def test_columns_and_types_are_those_of_the_contract(sample, folder):
    table = annotate(sample, folder)
    assert {name: str(kind) for name, kind in table.dtypes.items()} == DTYPES
    assert not table[NEVER_NULL].isna().any().any()
    assert set(table["pipeline"]) == {"en_ruled 1.2.3"}
    assert {type(edge) for spans in table["speech"] for span in spans for edge in span} == {int}
    for _ in range(2):  # computed, then from the cache
        nothing = annotate(sample[:0], folder)
        assert len(nothing) == 0
        assert {name: str(kind) for name, kind in nothing.dtypes.items()} == DTYPES


def test_the_table_is_that_of_a_plain_loop(sample, folder):
    vocabulary = {item.answer.lower(): number for number, item in enumerate(sample) if number % 3}
    table = annotate(sample, folder, vocabulary=vocabulary)
    same(table, plain(sample, spacy.load(folder), vocabulary))


def test_items_without_an_answer(folder):
    items = wb.items_from_text(["The heron waited . It saw the _____ in the reeds ."])
    table = annotate(items, folder, vocabulary={"eel": 1})
    nulls = ["target_pos", "target_class", "target_lemma", "in_context", "mention_distance", "target_count"]
    assert table[nulls].isna().all().all()
    assert not table[NEVER_NULL].isna().any().any()


def test_a_second_call_reads_the_cache_and_does_not_load_the_pipeline(home, sample, folder, monkeypatch):
    first = annotate(sample, folder)
    monkeypatch.setattr(tagging, "load", None)
    monkeypatch.setattr(annotations, "run_chunks", None)
    same(annotate(sample, folder), first)
    with pytest.raises(TypeError):
        annotate(sample, folder, cache=False)
    assert list((home / "cache" / "annotations").iterdir())


def test_names_do_not_matter_to_the_cache_and_contents_do(sample, folder, worked):
    annotate(sample[:20], folder)
    frame = sample[:20].frame
    renamed = Items(frame.assign(item_id=[f"other/{n}" for n in range(20)], dataset="other", book_id="b"))
    worked.clear()
    assert annotate(renamed, folder)["item_id"].tolist() == renamed.frame["item_id"].tolist()
    assert worked == []
    spans = frame["sentences"].tolist()
    spans[3] = ((0, spans[3][-1][1]),)  # one sentence
    annotate(Items(frame.assign(sentences=spans)), folder)
    annotate(Items(frame.assign(tokenised=~frame["tokenised"])), folder)
    assert len(worked) == 2


def test_another_pipeline_or_version_is_another_key(sample, folder, worked, monkeypatch, tmp_path):
    items = sample[:5]
    annotate(items, folder)
    nlp = spacy.load(folder)
    nlp.get_pipe("attribute_ruler").add([[{"ORTH": "a"}]], {"POS": "DET"})
    nlp.to_disk(tmp_path / "ruled")  # of the same name and version
    annotate(items, tmp_path / "ruled")
    assert len(worked) == 2
    monkeypatch.setattr(annotations, "ANNOTATIONS_VERSION", annotations.ANNOTATIONS_VERSION + 1)
    monkeypatch.setattr(annotations, "_version", annotations._version.__wrapped__)
    annotate(items, folder)
    assert len(worked) == 3


@pytest.mark.usefixtures("small")
def test_an_interrupted_run_resumes_and_leaves_one_table(home, sample, folder, worked, monkeypatch):
    items, put = more(sample, 20), disk.Cache.put

    def interrupted(self, key, table):
        if len(worked) == 3:
            raise KeyboardInterrupt
        put(self, key, table)

    with monkeypatch.context() as patch:
        patch.setattr(disk.Cache, "put", interrupted)
        with pytest.raises(KeyboardInterrupt):
            annotate(items, folder)
    worked.clear()
    table = annotate(items, folder)
    assert len(worked) == 3  # of five chunks two were stored
    same(table, plain(items, spacy.load(folder)))
    assert len(list((home / "cache" / "annotations").iterdir())) == 1


def test_few_items_start_no_process(sample, folder, monkeypatch, worked):
    monkeypatch.setattr(parallel, "_in_processes", None)
    with parallel_config(n_jobs=8):
        annotate(sample[:50], folder)
    assert sum(map(len, worked)) == 50


@pytest.mark.usefixtures("small")
def test_two_processes_give_the_same(sample, folder, worked):
    items = sample[:30]
    with parallel_config(n_jobs=2):
        table = annotate(items, folder)
        same(annotate(items, folder, cache=False), table)
    assert not worked
    same(table, plain(items, spacy.load(folder)))


def test_a_loaded_pipeline_runs_here(sample, folder, worked):
    nlp = spacy.load(folder)
    table = annotate(sample[:20], nlp)
    same(table, plain(sample[:20], nlp))
    annotate(sample[:20], nlp)
    assert len(worked) == 1  # kept: its content tells it apart
    nlp.get_pipe("attribute_ruler").add([[{"ORTH": "a"}]], {"POS": "DET"})
    annotate(sample[:20], nlp)
    assert len(worked) == 2
    nlp.add_pipe("test_breaks")  # a function, of which nothing tells what it does
    for calls in (3, 4):
        annotate(sample[:20], nlp)
        assert len(worked) == calls
    with parallel_config(n_jobs=2):
        annotate(sample, nlp)
    assert len(worked) == 6  # two chunks


def test_errors_name_the_item(sample, folder, monkeypatch):
    nlp = spacy.load(folder)
    nlp.add_pipe("test_breaks")
    texts = ["All was well . The heron waited", "There was poison . The heron waited"]
    items = wb.items_from_text(texts)
    refused(annotate, items, nlp)

    def broken(item, *_, **__):
        raise KeyError(item.text[:3])

    monkeypatch.setattr(annotations, "target_features", broken)
    refused(annotate, sample[:3], folder)


def test_threads_share_a_pipeline_in_turn(sample, folder):
    with ThreadPoolExecutor(3) as pool:
        work = [pool.submit(annotate, sample[:30], folder, cache=False) for _ in range(3)]
    first, *others = (task.result() for task in work)
    for table in others:
        same(table, first)


def test_the_vocabulary_is_found_where_data_sets_are(home, sample, folder):
    assert annotate(sample[:3], folder)["target_count"].isna().all()
    file = home / "raw" / "lambada" / "lambada-vocab-2.txt"
    file.parent.mkdir(parents=True)
    answer, one = sample[1].answer.lower(), sample[1:2]
    for text, count in ((f"{answer}\t7\n", 7), ("some\t10\nother\t1\n", 0)):
        file.write_text(text)
        for vocabulary in (None, file):
            assert annotate(one, folder, vocabulary=vocabulary)["target_count"].tolist() == [count]
    assert annotate(one, folder, vocabulary={answer: 5})["target_count"].tolist() == [5]


def test_an_item_is_not_blamed_when_memory_runs_out(sample, folder, monkeypatch):
    nlp = spacy.load(folder)
    for name in ("tag", "target_features"):
        run_out = Mock(side_effect=MemoryError)
        with monkeypatch.context() as patch:
            patch.setattr(tagging if name == "tag" else annotations, name, run_out)
            with pytest.raises(MemoryError):
                annotate(sample, nlp)
        assert run_out.call_count == 1
