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
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import requests
from requests.utils import get_environ_proxies

from workbench.items.schema import Span
from workbench.storage.errors import DataError, check_value, innermost, reading

PAUSE = 0.5
"""Seconds before the second try; each further pause is twice as long, up to `LONGEST_PAUSE`."""
LONGEST_PAUSE = 60.0

CONNECTION = ("key_variable", "remote", "timeout", "retries")
"""Options of a client of a server."""

_TEMPORARY = {408, 425, 429, *range(500, 600)}
_CHUNK = 1 << 16
_ROUNDING = 1e-4  # nats by which a sum of single-precision logarithms may be above 0
_PARTIAL = re.compile("(\ufffd+)")
_SHOWN = 200  # letters of a server's own message


class Echo(NamedTuple):
    """The `n` sub-tokens of a text as a server read it."""

    tokens: list[str]
    spans: list[Span]  # where each is in the text; white space before it belongs to it
    log_probs: list[float]  # natural log-probability given all before; NaN for the first
    best: list[float]  # log-probability of the most probable sub-token there; NaN for the first
    bos: str  # one of `workbench.predictions.schema.BOS`
    hidden: int | None  # sub-tokens that the server counts and does not list: 0, or 1 for the mark

    def boundary(self, offset: int) -> int:
        """Return the first sub-token that ends after an offset; it may begin before it."""
        return next((i for i, (_, end) in enumerate(self.spans) if end > offset), len(self.spans))


class _Attempt(NamedTuple):
    """The body of a response, or the reason why it is missing."""

    body: bytes
    problem: str = ""
    temporary: bool = False
    pause: float = 0.0  # seconds that the server asks for


class CompletionClient:
    """Send requests to a completion server, within bounds of time and place.

    Redirects are not followed. The key is read from the environment (`key_variable`) for each request, and
    never stored. Without `remote` texts are sent to this machine or a private network alone. `timeout` is the
    seconds for one response, `retries` how often it is tried again after a temporary failure.
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
        self.key_variable, self.timeout, self.retries = key_variable, timeout, int(retries)
        self._session = requests.Session()
        self._session.trust_env = False  # neither a proxy nor the password of a .netrc for a local server
        if remote:
            self._session.proxies.update(get_environ_proxies(self.address))
            self._session.verify = os.environ.get("REQUESTS_CA_BUNDLE") or True
        self._key()

    def models(self) -> list[str]:
        """Return the ids of the models that the server lists."""
        body = self._request("GET", "models", None)
        with reading(f"{self.address}/models", "this list of models", remedy="pass model="):
            return [str(model["id"]) for model in json.loads(body)["data"]]

    def complete(self, **parameters: Any) -> bytes:
        """Return the response to a request for a completion."""
        return self._request("POST", "completions", {"temperature": 0, "seed": 0, **parameters})

    def _request(self, method: str, path: str, parameters: dict[str, Any] | None) -> bytes:
        address, attempt = f"{self.address}/{path}", _Attempt(b"")
        for number in range(self.retries + 1):
            if number:
                time.sleep(min(max(PAUSE * 2 ** (number - 1), attempt.pause), LONGEST_PAUSE))
            attempt = self._attempt(method, address, parameters)
            if not attempt.problem:
                return attempt.body
            if not attempt.temporary:
                break
        times = f" ({number + 1} tries)" if number else ""
        raise DataError(
            f"{address}: {self._without_key(attempt.problem)}{times}",
            remedy="check the server and its log; scores are stored, and the next run continues from them",
        )

    def _attempt(self, method: str, address: str, parameters: dict[str, Any] | None) -> _Attempt:
        """Send one request. An error of ``requests`` holds the key in its request, so it ends here."""
        deadline, key = time.monotonic() + self.timeout, self._key()
        headers = {"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {key}"} if key else {})
        try:
            with self._session.request(
                method, address, json=parameters, headers=headers, timeout=self.timeout, stream=True,
                allow_redirects=False,
            ) as response:  # fmt: skip
                return _read(response, deadline, self.timeout)
        except requests.Timeout:
            return _Attempt(b"", f"no response within {self.timeout:g} seconds", temporary=True)
        except Exception as error:  # noqa: BLE001 - of requests, urllib3 and http.client
            temporary = not isinstance(error, ValueError)  # an address that leads nowhere
            first = innermost(error)
            why = getattr(first, "strerror", None) or type(first).__name__
            return _Attempt(b"", f"no connection ({why})", temporary=temporary)

    def _key(self) -> str:
        """Return the server's key, or ""; DataError, without it, if no header can hold it."""
        if self.key_variable is None:
            return ""
        key = os.environ.get(self.key_variable, "")
        if not key or not key.isascii() or not key.isprintable() or " " in key:
            problem = f"expected the server's key in the environment variable {self.key_variable}"
            problem += ", which holds other characters" if key else ", which is not set"
            raise DataError(problem, remedy=f"set {self.key_variable}, or leave out key_variable=")
        return key

    def _without_key(self, text: str) -> str:
        key = self._key()
        return text.replace(key, "***") if key else text


def _read(response: requests.Response, deadline: float, timeout: float) -> _Attempt:
    """Return the content of a response, within the bound of time."""
    code = response.status_code
    if code // 100 == HTTPStatus.MULTIPLE_CHOICES // 100:
        host = urlsplit(response.headers.get("Location", "")).hostname
        return _Attempt(b"", f"it redirects to {host or 'another address'}, which is not followed")
    blocks, size = [], 0
    while block := response.raw.read1(_CHUNK):
        blocks.append(block)
        size += len(block)
        if time.monotonic() > deadline:
            return _Attempt(b"", f"no complete response within {timeout:g} seconds", temporary=True)
    body = b"".join(blocks)
    expected = response.headers.get("Content-Length", "")
    if expected.isdecimal() and size < int(expected):
        return _Attempt(b"", f"expected {expected} bytes, got {size:,}", temporary=True)
    if code == HTTPStatus.OK:
        return _Attempt(body)
    message = " ".join(body[: 4 * _SHOWN].decode(errors="replace").split())[:_SHOWN]
    pause = response.headers.get("Retry-After", "")
    temporary = code in _TEMPORARY and "support" not in message.lower()  # "echo is not supported" stays so
    return _Attempt(b"", f"it answers {code}: {message}", temporary, float(pause) if pause.isdecimal() else 0)


def _address(url: str, *, remote: bool) -> str:
    """Return the address of the API in one form, which ends with ``/v1``; DataError for others.

    An address with a password is refused, and the message does not repeat it. Without `remote` it is one of
    this machine or of a private network.
    """
    parsed = urlsplit(url)
    host, port = parsed.hostname, parsed.port
    has_more = parsed.query or parsed.fragment or parsed.username is not None or parsed.password is not None
    if parsed.scheme not in {"http", "https"} or not host or has_more:
        problem = "expected the http or https address of a server, without name, password and query"
        remedy = 'pass one such as "http://localhost:8000"; key_variable= names the variable that holds a key'
        raise DataError(problem, remedy=remedy)
    if not remote and not all(map(is_local, _numbers(host))):
        raise DataError(
            f"expected a server on this machine or in a private network, got {host}",
            remedy="pass remote=True if the texts of the items may be sent there",
        )
    host = f"[{host}]" if ":" in host else host
    path = parsed.path.rstrip("/")
    path = path if path.endswith("/v1") else f"{path}/v1"
    is_default = port in {None, {"http": 80, "https": 443}[parsed.scheme]}
    return f"{parsed.scheme}://{host}{'' if is_default else f':{port}'}{path}"


def _numbers(host: str) -> set[str]:
    """Return the IP addresses of a server; DataError if its name is not known here."""
    with reading(host, "the name of this server", remedy="check the address"):
        return {str(info[4][0]) for info in socket.getaddrinfo(host, None)}


def is_local(number: str) -> bool:
    """Return whether an IP address is of this machine or a private network."""
    address = ipaddress.ip_address(number.partition("%")[0])
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_loopback or address.is_private or address.is_link_local


def read_echo(body: bytes, text: str, address: str, hidden: int | None = None) -> Echo:
    """Return the sub-tokens of a text from a server's response to ``echo`` and ``logprobs``.

    A sub-token that the server wrote after the text is left out, as is a mark of the beginning. Where the
    text ends with a part of a character, `hidden` of an earlier response tells them apart. DataError for
    another form, another text, or a number that is not a log-probability.
    """
    remedy = "take a server that returns the log-probabilities of the prompt: vLLM, or llama-cpp-python's"
    with reading(address, "this response", remedy=remedy):
        choice, usage = _choice(body)
        table = choice.get("logprobs")
        if not isinstance(table, dict) or not table.get("token_logprobs"):
            got = "those of what it writes alone" if isinstance(table, dict) and table else "none"
            raise ValueError(f"expected the log-probabilities of the prompt (echo, logprobs), got {got}")
        echoed = choice.get("text")
        if isinstance(echoed, str) and not echoed.startswith(text):
            raise ValueError(f"expected the text that was sent, {text[:40]!r}, got {echoed[:40]!r}")
        tokens, log_probs, tops = (list(table[name]) for name in ("tokens", "token_logprobs", "top_logprobs"))
        if not len(tokens) == len(log_probs) == len(tops):
            lengths = f"{len(tokens)}, {len(log_probs)} and {len(tops)}"
            raise ValueError(f"expected as many tokens as log-probabilities and best ones, got {lengths}")
        counted = usage.get("prompt_tokens")
        ends = [len(tokens) - 1, len(tokens)] if hidden is None or counted is None else [counted - hidden]
        first, end, spans = _find_spans(tokens, text, ends)
        hidden = None if counted is None else counted - end
        if hidden not in {None, 0, 1 - first}:
            raise ValueError(f"expected the log-probabilities of {counted} tokens of the prompt, got {end}")
        bos = "added" if first or hidden else "unknown" if hidden is None else "none"
        if bos == "none" and log_probs[0] is not None:
            raise ValueError(f"expected no log-probability of the first token of all, got {log_probs[0]}")
        has_value = [index > 0 or log_probs[0] is not None for index in range(first, end)]
        pairs = zip(has_value, log_probs[first:end], tops[first:end], strict=True)
        values = [(_log_prob(p), max(map(_log_prob, top.values()))) if has else None for has, p, top in pairs]
        log_prob, best = zip(*(value or (math.nan, math.nan) for value in values), strict=True)
        return Echo(tokens[first:end], spans, list(log_prob), list(best), bos, hidden)


def read_written(body: bytes, address: str) -> list[str]:
    """Return the sub-tokens that a server wrote; DataError where the response does not list them."""
    remedy = "take a server that returns log-probabilities (logprobs) of completions"
    with reading(address, "this response", remedy=remedy):
        choice, _ = _choice(body)
        table = choice.get("logprobs") or {}
        rows = table.get("content")
        tokens = table.get("tokens") if rows is None else [row["token"] for row in rows]
        if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
            raise ValueError("expected the tokens that it writes (logprobs), got none")
        return tokens


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


def _find_spans(tokens: Sequence[str], text: str, ends: Sequence[int]) -> tuple[int, int, list[Span]]:
    """Return the range of a text's sub-tokens among those of a response, and their spans.

    Before them may be a mark of the beginning. They end at one of `ends`, as the server may write another.
    """
    if not tokens or not all(isinstance(token, str) for token in tokens):
        raise ValueError("expected tokens that are text")
    marked_first = not tokens[0] and text[:1].isascii()
    matches = []
    for end in ends:
        firsts = [first for first in ((1, 0) if marked_first else (0, 1)) if first < end <= len(tokens)]
        pairs = [(first, locate_tokens(tokens[first:end], text)) for first in firsts]
        matches += [(first, end, spans) for first, spans in pairs if spans is not None][:1]
    if len(matches) != 1:
        joined = "".join(tokens)[:40]
        raise ValueError(f"expected the {len(text)} letters of {text[:40]!r} in tokens, got {joined!r}")
    return matches[0]


def _choice(body: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the completion of a response, and the numbers of its sub-tokens."""
    response = json.loads(body)
    [choice] = response["choices"]
    usage = response.get("usage") or {}
    if not isinstance(choice, dict) or not isinstance(usage, dict):
        raise TypeError("expected objects")
    return choice, usage


def _log_prob(value: Any) -> float:
    """Return a number of a response as a log-probability; ValueError if it is not valid."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -math.inf < value <= _ROUNDING:
        raise ValueError(f"expected a finite log-probability, 0 or less, got {value!r}"[:_SHOWN])
    return min(float(value), 0.0)
