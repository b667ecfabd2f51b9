"""The worker as the Helm chart installs it: a Deployment with its account and its rights."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.cluster import Cluster, Json, Namespace, python_in_pod
from tests.support.helm import CHART, helm
from tests.support.prefect_stack import Pool

_ROOT = Path(__file__).parents[2]
_RELEASE = "gpu"
_LEDGER = "gpu-worker"
# What a release may leave in the cluster, by the labels of its objects.
KINDS_OF_RELEASE = (
    "clusterroles,clusterrolebindings,priorityclasses,namespaces,deployments,configmaps,secrets,"
    "serviceaccounts,roles,rolebindings,leases,poddisruptionbudgets,networkpolicies,pods"
)


@dataclass(frozen=True)
class Release:
    """An installed release of the chart.

    Args:
        cluster: Where it is.
        namespace: Its own, which is not that of its runs.
        values: What it was installed with.
        room: Where helm may write.
    """

    cluster: Cluster
    namespace: str
    values: Json
    room: Path

    @property
    def account(self) -> str:
        """The worker's ServiceAccount, as the API server calls its user."""
        return f"system:serviceaccount:{self.namespace}:{_RELEASE}-prefect-gpu-worker"

    def beside(self, namespace: str) -> "Release":
        """The same release, not installed, in another namespace, for runs in one of its own."""
        runs = {"namespaces": [{"name": f"{namespace}-runs"}]}
        return replace(self, namespace=namespace, values=self.values | {"runs": runs})

    def install(self) -> None:
        """Returns when the workers are ready."""
        self._helm("install", _RELEASE, str(CHART), "--wait", values=self.values)

    def upgrade(self, **values: object) -> None:
        """Replace values of the installation; returns when it is rolled out."""
        self._helm("upgrade", _RELEASE, str(CHART), "--wait", values=self.values | values)

    def rollback(self) -> None:
        """To the revision before; returns when it is rolled out."""
        # Server-side apply of the local cluster's Kubernetes 1.20 takes no probes away.
        self._helm("rollback", _RELEASE, "--wait", "--server-side=false")

    def uninstall(self) -> str:
        """Returns what helm says, when the objects are gone."""
        return self._helm("uninstall", _RELEASE, "--wait")

    def upgrade_as(self, user: str) -> None:
        """Repeat the upgrade with the rights of this user."""
        self._helm("upgrade", _RELEASE, str(CHART), f"--kube-as-user={user}", values=self.values)

    @property
    def is_installed(self) -> bool:
        """Does helm know it?"""
        return _RELEASE in self._helm("list", "--short").split()

    def revision(self) -> int:
        """Which revision is deployed?"""
        found = json.loads(self._helm("history", _RELEASE, "--output=json"))
        (deployed,) = (item["revision"] for item in found if item["status"] == "deployed")
        return int(deployed)

    def objects(self) -> set[str]:
        """What there is of it in the cluster, as `kind/name`."""
        label = f"--selector=app.kubernetes.io/instance={_RELEASE}"
        found = self.cluster.kubectl(
            "get", KINDS_OF_RELEASE, "--all-namespaces", label, "-o", "json"
        )
        return {f"{item['kind']}/{item['metadata']['name']}" for item in json.loads(found)["items"]}

    def pods(self) -> list[Json]:
        """The workers' pods."""
        return self._namespace.get("pods", self._selector)["items"]

    def log(self) -> str:
        """What all workers that are there printed, each line with its pod before it."""
        return self._namespace.kubectl("logs", self._selector, "--prefix", "--tail=-1")

    def restarts(self) -> int:
        """How often did a worker that is there end?"""
        statuses = [s for pod in self.pods() for s in pod["status"].get("containerStatuses", ())]
        return sum(status["restartCount"] for status in statuses)

    @property
    def _namespace(self) -> Namespace:
        return Namespace(self.cluster, self.namespace)

    @property
    def _selector(self) -> str:
        return (
            f"--selector=app.kubernetes.io/instance={_RELEASE},app.kubernetes.io/component=worker"
        )

    def _helm(self, *arguments: str, values: Json | None = None) -> str:
        place = (f"--kubeconfig={self.cluster.kubeconfig}", f"--namespace={self.namespace}")
        return helm(*arguments, *place, values=values, room=self.room)


@contextmanager
def installed_worker(namespace: Namespace, pool: Pool, **values: object) -> Iterator[Release]:
    """Have the chart in another namespace, for this pool, until the block ends.

    The image is this machine's Python, as root and on the machine's network. All else is as the
    chart has it, rights above all.

    Args:
        namespace: Of the runs.
        pool: Whose worker it is.
        values: Of the chart, in addition to what this cluster needs.
    """
    own = f"{namespace.name}-worker"
    namespace.cluster.kubectl("create", "namespace", own)
    room = pool.folder / "helm"
    room.mkdir()
    release = Release(namespace.cluster, own, _values(namespace, pool) | values, room)
    secret = {"ledger-url": pool.ledger_url}
    namespace.cluster.create(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": _LEDGER},
         "stringData": secret},
        f"--namespace={own}",
    )  # fmt: skip
    try:
        release.install()
        yield release
    finally:
        if release.is_installed:
            print(release.log())
            release.uninstall()
        namespace.cluster.kubectl("delete", "namespace", own, "--wait=false")


def _values(namespace: Namespace, pool: Pool) -> Json:
    return {
        **values_of_this_machine(namespace.cluster, pool.folder),
        "pool": pool.name,
        "policy": pool.policy_path.read_text(),
        "prefect": {"apiUrl": pool.environment["PREFECT_API_URL"]},
        "ledger": {"existingSecret": _LEDGER},
        "runs": {"namespaces": [{"name": namespace.name}]},
        # Two pods on the machine's network cannot have one port.
        "probes": {"enabled": False},
    }


def values_of_this_machine(cluster: Cluster, folder: Path) -> Json:
    """What makes a worker of this machine's Python, in place of the image.

    Args:
        cluster: Where it runs.
        folder: One that it sees too.
    """
    fragment = python_in_pod(_ROOT)
    image, tag = fragment["container"]["image"].split(":")
    variables = {
        # What is refused and tried again is logged at this level at the least.
        "PREFECT_LOGGING_LEVEL": "DEBUG",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "PATH": f"{Path(fragment['python']).parent}:/usr/bin:/bin",
        **_api_server(cluster),
    }
    return {
        "image": {"repository": image, "tag": tag},
        "command": [fragment["python"], "-m"],
        "resources": {"requests": {"cpu": "100m"}},
        "podSecurityContext": None,
        "hostNetwork": True,
        "extraEnv": [
            *fragment["container"]["env"],
            *({"name": name, "value": value} for name, value in variables.items()),
        ],
        "extraVolumes": [
            *fragment["pod"]["volumes"],
            {"name": "shared", "hostPath": {"path": str(folder)}},
        ],
        "extraVolumeMounts": [
            *fragment["container"]["volumeMounts"],
            {"name": "shared", "mountPath": str(folder)},
        ],
    }


def _api_server(cluster: Cluster) -> dict[str, str]:
    """Where the API server is: the local cluster has nothing that leads its Service there."""
    config = json.loads(cluster.kubectl("config", "view", "--minify", "-o", "json"))
    address = urlsplit(config["clusters"][0]["cluster"]["server"])
    return {
        "KUBERNETES_SERVICE_HOST": address.hostname or "",
        "KUBERNETES_SERVICE_PORT": str(address.port or 443),
    }
