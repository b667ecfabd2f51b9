"""What the local cluster's name server answers, byte for byte as a resolver reads it."""

import socket
import struct

import pytest

FIRST, SECOND = "127.0.0.1", "127.0.0.2"
NAME = "gang-0.gang.team.svc.cluster.local"
A, AAAA = 1, 28


@pytest.fixture
def name_server(local_cluster_module):
    return local_cluster_module("name_server")


def question(name, kind=A):
    """A question as glibc sends it: number 7, recursion wanted."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return struct.pack("!6H", 7, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!2H", kind, 1)


def read(answer, asked):
    """An answer's code and addresses, where all else is as it must be."""
    number, flags, *counts = struct.unpack_from("!6H", answer)
    assert (number, flags >> 15, counts[0], counts[2:]) == (7, 1, 1, [0, 0])
    rest = answer[12:]
    assert rest.startswith(asked[12:])
    records = rest[len(asked[12:]) :]
    assert len(records) == 16 * counts[1]
    found = []
    for start in range(0, len(records), 16):
        assert records[start : start + 12] == struct.pack("!HHHIH", 0xC00C, A, 1, 0, 4)
        found.append(socket.inet_ntoa(records[start + 12 : start + 16]))
    return flags & 0xF, found


@pytest.mark.parametrize(
    ("kind", "known", "want"),
    [
        pytest.param(A, [FIRST, SECOND], (0, [FIRST, SECOND]), id="addresses"),
        pytest.param(AAAA, [FIRST], (0, []), id="the name is there, an IPv6 address is not"),
        pytest.param(A, None, (3, []), id="no such name"),
    ],
)
def test_a_question_is_answered(name_server, kind, known, want):
    asked = question(NAME, kind)
    names = []

    def find(name):
        names.append(name)
        return known

    assert read(name_server.respond(asked, find), asked) == want
    assert names == [NAME]


def test_names_are_the_same_in_capitals(name_server):
    asked = question(NAME.upper())
    answer = name_server.respond(asked, lambda name: [FIRST] if name == NAME else None)
    assert read(answer, asked) == (0, [FIRST])


def test_without_the_api_server_it_does_not_say_that_there_is_no_such_name(name_server):
    asked = question(NAME)

    def find(_):
        raise name_server.ApiError(0, "refused")

    assert read(name_server.respond(asked, find), asked) == (2, [])


@pytest.mark.parametrize(
    "message", [b"", b"\0" * 12, question(NAME)[:20], question(NAME)[:-4], b"\xff" * 40]
)
def test_what_is_no_question_gets_no_answer(name_server, message):
    assert name_server.respond(message, lambda _: [FIRST]) is None


class Asked:
    """An API server that notes what it is asked for."""

    def __init__(self):
        self.paths = []

    def get(self, path):
        self.paths.append(path)
        endpoints = [
            {"addresses": [FIRST], "hostname": "gang-0", "conditions": {"ready": True}},
            {"addresses": [SECOND], "hostname": "gang-1"},
            {"addresses": ["127.0.0.3"], "hostname": "gang-2", "conditions": {"ready": False}},
        ]
        return {
            "items": [
                {"addressType": "IPv4", "endpoints": endpoints},
                {"addressType": "IPv4", "endpoints": None},
                {"addressType": "IPv6", "endpoints": [{"addresses": ["::1"], "conditions": {}}]},
            ]
        }


@pytest.mark.parametrize(
    ("name", "want"),
    [
        pytest.param(NAME, [FIRST], id="a pod"),
        pytest.param("gang.team.svc.cluster.local", [FIRST, SECOND], id="all that are ready"),
        pytest.param("gang-2.gang.team.svc.cluster.local", None, id="not ready"),
        pytest.param("gang-9.gang.team.svc.cluster.local", None, id="no such pod"),
    ],
)
def test_a_name_is_looked_up_in_the_slices_of_its_service(name_server, name, want):
    api = Asked()
    assert name_server.find(api, name) == want
    (path,) = api.paths
    assert "/namespaces/team/endpointslices?" in path
    assert path.endswith("=kubernetes.io/service-name=gang")


@pytest.mark.parametrize(
    "name", ["", "example.com", "gang", "svc.cluster.local", "a.b.c.d.svc.cluster.local"]
)
def test_nothing_else_has_a_name(name_server, name):
    api = Asked()
    assert name_server.find(api, name) is None
    assert api.paths == []
