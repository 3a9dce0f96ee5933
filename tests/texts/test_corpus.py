"""The corpus on disk, against plain loops, and what may happen to it there."""

import os
import pickle
import tarfile
from collections import Counter
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np
import pytest
from book_chapters import chapters_of
from builders import Text
from hypothesis import example, given, settings
from hypothesis import strategies as st
from joblib import parallel_config
from refused import refused

from workbench.datasets.books import books
from workbench.items import text as wt
from workbench.storage.cache import digest
from workbench.storage.errors import DataError
from workbench.storage.paths import resource
from workbench.texts import corpus as store
from workbench.texts import tokenise
from workbench.texts.corpus import RESERVED, Corpus

SAMPLE = resource("sample", "novels")
TALK = 'Mr. Hale came in. "Who\'s there?" he said.\n\nCHAPTER I\n\nNobody--not one--spoke.\n'
RUNNING = Text(TALK, "b", "B", tokenised=False)
TOKENS = Text("`` Who 's there ? '' he said . Nobody spoke", "t")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(store, "_LINES", 3)  # written in small blocks
    return tmp_path / "home"


def of(texts, **options):
    return Corpus.of(texts, **options)


def sentences(corpus):
    return [
        [corpus.words[number] for number in corpus.ids[start:end]]
        for start, end in zip(corpus.starts, corpus.starts[1:], strict=False)
    ]


def entries():
    return sorted(path.name for path in Path(os.environ["WORKBENCH_HOME"], "cache", "corpus").glob("*"))


WORDS = st.text(st.characters(codec=None, exclude_categories=()), max_size=6) | st.sampled_from(
    ["the", "The", ".", "?", "''", "<s>", "</s>", "<unk>", "<UNK>", "a\0b", "x\x85y", "İ", "ΑΣ"]
)


@pytest.mark.filterwarnings("ignore:.* of the text are <unk>")
@settings(max_examples=20)
@given(st.lists(st.lists(WORDS, max_size=8).map(" ".join), max_size=12), st.booleans())
def test_lines_against_a_plain_loop(lines, lower):
    expected = []
    for line in "\n".join(lines).split("\n"):
        valid = line.replace("\0", " ").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        words = [word.lower() if lower else word for word in valid.split()]
        for is_mark, group in groupby(
            zip(valid.split(), words, strict=True), lambda pair: pair[0] in {"<s>", "</s>"}
        ):
            expected += [] if is_mark else [[word for _, word in group]]
    if not expected:
        refused(of, lines, lower=lower)
        return
    corpus = of(lines, lower=lower)
    assert sentences(corpus) == expected
    counts = Counter(word for words in expected for word in words)
    ordered = sorted(counts, key=lambda word: (-counts[word], word))
    assert corpus.words == ordered
    assert corpus.counts.tolist() == [counts[word] for word in ordered]
    assert (corpus.n_tokens, corpus.n_sentences) == (counts.total(), len(expected))
    assert (corpus.ids.dtype, corpus.starts.dtype, corpus.counts.dtype) == ("u4", "i8", "i8")
    assert corpus.vocabulary(3) == [word for word in ordered if word not in RESERVED][:3]
    for known in (None, set(ordered[::2])):
        shown = (set(ordered) if known is None else known) - RESERVED
        assert list(corpus.lines(known)) == [
            " ".join(word if word in shown else "<unk>" for word in words) for words in expected
        ]


def test_books_are_cut_into_the_sentences_of_the_text_module():
    corpus = of([RUNNING, TOKENS, "Two lines\nand a third", "fourth", Text(" \n", "empty"), "last"])
    assert sentences(corpus)[:4] == [
        ["mr.", "hale", "came", "in", "."],
        ["``", "who", "'s", "there", "?", "''"],
        ["he", "said", "."],
        ["chapter", "i"],
    ]
    assert sentences(corpus)[5:7] == [["``", "who", "'s", "there", "?", "''"], ["he", "said", "."]]
    assert sentences(corpus)[8:] == [["two", "lines"], ["and", "a", "third"], ["fourth"], ["last"]]
    assert corpus.books.to_dict("list") == {
        "book_id": ["b", "t", "lines", "empty", "lines 2"],
        "title": ["B", "", "", "", ""],
        "first": [0, 5, 8, 11, 11],
        "sentences": [5, 3, 3, 0, 1],
        "tokens": [23, 11, 6, 0, 1],
    }
    assert of([RUNNING], lower=False).words != of([RUNNING]).words
    assert of([RUNNING], lower=False).lower is False


@pytest.mark.parametrize("tokenised", [None, True, False])
def test_marks_of_sentences_are_boundaries(tmp_path, tokenised):
    """In lines, in several sentences of a line, and around a sentence of two lines."""
    plain = ["the cat ran", "the dog sat", "it fell .", "then it rose"]
    lines = ["<s> the cat ran </s>", "<s> the dog sat </s> <s> it fell . </s>", "then it rose </s>"]
    assert of(lines, tokenised=tokenised).sha256 == of(plain, tokenised=tokenised).sha256
    file = tmp_path / "marked.txt"
    file.write_text("<s> the cat ran </s>\n<s> the dog\nsat </s> <s> it fell . then it rose </s>\n")
    corpus = of(file, tokenised=tokenised)
    assert [" ".join(words) for words in sentences(corpus)] == plain
    assert not RESERVED & set(corpus.words)


def test_words_that_a_text_has_lost_are_counted(tmp_path):
    file = tmp_path / "cut.txt"
    file.write_text("aer <unk> is <unk> \n mr. vinken is n.v. chairman \n")
    with pytest.warns(UserWarning, match="2 of the 9 words of the text are <unk>"):
        corpus = of(file)
    assert corpus.counts[corpus.words.index("<unk>")] == 2
    with pytest.warns(UserWarning, match="1 of the 2 words"):
        of(["aer <UNK>"], lower=False)


def test_what_a_text_says_of_its_tokens_can_be_overruled():
    assert sentences(of(["Who's there? Me."]))[0] == ["who's", "there?", "me."]
    assert sentences(of(["Who's there? Me."], tokenised=False)) == [["who", "'s", "there", "?", "me", "."]]
    assert sentences(of([RUNNING], tokenised=True))[0][:2] == ["mr.", "hale"]
    assert "\"who's" in of(RUNNING, tokenised=True).words


PLAIN = """The _so-called_ Mr. Hale (_who_?) said: "_Go_ *home*, =now=, ~or~ **never** __again__!_"

A bluff*, and snake_case, a = b ~ c. L____ wrote ____, _and this

goes on._

* * *

*On a footnote."""


def test_marks_of_emphasis_are_no_tokens():
    plain = PLAIN
    for word in ("so-called", "who", "Go"):
        plain = plain.replace(f"_{word}_", word)
    for word in ("*home*", "=now=", "~or~", "**never**", "__again__"):
        plain = plain.replace(word, word.strip("*=~_"))
    plain = plain.replace('!_"', '!"').replace("_and", "and").replace("on._", "on.")
    assert wt.without_emphasis(PLAIN) == plain
    assert wt.without_emphasis(plain) == plain
    assert sentences(of([Text(PLAIN, tokenised=False)])) == sentences(of([Text(plain, tokenised=False)]))
    assert sentences(of(["_Mr._ Hale"], tokenised=False)) == [["mr.", "hale"]]
    assert sentences(of(["_a_ *b* _"])) == [["_a_", "*b*", "_"]]
    same = [chapters_of(Text(novel, "a", "A", tokenised=False)) for novel in (PLAIN, plain)]
    assert same[0] == same[1] != []


STORED = {3: "330cea23cd1ece15815c6b0436cd2cd89eff80c5d3ac2d0ad74689e9961ad426"}
"""By version of the tokeniser, the digest of a corpus."""


def test_results_are_those_stored_with_the_version():
    lines = ["Who's there? Me.", "'' -- cannot 9:30 a.m. wait--no"]
    novel = next(books(SAMPLE))
    corpora = of([RUNNING, TOKENS, novel]), of(novel, tokenised=True), of(lines, tokenised=False)
    now = digest(*(corpus.sha256 for corpus in corpora))
    assert STORED.get(tokenise.TOKENISER_VERSION) == now, (
        "raise TOKENISER_VERSION, and store the digest with it"
    )


MARKS = """He said Mr. etc. . ? !? '' " `` ) -RRB- ... '""".split()  # noqa: SIM905 - shorter
MARKS += [". . .", "\n", "\n\n", "a\n\nb"]
PROSE = st.lists(st.sampled_from(MARKS) | st.text("ab.?!'\"”)\n ", max_size=5)).map(" ".join)


def cut(text, *, tokenised):
    """Return the tokens of each sentence of a text, and the roles of sentences."""
    layout = tokenise.TextLayout(lines=False, tokenised=tokenised)
    words, ids, lengths, roles = tokenise._cut(text, layout)
    edges = np.cumsum([0, *lengths.tolist()]).tolist()
    return [[words[i] for i in ids[start:end]] for start, end in pairwise(edges)], roles.tolist()


@given(PROSE, st.booleans())
@example(text=".? a", tokenised=True)  # no token of one period, nor of question marks alone
def test_sentences_in_tokens_are_those_of_the_text(text, tokenised):
    (rows, roles), spans = cut(text, tokenised=tokenised), wt.sentences(text, tokenised=tokenised)
    assert all(rows)
    if tokenise.RULE in roles:  # a line of marks, which no sentence crosses
        assert not tokenised
        return
    assert len(rows) == len(spans)
    if tokenised:
        assert rows == [text[start:end].split() for start, end in spans]
        return
    assert [token for tokens in rows for token in tokens] == wt.tokenize(text)
    if "\n" not in text:  # no paragraphs: the rule for tokens, which a search in their text applies
        joined = " ".join(wt.tokenize(text))
        assert rows == [joined[start:end].split() for start, end in wt.sentences(joined)]
    starts = [start for _, start, _ in wt.scan(text)]
    firsts = np.cumsum([0, *map(len, rows)])[:-1]
    assert [starts[first] for first in firsts] == [start for start, _ in spans]


@given(PROSE, st.integers(2, 30))
def test_a_long_text_of_tokens_is_cut_between_its_sentences(text, size):
    tokens = tokenise.TextLayout(lines=False, tokenised=True)
    pieces = list(tokenise.cut_into_pieces(text, tokens, size=size))
    assert "".join(pieces) == text
    expected, _ = cut(text, tokenised=True)
    if max((end - start for start, end in wt.sentences(text)), default=0) < size // 2:
        assert [row for piece in pieces for row in cut(piece, tokenised=True)[0]] == expected
    for layout in (tokens._replace(tokenised=False), tokens._replace(line_ends=True)):
        assert "".join(tokenise.cut_into_pieces(text, layout, size=size)) == text


def test_pieces_and_processes_change_nothing(monkeypatch):
    texts = [next(books(SAMPLE)), *(f"line {n} of many" for n in range(3000))]
    expected = of(texts)
    assert expected.n_tokens > 10_000
    monkeypatch.setattr(tokenise, "PIECE", 20_000)
    monkeypatch.setattr(tokenise.cut_into_pieces, "__kwdefaults__", {"size": 20_000})
    monkeypatch.setattr(tokenise, "_FEW", 0)
    with parallel_config(n_jobs=2):
        corpus = of(texts)
    assert corpus.path != expected.path
    assert corpus.sha256 == expected.sha256
    assert corpus.books.equals(expected.books)
    assert entries() == sorted([expected.path.name, corpus.path.name])


def test_a_second_run_cuts_nothing(monkeypatch):
    first = of([RUNNING, TOKENS, "a line"])
    monkeypatch.setattr(tokenise, "tokenise", None)
    second = of(iter([RUNNING, TOKENS, "a line"]), name="again")
    assert (second.path, second.sha256) == (first.path, first.sha256)
    assert of(first) is first


def test_what_was_tokenised_with_capitals_is_not_tokenised_again(monkeypatch):
    texts = [RUNNING, TOKENS, "A Line of The Text"]
    expected = of(texts)
    expected.path.unlink()
    of(texts, lower=False)
    monkeypatch.setattr(tokenise, "tokenise", None)
    corpus = of(texts)
    assert (corpus.path, corpus.sha256) == (expected.path, expected.sha256)
    assert corpus.books.equals(expected.books)


def test_without_some_books():
    texts = [Text("a b .", "x"), "l1 a", Text("c a .", "y"), Text("b e .", "w"), Text("d .", "z")]
    corpus = of(texts)
    result = corpus.without(["x", "w"])
    assert sentences(result) == [["l1", "a"], ["c", "a", "."], ["d", "."]]
    assert result.sha256 == of([texts[1], texts[2], texts[4]]).sha256
    assert result.words == [".", "a", "c", "d", "l1"]
    assert result.books["first"].tolist() == [0, 1, 2]
    assert corpus.without([]) is corpus
    assert corpus.without("x").without("w").sha256 == result.sha256
    assert corpus.roles.tolist() == [0] * 5
    for names in (
        ["x", "v"],
        set(corpus.books["book_id"]),
    ):
        refused(corpus.without, names)


def interrupted_reading():
    yield "a line"
    raise DataError("the archive is damaged")


@pytest.mark.parametrize(
    "texts",
    [
        b"bytes",
        [None],
        [],
        ["", Text("\n")],
        "a heron saw",
        [Path("nowhere.txt")],
        interrupted_reading(),
    ],
)
def test_texts_that_cannot_be_read_leave_nothing(texts):
    refused(of, texts)
    assert entries() == []


def test_it_travels_between_processes_as_a_path():
    corpus = of([TOKENS], name="tokens")
    sent = pickle.dumps(corpus)
    assert len(sent) < 1000
    back = pickle.loads(sent)  # noqa: S301 - just written
    assert (back.sha256, back.name) == (corpus.sha256, "tokens")
    assert repr(back) == "Corpus('tokens', 11 tokens, 11 types, 3 sentences, 1 books)"


def test_paths_are_read_as_books(tmp_path):
    path, archive = tmp_path / "novels", tmp_path / "novels.tar.gz"
    path.mkdir()
    for name in ("one", "two"):
        (path / f"{name}.txt").write_text(f"It was {name}. 'Two?' he said.\n\nIt was not.")
    corpus = of(path)
    assert corpus.path == of(books(path)).path
    with tarfile.open(archive, "w:gz") as file:
        file.add(path, "novels")
    mixed = of(["a line", archive, TOKENS, path], lower=False)
    assert mixed.books["book_id"].tolist()[0] == "lines"
    assert mixed.n_tokens == 2 * corpus.n_tokens + 2 + 11
    assert of(RUNNING).sha256 == of([RUNNING]).sha256
    assert of(str(archive)).words == of(str(path)).words == corpus.words
    assert of("sample").books["book_id"].tolist() == [book.book_id for book in books("sample")]
