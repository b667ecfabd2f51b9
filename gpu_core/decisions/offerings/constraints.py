"""The constraints of a run: its deadline, its budget and its place."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from gpu_core.decisions.catalog.gpu_types import GPU_TYPES
from gpu_core.decisions.catalog.product_names import nearest_gpu_types
from gpu_core.decisions.model.errors import InvalidInput, listed
from gpu_core.decisions.model.pydantic_errors import refuse
from gpu_core.decisions.model.units import LONGEST_DURATION_S, require_aware
from gpu_core.decisions.requests.requirements.reading.stated_limits import StatedLimits


class Goal(StrEnum):
    """The criterion that ranks the offerings that meet the constraints."""

    COST = "cost"
    TIME = "time"


_MOST_GIB = 1_000_000_000
"""Of data: an exbibyte, more than any cloud keeps for one job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPlace:
    """The place where data is."""

    provider: str
    region: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """The constraints that the user states. None means no constraint."""

    goal: Goal = Goal.COST
    deadline_at: datetime | None = None
    budget_micro_usd: int | None = None
    max_nodes: int = 1
    gpu_types: tuple[str, ...] = ()
    """The only acceptable GPU types. Empty: any."""
    gpus: int | None = None
    """Exactly this many GPUs over all nodes. None: as many as an offering has."""
    data_gib: float | None = None
    """Data that the job reads; it has to be where the GPUs are."""
    data_at: DataPlace | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Assumptions about starts, saves and interruptions, where nothing was observed."""

    startup_s: float = 300.0
    """From the request of an instance until the work begins."""
    storage_gb_per_s: float = 1.0
    """Of each node, to and from where checkpoints lie."""
    spot_mean_life_s: float = 7_600.0
    """How long a spot instance lives. 2.1 h: the mean of 204 runs of p3.2xlarge in the public spot
    traces of 2022 and 2023 (skypilot-org/spot-traces). Other types may be far from it."""
    kept_checkpoints: int = 2


def with_limits(constraints: Constraints, limits: StatedLimits, now: datetime) -> Constraints:
    """The constraints with what a text states; where both state a value, the constraints count."""
    within = None if limits.within_s is None else now + timedelta(seconds=limits.within_s)
    return replace(
        constraints,
        deadline_at=constraints.deadline_at or within,
        budget_micro_usd=(
            limits.budget_micro_usd
            if constraints.budget_micro_usd is None
            else constraints.budget_micro_usd
        ),
        max_nodes=max(constraints.max_nodes, limits.nodes or 1),
        gpu_types=constraints.gpu_types or limits.gpu_types,
        gpus=limits.gpus if constraints.gpus is None else constraints.gpus,
    )


def check_constraints(constraints: Constraints, now: datetime) -> Constraints:
    """The same constraints, if they can be.

    Raises:
        InvalidInput: One cannot.
        InvalidInputs: Several cannot.
    """
    errors = []
    if (
        constraints.deadline_at is not None
        and require_aware(constraints.deadline_at, "deadline") <= now
    ):
        errors.append(
            InvalidInput(
                "deadline",
                "is in the past",
                got=constraints.deadline_at.isoformat(),
                allowed=f"later than {now.isoformat(timespec='seconds')}",
            )
        )
    if constraints.budget_micro_usd is not None and constraints.budget_micro_usd <= 0:
        errors.append(
            InvalidInput(
                "budget",
                "buys nothing",
                got=constraints.budget_micro_usd,
                allowed="more than 0",
                remedy="remove it for no limit",
            )
        )
    if constraints.max_nodes < 1:
        errors.append(
            InvalidInput(
                "max-nodes", "is too small", got=constraints.max_nodes, allowed="1 or more"
            )
        )
    errors += [
        InvalidInput(
            "gpu-type",
            "is not a known GPU type",
            got=name,
            allowed=listed(GPU_TYPES, limit=20),
            nearest=nearest_gpu_types(name, GPU_TYPES),
        )
        for name in constraints.gpu_types
        if name not in GPU_TYPES
    ]
    if constraints.gpus is not None and constraints.gpus < 1:
        errors.append(
            InvalidInput("gpus", "is too small", got=constraints.gpus, allowed="1 or more")
        )
    if constraints.data_gib is not None and not 0 <= constraints.data_gib <= _MOST_GIB:
        errors.append(
            InvalidInput(
                "data-gib",
                "is out of range",
                got=constraints.data_gib,
                allowed=f"0 to {_MOST_GIB:,}",
            )
        )
    refuse(errors)
    return constraints


def check_conditions(conditions: Conditions) -> Conditions:
    """The same conditions, if they can be.

    Raises:
        InvalidInput: One cannot.
        InvalidInputs: Several cannot.
    """
    bounds = (
        ("storage-gb-per-s", conditions.storage_gb_per_s, 0.0001, 1_000_000),
        ("spot-life", conditions.spot_mean_life_s, 1, LONGEST_DURATION_S),
    )
    refuse(
        [
            InvalidInput(name, "is out of range", got=value, allowed=f"{least:g} to {most:,}")
            for name, value, least, most in bounds
            if not least <= value <= most
        ]
    )
    return conditions
