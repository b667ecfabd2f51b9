"""Operators as the worker meets them: their kinds, and a stand-in for each."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.cluster import Cluster, Json, Namespace
from tests.support.waiting import wait_for


@contextmanager
def ray_jobs(cluster: Cluster) -> Iterator[None]:
    """Let the cluster know RayJobs until the block ends; the schema takes anything."""
    name = "rayjobs.ray.io"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    cluster.create(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": name},
            "spec": {
                "group": "ray.io",
                "names": {"kind": "RayJob", "plural": "rayjobs", "singular": "rayjob"},
                "scope": "Namespaced",
                "versions": [version],
            },
        }
    )
    try:
        cluster.kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=60s")
        yield
    finally:
        cluster.kubectl("delete", "crd", name)


class PlayedKubeRay:
    """KubeRay as far as the worker sees it: pods that belong to the RayJob, and its status."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace

    def job_of(self, flow_run_id: str) -> Json:
        """The RayJob of this run; waits for it."""
        found: list[Json] = []

        def look() -> bool:
            found[:] = self.jobs_of(flow_run_id)
            return bool(found)

        wait_for(look, f"run {flow_run_id} has a RayJob", timeout_s=180)
        return found[0]

    def jobs_of(self, flow_run_id: str) -> list[Json]:
        """The RayJobs of this run that are there."""
        selector = f"--selector=prefect-gpu.dev/flow-run-id={flow_run_id}"
        return self._namespace.get("rayjobs.ray.io", selector)["items"]

    def make_worker(self, job: Json) -> str:
        """Make the pod of its worker group; what KubeRay gives to the entry point, it runs. Its
        name."""
        template = job["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["template"]
        metadata, spec = template["metadata"], template["spec"]
        name = f"{job['metadata']['name']}-worker"
        spec["containers"][0]["command"] = ["/bin/sh", "-c", job["spec"]["entrypoint"]]
        owner = {
            "apiVersion": job["apiVersion"],
            "kind": job["kind"],
            "name": job["metadata"]["name"],
            "uid": job["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        self._namespace.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {**metadata, "name": name, "ownerReferences": [owner]},
                "spec": spec,
            }
        )
        return name

    def wait_for_phase(self, pod: str, *phases: str) -> None:
        """Wait until the pod is in one of these phases."""
        wait_for(lambda: self._namespace.phase(pod) in phases, f"{pod} {phases}", timeout_s=180)

    def emit(self, job: Json, deployment: str, status: str, **more: str) -> None:
        """Set the RayJob's status."""
        body = {"status": {"jobDeploymentStatus": deployment, "jobStatus": status, **more}}
        self._namespace.kubectl(
            *("patch", "rayjobs.ray.io", job["metadata"]["name"]),
            *("--type=merge", "--patch", json.dumps(body)),
        )
