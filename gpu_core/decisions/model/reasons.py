"""Reason codes and explanations for waiting runs, in words that are the same everywhere."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class Reason(StrEnum):
    """The reason for the state of a pending workload. Stable: people's automations match on these.

    The order is the order of severity: what a person must fix comes first.
    """

    INTERNAL_ERROR = "InternalError"
    """The scheduler failed on this run alone; it tries again later."""
    UNKNOWN_QUEUE = "UnknownQueue"
    AMBIGUOUS_COMMAND = "AmbiguousCommand"
    """Its job variable `command` may start a flow or be meant for a container."""
    NOT_PERMITTED = "NotPermitted"
    """It asks for more than the policy permits its team."""
    QUEUE_FULL = "QueueFull"
    """As many runs wait as the policy permits; it is refused."""
    EXPIRED = "Expired"
    """It has waited longer after its scheduled start than the policy permits; it is cancelled."""
    DEPLOYMENT_LIMIT = "DeploymentLimit"
    """As many runs of its deployment run as Prefect lets run at once."""
    POOL_PAUSED = "PoolPaused"
    """Its work pool is paused in Prefect."""
    QUEUE_PAUSED = "QueuePaused"
    """Its work queue is paused in Prefect."""
    POOL_LIMIT = "PoolLimit"
    """As many runs of its work pool run as Prefect lets run at once."""
    QUEUE_LIMIT = "QueueLimit"
    """As many runs of its work queue run as Prefect lets run at once."""
    EXCEEDS_CLUSTER = "ExceedsCluster"
    """No state of this cluster could ever hold it."""
    EXCEEDS_QUOTA = "ExceedsQuota"
    """Its team could not have this many GPUs if nothing else ran."""
    HELD = "Held"
    """A person holds it back."""
    BUDGET_EXCEEDED = "BudgetExceeded"
    """It would cost more than is left of a budget."""
    WAITING_FOR_SPOT = "WaitingForSpot"
    """Spot is unavailable. The deadline leaves time, and waiting costs less than on-demand; or the
    budget does not pay for on-demand."""
    WAITING_FOR_CLUSTER_QUOTA = "WaitingForClusterQuota"
    """A ResourceQuota of its namespace refused it; it is tried again from time to time."""
    WAITING_FOR_PLATFORM = "WaitingForPlatform"
    """An outage ended its last attempt, such as of Prefect's API; it is tried again soon."""
    PREVIOUS_ATTEMPT_ENDING = "PreviousAttemptEnding"
    WAITING_FOR_VICTIMS = "WaitingForVictims"
    """GPUs were taken from others for it and are being released."""
    MIN_RUNTIME_PROTECTS = "MinRuntimeProtects"
    """Runs that it may preempt start, have not had their minimum run time yet, or have not worked
    for as long as their preemptions have cost them."""
    USER_LIMIT = "UserLimit"
    """Its user has as many GPUs as one user may have at once."""
    WAITING_FOR_QUOTA = "WaitingForQuota"
    """Its team has used up what it may have now."""
    CAPACITY_CLOSED = "CapacityClosed"
    """A maintenance window or an advance reservation takes the GPUs before it would have ended."""
    RESERVED_AHEAD = "ReservedAhead"
    """There are free GPUs, and a run ahead will need them before this one would have ended, or the
    policy leaves them to runs of the highest priority."""
    WAITING_FOR_GPUS = "WaitingForGpus"
    """It is next for these GPUs, and they are in use."""
    BEHIND_OTHERS = "BehindOthers"
    """Others ahead in the line want the same GPUs."""
    STARTING = "Starting"
    """It was admitted in this cycle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The reason why a pending workload waits, and what would let it start."""

    workload_id: str
    reason: Reason
    summary: str
    """One sentence with the numbers, for the run's page."""
    resolution: str
    """The change that would unblock it."""
    position: int
    """1 is the head of the whole line; 0: not in the line (held, starting)."""
    expected_start_at: datetime | None = None
    """The expected start; None: nothing that is known allows an estimate."""
    expected_start_from: datetime | None = None
    expected_start_until: datetime | None = None
    """It starts between these two with a probability of 80%; None: unknown."""
    numbers: Mapping[str, int | str | None] = field(default_factory=dict)
