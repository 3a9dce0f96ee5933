"""Questions in the form of CNN QA, made from novels."""

import random
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

import workbench as wb
from workbench.construction import childrens_book, cnn_qa
from workbench.construction.novels import Chapter, Novel
from workbench.datasets import load

FIRST, LAST = "Anna Ben Cora Dan Eve".split(), "Moss Rook Stone".split()  # noqa: SIM905
NAMES = {*FIRST, *LAST}


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_HOME", str(tmp_path_factory.mktemp("home")))
        yield


def novel(*chapters):
    """Return a novel of chapters that are lists of lines; names have a capital."""
    made, first = [], 0
    for lines in chapters:
        words = [line.split() for line in lines]
        tags = [["PROPN" if word in NAMES else "X" for word in line] for line in words]
        made.append(Chapter(list(range(first, first + len(lines))), words, tags))
        first += len(lines)
    return Novel("book", made)


def made(book, n_tokens=24, seed=0):
    return list(cnn_qa._questions(book, n_tokens, 1.0, seed))


def named(item, text):
    """Put the names back."""
    names = item.meta["entities"]
    return re.sub(r"@entity\d+", lambda match: names[match[0]], text)


LINES = [
    "Anna saw Ben .",
    "Cora met Dan and Eve on the Road .",
    "The `` old '' goose ran away from all of them .",
]


def test_an_item():
    (item,) = made(novel([*LINES, "Later the goose bit Ben ."]))
    assert item.answer_span[0] == item.text.index("later the goose bit ") + len("later the goose bit ")
    assert named(item, item.text) == (
        "anna saw ben . cora met dan and eve on the road . "
        'the " old " goose ran away from all of them .\n\nlater the goose bit ben .'
    )
    assert item.meta["entities"][item.answer] == "ben"
    assert item.query == "later the goose bit _____ ."
    assert len(item.context) == 3
    assert item.candidates == tuple(f"@entity{n}" for n in range(5))
    assert (item.item_id, item.variant) == ("cnnqa/built/book/000003-004", "novels")
    assert made(novel(LINES, ["Later the goose bit Ben ."])) == []  # another chapter


@pytest.mark.parametrize(
    ("question", "answers"),
    [
        ("Later Anna told Anna about Ben .", ["ben"]),  # a name that is there twice would give itself away
        ("Later Anna told Dan about it .", ["anna", "dan"]),
        ("Later Rook told Dan about it .", ["dan"]),  # Rook is not in the text
        ("Dan went away .", []),  # too short
        ("Dan went " + "away " * 39, []),
    ],
)
def test_which_entities_are_asked_for(question, answers):
    items = made(novel([*LINES, question]))
    assert [item.meta["entities"][item.answer] for item in items] == answers


def test_a_part_of_one_longer_name_is_the_same_entity():
    lines = [
        "Anna Moss saw Ben .",
        "Cora Rook met Dan Rook and Eve .",
        *LINES[2:],
        "But Anna told Rook about it .",
    ]
    items = made(novel(lines))
    assert [item.meta["entities"][item.answer] for item in items] == ["anna moss"]  # Rook may be Cora or Dan
    assert sorted(items[0].meta["entities"].values()) == [
        "anna moss", "ben", "cora rook", "dan rook", "eve", "rook"
    ]  # fmt: skip


PIECE = st.tuples(
    st.sampled_from([*FIRST, "Anna Moss"]), st.sampled_from(["ran", "The goose", "``", "met ."])
)
LINE = st.lists(PIECE, min_size=1, max_size=5).map(
    lambda pairs: " ".join(word for pair in pairs for word in pair)
)


@given(st.lists(LINE, min_size=10, max_size=25), st.integers(5, 40), st.integers(0, 3))
def test_questions_show_the_novel(lines, n_tokens, seed):
    """Compare the text with the names put back with the novel's, and count the questions by hand."""
    whole = "Anna Moss" in " ".join(lines)
    plain = [re.sub(r"Anna(?! Moss)", "Anna Moss" if whole else "Anna", line) for line in lines]
    length = [len(line.split()) for line in lines]
    expected = []
    for at, line in enumerate(lines):
        firsts = [first for first in range(at) if sum(length[first:at]) >= n_tokens]
        text = " ".join(plain[firsts[-1] : at]) if firsts else ""
        names = [name for name in FIRST if name in text]
        if len(names) >= 5 and 5 <= length[at] <= 40:
            expected += [(text, plain[at], name) for name in names if line.count(name) == 1]
    items = made(novel(lines), n_tokens, seed)
    shown = [
        (*named(item, item.text).split("\n\n"), item.meta["entities"][item.answer].split()[0])
        for item in items
    ]
    assert sorted(shown) == sorted(tuple(part.lower().replace("``", '"') for part in row) for row in expected)
    for item in items:
        entities = item.meta["entities"]
        assert len(set(entities.values())) == len(entities) == len(item.candidates)
        assert item.candidates == tuple(f"@entity{n}" for n in range(len(entities)))
        assert set(re.findall(r"@entity\d+", item.text)) == set(item.candidates)
        assert item.answer in " ".join(item.context).split()
        assert item.answer not in item.query.split()
        assert item.text[slice(*item.answer_span)] == item.answer


def story(name, n=60):
    rng = random.Random(name)  # noqa: S311 - a story
    words = "the goose ran far away from a small town by night".split()  # noqa: SIM905
    lines = []
    for _ in range(n):
        line = rng.choices(words, k=rng.randint(5, 10))
        line[rng.randrange(1, 5)] = rng.choice(FIRST + LAST)
        lines.append(f"The {' '.join(line)} .")
    return wb.Book(name, name, None, None, "\n".join(lines), tokenised=True, source="")


def test_items_have_the_form_of_the_release(tmp_path):
    items = cnn_qa.questions([story("a"), story("b")], number=40, n_tokens=150)
    assert len(items) == 40
    for number, item in enumerate(items):
        article, question = item.text.split("\n\n")
        listed = "\n".join(f"{entity}:{name}" for entity, name in item.meta["entities"].items())
        blank = item.query.replace("_____", "@placeholder")
        assert question == item.query.replace("_____", item.answer)
        parts = [item.meta["url"], article, blank, item.answer, listed]
        (tmp_path / f"{number:03d}.question").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    read = load("cnnqa", path=tmp_path)
    same = [c for c in items.frame if c not in {"item_id", "split", "variant", "book_id"}]
    assert items.frame[same].equals(read.frame[same])


def test_questions_do_not_depend_on_the_order_of_novels():
    books = [story(name) for name in "abc"]
    options = {"n_tokens": 150}
    items = cnn_qa.questions(books, **options)
    assert items.frame.equals(cnn_qa.questions(books[::-1], **options).frame)
    few = cnn_qa.questions(books[::-1], number=25, **options)
    assert len(few) == 25
    rows = items.frame.set_index("item_id").loc[few.frame["item_id"]].reset_index()
    assert rows[few.frame.columns].equals(few.frame)
    other = cnn_qa.questions(books, seed=1, **options)
    assert other.frame["item_id"].tolist() == items.frame["item_id"].tolist()
    assert other.frame["answer"].tolist() != items.frame["answer"].tolist()
    held_out = childrens_book.questions(books[1])
    refused(cnn_qa.questions, books, held_out=held_out, **options)


def test_the_numbers_of_entities_are_permuted():
    chapter = [*LINES, "Later Anna told Dan about it ."]
    items = made(novel(*[chapter] * 200))
    numbers = Counter(item.answer for item in items)
    assert set(numbers) == {f"@entity{n}" for n in range(5)}
    assert all(abs(n - 80) < 5 * 80**0.5 for n in numbers.values())  # five standard deviations


def test_what_cannot_be_used_is_an_error():
    refused(cnn_qa.questions, story("a"), n_tokens=5000)
    refused(cnn_qa.questions, story("a"), number=0)
