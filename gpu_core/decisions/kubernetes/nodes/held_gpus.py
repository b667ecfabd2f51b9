"""GPUs of nodes that no run may use: an annotation of their node has them, over all restarts."""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from gpu_core.decisions.kubernetes.manifests.names import PREFIX
from gpu_core.decisions.kubernetes.manifests.node_preparation import node_test
from gpu_core.decisions.model.cluster import Node
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.gpu_health import HealthVerdict, HeldGpu, held_gpu_of

HELD_ANNOTATION = f"{PREFIX}/held-gpus"
"""On a node: its GPUs that are held. Who takes it away frees them."""

# What cannot be understood stays held, as was decided.
_UNREADABLE = HeldGpu(
    gpu_id="a GPU",
    verdict=HealthVerdict.DRAIN,
    reason=f"failed to parse the annotation {HELD_ANNOTATION}",
    remedy="check the GPUs of the node",
    found_at=None,
)


def held_on(node: Mapping[str, Any]) -> dict[str, HeldGpu]:
    """The GPUs of this node that are held, by UUID; none of another machine with its name."""
    metadata = node["metadata"]
    text = (metadata.get("annotations") or {}).get(HELD_ANNOTATION)
    if not text:
        return {}
    try:
        noted = json.loads(text)
        if noted["node"] != metadata.get("uid"):
            return {}
        gpus = {gpu_id: held_gpu_of(gpu_id, each) for gpu_id, each in noted["gpus"].items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, InvalidInput):
        return {_UNREADABLE.gpu_id: _UNREADABLE}
    test = node_test(node)
    if test is None or not test.is_passed:
        return gpus
    return {i: g for i, g in gpus.items() if g.found_at is None or g.found_at >= test.at}


def held_annotation(node: Mapping[str, Any], gpus: Iterable[HeldGpu], rules_version: str) -> str:
    """The value of the annotation that holds these GPUs, found by this version of the rules."""
    return json.dumps(
        {
            "node": node["metadata"].get("uid"),
            "rules": rules_version,
            "gpus": {
                gpu.gpu_id: {
                    "verdict": gpu.verdict.value,
                    "reason": gpu.reason,
                    "remedy": gpu.remedy,
                    "found_at": gpu.found_at.isoformat(),
                }
                for gpu in gpus
                if gpu.found_at is not None
            },
        }
    )


def without_held(node: Node, gpus: Collection[HeldGpu]) -> Node:
    """The node as the planner sees it, with these of its GPUs held.

    It is unknown which GPU the device plugin gives to a pod. The node gets no new runs until the
    plugin has withdrawn at least as many GPUs.
    """
    machine, held = node.machine, len(gpus)
    if not held or node.is_planned or (machine is not None and machine.faulty_gpus >= held):
        return node
    gpu_ids = frozenset(node.gpu_ids)
    if machine is not None:
        machine = replace(
            machine,
            faulty_gpus=min(machine.gpus, held),
            are_others_withheld=gpu_ids > node.unhealthy_gpu_ids,
            why_held="; ".join(f"{gpu.gpu_id}: {gpu.cause}" for gpu in gpus),
            held_until=f"{next(iter(gpus)).remedy}, then {free_command(node.name)}",
        )
    return replace(node, unhealthy_gpu_ids=gpu_ids, machine=machine)


def free_command(node: str) -> str:
    """The command that frees the GPUs of this node."""
    return f"`kubectl annotate node {node} {HELD_ANNOTATION}-`"


def withheld_gpus(node: Node) -> int:
    """How many well GPUs of this node get no new runs, because one of its GPUs is held?"""
    machine = node.machine
    if machine is None or not machine.are_others_withheld:
        return 0
    return max(0, len(node.gpu_ids) - machine.faulty_gpus)
