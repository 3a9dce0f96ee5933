"""The code of README.md and of the pages runs as it stands, page by page, and their commands exist.

Each page's blocks run in order, in one fresh namespace and folder, with nothing that the page does not show. The data
sets are small stand-ins with the names of the published files, made of the sample: LAMBADA's passages and the
questions come from its first ten stories, novels are the other ten.
"""

import ast
import re
import runpy
import shlex
import shutil
import tarfile
import tomllib
import warnings
from pathlib import Path

import builders as b
import pytest
import tiny_models

import workbench as wb
from workbench import cli
from workbench.items import text as wt
from workbench.storage.errors import DataError

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_CODE = {  # blocks that show no code, by their beginning
    "release files": "a diagram",
    "lambada/dev/plain|n:4869|": "a signature, compared below",
}
SMALLER = {  # what takes hours on novels, and what the tests run in its place
    "docs/data.md": {"minutes=60": "tokens=2_000, width=16"},
    "docs/training.md": {"minutes=30": "tokens=2_000, width=16"},
}
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


WITH_PYTHON = [path for path in PAGES if python_blocks(path)]


def stories():
    return {book.book_id.removeprefix("sample/"): book for book in wb.books("sample")}


def of_the_first_ten(items):
    return items[items.frame["book_id"].isin(list(stories())[:10])]


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
    cbt["cbt_valid.txt"] = "".join(f"_BOOK_TITLE_ : {book.title}\n{tokenised(book)}\n" for _, book in the_other_ten())
    cnn = {f"questions/validation/{n}.question": b.cnn(answer) for n, answer in enumerate(["@entity3", "@entity1"])}
    novels = {f"train-novels/Other/{name}.txt": tokenised(book).lower() for name, book in the_other_ten()}
    sets = {"lambada": lambada | novels, "cbt": cbt, "msrcc": b.OFFICIAL, "cnn": cnn}
    return {f"{folder}/{name}": text for folder, files in sets.items() for name, text in files.items()}


def tokenised(book):
    return " ".join(wt.tokenize(book.text))


def of_the_user(folder):
    """Write what users have themselves, by the names on the pages: novels, words, a table, a model."""
    novels = {f"novels/{name}.txt": "\n\n".join([book.text] * REPEATED) for name, book in the_other_ten()}
    b.write(folder, novels | {"words.txt": "blast\n", "own.csv": "passage,answer,genre\nHe sat down,down,tale\n"})
    with tarfile.open(folder / "novels.tar.xz", "w:xz") as archive:
        archive.add(folder / "novels", "novels")
    tiny_models.tiny_gpt2(folder / "path/to/gpt2")


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Give the data, a home without anything in it but what pages make, and the user's files."""
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
    """Answer one page of each condition of a game that a page begins, as its reader does."""
    game = names["game"]
    for _ in range(2):
        for task in game.page.tasks:
            for _ in range(3):
                game.answer(task.item_id, ["well"])
        game.submit()
        game.next_page()


READER = {"docs/people.md": play}  # what a reader does between the blocks


def run(path):
    """Run a page's blocks in one namespace, line numbers those of the page; return the namespace."""
    names = {"__name__": "__main__"}
    for line, text in python_blocks(path):
        if len(names) > 1 and name_of(path) in READER:
            READER[name_of(path)](names)
        for long, short in SMALLER.get(name_of(path), {}).items():
            text = text.replace(long, short)
        code = ast.increment_lineno(ast.parse(text), line)
        exec(compile(code, str(path), "exec"), names)
    return names


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", WITH_PYTHON, ids=name_of)
def test_a_page_runs_with_what_it_shows(path, user):
    run(path)
