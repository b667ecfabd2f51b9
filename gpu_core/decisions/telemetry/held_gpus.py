"""GPUs that no run may use until a person, or a passed preflight, frees them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from gpu_core.decisions.model.units import require_aware
from gpu_core.decisions.telemetry.health import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldGpu:
    """A GPU that is held, and why."""

    gpu_id: str
    verdict: Verdict
    reason: str
    remedy: str
    found_at: datetime | None

    @property
    def text(self) -> str:
        """For people: what is wrong and what helps."""
        return f"{self.gpu_id} is held: {self.reason}; {self.remedy}"


def held_gpu_of(gpu_id: str, record: Mapping[str, str]) -> HeldGpu:
    """The held GPU that was written down like this.

    Raises:
        KeyError: A field is missing.
        ValueError: A field cannot be understood.
        TypeError: The same.
    """
    return HeldGpu(
        gpu_id=gpu_id,
        verdict=Verdict(record["verdict"]),
        reason=str(record["reason"]),
        remedy=str(record["remedy"]),
        found_at=require_aware(datetime.fromisoformat(record["found_at"]), "found_at"),
    )


def text_of(gpus: Collection[HeldGpu]) -> str:
    """Why an attempt on these held GPUs must move, for its page."""
    return "; ".join(f"{gpu.gpu_id} has failed: {gpu.reason}" for gpu in gpus) + "."
