"""A made-up history for demonstrations: it says that it is generated wherever it can be seen."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from uuid import UUID, uuid5

from gpu_core.decisions.model.attempts import Attempt, EndReason, Provenance, RunRecord
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.units import SECONDS_PER_HOUR

Record = tuple[RunRecord, tuple[Attempt, ...]]

# Any constant: it makes the ids of generated records the same everywhere.
_NAMESPACE = UUID("5b6c8f5e-6d7a-4a55-9f6f-0c6b3a1e9d21")

_POOL = "generated-pool"
_MOST_DAYS = 366
_WEEKEND_SHARE = 0.4
_ANOMALY_HOURS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """The work of a generated deployment on an ordinary weekday."""

    team: str
    project: str
    flow: str
    workload_type: str
    gpu_type: str
    gpu_count: int
    capacity_type: str
    price_micro_usd_per_gpu_hour: int
    """Made up, near on-demand and spot list prices of large providers in 2025."""
    runs_per_weekday: int
    hours: float

    @property
    def deployment(self) -> str:
        return f"{self.flow}/generated"


_WORK = (
    _Work(
        team="generated-vision", project="generated-detector", flow="generated-train-detector",
        workload_type="training", gpu_type="a10g", gpu_count=4, capacity_type="spot",
        price_micro_usd_per_gpu_hour=450_000, runs_per_weekday=4, hours=3.0,
    ),
    _Work(
        team="generated-vision", project="generated-labels", flow="generated-label-images",
        workload_type="batch-inference", gpu_type="t4", gpu_count=1, capacity_type="on-demand",
        price_micro_usd_per_gpu_hour=526_000, runs_per_weekday=6, hours=1.5,
    ),
    _Work(
        team="generated-language", project="generated-assistant", flow="generated-finetune-7b",
        workload_type="fine-tuning", gpu_type="a100-80gb", gpu_count=8,
        capacity_type="on-demand", price_micro_usd_per_gpu_hour=3_400_000, runs_per_weekday=2,
        hours=2.5,
    ),
    _Work(
        team="generated-language", project="generated-assistant", flow="generated-evaluate-7b",
        workload_type="batch-inference", gpu_type="a10g", gpu_count=1, capacity_type="spot",
        price_micro_usd_per_gpu_hour=450_000, runs_per_weekday=5, hours=0.8,
    ),
    _Work(
        team="generated-search", project="generated-ranking", flow="generated-train-ranker",
        workload_type="training", gpu_type="l4", gpu_count=2, capacity_type="spot",
        price_micro_usd_per_gpu_hour=300_000, runs_per_weekday=5, hours=2.0,
    ),
)  # fmt: skip
_ANOMALOUS = _WORK[2]
ANOMALY_NAME = "generated-forgotten-sweep"
"""The name of the run that makes the anomaly day dear."""

QUICKSTART_DAYS = 42
QUICKSTART_DAY = date(2026, 9, 16)
"""The last day of the quickstart's history. It is fixed, as the weekday and the day of the month
change numbers of its report, which docs/nightly-report.md works out."""


def quickstart_history() -> tuple[Record, ...]:
    """The history of the quickstart, the same on every day."""
    return generated_history(QUICKSTART_DAYS, QUICKSTART_DAY)


def generated_history(
    days: int, last_day: date, *, seed: int = 1, anomaly_on: date | None = None
) -> tuple[Record, ...]:
    """A history of runs of three teams, that shows what reports look like.

    Weekdays are busier than weekends; some runs are interrupted and go on from a checkpoint; one
    forgotten run makes one day dear. A day's records depend on its date, the seed and whether it
    is the anomaly's day only: longer histories contain shorter ones, with the same ids.

    Args:
        days: How many days, 1 to 366.
        last_day: The last of them, in UTC.
        seed: Another number gives another history.
        anomaly_on: The anomaly's day; None: the last one.

    Raises:
        InvalidInput: `days` is out of range.
    """
    if not 1 <= days <= _MOST_DAYS:
        raise InvalidInput("days", "is out of range", got=days, allowed=f"1 to {_MOST_DAYS}")
    dear_day = anomaly_on or last_day
    records: list[Record] = []
    for back in reversed(range(days)):
        day = last_day - timedelta(days=back)
        records.extend(_ordinary_day(day, seed))
        if day == dear_day:
            records.append(_forgotten_run(day, seed))
    return tuple(records)


def _ordinary_day(day: date, seed: int) -> Iterator[Record]:
    # Python documents that seeding with a text gives the same numbers on every platform.
    chance = random.Random(f"{seed}/{day.isoformat()}")  # noqa: S311 - no secret depends on it
    share = _WEEKEND_SHARE if day.weekday() >= 5 else 1.0
    for work in _WORK:
        for index in range(max(1, round(work.runs_per_weekday * share))):
            submitted_at = _at(day, chance.uniform(6.0, 16.0))
            run = _run(work, f"{work.flow}-{day:%m%d}-{index + 1}", submitted_at, seed)
            admitted_at = submitted_at + timedelta(seconds=round(chance.expovariate(1 / 180)))
            duration_s = round(work.hours * SECONDS_PER_HOUR * chance.uniform(0.9, 1.1))
            is_interrupted = work.capacity_type == "spot" and chance.random() < 0.15
            if is_interrupted:
                yield run, _interrupted(work, run, admitted_at, duration_s, chance.random())
            else:
                yield run, (_completed(work, run, 1, admitted_at, duration_s),)


def _forgotten_run(day: date, seed: int) -> Record:
    submitted_at = _at(day, 1.0)
    run = _run(_ANOMALOUS, ANOMALY_NAME, submitted_at, seed)
    duration_s = _ANOMALY_HOURS * SECONDS_PER_HOUR
    return run, (_completed(_ANOMALOUS, run, 1, submitted_at, duration_s),)


def _run(work: _Work, name: str, submitted_at: datetime, seed: int) -> RunRecord:
    return RunRecord(
        flow_run_id=str(uuid5(_NAMESPACE, f"{seed}/{submitted_at.date()}/{name}")),
        name=name,
        flow_name=work.flow,
        deployment=work.deployment,
        pool=_POOL,
        queue="medium",
        team=work.team,
        user="generated",
        project=work.project,
        experiment=work.project,
        model=None,
        workload_type=work.workload_type,
        priority=1_000,
        submitted_at=submitted_at,
        provenance=Provenance.GENERATED,
        final_state="Completed",
    )


def _completed(
    work: _Work, run: RunRecord, number: int, admitted_at: datetime, duration_s: int
) -> Attempt:
    released_at = admitted_at + timedelta(seconds=duration_s)
    return Attempt(
        attempt_id=str(uuid5(_NAMESPACE, f"{run.flow_run_id}/{number}")),
        flow_run_id=run.flow_run_id,
        number=number,
        pool=run.pool,
        host="generated",
        node="generated",
        gpu_type=work.gpu_type,
        gpu_ids=tuple(str(index) for index in range(work.gpu_count)),
        capacity_type=work.capacity_type,
        price_micro_usd_per_gpu_hour=work.price_micro_usd_per_gpu_hour,
        admitted_at=admitted_at,
        started_at=admitted_at,
        released_at=released_at,
        last_seen_at=released_at,
        end_reason=EndReason.COMPLETED,
        exit_code=0,
    )


def _interrupted(
    work: _Work, run: RunRecord, admitted_at: datetime, duration_s: int, progress: float
) -> tuple[Attempt, ...]:
    """Two attempts: one that the provider ended, and one that went on from its checkpoint."""
    until_checkpoint_s = round(duration_s * (0.2 + 0.6 * progress))
    lost_s = 300
    checkpoint = f"generated://{run.flow_run_id}/1"
    first = replace(
        _completed(work, run, 1, admitted_at, until_checkpoint_s + lost_s),
        end_reason=EndReason.INTERRUPTED,
        end_message="generated: the provider took the machine",
        exit_code=None,
        checkpoint=checkpoint,
        checkpointed_at=admitted_at + timedelta(seconds=until_checkpoint_s),
    )
    readmitted_at = admitted_at + timedelta(seconds=until_checkpoint_s + lost_s + 600)
    rest_s = duration_s - until_checkpoint_s
    second = _completed(work, run, 2, readmitted_at, rest_s)
    return first, replace(second, restored_from=checkpoint)


def _at(day: date, hour: float) -> datetime:
    return datetime.combine(day, time(), UTC) + timedelta(seconds=round(hour * SECONDS_PER_HOUR))
