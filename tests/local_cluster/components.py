"""The programs of a cluster: their files and their command lines."""

import json
import secrets
import subprocess
import sys
from pathlib import Path

from images import PAUSE
from name_server import DOMAIN
from settings import HOST, LocalNode, Settings

_BASE = ("etcd", "kube-apiserver")
# They need the API server's certificate, and a kubelet needs its containerd.
_CLIENTS = ("kube-controller-manager", "kube-scheduler", "name-server")
OF_NODES = ("containerd", "kubelet")

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
_KUBELET_FOLDER = "/var/lib/kubelet"
# Pods use the host's network or none, so that loopback is all that is needed of the machine's.
_LOOPBACK_PLUGIN = Path("/usr/lib/cni/loopback")
_NO_NETWORK_PLUGIN = Path(__file__).with_name("cni-none").resolve()
# Where the kubelet looks for drivers; it makes the folder, by default on the machine itself.
_VOLUME_PLUGINS = f"{_KUBELET_FOLDER}/volume-plugins"
# The defaults, 5 to 50 requests a second, make a thousand nodes a matter of minutes.
_CLIENT_LIMITS = ["--kube-api-qps=500", "--kube-api-burst=1000"]
_ALPHA_FEATURES = "--feature-gates=TTLAfterFinished=true"
_NAME_SERVER = Path(__file__).with_name("name_server.py")


def stages(settings: Settings) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Which programs are started together, and which once those are ready?

    The first node's go by the program's name alone, another's are PROGRAM@NODE.
    """
    containerds, kubelets = (
        (program, *(f"{program}@{node.name}" for node in settings.nodes[1:]))
        for program in OF_NODES
    )
    return (*containerds, *_BASE), (*_CLIENTS, *kubelets)


def program_and_node(settings: Settings, name: str) -> tuple[str, LocalNode]:
    """Which program is meant by this name, and the first node's or which other's?"""
    program, _, node_name = name.partition("@")
    for node in settings.nodes:
        if node_name in ("", node.name):
            return program, node
    raise ValueError(f"no node {node_name!r}; there are {[node.name for node in settings.nodes]}")


def write_files(settings: Settings) -> None:
    """Write the keys and configurations that the programs read."""
    for folder in ("logs", "etcd", "cni", "cni-bin", "tls", "kubernetes"):
        (settings.state / folder).mkdir(parents=True)
    _write_keys(settings)
    _write_json(settings.state / "cni" / "none.conf", {
        "cniVersion": "0.3.1", "name": "none", "type": _NO_NETWORK_PLUGIN.name,
    })  # fmt: skip
    for plugin in (_LOOPBACK_PLUGIN, _NO_NETWORK_PLUGIN):
        (settings.state / "cni-bin" / plugin.name).symlink_to(plugin)
    for node in settings.nodes:
        folder = settings.folder(node)
        folder.mkdir(parents=True)
        (folder / "containerd.toml").write_text(_containerd_config(settings, node))
        _write_json(folder / "kubelet.json", _kubelet_config(settings, node))
        # Its own, so that a test can lead it to the API server over a line that it cuts.
        (folder / "kubeconfig").touch(mode=0o600)
        (folder / "kubeconfig").write_bytes(settings.kubeconfig.read_bytes())


def command(settings: Settings, name: str) -> list[str]:
    """What starts the program of this name?"""
    program, node = program_and_node(settings, name)
    kubeconfig = f"--kubeconfig={settings.kubeconfig}"
    state = settings.state
    key = state / "tls" / "cluster.key"
    certificate = state / "tls" / "cluster.crt"
    match program:
        case "containerd":
            return ["containerd", "--config", str(settings.folder(node) / "containerd.toml")]
        case "etcd":
            client = f"http://{HOST}:{settings.ports.etcd}"
            peer = f"http://{HOST}:{settings.ports.etcd_peer}"
            return [
                "etcd", f"--data-dir={state / 'etcd'}", "--unsafe-no-fsync",
                f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
            ]  # fmt: skip
        case "kube-apiserver":
            return [
                _binary(settings, program),
                f"--etcd-servers=http://{HOST}:{settings.ports.etcd}",
                f"--bind-address={HOST}", f"--secure-port={settings.ports.apiserver}",
                f"--advertise-address={HOST}", "--endpoint-reconciler-type=none",
                f"--cert-dir={state / 'kubernetes'}",
                f"--token-auth-file={state / 'tls' / 'tokens.csv'}",
                "--authorization-mode=RBAC", "--allow-privileged",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}",
                "--service-cluster-ip-range=10.0.0.0/24",
                f"--kubelet-client-certificate={certificate}", f"--kubelet-client-key={key}",
                "--kubelet-preferred-address-types=InternalIP", _ALPHA_FEATURES,
            ]  # fmt: skip
        case "kube-controller-manager":
            return [
                _binary(settings, program), kubeconfig, "--port=0", "--secure-port=0",
                "--leader-elect=false", f"--service-account-private-key-file={key}",
                f"--root-ca-file={state / 'kubernetes' / 'apiserver.crt'}",
                f"--flex-volume-plugin-dir={state / 'kubernetes' / 'volume-plugins'}",
                "--node-monitor-period=1s",
                f"--node-monitor-grace-period={settings.node_grace_s}s",
                "--concurrent-gc-syncs=2", *_CLIENT_LIMITS, _ALPHA_FEATURES,
            ]  # fmt: skip
        case "kube-scheduler":
            return [
                _binary(settings, program), kubeconfig, "--port=0", "--secure-port=0",
                "--leader-elect=false", *_CLIENT_LIMITS,
            ]  # fmt: skip
        case "kubelet":
            labels = ",".join(f"{key}={value}" for key, value in settings.node_labels.items())
            return [
                _binary(settings, program),
                f"--kubeconfig={settings.folder(node) / 'kubeconfig'}",
                f"--config={settings.folder(node) / 'kubelet.json'}",
                f"--root-dir={_KUBELET_FOLDER}", f"--cert-dir={_KUBELET_FOLDER}/pki",
                "--container-runtime=remote",
                f"--container-runtime-endpoint=unix://{CONTAINERD_SOCKET}",
                f"--hostname-override={node.name}", f"--node-ip={node.address}",
                f"--node-labels={labels}",
            ]  # fmt: skip
        case "name-server":
            arguments = [str(settings.kubeconfig), settings.name_server]
            return [sys.executable, str(_NAME_SERVER), *arguments]
    names = (name for stage in stages(settings) for name in stage)
    raise ValueError(f"no program {name!r}; there are {', '.join(names)}")


def _binary(settings: Settings, program: str) -> str:
    return str(settings.binaries / program)


def _write_keys(settings: Settings) -> None:
    """One key pair signs service accounts and is the API server's identity to the kubelet."""
    folder = settings.state / "tls"
    folder.chmod(0o700)
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "365",
         "-subj", "/CN=apiserver", "-keyout", folder / "cluster.key",
         "-out", folder / "cluster.crt"],
        check=True, capture_output=True,
    )  # fmt: skip
    token = secrets.token_hex(16)
    (folder / "tokens.csv").write_text(f'{token},admin,admin,"system:masters"\n')
    name = "local-cluster"
    server = f"https://{HOST}:{settings.ports.apiserver}"
    authority = str(settings.state / "kubernetes" / "apiserver.crt")
    settings.kubeconfig.touch(mode=0o600)
    _write_json(settings.kubeconfig, {
        "apiVersion": "v1", "kind": "Config", "current-context": name,
        "clusters": [
            {"name": name, "cluster": {"server": server, "certificate-authority": authority}}
        ],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "admin"}}],
    })  # fmt: skip


def _containerd_config(settings: Settings, node: LocalNode) -> str:
    # Without CAP_SYS_RESOURCE a container's score cannot be lowered, and runc gives up.
    return f"""\
version = 2
root = "{settings.folder(node) / "containerd"}"
state = "/run/containerd"
[grpc]
  address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  stream_server_address = "{node.address}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{settings.state / "cni-bin"}"
    conf_dir = "{settings.state / "cni"}"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
"""


def _kubelet_config(settings: Settings, node: LocalNode) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node.address,
        "port": node.kubelet_port,
        "healthzPort": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": str(settings.state / "tls" / "cluster.crt")},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{settings.cgroup(node)}",
        "enforceNodeAllocatable": [],
        "failSwapOn": False,
        "clusterDNS": [settings.name_server],
        "clusterDomain": DOMAIN,
        "makeIPTablesUtilChains": False,
        "volumePluginDir": _VOLUME_PLUGINS,
        # Without device plugins the kubelet leaves extended resources as they were declared, and
        # stays out of a folder that it shares with any other kubelet.
        "featureGates": {"DevicePlugins": False},
        "nodeLeaseDurationSeconds": settings.node_grace_s,
        # There is no registry to pull an evicted image from, and a full disk is not the test's.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "1Mi"},
        "kubeAPIQPS": 100,
        "kubeAPIBurst": 200,
        "eventRecordQPS": 50,
        "registryPullQPS": 0,
        "maxPods": 250,
    }


def _write_json(path: Path, content: dict[str, object]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")
