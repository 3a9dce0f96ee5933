import io
import json
import random
import tarfile
from itertools import pairwise

import conllu
import corpora
import lexicon_table
import novels
import numpy as np
import pytest
import silver
import spacy
import treebanks
from conllu import sentence
from hypothesis import given
from hypothesis import strategies as st
from spacy.language import Language

from workbench.analysis.tagger.network import Lexicon, fold_token

forms = st.text(st.characters(categories=["L"], max_codepoint=0x24F), min_size=1, max_size=5)
tokens = st.one_of(forms, st.sampled_from(["-", '"', "“", "”", "``", "''", ",", ".", "(", ")", "7"]))


@st.composite
def documents(draw):
    sentences = []
    for name in draw(st.lists(st.sampled_from(["one", "two", "three"]), max_size=4, unique=True)):
        for words in draw(st.lists(st.lists(tokens, min_size=1, max_size=6), min_size=1, max_size=12)):
            spaces = draw(st.lists(st.booleans(), min_size=len(words), max_size=len(words)))
            sentences.append(sentence(words, [f"T{n}" for n in range(len(words))], None, spaces, name))
    return sentences


@pytest.fixture
def data(no_data, monkeypatch):
    monkeypatch.setenv("WORKBENCH_DATA", str(no_data))
    return no_data


def dice(seed):
    return random.Random(seed)  # noqa: S311 - no secret


def test_hyphenated_words_are_joined():
    words = ["a", "state", "-", "of", "-", "the", "-", "art", "well", "-", "known", "hat", "-"]
    tags = "DET ADJ PUNCT ADP PUNCT DET PUNCT NOUN ADV PUNCT ADJ NOUN PUNCT".split()  # noqa: SIM905
    spaces = [True, False, False, False, False, False, False, True, True, True, True, False, False]
    found = corpora.joined(sentence(words, tags, None, spaces))
    assert found.words == ["a", "state-of-the-art", "well", "-", "known", "hat", "-"]
    assert found.upos == ["DET", "NOUN", "ADV", "PUNCT", "ADJ", "NOUN", "PUNCT"]


@pytest.mark.parametrize("text", ["1990-95", "!-known", "well—known", "well -known", "well- known"])
def test_other_hyphens_and_dashes_with_a_space_beside_them_join_nothing(text):
    words = text.replace("-", " - ").replace("—", " — ").split()
    spaces = [f"{word} " in text for word in words]
    assert corpora.joined(sentence(words, ["X"] * 3, None, spaces)).words == words


@given(documents())
def test_joining_keeps_every_letter_and_the_tag_of_the_last_part(found):
    for one in found:
        result = corpora.joined(one)
        assert "".join(result.words) == "".join(one.words)
        ends = np.cumsum([len(word) for word in one.words]).tolist()
        tag_at = dict(zip(ends, one.upos, strict=True))
        assert result.upos == [tag_at[end] for end in np.cumsum([len(w) for w in result.words]).tolist()]


@given(documents(), st.integers(0, 99))
def test_passages_hold_all_sentences_in_order_each_of_one_document(found, seed):
    passages = list(corpora.grouped(found, dice(seed)))
    ends = set(np.cumsum([sum(map(len, words)) for words, _ in passages]).tolist())
    place = 0
    for one, after in pairwise(found):
        place += sum(map(len, one.words))
        assert after.doc == one.doc or place in ends
    assert "".join(w for p in passages for w in p.words) == "".join(w for s in found for w in s.words)
    assert all(len(words) == len(tags) for words, tags in passages)


@given(st.lists(tokens, min_size=1, max_size=20), st.integers(0, 999), st.sampled_from([0.0, 0.5, 1.0]))
def test_variation_keeps_words_and_tags_side_by_side(words, seed, share):
    passage = corpora.Passage(words, [f"T{n}" for n in range(len(words))])
    varied = corpora.vary(passage, corpora.Variation(share, share), dice(seed))
    assert varied.upos == passage.upos[: len(varied.words)]
    assert len(varied.words) == len(varied.upos) > len(words) // 2
    for old, new in zip(words, varied.words, strict=False):
        assert fold_token(old.upper().lower()) == fold_token(new.upper().lower())


def test_variation_lowers_and_cuts_short_after_a_word_only_where_it_is_told_to():
    passage = corpora.Passage(["“", "Go", "”"], ["PUNCT", "VERB", "PUNCT"])
    assert corpora.vary(passage, corpora.Variation(0, 0), dice(1)) == passage
    assert corpora.vary(passage, corpora.Variation(1, 0), dice(1)).words == ["“", "go", "”"]
    words = ["He", "left", ".", "!", ".", "She", "stayed", "."]
    for seed in range(30):
        found = corpora.vary(corpora.Passage(words, ["X"] * 8), corpora.Variation(0, 1), dice(seed)).words
        assert len(found) == len(words) or found[-1][0].isalpha()


def test_somebody_gets_another_name():
    tags = ["PROPN", "VERB", "PROPN", "PROPN", "NOUN"]
    passage = corpora.Passage(["Ann", "saw", "Bob", "Ann", "ann"], tags)
    found = {tuple(corpora.renamed(passage, ["cat"], dice(seed)).words) for seed in range(20)}
    assert found == {("Cat", "saw", "Bob", "Cat", "ann"), ("Ann", "saw", "Cat", "Ann", "ann")}
    assert corpora.renamed(passage, ["cat"], dice(0)).upos == tags
    for words, other in ((["It", "rained"], ["PRON", "VERB"]), (["The", "Thames"], ["DET", "PROPN"])):
        nobody = corpora.Passage(words, other)
        assert corpora.renamed(nobody, ["cat"], dice(0)) == nobody


def test_the_training_corpus_holds_gold_and_a_share_of_silver(data):
    gold = (["The", "heron"], ["DET", "NOUN"]), (["Go", "!"], ["VERB", "PUNCT"])
    conllu.write(data / treebanks._GOLD["ewt-train"], *gold)
    drawn = data / "silver.jsonl"
    passages = [[[f"Word{letter}", "ran"], ["PROPN", ""]] for letter in "abcdefghij"]
    drawn.write_text("".join(json.dumps(p) + "\n" for p in passages))
    nlp = spacy.blank("en")
    corpus = corpora.narrative_corpus(["ewt-train"], drawn, 0.4, seed=1)
    epochs = [list(corpus(nlp)) for _ in range(3)]
    assert [len(epoch) for epoch in epochs] == [6, 6, 6]
    for epoch in epochs:
        tags = {tuple(t.pos_ for t in example.reference) for example in epoch}
        assert tags <= {("DET", "NOUN"), ("DET",), ("VERB", "PUNCT"), ("VERB",), ("PROPN", ""), ("PROPN",)}
        assert sum(example.reference[0].pos_ == "PROPN" for example in epoch) == 4
        assert all(example.predicted.text == example.reference.text for example in epoch)
    assert len({tuple(e.reference.text for e in epoch) for epoch in epochs}) == 3
    again = corpora.narrative_corpus(["ewt-train"], drawn, 0.4, seed=1)
    assert [e.reference.text for e in again(nlp)] == [e.reference.text for e in epochs[0]]
    assert len(list(corpora.narrative_corpus(["ewt-train"], None, 0.4, seed=1)(nlp))) == 2


def test_the_development_corpus_holds_each_sentence_twice(data):
    conllu.write(data / treebanks._GOLD["ewt-dev"], (["The", "heron"], ["DET", "NOUN"]))
    found = list(corpora.narrative_development("ewt-dev")(spacy.blank("en")))
    assert [[t.text for t in e.reference] for e in found] == [["The", "heron"], ["the", "heron"]]
    assert [[t.pos_ for t in e.reference] for e in found] == [["DET", "NOUN"]] * 2


def lexicon(**names):
    marks = np.array([0, *names.values()], dtype=np.uint8)
    return Lexicon(tuple(names), np.zeros((1, 2), np.int8), marks, marks, marks > 0)


BELIEVED = lexicon(french=11, stone=2, sir=7, hard=1)


@pytest.mark.parametrize(
    ("word", "tag", "entity", "wanted"),
    [
        ("Clarity", "NOUN", None, "PROPN"),  # the lexicon does not know it
        ("Stone", "NOUN", None, "PROPN"), ("Hard", "ADV", None, "PROPN"),  # print is believed
        ("French", "ADJ", None, "ADJ"), ("French", "NOUN", None, "PROPN"),  # always capitalised, and no name
        ("Hard", "PRON", None, "PRON"),  # not doubted
        ("clarity", "PROPN", None, ""), ("clarity", "NOUN", None, "NOUN"),  # tagger and print disagree
        ("X", "NOUN", None, "NOUN"), ("O'Brien", "NOUN", None, "NOUN"),  # a letter; not of letters only
        # entities decide where they are annotated
        ("Stone", "NOUN", True, "PROPN"), ("French", "ADJ", True, "PROPN"), ("French", "ADJ", False, "ADJ"),
        ("Stone", "NOUN", False, ""),  # capital, yet no entity, and rarely a name
        ("Sir", "NOUN", False, "PROPN"), ("Clarity", "NOUN", False, "PROPN"),  # mostly capitalised; not known
    ],
)  # fmt: skip
def test_capitals_within_a_sentence_are_believed(word, tag, entity, wanted):
    words, tags = ["they", "all", "met", word, "there", "again"], ["PRON", "PRON", "VERB", tag, "ADV", "ADV"]
    marks = None if entity is None else [False, False, False, entity, False, False]
    assert silver.believed(words, tags, BELIEVED, marks) == [*tags[:3], wanted, *tags[4:]]


@pytest.mark.parametrize(
    ("before", "word", "tag", "wanted"),
    [
        (".", "Clarity", "NOUN", "NOUN"), ("``", "Clarity", "NOUN", "NOUN"),  # a start tells nothing
        (",", "Clarity", "NOUN", "PROPN"), ("2", "Clarity", "NOUN", "PROPN"),
        # old books write the king with a capital
        ("the", "Stone", "NOUN", ""), ("the", "Stone", "PROPN", ""), ("our", "Stone", "NOUN", "PROPN"),
    ],
)  # fmt: skip
def test_the_word_before_a_capital_decides(before, word, tag, wanted):
    words, tags = ["they", "all", before, word, "came", "too"], ["PRON", "PRON", "X", tag, "VERB", "ADV"]
    assert silver.believed(words, tags, BELIEVED)[3] == wanted


def test_headings_tell_nothing():
    assert silver.believed([], [], BELIEVED) == []
    words, tags = ["With", "Stone", "Of", "gold"], ["ADP", "NOUN", "ADP", "NOUN"]
    assert silver.believed(words, tags, BELIEVED) == tags
    longer = [*words, "so", "they", "say"], [*tags, "ADV", "PRON", "VERB"]
    assert silver.believed(*longer, BELIEVED)[1] == "PROPN"


@Language.component("tagger_data_nouns")
def nouns(doc):
    for token in doc:
        token.pos_ = "NOUN"
    return doc


def test_silver_passages_are_written_and_read(data, monkeypatch, tmp_path):
    entities = data / "litbank" / "entities_tsv"
    entities.mkdir(parents=True)
    rows = ["they\tO", "met\tO", "Stone\tB-PER", "and\tO", "Stone\tO", ".\tO", ""]
    (entities / "one_brat.tsv").write_text("\n".join(rows) + "\n")
    books = tmp_path / "novels.txt"
    line = "then they all met Clarity there .\n"
    books.write_text(f"{novels.BOOK} a\n{line * 30}{novels.BOOK} b\n{line * 90}")
    monkeypatch.setattr(silver, "_PASSAGES", 8)
    nlp = spacy.blank("en")
    nlp.add_pipe("tagger_data_nouns")
    silver.make(nlp, BELIEVED, books, tmp_path / "silver.jsonl")
    found = list(corpora.read(tmp_path / "silver.jsonl"))
    assert len(found) == 9
    for words, tags in found[:-1]:
        assert words[:7] == line.split()
        assert silver._TOKENS <= len(words) < silver._TOKENS + 7
        assert tags == ["PROPN" if word == "Clarity" else "NOUN" for word in words]
    tags = ["NOUN", "NOUN", "PROPN", "NOUN", "", "NOUN"]
    assert found[-1] == (["they", "met", "Stone", "and", "Stone", "."], tags)


def archive(path, **texts):
    with tarfile.open(path, "w:xz") as file:
        for name, text in texts.items():
            info = tarfile.TarInfo(f"novels/fiction/{name}.md")
            info.size = len(text.encode())
            file.addfile(info, io.BytesIO(text.encode()))


def test_novels_are_collected_and_read(data, tmp_path):
    header = "# Title: {}\n## Author: Nobody\n## Year: 1900\n\n-------\n\n"
    archive(
        data / "novels.tar.xz",
        First=header.format("First") + "They met Clarity. “Go!” she said.\n",
        Second=header.format("Second") + "It rained.\n",
    )
    holmes = data / "holmes_training_data"
    holmes.mkdir()
    for name, title in (("A.TXT", "The Golden Road"), ("B.TXT", "Emma")):
        start = f"Project Gutenberg's {title}, by Nobody\n\nTitle: {title}\n\n"
        (holmes / name).write_text(f"{start}*** START OF THIS PROJECT GUTENBERG EBOOK ***\n\nThe road.\n")
    novels.collect(tmp_path / "novels.txt")
    found = list(novels.read(tmp_path / "novels.txt"))
    assert found == [
        [["They", "met", "Clarity", "."], ["``", "Go", "!", "''"], ["she", "said", "."]],
        [["It", "rained", "."]],
        [["The", "road", "."]],
    ]
    # one of the Children's Book Test is left out
    assert (tmp_path / "novels.txt").read_text().count(novels.BOOK) == 3


CORPUS = [
    [["The", "heron", "saw", "Clarity", "."], ["“", "Clarity", ",", "Gage", "!", "”"]],
    [["clarity", "saw", "the", "Heron", "again", "."]],
]


def written(path, books):
    lines = [line for n, book in enumerate(books) for line in (f"{novels.BOOK} {n}", *map(" ".join, book))]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_table_of_a_small_corpus(tmp_path, monkeypatch):
    for name, value in {"_OWN_RANK": 2, "_CONTEXTS": 10, "_VECTORS": 5, "_BOOKS": 2, "_SEEN": 2}.items():
        monkeypatch.setattr(lexicon_table, name, value)
    gold = [sentence(["Herons", "herons", "gage", "Gage", "rare"], ["X"] * 5)]
    books = [[*CORPUS[0], ["near", "Gage", ",", "Gage", "."]], CORPUS[1]]
    lexicon_table.make(written(tmp_path / "novels.txt", books), tmp_path / "lexicon.npz", gold)
    table = Lexicon.from_bytes((tmp_path / "lexicon.npz").read_bytes())
    assert table.words[0] == "clarity"
    assert sorted(table.words[1:5]) == [".", "heron", "saw", "the"]  # those of two books
    assert table.words[5:] == ("gage", "herons")  # taught twice
    # heron: one of two; clarity: once within a sentence, too little; gage: often enough, but of one book
    names = {"heron": 6, "saw": 1, "clarity": 0, "gage": 0}
    assert {word: int(table.names[table.row(word)]) for word in names} == names
    assert [int(table.counts[table.row(word)]) for word in ("clarity", "heron", "gage")] == [2, 2, 0]
    owners = {word for word in table.words if table.embedded[table.row(word)]}
    assert owners == {"clarity", table.words[1], "gage", "herons"}
    assert len(table.vectors) == 6
    assert not table.vectors[0].any()


def test_vectors_are_of_unit_length_and_alike_where_words_stand_alike(tmp_path):
    rng = dice(0)
    names, verbs, rest = ["ann", "bob", "cid"], ["ran", "sat", "hid"], ["the", "a", "his"]
    book = [[rng.choice(names), rng.choice(verbs), "near", rng.choice(rest), "pond", "."] for _ in range(900)]
    words = [*names, *verbs, *rest, "near", "pond", "."]
    found = lexicon_table.vectors(written(tmp_path / "novels.txt", [book]), words, width=6).astype(float)
    lengths = np.linalg.norm(found, axis=1)
    np.testing.assert_allclose(lengths, np.sqrt(6) * 32, rtol=0.02)
    alike = (found @ found.T) / np.outer(lengths, lengths)
    for group in (range(3), range(3, 6), range(6, 9)):
        inside = min(alike[i, j] for i in group for j in group)
        outside = max(alike[i, j] for i in group for j in range(9) if j not in group)
        assert inside > 0.9 > outside + 0.2


def neighbours_slowly(books, words):
    """Count pairs of a word and the one at each offset; beyond the edge of a sentence is only the edge."""
    columns = {word: number for number, word in enumerate([*words, "edge"], start=1)}
    tables = []
    for offset in lexicon_table._OFFSETS:
        pairs = np.zeros((len(words), len(words) + 2))
        for line in (line for book in books for line in book):
            padded = ["edge"] * 2 + [fold_token(word) for word in line] + ["edge"] * 2
            for place, word in enumerate(padded):
                if word in words:
                    pairs[words.index(word), columns.get(padded[place + offset], 0)] += 1
        tables.append(pairs)
    return tables


def information_slowly(pairs):
    result = np.zeros_like(pairs)
    smooth = pairs.sum(axis=0) ** 0.75
    for row in range(len(pairs)):
        for column, n in enumerate(pairs[row]):
            if n:
                ratio = (n / pairs[row].sum()) / (smooth[column] / smooth.sum())
                result[row, column] = max(0.0, np.log(ratio)) * n / (n + 1)
    return result


@given(st.integers(0, 9999))
def test_information_is_that_of_a_loop(seed):
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, 6, (4, 7)) * rng.integers(0, 2, (4, 7))
    found = lexicon_table._information(pairs.astype(np.float32))
    np.testing.assert_allclose(found, information_slowly(pairs.astype(float)), atol=1e-5)


def test_vectors_are_made_of_the_neighbours_counts(tmp_path, monkeypatch):
    words = ["the", "heron", "clarity", "saw", "."]
    monkeypatch.setattr(lexicon_table, "_CONTEXTS", len(words))
    seen = []

    def information(pairs):
        seen.append(pairs.copy())
        return information_slowly(pairs)

    monkeypatch.setattr(lexicon_table, "_information", information)
    lexicon_table.vectors(written(tmp_path / "novels.txt", CORPUS), words, width=3)
    for found, wanted in zip(seen, neighbours_slowly(CORPUS, words), strict=True):
        assert np.array_equal(found, wanted)


def test_the_decomposition_keeps_the_leading_part():
    rng = np.random.default_rng(2)
    table = (rng.standard_normal((40, 5)) @ rng.standard_normal((5, 60))).astype(np.float32)
    found = lexicon_table._reduce(table, 5, seed=0)
    left, values, _ = np.linalg.svd(table.astype(float), full_matrices=False)
    wanted = left[:, :5] * np.sqrt(values[:5])
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    np.testing.assert_allclose(found @ found.T, wanted @ wanted.T, atol=1e-3)
