"""What one local cluster is made of: its folder, its ports and its nodes."""

import json
import secrets
import socket
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from ipaddress import IPv4Address
from pathlib import Path

HOST = "127.0.0.1"
NAME_SERVER_PORT = 53
_FILE = "cluster.json"
# One after another is taken only where something listens on all addresses.
_TRIES = 20


@dataclass(frozen=True)
class Ports:
    """Loopback ports that were free when they were chosen."""

    apiserver: int
    etcd: int
    etcd_peer: int


@dataclass(frozen=True)
class LocalNode:
    """A node with a kubelet.

    Args:
        name: What the cluster calls it.
        address: A loopback address that is its own, and that of the pods on it.
        kubelet_port: Where its kubelet listens; it was free when it was chosen.
    """

    name: str
    address: str
    kubelet_port: int


@dataclass(frozen=True)
class Settings:
    """Everything that the cluster's parts are started with, and started again with.

    Args:
        state: The folder that holds all of the cluster; `down.py` deletes it.
        binaries: The folder that `build.sh` prints.
        ports: Where the parts listen.
        nodes: The nodes with kubelets; at least one.
        node_labels: Labels that their kubelets register them with.
        gpus: How many `nvidia.com/gpu` each of them says it has.
        name_server: The loopback address whose port 53 resolves the names of Services.
        node_grace_s: After how many seconds of silence a node counts as not ready.
    """

    state: Path
    binaries: Path
    ports: Ports
    nodes: tuple[LocalNode, ...]
    node_labels: dict[str, str]
    gpus: int
    name_server: str
    node_grace_s: int

    @property
    def kubeconfig(self) -> Path:
        """The administrator's; JSON, which is YAML too, so that the standard library reads it."""
        return self.state / "kubeconfig"

    def folder(self, node: LocalNode) -> Path:
        """What belongs to this node alone is in it."""
        return self.state / "nodes" / node.name

    def cgroup(self, node: LocalNode) -> str:
        """The control group below which all pods of this node are, and no other's."""
        return f"prefect-gpu-{node.name}-{self.ports.apiserver}"

    def save(self) -> None:
        """Keep them in the cluster's folder."""
        (self.state / _FILE).write_text(json.dumps(asdict(self), default=str, indent=2))


def load(state: Path) -> Settings:
    """Which settings was the cluster in this folder started with?

    Raises:
        FileNotFoundError: The folder holds no cluster.
    """
    kept = json.loads((state / _FILE).read_text())
    return Settings(
        **{
            **kept,
            "state": Path(kept["state"]),
            "binaries": Path(kept["binaries"]),
            "ports": Ports(**kept["ports"]),
            "nodes": tuple(LocalNode(**node) for node in kept["nodes"]),
        }
    )


def free_ports() -> Ports:
    """Which ports are free now?"""
    return Ports(*_free_ports(HOST, HOST, HOST))


def new_nodes(names: Sequence[str]) -> tuple[LocalNode, ...]:
    """Nodes of these names: the first is 127.0.0.1, the second 127.0.0.2, and so on."""
    addresses = [str(IPv4Address(HOST) + number) for number in range(len(names))]
    ports = _free_ports(*addresses)
    return tuple(LocalNode(*node) for node in zip(names, addresses, ports, strict=True))


def free_name_server() -> str:
    """A loopback address whose port 53 is free: a pod's list of name servers has no ports.

    Raises:
        SystemExit: There is none.
    """
    for _ in range(_TRIES):
        address = str(IPv4Address(HOST) + 2**16 + secrets.randbelow(2**24 - 2**17))
        with suppress(OSError), socket.socket(type=socket.SOCK_DGRAM) as probe:
            probe.bind((address, NAME_SERVER_PORT))
            return address
    raise SystemExit(
        f"port {NAME_SERVER_PORT} is free on no loopback address: a name server of this machine "
        "has it on all addresses; let it listen on its own only (dnsmasq: bind-interfaces)"
    )


def _free_ports(*addresses: str) -> list[int]:
    """A free port of each; all are held until the last is found, so that none comes twice."""
    with ExitStack() as held:
        listeners = [held.enter_context(socket.socket()) for _ in addresses]
        for listener, address in zip(listeners, addresses, strict=True):
            listener.bind((address, 0))
        return [listener.getsockname()[1] for listener in listeners]
