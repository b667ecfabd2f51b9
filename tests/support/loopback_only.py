"""Keep the tests' own process off the network: connections and look-ups stay on this machine."""

import ipaddress
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


class NetworkUsed(AssertionError):
    """A test reached for another machine."""


@contextmanager
def enforced() -> Iterator[None]:
    """Refuse connections and name look-ups that leave this machine, until the block ends."""
    with pytest.MonkeyPatch.context() as patch:
        for method in ("connect", "connect_ex", "sendto"):
            patch.setattr(socket.socket, method, _guarded(getattr(socket.socket, method)))
        patch.setattr(socket, "getaddrinfo", _guarded_lookup(socket.getaddrinfo))
        yield


def is_local(host: object) -> bool:
    """Does this host name or address stay on this machine?"""
    if host in (None, "", b"", "localhost", b"localhost"):
        return True
    text = host.decode() if isinstance(host, bytes) else str(host)
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return text == socket.gethostname()
    return address.is_loopback or address.is_unspecified


def _guarded(method: Any) -> Any:
    def checked(self: socket.socket, *args: Any) -> Any:
        # The address is the last argument: `sendto` takes data, and maybe flags, before it.
        if self.family in (socket.AF_INET, socket.AF_INET6):
            _require_local(args[-1][0])
        return method(self, *args)

    return checked


def _guarded_lookup(lookup: Any) -> Any:
    def checked(host: object, *args: Any, **kwargs: Any) -> Any:
        _require_local(host)
        return lookup(host, *args, **kwargs)

    return checked


def _require_local(host: object) -> None:
    if not is_local(host):
        raise NetworkUsed(f"a test reached for {host!r}; tests use this machine only")
