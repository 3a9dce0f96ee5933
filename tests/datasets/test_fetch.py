"""Data sets that are fetched: whatever a server answers, the right file or one DataError, no more."""

import gc
import gzip
import hashlib
import json
import os
import re
import tarfile
import threading
import zipfile
from itertools import repeat

import builders as b
import pytest
from hostile_server import HostileServer
from limited_disk import small_disk
from patience import PATIENCE
from refused import refused

from workbench.datasets import fetch as fetching
from workbench.datasets import sources
from workbench.datasets.fetch import fetch
from workbench.storage import files

CONTENT = b"".join(hashlib.sha256(b"%d" % i).digest() for i in range(20_000))  # 640,000 bytes
SUM = hashlib.sha256(CONTENT).hexdigest()
CHUNK = fetching._CHUNK
TEXT = b"It rained all day , and she stayed at home .\n" * 40
PAGE = b"<!DOCTYPE html>\n<html><body>Please log in.</body></html>"


def answer(body=TEXT, status="200 OK", version="HTTP/1.1", **headers):
    """An answer in bytes; a header of None is left out, one that is a list is sent several times."""
    fields = {"Content-Length": len(body), "Connection": "close"}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    lists = {name: value if isinstance(value, list) else [value] for name, value in fields.items()}
    pairs = [(name, one) for name, values in lists.items() for one in values]
    lines = [f"{name}: {one}".encode("latin-1") for name, one in pairs if one is not None]
    return b"\r\n".join([f"{version} {status}".encode(), *lines, b"", body])


class Server(HostileServer):
    """Serves `content`, as badly as `manner` says; knows what was asked for, with the range of bytes."""

    def __init__(self):
        super().__init__(self.reply)
        self.content, self.manner = CONTENT, ""

    @property
    def asked(self):
        ranges = [re.search(rb"\nrange: (\S+)", request, re.IGNORECASE) for request in self.requests]
        paths = [request.split()[1].decode() for request in self.requests]
        return [(path, found and found[1].decode()) for path, found in zip(paths, ranges, strict=True)]

    def reply(self, _request):
        (path, wanted), manner = self.asked[-1], self.manner
        if "missing" in manner or path.startswith("/missing"):
            return [answer(b"", "404 Not Found")]
        if "busy" in manner and len(self.requests) < 3:
            return [answer(b"", "503 Busy")]
        if path.startswith("/moved"):
            return [answer(b"", "302 Found", Location=path.replace("/moved", "/there"))]
        if "silent" in manner:
            self.closing.wait(PATIENCE)
        has_ranges = wanted and "no ranges" not in manner
        return self.send(int(wanted.removeprefix("bytes=").rstrip("-")) if has_ranges else 0)

    def send(self, start):
        manner, rest, size = self.manner, self.content[start:], len(self.content)
        if not rest:
            yield answer(b"", "416 Out of Range", Content_Range=f"bytes */{size}")
            return
        part = f"bytes {start}-{size - 1}/{size}" if start else None
        status = "206 Partial" if start else "200 OK"
        yield answer(b"", status, Content_Length=len(rest), Content_Range=part)
        if "breaks once" in manner or "stalls" in manner:
            yield rest if start else rest[: 4 * CHUNK]
            if "stalls" in manner and not start:
                self.closing.wait(PATIENCE)
        else:
            yield rest[:CHUNK] if "breaks" in manner else rest


@pytest.fixture
def server():
    with Server() as served:
        yield served


@pytest.fixture(autouse=True)
def _quiet(monkeypatch, tmp_path):
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name == "WORKBENCH_TIMEOUT":
            monkeypatch.delenv(name)
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(fetching, "PAUSE", 0.01)


@pytest.fixture
def register(monkeypatch, tmp_path, server):
    """Return a function that puts a data set `toy` of one file into a registry of its own."""

    def write(name="toy.bin", address="/toy.bin", *, manual="", members=None, **known):
        known = {"bytes": len(server.content), "sha256": hashlib.sha256(server.content).hexdigest(), **known}
        addresses = [a if "://" in a else server.address + a for a in address.split()]
        entry = {"title": "A toy", "licence": "CC0-1.0", "citation": "Toy et al.", "about": "Bytes."}
        entry |= {"manual": manual, "patterns": ["toy*.bin"]} if manual else {}
        file = {"name": name, "addresses": addresses, "about": "bytes"} | known
        tables = {"[toy]": entry, "[[toy.files]]": file, "[toy.files.members]": members or {}}
        path = tmp_path / "registry.toml"
        with path.open("w", encoding="utf-8") as out:
            for head, values in tables.items():
                lines = (f'"{k}" = {json.dumps(v)}\n' for k, v in values.items() if v is not None)
                out.writelines([f"{head}\n", *lines])
        monkeypatch.setattr(sources, "resource", lambda *_: path)
        return tmp_path / "home" / "raw" / "toy"

    return write


def visible(folder):
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def test_a_file_is_fetched_once_with_its_terms(register, server, capsys):
    folder = register()
    assert fetch("toy") == folder
    assert (folder / "toy.bin").read_bytes() == CONTENT
    assert visible(folder) == ["LICENCE.txt", "toy.bin"]
    assert "CC0-1.0" in (folder / "LICENCE.txt").read_text(encoding="utf-8")
    output = capsys.readouterr().out
    assert SUM in output
    assert output.count("Toy et al.") == 1
    assert fetch("toy") == folder
    assert server.asked == [("/toy.bin", None)]
    assert "Toy et al." not in capsys.readouterr().out
    with (folder / "toy.bin").open("r+b") as file:
        file.write(b"spoilt")
    fetch("toy")
    assert (folder / "toy.bin").read_bytes() == CONTENT
    assert "not the expected file" in capsys.readouterr().out
    assert len(server.asked) == 2


def test_wrong_bytes_are_refused_and_removed(register, server):
    folder = register()
    folder.mkdir(parents=True)
    (folder / "toy.bin").write_bytes(b"mine")
    server.content = b"x" * len(CONTENT)
    error = refused("sha256", fetch, "toy")
    for part in (SUM, hashlib.sha256(server.content).hexdigest(), str(folder / "toy.bin")):
        assert part in str(error)
    assert visible(folder) == ["toy.bin"]
    assert (folder / "toy.bin").read_bytes() == b"mine"


LONGER = len(CONTENT) + 10


@pytest.mark.parametrize("size", [10, LONGER])
def test_a_wrong_size_is_refused(register, size):
    folder = register(bytes=size)
    refused(f"{size:,}", fetch, "toy")
    assert not (folder / "toy.bin").exists()


def test_a_page_in_place_of_an_archive_is_named(register, server):
    folder = register("toy.tgz", address="/toy.tgz")
    server.content = b"<!DOCTYPE html>\n<html><body>Please log in.</body></html>"
    refused(r"it is a web page, perhaps one to log in -- .* by hand", fetch, "toy")
    assert visible(folder) == []
    assert len(server.asked) == 1


def test_a_second_address_is_tried(register, server):
    folder = register(address="/missing/toy.bin /toy.bin")
    fetch("toy")
    assert len(server.asked) == 2
    assert (folder / "toy.bin").read_bytes() == CONTENT
    server.manner = "missing"
    error = refused(r"/missing/toy\.bin .*/toy\.bin", fetch, "toy", folder=folder / "other")
    assert len(re.findall(r"\b404\b", str(error))) == 2  # a port may hold these digits


@pytest.mark.parametrize(
    ("part", "manner", "n_requests"),
    [
        (CONTENT + b"more", "", None),
        (b"x" * 1000, "", None),
        (b"x" * len(CONTENT), "", None),
        (b"", "", 1),
        (CONTENT, "", 0),
        (CONTENT[:1000], "no ranges", 1),
    ],
    ids=["long", "wrong", "wrong but whole", "empty", "whole", "server starts over"],
)
def test_a_part_is_used_where_it_can_be(register, server, part, manner, n_requests):
    folder = register()
    folder.mkdir(parents=True)
    (folder / "toy.bin.part").write_bytes(part)
    server.manner = manner
    fetch("toy")
    assert (folder / "toy.bin").read_bytes() == CONTENT
    assert n_requests in {None, len(server.asked)}


@pytest.mark.parametrize(
    ("manner", "address", "asked"),
    [
        ("", "/moved/toy.bin", [("/moved/toy.bin", None), ("/there/toy.bin", None)]),
        ("busy", "/toy.bin", [("/toy.bin", None)] * 3),
        ("breaks once", "/toy.bin", [("/toy.bin", None), ("/toy.bin", f"bytes={4 * CHUNK}-")]),
    ],
)
def test_redirects_busy_servers_and_broken_connections(register, server, manner, address, asked):
    folder = register(address=address)
    server.manner = manner
    fetch("toy", progress=manner == "breaks once")
    assert (folder / "toy.bin").read_bytes() == CONTENT
    assert server.asked == asked
    assert visible(folder) == ["LICENCE.txt", "toy.bin"]


def test_a_part_is_continued_by_the_next_call(register, server):
    folder = register()
    server.manner = "breaks"
    refused("resume", fetch, "toy")
    have = (folder / "toy.bin.part").stat().st_size
    assert have == CHUNK * fetching.TRIES
    server.manner = ""
    fetch("toy")
    assert server.asked[-1] == ("/toy.bin", f"bytes={have}-")
    assert (folder / "toy.bin").read_bytes() == CONTENT


@pytest.mark.parametrize(("manner", "parts"), [("silent", 0), ("stalls", 1)])
def test_a_silent_server_is_left(register, server, monkeypatch, manner, parts):
    folder = register()
    server.manner = manner
    seconds = 5 if parts else 0.2  # a busy server needs some time for what it does send
    monkeypatch.setenv("WORKBENCH_TIMEOUT", f"{seconds}")
    monkeypatch.setattr(fetching, "TRIES", 2 - parts)
    error = refused(rf"no answer within {seconds:g} seconds.*by hand", fetch, "toy")
    assert server.address in str(error)
    assert len(list(folder.glob("*.part"))) == parts


@pytest.mark.parametrize("address", ["http://127.0.0.1:1/toy.bin", "nothing://here/x", "http://[::1/x"])
def test_an_address_that_leads_nowhere(register, address):
    register(address=address)
    error = refused("cannot be downloaded", fetch, "toy")
    assert "object at 0x" not in str(error)


def test_a_full_disk_is_one_error(register, tmp_path):
    with small_disk(tmp_path / "disk", size="256k") as folder:
        register()
        refused(r"No space left on device.*free some space", fetch, "toy", folder=folder)
        assert not (folder / "toy.bin").exists()


def test_two_that_fetch_the_same_do_not_disturb_each_other(register, server, capsys):
    folder = register()
    server.manner = "breaks once"
    threads = [threading.Thread(target=fetch, args=("toy",), kwargs={"progress": False}) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert (folder / "toy.bin").read_bytes() == CONTENT
    assert len(server.asked) == 2
    assert capsys.readouterr().out.count("Toy et al.") == 1


def special(kind, target=""):
    info = tarfile.TarInfo()
    info.type, info.linkname = kind, target
    return info


INSIDE = {"data/a.txt": b"one", "read me.txt": b"two"}
FILES = {f"Toy/{name}": content for name, content in INSIDE.items()}
SUM_OF_ONE = hashlib.sha256(b"one").hexdigest()
SUMS = {"Toy/data/a.txt": SUM_OF_ONE}
PACKED = {mode: b.tar(FILES, mode) for mode in ("w:gz", "w", "w:xz", "w:bz2")} | {"zip": b.zipped(FILES)}
BARE = {"no common folder": b.tar(INSIDE), "zip without a common folder": b.zipped(INSIDE)}


@pytest.mark.parametrize("kind", PACKED | BARE)
def test_an_archive_is_unpacked_into_one_folder(register, server, kind):
    server.content = (PACKED | BARE)[kind]
    members = {"data/a.txt": SUM_OF_ONE} if kind in BARE else SUMS
    folder = register("Toy.v1.archive", unpack=True, members=members)
    fetch("toy")
    assert {name: (folder / name).read_bytes() for name in FILES} == FILES
    assert visible(folder) == ["LICENCE.txt", "Toy", "Toy.v1.archive"]
    fetch("toy")
    assert len(server.asked) == 1


def test_a_damaged_unpacked_file_comes_from_the_archive_again(register, server):
    server.content = b.tar(FILES)
    folder = register("toy.tgz", unpack=True, members=SUMS)
    fetch("toy")
    (folder / "Toy/data/a.txt").write_bytes(b"spoilt")
    fetch("toy")
    assert (folder / "Toy/data/a.txt").read_bytes() == b"one"
    (folder / "toy.tgz").unlink()  # no longer needed
    fetch("toy")
    assert len(server.asked) == 1


@pytest.mark.parametrize("sums", [{"Toy/data/a.txt": "0" * 64}, {"Toy/missing.txt": "0" * 64}])
def test_what_is_inside_is_checked(register, server, sums):
    server.content = b.tar(FILES)
    folder = register("toy.tgz", unpack=True, members=sums)
    refused(next(iter(sums)), fetch, "toy")
    assert visible(folder) == ["toy.tgz"]


link = zipfile.ZipInfo("Toy/link")
link.external_attr = 0o120777 << 16
OUTSIDE = ("../evil.txt", "Toy/../../evil.txt", "/tmp/evil.txt", "C:/evil.txt", "..\\evil.txt")  # noqa: S108
EVIL = {name: b.tar({name: b"x"}) for name in OUTSIDE} | {
    "symbolic link": b.tar({"Toy/link": special(tarfile.SYMTYPE, "/etc"), "Toy/link/evil.txt": b"x"}),
    "hard link": b.tar({"Toy/link": special(tarfile.LNKTYPE, "/etc/passwd")}),
    "device": b.tar({"Toy/null": special(tarfile.CHRTYPE)}),
    "zip": b.zipped({"../evil.txt": b"x"}),
    "link in a zip": b.zipped({link: b"/etc"}),
    "cut short": b.tar(FILES | {"Toy/c": CONTENT})[:300_000],
    "file as folder": b.tar({"Toy": b"x", "Toy/a": b"x"}),
    "bomb": b.tar({"Toy/zeros": bytes(2_000_000)}),
}


@pytest.mark.parametrize("content", EVIL.values(), ids=EVIL)
def test_an_evil_archive_is_refused(register, server, tmp_path, monkeypatch, content):
    monkeypatch.setattr(files, "MAX_IN_MEMORY", 1_000_000)
    server.content = content
    folder = register("toy.tgz", unpack=True)
    refused(r"toy\.tgz: .*remove it and fetch it again|more than 1,000,000 bytes", fetch, "toy")
    assert visible(folder) == ["toy.tgz"]
    assert list(tmp_path.rglob("*evil*")) == []


def test_a_dry_run_changes_nothing(register, server, tmp_path, capsys):
    register("toy.tgz", unpack=True)
    before = sorted(tmp_path.rglob("*"))
    folder = tmp_path / "elsewhere"
    assert fetch("toy", dry_run=True, folder=str(folder)) == folder
    assert sorted(tmp_path.rglob("*")) == before
    assert server.asked == []
    plan = capsys.readouterr().out
    for part in (f"{server.address}/toy.bin", "640,000", str(folder), "CC0-1.0", "unpacked"):
        assert part in plan
    folder = register()
    folder.mkdir(parents=True)
    (folder / "toy.bin.part").write_bytes(CONTENT[:1000])
    fetch("toy", dry_run=True)
    assert "1,000 of them are there" in capsys.readouterr().out


def test_what_has_no_address_is_got_by_hand(register, capsys):
    folder = register(address="", manual="ask Toy for toy.bin; put it")
    error = refused("ask Toy", fetch, "toy")
    assert str(folder) in str(error)
    assert not folder.exists()
    fetch("toy", dry_run=True)
    assert "ask Toy" in capsys.readouterr().out
    folder.mkdir(parents=True)
    (folder / "toy (1).bin").write_bytes(b"whatever Toy gave")
    assert fetch("toy") == folder
    assert "Toy et al." in (folder / "LICENCE.txt").read_text(encoding="utf-8")


def test_the_registry_is_complete():
    registry = fetching.entries()
    assert {"lambada", "lambada-openai", "cbt", "cnnqa", "msrcc", "sample"} <= set(registry)
    for name, entry in registry.items():
        assert all([name, entry.licence, entry.citation.strip(), entry.about])
        assert entry.files or entry.shipped
        assert bool(entry.manual) != (entry.published or bool(entry.shipped))
        sums = [s for r in entry.files for s in (r.sha256, *r.members.values()) if s]
        assert all(len(s) == 64 and set(s) <= set("0123456789abcdef") for s in sums)
        assert all(remote.bytes and remote.sha256 for remote in entry.files if remote.addresses)


OPEN = answer(b"", Content_Length=None)  # the body ends with the connection
CHUNKED = answer(b"", Content_Length=None, Transfer_Encoding="chunked")


def endless(start, block):
    return [start, *repeat(block, (4 << 20) // len(block) + 1)]


def once(*blocks):
    return blocks


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
    "byte by byte": [bytes([value]) for value in answer()],
}


@pytest.fixture
def toy(register, server, monkeypatch):
    """Register a short text, and return its folder; a test says what the server answers."""
    monkeypatch.setenv("WORKBENCH_TIMEOUT", f"{PATIENCE}")
    monkeypatch.setattr(fetching, "TRIES", 2)
    server.content = TEXT
    return register("toy.txt", "/toy.txt")


@pytest.mark.parametrize("kind", REFUSED)
def test_a_bad_answer_is_refused(toy, server, kind):
    server.answer = lambda _request: REFUSED[kind]
    refused(r"by hand to .*toy\.txt", fetch, "toy")
    assert set(visible(toy)) <= {"toy.txt.part"}
    gc.collect()  # a connection that is left open is a warning, and so an error
    server.answer = lambda _request: [answer()]
    fetch("toy")
    assert (toy / "toy.txt").read_bytes() == TEXT


@pytest.mark.parametrize("kind", GIVEN)
def test_a_good_answer_is_taken(toy, server, kind):
    server.answer = lambda _request: GIVEN[kind]
    fetch("toy")
    assert (toy / "toy.txt").read_bytes() == TEXT


@pytest.mark.parametrize("status", ["206 Partial Content", "200 OK"])
@pytest.mark.parametrize("sent", [TEXT[500:], TEXT[501:], TEXT[:-500], TEXT, b"", b"x" * len(TEXT[500:])])
def test_a_part_is_continued_by_what_fits_and_by_no_other(toy, server, sent, status):
    toy.mkdir(parents=True)
    (toy / "toy.txt.part").write_bytes(TEXT[:500])
    asked_for_a_part = iter([answer(sent, status, Content_Range="bytes 500-1800/1801")])
    server.answer = lambda request: [
        next(asked_for_a_part, answer()) if b"range:" in request.lower() else answer()
    ]
    fetch("toy")
    assert (toy / "toy.txt").read_bytes() == TEXT
