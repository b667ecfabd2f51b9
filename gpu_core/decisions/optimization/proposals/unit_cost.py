"""The cost of a unit of work, so that a month with more work is no loss."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

from gpu_core.decisions.optimization.proposals.kinds import WorkUnit
from gpu_core.decisions.optimization.proposals.run_facts import RunFact


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCost:
    """The cost of all runs that are over, by what the completed ones did."""

    runs: int
    cost_micro_usd: int
    units: float

    @property
    def micro_usd(self) -> float | None:
        """Of one unit; None: nothing was completed."""
        return self.cost_micro_usd / self.units if self.units else None


def unit_cost(facts: Iterable[RunFact], unit: WorkUnit) -> UnitCost | None:
    """The cost of a unit of work of these runs. Failed runs cost and complete nothing.

    Returns:
        None: a run has no price, or there is none.
    """
    counted = list(facts)
    costs = [fact.cost_micro_usd for fact in counted if fact.cost_micro_usd is not None]
    if len(costs) < len(counted) or not counted:
        return None
    done = [fact for fact in counted if fact.is_completed]
    return UnitCost(
        runs=len(counted),
        cost_micro_usd=sum(costs),
        units=sum(_units(fact, unit) for fact in done),
    )


def _units(fact: RunFact, unit: WorkUnit) -> float:
    match unit:
        case WorkUnit.COMPLETED_RUN:
            return 1.0
        case WorkUnit.GPU_HOUR_OF_WORK:
            return fact.work_gpu_h
        case WorkUnit.GPU_HOUR_BETWEEN_SAVES:
            return fact.useful_gpu_h
        case WorkUnit.MACHINE_HOUR:
            raise ValueError("a run is no machine")
    assert_never(unit)
