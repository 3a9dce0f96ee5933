import pytest
import treebanks
from conllu import row
from hypothesis import given
from hypothesis import strategies as st
from refused import refused


def write(folder, *lines):
    path = folder / "x.conllu"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_words_tags_lemmas_spaces_and_documents(tmp_path):
    lines = [
        "# newdoc id = one", "# text = I don't (go).", row(1, "I", "I", "PRON"),
        row("2-3", "don't", "_", "_"), row(2, "do", "do", "AUX"), row(3, "n't", "not", "PART"),
        row("3.1", "gone", "go", "VERB"), row(4, "(", "(", "PUNCT", "Entity=x|SpaceAfter=No"),
        row("5-6", "goin", "_", "_", "SpaceAfter=No"), row(5, "go", "go", "VERB"), row(6, "in", "in", "ADP"),
        row(7, ")", ")", "PUNCT"), "", "", "# newdoc id = two", row(1, "Stop", "stop", "VERB"), "",
    ]  # fmt: skip
    path = write(tmp_path, *lines)
    first, second = treebanks.sentences(path)
    assert first.words == ("I", "do", "n't", "(", "go", "in", ")")
    assert first.upos == ("PRON", "AUX", "PART", "PUNCT", "VERB", "ADP", "PUNCT")
    assert first.lemmas == ("I", "do", "not", "(", "go", "in", ")")
    assert first.space_after == (True, False, True, False, False, False, True)
    assert (first.doc, second.doc) == ("one", "two")
    assert second.words == ("Stop",)


WRONG = [
    ([row(1, "a"), "2\tb"], 2), ([row(1, "a"), row(3, "b")], 2),
    ([row("x", "a")], 1), ([row(1, "a", pos="NN"), ""], 1), ([row(1, ""), ""], 1),
    ([row(1, "a", lemma="")], 1), (["# x", row(1, "a")], 2),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "line"), WRONG)
def test_what_is_wrong_is_told_with_file_and_line(tmp_path, lines, line):
    path = write(tmp_path, *lines)
    caught = refused(list, treebanks.sentences(path))
    assert (caught.file, caught.line) == (str(path), line)


SENTENCES = st.lists(
    st.lists(st.tuples(st.text("abé.'", min_size=1, max_size=4), st.booleans()), min_size=1, max_size=5),
    max_size=4,
)


@given(SENTENCES)
def test_what_is_written_is_read_again(tmp_path_factory, wanted):
    lines = []
    for words in wanted:
        for number, (word, space) in enumerate(words, start=1):
            lines.append(row(number, word, word.upper(), misc="_" if space else "SpaceAfter=No"))
        lines.append("")
    found = list(treebanks.sentences(write(tmp_path_factory.mktemp("ud"), *lines)))
    assert [list(zip(s.words, s.space_after, strict=True)) for s in found] == wanted
    assert all(s.lemmas == tuple(map(str.upper, s.words)) for s in found)


@pytest.mark.data
@pytest.mark.parametrize(("name", "n"), [("ewt-dev", 2001), ("gum-dev", 1575)])
def test_the_real_treebanks_are_read(real_data, name, n):  # noqa: ARG001 - skips
    path = treebanks.find(name)
    found = list(treebanks.sentences(path))
    assert len(found) == n
    lines = path.read_text(encoding="utf-8").split("\n")
    texts = [line.removeprefix("# text = ") for line in lines if line.startswith("# text = ")]
    joined = [
        "".join(word + " " * space for word, space in zip(f.words, f.space_after, strict=True)).rstrip()
        for f in found
    ]
    same = sum(mine == text for mine, text in zip(joined, texts, strict=True))
    assert same >= 0.99 * n  # some multi-word tokens are written otherwise than their parts
