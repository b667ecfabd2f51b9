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
    """Settings that control whether a run can start on GPUs that cannot be used yet by the runs
    ahead of it in the queue. As long as the end times of running workloads are unknown, no start
    can be reserved. In this case, `easy` and `conservative` keep all free GPUs for the first run,
    like `none`. `auto` only keeps the nodes that are likely to become free first, as many as the
    run needs and, for gangs, some more.
    """

    mode: Backfill = Field(default=Backfill.AUTO, strict=False)
    """The backfill mode. `none` schedules runs strictly in order. `easy` reserves the start of the
    first run. `conservative` reserves the starts of the first `depth` runs. `greedy` does not
    reserve any start, and large runs might wait indefinitely. `auto` works like `easy`, but for
    gangs, or if starts are unknown, it keeps the nodes that are likely to become free first."""
    depth: Annotated[int, Field(ge=1, le=10_000)] = 100
    """The number of backfill reservations if the mode is `conservative`. Runs after these can be
    delayed by backfill."""
