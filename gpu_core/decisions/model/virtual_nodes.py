"""Names in the place of a node's that no machine has: of one to come, and of one that is unknown.

A node that is planned with and not there yet is called `new/KIND/NUMBER`. No machine is called so:
names of Kubernetes nodes and of hosts have no slash.
"""

from gpu_core.decisions.model.cluster import Placement

UNKNOWN_NODE = "unknown"
"""Another scheduler placed the attempt, and its pod was never seen on a node."""

_PREFIX = "new/"


def planned_name(kind: str, number: int) -> str:
    """The name of the planned node with this number of a kind."""
    return f"{_PREFIX}{kind}/{number}"


def planned_kind(node: str) -> str | None:
    """The kind of a planned node; None: it is a real one."""
    if not node.startswith(_PREFIX):
        return None
    return node.removeprefix(_PREFIX).rpartition("/")[0]


def is_machine(node: str) -> bool:
    """Does this name say on which machine an attempt is, or was?"""
    return node != UNKNOWN_NODE and planned_kind(node) is None


def is_all_known(placement: Placement) -> bool:
    """Is each of its nodes a machine?"""
    return all(is_machine(share.node) for share in placement.shares)
