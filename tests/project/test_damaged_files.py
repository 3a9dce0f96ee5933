"""Damaged files of every kind: one DataError, and what is in the cache is made again."""

import io
import random
import shutil
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

import builders as b
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.numpy
import saved_models
import tiny_gguf
import torch
from evaluation_logs import NAME, RECORDED, RESULTS, log, results
from made_predictions import items_of, made
from refused import refused
from releases import RELEASES

import workbench as wb
from workbench import construction
from workbench.construction.candidates import CandidatePassages
from workbench.construction.manifest import FileDigest, Manifest, Step
from workbench.datasets.books import Book
from workbench.datasets.sources import readers
from workbench.evaluation.interchange.import_results import import_results
from workbench.items import notes
from workbench.items.items import Items
from workbench.models.base import Predictor
from workbench.models.baselines.chance import RandomWord
from workbench.models.pretrained import gguf
from workbench.models.pretrained.causal import CausalLM
from workbench.models.readers.encoding import Questions
from workbench.models.registry import BUILT_IN
from workbench.people import add_judgments, read_judgments, simulate
from workbench.predictions import store
from workbench.storage.cache import Cache
from workbench.texts.corpus import Corpus
from workbench.training import checkpoint
from workbench.widgets.ask.asking import Asking
from workbench.widgets.ask.questions import TypedQuestion, read_history

pytestmark = pytest.mark.usefixtures("home")

TABLE = pa.table({"word": ["a", "b", None], "n": [1, 2, 3]})
OWN = pd.DataFrame(
    {
        "text": ["It rained; the dog ___ home.", "She took her ___ and left."],
        "answer": ["ran", "hat"],
        "candidates": ["ran|sat", "hat|cup"],
    }
)
PACKS = {
    "x.tar": partial(b.tar, mode="w"),
    "x.tar.gz": b.tar,
    "x.tar.xz": partial(b.tar, mode="w:xz"),
    "x.zip": b.zipped,
}


def truncated(content, _name):
    return content[: len(content) // 4]  # of a tar file, less than the padding at its end


def garbage(content, _name):
    return random.Random(0).randbytes(len(content))  # noqa: S311 - no secret


def wrong_kind(_content, name):
    """Return a valid file of the same format that holds something else, or a picture."""
    content = io.BytesIO()
    match Path(name).suffix:
        case ".parquet":
            pq.write_table(pa.table({"x": [1]}), content)
        case ".npy":
            np.save(content, np.zeros((2, 2), bool))
        case ".safetensors":
            return safetensors.numpy.save({"x": np.zeros(1)})
        case ".json" | ".jsonl":
            return b"[7]\n"
        case _:
            return b"\x89PNG\r\n\x1a\n" + bytes(100)
    return content.getvalue()


def flipped(content, _name):
    """Return content with one bit changed, which only a checksum can tell."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


DAMAGES = truncated, garbage, wrong_kind


class Artefact(NamedTuple):
    """How files of one kind are written into a folder and read again, and the pattern of the damaged one."""

    write: object
    read: object
    pattern: str
    damages: tuple = DAMAGES


def model(name):
    return Artefact(
        lambda folder, folders: saved_models.made(name, folders).save(folder / "model"),
        lambda folder: Predictor.load(folder / "model").predict(saved_models.ITEMS),
        "model/**/*",
        (*DAMAGES, flipped),
    )


def table(name):
    return Artefact(
        lambda folder, _: b.write_table(folder / name, OWN), lambda folder: wb.load(folder / name), name
    )


def release(dataset, name):
    return Artefact(
        lambda folder, _: b.write(folder, {name: PACKS[name](RELEASES[dataset])}),
        lambda folder: wb.load(dataset, path=folder / name),
        name,
    )


def openai():
    return wb.load("sample", "dev", variant="openai")[:8]


def harness(name, write):
    return Artefact(
        write, lambda folder: import_results(folder / name, openai(), model="m", keep=False), name
    )


def write_log(folder, _):
    (folder / NAME).write_text(log(openai().frame["text"].tolist()), encoding="utf-8")
    (folder / RESULTS).write_text(results(n=8), encoding="utf-8")


def write_run(_folder, _):
    frame = made(12, seed=1, model="one")
    store.keep(items_of(frame), frame, name="one")


def write_notes(folder, _):
    for word in ("odd", "nice"):
        notes.write_notes("sample", {word: {"text": word, "tags": [word], "note": word}}, folder=folder)


def write_collection(folder, _):
    texts = {name: f"It rained on {name}.\n" * 18 for name in "ab"}
    books = [Book(name, name, None, 1900, text, tokenised=False, source="") for name, text in texts.items()]
    construction.read_novels(books, language=None).save(folder / "collection")


def read_collection(folder):
    collection = construction.NovelCollection(folder / "collection")
    return [book.text for book in collection], collection.pairs


def write_manifest(folder, _):
    step = Step("language", 3, 2, {"not English": 1}, unit="novels", counts={"words": 70})
    Manifest([FileDigest("x.txt", 3, "ab")], {"novels": {"seed": 1}}, [step]).save(folder)


def write_history(folder, _):
    with closing(Asking({"uniform": RandomWord("passage")}, settle=None)) as asking:
        asking.ask(TypedQuestion("A storm. The boat", ""))
        asking.keep(now=True)
        asking.save(folder / "asked.json")


def write_judgments(folder, _):
    add_judgments(simulate(wb.load("sample", "dev")[:9]), folder)


def write_checkpoint(folder, step):
    weights = {"a": torch.arange(6.0).view(2, 3) * step}
    state = checkpoint.TrainingState(step, "x", {"seconds": 1.5}, weights, {"carried": []})
    checkpoint.save_checkpoint(folder, state, keep=[1])


def corpus():
    return Corpus.of(saved_models.LINES)


REFUSED = {
    **{f"model {name}": model(name) for name in BUILT_IN if name not in saved_models.UNSAVED},
    **{
        f"table {ending}": table(f"own{ending}")
        for ending in (".csv", ".tsv", ".json", ".jsonl", ".parquet", ".xlsx")
    },
    **{f"download {name}": release("cbt", name) for name in PACKS},
    **{f"release of {dataset}": release(dataset, "x.zip") for dataset in RELEASES},
    "log of lm-evaluation-harness": harness(NAME, write_log),
    **{
        f"log {name}": harness(name, lambda folder, _, name=name: shutil.copy(RECORDED / name, folder))
        for name in ("inspect_choices.eval", "inspect_last_word.json", "lighteval_choices.parquet")
    },
    "items": Artefact(
        lambda folder, _: openai().to_parquet(folder / "items.parquet"),
        lambda folder: Items.from_parquet(folder / "items.parquet"),
        "items.parquet",
    ),
    "run": Artefact(write_run, lambda _: store.find_run("one").predictions, "home/runs/one/*"),
    "notes": Artefact(write_notes, lambda folder: notes.notes(folder=folder), "*"),
    "corpus": Artefact(
        lambda folder, _: shutil.copyfile(corpus().path, folder / "corpus"),
        lambda folder: Corpus(folder / "corpus"),
        "corpus",
    ),
    "novel collection": Artefact(write_collection, read_collection, "collection/*"),
    "candidate passages": Artefact(
        lambda folder, _: CandidatePassages.of(wb.books("sample"), folder=folder / "candidates"),
        lambda folder: list(CandidatePassages(folder / "candidates").items(range(9))),
        "candidates/*",
    ),
    "manifest": Artefact(write_manifest, Manifest.load, "*.json"),
    "GGUF": Artefact(
        lambda folder, _: tiny_gguf.write_gguf(folder / "tiny.gguf"),
        lambda folder: CausalLM(folder / "tiny.gguf").predict(saved_models.ITEMS),
        "tiny.gguf",
    ),
    "weights of a language model": Artefact(
        lambda folder, folders: shutil.copytree(folders("bytes"), folder / "tiny"),
        lambda folder: CausalLM(folder / "tiny").predict(saved_models.ITEMS),
        "tiny/*.safetensors",
    ),
    "history of questions": Artefact(
        write_history, lambda folder: read_history(folder / "asked.json"), "*.json"
    ),
    "judgments": Artefact(write_judgments, read_judgments, "*.jsonl"),
}


def predictions(name):
    return lambda folders: saved_models.made(name, folders).predict(saved_models.ITEMS).to_json()


def cached_table(_folders):
    cache = Cache("some", TABLE.schema)
    if (table := cache.get("key")) is None:
        cache.put("key", table := TABLE)
    return table.to_pydict()


def encoded_questions(_folders):
    encoded = Questions.cached(wb.load("sample", variant="cbt")[:20], 300)
    return encoded.vocabulary, {name: array.tolist() for name, array in encoded.arrays.items()}


def converted(folders):
    path = folders("bytes").parent / "some.gguf"
    if not path.is_file():
        tiny_gguf.write_gguf(path)
    return [path.read_bytes() for path in sorted(gguf.convert(path).folder.iterdir())]


MADE_AGAIN = {
    "n-gram model": predictions("ngram"),
    "vectors": predictions("lsa"),
    "table": cached_table,
    "corpus": lambda _: corpus().ids.tolist(),
    "encoded questions": encoded_questions,
    "converted GGUF": converted,
}


def largest(folder, pattern):
    """Return the largest of the files that a pattern names."""
    files = [path for path in folder.glob(pattern) if path.is_file()]
    return max(files, key=lambda path: path.stat().st_size)


def test_every_data_set_has_a_release():
    assert set(readers()) - {"sample"} == set(RELEASES)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", REFUSED)
def test_a_damaged_file_is_one_error(name, folders, tmp_path):
    artefact = REFUSED[name]
    artefact.write(tmp_path, folders)
    artefact.read(tmp_path)
    path = largest(tmp_path, artefact.pattern)
    content = path.read_bytes()
    for change in artefact.damages:
        path.unlink()  # it may be mapped into memory
        path.write_bytes(change(content, path.name))
        refused(artefact.read, tmp_path)


@pytest.mark.parametrize("name", MADE_AGAIN)
def test_a_damaged_entry_of_the_cache_is_made_again(name, folders, home):
    make = MADE_AGAIN[name]
    expected = make(folders)
    for change in DAMAGES:
        path = largest(home / "cache", "**/*")
        content = path.read_bytes()
        path.unlink()
        path.write_bytes(change(content, path.name))
        assert make(folders) == expected, change.__name__


@pytest.mark.parametrize("change", [*DAMAGES, flipped])
def test_a_damaged_checkpoint_gives_way_to_the_one_before(change, tmp_path):
    for step in (1, 2):
        write_checkpoint(tmp_path, step)
    for name in [path.name for path in tmp_path.glob("*2/*")]:
        [path] = tmp_path.glob(f"*2/{name}")
        content = path.read_bytes()
        path.unlink()
        path.write_bytes(change(content, name))
        with pytest.warns(UserWarning, match="damaged"):
            assert checkpoint.newest(tmp_path).step == 1
        write_checkpoint(tmp_path, 2)
