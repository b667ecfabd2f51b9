"""Rules about Jobs: who retries, and what time limits count."""

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_core.decisions.kubernetes.lint.findings import (
    JobPlace,
    LintFinding,
    Severity,
    mapping,
    objects,
)

# Shorter than a meeting: a worker that was unavailable does not learn how a run ended.
_LEAST_KEPT_S = 3600


def retries(job: JobPlace) -> Iterator[LintFinding]:
    """The worker alone tries again."""
    limit = job.spec.get("backoffLimit")
    if limit != 0:
        yield LintFinding(
            code="two-owners-of-retries",
            path=f"{job.path}.backoffLimit",
            problem=(
                "Kubernetes would create a replacement pod in addition to the worker's next attempt"
            )
            + ("" if limit is not None else " (the default is 6)"),
            remedy="set 0",
        )
    if job.pod_spec.get("restartPolicy") != "Never":
        yield LintFinding(
            code="restart-policy",
            path=f"{job.path}.template.spec.restartPolicy",
            problem="the kubelet would restart the container without notifying the worker, "
            "and podFailurePolicy is rejected",
            remedy="set Never",
        )


def failure_policy(job: JobPlace) -> Iterator[LintFinding]:
    """An eviction ends the Job, and the rule for it comes first."""
    policy = job.spec.get("podFailurePolicy")
    if policy is None:
        return
    path = f"{job.path}.podFailurePolicy"
    if job.spec.get("podReplacementPolicy", "Failed") != "Failed":
        yield LintFinding(
            code="failure-policy-replacement",
            path=f"{job.path}.podReplacementPolicy",
            problem="only Failed is allowed if podFailurePolicy is set",
            remedy="leave it out",
        )
    seen_exit_codes = False
    for index, rule in objects(mapping(policy).get("rules")):
        where = f"{path}.rules[{index}]"
        if rule.get("onExitCodes"):
            seen_exit_codes = True
        disrupts = _names_disruption(rule)
        if disrupts and seen_exit_codes:
            yield LintFinding(
                code="failure-policy-order",
                path=where,
                problem="a preceding rule on exit codes counts evictions as failures",
                remedy="move the rule on DisruptionTarget before it",
            )
        if disrupts and rule.get("action") == "Ignore":
            yield LintFinding(
                code="failure-policy-ignore",
                path=f"{where}.action",
                problem="Kubernetes creates a replacement pod in addition to the worker's "
                "next attempt, so that the run is executed twice",
                remedy=(
                    "use FailJob, which allows the worker to detect the eviction and "
                    "reschedule the run"
                ),
            )
        for number, condition in objects(rule.get("onPodConditions")):
            if condition.get("status") is None:
                yield LintFinding(
                    code="failure-policy-status",
                    path=f"{where}.onPodConditions[{number}].status",
                    problem="it is required before Kubernetes 1.35",
                    remedy='write status: "True"',
                )


def deadlines(job: JobPlace) -> Iterator[LintFinding]:
    """Waiting for a node is not running, and an end is kept until the worker has read it."""
    if job.spec.get("activeDeadlineSeconds") is not None:
        yield LintFinding(
            code="deadline-counts-waiting",
            path=f"{job.path}.activeDeadlineSeconds",
            problem="the deadline includes the time spent waiting for a node",
            remedy="use `max_duration` or the pod's activeDeadlineSeconds instead",
            severity=Severity.WARNING,
        )
    kept_s = job.spec.get("ttlSecondsAfterFinished")
    if isinstance(kept_s, int) and kept_s < _LEAST_KEPT_S:
        yield LintFinding(
            code="kept-too-short",
            path=f"{job.path}.ttlSecondsAfterFinished",
            problem=(
                "the result of the run is lost if the worker is down for more than "
                f"{kept_s} seconds"
            ),
            remedy=f"must be at least {_LEAST_KEPT_S}",
            severity=Severity.WARNING,
        )


def fields(job: JobPlace) -> Iterator[LintFinding]:
    """Fields stand where they count, and the cluster knows them."""
    for name in ("parallelism", "completions"):
        if name in job.pod_spec:
            yield LintFinding(
                code="misplaced-field",
                path=f"{job.path}.template.spec.{name}",
                problem=(
                    "this is a field of the Job and not of its pod, and is rejected by "
                    "strict validation"
                ),
                remedy=f"move it to {job.path}.{name}",
            )
    known = job.policy.capabilities
    dropped = {
        "podFailurePolicy": known.pod_failure_policy,
        "completionMode": known.indexed_jobs,
        "suspend": known.suspended_jobs,
    }
    for name, is_known in dropped.items():
        if name in job.spec and not is_known:
            yield LintFinding(
                code="field-too-new",
                path=f"{job.path}.{name}",
                problem=f"silently ignored by Kubernetes {job.policy.version}",
                remedy="leave it out",
            )


def _names_disruption(rule: Mapping[str, Any]) -> bool:
    conditions = objects(rule.get("onPodConditions"))
    return any(condition.get("type") == "DisruptionTarget" for _, condition in conditions)


JOB_RULES = (retries, failure_policy, deadlines, fields)
