"""Whatever the bytes, a reader gives items or a DataError, and nothing else."""

import contextlib

import builders as b
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workbench.datasets import archives, books, load
from workbench.items.items import DataError, Items

pytestmark = pytest.mark.slow

VALID = {
    "lambada plain": ("lambada", {"lambada_development_plain_text.txt": b.text(b.PLAIN)}),
    "lambada capitalised": ("lambada", {"x_capitalised.txt": b.text(b.CASED)}),
    "lambada openai": ("lambada", {"x.jsonl": b.OPENAI}),
    "cbt": ("cbt", {"cbtest_NE_valid_2000ex.txt": b.cbt()}),
    "msrcc": ("msrcc", b.OFFICIAL),
    "msrcc answers": ("msrcc", dict(reversed(b.OFFICIAL.items()))),
    "msrcc csv": ("msrcc", b.CSV),
    "msrcc csv answers": ("msrcc", dict(reversed(b.CSV.items()))),
    "cnnqa": ("cnnqa", {"a.question": b.cnn()}),
}
DATASETS = ["lambada", "cbt", "msrcc", "cnnqa"]
TARGETS = {"msrcc answers": b.QUESTIONS, "msrcc csv answers": b.TABLE}
fuzz = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def garbled(draw, content):
    lines = content.encode().split(b"\n")
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(lines) - 1))
        line, place = lines[at], draw(st.integers(0, len(lines[at])))
        ends = st.sampled_from([b"\r", b" ", b"\t", b"\x0c", b"\xc2\x85", b"|", b"||", b'"'])
        encodings = st.sampled_from(["utf-16", "utf-8-sig", "cp500"])
        lines[at : at + 1] = draw(
            st.just([])  # the line goes, is doubled, the last one, new, other bytes, encoded anew, longer
            | st.sampled_from([[line, line], [lines[-1]]])
            | st.binary(max_size=30).map(lambda new, line=line: [new, line])
            | st.tuples(st.binary(max_size=4), st.integers(0, 9)).map(
                lambda drawn, line=line, place=place: [line[:place] + drawn[0] + line[place + drawn[1] :]]
            )
            | encodings.map(lambda name, line=line: [line.decode("latin-1").encode(name)])
            | ends.map(lambda end, line=line: [line + end])
        )
        if draw(st.integers(0, 7)) == 7:
            lines = [*lines[:at], line[:place]]  # the file is cut short
        lines = lines or [b""]
    return b"\n".join(lines)


def try_both(dataset, path):
    for on_error in ("raise", "skip"):
        with contextlib.suppress(DataError):
            items = load(dataset, path=path, on_error=on_error)
            assert isinstance(items, Items)
            assert len(items) or items.problems


@pytest.mark.parametrize("kind", VALID)
@fuzz
@given(data=st.data())
def test_garbled_files(tmp_path, kind, data):
    dataset, files = VALID[kind]
    name = next(iter(files))
    folder = b.write(tmp_path, files | {name: data.draw(garbled(files[name]) | st.binary(max_size=300))})
    try_both(dataset, folder / TARGETS.get(kind, name))


@pytest.mark.parametrize("name", ["lambada.parquet", "x.tar", "x.tar.gz", "x.tar.xz", "x.tar.bz2", "x.zip"])
@settings(fuzz, max_examples=30)
@given(dataset=st.sampled_from(DATASETS), content=st.binary(max_size=200))
def test_any_bytes_as_an_archive(tmp_path, dataset, name, content):
    try_both(dataset, b.write(tmp_path, {name: content}) / name)


PACKED = {name: text for _, files in VALID.values() for name, text in files.items()}


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz", "w:bz2", "zip"])
@settings(fuzz, max_examples=25)
@given(dataset=st.sampled_from(DATASETS), data=st.data())
def test_damaged_archives(tmp_path, mode, dataset, data):
    whole = b.zipped(PACKED) if mode == "zip" else b.tar(PACKED, mode)
    place = data.draw(st.integers(0, len(whole)))
    damaged = whole[:place] + data.draw(st.binary(max_size=3))
    if data.draw(st.booleans()):
        damaged += whole[len(damaged) :]
    name = "x.zip" if mode == "zip" else "x.tar.gz"
    path = b.write(tmp_path, {name: damaged}) / name
    try_both(dataset, path)
    with contextlib.suppress(DataError):
        list(archives.members(path))
    with contextlib.suppress(DataError):
        list(books(path))


@fuzz
@given(
    content=st.binary(max_size=300)
    | garbled("# Title: T\n\n## Year: 1900\n\n-----\n\nIt rained.\n\nEnd of Project Gutenberg\n")
)
@pytest.mark.parametrize("name", ["x.txt", "x.md", "train-0.parquet"])
def test_any_book(tmp_path, name, content):
    path = b.write(tmp_path, {name: content}) / name
    for dataset in (path, "lambada"):
        with contextlib.suppress(DataError):
            list(books(dataset, path=None if dataset is path else path))
