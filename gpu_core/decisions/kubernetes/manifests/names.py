"""Names, labels and annotations: what everything is called, made valid, and found by again."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

PREFIX = "prefect-gpu.dev"

FLOW_RUN_LABEL = f"{PREFIX}/flow-run-id"
ATTEMPT_LABEL = f"{PREFIX}/attempt"
ATTEMPT_ID_LABEL = f"{PREFIX}/attempt-id"
"""Everything that belongs to an attempt carries this label: it is how all of it is found again."""
POOL_LABEL = f"{PREFIX}/pool"
TEAM_LABEL = f"{PREFIX}/team"
PROJECT_LABEL = f"{PREFIX}/project"
QUEUE_LABEL = f"{PREFIX}/queue"
USER_LABEL = f"{PREFIX}/user"
CAPACITY_TYPE_LABEL = f"{PREFIX}/capacity-type"
ROLE_LABEL = f"{PREFIX}/role"
MEMBER, HEAD, SUBMITTER = "member", "head", "submitter"
"""Pods that have the GPUs, one without that leads them, and one that hands the work to it."""
RANK_LABEL = f"{PREFIX}/node-rank"
"""Of the Jobs of a gang that has one for each node."""

NAME_ANNOTATION = f"{PREFIX}/name"
DEPLOYMENT_ANNOTATION = f"{PREFIX}/deployment"
NOTICE_ANNOTATION = f"{PREFIX}/notice"
"""Set on a pod, its value appears in the file that the run watches: end soon."""
GANG_ANNOTATION = f"{PREFIX}/gang"
"""Set on the first pod of a flow's gang once all pods exist: the flow may begin."""

NAME_LABEL = f"{PREFIX}/name"
"""Prefect's own name for the Job: the job variable `name`, else the name of the flow run."""

_RESERVED = f"{PREFIX}/"


def is_reserved(key: str) -> bool:
    """Is this label or annotation the worker's own?

    The worker reads them to find an attempt, its rank, its notice and its costs.
    """
    return key.strip().lower().startswith(_RESERVED)


def without_reserved(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of an object without the labels and annotations that are the worker's own."""
    return {
        name: {key: text for key, text in value.items() if not is_reserved(str(key))}
        if name in ("labels", "annotations") and isinstance(value, Mapping)
        else value
        for name, value in metadata.items()
    }


KUEUE_QUEUE_LABEL = "kueue.x-k8s.io/queue-name"

# Of a label's value and of a DNS label (RFC 1123).
_LONGEST = 63
# Hex digits: 32 bits, two long values of one team that meet are no matter of life and death.
_HASH_DIGITS = 8


def label_value(text: str) -> str:
    """The text as a valid label value; a hash keeps apart what would otherwise become equal.

    >>> label_value("vision & speech")
    'vision-speech-46cdadda'
    """
    if re.fullmatch(r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?", text):
        return text
    return _with_hash(re.sub(r"[^A-Za-z0-9_.]+", "-", text), text)


def job_name(attempt_id: str) -> str:
    """The name of this attempt's Job.

    Always the same, so that creating it twice is refused by Kubernetes (AlreadyExists) and does no
    harm. It begins with a letter, as the name of its Service has to (RFC 1035), and leaves room
    for what operators append to it.
    """
    return object_name("gpu-", attempt_id)


# KubeRay refuses a RayJob with a longer name (v1.7): it makes others from it by appending.
_LONGEST_NAME = 47


def object_name(prefix: str, text: str) -> str:
    """The text as a valid name of an object; a hash keeps apart what would become equal."""
    name = f"{prefix}{text}"
    if len(name) <= _LONGEST_NAME and re.fullmatch(r"[a-z0-9-]*[a-z0-9]", name):
        return name
    return _with_hash(re.sub(r"[^a-z0-9]+", "-", name.lower()), name, _LONGEST_NAME)


def _with_hash(slug: str, text: str, longest: int = _LONGEST) -> str:
    digits = hashlib.sha256(text.encode()).hexdigest()[:_HASH_DIGITS]
    kept = slug.strip("-_.")[: longest - _HASH_DIGITS - 1].rstrip("-_.")
    return f"{kept}-{digits}" if kept else digits
