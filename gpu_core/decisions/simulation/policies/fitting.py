"""The replayed policies that fit a workload."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from gpu_core.decisions.model.errors import alternatives
from gpu_core.decisions.model.units import format_duration
from gpu_core.decisions.simulation.policies.metrics import GANG_OVER_GPUS, Metrics

MOST_GANG_WAIT = 1.1
"""The wait of large jobs at the 95th percentile, as a multiple of the reference's: what the default
policy has to keep, too."""
NO_DIFFERENCE = 0.01
"""Mean waits that are closer than this part are the same."""
REFERENCE = "fifo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitting:
    """The policies with the shortest mean wait that do not let large jobs wait for them."""

    policies: tuple[str, ...]
    """In the order of the replay; several: their mean waits are the same."""
    mean_wait_s: float
    reference: str | None
    """With which the wait of large jobs was compared; None: there are no large jobs."""

    @property
    def text(self) -> str:
        """For people: one sentence."""
        wait = format_duration(self.mean_wait_s)
        if self.reference is None:
            return f"Shortest mean wait: {alternatives(self.policies)}, {wait}."
        return (
            f"Shortest mean wait, with jobs over {GANG_OVER_GPUS} GPUs at most "
            f"{(MOST_GANG_WAIT - 1) * 100:.0f}% later (p95) than under '{self.reference}': "
            f"{alternatives(self.policies)}, {wait}."
        )


def fitting(replayed: Mapping[str, Metrics]) -> Fitting | None:
    """The policies that fit; None: there is nothing to compare.

    Only policies under which as many jobs finish as under any are compared. Large jobs are compared
    with `fifo`, if it was replayed, else with the policy under which they wait for the shortest.

    Args:
        replayed: The metrics by the policy's name.
    """
    most = max((each.finished for each in replayed.values()), default=0)
    complete = {name: each for name, each in replayed.items() if each.finished == most}
    waits_s = {name: each.wait_s.mean for name, each in complete.items() if each.wait_s is not None}
    if len(replayed) < 2 or not waits_s:
        return None
    gangs_s = {n: each.gang_wait_s.p95 for n, each in complete.items() if each.gang_wait_s}
    reference = None
    if gangs_s:
        reference = REFERENCE if REFERENCE in gangs_s else min(gangs_s, key=lambda n: gangs_s[n])
        most_s = gangs_s[reference] * MOST_GANG_WAIT
        waits_s = {n: wait for n, wait in waits_s.items() if gangs_s.get(n, inf) <= most_s}
    least_s = min(waits_s.values())
    same = tuple(n for n, wait in waits_s.items() if wait <= least_s * (1 + NO_DIFFERENCE))
    return Fitting(policies=same, mean_wait_s=least_s, reference=reference)
