"""One case for each reason to wait and each end of an attempt, made by the code that makes them."""

from collections.abc import Callable, Mapping
from typing import Any

from prefect.client.schemas.responses import (
    DeploymentResponse,
    GlobalConcurrencyLimitResponse,
)

from gpu_core.decisions.attempts.settlement import EndFacts, settle
from gpu_core.decisions.checks.prefect.concurrency_limits import kept_back
from gpu_core.decisions.checks.prefect.pool_status import PoolStatus, QueueStatus
from gpu_core.decisions.kubernetes.manifests.commands import held_if_ambiguous
from gpu_core.decisions.kubernetes.variables.variables import PodRequest
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.cluster import Snapshot
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.model.workload import Hold
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.requests.runs.permissions import permitted
from gpu_core.decisions.requests.runs.run_tags import HOLD_TAG, held_by_tag
from gpu_core.decisions.requests.runs.run_workload import workload_from_request
from gpu_core.decisions.requests.variables.job_variables import GpuRequest
from gpu_core.decisions.scheduling.cycle.planner import plan_cycle
from gpu_core.decisions.scheduling.queue.waiting_bounds import WaitingRun, refused_runs
from gpu_core.decisions.spot.availability_tracker import SpotAvailabilityTracker
from gpu_core.decisions.spot.capacity_view import CapacityView
from gpu_core.decisions.spot.next_attempt import NextAttempts
from gpu_core.decisions.spot.retry_backoff import postponed_hold
from gpu_core.testing.builders.attempts import make_attempt
from gpu_core.testing.builders.workloads import (
    HIGH,
    NOW,
    ago,
    make_node,
    make_policy,
    make_snapshot,
    make_workload,
)
from gpu_core.worker.attempts.run_faults import RunFaults
from gpu_core.worker.pending.demand import deployment_hold
from tests.gpu_core.decisions.scheduling.test_dominant_reason import (
    AHEAD,
    BUDGET,
    CLOSURE,
    FULL,
    HALF,
    ONE_NODE,
    PROTECTED,
    lasting,
    team_quota,
)
from tests.gpu_core.decisions.spot.test_next_attempt import BOTH, due_in, holding

Sentences = tuple[str, str]


def _planned(snapshot: Snapshot, policy: Policy | None = None) -> Sentences:
    last = plan_cycle(snapshot, policy or make_policy(), NOW).explanations
    found = next(e for e in last if e.workload_id == snapshot.pending[-1].workload_id)
    return found.summary, found.resolution


def _waiting(*pending: Any, running: Any = (FULL,), policy: Policy | None = None) -> Sentences:
    return _planned(make_snapshot((ONE_NODE,), running, pending), policy)


def _held(hold: Hold | None) -> Sentences:
    assert hold is not None
    return hold.summary, hold.resolution


def _kept_back(**pool: Any) -> Sentences:
    status = PoolStatus(name="gpu", worker_type="gpu-process", **pool)
    return _held(kept_back(status, [("run", "low")])["run"])


def _failed() -> Sentences:
    faults = RunFaults()
    faults.note("run", "train", "planned", ValueError("a wrong value"), NOW)
    return _held(faults.hold("run", NOW))


def _requested(queue: str, policy: Policy, **variables: Any) -> Sentences:
    workload = workload_from_request(
        GpuRequest(**variables),
        workload_id="run",
        name="train",
        queue=queue,
        submitted_at=NOW,
        policy=policy,
    )
    return _held(permitted(workload, queue, policy).hold)


def _refused(**bounds: Any) -> Sentences:
    ages_s = {"first": 120, "later": 30}
    runs = [
        WaitingRun(make_workload(name, submitted_at=ago(age_s)), ago(age_s), has_begun=False)
        for name, age_s in ages_s.items()
    ]
    (refused,) = refused_runs(runs, make_policy(waiting=bounds).waiting, NOW)
    return _held(refused.why)


def _postponed(**fields: Any) -> Sentences:
    attempt = make_attempt(
        admitted_at=NOW, released_at=NOW, end_reason=EndReason.POSTPONED, **fields
    )
    return _held(postponed_hold([attempt], NOW))


def _for_spot() -> Sentences:
    view = CapacityView(
        BOTH,
        make_policy(),
        NOW,
        allocations=[holding("s1")],
        availability=SpotAvailabilityTracker(),
    )
    return _held(NextAttempts(view).of(due_in(20), []).hold)


def _ambiguous() -> Sentences:
    request = PodRequest(command=["python", "train.py"])
    return _held(held_if_ambiguous(make_workload(), request, has_deployment=True).hold)


def _at_deployment_limit() -> Sentences:
    limit = GlobalConcurrencyLimitResponse.model_construct(limit=2, active_slots=2)
    deployment = DeploymentResponse.model_construct(global_concurrency_limit=limit)
    return _held(deployment_hold(deployment))


_LIMITED = QueueStatus(name="low", concurrency_limit=2, active=2)
_PERMISSIONS = {"default": {"max_gpus_per_run": 2}}

WAITING: Mapping[Reason, Callable[[], Sentences]] = {
    Reason.INTERNAL_ERROR: _failed,
    Reason.UNKNOWN_QUEUE: lambda: _requested("mediun", make_policy()),
    Reason.AMBIGUOUS_COMMAND: _ambiguous,
    Reason.NOT_PERMITTED: lambda: _requested(
        "low", make_policy(permissions=_PERMISSIONS), gpu_count=4, team="vision"
    ),
    Reason.QUEUE_FULL: lambda: _refused(max_runs=1),
    Reason.EXPIRED: lambda: _refused(expires_after="1m"),
    Reason.DEPLOYMENT_LIMIT: _at_deployment_limit,
    Reason.POOL_PAUSED: lambda: _kept_back(is_paused=True),
    Reason.QUEUE_PAUSED: lambda: _kept_back(queues=(QueueStatus(name="low", is_paused=True),)),
    Reason.POOL_LIMIT: lambda: _kept_back(
        concurrency_limit=2, queues=(QueueStatus(name="low", active=2),)
    ),
    Reason.QUEUE_LIMIT: lambda: _kept_back(queues=(_LIMITED,)),
    Reason.EXCEEDS_CLUSTER: lambda: _waiting(make_workload("w", 3)),
    Reason.EXCEEDS_QUOTA: lambda: _waiting(
        make_workload("w", 2, team="a"), running=(), policy=team_quota(1, 0)
    ),
    Reason.HELD: lambda: _held(held_by_tag([HOLD_TAG])),
    Reason.BUDGET_EXCEEDED: lambda: _waiting(
        make_workload("w", run_time=lasting(3_600)),
        running=(),
        policy=make_policy(budgets=[BUDGET]),
    ),
    Reason.WAITING_FOR_SPOT: _for_spot,
    Reason.WAITING_FOR_CLUSTER_QUOTA: lambda: _postponed(
        end_message="The pod was rejected by a ResourceQuota of the namespace: 8 of 8 GPUs are "
        "used."
    ),
    Reason.WAITING_FOR_PLATFORM: lambda: _postponed(
        end_message="Postponed: the disk was full.", settlement={"excused_at": NOW.isoformat()}
    ),
    Reason.PREVIOUS_ATTEMPT_ENDING: lambda: _waiting(make_workload("r")),
    Reason.WAITING_FOR_VICTIMS: lambda: _waiting(make_workload("w", priority=HIGH)),
    Reason.MIN_RUNTIME_PROTECTS: lambda: _waiting(
        make_workload("w", priority=HIGH), running=(PROTECTED,)
    ),
    Reason.USER_LIMIT: lambda: _waiting(
        make_workload("w", 2, user="u"),
        running=(),
        policy=make_policy(limits={"max_gpus_per_user": 1}),
    ),
    Reason.WAITING_FOR_QUOTA: lambda: _planned(
        make_snapshot((make_node("n1", 4),), (FULL,), (make_workload("w", 1, team="a"),)),
        team_quota(2, 0),
    ),
    Reason.CAPACITY_CLOSED: lambda: _waiting(
        make_workload("w", run_time=lasting(3_600)),
        running=(),
        policy=make_policy(calendar={"closures": [CLOSURE]}),
    ),
    Reason.RESERVED_AHEAD: lambda: _waiting(AHEAD, make_workload("w"), running=(HALF,)),
    Reason.WAITING_FOR_GPUS: lambda: _waiting(make_workload("w")),
    Reason.BEHIND_OTHERS: lambda: _waiting(AHEAD, make_workload("w")),
    Reason.STARTING: lambda: _waiting(make_workload("w"), running=()),
}


def _ended(state: str | None, **facts: Any) -> str:
    known = {"was_started": True, "exit_is_known": True, **facts}
    ended = EndFacts(prefect_state_type=state, **known)
    return settle(ended, max_failures=3, max_interruptions=None).message


def _drained(reason: EndReason, why: str, **facts: Any) -> str:
    return _ended("RUNNING", drain_reason=reason, drain_message=why, exit_code=-15, **facts)


ENDS: Mapping[EndReason, Callable[[], str]] = {
    EndReason.COMPLETED: lambda: _ended("COMPLETED", exit_code=0),
    EndReason.FAILED: lambda: _ended("FAILED", state_message="ValueError: no data", exit_code=1),
    EndReason.CRASHED: lambda: _ended("CRASHED", exit_code=-9),
    EndReason.CANCELLED: lambda: _drained(EndReason.CANCELLED, "The run was cancelled by a user."),
    EndReason.PREEMPTED: lambda: _drained(
        EndReason.PREEMPTED, "'urgent' has a higher priority and needs 4 GPUs."
    ),
    EndReason.INTERRUPTED: lambda: _ended(
        "RUNNING", is_interruption=True, exit_message="the provider took the node back"
    ),
    EndReason.TIMED_OUT: lambda: _drained(
        EndReason.TIMED_OUT, "The run exceeded the maximum duration of 2h 00m."
    ),
    EndReason.BUDGET_SPENT: lambda: _drained(
        EndReason.BUDGET_SPENT, "$10.00 of the run budget of $10.00 has been spent."
    ),
    EndReason.BUDGET_HELD: lambda: _drained(
        EndReason.BUDGET_HELD, "$99.90 of $100.00 of budget vision are used."
    ),
    EndReason.IDLE: lambda: _drained(
        EndReason.IDLE, "Never touched its GPUs for 45m 00s: utilization 0%."
    ),
    EndReason.HUNG: lambda: _drained(
        EndReason.HUNG, "No progress for 6m 10s after step 145: rank 3 on n1 (GPU-d) spins."
    ),
    EndReason.REFUSED: lambda: _ended(
        "PENDING", was_started=False, refusal="The image name is not valid"
    ),
    EndReason.POSTPONED: lambda: _ended(
        "PENDING",
        was_started=False,
        exit_is_known=False,
        drain_reason=EndReason.POSTPONED,
        drain_message="The pod was rejected by a ResourceQuota of the namespace",
    ),
    EndReason.SUSPENDED: lambda: _ended("PAUSED", exit_code=0),
}
