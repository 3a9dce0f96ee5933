"""The server of a campaign in a thread, and a browser without a script that asks it."""

import asyncio
import http.client
import re
import threading
from contextlib import contextmanager
from html.parser import HTMLParser
from urllib.parse import urlencode, urlsplit

from patience import PATIENCE

from workbench.server.serving import start


@contextmanager
def running(campaign, **options):
    """Run a server on a free port of the loopback address."""
    loop, started, server = asyncio.new_event_loop(), threading.Event(), None

    def work():
        nonlocal server
        asyncio.set_event_loop(loop)
        server = loop.run_until_complete(start(campaign, 0, **options))
        started.set()
        loop.run_forever()
        loop.run_until_complete(server.stop())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()

    thread = threading.Thread(target=work)
    thread.start()
    assert started.wait(PATIENCE)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)


class Answered:
    """What a server answers: status, headers, text, and what a form on the page would send."""

    def __init__(self, response):
        self.status, self.headers = response.status, response.headers
        self.content = response.read()
        self.text = self.content.decode()
        self.fields, self.buttons, self.words = [], [], ""
        reader = _Fields(self)
        reader.feed(self.text)
        reader.close()

    def field(self, name):
        return next(value for key, value in self.fields if key == name)


class _Fields(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.page = page

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if tag == "input" and values.get("type") not in {"radio", "checkbox"}:
            self.page.fields.append((values.get("name"), values.get("value") or ""))
        if tag == "button":
            self.page.buttons.append((values.get("name"), values.get("value")))

    def handle_data(self, data):
        self.page.words += data


class Client:
    """A browser without a script: one connection, cookies as `Set-Cookie` says."""

    def __init__(self, url, token=None):
        self.url, self.cookies = url, {}
        address = urlsplit(url)
        self.connection = http.client.HTTPConnection(address.hostname, address.port, timeout=PATIENCE)
        self.set_cookies = []
        if token is not None:
            self.sign_in(token)

    def ask(self, method, path, body=None, headers=()):
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        sent = ({"Cookie": cookies} if cookies else {}) | dict(headers)
        if isinstance(body, list | dict):
            body = urlencode(body, doseq=True)
            sent = {"Content-Type": "application/x-www-form-urlencoded"} | sent
        self.connection.request(method, path, body, sent)
        answered = Answered(self.connection.getresponse())
        for text in answered.headers.get_all("Set-Cookie") or []:
            self.set_cookies.append(text)
            name, value = re.match(r"([^=]+)=([^;]*)", text).groups()
            self.cookies[name] = value.strip('"')
        return answered

    def get(self, path, **headers):
        return self.ask("GET", path, headers=headers)

    def post(self, path, body, **headers):
        """Send a form with the XSRF field that the server's pages have."""
        xsrf = self.get("/").field("_xsrf")
        fields = list(body.items()) if isinstance(body, dict) else list(body)
        return self.ask("POST", path, [("_xsrf", xsrf), *fields], headers)

    def sign_in(self, token):
        assert self.get(f"/start/{token}").field("token") == token
        assert self.post("/sign-in", {"token": token}).headers["Location"] == "/"

    def fill(self, word, page=None):
        """Return the fields of the page of tasks with a word in each field for one, ready to send."""
        page = page or self.get("/page")
        return [(name, word if name.startswith("guess-") else value) for name, value in page.fields if name]

    def close(self):
        self.connection.close()
