"""The cost of preemption for the victims."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from gpu_core.decisions.model.units import SECONDS_PER_HOUR, epoch_s
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI, Workload
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.scheduling.plan.plan import Preempt
from gpu_core.decisions.scheduling.state.allocations import Holding

_HALF_HOUR_S = 1_800
"""Six restarts of 5 min. Chosen on Philly's 1 to 15 October 2017: steps of one preemption and
doubling ones made others wait longer, and an hour let one run be preempted more often."""


class Loss(NamedTuple):
    """The cost of a set of victims; sets are compared field by field.

    A set costs more with each victim, as it has more of them, so the best sets consist of best
    sets.
    """

    lost: int = 0
    """Thousandths of GPU × s × micro-USD / h, or without the price where one is missing. Where
    utilization is measured, times that."""
    victims: int = 0
    priority_points: int = 0
    half_hours_paid: int = 0
    """The time that earlier preemptions have cost the victims. In steps, as the longest would be
    preempted again and again otherwise, and a short run after each single restart."""
    minus_run_time_s: float = 0.0
    """The less, the longer the victims have run: who has waited for its GPUs last keeps them."""
    ids: tuple[str, ...] = ()

    def plus(self, other: "Loss") -> "Loss":
        """The loss of both sets together."""
        return Loss(
            self.lost + other.lost,
            self.victims + other.victims,
            self.priority_points + other.priority_points,
            self.half_hours_paid + other.half_hours_paid,
            self.minus_run_time_s + other.minus_run_time_s,
            self.ids + other.ids,
        )


class PreemptionCandidate(NamedTuple):
    """A workload that may be preempted, and its loss."""

    workload_id: str
    """The workload that holds the GPUs."""
    holding: Holding
    lost_milli_gpu_s: int
    price_micro_usd_per_gpu_hour: int | None
    """Of its GPUs; None: unpriced."""
    loss: Loss

    def command(self, preemptor: Workload) -> Preempt:
        """The command that preempts this workload for `preemptor`."""
        price = self.price_micro_usd_per_gpu_hour
        hour = WHOLE_GPU_MILLI * SECONDS_PER_HOUR
        return Preempt(
            workload_id=self.workload_id,
            for_workload_id=preemptor.workload_id,
            lost_gpu_s=self.lost_milli_gpu_s // WHOLE_GPU_MILLI,
            # Whole numbers to the end, rounded half up once.
            lost_micro_usd=(
                None if price is None else (2 * self.lost_milli_gpu_s * price + hour) // (2 * hour)
            ),
        )


class Candidates(Mapping[str, PreemptionCandidate]):
    """The workloads that may be preempted, by id.

    A loss is computed on first use.

    Args:
        holdings: All holdings.
        policy: For prices.
        now_s: The cycle's moment.
        utilization: The measured utilization of workloads' GPUs, 0 to 1, by id: what one would lose
            is compared by the part of the time in which it worked. Missing: all of it.
    """

    def __init__(
        self,
        holdings: Iterable[Holding],
        policy: Policy,
        now_s: float,
        utilization: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self._holdings = {
            h.workload_id: h
            for h in holdings
            if h.workload.is_preemptible and not h.allocation.is_draining
        }
        self._now_s = now_s
        self._grace_s = policy.preemption.grace_period_s
        self._utilization = utilization
        self._known: dict[str, PreemptionCandidate] = {}
        flavors = {h.flavor for h in self._holdings.values() if h.flavor is not None}
        self._prices = {f: policy.price_micro_usd_per_gpu_hour(*f) for f in flavors}
        # Dollars only compare with dollars: with one price missing, losses count without prices.
        self._in_money = None not in self._prices.values()

    def __getitem__(self, workload_id: str) -> PreemptionCandidate:
        candidate = self._known.get(workload_id)
        if candidate is None:
            candidate = self._candidate(self._holdings[workload_id])
            self._known[workload_id] = candidate
        return candidate

    def __contains__(self, workload_id: object) -> bool:
        return workload_id in self._holdings

    def __iter__(self) -> Iterator[str]:
        return iter(self._holdings)

    def __len__(self) -> int:
        return len(self._holdings)

    @property
    def holdings(self) -> Iterable[Holding]:
        """The holdings of the candidates."""
        return self._holdings.values()

    def remove(self, workload_id: str) -> None:
        """Removes a candidate that is evicted."""
        del self._holdings[workload_id]

    def _candidate(self, holding: Holding) -> PreemptionCandidate:
        workload, now_s = holding.workload, self._now_s
        lost = holding.gpu_milli * lost_s(holding, now_s, self._grace_s)
        # What an earlier preemption cost is lost for nothing if the next one comes before it has
        # brought as much work.
        unpaid_s = int(holding.allocation.unpaid_s(now_s))
        worth = lost + holding.gpu_milli * unpaid_s
        used_ratio = self._utilization.get(workload.workload_id)
        worth = worth if used_ratio is None else round(worth * used_ratio)
        price = 0 if holding.flavor is None else self._prices[holding.flavor]
        return PreemptionCandidate(
            workload_id=workload.workload_id,
            holding=holding,
            lost_milli_gpu_s=lost,
            price_micro_usd_per_gpu_hour=price,
            loss=Loss(
                lost=worth * price if self._in_money and price is not None else worth,
                victims=1,
                priority_points=workload.priority,
                half_hours_paid=int((workload.preemption_cost_s or 0.0) // _HALF_HOUR_S),
                minus_run_time_s=holding.admitted_s - now_s,
                ids=(workload.workload_id,),
            ),
        )


def lost_s(holding: Holding, now_s: float, grace_s: float) -> int:
    """How many seconds of its time would the workload repeat if it were preempted now?

    A restart, and the work since its newest checkpoint. None of that work where it saves within the
    grace period once it is asked to end. Without a checkpoint the whole attempt, its start too.

    Args:
        holding: What it holds.
        now_s: The cycle's moment.
        grace_s: How long it may go on after it is asked to end.

    Returns:
        Whole seconds, 0 or more.
    """
    allocation = holding.allocation
    restart_s, saved_at = allocation.restart_s or 0.0, allocation.checkpointed_at
    if allocation.save_s is not None and allocation.save_s <= grace_s:
        return int(restart_s)
    saved_s = holding.admitted_s if saved_at is None else epoch_s(saved_at)
    # The clock of another machine may be ahead or behind; lost work is never negative.
    if saved_s <= holding.admitted_s:
        return max(0, int(now_s - holding.admitted_s))
    return max(0, int(now_s - saved_s)) + int(restart_s)


def cheapest_covers(options: Sequence[tuple[int, Loss]]) -> list[Loss]:
    """The least loss at which options free at least n GPUs, for each n.

    Dynamic programming over sums of GPUs; a set that frees more also covers less.

    Args:
        options: How many GPUs each frees, and its loss.

    Returns:
        The loss for none, for at least one GPU, and so on, up to what all options free together.
    """
    # For each sum the best set that frees exactly that.
    best: dict[int, Loss] = {0: Loss()}
    for gpus, loss in options:
        for given, before in list(best.items()):
            after = before.plus(loss)
            current = best.get(given + gpus)
            if current is None or after < current:
                best[given + gpus] = after
    most = max(best)
    covers = [best[most]] * (most + 1)
    for gpus in range(most - 1, -1, -1):
        covers[gpus] = min(best.get(gpus, covers[gpus + 1]), covers[gpus + 1])
    return covers
