"""The code of README.md and of the pages runs as it stands, page by page, and their commands exist.

Each page's blocks run in order, in one fresh namespace and folder, with nothing that the page does not show.
The data sets are small stand-ins with the names of the published files, made of the sample: passages and
questions come from its first ten stories, novels are the other ten.
"""

import contextlib
import io
import json
import re
import runpy
import shlex
import shutil
import tarfile
import tomllib
from pathlib import Path

import builders as b
import completion_server
import pytest
import tiny_models
from releases import RELEASES

import workbench as wb
from workbench import cli
from workbench.items import text as wt
from workbench.models import NGram
from workbench.widgets.guess.guess import Guess

ROOT = Path(__file__).parents[2]
EXECUTED = ("docs/gallery/", "docs/tasks/")  # run when the site is built, as test_site does
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_CODE = {  # blocks that show no code, by their beginning
    "release files": "a diagram",
    "lambada/dev/plain|n:4869|": "a signature, compared below",
}
SMALLER = {  # what takes hours on novels, or long on stories, and what the tests run in its place
    "README.md": {
        '"test", variant="capitalised")': '"test", variant="capitalised").sample(12)',
        "per_class=100": "per_class=20",
    },
    "docs/construction.md": {"minutes=60": "tokens=2_000, width=16"},
    "docs/protocols.md": {"sample(300": "sample(2"},
    "docs/training.md": {"minutes=30": "tokens=2_000, width=16, rows=8, length=32"},
}
LANGUAGE_MODEL = "smollm2-135m"  # in its place a tiny model answers
SERVER = "http://localhost:8000"  # in its place a server of the tests is asked
REPEATED = 6  # stories are short: a word of a novel that is rare and not unknown occurs five times in 50,000


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def blocks(path):
    """Yield the language, the first line and the text of each block of a page."""
    page = path.read_text(encoding="utf-8")
    for match in BLOCK.finditer(page):
        if not match[2].startswith(tuple(NOT_CODE)):
            yield match[1], page.count("\n", 0, match.start(2)), match[2]


def python_blocks(path):
    return [(line, text) for language, line, text in blocks(path) if language == "python"]


WITH_PYTHON = [path for path in PAGES if python_blocks(path) and not name_of(path).startswith(EXECUTED)]


def stories():
    return {book.book_id.removeprefix("sample/"): book for book in wb.books("sample")}


def of_the_first_ten(items):
    return items[items.frame["book_id"].isin([book.book_id for book in list(stories().values())[:10]])]


def the_other_ten():
    return list(stories().items())[10:]


def passages(split, variant, number):
    items = of_the_first_ten(wb.load("sample", split, variant=variant))
    return b.text(item.text for item in items.sample(number, seed=0))


def questions(word_class):
    """Return questions of the sample in the form of the release."""
    items = of_the_first_ten(wb.load("sample", variant="cbt"))
    return "\n".join(map(question, items[items.frame["word_class"] == word_class].head(10)))


def question(item):
    context = [item.text[slice(*span)].strip() for span in item.sentences[:-1]]
    start, end = item.sentences[-1]
    query = f"{item.text[start : item.answer_span[0]]}XXXXX{item.text[item.answer_span[1] : end]}".strip()
    rows = [f"{number} {sentence}" for number, sentence in enumerate([*context, query], 1)]
    return "\n".join(rows) + f"\t{item.answer}\t\t{'|'.join(item.candidates)}\n"


def released():
    """Return stand-ins of the data sets, by the names of the published files."""
    lambada = {
        "lambada_development_plain_text.txt": passages("dev", "plain", 40),
        "lambada_development_capitalized_plain_text.txt": passages("dev", "capitalised", 40),
        "lambada_control_test_data_plain_text.txt": passages("control", "plain", 40),
        "lambada_test.jsonl": b.OPENAI,
    }
    cbt = {f"cbtest_{kind}_valid_2000ex.txt": questions(kind) for kind in ("NE", "CN", "V", "P")}
    cbt["cbt_valid.txt"] = "".join(
        f"_BOOK_TITLE_ : {book.title}\n{tokenised(book)}\n" for _, book in the_other_ten()
    )
    cnn = {
        f"cnn/questions/validation/{n}.question": b.cnn(answer)
        for n, answer in enumerate(["@entity3", "@entity1"])
    }
    novels = {f"train-novels/Other/{name}.txt": tokenised(book).lower() for name, book in the_other_ten()}
    blimp = {f"{name}.jsonl": minimal_pairs(name) for name in ("agreement", "islands")}
    sets = RELEASES | {
        "blimp": blimp,
        "lambada": lambada | novels,
        "cbt": cbt,
        "msrcc": b.OFFICIAL,
        "cnnqa": cnn,
    }
    return {f"{folder}/{name}": text for folder, files in sets.items() for name, text in files.items()}


def minimal_pairs(name):
    """Return pairs in the form of BLiMP: two words of a sentence change their places in the second text."""
    rows = []
    for number, item in enumerate(of_the_first_ten(wb.load("sample", "dev", variant="capitalised")).head(4)):
        words = item.query.split()[:6]
        texts = {"sentence_good": " ".join(words), "sentence_bad": " ".join([words[1], words[0], *words[2:]])}
        rows.append(texts | {"UID": name, "linguistics_term": "order", "pairID": str(number)})
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def tokenised(book):
    return " ".join(wt.tokenize(book.text))


def of_the_user(folder):
    """Write what users have themselves, by the names on the pages: novels, words, a table, a model."""
    novels = {f"novels/{name}.txt": "\n\n".join([book.text] * REPEATED) for name, book in the_other_ten()}
    b.write(
        folder, novels | {"words.txt": "blast\n", "own.csv": "passage,answer,genre\nHe sat down,down,tale\n"}
    )
    with tarfile.open(folder / "novels.tar.xz", "w:xz") as archive:
        archive.add(folder / "novels", "novels")
    tiny_models.tiny_gpt2(folder / "path/to/gpt2")


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Give the data, an empty home, and the user's files."""
    data, home, user = (tmp_path_factory.mktemp(name) for name in ("data", "home", "user"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_HOME", str(home))
        b.write(data, released())
        of_the_user(user)
        return data, home, user


@pytest.fixture
def user(places, tmp_path, monkeypatch):
    """Stand in a folder of the user's, where the data sets are at hand."""
    data, home, files = places
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORKBENCH_DATA", str(data))
    monkeypatch.setenv("WORKBENCH_HOME", str(home))
    return tmp_path


def play(names):
    """Answer two pages of each new game, one a condition, as a reader does between the blocks."""
    for game in [value for value in names.values() if isinstance(value, Guess)]:
        while game.page is not None and len(game.judgments()) < 20:
            for task in game.page.tasks:
                while game.answer(task.item_id, ["well"]):
                    pass
            game.submit()
            game.next_page()


def run(path, folder):
    """Run a page's blocks in one namespace, as a script whose line numbers are those of the page."""
    names, script = {}, folder / f"{path.name}.py"
    for line, text in python_blocks(path):
        play(names)
        script.write_text("\n" * line + shortened(text, path), encoding="utf-8")
        names |= runpy.run_path(str(script), names)


def shortened(text, path):
    for long, short in SMALLER.get(name_of(path), {}).items():
        text = text.replace(long, short)
    text = text.replace(LANGUAGE_MODEL, "path/to/gpt2")
    return text.replace(SERVER, completion_server.week_server()) if SERVER in text else text


@pytest.mark.parametrize("path", WITH_PYTHON, ids=name_of)
def test_a_page_runs_with_what_it_shows(path, user):
    run(path, user)


@pytest.mark.usefixtures("user")
def test_the_signature_is_as_shown():
    page = (ROOT / "docs/models.md").read_text(encoding="utf-8")
    items = wb.load("lambada", "dev")
    ngram = NGram.fit(wb.books("lambada", "train"), order=2, vocabulary=500)
    shown = re.search(r"^lambada/dev/plain\|.*$", page, re.MULTILINE)[0]
    signature = wb.predict(items, ngram).signature
    assert signature == shown.replace("n:4869", "n:40").replace("vocab:60000", "vocab:500")


TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
SPAN = re.compile(r"`([^`]+)`")
IN_THE_PROJECT = re.compile(
    r"(benchmarks|docs|notebooks|tests|tools|workbench|data/(sample|en_narrative))/[\w./-]*"
)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")
OTHERS = {"conda", "pip", "uv"}  # programs that are not of this project


def commands(path):
    """Yield the words of each command of a page: lines of shell blocks, and spans in backticks."""
    for language, _, text in blocks(path):
        if language in {"", "bash"}:
            yield from (shlex.split(line, comments=True) for line in text.splitlines() if line.strip())
    for span in SPAN.findall(BLOCK.sub("", path.read_text(encoding="utf-8"))):
        if span.startswith(
            ("make ", "workbench ", "python ", "pytest ", "tools/", "benchmarks/", "torchrun ")
        ):
            yield shlex.split(span.replace("\n", " "))


def problem(words):
    """Say what is wrong with a command, or nothing."""
    program, *rest = words
    if program == "make":
        return [word for word in rest if "=" not in word and word not in TARGETS]
    if program == "workbench":
        return refused(rest)
    if program in OTHERS:  # what they take is not ours to know
        rest = []
    files = [word for word in words if IN_THE_PROJECT.fullmatch(word)]
    missing = [name for name in files if not (ROOT / name).exists()]
    sources = "".join(path.read_text(encoding="utf-8") for name in files for path in scripts(ROOT / name))
    options = [word for word in rest if word.startswith("--")] if program != "pytest" else []
    return missing + [option for option in options if f'"{option}"' not in sources]


def scripts(path):
    """Return a script and those beside it that it may share options with."""
    return [path, *path.parent.glob("_*.py")] if path.is_file() else []


def refused(words):
    """Return what the command line says against words; a command's name alone needs no options."""
    words = [
        word for word in words if words[0] not in {"train", "evaluate"} or not re.match(r"[a-z]\w*=", word)
    ]
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            cli._parser().parse_args([*words, *["--help"][len(words) - 1 :]])
        except SystemExit as end:
            return [] if end.code == 0 else [said.getvalue()]
    return []


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_commands_files_and_links_exist(path):
    page = path.read_text(encoding="utf-8")
    assert [(words, wrong) for words in commands(path) if (wrong := problem(words))] == []
    spans = [span for span in SPAN.findall(BLOCK.sub("", page)) if IN_THE_PROJECT.fullmatch(span)]
    assert [span for span in spans if not (ROOT / span).exists()] == []
    assert [link for link in LINK.findall(page) if not (path.parent / link).exists()] == []
    for language, _, text in blocks(path):
        assert language in {"", "bash", "python", "toml"}
        if language == "toml":
            tomllib.loads(text)
