"""Policy section `idle`: what happens to runs that hold GPUs and do not use them."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.section import Duration, Name, PositiveDuration, Section
from gpu_core.decisions.policy.notification import unusable_blocks

IdleAction = Literal["off", "warn", "stop"]


class IdlePolicy(Section):
    """Settings for the detection of idle runs, which hold GPUs but do not use them.

    A run is considered idle if all signals are known and quiet on all of its GPUs. The signals are
    utilization, SM activity, power, processor usage, and reported steps. If a signal is missing,
    malformed or late, the run is considered active.
    """

    action: IdleAction = "warn"
    """The action to take when a run is idle. `off` does nothing. `warn` sends a warning to the
    owner. `stop` also sends a warning and stops the run after the `grace` period. The run saves a
    checkpoint and ends with the state `Idle`."""
    after_s: PositiveDuration = Field(default=1800, alias="after")
    """How long all signals must be quiet before a run is considered idle."""
    interactive_after_s: PositiveDuration = Field(default=3600, alias="interactive_after")
    """Same as `after`, but for runs with the workload type `interactive`. Any use that the run
    reports is treated as activity."""
    inference_after_s: PositiveDuration = Field(default=86_400, alias="inference_after")
    """Same as `after`, but for runs with the workload type `inference`. The default allows for a
    night without requests."""
    grace_s: Duration = Field(default=600, alias="grace")
    """The grace period after an attempt starts, during which it is not checked. The same period
    applies between the warning and the stop."""
    under_used_below: Annotated[float, Field(ge=0, le=1)] = 0.3
    """Runs with a mean utilization below this value are reported as under-used."""
    notify: Sequence[Name] = ()
    """A list of Prefect notification blocks to which warnings are sent, for example
    `slack-webhook/gpu-idle`."""

    def quiet_limit_s(self, workload_type: str | None) -> int:
        """How long may a run of this workload type be quiet?"""
        if workload_type == "interactive":
            return self.interactive_after_s
        return self.inference_after_s if workload_type == "inference" else self.after_s


def idle_contradictions(policy: IdlePolicy) -> list[InvalidInput]:
    """The keys of this section that cannot be used."""
    return unusable_blocks("idle", policy.notify)
