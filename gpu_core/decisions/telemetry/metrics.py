"""The metrics of a worker: families of metrics from frozen facts, in base units and our own names.

Names and labels are public: add, never rename. Labels have few values: reasons, types of GPUs, and
at most `MOST_VALUES` teams, models and the like, the rest under `other`. No run's id is a label.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.gpu_health import HealthVerdict
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.telemetry.idle_state import IdleState
from gpu_core.decisions.telemetry.metric_names import LOST, QUANTITIES
from gpu_core.decisions.telemetry.samples import GpuSample

MOST_VALUES = 50
OTHER = "other"
_NONE = "none"

Labels = tuple[str, ...]
GpuState = Literal["held", "free", "unhealthy", "withheld"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFamily:
    """One metric with all its label values."""

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    labels: Labels
    samples: Mapping[Labels, float]


class GpuGroup(NamedTuple):
    """GPUs that are counted together."""

    gpu_type: str
    capacity_type: str
    state: GpuState


def withheld_micro_usd(
    gpus: Mapping[GpuGroup, int], price_micro_usd: Callable[[str, str], float | None]
) -> float:
    """The cost of the withheld GPUs for an hour. GPUs without a price are left out.

    Args:
        gpus: How many of each group there are.
        price_micro_usd: Of a GPU for an hour, by type and capacity type; None: it has none.
    """
    return sum(
        count * (price_micro_usd(group.gpu_type, group.capacity_type) or 0.0)
        for group, count in gpus.items()
        if group.state == "withheld"
    )


class HourlyCost(NamedTuple):
    """The cost of one attempt in an hour, and its labels."""

    model: str | None
    team: str | None
    workload_type: str | None
    micro_usd: float | None
    """None: it has no price, and is left out."""


class JudgedUse(NamedTuple):
    """The use of one attempt's GPUs."""

    team: str | None
    state: IdleState
    gpus: int
    is_idle: bool
    hourly_micro_usd: float | None
    """The cost of an hour; None: it has no price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFacts:
    """The facts that a worker exports about itself when it is scraped."""

    pool: str
    waiting: Mapping[Reason, int] = field(default_factory=dict)
    """Runs that wait, by reason."""
    oldest_wait_s: float = 0.0
    running: int = 0
    starts: int = 0
    """Since the worker started, like all counters."""
    preemptions: int = 0
    ends: Mapping[EndReason, int] = field(default_factory=dict)
    gpus: Mapping[GpuGroup, int] = field(default_factory=dict)
    withheld_micro_usd: float = 0.0
    """The cost of an hour of the withheld GPUs that have a price."""
    held_gpu_ids: frozenset[str] = frozenset()
    """GPUs of which an attempt holds a part."""
    costs: tuple[HourlyCost, ...] = ()
    uses: tuple[JudgedUse, ...] = ()
    """Of the attempts whose use is judged."""
    hung: int = 0
    """Attempts that make no progress."""
    steps_s: Mapping[str, float] = field(default_factory=dict)
    """Of the last cycle, by step."""
    cycles: int = 0
    cycle_ended_at_s: float | None = None
    """Seconds since 1970; None: no cycle has ended."""
    team_cost_micro_usd: Mapping[tuple[str | None, str], float] = field(default_factory=dict)
    """Cost so far by team and period (`day`, `month`), from the ledger."""
    ledger_read_at_s: float | None = None
    """The moment at which the ledger was read for these costs; None: it was not."""
    samples: tuple[GpuSample, ...] = ()
    """The last of each GPU of this machine."""
    verdicts: Mapping[str, HealthVerdict] = field(default_factory=dict)
    """The health of each GPU of this machine; of a cluster those that are not well."""


def worker_metrics(facts: WorkerFacts) -> list[MetricFamily]:
    """The metrics of a scheduling worker, and of the GPUs of its machine."""
    pool = (facts.pool,)
    ended = facts.cycle_ended_at_s
    read = facts.ledger_read_at_s
    families = [
        _gauge(
            "prefect_gpu_runs_waiting",
            "Number of pending runs, by reason.",
            ("pool", "reason"),
            {(*pool, reason.value): count for reason, count in facts.waiting.items()},
        ),
        _gauge(
            "prefect_gpu_oldest_wait_seconds",
            "Waiting time of the longest pending run, or 0 if no runs are pending.",
            ("pool",),
            {pool: facts.oldest_wait_s},
        ),
        _gauge(
            "prefect_gpu_runs_running",
            "Number of active attempts, including attempts that do not require GPUs.",
            ("pool",),
            {pool: facts.running},
        ),
        _counter(
            "prefect_gpu_starts", "Total number of admitted runs.", ("pool",), {pool: facts.starts}
        ),
        _counter(
            "prefect_gpu_preemptions",
            "Total number of preempted attempts.",
            ("pool",),
            {pool: facts.preemptions},
        ),
        _counter(
            "prefect_gpu_attempts_ended",
            "Total number of finished attempts, by end reason.",
            ("pool", "reason"),
            {(*pool, reason.value): count for reason, count in facts.ends.items()},
        ),
        _gauge(
            "prefect_gpu_gpus",
            (
                "Number of GPUs, by type, capacity type and state: held, free, unhealthy or "
                "withheld."
            ),
            ("pool", "gpu_type", "capacity_type", "state"),
            {(*pool, *group): count for group, count in facts.gpus.items()},
        ),
        _gauge(
            "prefect_gpu_withheld_hourly_cost_usd",
            (
                "Hourly cost of healthy GPUs that are withheld because a pod might be assigned "
                "an unhealthy GPU."
            ),
            ("pool",),
            {pool: facts.withheld_micro_usd / 1e6},
        ),
        _gauge(
            "prefect_gpu_hourly_cost_usd",
            "Hourly cost of active attempts with a known price.",
            ("pool", "team", "model", "workload_type"),
            _hourly(facts),
        ),
        _gauge(
            "prefect_gpu_gpus_by_use",
            "Number of GPUs of monitored runs, by the usage state of the run.",
            ("pool", "team", "state"),
            _by_use(facts),
        ),
        _gauge(
            "prefect_gpu_idle_hourly_cost_usd",
            "Hourly cost of idle runs with a known price.",
            ("pool", "team"),
            _idle_costs(facts),
        ),
        _gauge(
            "prefect_gpu_runs_hung",
            "Number of runs that are not making progress.",
            ("pool",),
            {pool: facts.hung},
        ),
        _gauge(
            "prefect_gpu_cost_usd",
            "Cost of the current day and month (UTC), by team, as recorded in the ledger.",
            ("pool", "team", "period"),
            _team_costs(facts),
        ),
        _gauge(
            "prefect_gpu_cycle_step_seconds",
            "Duration of each step in the last scheduling cycle.",
            ("pool", "step"),
            {(*pool, step): seconds for step, seconds in facts.steps_s.items()},
        ),
        _counter("prefect_gpu_cycles", "Scheduling cycles.", ("pool",), {pool: facts.cycles}),
        _gauge(
            "prefect_gpu_last_cycle_timestamp_seconds",
            "Unix timestamp of the end of the last scheduling cycle.",
            ("pool",),
            {} if ended is None else {pool: ended},
        ),
        _gauge(
            "prefect_gpu_ledger_read_timestamp_seconds",
            "Unix timestamp of the last time that costs were read from the ledger.",
            ("pool",),
            {} if read is None else {pool: read},
        ),
    ]
    return [*families, *gpu_metrics(facts.samples, facts.verdicts, facts.held_gpu_ids)]


def gpu_metrics(
    samples: Sequence[GpuSample], verdicts: Mapping[str, HealthVerdict], held: frozenset[str]
) -> list[MetricFamily]:
    """The metrics of the GPUs of one machine; what is unknown has no sample.

    Args:
        samples: The last of each GPU and MIG instance.
        verdicts: How each GPU is.
        held: The GPUs of which an attempt holds a part.
    """
    return [
        *device_metrics(samples, ("gpu",), lambda sample: (sample.gpu_id,)),
        _gauge(
            "prefect_gpu_device_held",
            "Set to 1 if an attempt is using the GPU or a part of it.",
            ("gpu",),
            {(sample.gpu_id,): float(sample.gpu_id in held) for sample in samples},
        ),
        _gauge(
            "prefect_gpu_device_health",
            (
                "Set to 1 for the current health state of the GPU: healthy, degraded, drain, "
                "reset or replace."
            ),
            ("gpu", "verdict"),
            {
                (gpu, each.value): float(each is verdict)
                for gpu, verdict in verdicts.items()
                for each in HealthVerdict
            },
        ),
    ]


def device_metrics(
    samples: Sequence[GpuSample], names: Labels, labels: Callable[[GpuSample], Labels]
) -> list[MetricFamily]:
    """The metrics of samples, one family for each quantity; an unknown value has no sample.

    Args:
        samples: The last of each GPU and MIG instance.
        names: The names of the labels of each.
        labels: Their values for a sample, in the same order.
    """
    families = []
    for quantity in QUANTITIES:
        values = ((sample, getattr(sample, quantity.field)) for sample in samples)
        families.append(
            MetricFamily(
                name=quantity.metric,
                kind=quantity.kind,
                help=quantity.help,
                labels=names,
                samples={labels(s): float(value) for s, value in values if value is not None},
            )
        )
    return [
        *families,
        _gauge(
            "prefect_gpu_device_throttled",
            "Set to 1 if the clocks are throttled for this reason.",
            (*names, "reason"),
            {(*labels(s), r.value): 1.0 for s in samples for r in s.throttle_reasons or ()},
        ),
        _gauge(
            LOST.metric,
            LOST.help,
            names,
            {labels(sample): float(sample.is_lost) for sample in samples},
        ),
    ]


def _gauge(name: str, text: str, labels: Labels, samples: Mapping[Labels, float]) -> MetricFamily:
    return MetricFamily(name=name, kind="gauge", help=text, labels=labels, samples=samples)


def _counter(name: str, text: str, labels: Labels, samples: Mapping[Labels, float]) -> MetricFamily:
    return MetricFamily(name=name, kind="counter", help=text, labels=labels, samples=samples)


def _hourly(facts: WorkerFacts) -> dict[Labels, float]:
    priced = [cost for cost in facts.costs if cost.micro_usd is not None]
    teams = _bounded(cost.team for cost in priced)
    models = _bounded(cost.model for cost in priced)
    kinds = _bounded(cost.workload_type for cost in priced)
    sums: dict[Labels, float] = {}
    for cost in priced:
        names = (
            _name(cost.team, teams),
            _name(cost.model, models),
            _name(cost.workload_type, kinds),
        )
        key = (facts.pool, *names)
        sums[key] = sums.get(key, 0.0) + (cost.micro_usd or 0.0) / 1e6
    return sums


def _by_use(facts: WorkerFacts) -> dict[Labels, float]:
    teams = _bounded(use.team for use in facts.uses)
    sums: dict[Labels, float] = {}
    for use in facts.uses:
        key = (facts.pool, _name(use.team, teams), use.state.value)
        sums[key] = sums.get(key, 0.0) + use.gpus
    return sums


def _idle_costs(facts: WorkerFacts) -> dict[Labels, float]:
    """Of each team with a judged run: 0 where none is idle, so that an alert ends."""
    teams = _bounded(use.team for use in facts.uses)
    sums: dict[Labels, float] = {}
    for use in facts.uses:
        key = (facts.pool, _name(use.team, teams))
        cost = (use.hourly_micro_usd or 0.0) / 1e6 if use.is_idle else 0.0
        sums[key] = sums.get(key, 0.0) + cost
    return sums


def _team_costs(facts: WorkerFacts) -> dict[Labels, float]:
    dearest = sorted(facts.team_cost_micro_usd.items(), key=lambda item: -item[1])
    teams = _first(team for (team, _), _cost in dearest)
    sums: dict[Labels, float] = {}
    for (team, period), micro_usd in dearest:
        key = (facts.pool, _name(team, teams), period)
        sums[key] = sums.get(key, 0.0) + micro_usd / 1e6
    return sums


def _bounded(values: Iterable[str | None]) -> frozenset[str]:
    """The most frequent values, as many as labels may have."""
    counts = Counter(value for value in values if value is not None)
    ordered = sorted(counts, key=lambda value: (-counts[value], value))
    return frozenset(ordered[:MOST_VALUES])


def _first(values: Iterable[str | None]) -> frozenset[str]:
    distinct = dict.fromkeys(value for value in values if value is not None)
    return frozenset([*distinct][:MOST_VALUES])


def _name(value: str | None, shown: frozenset[str]) -> str:
    if value is None:
        return _NONE
    return value if value in shown else OTHER
