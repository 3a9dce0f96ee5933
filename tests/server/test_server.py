"""The server of a campaign: what it shows, takes and refuses, over real HTTP."""

import asyncio
import html
import json
import os
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from campaign_server import Client, running
from patience import PATIENCE
from refused import refused

import workbench as wb
from workbench.items.items import Items
from workbench.people import Campaign, Protocol, ProtocolStep
from workbench.server.service import WrongTokens
from workbench.server.serving import start
from workbench.storage.errors import DataError


@pytest.fixture
def serve(tmp_path, items):
    """Give a function that serves a new campaign, and one that signs a new subject in."""
    with ExitStack() as stack:

        def of(protocol="lambada", chosen=items, **settings):
            campaign = Campaign.create(tmp_path / "campaign.db", chosen, protocol, **settings)
            stack.callback(campaign.close)
            server = stack.enter_context(running(campaign))

            def sign_in(name=None):
                subject = campaign.add_subject(name)
                client = Client(server.url, subject.token)
                stack.callback(client.close)
                client.subject = subject
                return client

            def stranger():
                client = Client(server.url)
                stack.callback(client.close)
                return client

            campaign.stranger, campaign.server = stranger, server
            return campaign, sign_in

        yield of


def opened(served):
    """Sign a subject in; return the campaign, the subject's browser and the first page."""
    campaign, sign_in = served
    ada = sign_in()
    return campaign, ada, ada.get("/page")


def number(page):
    return int(re.search(r'action="/page/(\d+)"', page.text)[1])


def send(client, fields, page, save="send", **more):
    return client.ask("POST", f"/page/{page}", [*fields, ("save", save), *more.items()])


def test_a_form_is_sent_and_the_next_page_is_shown(serve):
    campaign, sign_in = serve()
    ada = sign_in("Ada <b>")
    assert "Ada &lt;b&gt;" in ada.get("/").text
    page = ada.get("/page")
    assert page.status == 200
    assert len([name for name, _ in page.fields if name.startswith("guess")]) == 10
    assert ada.get("/page").text.count("guess-0-0") == page.text.count("guess-0-0")  # the same page
    answered = send(ada, ada.fill("dog", page), number(page), **{"seconds-0": "2.5"})
    assert (answered.status, answered.headers["Location"]) == (303, "/page")
    rows = campaign.judgments()
    assert rows["prediction"].tolist() == ["dog"] * 10
    assert rows["name"].unique().tolist() == ["Ada <b>"]
    second = ada.get("/page")
    assert number(second) == number(page) + 1
    shown = {row["item_id"] for row in campaign.states().to_dict("records") if row["state"] == "dropped"}
    assert shown == set(rows["item_id"])
    assert not shown & {task.item_id for task in campaign.next_page(ada.subject.id).tasks}


def test_no_page_holds_an_answer_or_an_id(serve, items):
    campaign, sign_in = serve()
    ada = sign_in()
    text = ada.get("/page").text
    shown = {task.item_id: task for task in campaign.next_page(ada.subject.id).tasks}
    assert len(shown) == 10
    for item in items:
        assert item.item_id not in text
        if task := shown.get(item.item_id):
            assert f"{task.query[0]}<span" in html.unescape(text)  # the blank is where the answer stood
            assert f"{task.query[0]}{item.answer}" not in html.unescape(text)


def test_a_form_that_is_sent_twice_changes_nothing(serve):
    campaign, ada, page = opened(serve())
    fields, place = ada.fill("dog", page), number(page)
    assert [send(ada, fields, place).status for _ in range(3)] == [303] * 3
    assert len(campaign.judgments()) == 10
    changed = [(name, "cat" if name == "guess-3-0" else value) for name, value in fields]
    again = send(ada, changed, place)
    assert again.status == 409
    assert again.words.count("the first answer counts") == 1
    assert campaign.judgments()["prediction"].tolist() == ["dog"] * 10


def test_the_page_of_another_subject_is_refused_by_name(serve):
    campaign, sign_in = serve()
    ada, ben = sign_in(), sign_in()
    page = ada.get("/page")
    ben.get("/page")
    fields = [(name, value) for name, value in ben.fill("dog", page) if name != "_xsrf"]
    answer = ben.post(f"/page/{number(page)}", [*fields, ("save", "send")])
    assert (answer.status, "belongs to somebody else" in answer.words) == (403, True)
    told = ben.post(f"/page/{number(page)}/answer", {"place": "0", "guess": "dog"})
    assert (told.status, json.loads(told.text)["reason"]) == (403, "page of another subject")
    told = ben.post("/page/99/answer", {"place": "0", "guess": "dog"})
    assert (told.status, json.loads(told.text)["reason"]) == (404, "unknown page")
    assert len(campaign.judgments()) == 0


def test_one_answer_is_saved_at_once(serve):
    campaign, ada, page = opened(serve())
    place = number(page)
    path = f"/page/{place}/answer"
    task = {"place": "3", "guess": "dog", "shown": "", "seconds": "1.5"}
    for _ in range(2):
        told = ada.post(path, task)
        assert (told.status, json.loads(told.text)) == (200, {"finished": True, "sentences": []})
    assert campaign.judgments()[["prediction", "response_time"]].to_numpy().tolist() == [["dog", 1.5]]
    refusals = {
        "answered before": task | {"guess": "cat"},
        "wrong context": {"place": "4", "guess": "dog", "shown": "99"},
        "item not on the page": {"place": "10", "guess": "dog"},
        "invalid guess": {"place": "4"},
    }
    for reason, fields in refusals.items():
        told = ada.post(path, fields)
        assert json.loads(told.text)["reason"] == reason
        assert told.status >= 400
    assert ada.post(path, {"guess": "dog"}).status == 400
    page = ada.get("/page")
    assert "Saved: dog" in page.words
    assert "guess-3-0" not in page.text
    assert "1 of 10 saved" in page.words


def test_what_is_missing_is_asked_for_and_what_is_typed_stays(serve):
    campaign, ada, page = opened(serve())
    fields = [(name, "dog" if name == "guess-1-0" else value) for name, value in page.fields if name]
    again = send(ada, fields, number(page))
    assert again.status == 422
    assert "no word yet for 1, 3, 4, 5, 6, 7, 8, 9, 10" in again.words
    assert "1 of 10 saved" in again.words
    typed = [(name, "cat" if name == "guess-4-0" else value) for name, value in again.fields if name]
    nothing = send(ada, typed, number(page), save="2")
    assert (nothing.status, "There is no word yet." in nothing.words) == (422, True)
    assert nothing.field("guess-4-0") == "cat"
    assert len(campaign.judgments()) == 1
    one = send(ada, typed, number(page), save="4")
    assert (one.status, "Saved: cat" in one.words) == (200, True)
    rest = [(name, value) for name, value in one.fields if name]
    assert send(ada, rest, number(page), empty="1").status == 303
    assert sorted(campaign.judgments()["prediction"]) == [""] * 8 + ["cat", "dog"]


def test_enter_without_a_script_saves_only_what_is_complete(serve):
    campaign, ada, page = opened(serve(people=(1, 1, 2), guesses=(3, 3, 3)))
    words = {"guess-0-0": "a", "guess-0-1": "b", "guess-0-2": "c", "guess-1-0": "d"}
    fields = [(name, words.get(name, value)) for name, value in page.fields if name]
    again = send(ada, fields, number(page), save="filled")
    assert again.field("guess-1-0") == "d"
    assert campaign.judgments()["guesses"].tolist() == [["a", "b", "c"]]
    send(ada, [(name, value) for name, value in again.fields if name], number(page), save="1")
    assert campaign.judgments()["guesses"].tolist()[1] == ["d"]


def test_unfolding_shows_one_sentence_more_after_each_wrong_guess(serve, items):
    campaign, ada, page = opened(serve("unfolding", people=1, per_page=1))
    [task] = campaign.next_page(ada.subject.id).tasks
    item = next(item for item in items if item.item_id == task.item_id)
    for shown in range(len(item.context)):
        assert page.field("shown-0") == str(shown)
        if shown % 2:
            told = ada.post(
                f"/page/{number(page)}/answer", {"place": "0", "guess": "zzz", "shown": str(shown)}
            )
            assert len(json.loads(told.text)["sentences"]) == shown + 1
            page = ada.get("/page")
        else:
            page = send(ada, page.fields, number(page), save="0")  # nothing typed: no idea
            assert page.status == 200
        assert "One sentence more is shown" in page.words
    assert send(ada, ada.fill(item.answer, page), number(page)).status == 303
    assert campaign.judgments()["correct"].tolist() == [False] * len(item.context) + [True]
    assert campaign.judgments()["guesses"].tolist()[:2] == [[""], ["zzz"]]


def test_candidates_are_chosen(serve):
    questions = wb.load("sample", variant="cbt")[:3]
    campaign, ada, page = opened(serve("cbt", questions, people=1))
    tasks = campaign.next_page(ada.subject.id).tasks
    for task in tasks:
        assert all(word in page.words for word in task.candidates)
    fields = [(f"guess-{place}-0", task.candidates[place]) for place, task in enumerate(tasks)]
    assert ada.post(f"/page/{number(page)}/answer", {"place": "0", "guess": "none of them"}).status == 422
    assert send(ada, [*page.fields, *fields], number(page)).status == 303
    assert campaign.judgments()["prediction"].tolist() == [task.candidates[k] for k, task in enumerate(tasks)]
    assert "nothing for you to answer" in ada.get("/page").words


def test_a_page_whose_time_is_over(serve):
    campaign, sign_in = serve()
    campaign._clock = lambda: campaign.now_is
    campaign.now_is = 1000.0
    ada = sign_in()
    page = ada.get("/page")
    ada.post(f"/page/{number(page)}/answer", {"place": "0", "guess": "dog"})
    campaign.now_is += campaign.protocol.lease + 1
    fields = [(name, value) for name, value in ada.fill("dog", page) if not name.endswith("-0-0")]
    late = send(ada, fields, number(page))
    assert (late.status, "The time for this page is over" in late.words) == (410, True)
    assert len(campaign.judgments()) == 1
    following = ada.get("/page")
    assert number(following) != number(page)


PAGES = ("/", "/start/x", "/page", "/nothing", "/static/style.css", "/page/1", "/alive")


def test_every_answer_has_the_headers_that_keep_it_safe(serve):
    campaign, sign_in = serve()
    ada, stranger = sign_in(), campaign.stranger()
    for client in (ada, stranger):
        for path in PAGES:
            headers = client.get(path).headers
            policy = headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Referrer-Policy"] == "no-referrer"
            assert headers["Cache-Control"] == ("no-cache" if "static" in path else "no-store")
            assert "Server" not in headers
    for text in (*ada.set_cookies, *stranger.set_cookies):
        assert "HttpOnly" in text
        assert "SameSite=Strict" in text
    for path in ("/", "/page", "/start/x"):
        text = ada.get(path).text
        assert not re.search(r"<script>|\son\w+=|style=|https?://|//\w", text), path


def test_nobody_gets_in_without_a_token(serve):
    campaign, sign_in = serve()
    stranger = campaign.stranger()
    for path in ("/page", "/page/1"):
        assert stranger.get(path).status in {303, 403}
    assert stranger.post("/page/1", {"save": "send"}).status == 403
    assert json.loads(stranger.post("/page/1/answer", {"place": "0"}).text)["reason"] == "signed out"
    name = next(iter(sign_in().cookies))
    for value in ("x", "", "%00", "a" * 5000, '"', "é", "A" * 43):
        stranger.cookies[f"{name.removesuffix('-form')}"] = value.encode("utf-8").decode("latin-1")
        assert stranger.get("/page").status == 403
    ada = sign_in("Ada")
    token = ada.cookies[f"{name.removesuffix('-form')}"]
    assert ada.get("/page").status == 200
    assert ada.post("/sign-out", {}).status == 303
    assert ada.get("/page").status == 403
    ada.post("/sign-in", {"token": f"http://127.0.0.1:1/start/{token}/ "})  # a whole link
    assert ada.get("/page").status == 200


def test_wrong_tokens_are_limited_and_right_ones_go_on(serve):
    campaign, sign_in = serve()
    ada, stranger = sign_in(), campaign.stranger()
    statuses = [stranger.post("/sign-in", {"token": f"{k:043d}"}).status for k in range(30)]
    assert statuses[:20] == [403] * 20
    assert 429 in statuses[20:]
    waiting = stranger.post("/sign-in", {"token": "x" * 43})
    assert waiting.status == 429
    assert int(waiting.headers["Retry-After"]) >= 1
    assert ada.get("/page").status == 200


def test_wrong_tokens_lock_nobody_out_who_has_a_right_link(serve):
    """Ada has signed in nowhere before; her browser has the cookie of a campaign of last year."""
    campaign, sign_in = serve()
    stranger = campaign.stranger()
    name = next(name.removesuffix("-form") for name in sign_in().cookies)
    subject, client = campaign.add_subject("Ada"), campaign.stranger()
    for k in range(40):
        stranger.post("/sign-in", {"token": f"{k:043d}"})
    client.cookies[name] = "x" * 43
    assert [client.get("/page").status for _ in range(40)] == [403] * 40
    assert client.post("/sign-in", {"token": "y" * 43}).status == 429
    client.sign_in(subject.token)
    assert client.get("/page").status == 200
    assert stranger.post("/sign-in", {"token": "y" * 43}).status == 429


def test_wrong_tokens_are_forgiven_with_time():
    limits = WrongTokens(burst=3, pause=2.0, limit=2)
    now = 0.0
    limits.clock = lambda: now
    for _ in range(3):
        assert limits.wait("10.0.0.1") == 0
        limits.add("10.0.0.1")
    assert limits.wait("10.0.0.1") == 2.0
    assert limits.wait("10.0.0.2") == 0
    now = 2.0
    assert limits.wait("10.0.0.1") == 0
    for k in range(3):
        limits.add(f"2001:db8::{k}")  # one network
    assert limits.wait("2001:db8::ffff") == 2.0
    assert limits.wait("2001:db8:1::") == 0
    limits.add("10.0.0.3")
    limits.add("10.0.0.4")  # the two last ones are remembered
    assert limits.wait("2001:db8::1") == 0


FOREIGN = [
    {"Origin": "https://evil.example"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Origin": "http://127.0.0.1:1"},
]


def test_forms_of_other_sites_are_refused(serve):
    campaign, ada, page = opened(serve())
    path, fields = f"/page/{number(page)}", ada.fill("dog", page)
    for headers in FOREIGN:
        assert ada.ask("POST", path, [*fields, ("save", "send")], headers).status == 403
    bare = [(name, value) for name, value in fields if name != "_xsrf"]
    for wrong in ([], [("_xsrf", "")], [("_xsrf", "2|aa|bb|1")], [("_xsrf", "é\n")]):
        assert ada.ask("POST", path, [*bare, *wrong, ("save", "send")]).status == 403
    assert len(campaign.judgments()) == 0
    own = {"Origin": campaign.server.url, "Sec-Fetch-Site": "same-origin"}
    assert ada.ask("POST", path, [*fields, ("save", "send")], own).status == 303


def test_another_host_name_is_refused(serve):
    campaign, _ = serve()
    stranger = campaign.stranger()
    for name in (
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "localhost@evil.example",
        "[",
        "[::",
    ):
        assert stranger.get("/", Host=name).status in {400, 403}, name
        stranger.close()
    for name in ("localhost", "LOCALHOST:99", "127.0.0.1:1", "[::1]:5"):
        assert stranger.get("/", Host=name).status == 200, name


def test_hostile_requests_are_refused_and_the_server_goes_on(serve):
    _, sign_in = serve()
    ada = sign_in()
    for path in (
        "/static/../cli.py",
        "/static/%2e%2e/handlers.py",
        "/static//etc/passwd",
        "/static/style.css%00",
        "/page/1e3",
        "/page/-1",
        "/page/99999999999999999999",
        "/start/a%0d%0aSet-Cookie:x=y",
        "//evil/",
    ):
        answered = ada.get(path)
        assert answered.status in {303, 404}, path
        assert "Set-Cookie: x" not in str(answered.headers)
    page = number(ada.get("/page"))
    for place in ("-1", "1e3", "٣", "999999999", "nan"):
        assert ada.post(f"/page/{page}/answer", {"place": place, "guess": "dog"}).status in {400, 404}
    for guess in ("x" * 300, "a\0b", "\ud83d".encode("utf-8", "surrogatepass")):
        assert ada.post(f"/page/{page}/answer", {"place": "0", "guess": guess}).status in {200, 400, 422}
    kinds = ("application/json", "text/plain", "multipart/form-data; boundary=x")
    for kind in kinds:
        headers = {"Content-Type": kind, "X-Xsrftoken": ada.get("/").field("_xsrf")}
        assert ada.ask("POST", f"/page/{page}/answer", "{}", headers).status in {400, 415}
    many = [(f"guess-{k}-0", "dog") for k in range(500)]
    assert ada.post(f"/page/{page}", [*many, ("save", "send")]).status == 404  # no such tasks
    assert ada.get("/page").status == 200


def test_markup_in_items_names_and_words_stays_text(serve):
    evil = "</textarea><script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
    chosen = wb.items_from_text(f"The {evil} dog ran . He saw the ___ .", answers=["dog"])
    assert isinstance(chosen, Items)
    _, sign_in = serve("lambada", chosen)
    ada = sign_in(evil)
    page = ada.get("/page")
    again = send(ada, ada.fill(evil, page), number(page), save="filled")
    for each in (page, again, ada.get("/")):
        assert "<script>" not in each.text
        assert "<img" not in each.text


def test_many_subjects_at_once_lose_nothing(serve):
    repeated = wb.load("sample", "dev").sample(90)
    campaign, sign_in = serve(Protocol("any", (ProtocolStep("passage", people=3),)), repeated)
    clients = [sign_in() for _ in range(12)]
    acknowledged = []

    def work(client):
        for _ in range(2):
            page = client.get("/page")
            for place in range(0, 10, 2):
                word = f"{client.subject.id}-{number(page)}-{place}"
                answered = client.post(f"/page/{number(page)}/answer", {"place": place, "guess": word})
                if answered.status == 200:
                    acknowledged.append(word)
            fields = [(name, value) for name, value in client.get("/page").fields if name]
            fields = [
                (name, f"{client.subject.id}-{name}" if "guess" in name else value) for name, value in fields
            ]
            send(client, fields, number(page))

    threads = [threading.Thread(target=work, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    saved = campaign.judgments()["prediction"]
    assert len(acknowledged) == 12 * 2 * 5
    assert set(acknowledged) <= set(saved)
    assert len(saved) == 12 * 2 * 10


def test_the_server_says_that_it_cannot_save(serve, monkeypatch):
    campaign, ada, page = opened(serve())
    page = number(page)
    xsrf = ada.get("/").field("_xsrf")

    def fail(*_arguments, **_options):
        raise DataError("the campaign's database cannot be read or written (database or disk is full)")

    monkeypatch.setattr(campaign, "write_transaction", fail)
    told = ada.ask("POST", f"/page/{page}/answer", {"_xsrf": xsrf, "place": "0", "guess": "dog"})
    assert (told.status, json.loads(told.text)["reason"]) == (503, "not saved")
    monkeypatch.undo()
    assert ada.post(f"/page/{page}/answer", {"place": "0", "guess": "dog"}).status == 200


def test_an_error_of_the_server_says_nothing_of_it(serve, monkeypatch, caplog):
    campaign, sign_in = serve()
    ada = sign_in()

    def fail(_subject):
        raise RuntimeError("a secret")

    monkeypatch.setattr(campaign, "next_page", fail)
    broken = ada.get("/page")
    assert (broken.status, "a secret" in broken.text) == (500, False)
    assert "a secret" in caplog.text


def run(coroutine):
    """Run a coroutine in another thread: browser tests leave a loop running in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


def test_the_port_and_the_certificate_are_checked(tmp_path, items):
    campaign = Campaign.create(tmp_path / "c.db", items)
    with running(campaign) as server, pytest.raises(DataError):
        run(start(campaign, int(server.url.rpartition(":")[2])))
    for options in ({"port": 70_000}, {"ip": "no such host.example"}, {"key": tmp_path / "c.db"}):
        with pytest.raises(DataError):
            run(start(campaign, **({"port": 0} | options)))
    refused(run, start(campaign, 0, certificate=tmp_path / "c.db"))
    campaign.close()


MAIN = "import sys; from workbench.cli import main; sys.exit(main())"
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+ ")


def start_process(path, *options):
    """Start a server of a campaign in a process of its own."""
    command = [sys.executable, "-c", MAIN, "serve", str(path), "--port", "0", *options]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def end_process(process, number):
    process.send_signal(number)
    return process.communicate(timeout=PATIENCE)


def test_the_server_ends_in_order_and_warns_where_others_reach_it(tmp_path):
    campaign = Campaign.create(tmp_path / "c.db", wb.load("sample", "dev").sample(3))
    campaign.close()
    for number in (signal.SIGTERM, signal.SIGINT):
        process = start_process(campaign.path)
        while not ADDRESS.match(process.stdout.readline()):
            assert process.poll() is None
        out, errors = end_process(process, number)
        assert (process.returncode, out, errors) == (0, "stopped\n", "")
    process = start_process(campaign.path, "--ip", "0.0.0.0")  # noqa: S104
    line = process.stderr.readline()
    end_process(process, signal.SIGKILL)
    assert "other machines can reach this server" in line
    assert "unencrypted" in line
