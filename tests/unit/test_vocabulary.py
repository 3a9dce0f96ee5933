"""The vocabulary of the LAMBADA release."""

import builders
import pytest

import workbench as wb
from workbench.datasets import lambada
from workbench.items.items import DataError

LINES = "<s>\t5\nheron\t3\n"


def test_the_vocabulary_is_read(no_data, tmp_path):
    builders.write(no_data / "raw", {"lambada-vocab-2.txt": LINES})
    builders.write(
        tmp_path / "packed", {"lambada-dataset.tar.gz": builders.tar({"lambada-vocab-2.txt": LINES})}
    )
    expected = {"<s>": 5, "heron": 3}
    assert lambada.vocabulary() == lambada.vocabulary_at_hand() == expected
    assert lambada.vocabulary(no_data / "raw" / "lambada-vocab-2.txt") == expected
    assert lambada.vocabulary(tmp_path / "packed") == expected


def test_a_vocabulary_that_is_not_there_is_told_where_it_is_needed(no_data, tmp_path):
    builders.write(no_data / "raw", {"other.txt": LINES})
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"wb\.fetch"):
        lambada.vocabulary(tmp_path / "empty")
    with pytest.raises(DataError, match=r"wb\.fetch"):
        lambada.vocabulary()
    assert lambada.vocabulary_at_hand() is None


@pytest.mark.parametrize("line", ["heron 3", "heron\t", "\t3", "heron\t-3", "heron\t3\t4", "", "heron\t3.0"])
def test_lines_that_are_none_of_a_vocabulary_are_told(tmp_path, line):
    file = tmp_path / "v.txt"
    file.write_text(f"<s>\t5\n{line}\nreed\t1\n")
    with pytest.raises(DataError, match="no line of a vocabulary") as raised:
        lambada.vocabulary(file)
    assert raised.value.line == 2


@pytest.mark.data
def test_the_vocabulary_of_the_release(real_data):
    words = lambada.vocabulary(next(real_data.rglob("lambada-vocab-2.txt")))
    assert len(words) == 112_746  # lines of the release
    assert list(words)[:2] == ["<s>", "</s>"]
    common = dict(sorted(words.items(), key=lambda pair: -pair[1])[:60_000])
    answers = [item.answer for item in wb.load("lambada", "dev")]
    assert sum(answer in common for answer in answers) / len(answers) == pytest.approx(0.939, abs=0.0005)
