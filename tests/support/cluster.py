"""A Kubernetes for tests: the one that a variable points to, else one of the tests' own."""

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.local_cluster.kube_api import Api, ApiError
from tests.support.tools import do_without
from tests.support.waiting import wait_for

KUBECONFIG_VARIABLE = "PREFECT_GPU_TEST_KUBECONFIG"
LOCAL_CLUSTER = Path(__file__).parents[1] / "local_cluster"

GPU = "nvidia.com/gpu"
# Without a registry this is the one image there is; it has a shell and the usual commands.
BUSYBOX = "busybox:1"

_PROGRAMS = ("kubectl", "containerd", "ctr", "runc", "etcd", "openssl", "busybox", "unshare")
_NETWORK_PLUGIN = Path("/usr/lib/cni/loopback")
# A node falls silent sooner than Kubernetes' 40 s, so that tests of it need not wait that long.
NODE_GRACE_S = 20
_COMMAND_S = 600

Json = dict[str, Any]


@dataclass(frozen=True)
class Cluster:
    """A running cluster.

    Args:
        kubeconfig: The administrator's.
        state: The folder that `up.py` made; None: the cluster is not the tests' own.
        api: Its API server, where it is the tests' own.
    """

    kubeconfig: Path
    state: Path | None = None
    api: Api | None = None

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl; what it prints.

        Raises:
            KubectlFailed: With what it printed to standard error.
        """
        done = subprocess.run(
            self.kubectl_command(*arguments), input=stdin,
            capture_output=True, text=True, timeout=_COMMAND_S,
        )  # fmt: skip
        if done.returncode != 0:
            raise KubectlFailed(done.stderr.strip())
        return done.stdout

    def kubectl_command(self, *arguments: str) -> list[str]:
        """The command line of kubectl on this cluster, for a process that runs during the test."""
        return ["kubectl", f"--kubeconfig={self.kubeconfig}", *arguments]

    def get(self, *arguments: str) -> Json:
        """`kubectl get`, decoded.

        A kubectl takes 0.2 s of a processor, and who waits looks twice a second: a cluster of the
        tests' own is asked on a connection that stays.
        """
        path = _api_path(arguments)
        if self.api is None or path is None:
            return json.loads(self.kubectl("get", "-o", "json", *arguments))
        try:
            found = self.api.get(path)
        except ApiError as error:
            raise KubectlFailed(str(error)) from error
        kind = {"apiVersion": found["apiVersion"], "kind": found["kind"].removesuffix("List")}
        if "items" in found:  # kubectl says of each what it is
            found["items"] = [kind | item for item in found["items"]]
        return found

    def create(self, manifest: Json, *arguments: str) -> Json:
        """Create the object; as the API server keeps it."""
        created = self.kubectl(
            "create", "-o", "json", "-f", "-", *arguments, stdin=json.dumps(manifest)
        )
        return json.loads(created)

    def nodes(self) -> list[str]:
        """The names of all nodes."""
        return [node["metadata"]["name"] for node in self.get("nodes")["items"]]

    def taint(self, node: str, taint: str) -> None:
        """Taint a node: `key=value:Effect` sets one, `key-` removes it."""
        self.kubectl("taint", "--overwrite", "node", node, taint)

    def delete_node(self, node: str) -> None:
        """Delete the Node object, as a cloud does once the machine is gone.

        The kubelet of the local cluster announces its node again when it is started anew.
        """
        self.kubectl("delete", "node", node)

    def stop(self, program: str) -> None:
        """Stop `kubelet`, `kube-apiserver` or another program of the local cluster."""
        self._control("stop", program)

    def start(self, program: str) -> None:
        """Start it again; returns when it is ready."""
        self._control("start", program)

    def restart(self, program: str) -> None:
        """Stop it and start it again; returns when it is ready."""
        self._control("restart", program)

    @contextmanager
    def simulated_nodes(self, count: int, *options: str) -> Iterator[None]:
        """Have this many more nodes, without kubelets, until the block ends.

        Args:
            count: How many.
            options: Options of `add_nodes.py`: their name, GPUs, instance type and so on.
        """
        self._require_own("nodes without kubelets")
        with subprocess.Popen(
            [sys.executable, LOCAL_CLUSTER / "add_nodes.py", self.kubeconfig, str(count),
             f"--renew-s={NODE_GRACE_S / 4}", *options],
            stdout=subprocess.PIPE, text=True,
        ) as program:  # fmt: skip
            try:
                said = program.stdout.readline()
                assert said == f"{count} nodes are ready\n", said
                yield
            finally:
                program.terminate()

    def _control(self, action: str, program: str) -> None:
        state = self._require_own(f"to {action} {program}")
        subprocess.run(
            [sys.executable, LOCAL_CLUSTER / "component.py", action, state, program],
            check=True, timeout=_COMMAND_S,
        )  # fmt: skip

    def _require_own(self, what: str) -> Path:
        if self.state is None:
            do_without(
                f"{what} needs a cluster of the tests' own", f"run without {KUBECONFIG_VARIABLE}"
            )
        return self.state


class KubectlFailed(Exception):
    """kubectl said no; the message is what it said."""


@dataclass(frozen=True)
class Namespace:
    """A namespace of one test's own."""

    cluster: Cluster
    name: str

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """`Cluster.kubectl` in this namespace."""
        return self.cluster.kubectl(f"--namespace={self.name}", *arguments, stdin=stdin)

    def get(self, *arguments: str) -> Json:
        """`kubectl get` in this namespace, decoded."""
        return self.cluster.get(f"--namespace={self.name}", *arguments)

    def create(self, manifest: Json) -> Json:
        """Create the object in this namespace; as the API server keeps it."""
        return self.cluster.create(manifest, f"--namespace={self.name}")

    def phase(self, pod: str) -> str:
        """`Pending`, `Running`, `Succeeded` or `Failed`."""
        return self.get("pod", pod)["status"]["phase"]

    def pods_of(self, job: str) -> list[Json]:
        """The pods of a Job."""
        return self.get("pods", f"--selector=job-name={job}")["items"]

    def evict(self, pod: str) -> None:
        """Evict a pod as a drain does: budgets are asked, and its grace is kept."""
        # policy/v1 came with 1.22, and v1beta1 left with 1.25.
        versions = self.cluster.kubectl("api-versions").split()
        version = "policy/v1" if "policy/v1" in versions else "policy/v1beta1"
        eviction = {"apiVersion": version, "kind": "Eviction", "metadata": {"name": pod}}
        path = f"/api/v1/namespaces/{self.name}/pods/{pod}/eviction"
        self.cluster.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))


_COLLECTIONS = {
    "node": "/api/v1/nodes",
    "nodes": "/api/v1/nodes",
    "pod": "/api/v1/namespaces/{namespace}/pods",
    "pods": "/api/v1/namespaces/{namespace}/pods",
    "jobs": "/apis/batch/v1/namespaces/{namespace}/jobs",
}
_SELECTORS = {"--selector": "labelSelector", "--field-selector": "fieldSelector"}


def _api_path(arguments: Sequence[str]) -> str | None:
    """Where the API has what `kubectl get` is asked for; None: kubectl knows."""
    options = {}
    words = []
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not name.startswith("-"):
            words.append(argument)
        elif equals and name in (*_SELECTORS, "--namespace"):
            options[name] = value
        else:
            return None
    kind, *names = words
    if kind not in _COLLECTIONS or len(names) > 1:
        return None
    namespace = options.pop("--namespace", "default")
    path = "/".join([_COLLECTIONS[kind].format(namespace=namespace), *names])
    query = urlencode({_SELECTORS[name]: value for name, value in options.items()})
    return f"{path}?{query}" if query else path


def job_manifest(name: str, command: Sequence[str], gpus: int = 1, **pod: Any) -> Json:
    """A Job of one busybox container that runs once on the host's network.

    Args:
        name: The Job's name.
        command: What the container runs.
        gpus: Its limit of `nvidia.com/gpu`.
        pod: Further fields of the pod's spec.
    """
    container = {
        "name": "main",
        "image": BUSYBOX,
        "imagePullPolicy": "IfNotPresent",
        "command": list(command),
        "resources": {"limits": {GPU: str(gpus)} if gpus else {}},
    }
    spec = {"restartPolicy": "Never", "hostNetwork": True, "containers": [container], **pod}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"backoffLimit": 0, "template": {"spec": spec}},
    }


def python_in_pod(*code: Path) -> Json:
    """What a pod needs to run the tests' own Python with these folders on its path.

    `pod` goes into its spec, `container` into its container, `python` is the command's first word.
    """
    options = [option for folder in code for option in ("--code", folder)]
    done = subprocess.run(
        [sys.executable, LOCAL_CLUSTER / "host_python.py", sys.executable, *options],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return json.loads(done.stdout)


@contextmanager
def kubernetes(*options: str) -> Iterator[Cluster]:
    """The cluster that the variable points to, or one that lives as long as the block.

    Args:
        options: Of a cluster of the tests' own, as `local_cluster` takes them.
    """
    if given := os.environ.get(KUBECONFIG_VARIABLE):
        yield Cluster(Path(given))
        return
    with local_cluster(*options) as cluster:
        yield cluster


@contextmanager
def local_cluster(*options: str) -> Iterator[Cluster]:
    """A local cluster; where there cannot be one the test is skipped, or fails if it must not be.

    Args:
        options: Options of `up.py`: the node's name, GPUs, instance type and so on.
    """
    binaries = _require_binaries()
    room = Path(tempfile.mkdtemp(prefix="cluster-"))
    state = room / "state"
    command = [
        sys.executable, LOCAL_CLUSTER / "up.py", state, "--binaries", binaries,
        f"--node-grace-s={NODE_GRACE_S}", "--lifeline", *options,
    ]  # fmt: skip
    try:
        # The cluster ends with this process, however that ends: it holds the pipe's other end.
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as up:
            kubeconfig = up.stdout.readline().strip()
            assert kubeconfig, "the local cluster did not come up: see above"
            with closing(Api(Path(kubeconfig))) as api:
                yield Cluster(Path(kubeconfig), state, api)
    finally:
        subprocess.run([sys.executable, LOCAL_CLUSTER / "down.py", state], check=True)
        shutil.rmtree(room)


@contextmanager
def new_namespace(cluster: Cluster) -> Iterator[Namespace]:
    """A namespace for one test; what is in it goes with it."""
    name = f"test-{secrets.token_hex(4)}"
    cluster.kubectl("create", "namespace", name)
    namespace = Namespace(cluster, name)
    try:
        # No pod can be created before the namespace has its service account.
        wait_for(lambda: _has_account(namespace), "the namespace's service account")
        yield namespace
    finally:
        cluster.kubectl("delete", "namespace", name, "--wait=false")


def _has_account(namespace: Namespace) -> bool:
    return "serviceaccount/default" in namespace.kubectl("get", "serviceaccounts", "-o", "name")


def _require_binaries() -> Path:
    if not sys.platform.startswith("linux"):
        do_without("a local cluster needs Linux", f"set {KUBECONFIG_VARIABLE}")
    if os.geteuid() != 0:
        do_without("a local cluster needs root", f"run as root, or set {KUBECONFIG_VARIABLE}")
    missing = [program for program in _PROGRAMS if shutil.which(program) is None]
    if not _NETWORK_PLUGIN.exists():
        missing.append("containernetworking-plugins")
    if missing:
        do_without(
            f"a local cluster needs {', '.join(missing)}",
            f"`make system-deps` installs it; or set {KUBECONFIG_VARIABLE}",
        )
    look = subprocess.run(
        [LOCAL_CLUSTER / "build.sh", "--look"], capture_output=True, text=True, check=False
    )
    if look.returncode != 0:
        do_without("Kubernetes is not built", "`tests/local_cluster/build.sh` builds it, once")
    return Path(look.stdout.strip())
