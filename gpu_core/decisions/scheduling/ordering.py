"""Who comes before whom."""

from collections.abc import Iterable
from datetime import datetime

from gpu_core.decisions.workload import Workload


def in_order(workloads: Iterable[Workload]) -> list[Workload]:
    """In which order are the workloads considered? The id makes the order total."""
    return sorted(workloads, key=_place_in_line)


def _place_in_line(workload: Workload) -> tuple[int, datetime, str]:
    return (-workload.priority, workload.submitted_at, workload.workload_id)
