"""The shape of Kueue's scheduler performance tests: cohorts of queues, each with sets of jobs.

A YAML file as `test/performance/scheduler/configs/*/generator.yaml` of kubernetes-sigs/kueue. Where
it counts CPUs, we count GPUs: a queue is a team, and `request` its jobs' GPUs. The i-th job of a
set, from 0, comes i intervals after the beginning.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from gpu_core.adapters.files.text_file import is_file
from gpu_core.adapters.files.yaml_file import read_yaml
from gpu_core.decisions.model.errors import InvalidInput, listed, nearest_name
from gpu_core.decisions.model.pydantic_errors import first_mistake_refused
from gpu_core.decisions.model.section import Name, Section
from gpu_core.decisions.policy.flavor_keys import ANY
from gpu_core.decisions.policy.quotas import QuotaPolicy
from gpu_core.decisions.simulation.cluster.trace import TraceJob

_MS_PER_S = 1000
_MOST = 1_000_000
_NEVER = (None, "Never")

Count = Annotated[int, Field(ge=0, le=_MOST)]
Milliseconds = Annotated[int, Field(ge=0, le=10**12)]


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
    """`Any` or `Never`: whether it takes back what it lends."""
    within_cluster_queue: str | None = Field(default=None, alias="withinClusterQueue")
    """`LowerPriority` or `Never`: whether its jobs take from less urgent ones of it."""
    workload_sets: tuple[_WorkloadSet, ...] = Field(alias="workloadsSets", strict=False)


class _Cohort(Section):
    name: Name = Field(alias="className")
    count: Count
    queue_sets: tuple[_QueueSet, ...] = Field(alias="queuesSets", strict=False)


class _Generator(Section):
    cohorts: tuple[_Cohort, ...] = Field(strict=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedWorkload:
    """The content of such a file."""

    jobs: tuple[TraceJob, ...]
    """By arrival."""
    quotas: QuotaPolicy
    """The queues' quotas."""
    preempts: bool | None
    """Whether queues take back what they lend, and urgent jobs take from others of their queue;
    None: not stated."""


_Jobs = tuple[int, int, int, str, int, int]
"""Count, interval and run time in ms, name, priority, GPUs."""


def _shape(cohorts: int, queues: int, jobs: tuple[_Jobs, ...]) -> dict[str, Any]:
    """A generator of equal queues of 20 GPUs that may borrow 100 and take back what they lend."""
    return {
        "cohorts": [
            {
                "className": "cohort",
                "count": cohorts,
                "queuesSets": [
                    {
                        "className": "queue",
                        "count": queues,
                        "nominalQuota": 20,
                        "borrowingLimit": 100,
                        "reclaimWithinCohort": "Any",
                        "withinClusterQueue": "LowerPriority",
                        "workloadsSets": [
                            {
                                "count": count,
                                "creationIntervalMs": interval_ms,
                                "workloads": [
                                    {
                                        "className": name,
                                        "runtimeMs": run_time_ms,
                                        "priority": priority,
                                        "request": gpus,
                                    }
                                ],
                            }
                            for count, interval_ms, run_time_ms, name, priority, gpus in jobs
                        ],
                    }
                ],
            }
        ]
    }


WORKLOADS: Mapping[str, Any] = {
    # Commit cc13fff: 15,000 jobs of 30 queues.
    "baseline": _shape(
        5,
        6,
        (
            (350, 100, 200, "small", 50, 1),
            (100, 500, 500, "medium", 100, 5),
            (50, 1200, 1000, "large", 200, 20),
        ),
    ),
    # Its large-scale test at commit f6517b0: 50,000 jobs of 1,000 queues. Later commits changed it.
    "large": _shape(
        10,
        100,
        (
            (35, 60, 150, "small", 50, 1),
            (11, 300, 350, "medium", 100, 5),
            (4, 700, 700, "large", 200, 20),
        ),
    ),
}
"""The numbers of Kueue's own tests, by name."""


def read_generator(source: str) -> GeneratedWorkload:
    """The jobs and quotas of a generator.

    Args:
        source: A YAML file's path, `baseline` or `large`.

    Raises:
        InvalidInput: The file cannot be used; the message names the field.
    """
    known = WORKLOADS.get(source)
    if known is not None:
        return _generated(known, source)
    if not is_file(Path(source)):
        raise InvalidInput(
            "workload",
            "is neither a file nor a known workload",
            got=source,
            allowed=f"a generator's YAML file, or one of {listed(WORKLOADS)}",
            nearest=nearest_name(source, WORKLOADS),
        )
    return _generated(read_yaml(Path(source), "generator")[0], source)


def _generated(data: Any, source: str) -> GeneratedWorkload:
    generator = first_mistake_refused(lambda: _Generator.model_validate(data), _Generator, source)
    _check_size(generator, source)
    queues = list(_queues(generator))
    jobs = [job for _, queue, shape in queues for job in _jobs(queue, shape)]
    return GeneratedWorkload(
        jobs=tuple(sorted(jobs, key=lambda job: job.submit_s)),
        quotas=_quotas(queues),
        preempts=_preempts(generator, source),
    )


def _check_size(generator: _Generator, source: str) -> None:
    shapes = [(c.count * shape.count, shape) for c in generator.cohorts for shape in c.queue_sets]
    queues = sum(number for number, _ in shapes)
    jobs = sum(
        number * each.count * len(each.workloads)
        for number, shape in shapes
        for each in shape.workload_sets
    )
    for what, number in (("queues", queues), ("jobs", jobs)):
        if number > _MOST:
            raise InvalidInput(
                source, f"makes too many {what}", got=number, allowed=f"up to {_MOST:,}"
            )


def _preempts(generator: _Generator, source: str) -> bool | None:
    """Our preemption is one rule for a pool: both of Kueue's together, or none."""
    rules = {
        (shape.reclaim_within_cohort, shape.within_cluster_queue)
        for cohort in generator.cohorts
        for shape in cohort.queue_sets
    }
    if rules <= {(None, None)}:
        return None
    if rules == {("Any", "LowerPriority")}:
        return True
    # What Kueue takes where nothing is said.
    if rules <= {(reclaim, within) for reclaim in _NEVER for within in _NEVER}:
        return False
    raise InvalidInput(
        f"{source}: reclaimWithinCohort and withinClusterQueue",
        "are rules that cannot be replayed",
        got=", ".join(f"{reclaim} and {within}" for reclaim, within in sorted(rules, key=str)),
        allowed="Any and LowerPriority for all queues, or Never and Never for all",
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
