import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.analysis.tagger.network import UNKNOWN, Lexicon, fold

words = st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1, max_size=12)


@st.composite
def lexicons(draw):
    forms = draw(st.lists(words, unique=True, max_size=8))
    held, width = draw(st.integers(0, len(forms))), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    vectors = rng.integers(-127, 128, (held + 1, width)).astype(np.int8)
    names, counts = (rng.integers(0, 12, len(forms) + 1).astype(np.uint8) for _ in range(2))
    return Lexicon(tuple(forms), vectors, names, counts, rng.random(len(forms) + 1) < 0.5)


@pytest.mark.parametrize(
    ("form", "folded"),
    [
        ("Clarity", "clarity"),
        ("O’Brien", "o'brien"),  # noqa: RUF001 - typographic
        ("``", '"'),
        ("''", '"'),
        ("”", '"'),
        ("`", "'"),
        ("‘", "'"),  # noqa: RUF001
        ("-LRB-", "("),
        ("-rsb-", "]"),
        ("...", "..."),
        ("ÉMILE", "émile"),
        ("``x", "``x"),
    ],
)
def test_a_form_is_folded(form, folded):
    assert fold(form) == folded


@given(words)
def test_folding_knows_no_case(word):
    assert fold(word.lower()) == fold(word)


@given(lexicons())
def test_a_lexicon_is_read_as_it_was_written(lexicon):
    read = Lexicon.from_bytes(lexicon.to_bytes())
    assert read.words == lexicon.words
    for name in ("vectors", "names", "counts", "own"):
        found, wanted = getattr(read, name), getattr(lexicon, name)
        assert found.dtype == wanted.dtype
        assert np.array_equal(found, wanted)
    assert [read.row(word) for word in lexicon.words] == list(range(1, len(lexicon.words) + 1))


def test_a_form_that_is_not_there_has_the_row_of_unknown_ones():
    one = np.array([0, 3], dtype=np.uint8)
    lexicon = Lexicon(("heron",), np.zeros((2, 4), dtype=np.int8), one, one, one > 0)
    assert lexicon.row("heron") == 1
    assert lexicon.row("Heron") == lexicon.row("crane") == UNKNOWN


def test_an_empty_lexicon_holds_the_row_of_unknown_forms_only():
    lexicon = Lexicon.empty(7)
    assert lexicon.words == ()
    assert lexicon.vectors.shape == (1, 7)
    assert lexicon.row("heron") == UNKNOWN
    for values in (lexicon.vectors, lexicon.names, lexicon.counts, lexicon.own):
        assert not values.any()
    assert Lexicon.from_bytes(lexicon.to_bytes()).words == ()


def test_a_file_of_something_else_is_refused():
    with pytest.raises((ValueError, OSError)):
        Lexicon.from_bytes(b"this is no archive")
