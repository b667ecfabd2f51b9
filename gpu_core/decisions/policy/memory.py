"""Policy section `memory`: what the next attempt of a run gets that ran out of memory."""

from typing import Annotated, Literal

from pydantic import Field

from gpu_core.decisions.model.section import Section

MemoryAction = Literal["off", "shrink"]


class MemoryPolicy(Section):
    """What follows when a run ends because its GPU has no memory left."""

    action: MemoryAction = "off"
    """`off`: the next attempt is like the last. `shrink`: it gets half the micro-batch, where its
    flow asks for it with `micro_batch()`; that costs no more in an hour."""
    max_divisor: Annotated[int, Field(ge=2, le=64)] = 8
    """The micro-batch is never less than this part of what the flow asks for."""
