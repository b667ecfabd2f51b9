"""Deployments of the flows that come with this package."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from prefect.client.schemas.actions import DeploymentScheduleCreate, DeploymentUpdate
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule
from prefect.exceptions import ObjectNotFound
from prefect.flows import Flow
from prefect.utilities.callables import parameter_schema

from gpu_core.cli.project.file import Deployment
from gpu_core.cli.setup.session import Session, say
from gpu_core.decisions.checks.prefect.pool_blocks import pool_block_name
from gpu_core.worker import GpuKubernetesWorker


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagedDeployment:
    """A deployment that every pool gets."""

    module: str
    """Named, because the library may not depend on flows."""
    function: str
    name: str
    description: str
    tags: tuple[str, ...]
    job_variables: dict[str, Any]
    cron: str | None = None
    """The schedule, in UTC."""
    is_paused: bool = False
    """Its schedule waits until a person activates it: it needs credentials that not all have."""
    pool_type: str | None = None
    """None: any."""
    concurrency_limit: int | None = None
    """How many of its runs may be active at the same time; None: any number."""

    @property
    def entrypoint(self) -> str:
        """Of the installed module: it needs no checkout where it runs."""
        return f"{self.module}.{self.function}"

    def is_in(self, project: Iterable[Deployment]) -> bool:
        """Has the project a deployment of its own in its place?"""
        return any(
            each.name == self.name
            and each.entrypoint.endswith((f":{self.function}", f".{self.function}"))
            for each in project
        )


_ONE_GPU = {"gpu_count": 1, "team": "platform", "project": "gpu-experiments"}
_WITHOUT_GPU = {"gpu_count": 0, "team": "platform", "project": "gpu-reports"}

PACKAGED_DEPLOYMENTS = (
    PackagedDeployment(
        module="gpu_core.flows.report_cost",
        function="report_cost",
        name="nightly",
        description="Generate a daily GPU cost report by team and project, including anomalies.",
        tags=("gpu", "report"),
        job_variables=_WITHOUT_GPU,
        cron="30 1 * * *",
    ),
    PackagedDeployment(
        module="gpu_core.flows.close_month",
        function="close_month",
        name="monthly",
        description="Generate a GPU cost report for the previous month.",
        tags=("gpu", "report"),
        job_variables=_WITHOUT_GPU,
        cron="0 2 1 * *",
    ),
    PackagedDeployment(
        module="gpu_core.flows.propose_savings",
        function="propose_savings",
        name="nightly",
        description="Recommend changes to deployments that would reduce costs. No changes are "
        "applied.",
        tags=("gpu", "savings"),
        job_variables=_WITHOUT_GPU,
        cron="30 2 * * *",
    ),
    PackagedDeployment(
        module="gpu_core.flows.apply_saving",
        function="apply_saving",
        name="by-request",
        description="Request approval for a proposed change and apply it to the deployment.",
        tags=("gpu", "savings"),
        job_variables=_WITHOUT_GPU,
    ),
    PackagedDeployment(
        module="gpu_core.flows.verify_savings",
        function="verify_savings",
        name="nightly",
        description="Compare the measured savings of applied proposals with their predicted "
        "savings.",
        tags=("gpu", "savings"),
        job_variables=_WITHOUT_GPU,
        cron="0 3 * * *",
    ),
    PackagedDeployment(
        module="gpu_core.flows.compare_inference",
        function="compare_inference",
        name="by-request",
        description="Compare the cost and latency of inference across batch sizes, precisions "
        "and GPU sharing.",
        tags=("gpu", "experiment"),
        job_variables=_ONE_GPU,
    ),
    PackagedDeployment(
        module="gpu_core.flows.optimize_inference",
        function="optimize_inference",
        name="by-request",
        description="Reduce the cost of inference by optimizing the batch size, precision and "
        "GPU type.",
        tags=("gpu", "experiment"),
        job_variables=_ONE_GPU,
    ),
    PackagedDeployment(
        module="gpu_core.flows.compare_serving",
        function="compare_serving",
        name="by-request",
        description="Compare batch sizes for low-priority requests by cost and interactive p99 "
        "latency.",
        tags=("gpu", "experiment"),
        job_variables=_ONE_GPU,
    ),
    PackagedDeployment(
        module="gpu_core.flows.compare_scaling",
        function="compare_scaling",
        name="by-request",
        description="Compare the cost and p99 latency of fixed and autoscaled replicas over a day.",
        tags=("gpu", "experiment"),
        job_variables=_ONE_GPU,
    ),
    PackagedDeployment(
        module="gpu_core.flows.run_sweep",
        function="run_sweep",
        name="by-dollars",
        description="Allocate more budget to the best trials of a sweep and pause all other "
        "trials.",
        tags=("gpu", "experiment"),
        job_variables={"gpu_count": 0, "team": "platform", "project": "gpu-experiments"},
        # Two passes at once could give the same dollars twice.
        concurrency_limit=1,
    ),
    PackagedDeployment(
        module="gpu_core.flows.refresh_catalog",
        function="refresh_catalog",
        name="daily",
        description="Retrieve current AWS prices, which are used to calculate the cost of new "
        "runs.",
        tags=("gpu", "prices"),
        job_variables=_WITHOUT_GPU,
        cron="0 1 * * *",
        is_paused=True,
    ),
    PackagedDeployment(
        module="gpu_core.flows.run_container",
        function="run_container",
        name="container-job",
        description="Run a command in a container image on GPUs, both specified as job variables.",
        tags=("gpu", "container"),
        job_variables={"gpu_count": 1},
        pool_type=GpuKubernetesWorker.type,
    ),
)


async def have_packaged_deployments(
    session: Session,
    pool: str,
    pool_type: str,
    project: Iterable[Deployment],
) -> None:
    """Have the deployments of this package's flows in this pool; what people edited is kept.

    Args:
        session: The connection.
        pool: The work pool.
        pool_type: Its type.
        project: The deployments of the project, which come before ours of the same name.
    """
    mine = [deployment for deployment in project if deployment.pool == pool]
    for packaged in PACKAGED_DEPLOYMENTS:
        if packaged.pool_type in (None, pool_type) and not packaged.is_in(mine):
            await _have_deployment(session, pool, packaged)


async def _have_deployment(session: Session, pool: str, packaged: PackagedDeployment) -> None:
    flow: Flow[..., Any] = getattr(import_module(packaged.module), packaged.function)
    name, found = packaged.name, await _read(session, f"{flow.name}/{packaged.name}")
    if found is not None and found.work_pool_name != pool:
        # The plain name is another pool's.
        name = f"{packaged.name}-{pool_block_name(pool)}"
        found = await _read(session, f"{flow.name}/{name}")
    label = f"deployment {flow.name}/{name}"
    schema = parameter_schema(flow).model_dump(exclude_unset=True)
    if found is None:
        if not session.dry_run:
            await _create(session, pool, packaged, flow, name, schema)
        say("+", label, session.did("created"))
        return
    _say_where_policy_is_gone(label, found.parameters)
    changes: dict[str, Any] = {
        field: value
        for field, value in (
            ("entrypoint", packaged.entrypoint),
            ("parameter_openapi_schema", schema),
        )
        if getattr(found, field) != value
    }
    if not changes:
        say("=", label, "unchanged")
        return
    if "entrypoint" in changes:
        # An earlier version ran the file of a checkout, to which these steps led.
        changes |= {"pull_steps": [], "path": None}
    if not session.dry_run:
        await session.client.update_deployment(found.id, DeploymentUpdate(**changes))
    say("~", label, f"{', '.join(sorted(changes))} {session.did('changed')}")


def _say_where_policy_is_gone(label: str, parameters: Mapping[str, Any]) -> None:
    """Name a policy that is no file here. It stays: the machine where its runs are may have it."""
    kept = parameters.get("policy")
    if isinstance(kept, str) and not Path(kept).is_file():
        say(
            "!",
            label,
            f"the `policy` parameter refers to {kept!r}, which does not exist on this machine. "
            "If you remove the parameter, the policy recorded in the ledger will be used",
        )


async def _read(session: Session, name: str) -> DeploymentResponse | None:
    try:
        return await session.client.read_deployment_by_name(name)
    except ObjectNotFound:
        return None


async def _create(
    session: Session,
    pool: str,
    packaged: PackagedDeployment,
    flow: Flow[..., Any],
    name: str,
    schema: dict[str, Any],
) -> None:
    flow_id = await session.client.create_flow_from_name(flow.name)
    schedules = []
    if packaged.cron is not None:
        schedule = CronSchedule(cron=packaged.cron, timezone="UTC")
        schedules.append(
            DeploymentScheduleCreate(
                schedule=schedule, slug=packaged.name, active=not packaged.is_paused
            )
        )
    await session.client.create_deployment(
        flow_id=flow_id,
        name=name,
        schedules=schedules,
        description=packaged.description,
        work_pool_name=pool,
        tags=list(packaged.tags),
        entrypoint=packaged.entrypoint,
        parameter_openapi_schema=schema,
        job_variables=dict(packaged.job_variables),
        enforce_parameter_schema=True,
        concurrency_limit=packaged.concurrency_limit,
    )
