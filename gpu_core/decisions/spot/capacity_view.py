"""Spot and on-demand capacity in one cycle, and the state of a workload toward it."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from gpu_core.decisions.model.cluster import ON_DEMAND, SPOT, Allocation, Flavor, Node, Placement
from gpu_core.decisions.model.workload import Changeover, RunTimeSource, Shape, Workload
from gpu_core.decisions.placement.cluster_info import ClusterInfo
from gpu_core.decisions.placement.diagnostics import never_fits
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.spot.availability_tracker import SpotAvailabilityTracker
from gpu_core.decisions.spot.observed_lifetimes import SpotPast
from gpu_core.decisions.spot.state import Capacity, CapacityState
from gpu_core.decisions.spot.survival import SpotRecord
from gpu_core.decisions.spot.zones import Stay

# The worker looks every second or so; a minute covers one that is slow or starts anew.
LOOK_S = 60.0

_CRITICAL = "critical"


class CapacityView:
    """The nodes of one cycle, by kind of capacity.

    What `take` gives away is gone for those who ask afterwards.

    Args:
        nodes: All of the pool, those that may still come included.
        pasts: What the ledger shows of spot, by GPU type.
        availability: Since when each workload could have spot, or not; None: since now.
        stays: How long spot lived in which zone, by GPU type.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        policy: Policy,
        now: datetime,
        *,
        allocations: Sequence[Allocation] = (),
        pasts: Mapping[str, SpotPast] | None = None,
        availability: SpotAvailabilityTracker | None = None,
        stays: Mapping[str, Sequence[Stay]] | None = None,
    ) -> None:
        self.nodes = nodes
        self.allocations = allocations
        self.policy = policy
        self.now = now
        self.stays = stays or {}
        self._pasts = pasts or {}
        self._availability = availability or SpotAvailabilityTracker()
        self._flavors = frozenset(node.flavor for node in nodes)
        kinds = {flavor.capacity_type for flavor in self._flavors}
        self.is_mixed = {SPOT, ON_DEMAND} <= kinds
        """Is there a choice at all?"""
        self.is_spot_only = kinds == {SPOT}
        self._room: ClusterInfo | None = None
        self._untouched: ClusterInfo | None = None
        """The same, until something is taken; then another one, if it is asked for."""
        self._were_up: dict[Shape, bool] = {}
        self._full: set[Shape] = set()
        self._never: dict[Shape, bool] = {}
        self._prices: dict[
            tuple[tuple[str, ...], frozenset[str]], tuple[int | None, int | None]
        ] = {}

    def can_ever(self, workload: Workload, capacity_type: str) -> bool:
        """Is there such capacity for it, taken or free?"""
        shape = workload.shape._replace(capacity_type=capacity_type)
        if shape not in self._never:
            self._never[shape] = never_fits(shape, self.nodes) is not None
        return not self._never[shape]

    def fits(self, workload: Workload, capacity_type: str) -> bool:
        """Could it begin now on such capacity, where it has not failed recently?"""
        return self.find(workload, capacity_type) is not None

    def find(
        self, workload: Workload, capacity_type: str, among: Container[str] | None = None
    ) -> Placement | None:
        """The placement where it could start now on such capacity.

        None: only where it has failed recently.

        Args:
            among: The only nodes that it may use, by name; None: all.
        """
        shape = workload.shape._replace(capacity_type=capacity_type)
        if shape in self._full:
            return None
        placement = _place(workload, shape, self._all_room(), among)
        if placement is None and among is None:
            self._full.add(shape)  # taking makes no room
        return placement

    def on_demand_wait_s(self, workload: Workload, ended_at: datetime | None) -> float:
        """For how long has it asked for on-demand and got none?

        Args:
            workload: It waits, and asks for on-demand in this cycle.
            ended_at: The end of its last attempt; None: it had none.
        """
        is_free = workload.hold is None and self.fits(workload, ON_DEMAND)
        return self._availability.on_demand.waited_s(
            workload.workload_id, is_free=is_free, ended_at=ended_at, now=self.now
        )

    def asks_for_no_on_demand(self, workload: Workload) -> None:
        """It waits for something else, or for nothing."""
        self._availability.on_demand.forget(workload.workload_id)

    def take(self, workload: Workload, capacity_type: str) -> None:
        """It is to have such capacity: what it takes is not there for others."""
        placement = self.find(workload, capacity_type)
        if placement is not None:
            shape = workload.shape._replace(capacity_type=capacity_type)
            self._all_room().allocate(shape, placement)
            if self._untouched is self._room:
                self._untouched = None

    def state(
        self,
        workload: Workload,
        current: Capacity = Capacity.IDLE,
        done_s: float = 0.0,
        held_s: float = 0.0,
        budget_left_micro_usd: int | None = None,
    ) -> CapacityState | None:
        """The input of the choice of its capacity.

        Args:
            workload: With its run time and what is left of it, as far as they are known.
            done_s: What it has made safe since `remaining_s` was worked out.
            held_s: For how long it has run there. Without a deadline a run of unknown length, and
                one that has outlasted its run time, is taken to continue for as long again.
            budget_left_micro_usd: What is left of its budget, which says nothing of a run of
                unknown length; None: it has none.

        Returns:
            None: it has a deadline, and its run time is unknown.
        """
        due, estimate = workload.deadline_at, workload.run_time
        whole_s = 0.0
        left_s: float | None = None
        usual_s: float | None = None
        if estimate is not None and estimate.source is not RunTimeSource.LIMIT:
            # What is to hold is the time that it stays under, not the usual one.
            whole_s = estimate.upper_s
            begun_s = whole_s if workload.remaining_s is None else workload.remaining_s
            left_s = max(0.0, begun_s - done_s)
            # What is usually left falls as what is left at most does. What is not saved yet is done
            # all the same where it runs on.
            usual_s = max(0.0, begun_s * _part(estimate.median_s, whole_s) - held_s)
        if due is None and not left_s:
            left_s = held_s
        if left_s is None:
            return None
        spot_price, steady_price = self.prices(workload)
        changeover = self.changeover(workload)
        return CapacityState(
            work_s=max(whole_s, done_s + left_s),
            remaining_work_s=left_s,
            elapsed_s=(self.now - workload.submitted_at).total_seconds(),
            time_left_s=None if due is None else (due - self.now).total_seconds(),
            changeover_s=changeover.loss_s,
            changeover=changeover,
            look_s=LOOK_S,
            current=current,
            spot=self._record(workload, current),
            spot_micro_usd_per_hour=spot_price,
            on_demand_micro_usd_per_hour=steady_price,
            is_critical=self.is_critical(workload),
            budget_left_micro_usd=None if usual_s is None else budget_left_micro_usd,
            usual_remaining_work_s=usual_s,
        )

    def changeover(self, workload: Workload) -> Changeover:
        """The loss of a start of it on other capacity."""
        return workload.changeover or Changeover(self.policy.capacity.changeover_s)

    def is_critical(self, workload: Workload) -> bool:
        """Has it the points of critical work, from its queue or its job variable?"""
        points = self.policy.priorities.get(_CRITICAL)
        return points is not None and workload.priority >= points

    def lowest_prices(self, workload: Workload) -> dict[str, int | None]:
        """The least cost of an hour of all of it, by each kind of capacity that it could ever have.

        None: GPUs of that kind that it may use have no price.
        """
        price_of = self.policy.price_micro_usd_per_gpu_hour
        found: dict[str, int | None] = {}
        for kind in {flavor.capacity_type for flavor in self._flavors}:
            asked = workload.shape.capacity_type in (None, kind)
            if not asked or not self.can_ever(workload, kind):
                continue
            usable = (f for f in self._usable(workload) if f.capacity_type == kind)
            prices = [price_of(*flavor) for flavor in usable]
            known = [price * workload.shape.total_gpus for price in prices if price is not None]
            found[kind] = min(known) if known and len(known) == len(prices) else None
        return found

    def prices(self, workload: Workload) -> tuple[int | None, int | None]:
        """The cost of an hour of all of it on the cheapest spot, and on-demand on the same GPUs."""
        like = (workload.shape.gpu_types, workload.shape.avoided_nodes)
        if like not in self._prices:
            self._prices[like] = self._prices_per_gpu(workload)
        spot, steady = self._prices[like]
        gpus = workload.shape.total_gpus
        return None if spot is None else spot * gpus, None if steady is None else steady * gpus

    def _prices_per_gpu(self, workload: Workload) -> tuple[int | None, int | None]:
        price_of = self.policy.price_micro_usd_per_gpu_hour
        spot = self._spot_prices(workload)
        if not spot and workload.shape.avoided_nodes:
            # Spot that is left alone for now comes back, at its price.
            everywhere = workload.shape._replace(avoided_nodes=frozenset())
            spot = self._spot_prices(replace(workload, shape=everywhere))
        known = [(price, gpu_type) for gpu_type, price in spot.items() if price is not None]
        if not known:
            return None, None
        price, gpu_type = min(known)
        return price, price_of(gpu_type, ON_DEMAND)

    def _spot_prices(self, workload: Workload) -> dict[str, int | None]:
        price_of = self.policy.price_micro_usd_per_gpu_hour
        usable = self._usable(workload)
        return {kind.gpu_type: price_of(*kind) for kind in usable if kind.capacity_type == SPOT}

    def _record(self, workload: Workload, current: Capacity) -> SpotRecord:
        types = sorted({k.gpu_type for k in self._usable(workload) if k.capacity_type == SPOT})
        past = SpotPast.of(self._pasts[t] for t in types if t in self._pasts)
        is_up, age_s = self._sight(workload, current)
        return SpotRecord(
            is_up=is_up, age_s=age_s, observed_s=past.observed_s, up=past.up, away=past.away
        )

    def watch_spot(self, workload: Workload, current: Capacity) -> None:
        """Note whether it could have spot, for later reads the age of that."""
        self._sight(workload, current)

    def _sight(self, workload: Workload, current: Capacity) -> tuple[bool, float]:
        """Could it have spot, and since when is that so?"""
        if current is Capacity.SPOT:
            # Once it loses what it has, it sees anew: what others can have is not its own.
            self._availability.forget(workload.workload_id)
            return True, 0.0
        was_up, is_up = self._was_up(workload), self.fits(workload, SPOT)
        age_s = self._availability.age_s(workload.workload_id, is_up=was_up, now=self.now)
        return is_up, age_s if is_up is was_up else 0.0

    def _was_up(self, workload: Workload) -> bool:
        """Could it have had spot before others took theirs? That these do so is no sign of its end:
        where nodes come a few at a time, all would wait for another proof after each few."""
        shape = workload.shape._replace(capacity_type=SPOT)
        if shape not in self._were_up:
            placement = _place(workload, shape, self._first_room())
            self._were_up[shape] = placement is not None
        return self._were_up[shape]

    def _usable(self, workload: Workload) -> Iterable[Flavor]:
        """The kinds of GPUs that it may use and that are there."""
        flavors, avoided = self._flavors, workload.shape.avoided_nodes
        if avoided:
            flavors = frozenset(node.flavor for node in self.nodes if node.name not in avoided)
        if not workload.shape.gpu_types:
            return flavors
        return frozenset(kind for kind in flavors if kind.gpu_type in workload.shape.gpu_types)

    def _all_room(self) -> ClusterInfo:
        if self._room is None:
            self._room = self._untouched = self._new_room()
        return self._room

    def _first_room(self) -> ClusterInfo:
        """With nothing of it taken."""
        if self._room is None:
            return self._all_room()
        if self._untouched is None:
            self._untouched = self._new_room()
        return self._untouched

    def _new_room(self) -> ClusterInfo:
        room = ClusterInfo(self.nodes)
        for allocation in self.allocations:
            room.observe(allocation.workload.shape, allocation.placement)
        return room


def _place(
    workload: Workload, shape: Shape, room: ClusterInfo, among: Container[str] | None = None
) -> Placement | None:
    """The placement of a workload, away from nodes where it has failed recently."""
    avoided = workload.shape.avoided_nodes

    def allows(name: str) -> bool:
        return name not in avoided and (among is None or name in among)

    return room.find(shape, allows=allows)


def _part(some_s: float, all_s: float) -> float:
    return some_s / all_s if all_s else 1.0
