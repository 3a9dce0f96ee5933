"""A download that is killed goes on where it was; see `tests/fuzz/faults_fetch.py`."""

import faults_fetch
import pytest

from workbench.storage.files import scratch_folder

pytestmark = pytest.mark.slow
LENGTHS = [len(content) for content in faults_fetch.FILES.values()]


@pytest.mark.parametrize("watched", [1 << 18, LENGTHS[0] + (1 << 17)], ids=["first file", "second file"])
def test_a_download_that_is_killed_goes_on(watched):
    with faults_fetch.toy() as toy:
        toy.kill(watched, pause=True)
        assert toy.fetch() == []
        assert toy.server.asked[0][1] > 0


def test_a_process_that_is_killed_after_the_last_byte():
    with faults_fetch.toy() as toy:
        toy.kill(faults_fetch.TOTAL)
        assert toy.fetch() == []
        assert toy.fetch() == []
        assert toy.server.asked == []


def test_what_a_killed_process_left_is_removed():
    with faults_fetch.toy() as toy:
        assert toy.fetch() == []
        with scratch_folder(toy.folder) as used:
            left = used.with_name(f"{used.name}left")
            left.mkdir()
            assert toy.fetch() == [f"{used.name} is left"]
        assert not left.exists()
