"""A client of servers with OpenAI's completions API, and the sub-tokens in their responses.

vLLM and the server of llama-cpp-python return the log-probabilities of the prompt for ``echo`` with
``logprobs``, the first with its mark of the beginning, the second without. llama.cpp's own server refuses
``echo``, and returns those of what it writes, in another form. Offsets (``text_offset``) count the mark in
one and not in the other, and drift after a character of several sub-tokens, so sub-tokens are found in the
text by their letters.
"""

from __future__ import annotations

import ipaddress
import json
import math
import os
import re
import socket
import time
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import requests
from urllib3.util import Retry

from workbench.items.schema import Span
from workbench.storage.errors import DataError, check_value, reading

PAUSE, LONGEST_PAUSE = 0.5, 60
"""Seconds: the second try comes at once, the third after twice the pause, each further one after twice as
long as the last, up to the longest, also where the server asks for more."""
CONNECTION = ("key_variable", "remote", "timeout", "retries")
"""Options of a client of a server."""

_TEMPORARY = (408, 425, 429, 500, 502, 503, 504)
_CHUNK, _LARGEST = 1 << 16, 1 << 26  # bytes of a response
_ROUNDING = 1e-4  # nats by which a sum of single-precision logarithms may be above 0
_PARTIAL = re.compile("(\ufffd+)")
_SHOWN = 200  # letters of a server's own message


class Marks(NamedTuple):
    """Marks of the beginning of a text."""

    listed: int  # that responses list among the sub-tokens: 0 or 1
    hidden: int  # that they count and do not list: 0 or 1


class Echo(NamedTuple):
    """The `n` sub-tokens of a text as a server read it."""

    tokens: list[str]
    spans: list[Span]  # where each is in the text; white space before it belongs to it
    log_probs: list[float]  # natural log-probability given all before; NaN for the first
    best: list[float]  # log-probability of the most probable sub-token there; NaN for the first
    marks: Marks

    def after(self, offset: int) -> Echo:
        """Return the sub-tokens that end after an offset; the first may begin before it."""
        first = next((i for i, (_, end) in enumerate(self.spans) if end > offset), len(self.spans))
        rest = {name: getattr(self, name)[first:] for name in ("tokens", "spans", "log_probs", "best")}
        return self._replace(**rest)

    @property
    def is_greedy(self) -> bool:
        """Whether each sub-token is the most probable one."""
        return all(value >= best for value, best in zip(self.log_probs, self.best, strict=True))


class CompletionClient:
    """Send requests to a completion server, within bounds of time and place.

    Redirects are not followed, and no proxy is used. The key is read from the environment (`key_variable`)
    for each request, and never stored. Without `remote` texts are sent to this machine or a private network
    alone. `timeout` is the seconds for one response, `retries` how often it is tried again after a temporary
    failure.
    """

    def __init__(
        self,
        url: str,
        *,
        key_variable: str | None = None,
        remote: bool = False,
        timeout: float = 600,
        retries: int = 6,
    ) -> None:
        check_value("timeout", timeout, 0 < timeout < math.inf, "seconds, above 0")
        check_value("retries", retries, 0 <= retries < math.inf, "a number, 0 or more")
        self.address = _address(url, remote=remote)
        self.key_variable, self.timeout = key_variable, timeout
        retry = Retry(
            int(retries), backoff_factor=PAUSE, backoff_max=LONGEST_PAUSE, retry_after_max=LONGEST_PAUSE,
            status_forcelist=_TEMPORARY, allowed_methods=None, raise_on_status=False,
        )  # fmt: skip
        self._session = requests.Session()
        self._session.trust_env = False  # neither a proxy nor the password of a .netrc
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, requests.adapters.HTTPAdapter(max_retries=retry))
        self._key()

    def models(self) -> list[str]:
        """Return the ids of the models that the server lists."""
        body = self._request("GET", "models")
        with reading(f"{self.address}/models", "this list of models", hint="pass model="):
            return [str(model["id"]) for model in json.loads(body)["data"]]

    def complete(self, **parameters: Any) -> bytes:
        """Return the response to a request for a completion."""
        return self._request("POST", "completions", {"temperature": 0, "seed": 0, **parameters})

    def _request(self, method: str, path: str, parameters: dict[str, Any] | None = None) -> bytes:
        address, key, deadline = f"{self.address}/{path}", self._key(), time.monotonic() + self.timeout
        headers = {"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {key}"} if key else {})
        hint = "check the server and its log; scores are stored, and the next run continues from them"
        with (
            reading(address, "the response of this server", hint=hint),
            self._session.request(
                method, address, json=parameters, headers=headers, timeout=self.timeout, stream=True,
                allow_redirects=False,
            ) as response,
        ):  # fmt: skip
            body = bytearray()
            while block := response.raw.read1(_CHUNK):
                body += block
                if len(body) > _LARGEST or time.monotonic() > deadline:
                    raise ValueError(f"not complete after {self.timeout:g} seconds or {len(body):,} bytes")
        if response.status_code != requests.codes.ok:
            message = " ".join(body[: 4 * _SHOWN].decode(errors="replace").split())[:_SHOWN]
            message = message.replace(key, "***") if key else message
            problem = f"expected a completion, got the status {response.status_code}: {message}"
            raise DataError(problem, file=address, hint=hint)
        return bytes(body)

    def _key(self) -> str:
        """Return the server's key, or ""; DataError, without it, if no header can hold it."""
        if self.key_variable is None:
            return ""
        key = os.environ.get(self.key_variable, "")
        if not key or not key.isascii() or not key.isprintable() or " " in key:
            problem = f"expected the server's key in the environment variable {self.key_variable}"
            problem += ", which holds other characters" if key else ", which is not set"
            raise DataError(problem, hint=f"set {self.key_variable}, or leave out key_variable=")
        return key


def _address(url: str, *, remote: bool) -> str:
    """Return the address of the API, which ends with ``/v1``; DataError for others.

    An address with a password is refused, and the message does not repeat it. Without `remote` it is one of
    this machine or of a private network.
    """
    parsed = urlsplit(url)
    host = parsed.hostname
    if parsed.scheme not in {"http", "https"} or not host or "@" in url or parsed.query or parsed.fragment:
        problem = "expected the http or https address of a server, without name, password and query"
        hint = 'pass one such as "http://localhost:8000"; key_variable= names the variable that holds a key'
        raise DataError(problem, hint=hint)
    if not remote:
        with reading(host, "the name of this server", hint="check the address"):
            numbers = {str(info[4][0]) for info in socket.getaddrinfo(host, None)}
        if not all(map(is_local, numbers)):
            problem = f"expected a server on this machine or in a private network, got {host}"
            raise DataError(problem, hint="pass remote=True if the texts of the items may be sent there")
    path = parsed.path.rstrip("/").removesuffix("/v1")
    return f"{parsed.scheme}://{parsed.netloc.lower()}{path}/v1"


def is_local(number: str) -> bool:
    """Return whether an IP address is of this machine or a private network."""
    address = ipaddress.ip_address(number.partition("%")[0])
    return (getattr(address, "ipv4_mapped", None) or address).is_private


def read_echo(body: bytes, text: str, address: str, marks: Marks | None = None) -> Echo:
    """Return the sub-tokens of a text from a server's response to ``echo`` and ``logprobs``.

    A mark of the beginning is left out, as is a sub-token that the server wrote after the text. Both are
    found in the response to a first text, which begins and ends with a letter of ASCII; `marks` has them for
    all others. DataError for another form, another text, or a number that is not a log-probability.
    """
    hint = "take a server that returns the log-probabilities of the prompt: vLLM, or llama-cpp-python's"
    with reading(address, "this response", hint=hint):
        response = json.loads(body)
        [choice] = response["choices"]
        table = choice["logprobs"]
        if not table or not table.get("token_logprobs"):
            raise ValueError("expected the log-probabilities of the prompt (echo, logprobs), got none")
        if not choice["text"].startswith(text):
            raise ValueError(f"expected the text that was sent, {text[:40]!r}, got {choice['text'][:40]!r}")
        tokens, log_probs, tops = (table[name] for name in ("tokens", "token_logprobs", "top_logprobs"))
        if not len(tokens) == len(log_probs) == len(tops):
            lengths = f"{len(tokens)}, {len(log_probs)} and {len(tops)}"
            raise ValueError(f"expected as many tokens as log-probabilities and best ones, got {lengths}")
        n_counted = response["usage"]["prompt_tokens"]
        if marks is None:
            listed = int(not tokens[0].strip() or not text.startswith(tokens[0].strip()))
            written = 1 if locate_tokens(tokens[listed:-1], text) else 0
            marks = Marks(listed, n_counted - len(tokens) + written)
        listed, end = marks.listed, n_counted - marks.hidden
        spans = locate_tokens(tokens[listed:end], text)
        if spans is None or marks.hidden not in {0, 1 - listed}:
            problem = f"expected {n_counted} sub-tokens that make up {text[:40]!r}"
            raise ValueError(f"{problem}, got {len(tokens)}: {''.join(tokens)[:40]!r}")
        rows = list(zip(log_probs, tops, strict=True))[listed:end]
        has_first = bool(listed) or log_probs[0] is not None
        values = [(math.nan, math.nan)] * (not has_first)
        for log_prob, top in rows[len(values) :]:
            values.append((_log_prob(log_prob), max(map(_log_prob, top.values()))))
        scores, best = zip(*values, strict=True)
        return Echo(tokens[listed:end], spans, list(scores), list(best), marks)


def read_written(body: bytes, address: str) -> list[str]:
    """Return the sub-tokens that a server wrote; DataError where the response does not list them."""
    hint = "take a server that returns log-probabilities (logprobs) of completions"
    with reading(address, "this response", hint=hint):
        [choice] = json.loads(body)["choices"]
        table = choice["logprobs"]
        tokens = [row["token"] for row in table["content"]] if "content" in table else table["tokens"]
        return list(map(str, tokens))


def locate_tokens(tokens: Sequence[str], text: str) -> list[Span] | None:
    """Return the spans of sub-tokens in a text; None if they do not make up the text.

    A sub-token that is a part of a character is empty or holds U+FFFD. It stands for characters beyond
    ASCII, as many as there are up to the next sub-token. White space that is missing before a sub-token
    belongs to it, and the white space that some tokenizers put before a text belongs to none.
    """
    spans: list[Span] = []
    position = 0
    waiting = 0  # sub-tokens at the end of `spans` of which a part of a character is not found yet
    for index, token in enumerate(tokens):
        start = position
        for piece in _PARTIAL.split(token if index or text[:1].isspace() else token.lstrip()):
            if not piece or piece[0] == "\ufffd":
                continue
            while not text.startswith(piece, position):
                if position >= len(text) or (text[position].isascii() and not text[position].isspace()):
                    return None
                position += 1
            if waiting:
                passed = text[start:position]
                start += len(passed.rstrip())
                spans[-waiting:] = [(begin, start) for begin, _ in spans[-waiting:]]
                waiting = 0
            position += len(piece)
        spans.append((start, position))
        waiting += 1 if waiting or not token or token.endswith("\ufffd") else 0
    if waiting and all(not letter.isascii() for letter in text[position:]):
        spans[-waiting:] = [(begin, len(text)) for begin, _ in spans[-waiting:]]
        position = len(text)
    return spans if position == len(text) else None


def _log_prob(value: Any) -> float:
    """Return a number of a response as a log-probability; ValueError if it is not valid."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -math.inf < value <= _ROUNDING:
        raise ValueError(f"expected a finite log-probability, 0 or less, got {value!r}"[:_SHOWN])
    return min(float(value), 0.0)
