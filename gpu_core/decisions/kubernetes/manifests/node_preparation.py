"""The preparation of a node before real work, by policy: GPUs are tested, images are pulled."""

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from gpu_core.decisions.kubernetes.manifests.merge import Manifest
from gpu_core.decisions.kubernetes.manifests.names import (
    POOL_LABEL,
    PREFIX,
    label_value,
    object_name,
)
from gpu_core.decisions.kubernetes.manifests.security_context import with_pod_security
from gpu_core.decisions.model.cluster import Node
from gpu_core.decisions.model.units import format_duration
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy, Preflight

PREFLIGHT_ANNOTATION = f"{PREFIX}/preflight"
"""On a node: how its last test went. Who takes it away has the node tested again."""
PREPULL_ANNOTATION = f"{PREFIX}/prepull"
"""On a node: which list of images was pulled there."""
TASK_LABEL = f"{PREFIX}/node-task"
"""On the pods that do these things; its value is `preflight` or `prepull`."""
NODE_ANNOTATION = f"{PREFIX}/node"

# A node that failed is tested again by itself: a reset or a new driver may have fixed it.
_FAILED_AGAIN_S = 3600
# Longer than any health check that is worth making before each node's first run.
_LONGEST_TEST_S = 900
# Pulling tens of GiB takes minutes.
_LONGEST_PULL_S = 3600
_LONGEST_DETAIL = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTest:
    """The result of the test of a node."""

    is_passed: bool
    at: datetime
    detail: str | None = None


def node_test(node: Mapping[str, Any]) -> NodeTest | None:
    """The result of this node's last test; None: this machine was never tested."""
    metadata = node["metadata"]
    try:
        noted = json.loads((metadata.get("annotations") or {})[PREFLIGHT_ANNOTATION])
        if noted["node"] != metadata.get("uid"):
            return None
        at = datetime.fromisoformat(noted["at"])
        return NodeTest(is_passed=noted["passed"] is True, at=at, detail=noted.get("detail"))
    except (KeyError, TypeError, ValueError):
        return None


def annotation_of(node: Mapping[str, Any], test: NodeTest) -> str:
    """The value of the annotation that says so."""
    detail = {} if test.detail is None else {"detail": test.detail[:_LONGEST_DETAIL]}
    noted = {
        "node": node["metadata"].get("uid"),
        "passed": test.is_passed,
        "at": f"{test.at:%FT%TZ}",
    }
    return json.dumps({**noted, **detail})


def kept_out_by(node: Mapping[str, Any], preflight: Preflight, now: datetime) -> str | None:
    """The reason, as a clause, why this node's test keeps it out of work; None: it does not."""
    test = node_test(node)
    if test is None:
        return "it has not been tested yet"
    age_s = int((now - test.at).total_seconds())
    if not test.is_passed:
        return f"its test failed {format_duration(age_s)} ago: {test.detail or 'no reason given'}"
    if age_s >= preflight.every_s:
        return f"its last test was {format_duration(age_s)} ago"
    return None


def is_test_due(node: Mapping[str, Any], preflight: Preflight, now: datetime) -> bool:
    """Should this node be tested now, once nothing runs there?"""
    test = node_test(node)
    if test is None:
        return True
    again_s = preflight.every_s if test.is_passed else min(_FAILED_AGAIN_S, preflight.every_s)
    return now - test.at >= timedelta(seconds=again_s)


def preflight_pod(
    node: Node, uid: str, policy: KubernetesPolicy, preflight: Preflight, pool: str
) -> Manifest:
    """The pod that tests a node with all its GPUs that are healthy and not allocated.

    Args:
        node: As the scheduler plans with it; its GPUs are whole.
        uid: Of the Node object: the pod's name follows from it.
        policy: Names the GPU resource and the Pod Security.
        pool: Whose pod it is: the scheduler does not count it as a foreign pod.
    """
    gpus = {
        node.gpu_resource or policy.gpu_resource: str(
            len(node.gpu_ids) - len(node.unhealthy_gpu_ids)
        )
    }
    container = {
        "name": "preflight",
        "image": preflight.image,
        "command": shlex.split(preflight.command),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "resources": {
            "requests": {"cpu": "500m", "memory": "1Gi", **gpus},
            "limits": {"memory": "1Gi", **gpus},
        },
    }
    return _node_pod("preflight", node.name, uid, [container], policy, pool, _LONGEST_TEST_S)


def prepull_pod(name: str, uid: str, policy: KubernetesPolicy, pool: str) -> Manifest:
    """The pod that has the policy's images pulled to a node: a container of each that ends at once.

    An image without the command `true` has been pulled all the same when its container fails.
    """
    containers = [
        {
            "name": f"image-{number}",
            "image": image,
            "command": ["true"],
            "resources": {
                "requests": {"cpu": "10m", "memory": "16Mi"},
                "limits": {"memory": "64Mi"},
            },
        }
        for number, image in enumerate(policy.prepull)
    ]
    pod = _node_pod("prepull", name, uid, containers, policy, pool, _LONGEST_PULL_S)
    pod["metadata"]["annotations"][PREPULL_ANNOTATION] = images_key(policy.prepull)
    return pod


def images_key(images: Sequence[str]) -> str:
    """The annotation's value for this list of images: the same for the same list."""
    return hashlib.sha256("\n".join(images).encode()).hexdigest()[:16]


def has_images(node: Mapping[str, Any], images: Sequence[str]) -> bool:
    """Were these images pulled to this node?"""
    annotations = node["metadata"].get("annotations") or {}
    return not images or annotations.get(PREPULL_ANNOTATION) == images_key(images)


def _node_pod(
    task: str,
    node_name: str,
    uid: str,
    containers: list[Manifest],
    policy: KubernetesPolicy,
    pool: str,
    longest_s: int,
) -> Manifest:
    field = {"key": "metadata.name", "operator": "In", "values": [node_name]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    spec: Manifest = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": longest_s,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
        # It is about this node, also if it is dedicated to others.
        "tolerations": [{"operator": "Exists", "effect": "NoSchedule"}],
        "containers": containers,
    }
    metadata = {
        "name": object_name(f"gpu-{task}-", uid),
        "labels": {TASK_LABEL: task, POOL_LABEL: label_value(pool)},
        "annotations": {NODE_ANNOTATION: node_name},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": with_pod_security(spec, policy),
    }
