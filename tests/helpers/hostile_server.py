"""A server on this machine that answers in raw bytes, well-formed or not."""

import contextlib
import socket
import threading

from patience import PATIENCE


class HostileServer:
    """Gives every request the same answer, block by block, until the client goes away.

    `answer` is what a request (its bytes) gets: an iterable of blocks.
    """

    def __init__(self, answer=lambda _request: ()):
        self.answer, self.requests = answer, []
        self.closing = threading.Event()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._connections = []
        self._threads = [threading.Thread(target=self._serve, daemon=True)]

    @property
    def address(self):
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def __enter__(self):
        self._threads[0].start()
        return self

    def __exit__(self, *_):
        self.closing.set()
        for opened in (self._socket, *self._connections):
            with contextlib.suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()

    def _serve(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._connections.append(connection)
            self._threads.append(threading.Thread(target=self._talk, args=(connection,), daemon=True))
            self._threads[-1].start()

    def _talk(self, connection):
        with connection, connection.makefile("rb") as asked:
            try:
                request = b"".join(iter(asked.readline, b"\r\n"))
                self.requests.append(request)
                for block in self.answer(request):
                    connection.sendall(block)
                    if self.closing.is_set():
                        return
            except OSError:
                pass  # the client has gone away
