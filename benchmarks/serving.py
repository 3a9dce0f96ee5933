"""How soon a server of a campaign answers 100 people at once, beside a plain tornado handler.

    python benchmarks/serving.py [--subjects 100] [--pages 20] [--pauses 0 2] [--seed 0]

Each subject has a connection of its own and answers pages of ten passages: asks for the page, fills it in,
sends the form, follows to the next page. With a pause, a subject takes so many seconds for a page on
average (uniformly drawn, from none to twice as many); without, the next request follows at once, which no
person does. `form`: one request sends ten answers, as without a script. `script`: each answer is sent by
itself, at once, and then the page.

The peer is a tornado handler that shows one page of the same size and writes what a form holds into a table
of SQLite, flushed to the disk before it answers, with no assignment, subjects, checks or headers. Server and
clients share the processors; the load of the machine is printed. Afterwards every acknowledged answer is
looked up in the database.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import numpy as np
from _report import Row, tell

import workbench as wb
from workbench.items.items import Items
from workbench.people import Campaign
from workbench.server.handlers import fill_template

FORM = "application/x-www-form-urlencoded"
FIELD = re.compile(r'name="((?:guess|shown|seconds)-(\d+)(?:-\d+)?)" (?:aria[^>]*?)?value="([^"]*)"')
PER_PAGE = 10
GOAL, SUBJECTS = 200.0, 100  # ms for a page, of so many subjects who take their time


def campaign(path: Path, n: int) -> Campaign:
    """Make a campaign of the sample's passages, each as often as is needed."""
    sample = list(wb.load("sample", "dev"))
    records = (replace(sample[k % len(sample)], item_id=f"{k:06d}") for k in range(n))
    return Campaign.create(path, Items.from_records(records), protocol="lambada")


def peer(path: str, page: str) -> None:
    """Serve one page, and write what is sent: the plain handler, in the event loop."""
    from tornado.web import Application, RequestHandler  # noqa: PLC0415 - in a process of its own

    html = Path(page).read_text(encoding="utf-8")
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE answers (subject TEXT, page TEXT, field TEXT, guess TEXT)")

    class Plain(RequestHandler):  # type: ignore[misc,unused-ignore]
        def get(self) -> None:
            self.finish(html)

        def post(self) -> None:
            subject = self.get_cookie("subject")
            words = [
                (subject, self.request.path, name, word)
                for name in self.request.body_arguments
                if name.startswith("guess")
                for word in self.get_body_arguments(name)
            ]
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT INTO answers VALUES (?, ?, ?, ?)", words)
            connection.execute("COMMIT")
            if self.get_body_argument("save", "") == "send":
                self.redirect("/page", status=303)
            else:
                self.finish({"finished": True})

    async def run() -> None:
        server = Application([(r"/page.*", Plain)], log_function=lambda _: None).listen(0, "127.0.0.1")
        [listening] = server._sockets.values()  # noqa: SLF001 - tornado tells no other way
        print(f"http://127.0.0.1:{listening.getsockname()[1]} ", flush=True)
        await asyncio.Event().wait()

    asyncio.run(run())


@contextmanager
def served(*arguments: str) -> Iterator[str]:
    """Run a server in a process of its own; give its address."""
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True)  # noqa: S603
    assert process.stdout is not None
    try:
        url = None
        for line in process.stdout:
            if match := re.match(r"(http://\S+) ", line):
                url = match[1]
                break
        assert url, "the server did not start"
        yield url
    finally:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        process.kill()
        process.wait()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"    processor time of the server, start included: {seconds:.1f} s")
        process.stdout.close()


@dataclass
class Times:
    """Seconds that requests took, by kind, and the words that were acknowledged."""

    taken: dict[str, list[float]] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)

    def add(self, kind: str, start: float) -> None:
        """Note a request that ends now."""
        self.taken.setdefault(kind, []).append(time.perf_counter() - start)


class Client:
    """One connection that is kept open, as a browser keeps it."""

    def __init__(self, url: str) -> None:
        self.host, self.port = urlsplit(url).hostname or "", urlsplit(url).port
        self.cookies: dict[str, str] = {}

    async def open(self) -> None:
        """Connect."""
        self.reader, self.writer = await asyncio.open_connection(self.host, self.port)

    async def ask(self, method: str, path: str, body: str = "") -> tuple[int, str]:
        """Send a request; return status and text of the answer."""
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        head = f"{method} {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\nCookie: {cookies}\r\n"
        if method == "POST":
            head += f"Content-Type: {FORM}\r\nContent-Length: {len(body)}\r\n"
        self.writer.write(f"{head}\r\n{body}".encode())
        first, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        length = 0
        for line in lines:
            name, _, value = line.partition(": ")
            if name == "Content-Length":
                length = int(value)
            elif name == "Set-Cookie":
                key, _, content = value.partition(";")[0].partition("=")
                self.cookies[key] = content
        return int(first.split()[1]), (await self.reader.readexactly(length)).decode()


async def person(url: str, name: str, token: str | None, times: Times, options: argparse.Namespace) -> None:
    """Answer pages as one subject."""
    drawn, client = random.Random(f"{options.seed} {name}"), Client(url)  # noqa: S311 - pauses
    client.cookies["subject"] = name
    await client.open()
    xsrf = ""
    if token is not None:
        _, text = await client.ask("GET", f"/start/{token}")
        xsrf = text.partition('name="_xsrf" value="')[2].partition('"')[0]
        status, _ = await client.ask("POST", "/sign-in", urlencode({"_xsrf": xsrf, "token": token}))
        assert status == 303, status  # noqa: PLR2004 - to the first page
    _, text = await client.ask("GET", "/page")
    await asyncio.sleep(drawn.uniform(0, options.pause))  # people do not start together
    for number in range(options.pages):
        action = text.partition('<form method="post" action="/page')[2].partition('"')[0]
        fields = {key: value for key, _, value in FIELD.findall(text)}
        guesses = {key: f"{name}-{number}-{key.split('-')[1]}" for key in fields if key.startswith("guess")}
        assert len(guesses) == PER_PAGE, text
        path = f"/page{action}"
        if options.mode == "script":
            for key, word in guesses.items():
                await asyncio.sleep(drawn.uniform(0, 2 * options.pause / PER_PAGE))
                place = key.split("-")[1]
                one = {"_xsrf": xsrf, "place": place, "shown": fields[f"shown-{place}"], "guess": word}
                start = time.perf_counter()
                status, _ = await client.ask("POST", f"{path}/answer", urlencode(one))
                times.add("answer", start)
                assert status == 200, status  # noqa: PLR2004 - saved
                times.words.append(word)
            body = {"_xsrf": xsrf, "save": "send"}
        else:
            await asyncio.sleep(drawn.uniform(0, 2 * options.pause))
            body = {"_xsrf": xsrf, "save": "send", **fields, **guesses}
        start = time.perf_counter()
        status, _ = await client.ask("POST", path, urlencode(body))
        assert status == 303, status  # noqa: PLR2004 - to the next page
        if options.mode == "form":
            times.words += guesses.values()
        shown = time.perf_counter()
        _, text = await client.ask("GET", "/page")
        times.add("page", shown)
        times.add("form and next page", start)
    client.writer.close()


async def people(url: str, tokens: dict[str, str | None], options: argparse.Namespace) -> tuple[Times, float]:
    """Let all subjects answer at the same time; return the times and the seconds in all."""
    times, start = Times(), time.perf_counter()
    await asyncio.gather(*(person(url, name, token, times, options) for name, token in tokens.items()))
    return times, time.perf_counter() - start


def report(title: str, times: Times, seconds: float) -> None:
    """Print what a run took."""
    print(f"{title}: {len(times.words):,} answers in {seconds:.1f} s; load {os.getloadavg()[0]:.1f}")
    for kind, taken in times.taken.items():
        median, high, most = (1000 * np.quantile(taken, share) for share in (0.5, 0.95, 1))
        print(f"    {kind:<20} {len(taken):>6,}  median {median:7.1f} ms  p95 {high:7.1f}  max {most:7.1f}")


def main() -> None:
    """Run the server and the peer, one after the other, with the same people."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--subjects", type=int, default=SUBJECTS)
    parser.add_argument("--pages", type=int, default=20)
    parser.add_argument("--pauses", type=float, nargs="+", default=[2.0, 0.0])
    parser.add_argument("--modes", nargs="+", default=["form", "script"])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(f"{options.subjects} subjects, {options.pages} pages of {PER_PAGE}; tornado {version('tornado')}, "
          f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for pause in options.pauses:
            options.pause = pause
            for mode in options.modes:
                options.mode = mode
                compare(Path(tempfile.mkdtemp(dir=folder)), options)


def compare(folder: Path, options: argparse.Namespace) -> None:
    """Time one mode, with both servers."""
    made = campaign(folder / "campaign.db", (options.pages + 2) * PER_PAGE * options.subjects)
    tokens: dict[str, str | None] = {
        subject.name: subject.token
        for subject in (made.add_subject(f"s{k}") for k in range(options.subjects))
    }
    page = made.next_page(made.add_subject("example").id)
    assert page is not None
    values = {
        "lines": ["word " * 30],
        "lease": "1 hour",
        "n_finished": 0,
        "focus": 0,
        "drafts": {},
        "problems": {},
    }
    html = folder / "page.html"
    html.write_text(fill_template(
        "tasks.html", page=page, thing="passage", notice=None, subject=None, xsrf="", **values
    ))  # fmt: skip
    title = f"{options.mode}, {options.pause:g} s a page"
    with served("-c", "import sys; from workbench.cli import main; sys.exit(main())", "serve",
                str(made.path), "--port", "0") as url:  # fmt: skip
        times, seconds = asyncio.run(people(url, tokens, options))
    report(f"{title}, workbench", times, seconds)
    saved = sorted(words[0] for words in made.judgments()["guesses"])
    lost = len(set(times.words) - set(saved))
    print(f"    {lost} acknowledged answers lost, {len(saved) - len(set(saved))} saved twice")
    assert sorted(times.words) == saved
    names = dict.fromkeys(tokens)
    with served(__file__, "--peer", str(folder / "peer.db"), str(html)) as url:
        plain, seconds = asyncio.run(people(url, names, options))
    report(f"{title}, plain tornado", plain, seconds)
    for kind, taken in times.taken.items():
        print(f"    {kind}: {np.median(taken) / np.median(plain.taken[kind]):.1f} times the peer's median")
        high, its = (1000 * float(np.percentile(each, 95)) for each in (taken, plain.taken[kind]))
        goal = GOAL if options.pause and options.subjects >= SUBJECTS and kind != "answer" else None
        tell(
            Row(
                f"{kind}, p95; {options.subjects} subjects, {title}",
                high,
                "ms",
                peer="plain tornado",
                theirs=its,
                goal=goal,
            )
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peer"]:
        peer(sys.argv[2], sys.argv[3])
    else:
        main()
