"""Several nodes at once: who each of them is, and how they find the first."""

import shlex
from collections.abc import Mapping
from typing import Any

from gpu_core.decisions.kubernetes.manifests.environment import GANG_FILE, NOTICE_DIR
from gpu_core.decisions.kubernetes.manifests.launch import Launch
from gpu_core.decisions.kubernetes.manifests.merge import Manifest
from gpu_core.decisions.kubernetes.manifests.names import ATTEMPT_ID_LABEL, RANK_LABEL, label_value
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy

_INDEX_ANNOTATION = "batch.kubernetes.io/job-completion-index"


def gang_env(launch: Launch, policy: KubernetesPolicy, rank: int | None) -> list[Manifest]:
    """The variables that torchrun and `torch.distributed` read, on each node of a gang.

    `WORLD_SIZE` counts processes, one for each GPU. torchrun takes its options from `PET_`
    variables, so that `torchrun train.py` is enough on every node. Where a node has one process,
    its `RANK` is the node's, so that there `python train.py` is enough too.

    Args:
        rank: Of this node; None: Kubernetes says it (an Indexed Job).
    """
    address, port = f"{launch.name}-0.{launch.name}", str(policy.gangs.master_port)
    nodes, processes = str(launch.shape.nodes), launch.shape.gpu_count
    values = {
        "MASTER_ADDR": address,
        "MASTER_PORT": port,
        "NNODES": nodes,
        "WORLD_SIZE": str(launch.shape.nodes * processes),
        "PET_MASTER_ADDR": address,
        "PET_MASTER_PORT": port,
        "PET_NNODES": nodes,
        "PET_NPROC_PER_NODE": str(processes),
    }
    ranks = ["NODE_RANK", "PET_NODE_RANK"]
    if processes == 1:
        values["LOCAL_RANK"] = "0"
        ranks.append("RANK")
    if launch.is_flow:
        values[_GANG_FILE_VARIABLE] = f"{NOTICE_DIR}/{GANG_FILE}"
    found: list[Manifest] = [{"name": name, "value": value} for name, value in values.items()]
    return [*found, *({"name": name, **_rank(rank)} for name in ranks)]


def _rank(rank: int | None) -> Manifest:
    if rank is not None:
        return {"value": str(rank)}
    # The annotation is there since 1.21, the label of that name only since 1.28.
    field = {"fieldPath": f"metadata.annotations['{_INDEX_ANNOTATION}']"}
    return {"valueFrom": {"fieldRef": field}}


def is_first(pod: Mapping[str, Any]) -> bool:
    """Is this pod the first node of its gang?"""
    return node_rank(pod) == "0"


def node_rank(pod: Mapping[str, Any]) -> str | None:
    """The rank of this pod's node in its gang, from 0 on; None: nothing says so."""
    annotations = pod["metadata"].get("annotations") or {}
    rank: str | None = rank_of(pod) or annotations.get(_INDEX_ANNOTATION)
    return rank


def rank_of(item: Mapping[str, Any]) -> str | None:
    """The rank of this Job, or of its pod, where each node has a Job.

    None: one Job has all nodes.
    """
    rank: str | None = (item["metadata"].get("labels") or {}).get(RANK_LABEL)
    return rank


def gang_command(container: Manifest, launch: Launch, policy: KubernetesPolicy) -> Manifest:
    """The container of a flow's gang: rank 0 runs the flow, the others `container_command`.

    Every node of an Indexed Job has the same container, and a flow run may have only one process
    that reports to Prefect: a second one would be a double execution.

    The flow begins when all pods of the gang exist, which the worker writes into an annotation: a
    ResourceQuota may refuse one of them, and an attempt can be postponed until its flow starts.
    Without a worker the flow starts after `pending_timeout`.

    Raises:
        InvalidInput: `container_command` is missing.
    """
    if launch.pod.container_command is None:
        raise InvalidInput(
            "container_command",
            "is missing",
            remedy="with nodes > 1 it says what every node after the first runs while the first "
            "runs the flow, such as 'torchrun train.py'",
        )
    # The image's entry point stays in front, as long as it is what starts the flow.
    part = "args" if "args" in container or "command" not in container else "command"
    of_flow = shlex.join(container.get(part, _FLOW_COMMAND))
    of_others = shlex.join(launch.pod.container_command)
    wait = _WAIT_FOR_GANG.format(most_s=policy.pending_timeout_s)
    script = f'if [ "$NODE_RANK" = 0 ]; then {wait}exec {of_flow}; fi; exec {of_others}'
    return {**container, part: ["/bin/sh", "-c", script]}


_FLOW_COMMAND = ("prefect", "flow-run", "execute")

_GANG_FILE_VARIABLE = "PREFECT_GPU_GANG_FILE"

# A container's first process ignores SIGTERM without a trap, and runs a trap only between commands
# or in `wait`.
_WAIT_FOR_GANG = (
    "trap 'exit 143' TERM; waited_s=0; "
    'until [ -s "$PREFECT_GPU_GANG_FILE" ] || [ $waited_s -ge {most_s} ]; '
    "do sleep 1 & wait $!; waited_s=$((waited_s + 1)); done; trap - TERM; "
)


def headless_service(launch: Launch, policy: KubernetesPolicy, namespace: str | None) -> Manifest:
    """The Service that gives the pods of a gang names, from before they are ready."""
    metadata: Manifest = {"name": launch.name}
    if namespace is not None:
        metadata["namespace"] = namespace
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {ATTEMPT_ID_LABEL: label_value(launch.context.attempt_id)},
            "ports": [{"name": "master", "port": policy.gangs.master_port}],
        },
    }
