"""The mistakes in a pool's base job template that Prefect's own schema does not find."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpu_core.decisions.checks.files.findings import INVALID, FileFinding, without_field
from gpu_core.decisions.kubernetes.lint import Severity, lint
from gpu_core.decisions.kubernetes.manifests.job import build_job
from gpu_core.decisions.kubernetes.manifests.launch import Launch, Wanted
from gpu_core.decisions.kubernetes.variables.variables import parse_pod_request
from gpu_core.decisions.model.errors import InvalidInput, nearest_name, sentences
from gpu_core.decisions.model.pydantic_errors import known_names, mistakes_in
from gpu_core.decisions.model.units import count
from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy
from gpu_core.decisions.requests.runs.run_context import RunContext
from gpu_core.decisions.requests.variables.job_variables import GpuRequest, parse_request

_PROPERTIES = "variables.properties"


def template_findings(
    template: Mapping[str, Any],
    placeholders: Iterable[str],
    newest: Mapping[str, Any],
    *,
    has_pods: bool,
) -> Iterator[FileFinding]:
    """The mistakes in the form of the pool and in its defaults.

    Args:
        placeholders: The names of the job variables that its `job_configuration` uses.
        newest: The template that this version gives to a new pool of the type.
    """
    section = template.get("variables")
    properties = section.get("properties") if isinstance(section, Mapping) else None
    if not isinstance(properties, Mapping):
        yield _error(_PROPERTIES, "is not a mapping of job variables to their schemas")
        return
    for name in sorted({*placeholders} - {*properties}):
        meant = nearest_name(name, properties)
        yield _error(
            "job_configuration",
            f"uses the variable {name!r}, which variables.properties does not have"
            + ("" if meant is None else f". Did you mean {meant!r}?"),
        )
    yield from _default_findings(properties, has_pods=has_pods)
    missing = sorted({*newest.get("variables", {}).get("properties", {})} - {*properties})
    if missing:
        yield FileFinding(
            severity=Severity.WARNING,
            code="variables-missing",
            path=_PROPERTIES,
            message=f"lacks {count(len(missing), 'job variable')} of this version "
            f"({', '.join(missing)}). To add them to the pool, run `prefect-gpu setup`.",
        )


def job_findings(manifest: Mapping[str, Any], policy: KubernetesPolicy) -> Iterator[FileFinding]:
    """The mistakes in the Job that a run on one GPU gets from this template.

    Args:
        manifest: The template's `job_manifest` with the defaults of its variables filled in.
    """
    try:
        job = build_job(manifest, _SAMPLE, policy).jobs[0]
    except InvalidInput as error:
        yield _error(f"job_configuration.{error.field}", without_field(error))
        return
    for finding in lint(job, policy):
        yield FileFinding(
            severity=finding.severity,
            code=finding.code,
            place="the Job of a run",
            path=finding.path,
            message=sentences(finding.problem, finding.remedy),
        )


# What a run on one GPU of any type asks for; lint rules are about what the template adds to it.
_SAMPLE = Launch(
    context=RunContext(
        flow_run_id="00000000-0000-4000-8000-000000000000",
        attempt=1,
        attempt_id="00000000-0000-4000-8000-000000000001",
        name="sample",
        team="sample",
        checkpoint_uri="s3://sample",
    ),
    shape=Shape(gpu_count=1),
    place=Wanted(),
    pool="sample",
)


def _default_findings(properties: Mapping[str, Any], *, has_pods: bool) -> Iterator[FileFinding]:
    defaults = {
        name: schema["default"]
        for name, schema in properties.items()
        if isinstance(schema, Mapping) and schema.get("default") is not None
    }
    others = {*properties} - {*known_names(GpuRequest)}
    errors = mistakes_in(lambda: parse_request(defaults, others))
    if has_pods:
        errors += mistakes_in(lambda: parse_pod_request(defaults))
    for error in errors:
        yield _error(f"{_PROPERTIES}.{error.field}.default", without_field(error))


def _error(path: str, message: str) -> FileFinding:
    return FileFinding(severity=Severity.ERROR, code=INVALID, path=path, message=message)
