"""Start and stop the server of a campaign."""

from __future__ import annotations

import asyncio
import ipaddress
import signal
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream

from workbench.people import Campaign
from workbench.server.handlers import application
from workbench.server.service import Service
from workbench.storage.errors import DataError, reason

PORT = 8890
IP = "127.0.0.1"

_WAITING = 128  # connections that are not accepted yet
_LAST_PORT = 65_535
_MOST_HEADERS = 16 << 10  # bytes
_MOST_BODY = 64 << 10  # bytes: a page of 20 sentences has less than 15,000 in the longest words
_MOST_CONNECTIONS = 1000
_IDLE = 60.0  # seconds that a connection may be silent, or take for its headers
_SLOWEST_BODY = 10.0  # seconds


class BoundedServer(HTTPServer):
    """An HTTP server with a limited number of connections."""

    def handle_stream(self, stream: IOStream, address: tuple[Any, ...]) -> None:
        """Serve a connection, or close it if there are too many."""
        if len(self._connections) >= _MOST_CONNECTIONS:
            stream.close()
        else:
            super().handle_stream(stream, address)


@dataclass
class Running:
    """A running server in this event loop.

    Attributes
    ----------
    url : str
        Its address.
    loopback : bool
        Whether only this machine reaches it.
    secure : bool
        Whether connections are encrypted.
    """

    url: str
    loopback: bool
    secure: bool
    server: HTTPServer
    service: Service

    async def stop(self) -> None:
        """Refuse new requests, save all answers, close all connections."""
        self.server.stop()
        await asyncio.get_running_loop().run_in_executor(None, self.service.close)
        await asyncio.sleep(0)  # what is saved is acknowledged
        await self.server.close_all_connections()


async def start(
    campaign: Campaign,
    port: int = PORT,
    ip: str = IP,
    *,
    certificate: Path | None = None,
    key: Path | None = None,
) -> Running:
    """Start a server in the running event loop.

    Parameters
    ----------
    campaign : Campaign
    port : int, default 8890
        0: a free one.
    ip : str, default "127.0.0.1"
        The address to listen on; the default is reached from this machine only.
    certificate, key : Path, optional
        Files in PEM form; connections are encrypted then.

    Returns
    -------
    Running

    Raises
    ------
    DataError
        If the address or port cannot be used, or a file is not valid.
    """
    encryption = _encryption(certificate, key)
    if not 0 <= port <= _LAST_PORT:  # sockets count on from 0 after the last one
        raise DataError(f"expected a port from 0 to {_LAST_PORT}, got {port}", remedy="name another --port")
    try:
        sockets = _bind_sockets(ip, port)
    except OSError as error:
        problem = f"cannot listen on {ip}, port {port} ({reason(error)})"
        raise DataError(problem, remedy="name another --port or --ip") from None
    addresses = [each.getsockname() for each in sockets]
    port = addresses[0][1]
    loopback = all(ipaddress.ip_address(address[0].partition("%")[0]).is_loopback for address in addresses)
    hosts = frozenset({"localhost", "127.0.0.1", "::1", ip.casefold()}) if loopback else None
    secure = encryption is not None
    cookie = f"{'__Host-' if secure else ''}workbench-{port}"
    service = Service(campaign)
    server = BoundedServer(
        application(service, hosts, cookie, secure=secure),
        ssl_options=encryption,
        max_header_size=_MOST_HEADERS,
        max_body_size=_MOST_BODY,
        max_buffer_size=4 * _MOST_BODY,
        idle_connection_timeout=_IDLE,
        body_timeout=_SLOWEST_BODY,
    )
    server.add_sockets(sockets)
    url = f"http{'s' if secure else ''}://{_in_url(ip)}:{port}"
    return Running(url, loopback, secure, server, service)


def _bind_sockets(ip: str, port: int) -> list[socket.socket]:
    """Return a socket for each address of a host, all on one port; none stays open on an error."""
    addresses = socket.getaddrinfo(ip, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, *_, address in dict.fromkeys(addresses):
            bound = (address[0], sockets[0].getsockname()[1] if sockets else port, *address[2:])
            sockets.append(socket.create_server(bound, family=family, backlog=_WAITING))
            sockets[-1].settimeout(0)
    except BaseException:
        for each in sockets:
            each.close()
        raise
    return sockets


def serve(
    campaign: Campaign,
    port: int = PORT,
    ip: str = IP,
    *,
    certificate: Path | None = None,
    key: Path | None = None,
    ready: Callable[[Running], None],
) -> None:
    """Serve a campaign until the process is interrupted or terminated.

    Parameters
    ----------
    campaign, port, ip, certificate, key
        See `start`.
    ready : callable
        Called once the server listens.

    Raises
    ------
    DataError
        See `start`.
    """

    async def run() -> None:
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(NotImplementedError):  # Windows
                loop.add_signal_handler(number, stopped.set)
        running = await start(campaign, port, ip, certificate=certificate, key=key)
        ready(running)
        await stopped.wait()
        await running.stop()

    asyncio.run(run())


def _encryption(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    if certificate is None:
        if key is not None:
            raise DataError("there is a key without a certificate", remedy="name --certificate, too")
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        problem = f"cannot use the certificate or its key ({reason(error)})"
        raise DataError(problem, file=certificate, remedy="name files in PEM form") from None
    return context


def _in_url(ip: str) -> str:
    """Return an address in the form of URLs; the wildcard address becomes this machine's name."""
    if ip in {"", "0.0.0.0", "::"}:  # noqa: S104 - it is the address to print
        return socket.gethostname()
    return f"[{ip}]" if ":" in ip else ip
