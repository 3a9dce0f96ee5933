import math

import litbank
import pytest
import speech_scores
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

TEXT = "It rained .\n“ Yes , ” he said .\n“ We go .\nNow . ” They left .\n"
ANN = (
    "QUOTE\tQ2\t2\t0\t3\t2\t“ We go . Now . ”\nATTRIB\tQ2\tJohn-1\n"
    "QUOTE\tQ1\t1\t0\t1\t3\t“ Yes , ”\nATTRIB\tQ1\tJohn-1\n"
)
TSV = (
    "The\tB-PER\tO\tO\tO\t\nKing\tI-PER\tO\tO\tO\t\nof\tI-PER\tO\tO\tO\t\n"
    "Spain\tI-PER\tB-GPE\tO\tO\t\n\nSat\tO\tO\tO\tO\t\n.\tO\tO\tO\tO\t\n\n"
)


@pytest.fixture
def data(tmp_path):
    """A folder with one text in LitBank's forms."""
    for folder in (litbank.QUOTATIONS, litbank.ENTITIES):
        (tmp_path / folder).mkdir(parents=True)
    write(tmp_path, "1_a", TEXT, ANN)
    (tmp_path / litbank.ENTITIES / "1_a_brat.tsv").write_text(TSV, encoding="utf-8")
    return tmp_path


def write(data, name, text, ann):
    folder = data / litbank.QUOTATIONS
    (folder / f"{name}_brat.txt").write_text(text, encoding="utf-8")
    (folder / f"{name}_brat.ann").write_text(ann, encoding="utf-8")


def test_quotations_are_read_with_their_places(data):
    (document,) = litbank.quotations(data)
    assert document.name == "1_a"
    assert document.words == tuple(TEXT.split())
    assert document.sentences == (0, 3, 10, 14)
    assert document.quotations == ((3, 7), (10, 17))


def test_entities_are_read_with_their_layers(data):
    (document,) = litbank.entities(data)
    assert document.name == "1_a"
    words = [[token.word for token in sentence] for sentence in document.sentences]
    assert words == [["The", "King", "of", "Spain"], ["Sat", "."]]
    assert document.sentences[0][3] == ("Spain", ("I-PER", "B-GPE", "O", "O"))
    assert document.sentences[1][0].labels == ("O",) * 4


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("QUOTE\tQ1\t1\t0\t1\t“ Yes , ”\n", 1),
        ("QUOTE\tQ1\t1\t0\t1\t9\t“ Yes , ”\n", 1),
        ("QUOTE\tQ1\t1\t0\t1\t3\t“ No , ”\n", 1),
        (ANN + "QUOTE\tQ3\t1\t1\t1\t1\tYes\n", 5),
        (TSV + "X\tO\tO\t\n", 9),
        (TSV.replace("B-GPE", "GPE"), 4),
    ],
)
def test_a_wrong_annotation_is_an_error_with_its_line(data, content, line):
    if "QUOTE" in content:
        read, file = litbank.quotations, data / litbank.QUOTATIONS / "1_a_brat.ann"
    else:
        read, file = litbank.entities, data / litbank.ENTITIES / "1_a_brat.tsv"
    file.write_text(content, encoding="utf-8")
    error = refused(list, read(data))
    assert (error.line, error.file) == (line, str(file))
    assert "litbank" in error.hint


def test_missing_files_and_folders_are_told(data, tmp_path, monkeypatch):
    (data / litbank.QUOTATIONS / "1_a_brat.txt").unlink()
    refused(list, litbank.quotations(data))
    refused(list, litbank.entities(tmp_path / "elsewhere"))
    (data / litbank.ENTITIES / "1_a_brat.tsv").write_bytes(b"\xff\tO\n")
    refused(list, litbank.entities(data))
    monkeypatch.delenv("WORKBENCH_DATA", raising=False)
    refused(list, litbank.quotations())


def test_scores_by_hand(data):
    """Two texts, a finder that is wrong in known ways."""
    write(data, "2_b", "a b c d\n", "QUOTE\tQ1\t0\t0\t0\t1\ta b\n")
    answers = {tuple(TEXT.split()): [(3, 7), (10, 16), (18, 19)], ("a", "b", "c", "d"): []}
    parts = speech_scores.scores(data, find=lambda words: answers[tuple(words)], draws=200)
    first, second, both = (parts[part] for part in ("tuned", "other", "all"))
    assert (first["documents"], second["documents"], both["documents"]) == (1, 1, 2)
    # spans: 1 right, 2 wrong, 1 missed; tokens: 4 + 6 right, 1 wrong, 1 missed
    assert (first["span"]["precision"], first["span"]["recall"], first["span"]["f1"]) == (1 / 3, 1 / 2, 2 / 5)
    assert first["token"]["f1"] == 20 / 22
    assert first["token"]["f1_interval"] == pytest.approx((20 / 22, 20 / 22))
    assert first["passage_token"] == first["token"]  # shorter than a passage
    assert math.isnan(second["token"]["precision"])
    assert (second["token"]["recall"], second["token"]["f1"]) == (0, 0)
    assert both["token"]["recall"] == 10 / 13
    assert both["token"]["f1"] == 20 / 24
    assert both["token"]["f1_interval"] == pytest.approx((0, 20 / 22))


SPANS = st.lists(st.integers(0, 30), max_size=8, unique=True).map(
    lambda edges: list(zip(sorted(edges)[::2], sorted(edges)[1::2], strict=False))
)


@given(SPANS, SPANS)
def test_counts_are_those_of_a_slow_loop(gold, found):
    spans, tokens = speech_scores.counts(gold, found)
    slow = [0, 0, 0]
    for at in range(31):
        there, detected = (any(a <= at < b for a, b in some) for some in (gold, found))
        slow[0] += there and detected
        slow[1] += detected and not there
        slow[2] += there and not detected
    assert tokens.tolist() == slow
    right = sum(span in gold for span in found)
    assert spans.tolist() == [right, len(found) - right, len(gold) - right]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), SPANS, st.integers(1, 20))
def test_passages_hold_every_token_and_its_quotation(sizes, spans, size):
    total = sum(sizes)
    words = tuple(map(str, range(total)))
    starts = tuple(sum(sizes[:i]) for i in range(len(sizes)))
    gold = tuple((a, min(b, total)) for a, b in spans if a < total)
    pieces = list(speech_scores.passages(litbank.Document("x", words, starts, gold), size))
    assert tuple(word for piece, _ in pieces for word in piece) == words
    assert all(len(piece) >= size for piece, _ in pieces[:-1])
    quoted = [piece[at] for piece, inside in pieces for a, b in inside for at in range(a, b)]
    assert quoted == [str(at) for a, b in gold for at in range(a, b)]
    assert all(int(piece[0]) in starts for piece, _ in pieces)


@pytest.mark.data
def test_litbank_is_read_whole(real_data):
    quoted, named = list(litbank.quotations(real_data)), list(litbank.entities(real_data))
    assert len(quoted) == len(named) == 100
    assert [x.name for x in quoted] == [x.name for x in named]
    for left, right in zip(quoted, named, strict=True):
        assert left.words == tuple(token.word for sentence in right.sentences for token in sentence)
    assert sum(len(document.words) for document in quoted) == 210_532  # LitBank's own figure
    assert sum(len(document.quotations) for document in quoted) == 1_765


@pytest.mark.data
def test_speech_is_found_as_well_as_the_documentation_says(real_data):
    parts = speech_scores.scores(real_data, draws=10)
    assert parts["tuned"]["token"]["f1"] >= 0.97
    assert parts["other"]["token"]["f1"] >= 0.92
    assert parts["all"]["token"]["f1"] >= 0.95
    assert parts["all"]["span"]["f1"] >= 0.93
