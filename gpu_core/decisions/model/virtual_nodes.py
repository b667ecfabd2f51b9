"""The names of nodes that are planned with and not there yet: `new/KIND/NUMBER`.

No machine is called so: names of Kubernetes nodes and of hosts have no slash.
"""

_PREFIX = "new/"


def planned_name(kind: str, number: int) -> str:
    """What is the node with this number of a kind called, before it is there?"""
    return f"{_PREFIX}{kind}/{number}"


def planned_kind(node: str) -> str | None:
    """Of which kind is this node that is not there yet? None: it is a real one."""
    if not node.startswith(_PREFIX):
        return None
    return node.removeprefix(_PREFIX).rpartition("/")[0]
