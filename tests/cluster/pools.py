"""Work pools of the gpu-kubernetes worker on the tests' cluster."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.cluster import Cluster, Json, Namespace, new_namespace, python_in_pod
from tests.support.prefect_stack import Pool, PrefectServer
from tests.support.waiting import wait_for

# Nodes of the local cluster announce an old Kubernetes; pods run this machine's Python as root, and
# mount its folders, which Pod Security `restricted` forbids.
POLICY = """
version: 1
prices: {a10g: {on-demand: 1.0, spot: 0.4}}
preemption: {grace_period: 20s, min_runtime: 0s}
checkpoints: {interval: 1s}
kubernetes:
  version: "1.20"
  pod_security: template
  termination_grace: 35s
  pending_timeout: 20s
  silent_after: 5s
  fenced_after: 15s
  per_gpu: {default: {cpu: 0.2, memory_gib: 0.5}}
"""

FLOWS = "tests/end_to_end/flows.py"
# What takes time, saves after each step, and notes it all for `tests.support.run_journal`.
JOURNALED_RUN = Path(__file__).with_name("journaled_run.sh")


def kubernetes_pool(
    server: PrefectServer,
    namespace: Namespace,
    folder: Path,
    policy: str = POLICY,
    packages: Sequence[Path] = (),
    sidecar: str | None = None,
    node_selector: Mapping[str, str] | None = None,
) -> Pool:
    """A pool whose Jobs run in this namespace with this machine's Python and this code.

    Args:
        server: Where the pool is.
        namespace: Of the Jobs.
        folder: The pool's own, which its pods see too.
        policy: As YAML.
        packages: Further folders on the path of the pods' Python.
        sidecar: What a second container runs, which the platform team has put into the pod.
        node_selector: Of its pods.
    """
    code = python_in_pod(Path.cwd(), *packages)
    shared = folder / "shared"
    shared.mkdir(parents=True, exist_ok=True)
    return Pool(
        server,
        folder,
        policy,
        worker_type="gpu-kubernetes",
        edited=lambda template: _edited(
            template, code, namespace.name, folder, server, sidecar, node_selector or {}
        ),
        environment={
            "KUBECONFIG": str(namespace.cluster.kubeconfig),
            "PREFECT_INTEGRATIONS_GPU_KUBERNETES_NAMESPACE": namespace.name,
        },
    )


@contextmanager
def working_pool(
    cluster: Cluster, server: PrefectServer, folder: Path, policy: str = POLICY
) -> Iterator[tuple[Pool, Namespace]]:
    """A pool with a worker, and a namespace, that some stories share until the block ends."""
    with new_namespace(cluster) as namespace:
        pool = kubernetes_pool(server, namespace, folder, policy)
        try:
            pool.start_worker()
            yield pool, namespace
        finally:
            pool.close()


def shell(script: str, **variables: object) -> dict[str, object]:
    """The job variables of a container job that runs this script."""
    return {"container_command": f"/bin/sh -c '{script}'", **variables}


def jobs_of(namespace: Namespace, flow_run_id: str) -> list[Json]:
    """The Jobs of a run, as the cluster has them."""
    return namespace.get("jobs", f"--selector=prefect-gpu.dev/flow-run-id={flow_run_id}")["items"]


def pods_of(namespace: Namespace, flow_run_id: str) -> list[Json]:
    """The pods of a run, of all its attempts."""
    return namespace.get("pods", f"--selector=prefect-gpu.dev/flow-run-id={flow_run_id}")["items"]


def settled(pool: Pool, flow_run_id: str) -> None:
    """Wait until the ledger has the end of the run's last attempt; Prefect may know it before."""
    wait_for(
        lambda: all(attempt.released_at for attempt in pool.attempts(flow_run_id)),
        "its last attempt is settled",
    )


def _edited(
    template: dict,
    fragment: Mapping,
    namespace: str,
    folder: Path,
    server: PrefectServer,
    sidecar: str | None,
    node_selector: Mapping[str, str],
) -> dict:
    """The template as a platform team edits it: namespace, image, and folders of the node."""
    manifest = template["job_configuration"]["job_manifest"]
    pod = manifest["spec"]["template"]["spec"]
    pod.update(fragment["pod"])
    if node_selector:
        pod["nodeSelector"] = dict(node_selector)
    pod["volumes"] = [
        *pod["volumes"],
        {"name": "shared", "hostPath": {"path": str(folder)}},
        {"name": "tmp", "emptyDir": {}},
    ]
    container = pod["containers"][0]
    container["volumeMounts"] = [
        *fragment["container"]["volumeMounts"],
        {"name": "shared", "mountPath": str(folder)},
        {"name": "tmp", "mountPath": "/tmp"},
    ]
    if sidecar is not None:
        second = {"name": "sidecar", "command": ["/bin/sh", "-c", sidecar]}
        pod["containers"] = [container, {**fragment["container"], **second}]
    properties = template["variables"]["properties"]
    properties["namespace"]["default"] = namespace
    properties["image"]["default"] = fragment["container"]["image"]
    properties["env"]["default"] = _environment(fragment["container"], server)
    return template


def _environment(container: Mapping, server: PrefectServer) -> dict[str, str]:
    passed = ("PREFECT_HOME", "PREFECT_PROFILES_PATH", "PREFECT_SERVER_ANALYTICS_ENABLED")
    return {
        **{item["name"]: item["value"] for item in container["env"]},
        **{name: server.environment[name] for name in passed if name in server.environment},
        "PREFECT_API_URL": server.api_url,
        "PREFECT_HOME": "/tmp/prefect",
        "PREFECT_PROFILES_PATH": "/tmp/prefect/profiles.toml",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHON": sys.executable,
        # Where an image that is made for Prefect has it: the command of a flow names no folder.
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
    }
