"""GPU types and teams of a prefect.yaml that its pool probably does not have."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TypeGuard

from gpu_core.cli.project.file import Deployment, ProjectFile, is_template
from gpu_core.decisions.checks.files.findings import FileFinding, of_error
from gpu_core.decisions.checks.files.misspelled_names import (
    MISSPELLED_GPU_TYPE,
    MISSPELLED_TEAM,
    doubt_of_gpu_type,
    doubt_of_team,
)
from gpu_core.decisions.kubernetes.lint import Severity
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.requests.variables.variable_values import AUTO


def doubts_of_project(
    deployments: Iterable[Deployment], project: ProjectFile, policy: Policy | None
) -> list[FileFinding]:
    """Warnings of names in deployments that can be right, and probably are not.

    Args:
        deployments: Those of this policy's pool.
        policy: Of the pool; None: it is not known.
    """
    return [
        finding
        for deployment in deployments
        for variable, code, doubt in _doubts(deployment, policy)
        for finding in _findings(project, deployment, variable, doubt, code)
    ]


def _doubts(deployment: Deployment, policy: Policy | None) -> Iterator[tuple[str, str, str | None]]:
    """The job variable, the code and the doubt, if there is one."""
    asked = deployment.variables.get("gpu_type")
    for name in asked if isinstance(asked, list) else [asked]:
        if _is_name(name) and name != AUTO:
            doubt = doubt_of_gpu_type(name.strip().lower(), policy)
            yield "gpu_type", MISSPELLED_GPU_TYPE, doubt
    team = deployment.variables.get("team")
    if _is_name(team) and policy is not None:
        yield "team", MISSPELLED_TEAM, doubt_of_team(team, policy)


def _findings(
    project: ProjectFile, deployment: Deployment, variable: str, doubt: str | None, code: str
) -> Iterator[FileFinding]:
    if doubt is None:
        return
    error = InvalidInput(f"work_pool.job_variables.{variable}", doubt)
    for finding in of_error(project.located(deployment, error), project.source):
        yield replace(finding, severity=Severity.WARNING, code=code)


def _is_name(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and not is_template(value)
