"""The taints and conditions of a node: may it get new runs, and is it about to go?"""

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_core.decisions.kubernetes.nodes.clouds import (
    AKS_GPU_TAINT,
    DRIVER_UPGRADE_LABEL,
    DRIVER_USABLE,
    GPU_TAINT,
    INTERRUPTION_TAINTS,
    SPOT_TAINTS,
    WARNING_TAINTS,
)

# Taints that Kubernetes itself sets for what a node's conditions say.
_STATE_PREFIXES = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
_CLOSING = INTERRUPTION_TAINTS | WARNING_TAINTS
_REPELLING = frozenset({"NoSchedule", "NoExecute"})


def blocked_by(node: Mapping[str, Any], gpu_conditions: Mapping[str, str]) -> Iterator[str]:
    """The reasons, as clauses, why this node gets no new runs; none: it may get some.

    Args:
        gpu_conditions: The status that says that something is wrong with the GPUs, by type of the
            node's condition.
    """
    if node.get("metadata", {}).get("deletionTimestamp"):
        yield "it is being deleted"
    if node.get("spec", {}).get("unschedulable"):
        yield "it is cordoned"
    status = {c["type"]: c for c in node.get("status", {}).get("conditions") or ()}
    ready = status.get("Ready", {})
    if ready.get("status") != "True":
        yield f"it is not ready{_because(ready)}"
    for name, bad in gpu_conditions.items():
        if status.get(name, {}).get("status") == bad:
            yield f"its GPUs are unhealthy: {name} is {bad}{_because(status[name])}"
    driver = (node.get("metadata", {}).get("labels") or {}).get(DRIVER_UPGRADE_LABEL, "")
    if driver not in DRIVER_USABLE:
        yield f"its GPU driver is being upgraded ({driver})"
    known = {"node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready"}
    for taint in _repelling_taints(node):
        key = taint["key"]
        if key in _CLOSING or (key.startswith(_STATE_PREFIXES) and key not in known):
            yield f"it has the taint {key}"


def interruption_of(node: Mapping[str, Any]) -> str | None:
    """The taint that says that this node is about to go; None: there is none."""
    keys = (taint["key"] for taint in node.get("spec", {}).get("taints") or ())
    return next((key for key in keys if key in INTERRUPTION_TAINTS), None)


def taints_to_tolerate(node: Mapping[str, Any]) -> frozenset[str]:
    """The taints of the node that a run must tolerate by its own job variables.

    Not those that every Job of ours tolerates where they mean something (GPUs, spot), nor those
    that come and go with the node's state.
    """
    return frozenset(
        taint_text(taint)
        for taint in _repelling_taints(node)
        if taint["key"] not in {GPU_TAINT, *SPOT_TAINTS, *_CLOSING}
        and (taint["key"], taint.get("value")) != AKS_GPU_TAINT
        and not taint["key"].startswith(_STATE_PREFIXES)
    )


def taint_text(taint: Mapping[str, Any]) -> str:
    """A taint as people write it: `dedicated=ml:NoSchedule`."""
    value = taint.get("value")
    return f"{taint['key']}{f'={value}' if value else ''}:{taint['effect']}"


def _repelling_taints(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    taints = node.get("spec", {}).get("taints") or ()
    return (taint for taint in taints if taint.get("effect") in _REPELLING)


def _because(condition: Mapping[str, Any]) -> str:
    reason = condition.get("reason")
    return f" ({reason})" if reason else ""
