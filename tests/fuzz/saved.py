"""What the workbench writes itself, and results from elsewhere: models, texts, runs, caches, notes, logs."""

import contextlib
import json
import os
import shutil
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import pyarrow as pa
import test_versions as versions
import tiny_gguf
import tiny_models
import torch
from made_predictions import items_of, made
from target import Target, same
from test_grooming import questions
from test_lm_eval import NAME, RESULTS, log, results

import workbench as wb
from workbench import construction
from workbench.construction import candidates
from workbench.construction.candidates import Candidates
from workbench.construction.grooming import REASONS, Grooming
from workbench.construction.manifest import FileDigest, Manifest, Step
from workbench.construction.novel_checks import offensive_words
from workbench.datasets.books import Book
from workbench.evaluation.interchange.export import export_results
from workbench.evaluation.interchange.import_results import import_results
from workbench.evaluation.leaderboard import leaderboard
from workbench.items import notes
from workbench.items.schema import objects
from workbench.models.base import Predictor
from workbench.models.baselines.chance import RandomWord
from workbench.models.completion.positional import Generating
from workbench.models.neural.recurrent import LSTM
from workbench.models.pretrained import gguf
from workbench.models.pretrained.causal import CausalLM
from workbench.models.pretrained.masked import MaskedLM
from workbench.models.pretrained.vocabulary import read_vocabulary
from workbench.models.readers.encoding import Questions
from workbench.runs import predictions, store
from workbench.storage.cache import Cache
from workbench.storage.errors import DataError
from workbench.storage.sealed import SUMS
from workbench.texts.corpus import Corpus
from workbench.texts.stream import Stream
from workbench.training import checkpoint
from workbench.widgets.ask.asking import Asking
from workbench.widgets.ask.questions import TypedQuestion, read_history

torch.set_num_threads(1)
PRETRAINED = {
    "causal-lm": (CausalLM, tiny_models.tiny_gpt2),
    "masked-lm": (MaskedLM, partial(tiny_models.tiny_bert, positions=96)),  # fewer than a passage has
}
MADE_AS = {
    "random-word": "random",
    "maximum-frequency": "frequency of a corpus",
    "sliding-window": "sliding window",
    "word-distance": "word distance",
    "ngram": "Kneser-Ney",
    "cached-ngram": "n-gram with cache",
    "lsa": "LSA",
    "cbow": "CBOW",
    "simple-4-gram": "simple 4-gram",
    "reversed": "lowest",
    "positional": "positional",
    "next-word": "next word",
    "word-two-on": "word two on",
    "elman": "Elman",
    "lstm": "LSTM",
    "feed-forward": "feed-forward",
    "memory-network": "memory network",
    "sup-cbow": "Sup-CBOW",
    "transformer": "transformer",
    "cached-neural": "LSTM with cache",
    "embedding-reader": "embedding reader",
    "query-lstm": "query LSTM",
    "contextual-lstm": "contextual LSTM",
    "ensemble": "ensemble",
    "exclude-cooccurring": "words of the query excluded",
    "attention-sum": "attention-sum reader",
    "gated-attention": "gated-attention reader",
    "attentive-reader": "attentive reader",
    "lexical-memory": "lexical memory",
    "sentential-memory": "sentential memory",
    "window-memory": "window memory",
}
READERS = {
    "attention-sum": versions.AttentionSum,
    "gated-attention": versions.GatedAttention,
    "attentive-reader": versions.AttentiveReader,
}
MODELS = {name: versions.MODELS[key] for name, key in MADE_AS.items()} | {
    "generating": lambda: Generating(versions.ngram(), datasets=["sample"]),
    # what is damaged is the same after few steps, which are slow for these
    **{name: partial(versions.reader, kind, 12, width=12, embedded=12) for name, kind in READERS.items()},
}


@contextmanager
def home(folder):
    """Let runs, notes and caches lie in a folder."""
    before = os.environ["WORKBENCH_HOME"]
    os.environ["WORKBENCH_HOME"] = str(folder)
    try:
        yield
    finally:
        os.environ["WORKBENCH_HOME"] = before


def rows(frame):
    """Return predictions as text: equal only if every number is."""
    return frame.drop(columns="run").to_json(orient="records", double_precision=15)


def asked(name):
    """Return the items that a model predicts."""
    return versions.items(MADE_AS.get(name, "lowest"))


def as_saved(value, folder, valid):
    """Judge a saved model: without its checksums, a warning says that damage is not detected."""
    return same(value, folder, valid) if (folder / "model" / SUMS).is_file() or value == valid else "valid"


def model(name):
    def build(folder):
        MODELS[name]().save(folder / "model")

    def read(folder):
        return rows(Predictor.load(folder / "model").predict(asked(name)))

    return Target(f"model {name}", "model", build, read, as_saved)


def pretrained(name):
    kind, make = PRETRAINED[name]
    items = versions.items("lowest")[:2]

    def saved(folder):
        place = Path(os.environ["WORKBENCH_HOME"]) / name
        kind(place if place.is_dir() else make(place)).save(folder / "model")

    return [
        Target(
            f"model {name}",
            "model",
            saved,
            lambda folder: rows(Predictor.load(folder / "model").predict(items)),
            as_saved,
        ),
        Target(
            f"weights of {name}",
            "model",
            lambda folder: make(folder / "tiny"),
            lambda folder: rows(kind(folder / "tiny").predict(items)),
            lambda value, _folder, valid: "same" if value == valid else "valid",
        ),
    ]


def from_gguf(folder):
    """Return what a model of a GGUF file predicts, which is converted anew."""
    with home(folder.parent / f"{folder.name}-home"):
        return rows(CausalLM(folder / "tiny.gguf", progress=False).predict(versions.items("lowest")[:2]))


def converted(folder):
    """Return what a GGUF file was converted to, found again, or made again where it is damaged."""
    file = Path(os.environ["WORKBENCH_HOME"]) / "converted.gguf"
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        tiny_gguf.write_gguf(file)
    with home(folder):
        made_of = gguf.convert(file)
        return made_of.label, {path.name: path.read_bytes() for path in sorted(made_of.folder.iterdir())}


def vocabulary(folder):
    words = read_vocabulary(folder / "words.txt", stop_words=False)
    assert all(isinstance(word, str) and word for word in words)
    return words


def fitted(name, fit):
    """Return a target of a fit that is found again: it is the same, made anew where it is damaged."""

    def found_again(folder):
        with home(folder / "home"):
            return rows(fit().predict(asked(name)))

    return Target(f"{name}, fitted before", "cache", found_again, found_again, same)


def encoded(folder):
    """Return questions as arrays, found again, or encoded again where they are damaged."""
    with home(folder / "home"):
        questions = Questions.cached(wb.load("sample", variant="cbt"), 300, progress=False)
        return questions.vocabulary, {name: array.tolist() for name, array in questions.arrays.items()}


def in_kenlm(folder):
    """Return an n-gram model, found again, in KenLM's own form, which is made anew where it is damaged."""
    with home(folder / "home"):
        return versions.MODELS["Kneser-Ney"]().binary.read_bytes()


def arrays(texts):
    """Return all that a corpus or a stream holds."""
    words = texts.words if isinstance(texts, Corpus) else texts.vocabulary
    parts = [np.asarray(texts.ids), texts.starts, texts.counts]
    parts += [] if isinstance(texts, Corpus) else [texts.words_like]
    told = (texts.lower, texts.sha256) if isinstance(texts, Corpus) else json.dumps(texts.info)
    return [list(words), texts.books.to_json(), told, *(array.tolist() for array in parts)]


def candidates_in(folder):
    Candidates.of(wb.books("sample"), folder=folder / "candidates", progress=False)


def candidates_of(folder):
    """Return all that candidates hold."""
    made = Candidates(folder / "candidates")
    content = (made.rule, made.dropped, made.cased, made.sha256)
    return [*content, made.books.to_json(), made.frame.to_json(), *made.texts(), *made.items(range(99))]


def unfinished_in(folder):
    """Find the candidates of some chunks of novels, and end there."""
    find, done = candidates.find, []

    def killed(chunk):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(find(chunk))

    with patch.object(candidates, "find", killed), contextlib.suppress(KeyboardInterrupt):
        finished(folder)


def finished(folder):
    """Find the candidates that are not found yet; return all that they hold."""
    with patch.object(candidates, "_CHUNK", 1 << 16):
        Candidates.of(wb.books("sample"), folder=folder / "candidates", workers=1, progress=False)
    return candidates_of(folder)


def corpus_in(folder):
    shutil.copytree(versions.corpus().folder, folder / "corpus")


def corpus_in_cache(folder):
    shutil.copytree(versions.corpus().folder, folder / "cache" / "corpus" / "some")


def corpus_found(folder):
    """Return a corpus that is looked for in the cache."""
    with home(folder), patch("workbench.texts.corpus._IN_USE", set()):
        corpus = Corpus.find(lambda _sha256, _lower: True)
        return None if corpus is None else arrays(corpus)


def stream_in(folder):
    Stream.of(versions.corpus(), 100).copy(folder / "stream")


def states(state):
    """Return a state of a training as text."""
    return [state.step, state.identity, state.info, str(state.weights), str(state.state)]


def checkpoints(folder):
    for step in (1, 2):
        weights = {"a": torch.arange(6.0).view(2, 3) * step, "b": torch.tensor([step])}
        state = {"random": [[torch.arange(4, dtype=torch.uint8)]], "carried": []}
        checkpoint.save_checkpoint(
            folder / "training",
            checkpoint.TrainingState(step, {"text": {"key": "x"}}, {"seconds": 1.5}, weights, state),
            keep=[1],
        )


def newest(folder):
    return [
        None if (state := checkpoint.read_checkpoint(path)) is None else states(state)
        for path in sorted((folder / "training").iterdir())
    ]


def same_or_none(value, _folder, valid):
    assert value in (None, valid)
    return "absent" if value is None else "same"


def same_or_absent(value, _folder, valid):
    assert all(one is None or one == other for one, other in zip(value, valid, strict=True)), "another state"
    return "same" if value == valid else "absent"


def runs_in(folder):
    with home(folder):
        for seed, name in enumerate(("one", "two")):
            frame = made(12, seed=seed, model=name)
            own = objects([{"genre": genre, "year": 1900} for genre in ("novel", "play") * 6])
            store.keep(items_of(frame, meta=own), frame, name=name)


def runs_of(folder):
    """Return the predictions of every run that can be read, and whether its files are the valid ones."""
    tables = {}
    with home(folder):
        listed = set(wb.runs()["run"])
        wb.runs()._repr_html_()
        try:
            ranked = set(leaderboard(resamples=10, published=False)["run"])
        except DataError:
            ranked = set()
        for path in sorted((folder / "runs").iterdir()):
            files = {file.name: file.read_bytes() for file in sorted(path.iterdir()) if file.is_file()}
            try:
                table = rows(store.find_run(path.name).predictions)
                assert path.name in listed
            except DataError:
                table = None
            try:
                columns = store.item_columns(path).to_json() if store.COLUMNS in files else None
            except DataError:
                columns = None
            tables[path.name] = files, table, path.name in ranked, columns
    return tables


def runs_kept(tables, _folder, valid):
    for name, (files, table, ranked, columns) in tables.items():
        assert table is None or table == valid[name][1], "other predictions"
        assert columns is None or columns == valid[name][3], "other columns of the items"
        if name in valid and files == valid[name][0]:
            assert table is not None, f"{name} is lost, though its files are valid"
            assert ranked, f"{name} is not in the leaderboard, though its files are valid"
    return "same" if tables == valid else "problems"


TABLE = pa.table({"word": ["a", "b", None], "n": [1, 2, 3], "s": [[0.5], [], None]})


def cached_table(folder):
    with home(folder):
        Cache("some").put("key", TABLE)


def from_cache(folder):
    with home(folder):
        table = Cache("some").get("key", TABLE.schema)
    return [None if table is None else table.to_pydict()]


def fits_in(folder):
    with home(folder):
        versions.MODELS["LSA"]()
        versions.MODELS["LSTM"]()
        versions.MODELS["Kneser-Ney"]()


def cache_listed(folder):
    with home(folder):
        return len(wb.cache()._repr_html_())


def manifest_in(folder):
    step = Step("language", 3, 2, {"not English": 1}, unit="novels", counts={"words": 70})
    Manifest([FileDigest("x.txt", 3, "ab")], {"shelf": {"seed": 1}}, [step]).save(folder)


def shelf_in(folder):
    with home(folder / "home"):
        texts = {name: f"It rained on {name}.\n" * 18 for name in "ab"}
        books = [
            Book(name, name, None, 1900, text, tokenised=False, source="") for name, text in texts.items()
        ]
        construction.read_shelf(books, language=None, progress=False).save(folder / "shelf")
    shutil.rmtree(folder / "home")


def shelf_of(folder):
    shelf = construction.Shelf(folder / "shelf")
    return shelf.manifest.digest, shelf.frame.to_json(), list(shelf.pairs), [book.text for book in shelf]


def notes_in(folder):
    for n, word in enumerate(("odd", "nice", "see\u2028also")):
        notes.write_note(
            "sample", f"sample/dev/{n}", text=f"text {n}", tags=[word, "x"], note=word, folder=folder
        )


def notes_of(folder):
    frame = notes.notes(folder=folder)
    assert len(notes.read_notes(["sample"], folder=folder)) <= len(frame)
    return [(row.item_id, row.tags, row.note, row.text_digest) for row in frame.itertuples()]


def asked_in(folder):
    asking = Asking({"uniform": RandomWord("passage")}, settle=None)
    for other in ("", "A rock. The \u2028 boat"):
        asking.ask(TypedQuestion("A storm. The boat", other, pairs=bool(other)))
        asking.keep(now=True)
    asking.close()
    asking.save(folder / "asked.json")


def choices_in(folder):
    grooming = Grooming(questions(), folder=folder)
    for item in questions():
        for word in item.meta["alternates"][:4]:
            grooming.pick(item.item_id, word)
    grooming.reject(item.item_id, REASONS[0])


def choices_of(folder):
    grooming = Grooming(questions(), folder=folder)
    assert len(grooming.items()) == grooming.counts()["done"]
    return grooming.to_frame().to_json()


def lines_of_notes(value, folder, valid):
    file = folder / "sample.jsonl"
    lines = file.read_bytes().split(b"\n") if file.is_file() else []
    records = [json.loads(line) for line in lines if line.strip()]
    keys = {(str(record["item_id"]), str(record.get("text_digest", ""))) for record in records}
    assert {(row[0], row[3]) for row in value} == keys
    return "same" if value == valid else "valid"


OPENAI = wb.load("sample", "dev", variant="openai")[:8]
PLAIN = wb.load("sample", "dev", variant="plain")[:8]
IDS, ANSWERS = PLAIN.frame["item_id"].tolist(), PLAIN.frame["answer"].tolist()
PEOPLE = pd.DataFrame(
    {"item_id": IDS * 2, "prediction": [*ANSWERS, *ANSWERS[::-1]], "person": ["Ann"] * 8 + ["Bob"] * 8}
)
LOGS = {NAME: "0.4.13", "samples_lambada_openai.json": "0.4.0", "lambada_openai_write_out_info.json": "0.3"}
TABLES = ("answers.csv", "answers.jsonl", "answers.json", "answers.parquet")
EXPORTS = ("predictions.csv", "predictions.jsonl", "predictions.parquet")


def sample_log(folder, name, layout):
    (folder / name).write_text(log(OPENAI.frame["text"].tolist(), layout), encoding="utf-8")
    if name == NAME:
        (folder / RESULTS).write_text(results(n=8), encoding="utf-8")


def answers(folder, name):
    path = folder / name
    if name.endswith("csv"):
        PEOPLE.to_csv(path, index=False)
    elif name.endswith("parquet"):
        PEOPLE.to_parquet(path)
    else:
        PEOPLE.to_json(path, orient="records", lines=name.endswith("jsonl"))


def exported(folder, name):
    export_results(
        predictions.from_answers(PLAIN, dict(zip(IDS, ANSWERS, strict=True)), model="m"), folder / name
    )


def imported(name, items, build):
    def read(folder):
        for on_error in ("raise", "report"):
            try:
                result = import_results(folder / name, items, model="m", keep=False, on_error=on_error)
            except DataError:
                if on_error == "report":
                    raise
        str(result), result._repr_html_()
        return result

    def judge(result, folder, valid):
        predictions.check_predictions(result.predictions, result.items)
        if (folder / name).read_bytes() == files.setdefault(name, (folder / name).read_bytes()):
            told = [frame.drop(columns="prompt") for frame in (result.predictions, valid.predictions)]
            assert rows(told[0]) == rows(told[1])  # the file beside it tells the number of shots
        if len(result.report):
            return "problems"
        return "same" if rows(result.predictions) == rows(valid.predictions) else "valid"

    files = {}  # the valid one, as it is judged first
    return Target(f"import {name}", "import", build, read, judge)


SAVED = [
    *map(model, MODELS),
    *(target for name in PRETRAINED for target in pretrained(name)),
    Target(
        "GGUF",
        "model",
        lambda folder: tiny_gguf.write_gguf(folder / "tiny.gguf"),
        from_gguf,
        lambda value, _folder, valid: "same" if value == valid else "valid",
    ),
    Target("GGUF, converted before", "cache", converted, converted, same),
    Target(
        "vocabulary of pretrained models",
        "text",
        lambda folder: (folder / "words.txt").write_text("the\t10\nof\t7\nrain\t1\n"),
        vocabulary,
        lambda value, _folder, valid: "same" if value == valid else "valid",
    ),
    fitted("ngram", versions.MODELS["Kneser-Ney"]),
    fitted("lsa", versions.MODELS["LSA"]),
    fitted("lstm", partial(versions.neural, LSTM, width=8, tokens=500)),
    Target("encoded questions", "cache", encoded, encoded, same),
    Target("ngram in KenLM's form", "cache", in_kenlm, in_kenlm, same),
    Target("corpus", "texts", corpus_in, lambda folder: arrays(Corpus(folder / "corpus")), same),
    Target("corpus in the cache", "texts", corpus_in_cache, corpus_found, same_or_none),
    Target("stream", "texts", stream_in, lambda folder: arrays(Stream.open(folder / "stream")), same),
    Target("candidates", "construction", candidates_in, candidates_of, same),
    Target("unfinished candidates", "construction", unfinished_in, finished, same),
    Target("checkpoints", "checkpoint", checkpoints, newest, same_or_absent),
    Target("runs", "run", runs_in, runs_of, runs_kept),
    Target("cached table", "cache", cached_table, from_cache, same_or_absent),
    Target("list of the cache", "cache", fits_in, cache_listed, lambda *_: "same"),
    Target("manifest", "construction", manifest_in, Manifest.load, same),
    Target("shelf", "construction", shelf_in, shelf_of, same),
    Target(
        "list of offensive words",
        "text",
        lambda folder: (folder / "words.txt").write_text("damn\nson-of-a-gun\n\nblackguard\n"),
        lambda folder: offensive_words(folder / "words.txt"),
        lambda value, _folder, valid: "same" if value == valid else "valid",
    ),
    Target("notes", "notes", notes_in, notes_of, lines_of_notes),
    Target(
        "choices of options",
        "grooming",
        choices_in,
        choices_of,
        lambda value, _folder, valid: "same" if value == valid else "valid",
    ),
    Target(
        "history of questions",
        "text",
        asked_in,
        lambda folder: [(*q.state, q.asked) for q in read_history(folder / "asked.json")],
        lambda value, _folder, valid: "same" if value == valid else "valid",
    ),
    *(imported(name, OPENAI, partial(sample_log, name=name, layout=layout)) for name, layout in LOGS.items()),
    *(imported(name, PLAIN, partial(answers, name=name)) for name in TABLES),
    *(imported(name, PLAIN, partial(exported, name=name)) for name in EXPORTS),
]
