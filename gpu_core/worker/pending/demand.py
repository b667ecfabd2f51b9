"""Reads the pending runs of the pool's queues as workloads."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple, Self
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import DeploymentResponse, WorkerFlowRunResponse
from prefect.workers.base import BaseVariables

from gpu_core.adapters.prefect.moments import plain_moment
from gpu_core.adapters.prefect.work_pool import read_queues
from gpu_core.decisions.checks.prefect.concurrency_limits import held_by_deployment
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.plain_text import without_controls
from gpu_core.decisions.model.workload import Hold, Workload, without_request
from gpu_core.decisions.policy.policy import PREFECT_DEFAULT_QUEUE, Policy
from gpu_core.decisions.requests.runs.run_workload import (
    RunLimits,
    run_limits,
    workload_from_request,
)
from gpu_core.decisions.requests.variables.env_variable import env_of_run, variable_defaults
from gpu_core.decisions.requests.variables.job_variables import GpuRequest, parse_request
from gpu_core.decisions.requests.variables.variable_values import LONGEST_NAME
from gpu_core.worker.attempts.run_faults import RunFaults
from gpu_core.worker.infrastructure import Infrastructure
from gpu_core.worker.pending.deployment_reader import DeploymentReader
from gpu_core.worker.pending.queue_reader import QueueReading
from gpu_core.worker.watch.pool_status import KeptBack, PoolWatch

_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """One run that may use GPUs, and what it asked for."""

    flow_run: FlowRun
    flow_name: str
    deployment: str | None
    queue: str | None
    request: GpuRequest
    limits: RunLimits
    workload: Workload
    source: DeploymentResponse | None = None
    """Its deployment, as it was when this was read."""
    variables: Mapping[str, object] = field(default_factory=dict)
    """All its job variables, those of the infrastructure included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidRun:
    """One run whose job variables cannot be used."""

    flow_run: FlowRun
    error: InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRuns:
    """The workloads from one poll of the queues."""

    responses: Mapping[str, WorkerFlowRunResponse]
    """By flow run id."""
    demands: tuple[Demand, ...]
    refusals: tuple[InvalidRun, ...]
    next_due_at: datetime | None
    """The moment at which the next run that is not due yet will be."""


class _RunFacts(NamedTuple):
    """What a demand is made of in its flow run. Its state, which changes most, is not among it."""

    id: UUID
    name: str
    deployment_id: UUID | None
    created: datetime | None
    expected_start_time: datetime | None
    tags: Sequence[str]
    created_by: Any
    job_variables: Mapping[str, Any] | None

    @classmethod
    def of(cls, flow_run: FlowRun) -> Self:
        return cls(*(getattr(flow_run, name) for name in cls._fields))


class _Asked(NamedTuple):
    """The job variables of a run, and what they were made of apart from the template."""

    sources: tuple[object, ...]
    variables: Mapping[str, object]
    request: GpuRequest


class _Read(NamedTuple):
    """The inputs of a demand. The demand is unchanged while all of these are unchanged."""

    deployment: DeploymentResponse | None
    policy: Policy
    template: Mapping[str, Any]
    facts: _RunFacts
    others: tuple[object, ...]
    """Names, and what the infrastructure looks at."""

    def is_still(self, other: "_Read") -> bool:
        """The first three are large, and replaced when they change."""
        is_same = all(mine is its for mine, its in zip(self[:3], other[:3], strict=True))
        return is_same and self[3:] == other[3:]


class DemandReader:
    """Reads the runs of one pool.

    Args:
        client: Prefect's client.
        pool: The pool's name.
        infrastructure: Adds to a workload what it needs of a node apart from GPUs.
        deployments: Reads the deployments of the runs.
        faults: Holds runs back that cannot be read.
    """

    def __init__(
        self,
        client: PrefectClient,
        pool: str,
        infrastructure: Infrastructure,
        deployments: DeploymentReader,
        faults: RunFaults | None = None,
    ) -> None:
        self._infrastructure = infrastructure
        self._faults = faults or RunFaults()
        self._client = client
        self._pool = pool
        self._queue_names: dict[UUID, str] = {}
        self._flow_names: dict[UUID, str] = {}
        self._deployments = deployments
        self._known: dict[UUID, _Asked] = {}
        self._demands: dict[UUID, tuple[_Read, Demand]] = {}
        self._template: Mapping[str, Any] = {}

    async def pending(
        self,
        reading: QueueReading,
        policy: Policy,
        template: Mapping[str, Any],
        now: datetime,
        watch: PoolWatch | None = None,
    ) -> PendingRuns:
        """The runs that are due, with their requests, and those that cannot be used.

        Args:
            reading: The queue. What it is outdated for does not compete.
            watch: Knows which runs Prefect keeps back; None: none.
        """
        await self._deployments.refresh()
        responses, outdated = reading.responses, reading.outdated
        due: dict[str, WorkerFlowRunResponse] = {}
        later: list[datetime] = []
        for key, response in responses.items():
            start = response.flow_run.next_scheduled_start_time
            if start is None or start <= now:
                due[key] = response
            else:
                later.append(start)
        demands: list[Demand] = []
        refusals: list[InvalidRun] = []
        for key, response in due.items():
            if key in outdated:
                continue
            queue = await self._queue_name(response.work_queue_id)
            try:
                demands.append(
                    await self._read_or_hold(key, response.flow_run, queue, policy, template, now)
                )
            except InvalidInput as error:
                refusals.append(InvalidRun(flow_run=response.flow_run, error=error))
        for kept in () if watch is None else watch.kept_back(responses.keys()):
            if str(kept.flow_run.id) not in outdated:
                demands.append(await self._read_kept_back(kept, policy, template, now))
        there = {response.flow_run.id for response in responses.values()}
        self._known = {key: asked for key, asked in self._known.items() if key in there}
        self._demands = {key: read for key, read in self._demands.items() if key in there}
        self._infrastructure.keep_fitted(responses.keys())
        return PendingRuns(
            responses=responses,
            demands=tuple(demands),
            refusals=tuple(refusals),
            next_due_at=min(later, default=None),
        )

    async def _read_kept_back(
        self, kept: KeptBack, policy: Policy, template: Mapping[str, Any], now: datetime
    ) -> Demand:
        """The workload of this run, held for the reason for which Prefect holds it.

        Variables that cannot be used are refused when Prefect hands it out: it may be gone by now.
        """
        flow_run, demand = kept.flow_run, None
        with (
            suppress(InvalidInput),
            self._faults.contained(
                str(flow_run.id), flow_run.name, "read", now, but=(InvalidInput,)
            ),
        ):
            demand = await self.read(flow_run, kept.queue, policy, template, now)
        if demand is None:
            return _unread(flow_run, kept.queue, policy, kept.hold, now)
        return replace(demand, workload=replace(demand.workload, hold=kept.hold))

    async def _read_or_hold(
        self,
        key: str,
        flow_run: FlowRun,
        queue: str | None,
        policy: Policy,
        template: Mapping[str, Any],
        now: datetime,
    ) -> Demand:
        """The workload of this run. After an error of the run, it is held for now."""
        demand = None
        if self._faults.hold(key, now) is None:
            with self._faults.contained(key, flow_run.name, "read", now, but=(InvalidInput,)):
                demand = await self.read(flow_run, queue, policy, template, now)
        return demand or _unread(flow_run, queue, policy, self._faults.hold(key, now), now)

    async def read(
        self,
        flow_run: FlowRun,
        queue: str | None,
        policy: Policy,
        template: Mapping[str, Any],
        now: datetime,
        begun_with: Mapping[str, object] | None = None,
    ) -> Demand:
        """The request of this run.

        Read once while the run, its deployment and the policy are the same.

        Args:
            begun_with: The job variables of its open attempt; None: those that hold now.

        Raises:
            InvalidInput: Its job variables cannot be used.
        """
        deployment = await self._deployments.of(flow_run.deployment_id)
        flow_name = await self._flow_name(flow_run.flow_id)
        known = self._demands.get(flow_run.id)
        # Most runs are the same objects as in the last cycle.
        is_known = known is not None and known[1].flow_run is flow_run
        facts = known[0].facts if known and is_known else _RunFacts.of(flow_run)
        if begun_with is not None:
            asked = begun_with, parse_request(begun_with, self._not_ours(template))
            return self._demand(flow_run, facts, deployment, flow_name, queue, policy, asked, now)
        template = self._kept(template)
        others = queue, flow_name, self._infrastructure.fitted_by
        source = _Read(deployment, policy, template, facts, others)
        if known is None or not known[0].is_still(source):
            asked = self._asked(template, deployment, facts)
            demand = self._demand(flow_run, facts, deployment, flow_name, queue, policy, asked, now)
        else:
            demand = known[1]
            if demand.flow_run is not flow_run:
                demand = replace(demand, flow_run=flow_run)
        self._demands[flow_run.id] = source, demand
        return demand

    def _demand(
        self,
        flow_run: FlowRun,
        facts: _RunFacts,
        deployment: DeploymentResponse | None,
        flow_name: str,
        queue: str | None,
        policy: Policy,
        asked: tuple[Mapping[str, object], GpuRequest],
        now: datetime,
    ) -> Demand:
        variables, request = asked
        name = None if deployment is None else f"{flow_name}/{deployment.name}"
        workload = workload_from_request(
            request,
            workload_id=str(facts.id),
            name=without_controls(facts.name, LONGEST_NAME),
            queue=queue,
            submitted_at=_submitted_at(facts, now),
            policy=policy,
            user=_creator(facts),
            tags=facts.tags,
            hold=deployment_hold(deployment),
            deployment=name,
        )
        return Demand(
            flow_run=flow_run,
            flow_name=flow_name,
            deployment=name,
            queue=queue,
            request=request,
            limits=run_limits(request, policy),
            workload=self._infrastructure.fitted(
                workload,
                variables,
                policy,
                flow_name,
                has_deployment=facts.deployment_id is not None,
            ),
            source=deployment,
            variables=variables,
        )

    def _asked(
        self,
        template: Mapping[str, Any],
        deployment: DeploymentResponse | None,
        facts: _RunFacts,
    ) -> tuple[Mapping[str, object], GpuRequest]:
        """Its job variables, merged and parsed; of runs that wait for long they hardly change.

        Raises:
            InvalidInput: They cannot be used.
        """
        sources = _of_deployment(deployment), facts.job_variables
        known = self._known.get(facts.id)
        if known is not None and known.sources == sources:
            return known.variables, known.request
        variables = _merged_variables(template, deployment, facts)
        request = parse_request(variables, self._not_ours(template))
        self._known[facts.id] = _Asked(sources, variables, request)
        return variables, request

    def _kept(self, template: Mapping[str, Any]) -> Mapping[str, Any]:
        """The template as it was first read, as long as it has not changed."""
        if template is not self._template and template != self._template:
            self._known.clear()
            self._template = template
        return self._template

    def _not_ours(self, template: Mapping[str, Any]) -> frozenset[str]:
        """Variables that Prefect's machinery or the platform team's template reads, not we."""
        properties = template.get("variables", {}).get("properties", {})
        others = {*properties, *BaseVariables.model_fields} - GpuRequest.model_fields.keys()
        return frozenset(others | self._infrastructure.variable_names)

    async def variables(self, flow_run: FlowRun, template: Mapping[str, Any]) -> dict[str, object]:
        """The job variables of this run as they are now, usable or not."""
        deployment = await self._deployments.of(flow_run.deployment_id)
        return _merged_variables(template, deployment, _RunFacts.of(flow_run))

    async def _queue_name(self, queue_id: UUID) -> str | None:
        if queue_id not in self._queue_names:
            queues = await read_queues(self._client, self._pool)
            self._queue_names = {queue.id: queue.name for queue in queues}
        return self._queue_names.get(queue_id)

    async def _flow_name(self, flow_id: UUID) -> str:
        if flow_id not in self._flow_names:
            self._flow_names[flow_id] = (await self._client.read_flow(flow_id)).name
        return self._flow_names[flow_id]


def _merged_variables(
    template: Mapping[str, Any], deployment: DeploymentResponse | None, facts: _RunFacts
) -> dict[str, object]:
    """The run's variables over the deployment's over the pool's defaults, as Prefect does it.

    Raises:
        InvalidInput: `env` is no environment.
    """
    of_deployment = _of_deployment(deployment)
    of_run = facts.job_variables or {}
    merged = {**variable_defaults(template), **of_deployment, **of_run}
    env = env_of_run(template, of_deployment, of_run)
    return merged if env is None else {**merged, "env": env}


def _of_deployment(deployment: DeploymentResponse | None) -> dict[str, Any]:
    return (deployment.job_variables if deployment is not None else None) or {}


def _submitted_at(facts: _RunFacts, now: datetime) -> datetime:
    """The moment since when it waits.

    A start that was set to the year 1 is no database's moment.
    """
    return plain_moment(max(facts.expected_start_time or facts.created or now, _EARLIEST))


def held_demand(demand: Demand, hold: Hold | None) -> Demand:
    """The same run with nothing that planning could stumble over, held for this."""
    asked = demand.workload
    return replace(demand, workload=replace(without_request(asked), queue=asked.queue, hold=hold))


def _unread(
    flow_run: FlowRun, queue: str | None, policy: Policy, hold: Hold | None, now: datetime
) -> Demand:
    """A run of which nothing is known but that it waits, and why it has to."""
    priority = policy.priority_of_queue(PREFECT_DEFAULT_QUEUE if queue is None else queue)
    return Demand(
        flow_run=flow_run,
        flow_name="",
        deployment=None,
        queue=queue,
        request=GpuRequest(),
        limits=run_limits(GpuRequest(), policy),
        workload=Workload(
            workload_id=str(flow_run.id),
            name=without_controls(flow_run.name, LONGEST_NAME),
            priority=priority or 0,
            submitted_at=_submitted_at(_RunFacts.of(flow_run), now),
            queue=queue,
            hold=hold,
        ),
    )


def _creator(facts: _RunFacts) -> str | None:
    """The person who made the run. Only Prefect Cloud knows; a server without accounts does not."""
    creator = facts.created_by
    return creator.display_value if creator is not None and creator.type == "USER" else None


def deployment_hold(deployment: DeploymentResponse | None) -> Hold | None:
    """Would Prefect refuse to start it? Then no run is preempted for it."""
    limit = deployment.global_concurrency_limit if deployment is not None else None
    return None if limit is None else held_by_deployment(limit.active_slots, limit.limit)
