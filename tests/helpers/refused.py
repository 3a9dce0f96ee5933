"""What bad input comes to: one error that says what was expected."""

import pytest

from workbench.storage.errors import DataError


def refused(function, /, *arguments, **options):
    """Check that a call ends in one DataError that names the problem; return it."""
    with pytest.raises(DataError) as caught:
        function(*arguments, **options)
    try:
        assert caught.value.problem
        return caught.value
    finally:
        del caught  # its traceback has this frame: a cycle, which would keep open what the call left open
