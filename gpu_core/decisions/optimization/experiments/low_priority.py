"""Low-priority requests on a device that serves interactive ones, and the batches that suit both.

The times of batches are measured; latencies, costs and throughput are computed from them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.units import digits
from gpu_core.decisions.optimization.experiments.comparison import winner_sentence
from gpu_core.decisions.optimization.experiments.ladder import with_interval
from gpu_core.decisions.optimization.experiments.plans import BATCH_SIZES
from gpu_core.decisions.optimization.experiments.repeats import (
    leaders,
    logarithms,
    mean_of,
    pareto_front,
)
from gpu_core.decisions.optimization.experiments.serving import (
    Served,
    poisson_arrivals,
    simulate_serving,
)
from gpu_core.decisions.optimization.experiments.trial import Measured, Trial, usd_per_1k

USUAL_LOAD = 0.3
"""Part of the time that interactive requests keep the device busy, if the rate is not given."""
_LIMIT_FACTOR = 2.0
"""Of the p99 without low-priority requests, if no limit is given."""
_FEWEST_REQUESTS, _MOST_REQUESTS = 100, 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class InteractiveDemand:
    """The interactive requests, and what is promised to them."""

    requests_per_s: float | None = None
    """The load. None: `USUAL_LOAD` of the device in its slowest repeat, one request at a time."""
    interactive_batch: int = 1
    """How many of them are answered together, at most."""
    p99_limit_ms: float | None = None
    """The limit. None: twice the p99 without low-priority requests."""
    requests: int = 10_000
    """How many arrive in each repeat."""

    def __post_init__(self) -> None:
        """Refuse what no device can be asked."""
        for name in ("requests_per_s", "p99_limit_ms"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise InvalidInput(name, "is out of range", got=value, allowed="more than 0")
        if self.interactive_batch not in BATCH_SIZES:
            raise InvalidInput(
                "interactive_batch",
                "is not a measured batch size",
                got=self.interactive_batch,
                allowed=", ".join(map(str, BATCH_SIZES)),
            )
        if not _FEWEST_REQUESTS <= self.requests <= _MOST_REQUESTS:
            raise InvalidInput(
                "requests",
                "is out of range",
                got=self.requests,
                allowed=f"{_FEWEST_REQUESTS} to {_MOST_REQUESTS:,}",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPolicy:
    """The treatment of the backlog, and its result."""

    batch_size: int | None
    """None: the backlog waits."""
    micro_usd_per_hour: int
    repeats: tuple[Served, ...]
    """One at least."""

    def __str__(self) -> str:
        """As people read it."""
        if self.batch_size is None:
            return "none"
        return "one by one" if self.batch_size == 1 else f"batches of {self.batch_size}"

    @property
    def p99_s(self) -> tuple[float, ...]:
        """Of the interactive requests, in each repeat."""
        return tuple(each.p99_s for each in self.repeats)

    @property
    def low_priority_per_s(self) -> tuple[float, ...]:
        """Answers to low-priority requests, in each repeat."""
        return tuple(each.low_priority_per_s for each in self.repeats)

    @property
    def usd_per_1k(self) -> tuple[float, ...] | None:
        """The cost of 1,000 of them if they pay for the whole device; None if none ran."""
        if self.batch_size is None:
            return None
        return tuple(usd_per_1k(self.micro_usd_per_hour, rate) for rate in self.low_priority_per_s)

    @property
    def marginal_usd_per_1k(self) -> tuple[float, ...] | None:
        """The cost of 1,000 of them if they pay for the time of their batches; None if none ran."""
        if self.batch_size is None:
            return None
        return tuple(
            usd_per_1k(self.micro_usd_per_hour, each.low_priority / each.low_priority_busy_s)
            for each in self.repeats
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyComparison:
    """All policies for one backlog, and what can be said of them."""

    measured: Measured
    """The time of each batch size."""
    demand: InteractiveDemand
    requests_per_s: float
    """Interactive requests."""
    limit_s: float
    """For the p99 of interactive requests."""
    policies: tuple[BatchPolicy, ...]
    cheapest: tuple[str, ...]
    """All that may have the lowest cost of the whole device."""
    front: tuple[str, ...]
    """Those that no other one dominates in that cost and in the p99 of interactive requests."""

    @property
    def largest_within(self) -> BatchPolicy | None:
        """The largest batch with the 95% interval of its p99 within the limit; None: no batch."""
        within = [
            policy
            for policy in self.policies
            if policy.batch_size is not None and with_interval(policy.p99_s).high <= self.limit_s
        ]
        return max(within, key=lambda policy: policy.batch_size or 0, default=None)

    @property
    def sentence(self) -> str:
        """The result, for people."""
        largest, limit = self.largest_within, f"{digits(self.limit_s * 1000)} ms"
        if largest is None:
            answer = f"All batch sizes exceed the interactive p99 latency limit of {limit}."
        else:
            answer = (
                f"Largest batch size within the interactive p99 latency limit of {limit}: "
                f"{largest}."
            )
        return f"{answer} {winner_sentence('lowest cost', self.cheapest)}"


def compare_policies(found: Measured, demand: InteractiveDemand) -> PolicyComparison:
    """The batches in which a backlog is served best while interactive requests arrive.

    Each repeat of the measurement gives the times of one simulation, with arrivals of its own that
    all policies share.

    Args:
        found: Batch sizes, each measured as often by one process.
        demand: The interactive requests.

    Raises:
        InvalidInput: Batches of 1 were not measured, or more requests come than are answered.
    """
    trials = {trial.setting.batch_size: trial for trial in found.trials}
    if 1 not in trials:
        raise InvalidInput("workload", "was not measured in batches of 1", allowed="one in fp32")
    rate = _requests_per_s(trials, demand)
    policies = tuple(
        BatchPolicy(
            batch_size=size,
            micro_usd_per_hour=trials[1].micro_usd_per_hour,
            repeats=_simulated(found.trials, demand, rate, size),
        )
        for size in (None, *trials)
    )
    costs = {str(p): logarithms(p.usd_per_1k) for p in policies if p.usd_per_1k is not None}
    waits = {str(policy): logarithms(policy.p99_s) for policy in policies}
    limit_ms = demand.p99_limit_ms
    return PolicyComparison(
        measured=found,
        demand=demand,
        requests_per_s=rate,
        limit_s=(
            _LIMIT_FACTOR * with_interval(policies[0].p99_s).likely
            if limit_ms is None
            else limit_ms / 1000
        ),
        policies=policies,
        cheapest=leaders(costs),
        front=pareto_front({name: (cost, waits[name]) for name, cost in costs.items()}),
    )


def batch_s(trial: Trial) -> tuple[float, ...]:
    """The mean time of a batch in each repeat."""
    return tuple(mean_of(each.batches_s) for each in trial.repeats)


def _requests_per_s(trials: dict[int, Trial], demand: InteractiveDemand) -> float:
    """How many interactive requests come, and does the device answer them in each repeat?"""
    slowest = {size: size / max(batch_s(trial)) for size, trial in trials.items()}
    most = max(rate for size, rate in slowest.items() if size <= demand.interactive_batch)
    rate = demand.requests_per_s
    if rate is None:
        return USUAL_LOAD * slowest[1]
    if rate >= most:
        raise InvalidInput(
            "requests_per_s",
            "exceeds the throughput of the device with batches of up to "
            f"{demand.interactive_batch}",
            got=rate,
            allowed=f"less than {digits(most)}, as in the slowest repeat",
        )
    return rate


def _simulated(
    trials: Sequence[Trial], demand: InteractiveDemand, rate: float, low_priority_batch: int | None
) -> tuple[Served, ...]:
    return tuple(
        simulate_serving(
            poisson_arrivals(rate, demand.requests, number),
            {trial.setting.batch_size: trial.repeats[number].batches_s for trial in trials},
            interactive_batch=demand.interactive_batch,
            low_priority_batch=low_priority_batch,
        )
        for number in range(len(trials[0].repeats))
    )
