"""The kubelet's answer on its local socket: HTTP/2 and Protocol Buffers made by others."""

import socket
import threading
from contextlib import suppress

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import StreamEnded

from gpu_core.adapters.host.pod_resources import PodResourcesError, read_gpu_pods
from gpu_core.decisions.telemetry.node_metrics import GpuPod

# The fields of k8s.io/kubelet/pkg/apis/podresources/v1/api.proto that matter here, and one more.
_MESSAGES = {
    "ContainerDevices": [("resource_name", 1, ""), ("device_ids", 2, "*")],
    "ContainerResources": [
        ("name", 1, ""),
        ("devices", 2, "*ContainerDevices"),
        ("cpu_ids", 3, "*int64"),
    ],
    "PodResources": [
        ("name", 1, ""),
        ("namespace", 2, ""),
        ("containers", 3, "*ContainerResources"),
    ],
    "ListPodResourcesResponse": [("pod_resources", 1, "*PodResources")],
}


def _classes():
    file = descriptor_pb2.FileDescriptorProto(name="api.proto", package="v1", syntax="proto3")
    field_type = descriptor_pb2.FieldDescriptorProto
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field_name, number, kind in fields:
            field = message.field.add(name=field_name, number=number)
            many, kind = kind.startswith("*"), kind.removeprefix("*")
            field.label = field_type.LABEL_REPEATED if many else field_type.LABEL_OPTIONAL
            field.type = field_type.TYPE_STRING
            if kind == "int64":
                field.type = field_type.TYPE_INT64
            elif kind:
                field.type, field.type_name = field_type.TYPE_MESSAGE, f".v1.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"v1.{name}"))
        for name in _MESSAGES
    }


def answer():
    """Two pods: one with GPUs and other devices, one without any."""
    made = _classes()
    devices = made["ContainerDevices"]
    container = made["ContainerResources"](
        name="main",
        devices=[
            devices(resource_name="nvidia.com/gpu", device_ids=["GPU-a", "GPU-b"]),
            devices(resource_name="rdma/hca", device_ids=["mlx5_0"]),
            devices(resource_name="nvidia.com/mig-1g.10gb", device_ids=["MIG-c"]),
        ],
        cpu_ids=[1, 2, 300],
    )
    pods = [
        made["PodResources"](name="train-0", namespace="vision", containers=[container]),
        made["PodResources"](name="web", namespace="default"),
    ]
    return made["ListPodResourcesResponse"](pod_resources=pods).SerializeToString()


def frame(message):
    return b"\0" + len(message).to_bytes(4, "big") + message


@pytest.fixture
def kubelet(tmp_path):
    """Starts a server that answers one question; the path of its socket."""
    servers = []

    def start(body, status="200"):
        path = tmp_path / "k.sock"
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(path))
        server.listen()
        thread = threading.Thread(target=serve, args=(server, body, status), daemon=True)
        thread.start()
        servers.append((server, thread))
        return path

    yield start
    for server, thread in servers:
        thread.join()
        server.close()


def serve(server, body, status):
    line, _ = server.accept()
    with line, suppress(OSError):  # the client closes when it has its answer
        connection = H2Connection(H2Configuration(client_side=False))
        connection.initiate_connection()
        line.sendall(connection.data_to_send())
        while data := line.recv(65536):
            for event in connection.receive_data(data):
                if isinstance(event, StreamEnded):
                    connection.send_headers(event.stream_id, [(":status", status)])
                    connection.send_data(event.stream_id, body)
                    trailers = [("grpc-status", "0")]
                    connection.send_headers(event.stream_id, trailers, end_stream=True)
            line.sendall(connection.data_to_send())


def test_containers_with_nvidia_devices_are_named(kubelet):
    assert read_gpu_pods(kubelet(frame(answer()))) == (
        GpuPod("vision", "train-0", "main", "GPU-a"),
        GpuPod("vision", "train-0", "main", "GPU-b"),
        GpuPod("vision", "train-0", "main", "MIG-c"),
    )


def test_a_node_without_pods_has_none(kubelet):
    assert read_gpu_pods(kubelet(frame(b""))) == ()


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(frame(answer()[:-3]), id="cut off"),
        pytest.param(b"\1" + frame(answer())[1:], id="compressed"),
        pytest.param(frame(b"\x0f\x0f"), id="no message"),
        pytest.param(frame(b"\xff" * 12), id="a number without an end"),
        pytest.param(frame(b"\x0a\x04\x0a\x02\xff\xfe"), id="a name that is no text"),
    ],
)
def test_an_answer_that_cannot_be_understood_is_an_error(kubelet, body):
    with pytest.raises(PodResourcesError, match="the kubelet"):
        read_gpu_pods(kubelet(body))


def test_a_refusal_is_an_error(kubelet):
    with pytest.raises(PodResourcesError, match="returned gRPC status"):
        read_gpu_pods(kubelet(frame(answer()), status="503"))


def test_without_a_kubelet_it_says_so(tmp_path):
    with pytest.raises(PodResourcesError, match="no kubelet socket found"):
        read_gpu_pods(tmp_path / "missing.sock")
