"""The cost of preemption for the victims."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from gpu_core.decisions.model.units import SECONDS_PER_HOUR, epoch_s
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI, Workload
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.scheduling.plan.plan import Preempt
from gpu_core.decisions.scheduling.state.allocations import Holding


class Loss(NamedTuple):
    """The cost of a set of victims; sets are compared field by field.

    Each field only grows with a victim, so the best sets consist of best sets.
    """

    lost: int = 0
    """Thousandths of GPU × s × micro-USD / h, or without the price where one is missing. Where
    utilisation is measured, times that."""
    victims: int = 0
    priority_points: int = 0
    run_time_s: float = 0.0
    """The less, the more recently the victims were admitted."""
    ids: tuple[str, ...] = ()

    def plus(self, other: "Loss") -> "Loss":
        """The loss of both sets together."""
        return Loss(
            self.lost + other.lost,
            self.victims + other.victims,
            self.priority_points + other.priority_points,
            self.run_time_s + other.run_time_s,
            self.ids + other.ids,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionCandidate:
    """A workload that may be preempted, and its loss."""

    holding: Holding
    lost_milli_gpu_s: int
    price_micro_usd_per_gpu_hour: int | None
    """None: unpriced."""
    loss: Loss

    @property
    def workload_id(self) -> str:
        """The workload that holds the GPUs."""
        return self.holding.workload_id

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
        utilization: The measured utilisation of workloads' GPUs, 0 to 1, by id: what one would lose
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
        workload, allocation, now_s = holding.workload, holding.allocation, self._now_s
        saved_s = holding.admitted_s
        if allocation.checkpointed_at is not None:
            saved_s = max(saved_s, epoch_s(allocation.checkpointed_at))
        # The clock of another machine may be ahead; lost work is never negative.
        unsaved_s = max(0, int(now_s - saved_s))
        lost = holding.gpu_milli * unsaved_s
        used_ratio = self._utilization.get(workload.workload_id)
        worth = lost if used_ratio is None else round(lost * used_ratio)
        price = 0 if holding.flavor is None else self._prices[holding.flavor]
        return PreemptionCandidate(
            holding=holding,
            lost_milli_gpu_s=lost,
            price_micro_usd_per_gpu_hour=price,
            loss=Loss(
                lost=worth * price if self._in_money and price is not None else worth,
                victims=1,
                priority_points=workload.priority,
                run_time_s=now_s - holding.admitted_s,
                ids=(workload.workload_id,),
            ),
        )


def cheapest_covers(options: Sequence[tuple[int, Loss]]) -> list[Loss]:
    """Which options free at least n GPUs at the least loss, for each n?

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
