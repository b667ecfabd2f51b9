"""A line passes on what is said, until it is cut."""

import socket
import threading

import pytest

from tests.support.cuttable_line import HOST, CuttableLine


@pytest.fixture
def echo():
    """The port of a server that says everything again."""
    listener = socket.create_server((HOST, 0))

    def answer():
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            with client:
                while data := client.recv(100):
                    client.sendall(data)

    thread = threading.Thread(target=answer)
    thread.start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


@pytest.fixture
def line(echo):
    with CuttableLine(echo) as passing:
        yield passing


def called(line):
    client = socket.create_connection((HOST, line.port), timeout=5)
    client.sendall(b"hello")
    assert client.recv(100) == b"hello"
    return client


def test_a_line_that_is_cut_ends_every_connection_and_takes_new_ones(line):
    with called(line) as client:
        assert line.cut() == 1
        assert client.recv(100) == b""
    with called(line):
        pass


def test_on_a_silent_line_nothing_comes_and_nothing_ends_and_new_connections_are_as_before(line):
    with called(line) as client:
        assert line.silence() == 1
        client.sendall(b"is anybody there?")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(100)
        client.close()
        with called(line):
            pass


def test_without_its_server_a_line_hangs_up():
    with socket.create_server((HOST, 0)) as nobody:
        port = nobody.getsockname()[1]
    with CuttableLine(port) as line, socket.create_connection((HOST, line.port), 5) as client:
        assert client.recv(100) == b""


def test_on_a_parted_line_new_connections_are_silent_too_until_it_is_whole_again(line):
    with called(line) as before:
        with line.parted(), socket.create_connection((HOST, line.port), timeout=5) as new:
            for client in (before, new):
                client.sendall(b"is anybody there?")
                client.settimeout(0.2)
                with pytest.raises(TimeoutError):
                    client.recv(100)
        before.settimeout(5)
        assert before.recv(100) == b"", "what was sent meanwhile is lost"
    with called(line):
        pass
