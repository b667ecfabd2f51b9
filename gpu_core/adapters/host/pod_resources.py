"""Reads the devices of each container on this node from the kubelet's local socket.

The kubelet answers gRPC (KEP-606, `k8s.io/kubelet/pkg/apis/podresources/v1/api.proto`, stable since
Kubernetes 1.28). One question without a body is all that is asked, so that this file reads the
answer itself: gRPC's own package would be the largest dependency for it.
"""

from collections.abc import Iterator
from pathlib import Path

import httpx

from gpu_core.decisions.model.errors import GpuSchedulingError
from gpu_core.decisions.telemetry.node_metrics import GpuPod

SOCKET = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
"""The kubelet's usual path of it."""

_ANSWER_S = 2.0
_GPU_RESOURCES = "nvidia.com/"

# gRPC's frame: a byte that says whether it is compressed, and the length.
_HEAD_BYTES = 5


class PodResourcesError(GpuSchedulingError):
    """The kubelet does not say which pods hold devices."""


def read_gpu_pods(socket: Path = SOCKET) -> tuple[GpuPod, ...]:
    """The containers of this node that hold NVIDIA devices.

    Raises:
        PodResourcesError: There is no kubelet at this socket, or its answer cannot be understood.
    """
    if not socket.is_socket():
        raise PodResourcesError(f"no kubelet socket found at {socket}")
    transport = httpx.HTTPTransport(uds=str(socket), http1=False, http2=True)
    try:
        with httpx.Client(transport=transport, timeout=_ANSWER_S) as client:
            answer = client.post(
                "http://localhost/v1.PodResourcesLister/List",
                content=bytes(_HEAD_BYTES),
                headers={"content-type": "application/grpc", "te": "trailers"},
            )
    except (httpx.HTTPError, OSError) as error:
        raise PodResourcesError(f"failed to connect to the kubelet at {socket}: {error}") from error
    body = answer.content
    if answer.status_code != httpx.codes.OK or len(body) < _HEAD_BYTES or body[0]:
        status = answer.headers.get("grpc-status", answer.status_code)
        raise PodResourcesError(f"the kubelet at {socket} returned gRPC status {status}")
    try:
        return tuple(_gpu_pods(body[_HEAD_BYTES:]))
    except (ValueError, IndexError) as error:
        raise PodResourcesError(
            f"unexpected response from the kubelet at {socket}: {error}"
        ) from error


def _gpu_pods(message: bytes) -> Iterator[GpuPod]:
    for pod in _fields(message, 1):
        name, namespace = _text(pod, 1), _text(pod, 2)
        for container in _fields(pod, 3):
            for devices in _fields(container, 2):
                if not _text(devices, 1).startswith(_GPU_RESOURCES):
                    continue
                for device_id in _fields(devices, 2):
                    yield GpuPod(namespace, name, _text(container, 1), device_id.decode())


def _text(message: bytes, number: int) -> str:
    return next(iter([*_fields(message, number)][-1:]), b"").decode()


def _fields(message: bytes, number: int) -> Iterator[bytes]:
    """The values of a field with a length, in Protocol Buffers' encoding.

    Raises:
        ValueError: The message is cut off, or is none.
        IndexError: The same.
    """
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        kind = tag & 7
        if kind == 0:
            _, place = _varint(message, place)
        elif kind == 2:
            length, place = _varint(message, place)
            if place + length > len(message):
                raise ValueError("it is cut off")
            if tag >> 3 == number:
                yield message[place : place + length]
            place += length
        elif kind in (1, 5):
            place += 8 if kind == 1 else 4
        else:
            raise ValueError(f"it has a field of the unknown kind {kind}")


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """The number that begins here, and where it ends."""
    value = shift = 0
    while True:
        byte = message[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if not byte & 0x80:
            return value, place
        if shift > 63:
            raise ValueError("it has a number without an end")
