"""A line to a server that can be cut as networks do it: with a word, or without one."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

HOST = "127.0.0.1"
_CHUNK = 65_536


class CuttableLine:
    """Passes on what goes between a server and those who connect to `port`; a context manager.

    Args:
        port: The server's, on this machine.
    """

    def __init__(self, port: int) -> None:
        self._server = HOST, port
        self._lock = threading.Lock()
        self._calls: set[_Call] = set()
        self._is_parted = False
        self._listener = socket.create_server((HOST, 0))
        self._answering = threading.Thread(target=self._answer)

    @property
    def port(self) -> int:
        """Where to connect instead of to the server."""
        return int(self._listener.getsockname()[1])

    def cut(self) -> int:
        """End all connections that there are; both sides hear of it. How many were there?"""
        calls = self._living()
        for call in calls:
            call.end()
            call.join()
        return len(calls)

    def silence(self) -> int:
        """Let all connections that there are stay open, and nothing come through. How many?"""
        calls = self._living()
        for call in calls:
            call.is_silent = True
        return len(calls)

    @contextmanager
    def parted(self) -> Iterator[None]:
        """Let nothing come through, on new connections neither, until the block ends.

        Then all of them end: what was sent meanwhile is lost, as in a partition of the network.
        """
        self._is_parted = True
        self.silence()
        try:
            yield
        finally:
            self._is_parted = False
            self.cut()

    def __enter__(self) -> "CuttableLine":
        self._answering.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all connections and take no more: the address refuses. Twice is once."""
        with suppress(OSError):  # it is closed already
            # Closing alone does not wake who waits for the next connection.
            self._listener.shutdown(socket.SHUT_RDWR)
        self._answering.join()
        self._listener.close()
        self.cut()

    def _answer(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._server)
            except OSError:  # it is being restarted
                client.close()
                continue
            call = _Call(client, server)
            # At once: the reader of an answer on it may cut it.
            with self._lock:
                call.is_silent = self._is_parted
                call.start()
                self._calls = {known for known in self._calls if not known.is_over} | {call}

    def _living(self) -> "list[_Call]":
        with self._lock:
            return [call for call in self._calls if not call.is_over]


class _Call:
    """One connection: a thread for what is said in each direction."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.is_silent = False
        self._ends = client, server
        self._threads = [
            threading.Thread(target=self._pass, args=pair)
            for pair in ((client, server), (server, client))
        ]

    @property
    def is_over(self) -> bool:
        return not any(thread.is_alive() for thread in self._threads)

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        for end in self._ends:
            with suppress(OSError):  # it is closed already
                end.shutdown(socket.SHUT_RDWR)

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with source, suppress(OSError):
            while data := source.recv(_CHUNK):
                if not self.is_silent:
                    sink.sendall(data)
        self.end()
