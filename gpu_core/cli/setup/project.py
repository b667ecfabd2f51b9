"""The deployments of the project's `prefect.yaml`, by `prefect deploy`."""

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterName,
)

from gpu_core.adapters.prefect.paging import read_all
from gpu_core.cli.project.file import Deployment, ProjectFile, is_template
from gpu_core.cli.setup.session import Session, SetupError, say

# Deployments in one answer of the server.
_FIELDS = (
    "entrypoint",
    "description",
    "tags",
    "parameters",
    "job_variables",
    "work_queue_name",
    "work_pool_name",
    "path",
    "pull_steps",
)


async def have_project_deployments(session: Session, project: ProjectFile) -> None:
    """Have the deployments of this file as it says."""
    names = sorted({each.name for each in project.deployments if each.name is not None})
    if not names:
        say("=", "deployments", f"{project.source} has none")
        return
    before = await _read(session.client, names)
    if session.dry_run:
        _say_what_would_change(project, before)
        return
    _deploy(project.source)
    for name, now in sorted((await _read(session.client, names)).items()):
        then = before.get(name)
        if then is None:
            say("+", f"deployment {name}", "created")
            continue
        changed = [field for field in now if now[field] != then[field]]
        say("~" if changed else "=", f"deployment {name}", ", ".join(changed) or "unchanged")


def _deploy(path: str) -> None:
    result = subprocess.run(
        # With -m this folder is on the path, which is where the project's own modules are.
        [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all", "--prefect-file", path],
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        said, reason = _reason(result.stdout + result.stderr)
        print(said, file=sys.stderr)
        raise SetupError(f"Failed to deploy {path}: {reason}")


def _reason(output: str) -> tuple[str, str]:
    """The output of `prefect deploy` without a traceback, and its last line, the reason."""
    lines = [line.rstrip() for line in output.splitlines() if line.strip()]
    traceback = next((at for at, line in enumerate(lines) if line.startswith("Traceback")), -1)
    return "\n".join(lines[:traceback]), lines[-1].strip() if lines else "no output"


def _say_what_would_change(project: ProjectFile, before: Mapping[str, Mapping[str, Any]]) -> None:
    """Print differences between the file and the server, those that are known before a deploy."""
    for deployment in project.deployments:
        found = [
            (name, fields)
            for name, fields in before.items()
            if name.rpartition("/")[2] == deployment.name
            and fields["entrypoint"] == deployment.entrypoint
        ]
        if not found:
            say("+", f"deployment {deployment.name}", "to be created")
            continue
        name, fields = found[0]
        wanted = _wanted(deployment)
        changed = sorted(key for key, value in wanted.items() if fields[key] != value)
        is_same = "no changes detected before deployment"
        say(
            "~" if changed else "=",
            f"deployment {name}",
            f"{', '.join(changed)} to be changed" if changed else is_same,
        )


def _wanted(deployment: Deployment) -> dict[str, Any]:
    data = deployment.data
    wanted = {
        "work_pool_name": deployment.pool,
        "job_variables": dict(deployment.variables),
        "parameters": data.get("parameters") or {},
        "tags": data.get("tags") or [],
    }
    if data.get("description"):
        wanted["description"] = data["description"]
    if deployment.queue is not None:
        wanted["work_queue_name"] = deployment.queue
    return {key: value for key, value in wanted.items() if not is_template(value)}


async def _read(client: PrefectClient, names: list[str]) -> dict[str, dict[str, Any]]:
    """The deployments of these names, of all flows, by `flow/name`."""
    wanted = DeploymentFilter(name=DeploymentFilterName(any_=names))
    deployments = await read_all(
        lambda limit, offset: client.read_deployments(
            deployment_filter=wanted, limit=limit, offset=offset
        )
    )
    found: dict[str, dict[str, Any]] = {}
    for deployment in deployments:
        flow = await client.read_flow(deployment.flow_id)
        fields = {field: getattr(deployment, field) for field in _FIELDS}
        # Prefect makes one without a description with "" or "None" at first, with None later.
        has_none = deployment.description in (None, "", "None")
        fields["description"] = None if has_none else deployment.description
        fields["schedules"] = [
            (schedule.slug, str(schedule.schedule), schedule.active)
            for schedule in deployment.schedules
        ]
        found[f"{flow.name}/{deployment.name}"] = fields
    return found
