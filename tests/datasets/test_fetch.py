"""Data sets that are fetched: the right file, or one DataError."""

import gc
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest
from refused import refused

from workbench.datasets import fetch as fetching
from workbench.datasets import sources
from workbench.datasets.fetch import fetch

CONTENT = bytes(range(256)) * 1000
SUM = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def server():
    """Serve `content`; the `statuses` say what the first requests are answered with."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.server.requests.append(self.path)
            status = self.server.statuses.pop(0) if self.server.statuses else 200
            status = 404 if self.path == "/missing" else status
            body = self.server.content if status == 200 else b""
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as served:
        served.requests, served.statuses, served.content = [], [], CONTENT
        threading.Thread(target=served.serve_forever, args=(0.01,), daemon=True).start()
        yield served
        served.shutdown()


@pytest.fixture
def register(monkeypatch, tmp_path, server):
    """Return a function that puts a data set `toy` of one file into a registry of its own."""
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("pooch.core.time", SimpleNamespace(sleep=lambda _: None))

    def write(name="toy.bin", paths=("/toy",), *, manual=""):
        addresses = [f"http://127.0.0.1:{server.server_port}{path}" for path in paths]
        entry = {"title": "A toy", "licence": "CC0-1.0", "citation": "Toy et al.", "about": "Bytes."}
        entry |= {"manual": manual, "patterns": ["toy*.bin"]} if manual else {}
        file = {"name": name, "addresses": addresses, "about": "bytes"}
        file |= {"bytes": len(server.content), "sha256": hashlib.sha256(server.content).hexdigest()}
        tables = {"[toy]": entry, "[[toy.files]]": file}
        path = tmp_path / "registry.toml"
        with path.open("w", encoding="utf-8") as out:
            for head, values in tables.items():
                out.writelines([f"{head}\n", *(f'"{k}" = {json.dumps(v)}\n' for k, v in values.items())])
        monkeypatch.setattr(sources, "resource", lambda *_: path)
        return tmp_path / "home" / "raw" / "toy"

    return write


def visible(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_fetched_once_with_its_terms(register, server, capsys):
    folder = register()
    assert fetch("toy") == folder
    assert (folder / "toy.bin").read_bytes() == CONTENT
    assert (folder / "toy.bin").stat().st_mode & 0o777 == 0o644
    assert visible(folder) == ["LICENCE.txt", "toy.bin"]
    assert "CC0-1.0" in (folder / "LICENCE.txt").read_text(encoding="utf-8")
    output = capsys.readouterr().out
    assert SUM in output
    assert output.count("Toy et al.") == 1
    fetch("toy")
    assert len(server.requests) == 1
    assert "Toy et al." not in capsys.readouterr().out
    (folder / "toy.bin").write_bytes(b"spoilt" + CONTENT[6:])
    fetch("toy")
    assert (folder / "toy.bin").read_bytes() == CONTENT


def test_a_file_with_another_checksum_is_refused(register, server):
    folder = register()
    folder.mkdir(parents=True)
    (folder / "toy.bin").write_bytes(b"mine")
    server.content = b"x" * len(CONTENT)
    error = refused(fetch, "toy")
    other = hashlib.sha256(server.content).hexdigest()
    for part in (SUM, other, "from the beginning", str(folder / "toy.bin")):
        assert part in str(error)
    assert visible(folder) == ["toy.bin"]
    assert (folder / "toy.bin").read_bytes() == b"mine"


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # pooch does not close the answers that are errors
@pytest.mark.parametrize("paths", [("/toy",), ("/missing", "/toy")])
def test_a_server_error_is_tried_again_and_then_the_next_address(register, server, paths):
    folder = register(paths=paths)
    server.statuses = [503, 503]
    fetch("toy")
    assert (folder / "toy.bin").read_bytes() == CONTENT
    n_missing = 1 + fetching.RETRIES if "/missing" in paths else 0
    assert server.requests == ["/missing"] * n_missing + ["/toy"] * (1 if n_missing else 3)
    gc.collect()


def test_without_a_network_there_is_one_error(register, server):
    folder = register()
    server.server_close()
    refused(fetch, "toy")
    assert visible(folder) == []


def test_a_dry_run_changes_nothing(register, server, tmp_path, capsys):
    register()
    before = sorted(tmp_path.rglob("*"))
    assert fetch("toy", dry_run=True, folder=str(tmp_path / "elsewhere")) == tmp_path / "elsewhere"
    assert sorted(tmp_path.rglob("*")) == before
    assert server.requests == []
    plan = capsys.readouterr().out
    for part in ("/toy", "256,000", "elsewhere", "CC0-1.0", "to be fetched"):
        assert part in plan


def test_what_has_no_address_is_got_by_hand(register, capsys):
    folder = register(paths=(), manual="ask Toy for toy.bin; put it")
    assert str(folder) in str(refused(fetch, "toy"))
    fetch("toy", dry_run=True)
    assert "ask Toy" in capsys.readouterr().out
    folder.mkdir(parents=True)
    (folder / "toy (1).bin").write_bytes(b"whatever Toy gave")
    assert fetch("toy") == folder
    assert "Toy et al." in (folder / "LICENCE.txt").read_text(encoding="utf-8")


def test_the_registry_is_complete():
    registry = {name: fetching.entry_of(name) for name in sources.registry()}
    assert {"lambada", "lambada-openai", "cbt", "cnnqa", "msrcc", "sample"} <= set(registry)
    for name, entry in registry.items():
        assert all([name, entry.licence, entry.citation.strip(), entry.about])
        assert entry.files or entry.shipped
        assert bool(entry.manual) != (entry.published or bool(entry.shipped))
        sums = [s for r in entry.files for s in (r.sha256, *r.members.values()) if s]
        assert all(len(s) == 64 and set(s) <= set("0123456789abcdef") for s in sums)
        assert all(remote.bytes and remote.sha256 for remote in entry.files if remote.addresses)
