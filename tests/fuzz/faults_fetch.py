"""Kill downloads: at any moment, the next call has the right files, goes on, and leaves nothing else."""

import contextlib
import hashlib
import io
import json
import os
import random
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from unittest import mock

from workbench.datasets import fetch as fetching
from workbench.datasets import sources

ROOT = Path(__file__).resolve().parents[2]
PLAIN = random.Random(0).randbytes(1 << 20)  # noqa: S311 - content, no secret
INSIDE = {f"Toy/{n}.txt": PLAIN[n << 15 : n + 1 << 15] for n in range(30)}
PATIENCE = 1800  # seconds until something counts as a hang
BLOCK = 1 << 14
SCRIPT = """
import sys
from pathlib import Path
from workbench.datasets import fetch as fetching, sources
sources.resource = lambda *_: Path(sys.argv[1])
print("ready", flush=True)
fetching.fetch("toy", folder=sys.argv[2], progress=False)
"""


def packed():
    """Return an archive of the toy's files, the same bytes every time."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, content in INSIDE.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return data.getvalue()


FILES = {"/toy.bin": PLAIN, "/toy.tar": packed()}
TOTAL = sum(map(len, FILES.values()))


class Server(ThreadingHTTPServer):
    """Serves the toy, a block at a time; `reached` is set after `watched` bytes, and there it may pause."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked = []
        self.watch(None)

    def handle_error(self, *_):
        pass  # the client was killed

    def watch(self, watched, *, pause=False):
        """Count the bytes from now on."""
        self.served, self.watched, self.pause = 0, watched, pause
        self.reached, self.go_on = threading.Event(), threading.Event()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        server, content = self.server, FILES[self.path]
        reached, go_on = server.reached, server.go_on
        start = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").rstrip("-"))
        server.asked.append((self.path, start))
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        for place in range(start, len(content), BLOCK):
            if server.watched is not None and server.served >= server.watched:
                reached.set()
                if server.pause:
                    go_on.wait(PATIENCE)
                    return
            self.wfile.write(content[place : place + BLOCK])
            server.served += BLOCK
        if server.watched is not None and server.served >= server.watched:
            reached.set()


class Toy:
    """A data set of a file and an archive, on a server of this machine, in folders of its own."""

    def __init__(self, home, server):
        self.server, self.registry, self.folder = server, home / "registry.toml", home / "toy"
        lines = ['[toy]\ntitle = "A toy"\nlicence = "CC0-1.0"\ncitation = "Toy"\nabout = "Toy"']
        for path, content in FILES.items():
            known = {
                "name": path[1:],
                "addresses": [f"http://127.0.0.1:{server.server_port}{path}"],
                "bytes": len(content),
                "sha256": hashlib.sha256(content).hexdigest(),
            }
            lines += ["[[toy.files]]", *(f"{key} = {json.dumps(value)}" for key, value in known.items())]
        self.registry.write_text("\n".join([*lines, "unpack = true"]), encoding="utf-8")

    def kill(self, watched, *, pause=False, delay=0.0):
        """Start a download in a process of its own and kill it after so many bytes and seconds."""
        self.server.watch(watched, pause=pause)
        command = [sys.executable, "-c", SCRIPT, str(self.registry), str(self.folder)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_PROXY": "*"}
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            until = time.monotonic() + PATIENCE
            while process.poll() is None and time.monotonic() < until and not self._reached():
                self.server.reached.wait(0.05)
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
        self.server.go_on.set()

    def _reached(self):
        """Tell whether the moment has come: with a pause, what was served is also written."""
        written = sum(path.stat().st_size for path in self.folder.glob("toy.*"))
        return self.server.reached.is_set() and not (self.server.pause and written < self.server.watched)

    def fetch(self):
        """Download what is missing in this process; return what is wrong afterwards."""
        parts = {f"/{path.stem}": path.stat().st_size for path in self.folder.glob("*.part")}
        there = {path for path in FILES if (self.folder / path[1:]).exists()}
        self.server.watch(None)
        self.server.asked.clear()
        with (
            contextlib.redirect_stdout(io.StringIO()),
            mock.patch.dict(os.environ, {"NO_PROXY": "*"}),
            mock.patch.object(sources, "resource", return_value=self.registry),
        ):
            fetching.fetch("toy", folder=self.folder, progress=False)
        wrong = [
            f"{path} is asked for although it is there" for path, _ in self.server.asked if path in there
        ]
        wrong += [
            f"{path} is asked for from {start:,}, and {parts.get(path, 0):,} bytes were there"
            for path, start in self.server.asked
            if start != parts.get(path, 0)
        ]
        expected = {name.lstrip("/"): content for name, content in (FILES | INSIDE).items()}
        known = {"LICENCE.txt", ".fetched.json", ".fetch.lock", "Toy"}
        actual = {path.relative_to(self.folder).as_posix(): path for path in self.folder.rglob("*")}
        wrong += [f"{name} is left" for name in actual.keys() - expected.keys() - known]
        return wrong + [
            f"{name} is not what it should be"
            for name, content in expected.items()
            if name not in actual or actual[name].read_bytes() != content
        ]


@contextlib.contextmanager
def toy():
    """Yield a toy on a server that runs meanwhile."""
    with tempfile.TemporaryDirectory(prefix="workbench-fetch-") as home, Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield Toy(Path(home), server)
        finally:
            server.shutdown()
            thread.join()


def run(minutes, seed):
    """Kill downloads at random moments for so many minutes; return the number of kills and the failures."""
    tried, failures, draw = 0, [], random.Random(seed)  # noqa: S311 - no secret
    end = time.monotonic() + 60 * minutes
    while time.monotonic() < end:
        with toy() as one:
            kills = draw.choice((1, 1, 1, 2, 3))
            moments = [(draw.randrange(0, TOTAL + BLOCK, BLOCK), draw.uniform(0, 0.06)) for _ in range(kills)]
            for watched, delay in moments:
                one.kill(watched, delay=delay)
                tried += 1
            try:
                wrong = one.fetch()
            except Exception as error:  # noqa: BLE001 - any is a failure
                wrong = [repr(error)]
            failures += [f"seed {seed}, killed at {moments}: {problem}" for problem in wrong]
    return tried, failures


if __name__ == "__main__":
    print(run(float(sys.argv[1]), int(sys.argv[2])))  # noqa: T201 - a script
