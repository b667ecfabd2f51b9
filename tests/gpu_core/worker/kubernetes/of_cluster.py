"""The infrastructure of a pool in a cluster that a test makes up, and its attempts."""

from pathlib import Path
from types import SimpleNamespace

from gpu_core.decisions.attempts.phase import AttemptPhase
from gpu_core.decisions.kubernetes.manifests.names import ATTEMPT_ID_LABEL, RANK_LABEL
from gpu_core.decisions.model.workload import Workload
from gpu_core.decisions.requests.runs.run_workload import RunLimits
from gpu_core.decisions.requests.variables.job_variables import GpuRequest
from gpu_core.testing.builders.attempts import NOON, make_attempt, make_run
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.kubernetes.infrastructure import KubernetesInfrastructure
from gpu_core.worker.prefect.starts_first import StartsFirst
from tests.gpu_core.worker.kubernetes.objects import make_pod, moment

LIMITS = RunLimits(max_duration_s=None, max_failures=3, max_interruptions=None)


def of_cluster(api, prefect_secrets=None, template=dict):
    """The infrastructure of a pool in this cluster, before any watch reported anything."""
    return KubernetesInfrastructure(
        api,
        output_api=api,
        pool="gpu",
        namespace="ml",
        client=SimpleNamespace(),
        wake=lambda: None,
        may_act=lambda: True,
        starts=StartsFirst(),
        prefect_secrets=prefect_secrets or {},
        template=template,
    )


def running(**attempt):
    """An attempt whose Job was asked for; there was no answer."""
    return AttemptState(
        attempt=make_attempt(**attempt),
        record=make_run(),
        workload=Workload(workload_id="run-1", name="run", priority=1, submitted_at=NOON),
        request=GpuRequest(),
        limits=LIMITS,
        run_dir=Path("unused"),
        phase_at_first=None if attempt.get("started_at") else AttemptPhase.ADMITTED,
    )


def of_rank(rank, phase, code=None, at_s_ago=0):
    ended = {"exitCode": code, "finishedAt": moment(at_s_ago)} if code is not None else None
    return make_pod(
        phase,
        uid=f"rank-{rank}",
        terminated=ended,
        labels={ATTEMPT_ID_LABEL: "a", RANK_LABEL: str(rank)},
    )
