"""GPUs, names and moments in the words of explanations."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache

from gpu_core.decisions.model.units import count
from gpu_core.decisions.model.workload import Workload

NAMES_SHOWN = 3
"""More are counted."""


def wanted_text(workload: Workload) -> str:
    """All GPUs that it asks for: `2 nodes with 8 × h100 each`."""
    if workload.shape.nodes > 1:
        return f"{workload.shape.nodes} nodes with {wanted_gpus_text(workload)} each"
    return (
        f"{wanted_gpus_text(workload)} on one node"
        if workload.shape.gpu_count > 1
        else wanted_gpus_text(workload)
    )


def wanted_gpus_text(workload: Workload, gpu_type: str | None = None) -> str:
    """The GPUs that it asks for on a node: `8 × h100 with 80 GiB (spot)`.

    Args:
        workload: The run.
        gpu_type: The type that was chosen; None: those that it accepts.
    """
    kind = gpu_type or " or ".join(workload.shape.gpu_types)
    capacity = f" ({workload.shape.capacity_type})" if workload.shape.capacity_type else ""
    memory = f" with {workload.shape.gpu_memory_gib} GiB" if workload.shape.gpu_memory_gib else ""
    any_type = f"{count(workload.shape.gpu_count, 'GPU')} of any type"
    return f"{f'{workload.shape.gpu_count} × {kind}' if kind else any_type}{memory}{capacity}"


def names_text(names: Sequence[str], count: int | None = None) -> str:
    """`'a', 'b', 'c' and 3 others`.

    Args:
        names: In the order in which they are shown.
        count: How many there are; None: these.
    """
    shown = tuple(names[:NAMES_SHOWN])
    others = (len(names) if count is None else count) - len(shown)
    if others:
        return f"{_listed(shown)} and {others} other{'s' if others > 1 else ''}"
    return _listed(shown) if len(shown) == 1 else f"{_listed(shown[:-1])} and {shown[-1]!r}"


@lru_cache
def _listed(names: tuple[str, ...]) -> str:
    """Thousands wait behind the same few."""
    return ", ".join(map(repr, names))


def instant(moment_s: float | None) -> datetime | None:
    """The moment in UTC; None: unknown."""
    return None if moment_s is None else datetime.fromtimestamp(moment_s, UTC)


def moment_text(moment: datetime, now_s: float) -> str:
    """`14:05:00 UTC`, with the day where that is another one."""
    now = datetime.fromtimestamp(now_s, UTC)
    day = "" if moment.date() == now.date() else f"{moment:%Y-%m-%d} "
    return f"{day}{moment:%H:%M:%S} UTC"
