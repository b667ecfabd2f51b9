"""Policy section `memory`: what the next attempt of a run gets that ran out of memory."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.section import Name, Section

MemoryAction = Literal["off", "shrink", "larger-gpu"]


class MemoryPolicy(Section):
    """The action after a run ended because its GPU or its container had no memory left.

    Such an attempt counts towards `max_failures` in any case.
    """

    action: MemoryAction = "off"
    """The attempt after one that ran out of GPU memory. `off`: it is like the last. `shrink`: it
    gets half the micro-batch, and a quarter after a second time; its flow asks for it with
    `micro_batch()`. It costs no more in an hour.
    `larger-gpu`: it gets a GPU type with more memory; where there is none, half the micro-batch."""
    max_divisor: Annotated[int, Field(ge=2, le=64)] = 8
    """The micro-batch is never less than this part of what the flow asks for."""
    gpu_types: Sequence[Name] = ()
    """GPU types that `larger-gpu` may use in addition to those that the run asks for."""
    max_cost_factor: Annotated[float, Field(ge=1, le=100, allow_inf_nan=False)] = 2.0
    """The highest price of such a GPU type, as a multiple of the price of the types that the run
    asks for. A type without a price is not used."""
    host_factor: Annotated[float, Field(gt=1, le=8, allow_inf_nan=False)] | None = None
    """The factor for the memory request and limit of the pods after an attempt that ran out of main
    memory. `null`: they stay as they are. Only of `gpu-kubernetes` pools."""
    host_limit_gib: Annotated[int, Field(ge=1, le=65_536)] | None = None
    """The highest memory request that `host_factor` leads to, in GiB for each node. `null`: what
    the largest node of the pool has."""
    remember: bool = False
    """Whether later runs of a deployment begin with what a run of it completed with after it ran
    out of memory, for 30 days."""


def memory_contradictions(policy: MemoryPolicy) -> list[InvalidInput]:
    """The keys of this section that were set and have no effect."""
    errors = []
    if policy.gpu_types and policy.action != "larger-gpu":
        errors.append(
            InvalidInput(
                "memory.gpu_types",
                f"has no effect with action {policy.action!r}",
                remedy="set memory.action to larger-gpu, or leave gpu_types out",
            )
        )
    if policy.host_limit_gib is not None and policy.host_factor is None:
        errors.append(
            InvalidInput(
                "memory.host_limit_gib",
                "has no effect without host_factor",
                got=policy.host_limit_gib,
                remedy="set memory.host_factor, such as 2, or leave host_limit_gib out",
            )
        )
    return errors
