"""The programs of a cluster: their files and their command lines."""

import json
import secrets
import subprocess
from pathlib import Path

from images import PAUSE
from settings import HOST, Settings

BASE = ("containerd", "etcd", "kube-apiserver")
# They need the API server's certificate, and the kubelet needs containerd.
CLIENTS = ("kube-controller-manager", "kube-scheduler", "kubelet")
NAMES = BASE + CLIENTS

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


def write_files(settings: Settings) -> None:
    """Write the keys and configurations that the programs read."""
    for folder in ("logs", "etcd", "containerd", "cni", "cni-bin", "tls", "kubernetes"):
        (settings.state / folder).mkdir(parents=True)
    _write_keys(settings)
    _write_json(settings.state / "cni" / "none.conf", {
        "cniVersion": "0.3.1", "name": "none", "type": _NO_NETWORK_PLUGIN.name,
    })  # fmt: skip
    for plugin in (_LOOPBACK_PLUGIN, _NO_NETWORK_PLUGIN):
        (settings.state / "cni-bin" / plugin.name).symlink_to(plugin)
    (settings.state / "containerd.toml").write_text(_containerd_config(settings))
    _write_json(settings.state / "kubelet.json", _kubelet_config(settings))


def command(settings: Settings, name: str) -> list[str]:
    """What starts this program?"""
    kubeconfig = f"--kubeconfig={settings.kubeconfig}"
    state = settings.state
    key = state / "tls" / "cluster.key"
    certificate = state / "tls" / "cluster.crt"
    match name:
        case "containerd":
            return ["containerd", "--config", f"{state / 'containerd.toml'}"]
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
                _binary(settings, name),
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
                _binary(settings, name), kubeconfig, "--port=0", "--secure-port=0",
                "--leader-elect=false", f"--service-account-private-key-file={key}",
                f"--root-ca-file={state / 'kubernetes' / 'apiserver.crt'}",
                f"--flex-volume-plugin-dir={state / 'kubernetes' / 'volume-plugins'}",
                "--node-monitor-period=1s",
                f"--node-monitor-grace-period={settings.node_grace_s}s",
                "--concurrent-gc-syncs=2", *_CLIENT_LIMITS, _ALPHA_FEATURES,
            ]  # fmt: skip
        case "kube-scheduler":
            return [
                _binary(settings, name), kubeconfig, "--port=0", "--secure-port=0",
                "--leader-elect=false", *_CLIENT_LIMITS,
            ]  # fmt: skip
        case "kubelet":
            labels = ",".join(f"{key}={value}" for key, value in settings.node_labels.items())
            return [
                _binary(settings, name), kubeconfig, f"--config={state / 'kubelet.json'}",
                f"--root-dir={_KUBELET_FOLDER}", f"--cert-dir={_KUBELET_FOLDER}/pki",
                "--container-runtime=remote",
                f"--container-runtime-endpoint=unix://{CONTAINERD_SOCKET}",
                f"--hostname-override={settings.node}", f"--node-ip={HOST}",
                f"--node-labels={labels}",
            ]  # fmt: skip
    raise ValueError(f"no program {name!r}; there are {', '.join(NAMES)}")


def _binary(settings: Settings, name: str) -> str:
    return str(settings.binaries / name)


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


def _containerd_config(settings: Settings) -> str:
    # Without CAP_SYS_RESOURCE a container's score cannot be lowered, and runc gives up.
    return f"""\
version = 2
root = "{settings.state / "containerd"}"
state = "/run/containerd"
[grpc]
  address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  stream_server_address = "{HOST}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{settings.state / "cni-bin"}"
    conf_dir = "{settings.state / "cni"}"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
"""


def _kubelet_config(settings: Settings) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": HOST,
        "port": settings.ports.kubelet,
        "healthzPort": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": str(settings.state / "tls" / "cluster.crt")},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{settings.cgroup}",
        "enforceNodeAllocatable": [],
        "failSwapOn": False,
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
