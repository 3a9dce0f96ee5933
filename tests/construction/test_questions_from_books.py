"""Questions in the form of the Children's Book Test, made from novels."""

import random
import re
from collections import Counter

import numpy as np
import pytest
import spacy
from book_chapters import chapters_of
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused

import workbench as wb
from workbench import construction
from workbench.analysis import tagging
from workbench.construction import childrens_book
from workbench.construction.childrens_book import anonymised, questions, word_classes
from workbench.construction.novels import Chapter, Novel, threshold
from workbench.datasets import load
from workbench.items.items import Items
from workbench.storage.errors import DataError

_WORDS = {
    "PROPN": "Anna Ben Cora Dan Eve Finn Gus Hal Ida Jon Kit Leo Mia Ned",
    "NOUN": "boat river goose lamp door king horse tree road bread window garden apple stone",
    "VERB": "ran walked saw took held sang fell rose broke cut",
    "ADP": "in on at by under over",
    "PRON": "he she",
    "PUNCT": ". ,",
}
TAGS = {tag: words.split() for tag, words in _WORDS.items()}
TAG = {word: tag for tag, words in TAGS.items() for word in words}
CLASS = {"PROPN": "NE", "NOUN": "CN", "VERB": "V", "ADP": "P"}


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    """Save a pipeline that knows the words of these tests."""
    nlp = spacy.blank("en", meta={"name": "listed", "version": "1.0"})
    ruler = nlp.add_pipe("attribute_ruler")
    ruler.add([[{"ORTH": {"REGEX": "."}}]], {"POS": "X"})
    for tag, words in TAGS.items():
        ruler.add([[{"ORTH": word}] for word in words], {"POS": tag})
    folder = tmp_path_factory.mktemp("pipeline")
    nlp.to_disk(folder)
    return folder


def story(name, n=30, *, chapters=1):
    """Return a tokenised book of random sentences."""
    rng = random.Random(name)  # noqa: S311 - a story
    words = sorted(TAG.keys() - {".", ","})
    lines = [
        line
        for number in range(1, chapters + 1)
        for line in [
            f"CHAPTER {number}",
            *(f"{' '.join(rng.choices(words, k=rng.randint(4, 12)))} ." for _ in range(n)),
        ]
    ]
    return wb.Book(name, name, None, None, "\n".join(lines), tokenised=True, source="")


def novel(lines, *more):
    """Return a novel of chapters that are lists of lines, with tags."""
    chapters, first = [], 0
    for chapter in (lines, *more):
        words = [line.split() for line in chapter]
        tags = [[TAG.get(word, "X") for word in line] for line in words]
        chapters.append(Chapter(list(range(first, first + len(chapter))), words, tags))
        first += len(chapter)
    return Novel("book", chapters)


def made(book, seed=0):
    return list(childrens_book._questions(book, dict.fromkeys(CLASS.values(), 1.0), seed))


def plain(chapter):
    """Return the questions of a chapter by the README's rule: text, query, answer, class, pools."""
    result = []
    for last in range(20, len(chapter)):
        context = [word for line in chapter[last - 20 : last] for word in line.split()]
        query = chapter[last].split()
        pools = {
            name: {w.lower() for w in context if CLASS.get(TAG.get(w)) == name} for name in CLASS.values()
        }
        for place, word in enumerate(query):
            name = CLASS.get(TAG.get(word))
            others = set().union(*pools.values()) - {word.lower()}
            if name and word in context and len(others) >= 9:
                blank = " ".join([*query[:place], "_____", *query[place + 1 :]])
                result.append(("\n".join(chapter[last - 20 : last + 1]), blank, word, name, pools))
    return result


SENTENCE = st.lists(st.sampled_from(sorted(TAG)), min_size=1, max_size=7).map(" ".join)


@settings(max_examples=40, deadline=None)
@given(st.lists(SENTENCE, min_size=18, max_size=26), st.integers(0, 5))
def test_questions_are_those_of_the_readme(chapter, seed):
    expected = plain(chapter)
    items = made(novel(chapter), seed=seed)
    assert [(i.text, i.query, i.answer, i.word_class) for i in items] == [row[:4] for row in expected]
    for item, (*_, pools) in zip(items, expected, strict=True):
        check_candidates(item, pools)


def check_candidates(item, pools):
    """Compare candidates with the words of each class in the context."""
    lowered = [word.lower() for word in item.candidates]
    assert len(set(lowered)) == 10
    assert item.candidates == tuple(sorted(item.candidates))
    assert item.answer in item.candidates
    context = " ".join(item.context).split()
    assert set(item.candidates) <= set(context)
    others = set(lowered) - {item.answer.lower()}
    own = pools[item.word_class] - {item.answer.lower()}
    assert len(others & own) == min(9, len(own))
    if item.word_class == "NE" and len(own) < 9:
        nouns = pools["CN"] - own - {item.answer.lower()}
        assert len(others & nouns) == min(9 - len(own), len(nouns))


def test_no_question_crosses_chapters():
    people = " ".join(TAGS["PROPN"])
    full, short = [people] * 22, [people] * 20
    assert made(novel(short, short)) == []
    ids = {item.item_id.rpartition("-")[0] for item in made(novel(short, full))}
    assert ids == {"cbt/built/NE/book/000040", "cbt/built/NE/book/000041"}


def test_items_have_the_form_of_the_release(tmp_path, tagger):
    items = questions(story("a"), pipeline=tagger)
    for name in "NE", "CN", "V", "P":
        built = items.where(items.frame["word_class"] == name)
        assert len(built) > 10
        blocks = []
        for item in built:
            lines = [f"{number} {line}" for number, line in enumerate(item.context, 1)]
            query = item.query.replace("_____", "XXXXX")
            lines.append(f"21 {query}\t{item.answer}\t\t{'|'.join(item.candidates)}")
            blocks.append("\n".join(lines))
        path = tmp_path / f"cbtest_{name}_train.txt"
        path.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
        read = load("cbt", path=path)
        same = [c for c in built.frame if c not in {"item_id", "split", "book_id"}]
        assert built.frame[same].equals(read.frame[same])
    assert set(items.frame["book_id"]) == {"a"}
    assert (items.attrs["books"], items.attrs["pipeline"]) == (1, "en_listed 1.0")


def test_questions_do_not_depend_on_the_order_of_novels(tagger):
    books = [story(name) for name in "abc"]
    options = {"pipeline": tagger}
    items = questions(books, **options)
    assert items.frame.equals(questions(books[::-1], **options).frame)
    assert items.frame.equals(questions(iter(books), **options).frame)
    alone = questions(books[1], **options)
    assert items.where(items.frame["book_id"] == "b").frame.equals(alone.frame)
    few = questions(books, per_class=20, **options)
    assert few.frame.equals(questions(books[::-1], per_class=20, **options).frame)
    assert few.frame.groupby("word_class").size().to_dict() == dict.fromkeys(("CN", "NE", "P", "V"), 20)
    assert few.frame["book_id"].nunique() == 3
    everything = items.frame.set_index("item_id")
    assert everything.loc[few.frame["item_id"]].reset_index()[few.frame.columns].equals(few.frame)
    other = questions(books, per_class=20, seed=1, **options)
    assert set(other.frame["item_id"]) != set(few.frame["item_id"])
    both = set(other.frame["item_id"]) & set(few.frame["item_id"])
    assert any(other[name].candidates != few[name].candidates for name in both)


@given(st.lists(st.lists(st.floats(0, 1, exclude_max=True), max_size=8), max_size=8), st.integers(1, 30))
def test_a_sample_has_the_lowest_keys(parts, n):
    limit = threshold(map(np.array, parts), n)
    keys = sorted(key for part in parts for key in part)
    assert limit == (1.0 if len(keys) <= n else keys[n - 1])


def test_a_novel_is_tagged_once(tagger, monkeypatch):
    book = story("tagged once")
    items = questions(book, pipeline=tagger)
    monkeypatch.setattr(tagging, "load", None)  # a second use would fail
    assert questions(book, pipeline=tagger).frame.equals(items.frame)
    fewer = questions([book], seed=3, per_class=5, classes=["P", "NE"], pipeline=tagger)
    assert fewer.frame["word_class"].tolist() == ["P"] * 5 + ["NE"] * 5
    with pytest.raises(TypeError):
        questions(story("another"), pipeline=tagger)


def test_every_sentence_is_tagged_in_its_place(tagger):
    items = questions(story("places", 60, chapters=2), pipeline=tagger)
    assert {(CLASS[TAG[item.answer]], item.word_class) for item in items} == {(c, c) for c in CLASS.values()}
    chapters = [list(map(" ".join, chapter)) for chapter in chapters_of(story("places", 60, chapters=2))]
    expected = Counter(row[3] for chapter in chapters for row in plain(chapter))
    assert Counter(item.word_class for item in items) == expected


def test_novels_that_items_come_from_are_refused(tagger):
    books = [story(name, 40) for name in "abc"]
    held_out = questions(books[1], pipeline=tagger)
    options = {"pipeline": tagger, "held_out": held_out}
    with pytest.raises(DataError) as error:
        questions(books, **options)
    assert 'on_overlap="drop"' in error.value.hint
    items = questions(books, on_overlap="drop", **options)
    assert set(items.frame["book_id"]) == {"a", "c"}
    assert (items.attrs["dropped_books"], items.attrs["books"]) == (["b"], 2)
    assert items.attrs["held_out"] == len(held_out)
    assert questions([books[0], books[2]], **options).attrs["dropped_books"] == []
    refused(questions, books[1], on_overlap="drop", **options)
    refused(questions, books, on_overlap="skip", **options)


def test_what_cannot_be_used_is_an_error(tagger, tmp_path):
    for novels, options in [
        (["The dog barked ."], {}),
        ([story("a"), story("a")], {}),
        ([], {}),
        (story("a", 20), {}),
        (tmp_path / "nothing", {}),
        (story("a"), {"classes": ["ADJ"]}),
        (story("a"), {"per_class": 0}),
        (story("a"), {"pipeline": "en_nothing"}),
    ]:
        refused(questions, novels, **{"pipeline": tagger} | options)


def book(text, *, tokenised=False):
    return wb.Book("b", "b", None, None, text, tokenised=tokenised, source="")


MARKDOWN = """A word before.

##  CHAPTER I. NAT

"Please, sir, is this _Plumfield_?" asked a boy. He *waited*.

* * *

Then he went _in_.

## II

No number 4
of snake - case here."""


def test_chapters_and_sentences():
    chapters = chapters_of(book(MARKDOWN))
    assert [[" ".join(sentence) for sentence in chapter] for chapter in chapters] == [
        ["A word before ."],
        ["`` Please , sir , is this Plumfield ? ''", "asked a boy .", "He waited .", "Then he went in ."],
        ["No number 4 of snake - case here ."],
    ]
    gutenberg = (
        "CHAPTER I\n\nOne went. Two went.\n\nChapter 2. The Road\n\nI went.\n\n   IV.\n\nThree went.\n"
    )
    assert [len(chapter) for chapter in chapters_of(book(gutenberg))] == [2, 1, 1]
    raw = (
        "DONKEY SKIN There was once a king .\nHe sat .\nCHAPTER II .\nI DID meet him .\n"
        "IV THE WHITE WOLF Once .\nCHAPTER X. THE PADDY As I remember .\nYES ! \n\nHe said so . No ."
    )
    lines = [[" ".join(words) for words in chapter] for chapter in chapters_of(book(raw, tokenised=True))]
    assert lines == [
        ["DONKEY SKIN There was once a king .", "He sat ."],
        ["I DID meet him ."],
        ["IV THE WHITE WOLF Once ."],
        ["CHAPTER X. THE PADDY As I remember .", "YES !", "He said so .", "No ."],
    ]


def test_classes_of_words():
    tagged = """Mr./PROPN Brown/PROPN and/CCONJ Aunt/PROPN Polly/PROPN 's/PART dog/NOUN would/AUX not/PART
        run/VERB to/ADP the/DET first/ADJ wind-mill/NOUN at/ADP Night/NOUN O'Hara/PROPN 3/NUM --/PUNCT"""
    pairs = [pair.split("/") for pair in tagged.split()]
    classes = zip(pairs, word_classes(*zip(*pairs, strict=True)), strict=True)
    assert {word: name for (word, _), name in classes if name} == {
        "Brown": "NE", "Aunt": "CN", "Polly": "NE", "dog": "CN", "run": "V", "to": "P", "first": "NE",
        "wind-mill": "CN", "at": "P", "Night": "NE", "O'Hara": "NE",
    }  # fmt: skip
    assert word_classes(["Aunt", "second", "second"], ["PROPN", "VERB", "ADJ"]) == ["NE", "V", "NE"]


def test_novels_are_split_by_the_seed():
    books = [story(name) for name in "abcdefghij"]
    train, validation = construction.split(books, share=0.3, seed=1)
    assert (len(train), len(validation)) == (7, 3)
    assert sorted(b.book_id for b in [*train, *validation]) == list("abcdefghij")
    again = construction.split(books[::-1], share=0.3, seed=1)
    assert [b.book_id for b in again[0][::-1]] == [b.book_id for b in train]
    assert len({construction.split(books, share=0.1, seed=seed)[1][0].book_id for seed in range(20)}) > 3
    assert len(construction.split(books, share=1.0)[0]) == 1
    assert len(construction.split(books, share=0.0)[1]) == 1
    refused(construction.split, books[0])


WORD = st.text("abAB'-é", min_size=1, max_size=3)


@st.composite
def cloze(draw):
    """Draw an item whose text holds its candidates, with spaces of any width."""
    words = draw(st.lists(WORD, min_size=3, max_size=25))
    place = draw(st.integers(0, len(words) - 1))
    spaces = draw(st.lists(st.sampled_from([" ", "\n", "  "]), min_size=len(words), max_size=len(words)))
    start = sum(len(w) + len(s) for w, s in zip(words[:place], spaces[:place], strict=True))
    text = "".join(w + s for w, s in zip(words, spaces, strict=True)).rstrip()
    cut = max(0, start - 1)
    others = draw(st.lists(st.sampled_from(words), max_size=9))
    return wb.Item(
        "x", "cbt", "built", "NE", text, words[place], (start, start + len(words[place])),
        ((0, cut), (start, len(text))), tuple(dict.fromkeys([*others, words[place]])), "NE",
    )  # fmt: skip


@given(cloze(), st.integers(0, 3))
def test_anonymising_can_be_undone(item, seed):
    items = Items.from_records([item])
    hidden = anonymised(items, seed=seed)[0]
    words = hidden.meta["entities"]
    assert sorted(words) == sorted(hidden.candidates)
    assert sorted(words.values()) == sorted(item.candidates)
    assert set(hidden.candidates) == {f"@entity{n}" for n in range(len(item.candidates))}
    assert not set(hidden.text.split()) & set(item.candidates)
    assert hidden.text[slice(*hidden.answer_span)] == hidden.answer

    def shown(text):
        return re.sub(r"\S+", lambda match: words.get(match[0], match[0]), text)

    assert shown(hidden.text) == item.text
    assert words[hidden.answer] == item.answer
    assert list(map(shown, hidden.context)) == item.context
    assert (shown(hidden.left), shown(hidden.right)) == (item.left, item.right)
    assert hidden.item_id == item.item_id
    assert hidden.variant == "NE-anonymised"


def test_the_numbers_of_placeholders_are_permuted():
    questions_ = load("sample", variant="cbt")
    hidden = anonymised(questions_)
    assert hidden.frame.equals(anonymised(questions_).frame)
    assert hidden[3:4].frame.equals(anonymised(questions_[3:4]).frame)  # whatever else is there
    numbers = Counter(hidden.frame["answer"])
    assert set(numbers) == {f"@entity{n}" for n in range(10)}
    assert max(numbers.values()) < len(hidden) / 4
    assert hidden.frame["text"].tolist() != anonymised(questions_, seed=1).frame["text"].tolist()
    refused(anonymised, hidden)
    refused(anonymised, load("sample", "dev"))
    glued = wb.Item("x", "own", "dev", "own", "a b-c", "c", (4, 5), ((0, 5),), ("c",))
    refused(anonymised, Items.from_records([glued]))


@pytest.mark.data
def test_official_questions_are_built(real_data):
    official = load("cbt", "dev", variant="NE", path=real_data)
    happy_jack = next(b for b in wb.books("cbt", "dev", path=real_data) if b.title == "Happy Jack")
    built = questions(happy_jack)
    where = {(" ".join(item.text.split()), item.left.strip()): item for item in built}
    windows = {text for text, _ in where}
    of_book = [item for item in official if " ".join(item.text.split()) in windows]
    assert len(of_book) > 150
    counterparts = [where.get((" ".join(item.text.split()), item.left.strip())) for item in of_book]
    classes = Counter(other and other.word_class for other in counterparts)
    assert classes[None] / len(of_book) < 0.05
    assert classes["NE"] / len(of_book) > 0.85


def test_the_release_is_counted_as_it_counts_itself(real_data):
    table = childrens_book.question_statistics(
        load("cbt", "dev", variant="NE", path=real_data), path=real_data
    )
    assert set(table["variant"]) == {"NE"}
    assert len(table) == 12
    means = table["unit"] == "mean"
    assert table.loc[~means, "value"].tolist() == table.loc[~means, "released_dev"].tolist()
    assert table.loc[means, "value"].to_numpy(float) == pytest.approx(
        table.loc[means, "released_dev"].to_numpy(float), abs=1e-9
    )
    assert not table[["released_train", "released_test"]].isna().any().any()


def test_statistics_without_those_of_the_release(monkeypatch, tmp_path):
    monkeypatch.setenv("WORKBENCH_DATA", str(tmp_path))
    twice = load("sample", variant="cbt").where([True, *[False] * 159])
    table = childrens_book.question_statistics(twice)
    assert table[["released_train", "released_dev", "released_test"]].isna().all().all()
    assert "wb.fetch" in table.attrs["note"]
    assert table.set_index("quantity").loc["questions", "value"] == 1
    (tmp_path / "stats_NE.txt").write_text(
        "PROCESSING: \tcbtest_NE_train.txt\t\n# of examples (all / distinct):\t12\tmany\t\n"
    )
    refused(childrens_book.question_statistics, twice)
    (tmp_path / "stats_NE.txt").unlink()
    refused(childrens_book.question_statistics, load("sample", "dev"))
