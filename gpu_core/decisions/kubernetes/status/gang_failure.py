"""The failure of a node in a gang: its own, or because another node had fallen silent.

The others notice first: a connection breaks within seconds, while Kubernetes calls a node silent
only after its grace. There is no wait for that here: an attempt is judged when no pod of it may
live any more, and a pod on a silent node may, until the node has answered or is fenced off.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

# Between a node's last word and Kubernetes' saying so: node-monitor-grace-period is 40 s, 50 s
# since 1.32, and it is read every 5 s.
_NOTICED_WITHIN = timedelta(seconds=60)

# A node that is silent for longer has lost its pods: they tolerate not-ready for 300 s
# (DefaultTolerationSeconds).
_BACK_WITHIN = timedelta(seconds=300)


def silent_partner(
    failed_at: datetime | None,
    partners: Sequence[Mapping[str, Any]],
    nodes: Mapping[str, Mapping[str, Any]],
) -> str | None:
    """The node of its gang that had fallen silent when a pod failed; None: none is known.

    Args:
        failed_at: When the pod failed; None: unknown.
        partners: The pods of the gang that had not ended before then.
        nodes: The nodes of the cluster as they are now, by name.
    """
    if failed_at is None:
        return None
    names = sorted({pod["spec"]["nodeName"] for pod in partners if "nodeName" in pod["spec"]})
    return next((name for name in names if _was_silent(nodes.get(name), failed_at)), None)


def _was_silent(node: Mapping[str, Any] | None, at: datetime) -> bool:
    if node is None:
        return True  # it is gone, and its pods never ended
    conditions = {c["type"]: c for c in (node.get("status") or {}).get("conditions") or ()}
    ready = conditions.get("Ready", {})
    changed = ready.get("lastTransitionTime")
    if changed is None:
        return False
    since = datetime.fromisoformat(changed)
    if ready.get("status") == "True":
        return at < since <= at + _BACK_WITHIN
    return since <= at + _NOTICED_WITHIN
