"""What one local cluster is made of: its folder, its ports and its node."""

import json
import socket
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

HOST = "127.0.0.1"
_FILE = "cluster.json"


@dataclass(frozen=True)
class Ports:
    """Loopback ports that were free when they were chosen."""

    apiserver: int
    etcd: int
    etcd_peer: int
    kubelet: int


@dataclass(frozen=True)
class Settings:
    """Everything that the cluster's parts are started with, and started again with.

    Args:
        state: The folder that holds all of the cluster; `down.py` deletes it.
        binaries: The folder that `build.sh` prints.
        ports: Where the parts listen.
        node: The name of the one real node.
        node_labels: Labels that its kubelet registers it with.
        gpus: How many `nvidia.com/gpu` the node says it has.
        node_grace_s: After how many seconds of silence a node counts as not ready.
    """

    state: Path
    binaries: Path
    ports: Ports
    node: str
    node_labels: dict[str, str]
    gpus: int
    node_grace_s: int

    @property
    def kubeconfig(self) -> Path:
        """The administrator's; JSON, which is YAML too, so that the standard library reads it."""
        return self.state / "kubeconfig"

    @property
    def cgroup(self) -> str:
        """The control group below which all pods of this cluster are, and no other's."""
        return f"prefect-gpu-{self.node}-{self.ports.apiserver}"

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
        }
    )


def free_ports() -> Ports:
    """Which ports are free now? All are held until the last is found, so that none comes twice."""
    with ExitStack() as held:
        found = []
        for _ in range(4):
            listener = held.enter_context(socket.socket())
            listener.bind((HOST, 0))
            found.append(listener.getsockname()[1])
        return Ports(*found)
