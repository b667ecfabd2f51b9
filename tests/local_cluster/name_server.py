#!/usr/bin/env python3
"""Resolves the names of Services' pods, as a cluster's DNS does; nothing else has a name.

It looks into the API server for every question, so that an answer is never old: a few lines that
are right, for a cluster with few pods. The form of messages is RFC 1035's.
"""

import socket
import struct
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import quote

from kube_api import Api, ApiError, Json
from settings import NAME_SERVER_PORT

DOMAIN = "cluster.local"
_ENDING = f".svc.{DOMAIN}"

_HEADER = struct.Struct("!6H")
_QUESTION_END = struct.Struct("!2H")
_ANSWER = struct.Struct("!HHHIH4s")
# A response, authoritative, to a question that may ask for recursion; then the kind of its end.
_RESPONSE, _NO_ERROR, _SERVER_FAILURE, _NO_SUCH_NAME = 0x8400, 0, 2, 3
_RECURSION_DESIRED = 0x0100
_A, _IN = 1, 1
_NAME_OF_QUESTION = 0xC000 | _HEADER.size  # a pointer to where it was written before
_KEPT_S = 0
_LONGEST = 512
# More addresses than a message of this length has room for are left out.
_MOST_ADDRESSES = 16
_PROBE_S = 1


def main() -> None:
    """Answer until the process is ended."""
    kubeconfig, address = sys.argv[1:]
    api = Api(Path(kubeconfig))
    with socket.socket(type=socket.SOCK_DGRAM) as server:
        server.bind((address, NAME_SERVER_PORT))
        while True:
            question, asker = server.recvfrom(_LONGEST)
            answer = respond(question, lambda name: find(api, name))
            if answer is not None:
                server.sendto(answer, asker)


def respond(question: bytes, find: Callable[[str], list[str] | None]) -> bytes | None:
    """The answer to this message; None: it is no question.

    Args:
        question: A message with one question.
        find: The addresses of a name; None: there is no such name. It may raise `ApiError`.
    """
    try:
        number, flags, questions, *_ = _HEADER.unpack_from(question)
        name, end = _name_at(question, _HEADER.size)
        kind, network = _QUESTION_END.unpack_from(question, end)
    except (struct.error, IndexError, UnicodeDecodeError):
        return None
    if questions != 1:
        return None
    try:
        found = find(name)
        result = _NO_SUCH_NAME if found is None else _NO_ERROR
    except ApiError:
        found, result = None, _SERVER_FAILURE
    # A name without an address of the kind that was asked for (IPv6, say) exists all the same.
    reported = (found or [])[:_MOST_ADDRESSES] if (kind, network) == (_A, _IN) else []
    flags = _RESPONSE | flags & _RECURSION_DESIRED | result
    return b"".join(
        [
            _HEADER.pack(number, flags, 1, len(reported), 0, 0),
            question[_HEADER.size : end + _QUESTION_END.size],
            *map(_answer, reported),
        ]
    )


def find(api: Api, name: str) -> list[str] | None:
    """The addresses of a Service's pods, or of its pod with this host name. None: no such name."""
    labels = name.removesuffix(_ENDING).split(".")
    if not name.endswith(_ENDING) or len(labels) not in (2, 3):
        return None
    *host, service, namespace = map(partial(quote, safe=""), labels)
    path = f"/apis/discovery.k8s.io/v1beta1/namespaces/{namespace}/endpointslices"
    slices = api.get(f"{path}?labelSelector=kubernetes.io/service-name={service}")["items"]
    return addresses(slices, *host)


def addresses(slices: list[Json], host: str | None = None) -> list[str] | None:
    """The IPv4 addresses in a Service's EndpointSlices, of all that are ready or of one host name.

    None: there is none, as for a name that is free.
    """
    found = {
        address
        for part in slices
        if part["addressType"] == "IPv4"
        for endpoint in part["endpoints"] or ()
        if host is None or endpoint.get("hostname") == host
        # Of a Service with publishNotReadyAddresses all are.
        if endpoint.get("conditions", {}).get("ready", True)
        for address in endpoint["addresses"]
    }
    return sorted(found) or None


def answers(address: str) -> bool:
    """Does a name server at this address answer?"""
    question = _HEADER.pack(1, 0, 1, 0, 0, 0) + b"\0" + _QUESTION_END.pack(_A, _IN)
    with socket.socket(type=socket.SOCK_DGRAM) as client:
        client.settimeout(_PROBE_S)
        try:
            client.connect((address, NAME_SERVER_PORT))
            client.send(question)
            return bool(client.recv(_LONGEST))
        except OSError:
            return False


def _name_at(message: bytes, start: int) -> tuple[str, int]:
    """The name that begins here, in lower case, and where it ends."""
    labels = []
    while length := message[start]:
        labels.append(message[start + 1 : start + 1 + length].decode("ascii").lower())
        start += 1 + length
    return ".".join(labels), start + 1


def _answer(address: str) -> bytes:
    number = socket.inet_aton(address)
    return _ANSWER.pack(_NAME_OF_QUESTION, _A, _IN, _KEPT_S, len(number), number)


if __name__ == "__main__":
    main()
