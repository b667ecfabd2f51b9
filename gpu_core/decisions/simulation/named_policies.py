"""Well-known policies by name, to compare one's own with. Only `priority` looks at priorities."""

from typing import Any

from gpu_core.decisions.errors import InvalidInput, listed, nearest_name
from gpu_core.decisions.policy import Policy, parse_policy


def _runs_to_the_end(*keys: str, backfill: str = "none") -> dict[str, Any]:
    return {
        "version": 1,
        "ordering": {"keys": list(keys)},
        "backfill": {"mode": backfill},
        "preemption": {"enabled": False},
    }


def _takes_over(*keys: str) -> dict[str, Any]:
    return {
        "version": 1,
        "ordering": {"keys": list(keys)},
        "backfill": {"mode": "greedy"},
        "preemption": {
            "takes_from": "later-in-order",
            "grace_period": 0,
            "min_runtime": 0,
        },
    }


_POLICIES = {
    "fifo": _runs_to_the_end("submitted"),
    "greedy": _runs_to_the_end("submitted", backfill="greedy"),
    "easy": _runs_to_the_end("submitted", backfill="easy"),
    "sjf": _runs_to_the_end("shortest-job"),
    "sjf-easy": _runs_to_the_end("shortest-job", backfill="easy"),
    "fair": _runs_to_the_end("fair-share", "submitted", backfill="easy"),
    "priority": {
        "version": 1,
        "backfill": {"mode": "greedy"},
        # Whether it preempts at all is left to the workload where that says so.
        "preemption": {"grace_period": 0, "min_runtime": 0},
    },
    "srtf": _takes_over("shortest-remaining-time"),
    "srsf": _takes_over("shortest-remaining-service"),
    "las": _takes_over("least-attained-service"),
}

POLICY_NAMES = tuple(sorted(_POLICIES))


def named_policy(name: str) -> Policy:
    """Which policy has this name?

    Raises:
        InvalidInput: None.
    """
    data = _POLICIES.get(name)
    if data is None:
        raise InvalidInput(
            "policy",
            "is neither a file nor a known policy",
            got=name,
            allowed=listed(POLICY_NAMES),
            nearest=nearest_name(name, POLICY_NAMES),
        )
    return parse_policy(data, source=name)
