"""The guard itself: other machines are refused, this one is not."""

import socket

import pytest

from tests.support.loopback_only import NetworkUsed, is_local


@pytest.mark.parametrize(
    ("host", "want_local"),
    [
        pytest.param("127.0.0.1", True, id="IPv4 loopback"),
        pytest.param("127.8.9.10", True, id="any address of the IPv4 loopback net"),
        pytest.param("::1", True, id="IPv6 loopback"),
        pytest.param("localhost", True, id="localhost"),
        pytest.param(b"localhost", True, id="localhost as bytes"),
        pytest.param("0.0.0.0", True, id="every address of this machine"),
        pytest.param(None, True, id="no host at all"),
        pytest.param("192.0.2.1", False, id="another machine's address"),
        pytest.param("169.254.169.254", False, id="a cloud's metadata service"),
        pytest.param("example.org", False, id="another machine's name"),
    ],
)
def test_which_hosts_are_local(host, want_local):
    assert is_local(host) is want_local


def test_a_connection_to_another_machine_is_refused():
    with socket.socket() as client, pytest.raises(NetworkUsed, match=r"192\.0\.2\.1"):
        client.connect(("192.0.2.1", 80))


def test_a_datagram_to_another_machine_is_refused():
    with (
        socket.socket(type=socket.SOCK_DGRAM) as client,
        pytest.raises(NetworkUsed, match=r"192\.0\.2\.1"),
    ):
        client.sendto(b"x", ("192.0.2.1", 53))


def test_looking_up_another_machine_is_refused():
    with pytest.raises(NetworkUsed, match="example"):
        socket.getaddrinfo("example.org", 80)


def test_a_connection_on_this_machine_works():
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname(), timeout=5) as client:
            accepted, address = server.accept()
            accepted.close()
        assert address[1] != 0
        assert client.fileno() == -1
