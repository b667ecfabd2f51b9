"""The policy of backfill: whether a later run may start on GPUs that runs ahead cannot use yet."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from gpu_core.decisions.model.section import Section


class Backfill(StrEnum):
    """The way in which nodes are kept for pending runs."""

    AUTO = "auto"
    """As EASY for runs on one node, where their start is known. Otherwise, and for each gang, the
    nodes that they are likely to get first."""
    NONE = "none"
    """Every node that a run ahead could use: a strict queue."""
    EASY = "easy"
    """The nodes on which the first run will start, from then on (Lifka, JSSPP 1995)."""
    GREEDY = "greedy"
    """Nothing: any run that fits starts. Large runs may starve, unless they preempt by order."""
    CONSERVATIVE = "conservative"
    """The nodes of up to `depth` pending runs (Mu'alem and Feitelson, TPDS 2001)."""


class BackfillPolicy(Section):
    """Whether a run starts on GPUs that runs ahead of it cannot use yet.

    While the ends of running workloads are unknown, no start can be reserved. `easy` and
    `conservative` then keep all free GPUs for the first run, as `none` does; `auto` keeps the nodes
    that it needs.
    """

    mode: Backfill = Field(default=Backfill.AUTO, strict=False)
    """`none`: a strict queue. `easy`: the start of the first run is reserved. `conservative`: the
    starts of `depth` runs are. `greedy`: nothing is; large runs may wait without end. `auto`: as
    `easy`; for gangs, and where starts are unknown, the nodes likely free first are kept."""
    depth: Annotated[int, Field(ge=1, le=10_000)] = 100
    """The number of backfill reservations with `conservative`; backfill may delay later runs."""
