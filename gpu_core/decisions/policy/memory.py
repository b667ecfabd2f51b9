"""Policy section `memory`: what the next attempt of a run gets that ran out of memory."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.section import Name, Section

MemoryAction = Literal["off", "shrink", "larger-gpu"]


class MemoryPolicy(Section):
    """Settings for runs that run out of GPU memory or container memory. Note that such an attempt
    always counts toward `max_failures`.
    """

    action: MemoryAction = "off"
    """How to start the next attempt after a run has run out of GPU memory. `off` does not change
    anything. `shrink` halves the micro-batch, and uses a quarter after the second time. The flow
    must read the value with `micro_batch()`. The hourly cost does not increase. `larger-gpu`
    selects a GPU type with more memory. If no such type is available, the micro-batch is halved."""
    max_divisor: Annotated[int, Field(ge=2, le=64)] = 8
    """The maximum divisor of the micro-batch. The micro-batch is never reduced below this fraction
    of the size that the flow requests."""
    gpu_types: Sequence[Name] = ()
    """A list of additional GPU types that `larger-gpu` can use. The types that the run requests are
    always included."""
    max_cost_factor: Annotated[float, Field(ge=1, le=100, allow_inf_nan=False)] = 2.0
    """The maximum price of the larger GPU type, as a multiple of the price of the requested types.
    GPU types without a price are not used."""
    host_factor: Annotated[float, Field(gt=1, le=8, allow_inf_nan=False)] | None = None
    """The factor by which the memory request and limit of the pods are multiplied after an attempt
    has run out of main memory. If null, the request and limit are not changed. Only supported for
    `gpu-kubernetes` pools."""
    host_limit_gib: Annotated[int, Field(ge=1, le=65_536)] | None = None
    """The maximum memory request after `host_factor` has been applied, in GiB for each node. If
    null, the maximum is the memory of the largest node in the pool."""
    remember: bool = False
    """Whether to remember the settings with which a run completed after it had run out of memory.
    Later runs of the same deployment start with these settings for 30 days."""


def memory_contradictions(policy: MemoryPolicy) -> list[InvalidInput]:
    """The keys of this section that were set and have no effect."""
    errors = []
    if policy.gpu_types and policy.action != "larger-gpu":
        errors.append(
            InvalidInput(
                "memory.gpu_types",
                f"has no effect with action {policy.action!r}",
                remedy="set memory.action to larger-gpu or remove gpu_types",
            )
        )
    if policy.host_limit_gib is not None and policy.host_factor is None:
        errors.append(
            InvalidInput(
                "memory.host_limit_gib",
                "has no effect without host_factor",
                got=policy.host_limit_gib,
                remedy="set memory.host_factor, for example to 2, or remove host_limit_gib",
            )
        )
    return errors
