"""A pool whose container jobs run on simulated nodes: they cost nothing, and print what is said."""

from pathlib import Path

from tests.support.cluster import BUSYBOX, Namespace
from tests.support.prefect_stack import Pool, PrefectServer
from tests.support.simulated_pods import PREFIX, SET

POLICY = """
version: 1
prices: {a10g: {on-demand: 1.0}}
preemption: {grace_period: 20s, min_runtime: 0s}
kubernetes:
  version: "1.20"
  pod_security: template
  pending_timeout: 30m
  per_gpu: {default: {cpu: 1, memory_gib: 1}}
"""
FLOW = "tests/end_to_end/flows.py:do_nothing"

# Annotations, each of which a job variable of the pool gives; without it they are left out.
_BEHAVIOR = ("run-for-s", "log-lines", "log-every-s")


def simulated_pool(
    server: PrefectServer,
    namespace: Namespace,
    folder: Path,
    nodes: str,
    policy: str = POLICY,
    ttl_s: int | None = None,
) -> Pool:
    """A pool whose pods go to the simulated nodes of this set.

    Its runs have the job variables `run_for_s`, `log_lines` and `log_every_s`.

    Args:
        server: Where the pool is.
        namespace: Of the Jobs.
        folder: The pool's own.
        nodes: The set's name.
        policy: As YAML.
        ttl_s: After how many seconds ended Jobs are removed; None: as the template has it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return Pool(
        server,
        folder,
        policy,
        worker_type="gpu-kubernetes",
        edited=lambda template: _edited(template, namespace.name, nodes, ttl_s),
        environment={
            "KUBECONFIG": str(namespace.cluster.kubeconfig),
            "PREFECT_INTEGRATIONS_GPU_KUBERNETES_NAMESPACE": namespace.name,
        },
    )


def _edited(template: dict, namespace: str, nodes: str, ttl_s: int | None) -> dict:
    pod = template["job_configuration"]["job_manifest"]["spec"]["template"]
    pod["metadata"] = {
        "annotations": {PREFIX + name: "{{ " + name.replace("-", "_") + " }}" for name in _BEHAVIOR}
    }
    pod["spec"]["nodeSelector"] = {SET: nodes}
    properties = template["variables"]["properties"]
    for name in _BEHAVIOR:
        properties[name.replace("-", "_")] = {"type": "string"}
    properties["namespace"]["default"] = namespace
    properties["image"]["default"] = BUSYBOX
    if ttl_s is not None:
        properties["finished_job_ttl"]["default"] = ttl_s
    return template
