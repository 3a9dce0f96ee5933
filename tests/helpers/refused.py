"""What bad input comes to: one error that says what was expected."""

import pytest

from workbench.storage.errors import DataError


def refused(message, function, /, *arguments, **options):
    """Check that a call ends in one DataError whose text matches, any text for ""; return it."""
    with pytest.raises(DataError, match=message or None) as caught:
        function(*arguments, **options)
    try:
        return caught.value
    finally:
        del caught  # its traceback has this frame: a cycle, which would keep open what the call left open
