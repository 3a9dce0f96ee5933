"""Whatever a server answers, `fetch` ends with the right file or one DataError, and stores nothing else."""

import gzip
import hashlib
import json
import os
from itertools import repeat

import builders as b
import pytest
from hostile_server import HostileServer
from patience import PATIENCE

from workbench.datasets import fetch as fetching
from workbench.datasets import sources
from workbench.datasets.fetch import fetch
from workbench.storage.errors import DataError

TEXT = b"It rained all day , and she stayed at home .\n" * 40
PAGE = b"<!DOCTYPE html>\n<html><body>Please log in.</body></html>"
BLOCK = bytes(range(256)) * 256
MOST = 1 << 20


def answer(body=TEXT, status="200 OK", version="HTTP/1.1", **headers):
    """An answer in bytes; a header of None is left out, one that is a list is sent several times."""
    fields = {"Content-Length": len(body), "Connection": "close"}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    lists = {name: value if isinstance(value, list) else [value] for name, value in fields.items()}
    pairs = [(name, one) for name, values in lists.items() for one in values]
    lines = [f"{name}: {one}".encode("latin-1") for name, one in pairs if one is not None]
    return b"\r\n".join([f"{version} {status}".encode(), *lines, b"", body])


OPEN = answer(b"", Content_Length=None)  # the body ends with the connection
CHUNKED = answer(b"", Content_Length=None, Transfer_Encoding="chunked")
MOVED = answer(b"", "302 Found", Content_Length=None, Location="/there")


def endless(start, block):
    return lambda _server: iter([start, *repeat(block, 4 * MOST // len(block) + 1)])


def forever(start, block):
    def blocks(_server):
        yield start
        yield from repeat(block)

    return blocks


def drip(start, block):
    return lambda server: server.drip(start, block)


def once(*blocks):
    return lambda _server: blocks


REFUSED = {
    **{f"status {code}": once(answer(TEXT, f"{code} Odd")) for code in
       (201, 202, 203, 204, 205, 207, 226, 299, 300, 304, 305, 399, 401, 403, 404, 451, 500, 600, 999)},
    **{f"status {code!r}": once(answer(TEXT, code)) for code in
       ("000 X", "20 X", "1000 X", "-200 X", "two X", "")},
    "206 that nobody asked for": once(
        answer(TEXT, "206 Partial", Content_Range=f"bytes 0-{len(TEXT) - 1}/9999")
    ),
    "101 switching": once(answer(TEXT, "101 Switching Protocols")),
    "100 and nothing more": once(b"HTTP/1.1 100 Continue\r\n\r\n"),
    "an empty answer": once(answer(b"")),
    "an empty answer without its length": once(OPEN),
    "an empty answer in chunks": once(CHUNKED, b"0\r\n\r\n"),
    "no answer": once(),
    "no HTTP": once(TEXT),
    "another protocol": once(b"SSH-2.0-OpenSSH_9.6\r\n"),
    "a page to log in": once(answer(PAGE)),
    "a page with a mark of its encoding": once(answer(b"\xef\xbb\xbf \n" + PAGE)),
    "a compressed text": once(answer(gzip.compress(TEXT), Content_Encoding="gzip")),
    "a binary file": once(answer(b"\0\1\2\3" * 100)),
    **{f"length {length!r}": once(answer(TEXT, Content_Length=length)) for length in
       (10**30, "9" * 5000, -1, "-" + "9" * 30, "many", "1_0", "+5", "0x10", "1e3", "\xb2", ["5", "6"],
        len(TEXT) + 1, 10**17)},
    "chunks of no size": once(CHUNKED, b"many\r\n" + TEXT),
    "chunks of a negative size": once(CHUNKED, b"-5\r\n" + TEXT),
    "a huge chunk": once(CHUNKED, b"f" * 40 + b"\r\n" + TEXT),
    "a chunk that is cut": once(CHUNKED, b"ffff\r\n" + TEXT),
    "too many headers": once(b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 500 + b"\r\n" + TEXT),
    "moved to a file": once(answer(b"", "302 Found", Location="file:///etc/passwd")),
    "moved to FTP": once(answer(b"", "302 Found", Location="ftp://127.0.0.1:1/x")),
    "moved to data": once(answer(b"", "302 Found", Location="data:text/plain,hello")),
    "moved to no address": once(answer(b"", "302 Found", Location="http://[::1/x")),
    "moved to no port": once(answer(b"", "302 Found", Location="http://127.0.0.1:999999/x")),
    "moved to no name": once(answer(b"", "302 Found", Location="http://" + "a" * 70 + ".example/x")),
    "moved to no text": once(answer(b"", "302 Found", Location="/\xff\xfe")),
    "moved in circles": once(answer(b"", "301 Moved", Location="/toy.txt")),
    "moved nowhere": once(answer(TEXT, "302 Found")),
    "an endless line of a header": endless(b"HTTP/1.1 200 OK\r\nA: ", b"a" * 4096),
    "endless bytes": endless(OPEN, b"words and words\n" * 4096),
    "endless chunks": endless(CHUNKED, b"10\r\nwords and words\n\r\n" * 4096),
    "an endless line before a chunk": endless(CHUNKED, b"0" * 4096),
    "an endless extension of a chunk": endless(CHUNKED + b"5;", b"a=b;" * 1024),
    "moved, with endless bytes": forever(MOVED, BLOCK),
    "endless 100 Continue": forever(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
    "endless 102 Processing": forever(b"", b"HTTP/1.1 102 Processing\r\n\r\n" * 100),
    "endless lines after the last chunk": forever(CHUNKED + b"0\r\n", b"A: b\r\n" * 100),
    "a slow status": drip(b"HTTP/1.1 200 O", b"K"),
    "slow headers": drip(b"HTTP/1.1 200 OK\r\n", b"A: b\r\n"),
    "slow 100 Continue": drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "slow bytes": drip(OPEN, b"a"),
    "slow chunks": drip(CHUNKED, b"1\r\na\r\n"),
    "slow bytes of a known length": drip(answer(b"", Content_Length=MOST), b"a"),
    "slow bytes after a redirection": drip(MOVED, b"a"),
}  # fmt: skip
GIVEN = {
    "plain": once(answer()),
    "without its length": once(OPEN, TEXT),
    "in chunks": once(CHUNKED, b"%x;a=b\r\n" % len(TEXT), TEXT, b"\r\n0\r\nA: b\r\n\r\n"),
    "in HTTP 1.0": once(answer(version="HTTP/1.0")),
    "without a reason": once(answer(status="200")),
    "after a few 100 Continue": once(b"HTTP/1.1 100 Continue\r\n\r\n" * 5 + answer()),
    "more than its length": once(answer() + b"and more"),
    "called encoded": once(answer(Content_Encoding="gzip")),
    "byte by byte": lambda _server: [bytes([value]) for value in answer()],
}


@pytest.fixture
def hostile():
    with HostileServer() as server:
        yield server


@pytest.fixture
def toy(hostile, monkeypatch, tmp_path):
    """Return a function that registers a file of the hostile server, and its folder."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    for name, value in {"PAUSE": 0.01, "TRIES": 2, "MAX_BYTES": MOST}.items():
        monkeypatch.setattr(fetching, name, value)

    def register(name="toy.txt", **known):
        known |= {"name": name, "addresses": [f"{hostile.address}/{name}"]}
        head = '[toy]\ntitle = "A toy"\nlicence = "CC0-1.0"\ncitation = "Toy"\nabout = "Toy"\n[[toy.files]]\n'
        path = tmp_path / "registry.toml"
        path.write_text(head + "\n".join(f"{k} = {json.dumps(v)}" for k, v in known.items()))
        monkeypatch.setattr(sources, "resource", lambda *_: path)
        return tmp_path / "home" / "raw" / "toy"

    return register


def stored(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_bad_answer_is_refused(toy, hostile, monkeypatch, kind):
    folder = toy()
    monkeypatch.setenv("WORKBENCH_TIMEOUT", "0.2" if "endless" in kind or "slow" in kind else f"{PATIENCE}")
    hostile.answer = lambda _request: REFUSED[kind](hostile)
    while not hostile.requests:  # on a busy machine the time may be over before the server has heard anything
        with pytest.raises(DataError, match=r"by hand to .*toy\.txt|room for"):
            fetch("toy", progress=False)
        assert stored(folder) == {}


@pytest.mark.parametrize("kind", GIVEN)
def test_a_good_answer_is_taken(toy, hostile, kind):
    folder = toy()
    hostile.answer = lambda _request: GIVEN[kind](hostile)
    fetch("toy", progress=False)
    assert stored(folder)["toy.txt"] == TEXT
    asked = len(hostile.requests)
    fetch("toy", progress=False)
    assert len(hostile.requests) == asked


KINDS = {
    ".txt": TEXT, ".csv": b"a,b\n1,2\n", ".jsonl": b'{"text": "a b"}\n', ".tgz": b.tar({"a": "b"}),
    ".tar.gz": b.tar({"a": "b"}), ".tar.xz": b.tar({"a": "b"}, "w:xz"),
    ".tar.bz2": b.tar({"a": "b"}, "w:bz2"),
    ".tar": b.tar({"a": "b"}, "w"), ".zip": b.zipped({"a": "b"}), ".parquet": b"PAR1 and so on PAR1",
}  # fmt: skip


@pytest.mark.parametrize("suffix", KINDS)
def test_a_file_without_checksum_has_to_be_of_its_kind(toy, hostile, suffix):
    folder = toy(f"toy{suffix}")
    texts = {".txt", ".csv", ".jsonl"}
    others = {name for name in KINDS if (name in texts) != (suffix in texts) or suffix not in texts}
    same = [{".tgz", ".tar.gz"}, {suffix}]
    wrong = [KINDS[name] for name in others if not any({name, suffix} <= names for names in same)]
    for body in (b"", PAGE, PAGE.upper(), b'<?xml version="1.0"?><Error/>', *wrong):
        hostile.answer = lambda _request, body=body: [answer(body)]
        with pytest.raises(DataError, match="by hand"):
            fetch("toy", progress=False)
        assert stored(folder) == {}
        folder.joinpath(f"toy{suffix}").write_bytes(body)  # nor does it count where it lies already
        with pytest.raises(DataError, match="by hand"):
            fetch("toy", progress=False)
        folder.joinpath(f"toy{suffix}").unlink()
    hostile.answer = lambda _request: [answer(KINDS[suffix])]
    fetch("toy", progress=False)
    assert stored(folder)[f"toy{suffix}"] == KINDS[suffix]


CUT = 500
RANGES = [
    "", "bytes", "bytes 0-9/10", f"bytes {CUT + 1}-{len(TEXT) - 1}/{len(TEXT)}", f"bytes -{CUT}-9/10",
    f"bytes {10**30}-{10**31}/{10**32}", f"bytes {'9' * 5000}-", "bytes */10",
    f"lines {CUT}-{len(TEXT) - 1}/9",
    f"bytes {CUT}", f"bytes {CUT}-x/y",
]  # fmt: skip


@pytest.mark.parametrize("status", ["206 Partial Content", "200 OK"])
@pytest.mark.parametrize("field", RANGES, ids=range(len(RANGES)))
def test_a_part_is_continued_by_the_part_that_was_asked_for_and_by_no_other(toy, hostile, field, status):
    folder = toy(sha256=hashlib.sha256(TEXT).hexdigest(), bytes=len(TEXT))
    folder.mkdir(parents=True)
    (folder / "toy.txt.part").write_bytes(TEXT[:CUT])

    def served(request):
        if b"range:" in request.lower():
            return [answer(TEXT if status.startswith("200") else TEXT[CUT:], status, Content_Range=field)]
        return [answer()]

    hostile.answer = served
    fetch("toy", progress=False)
    assert stored(folder)["toy.txt"] == TEXT
    assert len(hostile.requests) == (1 if status.startswith("200") else 2)
