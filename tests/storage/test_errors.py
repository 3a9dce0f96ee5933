import errno
import pickle
from pathlib import Path

import pytest
from refused import refused

from workbench.storage.errors import DataError, reading, writing


def test_a_message_says_where_what_was_expected_and_what_to_do():
    error = DataError("expected 10 candidates, got 9", file="valid.txt", line=21, hint="leave it out")
    assert str(error) == "valid.txt, line 21: expected 10 candidates, got 9 -- leave it out"
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert (str(copy), vars(copy)) == (str(error), vars(error))


def test_an_error_of_the_disk_says_what_to_do(tmp_path):
    problem = r"cannot be written .No space left.* -- free some space"
    with pytest.raises(DataError, match=problem), writing(tmp_path), Path("/dev/full").open("wb") as full:
        full.write(b"x")
    with pytest.raises(DataError, match=r"too long.* -- choose a shorter name"), writing(tmp_path):
        (tmp_path / ("x" * 300)).touch()


def test_a_panic_is_an_error_of_the_file_and_an_interruption_is_none():
    panic = type("PanicException", (BaseException,), {})  # of libraries in Rust, which have no common module
    with (
        pytest.raises(DataError, match=r"x: this file cannot be read .PanicException: out of range"),
        reading("x"),
    ):
        raise panic("out of range")
    for interruption in (KeyboardInterrupt, SystemExit, GeneratorExit):
        with pytest.raises(interruption), reading("x"):
            raise interruption


@pytest.mark.parametrize("error", [
    OSError(errno.ENOSPC, "No space left on device"), Exception("No space left on device (os error 28)"),
])  # fmt: skip
def test_a_disk_that_is_full_while_a_file_is_read_is_not_the_fault_of_the_file(error):
    def read():
        wrapper = ValueError("it cannot be loaded")
        wrapper.__context__ = error
        with reading("model.gguf", "this model", hint="download it again"):
            raise wrapper

    assert "this model needs a file that cannot be written" in str(refused(read))
