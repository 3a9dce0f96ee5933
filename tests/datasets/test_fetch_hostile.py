"""Whatever a server answers, `fetch` ends with the right file or one DataError, and stores nothing else."""

import gzip
import hashlib
import json
import os
from itertools import repeat

import pytest
from hostile_server import HostileServer
from patience import PATIENCE
from refused import refused

from workbench.datasets import fetch as fetching
from workbench.datasets import sources
from workbench.datasets.fetch import fetch

TEXT = b"It rained all day , and she stayed at home .\n" * 40
PAGE = b"<!DOCTYPE html>\n<html><body>Please log in.</body></html>"
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


def endless(start, block):
    return lambda _server: iter([start, *repeat(block, 4 * MOST // len(block) + 1)])


def once(*blocks):
    return lambda _server: blocks


REFUSED = {
    **{f"status {code}": once(answer(TEXT, f"{code} Odd")) for code in
       (204, 226, 300, 304, 403, 404, 451, 500, 999)},
    **{f"status {code!r}": once(answer(TEXT, code)) for code in ("000 X", "two X", "")},
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
    "two lengths": once(answer(TEXT, Content_Length=["5", "6"])),
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
}  # fmt: skip
GIVEN = {
    "plain": once(answer()),
    "without its length": once(OPEN, TEXT),
    "with too large a length": once(answer(Content_Length=10**17)),
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
    """Register a file of the hostile server, and return its folder."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    for name, value in {
        "NO_PROXY": "*",
        "WORKBENCH_HOME": str(tmp_path / "home"),
        "WORKBENCH_TIMEOUT": f"{PATIENCE}",
    }.items():
        monkeypatch.setenv(name, value)
    for name, value in {"PAUSE": 0.01, "TRIES": 2}.items():
        monkeypatch.setattr(fetching, name, value)
    known = {"name": "toy.txt", "addresses": [f"{hostile.address}/toy.txt"]}
    known |= {"bytes": len(TEXT), "sha256": hashlib.sha256(TEXT).hexdigest()}
    head = '[toy]\ntitle = "A toy"\nlicence = "CC0-1.0"\ncitation = "Toy"\nabout = "Toy"\n[[toy.files]]\n'
    path = tmp_path / "registry.toml"
    path.write_text(head + "\n".join(f"{k} = {json.dumps(v)}" for k, v in known.items()))
    monkeypatch.setattr(sources, "resource", lambda *_: path)
    return tmp_path / "home" / "raw" / "toy"


def stored(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_bad_answer_is_refused(toy, hostile, kind):
    hostile.answer = lambda _request: REFUSED[kind](hostile)
    refused(r"by hand to .*toy\.txt", fetch, "toy", progress=False)
    assert stored(toy).keys() <= {"toy.txt.part"}
    hostile.answer = lambda _request: [answer()]
    fetch("toy", progress=False)
    assert stored(toy)["toy.txt"] == TEXT


@pytest.mark.parametrize("kind", GIVEN)
def test_a_good_answer_is_taken(toy, hostile, kind):
    hostile.answer = lambda _request: GIVEN[kind](hostile)
    fetch("toy", progress=False)
    assert stored(toy)["toy.txt"] == TEXT


@pytest.mark.parametrize("status", ["206 Partial Content", "200 OK"])
@pytest.mark.parametrize("sent", [TEXT[500:], TEXT[501:], TEXT[:-500], TEXT, b"", b"x" * len(TEXT[500:])])
def test_a_part_is_continued_by_what_fits_and_by_no_other(toy, hostile, sent, status):
    toy.mkdir(parents=True)
    (toy / "toy.txt.part").write_bytes(TEXT[:500])
    asked_for_a_part = iter([answer(sent, status, Content_Range="bytes 500-1800/1801")])
    hostile.answer = lambda request: [
        next(asked_for_a_part, answer()) if b"range:" in request.lower() else answer()
    ]
    fetch("toy", progress=False)
    assert stored(toy)["toy.txt"] == TEXT
