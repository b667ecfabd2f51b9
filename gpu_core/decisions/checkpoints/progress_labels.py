"""What a run in a pod reports of its steps: labels of its flow run in Prefect, once a minute.

They are sent whether or not a step was made: only a report that has just come says that none was.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from gpu_core.decisions.checkpoints.report_labels import Label

PREFIX = "prefect-gpu.progress."
REPORTED_AT = "reported_at"

EVERY_S = 60.0

LATE = timedelta(seconds=3 * EVERY_S)
"""A report that is older is unknown: the run may have made steps since that it could not report."""


def progress_labels(report: Mapping[str, object], now: datetime) -> dict[str, Label]:
    """The labels that carry this report; what is unknown is an empty text, or it would stay.

    Args:
        report: The fields of a `ProgressReport`.
        now: By the clock that its moments were read from.
    """
    values = {**report, REPORTED_AT: now}
    return {f"{PREFIX}{name}": _label(value) for name, value in values.items()}


def progress_values(
    labels: Mapping[str, object], attempt_id: str, now: datetime
) -> dict[str, object] | None:
    """The fields of the report that this attempt has just made; None: none, or it is late.

    Its last progress counts from now by how long it was ago when it was reported, so that a clock
    that is wrong makes no run hang.
    """
    found = {
        name.removeprefix(PREFIX): value
        for name, value in labels.items()
        if name.startswith(PREFIX) and value != ""
    }
    try:
        reported_at = datetime.fromisoformat(str(found.pop(REPORTED_AT)))
        progressed_at = datetime.fromisoformat(str(found["progressed_at"]))
        is_late = abs(now - reported_at) > LATE
        ago = max(timedelta(0), reported_at - progressed_at)
    except (KeyError, ValueError, TypeError, OverflowError):
        return None
    if is_late or found.get("attempt_id") != attempt_id:
        return None
    return found | {"progressed_at": (now - ago).isoformat()}


def _label(value: object) -> Label:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat()
    return value if isinstance(value, str | int | float | bool) else str(value)
