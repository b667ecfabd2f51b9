"""GPU health, and which GPUs no run may use until a person or a passed preflight frees them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from gpu_core.decisions.model.errors import sentences
from gpu_core.decisions.model.units import require_aware


class HealthVerdict(StrEnum):
    """The health of a GPU, the worst last. A stable contract: metrics and alerts match on it."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    """It is in use; a person should look at it."""
    DRAIN = "drain"
    """No run may use it until a person has looked at it."""
    RESET = "reset"
    """The same, and it has to be reset."""
    REPLACE = "replace"
    """The same, and it is to be replaced."""

    @property
    def is_usable(self) -> bool:
        """May runs use the GPU?"""
        return self in (HealthVerdict.HEALTHY, HealthVerdict.DEGRADED)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldGpu:
    """A GPU that is held, and why."""

    gpu_id: str
    verdict: HealthVerdict
    reason: str
    remedy: str
    found_at: datetime | None

    @property
    def cause(self) -> str:
        """The reason without the node, where it has one."""
        return self.reason.partition(" (node ")[0]

    @property
    def text(self) -> str:
        """For people: what is wrong and what helps."""
        return sentences(f"{self.gpu_id} is held: {self.reason}", self.remedy)


def held_gpu_of(gpu_id: str, record: Mapping[str, str]) -> HeldGpu:
    """The held GPU that was written down like this.

    Raises:
        KeyError: A field is missing.
        ValueError: A field cannot be understood.
        TypeError: The same.
    """
    return HeldGpu(
        gpu_id=gpu_id,
        verdict=HealthVerdict(record["verdict"]),
        reason=str(record["reason"]),
        remedy=str(record["remedy"]),
        found_at=require_aware(datetime.fromisoformat(record["found_at"]), "found_at"),
    )


def move_reason(gpus: Collection[HeldGpu]) -> str:
    """The reason why an attempt on these held GPUs must move, for its page."""
    return "; ".join(f"{gpu.gpu_id} has failed: {gpu.reason}" for gpu in gpus) + "."
