"""Everything that the workbench reads: how files are written and read, and what damage may change."""

import io
import json
import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch

import builders as b
import completion_server
import numpy as np
import pandas as pd
import pyarrow as pa
import saved_models
import tiny_gguf
import tiny_models
import torch
from campaigns import campaign_in, campaign_of, damage_campaign, damage_results, results_in, results_of
from damage import damage
from evaluation_logs import NAME, RECORDED, RESULTS, SAMPLE, START, archive, log, results
from grooming_questions import questions
from made_predictions import items_of, made
from refused import refused
from releases import PLAIN, RELEASES
from small_lstm import fit as fit_lstm
from superlinear_time import ENDS, PIECES, Pumped

import workbench as wb
from workbench import construction
from workbench.construction import candidates
from workbench.construction.candidates import CandidatePassages
from workbench.construction.grooming import REASONS, Grooming
from workbench.construction.manifest import FileDigest, Manifest, Step
from workbench.construction.novel_checks import offensive_words
from workbench.datasets import lambada, user_table
from workbench.datasets.books import Book
from workbench.evaluation.interchange.export import export_results
from workbench.evaluation.interchange.import_results import import_results
from workbench.evaluation.leaderboard import leaderboard
from workbench.evaluation.plans import plan, plans
from workbench.items import notes
from workbench.items.items import Items
from workbench.items.schema import objects
from workbench.models.base import Predictor
from workbench.models.baselines.chance import RandomWord
from workbench.models.pretrained import gguf
from workbench.models.pretrained.causal import CausalLM
from workbench.models.pretrained.completions import read_echo
from workbench.models.pretrained.masked import MaskedLM
from workbench.models.pretrained.subwords import read_vocabulary
from workbench.models.readers.encoding import Questions
from workbench.models.registry import BUILT_IN
from workbench.runs import predictions, store
from workbench.storage.cache import Cache
from workbench.storage.errors import DataError
from workbench.texts.batches import EncodedText
from workbench.texts.corpus import Corpus
from workbench.training import checkpoint
from workbench.widgets.ask.asking import Asking
from workbench.widgets.ask.questions import TypedQuestion, read_history
from workbench.widgets.publish.site import check_replaceable

torch.set_num_threads(1)
LENGTH = 2**17  # of a pumped text


def same(value, valid):
    assert value == valid, "other content"


def same_or_absent(value, valid):
    """Of a list, each may be absent; of a list of lists, each of these."""
    assert all(one is None or one == other for one, other in zip(value, valid, strict=True)), "other content"


def any_content(_value, _valid):
    """What is read may be other: the file says nothing of what it should hold."""


class Artefact(NamedTuple):
    """One form of file or folder.

    `write` writes valid files into an empty folder, `read` reads them, `check` compares what is read of
    damaged files with what was read of the valid ones. Where `is_home` is true, the folder is that of
    ``cache/`` and ``runs/``.
    """

    write: Callable[[Path], Any]
    read: Callable[[Path], Any]
    check: Callable[[Any, Any], None] = same
    is_home: bool = False
    damage: Callable[[Path, Random], None] = damage


ARTEFACTS: dict[str, Artefact] = {}


def add(name, write, read, check=same, **options):
    ARTEFACTS[name] = Artefact(write, read, check, **options)


def writes(files):
    return lambda folder: b.write(folder, files)


def table_in(name, frame):
    return lambda folder: b.write_table(folder / name, frame)


# Releases of data sets, and a user's own tables


def valid_items(items, valid):
    Items(items.frame)
    assert type(items) is type(valid)


def loaded(dataset, name):
    """Load with bad records left out, and strictly: the same, or an error if there are bad ones."""

    def read(folder):
        items = wb.load(dataset, path=folder / name, on_error="skip")
        assert len(items) or items.problems
        try:
            strict = wb.load(dataset, path=folder / name)
        except DataError:
            assert items.problems, "refused as a whole, but without a problem in it"
        else:
            assert not items.problems
            assert strict.frame.equals(items.frame)
        return items

    return read


def any_books(books, _valid):
    assert all(book.text.encode() and (book.year is None or 0 <= book.year <= 9999) for book in books)


TEXTS = {  # files by name, of which the first one is loaded where there is one; else the folder
    ("lambada", "plain"): {"lambada_development_plain_text.txt": b.text(PLAIN)},
    ("lambada", "capitalised"): {"x_capitalised.txt": b.text(b.CASED * 3)},
    ("lambada", "OpenAI"): {"x.jsonl": b.OPENAI * 3},
    ("cbt", "text"): {"cbtest_NE_valid_2000ex.txt": b.cbt(6)},
    ("msrcc", "official"): b.OFFICIAL,
    ("msrcc", "CSV"): b.CSV,
    ("cnnqa", "questions"): {f"questions/{letter}.question": b.cnn() for letter in "abcdef"},
}
LOADED = {
    (dataset, form): loaded(
        dataset, b.TABLE if form == "CSV" else "" if len(files) > 1 else next(iter(files))
    )
    for (dataset, form), files in TEXTS.items()
}
PACKS = {
    "x.tar": partial(b.tar, mode="w"), "x.tar.gz": b.tar, "x.tar.xz": partial(b.tar, mode="w:xz"),
    "x.tar.bz2": partial(b.tar, mode="w:bz2"), "x.zip": b.zipped,
}  # fmt: skip
BOOKS = {
    "markdown": "# Title: A Title\n\n## Author: Ann\n\n## Year: 1900\n\n-----\n\nIt rained. He ran on.\n",
    "Gutenberg": "The Project Gutenberg EBook of Rain, by Ann\n\nTitle: Rain\nAuthor: Ann\n\n"
    "*** START OF THIS PROJECT GUTENBERG EBOOK RAIN ***\n\nProduced by Bob\n\nIt rained. The dog ran on.\n\n"
    "*** END OF THIS PROJECT GUTENBERG EBOOK ***\n",
    "children": "_BOOK_TITLE_ : Ann___Rain.txt.out\nit rained . the dog ran on .\n"
    "_BOOK_TITLE_ : Bob___Snow.txt.out\nit snew .\n",
}
BOOK_FILES = {
    **{f"{name}.txt": text for name, text in BOOKS.items()},
    **{name: pack({"a/x.txt": BOOKS["markdown"], "a/y.md": "It snew."}) for name, pack in PACKS.items()},
}
PAGE = """\
<!DOCTYPE html><html><head><meta charset="utf-8"><title>Rain | Project Gutenberg</title>
<meta name="dc.creator" content="Rain, Ann, 1860-1930"></head><body><pre>
The Project Gutenberg EBook of Rain

*** START OF THIS PROJECT GUTENBERG EBOOK RAIN ***

Produced by Bob</pre>
<h1>Rain</h1><h2>Contents</h2><table><tr><td>I</td><td><a href="#i">The Hill</a></td></tr></table>
<div><b>Transcriber's note</b><p>Errors were corrected.</p></div><h2 id='i'>I</h2>
<p>It rained at the caf\xe9<a href="#f1">[1]</a>.</p><ul><li>The <i>dog</i> ran.</li></ul>
<p><a href="#r1">[1]</a> A note.</p><pre>*** END OF THIS PROJECT GUTENBERG EBOOK RAIN ***</pre></body></html>
"""
EPUB = b.zipped(b.epub_files({"1.xhtml": "<h2>I</h2><p>It rained.</p>", "2.xhtml": "<p>It <i>ran</i>.</p>"}))
BOOK_FILES |= {
    "x.epub": EPUB,
    "x.html": PAGE,
    "x-h.htm": PAGE.replace("utf-8", "iso-8859-1").encode("cp1252"),
    "page.txt": PAGE.encode("utf-16"),
    "x.txt.utf-8": BOOKS["Gutenberg"].replace("\n", "\r"),
    "utf-16.txt": BOOKS["Gutenberg"].encode("utf-16"),
    "novels.zip": b.zipped(
        {"1.txt": BOOKS["Gutenberg"], "1-h/1-h.htm": PAGE, "1.epub": EPUB, "1.jpg": b"\xff\xd8"}
    ),
    "folder/1-h.zip": b.zipped({"1-h.htm": PAGE}),
}
NOVELS = pd.DataFrame(
    {"id": ["a", "b"], "text": [BOOKS["Gutenberg"], PAGE], "title": ["Rain", None], "year": [1900, 1901],
     "metadata": ['{"author": "Ann"}', None]}
)  # fmt: skip
OWN = pd.DataFrame(
    {
        "text": ["It rained; the dog ___ home.", "She took her ___ and left.", "A ___ fell."],
        "answer": ["ran", "hat", "stone"],
        "candidates": ["ran|sat", "hat|cup", "stone|leaf"],
        "year": [1900, 1901, 1902],
    }
)
for (dataset, form), files in TEXTS.items():
    add(f"{dataset}, {form}", writes(files), LOADED[dataset, form], valid_items)
for (dataset, files), (name, pack) in product(RELEASES.items(), PACKS.items()):
    add(f"{dataset} in {name}", writes({name: pack(files)}), loaded(dataset, name), valid_items)


def books_of(name):
    """Read books with files left out that cannot be read, and strictly: the same, or the first error."""

    def read(folder):
        reader = wb.books(folder / name, on_error="skip")
        books = list(reader)
        if reader.problems:
            refused(re.escape(str(reader.problems[0])), list, wb.books(folder / name))
        else:
            assert list(wb.books(folder / name)) == books
        return books

    return read


for name, content in BOOK_FILES.items():
    place = "folder" if name.startswith("folder/") else name
    add(f"books in {name}", writes({name: content}), books_of(place), any_books)
NOT_READ = {".xls", ".ods", ".arrow", ".feather"} | (set() if find_spec("openpyxl") else {".xlsx"})
for ending in sorted({*user_table.ENDINGS} - NOT_READ):
    name = f"own{ending}"
    add(f"own table, {ending}", table_in(name, OWN), lambda folder, n=name: wb.load(folder / n), valid_items)
for ending in (".jsonl", ".json", ".csv", ".tsv", ".parquet", ".arrow"):
    name = f"novels{ending}"
    add(f"table of books, {ending}", table_in(name, NOVELS), books_of(name), any_books)
HUB = {
    "cbt": pd.DataFrame(b.hub_rows(b.cbt())),
    "cnnqa": pd.DataFrame([b.hub_row(b.cnn())]),
    "msrcc": pd.read_csv(io.StringIO(b.CSV[b.TABLE])).assign(answer="a", language="de"),
}
for dataset, ending in product(HUB, (".jsonl", ".parquet")):
    name = f"{dataset}_ne{ending}"
    read = lambda folder, d=dataset, n=name: wb.load(d, path=folder / n, on_error="skip")  # noqa: E731
    add(f"{dataset} of the hub, {ending}", table_in(name, HUB[dataset]), read, valid_items)
add(
    "items, parquet",
    lambda folder: wb.load("sample", variant="cbt")[:4].to_parquet(folder / "items.parquet"),
    lambda folder: Items.from_parquet(folder / "items.parquet"),
    valid_items,
)
add(
    "LAMBADA, parquet",
    table_in("v.parquet", pd.DataFrame({"text": b.RUNNING, "domain": None})),
    lambda folder: wb.load("lambada", "dev", variant="openai", path=folder / "v.parquet", on_error="skip"),
    valid_items,
)
add(
    "books, parquet",
    table_in("t.parquet", pd.DataFrame({"text": BOOKS.values(), "domain": "a"})),
    lambda folder: list(wb.books(folder / "t.parquet")),
    any_books,
)

# Lists and tables that are read line by line


def import_of(name, items):
    def read(folder):
        for on_error in ("raise", "report"):
            try:
                result = import_results(folder / name, items(), model="m", keep=False, on_error=on_error)
            except DataError:
                if on_error == "report":
                    raise
        result._repr_html_()
        predictions.check_predictions(result.predictions, result.items)
        return str(result)

    return read


def openai():
    return wb.load("sample", "dev", variant="openai")[:8]


def plain():
    return wb.load("sample", "dev", variant="plain")[:8]


def log_in(folder, name, layout):
    (folder / name).write_text(log(openai().frame["text"].tolist(), layout), encoding="utf-8")
    if name == NAME:
        (folder / RESULTS).write_text(results(n=8), encoding="utf-8")


def answers_in(folder, name):
    frame = plain().frame[["item_id", "answer"]].rename(columns={"answer": "prediction"})
    b.write_table(folder / name, pd.concat([frame.assign(person=person) for person in ("Ann", "Bob")]))


def export_in(folder, name):
    frame = plain().frame
    answers = dict(zip(frame["item_id"], frame["answer"], strict=True))
    export_results(predictions.from_answers(plain(), answers, model="m"), folder / name)


def history_in(folder):
    asking = Asking({"uniform": RandomWord("passage")}, settle=None)
    for other in ("", "A rock. The \u2028 boat"):
        asking.ask(TypedQuestion("A storm. The boat", other, pairs=bool(other)))
        asking.keep(now=True)
    asking.close()
    asking.save(folder / "asked.json")


def notes_in(folder):
    for number, word in enumerate(("odd", "nice", "see\u2028also")):
        change = {"text": word, "tags": [word, "x"], "note": word}
        notes.write_notes("sample", {f"{number}": change}, folder=folder)


def notes_of(folder):
    frame = notes.notes(folder=folder)
    assert len(notes.read_notes(["sample"], folder=folder)) <= len(frame)
    return frame.to_json()


for name, layout in {
    NAME: "0.4.13", "samples_lambada_openai.json": "0.4.0", "lambada_openai_write_out_info.json": "0.3",
}.items():  # fmt: skip
    add(f"import {name}", partial(log_in, name=name, layout=layout), import_of(name, openai), any_content)
for name in (
    "inspect_choices.eval", "inspect_last_word.json", "lighteval_choices.parquet",
    "lighteval_written.parquet", "samples_lambada_openai_choices.jsonl",
    "samples_lambada_openai_written.jsonl",
):  # fmt: skip
    add(f"import {name}", partial(shutil.copy, RECORDED / name), import_of(name, openai), any_content)
add(
    "import inspect, deflated",
    lambda folder: archive(folder / "log.zip", {"header.json": START, "samples/1_epoch_1.json": SAMPLE}),
    import_of("log.zip", openai),
    any_content,
)
for name in (f"answers.{ending}" for ending in ("csv", "jsonl", "json", "parquet")):
    add(f"import {name}", partial(answers_in, name=name), import_of(name, plain), any_content)
for name in (f"predictions.{ending}" for ending in ("csv", "jsonl", "parquet")):
    add(f"import {name}", partial(export_in, name=name), import_of(name, plain), any_content)
COUNTS = writes({"counts.txt": "the\t10\nof\t7\nrain\t1\n"})
for name, write, read in (
    ("vocabulary of LAMBADA", COUNTS, lambda folder: dict(lambada.vocabulary(folder / "counts.txt"))),
    ("vocabulary of pretrained models", COUNTS,
     lambda folder: read_vocabulary(folder / "counts.txt", stop_words=False)),
    ("offensive words", writes({"words.txt": "damn\nson-of-a-gun\n\nblackguard\n"}),
     lambda folder: offensive_words(folder / "words.txt")),
    ("notes", notes_in, notes_of),
    ("history of questions", history_in,
     lambda folder: [q.state for q in read_history(folder / "asked.json")]),
):  # fmt: skip
    add(name, write, read, any_content)

# What the workbench writes with checksums: it is read as it was, or refused


def plan_in(_folder):
    frame = made(20, seed=1)
    plan(items_of(frame), hypothesis="It works.", effect=0.2, discordant=0.5)
    wb.evaluate(frame, resamples=2)


def plans_of(_folder):
    return plans().frame.to_json(orient="records", lines=True)


def same_or_none(value, valid):
    assert value in {valid, plans().frame[:0].to_json(orient="records", lines=True)}, "other content"


def numbers(frame):
    """Return predictions as text: equal only if every number is."""
    return frame.drop(columns="run").to_json(orient="records", double_precision=15)


def tiny(kind):
    """Return the folder of a tiny pretrained model, made once."""
    folder = Path(os.environ["WORKBENCH_HOME"], kind)
    make = tiny_models.tiny_gpt2 if kind == "bytes" else partial(tiny_models.tiny_bert, positions=96)
    return folder if folder.is_dir() else make(folder)


def model_of(folder):
    return numbers(Predictor.load(folder / "model").predict(saved_models.ITEMS))


def corpus():
    return Corpus.of(saved_models.LINES, progress=False)


def arrays(texts):
    """Return all that a corpus or a stream holds."""
    is_corpus = isinstance(texts, Corpus)
    words, about = (texts.words, texts.sha256) if is_corpus else (texts.vocabulary, texts.info)
    numbers = [np.asarray(array).tolist() for array in (texts.ids, texts.starts, texts.counts)]
    return [*words], str(about), texts.books.to_json(), numbers


def candidates_in(folder):
    CandidatePassages.of(wb.books("sample"), folder=folder / "candidates", progress=False)


def candidates_of(folder):
    made = CandidatePassages(folder / "candidates")
    content = (made.rule, made.dropped, made.cased, made.sha256, made.books.to_json(), made.frame.to_json())
    return [*content, *made.texts(), *map(str, made.items(range(99)))]


def interrupted(folder):
    """Find the candidates of some chunks of novels, and end there."""
    find, done = candidates.find, []

    def interrupt(chunk):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(chunk)
        return find(chunk)

    with patch.object(candidates, "find", interrupt), suppress(KeyboardInterrupt):
        resumed(folder)


def resumed(folder):
    with patch.object(candidates, "_CHUNK", 1 << 16):
        CandidatePassages.of(wb.books("sample"), folder=folder / "candidates", workers=1, progress=False)
    return candidates_of(folder)


def shelf_in(folder):
    texts = {name: f"It rained on {name}.\n" * 18 for name in "ab"}
    books = [Book(name, name, None, 1900, text, tokenised=False, source="") for name, text in texts.items()]
    construction.read_shelf(books, language=None, progress=False).save(folder / "shelf")


def shelf_of(folder):
    shelf = construction.Shelf(folder / "shelf")
    return shelf.manifest.digest, shelf.frame.to_json(), list(shelf.pairs), [book.text for book in shelf]


def manifest_in(folder):
    step = Step("language", 3, 2, {"not English": 1}, unit="novels", counts={"words": 70})
    Manifest([FileDigest("x.txt", 3, "ab")], {"shelf": {"seed": 1}}, [step]).save(folder)


def checkpoints_in(folder):
    for step in (1, 2):
        weights = {"a": torch.arange(6.0).view(2, 3) * step, "b": torch.tensor([step])}
        state = {"random": [[torch.arange(4, dtype=torch.uint8)]], "carried": []}
        about = {"text": {"key": "x"}}, {"seconds": 1.5}
        checkpoint.save_checkpoint(folder, checkpoint.TrainingState(step, *about, weights, state), keep=[1])


def checkpoints_of(folder):
    states = [checkpoint.read_checkpoint(path) for path in sorted(folder.iterdir())]
    return [None if state is None else str(vars(state)) for state in states]


def log_probs_of_tokens(echo, valid):
    """Log-probabilities may be others, of the same sub-tokens."""
    assert (echo.tokens, echo.spans) == (valid.tokens, valid.spans)
    assert all(-np.inf < value <= 0 for value in echo.log_probs[1:] + echo.best[1:])


def damage_response(folder, draw):
    damages = saved_models.flipped, saved_models.digit, saved_models.truncated, saved_models.nested
    draw.choice(damages)(folder / "response.json", draw)


for name in [name for name in BUILT_IN if name not in saved_models.UNSAVED]:
    add(f"model {name}", lambda folder, n=name: saved_models.made(n, tiny).save(folder / "model"), model_of)
RESPONSE = completion_server.week({"prompt": "It was Monday Tuesday", "echo": True})
add(
    "response of a server",
    writes({"response.json": json.dumps(RESPONSE)}),
    lambda folder: read_echo((folder / "response.json").read_bytes(), "It was Monday Tuesday", "here"),
    log_probs_of_tokens,
    damage=damage_response,
)
for name, write, read in (
    ("corpus", lambda folder: shutil.copytree(corpus().folder, folder / "corpus"),
     lambda folder: arrays(Corpus(folder / "corpus"))),
    ("stream", lambda folder: EncodedText.of(corpus(), 10).copy(folder / "stream"),
     lambda folder: arrays(EncodedText.open(folder / "stream"))),
    ("candidates", candidates_in, candidates_of),
    ("unfinished candidates", interrupted, resumed),
    ("shelf", shelf_in, shelf_of),
    ("manifest", manifest_in, Manifest.load),
):  # fmt: skip
    add(name, write, read)
add("plan", plan_in, plans_of, same_or_none, is_home=True)
add("checkpoints", checkpoints_in, checkpoints_of, same_or_absent)

# Weights of others


def predicted(model, file="tiny"):
    return lambda folder: numbers(model(folder / file, progress=False).predict(saved_models.ITEMS))


for name, kind, model in (("causal", "bytes", CausalLM), ("masked", "bert", MaskedLM)):
    copy = lambda folder, k=kind: shutil.copytree(tiny(k), folder / "tiny")  # noqa: E731
    add(f"weights of a {name} model", copy, predicted(model), any_content)
add(
    "GGUF",
    lambda folder: tiny_gguf.write_gguf(folder / "tiny.gguf"),
    predicted(CausalLM, "tiny.gguf"),
    any_content,
)

# Caches and runs, which are made again where they are damaged: their folder is that of all data

TABLE = pa.table({"word": ["a", "b", None], "n": [1, 2, 3], "s": [[0.5], [], None]})


def fitted(name):
    return lambda: numbers(saved_models.made(name, tiny).predict(saved_models.ITEMS))


def encoded():
    questions = Questions.cached(wb.load("sample", variant="cbt")[:20], 300, progress=False)
    return questions.vocabulary, {name: array.tolist() for name, array in questions.arrays.items()}


def converted():
    file = Path(tiny("bytes").parent, "some.gguf")
    if not file.is_file():
        tiny_gguf.write_gguf(file)
    made = gguf.convert(file)
    return made.label, {path.name: path.read_bytes() for path in sorted(made.folder.iterdir())}


def in_kenlm():
    return saved_models.made("ngram", tiny).binary.read_bytes()


def corpus_found(_folder):
    with patch("workbench.texts.corpus._IN_USE", set()):
        found = Corpus.find(lambda _sha256, _lower: True)
        return [None if found is None else arrays(found)]


def from_cache(_folder):
    table = Cache("some", TABLE.schema).get("key")
    return [None if table is None else table.to_pydict()]


def runs_in(_folder):
    for seed, name in enumerate(("one", "two")):
        frame = made(12, seed=seed, model=name)
        genres = objects([{"genre": genre, "year": 1900} for genre in ("novel", "play") * 6])
        store.keep(items_of(frame, meta=genres), frame, name=name)


def runs_of(folder):
    """Return of every run its predictions and further columns, where they can be read, and its files."""
    content = []
    listed = set(wb.runs()["run"])
    wb.runs()._repr_html_()
    try:
        ranked = set(leaderboard(resamples=10, published=False)["run"])
    except DataError:
        ranked = set()
    for name in ("one", "two"):
        path = folder / "runs" / name
        parts = [None, None, [file.read_bytes() for file in sorted(path.glob("*")) if file.is_file()]]
        try:
            parts[0] = numbers(store.find_run(name).predictions)
            assert name in listed
            parts[1] = store.item_columns(path).to_json()
        except DataError:
            pass
        content.append([*parts, name in ranked])
    return content


def same_where_files_are(content, valid):
    for (*parts, files, ranked), (*valid_parts, valid_files, _) in zip(content, valid, strict=True):
        same_or_absent(parts, valid_parts)
        assert files != valid_files or (parts[0] is not None and ranked), "lost, though its files are valid"


for name, make in (
    ("ngram, fitted before", fitted("ngram")),
    ("lsa, fitted before", fitted("lsa")),
    ("LSTM, fitted before", lambda: numbers(fit_lstm(tokens=600).predict(saved_models.ITEMS))),
    ("n-gram in KenLM's form", in_kenlm),
    ("encoded questions", encoded),
    ("GGUF, converted before", converted),
):  # of work that is found again in the cache: it is the same, whatever lies there
    add(name, lambda _folder, m=make: m(), lambda _folder, m=make: m(), is_home=True)
add("corpus in the cache", lambda _: corpus(), corpus_found, same_or_absent, is_home=True)
write = lambda _: Cache("some", TABLE.schema).put("key", TABLE)  # noqa: E731
add("cached table", write, from_cache, same_or_absent, is_home=True)
write, read = lambda _: saved_models.made("lsa", tiny), lambda _: len(wb.cache()._repr_html_())
add("list of the cache", write, read, any_content, is_home=True)
add("runs", runs_in, runs_of, same_where_files_are, is_home=True)

# Databases: people's words may change, which nothing can tell


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


add("choices of options", choices_in, choices_of, any_content)
add("campaign", campaign_in, campaign_of, damage=damage_campaign)
add("crowdsourcing results", results_in, results_of, damage=damage_results)

# A published site, which is replaced where its list says what it is

SITE = {"format": "workbench site 1", "files": ["index.html", "publish.json"]}
site_in = writes({"index.html": "<!DOCTYPE html>", "publish.json": json.dumps(SITE)})
add("published site", site_in, check_replaceable, any_content)

# Functions that meet foreign text, on texts that repeat a piece


def pumped(name):
    def read(folder):
        with suppress(DataError):  # that it ends is what is asked
            getattr(Pumped(folder), name)((folder / "text").read_bytes().decode())

    def repeat(folder, rng):
        piece = "".join(rng.choices(PIECES, k=rng.choice([1, 1, 2, 3])))
        start, end = rng.choice(["", *PIECES]), rng.choice([*ENDS, *PIECES])
        (folder / "text").write_bytes(f"{start}{piece * (LENGTH // len(piece))}{end}".encode())

    return Artefact(writes({"text": "some text"}), read, any_content, damage=repeat)


ARTEFACTS |= {f"pumped {name}": pumped(name) for name in Pumped.functions()}
