"""Checks of a pool, from the answers of the Prefect server."""

from collections.abc import Callable, Iterator

import prefect

from gpu_core.cli.doctor.prefect_facts import PrefectFacts
from gpu_core.decisions.checks.doctor.clocks import clock_findings
from gpu_core.decisions.checks.doctor.finding import Finding, failed, ok
from gpu_core.decisions.checks.doctor.prefect_pool import (
    heartbeat_findings,
    missing_pool_finding,
    pool_findings,
    unnamed_pool_finding,
)
from gpu_core.decisions.checks.doctor.template_drift import drift_findings
from gpu_core.decisions.checks.doctor.versions import prefect_version_finding
from gpu_core.decisions.model.errors import GpuSchedulingError
from gpu_core.decisions.policy.policy import Policy
from gpu_core.worker import WORKERS
from gpu_core.worker.operations.bounded_call import begin

_LONGEST_S = 20.0
"""For a dozen questions. Prefect's client tries again where the server is busy."""


def examine_prefect(
    read: Callable[[], PrefectFacts], worker_type: str | None, policy: Policy
) -> tuple[PrefectFacts | None, list[Finding]]:
    """The state of the server and the pool, with findings.

    Args:
        worker_type: The type that the caller expects; None: any of ours.

    Returns:
        What the server says; None: it does not answer. And the findings.
    """
    check = "prefect.api"
    try:
        facts = begin(read).result(_LONGEST_S)
    except TimeoutError:
        text = f"timed out after {_LONGEST_S:.0f}s"
        return None, [failed(check, text, "please check the server logs and PREFECT_API_URL")]
    except GpuSchedulingError as error:
        return None, [failed(check, str(error))]
    except Exception as error:
        return None, [failed(check, f"an error occurred: {type(error).__name__}: {error}")]
    found = [
        prefect_version_finding(prefect.__version__, facts.version, is_cloud=facts.is_cloud),
        ok(check, f"{facts.address} answers in {facts.latency_s:.2f} s"),
    ]
    found += clock_findings([facts.clock])
    return facts, [*found, *_pool(facts, worker_type, policy)]


def _pool(facts: PrefectFacts, worker_type: str | None, policy: Policy) -> Iterator[Finding]:
    status = facts.pool
    if facts.pool_name is None:
        yield unnamed_pool_finding(facts.gpu_pools, worker_type)
        return
    if status is None:
        yield missing_pool_finding(facts.pool_name, facts.gpu_pools, worker_type)
        return
    yield from pool_findings(status, policy.priorities, worker_type)
    if status.worker_type not in WORKERS:
        return
    now = facts.clock.theirs or facts.clock.ours
    yield from heartbeat_findings(status.name, status.worker_type, facts.heartbeats, now)
    newest = WORKERS[status.worker_type].get_default_base_job_template()
    yield from drift_findings(status.name, status.worker_type, facts.template, newest)
