"""Can the deployments of a prefect.yaml run in their pools?"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_core.cli.project.file import Deployment, ProjectFile, is_template
from gpu_core.decisions.kubernetes.variables.prefect_fields import PREFECT_FIELDS
from gpu_core.decisions.kubernetes.variables.variables import parse_pod_request
from gpu_core.decisions.model.errors import InvalidInput, listed, nearest_name
from gpu_core.decisions.model.pydantic_errors import known_names, mistakes_in
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.requests.variables.job_variables import GpuRequest, parse_request
from gpu_core.worker import WORKERS, GpuKubernetesWorker


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFacts:
    """A work pool, as far as deployments depend on it."""

    name: str
    type: str
    variables: frozenset[str] = frozenset()
    """The names of the job variables in its template."""
    defaults: Mapping[str, object] = field(default_factory=dict)
    """The defaults of those variables."""
    queues: frozenset[str] | None = None
    """The queues that it has; None: they are the policy's."""

    @property
    def has_gpus(self) -> bool:
        """Is one of our workers for it?"""
        return self.type in WORKERS


def check_deployments(
    project: ProjectFile, pools: Mapping[str, PoolFacts], policy: Policy, *, is_cloud: bool
) -> tuple[list[InvalidInput], list[str]]:
    """The mistakes in the deployments on these pools, and the parts that could not be checked.

    Args:
        is_cloud: Whether the server is Prefect Cloud, which alone has service levels.

    Returns:
        The mistakes in the order of the file, and a line for each part that was not checked.
    """
    problems: list[InvalidInput] = []
    unchecked: list[str] = []
    for deployment in project.deployments:
        found = [] if is_cloud else _of_cloud(deployment)
        pool = None if deployment.pool is None else pools.get(deployment.pool)
        if deployment.pool is not None and is_template(deployment.pool):
            unchecked.append(f"{_label(deployment)}: the pool {deployment.pool!r} is a template")
        elif deployment.pool is not None and pool is None:
            found.append(_missing_pool(deployment.pool, pools))
        elif pool is not None and not pool.has_gpus:
            unchecked.append(f"{_label(deployment)}: the type of its pool is {pool.type}")
        elif pool is not None:
            found += _queue_problems(deployment, pool, policy)
            found += _variable_problems(deployment, pool)
            unchecked += [
                f"{_label(deployment)}: {name} is a template"
                for name, value in deployment.variables.items()
                if is_template(value)
            ]
        problems += [project.located(deployment, error) for error in found]
    return problems, unchecked


def left_behind(project: ProjectFile, pools: Mapping[str, PoolFacts]) -> list[str]:
    """The deployments whose code is in this folder only, where no pod finds it.

    `prefect deploy` gives one without steps the path of this folder. A flow of an installed module
    needs none.

    Returns:
        A label for each.
    """
    if project.has_steps:
        return []
    clusters = {name for name, pool in pools.items() if pool.type == GpuKubernetesWorker.type}
    return [
        _label(deployment)
        for deployment in project.deployments
        if deployment.pool in clusters
        and ":" in deployment.entrypoint
        and not _is_container(deployment)
        and "container_command" not in deployment.variables
        and not any(deployment.data.get(steps) for steps in ("build", "pull"))
    ]


def _label(deployment: Deployment) -> str:
    return f"deployment {deployment.name}"


def _of_cloud(deployment: Deployment) -> list[InvalidInput]:
    if not deployment.data.get("sla"):
        return []
    return [InvalidInput("sla", "is only supported by Prefect Cloud", remedy="remove it")]


def _missing_pool(name: str, pools: Mapping[str, PoolFacts]) -> InvalidInput:
    return InvalidInput(
        "work_pool.name",
        "is not a work pool on this server",
        got=name,
        allowed=listed(pools),
        nearest=nearest_name(name, pools),
        remedy=f"to create it, run `prefect-gpu setup --pool {name}`",
    )


def _queue_problems(deployment: Deployment, pool: PoolFacts, policy: Policy) -> list[InvalidInput]:
    queue = deployment.queue
    if not isinstance(queue, str) or is_template(queue):
        return []
    known = sorted(policy.priorities) if pool.queues is None else sorted(pool.queues)
    is_of_policy = pool.queues is None and policy.priority_of_queue(queue) is not None
    if is_of_policy or queue in known:
        return []
    owner = "the policy" if pool.queues is None else f"the pool {pool.name!r}"
    return [
        InvalidInput(
            "work_pool.work_queue_name",
            f"is not a queue of {owner}",
            got=queue,
            allowed=listed(known),
            nearest=nearest_name(queue, known),
        )
    ]


def _variable_problems(deployment: Deployment, pool: PoolFacts) -> list[InvalidInput]:
    given = {name: value for name, value in deployment.variables.items() if isinstance(name, str)}
    ours = {*known_names(GpuRequest)}
    of_pool = {*_template_variables(pool.type), *pool.variables} - ours
    if pool.type == GpuKubernetesWorker.type:
        of_pool |= {field.name for field in PREFECT_FIELDS}  # refused below, with the reason
    of_clusters = _template_variables(GpuKubernetesWorker.type) - of_pool - ours
    problems = [
        InvalidInput(
            name,
            f"requires a pool of type {GpuKubernetesWorker.type}",
            got=given[name],
            remedy=f"the pool {pool.name!r} is of type {pool.type}. Choose another pool, or "
            "remove the job variable",
        )
        for name in given
        if name in of_clusters
    ]
    # None is as good as not given: the name is checked, what its template brings is not.
    known = {
        name: None if is_template(value) else value
        for name, value in given.items()
        if name not in of_clusters
    }
    problems += mistakes_in(lambda: parse_request(known, of_pool))
    if pool.type == GpuKubernetesWorker.type:
        problems += mistakes_in(lambda: parse_pod_request(known, pool.defaults))
    moved_here = [each.at(f"work_pool.job_variables.{each.field}") for each in problems]
    if pool.type != GpuKubernetesWorker.type and not problems and _is_container(deployment):
        moved_here.append(
            InvalidInput(
                "entrypoint",
                f"represents a container and requires a pool of type {GpuKubernetesWorker.type}",
                got=deployment.entrypoint,
                remedy=f"the pool {pool.name!r} is of type {pool.type}. Choose another pool",
            )
        )
    return moved_here


def _is_container(deployment: Deployment) -> bool:
    return deployment.entrypoint.endswith(
        ("run_container.py:run_container", "run_container.run_container")
    )


def template_variables(template: Mapping[str, Any]) -> frozenset[str]:
    """The names of the job variables of a pool's template."""
    return frozenset(template.get("variables", {}).get("properties", {}))


def _template_variables(worker_type: str) -> frozenset[str]:
    return template_variables(WORKERS[worker_type].get_default_base_job_template())
