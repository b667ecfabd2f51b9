"""Checks of a prefect.yaml and of a base job template, with Prefect's own models."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from prefect.utilities.templating import apply_values, find_placeholders

from gpu_core.cli.check.documents import Document
from gpu_core.cli.project.checks import PoolFacts, check_deployments, template_variables
from gpu_core.cli.project.doubts import doubts_of_project
from gpu_core.cli.project.file import Deployment, ProjectFile, parse_project_file
from gpu_core.decisions.checks.files.findings import INVALID, FileFinding, of_error
from gpu_core.decisions.checks.files.job_template import job_findings, template_findings
from gpu_core.decisions.kubernetes.lint import Severity
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.pydantic_errors import known_names
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.requests.variables.job_variables import GpuRequest
from gpu_core.worker import GpuKubernetesWorker, GpuProcessWorker

# The type of a pool is cannot be determined without a connection to the server.
_UNKNOWN_TYPE = "cannot be determined without a connection to the server"


def check_project(
    text: str, source: str, policy: Policy | None
) -> tuple[list[FileFinding], list[str]]:
    """The mistakes in a prefect.yaml, and the parts that could not be checked.

    Args:
        policy: Of its pools, for the names of their queues; None: none is known.
    """
    try:
        project = parse_project_file(text, source)
    except InvalidInput as error:
        return of_error(error, source), []
    pools = {pool.name: pool for pool in _assumed_pools(project, policy)}
    problems, unchecked = check_deployments(
        project, pools, policy or Policy(version=1), is_cloud=True
    )
    mistakes = [*project.problems, *problems]
    errors = [each for error in mistakes for each in of_error(error, source)]
    found = [*errors, *doubts_of_project(project.deployments, project, policy)]
    return sorted(found, key=lambda finding: finding.line or 0), unchecked


def _assumed_pools(project: ProjectFile, policy: Policy | None) -> Iterable[PoolFacts]:
    """The pools that the file names, each of the type that its deployments are written for."""
    by_pool: dict[str, list[Deployment]] = {}
    for deployment in project.deployments:
        if deployment.pool is not None:
            by_pool.setdefault(deployment.pool, []).append(deployment)
    for name, deployments in by_pool.items():
        variables = {str(key) for each in deployments for key in each.variables}
        queues = frozenset(each.queue for each in deployments if isinstance(each.queue, str))
        yield PoolFacts(
            name=name, type=_type_for(variables), queues=queues if policy is None else None
        )


def _type_for(variables: set[str]) -> str:
    of_processes = template_variables(GpuProcessWorker.get_default_base_job_template())
    if not variables & {*known_names(GpuRequest)}:
        return _UNKNOWN_TYPE
    return GpuProcessWorker.type if variables <= of_processes else GpuKubernetesWorker.type


def check_job_template(document: Document, policy: Policy) -> list[FileFinding]:
    """The mistakes in a pool's base job template."""
    template: Mapping[str, Any] = document.data
    configuration = template["job_configuration"]
    if not isinstance(configuration, Mapping):
        message = "is not a mapping. You can create a valid template with `prefect-gpu setup`"
        return [_error("job_configuration", message)]
    manifest = configuration.get("job_manifest")
    has_pods = "job_manifest" in configuration
    kind = GpuKubernetesWorker if has_pods else GpuProcessWorker
    names = {found.name for found in find_placeholders(dict(configuration))}
    newest = kind.get_default_base_job_template()
    findings = list(template_findings(template, names, newest, has_pods=has_pods))
    if not has_pods:
        return findings
    if not isinstance(manifest, Mapping):
        return [*findings, _error("job_configuration.job_manifest", "is not a Job")]
    return [
        *findings,
        *_guarded(lambda: list(job_findings(_rendered(template), policy.kubernetes))),
    ]


def _guarded(find: Callable[[], list[FileFinding]]) -> list[FileFinding]:
    """The findings. A manifest that does not match the structure of a Job is also a mistake."""
    try:
        return find()
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        message = f"does not match the structure of a Job ({type(error).__name__}: {error})"
        return [_error("job_configuration.job_manifest", message)]


def _rendered(template: Mapping[str, Any]) -> dict[str, Any]:
    """The Job as Prefect renders it for a run that brings no variable."""
    properties = template["variables"]["properties"]
    defaults = {
        name: schema["default"]
        for name, schema in properties.items()
        if isinstance(schema, Mapping) and schema.get("default") is not None
    }
    found: dict[str, Any] = apply_values(template["job_configuration"]["job_manifest"], defaults)
    return found


def _error(path: str, message: str) -> FileFinding:
    return FileFinding(severity=Severity.ERROR, code=INVALID, path=path, message=message)
