"""What the next attempt of a run asks for, after what became of its earlier ones."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from gpu_core.decisions.accounting import Attempt, EndReason
from gpu_core.decisions.capacity.decide import decide
from gpu_core.decisions.capacity.elsewhere import avoided_nodes
from gpu_core.decisions.capacity.lives import SpotRecord
from gpu_core.decisions.capacity.state import Capacity, CapacityState
from gpu_core.decisions.cluster import Flavor, Node
from gpu_core.decisions.placement.feasibility import never_fits
from gpu_core.decisions.policy import Policy
from gpu_core.decisions.workload import RunTimeSource, Shape, Workload

# The worker looks every second or so; a minute covers one that is slow or starts anew.
_LOOK_S = 60.0

_CRITICAL = "critical"


class NextAttempts:
    """What the next attempts of runs ask for, at one moment.

    Args:
        nodes: Where they could go.
        policy: Of the pool.
        now: Aware.
    """

    def __init__(self, nodes: Sequence[Node], policy: Policy, now: datetime) -> None:
        self._nodes = nodes
        self._policy = policy
        self._now = now
        self._flavors = frozenset(node.flavor for node in nodes)
        self._never: dict[Shape, bool] = {}

    def of(self, workload: Workload, attempts: Sequence[Attempt]) -> Workload:
        """Which nodes does the workload leave alone, and must it be on-demand?

        On-demand only where the run itself left its capacity open and there are such nodes for it:
        a run is never kept waiting for capacity that does not exist.

        Args:
            workload: With its run time and what is left of it, as far as they are known.
            attempts: All attempts of the run so far, by number.
        """
        if attempts:
            avoided = avoided_nodes(attempts, self._nodes, self._policy.capacity, self._now)
            if avoided:
                workload = replace(workload, avoided_nodes=avoided)
        if workload.capacity_type is not None or not workload.gpu_count:
            return workload
        if not (self._spot_keeps_failing(attempts) or self._deadline_asks(workload)):
            return workload
        steady = replace(workload, capacity_type="on-demand")
        return workload if self._never_fits(steady.shape) else steady

    def _spot_keeps_failing(self, attempts: Sequence[Attempt]) -> bool:
        most = self._policy.capacity.max_spot_interruptions
        return most is not None and spot_interruptions(attempts) >= most

    def _deadline_asks(self, workload: Workload) -> bool:
        """Does the rule for deadlines say that it should not be on spot now?"""
        state = self._state(workload)
        if state is None:
            return False
        return decide(state, self._policy.capacity).capacity is Capacity.ON_DEMAND

    def _state(self, workload: Workload) -> CapacityState | None:
        """None: it has no deadline, or nobody knows how long it takes."""
        due, estimate = workload.deadline_at, workload.run_time
        if due is None or estimate is None or estimate.source is RunTimeSource.LIMIT:
            return None
        # With a deadline that is to hold, the time that it stays under counts, not the usual one.
        left_s = estimate.upper_s if workload.remaining_s is None else workload.remaining_s
        flavors = self._usable(workload)
        spot_price, steady_price = self._prices(workload, flavors)
        return CapacityState(
            work_s=max(estimate.upper_s, left_s),
            remaining_work_s=left_s,
            elapsed_s=(self._now - workload.submitted_at).total_seconds(),
            time_left_s=(due - self._now).total_seconds(),
            changeover_s=self._policy.capacity.changeover_s,
            look_s=_LOOK_S,
            current=Capacity.IDLE,
            spot=SpotRecord(is_up=any(kind.capacity_type == "spot" for kind in flavors)),
            spot_micro_usd_per_hour=spot_price,
            on_demand_micro_usd_per_hour=steady_price,
            is_critical=workload.queue == _CRITICAL,
        )

    def _usable(self, workload: Workload) -> frozenset[Flavor]:
        """The kinds of GPUs that it may use and that are there."""
        flavors, avoided = self._flavors, workload.avoided_nodes
        if avoided:
            flavors = frozenset(node.flavor for node in self._nodes if node.name not in avoided)
        if not workload.gpu_types:
            return flavors
        return frozenset(kind for kind in flavors if kind.gpu_type in workload.gpu_types)

    def _prices(
        self, workload: Workload, flavors: Iterable[Flavor]
    ) -> tuple[int | None, int | None]:
        """What all of it costs an hour on the cheapest spot, and on-demand on the same GPUs."""
        price_of = self._policy.price_micro_usd_per_gpu_hour
        spot = {kind.gpu_type: price_of(*kind) for kind in flavors if kind.capacity_type == "spot"}
        known = [(price, gpu_type) for gpu_type, price in spot.items() if price is not None]
        if not known:
            return None, None
        price, gpu_type = min(known)
        steady, gpus = price_of(gpu_type, "on-demand"), workload.total_gpus
        return price * gpus, None if steady is None else steady * gpus

    def _never_fits(self, shape: Shape) -> bool:
        if shape not in self._never:
            self._never[shape] = never_fits(shape, self._nodes) is not None
        return self._never[shape]


def spot_interruptions(attempts: Iterable[Attempt]) -> int:
    """How often was the run interrupted on spot, without another end there since?

    What it did on other capacity in between does not make spot any better.
    """
    count = 0
    for attempt in attempts:
        if attempt.capacity_type == "spot" and attempt.released_at is not None:
            count = count + 1 if attempt.end_reason is EndReason.INTERRUPTED else 0
    return count
