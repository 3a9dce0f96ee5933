import hashlib
import json
import os
import re
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import builders as b
import pytest
from patience import PATIENCE
from refused import refused
from small_disks import small_disk

from workbench.datasets import fetch as fetching
from workbench.datasets import sources
from workbench.datasets.fetch import fetch
from workbench.storage import files

CONTENT = b"".join(hashlib.sha256(b"%d" % i).digest() for i in range(20_000))  # 640,000 bytes
SUM = hashlib.sha256(CONTENT).hexdigest()
CHUNK = fetching._CHUNK


class Server(ThreadingHTTPServer):
    """Serves `content`, as badly as `manner` says; keeps what was asked for."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.content, self.manner, self.asked, self.stop_at = CONTENT, "", [], 4 * CHUNK
        self.closing = threading.Event()

    def handle_error(self, *_):
        pass  # a client that goes away is part of the tests

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        manner, wanted = self.server.manner, self.headers.get("Range")
        self.server.asked.append((self.path, wanted))
        if "missing" in manner or self.path.startswith("/missing"):
            self.answer(404)
        elif "busy" in manner and len(self.server.asked) < 3:
            self.answer(503)
        elif self.path.startswith("/moved"):
            self.answer(302, Location=self.path.replace("/moved", "/there"))
        elif "silent" in manner:
            self.server.closing.wait(PATIENCE)
        else:
            ranges = wanted and "no ranges" not in manner
            self.send(int(wanted.removeprefix("bytes=").rstrip("-")) if ranges else 0)

    def answer(self, code, length=0, **headers):
        self.send_response(code)
        for name, value in {"Content-Length": length, **headers}.items():
            if value is not None:
                self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()

    def send(self, start):
        manner, content = self.server.manner, self.server.content
        if start >= len(content):
            self.answer(416, Content_Range=f"bytes */{len(content)}")
            return
        part = f"bytes {start}-{len(content) - 1}/{len(content)}" if start else None
        self.answer(206 if start else 200, len(content) - start, Content_Range=part)
        self.close_connection = manner != ""
        if "breaks once" in manner or "stalls" in manner:
            self.wfile.write(content[start:] if start else content[: self.server.stop_at])
            if "stalls" in manner and not start:
                self.server.closing.wait(PATIENCE)
        else:
            self.wfile.write(content[start : start + CHUNK] if "breaks" in manner else content[start:])


@pytest.fixture
def server():
    with Server() as served:
        thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield served
        served.closing.set()
        served.shutdown()
        thread.join()


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
        path.write_text(
            "\n".join(
                line
                for head, values in tables.items()
                for line in (head, *(f'"{k}" = {json.dumps(v)}' for k, v in values.items() if v is not None))
            ),
            encoding="utf-8",
        )
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
