"""Whether a run further back may start on GPUs that those ahead cannot use yet."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from gpu_core.decisions.model.section import Section


class Backfill(StrEnum):
    """What is kept for those who wait."""

    NONE = "none"
    """Every node that a run ahead could use: a strict line."""
    EASY = "easy"
    """The place where the first in the queue will start, from then on (Lifka, JSSPP 1995)."""
    GREEDY = "greedy"
    """Nothing: any run that fits starts. Large runs may starve, unless they preempt by order."""
    CONSERVATIVE = "conservative"
    """The places of all who wait, up to `depth` of them (Mu'alem and Feitelson, TPDS 2001)."""


class BackfillPolicy(Section):
    """Whether a run starts on GPUs that runs ahead of it cannot use yet.

    Backfill needs run times. While the ends of the running workloads are unknown, no start can be
    reserved, and free GPUs are kept for the head of the queue as with `none`.
    """

    mode: Backfill = Field(default=Backfill.EASY, strict=False)
    """`none`: a strict queue. `easy`: the start of the first run is reserved. `conservative`: the
    starts of `depth` runs are. `greedy`: nothing is; large runs may wait without end."""
    depth: Annotated[int, Field(ge=1, le=10_000)] = 100
    """The number of backfill reservations with `conservative`; backfill may delay later runs."""
