"""Weeks of generated runs whose last day has one known fault.

Five deployments of three teams on two GPU types, spot and on-demand, in two zones. The number of
runs of a day and their hours vary, one spot attempt in ten is interrupted and one run in fifty
fails, with and without the fault.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from random import Random

from gpu_core.decisions.costs.anomalies.decomposition.drivers import Driver
from gpu_core.decisions.model.attempts import Attempt, EndReason, Provenance, RunRecord
from gpu_core.decisions.model.gpu_summary import GpuSummary
from gpu_core.decisions.model.units import SECONDS_PER_HOUR

Record = tuple[RunRecord, tuple[Attempt, ...]]

DAY = date(2026, 3, 4)
BEFORE_DAYS = 28
_WEEKEND = 0.4
_PRICES = {
    ("a10g", "spot"): 450_000,
    ("a10g", "on-demand"): 1_006_000,
    ("a100-80gb", "spot"): 1_500_000,
    ("a100-80gb", "on-demand"): 3_400_000,
}
"""Near on-demand and spot list prices of large providers in 2025, in micro-USD."""
_DEAR_ZONE = 1.5
"""What the other zone costs."""


@dataclass(frozen=True)
class Work:
    """What a deployment does on a weekday."""

    deployment: str
    team: str
    gpu_type: str
    capacity_type: str
    gpus: int
    runs: float
    hours: float
    zone: str = "zone-a"
    price_factor: float = 1.0
    failures: int = 0
    """Failed attempts before each run's last one."""
    busy: float = 0.9


WORK = (
    Work("train-detector/gpu", "vision", "a10g", "spot", 4, 6, 3.0),
    Work("label-images/gpu", "vision", "a10g", "on-demand", 1, 8, 1.5),
    Work("finetune/gpu", "language", "a100-80gb", "on-demand", 4, 3, 2.5),
    Work("evaluate/gpu", "language", "a10g", "spot", 1, 10, 0.8),
    Work("train-ranker/gpu", "search", "a100-80gb", "spot", 2, 5, 2.0),
)
_LARGE = (0, 2, 4)
"""Deployments whose faults are seen in the total."""


@dataclass(frozen=True)
class Fault:
    """What is wrong on the last day, and which cause must be named first."""

    works: tuple[Work, ...]
    driver: Driver
    concerned: str
    """A deployment that the cause must concern."""


def _one(change: Callable[[Work], Work], driver: Driver, places: Sequence[int] = _LARGE
         ) -> Callable[[Random], Fault]:  # fmt: skip
    def fault(chance: Random) -> Fault:
        place = chance.choice(places)
        works = [change(work) if n == place else work for n, work in enumerate(WORK)]
        return Fault(tuple(works), driver, WORK[place].deployment)

    return fault


def _price_rise(chance: Random) -> Fault:
    of = WORK[chance.choice(_LARGE)]
    works = [
        replace(work, price_factor=1.8)
        if (work.gpu_type, work.capacity_type) == (of.gpu_type, of.capacity_type)
        else work
        for work in WORK
    ]
    return Fault(tuple(works), Driver.PRICE, of.deployment)


def _new(chance: Random) -> Fault:
    new = Work("sweep/gpu", chance.choice(("vision", "ads")), "a100-80gb", "on-demand", 4, 4, 3.0)
    return Fault((*WORK, new), Driver.NEW, new.deployment)


FAULTS: dict[str, Callable[[Random], Fault]] = {
    "price rise": _price_rise,
    "zone change": _one(
        lambda work: replace(work, zone="zone-b", price_factor=_DEAR_ZONE), Driver.ZONE, (0, 2)
    ),
    "runaway retries": _one(lambda work: replace(work, failures=4), Driver.RETRIES),
    "more runs": _one(lambda work: replace(work, runs=3 * work.runs), Driver.RUNS),
    "new deployment": _new,
    "GPU count doubled": _one(lambda work: replace(work, gpus=2 * work.gpus), Driver.GPU_COUNT),
    "spot to on-demand": _one(
        lambda work: replace(work, capacity_type="on-demand"), Driver.CAPACITY_TYPE, (0, 4)
    ),
    "idle left-overs": _one(
        lambda work: replace(work, hours=3 * work.hours, busy=work.busy / 3), Driver.IDLE
    ),
    "slow step": _one(lambda work: replace(work, hours=2.2 * work.hours), Driver.RUN_TIME),
}


def records_with_fault(name: str, seed: int) -> tuple[tuple[Record, ...], Fault]:
    """The runs of four weeks and a day, and the fault of that day.

    Args:
        name: A name of `FAULTS`.
        seed: Another number gives other runs.
    """
    chance = Random(f"cost-faults/{name}/{seed}")
    fault = FAULTS[name](chance)
    records: list[Record] = []
    for back in range(BEFORE_DAYS, -1, -1):
        day = DAY - timedelta(days=back)
        for work in WORK if back else fault.works:
            records += _day(work, day, chance)
    return tuple(records), fault


def _day(work: Work, day: date, chance: Random) -> Iterator[Record]:
    usual = work.runs * (_WEEKEND if day.weekday() >= 5 else 1.0)
    for number in range(max(1, round(usual * chance.gauss(1, 0.1)))):
        name = f"{work.deployment}-{day:%m%d}-{number}"
        start = datetime.combine(day, time(), UTC) + timedelta(hours=chance.uniform(0, 8))
        run = _run(work, name, start)
        yield run, tuple(_attempts(work, run, start, chance))


def _attempts(work: Work, run: RunRecord, start: datetime, chance: Random) -> Iterator[Attempt]:
    duration_s = round(work.hours * SECONDS_PER_HOUR * chance.uniform(0.85, 1.15))
    wasted = [(EndReason.FAILED, duration_s // 2)] * work.failures
    if work.capacity_type == "spot" and chance.random() < 0.1:
        wasted.append((EndReason.INTERRUPTED, 900))
    if chance.random() < 0.02:
        wasted.append((EndReason.CRASHED, duration_s // 4))
    for number, (reason, held_s) in enumerate((*wasted, (EndReason.COMPLETED, duration_s)), 1):
        end = start + timedelta(seconds=held_s)
        yield _attempt(work, run, number, start, end, reason)
        start = end + timedelta(seconds=60)


def _attempt(
    work: Work, run: RunRecord, number: int, start: datetime, end: datetime, reason: EndReason
) -> Attempt:
    price = round(_PRICES[work.gpu_type, work.capacity_type] * work.price_factor)
    return Attempt(
        attempt_id=f"{run.flow_run_id}/{number}",
        flow_run_id=run.flow_run_id,
        number=number,
        pool=run.pool,
        host="generated",
        node="generated",
        gpu_type=work.gpu_type,
        gpu_ids=tuple(map(str, range(work.gpus))),
        capacity_type=work.capacity_type,
        zone=work.zone,
        price_micro_usd_per_gpu_hour=price,
        admitted_at=start,
        started_at=start + timedelta(seconds=40),
        released_at=end,
        end_reason=reason,
        gpu_summaries=tuple(
            GpuSummary(gpu_id=str(n), samples=100, busy_ratio=work.busy) for n in range(work.gpus)
        ),
    )


def _run(work: Work, name: str, submitted_at: datetime) -> RunRecord:
    return RunRecord(
        flow_run_id=name,
        name=name,
        flow_name=work.deployment.partition("/")[0],
        deployment=work.deployment,
        pool="generated",
        queue="medium",
        team=work.team,
        user="generated",
        project=work.team,
        experiment=None,
        model=None,
        workload_type="training",
        priority=1000,
        submitted_at=submitted_at,
        provenance=Provenance.GENERATED,
        final_state="Completed",
    )
