"""`prefect-gpu setup`: creates or updates pool, queues, blocks and deployments."""

import os
from collections.abc import Mapping
from pathlib import Path

from prefect.client.base import ServerType
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import WorkPool

from gpu_core.adapters.files.policy_file import load_policy_and_lines
from gpu_core.adapters.prefect.work_pool import read_queues
from gpu_core.cli.project.checks import (
    PoolFacts,
    check_deployments,
    left_behind,
    template_variables,
)
from gpu_core.cli.project.doubts import doubts_of_project
from gpu_core.cli.project.file import ProjectFile, is_template, read_project_file
from gpu_core.cli.setup.addresses import with_checked_addresses
from gpu_core.cli.setup.blocks import have_blocks
from gpu_core.cli.setup.options import SetupOptions
from gpu_core.cli.setup.packaged import have_packaged_deployments
from gpu_core.cli.setup.pool import (
    check_defaults,
    check_pool_name,
    checked_type,
    have_pool,
    have_queues,
    read_pool,
)
from gpu_core.cli.setup.project import have_project_deployments
from gpu_core.cli.setup.session import Session, SetupError, say
from gpu_core.cli.shared.prefect_api import ask
from gpu_core.decisions.checks.files.findings import FileFinding
from gpu_core.decisions.checks.files.policy_doubts import doubts_of_policy
from gpu_core.decisions.model.pydantic_errors import refuse
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.requests.variables.env_variable import variable_defaults
from gpu_core.worker import GpuProcessWorker
from gpu_core.worker.startup.checks import read_settings

__all__ = ["SetupError", "SetupOptions", "setup"]

DEFAULT_POLICY = Path("deployments/policy.yaml")
DEFAULT_PROJECT = Path("prefect.yaml")


def setup(options: SetupOptions) -> int:
    """Make the Prefect server fit this project; print one line for each object.

    Raises:
        InvalidInput: An option, the policy or the prefect.yaml is wrong, or the server cannot be
            reached; nothing was changed.
        ApiError: The server refused a step or went away; the lines say what was done.
        SetupError: `prefect deploy` refused a deployment.
    """
    refuse(read_settings(os.environ)[1])
    options = with_checked_addresses(options)
    check_pool_name(options.pool)
    project_path = options.prefect_file or DEFAULT_PROJECT
    is_wanted = options.prefect_file is not None or project_path.is_file()
    project = read_project_file(project_path) if is_wanted else None
    policy, doubts = _policy(options.policy_path)

    async def steps(client: PrefectClient) -> None:
        session = Session(client, options.dry_run)
        await _apply(session, options, policy, doubts, project)

    ask(steps)
    return 0


def _policy(path: Path | None) -> tuple[Policy, list[str]]:
    """The policy and its doubts; without a file of it, built-in values."""
    if path is not None or DEFAULT_POLICY.is_file():
        found = path or DEFAULT_POLICY
        policy, lines = load_policy_and_lines(found)
        return policy, [_line(str(found), doubt) for doubt in doubts_of_policy(policy, lines)]
    say(
        "!",
        "policy",
        f"{DEFAULT_POLICY} not found, using the built-in policy. You can specify "
        "a policy file with --policy",
    )
    return Policy(version=1), []


def _line(file: str, doubt: FileFinding) -> str:
    place = file if doubt.line is None else f"{file}:{doubt.line}"
    return f"{place} {doubt.path}: {doubt.message}"


async def _apply(
    session: Session,
    options: SetupOptions,
    policy: Policy,
    doubts: list[str],
    project: ProjectFile | None,
) -> None:
    pool = await read_pool(session.client, options.pool)
    pool_type = checked_type(pool, options)
    check_defaults(pool)
    if project is not None:
        await _check(session.client, options, pool, pool_type, policy, project)
        own = [each for each in project.deployments if each.pool == options.pool]
        found = doubts_of_project(own, project, policy)
        doubts = [*doubts, *(_line(project.source, doubt) for doubt in found)]
    for doubt in doubts:
        say("!", *doubt.split(": ", 1))
    if session.dry_run:
        print("  Dry run: no changes will be made.", flush=True)
    await have_pool(session, options, pool, pool_type)
    queues = sorted(policy.priorities, key=lambda name: -policy.priorities[name])
    await have_queues(session, pool, options, queues)
    await have_blocks(session, options, is_local=pool_type == GpuProcessWorker.type)
    if project is None:
        say("=", "deployments", f"{DEFAULT_PROJECT} not found, skipping")
    else:
        await have_project_deployments(session, project)
    deployments = () if project is None else project.deployments
    await have_packaged_deployments(session, options.pool, pool_type, deployments)


async def _check(
    client: PrefectClient,
    options: SetupOptions,
    pool: WorkPool | None,
    pool_type: str,
    policy: Policy,
    project: ProjectFile,
) -> None:
    """Refuse all that is wrong in the file, together; say what was not checked.

    Raises:
        InvalidInput: Something is wrong in the file.
    """
    own = PoolFacts(
        name=options.pool,
        type=pool_type,
        variables=frozenset() if pool is None else template_variables(pool.base_job_template),
        defaults={} if pool is None else variable_defaults(pool.base_job_template),
    )
    pools = {options.pool: own, **await _other_pools(client, options.pool, project)}
    is_cloud = client.server_type is ServerType.CLOUD
    problems, unchecked = check_deployments(project, pools, policy, is_cloud=is_cloud)
    refuse([*project.problems, *problems])
    for line in unchecked:
        label, _, why = line.partition(": ")
        say("!", label, f"not validated: {why}")
    for label in left_behind(project, pools):
        say(
            "!",
            label,
            "the flow code is only stored in this directory, which is not accessible "
            "from pods. Please add a pull step",
        )


async def _other_pools(
    client: PrefectClient, own: str, project: ProjectFile
) -> Mapping[str, PoolFacts]:
    names = {each.pool for each in project.deployments if each.pool is not None}
    found = {}
    for name in sorted(names - {own}):
        pool = None if is_template(name) else await read_pool(client, name)
        if pool is None:
            continue
        queues = await read_queues(client, name)
        found[name] = PoolFacts(
            name=name,
            type=pool.type,
            variables=template_variables(pool.base_job_template),
            defaults=variable_defaults(pool.base_job_template),
            queues=frozenset(queue.name for queue in queues),
        )
    return found
