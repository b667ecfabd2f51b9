"""Is this prefect.yaml right? Prefect drops misspelt keys and creates misspelt queues."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from gpu_core.decisions.errors import InvalidInput, listed, nearest_name
from gpu_core.decisions.policy import Policy
from gpu_core.decisions.request import GpuRequest, parse_request
from gpu_core.worker import WORKERS

# Job variables that Prefect's machinery or the pods read. A file does not say of which type its
# pool is, so that those of all types are known.
_NOT_OURS = frozenset(
    name for worker in WORKERS.values() for name in worker.job_configuration_variables.model_fields
).difference(GpuRequest.model_fields)


def check_project_file(path: Path, pool: str, policy: Policy) -> list[str]:
    """Read a prefect.yaml and check what concerns this pool. Returns its deployments' names.

    Raises:
        InvalidInput: The file cannot be read, or a deployment names a queue that the policy does
            not know or a job variable that cannot be used.
    """
    deployments = _deployments(path)
    for index, deployment in enumerate(deployments):
        work_pool = deployment.get("work_pool") or {}
        if work_pool.get("name") == pool:
            _check(
                f"{path.name}: deployments[{index}] {deployment.get('name')!r}", work_pool, policy
            )
    return [str(deployment.get("name")) for deployment in deployments]


def _deployments(path: Path) -> list[dict[str, Any]]:
    try:
        data = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise InvalidInput(path.name, f"is not YAML: {error}") from None
    deployments = data.get("deployments") if isinstance(data, dict) else None
    if not isinstance(deployments, list):
        raise InvalidInput(path.name, "has no list of deployments", allowed="deployments: [...]")
    return deployments


def _check(where: str, work_pool: Mapping[str, Any], policy: Policy) -> None:
    queue = work_pool.get("work_queue_name")
    if queue is not None and policy.priority_of_queue(queue) is None:
        raise InvalidInput(
            f"{where} work_pool.work_queue_name",
            "is not a queue of the policy",
            got=queue,
            allowed=listed(policy.priorities),
            nearest=nearest_name(queue, policy.priorities),
        )
    try:
        parse_request(work_pool.get("job_variables") or {}, _NOT_OURS)
    except InvalidInput as error:
        raise InvalidInput(
            f"{where} work_pool.job_variables.{error.field}",
            error.problem,
            got=error.got,
            allowed=error.allowed,
            nearest=error.nearest,
            remedy=error.remedy,
        ) from None
