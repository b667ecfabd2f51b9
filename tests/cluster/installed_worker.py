"""The worker as `infra/kubernetes` installs it: a Deployment with its account and its rights."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from tests.support.cluster import Cluster, Json, Namespace, python_in_pod
from tests.support.prefect_stack import Pool

_ROOT = Path(__file__).parents[2]
_MANIFESTS = _ROOT / "infra" / "kubernetes"
_WORKER = "app.kubernetes.io/name=gpu-worker"
_OF_THE_CLUSTER = ("ClusterRole", "ClusterRoleBinding")


@contextmanager
def installed_worker(namespace: Namespace, pool: Pool) -> Iterator[None]:
    """Have the manifests in this namespace, for this pool, until the block ends.

    The image is this machine's Python, as root and on the machine's network. All else is as it is
    in the repository, rights above all.
    """
    objects = [_adapted(found, namespace, pool) for found in _objects(namespace.cluster)]
    secret = {
        "PREFECT_API_URL": pool.environment["PREFECT_API_URL"],
        "PREFECT_INTEGRATIONS_GPU_LEDGER_URL": pool.ledger_url,
    }
    namespace.create(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "gpu-worker"},
         "stringData": secret}
    )  # fmt: skip
    try:
        for found in objects:
            namespace.cluster.create(found)
        yield
    finally:
        print(worker_log(namespace))
        for found in objects:
            if found["kind"] in _OF_THE_CLUSTER:
                name = found["metadata"]["name"]
                namespace.cluster.kubectl("delete", "--ignore-not-found", found["kind"], name)


def worker_log(namespace: Namespace) -> str:
    """What all replicas printed, each line with its pod before it."""
    return namespace.kubectl("logs", f"--selector={_WORKER}", "--prefix", "--tail=-1")


def restarts(namespace: Namespace) -> int:
    """How often did a replica end?"""
    pods = namespace.get("pods", f"--selector={_WORKER}")["items"]
    statuses = [status for pod in pods for status in pod["status"].get("containerStatuses", ())]
    return sum(status["restartCount"] for status in statuses)


def _objects(cluster: Cluster) -> list[Json]:
    """What `kubectl apply -k` would apply, without what other tests have to share."""
    objects = list(yaml.safe_load_all(cluster.kubectl("kustomize", str(_MANIFESTS))))
    left_out = {"Namespace", "PriorityClass"}
    if "policy/v1" not in cluster.kubectl("api-versions").split():
        left_out.add("PodDisruptionBudget")
    return [found for found in objects if found["kind"] not in left_out]


def _adapted(found: Json, namespace: Namespace, pool: Pool) -> Json:
    """The object in this namespace instead of `prefect-gpu`."""
    metadata = found["metadata"]
    if "namespace" in metadata:
        metadata["namespace"] = namespace.name
    for subject in found.get("subjects", ()):
        subject["namespace"] = namespace.name
    if found["kind"] in _OF_THE_CLUSTER:
        metadata["name"] += f"-{namespace.name}"
    if found["kind"] == "ClusterRoleBinding":
        found["roleRef"]["name"] = metadata["name"]
    if found["kind"] == "ConfigMap":
        found["data"]["policy.yaml"] = pool.policy_path.read_text()
    if found["kind"] == "Deployment":
        _run_this_python(found["spec"]["template"]["spec"], namespace, pool)
    return found


def _run_this_python(pod: Json, namespace: Namespace, pool: Pool) -> None:
    fragment = python_in_pod(_ROOT)
    (container,) = pod["containers"]
    pod["hostNetwork"] = True
    del pod["securityContext"]
    pod["volumes"] += [
        *fragment["pod"]["volumes"],
        {"name": "pool", "hostPath": {"path": str(pool.folder)}},
    ]
    container["image"] = fragment["container"]["image"]
    container["command"] = [fragment["python"], "-m"]
    container["args"] = [pool.name if word == "gpu" else word for word in container["args"]]
    container["resources"]["requests"]["cpu"] = "100m"
    # The replicas share this machine's network: each has a port of its own, which no probe knows.
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        del container[probe]
    container["volumeMounts"] += [
        *fragment["container"]["volumeMounts"],
        {"name": "pool", "mountPath": str(pool.folder)},
    ]
    container["env"] = [
        *(item for item in container["env"] if item["value"] != "prefect-gpu"),
        *fragment["container"]["env"],
        *_variables(
            PREFECT_INTEGRATIONS_GPU_KUBERNETES_NAMESPACE=namespace.name,
            # What is refused and tried again is told at this level at the least.
            PREFECT_LOGGING_LEVEL="DEBUG",
            PYTHONDONTWRITEBYTECODE="1",
            PYTHONUNBUFFERED="1",
            PREFECT_WORKER_WEBSERVER_PORT="0",
            **_api_server(namespace.cluster),
        ),
    ]


def _api_server(cluster: Cluster) -> dict[str, str]:
    """Where the API server is: the local cluster has nothing that leads its Service there."""
    config = json.loads(cluster.kubectl("config", "view", "--minify", "-o", "json"))
    address = urlsplit(config["clusters"][0]["cluster"]["server"])
    return {
        "KUBERNETES_SERVICE_HOST": address.hostname or "",
        "KUBERNETES_SERVICE_PORT": str(address.port or 443),
    }


def _variables(**values: str) -> list[Json]:
    return [{"name": name, "value": value} for name, value in values.items()]
