"""A server that is killed and started again, under people who go on: no acknowledged answer is lost."""

import http.client
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
from campaign_server import Client
from patience import PATIENCE

import workbench as wb
from workbench.people import Campaign, Protocol, ProtocolStep

MAIN = "import sys; from workbench.cli import main; sys.exit(main())"
ANY = Protocol("any", (ProtocolStep("passage", people=4),))  # no item stops early
ADDRESS = re.compile(r"(http://127\.0\.0\.1:(\d+)) ")


def serve(path, port=0, *options):
    """Start a server; return its process and address."""
    command = [sys.executable, "-c", MAIN, "serve", str(path), "--port", str(port), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in process.stdout:
        if match := ADDRESS.match(line):
            return process, match[1]
    pytest.fail(process.stderr.read())


def end(process, number=signal.SIGKILL):
    process.send_signal(number)
    return process.communicate(timeout=PATIENCE)


class Person(threading.Thread):
    """Somebody who answers pages, and sends again what was not acknowledged."""

    def __init__(self, url, subject, n_pages, seed):
        super().__init__()
        self.client, self.subject, self.n_pages = Client(url), subject, n_pages
        self.drawn = random.Random(seed)  # noqa: S311 - a test
        self.acknowledged = []

    def insist(self, call, *arguments):
        while True:
            try:
                return call(*arguments)
            except (OSError, http.client.HTTPException):
                self.client.close()
                time.sleep(0.1)  # leaves the processor to the server that starts

    def run(self):
        self.insist(self.client.sign_in, self.subject.token)
        for turn in range(self.n_pages):
            page = self.insist(self.client.get, "/page")
            path = re.search(r'action="(/page/\d+)"', page.text)[1]
            words = {place: f"{self.subject.id}-{turn}-{place}" for place in range(10)}
            for place in self.drawn.sample(range(10), self.drawn.randrange(11)):
                fields = {"place": place, "guess": words[place]}
                answered = self.insist(self.client.post, f"{path}/answer", fields)
                assert answered.status == 200, answered.text
                self.acknowledged.append(words[place])
            fields = [(f"guess-{place}-0", word) for place, word in words.items()]
            assert self.insist(self.client.post, path, [*fields, ("save", "send")]).status == 303
            self.acknowledged += words.values()
        self.client.close()


def test_a_killed_server_loses_no_acknowledged_answer(tmp_path):
    drawn = random.Random(0)  # noqa: S311 - a test
    campaign = Campaign.create(tmp_path / "c.db", wb.load("sample", "dev").sample(90), ANY)
    process, url = serve(campaign.path)
    people = [Person(url, campaign.add_subject(), 2, k) for k in range(6)]
    for person in people:
        person.start()
    killed = 0
    for goal in sorted(drawn.sample(range(1, 100), 2)):
        while len(campaign.judgments()) < goal and any(person.is_alive() for person in people):
            people[0].join(0.01)
        end(process)
        killed += 1
        process, _ = serve(campaign.path, url.rpartition(":")[2])
    for person in people:
        person.join(300)
    end(process)
    saved = campaign.judgments()["prediction"].tolist()
    acknowledged = {word for person in people for word in person.acknowledged}
    assert killed == 2
    assert len(acknowledged) == 6 * 2 * 10
    assert sorted(saved) == sorted(acknowledged)
    assert campaign.subjects()["n_pages"].tolist() == [2] * 6
    campaign.close()


def test_the_server_ends_in_order_and_warns_where_others_reach_it(tmp_path):
    campaign = Campaign.create(tmp_path / "c.db", wb.load("sample", "dev").sample(3))
    campaign.close()
    for number in (signal.SIGTERM, signal.SIGINT):
        process, _ = serve(campaign.path)
        out, errors = end(process, number)
        assert (process.returncode, out, errors) == (0, "stopped\n", "")
    command = [sys.executable, "-c", MAIN, "serve", str(campaign.path), "--port", "0", "--ip", "0.0.0.0"]  # noqa: S104
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    line = process.stderr.readline()
    end(process)
    assert "other machines can reach this server" in line
    assert "unencrypted" in line
