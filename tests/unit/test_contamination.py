from pathlib import Path

import pytest

import workbench as wb
from workbench.datasets.books import Book
from workbench.evaluation.contamination import Contamination, contamination
from workbench.storage.errors import DataError
from workbench.texts.corpus import Corpus
from workbench.texts.overlap import check_held_out

SENTENCE = "The ferry did not sail that morning, for the river had frozen from bank to bank."
PASSAGE = f"{SENTENCE} So the whole family crossed the ice on foot behind the old gray mule"
OTHER = "A lamp burned in every window of the long street & nobody slept while the bells were ringing"
LONELY = "They baked all night in the little shop. At dawn the whole street smelled of warm fresh bread"


def book(name, text):
    return Book(name, name, None, None, text, tokenised=False, source=name)


@pytest.fixture
def items():
    return wb.items_from_text([PASSAGE, OTHER, LONELY])


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "novels"
    path.mkdir()
    (path / "ice.txt").write_text(f"Once.\n\n{PASSAGE.upper()}.\n\nThe end.", encoding="utf-8")
    (path / "lamps.txt").write_text(OTHER.replace("burned", "glowed"), encoding="utf-8")
    return path


def check(report):
    assert isinstance(report, Contamination)
    assert report.frame["passage"].tolist() == [True, False, False]
    assert report.frame["query"].tolist() == [True, False, False]
    assert report.frame["found"].tolist() == [23, 7, 0]
    assert report.frame["n_grams"].tolist() == [23, 10, 11]


def test_texts_may_come_in_any_form(items, folder):
    every, changed = PASSAGE.lower(), OTHER.replace("burned", "glowed")
    for texts in (
        str(folder),
        [folder / "ice.txt", folder / "lamps.txt"],
        [every, changed],
        iter([book("a", every), changed, folder / "lamps.txt", every[:20]]),
        [SENTENCE, PASSAGE[len(SENTENCE) :], changed],  # lines are one text
    ):
        check(contamination(items, texts, progress=False))
    assert contamination(items, book("a", every), progress=False).frame["passage"].tolist()[0]
    assert contamination(items, folder, progress=False).frame["books"].tolist() == [("ice",), ("lamps",), ()]
    assert contamination(items, [every, changed], progress=False).texts["book_id"].tolist() == ["lines"]


@pytest.mark.usefixtures("no_data")
def test_a_corpus_without_the_books_of_the_items(items, folder):
    corpus = Corpus.of(wb.books(folder), progress=False)
    check(contamination(items, corpus, progress=False))
    with pytest.raises(DataError, match=r"corpus.without\(\['ice'\]\)"):
        check_held_out(corpus, items[:1], progress=False)
    assert check_held_out(corpus.without(["ice"]), items[:1], progress=False)


def test_the_summary_counts(items, folder):
    report = contamination(items, folder, progress=False)
    table = report.summary.set_index("what")
    assert table["found"].tolist() == [1, 1, 1, 2, 2, 30]
    assert table["of"].tolist() == [3, 3, 3, 3, 3, 44]
    assert table["share"].tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 3, 2 / 3, 2 / 3, 30 / 44])
    books = report.by_book()
    assert books[["book_id", "items", "half"]].to_numpy().tolist() == [["ice", 1, 1], ["lamps", 1, 1]]


def test_long_queries_are_counted_apart():
    items = wb.items_from_text([PASSAGE, "He had gone to the river at dawn and found the ferry. It sank"])
    report = contamination(items, ["it sank", PASSAGE], progress=False)
    assert report.summary["found"].tolist()[:3] == [1, 2, 1]
    assert report.summary["of"].tolist()[:3] == [2, 2, 1]


def test_it_is_told_plainly(items):
    report = contamination(items, [book(f"<{place}>", PASSAGE) for place in range(7)], progress=False)
    assert "passage occurs: 1 of 3 (33.3 %)" in str(report)
    assert str(report).endswith("and 2 more books")
    page = report._repr_html_()
    assert "&lt;0&gt;" in page
    assert "<0>" not in page
    blank = wb.items_from_text(["The ___ ran"], answers=[None])
    assert "passage occurs: 0 of 0\n" in str(contamination(blank, ["the dog ran"], progress=False))


def test_the_browser_takes_the_report(items, folder):
    report = contamination(items, folder, progress=False)
    browser = wb.browse(items, annotations=report.frame, facets={"passage": ["yes"]})
    assert [item.text for item in browser.selection] == [PASSAGE]
    clean = items.where((report.frame["share"] < 0.1).to_numpy())
    assert [item.text for item in clean] == [LONELY]


@pytest.mark.parametrize(
    ("texts", "message"),
    [([], "no word"), (["-- ..."], "no word"), ([book("a", "  ")], "no word"), ([3], "no text to read"),
     ([("a", ["b"])], "no text to read"), (Path("nowhere"), "nowhere")],
)  # fmt: skip
def test_what_holds_no_text_is_refused(items, texts, message):
    with pytest.raises(DataError, match=message):
        contamination(items, texts, progress=False)


@pytest.mark.data
def test_the_childrens_questions_stand_in_their_books(real_data):
    """13 passages of the release run from the end of one book into the next: their queries stand in one."""
    items = wb.load("cbt", "dev")
    path = real_data / "cbt" / "cbt_valid.txt"
    frame = contamination(items, path, progress=False).frame
    assert frame["query"].all()
    assert (~frame["passage"]).sum() == 13
    assert (frame["n_grams"] - frame["found"])[~frame["passage"]].tolist() == [7] * 13
    assert (frame["share"][frame["passage"]] == 1).all()
    assert (frame["longest"][frame["passage"]] == frame["n_grams"][frame["passage"]] + 7).all()
