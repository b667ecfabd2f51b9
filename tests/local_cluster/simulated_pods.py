"""What a pod on a simulated node does next, read from the pod itself.

Its annotations say how it behaves; all are optional and whole or decimal seconds:

- `simulated.prefect-gpu/start-after-s`: how long it stays Pending on its node (0);
- `simulated.prefect-gpu/run-for-s`: how long it runs (for ever);
- `simulated.prefect-gpu/exit-code`: what it ends with (0);
- `simulated.prefect-gpu/stop-takes-s`: how long it takes to stop when deleted (0); at most its
  grace.

Two more say what it prints: `simulated_logs.py`.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from kube_api import Json

PREFIX = "simulated.prefect-gpu/"
_EXIT_AFTER_SIGTERM = 143  # 128 + 15, as a shell reports it
_READINESS = ("ContainersReady", "Ready")


@dataclass(frozen=True)
class Step:
    """What happens to a pod, and when.

    Args:
        due: The moment.
        name: `start`, `end`, `stop` or `remove`.
        status: The pod's status from then on; None: it is removed.
    """

    due: datetime
    name: str
    status: Json | None


def next_step(pod: Json, now: datetime) -> Step | None:
    """What does this pod do next? None: nothing by itself."""
    phase = pod["status"].get("phase", "Pending")
    ended = phase in ("Succeeded", "Failed")
    if "deletionTimestamp" in pod["metadata"]:
        if ended or phase == "Pending":
            return Step(now, "remove", None)
        grace_s = pod["metadata"].get("deletionGracePeriodSeconds", 0)
        due = now + timedelta(seconds=min(seconds(pod, "stop-takes-s") or 0, grace_s))
        return Step(due, "stop", _ended(pod, due, _EXIT_AFTER_SIGTERM))
    if phase == "Pending":
        due = now + timedelta(seconds=seconds(pod, "start-after-s") or 0)
        return Step(due, "start", _running(pod, due))
    run_for_s = seconds(pod, "run-for-s")
    if ended or run_for_s is None:
        return None
    due = datetime.fromisoformat(pod["status"]["startTime"]) + timedelta(seconds=run_for_s)
    return Step(due, "end", _ended(pod, due, int(seconds(pod, "exit-code") or 0)))


def seconds(pod: Json, name: str) -> float | None:
    """The number that an annotation of the pod gives; None: it has no such annotation."""
    text = pod["metadata"].get("annotations", {}).get(PREFIX + name)
    return None if text is None else float(text)


def time_text(moment: datetime) -> str:
    """A moment as Kubernetes writes it, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _running(pod: Json, now: datetime) -> Json:
    state = {"running": {"startedAt": time_text(now)}}
    return {
        "phase": "Running",
        "startTime": time_text(now),
        "conditions": [_condition(kind, "True", now) for kind in ("Initialized", *_READINESS)],
        "containerStatuses": _containers(pod, state, ready=True),
    }


def _ended(pod: Json, now: datetime, exit_code: int) -> Json:
    state = {
        "terminated": {
            "exitCode": exit_code,
            "reason": "Error" if exit_code else "Completed",
            "startedAt": pod["status"].get("startTime"),
            "finishedAt": time_text(now),
        }
    }
    return {
        "phase": "Failed" if exit_code else "Succeeded",
        "conditions": [_condition(kind, "False", now) for kind in _READINESS],
        "containerStatuses": _containers(pod, state, ready=False),
    }


def _condition(kind: str, status: str, now: datetime) -> Json:
    return {"type": kind, "status": status, "lastTransitionTime": time_text(now)}


def _containers(pod: Json, state: Json, ready: bool) -> list[Json]:
    return [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": ready,
            "started": ready,
            "restartCount": 0,
            "state": state,
        }
        for container in pod["spec"]["containers"]
    ]
