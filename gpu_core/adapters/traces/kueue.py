"""The shape of Kueue's scheduler performance tests: cohorts of queues, each with sets of jobs.

A YAML file as `test/performance/scheduler/configs/*/generator.yaml` of kubernetes-sigs/kueue. Where
it counts CPUs, we count GPUs: a queue is a team, and `request` its jobs' GPUs. The i-th job of a
set, from 0, comes i intervals after the beginning.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, ValidationError

from gpu_core.decisions.errors import InvalidInput
from gpu_core.decisions.policy_base import Name, Section
from gpu_core.decisions.quota.flavors import ANY
from gpu_core.decisions.quota.policy import QuotaPolicy
from gpu_core.decisions.simulation.trace import TraceJob
from gpu_core.decisions.validation import input_errors

_MS_PER_S = 1000

Count = Annotated[int, Field(ge=0)]
Milliseconds = Annotated[int, Field(ge=0)]


class _Workload(Section):
    name: Name = Field(alias="className")
    run_time_ms: Milliseconds = Field(alias="runtimeMs")
    priority: Count = 0
    request: Count


class _WorkloadSet(Section):
    count: Count
    interval_ms: Milliseconds = Field(alias="creationIntervalMs")
    workloads: tuple[_Workload, ...] = Field(strict=False)


class _QueueSet(Section):
    name: Name = Field(alias="className")
    count: Count
    nominal_quota: Count = Field(alias="nominalQuota")
    borrowing_limit: Count | None = Field(default=None, alias="borrowingLimit")
    reclaim_within_cohort: str | None = Field(default=None, alias="reclaimWithinCohort")
    within_cluster_queue: str | None = Field(default=None, alias="withinClusterQueue")
    workload_sets: tuple[_WorkloadSet, ...] = Field(alias="workloadsSets", strict=False)


class _Cohort(Section):
    name: Name = Field(alias="className")
    count: Count
    queue_sets: tuple[_QueueSet, ...] = Field(alias="queuesSets", strict=False)


class _Generator(Section):
    cohorts: tuple[_Cohort, ...] = Field(strict=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedWorkload:
    """What such a file describes."""

    jobs: tuple[TraceJob, ...]
    """By arrival."""
    quotas: QuotaPolicy
    """The queues' quotas. Its rules of preemption are the policy's, not the workload's."""


BASELINE = {
    "cohorts": [
        {
            "className": "cohort",
            "count": 5,
            "queuesSets": [
                {
                    "className": "queue",
                    "count": 6,
                    "nominalQuota": 20,
                    "borrowingLimit": 100,
                    "workloadsSets": [
                        {
                            "count": count,
                            "creationIntervalMs": interval_ms,
                            "workloads": [
                                {
                                    "className": name,
                                    "runtimeMs": run_time_ms,
                                    "priority": priority,
                                    "request": request,
                                }
                            ],
                        }
                        for count, interval_ms, name, run_time_ms, priority, request in (
                            (350, 100, "small", 200, 50, 1),
                            (100, 500, "medium", 500, 100, 5),
                            (50, 1200, "large", 1000, 200, 20),
                        )
                    ],
                }
            ],
        }
    ]
}
"""The numbers of Kueue's baseline test (commit cc13fff): 15,000 jobs of 30 queues."""


def read_generator(source: str) -> GeneratedWorkload:
    """The jobs and quotas of a generator.

    Args:
        source: A YAML file's path, or `baseline`.

    Raises:
        InvalidInput: The file cannot be used; the message names the field.
    """
    return _generated(BASELINE if source == "baseline" else _read(Path(source)), source)


def _read(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidInput(str(path), f"cannot be read: {error}") from error


def _generated(data: Any, source: str) -> GeneratedWorkload:
    try:
        generator = _Generator.model_validate(data)
    except ValidationError as error:
        first = input_errors(error, _Generator)[0]
        first.field = f"{source}: {first.field}" if first.field else source
        raise first from None
    queues = list(_queues(generator))
    jobs = [job for _, queue, shape in queues for job in _jobs(queue, shape)]
    return GeneratedWorkload(
        jobs=tuple(sorted(jobs, key=lambda job: job.submit_s)),
        quotas=_quotas(queues),
    )


def _queues(generator: _Generator) -> Iterator[tuple[str, str, _QueueSet]]:
    """Each queue: its cohort's name, its own, and what it is like."""
    for cohort in generator.cohorts:
        for i in range(cohort.count):
            for shape in cohort.queue_sets:
                for j in range(shape.count):
                    yield f"{cohort.name}-{i}", f"{cohort.name}-{i}-{shape.name}-{j}", shape


def _jobs(queue: str, shape: _QueueSet) -> Iterator[TraceJob]:
    for workload_set in shape.workload_sets:
        for i in range(workload_set.count):
            for workload in workload_set.workloads:
                yield TraceJob(
                    job_id=f"{queue}-{workload.name}-{i}",
                    submit_s=i * workload_set.interval_ms / _MS_PER_S,
                    duration_s=workload.run_time_ms / _MS_PER_S,
                    gpu_count=workload.request,
                    priority=workload.priority,
                    team=queue,
                )


def _quotas(queues: list[tuple[str, str, _QueueSet]]) -> QuotaPolicy:
    teams: dict[str, Any] = {}
    for cohort, queue, shape in queues:
        teams[queue] = {"cohort": cohort, "nominal_quota": {ANY: shape.nominal_quota}}
        if shape.borrowing_limit is not None:
            teams[queue]["borrowing_limit"] = {ANY: shape.borrowing_limit}
    cohorts: dict[str, Any] = {cohort: {} for cohort, _, _ in queues}
    return QuotaPolicy.model_validate(
        {"strategy": "hybrid", "reserved_ratio": 0, "teams": teams, "cohorts": cohorts}
    )
