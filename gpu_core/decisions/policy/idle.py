"""Policy section `idle`: what happens to runs that hold GPUs and do not use them."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.section import Duration, Name, PositiveDuration, Section
from gpu_core.decisions.policy.notification import unusable_blocks

IdleAction = Literal["off", "warn", "stop"]


class IdlePolicy(Section):
    """The conditions in which a run that holds GPUs counts as idle, and the action.

    A run is idle when all signals of all its GPUs are known and quiet. The signals are utilisation,
    SM activity, power, processor, and the steps that it reports. A missing, malformed or
    late signal counts as activity.
    """

    action: IdleAction = "warn"
    """`off`: nothing. `warn`: its owner is warned. `stop`: warned, and a `grace` later the run
    saves and ends as `Idle`."""
    after_s: PositiveDuration = Field(default=1800, alias="after")
    """How long all signals are quiet until a run is idle."""
    interactive_after_s: PositiveDuration = Field(default=3600, alias="interactive_after")
    """The same for the workload type `interactive`; use that the run reports counts as activity."""
    inference_after_s: PositiveDuration = Field(default=86_400, alias="inference_after")
    """The same for the workload type `inference`; the default bridges a night without requests."""
    grace_s: Duration = Field(default=600, alias="grace")
    """How long an attempt is not judged after it begins, and how long after the warning it is
    stopped."""
    under_used_below: Annotated[float, Field(ge=0, le=1)] = 0.3
    """Runs with a lower mean utilisation are reported as under-used."""
    notify: Sequence[Name] = ()
    """Prefect notification blocks that get the warnings, such as `slack-webhook/gpu-idle`."""

    def quiet_limit_s(self, workload_type: str | None) -> int:
        """How long may a run of this workload type be quiet?"""
        if workload_type == "interactive":
            return self.interactive_after_s
        return self.inference_after_s if workload_type == "inference" else self.after_s


def idle_contradictions(policy: IdlePolicy) -> list[InvalidInput]:
    """The keys of this section that cannot be used."""
    return unusable_blocks("idle", policy.notify)
