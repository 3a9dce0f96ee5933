"""A collection of novels: what is dropped and why, what is split how, and that only the novels decide it."""

import hashlib
import os
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from book_chapters import chapters_of
from hypothesis import given, settings
from hypothesis import strategies as st
from random_novels import altered, book, novel
from refused import refused
from test_duplicates import plain_n_grams

import workbench as wb
from workbench import construction
from workbench.construction import novel_checks, novel_collection
from workbench.texts.tokenise import n_chapters

FRENCH = """Il pleuvait depuis trois jours sur la petite ville, et personne ne sortait plus de chez soi. La
vieille dame du troisième étage regardait la rue par la fenêtre, son chat gris sur les genoux. """
N = 12_000


def plants():
    """Return novels of which one is altered, one cut short, two in an omnibus, and others to be dropped."""
    one, two, three, four = (novel(seed, N) for seed in range(4))
    return [
        book("one", one),
        book("one altered", altered(one, 0.05, seed=7)),
        book("two", two),
        book("two cut", " ".join(two.split()[2000:10_000])),
        book("three", three),
        book("four", four),
        book("collected", " ".join([novel(8, 500), three, four, novel(9, N)])),
        book("five", novel(5, N)),
        book("rude", novel(6, N) + " You blackguard!"),
        book("french", FRENCH * 50),
        book("empty", " -- "),
    ]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Give the collection of the planted novels, with a list of one word."""
    home = tmp_path_factory.mktemp("home")
    (home / "list.txt").write_text("blackguard\n\nSon-of-a-gun\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_HOME", str(home))
        yield construction.read_novels(plants(), offensive=home / "list.txt")


def rows(made, column):
    return made.frame.set_index("book_id")[column].to_dict()


def test_each_novel_dropped_has_its_reason(made):
    reasons = {name: reason for name, reason in rows(made, "reason").items() if pd.notna(reason)}
    assert reasons == {
        "one altered": "near-duplicate",
        "two cut": "near-duplicate",
        "rude": "offensive words",
        "french": "language: French",
        "empty": "no word",
    }
    assert rows(made, "duplicate_of")["two cut"] == "two"
    assert rows(made, "offensive")["rude"] == 1
    assert len(made) == 6
    assert "6 novels" in repr(made)


def test_an_omnibus_and_its_novels_are_in_one_part(made):
    group, split = rows(made, "group"), rows(made, "split")
    assert {name for name in group if group[name] == "collected"} == {"collected", "three", "four"}
    assert len({split[name] for name in ("collected", "three", "four")}) == 1
    assert rows(made, "containment")["three"] == pytest.approx(1, abs=0.01)
    assert rows(made, "similar_to")["three"] == "collected"
    assert group["one altered"] == group["one"] == "one"
    assert group["five"] == "five"


def test_pairs_are_those_of_plain_sets(made):
    texts = {book.book_id: plain_n_grams(book.text) for book in plants()}
    left = [name for name in texts if name not in {"rude", "french", "empty"}]
    expected = []
    for names in combinations(sorted(left), 2):
        one, other = (texts[name] for name in names)
        if (n := len(one & other)) > 0.05 * min(len(one), len(other)):
            expected.append((*names, *(n / len(grams) for grams in (one | other, one, other))))
    assert [tuple(row) for row in made.pairs.to_numpy().tolist()] == expected


def test_the_funnel(made):
    frame = made.manifest.to_frame().set_index("step")
    assert frame["n_in"].tolist() == [11, 10, 9, 8, 6]
    assert frame["n_out"].tolist() == [10, 9, 8, 6, 6]
    assert frame.loc["language", "reasons"] == "French: 1"
    assert frame.loc["near-duplicates", "reasons"] == "near-duplicate: 2"
    split = made.manifest.steps[-1].counts
    assert sum(split[f"novels {name}"] for name in novel_collection.SHARES) == 6
    kept = made.frame["reason"].isna()
    assert (
        sum(split[f"words {name}"] for name in novel_collection.SHARES) == made.frame.loc[kept, "words"].sum()
    )
    parameters = made.manifest.parameters["novels"]
    assert parameters["minhash_permutations"] == novel_checks.PERMUTATIONS
    assert made.manifest.versions["datasketch"].startswith("2")
    assert {file.name for file in made.manifest.inputs} == {book.book_id for book in plants()} | {"list.txt"}


def test_the_books_are_the_texts(made):
    originals = {book.book_id: book for book in plants()}
    for split in novel_collection.SHARES:
        for one in made.books(split):
            assert one.text == originals[one.book_id].text
            about = (one.title, one.author, one.year, one.tokenised)
            assert about == (one.book_id.title(), None, None, False)
    assert [one.book_id for one in made] == ["collected", "five", "four", "one", "three", "two"]
    refused(made.books, "dve")


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize(
    ("mode", "dropped"),
    [("keep", set()), ("drop contained", {"one altered", "two cut", "three", "four"})],
)
def test_near_duplicates_never_straddle(mode, dropped):
    novels, words = plants()[:8], Path(os.environ["WORKBENCH_HOME"], "list.txt")  # checked already
    for seed in range(4):
        made = construction.read_novels(novels, duplicates=mode, seed=seed, offensive=words)
        assert set(made.frame.loc[made.frame["reason"].notna(), "book_id"]) == dropped
        groups = made.frame[made.frame["reason"].isna()].groupby("group")["split"]
        assert all(len(set(splits)) == 1 for _, splits in groups)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.mark.usefixtures("home")
def test_other_novels_and_the_order_make_no_difference():
    novels = [book(f"n{seed}", novel(seed, 300)) for seed in range(8)]
    first = construction.read_novels(novels, seed=3)
    again = construction.read_novels(novels[::-1], seed=3)
    assert again.folder == first.folder
    fewer = construction.read_novels(iter(novels[2:5]), seed=3)
    assert rows(fewer, "split").items() <= rows(first, "split").items()
    other = construction.read_novels(novels, seed=4)
    assert rows(other, "split") != rows(first, "split")


@given(st.lists(st.floats(0.05, 1), min_size=1, max_size=4), st.integers(0, 5))
@settings(max_examples=30)
def test_shares_hold_on_average(weights, seed):
    shares = {f"part {n}": weight / sum(weights) for n, weight in enumerate(weights)}
    names = [f"n{n}" for n in range(2000)]
    frame = pd.DataFrame({"group": names, "reason": None})
    counts = novel_collection._split(frame, shares, seed).value_counts()
    for name, share in shares.items():  # five standard deviations
        assert abs(counts.get(name, 0) - 2000 * share) < 5 * np.sqrt(2000 * share * (1 - share)) + 1e-9


def test_a_run_that_was_interrupted_goes_on(home, monkeypatch):
    novels = [book(f"n{seed}", novel(seed, 100)) for seed in range(6)]
    check, checked = novel_checks._described, []

    def interrupted(work):
        if len(checked) == 4:
            raise KeyboardInterrupt
        checked.append(work)
        return check(work)

    monkeypatch.setattr(novel_checks, "_described", interrupted)
    with pytest.raises(KeyboardInterrupt):
        construction.read_novels(novels)
    assert not list((home / "home/cache/novels").iterdir())
    checked.clear()
    made = construction.read_novels(novels)
    assert len(checked) == 2
    checked.clear()
    assert construction.read_novels(novels).folder == made.folder
    assert checked == []
    (made.folder / "novels.parquet").write_bytes(b"")  # damaged: made again of what is stored
    assert construction.read_novels(novels).manifest == made.manifest
    assert checked == []


def test_a_copy_is_the_collection(made, tmp_path):
    copy = construction.NovelCollection(made.save(tmp_path / "copy"))
    assert copy.manifest == made.manifest
    assert copy.frame.equals(made.frame)
    assert [one.text for one in copy] == [one.text for one in made]
    next((tmp_path / "copy/texts").iterdir()).unlink()
    refused(list, copy)


def test_files_of_all_forms_are_inputs(home):
    import builders as b  # noqa: PLC0415

    text = novel(1, 400)
    folder = b.write(
        home / "novels", {"a.txt": text, "sub/b.md": f"# Title: B\n\n{novel(3, 400)}", "c.txt": novel(2, 400)}
    )
    archive = b.write(home, {"more.zip": b.zipped({"d.txt": novel(4, 400)})}) / "more.zip"
    made = construction.read_novels([folder, archive])
    assert made.frame["book_id"].tolist() == ["a", "c", "d", "sub/b"]
    assert made.frame["title"].tolist() == ["a", "c", "d", "B"]
    inputs = {file.name: (file.size, file.sha256) for file in made.manifest.inputs}
    assert inputs.keys() == {"a.txt", "sub/b.md", "c.txt", "more.zip"}
    assert inputs["a.txt"] == (len(text), hashlib.sha256(text.encode()).hexdigest())


@pytest.mark.usefixtures("home")
def test_novels_in_another_language_or_in_two_are_dropped():
    assert novel_checks.detect_language(FRENCH * 20)[0] == "French"
    assert novel_checks.detect_language("12 -- !") == ("", 0.0)
    text = novel(1, 1000)
    half = [book("half", text + FRENCH * (len(text) // len(FRENCH)))]
    made = construction.read_novels([book("one", text), *half], confidence=0.9)
    assert rows(made, "reason")["half"].startswith("language:")
    assert len(construction.read_novels(half, language=None)) == 1


@pytest.mark.usefixtures("home")
def test_a_tokenised_edition_is_a_near_duplicate():
    [one] = [one for one in wb.books("sample") if one.book_id.endswith("copper-bay")]
    tokens = " ".join(" ".join(sentence) for chapter in chapters_of(one) for sentence in chapter).lower()
    made = construction.read_novels([one, book("tokens", tokens, tokenised=True)])
    assert made.frame["reason"].notna().sum() == 1
    assert made.frame["jaccard"].min() > 0.95


def test_chapters_are_counted_as_they_are_cut():
    for one in wb.books("sample"):
        assert n_chapters(one.text, tokenised=one.tokenised) == len(chapters_of(one))


def test_offensive_words_and_phrases_are_counted(home):
    (home / "list.txt").write_text("Blackguard\n son-of-a-gun \n--\ncaf\xe9\n", encoding="utf-8")
    assert novel_checks.offensive_words(home / "list.txt") == [
        ("blackguard",), ("cafe",), ("son", "of", "a", "gun"),
    ]  # fmt: skip
    text = novel(1, 1000) + " BLACKGUARD, blackguards; a Son of a\nGun and a Caf\xe9."
    options = {"offensive": home / "list.txt"}
    other = book("other", novel(2, 100))
    made = construction.read_novels([book("x", text), other], **options)
    assert (rows(made, "offensive")["x"], rows(made, "reason")["x"]) == (3, "offensive words")
    made = construction.read_novels([book("x", text), other], offensive_rate=0.01, **options)
    assert len(made) == 2


def test_bad_input_is_one_error(home):
    one = book("one", novel(1, 300))
    (home / "none.txt").write_text("\n")
    for arguments, options in (
        ([one, one], {}),
        ([], {}),
        ([3], {}),
        ([book("one", "--")], {}),
        ([one], {"shares": {"train": 0.5}}),
        ([one], {"shares": {}}),
        ([one], {"jaccard": 2}),
        ([one], {"language": "Englsh"}),
        ([one], {"duplicates": "x"}),
        ([one], {"offensive": home / "none.txt"}),
    ):
        refused(construction.read_novels, arguments, **options)
