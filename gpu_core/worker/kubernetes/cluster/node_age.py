"""Since when are the nodes of an attempt there?"""

from collections.abc import Iterable, Mapping
from datetime import datetime

from gpu_core.adapters.kubernetes.api import Json
from gpu_core.decisions.model.cluster import NodeShare
from gpu_core.worker.kubernetes.jobs.job_status import parse_moment


def up_since(shares: Iterable[NodeShare], nodes: Mapping[str, Json]) -> datetime | None:
    """Since when have all nodes of these shares been there? None: one is still to come.

    Args:
        shares: What an attempt holds.
        nodes: The nodes that are there, by name.
    """
    there = [nodes.get(share.node) for share in shares]
    known = [
        parse_moment(node["metadata"].get("creationTimestamp"))
        for node in there
        if node is not None
    ]
    moments = [since for since in known if since is not None]
    return max(moments) if moments and len(moments) == len(there) else None
