"""Kubernetes objects as the watches of a worker keep them: say what matters."""

from datetime import UTC, datetime, timedelta

NOW = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)


def moment(seconds_ago):
    """A time as Kubernetes writes it."""
    return f"{NOW - timedelta(seconds=seconds_ago):%Y-%m-%dT%H:%M:%SZ}"


def make_job(created_s_ago=60, finished=None):
    conditions = [{"type": finished, "status": "True"}] if finished else []
    return {
        "metadata": {
            "name": "gpu-a",
            "namespace": "ml",
            "uid": "job-1",
            "creationTimestamp": moment(created_s_ago),
        },
        "spec": {"completions": 1},
        "status": {"conditions": conditions},
    }


def make_pod(phase="Running", node="n1", uid="pod-1", terminated=None, waiting=None, **metadata):
    state = {"terminated": terminated} if terminated else {"waiting": waiting} if waiting else {}
    return {
        "metadata": {"name": uid, "namespace": "ml", "uid": uid, **metadata},
        "spec": {
            "containers": [{"name": "prefect-job"}],
            **({"nodeName": node} if node else {}),
        },
        "status": {
            "phase": phase,
            "containerStatuses": [{"name": "prefect-job", "state": state}],
        },
    }


def make_node(name="n1", ready="True", since_s=3600, taints=(), **conditions):
    found = [
        {"type": "Ready", "status": ready, "lastTransitionTime": moment(since_s)},
        *({"type": kind, "status": status} for kind, status in conditions.items()),
    ]
    return {
        "metadata": {"name": name, "uid": name, "labels": {}},
        "spec": {"taints": [{"key": key, "effect": "NoSchedule"} for key in taints]},
        "status": {"conditions": found, "allocatable": {}, "capacity": {}},
    }
