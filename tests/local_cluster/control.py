"""Starting and stopping the programs of a cluster, one by one."""

import json
import signal
import ssl
import subprocess
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

import components
import gpu_node
import name_server
import namespace
from images import write_archive
from kube_api import Api, ApiError
from namespace import Process
from settings import LocalNode, Settings
from waiting import wait_for

INIT = "init"
# Far more than any of them takes: a machine that does other things besides can be slow.
_READY_S = 180
# An API server waits a minute for its watchers, who do not leave by themselves.
_STOP_S = 5
_LOG_LINES = 15
_DEFAULT_ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"
_NOT_READY = "node.kubernetes.io/not-ready"


def start(settings: Settings, name: str) -> None:
    """Start this program; returns before it is ready."""
    process = namespace.start(
        _holder(settings, name),
        components.command(settings, name),
        _log(settings, name),
        # Go's default of collecting at twice the live memory; two cores, six programs of this kind.
        {"GOGC": "200"},
    )
    _keep(settings.state, name, process)


def stop(settings: Settings, name: str) -> None:
    """Stop this program; nothing happens where it does not run."""
    process = process_of(settings.state, name)
    if process and not process.end(signal.SIGTERM, _STOP_S):
        process.end(signal.SIGKILL, _STOP_S)


def wait_until_ready(settings: Settings, name: str) -> None:
    """Wait until this program does its work.

    Raises:
        SystemExit: It ended, or was not ready in time; the end of its log is in the message.
    """
    program, node = components.program_and_node(settings, name)
    is_ready = partial(_READY[program], settings, node)
    process = process_of(settings.state, name)

    def is_over() -> bool:
        return is_ready() or process is None or not process.is_alive()

    if not (wait_for(is_over, _READY_S) and is_ready()):
        ending = _log(settings, name).read_text().splitlines()[-_LOG_LINES:]
        raise SystemExit("\n".join([f"{name} does not get ready. The end of its log:", *ending]))
    if prepare := _PREPARE.get(program):
        prepare(settings, node)


def process_of(state: Path, name: str) -> Process | None:
    """The process of this program, or `INIT`; it may have ended. None: it was never started."""
    file = _process_file(state, name)
    return Process(**json.loads(file.read_text())) if file.exists() else None


def living_init(state: Path) -> Process:
    """The process whose end is the cluster's.

    Raises:
        SystemExit: It has ended.
    """
    init = process_of(state, INIT)
    if init is None or not init.is_alive():
        raise SystemExit(f"the cluster in {state} does not run: bring it down, then up")
    return init


def create_namespaces(settings: Settings, lifeline: int) -> None:
    """Make the namespaces that everything of the cluster runs in."""
    (settings.state / "processes").mkdir()
    init = namespace.create(settings.state, lifeline)
    _keep(settings.state, INIT, init)
    for node in settings.nodes:
        room = namespace.create_room(init, settings.folder(node))
        _keep(settings.state, _room(node), room)


def _holder(settings: Settings, name: str) -> Process:
    """The process in whose namespaces this program runs."""
    init = living_init(settings.state)
    program, node = components.program_and_node(settings, name)
    if program not in components.OF_NODES:
        return init
    return process_of(settings.state, _room(node)) or init


def _room(node: LocalNode) -> str:
    return f"room@{node.name}"


def _containerd_answers(settings: Settings, node: LocalNode) -> bool:
    try:
        _ctr(settings, node, "version")
    except subprocess.CalledProcessError:
        return False
    return True


def _import_images(settings: Settings, node: LocalNode) -> None:
    archive = settings.state / "images.tar"
    if not archive.exists():
        write_archive(archive)
    _ctr(settings, node, "images", "import", str(archive))


def _ctr(settings: Settings, node: LocalNode, *arguments: str) -> None:
    ctr = ["ctr", "--address", components.CONTAINERD_SOCKET, "--namespace", "k8s.io"]
    namespace.run(_holder(settings, f"containerd@{node.name}"), [*ctr, *arguments])


def _apiserver_is_ready(settings: Settings, _: LocalNode) -> bool:
    # It makes its own certificate, without which no client can connect.
    certificate = settings.state / "kubernetes" / "apiserver.crt"
    try:
        return certificate.exists() and _answers(settings, "/readyz")
    except ssl.SSLError:  # it is half written
        return False


def _pods_can_be_created(settings: Settings, _: LocalNode) -> bool:
    """A pod needs its namespace's service account, which the controller manager makes."""
    return _answers(settings, _DEFAULT_ACCOUNT)


def _node_is_ready(settings: Settings, node: LocalNode) -> bool:
    try:
        found = Api(settings.kubeconfig).get(f"/api/v1/nodes/{node.name}")
    except ApiError:
        return False
    conditions = {c["type"]: c["status"] for c in found["status"].get("conditions", [])}
    taints = {taint["key"] for taint in found["spec"].get("taints", [])}
    return conditions.get("Ready") == "True" and _NOT_READY not in taints


def _declare_gpus(settings: Settings, node: LocalNode) -> None:
    gpu_node.declare_gpus(Api(settings.kubeconfig), node.name, settings.gpus)


def _name_server_answers(settings: Settings, _: LocalNode) -> bool:
    return name_server.answers(settings.name_server)


def _answers(settings: Settings, path: str) -> bool:
    try:
        Api(settings.kubeconfig).get(path)
    except ApiError:
        return False
    return True


def _is_started(_: Settings, __: LocalNode) -> bool:
    return True


_READY: dict[str, Callable[[Settings, LocalNode], bool]] = {
    "containerd": _containerd_answers,
    "etcd": _is_started,
    "kube-apiserver": _apiserver_is_ready,
    "kube-controller-manager": _pods_can_be_created,
    "kube-scheduler": _is_started,
    "name-server": _name_server_answers,
    "kubelet": _node_is_ready,
}
# What is to be done each time that a program is ready.
_PREPARE: dict[str, Callable[[Settings, LocalNode], None]] = {
    "containerd": _import_images,
    "kubelet": _declare_gpus,
}


def _keep(state: Path, name: str, process: Process) -> None:
    _process_file(state, name).write_text(json.dumps(asdict(process)))


def _process_file(state: Path, name: str) -> Path:
    return state / "processes" / name


def _log(settings: Settings, name: str) -> Path:
    return settings.state / "logs" / f"{name}.log"
